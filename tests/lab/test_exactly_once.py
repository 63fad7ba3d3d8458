"""Promise 1 on a real Slurm: wherever a scheduler dies, and whatever the disk refuses, each slot runs exactly once.

A tick with three due entries, yesterday's runs to settle and a chain to keep is killed at every call that changes
anything, in itself and in the commands it starts; the same with a full and with a broken disk. Then clean ticks.
With CRONHPC_ALL_POINTS=1 the points that CI samples are all walked.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import Lab, start, stop
from tests.lab.helpers_cron import Cron, give_a_past, make
from tests.lab.helpers_points import (
    PROCESS,
    STATE,
    WAIT,
    Point,
    Walked,
    points_of_a_command,
    points_of_a_tick,
    walk,
)

pytestmark = pytest.mark.lab

EVERY = bool(os.environ.get("CRONHPC_ALL_POINTS"))
KILL = "signal=KILL"
ONE_AT_A_TIME = "scheduler: {parallel: 1}\n"
HOUR = 3600

Maker = Callable[[str], Cron]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Lab]:
    made = start(min_job_age=150)
    yield made
    stop(made)


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Lab]:
    """No accounting, and ended jobs are gone from the queue after two seconds."""
    made = start(min_job_age=2)
    yield made
    stop(made)


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Callable[[str, Walked], None]:
    def say(what: str, walked: Walked) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n  {what}: {walked}\n")

    return say


def maker(lab: Lab, top: Path, settings: str = ONE_AT_A_TIME, *, links: bool = False) -> Maker:
    """Fresh directories with a past; `links`: with a chain that an earlier tick left, and that is to be pushed."""

    def made(name: str) -> Cron:
        (top / name).mkdir()
        cron = make(lab, top / name / "cron", settings=settings)
        give_a_past(cron)
        if links:
            cron.tick(-HOUR - 60)
        return cron

    return made


def sample(points: list[Point], every: int) -> list[list[Point]]:
    return [[point] for point in (points if EVERY else points[::every])]


@pytest.mark.parametrize(
    ("way", "every"),
    [
        ({"links": False}, 1),
        ({"links": True}, 4),
        ({"settings": ""}, 6),
    ],
    ids=["with no link in the queue", "with links to be pushed", "while it submits several at once"],
)
def test_a_tick_killed_at_any_of_its_calls(
    cluster: Lab, tmp_path: Path, tell: Callable[[str, Walked], None], way: dict[str, Any], every: int
) -> None:
    fresh = maker(cluster, tmp_path, **way)
    points = points_of_a_tick(fresh("recorded"), KILL, f"{STATE},{PROCESS},{WAIT}")
    walked = walk(cluster, sample(points, every), fresh)
    tell("a tick killed", walked)
    assert walked.struck > len(points) / every * 0.8
    assert walked.wrong == []


@pytest.mark.parametrize(
    ("program", "nth"),
    [("squeue", 1), ("sbatch", 1), ("sbatch", 2), ("sbatch", 4), ("scontrol", 1)],
    ids=["the query", "the successor's sbatch", "the spare's sbatch", "a run's sbatch", "the release"],
)
def test_a_command_of_a_tick_killed_at_any_of_its_calls_alone_and_with_the_tick(
    cluster: Lab, tmp_path: Path, tell: Callable[[str, Walked], None], program: str, nth: int
) -> None:
    fresh = maker(cluster, tmp_path)
    alone = points_of_a_command(fresh("recorded"), program, nth)
    walked = walk(cluster, [[each] for point in alone for each in (point, replace(point, tick_too=True))], fresh)
    tell(f"{program} {nth} killed", walked)
    assert walked.struck > len(alone)
    assert walked.wrong == []


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_a_disk_that_refuses_any_one_call_of_a_tick(
    cluster: Lab, tmp_path: Path, tell: Callable[[str, Walked], None], error: str
) -> None:
    fresh = maker(cluster, tmp_path)
    points = points_of_a_tick(fresh("recorded"), f"error={error}", f"{STATE},openat")
    walked = walk(cluster, [[point] for point in points], fresh)
    tell(f"{error} once", walked)
    assert walked.struck > len(points) * 0.8
    assert walked.wrong == []


def test_the_tick_that_mends_is_killed_as_well_and_ended_jobs_vanish_at_once(
    forgetful: Lab, tmp_path: Path, tell: Callable[[str, Walked], None]
) -> None:
    seed = int(os.environ.get("CRONHPC_SEED", "7"))
    chance = random.Random(seed)  # noqa: S311 - a lot to draw, no secret
    fresh = maker(forgetful, tmp_path)
    points = points_of_a_tick(fresh("recorded"), KILL, f"{STATE},{PROCESS}")
    rows = [[chance.choice(points), chance.choice(points)] for _ in range(400 if EVERY else 40)]
    walked = walk(forgetful, rows, fresh, frozenset({"ok", "ended, outcome unknown"}))
    tell(f"killed twice, seed {seed}", walked)
    assert walked.wrong == []
