"""Which logs no limit reaches."""

from __future__ import annotations

from typing import Any

import pytest

from cronhpc.core.model import Claim, ClaimState, HistoryRow, Job, JobEnd, Key, Queue, Result, slot_text
from cronhpc.logs.housekeeping import Known, live_of, newest_failed, remember

NOW = 1_795_800_000
HOUR, DAY = 3600, 86400


def row(age: int, result: Result, *, entry: str = "backup", attempt: int = 1, job: str = "7", **more: Any) -> Any:
    """A history row of a run whose slot is `age` seconds ago, and which ended a minute later."""
    key = Key(entry, NOW - age, attempt)
    path = f"log/{entry}/{slot_text(key.slot)}-{job}.out"
    ended = key.slot + 60
    return {
        "what": "run",
        "key": str(key),
        "result": str(result),
        "log": path,
        "job": job,
        "ended": ended,
        "at": ended,
    } | more


def test_the_newest_failed_log_is_remembered_in_whatever_order_rows_come() -> None:
    old, new = row(9 * DAY, Result.FAILED, job="1"), row(8 * DAY, Result.TIMEOUT, job="2")
    for rows in ([old, new], [new, old]):
        assert newest_failed(remember(Known(), rows, NOW, 7 * DAY)) == {"backup": new["log"]}


def test_a_later_success_does_not_let_the_failed_log_go() -> None:
    failed = row(9 * DAY, Result.FAILED, job="1")
    known = remember(Known(), [failed], NOW, 7 * DAY)
    assert newest_failed(remember(known, [row(DAY, Result.OK)], NOW, 7 * DAY)) == {"backup": failed["log"]}


IRRELEVANT: list[tuple[str, HistoryRow]] = [
    ("a run that went well", row(DAY, Result.OK)),
    ("a killed run is no failed one", row(DAY, Result.KILLED)),
    ("a failed run whose log is not ours", row(DAY, Result.FAILED, log="")),
    ("a slot that was skipped", {"what": "slot", "key": "backup@20261127T1200Z.1", "result": "failed", "log": "x"}),
    ("a switch", {"what": "switch", "by": "bob"}),
    ("a key that is none", {"what": "run", "key": "?", "result": "failed", "log": "x"}),
]  # fmt: skip


@pytest.mark.parametrize("irrelevant", [each[1] for each in IRRELEVANT], ids=[each[0] for each in IRRELEVANT])
def test_rows_that_hold_no_log_back(irrelevant: HistoryRow) -> None:
    assert remember(Known(), [irrelevant], NOW, 7 * DAY) == Known()


def test_a_run_that_ended_days_after_its_slot_keeps_its_log_until_the_limit_after_its_end() -> None:
    late = row(10 * DAY, Result.OK, job="42", ended=NOW - HOUR)
    known = remember(Known(), [late], NOW, 7 * DAY)
    assert known.late == {"42": NOW - HOUR}
    assert remember(known, [], NOW + 6 * DAY, 7 * DAY).late == {"42": NOW - HOUR}
    assert remember(known, [], NOW + 7 * DAY, 7 * DAY).late == {}


def test_live_are_jobs_in_the_queue_and_claims_without_an_end() -> None:
    jobs = (Job("1", "RUNNING"), Job("2", "PENDING"), Job("3", "COMPLETED"), Job("4", "COMPLETING"))
    claims = (
        Claim(Key("a", NOW), ClaimState.RELEASED, job_id="5"),
        Claim(Key("a", NOW - 60), ClaimState.FINISHED, job_id="6", job_end=JobEnd(Result.OK)),
        Claim(Key("a", NOW - 120), ClaimState.CLAIMED),
    )
    assert live_of(Queue(jobs), claims) == frozenset({"1", "2", "4", "5"})


def test_no_answer_of_the_queue_is_not_an_empty_queue() -> None:
    assert live_of(None, ()) is None
