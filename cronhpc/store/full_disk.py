"""What is remembered while nothing can be written: a file's name and its time take no room to change."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FINE, _FULL = "disk.fine", "disk.full"


def told(state: Path, now: int, *, full: bool, again: int) -> str:
    """What people are to be told of the disk: new, still (`again` seconds after the last time), over; "" for nothing.

    Where not even a name can be changed it is new each time.
    """
    try:
        return _full(state, now, again) if full else _fine(state)
    except OSError:
        return "new" if full else ""


def _full(state: Path, now: int, again: int) -> str:
    try:
        since = int(os.stat(state / _FULL).st_mtime)
    except FileNotFoundError:
        os.rename(state / _FINE, state / _FULL)
        os.utime(state / _FULL, (now, now))
        return "new"
    if 0 <= now - since < again:
        return ""
    os.utime(state / _FULL, (now, now))
    return "still"


def _fine(state: Path) -> str:
    if os.path.lexists(state / _FINE):
        return ""
    try:
        os.rename(state / _FULL, state / _FINE)
    except FileNotFoundError:
        os.close(os.open(state / _FINE, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600))
        return ""
    return "over"
