"""Which entries and jobs a switch reaches. A switch's name says it; its content is never consulted for that.

`ALL` reaches whatever cronhpc runs from this directory, an entry's name its runs, a job id that job, a job name every
job of the owner so called, and a configured switch whatever its row under `kill.switches` describes.
The chain's own links are reached by their job id alone: without them nobody would see the switch go.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from cronhpc.core.model import PAUSED, TOKEN, Free, Hold, Stop, entry_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cronhpc.core.model import Claim, Decision, Entry, Job, Switch, SwitchSetting, World

ALL = "ALL"


def switch_on(world: World, entry: Entry, kinds: Iterable[str] = ("kill", "pause")) -> Switch | None:
    """The first standing switch that covers `entry`, kill switches first; None where none does.

    A train (no schedule) is not stopped by a pause: its piece is queued, and held.
    """
    if not entry.schedule:
        kinds = ("kill",)
    for kind in kinds:
        for switch in world.switches:
            if switch.kind == kind and not expired(switch, world.now) and _covers(world, switch, entry):
                return switch
    return None


def expired(switch: Switch, now: int) -> bool:
    """Whether its `expires:` has passed."""
    return switch.expires is not None and switch.expires <= now


def names(switch: Switch, name: str) -> bool:
    """Whether it covers the entry or train of that name by its own."""
    return switch.name in {ALL, name}


def _covers(world: World, switch: Switch, entry: Entry) -> bool:
    if switch.name in {ALL, entry.name, entry.job_name}:
        return True
    row = _row(world, switch)
    return row is not None and _matches(
        row, entry.job_name, _option(entry, "partition"), _option(entry, "account"), entry.chdir
    )


def _option(entry: Entry, name: str) -> str:
    for option in entry.options:
        if option.startswith(f"--{name}="):
            return option.partition("=")[2]
    return ""


def _row(world: World, switch: Switch) -> SwitchSetting | None:
    return next((row for row in world.settings.switches if row.name == switch.name), None)


def _matches(row: SwitchSetting, name: str, partition: str, account: str, workdir: str) -> bool:
    """All that the row names must fit; a row that names nothing fits nothing."""
    asked = [
        (row.jobs, name, fnmatchcase(name, row.jobs)),
        (row.partition, partition, partition == row.partition),
        (row.account, account, account == row.account),
        (row.workdir, workdir, _below(workdir, row.workdir)),
    ]
    given = [fits for pattern, _, fits in asked if pattern]
    return bool(given) and all(given)


def _below(path: str, folder: str) -> bool:
    folder = folder.rstrip("/")
    return path == folder or path.startswith(folder + "/")


def reaches(world: World, switch: Switch, job: Job) -> bool:
    """Whether a standing switch covers a job of the queue."""
    if switch.name == job.id or (job.tasks and switch.name == job.shown):
        return True
    what = job.token_of(world.directory_id)
    if what is not None and what.startswith(("link ", "spare ")):
        return False
    if job.comment.startswith(TOKEN) and what is None and _is_link(job):
        return False  # the chain of another cron directory of this user
    if switch.name == job.name:
        return True
    key = job.key(world.directory_id)
    if key is not None and (switch.name == ALL or key.entry == entry_id(switch.name)):
        return True
    row = _row(world, switch)
    return row is not None and _matches(row, job.name, job.partition, job.account, job.workdir)


def _is_link(job: Job) -> bool:
    return job.comment.partition("/")[2].startswith(("link ", "spare "))


def reached(world: World, switch: Switch) -> tuple[Job, ...]:
    """The live jobs that `switch` covers now."""
    if world.queue is None:
        return ()
    return tuple(job for job in world.queue.jobs if job.live and reaches(world, switch, job))


def reachable(world: World) -> bool:
    """Whether any job lives that a switch could reach: then a tick must not be far."""
    return world.queue is not None and any(
        job.live and not (job.token_of(world.directory_id) or "").startswith(("link ", "spare ")) and not _is_link(job)
        for job in world.queue.jobs
    )


def decide(world: World) -> Iterator[Decision]:
    """What standing switches, and those that went, do to the jobs in the queue."""
    for switch in world.switches:
        if expired(switch, world.now):
            continue
        jobs = reached(world, switch)
        if switch.kind == "kill" and jobs:
            yield _stop(world, switch, jobs)
        elif switch.kind == "pause":
            loose = tuple(j for j in jobs if j.state == "PENDING" and not j.held and not j.from_scrontab)
            if loose:
                yield Hold(switch, loose)
    if world.queue is not None and not world.switches_unknown:
        marked = tuple(j for j in world.queue.jobs if j.live and PAUSED in j.comment and not _still_paused(world, j))
        if marked:
            yield Free(marked)


def _stop(world: World, switch: Switch, jobs: tuple[Job, ...]) -> Stop:
    row = _row(world, switch)
    mine = [j for j in jobs if not j.from_scrontab]
    running = tuple(dict.fromkeys(j.id for j in mine if j.state not in {"PENDING", "COMPLETING"}))
    grace = row.warn_before if row and row.warn_signal else 0
    warn = tuple(each for each in running if grace and each not in world.warned)
    due = tuple(each for each in running if not grace or world.now >= world.warned.get(each, world.now) + grace)
    return Stop(
        switch,
        pending=tuple(dict.fromkeys(j.id for j in mine if j.state == "PENDING")),
        running=tuple(each for each in due if each not in warn),
        warn_signal=row.warn_signal if row else "",
        grace=grace,
        warn=warn,
        completing=tuple(f"{j.shown} on {j.nodes}" for j in mine if j.state == "COMPLETING"),
        left_alone=tuple(j.shown for j in jobs if j.from_scrontab),
    )


def _still_paused(world: World, job: Job) -> bool:
    return any(s.kind == "pause" and not expired(s, world.now) and reaches(world, s, job) for s in world.switches)


def claim_of(world: World, job: Job) -> Claim | None:
    """The attempt that a job belongs to, if it is one of ours."""
    key = job.key(world.directory_id)
    return next((c for c in world.claims if c.key == key), None) if key else None
