"""Whether a script may run, and a cron directory be used: nobody else can have changed it, or the way to it.

Nobody but its owner, root and listed users.
The rule is sshd's StrictModes, from the cron directory down; a link's target is followed step by step from `/`.
"""

from __future__ import annotations

import errno
import os
import stat
from enum import StrEnum
from pathlib import Path

from cronhpc.core.model import Problem, Settings, SettingsError, command
from cronhpc.cron.values import dataclass, replace
from cronhpc.inside.switch_file import owner
from cronhpc.script.advice import word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cronhpc.store.files import Paths


_MOST_LINKS = 40  # the kernel's own limit


def owner_ids(names: Iterable[str], me: int) -> tuple[frozenset[int], tuple[str, ...]]:
    """The user ids of `trust.owners` (`me` and root always among them), and the names that no user has."""
    by_name = {name: user_id(name) for name in names if name not in {"me", "root"}}
    ids = {0, me, *(number for number in by_name.values() if number is not None)}
    return frozenset(ids), tuple(name for name, number in by_name.items() if number is None)


def _from_the_top(path: Path) -> tuple[Path, list[str]]:
    return Path("/"), list(path.parts[:0:-1])


def way(
    path: Path, start: Callable[[Path], tuple[Path, list[str]]] = _from_the_top
) -> Iterator[tuple[Path, os.stat_result | None, bool]]:
    """Each folder and link on the way to the absolute `path`, by its real place, its lstat, and whether it is the end.

    `start`: where the way to a path begins (that is given without an lstat), and its steps, the last one first. Raises
    OSError where a step cannot be looked at, and at more links than the kernel follows.
    """
    at, rest = start(path)
    yield at, None, False
    links = 0
    while rest:
        step = rest.pop()
        if step != "..":
            status = os.lstat(at / step)
            is_link = stat.S_ISLNK(status.st_mode)
            yield at / step, status, not rest and not is_link
            if not is_link:
                at /= step
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(at / step))
            target = Path(os.readlink(at / step))
            if not target.is_absolute():
                rest += target.parts[::-1]
                continue
        at, further = start(at.parent if step == ".." else target)
        rest += further
        yield at, None, False


class Trust:
    """One tick's look at who may write what: each folder is looked at once.

    `whole`: from `/` down, also to what lies in the cron directory. `closed`: no setting opens it, so none is named.
    """

    def __init__(
        self, root: Path, owners: frozenset[int], group: str | None, *, whole: bool = False, closed: bool = False
    ) -> None:
        self._as_given = Path(os.path.abspath(root))
        self.root = Path(os.path.realpath(root))
        self._closed = closed
        self._roots = () if whole else (self.root, self._as_given)
        self.owners = owners
        self.gid = group_id(group) if group else None
        self._folders: dict[Path, Problem | None] = {}  # by real place
        self._asked: dict[Path, Problem | None] = {}  # by the name asked for

    def refusal(self, path: Path) -> Problem | None:
        """Why the script `path` is not trusted; None: it is. What cannot be looked at is not trusted."""
        return self._looked_at(path, self._script)

    def folder_refusal(self, folder: Path) -> Problem | None:
        """Why nothing in `folder`, below the cron directory, is trusted; None: it may be, or there is none."""
        if folder not in self._asked:
            self._asked[folder] = self._looked_at(folder, self._folder) if os.path.lexists(folder) else None
        return self._asked[folder]

    def way_refusal(self, folder: Path) -> Problem | None:
        """Why `folder` may be another one tomorrow: somebody can put one in its place. Who may write in it is open."""
        return self._looked_at(folder, self._replaceable)

    def sealed(self, path: Path) -> Problem | None:
        """Why `path` itself, where it really lies, is not for its owner alone to write; the way to it is not asked."""
        try:
            real = Path(os.path.realpath(path))
            status = os.lstat(real)
            return self._owned(real, status) or self._modes(real, status)
        except OSError as error:
            return self._unseen(path, error)

    def _looked_at(self, path: Path, check: Callable[[Path, os.stat_result], Problem | None]) -> Problem | None:
        """The first trouble with a folder or link on the way; what is at its end is for `check`."""
        try:
            for at, status, is_end in way(Path(os.path.abspath(path)), self._start):
                if status is not None and stat.S_ISLNK(status.st_mode):
                    problem = self._owned(at, status)
                else:
                    problem = check(at, status) if status is not None and is_end else self._folder(at, status)
                if problem is not None:
                    return problem
        except OSError as error:
            return self._unseen(path, error)
        return None

    def _unseen(self, path: Path, error: OSError) -> Problem:
        what = f"{_clean(error.filename or path)} cannot be looked at: {error.strerror}."
        fix = "Fix the link, or make the way to it readable to you."
        return Problem("E401", what, fix, self._file(path), key=error.strerror or "")

    def _start(self, path: Path) -> tuple[Path, list[str]]:
        """Where the walk to the absolute `path` begins, and its steps, the last one first."""
        for root in self._roots:
            if path.is_relative_to(root):
                return self.root, list(path.relative_to(root).parts[::-1])
        return _from_the_top(path)

    def _folder(self, folder: Path, status: os.stat_result | None = None) -> Problem | None:
        """A sticky one outside (/tmp) may be written by all: what trusted users own there, others cannot replace."""
        if folder not in self._folders:
            status = status or os.lstat(folder)
            sticky = bool(status.st_mode & stat.S_ISVTX) and not folder.is_relative_to(self.root)
            problem = self._owned(folder, status)
            self._folders[folder] = problem if problem or sticky else self._modes(folder, status)
        return self._folders[folder]

    def _replaceable(self, folder: Path, status: os.stat_result) -> Problem | None:
        """The folder above has passed. Where it is a sticky one, only what is a trusted user's cannot be replaced."""
        return self._owned(folder, status) if os.lstat(folder.parent).st_mode & stat.S_ISVTX else None

    def _script(self, path: Path, status: os.stat_result) -> Problem | None:
        if not stat.S_ISREG(status.st_mode):
            return Problem("E402", f"{_clean(path)} is no regular file.", "Put a batch script there.", self._file(path))
        return self._owned(path, status) or self._modes(path, status)

    def _owned(self, path: Path, status: os.stat_result) -> Problem | None:
        if status.st_uid in self.owners:
            return None
        whose, place = owner(status.st_uid), word(path)
        what = f"{_clean(path)} belongs to {whose}, who is neither you nor root nor among trust.owners."
        if stat.S_ISREG(status.st_mode):
            fix = f"Read it, then make it yours: cp {place} {place}.mine && mv -f {place}.mine {place}"
        elif stat.S_ISLNK(status.st_mode):
            fix = f'Look where it points, then make it yours: ln -sfn "$(readlink {place})" {place}'
        else:
            fix = "Keep the script in folders of your own."
        return Problem("E403", what, self._or_allow(fix, f"owners: [{whose}]"), self._file(path), key=whose)

    def _modes(self, path: Path, status: os.stat_result) -> Problem | None:
        if status.st_mode & stat.S_IWOTH:
            whose = "go" if status.st_mode & stat.S_IWGRP and status.st_gid != self.gid else "o"
            return self._writable(path, "everyone", f"chmod {whose}-w {word(path)}")
        listed = writers(path)
        if listed is None:
            return self._by_group(path, status.st_gid) if status.st_mode & stat.S_IWGRP else None
        return next(filter(None, (self._by_list(path, status, writer) for writer in listed)), None)

    def _by_list(self, path: Path, status: os.stat_result, writer: Writer) -> Problem | None:
        if writer.kind is Party.OWNING_GROUP:
            return self._by_group(path, status.st_gid)
        if writer.kind is Party.EVERYONE:
            return self._writable(path, "everyone (by an ACL)", f"chmod o-w {word(path)}")
        is_user = writer.kind is Party.USER
        if writer.id in self.owners if is_user else writer.id is not None and writer.id == self.gid:
            return None
        name = _clean(writer.name or (owner if is_user else group_name)(writer.id or 0))
        by = f"{'' if is_user else 'the group '}{name} (by an ACL)"
        if writer.name:
            return self._writable(path, by, f"nfs4_editfacl {word(path)}  (take w, a, D, C and o from {name})")
        return self._writable(path, by, f"setfacl -x {writer.kind[0]}:{name} {word(path)}")

    def _by_group(self, path: Path, gid: int) -> Problem | None:
        if gid == self.gid:
            return None
        name = group_name(gid)
        problem = self._writable(path, f"the group {name}", f"chmod g-w {word(path)}")
        return replace(problem, fix=self._or_allow(problem.fix, f"group: {name}"))

    def _or_allow(self, fix: str, setting: str) -> str:
        return fix if self._closed else f"{fix} (or allow it: trust: {{{setting}}})"

    def _writable(self, path: Path, by: str, command: str) -> Problem:
        what = f"{_clean(path)} can be written by {by}."
        return Problem("E404", what, f"Fix it with: {command}", self._file(path), key=by)

    def _file(self, path: Path) -> str:
        return str(path.relative_to(self.root) if path.is_relative_to(self.root) else path)


# --- the cron directory itself ----------------------------------------------------------------------------------------
#
# Whether others can reach what cronhpc reads and writes: settings, state/, scheduler/, a page's folder.


def trust_of(paths: Paths, settings: Settings, me: int, *, whole: bool = False) -> Trust:
    """As the settings have it; names that no user has count for nobody."""
    return Trust(paths.root, owner_ids(settings.trust_owners, me)[0], settings.trust_group, whole=whole)


def directory_refusal(paths: Paths, me: int) -> Problem | None:
    """Why this cron directory is not to be opened: its settings may name commands, and state/ holds scripts and ids.

    Both are mine or root's, and nobody else's to write, whatever the settings say; these say who else may write the
    folders on the way.
    """
    if sealed := _sealed(paths, me):
        return sealed
    strict = Trust(paths.root, frozenset({0, me}), None)
    refused = strict.refusal(paths.settings) if os.path.lexists(paths.settings) else None  # series need none
    if refused is not None and refused.code == "E402":  # which speaks of scripts
        from cronhpc.store.settings import no_file

        return no_file(paths.settings)
    refused = refused or strict.folder_refusal(paths.state)
    if refused is None or not (settings := _read(paths)):
        return refused
    as_set = trust_of(paths, settings, me)
    return as_set.refusal(paths.settings) or as_set.folder_refusal(paths.state)


def _sealed(paths: Paths, me: int) -> Problem | None:
    """The two that no setting opens to anybody."""
    strict = Trust(paths.root, frozenset({0, me}), None, closed=True)
    for path in (paths.settings, paths.state):
        refused = strict.sealed(path) if os.path.lexists(path) else None
        if refused is not None:
            fix: str = refused.fix
            if path == paths.settings and refused.code == "E403" and os.stat(paths.root).st_uid not in {0, me}:
                fix = "It is another user's cron directory: " + command("status") + " shows it; for one of your own: "
                fix += command("init", directory="DIR")
            if path == paths.settings:
                return Problem(refused.code, refused.what, fix, "cronhpc.yaml")
            what = f"{refused.what} What lies in it is run as you, so nothing was done."
            fix = f"{fix}; then look for what is not yours: find {path} ! -user {me}"
            return Problem(refused.code, what, fix, "state")
    return None


def _read(paths: Paths) -> Settings | None:
    from cronhpc.store.settings import read_settings

    try:
        return read_settings(paths.settings)
    except SettingsError as error:
        return error.rest


def link_refusal(paths: Paths, settings: Settings, me: int) -> Problem | None:
    """Why no link may be submitted: its text, or the log that it writes, could be another's."""
    trust = trust_of(paths, settings, me)
    if refused := trust.folder_refusal(paths.scheduler):
        return refused
    if os.path.lexists(paths.script) and (refused := trust.refusal(paths.script)):
        return refused
    log = paths.scheduler / "scheduler.log"
    refused = trust.refusal(log) if os.path.lexists(log) else None
    return refused if refused is not None and refused.code != "E402" else None  # E402: a link of mine to /dev/null


def place_refusal(path: Path, paths: Paths, settings: Settings, me: int) -> Problem | None:
    """Why no file is put at `path`: others could put another folder in the place of the one it lies in.

    They may write in that very folder: what is put there replaces a link, and follows none.
    """
    return trust_of(paths, settings, me).way_refusal(path.parent)


def way_refusal(paths: Paths, settings: Settings, me: int) -> Problem | None:
    """Who could put another folder in the place of the cron directory. Trust begins at that, so it is only said."""
    return trust_of(paths, settings, me, whole=True).way_refusal(paths.root)


# --- groups -----------------------------------------------------------------------------------------------------------


def group_name(gid: int) -> str:
    """The group's name, or the number where there is none."""
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def private_group(mask: int) -> str:
    """The user's own group, where `mask` (an umask) lets it write new files and nobody else is in it; else "".

    Debian, Red Hat and others give each user such a group, by the user's name or number, and some an umask of 002.
    """
    if mask & stat.S_IWGRP:
        return ""
    import grp
    import pwd

    try:
        me = pwd.getpwuid(os.geteuid())
        group = grp.getgrgid(os.getegid())
    except KeyError:
        return ""
    alike = group.gr_name == me.pw_name or group.gr_gid == me.pw_uid
    others = set(group.gr_mem) | {each.pw_name for each in pwd.getpwall() if each.pw_gid == group.gr_gid}
    return group.gr_name if alike and others <= {me.pw_name} else ""


def group_id(name: str) -> int | None:
    """By its name or number; None where there is no such group."""
    import grp

    return _id(name, lambda: grp.getgrnam(name).gr_gid)


def user_id(name: str) -> int | None:
    """By the user's name or number; None where there is no such user."""
    import pwd

    return _id(name, lambda: pwd.getpwnam(name).pw_uid)


_NO_ID = 2**32 - 1  # as the kernel says it; all ids are below


def _id(name: str, by_name: Callable[[], int]) -> int | None:
    try:
        number = int(name) if name.isascii() and name.isdecimal() else by_name()
    except (KeyError, ValueError):  # of thousands of digits, too
        return None
    return number if number < _NO_ID else None


def _clean(path: Path | str) -> str:
    return "".join(c if c.isprintable() else "?" for c in str(path))


# --- access control lists ---------------------------------------------------------------------------------------------
#
# Who else may write: POSIX ones (local disks, Lustre, GPFS, NFSv3) and NFSv4 ones.


_NONE = frozenset({errno.ENODATA, errno.ENOTSUP, errno.ENOSYS})

# POSIX: tags of <linux/posix_acl.h>, behind a version number
_USER, _GROUP_OBJ, _GROUP, _MASK = 0x02, 0x04, 0x08, 0x10
_WRITE = 2

# NFSv4: RFC 7530, section 6.2; XDR. Adding to a folder is the same bit as writing a file.
_ALLOW, _DENY = 0, 1
_IS_GROUP = 0x40
_CHANGES = 0x2 | 0x4 | 0x40 | 0x40000 | 0x80000  # write, append, delete a child, change the list, take ownership


class Party(StrEnum):
    USER = "user"
    GROUP = "group"
    OWNING_GROUP = "owning group"
    EVERYONE = "everyone"


@dataclass(frozen=True, slots=True)
class Writer:
    """Someone beside the owner who may write."""

    kind: Party
    id: int | None = None  # None: of a name that is not known here
    name: str = ""  # where the list says a name


def writers(path: Path) -> tuple[Writer, ...] | None:
    """Who may write `path` by its access control list; None where it has none. Raises OSError."""
    raw = _attribute(path, "system.posix_acl_access")
    if raw is not None:
        return tuple(posix(raw))
    raw = _attribute(path, "system.nfs4_acl")
    return None if raw is None else tuple(nfs4(raw))


def _attribute(path: Path, name: str) -> bytes | None:
    try:
        return os.getxattr(path, name, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NONE:
            return None
        raise


def posix(raw: bytes) -> Iterator[Writer]:
    """The writers of a POSIX list, its mask applied."""
    import struct

    rows = list(struct.iter_unpack("<HHI", raw[4:]))
    mask = next((permissions for tag, permissions, _ in rows if tag == _MASK), 7)
    kinds = {_USER: Party.USER, _GROUP: Party.GROUP, _GROUP_OBJ: Party.OWNING_GROUP}
    for tag, permissions, number in rows:
        if tag in kinds and permissions & mask & _WRITE:
            yield Writer(kinds[tag], None if tag == _GROUP_OBJ else number)


def nfs4(raw: bytes) -> Iterator[Writer]:
    """The writers of an NFSv4 list; what an earlier row denies someone, a later one does not give."""
    denied: dict[tuple[str, bool], int] = {}
    for kind, flags, mask, who in _nfs4_rows(raw):
        whom = (who, bool(flags & _IS_GROUP))
        if kind == _DENY:
            denied[whom] = denied.get(whom, 0) | mask
        elif kind == _ALLOW and mask & _CHANGES & ~denied.get(whom, 0):
            if who == "EVERYONE@":
                yield Writer(Party.EVERYONE)
            elif who == "GROUP@":
                yield Writer(Party.OWNING_GROUP)
            elif who != "OWNER@":
                name = who.partition("@")[0]
                yield Writer(Party.GROUP, group_id(name), name) if whom[1] else Writer(Party.USER, user_id(name), name)


def _nfs4_rows(raw: bytes) -> Iterator[tuple[int, int, int, str]]:
    import struct

    (count,) = struct.unpack_from(">I", raw)
    at = 4
    for _ in range(count):
        kind, flags, mask, length = struct.unpack_from(">IIII", raw, at)
        at += 16
        yield kind, flags, mask, raw[at : at + length].decode("utf-8", "replace")
        at += -(-length // 4) * 4
