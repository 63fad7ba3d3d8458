"""efficiency-report: what sacct prints, and what it means. With real accounting: tests/lab/test_jobs.py."""

from __future__ import annotations

from pathlib import Path

import pytest

import efficiency_report as report
from tests.ready_made_jobs import environment, filled_in, run, stand_in

GIB = 1 << 30
SACCT = """7|COMPLETED|3600|600|4|01:00:00||16G|1||train | a
7.batch|COMPLETED|3600||4|00:00:01|2097152K||1|1|batch
7.0|COMPLETED|3600||4|00:59:59|1048576K||1|4|python
8_1|CANCELLED by 1001|0|600|0|00:00:00||4Gn|1||never ran
9|TIMEOUT|7200|120|1|1-00:00:00||4Gn|2||long
10|RUNNING|100|UNLIMITED|2|00:00.000||2Gc|1||endless
"""


def test_a_job_is_read_with_its_steps() -> None:
    first, cancelled, long, endless = report.parse(SACCT)
    assert (first.name, first.state) == ("train | a", "COMPLETED")
    assert first.cpu_percent == 25
    assert first.memory == 4 * GIB, "the largest of its steps: four tasks of one GiB"
    assert first.memory_percent == 25
    assert first.time_percent == 10
    assert (cancelled.state, cancelled.cpu_percent) == ("CANCELLED", None)
    assert long.memory_asked == 8 * GIB
    assert (endless.limit, endless.time_percent, endless.memory_asked) == (None, None, 4 * GIB)
    assert endless.memory_percent is None, "not measured is not zero"


TIMES = {"1-02:03:04": 93784, "02:03:04": 7384, "03:04": 184, "03:04.500": 184, "": 0, "x": 0}


@pytest.mark.parametrize(("text", "expected"), TIMES.items(), ids=TIMES)
def test_a_time_of_sacct_is_so_many_seconds(text: str, expected: int) -> None:
    assert report.seconds(text) == expected


def test_what_could_be_asked_for_instead_is_said_by_the_largest_that_ended_well() -> None:
    jobs = [report.parse(SACCT)[0]]
    assert list(report.hints(jobs)) == [
        "--time=90 would do: a shorter limit starts sooner",
        "5.2 GiB of memory would do",
        "fewer CPUs would do, or it does not use those it has",
    ]
    assert list(report.hints(report.parse(SACCT)[2:3])) == [], "one that timed out says nothing about what it needs"


@pytest.mark.processes
def test_the_report_is_about_ones_own_jobs(tmp_path: Path) -> None:
    stand_in(tmp_path, "sacct", f"echo \"$@\" > {tmp_path}/asked; cat <<'END'\n{SACCT}END")
    ended = run(filled_in("efficiency-report", tmp_path, DAYS="3"), environment(tmp_path))
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == "your jobs of the last 3 days: 3 that ran"
    assert lines[2].split() == ["1", "4.0", "25", "%", "25", "%", "10", "%", "train", "|", "a"]
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert "--starttime=now-3days" in asked
    assert "--uid=" in asked


AWAY = {
    "none at this site": "echo 'Slurm accounting storage is disabled' >&2; exit 1",
    "none at this site, and exit 0": "echo 'Slurm accounting storage is disabled' >&2; exit 0",
    "away just now": "echo 'sacct: error: Problem talking to the database' >&2; exit 1",
}


@pytest.mark.processes
@pytest.mark.parametrize("answer", AWAY.values(), ids=AWAY)
def test_without_accounting_it_says_so(tmp_path: Path, answer: str) -> None:
    stand_in(tmp_path, "sacct", answer)
    ended = run(filled_in("efficiency-report", tmp_path), environment(tmp_path))
    assert ended.code == 2
    assert "the accounting does not answer" in ended.last
