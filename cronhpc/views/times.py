"""Instants and durations as people say them, in one zone, seen from one moment."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from functools import lru_cache

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NEAR = 6  # days for which a weekday is enough

MINUTE, HOUR, DAY = 60, 3600, 86400


def local(at: int, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(at, zone)


def _time_of_day(moment: datetime, *, seconds: bool) -> str:
    """The time of day; with its zone in the hour that the clocks pass twice."""
    text = f"{moment:%H:%M:%S}" if seconds else f"{moment:%H:%M}"
    other = moment.replace(fold=1 - moment.fold)
    twice = other.utcoffset() != moment.utcoffset() and other.astimezone(UTC).astimezone(moment.tzinfo) == other
    return f"{text} {moment:%Z}" if twice else text


def _date(moment: datetime, today: datetime) -> str:
    text = f"{moment.day} {MONTHS[moment.month - 1]}"
    return text if moment.year == today.year else f"{text} {moment.year}"


def clock(at: int, now: int, zone: tzinfo, *, seconds: bool = False) -> str:
    """As short as is clear from `now`: `14:30` today, `Sat 04:00` within six days, else `28 Nov 04:00`."""
    return _clock(at if seconds else at - at % MINUTE, now, zone, seconds)


@lru_cache(maxsize=4096)  # a table says many an instant again and again: entries share their minutes
def _clock(at: int, now: int, zone: tzinfo, seconds: bool) -> str:  # noqa: FBT001 - as `clock` has it
    moment, today = local(at, zone), local(now, zone)
    hands = _time_of_day(moment, seconds=seconds)
    days = (moment.date() - today.date()).days
    if days == 0:
        return hands
    if abs(days) <= _NEAR:
        return f"{DAYS[moment.weekday()]} {hands}"
    return f"{_date(moment, today)} {hands}"


def dated(at: int, now: int, zone: tzinfo) -> str:
    """As in a sentence: `today 04:00`, `yesterday 22:00`, `tomorrow 04:00`, `Sat 28 Nov 04:00`."""
    moment, today = local(at, zone), local(now, zone)
    word = {-1: "yesterday", 0: "today", 1: "tomorrow"}.get((moment.date() - today.date()).days)
    return f"{word} {_time_of_day(moment, seconds=False)}" if word else _with_day(moment, today)


def slot_words(at: int, now: int, zone: tzinfo) -> str:
    """`Today's 04:00`, `Yesterday's 04:00`, `The slot Sat 28 Nov 04:00`."""
    moment = local(at, zone)
    whose = {-1: "Yesterday's", 0: "Today's"}.get((moment.date() - local(now, zone).date()).days)
    return f"{whose} {_time_of_day(moment, seconds=False)}" if whose else f"The slot {dated(at, now, zone)}"


def _with_day(moment: datetime, today: datetime) -> str:
    return f"{DAYS[moment.weekday()]} {_date(moment, today)} {_time_of_day(moment, seconds=False)}"


def whole(at: int, now: int, zone: tzinfo) -> str:
    """With its day and zone: `Sat 28 Nov 04:00 CET`."""
    moment = local(at, zone)
    text = _with_day(moment, local(now, zone))
    zone_name = f"{moment:%Z}"
    return text if text.endswith(zone_name) else f"{text} {zone_name}"


def day(at: int, now: int, zone: tzinfo) -> str:
    """Only the day: `Sat 28 Nov`."""
    moment = local(at, zone)
    return f"{DAYS[moment.weekday()]} {_date(moment, local(now, zone))}"


def span(seconds: int) -> str:
    """A stretch of time, roughly: `45 s`, `23 min`, `14 h`, `3 days`, `5 weeks`, `2 years`."""
    seconds = abs(seconds)
    for unit, upto, word in ((1, 60, "s"), (MINUTE, 100, "min"), (HOUR, 48, "h"), (DAY, 21, "days")):
        number = int(seconds / unit + 0.5)
        if number < upto:
            return f"{number} {word}"
    weeks = int(seconds / (7 * DAY) + 0.5)
    return f"{weeks} weeks" if weeks < 100 else f"{seconds / (365.25 * DAY):.0f} years"  # noqa: PLR2004 - about two years


def distance(at: int, now: int) -> str:
    """`in 23 min`, `3 days ago`, `now`."""
    if at == now:
        return "now"
    return f"in {span(at - now)}" if at > now else f"{span(now - at)} ago"


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
