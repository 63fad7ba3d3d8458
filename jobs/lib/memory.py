"""What a job remembers between its runs, and the lock that keeps two of them apart."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import shelf


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


@contextlib.contextmanager
def lock(job: str) -> Iterator[str]:
    """Be the only one at it; yields "" or who is. O_EXCL, not flock, which some cluster file systems keep to a node."""
    path = state_file(job, "lock")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    me = f"{os.environ.get('SLURM_JOB_ID', '-')} {os.uname().nodename} {os.getpid()}"
    holder = _take(path, me)
    if holder and _is_gone(holder):
        grave = path.with_name(f"{path.name}.dead.{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, grave)  # of two who find it dead one wins
            grave.unlink()
        holder = _take(path, me)
    try:
        yield holder and f"{holder} (if that is wrong, remove {path})"
    finally:
        if not holder:
            path.unlink()


def _take(path: Path, me: str) -> str:
    """Who has it; "" when it is ours now."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        with contextlib.suppress(FileNotFoundError):
            holder = path.read_text(encoding="utf-8", errors="replace").strip()
            return "" if holder == me else holder or "somebody who has just begun"
        return "somebody who has just ended"
    with open(handle, "w", encoding="utf-8") as file:
        file.write(me)
    return ""


def _is_gone(holder: str) -> bool:
    """Whether a lock's holder has ended; what cannot be told is not gone."""
    words = holder.split()
    if len(words) != 3 or not words[2].isdecimal():  # noqa: PLR2004 - job, host, process
        return False
    if words[0] != "-":
        if not shelf.has("squeue"):
            return False
        answer = shelf.ask(["squeue", "-h", "-j", words[0], "-o", "%T"])
        return (answer.code == 0 and not answer.out.strip()) or "Invalid job id" in answer.err
    return words[1] == os.uname().nodename and not os.path.exists(f"/proc/{words[2]}")
