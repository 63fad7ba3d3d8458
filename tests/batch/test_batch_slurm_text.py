"""What Slurm's commands are told, and what their errors mean. The texts are those of 22.05.8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cronhpc.batch import commands
from cronhpc.batch.commands import changed, chunks
from cronhpc.batch.port import AtSubmitLimit, BatchError, Denied, Refused, Submission, Unreachable
from cronhpc.batch.process import Finished
from cronhpc.batch.slurm import Slurm, text
from cronhpc.batch.slurm.job_ends import accounting_argv
from cronhpc.batch.slurm.rows import alike, submitted
from cronhpc.core.model import Job, log_name

FAILED = "sbatch: error: Batch job submission failed: "
POLICY = FAILED + "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


@pytest.mark.parametrize(
    ("job", "argv"),
    [
        pytest.param(
            Submission("/d/a.slurm"), "sbatch --parsable --hold -- /d/a.slurm", id="held, and else as the script says"
        ),
        pytest.param(
            Submission("/d/-n.slurm", ("-x", "b"), held=False),
            "sbatch --parsable -- /d/-n.slurm -x b",
            id="dashes in the script's name and arguments",
        ),
        pytest.param(
            Submission("/d/a", options=("--partition=cpu",), job_name="a", comment="c", begin=1795791600, chdir="/"),
            "sbatch --parsable --partition=cpu --hold --job-name=a --comment=c --chdir=/ --begin=uts1795791600 -- /d/a",
            id="ours after the options",
        ),
        pytest.param(
            Submission("/d/a", output="/l/%j", error="/l/%j.e", held=False, no_requeue=True),
            "sbatch --parsable --no-requeue --output=/l/%j --error=/l/%j.e -- /d/a",
            id="a link",
        ),
    ],
)
def test_the_call_of_sbatch(job: Submission, argv: str) -> None:
    assert text.submit_argv(job) == argv.split(" ")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """How commands were called; all say the id of a job, and that is all well."""
    made: list[list[str]] = []

    def run(argv: Sequence[str], **_: object) -> Finished:
        made.append(list(argv))
        return Finished(0, "7\n", "")

    monkeypatch.setattr(commands, "run", run)
    return made


def test_the_cluster_is_named_to_each_command(calls: list[list[str]]) -> None:
    slurm = Slurm({}, cluster="lab")
    slurm.submit(Submission("/d/a"))
    slurm.release(["1"])
    slurm.cancel(["1"])
    slurm.signal(["1"], "USR1")
    slurm.comment(["1"], "c")
    slurm.ask("squeue", ["--me"])
    assert [call[:2] for call in calls] == [
        [program, "--clusters=lab"] for program in ("sbatch", "scontrol", "scancel", "scancel", "scontrol", "squeue")
    ]
    slurm.ask("sacctmgr", ["show"])
    assert calls[-1] == ["sacctmgr", "show"], "which has no such option"


@pytest.mark.parametrize(
    ("options", "own", "variables", "option"),
    [
        pytest.param((), None, {"A": "1"}, None, id="sbatch's default lets them in"),
        pytest.param((), "ALL", {"A": "1"}, None, id="ALL lets them in"),
        pytest.param((), "ALL,X=1", {"A": "1"}, None, id="ALL with more lets them in"),
        pytest.param((), "NONE", {"A": "1", "B": "2,\n3"}, "--export=A,B", id="NONE: just ours, by name"),
        pytest.param((), "PATH,X=1", {"A": "1"}, "--export=PATH,X=1,A", id="a list: ours are added"),
        pytest.param(("--export=NONE",), "ALL", {"A": "1"}, "--export=A", id="the option beats the script"),
        pytest.param((), "NONE", {}, None, id="nothing to add"),
    ],
)
def test_variables_reach_the_run(
    options: tuple[str, ...], own: str | None, variables: dict[str, str], option: str | None
) -> None:
    job = Submission("/d/a", options=options, own_export=own, export=variables)
    added = [one for one in text.submit_argv(job) if one.startswith("--export") and one not in options]
    assert added == ([option] if option else [])


def test_updates_leave_alone_what_is_none() -> None:
    assert text.update_argv(["1", "2_[0-3]"], StartTime="uts5", Comment=None) == [
        *("scontrol", "update", "JobId=1,2_[0-3]", "StartTime=uts5")
    ]


def test_pending_tasks_alone_can_be_cancelled(calls: list[list[str]]) -> None:
    Slurm({}).cancel(["1", "2"], pending_only=True)
    assert calls == [["scancel", "--state=PENDING", "1", "2"]]


def test_long_lists_are_cut() -> None:
    ids = [str(n) for n in range(1201)]
    assert [len(some) for some in chunks(ids)] == [500, 500, 201]


def test_the_window_of_accounting_is_in_utc() -> None:
    assert "--starttime=2026-11-27T03:00:00" in accounting_argv(["1"], 1795748400, "|", ["JobID"])


@pytest.mark.parametrize(
    ("out", "code", "err", "job_id"),
    [
        pytest.param("4711\n", 0, "", "4711", id="plain"),
        pytest.param("4711;lab\n", 0, "", "4711", id="with the cluster's name"),
        pytest.param(
            "4711\n",
            0,
            "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
            "4711",
            id="a warning that reads like an error",
        ),
        pytest.param("4711\n", 3, "", "4711", id="--wait: the exit code is the job's"),
        pytest.param("Submitted batch job 4711\n", 0, "", "4711", id="a wrapper that drops --parsable"),
    ],
)
def test_the_id_on_stdout_counts(out: str, code: int, err: str, job_id: str) -> None:
    assert text.submitted(Finished(code, out, err)) == job_id


def test_a_submit_limit_is_told_in_a_line_without_the_sites_banner() -> None:
    banner = "*" * 60 + "\n* Maintenance on Tuesday, see https://hpc.example/news\n" + "*" * 60 + "\n"
    with pytest.raises(AtSubmitLimit) as told:
        text.submitted(Finished(1, "", banner + "sbatch: error: AssocMaxSubmitJobLimit\n" + POLICY))
    assert told.value.text == "the site takes no more jobs of this user (AssocMaxSubmitJobLimit)"


SILENCES = {
    "it was killed": (Finished(-9, "", "", timed_out=True), "sbatch gave no answer in time"),
    "it says why itself": (
        Finished(1, "", FAILED + "Zero Bytes were transmitted"),
        FAILED + "Zero Bytes were transmitted",
    ),
    "a wrapper was content": (Finished(0, "", ""), "sbatch exited 0 and said nothing of it"),
}


@pytest.mark.parametrize(("ended", "said"), SILENCES.values(), ids=SILENCES)
def test_a_lost_reply_is_told_without_the_sites_banner(ended: Finished, said: str) -> None:
    banner = "*" * 60 + "\n* Maintenance on Tuesday, see https://hpc.example/news\n" + "*" * 60 + "\n"
    with pytest.raises(Unreachable) as told:
        text.submitted(replace(ended, err=banner + ended.err))
    assert told.value.text == said.strip()


@pytest.mark.parametrize(
    ("kind", "code", "err"),
    [
        (Unreachable, 1, FAILED + "Socket timed out on send/recv operation"),
        (Unreachable, 1, FAILED + "Unable to contact slurm controller (connect failure)"),
        (Unreachable, 1, FAILED + "Zero Bytes were transmitted or received"),
        (Unreachable, 1, FAILED + "Invalid authentication credential"),
        (Unreachable, 1, "sbatch: fatal: Could not establish a configuration source"),
        (Unreachable, 1, ""),
        (Unreachable, -9, FAILED + "Invalid qos specification"),
        (AtSubmitLimit, 1, "sbatch: error: AssocMaxSubmitJobLimit\n" + POLICY),
        (AtSubmitLimit, 1, "sbatch: error: QOSMaxSubmitJobPerUserLimit\n" + POLICY),
        (AtSubmitLimit, 1, POLICY),
        (AtSubmitLimit, 1, FAILED + "Resource temporarily unavailable"),
        (Refused, 1, "sbatch: error: QOSMaxWallDurationPerJobLimit\n" + POLICY),
        (Refused, 1, "sbatch: error: QOSMaxCpuPerUserLimit\n" + POLICY),
        (Refused, 1, FAILED + "Invalid account or account/partition combination specified"),
        (Refused, 1, "sbatch: error: invalid partition specified: x\n" + FAILED + "Invalid partition name specified"),
        (Refused, 1, FAILED + "Invalid qos specification"),
        (Refused, 1, "sbatch: error: Memory specification can not be satisfied"),
        (Refused, 1, FAILED + "Requested node configuration is not available"),
        (Refused, 1, "sbatch: error: Invalid generic resource (gres) specification"),
        (Refused, 1, FAILED + "Job dependency problem"),
        (Refused, 1, FAILED + "Invalid job array specification"),
        (Refused, 1, FAILED + "Invalid feature specification"),
        (Refused, 1, FAILED + "Requested reservation is invalid"),
        (Refused, 1, FAILED + "Invalid node name specified"),
        (Refused, 1, FAILED + "Pathname of a file, directory or other parameter too long"),
        (Refused, 1, FAILED + "Requested time limit is invalid (missing or exceeds some limit)"),
        (Refused, 1, 'sbatch: error: Invalid numeric value "0" for --ntasks.'),
        (Refused, 1, "sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."),
        (Refused, 255, "sbatch: unrecognized option '--workdir=/x'"),
        (Refused, 255, "sbatch: error: something that is new"),
        (Refused, 1, "sbatch: error: Batch script contains DOS line breaks (\\r\\n)"),
        (Refused, 1, "sbatch: error: This does not look like a batch script.  The first"),
        (Refused, 1, "sbatch: error: Batch script is empty!"),
        (Refused, 1, 'sbatch: fatal: /home/a/resolve-dns.slurm: line 3: Unmatched `"` in [#SBATCH --comment="a]'),
        (
            Refused,
            1,
            "sbatch: error: invalid partition specified: munge\n" + FAILED + "Invalid partition name specified",
        ),
        (
            Refused,
            0,
            "sbatch: Job 62 to start at 2026-11-28T09:58:11 using 1 processors on nodes cpu1 in partition cpu",
        ),
        (AtSubmitLimit, 1, "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying"),
        (AtSubmitLimit, 1, "sbatch: error: Slurm job queue full, sleeping and retrying"),
        (AtSubmitLimit, -15, "sbatch: error: Slurm job queue full, sleeping and retrying"),
        (Denied, 1, FAILED + "Access/permission denied"),
        (Denied, 1, "ERROR: sbatch is disabled on compute nodes, submit from a login node."),
        (Denied, 1, "Jobs can only be submitted from the Front-End."),
        (Denied, 1, "sbatch: submitting from inside a job is not allowed at this site"),
        (BatchError, 1, FAILED + "Unspecified error"),
        (BatchError, 1, FAILED + "Requested partition configuration not available now"),
        (BatchError, 1, "sbatch: error: Unable to open file /d/a.slurm"),
    ],
)
def test_errors_of_sbatch(kind: type[BatchError], code: int, err: str) -> None:
    with pytest.raises(BatchError) as caught:
        text.submitted(Finished(code, "", err))
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("ended", "numbers"),
    [
        pytest.param(Finished(0, "Core hours left:\n5000\n4711\n", ""), ["5000", "4711"], id="a line before it"),
        pytest.param(Finished(0, "4711\n5000\n", ""), ["4711", "5000"], id="a line behind it"),
        pytest.param(Finished(0, "Core hours left: 5000\n4711;lab\n", ""), ["5000", "4711"], id="at a line's end"),
        pytest.param(Finished(0, "job 4711 taken, left: 5000\n", ""), ["5000"], id="the id within a line"),
        pytest.param(Finished(0, "5000\n", "", cut=True), ["5000"], id="ended before it was through"),
        pytest.param(Finished(0, "Core hours left:\n5000\n", ""), ["5000"], id="the id is hidden"),
        pytest.param(Finished(0, "Welcome!\n4711\n", ""), ["4711"], id="a site's banner before it"),
        pytest.param(Finished(0, "Core hours left: 5000 h\n4711\n", ""), ["4711"], id="a number within a line"),
        pytest.param(Finished(0, "", ""), [], id="nothing"),
        pytest.param(Finished(0, "Done.\n", ""), [], id="words"),
    ],
)
def test_numbers_of_which_none_is_the_id_for_certain(ended: Finished, numbers: list[str]) -> None:
    with pytest.raises(text.Unclear) as caught:
        text.submitted(ended)
    assert caught.value.numbers == numbers


def test_a_number_beside_a_failure_is_no_id() -> None:
    with pytest.raises(Refused):
        text.submitted(Finished(1, "5000\n", FAILED + "Invalid partition name specified"))


ASKED = Submission("/cron/e.slurm", comment="cronhpc=ab12cd/e@20261127T1400Z.1 own", output="/cron/log/e/%j.out")
ARGV = "/cron/link 1795788000 link"
MINE = Job("71", "PENDING", comment=ASKED.comment)
LINK = Submission("/cron/link", ("1795788000", "link"), output="/cron/scheduler.log")


@pytest.mark.parametrize(
    ("jobs", "numbers", "found"),
    [
        pytest.param([MINE, Job("50", "PENDING")], ["50", "71"], "71", id="its token"),
        pytest.param([Job("71", "PENDING", comment=f"site {ASKED.comment}")], [], "71", id="which a site has prefixed"),
        pytest.param([MINE, replace(MINE, id="70")], ["71"], "71", id="of two the printed one"),
        pytest.param([MINE, replace(MINE, id="70")], ["50"], "", id="of two neither"),
        pytest.param([Job("50", "PENDING", command="/home/u/x.sh")], ["50"], "", id="a number of another job"),
    ],
)
def test_the_comment_tells_which_number_is_the_job(jobs: list[Job], numbers: list[str], found: str) -> None:
    assert submitted(jobs, ASKED, numbers) == found


@pytest.mark.parametrize(
    ("asked", "commands", "numbers", "found"),
    [
        pytest.param(ASKED, {"70": "/cron/e.slurm a", "71": "/cron/e.slurm"}, ["70"], ["70", "71"], id="runs"),
        pytest.param(ASKED, {"70": "/cron/e.slurm.old", "50": ""}, ["50", "70"], [], id="another script"),
        pytest.param(LINK, {"70": ARGV, "71": "/cron/link 1 link"}, ["70", "71"], ["70"], id="a link"),
        pytest.param(LINK, {"70": ARGV}, ["50"], ["70"], id="the only link of those arguments"),
        pytest.param(LINK, {"70": ARGV, "71": ARGV}, ["50"], [], id="one of two, and none was printed"),
    ],
)
def test_jobs_of_the_same_script(
    asked: Submission, commands: dict[str, str], numbers: list[str], found: list[str]
) -> None:
    """A site has replaced the comment: the log of each is asked for."""
    assert alike([Job(number, "PENDING", command=said) for number, said in commands.items()], asked, numbers) == found


LOG_NAMES = {  # a pattern of a job 71, which is no array; its log, and as a glob pattern
    "a percent sign": ("/d%%1/log/%j.out", "/d%1/log/71.out", "/d%1/log/71.out"),
    "the name": ("%x-%A", "a[b]-71", "a[[]b]-71"),
    "digits": ("%5j", "00071", "00071"),
    "more digits than Slurm gives": ("%99j %99999999999999j", "0000000071 0000000071", "0000000071 0000000071"),
    "a letter that only the start decides": ("%N/%3t/%a", "%N/%3t/%a", "*/*/*"),
    "no letter": ("100%/%-5%", "100%/%-5%", "100%/%-5%"),
    "a backslash switches all off": ("a\\b%j*", "ab%j*", "ab%j[*]"),
}


@pytest.mark.parametrize(("pattern", "name", "as_glob"), LOG_NAMES.values(), ids=LOG_NAMES)
def test_the_name_of_a_log(pattern: str, name: str, as_glob: str) -> None:
    known = {"j": "71", "A": "71", "x": "a[b]", "a": ""}
    assert log_name(pattern, known) == name
    assert log_name(pattern, known, as_glob=True) == as_glob


def test_a_time_out_is_no_answer_whatever_was_printed() -> None:
    with pytest.raises(Unreachable, match=r"no answer in time: .*sleeping and retrying"):
        text.submitted(
            Finished(-9, "", "sbatch: error: Slurm temporarily unable, sleeping and retrying", timed_out=True)
        )


@pytest.mark.parametrize(
    ("code", "err", "fine"),
    [
        pytest.param(0, "", True, id="done"),
        pytest.param(
            1, "Invalid job id specified for job 9\nslurm_suspend error: Invalid job id specified", True, id="gone"
        ),
        pytest.param(1, "Job has already finished for job 7\nslurm_suspend error: No error", True, id="finished"),
        pytest.param(1, "Job is no longer pending execution for job 1", True, id="runs"),
        pytest.param(1, "7_0-2: Job has already finished\n7_3-5: No error", True, id="a part of an array is gone"),
        pytest.param(
            1, "scancel: error: Kill job error on job id 7: Job/step already completing or completed", True, id="ends"
        ),
        pytest.param(
            1,
            "Unexpected message received for job 3\nslurm_suspend error: Unexpected message received",
            False,
            id="away",
        ),
        pytest.param(
            1, "Invalid job id specified for job 9\nSocket timed out on send/recv operation", False, id="half away"
        ),
        pytest.param(
            1, "scancel: error: Kill job error on job id 3: Unable to contact slurm controller", False, id="down"
        ),
        pytest.param(1, "", False, id="no word"),
    ],
)
def test_changes_of_jobs_that_are_gone_are_fine(code: int, err: str, *, fine: bool) -> None:
    if fine:
        changed("scontrol", Finished(code, "", err), text.SIGNS)
        return
    with pytest.raises(Unreachable):
        changed("scontrol", Finished(code, "", err), text.SIGNS)


@pytest.mark.parametrize(
    "err",
    [
        pytest.param("scancel: error: Kill job error on job id 1: Access/permission denied", id="not ours"),
        pytest.param(
            "Requested partition configuration not available now for job 150\nslurm_suspend error: No error",
            id="one that can never start",
        ),
    ],
)
def test_a_no_to_one_job_is_an_answer(err: str) -> None:
    """The controller is there: nothing else of the tick is put off."""
    with pytest.raises(BatchError) as raised:
        changed("scontrol", Finished(1, "", err), text.SIGNS)
    assert not isinstance(raised.value, Unreachable)


def test_moving_a_job_that_is_gone_is_said() -> None:
    with pytest.raises(BatchError) as caught:
        changed("scontrol", Finished(1, "", "Job has already finished for job 7"), text.SIGNS, gone_is_fine=False)
    assert type(caught.value) is BatchError


@pytest.mark.parametrize(
    ("shown", "answer"),
    [
        pytest.param('JobId=7 JobName=x\n   UserId=a(1)\n   CronJob=Yes CrontabSpec="* * * * *"\n', True, id="24.11"),
        pytest.param('JobId=7 JobName=x\n   CrontabSpec="@daily"\n', True, id="a spec alone"),
        pytest.param("JobId=7 JobName=x CronJob=Yes\n   Comment=a\nCronJob=Yes\n", False, id="just words"),
        pytest.param("", False, id="gone"),
    ],
)
def test_a_scrontabs_own_job(shown: str, *, answer: bool) -> None:
    assert text.of_scrontab(shown) is answer


# --- what scontrol shows of a job ----------------------------------------------------------------------------------

SHOWN = """\
JobId=7 JobName=a job
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0
   Partition=cpu AllocNode:Sid=localhost:3814
{command}   WorkDir=/work
{comment}   StdErr=/work/log/7.out
   StdIn=/dev/null
   StdOut=/work/log/7.out
   Power=
   MailUser=root MailType=END"""
EXPECTED = {"JobName": "a job", "Restarts": "2", "Partition": "cpu", "StdOut": "/work/log/7.out", "MailType": "END"}


@pytest.mark.parametrize(
    ("command", "comment"),
    [
        pytest.param("   Command=/x.sh a\n", "", id="plain"),
        pytest.param("   Command=/x.sh a\n\n   StdOut=/y WorkDir=/z\n", "", id="an empty line in the arguments"),
        pytest.param("   Command=/x.sh StdOut=/y Partition=gpu\n", "", id="KEY=VALUE words in the arguments"),
        pytest.param(
            "   Command=/x.sh\n   SubmitLine=sbatch /x.sh StdOut=/y Partition=gpu JobName=z\n",
            "",
            id="SubmitLine= of 25.11",
        ),
        pytest.param("   Command=/x.sh\n", "   Comment=one\n\n   StdErr=/evil\n   StdOut=/evil\n", id="a comment"),
    ],
)
def test_free_text_is_not_taken_for_fields(command: str, comment: str) -> None:
    found = text.fields(f"{SHOWN.format(command=command, comment=comment)}\n\nJobId=8 JobName=another\n")
    assert {name: found[name] for name in EXPECTED} == EXPECTED
    assert found["Command"].startswith("/x.sh")
