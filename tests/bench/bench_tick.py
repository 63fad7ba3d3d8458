"""What a tick costs: idle over 1, 100 and 10,000 entries beside a bare python, and due ones beside plain sbatch.

    python -m tests.bench.bench_tick            # on a lab of its own, as root or not

Prints a table: wall and processor time (median of several), file opens and outside commands of one whole
`cronhpc tick` process; and, in the same run, what `xargs -P4 sbatch --hold` and one `scontrol release` take over the
same scripts. How the cost grows is told by the ratio of the largest number of due entries to the smallest.
"""

from __future__ import annotations

import argparse
import os
import shlex
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
BY_HAND = "ls *.slurm | xargs -P4 -n1 sbatch --parsable --hold >../ids && scontrol release $(paste -sd, ../ids)"
DUE_IN = 120  # seconds at most until the entries are due


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

    def timed(self, *argv: str, cwd: str = "/") -> tuple[float, float]:
        """Seconds that one whole process took, and what it and its children used of a processor; not `lab exec`."""
        script = f"TIMEFORMAT='%R %U %S'; time {shlex.join(argv)} >/dev/null 2>&1"
        wall, user, system = self.run("bash", "-c", script, cwd=cwd).stderr.split()[-3:]
        return float(wall), float(user) + float(system)

    def tick(self, root: Path) -> tuple[float, float]:
        """The same of a tick."""
        return self.timed(sys.executable, "-m", "cronhpc", "tick", "--dir", str(root))

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
    """One row; the bare python starts in turns with the ticks."""
    root = bench.directory(f"idle{entries}", entries, "0 5 29 2 *")
    time.sleep(4)
    for _ in range(2):
        bench.tick(root)
    pairs = [(bench.tick(root), bench.timed(sys.executable, "-c", "pass")) for _ in range(runs)]
    opens, commands = bench.traced(root)
    shutil.rmtree(root)
    wall = statistics.median(ours[0] for ours, _ in pairs) * 1000
    busy = statistics.median(ours[1] for ours, _ in pairs) * 1000
    ratio = statistics.median(ours[1] / max(bare[1], 0.001) for ours, bare in pairs)
    return (
        f"idle tick, {entries:>6,} entries   {wall:6.0f} ms   {busy:6.0f} ms of a processor, {ratio:4.1f} bare pythons"
        f"   {opens:4d} opens   {commands} commands"
    )


def due(bench: Bench, entries: int, runs: int) -> tuple[str, float]:
    """The row, and the median of our seconds. The entries are known to the tick before, as those of a day are."""
    ours, peers = [], []
    for number in range(runs):
        at = time.gmtime(time.time() + DUE_IN)  # noqa: TID251 - cron's own minutes
        root = bench.directory(f"due{entries}-{number}", entries, f"{at.tm_min} {at.tm_hour} * * *")
        settings = root / "cronhpc.yaml"
        text = settings.read_text().replace("\nscheduler:", "\nscheduler:\n  budget: {tick: 100000, hour: 100000}", 1)
        settings.write_text(text.replace("timezone: ", "timezone: UTC #", 1))
        time.sleep(4)
        bench.tick(root)
        peers.append(bench.timed("bash", "-c", BY_HAND, cwd=str(root / "cron.d")))
        bench.run("scancel", "-u", str(os.getuid()))
        while time.gmtime().tm_min != at.tm_min:
            time.sleep(1)
        ours.append(bench.tick(root))
        queued = bench.run("squeue", "--me", "--noheader", "--states=all", "--format=%k").stdout
        if (number_of := len({line for line in queued.splitlines() if line.startswith("cronhpc=")})) < entries:
            sys.exit(f"only {number_of} of {entries} were submitted")
        bench.run("scancel", "-u", str(os.getuid()))
        time.sleep(5)
        shutil.rmtree(root)
    middle = statistics.median
    wall, busy = (middle(a[n] / b[n] for a, b in zip(ours, peers, strict=True)) for n in (0, 1))
    seconds = middle(each[0] for each in ours)
    row = f"{entries:>6,} due   {seconds:6.2f} s   xargs -P4 sbatch {middle(each[0] for each in peers):6.2f} s"
    return f"{row}   ratio {wall:.2f}, of a processor {busy:.2f}", seconds


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, nargs="*", default=[1, 100, 10_000], help="sizes of idle ticks")
    parser.add_argument("--due", type=int, nargs="*", default=[400, 1600], help="numbers of due entries")
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
            took = []
            for entries in sorted(args.due):
                row, seconds = due(bench, entries, max(1, args.runs // 3))
                print(row, flush=True)
                took.append(seconds)
            if len(took) > 1:
                print(
                    f"{max(args.due):,} due take {took[-1] / took[0]:.1f} times as long as {min(args.due):,}",
                    flush=True,
                )
        finally:
            subprocess.run([str(LAB), "down", "--dir", str(lab)], check=False, capture_output=True)


if __name__ == "__main__":
    main()
