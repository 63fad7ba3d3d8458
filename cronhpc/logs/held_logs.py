"""Which logs no limit reaches: live runs', each entry's newest failed one, and those written long after their slot."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cronhpc.core.model import CLOCKS_APART, FAILURES, Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cronhpc.core.model import Claim, Queue

_LATE = 7  # a run that ended later than such a part of the age limit after its slot


def live_of(queue: Queue | None, claims: Iterable[Claim]) -> frozenset[str] | None:
    """Jobs whose files may still be written; None where the batch system gave no answer: then nothing may go."""
    if queue is None:
        return None
    queued = {job.id for job in queue.jobs if job.live}
    return frozenset(queued | {claim.job_id for claim in claims if claim.job_id and claim.job_end is None})


def first_began(queue: Queue | None) -> float:
    """When the first job of the user's that now runs began, by the slowest clock; infinity where none runs.

    The queue names a job's own output only: what it opens by itself (`srun -o`, `exec >`) may be any file that was
    last written since then. To be old enough to go, such a file needs a job that runs longer than `logs.keep`.
    """
    began = (job.start or 0 for job in (queue.jobs if queue else ()) if job.live and not job.waits)
    return min(began, default=math.inf) - CLOCKS_APART


def remember(known: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], now: int, keep: int) -> dict[str, Any]:
    """What history rows tell about logs, added to what is `known`; plain JSON values, for the memory between ticks.

    `failed`: by entry id the newest failed run's [slot, attempt, log]; `late`: job ids of runs that ended long after
    their slot (they waited in the queue, or caught up), and when: such a log is not as old as its name says.
    """
    failed = {entry: list(row) for entry, row in known.get("failed", {}).items()}
    late = {job: ended for job, ended in known.get("late", {}).items() if ended > now - keep}
    for row in rows:
        key = Key.of(str(row.get("key", "")))
        if key is None or row.get("what") != "run":
            continue
        if row.get("result") in FAILURES and row.get("log"):
            found = [key.slot, key.attempt, row["log"]]
            failed[key.entry] = max(failed.get(key.entry, found), found)
        ended = row.get("ended") or row.get("at") or 0
        if row.get("job") and ended - key.slot > keep // _LATE and ended > now - keep:
            late[str(row["job"])] = ended
    return {**known, "failed": failed, "late": late}


def newest_failed(known: Mapping[str, Any]) -> dict[str, str]:
    """By entry id the path of its newest failed log, relative to the cron directory."""
    return {entry: str(row[2]) for entry, row in known.get("failed", {}).items()}
