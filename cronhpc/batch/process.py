"""The one way to other programs: argument lists, absolute paths, a given environment, a time-out."""

from __future__ import annotations

import os
import re
import signal
import subprocess  # noqa: TID251 - this is the one way
from selectors import EVENT_READ, BaseSelector, DefaultSelector
from typing import TYPE_CHECKING, TypeVar

from cronhpc.core.model import CronhpcError
from cronhpc.cron.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cronhpc.script.dialect import Dialect

T = TypeVar("T")

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
    def said(self) -> str:
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


@dataclass(frozen=True, slots=True)
class Call:
    """A program to run: `argv`, at most `timeout` seconds, with `input` on its standard input.

    `enough` is asked about the output so far: once it says yes, a child that does not end by itself is ended, and
    that counts as exit 0.
    """

    argv: Sequence[str]
    timeout: float
    env: Mapping[str, str]
    input: str | None = None
    cwd: str | None = None
    enough: Callable[[str], bool] | None = None


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str],
    input: str | None = None,  # noqa: A002 - subprocess's own word
    cwd: str | None = None,
    enough: Callable[[str], bool] | None = None,
) -> Finished:
    """Run `argv` and wait at most `timeout` seconds; then it and its process group are killed. Raises Missing."""
    return run_call(Call(argv, timeout, env, input, cwd, enough))


def run_call(call: Call) -> Finished:
    """The same. Raises Missing."""
    [(_, ended)] = side_by_side(iter([(None, call)]), 1)
    if isinstance(ended, CronhpcError):
        raise ended
    return ended


def side_by_side(
    calls: Iterator[tuple[T, Call | CronhpcError]], parallel: int
) -> Iterator[tuple[T, Finished | CronhpcError]]:
    """How each of `calls` ended, as soon as it has; at most `parallel` run at once. An error in place of one stands.

    The next one is not asked for before the caller has looked at all that have ended, so that it may depend on these.
    """
    children: dict[_Child, T] = {}
    with DefaultSelector() as selector:
        try:
            while True:
                while len(children) < parallel and (following := next(calls, None)) is not None:
                    name, call = following
                    if isinstance(call, CronhpcError):
                        yield name, call
                        continue
                    try:
                        children[_Child(_started(call), call, selector)] = name
                    except Missing as error:
                        yield name, error
                if not children:
                    return
                left = min(child.deadline for child in children) - elapsed()
                for key, _ in selector.select(max(0.0, min(left, _LOOK))):
                    key.data.read(key.fd)
                for child in [child for child in children if child.is_done()]:
                    yield children.pop(child), child.finished()
        finally:
            for child in children:
                child.end()


def _readable(text: str) -> int:
    """A file descriptor that gives `text`: no pipe that could fill up, no disk that could be full."""
    handle = os.memfd_create("input")
    os.write(handle, os.fsencode(text))
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def elapsed() -> float:
    """Seconds since some moment, by times(2): neither a step of the clock nor a compressed test clock moves it."""
    return os.times().elapsed


class _Child:
    """One program that runs, its two pipes, and the time it has."""

    def __init__(self, process: subprocess.Popen[bytes], call: Call, selector: BaseSelector) -> None:
        self.process = process
        self.selector = selector
        self.enough = call.enough
        self.deadline = elapsed() + call.timeout
        self.satisfied = False
        self.silent_since: float | None = None  # it has ended, and what it has started keeps its pipes open
        self.out: list[bytes] = []
        self.err: list[bytes] = []
        self.open: dict[int, list[bytes]] = {}
        for pipe, parts in ((self.process.stdout, self.out), (self.process.stderr, self.err)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe.fileno(), EVENT_READ, self)
                self.open[pipe.fileno()] = parts

    def read(self, handle: int) -> None:
        """Take what there is in one of its pipes."""
        self.silent_since = None
        if not (chunk := os.read(handle, _CHUNK)):
            self.selector.unregister(handle)
            del self.open[handle]
            return
        self.open[handle].append(chunk)
        if self.enough and not self.satisfied and self.enough(_text(self.out)):
            self.satisfied = True
            self.deadline = min(self.deadline, elapsed() + _GRACE)

    def is_done(self) -> bool:
        """Whether nothing more is to be waited for."""
        now = elapsed()
        if now >= self.deadline:
            return True
        if not self.open:
            return self._has_ended_within(_LOOK)
        if self.silent_since is None:
            self.silent_since = now if self.process.poll() is not None else None
            return False
        return now - self.silent_since >= _LOOK

    def _has_ended_within(self, seconds: float) -> bool:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def finished(self) -> Finished:
        """How it ended; one that still runs is ended."""
        timed_out = self.process.poll() is None and not self.satisfied
        self.end()
        code = self.process.wait()
        cut = self.satisfied and code < 0
        return Finished(0 if cut else code, _text(self.out), _text(self.err), timed_out, cut)

    def end(self) -> None:
        """Kill it if it still runs, with its process group, and let go of its pipes."""
        if self.process.poll() is None:
            kill_group(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for handle in self.open:
            self.selector.unregister(handle)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def _started(call: Call) -> subprocess.Popen[bytes]:
    """Raises Missing."""
    program = which(call.argv[0], call.env)
    if program is None:
        raise Missing(f"{call.argv[0]}: no such program on PATH={call.env.get('PATH', USUAL_PATH)}")
    source = subprocess.DEVNULL if call.input is None else _readable(call.input)
    try:
        # a session of its own: a time-out can kill all of it, and a terminal's ^C does not reach it half-way
        return subprocess.Popen(
            [program, *call.argv[1:]],
            bufsize=0,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=call.env,
            cwd=call.cwd,
            start_new_session=True,
        )
    except OSError as error:
        named = os.fsdecode(error.filename or call.cwd or program)
        where = "" if named == program else f" ({named})"
        raise Missing(f"{program}: cannot be started: {error.strerror}{where}") from None
    finally:
        if source != subprocess.DEVNULL:
            os.close(source)


def _text(parts: list[bytes]) -> str:
    return b"".join(parts).decode("utf-8", "surrogateescape")


def kill_group(group: int, number: int) -> bool:
    """Signal a process group; False: there is none (any more), or it is not ours."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def start(argv: Sequence[str], *, env: Mapping[str, str], cwd: str = "/") -> int:
    """Start a program that outlives us: own session, no terminal, no pipes. Its process id. Raises Missing."""
    try:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise Missing(f"{argv[0]}: cannot be started: {error.strerror}") from None
    # Nobody waits for it here: that is init's, once we have ended.
    child.returncode = 0
    return child.pid


def attended(argv: Sequence[str], *, env: Mapping[str, str]) -> int:
    """Run a program that has this terminal, however long it takes; its exit code. Raises Missing."""
    try:
        return subprocess.call(list(argv), env=dict(env))
    except OSError as error:
        raise Missing(f"{argv[0]}: cannot be started: {error.strerror}") from None


def run_many(tasks: Sequence[Callable[[], T]], parallel: int) -> list[T | CronhpcError]:
    """Do the tasks, at most `parallel` at once; their results in order, a CronhpcError in the place of what failed."""
    from concurrent.futures import ThreadPoolExecutor

    def result(task: Callable[[], T]) -> T | CronhpcError:
        try:
            return task()
        except CronhpcError as error:
            return error

    with ThreadPoolExecutor(parallel) as pool:
        return list(pool.map(result, tasks))


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
    return {name: value for name, value in kept.items() if any(fnmatchcase(name, one) for one in wanted)}


def for_commands(environ: Mapping[str, str], dialect: Dialect) -> dict[str, str]:
    """The environment of the batch system's commands: scrubbed, what they need set, texts in English."""
    return {**scrub(environ, dialect), "LC_ALL": "C.UTF-8", **dict(dialect.set)}


def options_kept(environ: Mapping[str, str], dialect: Dialect) -> dict[str, str]:
    """What the caller's SBATCH_* variables ask for, as long option names: `init` writes it into settings."""
    return {option: environ[name] for name, option in dialect.options.items() if environ.get(name)}
