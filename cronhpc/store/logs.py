"""The log folder on disk. Everything goes through descriptors of folders that were opened without following a link.

`unlinkat` follows no link and takes a name out of the very folder that was listed, wherever that has been moved since.
So a link loses at most itself (we leave it), a hard link one of its names, and a folder put in another's place is
refused or holds what is in it. The folders below an entry's are not entered: what a teammate may move into `log/` he
may write to, but not what lies deeper.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import re
import stat
from pathlib import Path

from cronhpc.core.model import LOG_NAME, CronhpcError, LogFile, Problem, Settings, command
from cronhpc.cron.values import dataclass, field
from cronhpc.inside.switch_file import owner
from cronhpc.store.files import MARKER, Paths
from cronhpc.store.trust import trust_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_ERRORS = 20  # files of one folder that cannot be removed, before it is given up
_ROTATED = 2  # older ones kept of the scheduler's own log
_SCARCE = 50  # one part in this many is left: 2 %
_SCARCE_BYTES = 4  # ... and less than so many times `logs.total`: 2 % of a large file system is plenty
_SCARCE_INODES = 100_000
_LEAST_ROOM, _LEAST_FILES = 65536, 16  # bytes, inodes: with less, no tick can write
_LOW_BYTES, _LOW_INODES = 1 << 30, 10_000


class LogsError(CronhpcError):
    """Nothing may be removed here; `problem` says why, and the fix. `absent`: there is nothing."""

    def __init__(self, problem: Problem, *, absent: bool = False) -> None:
        super().__init__(problem.advice)
        self.problem = problem
        self.absent = absent


@dataclass(frozen=True, slots=True)
class Folder:
    """An open folder of logs: `log/` itself (name ""), or an entry's."""

    fd: int
    name: str
    label: str  # as its owner knows it
    owner: int
    any_name: bool = False  # of logs.extra: the pattern in the settings says which files are meant

    def path(self, name: str) -> str:
        """Relative to log/."""
        return f"{self.name}/{name}" if self.name else name


@dataclass(slots=True)
class Listing:
    """What lies in a folder, by kind. Dot files are left out: NFS keeps removed files that are still open as such.

    Of `log/` only what bears the name that cronhpc gives to a run's log, in an entry's folder: anything else is the
    user's, whoever made the folder.
    """

    files: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)

    @property
    def has_logs(self) -> bool:
        """Whether anything in it is named as cronhpc names logs; of a folder of the user's own nothing is said."""
        return any(re.fullmatch(LOG_NAME, name) for name in (*self.files, *self.links, *self.folders))


@dataclass(frozen=True, slots=True)
class Removal:
    """How many files went, and what the disk refused."""

    count: int
    errors: tuple[OSError, ...] = ()


@contextlib.contextmanager
def opened(paths: Paths, settings: Settings) -> Iterator[Folder]:
    """`log/` of a cron directory. Raises LogsError where there is none, or where others could put another there."""
    with _folder(None, str(paths.root), str(paths.root), links=True) as root:
        _must_be_cron_directory(root, paths, settings)
        with _folder(root, "log", paths.relative(paths.log)) as fd:
            status = os.fstat(fd)
            if os.geteuid() not in (status.st_uid, 0):
                what = f"log/ belongs to {owner(status.st_uid)}, and so do the logs in it."
                raise LogsError(Problem("E610", what, f"{owner(status.st_uid)} can run: " + command("clean"), "log"))
            yield Folder(fd, "", "log", status.st_uid)


def _must_be_cron_directory(root: int, paths: Paths, settings: Settings) -> None:
    try:
        os.stat(MARKER, dir_fd=root, follow_symlinks=False)
    except OSError as error:
        what = f"{paths.root} has no {MARKER} ({error.strerror}): it is no cron directory, so nothing was removed."
        make = "Make it one with: " + command("init", directory=str(paths.root))
        raise LogsError(Problem("E611", what, make)) from None
    problem = trust_of(paths, settings, os.fstat(root).st_uid).folder_refusal(paths.root)
    if problem is not None:
        what = f"{problem.what} Any folder could be put in log/'s place, so nothing was removed."
        raise LogsError(Problem("E612", what, problem.fix, problem.file))


@contextlib.contextmanager
def _folder(parent: int | None, name: str, label: str, *, links: bool = False) -> Iterator[int]:
    """A descriptor of the folder `name`. Raises LogsError."""
    try:
        fd = os.open(name, _FOLDER & ~os.O_NOFOLLOW if links else _FOLDER, dir_fd=parent)
    except OSError as error:
        absent = parent is not None and error.errno == errno.ENOENT  # else: not mounted, perhaps
        raise LogsError(_not_opened(label, error), absent=absent) from None
    try:
        yield fd
    finally:
        os.close(fd)


def _not_opened(label: str, error: OSError) -> Problem:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        what = f"{label} is a link, or no folder: nothing is removed through it."
        return Problem("E613", what, "Put a real folder there; others can be named under logs.extra.", label)
    what = f"{label} cannot be opened: {error.strerror}. Nothing in it was removed."
    fix = "Mount it, or make it." if error.errno == errno.ENOENT else "Make it readable and writable to you."
    return Problem("E614", what, fix, label)


@dataclass(frozen=True, slots=True)
class Space:
    """What a file system has and has left; `inodes` 0: it does not count them."""

    bytes_free: int
    bytes: int
    inodes_free: int
    inodes: int


def space(folder: int | Path) -> Space:
    """Of the folder's file system, as far as it is for users. Raises OSError."""
    status = os.statvfs(folder)
    return Space(status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize, status.f_favail, status.f_files)


def full(space: Space) -> bool:
    return space.bytes_free < _LEAST_ROOM or (space.inodes_free < _LEAST_FILES and space.inodes > 0)


def low(space: Space) -> tuple[bool, bool]:
    """Whether a person should make room: of its bytes, of its inodes."""
    few_bytes = space.bytes_free < _LOW_BYTES or space.bytes_free * _SCARCE < space.bytes
    return few_bytes, space.inodes > 0 and space.inodes_free < max(_LOW_INODES, space.inodes / _SCARCE)


def scarce(space: Space, total: int) -> str:
    """What is nearly used up, in words; "" where nothing is. `total`: the most bytes of logs."""
    shortages = []
    if space.bytes_free * _SCARCE < space.bytes and space.bytes_free < max(_SCARCE_BYTES * total, 1):
        shortages.append(f"{space.bytes_free * 100 / space.bytes:.1f} % of its bytes")
    if space.inodes_free * _SCARCE < space.inodes and space.inodes_free < _SCARCE_INODES:
        shortages.append(f"{space.inodes_free * 100 / space.inodes:.1f} % of its inodes")
    return f"the file system has {' and '.join(shortages)} left" if shortages else ""


def last_change(folder: Folder, name: str = "") -> int:
    """When a name came into the folder, or into the one called `name` in it, or left it: ns of the server's clock.

    0 where that cannot be told.
    """
    try:
        status = os.stat(name, dir_fd=folder.fd, follow_symlinks=False) if name else os.fstat(folder.fd)
    except OSError:
        return 0
    return status.st_mtime_ns


def changed(paths: Paths, since: int, most: int) -> bool:
    """Whether a name came into log/ or one of its folders after `since` (ns); not looked into beyond `most` folders."""
    try:
        if os.stat(paths.log).st_mtime_ns > since:
            return True
        with os.scandir(paths.log) as rows:
            folders = [row for row in rows if row.is_dir(follow_symlinks=False)]
        return len(folders) <= most and any(row.stat(follow_symlinks=False).st_mtime_ns > since for row in folders)
    except OSError:
        return False


@contextlib.contextmanager
def entered(log: Folder, name: str) -> Iterator[Folder]:
    """An entry's folder. Raises LogsError for a link, another user's folder, another file system."""
    label = f"log/{name}"
    with _folder(log.fd, name, label) as fd:
        status = os.fstat(fd)
        if status.st_uid != log.owner:
            what = f"{label} belongs to {owner(status.st_uid)}: what is in it was left."
            raise LogsError(Problem("W611", what, "Remove it, or move it elsewhere.", label))
        if status.st_dev != os.fstat(log.fd).st_dev:
            what = f"{label} is another file system: what is in it was left."
            raise LogsError(Problem("W612", what, "Name it under logs.extra to clean it.", label))
        yield Folder(fd, name, label, log.owner)


def listing(folder: Folder) -> Listing:
    """What lies in it. Raises LogsError: a folder that cannot be listed to its end is unknown."""
    content = Listing()
    files, is_log, any_name = content.files, re.compile(LOG_NAME).fullmatch, folder.any_name
    try:
        with os.scandir(folder.fd) as rows:
            for row in rows:
                name = row.name
                if name.startswith("."):
                    continue
                if row.is_file(follow_symlinks=False):
                    if any_name or (folder.name and is_log(name)):
                        files.append(name)
                elif row.is_symlink():
                    content.links.append(name)
                elif row.is_dir(follow_symlinks=False):
                    content.folders.append(name)
    except OSError as error:
        raise LogsError(_not_opened(folder.label, error)) from None
    return content


def measured(folder: Folder, names: Sequence[str]) -> list[LogFile]:
    """Size and last change of `names`; what is gone or no regular file meanwhile is left out."""
    logs = []
    for name, status in _statuses(folder, names):
        if stat.S_ISREG(status.st_mode):
            own = status.st_uid == folder.owner and status.st_nlink == 1
            logs.append(LogFile(folder.path(name), status.st_size if own else 0, int(status.st_mtime), own))
    return logs


def size_of(folder: Folder, names: Sequence[str]) -> int:
    """Bytes that the owner's files of these `names` take; those with a second name elsewhere take none."""
    mine = folder.owner
    return sum(each.st_size for _, each in _statuses(folder, names) if each.st_nlink == 1 and each.st_uid == mine)


def written_by(folder: Folder, names: Iterable[str], live: frozenset[tuple[int, int]], first_began: float) -> set[str]:
    """Those of `names` that live jobs may write: among `live` (device, inode), or last written since one began.

    The latter in the user's own folders alone: in log/ a file bears the number of its job.
    """
    return {
        name
        for name, status in _statuses(folder, names if live or folder.any_name else ())
        if (status.st_dev, status.st_ino) in live or (folder.any_name and status.st_mtime >= first_began)
    }


def _statuses(folder: Folder, names: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Of those `names` that are there, links themselves; there may be a hundred thousand."""
    fstatat, fd = os.stat, folder.fd
    for name in names:
        try:
            status = fstatat(name, dir_fd=fd, follow_symlinks=False)
        except OSError:
            continue
        yield name, status


def files_at(patterns: Iterable[str]) -> frozenset[tuple[int, int]]:
    """Device and inode of each file that one of the absolute glob `patterns` names, by whatever name it is met."""
    import glob

    identities = set()
    for pattern in patterns:
        for path in glob.iglob(pattern):
            with contextlib.suppress(OSError):
                status = os.stat(path)
                identities.add((status.st_dev, status.st_ino))
    return frozenset(identities)


def removed(folder: Folder, names: Sequence[str]) -> Removal:
    """Take `names` out of the folder. One that is gone already is not counted."""
    count = 0
    errors: list[OSError] = []
    unlink, fd = os.unlink, folder.fd
    for name in names:
        try:
            unlink(name, dir_fd=fd)
        except FileNotFoundError:
            continue
        except OSError as error:
            errors.append(error)
            if len(errors) >= _MOST_ERRORS or error.errno == errno.EROFS:
                break
        else:
            count += 1
    return Removal(count, tuple(errors))


def unchanged(folder: Folder, files: Sequence[LogFile]) -> list[str]:
    """Names of those `files` that are still as they were looked at: one written to since is not old any more."""
    again = {file.path: file for file in measured(folder, [file.name for file in files])}
    return [file.name for file in files if again.get(file.path) == file]


# --- other folders, as the settings name them ----------------------------------------------------------------------


@contextlib.contextmanager
def outside(path: str, paths: Paths, settings: Settings) -> Iterator[Folder]:
    """A folder of `logs.extra`. Raises LogsError unless it is the user's, and nobody else may change the way to it."""
    folder = Path(os.path.expanduser(path))
    me = os.geteuid()
    if not folder.is_absolute() or _is_room(folder, paths):
        what = f"logs.extra: {path} is the home folder, /, or the cron directory's own."
        raise LogsError(Problem("E615", what, "Name a folder that holds nothing but logs.", MARKER, 0, "logs.extra"))
    with _folder(None, str(folder), str(folder)) as fd:
        status = os.fstat(fd)
        if status.st_uid != me:
            what = f"logs.extra: {path} belongs to {owner(status.st_uid)}."
            raise LogsError(Problem("E617", what, "Name folders of your own.", MARKER, 0, "logs.extra"))
        problem = trust_of(paths, settings, me).way_refusal(folder)
        if problem is not None:
            raise LogsError(Problem("E616", f"logs.extra: {problem.what}", problem.fix, MARKER, 0, "logs.extra"))
        yield Folder(fd, "", str(folder), me, any_name=True)


def _is_room(folder: Path, paths: Paths) -> bool:
    real = os.path.realpath(folder)
    root = os.path.realpath(paths.root)
    return real in {"/", os.path.realpath(os.path.expanduser("~"))} or f"{real}/".startswith(f"{root}/")


# --- the scheduler's own log ---------------------------------------------------------------------------------------


def rotate(paths: Paths, most: int = 10 << 20) -> bool:
    """Rename scheduler.log to .1 (and .1 to .2) once it has more than `most` bytes; whether it did.

    Links have it open to append: they go on writing to the renamed file, and nothing is lost. Raises OSError.
    """
    try:
        fd = os.open(paths.scheduler, _FOLDER)
    except FileNotFoundError:
        return False
    try:
        name = "scheduler.log"
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or status.st_size <= most:
            return False
        for number in range(_ROTATED, 0, -1):
            older = f"{name}.{number - 1}" if number > 1 else name
            with contextlib.suppress(FileNotFoundError):
                os.rename(older, f"{name}.{number}", src_dir_fd=fd, dst_dir_fd=fd)
    except FileNotFoundError:  # none yet, or another tick was first
        return False
    finally:
        os.close(fd)
    return True


# --- the end of a log -------------------------------------------------------------------------------------------------
#
# For those who may read less than its owner (the page, alerts): only what is surely that log is shown. A teammate may
# write into a log folder. A link that he leaves there in place of a log would show any file of the owner's: so nothing
# is opened through a link, and only the owner's own files with one name are read.


_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_END = 16 << 10  # bytes


def tail_of(root: Path, log: str) -> str | None:
    """The end of `log` ("log/ENTRY/NAME", as history has it, of an array with a `*`); None where there is none to read.

    Bytes that are not UTF-8 are replaced.
    """
    parts = log.split("/")
    if len(parts) != 3 or parts[0] != "log" or {"", ".", ".."} & set(parts):  # noqa: PLR2004 - log, the entry's, the file
        return None
    try:
        with (
            _folder(None, str(root), "", links=True) as top,
            _folder(top, "log", "") as logs,
            _folder(logs, parts[1], "") as folder,
        ):
            return _end_of(folder, _newest_of(folder, parts[2]))
    except (OSError, LogsError):
        return None


def _newest_of(folder: int, name: str) -> str:
    """Of an array's logs the one written last."""
    if "*" not in name:
        return name
    written = [
        (os.stat(each, dir_fd=folder, follow_symlinks=False).st_mtime_ns, each)
        for each in os.listdir(folder)
        if fnmatch.fnmatchcase(each, name)
    ]
    return max(written)[1] if written else name


def _end_of(folder: int, name: str) -> str | None:
    fd = os.open(name, _FILE, dir_fd=folder)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink != 1:
            return None
        return os.pread(fd, _END, max(status.st_size - _END, 0)).decode("utf-8", "replace")
    finally:
        os.close(fd)
