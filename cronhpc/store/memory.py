"""What cronhpc keeps between ticks: `state/entries.json` (facts of its own) and `state/cache.json` (can be rebuilt).

Where both are lost, the claims still hold the newest slot of every entry, so nothing runs twice.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cronhpc.core.model import EntryState, Policies, Problem
from cronhpc.store.files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cronhpc.core.model import Entry

VERSION = 1
_EMPTY = EntryState()


@dataclass(slots=True)
class Memory:
    """The state of entries by name, and of the scheduler itself (`meta`: plain JSON values)."""

    entries: dict[str, EntryState] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    stamp: tuple[int, int, int] | None = None  # of the file as read, to notice another's writing
    torn: bool = False  # the file was there, and held nothing that can be read


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def load(path: Path) -> Memory:
    """Raises StateError for a newer format, OSError. A torn or empty file is as none: the claims remain."""
    stamp = _stamp(path)
    found = read_json(path, VERSION)
    value = found or {}
    rows = value.get("entries")
    meta = value.get("meta")
    return Memory(
        {name: _state(row) for name, row in rows.items()} if isinstance(rows, dict) else {},
        meta if isinstance(meta, dict) else {},
        stamp,
        torn=stamp is not None and (found is None or not isinstance(rows, dict)),
    )


def save(path: Path, memory: Memory) -> None:
    """Write, after taking over what another scheduler has written meanwhile: a watermark never goes back."""
    if _stamp(path) != memory.stamp:
        memory = merged(memory, load(path))
    rows = {name: _row(state) for name, state in memory.entries.items()}
    write_json(path, {"entries": rows, "meta": memory.meta}, VERSION)


def merged(ours: Memory, theirs: Memory) -> Memory:
    """For each entry the state that has come further; times in `meta` never go back."""
    entries = dict(theirs.entries)
    for name, state in ours.entries.items():
        other = entries.get(name)
        if other is None or other.watermark <= state.watermark:
            entries[name] = state
        elif other.watermark > state.watermark:
            entries[name] = replace(other, suspended=other.suspended or state.suspended)
    meta = {**theirs.meta, **ours.meta}
    for key in ("last_tick",):
        meta[key] = max(int(ours.meta.get(key) or 0), int(theirs.meta.get(key) or 0))
    return Memory(entries, meta, theirs.stamp)


def watermarks(path: Path) -> Mapping[str, int]:
    """Entry name to watermark as the disk has it now: read again after claiming. Raises StateError, OSError."""
    return {name: state.watermark for name, state in load(path).entries.items()}


def _state(row: object) -> EntryState:
    if not isinstance(row, dict):
        return _EMPTY
    if "nodes" in row:
        row = {**row, "nodes": tuple(row["nodes"])}
    try:
        return EntryState(**row)
    except TypeError:  # a field that this version does not know, in a format that it should: leave it
        known = EntryState.__dataclass_fields__
        return EntryState(**{k: v for k, v in row.items() if k in known})


def _row(state: EntryState) -> dict[str, Any]:
    return {
        name: value for name in EntryState.__slots__ if (value := getattr(state, name)) not in (None, 0, "", {}, ())
    }


# --- the cache of parsed files -------------------------------------------------------------------------------------


def load_cache(path: Path) -> dict[str, Any]:
    """What was parsed from files, by source and fingerprint; empty where it is absent, torn or of another version."""
    from cronhpc.core.model import StateError

    try:
        return read_json(path, VERSION) or {}
    except StateError:
        return {}


def save_cache(path: Path, cache: dict[str, Any]) -> None:
    """Raises OSError."""
    write_json(path, cache, VERSION)


def entry_row(entry: Entry) -> dict[str, Any]:
    """`entry` as JSON values, defaults left out."""
    row: dict[str, Any] = {}
    for name, declared in entry.__dataclass_fields__.items():
        value = getattr(entry, name)
        if value == declared.default:  # what has no default is always there
            continue
        if name == "policies":
            value = [getattr(value, each) for each in Policies.__slots__]
        elif name == "problem":
            value = _problem_row(value)
        elif name == "notes":
            value = [_problem_row(each) for each in value]
        row[name] = value
    return row


def entry_of(row: Mapping[str, Any]) -> Entry:
    """The reverse of `entry_row`. Raises TypeError, KeyError for a row of another shape."""
    from cronhpc.core.model import Entry

    values = dict(row)
    values["policies"] = Policies(*row["policies"]) if "policies" in row else Policies()
    values |= {each: tuple(row[each]) for each in ("options", "arguments", "own_options") if each in row}
    values["notes"] = _problems(row.get("notes", ()))
    if "problem" in row:
        values["problem"] = Problem(*row["problem"])
    return Entry(**values)


def _problem_row(problem: Problem) -> list[Any]:
    return [getattr(problem, each) for each in Problem.__slots__]


def _problems(rows: Iterable[list[Any]]) -> tuple[Problem, ...]:
    return tuple(Problem(*row) for row in rows)
