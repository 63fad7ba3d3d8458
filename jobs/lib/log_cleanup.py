"""log-cleanup: age, count and size limits on run logs, inside one folder and nowhere else."""

from __future__ import annotations

import contextlib
import glob
import math
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import shelf
import slurm_queue
from shelf import Broken, Settings


@dataclass(frozen=True)
class Log:
    """A file below the log folder: `path` relative to it, times in seconds since 1970, `size` in bytes."""

    path: str
    at: float
    size: int
    live: bool = False
    since_live: bool = False  # last written since a job began that still runs: it may be what that job opened by itself

    @property
    def group(self) -> str:
        """The folder it lies in: the count limit is for each."""
        return os.path.dirname(self.path)


@dataclass(frozen=True)
class Limits:
    """`age` in seconds, `count` a folder, `total` in bytes over all; 0: no limit."""

    age: int
    count: int
    total: int


def plan(logs: Sequence[Log], limits: Limits, now: float) -> dict[Log, str]:
    """The logs to remove, and why. The newest of each folder stays, and every live one."""
    newest_first = sorted(logs, key=lambda log: (-log.at, log.path))
    going: dict[Log, str] = {}
    seen: dict[str, int] = {}
    kept = 0
    for log in newest_first:
        seen[log.group] = seen.get(log.group, 0) + 1
        first = seen[log.group] == 1
        why = "" if log.live or first else _why(log, limits, now, seen[log.group], kept)
        if why:
            going[log] = why
        else:
            kept += log.size
    return going


def _why(log: Log, limits: Limits, now: float, place: int, kept: int) -> str:
    if limits.age and now - log.at > limits.age and not log.since_live:
        return f"older than {shelf.ago(limits.age)}"
    if limits.count and place > limits.count:
        return f"more than {shelf.plural(limits.count, 'file')} in its folder"
    if limits.total and kept + log.size > limits.total:
        return f"more than {shelf.size(limits.total)} in all"
    return ""


# --- what jobs write just now: no clean-up may take it ---------------------------------------------------------------


@dataclass(frozen=True)
class Live:
    """What jobs in the queue write: files with a job's number in their name, and `files` by device and inode."""

    ids: frozenset[str] = frozenset()
    files: frozenset[tuple[int, int]] = frozenset()
    began: float = math.inf  # when the first of those that run began
    told: bool = True  # the queue tells their files; else each that was written since may be one

    def has(self, name: str, found: os.stat_result) -> bool:
        """Whether a file, of this name in its folder, may still be written to."""
        if not self.ids.isdisjoint(re.findall(r"[0-9]+", name)) or (found.st_dev, found.st_ino) in self.files:
            return True
        return not self.told and found.st_mtime >= self.began


def in_slurm() -> Live:
    """What jobs in Slurm's queue write, by numbers and by the files that they name. Raises Broken: nothing may go."""
    rows = slurm_queue.jobs()
    files = set()
    for path in (path for pattern in slurm_queue.outputs() for path in glob.iglob(pattern)):
        with contextlib.suppress(OSError):
            found = os.stat(path)
            files.add((found.st_dev, found.st_ino))
    ids = frozenset(number for row in rows for number in (row.number, row.id.partition("_")[0]))
    return Live(ids, frozenset(files), slurm_queue.first_began())


def elsewhere(rows: str) -> Live:
    """By a start (seconds since 1970) and an id a line, of the jobs that run: `running` of start.sh."""
    pairs = [row.split() for row in rows.splitlines()]
    began = min((int(start) for start, _ in pairs), default=math.inf) - slurm_queue.CLOCKS_APART
    return Live(frozenset(number for _, number in pairs), began=began, told=False)


# --- the folder ----------------------------------------------------------------------------------------------------


def listed(root: int, endings: Sequence[str], live: Live) -> Iterator[Log]:
    """One's own logs below an open folder. Raises OSError."""
    for _, path, found in shelf.below(root):
        if stat.S_ISREG(found.st_mode) and path.endswith(tuple(endings)) and found.st_uid == os.geteuid():
            alive = live.has(os.path.basename(path), found)
            yield Log(path, found.st_mtime, found.st_size, alive, found.st_mtime >= live.began)


def remove(root: int, path: str) -> None:
    """Remove a file below an open folder, reached through handles. Raises Broken for what is no file, OSError."""
    *folders, name = path.split("/")
    handles = []
    place = root
    try:
        for folder in folders:
            place = os.open(folder, shelf.FOLDER, dir_fd=place)
            handles.append(place)
        if not stat.S_ISREG(os.lstat(name, dir_fd=place).st_mode):
            raise Broken(f"{shelf.shown(path)} is no file any more: left alone")
        os.unlink(name, dir_fd=place)
    except FileNotFoundError:
        return  # somebody was faster
    finally:
        for handle in reversed(handles):
            os.close(handle)


# --- the job -------------------------------------------------------------------------------------------------------


def main(settings: Settings) -> int:
    """List, plan, and with `--delete yes` remove."""
    delete, endings, folder = (
        settings.text("DELETE") == "yes",
        settings.text("ENDINGS").split(),
        settings.text("FOLDER"),
    )
    limits = Limits(*map(settings.number, ("AGE", "COUNT", "TOTAL")))
    alive = in_slurm() if settings.text("system") == "slurm" else elsewhere(settings.text("running"))
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        logs = list(listed(root, endings, alive))
        going = plan(logs, limits, shelf.seconds_now())
        failed = sum(not _carry_out(root, log, why, delete=delete) for log, why in going.items())
    finally:
        os.close(root)
    said = "removed" if delete else "would remove"
    freed = shelf.size(sum(log.size for log in going))
    print(f"{said} {len(going):,} of {shelf.plural(len(logs), 'log')} in {folder}, {freed}")
    if going and not delete:
        print("nothing was removed: with DELETE=yes at the top of the script it is")
    return shelf.ALERT if failed else shelf.FINE


def _carry_out(root: int, log: Log, why: str, *, delete: bool) -> bool:
    try:
        if delete:
            remove(root, log.path)
    except (OSError, Broken) as error:
        print(f"not removed: {shelf.shown(log.path)}: {error}")
        return False
    print(f"{'removed' if delete else 'would remove'} {shelf.shown(log.path)}: {why}")
    return True


if __name__ == "__main__":
    shelf.door(main)
