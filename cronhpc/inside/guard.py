"""`cronhpc guard [options] -- COMMAND…`: run a command, and end it when a kill switch is set.

    cronhpc guard --kill-switch /proj/team/kill/training17 --grace 5m -- python train.py
    cronhpc guard --warn-before-end 10m --signal USR1 -- python train.py

The command runs in a process group of its own. A signal that reaches the guard is passed to that group, and the
command's exit code is the guard's (128 + n where signal n ended it). When a switch is set the group gets `--signal`;
what is left of it after `--grace` gets KILL, and the guard exits with STOPPED_EXIT, whatever the command's own code.
If the switch is set already, nothing is started.

With `--warn-before-end`, `--signal` is sent that long before the job's end, which a preemption moves nearer. Of that
Slurm tells steps by TERM: then, too, the command gets `--signal`, and what is passed on of the TERM comes after the
grace. (In a step Slurm sends that TERM to every process itself, so the command should expect it.)
"""

from __future__ import annotations

import argparse
import math
import os
import re
import signal
import sys
import time
from typing import TYPE_CHECKING

from cronhpc.inside import switch_file
from cronhpc.inside.kill_switch import standing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


# --- when the job ends ------------------------------------------------------------------------------------------------

# Measured on 22.05: when a job is preempted with a grace time, its end moves nearer at once and its steps get CONT and
# TERM, but what its batch script runs hears nothing until the grace is over. So there the end is asked for again.

_LIMIT = 20.0  # seconds that an answer may take
_SHORTEST, _LONGEST = 10.0, 60.0  # seconds between questions: every job of a cluster may ask


def end_of_job(environ: Mapping[str, str]) -> int | None:
    """The end in seconds since 1970: newer Slurm tells it in the environment, older is asked. None: unknown."""
    end = environ.get("SLURM_JOB_END_TIME", "")
    return int(end) if end.isdecimal() else end_asked(environ)


def end_asked(environ: Mapping[str, str]) -> int | None:
    """The end as the controller has it now: one squeue. None: no job, no limit, or no answer."""
    job = environ.get("SLURM_JOB_ID", "")
    words = _answer(["squeue", "-h", "-j", job, "-o", "%e"], environ).split() if job else []
    return int(words[0]) if words and words[0].isdecimal() else None


def asks_for_others(environ: Mapping[str, str]) -> bool:
    """Whether this is the one process of a step, or of the batch script, that may ask repeatedly."""
    return environ.get("SLURM_PROCID", "0") == "0"


def ask_every(environ: Mapping[str, str]) -> float | None:
    """Seconds between questions that notice a preemption in time; None: none can come, or none with a warning."""
    partition = environ.get("SLURM_JOB_PARTITION", "")
    if not (environ.get("SLURM_JOB_ID") and partition):
        return None
    partition_facts = _answer(["scontrol", "-o", "show", "partition", partition], environ)
    if not partition_facts or "PreemptMode=OFF" in partition_facts:
        return None
    match = re.search(r"\bGraceTime=(\d+)", partition_facts)
    grace = int(match[1]) if match else 0
    if not grace and environ.get("SLURM_JOB_QOS"):
        argv = ["sacctmgr", "-nP", "show", "qos", f"name={environ['SLURM_JOB_QOS']}", "format=GraceTime"]
        grace = _clock(_answer(argv, environ).strip())
    return min(max(grace / 3, _SHORTEST), _LONGEST) if grace else None


def _clock(text: str) -> int:
    """Seconds of `00:05:00`; 0 for anything else."""
    parts = text.split(":")
    if not all(part.isdecimal() for part in parts):
        return 0
    return sum(int(part) * 60**power for power, part in enumerate(reversed(parts)))


def _answer(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """What a command of Slurm's prints; "" where it fails."""
    import subprocess  # noqa: TID251 - batch/process.py needs the whole of cronhpc, which a job may lack

    clean = {name: value for name, value in environ.items() if not name.startswith(("SQUEUE_", "SCONTROL_"))}
    try:
        return subprocess.run(
            argv,
            env={**clean, "SLURM_TIME_FORMAT": "%s"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT,
            check=True,
            text=True,
        ).stdout
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""


# --- the guard --------------------------------------------------------------------------------------------------------

STOPPED_EXIT = 113  # a kill switch ended the command, or kept it from starting
USAGE_EXIT, NOT_EXECUTABLE, NOT_FOUND, BY_SIGNAL = 2, 126, 127, 128  # as shells have them

_PASSED_ON = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
    | {signal.SIGALRM, signal.SIGCONT, signal.SIGWINCH}
)
_WATCHED = _PASSED_ON | {signal.SIGCHLD}
_LINGER = 10.0  # seconds after KILL for what the kernel is slow to give up
_WHILE_ENDING = 0.25  # seconds between looks at what is left of the group


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [options] -- COMMAND…"
    parser.add_argument(
        "--kill-switch",
        action="append",
        default=[],
        metavar="PATH|NAME",
        help="a file, or the name of a switch in the cron directory's kill/ (default there: ALL, and this job's "
        "entry, name and id); may be given several times",
    )
    parser.add_argument("--grace", type=_duration, default=300.0, metavar="TIME", help="from signal to KILL (5m)")
    parser.add_argument("--signal", type=_signal, default=signal.SIGTERM, metavar="NAME", help="sent first (TERM)")
    parser.add_argument("--every", type=_duration, default=5.0, metavar="TIME", help="how often to look (5s)")
    parser.add_argument(
        "--warn-before-end", type=_duration, metavar="TIME", help="send --signal this long before the job's time limit"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="what to run")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="cronhpc guard",
        description="Run a command, and end it when a kill switch is set.",
        epilog=f"Exit code: the command's; {STOPPED_EXIT} where a kill switch ended it, or kept it from starting.",
    )
    add_arguments(parser)
    return run(parser.parse_args(argv))


def run(
    args: argparse.Namespace,
    directory: str | None = None,
    also: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
) -> int:
    """Guard `args.command`; the exit code. The others are as for `switch_paths`."""
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        _say("there is no command. Write: cronhpc guard [options] -- COMMAND")
        return USAGE_EXIT
    try:
        paths = switch_paths(args.kill_switch, directory, os.environ, also, files or {})
    except ValueError as error:
        _say(str(error))
        return USAGE_EXIT
    if not paths and args.warn_before_end is None:
        _say("watches nothing: no cron directory here, and no --kill-switch given.")
    guard = Guard(
        paths,
        command,
        first=args.signal,
        grace=args.grace,
        every=args.every,
        warn_before_end=args.warn_before_end,
    )
    return guard.run()


def switch_paths(
    asked: Sequence[str],
    directory: str | None,
    environ: Mapping[str, str],
    also: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
) -> list[str]:
    """Where the switches lie: paths as they are, names in the cron directory's kill/. Raises ValueError.

    `also` are more folders for names, `files` paths that names stand for: what the settings say, where they were read.
    """
    root = directory or _cron_directory(environ)
    has_directory = os.path.lexists(os.path.join(root, "cronhpc.yaml"))
    names = [each for each in asked if "/" not in each]
    if names and not has_directory:
        raise ValueError(f"{root} is no cron directory to look for {names[0]!r} in. Give a path with a /.")
    if not asked and has_directory:
        names = _own_names(environ)
    folders = [os.path.join(root, "kill"), *also]
    paths = [os.path.abspath(each) for each in asked if "/" in each]
    paths += [os.path.join(folder, name) for folder in folders for name in names]
    paths += [files[name] for name in names if files and files.get(name)]
    return list(dict.fromkeys(paths))


# Of Grid Engine, PBS and LSF: a variable that only their jobs have; those of a job's name, id, and task.
_ELSEWHERE = (
    ("SGE_JOB_SPOOL_DIR", "JOB_NAME", "JOB_ID", "SGE_TASK_ID"),
    ("PBS_ENVIRONMENT", "PBS_JOBNAME", "PBS_JOBID", "PBS_ARRAY_INDEX"),
    ("LSB_SUB_HOST", "LSB_JOBNAME", "LSB_JOBID", "LSB_JOBINDEX"),
)


def _own_names(environ: Mapping[str, str]) -> list[str]:
    """What this job can be called by."""
    names = ["ALL", *(environ.get(each, "") for each in ("CRONHPC_ENTRY", "SLURM_JOB_NAME", "SLURM_JOB_ID"))]
    array = environ.get("SLURM_ARRAY_JOB_ID", "")
    if array:
        names += [array, f"{array}_{environ.get('SLURM_ARRAY_TASK_ID', '')}"]
    for around, name, job, task in _ELSEWHERE:
        if around in environ:
            number, index = environ.get(job, "").partition(".")[0].partition("[")[0], environ.get(task, "")
            names += [environ.get(name, "").partition("[")[0], number, f"{number}_{index}" if index.isdecimal() else ""]
    return [name for name in dict.fromkeys(names) if name and "/" not in name]


def _cron_directory(environ: Mapping[str, str]) -> str:
    if environ.get("CRONHPC_DIR"):
        return environ["CRONHPC_DIR"]
    return os.path.join(environ["WORK"], "cron") if environ.get("WORK") else os.path.expanduser("~/cron")


def _signal_within(seconds: float) -> int | None:
    """The signal that comes in that time."""
    got = signal.sigtimedwait(_WATCHED, max(seconds, 0.0))
    return got and got.si_signo


class Guard:
    """One command under watch. Time passes in `wait` alone: between looks nothing runs.

    `now` is seconds since 1970, `elapsed` seconds since some moment, `wait` gives the signal that comes meanwhile.
    """

    def __init__(
        self,
        paths: Sequence[str],
        command: Sequence[str],
        *,
        first: signal.Signals = signal.SIGTERM,
        grace: float = 300.0,
        every: float = 5.0,
        warn_before_end: float | None = None,
        now: Callable[[], float] = time.time,  # noqa: TID251 - inside a job there is nobody to pass now
        elapsed: Callable[[], float] = time.monotonic,
        wait: Callable[[float], int | None] = _signal_within,
    ) -> None:
        self.paths = list(paths)
        self.command = list(command)
        self.first = first
        self.grace = grace
        self.every = max(every, 0.01)
        self.warn_before_end = warn_before_end
        self.now, self.elapsed, self.wait = now, elapsed, wait
        self.end: int | None = None  # of the job, in seconds since 1970
        self.ask_at: float | None = None  # elapsed; when to ask for the end again
        self.ask_every: float | None = None
        self.warned = False
        self.term_at: float | None = None  # elapsed; when a TERM that was held back is passed on
        self.pid = 0
        self.code: int | None = None
        self._unknown: set[str] = set()

    def run(self) -> int:
        """Start the command and see it through; the exit code."""
        switch = self.switch()
        if switch is not None:
            _say(f"not started: {_who(switch)}")
            return STOPPED_EXIT
        if self.warn_before_end is not None:
            self._learn_the_end()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would lose the exit code
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)  # for good: a late signal must not change the code
        code = self._start(mask)
        return self._watch() if code is None else code

    def _start(self, mask: set[signal.Signals] | set[int]) -> int | None:
        """Fork; an exit code where there is no such command."""
        defaults = [signal.SIGPIPE, signal.SIGXFSZ]  # which Python ignores, and a command must not
        try:
            self.pid = os.posix_spawnp(
                self.command[0], self.command, os.environ, setpgroup=0, setsigmask=mask, setsigdef=defaults
            )
        except FileNotFoundError:
            _say(f"{switch_file.clean(self.command[0])}: command not found")
            return NOT_FOUND
        except OSError as error:
            _say(f"{switch_file.clean(self.command[0])}: {error.strerror}")
            return NOT_EXECUTABLE
        return None

    # --- watching

    def _watch(self) -> int:
        look_at = self.elapsed() + self.every
        while self.code is None:
            self._wait(min(filter(None, (look_at, self.term_at, self.ask_at, self._warning_at()))) - self.elapsed())
            now = self.elapsed()
            if self.term_at is not None and now >= self.term_at:
                self.term_at = None
                self._send(signal.SIGTERM)
            if self.warn_before_end is not None and not self.warned:
                self._mind_the_end(now)
            if self.code is None and now >= look_at:
                look_at = now + self.every
                switch = self.switch()
                if switch is not None:
                    return self._stop(switch)
        return self.code

    def _wait(self, timeout: float) -> None:
        """Until a signal or the time comes."""
        got = self.wait(timeout)
        if got is None:
            return
        if got == signal.SIGCHLD:
            self._reap()
        elif got == signal.SIGTERM and self.warn_before_end is not None and not self.warned:
            self._warn("the job was told to end")
            self.term_at = self.elapsed() + self.grace
        else:
            if got == signal.SIGCONT and self.ask_every is not None:
                self.ask_at = self.elapsed()  # preemption begins with CONT and a nearer end
            self._send(signal.Signals(got))

    def _reap(self) -> None:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            self.code = code if code >= 0 else BY_SIGNAL - code

    def _send(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # all gone; or what is left runs as somebody else

    def switch(self) -> switch_file.Found | None:
        """The first switch that stands; one that cannot be looked at is said once, and neither stands nor is gone."""
        for path in self.paths:
            try:
                switch = standing(path)
            except OSError as error:
                if path not in self._unknown:
                    self._unknown.add(path)
                    _say(f"cannot tell whether {switch_file.clean(path)} is set: {error.strerror}. Going on.")
                continue
            self._unknown.discard(path)
            if switch is not None:
                return switch
        return None

    # --- ending

    def _stop(self, switch: switch_file.Found) -> int:
        began = self.elapsed()
        _say(f"{_who(switch)}: sending {self.first.name.removeprefix('SIG')}, KILL in {self.grace:g} s")
        self._send(self.first)
        how = f"ended after {self._until_gone(began + self.grace) - began:.1f} s"
        if self._alive():
            self._send(signal.SIGKILL)
            self._until_gone(self.elapsed() + _LINGER)
            how = f"did not end within {self.grace:g} s, killed"
            if self._alive():
                how += "; some of it is stuck in the kernel"
        _say(f"{_who(switch)}: {how}")
        return STOPPED_EXIT

    def _until_gone(self, limit: float) -> float:
        while self._alive() and self.elapsed() < limit:
            self._wait(min(_WHILE_ENDING, limit - self.elapsed()))
        return self.elapsed()

    def _alive(self) -> bool:
        """Whether anything of the group still runs (the dead that nobody has reaped do not count)."""
        if self.code is None:
            return True
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return _any_running(self.pid)

    # --- the job's own end

    def _warning_at(self) -> float | None:
        """When to warn, as `elapsed`."""
        if self.warned or self.warn_before_end is None or self.end is None:
            return None
        return self.elapsed() + self.end - self.warn_before_end - self.now()

    def _learn_the_end(self) -> None:
        self.end = end_of_job(os.environ)
        if self.end is None:
            system = "the batch system" if any(around in os.environ for around, *_ in _ELSEWHERE) else "Slurm"
            _say(f"{system} does not say when this job ends: no warning before its limit.")
            return
        left = self.end - self.now()
        if self.warn_before_end is not None and left <= self.warn_before_end:
            self.warn_before_end = left / 2  # at once, it would meet a command that is not ready for it
            _say(f"this job ends in {left:.0f} s already: the warning comes {left / 2:.0f} s before")
        if asks_for_others(os.environ):
            self.ask_every = ask_every(os.environ)
            self.ask_at = self.elapsed() + self.ask_every if self.ask_every else None

    def _mind_the_end(self, now: float) -> None:
        """The limit may be moved, so it is asked for once more before a warning that cannot be taken back."""
        near = now >= (self._warning_at() or math.inf)
        if near or (self.ask_at is not None and now >= self.ask_at):
            self.ask_at = now + self.ask_every if self.ask_every else None
            if asks_for_others(os.environ):
                self.end = end_asked(os.environ) or self.end
            if self.elapsed() >= (self._warning_at() or math.inf):
                self._warn("the job's end is near")

    def _warn(self, why: str) -> None:
        self.warned, self.ask_at, self.ask_every = True, None, None
        _say(f"{why}: sending {self.first.name.removeprefix('SIG')}")
        self._send(self.first)


def _any_running(group: int) -> bool:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, _, pgrp = file.read().rpartition(b")")[2].split()[:3]
            except (OSError, ValueError):
                continue
            if int(pgrp) == group and state not in (b"Z", b"X"):
                return True
    return False


def _who(switch: switch_file.Found) -> str:
    since = ""
    if switch.since is not None:
        since = time.strftime(" since %a %d %b %H:%M:%S", time.localtime(switch.since))
    reason = f': "{switch.reason}"' if switch.reason else ""
    return f"stopped by {switch.by}{since} ({switch_file.clean(switch.path)}{reason})"


def _say(text: str) -> None:
    print(f"cronhpc guard: {text}", file=sys.stderr, flush=True)


def _duration(text: str) -> float:
    seconds = switch_file.seconds(f"{text}s" if text.replace(".", "", 1).isdecimal() else text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time. Write it as 90s, 10m or 1h30m.")
    return seconds


def _signal(text: str) -> signal.Signals:
    name = text.upper().removeprefix("SIG")
    try:
        return signal.Signals(int(text)) if text.isdecimal() else signal.Signals[f"SIG{name}"]
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r} is no signal. Write TERM, USR1, INT or HUP.") from None


if __name__ == "__main__":
    sys.exit(main())
