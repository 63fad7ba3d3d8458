"""Days on a fast clock: a cron directory on a lab of its own, watched all the while, judged by what really ran.

The lab's clock is set to the past: files are stamped by the machine's own clock, so to the lab each is brand-new, and
an entry counts from the first tick that sees it.

Simulations take minutes, nearly all of it waiting. So those of all selected tests run side by side, when the first of
the tests asks for its evidence; a test that had to wait for nothing else is a plain function of that evidence.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

from cronhpc.core.model import HistoryRow
from cronhpc.store import history
from tests.lab.conftest import LAB, Lab, start, stop

T = TypeVar("T")
HOUR, DAY = 3600, 86400
EVERY = 0.5  # real seconds between two samples of the queue
NOTE = 'printf "%s %s\\n" "$CRONHPC_SLOT" "$SLURM_JOB_ID$JOB_ID" >>"{ran}/$CRONHPC_ENTRY"'  # how a run says that it ran


def instant(text: str) -> int:
    """Epoch seconds of "2024-10-27 01:30" in UTC, or of the form that runs write down."""
    return int(dt.datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=dt.UTC).timestamp())


def said(at: int) -> str:
    """The other way round, as runs write it down."""
    return dt.datetime.fromtimestamp(at, dt.UTC).isoformat().replace("+00:00", "Z")


def grid(first: int, end: int, every: int, offset: int = 0) -> list[int]:
    """The instants of [first, end) that are `offset` beyond whole multiples of `every`."""
    return [at for at in range(first - first % every + offset - every, end, every) if at >= first]


@dataclass(frozen=True)
class Sample:
    """The chain's jobs in the queue at one moment of the lab's clock. `requeued` ones are pending again."""

    at: int
    successors: tuple[str, ...]
    spares: tuple[str, ...]
    running: tuple[str, ...]
    requeued: tuple[str, ...] = ()

    @property
    def forked(self) -> bool:
        """Whether more than one successor, or spare, waits."""
        return len(self.successors) > 1 or len(self.spares) > 1


@dataclass(frozen=True)
class Ended:
    """A job as Slurm's own completion log has it. Times in epoch seconds, 0 where there is none; `due`: its begin."""

    id: str
    name: str
    state: str
    partition: str
    due: int
    started: int
    ended: int


@dataclass
class Evidence:
    """What is left of a simulation when its lab is gone."""

    id: str
    samples: list[Sample]
    ended: list[Ended]
    ran: dict[str, list[tuple[int, str]]]  # entry -> (slot, job id), as the runs wrote it down
    rows: list[HistoryRow]  # history
    log: str  # the scheduler's
    noted: dict[str, Any] = field(default_factory=dict)  # what a simulation asked on its way

    def forks(self) -> list[Sample]:
        """Samples with more than one pending successor, or spare."""
        return [each for each in self.samples if each.forked]

    def forks_left(self) -> list[Sample]:
        """Those that nobody takes back: none of the links that ran when the fork was first seen runs any more.

        Where two links begin in the same moment, the one of the higher number takes its successor back a second later;
        that is ten minutes of a clock that runs 600 times as fast, and many more where the machine is busy.
        """
        left: list[Sample] = []
        first = None
        for each in self.samples:
            if not each.forked:
                first = None
                continue
            if first is None or (first.successors, first.spares) != (each.successors, each.spares):
                first = each
            if not set(first.running) & set(each.running):
                left.append(each)
        return left

    def links(self, first: int, end: int) -> list[str]:
        """When the links that ran were due, in [first, end), as clock times; a spare is none."""
        due = sorted(job.due for job in self.ended if job.name == f"cronhpc-{self.id}" and job.started)
        return [said(at)[11:16] for at in due if first <= at < end]

    def slots(self, entry: str, first: int, end: int) -> list[int]:
        """Slots of [first, end) that ran, once for each run, in order."""
        return sorted(slot for slot, _ in self.ran.get(entry, []) if first <= slot < end)

    def told(self, entry: str, slots: Iterable[int]) -> dict[int, str]:
        """What history says of the entry's `slots` (all of them, in order): "ok", "missed: …".

        A row about several slots that were missed together bears the newest of them, and their count.
        """
        ordered = sorted(slots)
        found: dict[int, str] = {}
        for row in self.rows:
            if row.get("entry") == entry and row.get("result") and "slot" in row:
                upto = [slot for slot in ordered if slot <= int(row["slot"])]
                said_of_it = f"{row['result']}{': ' if row.get('detail') else ''}{row.get('detail') or ''}"
                for slot in upto[-int(row.get("count") or 1) :]:
                    found.setdefault(slot, said_of_it)
        return found


class Days:
    """A cron directory on a lab of its own whose clock runs fast."""

    def __init__(self, lab: Lab, place: Path, speed: float, disk: Path | None = None) -> None:
        self.lab = lab
        self.place = place
        self.disk = disk  # a small file system of its own
        self.root = (disk or place) / "cron"
        self.ran = place / "ran"
        self.speed = speed
        self.python = Path(sys.executable)
        self.samples: list[Sample] = []
        self.noted: dict[str, Any] = {}
        self._seen_running: set[str] = set()
        self._zero = (int(lab.run(["date", "+%s"]).stdout), time.monotonic())

    @property
    def now(self) -> int:
        """The lab's clock."""
        lab, real = self._zero
        return int(lab + (time.monotonic() - real) * self.speed)

    @property
    def id(self) -> str:
        """The word that marks its jobs."""
        return (self.root / "scheduler" / "id").read_text(encoding="ascii").strip()

    def cronhpc(self, *words: str, check: bool = True, **options: Any) -> str:
        """One cronhpc command on this directory; what it printed."""
        argv = [str(self.python), "-m", "cronhpc", *words, "--dir", str(self.root)]
        done = self.lab.run(argv, check=False, **options)
        if check and done.returncode not in {0, 1}:
            pytest.fail(f"cronhpc {' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def script(self, name: str, *lines: str) -> Path:
        """Put a script into the directory: `name` as "cron.daily/backup.slurm". It notes its run, then does `lines`."""
        path = self.root / name
        head = [line for line in lines if line.startswith("#")]
        rest = [line for line in lines if not line.startswith("#")]
        text = "\n".join(["#!/bin/bash", *head, NOTE.format(ran=self.ran), *rest, ""])
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return path

    def watch_blind(self, until: int) -> None:
        """Let the lab's clock come to `until` without asking a controller that would not answer."""
        time.sleep(max(0.0, (until - self.now) / self.speed))

    def watch(self, until: int, each: Callable[[], object] | None = None) -> None:
        """Sample the queue until the lab's clock has come to `until`; `each` is called after every sample."""
        while self.now < until:
            began = time.monotonic()
            self.sample()
            if each is not None:
                each()
            time.sleep(max(0.0, EVERY - (time.monotonic() - began)))

    def wait(self, predicate: Callable[[], Any], timeout: float = 180) -> Any:
        """Sample until `predicate` is true, at most `timeout` real seconds."""
        deadline = time.monotonic() + timeout
        while not (value := predicate()):
            if time.monotonic() > deadline:
                pytest.fail(f"waited {timeout:g} s for {predicate.__doc__ or predicate.__qualname__}\n{self.tail()}")
            self.sample()
            time.sleep(EVERY / 5)
        return value

    def queue(self) -> list[tuple[str, str, str]] | None:
        """(id, state, word) of this directory's jobs; None where the controller gives no answer."""
        asked = self.lab.run(["squeue", "-h", "-r", "-o", "%i|%T|%k"], check=False)
        if asked.returncode:
            return None
        rows = [line.split("|", 2) for line in asked.stdout.splitlines()]
        mark = f"cronhpc={self.id}/"
        return [(job, state, text.removeprefix(mark).split(" ")[0]) for job, state, text in rows if mark in text]

    def sample(self) -> Sample | None:
        """Look at the chain once."""
        rows = self.queue()
        if rows is None:
            return None
        found: dict[str, list[str]] = {"link": [], "spare": [], "running": [], "requeued": []}
        for job, state, word in rows:
            if word not in {"link", "spare"}:
                continue
            if state != "PENDING":
                self._seen_running.add(job)
                found["running"].append(job)
            else:
                found["requeued" if job in self._seen_running else word].append(job)
        link, spare, running, requeued = (tuple(jobs) for jobs in found.values())
        self.samples.append(Sample(self.now, link, spare, running, requeued))
        return self.samples[-1]

    def start_node(self, name: str) -> None:
        """Let a node come back; it may have work before anyone sees it idle."""
        subprocess.run([sys.executable, str(LAB), "node", "--dir", str(self.lab.root), "start", name], check=True)
        asked = ["sinfo", "-h", "-n", name, "-o", "%T"]
        self.wait(lambda: set(self.lab.run(asked).stdout.split()) <= {"idle", "mixed", "allocated"})

    def tail(self) -> str:
        """The end of the scheduler's log, for messages."""
        path = self.root / "scheduler" / "scheduler.log"
        return path.read_text(encoding="utf-8", errors="replace")[-3000:] if path.exists() else "(no scheduler.log)"

    def finish(self, timeout: float = 180) -> None:
        """End the chain, let the runs end, and one last tick write down how."""
        self.cronhpc("stop")
        self.wait(lambda: self.queue() == [], timeout)
        self.cronhpc("tick")

    def evidence(self) -> Evidence:
        """All that tests judge."""
        ran = {
            path.name: [(instant(line.split()[0]), line.split()[1]) for line in path.read_text().splitlines()]
            for path in sorted(self.ran.iterdir())
        }
        rows = list(history.rows(self.root / "state" / "history"))
        path = self.root / "scheduler" / "scheduler.log"
        log = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        return Evidence(self.id, self.samples, list(self._ended()), ran, rows, log, self.noted)

    def _ended(self) -> Iterator[Ended]:
        for line in (self.place / "ended.log").read_text(encoding="utf-8", errors="replace").splitlines():
            row = dict(re.findall(r"(\w+)=(\S*)", line))
            due, began, ended = (_epoch(row.get(f"{key}Time", "")) for key in ("Eligible", "Start", "End"))
            yield Ended(row["JobId"], row["Name"], row["JobState"], row["Partition"], due, began, ended)


def _epoch(text: str) -> int:
    """Slurm prints in the machine's own zone."""
    try:
        return int(dt.datetime.fromisoformat(text).timestamp())
    except ValueError:
        return 0


@cache
def slower() -> float:
    """By how much the clocks go slower than asked, on a machine whose processors have too much to do already.

    Looked at before the first simulation, since they are a load themselves; a second try looks anew.
    """
    load = max(os.getloadavg()[:2]) / (os.cpu_count() or 1)
    return min(max(1.0, load / 3), 6.0)


def unhurried(speed: float) -> float:
    """`speed` on a quiet machine; CRONHPC_LAB_SPEED sets an upper limit for a slow one."""
    asked = float(os.environ.get("CRONHPC_LAB_SPEED", "0"))
    return round(min(speed, asked) if asked else speed / slower())


@contextmanager
def days(
    begin: str, settings: str, *, speed: float = 600, nodes: int = 3, conf: Sequence[str] = (), disk: str = ""
) -> Iterator[Days]:
    """A lab whose clock starts at `begin` (UTC) and runs `speed` times as fast, and an empty cron directory on it.

    Slower on a machine that is busy with other things: there the work of a tick would take hours of that clock.
    `disk` ("8m"): on a file system of that size, where one can be mounted. `{place}` in `conf` is the folder of it all.
    """
    speed = unhurried(speed)
    place = Path(tempfile.mkdtemp(prefix="lab-days-"))
    place.chmod(0o755)
    (place / "ran").mkdir()
    lines = [
        "JobCompType=jobcomp/filetxt",
        f"JobCompLoc={place}/ended.log",
        *(line.format(place=place) for line in conf),
    ]
    began = dt.datetime.fromtimestamp(instant(begin)).isoformat(" ")  # noqa: DTZ006 -- the lab reads the machine's zone
    lab = start(speed=speed, start_time=began, nodes=nodes, gpu_nodes=1, min_job_age=3 * HOUR, conf=lines)
    own = _mounted(place / "disk", disk)
    try:
        made = Days(lab, place, speed, own)
        made.cronhpc("init")
        (made.root / "cronhpc.yaml").write_text(settings, encoding="utf-8")
        yield made
    finally:
        stop(lab)
        if own is not None:
            subprocess.run(["umount", "--lazy", own], check=False)
        shutil.rmtree(place, ignore_errors=True)


def _mounted(folder: Path, size: str) -> Path | None:
    """A file system in memory; None where none is asked for, or this machine lets nobody mount."""
    if not size:
        return None
    folder.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(folder)]
    return None if subprocess.run(argv, capture_output=True, check=False).returncode else folder


def twice(evidence: Evidence) -> dict[str, dict[str, int]]:
    """Slots that ran more than once, by entry."""
    found = {name: Counter(slot for slot, _ in ran) for name, ran in evidence.ran.items()}
    return {
        name: {said(slot): count for slot, count in slots.items() if count > 1}
        for name, slots in found.items()
        if max(slots.values(), default=0) > 1
    }


# --- simulations side by side --------------------------------------------------------------------------------------

_SIDE_BY_SIDE = 3  # more are too much for two processors; the longest goes first, and sets the length of it all
_LENGTHS: dict[Callable[[], Any], int] = {}  # real seconds
_running: dict[tuple[Callable[[], Any], int], Future[Any]] = {}  # by simulation and try


def simulation(seconds: int) -> Callable[[Callable[[], T]], Callable[[], T]]:
    """Mark a simulation, with how long it takes."""

    def mark(run: Callable[[], T]) -> Callable[[], T]:
        _LENGTHS[run] = seconds
        return run

    return mark


def simulated(run: Callable[[], Any]) -> Callable[[T], T]:
    """Mark a test as one that judges the evidence of `run`; the first one waits for all of them, however slow."""

    def mark(test: T) -> T:
        test.simulation = run  # type: ignore[attr-defined]  # read by `evidence_of`
        pytest.mark.simulated(test)
        pytest.mark.timeout(2 * HOUR)(test)
        return test

    return mark


def evidence_of(run: Callable[[], T], request: pytest.FixtureRequest) -> T:
    """What came of a simulation; the first call runs those of all selected tests, and waits for all of them.

    So no other test runs beside them, whose time-outs the load would spoil. A test that is tried once more has its
    simulation run once more: the same evidence would say the same.
    """
    this_try = getattr(request.node, "execution_count", 1)  # pytest-rerunfailures counts
    if (run, this_try) not in _running:
        slower.cache_clear()
        wanted: set[Callable[[], Any]] = {run}
        if this_try == 1:
            tests = (getattr(item, "function", None) for item in request.session.items)
            wanted |= {test.simulation for test in filter(_is_simulated, tests) if test}
        pool = ThreadPoolExecutor(_SIDE_BY_SIDE)
        for each in sorted(wanted, key=lambda each: -_LENGTHS[each]):
            if (each, this_try) not in _running:
                _running[each, this_try] = pool.submit(each)
        pool.shutdown(wait=True)
    found: T = _running[run, this_try].result()
    return found


def _is_simulated(test: object) -> bool:
    return hasattr(test, "simulation")
