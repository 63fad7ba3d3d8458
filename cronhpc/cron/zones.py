"""The clock changes of a time zone, found from its offsets alone."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronhpc.cron.values import nearest

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400
# Three days within what datetime can hold, so that no offset leads out of it.
FIRST, LAST = -62_135_596_800 + 3 * DAY, 253_402_300_799 - 3 * DAY


_KEY = re.compile(r"[A-Za-z0-9_+-]{1,40}(?:/[A-Za-z0-9_+-]{1,40}){0,3}")  # as the longest of the database, and more


class ZoneError(ValueError):
    """The database has no such zone."""


def zone_of(key: str) -> ZoneInfo:
    """The time zone called `key`. Raises ZoneError whatever it holds: a path, a blank, NUL, levels without end."""
    if _KEY.fullmatch(key) is None:
        raise ZoneError(key)
    try:
        return ZoneInfo(key)
    except (KeyError, ValueError, OSError) as error:  # unknown; no zone file; a folder of the database
        raise ZoneError(key) from error


def is_zone(key: str) -> bool:
    try:
        zone_of(key)
    except ZoneError:
        return False
    return True


_FIXED = re.compile(r"(?P<name>[A-Za-z]{3,}|<[+-]?\w+>)?(?P<sign>[+-]?)(?P<hours>\d{1,2})(?::00)?")


def fixed(text: str) -> str | None:
    """The key that the C library's `UTC+3` stands for: Etc/GMT+3, three hours *behind* UTC (POSIX); None for others."""
    match = _FIXED.fullmatch(text)
    if match is None or not match["name"]:
        return None
    key = f"Etc/GMT{match['sign'] or '+'}{int(match['hours'])}" if int(match["hours"]) else "UTC"
    return key if is_zone(key) else None


def fix(text: str) -> str:
    """What to write for a zone that is none: the nearest, also by its city; of `UTC+3` both ways to read its sign."""
    from zoneinfo import available_timezones

    match = _FIXED.fullmatch(text.strip())
    hours = int(match["hours"]) if match and match["sign"] else 0
    if hours and is_zone(f"Etc/GMT+{hours}"):
        ahead = f"Write Etc/GMT-{hours} for {hours} hours ahead of UTC (its sign is POSIX's)"
        return f"{ahead}, Etc/GMT+{hours} for as many behind."
    keys = sorted(available_timezones())
    lowered = {key.lower(): key for key in keys} | {key.rpartition("/")[2].lower(): key for key in keys}
    near = nearest(text[:60].lower().replace(" ", "_"), lowered, 0.7)
    if near:
        return f"Did you mean the time zone {lowered[near]}?"
    return "Write the name of a time zone, such as Europe/Paris or UTC."


class Change(NamedTuple):
    """A clock change: the first second (epoch) of the new offset, and the offsets from UTC in seconds."""

    epoch: int
    before: int
    after: int

    @property
    def jump(self) -> int:
        """Seconds by which the clock goes forward; negative where it goes back."""
        return self.after - self.before


def instant(epoch: int) -> datetime:
    """The aware UTC datetime of epoch seconds."""
    return EPOCH + timedelta(seconds=epoch)


def offset(zone: ZoneInfo, epoch: int) -> int:
    """Seconds that the zone's clock is ahead of UTC at `epoch`."""
    ahead = instant(epoch).astimezone(zone).utcoffset()
    assert ahead is not None  # noqa: S101  # for the type: an aware datetime has one
    return ahead // timedelta(seconds=1)


def changes(zone: ZoneInfo, after: int, until: int) -> Iterator[Change]:
    """The clock changes in (after, until], in order.

    Looks once a day: two changes that undo each other within a day would be missed; no zone ever had that.
    """
    start, ahead = max(after, FIRST), offset(zone, max(after, FIRST))
    while start < min(until, LAST):
        end = min(start + DAY, until, LAST)
        while ahead != offset(zone, end):
            at = _first_with_another(zone, start, end, ahead)
            yield Change(at, ahead, offset(zone, at))
            start, ahead = at, offset(zone, at)
        start = end


def _first_with_another(zone: ZoneInfo, low: int, high: int, ahead: int) -> int:
    """The first second in (low, high] whose offset is not `ahead`, which `low` has and `high` has not."""
    return low + 1 + bisect_left(range(low + 1, high), 1, key=lambda at: offset(zone, at) != ahead)
