"""File events, as hints: they only set a flag, and a tick looks at everything itself.

inotify sees no change made on another node, so it is used on local disks alone; elsewhere, and on file systems that
nobody here knows, folders are polled. An observer that died, or whose folder was swapped for another, is built anew.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable
    from pathlib import Path

    from watchdog.events import FileSystemEventHandler
    from watchdog.observers.api import BaseObserver

LOCAL = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs", "reiserfs", "zfs", "tmpfs", "ramfs", "overlay"}
)
SWITCH_POLL = 5.0  # seconds between looks at a switch folder that is polled: it holds few files
FOLDER_POLL = 30.0  # at 1 s, 10,000 files would cost a tenth of a core

Identity = tuple[int, int]


def file_system(path: str, mounts: str) -> str:
    """The type of the file system that `path` (absolute, real) lies on, by /proc/self/mountinfo's text; "": unknown."""
    best, kind = "", ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:  # noqa: PLR2004 - id, parent, device, root, mount point
            continue
        point = fields[4].encode("ascii", "surrogateescape").decode("unicode_escape")
        if _below(path, point) and len(point) >= len(best):
            best, kind = point, after.split()[0]
    return kind


def _below(path: str, point: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")


def is_local(path: Path) -> bool:
    """Whether inotify sees every change there."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            mounts = file.read()
    except OSError:
        return False
    return file_system(os.path.realpath(path), mounts) in LOCAL


def identity(path: Path) -> Identity | None:
    """Device and inode of a folder; None where it cannot be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Watch:
    """Sets `flag` when something in one of `folders` (path, seconds between polls) may have changed."""

    def __init__(self, folders: Iterable[tuple[Path, float]], flag: threading.Event, *, poll: bool = False) -> None:
        self.folders = tuple(folders)
        self.flag = flag
        self.poll = poll
        self._observers: list[BaseObserver] = []
        self._seen: dict[Path, Identity | None] = {}

    def start(self) -> None:
        """Begin, or begin again. What cannot be watched is left to the rescans."""
        self.stop()
        groups: dict[float, list[Path]] = {}
        for path, every in self.folders:
            self._seen[path] = identity(path)
            if self._seen[path] is not None:
                groups.setdefault(every if self.poll or not is_local(path) else 0.0, []).append(path)
        for every, paths in groups.items():
            self._observe(every, paths)

    def _observe(self, every: float, paths: list[Path]) -> None:
        from watchdog.observers import Observer
        from watchdog.observers.polling import PollingObserver

        observer: BaseObserver = PollingObserver(timeout=every) if every else Observer()
        handler = _handler(self.flag)
        for path in paths:
            try:
                observer.schedule(handler, str(path))
            except OSError:  # no more inotify watches, or gone since: polled then, or seen by the rescan
                if every == 0.0:
                    self._observe(FOLDER_POLL, [path])
        try:
            observer.start()
        except OSError:
            if every == 0.0:
                self._observe(FOLDER_POLL, paths)
            return
        self._observers.append(observer)

    def healthy(self) -> bool:
        """Whether every observer lives and still looks at the folder that the path names."""
        return all(observer.is_alive() for observer in self._observers) and all(
            identity(path) == seen for path, seen in self._seen.items()
        )

    def stop(self) -> None:
        """End every thread, and close what they held."""
        for observer in self._observers:
            observer.stop()
        for observer in self._observers:
            observer.join()
        self._observers = []
        self._seen = {}


def _handler(flag: threading.Event) -> FileSystemEventHandler:
    from watchdog.events import FileSystemEvent, FileSystemEventHandler

    class Handler(FileSystemEventHandler):
        """Does nothing that could raise: a handler that does ends the dispatcher in silence."""

        def on_any_event(self, event: FileSystemEvent) -> None:
            if event.event_type not in {"opened", "closed_no_write"}:
                flag.set()

    return Handler()
