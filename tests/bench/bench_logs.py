"""What cleaning costs: 100,000 logs, 60,000 of them due, beside the recipes that people use today, in one run.

Every way gets a fresh tree of its own, in turns, and whole processes are timed, Python's start included. The second
figure of cronhpc is what its work costs inside a tick, which has Python running already.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess  # noqa: TID251 - the ways are compared as whole commands
import sys
import tempfile
import time
from pathlib import Path

from cronhpc.core.model import slot_text

FOLDERS, EACH, DUE = 500, 200, 120  # within the default of 200 logs an entry: only their age removes them
DAY = 86400
MEMORY = 100 << 20
RECIPE, DELETE, COMMAND, INSIDE = "find -exec rm", "find -delete", "cronhpc clean", "inside a tick"
_INSIDE = """
import json, resource, sys, time
from pathlib import Path
from cronhpc.clean import clean_logs
from cronhpc.core.model import Settings
from cronhpc.store.paths import Paths
start = time.perf_counter()
done = clean_logs(Paths(Path(sys.argv[1])), Settings(), int(sys.argv[2]), live=frozenset({"1"}), newest_failed={},
                  most=sys.maxsize)
took = time.perf_counter() - start
print(json.dumps([took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, done.removed]))
"""


def make(root: Path, now: int) -> Path:
    """A cron directory with the logs in it; the files are as old as their names say."""
    _run(sys.executable, "-m", "cronhpc", "init", "--dir", str(root), "--backend", "local")
    number = 1
    for folder in (root / "log" / f"entry{n}" for n in range(FOLDERS)):
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


def seconds(way: str, root: Path, now: int) -> tuple[float, int]:
    """Wall-clock seconds of one way, and the most memory it took (bytes; 0: not measured)."""
    if way == INSIDE:
        took, memory, _ = json.loads(_run(sys.executable, "-c", _INSIDE, str(root), str(now)))
        return float(took), int(memory)
    log = str(root / "log")
    find = ["find", log, "-name", "*.out", "-mtime", "+7"]
    argv = {
        RECIPE: [*find, "-exec", "rm", "-f", "{}", "+"],
        DELETE: [*find, "-delete"],
        COMMAND: [sys.executable, "-m", "cronhpc", "clean", "--dir", str(root)],
    }[way]
    start = time.perf_counter()
    _run(*argv)
    return time.perf_counter() - start, 0


def left(root: Path) -> int:
    """Logs that are still there."""
    return sum(len(files) for _, _, files in os.walk(root / "log"))


def measure(rounds: int, place: str | None) -> tuple[dict[str, list[float]], int]:
    """Seconds of each way, a figure a round; the most memory."""
    took: dict[str, list[float]] = {way: [] for way in (RECIPE, DELETE, COMMAND, INSIDE)}
    memory = 0
    for turn in range(rounds):
        ways = list(took)
        for way in ways[turn % len(ways) :] + ways[: turn % len(ways)]:  # nobody is always the first
            folder = Path(tempfile.mkdtemp(prefix="cronhpc-bench-", dir=place))
            try:
                now = int(time.time())  # noqa: TID251 - find reads the clock, too
                root = make(folder / "cron", now)
                one, used = seconds(way, root, now)
                if left(root) != FOLDERS * (EACH - DUE):
                    sys.exit(f"{way} left {left(root)} logs")
            finally:
                shutil.rmtree(folder)
            took[way].append(one)
            memory = max(memory, used)
    return took, memory


def ratio(took: dict[str, list[float]], way: str, other: str) -> float:
    """The median of the rounds' ratios: a busy disk slows the pair alike."""
    return statistics.median(a / b for a, b in zip(took[way], took[other], strict=True))


def say(line: str) -> None:
    """One line of the table."""
    sys.stdout.write(f"{line}\n")


def main() -> int:
    """Print the table; 1 if cronhpc takes longer than the recipe, or too much memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--place", help="a folder on the file system to measure on (else the temporary one)")
    args = parser.parse_args()
    took, memory = measure(args.rounds, args.place)
    say(f"{FOLDERS * EACH:,} logs in {FOLDERS} folders, {FOLDERS * DUE:,} due, median of {args.rounds}")
    for way, each in took.items():
        of_recipe, of_delete = ratio(took, way, RECIPE), ratio(took, way, DELETE)
        say(f"{way:14} {statistics.median(each):6.2f} s   {of_recipe:5.2f} of {RECIPE}   {of_delete:5.2f} of {DELETE}")
    say(f"memory         {memory / (1 << 20):6.0f} MB (at most {MEMORY >> 20})")
    return 0 if ratio(took, COMMAND, RECIPE) <= 1 and memory < MEMORY else 1


if __name__ == "__main__":
    sys.exit(main())
