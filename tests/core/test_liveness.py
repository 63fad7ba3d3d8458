"""When a run that the queue does not show any more counts as ended, and what waits until then."""

from __future__ import annotations

from typing import Any

import pytest

from cronhpc.core.identity import LATE, SILENT, Absence, absences, absences_at_a_look, missed_since
from cronhpc.core.model import Accounting, ClaimState, Finish, JobEnd, KillRecord, Result, World
from cronhpc.core.plan import plan
from cronhpc.cron.values import replace
from cronhpc.views import runs
from tests.worlds import at, claim, entry, job, key, planned, state, world

NOW = at("14:00")
KNOWN = Accounting(exists=True)
SILENCE = Accounting(exists=True, trouble="Connection refused")
ALIVE = Accounting(exists=True, alive=frozenset({"7"}))


def one_run(
    *, now: str = "14:00", missed: int | None = None, step: ClaimState = ClaimState.RELEASED, **more: Any
) -> World:
    """Job 7 runs for the slot 13:00. `missed`: seconds since the first look that missed it."""
    absent = {} if missed is None else {"7": at(now) - missed}
    mine = claim("e", "13:00", step, "7")
    policies = {each: more.pop(each) for each in ("overlap", "retries") if each in more}
    more.setdefault("states", {"e": state("13:00")})
    return world(now, entry("e", **policies), claims=(mine,), absent=absent, **more)


def struck(ago: int) -> KillRecord:
    """What a switch has done to a job that waited."""
    return KillRecord(NOW - ago, "e", "bob", "", "/c/kill/e", emptied=True)


SKIPS, SUBMITS, WAITS = "used up 14:00 skipped (1)", "submit 14:00", "wait 14:00 waits for the previous run"
UNKNOWN = "finish ended, outcome unknown"


@pytest.mark.parametrize(
    ("w", "expected"),
    [
        pytest.param(one_run(), [WAITS], id="missed for the first time: the slot waits for the second look"),
        pytest.param(one_run(missed=60), [WAITS], id="missed again a minute later: an answer may be that old"),
        pytest.param(one_run(missed=120), [UNKNOWN, SUBMITS], id="missed at two looks, and there is no accounting"),
        pytest.param(one_run(missed=-50), [WAITS], id="missed by a clock that was ahead: as for the first time"),
        pytest.param(one_run(jobs=(job(7, of=key("e", "13:00")),)), [SKIPS], id="it is shown as running"),
        pytest.param(
            one_run(jobs=(job(7, "COMPLETED", of=key("e", "13:00")),)),
            ["finish ok", SUBMITS],
            id="shown as ended",
        ),
        pytest.param(one_run(job_ends={"7": JobEnd(Result.OK)}), ["finish ok", SUBMITS], id="accounting tells its end"),
        pytest.param(one_run(accounting=ALIVE), [SKIPS], id="accounting says that it runs"),
        pytest.param(one_run(accounting=ALIVE, missed=LATE - 1), [SKIPS], id="accounting says so for an hour"),
        pytest.param(
            one_run(accounting=ALIVE, missed=LATE), [UNKNOWN, SUBMITS], id="the controller lost it an hour ago"
        ),
        pytest.param(one_run(accounting=SILENCE), [WAITS], id="accounting is silent, one look"),
        pytest.param(
            one_run(accounting=SILENCE, missed=120),
            [SUBMITS],
            id="silent: its place is free, its end open",
        ),
        pytest.param(one_run(accounting=SILENCE, missed=SILENT), [UNKNOWN, SUBMITS], id="silent for a day"),
        pytest.param(one_run(accounting=KNOWN, missed=120), [SUBMITS], id="accounting is late"),
        pytest.param(one_run(accounting=KNOWN, missed=LATE), [UNKNOWN, SUBMITS], id="accounting never tells"),
        pytest.param(one_run(job_ends=None), [WAITS], id="nobody could be asked how it ended"),
        pytest.param(one_run(overlap="replace"), [WAITS], id="overlap: replace, missed for the first time"),
        pytest.param(one_run(overlap="queue"), [WAITS], id="overlap: queue, missed for the first time"),
        pytest.param(one_run(overlap="allow"), [SUBMITS], id="overlap: allow, missed for the first time"),
        pytest.param(
            one_run(job_ends={"7": JobEnd(Result.FAILED)}, retries=1, states={"e": state("14:00")}, now="13:30"),
            ["finish failed retry"],
            id="accounting tells a failure later: it is tried again",
        ),
        pytest.param(
            one_run(kill_records={"7": struck(60)}),
            ["finish killed", SUBMITS],
            id="a switch has cancelled it a minute ago, when it was listed and waited: it is gone",
        ),
        pytest.param(
            one_run(kill_records={"7": struck(60)}, missed=60),
            [WAITS],
            id="a switch has cancelled what may wait of it, when it was not listed yet",
        ),
        pytest.param(
            one_run(kill_records={"7": replace(struck(60), cancelled=True)}),
            [WAITS],
            id="a switch has cancelled it while it ran: accounting may be late",
        ),
        pytest.param(
            one_run(step=ClaimState.SUBMITTED, accounting=SILENCE, missed=120, now="13:30"),
            ["finish lost retry"],
            id="a held job cannot have run: accounting is not waited for",
        ),
    ],
)
def test_a_run_that_the_queue_does_not_show_is_decided_so(w: World, expected: list[str]) -> None:
    shown = [each for each in planned(w) if not each.endswith("not due")]
    assert shown == expected


def test_a_second_look_is_asked_for_two_minutes_later_and_no_further_ones() -> None:
    assert plan(one_run(now="14:10", states={"e": state("14:00")})).wake == at("14:12")
    assert plan(one_run(now="14:10", missed=120, accounting=SILENCE, states={"e": state("14:00")})).wake == at("15:00")


@pytest.mark.parametrize(
    ("w", "known"),
    [
        pytest.param(one_run(), {"7": NOW}, id="the first look is remembered"),
        pytest.param(one_run(missed=90), {"7": NOW - 90}, id="a second one keeps it"),
        pytest.param(one_run(jobs=(job(7, of=key("e", "13:00")),), missed=90), {}, id="it is there again: forgotten"),
        pytest.param(one_run(jobs=None, missed=90), {"7": NOW - 90}, id="no answer is no look"),
        pytest.param(one_run(job_ends=None), {}, id="nor is half an answer"),
    ],
)
def test_what_the_next_tick_knows_of_absent_jobs(w: World, known: dict[str, int]) -> None:
    assert missed_since(w) == known


def test_another_job_of_the_id_says_that_the_controller_has_forgotten_ours() -> None:
    other = job(7, comment="cronhpc=other/e@20261127T1300Z.1")
    assert absences(one_run(jobs=(other,))) == {}
    assert absences(one_run(jobs=(other,), accounting=SILENCE)) == {"7": Absence.NO_ANSWER}


@pytest.mark.parametrize(
    ("accounting", "why"),
    [
        (Accounting(), "there is no accounting to ask"),
        (KNOWN, "accounting does not tell how"),
        (ALIVE, "accounting says that it has not ended"),
        (SILENCE, "accounting has given no answer for 24 hours (Connection refused)"),
    ],
)
def test_an_end_that_is_given_up_says_why(accounting: Accounting, why: str) -> None:
    w = one_run(accounting=accounting, missed=SILENT)
    (finished,) = (d for d in plan(w).decisions if isinstance(d, Finish))
    assert why in finished.job_end.detail


LOOKS = [
    pytest.param({"at": "13:00"}, Absence.GONE, id="submitted an hour ago: no list is so old, it has ended"),
    pytest.param({"at": "13:58"}, Absence.GONE, id="two minutes ago"),
    pytest.param({"at": "13:59"}, Absence.JUST_SUBMITTED, id="a minute ago: the list may be older"),
    pytest.param({"at": "13:00", "job_ends": None}, Absence.GONE, id="accounting gives no answer"),
    pytest.param({"at": "13:00", "accounting": ALIVE}, Absence.ALIVE, id="accounting says that it runs"),
    pytest.param({"at": "13:00", "jobs": (job(7, of=key("e", "13:00")),)}, None, id="it is shown"),
]


@pytest.mark.parametrize(("situation", "why"), LOOKS)
def test_who_only_looks_takes_a_job_that_the_queue_does_not_show_for_ended(
    situation: dict[str, Any], why: Absence | None
) -> None:
    """No tick may ever come to look again: a run by hand was pending for ever."""
    recorded = at(situation.pop("at"))
    w = one_run(**situation)
    w = replace(w, claims=tuple(replace(each, recorded=recorded) for each in w.claims))
    assert absences_at_a_look(w).get("7") == why
    assert why is None or absences(w)["7"] in {Absence.ONE_LOOK, Absence.ALIVE}, "what is decided waits for two"
    run = runs.live_facts(w.claims[0], None, w.now, answers=True, absent=why)
    assert run.state == ("ENDED" if why is Absence.GONE else "SUBMITTED")
