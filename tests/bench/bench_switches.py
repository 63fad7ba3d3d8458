"""What switches cost, and how fast they are, on the lab's real Slurm. As root: python -m tests.bench.bench_switches [N]

Prints from bob's `touch` to the end of alice's job (N runs, median and worst), the CPU that the daemon and `cronhpc
guard` use in an hour, and what `KillSwitch.is_set()` costs beside `os.path.exists`.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
import timeit
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cronhpc import KillSwitch
from tests.lab.conftest import start, stop
from tests.lab.helpers_team import HUNG, LIBRARIES, PYTHON, Team, kill_wait

WATCHED = 60.0  # seconds that a process is looked at
TICKS = os.sysconf("SC_CLK_TCK")
POLITE = "touch {place}/ready-$SLURM_JOB_ID\nexec sleep 600\n"


def say(line: str) -> None:
    """One line of the table."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def made() -> Iterator[Team]:
    """A lab and alice's cron directory."""
    lab = start(users=["alice", "bob"])
    place = Path(tempfile.mkdtemp(prefix="bench-"))
    place.chmod(0o755)
    shutil.chown(place, "alice", "alice")
    try:
        yield Team.make(lab, place)
    finally:
        stop(lab)
        shutil.rmtree(place, ignore_errors=True)


def touch_to_end(team: Team, text: str) -> tuple[float, float]:
    """Seconds from bob's touch until the job is told to end, and until it is gone from the queue."""
    job = team.submit(text, "--job-name=ft")
    team.lab.wait_for((team.place / f"ready-{job}").exists)
    path = team.root / "kill" / "ft"
    began = time.monotonic()
    team.lab.run(["touch", str(path)], user="bob")
    team.lab.wait_for(lambda: not any("RUNNING" in s for s in team.states(job).values()), every=0.01)
    told = time.monotonic() - began
    team.wait_gone(job)
    gone = time.monotonic() - began
    path.unlink()
    time.sleep(1)  # the daemon sees it go
    return told, gone


def show(what: str, times: Sequence[float], beyond: float = 0.0) -> None:
    """Median and worst."""
    most = f", of which Slurm's KillWait {beyond:.0f} s" if beyond else ""
    say(f"{what:44} median {statistics.median(times):5.2f} s   worst {max(times):5.2f} s{most}")


def cpu(pid: int) -> float:
    """Seconds that a process and the children it has waited for have used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def an_hour_of(pid: int) -> float:
    """What it would use in an hour, by what it uses in a minute."""
    before = cpu(pid)
    time.sleep(WATCHED)
    return (cpu(pid) - before) * 3600 / WATCHED


def guarded(team: Team) -> float:
    """CPU seconds an hour of one guard that looks at the default four names every 5 s."""
    argv = [PYTHON, "-m", "cronhpc.inside.guard", "--kill-switch", f"{team.root}/kill/x", "--", "sleep", "300"]
    process = team.lab.popen(argv, "alice", env={"PYTHONPATH": LIBRARIES})
    time.sleep(2)
    try:
        return an_hour_of(process.pid)
    finally:
        process.terminate()
        process.communicate(timeout=20)


def loops() -> None:
    """One call in a training loop."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/switch"
        switch = KillSwitch(path)
        switch.is_set()
        count = 20_000
        for what, call in (("KillSwitch.is_set()", switch.is_set), ("os.path.exists()", lambda: os.path.exists(path))):  # noqa: PTH110 - the call that people write
            best = min(timeit.repeat(call, number=count, repeat=30)) / count
            say(f"{what:44} {best * 1e9:5.0f} ns a call")


def measured(team: Team, runs: int) -> None:
    """The daemon's part of the table."""
    with team.daemon() as process:
        for what, text, beyond in (
            ("a job that ends on TERM", POLITE, 0),
            ("a job that ignores it", HUNG, kill_wait(team.lab)),
        ):
            times = [touch_to_end(team, text) for _ in range(runs)]
            show(f"touch to told, {what}", [told for told, _ in times])
            show(f"touch to gone, {what}", [gone for _, gone in times], beyond)
        time.sleep(10)
        say(f"{'daemon, nothing to do':44} {an_hour_of(process.pid):5.1f} s of CPU an hour")
        team.drop("cron.daily/work.slurm", POLITE)
        job = team.json("run", "work")["job"]
        say(f"{'daemon, a run lives (a tick every 30 s)':44} {an_hour_of(process.pid):5.1f} s of CPU an hour")
        team.lab.run(["scancel", job])


def main(argv: Sequence[str]) -> int:
    """Print the table."""
    runs = int(argv[1]) if len(argv) > 1 else 20
    load = os.getloadavg()[0]
    say(f"{runs} runs each; load {load:.1f} on {os.cpu_count()} cores")
    with made() as team:
        measured(team, runs)
        say(f"{'cronhpc guard':44} {guarded(team):5.1f} s of CPU an hour")
    loops()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
