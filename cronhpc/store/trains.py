"""What is kept of trains (`cronhpc again`): one JSON file each, and the stub that pieces are submitted as."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from cronhpc.core.model import entry_id
from cronhpc.store.files import read_bytes, read_json, replace_file, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

VERSION = 1

# The script is read when the piece starts, not when it was queued. sbatch does not ask for the execute bit, so neither
# is it asked for here: the first line names the interpreter.
STUB = """#!/bin/bash
# made by cronhpc: a piece of a work that keeps itself going; it runs the script named first, as it is now
script=$1
shift
if ! IFS= read -r first <"$script"; then
  printf 'cronhpc: %s cannot be read: this piece does nothing\\n' "$script" >&2
  exit 127
fi
read -r -a interpreter <<<"${first#\\#!}"
exec "${interpreter[@]}" "$script" "$@"
"""


@dataclass(slots=True)
class Record:
    """One train. `options` are those of the first command line, `given` those passed to `again`."""

    name: str
    script: str
    workdir: str
    rules: dict[str, Any] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)  # the options that the piece in the queue was submitted with
    output: str = ""
    error: str = ""
    job_name: str = ""
    comment: str = ""
    first: str = ""  # the piece that a person started: it has no claim
    seen: str = ""  # the newest piece that has started
    next_slot: int = 0  # the slot of the piece after it
    runs: int = 0
    resting: str = ""
    ran: list[list[Any]] = field(default_factory=list)  # [job id, result, started, ended], the newest few


def folder(state: Path) -> Path:
    """Where they are."""
    return state / "trains"


def load(state: Path, name: str) -> Record | None:
    """The train called `name`. Raises StateError, OSError."""
    return _record(read_json(folder(state) / f"{entry_id(name)}.json", VERSION))


def every(state: Path) -> Iterator[Record]:
    """All of them; a torn file is passed over. Raises OSError."""
    try:
        paths = sorted(folder(state).glob("*.json"))
    except FileNotFoundError:
        return
    for path in paths:
        data = read_bytes(path)
        try:
            record = _record(json.loads(data)) if data else None
        except ValueError:
            record = None
        if record is not None:
            yield record


def save(state: Path, record: Record) -> None:
    """Raises OSError."""
    folder(state).mkdir(mode=0o700, parents=True, exist_ok=True)
    write_json(folder(state) / f"{entry_id(record.name)}.json", asdict(record), VERSION)


def stub(state: Path) -> Path:
    """The stub's path; written if it is not there as it should be. Raises OSError."""
    path = folder(state) / "piece.slurm"
    if read_bytes(path) != STUB.encode():
        folder(state).mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, STUB.encode(), 0o700)
    return path


def _record(value: Mapping[str, Any] | None) -> Record | None:
    if not value:
        return None
    known = {k: v for k, v in value.items() if k in Record.__dataclass_fields__}
    try:
        return Record(**known)
    except TypeError:
        return None
