"""Durations as people write them (`90m`, `1h30m`, `2d`, `20s`), in whole seconds."""

from __future__ import annotations

import re

from cronhpc.cron.values import CronhpcError

UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}

# Nine digits are more than thirty years of seconds; more would only feed int() with somebody's noise.
_NUMBER = r"[0-9]{1,9}"
_DURATION = re.compile("".join(f"(?:(?P<{unit}>{_NUMBER}){unit})?" for unit in UNITS))
_NEARLY = re.compile(r"(?P<number>[0-9]{1,9}(?:\.[0-9]{1,3})?) ?(?P<unit>[wdhms])[a-z]{0,6}", re.IGNORECASE)
_EXAMPLES = "Write it like 90m, 1h30m, 2d or 20s."


class DurationError(CronhpcError):
    """A duration that cannot be used: `text` as written, `what` is wrong, and the `fix`."""

    def __init__(self, text: str, what: str, fix: str) -> None:
        super().__init__(f"{what} {fix}")
        self.text = text
        self.what = what
        self.fix = fix


def parse_duration(text: str) -> int:
    """Seconds in `text`: numbers with the units w, d, h, m, s, the largest first; a bare `0` needs no unit.

    Raises DurationError for everything else.
    """
    match = _DURATION.fullmatch(text)
    if match and text:
        return sum(int(number) * UNITS[unit] for unit, number in match.groupdict().items() if number)
    if text == "0":
        return 0
    raise _wrong(text)


def format_duration(seconds: int) -> str:
    """The shortest text that `parse_duration` reads as `seconds` (not negative); days are the largest unit."""
    parts = []
    for unit in ("d", "h", "m", "s"):
        count, seconds = divmod(seconds, UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _wrong(text: str) -> DurationError:
    short = ascii(text if len(text) <= 40 else text[:37] + "...")[1:-1]  # noqa: PLR2004  # about what a line of a terminal holds
    if re.fullmatch(_NUMBER, text):
        return DurationError(text, f'"{short}" has no unit.', f"Write {text}s, {text}m, {text}h or {text}d.")
    nearly = _NEARLY.fullmatch(text.strip())
    if nearly:
        seconds = round(float(nearly["number"]) * UNITS[nearly["unit"].lower()])
        return DurationError(text, f'"{short}" is not a duration.', f"Write {format_duration(seconds)}.")
    joined = "".join(text.split())
    if joined != text and joined and _DURATION.fullmatch(joined):
        return DurationError(text, f'"{short}" has a blank in it.', f"Write {joined}.")
    return DurationError(text, f'"{short}" is not a duration.', _EXAMPLES)
