"""Runs ahead of their time under a limit of jobs: `start --via login`, where only a login node submits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from cronhpc.core.attempts import withdrawals
from cronhpc.core.identity import job_limit, queued
from cronhpc.core.model import (
    Claim,
    ClaimState,
    Decision,
    Done,
    Entry,
    EntryState,
    Finish,
    Job,
    Key,
    Obstacle,
    Outcome,
    Queue,
    Reason,
    Result,
    SchedulerState,
    Skip,
    Submit,
    Wait,
    Way,
    Withdraw,
    World,
    entry_id,
)
from cronhpc.core.plan import plan
from cronhpc.core.slots import schedule_of, text_key
from cronhpc.script.dialect import GRID_ENGINE
from tests.worlds import at, chain, claim, entry, job, planned, state, world

HOUR = 3600
DAY = 24 * HOUR
BY_LOGIN = chain(via=Way.LOGIN)
HORIZON = 12 * HOUR


@dataclass
class Site:
    """A site that takes `limit` jobs at a time; ticks plan and are carried out on it, as act does."""

    entries: tuple[Entry, ...]
    limit: int
    now: int
    lasts: int = 600  # seconds that a run takes
    others: int = 0  # further jobs of the user
    claims: dict[Key, Claim] = field(default_factory=dict)
    states: dict[str, EntryState] = field(default_factory=dict)
    known: int = 0
    born: dict[str, int] = field(default_factory=dict)  # entry -> since when it counts
    begun: dict[Key, int] = field(default_factory=dict)  # key -> when
    skipped: dict[str, int] = field(default_factory=dict)  # entry -> slots
    number: int = 0
    missed: int = 0  # slots that were claimed, and got no job
    decided: tuple[Decision, ...] = ()

    def __post_init__(self) -> None:
        self.born = {each.name: self.now for each in self.entries}
        self.states = {name: EntryState(watermark=born) for name, born in self.born.items()}

    def pass_until(self, now: int) -> None:
        for key, taken in self.claims.items():
            if taken.job_id and max(key.slot, taken.at) <= now:
                self.begun.setdefault(key, max(key.slot, taken.at))
        self.now = now

    def live(self) -> int:
        return sum(job.live for job in self.jobs())

    def state_of(self, key: Key) -> str:
        if key not in self.begun:
            return "PENDING"
        return "RUNNING" if self.begun[key] + self.lasts > self.now else "COMPLETED"

    def jobs(self) -> tuple[Job, ...]:
        mine = [
            Job(taken.job_id, self.state_of(key), submitted=taken.at)
            for key, taken in self.claims.items()
            if taken.job_id
        ]
        return (*mine, *(Job(str(100_000 + n), "RUNNING") for n in range(self.others)))

    def ahead(self) -> list[int]:
        return sorted(key.slot for key, taken in self.claims.items() if key.slot > self.now and taken.job_id)

    def tick(self) -> tuple[Outcome, ...]:
        seen = world(
            "00:00",
            *self.entries,
            jobs=self.jobs(),
            claims=tuple(self.claims.values()),
            states=self.states,
            chain=BY_LOGIN,
            settings={"ahead": HORIZON},
        )
        kept = SchedulerState(last_tick=self.now - HOUR, job_limit=self.known)
        seen = replace(seen, now=self.now, kept=kept)
        self.decided = plan(seen).decisions
        outcomes = [self.done(each) for each in self.decided if isinstance(each, Withdraw)]
        full = False
        for each in self.decided:
            if isinstance(each, Submit):
                full = full or self.live() >= self.limit
                self.claims.setdefault(each.key, self.claimed(each))
                outcomes.append(
                    Outcome(each, Done.REFUSED, obstacle=Obstacle.SUBMIT_LIMIT) if full else self.done(each)
                )
            elif isinstance(each, Finish):
                del self.claims[each.key]
                self.uses_up(each.name, each.key.slot)
                self.missed += each.job_end.result is Result.MISSED
            elif isinstance(each, Skip):
                self.uses_up(each.entry.name, each.slot)
                self.skipped[each.entry.name] = self.skipped.get(each.entry.name, 0) + each.count
        self.known = job_limit(seen, outcomes)
        return tuple(outcomes)

    def uses_up(self, name: str, slot: int) -> None:
        state = self.states[name]
        self.states[name] = replace(state, watermark=max(state.watermark, slot))

    def claimed(self, each: Submit) -> Claim:
        holds = text_key(each.entry) if each.reason is Reason.AHEAD else ""
        return Claim(each.key, ClaimState.CLAIMED, each.entry.name, at=self.now, holds=holds)

    def done(self, each: Withdraw | Submit) -> Outcome:
        if isinstance(each, Withdraw):
            assert self.claims[each.key].job_id == each.job_id
            assert each.key not in self.begun, "taken back, and it has begun"
            self.claims[each.key] = replace(self.claims[each.key], state=ClaimState.CLAIMED, job_id=None)
            return Outcome(each, Done.OK)
        assert not self.claims[each.key].job_id, "submitted twice"
        assert each.key not in self.begun, "run twice"
        self.number += 1
        taken = replace(self.claims[each.key], state=ClaimState.RELEASED, job_id=str(self.number), at=self.now)
        self.claims[each.key] = taken
        self.pass_until(self.now)
        return Outcome(each, Done.OK, job_id=taken.job_id)


def slots(e: Entry, after: int, until: int) -> list[int]:
    found, schedule = [], schedule_of(e)
    slot = schedule.next_epoch(after)
    while slot <= until:
        found.append(slot)
        slot = schedule.next_epoch(slot)
    return found


SCHEDULES = ("0 * * * *", "*/30 * * * *", "17 */2 * * *", "*/10 * * * *", "5 3 * * *", "*/7 * * * *")


@pytest.mark.parametrize("seed", range(25))
def test_of_few_places_the_earliest_slots_of_all_entries_have_them(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - situations
    begin = at("06:00:10")
    many = [
        entry(f"e{n}", random.choice(SCHEDULES), overlap=random.choice(["allow", "skip"]))
        for n in range(random.randint(1, 6))
    ]
    site = Site(tuple(many), random.randint(1, 25), begin, lasts=random.choice([60, 600, 5000]))
    for _ in range(20):
        known_before = site.known
        refused = [d for each in site.tick() if each.obstacle and isinstance(d := each.decision, Submit)]
        there, ahead = site.live(), site.ahead()
        assert there <= site.limit == (site.known or site.limit)
        wanted = sorted(s for e in site.entries for s in slots(e, site.now, site.now + HORIZON - 1))
        if known_before:
            waits = [each.entry.name for each in site.decided if isinstance(each, Wait)]
            assert len(waits) == len(set(waits)), "a line an entry"
            assert sum(each.begin is not None for each in refused) <= 1, "no more than fit"
            assert not (ahead and any(each.begin is None for each in refused)), "what is due goes first"
            assert ahead == wanted[: len(ahead)], "the earliest first"
        if len(ahead) < len(wanted):
            assert there == site.limit, "no place is left free"
        if random.random() < 0.3:
            new = entry(f"n{len(site.entries)}", random.choice(SCHEDULES), overlap="allow")
            site.entries = (*site.entries, new)
            site.states[new.name], site.born[new.name] = EntryState(watermark=site.now), site.now
        site.pass_until(site.now + random.choice([60, 600, HOUR, 2 * HOUR]))
    slots_past = dealt_with = 0
    for e in site.entries:
        ran = [key.slot for key in site.begun if key.entry == entry_id(e.name)]
        past = slots(e, site.born[e.name], max([site.states[e.name].watermark, *ran]))
        dealt_with += len(ran) + site.skipped.get(e.name, 0)
        slots_past += len(past)
    assert slots_past == dealt_with + site.missed, "each slot runs once, or is recorded"


def few(now: str = "08:00:10", **more: Any) -> World:
    """Of five places four are left to the runs of two entries: 08:30 to 10:00 wait."""
    two = (entry("a", "0 * * * *"), entry("b", "30 * * * *"))
    clocks = {"1": ("b", "08:30"), "2": ("a", "09:00"), "3": ("b", "09:30"), "4": ("a", "10:00")}
    texts = {each.name: text_key(each) for each in two}
    waiting = tuple(
        replace(claim(name, clock, ClaimState.RELEASED, job_id), at=at("07:30"), holds=texts[name])
        for job_id, (name, clock) in clocks.items()
    )
    jobs = (job(100), *(job(int(claim.job_id or ""), "PENDING", of=claim.key) for claim in waiting))
    used = {"a": state("08:00"), "b": state("07:30")}
    given = {"jobs": jobs, "claims": waiting, "states": used, "chain": BY_LOGIN, "job_limit": 5, **more}
    return world(now, *given.pop("entries", two), **given)


@pytest.mark.parametrize(("known", "limit"), [(0, 7), (5, 7)])
def test_a_submission_without_an_answer_counts_where_the_limit_is_met(known: int, limit: int) -> None:
    """Else the limit was taken for lower by each lost reply, and so many places stayed free."""
    seen = few(job_limit=known)
    [row] = [each for each in plan(few(only="a", job_limit=0)).decisions if isinstance(each, Submit)]
    done = Outcome(row, Done.OK, job_id="9")
    lost = Outcome(row, Done.PASSING, obstacle=Obstacle.NO_ANSWER)
    assert job_limit(seen, (done, lost, Outcome(row, Done.REFUSED, obstacle=Obstacle.SUBMIT_LIMIT))) == limit


HELD_BACK = {
    "nothing was refused: what is known stays so": ([Done.OK], 6, 6),
    "one more fits than was known: a few more are tried at the next tick, and not the whole day": (
        [Done.OK] * 2,
        6,
        14,
    ),
    "none is known": ([Done.OK], 0, 0),
    "one more fits, and the next one is refused": ([Done.OK, Done.OK, Done.REFUSED], 6, 7),
}


@pytest.mark.parametrize(("ends", "known", "then"), HELD_BACK.values(), ids=HELD_BACK)
def test_a_limit_that_is_known_is_not_forgotten(ends: list[Done], known: int, then: int) -> None:
    [row] = [each for each in plan(few(only="a", job_limit=0)).decisions if isinstance(each, Submit)]
    met = {Done.REFUSED: Obstacle.SUBMIT_LIMIT}
    outcomes = [Outcome(row, end, job_id="9" if end is Done.OK else None, obstacle=met.get(end)) for end in ends]
    assert job_limit(few(job_limit=known), outcomes) == then


def test_where_more_jobs_are_there_than_the_limit_that_is_known_one_more_is_tried() -> None:
    """The whole day was, each few ticks: claimed, and one refused."""
    many = tuple(entry(name, "30 20 * * *") for name in "cdefgh")
    used = {name: state("08:00") for name in "abcdefgh"}
    seen = few(job_limit=4, entries=(entry("a", "0 * * * *"), entry("b", "30 * * * *"), *many), states=used)
    tried = [d for d in plan(seen).decisions if isinstance(d, Submit) and d.begin]
    assert len(tried) == 1


def test_an_arrays_tasks_count_as_a_site_counts_them() -> None:
    seen = few(jobs=(job(100), job(9, tasks="3"), job(9, "PENDING", tasks="[5-9%2]")), claims=())
    assert queued(seen) == 7
    assert queued(replace(seen, dialect=GRID_ENGINE)) == 3
    array = entry("a", "0 * * * *", array="1-4")
    hidden = claim("a", "09:00", ClaimState.RELEASED, "55")
    assert queued(few(entries=(array,), claims=(replace(hidden, at=at("08:00")),), jobs=(job(100),))) == 5
    assert planned(few(entries=(array,), claims=(), jobs=(job(100), job(101)))) == [
        "ahead 09:00 begin 09:00",
        "wait 10:00 not due",
    ], "the earliest is tried though it does not fit: the limit may have been raised"
    row = next(d for d in plan(few(entries=(array,), job_limit=0)).decisions if isinstance(d, Submit))
    assert job_limit(few(entries=(array,), job_limit=5), [Outcome(row, Done.OK, job_id="9")]) == 18


def test_a_run_by_hand_has_the_place_of_the_latest_run_ahead() -> None:
    assert planned(few(only="a")) == ["withdraw 4", "submit 08:00"]
    assert planned(few(only="a", job_limit=6)) == ["submit 08:00"]
    assert planned(few(only="a", job_limit=0)) == ["submit 08:00"], "no limit is known"


def test_what_has_begun_or_is_taken_back_already_gives_no_place() -> None:
    begun = few(only="a")
    late = [replace(each, state="RUNNING") if each.id == "4" else each for each in begun.listed]
    assert planned(replace(begun, queue=Queue(tuple(late)))) == ["withdraw 3", "submit 08:00"]


def test_what_is_in_no_list_any_more_may_have_begun_and_is_not_taken_back() -> None:
    """Its owner had started it hours before its slot: that ran twice, for another's place or after a stop."""
    shown = few(only="a", job_limit=4)
    gone = replace(shown, queue=Queue(tuple(each for each in shown.listed if each.id != "4")))
    assert planned(gone) == ["submit 08:00"]
    assert [[each.job_id for each in withdrawals(seen)] for seen in (shown, gone)] == [
        ["1", "2", "3", "4"],
        ["1", "2", "3"],
    ]


def test_a_new_entry_has_the_places_of_its_early_slots() -> None:
    both = (entry("a", "0 * * * *"), entry("b", "30 * * * *"), entry("c", "15 9 * * *", born="2026-11-27 08:00"))
    assert planned(few(entries=both)) == [
        "withdraw 4",
        "ahead 09:15 begin 09:15",
        "wait 10:00 not due",
        "wait 10:30 not due",
    ]
