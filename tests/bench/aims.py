"""The figures that are aimed at: what each was when it was measured first, what it is now, the aim, and a peer."""

from __future__ import annotations

import math
import os
import resource
import statistics
import subprocess  # noqa: TID251 - whole commands are timed
import sys
import time
from typing import NamedTuple

MARK = "| "  # what a row begins with: `python -m tests.bench` prints all of them together at its end


class Aim(NamedTuple):
    """What a figure was, and should be at most."""

    was: str
    most: float
    unit: str = ""


AIMS = {
    "1,000 due / xargs -P4 sbatch --hold, release": Aim("1.7", 1.15),
    "400 due / xargs -P4 sbatch --hold, release": Aim("1.3 to 1.8", 1.15),
    "1,600 due / 400 due": Aim("4.7 to 5.1", 4.2),
    "4,000 due / 1,000 due": Aim("worse", 4.2),
    "idle tick, 100 entries": Aim("84 to 142 ms", 70, " ms"),
    "idle tick, 100 entries / bare python": Aim("16", 6),
    "idle tick, 10,000 entries": Aim("680 ms", 250, " ms"),
    "calls from `cronhpc tick` to sbatch's process": Aim("13", 8),
    "files opened by an idle tick": Aim("226", 150),
    "clean / find -delete, tmpfs": Aim("1.0 to 4.3", 1.1),
    "clean / find -delete, disk": Aim("1.0 to 4.3", 1.1),
    "history --since 7d of 100,000 rows": Aim("1.1 s", 0.4, " s"),
    "page of 100,000 rows": Aim("1.2 s", 0.8, " s"),
    "next, 10,000 entries": Aim("4.1 s", 1.5, " s"),
    "check, 10,000 entries": Aim("3.8 s", 1.5, " s"),
    "page, 10,000 entries": Aim("-", math.inf, " s"),
    "daemon at rest, 100 entries, CPU an hour": Aim("0.3 s", 0.3, " s"),
    "daemon at rest, memory": Aim("33 MB", 33, " MB"),
    "daemon that polls, CPU an hour": Aim("-", 5, " s"),
    "queue queries a second that switches cause": Aim("6.6", 0.3),
}
HEAD = f"{MARK}{'figure':44} | {'was':>12} | {'now':>9} | {'aim':>9} | peer"


class Used(NamedTuple):
    """Of one whole process and its children: seconds on the wall, and of a processor."""

    wall: float
    busy: float


def row(name: str, reached: float, peer: str = "") -> None:
    """Print it; `peer`: what it is to be seen beside."""
    was, most, unit = AIMS[name]
    shown = f"{reached:,.0f}" if unit == " ms" or reached >= 100 else f"{reached:.2f}"
    aim = f"{most:g}{unit}" if most < math.inf else "-"
    verdict = "" if reached <= most else " !"
    sys.stdout.write(f"{MARK}{name:44} | {was:>12} | {shown + unit:>9} | {aim:>9} | {peer}{verdict}\n")
    sys.stdout.flush()


def used(*argv: str, codes: tuple[int, ...] = (0, 1)) -> Used:
    """What a command needs."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(argv, capture_output=True, check=False)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in codes:
        sys.exit(f"{argv}: exit {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}")
    return Used(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def in_turns(*commands: tuple[str, ...], rounds: int) -> list[list[Used]]:
    """Of each command what it needs, once a round: a machine that gets slower makes all of them slower."""
    rows = [[used(*argv) for argv in commands] for _ in range(rounds)]
    return [list(column) for column in zip(*rows, strict=True)]


def median_of(costs: list[Used]) -> Used:
    """The medians."""
    return Used(*(statistics.median(each[n] for each in costs) for n in (0, 1)))


def ratio_of(costs: list[Used], others: list[Used]) -> Used:
    """The medians of the rounds' ratios."""
    pairs = list(zip(costs, others, strict=True))
    return Used(*(statistics.median(a[n] / max(b[n], 0.001) for a, b in pairs) for n in (0, 1)))


def busy() -> str:
    """How busy the machine is just now."""
    return f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()}"
