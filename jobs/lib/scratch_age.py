"""scratch-age: files that a site's purge will soon remove, by folder. It reads times only, unless told to touch."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import alerts
import memory
import shelf
from alerts import Alert
from shelf import Broken, Settings

JOB = "scratch-age"
_SHOWN = 15
_FIELDS = {"atime": ("st_atime",), "mtime": ("st_mtime",), "any": ("st_atime", "st_mtime", "st_ctime")}


@dataclass(frozen=True)
class Old:
    """A file and the time that the purge counts from, in seconds since 1970."""

    path: str
    at: float
    size: int


@dataclass
class Group:
    """The files near their purge below one folder."""

    count: int = 0
    size: int = 0
    oldest: float = field(default=float("inf"))

    def add(self, old: Old) -> None:
        """Count one more."""
        self.count += 1
        self.size += old.size
        self.oldest = min(self.oldest, old.at)


def walk(top: str, by: str, before: float) -> Iterator[Old]:
    """Files last used before `before`, on the file system of `top`; links are neither followed nor counted."""
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _, path, found in shelf.below(folder):
            at = max(getattr(found, name) for name in _FIELDS[by])
            if stat.S_ISREG(found.st_mode) and at < before:
                yield Old(os.path.join(top, path), at, found.st_size)
    finally:
        os.close(folder)


def grouped(top: str, files: Iterable[Old]) -> dict[str, Group]:
    """By the folder directly below `top`; files that lie in `top` itself under "."."""
    groups: dict[str, Group] = {}
    for old in files:
        first, slash, _ = os.path.relpath(old.path, top).partition("/")
        groups.setdefault(first if slash else ".", Group()).add(old)
    return groups


def report(groups: dict[str, Group], days: int, now: float) -> Iterator[str]:
    """A line a folder, the nearest purge first."""
    for name, group in sorted(groups.items(), key=lambda item: item[1].oldest)[:_SHOWN]:
        left = days * shelf.DAY - (now - group.oldest)
        when = f"in {shelf.ago(left)}" if left > 0 else "any time now"
        yield f"{shelf.shown(name)}: {shelf.plural(group.count, 'file')}, {shelf.size(group.size)}, the first {when}"
    if len(groups) > _SHOWN:
        yield f"and {len(groups) - _SHOWN} more folders"


def touch(files: Iterable[Old], now: float) -> tuple[int, int]:
    """Give each file the time of now, both times; (done, failed)."""
    done = failed = 0
    for old in files:
        try:
            os.utime(old.path, (now, now), follow_symlinks=False)
            done += 1
        except OSError as error:
            failed += 1
            print(f"not touched: {shelf.shown(old.path)} ({error.strerror})")
    return done, failed


def main(settings: Settings) -> int:
    """Walk, report, keep the list; touch only where told to."""
    purge_days, warn_days = settings.count("PURGE_DAYS"), settings.count("WARN_DAYS")
    if not 0 < warn_days <= purge_days:
        raise Broken(f"WARN_DAYS={warn_days} must be between 1 and PURGE_DAYS={purge_days}")
    wanted, by = settings.yes("TOUCH"), settings.one_of("BY", *_FIELDS)
    folder, now = settings.folder("FOLDER"), shelf.seconds_now()
    found = list(walk(str(folder), by, now - (purge_days - warn_days) * shelf.DAY))
    if wanted:
        print("touching: many sites forbid this, and some close accounts for it. Ask yours first.")
        done, failed = touch(found, now)
        print(f"touched {shelf.plural(done, 'file')}")
        return shelf.ALERT if failed else shelf.FINE
    for line in report(grouped(str(folder), found), purge_days, now):
        print(line)
    text = _summary(folder, found, warn_days)
    print(text)
    standing = [Alert(str(folder), text)] if found else []
    return alerts.tell(
        JOB, standing, now=now, notify=settings.text("NOTIFY"), again=6 * shelf.DAY, fine={str(folder): text}
    )


def _summary(folder: Path, found: Sequence[Old], warn_days: int) -> str:
    if not found:
        return f"{folder}: nothing will be purged within {shelf.plural(warn_days, 'day')}"
    kept = memory.state_file(JOB, "list")
    _write_list(kept, found)
    size = shelf.size(sum(old.size for old in found))
    files = shelf.plural(len(found), "file")
    return f"{folder}: {files} ({size}) will be purged within {shelf.plural(warn_days, 'day')}; all of them: {kept}"


def _write_list(path: Path, found: Sequence[Old]) -> None:
    """Every file, ended by NUL as `xargs -0`, `rsync --from0` and `tar --null` read them; the oldest first."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = b"".join(os.fsencode(old.path) + b"\0" for old in sorted(found, key=lambda old: old.at))
        path.write_bytes(data)
    except OSError as error:
        print(f"{path} could not be written: {error.strerror}")


if __name__ == "__main__":
    shelf.door(main)
