"""`cronhpc again` against a batch system that does as it is told: exactly one next piece, whatever happens."""

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cronhpc.again.submit import ENDED, Answer, Asked, NoSeries, again, open_series_site
from cronhpc.batch.port import BatchError, Ends, Refused, Submission, Unreachable
from cronhpc.cli import main
from cronhpc.cli.console import Console
from cronhpc.core.model import CronhpcError, Job, JobEnd, Key, Queue, Result, Rules
from cronhpc.engine.init import init
from cronhpc.engine.site import Site, directory_id
from cronhpc.script.dialect import SLURM, Dialect
from cronhpc.store import damage, history, logs, memory, series_records
from cronhpc.store.claims import Claims
from cronhpc.store.files import Paths
from cronhpc.store.settings import read_settings
from cronhpc.store.wrappers import run_path, run_text
from tests.faults import Disk
from tests.worlds import WithoutAccounting, at, clock, waits_for

HOURLY = Rules(every=3600)
AFTER = Rules(after=True)
NOW = at("14:20")


@dataclass
class Batch(WithoutAccounting):
    """A queue in memory. What `again` has no business asking is not there."""

    jobs: dict[str, Job] = field(default_factory=dict)
    given: dict[str, Submission] = field(default_factory=dict)
    details: dict[str, dict[str, str]] = field(default_factory=dict)
    known: dict[str, JobEnd] = field(default_factory=dict)
    marks: dict[str, str] = field(default_factory=dict)  # comments of those, where accounting keeps them
    fails: list[BatchError] = field(default_factory=list)  # of the next submissions; None of them is lost
    accepts: bool = False  # a submission that fails is in the queue all the same
    dialect: Dialect = SLURM

    def queue(self) -> Queue:
        return Queue(tuple(self.jobs.values()))

    def describe(self, job_id: str) -> Mapping[str, str]:
        return self.details[job_id]

    def submit(self, job: Submission) -> str:
        failure = self.fails.pop(0) if self.fails else None
        if failure is not None and not self.accepts:
            raise failure
        number = str(max(map(int, self.jobs), default=100) + 1)
        why = waits_for("JobHeldUser" if job.held else "BeginTime")
        self.jobs[number] = Job(number, "PENDING", job.job_name or "", job.comment, start=job.begin, **why)
        self.given[number] = job
        self.details[number] = {**self.details["100"], "Command": job.script}
        if failure is not None:
            raise failure
        return number

    def release(self, job_ids: Sequence[str]) -> None:
        for each in job_ids:
            self.jobs[each] = replace(self.jobs[each], **waits_for("BeginTime"))

    def comment(self, job_ids: Sequence[str], comment: str) -> None:
        for each in job_ids:
            self.jobs[each] = replace(self.jobs[each], comment=comment)

    def cancel(self, job_ids: Sequence[str], *, pending_only: bool = False) -> None:
        for each in job_ids:
            if self.jobs[each].state == "PENDING" or not pending_only:
                self.jobs[each] = replace(self.jobs[each], state="CANCELLED", **waits_for("None"))

    def hold(self, job_ids: Sequence[str], comment: str) -> None:
        for each in job_ids:
            self.jobs[each] = replace(self.jobs[each], comment=comment, **waits_for("JobHeldUser"))

    def job_ends(self, job_ids: Sequence[str], since: int, tokens: Mapping[str, str] | None = None) -> Ends:
        found = {each: self.known[each] for each in job_ids if each in self.known}
        for job_id in found.keys() & self.marks.keys():
            if (tokens or {}).get(job_id, "") not in self.marks[job_id]:
                del found[job_id]
        return Ends({each: job_end for each, job_end in found.items() if (job_end.submitted or since) >= since})


@dataclass
class Stage:
    """A train of which the first piece, job 100, runs. `now` is what its clock says."""

    site: Site
    batch: Batch
    place: Path
    now: int = at("14:20")

    def again(self, rules: Rules = HOURLY, job: str = "100", **more: Any) -> Answer:
        """The line at the top of the script, in `job`."""
        return again(self.site, Asked(rules, **more), self.now, job)

    def starts(self, job: str, now: str) -> None:
        """A piece begins to run."""
        self.now = at(now)
        self.batch.jobs[job] = replace(self.batch.jobs[job], state="RUNNING", **waits_for("None"))

    def ends(self, job: str, result: Result, took: int) -> None:
        """It ends; the first one had waited in the queue for a week."""
        state = {Result.OK: "COMPLETED", Result.CANCELLED: "CANCELLED"}.get(result, "FAILED")
        self.batch.jobs[job] = replace(self.batch.jobs[job], state=state)
        waited = 7 * 86400 if job == "100" else 1800
        self.batch.known[job] = JobEnd(result, None, None, self.now - waited, self.now, self.now + took)

    def waiting(self) -> dict[str, str]:
        """What waits to run, by job id: held, or the clock time of its begin."""
        pending = {n: j for n, j in self.batch.jobs.items() if j.state == "PENDING"}
        return {n: "held" if j.held else clock(j.start) if j.start else "at once" for n, j in pending.items()}

    @property
    def record(self) -> series_records.Record:
        known = series_records.load(self.site.paths.state, "watch")
        assert known is not None
        return known


def text_of(*directives: str) -> str:
    return "\n".join(["#!/bin/bash", "#SBATCH --job-name=watch", *directives, "true", ""])


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    root = tmp_path / "cron"
    init(root, {})
    script = tmp_path / "watch.slurm"
    script.write_text(text_of())
    batch = Batch(jobs={"100": Job("100", "RUNNING", "watch")})
    batch.details["100"] = {"JobName": "watch", "Command": str(script), "WorkDir": str(tmp_path), "Partition": "cpu"}
    paths = Paths(root)
    settings, cache = read_settings(paths.settings), memory.Cache(paths.state)
    site = Site(paths, settings, batch, {}, "node", "alice", 1000, "UTC", cache)  # type: ignore[arg-type]  # what is asked
    return Stage(site, batch, tmp_path)


def test_a_held_job_of_another_entry_whose_sbatch_timed_out_is_left_to_the_tick_that_adopts_it(stage: Stage) -> None:
    comment = f"cronhpc={directory_id(stage.site.paths)}/backup@20261127T1500Z.1"
    stage.batch.jobs["90"] = Job("90", "PENDING", "backup", comment, **waits_for("JobHeldUser"))
    stage.again()
    assert stage.waiting() == {"90": "held", "101": "15:00"}


def test_what_ticks_have_learnt_is_known_to_it_and_kept(stage: Stage) -> None:
    cache = memory.Cache(stage.site.paths.state)
    cache.keep("hold", ["90", stage.now - 90000])
    cache.keep("used", [720, 1260, stage.now])
    cache.keep("accounting", [True, stage.now, False])
    cache.save()
    site = open_series_site(str(stage.site.paths.root), "slurm", {"PATH": "/nowhere"})
    assert (site.batch.accounting, site.batch.submit_line) == (True, False)
    stage.site = replace(stage.site, cache=site.cache)
    stage.again()
    cache = memory.Cache(stage.site.paths.state)
    assert (cache.get("hold"), cache.get("used")) == (["", stage.now], [720, 1260, stage.now])


# --- exactly one next piece ----------------------------------------------------------------------------------------


def test_the_first_piece_queues_the_second_at_the_next_whole_hour(stage: Stage) -> None:
    answer = stage.again()
    assert answer.code == 0
    assert stage.waiting() == {"101": "15:00"}
    assert answer.lines[0].startswith("kept of the command line: --partition=cpu; not to be had from Slurm: --signal")


def test_what_is_queued_is_a_stub_that_runs_the_script_as_it_will_be_then(stage: Stage) -> None:
    stage.again(arguments=("one", "two words"), options=("--time=90",))
    given = stage.batch.given["101"]
    assert Path(given.script).name == "piece.slurm"
    assert given.arguments == (str(stage.place / "watch.slurm"), "one", "two words")
    assert {"--partition=cpu", "--time=90", "--no-requeue"} <= set(given.options)


def test_pieces_follow_each_other_on_the_hour(stage: Stage) -> None:
    stage.again()
    for job, now, following in (("101", "15:00:09", "16:00"), ("102", "16:00:50", "17:00"), ("103", "19:30", "20:00")):
        stage.starts(job, now)
        stage.again(job=job)
        assert list(stage.waiting().values()) == [following]
    assert stage.record.runs == 4


def test_asked_twice_by_one_piece_there_is_one(stage: Stage) -> None:
    """A requeue starts the script anew, hours later; or its author wrote the line twice."""
    stage.again()
    stage.now = at("16:40")
    assert stage.again().lines == ("the next piece of watch is queued already: job 101",)
    assert stage.waiting() == {"101": "15:00"}
    assert stage.record.runs == 1


def test_a_second_start_of_a_train_that_goes_on_queues_nothing(stage: Stage) -> None:
    stage.again()
    stage.batch.jobs["200"] = Job("200", "RUNNING", "watch")
    stage.batch.details["200"] = stage.batch.details["100"]
    assert stage.again(job="200").lines == ("series watch is going on already: this start of it queues nothing",)
    assert stage.waiting() == {"101": "15:00"}


def test_a_train_that_came_to_an_end_starts_afresh(stage: Stage) -> None:
    stage.again(replace(HOURLY, max_runs=1))
    assert stage.waiting() == {}
    stage.batch.jobs["100"] = replace(stage.batch.jobs["100"], state="COMPLETED")
    stage.batch.jobs["200"] = Job("200", "RUNNING", "watch")
    stage.batch.details["200"] = stage.batch.details["100"]
    stage.again(job="200")
    assert stage.waiting() == {"201": "15:00"}
    assert stage.record.runs == 1


def test_sbatch_times_out_and_the_job_is_there_all_the_same(stage: Stage) -> None:
    stage.batch.fails, stage.batch.accepts = [Unreachable("Socket timed out on send/recv operation")], True
    with pytest.raises(NoSeries, match="Socket timed out"):
        stage.again()
    assert stage.waiting() == {"101": "held"}
    stage.again()
    assert stage.waiting() == {"101": "15:00"}


def test_sbatch_times_out_and_there_is_no_job(stage: Stage) -> None:
    stage.batch.fails = [Unreachable("Unable to contact slurm controller")]
    with pytest.raises(NoSeries, match="the next piece of watch is not queued: Unable to contact"):
        stage.again()
    assert stage.waiting() == {}
    stage.again()
    assert stage.waiting() == {"101": "15:00"}


def test_sbatch_says_no(stage: Stage) -> None:
    stage.batch.fails = [Refused("Invalid account")]
    with pytest.raises(NoSeries, match="Invalid account"):
        stage.again()
    assert stage.waiting() == {}


def test_a_queue_that_gives_no_answer_is_asked_once_more_and_nothing_is_queued(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def queue() -> Queue:
        raise Unreachable("Unable to contact slurm controller")

    monkeypatch.setattr(stage.batch, "queue", queue)
    with pytest.raises(Unreachable, match="Unable to contact") as caught:
        stage.again()
    assert caught.value.passing
    assert stage.waiting() == {}


# --- how earlier pieces ended, told as a tick tells it ---------------------------------------------------------------


def told(stage: Stage, job: str) -> list[tuple[str, str]]:
    """Result and detail of a piece in the history."""
    rows = history.rows(stage.site.paths.state / "history")
    return [(row["result"], row.get("detail", "")) for row in rows if row.get("job") == job]


def test_a_piece_that_could_not_be_launched_is_told_so(stage: Stage) -> None:
    stage.again()
    stage.starts("101", "15:00")
    stage.again(job="101")
    stage.ends("101", Result.FAILED, 3)
    stage.batch.known["101"] = replace(stage.batch.known["101"], signal=53, node="n7")
    stage.starts("102", "16:00")
    stage.again(job="102")
    assert [result for result, _ in told(stage, "101")] == ["failed"]
    assert "it could not be launched on n7: no log was produced" in told(stage, "101")[0][1]


@pytest.mark.parametrize(("comment", "results"), [("", ["failed"]), ("of another job", [])], ids=["ours", "reused id"])
def test_an_end_is_believed_of_the_piece_alone_and_not_of_another_job_of_its_id(
    stage: Stage, comment: str, results: list[str]
) -> None:
    stage.again()
    stage.starts("101", "15:00")
    stage.again(job="101")
    stage.ends("101", Result.FAILED, 3)
    stage.batch.marks["101"] = comment or stage.batch.jobs["101"].comment
    del stage.batch.jobs["101"]  # the controller has forgotten it
    stage.starts("102", "16:00")
    stage.again(job="102")
    assert [result for result, _ in told(stage, "101")] == results


def test_an_end_of_another_entry_that_was_given_up_is_left_to_ticks(stage: Stage) -> None:
    """They know the entry's name; here it was told by its id."""
    stage.again()
    given_up = {"a%20b@20261127T1300Z.1": ("50", NOW - 60)}
    kept = memory.load(stage.site.paths.entries)
    memory.save(stage.site.paths.entries, replace(kept, scheduler=replace(kept.scheduler, given_up=given_up)))
    stage.batch.known["50"] = JobEnd(Result.OK, 0)
    stage.starts("101", "15:00")
    stage.again(job="101")
    stage.ends("101", Result.OK, 900)
    stage.starts("102", "16:00")
    stage.again(job="102")
    assert (len(told(stage, "101")), told(stage, "50")) == (1, [])
    assert dict(memory.load(stage.site.paths.entries).scheduler.given_up) == given_up


@pytest.mark.parametrize(("restarts", "runs"), [("1", 2), ("0", 1)], ids=["requeued", "a reused id"])
def test_a_piece_that_came_after_its_record_is_known_if_it_was_requeued(stage: Stage, restarts: str, runs: int) -> None:
    """Its script has changed its comment, and a requeue has a submit time of its own."""
    stage.again()
    stage.starts("101", "15:00")
    stage.batch.jobs["101"] = replace(stage.batch.jobs["101"], submitted=at("14:58"), comment="epoch 5")
    stage.batch.details["101"] |= {"Restarts": restarts, "Command": f"{stage.place}/watch.slurm"}
    stage.again(job="101")
    assert stage.record.runs == runs


def test_what_a_second_copy_claims_while_the_queue_is_asked_is_its_own(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may refuse the lease: its job is missing from an answer that is older."""
    claims, queue = Claims(stage.site.paths.claims), stage.batch.queue

    def meanwhile() -> Queue:
        claims.make(Key("watch", at("15:00")), "watch", "a second copy", stage.now)
        return queue()

    monkeypatch.setattr(stage.batch, "queue", meanwhile)
    assert stage.again().code == 0
    assert stage.waiting() == {}


def test_of_a_damaged_claim_the_job_is_the_one_with_its_token(stage: Stage) -> None:
    stage.again()
    for file in stage.site.paths.claims.iterdir():
        file.write_text("[]")
    assert stage.again().lines == ("the next piece of watch is queued already: job 101",)


# --- the end of a series -------------------------------------------------------------------------------------------


def test_its_file_exists_and_what_was_queued_is_cancelled(stage: Stage) -> None:
    rules = replace(HOURLY, until=str(stage.place / "done"))
    stage.again(rules)
    (stage.place / "done").touch()
    answer = stage.again(rules)
    assert answer.code == ENDED
    assert answer.lines[-1] == f"series watch ends: {stage.place}/done exists; nothing is queued"
    assert stage.waiting() == {}
    assert stage.record.no_next == f"{stage.place}/done exists"


def test_its_file_counts_that_a_stat_does_not_show_yet(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = replace(HOURLY, until=str(stage.place / "done"))
    stage.again(rules)
    (stage.place / "done").touch()
    lexists = os.path.lexists
    monkeypatch.setattr(os.path, "lexists", lambda path: not str(path).endswith("/done") and lexists(path))
    assert stage.again(rules).code == ENDED


def test_the_last_of_three_runs_and_queues_nothing(stage: Stage) -> None:
    rules = replace(HOURLY, max_runs=3)
    stage.again(rules)
    stage.starts("101", "15:00")
    stage.again(rules, "101")
    stage.starts("102", "16:00")
    answer = stage.again(rules, "102")
    assert answer == Answer(0, ("this is the last piece of watch: run 3 of --max-runs 3",))
    assert stage.waiting() == {}


def test_three_crashes_in_a_row_and_it_rests(stage: Stage) -> None:
    stage.again()
    for job, following, now in (("100", "101", "15:00"), ("101", "102", "16:00"), ("102", "103", "17:00")):
        stage.ends(job, Result.FAILED, 3)
        stage.starts(following, now)
        answer = stage.again(job=following)
    assert answer.code == ENDED
    assert "the last 3 pieces failed within 2m each" in answer.lines[-1]
    assert stage.waiting() == {}


def test_a_cancelled_piece_between_is_no_crash(stage: Stage) -> None:
    stage.again()
    results = [Result.FAILED, Result.FAILED, Result.CANCELLED, Result.FAILED]
    for n, result in enumerate(results):
        stage.ends(str(100 + n), result, 3)
        stage.starts(str(101 + n), f"{15 + n}:00")
        assert stage.again(job=str(101 + n)).code == 0


@pytest.mark.parametrize("name", ["watch", "ALL"])
def test_a_kill_switch_ends_it(name: str, stage: Stage) -> None:
    stage.again()
    (stage.site.paths.kill / name).write_text("loss spikes\n")
    answer = stage.again()
    assert answer.code == ENDED
    assert "loss spikes" in answer.lines[-1]
    assert stage.waiting() == {}


@pytest.mark.parametrize("own", ["", "x" * 1024], ids=["no comment", "a comment that leaves the tag no room"])
def test_a_pause_switch_holds_the_piece_in_its_place(stage: Stage, own: str) -> None:
    (stage.place / "watch.slurm").write_text(text_of(f"#SBATCH --comment={own}" if own else ""))
    (stage.site.paths.pause / "watch").touch()
    answer = stage.again()
    assert answer.code == 0
    assert stage.waiting() == {"101": "held"}
    assert stage.batch.jobs["101"].comment.startswith("cronhpc-paused/")
    assert len(stage.batch.jobs["101"].comment) <= 1024  # Slurm takes no more


def test_a_disk_that_is_nearly_full_is_told_by_the_next_tick(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece noted it as told, and sends no alerts: for a day nobody was told."""
    state, now = stage.site.paths.state, stage.now
    assert damage.told_of_disk(state, now, full=False, again=86400) is None
    monkeypatch.setattr(logs, "scarce", lambda *_: "0.9 % of its inodes left")
    stage.again()
    assert damage.told_of_disk(state, now, full=True, again=86400) == "new"


# --- what cannot be a series ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("details", "said"),
    [
        pytest.param({"Command": ""}, "submitted from --wrap or stdin", id="no script"),
        pytest.param({"Command": "(null)"}, "submitted from --wrap or stdin", id="nor for another Slurm"),
        pytest.param({"Command": "/nowhere/x.slurm"}, "/nowhere/x.slurm is not there any more", id="a deleted one"),
        pytest.param({"ArrayJobId": "100"}, "write #SBATCH --array=1-10%1", id="an array"),
        pytest.param({"HetJobId": "100"}, "several components", id="a heterogeneous job"),
        pytest.param({"BatchFlag": "0", "Command": "cronhpc"}, "this is no batch job", id="srun from a login node"),
    ],
)
def test_a_job_that_cannot_queue_itself_is_told_why(details: dict[str, str], said: str, stage: Stage) -> None:
    stage.batch.details["100"] |= details
    with pytest.raises(NoSeries, match=said):
        stage.again()
    assert stage.waiting() == {}


def test_arguments_behind_the_path_are_no_part_of_it(stage: Stage) -> None:
    """Slurm prints both, unquoted, and a relative path as it was typed."""
    stage.batch.details["100"]["Command"] = "./watch.slurm one two"
    stage.again()
    assert stage.batch.given["101"].arguments[0] == str(stage.place / "watch.slurm")


def test_of_a_run_with_ping_or_record_the_script_is_what_the_wrapper_runs(stage: Stage) -> None:
    wrapper = run_path(stage.site.paths.state)
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(run_text(SLURM.job))
    mark = stage.site.paths.state / "ends" / "watch@20261127T1300Z.1.ping"
    stage.batch.details["100"]["Command"] = f"{wrapper} {stage.place}/watch.slurm  {mark} one"
    stage.again()
    assert stage.batch.given["101"].arguments[0] == str(stage.place / "watch.slurm")


def test_another_script_of_the_same_name_is_no_piece_of_it(stage: Stage) -> None:
    stage.again()
    (stage.place / "other.slurm").write_text(text_of())
    stage.batch.jobs["200"] = Job("200", "RUNNING", "watch")
    stage.batch.details["200"] = {**stage.batch.details["100"], "Command": str(stage.place / "other.slurm")}
    with pytest.raises(NoSeries, match="another series called 'watch' is going on"):
        stage.again(job="200")
    assert stage.again(job="200", name="other").code == 0
    assert len(stage.waiting()) == 2


def test_edits_of_its_options_count_from_the_next_piece_on(stage: Stage) -> None:
    stage.again()
    (stage.place / "watch.slurm").write_text(text_of("#SBATCH --time=3", "#SBATCH --output=log/%j.txt"))
    stage.starts("101", "15:00")
    stage.again(job="101")
    assert {"--time=3", "--output=log/%j.txt"} <= set(stage.batch.given["102"].options)


def test_after_depends_on_the_piece_that_runs(stage: Stage) -> None:
    stage.again(AFTER)
    assert "--dependency=afterany:100" in stage.batch.given["101"].options
    stage.starts("101", "14:21")
    stage.again(AFTER, "101")
    assert "--dependency=afterany:101" in stage.batch.given["102"].options


def test_what_the_first_command_line_asked_for_is_kept_in_later_pieces(stage: Stage) -> None:
    """GPUs lost with the first piece would make a training crash, or crawl."""
    stage.batch.details["100"] |= {"TresPerNode": "gres:gpu:2", "StdOut": f"{stage.place}/run-100.txt"}
    stage.again(AFTER)
    asked = {"--gres=gpu:2", f"--output={stage.place}/run-%j.txt", "--open-mode=append"}
    assert asked <= set(stage.batch.given["101"].options)
    stage.starts("101", "14:21")
    stage.again(AFTER, "101", options=("--output=mine.txt",))
    assert stage.batch.given["102"].options.count("--gres=gpu:2") == 1
    assert [o for o in stage.batch.given["102"].options if o.startswith("--output")] == ["--output=mine.txt"]


def test_what_the_script_says_itself_is_not_said_to_be_lost(stage: Stage) -> None:
    (stage.place / "watch.slurm").write_text(text_of("#SBATCH --open-mode=append --signal=B:USR1@60 --export=ALL"))
    assert stage.again().lines[0] == "kept of the command line: --partition=cpu"


# --- its command line ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--after --array=1-3", "--array is not for a next piece: an array cannot queue itself"),
        ("--after -J other", "--job-name is not for a next piece"),
        ("--every 1h --begin=now+1hour", "--begin is not for a next piece"),
        ("--after --bogus=3", "sbatch has no option --bogus"),
        ("--after --until=", "--until names no file (an unset variable?)"),
        ("--every 1h --timezone Mars/X", "'Mars/X' is no timezone"),
        ("--every 0", "--every 0 is no time at all"),
        ("--max-runs 3", "say when: --every 1h, --cron '0 3 * * *', or --after"),
        ("--after --max-runs 0", "'0' is no number"),
    ],
)
def test_a_mistake_is_named_in_the_jobs_log_with_whose_it_is(words: str, said: str, tmp_path: Path) -> None:
    environ = {"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "c", "XDG_STATE_HOME": str(tmp_path), "HOME": "/"}
    out, err = io.StringIO(), io.StringIO()
    assert main(["again", *words.split()], Console(NOW, environ, out, err, is_terminal=False)) == 2
    assert err.getvalue().startswith("cronhpc again: ")
    assert said in err.getvalue()


def test_where_its_records_cannot_be_kept_it_says_what_to_set() -> None:
    environ = {"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "c", "XDG_STATE_HOME": "/proc/none", "HOME": "/"}
    err = io.StringIO()
    assert main(["again", "--after"], Console(NOW, environ, io.StringIO(), err, is_terminal=False)) == 2
    assert "Set XDG_STATE_HOME to a folder of yours that all nodes see" in err.getvalue()
    assert err.getvalue().endswith("this call queues no next piece; the script goes on\n")


def test_a_job_of_another_batch_system_than_the_directorys_is_told_so(tmp_path: Path) -> None:
    """A home of two clusters: it asked the directory's system for the job, and said that there is no such job."""
    (tmp_path / "cron").mkdir()
    (tmp_path / "cron" / "cronhpc.yaml").write_text("backend: local\n")
    environ = {"JOB_ID": "7", "SGE_JOB_SPOOL_DIR": "/spool", "HOME": str(tmp_path)}
    err = io.StringIO()
    assert main(["again", "--after"], Console(NOW, environ, io.StringIO(), err, is_terminal=False)) == 2
    assert f"this is a job of Grid Engine, and {tmp_path}/cron is for backend: local. Name a dir" in err.getvalue()


# --- without a cron directory --------------------------------------------------------------------------------------


@dataclass
class Home:
    """A user's, with one series that is kept in the folder of its own."""

    environ: dict[str, str]
    series: series_records.Record

    def run(self, words: str) -> tuple[int, str]:
        """A command's exit code, and all that it prints."""
        out = io.StringIO()
        code = main(words.split(), Console(NOW, self.environ, out, out, is_terminal=False))
        return code, out.getvalue()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": f"{tmp_path}/state", "PATH": "/nowhere"}
    site = open_series_site(None, "local", environ)
    (tmp_path / "tr.log").write_text("epoch 1\n")
    logs = (("6", f"{tmp_path}/gone.log"), ("7", f"{tmp_path}/tr.log"))
    script, folder = f"{tmp_path}/tr.slurm", str(tmp_path)
    known = series_records.Record("tr", script, folder, AFTER, seen="7", job_name="tr", at=NOW, runs=3, logs=logs)
    series_records.save(site.paths.state, known)
    return Home(environ, known)


def test_without_a_cron_directory_status_shows_the_trains_and_no_chain(home: Home) -> None:
    code, said = home.run("status")
    assert code == 1
    assert said.startswith("~/state/cronhpc (local)")
    assert "tr  has ended: no piece of it is in the queue  sbatch" in said
    assert "chain" not in said


@pytest.mark.parametrize("words", ["kill tr", "pause tr"])
def test_without_a_scheduler_a_switch_acts_at_once(words: str, home: Home) -> None:
    code, said = home.run(words)
    assert code == 0
    assert "no job that it reaches is in the queue" in said


def test_a_trains_log_is_where_slurm_said(home: Home) -> None:
    assert home.run("logs tr") == (0, "epoch 1\n")
    Path(home.series.logs[1][1]).unlink()
    code, said = home.run("logs tr")
    assert code == 2
    assert "tr has no log that can be read here. It prints to:" in said


@pytest.mark.parametrize("words", ["start", "run tr", "stop"])
def test_what_needs_a_cron_directory_asks_for_one(words: str, home: Home) -> None:
    code, said = home.run(words)
    assert code == 2
    assert "Make it with: cronhpc init" in said


def test_beside_a_cron_directory_the_trains_of_before_are_pointed_to(home: Home) -> None:
    init(Path(home.environ["HOME"], "cron"), {"backend": "local"})
    said = home.run("status")[1]
    assert f"without this directory: cronhpc status --dir {home.environ['HOME']}/state/cronhpc" in said
    assert home.run(f"status --dir {home.environ['HOME']}/state/cronhpc")[1].startswith("~/state/cronhpc (local)")


def test_in_a_cron_directory_a_series_whose_switch_is_lifted_is_not_said_to_run_as_usual(home: Home) -> None:
    """No piece of it waits: somebody has to submit it."""
    cron = Path(home.environ["HOME"], "cron")
    init(cron, {"backend": "local"})
    shutil.copytree(Path(home.environ["HOME"], "state/cronhpc/state/trains"), cron / "state" / "trains")
    home.run("kill tr")
    assert "a series that it ended begins anew with" in home.run("unkill tr")[1]


def test_a_pieces_log_is_kept_by_its_job(stage: Stage) -> None:
    stage.batch.details["100"]["StdOut"] = f"{stage.place}/%j.log"
    stage.again()
    assert stage.record.logs == (("100", f"{stage.place}/100.log"),)


# --- a disk on which something goes wrong for a moment -------------------------------------------------------------


@pytest.mark.parametrize("how", ["refused", "lost"])
def test_any_one_passing_error_of_the_disk_ends_no_series(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    disk, folder, first = Disk(monkeypatch, stage.place), stage.place / "fresh", deepcopy(stage.batch)
    shutil.copytree(stage.place / "cron", folder)
    disk.fail(how, ())
    stage.again()
    calls, ended = disk.count, []
    for number in range(1 + len(how) % 4, calls + 1, 4):
        shutil.rmtree(stage.place / "cron")
        shutil.copytree(folder, stage.place / "cron")
        batch = deepcopy(first)
        one = Stage(replace(stage.site, batch=batch), batch, stage.place)  # type: ignore[arg-type]  # as far as it is asked
        disk.fail(how, [number])
        try:
            one.again()
        except (CronhpcError, OSError) as error:
            ended.append(f"{number} {disk.log[number - 1]}: {error}")
        disk.heal()
        if list(one.waiting().values()) != ["15:00"]:
            ended.append(f"{number} {disk.log[number - 1]}: {one.waiting()}")
    assert calls > 60
    assert ended == []


def test_a_switch_folder_that_cannot_be_read_is_asked_again_before_the_series_ends(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = stage.site.paths.kill
    hidden = kill.with_name("away")
    real = Batch.submit

    def submit(self: Batch, job: Submission) -> str:
        kill.rename(hidden)
        kill.touch()
        return real(self, job)

    monkeypatch.setattr(Batch, "submit", submit)
    with pytest.raises(NoSeries, match="stays unreleased") as caught:
        stage.again()
    assert caught.value.passing
    assert stage.waiting() == {"101": "held"}
    assert "stays unreleased" in stage.record.trouble
    with pytest.raises(NoSeries, match="stays unreleased"):
        stage.again()
    kill.unlink()
    hidden.rename(kill)
    assert stage.again().job_id == "101"
    assert stage.waiting() == {"101": "15:00"}
    assert stage.record.trouble == ""


def test_a_lease_that_the_disk_refuses_is_gone_without(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("cronhpc.again.submit.lease.take", refuse)
    assert stage.again().job_id == "101"


def test_a_job_that_is_no_piece_leaves_no_trouble_in_the_record(stage: Stage) -> None:
    stage.batch.details["100"]["ArrayJobId"] = "100"
    with pytest.raises(NoSeries):
        stage.again()
    assert list(series_records.every(stage.site.paths.state)) == []


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE])
def test_again_tries_a_disk_that_fails_for_a_while_once_more_before_it_gives_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    from cronhpc.cli import in_jobs as command

    slept: list[float] = []
    failures = [OSError(code, "the disk", "/w/x")] * 2

    def call(*_: object) -> Answer:
        if failures:
            raise failures.pop()
        return Answer(0, ("next piece",), "101")

    monkeypatch.setattr("cronhpc.again.submit.again", call)
    monkeypatch.setattr("cronhpc.again.submit.open_series_site", lambda *_: stage.site)
    monkeypatch.setattr(Console, "wait", lambda _, seconds: slept.append(seconds))
    out, err = io.StringIO(), io.StringIO()
    environ = {"SLURM_JOB_ID": "100", "HOME": str(stage.place), "PATH": ""}
    assert main(["again", "--every", "1h"], Console(NOW, environ, out, err, is_terminal=False)) == 0
    assert slept == list(command._PAUSES[:2])
    assert "/w/x: the disk; tried once more in 5 s" in err.getvalue()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"comment": "epoch 5"}, id="its comment"),
        pytest.param({"comment": "epoch 5", "name": "epoch-5"}, id="comment and name"),
        pytest.param({"comment": ""}, id="a site replaces comments"),
    ],
)
def test_a_piece_whose_script_has_changed(stage: Stage, change: dict[str, str]) -> None:
    """It is known by its id, which its claim holds: no second train begins with it."""
    stage.again()
    stage.starts("101", "15:00")
    submitted = at("14:20")
    stage.batch.jobs["101"] = replace(stage.batch.jobs["101"], submitted=submitted, **change)  # type: ignore[arg-type]  # by name
    stage.batch.details["101"]["JobName"] = change.get("name", "watch")
    stage.again(job="101")
    assert (stage.record.runs, stage.record.first, stage.record.seen) == (2, "100", "101")
    assert stage.waiting() == {"102": "16:00"}


def test_the_scripts_own_comment_stands_alone_in_every_piece(stage: Stage) -> None:
    (stage.place / "watch.slurm").write_text(text_of('#SBATCH --comment=\'{"Reaper":{"exempt":"90"}}\''))
    for job, now in (("100", "14:20"), ("101", "15:00")):
        if job != "100":
            stage.starts(job, now)
        stage.again(job=job, name="watch")
    assert [stage.batch.jobs[each].comment for each in ("101", "102")] == ['{"Reaper":{"exempt":"90"}}'] * 2
