"""Who else an access control list lets write: POSIX (local disks, Lustre, GPFS, NFSv3) and NFSv4 ones."""

from __future__ import annotations

import errno
import os
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NONE = frozenset({errno.ENODATA, errno.ENOTSUP, errno.ENOSYS})

# POSIX: tags of <linux/posix_acl.h>, behind a version number
_USER, _GROUP_OBJ, _GROUP, _MASK = 0x02, 0x04, 0x08, 0x10
_WRITE = 2

# NFSv4: RFC 7530, section 6.2; XDR. Adding to a folder is the same bit as writing a file.
_ALLOW, _DENY = 0, 1
_IS_GROUP = 0x40
_CHANGES = 0x2 | 0x4 | 0x40 | 0x40000 | 0x80000  # write, append, delete a child, change the list, take ownership


class Writer(NamedTuple):
    """Someone beside the owner who may write."""

    kind: str  # user | group | owning group | everyone
    id: int | None = None  # None: of a name that is not known here
    name: str = ""  # where the list says a name


def writers(path: Path) -> tuple[Writer, ...] | None:
    """Who may write `path` by its access control list; None where it has none. Raises OSError."""
    raw = _read(path, "system.posix_acl_access")
    if raw is not None:
        return tuple(posix(raw))
    raw = _read(path, "system.nfs4_acl")
    return None if raw is None else tuple(nfs4(raw))


def _read(path: Path, name: str) -> bytes | None:
    try:
        return os.getxattr(path, name, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NONE:
            return None
        raise


def posix(raw: bytes) -> Iterator[Writer]:
    """The writers of a POSIX list, its mask applied."""
    rows = list(struct.iter_unpack("<HHI", raw[4:]))
    mask = next((permissions for tag, permissions, _ in rows if tag == _MASK), 7)
    kinds = {_USER: "user", _GROUP: "group", _GROUP_OBJ: "owning group"}
    for tag, permissions, number in rows:
        if tag in kinds and permissions & mask & _WRITE:
            yield Writer(kinds[tag], None if tag == _GROUP_OBJ else number)


def nfs4(raw: bytes) -> Iterator[Writer]:
    """The writers of an NFSv4 list; what an earlier row denies someone, a later one does not give."""
    denied: dict[tuple[str, bool], int] = {}
    for kind, flags, mask, who in _rows(raw):
        whom = (who, bool(flags & _IS_GROUP))
        if kind == _DENY:
            denied[whom] = denied.get(whom, 0) | mask
        elif kind == _ALLOW and mask & _CHANGES & ~denied.get(whom, 0):
            if who == "EVERYONE@":
                yield Writer("everyone")
            elif who == "GROUP@":
                yield Writer("owning group")
            elif who != "OWNER@":
                name = who.partition("@")[0]
                yield Writer("group" if whom[1] else "user", _number(name, group=whom[1]), name)


def _number(name: str, *, group: bool) -> int | None:
    import grp
    import pwd

    try:
        if name.isascii() and name.isdecimal():
            return int(name)
        return grp.getgrnam(name).gr_gid if group else pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _rows(raw: bytes) -> Iterator[tuple[int, int, int, str]]:
    (count,) = struct.unpack_from(">I", raw)
    at = 4
    for _ in range(count):
        kind, flags, mask, length = struct.unpack_from(">IIII", raw, at)
        at += 16
        yield kind, flags, mask, raw[at : at + length].decode("utf-8", "replace")
        at += -(-length // 4) * 4
