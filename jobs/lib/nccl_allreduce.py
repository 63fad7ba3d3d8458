"""An all_reduce over all ranks of a step: is the sum right, and how fast is it. It needs torch, and nothing else.

Each rank runs it: srun --ntasks-per-node=GPUS --gres=gpu:GPUS python nccl_allreduce.py. Exit codes: 0 fine, 1 the sum
is wrong or too slow, 2 it could not be tried.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

_PORT = 29531


def place(environ: Mapping[str, str]) -> tuple[int, int, int]:
    """(rank, ranks, rank on its node), as torchrun or Slurm says it."""
    names = (("RANK", "SLURM_PROCID"), ("WORLD_SIZE", "SLURM_NTASKS"), ("LOCAL_RANK", "SLURM_LOCALID"))
    rank, ranks, local = (int(environ.get(own) or environ.get(slurm) or 0) for own, slurm in names)
    return rank, max(ranks, 1), local


def meet(environ: dict[str, str], rank: int, ranks: int) -> None:
    """Where the ranks meet: the first node of the step, unless MASTER_ADDR says otherwise."""
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST", "")
    if not environ.get("MASTER_ADDR"):
        argv = ["scontrol", "show", "hostnames", nodes]
        names = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split() if nodes else []
        environ["MASTER_ADDR"] = names[0] if names else "127.0.0.1"
    job = int(environ.get("SLURM_JOB_ID") or 0)
    environ.setdefault("MASTER_PORT", str(_PORT + job % 1000))  # two such jobs on a node do not meet each other
    environ.update(RANK=str(rank), WORLD_SIZE=str(ranks))


def measure(torch: Any, megabytes: int, times: int) -> tuple[bool, float]:
    """(whether the sum was right, seconds for one all_reduce)."""
    dist = torch.distributed
    ranks = dist.get_world_size()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = torch.ones(megabytes * (1 << 20) // 4, dtype=torch.float32, device=device) * (dist.get_rank() + 1)
    dist.all_reduce(data)
    wanted = ranks * (ranks + 1) / 2
    right = bool((data == wanted).all())
    data.fill_(1.0)
    dist.barrier()
    began = time.perf_counter()
    for _ in range(times):
        dist.all_reduce(data)
    if device == "cuda":
        torch.cuda.synchronize()
    return right, (time.perf_counter() - began) / times


def main() -> int:
    """One rank."""
    parser = argparse.ArgumentParser(prog="nccl_allreduce")
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--least", type=float, default=0, help="GB/s (bus bandwidth)")
    args = parser.parse_args()
    try:
        import torch
        import torch.distributed
    except ImportError:
        print("broken: torch is not in this Python: it comes with pip install torch; or set PYTHON", file=sys.stderr)
        return 2
    rank, ranks, local = place(os.environ)
    meet(os.environ, rank, ranks)  # type: ignore[arg-type]  # os.environ is a dict to all that is done here
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(local % torch.cuda.device_count())  # one visible GPU a task, or all of the node's
        backend = "nccl"
    torch.distributed.init_process_group(backend, timeout=timedelta(seconds=120))
    try:
        right, seconds = measure(torch, args.megabytes, args.times)
    finally:
        torch.distributed.destroy_process_group()
    speed = 2 * (ranks - 1) / ranks * args.megabytes * (1 << 20) / seconds / 1e9  # as nccl-tests reckon it
    wrong = [] if right else [f"rank {rank} on {os.uname().nodename}: the sum is wrong"]
    if ranks > 1 and speed < args.least:
        wrong.append(f"rank {rank} on {os.uname().nodename}: {speed:.1f} GB/s is less than {args.least:g}")
    if rank == 0:
        what = f"{backend} all_reduce of {args.megabytes} MiB over {ranks} ranks"
        print(f"{what}: {seconds * 1e3:.2f} ms, {speed:.1f} GB/s")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
