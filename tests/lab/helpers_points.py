"""Faults at system calls: one tick run under strace, which kills it, or fails one of its calls.

strace counts the calls of each name, and of each thread, apart. So the tick is walked with one submission at a time
(`parallel: 1`): all of its calls are then its main thread's. Its commands are left alone there (`-b execve`); to walk
those, a program stands in front of Slurm's on PATH that runs the k-th call of it under a strace of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.conftest import Lab
from tests.lab.helpers_cron import Cron, Expected, finish, judge

# What changes files or processes. Reads are no points: nothing differs on either side of them.
STATE = "write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir,chmod"
PROCESS = "execve,clone,clone3,fork,vfork,kill"
WAIT = "wait4,waitid"
WAVE = 40
_ALIKE = {"DRIVE_QUIET": "1", "PYTHONDONTWRITEBYTECODE": "1"}  # the first tick of a new checkout makes no other calls
COMMAND = "execve,connect,sendto,sendmsg,write"  # of sbatch and the like: how far its request has come

_STAND_IN = """#!/bin/sh
# The {nth}. call of {program} runs under strace; {then}.
folder='{folder}' n=1
while ! mkdir "$folder/{program}.$n" 2>/dev/null; do n=$((n + 1)); done
[ $n = {nth} ] || exec {real} "$@"
strace -qq -o "$folder/{program}.log" -e trace={calls} {inject} {real} "$@"
code=$?
grep -q {sign} "$folder/{program}.log" && {after}
exit $code
"""


@dataclass(frozen=True)
class Point:
    """One fault: at the `when`-th of `calls` in the tick itself, or in its `nth` call of `program`."""

    calls: str
    fault: str  # "signal=KILL", "error=ENOSPC"
    when: int
    program: str = ""
    nth: int = 1
    tick_too: bool = False  # the tick is killed with its command, as when a node dies

    def __str__(self) -> str:
        where = f"{self.program} {self.nth}{' and the tick' if self.tick_too else ''}" if self.program else "tick"
        return f"{where}: {self.fault} at {self.calls} {self.when}"


@dataclass(frozen=True)
class Hit:
    """What came of a point: the call that was struck ("" where there were fewer), and how the tick ended."""

    call: str
    code: int
    said: str


def strike(cron: Cron, point: Point, after: int) -> Hit:
    """Run one tick with the fault; never raises for what the fault does to it."""
    environment = {**cron.lab.env, **_ALIKE}
    argv = cron.argv("tick", cron.slot + after)
    log = cron.root.parent / "strace.log"
    log.write_text("")
    if point.program:
        log, path = _stand_in(cron, point)
        environment["PATH"] = f"{path}:{environment['PATH']}"
    else:
        argv = [*_strace(point, log), *argv]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=180, check=False)
    return Hit(_struck(log, point), done.returncode, done.stdout + done.stderr)


def _strace(point: Point, log: Path) -> list[str]:
    inject = f"inject={point.calls}:{point.fault}:when={point.when}"
    return ["strace", "-f", "-b", "execve", "-qq", "-o", str(log), "-e", f"trace={point.calls}", "-e", inject]


def _stand_in(cron: Cron, point: Point) -> tuple[Path, Path]:
    folder = cron.root.parent / "bin"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    text = _STAND_IN.format(
        program=point.program,
        nth=point.nth,
        folder=folder,
        real=shutil.which(point.program),
        calls=point.calls,
        inject=f"-e inject={point.calls}:{point.fault}:when={point.when}" if point.fault else "",
        then="the tick dies with it" if point.tick_too else "it alone is struck",
        sign="'killed by SIGKILL'" if "KILL" in point.fault else "INJECTED",
        after="kill -9 $PPID" if point.tick_too else "true",
    )
    path = folder / point.program
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    log = folder / f"{point.program}.log"
    log.write_text("")
    return log, folder


def _struck(log: Path, point: Point) -> str:
    """The struck call's line; strace marks errors "(INJECTED)", and a killed process stops at its call."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if "error" in point.fault:
        return next((line for line in lines if "(INJECTED)" in line), "")
    if not any("+++ killed by SIGKILL +++" in line for line in lines):
        return ""
    calls = [line for line in lines if re.search(r"\w+\(", line)]
    return calls[-1] if calls else ""


def points_of_a_tick(cron: Cron, fault: str, calls: str) -> list[Point]:
    """Every one of `calls` that an undisturbed tick makes, in order, as points; of openat those that create a file.

    Of several looks in a row at whether a child has ended the first is a point: nothing changes between them.
    """
    lines = _calls_of_a_tick(cron, calls)
    counts: Counter[str] = Counter()
    points: list[Point] = []
    before = ""
    for name, line in lines:
        counts[name] += 1
        if not (name == before == "wait4") and (name != "openat" or "O_CREAT" in line):
            points.append(Point(name, fault, counts[name]))
        before = name
    return points


def _calls_of_a_tick(cron: Cron, calls: str) -> list[tuple[str, str]]:
    log = cron.root.parent / "strace.log"
    argv = ["strace", "-f", "-b", "execve", "-qq", "-o", str(log), "-e", f"trace={calls}"]
    environment = {**cron.lab.env, **_ALIKE}
    argv += cron.argv("tick", cron.slot + cron.strike_at)
    subprocess.run(argv, env=environment, capture_output=True, timeout=180, check=True)
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if "resumed>" not in line]
    found = [re.match(r"(\d+) +(\w+)\(", line) for line in lines]
    main = lines[0].split()[0]
    return [(each[2], line) for each, line in zip(found, lines, strict=True) if each and each[1] == main]


def points_of_a_command(cron: Cron, program: str, nth: int) -> list[Point]:
    """Every call of `COMMAND` that the `nth` call of `program` in an undisturbed tick makes."""
    strike(cron, Point(COMMAND, "", 0, program, nth), cron.strike_at)
    log = cron.root.parent / "bin" / f"{program}.log"
    counts: Counter[str] = Counter()
    points = []
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        found = re.match(r"(\w+)\(", line)
        if found:
            counts[found[1]] += 1
            points.append(Point(found[1], "signal=KILL", counts[found[1]], program, nth))
    return points


@contextmanager
def stopped(cron: Cron, point: Point) -> Iterator[None]:
    """A tick that is stopped (SIGSTOP) at `point` for the length of a `with`, and then goes on to its end."""
    log = cron.root.parent / "strace.log"
    argv = [*_strace(point, log), *cron.argv("tick", cron.slot + cron.strike_at)]
    tick = subprocess.Popen(argv, env=cron.lab.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        pid = cron.lab.wait_for(lambda: _stopped(log) or tick.poll() is not None)
        yield
        if pid is not True:
            os.kill(pid, signal.SIGCONT)
        said, _ = tick.communicate(timeout=180)
    finally:
        for each in (_stopped(log), tick.pid):  # what strace traces goes on without it, or stays stopped for ever
            if each and tick.poll() is None:
                os.kill(each, signal.SIGKILL)
        tick.wait(10)
    if "Traceback" in said:
        pytest.fail(f"{point}: {said}")


def _stopped(log: Path) -> int:
    """The process that strace has seen stopping."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return next((int(line.split()[0]) for line in lines if "stopped by SIGSTOP" in line), 0)


@dataclass
class Walked:
    """What a walk over points found: how many struck something, and what was wrong afterwards."""

    points: int
    kill_records: int
    wrong: list[str]
    seconds: float

    def __str__(self) -> str:
        return f"{self.points} points, {self.kill_records} of them struck a call, in {self.seconds:.0f} s"


def walk(
    lab: Lab,
    points: Sequence[Sequence[Point]],
    make: Callable[[str], Cron],
    expected: Expected | None = None,
    *,
    meanwhile: Callable[[Cron], object] = lambda _: None,
) -> Walked:
    """For each row of points a fresh directory: a tick with each fault in turn, then clean ticks, then judgement.

    `meanwhile` is done before the first clean one.

    Two at a time, in waves, so that the runs of many directories pass while others are struck.
    """
    began = time.monotonic()
    kill_records, wrong = 0, []
    with ThreadPoolExecutor(3) as pool:
        for first in range(0, len(points), WAVE):
            wave = points[first : first + WAVE]
            names = [f"point{first + n}" for n in range(len(wave))]
            crons = list(pool.map(make, names))
            hits = list(pool.map(lambda cron, row: _struck_in_turn(cron, row, meanwhile), crons, wave))
            for later in (190, 310, 430):
                list(pool.map(lambda cron, later=later: finish(cron, (cron.strike_at + later,)), crons))
            queue = lab.squeue()
            for cron, row, hit in zip(crons, wave, hits, strict=True):
                kill_records += any(each.call for each in hit)
                found = [*judge(cron, queue, expected), *(_crash(each) for each in hit if _crash(each))]
                wrong += [f"{', then '.join(map(str, row))} ({hit[-1].call[:120]}): {each}" for each in found]
            lab.run(["scancel", "--quiet", *(job["id"] for cron in crons for job in cron.jobs_in(queue))], check=False)
    return Walked(len(points), kill_records, wrong, time.monotonic() - began)


def _struck_in_turn(cron: Cron, row: Sequence[Point], meanwhile: Callable[[Cron], object]) -> list[Hit]:
    hits = [strike(cron, point, cron.strike_at + 5 * n) for n, point in enumerate(row)]
    meanwhile(cron)
    cron.tick(cron.strike_at + 20)
    return hits


def _crash(hit: Hit) -> str:
    return f"a traceback: …{hit.said[-400:]}" if "Traceback" in hit.said else ""
