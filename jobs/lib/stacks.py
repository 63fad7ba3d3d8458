"""The Python stacks of every rank of a job on this node, with py-spy.

stall-watch starts it, or a person does: srun --overlap --jobid=JOB --ntasks-per-node=1 python3 stacks.py JOB=ID.
It runs on each node of the job, and finds the ranks by what Slurm has put into their environments.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import shelf
from shelf import Broken, Settings

_PY_SPY_TIME = 20


@dataclass(frozen=True)
class Rank:
    """A process of a job: `rank` as torchrun or Slurm says it, "" for one that has none (the batch script's)."""

    pid: int
    rank: str
    step: str
    words: str

    def __str__(self) -> str:
        step = f" of step {self.step}" if self.step else ""
        return f"{f'rank {self.rank}{step}' if self.rank else 'the batch script'}, process {self.pid}: {self.words}"


def ranks(job: str, own: Mapping[str, str]) -> Iterator[Rank]:
    """The job's Python processes on this node, less those of the step that asks."""
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        environ = _environ(int(name))
        if environ.get("SLURM_JOB_ID") != job or _elsewhere(environ, own) or _same_step(environ, own):
            continue
        if _program(int(name)).startswith(("python", "pypy")):
            words = _read(int(name), "cmdline").replace("\0", " ").strip()[:120]
            step = environ.get("SLURM_STEP_ID", "")
            rank = environ.get("RANK", environ.get("SLURM_PROCID", "") if step else "")
            yield Rank(int(name), rank, step, words)


def _elsewhere(environ: Mapping[str, str], own: Mapping[str, str]) -> bool:
    """Two nodes may share one machine, in tests at least."""
    names = (environ.get("SLURMD_NODENAME"), own.get("SLURMD_NODENAME"))
    return all(names) and names[0] != names[1]


def _same_step(environ: Mapping[str, str], own: Mapping[str, str]) -> bool:
    keys = ("SLURM_JOB_ID", "SLURM_STEP_ID")
    return bool(own.get("SLURM_STEP_ID")) and all(environ.get(key) == own.get(key) for key in keys)


def _environ(pid: int) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in _read(pid, "environ").split("\0") if "=" in pair)


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().decode("utf-8", "surrogateescape")
    except OSError:  # it has ended, or is somebody else's
        return ""


def _program(pid: int) -> str:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def stack(py_spy: str, pid: int) -> str:
    """What py-spy says of one process, or why it says nothing."""
    try:
        answer = shelf.ask([py_spy, "dump", "--pid", str(pid)], timeout=_PY_SPY_TIME, environ=os.environ)
    except Broken as error:
        return str(error)
    if answer.code == 0:
        return answer.out.partition("\n")[2].rstrip()  # its first line names the process, as ours does
    hint = "; the kernel allows it to root only here (kernel.yama.ptrace_scope)" if "ermission" in answer.err else ""
    return f"py-spy: {answer.said}{hint}"


def without_py_spy(pid: int) -> str:
    """What the kernel tells of a process that no debugger looks into."""
    status = dict(line.split(":", 1) for line in _read(pid, "status").splitlines() if ":" in line)
    place = _read(pid, "wchan")
    waits = f", waits in {place}" if place not in {"", "0"} else ""
    return f"state {status.get('State', 'unknown').strip()}{waits} (no stack: py-spy is not here: pip install py-spy)"


def main(settings: Settings) -> int:
    """Print them, a block a process."""
    job = settings.text("JOB")
    found = sorted(ranks(job, os.environ), key=lambda rank: (rank.rank == "", rank.rank.zfill(9), rank.pid))
    py_spy, node = shutil.which("py-spy"), os.environ.get("SLURMD_NODENAME", os.uname().nodename)
    for rank in found:
        said = stack(py_spy, rank.pid) if py_spy else without_py_spy(rank.pid)
        # one write a block: the nodes' outputs are mixed line by line otherwise
        print(f"== {node}: {shelf.shown(str(rank))}\n{shelf.shown_lines(said)}\n", end="", flush=True)
    if not found:
        print(f"== {node}: no Python process of job {job} here")
    return shelf.FINE


if __name__ == "__main__":
    shelf.door(main)
