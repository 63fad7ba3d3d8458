"""A small PyTorch training as it has to be under Slurm: several ranks, a checkpoint, a warning signal, a done-file.

pytorch.slurm starts it, a process a rank. It runs on GPUs where there are some, else on CPUs, and alone without Slurm:
python train.py --steps 100.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

warned = False


def on_warning(*_: object) -> None:
    """The time limit is near, or somebody wants this to end: finish the step, save, end."""
    global warned  # noqa: PLW0603 - a signal has no other way to say it
    warned = True


def save(path: Path, step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write the checkpoint beside the old one, then rename: whoever dies meanwhile, one of them is whole."""
    temporary = path.with_suffix(".new")
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, temporary)
    temporary.replace(path)


def main() -> int:
    """Train up to --steps, from the checkpoint if there is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=50, help="steps between checkpoints")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    parser.add_argument("--done", type=Path, default=Path("done"))
    args = parser.parse_args()
    signal.signal(signal.SIGUSR1, on_warning)

    rank, ranks = int(os.environ.get("SLURM_PROCID", "0")), int(os.environ.get("SLURM_NTASKS", "1"))
    local = int(os.environ.get("SLURM_LOCALID", "0"))
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", local % torch.cuda.device_count()) if cuda else torch.device("cpu")
    if ranks > 1:  # MASTER_ADDR and MASTER_PORT: from pytorch.slurm
        dist.init_process_group("nccl" if cuda else "gloo", rank=rank, world_size=ranks)

    torch.manual_seed(rank)
    model = torch.nn.Linear(1, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    first = 0
    if args.checkpoint.exists():
        state = torch.load(args.checkpoint, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    trained = DistributedDataParallel(model) if ranks > 1 else model

    loss = None
    for step in range(first + 1, args.steps + 1):
        data = torch.randn(64, 1, device=device)
        loss = torch.nn.functional.mse_loss(trained(data), 3 * data + 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stopping = warned
        if ranks > 1:  # all ranks end at the same step, whichever the signal reached first
            flag = torch.tensor([int(warned)], device=device)
            dist.all_reduce(flag)
            stopping = bool(flag.item())
        if rank == 0 and (stopping or step % args.every == 0 or step == args.steps):
            save(args.checkpoint, step, model, optimizer)
            print(f"step {step}: loss {loss.item():.4f}, saved", flush=True)
        if stopping:
            print(f"rank {rank}: told to end at step {step}", flush=True)
            break
    else:
        if rank == 0:
            args.done.touch()
    if ranks > 1:
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
