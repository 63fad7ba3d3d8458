"""What a tick costs: idle over 100 and 10,000 entries beside a bare python, and due ones beside plain sbatch.

    python -m tests.bench.bench_tick            # on a lab of its own, as root or not

Prints processor time (median of several) and file opens of one whole `cronhpc tick` process; and, in the same run, what
`xargs -P4 sbatch --hold` and one `scontrol release` take over the same scripts. How the cost grows is told by the ratio
of a number of due entries to a quarter of it.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess  # noqa: TID251 - a benchmark starts whole processes
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cronhpc.cron.values import replace
from cronhpc.store import memory
from tests.bench import aims

TOP = Path(__file__).resolve().parents[2]
LAB = TOP / "deploy" / "lab" / "lab"
SCRIPT = "#!/bin/bash\n#SBATCH --time=1 --output=/dev/null\ntrue\n"
OPENS = ("open", "openat", "openat2", "creat")
BY_HAND = "ls *.slurm | xargs -P4 -n1 sbatch --parsable --hold >../ids && scontrol release $(paste -sd, ../ids)"
CALLS = """
import subprocess, sys, traceback
from cronhpc import cli

start = subprocess.Popen.__init__

def noted(self, argv, *rest, **named):
    if argv[0].endswith("/sbatch"):
        print("calls", *(each.name for each in traceback.extract_stack() if "/cronhpc/" in each.filename))
    start(self, argv, *rest, **named)

subprocess.Popen.__init__ = noted
cli.main(["tick", "--dir", sys.argv[1]])
"""
TICK = "import sys; sys.modules['rich'] = None; from cronhpc.cli import entry_point; entry_point()"
LATE = 300  # seconds ago the entries were due


class Bench:
    """A lab, and cron directories on it.

    None is removed before the end: for minutes after that ext4 may look through the inodes that are free again whenever
    it makes a file, and claims are files.
    """

    def __init__(self, lab: Path, work: Path) -> None:
        self.lab = lab
        self.work = work
        hidden = work / "hidden"  # import-linter brings rich, which structlog then loads in 80 ms: users have none
        hidden.mkdir()
        (hidden / "rich.py").write_text("raise ImportError\n")
        self.environ = {**os.environ, "PYTHONPATH": str(hidden)}

    def run(self, *argv: str, cwd: str = "/") -> subprocess.CompletedProcess[str]:
        """A command in the lab."""
        full = [str(LAB), "exec", "--dir", str(self.lab), "--", *argv]
        return subprocess.run(full, cwd=cwd, env=self.environ, text=True, capture_output=True, check=False)

    def directory(self, name: str, entries: int, schedule: str) -> Path:
        """A cron directory with so many scripts in cron.d; its files are old enough to be believed."""
        root = self.work / name
        self.run(sys.executable, "-m", "cronhpc", "init", "--dir", str(root))
        for number in range(entries):
            (root / "cron.d" / f"entry{number}.slurm").write_text(f"#!/bin/bash\n#CRON {schedule}\n{SCRIPT[12:]}")
        return root

    def timed(self, *argv: str, cwd: str = "/") -> aims.Used:
        """Seconds that one whole process took, and what it and its children used of a processor; not `lab exec`."""
        script = f"TIMEFORMAT='%R %U %S'; time {shlex.join(argv)} >/dev/null 2>&1"
        wall, user, system = self.run("bash", "-c", script, cwd=cwd).stderr.split()[-3:]
        return aims.Used(float(wall), float(user) + float(system))

    def tick(self, root: Path) -> aims.Used:
        """The same of a tick, as users have it: structlog loads rich where that is, as it is here for a linter."""
        return self.timed(sys.executable, "-c", TICK, "tick", "--dir", str(root))

    def clear(self) -> None:
        """End all jobs."""
        self.run("scancel", "-u", str(os.getuid()))
        time.sleep(5)

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


def idle(bench: Bench, entries: int, runs: int) -> None:
    """The rows of one size; the bare python starts in turns with the ticks."""
    root = bench.directory(f"idle{entries}", entries, "0 5 29 2 *")
    time.sleep(4)
    for _ in range(2):
        bench.tick(root)
    pairs = [(bench.tick(root), bench.timed(sys.executable, "-c", "pass")) for _ in range(runs)]
    opens, commands = bench.traced(root)
    ours, bare = (aims.median_of([pair[n] for pair in pairs]) for n in (0, 1))
    peer = f"bare python {bare.busy * 1000:.0f} ms; {ours.wall * 1000:.0f} ms on the wall; {aims.busy()}"
    aims.row(f"idle tick, {entries:,} entries", ours.busy * 1000, peer)
    if entries == 100:
        ratio = aims.ratio_of(*([pair[n] for pair in pairs] for n in (0, 1)))
        aims.row("idle tick, 100 entries / bare python", ratio.busy, f"processor time, n={runs}")
        aims.row("files opened by an idle tick", opens, f"{commands} commands")


def due(bench: Bench, entries: int, runs: int) -> tuple[aims.Used, aims.Used]:
    """The row; the medians of ours and of xargs. The entries are known to the tick before, as those of a day are."""
    ours: list[aims.Used] = []
    peers: list[aims.Used] = []
    for number in range(runs):
        root = made_due(bench, f"due{entries}-{number}", entries)
        peers.append(bench.timed("bash", "-c", BY_HAND, cwd=str(root / "cron.d")))
        bench.clear()
        ours.append(bench.tick(root))
        queued = bench.run("squeue", "--me", "--noheader", "--states=all", "--format=%k").stdout
        if (number_of := len({line for line in queued.splitlines() if line.startswith("cronhpc=")})) < entries:
            sys.exit(f"only {number_of} of {entries} were submitted")
        bench.clear()
    mine, peer, ratio = aims.median_of(ours), aims.median_of(peers), aims.ratio_of(ours, peers)
    name = f"{entries:,} due / xargs -P4 sbatch --hold, release"
    if name in aims.AIMS:
        on_the_wall = f"{mine.wall:.1f} s, xargs {peer.wall:.1f} s; of a processor {ratio.busy:.2f}"
        aims.row(name, ratio.wall, f"{on_the_wall}; n={runs}, {aims.busy()}")
    return mine, peer


def made_due(bench: Bench, name: str, entries: int) -> Path:
    """A cron directory whose last tick knew all entries, and was before the slot that is due."""
    slot = int(time.time() - LATE) // 60 * 60  # noqa: TID251 - cron's own minutes
    at = time.gmtime(slot)
    root = bench.directory(name, entries, f"{at.tm_min} {at.tm_hour} * * *")
    settings = root / "cronhpc.yaml"
    text = settings.read_text().replace("\nscheduler:", "\nscheduler:\n  budget: {tick: 100000, hour: 100000}", 1)
    settings.write_text(text.replace("timezone: ", "timezone: UTC #", 1))
    time.sleep(4)
    bench.tick(root)
    path = root / "state" / "entries.json"
    known = memory.load(path)
    known.entries = {name: replace(state, watermark=slot - 60, next_slot=slot) for name, state in known.entries.items()}
    memory.save(path, known)
    return root


def calls(bench: Bench) -> None:
    """The row: how deep in our own functions the process of sbatch is started."""
    root = made_due(bench, "calls", 1)
    said = bench.run(sys.executable, "-c", CALLS, str(root)).stdout
    names = next(line for line in said.splitlines() if line.startswith("calls ")).split()[1:]
    aims.row("calls from `cronhpc tick` to sbatch's process", len(names), " ".join(names))
    bench.clear()


@contextmanager
def made(folder: Path) -> Iterator[Bench]:
    """A lab that takes many jobs, until the block ends."""
    folder.chmod(0o755)
    lab = folder / "lab"
    up = [str(LAB), "up", "--dir", str(lab), "--conf", "MaxJobCount=20000"]
    subprocess.run(up, check=True, capture_output=True)
    try:
        yield Bench(lab, folder)
    finally:
        subprocess.run([str(LAB), "down", "--dir", str(lab)], check=False, capture_output=True)


def main() -> None:
    """The rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, nargs="*", default=[100, 10_000], help="sizes of idle ticks")
    parser.add_argument("--due", type=int, nargs="*", default=[400, 1600], help="numbers of due entries")
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cronhpc-bench-", dir="/var/tmp") as folder, made(Path(folder)) as bench:
        for entries in args.entries:
            idle(bench, entries, args.runs)
        calls(bench)
        took = {entries: due(bench, entries, max(1, args.runs // 3)) for entries in sorted(args.due)}
        for entries, (mine, peer) in took.items():
            if quarter := took.get(entries // 4):
                ours, theirs = aims.ratio_of([mine], [quarter[0]]), aims.ratio_of([peer], [quarter[1]])
                grown = f"of a processor {ours.busy:.1f}; xargs {theirs.wall:.1f}, of a processor {theirs.busy:.1f}"
                aims.row(f"{entries:,} due / {entries // 4:,} due", ours.wall, grown)


if __name__ == "__main__":
    main()
