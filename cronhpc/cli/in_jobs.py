"""`cronhpc again` and `cronhpc guard -- COMMAND…`, inside a job."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.cli import FINE
from cronhpc.cli.commands import Command
from cronhpc.cli.console import Console, UsageError, count_of, zone_named
from cronhpc.core.model import CronhpcError, Rules, Settings, command, joined
from cronhpc.inside import guard
from cronhpc.script.dialect import option_text

if TYPE_CHECKING:
    import argparse

    from cronhpc.again.submit import Answer


_AGAIN_HELP = (
    "Queue the next piece of the job that this runs in, before the script goes on. One line at the top of any batch "
    "script; the next piece reads the script when it starts. Exit code 113: the work has ended (a switch, --until …), "
    "and this piece should end as well. Anything else that is not 0: cronhpc is broken, and the payload should go on."
)
_AGAIN_EXAMPLE = """
cronhpc again --every 1h || [ $? -ne 113 ] || exit 0
cronhpc again --after --until done.txt -- "$@" || [ $? -ne 113 ] || exit 0
cronhpc again --after --time=20:00:00 -- "$@"   # the next piece's options
"""


_PAUSES = (5, 10, 20, 40)  # seconds


class NotQueued(CronhpcError):
    """It is read in a job's log, where nothing else says which command it was, and what follows from it."""

    def __init__(self, why: str) -> None:
        super().__init__(
            "cronhpc again: " + why + "\ncronhpc again: this call queues no next piece; the script goes on"
        )


def _again_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options; what it does not know is for sbatch, what stands behind `--` for the script."""
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--every", metavar="DURATION", help="at whole multiples of it: 1h, 90m; no drift")
    when.add_argument("--cron", metavar="SCHEDULE", help='as a crontab line has it: "0 3 * * *"')
    when.add_argument("--after", action="store_true", help="as soon as this piece has ended, however it ends")
    parser.add_argument("--until", metavar="FILE", help="ends when this file exists")
    parser.add_argument("--until-time", metavar="TIME", help='ends at this time: "2026-12-24 18:00"')
    parser.add_argument("--max-runs", type=count_of, metavar="N", help="ends with the N-th piece")
    parser.add_argument(
        "--max-fast-failures",
        type=partial(count_of, least=0),
        metavar="N",
        default=3,
        help="stops after so many fast failures in a row (3; 0: never)",
    )
    parser.add_argument("--fast", metavar="DURATION", default="2m", help="what counts as a fast failure (2m)")
    parser.add_argument("--name", default="", help="the series' name, instead of the job's")
    parser.add_argument("--timezone", type=zone_named, default="", help="of --cron")


def _again(args: argparse.Namespace, console: Console) -> int:
    """0, or 113 where the work has ended. Raises NotQueued (exit 2) for a cronhpc that cannot do its part."""
    from cronhpc.batch import job_around

    job_id = job_around(console.environ)
    if not job_id:
        raise UsageError("cronhpc again: this is no batch job. Put it into a batch script.")
    try:
        answer = _patient(args, console, job_id)
    except CronhpcError as error:
        raise NotQueued(error.advice) from None
    except OSError as error:
        raise NotQueued(_disk_words(error)) from None
    facts = {"code": answer.code, "job": answer.job_id or None, "said": list(answer.lines)}
    if console.as_json or answer.lines:
        console.answer(facts, lambda: joined("\n", (f"cronhpc: {line}" for line in answer.lines)))
    return answer.code or FINE


def _disk_words(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


def _patient(args: argparse.Namespace, console: Console, job_id: str) -> Answer:
    """Where the batch system or the disk gives no answer just now, a series should not end: tried once more."""
    from cronhpc.again.submit import Asked, again, open_series_site
    from cronhpc.store.files import passes

    site = open_series_site(console.folder, console.backend, console.environ)
    arguments = None if args.behind is None else tuple(args.behind)
    asked = Asked(_rules(args, console, site.timezone), args.name, _options(args.rest), arguments)
    for pause in _PAUSES:
        try:
            return again(site, asked, console.now, job_id)
        except CronhpcError as error:
            if not error.passing or not site.batch.tools():
                raise
            console.complain(f"cronhpc again: {str(error).rstrip('.')}; asked once more in {pause} s")
        except OSError as error:
            if not passes(error):
                raise
            console.complain(f"cronhpc again: {_disk_words(error)}; tried once more in {pause} s")
        console.wait(pause)
        console = console.again()
    return again(site, asked, console.now, job_id)


_HELP = command("again", options=("--help",))
_NOT_ITS = {
    "array": "an array cannot queue itself",
    "begin": "--every, --cron or --after say when it starts",
    "dependency": "--every, --cron or --after say when it starts",
    "chdir": "it runs where the first one did; put a cd into the script",
    "comment": "put it into the script",
    "hold": "to hold it: " + command("pause", "NAME"),
    "job-name": "a series keeps its job's name; --name names the series",
    "wait": "nobody would be there to wait",
    "wrap": "it runs the script",
    "test-only": "it is to run",
}


def _options(rest: list[str]) -> tuple[str, ...]:
    """Options for sbatch, read as sbatch reads them. Raises UsageError for what is none."""
    import shlex

    from cronhpc.script.header import read_header

    header = read_header(f"#!/bin/sh\n#SBATCH {shlex.join(rest)}\n".encode("utf-8", "surrogateescape"), "")
    if header.problems:
        raise UsageError(f"{header.problems[0].what} " + header.problems[0].fix + "\nSee: " + _HELP)
    for option in header.options:
        if option.name in _NOT_ITS:
            raise UsageError(f"--{option.name} is not for a next piece: " + _NOT_ITS[option.name] + ".")
    return tuple(option_text(o.name, o.value) for o in header.options)


def _rules(args: argparse.Namespace, console: Console, usual_zone: str) -> Rules:
    from cronhpc.cron.duration import parse_duration

    if not (args.every or args.cron or args.after):
        raise UsageError("say when: --every 1h, --cron '0 3 * * *', or --after.")
    if args.until is not None and not args.until.strip():
        raise UsageError("--until names no file (an unset variable?). Write: --until done.txt")
    timezone = args.timezone or usual_zone
    every = parse_duration(args.every) if args.every else 0
    if args.every and not every:
        raise UsageError("--every 0 is no time at all. Write how often, like 90m; or --after.")
    return Rules(
        every=every,
        cron=args.cron or "",
        timezone=timezone,
        after=bool(args.after),
        until=str(Path(args.until).absolute()) if args.until else "",
        until_time=console.instant(args.until_time, timezone) if args.until_time else None,
        max_runs=args.max_runs,
        max_fast_failures=args.max_fast_failures or None,
        fast=parse_duration(args.fast),
    )


# --- guard ------------------------------------------------------------------------------------------------------------


_GUARD_HELP = f"""Run a command inside a job, and end it when a kill switch is set.
Its exit code is the command's, or {guard.STOPPED_EXIT} where a switch ended it or kept it from starting."""
_GUARD_EXAMPLE = """
cronhpc guard -- python train.py
cronhpc guard --kill-switch /proj/kill/train17 --grace 10m -- python train.py
cronhpc guard --warn-before-end 10m --signal USR1 -- python train.py
"""


def _guard(args: argparse.Namespace, console: Console) -> int:
    """Where the settings can be read, names are looked for in `kill.also` and at a switch's `file:`, too."""
    directory, settings = args.dir, Settings()
    with suppress(CronhpcError, OSError):  # nothing that is wrong with a cron directory keeps a job's command away
        directory = console.named()
        settings = console.settings()
    files = {row.name: str(Path(row.file).expanduser()) for row in settings.switches if row.file}
    return guard.run(args, directory, settings.kill_also, files)


COMMANDS = {
    "again": Command(_AGAIN_HELP, _AGAIN_EXAMPLE, _again, _again_arguments, takes_rest=True, own_codes=True),
    "guard": Command(_GUARD_HELP, _GUARD_EXAMPLE, _guard, guard.add_arguments, of_series=True, own_codes=True),
}
