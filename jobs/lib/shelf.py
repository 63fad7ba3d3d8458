"""What the ready-made jobs share: settings, other programs, folders, memory and words.

Standard library only, Python 3.9: it runs with whatever python3 a compute node has.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FINE, ALERT, BROKEN = 0, 1, 2
DAY = 86400

# A running job's variables change what the commands of the batch system do (SQUEUE_STATES hides jobs, exit 0).
_BATCH = re.compile(r"(SLURM|SBATCH|SRUN|SALLOC|SQUEUE|SCANCEL|SACCT|SCONTROL|SINFO|OMPI)_|PMI")
_KEPT = frozenset({"SLURM_CONF", "SLURM_JWT"})


class Broken(Exception):
    """The job cannot do its work: what, and the fix. It ends with exit code 2."""


def run(main: Callable[[Settings], int]) -> None:
    """Run a job's main and exit with its code. Raises SystemExit; what is broken is one line, never a stack trace."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    code, why = BROKEN, ""
    try:
        code = main(Settings(sys.argv[1:]))
    except Broken as error:
        why = str(error)
    except OSError as error:
        why = ": ".join(str(word) for word in (error.filename, error.strerror or error) if word)
    except KeyboardInterrupt:
        code = 130
    if why:
        print(f"broken: {why}", file=sys.stderr)
    sys.stdout.flush()
    raise SystemExit(code)


class Settings:
    """What is set at the top of a script: NAME=VALUE each, of an array one a word. start.sh has looked at each.

    `job` is the job's name; what it remembers between its runs lies in files that begin with `state`.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, _, value in (word.partition("=") for word in words):
            self._values.setdefault(name, []).append(value)

    def array(self, name: str) -> list[str]:
        """Its elements that are not empty."""
        return [value for value in self._values.get(name, ()) if value]

    def text(self, name: str) -> str:
        """As it is written; "" where it is empty."""
        return self._values.get(name, [""])[-1]

    def number(self, name: str) -> int:
        """A whole number."""
        return int(self.text(name))

    def state(self, suffix: str) -> Path:
        """The file of this ending in which the job remembers."""
        return Path(f"{self.text('state')}.{suffix}")


def seconds_now() -> float:
    """The clock, in seconds since 1970; jobs read it once, when they begin."""
    return time.time()


# --- other programs ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What a program said."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Its complaint in one line."""
        return " / ".join(line.strip() for line in (self.err or self.out).splitlines() if line.strip())[:400]


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without what a running job has in it, with plain English and times as seconds."""
    kept = {name: value for name, value in environ.items() if name in _KEPT or not _BATCH.match(name)}
    return {**kept, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}


def ask(
    argv: Sequence[str], *, timeout: float = 60, text: str = "", environ: Mapping[str, str] | None = None
) -> Answer:
    """Run a program to its end. Raises Broken where it cannot start, or takes longer than `timeout` seconds."""
    env = clean_environment(os.environ) if environ is None else dict(environ)
    try:
        pipe = subprocess.PIPE  # a session of its own, so that all of it can be ended
        with subprocess.Popen(
            list(argv), stdin=pipe, stdout=pipe, stderr=pipe, env=env, start_new_session=True
        ) as process:
            try:
                out, err = process.communicate(text.encode("utf-8", "surrogateescape"), timeout)
            except subprocess.TimeoutExpired:
                _end(process)
                raise Broken(f"{shlex.join(argv)[:200]} did not end within {timeout:g} s") from None
    except OSError as error:
        raise Broken(f"{argv[0]} cannot be started: {error.strerror}") from None
    return Answer(process.returncode, *(each.decode("utf-8", "surrogateescape") for each in (out, err)))


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, number)
            process.communicate(timeout=5)
            return


# --- folders ---------------------------------------------------------------------------------------------------------

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def opened(name: str | os.PathLike[str], folder: int | None = None) -> Iterator[int]:
    """A folder's handle; of one that lies in an open `folder` no link is followed. Raises OSError."""
    handle = os.open(name, FOLDER if folder is not None else FOLDER & ~os.O_NOFOLLOW, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


def below(folder: int, *, strict: bool = False, prefix: str = "") -> Iterator[tuple[int, str, os.stat_result]]:
    """All below an open folder, on its file system, each folder after what it holds: (its folder, its path, its lstat).

    Through handles and never through a link: whatever is moved about meanwhile, nothing outside is reached. Where it
    may not look it says so, unless it is `strict`: then it raises OSError.
    """
    device = os.fstat(folder).st_dev
    for name in sorted(os.listdir(folder)):
        try:
            found = os.lstat(name, dir_fd=folder)
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(found.st_mode) and found.st_dev == device:
            try:
                inside = os.open(name, FOLDER, dir_fd=folder)
            except OSError as error:
                if strict:
                    raise
                print(f"not looked into: {shown(prefix + name)} ({error.strerror})")
                continue
            try:
                yield from below(inside, strict=strict, prefix=f"{prefix}{name}/")
            finally:
                os.close(inside)
        yield folder, prefix + name, found


# --- memory ----------------------------------------------------------------------------------------------------------


def read_state(path: Path) -> dict[str, dict[str, Any]]:
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


def keep(path: Path, data: bytes, failed: str) -> str:
    """Write a file for people to read: where it is, or that this `failed`, and why."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        return f"{failed} ({error.strerror})"
    return str(path)


# --- words ---------------------------------------------------------------------------------------------------------


def ago(seconds: float) -> str:
    """A duration for people, in its two largest units at most: 3d, 2h 5m, 40s."""
    left = max(int(seconds), 0)
    parts = []
    for unit, worth in (("d", DAY), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, worth)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def size(count: float) -> str:
    """Bytes for people: 812 B, 3.1 GiB."""
    if count < 1024:  # noqa: PLR2004 - a KiB
        return f"{count:.0f} B"
    for unit in "KMGTP":
        count /= 1024
        if count < 1000 or unit == "P":  # noqa: PLR2004 - three digits
            break
    return f"{count:.3g} {unit}iB"


def plural(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def shown(name: str | os.PathLike[str]) -> str:
    """A name on one printable line, whatever is in it."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in os.fspath(name))
