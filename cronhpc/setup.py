"""Set up: `init` makes a cron directory, `start` sets its chain going, `stop` ends it."""

from __future__ import annotations

import os
import shlex
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cronhpc import resident
from cronhpc.act import Actor
from cronhpc.batch.port import BatchError
from cronhpc.batch.process import elapsed
from cronhpc.core import chain
from cronhpc.core.count import count
from cronhpc.core.model import CancelLink, CronhpcError, Done, KeepLink, MoveLink, Plan, Rest, SubmitLink
from cronhpc.core.slots import boundary
from cronhpc.read import read_world, switches_now
from cronhpc.store import lease, place, scheduler
from cronhpc.store.files import replace_file, write_json
from cronhpc.store.paths import MARKER, DirectoryError, Paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from cronhpc.core.model import Decision, Job, Outcome, World
    from cronhpc.site import Site

FOLDERS = ("cron.hourly", "cron.daily", "cron.weekly", "cron.monthly", "cron.d", "log", "scheduler")
_OURS = frozenset({*FOLDERS, "kill", "pause", "state", MARKER, "status.json"})
_PATIENCE = 30.0  # seconds that `start` and `stop` wait for a tick at work
_LOOKS = 5


# --- init ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Made:
    """What `init` did, in lines for a person."""

    root: Path
    adopted: bool
    lines: tuple[str, ...]


def init(root: Path, found: Mapping[str, str], *, group: str = "", adopt: bool = False) -> Made:
    """Make `root` a cron directory; what is in it stays as it is. `found`: settings by dotted key, to be filled in.

    Raises DirectoryError for a folder that holds something else, OSError.
    """
    adopted = _may_take(root, adopt=adopt)
    if (root / MARKER).exists() and not (root / MARKER).is_file():
        kind = "a folder" if (root / MARKER).is_dir() else "no regular file"
        raise DirectoryError(f"{root / MARKER} is {kind}. Nothing was changed. Move it away, then try again.")
    lines = []
    root.mkdir(mode=0o755, parents=True, exist_ok=True)
    made = [name for name in FOLDERS if _folder(root / name, 0o755)]
    if made:
        lines.append(f"made {', '.join(made)}")
    for name in ("kill", "pause"):
        _shared(root / name, group, lines)
    state = Paths(root).state
    _folder(state, 0o700)
    _folder(state / "claims", 0o700)
    identity(Paths(root))
    settings = root / MARKER
    if settings.exists():
        lines.append(f"kept {MARKER}")
    else:
        from cronhpc.store.settings_text import default_text

        replace_file(settings, default_text({**found, **({"kill.group": group} if group else {})}).encode(), 0o644)
        lines.append(f"wrote {MARKER}" + (f" with {', '.join(f'{k}: {v}' for k, v in found.items())}" if found else ""))
    return Made(root, adopted, tuple(lines))


def _may_take(root: Path, *, adopt: bool) -> bool:
    """Whether hand-made scripts are adopted; no folder that serves another purpose is taken."""
    try:
        names = {each.name for each in root.iterdir()}
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        raise DirectoryError(f"{root} is no folder. Choose another with --dir.") from None
    known = names & _OURS
    if names and not known and not adopt:
        raise DirectoryError(
            f"{root} holds other things ({', '.join(sorted(names)[:3])} …). Nothing was changed. "
            f"Choose a folder of its own: cronhpc init --dir {root}/cron; or take this one all the same: --adopt"
        )
    return bool(names) and MARKER not in names


def _folder(path: Path, mode: int) -> bool:
    try:
        path.mkdir(mode)
    except FileExistsError:
        if not path.is_dir():
            raise DirectoryError(f"{path} is in the way: it is no folder. Move it, then call init again.") from None
        return False
    return True


def _shared(path: Path, group: str, lines: list[str]) -> None:
    """Switch folders: a group may write there where one is named, whatever the umask; and files there get the group."""
    _folder(path, 0o755)
    if not group:
        return
    import grp

    try:
        _give(path, grp.getgrnam(group).gr_gid)
    except KeyError:
        raise DirectoryError(f"there is no group {group}. Name one of yours: {_groups()}.") from None
    except PermissionError:
        raise DirectoryError(f"{path} cannot be given to group {group}. Name one of yours: {_groups()}.") from None
    lines.append(f"{path.name}/ may be written by group {group}")


def _give(folder: Path, gid: int) -> None:
    """To a group; never through a link, which could lead to a folder that is nobody else's business."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        raise DirectoryError(f"{folder} is a link. Put a real folder there, then call init again.") from None
    try:
        os.fchown(fd, -1, gid)
        os.fchmod(fd, 0o2775)
    finally:
        os.close(fd)


def _groups() -> str:
    import grp

    names = []
    for gid in os.getgroups():
        try:
            names.append(grp.getgrgid(gid).gr_name)
        except KeyError:
            names.append(str(gid))
    return ", ".join(names)


def identity(paths: Paths) -> None:
    """A short random word that marks this directory's jobs; it outlives state/."""
    from cronhpc.store.files import create_once, read_bytes

    known = read_bytes(paths.state / "id") or read_bytes(paths.scheduler / "id")
    own = known or os.urandom(3).hex().encode() + b"\n"
    for path in (paths.scheduler / "id", paths.state / "id"):
        create_once(path, own, mode=0o644, whole=True)
    if not known:
        place.remember(paths)


def old_chain(site: Site) -> tuple[Job, ...]:
    """Jobs of the hand-made scripts that resubmit themselves: those that work in this folder and are not ours."""
    try:
        queue = site.batch.queue()
    except BatchError:
        return ()
    below = str(site.paths.root)
    return tuple(
        job
        for job in queue.jobs
        if job.live and not job.own_comment.startswith("cronhpc=") and (job.workdir + "/").startswith(below + "/")
    )


# --- start and stop ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """The chain as it stands after `start` or `stop`."""

    world: World
    outcomes: tuple[Outcome, ...]
    lines: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether a link is there."""
        return all(outcome.done is Done.OK for outcome in self.outcomes)


def start(
    site: Site, environ: Mapping[str, str], now: Callable[[], int], *, via: str = "chain", prequeue: int = 1
) -> Started:
    """Set the chain going, or mend it; safe to call twice, and from two nodes at once.

    `via` scrontab: one entry of the user's scrontab calls the ticks; daemon: each link runs the daemon until its
    successor starts. `prequeue`: so many links wait ahead.
    Raises CronhpcError when another process is at it and does not end, StateError, OSError.
    """
    from cronhpc.store import rooms

    refused = rooms.link_refusal(site.paths, site.settings, site.uid)
    if refused is not None:
        raise CronhpcError(f"{refused.what} A link could be another's, so none was submitted. {refused.mend}")
    lines = _way_words(site)
    if site.batch.name == "local":
        return _start_here(site, environ, now, lines)
    with _Lease(site, "start"):
        _must_own_its_links(site)
        _keep_environment(site, environ)
        site = _keep_options(site, environ, lines)
        if via == "daemon":
            _must_fit(site)
        fingerprint = write_link(site, lines, resident=via == "daemon")
        how = {"via": via, "fingerprint": fingerprint, "prequeue": prequeue, "at": now(), "by": site.user}
        before = (scheduler.started(site.paths) or {}).get("via", via)
        if via == "scrontab":
            _into_scrontab(site, environ, lines)
        elif before == "scrontab":
            _out_of_scrontab(site, environ, lines)
        scheduler.mark_started(site.paths, how)
        place.remember(site.paths)
        world, outcomes = _reconcile(site, now, first=True)
    return Started(world, outcomes, tuple(lines))


def _must_own_its_links(site: Site) -> None:
    """A copy whose first folder was moved since finds that one's jobs, with texts of its own. Raises CronhpcError."""
    from cronhpc.site import directory_id

    known = scheduler.started(site.paths)
    if known is None or not place.moved_from(site.paths):
        return
    mark, text = directory_id(site.paths), str(known.get("fingerprint", ""))
    try:
        links = [job for job in site.batch.queue().jobs if job.live and chain.word(job, mark)]
    except BatchError:
        return  # said where they are needed
    others = [job.id for job in links if text not in (job.token_of(mark) or "").split(" ")]
    if others:
        raise CronhpcError(
            f"{site.paths.root} was copied or moved, and has the id of another folder, whose scheduler waits in job "
            f"{others[0]}. Nothing was done. {place.id_of_its_own(site.paths)}; "
            f"if it is this one's: scancel {others[0]}"
        )


def _must_fit(site: Site) -> None:
    """A link that asks for more than its partition gives would wait for ever. Raises CronhpcError."""
    from cronhpc.core.resident_fit import misfit

    try:
        found = misfit(site.batch.site().partitions, site.settings)
    except BatchError:
        return  # nobody can tell
    if found is not None:
        raise CronhpcError(f"{found.what} Nothing was submitted. {found.mend}")


def _start_here(site: Site, environ: Mapping[str, str], now: Callable[[], int], lines: list[str]) -> Started:
    """Without a batch system there is no queue to wait in: a daemon on this machine calls the ticks."""
    from cronhpc.batch import process

    with _Lease(site, "start"):
        _keep_environment(site, environ)
        scheduler.mark_started(site.paths, {"via": "resident", "at": now(), "by": site.user})
        place.remember(site.paths)
        pid, _ = resident.daemon(site)
        if not pid:
            log = str(site.paths.scheduler / "scheduler.log")
            argv = [*scheduler.command(), "daemon", "--dir", str(site.paths.root)]
            pid = process.start(["/bin/sh", "-c", 'exec "$@" >>"$0" 2>&1', log, *argv], env=site.environment)
            born = lease.process_born(pid).partition(" ")[2]
            write_json(site.paths.state / "daemon.json", {"pid": pid, "born": born, "host": site.host}, 1)
            lines.append(f"started the daemon: process {pid} of this machine; after a reboot: cronhpc start")
        else:
            lines.append(f"the daemon runs already: process {pid}")
        return Started(read_world(site, now()).world, (), tuple(lines))


def _way_words(site: Site) -> list[str]:
    """Trust begins at the cron directory; what can happen above it is said."""
    from cronhpc.store import rooms

    refused = rooms.way_refusal(site.paths, site.settings, site.uid)
    return [f"{refused.what} So another folder could be put in this one's place. {refused.mend}"] if refused else []


def stop(site: Site, environ: Mapping[str, str], now: Callable[[], int]) -> Started:
    """End the chain, and remember it: what `start` has added goes, and nothing else. Runs go on."""
    lines: list[str] = []
    how = scheduler.started(site.paths) or {}
    daemon = resident.daemon(site)
    try:
        scheduler.mark_stopped(site.paths, site.user)
    except OSError as error:
        raise _stopped_unmarked(site, error) from None
    if site.batch.name == "local":
        lines.append(resident.stopped(site, *daemon))
    with _Lease(site, "stop"):
        if how.get("via") == "scrontab":
            _out_of_scrontab(site, environ, lines)
        world, outcomes = _reconcile(site, now, first=False)
    return Started(world, outcomes, tuple(lines))


def _stopped_unmarked(site: Site, error: OSError) -> CronhpcError:
    """A disk that takes no mark must not keep the scheduler going: its waiting jobs are cancelled all the same."""
    from cronhpc.site import directory_id

    mark = directory_id(site.paths)
    waiting = [j.id for j in site.batch.queue().jobs if j.state == "PENDING" and chain.word(j, mark)]
    if waiting:
        site.batch.cancel(waiting)
    return CronhpcError(
        f"cancelled {count(len(waiting), 'waiting job')} of the scheduler, but {site.paths.stop} cannot be written "
        f"({error.strerror}): a link that runs just now may go on. Make room, then: cronhpc stop"
    )


def _into_scrontab(site: Site, environ: Mapping[str, str], lines: list[str]) -> None:
    """One entry beside the user's own, which stay byte for byte. Raises ScrontabError."""
    from cronhpc.batch import scrontab
    from cronhpc.site import directory_id

    mark = directory_id(site.paths)
    command = shlex.join([*scheduler.command(), "tick", "--dir", str(site.paths.root)])
    options = [*scheduler.link_options(site.settings), f"--job-name={scheduler.link_names(mark)[0]}"]
    ours = scrontab.block(mark, scrontab.fields_of(site.settings.interval), options, command)
    table = scrontab.read(environ)
    if scrontab.with_block(table, mark, ours) == table:
        return
    scrontab.write(environ, scrontab.with_block(table, mark, ours))
    lines.append("added one entry to your scrontab; scancel of its job disables it for good: cronhpc stop removes it")
    if scrontab.has_entries(scrontab.without_block(table, mark)):
        lines.append("your other entries got new job ids by that: one that was running just now may run a second time")


def _out_of_scrontab(site: Site, environ: Mapping[str, str], lines: list[str]) -> None:
    """Our entry alone. Raises ScrontabError."""
    from cronhpc.batch import scrontab
    from cronhpc.site import directory_id

    table = scrontab.read(environ)
    rest = scrontab.without_block(table, directory_id(site.paths))
    if rest != table:
        scrontab.write(environ, rest)
        lines.append("removed its entry from your scrontab; the others stand as they were, with new job ids")


class BusyError(CronhpcError):
    """Another process is at it."""

    passing = True


class AwayError(CronhpcError):
    """The batch system does not answer."""

    passing = True


class _Lease:
    """The lease for the length of a `with`."""

    def __init__(self, site: Site, what: str) -> None:
        self.path = site.paths.state / "lease"
        self.site = site
        self.what = what
        self.me = lease.myself(site.host, os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_RESTART_COUNT", ""))

    def __enter__(self) -> None:
        from cronhpc.tick import job_gone

        until = elapsed() + _PATIENCE
        while True:
            holder = lease.take(self.path, self.me, lambda job_id: job_gone(self.site, job_id))
            if holder is None:
                return
            if elapsed() > until:
                raise BusyError(f"{holder} is at work on {self.site.paths.root}, and {self.what} has to wait for it.")
            time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        lease.give_back(self.path, self.me)


def _keep_environment(site: Site, environ: Mapping[str, str]) -> None:
    """Runs get the environment that `start` was called in, less what belongs to the batch system and the login."""
    from cronhpc.batch.environment import scrub

    write_json(site.paths.state / "environment.json", {"environment": scrub(environ)}, 1)


def _keep_options(site: Site, environ: Mapping[str, str], lines: list[str]) -> Site:
    """What people keep in SBATCH_ACCOUNT and the like goes into the settings: the scrubbing would lose it."""
    from cronhpc.batch.environment import options_kept

    has = {name for name, _ in site.settings.sbatch}
    wanted = {f"sbatch.{name}": value for name, value in options_kept(environ).items() if name not in has}
    if not wanted:
        return site
    from cronhpc.store.settings_text import edited

    text = site.paths.settings.read_text(encoding="utf-8")
    replace_file(site.paths.settings, edited(text, wanted).encode(), 0o644)
    lines.append(f"kept from your SBATCH_ variables, in {MARKER}: {', '.join(f'{k}: {v}' for k, v in wanted.items())}")
    added = tuple((key.removeprefix("sbatch."), value) for key, value in wanted.items())
    return replace(site, settings=replace(site.settings, sbatch=(*site.settings.sbatch, *added)))


def write_link(site: Site, lines: list[str] | None = None, *, resident: bool = False) -> str:
    """Generate `scheduler/scheduler.slurm` from the settings; a hand-made one is kept beside it. The fingerprint."""
    from cronhpc.site import directory_id

    mark, tools = directory_id(site.paths), site.batch.tools()
    text, fingerprint = scheduler.render(site.paths, site.settings, mark, tools, resident=resident)
    path = site.paths.script
    if path.exists() and b"cronhpc" not in path.read_bytes():
        kept = _free_name(path.with_name("scheduler.slurm.before-cronhpc"))
        os.link(path, kept)
        if lines is not None:
            lines.append(f"kept your scheduler.slurm as scheduler/{kept.name}")
    scheduler.write_script(site.paths, text)
    return fingerprint


def _free_name(path: Path) -> Path:
    """`path`, or the first of path-2, path-3 … that nothing is called."""
    number = 1
    found = path
    while os.path.lexists(found):
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


def _reconcile(site: Site, now: Callable[[], int], *, first: bool) -> tuple[World, tuple[Outcome, ...]]:
    """The chain's part of a tick; looked at again while a link that just started has not queued its successor yet."""
    for look in range(_LOOKS):
        world = read_world(site, now()).world
        if world.queue is None:
            done = "Nothing was submitted" if first else "It is marked as stopped; what waits ends when it starts"
            raise AwayError(f"the batch system does not answer: {world.queue_error}. {done}.")
        decisions = tuple(_first_now(world, chain.decide(world, _wake(site, world)), first=first))
        resting = next((d for d in decisions if isinstance(d, Rest)), None)
        if resting is None or "its own successor" not in resting.why or look == _LOOKS - 1:
            break
        time.sleep(2)
    outcomes = Actor(site, replace(world, **switches_now(site, world.now))).carry_out(Plan(decisions, world.now))
    return world, outcomes


def _wake(site: Site, world: World) -> int:
    """A link that waits already stays where it is, unless somebody has put it off."""
    next_one = boundary(world.now, site.settings.interval)
    latest = next_one + site.settings.interval
    starts = [job.start for job in chain.Links.of(world).successors if job.start and world.now < job.start <= latest]
    return min(starts, default=next_one)


def _first_now(world: World, decisions: Iterable[Decision], *, first: bool) -> list[Decision]:
    """A new chain's first link begins at once: it looks at what is due, and shows that all works.

    Those ahead of it (prequeue) come an interval earlier each, so that they follow it without a gap.
    """
    kinds = CancelLink | SubmitLink | MoveLink | KeepLink | Rest
    rows: list[Decision] = [d for d in decisions if isinstance(d, kinds)]
    stands = any(isinstance(d, KeepLink | MoveLink) and d.kind == chain.SUCCESSOR for d in rows)
    if not first or stands or chain.Links.of(world).running:
        return rows
    found: list[Decision] = []
    at = world.now
    for row in rows:
        if isinstance(row, SubmitLink) and row.kind == chain.SUCCESSOR:
            found.append(replace(row, at=at))
            at = row.at
        else:
            found.append(row)
    return found
