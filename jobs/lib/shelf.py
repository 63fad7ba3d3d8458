"""What the ready-made jobs share: exit codes, other programs, and alerts that are sent once.

Standard library only, Python 3.9: it runs with whatever python3 a compute node has.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FINE, ALERT, BROKEN = 0, 1, 2
DAY = 86400
_NOTIFY_TIME = 60
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
    """The job cannot do its work: what, and the mend. It ends with exit code 2."""


def door(main: Callable[[Sequence[str]], int]) -> None:
    """Run a job's main and exit with its code. Raises SystemExit; what is broken is one line, never a stack trace."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        code = main(sys.argv[1:])
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


# --- alerts: each once ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Alert:
    """Something that is wrong. `key` says which thing, `level` how much ("warn" is less): another is told anew."""

    key: str
    text: str
    level: str = "alert"


@dataclass(frozen=True)
class Told:
    """What was sent last about a key, and when (seconds since 1970)."""

    level: str
    text: str
    at: float


def news(
    told: Mapping[str, Told],
    alerts: Sequence[Alert],
    unknown: frozenset[str] = frozenset(),
    *,
    now: float,
    again: float = 0,
    fine: Mapping[str, str] | None = None,
) -> tuple[list[str], dict[str, Told]]:
    """(what to send, what was told after that). The same alert is sent again after `again` seconds (0: never).

    An alert that stands no more is sent once as "fine again", in the words that `fine` has for its key, else its own;
    of an `unknown` key nothing is said, and nothing forgotten.
    """
    lines: list[str] = []
    after: dict[str, Told] = {}
    standing = {alert.key: alert for alert in alerts}
    for key, alert in standing.items():
        before = told.get(key)
        stale = before is not None and again > 0 and not 0 <= now - before.at < again  # the future is distrusted
        if before is None or before.level != alert.level or stale:
            lines.append(f"{'WARN' if alert.level == 'warn' else 'ALERT'}: {alert.text}")
            after[key] = Told(alert.level, alert.text, now)
        else:
            after[key] = before
    for key, before in told.items():
        if key in standing:
            continue
        if key in unknown:
            after[key] = before
        else:
            lines.append(f"fine again: {(fine or {}).get(key, before.text)}")
    return lines, after


def tell(
    job: str,
    alerts: Sequence[Alert],
    unknown: frozenset[str] = frozenset(),
    *,
    now: float,
    notify: str = "",
    again: float = 0,
    fine: Mapping[str, str] | None = None,
) -> int:
    """Send what is new, remember it, and print what stands; the job's exit code.

    `notify` is a command that gets the message on its standard input; "": the job's log is all.
    """
    path, told = state_file(job), remembered(job)
    lines, after = news(told, alerts, unknown, now=now, again=again, fine=fine)
    for alert in alerts:
        same = told.get(alert.key) is not None and after[alert.key] == told[alert.key]
        if same:
            print(f"still: {alert.text} (told {ago(now - told[alert.key].at)} ago)")
    for line in lines:
        print(line)
    if lines and notify and not _sent(notify, f"{job}\n" + "\n".join(lines) + "\n"):
        after = told  # tried again next time
    write_state(path, {"told": {key: vars(row) for key, row in after.items()}}, quiet=after == told)
    return ALERT if any(alert.level != "warn" for alert in alerts) else FINE


def remembered(job: str) -> dict[str, Told]:
    """What was told of each key, and stands."""
    rows = read_state(state_file(job)).get("told", {})
    return {key: Told(str(row["level"]), str(row["text"]), float(str(row["at"]))) for key, row in rows.items()}


def _sent(notify: str, text: str) -> bool:
    try:
        words = [os.path.expanduser(word) for word in shlex.split(notify)]
        answer = ask(words, text=text, timeout=_NOTIFY_TIME, environ=os.environ)
    except (Broken, ValueError) as error:
        print(f"NOTIFY: {error}; it will be sent next time", file=sys.stderr)
        return False
    if answer.code:
        print(f"NOTIFY: {words[0]} exited {answer.code}: {answer.said}; it will be sent next time", file=sys.stderr)
    return answer.code == 0


# --- what a job remembers between its runs -------------------------------------------------------------------------


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


def folder(text: str, variable: str) -> Path:
    """A folder that a variable of the script names. Raises Broken with the mend."""
    if not text:
        raise Broken(f"{variable} is empty: set it at the top of the script")
    path = Path(os.path.expanduser(text))
    if not path.is_absolute():
        raise Broken(f"{variable}={text}: write the whole path, at the top of the script")
    if not path.is_dir():
        raise Broken(f"{variable}={text}: there is no such folder on {os.uname().nodename} (not mounted?)")
    return path


def yes(text: str, variable: str) -> bool:
    """A flag of the script: yes or no. Raises Broken for anything else, so that a slip never switches one on."""
    if text in {"yes", "no"}:
        return text == "yes"
    raise Broken(f"{variable}={text}: write yes or no")
