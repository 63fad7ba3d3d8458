"""What a tick keeps of an entry: its last run, since when a slot waits, its failures in a row."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from cronhpc.core.model import (
    Adopt,
    Claim,
    ClaimState,
    Decision,
    Done,
    Entry,
    EntryState,
    Finish,
    Job,
    JobEnd,
    LeaveCause,
    LeaveChain,
    LinkKind,
    LinkRecord,
    Outcome,
    Plan,
    Reason,
    Result,
    Skip,
    Wait,
    Way,
)
from cronhpc.core.plan import plan
from cronhpc.cron.values import replace
from cronhpc.engine.record import _Keeper, _outlived
from cronhpc.script.dialect import SLURM
from cronhpc.store import scheduler
from cronhpc.store.files import Paths
from cronhpc.store.memory import Memory
from tests.worlds import at, chain, claim, entry, job, key, link, planned, state, world

NOW = at("14:05")
E = entry()
FIRST, AGAIN = key("e", "14:00"), key("e", "14:00", 2, by_hand=True)

ENDED = claim("e", "14:00", ClaimState.FINISHED, "7", job_end=JobEnd(Result.FAILED))
AWAITED = replace(ENDED, retry_at=at("15:00"))


class Kept(NamedTuple):
    """`before`: the entry's state; `expected` of it afterwards."""

    before: EntryState
    decisions: tuple[Decision, ...]
    expected: dict[str, Any]
    world: dict[str, Any] = {}  # noqa: RUF012 - a table's row
    done: Done = Done.OK
    next_slots: dict[str, Any] = {}  # noqa: RUF012 - a table's row


def last(clock: str, attempt: int = 1, **more: Any) -> dict[str, Any]:
    return {"key": str(key("e", clock, attempt)), "slot": at(clock), **more}


def skipped(clock: str) -> Skip:
    return Skip(E, at(clock), Result.MISSED, Reason.MISSED, "late")


SITUATIONS: dict[str, Kept] = {
    "a slot that was used up is the last": Kept(
        state("13:00", last=last("13:00")), (skipped("14:00"),), {"last": str(FIRST), "watermark": at("14:00")}
    ),
    "another tick has claimed it meanwhile: it is not used up": Kept(
        state("13:00", last=last("13:00"), next_slot=at("15:00")),
        (skipped("14:00"),),
        {"last": str(key("e", "13:00")), "watermark": at("13:00"), "next_slot": None},
        done=Done.REFUSED,
    ),
    "… and its schedule was edited: the slots of the old one are told by the next tick": Kept(
        state("13:00", schedule_key="old||"),
        (skipped("14:00"),),
        {"schedule_key": "old||", "watermark": at("13:00"), "next_slot": None},
        done=Done.REFUSED,
        next_slots={"e": ("new||", at("15:00"), at("14:00"))},
    ),
    "no further attempt of a failed run comes: its row says why": Kept(
        state("13:00", last=last("14:00", result="failed"), to_retry=(at("14:00"),)),
        (Finish(FIRST, "e", JobEnd(Result.FAILED, detail="attempt 2 is not submitted: its entry is gone")),),
        {"detail": "attempt 2 is not submitted: its entry is gone", "job": "7", "failures": 1, "rows": 1},
        {"claims": (AWAITED,), "noted": (AWAITED.note,)},
    ),
    "one of before the last is not": Kept(
        state("14:00", last=last("14:00")), (skipped("13:00"),), {"last": str(FIRST), "watermark": at("14:00")}
    ),
    "the last is of a clock far ahead: the slot is the last": Kept(
        state("13:00", last=last("2030-01-01 00:00")), (skipped("14:00"),), {"last": str(FIRST)}
    ),
    "a slot waits for the first time": Kept(
        state("13:00"), (Wait(E, at("14:00"), Reason.BUDGET, "no more"),), {"blocked_since": NOW, "next_slot": None}
    ),
    "a slot has waited since an earlier look": Kept(
        state("13:00", blocked_since=at("14:01")),
        (Wait(E, at("14:00"), Reason.BUDGET, "no more"),),
        {"blocked_since": at("14:01"), "blocked_reason": "over budget: no more"},
    ),
    "its entry has had its turn by this tick: it waits behind those that have had none": Kept(
        state("13:00", blocked_since=at("14:01")),
        (Adopt(FIRST, "7"), Wait(E, NOW, Reason.BUDGET, "no more")),
        {"blocked_since": NOW + 1, "blocked_reason": "over budget: no more"},
    ),
    "the job of a lost answer is found: its entry has had its turn, and a slot before it has its own": Kept(
        state("13:00", blocked_since=at("14:01"), blocked_reason="no answer"),
        (Adopt(FIRST, "7"),),
        {"blocked_since": 0, "blocked_reason": "", "watermark": at("13:00")},
    ),
    "… and its slot is still to come": Kept(
        state("13:00", blocked_since=at("14:01")),
        (Adopt(key("e", "15:00"), "7"),),
        {"blocked_since": 0, "watermark": at("13:00")},
    ),
    "a slot that has not come waits for nothing": Kept(
        state("14:00", next_slot=at("15:00")),
        (Wait(E, at("15:00"), Reason.BUDGET, "no more"),),
        {"blocked_since": 0, "next_slot": at("15:00")},
    ),
    "the tick before went by a clock that was days ahead: what it noted of an entry that is away is forgotten": Kept(
        state("14:00", next_slot=at("2026-11-30 10:00")), (), {"next_slot": None}, {"last_tick": at("2026-11-30 09:30")}
    ),
    "a run fails": Kept(
        state("14:00", failures=1), (Finish(FIRST, "e", JobEnd(Result.FAILED)),), {"failures": 2, "last": str(FIRST)}
    ),
    "a run has ended whose record was removed": Kept(
        state("14:00"),
        (Finish(AGAIN, "e", JobEnd(Result.OK), job_id="9"),),
        {"last": str(AGAIN), "job": "9", "log": AGAIN.log("9")},
    ),
    "a slot that failed runs well by hand": Kept(
        state("14:00", failures=1, last=last("14:00")),
        (Finish(AGAIN, "e", JobEnd(Result.OK)),),
        {"failures": 0, "last": str(AGAIN)},
    ),
    "… and its entry is suspended: that is for its owner to end": Kept(
        state("14:00", failures=2, suspended=at("14:01")),
        (Finish(AGAIN, "e", JobEnd(Result.OK)),),
        {"failures": 2, "suspended": at("14:01")},
    ),
    "a tick died before it wrote down that a run had failed": Kept(
        state("13:00", failures=1), (), {"failures": 2, "last": str(FIRST)}, {"claims": (ENDED,)}
    ),
    "… or as it removed what led to that, which it had written down": Kept(
        state("14:00", failures=1, finished=str(FIRST)), (), {"failures": 1}, {"claims": (ENDED,)}
    ),
    "accounting tells at last how the last run ended": Kept(
        state("14:00", last=last("14:00", result="unknown")),
        (),
        {"last": str(FIRST), "result": "failed", "given_up": {}},
        {"given_up": {str(FIRST): ("7", at("14:01"))}, "job_ends": {"7": JobEnd(Result.FAILED)}},
    ),
    "accounting knows no more than before": Kept(
        state("14:00", last=last("14:00", result="unknown")),
        (),
        {"result": "unknown", "given_up": {str(FIRST): ("7", at("14:01"))}},
        {"given_up": {str(FIRST): ("7", at("14:01"))}, "job_ends": {"7": JobEnd(Result.UNKNOWN)}},
    ),
    "accounting has told nothing for more than a day: it is not asked any more": Kept(
        state("14:00", last=last("14:00", result="unknown")),
        (),
        {"result": "unknown", "given_up": {}},
        {"given_up": {str(FIRST): ("7", at("2026-11-26 14:04"))}, "job_ends": {"7": JobEnd(Result.UNKNOWN)}},
    ),
    "accounting tells at last of a run before the last": Kept(
        state("15:00", last=last("14:00", result="ok")),
        (),
        {"result": "ok", "given_up": {}},
        {"given_up": {str(key("e", "13:00")): ("6", at("13:59"))}, "job_ends": {"6": JobEnd(Result.FAILED)}},
    ),
}


@pytest.mark.parametrize("s", SITUATIONS.values(), ids=SITUATIONS)
def test_what_is_kept_of_an_entry(tmp_path: Path, s: Kept) -> None:
    jobs = (Job("7", "COMPLETED"),)
    claims = tuple(claim("e", "14:00", ClaimState.RELEASED, "7") for _ in s.decisions[:1])
    w = world("14:05", E, states={"e": s.before}, jobs=jobs, **{"claims": claims, **s.world})
    reading: Any = SimpleNamespace(world=w, memory=Memory(entries={"e": s.before}), problems=())
    outcomes = [Outcome(each, s.done) for each in s.decisions]
    site: Any = SimpleNamespace(paths=Paths(tmp_path))
    kept = _Keeper(site, reading, Plan(s.decisions, NOW, s.next_slots), outcomes)
    after = kept.states["e"]
    last = {name: after.last.get(name) for name in ("result", "job", "log", "detail")}
    found = {"last": after.last.get("key"), **last, "rows": len(kept.rows), "given_up": kept.given_up}
    assert {name: found[name] if name in found else getattr(after, name) for name in s.expected} == s.expected


@pytest.mark.parametrize("waited", ["", "over budget"])
def test_slots_of_an_edited_schedule_that_could_not_be_passed_over_are_told_by_the_next_tick(
    tmp_path: Path, waited: str
) -> None:
    edited = entry(schedule="40 * * * *", born="12:25")
    before = {"e": state("10:00", schedule_key="0 * * * *|UTC|", blocked_reason=waited)}
    seen = world("12:30", edited, states=before, last_tick=at("10:30"))
    reading: Any = SimpleNamespace(world=seen, memory=Memory(entries=before), problems=())
    site: Any = SimpleNamespace(paths=Paths(tmp_path))
    made, why = plan(seen), "another tick has claimed one of its slots meanwhile"
    assert planned(seen) == ["used up 12:00 missed (2)", "wait 12:40 not due"]
    refused = [Outcome(each, Done.REFUSED, why) for each in made.decisions if isinstance(each, Skip)]
    states = _Keeper(site, reading, made, refused).states
    others, its_job = claim("e", "11:00", ClaimState.RELEASED, "7"), job(7, of=key("e", "11:00"))
    then = world("12:35", edited, states=states, claims=(others,), jobs=(its_job,), last_tick=at("12:30"))
    assert planned(then) == ["used up 12:00 missed (1)", "wait 12:40 not due"]
    (told,) = (each for each in plan(then).decisions if isinstance(each, Skip))
    assert told.detail == f"its schedule was changed before that; at the last look: {waited or why}"


AWAY = (at("12:00"), at("13:00"))
SEEN: dict[str, tuple[tuple[Entry, ...], tuple[int, int] | None, tuple[int, int] | None]] = {
    "its file is seen no more": ((), None, (at("14:00"), NOW)),
    "nor was it by a tick before": ((), AWAY, AWAY),
    "it is back": ((E,), AWAY, None),
    "it is back, and its schedule cannot be read": ((replace(E, schedule=""),), AWAY, AWAY),
    "it is there, and its schedule cannot be read": ((replace(E, schedule=""),), None, None),
}


@pytest.mark.parametrize(("there", "before", "expected"), SEEN.values(), ids=SEEN)
def test_since_when_ticks_have_not_seen_the_file_of_an_entry(
    tmp_path: Path, there: tuple[Entry, ...], before: tuple[int, int] | None, expected: tuple[int, int] | None
) -> None:
    """What came back with another schedule had missed slots of the time in which it was away."""
    known = {"e": state("13:00", unseen=before)}
    seen = world("14:05", *there, states=known, last_tick=at("14:00"))
    reading: Any = SimpleNamespace(world=seen, memory=Memory(entries=known), problems=())
    site: Any = SimpleNamespace(paths=Paths(tmp_path))
    keeper = _Keeper(site, reading, Plan((), NOW), ())
    keeper._note_unseen()
    assert keeper.states["e"].unseen == expected


DONE = JobEnd(Result.OK)


class Left(NamedTuple):
    """Claims on disk; the finished ones that were read; which are forgotten, and which is the newest that stays."""

    claims: tuple[Claim, ...]
    forgotten: list[str]
    stays: dict[str, str]
    names: dict[str, str] = {"e": "e"}  # noqa: RUF012 - a table's row


def done(clock: str, attempt: int = 1, *, by_hand: bool = False, **more: Any) -> Claim:
    return replace(
        claim("e", clock, ClaimState.FINISHED, "7", attempt, job_end=DONE, **more),
        key=key("e", clock, attempt, by_hand=by_hand),
    )


T12, T13, T14 = "e@20261127T1200Z.1", "e@20261127T1300Z.1", "e@20261127T1400Z.1"
LEFT: dict[str, Left] = {
    "the newest finished one stays": Left((done("12:00"), done("13:00")), [T12], {"e": T13}),
    "a newer one runs: it tells nothing of those before it": Left(
        (done("12:00"), done("13:00"), claim("e", "14:00", ClaimState.RELEASED, "8")), [T12], {"e": T13}
    ),
    "a newer one is by hand: the newest of the schedule stays": Left(
        (done("13:00"), done("14:00", by_hand=True)), ["e@20261127T1400Z.r1"], {"e": T13}
    ),
    "a newer one is of a clock that was ahead: forgotten": Left(
        (done("13:00"), done("2030-01-01 00:00")), ["e@20300101T0000Z.1"], {"e": T13}
    ),
    "one waits for a further attempt: left alone": Left((done("13:00", retry_at=NOW), done("14:00")), [], {"e": T14}),
    "… which is made: forgotten": Left((done("13:00", retry_at=NOW), done("13:00", 2)), [T13], {"e": T13[:-1] + "2"}),
    "its entry is gone: forgotten": Left((done("13:00"),), [T13], {}, {}),
    "two were started by hand and ended before their slots: both stay until those have come": Left(
        (done("13:00"), done("15:00"), done("16:00")), [T13], {"e": "e@20261127T1600Z.1"}
    ),
    "… and their entry is gone: it may come back by then": Left((done("15:00"), done("16:00")), [], {}, {}),
    "an earlier slot was due when the newest ended: it stays beside the newest that uses up all before it": Left(
        (done("12:00"), done("13:00"), done("14:00", due=at("13:30"))), [T12], {"e": T13}
    ),
    "… also while the entry is gone: that slot waits for its return": Left(
        (done("14:00", due=at("13:00")),), [], {}, {}
    ),
    "… and a newer one has ended since: forgotten": Left(
        (done("13:00", due=at("12:30")), done("14:00")), [T13], {"e": T14}
    ),
    "known to be finished, and not opened: forgotten as well": Left(
        (claim("e", "12:00", ClaimState.FINISHED), done("13:00")), [T12], {"e": T13}
    ),
}


@pytest.mark.parametrize("s", LEFT.values(), ids=LEFT)
def test_of_finished_claims_the_newest_of_an_entry_stays(s: Left) -> None:
    finished = [each for each in s.claims if each.job_end is not None]
    forgotten, stays = _outlived(finished, s.claims, s.names, range(at("14:05") + 1, at("23:59")))
    assert ([str(each) for each in forgotten], stays) == (s.forgotten, s.stays)


def test_submissions_are_counted_by_the_minute_and_apart_by_entry_beyond_its_schedule(tmp_path: Path) -> None:
    w = world("14:05", E, recent=((NOW // 60 - 1, "", 7),))
    reading: Any = SimpleNamespace(world=w, memory=Memory(), problems=())
    site: Any = SimpleNamespace(paths=Paths(tmp_path))
    kept = _Keeper(site, reading, Plan((), NOW), [])
    counted = []
    for beyond in (False, False, True, True):
        kept._count_submission(FIRST, beyond=beyond)
        counted.append(kept.kept.recent)
    before, minute = (NOW // 60 - 1, "", 7), NOW // 60
    assert counted[:2] == [(before, (minute, "", 1)), (before, (minute, "", 2))]
    total = {name: sum(n for at, of, n in counted[-1] if (at, of) == (minute, name)) for name in ("", "e")}
    assert total == {"": 4, "e": 2}


class Noted(NamedTuple):
    """What of the chain is written down: links on record, the successor, the batch system, an administrator's word."""

    world: dict[str, Any]
    links: list[str]
    successor: str = "8"
    found: str = "slurm"
    word: str = ""
    decisions: tuple[Decision, ...] = ()


CANCELLED = (LeaveChain(LeaveCause.CANCELLED, "bob cancelled it"),)
CHAIN: dict[str, Noted] = {
    "records of links that ended more than an hour ago go": Noted({}, ["8", "9"]),
    "the queue gives no answer: they stay": Noted({"jobs": None}, ["7", "8", "9"], found=""),
    "an administrator's word is kept, and no successor": Noted(
        {"chain": chain(on_hold="bob cancelled it")}, ["8", "9"], "", word="bob cancelled it", decisions=CANCELLED
    ),
    "somebody holds a link: that shows itself": Noted(
        {"chain": chain(on_hold="bob holds it")},
        ["8", "9"],
        decisions=(LeaveChain(LeaveCause.HELD, "bob holds it"),),
    ),
    "no chain of links: no successor": Noted({"chain": chain(via=Way.SCRONTAB)}, ["8", "9"], ""),
    "a look at one entry: the successor stays as it was": Noted({"only": "e"}, ["8", "9"], ""),
}


@pytest.mark.parametrize("s", CHAIN.values(), ids=CHAIN)
def test_what_is_written_down_of_the_chain(tmp_path: Path, s: Noted) -> None:
    paths = Paths(tmp_path)
    paths.scheduler.mkdir()
    records = {
        number: LinkRecord(LinkKind.SUCCESSOR, NOW, "f", NOW - ago)
        for number, ago in (("7", 4000), ("8", 4000), ("9", 60))
    }
    for number, record in records.items():
        scheduler.remember_link(paths, number, record)
    facts = {"jobs": (link(8, "15:00"),), "chain": chain(), "links": records, "successor": "8", **s.world}
    reading: Any = SimpleNamespace(world=world("14:05", E, **facts), memory=Memory(), problems=())
    site: Any = SimpleNamespace(paths=paths, batch=SimpleNamespace(dialect=SLURM))
    _Keeper(site, reading, Plan(s.decisions, NOW), []).write_chain()
    assert sorted(scheduler.links(paths)) == s.links
    assert (scheduler.successor_noted(paths), scheduler.batch_system_found(paths)) == (s.successor, s.found)
    assert scheduler.admins_word(paths) == s.word
