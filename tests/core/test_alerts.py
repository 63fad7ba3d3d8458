"""What people are told: each condition once, a reminder after a day, and when it is fine again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cronhpc.core import alerts, model
from cronhpc.core.alerts import Alert, Condition
from cronhpc.core.model import Done, EntryState, JobEnd, LinkKind, Outcome, Phase, Reason, Result, World
from cronhpc.store import damage
from tests.worlds import at, chain, entry, job, key, link, switch, world

HOUR, DAY = 3600, 86400
NOW = at("14:00")


def ended(result: str = "failed", failures: int = 1, nodes: tuple[str, ...] = (), **row: Any) -> EntryState:
    last: Any = {"slot": at("13:00"), "result": result, **row}
    return EntryState(failures=failures, nodes=nodes, well_on="cpu9", last=last)


def standing(state: EntryState | None = None, *outcomes: Outcome, **more: Any) -> list[tuple[str, str]]:
    one = world("14:00", entry("backup"), **more)
    states = {} if state is None else {"backup": state}
    return [(each.kind, each.text) for each in alerts.conditions(one, states, outcomes, {})]


def outcome(decision: model.Decision, done: Done = Done.OK, job_id: str | None = None) -> Outcome:
    return Outcome(decision, done, "", job_id)


# --- what stands ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "said"),
    [
        pytest.param(None, [], id="a new entry is fine"),
        pytest.param(ended("ok", 0), [], id="one that went well is fine"),
        pytest.param(ended("skipped", 0), [], id="skipped is no failure"),
        pytest.param(ended("killed", 0), [], id="killed is no failure"),
        pytest.param(ended("cancelled", 0), [], id="cancelled is no failure"),
        pytest.param(ended("preempted", 0), [("failed", "backup was preempted")], id="preempted, and not tried again"),
        pytest.param(
            ended("cancelled", 2),
            [("failed", "backup failed 2 times in a row")],
            id="a run that was cancelled after failures fixes nothing",
        ),
        pytest.param(ended("skipped", 1), [("failed", "backup failed once")], id="nor does one that was skipped"),
        pytest.param(ended(exit_code=1), [("failed", "backup failed once: failed (exit 1)")], id="an exit code"),
        pytest.param(ended(signal=9), [("failed", "backup failed once: failed (signal 9)")], id="a signal"),
        pytest.param(
            ended("timed out", 3), [("failed", "backup failed 3 times in a row: timed out")], id="the third in a row"
        ),
        pytest.param(
            ended("out of memory", detail="in step 3"),
            [("failed", "backup failed once: out of memory (in step 3)")],
            id="with what is known of it",
        ),
        pytest.param(
            ended("failed", 2, ("cpu2", "cpu2"), exit_code=1),
            [
                (
                    "failed",
                    (
                        "backup failed 2 times in a row: failed (exit 1); "
                        "each time on cpu2: if it is at fault, add #SBATCH --exclude=cpu2"
                    ),
                )
            ],
            id="the node that the last failures share is named, with what to add",
        ),
        pytest.param(
            ended("failed", 2, ("cpu2", "cpu1")),
            [("failed", "backup failed 2 times in a row: failed")],
            id="two nodes: no node is blamed",
        ),
        pytest.param(
            ended("missed", 0, detail="3 slots missed"),
            [("missed", "backup missed a slot: 3 slots missed")],
            id="a missed slot",
        ),
        pytest.param(
            replace(ended("failed", 5), suspended=at("13:05")),
            [("suspended", "backup is suspended after 5 failures in a row; go on with: cronhpc resume backup")],
            id="suspended is said, and not failed as well",
        ),
    ],
)
def test_an_entrys_state_calls_for_these_alerts(state: EntryState | None, said: list[tuple[str, str]]) -> None:
    assert standing(state) == said


WAITS = model.Wait(entry("backup"), at("14:00"), Reason.BUDGET, "the last hour has submitted too many")


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        pytest.param(
            WAITS, [("budget", "nothing more is submitted: the last hour has submitted too many")], id="the budget"
        ),
        pytest.param(replace(WAITS, reason=Reason.NOT_DUE), [], id="a slot that is not due"),
        pytest.param(replace(WAITS, slot=NOW + 3600), [], id="the budget, for a slot to come: it waits for its time"),
        pytest.param(
            model.LeaveChain(model.LeaveCause.HELD, "job 7 is held by an administrator"),
            [("chain", "the chain is on hold, nothing runs by itself: job 7 is held by an administrator")],
            id="an administrator's word",
        ),
        pytest.param(
            model.LeaveChain(model.LeaveCause.LINK_AT_WORK, "link 7 is running; it queues its own successor"),
            [],
            id="a link beside us",
        ),
    ],
)
def test_a_decision_calls_for_these_alerts(decision: model.Decision, said: list[tuple[str, str]]) -> None:
    assert standing(None, outcome(decision)) == said


def test_a_switch_stands_until_it_is_gone_or_over() -> None:
    bobs = switch("ALL", reason="maintenance")
    over = switch("x", expires=NOW - 1)
    assert standing(switches=(bobs, over)) == [("stopped", 'kill/ALL was set by bob: "maintenance"')]


# --- once, a reminder, and over ------------------------------------------------------------------------------------

FAILED = Condition("failed backup", "failed", "backup failed once: failed", "backup")
THERE = {"backup"}
WORSE = replace(FAILED, text="backup failed 2 times in a row: failed")


def phases(steps: list[tuple[int, list[Condition]]]) -> list[str]:
    """What is told at each step; a step is a time and what stands then."""
    known: dict[str, model.Told] = {}
    told = []
    for now, conditions in steps:
        said, known = alerts.messages(conditions, known, now, THERE)
        told.append(",".join(each.phase for each in said))
        again, same = alerts.messages(conditions, known, now, THERE)
        assert (again, same) == ([], known), "the same once more: nothing to say"
    return told


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        pytest.param([(0, []), (HOUR, [])], ["", ""], id="nothing is wrong"),
        pytest.param([(0, [FAILED]), (HOUR, [FAILED]), (DAY - 1, [FAILED])], ["new", "", ""], id="once"),
        pytest.param([(0, [FAILED]), (HOUR, [WORSE])], ["new", ""], id="the streak grows: no news"),
        pytest.param(
            [(0, [FAILED]), (DAY, [FAILED]), (DAY + HOUR, [FAILED]), (2 * DAY, [FAILED])],
            ["new", "still", "", "still"],
            id="a reminder a day",
        ),
        pytest.param([(0, [FAILED]), (HOUR, []), (2 * HOUR, [])], ["new", "over", ""], id="fine again, once"),
        pytest.param([(0, [FAILED]), (HOUR, []), (2 * HOUR, [FAILED])], ["new", "over", "new"], id="it comes back"),
        pytest.param([(DAY, [FAILED]), (0, [FAILED])], ["new", ""], id="a clock that went back repeats nothing"),
    ],
)
def test_a_condition_is_told_when_it_begins_lasts_and_ends(
    steps: list[tuple[int, list[Condition]]], told: list[str]
) -> None:
    assert phases(steps) == told


def test_a_reminder_says_since_when_and_the_newest_words() -> None:
    _, known = alerts.messages([FAILED], {}, 0, THERE)
    (said,), _ = alerts.messages([WORSE], known, DAY, THERE)
    assert said == Alert(Phase.STILL, "failed", WORSE.text, "backup", since=0)


def test_fine_again_names_what_was_wrong() -> None:
    _, known = alerts.messages([FAILED], {}, 0, THERE)
    (said,), _ = alerts.messages([], known, HOUR, THERE)
    assert (said.phase, said.kind, said.entry, said.text) == ("over", "failed", "backup", "fine again: failed backup")


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        pytest.param("failed", "suspended", "no longer failed backup, but suspended backup", id="suspended, not fine"),
        pytest.param("missed", "failed", "no longer missed backup, but failed backup", id="a failure follows"),
        pytest.param("suspended", "missed", "no longer suspended backup, but missed backup", id="resumed, and missed"),
    ],
)
def test_what_became_another_condition_of_its_entry_is_not_fine(before: str, after: str, text: str) -> None:
    was, stands = (Condition(f"{kind} backup", kind, "", "backup") for kind in (before, after))
    others = Condition("switch kill/ft", "stopped", ""), Condition("failed sync", "failed", "", "sync")
    _, known = alerts.messages([was, *others], {}, 0, {*THERE, "sync"})
    said, left = alerts.messages([stands, *others], known, HOUR, {*THERE, "sync"})
    assert [(each.phase, each.kind) for each in said] == [("new", after), ("over", before)]
    assert said[1].text == text
    (over,), _ = alerts.messages(others, left, 2 * HOUR, {*THERE, "sync"})
    assert over.text == f"fine again: {after} backup"


def test_a_chain_that_goes_on_is_told_as_fine_again() -> None:
    held = model.LeaveChain(model.LeaveCause.HELD, "job 7 is held by an administrator")
    _, known = alerts.messages(alerts.conditions(world("14:00"), {}, [outcome(held)], {}), {}, 0, THERE)
    (over,), _ = alerts.messages([], known, HOUR, THERE)
    assert over.text == "fine again: the chain"
    told_before = {"chain rests": model.Told("chain", 0, 0)}
    still = alerts.conditions(world("14:00"), {}, [outcome(held)], {})
    assert alerts.messages(still, told_before, HOUR, THERE)[0] == [], "an upgrade is no end of it"


def test_what_stood_of_an_entry_that_is_gone_is_over_and_not_fine() -> None:
    _, known = alerts.messages([FAILED], {}, 0, THERE)
    (said,), left = alerts.messages([], known, HOUR, {"another"})
    assert (said.phase, said.text) == ("over", "no longer watched: failed backup (there is no entry backup now)")
    assert left == {}


# --- what happens once ---------------------------------------------------------------------------------------------


def events(one: World, *outcomes: Outcome) -> list[tuple[str, str]]:
    return [(each.kind, each.text) for each in alerts.events(one, outcomes, {}, {})]


SUBMITTED = model.SubmitLink(LinkKind.SUCCESSOR, at("15:00"), "there is no successor", lost=True)


@pytest.mark.parametrize(
    ("done", "said"),
    [
        pytest.param(
            outcome(SUBMITTED, job_id="9"),
            [("chain", "the chain was fixed: there is no successor; job 9 was submitted")],
            id="a link that a tick had to submit",
        ),
        pytest.param(outcome(SUBMITTED, Done.PASSING), [], id="one that could not be submitted"),
        pytest.param(outcome(replace(SUBMITTED, kind=LinkKind.SPARE), job_id="9"), [], id="a spare is nothing lost"),
        pytest.param(
            outcome(replace(SUBMITTED, why="instead of job 7", lost=False), job_id="9"),
            [],
            id="new settings: not lost, replaced",
        ),
    ],
)
def test_the_chain_was_fixed(done: Outcome, said: list[tuple[str, str]]) -> None:
    assert events(world("14:00"), done) == said


@pytest.mark.parametrize(
    ("self_id", "jobs", "fixed"),
    [
        pytest.param("8", (), True, id="the successor is gone, its spare went on"),
        pytest.param("8", (link(7, "14:00"),), False, id="the successor only waits"),
        pytest.param("7", (), False, id="the successor itself"),
        pytest.param("", (), False, id="a tick of somebody else's"),
    ],
)
def test_a_spare_that_had_to_go_on_is_told(self_id: str, jobs: tuple[model.Job, ...], *, fixed: bool) -> None:
    w = world("14:30", jobs=jobs, link=self_id, chain=chain(), successor="7", spare="8")
    assert bool(events(w)) == fixed


def test_a_spare_says_nothing_where_the_queue_is_unknown() -> None:
    assert events(world("14:30", jobs=None, link="8", chain=chain(), successor="7", spare="8")) == []


def test_slots_missed_by_an_entry_that_runs_on_are_told_once() -> None:
    missed = model.Skip(entry("backup"), at("12:00"), Result.MISSED, Reason.MISSED, "2 slots: no disk", 2)
    runs = model.Submit(entry("backup"), key("backup", "14:00"), Reason.SUBMIT)
    assert events(world("14:00"), outcome(missed), outcome(runs)) == [("missed", "backup missed 2 slots: no disk")]
    assert events(world("14:00"), outcome(missed)) == [], "else it stands, and the condition says it"


# --- runs by hand ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job_end", "job", "said"),
    [
        pytest.param(JobEnd(Result.FAILED, 2), "9", "backup, run by hand, failed (exit 2)", id="it failed"),
        pytest.param(JobEnd(Result.TIMEOUT), "9", "backup, run by hand, timed out", id="it took too long"),
        pytest.param(
            JobEnd(Result.OUT_OF_MEMORY), "9", "backup, run by hand, failed: out of memory", id="it ran out of memory"
        ),
        pytest.param(JobEnd(Result.OK), "9", "", id="it went well"),
        pytest.param(JobEnd(Result.KILLED), "9", "", id="it was killed"),
        pytest.param(JobEnd(Result.REFUSED), "", "", id="sbatch refused it, which was printed there and then"),
    ],
)
def test_a_run_by_hand_is_told_of_only_where_it_failed(job_end: JobEnd, job: str, said: str) -> None:
    told = alerts.by_hand("backup", replace(job_end, log="log/backup/x.out"), job, NOW)
    assert (told.text if told else "") == said
    assert told is None or (told.phase, told.kind, told.job, told.log) == ("once", "failed", "9", "log/backup/x.out")


def test_a_failure_names_the_job_and_the_log_of_its_newest_run() -> None:
    state = ended(job="12", log="log/backup/x.out")
    (each,) = alerts.conditions(world("14:00", entry("backup")), {"backup": state}, (), {})
    assert (each.job, each.log) == ("12", "log/backup/x.out")
    (said,), _ = alerts.messages([each], {}, NOW, THERE)
    assert (said.job, said.log) == ("12", "log/backup/x.out")


# --- many at once --------------------------------------------------------------------------------------------------


def many(number: int, kind: str = "failed") -> list[Alert]:
    return [Alert(Phase.NEW, kind, f"e{n} failed", f"e{n}", n + 1) for n in range(number)]


def test_a_few_are_told_one_by_one() -> None:
    assert alerts.gathered(many(10)) == many(10)


def test_many_of_a_kind_are_one_message_that_names_all_entries() -> None:
    mixed = [*many(40), Alert(Phase.NEW, "budget", "too many")]
    whole, other = alerts.gathered(mixed)
    assert whole.entries == tuple(f"e{n}" for n in range(40))
    assert whole.text.splitlines()[0] == "40 at once (failed):"
    assert whole.text.splitlines()[-1] == "and 10 more"
    assert whole.since == 1
    assert other.kind == "budget"


# --- a full disk ---------------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_once_though_nothing_can_be_written(tmp_path: Path) -> None:
    def told(now: int, *, full: bool) -> str:
        return damage.told_of_disk(tmp_path, now, full=full, again=DAY) or ""

    assert told(0, full=False) == ""
    assert told(HOUR, full=True) == "new"
    assert told(2 * HOUR, full=True) == ""
    assert told(DAY + HOUR, full=True) == "still"
    assert told(DAY + 2 * HOUR, full=True) == ""
    assert told(DAY + 3 * HOUR, full=False) == "over"
    assert told(DAY + 4 * HOUR, full=False) == ""
    assert [path.name for path in tmp_path.iterdir()] == ["disk.fine"]


def test_where_not_even_a_name_can_be_changed_it_is_told_each_time(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert [damage.told_of_disk(gone, n, full=True, again=DAY) for n in range(2)] == ["new", "new"]
    assert damage.told_of_disk(gone, 0, full=False, again=DAY) is None


def test_jobs_of_the_world_are_not_mistaken_for_links() -> None:
    w = world("14:30", jobs=(job(7, "COMPLETED"),), link="8", chain=chain(), successor="7", spare="8")
    assert events(w) == [("chain", "the chain was fixed: job 7 did not come, and its spare, job 8, went on")]
