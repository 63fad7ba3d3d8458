"""Switches on disk: files in kill/ and pause/ (and configured places) whose *names* stop or hold jobs.

Teammates may write there, so whatever lies there is only ever named, never followed, executed or expanded.
"""

from __future__ import annotations

import errno
import os
import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from cronhpc.core.model import CronhpcError, Problem, Switch
from cronhpc.inside.switch_file import LAST, clean, content, owner, text_of
from cronhpc.store.paths import MARKER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_MOST_READ = 500  # files of a folder whose content is looked at; all names count
_SKEW = 60  # seconds by which clocks of file servers differ harmlessly


class SwitchError(CronhpcError):
    """A switch cannot be set or removed: its name, or the folder's permissions."""


class Listing(NamedTuple):
    """What lies in the switch folders. Expired switches are among them: whoever acts compares `expires` with now."""

    switches: tuple[Switch, ...]
    unknown: tuple[str, ...]  # folders (or files) that could not be looked at: not the same as empty
    problems: tuple[Problem, ...]  # files that are no switches, dates that cannot be


def list_switches(
    folders: Sequence[tuple[str, Path]], files: Sequence[tuple[str, Path]], now: int
) -> tuple[tuple[Switch, ...], tuple[str, ...]]:
    """The switches in `folders` (kind, path) and at `files` (configured name, path); what could not be looked at."""
    found = scan(folders, files, now)
    return found.switches, found.unknown


def scan(folders: Sequence[tuple[str, Path]], files: Sequence[tuple[str, Path]], now: int) -> Listing:
    """As `list_switches`, with what is odd. Folders are listed each time: a stat on NFS may be a minute old."""
    switches: list[Switch] = []
    unknown: list[str] = []
    problems: list[Problem] = []
    for kind, folder in folders:
        names = _names(folder)
        if names is None:
            unknown.append(str(folder))
            continue
        for count, name in enumerate(names):
            if _is_backup(name):
                what = f"{clean(name)}: an editor's backup, no switch."
                problems.append(Problem("W501", what, "Remove it, or rename it.", f"{kind}/{clean(name)}"))
                continue
            switches.append(_look(kind, name, folder / name, problems, now, read=count < _MOST_READ))
    for name, path in files:
        seen = _exists(path)
        if seen is None:
            unknown.append(str(path))
        elif seen:
            switches.append(_look("kill", name, path, problems, now))
    return Listing(tuple(switches), tuple(unknown), tuple(problems))


def _names(folder: Path) -> list[str] | None:
    """The names in `folder` that are no dot files (NFS leaves some); None: unknown."""
    for _ in range(2):  # a stale handle is opened again once
        try:
            return sorted(name for name in os.listdir(folder) if not name.startswith("."))
        except FileNotFoundError:
            return [] if _in_cron_directory(folder) else None
        except OSError as error:
            if error.errno != errno.ESTALE:
                return None
    return None


def _in_cron_directory(folder: Path) -> bool:
    try:
        os.lstat(folder.parent / MARKER)
    except OSError:
        return False
    return True


def _exists(path: Path) -> bool | None:
    """Whether there is something of that name; None: unknown."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        try:
            return path.name in os.listdir(path.parent)
        except OSError:
            return None
    except OSError:
        return None
    return True


def _is_backup(name: str) -> bool:
    return len(name) > 1 and (name.endswith("~") or (name.startswith("#") and name.endswith("#")))


def _look(kind: str, name: str, path: Path, problems: list[Problem], now: int, *, read: bool = True) -> Switch:
    try:
        status = os.lstat(path)
    except OSError:  # listed, and on NFS not yet to be seen by a stat: its name is what counts
        return Switch(kind, name, str(path), by="unknown", since=now)
    since = min(max(int(status.st_mtime), 0), LAST)
    where = f"{path.parent.name}/{clean(name)}"
    if since > now + _SKEW:
        what = f"dated {_iso(since)}, which is in the future."
        problems.append(Problem("W502", what, "Touch it, or mend the clock of the machine that made it.", where))
    reason, expires, odd = content(text_of(str(path), status) if read else "", since)
    if odd:
        what = f"expires: {odd!r} is neither a duration nor a time; it stands until it is removed."
        problems.append(Problem("W503", what, "Write expires: 2h, or expires: 2026-11-27T18:00.", where))
    return Switch(kind, name, str(path), owner(status.st_uid), since, reason, expires)


def _iso(instant: int) -> str:
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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

    `expires` is an instant. Raises SwitchError with the mend.
    """
    check_name(name)
    lines = [clean(reason)] if reason else []
    lines += [f"expires: {_iso(expires)}"] if expires is not None else []
    try:
        fd = _create(folder, name)
    except FileExistsError:
        return False
    except OSError as error:
        raise _refused(folder, name, error, "set") from None
    try:
        _share(fd, folder, group)
        os.write(fd, "".join(line + "\n" for line in lines).encode("utf-8", "replace"))
    except OSError as error:  # it is there, and its name is what counts
        raise SwitchError(f"{folder / name} is set, but its reason could not be written: {error.strerror}.") from None
    finally:
        os.close(fd)
    return True


def _create(folder: Path, name: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(folder / name, flags, 0o664)
    except FileNotFoundError:
        if not _in_cron_directory(folder):
            raise
        os.mkdir(folder, 0o755)  # removed by hand: it is made anew as `init` would
        return os.open(folder / name, flags, 0o664)


def _share(fd: int, folder: Path, group: str) -> None:
    """The team may change and remove it, whatever the umask."""
    import contextlib

    os.fchmod(fd, 0o664)
    wanted = _gid(group) if group else os.stat(folder).st_gid
    if wanted is not None and os.fstat(fd).st_gid != wanted:
        with contextlib.suppress(PermissionError):  # not a member: it stands all the same
            os.fchown(fd, -1, wanted)


def _gid(group: str) -> int | None:
    import grp

    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return None


def unset_switch(folder: Path, name: str) -> bool:
    """Remove the switch `name` from `folder`; False: there was none. Raises SwitchError with the mend."""
    check_name(name)
    path = folder / name
    try:
        try:
            os.unlink(path)
        except (IsADirectoryError, PermissionError):
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise
            os.rmdir(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _refused(folder, name, error, "removed") from None
    return True


def _refused(folder: Path, name: str, error: OSError, done: str) -> SwitchError:
    import shlex

    where = shlex.quote(str(folder))
    what = f"{clean(str(folder / name))} cannot be {done}: {error.strerror}."
    if isinstance(error, PermissionError):
        try:
            status = os.stat(folder)
        except OSError:
            return SwitchError(f"{what} Ask the owner of {where} to let you in.")
        mend = f"Ask {owner(status.st_uid)} for: chgrp GROUP {where} && chmod 2775 {where}"
        return SwitchError(f"{what} {mend}")
    if error.errno == errno.ENOTEMPTY:
        return SwitchError(
            f"{what} It is a folder with files in it. Remove it with: rm -r {shlex.quote(str(folder / name))}"
        )
    if isinstance(error, FileNotFoundError):
        return SwitchError(
            f"{what} There is no folder {where}. Is it mounted? In a cron directory, cronhpc init makes it."
        )
    return SwitchError(f"{what} Mend the folder {where}, then try again.")
