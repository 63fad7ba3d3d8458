"""submitit_requeue: a submitit job that requeues itself, and goes on.

It needs submitit (pip install submitit), and is started with:

    python submitit_requeue.py --folder logs

At the time limit, or on preemption, submitit calls `checkpoint`, and has Slurm requeue the job with what it returns.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import submitit


class Training(submitit.helpers.Checkpointable):
    """Counts steps; a checkpoint a step, so that whatever ends it little is lost."""

    def __init__(self, checkpoint: Path, steps: int, pause: float) -> None:
        self.checkpoint_path = checkpoint
        self.steps = steps
        self.pause = pause

    def __call__(self) -> int:
        """Go on from the checkpoint; the steps done."""
        step = int(self.checkpoint_path.read_text()) if self.checkpoint_path.exists() else 0
        print(f"begins at step {step}", flush=True)
        while step < self.steps:
            time.sleep(self.pause)  # the work
            step += 1
            temporary = self.checkpoint_path.with_suffix(".new")
            temporary.write_text(str(step))
            temporary.replace(self.checkpoint_path)
        return step

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """What is to run when the job is started again: the same, and it finds its checkpoint."""
        print("told to end: to be requeued", flush=True)
        return submitit.helpers.DelayedSubmission(self)


def main() -> None:
    """Submit, and say how to look at it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=Path("submitit-logs"), help="on a disk that all nodes see")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=1.0, help="a step takes")
    parser.add_argument("--minutes", type=int, default=5, help="time limit of one start")
    parser.add_argument("--partition", default="")
    parser.add_argument("--wait", action="store_true", help="until it has ended, and print what it returned")
    args = parser.parse_args()
    folder = args.folder.resolve()
    executor = submitit.AutoExecutor(folder=folder, cluster="slurm", slurm_max_num_timeout=50)
    executor.update_parameters(name="submitit-requeue", timeout_min=args.minutes, cpus_per_task=1, tasks_per_node=1)
    if args.partition:
        executor.update_parameters(slurm_partition=args.partition)
    job = executor.submit(Training(folder / "checkpoint", args.steps, args.seconds))
    print(f"job {job.job_id}; its log: {job.paths.stdout}", flush=True)
    if args.wait:
        print(f"steps done: {job.result()}")


if __name__ == "__main__":
    main()
