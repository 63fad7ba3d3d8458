"""A crontab's schedule as cronie reads it, said in ours: the same text but for its random `~`."""

from __future__ import annotations

import re

from cronhpc.core.fields import UNITS, Unit
from cronhpc.core.grammar import ScheduleError, parse_fields
from cronhpc.core.mends import unknown_alias

_RANDOM = re.compile(r"(\d*)~(\d*)")
_CRONS = frozenset({"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"})
_LAST_HASHED_DAY = 28


def as_cron(text: str) -> str:
    """Five fields, or a name, that start when cron would start `text`. Raises ScheduleError with the mend."""
    if text.startswith("@"):
        if text == "@every":
            mend = "For a script in cron.d/ it has a meaning: #CRON @every 5m."
            raise ScheduleError(text, 0, "cron has no @every.", mend)
        if text not in _CRONS:
            raise ScheduleError(text, 0, *unknown_alias(text))
        return text
    words = text.split()
    if any("H" in word for word in words):
        raise ScheduleError(text, 0, "cron has no H.", "Put it beside #CRON in a script: there it has a meaning.")
    written = " ".join(_hashed(unit, word) for unit, word in zip(UNITS, words, strict=True))
    parse_fields(written)
    return written


def _hashed(unit: Unit, word: str) -> str:
    """Of cron's `a~b` (a random value, drawn at each load) `H(a-b)`: one value, chosen once."""

    def one(match: re.Match[str]) -> str:
        low, high = match.groups()
        if not unit.low <= int(low or unit.low) <= int(high or unit.top) <= unit.top:
            what = f'{unit.name} "{match[0]}": a random value lies within {unit.low}-{unit.top}, forwards.'
            raise ScheduleError(match[0], 0, what, f"Write {unit.low}~{unit.top}, or ~ alone.")
        top = _LAST_HASHED_DAY if unit is UNITS[2] else unit.top
        return f"H({low or unit.low}-{min(int(high), top) if high else top})" if low or high else "H"

    return ",".join(_RANDOM.sub(one, part) if _RANDOM.fullmatch(part) else part for part in word.split(","))
