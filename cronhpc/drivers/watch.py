"""File events, as hints: they only ring a bell, and a tick looks at everything itself.

inotify sees no change made on another node, so it is used on local disks alone; elsewhere, and on file systems that
nobody here knows, folders are polled. An observer that died, or whose folder was swapped for another, is built anew.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress
from typing import TYPE_CHECKING

from cronhpc.cron.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers.api import BaseObserver

LOCAL = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs", "reiserfs", "zfs", "tmpfs", "ramfs", "overlay"}
)
SWITCH_POLL = 5.0  # seconds between looks at a switch folder that is polled: it holds few files
FOLDER_POLL = 30.0  # at 1 s, 10,000 files would cost a tenth of a core

Identity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Place:
    """A folder whose changes matter. `names`: only these in it; none: all. `urgent`: something may have to stop."""

    path: Path
    every: float = FOLDER_POLL  # seconds, where it is polled
    urgent: bool = False
    names: frozenset[str] = frozenset()


class Bell:
    """Rung by threads and signal handlers, waited for by one.

    A pipe and `select` instead of threading.Event: its time-outs follow a test's compressed clock, too.
    """

    def __init__(self) -> None:
        self.urgent = False
        self._out, self._in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def ring(self, *, urgent: bool = False) -> None:
        """Never blocks: where the pipe is full it has been rung."""
        self.urgent = self.urgent or urgent
        with suppress(OSError):
            os.write(self._in, b"!")

    def wait(self, seconds: float) -> bool:
        """Whether it was rung within that time."""
        ready, _, _ = select.select([self._out], [], [], max(seconds, 0.0))
        return bool(ready)

    def still(self) -> None:
        """Forget that it was rung."""
        self.urgent = False
        self.drain()

    def drain(self) -> None:
        """Wait anew; whether it was urgent is remembered."""
        with suppress(BlockingIOError):
            while len(os.read(self._out, 65536)) == 65536:  # noqa: PLR2004 - what one read takes
                pass

    def close(self) -> None:
        """Let go of the pipe; nobody may ring after that."""
        os.close(self._out)
        os.close(self._in)


def is_local(path: Path) -> bool:
    """Whether inotify sees every change there."""
    from cronhpc.store.disk import kind_of

    return kind_of(path) in LOCAL


def identity(path: Path) -> Identity | None:
    """Device and inode of a folder; None where it cannot be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Watch:
    """Rings `bell` when something in one of `places` may have changed."""

    def __init__(self, places: Iterable[Place], bell: Bell, *, poll: bool = False) -> None:
        self.places = tuple(places)
        self.bell = bell
        self.poll = poll
        self._observers: list[BaseObserver] = []
        self._seen: dict[Path, Identity | None] = {}
        self._files: dict[Place, frozenset[str] | None] = {}  # of polled folders: what is there, of `names` at least

    def start(self) -> None:
        """Begin, or begin again. What cannot be watched is left to the rescans."""
        self.stop()
        groups: dict[float, list[Place]] = {}
        for place in self.places:
            self._seen[place.path] = identity(place.path)
            if self._seen[place.path] is None:
                continue
            polled = self.poll or not is_local(place.path)
            if polled and (
                place.names or place.urgent
            ):  # looked for by `healthy`: an observer's stats may be a minute old
                self._files[place] = _there(place)
            if not polled or not place.names:  # else no observer compares all else that lies there
                groups.setdefault(place.every if polled else 0.0, []).append(place)
        for every, places in groups.items():
            self._observe(every, places)

    def _observe(self, every: float, places: list[Place]) -> None:
        """`every` 0: by events. Those that cannot be had (no more inotify watches) are polled for."""
        from watchdog.observers import Observer
        from watchdog.observers.polling import PollingObserverVFS

        # lstat: a link that leads nowhere is a switch, too
        polls = PollingObserverVFS(os.lstat, os.scandir, polling_interval=every) if every else None
        observer: BaseObserver = polls or Observer()
        observer.start()
        self._observers.append(observer)
        left: dict[float, list[Place]] = {}
        for place in places:
            try:
                observer.schedule(_handler(self.bell, place), str(place.path), event_filter=_kinds())
            except OSError:
                left.setdefault(place.every, []).append(place)
        if every == 0.0:
            for slower, rest in left.items():
                self._observe(slower, rest)

    def healthy(self) -> bool:
        """Whether every observer lives and still looks at the folder that the path names."""
        for place, before in self._files.items():
            now = _there(place)
            if now != before:
                self._files[place] = now
                self.bell.ring(urgent=True)
        return all(_alive(observer) for observer in self._observers) and all(
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
        self._files = {}


def _there(place: Place) -> frozenset[str] | None:
    """Which of the names, or of all, are in the folder, by its listing: a stat may be a minute old. None: unknown."""
    try:
        found = frozenset(each.name for each in place.path.iterdir())
        return found & place.names if place.names else found
    except OSError:
        return None


def _alive(observer: BaseObserver) -> bool:
    return observer.is_alive() and all(emitter.is_alive() for emitter in observer.emitters)


def _kinds() -> list[type[FileSystemEvent]]:
    """What rings: reading a file does not, or each tick would be the cause of the next."""
    from watchdog import events

    return [
        *(events.FileCreatedEvent, events.FileMovedEvent, events.FileModifiedEvent, events.FileClosedEvent),
        *(events.FileDeletedEvent, events.DirCreatedEvent, events.DirMovedEvent, events.DirDeletedEvent),
    ]


def _handler(bell: Bell, place: Place) -> FileSystemEventHandler:
    from watchdog.events import FileSystemEventHandler

    class Handler(FileSystemEventHandler):
        """Does nothing that could raise: a handler that does ends the dispatcher in silence."""

        def on_any_event(self, event: FileSystemEvent) -> None:
            paths = (os.fsdecode(event.src_path), os.fsdecode(event.dest_path or ""))
            if not place.names or any(path.rpartition("/")[2] in place.names for path in paths):
                bell.ring(urgent=place.urgent)

    return Handler()
