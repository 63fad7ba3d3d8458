"""Ready-made jobs at work: copies with their settings filled in, run as a batch system would run them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess  # noqa: TID251 - these scripts are for a shell, and are tried in one
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

JOBS = Path(__file__).resolve().parents[1] / "jobs"
LIB = JOBS / "lib"
SCRIPTS = sorted(JOBS.glob("*.slurm"))


@dataclass(frozen=True)
class Ended:
    """How a job ended, and what it printed."""

    code: int
    out: str

    @property
    def last(self) -> str:
        return self.out.rstrip("\n").rpartition("\n")[2]


def filled_in(job: str, place: Path, **settings: str) -> Path:
    """A copy of a job's script in `place`, with settings as one edits them: NAME="bash text"."""
    text = (JOBS / f"{job}.slurm").read_text(encoding="utf-8")
    for name, value in settings.items():
        found = re.search(rf"^{name}=.*$", text, re.MULTILINE)
        assert found, f"{job} has no setting {name}"
        text = f"{text[: found.start()]}{name}={value}{text[found.end() :]}"
    path = place / f"{job}.slurm"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def stand_in(place: Path, name: str, text: str) -> Path:
    """A program on PATH that stands for the real one; the folder to put there."""
    folder = place / "bin"
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text if text.startswith("#!") else f"#!/bin/bash\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return folder


def recording(place: Path, name: str, options: str, does: str = "") -> Path:
    """A stand-in that notes each call in `place`/NAME.calls, refuses options other than `options`, then runs `does`."""
    known = "|".join(options.split()) or "none"
    refuse = '-*) echo "unknown option $word" >&2; exit 64 ;;'
    check = f"for word; do case ${{word%%=*}} in --|-|{known}) ;; {refuse} esac; done"
    stand_in(place, name, f"{check}\necho \"$@\" >> '{place}/{name}.calls'\n{does}")
    return place / f"{name}.calls"


def environment(place: Path, **more: str) -> dict[str, str]:
    """A user's, with a home of their own, and the stand-ins of `place` before all else."""
    path = f"{place / 'bin'}:{os.environ['PATH']}"
    own = {"CRONHPC_JOBS_LIB": str(LIB), "CRONHPC_PYTHON": sys.executable}
    return {"HOME": str(place), "PATH": path, "LANG": "C.UTF-8", **own, **more}


_PLAIN = "bash sh sed dirname readlink uname cat mktemp rm mv stat date hostname grep sort df env chmod tr sleep"


def bare_environment(place: Path) -> dict[str, str]:
    """As `environment`, where nothing is installed but Python and what every machine has."""
    for name in _PLAIN.split():
        found = shutil.which(name)
        path = place / "bin" / name
        if found and not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.symlink_to(found)
    stand_in(place, "python3", f'exec {sys.executable} "$@"')
    return {**environment(place), "PATH": str(place / "bin"), "CRONHPC_PYTHON": "python3"}


def run(script: Path, environ: Mapping[str, str], *, timeout: float = 60) -> Ended:
    """Run a script with bash, as outside of any batch system; both outputs together, as in a job's log."""
    done = subprocess.run(
        ["bash", str(script)],
        env=dict(environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="surrogateescape",
        timeout=timeout,
        check=False,
        cwd="/",
    )
    return Ended(done.returncode, done.stdout)
