"""The main job on a real Slurm: a dropped script runs on time, each slot once, whatever the chain goes through."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.lab.helpers_days import (
    DAY,
    HOUR,
    NOTE,
    Evidence,
    days,
    evidence_of,
    grid,
    instant,
    said,
    simulated,
    simulation,
    twice,
)

pytestmark = pytest.mark.lab

MIDNIGHT = instant("2025-11-27 00:00")
SETTINGS = """\
timezone: UTC
sbatch: {{partition: cpu}}
scheduler: {{interval: 1h, min-interval: 1h, sbatch: {{time: 300}}}}
entries:
  row: {{schedule: "15 */6 * * *", command: {command}}}
"""
INDEX = """\
data={place}/tree index={place}/index.db
if command -v updatedb >/dev/null; then
  updatedb --require-visibility 0 --database-root "$data" --output "$index"
  locate --database "$index" leaf
else
  find "$data" -print0 | gzip >"$index" && zcat "$index" | tr '\\0' '\\n' | grep leaf
fi
"""


@simulation(165)
def a_day() -> Evidence:
    """A day, and two hours before it in which a busy machine gets everything going: about 160 s."""
    with days("2025-11-26 22:10", "") as day:
        command = NOTE.format(ran=day.ran)
        (day.root / "cronhpc.yaml").write_text(SETTINGS.format(command=json.dumps(command)), encoding="utf-8")
        (day.place / "tree" / "branch").mkdir(parents=True)
        (day.place / "tree" / "branch" / "leaf").touch()
        day.script("cron.daily/index.slurm", "#SBATCH --job-name=index", *INDEX.format(place=day.place).splitlines())
        day.script("cron.hourly/one-line.slurm")
        day.script("cron.d/half.slurm", "#CRON */30 * * * *")
        day.noted["start"] = day.cronhpc("start")
        day.watch(MIDNIGHT + 6 * HOUR)
        day.noted["status"] = json.loads(day.cronhpc("status", "--json"))
        day.noted["history"] = json.loads(day.cronhpc("history", "--json", "-n", "500"))
        day.watch(MIDNIGHT + DAY + HOUR // 3)
        day.finish()
        day.noted["logs"] = sorted(str(p.relative_to(day.root)) for p in (day.root / "log").rglob("*.out"))
        day.noted["index"] = [p.read_text() for p in (day.root / "log" / "index").iterdir()]
        return day.evidence()


@simulated(a_day)
def test_each_entry_runs_at_exactly_its_slots_and_none_twice(request: pytest.FixtureRequest) -> None:
    day = evidence_of(a_day, request)
    end = MIDNIGHT + DAY
    hourly, daily = day.slots("one-line", MIDNIGHT, end), day.slots("index", MIDNIGHT, end)
    assert twice(day) == {}
    assert day.slots("half", MIDNIGHT, end) == grid(MIDNIGHT, end, HOUR // 2)
    assert day.slots("row", MIDNIGHT, end) == grid(MIDNIGHT, end, 6 * HOUR, HOUR // 4)
    assert hourly == grid(MIDNIGHT, end, HOUR, hourly[0] % HOUR)  # at one minute of the folder's choice
    assert [(at - MIDNIGHT) // HOUR for at in daily] == [4]
    runs = [row for row in day.rows if row["what"] == "run" and MIDNIGHT <= row["slot"] < end]
    assert len(runs) == 48 + 24 + 4 + 1
    assert {row["result"] for row in runs} == {"ok"}


@simulated(a_day)
def test_the_chain_is_one_link_an_hour(request: pytest.FixtureRequest) -> None:
    day = evidence_of(a_day, request)
    assert day.forks() == []
    assert day.links(MIDNIGHT, MIDNIGHT + DAY) == [f"{hour:02}:00" for hour in range(24)]


@simulated(a_day)
def test_the_first_link_submits_its_successor_and_the_runs_go_to_the_cpu_partition(
    request: pytest.FixtureRequest,
) -> None:
    day = evidence_of(a_day, request)
    assert re.search("submitted the scheduler: job 1, begins (now|at 22:)", day.noted["start"])
    assert "link 1: successor " in day.log
    assert {job.partition for job in day.ended if not job.name.startswith("cronhpc-")} == {"cpu"}


@simulated(a_day)
def test_status_history_and_logs_show_what_ran(request: pytest.FixtureRequest) -> None:
    day = evidence_of(a_day, request)
    shown = {row["name"]: row for row in day.noted["status"]["entries"]}
    assert sorted(shown) == ["half", "index", "one-line", "row"]
    assert {row["last"]["result"] for row in shown.values()} == {"ok"}
    told = [run for run in day.noted["history"]["runs"] if run["entry"] == "half"]
    newest = {run["result"] for run in told if instant(run["slot"]) >= MIDNIGHT + 5 * HOUR}
    assert {run["result"] for run in told if instant(run["slot"]) < MIDNIGHT + 5 * HOUR} == {"ok"}
    assert newest <= {"ok", "pending", "running", "completed"}  # Slurm's word where no tick has come since
    assert len(told) >= 10
    jobs = {job for ran in day.ran.values() for _, job in ran}
    assert {name.rpartition("-")[2].removesuffix(".out") for name in day.noted["logs"]} == jobs
    assert any("/tree/branch/leaf" in text for text in day.noted["index"])


# --- dropped at 14:20 ----------------------------------------------------------------------------------------------

MINUTE = 60


@simulation(50)
def dropped() -> Evidence:
    """From 14:10 to 15:45, where entries live. Files are stamped by the machine's clock: the lab's is in the same hour.

    So what is dropped at 14:20 bears a time between 14:00 and 15:00 there, whatever the time is here.
    """
    time.sleep(max(0.0, time.time() % HOUR - (HOUR - 90)) and HOUR - time.time() % HOUR)
    hour = int(time.time()) // HOUR * HOUR
    east = 14 - hour // HOUR % 24
    settings = f"timezone: Etc/GMT{-east:+d}\nsbatch: {{partition: cpu}}\nfolders: {{hourly: '0 * * * *'}}\n"
    with days(datetime.fromtimestamp(hour + 10 * MINUTE, UTC).strftime("%Y-%m-%d %H:%M"), settings, speed=120) as day:
        day.noted["hour"] = hour
        day.cronhpc("start")
        day.wait(lambda: "the tick" in day.tail() or "successor" in day.tail())
        day.watch(hour + 20 * MINUTE)
        day.script("cron.hourly/fresh.slurm")
        old = day.script("cron.hourly/dated-2020.slurm")
        os.utime(old, (instant("2020-01-01 00:00"),) * 2)
        day.noted["status"] = day.cronhpc("status")
        day.watch(hour + 32 * MINUTE)
        day.cronhpc("tick")  # it notes them by now: the lab's clock runs away from the one that stamps files
        day.watch(hour + HOUR + 45 * MINUTE)
        day.finish()
        return day.evidence()


@simulated(dropped)
@pytest.mark.parametrize("entry", ["fresh", "dated-2020"])
def test_what_is_dropped_at_14_20_runs_at_15_00_and_catches_nothing_up(
    entry: str, request: pytest.FixtureRequest
) -> None:
    day = evidence_of(dropped, request)
    assert re.search(rf"^{entry} +15:00 \(.* not yet ", day.noted["status"], re.MULTILINE)
    assert [said(slot) for slot, _ in day.ran[entry]] == [said(day.noted["hour"] + HOUR)]
    assert {row["result"] for row in day.rows} == {"ok"}


# --- a broken interpreter ------------------------------------------------------------------------------------------

BROKEN, FREED, MENDED = (instant(f"2025-11-27 {hour}:20") for hour in ("02", "08", "10"))


@simulation(85)
def broken() -> Evidence:
    """Six hours in which no tick can start and no node is free, two in which links run and no tick can start."""
    settings = "timezone: UTC\nsbatch: {partition: cpu}\nscheduler: {sbatch: {time: 300}}\n"
    with days("2025-11-26 23:40", settings) as day:
        day.python = an_interpreter(day.place / "env")
        day.script("cron.d/hourly.slurm", "#CRON 0 * * * *")
        day.cronhpc("start")
        day.watch(BROKEN)
        filler = day.lab.submit("-N3", "--exclusive", "-o", "/dev/null", "--wrap", f"sleep {DAY}")
        day.python.rename(day.python.with_name("away"))
        day.watch(FREED)
        day.lab.run(["scancel", filler])
        day.watch(MENDED)
        day.python.with_name("away").rename(day.python)
        day.watch(MENDED + 3 * HOUR)
        day.finish()
        return day.evidence()


def an_interpreter(place: Path) -> Path:
    """This one once more, under a path of its own that can break."""
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    (place / "lib").symlink_to(Path(sys.prefix) / "lib")
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", place)
    return place / "bin" / "python"


@simulated(broken)
def test_a_broken_interpreter_and_a_full_partition_leave_one_successor(request: pytest.FixtureRequest) -> None:
    day = evidence_of(broken, request)
    assert day.forks() == []
    full = [each for each in day.samples if BROKEN + 600 < each.at < FREED]
    assert {len(each.successors) for each in full if not each.running} == {1}  # one that has just begun submits it
    after = [each for each in day.samples if FREED + HOUR < each.at < MENDED + 2 * HOUR]
    assert all(each.successors or each.running for each in after)  # a link that has just begun submits it
    assert "the chain goes on" in day.log


@simulated(broken)
def test_work_resumes_when_the_interpreter_is_fixed(request: pytest.FixtureRequest) -> None:
    day = evidence_of(broken, request)
    assert twice(day) == {}
    last = [said(slot)[11:16] for slot in day.slots("hourly", MENDED - HOUR, MENDED + 3 * HOUR)]
    assert last[-3:] == ["11:00", "12:00", "13:00"]
    wanted = grid(instant("2025-11-27 01:00"), MENDED + 3 * HOUR, HOUR)
    assert set(wanted) == set(day.told("hourly", wanted))
