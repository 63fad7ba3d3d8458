"""Cron's five fields, and the strict grammar: five words of text to them, or an error that names the fix.

What is taken is what cronie takes, less what cronie takes and then never runs; `H` is ours.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import NamedTuple

from cronhpc.cron.values import CronhpcError, dataclass, field, nearest

# --- the fields -------------------------------------------------------------------------------------------------------

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
        return " ".join(field.text for field in self)

    @property
    def wildcard(self) -> bool:
        """Whether the schedule follows real time through a clock change (cron.8)."""
        return self.minute.star or self.hour.star

    @property
    def either_day(self) -> bool:
        """Whether a day matches by its date *or* its weekday (crontab.5): neither field begins with `*`."""
        return not (self.day.star or self.weekday.star)

    def on(self, day: int, weekday: int) -> bool:
        """Whether a date (of a month that has it) is one of its days."""
        by_date, by_weekday = day in self.day.values, weekday in self.weekday.values
        return (by_date or by_weekday) if self.either_day else (by_date and by_weekday)

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


# --- what is wrong with a piece of a schedule, and what to write instead ----------------------------------------------

_SHOWN = 60
FIVE = "Five fields are needed: minute, hour, day of month, month, day of week"


def printable(text: str) -> str:
    """`text` fit for a message: short, and without characters that a terminal would act upon."""
    short = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in short)


def bounds(unit: Unit) -> str:
    """`0-59`, or `1-12 or jan-dec`."""
    names = f" or {unit.names[0]}-{unit.names[-1]}" if unit.names else ""
    return f"{unit.low}-{unit.high}{names}"


# --- elements of a field ------------------------------------------------------------------------------------


def wrong_element(unit: Unit, text: str) -> tuple[str, str]:
    """An element that is not of the grammar at all."""
    if not text:
        return "there is nothing beside a comma.", "Remove the comma, or write a number there."
    if unit is UNITS[4] and re.fullmatch(r"\w*L", text, re.IGNORECASE):
        return "cron has no L (last weekday of a month).", BY_SCRIPT
    for fits, what, fix in _HABITS:
        match = re.fullmatch(fits, text)
        if match:
            return what, match.expand(fix)
    return "is no number, range, list or step.", f"Write {bounds(unit)}, a range a-b, */n, or * for every {unit.name}."


BY_SCRIPT = "Write every day that it may be, and let the script look at the date."

# What people bring along from other schedulers.
_HABITS = (
    (r"\?", "cron has no ?.", r"Write *."),
    (r"L-.*", "cron has no L- (days before the end of the month).", BY_SCRIPT),
    (r"(\d*)L.*|LW", "cron has no L (last day).", "Write 28-31, and let the script look whether tomorrow is the 1st."),
    (r"\d+W", "cron has no W (nearest weekday).", BY_SCRIPT),
    (r"(\w+)#\d", "cron has no # (n-th weekday).", r"Write \1, and let the script look at the date."),
    (r"(\d+)~(\d+)", "cron's random ~ changes with every load.", r"Write H(\1-\2): chosen once, by the entry's name."),
    (r"\d*~\d*", "cron's random ~ changes with every load.", "Write H: chosen once, by the entry's name."),
    (r"[hH].*", "is no hash.", "Write H, H/15 or H(0-7)."),
    (r"\*(\d+)", "a step needs a /.", r"Write */\1."),
    (r"(\*|\d+-\d+)/(\d+)/.*", "there is more than one step.", r"Write \1/\2."),
    (r"(.*)/", "the step is missing after the /.", r"Write \1, or \1/2 for every second one."),
    (r"(.*)/-(\d+)", "a step cannot be negative.", r"Write \1/\2."),
    (r"(.*)/(\d*[A-Za-z]+\d*)", "a step is a number, not a name.", r"Write \1/2 for every second one."),
    (r"(\d+)\.\d+", "fractions are not cron.", r"Write \1."),
    (r"-\d+", "negative numbers are not cron.", "Write * for every value, or a number."),
)


def out_of_range(unit: Unit) -> tuple[str, str]:
    """A number that the field does not have."""
    return "out of range.", f"Write {bounds(unit)}."


def start_with_step(unit: Unit, start: int, by: int) -> tuple[str, str]:
    """`5/15`, which other schedulers take."""
    what = f"cron has no {start}/{by}."
    if start == unit.low or not unit.low <= start < unit.top:
        return what, f"Write */{by}."
    return what, f"Write {start}-{unit.top}/{by} or */{by}."


def backwards(unit: Unit, low: int, high: int, by: int, *, named: bool) -> tuple[str, str]:
    """`22-4`: cron takes it, and never runs it."""
    what = "a range that runs backwards never fires."
    if low > unit.high or high < unit.low:
        return out_of_range(unit)
    if low > unit.top:  # 7-2: Sunday by its other number
        return what, f"Write {_span(unit, range(unit.low, high + 1, by), named=named)}."
    first = range(low, unit.top + 1, by)
    after = first[-1] + by - (unit.top - unit.low + 1)
    parts = [_span(unit, first, named=named), _span(unit, range(after, high + 1, by), named=named)]
    return what, f"Write {','.join(part for part in parts if part)}."


def _span(unit: Unit, values: range, *, named: bool) -> str:
    words = [unit.names[value - unit.low] if named else str(value) for value in values]
    if len(words) <= 1:
        return "".join(words)
    return f"{words[0]}-{words[-1]}" + (f"/{values.step}" if values.step > 1 else "")


def wrong_name(unit: Unit, word: str) -> tuple[str, str]:
    """A word that is no name of this field."""
    if not word.isalpha() or word[0] in "LWhH" or (unit is UNITS[4] and word[-1] == "L"):
        return wrong_element(unit, word)
    short = word.lower()[:3]
    near = short if short in unit.names else nearest(word.lower()[:9], unit.names)
    if near:
        return "names have three letters." if len(word) > len(near) else "is no name.", f"Write {near}."
    other = next((each.name for each in UNITS if short in each.names), "")
    if other:
        return f"{short} is a {other}.", f"Write {bounds(unit)} here, {short} as the {other}."
    return "is no number.", f"Write {bounds(unit)}, or * for every {unit.name}."


_OF = {"minute": " of the hour", "hour": " of the day", "day of month": " of the month"}


def _step_beyond(unit: Unit, element: str) -> tuple[str, str] | None:
    """`*/90`, `8-18/12`: cron takes it, and it never takes a step. What fires, and what may have been meant."""
    match = _ELEMENT.fullmatch(element)
    if match is None or not match["step"]:
        return None
    start, by = element.partition("/")[0], int(match["step"])
    low = _number(unit, match["low"] or match["hash_low"] or str(unit.low))
    high = _number(unit, match["high"] or match["hash_high"] or str(unit.top))
    if not low < high < low + by or by == 1:
        return None
    first = f"the first {unit.name}" if unit.name not in _OF else f"{unit.name.removesuffix(' of month')} {low}"
    once, alone = (f"one {unit.name}", start) if start[0] == "H" else (first, str(low))
    what = f"a step of {by} leads out of {'the field' if start in '*H' else start}, so it fires at {once}"
    what += f"{_OF.get(unit.name, '')} only."
    span = {"minute": "m", "hour": "h", "day of month": "d"}.get(unit.name)
    if by <= unit.top - unit.low:
        return what, f"Write a step of at most {high - low}; if that is meant, write {alone}."
    if not span:
        return what, f"If that is meant, write {alone}."
    return what, f"For every {by} {unit.name.removesuffix(' of month')}s write @every {by}{span}; else write {alone}."


@lru_cache(maxsize=1024)  # entries share schedules
def steps_beyond(text: str) -> tuple[tuple[str, str], ...]:
    """What is wrong with steps longer than what they step through; nothing of a schedule that cannot be read."""
    if not can_be_read(text):
        return ()
    pairs = zip(UNITS, text.split(), strict=True)
    elements = ((unit, element) for unit, word in pairs for element in word.split(","))
    return tuple(filter(None, (_step_beyond(unit, element) for unit, element in elements)))


# --- the whole schedule -------------------------------------------------------------------------------------


def five_of(words: list[str]) -> list[str]:
    """The five-field texts that somebody who wrote `words` may have meant, the likeliest first."""
    missing = len(UNITS) - len(words)
    if not words or not -2 <= missing < len(UNITS):  # noqa: PLR2004  # seconds and a year, no more
        return []
    if missing > 0:
        return [" ".join(words + ["*"] * missing)]
    stars = ["*" if word == "?" else word for word in words]
    if missing == -2:  # noqa: PLR2004
        return [" ".join(stars[1:6])]
    if all(word[0].isalpha() for word in words[4:]):
        return [" ".join([*words[:4], ",".join(words[4:])])]
    # With a year the ? stands third or fifth, with seconds fourth or sixth.
    year = re.fullmatch(r"\d{4}.*", words[5]) or "?" in (words[2], words[4])
    both = [" ".join(stars[1:]), " ".join(stars[:5])]
    return both[::-1] if year else both


_ELSEWHERE = {  # what looks like a name of cron's may be another time
    "@noon": "0 12 * * *",
    "@quarterly": "0 0 1 */3 *",
    "@minutely": "* * * * *",
    "@bimonthly": "0 0 1 */2 *",
    **dict.fromkeys(("@biweekly", "@fortnightly", "@fortnight"), "@every 14d"),
    **dict.fromkeys(("@semiannually", "@biannually", "@semiannual", "@halfyearly"), "0 0 1 */6 *"),
    **dict.fromkeys(("@weekday", "@workday"), "0 0 * * mon-fri"),
    "@weekend": "0 0 * * sat,sun",
}


def unknown_alias(text: str) -> tuple[str, str]:
    """`@DAILY`, `@noon`."""
    word = text.split(maxsplit=1)[0].lower()[:20]
    if word == "@reboot":
        return "@reboot has no meaning on a cluster, which does not boot for you.", "Write @daily, or a time."
    near = _ELSEWHERE.get(word.removesuffix("s")) or nearest(word, ALIASES)
    return "is no schedule.", f"Write {near}." if near else f"Write one of {', '.join(ALIASES)}, @every 90m."


# --- the grammar ------------------------------------------------------------------------------------------------------

MAX_LENGTH = 1_000  # a list of every value of every field is shorter
_MAX_DIGITS = 9

_ELEMENT = re.compile(
    r"(?:(?P<star>\*)"
    r"|(?P<hash>H)(?:\((?P<hash_low>[0-9A-Za-z]+)-(?P<hash_high>[0-9A-Za-z]+)\))?"
    r"|(?P<low>[0-9A-Za-z]+)(?:-(?P<high>[0-9A-Za-z]+))?)"
    r"(?:/(?P<step>[0-9]+))?"
)


class ScheduleError(CronhpcError):
    """A schedule that cannot be used.

    `text` is the schedule as written, `position` the offset in it at which the fault begins, `what` says what is
    wrong there, `fix` what to write instead. `str()` has it all.
    """

    def __init__(self, text: str, position: int, what: str, fix: str) -> None:
        super().__init__(f'"{printable(text)}": {what} {fix}')
        self.text = text
        self.position = position
        self.what = what
        self.fix = fix


def strict_fields(text: str, hash_key: str = "") -> Fields:
    """Read five cron fields; `hash_key` seeds the `H` ones. Raises ScheduleError."""
    if len(text) > MAX_LENGTH:
        raise ScheduleError(text, MAX_LENGTH, f"{len(text)} characters are no schedule.", "Write five short fields.")
    odd = re.search(r"[^\S \t]", text.rstrip(" \t\r\n"))
    if odd:
        what = f'"{printable(odd.group())}" is no blank.'
        raise ScheduleError(text, odd.start(), what, "Write it on one line, with plain spaces.")
    words = [(match.start(), match.group()) for match in re.finditer(r"\S+", text)]
    if len(words) != len(UNITS):
        raise _wrong_count(text, words)
    fields = Fields(*(_field(text, unit, hash_key, *word) for unit, word in zip(UNITS, words, strict=True)))
    if not fields.can_fire:
        what = f"day of month {fields.day.text} is in no month of {fields.month.text}: it never fires."
        raise ScheduleError(text, words[2][0], what, "Write a day that the month has; every month has 1-28.")
    return fields


def can_be_read(text: str) -> bool:
    """Whether it is a schedule of five fields."""
    try:
        strict_fields(text)
    except ScheduleError:
        return False
    return True


def _wrong_count(text: str, places: list[tuple[int, str]]) -> ScheduleError:
    """The error for four fields, or six; its fix is tried before it is offered."""
    words = [word for _, word in places]
    usable = next(filter(can_be_read, five_of(words)), "")
    fix = f"{FIVE}; write {usable}." if usable else ""
    if len(words) > len(UNITS):
        what = f"{len(words)} fields: seconds and years are not cron."
        return ScheduleError(text, places[len(UNITS)][0], what, fix or f"{FIVE}; lists have commas and no blanks.")
    what = {0: "it is empty.", 1: "1 field only."}.get(len(words), f"{len(words)} fields only.")
    return ScheduleError(text, len(text), what, fix or f"{FIVE}, or a name like @daily.")


class _ElementError(Exception):
    """What is wrong with an element of a field, and the fix."""


def _field(text: str, unit: Unit, hash_key: str, at: int, word: str) -> Field:
    """The field `word`, which stands at `at` in the schedule `text`."""
    values: set[int] = set()
    star_step = None
    for place, element in enumerate(word.split(",")):
        try:
            numbers = _values(unit, element, hash_key)
        except _ElementError as error:
            what, fix = error.args
            raise ScheduleError(text, at, f'{unit.name} "{printable(element)}": {what}', fix) from None
        if place == 0 and element.startswith("*"):
            star_step = numbers.step
        values.update(numbers)
        at += len(element) + 1
    return field_of(unit, values, star_step)


def _values(unit: Unit, element: str, hash_key: str) -> range:
    """The values of one element of a list."""
    match = _ELEMENT.fullmatch(element)
    if not match or element.startswith("L-"):
        raise _ElementError(*wrong_element(unit, element))
    digits = match["step"] or "1"
    if len(digits) > _MAX_DIGITS or int(digits) == 0:
        what = "is no usable step."
        raise _ElementError(what, f"Write a step of 1 to {unit.high}, or * alone for every {unit.name}.")
    step = int(digits)
    if match["star"]:
        return range(unit.low, unit.high + 1, step)
    return _hashed(unit, match, step, hash_key) if match["hash"] else _plain(unit, match, step)


def _plain(unit: Unit, match: re.Match[str], step: int) -> range:
    """A number, or a range of numbers."""
    low = _number(unit, match["low"])
    if match["high"] is None:
        if match["step"]:
            raise _ElementError(*start_with_step(unit, low, step))
        values = range(low, low + 1)
    else:
        high = _number(unit, match["high"])
        if unit.names == WEEKDAYS and low > high == 0 and not match["step"]:
            high = 7  # sat-sun: cronie reads it so, but only where no step follows
        if low > high:
            raise _ElementError(*backwards(unit, low, high, step, named=match["low"].isalpha()))
        values = range(low, high + 1, step)
    # As cronie, which looks at the values and not at the bounds: 0-60/7 ends at 56.
    if values[0] < unit.low or values[-1] > unit.high:
        raise _ElementError(*out_of_range(unit))
    return values


def _hashed(unit: Unit, match: re.Match[str], step: int, hash_key: str) -> range:
    """`H`: one value, or with a step the first value of a row; by a hash of the entry and the field."""
    low, high = unit.low, min(unit.top, LAST_HASHED_DAY) if unit is UNITS[2] else unit.top
    if match["hash_low"]:
        lowest, highest = low, high
        low, high = _number(unit, match["hash_low"]), _number(unit, match["hash_high"])
        if not lowest <= low <= high <= highest:
            what = f"H has to stay within {lowest}-{highest}, forwards."
            raise _ElementError(what, f"Write H({lowest}-{highest}), or H alone.")
    seed = f"{hash_key}\0{unit.name}".encode("utf-8", "surrogatepass")
    number = int.from_bytes(hashlib.blake2b(seed, digest_size=8).digest(), "big")
    size = high - low + 1
    if match["step"]:
        return range(low + number % min(step, size), high + 1, step)
    return range(low + number % size, low + number % size + 1)


def _number(unit: Unit, word: str) -> int:
    if word.isdigit():
        if len(word) > _MAX_DIGITS:
            raise _ElementError(*out_of_range(unit))
        return int(word)
    if word.lower() not in unit.names:
        raise _ElementError(*wrong_name(unit, word))
    return unit.names.index(word.lower()) + unit.low
