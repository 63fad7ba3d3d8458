"""Previews and history, word for word."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from cronhpc.core.model import ClaimState, HistoryRow, JobEnd, Queue, Result
from cronhpc.core.plan import plan
from cronhpc.cron.schedule import parse
from cronhpc.views import next as view
from cronhpc.views import reports, runs
from cronhpc.views.facts import as_json
from tests.view_situations import LINK, NOW, PARIS, SPARE, WORLD, at, running, style
from tests.worlds import waits_for


def instant(text: str, zone: str = "Europe/Paris") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())


def screen(schedule: str, after: str, number: int, zone: str = "Europe/Paris") -> list[str]:
    known = view.facts([view.Preview("", parse(schedule, ZoneInfo(zone)))], instant(after, zone), number)
    assert json.loads(json.dumps(as_json(known))) == as_json(known)
    return view.render(known, style()).splitlines()


def test_the_autumn_night_is_marked() -> None:
    assert screen("30 2 * * *", "2026-10-24", 3) == [
        "30 2 * * * (Europe/Paris): at 02:30",
        "AT                     FROM NOW",
        "Sat 24 Oct 02:30 CEST  5 weeks ago",
        "Sun 25 Oct 02:30 CEST  5 weeks ago",
        "-- Sun 25 Oct: the clocks go back 1h, 03:00 CEST to 02:00 CET (Europe/Paris)",
        "Mon 26 Oct 02:30 CET   5 weeks ago",
    ]


def test_the_spring_night_runs_what_it_skips_at_the_change() -> None:
    assert screen("30 2 * * *", "2027-03-28", 2)[2:] == [
        "-- Sun 28 Mar 2027: the clocks go forward 1h, 02:00 CET to 03:00 CEST (Europe/Paris)",
        "Sun 28 Mar 2027 03:00 CEST  in 17 weeks",
        "Mon 29 Mar 2027 02:30 CEST  in 17 weeks",
    ]


def test_another_zone_s_schedule_shows_the_user_s_clock_too() -> None:
    assert screen("0 9 * * *", "2026-11-28", 1, "America/New_York")[1:] == [
        "AT                    FROM NOW  YOUR CLOCK",
        "Sat 28 Nov 09:00 EST  in 25 h   Sat 28 Nov 15:00 CET",
    ]


def test_hashed_fields_are_resolved_in_the_title() -> None:
    title = screen("H 4 * * *", "2026-11-28", 1)[0]
    assert title.startswith("H 4 * * * = ")
    assert "at 04:" in title


def test_several_entries_come_in_one_order_with_what_holds_them() -> None:
    previews = [
        view.Preview("backup", parse("0 4 * * *", PARIS)),
        view.Preview("sync", parse("0 16 * * *", PARIS), "kill/sync, by bob"),
    ]
    assert view.render(view.facts(previews, NOW, 3), style()).splitlines() == [
        "AT                    FROM NOW  ENTRY",
        "Fri 27 Nov 16:00 CET  in 2 h    sync    held back: kill/sync, by bob",
        "Sat 28 Nov 04:00 CET  in 14 h   backup",
        "Sat 28 Nov 16:00 CET  in 26 h   sync    held back: kill/sync, by bob",
    ]


def test_a_screen_of_several_entries_puts_no_schedule_into_words(monkeypatch: pytest.MonkeyPatch) -> None:
    previews = [view.Preview(name, parse("0 4 * * *", PARIS)) for name in ("backup", "sync")]
    expected = view.render(view.facts(previews, NOW, 3), style())
    monkeypatch.setattr("cronhpc.cron.schedule.cron_in_words", None)
    assert view.render(view.facts(previews, NOW, 3, in_words=False), style()) == expected


def test_nothing_to_come_is_said() -> None:
    assert view.render(view.facts([], NOW, 3), style()) == "nothing is to come"


# --- history -------------------------------------------------------------------------------------------------------

ROW = {
    "what": "run",
    "entry": "backup",
    "slot": at("04:00"),
    "attempt": 1,
    "result": "ok",
    "job": "4655",
}
TIMES = {"submitted": at("04:00:06"), "started": at("04:02:06"), "ended": at("04:02:18"), "node": "cpu2"}
ROWS = {
    "a good run": ({**ROW, **TIMES}, "04:00 backup ok 12s 2m 4655 cpu2"),
    "submitted ahead, it waits from its slot on": (
        {**ROW, **TIMES, "submitted": at("03:50")},
        "04:00 backup ok 12s 2m6s 4655 cpu2",
    ),
    "a failed second attempt": (
        {**ROW, **TIMES, "attempt": 2, "result": "failed", "exit_code": 3},
        "04:00 #2 backup failed (3) 12s 2m 4655 cpu2",
    ),
    "by hand": ({**ROW, "by_hand": True}, "04:00 by hand backup ok - - 4655 -"),
    "slots that were missed": (
        {**ROW, "what": "slot", "job": None, "result": "missed", "count": 5, "detail": "nothing ran then"},
        "04:00 backup missed (5) - - - - nothing ran then",
    ),
    "only a key": (
        {"key": "backup@20261127T0300Z.r2", "entry": "backup", "result": "ok"},
        "04:00 #2 by hand backup ok - - - -",
    ),
    "nobody knows": ({**ROW, "result": "ended, outcome unknown"}, "04:00 backup ended, outcome unknown - - 4655 -"),
}


@pytest.mark.parametrize(("row", "line"), ROWS.values(), ids=ROWS)
def test_a_run_of_the_history_is_printed_as_one_row(row: HistoryRow, line: str) -> None:
    assert reports.history([runs.run_facts(row)], style()).splitlines()[1].split() == line.split()


def test_what_a_switch_stopped_is_a_row() -> None:
    row: HistoryRow = {"what": "switch", "switch": "train17", "by": "bob", "reason": "loss spikes", "at": NOW}
    line = reports.history([runs.switch_facts({**row, "jobs": ["4501"]})], style()).splitlines()[1]
    assert line.split(None, 3)[:3] == ["14:07", "train17", "switch"]
    assert line.endswith('by bob: "loss spikes"; cancelled job 4501')


UNFINISHED = [
    pytest.param({}, "running", id="it runs"),
    pytest.param({"state": "COMPLETING"}, "running", id="it is ending"),
    pytest.param({"state": "PENDING", "reason": "Priority"}, "pending", id="it waits for its turn"),
    pytest.param({"state": "PENDING", **waits_for("JobHeldUser")}, "held", id="it is held"),
    pytest.param({"state": "SUSPENDED"}, "suspended", id="its job was suspended"),
    pytest.param({"state": "FAILED", "exit_code": 3}, "failed", id="it has ended and no tick has said so yet"),
    pytest.param(None, "submitted", id="the queue does not answer"),
]


@pytest.mark.parametrize(("job", "result"), UNFINISHED)
def test_what_no_tick_has_finished_yet_is_a_run_like_others(job: dict[str, Any] | None, result: str) -> None:
    claim, live = running("backup", at("14:00"), "4713", **(job or {}))
    queue = Queue((LINK, SPARE, live)) if job is not None else None
    world = replace(WORLD, claims=(claim,), queue=queue)
    [run] = runs.unfinished(world, plan(world))
    assert (run.result, run.job, run.entry) == (result, "4713", "backup")
    assert (run.started is not None) == (result in {"running", "suspended", "failed"})


@pytest.mark.parametrize(
    ("is_noted", "shown"),
    [
        pytest.param(False, ["failed"], id="a tick died before it wrote down how the run had ended"),
        pytest.param(True, [], id="history has it"),
    ],
)
def test_an_end_that_history_lacks_is_shown(shown: list[str], *, is_noted: bool) -> None:
    claim, _ = running("backup", at("14:00"), "4713")
    claim = replace(claim, state=ClaimState.FINISHED, job_end=JobEnd(Result.FAILED, exit_code=3))
    world = replace(WORLD, claims=(claim,), kept=replace(WORLD.kept, noted=(claim.note,) if is_noted else ()))
    assert [run.result for run in runs.unfinished(world, plan(world))] == shown
