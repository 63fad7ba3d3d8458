"""A real Grid Engine for tests, and a cron directory on it.

Its programs are Debian's, fetched once (deploy/lab/gridengine); where they cannot be had its tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.conftest import MOST_WAIT, clean_environment

LAB = Path(__file__).resolve().parents[2] / "deploy" / "lab" / "gridengine"
TOP = LAB.parents[2]
_CANNOT = 3  # what it exits with where its programs cannot be had


@dataclass(frozen=True)
class Cell:
    """A running one."""

    folder: Path
    environ: dict[str, str]

    def master(self, what: str) -> None:
        subprocess.run([str(LAB), "master", what, "--dir", str(self.folder)], check=True, timeout=MOST_WAIT)

    def freeze(self) -> None:
        """At once, and not as soon as a script has started that does it."""
        os.kill(self._master(), signal.SIGSTOP)

    def wake(self) -> None:
        os.kill(self._master(), signal.SIGCONT)

    def freeze_host(self) -> None:
        """What starts jobs: those that are sent to it stay in state `t`."""
        os.kill(self._host(), signal.SIGSTOP)

    def wake_host(self) -> None:
        os.kill(self._host(), signal.SIGCONT)

    def _host(self) -> int:
        (path,) = (self.folder / "spool" / "execd").glob("*/execd.pid")
        return int(path.read_text())

    def _master(self) -> int:
        return int((self.folder / "spool" / "qmaster" / "qmaster.pid").read_text())


@contextmanager
def a_cell(clock: Mapping[str, str] | None = None) -> Iterator[Cell]:
    """A cell of its own, ended with all of its jobs; skips where its programs cannot be had.

    `clock`: libfaketime's variables, by whose clock it lives, and its jobs.
    """
    folder = Path(tempfile.mkdtemp(prefix="ge"))
    folder.chmod(0o755)
    words = ["--dir", str(folder)]
    if clock:
        (folder / "clock").write_text("".join(f"{name}={value}\n" for name, value in clock.items()), encoding="utf-8")
    try:
        up = subprocess.run([str(LAB), "up", *words], capture_output=True, text=True, timeout=400, check=False)
        if up.returncode == _CANNOT:
            pytest.skip(up.stderr)
        assert up.returncode == 0, up.stderr
        shown = subprocess.check_output(
            [str(LAB), "exec", *words, "--", "env", "-0"], text=True, env=clean_environment()
        )
        yield Cell(folder, dict(line.split("=", 1) for line in shown.split("\0") if line))
    finally:
        subprocess.run([str(LAB), "down", *words], timeout=120, check=True)
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Cron:
    """A cron directory on it."""

    cell: Cell
    root: Path

    def __call__(self, *words: str, path: str = "", code: int | None = 0) -> str:
        """What a command prints; `path`: a folder to look for programs in first."""
        environ = {**self.cell.environ, "HOME": str(self.root.parent), "CRONHPC_DIR": str(self.root)}
        environ |= {
            "PYTHONPATH": str(TOP),
            "TZ": "Asia/Tokyo",
            "PATH": f"{path}:{environ['PATH']}" if path else environ["PATH"],
        }
        argv = [sys.executable, "-m", "cronhpc", *words]
        done = subprocess.run(argv, env=environ, cwd="/", capture_output=True, text=True, timeout=300, check=False)
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def entry(self, name: str, body: str, schedule: str = "0 4 1 1 *", directives: str = "") -> None:
        path = self.root / "cron.d" / f"{name}.slurm"
        path.write_text(f"#!/bin/bash\n{directives}#CRON {schedule}\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
        os.utime(path)
        time.sleep(3.5)  # younger files are left for the next look

    @property
    def run(self) -> str:
        """What a script does to be counted; Grid Engine's jobs have the home folder of the password file."""
        return f'echo "$CRONHPC_SLOT $JOB_ID" >>{self.root.parent}/ran'

    @property
    def ran(self) -> list[str]:
        """A line a run."""
        told = self.root.parent / "ran"
        return told.read_text(encoding="utf-8").splitlines() if told.exists() else []

    def jobs(self) -> list[str]:
        """The ids of all jobs of the cell."""
        return [line.split()[0] for line in self.queue().splitlines()[2:]]

    def queue(self) -> str:
        """What qstat prints of all of them."""
        return subprocess.check_output(["qstat", "-u", "*"], env=self.cell.environ, text=True, timeout=MOST_WAIT)

    def until(self, holds: Callable[[], bool]) -> None:
        """Tick until it does."""
        end = time.monotonic() + MOST_WAIT + 60  # for the next minute, which is due
        while not holds():
            assert time.monotonic() < end, self("status", code=None) + self("history", code=None)
            self("tick", code=None)
            time.sleep(1)


@contextmanager
def a_cron(cell: Cell, root: Path, *words: str, backend: str = "grid_engine") -> Iterator[Cron]:
    """A cron directory at `root`, whose parent is made, by `init WORDS`; all jobs of the cell end with it."""
    made = Cron(cell, root)
    made.root.parent.mkdir()
    made("init", "--backend", backend, *words)
    settings = made.root / "cronhpc.yaml"
    text = settings.read_text(encoding="utf-8").replace("\nscheduler:\n", "\nscheduler:\n  timeout: 15s\n")
    assert "timeout: 15s" in text
    settings.write_text(text, encoding="utf-8")
    yield made
    subprocess.run(["qdel", "-u", "*"], env=cell.environ, capture_output=True, timeout=MOST_WAIT, check=False)


def wait_for(holds: Callable[[], bool], seconds: float, otherwise: Callable[[], str]) -> None:
    """Until it does, or so many seconds have gone by: `otherwise` is said then."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, otherwise()
        time.sleep(0.5)
