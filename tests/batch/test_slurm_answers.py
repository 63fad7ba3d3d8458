"""What is made of Slurm's answers where its commands contradict the queue, or accounting is silent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from cronhpc.batch.port import BatchError, NoCluster, Submission, Unreachable
from cronhpc.batch.process import Finished
from cronhpc.batch.slurm import Slurm
from cronhpc.batch.slurm.text import NoAccounting, NoField, NoJob, Unclear
from cronhpc.core.model import Accounting, Job, Queue
from cronhpc.cron.values import replace
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

    monkeypatch.setattr(Slurm, "run", staticmethod(run))
    slurm = Answering(*jobs)
    if fails:
        with pytest.raises(BatchError, match="slurm_suspend error"):
            slurm.unhold(ids, "mine")
    else:
        slurm.unhold(ids, "mine")
    commented = ["scontrol", "update"] in calls
    assert commented != fails, "the comment is restored once they are released, and not before"


def test_a_release_without_an_answer_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Finished(1, "", "Unable to contact slurm controller (connect failure)\n")
    monkeypatch.setattr(Slurm, "run", lambda *_, **__: silent)
    with pytest.raises(Unreachable):
        Answering().release(["7"])


# --- accounting ----------------------------------------------------------------------------------------------------

WHY = "sacct: error: Sending PersistInit msg: Connection refused"
REFUSED = Finished(1, "", f"{WHY}\n")
DISABLED = Finished(1, "", "Slurm accounting storage is disabled\n")
NO_FIELD = Finished(1, "", 'sacct: fatal: Invalid field requested: "SubmitLine"\n')


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (REFUSED, Unreachable),
        (DISABLED, NoAccounting),
        (NO_FIELD, NoField),
        (Finished(1, "", "slurm_load_jobs error: Invalid job id specified\n"), NoJob),
        (Finished(1, "", "sacct: fatal: Could not establish a configuration source\n"), NoCluster),
        (Finished(-9, "", "Slurm accounting storage is disabled\n", timed_out=True), NoAccounting),
    ],
)
def test_the_words_of_a_query_that_failed_tell_the_cause(answer: Finished, cause: type[Unreachable]) -> None:
    with pytest.raises(Unreachable) as caught:
        Asked(answer).answer(["sacct"])
    assert type(caught.value) is cause


class Asked(Slurm):
    """A Slurm whose squeue shows nothing, and whose sacct answers in turn as given; `calls`: the programs asked."""

    def __init__(self, *sacct: str | Finished, config: str = "", found: bool = True, **more: Any) -> None:
        super().__init__({"PATH": "/nowhere"}, **more)
        self.sacct = list(sacct)
        self.config = config
        self.found = found
        self.calls: list[str] = []

    def has(self, program: str) -> bool:
        return self.found and program == "sacct"

    def look(self, argv: Sequence[str], *_: object) -> Finished:
        program, *arguments = argv
        self.calls.append(program)
        if program != "sacct":
            return Finished(0, self.config if program == "scontrol" else "", "")
        answer = self.sacct.pop(0)
        if isinstance(answer, Finished):
            return answer
        mark = next((each for each in arguments if each.startswith("--delimiter=")), "").partition("=")[2]
        return Finished(0, answer.replace("|", mark), "")


SLURMDBD = "AccountingStorageType   = accounting_storage/slurmdbd\n"


def row(state: str, *, line: str = "|sbatch") -> str:
    return f"7|{state}|3:0|1795794000|1795794001|1795794002|cpu1|mark{line}\n"


@pytest.mark.parametrize(
    ("slurm", "said"),
    [
        pytest.param(Asked(row("RUNNING")), Accounting(exists=True, alive=frozenset({"7"})), id="it runs"),
        pytest.param(Asked(row("PENDING")), Accounting(exists=True, alive=frozenset({"7"})), id="it waits"),
        pytest.param(Asked(row("FAILED")), Accounting(exists=True), id="it has ended"),
        pytest.param(Asked(""), Accounting(exists=True), id="it is not known yet"),
        pytest.param(Asked(DISABLED), Accounting(), id="there is none"),
        pytest.param(Asked(REFUSED, accounting=True), Accounting(exists=True, trouble=WHY), id="silent now"),
        pytest.param(
            Asked(REFUSED, config=SLURMDBD),
            Accounting(exists=True, trouble=WHY),
            id="silent from the first time on: the controller's configuration names it",
        ),
        pytest.param(
            Asked(REFUSED, config="AccountingStorageType   = (null)\n"), Accounting(), id="the configuration names none"
        ),
        pytest.param(
            Asked(REFUSED, config=SLURMDBD, found=False), Accounting(), id="this machine has no sacct, and never had"
        ),
        pytest.param(Asked(accounting=False), Accounting(), id="known to be none: not asked"),
    ],
)
def test_what_accounting_says_of_a_job_that_the_queue_does_not_show(slurm: Asked, said: Accounting) -> None:
    ends = slurm.job_ends(["7"], 1795794000)
    assert ends.accounting == said
    assert ("7" in ends.by_id) == (not said.alive and not said.trouble and "FAILED" in str(ends))


def test_that_there_is_no_accounting_is_asked_once() -> None:
    slurm = Asked(DISABLED)
    assert (slurm.used(["a"], 1795794000), slurm.used(["a"], 1795794000)) == (None, None)
    assert (slurm.calls, slurm.accounting) == (["sacct"], False)


def test_a_field_that_sacct_does_not_have_is_asked_for_once() -> None:
    slurm = Asked(NO_FIELD, row("FAILED", line=""), row("FAILED", line=""))
    assert slurm.job_ends(["7"], 1795794000).by_id["7"].exit_code == 3
    assert slurm.calls.count("sacct") == 2
    assert slurm.job_ends(["7"], 1795794000).by_id["7"].exit_code == 3
    assert (slurm.calls.count("sacct"), slurm.submit_line) == (3, False), "and another tick is told: submit_line"


OURS = "JobId=14 JobName=x\n   Comment=cronhpc=id/e@20261127T1300Z.1"
RECORDS = [
    pytest.param({"14": OURS}, "14", id="the list is from before: the printed number is asked about"),
    pytest.param({"14": OURS.replace("1300Z", "1200Z"), "1234": ""}, "", id="a job of another slot"),
    pytest.param({}, "", id="nobody knows it: no answer, or a number of something else"),
]
WITHDRAWN = job(9, "CANCELLED", comment="cronhpc=id/e@20261127T1300Z.1", command="/s.slurm")
LISTED = [
    pytest.param(job(9), id="a list with another job"),
    pytest.param(WITHDRAWN, id="a list with one that was withdrawn before its slot"),
    pytest.param(replace(WITHDRAWN, comment="proj=a"), id="that, and the site has replaced comments"),
]


@pytest.mark.parametrize("listed", LISTED)
@pytest.mark.parametrize(("records", "found"), RECORDS)
def test_a_job_that_a_cached_list_does_not_have_yet_is_known_by_its_number_among_banners(
    listed: Job, records: dict[str, str], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each submission waits for a further tick."""
    printed = Finished(0, "*** Welcome. ***\n14\nYour project has 1234\n", "sbatch: lua: your job was checked\n")
    slurm = Answering(listed)

    def shown(_: Slurm, job_id: str) -> str:
        if job_id == listed.id:
            return "JobId=9 JobName=s.slurm\n   StdOut=/l/9.out"
        if job_id not in records:
            raise Unreachable("Invalid job id specified")
        return records[job_id]

    monkeypatch.setattr(Slurm, "_show_job", shown)
    monkeypatch.setattr(Slurm, "run", lambda *_, **__: printed)
    asked = Submission("/s.slurm", comment="cronhpc=id/e@20261127T1300Z.1", output="/l/%j.out")
    if found:
        assert slurm.submit(asked) == found
    else:
        with pytest.raises(Unclear):
            slurm.submit(asked)
