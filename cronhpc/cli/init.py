"""`cronhpc init`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, FINE
from cronhpc.core.model import CronhpcError

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from cronhpc.cli.door import Door
    from cronhpc.core.model import Job
    from cronhpc.setup import Made

HELP = (
    "Make a cron directory, or take over a folder that holds hand-made ones; no file in it is touched. Safe to repeat."
)
EXAMPLE = """
cronhpc init
cronhpc init --dir $WORK/cron --group proj     # a team may use kill/ and pause/
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    parser.add_argument("--group", default="", help="the Unix group whose members may set switches")
    parser.add_argument("--adopt", action="store_true", help="take a folder that holds other things as well")
    parser.add_argument("--cancel-old", action="store_true", help="cancel the hand-made chain that works in the folder")


def run(args: argparse.Namespace, door: Door) -> int:
    """Exit code 1 if an old chain is still in the queue."""
    from cronhpc.setup import init
    from cronhpc.store.paths import wanted

    root, _ = wanted(args.dir, door.environ)
    found, remark = _found(args, door, root)
    made = init(root, found, group=args.group, adopt=args.adopt)
    old, cancelled = _old_chain(args, door, made)
    if args.json:
        door.json(
            {
                "directory": str(root),
                "adopted": made.adopted,
                "done": list(made.lines),
                "settings": found,
                "remark": remark,
                "old_chain": [job.shown for job in old],
                "old_chain_cancelled": cancelled,
            }
        )
    else:
        _tell(args, door, made, remark, _old_words(old, cancelled=cancelled))
    return ATTENTION if old and not cancelled else FINE


def _found(args: argparse.Namespace, door: Door, root: Path) -> tuple[dict[str, str], str]:
    """Settings that the environment and the cluster tell, by dotted key; and what could not be asked."""
    from cronhpc.batch import connect
    from cronhpc.batch.environment import options_kept
    from cronhpc.core.model import Settings

    if (root / "cronhpc.yaml").exists():
        return {}, ""
    found, remark = {}, ""
    try:
        batch = connect(args.backend or "", Settings(), door.environ, root / "state")
        site = batch.site()
    except CronhpcError as error:
        remark = f"the batch system could not be asked for account and partition ({error}): see sbatch: in cronhpc.yaml"
    else:
        if site.cpu_partition is not None:
            found["sbatch.partition"] = site.cpu_partition.name
        if site.account:
            found["sbatch.account"] = site.account
    found |= {f"sbatch.{name}": value for name, value in options_kept(door.environ).items()}
    if args.backend:
        found["backend"] = args.backend
    return found, remark


def _old_chain(args: argparse.Namespace, door: Door, made: Made) -> tuple[tuple[Job, ...], bool]:
    """The hand-made scheduler's jobs, cancelled where that was asked."""
    from cronhpc.setup import old_chain
    from cronhpc.site import open_site

    if not (made.adopted or args.cancel_old):  # the folder is adopted once; its old chain may be cancelled later
        return (), False
    site = open_site(str(made.root), args.backend, door.environ)
    jobs = old_chain(site)
    if jobs and args.cancel_old:
        site.batch.cancel([job.id for job in jobs])
        return jobs, True
    return jobs, False


def _old_words(jobs: tuple[Job, ...], *, cancelled: bool) -> list[str]:
    from cronhpc.views.text import count, name

    if not jobs:
        return []
    named = ", ".join(f"{job.shown} ({name(job.name)})" for job in jobs)
    if cancelled:
        return [f"cancelled the old chain: {named}"]
    those = "it" if len(jobs) == 1 else "them"
    return [
        f"{count(len(jobs), 'job')} of a hand-made scheduler still in the queue: {named}",
        f"cancel {those}: cronhpc init --cancel-old, or: scancel {' '.join(dict.fromkeys(job.id for job in jobs))}",
    ]


def _tell(args: argparse.Namespace, door: Door, made: Made, remark: str, old: list[str]) -> None:
    from cronhpc.views.text import word

    style = door.style()
    root = style.path(str(made.root))
    option = f" --dir {word(args.dir)}" if args.dir else ""
    door.say(f"{'adopted' if made.adopted else 'cron directory'} {root}")
    lines = [f"  {line}" for line in (*made.lines, *([remark] if remark else []), *old)]
    door.say("\n".join(lines))
    door.say(f"next:  cp job.slurm {root}/cron.daily/ && cronhpc start{option} && cronhpc status{option}")
    door.say(_undo(made, root))


def _undo(made: Made, root: str) -> str:
    if made.adopted:
        return f"undo:  cd {root} && rm -r cronhpc.yaml kill pause state"
    return (
        f"undo:  rm -r {root}" if any(line.startswith("made cron") for line in made.lines) else "undo:  nothing to undo"
    )
