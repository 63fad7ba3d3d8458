"""scratch-age: files that a site's purge will soon remove, by folder. It reads times only, unless told to touch."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import alerts
import shelf
from alerts import Alert
from shelf import Settings

_SHOWN = 15
_FIELDS = {"atime": ("st_atime",), "mtime": ("st_mtime",), "any": ("st_atime", "st_mtime", "st_ctime")}


@dataclass(frozen=True)
class Old:
    """A file and the time that the purge counts from, in seconds since 1970."""

    path: str
    at: float
    size: int


def walk(top: str, by: str, before: float) -> Iterator[Old]:
    """Files last used before `before`, on the file system of `top`; links are neither followed nor counted."""
    with shelf.opened(top) as folder:
        for _, path, found in shelf.below(folder):
            at = max(getattr(found, name) for name in _FIELDS[by])
            if stat.S_ISREG(found.st_mode) and at < before:
                yield Old(os.path.join(top, path), at, found.st_size)


def report(top: str, found: Iterable[Old], days: int, now: float) -> Iterator[str]:
    """A line a folder directly below `top`, the nearest purge first; files that lie in `top` itself are under "."."""
    groups: dict[str, list[Old]] = {}
    for old in found:
        first, slash, _ = os.path.relpath(old.path, top).partition("/")
        groups.setdefault(first if slash else ".", []).append(old)
    rows = sorted((min(old.at for old in group), name, group) for name, group in groups.items())
    for oldest, name, group in rows[:_SHOWN]:
        left = days * shelf.DAY - (now - oldest)
        when = f"in {shelf.ago(left)}" if left > 0 else "any time now"
        files, size = shelf.plural(len(group), "file"), shelf.size(sum(old.size for old in group))
        yield f"{shelf.shown(name)}: {files}, {size}, the first {when}"
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
    purge_days, warn_days = map(settings.number, ("PURGE_DAYS", "WARN_DAYS"))
    folder, now = settings.text("FOLDER"), shelf.seconds_now()
    found = list(walk(folder, settings.text("BY"), now - (purge_days - warn_days) * shelf.DAY))
    if settings.text("TOUCH") == "yes":
        print("touching: many sites forbid this, and some close accounts for it. Ask yours first.")
        done, failed = touch(found, now)
        print(f"touched {shelf.plural(done, 'file')}")
        return shelf.ALERT if failed else shelf.FINE
    for line in report(folder, found, purge_days, now):
        print(line)
    within = f"within {shelf.plural(warn_days, 'day')}"
    text = f"{folder}: nothing will be purged {within}"
    if found:
        files, size = shelf.plural(len(found), "file"), shelf.size(sum(old.size for old in found))
        text = f"{folder}: {files} ({size}) will be purged {within}; all of them: {_listed(settings, found)}"
    print(text)
    standing = [Alert(folder, text)] if found else []
    return alerts.tell(settings, standing, now=now, again=6 * shelf.DAY, fine={folder: text})


def _listed(settings: Settings, found: Sequence[Old]) -> str:
    """The file with all of them, each ended by NUL as `xargs -0` and `rsync --from0` read them; the oldest first."""
    path, rows = settings.state("list"), sorted(found, key=lambda old: old.at)
    return shelf.keep(path, b"".join(os.fsencode(old.path) + b"\0" for old in rows), f"{path} cannot be written")


if __name__ == "__main__":
    shelf.run(main)
