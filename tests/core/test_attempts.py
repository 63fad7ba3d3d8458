"""What is done about attempts that are claimed and not finished, and about links: tables of queues."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cronhpc.batch.port import Refused, Submission
from cronhpc.core import chain as core_chain
from cronhpc.core.attempts import Meanwhile
from cronhpc.core.identity import records
from cronhpc.core.model import (
    IN_ORDER,
    Accounting,
    BadNode,
    Cancel,
    CatchUp,
    Claim,
    ClaimState,
    Decision,
    Done,
    Entry,
    Fault,
    Finish,
    Hold,
    Job,
    JobEnd,
    Key,
    LinkKind,
    LinkRecord,
    MoveLink,
    NodeFault,
    Outcome,
    Problem,
    Reason,
    Release,
    Result,
    Scope,
    Settings,
    Skip,
    Still,
    Stop,
    Submit,
    SubmitLink,
    Unhold,
    Wait,
    Way,
    Withdraw,
    World,
)
from cronhpc.core.plan import plan
from cronhpc.core.slots import schedule_key, text_key
from cronhpc.cron.values import by_field, dataclass, defaults
from cronhpc.engine import record
from cronhpc.engine.act import Actor
from cronhpc.engine.submit import Progress
from cronhpc.script.dialect import GRID_ENGINE, PBS
from cronhpc.store import scheduler
from cronhpc.store.files import Paths
from tests.worlds import (
    ID,
    PRINT,
    at,
    chain,
    claim,
    clock,
    entry,
    held,
    job,
    key,
    link,
    planned,
    said,
    state,
    switch,
    world,
)

E = entry(deadline=3600)
USED = {"e": state("14:00")}
K = key("e", "14:00")


def unfinished(step: ClaimState, *jobs: Job, job_id: str | None = None, now: str = "14:05", **more: Any) -> World:
    entries = more.pop("entries", (E,))
    of = more.pop("of", {})
    mine = claim("e", "14:00", step, job_id, **{each: of[each] for each in of if each != "by_hand"})
    mine = replace(mine, key=replace(mine.key, by_hand=of.get("by_hand", False)))
    return world(now, *entries, jobs=jobs, states=USED, claims=(mine,), **more)


def decided(w: World) -> list[str]:
    """What is done about attempts and links; of a submission why, and which attempt it is."""
    others = Skip | Wait | Stop | Hold | Unhold
    return [
        f"{d.reason} #{d.key.attempt}" if isinstance(d, Submit) else said(d)
        for d in plan(w).decisions
        if not isinstance(d, others)
    ]


CLAIMED, SUBMITTED = ClaimState.CLAIMED, ClaimState.SUBMITTED
RELEASING, RELEASED, FINISHED = ClaimState.RELEASING, ClaimState.RELEASED, ClaimState.FINISHED

DAMAGED = {"damaged": True}
MISSED = {"7": at("14:03")}  # by an earlier look, two minutes ago

ATTEMPTS: dict[str, tuple[World, list[str]]] = {
    "claimed, and its held job is in the queue: adopted and released": (
        unfinished(CLAIMED, held(7, K)),
        ["adopt 7", "release 7"],
    ),
    "claimed, and two held jobs came of it: the lowest id is adopted": (
        unfinished(CLAIMED, held(12, K), held(9, K)),
        ["adopt 9", "cancel 12", "release 9"],
    ),
    "damaged, and no job anywhere: it may have run": (
        unfinished(CLAIMED, of=DAMAGED),
        ["finish ended, outcome unknown"],
    ),
    "damaged while the queue was being asked: looked at again": (
        unfinished(CLAIMED, of={**DAMAGED, "fresh": True}),
        [],
    ),
    "damaged, and its job runs: waited for": (unfinished(SUBMITTED, job(7, of=K), of=DAMAGED), []),
    "damaged, and its job was held: that can be released by no record": (
        unfinished(SUBMITTED, held(7, K), of=DAMAGED),
        ["cancel 7", "finish ended, outcome unknown"],
    ),
    "damaged after its release, and held since by somebody: waited for": (
        unfinished(RELEASED, held(7, K), of=DAMAGED),
        [],
    ),
    "damaged, and its job has failed: no second attempt": (
        unfinished(RELEASED, job(7, "FAILED", of=K), of=DAMAGED, entries=(entry(deadline=3600, retries=3),)),
        ["finish failed"],
    ),
    "damaged, and nobody can be asked how it ended: looked at again": (
        unfinished(RELEASED, job_id="7", of=DAMAGED, job_ends=None),
        [],
    ),
    "claimed, and no job anywhere: submitted again": (unfinished(CLAIMED), ["again #1"]),
    "claimed while the queue was being asked: another tick is at work": (unfinished(CLAIMED, of={"fresh": True}), []),
    "claimed, no job, and its script is invalid since: it waits": (
        unfinished(CLAIMED, entries=(entry(deadline=3600, problem=Problem("E224", "x", "y")),)),
        [],
    ),
    "claimed, no job, and its script changed in the last seconds: it waits": (
        unfinished(CLAIMED, entries=(entry(deadline=3600, fresh=True),)),
        [],
    ),
    "claimed, no job, past its deadline: missed": (unfinished(CLAIMED, now="15:05"), ["finish missed", "submit #1"]),
    "claimed, no job, its deadline has just passed: a list of a minute ago may lack it": (
        unfinished(CLAIMED, now="14:31", entries=(entry(deadline=1800),)),
        [],
    ),
    "… it is listed: adopted and released": (
        unfinished(CLAIMED, held(7, K), now="14:31:50", entries=(entry(deadline=1800),)),
        ["adopt 7", "release 7"],
    ),
    "… it is not there two minutes after its deadline: missed": (
        unfinished(CLAIMED, now="14:32", entries=(entry(deadline=1800),)),
        ["finish missed"],
    ),
    "… the next slot has come: that one's turn": (
        unfinished(CLAIMED, now="14:31", entries=(entry(schedule="*/30 * * * *", deadline=1800),)),
        ["finish missed", "submit #1"],
    ),
    "claimed, no job, the entry is gone: missed": (unfinished(CLAIMED, entries=()), ["finish missed"]),
    "claimed, no job, a kill switch stands: stopped": (
        unfinished(CLAIMED, switches=(switch("e"),)),
        ["finish stopped"],
    ),
    "claimed, the held job was cancelled by someone: finished": (
        unfinished(CLAIMED, job(7, "CANCELLED", of=K)),
        ["finish cancelled"],
    ),
    "claimed, its job has ended, and nobody recorded which that was: finished": (
        unfinished(CLAIMED, job(7, "COMPLETED", of=K)),
        ["finish ok"],
    ),
    "… an array of which one task has failed": (
        unfinished(CLAIMED, job(7, "COMPLETED", of=K, tasks="1"), job(7, "FAILED", of=K, tasks="2")),
        ["finish failed"],
    ),
    "recorded and held: released": (unfinished(SUBMITTED, held(7, K), job_id="7"), ["release 7"]),
    "recorded, and a late twin is held: the twin goes": (
        unfinished(SUBMITTED, held(7, K), held(9, K), job_id="7"),
        ["release 7", "cancel 9"],
    ),
    "recorded, and a late twin runs: what has begun is left alone": (
        unfinished(RELEASED, job(7, of=K), job(9, of=K), job_id="7"),
        [],
    ),
    "recorded and held, a kill switch stands: cancelled": (
        unfinished(SUBMITTED, held(7, K), job_id="7", switches=(switch("e"),)),
        ["cancel 7", "finish stopped"],
    ),
    "recorded, and somebody released it by hand: marked": (
        unfinished(SUBMITTED, job(7, "RUNNING", of=K), job_id="7"),
        ["mark 7"],
    ),
    "recorded, never released, and not shown for the first time: looked at again": (
        unfinished(SUBMITTED, job_id="7"),
        [],
    ),
    "recorded, never released, and gone: it never ran, so once more": (
        unfinished(SUBMITTED, job_id="7", absent=MISSED),
        ["finish lost retry"],
    ),
    "recorded, never released, and gone since before its deadline: missed": (
        unfinished(SUBMITTED, job_id="7", absent=MISSED, now="15:05"),
        ["finish missed", "submit #1"],
    ),
    "recorded by another tick while the queue was being asked: left alone": (
        unfinished(SUBMITTED, job_id="7", of={"fresh": True}),
        [],
    ),
    "the release may have been sent, and it is held still: released": (
        unfinished(RELEASING, held(7, K), job_id="7"),
        ["release 7"],
    ),
    "the release was sent: marked": (unfinished(RELEASING, job(7, of=K), job_id="7"), ["mark 7"]),
    "the release may have been sent, and it is not shown for the first time: looked at again": (
        unfinished(RELEASING, job_id="7"),
        [],
    ),
    "the release may have been sent, and it is gone: it may have run, never again": (
        unfinished(RELEASING, job_id="7", absent=MISSED),
        ["finish ended, outcome unknown"],
    ),
    "released and running: nothing": (unfinished(RELEASED, job(7, of=K), job_id="7"), []),
    "released, then held by its user: that is the user's word": (unfinished(RELEASED, held(7, K), job_id="7"), []),
    "released and completed: ok": (unfinished(RELEASED, job(7, "COMPLETED", of=K), job_id="7"), ["finish ok"]),
    "released and completed, and accounting gave no answer: looked at again": (
        unfinished(RELEASED, job(7, "COMPLETED", of=K), job_id="7", job_ends=None),
        [],
    ),
    "released and failed: failed": (unfinished(RELEASED, job(7, "FAILED", of=K), job_id="7"), ["finish failed"]),
    "released and failed, retries left: a further attempt": (
        unfinished(RELEASED, job(7, "FAILED", of=K), job_id="7", entries=(entry(retries=2, deadline=3600),)),
        ["finish failed retry"],
    ),
    "released and cancelled, retries left: a killed run is not retried": (
        unfinished(RELEASED, job(7, "CANCELLED", of=K), job_id="7", entries=(entry(retries=2, deadline=3600),)),
        ["finish cancelled"],
    ),
    "released and gone, accounting knows: its word": (
        unfinished(RELEASED, job_id="7", job_ends={"7": JobEnd(Result.OUT_OF_MEMORY)}),
        ["finish out of memory"],
    ),
    "an array with one failed task has failed": (
        unfinished(RELEASED, job(7, "COMPLETED", of=K, tasks="1"), job(7, "FAILED", of=K, tasks="2"), job_id="7"),
        ["finish failed"],
    ),
    "an array with a task left has not ended": (
        unfinished(RELEASED, job(7, "FAILED", of=K, tasks="1"), job(7, "PENDING", of=K, tasks="[2]"), job_id="7"),
        [],
    ),
    "finished, and a job of it turns up late, held: cancelled": (unfinished(FINISHED, held(9, K)), ["cancel 9"]),
    "finished, its retry is due: attempt 2": (
        unfinished(FINISHED, of={"job_end": JobEnd(Result.FAILED), "retry_at": at("14:04")}),
        ["retry #2"],
    ),
    "finished, its retry is not due yet: nothing": (
        unfinished(FINISHED, of={"job_end": JobEnd(Result.FAILED), "retry_at": at("14:30")}),
        [],
    ),
    "finished, its retry is due when the next slot is: that one alone, or two would run at once": (
        unfinished(
            FINISHED,
            of={"job_end": JobEnd(Result.FAILED), "retry_at": at("14:59")},
            entries=(entry(retries=2),),
            now="15:00",
        ),
        ["finish failed", "submit #1"],
    ),
    "finished, its retry is due, and its entry has had as many as it may beyond its schedule: it waits": (
        unfinished(
            FINISHED,
            of={"job_end": JobEnd(Result.FAILED), "retry_at": at("14:04")},
            settings={"budget_entry": 3},
            recent=((at("13:30") // 60, "e", 1), (at("13:40") // 60, "e", 2)),
        ),
        [],
    ),
    "submitted ahead, and its entry is gone: cancelled": (
        unfinished(RELEASED, job(7, "PENDING", of=K), job_id="7", now="13:58", entries=()),
        ["cancel 7", "finish cancelled"],
    ),
    "submitted ahead, and stopped since: cancelled": (
        unfinished(RELEASED, job(7, "PENDING", of=K), job_id="7", now="13:58", switches=(switch("e"),)),
        ["cancel 7", "finish stopped"],
    ),
    "a held job with the token of another cron directory is not ours": (
        world(
            "14:05", E, jobs=(job(9, "PENDING", comment="cronhpc=ffffff/" + str(K), reason="JobHeldUser"),), states=USED
        ),
        [],
    ),
    "a held job of a slot that was archived long ago came late: cancelled": (
        world("14:05", E, jobs=(held(9, key("e", "12:00")),), states=USED),
        ["cancel 9"],
    ),
    "the batch system does not answer: nothing": (
        world("14:05", E, jobs=None, states=USED, claims=(claim("e", "14:00", SUBMITTED, "7"),)),
        [],
    ),
}


@pytest.mark.parametrize(("situation", "expected"), ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_an_unfinished_attempt_goes_on_from_where_it_was_left(situation: World, expected: list[str]) -> None:
    assert sorted(decided(situation)) == sorted(expected)


BESIDE = {  # what comes of the slot that is due when the tick submits a further attempt of the one before, by --overlap
    "skip": ["retry 14:00 #2", "used up 15:00 skipped (1)", "wait 16:00 not due"],
    "queue": ["retry 14:00 #2", "wait 15:00 waits for the previous run"],
    "allow": ["retry 14:00 #2", "submit 15:00", "wait 16:00 not due"],
}


@pytest.mark.parametrize(("overlap", "expected"), BESIDE.items(), ids=BESIDE)
def test_a_slot_that_is_due_with_a_further_attempt_gives_way_as_to_a_run(overlap: str, expected: list[str]) -> None:
    of = {"job_end": JobEnd(Result.FAILED), "retry_at": at("14:59")}
    entries = (entry(retries=2, deadline=7200, overlap=overlap),)
    assert planned(unfinished(FINISHED, of=of, entries=entries, now="15:00:07")) == expected


NO_MORE: dict[str, tuple[dict[str, Any], str]] = {
    "the next slot has come": ({"now": "15:00"}, "it could not be submitted before its deadline"),
    "… and the last look met an obstacle": (
        {"now": "15:00", "met": "QOSMaxSubmitJob"},
        "it could not be submitted before its deadline; at the last look: QOSMaxSubmitJob",
    ),
    "a kill switch stands": ({"switches": (switch("e"),)}, switch("e").in_words),
    "its entry is gone": ({"entries": ()}, "its entry is gone"),
}


@pytest.mark.parametrize(("more", "why"), NO_MORE.values(), ids=NO_MORE)
def test_why_no_further_attempt_comes_is_told_with_the_failure(more: dict[str, Any], why: str) -> None:
    of, met = {"job_end": JobEnd(Result.FAILED, detail="exit"), "retry_at": at("14:04")}, more.get("met", "")
    more = {"entries": (entry(retries=2),)} | {name: more[name] for name in more if name != "met"}
    situation = replace(unfinished(FINISHED, of=of, **more), states={"e": replace(USED["e"], blocked_reason=met)})
    (end,) = (each for each in plan(situation).decisions if isinstance(each, Finish))
    assert (end.job_end.detail, end.retry_at) == (f"exit; attempt 2 is not submitted: {why}", None)


def test_a_job_that_has_ended_is_named_with_its_end_where_nobody_recorded_it() -> None:
    """Its claim's step was removed by hand: the run ended as ok, without its job and its log."""
    ends = [each for each in plan(unfinished(CLAIMED, job(7, "COMPLETED", of=K))).decisions if isinstance(each, Finish)]
    assert [each.job_id for each in ends] == ["7"]


EDITED = replace(E, schedule="3 * * * *", born=at("13:57"))
LIFTED = job(7, "CANCELLED", of=K, ended=at("13:55"))
AFTER = job(8, "PENDING", of=key("e", "15:00"), reason="BeginTime")


def ahead(
    *jobs: Job, step: ClaimState = RELEASED, now: str = "13:58", back: str = "", later: str | None = None, **more: Any
) -> World:
    """14:00 was submitted ahead, with the text that the entry had; `back`: the job that a tick has taken back.

    `later`: the same of 15:00, whose job is 8; None: that has not been submitted.
    """
    mine = replace(claim("e", "14:00", step, None if step is CLAIMED else "7"), at=at("13:00"), holds=text_key(E))
    mine = replace(mine, taken_back=back)
    next_one = replace(claim("e", "15:00", RELEASED, "8"), at=at("13:00"), holds=text_key(E), taken_back=later or "")
    known = state("13:00", schedule_key=schedule_key(E))
    claims = (mine,) if later is None else (mine, next_one)
    more = {"states": {"e": known}, "claims": claims, "link": "9", "chain": chain(), **more}
    return world(now, *more.pop("entries", (E,)), jobs=jobs, **more)


def ticked_at(clock: str, w: World) -> World:
    """The tick before was then."""
    return replace(w, kept=replace(w.kept, last_tick=at(clock)))


WAITS = job(7, "PENDING", of=K, reason="BeginTime")
AHEAD: dict[str, tuple[World, list[str]]] = {
    "all as it was: it waits for its slot": (ahead(WAITS), []),
    "its entry is gone": (ahead(WAITS, entries=()), ["withdraw 7"]),
    "a kill switch stands": (ahead(WAITS, switches=(switch("e"),)), ["withdraw 7"]),
    "a pause stands: cancelled, and not held first": (ahead(WAITS, switches=(switch("e", "pause"),)), ["withdraw 7"]),
    "the switch was lifted before its slot came: due again": (ahead(LIFTED, claims=()), ["ahead #1"]),
    "… and when its slot has come, though the queue still knows the cancelled job": (
        ahead(LIFTED, claims=(), now="14:01"),
        ["submit #1"],
    ),
    "somebody has cancelled it: it stays so": (ahead(LIFTED), []),
    "… and start is called: if all else went with it, it is queued again": (
        ahead(LIFTED, anew=True),
        ["withdraw 7", "again #1"],
    ),
    "… and start is called where a chain is: it stays so": (ahead(LIFTED, scope=Scope.LINKS), []),
    "… also where only accounting still tells that": (
        ahead(anew=True, job_ends={"7": JobEnd(Result.CANCELLED, ended=at("13:55"))}),
        ["withdraw 7", "again #1"],
    ),
    "… and it ran before its time: that was its run": (
        ahead(anew=True, job_ends={"7": JobEnd(Result.CANCELLED, started=at("13:50"), ended=at("13:55"))}),
        [],
    ),
    "… it alone was cancelled, and others wait": (ahead(LIFTED, AFTER, later="", anew=True), []),
    "its entry is suspended": (ahead(WAITS, states={"e": state("13:00", suspended=at("13:50"))}), ["withdraw 7"]),
    "its schedule was edited: withdrawn, and the new one's slot goes in this very tick": (
        ahead(WAITS, entries=(EDITED,), now="13:59"),
        ["withdraw 7", "ahead #1"],
    ),
    "only a policy was edited": (ahead(WAITS, entries=(entry(deadline=60),)), ["withdraw 7", "again #1"]),
    "its file was not seen just now: left": (
        ahead(WAITS, entries=(replace(E, problem=Problem("E311", "its file was not seen just now;", "")),)),
        [],
    ),
    "changed in the last seconds: looked at again": (ahead(WAITS, entries=(replace(EDITED, fresh=True),)), []),
    "edited, and its slot has come: it runs": (ahead(WAITS, entries=(EDITED,), now="14:00:30"), ["ahead #1"]),
    "somebody has cancelled it: nothing is told before its slot has come": (ahead(LIFTED), []),
    "a tick that was killed had cancelled it: the claim follows": (ahead(LIFTED, entries=()), ["withdraw 7"]),
    "somebody has let it run before its time: that was its run": (
        ahead(job(7, "CANCELLED", of=K, ended=at("13:55"), nodes="cpu1"), entries=(EDITED,)),
        [],
    ),
    "somebody has cancelled it while it was held, nobody tells when: not submitted again": (
        ahead(job(7, "CANCELLED", of=K), step=SUBMITTED),
        [],
    ),
    "… then it is": (ahead(LIFTED, now="14:01"), ["finish cancelled"]),
    "held, its id recorded, and edited since": (
        ahead(held(7, K), step=SUBMITTED, entries=(EDITED,), now="13:59"),
        ["withdraw 7", "ahead #1"],
    ),
    "the held job is not shown for the first time: looked at again": (ahead(step=SUBMITTED), []),
    "the held job has vanished: once more": (
        ahead(step=SUBMITTED, absent={"7": at("13:56")}),
        ["withdraw 7", "again #1"],
    ),
    "claimed, no job, and a switch stands: it waits for its slot": (ahead(step=CLAIMED, switches=(switch("e"),)), []),
    "… when its slot has come: that is told": (
        ahead(step=CLAIMED, switches=(switch("e"),), now="14:01"),
        ["finish stopped"],
    ),
    "… and the entry is suspended": (
        ahead(step=CLAIMED, states={"e": state("13:00", suspended=at("13:50"))}),
        [],
    ),
    "claimed, no job, and its entry is gone: so is its slot": (ahead(step=CLAIMED, entries=()), ["withdraw -"]),
    "… when that has come: told": (ahead(step=CLAIMED, entries=(), now="14:01"), ["finish missed"]),
    "claimed, no job, and the schedule was edited: the claim goes with its slot": (
        ahead(step=CLAIMED, entries=(EDITED,), now="13:59"),
        ["withdraw -", "ahead #1"],
    ),
    "… when that time has come": (ahead(step=CLAIMED, entries=(EDITED,), now="14:01"), ["withdraw -", "ahead #1"]),
    "… which had come before that: told": (
        ahead(step=CLAIMED, entries=(replace(EDITED, born=at("14:01")),), now="14:01:30"),
        ["ahead #1", "finish missed"],
    ),
    "… that was seconds ago: looked at again": (ahead(step=CLAIMED, entries=(replace(EDITED, fresh=True),)), []),
    "claimed, no job, and another policy since: submitted as its entry is by now": (
        ahead(step=CLAIMED, entries=(entry(deadline=60),)),
        ["again #1"],
    ),
    "claimed, no job: submitted again": (ahead(step=CLAIMED), ["again #1"]),
    "claimed, and its job was cancelled before that was recorded: told of when its slot has come": (
        ahead(LIFTED, step=CLAIMED),
        [],
    ),
    "it was being taken back, and waits: once more, whatever became of the reason": (
        ahead(WAITS, back="7"),
        ["withdraw 7", "again #1"],
    ),
    "… it is cancelled, and what stopped it is lifted: its slot opens again": (
        ahead(LIFTED, back="7"),
        ["withdraw 7", "again #1"],
    ),
    "… when its slot has come": (ahead(LIFTED, back="7", now="14:01"), ["withdraw 7", "again #1"]),
    "… which it did before the cancel had": (
        ahead(replace(LIFTED, ended=at("14:00:05")), back="7", now="14:01"),
        ["withdraw 7", "again #1"],
    ),
    "… the entry is gone": (ahead(LIFTED, back="7", now="14:01", entries=()), ["withdraw 7"]),
    "… a list of a minute ago shows it when its slot has come: looked at again": (
        ahead(WAITS, back="7", now="14:01"),
        [],
    ),
    "… it has begun all the same: that is the slot's run": (ahead(job(7, of=K), back="7", now="14:01"), []),
    "… it had begun as it was cancelled: that was the slot's run": (
        ahead(job(7, "CANCELLED", of=K, ended=at("14:00:05"), nodes="cpu1"), back="7", now="14:01"),
        ["finish cancelled"],
    ),
    "… one of its tasks had begun": (
        ahead(LIFTED, job(7, "COMPLETED", of=K, tasks="1", nodes="cpu1"), back="7", now="14:01"),
        ["finish cancelled"],
    ),
    "… only accounting knows it, as cancelled": (
        ahead(back="7", now="14:01", job_ends={"7": JobEnd(Result.CANCELLED)}),
        ["withdraw 7", "again #1"],
    ),
    "… only accounting knows it, and it has run": (
        ahead(back="7", now="14:01", job_ends={"7": JobEnd(Result.CANCELLED, started=at("14:00"))}),
        ["finish cancelled"],
    ),
    "… it is cancelled, and accounting gives no answer: looked at again": (
        ahead(LIFTED, back="7", now="14:01", job_ends=None),
        [],
    ),
    "… it is gone at the first look: looked at again": (ahead(back="7"), []),
    "… it is gone before its slot has come": (
        ahead(back="7", absent={"7": at("13:56")}),
        ["withdraw 7", "again #1"],
    ),
    "… by a clock that is behind: it had come for the tick before": (
        ticked_at("14:01", ahead(back="7", absent={"7": at("13:56")})),
        [],
    ),
    "… the tick before went by a clock that was days ahead": (
        ticked_at("2026-12-24 14:01", ahead(back="7", absent={"7": at("13:56")})),
        ["withdraw 7", "again #1"],
    ),
    "… it is gone when that has come, and nobody tells whether it had begun": (
        ahead(back="7", now="14:03", absent={"7": at("14:01")}),
        ["finish ended, outcome unknown"],
    ),
    "… it was held still: it cannot have begun": (
        ahead(back="7", step=SUBMITTED, now="14:03", absent={"7": at("14:01")}),
        ["withdraw 7", "again #1"],
    ),
    "its tick died after it was taken back: submitted again": (ahead(LIFTED, step=CLAIMED, back="7"), ["again #1"]),
    "it was taken back twice, and the list has both": (
        ahead(job(5, "CANCELLED", of=K, ended=at("13:50")), LIFTED, step=CLAIMED, back="7"),
        ["again #1"],
    ),
    "… and the slot has come": (
        ahead(replace(LIFTED, ended=at("14:00:05")), step=CLAIMED, back="7", now="14:01"),
        ["again #1"],
    ),
    "… a list of a minute ago shows it": (ahead(WAITS, step=CLAIMED, back="7", now="14:01"), ["again #1"]),
    "… the next slot waits by then": (ahead(LIFTED, AFTER, back="7", later=""), ["withdraw 7", "again #1"]),
    "… the next slot waits when its own has come: it may be late": (
        ahead(LIFTED, AFTER, back="7", now="14:03", later=""),
        ["withdraw 7", "again #1"],
    ),
    "edited, and the next slot's reply was lost: that is adopted, and goes at the next look": (
        ahead(
            WAITS,
            held(8, key("e", "15:00")),
            claims=(
                replace(claim("e", "14:00", RELEASED, "7"), at=at("13:00"), holds="old"),
                replace(claim("e", "15:00", CLAIMED), at=at("13:00"), holds="old"),
            ),
        ),
        ["withdraw 7", "again #1", "adopt 8", "release 8"],
    ),
    "claimed and not submitted before an edit, and the next slot was claimed after it: both are submitted": (
        ahead(
            claims=(
                replace(claim("e", "14:00", CLAIMED), at=at("13:00"), holds="old"),
                replace(claim("e", "15:00", CLAIMED), at=at("13:50"), holds=text_key(E)),
            ),
            chain=chain(via=Way.LOGIN),
            settings={"ahead": 7200},
        ),
        ["again #1", "again #1"],
    ),
    "… two looks miss it before its slot, and accounting gives no answer: open again": (
        ahead(back="7", absent={"7": at("13:50")}, accounting=Accounting(exists=True, trouble="slurmdbd is down")),
        ["withdraw 7", "again #1"],
    ),
    "… and has no word of it": (
        ahead(back="7", absent={"7": at("13:50")}, accounting=Accounting(exists=True)),
        ["withdraw 7", "again #1"],
    ),
    "… one look misses it: it may be there": (ahead(back="7", absent={"7": at("13:57")}), []),
    "killed, and the next slot's reply was lost: that is adopted, and goes at the next look": (
        ahead(
            WAITS,
            held(8, key("e", "15:00")),
            claims=(
                replace(claim("e", "14:00", RELEASED, "7"), at=at("13:00"), holds=text_key(E)),
                replace(claim("e", "15:00", CLAIMED), at=at("13:00"), holds=text_key(E)),
            ),
            switches=(switch("e"),),
        ),
        ["withdraw 7", "adopt 8"],
    ),
    "… the next slot has begun by then": (
        ahead(LIFTED, replace(AFTER, state="RUNNING"), back="7", later="", now="15:00:10"),
        ["finish missed"],
    ),
    "… the next slot is taken back as well: both are submitted again": (
        ahead(LIFTED, replace(AFTER, state="CANCELLED", ended=at("13:55")), back="7", later="8"),
        ["withdraw 7", "withdraw 8", "again #1", "again #1"],
    ),
    "… the next slot was used up without a run by then": (
        ahead(LIFTED, back="7", now="15:01", states={"e": state("15:00", schedule_key=schedule_key(E))}),
        ["finish missed"],
    ),
    "withdrawn with the next slot, whose reply was lost, before the list showed that one's job: it hides no slot": (
        ahead(held(8, key("e", "15:00")), claims=()),
        ["ahead #1", "cancel 8"],
    ),
    "… and none that is due": (ahead(held(8, key("e", "15:00")), claims=(), now="14:01"), ["cancel 8", "submit #1"]),
    "claimed anew in the tick that cancelled the one before: its own job is adopted": (
        ahead(replace(LIFTED, ended=at("13:59")), held(8, K), step=CLAIMED, back="7"),
        ["adopt 8", "release 8"],
    ),
}


@pytest.mark.parametrize(("situation", "expected"), AHEAD.values(), ids=AHEAD.keys())
def test_a_run_that_waits_for_its_slot(situation: World, expected: list[str]) -> None:
    decided_on = plan(situation).decisions
    assert sorted(t for t in decided(situation) if "successor" not in t and "spare" not in t) == sorted(expected)
    assert not [d for d in decided_on if isinstance(d, Hold) and d.jobs]


def test_the_slot_of_a_run_taken_back_is_not_used_up_before_its_end_is_known() -> None:
    made = plan(ahead(WAITS, back="7", now="14:01"))
    assert made.next_slots["e"] == (schedule_key(E), at("15:00"), at("13:00"))
    assert made.wake == at("14:03"), "and the next look comes soon"


@pytest.mark.parametrize(
    ("there", "soon"),
    [
        pytest.param(job(7, of=K), False, id="it runs"),
        pytest.param(WAITS, False, id="it waits for its turn"),
        pytest.param(LIFTED, True, id="it is cancelled, and accounting gives no answer"),
    ],
)
def test_a_run_that_was_to_be_taken_back_makes_ticks_come_soon_until_it_is_clear_that_it_stays(
    there: Job, *, soon: bool
) -> None:
    """As long as such a job ran, links came every two minutes."""
    asked: dict[str, Any] = {"now": "14:10", "job_ends": None}
    assert (plan(ahead(there, back="7", **asked)).wake == at("14:12")) == soon
    assert (plan(ahead(there, back="7", **asked)).wake == plan(ahead(there, **asked)).wake) != soon


def linked(*jobs: Job, self_id: str = "10", now: str = "15:00:05", **more: Any) -> World:
    own = (link(10, "15:00", status="RUNNING"),) if self_id == "10" else ()
    facts = more.pop("facts", {})
    idle = entry(schedule="30 22 * * *")
    return world(
        now, idle, jobs=(*own, *jobs), link=self_id, chain=chain(**facts), states={"e": state("14:00")}, **more
    )


NEXT, SPARE = link(11, "16:00"), link(12, "16:30", "spare")
HANGS: dict[str, Any] = {"reason": "stuck in its start, held", "fault": Fault.STUCK}

CHAINS: dict[str, tuple[World, list[str]]] = {
    "all is well: both are kept": (linked(NEXT, SPARE), ["keep successor 11", "keep spare 12"]),
    "both are missing: both are submitted": (linked(), ["submit successor", "submit spare"]),
    "the link that was cancelled ends just now: nobody else submits a successor": (
        linked(link(9, "15:00", status="COMPLETING"), self_id=""),
        ["submit successor", "submit spare"],
    ),
    "both are missing, and another tick is at work: it submits them": (
        linked(facts={"lease_holder": "job 12 on cpu1"}),
        ["leave"],
    ),
    "two successors, and another tick is at work: it takes one back": (
        linked(NEXT, link(14, "16:00"), SPARE, facts={"lease_holder": "job 12 on cpu1"}),
        ["leave"],
    ),
    "the spare stands where the last interval left it: pushed": (
        linked(NEXT, link(12, "15:30", "spare")),
        ["keep successor 11", "move spare 12"],
    ),
    "… while there is no successor: it stays, for under a limit it may be all that comes": (
        linked(link(12, "15:30", "spare")),
        ["submit successor", "keep spare 12"],
    ),
    "… and that was long ago: pushed": (
        linked(link(12, "14:30", "spare")),
        ["submit successor", "move spare 12"],
    ),
    "two successors: the lowest id stays": (
        linked(NEXT, link(14, "16:00"), SPARE),
        ["cancel successor 14", "keep successor 11", "keep spare 12"],
    ),
    "a held successor is replaced": (
        linked(link(11, "16:00", reason="JobHeldUser"), SPARE),
        ["cancel successor 11", "submit successor", "keep spare 12"],
    ),
    "a successor that was put back held after a failed launch is replaced": (
        linked(link(11, "16:00", reason="launch failed requeued held"), SPARE),
        ["cancel successor 11", "submit successor", "keep spare 12"],
    ),
    "a successor whose node does not say that it runs is replaced, and so is the spare": (
        linked(link(11, "16:00", **HANGS), link(12, "16:30", "spare", **HANGS)),
        ["cancel successor 11", "submit successor", "cancel spare 12", "submit spare"],
    ),
    "a successor whose dependency can never be satisfied is replaced": (
        linked(link(11, "16:00", reason="DependencyNeverSatisfied"), SPARE),
        ["cancel successor 11", "submit successor", "keep spare 12"],
    ),
    "a successor that waits for a partition that is down is waited for": (
        linked(link(11, "16:00", reason="PartitionDown"), SPARE),
        ["keep successor 11", "keep spare 12"],
    ),
    "a successor that holds an older text is replaced": (
        linked(link(11, "16:00", fingerprint="0ld"), SPARE),
        ["cancel successor 11", "submit successor", "keep spare 12"],
    ),
    "what its text is to be is not known: a successor is no older one": (
        replace(linked(NEXT, SPARE), chain=replace(chain(), fingerprint="")),
        ["keep successor 11", "keep spare 12"],
    ),
    "a link held by an administrator: the chain is on hold": (
        linked(link(11, "16:00", reason="JobHeldAdmin"), SPARE),
        ["leave"],
    ),
    "an administrator's word stands: the chain is on hold": (
        linked(SPARE, facts={"on_hold": "uid 0 cancelled"}),
        ["leave"],
    ),
    "stopped: what waits is cancelled": (
        world("15:00:05", jobs=(NEXT, SPARE), chain=replace(chain(), wanted=False, stopped=True)),
        ["cancel successor 11", "cancel spare 12"],
    ),
    "scheduler/ was removed: nobody has called stop, and what waits stays": (
        world("15:00:05", jobs=(NEXT, SPARE), chain=replace(chain(), wanted=False)),
        ["leave"],
    ),
    "ticks come from a scrontab: links that a chain left are cancelled": (
        linked(NEXT, SPARE, facts={"via": Way.SCRONTAB}),
        ["cancel successor 11", "cancel spare 12"],
    ),
    "three links ahead are wanted: two more are submitted": (
        linked(NEXT, SPARE, facts={"prequeue": 3}),
        ["keep successor 11", "submit successor", "submit successor", "keep spare 12"],
    ),
    "three links ahead are there: kept": (
        linked(NEXT, link(14, "17:00"), link(13, "18:00"), SPARE, facts={"prequeue": 3}),
        ["keep successor 11", "keep successor 14", "keep successor 13", "keep spare 12"],
    ),
    "a daemon wakes itself for what a switch could reach: its successor stays at the interval": (
        linked(NEXT, SPARE, job(50, name="ft"), by_daemon=True),
        ["keep successor 11", "keep spare 12"],
    ),
    "a daemon's successor is due and waits for nodes: left": (
        linked(link(11, "15:00", reason="Resources"), SPARE, by_daemon=True),
        ["keep successor 11", "keep spare 12"],
    ),
    "a daemon's link is ended while its successor waits for nodes: its last tick leaves that, too": (
        linked(link(11, "15:00", reason="Resources"), SPARE, facts={"via": Way.DAEMON}),
        ["keep successor 11", "keep spare 12"],
    ),
    "a daemon's successor has just started, and has queued none yet: left to it": (
        linked(link(11, "15:00", status="RUNNING"), SPARE, by_daemon=True),
        ["leave"],
    ),
    "without a daemon the successor comes sooner for it": (
        linked(NEXT, SPARE, job(50, name="ft")),
        ["move successor 11", "keep spare 12"],
    ),
    "by hand while a link runs that has not queued its successor yet: left to it": (
        linked(link(10, "15:00", status="RUNNING"), SPARE, self_id=""),
        ["leave"],
    ),
    "a lower link runs beside this one: left to it": (
        linked(link(8, "15:00", status="RUNNING"), SPARE),
        ["leave"],
    ),
    "a link runs, and its successor is to come: left to it": (
        linked(link(9, "15:00", status="RUNNING"), self_id="", facts={"successor_noted": "9"}),
        ["leave"],
    ),
    "a link runs, and its successor went with `stop`: it submits no other": (
        linked(link(9, "15:00", status="RUNNING"), self_id="", facts={"successor_noted": "11"}),
        ["submit successor", "submit spare"],
    ),
    "a higher link runs beside this one: ours to fix": (
        linked(link(18, "15:00", status="RUNNING"), SPARE),
        ["submit successor", "keep spare 12"],
    ),
    "a node turned out to be one that links cannot work on: what waits is told": (
        linked(NEXT, SPARE, facts={"bad_nodes_changed": True}),
        ["move successor 11", "move spare 12"],
    ),
    "there can be no spare here": (linked(NEXT, no_spare="submit limit"), ["keep successor 11"]),
    "the spare takes the place of the runs: it goes": (
        linked(NEXT, SPARE, no_spare="submit limit", no_submit_slot=True),
        ["keep successor 11", "cancel spare 12"],
    ),
    "another directory's links are not ours": (
        linked(
            job(20, "PENDING", name="cronhpc-ffffff", comment="cronhpc=ffffff/link 1 x", reason="BeginTime"),
            NEXT,
            SPARE,
        ),
        ["keep successor 11", "keep spare 12"],
    ),
}


@pytest.mark.parametrize(("situation", "expected"), CHAINS.values(), ids=CHAINS.keys())
def test_the_chain_has_one_successor_and_one_spare(situation: World, expected: list[str]) -> None:
    assert decided(situation) == expected


AGAIN = {
    "none is there": (linked(SPARE), ["10", ""]),
    "nor is there a spare, in whose place none comes again": (linked(), ["10", ""]),
    "the one that waits holds an older text": (linked(link(11, "16:00", fingerprint="0ld"), SPARE), ["10", ""]),
    "one waits, and others are wanted ahead": (linked(NEXT, SPARE), ["", ""]),
    "no link calls this tick": (linked(SPARE, self_id=""), ["", ""]),
    "elsewhere no job puts itself back": (replace(linked(SPARE), dialect=PBS), ["", ""]),
}


@pytest.mark.parametrize(("situation", "again"), AGAIN.values(), ids=AGAIN)
def test_where_a_limit_leaves_no_place_for_a_successor_the_link_that_runs_comes_again(
    situation: World, again: list[str]
) -> None:
    situation = replace(situation, chain=replace(situation.chain, prequeue=3))
    links = [each for each in plan(situation).decisions if isinstance(each, SubmitLink)]
    assert [each.again for each in links if each.kind is LinkKind.SUCCESSOR][:2] == again
    assert not any(each.again for each in links if each.kind is LinkKind.SPARE)


CROWDED = {
    "its links alone": ((NEXT, SPARE), True),
    "a run that has ended beside them": ((NEXT, SPARE, job(7, "COMPLETED", of=K)), True),
    "a run beside them": ((NEXT, SPARE, job(7, of=K)), False),
    "no spare that could make room": ((NEXT,), False),
}


@pytest.mark.parametrize(("jobs", "alone"), CROWDED.values(), ids=CROWDED)
def test_the_chain_alone_uses_a_limit_up_if_the_queue_has(jobs: tuple[Job, ...], alone: bool) -> None:  # noqa: FBT001 - a table's column
    assert core_chain.fills_the_limit(linked(*jobs)) == alone


def test_the_marks_are_this_directorys() -> None:
    assert records(world("14:00", jobs=())).key(job(1, of=K)) == K
    assert records(replace(world("14:00", jobs=()), directory_id="ffffff")).key(job(1, of=K)) is None


# --- arrays ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("w", "tasks"),
    [
        pytest.param(
            unfinished(
                FINISHED,
                job_id="7",
                entries=(entry(deadline=3600, retries=1, array="1-4%2"),),
                of={"job_end": JobEnd(Result.FAILED, tasks="1,3"), "retry_at": at("14:04")},
            ),
            "1,3",
            id="a further attempt runs the tasks that failed",
        ),
        pytest.param(
            unfinished(
                FINISHED,
                job_id="7",
                entries=(entry(deadline=3600, retries=1),),
                of={"job_end": JobEnd(Result.FAILED, tasks="1,3"), "retry_at": at("14:04")},
            ),
            "",
            id="its script is no array any more",
        ),
        pytest.param(
            unfinished(CLAIMED, entries=(entry(deadline=3600, array="1-4"),), of={"tasks": "3"}),
            "3",
            id="a further attempt whose submission was cut off keeps its tasks",
        ),
    ],
)
def test_which_tasks_of_an_array_are_submitted(w: World, tasks: str) -> None:
    (submit,) = (each for each in plan(w).decisions if isinstance(each, Submit))
    assert submit.tasks == tasks


def test_an_attempt_whose_held_job_was_lost_is_made_up_for_with_the_same_tasks() -> None:
    array = entry(deadline=3600, array="1-4")
    w = unfinished(SUBMITTED, job_id="7", absent=MISSED, entries=(array,), of={"tasks": "3"})
    (finished,) = (each for each in plan(w).decisions if isinstance(each, Finish))
    assert (finished.job_end.result, finished.job_end.tasks) == (Result.LOST, "3")


# --- a failure that suspends ---------------------------------------------------------------------------------------


def test_the_tick_that_suspends_an_entry_tries_nothing_again_and_cancels_what_waits() -> None:
    """The second slot in a row fails for good, while a further attempt is due, one run waits and one is ahead."""
    e = entry(schedule="*/2 * * * *", suspend_after=2, retries=1, deadline=7200)
    failed = JobEnd(Result.FAILED, 1, ended=at("13:35"))
    jobs = (
        job(7, "FAILED", of=key("e", "13:00", 2)),
        job(8, "PENDING", of=key("e", "14:00"), reason="Resources"),
        job(9, "PENDING", of=key("e", "14:06"), reason="BeginTime"),
    )
    claims = (
        claim("e", "13:00", RELEASED, "7", 2),
        claim("e", "13:30", FINISHED, "6", job_end=failed, retry_at=at("14:00")),
        claim("e", "14:00", RELEASED, "8"),
        claim("e", "14:06", RELEASED, "9", holds=text_key(e)),
    )
    w = world("14:05", e, jobs=jobs, claims=claims, states={"e": state("14:06", failures=1)})
    assert decided(w) == ["finish failed", "finish failed", "cancel 8", "withdraw 9"]
    once = world("14:05", e, jobs=jobs, claims=claims, states={"e": state("14:06")})
    assert decided(once) == ["finish failed", "retry #2"], "one failure suspends nothing"


SUSPENDED = {"e": state("14:00", failures=2, suspended=at("14:01"))}
STILL = {
    "its held job waits for its release: cancelled": (
        unfinished(SUBMITTED, held(7, K), job_id="7"),
        ["cancel 7", "finish suspended"],
    ),
    "claimed, and no job was ever seen: finished": (unfinished(CLAIMED), ["finish suspended"]),
    "it waits in the queue: cancelled": (unfinished(RELEASED, job(7, "PENDING", of=K), job_id="7"), ["cancel 7"]),
    "it was cancelled before it began: passed over": (
        unfinished(RELEASED, job(7, "CANCELLED", of=K), job_id="7"),
        ["finish suspended"],
    ),
    "it runs: it goes on": (unfinished(RELEASED, job(7, of=K), job_id="7"), []),
    "it was asked for by hand, and waits: it stays": (
        unfinished(RELEASED, job(7, "PENDING", of=replace(K, by_hand=True)), job_id="7", of={"by_hand": True}),
        [],
    ),
}


@pytest.mark.parametrize(("w", "expected"), STILL.values(), ids=STILL)
def test_while_an_entry_is_suspended(w: World, expected: list[str]) -> None:
    assert decided(replace(w, states=SUSPENDED)) == expected


# --- nodes on which links cannot work ------------------------------------------------------------------------------


def ended(number: int, status: str, *, signal: int | None = None, nodes: str = "cpu7", kind: str = "link") -> Job:
    comment = f"cronhpc={ID}/{kind} 1 f00d" if kind else ""
    return Job(str(number), status, comment=comment, nodes=nodes, signal=signal, ended=1000)


LAUNCHES: dict[str, tuple[Job, bool]] = {
    "Slurm could not launch it": (ended(8, "FAILED", signal=53), True),
    "nor the spare": (ended(8, "FAILED", signal=53, kind="spare"), True),
    "its node went down": (ended(8, "NODE_FAIL"), True),
    "its node did not boot": (ended(8, "BOOT_FAIL"), True),
    "it failed before it wrote down a successor: no bash there": (ended(9, "FAILED"), True),
    "it failed after that: its tick": (ended(8, "FAILED"), False),
    "it ended well": (ended(9, "COMPLETED"), False),
    "another job failed there": (ended(8, "FAILED", signal=53, kind=""), False),
    "it never had a node": (ended(8, "FAILED", signal=53, nodes=""), False),
}


@pytest.mark.parametrize(("job", "bad"), LAUNCHES.values(), ids=LAUNCHES)
def test_a_node_on_which_a_link_never_ran_is_avoided(job: Job, bad: bool) -> None:  # noqa: FBT001 - a table's column
    seen = replace(linked(job, NEXT, facts={"successor_noted": "9"}), now=2000)
    found = core_chain.failed_launches(seen)
    assert [row.node for row in found] == (["cpu7"] if bad else [])
    assert not bad or core_chain.standing(found, 2000) == found
    assert core_chain.standing(found, 1000 + 6 * 3600) == ()
    assert core_chain.bad_nodes_of(core_chain.bad_nodes_text(found)) == found
    told = [problem.what for problem in core_chain.bad_node_problems(found, 2000)]
    lost = "it was lost while one of them was there" if job.state == "NODE_FAIL" else "Slurm could not start them there"
    assert all(f"cannot work on cpu7: {lost}" in what for what in told)
    assert bool(told) == bad


def test_a_link_that_hangs_in_its_start_is_named_with_what_ends_it() -> None:
    seen = linked(link(11, "16:00", **HANGS), link(13, "16:00"), SPARE)
    (found,) = core_chain.stuck_problems(seen, GRID_ENGINE)
    assert "job 11, a link of the scheduler, is stuck in its start" in found.what
    assert found.fix.startswith("qdel -f 11 ")


def test_a_link_that_is_not_listed_yet_goes_with_the_others_when_the_scheduler_is_stopped() -> None:
    seen = linked(SPARE)
    seen = replace(seen, chain=replace(seen.chain, wanted=False, stopped=True))
    recent = {
        "21": LinkRecord(LinkKind.SUCCESSOR, seen.now + 60, "f", seen.now - 20),
        "22": LinkRecord(LinkKind.SPARE, seen.now + 90, "f", seen.now - 20),
        "23": LinkRecord(LinkKind.SUCCESSOR, seen.now + 60, "f", seen.now - 500),
        "24": LinkRecord(LinkKind.SUCCESSOR, seen.now - 10, "f", seen.now - 20),
    }
    decisions = list(core_chain.decide(replace(seen, links={**seen.links, **recent}), seen.now))
    assert [said(each) for each in decisions] == ["cancel spare 12", "cancel successor 21", "cancel spare 22"]


def test_of_two_rows_about_a_node_the_later_one_counts_and_what_is_no_row_is_left_out() -> None:
    found = core_chain.bad_nodes_of("cpu7:900:files,cpu7:500:launch,x,cpu8:soon:files,cpu9:100:python,")
    assert core_chain.standing(found, 200) == (BadNode("cpu7", 900, NodeFault.FILES),)


def test_the_first_link_is_noted_so_that_its_failed_launch_is_known(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.scheduler.mkdir()
    kinds = ((LinkKind.SPARE, "70"), (LinkKind.SUCCESSOR, "71"))
    outcomes = [Outcome(SubmitLink(kind, 100, ""), Done.OK, job_id=number) for kind, number in kinds]
    record._note_successor(paths, outcomes)
    assert scheduler.successor_noted(paths) == "71"


class Nodes:
    """A batch system that takes no job with nodes excluded, where `refuses`; it notes which were."""

    def __init__(self, *, refuses: bool) -> None:
        self.refuses = refuses
        self.asked: list[str | None] = []

    def _answer(self, excluded: str | None) -> str:
        self.asked.append(excluded)
        if self.refuses and excluded:
            raise Refused("Requested node configuration is not available")
        return "71"

    def submit(self, job: Submission) -> str:
        assert (job.output, job.chdir) == ("/dev/null", "/")
        assert job.arguments[2:] == ("0", "cpu7:9999999999:files", f"{ID}/{PRINT}")
        return self._answer(next((each.partition("=")[2] for each in job.options if "exclude" in each), None))

    def move(self, _: str, __: int, ___: str, exclude: str | None) -> None:
        self._answer(exclude)


@pytest.mark.parametrize("refuses", [False, True], ids=["another node is there", "no other node is there"])
@pytest.mark.parametrize("decision", [SubmitLink(LinkKind.SUCCESSOR, 100, ""), MoveLink(LinkKind.SUCCESSOR, "11", 100)])
def test_a_tick_keeps_links_from_such_a_node_if_there_is_another(
    tmp_path: Path,
    decision: SubmitLink | MoveLink,
    refuses: bool,  # noqa: FBT001 - a table's column
) -> None:
    batch = Nodes(refuses=refuses)
    site: Any = SimpleNamespace(paths=Paths(tmp_path), batch=batch, host="login1", settings=Settings())
    seen = linked(NEXT, facts={"bad_nodes": (BadNode("cpu7", 9999999999, NodeFault.FILES),)})
    actor = Actor(Progress(site, seen))
    outcome = Outcome(decision, Done.OK, job_id="71") if isinstance(decision, SubmitLink) else None
    assert actor._link(decision) == outcome
    assert batch.asked == ["cpu7", None][: 1 + refuses]


@pytest.mark.parametrize("kind", LinkKind)
@pytest.mark.parametrize("meanwhile", [False, True], ids=["nobody else did", "another did since the queue was asked"])
def test_a_link_is_submitted_if(tmp_path: Path, kind: LinkKind, meanwhile: bool) -> None:  # noqa: FBT001 - a column
    """A tick that stood still, or went on beside another: what it read may be old."""
    batch = Nodes(refuses=False)
    paths = Paths(tmp_path)
    paths.scheduler.mkdir()
    site: Any = SimpleNamespace(paths=paths, batch=batch, host="login1", settings=Settings())
    seen = linked(
        facts={"bad_nodes": (BadNode("cpu7", 9999999999, NodeFault.FILES),)},
        links={
            "9": LinkRecord(LinkKind.SUCCESSOR, 1, "", 1),
            "70": LinkRecord(LinkKind.SUCCESSOR, 1, "", 1, fresh=True),
        },
    )
    actor = Actor(Progress(site, seen))
    (other,) = {*LinkKind} - {kind}
    scheduler.remember_link(paths, "9", LinkRecord(kind, 1, "", 1))
    scheduler.remember_link(paths, "10", LinkRecord(LinkKind.SUCCESSOR, 1, "", 1))
    scheduler.remember_link(paths, "69", LinkRecord(other, 1, "", 1))
    if meanwhile:
        scheduler.remember_link(paths, "70", LinkRecord(kind, 1, "", 1))
    decision = SubmitLink(kind, 100, "there is none")
    assert actor._link(decision) == Outcome(decision, Done.OK, job_id="70" if meanwhile else "71")
    assert batch.asked == ([] if meanwhile else ["cpu7"])
    actor._link(SubmitLink(kind, 200, "another one ahead"))
    assert batch.asked[-1:] == ["cpu7"], "of those wanted ahead, each is one"


class Dropping:
    """A batch system of a site that drops --begin; it notes what is asked of it, and refuses `fails`."""

    def __init__(self, fails: str) -> None:
        self.fails, self.asked, self.submitted = fails, list[str](), list[Submission]()

    def _ask(self, verb: str, *words: object) -> None:
        self.asked.append(" ".join(map(str, (verb, *words))))
        if verb == self.fails:
            raise Refused(f"no {verb}")

    def submit(self, job: Submission) -> str:
        self.submitted.append(job)
        return "71"

    def move(self, job_id: str, at: int) -> None:
        self._ask("move", job_id, at)

    def release(self, ids: list[str]) -> None:
        self._ask("release", *ids)

    def cancel(self, ids: list[str]) -> None:
        self._ask("cancel", *ids)


@pytest.mark.parametrize(
    ("drops", "fails", "asked"),
    [
        pytest.param("", "", [], id="a site that keeps it"),
        pytest.param("9", "", ["move 71 100", "release 71"], id="a site that drops it: held, moved, released"),
        pytest.param("9", "move", ["move 71 100", "cancel 71"], id="it could not be moved: it would begin at once"),
        pytest.param("9", "release", ["move 71 100", "release 71", "cancel 71"], id="it could not be released"),
    ],
)
@pytest.mark.parametrize("kind", LinkKind)
def test_what_a_tick_submits_as_a_link(
    tmp_path: Path, kind: LinkKind, drops: str, fails: str, asked: list[str]
) -> None:
    paths, batch = Paths(tmp_path), Dropping(fails)
    paths.scheduler.mkdir()
    site: Any = SimpleNamespace(paths=paths, batch=batch, host="login1", settings=Settings(), uid=1000)
    actor = Actor(Progress(site, linked(facts={"drops_begin": drops})))
    words, name = ("spare", f"cronhpc-{ID}-spare") if kind is LinkKind.SPARE else ("link", f"cronhpc-{ID}")
    if fails:
        with pytest.raises(Refused):
            actor._link(SubmitLink(kind, 100, ""))
    else:
        actor._link(SubmitLink(kind, 100, ""))
    assert batch.asked == asked
    (job,) = batch.submitted
    assert (job.script, job.arguments) == (str(paths.script), ("100", words, "0", "", f"{ID}/{PRINT}"))
    assert (job.job_name, job.output, job.chdir, job.begin) == (name, "/dev/null", "/", 100)
    assert (job.held, job.no_requeue) == (bool(drops), True)
    assert job.comment.startswith(f"cronhpc={ID}/{words} 100 {PRINT}")
    assert scheduler.links(paths) == ({} if fails else {"71": LinkRecord(kind, 100, PRINT, at("15:00:05"))})


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        pytest.param(
            link(11, "14:59:50"), ["keep successor 11", "keep spare 12"], id="another start has just submitted it"
        ),
        pytest.param(
            replace(link(11, "14:59:50", reason="Priority"), start=None),
            ["keep successor 11", "keep spare 12"],
            id="another start has just submitted it, and it waits for its turn",
        ),
        pytest.param(
            link(11, "16:00"), ["keep successor 11", "keep spare 12"], id="it waits for the next whole interval"
        ),
        pytest.param(
            replace(link(11, "16:00", reason="Priority"), start=None),
            ["move successor 11", "keep spare 12"],
            id="the site has dropped its begin",
        ),
        pytest.param(
            link(11, "14:30"), ["keep successor 11", "keep spare 12"], id="it has waited for its turn for half an hour"
        ),
        pytest.param(
            replace(link(11, "11:30", reason="Resources"), start=None),
            ["keep successor 11", "keep spare 12"],
            id="it waits on a full partition for hours",
        ),
        pytest.param(
            link(11, "14:30", reason="JobHeldUser"),
            ["cancel successor 11", "submit successor", "keep spare 12"],
            id="it is due, and held",
        ),
        pytest.param(link(11, "19:00"), ["move successor 11", "keep spare 12"], id="somebody has put it off"),
    ],
)
def test_a_start_leaves_the_link_that_waits_where_it_is_if(first: Job, expected: list[str]) -> None:
    assert planned(linked(first, SPARE, self_id="", scope=Scope.LINKS)) == expected


def test_links_ahead_of_one_that_waits_for_its_turn_stay_where_they_are() -> None:
    jobs = (replace(link(11, "14:30", reason="Resources"), start=None), link(13, "16:00"), link(14, "17:00"), SPARE)
    w = linked(*jobs, self_id="", facts={"prequeue": 3}, scope=Scope.LINKS)
    assert planned(w) == ["keep successor 11", "keep successor 13", "keep successor 14", "keep spare 12"]


def started(*jobs: Job, **more: Any) -> World:
    """`start` (or `stop`) looks, at 15:00:05."""
    made = linked(*jobs, self_id="", scope=Scope.LINKS, **more)
    return replace(made, chain=replace(made.chain, wanted=not made.chain.stopped))


RUNS_AHEAD = tuple(claim("e", clock, ClaimState.RELEASED, "7", holds="x") for clock in ("15:00", "16:00"))
STARTS = {
    "a new chain begins at once, with a spare behind": (started(), ["submit successor 15:00", "submit spare 16:30"]),
    "those ahead of it follow each an interval later": (
        started(facts={"prequeue": 3}),
        [*(f"submit successor {clock}" for clock in ("15:00", "16:00", "17:00")), "submit spare 16:30"],
    ),
    "a link that has just started has not queued its successor yet": (
        started(link(10, "15:00", status="RUNNING")),
        ["leave"],
    ),
    "one that has, but it is gone: the next comes in time, and not beside it": (
        started(link(10, "15:00", status="RUNNING"), facts={"successor_noted": "11"}),
        ["submit successor 16:00", "submit spare 16:30"],
    ),
    "what waits holds a text of before: at once in its place": (
        started(replace(NEXT, comment=NEXT.comment.replace(PRINT, "0ld")), SPARE),
        ["cancel successor 11", "submit successor 15:00", "keep spare 12"],
    ),
    "an administrator holds the link": (started(link(11, "16:00", reason="JobHeldAdmin"), SPARE), ["leave"]),
    "stop: links go, runs go on": (
        started(NEXT, SPARE, facts={"stopped": True}, claims=RUNS_AHEAD),
        ["cancel successor 11", "cancel spare 12"],
    ),
    "stop where a login node submits: what waits for a slot to come goes, too": (
        started(facts={"stopped": True}, claims=RUNS_AHEAD, takes_back=True),
        ["withdraw 7"],
    ),
    "… and the queue does not answer": (
        replace(started(facts={"stopped": True}, claims=RUNS_AHEAD, takes_back=True), queue=None),
        [],
    ),
    "start, and the queue does not answer": (replace(started(), queue=None), []),
}


@pytest.mark.parametrize(("seen", "expected"), STARTS.values(), ids=STARTS)
def test_start_and_stop_decide_on_links_alone(seen: World, expected: list[str]) -> None:
    decisions = plan(seen).decisions
    at = [f" {clock(each.at)}" if isinstance(each, SubmitLink) else "" for each in decisions]
    assert [said(each) + instant for each, instant in zip(decisions, at, strict=True)] == expected


def test_a_version_whose_entries_have_a_field_more_withdraws_no_run_that_waits() -> None:
    """It was submitted ahead by the version before, and nothing was edited."""
    known = {**defaults(Entry), "more": "", "__annotations__": {**Entry.__annotations__, "more": "str"}}
    newer: Any = dataclass(slots=True, frozen=True)(type("Entry", (), known))
    e = entry(array="1-4", catch_up="all")
    assert text_key(newer(**by_field(e))) == text_key(e)
    assert text_key(entry(catch_up="all", overlap="allow")) == "2086ea068a3c", "policies were bare texts once"
    assert text_key(newer(**by_field(e), more="said")) != text_key(e)
    assert text_key(replace(e, policies=replace(e.policies, catch_up=CatchUp.NONE))) != text_key(e)


def test_keys_are_sorted_as_they_are_compared() -> None:
    words = ("a", "a-b", "a.b", "b")
    keys = [
        Key(word, slot, number, by_hand=hand)
        for word in words
        for slot in (9, 60)
        for number in (2, 10)
        for hand in (True, False)
    ]
    assert sorted({*keys}, key=IN_ORDER) == sorted(keys)


# --- whether a decision still stands ----------------------------------------------------------------------------------

DONE = JobEnd(Result.OK)
_CLAIMED, _HELD = claim("e", "14:00", ClaimState.CLAIMED), claim("e", "14:00", ClaimState.SUBMITTED, "7")
_SENT, _RELEASED = replace(_HELD, state=ClaimState.RELEASING), replace(_HELD, state=ClaimState.RELEASED)
_ENDED = replace(_RELEASED, state=ClaimState.FINISHED, job_end=DONE)
_GONE = None
_AGAIN, _RELEASE, _FINISH = Submit(entry(), K, Reason.AGAIN), Release(K, "7"), Finish(K, "e", DONE)
_CANCEL, _AHEAD = Cancel("7", "a switch", K), Cancel("7", "its entry is gone", K, only=Still.AHEAD)
_WITHDRAW = Withdraw(K, "e", "7", "edited")


def of_job(before: Claim, job_id: str) -> Claim:
    return replace(before, job_id=job_id)


MEANWHILE: dict[str, tuple[Decision, Claim | None, Claim | None, str]] = {
    "submitted again, and nobody else has": (_AGAIN, _CLAIMED, _CLAIMED, ""),
    "submitted again, and another tick has": (_AGAIN, _CLAIMED, _HELD, "job 7 is there still"),
    "submitted again, and it has ended": (_AGAIN, _CLAIMED, _ENDED, "it was finished meanwhile"),
    "submitted again, and it has ended and is forgotten": (_AGAIN, _CLAIMED, _GONE, "it was finished meanwhile"),
    "released, all as it was": (_RELEASE, _HELD, _HELD, ""),
    "released once more, as that may not have been sent": (_RELEASE, _SENT, _SENT, ""),
    "released, and another tick sends its release": (_RELEASE, _HELD, _SENT, "another tick has released job 7"),
    "released, and its run has ended since": (_RELEASE, _HELD, _ENDED, "another tick has released job 7"),
    "released, and another job's run has ended since": (
        _RELEASE, _HELD, of_job(_ENDED, "8"), "it was finished meanwhile"
    ),
    "released, and its claim is forgotten": (_RELEASE, _HELD, _GONE, "it was finished meanwhile"),
    "released, and it was taken back and submitted anew": (
        _RELEASE, _HELD, of_job(_HELD, "8"), "job 8 was recorded for it meanwhile"
    ),
    "ended, all as it was": (_FINISH, _RELEASED, _RELEASED, ""),
    "ended without a job": (_FINISH, _CLAIMED, _CLAIMED, ""),
    "ended without a job, and one was submitted": (
        _FINISH, _CLAIMED, _HELD, "job 7 was submitted for it meanwhile"
    ),
    "ended, and the cancelled job was another tick's to take back": (
        _FINISH, _RELEASED, _CLAIMED, "its job was taken back meanwhile"
    ),
    "ended, and another tick has written that": (_FINISH, _RELEASED, _ENDED, "it was finished meanwhile"),
    "ended, and another tick has forgotten it": (_FINISH, _RELEASED, _GONE, "it was finished meanwhile"),
    "it is not tried again": (_FINISH, _ENDED, _ENDED, ""),
    "its record is damaged: its job is known by its token alone": (
        _FINISH, replace(_RELEASED, damaged=True), replace(_RELEASED, job_id=None, damaged=True), ""
    ),
    "cancelled while held": (_CANCEL, _HELD, _HELD, ""),
    "cancelled while held, and it was released": (_CANCEL, _HELD, _SENT, "it was released meanwhile"),
    "a twin is cancelled, and became the recorded job": (
        _CANCEL, _CLAIMED, _HELD, "it was recorded for its claim meanwhile"
    ),
    "cancelled while held, and the newest finished claim, which is not opened, is its own": (
        _CANCEL, replace(_ENDED, job_id=None, job_end=None), _ENDED, ""
    ),
    "a twin is cancelled": (_CANCEL, of_job(_HELD, "8"), of_job(_RELEASED, "8"), ""),
    "a job of a slot that was dealt with is cancelled": (_CANCEL, _GONE, _GONE, ""),
    "cancelled ahead of its slot, which has come": (_AHEAD, _RELEASED, _RELEASED, "its slot has come"),
    "one that can never start is cancelled, whatever its step": (
        replace(_AHEAD, only=Still.PENDING), _HELD, _RELEASED, ""
    ),
    "taken back, and its slot has come": (_WITHDRAW, _RELEASED, _RELEASED, "its slot has come"),
    "was taken back before its slot came": (replace(_WITHDRAW, gone=True), _RELEASED, _RELEASED, ""),
    "was taken back, and was submitted anew": (
        replace(_WITHDRAW, gone=True), _RELEASED, of_job(_HELD, "8"), "another tick has gone on with it"
    ),
    "was taken back, and was told of": (replace(_WITHDRAW, gone=True), _RELEASED, _ENDED, "it was finished meanwhile"),
    "its claim goes, and is gone": (Withdraw(K, "e", "", "edited", drops=True), _CLAIMED, _GONE, ""),
}  # fmt: skip


@pytest.mark.parametrize(("decision", "known", "now", "why"), MEANWHILE.values(), ids=MEANWHILE)
def test_what_others_have_done_meanwhile_is_said_where_a_decision_does_not_stand(
    decision: Decision, known: Claim | None, now: Claim | None, why: str
) -> None:
    assert Meanwhile(decision, known, now, at("14:05")).objection() == why
