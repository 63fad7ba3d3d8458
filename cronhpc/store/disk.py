"""What a folder lies on: the file system's kind, its mount and options, and the room left. Nothing is written."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.core.model import Problem
from cronhpc.core.model.site import Disk, Reach
from cronhpc.script.advice import word
from cronhpc.store.logs import space

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cronhpc.store.files import Paths

_SHARED = frozenset(
    {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "afs", "panfs", "orangefs", "pvfs2", "9p"}
    | {"fuse.glusterfs", "fuse.beegfs", "fuse.sshfs", "glusterfs", "virtiofs", "gfs2", "ocfs2", "wekafs", "dvs"}
)
_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_LOCAL = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "overlay", "f2fs", "squashfs", "fuse.fuse-overlayfs"}
    | {"jfs", "reiserfs"}
)
# statfs(2)'s numbers of kinds that a chroot's root may have: no line of its mountinfo tells of that one
_MAGIC = {
    0xEF53: "ext4",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0x2FC12FC1: "zfs",
    0x794C7630: "overlay",
    0x01021994: "tmpfs",
    0x6969: "nfs",
    0x0BD00BD0: "lustre",
    0x47504653: "gpfs",
    0x19830326: "beegfs",
}
_PURGED = re.compile(r"(?:^|[._-])(?:[a-z]?scratch\d*|tmp|temp|nobackup|short|purge)(?:$|[._-])", re.IGNORECASE)
_ALL = os.R_OK | os.W_OK | os.X_OK
_PURGED_VARIABLES = ("SCRATCH", "TMPDIR", "JOBSCRATCH", "LOCALSCRATCH", "CSCRATCH", "PSCRATCH", "VSC_SCRATCH")


def look(path: Path, environ: Mapping[str, str]) -> Disk:
    """Raises OSError."""
    real = Path(os.path.realpath(path))
    while not real.exists() and real != real.parent:
        real = real.parent
    room = space(real)
    kind, mount, options = mount_of(str(real), _mountinfo())
    kind = kind or _by_number(str(real))
    return Disk(
        str(real),
        kind,
        mount,
        options,
        reach(kind),
        room.bytes_free,
        room.bytes,
        room.inodes_free,
        room.inodes,
        purged=purged(str(path), str(real), environ),
    )


def kind_of(path: Path) -> str:
    """The type of the file system that holds `path`; "" unknown."""
    real = os.path.realpath(path)
    return mount_of(real, _mountinfo())[0] or _by_number(real)


def is_local(path: Path) -> bool:
    """Whether this machine alone changes what lies there."""
    return reach(kind_of(path)) in {Reach.LOCAL, Reach.MEMORY}


def _by_number(path: str) -> str:
    import ctypes

    answer = (ctypes.c_long * 64)()  # struct statfs begins with f_type, and is shorter
    try:
        failed = ctypes.CDLL(None).statfs(os.fsencode(path), answer)
    except (OSError, AttributeError):  # another C library
        return ""
    return "" if failed else _MAGIC.get(answer[0] & 0xFFFFFFFF, "")


def handle(path: Path) -> str:
    """What tells a file from one that got its inode later: the file system's own name for it; "-" where it has none.

    Source: name_to_handle_at(2). Local disks and NFS have such names; some FUSE file systems do not.
    """
    import ctypes  # 10 ms: asked once for a directory, and where all of that may be a copy

    room = 128  # bytes: MAX_HANDLE_SZ
    buffer = ctypes.create_string_buffer(room.to_bytes(4, sys.byteorder), 8 + room)
    try:
        ask = ctypes.CDLL(None).name_to_handle_at
    except (OSError, AttributeError):  # another C library
        return "-"
    failed = ask(_HERE, os.fsencode(path), buffer, ctypes.byref(ctypes.c_int()), 0)
    return "-" if failed else buffer.raw[4 : 8 + int.from_bytes(buffer.raw[:4], sys.byteorder)].hex()


_HERE = -100  # AT_FDCWD


def closed(paths: Paths) -> Iterator[Problem]:
    """Folders of the cron directory in which this user, and so a tick, can make nothing.

    What lies in one that cannot be entered is not told besides.
    """
    for folder in (paths.root, paths.state, paths.claims, paths.history, paths.scheduler, paths.log):
        if os.path.isdir(folder) and not os.access(folder, _ALL, effective_ids=True):
            what = f"you cannot write in {folder}: no tick can record what it does there."
            fix = f"chmod u+rwx {word(str(folder))}; or see whether what it lies on is mounted read-only."
            yield Problem("E330", what, fix)


def _mountinfo() -> str:
    try:
        return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def mount_of(path: str, mountinfo: str) -> tuple[str, str, tuple[str, ...]]:
    """Kind, place and options of the mount that holds `path`; of several at one place the last one is on top."""
    mount: tuple[str, str, tuple[str, ...]] = ("", "", ())
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if not dash or len(fields) < 6 or len(rest) < 3:  # noqa: PLR2004 - proc(5): six fields, and three behind the dash
            continue
        place = _unescaped(fields[4])
        inside = path == place or path.startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(mount[1]):
            mount = (rest[0], place, tuple(dict.fromkeys([*fields[5].split(","), *rest[2].split(",")])))
    return mount


def _unescaped(place: str) -> str:
    """Blanks and the like are written as three octal digits there, other letters as they are or byte by byte."""
    raw = place.encode("utf-8", "surrogateescape").decode("latin-1").encode("latin-1").decode("unicode_escape")
    return raw.encode("latin-1").decode("utf-8", "surrogateescape")


def reach(kind: str) -> Reach:
    """Who sees what lies on a file system of that kind: shared | local | memory | unknown."""
    kinds = ((_SHARED, Reach.SHARED), (_IN_MEMORY, Reach.MEMORY), (_LOCAL, Reach.LOCAL))
    return next((reach for names, reach in kinds if kind in names), Reach.UNKNOWN)


def purged(path: str, real: str, environ: Mapping[str, str]) -> str:
    """Why a site may remove what lies at `path`: by a name on the way, or a variable that says so."""
    for name in _PURGED_VARIABLES:
        place = environ.get(name, "").rstrip("/")
        if place and any(f"{each}/".startswith(f"{place}/") for each in (path, real)):
            return f"it lies under ${name}"
    part = next((part for part in Path(path).parts + Path(real).parts if _PURGED.search(part)), "")
    return f"its path has {part!r} in it" if part else ""
