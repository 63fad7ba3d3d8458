"""Damage, and what to do: state that was cut off or is an older copy, files that were refused, a full disk."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from cronhpc.core.model import Entry, Phase, Problem, StateError, command, decode, entry_id, slot_of
from cronhpc.inside.switch_file import clean, owner
from cronhpc.script.advice import word
from cronhpc.store.files import DiskClock, Paths, passes, read_json
from cronhpc.store.scheduler import expected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from cronhpc.store.memory import Memory


_STAYS_NEWS = 86400  # seconds for which `status` goes on to say what one tick has found
_SAFE = "No slot runs twice: the claims hold what was submitted."


def marks(memory: Memory, now: int, *, reported: bool) -> tuple[tuple[int, bool] | None, tuple[int, bool, str] | None]:
    """What is kept of its not being whole (forgotten, invalid), which its next writing hides.

    `reported`: people are told of it now.
    """
    forgotten, invalid = memory.scheduler.forgotten, memory.scheduler.invalid
    if memory.corrupt:
        forgotten = forgotten or (now, False)
    elif memory.invalid:
        invalid = (now, False, memory.invalid)
    if reported:
        forgotten, invalid = forgotten and (forgotten[0], True), invalid and (invalid[0], True, invalid[2])
    return forgotten, invalid


def of_entries(memory: Memory, now: int, *, reported_too: bool = False) -> Iterator[Problem]:
    """What was lost of entries, until a tick has reported it; `reported_too`: for a day."""
    if _is_news(memory.scheduler.forgotten, now, new=memory.corrupt, reported_too=reported_too):
        what = "was empty or cut off: last results, streaks, suspensions and standing alerts are forgotten."
        fix = f"{_SAFE} Entries that were suspended run again; the past is in: " + command("history")
        yield Problem("W332", what, fix, "state/entries.json")
    noted = memory.scheduler.invalid
    where = memory.invalid or (noted[2] if noted else "")
    if _is_news(noted, now, new=bool(memory.invalid), reported_too=reported_too):
        what = f"held what no tick writes, and that is forgotten: {where}."
        fix = f"{_SAFE} The past is in: " + command("history")
        yield Problem("W335", what, fix, "state/entries.json")


def _is_news(mark: Sequence[Any] | None, now: int, *, new: bool, reported_too: bool) -> bool:
    """Once reported by a tick, it is for those who look within a day."""
    if new or mark is None:
        return new
    since, reported, *_ = mark
    return not reported or (reported_too and 0 <= now - since < _STAYS_NEWS)


def others(state: Path) -> Iterator[Problem]:
    """Files that stay as they are until someone acts. Raises OSError, StateError."""
    flaw = _flaw_of_environment(state / "environment.json")
    if flaw:
        yield Problem("W333", flaw, "Save it again: " + command("start"), "state/environment.json")
    for path in sorted((state / "trains").glob("*.json")):
        from cronhpc.store.series_records import usable

        if os.path.lexists(path) and usable(path) is None:
            what = "is empty, cut off, or no record of ours: how far that work has come is forgotten."
            fix = f"Start its script again; then remove the file. {_SAFE}"
            yield Problem("W341", what, fix, f"state/trains/{path.name}")


def environment(path: Path) -> tuple[dict[str, str] | None, list[str]]:
    """What `start` was called in, as far as it can be used, None where there is none; and the names left out.

    Raises OSError, StateError.
    """
    variables, invalid = decode.decode((read_json(path, 1) or {}).get("environment"), decode.Rows(decode.text))
    if variables is decode.GONE:
        return None, [*invalid]
    bad = [name for name in variables if not name or "=" in name]
    return {name: value for name, value in variables.items() if name not in bad}, [*invalid, *bad]


def _flaw_of_environment(path: Path) -> str:
    try:
        variables, lost = environment(path)
    except OSError as error:
        return f"cannot be read ({error.strerror}): runs get the environment of whoever calls the tick."
    if variables is None:
        flaw = "is empty, cut off, or none of ours: runs get the environment of whoever calls the tick."
        return flaw if os.path.lexists(path) else ""
    return f"holds variables that no program can get, and runs do without: {decode.places(lost)}." if lost else ""


def started(lost: Sequence[str]) -> Problem:
    """How ticks are driven, where that is not wholly to be known."""
    what = f"is cut off, or holds what `start` does not write: {decode.places(lost)}."
    return Problem("W336", what, "Write it again: " + command("start"), "scheduler/started")


def claims(invalid: Sequence[str]) -> Problem:
    """Claims whose records are of no use: their names still say that they are claimed."""
    what = f"is damaged: {decode.places(invalid)}. It counts as claimed, and is not submitted again."
    fix = "Whether it ran can be told by its log; see: " + command("history")
    return Problem("W337", what, fix, "state/claims")


# --- refused files ----------------------------------------------------------------------------------------------------


_FIXES = {
    errno.ENOENT: "It was removed: " + command("init") + " makes it again",
    errno.EISDIR: "A folder has that name: move it away",
    errno.EEXIST: "Something else has that name: move it away",
    errno.ENOTDIR: "Something that is no folder has that name: move it away",
    errno.EINVAL: "Something that is no file has that name: move it away",
    errno.ELOOP: "A link has that name: move it away",
    errno.ENOSPC: "Make room, or fix the quota",
    errno.EDQUOT: "Make room, or fix the quota",
    errno.EROFS: "It is mounted read-only here",
    errno.ESTALE: "The file system has lost it: try again in a minute",
    errno.EOPNOTSUPP: "Choose a folder on another file system with --dir",
}
_PASSES = "The file system is at fault: try again in a minute"


def fix(error: OSError) -> str:
    """What to do; where we may not, who may: the owner of the first place that we cannot enter or read.

    Without a full stop; "" where nobody knows.
    """
    if not isinstance(error, PermissionError):
        return _FIXES.get(error.errno or 0) or (_PASSES if passes(error) else "")
    if not isinstance(error.filename, str | Path):
        return ""
    path = Path(error.filename)
    shut = (p for p in (*reversed(path.parents), path) if not os.access(p, os.X_OK if p != path else os.R_OK | os.W_OK))
    place = next(shut, path.parent)  # where it is open itself, its folder lets nothing be put in its place
    while not os.path.lexists(place):  # it cannot be made, where it would be
        place = place.parent
    uid = place.lstat().st_uid
    if uid == os.getuid():
        return f"It is yours: chmod u+rwX {word(place)}"
    return f"{clean(str(place))} belongs to {owner(uid)}: ask them, or name a directory of your own with --dir"


# --- a full disk ------------------------------------------------------------------------------------------------------
#
# What is remembered while nothing can be written: a file's name and its time take no room to change.


_FINE, _FULL = "disk.fine", "disk.full"


def told_of_disk(state: Path, now: int, *, full: bool, again: int) -> Phase | None:
    """What people are to be told of the disk, STILL `again` seconds after the last time; None: nothing.

    Where not even a name can be changed it is new each time.
    """
    try:
        return _full(state, now, again) if full else _fine(state)
    except OSError:
        return Phase.NEW if full else None


def _full(state: Path, now: int, again: int) -> Phase | None:
    try:
        since = int(os.stat(state / _FULL).st_mtime)
    except FileNotFoundError:
        os.rename(state / _FINE, state / _FULL)
        os.utime(state / _FULL, (now, now))
        return Phase.NEW
    if 0 <= now - since < again:
        return None
    os.utime(state / _FULL, (now, now))
    return Phase.STILL


def _fine(state: Path) -> Phase | None:
    if os.path.lexists(state / _FINE):
        return None
    try:
        os.rename(state / _FULL, state / _FINE)
    except FileNotFoundError:
        os.close(os.open(state / _FINE, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600))
        return None
    return Phase.OVER


# --- an older copy of state/ ------------------------------------------------------------------------------------------
#
# Where it has forgotten what ran, the names of logs say it.


def is_older(paths: Paths, last_tick: int, heard_until: int) -> bool:
    """Whether a tick has been that state/ does not know, which remembers one at `last_tick` as the newest.

    One stat while all is well: `heard_until` is what that tick has noted (store/scheduler.py: expect).
    """
    noted = expected(paths)
    if noted is None or noted[1] <= heard_until:
        return False
    try:
        chain = (read_json(paths.status, 1) or {}).get("chain")
        seen = datetime.fromisoformat(str(chain["last_tick"])) if isinstance(chain, dict) else None
    except (StateError, OSError, KeyError, ValueError):
        return False
    return seen is not None and seen.tzinfo is not None and int(seen.timestamp()) > last_tick


_AT_ONCE, _A_TICK = 0.2, 120  # seconds: from status.json to scheduler/due, which is written next; that a tick lasts


def brought_back(paths: Paths, clock: DiskClock, noted: str, last_tick: int) -> int | None:
    """When the whole directory was brought back from a copy, by our clock; 0: nobody can tell when; None: never.

    `noted`: which file scheduler/due was (store/scheduler.py: due_file) as the newest tick that state/ knows, at
    `last_tick`, saw it. It is the same for life while each tick changes its times: so what brings back an older copy
    has to make it anew, which chmod, backups and hard links do not; and the time of that (ctime) cannot be brought
    back. Disks give a new file the inode of one that is gone: then its handle tells. Where inodes change by themselves
    (some FUSE file systems), that time has not. A directory that was moved to another disk looks the same.
    """
    due, (inode, _, known_handle) = paths.scheduler / "due", noted.partition(" ")
    try:
        status = due.stat(follow_symlinks=False)
        written = paths.status.stat(follow_symlinks=False).st_mtime
    except OSError:
        return None
    at = clock.ours(status, status.st_ctime)
    if not noted or not last_tick or (status.st_ctime <= written + _AT_ONCE and at <= last_tick + _A_TICK):
        return None
    if inode == str(status.st_ino):
        from cronhpc.store.disk import handle

        if known_handle in {"", "-"} or handle(due) in {"-", known_handle}:
            return None
    if at < last_tick:
        return 0  # earlier than what was copied: that tick's clock was not the disk's
    with suppress(OSError):  # the copy may have lain elsewhere for long: moving it here sets the folder's ctime
        root = paths.root.stat()
        at = max(at, clock.ours(root, root.st_ctime))
    return at


def logged(paths: Paths, entries: Iterable[Entry]) -> Mapping[str, Mapping[int, int]]:
    """Entry id to slot to the number of jobs that have left a log of it; a log's name is SLOT-JOBID.out.

    Scripts that name their logs themselves leave no such trace. A folder that cannot be listed says nothing.
    """
    counts: dict[str, dict[int, int]] = {}
    for entry in entries:
        name = entry_id(entry.name)
        try:
            logs = os.listdir(paths.log / name)
        except OSError:
            continue
        jobs: dict[int, set[str]] = {}
        for log in logs:
            slot, dash, rest = log.partition("-")
            try:
                at = slot_of(slot)
            except ValueError:
                continue
            if dash:
                jobs.setdefault(at, set()).add(rest.partition(".")[0].partition("_")[0])
        counts[name] = {slot: len(ids) for slot, ids in jobs.items()}
    return counts
