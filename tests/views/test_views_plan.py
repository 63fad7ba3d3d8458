"""The dry run, word for word: each decision is one line that says why."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cronhpc.core import model
from cronhpc.core.model import Key, LinkKind, Plan, Problem, Queue, Reason, Result, Switches, SwitchKind, Way
from cronhpc.core.plan import plan
from cronhpc.core.retention import Cleaned
from cronhpc.views import decisions
from cronhpc.views import plan as view
from cronhpc.views.facts import as_json
from tests.view_situations import BOBS, DIRECTORY_ID, WORLD, at, entry, job, style

JSON_DOC = Path(__file__).resolve().parent.parent.parent / "docs" / "json.md"


def screen(world: model.World, width: int = 0) -> str:
    return view.render(world, plan(world), world.skipped, None, style(width))


FULL = """\
now 14:07:20, 4 entries, none due
hub-sync           not due  next 14:30 (in 23 min)
backup             not due  next Sat 04:00 (in 14 h)
gpu-health         not due  next Sat 05:20 (in 15 h)
train-watch        stopped  kill/train-watch, by bob: loss spikes; next 22:00
chain              move     successor job 4711 to 14:30
chain              keep     spare job 4712 at 15:30
next tick          wanted   14:30 (in 23 min)
cron.hourly/sync~  W002     skipped: an editor's backup file. Remove it."""


def test_the_whole_screen_reads_as_drawn() -> None:
    assert screen(WORLD) == FULL


def test_a_due_slot_says_what_is_submitted() -> None:
    known = {"backup": model.EntryState(watermark=at("14:00", 26))}
    world = replace(WORLD, entries=(entry("backup", "0 14 * * *"),), states=known, switches=Switches(), skipped=())
    lines = screen(world).splitlines()
    assert lines[0] == "now 14:07:20, 1 entry, 1 due"
    assert "backup     submit   slot 14:00, job backup, partition cpu, log/backup/20261127T1300Z-%j.out" in lines


def test_an_array_s_log_has_a_name_for_each_task() -> None:
    world = replace(WORLD, entries=(entry("backup", "0 14 * * *", array="0-3"),), states={}, switches=Switches())
    assert "log/backup/20261127T1300Z-%A_%a.out" in screen(world)


def test_of_the_many_runs_of_an_entry_that_are_queued_ahead_two_are_shown_and_the_last_one_is_named() -> None:
    chain = replace(WORLD.chain, via=Way.LOGIN)
    entries = (entry("backup", "0 * * * *"), entry("sync", "30 20 * * *"))
    known = {"backup": model.EntryState(watermark=at("14:00")), "sync": model.EntryState(watermark=at("14:00"))}
    lines = screen(replace(WORLD, chain=chain, entries=entries, states=known, switches=Switches())).splitlines()
    assert lines[0] == "now 14:07:20, 2 entries, none due"
    assert [line.split(",")[0] for line in lines if " ahead " in line] == [
        "backup             ahead   slot 15:00",
        "backup             ahead   slot 16:00",
        "backup             ahead   and 22 more",
        "sync               ahead   slot 20:30",
    ]


GONE = "its entry was changed, and has no such slot"
MANY: dict[str, tuple[Callable[[int], model.Decision], list[str]]] = {
    "slots that waited while the chain was at rest, and that its new schedule does not have": (
        lambda slot: model.Finish(Key("backup", slot), "backup", model.JobEnd(Result.MISSED, detail=GONE)),
        ["finish", f"slot 13:00: missed, {GONE}", f"slot 13:05: missed, {GONE}", "and 8 more, the last at 13:45"],
    ),
    "runs queued ahead that go, as its schedule was edited": (
        lambda slot: model.Withdraw(Key("backup", slot), "backup", str(slot), "its entry is gone", drops=True),
        [
            "cancel",
            f"job {at('13:00')}: its entry is gone",
            f"job {at('13:05')}: its entry is gone",
            "and 8 more, the last at 13:45",
        ],
    ),
}


@pytest.mark.parametrize(("decision", "shown"), MANY.values(), ids=MANY)
def test_of_many_rows_of_one_cause_two_are_shown_and_the_json_has_all(
    decision: Callable[[int], model.Decision], shown: list[str]
) -> None:
    planned = Plan(tuple(decision(at("13:00") + minutes * 60) for minutes in range(0, 50, 5)), at("15:00"))
    verb, *words = shown
    lines = view.render(WORLD, planned, (), None, style()).splitlines()[1:-1]
    assert [line.split(None, 2) for line in lines] == [["backup", verb, each] for each in words]
    assert len(view.facts(WORLD, planned, (), None)["decisions"]) == 10


def test_rows_of_other_causes_are_not_folded() -> None:
    ends = (model.JobEnd(Result.FAILED, exit_code=code) for code in (1, 2, 3, 4))
    rows = tuple(model.Finish(Key("backup", at("13:00")), "backup", end) for end in ends)
    assert "more" not in view.render(WORLD, Plan(rows, at("15:00")), (), None, style())


def test_a_script_s_own_output_is_not_ours_to_name() -> None:
    world = replace(WORLD, entries=(entry("backup", "0 14 * * *", output=False),), states={}, switches=Switches())
    assert "log/" not in screen(world)


def test_without_an_answer_it_says_that_nothing_is_submitted() -> None:
    world = replace(WORLD, queue=None, queue_error="slurm_load_jobs error:\nUnable to contact slurm controller")
    assert screen(world).splitlines()[-2].split(None, 2) == [
        "batch",
        "unknown",
        "it does not answer, so nothing is submitted: slurm_load_jobs error: Unable to contact slurm controller",
    ]


def test_a_stopped_scheduler_is_named() -> None:
    world = replace(WORLD, chain=model.ChainFacts(wanted=False), queue=Queue(()))
    assert "chain              none     the scheduler is not started: cronhpc start" in screen(world).splitlines()


BACKUP = entry("backup")
KEY = Key("backup", at("04:00"))
RUN = job("4720", str(KEY), at("04:00"))
DECISIONS: dict[str, tuple[model.Decision, str]] = {
    "a retry": (
        model.Submit(BACKUP, replace(KEY, attempt=2), Reason.RETRY, detail="attempt 2"),
        "backup|retry|slot 04:00, job backup, partition cpu, log/backup/20261127T0300Z-%j.out, attempt 2",
    ),
    "ahead": (
        model.Submit(BACKUP, Key("backup", at("14:10")), Reason.AHEAD, begin=at("14:10")),
        "backup|ahead|slot 14:10, begins 14:10, job backup, partition cpu, log/backup/20261127T1310Z-%j.out",
    ),
    "one slot stopped": (
        model.Skip(BACKUP, at("04:00"), Result.STOPPED, Reason.STOPPED, "kill/backup, by bob"),
        "backup|stopped|slot 04:00 recorded as stopped: kill/backup, by bob",
    ),
    "several slots missed": (
        model.Skip(BACKUP, at("04:00"), Result.MISSED, Reason.MISSED, "5 slots: nothing ran then", 5),
        "backup|missed|5 slots up to 04:00 recorded as missed: 5 slots: nothing ran then",
    ),
    "a switch whose reason has the result's word": (
        model.Skip(BACKUP, at("04:00"), Result.STOPPED, Reason.STOPPED, "kill/backup, by bob: stopped for a move"),
        "backup|stopped|slot 04:00 recorded as stopped: kill/backup, by bob: stopped for a move",
    ),
    "several slots suspended": (
        model.Skip(BACKUP, at("04:00"), Result.SUSPENDED, Reason.SUSPENDED, "", 3),
        "backup|suspended|3 slots up to 04:00 recorded as suspended; lift it with: cronhpc resume backup",
    ),
    "waits behind another": (
        model.Wait(BACKUP, at("04:00"), Reason.QUEUED, "job 4720 has not ended"),
        "backup|waits for the previous run|job 4720 has not ended; due since 04:00",
    ),
    "invalid": (
        model.Wait(BACKUP, None, Reason.INVALID, "cron has no 0/15. Write */15."),
        "backup|invalid|cron has no 0/15. Write */15.",
    ),
    "adopted": (model.Adopt(KEY, "4720"), "backup|adopt|slot 04:00, job 4720"),
    "released": (model.Release(KEY, "4720"), "backup|release|slot 04:00, job 4720"),
    "taken back": (
        model.Withdraw(KEY, "backup", "4720", "the scheduler is stopped"),
        "backup|cancel|job 4720: the scheduler is stopped",
    ),
    "a twin": (model.Cancel("4721", "a twin of job 4720", KEY), "backup|cancel|job 4721: a twin of job 4720"),
    "finished": (
        model.Finish(KEY, "backup", model.JobEnd(Result.FAILED, exit_code=1), retry_at=at("14:10")),
        "backup|finish|slot 04:00: failed, exit 1, again at 14:10",
    ),
    "a new successor": (
        model.SubmitLink(LinkKind.SUCCESSOR, at("15:00"), "there is no successor"),
        "chain|submit|successor at 15:00: there is no successor",
    ),
    "a spare that stays": (model.KeepLink(LinkKind.SPARE, "4712", at("16:00")), "chain|keep|spare job 4712 at 16:00"),
    "a spare that moves": (model.MoveLink(LinkKind.SPARE, "4712", at("16:00")), "chain|move|spare job 4712 to 16:00"),
    "one link too many": (
        model.CancelLink(LinkKind.SPARE, "4713", "one spare too many beside job 4712"),
        "chain|cancel|spare job 4713: one spare too many beside job 4712",
    ),
    "the chain is left alone": (
        model.LeaveChain(model.LeaveCause.HELD, "job 4711 is held by an administrator"),
        "chain|leave|job 4711 is held by an administrator",
    ),
    "a kill": (
        model.Stop(BOBS, ("4502",), ("4501",), left_alone=("77",)),
        (
            "kill switch|cancel|train-watch, by bob since Thu 22:14: 4502 pending, 4501 running; "
            "left alone (scrontab's own): 77"
        ),
    ),
    "a pause": (
        model.Hold(replace(BOBS, kind=SwitchKind.PAUSE), (RUN,)), "pause switch|hold|train-watch, by bob: 4720"
    ),
    "a pause is over": (model.Unhold((RUN,)), "pause switch|release|jobs 4720"),
}  # fmt: skip


@pytest.mark.parametrize(("decision", "line"), DECISIONS.values(), ids=DECISIONS)
def test_each_kind_of_decision_has_its_line(decision: model.Decision, line: str) -> None:
    world = replace(WORLD, entries=(BACKUP,), skipped=())
    planned = Plan((decision,), at("15:00"))
    known = as_json(view.facts(world, planned, (), None))
    assert json.loads(json.dumps(known)) == known
    shown = view.render(world, planned, (), None, style()).splitlines()[1]
    who, verb, words = line.split("|")
    assert shown.split() == f"{who} {verb} {words}".split()


def test_every_kind_of_decision_is_known_to_the_view() -> None:
    kinds = set(model.Decision.__args__)
    assert kinds == {kind.of for kind in decisions.Kind} == {type(decision) for decision, _ in DECISIONS.values()}


@pytest.mark.parametrize(
    ("key", "words"),
    [("decision", set(decisions.Kind)), ("done", {*model.Done, *decisions.Deed})],
    ids=["kinds", "ends"],
)
def test_the_words_that_the_docs_of_json_name_for_a_decision_are_those_of_its_json(key: str, words: set[str]) -> None:
    doc = JSON_DOC.read_text(encoding="utf-8")
    rows = re.findall(rf"^\| `{key}` \| text \| (.*`.*) \|$", doc, re.MULTILINE)
    assert rows
    assert {word for row in rows for word in re.findall(r"`([^`]+)`", row)} <= words


def test_no_next_tick_is_named_where_a_daemon_ticks_whenever_it_is_time() -> None:
    world = replace(WORLD, call=replace(WORLD.call, by_daemon=True))
    assert view.facts(world, plan(world), (), None)["wake"] is None
    assert "next tick" not in screen(world)
    assert "next tick" in screen(WORLD)


def test_odd_names_stay_on_their_line() -> None:
    world = replace(WORLD, entries=(entry("a\nb|c  d"),), states={}, switches=Switches())
    assert "$'a\\nb|c  d'" in screen(world)
    assert DIRECTORY_ID not in screen(world)


def test_a_problem_without_a_file_is_a_line_too() -> None:
    world = replace(WORLD, skipped=(Problem("E320", "/proj/kill cannot be listed.", "Mount it."),))
    assert screen(world).splitlines()[-1] == "settings     E320     /proj/kill cannot be listed. Mount it."


def test_the_logs_that_would_go_are_counted_by_reason() -> None:
    gone = {"log/a": {"too old": 200}, "log/b": {"too many": 12}}
    logs = Cleaned(bytes=1153434, folders=gone, stays={"within the limits": 1692})
    shown = view.render(WORLD, plan(WORLD), (), logs, style())
    assert shown.splitlines()[-1].split(None, 2) == [
        "logs",
        "remove",
        "212 of 1,904 files (200 too old, 12 too many), 1.1 MB",
    ]
