"""What is wrong with a piece of a schedule, and what to write instead: pairs of sentences for ScheduleError."""

from __future__ import annotations

import re

from cronhpc.cron.fields import ALIASES, UNITS, Fields, Unit
from cronhpc.cron.values import nearest

_SHOWN = 60
FIVE = "Five fields are needed: minute, hour, day of month, month, day of week"


def shown(text: str) -> str:
    """`text` fit for a message: short, and without characters that a terminal would act upon."""
    short = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in short)


def bounds(unit: Unit) -> str:
    """`0-59`, or `1-12 or jan-dec`."""
    names = f" or {unit.names[0]}-{unit.names[-1]}" if unit.names else ""
    return f"{unit.low}-{unit.high}{names}"


# --- elements of a field ------------------------------------------------------------------------------------


def element(unit: Unit, text: str) -> tuple[str, str]:
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


def step(unit: Unit) -> tuple[str, str]:
    """A step of 0, or one of a hundred digits."""
    return "is no usable step.", f"Write a step of 1 to {unit.high}, or * alone for every {unit.name}."


def hash_bounds(lowest: int, highest: int) -> tuple[str, str]:
    """An `H(a-b)` that leaves the field, or runs backwards."""
    return f"H has to stay within {lowest}-{highest}, forwards.", f"Write H({lowest}-{highest}), or H alone."


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


def name(unit: Unit, word: str) -> tuple[str, str]:
    """A word that is no name of this field."""
    if not word.isalpha() or word[0] in "LWhH" or (unit is UNITS[4] and word[-1] == "L"):
        return element(unit, word)
    near = word.lower()[:3] if word.lower()[:3] in unit.names else None
    if near is None:
        near = nearest(word.lower()[:9], unit.names)
    if near:
        return "names have three letters." if len(word) > len(near) else "is no name.", f"Write {near}."
    other = next((u for u in UNITS if word.lower()[:3] in u.names), None)
    if other:
        return (
            f"{word.lower()[:3]} is a {other.name}.",
            f"Write {bounds(unit)} here, {word.lower()[:3]} as the {other.name}.",
        )
    return "is no number.", f"Write {bounds(unit)}, or * for every {unit.name}."


_STEPPED = re.compile(r"(?P<start>\*|H(?:\((?P<from>\w+)-(?P<to>\w+)\))?|(?P<low>\w+)-(?P<high>\w+))/(?P<by>\d{1,9})")
_OF = {"minute": " of the hour", "hour": " of the day", "day of month": " of the month"}


def _step_beyond(unit: Unit, element: str) -> tuple[str, str] | None:
    """`*/90`, `8-18/12`: cron takes it, and it never takes a step. What fires, and what may have been meant."""
    match = _STEPPED.fullmatch(element)
    if match is None:
        return None
    start, by = match["start"], int(match["by"])
    low = _number(unit, match["low"] or match["from"] or str(unit.low))
    high = _number(unit, match["high"] or match["to"] or str(unit.top))
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


def _number(unit: Unit, word: str) -> int:
    return unit.names.index(word.lower()) + unit.low if word.lower() in unit.names else int(word)


def steps_beyond(text: str) -> list[tuple[str, str]]:
    """What is wrong with steps longer than what they step through, in a schedule of five fields that can be read."""
    words = text.split()
    pairs = zip(UNITS, words, strict=True) if len(words) == len(UNITS) else ()
    elements = [(unit, element) for unit, word in pairs for element in word.split(",") if "/" in element]
    return [found for unit, element in elements if (found := _step_beyond(unit, element))]


# --- the whole schedule -------------------------------------------------------------------------------------


def never_fires(fields: Fields) -> tuple[str, str]:
    """30 February."""
    return (
        f"day of month {fields.day.text} is in no month of {fields.month.text}: it never fires.",
        "Write a day that the month has; every month has 1-28.",
    )


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


def odd_blank(character: str) -> tuple[str, str]:
    """A line break, a no-break space: cron's blanks are the space and the tab."""
    return f'"{shown(character)}" is no blank.', "Write it on one line, with plain spaces."


def wrong_count(words: list[str], usable: list[str]) -> tuple[str, str]:
    """Four fields, or six."""
    count = {0: "no field", 1: "1 field"}.get(len(words), f"{len(words)} fields")
    if len(words) > len(UNITS):
        what = f"{count}: seconds and years are not cron."
        return what, f"{FIVE}; write {usable[0]}." if usable else f"{FIVE}; lists have commas and no blanks."
    what = "it is empty." if not words else f"{count} only."
    return what, f"{FIVE}; write {usable[0]}." if usable else f"{FIVE}, or a name like @daily."


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
