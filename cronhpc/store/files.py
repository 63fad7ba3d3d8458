"""The few file operations that are safe on cluster file systems: O_EXCL, link and rename; no flock.

A call that fails on NFS may have succeeded all the same (its answer was lost), so creators read back what they wrote.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import TYPE_CHECKING, Any

from cronhpc.core.model import StateError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

_MOST = 64 * 1024**2  # bytes: no file that cronhpc reads whole comes near it
_NO_VERSION = 10_000  # formats that there will never be: such a number says nothing


def sync_folder(folder: Path) -> None:
    """Make a folder's names durable, where the file system lets one ask."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(fd)


def _write_new(path: str, data: bytes, mode: int, *, durable: bool) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        if mode & 0o077:
            os.fchmod(fd, mode)  # what others are to read, they can, whatever the umask
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)  # close may report what write did not: quota, a lost server


def _of(path: Path, error: OSError) -> OSError:
    """The same error, of the file that is meant: nobody knows the temporary one."""
    return OSError(error.errno, error.strerror or str(error), str(path))


def _temporary(path: Path) -> str:
    return f"{path.parent}/.{path.name[:180]}.{os.getpid()}.{os.urandom(4).hex()}.tmp"


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """`path` holds `data` wholly, or what it held before. Raises OSError; leaves no temporary file behind then."""
    temporary = _temporary(path)
    try:
        _write_new(temporary, data, mode, durable=True)
        os.rename(temporary, path)
    except OSError as error:
        _forget(temporary)
        raise _of(path, error) from error
    sync_folder(path.parent)


def create_once(path: Path, data: bytes, *, mode: int = 0o600, whole: bool = False) -> bool:
    """Create `path` with `data` if nothing of that name exists; False: another was first. Raises OSError.

    `whole`: nobody ever sees it half written, and its content is durable (link(2) of a finished temporary file); its
    name is once the folder is synced.
    """
    if whole:
        return _create_linked(path, data, mode)
    try:
        _write_new(str(path), data, mode, durable=False)
    except FileExistsError:
        return _is_mine(path, data)
    except OSError as error:
        if not _is_mine(path, data):  # an empty claim of ours would only delay its slot, but why leave it
            _forget(str(path), only_if_empty=True)
        raise _of(path, error) from error
    return True


def _create_linked(path: Path, data: bytes, mode: int) -> bool:
    temporary = _temporary(path)
    try:
        _write_new(temporary, data, mode, durable=True)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return os.stat(temporary).st_nlink == 2 or _is_mine(path, data)  # noqa: PLR2004 - two names: ours came through
    except OSError as error:
        raise _of(path, error) from error
    else:
        return True
    finally:
        _forget(temporary)


def _is_mine(path: Path, data: bytes) -> bool:
    try:
        return bool(data) and _content(path) == data  # a pipe of that name is not waited for
    except OSError:
        return False


def _forget(path: str, *, only_if_empty: bool = False) -> None:
    try:
        if not only_if_empty or os.lstat(path).st_size == 0:
            os.unlink(path)
    except OSError:
        return  # gone already, or the disk is: nothing depends on it


def _is_temporary(name: str) -> bool:
    """Named by `_temporary`, or the grave of a broken lease."""
    first, pid, word, last = ["", "", "", *name.rsplit(".", 3)][-4:]
    ours = first.startswith(".") and last == "tmp" and pid.isdecimal() and len(word) == 8  # noqa: PLR2004 - four bytes
    return ours or name.startswith("lease.dead.")


def sweep(folder: Path, older_than: float) -> None:
    """Remove what killed writers left, once nobody can still be writing it. Raises OSError."""
    for name in os.listdir(folder):
        if not _is_temporary(name):
            continue
        path = folder / name
        try:
            if path.lstat().st_mtime < older_than:
                path.unlink()
        except FileNotFoundError:
            continue


def read_bytes(path: Path) -> bytes | None:
    """The content; None where there is no such file. A stale handle is opened again once. Raises OSError.

    In a colleague's directory anything may have the name: no pipe is waited for, and no device read until memory ends.
    """
    for last in (False, True):
        try:
            return _content(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            if last or error.errno != errno.ESTALE:
                raise
    return None


def no_file(error: OSError) -> bool:
    """Whether what has the name is a folder, a pipe or a device: nothing of ours, and no trouble that passes."""
    return error.errno in {errno.EISDIR, errno.EINVAL, errno.ELOOP}


def _content(path: Path) -> bytes:
    with open_file(path) as stream:
        if os.fstat(stream.fileno()).st_size > _MOST:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return stream.read(_MOST)


def open_file(path: Path) -> BinaryIO:
    """A regular file, to be read; anything else of that name is refused, and not waited for. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(fd, "rb")
    os.close(fd)
    number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    raise OSError(number, "Is a directory" if number == errno.EISDIR else "Is no regular file", str(path))


def decoded(data: bytes | None) -> Any:
    """What JSON says; None for what is none, or has more brackets in each other than anybody reads."""
    try:
        return json.loads(data) if data else None
    except (ValueError, RecursionError):
        return None


def read_object(path: Path) -> dict[str, Any] | None:
    """A state file of ours, whatever its version; None where it is absent, empty, torn or no object. Raises OSError."""
    value = decoded(read_bytes(path))
    return value if isinstance(value, dict) else None


def read_json(path: Path, version: int) -> dict[str, Any] | None:
    """A state file of ours; None where it is absent, empty or torn. Raises StateError for a newer version, OSError."""
    value = read_object(path)
    if value is None:
        return None
    found = value.get("version", 0)
    if isinstance(found, int) and version < found < _NO_VERSION:
        raise StateError(
            f"{path}: written by a newer cronhpc (format {found}, this one knows {version}). "
            f"Use that version, or {_afresh(path)}."
        )
    return value


def _afresh(path: Path) -> str:
    if path.parent.name == "scheduler":
        return "remove it, and make it anew: cronhpc start"
    return "move the state/ folder away to start afresh"


def write_json(path: Path, value: dict[str, Any], version: int, mode: int = 0o600) -> None:
    """`value` with its format's number, atomically."""
    text = json.dumps({"version": version, **value}, separators=(",", ":"), ensure_ascii=True)
    replace_file(path, text.encode(), mode)
