"""A clock of the lab's own: another day, another speed, one for all of its processes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from . import processes
from .options import LabError, Options

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 -- where the system keeps it
NAMES = ("LD_PRELOAD", "FAKETIME", "FAKETIME_SHARED", "FAKETIME_DONT_RESET")


def setting(options: Options, now: float) -> str:
    """The FAKETIME value: an offset in seconds from the real `now`, and the speed.

    An offset and not "@date": a date is read in each process's own zone, so a job with TZ set would live elsewhere.
    """
    offset = 0.0 if options.start_time is None else options.start_time - now
    speed = 1.0 if options.speed is None else options.speed
    return f"{offset:+.3f} x{speed:g}"


class Clock:
    """Keeps the shared clock alive for as long as it is held: the wrapper removes the clock when its child ends."""

    def __init__(self, options: Options) -> None:
        """Start the clock now.

        Raises LabError when faketime is not installed or does not come up.
        """
        wrapper = shutil.which("faketime")
        if wrapper is None:
            raise LabError("--speed and --start-time need faketime, which is not installed: apt-get install faketime")
        environment = {**os.environ, "FAKETIME_DONT_RESET": "1"}
        self._holder = subprocess.Popen(
            [wrapper, "-f", setting(options, time.time()), "cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        self.environment = self._wait()
        for path in files(self.environment):
            path.chmod(0o666)  # the lab's other users share this clock

    def processes(self) -> tuple[int, ...]:
        """The ids of the processes that hold the clock."""
        return (self._holder.pid, *processes.children(self._holder.pid))

    def stop(self) -> None:
        """Let the clock go, with its two files in /dev/shm."""
        if self._holder.stdin is not None:
            self._holder.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._holder.wait(2)
        for path in files(self.environment):
            path.unlink(missing_ok=True)

    def _wait(self) -> dict[str, str]:
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            found = _clock_environment(self._holder.pid)
            if found:
                return found
            time.sleep(0.01)
        self._holder.kill()
        raise LabError("faketime did not start within 5 s. Try: faketime -f '+0 x2' date")


def files(environment: dict[str, str]) -> list[Path]:
    """The shared clock's own files, as far as they exist."""
    names = re.findall(r"/(\S+)", environment.get("FAKETIME_SHARED", ""))
    paths = [SHARED_MEMORY / f"{prefix}{name}" for name in names for prefix in ("", "sem.")]
    return [path for path in paths if path.exists()]


def _clock_environment(wrapper: int) -> dict[str, str]:
    """The clock's variables as the wrapper's child has them; empty until it runs."""
    try:
        children = processes.children(wrapper)
        raw = Path(f"/proc/{children[0]}/environ").read_bytes() if children else b""
    except OSError:
        return {}
    pairs = dict(entry.partition("=")[::2] for entry in os.fsdecode(raw).split("\0"))
    return {name: pairs[name] for name in NAMES} if set(NAMES) <= pairs.keys() else {}
