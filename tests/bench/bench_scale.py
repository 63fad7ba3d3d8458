"""What many users' cron directories cost one slurmctld over a day, by simulation. Needs no Slurm and no rights.

    python -m tests.bench.bench_scale [--users 1000] [--entries 20] [--seed 1]

The schedules, their H, and the defaults of the scheduler are the real ones; what a tick, a link and a run send is what
`sdiag` counted on a lab (COST below). Prints the table of docs/scale.md, and draws the days: as shipped, with schedules
as people write them (minute 0, no H), with links at a minute of each directory's own instead of whole hours, and with
daemons instead of chains.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronhpc.core.model.entries import Settings
from cronhpc.core.slots import boundary
from cronhpc.cron.schedule import between, parse

ZONE = ZoneInfo("UTC")
HOUR, DAY = 3600, 86400
BEGIN = 1_782_086_400  # a Monday, 2026-06-22 00:00 UTC: no weekly or monthly entry is at its default day
DAEMON_LOOK = 30  # seconds between two looks of a daemon while jobs live: docs/administrators.md
BARS = " ▁▂▃▄▅▆▇█"


class Cost(NamedTuple):
    """Messages to slurmctld, as `sdiag` counts them (22.05)."""

    look: int = 2  # one squeue --me: a list of jobs and one of partitions
    submission: int = 1
    update: int = 1  # the spare's new time; one release for all runs of a tick
    job: int = 2  # its start on the node, and its end


COST = Cost()


class Kind(NamedTuple):
    """So many of twenty entries: the schedule with H, as people write it without, and how long a run takes (s)."""

    share: int
    spread: str
    plain: str
    lasts: tuple[int, int]


KINDS = (
    Kind(4, "H * * * *", "0 * * * *", (10, 300)),  # cron.hourly/
    Kind(7, "H 4 * * *", "0 4 * * *", (60, 5400)),  # cron.daily/
    Kind(3, "H 4 * * sun", "0 4 * * sun", (60, 5400)),  # cron.weekly/
    Kind(2, "H H * * *", "0 0 * * *", (60, 5400)),
    Kind(2, "H H(7-9) * * mon-fri", "0 8 * * mon-fri", (30, 600)),
    Kind(1, "@every 90m", "@every 90m", (30, 600)),
    Kind(1, "H/10 * * * *", "*/10 * * * *", (5, 60)),
)


@dataclass
class Load:
    """Messages by minute of the day, and jobs by the second at which they may start."""

    minutes: list[int] = field(default_factory=lambda: [0] * (DAY // 60))
    eligible: Counter[int] = field(default_factory=Counter)
    ticks: int = 0
    runs: int = 0

    def send(self, at: float, count: int) -> None:
        """So many messages at `at`, if that is within the day."""
        if at < BEGIN + DAY:
            self.minutes[int(at - BEGIN) // 60] += count


@dataclass(frozen=True)
class Way:
    """How users write schedules, and what calls their ticks."""

    title: str
    spread: bool = True
    own_minute: bool = False
    every: bool = True
    daemon: bool = False


WAYS = (
    Way("as shipped: `H` in the folders, links at whole hours"),
    Way("everything written with minute 0", spread=False),
    Way("`H`, links at a minute of the directory's own", own_minute=True),
    Way("the same, and `H H/2 * * *` for `@every 90m`", own_minute=True, every=False),
    Way("`H`, a daemon each instead of a chain", daemon=True),
)


@cache
def slots_of(schedule: str, key: str) -> tuple[int, ...]:
    """The day's slots."""
    return tuple(between(parse(schedule, ZONE, hash_key=key), BEGIN - 1, BEGIN + DAY))


def entries_of(number: int, user: str) -> Iterator[tuple[Kind, str]]:
    """The user's entries with the key of their H: one for each of the folders, one for each script elsewhere."""
    every = [kind for kind in KINDS for _ in range(kind.share)]
    for nth in range(number):
        kind = every[nth * len(every) // number]
        folder = kind in KINDS[:3]
        yield kind, f"{user}/{kind.spread}" if folder else f"{user}/{nth}"


def one_user(load: Load, way: Way, user: str, entries: int, dice: random.Random) -> None:
    """Add a user's day."""
    slots: list[tuple[int, int]] = []  # when, and how long the run takes
    for kind, key in entries_of(entries, user):
        spread = kind.spread if way.every else kind.spread.replace("@every 90m", "H H/2 * * *")
        found = slots_of(spread, key) if way.spread else slots_of(kind.plain, "")
        slots += [(at, dice.randint(*kind.lasts)) for at in found]
    slots.sort()
    for at, lasts in slots:
        load.runs += 1
        load.eligible[at] += 1
        load.send(at, COST.submission)
        load.send(at + 1 + dice.expovariate(1 / 20), COST.job - 1)
        load.send(at + lasts, 1)
    ticks = daemon_ticks(slots) if way.daemon else chain_ticks(load, way, user, slots, dice)
    load.ticks += len(ticks)


def daemon_ticks(slots: Sequence[tuple[int, int]]) -> list[int]:
    """A tick at each slot; while a job lives the queue is looked at every DAEMON_LOOK seconds, by the same daemon."""
    return sorted({at for at, _ in slots} | set(range(BEGIN, BEGIN + DAY, HOUR)))


def chain_ticks(load: Load, way: Way, user: str, slots: Sequence[tuple[int, int]], dice: random.Random) -> list[int]:
    """The instants of links, by core.slots.wake's rules: the interval, slots, and a look while a job lives."""
    s = Settings()
    phase = slots_of("H * * * *", f"{user}/H * * * *")[0] % HOUR if way.own_minute and way.spread else 0
    ticks, now, position, busy = [], boundary(BEGIN - 1 - phase, s.interval) + phase, 0, 0
    while now < BEGIN + DAY:
        ticks.append(now)
        load.eligible[now] += 1
        ahead = now + s.min_interval  # slots nearer than that are submitted now, with --begin
        released = 0
        while position < len(slots) and slots[position][0] < ahead:
            released += 1
            busy = max(busy, sum(slots[position]))
            position += 1
        starts = now + dice.random() * 2  # bash, then Python, on some node
        load.send(starts, COST.job - 1 + COST.submission)  # the link's start, and its successor
        load.send(starts + 1, COST.look + COST.update + (COST.update if released else 0))
        load.send(starts + 2, 1)  # its end
        at = boundary(now - phase, s.interval) + phase
        if position < len(slots):
            at = min(at, max(slots[position][0], ahead))
        now = min(at, now + s.kill_within) if busy > now else at
    return ticks


def day(way: Way, users: int = 1000, entries: int = 20, seed: int = 1) -> Load:
    """What they all send; the same each time."""
    load, dice = Load(), random.Random(seed)  # noqa: S311
    for number in range(users):
        one_user(load, way, f"user{number}", entries, dice)
    if way.daemon:
        for at in range(BEGIN, BEGIN + DAY):
            load.send(at, round(users / DAEMON_LOOK * COST.look))
    return load


def row(way: Way, load: Load, users: int = 1000) -> str:
    """Of the table."""
    total = sum(load.minutes)
    of_one = [f"{each / users / 24:{form}}" for each, form in ((total, ".0f"), (load.ticks, ".1f"), (load.runs, ".0f"))]
    hour = "{} messages, {} ticks, {} runs".format(*of_one)
    return (
        f"| {way.title} | {hour} | {total / DAY:.0f} | {max(load.minutes) / 60:.0f} | {max(load.eligible.values()):,} |"
    )


def drawn(load: Load) -> str:
    """The day: the busiest minute of each twenty, in eighths of the highest."""
    parts = [max(load.minutes[at : at + 20]) for at in range(0, len(load.minutes), 20)]
    bars = "".join(BARS[round(value / max(parts) * (len(BARS) - 1))] for value in parts)
    return f"{bars}  highest: {max(parts):,}"


def main() -> None:
    """Print the table, and the days."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--entries", type=int, default=20, help="of each user")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    days = [(way, day(way, args.users, args.entries, args.seed)) for way in WAYS]
    users = f"{args.users:,} users, a second on average"
    print(f"  | | one user, an hour | {users} | in the busiest minute | jobs that may start at one second |")
    print("  | --- | --- | --- | --- | --- |")
    for way, load in days:
        print(f"  {row(way, load, args.users)}")
    print()
    for _, load in days:
        print(drawn(load))


if __name__ == "__main__":
    main()
