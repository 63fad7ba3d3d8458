"""Cron text to slots, exactly as cronie fires them, in every time zone.

The rules of clock changes are cron.8's and cron.c's. A schedule whose minute or hour begins with `*` follows real
time; any other has fixed times: one that a change skips runs at the change, one that comes again does not run again.
croniter steps through naive wall-clock time only; zones and changes are handled here, in whole seconds of UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from cronhpc.cron import grammar, zones
from cronhpc.cron.grammar import ALIASES, UNITS, Field, Fields, ScheduleError, Unit, strict_fields
from cronhpc.cron.values import count, dataclass, field

if TYPE_CHECKING:
    from croniter import croniter


__all__ = ["Schedule", "ScheduleError", "parse", "parse_fields"]

_MINUTE = 60
_SHORTEST, _LONGEST = _MINUTE, 36_500 * zones.DAY  # of @every
_NAIVE_EPOCH = zones.EPOCH.replace(tzinfo=None)

# cron.c: forward by less than five minutes every minute is made up for, by less than three hours the fixed times are;
# a clock that goes back by up to three hours and a minute is waited for. Beyond, the new time simply holds.
_MADE_UP_WHOLLY, _MADE_UP, _WAITED_FOR = 5 * _MINUTE, 180 * _MINUTE, 181 * _MINUTE

# A slot farther off than _AHEAD is found by wall clock, then approached to _NEAR: no zone's day is longer than two.
_AHEAD, _NEAR = 4 * zones.DAY, 3 * zones.DAY


@dataclass(frozen=True, slots=True)
class Schedule:
    """When an entry is due. Two are equal if they mean the same, however they were written."""

    text: str = field(compare=False)  # as written
    canonical: str  # H resolved, names as numbers; parsing it again gives an equal schedule
    zone: ZoneInfo
    fields: Fields | None = field(compare=False, repr=False)  # None for @every
    every: int = field(compare=False, repr=False)  # seconds of @every, else 0

    @property
    def wildcard(self) -> bool:
        """Whether it follows real time through clock changes (else: fixed times)."""
        return self.fields is None or self.fields.wildcard

    def next_epoch(self, after: int) -> int:
        """The first slot strictly later than `after`, both in epoch seconds.

        Raises ScheduleError where no slot is left before the year 10000.
        """
        return _next_slot(self, after)

    def latest_before(self, instant: int, not_before: int) -> int | None:
        """The latest slot in (not_before, instant], epoch seconds, or None; cheap however many were missed.

        Raises ScheduleError as `next_epoch`.
        """
        latest = _latest_slot(self, instant)
        return latest if latest > not_before else None

    def changes(self, after: int, until: int) -> Iterator[tuple[int, int, int]]:
        """The zone's clock changes in (after, until]: epoch, offset before, offset after, all in seconds."""
        return zones.changes(self.zone, after, until)

    def in_words(self) -> str:
        """The schedule in an English phrase, in its own zone: `At 04:00, only on Sunday`."""
        return cron_in_words(self.fields) if self.fields else every_in_words(self.every)


def parse(text: str, zone: ZoneInfo, *, hash_key: str | None = None) -> Schedule:
    """Read a schedule: five cron fields, `@daily` and the like, or `@every 90m`; `hash_key` seeds `H` fields.

    Raises ScheduleError, and nothing else, for everything that cron would refuse or would never run.
    """
    return _parse(text, zone, hash_key or "" if "H" in text else "")


@lru_cache(maxsize=16_384)
def _parse(text: str, zone: ZoneInfo, hash_key: str) -> Schedule:
    plain = text.strip(" \t\r\n")
    if plain.startswith("@every"):
        every, words = _every(text, plain)
        return Schedule(text, f"@every {words}", zone, None, every)
    if plain in ALIASES:
        fields = parse_fields(ALIASES[plain])
    elif plain.startswith("@"):
        raise _with_counterpart(ScheduleError(text, text.index("@"), *grammar.unknown_alias(plain)))
    else:
        fields = parse_fields(text, hash_key)
    return Schedule(text, fields.text, zone, fields, 0)


def parse_fields(text: str, hash_key: str = "") -> Fields:
    """Read five cron fields; `hash_key` seeds the `H` ones. Raises ScheduleError."""
    try:
        return strict_fields(text, hash_key)
    except ScheduleError as error:
        raise _with_counterpart(error) from None


def _with_counterpart(error: ScheduleError) -> ScheduleError:
    """The same of a schedule that another scheduler would take, with its counterpart as the fix (foreign.py)."""
    from cronhpc.cron.foreign import recognised

    foreign = recognised(error.text)
    return error if foreign is None else ScheduleError(error.text, error.position, foreign.what, foreign.fix)


def _every(text: str, plain: str) -> tuple[int, str]:
    """The seconds of an `@every`, and the same in words."""
    from cronhpc.cron.duration import DurationError, format_duration, parse_duration

    position = text.index("@")
    match = re.fullmatch(r"@every[ \t]+(.{1,200})", plain)
    if not match:
        raise ScheduleError(text, position, "@every needs a duration.", "Write it like @every 90m.")
    duration = match[1]
    position += match.start(1)
    try:
        seconds = parse_duration(duration)
    except DurationError as error:
        raise ScheduleError(text, position, error.what, error.fix) from error
    if not _SHORTEST <= seconds <= _LONGEST:
        fix = f"Write {format_duration(_SHORTEST)} to {format_duration(_LONGEST)}."
        raise ScheduleError(text, position, f'"{grammar.printable(duration)}" is no usable time between two runs.', fix)
    return seconds, format_duration(seconds)


# --- slots ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16_384)
def _next_slot(schedule: Schedule, after: int) -> int:
    if not zones.FIRST <= after <= zones.LAST - _AHEAD:
        raise _out_of_time(schedule)
    if schedule.fields is None:
        slot = (after // schedule.every + 1) * schedule.every
    else:
        slot = _first_from(schedule, after + 1)
    if slot > zones.LAST:
        raise _out_of_time(schedule)
    return slot


def _out_of_time(schedule: Schedule) -> ScheduleError:
    return ScheduleError(schedule.text, 0, "no slot follows within the years 1 to 9999.", "Ask for another instant.")


def _first_from(schedule: Schedule, at: int) -> int:
    """The first slot at or after the instant `at`: looked for by wall clock, from one clock change to the next."""
    zone, made_up = schedule.zone, _MADE_UP_WHOLLY if schedule.wildcard else _MADE_UP
    while True:
        ahead = zones.offset(zone, at)
        wall = at + ahead if schedule.wildcard else max(at + ahead, _waited_for(zone, at))
        slot = _first_wall(schedule, wall) - ahead
        change = next(zones.changes(zone, at, min(slot, at + _AHEAD)), None)
        if change is None:
            if slot <= at + _AHEAD:
                return slot
            at = slot - _NEAR
        else:
            if 0 < change.jump < made_up and _skips(schedule, change):
                return change.epoch
            at = change.epoch


def _skips(schedule: Schedule, change: zones.Change) -> bool:
    """Whether a time of the schedule is among those that the clock leaves out."""
    return _first_wall(schedule, change.epoch + change.before) < change.epoch + change.after


def _waited_for(zone: ZoneInfo, at: int) -> int:
    """The wall clock before which fixed times have run already, where the clock has just gone back."""
    recent = zones.changes(zone, at - _WAITED_FOR, at)
    walls = (change.epoch + change.before for change in recent if -_WAITED_FOR <= change.jump < 0)
    return max(walls, default=zones.FIRST)


def _first_wall(schedule: Schedule, wall: int) -> int:
    """The first wall-clock time at or after `wall` that the fields match; both as seconds since 1970 on that clock."""
    from copy import copy

    stepper = copy(_stepper(schedule.canonical))  # it keeps its place in itself
    try:
        slot = stepper.get_next(datetime, start_time=_NAIVE_EPOCH + timedelta(seconds=wall - 1), update_current=False)
    except (ValueError, OverflowError) as error:  # croniter's way to say that it reached the end of the calendar
        raise _out_of_time(schedule) from error
    return (slot - _NAIVE_EPOCH) // timedelta(seconds=1)


@lru_cache(maxsize=1)
def _croniter() -> type[croniter]:
    """Its import asks the program `file` how wide this Python is: a process, by PATH, without a time-out. Not here."""
    import platform

    architecture = platform.architecture
    platform.architecture = lambda *_, **__: ("", "")
    try:
        from croniter import croniter
    finally:
        platform.architecture = architecture
    return croniter


@lru_cache(maxsize=1_024)
def _stepper(canonical: str) -> croniter:
    """A croniter of the fields as plain lists, which is all of its own grammar that agrees with cron's."""
    croniter = _croniter()
    fields = parse_fields(canonical)
    day, weekday = ("*", "*") if fields.every_day else (_listed(fields.day.values), _listed(fields.weekday.values))
    text = (
        f"{_listed(fields.minute.values)} {_listed(fields.hour.values)} {day} {_listed(fields.month.values)} {weekday}"
    )
    return croniter(text, _NAIVE_EPOCH, day_or=fields.either_day)


def _listed(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))


@lru_cache(maxsize=16_384)
def _latest_slot(schedule: Schedule, instant: int) -> int:
    """The latest slot up to `instant`: leap back until one lies ahead, then halve; a dozen looks, not a walk."""
    upcoming = _next_slot(schedule, instant)
    distance = max(_MINUTE, _next_slot(schedule, upcoming) - upcoming)
    while (latest := _next_slot(schedule, instant - distance)) > instant:
        distance *= 4
    end = instant  # no slot in (end, instant]
    while (following := _next_slot(schedule, latest)) <= instant:
        latest = following
        middle = (latest + end) // 2
        beyond = _next_slot(schedule, middle)
        if beyond <= instant:
            latest = beyond
        else:
            end = middle
    return latest


# --- every slot of a stretch of time ----------------------------------------------------------------------------------


_FIRST_DAY = date(1970, 1, 1).toordinal()
_BACK = 4 * 3600  # a clock that went back within these seconds may still be waited for


def between(schedule: Schedule, after: int, until: int) -> list[int]:
    """The slots in (after, until], epoch seconds, ascending: what `next_epoch` would find one by one.

    Where no clock changes, they are read off the fields; a hundred entries with a slot a minute take no second so.
    """
    fields = schedule.fields
    if fields is None or next(schedule.changes(after - _BACK, until), None) is not None:
        return _one_by_one(schedule, after, until)
    ahead = zones.offset(schedule.zone, after)
    slots = []
    for day in range((after + ahead) // zones.DAY, (until + ahead) // zones.DAY + 1):
        at = date.fromordinal(_FIRST_DAY + day)
        if at.month in fields.month.values and fields.on(at.day, at.isoweekday() % 7):
            start = day * zones.DAY - ahead
            slots += [start + 3600 * h + 60 * m for h in fields.hour.values for m in fields.minute.values]
    return [slot for slot in slots if after < slot <= until]


def _one_by_one(schedule: Schedule, after: int, until: int) -> list[int]:
    slots: list[int] = []
    try:
        while (after := schedule.next_epoch(after)) <= until:
            slots.append(after)
    except ScheduleError:  # the end of the calendar
        pass
    return slots


# --- in words ---------------------------------------------------------------------------------------------------------


_LISTED = 8  # a longer list is said as ranges
_ONE = re.compile(r"(?<!and )(?<![0-9, ] )(?<![0-9])1 (minute|hour|second)s\b")  # the library says "1 minutes"


def cron_in_words(fields: Fields) -> str:
    """The fields in an English phrase on a 24-hour clock."""
    minute, hour, day, month, weekday = (_plain(*pair) for pair in zip(UNITS, fields, strict=True))
    if fields.every_day:
        day = weekday = "*"
    # Put together here: the library says "or", or nothing, between date and weekday, whatever cron means by them.
    times, _, _ = _described(f"{minute} {hour} {day} * *")
    times = _ONE.sub(r"1 \1", times)
    _, weekdays, months = _described(f"* * * {month} {weekday}")
    joint = "" if weekday == "*" else ", or " if fields.either_day and day != "*" else ", only "
    return f"{times}{joint}{weekdays.removeprefix(', ').removeprefix('only ')}{months}"


@lru_cache(maxsize=1_024)
def _described(expression: str) -> tuple[str, str, str]:
    """What the library says of it in all, of its weekdays, of its months; it reads its catalog anew for each."""
    from cron_descriptor import ExpressionDescriptor, Options

    # The locale is given, else the library asks the environment for it, and warns where there is none.
    english = ExpressionDescriptor(expression, Options(locale_code="en_US", use_24hour_time_format=True))
    return english.get_full_description(), english.get_day_of_week_description(), english.get_month_description()


def every_in_words(seconds: int) -> str:
    """`Every hour`, `Every 1 hour 30 minutes`."""
    parts = []
    for name, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(count(number, name))
    return f"Every {' '.join(parts)}" if len(parts) > 1 else f"Every {parts[0].removeprefix('1 ')}"


def _plain(unit: Unit, field: Field) -> str:
    """The field in a form that the library says rightly: a step only where it comes out even, or is a long row."""
    values = field.values
    steps = {high - low for low, high in pairwise(values)}
    step = steps.pop() if len(steps) == 1 else 0  # 0: not a row
    size = unit.top - unit.low + 1
    if len(values) == size:
        return "*"
    if step == 1:
        return f"{values[0]}-{values[-1]}"
    if step and size % step == 0 and len(values) == size // step and values[0] == unit.low:
        return f"*/{step}"
    if step and len(values) > _LISTED:
        return f"{values[0]}-{values[-1]}/{step}"
    return ",".join(map(str, values))
