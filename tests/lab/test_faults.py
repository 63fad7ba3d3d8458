"""The controller hangs or is slow, the disk is full, a limit is met: nothing runs twice, and the next tick goes on."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cronhpc.store import memory
from tests.lab.conftest import Lab, MakeLab, start, stop
from tests.lab.helpers_cron import Cron, finish, give_a_past, judge, make

pytestmark = pytest.mark.lab

MINUTE = 60

# In front of Slurm's own on PATH: its n-th call finds a frozen controller, fails, and then the controller goes on.
_FREEZES = """#!/bin/sh
n=1
while ! mkdir '{folder}'/{program}.$n 2>/dev/null; do n=$((n + 1)); done
[ $n = {nth} ] || exec {real} "$@"
kill -STOP {controller}
{real} "$@"
code=$?
{thaw}
exit $code
"""


@pytest.fixture(scope="module")
def quick() -> Iterator[Lab]:
    """Its clients give up after three seconds instead of ten."""
    made = start(conf=["MessageTimeout=3"])
    yield made
    stop(made)


def controller(lab: Lab) -> int:
    return int((lab.root / "run" / "slurmctld.pid").read_text(encoding="ascii"))


def freezing(cron: Cron, program: str, nth: int, *, thaws: bool = True) -> dict[str, str]:
    """An environment in which the `nth` call of `program` freezes the controller."""
    folder = cron.root.parent / "bin"
    folder.mkdir()
    pid = controller(cron.lab)
    text = _FREEZES.format(
        folder=folder,
        program=program,
        nth=nth,
        real=shutil.which(program),
        controller=pid,
        thaw=f"kill -CONT {pid}" if thaws else ":",
    )
    path = folder / program
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {**cron.lab.env, "PATH": f"{folder}:{cron.lab.env['PATH']}"}


@pytest.mark.parametrize(
    ("program", "nth"),
    [("sbatch", 1), ("sbatch", 2), ("sbatch", 3), ("sbatch", 4), ("sbatch", 5), ("scontrol", 1)],
    ids=["the successor", "the spare", "the first run", "the second run", "the third run", "the release"],
)
def test_the_controller_hangs_while_a_tick_submits(quick: Lab, tmp_path: Path, program: str, nth: int) -> None:
    """sbatch says that it failed, and the job is in the queue all the same."""
    cron = make(quick, tmp_path / "cron", settings="scheduler: {parallel: 1}\n")
    done = subprocess.run(
        cron.argv("tick", cron.slot + 10),
        env=freezing(cron, program, nth),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (cron.root.parent / "bin" / f"{program}.{nth}").exists()
    quick.wait_for(lambda: " is UP" in quick.run(["scontrol", "ping"], check=False).stdout)
    cron.tick(30)
    finish(cron)
    assert judge(cron, quick.squeue()) == []


@pytest.mark.parametrize(("program", "nth"), [("squeue", 1), ("sbatch", 1), ("sbatch", 4), ("scontrol", 1)], ids=str)
def test_a_tick_under_a_controller_that_stays_frozen_ends_within_a_minute_and_the_next_ones_finish_its_work(
    lab: Lab, tmp_path: Path, program: str, nth: int
) -> None:
    cron = make(lab, tmp_path / "cron")
    give_a_past(cron)
    began = time.monotonic()
    try:
        done = subprocess.run(
            cron.argv("tick", cron.slot + 10),
            env=freezing(cron, program, nth, thaws=False),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        took = time.monotonic() - began
    finally:
        os.kill(controller(lab), signal.SIGCONT)
    assert done.returncode == 0, done.stderr
    assert took < MINUTE
    lab.wait_for(lambda: " is UP" in lab.run(["scontrol", "ping"], check=False).stdout)
    cron.tick(100)
    cron.tick(230)  # the second look at a's earlier run, which the frozen tick could not take
    finish(cron)
    assert judge(cron, lab.squeue()) == []
    lab.drain_queue()


def test_a_full_controller_is_a_limit_and_what_was_submitted_is_released(make_lab: MakeLab, tmp_path: Path) -> None:
    """sbatch sleeps until its time is up; what was held was never released, and was what filled the controller."""
    lab = make_lab(conf=["MaxJobCount=4"], min_job_age=2, gpu_nodes=0)
    cron = make(lab, tmp_path / "cron", names="abcd", settings="scheduler: {parallel: 1}\n", started=False)
    said = cron.tick()
    assert "temporarily unable to accept job" in said
    cron.wait_quiet()
    assert {name: len(slots) for name, slots in cron.ran().items()} == dict.fromkeys("abc", 1), said
    wait_gone(cron)
    cron.tick(130)
    cron.wait_quiet()
    assert {name: len(slots) for name, slots in cron.ran().items()} == dict.fromkeys("abcd", 1)


def wait_gone(cron: Cron) -> None:
    """Until the controller knows no run any more, ended ones included."""
    cron.lab.wait_for(lambda: not cron.jobs_in(cron.lab.squeue(states="all")))


def test_a_request_that_can_never_be_met_is_a_failure_of_that_slot_alone(quick: Lab, tmp_path: Path) -> None:
    """sbatch takes it of a held job; it waited for ever, and its release made good runs look like failed ones."""
    cron = make(quick, tmp_path / "cron", names="ab", started=False)
    worse = {"nodes": "#SBATCH --nodes=50", "memory": "#SBATCH --mem=1000G", "quote": '#SBATCH --comment="a'}
    good = (cron.root / "cron.d" / "a.slurm").read_text(encoding="utf-8")
    for name, line in worse.items():
        path = cron.root / "cron.d" / f"{name}.slurm"
        path.write_text(good.replace("#CRON", f"{line}\n#CRON", 1).replace("* * *", "* * * --suspend-after=1"), "utf-8")
        path.chmod(0o755)
    said = cron.tick()
    assert "its release failed" not in said, said
    quick.wait_for(lambda: len(cron.runs()) == 2)
    quick.wait_for(lambda: {job["reason"] for job in cron.runs()} == {"BadConstraints", "PartitionConfig"})
    cron.tick(130)
    assert {name: len(slots) for name, slots in cron.ran().items()} == dict.fromkeys("ab", 1)
    results = {row["entry"]: row["result"] for row in cron.rows() if row["slot"] == cron.slot}
    assert results == {"a": "ok", "b": "ok", "memory": "refused", "quote": "refused"}
    assert [job["reason"] for job in cron.runs()] == ["PartitionConfig"], "nodes may come back: that one waits"
    suspended = {
        name for name, state in memory.load(cron.root / "state" / "entries.json").entries.items() if state.suspended
    }
    assert suspended == {"memory", "quote"}
    quick.run(["scancel", *(job["id"] for job in cron.runs())])


def test_a_held_job_that_its_user_releases_before_the_tick_does_is_a_run(quick: Lab, tmp_path: Path) -> None:
    """Its log was there, so it was called planted, and the run refused."""
    cron = make(quick, tmp_path / "cron", names="a", started=False)
    folder = cron.root.parent / "bin"
    folder.mkdir()
    path = folder / "sbatch"
    path.write_text(
        '#!/bin/bash\nsaid=$(/usr/bin/sbatch "$@") || exit\nscontrol release "$said"\nsleep 2\necho "$said"\n', "utf-8"
    )
    path.chmod(0o755)
    said = cron.tick(env={"PATH": f"{folder}:{cron.lab.env['PATH']}"})
    assert "somebody else has released it" in said
    cron.wait_quiet()
    cron.tick(130)
    assert [row["result"] for row in cron.rows() if row["slot"] == cron.slot] == ["ok"]
