"""training-watch: what the queue says, and what is made of it. On a real queue: tests/lab/test_jobs.py."""

from __future__ import annotations

from pathlib import Path

import pytest

import slurm_queue
import training_watch
from slurm_queue import Job
from tests.ready_made_jobs import Ended, environment, filled_in, run, stand_in

LONG = "x" * 41


def job(state: str, reason: str = "None", *, name: str = "train", number: str = "7", **more: str) -> Job:
    row = {"user": "me", "submitted": "1", "comment": "", "command": f"/jobs/{number}.slurm", **more}
    return Job(number=number, id=number, state=state, reason=reason, name=name, **row)


STATES = {
    "one that runs": ([job("RUNNING")], "running"),
    "one that is ending": ([job("COMPLETING")], "running"),
    "one that is being set up": ([job("CONFIGURING")], "running"),
    "one that an administrator suspended": ([job("SUSPENDED")], "running"),
    "one that waits for its turn": ([job("PENDING", "Priority")], "pending"),
    "one that waits for its time": ([job("PENDING", "BeginTime")], "pending"),
    "one that waits for another": ([job("PENDING", "Dependency")], "pending"),
    "one whose partition is down for now": ([job("PENDING", "PartitionDown")], "pending"),
    "one held by its user": ([job("PENDING", "JobHeldUser")], "held"),
    "one held by an administrator": ([job("PENDING", "JobHeldAdmin")], "held"),
    "one that failed to launch": ([job("PENDING", "launch failed requeued held")], "held"),
    "one whose environment could not be had": ([job("PENDING", "user env retrieval failed requeued held")], "held"),
    "one that was put back by hand": ([job("PENDING", "job requeued in held state")], "held"),
    "one that was requeued too often": ([job("PENDING", "JobHoldMaxRequeue")], "held"),
    "one that was requeued and held": ([job("REQUEUE_HOLD")], "held"),
    "one that waits for what can never come": (
        [job("PENDING", "DependencyNeverSatisfied")],
        "dependency never satisfied",
    ),
    "one that asks for too long": ([job("PENDING", "PartitionTimeLimit")], "can never start"),
    "none": ([], "gone"),
    "one that has just ended": ([job("FAILED"), job("COMPLETED")], "gone"),
    "two of the name, one of them held": ([job("PENDING", "JobHeldUser"), job("RUNNING", number="8")], "running"),
    "two of the name, both held": ([job("PENDING", "JobHeldUser"), job("PENDING", "JobHeldUser", number="8")], "held"),
    "another of a longer name": ([job("RUNNING", name="train-2")], "gone"),
}


@pytest.mark.parametrize(("rows", "state"), STATES.values(), ids=STATES)
def test_the_jobs_of_a_training_say_how_it_stands(rows: list[Job], state: str) -> None:
    assert training_watch.judge("train", rows).state == state


def test_whole_names_are_compared_however_long() -> None:
    rows = [job("RUNNING", name=LONG + "a")]
    assert training_watch.judge(LONG + "a", rows).alive
    assert not training_watch.judge(LONG + "b", rows).alive
    assert training_watch.judge("x*a", rows).alive


def test_the_queue_is_read_whatever_a_name_holds() -> None:
    first = "\x1e7\x1f7_[1-3]\x1fPENDING\x1fJobHeldUser\x1fme\x1f1\x1f\x1f/x\x1fa | b\nc\n"
    second = "\x1e8\x1f8\x1fRUNNING\x1fNone\x1fme\x1f1\x1f\x1f/x\x1f\n"
    rows = slurm_queue.parse(first + second)
    assert [(row.id, row.name, row.stands) for row in rows] == [
        ("7_[1-3]", "a | b\nc", "held"),
        ("8", "", "running"),
    ]


OWN = {
    "the job itself": (job("RUNNING"), {"SLURM_JOB_ID": "7"}, []),
    "a task of the array that it is": (job("RUNNING"), {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7"}, []),
    "outside of a job nothing is left out": (job("RUNNING"), {}, ["7"]),
}


@pytest.mark.parametrize(("row", "environ", "left"), OWN.values(), ids=OWN)
def test_the_watcher_does_not_see_itself(row: Job, environ: dict[str, str], left: list[str]) -> None:
    assert [each.id for each in slurm_queue.without_own([row], environ)] == left


def test_nor_its_own_next_run_though_it_waits_under_the_same_name() -> None:
    me = job("RUNNING", command="/jobs/watch.slurm", comment="cronhpc=ab12cd/watch@20261127T1300Z.1 mine")
    same_script = job("PENDING", number="8", command="/jobs/watch.slurm")
    same_entry = job("PENDING", number="9", command="/spool/x", comment="cronhpc=ab12cd/watch@20261127T1400Z.1")
    other = job("RUNNING", number="10", command="(null)", comment="cronhpc=ab12cd/train@20261127T1300Z.1")
    rows = [me, same_script, same_entry, other]
    assert slurm_queue.without_own(rows, {"SLURM_JOB_ID": "7"}) == [other]


# --- as it is run --------------------------------------------------------------------------------------------------


def watch(place: Path, **settings: str) -> Ended:
    return run(filled_in("training-watch", place, **{"WATCH": "(train)", **settings}), environment(place))


def queue_says(place: Path, *rows: Job, code: int = 0) -> None:
    fields = [(r.number, r.id, r.state, r.reason, r.user, r.submitted, r.comment, r.command, r.name) for r in rows]
    text = "".join("\\x1e" + "\\x1f".join(row) + "\\n" for row in fields)
    stand_in(place, "squeue", f"printf '{text}'; exit {code}")


@pytest.mark.processes
def test_it_alerts_once_and_says_once_that_it_is_fine_again(tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    notify = stand_in(tmp_path, "notify", f"cat >> {sent}") / "notify"
    codes = []
    for rows in ([job("RUNNING")], [], [], [job("PENDING", "Priority")], [job("RUNNING")]):
        queue_says(tmp_path, *rows)
        codes.append(watch(tmp_path, NOTIFY=str(notify)).code)
    assert codes == [0, 1, 1, 0, 0]
    assert sent.read_text(encoding="utf-8").splitlines() == [
        "training-watch",
        "ALERT: train is gone. Fix: submit it again",
        "training-watch",
        "fine again: train is pending: job 7 train (pending, Priority)",
    ]


@pytest.mark.processes
def test_a_queue_that_does_not_answer_is_unknown_and_neither_gone_nor_fine(tmp_path: Path) -> None:
    queue_says(tmp_path)
    assert watch(tmp_path).code == 1
    stand_in(tmp_path, "squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")
    ended = watch(tmp_path)
    assert ended.code == 2
    assert "the queue is unknown" in ended.last
    queue_says(tmp_path)
    assert "still: " in watch(tmp_path).out


def resubmitting(place: Path) -> dict[str, str]:
    stand_in(place, "sbatch", f'echo "$@" >> {place}/submitted; echo 99')
    return {"RESUBMIT": "/jobs/train.slurm", "MOST": "2"}


def submissions(place: Path) -> int:
    path = place / "submitted"
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


@pytest.mark.processes
def test_what_is_gone_is_resubmitted_if_asked_and_not_without_end(tmp_path: Path) -> None:
    settings = resubmitting(tmp_path)
    queue_says(tmp_path)
    assert "resubmitted as job 99" in watch(tmp_path, **settings).out
    watch(tmp_path, **settings)
    watch(tmp_path, **settings)
    assert submissions(tmp_path) == 2
    queue_says(tmp_path, job("RUNNING"))
    watch(tmp_path, **settings)
    queue_says(tmp_path)
    watch(tmp_path, **settings)
    assert submissions(tmp_path) == 3, "it counts anew once it has been seen alive"


@pytest.mark.processes
@pytest.mark.parametrize("reason", ["JobHeldUser", "DependencyNeverSatisfied", "Priority"])
def test_what_is_still_in_the_queue_is_not_resubmitted(tmp_path: Path, reason: str) -> None:
    queue_says(tmp_path, job("PENDING", reason))
    watch(tmp_path, **resubmitting(tmp_path))
    assert submissions(tmp_path) == 0


@pytest.mark.processes
def test_without_a_place_to_count_nothing_is_resubmitted(tmp_path: Path) -> None:
    (tmp_path / ".local").write_text("in the way", encoding="utf-8")
    queue_says(tmp_path)
    assert "could not be written down" in watch(tmp_path, **resubmitting(tmp_path)).out
    assert submissions(tmp_path) == 0


@pytest.mark.processes
def test_nothing_to_watch_is_said(tmp_path: Path) -> None:
    ended = watch(tmp_path, WATCH="('')")
    assert (ended.code, ended.last) == (2, "broken: WATCH is empty: name the jobs to watch at the top of the script")


@pytest.mark.processes
def test_a_group_that_is_not_there_is_said(tmp_path: Path) -> None:
    queue_says(tmp_path)
    assert "there is no group nobodies" in watch(tmp_path, USERS="@nobodies").last


@pytest.mark.processes
def test_where_a_user_is_nobody_nothing_is_known_and_nothing_is_resubmitted(tmp_path: Path) -> None:
    stand_in(tmp_path, "squeue", "echo 'squeue: error: Invalid user: alcie' >&2")
    ended = watch(tmp_path, USERS="alcie", **resubmitting(tmp_path))
    assert (ended.code, submissions(tmp_path)) == (2, 0)
    assert "Invalid user: alcie" in ended.last


@pytest.mark.processes
def test_of_a_group_all_members_are_asked_for(tmp_path: Path) -> None:
    stand_in(tmp_path, "squeue", f'echo "$@" > {tmp_path}/asked')
    watch(tmp_path, USERS="alice,bob")
    assert "-u alice,bob" in (tmp_path / "asked").read_text(encoding="utf-8")
