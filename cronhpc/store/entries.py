"""The folders that entries lie in: what is in them, and what is passed over and why."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cronhpc.core.model import Problem
from cronhpc.store.files import patiently

if TYPE_CHECKING:
    from pathlib import Path

SUFFIX = ".slurm"
FRESH = 3  # seconds: a file this young may be half written
_BACKUPS = ("~", ".bak", ".orig", ".rej", ".swp", ".swo", ".tmp", ".dpkg-old", ".dpkg-dist", ".rpmsave", ".rpmnew")
_NOT_READ = {"README", "README.md", "README.txt"}

Fingerprint = list[int]


@dataclass(frozen=True, slots=True)
class Found:
    """A script in a folder."""

    name: str  # the entry's
    source: str  # relative to the cron directory
    path: str
    fingerprint: Fingerprint
    born: int  # when it was put there or changed last (ctime)
    changed: int  # the younger of mtime and ctime
    is_link: bool


def fingerprint(*found: os.stat_result) -> Fingerprint:
    """What changes whenever content, mode or owner does."""
    return [
        value
        for each in found
        for value in (each.st_mtime_ns, each.st_ctime_ns, each.st_size, each.st_ino, each.st_mode, each.st_uid)
    ]


def scan(root: Path, folder: str, skipped: list[Problem]) -> list[Found]:
    """The scripts in `root/folder`, by name; what is passed over goes to `skipped`. Raises OSError but for ENOENT."""
    found: list[Found] = []
    try:
        listed = patiently(lambda: _listed(root / folder))
    except FileNotFoundError:
        return []
    for row in listed:
        source = f"{folder}/{row.name}"
        looked = looked_at(row, source)
        if isinstance(looked, Problem):
            skipped.append(looked)
        elif looked is not None:
            found.append(looked)
    return found


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as rows:
        return sorted(rows, key=lambda row: row.name)


def looked_at(row: os.DirEntry[str], source: str) -> Found | Problem | None:
    """A script, why a file is passed over, or None for what is meant to be no entry."""
    try:
        return _look(row, source)
    except OSError as error:
        return Problem("W009", f"skipped: it cannot be looked at ({error.strerror}).", _reach(row, error), source)


def _reach(row: os.DirEntry[str], error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "It leads to itself: remove the link."
    place = shlex.quote(os.path.dirname(os.path.realpath(row.path)))
    if isinstance(error, PermissionError):
        return f"Let yourself into where it lies: chmod u+x {place}; or remove it."
    return f"Mount what it lies on ({place}), or remove it."


def _look(row: os.DirEntry[str], source: str) -> Found | Problem | None:
    name = row.name
    if name in _NOT_READ:
        return None
    if name.startswith("."):
        return Problem("W003", "skipped: a hidden file.", "Rename it without the dot to run it, or remove it.", source)
    if name.endswith(_BACKUPS) or name.startswith("#"):
        return Problem("W002", "skipped: an editor's backup file.", "Remove it.", source)
    is_link = row.is_symlink()
    try:
        target = row.stat()
    except FileNotFoundError:
        return Problem("W005", "skipped: a link to nothing.", "Remove it, or bring back its target.", source)
    if stat.S_ISDIR(target.st_mode):
        return Problem("W007", "skipped: a folder.", "Put the script itself here; folders are not looked into.", source)
    if not name.endswith(SUFFIX):
        return Problem("W001", "not a .slurm file: it will never run.", "Rename it, or remove it.", source)
    if not stat.S_ISREG(target.st_mode):
        return Problem("W006", "skipped: neither a file nor a link to one.", "Remove it.", source)
    own = row.stat(follow_symlinks=False) if is_link else target
    born = max(own.st_ctime_ns, target.st_ctime_ns) // 10**9
    changed = max(born, target.st_mtime_ns // 10**9)
    prints = fingerprint(target, own) if is_link else fingerprint(target)
    return Found(name.removesuffix(SUFFIX), source, row.path, prints, born, changed, is_link)


def read_script(path: str, most: int = 4 * 1024 * 1024) -> bytes:
    """The script's bytes, at most `most` (sbatch refuses larger ones). Raises OSError; never waits on a fifo."""
    return patiently(lambda: _read_script(path, most))


def _read_script(path: str, most: int) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        parts: list[bytes] = []
        while most > 0 and (part := os.read(fd, min(most, 1 << 16))):
            parts.append(part)
            most -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)
