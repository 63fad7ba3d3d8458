"""The rules, in order: which slots are submitted, used up, or stay due, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cronhpc.core.model import (
    Call,
    Claim,
    ClaimState,
    Entry,
    EntryState,
    Job,
    JobEnd,
    Problem,
    Rerun,
    Result,
    Skip,
    Submit,
    Wait,
    Way,
    World,
)
from cronhpc.core.plan import plan
from cronhpc.core.slots import Seen
from tests.worlds import at, chain, claim, entry, job, key, planned, state, switch, world

HOURLY = "0 * * * *"


def one(now: str, e: Entry, s: EntryState | None = None, **more: Any) -> World:
    return world(now, e, states={e.name: s} if s else {}, **more)


SITUATIONS: dict[str, tuple[World, list[str]]] = {
    "an entry dropped at 14:20 is not due before 15:00": (
        one("14:30", entry(born="14:20")),
        ["wait 15:00 not due"],
    ),
    "an entry dropped at 14:20 runs at 15:00": (one("15:00:04", entry(born="14:20")), ["submit 15:00"]),
    "a file dated from the future counts from now": (
        one("15:00", entry(born="2030-01-01 00:00")),
        ["wait 16:00 not due"],
    ),
    "a slot just used up is not due again": (one("15:00:04", entry(), state("15:00")), ["wait 16:00 not due"]),
    "five hours' outage, latest: one run": (
        one("12:30", entry(), state("07:00"), last_tick=at("07:00")),
        ["used up 11:00 missed (4)", "submit 12:00"],
    ),
    "five hours' outage, all, one at a time: the first of five": (
        one("12:30", entry(catch_up="all", overlap="queue"), state("07:00"), last_tick=at("07:00")),
        ["submit 08:00", "wait 09:00 waits for the previous run"],
    ),
    "five hours' outage, all: five runs": (
        one("12:30", entry(catch_up="all"), state("07:00"), last_tick=at("07:00")),
        ["submit 08:00", "submit 09:00", "submit 10:00", "submit 11:00", "submit 12:00", "wait 13:00 not due"],
    ),
    "five hours' outage, none: none": (
        one("12:30", entry(catch_up="none"), state("07:00"), last_tick=at("07:00")),
        ["used up 12:00 missed (5)", "wait 13:00 not due"],
    ),
    "catch-up none: a slot that a tick comes for in time is no missed one": (
        one("12:20", entry(catch_up="none"), state("11:00"), last_tick=at("11:00")),
        ["submit 12:00"],
    ),
    "catch-up none, and nobody knows when the last tick was: none": (
        one("12:30", entry(catch_up="none"), state("07:00"), last_tick=None),
        ["used up 12:00 missed (5)", "wait 13:00 not due"],
    ),
    "the slot that was noted as the next is none by now: nothing is due": (
        one("12:30", entry(), state("12:00", schedule_key="0 * * * *|UTC|", next_slot=at("12:20"))),
        ["wait 13:00 not due"],
    ),
    "catch-up all is bounded": (
        one("12:30", entry(catch_up="all", overlap="allow", catch_up_limit=2), state("07:00")),
        ["used up 10:00 missed (3)", "submit 11:00", "submit 12:00", "wait 13:00 not due"],
    ),
    "a clock a year ahead, and the newest slot has its claim: it ran": (
        one("12:30", entry(), state("2027-11-27 12:00"), claims=(claim("e", "12:00", ClaimState.FINISHED),)),
        ["wait 13:00 not due"],
    ),
    "a tick by a clock that was days ahead noted the next slot by it: that is computed anew": (
        one(
            "12:30",
            entry(),
            state("12:00", schedule_key="0 * * * *|UTC|", next_slot=at("2026-11-30 10:00")),
            last_tick=at("2026-11-30 09:30"),
        ),
        ["wait 13:00 not due"],
    ),
    "a log shows a later slot than the state that was brought back knows: that one is used up": (
        one("12:30", entry(), state("07:00"), logged={"e": {at("12:00"): 1, at("11:00"): 1}}),
        ["wait 13:00 not due"],
    ),
    "the directory was brought back from a copy: what may have run since that was made is missed, the rest runs": (
        one("12:30", entry(catch_up="all", overlap="allow"), state("07:00"), restored=at("10:20")),
        ["used up 10:00 missed (3)", "submit 11:00", "submit 12:00", "wait 13:00 not due"],
    ),
    "the same, and of the rest only the latest is caught up": (
        one("12:30", entry(), state("07:00"), restored=at("10:20")),
        ["used up 11:00 missed (4)", "submit 12:00", "wait 13:00 not due"],
    ),
    "the same, and nothing was due since": (
        one("12:30", entry(), state("07:00"), restored=at("12:20")),
        ["used up 12:00 missed (5)", "wait 13:00 not due"],
    ),
    "a directory brought back long ago": (
        one("12:30", entry(), state("11:00"), restored=at("10:20")),
        ["submit 12:00", "wait 13:00 not due"],
    ),
    "a log of a run by hand says nothing of slots": (
        one("12:30", entry(), state("11:00"), logged={"e": {at("12:17:03"): 1}}),
        ["submit 12:00", "wait 13:00 not due"],
    ),
    "a tick in 2000 has left its stamp: only slots since the script was put there": (
        one("12:30", entry(catch_up="all", overlap="allow", born="2026-11-27 10:30"), state("2000-01-01 00:00")),
        ["submit 11:00", "submit 12:00", "wait 13:00 not due"],
    ),
    "our clock is behind the disk's: stamps up to the disk's are believed": (
        one("2000-01-01 00:00", entry(catch_up="all"), state("12:00"), disk_clock=at("12:30")),
        ["wait 13:00 not due"],
    ),
    "a deadline one minute short: missed": (
        one("12:31", entry(deadline=1800), state("11:00")),
        ["used up 12:00 missed (1)", "wait 13:00 not due"],
    ),
    "a deadline just kept: submitted": (one("12:30", entry(deadline=1800), state("11:00")), ["submit 12:00"]),
    "a kill switch uses the slot up": (
        one("12:00:10", entry(), state("11:00"), switches=(switch("e"),)),
        ["used up 12:00 stopped (1)"],
    ),
    "a kill switch over three slots uses all of them up": (
        one("12:30", entry(), state("09:00"), switches=(switch("e"),)),
        ["used up 12:00 stopped (3)"],
    ),
    "a switch lifted after three slots: nothing until the next one": (
        one("12:30", entry(), state("12:00")),
        ["wait 13:00 not due"],
    ),
    "a pause switch uses the slot up as well": (
        one("12:00:10", entry(), state("11:00"), switches=(switch("ALL", "pause"),)),
        ["used up 12:00 stopped (1)"],
    ),
    "an expired switch does nothing": (
        one("12:00:10", entry(), state("11:00"), switches=(switch("e", expires=at("11:30")),)),
        ["submit 12:00"],
    ),
    "a switch for another entry does nothing": (
        one("12:00:10", entry(), state("11:00"), switches=(switch("other"),)),
        ["submit 12:00"],
    ),
    "a switch of the job's name stops its entry": (
        one("12:00:10", entry(job_name="train"), state("11:00"), switches=(switch("train"),)),
        ["used up 12:00 stopped (1)"],
    ),
    "a switch folder that cannot be listed leaves the slot due": (
        one("12:00:10", entry(), state("11:00"), switches_unknown=("/proj/kill",)),
        ["wait 12:00 stopped"],
    ),
    "suspended: used up": (
        one("12:00:10", entry(), state("11:00", suspended=at("10:00"))),
        ["used up 12:00 suspended (1)"],
    ),
    "not trusted: stays due": (
        one("12:00:10", entry(problem=Problem("E401", "x", "y")), state("11:00")),
        ["wait 12:00 not trusted"],
    ),
    "invalid: stays due": (
        one("12:00:10", entry(problem=Problem("E224", "x", "y")), state("11:00")),
        ["wait 12:00 invalid"],
    ),
    "invalid, and slots were missed meanwhile: those are recorded, the latest stays due": (
        one("12:30", entry(problem=Problem("E224", "x", "y")), state("07:00"), last_tick=at("07:00")),
        ["used up 11:00 missed (4)", "wait 12:00 invalid"],
    ),
    "no schedule to be had: nothing to wait for": (
        one("12:00:10", entry(schedule="", problem=Problem("E101", "x", "y"))),
        ["wait - invalid"],
    ),
    "a file changed in the last seconds loses no slot": (
        one("12:00:01", entry(fresh=True), state("11:00")),
        ["wait 12:00 just changed"],
    ),
    "the previous run is running, skip: used up": (
        one(
            "12:00:10",
            entry(),
            state("11:00"),
            claims=(claim("e", "11:00", ClaimState.RELEASED, "7"),),
            jobs=(job(7, of=key("e", "11:00")),),
        ),
        ["used up 12:00 skipped (1)", "wait 13:00 not due"],
    ),
    "the previous run is running, skip, and two slots have come: both are used up": (
        one(
            "12:00:10",
            entry(catch_up="all"),
            state("10:00"),
            claims=(claim("e", "10:00", ClaimState.RELEASED, "7"),),
            jobs=(job(7, of=key("e", "10:00")),),
        ),
        ["used up 11:00 skipped (1)", "used up 12:00 skipped (1)", "wait 13:00 not due"],
    ),
    "the previous run is running, queue, and two slots have come: the second waits behind the first": (
        one(
            "12:00:10",
            entry(catch_up="all", overlap="queue"),
            state("10:00"),
            claims=(claim("e", "10:00", ClaimState.RELEASED, "7"),),
            jobs=(job(7, of=key("e", "10:00")),),
        ),
        ["wait 11:00 waits for the previous run"],
    ),
    "queue, and two slots have come: one at a time": (
        one("12:00:10", entry(catch_up="all", overlap="queue"), state("10:00")),
        ["submit 11:00", "wait 12:00 waits for the previous run"],
    ),
    "the previous run is running, queue: stays due": (
        one(
            "12:00:10",
            entry(overlap="queue"),
            state("11:00"),
            claims=(claim("e", "11:00", ClaimState.RELEASED, "7"),),
            jobs=(job(7, of=key("e", "11:00")),),
        ),
        ["wait 12:00 waits for the previous run"],
    ),
    "the previous run is running, allow: submitted": (
        one(
            "12:00:10",
            entry(overlap="allow"),
            state("11:00"),
            claims=(claim("e", "11:00", ClaimState.RELEASED, "7"),),
            jobs=(job(7, of=key("e", "11:00")),),
        ),
        ["submit 12:00", "wait 13:00 not due"],
    ),
    "the batch system does not answer: stays due": (
        one("12:00:10", entry(), state("11:00"), jobs=None),
        ["wait 12:00 batch system does not answer"],
    ),
    "a changed schedule runs no old slots": (
        one("12:30", entry(schedule="*/10 * * * *", born="12:25"), state("11:00", schedule_key="0 * * * *|UTC|")),
        ["submit 12:30"],
    ),
    "the schedule was changed while old slots were due: those are missed": (
        one(
            "12:30",
            entry(schedule="*/10 * * * *", born="12:25"),
            state("10:00", schedule_key="0 * * * *|UTC|", blocked_reason="over budget"),
        ),
        ["used up 12:00 missed (2)", "submit 12:30"],
    ),
    "the same, and no new slot has come, and one of the old ones is claimed": (
        one(
            "12:30",
            entry(schedule="40 * * * *", born="12:25"),
            state("09:00", schedule_key="0 * * * *|UTC|", blocked_reason="over budget"),
            claims=(claim("e", "11:00", ClaimState.RELEASED, "7"),),
            jobs=(job(7, of=key("e", "11:00")),),
        ),
        ["used up 12:00 missed (2)", "wait 12:40 not due"],
    ),
    "the same, and what this version cannot read of the old schedule is not counted": (
        one(
            "12:30",
            entry(schedule="40 * * * *", born="12:25"),
            state("09:00", schedule_key="fortnightly|UTC|", blocked_reason="over budget"),
        ),
        ["wait 12:40 not due"],
    ),
    "the same after two hours' outage": (
        one(
            "12:30",
            entry(schedule="40 * * * *", born="12:25"),
            state("10:00", schedule_key="0 * * * *|UTC|"),
            last_tick=at("10:30"),
        ),
        ["used up 12:00 missed (2)", "wait 12:40 not due"],
    ),
    "a name that comes back with another schedule: of the time between nothing is told": (
        one(
            "12:30",
            entry(schedule="40 * * * *", born="12:25"),
            state("2026-06-01 10:00", schedule_key="0 * * * *|UTC|"),
        ),
        ["wait 12:40 not due"],
    ),
    "it is put away, and comes back with another schedule after a tick: of the time between nothing is told": (
        one(
            "12:30",
            entry(schedule="40 * * * *", born="12:25"),
            state("10:00", schedule_key="0 * * * *|UTC|", unseen=(at("11:10"), at("11:30"))),
            last_tick=at("11:30"),
        ),
        ["wait 12:40 not due"],
    ),
    "the same, and old slots waited before it was put away": (
        one(
            "12:30",
            entry(schedule="40 * * * *", born="12:25"),
            state(
                "09:00",
                schedule_key="0 * * * *|UTC|",
                unseen=(at("11:10"), at("11:30")),
                blocked_reason="over budget",
            ),
        ),
        ["used up 11:00 missed (2)", "wait 12:40 not due"],
    ),
    "the same, and one had come since the last tick that saw it": (
        one(
            "12:30",
            entry(schedule="40 * * * *", born="12:25"),
            state("10:00", schedule_key="0 * * * *|UTC|", unseen=(at("10:30"), at("11:30"))),
        ),
        ["used up 11:00 missed (1)", "wait 12:40 not due"],
    ),
    "a slot of the old schedule that came after the change was none": (
        one("13:30", entry(schedule="40 * * * *", born="12:25"), state("12:00", schedule_key="0 * * * *|UTC|")),
        ["submit 12:40"],
    ),
    "an unchanged schedule in a touched file still catches up": (
        one("12:30", entry(born="12:25"), state("11:00", schedule_key="0 * * * *|UTC|")),
        ["submit 12:00"],
    ),
    "a clock that went back an hour runs nothing twice": (
        one("11:10", entry(), state("12:00")),
        ["wait 13:00 not due"],
    ),
    "a watermark from 2030 is not believed": (
        one("11:10", entry(), state("2030-01-01 00:00")),
        ["used up 11:00 missed (1)", "wait 12:00 not due"],
    ),
    "state was lost: the newest claim still counts": (
        one("12:10", entry(), claims=(claim("e", "12:00", ClaimState.FINISHED),)),
        ["wait 13:00 not due"],
    ),
    "no budget left: stays due": (
        one("12:00:10", entry(), state("11:00"), settings={"budget_tick": 0}),
        ["wait 12:00 over budget"],
    ),
    "the hour's budget is used up: stays due": (
        one("12:00:10", entry(), state("11:00"), recent=((at("11:50") // 60, "", 2000),)),
        ["wait 12:00 over budget"],
    ),
    "by submissions of the minute that the hour begins in": (
        one("12:00:10", entry(), state("11:00"), recent=((at("11:00") // 60, "", 2000),)),
        ["wait 12:00 over budget"],
    ),
    "by submissions of the minute before that: they do not count": (
        one("12:00:10", entry(), state("11:00"), recent=((at("10:59") // 60, "", 2000),)),
        ["submit 12:00"],
    ),
    "the same slot's earlier try had no job: twenty such in the hour are no retries": (
        one(
            "12:00:10",
            entry(),
            state("12:00"),
            claims=(claim("e", "12:00", ClaimState.CLAIMED),),
            recent=((at("11:50") // 60, "e", 20),),
        ),
        ["again 12:00"],
    ),
    "yesterday's submissions do not count": (
        one("12:00:10", entry(), state("11:00"), recent=((at("2026-11-26 12:00") // 60, "", 2000),)),
        ["submit 12:00"],
    ),
}


@pytest.mark.parametrize(("situation", "expected"), SITUATIONS.values(), ids=SITUATIONS.keys())
def test_the_first_rule_that_applies_decides(situation: World, expected: list[str]) -> None:
    got = planned(situation)
    assert got[: len(expected)] == expected
    assert not [row for row in got[len(expected) :] if not row.startswith("wait")]
    assert len([row for row in got if row.startswith("wait")]) <= 1, "an entry has one reason to wait"


BLOCKED = "over budget: this tick has submitted as many jobs as scheduler.budget.tick allows"


@pytest.mark.parametrize(
    ("e", "now", "detail"),
    [
        pytest.param(
            entry(), "12:00:04", "only the latest runs (catch-up: latest); at the last look: " + BLOCKED, id="latest"
        ),
        pytest.param(
            entry(),
            "14:00:04",
            "3 slots: only the latest runs (catch-up: latest); at the last look: " + BLOCKED,
            id="3",
        ),
        pytest.param(
            entry(deadline=600), "11:20", "1200 s late, deadline 600 s; at the last look: " + BLOCKED, id="a deadline"
        ),
    ],
)
def test_what_held_a_slot_up_is_told_when_it_is_missed(e: Entry, now: str, detail: str) -> None:
    w = one(now, e, state("10:00", blocked_reason=BLOCKED))
    assert [d.detail for d in plan(w).decisions if isinstance(d, Skip)] == [detail]


def test_slots_nearer_than_the_next_tick_are_submitted_ahead() -> None:
    w = one("15:00:04", entry(schedule="*/2 * * * *"), state("14:58"), link="9", chain=chain())
    assert planned(w)[:3] == ["submit 15:00", "ahead 15:02 begin 15:02", "ahead 15:04 begin 15:04"]
    assert plan(w).wake == at("15:06")


def test_where_only_a_login_node_submits_all_slots_of_the_next_day_go_ahead_the_earliest_first() -> None:
    two = (entry("a", "0 */8 * * *", overlap="queue"), entry("b", "30 6 * * *"))
    used = {"a": state("08:00"), "b": state("06:30")}
    w = world("08:00:04", *two, states=used, chain=chain(via=Way.LOGIN), settings={"budget_tick": 3})
    ahead = ["ahead 16:00 begin 16:00", "ahead 28th 00:00 begin 28th 00:00", "ahead 28th 06:30 begin 28th 06:30"]
    assert planned(w) == [*ahead, "wait 28th 08:00 over budget"]
    assert planned(replace(w, call=Call(by_daemon=True))) == planned(w)
    fewer = replace(w, settings=replace(w.settings, budget_tick=1))
    assert planned(fewer) == [ahead[0], "wait 28th 00:00 over budget", "wait 28th 06:30 over budget"]


def test_on_a_login_node_what_was_tried_before_its_time_goes_by_its_time_as_well() -> None:
    due, near, far = entry("a", "0 * * * *", catch_up="all"), entry("b", "30 * * * *"), entry("c", "45 * * * *")
    left = tuple(claim("c", clock, ClaimState.CLAIMED) for clock in ("08:45", "09:45", "10:45"))
    used = {"a": state("07:00"), "b": state("07:30"), "c": state("07:45")}
    settings = {"budget_tick": 4, "ahead": 3600}
    by_login = chain(via=Way.LOGIN)
    w = world("08:00:04", due, near, far, states=used, claims=left, chain=by_login, settings=settings)
    assert [row for row in planned(w) if "wait" not in row] == [
        "submit 08:00",
        "ahead 08:30 begin 08:30",
        "again 08:45 begin 08:45",
        "ahead 09:00 begin 09:00",
    ]


def test_slots_ahead_by_a_login_node_are_believed_whoever_knows_the_time() -> None:
    daily = entry(schedule="0 7 * * *")
    taken = claim("e", "2026-11-28 07:00", ClaimState.RELEASED, "7")
    by_login = chain(via=Way.LOGIN)
    w = one("08:00", daily, state("07:00"), claims=(taken,), chain=by_login, jobs=(job(7, "PENDING", of=taken.key),))
    assert planned(replace(w, clock_verified=True)) == ["wait 29th 07:00 not due"]


def test_a_run_that_waits_ahead_is_no_previous_run() -> None:
    waits = claim("e", "16:00", ClaimState.RELEASED, "7")
    w = one("15:00:04", entry(), state("14:00"), claims=(waits,), jobs=(job(7, "PENDING", of=waits.key),))
    assert planned(w)[0] != "used up 15:00 skipped (1)"


@pytest.mark.parametrize(
    ("overlap", "jobs", "ahead", "wake"),
    [
        pytest.param("skip", (job(7, of=key("e", "14:56")),), False, "15:02:04", id="skip, and the last run runs"),
        pytest.param("replace", (job(7, of=key("e", "14:56")),), False, "15:02:04", id="replace, and it runs"),
        pytest.param("queue", (job(7, of=key("e", "14:56")),), False, "15:02:04", id="queue, and it runs"),
        pytest.param("skip", (job(7, "PENDING", of=key("e", "14:56")),), False, "15:02:04", id="it waits"),
        pytest.param("allow", (job(7, of=key("e", "14:56")),), True, "15:06", id="allow, and it runs"),
        pytest.param("skip", (job(7, "COMPLETED", of=key("e", "14:56")),), True, "15:06", id="it has ended"),
        pytest.param("skip", (job(7, of=key("e", "15:00")),), True, "15:06", id="it has just begun: it may be short"),
    ],
)
def test_while_a_run_of_before_lives_no_slot_is_submitted_ahead_that_it_could_overlap(
    overlap: str,
    jobs: tuple[Job, ...],
    ahead: bool,  # noqa: FBT001 - a column of the table
    wake: str,
) -> None:
    e = entry(schedule="*/2 * * * *", overlap=overlap)
    slot = "15:00" if "T1500Z" in jobs[0].comment else "14:56"
    before = claim("e", slot, ClaimState.RELEASED, "7")
    w = one("15:00:04", e, state("15:00"), link="9", chain=chain(), jobs=jobs, claims=(before,))
    rows = planned(w)
    assert ("ahead 15:02 begin 15:02" in rows) == ahead, rows
    assert ("wait 15:02 not due" in rows) == (not ahead), "it stays due, and a tick comes for it"
    assert plan(w).wake == at(wake)


def test_what_this_tick_cancels_does_not_stand_in_the_way_of_the_next_slot() -> None:
    """A request that can never be met, each time: no slot is skipped for it."""
    stuck = job(7, "PENDING", of=key("e", "14:58"), reason="BadConstraints")
    before = claim("e", "14:58", ClaimState.RELEASED, "7")
    rows = planned(one("15:00:04", entry(schedule="*/2 * * * *"), state("14:58"), jobs=(stuck,), claims=(before,)))
    assert rows[:3] == ["cancel 7", "finish refused", "submit 15:00"]


def test_a_daemon_submits_nothing_ahead() -> None:
    w = one("15:00:04", entry(schedule="*/2 * * * *"), state("14:58"), link="9", chain=chain(), by_daemon=True)
    assert planned(w)[0] == "submit 15:00"
    assert not [row for row in planned(w) if row.startswith("ahead")]


def test_the_wake_up_moves_to_the_next_due_slot() -> None:
    w = one("15:00:04", entry(schedule="*/10 * * * *"), state("14:50"), link="9", chain=chain())
    assert plan(w).wake == at("15:10")


def test_with_nothing_due_the_wake_up_is_the_next_whole_interval() -> None:
    w = one("15:00:04", entry(schedule="30 22 * * *"), state("14:00"), link="9", chain=chain())
    assert plan(w).wake == at("16:00")


def test_live_jobs_that_a_switch_could_reach_pull_the_wake_up() -> None:
    w = one(
        "15:00:00", entry(schedule="30 22 * * *"), state("14:00"), link="9", chain=chain(), jobs=(job(3, name="train"),)
    )
    assert plan(w).wake == at("15:10")


@pytest.mark.parametrize(("expires", "wake"), [("15:20", "15:20"), ("14:30", "16:00")])
def test_a_switch_pulls_the_wake_up_to_where_it_expires_once(expires: str, wake: str) -> None:
    idle = entry(schedule="30 22 * * *")
    w = one("15:00:04", idle, state("14:00"), link="9", chain=chain(), switches=(switch("other", expires=at(expires)),))
    assert plan(w).wake == at(wake)


def test_a_run_that_this_tick_submits_pulls_the_wake_up_as_one_that_it_sees() -> None:
    """Its switch may be set the minute after; and should it fail at once, that is not told an hour later."""
    w = one("15:00:04", entry(), state("14:00"), link="9", chain=chain())
    assert planned(w)[0] == "submit 15:00"
    assert plan(w).wake == at("15:10:04")


def test_of_slots_that_are_caught_up_together_the_first_alone_replaces_the_run_before() -> None:
    runs = claim("e", "10:00", ClaimState.RELEASED, "7")
    late = one(
        "12:00:10",
        entry(catch_up="all", overlap="replace"),
        state("10:00"),
        claims=(runs,),
        jobs=(job(7, of=runs.key),),
    )
    submitted = [each for each in plan(late).decisions if isinstance(each, Submit)]
    assert [(each.key.slot, each.replaces) for each in submitted] == [(at("11:00"), ("7",)), (at("12:00"), ())]


def test_by_hand_a_slot_is_made_at_the_instant_asked_whatever_the_schedule() -> None:
    w = one("15:17", entry(schedule="30 22 * * *"), only="e")
    assert planned(w) == ["submit 15:17"]


def test_by_hand_a_switch_still_stops() -> None:
    w = one("15:17", entry(), only="e", switches=(switch("e"),))
    assert planned(w) == ["wait 15:17 stopped"]


FAILED = ClaimState.FINISHED
RUNS = ClaimState.RELEASED
BY_HAND: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "a run of it has not ended": ("skip", {}, ["wait - still running"]),
    "nor does a queue of one run at a time take it": ("queue", {}, ["wait - still running"]),
    "one beside it was asked for": ("skip", {"side_by_side": True}, ["submit 15:17"]),
    "its runs may overlap": ("allow", {}, ["submit 15:17"]),
    "the run has ended": ("skip", {"jobs": (job(7, "COMPLETED", of=key("e", "15:00")),)}, ["submit 15:17"]),
    "the queue has lost sight of the run": ("skip", {"jobs": ()}, ["wait - waits for the previous run"]),
    "the queue has lost sight of one run, and another has not ended": (
        "skip",
        {"claims": (claim("e", "14:00", RUNS, "6"), claim("e", "15:00", RUNS, "7"))},
        ["wait - still running"],
    ),
    "its entry has had as many as it may beyond its schedule": (
        "allow",
        {"settings": {"budget_entry": 3}, "recent": ((at("14:30") // 60, "e", 1), (at("15:10") // 60, "e", 2))},
        ["wait 15:17 over budget"],
    ),
    "it has had one fewer": (
        "allow",
        {"settings": {"budget_entry": 3}, "recent": ((at("15:10") // 60, "e", 2), (at("15:11") // 60, "other", 3))},
        ["submit 15:17"],
    ),
    "a run waits for its slot to come": (
        "skip",
        {"claims": (claim("e", "16:00", RUNS, "7"),), "jobs": (job(7, "PENDING", of=key("e", "16:00")),)},
        ["submit 15:17"],
    ),
}


@pytest.mark.parametrize(("overlap", "more", "decided"), BY_HAND.values(), ids=BY_HAND)
def test_by_hand_none_is_started_beside_a_run_unless_that_is_asked_for(
    overlap: str, more: dict[str, Any], decided: list[str]
) -> None:
    more = {"claims": (claim("e", "15:00", RUNS, "7"),), "jobs": (job(7, of=key("e", "15:00")),), **more}
    assert planned(one("15:17", entry(overlap=overlap), only="e", **more)) == decided


RERUNS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a slot that failed, as its second attempt": ({}, ["submit 14:00 #2"]),
    "its claim is there still, finished": ({"claims": (claim("e", "14:00", FAILED, "7"),)}, ["submit 14:00 #2"]),
    "its job has ended, and no tick has finished it yet": (
        {"claims": (claim("e", "14:00", RUNS, "7"),), "jobs": (job(7, "FAILED", of=key("e", "14:00")),)},
        ["submit 14:00 #2"],
    ),
    "its job runs": (
        {"claims": (claim("e", "14:00", RUNS, "7"),), "jobs": (job(7, of=key("e", "14:00")),)},
        ["wait - already claimed"],
    ),
    "a retry is due later, and its deadline will be over by then": (
        {"claims": (claim("e", "14:00", FAILED, "7", retry_at=at("15:30"), job_end=JobEnd(Result.FAILED)),)},
        ["submit 14:00 #2"],
    ),
    "it comes by itself: a retry is due later": (
        {"claims": (claim("e", "14:00", FAILED, "7", retry_at=at("15:30"), job_end=JobEnd(Result.FAILED)),)}
        | {"deadline": 3 * 3600},
        ["wait - already claimed"],
    ),
    "another has asked for the same a moment ago": (
        {"claims": (replace(claim("e", "14:00", RUNS, "8"), key=key("e", "14:00", 2, by_hand=True)),)},
        ["wait - already claimed"],
    ),
    "another slot of it runs: they run side by side": (
        {"claims": (claim("e", "15:00", RUNS, "7"),), "jobs": (job(7, of=key("e", "15:00")),)},
        ["submit 14:00 #2"],
    ),
    "a switch stands": ({"switches": (switch("e"),)}, ["wait 15:17 stopped"]),
    "the batch system does not answer": ({"jobs": None}, ["wait 15:17 batch system does not answer"]),
}


@pytest.mark.parametrize(("more", "decided"), RERUNS.values(), ids=RERUNS)
def test_a_slot_is_run_again_by_hand(more: dict[str, Any], decided: list[str]) -> None:
    e = entry(**{name: more[name] for name in more if name == "deadline"})
    more = {name: more[name] for name in more if name != "deadline"}
    assert planned(one("15:17", e, only="e", rerun=Rerun(at("14:00"), 2), **more)) == decided


def test_of_an_array_just_the_tasks_that_failed_run_again() -> None:
    again = Rerun(at("14:00"), 2, "3,7")
    [array] = plan(one("15:17", entry(array="1-9%2"), only="e", rerun=again)).decisions
    [plain] = plan(one("15:17", entry(), only="e", rerun=again)).decisions  # its script was an array when that ran
    assert isinstance(array, Submit)
    assert isinstance(plain, Submit)
    assert (array.tasks, plain.tasks) == ("3,7", "")
    assert array.key == key("e", "14:00", 2, by_hand=True)


def test_who_has_waited_longest_goes_first_where_there_is_room_for_one() -> None:
    """In the order of names the last ones never ran."""
    waiting = {
        "a": state("14:00"),
        "b": state("14:00", blocked_since=at("14:00")),
        "c": state("14:00", blocked_since=at("13:00")),
    }
    w = world("15:00:04", *map(entry, "abc"), states=waiting, settings={"budget_tick": 1})
    assert [d.entry.name for d in plan(w).decisions if isinstance(d, Submit)] == ["c"]
    assert [d.entry.name for d in plan(w).decisions if isinstance(d, Wait) and d.slot == at("15:00")] == ["b", "a"]


LAPSE_FIRST = {
    "a daily one has all day": (
        [entry("a", "0 15 * * *"), entry("b", "*/2 * * * *")],
        {},
        {"a": state("2026-11-26 15:00", blocked_since=at("14:00")), "b": state("14:58")},
        "b",
    ),
    "a deadline is sooner than the next slot": (
        [entry("a"), entry("b", "0 15 * * *", deadline=600)],
        {},
        {"a": state("14:00"), "b": state("2026-11-26 15:00")},
        "b",
    ),
    "the next slot is sooner than a long deadline": (
        [entry("a"), entry("b", "*/5 * * * *", deadline=7200)],
        {},
        {"a": state("14:00"), "b": state("14:55")},
        "b",
    ),
    "one that is caught up with whenever that is waits": (
        [entry("a", catch_up="all"), entry("b", "0 15 * * *")],
        {},
        {"a": state("14:00"), "b": state("2026-11-26 15:00")},
        "b",
    ),
    "one claimed before, and no job of it was seen": (
        [entry("a", "0 15 * * *"), entry("b")],
        {"claims": (claim("b", "15:00", ClaimState.CLAIMED),)},
        {"a": state("2026-11-26 15:00"), "b": state("15:00")},
        "b",
    ),
    "one that has missed a slot keeps its place": (
        [entry("a", "*/5 * * * *"), entry("b")],
        {},
        {"a": state("14:55"), "b": state("14:00", blocked_since=at("14:00"))},
        "b",
    ),
    "its next slot, submitted ahead, has no day either": (
        [entry("a", "0 15 * * *"), entry("b", "2-59/3 * * * *")],
        {"link": "9", "chain": chain()},
        {"a": state("2026-11-26 15:00"), "b": state("14:59")},
        "b",
    ),
    "one that was asked for by hand, and no job of it was seen": (
        [entry("a"), entry("b", "0 0 1 1 *")],
        {"claims": (replace(claim("b", "14:58", ClaimState.CLAIMED), key=key("b", "14:58", by_hand=True)),)},
        {"a": state("14:00"), "b": state("14:58")},
        "b",
    ),
}


@pytest.mark.parametrize(("entries", "more", "states", "first"), LAPSE_FIRST.values(), ids=LAPSE_FIRST)
def test_what_would_be_missed_first_goes_first_where_there_is_room_for_one(
    entries: list[Entry], more: dict[str, Any], states: dict[str, EntryState], first: str
) -> None:
    w = world("15:00:04", *entries, states=states, settings={"budget_tick": 1}, **more)
    assert [d.entry.name for d in plan(w).decisions if isinstance(d, Submit)] == [first]


@pytest.mark.parametrize("room", [1, 3, 5])
def test_nothing_waits_for_longer_than_a_day_behind_what_keeps_coming_due(room: int) -> None:
    """Six are due at each tick, and there is room for fewer: all others have their turn when their first slot ends."""
    ends = {"hourly": 3600, "daily": 86400, "weekly": 86400, "all": 86400}
    slow = [entry("hourly"), entry("daily", "0 9 * * *"), entry("weekly", "0 9 * * fri"), entry("all", catch_up="all")]
    entries = [*slow, *(entry(f"fast{n}", "*/10 * * * *", overlap="allow") for n in range(6))]
    states = {e.name: state("2026-11-27 08:59") for e in entries}
    longest = dict.fromkeys(states, 0)
    for now in range(at("09:00:05"), at("2026-11-29 10:00"), 600):
        w = world("09:00", *entries, states=states, settings={"budget_tick": room}, last_tick=now - 600)
        for d in plan(replace(w, now=now)).decisions:
            if isinstance(d, Submit):
                states[d.entry.name] = EntryState(d.key.slot)
            elif isinstance(d, Wait) and d.slot is not None and d.slot <= now:
                known = states[d.entry.name]
                states[d.entry.name] = replace(known, blocked_since=known.blocked_since or now)
                longest[d.entry.name] = max(longest[d.entry.name], now - (known.blocked_since or now))
    assert {name for name in longest if longest[name] > ends.get(name, 600) + 600 * len(entries)} == set()


def test_what_is_over_budget_is_looked_at_again_soon() -> None:
    w = one("15:00:04", entry(), state("14:00"), settings={"budget_tick": 0}, link="9", chain=chain())
    assert plan(w).wake == at("15:05:04")


@pytest.mark.parametrize(
    ("delay", "wake"),
    [
        pytest.param(0, "15:15", id="at once: no sooner than min-interval"),
        pytest.param(1200, "15:29:50", id="twenty minutes after it ended"),
        pytest.param(3600, "16:00", id="later than the next tick"),
    ],
)
def test_a_run_that_has_failed_is_tried_again_before_its_deadline(delay: int, wake: str) -> None:
    """The tick that found its end called the next one for the next slot, which was the deadline of this one."""
    failed = job(7, "FAILED", of=key("e", "15:00"), ended=at("15:09:50"), exit_code=1)
    e = entry(retries=2, retry_delay=delay, deadline=7200)
    runs = (claim("e", "15:00", ClaimState.RELEASED, "7"),)
    w = one("15:10", e, state("15:00"), claims=runs, jobs=(failed,), link="9", chain=chain())
    assert planned(w)[0] == "finish failed retry"
    assert plan(w).wake == at(wake)


def test_an_idle_tick_computes_no_schedule() -> None:
    known = state("15:00", schedule_key="0 * * * *|UTC|", next_slot=at("16:00"))
    assert plan(one("15:20", entry(), known)).next_slots == {}


def test_a_clock_that_is_behind_leaves_no_stamp_on_a_new_entry() -> None:
    """Its next tick with a right clock would catch up with slots from before the script was there."""
    w = one("2000-01-01 00:00", entry(catch_up="all", born="2026-11-27 10:30"), EntryState(), disk_clock=at("12:30"))
    assert w.entries[0].born > w.now

    def stamp(world: World, state: EntryState) -> int | None:
        computed = Seen.of(world).due(world, world.entries[0], state).computed
        return computed[2] if computed else None

    assert stamp(w, EntryState()) == 0
    assert stamp(replace(w, disk_clock=0), EntryState()) == w.now, "the file's own date is at fault"
    assert stamp(w, state("1999-12-31 23:00")) == w.now, "it is not new"


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(ClaimState.CLAIMED, id="a claim without a job may be given back by its tick"),
        pytest.param(ClaimState.SUBMITTED, id="one whose job is recorded stands for its slot by itself"),
    ],
)
def test_what_another_tick_has_just_claimed_is_not_due_and_no_slot_before_it_counts_as_used_up(
    step: ClaimState,
) -> None:
    known = state("14:00", schedule_key="0 * * * *|UTC|", next_slot=at("15:00"))
    job_id = "7" if step is ClaimState.SUBMITTED else None
    w = one("15:00:04", entry(), known, claims=(claim("e", "15:00", step, job_id, fresh=True),))
    assert plan(w).next_slots == {}
    assert planned(w) == ["wait 16:00 not due"]


CLAIMED_AHEAD = (claim("e", "13:30", ClaimState.RELEASED, "7"), claim("e", "14:00", ClaimState.RELEASED, "8"))
BETWEEN = {
    "all": ["submit 13:00", "submit 14:30", "wait 15:00 not due"],
    "latest": ["used up 13:00 missed (1)", "submit 14:30", "wait 15:00 not due"],
    "none": ["used up 13:00 missed (1)", "submit 14:30", "wait 15:00 not due"],
}


@pytest.mark.parametrize(("policy", "expected"), BETWEEN.items())
def test_a_slot_before_claimed_ones_is_due_by_itself(policy: str, expected: list[str]) -> None:
    """The schedule was edited, or of two ticks at once each gave one back; those claimed stayed."""
    e = entry(schedule="*/30 * * * *", catch_up=policy, overlap="allow")
    w = one("14:30:10", e, state("12:30"), claims=CLAIMED_AHEAD, jobs=(job(7), job(8)))
    assert planned(w) == expected
    seen = Seen.of(w)
    assert seen.due(w, e, state("12:30")).next == at("15:00")
    ended = replace(w, claims=(CLAIMED_AHEAD[0], replace(CLAIMED_AHEAD[1], state=ClaimState.FINISHED)))
    assert Seen.of(ended).due(ended, e, state("12:30")).slots == (at("14:30"),), "up to one that has ended all are"
    refused = claim("e", "16:00", ClaimState.FINISHED, job_end=JobEnd(Result.CANCELLED, ended=at("14:20")))
    ahead = replace(w, claims=(*CLAIMED_AHEAD, replace(refused, at=at("14:25"))))
    assert planned(ahead) == expected, "one that has ended before its time tells nothing of those before it"


AWAY = state("12:00", schedule_key="0 * * * *|UTC|")
AT_13 = claim("e", "13:00", ClaimState.RELEASED, "7")
DUE_BEFORE: dict[str, tuple[EntryState, tuple[Claim, ...], tuple[Entry, ...], int]] = {
    "one waited": (AWAY, (), (), at("13:00")),
    "it was used up": (replace(AWAY, watermark=at("13:00")), (), (), 0),
    "it has a run, which goes on": (AWAY, (AT_13,), (), 0),
    "its run has ended": (AWAY, (replace(AT_13, state=ClaimState.FINISHED, job_end=JobEnd(Result.OK)),), (), 0),
    "what this version cannot read of the schedule": (replace(AWAY, schedule_key="?"), (), (), 0),
    "no tick has used up any": (replace(AWAY, watermark=0), (), (), 0),
    "the entry is there, with another schedule": (AWAY, (), (entry(schedule="40 * * * *", born="13:50"),), 0),
}


@pytest.mark.parametrize(("before", "others", "there", "due"), DUE_BEFORE.values(), ids=DUE_BEFORE)
def test_which_slot_waited_before_one_that_ends_while_its_entry_is_gone(
    before: EntryState, others: tuple[Claim, ...], there: tuple[Entry, ...], due: int
) -> None:
    jobs = (job(7), job(8, "COMPLETED", ended=at("14:02")))
    w = world("14:05", *there, states={"e": before}, claims=(*others, CLAIMED_AHEAD[1]), jobs=jobs)
    assert planned(w)[:1] == ["finish ok"]
    assert plan(w).due_before(key("e", "14:00")) == due


def test_an_end_while_the_entry_is_gone_uses_up_no_slot_that_waited_before_it() -> None:
    """Its file was put away: once it was back, what had waited had no row."""
    before = AWAY
    ended = replace(CLAIMED_AHEAD[1], state=ClaimState.FINISHED, due=at("13:00"))
    back = entry(schedule="40 * * * *", born="14:25")
    before = replace(before, unseen=(at("12:30"), at("14:01")))
    assert planned(one("14:30", back, before, claims=(ended,))) == ["used up 13:00 missed (1)", "wait 14:40 not due"]


def test_an_end_is_told_at_once_and_a_slot_before_it_that_stays_due_is_not_used_up_by_it() -> None:
    """Its script is broken. A site that forgets jobs in a minute told nobody of an end that waited for that slot."""
    broken = replace(entry(catch_up="all"), problem=Problem("E101", "line 3 is no directive.", "write it anew"))
    w = one("14:05", broken, state("12:00"), claims=(CLAIMED_AHEAD[1],), jobs=(job(8, "COMPLETED", ended=at("14:02")),))
    made = plan(w)
    assert planned(w) == ["finish ok", "wait 13:00 invalid"]
    assert made.due_before(key("e", "14:00")) == at("13:00")
    ended = replace(CLAIMED_AHEAD[1], state=ClaimState.FINISHED, due=at("13:00"))
    assert planned(replace(w, claims=(ended,))) == ["wait 13:00 invalid"]
    assert planned(replace(w, claims=(replace(ended, due=0),))) == ["wait 15:00 invalid"], "else it is"


@pytest.mark.parametrize(
    ("ended", "noted"), [("16:01", "14:25"), ("14:29", "16:02")], ids=["by the controller's clock", "by another's"]
)
def test_by_a_clock_that_is_behind_a_slot_before_one_that_has_ended_is_used_up(ended: str, noted: str) -> None:
    """The state was lost, and only the newest claim tells."""
    ran = claim("e", "16:00", ClaimState.FINISHED, "9", job_end=JobEnd(Result.OK, 0, ended=at(ended)))
    w = one("14:30:10", entry(schedule="*/30 * * * *"), claims=(replace(ran, at=at(noted)),))
    assert planned(w) == ["wait 16:30 not due"]


@pytest.mark.parametrize("logs", [1, 0])
def test_a_slot_that_only_a_log_tells_of_stays_used_up_for_the_next_tick(logs: int) -> None:
    """After state/ was brought back from a copy logs are read once: the next tick goes by what this one keeps."""
    known = state("14:00", schedule_key="0 * * * *|UTC|", next_slot=at("15:00"))
    claims = () if logs else (claim("e", "15:00", ClaimState.CLAIMED),)
    w = one("15:00:04", entry(), known, logged={"e": {at("15:00"): logs}}, claims=claims)
    assert plan(w).next_slots == ({"e": ("0 * * * *|UTC|", at("16:00"), at("15:00"))} if logs else {})
