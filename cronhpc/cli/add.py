"""`cronhpc add [JOB]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cronhpc.cli import FINE
from cronhpc.cli.commands import UsageError
from cronhpc.cli.common import no_such, paths_of, settings_or_default
from cronhpc.core.model import command, joined

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from cronhpc.cli.door import Door
    from cronhpc.ready_made import Copy, ReadyMade

HELP = """Add a ready-made job: without a JOB, list them. The copy is yours to edit: its settings stand at its top, and
it changes and deletes nothing until you say so there."""
EXAMPLE = """
cronhpc add
cronhpc add quota-watch
cronhpc add backup --schedule "30 3 * * mon-fri" --as backup-results
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    parser.add_argument("job", nargs="?", default="", metavar="JOB", help="which; without one they are listed")
    parser.add_argument("--schedule", default="", help="instead of the job's own times, as a #CRON line has it")
    parser.add_argument("--as", dest="name", default="", metavar="NAME", help="the entry's name (the job's)")


def run(args: argparse.Namespace, door: Door) -> int:
    """Exit code 0; what cannot be added is an error."""
    from cronhpc import ready_made

    known = {job.name: job for job in ready_made.jobs()}
    if not args.job:
        if args.schedule or args.name:
            raise UsageError("cronhpc add: which job? See: " + command("add"))
        _list(args, door, tuple(known.values()))
        return FINE
    name = args.job.removesuffix(ready_made.SUFFIX)
    if name not in known:
        raise no_such("ready-made job", args.job, known, see=command("add"))
    paths = paths_of(args, door)
    copy = ready_made.copy_of(
        known[name], paths, settings_or_default(paths), name=args.name or name, schedule=args.schedule
    )
    ready_made.write(copy)
    if args.json:
        door.json(_facts(copy))
    else:
        door.say(joined("\n", _told(copy, door)))
    return FINE


def _list(args: argparse.Namespace, door: Door, jobs: tuple[ReadyMade, ...]) -> None:
    from cronhpc.ready_made import shelf
    from cronhpc.views.style import Column, table

    examples = shelf() / "examples"
    if args.json:
        rows = [{"name": job.name, "runs": job.runs, "what": job.what, "edit": job.edit} for job in jobs]
        door.json({"jobs": rows, "examples": str(examples)})
        return
    columns = [Column("JOB"), Column("RUNS"), Column("WHAT IT DOES", least=20)]
    for line in table(columns, [[job.name, job.runs, job.what] for job in jobs], door.style()):
        door.say(line)
    door.say("\nto take one: " + command("add", "JOB"))
    door.say(f"examples to start your own from: {door.style().path(str(examples))}")


def _facts(copy: Copy) -> dict[str, Any]:
    return {
        "entry": copy.name if copy.job.is_entry or copy.cron else None,
        "job": copy.job.name,
        "path": str(copy.path),
        "cron": copy.cron or None,
        "runs": copy.cron or copy.job.runs,
        "edit": copy.job.edit,
    }


def _told(copy: Copy, door: Door) -> Iterator[str]:
    from cronhpc.views.text import name, word

    path = word(str(copy.path))
    when = f"by its line #CRON {copy.cron}" if copy.cron else copy.job.runs
    yield f"added {name(copy.name)}: {door.style().path(str(copy.path))}, runs {when}"
    yield f"what it does: {copy.job.what}"
    yield (
        f"edit, at its top: {copy.job.edit}" if copy.job.edit else "nothing needs an edit; its settings are at its top"
    )
    if copy.job.is_entry or copy.cron:
        yield "then try it: " + command("run", copy.name)
    else:
        yield f"then submit it, once: sbatch {path}"
    yield f"undo: rm {path}"
