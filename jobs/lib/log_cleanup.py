"""log-cleanup: age, count and size limits on run logs, inside one folder and nowhere else."""

from __future__ import annotations

import contextlib
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import live
import shelf
from live import Live
from shelf import Broken, Settings


@dataclass(frozen=True)
class Log:
    """A file below the log folder: `path` relative to it, times in seconds since 1970, `size` in bytes."""

    path: str
    at: float
    size: int
    live: bool = False
    since_live: bool = False  # last written since a job began that still runs: it may be what that job opened by itself


@dataclass(frozen=True)
class Limits:
    """`age` in seconds, `count` a folder, `total` in bytes over all; 0: no limit."""

    age: int
    count: int
    total: int


def plan(logs: Sequence[Log], limits: Limits, now: float) -> dict[Log, str]:
    """The logs to remove, and why. The newest of each folder stays, and every live one."""
    going: dict[Log, str] = {}
    places: Counter[str] = Counter()  # by folder: the count limit is for each
    kept = 0
    for log in sorted(logs, key=lambda log: (-log.at, log.path)):
        places[os.path.dirname(log.path)] += 1
        place = places[os.path.dirname(log.path)]
        why = "" if log.live or place == 1 else _why(log, limits, now, place, kept)
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
    place = root
    with contextlib.ExitStack() as handles, contextlib.suppress(FileNotFoundError):  # somebody was faster
        for folder in folders:
            place = handles.enter_context(shelf.opened(folder, place))
        if not stat.S_ISREG(os.lstat(name, dir_fd=place).st_mode):
            raise Broken(f"{shelf.shown(path)} is no file any more: left alone")
        os.unlink(name, dir_fd=place)


# --- the job -------------------------------------------------------------------------------------------------------


def main(settings: Settings) -> int:
    """List, plan, and with `--delete yes` remove."""
    delete, folder = settings.text("DELETE") == "yes", settings.text("FOLDER")
    limits = Limits(*map(settings.number, ("AGE", "COUNT", "TOTAL")))
    alive = live.in_slurm() if settings.text("system") == "slurm" else live.elsewhere(settings.text("running"))
    with shelf.opened(folder) as root:
        logs = list(listed(root, settings.text("ENDINGS").split(), alive))
        going = plan(logs, limits, shelf.seconds_now())
        failed = sum(not _carry_out(root, log, why, delete=delete) for log, why in going.items())
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
    shelf.run(main)
