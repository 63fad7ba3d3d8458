"""What Grid Engine's commands are told and what their answers mean: recorded from 8.1.9."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from cronhpc.batch import commands, grid_engine
from cronhpc.batch.commands import changed, option_words
from cronhpc.batch.grid_engine import GridEngine
from cronhpc.batch.port import AtSubmitLimit, BatchError, Denied, Refused, Submission, Unreachable
from cronhpc.batch.process import Finished, scrub
from cronhpc.core.model import Accounting, Fault, Job, Queue, Result
from cronhpc.script.dialect import GRID_ENGINE
from cronhpc.script.header import read_header

RECORDED = Path(__file__).resolve().parents[1] / "data" / "grid_engine"

NOW = int(datetime(2026, 11, 28, 14, 12, 44, tzinfo=UTC).timestamp())  # when the job began that runs


def recorded(name: str) -> str:
    return (RECORDED / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def jobs() -> dict[str, Job]:
    rows, details = grid_engine.rows(recorded("sge-qstat-u.xml")), grid_engine.details(recorded("sge-qstat-j.xml"))
    return {job.shown_id: job for job in grid_engine.jobs(rows, details, frozenset({"339"}), NOW)}


def test_jobs_come_back_in_our_words(jobs: dict[str, Job]) -> None:
    states = {name: (job.name, job.state, job.reason.partition(":")[0]) for name, job in jobs.items()}
    assert states["341"] == ("runs", "RUNNING", "")
    assert states["339"] == ("nightly", "PENDING", "JobHeldUser")
    assert states["340"] == ("later", "PENDING", "BeginTime")
    assert states["343"] == ("broken", "PENDING", "in an error state, held until")
    assert "can't chdir to /nonexist" in jobs["343"].reason
    assert jobs["343"].held
    assert jobs["343"].fault is Fault.ERROR_STATE
    assert jobs["339"].held_by_user
    assert jobs["339"].comment == "d1a2/nightly@20261128T0100Z.1"
    assert jobs["341"].nodes == "localhost"
    assert jobs["341"].partition == "short.q"


@pytest.mark.parametrize(
    ("state", "later", "known"),
    [
        pytest.param("t", 60, ("RUNNING", False, ""), id="it has just been sent"),
        pytest.param("t", 3600, ("PENDING", True, "stuck in its start, held until: qdel -f 341"), id="for an hour"),
        pytest.param("dt", 3600, ("PENDING", True, "stuck in its start, held until: qdel -f 341"), id="qdel was tried"),
        pytest.param("r", 3600, ("RUNNING", False, ""), id="it runs for an hour"),
        pytest.param("dr", 3600, ("COMPLETING", False, ""), id="it ends"),
    ],
)
def test_a_job_whose_node_does_not_say_that_it_runs_is_stuck(
    state: str, later: int, known: tuple[str, bool, str]
) -> None:
    rows = [row._replace(state=state) for row in grid_engine.rows(recorded("sge-qstat-u.xml")) if row.id == "341"]
    (job,) = grid_engine.jobs(rows, {}, frozenset(), NOW + later)
    assert (job.state, job.held, job.reason) == known
    assert (job.fault is Fault.STUCK) == job.held


@pytest.mark.parametrize(
    ("state", "later", "reason", "fault"),
    [
        pytest.param("dr", 0, "stuck in its end: its node does not answer", Fault.UNENDING, id="qdel, and it stays"),
        pytest.param("r", 3600, "", None, id="it may run on"),
        pytest.param("t", 60, "", None, id="it has just been sent: the node may have come back"),
        # The master sends a job anew after five minutes, and says that it begins then.
        pytest.param("t", 240, "stuck in its start, held until: qdel -f 341", Fault.STUCK, id="it was sent to none"),
    ],
)
def test_a_job_that_a_silent_node_neither_begins_nor_ends_is_stuck(
    state: str, later: int, reason: str, fault: Fault | None
) -> None:
    rows = [row._replace(state=state) for row in grid_engine.rows(recorded("sge-qstat-u.xml")) if row.id == "341"]
    (job,) = grid_engine.jobs(rows, {}, frozenset(), NOW + later, rows)
    assert (job.live, job.reason, job.fault) == (True, reason, fault)


def test_what_a_sites_wrapper_prints_before_the_answer_is_passed_over() -> None:
    said = "*** Maintenance on Friday (10-15:2) <b> ***\n"
    assert grid_engine.rows(said + recorded("sge-qstat-u.xml")) == grid_engine.rows(recorded("sge-qstat-u.xml"))
    before = recorded("sge-qstat-u.xml")
    assert grid_engine.rows(f"{before}\nBye.\n") == grid_engine.rows(before), "and behind it"
    with pytest.raises(Unreachable, match="cannot be read"):
        grid_engine.rows(said)
    with pytest.raises(Unreachable, match="unable to send message to qmaster"):
        grid_engine.rows(said + recorded("sge-qstat-j-down.xml"))


def test_a_hold_that_is_not_the_users_is_an_administrators() -> None:
    rows = grid_engine.rows(recorded("sge-qstat-u.xml"))
    held = {job.id: job for job in grid_engine.jobs(rows, {}, frozenset(), NOW)}["339"]
    assert held.held_by_admin


def test_a_job_that_waits_for_another_is_held_by_nobody() -> None:
    other = "<JB_jid_predecessor_list><job_predecessors><JRE_job_number>13</JRE_job_number></job_predecessors>"
    shown = recorded("sge-qstat-j.xml").replace(
        "<JB_job_number>339</JB_job_number>", f"<JB_job_number>339</JB_job_number>{other}</JB_jid_predecessor_list>"
    )
    rows, details = grid_engine.rows(recorded("sge-qstat-u.xml")), grid_engine.details(shown)
    reasons = [
        job.reason
        for held_by_user in (frozenset[str](), frozenset({"339"}))
        for job in grid_engine.jobs(rows, details, held_by_user, NOW)
        if job.id == "339"
    ]
    assert reasons == ["Dependency", "JobHeldUser"]


def test_tasks_of_an_array_are_listed_as_ours(jobs: dict[str, Job]) -> None:
    assert [name for name in jobs if "_" in name] == ["342_[1-3]"]


@pytest.mark.parametrize(
    ("printed", "tasks"), [("", ""), ("3", "3"), ("1-5:1", "[1-5]"), ("3,4", "[3-4]"), ("1-5:2,7", "[1,3,5,7]")]
)
def test_a_list_of_tasks_is_read_as_slurm_prints_it(printed: str, tasks: str) -> None:
    assert grid_engine.tasks_of(printed) == tasks


def test_unknown_ids_are_left_out_and_a_master_that_is_away_is_no_empty_queue() -> None:
    assert grid_engine.details(recorded("sge-qstat-j-unknown.xml")) == {}
    with pytest.raises(Unreachable, match="unable to send message to qmaster"):
        grid_engine.details(recorded("sge-qstat-j-down.xml"))
    with pytest.raises(Unreachable):
        grid_engine.rows(recorded("sge-qstat-j-down.xml"))
    with pytest.raises(Unreachable, match="cannot be read"):
        grid_engine.rows(recorded("sge-qstat-u.xml")[:400])


def test_what_qstat_prints_of_a_job_that_waits_for_its_last_run_to_be_cleaned_up_is_read_although_it_is_no_xml() -> (
    None
):
    assert list(grid_engine.details(recorded("sge-qstat-j-clean-up.xml"))) == ["41"]


@pytest.mark.parametrize(
    ("printed", "job_id"),
    [
        pytest.param("36\n", "36", id="a job"),
        pytest.param("36.1-5:1\n", "36", id="an array"),
        pytest.param("Welcome to the cluster\n36\n", "36", id="a wrapper prints lines of its own"),
    ],
)
def test_the_id_that_qsub_prints(printed: str, job_id: str) -> None:
    assert grid_engine.submitted(Finished(0, printed, "")) == job_id


DENIED = 'Unable to run job: denied: host "n1" is not a submit host.\nExiting.'
PRIORITY = "Unable to run job: job rejected: positive submission priority requires operator privileges"
LIMIT = "Unable to run job: job rejected: only 2 jobs are allowed per user (current job count: 4)"


@pytest.mark.parametrize(
    ("ended", "error"),
    [
        pytest.param(
            Finished(1, "", "error: commlib error: got select error (Connection refused)"), Unreachable, id="down"
        ),
        pytest.param(
            Finished(1, "", "got syncron message receive timeout error"), Unreachable, id="frozen, its own end"
        ),
        pytest.param(Finished(-9, "", "", timed_out=True), Unreachable, id="frozen, our end"),
        pytest.param(Finished(25, "", LIMIT), AtSubmitLimit, id="at the limit of jobs"),
        pytest.param(Finished(1, "", DENIED), Denied, id="not from this machine"),
        pytest.param(Finished(1, "", 'Unable to run job: job requests unknown queue "x"'), Refused, id="no such queue"),
        pytest.param(Finished(1, "", PRIORITY), Refused, id="a priority that is an operator's"),
        pytest.param(Finished(2, "", "qsub: ERROR! invalid option argument"), Refused, id="a bad option"),
        pytest.param(Finished(1, "", "rejected by the site's verifier"), BatchError, id="words that nobody knows"),
    ],
)
def test_what_a_failed_submission_means(ended: Finished, error: type[BatchError]) -> None:
    with pytest.raises(BatchError) as raised:
        grid_engine.submitted(ended)
    assert raised.type is error


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ('denied: job "9999" does not exist', None),
        ('denied: job "9999" does not exist\ndenied: "alice" must be at least owner of job 7', BatchError),
        ("error: commlib error: got select error (Connection refused)", Unreachable),
    ],
    ids=["a job that is gone is fine", "another's job is not", "no answer"],
)
def test_what_a_failed_change_means(said: str, error: type[BatchError] | None) -> None:
    ended = Finished(1, "", said)
    if error is None:
        changed("qdel", ended, grid_engine.SIGNS)
        with pytest.raises(BatchError):
            changed("qalter", ended, grid_engine.SIGNS, gone_is_fine=False)
        return
    with pytest.raises(BatchError) as raised:
        changed("qdel", ended, grid_engine.SIGNS)
    assert raised.type is error


def test_a_submission_is_held_and_carries_its_token_its_time_and_the_names_of_variables() -> None:
    job = Submission(
        "/c/a.slurm",
        ("x y",),
        options=("--partition=all.q", "---now=y", "---sync=y", "---b=y", "--time=10"),
        comment="cronhpc:d1/a@1.1, mine <b>",
        output="/c/log: a/%j_%a.out",
        begin=1_795_791_600,
    )
    argv = grid_engine.submit_argv(job, "/bin/bash", ["B", "A", "TZ", "LIST,OF"], "Europe/Paris")
    assert argv[:9] == ["qsub", "-terse", "-q", "all.q", "-l", "h_rt=600", "-S", "/bin/bash", "-h"]
    assert argv[-2:] == ["/c/a.slurm", "x y"]
    pairs = dict(pairwise(argv))
    assert pairs["-a"] == datetime.fromtimestamp(1_795_791_600, UTC).strftime("%Y%m%d%H%M.%S")
    assert pairs["-v"] == "B,A,TZ=Europe/Paris"
    assert pairs["-o"] == ":/c/log: a/$JOB_ID_$TASK_ID.out"
    assert pairs["-ac"] == "cronhpc=cronhpc:d1/a@1.1%2C mine %3Cb%3E"


@pytest.mark.parametrize(("holds_itself", "given"), [(False, ["-h"]), (True, [])], ids=["ours alone", "its own"])
def test_a_script_that_holds_itself_is_held_as_well_although_two_holds_of_qsub_are_none(
    *, holds_itself: bool, given: list[str]
) -> None:
    argv = grid_engine.submit_argv(Submission("/c/a.slurm", holds_itself=holds_itself), "/bin/bash", [], None)
    assert [word for word in argv if word == "-h"] == given


DEFAULTS = {  # as 8.1.9 took them: with the first, `qsub -h` gave a job that ran
    "a hold": ("-h\n", "-h"),
    "a hold behind others": ("# ours\n-l h_rt=100 -h\n", "-h"),
    "waits for the end": ("-sync yes\n", "-sync"),
    "at once or never": ("-now y\n", "-now"),
    "the script as a program": ("-b y\n", "-b"),
    "only looks": ("-verify\n", "-verify"),
    "all of them let be": ("-b n -now n -sync no\n-P project -l h_rt=100\n", ""),
    "in a comment": ("# -h\n-P project # -h\n", ""),
    "a part of a name": ('-N "x -h y"\n', ""),
    "no line that anybody can read": ('-N "x\n', ""),
}


@pytest.mark.parametrize(("text", "word"), DEFAULTS.values(), ids=DEFAULTS)
def test_a_default_of_qsubs_that_undoes_a_submission_is_named(text: str, word: str, tmp_path: Path) -> None:
    file = tmp_path / "sge_request"
    file.write_text(text)
    assert grid_engine.undoing([tmp_path / "none", file]) == (f"{file} has {word}" if word else "")


@pytest.mark.parametrize("place", ["home/.sge_request", "ge/default/common/sge_request"])
def test_nothing_is_submitted_where_defaults_would_undo_the_hold(place: str, tmp_path: Path) -> None:
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).write_text("-h\n")
    engine = grid_engine.GridEngine({"HOME": str(tmp_path / "home"), "SGE_ROOT": str(tmp_path / "ge")})
    with pytest.raises(BatchError, match=r"sge_request has -h, by which no job would be held"):
        engine.submit(Submission("/c/a.slurm"))


def test_a_user_whom_this_machine_does_not_know_just_now_has_no_home_to_look_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the directory service was down, commands that ask no batch system ended in a traceback."""
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    engine = grid_engine.GridEngine({"HOME": str(tmp_path)})
    assert engine.undoing() == ""
    (tmp_path / ".sge_request").write_text("-h\n")
    assert engine.undoing() == f"{tmp_path}/.sge_request has -h"


def test_an_option_that_it_has_not_is_refused_by_its_name() -> None:
    with pytest.raises(Refused, match="--gres=gpu:1: Grid Engine has no such option"):
        option_words(["--gres=gpu:1"], GRID_ENGINE)


def test_a_value_that_it_does_not_take_is_told_from_an_option_that_it_has_not() -> None:
    """Of `#$ -t 0-5`: its tasks begin at 1; to write it into the script, where it stands, was no advice."""
    with pytest.raises(Refused, match=r"--array=0-5: -t of Grid Engine takes no such value$"):
        option_words(["--array=0-5"], GRID_ENGINE)


@pytest.mark.parametrize(
    ("name", "given"),
    [("7days", "_7days"), ("a b:c", "a_b_c"), ("é.slurm", "_.slurm"), ("backup.slurm", "backup.slurm")],
)
def test_names_without_what_it_refuses(name: str, given: str) -> None:
    assert grid_engine.job_name(name) == given


@pytest.mark.parametrize(
    ("job_id", "result", "detail"),
    [("343", Result.FAILED, "changing into working directory"), ("341", Result.CANCELLED, "assumedly after job")],
)
def test_how_a_job_of_grid_engine_ended_is_read_from_its_record(job_id: str, result: Result, detail: str) -> None:
    answer = "=====\n".join(
        part for part in recorded("sge-qacct.txt").split("=====\n") if f"jobnumber    {job_id} " in part
    )
    end = grid_engine.job_end(answer, 0)
    assert end is not None
    assert (end.result, end.detail) == (result, detail)
    assert grid_engine.job_end(answer, 2_000_000_000) is None, "a record of an older job of that id"


@pytest.mark.parametrize(
    ("answer", "ids", "trouble"),
    [
        pytest.param(Finished(0, recorded("sge-qacct.txt"), ""), ["343"], "", id="it tells"),
        pytest.param(Finished(1, "", "error: job id 343 not found\n"), [], "", id="it does not know the job"),
        pytest.param(
            Finished(-9, "", "", timed_out=True),
            [],
            "qacct gave no answer in time",
            id="the file system of its file hangs: not as if there were no accounting to ask",
        ),
    ],
)
def test_what_accounting_says_of_a_job_of_grid_engine(
    answer: Finished, ids: Sequence[str], trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GridEngine, "queue", lambda _: Queue(()))
    monkeypatch.setattr(GridEngine, "look", lambda *_: answer)
    ends = GridEngine({"PATH": "/usr/bin:/bin"}).job_ends(["343"], 0)
    assert [*ends.by_id] == ids
    assert ends.accounting == Accounting(exists=trouble != "", trouble=trouble)


@pytest.mark.parametrize(
    ("status", "result"),
    [
        pytest.param("137                  (Killed)", Result.CANCELLED, id="qdel, for all that is told"),
        pytest.param("140                  (User defined signal 2)", Result.CANCELLED, id="qdel of one with -notify"),
        pytest.param("139                  (Segmentation fault)", Result.FAILED, id="a fault of its own"),
        pytest.param("138                  (User defined signal 1)", Result.FAILED, id="its soft limit of time"),
    ],
)
def test_a_shell_that_a_signal_ended_was_not_always_cancelled(status: str, result: Result) -> None:
    (one,) = (part for part in recorded("sge-qacct.txt").split("=====\n") if "jobnumber    341 " in part)
    end = grid_engine.job_end(re.sub(r"(?m)^(exit_status +).*$", rf"\g<1>{status}", one), 0)
    assert end is not None
    assert end.result is result


def test_of_an_array_it_is_told_which_tasks_failed_and_the_later_record_of_one_counts() -> None:
    (one,) = (part for part in recorded("sge-qacct.txt").split("=====\n") if "jobnumber    341 " in part)

    fields = [words for line in one.splitlines() if len(words := line.split(None, 1)) == 2]

    def record(task: int, failed: int, code: int) -> str:
        known = {"taskid": task, "failed": failed, "exit_status": code}
        return "".join(f"{word}  {known.get(word, value)}\n" for word, value in fields)

    end = grid_engine.job_end("=====\n".join([record(2, 0, 0), record(3, 0, 9), record(3, 0, 7), record(4, 0, 0)]), 0)
    assert end is not None
    assert (end.result, end.exit_code, end.tasks, end.detail) == (Result.FAILED, 7, "3", "array tasks: 3 failed")


def test_the_directives_of_a_script() -> None:
    script = b"""#!/bin/bash
#$ -N save -o "log of $JOB_ID"
#CRON 0 4 * * * --retries=2
echo hello
#$ -t 1-5 -h
"""
    header = read_header(script, "a.slurm", GRID_ENGINE)
    found = {option.name: (option.value, option.line) for option in header.options}
    assert found == {"job-name": ("save", 2), "output": ("log of %j", 2), "array": ("1-5", 5), "hold": (None, 5)}
    assert header.cron is not None
    assert header.cron.schedule == "0 4 * * *"
    assert header.problems == ()


def test_the_way_to_the_cell_stays_and_what_a_job_is_told_does_not() -> None:
    environ = {"SGE_ROOT": "/g", "SGE_CELL": "c", "SGE_TASK_ID": "1", "JOB_ID": "7", "QUEUE": "q", "REQUESTS_CA": "x"}
    assert scrub(environ, GRID_ENGINE) == {"SGE_ROOT": "/g", "SGE_CELL": "c", "REQUESTS_CA": "x"}


def test_a_scripts_own_options_all_go_along_where_it_is_watched() -> None:
    script = b"#!/bin/bash\n#$ -N mine -pe smp 4\n#$ -l h_rt=600,mem='2G' -t 2-4\ntrue\n#$ -q all.q\n"
    ours = [f"--{o.name}={o.value}" for o in read_header(script, "x", GRID_ENGINE).options]
    words = option_words([*ours, "--exclude=cpu1,cpu2"], GRID_ENGINE)
    resources = {each for word, value in pairwise(words) if word == "-l" for each in value.split(",")}
    assert resources == {"h_rt=600", "mem=2G", "h=!(cpu1|cpu2)"}
    assert {"-N mine", "-pe smp", "-t 2-4", "-q all.q"} <= {" ".join(pair) for pair in pairwise(words)}


@pytest.mark.parametrize("there", [True, False], ids=["it is", "it is not: runs write down how they end"])
def test_whether_the_file_of_ended_jobs_is_seen_from_here(tmp_path: Path, *, there: bool) -> None:
    common = tmp_path / "default" / "common"
    common.mkdir(parents=True)
    if there:
        (common / "accounting").touch()
    assert GridEngine({"SGE_ROOT": str(tmp_path), "PATH": "/bin"}).dialect.tells_ends == there


@pytest.mark.parametrize(
    ("ended", "asked"),
    [
        pytest.param(Finished(-9, "", "", timed_out=True), 1, id="no answer in time: the next would be as silent"),
        pytest.param(Finished(1, "", "got select error (Connection refused)"), 3, id="down, which is said at once"),
    ],
)
def test_a_master_that_gave_no_answer_in_time_is_not_waited_for_again_in_the_same_command(
    ended: Finished, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def run(argv: Sequence[str], **_: object) -> Finished:
        calls.append(argv)
        return ended

    monkeypatch.setattr(commands, "run", run)
    batch = GridEngine({"PATH": "/usr/bin:/bin"})
    for ask in (batch.queue, batch.live_files, batch.site):
        with pytest.raises(Unreachable):
            ask()
    assert len(calls) == asked


@pytest.mark.parametrize(
    ("begin", "zone"),
    [
        pytest.param(1_795_791_600, "UTC0", id="an instant of ours"),
        pytest.param(None, "Asia/Tokyo", id="a script's own -a is meant in its user's zone"),
    ],
)
def test_in_which_zone_qsub_reads_when_to_begin(
    begin: int | None, zone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zones = []

    def run(*_: object, env: dict[str, str], **__: object) -> Finished:
        zones.append(env["TZ"])
        return Finished(0, "36\n", "")

    monkeypatch.setattr(commands, "run", run)
    script = tmp_path / "a.slurm"
    script.write_text("#!/bin/bash\n")
    GridEngine({"PATH": "/usr/bin:/bin", "TZ": "Asia/Tokyo"}).submit(Submission(str(script), begin=begin))
    assert zones == [zone]


@pytest.mark.parametrize(
    ("first", "shell"),
    [
        pytest.param("#!/bin/bash", "/bin/bash", id="as it stands"),
        pytest.param("#! /bin/bash -l", "/bin/bash", id="options: a login shell is no other shell"),
        pytest.param("#!/usr/bin/env bash", "/usr/bin/bash", id="looked for on PATH"),
        pytest.param("#!/usr/bin/env -S bash -l", "/usr/bin/bash", id="looked for, with options"),
        pytest.param("#!/usr/bin/env nothing-such", "/bin/sh", id="looked for in vain"),
        pytest.param("#!bash", "/bin/sh", id="no path"),
        pytest.param("#!", "/bin/sh", id="nothing"),
        pytest.param("echo /bin/bash", "/bin/sh", id="no such line"),
    ],
)
def test_which_shell_runs_a_script(first: str, shell: str, tmp_path: Path) -> None:
    script = tmp_path / "a.slurm"
    script.write_text(f"{first}\ntrue\n")
    assert grid_engine.shell_of(str(script), {"PATH": "/usr/bin"}) == shell


def test_what_waits_is_asked_for_in_so_many_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Qstat adds what stands in a file of the user's, `-s r`, say."""
    asked = []

    def run(argv: Sequence[str], **_: object) -> Finished:
        asked.append(" ".join(argv).partition(" -u ")[0])
        which = "j" if "-j" in argv else "u"
        return Finished(0, recorded(f"sge-qstat-{which}.xml"), "")

    monkeypatch.setattr(commands, "run", run)
    GridEngine({"PATH": "/usr/bin:/bin"}).queue()
    assert asked[0] == "qstat -xml -s a"
