"""What is kept of series (`cronhpc again`): one JSON file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.core.model import Instant, Result, Rules, decode, entry_id
from cronhpc.cron.values import dataclass, field, replace
from cronhpc.store.files import make_folder, no_file, read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any

VERSION = 1


@dataclass(frozen=True, slots=True)
class Record:
    """One series. `options` are those of the first command line, `given` those passed to `again`."""

    EARLIER = {"resting": "no_next"}  # noqa: RUF012 - names

    name: str
    script: str
    workdir: str
    rules: Rules = Rules()
    unknown_rules: tuple[str, ...] = ()  # names of another version's: when its pieces come is not known
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    overruled: dict[str, str] = field(default_factory=dict)  # by `options`: what the script said of them then
    given: tuple[str, ...] = ()
    submitted: tuple[str, ...] = ()  # the options that the piece in the queue was submitted with
    job_name: str = ""
    comment: str = ""
    first: str = ""  # the piece that a person started: it has no claim
    seen: str = ""  # the newest piece that has started
    next_slot: Instant = 0  # the slot of the piece after it
    at: Instant = 0  # when it started
    logs: tuple[tuple[str, str], ...] = ()  # job id and path of the newest few
    runs: int = 0
    no_next: str = ""
    trouble: str = ""  # why the newest piece has queued no next one, against the rules
    ran: tuple[tuple[str, Result, Instant | None, Instant | None], ...] = ()  # the newest few (core/pieces.py: Ran)


def folder(state: Path) -> Path:
    return state / "trains"


def load(state: Path, name: str) -> Record | None:
    """The series called `name`. Raises StateError, OSError."""
    return _record(read_json(folder(state) / f"{entry_id(name)}.json", VERSION))


def every(state: Path) -> Iterator[Record]:
    """All of them; a corrupt file is passed over. Raises OSError."""
    yield from filter(None, map(usable, sorted(folder(state).glob("*.json"))))


def usable(path: Path) -> Record | None:
    """What a file tells, also one of a newer version as far as that goes; None where it is no record. Raises OSError.

    A script that would go on with arguments or options lost would do another work: such a record is none.
    """
    try:
        return _record(read_json(path))
    except OSError as error:
        if no_file(error):
            return None
        raise


def save(state: Path, record: Record) -> None:
    """Raises OSError."""
    make_folder(folder(state))
    write_json(folder(state) / f"{entry_id(record.name)}.json", decode.plain(record), VERSION)


def _record(value: Mapping[str, Any] | None) -> Record | None:
    if not value:
        return None
    record, invalid = decode.read(Record, value)
    if record is None or invalid:
        return None
    unknown = value.get("rules", {}).keys() - decode.of(Rules).fields.keys()
    return replace(record, unknown_rules=(*record.unknown_rules, *sorted(unknown)))
