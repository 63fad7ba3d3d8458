"""When logs are cleaned, which of them no limit reaches, and what is remembered between ticks (`state/logs.json`).

Listing every log costs on a shared file system, so a tick does it four times a day; sooner where the last one left work
to do, or the disk is nearly full. In between it looks into those folders alone that a new log came into: one listing,
and a stat a folder.
"""

from __future__ import annotations

import contextlib
import math
import os
from datetime import UTC, datetime

from cronhpc.core.model import CLOCKS_APART, FAILURES, Claim, Key, Problem, Queue, Settings, StateError, decode
from cronhpc.cron.values import dataclass, field, replace
from cronhpc.store import history, logs
from cronhpc.store.files import Paths, clock_of, read_json, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cronhpc.core.model.runs import HistoryRow, Instant
    from cronhpc.core.retention import Cleaned
    from cronhpc.engine.site import Site

VERSION = 1
MOST = 5000  # files that one tick removes
_FILE = "logs.json"
_EVERY = 6 * 3600  # seconds between two listings of all logs
_SOON = 10 * 60  # ... while the disk is nearly full
_FEW = 1000  # folders, of which a stat each is cheap enough for every tick
_MONTHS = 24  # of history that are kept
_AHEAD = 86400  # seconds by which this machine's clock may be ahead of the file system's: ages are of days
_LATE = 7  # a run that ended later than such a part of the age limit after its slot
_LOOK_BACK = 86400  # seconds by which clocks of machines, and rows of history, may be out of order
Nanoseconds = int


@dataclass(frozen=True, slots=True)
class Known:
    """What is remembered between ticks."""

    at: Instant = 0  # when all logs were listed
    rows: Instant = 0  # when history was read
    seen: Nanoseconds = 0  # the newest folder that was looked into
    left: bool = False  # there was more to remove
    failed: Mapping[str, tuple[Instant, int, str]] = field(default_factory=dict)  # entry id: slot, attempt, newest log
    late: Mapping[str, Instant] = field(default_factory=dict)  # job id: the end, long after its slot


def clean_when_due(
    site: Site,
    now: int,
    queue: Queue | None,
    claims: Iterable[Claim],
    *,
    most: int = MOST,
    always: bool = False,
    dry_run: bool = False,
) -> Cleaned | None:
    """Clean where it is time to (`always`: now), and rotate the scheduler's log and history; None: it is not time.

    Logs of live runs stay, and of those that ended long after their slot, which history tells. Ages are only believed
    up to the file system's own clock: with a later `now` nothing goes. What the disk refuses is a problem.
    """
    paths, settings = site.paths, site.settings
    try:
        known = _known(paths)
        whole = always or _is_due(paths, settings, known, now)
        if not whole and not logs.changed(paths, known.seen, _FEW):
            return None
        if (clock := _disk_clock(paths, now)) < now - _AHEAD:
            return _not_cleaned(_clock_ahead(clock, now))
        known = remember(known, _rows_since(paths, known), now, settings.logs_keep)
    except (OSError, StateError) as error:
        return _not_cleaned(_not_kept(paths, str(error)))
    from cronhpc.logs.clean import clean_logs

    live = live_of(queue, claims)
    cleaned = clean_logs(
        paths,
        settings,
        now,
        live=None if live is None else live | known.late.keys(),
        live_files=site.batch.live_files,
        first_began=first_began(queue),
        newest_failed=newest_failed(known),
        most=most,
        dry_run=dry_run,
        since=None if whole else known.seen,
    )
    if dry_run:
        return cleaned
    at, seen = (now, cleaned.seen) if whole else (known.at, max(cleaned.seen, known.seen))
    try:
        _keep(paths, replace(known, at=at, rows=now, seen=seen, left=cleaned.left), now)
    except OSError as error:
        return replace(cleaned, problems=(*cleaned.problems, _not_kept(paths, str(error))))
    return cleaned


def _known(paths: Paths) -> Known:
    """What the last cleaning left; nothing, where any of it is of no use: history tells it all again."""
    known, invalid = decode.read(Known, read_json(paths.state / _FILE, VERSION) or {})
    return Known() if known is None or invalid else known


def _disk_clock(paths: Paths, now: int) -> int:
    """What time it is by the file system's clock, at least; `now` where it cannot be told, as on a full disk."""
    with contextlib.suppress(OSError):
        last = int(os.stat(paths.status).st_mtime)  # noqa: PTH116 - one stat, and the tick has just written it
        if last >= now - _AHEAD:
            return last
    with contextlib.suppress(OSError):
        return clock_of(paths.state)
    return now


def _clock_ahead(clock: int, now: int) -> Problem:
    ours, theirs = (datetime.fromtimestamp(each, UTC).strftime("%F %H:%M UTC") for each in (now, clock))
    what = (
        f"This machine's clock says {ours}, the file system's {theirs}: no log was removed, for its age is not known."
    )
    return Problem("W617", what, "Tell the administrators: this machine's clock wants ntp.")


def _not_cleaned(problem: Problem) -> Cleaned:
    from cronhpc.core.retention import Cleaned

    return Cleaned(problems=(problem,), left=True)


def _keep(paths: Paths, known: Known, now: int) -> None:
    """Raises OSError."""
    write_json(paths.state / _FILE, decode.plain(known), VERSION)
    logs.rotate(paths)
    history.rotate(paths.history, keep_months=_MONTHS, now=now)


def _not_kept(paths: Paths, error: str) -> Problem:
    what = f"What is known of logs cannot be read or kept: {error}."
    return Problem(
        "W616", what, "Fix that; until then the next tick looks at all of them again.", paths.relative(paths.state)
    )


def _is_due(paths: Paths, settings: Settings, known: Known, now: int) -> bool:
    since = now - known.at
    if known.left or not 0 <= since < _EVERY:
        return True
    if since < _SOON:
        return False
    try:
        return bool(logs.scarce(logs.space(paths.log), settings.logs_total))
    except FileNotFoundError:
        return False


def _rows_since(paths: Paths, known: Known) -> Iterator[HistoryRow]:
    """History since the last time, and a little before it."""
    until = known.rows - _LOOK_BACK
    for row in history.rows(paths.history):
        if row.get("at", until) < until:
            return
        yield row


# --- which logs no limit reaches: live runs', each entry's newest failed one, those written long after their slot -----


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


def remember(known: Known, rows: Iterable[HistoryRow], now: int, keep: int) -> Known:
    """What history rows tell about logs, added to what is `known`.

    Runs end long after their slot that waited in the queue, or caught up: such a log is not as old as its name says.
    """
    failed = {**known.failed}
    late = {job: ended for job, ended in known.late.items() if ended > now - keep}
    for row in rows:
        key = Key.of(row.get("key", ""))
        if key is None or row.get("what") != "run":
            continue
        if row.get("result") in FAILURES and row.get("log"):
            attempt = (key.slot, key.attempt, row["log"])
            failed[key.entry] = max(failed.get(key.entry, attempt), attempt)
        ended = row.get("ended") or row.get("at") or 0
        job = row.get("job")
        if job and ended - key.slot > keep // _LATE and ended > now - keep:
            late[job] = ended
    return replace(known, failed=failed, late=late)


def newest_failed(known: Known) -> dict[str, str]:
    """By entry id the path of its newest failed log, relative to the cron directory."""
    return {entry: log for entry, (_, _, log) in known.failed.items()}
