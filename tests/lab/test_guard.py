"""`cronhpc guard` in real jobs: a teammate's file ends them, Slurm's own signals reach the command, and in time."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cronhpc.inside.guard import STOPPED_EXIT
from tests.lab.conftest import SLACK, Lab, MakeLab

pytestmark = pytest.mark.lab
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="a lab of an ordinary user has that user only")
REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable  # one that alice may run, too


def script_of(place: Path, options: str, command: str, *directives: str) -> Path:
    """A batch script that guards `command` and writes down the guard's exit code."""
    script = place / "job.sh"
    lines = "".join(f"#SBATCH {line}\n" for line in directives)
    script.write_text(
        f"#!/bin/bash\n{lines}cd {place}\nexport PYTHONPATH={REPOSITORY}\n"
        f"{PYTHON} -m cronhpc.inside.guard {options} -- {command}\ncode=$?\necho $code > code.tmp\nmv code.tmp code\n",
        encoding="utf-8",
    )
    return script


def text_of(place: Path, name: str) -> str:
    path = place / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


@AS_ROOT
def test_a_teammates_file_ends_a_job_that_ignores_sigterm(lab: Lab, cluster_user_dir: Callable[..., Path]) -> None:
    """Within the poll plus the grace, by someone whose scancel is refused."""
    place, team = cluster_user_dir("alice"), cluster_user_dir("bob", "team")
    inner = f'bash -c \'trap "" TERM; (trap "" TERM; touch {place}/ready; sleep 300) & sleep 300; wait\''
    script = script_of(place, f"--kill-switch {team}/tr17 --every 1s --grace 2s", inner)
    job = lab.submit("--output", f"{place}/log", str(script), user="alice", cwd=place)
    lab.wait_for((place / "ready").exists)
    assert "Access/permission denied" in lab.run(["scancel", job], user="bob", check=False).stderr
    began = time.monotonic()
    lab.run(["bash", "-c", f"echo 'loss spikes' > {team}/tr17"], user="bob")
    lab.wait_for((place / "code").exists)
    assert time.monotonic() - began < 1 + 2 + SLACK
    assert text_of(place, "code").strip() == str(STOPPED_EXIT)
    assert "stopped by bob since" in text_of(place, "log")
    assert f'({team}/tr17: "loss spikes"): did not end within 2 s, killed' in text_of(place, "log")
    lab.wait_ended(job)


def test_what_scancel_signals_reaches_the_command(lab: Lab, cluster_user_dir: Callable[..., Path]) -> None:
    place = cluster_user_dir()
    inner = "bash -c 'trap \"touch got\" USR1; touch ready; while [[ ! -e got ]]; do sleep 0.1; done; exit 4'"
    script = script_of(place, f"--kill-switch {place}/none", f"{inner}")
    script.write_text(script.read_text().replace(f"{PYTHON} -m", f"exec {PYTHON} -m"), encoding="utf-8")
    job = lab.submit("--output", f"{place}/log", str(script), cwd=place)
    lab.wait_for((place / "ready").exists)
    lab.run(["scancel", "--batch", "--signal=USR1", job])
    lab.wait_for((place / "got").exists)
    lab.wait_ended(job)


def test_the_command_is_warned_before_the_time_limit_that_slurm_tells(
    lab: Lab, cluster_user_dir: Callable[..., Path]
) -> None:
    place = cluster_user_dir()
    inner = "bash -c 'trap \"date +%s > warned; exit 0\" USR1; while :; do sleep 0.1; done'"
    script = script_of(place, f"--kill-switch {place}/none --warn-before-end 55s --signal USR1", inner, "--time=1")
    job = lab.submit("--output", f"{place}/log", str(script), cwd=place)
    lab.wait_for((place / "code").exists, timeout=25)
    assert text_of(place, "code").strip() == "0"
    assert "the job's end is near: sending USR1" in text_of(place, "log")
    assert int(text_of(place, "warned")) >= int((place / "job.sh").stat().st_mtime) + 3
    lab.wait_ended(job)


def test_a_limit_that_was_moved_is_heeded(lab: Lab, cluster_user_dir: Callable[..., Path]) -> None:
    place = cluster_user_dir()
    inner = "bash -c 'trap \"touch warned\" USR1; touch ready; for i in {1..130}; do sleep 0.1; done'"
    script = script_of(place, f"--kill-switch {place}/none --warn-before-end 50s --signal USR1", inner, "--time=1")
    job = lab.submit("--output", f"{place}/log", str(script), cwd=place)
    lab.wait_for((place / "ready").exists)
    lab.run(["scontrol", "update", f"JobId={job}", "TimeLimit=2"])
    lab.wait_for((place / "code").exists)
    assert not (place / "warned").exists()
    lab.wait_ended(job)


def test_a_preempted_job_is_warned(make_lab: MakeLab, cluster_user_dir: Callable[..., Path]) -> None:
    """With a grace time Slurm sends CONT and TERM, and moves the end nearer; the command gets its own signal."""
    lab = make_lab(nodes=1, conf=["PreemptType=preempt/partition_prio", "PreemptMode=CANCEL"])
    for name, more in (("low", "PriorityTier=1 GraceTime=20"), ("high", "PriorityTier=10")):
        lab.run(["scontrol", "create", f"PartitionName={name}", "Nodes=cpu1", "MaxTime=60", *more.split()])
    place = cluster_user_dir()
    inner = "bash -c 'trap \"touch warned; exit 0\" USR1; touch ready; while :; do sleep 0.1; done'"
    options = f"--kill-switch {place}/none --warn-before-end 10s --signal USR1"
    script = script_of(place, options, inner, "--partition=low", "--exclusive", "--time=30")
    job = lab.submit("--output", f"{place}/log", str(script), cwd=place)
    lab.wait_for((place / "ready").exists)
    other = lab.submit("--partition=high", "--exclusive", "--output=/dev/null", "--wrap", "true")
    lab.wait_for((place / "warned").exists)
    lab.wait_for((place / "code").exists)
    lab.wait_ended(job, other)
