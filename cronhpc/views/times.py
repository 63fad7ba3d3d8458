"""Days, months and durations as people say them."""

from __future__ import annotations

from datetime import datetime, tzinfo
from functools import lru_cache

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

MINUTE, HOUR, DAY = 60, 3600, 86400


def local(at: int, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(at, zone)


def span(seconds: int) -> str:
    """A stretch of time, roughly: `45 s`, `23 min`, `14 h`, `3 days`, `5 weeks`, `2 years`."""
    seconds = abs(seconds)
    for unit, upto, word in ((1, 60, "s"), (MINUTE, 100, "min"), (HOUR, 48, "h"), (DAY, 21, "days")):
        number = int(seconds / unit + 0.5)
        if number < upto:
            return f"{number} {word}"
    weeks = int(seconds / (7 * DAY) + 0.5)
    return f"{weeks} weeks" if weeks < 100 else f"{seconds / (365.25 * DAY):.0f} years"  # noqa: PLR2004 - about two years


@lru_cache(maxsize=4096)
def took(seconds: int | None) -> str:
    """A measured duration in its two largest units: `12s`, `1m12s`, `9h12m`, `2d4h`; `-` where unknown."""
    from cronhpc.cron.duration import format_duration

    if seconds is None:
        return "-"
    seconds = max(seconds, 0)
    for unit, below in ((DAY, HOUR), (HOUR, MINUTE)):
        if seconds >= unit:
            return format_duration(seconds - seconds % below)
    return format_duration(seconds)
