"""All benches, one after the other, in some minutes: python -m tests.bench [NAME ...]

Each prints its own table, with the ratio to a peer that is timed in the same run; figures of a busy machine tell little
but these ratios. Root measures switches as well: that takes two users.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess  # noqa: TID251 - each bench is a process of its own
import sys
import time
from pathlib import Path

BENCHES = {  # in this order, with what makes them short
    "schedule": (),
    "views": ("--rounds", "3"),
    "logs": ("--rounds", "1"),
    "tick": ("--entries", "1", "100", "--due", "100", "400", "--runs", "3"),
    "switches": ("3",),
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
    names = parser.parse_args().names or [each for each in BENCHES if each != "switches" or not os.getuid()]
    if unknown := set(names) - set(BENCHES):
        parser.error(f"no such bench: {', '.join(sorted(unknown))}")
    sys.stdout.write(f"{machine()}\n")
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # as installed
    worst = 0
    for name in names:
        sys.stdout.write(f"\n--- {name}\n")
        sys.stdout.flush()
        began = time.perf_counter()
        argv = [sys.executable, "-m", f"tests.bench.bench_{name}", *BENCHES[name]]
        code = subprocess.run(argv, cwd=Path(__file__).parents[2], env=environ, check=False).returncode
        sys.stdout.write(f"({time.perf_counter() - began:.0f} s{f', exit {code}' if code else ''})\n")
        worst = worst or code
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main())
