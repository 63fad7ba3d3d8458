"""A day on a real Grid Engine whose clock runs fast: a pause, a master that is away for a while, each slot once."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cronhpc.batch.grid_engine import GridEngine
from cronhpc.batch.port import Unreachable
from deploy.lab.slurmlab.clock import Clock
from deploy.lab.slurmlab.options import Options
from tests.lab.conftest import Lab
from tests.lab.helpers_days import (
    DAY,
    HOUR,
    Days,
    Ended,
    Evidence,
    evidence_of,
    grid,
    instant,
    simulated,
    simulation,
    twice,
    unhurried,
)
from tests.lab.helpers_grid_engine import a_cell

pytestmark = pytest.mark.lab

MIDNIGHT = instant("2025-11-27 00:00")
END = MIDNIGHT + DAY
AWAY = MIDNIGHT + 6 * HOUR + 50 * 60
PAUSED, RESUMED = MIDNIGHT + 12 * HOUR + 20 * 60, MIDNIGHT + 15 * HOUR + 20 * 60
SETTINGS = "backend: grid_engine\ntimezone: UTC\nscheduler: {interval: 1h, min-interval: 1h, sbatch: {time: 300}}\n"


class CellDays(Days):
    """Days on Grid Engine, which keeps no times at which its jobs were to begin."""

    def queue(self) -> list[tuple[str, str, str]] | None:
        try:
            jobs = GridEngine(self.lab.env).queue().jobs
        except Unreachable:
            return None
        mark = f"cronhpc={self.id}/"
        return [
            (job.id, job.state, job.comment.removeprefix(mark).split(" ")[0]) for job in jobs if mark in job.comment
        ]

    def _ended(self) -> Iterator[Ended]:
        return iter(())


@simulation(170)
def a_day() -> Evidence:
    """A day, and an hour before it in which a busy machine gets everything going."""
    speed = unhurried(600)
    clock = Clock(Options(speed=speed, start_time=instant("2025-11-26 22:40")))
    place = Path(tempfile.mkdtemp(prefix="lab-days-"))
    (place / "ran").mkdir()
    try:
        with a_cell(clock.environment) as cell:
            day = CellDays(Lab(cell.folder, {"env": {**cell.environ, **clock.environment}}), place, speed)
            day.cronhpc("init", "--backend", "grid_engine")
            (day.root / "cronhpc.yaml").write_text(SETTINGS, encoding="utf-8")
            day.script("cron.d/hourly.slurm", "#CRON 0 * * * *")
            day.script("cron.d/half-past.slurm", "#CRON 30 * * * *")
            day.cronhpc("start")
            day.watch(AWAY)
            cell.master("kill")
            day.watch_blind(AWAY + HOUR // 2)
            cell.master("start")
            day.watch(PAUSED)
            day.cronhpc("pause", "half-past")
            day.watch(RESUMED)
            day.cronhpc("resume", "half-past")
            day.noted["resumed"] = day.now
            day.watch(END + HOUR // 2)
            day.noted["left"] = day.queue()
            day.finish()
            return day.evidence()
    finally:
        clock.stop()
        shutil.rmtree(place, ignore_errors=True)


@simulated(a_day)
def test_each_slot_of_a_day_runs_once_while_the_master_is_away_in_between(request: pytest.FixtureRequest) -> None:
    day = evidence_of(a_day, request)
    assert twice(day) == {}
    assert day.slots("hourly", MIDNIGHT, END) == grid(MIDNIGHT, END, HOUR)


@simulated(a_day)
def test_what_is_paused_for_three_hours_of_it_runs_before_and_after_and_each_slot_is_told(
    request: pytest.FixtureRequest,
) -> None:
    day = evidence_of(a_day, request)
    slots = grid(MIDNIGHT, END, HOUR, HOUR // 2)
    told = day.told("half-past", slots)
    assert set(told) == set(slots), told
    stopped = {slot for slot, result in told.items() if result.startswith("stopped: pause/half-past")}
    assert stopped == set(slots) - set(day.slots("half-past", MIDNIGHT, END)), told
    assert {RESUMED - 110 * 60, RESUMED - 50 * 60} <= stopped
    assert all(PAUSED <= slot <= day.noted["resumed"] for slot in stopped)


@simulated(a_day)
def test_the_chain_of_a_day_never_forks_and_lives_at_its_end(request: pytest.FixtureRequest) -> None:
    day = evidence_of(a_day, request)
    assert day.forks_left() == []
    links = re.findall(r"link (\d+): successor (\d+)", day.log)
    assert len(links) >= DAY // HOUR, day.log
    assert ("PENDING", "link") in [(state, word) for _, state, word in day.noted["left"]]
