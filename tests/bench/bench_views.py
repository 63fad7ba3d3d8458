"""What looking costs, as whole commands, each beside one that is no cronhpc, in turns.

`history` and `page` with 100 entries and 100,000 rows of history; `next`, `check` and `page` with 10,000 entries.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cronhpc.core.model import Key, slot_text
from cronhpc.store import history
from tests.bench import aims

ENTRIES, LINES, DAYS = 100, 100_000, 30
DAY = 86400
MANY = 10_000  # entries
SCHEDULES = ("*/30 * * * *", "5 * * * *", "*/15 8-18 * * mon-fri", "0 */2 * * *")
HOSTS = ("login1", "login2", "cpu07")
RESULTS = ("ok",) * 60 + ("failed", "timed out", "missed", "skipped")


def row(name: str, slot: int, chance: random.Random) -> dict[str, Any]:
    """One run as a tick writes it down."""
    result, job = chance.choice(RESULTS), chance.randrange(10**6, 10**7)
    known: dict[str, Any] = {"what": "run", "key": str(Key(name, slot)), "entry": name, "slot": slot}
    known |= {"result": result, "attempt": 1, "by_hand": False, "at": slot + 1200}
    if result in {"missed", "skipped"}:
        return {**known, "what": "slot", "detail": "job 4711 has not ended"}
    started = slot + int(chance.expovariate(1 / 240))
    ended = min(started + int(chance.expovariate(1 / 600)), slot + 1190)
    known |= {"submitted": slot + 4, "started": started, "ended": max(ended, started), "job": str(job)}
    known |= {"node": f"cpu{job % 64:02d}", "exit_code": 0 if result == "ok" else 1}
    return {**known, "log": f"log/{name}/{slot_text(slot)}-{job}.out"}


def rows(now: int) -> Iterator[dict[str, Any]]:
    """All of them, oldest first."""
    chance = random.Random(7)  # noqa: S311 - the same history each time
    each = LINES // ENTRIES
    for number in range(each):
        for n in range(ENTRIES):
            yield row(f"entry{n:02d}", now - DAYS * DAY + number * (DAYS * DAY // each) + n, chance)


PARSES = """import json, sys
for path in sys.argv[1:]:
    for line in open(path, "rb"):
        json.loads(line)"""
ASKS = 'for file; do bash -n "$file"; done'


def make(root: Path, now: int, entries: int) -> None:
    """A cron directory with so many entries, and the history of its first hundred."""
    run("init", root)
    for n in range(entries):
        schedule = SCHEDULES[n % len(SCHEDULES)]
        text = f'#!/bin/bash\n#SBATCH --time={n % 59 + 1}\n#CRON {schedule}\ncd /data/{n} || exit\nmake "part{n}"\n'
        (root / "cron.d" / f"entry{n:02d}.slurm").write_text(text, encoding="utf-8")
    split: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for index, each in enumerate(rows(now)):
        month = time.strftime("%Y-%m", time.gmtime(each["at"]))
        split.setdefault((month, HOSTS[index // 500 % len(HOSTS)]), []).append(each)
    for (_, host), some in split.items():
        history.append(root / "state" / "history", some, host=host, now=some[0]["at"])
    time.sleep(4)
    run("tick", root)


def argv(command: str, root: Path, *more: str) -> tuple[str, ...]:
    """Of one command."""
    return (sys.executable, "-m", "cronhpc", command, "--dir", str(root), "--backend", "local", *more)


def run(command: str, root: Path) -> None:
    """Run it to its end."""
    aims.used(*argv(command, root))


def measured(name: str, command: tuple[str, ...], peer: str, of_peer: tuple[str, ...], rounds: int) -> None:
    """The row of a command, beside one that is no cronhpc."""
    ours, others = aims.in_turns(command, of_peer, rounds=rounds)
    mine, theirs, ratio = aims.median_of(ours), aims.median_of(others), aims.ratio_of(ours, others)
    beside = f"{peer} {theirs.busy:.2f} s ({ratio.busy:.2f} of it); {mine.wall:.1f} s on the wall; n={rounds}"
    aims.row(name, mine.busy, f"{beside}, {aims.busy()}")


def main() -> None:
    """The rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    now = int(time.time())  # noqa: TID251 - ticks read the clock, too
    with tempfile.TemporaryDirectory(prefix="cronhpc-bench-") as folder:
        root = Path(folder) / "few"
        make(root, now, ENTRIES)
        parses = (sys.executable, "-c", PARSES, *map(str, (root / "state" / "history").iterdir()))
        for name, command in (("history --since 7d", ("--since", "7d")), ("page", ())):
            what = argv(name.partition(" ")[0], root, *command)
            measured(f"{name} of {LINES:,} rows", what, "json.loads of all rows", parses, rounds)
        root = Path(folder) / "many"
        make(root, now, MANY)
        scripts = sorted(map(str, (root / "cron.d").iterdir()))
        bare = (sys.executable, "-c", "pass")
        measured(f"next, {MANY:,} entries", argv("next", root), "bare python", bare, rounds)
        asks = ("bash", "-c", ASKS, "-", *scripts)
        measured(f"check, {MANY:,} entries", argv("check", root, "--offline"), "bash -n of each", asks, 1)
        measured(f"page, {MANY:,} entries", argv("page", root), "bare python", bare, 1)


if __name__ == "__main__":
    main()
