"""What a tick costs: idle over 1, 100 and 10,000 entries, and 1,000 due ones beside the loop that people use today.

    python tests/bench/bench_tick.py            # on a lab of its own, as root or not

Prints a table: wall time (median of several), file opens and outside commands of one whole `cronhpc tick` process; and
the ratio of 1,000 submissions to `for f in *.slurm; do sbatch "$f"; done` over the same scripts, in the same run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess  # noqa: TID251 - a benchmark starts whole processes
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
LAB = TOP / "deploy" / "lab" / "lab"
SCRIPT = "#!/bin/bash\n#SBATCH --time=1 --output=/dev/null\ntrue\n"
OPENS = ("open", "openat", "openat2", "creat")
LOOP = 'for f in *.slurm; do sbatch "$f" >/dev/null; done'


class Bench:
    """A lab, and cron directories on it."""

    def __init__(self, lab: Path, work: Path) -> None:
        self.lab = lab
        self.work = work

    def run(self, *argv: str, cwd: str = "/") -> subprocess.CompletedProcess[str]:
        """A command in the lab."""
        full = [str(LAB), "exec", "--dir", str(self.lab), "--", *argv]
        return subprocess.run(full, cwd=cwd, text=True, capture_output=True, check=False)

    def directory(self, name: str, entries: int, schedule: str) -> Path:
        """A cron directory with so many scripts in cron.d; its files are old enough to be believed."""
        root = self.work / name
        self.run(sys.executable, "-m", "cronhpc", "init", "--dir", str(root))
        for number in range(entries):
            (root / "cron.d" / f"entry{number}.slurm").write_text(f"#!/bin/bash\n#CRON {schedule}\n{SCRIPT[12:]}")
        return root

    def tick(self, root: Path) -> float:
        """Seconds that one whole process took, lab exec not counted."""
        timed = self.run("bash", "-c", f'TIMEFORMAT=%R; time "{sys.executable}" -m cronhpc tick --dir "{root}"')
        return float(timed.stderr.strip().splitlines()[-1].replace(",", "."))

    def traced(self, root: Path) -> tuple[int, int]:
        """Opens that succeeded (whole process tree) and outside commands of one tick."""
        trace = self.work / "trace"
        calls = ",".join([*OPENS, "execve"])
        self.run("strace", "-f", "-qq", "-o", str(trace), "-e", f"trace=?{calls.replace(',', ',?')}",
                 sys.executable, "-m", "cronhpc", "tick", "--dir", str(root))  # fmt: skip
        lines = trace.read_text(errors="replace").splitlines()
        own = lines[0].split()[0]
        opens = [line for line in lines if line.split()[0] == own and any(f" {call}(" in line for call in OPENS)]
        commands = [line for line in lines if " execve(" in line and "= -1" not in line]
        return sum("= -1" not in line for line in opens), len(commands) - 1


def idle(bench: Bench, entries: int, runs: int) -> str:
    """One row."""
    root = bench.directory(f"idle{entries}", entries, "0 5 29 2 *")
    time.sleep(4)
    for _ in range(2):
        bench.tick(root)
    walls = [bench.tick(root) for _ in range(runs)]
    opens, commands = bench.traced(root)
    shutil.rmtree(root)
    wall = statistics.median(walls) * 1000
    return f"idle tick, {entries:>6,} entries   {wall:7.0f} ms   {opens:5d} opens   {commands} commands"


def due(bench: Bench, entries: int, runs: int) -> str:
    """The ratio, run by run."""
    ratios, ours, loops = [], [], []
    for number in range(runs):
        root = bench.directory(f"due{number}", entries, "* * * * *")
        time.sleep(65)
        begun = time.perf_counter()
        bench.run("bash", "-c", LOOP, cwd=str(root / "cron.d"))
        loop = time.perf_counter() - begun
        bench.run("scancel", "-u", str(os.getuid()))
        time.sleep(5)
        begun = time.perf_counter()
        said = bench.run(sys.executable, "-m", "cronhpc", "tick", "--dir", str(root))
        own = time.perf_counter() - begun
        released = sum('"submit"' in line and '"done": "done"' in line for line in said.stdout.splitlines())
        if released != entries:
            sys.exit(f"only {released} of {entries} were submitted: {said.stdout[-2000:]}{said.stderr[-2000:]}")
        bench.run("scancel", "-u", str(os.getuid()))
        time.sleep(5)
        ours.append(own)
        loops.append(loop)
        ratios.append(own / loop)
        shutil.rmtree(root)
    middle = statistics.median
    return f"{entries:,} due: {middle(ours):.2f} s, the loop {middle(loops):.2f} s, ratio {middle(ratios):.2f}"


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, nargs="*", default=[1, 100, 10_000], help="sizes of idle ticks")
    parser.add_argument("--due", type=int, default=1000, help="due entries (0: none)")
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cronhpc-bench-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        lab = Path(folder, "lab")
        up = [str(LAB), "up", "--dir", str(lab), "--conf", "MaxJobCount=20000"]
        subprocess.run(up, check=True, capture_output=True)
        try:
            bench = Bench(lab, Path(folder))
            for entries in args.entries:
                print(idle(bench, entries, args.runs), flush=True)
            if args.due:
                print(due(bench, args.due, max(1, args.runs // 3)), flush=True)
        finally:
            subprocess.run([str(LAB), "down", "--dir", str(lab)], check=False, capture_output=True)


if __name__ == "__main__":
    main()
