"""A folder of switches that others may write, opened so that nobody leads elsewhere: into a private folder of mine.

What lies in it is published: names and reasons stand in status.json. So where another user could have chosen the folder
(by a link of theirs, or by moving one of mine into its place), it has to be one that they may look into themselves.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from cronhpc.inside.switch_file import clean, owner

if TYPE_CHECKING:
    from pathlib import Path

_MOST_LINKS = 40  # the kernel's own limit
_LISTABLE, _WRITABLE = 0o044, 0o022  # by the group or by others


class AstrayError(OSError):
    """Another user has led the way there; `strerror` says how."""


def open_folder(folder: Path, root: Path | None = None, *, listing: bool = True) -> int:
    """A descriptor of `folder`; the way is asked from `root` on, where it lies below that.

    Without `listing` one for names in it that are known: the right to list it is not needed. Raises OSError where it
    cannot be opened, AstrayError.
    """
    how = os.O_RDONLY if listing else getattr(os, "O_PATH", os.O_RDONLY)
    fd = os.open(folder, how | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        path = os.path.abspath(folder)
        if root is not None and folder.is_relative_to(root):
            path = os.path.join(os.path.realpath(root), folder.relative_to(root))
        why = _astray(path, os.fstat(fd))
        if why:
            raise AstrayError(errno.EXDEV, why, str(folder))
    except OSError:
        os.close(fd)
        raise
    return fd


def is_where_it_says(folder: Path) -> bool:
    """Whether nobody has led elsewhere what is called `folder`."""
    try:
        os.close(open_folder(folder, listing=False))
    except AstrayError:
        return False
    except OSError:
        return True  # what cannot be looked at is told elsewhere
    return True


def _astray(path: str, opened: os.stat_result) -> str:
    """Why `opened` may be another folder than the one that is meant by `path`; "" where it is that one."""
    me = os.getuid()
    real, strangers = _way(path, me)
    found = os.lstat(real)
    if (found.st_dev, found.st_ino) != (opened.st_dev, opened.st_ino):
        return "it was exchanged in this moment"
    led = sorted(strangers - {opened.st_uid})
    if led:
        whose = owner(opened.st_uid)
        return f"a link of {owner(led[0])}'s leads to {clean(real)}, which is {whose}'s"
    above = os.lstat(os.path.dirname(real))
    others_move = above.st_mode & _WRITABLE and not above.st_mode & stat.S_ISVTX
    if opened.st_uid == me and not opened.st_mode & _LISTABLE and others_move:
        return "only you may list it, and others could have put it there"
    return ""


def _way(path: str, me: int) -> tuple[str, set[int]]:
    """Where `path` really leads, and who else than me and root made a link on the way. Raises OSError."""
    at, rest, links = "/", path.split("/")[::-1], 0
    strangers: set[int] = set()
    while rest:
        step = rest.pop()
        if step in {"", "."}:
            continue
        if step == "..":
            at = os.path.dirname(at)
            continue
        status = os.lstat(os.path.join(at, step))
        if not stat.S_ISLNK(status.st_mode):
            at = os.path.join(at, step)
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        strangers |= {status.st_uid} - {0, me}
        target = os.readlink(os.path.join(at, step))
        at = "/" if target.startswith("/") else at
        rest += target.split("/")[::-1]
    return at, strangers
