"""What squeue and sacct print: real samples of 22.05, and hand-made ones in the manner of newer releases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cronhpc.batch.port import Unreachable
from cronhpc.batch.slurm.job_ends import (
    ACCOUNTING,
    Row,
    accounting_rows,
    ends_of,
    exit_of,
    exits_rows,
    for_accounting,
    job_end_of,
    job_ends_of,
    restarts_of,
    used_of,
)
from cronhpc.batch.slurm.rows import fault_of, moment, queue_format, queue_rows
from cronhpc.core.model import Accounting, Fault, Job, JobEnd, Result, task_list

DATA = Path(__file__).parents[1] / "data"
MARK = "\x1e0123abcd\x1f"
AT = 1795824410  # when the sample's jobs were submitted


def sample(name: str) -> str:
    return (DATA / name).read_bytes().decode("utf-8", "surrogateescape")


def row(*fields: str) -> str:
    return MARK + MARK.join(fields) + MARK + "\n"


PLAIN = ("7", "RUNNING", "None", "100", "90", "N/A", "cpu", "abc", "cpu1", "job", "/tmp", "/tmp/job.sh", "(null)")


@pytest.fixture(scope="module")
def real() -> dict[str, Job]:
    return {job.shown_id: job for job in queue_rows(sample("squeue_22.05.txt"), MARK)}


def test_every_row_of_the_real_sample_is_a_job_and_alike_tasks_are_one(real: dict[str, Job]) -> None:
    tasks = {"94_[0-2,6-9]", "94_[3-5]", "102_0", "102_1", "102_2"}
    assert set(real) == tasks | {"90", "91", "92", "93", "98", "99", "100", "101", "103", "106"}


@pytest.mark.parametrize(
    ("shown", "name", "comment"),
    [
        pytest.param("90", "a|b", "cronhpc=d1/backup@20261127T0400Z.1 own | comment", id="a pipe"),
        pytest.param("91", "new\nline", "first\nsecond \x01 é", id="newlines"),
        pytest.param("92", "ctl\x1e\x1fq", "", id="control characters"),
        pytest.param("93", "é" * 150, "", id="300 bytes"),
        pytest.param("101", 'it\'s %j "q" \\ back', "", id="quotes and a backslash"),
        pytest.param("103", "d d", "", id="a blank"),
    ],
)
def test_names_and_comments_arrive_as_they_were_given(
    real: dict[str, Job], shown: str, name: str, comment: str
) -> None:
    assert (real[shown].name, real[shown].comment) == (name, comment)


def test_a_held_part_of_an_array_is_told_from_the_rest(real: dict[str, Job]) -> None:
    assert [(real[shown].reason, real[shown].held) for shown in ("94_[0-2,6-9]", "94_[3-5]")] == [
        ("BeginTime", False),
        ("JobHeldUser", True),
    ]


def test_a_job_put_back_held_counts_as_held_but_by_nobody(real: dict[str, Job]) -> None:
    assert real["106"].held
    assert not real["106"].held_by_user


@pytest.mark.parametrize(
    ("reason", "fault"),
    [
        ("JobHeldUser", Fault.HELD_BY_USER),
        ("JobHeldAdmin", Fault.HELD_BY_ADMIN),
        ("launch failed requeued held", Fault.HELD),
        ("job requeued in held state", Fault.HELD),
        ("BeginTime, held (REQUEUE_HOLD)", Fault.HELD),
        ("BadConstraints", Fault.IMPOSSIBLE),
        ("DependencyNeverSatisfied", Fault.NEVER_STARTS),
        ("PartitionTimeLimit", Fault.NEVER_STARTS),
        ("InvalidQOS", Fault.MAY_NEVER_START),
        ("QOSMaxWallDurationPerJobLimit", Fault.MAY_NEVER_START),
        ("QOSMaxJobsPerUserLimit", Fault.KEPT_BACK),
        ("PartitionDown", Fault.KEPT_BACK),
        ("ReqNodeNotAvail, UnavailableNodes:cpu[1-9]", Fault.KEPT_BACK),
        ("Priority", None),
        ("Resources", None),
        ("BeginTime", None),
        ("None", None),
    ],
)
def test_what_a_reason_of_slurm_means(reason: str, fault: Fault | None) -> None:
    assert fault_of(reason) is fault


def test_times_are_epoch_seconds_and_a_plan_is_no_end(real: dict[str, Job]) -> None:
    assert (real["92"].start, real["92"].submitted, real["92"].ended) == (1901000000, AT, None)
    assert real["101"].state == "RUNNING"
    assert real["101"].ended is None
    assert real["98"].ended == AT + 1
    assert real["90"].start is None


def test_the_hand_made_26_05_sample_with_a_cluster_line() -> None:
    jobs = {job.shown_id: job for job in queue_rows(sample("squeue_26.05_like_handmade.txt"), MARK)}
    assert set(jobs) == {"7001", "7002_[3-4]", "7003", "7004"}
    assert jobs["7001"].token_of("d1") == "link 1901000000 f00"
    assert (jobs["7003"].state, jobs["7003"].held) == ("PENDING", True)
    assert (jobs["7004"].nodes, jobs["7002_[3-4]"].start) == ("node[01-02]", None)


@pytest.mark.parametrize("text", [f"{MARK}JOBID JOBID{MARK}STATE{MARK}\n", "CLUSTER: lab\n"])
def test_an_answer_without_rows_is_an_empty_queue(text: str) -> None:
    assert queue_rows(text, MARK) == ()


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_answer_without_its_columns_names_is_none(text: str) -> None:
    """Of a wrapper or a cache that has failed and exits 0: an empty queue would let a live run count as gone."""
    with pytest.raises(Unreachable, match="not even the names of its columns"):
        queue_rows(text, MARK)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Welcome to the cluster!\n" + row(*PLAIN), id="a banner before it"),
        pytest.param("7 RUNNING job\n", id="rows in another form"),
        pytest.param(row(*PLAIN)[:-20], id="broken off within a field"),
        pytest.param(row(*PLAIN) + MARK + "8", id="broken off at a row's start"),
        pytest.param(row(*PLAIN).rstrip("\n"), id="broken off before the newline"),
        pytest.param(row(*PLAIN[:-1]), id="a field less"),
        pytest.param(row(*PLAIN, "more"), id="a field more"),
        pytest.param(row("", *PLAIN[1:]), id="no job id"),
        pytest.param(row("x7", *PLAIN[1:]), id="an id that is none"),
        pytest.param(row("7", "", *PLAIN[2:]), id="no state"),
        pytest.param(row(*PLAIN[:3], "2026-11-27T04:00:00", *PLAIN[4:]), id="a time that is no epoch second"),
    ],
)
def test_an_answer_that_is_not_understood_is_no_answer(text: str) -> None:
    with pytest.raises(Unreachable):
        queue_rows(text, MARK)


def test_the_format_asks_for_the_comment_last() -> None:
    assert queue_format("<>").endswith("<>%k<>")


@pytest.mark.parametrize(
    ("tasks", "text"),
    [([3], "3"), ([0, 1, 2, 5], "[0-2,5]"), ([9, 4], "[4,9]"), ([1, 2], "[1-2]"), (list(range(1000)), "[0-999]")],
)
def test_task_lists_are_written_as_slurm_writes_them(tasks: list[int], text: str) -> None:
    assert task_list(tasks) == text


@pytest.mark.parametrize("text", ["N/A", "NONE", "Unknown", "(null)", "", "None"])
def test_words_for_no_time(text: str) -> None:
    assert moment(text) is None


# --- endings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "exit_code", "signal"),
    [
        pytest.param("768", 3, None, id="22.05: a wait status, exit 3"),
        pytest.param("9", None, 9, id="22.05: a wait status, signal 9"),
        pytest.param("4021", None, 53, id="22.05: could not be launched"),
        pytest.param("36608", 143, None, id="22.05: bash's 128 and SIGTERM"),
        pytest.param("0", 0, None, id="22.05: well"),
        pytest.param("3:0", 3, None, id="26.05 and sacct: exit 3"),
        pytest.param("0:9", None, 9, id="26.05 and sacct: signal 9"),
        pytest.param("0:0", 0, None, id="26.05 and sacct: well"),
        pytest.param("", None, None, id="nothing"),
        pytest.param("?:0", None, None, id="nonsense"),
    ],
)
def test_an_exit_code_of_slurm_has_code_and_signal(text: str, exit_code: int | None, signal: int | None) -> None:
    assert exit_of(text) == (exit_code, signal)


def controller() -> list[Row]:
    return exits_rows(sample("squeue_exits_22.05.txt"))


def accounting() -> list[Row]:
    return accounting_rows(sample("sacct_22.05.txt"), MARK)


@pytest.mark.parametrize("source", [controller, accounting])
def test_both_sources_tell_the_same_ends(source: object) -> None:
    rows = controller() if source is controller else accounting()
    found = job_ends_of(rows, AT, {})
    assert {job: (e.result, e.exit_code, e.signal) for job, e in found.items() if job != "101"} == {
        "91": (Result.CANCELLED, 0, None),
        "98": (Result.FAILED, 3, None),
        "99": (Result.FAILED, None, 9),
        "100": (Result.FAILED, None, 53),
        "102": (Result.FAILED, 1, None),
    }
    assert found["98"] == JobEnd(Result.FAILED, 3, None, AT, AT, AT + 1, "cpu1", "")
    assert found["91"].started is None, "it never ran"
    assert found["102"].detail == "array tasks: [1-2] failed"
    assert (found["102"].tasks, found["98"].tasks) == ("1-2", ""), "what a further attempt runs"
    assert found["100"].detail == "", "whether it was launched at all its log tells"


def test_multi_line_comments_do_not_break_the_rows_of_accounting() -> None:
    rows = {(row.id, row.task): row for row in accounting()}
    assert (rows["91", ""].marks or "").startswith("first\nsecond \x01 é\nsbatch --parsable --hold")
    assert len(accounting()) == 18


def test_restarts_are_counted_from_the_controllers_number_and_from_accountings_rows() -> None:
    assert job_ends_of([replace(a_row("FAILED"), restarts=2)], AT, {})["7"].detail == "restarted 2 times"
    starts = [a_row("REQUEUED", AT), a_row("REQUEUED", AT + 60), a_row("TIMEOUT", AT + 120)]
    assert job_ends_of(starts, AT, {})["7"].detail == "restarted 2 times; timeout"
    starts = [told("REQUEUED"), told("CANCELLED by 0", AT + 60)]
    assert job_ends_of(starts, AT, {})["7"].detail == "restarted once; cancelled by root"
    tasks = [a_row("REQUEUED", AT, "1"), a_row("COMPLETED", AT + 60, "1"), a_row("COMPLETED", AT, "2")]
    assert job_ends_of(tasks, AT, {})["7"].detail == "restarted once"


def test_restarts_of_live_jobs_as_squeue_prints_them() -> None:
    rows = [("57_1", "2"), ("57_2", "1"), ("57_[3-9]", "0"), ("8", "3"), ("9", "0")]
    printed = "".join(f"{name:<64}{number:<64}\n" for name, number in rows)
    assert restarts_of(f"CLUSTER: lab\n{printed}") == {"57": 3, "8": 3}


def test_the_hand_made_26_05_exit_codes() -> None:
    found = job_ends_of(exits_rows(sample("squeue_exits_26.05_like_handmade.txt")), AT, {})
    assert {job: (e.exit_code, e.signal) for job, e in found.items()} == {
        "7010": (3, None),
        "7011": (None, 9),
        "7012": (0, None),
    }


BANNER, BYE = "### maintenance on 2026-12-01 | all\n99|down\n\n", "Have a nice day! (3 jobs)\n"
EXITS = f"{'JOBID':64}{'STATE':64}{'EXIT_CODE':64}\n"
ACCOUNTED = MARK.join(ACCOUNTING) + "\n"


@pytest.mark.parametrize("before", ["", BANNER])
@pytest.mark.parametrize("behind", ["", BYE])
def test_what_a_sites_wrapper_prints_around_an_answer_is_no_part_of_it(before: str, behind: str) -> None:
    """The header tells, also where there are no rows: an answer of the wrapper alone is none."""
    header = row("JOBID JOBID", "STATE", *("X" for _ in PLAIN[2:]))
    assert [job.id for job in queue_rows(before + header + row(*PLAIN) + behind, MARK)] == ["7"]
    assert queue_rows(before + header + behind, MARK) == ()
    exits = sample("squeue_exits_22.05.txt")
    assert exits_rows(before + EXITS + exits + behind) == exits_rows(exits)
    assert exits_rows(before + EXITS + behind) == []
    told = sample("sacct_22.05.txt")
    for text in (told, ""):
        found = accounting_rows(before + ACCOUNTED + text + behind, MARK)
        assert [each.id for each in found] == [each.id for each in accounting_rows(text, MARK)]


@pytest.mark.parametrize("text", ["no such thing\n", "7 RUNNING 0\n"])
def test_a_controllers_answer_that_is_not_understood_is_no_answer(text: str) -> None:
    with pytest.raises(Unreachable):
        exits_rows(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(MARK.join(["7", "FAILED", "3:0", "1", "2"]) + "\n", id="broken off"),
        pytest.param(MARK.join(["x", "FAILED", "3:0", "1", "2", "3", "n", "", ""]) + "\n", id="no job id"),
        pytest.param("sacct: who knows\n", id="something else"),
    ],
)
def test_an_answer_of_accounting_that_is_not_understood_is_no_answer(text: str) -> None:
    with pytest.raises(Unreachable):
        accounting_rows(text, MARK)


def a_row(
    state: str = "COMPLETED",
    submitted: int = AT,
    task: str = "",
    marks: str | None = None,
    exit: str = "0:0",  # noqa: A002 - the field's name
) -> Row:
    return Row("7", state, exit, submitted, submitted + 1, submitted + 2, "cpu1", task, marks=marks)


def told(state: str, submitted: int = AT) -> Row:
    """The row that sacct prints of a job in that state."""
    times = [str(submitted + seconds) for seconds in range(3)]
    (made,) = accounting_rows(MARK.join(["7", state, "0:0", *times, "cpu1", "", ""]) + "\n", MARK)
    return made


def test_a_reused_id_is_told_by_its_comment() -> None:
    ours, theirs = a_row("FAILED", marks="cronhpc=d1/a@x.1"), a_row(submitted=AT + 50, marks="something else")
    assert job_ends_of([ours, theirs], AT, {"7": "cronhpc=d1/a@x.1"})["7"].result is Result.FAILED
    assert job_ends_of([theirs], AT, {"7": "cronhpc=d1/a@x.1"}) == {}
    assert job_ends_of([replace(theirs, marks="")], AT, {"7": "cronhpc=d1/a@x.1"}) == {}, "it has no comment at all"
    assert job_ends_of([replace(theirs, marks=None)], AT, {"7": "cronhpc=d1/a@x.1"}), "comments are not stored there"


def test_a_reused_id_is_told_by_its_submit_time() -> None:
    assert job_ends_of([a_row(submitted=AT - 1)], AT, {}) == {}


@pytest.mark.parametrize(
    ("rows", "result"),
    [
        pytest.param([a_row("COMPLETED"), a_row("RUNNING")], Result.OK, id="accounting is late"),
        pytest.param([a_row("RUNNING"), a_row("COMPLETED")], Result.OK, id="the controller is late"),
        pytest.param([a_row("REQUEUED"), a_row("FAILED", AT + 9)], Result.FAILED, id="requeued, then failed"),
        pytest.param([a_row("NODE_FAIL"), a_row("PENDING", AT + 9)], None, id="requeued, and waits"),
        pytest.param([a_row("COMPLETED", task="0"), a_row("RUNNING", task="1")], None, id="a task still runs"),
        pytest.param(
            [a_row("COMPLETED", task="0"), a_row("TIMEOUT", task="1"), a_row("FAILED", task="2")],
            Result.TIMEOUT,
            id="the worst of the tasks",
        ),
        pytest.param(
            [a_row("COMPLETED", task="0"), a_row("FAILED")],
            Result.OK,
            id="accounting does not know yet that it is an array",
        ),
    ],
)
def test_of_several_rows_about_a_job(rows: list[Row], result: Result | None) -> None:
    found = job_ends_of(rows, AT, {}).get("7")
    assert (found.result if found else None) is result


@pytest.mark.parametrize(
    ("state", "result", "detail"),
    [
        ("TIMEOUT", Result.TIMEOUT, "timeout"),
        ("OUT_OF_MEMORY", Result.OUT_OF_MEMORY, "out of memory"),
        ("NODE_FAIL", Result.NODE_FAIL, "node fail"),
        ("CANCELLED by 0", Result.CANCELLED, "cancelled by root"),
        pytest.param("CANCELLED by 9999999999", Result.CANCELLED, "cancelled by 9999999999", id="nobody's number"),
        ("CANCELLED", Result.CANCELLED, "cancelled"),
        ("PREEMPTED", Result.PREEMPTED, "preempted"),
        ("REVOKED", Result.PREEMPTED, "revoked"),
        ("CANCELLED+", Result.CANCELLED, "cancelled+"),
        ("COMPLETED", Result.OK, ""),
    ],
)
def test_states_and_what_they_mean(state: str, result: Result, detail: str) -> None:
    job_end = job_end_of(told(state))
    assert job_end
    assert (job_end.result, job_end.detail) == (result, detail)


def test_accounting_is_asked_only_for_what_the_controller_cannot_tell() -> None:
    remembered = [
        Row("1", "FAILED", "", AT, AT, AT),
        Row("2", "CANCELLED", "", AT, AT, AT),
        Row("3", "OK", "", AT, AT, AT, task="0"),
    ]
    assert for_accounting(["1", "2", "3", "4"], remembered) == ["2", "3", "4"]


@pytest.mark.parametrize(
    ("states", "uid"),
    [
        (["CANCELLED by 1000"], 1000),
        (["CANCELLED"], None),
        (["CANCELLED by 1", "CANCELLED by 2"], 2),
        ([], None),
        (["FAILED"], None),
    ],
)
def test_who_cancelled_a_job_is_told_by_its_last_record(states: list[str], uid: int | None) -> None:
    assert ends_of([], [told(state) for state in states], Accounting(), AT, {}).cancelled_by.get("7") == uid


# --- what jobs used


@pytest.mark.parametrize(
    ("text", "used"),
    [
        pytest.param("", (0, 0), id="no job"),
        pytest.param("12\n8\n0\n", (2, 20), id="one that has not run yet took nothing"),
    ],
)
def test_what_jobs_used_is_added_up(text: str, used: tuple[int, int]) -> None:
    assert used_of(text) == used


def test_no_number_is_no_answer() -> None:
    with pytest.raises(Unreachable, match="no number"):
        used_of("12\nsacct: who knows\n")
