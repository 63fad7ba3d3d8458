"""What `cronhpc check` prints."""

from __future__ import annotations

import json
from collections.abc import Sequence

from cronhpc.core.model import Problem

_GITHUB = {"error": "error", "warning": "warning", "note": "notice"}
FORMATS = ("text", "json", "github")


def render(problems: Sequence[Problem], *, fmt: str = "text") -> str:
    """`problems` as lines for people, as JSON, or as GitHub's workflow commands; no line end at the end."""
    if fmt == "json":
        return _json(problems)
    line = _github if fmt == "github" else _text
    return "\n".join([*(line(p) for p in problems), summary(problems)])


def summary(problems: Sequence[Problem]) -> str:
    """`2 warnings, 1 error`, or `nothing to mend`."""
    errors = sum(p.severity == "error" for p in problems)
    warnings = sum(p.severity == "warning" for p in problems)
    counted = [(warnings, "warning"), (errors, "error")]
    return ", ".join(f"{n} {word}{'s' * (n != 1)}" for n, word in counted if n) or "nothing to mend"


def _text(problem: Problem) -> str:
    return _plain(str(problem))


def _plain(text: str) -> str:
    """One printable line: names and scripts may hold line ends, terminal codes and bytes that are no UTF-8."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _json(problems: Sequence[Problem]) -> str:
    rows = [
        {
            "file": _plain(p.file),
            "line": p.line,
            "code": p.code,
            "severity": p.severity,
            "key": _plain(p.key),
            "what": _plain(p.what),
            "mend": _plain(p.mend),
        }
        for p in problems
    ]
    errors = sum(p.severity == "error" for p in problems)
    warnings = sum(p.severity == "warning" for p in problems)
    whole = {"problems": rows, "warnings": warnings, "errors": errors}
    return json.dumps(whole, ensure_ascii=False, indent=2)


def _github(problem: Problem) -> str:
    place = f"file={_property(problem.file)}," if problem.file else ""
    place += f"line={problem.line}," if problem.line else ""
    kind, said = _GITHUB[problem.severity], f"{problem.what} {problem.mend}".strip()
    return f"::{kind} {place}title={problem.code}::{_message(said)}"


def _message(text: str) -> str:
    return _plain(text).replace("%", "%25")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
