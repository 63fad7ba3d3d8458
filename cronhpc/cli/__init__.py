"""The command line: the only place that reads the clock, prints, sets up logging and exits.

One file a group of commands, imported only when one of them is used; its COMMANDS holds them. Exit codes: 0 fine,
1 something needs attention (what passes by itself, too: a controller that does not answer), 2 usage or broken.
"""

from __future__ import annotations

import errno
import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from cronhpc.cli.console import Console
    from cronhpc.core.model import CronhpcError

FINE, ATTENTION, BROKEN, INTERRUPTED = 0, 1, 2, 130
SHIPPED = {  # what is printed without a command: a file of docs/
    "--completion": {"bash": "completion.bash", "zsh": "completion.bash"},
    "--reference": {"markdown": "reference.md", "man": "cronhpc.1"},
}
NO_ANSWER = 75  # to a link alone, which asks once more: "temporary failure" in sysexits.h


def entry_point() -> None:
    """The console script."""
    sys.path[:] = [os.path.realpath(each) for each in sys.path]  # as cronhpc.__path__
    gc.set_threshold(200_000)  # a command makes much, and drops little of it before it ends
    _open_streams()
    _libraries_back()
    os._exit(main())  # all is said and written by now: to take every object apart is a twelfth of an idle tick


def _open_streams() -> None:
    """A caller may have closed some (`cronhpc tick >&-`): what is said goes nowhere then, and the work is done.

    They are opened before any file is, which would get a stream's number, and what is printed with it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number:  # else it was the lowest number that is free
                os.dup2(nothing, number)
                os.close(nothing)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def _libraries_back() -> None:
    """The launcher that deploy/install makes keeps the job's libraries from this Python, not from what we start."""
    jobs = os.environ.pop("CRONHPC_LIBRARIES", "")
    if jobs:
        os.environ["LD_LIBRARY_PATH"] = jobs


_OF_ANSWERS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF)


def main(argv: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Run one command; its exit code. Nothing but a mistake of ours ends in a traceback."""
    from cronhpc.cli.console import Console
    from cronhpc.core.model import CronhpcError, joined

    arguments = list(sys.argv[1:] if argv is None else argv)
    console = console or Console.here()
    try:
        parsed = _parsed(arguments, console)
        if isinstance(parsed, int):
            code = parsed
        else:
            args, run = parsed
            console = console.about(args)
            code = run(args, console)
        console.out.flush()
    except CronhpcError as error:
        code = _failed(_advice(error), arguments, console)
        code = ATTENTION if error.passing else code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = console.reader_left()
    except OSError as error:  # a disk, a permission: it says which
        from cronhpc.store.damage import fix
        from cronhpc.store.files import passes

        why = joined(". ", filter(None, (error.strerror or str(error), fix(error))))
        if error.filename or error.errno not in _OF_ANSWERS:
            code = _failed(f"{error.filename}: " + why if error.filename else why, arguments, console)
            if "--link" in arguments and passes(error):
                code = NO_ANSWER
        else:  # of no file that was opened: of the one that answers go to
            console.emptied()
            console.complain("what there is to say cannot be written: " + why)
            code = BROKEN
    return code if console.emptied() else BROKEN


def _parsed(arguments: list[str], console: Console) -> int | tuple[argparse.Namespace, Callable[..., int]]:
    """What is to run with which arguments; an exit code where all is said."""
    from cronhpc.cli import commands

    option, _, value = arguments[0].partition("=") if arguments else ("", "", "")
    if option in SHIPPED:
        console.say(_shipped(option, value or " ".join(arguments[1:])))
        return FINE
    try:
        return commands.parse(arguments, console)
    except SystemExit as end:  # --help and --version have printed what they should
        return int(end.code or 0)


def _shipped(option: str, wanted: str) -> str:
    """What docs/generate has made of the parsers. Raises UsageError for another word than those that there are."""
    from cronhpc.cli.console import UsageError
    from cronhpc.store.files import shipped

    names = SHIPPED[option]
    if wanted not in names:
        raise UsageError(f"cronhpc: {option} knows {' and '.join(names)}, not {wanted!r}.")
    return shipped(f"docs/{names[wanted]}").rstrip("\n")


def _advice(error: CronhpcError) -> str:
    if not error.passing:
        return error.advice
    dot = "" if str(error).endswith(".") else "."
    return error.advice + f"{dot} Nothing is known to be wrong with the call: try again in a minute."


def _failed(message: str, arguments: list[str], console: Console) -> int:
    if "--json" in arguments[: arguments.index("--") if "--" in arguments else None]:  # behind it: of the job's command
        console.json({"error": message})
    else:
        console.complain(message)
    return BROKEN
