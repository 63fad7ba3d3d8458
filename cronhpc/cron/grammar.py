"""The strict cron grammar: five words of text to five fields, or an error that names the fix.

What is taken is what cronie takes, less what cronie takes and then never runs; `H` is ours.
"""

from __future__ import annotations

import hashlib
import re
from typing import NoReturn

from cronhpc.cron import fixes
from cronhpc.cron.fields import LAST_HASHED_DAY, UNITS, WEEKDAYS, Field, Fields, Unit, field_of
from cronhpc.cron.values import CronhpcError

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
        super().__init__(f'"{fixes.shown(text)}": {what} {fix}')
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
        raise ScheduleError(text, odd.start(), *fixes.odd_blank(odd.group()))
    words = [(match.start(), match.group()) for match in re.finditer(r"\S+", text)]
    if len(words) != len(UNITS):
        raise _wrong_count(text, words)
    fields = Fields(*(_Reader(text, unit, hash_key).read(*word) for unit, word in zip(UNITS, words, strict=True)))
    if not fields.can_fire:
        raise ScheduleError(text, words[2][0], *fixes.never_fires(fields))
    return fields


def _wrong_count(text: str, places: list[tuple[int, str]]) -> ScheduleError:
    """The error for other than five fields; its fix is tried before it is offered."""
    words, usable = [word for _, word in places], []
    for candidate in fixes.five_of(words):
        try:
            strict_fields(candidate)
        except ScheduleError:
            continue
        usable.append(candidate)
    position = places[len(UNITS)][0] if len(places) > len(UNITS) else len(text)
    return ScheduleError(text, position, *fixes.wrong_count(words, usable))


class _Reader:
    """Reads one field of the schedule `text`."""

    def __init__(self, text: str, unit: Unit, hash_key: str) -> None:
        self.text = text
        self.unit = unit
        self.hash_key = hash_key

    def read(self, position: int, word: str) -> Field:
        """The field written as `word` at `position`."""
        values: set[int] = set()
        star_step = None
        at = position
        for element in word.split(","):
            found, step = self._element(at, element)
            if at == position and element.startswith("*"):
                star_step = step
            values.update(found)
            at += len(element) + 1
        return field_of(self.unit, values, star_step)

    def _element(self, at: int, element: str) -> tuple[range, int]:
        """The values of one element of a list, and its step."""
        match = _ELEMENT.fullmatch(element)
        if not match or element.startswith("L-"):
            self._refuse(at, element, fixes.element(self.unit, element))
        step = self._step(at, element, match["step"])
        if match["star"]:
            return range(self.unit.low, self.unit.high + 1, step), step
        if match["hash"]:
            return self._hashed(at, element, match, step), step
        return self._plain(at, element, match, step), step

    def _plain(self, at: int, element: str, match: re.Match[str], step: int) -> range:
        """A number, or a range of numbers."""
        low = self._number(at, element, match["low"])
        if match["high"] is None:
            if match["step"]:
                self._refuse(at, element, fixes.start_with_step(self.unit, low, step))
            values = range(low, low + 1)
        else:
            high = self._number(at, element, match["high"])
            if self.unit.names == WEEKDAYS and low > high == 0 and not match["step"]:
                high = 7  # sat-sun: cronie reads it so, but only where no step follows
            if low > high:
                self._refuse(at, element, fixes.backwards(self.unit, low, high, step, named=match["low"].isalpha()))
            values = range(low, high + 1, step)
        # As cronie, which looks at the values and not at the bounds: 0-60/7 ends at 56.
        if values[0] < self.unit.low or values[-1] > self.unit.high:
            self._refuse(at, element, fixes.out_of_range(self.unit))
        return values

    def _hashed(self, at: int, element: str, match: re.Match[str], step: int) -> range:
        """`H`: one value, or with a step the first value of a row; by a hash of the entry and the field."""
        low, high = self.unit.low, min(self.unit.top, LAST_HASHED_DAY) if self.unit is UNITS[2] else self.unit.top
        if match["hash_low"]:
            lowest, highest = low, high
            low = self._number(at, element, match["hash_low"])
            high = self._number(at, element, match["hash_high"])
            if not lowest <= low <= high <= highest:
                self._refuse(at, element, fixes.hash_bounds(lowest, highest))
        seed = f"{self.hash_key}\0{self.unit.name}".encode("utf-8", "surrogatepass")
        number = int.from_bytes(hashlib.blake2b(seed, digest_size=8).digest(), "big")
        size = high - low + 1
        if match["step"]:
            return range(low + number % min(step, size), high + 1, step)
        return range(low + number % size, low + number % size + 1)

    def _step(self, at: int, element: str, digits: str | None) -> int:
        if digits is None:
            return 1
        if len(digits) > _MAX_DIGITS or int(digits) == 0:
            self._refuse(at, element, fixes.step(self.unit))
        return int(digits)

    def _number(self, at: int, element: str, word: str) -> int:
        if word.isdigit():
            if len(word) > _MAX_DIGITS:
                self._refuse(at, element, fixes.out_of_range(self.unit))
            return int(word)
        if word.lower() not in self.unit.names:
            self._refuse(at, element, fixes.name(self.unit, word))
        return self.unit.names.index(word.lower()) + self.unit.low

    def _refuse(self, at: int, element: str, what_and_fix: tuple[str, str]) -> NoReturn:
        what, fix = what_and_fix
        raise ScheduleError(self.text, at, f'{self.unit.name} "{fixes.shown(element)}": {what}', fix)
