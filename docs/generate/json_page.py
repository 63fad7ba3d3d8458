"""docs/json.md as types: whether what a program has printed is as the page says (test_golden.py asks).

The same as JSON Schema, for other programs, is docs/json.schema.json.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent
PAGE = (DOCS / "json.md").read_text(encoding="utf-8")
ALERTS = (DOCS / "alerts.md").read_text(encoding="utf-8")

Table = dict[str, str]  # types by key, as they are written


def tables(page: str) -> dict[str, Table]:
    """The shapes of a page by their headings."""
    return {name: {key: kind for key, kind, _ in rows(text)} for name, text in sections(page).items() if rows(text)}


def sections(page: str) -> dict[str, str]:
    """The text below each heading of a page."""
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def rows(text: str) -> list[tuple[str, str, str]]:
    """Key, type and meaning of each row of a table of keys."""
    return (
        re.findall(r"^\| `(\w+\??)` \| ([^|]+?) \| ([^|]+?) \|$", text, re.MULTILINE)
        if "| key | type |" in text
        else []
    )


TABLES = tables(PAGE)
TABLES["alert"] = tables(ALERTS)["For programs"]
MORE_THAN = {"one entry": "entry", "outcome": "decision"}  # tables that go on where another one ends
for more, first in MORE_THAN.items():
    TABLES[more] = {**TABLES[first], **TABLES[more]}

PLAIN = {"text": str, "number": int, "seconds": int, "bool": bool, "object": dict, "null": type(None)}


def misfits(value: Any, type_: str, place: str) -> list[str]:
    """Where `value` is not of the type as the page writes it."""
    kinds = type_.split(" or ")
    found = [_misfits(value, kind, place) for kind in kinds]
    return min(found, key=len)


def _misfits(value: Any, kind: str, place: str) -> list[str]:
    if kind.startswith("list of "):
        if not isinstance(value, list):
            return [f"{place}: {value!r} is no list"]
        return [each for n, one in enumerate(value) for each in misfits(one, kind[8:], f"{place}[{n}]")]
    if shape := re.fullmatch(r"\[([\w ]+)\]\(#([\w-]+)\)", kind):
        if shape[2] != shape[1].replace(" ", "-"):
            raise ValueError(f"{kind}: the link leads to another table")
        return shaped(value, shape[1], place)
    if kind == "instant":
        return [] if isinstance(value, str) and _instant(value) else [f"{place}: {value!r} is no instant"]
    fits = isinstance(value, PLAIN[kind]) and (kind == "bool" or not isinstance(value, bool))
    return [] if fits else [f"{place}: {value!r} is no {kind}"]


def _instant(text: str) -> bool:
    try:
        return text.endswith("Z") and datetime.fromisoformat(text) is not None
    except ValueError:
        return False


def shaped(value: Any, name: str, place: str) -> list[str]:
    """Where `value` is not as the table `name` says; keys beyond it are allowed, as the page says."""
    if not isinstance(value, dict):
        return [f"{place}: {value!r} is no {name}"]
    found = []
    for key, type_ in TABLES[name].items():
        known = key.rstrip("?")
        if known in value:
            found += misfits(value[known], type_, f"{place}.{known}")
        elif not key.endswith("?"):
            found.append(f"{place}.{known} is missing")
    return found


# --- JSON Schema -----------------------------------------------------------------------------------------------------

_TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string"}, "number": {"type": "integer"}, "seconds": {"type": "integer"},
    "bool": {"type": "boolean"}, "object": {"type": "object"}, "null": {"type": "null"},
    "instant": {"type": "string", "format": "date-time"},
}  # fmt: skip
_PLAIN = frozenset(_TYPES) - {"instant"}


def schema() -> dict[str, Any]:
    """All tables, each under its name in `$defs`."""
    texts = {**sections(PAGE), "alert": sections(ALERTS)["For programs"]}
    words = {name: {key: said for key, _, said in rows(texts[name])} for name in TABLES}
    for more, first in MORE_THAN.items():
        words[more] = {**words[first], **words[more]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What cronhpc prints with --json, status.json, and alerts",
        "$defs": {name.replace(" ", "-"): _object(table, words[name]) for name, table in sorted(TABLES.items())},
    }


def _object(table: Table, words: dict[str, str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {key.rstrip("?"): {**_type(kind), "description": words[key]} for key, kind in table.items()},
        "required": [key for key in table if not key.endswith("?")],
    }


def _type(written: str) -> dict[str, Any]:
    kinds = written.split(" or ")
    if len(kinds) > 1 and all(kind in _PLAIN for kind in kinds):
        return {"type": [_TYPES[kind]["type"] for kind in kinds]}
    if len(kinds) > 1:
        return {"anyOf": [_type(kind) for kind in kinds]}
    if written.startswith("list of "):
        return {"type": "array", "items": _type(written.removeprefix("list of "))}
    if link := re.fullmatch(r"\[[\w ]+\]\(#([\w-]+)\)", written):
        return {"$ref": f"#/$defs/{link[1]}"}
    return dict(_TYPES[written])


def schema_text() -> str:
    """A line a table."""
    whole = schema()
    known = [f"{json.dumps(name)}: {json.dumps(each, ensure_ascii=False)}" for name, each in whole.pop("$defs").items()]
    head = json.dumps(whole, indent=2).removesuffix("\n}")
    return head + ',\n  "$defs": {\n    ' + ",\n    ".join(known) + "\n  }\n}\n"
