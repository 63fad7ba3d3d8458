"""The daemon: file events, due slots and the interval call the same tick that the scheduler's job calls."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import cronhpc
from cronhpc.core import chain
from cronhpc.core.model import Call, ClaimState, CronhpcError, Done, Finish, Reason, SettingsError, Stop, Wait
from cronhpc.core.slots import UNFINISHED_WAKE
from cronhpc.cron.values import dataclass
from cronhpc.engine.site import Site, reckoned
from cronhpc.inside.switch_file import UNSEEN
from cronhpc.store import disk, scheduler
from cronhpc.store.files import MARKER, Paths
from cronhpc.tick import Report, tick

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers.api import BaseObserver

    from cronhpc.core.model import BadNode, Settings


# --- file events, as hints: they only ring a bell, and a tick looks at everything itself ------------------------------

# inotify sees no change made on another node, so it is used on local disks alone; elsewhere, and on file systems that
# nobody here knows, folders are polled. An observer that died, or whose folder was swapped for another, is built anew.

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

    A pipe and `select`: a signal that came while the one sets a threading.Event would wait for itself.
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


def identity(path: Path) -> Identity | None:
    """Device and inode of a folder; None where it cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Watch:
    """Rings `bell` when something in `places` may have changed, until `stop`. The rescans see what it cannot watch."""

    def __init__(self, places: Iterable[Place], bell: Bell, *, poll: bool = False) -> None:
        self.places = tuple(places)
        self.bell = bell
        self._observers: list[BaseObserver] = []
        self._seen = {place.path: identity(place.path) for place in self.places}
        self._files: dict[Place, frozenset[str] | None] = {}  # of polled folders: what is there, of `names` at least
        groups: dict[float, list[Place]] = {}
        for place in self.places:
            if self._seen[place.path] is None:
                continue
            polled = poll or not disk.is_local(place.path)
            if polled and (place.names or place.urgent):  # `healthy` looks: an observer's stats may be a minute old
                self._files[place] = _present(place)
            if not polled or not place.names:  # else no observer compares all else that lies there
                groups.setdefault(place.every if polled else 0.0, []).append(place)
        for every, alike in groups.items():
            self._observe(every, alike)

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
            now = _present(place)
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


def _present(place: Place) -> frozenset[str] | None:
    """Which of the names, or of all, are in the folder, by its listing: a stat may be a minute old. None: unknown."""
    try:
        names = frozenset(each.name for each in place.path.iterdir())
        return names & place.names if place.names else names
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


# --- the daemon -------------------------------------------------------------------------------------------------------

_QUIET = 0.3  # seconds without an event before a tick: an editor saves in several steps
_BURST = 1.0  # but no longer than this after the first one
_URGENT = 0.1  # a switch waits for its reason to be written, and for nothing else
_GAP = 1.0  # between two ticks that events call for; twice as long each time, as long as they go on
_LOOK = 5.0  # seconds between looks at the watch itself and at the stop mark
_QUEUE = 30  # seconds between looks at the queue while runs live
_ENDING = 5  # … while something that was stopped is still there
_LAST_WORK = 0.7  # seconds that a tick at work gets to end after SIGTERM; what it leaves is claimed
_AGAIN = 60  # seconds after a tick that could not work
_UNKNOWN = 30  # … between looks at switches of which something is unknown
_IN_USE = Path(cronhpc.__path__[0], "../../../../in-use")  # of a version that deploy/install has made
_FLIPS, _FLIPS_IN = 3, 12.0  # so many ticks in so many seconds may switches call for: somebody may flip one in a loop


class Daemon:
    """The daemon of one cron directory. `clock` gives epoch seconds; `tell` gets each report or error.

    `link`: the job of a chain that this runs in; it makes way for its successor. `bad_nodes`: where those cannot work.
    `seconds`: it ends after these. `doubt`: the batch system is asked first what time it is.
    `elapsed` measures how long, and time passes in `bell.wait` alone.
    """

    def __init__(
        self,
        open_site: Callable[[], Site],
        clock: Callable[[], float],
        tell: Callable[[Report | Exception], None],
        *,
        link: str = "",
        bad_nodes: tuple[BadNode, ...] = (),
        seconds: float | None = None,
        poll: bool = False,
        doubt: bool = False,
        elapsed: Callable[[], float] = time.monotonic,
        bell: Bell | None = None,
    ) -> None:
        self.open_site = open_site
        self.clock = clock
        self.doubt = doubt  # the batch system is to be asked what time it is
        self.off = 0  # seconds to add to `clock`, where the batch system's says otherwise
        self.tell = tell
        self.link = link
        self.bad_nodes = bad_nodes
        self.elapsed = elapsed
        self.until = None if seconds is None else elapsed() + seconds
        self.poll = poll
        self.bell = bell or Bell()
        self.ended = False
        self.relieved = False  # the successor runs
        self.watch: Watch | None = None
        self.last_resort: threading.Timer | None = None
        self.paths: Paths | None = None
        self.stops_before: frozenset[str] = frozenset()  # those that stood when it began end it no more
        self.claimed: int | None = None  # when a run was claimed last, as of the last tick
        self.took = 0.0  # seconds, the last tick
        self.gap = _GAP
        self.urgent: deque[float] = deque(maxlen=_FLIPS)  # when switches called for ticks last
        self.complaints: dict[str, str] = {}  # the errors told last, of ticks and of settings

    def run(self) -> None:
        """Tick until SIGTERM, SIGINT, `cronhpc stop`, or the time given is over. Raises CronhpcError at the start."""
        site = self.open_site()
        self.paths = site.paths
        self.stops_before = scheduler.marks(site.paths).stops
        handlers = {number: signal.signal(number, self._end) for number in (signal.SIGTERM, signal.SIGINT)}
        handlers[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._reread)
        try:
            while not self._over():
                self.bell.still()
                self._watch_over(watched(site.paths, site.settings))
                with suppress(OSError):
                    os.utime(_IN_USE)
                wait = self._tick(site)
                self._sleep(wait)
                site = self._reopened(site)
        finally:
            if self.watch is not None:
                self.watch.stop()
            if self.last_resort is not None:
                self.last_resort.cancel()
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self.bell.close()

    # --- signals

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        """A controller that does not answer may hold a tick for a minute: it is not waited for."""
        self.ended = True
        self.bell.ring()
        if self.last_resort is None:
            self.last_resort = threading.Timer(_LAST_WORK, _leave)
            self.last_resort.daemon = True
            self.last_resort.start()

    def _reread(self, _number: int, _frame: FrameType | None) -> None:
        self.bell.ring(urgent=True)

    def _over(self) -> bool:
        late = self.until is not None and self.elapsed() >= self.until
        return self.ended or self.relieved or late or self._stopped()

    def _stopped(self) -> bool:
        """Whether `stop` was called since this began."""
        try:
            stops = scheduler.marks(self.paths).stops if self.paths is not None else frozenset()
        except OSError:
            return False  # unknown: looked at again
        self.stops_before &= stops
        return bool(stops - self.stops_before)

    # --- one round

    def _tick(self, site: Site) -> float:
        """Seconds until the next tick is wanted whatever happens."""
        began = self.elapsed()
        try:
            report = self._pass(site)
        except (CronhpcError, OSError) as error:  # a full disk, a folder not mounted: it may be fixed
            self._complain("tick", error)
            return _AGAIN
        finally:
            self.took = self.elapsed() - began
            self.claimed = _changed(site.paths.claims)
        self.tell(report)
        self.complaints.pop("tick", None)
        running = chain.Links.of(report.world).running if self.link else ()
        self.relieved = any(int(job.id) > int(self.link) for job in running)  # its successor has a higher id
        return self._wanted(report)

    def _pass(self, site: Site) -> Report:
        """One tick, by the clock that is right."""
        mine = int(self.clock())
        site, now = reckoned(site, mine + self.off, doubt=self.doubt)
        self.off, self.doubt = now - mine, self.doubt and not site.clock_verified
        return tick(site, now, Call(self.link, by_daemon=True, bad_nodes=self.bad_nodes))

    def _complain(self, source: str, error: Exception) -> None:
        """Tell of an error only when it differs from the last."""
        if str(error) != self.complaints.get(source):
            self.complaints[source] = str(error)
            self.tell(error)

    def _wanted(self, report: Report) -> float:
        """The next slot of any entry, a look at live runs, or the interval: the rescan that is the truth."""
        now = self.clock() + self.off
        world, decisions = report.world, report.plan.decisions
        at = [now + world.settings.interval, float(report.plan.wake)]
        # Also one that has come while the tick worked, which saw it as one to come.
        at += [d.slot for d in decisions if isinstance(d, Wait) and d.slot is not None and d.slot > world.now]
        if any(isinstance(d, Wait) and d.reason is Reason.JUST_CHANGED for d in decisions):
            at.append(now + 3)
        if any(isinstance(d, Stop) and (d.pending or d.running or d.warn or d.unasked) for d in decisions):
            at.append(now + _ENDING)
        at += [c.retry_at for c in world.claims if c.retry_at is not None and c.retry_at > world.now]
        ended = [o.decision for o in report.outcomes if o.done is Done.OK and isinstance(o.decision, Finish)]
        at += [d.retry_at for d in ended if d.retry_at is not None]  # found by this very tick
        over = {d.key for d in ended if d.retry_at is None}
        live = any(c.state is not ClaimState.FINISHED and c.key not in over for c in world.claims)
        if live or any(o.job_id for o in report.outcomes) or world.queue is None or world.kept.kill_records:
            at.append(now + _QUEUE)
        if report.unreachable:  # a submission gave no answer, or met a limit
            at.append(now + UNFINISHED_WAKE)
        if world.switches.unknown or any(switch.by == UNSEEN for switch in world.switches.listed):
            at.append(now + _UNKNOWN)
        if self.link:
            at += [_look_for(job.start, now) for job in chain.Links.of(world).successors]
        return max(0.05, min(at) - now)

    def _sleep(self, seconds: float) -> None:
        """Until then, or until something happens and it has been quiet for a moment."""
        began = self.elapsed()
        until = began + seconds if self.until is None else min(began + seconds, self.until)
        while not self._over() and (left := until - self.elapsed()) > 0:
            if self.bell.wait(min(left, _LOOK)):
                self._wait_until_quiet()
                self._rest(began, until)
                return
            if self.watch is not None and not self.watch.healthy():
                return  # the round begins with a new watch, and a rescan
            if seconds > _QUEUE and self.paths and _changed(self.paths.claims) != self.claimed:
                return  # somebody has ordered a run: how it ends is looked for from now on

    def _wait_until_quiet(self) -> None:
        first = self.elapsed()
        while not self._over() and self.elapsed() - first < (_URGENT if self.bell.urgent else _BURST):
            self.bell.drain()
            if not self.bell.wait(_URGENT if self.bell.urgent else _QUIET):
                return

    def _rest(self, since: float, until: float) -> None:
        """Events without end must keep neither a core busy nor the controller; the first switches wait for nothing."""
        while not self._over():
            many = len(self.urgent) == _FLIPS
            urgent_gap = max(self.took, self.urgent[0] + _FLIPS_IN - since if many else 0.0)
            gap = urgent_gap if self.bell.urgent else self.gap
            left = min(since + gap, until) - self.elapsed()
            if left <= 0:
                break
            self.bell.drain()
            self.bell.wait(left)
        if self.bell.urgent:
            self.urgent.append(self.elapsed())
        quiet = self.elapsed() - since > _QUEUE
        self.gap = _GAP if quiet else min(2 * self.gap, _QUEUE)

    def _watch_over(self, places: tuple[Place, ...]) -> None:
        if self.watch is not None and self.watch.places == places and self.watch.healthy():
            return
        if self.watch is not None:
            self.watch.stop()
        self.watch = Watch(places, self.bell, poll=self.poll)

    def _reopened(self, site: Site) -> Site:
        """Settings may have changed. While they cannot be used the daemon goes on with those it had."""
        while not self._over():
            try:
                site = self.open_site()
            except SettingsError as error:
                self._complain("settings", error)
                return site
            except (CronhpcError, OSError) as error:
                self._complain("settings", error)
                self._sleep(_AGAIN)
            else:
                self.complaints.pop("settings", None)
                return site
        return site


def _changed(folder: Path) -> int | None:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return None


def _look_for(start: int | None, now: float) -> float:
    """When to see whether the successor, which is to start then, runs."""
    if start is None or start < now - _QUEUE:
        return now + _QUEUE  # it waits for its turn
    return max(start, now + _ENDING)


def _leave() -> None:
    """End now; what a tick at work leaves is claimed."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(0)


def watched(paths: Paths, settings: Settings) -> tuple[Place, ...]:
    """The folders whose changes matter."""
    switches = [paths.kill, paths.pause, *(Path(each).expanduser() for each in settings.kill_also)]
    files: dict[Path, set[str]] = {}
    for row in settings.switches:
        if row.file:
            path = Path(row.file).expanduser()
            files.setdefault(path.parent, set()).add(path.name)
    entries = [paths.root / f"cron.{name}" for name, _ in settings.folders] + [paths.root / "cron.d"]
    own = frozenset({MARKER, "kill", "pause", *(path.name for path in entries)})  # status.json is our own doing
    return (
        *(Place(path, SWITCH_POLL, urgent=True) for path in dict.fromkeys(switches)),
        *(Place(path, SWITCH_POLL, urgent=True, names=frozenset(names)) for path, names in files.items()),
        *(Place(path) for path in entries),
        Place(paths.root, names=own),
        Place(paths.scheduler, names=frozenset({"stop", scheduler.marks(paths).next_stop})),
    )
