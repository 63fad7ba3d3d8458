"""State files that were cut off (a full disk, a machine that fell): what they held is forgotten, and that is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.core.model import Problem
from cronhpc.store.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cronhpc.store.memory import Memory

_SHOWN = 86400  # seconds for which `status` goes on to say what one tick has found
_SAFE = "No slot runs twice: the claims hold what was submitted."


def remember(memory: Memory, now: int, *, told: bool) -> None:
    """Keep in `memory` that it is not whole: its next writing hides that. `told`: a tick's report says it."""
    if memory.torn:
        memory.meta.setdefault("forgotten", [now, False])
    if told and "forgotten" in memory.meta:
        memory.meta["forgotten"][1] = True


def of_entries(memory: Memory, now: int, *, told_too: bool = False) -> list[Problem]:
    """What was lost of entries, until a tick has told it; `told_too`: for a day."""
    since, told = memory.meta.get("forgotten") or (now, not memory.torn)
    if told and not (told_too and memory.meta.get("forgotten") and 0 <= now - since < _SHOWN):
        return []
    what = "was empty or cut off: last results, streaks, suspensions and standing alerts are forgotten."
    mend = f"{_SAFE} Entries that were suspended run again; the past is in: cronhpc history"
    return [Problem("W332", what, mend, "state/entries.json")]


def others(state: Path) -> Iterator[Problem]:
    """Files that stay as they are until someone acts. Raises OSError."""
    if _is_torn(state / "environment.json"):
        what = "is empty or cut off: runs get the environment of whoever calls the tick."
        yield Problem("W333", what, "Save it again: cronhpc start", "state/environment.json")
    for path in sorted((state / "trains").glob("*.json")):
        if _is_torn(path):
            what = "is empty or cut off: how far that work has come is forgotten."
            yield Problem(
                "W341", what, f"Start its script again; then remove the file. {_SAFE}", f"state/trains/{path.name}"
            )


def _is_torn(path: Path) -> bool:
    data = read_bytes(path)
    return data is not None and not (data.startswith(b"{") and data.rstrip().endswith(b"}"))
