"""Exactly once on a real Grid Engine: a tick, or a command that it started, is killed at any call; its master freezes.

With CRONHPC_ALL_POINTS=1 the points that CI samples are all walked.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cronhpc.store import history
from tests.lab.conftest import MOST_WAIT
from tests.lab.helpers_grid_engine import TOP, Cell, a_cell

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]
DRIVE = Path(__file__).with_name("helpers_drive.py")
CALLS = "write,fsync,rename,link,unlink,mkdir,vfork,clone,clone3,wait4"  # what changes files or processes
OF_COMMANDS = "execve,connect,sendto,sendmsg,write,writev"  # how far a command's request has come
EVERY = bool(os.environ.get("CRONHPC_ALL_POINTS"))
SAMPLED = 7
MINUTE = 60
ENTRIES, ANSWERED, FREEZES = 16, 4, 8


@pytest.fixture(scope="module")
def cell() -> Iterator[Cell]:
    with a_cell() as made:
        yield made


class Due:
    """A cron directory with entries that are due in this minute; driven at instants that are named."""

    def __init__(self, cell: Cell, folder: Path, names: Sequence[str] = "ab", parallel: int = 1) -> None:
        folder.mkdir(parents=True)
        self.names = names
        self.root, self.ran_file = folder / "cron", folder / "ran"
        self.environ = {**cell.environ, "HOME": str(folder), "PYTHONPATH": str(TOP), "TZ": "UTC"}
        self.slot = int(time.time()) // MINUTE * MINUTE
        subprocess.run(
            [sys.executable, "-m", "cronhpc", "--dir", str(self.root), "init", "--backend", "grid_engine"],
            env=self.environ, check=True, capture_output=True, timeout=MOST_WAIT,
        )  # fmt: skip
        settings = self.root / "cronhpc.yaml"
        text = settings.read_text(encoding="utf-8")
        settings.write_text(
            text.replace("\nscheduler:\n", f"\nscheduler:\n  parallel: {parallel}\n  timeout: 10s\n", 1)
        )
        slot = time.gmtime(self.slot)
        for name in names:
            path = self.root / "cron.d" / f"{name}.slurm"
            path.write_text(
                f"#!/bin/bash\n#CRON {slot.tm_min} {slot.tm_hour} * * *\necho {name} >>{self.ran_file}\n",
                encoding="utf-8",
            )
            path.chmod(0o755)
            os.utime(path, (self.slot - 7200, self.slot - 7200))
        self.drive(-MINUTE)

    def drive(self, after: int, before: tuple[str, ...] = (), path: str = "") -> int:
        """A tick so many seconds after the slot, under the command `before`; how it ended."""
        environ = {**self.environ, "PATH": f"{path}:{self.environ['PATH']}"} if path else self.environ
        argv = [*before, sys.executable, str(DRIVE), "tick", str(self.root), str(self.slot + after)]
        return subprocess.run(argv, env=environ, capture_output=True, timeout=MOST_WAIT, check=False).returncode

    def ran(self) -> Counter[str]:
        return Counter(self.ran_file.read_text().split()) if self.ran_file.exists() else Counter()

    def settled(self) -> str:
        """What is wrong once clean ticks have come; "": each entry ran exactly once, and that it did is known."""
        end, after = time.monotonic() + 2 * MOST_WAIT, 2 * MINUTE
        while time.monotonic() < end:
            code = self.drive(after)
            open_claims = [p.name for p in (self.root / "state" / "claims").iterdir()]
            if code:
                return f"a clean tick exits {code}"
            ends = Counter(
                row["entry"] for row in history.rows(self.root / "state" / "history") if row["result"] == "ok"
            )
            if set(ends) == set(self.names):
                break
            after += MINUTE // 2
            time.sleep(1)
        else:
            return f"not done: {dict(self.ran())}, {open_claims}, {ends}"
        self.drive(after + MINUTE)
        return "" if self.ran() == Counter(self.names) else f"ran {dict(self.ran())}"


def job_ids(cell: Cell) -> set[str]:
    """Of all jobs."""
    words = ["qstat", "-u", "*"]
    shown = subprocess.check_output(words, env=cell.environ, text=True, timeout=MOST_WAIT)
    return {line.split()[0] for line in shown.splitlines()[2:]}


def walked(cell: Cell, top: Path, points: list[tuple[str, Callable[[Due], None]]]) -> dict[str, str]:
    """What is wrong after each of the points, by its name."""

    def one(numbered: tuple[int, tuple[str, Callable[[Due], None]]]) -> tuple[str, str]:
        number, (name, strike) = numbered
        due = Due(cell, top / str(number))
        strike(due)
        wrong = due.settled()
        if not wrong:
            shutil.rmtree(due.root.parent)
        return name, wrong

    with ThreadPoolExecutor(3) as pool:
        return {name: wrong for name, wrong in pool.map(one, enumerate(points)) if wrong}


def test_a_tick_killed_at_any_of_its_calls_runs_each_slot_once(
    cell: Cell, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    recorded = Due(cell, tmp_path / "recorded")
    recorded.drive(10, ("strace", "-qq", "-o", str(log), "-e", f"trace={CALLS}"))
    assert recorded.settled() == ""
    names = Counter(re.findall(r"^(\w+)\(", log.read_text(encoding="utf-8", errors="replace"), re.MULTILINE))
    points = [(name, when) for name, count in names.items() for when in range(1, count + 1)]
    chosen = points if EVERY else points[:: max(1, len(points) // SAMPLED)]
    struck = []

    def at(name: str, when: int) -> Callable[[Due], None]:
        def strike(due: Due) -> None:
            log, inject = str(due.root.parent / "log"), f"inject={name}:signal=KILL:when={when}"
            struck.append(due.drive(10, ("strace", "-qq", "-o", log, "-e", f"trace={name}", "-e", inject)))

        return strike

    wrong = walked(cell, tmp_path, [(f"{name} {when}", at(name, when)) for name, when in chosen])
    killed = sum(code != 0 for code in struck)
    with capsys.disabled():
        sys.stdout.write(
            f"\n  a tick killed at {killed} of {len(chosen)} of its {len(points)} calls: {len(wrong)} wrong\n"
        )
    assert wrong == {}
    assert killed >= len(chosen) * 0.7


def stand_in(due: Due, program: str, *inject: str) -> Path:
    """The log of a strace that runs in front of each call of `program` in the ticks of `due` that look there first."""
    folder = due.root.parent / "bin"
    folder.mkdir(exist_ok=True)
    log, real = folder / f"{program}.log", shutil.which(program, path=due.environ["PATH"])
    words = shlex.join(["strace", "-f", "-qq", "-A", "-o", str(log), "-e", f"trace={OF_COMMANDS}", *inject, str(real)])
    (folder / program).write_text(f'#!/bin/bash\nexec {words} "$@"\n', encoding="utf-8")
    (folder / program).chmod(0o755)
    return log


def test_a_qsub_or_qrls_killed_on_its_way_runs_each_slot_once(
    cell: Cell, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At any call on its way to the master: before it has asked, and when what it asked for has been done."""
    recorded = Due(cell, tmp_path / "recorded")
    logs = {program: stand_in(recorded, program) for program in ("qsub", "qrls")}
    recorded.drive(10, path=str(recorded.root.parent / "bin"))
    assert recorded.settled() == ""
    points = []
    for program, log in logs.items():
        count: Counter[str] = Counter()
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        for line in lines[1:]:  # strace counts no call of its own: it has begun the program by the first
            if call := re.match(rf"{lines[0].split()[0]} +(\w+)\(", line):  # of the first of its runs
                count[call[1]] += 1
                if "nscd" not in line:
                    points.append((program, call[1], count[call[1]]))
    chosen = points if EVERY else points[1::3]
    struck = []

    def at(program: str, call: str, when: int) -> Callable[[Due], None]:
        def strike(due: Due) -> None:
            log = stand_in(due, program, "-e", f"inject={call}:signal=KILL:when={when}")
            due.drive(10, path=str(log.parent))
            struck.append("killed by SIGKILL" in log.read_text(errors="replace") if log.exists() else False)

        return strike

    wrong = walked(cell, tmp_path, [(f"{p} {call} {when}", at(p, call, when)) for p, call, when in chosen])
    with capsys.disabled():
        sys.stdout.write(
            f"\n  a command killed at {sum(struck)} of {len(chosen)} of its {len(points)} calls: {len(wrong)} wrong\n"
        )
    assert wrong == {}
    assert sum(struck) >= len(chosen) * 0.5


def test_a_master_that_freezes_among_submissions_and_wakes_runs_nothing_twice(
    cell: Cell, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it has in its hands when it wakes it takes, though nobody waits for the answer any more.

    It is slowed down, so that submissions pile up, and freezes once a few of them have their answer; where it had none
    of the others in its hands, once more.
    """
    names = [f"e{n}" for n in range(ENTRIES)]
    wrong: list[str] = []
    reported = queued = unreported = 0
    for number in range(FREEZES):
        due = Due(cell, tmp_path / str(number), names, parallel=ENTRIES)
        answered = due.root.parent / "answered"
        answered.touch()
        qsub = due.root.parent / "bin" / "qsub"
        qsub.parent.mkdir()
        real = shutil.which("qsub", path=cell.environ["PATH"])
        qsub.write_text(
            f'#!/bin/bash\nid=$({real} "$@") || exit\necho "$id" >>{answered}\necho "$id"\n', encoding="utf-8"
        )
        qsub.chmod(0o755)
        before = job_ids(cell)
        try:
            with ThreadPoolExecutor(1) as pool:
                tick = pool.submit(due.drive, 10, path=str(qsub.parent))
                while len(answered.read_text().split()) < ANSWERED and not tick.done():
                    cell.wake()
                    time.sleep(0.003)
                    cell.freeze()
                    time.sleep(0.03)
        finally:
            cell.wake()
        told = set(answered.read_text().split())
        taken = job_ids(cell) - before
        reported, queued, unreported = reported + len(told), queued + len(taken | told), unreported + len(taken - told)
        wrong += filter(None, [due.settled()])
        if unreported:
            break
    with capsys.disabled():
        sys.stdout.write(
            f"\n  a master frozen {number + 1} times, each among {ENTRIES} submissions: {reported} reported, "
            f"{queued} queued, {unreported} of them reported as failed: {len(wrong)} wrong\n"
        )
    assert wrong == []
    assert unreported, "no job was taken that nobody was told of"
