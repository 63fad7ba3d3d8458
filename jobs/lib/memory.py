"""What a job remembers between its runs."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path


def own_name(job: str) -> str:
    """What this job's state goes by: two entries made of one job do not share it."""
    name = os.environ.get("CRONHPC_ENTRY") or os.environ.get("SLURM_JOB_NAME") or job
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name).lstrip(".")[:100] or job


def state_file(job: str, suffix: str = "json") -> Path:
    """Where a job remembers: `$XDG_STATE_HOME/cronhpc-jobs/<name>.json`."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(home) / "cronhpc-jobs" / f"{own_name(job)}.{suffix}"


def read_state(path: Path) -> dict[str, dict[str, dict[str, object]]]:
    """What was remembered; {} where there is nothing, or nothing that can be read."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):  # at worst something is told twice
        return {}
    return value if isinstance(value, dict) else {}


def write_state(path: Path, value: Mapping[str, object], *, quiet: bool = False) -> None:
    """Remember `value`, wholly or not at all. On a full disk the job goes on: it may only repeat itself."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(temporary, "w", encoding="ascii") as file:
            json.dump({**read_state(path), **value}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if not quiet:
            print(f"{path} cannot be written ({error.strerror}): the same may be told again", file=sys.stderr)
        with contextlib.suppress(OSError):
            temporary.unlink()
