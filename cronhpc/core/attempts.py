"""Attempts that are claimed: how they ended, and what is to be done: adopt, release, cancel, finish, try again.

Whatever died between two steps left at worst a held job with a token. It cannot run and cannot vanish by itself, so the
next tick finds it, and `decide` says what is done, by what store/claims.py lists of it:

    claimed      a job with its token is adopted; without one it is submitted again, or its slot is told of
    submitted    its held job is released, unless a switch or a suspension stands: then it goes
    releasing    released once more, as nobody knows whether that was sent
    released     waited for, and finished as its job ended; before its slot it may be taken back: claimed, once more
    finished     tried again where it failed and may be; forgotten when a later one has ended (engine/record.py)

Right before each of these act asks whether it still stands (`Meanwhile`): of ticks at once the first has its way.
"""

from __future__ import annotations

import re

from cronhpc.core import slots, stop
from cronhpc.core.identity import TWO_LOOKS, absences, is_queued, records, unknown
from cronhpc.core.model import (
    CLOCKS_APART,
    ENDS,
    FAILURES,
    LAUNCH_FAILED,
    NEW_STATE,
    PAUSED,
    Adopt,
    Cancel,
    CatchUp,
    ClaimState,
    EntryState,
    Fault,
    Finish,
    JobEnd,
    Key,
    Obstacle,
    Reason,
    Release,
    Result,
    Still,
    Submit,
    Wait,
    Withdraw,
    entry_id,
    slot_text,
    standing_for,
)
from cronhpc.core.stop import verdict
from cronhpc.cron.values import count, dataclass, field, replace
from cronhpc.script.dialect import SLURM, Dialect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from cronhpc.core.model import Claim, Decision, Entry, Job, World

# --- what a job's end means: results, streaks, retries, suspension ---------------------------------------------------

_NO_LOG = "no log was produced (its output or working folder may be missing there)"
_ONE_NODE = r"[\w.-]+"
_LONGEST_BACKOFF = 2**10
_LAST_NODES = 5  # failures whose nodes are remembered


def job_end_of(job: Job | None, accounted: JobEnd | None) -> JobEnd:
    """The best that is known of an ended job: accounting first, then the queue, then nothing."""
    seen = _from_queue(job) if job is not None else None
    if accounted is None:
        return seen or JobEnd(Result.UNKNOWN)
    if seen is None:
        return accounted
    return replace(
        accounted,
        submitted=accounted.submitted or seen.submitted,
        started=accounted.started or seen.started,
        ended=accounted.ended or seen.ended,
        node=accounted.node or seen.node,
        detail=accounted.detail or seen.detail,
    )


def _from_queue(job: Job) -> JobEnd:
    result = ENDS.get(job.state, Result.UNKNOWN)
    never_ran = result is Result.CANCELLED and not job.nodes
    return JobEnd(
        result,
        exit_code=job.exit_code,
        signal=job.signal,
        submitted=job.submitted,
        started=None if never_ran else job.start,
        ended=job.ended,
        node=job.nodes,
        detail=job.news,
        tasks=job.failed,
    )


def launched(job_end: JobEnd, *, logged: bool | None, dialect: Dialect = SLURM) -> JobEnd:
    """`job_end`, told as a failed launch where it was one. `logged`: whether its log is there; None: not ours to name.

    Signal 53 alone is no proof: a script may end by it, and what a step reports may be passed on.
    """
    code_of_old = job_end.exit_code == 1 and not job_end.signal and logged is False
    if job_end.result is not Result.FAILED or logged or not (job_end.signal == LAUNCH_FAILED or code_of_old):
        return job_end
    where = f" on {job_end.node}" if job_end.node else ""
    from cronhpc.script.spelling import directive

    line = directive(dialect, "exclude", job_end.node) if re.fullmatch(_ONE_NODE, job_end.node) else ""
    way = f"if that node is at fault: {line}" if line else ""
    words = (f"it could not be launched{where}: {_NO_LOG}", way, job_end.detail)
    return replace(job_end, detail="; ".join(filter(None, words)))


def with_log(world: World, key: Key, job_end: JobEnd, job_id: str | None) -> JobEnd:
    """`job_end` with its log's path, relative to the cron directory, where cronhpc named the log."""
    if not job_id or job_end.log:
        return job_end
    entry = world.entries_by_id().get(key.entry)
    if entry is not None and not entry.output:
        return job_end
    return replace(job_end, log=key.log(job_id, array=entry is not None and bool(entry.array)))


def retry_at(entry: Entry | None, claim: Claim, job_end: JobEnd, deadline: int | None, now: int) -> int | None:
    """When a further attempt of a failed run is due; None: there is none. Each delay is twice the one before."""
    if entry is None or job_end.result not in FAILURES or claim.key.by_hand or job_end.result is Result.REFUSED:
        return None
    if claim.key.attempt > entry.policies.retries:
        return None
    delay = entry.policies.retry_delay * min(2 ** (claim.key.attempt - 1), _LONGEST_BACKOFF)
    at = (job_end.ended or now) + delay
    return None if deadline is not None and at > deadline else max(at, now)


def counted(
    state: EntryState, entry: Entry | None, job_end: JobEnd, slot: int, now: int, *, final: bool, newest: int = 0
) -> EntryState:
    """The streaks after one more run; one to be retried does not count yet. `newest`: the newest slot that has ended.

    Slots count in their order, however late one ends: a success before the newest failures ends no streak, and a
    failure before the newest success begins none. A killed, cancelled or preempted run counts neither way: it says
    nothing of the script. But where it is a further attempt, its slot counts by the failure of the one before: what a
    newer slot replaces on and on would never be suspended.
    """
    success = state.previous_success or 0
    if job_end.result is Result.OK:
        success = max(slot, success)
        if slot < newest:
            return replace(state, previous_success=success)
        well_on = job_end.node or state.well_on
        return replace(
            state,
            failures=0,
            to_retry=tuple(each for each in state.to_retry if each > slot),
            nodes=(),
            well_on=well_on,
            successes=state.successes + 1,
            previous_success=success,
        )
    failed = job_end.result in FAILURES and job_end.result is not Result.PREEMPTED
    failed_before = slot in state.to_retry and job_end.result is not Result.UNKNOWN
    others = tuple(each for each in state.to_retry if each != slot)
    if slot < success or not (failed or failed_before):
        return replace(state, to_retry=others) if final else state
    if failed and job_end.node:
        state = replace(state, nodes=(*state.nodes, job_end.node)[-_LAST_NODES:])
    if not final:
        return replace(state, to_retry=(*others, slot))
    failures = state.failures + 1
    limit = entry.policies.suspend_after if entry else None
    suspended = state.suspended or (now if limit and failures >= limit else None)
    return replace(state, failures=failures, successes=0, suspended=suspended, to_retry=others)


def suspended_now(world: World, finished: Iterable[Finish]) -> dict[str, EntryState]:
    """By entry name, the states of those that these ends suspend: what a tick records is known while it plans."""
    entries = {entry_id(each.name): each for each in world.entries if each.policies.suspend_after}
    states: dict[str, EntryState] = {}
    for each in finished if entries else ():
        entry = entries.get(each.key.entry)
        if entry is not None and not each.key.by_hand:
            state = states.get(entry.name) or world.states.get(entry.name) or NEW_STATE
            final = each.retry_at is None
            states[entry.name] = counted(state, entry, each.job_end, each.key.slot, world.now, final=final)
    return {name: state for name, state in states.items() if state.suspended is not None}


def suspension(world: World, entry: Entry | None) -> str:
    """Why the entry waits for its owner, in words; "" where it does not."""
    state = world.states.get(entry.name) if entry is not None else None
    if entry is None or state is None or state.suspended is None:
        return ""
    return f"suspended after {count(state.failures, 'failure')} in a row"


# --- what is to be done ----------------------------------------------------------------------------------------------

_TAKEN_BACK = "it was taken back before its slot had come"
_LOST_TRIES = 3  # a held job that vanishes is submitted again this often


def recognised(world: World) -> World:
    """With the job that carries its token in each damaged claim: one that is live keeps the next from starting."""
    if not any(claim.damaged for claim in world.claims):
        return world
    jobs = _by_key(world)
    return replace(
        world,
        claims=tuple(_recognised(c, jobs[c.key]) if c.damaged and c.key in jobs else c for c in world.claims),
    )


def _recognised(claim: Claim, jobs: list[Job]) -> Claim:
    job = min(jobs, key=lambda job: (not job.live, int(job.id)))
    state = ClaimState.SUBMITTED if claim.state is ClaimState.CLAIMED else claim.state
    return replace(claim, job_id=job.id, state=state)


@dataclass(slots=True)
class Budget:
    """How many submissions are left, counted down while planning: runaways end here."""

    tick: int
    hour: int
    entry: int  # an hour and entry, beyond its schedule
    extra: dict[str, int] = field(default_factory=dict)
    now: int = 0

    @classmethod
    def of(cls, world: World) -> Budget:
        """What the settings allow, less what the last hour has used."""
        since = (world.now - 3600) // 60
        used, extra = 0, dict[str, int]()
        for minute, name, number in world.kept.recent:
            if minute < since:
                continue
            if name:
                extra[name] = extra.get(name, 0) + number
            else:
                used += number
        s = world.settings
        return cls(s.budget_tick, s.budget_hour - used, s.budget_entry, extra, world.now)

    def granted(self, turn: Iterable[Decision]) -> Iterator[Decision]:
        """The decisions of one turn, up to the first submission that is one too many: it stays due."""
        for each in turn:
            if isinstance(each, Submit) and (over := self.spend(each)):
                yield Wait(each.entry, each.key.slot, Reason.BUDGET, over)
                return
            yield each

    def spend(self, row: Submit) -> str:
        """Take one submission; otherwise why not, in words."""
        entry = row.key.entry
        if self.tick <= 0:
            return "this tick has submitted as many jobs as scheduler.budget.tick allows"
        if self.hour <= 0:
            return "the last hour has submitted as many jobs as scheduler.budget.hour allows"
        if row.beyond_schedule and self.extra.get(entry, 0) >= self.entry:
            return f"{count(self.entry, 'submission')} beyond its schedule in the last hour (scheduler.budget.entry)"
        self.tick -= 1
        self.hour -= 1
        if row.beyond_schedule:
            self.extra[entry] = self.extra.get(entry, 0) + 1
        return ""


def decide(world: World) -> Iterator[Decision]:
    """One look at every unfinished attempt, and at jobs of ours that none knows. Nothing where the queue is unknown.

    What it would submit is not within any budget yet.
    """
    if world.queue is None:
        return
    entries = world.entries_by_id()
    absent = absences(world)
    by_key = _by_key(world)
    for each in world.claims:
        entry = entries.get(each.key.entry)
        claim = _named(each, entry)
        if claim.state is ClaimState.FINISHED:
            yield from _retry(world, claim, entry)
        elif claim.damaged:
            yield from _damaged(world, claim, entry, by_key.pop(claim.key, []))
        elif claim.state is ClaimState.CLAIMED:
            yield from _without_id(world, claim, entry, by_key.get(claim.key, []))
        else:
            rows = [*records(world).rows_of(claim)]
            if rows or claim.job_id not in absent:
                yield from _with_id(world, claim, entry, rows)
        yield from _twins(claim, entry, by_key.pop(claim.key, []))
    for key, jobs in by_key.items():
        why, entry = "its slot was dealt with meanwhile; this job came late, still held", entries.get(key.entry)
        yield from (Cancel(job.id, why, key=key, name=entry.name if entry else "") for job in jobs if job.held)


def unended(world: World, key: Key) -> str:
    """Why the attempt `key` of a slot that has run is not to be made by hand, in words; "" where nothing is in its way.

    One of the slot has not ended, is tried again by itself, or has this number already.
    """
    ends = {each.key: each for each in decide(world) if isinstance(each, Finish)}
    mine = [claim for claim in world.claims if (claim.key.entry, claim.key.slot) == (key.entry, key.slot)]
    for claim in mine:
        end = ends.get(claim.key)
        job = f"job {claim.job_id}" if claim.job_id else "an attempt"
        if claim.key.attempt >= key.attempt:
            return f"{job} is attempt {claim.key.attempt} of that slot already"
        if claim.state is not ClaimState.FINISHED and end is None:
            return f"{job} of that slot has not ended"
        again = end.retry_at if end is not None else claim.retry_at
        if again is not None and _next(claim.key) not in {other.key for other in mine}:
            return f"attempt {claim.key.attempt + 1} of that slot comes by itself"
    return ""


def _named(claim: Claim, entry: Entry | None) -> Claim:
    """A scheduler killed while it claimed leaves an empty file: what it claims for is in the file's own name."""
    over = claim.state is ClaimState.FINISHED and claim.retry_at is None  # nothing is said of it any more
    return claim if claim.name or over else replace(claim, name=entry.name if entry else claim.key.entry)


def _by_key(world: World) -> dict[Key, list[Job]]:
    by_key: dict[Key, list[Job]] = {}
    for job in world.listed:
        key = records(world).key(job)
        if key is not None:
            by_key.setdefault(key, []).append(job)
    return by_key


def _twins(claim: Claim, entry: Entry | None, jobs: list[Job]) -> Iterator[Decision]:
    """Held jobs with this attempt's token beside the recorded one."""
    if claim.state is ClaimState.CLAIMED:
        return  # _without_id has dealt with them
    why, name = f"a twin of job {claim.job_id or 'that has ended'}", entry.name if entry else claim.name
    for job in jobs:
        if job.held and job.id != claim.job_id:
            yield Cancel(job.id, why, key=claim.key, name=name)


def _without_id(world: World, claim: Claim, entry: Entry | None, jobs: list[Job]) -> Iterator[Decision]:
    """Claimed, and no id was recorded: what is in the queue with its token is its job; of several the lowest id."""
    # Those up to the last one taken back are none of it, whatever a list of a minute ago shows of them.
    jobs = [job for job in jobs if not job.ended_before(claim.at) and int(job.id) > int(claim.taken_back or 0)]
    live = sorted({job.id for job in jobs if job.live}, key=int)
    if live:
        yield Adopt(claim.key, live[0], claim.name)
        yield from (Cancel(each, f"a twin of job {live[0]}", key=claim.key, name=claim.name) for each in live[1:])
        yield from _let_go(world, claim, entry, live[0])
    elif jobs and claim.holds and claim.key.slot > world.now and all(job.never_began for job in jobs):
        return  # told of when its slot has come
    elif jobs:  # cancelled while it was held: somebody did not want it; or its record was removed while it ran
        job_end = verdict(world, claim, entry, job_end_of(standing_for(jobs), None))
        yield Finish(claim.key, claim.name, job_end, job_id=jobs[0].id)
    elif not claim.fresh:
        yield from _without_job(world, claim, entry)


def _without_job(world: World, claim: Claim, entry: Entry | None, why: str = "") -> Iterator[Decision]:
    """No job was ever seen for it, or that is taken back (`why`): it is ours to submit, while that still makes sense.

    Its entry may have been edited since. What is stopped waits until its slot has come. One decision, or none.
    """
    to_come = claim.key.slot > world.now
    unreadable = entry is not None and (entry.problem is not None or entry.fresh)
    if claim.holds and not unreadable and (entry is None or not slots.has_slot(entry, claim)):
        lacks = "its entry is gone" if entry is None else "its entry was changed, and has no such slot"
        if to_come or (why if entry is None else entry.born <= claim.key.slot):
            yield Withdraw(claim.key, claim.name, "", why or lacks, drops=True)
        else:  # it had come before that
            yield Finish(claim.key, claim.name, JobEnd(Result.MISSED, detail=lacks))
        return
    over = _ran_already(world, claim.key) or _too_late(world, claim, entry)
    if over is not None:
        waits = over.result in {Result.STOPPED, Result.SUSPENDED} and claim.holds and to_come
        if not waits and (over.result is not Result.MISSED or not _may_be_listed_yet(world, claim, entry)):
            yield Finish(claim.key, claim.name, over)
    elif entry is not None and unreadable:
        yield Wait(entry, claim.key.slot, Reason.INVALID, "its earlier submission did not come through")
    elif entry is not None:
        begin = claim.key.slot if to_come else None
        detail = why or "an earlier try was cut off or refused"
        yield Submit(entry, claim.key, Reason.AGAIN, begin=begin, detail=detail, tasks=claim.tasks)


def _ran_already(world: World, key: Key) -> JobEnd | None:
    """A log shows that the attempt has run.

    state/ was brought back from an older copy; or a site drops --hold, and a tick died before it wrote down the id.
    """
    why = "its log shows that it has run, and state/ does not know of it"
    if key.slot <= world.kept.restored:
        why = "the directory was brought back from a copy: it may have run since"
    return JobEnd(Result.UNKNOWN, detail=why) if world.has_run(key) else None


def _damaged(world: World, claim: Claim, entry: Entry | None, jobs: list[Job]) -> Iterator[Decision]:
    """Its record is of no use: it may have run, so it is not submitted again. What carries its token is its job.

    One that is held still waits for a release that needs the record: it goes. One that was released, or is paused, is
    waited for.
    """
    live = [job for job in jobs if job.live]
    released = claim.state is ClaimState.RELEASED
    if any(released or not job.held_by_user or job.comment.startswith(PAUSED) for job in live):
        return
    if (claim.fresh and not jobs) or world.job_ends is None:
        return
    why = "its record in state/claims is damaged"
    if live:
        held = f"{why}; it is still held"
        yield from (Cancel(each, held, key=claim.key, name=claim.name) for each in sorted({j.id for j in live}))
        yield Finish(claim.key, claim.name, JobEnd(Result.UNKNOWN, detail=f"{why}; its job was held, and is cancelled"))
        return
    job_end, job = world.job_ends.get(claim.job_id or ""), standing_for(jobs)
    if job is None and job_end is None:
        job_end = JobEnd(Result.UNKNOWN, detail=f"{why}: whether it ran is not known")
    yield Finish(claim.key, claim.name, verdict(world, claim, entry, job_end_of(job, job_end)))


def _barred(world: World, claim: Claim, entry: Entry | None) -> JobEnd | None:
    """Why a run is not to begin, as its end tells it."""
    if entry is None:
        return JobEnd(Result.MISSED, detail="its entry is gone")
    switch = stop.switch_on(world, entry)
    if switch is not None:
        return JobEnd(Result.STOPPED, detail=switch.in_words)
    suspended = _suspended(world, claim, entry)
    return JobEnd(Result.SUSPENDED, detail=suspended) if suspended else None


def _too_late(world: World, claim: Claim, entry: Entry | None) -> JobEnd | None:
    barred = _barred(world, claim, entry)
    if barred is not None or entry is None:
        return barred
    deadline = _deadline(claim, entry)
    if deadline is not None and world.now > deadline:
        why = slots.cause(world.states.get(entry.name))
        return JobEnd(Result.MISSED, detail=f"it could not be submitted before its deadline{why}")
    return None


def _may_be_listed_yet(world: World, claim: Claim, entry: Entry | None) -> bool:
    """Whether what was submitted just before its deadline, and the reply was lost, may not be in a cached list so far.

    Where the next slot has come, that one has its turn.
    """
    deadline = _deadline(claim, entry) if entry is not None else None
    if entry is None or deadline is None or world.now >= deadline + TWO_LOOKS:
        return False
    return not entry.schedule or slots.schedule_of(entry).next_epoch(claim.key.slot) > world.now


def _deadline(claim: Claim, entry: Entry) -> int | None:
    since = max(claim.key.slot, claim.at) if claim.key.by_hand else claim.key.slot  # a rerun's slot is an old one
    return deadline_of(entry, since)


def deadline_of(entry: Entry, slot: int) -> int | None:
    """The last second in which `slot` may be submitted: its own deadline, else the next slot's eve; None: for ever."""
    if entry.policies.deadline is not None:
        return slot + entry.policies.deadline
    if entry.policies.catch_up is CatchUp.ALL or not entry.schedule:
        return None
    return slots.schedule_of(entry).next_epoch(slot) - 1  # else both would be submitted by the tick at the next one


def _with_id(world: World, claim: Claim, entry: Entry | None, rows: list[Job]) -> Iterator[Decision]:
    job_id = claim.job_id or ""
    live = [job for job in rows if job.live]
    if not live:
        yield from _not_live(world, claim, entry, rows)
        return
    pending = all(job.pending for job in live)
    ahead = pending and claim.key.slot > world.now
    if ahead and claim.holds and (why := _unwanted(world, claim, entry)):
        yield from taken_back(world, claim, entry, why)
        return
    # what sbatch refuses at once it takes of a held job: Slurm finds out when it is released
    impossible = claim.state is not ClaimState.SUBMITTED and all(job.fault is Fault.IMPOSSIBLE for job in live)
    if impossible and not (ahead and claim.holds):  # one ahead of its slot may be fixed until that has come
        yield Cancel(job_id, "it can never start", key=claim.key, only=Still.PENDING, name=claim.name)
        why = f"its request can never be met here (the queue says {live[0].reason})"
        yield Finish(claim.key, claim.name, JobEnd(Result.REFUSED, detail=why))
        return
    held = any(job.held_by_user for job in live)
    if claim.state is ClaimState.SUBMITTED:
        yield from _let_go(world, claim, entry, job_id, held=held)
    elif claim.state is ClaimState.RELEASING:
        yield Release(claim.key, job_id, marked=not held, name=claim.name)
    elif ahead and not claim.holds:
        yield from _waiting_piece(world, claim, entry, job_id)
    elif pending and (suspended := _suspended(world, claim, entry)):
        yield Cancel(job_id, f"its entry is {suspended}", key=claim.key, only=Still.PENDING, name=claim.name)


def _not_live(world: World, claim: Claim, entry: Entry | None, rows: list[Job]) -> Iterator[Decision]:
    if claim.fresh and not rows:
        return
    goes = claim.taken_back or _with_all_else(world, claim, rows)
    if goes and world.job_ends is not None and not _may_have_begun(world, claim, rows):
        yield from taken_back(world, claim, entry, _TAKEN_BACK, gone=True)
        return
    if claim.holds and claim.key.slot > world.now:
        # A held job that vanished never ran; one that was cancelled is told of when its slot has come, unless by us.
        why = "the held job vanished from the queue" if claim.state is ClaimState.SUBMITTED and not rows else ""
        if rows and all(job.ended_before(claim.key.slot) for job in rows):
            why = _unwanted(world, claim, entry)
        if why and world.job_ends is not None:
            yield from taken_back(world, claim, entry, why)
        return
    yield from _ended(world, claim, entry, standing_for(rows))


def _with_all_else(world: World, claim: Claim, rows: list[Job]) -> bool:
    """Whether somebody cancelled it with all that waited ahead of its slot then, and `start` is called since."""
    ahead = [each for each in world.claims if each.holds and each.key.slot > world.now]
    if not world.call.anew or claim not in ahead:
        return False
    job_end = (world.job_ends or {}).get(claim.job_id or "")
    when = max((job.ended or 0 for job in rows), default=job_end.ended if job_end is not None else 0) or world.now
    left = (each for each in ahead if any(job.live for job in world.jobs().get(each.job_id or "", ())))
    return all((each.recorded or each.at) >= when for each in left)


def taken_back(world: World, claim: Claim, entry: Entry | None, why: str, *, gone: bool = False) -> Iterator[Decision]:
    """Its job goes; its claim stays, and is as one that never had a job."""
    then = next(_without_job(world, claim, entry, why), None)
    if gone and isinstance(then, Finish):
        yield then
        return
    yield Withdraw(claim.key, claim.name, claim.job_id or "", why, gone, drops=isinstance(then, Withdraw))
    if isinstance(then, Submit | Wait):
        yield then


def _may_have_begun(world: World, claim: Claim, rows: list[Job]) -> bool:
    """Of a job that was taken back: whether it may have begun all the same, so that this was the slot's run."""
    job_end = (world.job_ends or {}).get(claim.job_id or "")
    if not rows and job_end is None:  # gone, and nobody tells how; our clock may be behind
        last = world.kept.last_tick or 0
        now = max(world.now, last if last <= world.now + CLOCKS_APART else 0)
        return claim.key.slot <= now and claim.state is not ClaimState.SUBMITTED
    began = job_end is not None and (job_end.result is not Result.CANCELLED or job_end.started is not None)
    return began or not all(job.never_began for job in rows)


def _suspended(world: World, claim: Claim, entry: Entry | None) -> str:
    """Why a run that its schedule asked for is not to begin, in words; who asks by hand gets it all the same."""
    return "" if claim.key.by_hand else suspension(world, entry)


def _let_go(world: World, claim: Claim, entry: Entry | None, job_id: str, *, held: bool = True) -> Iterator[Decision]:
    barred = _barred(world, claim, entry) if held and entry is not None else None
    if barred is None:
        yield Release(claim.key, job_id, marked=not held, name=claim.name)
    elif not claim.holds or claim.key.slot <= world.now:
        yield Cancel(job_id, barred.detail, key=claim.key, name=claim.name)
        yield Finish(claim.key, claim.name, barred, job_id=job_id)
    # else just adopted: with its id on disk the next look takes it back, with the other slots to come


def _unwanted(world: World, claim: Claim, entry: Entry | None) -> str:
    """Why a run submitted ahead is to go before its slot has come: its claim is then as if nothing had been done."""
    if entry is None:
        return "its entry is gone"
    if (switch := stop.switch_on(world, entry)) is not None:
        return switch.in_words
    if world.states.get(entry.name, NEW_STATE).suspended is not None:
        return "its entry is suspended"
    if not entry.fresh and claim.holds != slots.text_key(entry):
        return "its entry was changed after it was submitted ahead"
    return _TAKEN_BACK if claim.taken_back else ""


def withdrawals(world: World) -> Iterator[Withdraw]:
    """All runs that wait for a slot to come, taken back: nobody is to come after them, or no login node any more."""
    why = "ticks come otherwise" if world.chain.wanted else "the scheduler is stopped"
    for claim in world.claims if world.queue is not None else ():
        to_come = claim.holds and claim.key.slot > world.now and claim.state is not ClaimState.FINISHED
        if to_come and (not claim.job_id or is_queued(world, claim)):
            yield Withdraw(claim.key, claim.name, claim.job_id or "", why, drops=True)


def _waiting_piece(world: World, claim: Claim, entry: Entry | None, job_id: str) -> Iterator[Decision]:
    """A piece that waits for its time goes when its series does, or is stopped."""
    barred = _barred(world, claim, entry)
    if barred is not None:
        yield Cancel(job_id, barred.detail, key=claim.key, only=Still.AHEAD, name=claim.name)
        result = barred.result if entry is not None else Result.CANCELLED
        yield Finish(claim.key, claim.name, replace(barred, result=result))


def _ended(world: World, claim: Claim, entry: Entry | None, job: Job | None) -> Iterator[Decision]:
    if world.job_ends is None:
        return  # nobody could be asked how it ended: unknown is not gone
    reported = world.job_ends.get(claim.job_id or "")
    if claim.state is ClaimState.SUBMITTED and job is None and reported is None:
        # A held job does not end by itself: the controller lost it. It never ran, so it may be tried again.
        tries = claim.key.attempt <= (entry.policies.retries if entry else 0) + _LOST_TRIES
        late = _ran_already(world, claim.key) or _too_late(world, claim, entry)
        job_end = late or JobEnd(
            Result.LOST, detail="the held job vanished from the queue before its release", tasks=claim.tasks
        )
        yield Finish(claim.key, claim.name, job_end, retry_at=world.now if tries and late is None else None)
        return
    end = unknown(world, claim) if job is None and reported is None else job_end_of(job, reported)
    job_end = verdict(world, claim, entry, end)
    never_ran = job_end.result is Result.CANCELLED and job_end.started is None
    if never_ran and (suspended := _suspended(world, claim, entry)):
        job_end = replace(job_end, result=Result.SUSPENDED, detail=f"it waited in the queue: {suspended}")
    deadline = deadline_of(entry, claim.key.slot) if entry is not None and job_end.result in FAILURES else None
    once_more = not world.has_run(_next(claim.key)) and not suspension(world, entry)
    again = retry_at(entry, claim, job_end, deadline, world.now) if once_more else None
    yield Finish(claim.key, claim.name, job_end, retry_at=again)


def replaced(world: World, row: Submit) -> Iterator[Finish]:
    """The runs that made room for `row` (overlap: replace) have ended by our hand."""
    why = f"replaced by the slot {slot_text(row.key.slot)}"
    for claim in world.claims if row.replaces else ():
        if claim.job_id in row.replaces and claim.job_end is None:
            yield Finish(claim.key, claim.name, JobEnd(Result.KILLED, detail=why))


# --- whether a decision still stands ---------------------------------------------------------------------------------
#
# A tick may stand still between its look and its act, for as long as a machine sleeps, and others go on. So act asks
# once more about each decision, right before its effect, by what the disk says of the claim then.


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """A decision, and what has become of its claim since; None: there is no claim."""

    decision: Any
    planned: Claim | None  # as the tick has read it, and as its own steps have made it since
    now: Claim | None  # as it is on disk
    clock: int = 0  # the time by then
    listed: Job | None = None  # the decision's job, where a list of after its cancelling shows it still

    @property
    def job(self) -> str | None:
        return self.now.job_id if self.now is not None else None

    @property
    def planned_job(self) -> str | None:
        return self.planned.job_id if self.planned is not None else None

    @property
    def was_over(self) -> bool:
        """Finished when it was planned: then its claim may not have been opened, which tells its job."""
        return self.planned is not None and self.planned.state is ClaimState.FINISHED

    @property
    def is_over(self) -> bool:
        """Finished since, or finished and forgotten."""
        return self.now is None or (self.now.state is ClaimState.FINISHED and not self.was_over)

    @property
    def has_come(self) -> bool:
        return bool(self.decision.key.slot <= self.clock)

    @property
    def is_its_job(self) -> bool:
        """Whether the decision's job is the recorded one."""
        return self.job is not None and bool(self.job == self.decision.job_id)

    @property
    def has_moved(self) -> bool:
        """Whether its claim is at another step."""
        return self.now is None or self.planned is None or self.now.state is not self.planned.state

    def objection(self) -> str:
        """Why the decision does not stand any more, in words; "" where it does."""
        return str(self._first()[0]).format(job=self.job or getattr(self.decision, "job_id", ""))

    @property
    def obstacle(self) -> Obstacle | None:
        """The same as a value, where more than its words depends on it."""
        return next(iter(self._first()[2:]), None)

    def _first(self) -> tuple[Any, ...]:
        return next((row for row in _OBJECTIONS.get(type(self.decision), ()) if row[1](self)), ("",))


# Of each kind of decision why it may not stand, in words; when that is so; and the same as a value, see `obstacle`.
_OBJECTIONS: Mapping[type, Sequence[tuple[str, Callable[[Meanwhile], bool], *tuple[Obstacle, ...]]]] = {
    Adopt: (),  # who writes its id first has it
    Submit: (  # for a claim that was there
        ("it was finished meanwhile", lambda it: it.is_over),
        ("job {job} is there still", lambda it: it.job is not None),
    ),
    Release: (
        ("it was finished meanwhile", lambda it: it.is_over and not it.is_its_job),
        ("job {job} was recorded for it meanwhile", lambda it: not it.is_its_job),
        ("another tick has released job {job}", lambda it: it.has_moved),
    ),
    Finish: (
        ("it was finished meanwhile", lambda it: it.is_over),
        ("", lambda it: it.planned is not None and it.planned.damaged),  # no record tells its job
        ("its job was taken back meanwhile", lambda it: it.job is None and it.planned_job is not None),
        ("job {job} was submitted for it meanwhile", lambda it: it.job != it.planned_job),
    ),
    Cancel: (
        ("its slot has come", lambda it: it.decision.only is Still.AHEAD and it.has_come),
        ("", lambda it: it.decision.only is not Still.HELD or not it.is_its_job),  # released, as is known; or a twin
        ("it was recorded for its claim meanwhile", lambda it: it.job != it.planned_job and not it.was_over),
        ("it was released meanwhile", lambda it: it.has_moved),
    ),
    Withdraw: (
        ("its slot has come", lambda it: bool(it.decision.job_id) and not it.decision.gone and it.has_come),
        (
            "cancelled, and the queue shows it still, as it may for a minute",
            lambda it: it.listed is not None and it.listed.waits,
            Obstacle.SHOWN,
        ),
        ("job {job} has begun", lambda it: it.listed is not None),
        ("another tick has gone on with it", lambda it: (it.job or "") != it.decision.job_id),
        ("it was finished meanwhile", lambda it: it.now is not None and it.is_over),
    ),
}


def had_its_turn(
    key: Key, claims: Mapping[Key, Claim], state: EntryState, believed: int, *, archived: bool = False
) -> bool:
    """Whether the attempt `key`, just claimed, has had its turn already: another tick has gone past its slot.

    `claims`: those on disk since, of which an end that uses up its slot is left also where `state` was lost. Slots
    later than `believed` come from a wrong clock. `archived`: history has the attempt.
    """
    if key.by_hand:
        return archived if key.attempt > 1 else state.last.get("key") == str(key)
    if key.attempt > 1:
        return replace(key, attempt=key.attempt - 1) not in claims  # which is archived: the further one has been made
    later = (each for each in claims.values() if each.key.entry == key.entry and key < each.key)
    later = (each for each in later if not each.key.by_hand and each.key.slot <= believed)
    used_up = key.slot <= state.watermark <= believed
    return used_up or any(each.key.slot == key.slot or key.slot <= each.used_up for each in later)


def _next(key: Key) -> Key:
    return replace(key, attempt=key.attempt + 1)


def _retry(world: World, claim: Claim, entry: Entry | None) -> Iterator[Decision]:
    """A further attempt of a failed slot, when its delay is over."""
    if claim.retry_at is None:
        return
    key = _next(claim.key)
    if key in world.claimed():
        return
    over = _ran_already(world, key) or _too_late(world, claim, entry)
    if over is not None:  # no further attempt
        end, why = claim.job_end or JobEnd(Result.UNKNOWN), f"attempt {key.attempt} is not submitted: {over.detail}"
        yield Finish(claim.key, claim.name, replace(end, detail="; ".join(filter(None, (end.detail, why)))))
        return
    if entry is None or claim.retry_at > world.now or entry.problem is not None or entry.fresh:
        return
    begin = claim.key.slot if claim.key.slot > world.now else None
    tasks = claim.job_end.tasks if claim.job_end is not None and entry.array else ""
    detail = f"attempt {key.attempt}{f', array tasks {tasks}' if tasks else ''}"
    yield Submit(entry, key, Reason.RETRY, begin=begin, detail=detail, tasks=tasks)
