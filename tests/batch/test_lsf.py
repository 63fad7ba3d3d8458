"""What LSF's commands are told and what their answers mean: as IBM documents them, and as OpenLava spoke."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from cronhpc.batch import lsf
from cronhpc.batch.commands import changed, option_words
from cronhpc.batch.lsf import Lsf
from cronhpc.batch.port import AtSubmitLimit, BatchError, Denied, Refused, Submission, Unreachable
from cronhpc.batch.process import Finished, scrub
from cronhpc.core.model import Fault, Job, Result
from cronhpc.script.dialect import LSF
from cronhpc.script.header import read_header

RECORDED = (Path(__file__).resolve().parents[1] / "data" / "lsf" / "openlava-bjobs.txt").read_text(encoding="utf-8")


def at(moment: str) -> int:
    return int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp())


NOW = at("2026-11-28 14:20")


# --- times


@pytest.mark.parametrize(
    ("printed", "now", "meant"),
    [
        pytest.param("Nov 28 14:12", "2026-11-28 14:20", "2026-11-28 14:12", id="without year and seconds: the last"),
        pytest.param("Dec 31 23:59", "2027-01-01 00:01", "2026-12-31 23:59", id="over New Year"),
        pytest.param("Dec 28 19:56", "2026-11-28 14:20", "2025-12-28 19:56", id="a month that is still to come"),
        pytest.param("Nov 28 14:25", "2026-11-28 14:20", "2026-11-28 14:25", id="a clock that is ahead of ours"),
        pytest.param("Nov  8 04:02", "2026-11-28 14:20", "2026-11-08 04:02", id="a day of one digit"),
        pytest.param("Feb 29 10:00", "2027-03-01 00:00", "2024-02-29 10:00", id="a day that few years have"),
        pytest.param("Sat Nov 28 14:12:49", "2026-11-28 14:20", "2026-11-28 14:12:49", id="bhist tells seconds"),
        pytest.param("Nov 28 14:12:49 2025", "2026-11-28 14:20", "2025-11-28 14:12:49", id="and some sites the year"),
        pytest.param("Nov 28 15:12 L", "2026-11-28 14:20", None, id="L: where its limit ends it"),
        pytest.param("Nov 28 15:12 E", "2026-11-28 14:20", None, id="E: an estimate"),
        pytest.param("Nov 28 15:12 X", "2026-11-28 14:20", None, id="X: another estimate"),
        pytest.param("", "2026-11-28 14:20", None, id="nothing"),
        pytest.param("-", "2026-11-28 14:20", None, id="a dash"),
    ],
)
def test_a_time_without_a_year_is_the_one_before_now(printed: str, now: str, meant: str | None) -> None:
    assert lsf.moment(printed, at(now)) == (at(meant) if meant else None)


@pytest.mark.parametrize(
    ("begin", "year", "said"),
    [
        ("2026-12-31 23:00:00", True, "2026:12:31:23:00"),
        ("2026-12-31 23:59:01", True, "2027:01:01:00:00"),
        ("2026-12-31 23:00:00", False, "12:31:23:00"),
    ],
    ids=["a whole minute", "never before its second", "an older version"],
)
def test_the_instant_to_begin_at(begin: str, said: str, *, year: bool) -> None:
    assert lsf.moment_text(at(begin), year=year) == said


def test_a_minute_that_passed_on_the_way_is_seen_in_what_bsub_says() -> None:
    said = "Job <359> is submitted to default queue <normal>.\nJob will be scheduled after Thu Dec 31 23:00:00 2026"
    assert said.splitlines()[1] in RECORDED
    assert not lsf.begins_next_year(said, at("2026-12-31 23:00"))
    assert lsf.begins_next_year(said, at("2025-12-31 23:00"))


# --- submissions


@pytest.mark.parametrize(
    ("printed", "job_id"),
    [
        pytest.param("Job <358> is submitted to default queue <normal>.", "358", id="a default queue"),
        pytest.param("Job <7> is submitted to queue <short>.\n", "7", id="a queue that was named"),
        pytest.param("Project: x\nJob <1> costs 3\n\nJob <7> is submitted to queue <q>.", "7", id="behind notices"),
        pytest.param("Job <9> is submitted to queue <q>.\nJob <8> is submitted to queue <q>.", "8", id="sent twice"),
    ],
)
def test_the_id_that_bsub_prints(printed: str, job_id: str) -> None:
    assert lsf.submitted(Finished(0, printed, "")) == job_id
    assert lsf.has_id(printed)


@pytest.mark.parametrize(
    ("ended", "error"),
    [
        pytest.param(Finished(-9, "", "", timed_out=True), Unreachable, id="killed: it may be accepted"),
        pytest.param(
            Finished(-9, "", "batch system daemon not responding ... still trying", timed_out=True),
            Unreachable,
            id="it would try for ever",
        ),
        pytest.param(Finished(255, "", "LSF is down. Please wait ..."), Unreachable, id="down"),
        pytest.param(Finished(255, "", "Cannot connect to LSF. Please wait ..."), Unreachable, id="out of reach"),
        pytest.param(
            Finished(-9, "", "Pending job threshold reached. Retrying in 60 seconds...", timed_out=True),
            AtSubmitLimit,
            id="it waits at a limit",
        ),
        pytest.param(Finished(255, "", "x: No such queue. Job not submitted."), Refused, id="no such queue"),
        pytest.param(
            Finished(255, "", "Cannot exceed queue's hard limit(s). Job not submitted."), Refused, id="limits"
        ),
        pytest.param(Finished(255, "", "Bad resource requirement syntax. Job not submitted."), Refused, id="-R"),
        pytest.param(Finished(255, "", "Request aborted by esub. Job not submitted."), Refused, id="the site's esub"),
        pytest.param(Finished(255, "", "User cannot use the queue. Job not submitted."), Refused, id="not that queue"),
        pytest.param(Finished(255, "", "User permission denied. Job not submitted."), Denied, id="not this user"),
        pytest.param(Finished(255, "", "words that nobody knows"), BatchError, id="words that nobody knows"),
        pytest.param(Finished(0, "", ""), Unreachable, id="nothing at all"),
    ],
)
def test_what_a_submission_without_id_means(ended: Finished, error: type[BatchError]) -> None:
    with pytest.raises(BatchError) as raised:
        lsf.submitted(ended)
    assert raised.type is error


@pytest.mark.parametrize(
    ("ended", "is_sent_again"),
    [
        pytest.param(Finished(255, "", "Illegal begin time. Job not submitted."), True, id="an older version"),
        pytest.param(Finished(255, "", "x: No such queue. Job not submitted."), False, id="a no to something else"),
        pytest.param(
            Finished(255, "", "LSF is down. Please wait some time"), False, id="no answer: it may be accepted"
        ),
        pytest.param(Finished(255, "", "Job limit at this time"), False, id="a limit"),
        pytest.param(Finished(-9, "", "begin", timed_out=True), False, id="killed: it may be accepted"),
        pytest.param(Finished(0, "", "a wrapper's words on time"), False, id="no id: it may be accepted"),
        pytest.param(
            Finished(1, "Job <7> is submitted to queue <q>.", "begin time"), False, id="accepted all the same"
        ),
    ],
)
def test_a_submission_is_sent_again_without_the_year_only_where_that_may_be_why_it_was_refused(
    ended: Finished,
    is_sent_again: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert lsf.refuses_year(ended) == is_sent_again


@pytest.mark.parametrize(
    ("program", "code", "said", "error"),
    [
        ("bkill", 0, "Job <360> is being terminated", None),
        ("bkill", 255, "Job <7>: Job has already finished", None),
        ("bkill", 255, "Job <9>: No matching job found\nJob <7> is being terminated", None),
        ("bkill", 255, "Job <8>: Operation is in progress", None),
        ("bkill", 255, "Job <7>: User permission denied", BatchError),
        ("bresume", 255, "Cannot connect to LSF. Please wait ...", Unreachable),
        ("bmod", 255, "", Unreachable),
    ],
    ids=["done", "ended", "one unknown", "an array of which some ended", "another's", "no answer", "no word"],
)
def test_what_a_change_means(program: str, code: int, said: str, error: type[BatchError] | None) -> None:
    ended = Finished(code, "", said)
    if error is None:
        changed(program, ended, lsf.SIGNS)
        return
    with pytest.raises(BatchError) as raised:
        changed(program, ended, lsf.SIGNS)
    assert raised.type is error


def test_a_job_that_is_gone_cannot_be_moved() -> None:
    with pytest.raises(BatchError):
        changed("bmod", Finished(255, "", "Job <7>: Job has already finished"), lsf.SIGNS, gone_is_fine=False)


def test_a_submission_is_spelt_in_the_words_of_bsub(tmp_path: Path) -> None:
    script = tmp_path / "run.slurm"
    script.write_text('#!/bin/bash\necho "$@"\n', encoding="utf-8")
    job = Submission(
        str(script),
        arguments=("a b",),
        options=(
            "-q short",
            "-R 'span[hosts=1] rusage[mem=4]'",
            "-J 'x[1-5]%2'",
            "-J 'x[1-5]%2'",
            "-H",
            "--time=1:00:30",
        ),
        job_name="nightly",
        comment="cronhpc=d1a2/nightly@20261128T0100Z.1",
        output="/cron/log/it's/%A_%a.out",
        chdir="/data",
        begin=at("2026-12-31 23:00"),
        export={"CRONHPC_SLOT": "now"},
    )
    argv = lsf.submit_argv(job)
    assert argv[:3] == ["bsub", "-H", "-rn"]
    assert {"-q", "short", "-R", "span[hosts=1] rusage[mem=4]"} <= set(argv)
    pairs = dict(pairwise(argv))
    assert pairs["-J"] == "nightly[1-5]%2"
    assert pairs["-b"] == "2026:12:31:23:00"
    assert pairs["-W"] == "1:01", "in minutes"
    assert (pairs["-cwd"], pairs["-o"]) == ("/data", "/dev/null")
    assert lsf.described(pairs["-Jd"]) == (job.comment, job.begin)
    made = lsf.script_text(job, "Asia/Tokyo")
    assert made.startswith("#!/bin/bash\n")
    assert """exec >>'/cron/log/it'"'"'s/'"$LSB_JOBID"_"$LSB_JOBINDEX".out || exit 127""" in made
    assert "export TZ=Asia/Tokyo" in made
    assert "export CRONHPC_SLOT=now" in made, "also where the script's own -env none keeps the environment out"
    assert made.index("unset LSB_NTRIES TZ") < made.index("export TZ") < made.index("set -- 'a b'")


def test_a_script_that_may_be_run_again_says_so_itself(tmp_path: Path) -> None:
    assert "-rn" not in lsf.submit_argv(Submission("/x", options=("-r",)))


def test_a_script_that_says_when_it_begins_is_taken_at_its_word() -> None:
    own = Submission("/x", options=("-b 18:00", "-cwd /theirs"))
    assert lsf.begins_itself(own)
    assert {"-b", "18:00", "/theirs"} <= set(lsf.submit_argv(own))
    ours = Submission("/x", options=own.options, begin=at("2026-12-31 23:00"), chdir="/ours")
    assert not lsf.begins_itself(ours)
    assert {"18:00", "/theirs"}.isdisjoint(lsf.submit_argv(ours))


def test_nodes_that_a_link_avoids_are_a_resource() -> None:
    assert option_words(["--exclude=n1,n-2"], LSF) == ["-R", "select[hname!='n1' && hname!='n-2']"]


def test_an_option_that_lsf_has_not_is_refused() -> None:
    with pytest.raises(Refused, match="--qos=high: LSF has no such option"):
        lsf.submit_argv(Submission("/x", options=("--qos=high",)))


@pytest.mark.parametrize("comment", ["a,b c|d^e\"f'g", "é\n\ttab", "", "x" * 900])
def test_a_comment_comes_back_from_a_description_as_it_was(comment: str) -> None:
    assert lsf.described(lsf.description(comment, None)) == (comment, None)
    assert lsf.described(lsf.description(comment, 60)) == (comment, 60)
    assert "^" not in lsf.description(comment, 60)


@pytest.mark.parametrize("shown", ["0", "", "00", "x", "0_[1-2]"])
def test_zero_which_means_all_jobs_is_never_an_id(shown: str, tmp_path: Path) -> None:
    with pytest.raises(BatchError, match="is no job's id"):
        Lsf({"PATH": str(tmp_path)}).release([shown])


SCRIPT = b"""#!/bin/bash
#BSUB -J "nightly[1-5]%2" -n4 -W 1:30   # a night's work
#BSUB -R "span[hosts=1] rusage[mem=4]"
#BSUB -x -P proj
#BSUB -o out/%J_%I.txt
echo hello
#BSUB -q short
"""


def test_directives_are_read_to_the_end_of_the_script() -> None:
    header = read_header(SCRIPT, "script", LSF)
    assert header.job_name == "nightly"
    known = {name: header.value(name) for name in ("array", "account", "output", "partition", "time")}
    assert known == {
        "array": "1-5%2",
        "account": "proj",
        "output": "out/%j_%a.txt",
        "partition": "short",
        "time": "1:30:00",
    }
    written = [option.written for option in header.options]
    assert {"-n 4", "-R 'span[hosts=1] rusage[mem=4]'", "-x"} <= set(written)
    argv = lsf.submit_argv(Submission("/x", options=tuple(written), job_name="nightly"))
    pairs = dict(pairwise(argv))
    assert (pairs["-n"], pairs["-R"], pairs["-J"]) == ("4", "span[hosts=1] rusage[mem=4]", "nightly[1-5]%2")


# --- the queue

ROW = {
    "JOBID": "361",
    "JOBINDEX": "0",
    "STAT": "RUN",
    "QUEUE": "normal",
    "SUBMIT_TIME": "Nov 28 14:12",
    "START_TIME": "Nov 28 14:13",
    "FINISH_TIME": "Nov 28 15:13 L",
    "EXIT_CODE": "",
    "EXIT_REASON": "",
    "EXEC_HOST": "16*n1:4*n2",
    "JOB_DESCRIPTION": "cronhpc=d1a2/x@20261128T0100Z.1|1795791600",
    "PEND_REASON": "",
    "JOB_NAME": "nightly",
}


def answer(*rows: dict[str, str], before: str = "") -> Finished:
    return Finished(0, before + json.dumps({"COMMAND": "bjobs", "JOBS": len(rows), "RECORDS": rows}, indent=2), "")


def job(**fields: str) -> Job:
    (record,) = lsf.records(answer(ROW | {name.upper(): value for name, value in fields.items()}))
    return lsf.job(record, NOW)


def test_a_running_job_in_our_words() -> None:
    found = job()
    assert (found.id, found.name, found.state, found.partition, found.nodes) == (
        *("361", "nightly", "RUNNING", "normal", "n1,n2"),
    )
    assert found.comment == "cronhpc=d1a2/x@20261128T0100Z.1"
    assert (found.submitted, found.start, found.ended) == (at("2026-11-28 14:12"), at("2026-11-28 14:13"), None)


BY_USER = " The job was suspended by the user while pending: 1 host;"
BY_ADMIN = " The job was suspended by LSF admin or root while pending;"


@pytest.mark.parametrize(
    ("stat", "more", "state", "reason"),
    [
        ("PEND", {}, "PENDING", "BeginTime"),
        (
            "PEND",
            {"job_description": "", "pend_reason": "Job slot limit reached;"},
            "PENDING",
            "Job slot limit reached",
        ),
        ("WAIT", {"job_description": ""}, "PENDING", ""),
        ("PSUSP", {"pend_reason": BY_USER}, "PENDING", "JobHeldUser"),
        ("PSUSP", {"pend_reason": ""}, "PENDING", "JobHeldUser"),
        ("PSUSP", {"pend_reason": BY_ADMIN}, "PENDING", "JobHeldAdmin"),
        ("PROV", {}, "CONFIGURING", ""),
        ("RUN", {}, "RUNNING", ""),
        ("USUSP", {}, "SUSPENDED", ""),
        ("SSUSP", {}, "SUSPENDED", ""),
        ("UNKWN", {}, "RUNNING", ""),
        ("ZOMBI", {}, "COMPLETING", "stuck in its end: its node does not answer"),
        ("NEWER", {}, "RUNNING", ""),
        ("DONE", {}, "COMPLETED", ""),
        ("EXIT", {"exit_code": "3"}, "FAILED", ""),
        ("EXIT", {"exit_reason": "TERM_OWNER: job killed by owner"}, "CANCELLED", ""),
        ("EXIT", {"exit_reason": "TERM_RUNLIMIT: job killed after reaching LSF run time limit"}, "TIMEOUT", ""),
        ("EXIT", {"exit_reason": "TERM_MEMLIMIT: job killed after reaching LSF memory limit"}, "OUT_OF_MEMORY", ""),
        ("EXIT", {"start_time": "", "exec_host": ""}, "CANCELLED", ""),
    ],
)
def test_a_job_of_lsf_has_the_state_and_reason_of_slurm(
    stat: str, more: dict[str, str], state: str, reason: str
) -> None:
    begin = {"job_description": f"x|{NOW + 60}"}
    found = job(**({"stat": stat} | begin | more))
    assert (found.state, found.reason) == (state, reason)
    assert found.fault == {"PSUSP": reason, "ZOMBI": Fault.UNENDING}.get(stat)


def test_the_begin_of_a_job_that_waits_is_in_its_description() -> None:
    assert job(stat="PEND", start_time="").start == 1795791600


@pytest.mark.parametrize(
    ("stat", "printed", "code", "signal"),
    [("EXIT", "3", 3, None), ("EXIT", "143", None, 15), ("DONE", "", 0, None), ("EXIT", "-", None, None)],
)
def test_an_exit_code_above_128_is_a_signal_on_lsf(
    stat: str, printed: str, code: int | None, signal: int | None
) -> None:
    found = job(stat=stat, exit_code=printed, finish_time="Nov 28 14:15")
    assert (found.exit_code, found.signal) == (code, signal)


@pytest.mark.parametrize(
    ("printed", "ended"),
    [
        ("Nov 28 14:15", "2026-11-28 14:15:59"),
        ("Nov 28 14:20", "2026-11-28 14:20:00"),
        ("Nov 28 14:15:07", "2026-11-28 14:15:07"),
    ],
    ids=["a minute that is over", "this one: it ended before now", "a site that shows seconds"],
)
def test_what_is_known_by_the_minute_ended_in_its_last_second(printed: str, ended: str) -> None:
    assert job(stat="EXIT", exit_code="3", finish_time=printed).ended == at(ended)


def test_a_task_of_an_array_is_listed_as_ours() -> None:
    found = job(jobindex="3", job_name="arr[3]")
    assert (found.shown_id, found.name) == ("361_3", "arr")


def test_older_versions_part_fields_by_a_mark_and_a_name_may_hold_it() -> None:
    fields = [name.upper() for name in lsf.FIELDS]
    row = {**ROW, "JOB_NAME": "a^b", "EXIT_CODE": "-", "EXIT_REASON": "-"}
    printed = "Notice\n" + "^".join(fields) + "\n" + "^".join(row[name] for name in fields) + "\n"
    (record,) = lsf.records(Finished(0, printed, ""))
    assert record == {name.lower(): "" if row[name] == "-" else row[name] for name in fields}


def test_rows_with_an_error_are_left_out_and_notices_stand_before() -> None:
    gone = {"JOBID": "9", "ERROR": "Job <9> is not found"}
    assert [each["jobid"] for each in lsf.records(answer(ROW, gone, before="Notice\n"))] == ["361"]


@pytest.mark.parametrize("code", [0, 254, 255])
@pytest.mark.parametrize("words", ["No unfinished job found", "No job found"])
def test_no_job_is_an_empty_queue(words: str, code: int) -> None:
    assert lsf.records(Finished(code, "", words + "\n")) == []


@pytest.mark.parametrize(
    "ended",
    [
        pytest.param(Finished(255, "", "LSF is down. Please wait ..."), id="down"),
        pytest.param(Finished(-9, "", "", timed_out=True), id="killed"),
        pytest.param(Finished(0, "", ""), id="nothing"),
        pytest.param(Finished(0, '{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"7"', ""), id="cut"),
        pytest.param(Finished(0, '{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"7"}]}', ""), id="without state"),
        pytest.param(Finished(0, "^".join(lsf.FIELDS).upper() + "\n7^0^RUN\n", ""), id="a line that is too short"),
        pytest.param(
            Finished(255, "", "batch system daemon not responding ... still trying\nNo unfinished job found?"),
            id="words beside it",
        ),
    ],
)
def test_all_else_is_no_answer(ended: Finished) -> None:
    with pytest.raises(Unreachable):
        lsf.records(ended)


@pytest.mark.parametrize(
    ("said", "old"),
    [("bjobs: Illegal option: -json\nUsage: bjobs", True), ("LSF is down. Please wait ...", False)],
)
def test_whether_this_bjobs_knows_json(said: str, *, old: bool) -> None:
    assert lsf.without_json(Finished(255, "", said)) is old


def test_files_that_a_job_names_itself() -> None:
    record = {"jobid": "7", "output_file": "out/%J_%I[x].txt", "error_file": "/e/%J", "sub_cwd": "/data"}
    assert lsf.files(record).outputs == ("/e/7", "/data/out/7_*[[]x].txt")
    assert lsf.files({**record, "output_file": "/dev/null", "error_file": "-"}).outputs == ()


# --- the past

BHIST = """
Job <358>, Job Name <held>, User <alice>, Project <cronhpc=d1a2/x>, Command <sle
                     ep 1>
Sat Nov 28 14:12:49: Submitted from host <pbshost> with hold, to Queue <normal>
                     , CWD <$HOME>, Output File </dev/null>;
Sat Nov 28 14:12:50: Dispatched to <n1>;
Sat Nov 28 14:12:50: Starting (Pid 18363);
Sat Nov 28 14:13:10: {end}

Summary of time in seconds spent in various states by  Sat Nov 28 14:13:10
  PEND     PSUSP    RUN      USUSP    SSUSP    UNKWN    TOTAL
  1        0        20       0        0        0        21
"""
KILLED = (
    "Signal <KILL> requested by user or administrator <alice>;\n"
    "Sat Nov 28 14:13:11: Exited by signal 9. The CPU time used is 0.1 seconds;\n"
    "Sat Nov 28 14:13:11: Completed <exit>; TERM_OWNER: job killed by owner."
)


@pytest.mark.parametrize(
    ("end", "result", "code", "signal"),
    [
        ("Done successfully. The CPU time used is 0.0 seconds;", Result.OK, 0, None),
        ("Exited with exit code 3. The CPU time used is 0.1 seconds;", Result.FAILED, 3, None),
        ("Exited with exit code 143. The CPU time used is 0.1 seconds;", Result.FAILED, None, 15),
        ("Completed <exit>; TERM_RUNLIMIT: job killed after reaching LSF run time limit.", Result.TIMEOUT, None, None),
        (KILLED, Result.CANCELLED, None, 9),
    ],
)
def test_an_end_in_the_history(end: str, result: Result, code: int | None, signal: int | None) -> None:
    (found,) = lsf.past(Finished(0, BHIST.format(end=end), ""), NOW)
    assert (found.id, found.submitted) == ("358", at("2026-11-28 14:12:49"))
    assert found.end is not None
    assert (found.end.result, found.end.exit_code, found.end.signal) == (result, code, signal)
    assert (found.end.started, found.end.node) == (at("2026-11-28 14:12:50"), "n1")
    assert found.ended_by == ("alice" if end == KILLED else "")


def test_a_job_that_has_not_ended_has_no_end_and_one_that_began_anew_none_yet() -> None:
    (found,) = lsf.past(
        Finished(0, BHIST.format(end="Exited with exit code 99;\nSat Nov 28 14:13:11: Pending:"), ""), NOW
    )
    assert found.end is None
    live = "\n".join(RECORDED.split("\n\n")[1].splitlines())
    assert [each.end for each in lsf.past(Finished(0, live, ""), NOW)] == [None]


def test_a_history_without_answer_is_none() -> None:
    with pytest.raises(Unreachable):
        lsf.past(Finished(255, "", "LSF is down. Please wait ..."), NOW)
    assert lsf.past(Finished(255, "", "No matching job found"), NOW) == ()


def test_folded_lines_are_whole_again() -> None:
    found = {each.id: each for each in lsf.past(Finished(0, RECORDED, ""), NOW)}
    assert set(found) == {"358", "359", "360", "361"}
    assert {each.submitted for each in found.values()} == {at("2026-11-28 14:12:49")}


@pytest.mark.parametrize(
    ("said", "name", "version"),
    [
        (
            "IBM Spectrum LSF Standard 10.1.0.14, Jul 1 2023\n\nMy cluster name is c1\nMy master name is h",
            "c1",
            "10.1.0.14",
        ),
        ("words", "", ""),
    ],
)
def test_name_and_version(said: str, name: str, version: str) -> None:
    assert lsf.identity(said) == (name, version)


def test_variables_of_lsf_reach_neither_its_commands_nor_a_run() -> None:
    environ = {"LSB_DEFAULTQUEUE": "x", "LSB_BJOBS_FORMAT": "jobid", "LS_JOBPID": "1", "BSUB_QUIET": "1"}
    kept = {"LSF_ENVDIR": "/etc", "LSF_SERVERDIR": "/s", "PATH": "/bin"}
    assert scrub({**environ, **kept}, LSF) == kept


def test_a_job_that_has_ended_and_is_listed_still_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its state a link that has ended was taken for one that waits."""
    batch = Lsf({})
    monkeypatch.setattr(batch, "_jobs", lambda *_: [Job("7", "COMPLETED", "cronhpc-x")])
    assert batch.describe("7")["JobState"] == "COMPLETED"


@pytest.mark.parametrize(
    ("user", "told"), [("root", {"7": 0}), ("nobody-of-this-machine", {})], ids=["a user", "nobody here has that name"]
)
def test_who_asked_for_the_end_of_a_job(user: str, told: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    end = f"Exited by signal 9. The CPU time used is 0.1 seconds; requested by user or administrator <{user}>"
    batch = Lsf({})
    monkeypatch.setattr(batch, "_jobs", list)
    monkeypatch.setattr(batch, "_past", lambda _: lsf.past(Finished(0, ELEMENT.format(task=1, end=end), ""), NOW))
    assert batch.job_ends(["7"], at("2026-11-28 14:12")).cancelled_by == told


ELEMENT = """
Job <7[{task}]>, Job Name <x[1-3]>, User <alice>
Sat Nov 28 14:12:49: Submitted from host <h>, to Queue <normal>;
Sat Nov 28 14:12:50: Starting (Pid 18363);
Sat Nov 28 14:13:10: {end};
"""
GOOD, BAD = "Done successfully", "Exited with exit code 4"


@pytest.mark.parametrize(
    ("listed", "past", "failed"),
    [
        pytest.param({2: "COMPLETED", 3: "COMPLETED"}, (BAD, GOOD, GOOD), "1", id="one is forgotten, and had failed"),
        pytest.param({2: "FAILED", 3: "COMPLETED"}, (BAD, BAD, GOOD), "1-2", id="so had one that is listed"),
        pytest.param({}, (BAD, GOOD, GOOD), "1", id="all are forgotten"),
        pytest.param({2: "FAILED"}, (GOOD, GOOD, GOOD), None, id="the history says something else: the list counts"),
        pytest.param({2: "COMPLETED", 3: "RUNNING"}, (BAD, GOOD), None, id="one still runs"),
    ],
)
def test_which_tasks_of_an_array_failed_is_asked_of_the_history(
    monkeypatch: pytest.MonkeyPatch, listed: dict[int, str], past: tuple[str, ...], failed: str | None
) -> None:
    """A list that had forgotten the failed ones made a good run of it, and a further attempt ran all."""
    batch = Lsf({})
    monkeypatch.setattr(batch, "_jobs", lambda: [Job("7", state, "x", tasks=str(n)) for n, state in listed.items()])
    told = "".join(ELEMENT.format(task=task, end=end) for task, end in enumerate(past, start=1))
    monkeypatch.setattr(batch, "_past", lambda ids: lsf.past(Finished(0, told, ""), NOW) if ids else ())
    ends = batch.job_ends(["7"], at("2026-11-28 14:12")).by_id
    assert (ends["7"].tasks if ends else None) == failed
