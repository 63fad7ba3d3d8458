"""Ranks that meet through files: each sum is the sum of what all ranks wrote for it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from torch import Tensor

_rank, _ranks, _sums = 0, 1, 0
_TIMEOUT = 30


def init_process_group(
    backend: str, rank: int | None = None, world_size: int | None = None, timeout: object = None
) -> None:
    global _rank, _ranks  # noqa: PLW0603 - as a process group is
    assert backend == "gloo"
    assert os.environ["MASTER_ADDR"]
    assert int(os.environ["MASTER_PORT"]) > 1024
    _rank = int(os.environ["RANK"]) if rank is None else rank
    _ranks = int(os.environ["WORLD_SIZE"]) if world_size is None else world_size


def get_rank() -> int:
    return _rank


def get_world_size() -> int:
    return _ranks


def all_reduce(data: Tensor) -> None:
    data.values = [sum(parts) for parts in zip(*_gathered(data.values), strict=True)]
    if os.environ.get("TORCH_STAND_IN_WRONG") == str(_rank):
        data.values[0] += 1


def barrier() -> None:
    _gathered([0.0])


def _gathered(values: list[float]) -> list[list[float]]:
    global _sums  # noqa: PLW0603 - as above
    _sums += 1
    step = f"{os.environ.get('SLURM_JOB_ID', '')}.{os.environ.get('SLURM_STEP_ID', '')}.{_sums}"
    place = Path(os.environ["TORCH_STAND_IN"])
    mine = place / f"{step}.{_rank}"
    new = place / f"{step}.{_rank}.new"
    new.write_text(repr(values), encoding="ascii")
    new.replace(mine)
    paths = [place / f"{step}.{rank}" for rank in range(_ranks)]
    until = time.monotonic() + _TIMEOUT
    while not all(path.exists() for path in paths):
        assert time.monotonic() < until, f"rank {_rank} waits for {paths}"
        time.sleep(0.01)
    return [[float(each) for each in path.read_text(encoding="ascii")[1:-1].split(",")] for path in paths]


def destroy_process_group() -> None:
    barrier()
