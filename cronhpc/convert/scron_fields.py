"""A scrontab's schedule as Slurm's own parser reads it, said in cron's words.

Slurm's rules, from its parser and its calculation of the next start (tried against 22.05.8's library):
steps count from the field's first value, not the range's, and weekdays' from Monday, and one step holds for the whole
list; minute 60 and hour 24 are 0, day and month 0 nothing; names stand alone; `*/1` and `mon-fri` are refused; and
date and weekday are joined by "or" as soon as neither is a bare `*`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cronhpc.core.fields import ALIASES, UNITS, WEEKDAYS, Fields, Unit, ranges
from cronhpc.core.grammar import ScheduleError, parse_fields

_FIELD = re.compile(r"(?:(?P<star>\*)|(?P<name>[A-Za-z]{3})|(?P<list>[0-9,-]+))(?:/(?P<step>[0-9]+))?")
_SIZES = (61, 25, 32, 13, 8)  # of Slurm's bit strings
_FIRST = (0, 0, 1, 1, 1)  # where its steps begin
_INT32 = 2**32


class RefusedError(ValueError):
    """scrontab refuses it: a table with such a line was never installed. Its text says why."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """When Slurm starts it; `wild_*`: a bare `*`."""

    values: tuple[tuple[int, ...], ...]  # of the five fields, ascending, Sunday is 0
    wild_day: bool
    wild_weekday: bool

    def on(self, day: int, weekday: int) -> bool:
        """Whether a date (of a month that has it) is one of its days."""
        by_day, by_weekday = day in self.values[2], weekday in self.values[4]
        if self.wild_day or self.wild_weekday:
            return (self.wild_day or by_day) and (self.wild_weekday or by_weekday)
        return by_day or by_weekday


def meaning(text: str) -> Meaning:
    """What Slurm makes of five fields. Raises RefusedError."""
    words = text.split()
    read = [_values(UNITS[index], index, word) for index, word in enumerate(words)]
    days, months = read[2], read[3]
    if words[2] != "*" and not any(min(days) <= _longest(month) for month in months):
        raise RefusedError(f"no month of {words[3]} has day {words[2]}")
    return Meaning(tuple(read), words[2] == "*", words[4] == "*")


def _values(unit: Unit, index: int, word: str) -> tuple[int, ...]:
    match = _FIELD.fullmatch(word)
    if match is None or (match["name"] and match["name"].lower() not in unit.names):
        raise RefusedError(f'{unit.name} "{word}"')
    if match["star"]:
        values = set(range(_SIZES[index]))
    elif match["name"]:
        values = {unit.names.index(match["name"].lower()) + unit.low}
    else:
        values = _listed(unit, index, match["list"])
    if match["step"]:
        step = int(match["step"])
        if not 1 < step < _SIZES[index]:
            raise RefusedError(f'{unit.name} "{word}": a step of {step}')
        values &= set(range(_FIRST[index], _SIZES[index], step))
    folded = _folded(unit, index, values)
    if not folded:
        raise RefusedError(f'{unit.name} "{word}": no value is left')
    return tuple(sorted(folded))


def _listed(unit: Unit, index: int, text: str) -> set[int]:
    """Numbers and ranges; a missing number is 0, of `1-3-5` the last two count, backwards is nothing."""
    values: set[int] = set()
    if text.startswith(","):
        return values
    for element in text.split(","):
        numbers = [_number(part) for part in element.split("-")]
        first, last = numbers[-2:] if len(numbers) > 1 else numbers * 2
        if max(first, last) >= _SIZES[index]:
            raise RefusedError(f'{unit.name} "{text}"')
        values.update(range(first, last + 1))
    return values


def _number(digits: str) -> int:
    return int(digits or "0") % _INT32


def _folded(unit: Unit, index: int, values: set[int]) -> set[int]:
    if unit.names == WEEKDAYS:
        return {value % 7 for value in values}
    if index < 2:  # noqa: PLR2004 - minutes and hours: one more is the first again
        return {value % (_SIZES[index] - 1) for value in values}
    return values - {0}


def _longest(month: int) -> int:
    return 29 if month == 2 else 30 if month in {4, 6, 9, 11} else 31  # noqa: PLR2004 - February


# --- in cron's words -----------------------------------------------------------------------------------------------


def as_cron(text: str) -> str:
    """The cron text that starts when Slurm started `text`: the same text where cron means the same by it.

    Raises RefusedError where scrontab takes no such line.
    """
    if text.startswith("@"):
        if text.lower() not in ALIASES:
            raise RefusedError(f'"{text}"')
        return text.lower()
    meant = meaning(text)
    try:
        fields = parse_fields(text)
    except ScheduleError:
        return _written(meant, text.split())
    return text if _same(meant, fields) else _written(meant, text.split())


def _same(meant: Meaning, fields: Fields) -> bool:
    """Whether cron fires then, too: every combination of date and weekday is compared."""
    if any(meant.values[i] != fields[i].values for i in (0, 1, 3)):
        return False
    join = any if fields.either_day else all
    return all(
        meant.on(day, weekday) == join((day in fields.day.values, weekday in fields.weekday.values))
        for day in range(1, 32)
        for weekday in range(7)
    )


def _written(meant: Meaning, words: list[str]) -> str:
    minute, hour, _, month, _ = (_field(index, values, words[index]) for index, values in enumerate(meant.values))
    # No star where both count: to cron a star, even a stepped one, means "and".
    day = "*" if meant.wild_day else ranges(meant.values[2])
    weekday = "*" if meant.wild_weekday else ranges(meant.values[4])
    return f"{minute} {hour} {day} {month} {weekday}"


def _field(index: int, values: tuple[int, ...], word: str) -> str:
    """The values, with the star they were written with: it decides what happens when clocks change."""
    step = word.removeprefix("*/")
    if word != step and UNITS[index].stepped(int(step)) == set(values):
        return word
    return "*" if len(values) == UNITS[index].top - UNITS[index].low + 1 else ranges(values)
