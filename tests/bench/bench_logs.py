"""What cleaning costs: 20,000 logs, 12,000 of them due, beside the recipes that people use today, in one run.

Every way gets a fresh tree of its own, in turns, and whole processes are timed, Python's start included; the last row
is what the work costs inside a tick, which has Python running already. Processor seconds tell most on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess  # noqa: TID251 - the ways are compared as whole commands
import sys
import tempfile
import time
from pathlib import Path

from cronhpc.core.model import slot_text
from tests.bench import aims

EACH, DUE = 200, 120  # within the default of 200 logs an entry: only their age removes them
DAY = 86400
MEMORY = 100 << 20
RECIPE, DELETE, COMMAND, INSIDE = "find -exec rm", "find -delete", "cronhpc clean", "inside a tick"
_INSIDE = """
import json, resource, sys, time
from pathlib import Path
from cronhpc.logs.clean import clean_logs
from cronhpc.core.model import Settings
from cronhpc.store.files import Paths
start, busy = time.perf_counter(), time.process_time()
clean_logs(Paths(Path(sys.argv[1])), Settings(), int(sys.argv[2]), live=frozenset({"1"}), live_files=tuple,
           newest_failed={}, most=sys.maxsize)
took = time.perf_counter() - start, time.process_time() - busy
print(json.dumps([*took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
"""


def make(root: Path, now: int, folders: int) -> Path:
    """A cron directory with the logs in it; the files are as old as their names say."""
    _run(sys.executable, "-m", "cronhpc", "init", "--dir", str(root), "--backend", "local")
    number = 1
    for folder in (root / "log" / f"entry{n}" for n in range(folders)):
        folder.mkdir(parents=True)
        for n in range(EACH):
            number += 1
            at = now - (8 * DAY + n * 3600 if n < DUE else n * 60)
            path = folder / f"{slot_text(at)}-{number}.out"
            path.write_bytes(b"a line\n")
            os.utime(path, (at, at))
    return root


def _run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def cost(way: str, root: Path, now: int) -> tuple[aims.Used, int]:
    """Run it; and the most memory (bytes; 0: not measured)."""
    if way == INSIDE:
        wall, busy, memory = json.loads(_run(sys.executable, "-c", _INSIDE, str(root), str(now)))
        return aims.Used(wall, busy), memory
    find = ["find", str(root / "log"), "-name", "*.out", "-mtime", "+7"]
    argv = {
        RECIPE: [*find, "-exec", "rm", "-f", "{}", "+"],
        DELETE: [*find, "-delete"],
        COMMAND: [sys.executable, "-m", "cronhpc", "clean", "--dir", str(root)],
    }[way]
    return aims.used(*argv), 0


def left(root: Path) -> int:
    """Logs that are still there."""
    return sum(len(files) for _, _, files in os.walk(root / "log"))


def measure(rounds: int, place: str, folders: int) -> tuple[dict[str, list[aims.Used]], int]:
    """What each way costs, once a round; and the most memory."""
    costs: dict[str, list[aims.Used]] = {way: [] for way in (RECIPE, DELETE, COMMAND, INSIDE)}
    most = 0
    for turn in range(rounds):
        ways = list(costs)
        for way in ways[turn % len(ways) :] + ways[: turn % len(ways)]:  # nobody is always the first
            with tempfile.TemporaryDirectory(prefix="cronhpc-bench-", dir=place) as folder:
                now = int(time.time())  # noqa: TID251 - find reads the clock, too
                root = make(Path(folder) / "cron", now, folders)
                used, memory = cost(way, root, now)
                costs[way].append(used)
                most = max(most, memory)
                if left(root) != folders * (EACH - DUE):
                    sys.exit(f"{way} left {left(root)} logs")
    return costs, most


def main() -> None:
    """The rows: of the work inside a tick, which has Python running already."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folders", type=int, default=100, help=f"entries, of {EACH} logs each")
    args = parser.parse_args()
    for name, place in (("tmpfs", "/dev/shm"), ("disk", "/var/tmp")):
        costs, memory = measure(args.rounds, place, args.folders)
        alone, ratio = aims.median_of(costs[DELETE]), aims.ratio_of(costs[INSIDE], costs[DELETE])
        command = aims.ratio_of(costs[COMMAND], costs[DELETE])
        recipe = aims.ratio_of(costs[INSIDE], costs[RECIPE])
        peer = f"{args.folders * DUE:,} files, find {alone.busy:.2f} s; of {RECIPE} {recipe.busy:.2f}; "
        peer += f"with Python's start {command.busy:.2f}; {memory >> 20} MB of at most {MEMORY >> 20}; {aims.busy()}"
        aims.row(f"clean / find -delete, {name}", ratio.busy, peer)


if __name__ == "__main__":
    main()
