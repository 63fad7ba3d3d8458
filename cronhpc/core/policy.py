"""Policies as text to values: of a `#CRON` line, of `defaults:` and of an `entries:` row alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

from cronhpc.core.model import CatchUp, Overlap, Policies, Problem
from cronhpc.cron.values import nearest, replace

DEFAULTS = Policies()
_MOST_SHOWN = 80  # characters of a value
_OFF = frozenset({"off", "none", "never", "no", "false"})
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


class _BadValueError(ValueError):
    """A policy's value cannot be; its text is the fix."""


def parse_policies(
    pairs: Iterable[tuple[str, str | None, int]], base: Policies = DEFAULTS
) -> tuple[Policies, tuple[Problem, ...]]:
    """`base` changed by `pairs` of (name with dashes, value, line); a bad pair changes nothing and is a problem.

    The problems are E102 (no such policy, with the nearest) and E103 (its value cannot be).
    """
    changes: dict[str, object] = {}
    problems: list[Problem] = []
    for name, value, line in pairs:
        policy = POLICIES.get(name)
        if policy is None:
            problems.append(_unknown(name, line))
            continue
        try:
            changes[name.replace("-", "_")] = policy.read(value)
        except _BadValueError as error:
            what = (
                f"--{name}: a value is missing."
                if value is None
                else f"--{name}={_shortened(value)}: not a value for {name}."
            )
            problems.append(Problem("E103", what, str(error), line=line, key=name))
    changed = replace(base, **changes) if changes else base  # type: ignore[arg-type]  # readers give their fields' types
    return changed, tuple(problems)


def _shortened(value: str) -> str:
    return value if len(value) <= _MOST_SHOWN else f"{value[:_MOST_SHOWN]}…"


def _unknown(name: str, line: int) -> Problem:
    plain = name.lower().replace("_", "-")
    near = nearest(_KNOWN_AS.get(plain, plain), POLICIES)
    fix = f"Did you mean --{near}?" if near else f"There are --{', --'.join(POLICIES)}."
    return Problem("E102", f"--{name}: there is no such policy.", fix, line=line, key=name)


def _one_of(kind: type[StrEnum]) -> Callable[[str | None], StrEnum]:
    def read(value: str | None) -> StrEnum:
        try:
            return kind((value or "").strip().lower())
        except ValueError:
            raise _BadValueError(f"Write one of {', '.join(kind)}.") from None

    return read


def _count(lowest: int, highest: int) -> Callable[[str | None], int]:
    def read(value: str | None) -> int:
        text = (value or "").strip()
        number = text.isascii() and text.isdecimal() and len(text) <= len(str(highest))
        if not number or not lowest <= int(text) <= highest:
            raise _BadValueError(f"Write a whole number from {lowest} to {highest}.")
        return int(text)

    return read


def _duration(value: str | None) -> int:
    from cronhpc.cron.duration import DurationError, parse_duration

    try:
        return parse_duration((value or "").strip())
    except DurationError as error:
        raise _BadValueError(error.fix) from error


def _or_off(read: Callable[[str | None], int]) -> Callable[[str | None], int | None]:
    return lambda value: None if (value or "").strip().lower() in _OFF else read(value)


def _flag(value: str | None) -> bool:
    word = "true" if value is None else value.strip().lower()
    if word not in _TRUE | _FALSE:
        raise _BadValueError("Write true or false.")
    return word in _TRUE


def _ping(value: str | None) -> str:
    url = (value or "").strip()
    if not url.startswith(("https://", "http://", "file:", "env:")) or len(url.split()) != 1:
        raise _BadValueError("Write an address that begins with https://, or file:PATH or env:NAME where it is secret.")
    return url


def _timezone(value: str | None) -> str:
    from cronhpc.cron.zones import fix, is_zone

    key = (value or "").strip()
    if not is_zone(key):
        raise _BadValueError(fix(key))
    return key


class Policy(NamedTuple):
    """What reads a policy's value (None: it has none); and for the docs its values, its default, what it says."""

    read: Callable[[str | None], object]
    values: str
    default: str
    meaning: str


POLICIES = {
    "timezone": Policy(
        _timezone, "IANA name", "the settings', else the machine's", "whose clock the schedule follows"),
    "catch-up": Policy(
        _one_of(CatchUp), ", ".join(CatchUp), DEFAULTS.catch_up,
        "which of the slots missed while nothing ran are made up for"),
    "catch-up-limit": Policy(_count(1, 10_000), "1 to 10000", "100", "with `--catch-up=all`: no more than so many"),
    "deadline": Policy(
        _or_off(_duration), "duration, or off", "off",
        "later than this a slot is recorded as missed; off: when its next one is due, never with `--catch-up=all`"),
    "overlap": Policy(
        _one_of(Overlap), ", ".join(Overlap), DEFAULTS.overlap,
        "what a due slot does while the previous run is pending or running"),
    "retries": Policy(
        _count(0, 100), "0 to 100", "0",
        "further attempts after a failed or preempted run, of an array of the tasks that failed; a killed run has none",
    ),
    "retry-delay": Policy(
        _duration, "duration", "0", "how long after the failure the first retry comes; it doubles with each"),
    "suspend-after": Policy(
        _or_off(_count(1, 1000)), "1 to 1000, or off", "off",
        "so many slots failed in a row: what waits is cancelled, until `cronhpc resume`; preempted ones do not count"),
    "record": Policy(
        _flag, "true, false", "false",
        "the run writes down its own end, for sites without accounting; on Grid Engine and PBS unless false; its "
        "script is read when the job starts"),
    "ping": Policy(
        _ping, "https://…, file:PATH, env:NAME", "none",
        "fetched at start (/start), success and failure (/fail), in the way of healthchecks; its script "
        "is read when the job starts"),
}  # fmt: skip
_KNOWN_AS = {
    "tz": "timezone",
    "cron-tz": "timezone",
    "concurrency": "overlap",
    "retry": "retries",
    "catchup": "catch-up",
}
