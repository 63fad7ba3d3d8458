"""What time costs: a cold start of 10,000 entries, one look ahead, the longest outage."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import product
from time import perf_counter
from zoneinfo import ZoneInfo

from cronhpc.cron.schedule import Schedule, parse

NOW = 1_800_000_000
ENTRIES, BUDGET = 10_000, 1.0  # seconds, for all of them
ZONES = [ZoneInfo(key) for key in ("Europe/Paris", "America/New_York")]
EXPRESSIONS = [
    f"{minute} {hour} * * {weekday}"
    for minute, hour, weekday in product(("*/15", "0", "30"), ("*", "8-18", "4"), ("*", "mon-fri"))
]


def seconds_of(work: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    start = perf_counter()
    work()
    return perf_counter() - start


def cold_start(texts: list[str]) -> list[tuple[int | None, int]]:
    """For every entry the latest slot that it may have missed in a week, and the next."""
    schedules = [parse(text, ZONES[n % 2], hash_key=str(n)) for n, text in enumerate(texts)]
    return [(one.latest_before(NOW, NOW - 604_800 - n), one.next_epoch(NOW)) for n, one in enumerate(schedules)]


def in_microseconds(schedule: Schedule, calls: int = 2_000) -> float:
    """The cost of one look ahead that nothing remembers."""
    return seconds_of(lambda: [schedule.next_epoch(NOW + 60 * n) for n in range(calls)]) / calls * 1e6


def say(line: str) -> None:
    """One line of the table."""
    sys.stdout.write(f"{line}\n")


def main() -> int:
    """Print the table; 1 if a cold start is over its budget."""
    first = seconds_of(lambda: parse("0 4 * * *", ZONES[0]).next_epoch(0))
    say(f"the first look, with croniter's import: {first:.3f} s")
    repeated = seconds_of(lambda: cold_start([EXPRESSIONS[n % len(EXPRESSIONS)] for n in range(ENTRIES)]))
    kinds = len(EXPRESSIONS) * len(ZONES)
    say(f"{ENTRIES} entries, {kinds} schedules, cold: {repeated:.3f} s (budget {BUDGET:.0f} s)")
    say(f"{ENTRIES} entries, H H, all their own: {seconds_of(lambda: cold_start(['H H * * *'] * ENTRIES)):.3f} s")
    for text in ("* * * * *", "0 4 * * *", "*/15 8-18 * * mon-fri", "0 0 1 1 *", "0 0 29 2 */7"):
        say(f"next slot of {text:24} {in_microseconds(parse(text, ZONES[0])):6.0f} us")
    five_years = NOW - 5 * 366 * 86_400
    every_minute = parse("* * * * *", ZONES[0])
    missed = seconds_of(lambda: every_minute.latest_before(NOW + 7, five_years))
    say(f"the latest of five years of minutes  {missed * 1e6:6.0f} us")
    return 0 if repeated < BUDGET else 1


if __name__ == "__main__":
    sys.exit(main())
