"""What cronhpc keeps between ticks: `state/entries.json` (facts of its own) and `state/cache.json` (can be rebuilt).

Where both are lost, the claims still hold the newest slot of every entry, so nothing runs twice.
"""

from __future__ import annotations

import json
from contextlib import suppress

from cronhpc import __version__
from cronhpc.core.model import EntryState, SchedulerState, Settings, decode
from cronhpc.cron.values import dataclass, digest, field, replace
from cronhpc.store.files import of_version, read_bytes, read_lasting, replace_file, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

VERSION = 1
_CACHE_VERSION = 4


@dataclass(slots=True)
class Memory:
    """The state of entries by name, and of the scheduler itself (in the file `meta`)."""

    entries: dict[str, EntryState] = field(default_factory=dict)
    scheduler: SchedulerState = field(default_factory=SchedulerState)
    data: bytes | None = None  # the file as read, to notice another's writing: what a stat says may be a minute old
    corrupt: bool = False  # the file was there, and held nothing that can be read
    invalid: str = ""  # places in the file whose values were of no use, for a message
    rows: dict[str, tuple[EntryState, dict[str, Any]]] = field(default_factory=dict)  # as read: most stay as they are


def load(path: Path) -> Memory:
    """Raises StateError for a newer format, OSError. A corrupt or empty file is as none: the claims remain."""
    data = read_lasting(path)
    value = of_version(data, path, VERSION) or {}
    for row in value["entries"].values() if isinstance(value.get("entries"), dict) else ():
        if isinstance(row, dict) and row.get("retried"):  # one slot, in older versions
            row["to_retry"] = [row.pop("retried")]
    rows, invalid_rows = decode.decode(value.get("entries", {}), decode.Rows(decode.of(EntryState)), "entries")
    scheduler, invalid_meta = decode.read(SchedulerState, value.get("meta", {}), "meta")
    rows = {} if rows is decode.GONE else {name: (decode.made(EntryState, row), row) for name, row in rows.items()}
    return Memory(
        {name: state for name, (state, _) in rows.items()},
        scheduler or SchedulerState(),
        data,
        corrupt=data is not None and not isinstance(value.get("entries"), dict),
        invalid=decode.places(invalid_rows + invalid_meta),
        rows=rows,
    )


def save(path: Path, memory: Memory) -> None:
    """Write, after taking over what another scheduler has written meanwhile: a watermark never goes back."""
    if read_lasting(path) != memory.data:
        memory = merged(memory, load(path))
    rows = {}
    for name, state in memory.entries.items():
        before, row = memory.rows.get(name, (None, {}))
        rows[name] = row if before is state else decode.plain(state)
    write_json(path, {"entries": rows, "meta": decode.plain(memory.scheduler)}, VERSION)


def merged(ours: Memory, theirs: Memory) -> Memory:
    """For each entry the state that has come further; of the scheduler ours, but no tick is forgotten."""
    entries = dict(theirs.entries)
    for name, state in ours.entries.items():
        other = entries.get(name)
        if other is None or other.watermark <= state.watermark:
            entries[name] = state
        elif other.watermark > state.watermark:
            entries[name] = replace(other, suspended=other.suspended or state.suspended)
    kept, last = ours.scheduler, theirs.scheduler.last_tick or 0
    if kept.last_tick is None:  # a look at one entry, before the first tick was over
        fields = {name: getattr(kept, name) or getattr(theirs.scheduler, name) for name in SchedulerState.__slots__}
        kept = SchedulerState(**fields)
    return Memory(entries, replace(kept, last_tick=max(kept.last_tick or 0, last) or None), theirs.data)


# --- the cache of parsed files -------------------------------------------------------------------------------------


class Cache:
    """`state/cache.json`: what was parsed from files, and what asking has taught, by what it is of.

    It can be made again, so nothing is looked for in a file that another version, or anybody else, has written.
    """

    def __init__(self, state: Path) -> None:
        """As the file has it; empty where that is absent, cannot be read, or is not as we wrote it."""
        self.path = state / "cache.json"
        self.known: dict[str, Any] = {}
        self.changed = False  # since it was read: then the tick writes it
        with suppress(OSError):
            data = read_bytes(self.path) or b""
            head, rest = data[:_SEAL], data[_SEAL:]
            self.known = json.loads(b"{" + rest) if head == _seal(rest) else {}

    def get(self, name: str, default: Any = None) -> Any:
        return self.known.get(name, default)

    def keep(self, name: str, value: Any) -> None:
        self.changed = self.changed or self.known.get(name) != value
        self.known[name] = value

    def forget(self) -> None:
        """All of it, as it was made with other settings; the file stays until the next save."""
        self.known = {}

    def save(self) -> None:
        """Raises OSError."""
        if self.changed:
            rest = json.dumps(self.known, separators=(",", ":")).encode()[1:]
            replace_file(self.path, _seal(rest) + rest)


def _seal(rest: bytes) -> bytes:
    """How a cache begins: with the sum of what follows."""
    return b'{"version":%d,"sum":"%s",' % (_CACHE_VERSION, digest(rest)[:16].encode())


_SEAL = len(_seal(b""))


def settings_to_json(settings: Settings) -> dict[str, Any]:
    """`settings` for a cache, so that an unchanged file need not be parsed again."""
    return {"cronhpc": __version__, "settings": decode.plain(settings)}


def settings_from_json(cached: Mapping[str, Any]) -> Settings:
    """The reverse. Raises ValueError where another version of cronhpc wrote it: parse the file then."""
    if cached.get("cronhpc") != __version__:
        raise ValueError("cached settings of another version")
    try:
        return decode.made(Settings, cached["settings"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"cached settings are damaged: {error}") from None
