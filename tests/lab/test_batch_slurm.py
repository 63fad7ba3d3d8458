"""The Slurm backend against a real Slurm: odd names, held submission, arrays, a controller that does not answer."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cronhpc.batch.port import BatchError, Ends, Refused, Submission, Unreachable
from cronhpc.batch.slurm import Slurm
from cronhpc.core.model import Job, Result
from tests.lab.conftest import Lab, MakeLab

pytestmark = pytest.mark.lab

FAR = 1901000000


@dataclasses.dataclass
class Bench:
    """The backend on a lab, a folder, and scripts in it."""

    lab: Lab
    folder: Path
    slurm: Slurm
    since: int

    def script(self, text: str = "sleep 60", name: str = "job.slurm") -> str:
        path = self.folder / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        return str(path)

    def submit(self, text: str = "sleep 60", **settings: Any) -> str:
        defaults: dict[str, Any] = {"output": str(self.folder / "%j.out"), "chdir": str(self.folder)}
        return self.slurm.submit(Submission(self.script(text), **{**defaults, **settings}))

    def jobs(self, job_id: str) -> list[Job]:
        return [job for job in self.slurm.queue().jobs if job.id == job_id]

    def job(self, job_id: str) -> Job:
        (job,) = self.jobs(job_id)
        return job

    def until(self, job_id: str, *states: str) -> Job:
        def reached() -> Job | None:
            job = self.job(job_id)
            return job if job.state in states else None

        found: Job = self.lab.wait_for(reached)
        return found


@pytest.fixture
def bench(lab: Lab, cluster_user_dir: Callable[..., Path]) -> Iterator[Bench]:
    made = Bench(lab, cluster_user_dir(), Slurm(lab.env), int(time.time()))
    yield made
    made.slurm.cancel([job.id for job in made.slurm.queue().jobs if job.live])


@pytest.mark.parametrize(
    ("name", "comment"),
    [
        pytest.param("a|b", "pi|pe", id="pipes"),
        pytest.param("new\nline", "first\nsecond", id="newlines"),
        pytest.param("ctl\x01\x1e\x1f", "\x02", id="control characters"),
        pytest.param("é" * 150, "ü" * 500, id="long and not ASCII"),
        pytest.param('it\'s %j "q" \\ $HOME', "`x` %k", id="quotes and dollars"),
        pytest.param("-n", "--hold", id="dashes"),
        pytest.param(" blanks ", "two  blanks", id="blanks"),
        pytest.param("plain", "", id="no comment"),
    ],
)
def test_names_and_comments_come_back_as_they_went(bench: Bench, name: str, comment: str) -> None:
    job = bench.job(bench.submit(job_name=name, comment=comment))
    assert (job.name, job.comment) == (name, comment)
    assert job.held_by_user


@pytest.mark.parametrize("name", ["-n.slurm", "two words.slurm", "new\nline.slurm", "q\"u'o%j.slurm", "é.slurm"])
def test_scripts_of_odd_names_are_submitted_with_their_arguments(bench: Bench, name: str) -> None:
    script = bench.script('printf "%s\\n" "$@"', name)
    job_id = bench.slurm.submit(
        Submission(script, ("-x", "a b"), output=f"{bench.folder}/%j.out", chdir=str(bench.folder), held=False)
    )
    bench.until(job_id, "COMPLETED")
    assert (bench.folder / f"{job_id}.out").read_text() == "-x\na b\n"


def test_held_with_a_begin_time_then_moved_then_released(bench: Bench) -> None:
    job_id = bench.submit(begin=FAR, comment="old")
    job = bench.job(job_id)
    assert (job.state, job.reason, job.start) == ("PENDING", "JobHeldUser", FAR)
    bench.slurm.move(job_id, FAR + 500, "new | comment")
    bench.slurm.release([job_id])
    job = bench.job(job_id)
    assert (job.held, job.start, job.comment) == (False, FAR + 500, "new | comment")


def test_many_are_submitted_at_once_and_released_in_one_call_beside_ids_that_are_unknown(bench: Bench) -> None:
    job = Submission(bench.script("true"), output="/dev/null", chdir="/")
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(bench.slurm.submit, [job] * 20))
    bench.slurm.release(["999999", *ids])
    bench.lab.wait_for(lambda: all(bench.job(job_id).state == "COMPLETED" for job_id in ids))


def test_a_part_of_an_array_is_held_marked_and_freed(bench: Bench) -> None:
    job_id = bench.submit(options=("--array=0-9",), begin=FAR, comment="own", held=False)
    assert [job.tasks for job in bench.jobs(job_id)] == ["[0-9]"]
    bench.slurm.hold([f"{job_id}_[3-5]"], "mark own")
    parts = {job.tasks: (job.comment, job.held) for job in bench.jobs(job_id)}
    rest = {"[0-2,6-9]": ("own", False)}
    own_numbers = dict.fromkeys(("3", "4", "5"), ("mark own", True))  # Slurm parts them, and each is a job by now
    assert parts in (rest | own_numbers, rest | {"[3-5]": ("mark own", True)})
    bench.slurm.unhold([f"{job_id}_[3-5]"], "own")
    assert {(job.comment, job.held) for job in bench.jobs(job_id)} == {("own", False)}


def test_an_array_of_which_a_part_has_ended_is_held_freed_and_cancelled_as_a_whole(bench: Bench) -> None:
    job_id = bench.submit(options=("--array=0-9",), begin=FAR, comment="own", held=False)
    bench.slurm.cancel([f"{job_id}_[0-2,6]"])
    assert {job.tasks for job in bench.jobs(job_id) if job.live} == {"[3-5,7-9]"}
    bench.slurm.hold([job_id], "mark own")
    assert [(job.comment, job.held) for job in bench.jobs(job_id) if job.live] == [("mark own", True)]
    bench.slurm.unhold([job_id], "own")
    assert {(job.comment, job.held) for job in bench.jobs(job_id) if job.live} == {("own", False)}
    bench.slurm.cancel([job_id])
    assert {job.state for job in bench.jobs(job_id)} == {"CANCELLED"}


def test_long_task_lists_are_not_cut(bench: Bench) -> None:
    tasks = ",".join(str(n) for n in (*range(0, 200, 2), *range(300, 400, 3)))
    (job,) = bench.jobs(bench.submit(options=(f"--array={tasks}",)))
    assert job.tasks == f"[{tasks}]"


def test_pending_tasks_are_cancelled_before_running_ones_are_signalled(bench: Bench) -> None:
    text = "trap 'echo got it' USR1; touch $SLURM_ARRAY_TASK_ID.ready; for i in {1..300}; do sleep 0.1; done"
    job_id = bench.submit(text, options=("--array=0-3%1",), held=False)
    bench.lab.wait_for((bench.folder / "0.ready").exists)
    bench.slurm.cancel([job_id], pending_only=True)
    assert {job.state for job in bench.jobs(job_id) if job.live} == {"RUNNING"}
    begun = time.monotonic()
    bench.slurm.signal([job_id], "USR1")
    assert time.monotonic() - begun < 5  # and not the 95 s of a signal to tasks that are pending
    bench.lab.wait_for(lambda: any("got it" in path.read_text() for path in bench.folder.glob("*.out")))


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        (("_2",), {"0", "1", "3"}),
        (("_2", "_3"), {"0", "1"}),
        (("_[0,2-3]",), {"1"}),
        (("_0", "_1", "_2", "_3"), set()),
        (("",), set()),
    ],
)
@pytest.mark.parametrize("later", ["--begin=now+1hour", "--hold"])
def test_of_an_array_that_slurm_has_not_split_yet_just_the_tasks_asked_for_end(
    bench: Bench, asked: tuple[str, ...], left: set[str], later: str
) -> None:
    """`scancel --state=PENDING 57_2` alone ends all tasks of the record, and with two ids none of them."""
    job_id = bench.submit("sleep 60", options=("--array=0-3", later), held=False)
    bench.slurm.cancel([job_id + tasks for tasks in asked], pending_only=True)
    shown = bench.lab.run(["squeue", "-h", "-r", "-j", job_id, "-o", "%K %t"], check=False).stdout.split("\n")
    assert {row.split()[0] for row in shown if row and row.split()[1] in {"PD", "R", "CF"}} == left
    bench.slurm.cancel([job_id])


@pytest.mark.parametrize(
    ("text", "result", "code_and_signal"),
    [
        pytest.param("true", Result.OK, (0, None), id="well"),
        pytest.param("exit 3", Result.FAILED, (3, None), id="exit 3"),
        pytest.param("kill -9 $$", Result.FAILED, (None, 9), id="signal 9"),
    ],
)
def test_ends_without_accounting(
    bench: Bench, text: str, result: Result, code_and_signal: tuple[int | None, int | None]
) -> None:
    job_id = bench.submit(text, comment="tok", held=False)
    bench.until(job_id, "COMPLETED", "FAILED")
    job_end = bench.slurm.job_ends([job_id, "999999"], bench.since, {job_id: "tok"}).by_id[job_id]
    assert (job_end.result, (job_end.exit_code, job_end.signal)) == (result, code_and_signal)
    assert job_end.node.startswith("cpu")
    assert bench.slurm.job_ends([job_id], bench.since, {job_id: "another"}) == Ends()
    assert bench.slurm.job_ends([job_id], bench.since).cancelled_by == {}
    assert bench.slurm.accounting is False, "asked once, and remembered"


@pytest.mark.parametrize("own", ["", "#SBATCH --export=NONE", "#SBATCH --export=FOO=1"])
def test_variables_reach_the_run_whatever_the_script_exports(bench: Bench, own: str) -> None:
    job_id = bench.submit(
        f'{own}\necho "<$CRONHPC_SLOT>"',
        export={"CRONHPC_SLOT": "a,b\nc"},
        own_export=own.partition("export=")[2] or None,
        held=False,
    )
    bench.until(job_id, "COMPLETED")
    assert (bench.folder / f"{job_id}.out").read_text() == "<a,b\nc>\n"


@pytest.mark.parametrize("held", [True, False])
def test_a_script_that_waits_for_its_end_does_not_keep_us(bench: Bench, *, held: bool) -> None:
    begun = time.monotonic()
    job_id = bench.submit("#SBATCH --wait\nsleep 30", held=held)
    assert time.monotonic() - begun < 5
    assert bench.job(job_id).live


def test_an_append_mode_link_that_is_not_requeued(bench: Bench) -> None:
    (bench.folder / "log").write_text("before\n")
    options = ("--open-mode=append",)
    job_id = bench.submit("echo after", output=f"{bench.folder}/log", options=options, no_requeue=True, held=False)
    bench.until(job_id, "COMPLETED")
    assert (bench.folder / "log").read_text() == "before\nafter\n"


@pytest.mark.parametrize(
    "options",
    [
        ("--partition=nope",),
        ("--no-such-option=1",),
        ("--time=soon",),
        ("--mem=1", "--mem-per-cpu=1"),
        ("--nodelist=nope",),
    ],
)
def test_what_is_refused_for_good(bench: Bench, options: tuple[str, ...]) -> None:
    with pytest.raises(Refused):
        bench.submit(options=options)


def test_jobs_that_are_gone_are_fine_to_change_but_not_to_move(bench: Bench) -> None:
    job_id = bench.submit("true", held=False)
    bench.until(job_id, "COMPLETED")
    for gone in (job_id, "999999"):
        bench.slurm.release([gone])
        bench.slurm.cancel([gone])
        bench.slurm.cancel([gone], pending_only=True)
        bench.slurm.hold([gone], "c")
        bench.slurm.unhold([gone], "c")
        bench.slurm.signal([gone], "USR1")
        with pytest.raises(BatchError) as caught:
            bench.slurm.move(gone, FAR)
        assert not isinstance(caught.value, Unreachable)


def test_variables_that_hide_jobs_or_make_scancel_a_no_op_do_nothing(bench: Bench) -> None:
    hostile = {"SQUEUE_STATES": "RUNNING", "SQUEUE_NAMES": "x", "SQUEUE_PARTITION": "gpu", "SCANCEL_STATE": "RUNNING"}
    hostile |= {"SBATCH_PARTITION": "nope", "SLURM_TIME_FORMAT": "relative", "SCANCEL_NAME": "x"}
    bench.slurm = Slurm({**bench.lab.env, **hostile})
    job_id = bench.submit()
    assert bench.job(job_id).state == "PENDING"
    bench.slurm.cancel([job_id])
    assert bench.job(job_id).state == "CANCELLED"


def test_what_the_cluster_offers(bench: Bench) -> None:
    site = bench.slurm.site()
    assert (site.cluster, site.accounting, site.account) == ("lab", False, "")
    assert {one.name: one.gpus for one in site.partitions} == {"cpu": False, "gpu": True}
    assert site.cpu_partition == next(each for each in site.partitions if each.default)
    assert site.version


def test_no_job_is_taken_for_a_scrontabs(bench: Bench) -> None:
    job_id = bench.submit(job_name="x CronJob=Yes", comment="a\nCronJob=Yes")
    assert bench.slurm.of_scrontab([job_id, "999999"]) == frozenset()


def test_a_frozen_controller_is_unreachable_in_time_and_what_was_asked_may_happen(
    make_lab: MakeLab, tmp_path: Path
) -> None:
    lab = make_lab(nodes=1)
    tmp_path.chmod(0o755)
    bench = Bench(lab, tmp_path, Slurm(lab.env, timeout=2, query_timeout=2), 0)
    job_id = bench.submit()
    lab.freeze()
    calls: list[Callable[[], object]] = [
        bench.slurm.queue,
        lambda: bench.submit(comment="late"),
        lambda: bench.slurm.release([job_id]),
        lambda: bench.slurm.cancel([job_id]),
        lambda: bench.slurm.move(job_id, FAR),
        lambda: bench.slurm.hold([job_id], "c"),
        lambda: bench.slurm.signal([job_id], "USR1"),
        lambda: bench.slurm.job_ends([job_id], 0),
        lambda: bench.slurm.of_scrontab([job_id]),
        bench.slurm.site,
    ]
    try:
        for call in calls:
            begun = time.monotonic()
            with pytest.raises(Unreachable, match="no answer in time"):
                call()
            assert time.monotonic() - begun < 4
    finally:
        lab.thaw()
    later = Slurm(lab.env)  # as the next command has it: this one has its answer, and asks no more for a while
    lab.wait_for(lambda: [job for job in later.queue().jobs if job.comment == "late"])


def test_with_accounting(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(nodes=1, accounting=True, min_job_age=5)
    tmp_path.chmod(0o755)
    bench = Bench(lab, tmp_path, Slurm(lab.env), int(time.time()))
    failed, cancelled = bench.submit("exit 3", comment="tok|1", held=False), bench.submit(comment="two\nlines")
    array = bench.submit("exit $SLURM_ARRAY_TASK_ID", options=("--array=0-2",), held=False)
    bench.slurm.cancel([cancelled])
    lab.wait_for(lambda: not bench.slurm.queue().jobs)  # the controller has forgotten them
    ends = bench.slurm.job_ends([failed, cancelled, array], bench.since, {failed: "tok|1", cancelled: "two"})
    found = ends.by_id
    assert {job: (e.result, e.exit_code) for job, e in found.items()} == {
        failed: (Result.FAILED, 3),
        cancelled: (Result.CANCELLED, 0),
        array: (Result.FAILED, 1),
    }
    assert found[array].detail == "array tasks: [1-2] failed"
    assert found[cancelled].started is None
    assert ends.cancelled_by == {cancelled: 0}
    keeps_lines = "SubmitLine" in lab.run(["sacct", "--helpformat"]).stdout  # from 21.08 on
    by_another = bench.slurm.job_ends([failed], bench.since, {failed: "of another job"}).by_id
    assert (by_another == {}) == keeps_lines, "a comment without our mark proves nothing by itself"
    assert bench.slurm.accounting is True
    named = Slurm(lab.env, cluster="lab")
    job_id = named.submit(Submission(bench.script(), comment="x"))
    assert [job.id for job in named.queue().jobs] == [job_id]
    named.release([job_id])
    named.cancel([job_id])
    assert named.site().account


def test_one_file_for_output_and_errors_holds_both(bench: Bench) -> None:
    """As a run gets it whose script names a file for its errors in a folder that is not there."""
    both = str(bench.folder / "%j.log")
    text = "#SBATCH --output=logs/x.out\n#SBATCH --error=logs/x.err\necho one; echo two >&2; echo three"
    number = bench.submit(text, output=both, error=both, held=False)
    path = bench.folder / f"{number}.log"
    bench.lab.wait_for(lambda: path.exists() and "three" in path.read_text(encoding="utf-8"))
    assert path.read_text(encoding="utf-8") == "one\ntwo\nthree\n"
