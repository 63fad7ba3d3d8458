"""The resident driver: file events, due slots and the interval call the same tick that the scheduler's job calls."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.core.model import ClaimState, CronhpcError, Reason, Wait
from cronhpc.tick import AtWork, Report, tick
from cronhpc.watch import FOLDER_POLL, SWITCH_POLL, Watch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from cronhpc.read import Site

_QUIET = 0.3  # seconds without an event before a tick: an editor saves in several steps
_BURST = 1.0  # but no longer than this after the first one
_LOOK = 5.0  # seconds between looks at the watch itself and at the stop mark
_QUEUE = 30  # seconds between looks at the queue while runs live
_LAST_WORK = 0.8  # seconds that a tick at work gets to end after SIGTERM; what it leaves is claimed
_AGAIN = 60  # seconds after a tick that could not work


class Daemon:
    """One cron directory's resident. `clock` gives epoch seconds; `tell` gets each report or error."""

    def __init__(
        self,
        open_site: Callable[[], Site],
        clock: Callable[[], float],
        tell: Callable[[Report | AtWork | Exception], None],
        *,
        link: str = "",
        seconds: float | None = None,
        poll: bool = False,
    ) -> None:
        self.open_site = open_site
        self.clock = clock
        self.tell = tell
        self.link = link
        self.until = None if seconds is None else time.monotonic() + seconds
        self.poll = poll
        self.event = threading.Event()
        self.ended = threading.Event()
        self.busy = False
        self.watch: Watch | None = None
        self.stop_mark: Path | None = None
        self.stopped_before = False

    def run(self) -> None:
        """Tick until SIGTERM, SIGINT, `cronhpc stop`, or the time given is over. Raises CronhpcError at the start."""
        site = self.open_site()
        self.stop_mark = site.paths.stop
        self.stopped_before = self.stop_mark.exists()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        signal.signal(signal.SIGHUP, self._reread)
        try:
            while not self._over():
                self.event.clear()
                self._watch_over(site)
                wait = self._tick()
                site = self._reopened(site)
                self._sleep(wait)
        finally:
            if self.watch is not None:
                self.watch.stop()

    # --- signals

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self.ended.set()
        self.event.set()
        if self.busy:  # a controller that does not answer may hold a tick for a minute: do not wait for it
            last = threading.Timer(_LAST_WORK, os._exit, [0])
            last.daemon = True
            last.start()

    def _reread(self, _number: int, _frame: FrameType | None) -> None:
        self.event.set()

    def _over(self) -> bool:
        stopped = self.stop_mark is not None and self.stop_mark.exists()
        self.stopped_before = self.stopped_before and stopped
        late = self.until is not None and time.monotonic() >= self.until
        return self.ended.is_set() or late or (stopped and not self.stopped_before)

    # --- one round

    def _tick(self) -> float:
        """Seconds until the next tick is wanted whatever happens."""
        self.busy = True
        try:
            report = tick(self.open_site(), int(self.clock()), link=self.link, resident=True)
        except (CronhpcError, OSError) as error:  # bad settings, a full disk, a folder not mounted: it may be mended
            self.tell(error)
            return _AGAIN
        finally:
            self.busy = False
        self.tell(report)
        return 1.0 if isinstance(report, AtWork) else self._wanted(report)

    def _wanted(self, report: Report) -> float:
        """The next slot of any entry, a look at live runs, or the interval: the rescan that is the truth."""
        now = self.clock()
        world = report.world
        at = [now + world.settings.interval, float(report.plan.wake)]
        at += [d.slot for d in report.plan.decisions if isinstance(d, Wait) and d.slot is not None and d.slot > now]
        just_changed = any(isinstance(d, Wait) and d.reason is Reason.JUST_CHANGED for d in report.plan.decisions)
        if just_changed:
            at.append(now + 3)
        open_attempts = [c for c in world.claims if c.state is not ClaimState.SETTLED]
        if open_attempts or any(o.job_id for o in report.outcomes) or report.world.queue is None or world.warned:
            at.append(now + _QUEUE)
        return max(0.05, min(at) - now)

    def _sleep(self, seconds: float) -> None:
        """Until then, or until something happens and it has been quiet for a moment."""
        until = time.monotonic() + seconds
        if self.until is not None:
            until = min(until, self.until)
        while not self._over() and (left := until - time.monotonic()) > 0:
            if self.event.wait(min(left, _LOOK)):
                self._settle_down()
                return
            if self.watch is not None and not self.watch.healthy():
                return  # the round begins with a new watch, and a rescan

    def _settle_down(self) -> None:
        first = time.monotonic()
        while not self.ended.is_set() and time.monotonic() - first < _BURST:
            self.event.clear()
            if not self.event.wait(_QUIET):
                return

    def _watch_over(self, site: Site) -> None:
        folders = watched(site)
        if self.watch is not None and self.watch.folders == folders and self.watch.healthy():
            return
        if self.watch is not None:
            self.watch.stop()
        self.watch = Watch(folders, self.event, poll=self.poll)
        self.watch.start()

    def _reopened(self, site: Site) -> Site:
        """Settings may name other folders by now."""
        try:
            return self.open_site()
        except (CronhpcError, OSError):
            return site


def watched(site: Site) -> tuple[tuple[Path, float], ...]:
    """The folders whose changes matter, and how often they are polled where events do not reach."""
    paths, settings = site.paths, site.settings
    switches = [paths.kill, paths.pause, *(Path(each).expanduser() for each in settings.kill_also)]
    switches += [Path(row.file).expanduser().parent for row in settings.switches if row.file]
    folders = [paths.root / f"cron.{name}" for name, _ in settings.folders] + [paths.root / "cron.d"]
    rows = [(path, SWITCH_POLL) for path in switches] + [(path, FOLDER_POLL) for path in (*folders, paths.root)]
    return tuple(dict(rows).items())
