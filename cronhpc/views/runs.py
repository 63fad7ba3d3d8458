"""History rows and live attempts as facts: JSON-ready, times in ISO 8601, the same keys everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cronhpc.core.identity import records
from cronhpc.core.liveness import absences
from cronhpc.core.model import FAILURES, ClaimState, Finish, Key, Result, restarted, standing_for
from cronhpc.views import Facts
from cronhpc.views.times import epoch, iso

if TYPE_CHECKING:
    from cronhpc.core.liveness import Absence
    from cronhpc.core.model import Claim, Job, JobEnd, Plan, World

_FAILED = frozenset(map(str, FAILURES))
_ISO_KEYS = ("submitted", "started", "ended")


def run_facts(row: Mapping[str, Any]) -> Facts:
    """One row of history, whichever of its facts are known. Times in a row are epoch seconds."""
    slot, attempt, by_hand = _which(row)
    times = {name: _whole(row.get(name)) for name in _ISO_KEYS}
    began, ended, submitted = times["started"], times["ended"], times["submitted"]
    ready = max(submitted, slot) if submitted and slot else submitted  # one submitted ahead waits from its slot on
    return {
        "entry": str(row.get("entry", "")),
        "slot": iso(slot),
        "attempt": attempt,
        "by_hand": by_hand,
        "result": str(row.get("result") or Result.UNKNOWN),
        "exit_code": row.get("exit_code"),
        "signal": row.get("signal"),
        "job": str(row.get("job") or "") or None,
        **{name: iso(at) for name, at in times.items()},
        "waited": max(began - ready, 0) if began and ready else None,
        "took": max(ended - began, 0) if began and ended else None,
        "node": str(row.get("node") or ""),
        "detail": str(row.get("detail") or ""),
        "count": _whole(row.get("count")) or 1,
        "log": str(row.get("log") or ""),
    }


def _which(row: Mapping[str, Any]) -> tuple[int | None, int, bool]:
    """Slot, attempt, by hand: as the row has them, else from its key."""
    slot = _whole(row.get("slot"))
    if slot is None and (key := Key.of(str(row.get("key", "")))) is not None:
        return key.slot, key.attempt, key.by_hand
    return slot, _whole(row.get("attempt")) or 1, bool(row.get("by_hand"))


def switch_facts(row: Mapping[str, Any]) -> Facts:
    """What a switch stopped, in the shape of a run."""
    reason = f': "{row["reason"]}"' if row.get("reason") else ""
    known = run_facts({"slot": row.get("at"), "result": "switch", "detail": f"by {row.get('by')}{reason}; {_did(row)}"})
    return {**known, "entry": str(row.get("switch", "")), "switch": True}


def _did(row: Mapping[str, Any]) -> str:
    """`cancelled 4501 running 9h12m on cpu2, 4502_[3-10] pending`, `warned 4501`, `gone: 4501 after 32 s`."""
    if row.get("gone"):
        return "gone: " + ", ".join(f"{job} after {seconds} s" for job, seconds in row["gone"].items())
    were = ", ".join(map(str, row.get("were") or row.get("jobs") or row.get("warned") or ()))
    return f"{'cancelled' if row.get('jobs') else 'warned'} {were}"


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def ended_facts(name: str, key: Key, job_end: JobEnd, job_id: str | None) -> Facts:
    """The same of an attempt that has ended and is not in history yet."""
    row = {field: getattr(job_end, field) for field in job_end.__slots__}
    row |= {"entry": name, "slot": key.slot, "attempt": key.attempt, "by_hand": key.by_hand, "job": job_id}
    return run_facts({**row, "result": str(job_end.result)})


def live_facts(claim: Claim, job: Job | None, now: int, *, answers: bool, absent: Absence | None = None) -> Facts:
    """An attempt as the queue has it; UNKNOWN where that does not answer, ENDED where nobody tells yet how."""
    gone = absent is not None and not absent.may_live
    started = job.start if job and not job.waits else None
    return {
        "job": claim.job_id,
        "slot": iso(claim.key.slot),
        "attempt": claim.key.attempt,
        "by_hand": claim.key.by_hand,
        "state": "ENDED" if gone else job.state if job else "SUBMITTED" if answers else "UNKNOWN",
        "absent": str(absent or ""),
        "restarts": job.restarts if job else 0,
        "reason": job.reason if job and job.waits else "",
        "held": bool(job and job.held),
        "started": iso(started),
        "since": iso(started or claim.recorded or claim.at or None),
        "ready": iso(max(claim.at, claim.key.slot)),  # it waits from then on: one caught up with was not there before
        "ahead": claim.key.slot > now,
        "node": job.nodes if job else "",
    }


def first_piece(job: Job) -> Facts:
    """The piece of a series that a person started: there is no claim of it."""
    started = job.start if not job.waits else None
    return {
        "job": job.id, "slot": None, "attempt": 1, "by_hand": True, "state": job.state,
        "reason": job.reason if job.waits else "", "held": job.held, "started": iso(started),
        "since": iso(started), "ready": None, "ahead": False, "node": job.nodes,
    }  # fmt: skip


LIVE = ("submitted", "pending", "held", "running", "ended")  # what a run that has not ended is called in `history`


def unfinished(world: World, plan: Plan) -> list[Facts]:
    """Attempts that no tick has finished yet, in the shape of a run: how they ended, or how far they are."""
    ends = {d.key: d.job_end for d in plan.decisions if isinstance(d, Finish)}
    jobs, absent = jobs_by_id(world), absences(world)
    unended = []
    for claim in world.claims:
        name = claim.name or claim.key.entry
        if claim.state is ClaimState.FINISHED or (claim.key not in ends and not claim.job_id):
            continue
        if claim.key in ends:
            unended.append(ended_facts(name, claim.key, ends[claim.key], claim.job_id))
        else:
            unended.append(_unended(name, claim, jobs.get(claim.job_id or ""), absent.get(claim.job_id or "")))
    return unended


def _unended(name: str, claim: Claim, job: Job | None, absent: Absence | None) -> Facts:
    """What the queue does not show is submitted, or has ended in a way that is not known yet."""
    if absent is not None:
        row = {"entry": name, "key": str(claim.key), "job": claim.job_id, "submitted": claim.at or None}
        return run_facts({**row, "result": "submitted" if absent.may_live else "ended", "detail": str(absent)})
    pending = job is None or job.waits
    reason = job.reason if job and pending and job.reason not in {"None", "BeginTime"} else ""
    row = {
        "entry": name,
        "key": str(claim.key),
        "result": _progress(job) if job else "submitted",
        "job": claim.job_id,
        "submitted": claim.at or None,
        "started": job.start if job and not pending else None,
        "node": job.nodes if job else "",
        "detail": "; ".join(filter(None, (restarted(job.restarts), reason))) if job else "",
    }
    return run_facts(row)


def _progress(job: Job) -> str:
    if job.waits:
        return "held" if job.held else "pending"
    return "running" if job.live and job.state != "SUSPENDED" else job.state.lower()


def jobs_by_id(world: World) -> dict[str, Job]:
    """The row that speaks for each job of ours in the queue."""
    jobs: dict[str, list[Job]] = {}
    for job in world.queue.jobs if world.queue else ():
        if records(world).of(job) is not None:
            jobs.setdefault(job.id, []).append(job)
    return {job_id: one for job_id, rows in jobs.items() if (one := standing_for(rows)) is not None}


def failed(run: Mapping[str, Any] | None) -> bool:
    """Whether a run's end counts as a failure."""
    return run is not None and str(run.get("result")) in _FAILED


def result_words(run: Mapping[str, Any]) -> str:
    """`ok`, `failed (1)`, `failed (signal 9)`, `missed (3)`."""
    words = str(run.get("result", ""))
    if run.get("signal") and words == Result.FAILED:  # of one that was cancelled it says nothing
        return f"{words} (signal {run['signal']})"
    if words == Result.FAILED and run.get("exit_code"):
        return f"{words} ({run['exit_code']})"
    return f"{words} ({run['count']})" if run.get("count", 1) > 1 else words


def when(run: Mapping[str, Any]) -> int:
    """The instant that a run is told by: its slot."""
    return epoch(run.get("slot")) or epoch(run.get("ended")) or 0


RESULT_COLOURS = {
    Result.OK: "green",
    Result.MISSED: "yellow",
    Result.SKIPPED: "yellow",
    Result.STOPPED: "yellow",
    Result.SUSPENDED: "yellow",
    Result.CANCELLED: "yellow",
    Result.KILLED: "yellow",
    Result.LOST: "yellow",
    **dict.fromkeys(FAILURES, "red"),
}
_LIVE_COLOURS = {"submitted": "yellow", "ended": "yellow", "pending": "yellow", "held": "yellow", "running": "blue"}


def result_colour(run: Mapping[str, Any]) -> str:
    """The colour of a result's words."""
    result = str(run.get("result", ""))
    if result in _LIVE_COLOURS:
        return _LIVE_COLOURS[result]
    try:
        return RESULT_COLOURS.get(Result(result), "")
    except ValueError:
        return ""
