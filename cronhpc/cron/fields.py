"""The five cron fields as values: what each may hold, what a schedule's fields hold, and their canonical text."""

from __future__ import annotations

from typing import NamedTuple

from cronhpc.cron.values import dataclass, field

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FEBRUARY, _SHORT_MONTHS = 2, {4, 6, 9, 11}
LAST_HASHED_DAY = 28  # of an H: every month has it
_RUN = 3  # from so many values on a range is shorter than a list


class Unit(NamedTuple):
    """One of cron's five fields: its name in messages, its bounds, and the names that stand for numbers."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def top(self) -> int:
        """The highest value that is not another name of the lowest: 7 is Sunday again."""
        return 6 if self.names == WEEKDAYS else self.high

    def stepped(self, step: int) -> set[int]:
        """What `*/step` means here."""
        return self.folded(set(range(self.low, self.high + 1, step)))

    def folded(self, values: set[int]) -> set[int]:
        """`values` with one number for Sunday."""
        return {value % 7 for value in values} if self.names == WEEKDAYS else values


UNITS = (
    Unit("minute", 0, 59),
    Unit("hour", 0, 23),
    Unit("day of month", 1, 31),
    Unit("month", 1, 12, MONTHS),
    Unit("day of week", 0, 7, WEEKDAYS),
)


ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


@dataclass(frozen=True, slots=True)
class Field:
    """What one field allows.

    `text` is canonical; `star` says whether it begins with `*`, which is all that cron's own rules look at;
    `values` are ascending, Sunday is 0.
    """

    text: str
    star: bool = field(compare=False)
    values: tuple[int, ...] = field(compare=False)


class Fields(NamedTuple):
    """The five fields of a schedule."""

    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def text(self) -> str:
        """The canonical text: parsing it again gives the same fields."""
        return " ".join(one.text for one in self)

    @property
    def wildcard(self) -> bool:
        """Whether the schedule follows real time through a clock change (cron.8)."""
        return self.minute.star or self.hour.star

    @property
    def either_day(self) -> bool:
        """Whether a day matches by its date *or* its weekday (crontab.5): neither field begins with `*`."""
        return not (self.day.star or self.weekday.star)

    @property
    def every_day(self) -> bool:
        """Whether no date and no weekday is left out, however that was written."""
        by_date, by_weekday = len(self.day.values) == UNITS[2].high, len(self.weekday.values) == len(WEEKDAYS)
        return (by_date or by_weekday) if self.either_day else (by_date and by_weekday)

    @property
    def can_fire(self) -> bool:
        """Whether some day matches: in the end each date falls on each weekday, 29 February too."""
        return self.either_day or any(self.day.values[0] <= longest(month) for month in self.month.values)


def longest(month: int) -> int:
    """The most days that a month (1-12) has."""
    return 29 if month == _FEBRUARY else 30 if month in _SHORT_MONTHS else 31


def field_of(unit: Unit, values: set[int], star_step: int | None) -> Field:
    """The field that allows `values`; `star_step` is the step of the `*` that it begins with, if it does."""
    values = unit.folded(values)
    ascending = tuple(sorted(values))
    if star_step is None:
        return Field(ranges(ascending), star=False, values=ascending)
    step = min(star_step, unit.high - unit.low + 1)
    rest = ranges(tuple(sorted(values - unit.stepped(step))))
    text = "*" if len(values) == unit.top - unit.low + 1 else f"*/{step},{rest}" if rest else f"*/{step}"
    return Field(text, star=True, values=ascending)


def ranges(values: tuple[int, ...]) -> str:
    """Ascending `values` in cron's shortest words: `1-5,10-30/10,45`."""
    parts, start = [], 0
    while start < len(values):
        end = _end_of_run(values, start)
        if end - start + 1 >= _RUN:
            step = values[start + 1] - values[start]
            parts.append(f"{values[start]}-{values[end]}" + (f"/{step}" if step > 1 else ""))
            start = end + 1
        else:
            parts.append(str(values[start]))
            start += 1
    return ",".join(parts)


def _end_of_run(values: tuple[int, ...], start: int) -> int:
    """The last index of the evenly spaced values that begin at `start`."""
    end = start + 1
    while end < len(values) and values[end] - values[end - 1] == values[start + 1] - values[start]:
        end += 1
    return end - 1
