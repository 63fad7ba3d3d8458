#!/usr/bin/env python3
"""A month of faults: six entries on a real Slurm at 600 times the speed, and something breaks every few hours.

    python tests/lab/month.py [--days 30] [--seed N] [--speed 600]      # 30 days take 72 minutes

What breaks, and when, follows from the seed, which is printed. At the end every slot has run exactly once, or history
has a reason that the faults justify; and no sample of the queue had two pending successors. Exit code 1: not so.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cronhpc.cron.schedule import parse
from tests.lab.helpers_days import DAY, HOUR, NOTE, Days, Evidence, days, instant, said, twice

BEGIN = "2025-10-20 22:40"  # its month holds the autumn night
CELL = 6 * HOUR  # a fault every so often, at a random moment of the first third
QUIET = 3 * HOUR, 7 * HOUR  # before the first fault, and after the last one has begun
SETTINGS = """\
timezone: UTC
sbatch: {{partition: cpu}}
folders: {{hourly: "7 * * * *", daily: "40 4 * * *"}}
scheduler: {{interval: 1h, min-interval: 40m, sbatch: {{time: 300}}}}
kill: {{within: 1h}}
entries:
  row:
    schedule: "15 */6 * * *"
    catch-up: all
    sbatch: {{no-requeue: true}}
    command: '{note}'
"""
SCRIPTS = {  # --no-requeue: a run that dies with its node is not run again by Slurm
    "cron.d/half.slurm": "#CRON */30 * * * *",
    "cron.d/ninety.slurm": "#CRON @every 90m --overlap=queue",
    "cron.d/paris.slurm": "#CRON 0 3 * * * --timezone=Europe/Paris --catch-up=all",
    "cron.hourly/hourly.slurm": "",
    "cron.daily/daily.slurm": "",
}
ENTRIES = {
    "half": ("*/30 * * * *", "UTC"),
    "ninety": ("@every 90m", "UTC"),
    "paris": ("0 3 * * *", "Europe/Paris"),
    "hourly": ("7 * * * *", "UTC"),
    "daily": ("40 4 * * *", "UTC"),
    "row": ("15 */6 * * *", "UTC"),
}
NEVER_MISSED = {"paris", "row"}  # catch-up: all


@dataclass
class Fault:
    """One thing that breaks at `at`; `over` when it was fixed; `note` says what was struck."""

    kind: str
    at: int
    over: int = 0
    note: str = ""

    def __str__(self) -> str:
        return f"{said(self.at)}  {self.kind}{': ' + self.note if self.note else ''}"


@dataclass
class Month:
    """What a simulation was, and what it left."""

    seed: int
    begin: int
    end: int
    faults: list[Fault]
    evidence: Evidence
    wrong: list[str] = field(default_factory=list)


def plan(length: int, seed: int, kinds: list[str]) -> list[Fault]:
    """Faults for `length` seconds from the first instant: all kinds in random order, then all of them again."""
    chance = random.Random(seed)  # noqa: S311 -- no secret
    orders: Iterator[str] = itertools.chain.from_iterable(chance.sample(kinds, len(kinds)) for _ in itertools.count())
    first = instant(BEGIN) + QUIET[0]
    cells = range(first, instant(BEGIN) + length - QUIET[1] + 1, CELL)
    return [Fault(kind, cell + chance.randrange(CELL // 3)) for cell, kind in zip(cells, orders, strict=False)]


# --- what breaks ---------------------------------------------------------------------------------------------------


def cancel_link(day: Days, _fault: Fault) -> str:
    """The pending successor."""
    found = day.wait(lambda: (look := day.sample()) and look.successors and not look.running and look.successors)
    day.lab.run(["scancel", found[0]])
    return f"job {found[0]}"


def cancel_spare(day: Days, _fault: Fault) -> str:
    """The spare."""
    found = day.wait(lambda: (look := day.sample()) and look.spares)
    day.lab.run(["scancel", found[0]])
    return f"job {found[0]}"


def _running_link(day: Days) -> str:
    """a link runs"""
    look = day.sample()
    return look.running[0] if look is not None and look.running else ""


def requeue_link(day: Days, _fault: Fault) -> str:
    """A running link, as an administrator may."""

    def requeued() -> str:
        """a link ran and was requeued"""
        job = _running_link(day)
        if not job or day.lab.run(["scontrol", "update", f"jobid={job}", "requeue=1"], check=False).returncode:
            return ""
        return "" if day.lab.run(["scontrol", "requeue", job], check=False).returncode else job

    return f"job {day.wait(requeued)}"


def kill_node(day: Days, fault: Fault) -> str:
    """The node of a running link, with all that runs there; back an hour later."""
    job = day.wait(lambda: _running_link(day))
    node = day.lab.run(["squeue", "-h", "-j", job, "-o", "%N"], check=False).stdout.strip() or "cpu1"
    day.lab.kill_node(node)
    day.lab.down_node(node)
    day.watch(fault.at + HOUR)
    day.start_node(node)
    return f"{node}, under link {job}"


def fill_nodes(day: Days, _fault: Fault) -> str:
    """Every node of the partition is taken for two intervals."""
    nodes = day.lab.run(["sinfo", "-h", "-p", "cpu", "-o", "%D"]).stdout.split()[0]
    job = day.lab.submit("-p", "cpu", "-N", nodes, "--exclusive", "-o", "/dev/null", "--wrap", f"sleep {2 * HOUR}")
    day.wait(lambda: day.lab.run(["squeue", "-h", "-t", "RUNNING", "-j", job]).stdout)
    day.wait(lambda: not day.lab.run(["squeue", "-h", "-t", "RUNNING", "-j", job], check=False).stdout)
    return f"all {nodes} nodes"


def wrong_clock(day: Days, fault: Fault) -> str:
    """The clock that jobs see on the node where links run, ten minutes off for four hours."""
    offset = 600 if fault.at % 2 else -600
    mark = day.place / "skew-cpu1"
    ahead, speed = day.lab.facts["env"]["FAKETIME"].split()
    mark.write_text(f"{float(ahead) + offset:+.3f} {speed}", encoding="ascii")
    day.watch(fault.at + 4 * HOUR)
    mark.unlink()
    return f"cpu1 is {'ahead' if offset > 0 else 'behind'}"


def freeze_controller(day: Days, fault: Fault) -> str:
    """Requests are taken and not answered, for an hour."""
    day.lab.freeze()
    day.watch_blind(fault.at + HOUR)
    day.lab.thaw()
    return ""


def restart_controller(day: Days, fault: Fault) -> str:
    """It ends, or crashes, and comes back."""
    crash = bool(fault.at % 2)
    day.lab.kill_controller(crash=crash)
    day.lab.start_controller()
    return "it crashed" if crash else ""


def fill_disk(day: Days, fault: Fault) -> str:
    """No byte is left where the cron directory lies, for two hours."""
    ballast = day.root.parent / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError as error:
            note = str(error.strerror)
    day.watch(fault.at + 2 * HOUR)
    ballast.unlink()
    return note


def cancel_everything(day: Days, fault: Fault) -> str:
    """`scancel -u`; then its owner logs in once an hour, and the login hook looks."""
    day.lab.run(["scancel", "-u", str(os.getuid())])
    day.wait(lambda: day.queue() == [])
    hours = 0
    while not ((look := day.sample()) and (look.successors or look.running)):
        hours += 1
        day.watch(fault.at + hours * HOUR)
        day.cronhpc("start", "--if-stale")
        if hours > 6:
            raise AssertionError(f"the login hook has not fixed the chain in six hours\n{day.tail()}")
    return f"back after {hours} logins"


FAULTS: dict[str, tuple[Callable[[Days, Fault], str], set[str]]] = {  # and what it may do to slots
    "cancel the link": (cancel_link, {"missed"}),
    "cancel the spare": (cancel_spare, set()),
    "requeue a link": (requeue_link, {"missed"}),
    "kill a link's node": (kill_node, {"missed", "node failed", "failed", "cancelled", "lost", "skipped"}),
    "fill all nodes": (fill_nodes, {"missed", "skipped"}),
    "a node's clock is off": (wrong_clock, {"missed"}),
    "the controller hangs": (freeze_controller, {"missed", "skipped", "lost"}),
    "the controller restarts": (restart_controller, {"missed", "skipped", "lost"}),
    "the disk is full": (fill_disk, {"missed", "skipped", "failed"}),
    "cancel everything": (cancel_everything, {"missed", "cancelled", "lost"}),
}
AFTER = 3 * HOUR  # a fault may be felt so long after it was fixed


# --- a run ---------------------------------------------------------------------------------------------------------


def simulate(length: int, seed: int, tell: Callable[[str], object], speed: float = 600) -> Month:
    """`length` days with faults from `seed`; `wrong` says what is not as it should be."""
    conf = ["TaskProlog={place}/prolog"]
    with days(BEGIN, "", speed=speed, conf=conf, disk="8m") as day:
        kinds = [kind for kind in FAULTS if day.disk is not None or kind != "the disk is full"]
        faults = plan(length * DAY, seed, kinds)
        tell(f"seed {seed}: {len(faults)} faults in {length} days")
        _furnish(day)
        day.cronhpc("start")
        for fault in faults:
            day.watch(fault.at)
            fault.at = day.now
            fault.note = FAULTS[fault.kind][0](day, fault)
            fault.over = day.now
            tell(str(fault))
        end = instant(BEGIN) + length * DAY
        day.watch(end)
        day.wait(lambda: (look := day.sample()) and look.successors and look.spares and not look.running)
        day.finish()
        month = Month(seed, instant(BEGIN) + HOUR, end - 2 * HOUR, faults, day.evidence())
    month.wrong = list(judge(month))
    return month


def _furnish(day: Days) -> None:
    """Entries, and a prolog that gives the jobs of a node its clock."""
    prolog = day.place / "prolog"
    usual = day.lab.facts["env"]["FAKETIME"]
    prolog.write_text(
        f'#!/bin/bash\nclock=$(cat {day.place}/skew-"$SLURMD_NODENAME" 2>/dev/null)\n'
        f'echo "export FAKETIME=${{clock:-{usual}}}"\n',
        encoding="utf-8",
    )
    prolog.chmod(0o755)
    text = SETTINGS.format(note=NOTE.format(ran=day.ran))
    (day.root / "cronhpc.yaml").write_text(text, encoding="utf-8")
    for name, schedule in SCRIPTS.items():
        day.script(name, "#SBATCH --no-requeue", *filter(None, [schedule]), "sleep 120")


# --- the judgement -------------------------------------------------------------------------------------------------


def judge(month: Month) -> Iterator[str]:
    """What is wrong, in sentences."""
    evidence = month.evidence
    for sample in evidence.forks_left():
        yield f"{said(sample.at)}: two pending at once: {sample}"
    for entry, slots in twice(evidence).items():
        yield f"{entry} ran more than once: {slots}"
    for entry, (schedule, zone) in ENTRIES.items():
        wanted = list(_slots(schedule, zone, month.begin, month.end))
        ran = set(evidence.slots(entry, month.begin, month.end))
        told = evidence.told(entry, wanted)
        for slot in wanted:
            if slot in ran:
                continue
            if slot not in told:
                yield f"{entry} {said(slot)}: it did not run, and history has no reason"
            elif not _justified(month, entry, slot, told[slot]):
                yield f"{entry} {said(slot)}: no fault justifies {told[slot]!r}"
        for slot in sorted(ran - set(wanted)):
            yield f"{entry} {said(slot)}: it ran, and is no slot"


def _slots(schedule: str, zone: str, first: int, end: int) -> Iterator[int]:
    parsed = parse(schedule, ZoneInfo(zone))
    at = first - 1
    while (at := parsed.next_epoch(at)) < end:
        yield at


def _justified(month: Month, entry: str, slot: int, told: str) -> bool:
    result = told.partition(":")[0]
    if result == "missed" and entry in NEVER_MISSED:
        return False
    felt = [f for f in month.faults if f.at - HOUR <= slot <= f.over + AFTER]
    return any(result in FAULTS[fault.kind][1] for fault in felt)


def summary(month: Month) -> str:
    """For people: how many ran, how many did not and why, and what is wrong."""
    lines = []
    for entry, (schedule, zone) in ENTRIES.items():
        wanted = list(_slots(schedule, zone, month.begin, month.end))
        ran = len(set(month.evidence.slots(entry, month.begin, month.end)))
        lines.append(f"{entry:8} {len(wanted):5} slots, {ran:5} ran, {len(wanted) - ran:3} with a reason")
    lines.append(f"{len(month.evidence.samples)} samples of the queue, {len(month.evidence.forks())} with a fork")
    if month.wrong:
        lines += [f"seed {month.seed}", *(f"{fault} (until {said(fault.over)})" for fault in month.faults)]
    return "\n".join([*lines, *(f"WRONG: {each}" for each in month.wrong)])


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--speed", type=float, default=600)
    args = parser.parse_args()
    month = simulate(args.days, args.seed, _say, args.speed)
    _say(summary(month))
    return 1 if month.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
