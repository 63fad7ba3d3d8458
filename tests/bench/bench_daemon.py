"""What a daemon costs: at rest, by events and by polling; and what a teammate can make it ask, who touches switches.

Needs Slurm's programs (a lab of its own), and no rights. An hour is reckoned from a minute.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess  # noqa: TID251 - a daemon is started, and watched
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.bench import aims
from tests.bench.bench_tick import LAB, Bench, made

TICKS = os.sysconf("SC_CLK_TCK")
ENTRIES = 100
FLIP = 0.05  # seconds between two touches of a switch
COUNTS = '#!/bin/bash\necho >>{log}\nexec {squeue} "$@"\n'


def cpu(pid: int) -> float:
    """Seconds of a processor that a process, and the children it has waited for, have used.

    Its own in nanoseconds: one of the clock's ticks in half a minute would be more than a second an hour.
    """
    children = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[13:15]
    threads = (each.read_text(encoding="utf-8").split()[0] for each in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(map(int, threads)) / 1e9 + sum(map(int, children)) / TICKS


def memory(pid: int) -> float:
    """Megabytes of it that lie in memory."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


@contextmanager
def daemon(bench: Bench, root: Path, *words: str, path: str = "/usr/bin") -> Iterator[int]:
    """The process id of a daemon of that cron directory, until the block ends. `path`: a folder first on its PATH."""
    pid_file = bench.work / "pid"
    argv = f"echo $$ >{pid_file}; PATH={path}:$PATH exec {sys.executable} -m cronhpc daemon --dir {root} "
    full = [str(LAB), "exec", "--dir", str(bench.lab), "--", "bash", "-c", argv + " ".join(words)]
    process = subprocess.Popen(full, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not (pid := pid_file.read_text().strip() if pid_file.exists() else "") or threads(pid) <= 1:
            time.sleep(0.2)
        yield int(pid)
    finally:
        with suppress(ProcessLookupError):
            os.kill(int(pid_file.read_text()), signal.SIGTERM)
        process.wait(60)
        pid_file.unlink()


def threads(pid: str) -> int:
    """One watches folders, once the daemon is ready."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def at_rest(bench: Bench, root: Path, seconds: float, *words: str) -> tuple[float, float]:
    """Seconds of a processor in an hour, and megabytes."""
    with daemon(bench, root, *words) as pid:
        time.sleep(15)  # its first tick, and the look at what has just changed
        before = cpu(pid)
        time.sleep(seconds)
        return (cpu(pid) - before) * 3600 / seconds, memory(pid)


def asked(bench: Bench, root: Path, seconds: float) -> float:
    """Queue queries a second while somebody touches and removes kill switches without end."""
    folder, log = bench.work / "bin", bench.work / "asked"
    folder.mkdir()
    squeue = bench.run("bash", "-c", "type -P squeue").stdout.strip()
    (folder / "squeue").write_text(COUNTS.format(log=log, squeue=squeue))
    (folder / "squeue").chmod(0o755)
    with daemon(bench, root, path=str(folder)):
        time.sleep(15)
        log.write_text("")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for name in ("ALL", "entry1", "no-such-job"):
                switch = root / "kill" / name
                switch.touch()
                time.sleep(FLIP)
                switch.unlink()
        return len(log.read_text().splitlines()) / seconds


def main() -> None:
    """The rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="for which each daemon is watched")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory(prefix="cronhpc-bench-", dir="/var/tmp") as folder, made(Path(folder)) as bench:
        root = bench.directory("rest", ENTRIES, "0 5 29 2 *")
        time.sleep(4)
        by_events, resident = at_rest(bench, root, seconds)
        aims.row("daemon at rest, 100 entries, CPU an hour", by_events, f"watched for {seconds:g} s")
        aims.row("daemon at rest, memory", resident)
        aims.row("daemon that polls, CPU an hour", at_rest(bench, root, seconds, "--poll")[0])
        aims.row("queue queries a second that switches cause", asked(bench, root, seconds), f"{1 / FLIP:.0f} a second")


if __name__ == "__main__":
    main()
