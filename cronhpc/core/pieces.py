"""`cronhpc again`, decided: when the next piece is due, and whether there is one at all."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from cronhpc.core.model import FAILURES, Instant, JobEnd, Result, Rules
from cronhpc.cron.duration import format_duration
from cronhpc.cron.values import count
from cronhpc.cron.zones import zone_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def words(rules: Rules) -> str:
    """When pieces come, for people."""
    if rules.after:
        return "each as soon as the one before has ended"
    return f"every {format_duration(rules.every)}" if rules.every else f"{rules.cron} ({rules.timezone})"


def job_ends(rules: Rules) -> tuple[str, ...]:
    """What would end the series, for people."""
    ends = []
    if rules.until:
        ends.append(f"when {rules.until} exists")
    if rules.until_time is not None:
        at = datetime.fromtimestamp(rules.until_time, zone_of(rules.timezone))
        ends.append(f"at {at:%Y-%m-%d %H:%M} ({rules.timezone})")
    if rules.max_runs is not None:
        ends.append(f"with piece {rules.max_runs}")
    if rules.max_fast_failures is not None:
        failures, fast = count(rules.max_fast_failures, "failure"), format_duration(rules.fast)
        ends.append(f"after {failures}{' in a row' if rules.max_fast_failures > 1 else ''} within {fast}")
    return tuple(ends)


class Ran(NamedTuple):
    """How an earlier piece ended, as far as anyone knows."""

    job_id: str
    result: Result
    started: Instant | None
    ended: Instant | None

    @classmethod
    def of(cls, job_id: str, job_end: JobEnd) -> Ran:
        """From what the engine has finished."""
        return cls(job_id, job_end.result, job_end.started, job_end.ended)


def next_slot(rules: Rules, own: int, now: int) -> int:
    """The slot of the next piece, later than this one's own and than the clock.

    A slow clock must not make a piece queue its own slot again. `--after` has no times: the instant serves as its name.
    """
    if rules.after:
        return max(now, own + 1)
    from cronhpc.cron.schedule import parse

    schedule = parse(f"@every {rules.every}s" if rules.every else rules.cron, zone_of(rules.timezone))
    return schedule.next_epoch(max(now, own))


def ended(rules: Rules, *, until_exists: bool, now: int, ran: Sequence[Ran]) -> str:
    """Why this piece should not run, and none after it; "" while it goes on. `ran`: earlier pieces, oldest first."""
    if until_exists:
        return f"{rules.until} exists"
    if rules.until_time is not None and now >= rules.until_time:
        return "its --until-time has come"
    if crashed(rules, ran):
        pieces, within = rules.max_fast_failures or 0, format_duration(rules.fast)
        return f"the last {pieces} pieces failed within {within} each" if pieces > 1 else f"it failed within {within}"
    return ""


def crashed(rules: Rules, ran: Sequence[Ran]) -> bool:
    """Whether so many of the newest pieces in a row have failed soon after their start that it ends the series."""
    return rules.max_fast_failures is not None and _fast_failures(rules, ran) >= rules.max_fast_failures


def last(rules: Rules, *, next_at: int, runs: int) -> str:
    """Why this piece is the last one, though it runs; "" if another follows."""
    if rules.max_runs is not None and runs >= rules.max_runs:
        return f"run {runs} of --max-runs {rules.max_runs}"
    if rules.until_time is not None and not rules.after and next_at > rules.until_time:
        return "the next one would start after --until-time"
    return ""


def _fast_failures(rules: Rules, ran: Sequence[Ran]) -> int:
    """How many of the newest pieces, in a row, failed soon after their start; but for time limits and preemptions."""
    count = 0
    for piece in reversed(ran):
        quick = piece.started is not None and piece.ended is not None and piece.ended - piece.started <= rules.fast
        if piece.result not in FAILURES - {Result.TIMEOUT, Result.PREEMPTED} or not quick:
            return count
        count += 1
    return count
