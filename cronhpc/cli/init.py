"""`cronhpc init`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, FINE
from cronhpc.core.model import CronhpcError, command, joined

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from cronhpc.cli.door import Door
    from cronhpc.core.model import Job
    from cronhpc.hand_made import OldJobs
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
    parser.add_argument(
        "--cancel-old", action="store_true", help="cancel the hand-made scheduler of the folder; its other jobs go on"
    )


def run(args: argparse.Namespace, door: Door) -> int:
    """Exit code 1 if an old chain is still in the queue."""
    from dataclasses import replace

    from cronhpc.setup import init
    from cronhpc.store.files import replace_file
    from cronhpc.store.paths import Paths, wanted
    from cronhpc.store.scheduler import hand_made_mark

    root, _ = wanted(args.dir, door.environ)
    found, remark = _found(args, door, root)
    made = init(root, found, group=args.group, adopt=args.adopt)
    old, unknown = _old_jobs(args, door, made)
    cancelled = args.cancel_old and bool(old)
    if old and not cancelled:
        mark = hand_made_mark(Paths(root))
        replace_file(mark, b"", 0o644)
        made = replace(made, paths=(*made.paths, str(mark.relative_to(root))))
    remark = "; ".join(filter(None, (remark, unknown)))
    if args.json:
        door.json(
            {
                "directory": str(root),
                "adopted": made.adopted,
                "done": list(made.lines),
                "settings": found,
                "remark": remark,
                "old_chain": [job.shown for job in old.chain],
                "old_chain_cancelled": cancelled,
                "other_jobs": [job.shown for job in old.others],
            }
        )
    else:
        _tell(door, made, remark, _old_words(old, cancelled=cancelled))
    return ATTENTION if unknown or (old and not cancelled) else FINE


def _found(args: argparse.Namespace, door: Door, root: Path) -> tuple[dict[str, str], str]:
    """Settings that the environment and the cluster tell, by dotted key; and what could not be asked."""
    from cronhpc.batch import backend_name, connect
    from cronhpc.batch.environment import options_kept
    from cronhpc.core.model import Settings
    from cronhpc.site import machine_zone

    if (root / "cronhpc.yaml").exists():
        return {}, ""
    if backend_name(args.backend or "", Settings(), door.environ) == "local" and not args.backend:
        raise CronhpcError(
            "No Slurm here: scripts would run on THIS machine. Nothing was made. On a cluster load Slurm's commands "
            "first (module load slurm); if scripts shall run here: " + command("init", options=("--backend", "local"))
        )
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
    found["backend"] = args.backend or "slurm"
    found["timezone"] = machine_zone()  # nodes may have another one
    return found, remark


def _old_jobs(args: argparse.Namespace, door: Door, made: Made) -> tuple[OldJobs, str]:
    """What is in the queue of a folder that was adopted, the chain cancelled where that was asked; or why not known."""
    from cronhpc.batch.port import BatchError
    from cronhpc.hand_made import OldJobs, cancel_old_chain, old_jobs
    from cronhpc.site import open_site

    if not (made.adopted or args.cancel_old):  # the folder is adopted once; its old chain may be cancelled later
        return OldJobs(), ""
    site = open_site(str(made.root), args.backend, door.environ)
    try:
        return (cancel_old_chain(site) if args.cancel_old else old_jobs(site)), ""
    except BatchError as error:
        return OldJobs(), f"whether a hand-made scheduler is in the queue is not known ({error}): call init again"


def _old_words(old: OldJobs, *, cancelled: bool) -> list[str]:
    from cronhpc.views.text import count

    lines = []
    if old.chain and cancelled:
        lines.append(f"cancelled the old chain: {_named(old.chain)}")
    elif old.chain:
        those = "it" if len(old.chain) == 1 else "them"
        ids = " ".join(dict.fromkeys(job.id for job in old.chain))
        lines += [
            f"{count(len(old.chain), 'job')} of a hand-made scheduler still in the queue: {_named(old.chain)}",
            f"cancel {those}: " + command("init", options=("--cancel-old",)) + f", or: scancel {ids}",
        ]
    if old.others:
        verb = "goes" if len(old.others) == 1 else "go"
        lines.append(f"{count(len(old.others), 'other job')} of this folder {verb} on: {_named(old.others)}")
    if old.unclear:
        submits = "submits itself" if len(old.unclear) == 1 else "submit themselves"
        ids = " ".join(dict.fromkeys(job.id for job in old.unclear))
        lines.append(
            f"{_named(old.unclear)} {submits} without --begin or a sleep, as a training does. "
            f"If that is a scheduler: scancel {ids}"
        )
    return lines


def _named(jobs: tuple[Job, ...]) -> str:
    from cronhpc.views.text import name

    return ", ".join(f"{job.shown} ({name(job.name)})" for job in jobs)


def _tell(door: Door, made: Made, remark: str, old: list[str]) -> None:
    style = door.style()
    root = style.word(str(made.root))
    door.say(f"{'adopted' if made.adopted else 'cron directory'} {style.path(str(made.root))}")
    lines = ["  " + line for line in (*made.lines, *([remark] if remark else []), *old)]
    door.say(joined("\n", lines))
    door.say(f"next:  cp job.slurm {root}/cron.daily/ && " + command("start") + " && " + command("status"))
    door.say(f"undo:  {_undo(made, root) or 'nothing to undo'}")


def _undo(made: Made, root: str) -> str:
    """A command that removes what was made, by name: nothing that lay there before, or came since."""
    from cronhpc.views.text import word

    if made.is_new:
        return f"rm -r {root}"
    folders = [word(path) for path in reversed(made.paths) if (made.root / path).is_dir()]
    files = [word(path) for path in made.paths if not (made.root / path).is_dir()]
    steps = [f"cd {root}", f"rm {' '.join(files)}" if files else "", f"rmdir {' '.join(folders)}" if folders else ""]
    return " && ".join(filter(None, steps)) if made.paths else ""
