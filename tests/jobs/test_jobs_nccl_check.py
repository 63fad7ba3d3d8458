"""nccl-check: off until enabled, what srun's answers mean, and the ranks' own program with a stand-in for PyTorch."""

from __future__ import annotations

import os
import subprocess  # noqa: TID251 - each rank is a process
import sys
from pathlib import Path

import pytest

import nccl_allreduce
from tests.ready_made_jobs import LIB, Ended, environment, filled_in, run, stand_in

STAND_INS = Path(__file__).resolve().parents[1] / "standins"


def check(place: Path, **settings: str) -> Ended:
    return run(filled_in("nccl-check", place, **{"ENABLED": "yes", **settings}), environment(place))


@pytest.mark.processes
def test_it_is_off_until_it_is_enabled(tmp_path: Path) -> None:
    stand_in(tmp_path, "srun", f"touch {tmp_path}/ran")
    ended = check(tmp_path, ENABLED="no")
    assert (ended.code, ended.last) == (0, "off: it costs GPU hours. Set ENABLED=yes at the top of the script")
    assert not (tmp_path / "ran").exists()


ANSWERS = {
    "it works": ("echo 'nccl all_reduce of 256 MiB over 2 ranks: 1 ms, 200 GB/s'", 0, "200 GB/s"),
    "a sum that is wrong": (
        "echo 'rank 1 on n2: the sum is wrong'; exit 1",
        1,
        "ALERT: 2 nodes of gpu: all_reduce failed",
    ),
    "ranks that hang": ("echo 'rank 0'; echo 'srun: error: CANCELLED DUE TO TIME LIMIT' >&2; exit 143", 1, "ALERT"),
    "no free nodes in time": (
        "echo 'srun: error: Unable to allocate resources: Requested nodes are busy' >&2; exit 1",
        0,
        "not measured: no free nodes within 300 s",
    ),
    "a partition that is none": (
        "echo 'srun: error: Unable to allocate resources: Invalid partition name specified' >&2; exit 1",
        2,
        "broken: Slurm does not take it",
    ),
    "a Python without torch": (
        "echo 'broken: torch is not in this Python: it comes with pip install torch; or set PYTHON' >&2; exit 2",
        2,
        "broken: torch is not in this Python",
    ),
    "two ranks without torch, and srun's word for it": (
        "echo 'broken: no torch'; echo 'broken: no torch'; echo 'srun: error: cpu1: task 0' >&2; exit 2",
        2,
        "srun: error: cpu1: task 0\nbroken: no torch\n",
    ),
}


@pytest.mark.processes
@pytest.mark.parametrize(("answer", "code", "words"), ANSWERS.values(), ids=ANSWERS)
def test_what_comes_back(tmp_path: Path, answer: str, code: int, words: str) -> None:
    stand_in(tmp_path, "srun", answer)
    ended = check(tmp_path)
    assert ended.code == code
    assert words in ended.out


@pytest.mark.processes
def test_it_asks_for_an_allocation_of_its_own(tmp_path: Path) -> None:
    stand_in(
        tmp_path, "srun", f'echo "$@" > {tmp_path}/asked; env | grep ^SLURM_ | grep -vc TIME_FORMAT >> {tmp_path}/asked'
    )
    script = filled_in("nccl-check", tmp_path, ENABLED="yes", NODELIST="n[1-4]", GPUS="4", OPTIONS="(--account=a@gpu)")
    run(script, environment(tmp_path, SLURM_JOB_ID="7", SLURM_NTASKS="1"))
    asked, inherited = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert "--nodelist=n[1-4] --partition=gpu --ntasks-per-node=4 --gres=gpu:4 --time=5 --immediate=300" in asked
    assert "--account=a@gpu" in asked
    assert "--nodes" not in asked
    assert inherited == "0", "in this job's own environment srun would start a step of this job"


# --- the ranks -----------------------------------------------------------------------------------------------------


def ranks(place: Path, *options: str, count: int = 2, **more: str) -> list[tuple[int, str]]:
    """(exit code, output) of each."""
    environ = {**os.environ, "PYTHONPATH": str(STAND_INS), "TORCH_STAND_IN": str(place), "SLURM_NTASKS": str(count)}
    environ.update(MASTER_ADDR="127.0.0.1", **more)
    argv = [sys.executable, str(LIB / "nccl_allreduce.py"), "--megabytes", "1", *options]
    started = [
        subprocess.Popen(argv, env={**environ, "SLURM_PROCID": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(count)
    ]
    said = [process.communicate(timeout=60)[0] for process in started]
    return [(process.returncode, text) for process, text in zip(started, said, strict=True)]


@pytest.mark.processes
def test_ranks_that_sum_rightly_are_fine(tmp_path: Path) -> None:
    (first, said), (second, silent) = ranks(tmp_path)
    assert (first, second, silent) == (0, 0, "")
    assert said.startswith("gloo all_reduce of 1 MiB over 2 ranks: ")


@pytest.mark.processes
def test_a_rank_whose_sum_is_wrong_names_itself(tmp_path: Path) -> None:
    codes = ranks(tmp_path, TORCH_STAND_IN_WRONG="1")
    assert [code for code, _ in codes] == [0, 1]
    assert f"rank 1 on {os.uname().nodename}: the sum is wrong" in codes[1][1]


@pytest.mark.processes
def test_ranks_that_are_too_slow_are_not_fine(tmp_path: Path) -> None:
    assert [code for code, _ in ranks(tmp_path, "--least", "999999")] == [1, 1]


@pytest.mark.processes
def test_without_torch_it_says_what_brings_it(tmp_path: Path) -> None:
    argv = [sys.executable, "-S", str(LIB / "nccl_allreduce.py")]
    environ = {"PATH": os.environ["PATH"]}
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "pip install torch" in done.stderr


PLACES = {
    "as Slurm says": ({"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1"}, (3, 8, 1)),
    "as torchrun says": (
        {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"},
        (5, 8, 1),
    ),
    "alone": ({}, (0, 1, 0)),
}


@pytest.mark.parametrize(("environ", "place"), PLACES.values(), ids=PLACES)
def test_where_a_rank_stands(environ: dict[str, str], place: tuple[int, int, int]) -> None:
    assert nccl_allreduce.place(environ) == place


def test_two_jobs_on_a_node_do_not_meet_each_other() -> None:
    ports = set()
    for job in ("7", "8"):
        environ = {"MASTER_ADDR": "n1", "SLURM_JOB_ID": job}
        nccl_allreduce.meet(environ, 0, 2)
        ports.add(environ["MASTER_PORT"])
    assert len(ports) == 2
