"""alice's cron directory, and bob of her group: both run cronhpc themselves, as a team on a cluster does."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cronhpc.core.model import HistoryRow
from cronhpc.store import history
from tests.lab.conftest import MOST_WAIT, Lab

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable  # one that alice may run, too
LIBRARIES = f"{REPOSITORY}:{sysconfig.get_paths()['purelib']}"
GROUP = "labgroup"
HUNG = "trap '' TERM INT HUP\ntouch {place}/ready-$SLURM_JOB_ID\nwhile :; do sleep 0.2; done\n"


@dataclass
class Team:
    """`root` is alice's, with kill/ and pause/ for the group."""

    lab: Lab
    root: Path
    place: Path  # hers, for scripts and what they write

    @classmethod
    def make(cls, lab: Lab, place: Path) -> Team:
        team = cls(lab, place / "cron", place)
        team.cronhpc("init", "--group", GROUP)
        return team

    def settings(self, text: str) -> None:
        """These, and none of those that `init` wrote."""
        (self.root / "cronhpc.yaml").write_text(text, encoding="utf-8")

    @property
    def env(self) -> dict[str, str]:
        return {"PYTHONPATH": LIBRARIES}

    def argv(self, *words: str) -> list[str]:
        return [PYTHON, "-m", "cronhpc", "--dir", str(self.root), *words]

    def cronhpc(self, *words: str, user: str = "alice", codes: tuple[int, ...] = (0, 1), umask: int = 0o022) -> str:
        """What a command printed."""
        argv = ["bash", "-c", f'umask {umask:o}; exec "$@"', "-", *self.argv(*words)]
        done = self.lab.run(argv, user, check=False, env=self.env, cwd=self.place)
        assert done.returncode in codes, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def json(self, *words: str, user: str = "alice") -> Any:
        return json.loads(self.cronhpc(*words, "--json", user=user))

    def tick(self) -> Any:
        """One tick; its report."""
        return self.json("tick")

    def touch(self, name: str, kind: str = "kill", text: str = "", user: str = "bob") -> Path:
        """What bob does, with nothing but the shell."""
        path = self.root / kind / name
        self.lab.run(["bash", "-c", 'printf %s "$1" > "$2"', "-", text, str(path)], user)
        return path

    def submit(self, text: str, *options: str, user: str = "alice") -> str:
        """A job of hers that cronhpc knows nothing of; its id."""
        script = self.place / f"job-{time.monotonic_ns()}.sh"
        script.write_text(f"#!/bin/bash\n{text.replace('{place}', str(self.place))}", encoding="utf-8")
        script.chmod(0o755)
        return self.lab.submit("--output=/dev/null", *options, str(script), user=user, cwd=self.place)

    def drop(self, text: str, *paths: str) -> None:
        """Scripts of hers, old enough to count; `{place}` and `{name}` in them are her folder and their name."""
        for file in (self.root / path for path in paths):
            body = text.replace("{place}", str(self.place)).replace("{name}", file.stem)
            file.write_text(f"#!/bin/bash\n{body}", encoding="utf-8")
            shutil.chown(file, "alice", "alice")
        time.sleep(3.2)

    def links(self, state: str = "PENDING") -> list[str]:
        """The chain's links in that state, spares not counted, oldest first."""
        rows = [row for row in self.lab.squeue("alice") if "/link " in row["comment"] and row["state"] == state]
        return sorted((row["id"] for row in rows), key=int)

    def wait_for_links(self) -> None:
        """Until each of the chain's links that are left waits for its time."""
        self.lab.wait_for(
            lambda: {row["reason"] for row in self.lab.squeue("alice") if "/link " in row["comment"]} == {"BeginTime"}
        )

    def hung(self, *options: str) -> str:
        """A running job that ignores SIGTERM."""
        job = self.submit(HUNG, *options)
        self.lab.wait_for((self.place / f"ready-{job}").exists)
        return job

    def states(self, *jobs: str) -> dict[str, str]:
        """Those of these jobs that are in the queue: state and reason."""
        rows = self.lab.squeue("alice")
        return {r["id"]: f"{r['state']} {r['reason']}" for r in rows if r["id"].partition("_")[0] in jobs}

    def wait_gone(self, *jobs: str, timeout: float = MOST_WAIT) -> float:
        """Seconds until none of these is in the queue."""
        began = time.monotonic()
        self.lab.wait_for(lambda: not self.states(*jobs), timeout, every=0.02)
        return time.monotonic() - began

    def rows(self, what: str) -> list[HistoryRow]:
        """History rows of a kind, newest first."""
        return [row for row in history.rows(self.root / "state" / "history") if row.get("what") == what]

    @contextlib.contextmanager
    def daemon(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """`cronhpc daemon` of hers, until the block ends."""
        log = self.place / f"daemon-{time.monotonic_ns()}.log"
        argv = ["bash", "-c", f'exec "$@" > {log} 2>&1', "-", *self.argv("daemon", *words)]
        process = self.lab.popen(argv, "alice", env=self.env)
        try:
            self.lab.wait_for(lambda: watching(process))
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=90)
            sys.stderr.write(log.read_text(errors="replace") if log.exists() else "")


def watching(process: subprocess.Popen[str]) -> bool:
    """Whether its first tick is over: it watches, and waits for no command."""
    assert process.poll() is None, "the daemon has ended"
    threads = list(Path(f"/proc/{process.pid}/task").iterdir())
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, check=False).stdout
    return len(threads) > 1 and not children


def kill_wait(lab: Lab) -> int:
    """Slurm's seconds from TERM to KILL: its KillWait, but a node's slurmd takes no less than 5."""
    match = re.search(r"KillWait\s*=\s*(\d+)", lab.run(["scontrol", "show", "config"]).stdout)
    assert match
    return max(int(match[1]), 5)
