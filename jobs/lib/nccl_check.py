"""nccl-check: an all_reduce over GPUs of several nodes, in an allocation of its own. Off until it is enabled."""

from __future__ import annotations

import os

import alerts
import shelf
from alerts import Alert
from shelf import Broken, Settings

JOB = "nccl-check"
_MINUTES = 5
_BUSY = ("are busy", "Unable to allocate resources", "immediate", "Immediate")
_REFUSED = ("nvalid", "not available", "violates", "not satisf", "ccess/permission")


def command(srun: str, settings: Settings) -> list[str]:
    """The step that measures: one rank a GPU."""
    nodes, partition, gpus = settings.text("NODELIST"), settings.text("PARTITION"), settings.count("GPUS", 1)
    where = [f"--nodelist={nodes}"] if nodes else [f"--nodes={settings.count('NODES', 1)}"]
    where += [f"--partition={partition}"] if partition else []
    size = [f"--ntasks-per-node={gpus}", f"--gres=gpu:{gpus}", f"--time={_MINUTES}"]
    rest = [
        f"--immediate={settings.count('WAIT')}",
        "--job-name=nccl-allreduce",
        "--input=none",
        "--kill-on-bad-exit=1",
    ]
    here = os.path.dirname(os.path.realpath(__file__))
    payload = [settings.text("PYTHON"), f"{here}/nccl_allreduce.py"]
    payload += ["--megabytes", str(settings.count("MEGABYTES", 1)), "--least", str(settings.number("LEAST"))]
    return [srun, *where, *size, *rest, *settings.array("OPTIONS"), *payload]


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


def main(settings: Settings) -> int:
    """Ask for nodes, measure, tell."""
    if not settings.yes("ENABLED"):
        print("off: it costs GPU hours. Set ENABLED=yes at the top of the script")
        return shelf.FINE
    srun = shelf.find("srun", package="the package slurm-client")
    wait = settings.count("WAIT")
    answer = shelf.ask(command(srun, settings), timeout=wait + _MINUTES * 60 + 60)
    print(answer.out, end="")
    if busy(answer):
        print(f"not measured: no free nodes within {wait} s ({answer.said})")
        return shelf.FINE
    wrong = judge(answer)
    anywhere = (
        f"{shelf.plural(settings.count('NODES', 1), 'node')} of {settings.text('PARTITION') or 'the default partition'}"
    )
    which = settings.text("NODELIST") or anywhere
    standing = [Alert(which, f"{which}: {wrong}")] if wrong else []
    fine = {which: f"{which}: all_reduce works"}
    return alerts.tell(JOB, standing, now=shelf.seconds_now(), notify=settings.text("NOTIFY"), fine=fine)


if __name__ == "__main__":
    shelf.door(main)
