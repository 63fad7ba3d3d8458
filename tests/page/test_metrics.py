"""The facts for machines: what Prometheus reads, and what Nagios makes of it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cronhpc.core.model import ChainFacts, Disabled, EntryState, HistoryRow, Queue, SchedulerState, Switches, Way, World
from cronhpc.page import view, write
from cronhpc.views.facts import Status
from tests.page_situations import NASTY, html, known, row, week
from tests.view_situations import ENTRIES, NOW, SPARE, STATES, WORLD, at, entry, facts_of, running

QUIET = replace(WORLD, switches=Switches(), skipped=(), states={n: s for n, s in STATES.items() if n != "backup"})


def values(facts: Status, pasts: dict[str, view.Past] | None = None) -> dict[tuple[str, ...], float]:
    """Each sample by its name and its labels' values, but for whose it is."""
    found = {}
    for family in text_string_to_metric_families(write.prometheus(facts, pasts, NOW)):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            labels = dict(sample.labels)
            assert (labels.pop("owner"), labels.pop("directory")) == ("alice", "/home/alice/cron")
            found[(sample.name.removeprefix("cronhpc_"), *labels.values())] = sample.value
    return found


@pytest.fixture(scope="module")
def samples() -> dict[tuple[str, ...], float]:
    return values(known(), view.digest(iter(week()), NOW))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(("chain_fine",), 1, id="the chain"),
        pytest.param(("chain_state", "fine"), 1, id="in a word"),
        pytest.param(("chain_age_seconds",), NOW - at("14:00:04"), id="its age"),
        pytest.param(("last_tick_timestamp_seconds",), at("14:00:04"), id="its last tick"),
        pytest.param(("batch_answers",), 1, id="the batch system"),
        pytest.param(("next_slot_timestamp_seconds", "hub-sync"), at("14:30"), id="the next slot"),
        pytest.param(("failures_in_a_row", "backup"), 3, id="a streak"),
        pytest.param(("stopped", "train-watch"), 1, id="an entry that a switch stops"),
        pytest.param(("stopped", "backup"), 0, id="one that none does"),
        pytest.param(("switches", "kill"), 1, id="switches that stand"),
        pytest.param(("switches", "pause"), 0, id="and those that do not"),
        pytest.param(("submit_latency_seconds", "backup"), 6, id="how late it was submitted"),
        pytest.param(("queue_wait_seconds", "backup"), 120, id="how long it waited"),
        pytest.param(("run_seconds", "backup"), 12, id="how long it ran"),
        pytest.param(("runs", "backup", "failed"), 4, id="runs by result"),
        pytest.param(("runs", "backup", "ok"), 26, id="and those that went well"),
        pytest.param(("runs", NASTY, "timed out"), 1, id="a name with quotes and brackets"),
        pytest.param(("live_runs", "sweep", "running"), 1, id="runs in the queue by state"),
        pytest.param(("needs_attention",), 4, id="what needs attention"),
    ],
)
def test_a_metric_has_the_value_of_the_world(
    samples: dict[tuple[str, ...], float], name: tuple[str, ...], value: float
) -> None:
    assert samples[name] == value


def test_the_age_of_the_last_success() -> None:
    state = replace(STATES["backup"], previous_success=at("04:00", 24))
    found = values(facts_of(replace(WORLD, states={**STATES, "backup": state})))
    assert found["last_success_slot_timestamp_seconds", "backup"] == at("04:00", 24)
    assert found["last_success_age_seconds", "backup"] == NOW - at("04:00", 24)
    assert ("last_success_age_seconds", "hub-sync") not in found, "unknown is no number"


def test_what_a_colleague_may_not_read_is_left_out() -> None:
    assert not [name for name in values(known(), None) if name[0] == "runs"]


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "ü", "\udcff", "{}", "a b"])
def test_any_name_is_a_label(name: str) -> None:
    world = replace(QUIET, entries=(entry(name),), states={name: EntryState(failures=2)})
    assert [key for key, value in values(facts_of(world)).items() if key[0] == "failures_in_a_row" and value == 2]


# --- Nagios --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "name", "code", "line"),
    [
        pytest.param(QUIET, None, 0, "CRONHPC OK - 4 entries fine | ", id="all is well"),
        pytest.param(
            WORLD,
            None,
            2,
            "CRONHPC CRITICAL - backup failed 3 times in a row, exit 1; train-watch stopped by bob",
            id="what failed stands before a switch",
        ),
        pytest.param(replace(WORLD, states={}), None, 1, "CRONHPC WARNING - train-watch", id="only a switch"),
        pytest.param(WORLD, "backup", 2, "CRONHPC CRITICAL - backup failed 3 times", id="one entry, failed"),
        pytest.param(WORLD, "hub-sync", 0, "CRONHPC OK - 1 entry fine | ", id="one entry, fine"),
        pytest.param(
            replace(QUIET, queue=None, queue_error="x|y"), None, 3, "CRONHPC UNKNOWN - slurm does not", id="no answer"
        ),
        pytest.param(
            replace(QUIET, queue=Queue(())), None, 2, "CRONHPC CRITICAL - the scheduler is broken", id="no link"
        ),
        pytest.param(
            replace(QUIET, kept=SchedulerState(last_tick=at("04:00"))),
            None,
            2,
            "CRONHPC CRITICAL - the scheduler is silent",
            id="silence",
        ),
        pytest.param(
            replace(QUIET, kept=SchedulerState(last_tick=at("04:00")), queue=None),
            None,
            2,
            "CRONHPC CRITICAL - the scheduler is silent",
            id="silence beats no answer",
        ),
        pytest.param(
            replace(QUIET, queue=Queue((SPARE,))),
            None,
            1,
            "CRONHPC WARNING - the scheduler is late | ",
            id="only the spare waits",
        ),
        pytest.param(
            replace(
                QUIET, chain=ChainFacts(wanted=True, via=Way.SCRONTAB, disabled=Disabled.ENTRY_GONE), queue=Queue(())
            ),
            None,
            2,
            "CRONHPC CRITICAL - the scheduler is disabled | ",
            id="what calls the ticks was disabled",
        ),
        pytest.param(
            replace(QUIET, chain=ChainFacts(wanted=True, via=Way.LOCAL, disabled=Disabled.ELSEWHERE), queue=Queue(())),
            None,
            1,
            "CRONHPC WARNING - the scheduler is started elsewhere | ",
            id="its daemon is not here",
        ),
    ],
)
def test_a_line_and_its_code(world: World, name: str | None, code: int, line: str) -> None:
    found, said = write.nagios(facts_of(world), name, NOW)
    assert found == code
    assert said.startswith(line)
    assert "\n" not in said
    assert said.count("|") == 1, "the bar stands before the numbers alone"


def test_many_things_are_still_one_line() -> None:
    states = {e.name: replace(STATES["backup"], failures=2 + number) for number, e in enumerate(ENTRIES)}
    _, said = write.nagios(facts_of(replace(WORLD, states=states)), None, NOW)
    assert "and 3 more | entries=4 failing=4 attention=6 last_tick_age=436s" in said


def test_who_has_failed_is_counted_also_where_no_streak_has_begun() -> None:
    """Runs by hand count in no streak, and one that is to be tried again in none yet."""
    last: HistoryRow = {"result": "failed", "slot": at("13:00"), "exit_code": 1, "by_hand": True}
    states = {e.name: replace(STATES["backup"], failures=0, last=last) for e in ENTRIES}
    _, said = write.nagios(facts_of(replace(WORLD, states=states)), None, NOW)
    assert "entries=4 failing=4 " in said


# --- what still runs of a deleted entry ----------------------------------------------------------------------------


_CLAIM, _JOB = running("sweep", at("12:30"), "4701")
GONE = replace(QUIET, claims=(_CLAIM,), queue=Queue((*(QUIET.queue.jobs if QUIET.queue else ()), _JOB)))


def test_a_run_of_a_deleted_entry_is_a_run_in_the_queue() -> None:
    found = values(facts_of(GONE))
    assert found["live_runs", "sweep", "running"] == 1
    assert found["deleted_live_runs", "sweep"] == 1
    assert ("stopped", "sweep") not in found, "it is no entry any more"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        pytest.param(None, "CRONHPC OK - 4 entries fine; sweep was deleted and has 1 job left | entries=4 ", id="all"),
        pytest.param("sweep", "CRONHPC OK - sweep was deleted and has 1 job left | entries=0 ", id="it alone"),
        pytest.param("hub-sync", "CRONHPC OK - 1 entry fine | ", id="another one"),
    ],
)
def test_a_deleted_entry_that_still_runs_is_named(name: str | None, line: str) -> None:
    code, said = write.nagios(facts_of(GONE), name, NOW)
    assert code == 0
    assert said.startswith(line)


def test_the_page_has_a_line_for_it_with_its_past() -> None:
    page = html(facts_of(GONE), [row("sweep", at("12:00"))])
    assert re.search(r"sweep<small class=\"other\">deleted, runs now</small>", page)
    assert "It was deleted; what runs of it goes on." in page
    assert page.count('id="entry-sweep"') == 1
