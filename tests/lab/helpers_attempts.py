"""What bob could try against alice, as rows: what she was careless with, what he does, and what her tick must say.

Every row runs in a world of its own: her cron directory, a folder of his, one of the team's, and files of hers that
must stay as they are. His scripts write down who runs them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.lab.conftest import Lab
from tests.lab.helpers_cron import DRIVE
from tests.lab.helpers_team import LIBRARIES, PYTHON

GROUP = "labgroup"
PRECIOUS = "what alice wrote over years\n"
EVIL = "#!/bin/bash\n#SBATCH --time=1\n#CRON * * * * *\nid -un >>{out}/ran\n"
COMMAND = 'alerts: {{command: bash {evil}}}\nentries:\n  x: {{schedule: "* * * * *", command: bash {evil}}}\n'
HIS = {
    "evil.slurm": EVIL,
    "settings": COMMAND,
    "trusting": "trust: {{group: labgroup, owners: [bob]}}\n",
    "environment": '{{"version":1,"environment":{{"BASH_ENV":"{evil}"}}}}',
    "status": '{{"version":1,"chain":"\\u001b[2J<b>"}}',
}
MINE = "#!/bin/bash\n#SBATCH --time=1\n#CRON * * * * *\ntrue\n"


def opened(*places: str) -> str:
    """What alice's umask, or a well-meant chmod, has done: his group may write there."""
    return "; ".join(f"chgrp {GROUP} {place} && chmod g+w {place}" for place in places)


def crashed(told: str) -> bool:
    """Whether it ended by a fault of cronhpc's; what it says on purpose is none (helpers_drive lets it through)."""
    last = told.rstrip().rpartition("\nTraceback")[2]
    return "Traceback" in told and not re.search(r"cronhpc\.[\w.]*SettingsError", last)


@dataclass(frozen=True)
class World:
    """`root` is alice's cron directory, `hers` what else she has, `his` bob's, `team` both may write, `out` all may."""

    lab: Lab
    top: Path

    @property
    def root(self) -> Path:
        return self.top / "alice" / "cron"

    @property
    def hers(self) -> Path:
        return self.top / "alice" / "data"

    @property
    def variables(self) -> dict[str, str]:
        names = {"root": self.root, "hers": self.hers, "his": self.top / "bob", "team": self.top / "team"}
        paths = {name: str(path) for name, path in names.items()}
        return {
            **paths,
            "python": PYTHON,
            "out": str(self.top / "out"),
            "evil": f"{paths['his']}/evil.slurm",
            "link": f"{paths['root']}/scheduler/scheduler.slurm",
            "PYTHONPATH": LIBRARIES,
        }

    def does(self, user: str, commands: str) -> str:
        """What a user types into a shell that goes on after a failure; what it printed."""
        if not commands:
            return ""
        done = self.lab.run(["bash", "-c", commands], user, check=False, env=self.variables)
        return done.stdout + done.stderr

    def tick(self, ahead: int = 7200) -> str:
        """A tick of alice's, some hours on: all slots are due, and no file is young."""
        argv = [PYTHON, str(DRIVE), "tick", str(self.root), str(int(time.time()) + ahead)]
        done = self.lab.run(argv, "alice", check=False, env={"PYTHONPATH": LIBRARIES})
        return f"exit {done.returncode}\n{done.stdout}{done.stderr}"

    def cronhpc(self, *words: str, where: Path | None = None) -> str:
        """A command of alice's, on her cron directory unless another is named."""
        argv = [PYTHON, "-m", "cronhpc", *words, "--dir", str(where or self.root)]
        done = self.lab.run(argv, "alice", check=False, env={"PYTHONPATH": LIBRARIES}, cwd=self.hers)
        return f"exit {done.returncode}\n{done.stdout}{done.stderr}"

    @contextlib.contextmanager
    def racing(self, user: str, commands: str) -> Iterator[None]:
        """Meanwhile a user does something over and over."""
        process = self.lab.popen(["bash", "-c", f"while :; do {commands}; done"], user, env=self.variables)
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def ran_as(self) -> list[str]:
        """Who ran bob's scripts, once no run that may start is in the queue any more."""
        self.lab.wait_for(lambda: not [job for job in self.runs() if job["reason"] != "BeginTime"], every=0.1)
        path = self.top / "out" / "ran"
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    def runs(self) -> list[dict[str, str]]:
        """Jobs of her entries that have not ended."""
        return [job for job in self.lab.squeue("alice") if "@" in job["comment"].split(" ")[0]]

    def text(self, job: dict[str, str]) -> str:
        """What a job in the queue will run."""
        return self.lab.run(["scontrol", "write", "batch_script", job["id"], "-"]).stdout

    def harm(self) -> list[str]:
        """What of hers is not as it was, or was run."""
        found = [f"alice ran {who}'s script" for who in self.ran_as() if who == "alice"]
        found += [f"job {job['id']} holds his script" for job in self.lab.squeue("alice") if "id -un" in self.text(job)]
        for path, mode in (
            (self.hers / "precious", 0o600),
            (self.hers / "old.out", 0o644),
            (self.hers / "page.html", 0o644),
        ):
            if not path.is_file() or path.read_text(encoding="utf-8") != PRECIOUS:
                found.append(f"{path.name} is gone or changed")
            elif stat.S_IMODE(path.stat().st_mode) != mode:
                found.append(f"{path.name} has mode {path.stat().st_mode:o}")
        return found


@dataclass(frozen=True)
class Model:
    """The world that each attempt gets a copy of."""

    lab: Lab
    top: Path

    def copy(self, to: Path) -> World:
        """A world of its own at `to`."""
        to.mkdir(mode=0o755)
        self.lab.run(["cp", "-a", f"{self.top}/.", str(to)])
        world = World(self.lab, to)
        name = secrets.token_hex(3)
        for room in ("state", "scheduler"):  # else its jobs would be taken for another world's
            (world.root / room / "id").write_text(f"{name}\n", encoding="ascii")
        for path in (world.root / "cron.d").iterdir():
            path.write_text(path.read_text(encoding="utf-8").replace(str(self.top), str(to)), encoding="utf-8")
        for file, text in HIS.items():
            (to / "bob" / file).write_text(
                text.format(out=to / "out", evil=to / "bob" / "evil.slurm"), encoding="utf-8"
            )
        return world


def build(lab: Lab, top: Path) -> Model:
    """alice's directory as `init` makes it, a script in it, and the other folders."""
    for name, user, group, mode in (
        ("alice", "alice", "alice", 0o755),
        ("bob", "bob", "bob", 0o755),
        ("team", "root", GROUP, 0o2775),
        ("out", "root", "root", 0o1777),
    ):
        folder = top / name
        folder.mkdir()
        shutil.chown(folder, user, group)
        folder.chmod(mode)
    world = World(lab, top)
    (top / "out" / "ran").touch()
    (top / "out" / "ran").chmod(0o666)
    lab.run(["mkdir", str(world.hers)], "alice")
    for name, mode in (("precious", 0o600), ("old.out", 0o644), ("page.html", 0o644)):
        path = world.hers / name
        path.write_text(PRECIOUS, encoding="utf-8")
        path.chmod(mode)
        os.utime(path, (0, 0))
        shutil.chown(path, "alice", "alice")
    said = world.cronhpc("init", "--group", GROUP)
    assert "exit 0" in said, said
    mine = world.root / "cron.d" / "mine.slurm"
    for path, user in ((mine, "alice"), *((top / "bob" / name, "bob") for name in HIS)):
        path.write_text(MINE, encoding="utf-8")
        path.chmod(0o644)
        shutil.chown(path, user, user)
    return Model(lab, top)


@functools.cache
def _model(root: Path) -> list[Model]:
    return []


def world(lab: Lab) -> Iterator[World]:
    """A fixture's body: a world of a test's own. The one it is copied from is made once a lab, and goes with it."""
    made = _model(lab.root)
    if not made:
        top = lab.root / "attempts"
        top.mkdir(mode=0o755)
        made.append(build(lab, top))
    with tempfile.TemporaryDirectory(prefix="lab-attempt-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield made[0].copy(Path(folder, "w"))
        lab.drain_queue()
