"""Waits for one job's time, runs its script, and writes down how it ended. One process a job of the local backend.

Run as a file, `python -I -S supervisor.py JOB_FOLDER`: standard library only, so that it starts fast and
depends on nothing that an update could break under it. Ticks share its functions for files and processes.

The folder of a job. Ticks and supervisors, also of another version than theirs, write into it and take no locks, so a
file is what one of them may make or replace without looking:
  job.json         what was submitted. It never changes, and has the whole environment.
  script           the copy that runs, as Slurm keeps one.
  plan.json        begin, held, comment: replaced by ticks while the job waits, and read each second.
  supervisor.json  who waits: of several the last. Each writes it, where fate is the first one's.
  fate             "started", and by which supervisor, or "cancelled", when, and by whom. It is made once, by link(2),
                   and never replaced: nothing starts twice, or when it was cancelled.
  run.json         the script's process: it is made after the fate, and must be known before it begins.
  cancel           somebody wants a running job ended: who owns it. Empty (in earlier versions not), so that a full disk
                   takes it.
  end.json         how it ended: in every version's eyes a job that has it has ended.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Facts = dict[str, Any]  # a decoded JSON object; ticks look at what it holds (__init__.py)

LAUNCH_FAILURE = 53  # the "signal" that Slurm reports when the script could not even be started
_AWAITED = (signal.SIGUSR1, signal.SIGCHLD, signal.SIGTERM)  # the folder has changed, the script ended, a shutdown
_LOOK = 1.0  # seconds between looks at the folder, where no signal says that something changed
_STATE, _SESSION, _START_TIME = 0, 3, 19  # fields of /proc/PID/stat after the command's name


def now() -> int:
    """This machine's clock. The local backend is a batch system of its own, so it has one."""
    return int(time.time())  # noqa: TID251 - see above


# --- files ---------------------------------------------------------------------------------------------------------


def write(folder: str, name: str, facts: Facts) -> None:
    """Put a file in place, whole or not at all."""
    fresh = _fresh(folder, name, facts)
    os.rename(fresh, f"{folder}/{name}")


def write_once(folder: str, name: str, facts: Facts) -> bool:
    """Make a file that nobody has made yet; False: somebody has."""
    fresh = _fresh(folder, name, facts)
    try:
        os.link(fresh, f"{folder}/{name}")
    except FileExistsError:
        return False
    finally:
        os.unlink(fresh)
    return True


def _fresh(folder: str, name: str, facts: Facts) -> str:
    path = f"{folder}/.{name}.{os.getpid()}.{os.urandom(4).hex()}"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(handle, "wb") as file:  # of what a disk has room for half of, os.write takes that half
            file.write(json.dumps(facts).encode())
            file.flush()
            os.fsync(handle)
    except OSError:
        os.unlink(path)
        raise
    return path


def read(folder: str, name: str) -> Facts | None:
    """A file's facts, or None where there is no such file."""
    try:
        handle = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_NONBLOCK)  # a pipe is not waited for
    except FileNotFoundError:
        return None
    try:
        facts: Facts | None = json.loads(os.read(handle, os.fstat(handle).st_size))
    finally:
        os.close(handle)
    return {} if facts is None else facts


# --- processes -----------------------------------------------------------------------------------------------------


def _stat(pid: int | str) -> list[str]:
    """The fields of a process that runs; of another none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().decode("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []
    return fields if fields and fields[_STATE] not in "ZX" else []


def identity(pid: int) -> Facts:
    """What names a process for ever: its id alone is used again. `since` is "" of one that has ended."""
    fields = _stat(pid)
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return {"pid": pid, "since": fields[_START_TIME] if fields else "", "boot": boot, "host": os.uname().nodename}


def session(leader: int) -> list[int]:
    """All processes of the session that `leader` began, it included."""
    stats = ((int(name), _stat(name)) for name in os.listdir("/proc") if name.isdecimal())
    return [pid for pid, fields in stats if fields and fields[_SESSION] == str(leader)]


def send(pids: list[int], number: int) -> None:
    """Signal processes, of which some may have ended, or belong to root: sudo's."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


# --- waiting -------------------------------------------------------------------------------------------------------


class Alarm:
    """Sleep that ends early when a signal comes. Signals are blocked, so that none is lost between two sleeps."""

    def __init__(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
        for number in _AWAITED:
            signal.signal(number, signal.SIG_DFL)  # whatever our parent ignored
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._told = False

    @property
    def shut_down(self) -> bool:
        """Whether the machine is, also where no sleep has ended by that so far."""
        return self._told or signal.SIGTERM in signal.sigpending()

    def sleep(self, seconds: float) -> None:
        """Wait at most `seconds`."""
        came = signal.sigtimedwait(_AWAITED, max(seconds, 0))
        if came and came.si_signo == signal.SIGTERM:
            self._told = True


def wait_for_start(folder: str, alarm: Alarm) -> bool:
    """Wait until the job may start; whether it is ours to start."""
    while not alarm.shut_down:
        plan = read(folder, "plan.json")
        if plan is None or plan["held"] or os.path.lexists(f"{folder}/fate"):
            return False  # a release starts another one of us
        left = (plan["begin"] or 0) - now()
        if left <= 0:
            return write_once(folder, "fate", {"fate": "started", **identity(os.getpid())})
        alarm.sleep(min(left, _LOOK))
    return False


# --- running -------------------------------------------------------------------------------------------------------


def run(folder: str, job: Facts, alarm: Alarm) -> Facts:
    """Run the script to its end, or until somebody wants it ended; what end.json says."""
    started = now()
    try:
        go, child = _fork(folder, job)
    except OSError as error:
        failed = {"state": "FAILED", "reason": "JobLaunchFailure", "exit_code": None, "signal": LAUNCH_FAILURE}
        return {**failed, "started": started, "ended": now(), "detail": str(error)}
    write(folder, "run.json", {**identity(child), "started": started})
    os.write(go, b"1")
    os.close(go)
    status, why = _watch(folder, job, child, alarm)
    _clear(child, alarm, wait=why == "CANCELLED")
    code = os.waitstatus_to_exitcode(status)
    state = why or ("COMPLETED" if code == 0 else "FAILED")
    return {
        "state": state,
        "reason": "NonZeroExitCode" if state == "FAILED" else "",
        "exit_code": code if code >= 0 else None,
        "signal": -code if code < 0 else None,
        "started": started,
        "ended": now(),
        "detail": "the machine was shut down" if why == "NODE_FAIL" else "",
    }


def _watch(folder: str, job: Facts, child: int, alarm: Alarm) -> tuple[int, str]:
    """The script's wait status, and why it was ended ("" where it ended by itself)."""
    why, kill_at = "", 0.0
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status, why
        if not why and (alarm.shut_down or os.path.lexists(f"{folder}/cancel")):
            why = "NODE_FAIL" if alarm.shut_down else "CANCELLED"
            kill_at = os.times().elapsed + job["kill_wait" if "kill_wait" in job else "patience"]  # as before
            send(session(child), signal.SIGCONT)
            send(session(child), signal.SIGTERM)
        elif why and os.times().elapsed >= kill_at:
            send(session(child), signal.SIGKILL)
        alarm.sleep(0.2 if why else _LOOK)


def _clear(child: int, alarm: Alarm, *, wait: bool) -> None:
    """What the script left behind goes with it. A cancelled job has not ended while one of root's (sudo) goes on."""
    while left := session(child):
        send(left, signal.SIGKILL)
        if not wait or alarm.shut_down:
            break
        alarm.sleep(0.2)


def _fork(folder: str, job: Facts) -> tuple[int, int]:
    """A child that waits for a byte before it becomes the script: were we killed before we wrote it down, it ends."""
    argv = _argv(folder, job)
    output = _opened(job, job["output"])
    error = output if job["error"] in {None, job["output"]} else _opened(job, job["error"])
    if not os.path.isdir(job["chdir"]):
        raise OSError(f"the working folder {job['chdir']} is not there")
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        _become(argv, job, (ready, output, error))
    for handle in {ready, output, error}:
        os.close(handle)
    return go, child


def _argv(folder: str, job: Facts) -> list[bytes]:
    """The interpreter that the script names, as the kernel reads "#!", so that no noexec mount is in the way."""
    path = f"{folder}/script"
    with open(path, "rb") as file:
        first = file.readline().removeprefix(b"#!").strip()
    interpreter = first.split(None, 1)
    if not interpreter or not os.access(interpreter[0], os.X_OK):
        raise OSError(f"the interpreter {os.fsdecode(first)!r} in the script's first line is not there")
    return [*interpreter, os.fsencode(path), *(os.fsencode(argument) for argument in job["arguments"])]


def _opened(job: Facts, name: str) -> int:
    path = os.path.join(job["chdir"], name)
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if job["append"] else os.O_TRUNC)
    return os.open(path, flags, 0o666)


def _become(argv: list[bytes], job: Facts, handles: tuple[int, int, int]) -> None:
    """The child: a session of its own, then the script. Never returns."""
    try:
        ready, output, error = handles
        os.setsid()
        if os.read(ready, 1) != b"1":
            os._exit(1)
        nothing = os.open("/dev/null", os.O_RDONLY)
        for handle, number in ((nothing, 0), (output, 1), (error, 2)):
            os.dup2(handle, number)
        os.closerange(3, 64)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(job["chdir"])
        variables = {**job["environment"], **_of_the_job(job)}
        environment = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
        os.execve(argv[0], argv, environment)  # noqa: S606 - the one start that is no child of subprocess
    except OSError as failure:
        os.write(2, f"cronhpc: cannot start {os.fsdecode(argv[0])}: {failure}\n".encode())
    finally:
        os._exit(127)


def _of_the_job(job: Facts) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": str(job["id"]),
        "SLURM_JOBID": str(job["id"]),
        "SLURM_JOB_NAME": job["job_name"],
        "SLURM_JOB_USER": job["user"],
        "SLURM_SUBMIT_DIR": job["submit_dir"],
        "SLURM_JOB_NODELIST": os.uname().nodename,
        "SLURMD_NODENAME": os.uname().nodename,
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_NTASKS": "1",
    }


def write_end(folder: str, end: Facts, alarm: Alarm) -> None:
    """How the script ended is told once, so room on a full disk is waited for, unless the machine is shut down."""
    while True:
        try:
            return write(folder, "end.json", end)
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT} or alarm.shut_down:
                raise
        alarm.sleep(_LOOK)


def main(folder: str) -> None:
    """One job, from its release to its end."""
    alarm = Alarm()
    job = read(folder, "job.json")
    if job is None:
        return
    os.umask(job["umask"])
    write(folder, "supervisor.json", identity(os.getpid()))
    if wait_for_start(folder, alarm):
        write_end(folder, run(folder, job, alarm), alarm)


if __name__ == "__main__":
    main(sys.argv[1])
