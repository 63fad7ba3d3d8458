"""nccl-check: an all_reduce over GPUs of several nodes, in an allocation of its own. Off until it is enabled."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

import alerts
import shelf
from alerts import Alert
from shelf import Broken

JOB = "nccl-check"
_BUSY = ("are busy", "Unable to allocate resources", "immediate", "Immediate")
_REFUSED = ("nvalid", "not available", "violates", "not satisf", "ccess/permission")


def command(srun: str, args: argparse.Namespace) -> list[str]:
    """The step that measures: one rank a GPU."""
    where = [f"--nodelist={args.nodelist}"] if args.nodelist else [f"--nodes={args.nodes}"]
    where += [f"--partition={args.partition}"] if args.partition else []
    size = [f"--ntasks-per-node={args.gpus}", f"--gres=gpu:{args.gpus}", f"--time={args.minutes}"]
    rest = [f"--immediate={args.wait}", "--job-name=nccl-allreduce", "--input=none", "--kill-on-bad-exit=1"]
    here = os.path.dirname(os.path.realpath(__file__))
    payload = [args.python, f"{here}/nccl_allreduce.py", "--megabytes", str(args.megabytes), "--least", str(args.least)]
    return [srun, *where, *size, *rest, *args.options, *payload]


def judge(answer: shelf.Answer) -> str:
    """What is wrong, "" for nothing. Raises Broken where it could not be tried."""
    if answer.code == 0:
        return ""
    started = "all_reduce" in answer.out or "rank " in answer.out
    if not started and any(word in answer.err for word in _REFUSED):
        raise Broken(f"Slurm does not take it: {answer.said}")
    if "broken:" in answer.err:
        raise Broken(answer.said.partition("broken: ")[2])
    return f"all_reduce failed (exit {answer.code}): {answer.said or answer.out.strip()[-300:]}"


def busy(answer: shelf.Answer) -> bool:
    """Whether no nodes were free in time: not a failure of theirs."""
    refused = any(word in answer.err for word in _REFUSED)
    return answer.code != 0 and not refused and any(word in answer.err for word in _BUSY)


def main(argv: Sequence[str]) -> int:
    """Ask for nodes, measure, tell."""
    parser = argparse.ArgumentParser(prog=JOB)
    parser.add_argument("--enabled", default="no")
    for name in ("partition", "nodelist", "notify"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--python", default="python3")
    for name, default in (("nodes", 2), ("gpus", 1), ("minutes", 5), ("wait", 300), ("megabytes", 256)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--least", type=float, default=0)
    parser.add_argument("options", nargs="*")
    args = parser.parse_args(argv)
    if not shelf.yes(args.enabled, "ENABLED"):
        print("off: it costs GPU hours. Set ENABLED=yes at the top of the script")
        return shelf.FINE
    srun = shelf.find("srun", package="the package slurm-client")
    environ = {**shelf.clean_environment(os.environ)}
    answer = shelf.ask(command(srun, args), timeout=args.wait + args.minutes * 60 + 60, environ=environ)
    print(answer.out, end="")
    if busy(answer):
        print(f"not measured: no free nodes within {args.wait} s ({answer.said})")
        return shelf.FINE
    wrong = judge(answer)
    which = args.nodelist or f"{shelf.plural(args.nodes, 'node')} of {args.partition or 'the default partition'}"
    standing = [Alert(which, f"{which}: {wrong}")] if wrong else []
    fine = {which: f"{which}: all_reduce works"}
    return alerts.tell(JOB, standing, now=shelf.seconds_now(), notify=args.notify, fine=fine)


if __name__ == "__main__":
    shelf.door(main)
