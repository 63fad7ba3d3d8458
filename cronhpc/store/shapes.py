"""What the files of state/ and scheduler/ may hold: the one table of it, and what is left of a file of another shape.

A file may be valid JSON and no work of ours: an editor, a program's mistake, a disk's. Nothing of it may stop a tick.
So each value is looked at once, where its file is read: what does not fit is left out, as if it had never been written,
and its place is said; the rest is kept. A shape is a dict (these keys, and no others), `Rows` (any keys, values of one
shape), a list (values of one shape), a tuple (just these, in this order), or a function that gives back the value, a
better one, or GONE.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType
from typing import Any

from cronhpc.core.model import Result

GONE: Any = object()  # in place of a value that is of no use
LATEST = 253402128000  # 9999-12-30: a later instant has no date in every zone
_MOST = 2**53  # no number of ours is larger, but for nanoseconds
_MOST_NS = 2**63
_MOST_LINKS = 200  # ahead, as `start --prequeue` takes them
_RESULTS = frozenset(map(str, Result))
_WAYS = frozenset({"chain", "daemon", "scrontab", "login", "resident"})
_DIGITS = 20  # of a job's number


@dataclass(frozen=True, slots=True)
class Rows:
    """A mapping from names to values of one shape."""

    shape: Any


# --- values --------------------------------------------------------------------------------------------------------


def text(value: object) -> Any:
    """A text that can be a file's name, an argument, a variable: no NUL, and no half of a character."""
    if not isinstance(value, str) or "\0" in value:
        return GONE
    if not value.isascii():
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return GONE
    return value


def flag(value: object) -> Any:
    """True or false."""
    return value if isinstance(value, bool) else GONE


def number(value: object, most: int = _MOST) -> Any:
    """A whole number from 0."""
    return value if type(value) is int and 0 <= value <= most else GONE


def when(value: object) -> Any:
    """An instant that has a date."""
    return number(value, LATEST)


def seconds(value: object) -> Any:
    """A difference of clocks."""
    return value if type(value) is int and abs(value) <= _MOST else GONE


def watermark(value: object) -> Any:
    """An instant; one beyond all dates is as a wrong clock's, and is dealt with as such (core/slots.py: FUTURE)."""
    return LATEST if isinstance(value, int | float) and value > LATEST else when(value)


def nanoseconds(value: object) -> Any:
    """As file systems stamp."""
    return number(value, _MOST_NS)


def links(value: object) -> Any:
    """How many links wait ahead: each is a job."""
    return GONE if value == 0 else number(value, _MOST_LINKS)


def way(value: object) -> Any:
    """Who calls the ticks."""
    return value if isinstance(value, str) and value in _WAYS else GONE


def job(value: object) -> Any:
    """A job's number, as a text."""
    fits = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= _DIGITS
    return value if fits else GONE


def result(value: object) -> Any:
    """How a run ended, in our words."""
    return value if isinstance(value, str) and value in _RESULTS else GONE


def anything(value: object) -> Any:
    """Looked at by who reads it."""
    return value


def _or_none(kind: Any) -> Any:
    def maybe(value: object) -> Any:
        return value if value is None else kind(value)

    return maybe


# --- files ---------------------------------------------------------------------------------------------------------

_TEXT, _NUMBER, _WHEN, _JOB = map(_or_none, (text, number, when, job))

ENDING = {
    "exit_code": _NUMBER, "signal": _NUMBER, "submitted": _WHEN, "started": _WHEN, "ended": _WHEN, "node": text,
    "detail": text, "log": text, "tasks": text,
}  # fmt: skip
CLAIM = {
    "version": number, "name": text, "by": text, "at": when, "holds": text, "id": _JOB, "retry_at": _WHEN,
    "ending": anything, "tasks": text,
}  # fmt: skip
STEP = {"version": number, "id": job, "at": when}

HISTORY = {
    **ENDING, "what": text, "key": text, "entry": text, "slot": when, "attempt": number, "job": _TEXT, "by_hand": flag,
    "at": when, "result": text, "count": number, "switch": text, "by": text, "reason": text, "since": when,
    "jobs": [text], "warned": [text], "were": [text], "gone": Rows(number),
}  # fmt: skip

ENTRY = {
    "watermark": watermark, "schedule_key": text, "next_slot": _WHEN, "settled": text, "failures": number,
    "successes": number, "nodes": [text], "well_on": text, "suspended": _WHEN, "previous_success": _WHEN,
    "last": HISTORY,    "held_up": text, "held_since": when, "missing": number, "source": text,
}  # fmt: skip
_STRUCK = {
    "at": when, "name": text, "by": text, "reason": text, "path": text, "emptied": flag, "warned": flag,
    "cancelled": flag, "gone": flag,
}  # fmt: skip
_ALERT = {"kind": text, "text": text, "entry": text, "since": when, "told": when}
META = {
    "last_tick": when, "caller": text, "wake": when, "recent": [(number, text, number)],
    "warned": Rows(when), "comments": Rows(text),
    "struck": Rows(_STRUCK), "alerts": Rows(_ALERT), "successor": text, "spare": text, "no_spare": text,
    "no_spare_at": when, "crowded": flag, "absent": Rows(when), "bad_nodes": [(text, when, text)],
    "noted": [text], "forgotten": (when, flag), "odd": (when, flag, text),
    "disk_ahead": seconds, "due": text, "restored": when, "given_up": Rows((text, when)),
}  # fmt: skip

STARTED = {
    "version": number, "via": way, "fingerprint": text, "prequeue": links, "at": when, "by": text, "generation": number,
    "cluster": text, "zone": text,
}  # fmt: skip
ENVIRONMENT = Rows(text)
LOGS = {
    "version": number, "at": when, "rows": when, "seen": nanoseconds, "left": flag,
    "failed": Rows((when, number, text)), "late": Rows(when),
}  # fmt: skip
DAEMON = {"version": number, "pid": number, "born": text, "host": text}
HOLDER = {"host": text, "pid": number, "born": text, "token": text, "job_id": text, "restarts": text}
END = {"exit_code": number, "started": when, "ended": when, "node": text, "tasks": number}

RULES = {
    "every": number, "cron": text, "timezone": text, "after": flag, "until": text, "until_time": _WHEN,
    "max_runs": _NUMBER, "max_fast_failures": _NUMBER, "fast": number,
}  # fmt: skip
TRAIN = {
    "version": number, "name": text, "script": text, "workdir": text, "rules": anything, "arguments": [text],
    "options": [text], "overruled": Rows(text), "given": [text], "submitted": [text], "output": text, "error": text,
    "job_name": text, "comment": text, "first": text, "seen": text, "next_slot": when, "at": when,
    "logs": [(text, text)], "runs": number, "resting": text, "trouble": text, "ran": [(text, result, _WHEN, _WHEN)],
}  # fmt: skip
_SENT = {"phase": text, "kind": text, "text": text, "entry": text, "since": _WHEN, "entries": [text]}
UNSENT = {"way": text, "at": when, "alert": _SENT}


# --- what is left of a value ---------------------------------------------------------------------------------------


def fitted(value: Any, shape: Any, lost: list[str], at: str = "") -> Any:
    """`value` without what does not fit `shape`, GONE if nothing does; `lost` gets the places of what was left out.

    Keys that `shape` does not have are left out without a word: another version of this format wrote them.
    """
    if isinstance(shape, dict):
        found = _fields(value, shape, lost, at) if isinstance(value, dict) else GONE
    elif isinstance(shape, Rows):
        found = _rows(value, shape.shape, lost, at) if isinstance(value, dict) else GONE
    elif isinstance(shape, list):
        found = _values(value, shape[0], lost, at) if isinstance(value, list) else GONE
    elif isinstance(shape, tuple):
        return _tuple(value, shape, lost, at)
    else:
        found = shape(value)
        if found is value:
            return value
        lost.append(at)
        return found
    if found is GONE:
        lost.append(at)
    return found


def _fields(value: dict[str, Any], shape: dict[str, Any], lost: list[str], at: str) -> dict[str, Any]:
    found = {}
    for name, each in value.items():
        kind = shape.get(name)
        if kind is None:
            continue
        if type(kind) is FunctionType and kind(each) is each:  # nearly all of them: no place is spelt out for these
            found[name] = each
            continue
        kept = fitted(each, kind, lost, f"{at}.{name}" if at else name)
        if kept is not GONE:
            found[name] = kept
    return found


def _rows(value: dict[str, Any], shape: Any, lost: list[str], at: str) -> dict[str, Any]:
    found = {}
    for name, each in value.items():
        place = f"{at}.{name}" if at else name
        if text(name) is GONE:
            lost.append(place)
        elif (kept := fitted(each, shape, lost, place)) is not GONE:
            found[name] = kept
    return found


def _values(value: list[Any], shape: Any, lost: list[str], at: str) -> list[Any]:
    found = (fitted(each, shape, lost, at) for each in value)
    return [each for each in found if each is not GONE]


def _tuple(value: Any, shape: tuple[Any, ...], lost: list[str], at: str) -> Any:
    """As a whole or not at all."""
    wrong: list[str] = []
    if isinstance(value, list) and len(value) == len(shape):
        found = [fitted(each, kind, wrong, at) for each, kind in zip(value, shape, strict=True)]
        if not wrong:
            return found
    lost.append(at)
    return GONE


_SAID = 3  # places that a message names


def places(lost: list[str]) -> str:
    """Where something was left out, for a message: printable, and not long."""
    named = [each[:80].encode("ascii", "replace").decode() if each.isprintable() else "?" for each in lost[:_SAID]]
    more = f" and {len(lost) - _SAID} more" if len(lost) > _SAID else ""
    return f"{', '.join(dict.fromkeys(named))}{more}"
