"""The lab is what it says: real, private, quick, and gone without a trace."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.conftest import Lab

pytestmark = pytest.mark.lab


def test_every_node_is_idle_in_its_partition(lab: Lab) -> None:
    rows = lab.run(["sinfo", "-hN", "-o", "%N %P %T %c"]).stdout.splitlines()
    assert rows == ["cpu1 cpu* idle 8", "cpu2 cpu* idle 8", "cpu3 cpu* idle 8", "gpu1 gpu idle 8"]


def test_a_users_job_runs_as_that_user_in_her_folder(lab: Lab, cluster_user_dir: Callable[..., Path]) -> None:
    folder = cluster_user_dir("alice")
    job = lab.submit("--wrap", "id -un; pwd", user="alice", cwd=folder)
    lab.wait_ended(job)
    assert (folder / f"slurm-{job}.out").read_text(encoding="utf-8") == f"alice\n{folder}\n"


def test_a_frozen_controller_answers_again_after_the_thaw(lab: Lab) -> None:
    lab.freeze()
    try:
        process = lab.popen(["squeue"])
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=0.5)
    finally:
        lab.thaw()
    process.communicate(timeout=10)
    assert process.returncode == 0


def test_draining_cancels_every_users_jobs(lab: Lab) -> None:
    lab.submit("--wrap", "sleep 100", user="alice")
    lab.submit("--hold", "--array=1-3", "--wrap", "sleep 100", user="bob")
    assert len(lab.squeue()) == 4
    lab.drain_queue()
    assert lab.squeue() == []
