"""Switches on disk: files in kill/ and pause/ (and configured places) whose *names* stop or hold jobs.

Teammates may write there, so whatever lies there is only ever named, never followed, executed or expanded.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from cronhpc.core.model import CronhpcError, Problem, Settings, Switch, Switches, SwitchKind, command
from cronhpc.core.model.decode import iso
from cronhpc.inside.switch_file import LAST, UNSEEN, clean, content, owner, text_of
from cronhpc.script.advice import word
from cronhpc.store.files import MARKER, DiskClock, Paths, passes, retried
from cronhpc.store.trust import group_id, way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_MOST_READ = 500  # files of a folder whose content is looked at; all names count
_PATH = 300  # characters of a path that are shown
_SKEW = 60  # seconds by which clocks of file servers differ harmlessly


class SwitchError(CronhpcError):
    """A switch cannot be set or removed: its name, or the folder's permissions."""


def scan(
    folders: Sequence[tuple[SwitchKind, Path]],
    files: Sequence[tuple[str, Path]],
    now: int,
    root: Path | None = None,
    clock: DiskClock = DiskClock(),  # noqa: B008 - it is a constant
) -> Switches:
    """The switches in `folders` (kind, path) and at `files` (configured name, path).

    Folders are listed each time: a stat on NFS may be a minute old.

    `root`: the cron directory; the way to it is not asked. `clock`: what stamps its files; `now` is of this machine's.
    """
    listing = _Scan(now, root, clock)
    for kind, folder in folders:
        listing.folder(kind, folder)
    for name, path in files:
        listing.file(name, path)
    return Switches(tuple(listing.switches), tuple(listing.unknown), tuple(listing.problems))


def of_directory(paths: Paths, settings: Settings, now: int, clock: DiskClock = DiskClock()) -> Switches:  # noqa: B008 - it is a constant
    """The switches of a cron directory, those of its team's folders and polled files included."""
    folders = [(SwitchKind.KILL, paths.kill), (SwitchKind.PAUSE, paths.pause)]
    folders += [(SwitchKind.KILL, Path(each).expanduser()) for each in settings.kill_also]
    files = [(row.name, Path(row.file).expanduser()) for row in settings.switches if row.file]
    return scan(folders, files, now, paths.root, clock)


class _Scan:
    def __init__(self, now: int, root: Path | None, clock: DiskClock) -> None:
        self.now, self.root, self.clock = now, root, clock
        self.switches: list[Switch] = []
        self.unknown: list[str] = []
        self.problems: list[Problem] = []

    def folder(self, kind: SwitchKind, folder: Path) -> None:
        """What is in it; but dot files, of which NFS leaves some."""

        def look() -> None:
            with entered(folder, self.root) as fd:
                for count, name in enumerate(sorted(name for name in os.listdir(fd) if not name.startswith("."))):
                    self._named(kind, folder, name, fd, read=count < _MOST_READ)

        try:
            retried(look)
        except OSError as error:
            if not (isinstance(error, FileNotFoundError) and os.path.lexists(folder.parent / MARKER)):
                self._unseen(folder, error)

    def file(self, name: str, path: Path) -> None:
        """One that a program polls: it may be there or not.

        By a listing: a stat may be a minute old, of a file that was made as of one that was removed. By a stat only
        where the folder may not be listed.
        """

        def look() -> None:
            try:
                with entered(path.parent, self.root) as fd:
                    if path.name in os.listdir(fd):
                        self._look(SwitchKind.KILL, name, path, fd)
            except PermissionError:
                with entered(path.parent, self.root, listing=False) as fd, contextlib.suppress(FileNotFoundError):
                    os.lstat(path.name, dir_fd=fd)
                    self._look(SwitchKind.KILL, name, path, fd)

        try:
            retried(look)
        except OSError as error:
            self._unseen(path, error)

    def _unseen(self, path: Path, error: OSError) -> None:
        self.unknown.append(str(path))
        why, fix = "cannot be listed", "Mount it or make it readable, or take it out of kill.also."
        if self.root in path.parents:
            fix = f"Make it readable: chmod u+rx {word(path)}"
        if passes(error):
            why = f"cannot be listed ({error.strerror})"
            fix = "The file system is at fault: it is looked at again within a minute; see whether ls answers there."
        if isinstance(error, AstrayError):
            why = f"is not looked into, since {error.strerror}"
            fix = "If it is the team's, name its real place in kill: of cronhpc.yaml; if not, take it out there."
        what = f"{clean(str(path), _PATH)} {why}: nobody knows what it stops, so nothing is submitted."
        self.problems.append(Problem("E320", what, fix))

    def _named(self, kind: SwitchKind, folder: Path, name: str, fd: int, *, read: bool) -> None:
        if _is_backup(name):
            what = f"{clean(name)}: an editor's backup, no switch."
            self.problems.append(Problem("W501", what, "Remove it, or rename it.", f"{kind}/{clean(name)}"))
        else:
            self._look(kind, name, folder / name, fd, read=read)

    def _look(self, kind: SwitchKind, name: str, path: Path, fd: int, *, read: bool = True) -> None:
        try:
            status = os.lstat(path.name, dir_fd=fd)
        except OSError:  # listed, and on NFS not yet to be seen by a stat: its name is what counts
            self.switches.append(Switch(kind, name, str(path), by=UNSEEN, since=self.now))
            return
        since = min(max(self.clock.ours(status, status.st_mtime), 0), LAST)
        where = f"{path.parent.name}/{clean(name)}"
        if since > self.now + _SKEW:
            what = f"dated {iso(since)}, which is in the future."
            self.problems.append(
                Problem("W502", what, "Touch it, or fix the clock of the machine or file server that dated it.", where)
            )
        reason, expires, invalid = content(*(text_of(path.name, status, fd) if read else ("", True)), since)
        if invalid:
            what = f"expires: {invalid!r} is neither a duration nor a time; it stands until it is removed."
            self.problems.append(Problem("W503", what, "Write expires: 2h, or expires: 2026-11-27T18:00.", where))
        self.switches.append(Switch(kind, name, str(path), owner(status.st_uid), since, reason, expires))


def _is_backup(name: str) -> bool:
    return len(name) > 1 and (name.endswith("~") or (name.startswith("#") and name.endswith("#")))


# --- writing -------------------------------------------------------------------------------------------------------


def check_name(name: str) -> None:
    """Raises SwitchError for a name that no switch can have."""
    if not name or name in {".", ".."} or "/" in name or "\0" in name:
        raise SwitchError(f"{name!r} cannot name a switch. Use ALL, an entry, a job id or a job name.")
    if len(os.fsencode(name)) > 255:  # noqa: PLR2004 - NAME_MAX
        raise SwitchError(f"{name[:40]!r}… is too long for a file name. Use the job id.")
    if name.startswith(".") or _is_backup(name):
        raise SwitchError(f"{name!r} would be taken for a hidden file or a backup. Use the job id.")


def set_switch(folder: Path, name: str, reason: str = "", expires: int | None = None, group: str = "") -> bool:
    """Make the switch `name` in `folder`, writable by `group` (else the folder's); False: it stands already.

    `expires` is an instant. `folder` must be one of the cron directory's owner, to which nobody has led the way from
    elsewhere: else the file, which a group may write, would be made in a folder of someone else's choice. Raises
    SwitchError with the fix.
    """
    check_name(name)
    lines = [clean(reason)] if reason else []
    lines += [f"expires: {iso(expires)}"] if expires is not None else []
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        parent = _owners_folder(folder)
        try:
            fd = os.open(name, flags, 0o664, dir_fd=parent)
            gid = group_id(group) if group else os.fstat(parent).st_gid
        finally:
            os.close(parent)
    except FileExistsError:
        return False
    except OSError as error:
        raise _refused(folder, name, error, "set") from None
    try:
        _share(fd, gid)
        os.write(fd, "".join(line + "\n" for line in lines).encode("utf-8", "replace"))
    except OSError as error:  # it is there, and its name is what counts
        raise SwitchError(f"{folder / name} is set, but its reason could not be written: {error.strerror}.") from None
    finally:
        os.close(fd)
    return True


def _owners_folder(folder: Path) -> int:
    """A descriptor of a cron directory's kill/ or pause/, which is its owner's. Raises OSError."""
    root = folder.parent
    try:
        fd = open_folder(folder, root, listing=False)
    except FileNotFoundError:
        if not os.path.lexists(root / MARKER):
            raise
        os.mkdir(folder, 0o755)  # removed by hand: it is made anew as `init` would
        fd = open_folder(folder, root, listing=False)
    owners = {os.stat(root).st_uid}
    with contextlib.suppress(FileNotFoundError):
        owners.add(os.lstat(root / MARKER).st_uid)
    owner_id = os.fstat(fd).st_uid
    if owner_id in owners:
        return fd
    os.close(fd)
    raise AstrayError(
        errno.EXDEV, f"that folder is {owner(owner_id)}'s, not of the cron directory's owner", str(folder)
    )


def _share(fd: int, gid: int | None) -> None:
    """The team may change and remove it, whatever the umask."""
    os.fchmod(fd, 0o664)
    if gid is not None and os.fstat(fd).st_gid != gid:
        with contextlib.suppress(PermissionError):  # not a member: it stands all the same
            os.fchown(fd, -1, gid)


def unset_switch(folder: Path, name: str, root: Path | None = None) -> bool:
    """Remove the switch `name` from `folder`; False: there was none. `root` as for `scan`. Raises SwitchError."""
    check_name(name)
    try:
        with entered(folder, root, listing=False) as fd:
            try:
                os.unlink(name, dir_fd=fd)
            except (IsADirectoryError, PermissionError):
                if not stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode):
                    raise
                os.rmdir(name, dir_fd=fd)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _refused(folder, name, error, "removed") from None
    return True


def _refused(folder: Path, name: str, error: OSError, verb: str) -> SwitchError:
    where = word(folder)
    what = f"{clean(str(folder / name))} cannot be {verb}: {error.strerror}."
    if isinstance(error, PermissionError):
        try:
            status = os.stat(folder)
        except OSError:
            return SwitchError(f"{what} Ask the owner of {where} to let you in.")
        fix = f"Ask {owner(status.st_uid)} for: chgrp GROUP {where} && chmod 2775 {where}"
        return SwitchError(f"{what} {fix}")
    if isinstance(error, AstrayError):
        return SwitchError(f"{what} If that is the team's folder, name its real place in kill: of cronhpc.yaml.")
    if error.errno == errno.ENOTEMPTY:
        return SwitchError(f"{what} It is a folder with files in it. Remove it with: rm -r {word(folder / name)}")
    if isinstance(error, FileNotFoundError):
        return SwitchError(
            f"{what} There is no folder {where}. Is it mounted? In a cron directory, " + command("init") + " makes it."
        )
    return SwitchError(f"{what} Fix the folder {where}, then try again.")


# --- the way to a folder ----------------------------------------------------------------------------------------------
#
# A folder of switches that others may write is opened so that nobody leads elsewhere: into a private folder of mine.
# What lies in it is published: names and reasons stand in status.json. So where another user could have chosen the
# folder (by a link of theirs, or by moving one of mine into its place), it has to be one that they may look into
# themselves.


_LISTABLE, _WRITABLE = 0o044, 0o022  # by the group or by others


class AstrayError(OSError):
    """Another user has led the way there; `strerror` says how."""


def open_folder(folder: Path, root: Path | None = None, *, listing: bool = True) -> int:
    """A descriptor of `folder`; the way is asked from `root` on, where it lies below that.

    Without `listing` one for names in it that are known: the right to list it is not needed. Raises OSError where it
    cannot be opened, AstrayError.
    """
    flags = os.O_RDONLY if listing else getattr(os, "O_PATH", os.O_RDONLY)
    fd = os.open(folder, flags | os.O_DIRECTORY | os.O_CLOEXEC)
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


@contextlib.contextmanager
def entered(folder: Path, root: Path | None = None, *, listing: bool = True) -> Iterator[int]:
    """The same for the length of a `with`."""
    fd = open_folder(folder, root, listing=listing)
    try:
        yield fd
    finally:
        os.close(fd)


def is_where_it_says(folder: Path) -> bool:
    """Whether nobody has led elsewhere what is called `folder`."""
    try:
        with entered(folder, listing=False):
            return True
    except OSError as error:
        return not isinstance(error, AstrayError)  # what cannot be looked at is told elsewhere


def _astray(path: str, opened: os.stat_result) -> str:
    """Why `opened` may be another folder than the one that is meant by `path`; "" where it is that one."""
    me = os.getuid()
    real, strangers = path, set[int]()
    for at, status, _ in way(Path(path)):
        if status is not None and stat.S_ISLNK(status.st_mode):
            strangers |= {status.st_uid} - {0, me}
        else:
            real = str(at)
    real_status = os.lstat(real)
    if (real_status.st_dev, real_status.st_ino) != (opened.st_dev, opened.st_ino):
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
