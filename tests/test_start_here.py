"""`start` where there is no batch system: a daemon of this machine, one alone, that `stop` ends."""

from __future__ import annotations

import json
import subprocess  # noqa: TID251 - a whole process, as a user starts it
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cronhpc.store import lease
from tests.test_cli import Shell, later
from tests.test_cli import shell as shell  # noqa: PLC0414 - a fixture


def cronhpc(root: Path, *words: str) -> str:
    argv = [sys.executable, "-m", "cronhpc", *words, "--dir", str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def lives(root: Path) -> bool:
    known = json.loads((root / "state" / "daemon.json").read_text(encoding="ascii"))
    return bool(lease.process_born(known["pid"]).partition(" ")[2] == known["born"])


def until(condition: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


def test_start_runs_one_daemon_and_stop_ends_it(tmp_path: Path) -> None:
    root = tmp_path / "cron"
    cronhpc(root, "init", "--backend", "local")
    try:
        assert "started the daemon" in cronhpc(root, "start")
        assert until((root / "status.json").exists)
        assert "chain   fine" in cronhpc(root, "status")
        assert "runs already" in cronhpc(root, "start")
    finally:
        cronhpc(root, "stop")
    assert until(lambda: not lives(root))


# --- Slurm's commands are not loaded ---------------------------------------------------------------------------------

THIS = "scripts would run on THIS machine"


def test_init_without_sbatch_makes_nothing_and_asks_for_the_local_backend(shell: Shell, tmp_path: Path) -> None:
    """It made a local directory: `module load slurm` had been forgotten, and jobs ran on the login node."""
    said = shell("init", "--dir", str(tmp_path / "new"), PATH=str(tmp_path))
    assert said.code == 2
    assert THIS in said.err
    assert "--backend local" in said.err
    assert not (tmp_path / "new").exists()


def test_init_writes_what_runs_the_scripts(shell: Shell, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    program.touch(0o755)
    shell("init", "--dir", str(tmp_path / "new"), PATH=str(program.parent))
    assert "\nbackend: slurm\n" in (tmp_path / "new" / "cronhpc.yaml").read_text()


@pytest.mark.parametrize("words", [["start"], ["run", "hello"], ["tick"]], ids=lambda words: words[0])
def test_nothing_runs_on_this_machine_that_nobody_has_asked_for(shell: Shell, words: list[str], tmp_path: Path) -> None:
    (shell.cron / "cronhpc.yaml").write_text("timezone: UTC\n")
    shell.drop("cron.hourly/hello.slurm")
    said = shell(*words, PATH=str(tmp_path), now=later() + 7200)
    assert THIS in said.out + said.err
    assert not list((shell.cron / "state" / "local" / "jobs").glob("[0-9]*"))
    assert not (shell.cron / "state" / "daemon.json").exists()
