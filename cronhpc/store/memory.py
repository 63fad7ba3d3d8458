"""What cronhpc keeps between ticks: `state/entries.json` (facts of its own) and `state/cache.json` (can be rebuilt).

Where both are lost, the claims still hold the newest slot of every entry, so nothing runs twice.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cronhpc.core.model import Advice, Command, EntryState, Policies, Problem
from cronhpc.store import shapes
from cronhpc.store.files import of_version, read_bytes, read_lasting, replace_file, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from cronhpc.core.model import Entry

VERSION = 1


@dataclass(slots=True)
class Memory:
    """The state of entries by name, and of the scheduler itself (`meta`: plain JSON values)."""

    entries: dict[str, EntryState] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    data: bytes | None = None  # the file as read, to notice another's writing: what a stat says may be a minute old
    torn: bool = False  # the file was there, and held nothing that can be read
    odd: str = ""  # places in the file whose values were of no use, for a message


def load(path: Path) -> Memory:
    """Raises StateError for a newer format, OSError. A torn or empty file is as none: the claims remain."""
    data = read_lasting(path)
    value = of_version(data, path, VERSION) or {}
    lost: list[str] = []
    rows = shapes.fitted(value.get("entries", {}), shapes.Rows(shapes.ENTRY), lost, "entries")
    meta = shapes.fitted(value.get("meta", {}), shapes.META, lost, "meta")
    return Memory(
        {} if rows is shapes.GONE else {name: _state(row) for name, row in rows.items()},
        {} if meta is shapes.GONE else meta,
        data,
        torn=data is not None and not isinstance(value.get("entries"), dict),
        odd=shapes.places(lost),
    )


def save(path: Path, memory: Memory) -> None:
    """Write, after taking over what another scheduler has written meanwhile: a watermark never goes back."""
    if read_lasting(path) != memory.data:
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
    return Memory(entries, meta, theirs.data)


def states_now(path: Path) -> Mapping[str, EntryState]:
    """Entry name to state as the disk has it now: read again after claiming. Raises StateError, OSError."""
    return load(path).entries


def _state(row: dict[str, Any]) -> EntryState:
    return EntryState(**{**row, "nodes": tuple(row["nodes"])} if "nodes" in row else row)


def _row(state: EntryState) -> dict[str, Any]:
    return {
        name: value for name in EntryState.__slots__ if (value := getattr(state, name)) not in (None, 0, "", {}, ())
    }


# --- the cache of parsed files -------------------------------------------------------------------------------------


def load_cache(path: Path) -> dict[str, Any]:
    """What was parsed from files, by source and fingerprint; empty where it is absent, or not as we wrote it.

    It can be made again, so nothing is looked for in a file that another version, or anybody else, has written.
    """
    data = read_bytes(path) or b""
    head, rest = data[:_SEAL], data[_SEAL:]
    return json.loads(b"{" + rest) if head == _seal(rest) else {}


def save_cache(path: Path, cache: dict[str, Any]) -> None:
    """Raises OSError."""
    rest = json.dumps(cache, separators=(",", ":")).encode()[1:]
    replace_file(path, _seal(rest) + rest)


def _seal(rest: bytes) -> bytes:
    """How a cache begins: with the sum of what follows."""
    return b'{"version":%d,"sum":"%s",' % (VERSION, hashlib.sha256(rest).hexdigest()[:16].encode())


_SEAL = len(_seal(b""))


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
        values["problem"] = _problem(row["problem"])
    return Entry(**values)


def _problem_row(problem: Problem) -> list[Any]:
    """Its fix with the commands as values, if it has any."""
    fix = problem.fix
    if isinstance(fix, Advice):
        kept = [
            [part.verb, part.arguments, part.directory] if isinstance(part, Command) else part for part in fix.parts
        ]
        return [problem.code, problem.what, kept, problem.file, problem.line, problem.key]
    return [getattr(problem, each) for each in Problem.__slots__]


def _problem(row: Sequence[Any]) -> Problem:
    code, what, fix, *place = row
    if isinstance(fix, list):
        fix = Advice(*(part if isinstance(part, str) else Command(part[0], tuple(part[1]), part[2]) for part in fix))
    return Problem(code, what, fix, *place)


def _problems(rows: Iterable[list[Any]]) -> tuple[Problem, ...]:
    return tuple(map(_problem, rows))
