"""The nights on which Paris changes its clocks, simulated on a real Slurm: one link each hour that there is."""

from __future__ import annotations

import pytest

from tests.lab.helpers_days import HOUR, Evidence, days, evidence_of, grid, instant, simulated, simulation, twice

pytestmark = pytest.mark.lab

SETTINGS = """\
timezone: Europe/Paris
sbatch: {partition: cpu}
scheduler: {interval: 1h, min-interval: 1h, sbatch: {time: 300}}
"""
# The local day, from midnight to midnight, in UTC.
AUTUMN = instant("2024-10-26 22:00"), instant("2024-10-27 23:00")
SPRING = instant("2024-03-30 23:00"), instant("2024-03-31 22:00")


def a_local_day(begin: str, end: int) -> Evidence:
    with days(begin, SETTINGS) as day:
        day.script("cron.d/fixed.slurm", "#CRON 30 2 * * *")
        day.script("cron.d/half.slurm", "#CRON */30 * * * *")
        day.script("cron.d/third-hour.slurm", "#CRON 0 3 * * *")
        day.cronhpc("start")
        day.watch(end + HOUR // 3)
        day.finish()
        return day.evidence()


@simulation(165)
def autumn() -> Evidence:
    """25 hours, and two before them, in which a busy machine gets everything going."""
    return a_local_day("2024-10-26 20:10", AUTUMN[1])


@simulation(155)
def spring() -> Evidence:
    """23 hours."""
    return a_local_day("2024-03-30 21:10", SPRING[1])


@simulated(autumn)
def test_the_autumn_day_has_25_links_one_an_hour(request: pytest.FixtureRequest) -> None:
    day = evidence_of(autumn, request)
    assert day.forks() == []
    assert day.links(*AUTUMN) == [f"{(22 + n) % 24:02}:00" for n in range(25)]  # in UTC


@simulated(autumn)
def test_in_autumn_a_fixed_time_runs_once_and_a_wildcard_in_both_passes(request: pytest.FixtureRequest) -> None:
    day = evidence_of(autumn, request)
    assert twice(day) == {}
    assert day.slots("fixed", *AUTUMN) == [instant("2024-10-27 00:30")]  # 02:30 summer time, the first pass
    assert day.slots("third-hour", *AUTUMN) == [instant("2024-10-27 02:00")]
    assert day.slots("half", *AUTUMN) == grid(*AUTUMN, HOUR // 2)
    assert len(day.slots("half", *AUTUMN)) == 50


@simulated(spring)
def test_the_spring_day_has_23_links_one_an_hour(request: pytest.FixtureRequest) -> None:
    day = evidence_of(spring, request)
    assert day.forks() == []
    assert day.links(*SPRING) == [f"{(23 + n) % 24:02}:00" for n in range(23)]  # in UTC


@simulated(spring)
def test_in_spring_a_skipped_time_runs_once_just_after_the_change(request: pytest.FixtureRequest) -> None:
    day = evidence_of(spring, request)
    assert twice(day) == {}
    assert day.slots("fixed", *SPRING) == [instant("2024-03-31 01:00")]  # 02:30 does not exist: 03:00 summer time
    assert day.slots("third-hour", *SPRING) == [instant("2024-03-31 01:00")]
    assert day.slots("half", *SPRING) == grid(*SPRING, HOUR // 2)
    assert len(day.slots("half", *SPRING)) == 46
