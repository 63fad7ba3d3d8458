"""Processes by id and start time; a process and all that it left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd", "slurmdbd", "slurmstepd", "mariadbd")


def start_time(pid: int) -> str | None:
    """When `pid` started, in clock ticks since boot; None when there is no such process or only its corpse.

    Together with the id it names one process for ever.
    """
    fields = _stat(pid)
    return None if fields is None or fields[0] in "ZX" else fields[19]


def alive(pid: int, start: str) -> bool:
    """Whether that very process still runs."""
    return start_time(pid) == start


def descendants(pid: int) -> list[int]:
    """Every process below `pid`."""
    children: dict[int, list[int]] = {}
    for child in _all():
        fields = _stat(child)
        if fields is not None:
            children.setdefault(int(fields[1]), []).append(child)
    found: list[int] = []
    front = [pid]
    while front:
        front = [child for parent in front for child in children.get(parent, [])]
        found += front
    return found


def children(pid: int) -> list[int]:
    """The processes whose parent is `pid`."""
    return [child for child in _all() if (fields := _stat(child)) is not None and int(fields[1]) == pid]


def steps_of(log: Path, among: list[int]) -> list[int]:
    """Those slurmstepd processes `among` these that write to the log of one node."""
    return [pid for pid in among if _name(pid) == "slurmstepd" and str(log) in _open_files(pid)]


def strays(root: Path) -> list[int]:
    """What a lab left whose keeper was killed: daemons that name its folder, job steps, and all below them."""
    inside = os.fsencode(f"{root}/")
    me = os.getpid()
    roots = [
        pid
        for pid in _all()
        if pid != me
        and _name(pid) in DAEMONS
        and (any(inside in word for word in _read(pid, "cmdline")) or _works_in(pid, root))
    ]
    return roots + [below for pid in roots for below in descendants(pid)]


def _works_in(pid: int, folder: Path) -> bool:
    return any(name.startswith(f"{folder}/") for name in _open_files(pid))


def _open_files(pid: int) -> list[str]:
    names: list[str] = []
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                names.append(str(link.readlink()))
    return names


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process that may have ended meanwhile."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def wait_gone(pid: int, start: str, seconds: float) -> bool:
    """Whether that process ended within `seconds`."""
    deadline = time.monotonic() + seconds
    while alive(pid, start):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _all() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name (which may hold blanks and brackets): state, parent and so on."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _read(pid: int, what: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes().split(b"\0")
    except OSError:
        return []
