"""Random histories: ticks that die, stand still, see old lists and lose replies; edits, switches, stops, limits.

Each slot of the schedule in force runs at most once, and runs, or has a row that tells why not, or is claimed still.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cronhpc.batch.port import AtSubmitLimit, Refused, Submission, Unreachable
from cronhpc.core import model
from cronhpc.core.attempts import withdrawals
from cronhpc.core.model import Call, Entry, Job, Key, Plan, Queue, Switches, Way, World
from cronhpc.core.plan import plan
from cronhpc.core.slots import schedule_of
from cronhpc.engine.read import Reading, with_jobs
from cronhpc.engine.record import _Keeper
from cronhpc.engine.submit import Progress
from cronhpc.script.dialect import SLURM
from cronhpc.store import claims as store_claims
from cronhpc.store import history
from cronhpc.store import memory as store_memory
from cronhpc.store.claims import Claims
from cronhpc.store.files import Paths
from tests.engine.test_meanwhile import carried_out
from tests.worlds import ID, WithoutAccounting, at, chain, entry, switch, waits_for

BEGIN = at("00:00")
HOUR = 3600
SCHEDULES = ("0 * * * *", "*/30 * * * *", "0 */2 * * *", "20 * * * *", "*/20 * * * *", "0,10 * * * *")
CHAIN_KINDS = (model.SubmitLink, model.MoveLink, model.KeepLink, model.CancelLink, model.LeaveChain)
STEPS = ("create_once", "move", "remove", "replace_file")


class Killed(BaseException):
    """A tick dies here."""


class Cluster(WithoutAccounting):
    """A batch system in memory, with the clock of its history."""

    dialect = SLURM

    def __init__(self, story: Story) -> None:
        self.story, self.random = story, story.random
        self.jobs: dict[str, Job] = {}
        self.begin: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.keys: dict[str, str] = {}
        self.limit = 10_000
        self.old: list[tuple[int, tuple[Job, ...]]] = []

    def advance(self, now: int) -> None:
        for job_id, job in self.jobs.items():
            begins = self.begin[job_id]
            if job.state == "PENDING" and not job.held and begins <= now:
                self.jobs[job_id] = replace(job, state="RUNNING", start=begins, nodes="cpu1", **waits_for("None"))
                self.last[job_id] = begins + self.random.choice((5, 60, 1500))
        for job_id, job in self.jobs.items():
            if job.state == "RUNNING" and self.last[job_id] <= now:
                self.jobs[job_id] = replace(job, state="COMPLETED", ended=self.last[job_id])
        self.old = [each for each in self.old if each[0] > now - 60] + [(now, self._shown(now))]

    def _shown(self, now: int) -> tuple[Job, ...]:
        return tuple(job for job in self.jobs.values() if job.live or (job.ended or 0) > now - 300)

    def queue(self) -> Queue:
        self.story.step("squeue")
        self.advance(self.story.now)
        if self.story.stale and self.random.random() < 0.5:
            return Queue(self.old[0][1])
        return Queue(self._shown(self.story.now))

    def submit(self, job: Submission) -> str:
        self.story.step("sbatch")
        self.advance(self.story.now)
        lot = self.random.random() if self.story.faults else 1.0
        if lot < 0.03:
            raise Unreachable("no answer")
        if lot < 0.05:
            raise Refused("no such partition")
        if sum(each.live for each in self.jobs.values()) >= self.limit:
            raise AtSubmitLimit("QOSMaxSubmitJobPerUserLimit")
        job_id = str(len(self.jobs) + 1)
        self.begin[job_id] = job.begin or 0
        self.keys[job_id] = job.comment.partition("/")[2]
        words = {"comment": job.comment, "submitted": self.story.now, "name": "e", **waits_for("JobHeldUser")}
        self.jobs[job_id] = Job(job_id, "PENDING", **words)
        self.story.step("sbatch answers")
        if lot < 0.1:
            raise Unreachable("the reply was lost")
        return job_id

    def release(self, job_ids: Sequence[str]) -> None:
        self.story.step("scontrol")
        for job_id in job_ids:
            if self.jobs[job_id].state == "PENDING" and self.jobs[job_id].held:
                self.jobs[job_id] = replace(self.jobs[job_id], **waits_for("BeginTime"))
                self.begin[job_id] = max(self.begin[job_id], self.story.now)
        self.advance(self.story.now)
        self.story.step("scontrol answers")
        if self.story.faults and self.random.random() < 0.05:
            raise Unreachable("the reply was lost")

    def cancel(self, job_ids: Sequence[str], *, pending_only: bool = False) -> None:
        self.story.step("scancel")
        self.advance(self.story.now)
        for job_id in job_ids:
            job = self.jobs[job_id]
            if job.state == "PENDING" or (job.state == "RUNNING" and not pending_only):
                self.jobs[job_id] = replace(job, state="CANCELLED", ended=self.story.now)
        self.story.step("scancel answers")
        if self.story.faults and self.random.random() < 0.05:
            raise Unreachable("the reply was lost")

    def hold(self, job_ids: Sequence[str], comment: str) -> None:
        self.story.step("hold")
        for job_id in job_ids:
            self.jobs[job_id] = replace(self.jobs[job_id], comment=comment, **waits_for("JobHeldUser"))

    def unhold(self, job_ids: Sequence[str], comment: str) -> None:
        self.story.step("unhold")
        for job_id in job_ids:
            self.jobs[job_id] = replace(self.jobs[job_id], comment=comment, **waits_for("BeginTime"))


class Story:
    """One history of one entry, from its seed alone."""

    def __init__(self, seed: int, root: Path, *, by_login: bool) -> None:
        self.random, self.by_login = random.Random(seed), by_login  # noqa: S311 - no secret
        self.paths = Paths(root)
        self.paths.claims.mkdir(parents=True)
        self.now = BEGIN
        self.cluster = Cluster(self)
        policies = {"catch_up": self.random.choice(("latest", "all")), "overlap": self.random.choice(("skip", "allow"))}
        self.entry = self._entry(self.random.choice(SCHEDULES), policies)
        self.versions: list[tuple[int, Entry | None]] = [(BEGIN, self.entry)]
        self.gone = False
        self.switches: tuple[Any, ...] = ()
        self.started = True
        self.faults = self.stale = True
        self.clean: list[int] = []  # ticks that came through
        self.depth, self.countdown, self.strike = 0, 0, "nothing"
        self.log: list[str] = []
        self.settings = replace(model.Settings(), ahead=6 * HOUR, parallel=1)
        changes = SimpleNamespace(
            looked_at=lambda _: self.now - HOUR, note=lambda *_: None, drops_hold="", drops_begin=""
        )
        self.site: Any = SimpleNamespace(
            paths=self.paths, batch=self.cluster, host="login1", settings=self.settings, changes=changes, uid=1000
        )

    def _entry(self, schedule: str, policies: dict[str, str]) -> Entry:
        made = entry("e", schedule, output=False, error=False, **policies)
        return replace(made, born=self.now)

    # --- one tick

    def step(self, what: str) -> None:
        """Where a tick may die, or another come in between."""
        if self.strike == "nothing":
            return
        self.countdown -= 1
        if self.countdown == 0:
            how, self.strike = self.strike, "nothing"
            self.log.append(f"  {self.now - BEGIN}: {how} at {what}")
            if how == "kill":
                raise Killed
            if how == "pass":
                self.now += self.random.choice((1, 20, 90))
            if how == "beside" and self.depth < 3:
                before, self.now = self.now, self.now + self.random.choice((0, 2, 40))
                self.tick()
                self.now = max(self.now, before)

    def world(self) -> tuple[World, Any]:
        memory = store_memory.load(self.paths.entries)
        skew = self.random.choice((0, 0, 0, -20, 20)) if self.faults else 0
        fresh = 0 <= self.now - self.entry.born < 3 and self.entry.born > BEGIN
        made = World(
            self.now + skew,
            ID,
            self.settings,
            () if self.gone else (replace(self.entry, fresh=fresh),),
            states=memory.entries,
            kept=memory.scheduler,
            switches=Switches(self.switches),
            chain=chain(via=Way.LOGIN) if self.by_login else chain(),
            call=Call(),
        )
        made, _ = with_jobs(self.site.paths, self.site.batch, made)
        made = replace(made, job_ends=None if made.queue is None else {})
        return made, memory

    def tick(self, *, to_stop: bool = False) -> None:
        self.depth += 1
        looked_at = self.now
        try:
            seen, memory = self.world()
            made = Plan(tuple(withdrawals(seen)), self.now) if to_stop else plan(seen)
            made = replace(made, decisions=tuple(d for d in made.decisions if not isinstance(d, CHAIN_KINDS)))
            outcomes = carried_out(StoryProgress(self, seen, seen.now - looked_at), made)
            said = [f"{type(o.decision).__name__} {o.done.name} {o.detail}" for o in outcomes if o.done.name != "OK"]
            what = [repr_of(d) for d in made.decisions]
            self.log.append(f"{self.now - BEGIN} (saw {seen.now - BEGIN}): {what} {said}")
            if to_stop:
                return
            keeper = _Keeper(self.site, Reading(seen, memory, ()), made, outcomes)
            for write in (keeper.write_history, keeper.write_memory, keeper.forget_claims):
                self.step(write.__name__)
                write()
            self.clean.append(looked_at)
            self.wake = made.wake
        except Killed:
            if self.depth > 1:
                return
            raise
        finally:
            self.depth -= 1

    # --- the story

    def live_through(self, hours: int) -> None:
        end = BEGIN + hours * HOUR
        self.wake = self.now
        while self.now < end:
            self.random_event()
            lot = self.random.random()
            self.strike = "kill" if lot < 0.25 else "beside" if lot < 0.45 else "pass" if lot < 0.5 else "nothing"
            self.countdown = self.random.choice((self.random.randint(1, 12), self.random.randint(1, 60)))
            if self.started:
                try:
                    self.tick()
                except Killed:
                    self.log.append("  killed")
            self.strike = "nothing"
            if self.by_login:
                self.now += self.random.choice((60, 600, 2 * HOUR, 5 * HOUR))
            else:
                self.now = max(self.now + 60, min(self.wake, self.now + HOUR))
            self.cluster.advance(self.now)
        self.faults = self.stale = False
        self.cluster.limit = 10_000
        self.switches = ()
        self.started = True
        if self.gone:
            self.come_or_go()
        for _ in range(8):
            self.now += 200
            self.tick()

    def random_event(self) -> None:
        lot = self.random.random()
        if lot < 0.12:
            schedule = self.random.choice((*SCHEDULES, self.entry.schedule))
            self.entry = self._entry(schedule, {"catch_up": self.entry.policies.catch_up, "overlap": "allow"})
            self.versions.append((self.now, None if self.gone else self.entry))
            self.log.append(f"{self.now - BEGIN}: edit {schedule}")
            self.now += self.random.choice((1, 10))
        elif lot < 0.2:
            self.switches = () if self.switches else (switch("e", self.random.choice(("kill", "pause"))),)
            self.log.append(f"{self.now - BEGIN}: switch {len(self.switches)}")
        elif lot < 0.26:
            self.cluster.limit = self.random.choice((1, 3, 10_000))
            self.log.append(f"{self.now - BEGIN}: limit {self.cluster.limit}")
        elif lot < 0.3:
            if self.started:
                try:
                    self.tick(to_stop=True)
                except Killed:
                    return
            self.started = not self.started
            self.log.append(f"{self.now - BEGIN}: started {self.started}")
        elif lot < 0.33:
            self.come_or_go()
        elif lot < 0.36:
            self.log.append(f"{self.now - BEGIN}: their owner starts what waits for its time")
            for job_id in self.cluster.begin:
                self.cluster.begin[job_id] = min(self.now, self.cluster.begin[job_id])
            self.now += 70
            self.cluster.advance(self.now)

    def come_or_go(self) -> None:
        """The entry's file is put away, or comes back."""
        self.gone = not self.gone
        self.entry = replace(self.entry, born=self.now)
        self.versions.append((self.now, None if self.gone else self.entry))
        self.log.append(f"{self.now - BEGIN}: gone {self.gone}")

    # --- what must hold

    def wrong(self) -> list[str]:
        began: dict[str, int] = {}
        for job_id, job in self.cluster.jobs.items():
            if job.start is not None:
                text = self.cluster.keys[job_id].partition(" ")[0]
                began[text] = began.get(text, 0) + 1
        wrong = [f"{key} ran {number} times" for key, number in began.items() if number > 1]
        dealt = {key.slot for text in began if (key := Key.of(text))}
        skips: list[tuple[int, int]] = []
        for row in history.rows(self.paths.history) if self.paths.history.exists() else ():
            if row["what"] == "run":
                dealt.add(row["slot"])
            elif row["what"] == "slot":
                skips.append((row["slot"], row["count"]))
        dealt |= {claim.key.slot for claim in Claims(self.paths.claims).read(())}
        missing = [slot for slot in self.expected() if slot not in dealt]
        for slot, count in sorted(skips):
            for each in [slot_ for slot_ in reversed(missing) if slot_ <= slot][:count]:
                missing.remove(each)
        return wrong + [f"{slot - BEGIN} has no record" for slot in missing]

    def expected(self) -> list[int]:
        """Of each version that a tick has seen the slots that came; before its file was put away, those looked at."""
        found = []
        for (since, version), (until, next_one) in pairwise([*self.versions, (self.clean[-1], self.entry)]):
            ticks = [tick for tick in self.clean if since < tick < until]
            if version is None or not ticks:
                continue
            schedule = schedule_of(version)
            slot = schedule.next_epoch(since)
            while slot < until - 120:
                after = schedule.next_epoch(slot)
                if next_one is not None or (after < until - 120 and slot + 30 < ticks[-1]):
                    found.append(slot)
                slot = after
        return found


def repr_of(d: Any) -> str:
    when = getattr(d, "key", None)
    slot = when.slot if when is not None else getattr(d, "slot", None)
    more = getattr(d, "job_id", "") or getattr(d, "count", "")
    reason = getattr(d, "reason", "")
    return f"{type(d).__name__} {'' if slot is None else slot - BEGIN} {more} {reason}"


class StoryProgress(Progress):
    """Its clock is the history's."""

    def __init__(self, story: Story, seen: World, offset: int) -> None:
        super().__init__(story.site, seen)
        self.story, self.offset = story, offset

    @property
    def clock(self) -> int:
        return self.story.now + self.offset

    @property
    def ended_by(self) -> str:
        return self.unreachable or self.at_submit_limit or ("" if self.story.started else "stopped")


@pytest.fixture
def stories(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Story]:
    telling: list[Story] = []

    def stepping(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **more: Any) -> Any:
            telling[-1].step(f"{name} {args[0].name}")
            return function(*args, **more)

        return stepped

    for name in STEPS:
        monkeypatch.setattr(store_claims, name, stepping(name, getattr(store_claims, name)))
    monkeypatch.setattr(store_claims, "sync_folder", lambda _: None)
    monkeypatch.setattr(
        "cronhpc.engine.submit.with_switches", lambda _, world: replace(world, switches=Switches(telling[-1].switches))
    )

    def tell(seed: int, *, by_login: bool, hours: int = 12) -> Story:
        story = Story(seed, tmp_path / f"{by_login}{seed}", by_login=by_login)
        telling.append(story)
        story.live_through(hours)
        return story

    return tell


@pytest.mark.parametrize("by_login", [False, True], ids=["by the chain", "from a login node"])
@pytest.mark.parametrize(
    "seeds", [range(1), pytest.param(range(1, 41), marks=pytest.mark.thorough)], ids=["one", "many"]
)
def test_whatever_happens_a_slot_runs_at_most_once_and_none_is_lost(
    stories: Callable[..., Story],
    seeds: range,
    by_login: bool,  # noqa: FBT001 - a table's column
) -> None:
    for seed in seeds:
        story = stories(seed, by_login=by_login)
        assert story.wrong() == [], "\n".join([*story.log, f"seed {seed}"])
