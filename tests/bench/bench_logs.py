"""What cleaning costs: 20,000 logs, 12,000 of them due, beside the recipes that people use today, in one run.

Every way gets a fresh tree of its own, in turns, and whole processes are timed, Python's start included; the last row
is what the work costs inside a tick, which has Python running already. Processor seconds tell most on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess  # noqa: TID251 - the ways are compared as whole commands
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from cronhpc.core.model import slot_text

EACH, DUE = 200, 120  # within the default of 200 logs an entry: only their age removes them
DAY = 86400
MEMORY = 100 << 20
RECIPE, DELETE, COMMAND, INSIDE = "find -exec rm", "find -delete", "cronhpc clean", "inside a tick"
_INSIDE = """
import json, resource, sys, time
from pathlib import Path
from cronhpc.logs.clean import clean_logs
from cronhpc.core.model import Settings
from cronhpc.store.paths import Paths
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


class Cost(NamedTuple):
    """Of one way: seconds on the wall and of the processor, and the most memory (bytes; 0: not measured)."""

    wall: float
    busy: float
    memory: int = 0


def cost(way: str, root: Path, now: int) -> Cost:
    """Run it."""
    if way == INSIDE:
        wall, busy, memory = json.loads(_run(sys.executable, "-c", _INSIDE, str(root), str(now)))
        return Cost(wall, busy, memory)
    find = ["find", str(root / "log"), "-name", "*.out", "-mtime", "+7"]
    argv = {
        RECIPE: [*find, "-exec", "rm", "-f", "{}", "+"],
        DELETE: [*find, "-delete"],
        COMMAND: [sys.executable, "-m", "cronhpc", "clean", "--dir", str(root)],
    }[way]
    before, start = _busy(), time.perf_counter()
    _run(*argv)
    return Cost(time.perf_counter() - start, _busy() - before)


def _busy() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def left(root: Path) -> int:
    """Logs that are still there."""
    return sum(len(files) for _, _, files in os.walk(root / "log"))


def measure(rounds: int, place: str | None, folders: int) -> dict[str, list[Cost]]:
    """What each way costs, once a round."""
    costs: dict[str, list[Cost]] = {way: [] for way in (RECIPE, DELETE, COMMAND, INSIDE)}
    for turn in range(rounds):
        ways = list(costs)
        for way in ways[turn % len(ways) :] + ways[: turn % len(ways)]:  # nobody is always the first
            with tempfile.TemporaryDirectory(prefix="cronhpc-bench-", dir=place) as folder:
                now = int(time.time())  # noqa: TID251 - find reads the clock, too
                root = make(Path(folder) / "cron", now, folders)
                costs[way].append(cost(way, root, now))
                if left(root) != folders * (EACH - DUE):
                    sys.exit(f"{way} left {left(root)} logs")
    return costs


def ratios(costs: dict[str, list[Cost]], way: str, other: str) -> tuple[float, float]:
    """The medians of the rounds' ratios, wall and processor: a busy disk slows the pair alike."""
    pairs = list(zip(costs[way], costs[other], strict=True))
    return statistics.median(a.wall / b.wall for a, b in pairs), statistics.median(a.busy / b.busy for a, b in pairs)


def row(costs: dict[str, list[Cost]], way: str) -> str:
    """One line of the table."""
    wall, busy = (statistics.median(each[n] for each in costs[way]) for n in (0, 1))
    of_recipe, of_delete = ratios(costs, way, RECIPE), ratios(costs, way, DELETE)
    both = f"{of_recipe[0]:6.2f} {of_recipe[1]:6.2f}      {of_delete[0]:6.2f} {of_delete[1]:6.2f}"
    return f"{way:14} {wall:6.2f} s {busy:6.2f} s    {both}"


def say(line: str) -> None:
    """Print it."""
    sys.stdout.write(f"{line}\n")


def main() -> int:
    """Print the table; 1 if cronhpc takes longer than the recipe, or too much memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--place", help="a folder on the file system to measure on (else the temporary one)")
    parser.add_argument("--folders", type=int, default=100, help=f"entries, of {EACH} logs each")
    args = parser.parse_args()
    costs = measure(args.rounds, args.place, args.folders)
    memory = max(each.memory for each in costs[INSIDE])
    say(f"{args.folders * EACH:,} logs in {args.folders} folders, {args.folders * DUE:,} due; {args.rounds} rounds")
    say(f"{'':14} {'wall':>8} {'busy':>8}    {'of ' + RECIPE:>13}     {'of ' + DELETE:>13}   (wall, busy)")
    for way in costs:
        say(row(costs, way))
    say(f"memory         {memory / (1 << 20):6.0f} MB (at most {MEMORY >> 20})")
    return 0 if min(ratios(costs, COMMAND, RECIPE)) <= 1 and memory < MEMORY else 1


if __name__ == "__main__":
    sys.exit(main())
