"""What is made of Slurm's answers where its commands contradict the queue, or accounting is silent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from cronhpc.batch import slurm as slurm_module
from cronhpc.batch.port import BatchError, Unreachable
from cronhpc.batch.process import Finished
from cronhpc.batch.slurm import Slurm
from cronhpc.core.model import Job, Queue
from tests.worlds import job

SUSPEND_ERROR = Finished(1, "", "slurm_suspend error: Unspecified error\n")


class Answering(Slurm):
    """A Slurm of which `jobs` are in the queue, and whose changes end as `changed` says."""

    def __init__(self, *jobs: Job) -> None:
        super().__init__({"PATH": "/nowhere"})
        self.jobs = jobs

    def queue(self) -> Queue:
        return Queue(self.jobs)


def held(number: int, tasks: str = "") -> Job:
    return job(number, "PENDING", reason="JobHeldUser", tasks=tasks)


@pytest.mark.parametrize(
    ("jobs", "ids", "fails"),
    [
        pytest.param((job(8),), ["7", "8"], False, id="one is gone, the other runs"),
        pytest.param((held(8),), ["7", "8"], True, id="one is gone, the other is held all the same"),
        pytest.param((held(9),), ["7", "8"], False, id="another job is held"),
        pytest.param((held(8, "[3-5]"),), ["8_[3-5]"], True, id="tasks of an array are held all the same"),
        pytest.param((), ["7"], False, id="all are gone"),
    ],
)
def test_a_release_is_judged_by_the_queue_where_scontrol_says_that_it_failed(
    jobs: tuple[Job, ...],
    ids: Sequence[str],
    fails: bool,  # noqa: FBT001 - a column of the table
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[list[str]] = []

    def run(argv: Sequence[str], *_: Any, **__: Any) -> Finished:
        calls.append(list(argv[:2]))
        return Finished(0, "", "") if argv[1] == "update" else SUSPEND_ERROR

    monkeypatch.setattr(slurm_module, "_run", run)
    slurm = Answering(*jobs)
    if fails:
        with pytest.raises(BatchError, match="slurm_suspend error"):
            slurm.free(ids, "mine")
    else:
        slurm.free(ids, "mine")
    commented = ["scontrol", "update"] in calls
    assert commented != fails, "the comment is restored once they are released, and not before"


def test_a_release_without_an_answer_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Finished(1, "", "Unable to contact slurm controller (connect failure)\n")
    monkeypatch.setattr(slurm_module, "_run", lambda *_, **__: silent)
    with pytest.raises(Unreachable):
        Answering().release(["7"])
