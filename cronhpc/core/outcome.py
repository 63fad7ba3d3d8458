"""What a job's end means: results, streaks, retries, suspension."""

from __future__ import annotations

import re

from cronhpc.core.model import ENDS, FAILURES, NEW_STATE, EntryState, JobEnd, Result, entry_id
from cronhpc.cron.values import count, replace
from cronhpc.script.dialect import SLURM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from cronhpc.core.model import Claim, Entry, Finish, Job, Key, World
    from cronhpc.script.dialect import Dialect

_LAUNCH_FAILED = 53  # the "signal" of a script that slurmd could not start; 20.11 says exit code 1 instead
_NO_LOG = "no log was produced (its output or working folder may be missing there)"
# What the queue's reason says of an ended job and the result does not: older ones say JobLaunchFailure of any signal.
_NO_NEWS = frozenset({"", "None", "NonZeroExitCode", "TimeLimit", "JobLaunchFailure"})
_ONE_NODE = re.compile(r"[\w.-]+")
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
        detail="" if job.reason in _NO_NEWS else job.reason,
        tasks=job.failed,
    )


def launched(job_end: JobEnd, *, logged: bool | None, dialect: Dialect = SLURM) -> JobEnd:
    """`ending`, told as a failed launch where it was one. `logged`: whether its log is there; None: not ours to name.

    Signal 53 alone is no proof: a script may end by it, and what a step reports may be passed on.
    """
    code_of_old = job_end.exit_code == 1 and not job_end.signal and logged is False
    if job_end.result is not Result.FAILED or logged or not (job_end.signal == _LAUNCH_FAILED or code_of_old):
        return job_end
    where = f" on {job_end.node}" if job_end.node else ""
    from cronhpc.script.spelling import directive

    line = directive(dialect, "exclude", job_end.node) if _ONE_NODE.fullmatch(job_end.node) else ""
    way = f"if that node is at fault: {line}" if line else ""
    words = (f"it could not be launched{where}: {_NO_LOG}", way, job_end.detail)
    return replace(job_end, detail="; ".join(filter(None, words)))


def with_log(world: World, key: Key, job_end: JobEnd, job_id: str | None) -> JobEnd:
    """`ending` with its log's path, relative to the cron directory, where cronhpc named the log."""
    if not job_id or job_end.log:
        return job_end
    entry = world.known().get(key.entry)
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
    for each in finished:
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
