"""The daemon by a clock of its own: whole days of it, in a moment and in one process."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from cronhpc.core.model import Call, Job, Queue, slot_text
from cronhpc.drivers.daemon import Bell, Daemon, Place
from cronhpc.engine import init
from cronhpc.engine.site import Site, open_site
from cronhpc.store.files import DiskClock
from cronhpc.tick import Report, tick
from tests import worlds
from tests.golden_directory import Cluster
from tests.worlds import Time

BEGIN = worlds.at("00:00:10")
HOUR, DAY = 3600, 86400


class QuickBell(Bell):
    """Nobody stands and waits for it."""

    def __init__(self, time: Time) -> None:
        super().__init__()
        self.time = time

    def wait(self, seconds: float) -> bool:
        self.time.pass_until(self.time.now + seconds, unless=lambda: Bell.wait(self, 0))
        return super().wait(0)


class Machine(Cluster):
    """A job begins when it is released, or at the time it asks for, and runs for 40 seconds."""

    def __init__(self, time: Time) -> None:
        super().__init__([])
        self.time = time
        self.released: dict[str, float] = {}

    def queue(self) -> Queue:
        return Queue(tuple(map(self._seen, self.jobs)))

    def _seen(self, job: Job) -> Job:
        began = max(self.released.get(job.id, math.inf), job.start or 0)
        if job.ended is not None or began > self.time.now:
            return job
        if began + 40 > self.time.now:
            return replace(job, state="RUNNING", start=int(began))
        return replace(job, state="COMPLETED", start=int(began), ended=int(began) + 40, exit_code=0)

    def release(self, job_ids: Sequence[str]) -> None:
        self.released |= dict.fromkeys(job_ids, self.time.now)

    def clock(self) -> int:
        return int(self.time.now)


class Unwatched(Daemon):
    """No thread looks at its folders: it is rung for by a test."""

    def _watch_over(self, places: tuple[Place, ...]) -> None:
        pass


@dataclass
class Days:
    """A cron directory and a machine, at midnight."""

    root: Path
    time: Time = field(default_factory=lambda: Time(BEGIN))
    told: list[tuple[float, Report | Exception]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.machine = Machine(self.time)
        self.bell = QuickBell(self.time)

    def settings(self, entries: str) -> None:
        path = self.root / "cronhpc.yaml"
        path.write_text(f"timezone: UTC\nentries:\n{entries}")
        os.utime(path, (self.time.now - 60, self.time.now - 60))

    def site(self) -> Site:
        opened = open_site(str(self.root), "local", {"HOME": str(self.root.parent)})
        return replace(opened, batch=self.machine)

    def pass_by(self, seconds: float) -> None:
        """A daemon runs so long, or until it ends."""

        def tell(news: Report | Exception) -> None:
            self.told.append((self.time.now - BEGIN, news))

        time = self.time
        Unwatched(self.site, lambda: time.now, tell, seconds=seconds, elapsed=lambda: time.now, bell=self.bell).run()

    @property
    def ticks(self) -> list[float]:
        """After how many seconds each was."""
        return [round(at, 3) for at, news in self.told if isinstance(news, Report)]


@pytest.fixture
def days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Days:
    # a file's ctime is of the machine's clock: its mtime, which a test may set, is taken for both
    monkeypatch.setattr(DiskClock, "ours", lambda _, found, __: int(found.st_mtime))
    monkeypatch.setattr("cronhpc.engine.site.disk_clock", lambda _: DiskClock())
    init.init(tmp_path / "cron", {})
    made = Days(tmp_path / "cron")
    made.settings('  e: {schedule: "0 0 1 1 *", command: "true"}\n')
    return made


@pytest.mark.thorough
def test_for_a_day_each_slot_runs_once_and_at_its_second(days: Days) -> None:
    """At noon others become due. A tick at the slot, two looks until its run has ended, and one an hour."""
    days.settings('  e: {schedule: "30 * * * *", command: "true"}\n')
    days.time.at(DAY / 2, lambda: days.settings('  e: {schedule: "45 */6 * * *", command: "true"}\n'))
    days.time.at(DAY / 2, days.bell.ring)
    days.pass_by(DAY)
    slots = [*range(1790, DAY // 2, HOUR), DAY // 2 + 2690, DAY // 2 + 2690 + 6 * HOUR]
    assert [days.machine.released[job.id] - BEGIN for job in days.machine.jobs] == slots
    assert [job.comment.rpartition("@")[2] for job in days.machine.jobs] == [
        f"{slot_text(BEGIN + slot)}.1" for slot in slots
    ]
    assert {slot + look for slot in slots for look in (0, 30, 60)} <= set(days.ticks)
    assert len(days.ticks) <= 3 * len(slots) + 24 + 2


def test_an_idle_one_ticks_once_an_hour_and_sighup_makes_it(days: Days) -> None:
    days.time.at(HOUR, lambda: os.kill(os.getpid(), signal.SIGHUP))
    days.pass_by(2 * HOUR - 30)
    assert days.ticks == [0, HOUR - 10, HOUR + 0.1]
    assert days.machine.jobs == []


@pytest.mark.parametrize("installed", [True, False], ids=["by deploy/install", "otherwise: nothing is made"])
def test_it_says_that_the_version_that_it_is_of_is_in_use(
    days: Days,
    monkeypatch: pytest.MonkeyPatch,
    installed: bool,  # noqa: FBT001 - a table
) -> None:
    mark = days.root / "in-use"
    monkeypatch.setattr("cronhpc.drivers.daemon._IN_USE", mark)
    if installed:
        mark.touch()
        os.utime(mark, (0, 0))
    days.pass_by(60)
    assert mark.exists() == installed
    assert not installed or mark.stat().st_mtime > 0


def test_a_run_ordered_by_hand_is_seen_by_an_idle_one_within_five_seconds(days: Days) -> None:
    """So that its failure is told within half a minute, and not at the next slot."""

    def ordered() -> None:
        tick(days.site(), int(days.time.now), Call(only="e"))

    days.time.at(1001, ordered)
    days.pass_by(1100)
    assert [at for at in days.ticks if at > 1000] == [1005, 1035, 1065]  # then it has ended


def test_events_without_end_call_for_fewer_and_fewer_ticks(days: Days) -> None:
    """Each tick asks the batch system for its queue."""
    for nth in range(3_000):
        days.time.at(100 + nth / 10, days.bell.ring)
    days.pass_by(2000)
    busy = [at for at in days.ticks if 100 <= at < 400]
    assert len([at for at in busy if at < 105]) <= 3
    assert 10 < len(busy) < 18
    assert [at for at in days.ticks if at > 431] == []  # then it is quiet again


def test_a_switch_that_is_flipped_in_a_loop_calls_for_three_ticks_in_twelve_seconds(days: Days) -> None:
    """Each tick asks the controller; the first flips wait for nothing: a pause and its end are two."""
    for nth in range(600):
        days.time.at(nth / 10, lambda: days.bell.ring(urgent=True))
    days.pass_by(60)
    ticks = days.ticks
    assert ticks[3] - ticks[0] < 1
    assert 13 < len(ticks) < 21
    assert all(ticks[at + 3] - ticks[at] > 11 for at in range(1, len(ticks) - 3))


@pytest.mark.parametrize("before", [False, True], ids=["none before", "an old one, which ends nothing"])
def test_cronhpc_stop_ends_it_within_five_seconds(days: Days, before: bool) -> None:  # noqa: FBT001 - a table
    stop = days.root / "scheduler" / "stop"
    if before:
        stop.touch()
        days.time.at(50, stop.unlink)
    days.time.at(101, stop.touch)
    days.pass_by(HOUR)
    assert 101 <= days.time.now - BEGIN <= 106


def test_it_ends_after_the_time_given(days: Days) -> None:
    days.pass_by(100)
    assert days.time.now - BEGIN == 100


def test_settings_that_cannot_be_used_are_said_once_and_the_entries_of_before_run(days: Days) -> None:
    days.settings('  e: {schedule: "*/20 * * * *", command: "true"}\n')
    path = days.root / "cronhpc.yaml"
    days.time.at(100, lambda: path.write_text("schedular: 1\n"))
    days.pass_by(HOUR)
    [(at, error)] = [(at, news) for at, news in days.told if isinstance(news, Exception)]
    assert (at, "schedular" in str(error)) == (1190, True)
    assert len(days.machine.jobs) == 4


def test_where_it_cannot_work_it_tries_again_each_minute_and_says_so_once(days: Days) -> None:
    away = days.root.with_name("away")
    days.time.at(100, lambda: days.root.rename(away))
    days.time.at(2 * HOUR, lambda: away.rename(days.root))
    days.pass_by(2.5 * HOUR)
    assert [at for at, news in days.told if isinstance(news, Exception)] == [100]
    assert days.ticks[0] == 0
    assert 2 * HOUR <= days.ticks[1] <= 2 * HOUR + 60
