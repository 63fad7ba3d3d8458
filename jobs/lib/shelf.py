"""What the ready-made jobs share: exit codes, other programs, settings and words.

Standard library only, Python 3.9: it runs with whatever python3 a compute node has.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FINE, ALERT, BROKEN = 0, 1, 2
DAY = 86400
_SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"  # not on every user's PATH

# A running job's variables change what the commands of the batch system do (SQUEUE_STATES hides jobs, exit 0).
_BATCH = (
    "SLURM_",
    "SBATCH_",
    "SRUN_",
    "SALLOC_",
    "SQUEUE_",
    "SCANCEL_",
    "SACCT_",
    "SCONTROL_",
    "SINFO_",
    "PMI",
    "OMPI_",
)
_KEPT = frozenset({"SLURM_CONF", "SLURM_JWT"})


class Broken(Exception):
    """The job cannot do its work: what, and the fix. It ends with exit code 2."""


def door(main: Callable[[Settings], int]) -> None:
    """Run a job's main and exit with its code. Raises SystemExit; what is broken is one line, never a stack trace."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        code = main(Settings(sys.argv[1:]))
    except Broken as error:
        code = _broken(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        code = _broken(f"{where}{error.strerror or error}")
    except KeyboardInterrupt:
        code = 130
    sys.stdout.flush()
    raise SystemExit(code)


def _broken(text: str) -> int:
    print(f"broken: {text}", file=sys.stderr)
    return BROKEN


class Settings:
    """What is set at the top of a script, which hands it over as NAME=VALUE; of an array, as one NAME=VALUE an element.

    What cannot be is Broken, and names the setting.
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

    def given(self, name: str, fix: str) -> list[str]:
        """The elements of what must not be empty."""
        found = self.array(name)
        if not found:
            raise Broken(f"{name} is empty: {fix} at the top of the script")
        return found

    def number(self, name: str, least: float = 0) -> float:
        """A number that is not below `least`."""
        text = self.text(name)
        if not text.replace(".", "", 1).isdecimal() or float(text) < least:
            raise Broken(f"{name}={text}: write a number, {least:g} or more")
        return float(text)

    def count(self, name: str, least: int = 0) -> int:
        """A whole number that is not below `least`."""
        found = self.number(name, least)
        if found != int(found):
            raise Broken(f"{name}={self.text(name)}: write a whole number")
        return int(found)

    def one_of(self, name: str, *known: str) -> str:
        """One of the words that it may be."""
        text = self.text(name)
        if text not in known:
            raise Broken(f"{name}={text}: write {', '.join(known[:-1])} or {known[-1]}")
        return text

    def yes(self, name: str) -> bool:
        """A flag."""
        return yes(self.text(name), name)

    def folder(self, name: str) -> Path:
        """A folder that is there."""
        return folder(self.text(name), name)


def seconds_now() -> float:
    """The clock, in seconds since 1970; jobs read it once, at their door."""
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


def find(*names: str, package: str) -> str:
    """The path of the first of `names` that is here. Raises Broken, naming the package that brings it."""
    path = f"{os.environ.get('PATH', '')}:{_SYSTEM_FOLDERS}"
    for name in names:
        found = shutil.which(name, path=path)
        if found:
            return found
    raise Broken(f"{' or '.join(names)} is not on this node ({os.uname().nodename}): it comes with {package}")


def has(name: str) -> bool:
    """Whether a program is here."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_SYSTEM_FOLDERS}") is not None


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without what a running job has in it, with plain English and times as seconds."""
    kept = {name: value for name, value in environ.items() if name in _KEPT or not name.startswith(_BATCH)}
    return {**kept, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}


def ask(
    argv: Sequence[str],
    *,
    timeout: float = 60,
    text: str = "",
    environ: Mapping[str, str] | None = None,
) -> Answer:
    """Run a program to its end. Raises Broken where it cannot start, or takes longer than `timeout` seconds."""
    env = clean_environment(os.environ) if environ is None else dict(environ)
    try:
        with subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=True,  # so that all of it can be ended
        ) as process:
            try:
                out, err = process.communicate(text.encode("utf-8", "surrogateescape"), timeout)
            except subprocess.TimeoutExpired:
                _end(process)
                raise Broken(f"{shlex.join(argv)[:200]} did not end within {timeout:g} s") from None
    except OSError as error:
        raise Broken(f"{argv[0]} cannot be started: {error.strerror}") from None
    return Answer(process.returncode, _decoded(out), _decoded(err))


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.communicate(timeout=5)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        return


# --- folders ---------------------------------------------------------------------------------------------------------

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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


# --- words ---------------------------------------------------------------------------------------------------------

_UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}
_SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}


def ago(seconds: float) -> str:
    """A duration for people, in its two largest units at most: 3d, 2h 5m, 40s."""
    left = max(int(seconds), 0)
    parts = []
    for unit, worth in list(_UNITS.items())[1:]:
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


def duration(text: str) -> int:
    """Seconds of 90m, 2h, 7d. Raises Broken."""
    number, unit = text[:-1], text[-1:]
    if number.isascii() and number.isdecimal() and unit in _UNITS:
        return int(number) * _UNITS[unit]
    raise Broken(f"{text!r} is no duration: write it like 30m, 2h or 7d")


def byte_count(text: str) -> int:
    """Bytes of 500M, 5G, 0. Raises Broken."""
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].upper() in _SIZES else (text, "")
    if number.isascii() and number.isdecimal():
        return int(number) * _SIZES.get(unit, 1)
    raise Broken(f"{text!r} is no size: write it like 500M or 5G")


def plural(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def shown(name: str | os.PathLike[str]) -> str:
    """A name on one printable line, whatever is in it."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in os.fspath(name))


def shown_lines(text: str) -> str:
    """Text of several lines, each printable."""
    return "\n".join(map(shown, text.splitlines()))


def folder(text: str, variable: str) -> Path:
    """A folder that a variable of the script names. Raises Broken with the fix."""
    if not text:
        raise Broken(f"{variable} is empty: set it at the top of the script")
    path = Path(os.path.expanduser(text))
    if not path.is_absolute():
        raise Broken(f"{variable}={text}: write the whole path, at the top of the script")
    if not path.is_dir():
        raise Broken(f"{variable}={text}: there is no such folder on {os.uname().nodename} (not mounted?)")
    return path


def private(text: str, variable: str) -> Path:
    """A file with a secret, which only its owner may read. Raises Broken with the fix."""
    path = Path(os.path.expanduser(text))
    try:
        found = path.stat()
    except OSError as error:
        raise Broken(f"{variable}={text}: {error.strerror}") from None
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise Broken(
            f"{variable}={text} may be read by others: chmod 600 {shlex.quote(str(path))}, and change the secret"
        )
    return path


def yes(text: str, variable: str) -> bool:
    """A flag of the script: yes or no. Raises Broken for anything else, so that a slip never switches one on."""
    if text in {"yes", "no"}:
        return text == "yes"
    raise Broken(f"{variable}={text}: write yes or no")
