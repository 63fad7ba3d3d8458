"""Rows of history and live attempts as facts, and their words."""

from __future__ import annotations

import re

from cronhpc.core.identity import Absence, absences_at_a_look, jobs_by_id
from cronhpc.core.model import PAUSED, ClaimState, Finish, JobEnd, Key, Result, command, restarted
from cronhpc.cron.values import replace
from cronhpc.views.facts import LIVE, EndedLink, HistoryRun, Live, LiveRun, Untold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cronhpc.core.model import Advice, Claim, HistoryRow, Job, Plan, World


def run_facts(row: HistoryRow) -> HistoryRun:
    """One row of history, as store/history.py gives it, whichever of its facts are known. Times are epoch seconds."""
    slot, attempt, by_hand = _slot_and_attempt(row)
    began, ended, submitted = row.get("started"), row.get("ended"), row.get("submitted")
    ready = max(submitted, slot) if submitted and slot else submitted  # one submitted ahead waits from its slot on
    return HistoryRun(
        entry=row.get("entry", ""),
        slot=slot,
        attempt=attempt,
        by_hand=by_hand,
        result=row.get("result") or str(Result.UNKNOWN),
        exit_code=row.get("exit_code"),
        signal=row.get("signal"),
        job=row.get("job") or None,
        submitted=submitted,
        started=began,
        ended=ended,
        waited=max(began - ready, 0) if began and ready else None,
        took=max(ended - began, 0) if began and ended else None,
        node=row.get("node") or "",
        detail=row.get("detail") or "",
        count=row.get("count") or 1,
        log=row.get("log") or "",
        tasks=row.get("tasks") or None,
    )


def log_of(run: HistoryRun) -> Advice:
    """The command that prints its log; of an array the log of the first task that failed, not of the last to write."""
    task = first_failed(run)
    return command("logs", f"{run.job}_{task}" if task else run.entry)


def first_failed(run: HistoryRun) -> str:
    """The first task that failed, of an array (`3`, `1-2,5`); "" where none is known."""
    first = re.match(r"\d+", run.tasks or "")
    return first[0] if first else ""


def _slot_and_attempt(row: HistoryRow) -> tuple[int | None, int, bool]:
    """Slot, attempt, by hand: as the row has them, else from its key."""
    slot = row.get("slot")
    if slot is None and (key := Key.of(row.get("key", ""))) is not None:
        return key.slot, key.attempt, key.by_hand
    return slot, row.get("attempt") or 1, bool(row.get("by_hand"))


def switch_facts(row: HistoryRow) -> HistoryRun:
    """What a switch stopped, in the shape of a run."""
    reason = f': "{row["reason"]}"' if row.get("reason") else ""
    detail = f"by {row.get('by')}{reason}; {_switch_deed(row)}"
    run = run_facts({"entry": row.get("switch", ""), "result": "switch", "detail": detail})
    return replace(run, slot=row.get("at"), switch=True)


def _switch_deed(row: HistoryRow) -> str:
    """`cancelled job 4501, job 4502_[3-10] pending`, `warned job 4501`, `job 4501 gone after 32 s`."""
    if row.get("gone"):
        return ", ".join(f"job {job} gone after {seconds} s" for job, seconds in row["gone"].items())
    were = ", ".join(f"job {each}" for each in row.get("were") or row.get("jobs") or row.get("warned") or ())
    return f"{'cancelled' if row.get('jobs') else 'warned'} {were}"


def ended_facts(name: str, key: Key, job_end: JobEnd, job_id: str | None) -> HistoryRun:
    """The same of an attempt that has ended and is not in history yet."""
    return run_facts(job_end.row(key, name, job_id, 0))


def live_facts(claim: Claim, job: Job | None, now: int, *, answers: bool, absent: Absence | None = None) -> LiveRun:
    """An attempt as the queue has it."""
    gone = absent is not None and not absent.may_live
    unlisted = Untold.SUBMITTED if answers else Untold.UNKNOWN
    started = job.start if job and not job.waits else None
    return LiveRun(
        job=claim.job_id,
        slot=claim.key.slot,
        attempt=claim.key.attempt,
        by_hand=claim.key.by_hand,
        state=Untold.ENDED if gone else job.state if job else unlisted if claim.job_id else Untold.SUBMITTING,
        absent=str(absent or ""),
        restarts=job.restarts if job else 0,
        reason=job.reason if job and (job.waits or job.fault) else "",
        fault=job.fault if job else None,
        held=bool(job and job.held),
        started=started,
        since=started or claim.recorded or claim.at or None,
        ready=max(claim.at, claim.key.slot),  # it waits from then on: one caught up with was not there before
        ahead=claim.key.slot > now,
        node=job.nodes if job else "",
        paused=True if job and job.held and job.comment.startswith(PAUSED) else None,
    )


def just_submitted(key: Key, job_id: str, now: int) -> LiveRun:
    """What this tick has submitted: the queue has not been asked since."""
    ready = max(now, key.slot)
    return LiveRun(job_id, key.slot, key.attempt, key.by_hand, "PENDING", None, None, "", held=False,
        started=None, since=now, ready=ready, ahead=key.slot > now, node="")  # fmt: skip


def first_piece(job: Job) -> LiveRun:
    """The piece of a series that a person started: there is no claim of it."""
    started, reason = (None, job.reason) if job.waits else (job.start, "")
    return LiveRun(job.id, None, 1, True, job.state, None, None, reason, held=job.held, fault=job.fault,  # noqa: FBT003 - by hand
        started=started, since=started, ready=None, ahead=False, node=job.nodes)  # fmt: skip


def unfinished(world: World, plan: Plan) -> list[HistoryRun]:
    """Attempts that history does not have yet, in the shape of a run: how they ended, or how far they are."""
    ends = {d.key: d.job_end for d in plan.decisions if isinstance(d, Finish)}
    jobs, absent = jobs_by_id(world), absences_at_a_look(world)
    unwritten = [ended_facts(c.name or c.key.entry, c.key, end, c.job_id) for c, end in world.unwritten()]
    return unwritten + [
        ended_facts(claim.name or claim.key.entry, claim.key, ends[claim.key], claim.job_id)
        if claim.key in ends
        else _unfinished_facts(claim, jobs.get(claim.job_id or ""), absent.get(claim.job_id or ""))
        for claim in world.claims
        if claim.state is not ClaimState.FINISHED and (claim.key in ends or claim.job_id)
    ]


def _unfinished_facts(claim: Claim, job: Job | None, absent: Absence | None) -> HistoryRun:
    """What the queue does not show is submitted, or has ended in a way that is not known yet."""
    job_end = JobEnd(Result.UNKNOWN, submitted=claim.at or None)
    result: str = Live.SUBMITTED
    if absent is not None:
        job_end = replace(job_end, detail=str(absent))
        result = result if absent.may_live else Live.ENDED
    elif job is not None:
        detail = "; ".join(filter(None, (restarted(job.restarts), job.news if job.waits else "")))
        job_end = replace(job_end, node=job.nodes, detail=detail, started=None if job.waits else job.start)
        result = _live_result(job)
    return replace(ended_facts(claim.name or claim.key.entry, claim.key, job_end, claim.job_id), result=result)


def _live_result(job: Job) -> str:
    if job.waits:
        return Live.HELD if job.held else Live.PENDING
    return Live.RUNNING if job.live and job.state != "SUSPENDED" else job.state.lower()


def result_words(run: HistoryRun) -> str:
    """`ok`, `failed (1)`, `failed (signal 9)`, `missed (3)`."""
    if run.result == Result.FAILED and (run.signal or run.exit_code):  # of one that was cancelled they say nothing
        return f"{run.result} ({f'signal {run.signal}' if run.signal else run.exit_code})"
    return f"{run.result} ({run.count})" if run.count > 1 else run.result


def slot_or_end(run: HistoryRun) -> int:
    """The instant that a run is told by: its slot."""
    return run.slot or run.ended or 0


_RESULTS: dict[str, tuple[str, str]] = {  # the colour, and how the run ended in a sentence
    Result.OK: ("green", "ended well"),
    Result.FAILED: ("red", "failed"),
    Result.TIMEOUT: ("red", "hit its time limit"),
    Result.OUT_OF_MEMORY: ("red", "ran out of memory"),
    Result.NODE_FAIL: ("red", "was lost with its node"),
    Result.PREEMPTED: ("red", "was preempted"),
    Result.REFUSED: ("red", "was refused by the batch system"),
    Result.CANCELLED: ("yellow", "was cancelled"),
    Result.KILLED: ("yellow", "was killed"),  # by a switch, the guard or the next run: its detail says
    Result.LOST: ("yellow", "was lost before it started"),
    Result.UNKNOWN: ("", "ended, nobody knows how"),
    Result.MISSED: ("yellow", "was missed"),
    Result.SKIPPED: ("yellow", "was skipped"),
    Result.STOPPED: ("yellow", "was stopped by a switch"),
    Result.SUSPENDED: ("yellow", "was passed over, as it is suspended"),
}


def result_sentence(run: HistoryRun | EndedLink) -> str:
    """`hit its time limit`, `failed with exit code 1`, `was missed`."""
    if run.result not in _RESULTS:
        return f"{'is' if run.job else 'was'} recorded as {run.result}"
    of_it = run.result == Result.FAILED  # of one that was cancelled they say nothing
    code = f" with exit code {run.exit_code}" if of_it and run.exit_code else ""
    signal = f" by signal {run.signal}" if of_it and run.signal else ""
    return f"{_RESULTS[run.result][1]}{code}{signal}"


def result_colour(result: str) -> str:
    if result in LIVE:
        return "blue" if result == Live.RUNNING else "yellow"
    return _RESULTS.get(result, ("", ""))[0]
