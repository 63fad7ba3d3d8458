"""Where a cron directory was when its id was made: a copy has the same id, and would take its jobs for its own."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.core.model import StateError, command
from cronhpc.store.files import read_bytes, replace_file

if TYPE_CHECKING:
    from cronhpc.store.paths import Paths


def remember(paths: Paths) -> None:
    """It is at home here. Raises OSError."""
    here = os.fsencode(paths.root) + b"\n"
    if read_bytes(paths.state / "place") != here:
        replace_file(paths.state / "place", here)


def moved_from(paths: Paths) -> str:
    """The folder that it was in, if it has been elsewhere; "" where it was not, or nobody knows."""
    try:
        known = read_bytes(paths.state / "place") or b""
    except OSError:
        return ""
    place = os.fsdecode(known[:-1]) if known.endswith(b"\n") and known.startswith(b"/") else ""
    return "" if place == str(paths.root) or not place or _same(paths, place) else place


def must_be_no_copy(paths: Paths) -> None:
    """Raises StateError for a folder that was copied while the first one is still there."""
    place = moved_from(paths)
    if not place:
        return
    try:
        theirs, ours = (read_bytes(folder / "state" / "id") for folder in (Path(place), paths.root))
    except OSError:
        return  # not to be seen from here: nobody can tell
    if ours and theirs == ours:
        raise StateError(
            f"{paths.root} is a copy of {place} with the same id: each would take the other's jobs for its own. "
            "Nothing was done. " + id_of_its_own(paths)
        )


def id_of_its_own(paths: Paths) -> str:
    """What to type."""
    ids = [f"{paths.root}/{folder}/id" for folder in ("state", "scheduler")]
    return f"For one of its own: rm {shlex.join(ids)} && " + command("init", directory=str(paths.root))


def _same(paths: Paths, place: str) -> bool:
    """Whether both names lead to one folder, also through two mounts, whose device numbers differ."""
    try:
        here, there = (os.stat(f"{root}/state/id") for root in (paths.root, place))
    except OSError:
        return False
    return (here.st_ino, here.st_ctime_ns) == (there.st_ino, there.st_ctime_ns)
