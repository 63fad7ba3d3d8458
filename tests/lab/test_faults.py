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

from tests.lab.conftest import Lab, start, stop
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
        timeout=90,
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
            timeout=90,
            check=False,
        )
        took = time.monotonic() - began
    finally:
        os.kill(controller(lab), signal.SIGCONT)
    assert done.returncode == 0, done.stderr
    assert took < MINUTE
    lab.wait_for(lambda: " is UP" in lab.run(["scontrol", "ping"], check=False).stdout)
    cron.tick(100)
    finish(cron)
    assert judge(cron, lab.squeue()) == []
    lab.drain_queue()
