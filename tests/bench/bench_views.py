"""What looking costs: `status`, `history`, `page` with 100 entries and 100,000 lines of history, as whole commands."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess  # noqa: TID251 - whole commands are timed
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cronhpc.core.model import Key, slot_text
from cronhpc.store import history

ENTRIES, LINES, DAYS = 100, 100_000, 30
DAY = 86400
LIMITS = {"status": 0.4, "page": 2.0}  # seconds
LARGEST = 1 << 20  # bytes of a page
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


def make(root: Path, now: int) -> None:
    """A cron directory with the entries, their history, and a log for each failure of the last week."""
    run("init", root)
    for n in range(ENTRIES):
        script = root / "cron.d" / f"entry{n:02d}.slurm"
        script.write_text(f"#!/bin/bash\n#CRON {SCHEDULES[n % len(SCHEDULES)]}\ntrue\n", encoding="utf-8")
    split: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for index, each in enumerate(rows(now)):
        month = time.strftime("%Y-%m", time.gmtime(each["at"]))
        split.setdefault((month, HOSTS[index // 500 % len(HOSTS)]), []).append(each)
        if each["result"] == "failed" and each["slot"] > now - 7 * DAY:
            path = root / each["log"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("loading\n" * 30 + "<b>Traceback</b>: no such file\n", encoding="utf-8")
    for (_, host), some in split.items():
        history.append(root / "state" / "history", some, host=host, now=some[0]["at"])
    run("tick", root)


def run(command: str, root: Path, *more: str) -> str:
    """Run one command to its end; what it printed."""
    argv = [sys.executable, "-m", "cronhpc", command, "--dir", str(root), "--backend", "local", *more]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 1}:
        sys.exit(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def seconds(command: str, root: Path, *more: str) -> float:
    """Wall-clock seconds of the whole command, Python's start included."""
    start = time.perf_counter()
    run(command, root, *more)
    return time.perf_counter() - start


def say(line: str) -> None:
    """One line of the table."""
    sys.stdout.write(f"{line}\n")


def main() -> int:
    """Print the table; 1 if a command takes longer than it may, or the page is larger."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="make the cron directory there, and leave it")
    args = parser.parse_args()
    root = args.keep or Path(tempfile.mkdtemp(prefix="cronhpc-bench-")) / "cron"
    fine = True
    try:
        make(root, int(time.time()))  # noqa: TID251 - ticks read the clock, too
        say(f"{ENTRIES} entries, {LINES:,} lines of history of {len(HOSTS)} machines, median of {args.rounds}")
        for command, *more in (["status"], ["status", "entry07"], ["history"], ["history", "--since", "7d"], ["page"]):
            took = statistics.median(seconds(command, root, *more) for _ in range(args.rounds))
            limit = LIMITS.get(command)
            say(
                f"{' '.join([command, *more]):20} {took * 1000:6.0f} ms"
                + (f"   (at most {limit:g} s)" if limit else "")
            )
            fine = fine and (limit is None or took <= limit)
        page = json.loads(run("page", root, "--json"))["bytes"]
        say(f"page.html            {page / 1024:6.0f} kB   (at most {LARGEST >> 10} kB)")
    finally:
        if not args.keep:
            shutil.rmtree(root.parent)
    return 0 if fine and page < LARGEST else 1


if __name__ == "__main__":
    sys.exit(main())
