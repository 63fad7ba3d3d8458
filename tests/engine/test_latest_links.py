"""A list of jobs that sites cache for a minute lacks the link that was just submitted: it is completed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cronhpc.batch.port import BatchError, Ends, Unreachable
from cronhpc.core import chain as core_chain
from cronhpc.core.model import (
    ClaimState,
    Job,
    JobEnd,
    LeaveChain,
    LinkKind,
    LinkRecord,
    Queue,
    Result,
    Started,
    Way,
    link_names,
)
from cronhpc.cron.values import replace
from cronhpc.engine import read
from cronhpc.script.dialect import LSF, SLURM, Dialect
from cronhpc.store import scheduler
from cronhpc.store.claims import Claims
from cronhpc.store.files import Paths
from tests.core.test_attempts import linked
from tests.worlds import at, key, link

WAITS = {"JobState": "PENDING", "UserId": "me(1000)", "Reason": "BeginTime", "JobName": "cronhpc-x"}
RUNS = {**WAITS, "JobState": "RUNNING", "Reason": "None"}
ENDED = {**WAITS, "JobState": "COMPLETED"}
ANOTHERS = {**WAITS, "UserId": "bob(1001)"}
STATELESS = {"JobName": "cronhpc-x"}  # Grid Engine's and PBS's words of one job do not tell its state
AWAY: Mapping[str, str] = {}  # the question got no answer
NEXT, SPARE = LinkRecord(LinkKind.SUCCESSOR, at("16:00"), "f00d", 0), LinkRecord(LinkKind.SPARE, at("16:30"), "f00d", 0)
NEXT_JOB = link(11, "16:00")
BEGUN = LinkRecord(LinkKind.SUCCESSOR, at("14:00"), "f00d", 0)

LISTS = [
    pytest.param({"11": (5, WAITS)}, ["11"], [], "", id="its own successor, of five seconds ago: a tick goes on"),
    pytest.param({"11": (5, WAITS), "12": (4, WAITS)}, ["11"], ["12"], "", id="the spare, too"),
    pytest.param({"9": (60, RUNS), "11": (5, WAITS)}, ["11"], [], "9", id="the first link runs, its successor waits"),
    pytest.param({"9": (60, STATELESS), "11": (5, STATELESS)}, ["11"], [], "9", id="nobody tells a state: by its slot"),
    pytest.param({"11": (5, ENDED)}, [], [], "", id="it was cancelled: it has ended"),
    pytest.param({"11": (5, None)}, [], [], "", id="there is no such job"),
    pytest.param({"11": (5, AWAY)}, ["11"], [], "", id="no answer: it may be there, and no other takes its place"),
    pytest.param({"11": (5, AWAY), "12": (4, AWAY)}, ["11"], ["12"], "", id="of the spare neither"),
    pytest.param({"9": (60, AWAY), "11": (5, None)}, [], [], "9", id="no answer about one that was to begin"),
    pytest.param({"11": (600, AWAY)}, [], [], "", id="no answer, and it is of ten minutes ago: the list is believed"),
    pytest.param({"11": (5, ANOTHERS)}, [], [], "", id="ids began anew: it is another's"),
    pytest.param({"11": (600, WAITS)}, None, None, "", id="of ten minutes ago: the list is cut short"),
]


@pytest.mark.parametrize(("known", "successors", "spares", "running"), LISTS)
def test_a_list_that_lacks_the_newest_link(
    known: Mapping[str, tuple[int, Mapping[str, str] | None]],
    successors: list[str] | None,
    spares: list[str] | None,
    running: str,
) -> None:
    """On such a site each tick had just submitted its successor, took the list for none, and submitted no run."""

    def describe(job_id: str) -> Mapping[str, str]:
        told = known[job_id][1]
        if told is None:
            raise BatchError(f"job {job_id} does not exist")
        if not told:
            raise Unreachable("Unable to contact slurm controller")
        return told

    batch: Any = SimpleNamespace(describe=describe)
    w = linked()
    kinds = {"9": BEGUN, "12": SPARE}
    records = {job_id: replace(kinds.get(job_id, NEXT), at=w.now - ago) for job_id, (ago, _) in known.items()}
    w = replace(w, links=records)
    told = {job_id: read._described(batch, job_id) for job_id in core_chain.doubted(w)}
    seen = core_chain.completed(w, told, uid=1000)
    assert (seen.queue is None) == (successors is None)
    if successors is not None:
        links = core_chain.Links.of(seen)
        assert [job.id for job in links.successors] == successors
        assert [job.id for job in links.spares] == spares
        assert [job.id for job in links.running] == [*filter(None, [running]), "10"]


def test_an_administrators_hold_of_a_link_that_the_list_lacks_is_obeyed() -> None:
    w = linked()
    w = replace(w, links={"11": replace(NEXT, at=w.now - 5)})
    seen = core_chain.completed(w, {"11": {**WAITS, "Reason": "JobHeldAdmin", "Fault": "JobHeldAdmin"}}, uid=1000)
    assert [type(each) for each in core_chain.decide(seen, at("15:00"))] == [LeaveChain]


def test_a_list_with_a_successor_is_not_asked_about() -> None:
    assert core_chain.doubted(linked(link(11, "16:00"))) == []


def test_of_the_links_that_a_list_lacks_the_newest_and_those_of_the_last_minutes_are_asked_about() -> None:
    w = linked()
    known = {str(number): replace(NEXT, at=w.now - ago) for number, ago in ((8, 4000), (9, 3000), (11, 2000))}
    old = replace(w, links=known)
    assert core_chain.doubted(old) == ["11"]
    young = {str(number): replace(NEXT, at=w.now - 30) for number in (101, 12, 13, 14, 15)}
    assert core_chain.doubted(replace(w, links=known | young)) == ["13", "14", "15", "101"], "the newest four"
    assert core_chain.doubted(replace(w, links=known | {"10": NEXT})) == ["11"], "this one is listed"
    assert core_chain.doubted(replace(w, links={"10": NEXT})) == [], "the newest is listed"
    for nobody in ({"wanted": False}, {"via": Way.SCRONTAB}):
        assert core_chain.doubted(replace(old, chain=replace(old.chain, **nobody))) == []
    assert core_chain.doubted(replace(old, queue=None)) == []


def test_the_instant_that_a_link_stands_for_is_what_its_comment_or_record_says_else_its_start() -> None:
    w = linked()
    said = replace(link(11, "16:00"), start=at("16:20"))
    assert core_chain.slot_of(w, said) == at("16:00")
    silent = replace(said, comment="", name="else")
    assert core_chain.slot_of(w, silent) == at("16:20")
    assert core_chain.slot_of(w, replace(silent, start=None)) == 0
    recorded = replace(w, links={"11": LinkRecord(LinkKind.SUCCESSOR, at("17:00"), "f00d", at("15:00"))})
    assert core_chain.slot_of(
        recorded, replace(silent, submitted=at("15:00"), name=link_names(w.directory_id)[0])
    ) == at("17:00")


OLD, SLOT = (
    LinkRecord(LinkKind.SUCCESSOR, at("14:00"), "f00d", 0),
    LinkRecord(LinkKind.SUCCESSOR, at("14:40"), "f00d", 0),
)
KILLED = JobEnd(Result.FAILED, exit_code=137, started=at("14:40"), ended=at("14:41"), node="cpu1")
WELL, CANCELLED = JobEnd(Result.OK, ended=at("14:41")), JobEnd(Result.CANCELLED, ended=at("14:41"))
SHOWN = link(8, "14:40", status="FAILED", nodes="cpu1", ended=at("14:41"))

ENDS: dict[str, tuple[Mapping[str, JobEnd], list[str], list[str]]] = {
    # what the batch system tells, who is asked about, who ended badly
    "killed, and gone from the list": ({"9": KILLED}, ["9"], ["9"]),
    "two in a row": ({"8": KILLED, "9": KILLED}, ["8", "9"], ["8", "9"]),
    "an older one was killed, the newest ended well: it was a hiccup": ({"8": KILLED, "9": WELL}, ["8", "9"], []),
    "cancelled before it began, as one too many": ({"9": CANCELLED}, ["9"], []),
    "cancelled while it ran": ({"9": replace(CANCELLED, started=at("14:40"), node="cpu1")}, ["9"], ["9"]),
    "nobody knows how it ended": ({}, ["9"], []),
    "the number was another job's later": ({"9": replace(KILLED, submitted=at("14:40"))}, ["9"], []),
}


@pytest.mark.parametrize(("ends", "asked", "badly"), ENDS.values(), ids=ENDS)
def test_links_that_ended_before_a_tick_came_of_them(
    ends: Mapping[str, JobEnd], asked: list[str], badly: list[str]
) -> None:
    """Two links ended by 137, and `status` said "fine: last tick 14:13" until that was overdue."""
    records = {"7": OLD, **{job_id: replace(SLOT, at=at("13:59")) for job_id in asked}, "11": NEXT}
    w = linked(NEXT_JOB, self_id="", last_tick=at("14:13"))
    w = replace(w, links=records)
    assert core_chain.begun_and_gone(w) == asked
    assert list(core_chain.without_tick(w, ends)) == badly


@pytest.mark.parametrize(
    ("left", "found"),
    [("9", {"9": Result.UNKNOWN}), ("8", {})],
    ids=["the newest tick had left it", "it had been cancelled as one too many"],
)
def test_a_link_that_nobody_remembers_has_ended_without_a_tick(left: str, found: Mapping[str, Result]) -> None:
    """Without accounting `failing` became "fine" once Slurm had forgotten the job, until the tick was overdue."""
    batch: Any = SimpleNamespace(job_ends=lambda *_: Ends())
    w = linked(NEXT_JOB, self_id="", last_tick=at("14:13"))
    w = replace(w, links={"9": replace(SLOT, at=at("13:59")), "11": NEXT}, kept=replace(w.kept, successor=left))
    ends = read.with_ends_of_links(batch, w).chain.ended_badly
    assert {job_id: end.result for job_id, end in ends.items()} == found
    started = replace(w, chain=replace(w.chain, since=at("14:00")))
    assert read.with_ends_of_links(batch, started).chain.ended_badly == {}, "`stop` has cancelled it"


BY_ROOT = JobEnd(Result.CANCELLED, ended=at("14:50"), submitted=at("14:00"))


@pytest.mark.parametrize(
    ("listed", "end", "by", "word"),
    [
        pytest.param((), BY_ROOT, 0, "cancelled", id="gone from the list: an administrator cancelled it"),
        pytest.param((link(11, "16:00", status="CANCELLED"),), BY_ROOT, 0, "cancelled", id="the list shows that"),
        pytest.param((link(11, "16:00", status="RUNNING"),), BY_ROOT, 0, "", id="the list shows that it runs"),
        pytest.param((link(11, "16:00", status="COMPLETED"),), BY_ROOT, 0, "", id="the list shows that it ended well"),
        pytest.param((), BY_ROOT, 1000, "", id="its owner cancelled it"),
        pytest.param((), replace(BY_ROOT, started=at("14:40")), 0, "", id="it had begun"),
    ],
)
def test_that_somebody_else_cancelled_the_pending_link(
    tmp_path: Path, listed: tuple[Job, ...], end: JobEnd, by: int, word: str
) -> None:
    batch = SimpleNamespace(job_ends=lambda *_: Ends({"11": end}, cancelled_by={"11": by}))
    site: Any = SimpleNamespace(paths=Paths(tmp_path), batch=batch, uid=1000)
    w = linked(*listed)
    w = replace(w, links={"11": replace(NEXT, at=at("14:00"))}, kept=replace(w.kept, successor="11"))
    assert read._an_admins_word(site, w) == (word and "the pending link 11 was cancelled by root")


@pytest.mark.parametrize(
    ("dialect", "step", "ago", "fresh"),
    [
        pytest.param(LSF, ClaimState.CLAIMED, 119, True, id="LSF, claimed two minutes ago: its job may show yet"),
        pytest.param(LSF, ClaimState.CLAIMED, 120, False, id="longer ago: it would be shown"),
        pytest.param(LSF, ClaimState.CLAIMED, -5, False, id="claimed by a clock that was ahead"),
        pytest.param(LSF, ClaimState.SUBMITTED, 119, False, id="its id is recorded"),
        pytest.param(SLURM, ClaimState.CLAIMED, 119, False, id="Slurm's queue has it at once"),
    ],
)
def test_a_claim_without_an_answer_is_fresh_while_the_queue_may_leave_its_job_out(
    tmp_path: Path, dialect: Dialect, step: ClaimState, ago: int, *, fresh: bool
) -> None:
    of, w = key("e", "14:00"), replace(linked(), dialect=dialect)
    claims = Claims(Paths(tmp_path).claims)
    claims.folder.mkdir(parents=True)
    claims.make(of, "e", "another", w.now - ago)
    if step is ClaimState.SUBMITTED:
        claims.record(of, "7", w.now - ago)
    batch: Any = SimpleNamespace(queue=lambda: Queue(()))
    seen, _ = read.with_jobs(Paths(tmp_path), batch, w)
    assert [(each.state, each.fresh) for each in seen.claims] == [(step, fresh)]


def test_when_the_scheduler_was_started_is_kept_until_it_is_stopped(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.scheduler.mkdir()
    since = []
    for called, now in (("start", 10), ("start", 20), ("stop", 30), ("start", 40), ("start", 50)):
        if called == "stop":
            scheduler.mark_stopped(paths, "me")
        else:
            scheduler.mark_started(paths, Started(at=now))
            since.append((scheduler.started(paths) or Started()).since)
    assert since == [10, 10, 40, 40]


def test_of_the_list_the_ends_since_the_newest_tick_are_asked_about() -> None:
    def asked(shown: Job, tick: str) -> list[str]:
        return core_chain.begun_and_gone(linked(shown, NEXT_JOB, self_id="", last_tick=at(tick)))

    assert asked(SHOWN, "14:13") == ["8"]
    assert asked(SHOWN, "14:42") == [], "a tick came since"
    assert asked(replace(SHOWN, state="PREEMPTED"), "14:40:30") == [], "it ticked once more before it went"
    assert asked(replace(SHOWN, state="COMPLETED"), "14:13") == [], "as it should"
    assert asked(replace(SHOWN, state="CANCELLED", nodes=""), "14:13") == [], "it never began"


def test_a_link_of_a_daemon_is_asked_about_where_none_runs() -> None:
    """It calls ticks for an interval: when it began says nothing."""
    w = linked(NEXT_JOB, self_id="", last_tick=at("14:55"), facts={"via": Way.DAEMON})
    w = replace(w, links={"9": replace(SLOT, at=at("13:59")), "11": NEXT})
    assert core_chain.begun_and_gone(w) == ["9"]
    runs = link(10, "14:56", status="RUNNING")
    assert core_chain.begun_and_gone(replace(w, queue=Queue((runs, NEXT_JOB)))) == []
