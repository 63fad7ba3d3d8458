"""What PBS's commands are told and what their answers mean: recorded from OpenPBS 23.06."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from cronhpc.batch import job_around, pbs
from cronhpc.batch.commands import changed
from cronhpc.batch.port import AtSubmitLimit, BatchError, Denied, Refused, Submission, Unreachable
from cronhpc.batch.process import Finished, scrub
from cronhpc.core.model import Job, Result
from cronhpc.script.dialect import PBS
from cronhpc.script.header import read_header

RECORDED = Path(__file__).resolve().parents[1] / "data" / "pbs"


def recorded(name: str) -> tuple[pbs.Row, ...]:
    return pbs.rows(pbs.answer(Finished(0, (RECORDED / name).read_text(encoding="utf-8"), "")))


def altered(name: str, number: str, **facts: object) -> list[pbs.Row]:
    """The recorded rows, of which one job's, and its tasks', are other ones."""
    return [row._replace(facts={**row.facts, **facts}) if row.number == number else row for row in recorded(name)]


@pytest.fixture(scope="module")
def jobs() -> dict[str, Job]:
    return {job.shown_id: job for job in pbs.jobs(recorded("pbs-qstat-tf.json"), {})}


def test_jobs_come_back_in_our_words(jobs: dict[str, Job]) -> None:
    assert {name: (job.name, job.state, job.reason) for name, job in jobs.items()} == {
        "712": ("nightly", "PENDING", "JobHeldUser"),
        "713": ("later", "PENDING", "BeginTime"),
        "714": ("runs", "RUNNING", ""),
        "715_[1-3]": ("arr", "PENDING", "JobHeldUser"),
    }
    assert jobs["712"].comment == "cronhpc=d1a2/nightly@20261128T0100Z.1"
    assert jobs["713"].start == datetime(2030, 1, 1, 0, 0, 30, tzinfo=UTC).timestamp()
    assert jobs["714"].submitted == jobs["714"].start == datetime(2026, 11, 28, 14, 12, 39, tzinfo=UTC).timestamp()
    assert (jobs["714"].nodes, jobs["714"].partition, jobs["714"].workdir) == ("pbshost", "workq", "/home/alice")


def test_an_array_is_one_row_where_its_tasks_were_not_asked_for() -> None:
    found = {job.shown_id: job for job in pbs.jobs(recorded("pbs-qstat-f.json"), {})}
    assert found["715"].held_by_user


DEPENDS = "afterok:711.pbshost@pbshost"


@pytest.mark.parametrize(
    ("facts", "state", "reason"),
    [
        pytest.param({"Hold_Types": "o"}, "PENDING", "JobHeldAdmin", id="an operator holds it"),
        pytest.param({"Hold_Types": "us"}, "PENDING", "JobHeldAdmin", id="the system holds it, too"),
        pytest.param({"Hold_Types": "s", "depend": DEPENDS}, "PENDING", "Dependency", id="it waits for another job"),
        pytest.param({"Hold_Types": "us", "depend": DEPENDS}, "PENDING", "JobHeldUser", id="and we hold it, too"),
        pytest.param({"Hold_Types": "n", "job_state": "Q"}, "PENDING", "", id="it waits for its turn"),
        pytest.param({"Hold_Types": "n", "job_state": "T"}, "PENDING", "", id="it is on its way to another server"),
        pytest.param({"Hold_Types": "n", "job_state": "E"}, "COMPLETING", "", id="it ends"),
        pytest.param({"Hold_Types": "n", "job_state": "S"}, "SUSPENDED", "", id="an operator has suspended it"),
    ],
)
def test_states_and_holds(facts: dict[str, str], state: str, reason: str) -> None:
    found = {job.id: job for job in pbs.jobs(altered("pbs-qstat-f.json", "712", **facts), {})}["712"]
    assert (found.state, found.reason) == (state, reason)
    assert found.fault == (reason if reason.startswith("JobHeld") else None)


def test_tasks_that_run_are_rows_of_their_own_and_those_that_have_ended_are_none() -> None:
    states = {"715[].pbshost": "B", "715[1].pbshost": "X", "715[2].pbshost": "R", "715[3].pbshost": "Q"}
    rows = [
        row._replace(facts={**row.facts, "job_state": states[row.name], "Hold_Types": "n"})
        for row in recorded("pbs-qstat-tf.json")
        if row.name in states
    ]
    assert {job.shown_id: job.state for job in pbs.jobs(rows, {})} == {"715_2": "RUNNING", "715_3": "PENDING"}


def test_a_comment_that_was_changed_later_counts(jobs: dict[str, Job]) -> None:
    (found,) = (job for job in pbs.jobs(recorded("pbs-qstat-f.json"), {"712": "paused"}) if job.id == "712")
    assert (found.comment, found.name) == ("paused", jobs["712"].name)


@pytest.mark.parametrize("value", [7, 100000, True, {}], ids=["a number", "1e5", "a truth", "braces"])
def test_a_name_that_qstat_takes_for_something_else_is_a_text(value: object) -> None:
    (found,) = (job for job in pbs.jobs(altered("pbs-qstat-f.json", "712", Job_Name=value), {}) if job.id == "712")
    assert isinstance(found.name, str)


EMPTY = '{"timestamp":1795875161,"pbs_version":"23.06.06","pbs_server":"pbshost"}'


@pytest.mark.parametrize(
    ("ended", "rows"),
    [
        pytest.param(Finished(0, EMPTY, ""), 0, id="no jobs"),
        pytest.param(Finished(153, EMPTY, "qstat: Unknown Job Id 9.pbshost"), 0, id="one is gone since"),
        pytest.param(Finished(35, EMPTY, "qstat: 9.pbshost Job has finished"), 0, id="one has ended since"),
        pytest.param(Finished(0, "", "qstat: PBS is not configured to maintain job history"), 0, id="no history"),
        pytest.param(Finished(0, f"Welcome {{you}}.\n{EMPTY}\nBye.\n", ""), 0, id="a wrapper prints lines around it"),
        pytest.param(Finished(255, EMPTY, "Connection refused"), None, id="down, with what looks like an answer"),
        pytest.param(Finished(0, "{", ""), None, id="cut off"),
        pytest.param(Finished(0, "[]", ""), None, id="another thing"),
        pytest.param(Finished(-9, EMPTY, "", timed_out=True), None, id="frozen"),
    ],
)
def test_an_answer_without_jobs_and_none(ended: Finished, rows: int | None) -> None:
    if rows is None:
        with pytest.raises(Unreachable):
            pbs.answer(ended)
    else:
        assert len(pbs.rows(pbs.answer(ended))) == rows


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("a\\tb", "a\tb"),
        ("a\\ b", "a\\ b"),
        ("a\\\\tb", "a\\tb"),
        ("a\tb\x1b[1m", "a\tb\x1b[1m"),
        ("\\u00e9\\ux", "é\\ux"),
    ],
    ids=["an escape", "a backslash by itself", "two", "control characters", "a letter by its number"],
)
def test_variables_that_make_no_json_spoil_no_answer(printed: str, value: str) -> None:
    document = f'{{"timestamp": 1, "Jobs": {{"7.s": {{"Variable_List": {{"PS1": "{printed}"}}}}}}}}'
    (row,) = pbs.rows(pbs.answer(Finished(0, document, "")))
    assert row.variables["PS1"] == value


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        pytest.param("0.pbshost\n", "0.pbshost", id="the very first job"),
        pytest.param("7[].pbs-1.example.org\n", "7[].pbs-1.example.org", id="an array"),
        pytest.param("Welcome.\n36.pbshost\n", "36.pbshost", id="a wrapper prints lines of its own"),
    ],
)
def test_the_id_that_qsub_prints(printed: str, name: str) -> None:
    assert pbs.submitted(Finished(0, printed, "")) == name


@pytest.mark.parametrize(
    ("ended", "error"),
    [
        pytest.param(Finished(162, "", "qsub: cannot connect to server pbshost (errno=111)"), Unreachable, id="down"),
        pytest.param(Finished(-9, "", "", timed_out=True), Unreachable, id="frozen"),
        pytest.param(
            Finished(38, "", "qsub: would exceed complex's per-user limit"), AtSubmitLimit, id="a limit of jobs"
        ),
        pytest.param(
            Finished(198, "", "qsub: Maximum number of jobs already in queue"), AtSubmitLimit, id="a full queue"
        ),
        pytest.param(Finished(159, "", "qsub: Unauthorized Request"), Denied, id="not from here"),
        pytest.param(Finished(170, "", "qsub: Unknown queue"), Refused, id="no such queue"),
        pytest.param(Finished(2, "", "usage: qsub …"), Refused, id="a bad option"),
        pytest.param(Finished(1, "", "qsub: script contains cr, lf"), Refused, id="Windows line ends"),
        pytest.param(Finished(173, "", "qsub: Queue is not enabled"), BatchError, id="a queue that is closed for now"),
        pytest.param(Finished(0, "", ""), Unreachable, id="it printed no id: the job may be there"),
    ],
)
def test_what_a_failed_submission_means(ended: Finished, error: type[BatchError]) -> None:
    with pytest.raises(BatchError) as raised:
        pbs.submitted(ended)
    assert raised.type is error


GONE = [
    pytest.param(Finished(153, "", "qdel: Unknown Job Id 9.pbshost"), id="unknown"),
    pytest.param(Finished(35, "", "qdel: Job has finished 9.pbshost"), id="in the history"),
    pytest.param(Finished(168, "", "qdel: Request invalid for state of job 9.pbshost"), id="about to end"),
]


@pytest.mark.parametrize("ended", GONE)
def test_a_job_that_is_gone_is_well_cancelled_and_cannot_be_moved(ended: Finished) -> None:
    changed("qdel", ended, pbs.SIGNS)
    with pytest.raises(BatchError):
        changed("qalter", ended, pbs.SIGNS, gone_is_fine=False)


def test_another_users_job_among_them_is_a_no_and_no_answer_is_none() -> None:
    both = "qdel: Unknown Job Id 9.pbshost\nqdel: Unauthorized Request 8.pbshost"
    with pytest.raises(BatchError, match="Unauthorized"):
        changed("qdel", Finished(159, "", both), pbs.SIGNS)
    with pytest.raises(Unreachable):
        changed("qdel", Finished(162, "", "qdel: cannot connect to server pbshost"), pbs.SIGNS)


def test_a_submission_is_held_and_carries_its_token_and_time() -> None:
    job = Submission(
        "/c/a.slurm",
        ("x y",),
        options=("-l select=1:ncpus=4", "-N own", "-v 'A=1,B'", "-V", "--partition=short", "--time=10"),
        job_name="7 days",
        comment="cronhpc=d1/a@1.1 mine, 'too'",
        output="/c/log/%j.out",
        error="/c/log/%j.out",
        begin=1_795_791_600,
        own_export="A=1,B",
    )
    argv = pbs.submit_argv(job)
    assert argv[:3] == ["qsub", "-f", "-h"]
    pairs = list(pairwise(argv))
    assert {("-l", "select=1:ncpus=4"), ("-l", "walltime=0:10:00"), ("-q", "short"), ("-r", "n")} <= set(pairs)
    assert [value for option, value in pairs if option == "-N"] == ["7_days"], "the script's own gives way"
    assert ("-a", datetime.fromtimestamp(1_795_791_600, UTC).strftime("%Y%m%d%H%M.%S")) in pairs
    assert ("-v", "A=1,cronhpc=d1/a@1.1%20mine%2C%20%27too%27") in pairs
    assert {("-o", "/c/log/%j.out"), ("-k", "oed"), ("-j", "oe")} <= set(pairs)
    assert not {"-V", "-e", "B"}.intersection(argv)


def test_what_would_make_qsub_wait_or_say_nothing_is_left_out() -> None:
    argv = pbs.submit_argv(Submission("/a", options=("-W block=true,depend=afterok:7", "-z", "-I", "-S /bin/zsh")))
    assert argv == ["qsub", "-f", "-h", "-W", "depend=afterok:7", "-r", "n", "-S", "/bin/bash"]


@pytest.mark.parametrize(
    ("options", "asked", "count"),
    [
        pytest.param(("-J 1-5%2",), "1-5%2", 5, id="the script's own"),
        pytest.param(("-J 0-9:4",), "0-9:4", 3, id="in steps"),
        pytest.param(("-J 1-5%2", "--array=2-3%2"), "2-3%2", 2, id="those that failed, of a further attempt"),
        pytest.param(("-J 1-5", "--array=4"), "4-5:2", 1, id="one task, where two numbers are asked for"),
        pytest.param(("-J 1-9%2", "--array=2,4-5%2"), "2-5%2", 3, id="several, in a range that holds more"),
    ],
)
def test_an_array_is_submitted_with_its_tasks_and_a_log_for_each(
    options: tuple[str, ...], asked: str, count: int
) -> None:
    argv = pbs.submit_argv(Submission("/a", options=options, output="/log/%A_%a.out"))
    assert [value for option, value in pairwise(argv) if option == "-J"] == [asked]
    assert "/log/%A_^array_index^.out" in argv
    assert "-r" not in argv, "an array has to be rerunnable"
    assert pbs.array_of(options).tasks == count


@pytest.mark.parametrize("option", ["--qos=high", "--array=1,x", "--time=soon"])
def test_what_it_has_not_is_refused_by_its_name(option: str) -> None:
    with pytest.raises(Refused, match=option):
        pbs.submit_argv(Submission("/a", options=(option,)))


@pytest.mark.parametrize("comment", ["cronhpc=d1/a@20261128T0100Z.1 mine, 'too' <é>", "mine alone", "1e5"])
def test_a_comment_comes_back_as_it_was_given(comment: str) -> None:
    argv = pbs.submit_argv(Submission("/a", comment=comment))
    name, _, value = argv[argv.index("-v") + 1].partition("=")
    assert pbs.Row("7.s", {"Variable_List": {name: value}}).comment == comment
    assert json.loads(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("printed", "log"),
    [
        ("pbshost:/c/log/20261128T0100Z-%j.out", "/c/log/20261128T0100Z-712.out"),
        ("pbshost:/c/log/20261128T0100Z-%A_^array_index^.out", "/c/log/20261128T0100Z-712_^array_index^.out"),
        ("pbshost:/c/log/20261128T0100Z-712.out", ""),
        ("pbshost:/home/alice/100%.out", ""),
    ],
    ids=["held", "an array", "released", "a name of the user's"],
)
def test_the_log_gets_the_jobs_number_when_it_is_released(printed: str, log: str) -> None:
    assert pbs.Row("712.pbshost", {"Output_Path": printed}).log == log


@pytest.mark.parametrize(
    ("shown", "name", "words"),
    [
        ("57", "57.s", ["57.s"]),
        ("57", "57[].s", ["57[].s"]),
        ("57_[2-4,6]", "57[].s", ["57[2-4].s", "57[6].s"]),
        ("57_3", "57", ["57[3]"]),
    ],
)
def test_what_the_commands_call_a_job(shown: str, name: str, words: list[str]) -> None:
    assert pbs.command_ids(shown, name) == words


@pytest.mark.parametrize(
    ("name", "given"), [("7days", "7days"), ("a b:c", "a_b_c"), (".x", "_.x"), ("é.slurm", "_.slurm"), ("", "_")]
)
def test_names_without_what_it_refuses(name: str, given: str) -> None:
    assert pbs.job_name(name) == given


@pytest.mark.parametrize(
    ("facts", "result", "code", "signal"),
    [
        pytest.param({}, Result.CANCELLED, None, 15, id="as recorded: its user ended it"),
        pytest.param({"comment": "Job run", "Exit_status": 0}, Result.OK, 0, None, id="well"),
        pytest.param({"comment": "Job run", "Exit_status": 3}, Result.FAILED, 3, None, id="an exit code"),
        pytest.param({"comment": "Job run", "Exit_status": 137}, Result.FAILED, None, 9, id="a program was killed"),
        pytest.param({"comment": "Job run", "Exit_status": 271}, Result.FAILED, None, 15, id="the shell was"),
        pytest.param({"comment": "Job run", "Exit_status": -2}, Result.NODE_FAIL, None, None, id="it never ran"),
        pytest.param({"comment": "", "Exit_status": None}, Result.CANCELLED, None, None, id="cancelled in the queue"),
        pytest.param(
            {"comment": "", "Exit_status": 271, "Resource_List": {"walltime": "00:00:02"}},
            Result.TIMEOUT,
            None,
            15,
            id="its time was over",
        ),
    ],
)
def test_how_a_job_of_pbs_ended_is_read_from_its_record(
    facts: dict[str, object], result: Result, code: int | None, signal: int | None
) -> None:
    rows = altered("pbs-qstat-xf.json", "714", **facts)
    rows = [row._replace(facts={name: value for name, value in row.facts.items() if value is not None}) for row in rows]
    end = pbs.job_ends(rows, 0)["714"]
    assert (end.result, end.exit_code, end.signal) == (result, code, signal)
    assert end.ended == datetime(2026, 11, 28, 14, 12, 42, tzinfo=UTC).timestamp()
    assert pbs.job_ends(rows, 2_000_000_000) == {}, "an older job of that id"


def test_what_lives_has_no_end() -> None:
    assert pbs.job_ends(recorded("pbs-qstat-tf.json"), 0) == {}


def test_the_directives_of_a_script() -> None:
    script = b"""#!/bin/bash
#PBS -N save -o login:/data/log
#PBS -lselect=1:ncpus=4 -J 1-5%2
#PBS -W depend=afterok:7 -v "A=b c",D
#CRON 0 4 * * * --retries=2
echo hello
#PBS -h
"""
    header = read_header(script, "a.slurm", PBS)
    assert {option.name: (option.value, option.line) for option in header.options} == {
        "job-name": ("save", 2),
        "output": ("/data/log", 2),
        "-l select": ("1:ncpus=4", 3),
        "array": ("1-5%2", 3),
        "-W": ("depend=afterok:7", 4),
        "export": ("A=b c,D", 4),
    }
    assert [option.written for option in header.options][-1] == "-v 'A=b c,D'"
    assert header.cron is not None
    assert header.cron.schedule == "0 4 * * *"
    assert header.problems == ()


def test_the_way_to_the_server_stays_and_what_a_job_is_told_does_not() -> None:
    environ = {"PBS_CONF_FILE": "/etc/pbs.conf", "PBS_JOBID": "7.s", "PBS_O_PATH": "/x", "NCPUS": "4", "MINE": "x"}
    assert scrub(environ, PBS) == {"PBS_CONF_FILE": "/etc/pbs.conf", "MINE": "x"}


@pytest.mark.parametrize(("name", "number"), [("7.pbshost", "7"), ("7[2].pbshost", "7")])
def test_a_job_knows_its_number(name: str, number: str) -> None:
    assert job_around({"PBS_JOBID": name}) == number


def test_lines_of_a_wrapper_around_what_qselect_prints_are_no_jobs() -> None:
    assert pbs.ids("Welcome.\n7.pbshost\n8[].pbs-1.example.org\n") == [
        "7.pbshost",
        "8[].pbs-1.example.org",
    ]


def test_a_job_that_was_moved_to_another_server_has_not_ended_for_all_that_is_known() -> None:
    rows = altered("pbs-qstat-f.json", "712", job_state="M")
    assert "712" not in {job.id for job in pbs.jobs(rows, {})}
    assert pbs.job_ends(rows, 0) == {}
