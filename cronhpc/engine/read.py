"""Read: folders, settings, state, switches and one queue query become a World."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from cronhpc.batch.port import Batch, BatchError, Unreachable
from cronhpc.core import attempts, stop
from cronhpc.core import chain as core_chain
from cronhpc.core.attempts import launched
from cronhpc.core.identity import SILENT, records
from cronhpc.core.model import (
    CLOCKS_APART,
    SCHEDULED,
    TOKEN,
    BadNode,
    ChainFacts,
    ClaimState,
    Disabled,
    Entry,
    JobEnd,
    Problem,
    Queue,
    Result,
    Series,
    Started,
    Way,
    World,
    command,
    entry_id,
)
from cronhpc.cron.values import dataclass, replace
from cronhpc.engine.read_entries import read_entries
from cronhpc.engine.site import Site, directory_id, others_at_work
from cronhpc.inside.switch_file import owner
from cronhpc.store import damage, files, lease, logs, scheduler
from cronhpc.store import memory as store_memory
from cronhpc.store.claims import STEP_OF, Claims
from cronhpc.store.files import DiskClock, Paths, moved_from
from cronhpc.store.switches import of_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import TypeVar

    from cronhpc.core.model import Call, Claim, Job, SchedulerState
    from cronhpc.script.dialect import Dialect, JobVariables
    from cronhpc.store.memory import Memory
    from cronhpc.store.scheduler import SiteChanges

    Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Reading:
    """The world, and what else was learnt on the way."""

    world: World
    memory: Memory
    problems: tuple[Problem, ...] = ()


# --- the world -----------------------------------------------------------------------------------------------------


def read_world(site: Site, now: int, call: Call = SCHEDULED) -> Reading:
    """Everything that a tick decides on. What cannot be read is unknown, and is named; it is never taken for absent.

    Raises StateError for state of a newer version, OSError.
    """
    paths, batch, dialect = site.paths, site.batch, site.batch.dialect
    memory = store_memory.load(paths.entries)
    # asked beside the reading of state/: a tick that ends later on, while the queue is asked, is no sign of it
    last = memory.scheduler.last_tick or 0
    is_older = damage.is_older(paths, last, core_chain.heard_until(last, site.settings.interval))
    of_the_folder = tuple(_of_the_folder(site, memory, call.link, now))
    if site.disk_clock.device is None:  # a tick notes by how much it is ahead; who only looks goes by that
        noted = DiskClock(memory.scheduler.disk_ahead, os.stat(paths.state).st_dev)  # noqa: PTH116 - one stat
        site = replace(site, disk_clock=noted)
    kept = replace(memory.scheduler, disk_ahead=site.disk_clock.ahead)
    entries = read_entries(site, now)
    site.cache.keep("files", entries.parsed)
    kept, of_a_copy = _brought_back(paths, site.disk_clock, kept, now)
    world = World(
        now=now,
        directory_id=directory_id(paths),
        settings=site.settings,
        entries=entries.entries,
        dialect=dialect,
        states=memory.entries,
        kept=kept,
        call=call,
        clock_verified=site.clock_verified,
    )
    world, of_claims = with_jobs(paths, batch, world)
    world = with_switches(site, world)
    series, of_series = _all_series(paths.state, dialect.job)
    logged, of_age = _logged(paths, world, is_older=is_older)
    chain, kept, of_chain = _chain_facts(site, kept, now, call)
    wrong = (*of_the_folder, *entries.problems, *of_age, *of_a_copy)
    skipped = (*wrong, *world.switches.problems, *of_claims, *of_series)
    world = replace(
        world,
        series=series,
        skipped=skipped,
        chain=chain,
        kept=kept,
        logged=logged,
        disk_clock=_disk_clock(paths.state, world),
    )
    world = _with_answers(site, world)
    return Reading(world, memory, (*skipped, *of_chain, *_of_jobs(site.changes, world)))


def _with_answers(site: Site, world: World) -> World:
    """With what the batch system is asked besides its queue: each question only where something depends on it."""
    answers = {job_id: _described(site.batch, job_id) for job_id in core_chain.doubted(world)}
    world = core_chain.completed(world, answers, site.uid) if answers else world
    world = _with_facts(world, _restarts(site.batch, world), lambda job, number: replace(job, restarts=number))
    world = asked_about_doubtful(site.batch, world)
    world = attempts.recognised(world)
    world = _with_facts(world, _of_strangers(site.batch, world), lambda job, own: replace(job, from_scrontab=own))
    world = with_job_ends(site.paths, site.batch, world)
    if not world.chain.by_links:
        return world
    chain = core_chain.with_bad_nodes(world)
    return replace(world, chain=replace(chain, on_hold=chain.on_hold or _an_admins_word(site, world)))


def _of_jobs(changes: SiteChanges, world: World) -> Iterator[Problem]:
    """What is wrong with nodes, and with what this site makes of jobs."""
    if world.chain.bad_nodes:
        yield from core_chain.bad_node_problems(world.chain.bad_nodes, world.now, world.dialect)
    if world.dialect.force:
        yield from core_chain.stuck_problems(world, world.dialect)
    if world.switches.listed and not world.call.only:
        yield from stop.unmatched(world)
    yield from _hold_dropped(changes, world)
    if world.chain.drops_begin:
        what = f"job {world.chain.drops_begin} could begin before its time: this site drops when a job is to begin."
        fix = "Links and runs get their time once more, before they are released. See: "
        yield Problem("W343", what, fix + command("doctor", options=("--submit",)))


def _of_the_folder(site: Site, memory: Memory, link: str, now: int) -> Iterator[Problem]:
    """What is wrong with the cron directory as a whole, its settings and its state/. Raises StateError, OSError."""
    yield from site.problems
    with suppress(OSError):  # what cannot be read is named where it is read
        if logs.full(logs.space(site.paths.root)):  # it must not look well until ticks grow old
            what = f"the disk of {site.paths.root} is full: nothing can be submitted or recorded."
            yield Problem("E331", what, "Make room, or fix the quota; slots stay due until their deadlines.")
    yield from others_at_work(site, is_link=link != "")
    yield from lease.problems(site.paths.state / "lease")
    yield from damage.of_entries(memory, now)
    yield from damage.others(site.paths.state)


def _disk_clock(state: Path, world: World) -> int:
    """What the file system's clock says where ours is far behind it; asked only where a stamp is from the future.

    0 where a batch system has a clock of its own: what is amiss with ours is known by that.
    """
    if not world.dialect.runs_here:
        return 0
    stamps = [world.kept.last_tick or 0, *(each.watermark for each in world.states.values())]
    if max([*stamps, *(entry.born for entry in world.entries)]) <= world.now + CLOCKS_APART:
        return 0
    try:
        clock = files.clock_of(state)
    except OSError:
        return 0
    return clock if clock > world.now + CLOCKS_APART else 0


def _brought_back(
    paths: Paths, clock: DiskClock, kept: SchedulerState, now: int
) -> tuple[SchedulerState, list[Problem]]:
    """A tick notes whether all of the directory is a copy, status.json and log/ too: then nothing tells what ran."""
    last = kept.last_tick or 0
    at = damage.brought_back(paths, clock, kept.due, last)
    if at is None:
        return kept, []
    at = min(at or now, now)
    of, back = (time.strftime("%F %H:%M UTC", time.gmtime(each)) for each in (last, at))
    what = (
        f"this directory is a copy of {of}, brought back {back}: slots between count as missed, as they may have run."
    )
    problem = Problem("W334", what, "To run one all the same: " + command("run", "NAME"))
    return replace(kept, restored=at, due=""), [problem]  # due: another file, and perhaps of the same inode


def _logged(paths: Paths, world: World, *, is_older: bool) -> tuple[Mapping[str, Mapping[int, int]], list[Problem]]:
    """What logs say of runs that state/ may not know: the disk has nothing else.

    Of all, where state/ is older than the newest tick; else of attempts that were not released: one may have run all
    the same, and be forgotten, where a site drops --hold, or at the second look after state/ was brought back.
    """
    problems = []
    if is_older:
        if world.kept.last_tick:
            age = "is older than the newest tick: was it brought back from a copy?"
            fix = "Scripts that name their own log may run their newest slot again; see: " + command("plan")
            problems = [Problem("W334", f"{age} What ran since is told by logs' names.", fix, "state/")]
        if counts := damage.logged(paths, world.entries):
            return counts, problems
    unreleased = {ClaimState.CLAIMED, ClaimState.SUBMITTED}
    keys = [claim.key for claim in world.claims if claim.state in unreleased and claim.job_end is None]
    if not keys:
        return {}, problems
    asked: dict[str, dict[int, int]] = {key.entry: {} for key in keys}
    logged = damage.logged(paths, [entry for entry in world.entries if entry_id(entry.name) in asked])
    for key in keys:
        asked[key.entry][key.slot] = logged.get(key.entry, {}).get(key.slot, 0)
    return asked, problems


def with_jobs(paths: Paths, batch: Batch, world: World) -> tuple[World, Sequence[Problem]]:
    """With the queue, and what the disk knows of the jobs in it; and what is wrong with that.

    Claims and links are listed before the queue is asked, and read after: a link in the answer is there by now.

    What was not listed before is `fresh`: it belongs to another tick at work, and its job may be missing from the
    answer. So may that of a submission without answer, for as long as the batch system's dialect says. Raises OSError.
    """
    folder = Claims(paths.claims)
    claims_before, links_before = folder.names(), scheduler.links(paths)
    queue, why = None, ""
    try:
        queue = batch.queue()
    except BatchError as error:
        why = error.text
    links = {
        job_id: link if job_id in links_before else replace(link, fresh=True)
        for job_id, link in scheduler.links(paths).items()
    }
    late = world.dialect.shows_late

    def was_listed(claim: Claim) -> bool:
        listed = STEP_OF.get(claim.state, "") in claims_before.get(claim.key, ())
        return listed and not (claim.state is ClaimState.CLAIMED and 0 <= world.now - claim.at < late)

    finished = {state.finished for state in world.states.values()}  # those need not be opened
    claims = tuple(claim if was_listed(claim) else replace(claim, fresh=True) for claim in folder.read(finished))
    world = replace(world, queue=queue, queue_error=why, claims=claims, links=links_before | links)
    return world, (damage.claims(folder.invalid),) if folder.invalid else ()


_AFTER_RECORD = 60  # seconds: a job that was submitted later than this after its record was put back into the queue


def _with_facts(world: World, answers: Mapping[str, Answer], with_fact: Callable[[Job, Answer], Job]) -> World:
    """With what was asked about some jobs apart, by their ids; `with_fact`: a job with its answer."""
    jobs = (with_fact(job, answers[job.id]) if job.id in answers else job for job in world.listed)
    return replace(world, queue=Queue(tuple(jobs))) if answers else world


def _restarts(batch: Batch, world: World) -> Mapping[str, int]:
    """How often runs of ours began anew. One more question, only where one did: its time tells."""
    recorded = {c.job_id: max(c.at, c.recorded or 0) for c in world.claims if c.job_id and c.job_end is None}
    again = {
        j.id
        for j in world.listed
        if j.live and (j.submitted or 0) > recorded.get(j.id, j.submitted or 0) + _AFTER_RECORD
    }
    try:
        restarts = batch.restarts() if again else {}
    except BatchError:
        return {}
    return {job_id: restarts.get(job_id, 0) for job_id in again}


def _described(batch: Batch, job_id: str) -> Mapping[str, str] | None:
    """What the batch system tells of one job; None: it does not know it. Empty where it gives no answer."""
    try:
        return batch.describe(job_id)
    except Unreachable:
        return {}
    except BatchError:
        return None


_ADMIN_SINCE = 2 * 86400  # seconds: links are not looked up further back than this


def _an_admins_word(site: Site, world: World) -> str:
    """The pending link that the last tick left is gone: did somebody else cancel it? "" where nothing says so.

    One that was submitted before `start` was called is finished by that.
    """
    job_id = world.kept.successor
    if not job_id or world.queue is None or core_chain.Links.of(world).successors:
        return ""
    if any(job.id == job_id and job.state != "CANCELLED" for job in world.queue.jobs):
        return ""
    since = max((scheduler.started(site.paths) or Started()).at, world.now - _ADMIN_SINCE)
    try:
        link = world.links.get(job_id)
        token = {} if link else {job_id: f"{TOKEN}{world.directory_id}/link "}
        ends = site.batch.job_ends([job_id], since, token)
    except BatchError:
        return ""
    ended, by = ends.by_id.get(job_id), ends.cancelled_by.get(job_id)
    if ended is None or ended.result is not Result.CANCELLED or ended.started is not None:
        return ""
    if link and (ended.submitted or 0) > link.at + CLOCKS_APART:
        return ""  # another job of that number
    if by is None or by == site.uid or (ended.submitted or 0) < since:
        return ""
    return f"the pending link {job_id} was cancelled by {owner(by)}"


def with_ends_of_links(batch: Batch, world: World) -> World:
    """For who looks between ticks: how the newest links ended, where no tick came of them. Else nobody is asked.

    What the newest tick or link has left, and nobody knows the end of, ended badly; but not what `stop` has cancelled.
    """
    ids = core_chain.begun_and_gone(world)
    since = min((link.at for job_id, link in world.links.items() if job_id in ids), default=world.now - 86400)
    try:
        ends = batch.job_ends(ids, since - 600).by_id if ids else {}
    except BatchError:
        return world
    before = {job_id for job_id, link in world.links.items() if link.at < world.chain.since}
    left = {world.kept.successor, world.chain.successor_noted} - before
    ends = {each: JobEnd(Result.UNKNOWN) for each in ids if each in left} | dict(ends)
    return replace(world, chain=replace(world.chain, ended_badly=core_chain.without_tick(world, ends)))


def asked_about_doubtful(batch: Batch, world: World) -> World:
    """With whether jobs of recorded ids that came after the record, without our token, were requeued, and their logs.

    One question a job, for few; one that gets no answer stays what its record says.
    """
    jobs = {job.id: job for job in records(world).doubtful(world.listed)}
    answers = {job_id: _described(batch, job_id) or {"Restarts": "1"} for job_id in list(jobs)[:_ASKED_AT_ONCE]}

    def with_restarts(job: Job, facts: Mapping[str, str]) -> Job:
        return replace(job, restarts=int(facts.get("Restarts") or 0), output=facts.get("StdOut", ""))

    return _with_facts(world, answers, with_restarts)


_ASKED_AT_ONCE = 500  # jobs, a question each: some seconds


def _of_strangers(batch: Batch, world: World) -> Mapping[str, bool | None]:
    """A scrontab's own jobs are told apart before a switch touches any job that is not ours; one question a job."""
    ids = stop.strangers(world) if world.switches.listed and not world.call.only else ()
    asked: Sequence[str] = ids[:_ASKED_AT_ONCE]
    try:
        of_scrontab = batch.of_scrontab(asked) if asked else frozenset[str]()
    except BatchError:
        asked, of_scrontab = (), frozenset()
    return dict.fromkeys(ids) | {each: each in of_scrontab for each in asked}  # None: not known until the next tick


def _hold_dropped(changes: SiteChanges, world: World) -> list[Problem]:
    """Runs that have begun before their release: seen now, or found by the look of once a day (submit.py)."""
    waits = {c.key for c in world.claims if c.state in {ClaimState.CLAIMED, ClaimState.SUBMITTED} and not c.fresh}
    for job in world.listed if waits else ():
        if not (job.pending or job.never_placed) and records(world).key(job) in waits:
            changes.note(scheduler.Asked.HOLD, job.id, world.now)
    if not changes.drops_hold:
        return []
    what = f"job {changes.drops_hold} could begin before its release: this site drops a job's hold."
    fix = "No slot runs twice by that, but a kill switch may come too late. See: "
    fix = fix + command("doctor", options=("--submit",))
    return [Problem("W342", what, fix)]


def with_switches(site: Site, world: World) -> World:
    return replace(world, switches=of_directory(site.paths, site.settings, world.now, site.disk_clock))


def _all_series(state: Path, variables: JobVariables) -> tuple[tuple[Series, ...], list[Problem]]:
    """Every series that `again` has left a record of, and the records that cannot be used."""
    if not os.path.isdir(state / "trains"):  # noqa: PTH112 - one stat
        return (), []
    from cronhpc.engine.read_series import read_series

    return read_series(state, variables)


def with_job_ends(paths: Paths, batch: Batch, world: World) -> World:
    """With what is known of runs that the queue shows as ended, or not at all; one query for all.

    Those whose end was given up lately are asked for with them.
    """
    if world.queue is None:
        return world
    runs = [claim for claim in world.claims if claim.job_id and claim.state is not ClaimState.FINISHED]
    listed = [(records(world).key(job), job.live) for job in world.queue.jobs] if runs else []
    seen, live = {key for key, _ in listed}, {key for key, is_live in listed if is_live}
    gone = [claim for claim in runs if claim.key not in live]
    if not gone:
        return world
    ids = [claim.job_id for claim in gone if claim.job_id]
    # one that the queue still shows is known by its record, whatever became of its comment
    tokens = {c.job_id: f"{world.directory_id}/{c.key}" for c in gone if c.job_id and c.key not in seen}
    since = min((claim.at for claim in gone if claim.at), default=world.now - 86400)
    for key, (job_id, _) in world.kept.given_up.items():
        ids.append(job_id)
        tokens[job_id] = f"{world.directory_id}/{key}"
        since = min(since, world.now - 2 * SILENT)
    try:
        ends = batch.job_ends(ids, since - 600, tokens)
    except BatchError:
        return replace(world, job_ends=None)
    job_ends = dict(ends.by_id)
    entries = world.entries_by_id()
    for claim in gone:
        job_end = job_ends.get(claim.job_id or "")
        if claim.job_id and job_end is not None and job_end.result is Result.FAILED:  # no other's folder is listed
            logged = _logs(paths, entries.get(claim.key.entry), claim)
            job_ends[claim.job_id] = launched(job_end, logged=logged, dialect=world.dialect)
    known = _recorded_ends(paths.state, world.dialect, gone, job_ends)
    return replace(world, job_ends=known, accounting=ends.accounting)


def _logs(paths: Paths, entry: Entry | None, claim: Claim) -> bool | None:
    """Whether a run has left a log; None where cronhpc does not name it. A listing: a stat may be a minute old."""
    if entry is None or entry.problem is not None or not entry.output:
        return None
    begins = claim.key.log_stem(claim.job_id or "")
    try:
        names = os.listdir(f"{paths.log}/{claim.key.entry}")  # noqa: PTH208 - names are all that is asked
    except FileNotFoundError:
        return False
    except OSError:
        return None
    return any(name.startswith((f"{begins}.", f"{begins}_")) for name in names)


def _recorded_ends(
    state: Path, dialect: Dialect, gone: list[Claim], job_ends: Mapping[str, JobEnd]
) -> Mapping[str, JobEnd]:
    """What runs wrote themselves (record: true), where nobody else knows how they ended."""
    if not os.path.isdir(state / "ends"):  # noqa: PTH112 - one stat
        return job_ends
    from cronhpc.store.wrappers import end_of

    ends, codes = {**job_ends}, dialect.job.codes  # for which the wrapper ends with 1
    for claim in gone:
        end = job_ends.get(claim.job_id or "")
        well = end is not None and end.result is Result.OK  # of an array some tasks may be forgotten
        stood_for = end is not None and codes and end.exit_code == 1
        if not claim.job_id or not (well or stood_for or end is None or end.result is Result.UNKNOWN):
            continue
        own = end_of(state, claim.key)
        if end is not None and stood_for:
            ends[claim.job_id] = replace(end, exit_code=own.exit_code) if own and own.exit_code in codes else end
        elif own is not None and not (well and own.result is Result.OK):
            ends[claim.job_id] = own
    return ends


def _caller(call: Call, job_id: str, host: str) -> str:
    """Who calls this tick: `cronhpc tick on login1`, `a scheduler job (4711)`."""
    program = command("daemon" if call.by_daemon else "tick")
    if call.link:
        return f"a scheduler job ({call.link})"
    return f"{program} in job {job_id}" if job_id.isdecimal() else f"{program} on {host}"


_SPARE_AGAIN = 3600  # seconds after which a spare that a limit forbade is tried again


def _chain_facts(
    site: Site, kept: SchedulerState, now: int, call: Call
) -> tuple[ChainFacts, SchedulerState, list[Problem]]:
    """How ticks are driven here, as `start` and `stop` left it."""
    caller = _caller(call, os.environ.get(site.batch.dialect.job.id, ""), site.host)
    marks = scheduler.marks(site.paths)
    how, lost = (None, []) if marks.stopped else scheduler.read_started(site.paths)
    problems = [damage.started(lost)] if lost else []
    if how is None:
        return ChainFacts(wanted=False, stopped=marks.stopped, caller=caller), kept, problems
    via = how.way(site.batch.dialect)
    if not via.runs_ahead and (evidence := site.changes.no_submit):
        what = f"jobs may not submit here ({evidence}): the scheduler has no successor, and runs do not start."
        fix = "Let a login node submit: " + Way.LOGIN.start
        problems.append(Problem("E361", what, fix))
    before = tuple(BadNode(*row) for row in kept.bad_nodes)
    if kept.no_spare_at < how.at or now - kept.no_spare_at >= _SPARE_AGAIN:  # `start` tries it at once
        kept = replace(kept, no_spare="", no_submit_slot=False)
    facts = ChainFacts(
        wanted=True,
        fingerprint=how.fingerprint,
        since=how.since,
        on_hold=scheduler.admins_word(site.paths, marks),
        successor_noted=scheduler.successor_noted(site.paths),
        bad_nodes=(bad := core_chain.standing((*before, *call.bad_nodes), now)),
        bad_nodes_changed=set(bad) != set(before),
        prequeue=how.prequeue,
        via=via,
        disabled=Disabled.ELSEWHERE if via.here and not site.batch.dialect.runs_here else None,
        drops_begin=site.changes.drops_begin,
        moved_from=moved_from(site.paths),
        caller=caller,
    )
    return facts, kept, problems
