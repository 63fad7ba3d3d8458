"""Cron directories for the lab's proofs: made in a moment, driven at any instant, and looked through at the end."""

from __future__ import annotations

import datetime as dt
import getpass
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cronhpc.core.model import ClaimState, HistoryRow, JobEnd, Key, Result, Started, Way
from cronhpc.engine import init
from cronhpc.engine.link import write_link
from cronhpc.engine.site import open_site
from cronhpc.store import history, scheduler
from cronhpc.store.claims import Claims
from tests.lab.conftest import Lab
from tests.lab.helpers_team import LIBRARIES, PYTHON
from tests.worlds import write_end

DRIVE = Path(__file__).with_name("helpers_drive.py")
DAY = 86400
OK = frozenset({"ok"})
SCRIPT = """#!/bin/bash
#SBATCH --time=1
#CRON {minute} {hour} * * * {policies}
printf '%s %s\\n' "$CRONHPC_SLOT" "$SLURM_JOB_ID" >>"$CRONHPC_DIR/ran/$CRONHPC_ENTRY"
{more}
"""


@dataclass
class Cron:
    """A cron directory whose entries have one slot, at `slot` (epoch seconds, about two hours ahead)."""

    lab: Lab
    root: Path
    slot: int
    user: str | None = None
    strike_at: int = 10  # seconds after the slot: when the tick comes that a fault strikes

    @property
    def id(self) -> str:
        """The word that marks its jobs."""
        return (self.root / "scheduler" / "id").read_text(encoding="ascii").strip()

    def argv(self, what: str, now: int, *more: str) -> list[str]:
        """The command that drives one pass at `now`."""
        words = [str(DRIVE), what, str(self.root), str(now), *more]
        if self.user in {None, getpass.getuser()}:
            return [sys.executable, *words]
        return ["env", f"PYTHONPATH={LIBRARIES}", PYTHON, *words]

    def drive(self, what: str, now: int, *more: str, check: bool = True, **options: object) -> str:
        """Run one pass at `now`; what it printed."""
        done = self.lab.run(self.argv(what, now, *more), self.user, check=False, **options)  # type: ignore[arg-type]  # passed through
        if check and done.returncode not in {0, 3}:
            pytest.fail(f"{what} at {now} in {self.root}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def tick(self, after: int = 10, *more: str, **options: object) -> str:
        """A tick, `after` seconds after the slot."""
        return self.drive("tick", self.slot + after, *more, **options)  # type: ignore[arg-type]  # passed through

    def jobs(self) -> list[dict[str, str]]:
        """Its jobs in the queue that have not ended: links, spares, runs."""
        return self.jobs_in(self.lab.squeue())

    def jobs_in(self, queue: list[dict[str, str]]) -> list[dict[str, str]]:
        """Those of `queue` that are its: a run whose script has a comment of its own has lost its token."""
        mark, known = f"cronhpc={self.id}/", self.recorded()
        return [job for job in queue if job["comment"].startswith(mark) or job["id"].partition("_")[0] in known]

    def recorded(self) -> set[str]:
        """The job ids of claims that are not finished."""
        claims = Claims(self.root / "state" / "claims")
        try:
            return {claim.job_id for claim in claims.read(()) if claim.job_id and claim.job_end is None}
        except OSError:  # a tick at work has just taken one further
            return self.recorded()

    def links(self, kind: str = "link") -> list[dict[str, str]]:
        """Its pending links, or spares."""
        mark = f"cronhpc={self.id}/{kind} "
        return [job for job in self.jobs() if job["comment"].startswith(mark) and job["state"] == "PENDING"]

    def runs(self) -> list[dict[str, str]]:
        """Its entries' jobs that have not ended."""
        return [job for job in self.jobs() if not job["comment"].partition("/")[2].startswith(("link ", "spare "))]

    def wait_quiet(self) -> None:
        """Until no run of its entries waits or runs."""
        self.lab.wait_for(lambda: not self.runs(), every=0.2)

    def ran(self) -> dict[str, list[str]]:
        """Entry to the slots its jobs wrote down, one a run."""
        folder = self.root / "ran"
        return {p.name: [line.split()[0] for line in p.read_text().splitlines()] for p in sorted(folder.iterdir())}

    def rows(self) -> list[HistoryRow]:
        """What history tells."""
        return list(history.rows(self.root / "state" / "history"))

    def claim_files(self) -> list[str]:
        """The names in state/claims."""
        return sorted(path.name for path in (self.root / "state" / "claims").iterdir())


def make(
    lab: Lab,
    root: Path,
    *,
    names: Iterable[str] = "abc",
    slot: int | None = None,
    settings: str = "",
    policies: str = "",
    more: str = "",
    started: bool = True,
    user: str | None = None,
    directives: str = "",
) -> Cron:
    """A cron directory with one script for each of `names`; `started`: its chain is wanted, and no link is there."""
    slot = slot or (int(time.time()) // 60 + 120) * 60
    init.init(root, {})
    (root / "cronhpc.yaml").write_text(f"timezone: UTC\n{settings}", encoding="utf-8")
    (root / "ran").mkdir()
    at = dt.datetime.fromtimestamp(slot, dt.UTC)
    for name in names:
        path = root / "cron.d" / f"{name}.slurm"
        text = SCRIPT.format(minute=at.minute, hour=at.hour, policies=policies, more=more)
        path.write_text(text.replace("#CRON", f"{directives}\n#CRON" if directives else "#CRON", 1), encoding="utf-8")
        path.chmod(0o755)
    if started:
        mark_started(lab, root)
    if user is not None:
        for path in (root, *root.rglob("*")):
            shutil.chown(path, user, user)
    return Cron(lab, root, slot, user)


def mark_started(lab: Lab, root: Path) -> None:
    """What `start` leaves on the disk, without its jobs."""
    site = open_site(str(root), None, lab.env)
    fingerprint, _ = write_link(site, generation=1)
    how = Started(via=Way.CHAIN, fingerprint=fingerprint, at=int(time.time()), by=site.user)
    scheduler.mark_started(site.paths, how)


def give_a_past(cron: Cron) -> None:
    """Yesterday's runs of a (released, gone from the queue) and of b (finished), which the tick has to finish."""
    claims = Claims(cron.root / "state" / "claims")
    day = cron.slot - DAY
    first, second = Key("a", day), Key("b", day)
    for key in (first, second):
        claims.make(key, key.entry, "yesterday", day)
    claims.record(first, "4000000", day)
    claims.step(first, ClaimState.RELEASING)
    claims.step(first, ClaimState.RELEASED)
    write_end(claims, second, "b", JobEnd(Result.OK, 0), "4000001", now=day)


@dataclass(frozen=True)
class Expected:
    """What must have happened: how often each entry's script ran, how it ended, how many rows history has of it."""

    runs: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys("abc", 1))
    results: frozenset[str] = OK
    rows: int = 1


def judge(cron: Cron, queue: list[dict[str, str]], expected: Expected | None = None) -> list[str]:
    """What is wrong with a directory after its faults and its clean ticks; [] if nothing is.

    Every slot has run exactly once, and history says so; one successor, one spare; no held job of ours, no claim but
    the newest finished, nothing else left in state/.
    """
    return [*_judge_runs(cron, expected or Expected()), *_judge_queue(cron, queue), *_judge_state(cron)]


def judge_after(cron: Cron) -> list[str]:
    """The same without the runs: those the caller counts."""
    return [*_judge_queue(cron, cron.lab.squeue()), *_judge_state(cron)]


def _judge_runs(cron: Cron, expected: Expected) -> Iterable[str]:
    ran = {name: len(slots) for name, slots in cron.ran().items()}
    if ran != dict(expected.runs):
        yield f"runs: {ran}"
    told = [row for row in cron.rows() if row["slot"] == cron.slot and row.get("what") == "run"]
    told = [row for row in told if row["result"] != "lost"]
    found = Counter(str(row["entry"]) for row in told if row["result"] in expected.results)
    if found != dict.fromkeys(expected.runs, 1) or len(told) != len(expected.runs) * expected.rows:
        yield f"history: {[(row['entry'], row['attempt'], row['result'], row.get('detail')) for row in told]}"


def _judge_queue(cron: Cron, queue: list[dict[str, str]]) -> Iterable[str]:
    mark = f"cronhpc={cron.id}/"
    found = sorted(
        " ".join([job["comment"].removeprefix(mark).split(" ")[0], job["state"]]) for job in cron.jobs_in(queue)
    )
    if found != ["link PENDING", "spare PENDING"]:
        yield f"the queue holds {found}"


def _judge_state(cron: Cron) -> Iterable[str]:
    names = cron.claim_files()
    entries = Counter(name.partition("@")[0] for name in names)
    if any(name.count(".") != 1 for name in names) or any(count > 1 for count in entries.values()):
        yield f"claims: {names}"
    left = [path.name for path in cron.root.rglob("*.tmp")]
    if left or (cron.root / "state" / "lease").exists():
        yield f"left behind: {left or 'the lease'}"


def finish(cron: Cron, offsets: Iterable[int] = (200, 320)) -> None:
    """Clean ticks, each after the runs of the one before have ended."""
    for after in offsets:
        cron.wait_quiet()
        cron.tick(after)
