"""What an end means: results, streaks, retries, suspension, and the node that failures share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cronhpc.core.alerts import conditions
from cronhpc.core.attempts import counted, job_end_of, launched, retry_at
from cronhpc.core.chain import bad_node_problems
from cronhpc.core.identity import Lives, records
from cronhpc.core.model import ClaimState, EntryState, Finish, JobEnd, NodeFault, Result, standing_for
from cronhpc.core.model.runs import hosts
from cronhpc.core.model.world import BadNode
from cronhpc.core.plan import plan
from cronhpc.script.dialect import GRID_ENGINE, PBS, Dialect
from tests.worlds import ID, at, claim, entry, job, key, world

NOW = at("14:00")

# --- what is known of an end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "more", "result", "detail"),
    [
        pytest.param("COMPLETED", {}, Result.OK, "", id="it went well"),
        pytest.param("FAILED", {"exit_code": 3, "reason": "NonZeroExitCode"}, Result.FAILED, "", id="an exit code"),
        pytest.param("FAILED", {"signal": 9}, Result.FAILED, "", id="a signal"),
        pytest.param("TIMEOUT", {"reason": "TimeLimit"}, Result.TIMEOUT, "", id="its time limit"),
        pytest.param("DEADLINE", {}, Result.TIMEOUT, "", id="its deadline"),
        pytest.param("OUT_OF_MEMORY", {}, Result.OUT_OF_MEMORY, "", id="its memory"),
        pytest.param("NODE_FAIL", {}, Result.NODE_FAIL, "", id="its node"),
        pytest.param("BOOT_FAIL", {}, Result.NODE_FAIL, "", id="a node that did not boot"),
        pytest.param("CANCELLED", {}, Result.CANCELLED, "", id="cancelled"),
        pytest.param("PREEMPTED", {}, Result.PREEMPTED, "", id="preempted"),
        pytest.param("REVOKED", {}, Result.PREEMPTED, "", id="started by a sibling cluster"),
        pytest.param("SPECIAL_EXIT", {}, Result.UNKNOWN, "", id="a state that nobody has heard of"),
        pytest.param("FAILED", {"reason": "JobLaunchFailure"}, Result.FAILED, "", id="as 20.11 says of any signal"),
        pytest.param("FAILED", {"exit_code": 53}, Result.FAILED, "", id="a script that exits 53"),
        pytest.param("TIMEOUT", {"reason": "Odd"}, Result.TIMEOUT, "Odd", id="a reason worth telling"),
    ],
)
def test_an_end_as_the_queue_remembers_it(state: str, more: dict[str, Any], result: Result, detail: str) -> None:
    job_end = job_end_of(job(7, state, nodes="cpu1", **more), None)
    assert job_end.result is result
    assert detail in job_end.detail
    assert bool(job_end.detail) == bool(detail)


@pytest.mark.parametrize(
    ("job_end", "logged", "failed_launch"),
    [
        pytest.param(JobEnd(Result.FAILED, None, 53), False, True, id="signal 53 and no log"),
        pytest.param(JobEnd(Result.FAILED, None, 53), None, True, id="signal 53, and the script names its own log"),
        pytest.param(JobEnd(Result.FAILED, None, 53), True, False, id="signal 53, and there is a log"),
        pytest.param(JobEnd(Result.FAILED, 1), False, True, id="exit code 1 and no log, as 20.11 has it"),
        pytest.param(JobEnd(Result.FAILED, 1), True, False, id="exit code 1 and a log"),
        pytest.param(JobEnd(Result.FAILED, 1), None, False, id="exit code 1, and the script names its own log"),
        pytest.param(JobEnd(Result.FAILED, 53), False, False, id="exit code 53"),
        pytest.param(JobEnd(Result.FAILED, None, 9), False, False, id="a signal"),
        pytest.param(JobEnd(Result.CANCELLED, 0), False, False, id="cancelled before it had a log"),
    ],
)
def test_only_a_missing_log_tells_that_it_could_not_be_launched(
    job_end: JobEnd,
    logged: bool | None,  # noqa: FBT001 - a column of the table
    failed_launch: bool,  # noqa: FBT001 - as above
) -> None:
    assert ("no log was produced" in launched(job_end, logged=logged).detail) == failed_launch


@pytest.mark.parametrize(
    ("node", "said"),
    [("cpu7", "on cpu7: no log was"), ("cpu[1-3]", "on cpu[1-3]: no log was"), ("", "launched: no log was")],
    ids=["one node", "several: nobody knows which", "none is known"],
)
def test_a_failed_launch_names_the_node_and_the_way_round_it(node: str, said: str) -> None:
    told = launched(JobEnd(Result.FAILED, None, 53, node=node), logged=False).detail
    assert said in told
    assert told.endswith("#SBATCH --exclude=cpu7") == (node == "cpu7")
    assert ("--exclude" in told) == (node == "cpu7")


@pytest.mark.parametrize(
    ("dialect", "line"),
    [pytest.param(GRID_ENGINE, "#$ -l h=!(cpu7)", id="its own option"), pytest.param(PBS, "", id="it has none")],
)
def test_the_way_round_a_node_is_in_the_batch_systems_words(dialect: Dialect, line: str) -> None:
    told = launched(JobEnd(Result.FAILED, None, 53, node="cpu7"), logged=False, dialect=dialect).detail
    (problem,) = bad_node_problems([BadNode("cpu7", 2000, NodeFault.LAUNCH)], 1000, dialect)
    failed = EntryState(0, failures=2, nodes=("cpu7", "cpu7"), well_on="cpu1", last={"result": "failed"})
    (alert,) = conditions(replace(world("14:00", entry("a")), dialect=dialect), {"a": failed}, (), {})
    for text in (told, f"{problem.what} {problem.fix}", alert.text):
        assert (line in text, "#SBATCH" in text, "Slurm" in text) == (True, False, False)
        assert line or "fault" not in text
    assert dialect.title in problem.what


def test_nobody_knows_is_said() -> None:
    assert job_end_of(None, None).result is Result.UNKNOWN


def test_accounting_beats_the_queue_which_fills_its_gaps() -> None:
    seen = job(7, "CANCELLED", submitted=1, start=2, ended=3, nodes="cpu1")
    job_end = job_end_of(seen, JobEnd(Result.FAILED, 2, detail="cancelled by 0"))
    assert job_end == JobEnd(Result.FAILED, 2, submitted=1, started=2, ended=3, node="cpu1", detail="cancelled by 0")


@pytest.mark.parametrize(
    ("rows", "tasks"),
    [
        pytest.param({"1": "COMPLETED", "2": "FAILED"}, "2", id="one of two"),
        pytest.param({"10": "TIMEOUT", "2": "FAILED", "3": "COMPLETED"}, "2,10", id="several"),
        pytest.param({"2": "FAILED"}, "2", id="a further attempt of one task"),
        pytest.param({"1": "COMPLETED", "2": "COMPLETED"}, "", id="none"),
        pytest.param({"": "FAILED"}, "", id="no array"),
    ],
)
def test_of_an_array_the_queue_alone_tells_which_tasks_failed(rows: dict[str, str], tasks: str) -> None:
    """Where squeue's answers are cached, the one about exit codes may be from before the end."""
    seen = standing_for([job(7, state, tasks=task) for task, state in rows.items()])
    assert job_end_of(seen, None).tasks == tasks


def test_a_job_that_never_ran_has_no_start() -> None:
    assert job_end_of(job(7, "CANCELLED", start=5, ended=5), None).started is None


# --- retries -------------------------------------------------------------------------------------------------------


def retried(
    result: Result, attempt: int = 1, *, by_hand: bool = False, deadline: int | None = None, **more: Any
) -> int:
    """Seconds until a further attempt is due, by an entry with two retries; -1: there is none."""
    policies: dict[str, Any] = {"retries": 2, "retry_delay": 60, **more}
    one = claim("e", "13:00", ClaimState.RELEASED, "7", attempt)
    one = replace(one, key=replace(one.key, by_hand=by_hand))
    due = retry_at(entry("e", **policies), one, JobEnd(result, ended=NOW), deadline, NOW)
    return -1 if due is None else due - NOW


@pytest.mark.parametrize("result", list(Result))
def test_only_failures_are_tried_again(result: Result) -> None:
    """A killed run is not a failed one; what sbatch refused for good would be refused again."""
    again = {Result.FAILED, Result.TIMEOUT, Result.OUT_OF_MEMORY, Result.NODE_FAIL, Result.PREEMPTED}
    assert retried(result) == (60 if result in again else -1)


@pytest.mark.parametrize(
    ("attempt", "more", "seconds"),
    [
        pytest.param(1, {}, 60, id="the delay"),
        pytest.param(2, {}, 120, id="twice as long after the second"),
        pytest.param(3, {}, -1, id="two retries are three attempts"),
        pytest.param(3, {"retries": 9}, 240, id="it doubles on"),
        pytest.param(1, {"retries": 0}, -1, id="none by default"),
        pytest.param(1, {"retry_delay": 0}, 0, id="at once"),
        pytest.param(40, {"retries": 99}, 60 * 1024, id="not for ever longer"),
    ],
)
def test_a_retry_waits_longer_after_each_attempt(attempt: int, more: dict[str, Any], seconds: int) -> None:
    assert retried(Result.FAILED, attempt, **more) == seconds


@pytest.mark.parametrize(
    ("deadline", "seconds"),
    [(NOW + 60, 60), (NOW + 59, -1), (None, 60)],
    ids=["just in time", "too late", "no deadline"],
)
def test_a_retry_beyond_the_deadline_is_none(deadline: int | None, seconds: int) -> None:
    assert retried(Result.FAILED, deadline=deadline) == seconds


def test_a_run_by_hand_is_not_tried_again() -> None:
    assert retried(Result.FAILED, by_hand=True) == -1


def test_an_entry_that_is_gone_is_not_tried_again() -> None:
    one = claim("e", "13:00", ClaimState.RELEASED, "7")
    assert retry_at(None, one, JobEnd(Result.FAILED), None, NOW) is None


def test_an_end_long_ago_is_tried_again_now() -> None:
    one = claim("e", "13:00", ClaimState.RELEASED, "7")
    assert (
        retry_at(entry("e", retries=1, retry_delay=60), one, JobEnd(Result.FAILED, ended=NOW - 999), None, NOW) == NOW
    )


# --- streaks and suspension ----------------------------------------------------------------------------------------


def after(results: str, suspend_after: int | None = None) -> EntryState:
    """The state after ends: F, K, C, U, P by their first letter, R a failure that is tried again, . went well."""
    kinds = {"F": Result.FAILED, "R": Result.FAILED, "K": Result.KILLED, "C": Result.CANCELLED, "U": Result.UNKNOWN}
    kinds["P"] = Result.PREEMPTED
    state = EntryState()
    for n, letter in enumerate(results):
        job_end = JobEnd(kinds.get(letter, Result.OK), node=f"cpu{n}")
        state = counted(state, entry("e", suspend_after=suspend_after), job_end, NOW + n, NOW + n, final=letter != "R")
    return state


@pytest.mark.parametrize(
    ("results", "failures", "successes"),
    [
        ("", 0, 0),
        ("...", 0, 3),
        ("..F", 1, 0),
        ("FF.", 0, 1),
        ("FKF", 2, 0),
        (".K.", 0, 2),
        (".C.", 0, 2),
        ("FUF", 2, 0),
        (".P.", 0, 2),
        ("FPF", 2, 0),
        (".R.", 0, 2),
        ("RRF", 1, 0),
    ],
)
def test_a_streak_counts_what_tells_something(results: str, failures: int, successes: int) -> None:
    state = after(results)
    assert (state.failures, state.successes) == (failures, successes)


@pytest.mark.parametrize(
    ("ends", "failures"),
    [
        pytest.param([(1, "F"), (3, "F"), (2, "F"), (4, "F")], 4, id="a slot whose last attempt fails later counts"),
        pytest.param([(1, "F"), (3, "."), (2, "F")], 0, id="one before the newest success does not"),
        pytest.param([(1, "F"), (3, "F"), (2, ".")], 2, id="a late success ends no newer streak"),
        pytest.param([(1, "R"), (2, "R"), (1, "K"), (2, "K")], 2, id="two wait for a further attempt: both count"),
        pytest.param([(1, "R"), (2, "R"), (2, "F"), (1, "K")], 2, id="the newer one fails first"),
        pytest.param([(1, "R"), (2, "R"), (2, "."), (1, "K")], 0, id="the newer one goes well: the older is past"),
    ],
)
def test_slots_count_in_their_order_however_late_one_ends(ends: list[tuple[int, str]], failures: int) -> None:
    state, newest = EntryState(), 0
    for slot, letter in ends:
        job_end = JobEnd({".": Result.OK, "K": Result.KILLED}.get(letter, Result.FAILED))
        state = counted(state, entry("e"), job_end, NOW + slot, NOW, final=letter != "R", newest=newest)
        newest = max(newest, NOW + slot)
    assert state.failures == failures


SUPERSEDED = [
    pytest.param("RK", 1, id="its further attempt was replaced by a newer slot: the slot has failed"),
    pytest.param("RC", 1, id="or cancelled"),
    pytest.param("RM", 1, id="or could not be submitted in time"),
    pytest.param("RP", 1, id="or was preempted"),
    pytest.param("RRK", 1, id="the second further attempt: one slot, one failure"),
    pytest.param("R.", 0, id="it went well"),
    pytest.param("R.K", 0, id="it went well, and one by hand after it was killed"),
    pytest.param("RU", 0, id="nobody knows how it ended"),
    pytest.param("RF", 1, id="it failed, too"),
    pytest.param("R", 0, id="it is still to come"),
    pytest.param("PK", 0, id="only preempted before"),
]


@pytest.mark.parametrize(("results", "failures"), SUPERSEDED)
def test_a_slot_whose_attempt_failed_counts_whatever_keeps_the_further_one_from_its_end(
    results: str, failures: int
) -> None:
    """Of each of two slots, by letters as above; M: missed. What newer slots replace would never be suspended."""
    kinds = {"F": Result.FAILED, "R": Result.FAILED, "K": Result.KILLED, "C": Result.CANCELLED, "U": Result.UNKNOWN}
    kinds |= {"P": Result.PREEMPTED, "M": Result.MISSED, ".": Result.OK}
    state = EntryState()
    for slot in (NOW, NOW + 60):
        for letter in results:
            last = results.endswith(letter) and letter != "R"
            state = counted(state, entry("e", suspend_after=2), JobEnd(kinds[letter]), slot, NOW, final=last)
    assert (state.failures, state.suspended) == (2 * failures, NOW if failures else None)
    assert bool(state.to_retry) == results.endswith("R"), "none waits for a further attempt that has ended"


@pytest.mark.parametrize(
    ("results", "limit", "suspended"),
    [
        pytest.param("F" * 50, None, None, id="off by default: a watcher whose exit 1 means alert stays for ever"),
        pytest.param("FF", 3, None, id="not yet"),
        pytest.param("FFF", 3, NOW + 2, id="the third in a row"),
        pytest.param("FF.FF", 3, None, id="a success between"),
        pytest.param("FKFKF", 3, NOW + 4, id="killed ones count neither way"),
        pytest.param("PPPPP", 3, None, id="preempted ones: no fault of the script"),
        pytest.param("RRRF", 3, None, id="attempts of one slot are one failure"),
        pytest.param("FFFFF", 3, NOW + 2, id="since the third, not since the last"),
    ],
)
def test_an_entry_is_suspended_after_so_many_failures_in_a_row(
    results: str, limit: int | None, suspended: int | None
) -> None:
    assert after(results, limit).suspended == suspended


# --- a node that failures share ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "shared"),
    [
        pytest.param((), "", id="no failure"),
        pytest.param(("cpu2",), "", id="one failure blames no node"),
        pytest.param(("cpu9", "cpu9"), "", id="the node of the last success"),
        pytest.param(("cpu[8-9]", "cpu[8-9]"), "cpu8", id="the node of the last success beside another"),
        pytest.param(("cpu2", "cpu2"), "cpu2", id="two on one node"),
        pytest.param(("cpu2", "cpu1"), "", id="two nodes"),
        pytest.param(("cpu[1-4]", "cpu[4-8]"), "cpu4", id="two jobs of many nodes that share one"),
        pytest.param(("cpu[1-4]", "cpu[3-8]"), "", id="they share two: neither is named"),
        pytest.param(("gpu1", "cpu1,gpu1", "gpu1"), "gpu1", id="a list without brackets"),
    ],
)
def test_the_node_that_the_last_failures_share(nodes: tuple[str, ...], shared: str) -> None:
    assert EntryState(nodes=nodes, well_on="cpu9").shared_node == shared
    assert EntryState(nodes=nodes).shared_node == "", "it has never gone well elsewhere"


def test_nodes_are_remembered_while_it_fails_and_only_the_last_ones() -> None:
    assert after("F" * 8).nodes == ("cpu3", "cpu4", "cpu5", "cpu6", "cpu7")
    assert after("FR").nodes == ("cpu0", "cpu1"), "an attempt that is tried again tells of its node as well"
    assert after("FF.").nodes == ()
    assert after("F.FF").well_on == "cpu1"
    assert after("FK").nodes == ("cpu0",)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("cpu1", ["cpu1"]),
        ("cpu1,gpu2", ["cpu1", "gpu2"]),
        ("cpu[1-3]", ["cpu1", "cpu2", "cpu3"]),
        ("cpu[08-10,12],gpu1", ["cpu08", "cpu09", "cpu10", "cpu12", "gpu1"]),
        ("r[1-2]n1", ["r1n1", "r2n1"]),
        ("cpu[1-99999999]", ["cpu1-99999999"]),
        ("cpu[1-", ["cpu[1-"]),
        ("r[1-2]n[3-4]", ["r[1-2]n[3-4]"]),
    ],
)
def test_a_list_of_nodes_is_the_names_it_stands_for(text: str, names: list[str]) -> None:
    assert hosts(text) == names


@given(st.lists(st.tuples(st.integers(1, 200), st.integers(0, 20)), min_size=1, max_size=5))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no failure
def test_ranges_are_every_node_in_them(ranges: list[tuple[int, int]]) -> None:
    text = ",".join(f"{first}-{first + more}" if more else f"{first}" for first, more in ranges)
    names = [f"n{number}" for first, more in ranges for number in range(first, first + more + 1)]
    assert hosts(f"n[{text}]") == names


# --- a job id that was used again ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "again"),
    [
        pytest.param({"of": key("e", "13:00")}, False, id="its own token"),
        pytest.param({"of": key("e", "13:00", 2)}, True, id="the token of another attempt"),
        pytest.param({"comment": f"cronhpc={ID}/link 5 x"}, True, id="a link's"),
        pytest.param({"comment": "cronhpc=other/e@20261127T1300Z.1"}, True, id="another directory's"),
        pytest.param({"comment": f"cronhpc-paused/{ID} cronhpc={ID}/{key('e', '13:00')}"}, False, id="held by us"),
        pytest.param({"name": "bash"}, True, id="no token, another name"),
        pytest.param({"name": "e"}, False, id="no token, its name: its user changed the comment"),
        pytest.param({"name": "e", "submitted": at("15:00")}, True, id="no token, its name, submitted hours later"),
        pytest.param({"name": "e", "submitted": at("13:05")}, False, id="no token, its name, submitted then"),
        pytest.param({}, False, id="nothing is known of it"),
    ],
)
def test_an_id_that_was_used_again(more: dict[str, Any], again: bool) -> None:  # noqa: FBT001 - a table's column
    mine = claim("e", "13:00", ClaimState.RELEASED, "7")
    other = job(7, **more)
    one = world("16:00", entry("e"), jobs=(other,), claims=(mine,))
    assert (other in records(one).rows_of(mine)) != again
    assert bool(Lives.of(one).of_entry("e")) != again
    finished = [d for d in plan(one).decisions if isinstance(d, Finish)]
    assert [d.job_end.result for d in finished] == ([Result.UNKNOWN] if again else [])
