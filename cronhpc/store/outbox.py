"""Alerts that could not be sent: kept for a day, and tried again by the next ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from cronhpc.core.model import StateError
from cronhpc.store import shapes
from cronhpc.store.files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

VERSION = 1
_KEPT = 86400  # seconds
_MOST = 100


class Unsent(NamedTuple):
    """An alert, the way that failed, and when it was to be sent first."""

    way: str
    at: int
    alert: dict[str, Any]


def waiting(path: Path, now: int) -> list[Unsent]:
    """What is still to be sent, oldest first; a file that cannot be used holds nothing."""
    try:
        rows = (read_json(path, VERSION) or {}).get("rows", [])
    except (OSError, StateError):
        return []
    whole = [row for row in rows if _is_whole(row)] if isinstance(rows, list) else []
    return [Unsent(**row) for row in whole if 0 <= now - row["at"] < _KEPT]


def _is_whole(row: object) -> bool:
    """An alert of which a part is of no use would tell something else."""
    lost: list[str] = []
    known = shapes.fitted(row, shapes.UNSENT, lost)
    return not lost and known == row and known.keys() == shapes.UNSENT.keys() and known["alert"].keys() >= _TOLD


_TOLD = frozenset({"phase", "kind", "text"})


def keep(path: Path, rows: Sequence[Unsent]) -> None:
    """Keep the newest of these, and nothing else. Raises OSError."""
    if not rows:
        path.unlink(missing_ok=True)
        return
    write_json(path, {"rows": [each._asdict() for each in rows[-_MOST:]]}, VERSION)
