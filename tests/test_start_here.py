"""`start` where there is no batch system: a daemon of this machine, one alone, that `stop` ends."""

from __future__ import annotations

import json
import subprocess  # noqa: TID251 - a whole process, as a user starts it
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cronhpc.store import lease


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
