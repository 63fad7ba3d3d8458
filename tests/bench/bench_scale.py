"""What many users' cron directories cost one slurmctld over a day, by simulation. Needs no Slurm and no rights.

    python -m tests.bench.bench_scale [--users 1000] [--entries 20] [--seed 1]

The schedules, their H, and the defaults of the scheduler are the real ones; what a tick, a link and a run send is what
`sdiag` counted on a lab (COST below). Prints messages an hour of one user, the busiest minute, how many jobs become
eligible in one second, and draws the day; beside it the same with schedules as people write them (minute 0, no H), with
links at a minute of each directory's own instead of whole hours, and with daemons instead of chains.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
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
    """Messages by second of the day, and jobs by the second at which they may start."""

    messages: Counter[int] = field(default_factory=Counter)
    eligible: Counter[int] = field(default_factory=Counter)
    ticks: int = 0
    runs: int = 0

    def send(self, at: float, count: int) -> None:
        """So many messages at `at`, if that is within the day."""
        if BEGIN <= at < BEGIN + DAY:
            self.messages[int(at)] += count

    def minutes(self) -> list[int]:
        """Messages of each minute of the day."""
        per = Counter[int]()
        for at, count in self.messages.items():
            per[(at - BEGIN) // 60] += count
        return [per[minute] for minute in range(DAY // 60)]


@dataclass(frozen=True)
class Way:
    """How users write schedules, and what calls their ticks."""

    title: str
    spread: bool = True
    own_minute: bool = False
    daemon: bool = False


WAYS = (
    Way("as shipped: H in the folders, links at whole hours"),
    Way("all written with minute 0", spread=False),
    Way("H, links at a minute of the directory's own", own_minute=True),
    Way("H, a daemon each instead of a chain", daemon=True),
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
        found = slots_of(kind.spread, key) if way.spread else slots_of(kind.plain, "")
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
    ticks, now, position = [], boundary(BEGIN - 1 - phase, s.interval) + phase, 0
    while now < BEGIN + DAY:
        ticks.append(now)
        load.eligible[now] += 1
        ahead = now + s.min_interval  # slots nearer than that are submitted now, with --begin
        released = 0
        while position < len(slots) and slots[position][0] < ahead:
            released += 1
            position += 1
        starts = now + dice.random() * 2  # bash, then Python, on some node
        load.send(starts, COST.job - 1 + COST.submission)  # the link's start, and its successor
        load.send(starts + 1, COST.look + COST.update + (COST.update if released else 0))
        load.send(starts + 2, 1)  # its end
        lives = any(now - s.kill_within < at + lasts > now for at, lasts in slots[max(0, position - 60) : position])
        at = boundary(now - phase, s.interval) + phase
        if position < len(slots):
            at = min(at, max(slots[position][0], ahead))
        now = min(at, now + s.kill_within) if lives else at
    return ticks


def drawn(minutes: Sequence[int], width: int = 72) -> Iterator[str]:
    """The day in two lines: the mean and the busiest minute of each of `width` parts, in eighths of the highest."""
    per = len(minutes) // width
    parts = [minutes[n * per : (n + 1) * per] for n in range(width)]
    for name, values in (("mean", [statistics.mean(part) for part in parts]), ("peak", [max(part) for part in parts])):
        top = max(values) or 1
        bars = "".join(BARS[round(value / top * (len(BARS) - 1))] for value in values)
        yield f"  {name} {bars} {top:,.0f} a minute"


def report(way: Way, users: int, entries: int, seed: int) -> Iterator[str]:
    """A paragraph for one way."""
    load, dice = Load(), random.Random(seed)  # noqa: S311 -- the same day each time
    for number in range(users):
        one_user(load, way, f"user{number}", entries, dice)
    if way.daemon:
        looks = users * DAY // DAEMON_LOOK
        for at in range(BEGIN, BEGIN + DAY):
            load.send(at, round(looks * COST.look / DAY))
    minutes = load.minutes()
    total = sum(minutes)
    peak, second = max(minutes), max(load.eligible.values())
    yield way.title
    yield (f"  one user: {total / users / 24:.0f} messages, {load.ticks / users / 24:.1f} ticks, "
           f"{load.runs / users / 24:.1f} runs an hour")  # fmt: skip
    yield (f"  all: {total / DAY:.1f} messages a second on average, {peak / 60:.0f} in the busiest minute; "
           f"at most {second:,} jobs may start at one second")  # fmt: skip
    yield from drawn(minutes)


def main() -> None:
    """Print the ways one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--entries", type=int, default=20, help="of each user")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    sys.stdout.write(f"{args.users:,} users, {args.entries} entries each, a Monday\n")
    for way in WAYS:
        sys.stdout.write("\n" + "\n".join(report(way, args.users, args.entries, args.seed)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
