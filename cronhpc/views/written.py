"""Whether a status.json is one that a tick wrote. A colleague's may hold anything, and views rely on what they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cronhpc.views import text
from cronhpc.views.times import epoch

_MOST = 2**53  # no number of ours is larger
_DEEPEST = 20  # mappings and lists in each other
_TIME = "a time"

_TEXT = (str, None)
_WHEN = (_TIME, None)
_COUNT = (int, None)
_PROBLEM = {"code": str, "what": str, "fix": str, "file": str, "line": int, "severity": str}
_SWITCH = {
    "kind": str, "name": str, "path": str, "by": str, "since": _WHEN, "reason": str, "expires": _WHEN, "expired": bool,
    "ours": bool,
}  # fmt: skip
_RUN = {
    "job": _TEXT, "slot": _WHEN, "attempt": int, "by_hand": bool, "state": str, "reason": str, "held": bool,
    "started": _WHEN, "since": _WHEN, "ready": _WHEN, "ahead": bool, "node": str,
    "absent?": str, "restarts?": int,
}  # fmt: skip
_LAST = {
    "entry": str, "slot": _WHEN, "attempt": int, "by_hand": bool, "result": str, "exit_code": _COUNT, "signal": _COUNT,
    "job": _TEXT, "submitted": _WHEN, "started": _WHEN, "ended": _WHEN, "waited": _COUNT, "took": _COUNT, "node": str,
    "detail": str, "count": int, "log": str,
}  # fmt: skip
_SERIES = {"when": str, "runs": int, "ends": [str], "resting": str, "trouble": str, "going": bool, "start": str}
_ENTRY = {
    "name": str, "id": str, "source": str, "schedule": str, "timezone": str, "hash_key": str, "reason": str,
    "detail": str, "problem": (_PROBLEM, None), "switch": (_SWITCH, None), "next": _WHEN, "runs": [_RUN],
    "last": (_LAST, None), "successes": int, "failures": int, "bad_node": str, "suspended": _WHEN,
    "suspend_after": _COUNT, "overlap": str, "previous_success": _WHEN, "notes": [_PROBLEM], "series": (_SERIES, None),
    "retries?": int,
}  # fmt: skip
_LINK = {"job": _TEXT, "at": _WHEN, "reason": str}
_STATUS = {
    "cronhpc": str, "now": _TIME, "directory": str, "owner": str, "host": str, "cluster": str, "timezone": str,
    "batch": {"name": str, "answers": bool, "error": str, "accounting_error?": str},
    "cost": ({"days": int, "jobs": int, "cpu_seconds": int}, None),
    "chain": {
        "wanted": bool, "stopped": bool, "by_links": bool, "resident": bool, "interval": int, "last_tick": _WHEN,
        "running": _TEXT, "next": (_LINK, None), "spare": (_LINK, None), "resting": str, "no_spare": str,
        "via?": str, "caller?": str, "disabled?": str, "runs_ahead?": int,
        "moved_from": str, "ahead": ({"links": int, "until": _WHEN}, None),
    },
    "entries": [_ENTRY],
    "trouble": [
        {"decision": str, "entry": _TEXT, "link": _TEXT, "slot": _WHEN, "job": _TEXT, "switch": _TEXT, "done": str,
         "detail": str, "at": _TIME}
    ],
    "switches": [{**_SWITCH, "ending": [str], "warned": [str], "ends": _WHEN, "left_alone": [str]}],
    "attention": [{"kind": str, "name": str, "what": str, "when": str, "at": _WHEN, "fix": str}],
}  # fmt: skip


def cleaned(value: Any, deepest: int = _DEEPEST) -> Any:
    """`value` with every text in it as one printable line: it is shown on another user's terminal.

    What lies deeper than anything of ours is left out: no program could print it.
    """
    if isinstance(value, Mapping):
        return {key: cleaned(each, deepest - 1) for key, each in value.items()} if deepest else {}
    if isinstance(value, list):
        return [cleaned(each, deepest - 1) for each in value] if deepest else []
    return text.clean(value) if isinstance(value, str) and not value.isprintable() else value


def flaw(known: Mapping[str, Any]) -> str:
    """Where `known` is not what a tick writes: `entries.0.runs`; "" where it is."""
    return _flaw(known, _STATUS, "")


def _flaw(value: object, shape: object, at: str) -> str:
    """A dict has at least these keys (but for those with ?), a list any number of these, a tuple is one of them."""
    if isinstance(shape, dict):
        if not isinstance(value, Mapping) or any(not key.endswith("?") and key not in value for key in shape):
            return at or "."
        there = [(key.rstrip("?"), each) for key, each in shape.items() if key.rstrip("?") in value]
        return _first(_flaw(value[key], each, f"{at}.{key}".lstrip(".")) for key, each in there)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return at
        return _first(_flaw(each, shape[0], f"{at}.{number}") for number, each in enumerate(value))
    if isinstance(shape, tuple):
        inner = [_flaw(value, each, at) for each in shape]
        return "" if "" in inner else max(inner, key=len)
    return "" if _is(value, shape) else at


def _first(flaws: Iterator[str]) -> str:
    return next(filter(None, flaws), "")


def _is(value: object, shape: object) -> bool:
    if shape is None:
        return value is None
    if shape == _TIME:
        return epoch(value) is not None
    if shape is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST
    return isinstance(value, bool if shape is bool else str)
