"""Where things are in a cron directory, and the few operations that are safe on cluster file systems: no flock.

A call that fails on NFS may have been done all the same (its reply was lost), so each write is judged by what lies
there afterwards; and an error that passes (a server that starts anew, a stale handle) is tried again a few times.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from enum import StrEnum
from itertools import islice
from pathlib import Path

from cronhpc.core.model import CronhpcError, StateError, command
from cronhpc.cron.values import dataclass
from cronhpc.script.advice import word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, BinaryIO, TypeVar

    _Value = TypeVar("_Value")

_CHUNK = 64 * 1024  # bytes that are read at once, of a small file
_MOST = 64 * 1024**2  # bytes: no file that cronhpc reads whole comes near it
_NO_VERSION = 10_000  # formats that there will never be: such a number says nothing

# --- errors that pass ----------------------------------------------------------------------------------------------

_PASSING = frozenset(
    {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EINTR, errno.EAGAIN, errno.EREMOTEIO, errno.ENOTCONN}
    | {errno.ECONNRESET, errno.ECONNABORTED, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH}
)
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_PAUSES = (0.05, 0.15, 0.3, 0.5)  # seconds between tries
_AGREE = 2.0  # seconds by which two clocks may differ: one of them may tell whole seconds only
_GIVEN_UP = 60.0  # seconds: a disk for which all pauses were in vain is not waited for again sooner

wait: Callable[[float], None] = time.sleep  # what a test replaces
_given_up_at = -_GIVEN_UP  # by time.monotonic


def passes(error: OSError) -> bool:
    """Whether the same call may well go through in a moment."""
    return error.errno in _PASSING


def retried(work: Callable[[], _Value]) -> _Value:
    """What `work` gives, tried again after short waits while its error is one that passes. Raises OSError.

    `work` must be harmless to repeat, also where it was done and failed all the same.
    """
    global _given_up_at  # noqa: PLW0603 - of the process: a hundred files of a dead disk must not each be waited for
    for pause in _PAUSES if time.monotonic() - _given_up_at > _GIVEN_UP else ():
        try:
            return work()
        except OSError as error:
            if not passes(error):
                raise
        wait(pause)
    try:
        return work()
    except OSError as error:
        if passes(error):
            _given_up_at = time.monotonic()
        raise


# --- writing -------------------------------------------------------------------------------------------------------


def sync_folder(folder: Path) -> None:
    """Make a folder's names durable, where the file system lets one ask. Raises OSError."""
    retried(lambda: _sync(folder))


def _sync(folder: Path) -> None:
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


def _lost_reply(path: Path) -> OSError:
    return OSError(errno.EIO, "the file system did something and said that it failed", str(path))


def beside(path: Path) -> Path:
    """A name beside `path` that nobody else has; `sweep` removes what a killed tick leaves of it."""
    return Path(_temporary(path))


def _temporary(path: Path) -> str:
    return f"{path.parent}/.{path.name[:180]}.{os.getpid()}.{os.urandom(4).hex()}.tmp"


def _written(path: Path, data: bytes, mode: int, *, durable: bool = True) -> str:
    """A temporary file beside `path` that holds `data`. Raises OSError, and leaves none behind then."""
    temporary = _temporary(path)
    try:
        _write_new(temporary, data, mode, durable=durable)
    except OSError as error:
        _forget(temporary)
        if isinstance(error, FileExistsError):  # nobody else has its name
            raise _lost_reply(path) from error
        raise _of(path, error) from error
    return temporary


def replace_file(path: Path, data: bytes, mode: int = 0o600, *, durable: bool = True) -> None:
    """`path` holds `data` wholly, or what it held before. Raises OSError; leaves no temporary file behind then.

    Not `durable`: which of both it holds after a crash is open until the caller has synced the folder.
    """
    retried(lambda: _replace(path, data, mode))
    if durable:
        sync_folder(path.parent)


def write_out(path: Path, data: bytes, mode: int) -> None:
    """As `replace_file`, for a path that a person names: a device, a pipe or a socket is written to, not replaced."""
    try:
        plain = stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        plain = True
    if plain:
        replace_file(path, data, mode)
    else:
        path.write_bytes(data)


def _replace(path: Path, data: bytes, mode: int) -> None:
    temporary = _written(path, data, mode)
    try:
        os.rename(temporary, path)
    except OSError as error:
        if not _was_moved(temporary, path, data):
            _forget(temporary)
            lost = isinstance(error, FileNotFoundError) and path.parent.is_dir()
            raise (_lost_reply(path) if lost else _of(path, error)) from error


def _was_moved(temporary: str, path: Path, data: bytes) -> bool:
    try:
        return os.path.basename(temporary) not in os.listdir(path.parent) and _holds(path, data)
    except OSError:
        return False


def create_once(path: Path, data: bytes, *, mode: int = 0o600, durable: bool = True) -> bool:
    """Create `path` with `data` if nothing of that name exists; False: another was first. Raises OSError.

    By link(2) of a finished file, so nobody ever sees it half written. Its content is durable unless that is not asked
    for; its name is once the folder is synced. `data` should be nobody else's: it tells whose file it is where a reply
    was lost.
    """
    return retried(lambda: _create(path, data, mode, durable=durable))


def _create(path: Path, data: bytes, mode: int, *, durable: bool) -> bool:
    temporary = _written(path, data, mode, durable=durable)
    try:
        os.link(temporary, path)
    except OSError as error:
        if _has_two_names(temporary) or _holds(path, data):
            return True
        if isinstance(error, FileExistsError):
            return False
        if error.errno in _NO_LINKS:
            lack = "this file system knows no hard links, which cronhpc needs"
            raise OSError(errno.EOPNOTSUPP, lack, str(path)) from error
        raise _of(path, error) from error
    finally:
        _forget(temporary)
    return True


def move(before: Path, after: Path, *, over: bool = True) -> bool:
    """Give `before` the name `after`, which another may do as well; False: neither is there. Raises OSError.

    Not `over` another file of that name, which keeps it: False, too.
    """
    try:
        retried(lambda: (os.rename if over else os.link)(before, after))
    except OSError as error:
        if is_listed(after):
            if not is_listed(before):
                return True
            if not over and isinstance(error, FileExistsError):
                if read_bytes(before) != read_bytes(after):
                    return False
                remove(before)  # the reply was lost, or another has come so far
                return True
        if isinstance(error, FileNotFoundError) and before.parent.is_dir():
            return False
        raise
    if not over:
        remove(before)
    return True


def must_take_links(folder: Path) -> None:
    """Raises OSError where `folder` lies on a file system without hard links; leaves nothing behind."""
    name = beside(folder / "link")
    try:
        create_once(name, b"tried")
        remove(name)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            raise _of(folder, error) from error  # other troubles are told of the files that they are met at


def make_folder(path: Path) -> None:
    """Make the folder `path`, and those it lies in, where they are missing. Raises OSError."""
    retried(lambda: path.mkdir(mode=0o700, parents=True, exist_ok=True))


def remove(path: Path) -> None:
    """Remove `path` if it is there. Raises OSError."""
    retried(lambda: path.unlink(missing_ok=True))


def is_listed(path: Path) -> bool:
    """Whether `path` is there, a link to nothing included, by its folder's listing: a stat may be a minute old.

    By a stat only where the folder may not be listed. Raises OSError where it cannot be; where it is not there, neither
    is `path`.
    """
    try:
        return path.name in retried(lambda: os.listdir(path.parent))
    except FileNotFoundError:
        return False
    except PermissionError:
        return os.path.lexists(path)


def _has_two_names(temporary: str) -> bool:
    try:
        return os.stat(temporary).st_nlink == 2  # noqa: PLR2004 - the link came through
    except OSError:
        return False


def _holds(path: Path, data: bytes) -> bool:
    """Raises OSError where it may be told in a moment."""
    try:
        return bool(data) and _content(path) == data  # a pipe of that name is not waited for
    except OSError as error:
        if passes(error):
            raise
        return False


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return  # gone already, or the disk is: `sweep` removes it


def _is_temporary(name: str) -> bool:
    """Named by `_temporary`, or the grave of a broken lease."""
    first, pid, word, last = ["", "", "", *name.rsplit(".", 3)][-4:]
    ours = first.startswith(".") and last == "tmp" and pid.isdecimal() and len(word) == 8  # noqa: PLR2004 - four bytes
    return ours or name.startswith("lease.dead.")


def umask() -> int:
    """This process's: what it takes away from the modes of new files."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


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


# --- the clock that stamps files -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DiskClock:
    """The clock by which files of one file system are stamped: a file server's is seldom this machine's."""

    ahead: int = 0  # seconds before this machine's; 0 where they agree to a second or two
    device: int | None = None  # whose files it stamps

    def ours(self, status: os.stat_result, stamp: float) -> int:
        """A time of a file, by this machine's clock."""
        return int(stamp) - (self.ahead if status.st_dev == self.device else 0)


def disk_clock(folder: Path) -> DiskClock:
    """By a file just made in `folder`. Raises OSError."""
    before = time.time()  # noqa: TID251 - two clocks are compared, and nothing is decided by this one
    status = _stamped(folder)
    after = time.time()  # noqa: TID251 - as above
    ahead = status.st_mtime - (before if status.st_mtime < before else min(after, status.st_mtime))
    return DiskClock(int(ahead) if abs(ahead) > _AGREE else 0, status.st_dev)


def clock_of(folder: Path) -> int:
    """What time it is by the clock of the folder's file system: epoch seconds, of a file just made. Raises OSError."""
    return int(_stamped(folder).st_mtime)


def _stamped(folder: Path) -> os.stat_result:
    """Of a file just made in `folder`. Nothing is written to it: of that a client would tell the time by itself."""
    path = _temporary(folder / "clock")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)
        _forget(path)


# --- reading -------------------------------------------------------------------------------------------------------


def shipped(name: str) -> str:
    """A text of deploy/ or docs/, which lie in the package where that is installed. Raises FileNotFoundError."""
    package = Path(__file__).resolve().parent.parent
    for path in (package / f"_{name}", package.parent / name):
        data = read_bytes(path)
        if data is not None:
            return data.decode("utf-8")
    raise FileNotFoundError(f"{name} is missing from this installation: install cronhpc again")


def read_bytes(path: Path) -> bytes | None:
    """The content; None where there is no such file. Raises OSError.

    In a colleague's directory anything may have the name: no pipe is waited for, and no device read until memory ends.
    """
    try:
        return retried(lambda: _content(path))
    except FileNotFoundError:
        return None


def read_listed(path: Path) -> bytes | None:
    """The same where None must be sure: raises ESTALE, which passes, where the folder lists what cannot be opened.

    A machine that has looked for a file before another made it may be told for a minute that there is none.
    """

    def look() -> bytes | None:
        data = read_bytes(path)
        if data is None and _is_unseen(path):
            raise OSError(errno.ESTALE, "another machine has made it, and it cannot be opened here yet", str(path))
        return data

    return retried(look)


def read_lasting(path: Path) -> bytes | None:
    """The same of a file that is replaced and never removed: the server is asked by a call that would make it."""
    data = read_bytes(path)
    if data is None and _is_unseen(path) and path.parent.stat().st_uid == os.geteuid():  # nothing is made in another's
        return retried(lambda: _content(path, os.O_CREAT | os.O_NOFOLLOW))
    return data


def _is_unseen(path: Path) -> bool:
    """Whether `path`, which could not be opened, is there all the same."""
    return is_listed(path) and not path.is_symlink()


def no_file(error: OSError) -> bool:
    """Whether what has the name is a folder, a pipe or a device: nothing of ours, and no trouble that passes."""
    return error.errno in {errno.EISDIR, errno.EINVAL, errno.ELOOP}


def _content(path: Path, more_flags: int = 0) -> bytes:
    fd, size = _opened(path, more_flags)
    try:
        if size > _MOST:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        parts = iter(lambda: os.read(fd, max(size, _CHUNK)), b"")
        return b"".join(islice(parts, _MOST // _CHUNK))  # of a device's file, which says that it is empty, no more
    finally:
        os.close(fd)


def open_file(path: Path) -> BinaryIO:
    """A regular file, to be read; anything else of that name is refused, and not waited for. Raises OSError."""
    return os.fdopen(_opened(path)[0], "rb")


def _opened(path: Path, more_flags: int = 0) -> tuple[int, int]:
    """A regular file's descriptor, and how many bytes it has. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | more_flags, 0o600)
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode):
        return fd, status.st_size
    os.close(fd)
    number = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
    raise OSError(number, "Is a directory" if number == errno.EISDIR else "Is no regular file", str(path))


def decoded(data: bytes | None) -> Any:
    """What JSON says; None for what is none, or has more brackets in each other than anybody reads."""
    try:
        return json.loads(data) if data else None
    except (ValueError, RecursionError):
        return None


def read_json(path: Path, version: int = _NO_VERSION) -> dict[str, Any] | None:
    """A state file of ours, of any version up to `version`; None where it is absent, empty, corrupt or no object.

    Raises StateError for a newer one, OSError.
    """
    return of_version(read_lasting(path), path, version)


def of_version(data: bytes | None, path: Path, version: int) -> dict[str, Any] | None:
    """The same of what was read from `path`. Raises StateError for a newer version."""
    value = decoded(data)
    if not isinstance(value, dict):
        return None
    file_version = value.get("version", 0)
    if isinstance(file_version, int) and version < file_version < _NO_VERSION:
        raise StateError(
            f"{path}: written by a newer cronhpc (format {file_version}, this one knows {version}). "
            f"Use that version, or " + _afresh(path) + "."
        )
    return value


def _afresh(path: Path) -> str:
    if path.parent.name == "scheduler":
        return "remove it, and make it anew: " + command("start")
    return "move the state/ folder away to start afresh"


def write_json(path: Path, value: dict[str, Any], version: int, mode: int = 0o600) -> None:
    """`value` with its format's number, atomically."""
    text = json.dumps({"version": version, **value}, separators=(",", ":"), ensure_ascii=True)
    replace_file(path, text.encode(), mode)


# --- where things are in a cron directory, and which folder is one ---------------------------------------------------

MARKER = "cronhpc.yaml"


class DirectoryError(CronhpcError):
    """There is no usable cron directory where one was expected."""


class Paths:
    """The rooms of the cron directory at `root` (absolute)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings = root / MARKER  # also the marker
        self.status = root / "status.json"  # heartbeat and health, readable by all who may enter
        self.kill = root / "kill"  # switches that stop
        self.pause = root / "pause"  # switches that hold
        self.log = root / "log"  # what runs print, one folder an entry
        self.scheduler = root / "scheduler"  # the link's text and log
        self.script = self.scheduler / "scheduler.slurm"  # the generated link
        self.state = root / "state"  # the owner's alone
        self.claims = self.state / "claims"  # one file an attempt
        self.entries = self.state / "entries.json"  # what is kept of entries between ticks
        self.history = self.state / "history"  # what happened

    @property
    def is_mine(self) -> bool:
        """Whether this user is the one whose scheduler works here; another sees its status.json only."""
        for path in (self.state, self.root):
            try:
                return path.lstat().st_uid == os.getuid()
            except FileNotFoundError:
                continue
        return False

    def relative(self, path: Path) -> str:
        """`path` as its owner knows it: relative to the cron directory where it lies in it."""
        return str(path.relative_to(self.root) if path.is_relative_to(self.root) else path)


def must_be_plain(root: Path) -> None:
    """Slurm takes backslashes out of `--output`, and no script holds a path with a line end. Raises DirectoryError."""
    if any(each in str(root) for each in "\\\n\r"):
        raise DirectoryError(
            f"{str(root)!r} has a backslash or a line end in it: the scheduler's jobs could never start there. "
            "Choose another place, or rename the folder."
        )


class NamedBy(StrEnum):
    """What named a cron directory."""

    OPTION = "--dir"
    VARIABLE = "$CRONHPC_DIR"
    WORK = "$WORK"
    HOME = "~"

    @property
    def is_chosen(self) -> bool:
        """Whether its user has named that very folder."""
        return self in {NamedBy.OPTION, NamedBy.VARIABLE}


def wanted(option: str | None, environment: Mapping[str, str]) -> tuple[Path, NamedBy]:
    """The cron directory meant, absolute, and what named it. Raises DirectoryError for a $WORK that is not there.

    An unset or unmounted $WORK must never let anything run from another folder (a self-submitting script once became
    23 jobs in 30 s that way), so a named place that is missing is an error and not a reason to look elsewhere.
    """
    if option:
        return _absolute(option), NamedBy.OPTION
    if option is not None:  # --dir "$UNSET"
        raise DirectoryError("--dir is empty. Name your cron directory, or leave the option out.")
    if "CRONHPC_DIR" in environment:
        if not environment["CRONHPC_DIR"]:
            raise DirectoryError("$CRONHPC_DIR is set but empty. Set it to your cron directory, or unset it.")
        return _absolute(environment["CRONHPC_DIR"]), NamedBy.VARIABLE
    if "WORK" in environment:
        work = environment["WORK"]
        if not work or not Path(work).is_dir():
            raise DirectoryError(
                f"$WORK is {work!r}, which is no folder here (not mounted?). Nothing was done. "
                "Set WORK, or name the cron directory with --dir or CRONHPC_DIR."
            )
        return _absolute(work) / "cron", NamedBy.WORK
    home = environment.get("HOME") or os.path.expanduser("~")
    return _absolute(home) / "cron", NamedBy.HOME


def _absolute(text: str) -> Path:
    return Path(os.path.abspath(os.path.expanduser(text)))


def own_folder(environment: Mapping[str, str]) -> Path:
    """Where series are kept that were started without a cron directory: `$XDG_STATE_HOME/cronhpc`, by the XDG rules."""
    state = environment.get("XDG_STATE_HOME", "")
    home = environment.get("HOME") or os.path.expanduser("~")
    return Path(state if state.startswith("/") else f"{home}/.local/state", "cronhpc")


def of_series(option: str | None, environment: Mapping[str, str]) -> Path | None:
    """The folder of one's own where no cron directory is named nor there, and series are; else None.

    Raises DirectoryError.
    """
    root, named_by = wanted(option, environment)
    if named_by.is_chosen or os.path.lexists(root / MARKER):
        return None
    own = own_folder(environment)
    return own if os.path.lexists(own / MARKER) else None


def existing(option: str | None, environment: Mapping[str, str]) -> Paths:
    """The cron directory, which must be one (it holds the marker). Raises DirectoryError."""
    root, named_by = wanted(option, environment)
    try:
        os.lstat(root / MARKER)
    except FileNotFoundError:
        where, make = f"{root} (from {named_by})", command("init")
        if not root.is_dir():
            raise DirectoryError(
                f"There is no folder {where}: not mounted, or not made yet. Nothing was done. Make it with: " + make
            ) from None
        raise DirectoryError(
            f"{where} is no cron directory: it has no {MARKER}. Nothing was done. Make it one with: " + make
        ) from None
    except OSError as error:
        raise DirectoryError(f"{root / MARKER} cannot be read: {error.strerror}. Nothing was done.") from None
    return Paths(root)


# --- the place where its id was made ----------------------------------------------------------------------------------
#
# A copy has the same id, and would take its jobs for its own.


def remember_place(paths: Paths) -> None:
    """It is at home here. Raises OSError."""
    here = os.fsencode(paths.root) + b"\n"
    if read_bytes(paths.state / "place") != here:
        replace_file(paths.state / "place", here)


def moved_from(paths: Paths) -> str:
    """The folder that it was in, if it has been elsewhere; "" where it was not, or nobody knows."""
    try:
        data = read_bytes(paths.state / "place") or b""
    except OSError:
        return ""
    place = os.fsdecode(data[:-1]) if data.endswith(b"\n") and data.startswith(b"/") else ""
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
    return f"For one of its own: rm {' '.join(map(word, ids))} && " + command("init", directory=str(paths.root))


def _same(paths: Paths, place: str) -> bool:
    """Whether both names lead to one folder, also through two mounts, whose device numbers differ."""
    try:
        here, there = (os.stat(f"{root}/state/id") for root in (paths.root, place))
    except OSError:
        return False
    return (here.st_ino, here.st_ctime_ns) == (there.st_ino, there.st_ctime_ns)
