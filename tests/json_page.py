"""docs/json.md as types: whether what a program has printed is as the page says (test_golden.py asks)."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "json.md").read_text(encoding="utf-8")

Table = dict[str, str]  # types by key, as they are written


def tables() -> dict[str, Table]:
    """The shapes of docs/json.md by their headings."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]
    return {
        name: dict(re.findall(r"^\| `(\w+\??)` \| ([^|]+?) \|", text, re.MULTILINE))
        for name, text in zip(parts[::2], parts[1::2], strict=True)
        if "| key | type |" in text
    }


TABLES = tables()
TABLES["one entry"] = {**TABLES["entry"], **TABLES["one entry"]}
TABLES["outcome"] = {**TABLES["decision"], **TABLES["outcome"]}

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
        assert shape[2] == shape[1].replace(" ", "-"), kind
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
