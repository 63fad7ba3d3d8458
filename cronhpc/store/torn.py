"""State files that were cut off (a full disk, a machine that fell), or hold what we do not write (`shapes`).

What they held is forgotten, and that is said.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from cronhpc.core.model import Problem, command
from cronhpc.store import shapes
from cronhpc.store.files import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cronhpc.store.memory import Memory

_SHOWN = 86400  # seconds for which `status` goes on to say what one tick has found
_SAFE = "No slot runs twice: the claims hold what was submitted."


def remember(memory: Memory, now: int, *, told: bool) -> None:
    """Keep in `memory` that it is not whole: its next writing hides that. `told`: a tick's report says it."""
    if memory.torn:
        memory.meta.setdefault("forgotten", [now, False])
    elif memory.odd:
        memory.meta["odd"] = [now, False, memory.odd]
    for each in ("forgotten", "odd"):
        if told and each in memory.meta:
            memory.meta[each][1] = True


def of_entries(memory: Memory, now: int, *, told_too: bool = False) -> list[Problem]:
    """What was lost of entries, until a tick has told it; `told_too`: for a day."""
    found = []
    if _is_shown(memory.meta.get("forgotten"), now, new=memory.torn, told_too=told_too):
        what = "was empty or cut off: last results, streaks, suspensions and standing alerts are forgotten."
        mend = f"{_SAFE} Entries that were suspended run again; the past is in: " + command("history")
        found.append(Problem("W332", what, mend, "state/entries.json"))
    odd = memory.meta.get("odd")
    where = memory.odd or (odd[2] if odd else "")
    if _is_shown(odd, now, new=bool(memory.odd), told_too=told_too):
        what = f"held what no tick writes, and that is forgotten: {where}."
        mend = f"{_SAFE} The past is in: " + command("history")
        found.append(Problem("W335", what, mend, "state/entries.json"))
    return found


def _is_shown(known: Sequence[Any] | None, now: int, *, new: bool, told_too: bool) -> bool:
    """Once told by a tick, it is for those who look within a day."""
    if new or known is None:
        return new
    since, told, *_ = known
    return not told or (told_too and 0 <= now - since < _SHOWN)


def others(state: Path) -> Iterator[Problem]:
    """Files that stay as they are until someone acts. Raises OSError, StateError."""
    flaw = _flaw_of_environment(state / "environment.json")
    if flaw:
        yield Problem("W333", flaw, "Save it again: " + command("start"), "state/environment.json")
    for path in sorted((state / "trains").glob("*.json")):
        from cronhpc.store.trains import usable

        if _is_there(path) and usable(path) is None:
            what = "is empty, cut off, or no record of ours: how far that work has come is forgotten."
            mend = f"Start its script again; then remove the file. {_SAFE}"
            yield Problem("W341", what, mend, f"state/trains/{path.name}")


def environment(path: Path, lost: list[str]) -> dict[str, str] | None:
    """What `start` was called in, as far as it can be used; None where there is none. Raises OSError, StateError."""
    found = shapes.fitted((read_json(path, 1) or {}).get("environment"), shapes.ENVIRONMENT, lost)
    if found is shapes.GONE:
        return None
    bad = [name for name in found if not name or "=" in name]
    lost += bad
    return {name: value for name, value in found.items() if name not in bad}


def _flaw_of_environment(path: Path) -> str:
    lost: list[str] = []
    try:
        found = environment(path, lost)
    except OSError as error:
        return f"cannot be read ({error.strerror}): runs get the environment of whoever calls the tick."
    if found is None:
        what = "is empty, cut off, or none of ours: runs get the environment of whoever calls the tick."
        return what if _is_there(path) else ""
    return f"holds variables that no program can get, and runs do without: {shapes.places(lost)}." if lost else ""


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def started(lost: Sequence[str]) -> Problem:
    """How ticks are driven, where that is not wholly to be known."""
    what = f"is cut off, or holds what `start` does not write: {shapes.places(list(lost))}."
    return Problem("W336", what, "Write it again: " + command("start"), "scheduler/started")


def claims(odd: Sequence[str]) -> Problem:
    """Claims whose records are of no use: their names still say that they are claimed."""
    what = f"is damaged: {shapes.places(list(odd))}. It counts as claimed, and is not submitted again."
    mend = "Whether it ran can be told by its log; see: " + command("history")
    return Problem("W337", what, mend, "state/claims")
