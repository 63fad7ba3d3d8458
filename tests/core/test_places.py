"""Runs ahead of their time under a limit of jobs: `start --via login`, where only a login node submits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest

from cronhpc.core.identity import job_limit
from cronhpc.core.model import (
    Claim,
    ClaimState,
    Decision,
    Done,
    Entry,
    EntryState,
    Job,
    Key,
    Obstacle,
    Outcome,
    Reason,
    SchedulerState,
    Skip,
    Submit,
    Wait,
    Withdraw,
    entry_id,
)
from cronhpc.core.plan import plan
from cronhpc.core.slots import schedule_of, text_key
from tests.worlds import at, chain, entry, world

HOUR = 3600
DAY = 24 * HOUR
BY_LOGIN = chain(via="login", link_name="")
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
    decided: tuple[Decision, ...] = ()

    def __post_init__(self) -> None:
        self.born = {each.name: self.now for each in self.entries}
        self.states = {name: EntryState(watermark=born) for name, born in self.born.items()}

    def pass_until(self, now: int) -> None:
        for key, claim in list(self.claims.items()):
            begins = max(key.slot, claim.at)
            if begins <= now and key not in self.begun:
                self.begun[key] = begins
            if begins + self.lasts <= now:
                del self.claims[key]
                name, state = claim.name, self.states[claim.name]
                self.states[name] = replace(state, watermark=max(state.watermark, key.slot))
        self.now = now

    def jobs(self) -> tuple[Job, ...]:
        mine = [
            Job(claim.job_id or "", "RUNNING" if key in self.begun else "PENDING", submitted=claim.at)
            for key, claim in self.claims.items()
        ]
        return (*mine, *(Job(str(100_000 + n), "RUNNING") for n in range(self.others)))

    def ahead(self) -> list[int]:
        return sorted(key.slot for key in self.claims if key.slot > self.now)

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
                full = full or len(self.jobs()) >= self.limit
                outcomes.append(
                    Outcome(each, Done.REFUSED, obstacle=Obstacle.SUBMIT_LIMIT) if full else self.done(each)
                )
            elif isinstance(each, Skip):
                state = self.states[each.entry.name]
                self.states[each.entry.name] = replace(state, watermark=max(state.watermark, each.slot))
                self.skipped[each.entry.name] = self.skipped.get(each.entry.name, 0) + each.count
        self.known = job_limit(seen, outcomes)
        return tuple(outcomes)

    def done(self, each: Withdraw | Submit) -> Outcome:
        if isinstance(each, Withdraw):
            assert self.claims[each.key].job_id == each.job_id
            assert each.key not in self.begun, "taken back, and it has begun"
            del self.claims[each.key]
            return Outcome(each, Done.OK)
        assert each.key not in self.claims, "claimed twice"
        assert each.key not in self.begun, "run twice"
        self.number += 1
        holds = text_key(each.entry) if each.reason is Reason.AHEAD else ""
        claim = Claim(each.key, ClaimState.RELEASED, each.entry.name, str(self.number), at=self.now, holds=holds)
        self.claims[each.key] = claim
        self.pass_until(self.now)
        return Outcome(each, Done.OK, job_id=claim.job_id)


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
        there, ahead = len(site.jobs()), site.ahead()
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
    for e in site.entries:
        ran = [key.slot for key in site.begun if key.entry == entry_id(e.name)]
        past = slots(e, site.born[e.name], max([site.states[e.name].watermark, *ran]))
        assert len(past) == len(ran) + site.skipped.get(e.name, 0), "each slot runs once, or is recorded"
