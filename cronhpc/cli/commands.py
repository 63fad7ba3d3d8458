"""The table of commands, and the parser of the one that is used; no other command's module is imported."""

from __future__ import annotations

import argparse
import importlib
import os
from functools import partial

from cronhpc import __version__
from cronhpc.cli.console import Console, UsageError
from cronhpc.cron.values import dataclass, nearest
from cronhpc.script.dialect import DIALECTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


GROUPS = {  # each with its module, and a few words, so that all of them stand on one screen
    "set up": {
        "init": ("setup", "make a cron directory"),
        "start": ("chain", "start the scheduler"),
        "stop": ("chain", "stop it, and keep it so"),
        "doctor": ("setup", "look at this site"),
    },
    "see": {
        "status": ("see", "how everything is"),
        "list": ("entries", "the entries, one a line"),
        "show": ("entries", "an entry as it will run"),
        "next": ("see", "when entries run next"),
        "history": ("past", "what ran, how it ended"),
        "logs": ("past", "what a run printed"),
        "page": ("see", "all of it as a web page"),
    },
    "change": {
        "add": ("change", "add a ready-made job"),
        "edit": ("entries", "edit a script, check it"),
        "rm": ("entries", "remove entries"),
        "run": ("run", "run an entry now"),
        "rerun": ("run", "run a failed slot again"),
        "check": ("check", "look for mistakes"),
        "pause": ("switches", "hold jobs until resumed"),
        "resume": ("switches", "lift pause, suspension"),
        "kill": ("switches", "stop jobs, keep them so"),
        "unkill": ("switches", "lift a kill switch"),
        "clean": ("change", "remove old logs"),
        "import": ("import_", "take over a crontab"),
    },
    "in jobs": {
        "again": ("in_jobs", "queue a job's next piece"),
        "guard": ("in_jobs", "run under a kill switch"),
    },
    "engine": {
        "plan": ("engine", "what a tick would do, why"),
        "tick": ("engine", "one pass of the scheduler"),
        "daemon": ("engine", "tick whenever it is time"),
    },
}
_ALL = {name: row for group in GROUPS.values() for name, row in group.items()}
_COMMON_WITH_VALUE = ("--dir", "--backend")
_WIDEST, _USUAL = 100, 80  # columns of help


EXIT_CODES = "0 fine; 1 look at it, or try again; 2 usage, or broken"


class Parser(argparse.ArgumentParser):
    """One that raises UsageError instead of exiting, so that --json has its say."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with the fix."""
        raise UsageError(f"{self.prog}: {message}\nSee: {self.prog} --help")

    def format_help(self) -> str:
        """The description wrapped, the example as it stands."""
        import textwrap

        self.description = textwrap.fill(self.description or "", _columns() - 2)
        return super().format_help()


def _no_arguments(_: argparse.ArgumentParser) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Command:
    """One command: what its help says, what runs it, and what adds its own options."""

    help: str
    example: str
    run: Callable[[argparse.Namespace, Console], int]
    add_arguments: Callable[[argparse.ArgumentParser], None] = _no_arguments
    of_series: bool = False  # it finds series that were started without a cron directory
    takes_rest: bool = False  # options of sbatch, and behind -- those of a script
    own_codes: bool = False  # its help tells of exit codes of its own
    of_no_name: Callable[[str], str] | None = None  # what is meant where it is given a name


def present() -> list[str]:
    """The commands, in the order of the help."""
    return list(_ALL)


def _command(name: str) -> Command:
    commands: dict[str, Command] = importlib.import_module(f"cronhpc.cli.{_ALL[name][0]}").COMMANDS
    return commands[name]


def parser_of(name: str) -> argparse.ArgumentParser:
    command = _command(name)
    prog = f"cronhpc {name}"
    codes = "" if command.own_codes else f"exit codes: {EXIT_CODES}\n\n"
    parser = Parser(
        prog=prog,
        description=command.help,
        epilog="\n  ".join([f"{codes}example:", *command.example.strip().splitlines()]),
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=_columns() - 2),  # else it loads shutil
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    common = parser.add_argument_group("on every command")
    common.add_argument("--dir", metavar="DIR", help="the cron directory (else $CRONHPC_DIR, $WORK/cron, ~/cron)")
    common.add_argument("--backend", choices=tuple(DIALECTS), help="the batch system (else the settings')")
    common.add_argument("--json", action="store_true", help="the same facts as JSON, times in ISO 8601")
    common.add_argument("--version", action="version", version=f"cronhpc {__version__}", help="print the version")
    return parser


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Every command's parser by its name, for docs and completion; this imports them all."""
    return {name: parser_of(name) for name in present()}


def _columns() -> int:
    try:
        return min(os.get_terminal_size(1).columns, _WIDEST)
    except OSError:
        return _USUAL


def parse(
    arguments: list[str], console: Console
) -> tuple[argparse.Namespace, Callable[[argparse.Namespace, Console], int]]:
    """The command's arguments and what runs it. Raises UsageError; SystemExit after --help and --version."""
    leading, name, rest = _split(arguments)
    if name is None:
        return _without_command(leading, console)
    typed, name = name, _ALSO.get(name, name)
    if name not in _ALL:
        raise UsageError(_unknown(name))
    command = _command(name)
    parser, words = parser_of(name), [*leading, *rest]
    with console.redirected():
        if command.takes_rest:
            own, behind = _behind(words)
            try:
                args, unknown = parser.parse_known_args(own)
            except UsageError as error:  # read in a job's log, where nothing says which command it was
                raise UsageError(f"{parser.prog}: {str(error).removeprefix(f'{parser.prog}: ')}") from None
            args.rest, args.behind = unknown, behind
        else:
            args, unknown = parser.parse_known_args(words)
            if unknown and command.of_no_name is not None and not unknown[0].startswith("-"):
                raise UsageError(f"{parser.prog} takes no name. " + command.of_no_name(unknown[0]))
            if unknown:  # names on both sides of an option; else it says what is unknown
                args = parser.parse_intermixed_args(words)
    args.typed, args.of_series = typed, command.of_series
    return args, command.run


def _behind(words: list[str]) -> tuple[list[str], list[str] | None]:
    """What stands before `--`, and what behind it; None where there is none."""
    if "--" not in words:
        return words, None
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _split(arguments: list[str]) -> tuple[list[str], str | None, list[str]]:
    """Options before the command, the command, and what follows it."""
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        index += 2 if arguments[index] in _COMMON_WITH_VALUE else 1
    if index >= len(arguments):
        return arguments, None, []
    return arguments[:index], arguments[index], arguments[index + 1 :]


def _without_command(leading: list[str], console: Console) -> NoReturn:
    if "--version" in leading:
        console.say(f"cronhpc {__version__}")
        raise SystemExit(0)
    stray = [each for each in leading if each not in {"--help", "-h"}]
    if stray:
        raise UsageError(f"cronhpc: {' '.join(stray)} without a command.\nSee: cronhpc --help")
    console.say(overview())
    raise SystemExit(0 if leading else 2)


_ALSO = {"disable": "pause", "enable": "resume"}  # an entry that is not to run for now is a paused one
_ELSEWHERE = {  # what other tools call it; without these the nearest by its letters may do the opposite
    **dict.fromkeys(("unpause", "unsuspend"), "resume"),
    **dict.fromkeys(("suspend", "hold"), "pause"),
    **dict.fromkeys(("remove", "delete", "del"), "rm"),
    **dict.fromkeys(("cat", "view"), "show"),
    **dict.fromkeys(("retry", "requeue"), "rerun"),
    **dict.fromkeys(("trigger", "submit"), "run"),
    "cancel": "kill",
    "ls": "list",
    "log": "logs",
    "help": "--help",
    "version": "--version",
}


def _unknown(name: str) -> str:
    from cronhpc.views.text import name as quoted

    near = _ELSEWHERE.get(name) or nearest(name, present())
    fix = f"Did you mean: cronhpc {near}" if near else "See: cronhpc --help"
    return f"cronhpc: there is no command {quoted(name)}. {fix}"


def overview() -> str:
    """What `cronhpc --help` prints: the commands in their groups, two a line."""
    lines = [
        "usage: cronhpc COMMAND [NAME ...] [options]",
        "Cron for Slurm, Grid Engine, PBS and LSF: drop a script in, and it runs on time.",
        "",
    ]
    titles = max(len(title) for title in GROUPS)
    names, most = max(map(len, _ALL)), max(len(words) for _, words in _ALL.values())
    for title, group in GROUPS.items():
        cells = [f"  {name:<{names}} {words:<{most}}" for name, (_, words) in group.items()]
        pairs = ["".join(cells[at : at + 2]).rstrip() for at in range(0, len(cells), 2)]
        lines += [f"{'' if at else title:<{titles}}{pair}" for at, pair in enumerate(pairs)]
    lines += [
        "",
        "Each has --help, with an example, --json, --dir DIR, --backend, --version.",
        "More: cronhpc --completion bash|zsh; cronhpc --reference markdown|man.",
        "Exit codes: 0 fine, 1 something needs attention, 2 usage or broken.",
        "example: cronhpc init && cp backup.slurm ~/cron/cron.daily/ && cronhpc start",
    ]
    return "\n".join(lines)
