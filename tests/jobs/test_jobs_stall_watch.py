"""stall-watch: when a log counts as silent. Real stacks of a job that really hangs: tests/lab/test_jobs.py."""

from __future__ import annotations

import os
import subprocess  # noqa: TID251 - a rank is a process
import sys
import time
from pathlib import Path

import pytest

import stall_watch
from slurm_queue import Job
from tests.ready_made_jobs import LIB, Ended, environment, filled_in, run, stand_in

NOW = 1795784840.0

SHOWN = """JobId=7 JobName=train ing
   UserId=alice(1001) GroupId=alice(1001) MCS_label=N/A
   StartTime=1795780000 EndTime=1795790000 Deadline=N/A
   NodeList=cpu[1-2]
   BatchHost=cpu1
   NumNodes=2 NumCPUs=2 NumTasks=2
   WorkDir=/w
   StdErr=/w/with blank/train ing-7.err
   StdIn=/dev/null
   StdOut=/w/train ing-%j.out
"""


def test_a_job_is_read_whatever_its_paths_hold() -> None:
    facts = stall_watch.parse(SHOWN)
    assert facts == stall_watch.Facts(1795780000.0, 2, ("/w/with blank/train ing-7.err", "/w/train ing-%j.out"))


def job(**more: str) -> Job:
    row = {"number": "12", "id": "7_3", "state": "RUNNING", "reason": "None", "user": "me", "submitted": "1"}
    return Job(**{**row, "comment": "", "command": "/x", "name": "train ing", **more})


PATTERNS = {"%x-%j": "train ing-12", "%A_%a": "7_3", "%05j": "00012", "100%%": "100%", "%u/%x": "me/train ing"}


@pytest.mark.parametrize(("pattern", "path"), PATTERNS.items(), ids=PATTERNS)
def test_patterns_in_a_logs_path_are_what_slurm_makes_of_them(pattern: str, path: str) -> None:
    assert stall_watch.expanded(pattern, job()) == path


@pytest.fixture
def logs(tmp_path: Path) -> tuple[str, str]:
    out, err = tmp_path / "out", tmp_path / "err"
    for path, age in ((out, 600), (err, 60)):
        path.touch()
        os.utime(path, (NOW - age, NOW - age))
    return str(out), str(err)


def test_the_newest_of_its_logs_counts(logs: tuple[str, str]) -> None:
    assert stall_watch.quiet_for(logs, NOW - 9000, NOW) == 60
    assert stall_watch.quiet_for(logs[:1], NOW - 9000, NOW) == 600


def test_a_job_that_has_just_begun_again_is_not_silent_since_its_first_start(logs: tuple[str, str]) -> None:
    assert stall_watch.quiet_for(logs, NOW - 5, NOW) == 5


def test_without_a_log_it_is_unknown() -> None:
    assert stall_watch.quiet_for(["/nowhere/at/all"], NOW - 9000, NOW) is None


def test_a_log_from_the_future_is_not_silent(logs: tuple[str, str]) -> None:
    assert stall_watch.quiet_for(logs, NOW - 9000, NOW - 3600) == 0


# --- as it is run --------------------------------------------------------------------------------------------------


class Cluster:
    """Stand-ins for one running job, 7, whose log is `log`."""

    def __init__(self, place: Path) -> None:
        self.place, self.log = place, place / "job.out"
        row = "\\x1e7\\x1f7\\x1fRUNNING\\x1fNone\\x1fme\\x1f1\\x1f\\x1f/x\\x1ftrain\\n"
        stand_in(place, "squeue", f"printf '{row}'")
        shown = f"   StartTime=1000000000\\n   NumNodes=2 NumCPUs=2\\n   StdOut={self.log}\\n"
        stand_in(place, "scontrol", f"printf '{shown}'")
        stand_in(place, "srun", f'echo "$@" >> {place}/srun; echo "== cpu1: rank 0"')
        stand_in(place, "scancel", f'echo "$@" >> {place}/cancelled')

    def silent_for(self, minutes: float) -> None:
        self.log.touch()
        at = time.time() - minutes * 60  # noqa: TID251 - the job looks at this machine's clock
        os.utime(self.log, (at, at))

    def watch(self, **settings: str) -> Ended:
        return run(filled_in("stall-watch", self.place, **{"WATCH": "(train)", **settings}), environment(self.place))

    def dumps(self) -> int:
        path = self.place / "srun"
        return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.mark.processes
def test_a_silent_job_is_told_once_with_its_stacks_and_again_once_when_it_goes_on(cluster: Cluster) -> None:
    cluster.silent_for(5)
    assert cluster.watch().code == 0
    cluster.silent_for(45)
    first = cluster.watch()
    assert first.code == 1
    assert "ALERT: job 7 train (running): its log has not grown for 45m" in first.out
    assert "== cpu1: rank 0" in first.out
    second = cluster.watch()
    assert (second.code, "ALERT" in second.out, cluster.dumps()) == (1, False, 1)
    cluster.silent_for(1)
    assert "fine again: job 7 train (running): its log grew 1m" in cluster.watch().out


@pytest.mark.processes
def test_the_stacks_are_taken_beside_the_job_on_each_of_its_nodes(cluster: Cluster) -> None:
    cluster.silent_for(45)
    cluster.watch()
    words = (cluster.place / "srun").read_text(encoding="utf-8").split()
    assert {"--jobid=7", "--overlap", "--nodes=2", "--ntasks-per-node=1"} <= set(words)


@pytest.mark.processes
def test_it_cancels_nothing_until_told_to(cluster: Cluster) -> None:
    cluster.silent_for(45)
    cluster.watch()
    assert not (cluster.place / "cancelled").exists()
    assert "cancelled (STOP=yes)" in cluster.watch(STOP="yes", NOTIFY="").out + cluster.watch(STOP="yes").out
    assert (cluster.place / "cancelled").read_text(encoding="utf-8").split()[0] == "7"


@pytest.mark.processes
def test_without_stacks_the_alert_is_told_all_the_same(cluster: Cluster) -> None:
    stand_in(cluster.place, "srun", "echo 'srun: error: Job credential expired' >&2; exit 1")
    cluster.silent_for(45)
    ended = cluster.watch()
    assert ended.code == 1
    assert "no stacks: srun: error: Job credential expired" in ended.out


@pytest.mark.processes
def test_a_job_without_a_log_is_unknown(cluster: Cluster) -> None:
    ended = cluster.watch()
    assert ended.code == 2
    assert "unknown: job 7 train (running): there is no log" in ended.out


@pytest.mark.processes
def test_a_job_that_is_gone_is_fine_again_in_those_words(cluster: Cluster) -> None:
    cluster.silent_for(45)
    cluster.watch()
    stand_in(cluster.place, "squeue", "exit 0")
    ended = cluster.watch()
    assert (ended.code, ended.last) == (0, "fine again: job 7 does not run any more")


@pytest.mark.processes
def test_a_queue_that_does_not_answer_is_unknown(cluster: Cluster) -> None:
    stand_in(cluster.place, "squeue", "exit 1")
    assert cluster.watch().code == 2


# --- whose stacks --------------------------------------------------------------------------------------------------

RANKS = {
    "another node of the same machine": ({"SLURMD_NODENAME": "cpu2"}, {"SLURMD_NODENAME": "cpu1"}, ""),
    "this node": ({"SLURMD_NODENAME": "cpu1"}, {"SLURMD_NODENAME": "cpu1"}, "the batch script"),
    "a batch script that says no node": ({}, {"SLURMD_NODENAME": "cpu1"}, "the batch script"),
    "another job": ({"SLURM_JOB_ID": "{job}0"}, {}, ""),
    "the step that asks": ({"SLURM_STEP_ID": "4"}, {"SLURM_JOB_ID": "{job}", "SLURM_STEP_ID": "4"}, ""),
    "another step": ({"SLURM_STEP_ID": "0"}, {"SLURM_JOB_ID": "{job}", "SLURM_STEP_ID": "4"}, "the batch script"),
    "a batch script beside the step that asks": (
        {},
        {"SLURM_JOB_ID": "{job}", "SLURM_STEP_ID": "4"},
        "the batch script",
    ),
    "a rank, as torchrun says": ({"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "RANK": "3"}, {}, "rank 3 of step 0"),
    "a rank, as Slurm says": ({"SLURM_STEP_ID": "0", "SLURM_PROCID": "1"}, {}, "rank 1 of step 0"),
    "a batch script that Slurm gave a number": ({"SLURM_PROCID": "0"}, {}, "the batch script"),
}


@pytest.mark.processes
@pytest.mark.parametrize(("environ", "own", "shown"), RANKS.values(), ids=RANKS)
def test_only_ranks_of_this_node_are_seen_and_called_as_they_call_themselves(
    environ: dict[str, str], own: dict[str, str], shown: str
) -> None:
    job = f"9{os.getpid()}"  # no other test's
    theirs, ours = ({key: value.format(job=job) for key, value in each.items()} for each in (environ, own))
    argv = [sys.executable, "-c", "print(flush=True); import time; time.sleep(99)"]
    with subprocess.Popen(
        argv, env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": job, **theirs}, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "it is there"
            ended = subprocess.run(
                ["bash", str(LIB / "stacks.sh"), job],
                env={"PATH": "/usr/bin:/bin", **ours},
                capture_output=True,
                text=True,
                timeout=90,
                check=True,
            )
        finally:
            process.kill()
    first, *rest = ended.stdout.splitlines()
    node = ours.get("SLURMD_NODENAME", os.uname().nodename)
    if shown:
        assert first.startswith(f"== {node}: {shown}, process {process.pid}: {sys.executable} -c print")
        assert rest[0].startswith("state ")
        assert "pip install py-spy" in rest[0]
    else:
        assert first == f"== {node}: no Python process of job {job} here"
