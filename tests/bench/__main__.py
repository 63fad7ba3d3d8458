"""All benches, one after the other, in some minutes: python -m tests.bench [--full] [NAME ...]

Prints a table: what each figure was when it was measured first, what it is now, the aim, and a peer that was timed in
the same run; figures of a busy machine tell little but these ratios. Seconds are of a processor, where nothing else is
said. Root measures switches as well: that takes two users.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess  # noqa: TID251 - each bench is a process of its own
import sys
import time
from pathlib import Path

from tests.bench import aims

BENCHES: dict[str, tuple[str, str]] = {  # in this order, with what makes them short, and long
    "schedule": ("", ""),
    "scale": ("--users 100", ""),
    "views": ("--rounds 3", "--rounds 7"),
    "tick": ("--entries 100 10000 --due 400 1000 --runs 5", "--due 400 1000 1600 4000 --runs 9"),
    "daemon": ("--seconds 30", "--seconds 300"),
    "switches": ("3", "20"),
    "logs": ("--rounds 1 --folders 30", "--rounds 5"),  # last: it removes many files (see bench_tick)
}


def machine() -> str:
    """What the figures are of."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    where = f"{os.cpu_count()} processors ({names[0] if names else platform.machine()}), load {os.getloadavg()[0]:.1f}"
    return f"{where}; Python {platform.python_version()}; Linux {platform.release()}"


def main() -> int:
    """Run those that are asked for; 1 if one fails, or finds something slower than it may be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--full", action="store_true", help="all sizes, and more rounds: half an hour and more")
    args = parser.parse_args()
    names = args.names or [each for each in BENCHES if each != "switches" or not os.getuid()]
    if unknown := set(names) - set(BENCHES):
        parser.error(f"no such bench: {', '.join(sorted(unknown))}")
    sys.stdout.write(f"{machine()}\n")
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # as installed
    worst, rows = 0, []
    for name in names:
        sys.stdout.write(f"\n--- {name}\n")
        sys.stdout.flush()
        began = time.perf_counter()
        argv = [sys.executable, "-m", f"tests.bench.bench_{name}", *BENCHES[name][args.full].split()]
        with subprocess.Popen(
            argv, cwd=Path(__file__).parents[2], env=environ, stdout=subprocess.PIPE, text=True
        ) as bench:
            for line in bench.stdout or ():
                rows += [line] if line.startswith(aims.MARK) else []
                sys.stdout.write(line)
                sys.stdout.flush()
        code = bench.returncode
        sys.stdout.write(f"({time.perf_counter() - began:.0f} s{f', exit {code}' if code else ''})\n")
        worst = worst or code
    sys.stdout.write(f"\n{machine()}\n{aims.HEAD}\n{''.join(rows)}")
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main())
