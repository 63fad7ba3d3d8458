"""The one way to other programs: argument lists, absolute paths, a given environment, a time-out."""

from __future__ import annotations

import os
import re
import signal
import subprocess  # noqa: TID251 - this is the one way
from contextlib import suppress
from selectors import EVENT_READ, PollSelector

from cronhpc.core.model import CronhpcError
from cronhpc.cron.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from cronhpc.script.dialect import Dialect

    T = TypeVar("T")
    U = TypeVar("U")


USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"
_GRACE = 2.0  # seconds for the end of a child that has said enough: a wrapper may have printed a number of its own
_LOOK = 0.05  # seconds between looks at a child that keeps its pipes open
_CHUNK = 65536


class Missing(CronhpcError):
    """A program that is not there, or may not be executed."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended. `code` as the shell's, but -N for signal N; bytes that are no UTF-8 are kept as surrogates.

    `timed_out`: it did not end in time, and was killed with all that it started. `cut`: it was, having said enough.
    """

    code: int
    out: str
    err: str
    timed_out: bool = False
    cut: bool = False

    @property
    def printed(self) -> str:
        """What it printed, errors first, for a message."""
        return "\n".join(part for part in (self.err.strip(), self.out.strip()) if part)


def which(program: str, env: Mapping[str, str]) -> str | None:
    """The absolute path of `program` on the PATH of `env`, or None. Relative folders of a PATH do not count."""
    if "/" in program:
        return program if program.startswith("/") and _executable(program) else None
    for folder in env.get("PATH", USUAL_PATH).split(":"):
        path = f"{folder}/{program}"
        if folder.startswith("/") and _executable(path):
            return path
    return None


def _executable(path: str) -> bool:
    return os.access(path, os.X_OK) and os.path.isfile(path)  # noqa: PTH113 - pathlib would double the start-up


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str],
    input: str | None = None,  # noqa: A002 - subprocess's own word
    cwd: str | None = None,
    enough: Callable[[str], bool] | None = None,
) -> Finished:
    """Run `argv` and wait at most `timeout` seconds; then it and its process group are killed.

    `enough` is asked about the output so far: once it says yes, a child that does not end by itself is ended, and
    that counts as exit 0. Raises Missing.
    """
    program = which(argv[0], env)
    if program is None:
        raise Missing(f"{argv[0]}: no such program on PATH={env.get('PATH', USUAL_PATH)}")
    try:
        # a session of its own: a time-out can kill all of it, and a terminal's ^C does not reach it half-way
        child = subprocess.Popen(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL if input is None else (source := _readable(input)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            start_new_session=True,
            bufsize=0,  # its pipes are read by their descriptors
        )
    except OSError as error:
        named = os.fsdecode(error.filename or cwd or program)
        where = "" if named == program else f" ({named})"
        raise Missing(f"{program}: cannot be started: {error.strerror}{where}") from None
    finally:
        if input is not None:
            os.close(source)
    try:
        return _watched(child, timeout, enough)
    finally:
        _end(child)


def _readable(text: str) -> int:
    """A file descriptor that gives `text`: no pipe that could fill up, no disk that could be full."""
    handle = os.memfd_create("input")
    os.write(handle, os.fsencode(text))
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def elapsed() -> float:
    """Seconds since some moment, by times(2): no step of the clock moves it."""
    return os.times().elapsed


def _watched(child: subprocess.Popen[bytes], timeout: float, enough: Callable[[str], bool] | None) -> Finished:
    """Read a child's two pipes until it ends, or its time does."""
    deadline, satisfied, more = elapsed() + timeout, False, True
    printed: dict[int, list[bytes]] = {pipe.fileno(): [] for pipe in (child.stdout, child.stderr) if pipe}
    out, err = printed.values()
    with PollSelector() as selector:
        for handle in printed:
            os.set_blocking(handle, False)
            selector.register(handle, EVENT_READ)
        while more and (left := deadline - elapsed()) > 0:
            more = child.poll() is None
            if not selector.get_map():
                with suppress(subprocess.TimeoutExpired):
                    child.wait(left)
                continue
            ready = selector.select(min(left, _LOOK))
            more = more or bool(ready)  # a grandchild may keep the pipes of a child that ended
            for key, _ in ready:
                printed[key.fd].append(os.read(key.fd, _CHUNK))
                if not printed[key.fd][-1]:
                    selector.unregister(key.fd)
            if ready and enough and not satisfied and enough(_text(out)):
                satisfied, deadline = True, min(deadline, elapsed() + _GRACE)
    timed_out = child.poll() is None and not satisfied
    _end(child)
    cut = satisfied and child.returncode < 0
    return Finished(0 if cut else child.returncode, _text(out), _text(err), timed_out, cut)


def _text(parts: list[bytes]) -> str:
    return b"".join(parts).decode("utf-8", "surrogateescape")


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill a child that still runs, with its process group, and let go of its pipes."""
    if child.poll() is None:
        kill_group(child.pid, signal.SIGKILL)
        child.wait()
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def kill_group(group: int, number: int) -> bool:
    """Signal a process group; False: there is none (any more), or it is not ours."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


_started: list[subprocess.Popen[bytes]] = []


def start(argv: Sequence[str], *, env: Mapping[str, str]) -> int:
    """Start a program that may outlive us: own session, no terminal, no pipes. Its process id. Raises Missing."""
    for child in [each for each in _started if each.poll() is not None]:
        with suppress(ValueError):  # another thread was first
            _started.remove(child)
    try:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(env),
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise Missing(f"{argv[0]}: cannot be started: {error.strerror}") from None
    _started.append(child)  # init waits for it once we have ended; until then we do: a daemon starts thousands
    return child.pid


def attended(argv: Sequence[str], *, env: Mapping[str, str]) -> int:
    """Run a program that has this terminal, however long it takes; its exit code. Raises Missing."""
    try:
        return subprocess.call(list(argv), env=dict(env))
    except OSError as error:
        raise Missing(f"{argv[0]}: cannot be started: {error.strerror}") from None


def run_many(tasks: Sequence[Callable[[], T]], parallel: int) -> list[T | CronhpcError]:
    """Do the tasks, at most `parallel` at once; their results in order, a CronhpcError in the place of what failed."""

    def result(task: Callable[[], T]) -> T | CronhpcError:
        try:
            return task()
        except CronhpcError as error:
            return error

    return list(side_by_side(result, tasks, parallel))


def side_by_side(function: Callable[[U], T], values: Sequence[U], parallel: int) -> Iterator[T]:
    """`map`, at most `parallel` at once; what has not begun is left where nobody asks on, or a signal ends this."""
    return map(function, values) if parallel == 1 or len(values) == 1 else _pooled(function, values, parallel)


def _pooled(function: Callable[[U], T], values: Sequence[U], parallel: int) -> Iterator[T]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(parallel) as pool:
        yield from pool.map(function, values)  # which cancels what has not begun where it is closed


# --- the environment --------------------------------------------------------------------------------------------------
#
# Which variables reach the batch system's commands and the runs. Pure: a mapping in, a dict out.


# MPI's launchers', which a job's steps get.
_LAUNCHERS = (
    *("PMI_", "PMI2_", "PMIX_", "PRTE_", "OMPI_", "HYDRA_", "HYDI_", "MPI_LOCAL", "PALS_", "I_MPI_HYDRA", "FLUX_"),
)
_OF_A_JOB = frozenset(
    {"ENVIRONMENT", "HOSTNAME", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}
    | {"HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}
    # a run's own, when cronhpc is called inside one
    | {"CRONHPC_SLOT", "CRONHPC_ENTRY", "CRONHPC_ATTEMPT", "CRONHPC_PREVIOUS_SUCCESS"}
)
# The login's: gone, or somebody else's, when the run starts.
_LOGIN = (
    *("SSH_", "XDG_SESSION_", "VSCODE_", "TERM_PROGRAM", "LC_TERMINAL", "ITERM_", "KONSOLE_", "GNOME_", "KITTY_"),
    *("WEZTERM_", "ALACRITTY_", "VTE_", "TMUX", "BYOBU_", "ZELLIJ", "SUDO_", "JUPYTERHUB_", "JPY_", "WATCHDOG_"),
    *("LISTEN_", "KDE_", "NVIM"),
)
_OF_A_LOGIN = frozenset(
    {"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "WINDOWID", "STY", "WINDOW", "TERMCAP", "COLORTERM", "TERM"}
    | {"XDG_RUNTIME_DIR", "XDG_SEAT", "XDG_VTNR", "XDG_CURRENT_DESKTOP", "DESKTOP_SESSION", "DBUS_SESSION_BUS_ADDRESS"}
    | {"GPG_TTY", "GPG_AGENT_INFO", "GIT_ASKPASS", "BROWSER", "MAIL", "SHLVL", "PWD", "OLDPWD", "_"}
    | {"INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "MANAGERPID", "SYSTEMD_EXEC_PID", "ICEAUTHORITY"}
    | {"SESSION_MANAGER", "LINES", "COLUMNS", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE"}
)
_ALWAYS = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG")
SCRATCH = frozenset({"TMPDIR", "TMP", "TEMP", "TEMPDIR"})  # a site may make one for each job, and remove it with it


def scrub(environ: Mapping[str, str], dialect: Dialect, names: Sequence[str] | None = None) -> dict[str, str]:
    """`environ` less what belongs to the batch system, to a running job and to the login (design: Environment).

    `names` narrows it to those (shell patterns, "CONDA_*") and to what no script can do without (PATH, HOME …).
    """
    job_id = environ.get(dialect.job.id, "")
    gone = (*dialect.foreign, *_LAUNCHERS, *_LOGIN)
    kept = {
        name: value
        for name, value in environ.items()
        if name in dialect.kept
        or not (
            name in _OF_A_JOB
            or name in dialect.of_jobs
            or name in _OF_A_LOGIN
            or name.startswith(gone)
            or (name in SCRATCH and job_id and re.search(rf"(?<!\d){re.escape(job_id)}(?!\d)", value))
        )
    }
    if names is None:
        return kept
    from fnmatch import fnmatchcase

    wanted = (*_ALWAYS, *dialect.kept, *names)
    return {name: value for name, value in kept.items() if any(fnmatchcase(name, pattern) for pattern in wanted)}


def for_commands(environ: Mapping[str, str], dialect: Dialect) -> dict[str, str]:
    """The environment of the batch system's commands: scrubbed, what they need set, texts in English."""
    return {**scrub(environ, dialect), "LC_ALL": "C.UTF-8", **dict(dialect.set)}


def options_kept(environ: Mapping[str, str], dialect: Dialect) -> dict[str, str]:
    """What the caller's SBATCH_* variables ask for, as long option names: `init` writes it into settings."""
    return {option: environ[name] for name, option in dialect.options.items() if environ.get(name)}
