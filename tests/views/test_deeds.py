"""What is told of the jobs of an order: of kill, unkill, pause and resume."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cronhpc.core import stop
from cronhpc.core.model import Done, Job, Outcome, Queue, Reason, Stop, Submit, SwitchKind, Withdraw
from cronhpc.views.decisions import Order, deeds
from tests.core.test_stop import FOREIGN, by_hand, on, pending
from tests.worlds import at, entry, job, key, switch

ENDS_NOW = job(7, name="e", start=at("13:56:30"), nodes="cpu1")


def ordered(
    name: str, kind: str, before: tuple[Job, ...], after: tuple[Job, ...] | None = None, **fails: str
) -> list[str]:
    """What is told of an order on `before`; `after`: the queue as the tick found it. `fails`: of a decision, why."""
    w = on(name if kind == "kill" else f"pause/{name}", jobs=before if after is None else after)
    outcomes = [
        Outcome(d, Done.PASSING if (why := fails.get(type(d).__name__)) else Done.OK, why or "") for d in stop.decide(w)
    ]
    assert w.queue is not None
    became = deeds(Order(SwitchKind(kind), frozenset({name}), before), outcomes, w.queue)
    return [" ".join(filter(None, (str(each.done), each.job.shown_id, each.trouble))) for each in became]


DEEDS: dict[str, tuple[list[str], list[str]]] = {
    "a job that runs": (ordered("ft", "kill", (FOREIGN,)), ["cancelled 8"]),
    "tasks that run and tasks that wait": (
        ordered("57", "kill", (job(57, tasks="0"), pending(57, "[2-9]"))),
        ["cancelled 57_0", "cancelled 57_[2-9]"],
    ),
    "scancel is refused on this node": (
        ordered("ft", "kill", (FOREIGN,), Stop="Access denied"),
        ["cancelled 8 Access denied"],
    ),
    "a daemon was faster, and it is gone": (ordered("ft", "kill", (FOREIGN,), ()), ["ended 8"]),
    "a daemon was faster, and it takes its time": (
        ordered("ft", "kill", (FOREIGN,), (replace(FOREIGN, state="COMPLETING"),)),
        ["ending 8"],
    ),
    "a scrontab's own": (ordered("ft", "kill", (replace(FOREIGN, from_scrontab=True),)), ["left alone 8"]),
    "nobody could say whose": (ordered("ft", "kill", (replace(FOREIGN, from_scrontab=None),)), ["not asked 8"]),
    "a pause holds what waits, and what runs goes on": (
        ordered("57", "pause", (job(57, tasks="0"), pending(57, "[2-9]"))),
        ["held 57_[2-9]", "runs on 57_0"],
    ),
    "a pause of what its owner holds": (ordered("57", "pause", (by_hand(57),)), ["held before 57"]),
    "another switch's jobs are not told": (ordered("zzz", "kill", (FOREIGN,)), []),
}


@pytest.mark.parametrize(("told", "expected"), DEEDS.values(), ids=DEEDS)
def test_what_became_of_each_job_of_an_order_is_told(told: list[str], expected: list[str]) -> None:
    assert told == expected


def test_a_job_that_waits_for_its_slot_is_told_as_cancelled_by_a_pause_and_what_a_resume_submits_as_that() -> None:
    waits = pending(7, name="e", of=key("e", "14:07"))
    gone = Outcome(Withdraw(key("e", "14:07"), "e", "7", "pause/e"), Done.OK)
    order = Order(SwitchKind.PAUSE, frozenset({"e"}), (waits,))
    assert [(each.done, each.job.id) for each in deeds(order, [gone], Queue((waits,)))] == [("cancelled", "7")]
    both = [Outcome(Stop(switch("e"), ("7",), (), jobs=(waits,)), Done.OK), gone]
    twice = deeds(Order(SwitchKind.KILL, frozenset({"e"}), (waits,)), both, Queue((waits,)))
    assert [(each.done, each.job.id) for each in twice] == [("cancelled", "7")], "by its switch, and withdrawn"
    runs = Outcome(Submit(entry("e"), key("e", "14:00"), Reason.SUBMIT), Done.OK, job_id="9")
    others = Outcome(Submit(entry("f"), key("f", "14:00"), Reason.SUBMIT), Done.OK, job_id="10")
    found = deeds(Order(SwitchKind.PAUSE, frozenset({"e"})), [runs, others], Queue(()))
    assert [(each.done, each.job.id, each.job.name) for each in found] == [("submitted", "9", "e")]
