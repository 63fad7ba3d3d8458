"""The end of a run's log, for those who may read less than its owner: only what is surely that log is shown.

A teammate may write into a log folder. A link that he leaves there in place of a log would put any file of the owner's
on the page: so nothing is opened through a link, and only the owner's own files with one name are read.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST = 16 << 10  # bytes


def tail_of(root: Path, log: str) -> str | None:
    """The end of `log` ("log/ENTRY/NAME", as history has it, of an array with a `*`); None where there is none to read.

    Bytes that are not UTF-8 are replaced.
    """
    parts = log.split("/")
    if len(parts) != 3 or parts[0] != "log" or {"", ".", ".."} & set(parts):  # noqa: PLR2004 - log, the entry's, the file
        return None
    try:
        with ExitStack() as open_ones:
            fd = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
            open_ones.callback(os.close, fd)
            for name in parts[:2]:
                fd = os.open(name, _FOLDER, dir_fd=fd)
                open_ones.callback(os.close, fd)
            return _read(fd, _newest(fd, parts[2]))
    except OSError:
        return None


def _newest(folder: int, name: str) -> str:
    """Of an array's logs the one written last."""
    if "*" not in name:
        return name
    found = [
        (os.stat(each, dir_fd=folder, follow_symlinks=False).st_mtime_ns, each)
        for each in os.listdir(folder)
        if fnmatch.fnmatchcase(each, name)
    ]
    return max(found)[1] if found else name


def _read(folder: int, name: str) -> str | None:
    fd = os.open(name, _FILE, dir_fd=folder)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink != 1:
            return None
        return os.pread(fd, _MOST, max(status.st_size - _MOST, 0)).decode("utf-8", "replace")
    finally:
        os.close(fd)
