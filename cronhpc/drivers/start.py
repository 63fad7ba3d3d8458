"""`start` sets the chain going, or fixes it; `stop` ends it. Both are the same reconciliation as a tick's."""

from __future__ import annotations

import os
import shlex
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import cronhpc
from cronhpc.batch import process
from cronhpc.batch.port import Batch, BatchError, Unreachable
from cronhpc.batch.process import elapsed
from cronhpc.core import chain
from cronhpc.core.identity import is_queued, records
from cronhpc.core.model import (
    TOKEN,
    Call,
    Claim,
    ClaimState,
    CronhpcError,
    Disabled,
    Done,
    LeaveCause,
    LeaveChain,
    LinkKind,
    Obstacle,
    Problem,
    Reason,
    Scope,
    Submit,
    SubmitLink,
    Wait,
    Way,
    Withdraw,
    World,
    cancelling,
    command,
    decode,
)
from cronhpc.core.model import Started as HowStarted
from cronhpc.cron.values import count, dataclass
from cronhpc.engine.link import (
    add_to_scrontab,
    is_whole,
    keep_environment,
    keep_options,
    remove_from_scrontab,
    this_cronhpc,
    write_link,
)
from cronhpc.engine.read import read_world
from cronhpc.engine.site import Site, directory_id, elsewhere, machine_zone, of_other_cluster
from cronhpc.store import files, lease, scheduler, trust
from cronhpc.store.damage import fix
from cronhpc.store.entries import FRESH
from cronhpc.store.files import Paths, must_be_plain, read_json, write_json
from cronhpc.tick import leased, tick
from cronhpc.views.chain import runs_ahead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cronhpc.core.model import Job, LinkRecord, Outcome, Settings
    from cronhpc.script.dialect import Dialect
    from cronhpc.store.scheduler import SiteChanges
    from cronhpc.tick import Report

_LOOKS = 5


@dataclass(frozen=True, slots=True)
class Started:
    """The chain as it stands after `start` or `stop`."""

    outcomes: tuple[Outcome, ...]
    lines: tuple[str, ...] = ()

    @classmethod
    def of(cls, outcomes: Iterable[Outcome], lines: Iterable[str]) -> Started:
        """Less what is cancelled and shown all the same: a line tells it."""
        return cls(tuple(each for each in outcomes if each.obstacle is not Obstacle.SHOWN), tuple(lines))

    @property
    def ok(self) -> bool:
        """Whether a link is there; a site may have no room for a spare."""
        return all(outcome.done is Done.OK or _is_spare(outcome) for outcome in self.outcomes)


def _is_spare(outcome: Outcome) -> bool:
    decision = outcome.decision
    return isinstance(decision, SubmitLink) and decision.kind is LinkKind.SPARE and outcome.done is Done.REFUSED


def start(
    site: Site,
    environ: Mapping[str, str],
    now: Callable[[], int],
    *,
    via: Way = Way.CHAIN,
    prequeue: int = 1,
    repair: bool = False,
    anew: bool = False,
    beside: bool = False,
) -> Started:
    """Set the chain going, or fix it; safe to call twice, and from two nodes at once.

    `via` scrontab: one entry of the user's scrontab calls the ticks; daemon: each link runs the daemon until its
    successor starts; login: nothing of ours waits in the queue, and whoever calls `cronhpc tick` on a login node
    submits the runs of the next `scheduler.ahead`. `prequeue`: so many links wait ahead. `repair`: the environment kept
    for runs stays as it is. `anew`: the way was asked for, so that nodes have refused it before does not count.
    `beside`: also while a hand-made scheduler of the folder is in the queue.

    Raises CronhpcError, StateError, OSError.
    """
    _must_be_startable(site, via, anew=anew)
    lines = _way_words(site)
    if site.batch.dialect.runs_here:
        return _start_here(site, environ, now, repair=repair)
    cluster = _must_be_alone(site.batch, site.paths, beside=beside or repair)
    with leased(site):
        _must_own_its_links(site)
        keep_environment(site, environ, repair=repair)
        site, kept = keep_options(site, environ)
        if via.daemon:
            _must_fit(site.batch, site.settings)
        dropped = _drop_edited(site)
        before = scheduler.last_started(site.paths)
        takes_back = before is not None and before.via.runs_ahead and not via.runs_ahead  # they may fill a limit
        number = scheduler.marks(site.paths).next_start
        fingerprint, made = write_link(site, via, number)
        how = HowStarted(via, fingerprint, prequeue, now(), site.user, number, cluster, machine_zone())
        lines += [*kept, *dropped, *made]
        if via.in_scrontab:
            lines += add_to_scrontab(site.paths, site.settings, environ)
        else:
            lines += remove_from_scrontab(site.paths, environ)
        scheduler.mark_started(site.paths, how)
        files.remember_place(site.paths)
        daemon, _ = local_daemon(site.paths, site.host)
        if daemon is not None and not daemon.by_hand:
            lines.append(_ended_now(daemon))
        report = _set_right(site, now, takes_back=takes_back)
    _must_have_answered(report.world)
    if takes_back:
        lines += _ahead_words(site.batch.dialect, report.world, report.outcomes)
    if via.runs_ahead:
        lines += _first_tick(site, now)
    return Started.of(report.outcomes, lines)


def _must_be_startable(site: Site, via: Way, *, anew: bool) -> None:
    """Raises CronhpcError where a link would not be ours, could not be submitted, or has nobody to go to; OSError."""
    must_be_plain(site.paths.root)
    refused = trust.link_refusal(site.paths, site.settings, site.uid)
    if refused is not None:
        raise CronhpcError(f"{refused.what} A link could be another's, so none was submitted. " + refused.fix)
    if site.batch.assumed:
        from cronhpc.batch.local import NO_SLURM

        raise CronhpcError(NO_SLURM)
    if not (site.batch.dialect.runs_here or via.runs_ahead):
        _nodes_must_submit(site.changes, via, anew=anew)


def _nodes_must_submit(changes: SiteChanges, via: Way, *, anew: bool) -> None:
    """Raises CronhpcError where a link has found that jobs may not submit, OSError."""
    if anew:
        changes.forget()
    elif refusal := changes.no_submit:
        what = f"jobs may not submit here ({refusal}), so a scheduler job has no successor. Nothing was submitted. "
        raise CronhpcError(what, "Let a login node do it: ", Way.LOGIN.start, "; where that has changed: ", via.start)


def _first_tick(site: Site, now: Callable[[], int]) -> list[str]:
    """Submit the runs of the next `scheduler.ahead`; say so, and how the ticks after this one may come."""
    report = tick(site, now(), Call(anew=True))
    _must_have_answered(report.world)
    outcomes = list(report.outcomes)
    if any(isinstance(o.decision, Wait) and o.decision.reason is Reason.JUST_CHANGED for o in outcomes):
        time.sleep(FRESH + 1)  # the next tick is an hour away, and nothing would wait in the queue until then
        report = tick(site, now())
        outcomes += report.outcomes
    runs = [each for each in outcomes if isinstance(each.decision, Submit)]
    refused = [each for each in runs if each.done in {Done.FAILED, Done.PASSING}]
    why = [("" if each.obstacle is Obstacle.NO_ANSWER else "not submitted: ") + each.detail for each in refused]
    submitted = sum(each.done is Done.OK for each in runs)
    horizon = report.world.now + site.settings.ahead
    met = any(each.obstacle is Obstacle.SUBMIT_LIMIT for each in report.outcomes)
    later = [d.slot for d in report.plan.decisions if isinstance(d, Wait) and d.reason is Reason.NOT_DUE]
    met = met or any((slot or horizon) < horizon for slot in later)  # by a limit that is known: it may not be tried
    reach = runs_ahead(report.world, report.plan, report.outcomes, report.world.now) if met else site.settings.ahead
    unit, word = (_HOUR, "h") if reach >= _HOUR else (_MINUTE, "min")
    until = f"of the next {reach // unit} {word}" if reach >= unit else "ahead"
    until += ", as no more jobs fit: call a tick before they are over" if met else ""
    minute = str(int(directory_id(site.paths), 36) % 60)
    often = "best each hour"
    if met and reach < _HOUR:
        step = next((each for each in (30, 20, 15, 10, 5) if each * _MINUTE <= reach), 1)
        minute, often = f"*/{step}", f"at least every {step} min"
    log = shlex.quote(str(site.paths.scheduler / "scheduler.log"))
    line = f"{shlex.join(this_cronhpc())} tick --dir {shlex.quote(str(site.paths.root))} >>{log} 2>&1"
    return [
        f"submitted {count(submitted, 'run')} {until}; each further tick submits what has come into reach",
        *dict.fromkeys(" ".join(each.split()) for each in why),
        f"now let a login node call the ticks, {often}; a line for crontab -e there:",
        f"  {minute} * * * * {line.replace('%', chr(92) + '%')}",
        "where there is no crontab: the login hook in ~/.bashrc, a systemd timer, or " + command("daemon") + " in tmux",
    ]


_HOUR, _MINUTE = 3600, 60


def _must_be_alone(batch: Batch, paths: Paths, *, beside: bool) -> str:
    """The cluster's name; "" where nobody tells.

    Raises CronhpcError where another scheduler would run the same scripts: the one that was started on another cluster,
    or, but for `beside`, a hand-made one that is still in the queue; Unreachable.
    """
    from cronhpc.engine.init import look_for_hand_made

    try:
        name = batch.cluster_name()
        hand_made = None if beside else look_for_hand_made(batch, paths)
    except Unreachable:
        raise
    except BatchError:
        return ""  # it cannot be told here
    last_start = scheduler.started(paths)
    if name and last_start is not None and last_start.cluster not in {name, ""}:
        problem = elsewhere(paths.root, name, last_start.cluster)
        raise CronhpcError(problem.what, " Nothing was submitted. ", problem.fix)
    if hand_made is not None:
        both = command("start", options=("--beside",))
        raise CronhpcError(hand_made.what, " Nothing was submitted. ", hand_made.fix, "; or let both run: ", both)
    return name


def _must_own_its_links(site: Site) -> None:
    """A copy whose first folder was moved since finds that one's jobs, with texts of its own. Raises CronhpcError."""
    last_start = scheduler.started(site.paths)
    if last_start is None or not files.moved_from(site.paths):
        return
    text = last_start.fingerprint
    try:
        others = [job.id for job, link in _links(site) if link.fingerprint != text]
    except BatchError:
        return  # said where they are needed
    if others:
        raise CronhpcError(
            f"{site.paths.root} was copied or moved, and has the id of another folder, whose scheduler waits in job "
            f"{others[0]}. Nothing was done. {files.id_of_its_own(site.paths)}; "
            "if it is this one's: " + cancelling(site.batch.dialect, others[0])
        )


def _drop_edited(site: Site) -> list[str]:
    """Where the link's text was cut off or edited, what waits may hold that; what to say of it. Raises OSError."""
    if not os.path.lexists(site.paths.script) or is_whole(site.paths):
        return []
    try:
        cancelled = _cancelled_waiting(site)
    except BatchError:
        return []  # said where they are needed
    line = f"{site.paths.script} was cut off or edited: made anew, and what waited with it is replaced"
    return [line] if cancelled else []


def _must_fit(batch: Batch, settings: Settings) -> None:
    """A link that asks for more than its partition gives would wait for ever. Raises CronhpcError."""
    try:
        misfit = chain.misfit(batch.site().partitions, settings)
    except BatchError:
        return  # nobody can tell
    if misfit is not None:
        raise CronhpcError(f"{misfit.what} Nothing was submitted. " + misfit.fix)


def _start_here(site: Site, environ: Mapping[str, str], now: Callable[[], int], *, repair: bool) -> Started:
    """Without a batch system there is no queue to wait in: a daemon on this machine calls the ticks."""
    if other_daemon := _daemon_elsewhere(site, now()):
        anew = command("stop") + ", then " + command("start")
        raise CronhpcError(f"{other_daemon}. To have it here: " + anew)
    with leased(site):
        read_world(site, now())  # what it cannot read, a tick could not
        keep_environment(site, environ, repair=repair)
        scheduler.mark_started(site.paths, HowStarted(Way.LOCAL, at=now(), by=site.user))
        files.remember_place(site.paths)
        daemon, _ = local_daemon(site.paths, site.host)
        if daemon is None:
            log = str(site.paths.scheduler / "scheduler.log")
            argv = [*this_cronhpc(), "daemon", "--dir", str(site.paths.root)]
            pid = process.start(["/bin/sh", "-c", 'exec "$@" >>"$0" 2>&1', log, *argv], env=site.environment)
            _note_daemon(site.paths, site.host, pid, by_hand=False)
            line: str = f"started the daemon: process {pid} of this machine; after a reboot: " + command("start")
        else:
            line = f"the daemon runs already: process {daemon.pid}"
        old = (f"{each.what} To restart it: " + each.fix for each in of_another_version(site.paths, site.host))
        return Started((), (*_way_words(site), line, *old))


def _way_words(site: Site) -> list[str]:
    """Trust begins at the cron directory; what can happen above it is said."""
    refused = trust.way_refusal(site.paths, site.settings, site.uid)
    return [f"{refused.what} So another folder could be put in this one's place. " + refused.fix] if refused else []


def stop(site: Site, environ: Mapping[str, str], now: Callable[[], int]) -> Started:
    """End the chain, and remember it: what `start` has added goes, and nothing else. Runs go on."""
    lines: list[str] = []
    how = scheduler.last_started(site.paths) or HowStarted()
    daemon, host = local_daemon(site.paths, site.host)
    try:
        scheduler.mark_stopped(site.paths, site.user)
    except OSError as error:
        raise _stopped_unmarked(site, daemon, error) from None
    if site.batch.dialect.runs_here:
        lines.append(_stopped(daemon, host, site.host))
    other_cluster = of_other_cluster(site, how) is not None  # its ids may be those of other jobs here
    if other_cluster:
        lines.append(
            f"its jobs are on cluster {how.cluster}, whose queue is not this one: what waits ends when it starts"
        )
    with leased(site):
        lines += remove_from_scrontab(site.paths, environ)
        report = None if other_cluster else _set_right(site, now, takes_back=how.via.runs_ahead)
        world = report.world if report is not None else read_world(site, now()).world
    _must_have_answered(world, "It is marked as stopped; what waits ends when it starts")
    outcomes = report.outcomes if report is not None else ()
    lines += _ahead_words(site.batch.dialect, world, outcomes)
    if held := _never_released(world, outcomes):
        line = f"submitted held, and never released, as a tick was cut off: {count(len(held), 'job')}; to cancel: "
        lines.append(line + cancelling(site.batch.dialect, *held))
    return Started.of(outcomes, lines)


def _never_released(world: World, outcomes: Iterable[Outcome]) -> list[str]:
    """Jobs of claims whose reply was lost, or whose tick died: the next tick would go on with them, and none comes."""
    gone = {o.decision.job_id for o in outcomes if isinstance(o.decision, Withdraw)}
    steps = {claim.key: claim.state for claim in world.claims}
    jobs = ((job.id, steps.get(key)) for job in world.listed if job.held and (key := records(world).key(job)))
    return [job for job, step in jobs if step in {ClaimState.CLAIMED, ClaimState.SUBMITTED} and job not in gone]


def _may_start(world: World, claim: Claim) -> bool:
    """Whether its job is in the queue and lives; one that somebody has cancelled is told of when its slot has come."""
    rows = world.jobs().get(claim.job_id or "", ())
    return any(job.live for job in rows) if rows else is_queued(world, claim)


def _ahead_words(dialect: Dialect, world: World, outcomes: Sequence[Outcome]) -> list[str]:
    """Runs that waited for their slots, and are cancelled; the others start all the same."""
    taken = [(o, d) for o in outcomes if isinstance(d := o.decision, Withdraw) and d.job_id]
    listed = [d.job_id for o, d in taken if o.obstacle is Obstacle.SHOWN]
    cancelled = [d.job_id for o, d in taken if o.done is Done.OK] + listed
    waiting = [c for c in world.claims if c.key.slot > world.now and c.state is not ClaimState.FINISHED]
    left = [c.job_id for c in waiting if c.job_id and c.job_id not in cancelled and _may_start(world, c)]
    lines = []
    if cancelled:
        still = f"; the queue shows {len(listed)} of them, as it may for a minute; if it does later: " if listed else ""
        line = f"cancelled {count(len(cancelled), 'run')} that waited in the queue for a time to come"
        lines.append(line + still + (cancelling(dialect, *listed) if listed else ""))
    if left:
        line = f"submitted ahead, and still to run: {count(len(left), 'job')}; if they shall not: "
        lines.append(line + cancelling(dialect, *left))
    return lines


def _links(site: Site) -> list[tuple[Job, LinkRecord]]:
    """The links and spares that live. Raises BatchError, OSError."""
    queue = site.batch.queue()
    world = World(0, directory_id(site.paths), site.settings, queue=queue, links=scheduler.links(site.paths))
    return [(job, link) for job in queue.jobs if job.live and (link := records(world).link(job)) is not None]


def links_gone(site: Site, now: int) -> bool:
    """Whether the queue answers, and lists no link, or only the spare: slots would come up to an interval late.

    An administrator's word stands, and so does what `start` has set up on another cluster. Raises BatchError, OSError,
    StateError.
    """
    if site.batch.dialect.runs_here or any(
        link.kind is LinkKind.SUCCESSOR or not job.waits for job, link in _links(site)
    ):
        return False
    world = read_world(site, now).world  # a list without them is looked into before it is believed
    links = chain.Links.of(world)
    gone = world.queue is not None and not (links.successors or links.running)
    return gone and not world.chain.on_hold and of_other_cluster(site) is None


def links_that_name(batch: Batch, root: Path) -> list[Job]:
    """Links and spares of a directory that is not there any more: the text that Slurm keeps of each names it.

    Raises BatchError.
    """
    links = []
    for job in batch.queue().jobs:
        marked = job.name.startswith("cronhpc-") or TOKEN in job.comment
        if job.live and marked and f"dir={shlex.quote(str(root))}" in batch.script(job.id).splitlines():
            links.append(job)
    return links


def _cancelled_waiting(site: Site) -> int:
    """How many links and spares waited: all of them are cancelled. Raises BatchError."""
    waiting = [job.id for job, _ in _links(site) if job.pending]
    if waiting:
        site.batch.cancel(waiting)
    return len(waiting)


def _stopped_unmarked(site: Site, daemon: Begun | None, error: OSError) -> CronhpcError:
    """A disk that takes no mark must not keep the scheduler going: its daemon or waiting jobs end all the same."""
    if site.batch.dialect.runs_here:
        done = _ended_now(daemon) if daemon is not None else "no daemon that can be ended from here is known"
        left = "it is not marked as stopped, and one that runs elsewhere goes on"
    else:
        done = f"cancelled {count(_cancelled_waiting(site), 'waiting job')} of the scheduler"
        left = "a link that runs just now may go on"
    where = f"{site.paths.scheduler} cannot be written to ({error.strerror})"
    return CronhpcError(f"{done}, but {where}: {left}. " + fix(error) + "; then: " + command("stop"))


class UnreachableError(CronhpcError):
    passing = True


def _set_right(site: Site, now: Callable[[], int], *, takes_back: bool = False) -> Report:
    """The chain's part of a pass; looked at again while a link that just started has not queued its successor yet."""
    call = Call(scope=Scope.LINKS, takes_back=takes_back)
    for look in range(_LOOKS):
        if look:
            time.sleep(2)
        report = tick(site, now(), call)
        left_alone = (d.cause for d in report.plan.decisions if isinstance(d, LeaveChain))
        if LeaveCause.LINK_AT_WORK not in left_alone:
            break
    return report


def _must_have_answered(world: World, done: str = "Nothing was submitted") -> None:
    if world.queue is None:
        raise UnreachableError(f"the batch system does not answer: {world.queue_error.rstrip('.')}. {done}.")


# --- the daemon where there is no batch system ------------------------------------------------------------------------
#
# Which process it is, and its end.

_ENDS_WITHIN = 7  # seconds: a daemon without file events looks for the mark every five
_TERMINATES_WITHIN = 3
_CODE: str = cronhpc.__path__[0]


@dataclass(frozen=True, slots=True)
class Begun:
    """The process that `start` began: on which machine, and when (store/lease.py: process_born)."""

    pid: int = 0
    born: str = ""
    host: str = ""
    by_hand: bool = False  # not by `start`
    code: str = ""  # the folder of what it runs; "": it is of a version that did not say

    @property
    def lives(self) -> bool:
        """Whether it runs, where it was begun on this machine."""
        state, born = lease.process_born(self.pid) if self.pid else ("", "")
        return born != "" and born == self.born and state not in {"Z", "X"}

    def ended(self, within: float) -> bool:
        """Whether it has gone by then: so many seconds from now."""
        until = elapsed() + within
        while self.lives:
            if elapsed() > until:
                return False
            time.sleep(0.1)
        return True

    def terminated(self) -> bool:
        """Whether it has gone, told by a signal."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        return self.ended(_TERMINATES_WITHIN)


def _begun(paths: Paths) -> Begun:
    return decode.read(Begun, read_json(paths.state / "daemon.json", 1) or {})[0] or Begun()


def _note_daemon(paths: Paths, host: str, pid: int, *, by_hand: bool) -> None:
    begun = Begun(pid, lease.process_born(pid)[1], host, by_hand, _CODE)
    write_json(paths.state / "daemon.json", decode.plain(begun), 1)


def of_another_version(paths: Paths, here: str) -> Iterator[Problem]:
    """That the daemon of this machine was begun before an upgrade, and goes on with the version of before."""
    daemon, _ = local_daemon(paths, here)
    if daemon is not None and daemon.code != _CODE:
        end = f"kill {daemon.pid}, then " if daemon.by_hand else command("stop") + ", then "
        anew = command("daemon" if daemon.by_hand else "start")
        yield Problem("W367", f"the daemon, process {daemon.pid}, is of another version of cronhpc.", end + anew)


def another_daemon(site: Site, now: int) -> str:
    """That a daemon runs here already, or elsewhere, and what then; "": there is none known, and this one is noted."""
    if other_daemon := _daemon_elsewhere(site, now):
        return other_daemon
    begun, _ = local_daemon(site.paths, site.host)
    if begun is None or begun.pid == os.getpid():
        with suppress(OSError):  # a full disk is told by each tick
            _note_daemon(site.paths, site.host, os.getpid(), by_hand=begun is None)
        return ""
    return f"a daemon runs here already: process {begun.pid}. They share the work; one is enough"


def _daemon_elsewhere(site: Site, now: int) -> str:
    """That the local backend's daemon was begun on another machine; "" once it is stopped, or no ticks come any more.

    It cannot be looked at from here, and unknown is not gone. Raises OSError.
    """
    begun, due = _begun(site.paths), scheduler.expected(site.paths)
    alive = site.batch.dialect.runs_here and due is not None and now <= due[1]
    if not alive or not begun.pid or begun.host in {"", site.host} or scheduler.marks(site.paths).stopped:
        return ""
    who = f"the daemon was begun on {begun.host} (process {begun.pid})"
    return f"{who}, and ticks come: of two, neither sees what the other runs"


def local_daemon(paths: Paths, here: str) -> tuple[Begun | None, str]:
    """The daemon that was begun last, where it runs on this machine; and the one where it was begun, "" for none."""
    begun = _begun(paths)
    host = (begun.host or here) if begun.pid else ""
    return (begun if host == here and begun.lives else None), host


def daemon_trouble(paths: Paths, here: str) -> Disabled | None:
    """That the daemon that was begun on this machine has ended; None where it lives, or was begun elsewhere."""
    daemon, host = local_daemon(paths, here)
    return Disabled.DAEMON_ENDED if daemon is None and host == here else None


def _ended_now(daemon: Begun) -> str:
    """The daemon of the local backend goes where Slurm takes over; runs that it has begun go on."""
    pid, gone = daemon.pid, daemon.terminated()
    return f"ended the daemon of the local backend: process {pid}" if gone else f"it does not end: kill -9 {pid}"


def _stopped(daemon: Begun | None, host: str, here: str) -> str:
    """What became of it: it sees the mark of `stop`, and ends its tick first.

    One that was begun in this moment may take the mark for an old one: it gets a signal.
    """
    if daemon is not None:
        ended = daemon.ended(_ENDS_WITHIN) or daemon.terminated()
        done = f"the daemon: process {daemon.pid} of this machine"
        return f"stopped {done}" if ended else f"asked {done}; it does not end: kill -9 {daemon.pid}"
    if host not in {"", here}:
        return f"no daemon runs on this machine; if the one on {host} does, it ends within seconds"
    return "no daemon that " + command("start") + " began runs; one in a terminal ends within seconds"
