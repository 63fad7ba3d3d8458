"""What is done, and what is refused, where others have gone on since the tick looked: another tick, or the clock."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

from cronhpc.batch.port import AtSubmitLimit, BatchError, Refused, Unreachable
from cronhpc.batch.process import elapsed
from cronhpc.core.identity import frees
from cronhpc.core.model import (
    Adopt,
    Cancel,
    ClaimState,
    Decision,
    Done,
    EntryState,
    Finish,
    Job,
    JobEnd,
    Key,
    Obstacle,
    Outcome,
    Plan,
    Queue,
    Reason,
    Release,
    Result,
    SchedulerState,
    Settings,
    Skip,
    Still,
    Submit,
    Withdraw,
)
from cronhpc.core.plan import plan
from cronhpc.core.slots import text_key
from cronhpc.cron.values import replace
from cronhpc.engine import submit
from cronhpc.engine.act import Actor
from cronhpc.engine.submit import Progress, Releaser, Submitter
from cronhpc.store import history
from cronhpc.store.claims import Claims
from cronhpc.store.files import Paths
from cronhpc.store.memory import Memory, save
from tests.faults import Disk
from tests.worlds import at, claim, entry, job, key, state, world, write_end

if TYPE_CHECKING:
    from cronhpc.batch.port import Submission

STEPS = (ClaimState.SUBMITTED, ClaimState.RELEASING, ClaimState.RELEASED)
CLAIMED, SUBMITTED, RELEASING, RELEASED = ClaimState.CLAIMED, *STEPS
GONE = None
K, LATER, OTHER = key("e", "14:00"), key("e", "14:30"), key("e", "13:00")
ENDS = (Cancel("7", "a switch stands", K), Finish(K, "e", JobEnd(Result.STOPPED)))


class Batch:
    """It has `jobs`, notes which are cancelled, and may give no answer to that."""

    def __init__(self, jobs: tuple[Job, ...], fails: BatchError | None) -> None:
        self.jobs, self.fails, self.cancelled = jobs, fails, list[str]()

    def queue(self) -> Queue:
        return Queue(self.jobs)

    def cancel(self, job_ids: Sequence[str], *, pending_only: bool) -> None:
        assert pending_only, "what has begun is left alone"
        self.cancelled += job_ids
        if self.fails:
            raise self.fails


class Situation(NamedTuple):
    """A claim as the tick `read` it, and as it is on disk by `now`: its step and job."""

    decisions: tuple[Decision, ...]
    read: tuple[ClaimState, str | None] | None
    now: tuple[ClaimState, str | None] | None
    expected: str  # of each decision
    after: str = "gone"  # the claim
    cancelled: str = ""
    jobs: tuple[Job, ...] = ()
    fails: BatchError | None = None
    late: str = ""  # the id that another has recorded after the release, before it was killed
    listed: tuple[str, ...] | None = None  # what a listing of a minute ago shows of the folder; None: it is of now


AGAIN = Submit(entry(output=False, error=False), LATER, Reason.AGAIN, begin=LATER.slot)
SITUATIONS: dict[str, Situation] = {
    "a held job that is to go, all as it was: cancelled, and its end written": Situation(
        ENDS, (SUBMITTED, "7"), (SUBMITTED, "7"), "ok ok", "finished 7", "7"
    ),
    "the record of its job was removed while that ran: its end is written with it all the same": Situation(
        (Finish(K, "e", JobEnd(Result.OK), job_id="7"),), (CLAIMED, None), (CLAIMED, None), "ok", "finished 7"
    ),
    "another tick has sent its release: left": Situation(
        ENDS, (SUBMITTED, "7"), (RELEASING, "7"), "refused refused", "releasing 7"
    ),
    "another tick has released it: left": Situation(
        ENDS, (SUBMITTED, "7"), (RELEASED, "7"), "refused refused", "released 7"
    ),
    "its twin has been recorded since: left": Situation(
        (Cancel("9", "a twin", K),), (CLAIMED, None), (SUBMITTED, "9"), "refused", "submitted 9"
    ),
    "a twin of the recorded job: cancelled": Situation(
        (Cancel("9", "a twin", K),), (SUBMITTED, "7"), (RELEASED, "7"), "ok", "released 7", "9"
    ),
    "a killed tick has recorded a twin after the release: it goes, and the end is written": Situation(
        (Cancel("9", "a twin", K), Finish(K, "e", JobEnd(Result.OK))),
        (RELEASED, "7"),
        (RELEASED, "7"),
        "ok ok",
        "finished 7",
        "9",
        late="9",
    ),
    "another tick has sent its release, and one that was killed recorded a twin after that: left": Situation(
        ENDS, (SUBMITTED, "7"), (RELEASING, "7"), "refused refused", "releasing 7", late="9"
    ),
    "it could not be cancelled: no end is written": Situation(
        ENDS, (SUBMITTED, "7"), (SUBMITTED, "7"), "passing refused", "submitted 7", "7", fails=BatchError("no")
    ),
    "nobody answered to the cancel before: not tried, and no end is written": Situation(
        (Cancel("5", "a twin", OTHER), *ENDS),
        (SUBMITTED, "7"),
        (SUBMITTED, "7"),
        "passing passing refused",
        "submitted 7",
        "5",
        fails=Unreachable("no answer"),
    ),
    "one that waits for a slot to come: cancelled": Situation(
        (Cancel("7", "its entry is gone", LATER, only=Still.AHEAD),),
        (RELEASED, "7"),
        (RELEASED, "7"),
        "ok",
        "released 7",
        "7",
    ),
    "its slot has come: left": Situation(
        (Cancel("7", "its entry is gone", K, only=Still.AHEAD),),
        (RELEASED, "7"),
        (RELEASED, "7"),
        "refused",
        "released 7",
    ),
    "one that can never start was released: cancelled": Situation(
        (Cancel("7", "never", K, only=Still.PENDING),), (RELEASED, "7"), (RELEASED, "7"), "ok", "released 7", "7"
    ),
    "a job is found for a claim: recorded": Situation(
        (Adopt(K, "7"),), (CLAIMED, None), (CLAIMED, None), "ok", "submitted 7"
    ),
    "another job was recorded for it meanwhile: not adopted": Situation(
        (Adopt(K, "7"),), (CLAIMED, None), (SUBMITTED, "8"), "refused", "submitted 8"
    ),
    "adopted and ended in one tick: its end is written": Situation(
        (Adopt(K, "7"), Finish(K, "e", JobEnd(Result.STOPPED))), (CLAIMED, None), (CLAIMED, None), "ok ok", "finished 7"
    ),
    "a job was submitted meanwhile for what is to end without one: left": Situation(
        (Finish(K, "e", JobEnd(Result.MISSED)),), (CLAIMED, None), (SUBMITTED, "8"), "refused", "submitted 8"
    ),
    "the same, and the listing is of before that": Situation(
        (Finish(K, "e", JobEnd(Result.MISSED)),),
        (CLAIMED, None),
        (SUBMITTED, "8"),
        "refused",
        "submitted 8",
        listed=(str(K),),
    ),
    "a held job of a claim that the listing does not show yet: left": Situation(
        (Cancel("8", "came late", K),), None, (SUBMITTED, "8"), "refused", "submitted 8", listed=()
    ),
    "what is to end was finished and forgotten meanwhile: left": Situation(
        (Finish(K, "e", JobEnd(Result.OK)),), (RELEASED, "7"), GONE, "refused"
    ),
    "its owner has released it: that is noted": Situation(
        (Release(K, "7", marked=True),), (SUBMITTED, "7"), (SUBMITTED, "7"), "ok", "released 7"
    ),
    "its owner has released it, and another job was recorded meanwhile: of that nothing is noted": Situation(
        (Release(K, "7", marked=True),), (SUBMITTED, "7"), (SUBMITTED, "8"), "refused", "submitted 8"
    ),
    "taken back before its slot: its job goes, and its claim stays": Situation(
        (Withdraw(LATER, "e", "7", "edited"),), (RELEASED, "7"), (RELEASED, "7"), "ok", "claimed", "7"
    ),
    "taken back before its slot, which is in no schedule any more: its job goes, then its claim": Situation(
        (Withdraw(LATER, "e", "7", "edited", drops=True),), (RELEASED, "7"), (RELEASED, "7"), "ok", cancelled="7"
    ),
    "its slot is in no schedule any more, and it has no job: its claim goes": Situation(
        (Withdraw(LATER, "e", "", "edited", drops=True),), (CLAIMED, None), (CLAIMED, None), "ok"
    ),
    "… which has come meanwhile": Situation(
        (Withdraw(K, "e", "", "edited", drops=True),), (CLAIMED, None), (CLAIMED, None), "ok"
    ),
    "its slot is in no schedule any more, and another tick has submitted it meanwhile: left": Situation(
        (Withdraw(LATER, "e", "", "edited", drops=True),), (CLAIMED, None), (SUBMITTED, "8"), "refused", "submitted 8"
    ),
    "taken back, and submitted anew by another tick meanwhile: no second job": Situation(
        (Withdraw(LATER, "e", "7", "edited"), AGAIN),
        (RELEASED, "7"),
        (SUBMITTED, "8"),
        "refused refused",
        "submitted 8",
        "7",
    ),
    "taken back, and a list of a minute ago shows it: not submitted anew so far": Situation(
        (Withdraw(LATER, "e", "7", "edited"), AGAIN),
        (RELEASED, "7"),
        (RELEASED, "7"),
        "refused refused",
        "released 7",
        "7",
        (job(7, "PENDING"),),
    ),
    "taken back, and its job has begun: its claim stays": Situation(
        (Withdraw(LATER, "e", "7", "edited"),),
        (RELEASED, "7"),
        (RELEASED, "7"),
        "refused",
        "released 7",
        "7",
        (job(7),),
    ),
    "taken back, and its job has begun and ended while this tick was slow: its claim stays": Situation(
        (Withdraw(LATER, "e", "7", "edited"),),
        (RELEASED, "7"),
        (RELEASED, "7"),
        "refused",
        "released 7",
        "7",
        (job(7, "COMPLETED"),),
    ),
    "taken back, and its slot has come: its claim stays": Situation(
        (Withdraw(K, "e", "7", "edited"),), (RELEASED, "7"), (RELEASED, "7"), "refused", "released 7", "7"
    ),
    "taken back, and another tick has submitted it meanwhile: its claim stays": Situation(
        (Withdraw(LATER, "e", "", "edited"),), (CLAIMED, None), (SUBMITTED, "8"), "refused", "submitted 8"
    ),
    "taken back, cancelled, and its slot has come since: its claim has no job": Situation(
        (Withdraw(K, "e", "7", "a switch", gone=True),), (RELEASED, "7"), (RELEASED, "7"), "ok", "claimed"
    ),
    "taken back, cancelled, and another tick has claimed its slot since: left": Situation(
        (Withdraw(K, "e", "7", "a switch", gone=True),), (RELEASED, "7"), (CLAIMED, None), "refused", "claimed"
    ),
    "taken back, cancelled, and another tick has submitted for its slot since: left": Situation(
        (Withdraw(K, "e", "7", "a switch", gone=True),), (RELEASED, "7"), (SUBMITTED, "8"), "refused", "submitted 8"
    ),
    "taken back, and nobody answers: its claim stays": Situation(
        (Withdraw(LATER, "e", "7", "edited"),),
        (RELEASED, "7"),
        (RELEASED, "7"),
        "passing",
        "released 7",
        "7",
        fails=Unreachable("no answer"),
    ),
}


def carried_out(progress: Progress, made: Plan) -> tuple[Outcome, ...]:
    """A pass without its record."""
    for step, rows in Actor(progress).steps(made):
        step(rows)
    return progress.outcomes_of(made)


def on_disk(claims: Claims, of: Key, step: ClaimState, job_id: str | None) -> None:
    claims.make(of, "e", "another", at("13:59"))
    if job_id:
        claims.record(of, job_id, at("13:59"))
    for each in STEPS[1 : STEPS.index(step) + 1] if job_id else ():
        claims.step(of, each)


@pytest.mark.parametrize("s", SITUATIONS.values(), ids=SITUATIONS)
def test_what_has_gone_on_meanwhile_is_left_alone(
    tmp_path: Path, s: Situation, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = cast("Any", s.decisions[-1]).key
    claims = Claims(Paths(tmp_path).claims)
    claims.folder.mkdir(parents=True)
    if s.now:
        on_disk(claims, of, *s.now)
    if s.late:
        assert claims.record(of, s.late, at("14:01"))
    batch = Batch(s.jobs, s.fails)
    site: Any = SimpleNamespace(paths=Paths(tmp_path), batch=batch, host="login1", settings=Settings())
    site.changes = SimpleNamespace(looked_at=lambda _: at("14:05"))
    before = (claim("e", "14:30" if of == LATER else "14:00", *s.read),) if s.read else ()
    with monkeypatch.context() as patched:
        if s.listed is not None:
            patched.setattr(os, "listdir", lambda _: list(s.listed or ()))
        outcomes = carried_out(Progress(site, world("14:05", claims=before)), Plan(s.decisions, at("15:00")))
    assert " ".join(
        each.done.name.lower() for each in sorted(outcomes, key=lambda each: s.decisions.index(each.decision))
    ) == (s.expected)
    assert " ".join(batch.cancelled) == s.cancelled
    left = [f"{each.state.name.lower()} {each.job_id or ''}".rstrip() for each in claims.read(())]
    assert left == ([] if s.after == "gone" else [s.after])


def test_what_began_by_a_clock_that_is_ahead_has_had_its_turn_whoever_notes_its_end(tmp_path: Path) -> None:
    claims = Claims(Paths(tmp_path).claims)
    claims.folder.mkdir(parents=True)
    ours = claim("e", "14:05", SUBMITTED, "7")
    ended = JobEnd(Result.OK, started=at("14:00"), ended=at("14:01"))
    for of in (ours, replace(ours, key=key("e", "14:06"), at=at("13:59"))):
        claims.make(of.key, "e", "another", of.at)
        claims.record(of.key, "7", of.at)
        site: Any = SimpleNamespace(paths=Paths(tmp_path), batch=Batch((), None), host="login1", settings=Settings())
        carried_out(Progress(site, world("14:02", claims=(of,))), Plan((Finish(of.key, "e", ended),), at("15:00")))
    assert [each.used_up == each.key.slot for each in claims.read(())] == [True, False], (
        "one that somebody let begin early has not"
    )


def test_an_end_that_the_disk_refuses_is_written_at_the_next_look_and_the_others_are_now(tmp_path: Path) -> None:
    claims = Claims(Paths(tmp_path).claims)
    claims.folder.mkdir(parents=True)
    on_disk(claims, OTHER, RELEASED, "7")
    on_disk(claims, K, RELEASED, "8")
    (claims.folder / str(K)).unlink()
    (claims.folder / str(K)).mkdir()
    ends = (Finish(K, "e", JobEnd(Result.OK)), Finish(OTHER, "e", JobEnd(Result.OK)))
    site: Any = SimpleNamespace(paths=Paths(tmp_path), batch=Batch((), None), host="login1", settings=Settings())
    before = (claim("e", "13:00", RELEASED, "7"), claim("e", "14:00", RELEASED, "8"))
    outcomes = carried_out(Progress(site, world("14:05", claims=before)), Plan(ends, at("15:00")))
    assert [(each.decision, each.done) for each in outcomes] == [(ends[0], Done.PASSING), (ends[1], Done.OK)]
    assert "Is a directory" in outcomes[0].detail
    assert sorted(path.name for path in claims.folder.iterdir()) == [str(OTHER), str(K), f"{K}.run"]


def test_what_a_slow_look_took_counts_for_the_clock_of_what_is_done(tmp_path: Path) -> None:
    """A job that began meanwhile was taken back by a clock that stood where the look had begun: its slot ran twice."""
    site: Any = SimpleNamespace(paths=Paths(tmp_path), batch=Batch((), None), host="login1", settings=Settings())
    assert at("14:05:10") <= Progress(site, world("14:05"), elapsed() - 10).clock < at("14:06")


def submitter_of(progress: Progress) -> Submitter:
    """One whose jobs stay held."""
    releaser: Any = SimpleNamespace(release_held=lambda _: None)
    return Submitter(progress, releaser)


def ahead(*clocks: str, name: str = "e") -> tuple[Submit, ...]:
    e = entry(name, "*/30 * * * *", output=False, error=False)
    return tuple(Submit(e, key(name, clock), Reason.AHEAD, begin=at(clock)) for clock in clocks)


@pytest.mark.parametrize(
    ("at_limit", "listed", "done"),
    [
        pytest.param(False, True, "refused refused ok", id="no limit: each slot stands for itself"),
        pytest.param(True, True, "refused refused refused", id="at a limit: another's would take its place"),
        pytest.param(True, False, "ok ok ok", id="at a limit, and it is gone"),
    ],
)
def test_while_a_run_is_being_taken_back(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_limit: bool,  # noqa: FBT001 - a table's column
    listed: bool,  # noqa: FBT001 - as above
    done: str,
) -> None:
    """The queue's answer may be a minute old: another entry's runs, hours away, would have taken the place."""
    claims = Claims(Paths(tmp_path).claims)
    claims.folder.mkdir(parents=True)
    on_disk(claims, LATER, RELEASED, "7")
    batch = Batch((job(7, "PENDING"),) if listed else (), None)
    site: Any = SimpleNamespace(paths=Paths(tmp_path), batch=batch, host="login1", settings=Settings())
    before = claim("e", "14:30", RELEASED, "7", holds="before")
    again = replace(ahead("14:30")[0], reason=Reason.AGAIN)
    plan = Plan((Withdraw(LATER, "e", "7", "edited"), again, *ahead("15:00", name="other")), at("15:00"))
    seen = replace(world("14:05", claims=(before,)), kept=SchedulerState(job_limit=int(at_limit)))
    monkeypatch.setattr(Batch, "submit", lambda _, job: "8" if job.begin == at("14:30") else "9", raising=False)
    monkeypatch.setattr(Releaser, "release_held", lambda *_: None)
    told = carried_out(Progress(site, seen), plan)
    assert [each.obstacle for each in told if isinstance(each.decision, Withdraw)] == [
        Obstacle.SHOWN if listed else None
    ]
    outcomes = {id(each.decision): each.done.name.lower() for each in told}
    assert " ".join(outcomes[id(each)] for each in plan.decisions) == done
    monkeypatch.undo()
    found = {str(each.key): (each.job_id, each.holds) for each in claims.read(())}
    assert found[str(LATER)] == (("7", "") if listed else ("8", text_key(again.entry)))


@pytest.mark.parametrize(
    ("refused", "done", "after"),
    [
        pytest.param({1}, "ok ok", "claimed", id="once: noted when they are cancelled"),
        pytest.param(None, "passing passing", "released", id="on and on: the next tick takes them back"),
    ],
)
def test_runs_are_taken_back_and_the_disk_refuses_to_note_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: set[int] | None, done: str, after: str
) -> None:
    """Their jobs go all the same. Not noted they were their owner's doing, and the slots were lost."""
    claims = Claims(Paths(tmp_path).claims)
    claims.folder.mkdir(parents=True)
    before = [claim("e", clock, RELEASED, job_id, holds="x") for clock, job_id in (("14:30", "7"), ("15:00", "8"))]
    for each in before:
        on_disk(claims, each.key, RELEASED, each.job_id)
    batch = Batch((), None)
    site: Any = SimpleNamespace(paths=Paths(tmp_path), batch=batch, host="login1", settings=Settings())
    disk = Disk(monkeypatch, tmp_path)
    disk.fail("refused", refused, errno.ENOSPC, ("write",))
    rows = tuple(Withdraw(each.key, "e", each.job_id or "", "a pause") for each in before)
    told = carried_out(Progress(site, world("14:05", claims=before)), Plan(rows, at("15:00")))
    disk.heal()
    assert batch.cancelled == ["7", "8"]
    assert " ".join(each.done.name.lower() for each in told) == done
    found = [(each.state.name.lower(), each.job_id, each.taken_back) for each in claims.read(())]
    assert found == [(after, None, job_id) if after == "claimed" else (after, job_id, "") for job_id in ("7", "8")]


def test_nor_while_its_job_is_in_no_list_and_may_live_for_all_that_one_look_tells() -> None:
    before = claim("e", "14:30", RELEASED, "7", taken_back="7")
    for since, expected in (("14:05", True), ("14:01", False)):
        assert frees(world("14:05", claims=(before,), absent={"7": at(since)}), ()) == expected


class Full(Batch):
    """It takes the submission for 15:00 alone: the one before has met the limit, and is told of it after that."""

    def __init__(self) -> None:
        super().__init__((), None)
        self.taken = Event()

    def submit(self, job: Submission) -> str:
        if job.begin == at("15:00"):
            self.taken.set()
            return "8"
        self.taken.wait(10)
        raise AtSubmitLimit("full")


def test_at_a_limit_what_is_claimed_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a tick dies, no slot is lost; a later tick submits it, or says why not when it has come."""
    claims = Claims(Paths(tmp_path).claims)
    claims.folder.mkdir(parents=True)
    settings = Settings(parallel=2)
    site: Any = SimpleNamespace(paths=Paths(tmp_path), batch=Full(), host="login1", settings=settings)
    submitter = submitter_of(Progress(site, world("14:05")))
    submitter.submit(ahead("14:30", "15:00", "15:30", "16:00"))
    assert [each.job_id for each in claims.read(())] == [None, "8", None, None]


def test_runs_to_come_are_claimed_some_at_a_time_and_none_behind_a_limit_that_was_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day's slots without a job would be read by each look until they come."""
    claims = Claims(Paths(tmp_path).claims)
    claims.folder.mkdir(parents=True)
    site: Any = SimpleNamespace(paths=Paths(tmp_path), batch=Full(), host="login1", settings=Settings(parallel=2))
    site.batch.taken.set()
    submitter = submitter_of(Progress(site, world("14:05")))
    monkeypatch.setattr("cronhpc.engine.submit._AT_ONCE", 2)
    submitter.submit(ahead("14:30", "15:30", "16:00", "16:30", "17:00"))
    assert [str(each.key) for each in claims.read(())] == [str(row.key) for row in ahead("14:30", "15:30")]
    assert len(submitter.progress.outcomes) == 5, "what is not tried has its outcome, too"


def test_with_few_places_left_the_earlier_is_submitted_before_the_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Side by side the place for one more had been taken by a later slot, which the next tick took back again."""
    Claims(Paths(tmp_path).claims).folder.mkdir(parents=True)
    site: Any = SimpleNamespace(paths=Paths(tmp_path), batch=Batch((), None), host="login1", settings=Settings())
    widths: list[int] = []

    def noted(_: object, rows: Sequence[object], width: int) -> list[str]:
        widths.append(width)
        return ["8"] * len(rows)

    monkeypatch.setattr(submit, "side_by_side", noted)
    for places in (3, 2, 0):
        seen = replace(world("14:05"), kept=SchedulerState(job_limit=places))
        submitter = submitter_of(Progress(site, seen))
        submitter.submit((*ahead("14:30", name=f"a{places}"), *ahead("15:00", "15:30", name=f"b{places}")))
    assert widths == [Settings().parallel, 1, Settings().parallel]


def test_what_another_tick_records_while_a_job_taken_back_is_cancelled_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = Claims(Paths(tmp_path).claims)
    claims.folder.mkdir(parents=True)
    on_disk(claims, LATER, CLAIMED, None)
    batch = Batch((), None)
    site: Any = SimpleNamespace(paths=Paths(tmp_path), batch=batch, host="login1", settings=Settings())
    site.changes = SimpleNamespace(looked_at=lambda _: at("14:05"))
    monkeypatch.setattr(batch, "cancel", lambda *_, **__: claims.record(LATER, "8", at("14:05")))
    before = claim("e", "14:30", SUBMITTED, "7", holds="x")
    (done,) = carried_out(Progress(site, world("14:05", claims=(before,))), Plan((Release(LATER, "7"),), at("15:00")))
    assert (done.done, claims.look([LATER])[LATER].job_id) == (Done.REFUSED, "8")


def test_a_slot_that_another_tick_has_claimed_meanwhile_is_not_passed_over(tmp_path: Path) -> None:
    """It was recorded as missed, and ran."""
    claims = Claims(Paths(tmp_path).claims)
    claims.folder.mkdir(parents=True)
    for before in (OTHER, key("f", "14:00", by_hand=True)):
        on_disk(claims, before, CLAIMED, None)
    on_disk(claims, key("e", "13:30"), CLAIMED, None)
    site: Any = SimpleNamespace(paths=Paths(tmp_path), batch=Batch((), None), host="login1", settings=Settings())
    missed = [Skip(entry(name), K.slot, Result.MISSED, Reason.MISSED, count=3) for name in ("e", "f")]
    early = Skip(entry(), at("13:20"), Result.MISSED, Reason.MISSED)
    seen = world("14:05", claims=(claim("e", "13:00", CLAIMED),))
    outcomes = carried_out(Progress(site, seen), Plan((*missed, early), at("15:00")))
    assert {id(each.decision): each.done for each in outcomes} == {
        id(missed[0]): Done.REFUSED, id(missed[1]): Done.OK, id(early): Done.OK
    }  # fmt: skip


class Refusing(Batch):
    """It refuses each submission."""

    def submit(self, _: Submission) -> str:
        raise Refused("no such partition")


def test_a_tick_killed_after_an_end_and_before_its_record_loses_no_row_of_what_was_missed_before_it(
    tmp_path: Path,
) -> None:
    claims = Claims(Paths(tmp_path).claims)
    claims.folder.mkdir(parents=True)
    site: Any = SimpleNamespace(paths=Paths(tmp_path), batch=Refusing((), None), host="login1", settings=Settings())
    site.changes = SimpleNamespace(looked_at=lambda _: at("14:00"))
    seen = world("14:00:10", entry(output=False, error=False), states={"e": state("11:00")})
    refused, missed = carried_out(Progress(site, seen), plan(seen))[:2]
    assert (refused.done, type(missed.decision)) == (Done.FAILED, Skip)
    (ended,) = claims.read(())
    again = plan(replace(seen, now=at("14:02"), claims=(ended,)))
    assert [each for each in again.decisions if isinstance(each, Skip)] == [missed.decision]


class Replacing(Batch):
    """It cancels what runs, too, and notes what it is asked for in its order."""

    def cancel(self, job_ids: Sequence[str], *, pending_only: bool = False) -> None:
        assert not pending_only
        self.cancelled += job_ids

    def submit(self, _: Submission) -> str:
        self.cancelled.append("submitted")
        return "8"


@pytest.mark.parametrize(
    ("replaces", "asked", "end"),
    [
        pytest.param(("7",), ["7", "submitted"], "killed replaced by the slot", id="the run before makes room first"),
        pytest.param((), ["submitted"], "", id="nothing is replaced: the run before goes on"),
    ],
)
def test_with_overlap_replace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaces: tuple[str, ...], asked: list[str], end: str
) -> None:
    claims = Claims(Paths(tmp_path).claims)
    claims.folder.mkdir(parents=True)
    on_disk(claims, K, RELEASED, "7")
    batch = Replacing((job(7, "RUNNING"),), None)
    site: Any = SimpleNamespace(paths=Paths(tmp_path), batch=batch, host="login1", settings=Settings())
    submitter = submitter_of(Progress(site, world("14:30", claims=(claim("e", "14:00", RELEASED, "7"),))))
    submitter.submit([Submit(entry(output=False, error=False), LATER, Reason.SUBMIT, replaces=replaces)])
    assert batch.cancelled == asked
    job_ends = {each.key: each.job_end for each in claims.read(())}
    assert job_ends[LATER] is None
    before = job_ends[K]
    assert (f"{before.result} {before.detail}" if before else "").startswith(end)
    assert bool(before) == bool(end)


def test_the_run_that_made_room_tells_why_it_ended_though_the_tick_dies_before_the_next_is_submitted(
    tmp_path: Path,
) -> None:
    class Dying(Replacing):
        def submit(self, _: Submission) -> str:
            raise KeyboardInterrupt

    claims = Claims(Paths(tmp_path).claims)
    claims.folder.mkdir(parents=True)
    on_disk(claims, K, RELEASED, "7")
    batch = Dying((job(7, "RUNNING"),), None)
    site: Any = SimpleNamespace(paths=Paths(tmp_path), batch=batch, host="login1", settings=Settings())
    submitter = submitter_of(Progress(site, world("14:30", claims=(claim("e", "14:00", RELEASED, "7"),))))
    with pytest.raises(KeyboardInterrupt):
        submitter.submit([Submit(entry(output=False, error=False), LATER, Reason.SUBMIT, replaces=("7",))])
    before = {each.key: each.job_end for each in claims.read(())}[K]
    assert before is not None
    assert before.detail.startswith("replaced by the slot")


# --- claimed, and too late --------------------------------------------------------------------------------------------


class Late(NamedTuple):
    """Our attempt, just claimed; what others have claimed; what entries.json and history say by now."""

    ours: Key
    late: bool
    theirs: tuple[Key, ...] = ()
    state: EntryState = EntryState()
    history: tuple[Key, ...] = ()
    ended: bool = False  # theirs
    now: str = "14:05"  # by our clock
    told: bool = False  # the claim is finished: nothing else tells of its slot


FIRST, SECOND, BY_HAND = key("e", "13:00"), key("e", "13:00", 2), key("e", "13:00", by_hand=True)
RERUN = key("e", "13:00", 2, by_hand=True)
LATE: dict[str, Late] = {
    "nobody has gone past its slot": Late(FIRST, late=False, state=state("12:00")),
    "its slot was used up while we stood still": Late(FIRST, late=True, state=state("13:00"), history=(FIRST,)),
    "what was used up is of a clock far ahead": Late(FIRST, late=False, state=state("2030-01-01 00:00")),
    "another has ended a later slot, and the state is lost": Late(
        FIRST, late=True, theirs=(K,), ended=True, history=(FIRST,)
    ),
    "another has ended a later slot, and nobody tells of this one": Late(
        FIRST, late=True, theirs=(K,), ended=True, told=True
    ),
    "another has ended a later slot, the state is lost, and our clock is behind": Late(
        FIRST, late=True, theirs=(K,), ended=True, history=(FIRST,), now="13:50"
    ),
    "another has claimed a later slot: that stands for itself": Late(FIRST, late=False, theirs=(K,)),
    "another has come to its second attempt, and the state is lost": Late(
        FIRST, late=True, theirs=(SECOND,), history=(FIRST,)
    ),
    "another has claimed an earlier slot": Late(FIRST, late=False, theirs=(key("e", "12:00"),)),
    "a later slot of another entry": Late(FIRST, late=False, theirs=(key("f", "14:00"),), ended=True),
    "a later slot by a clock far ahead": Late(FIRST, late=False, theirs=(key("e", "2030-01-01 00:00"),), ended=True),
    "a later run by hand": Late(FIRST, late=False, theirs=(key("e", "14:00", by_hand=True),)),
    "a further attempt, and the one before is there": Late(SECOND, late=False, theirs=(FIRST, K), state=state("14:00")),
    "a further attempt, and the one before is archived: it was made": Late(SECOND, late=True),
    "by hand, and the slot is an old one": Late(BY_HAND, late=False, theirs=(K,), state=state("14:00")),
    "by hand, and another of this second has ended": Late(BY_HAND, late=True, state=state(last={"key": str(BY_HAND)})),
    "run again by hand, and nobody else has": Late(RERUN, late=False, history=(FIRST,)),
    "run again by hand, and another's has ended and is archived": Late(RERUN, late=True, history=(RERUN, K)),
}


@pytest.mark.parametrize("s", LATE.values(), ids=LATE)
def test_an_attempt_just_claimed_is_given_back_if(tmp_path: Path, s: Late) -> None:
    """This tick may have stood still since it read."""
    paths = Paths(tmp_path)
    claims = Claims(paths.claims)
    claims.folder.mkdir(parents=True)
    for each in (s.ours, *s.theirs):
        claims.make(each, "e", "another", at("13:59"))
    for each in s.theirs if s.ended else ():
        write_end(claims, each, "e", JobEnd(Result.OK), "7", now=at("14:01"))
    save(paths.entries, Memory(entries={"e": s.state}))
    rows = [{"what": "run", "key": str(each), "at": at("13:30")} for each in s.history]
    history.append(paths.history, rows, host="login1", now=at("13:30"))
    site: Any = SimpleNamespace(paths=paths, batch=Batch((), None), host="login1", settings=Settings())
    submitter = submitter_of(Progress(site, world(s.now)))
    row = Submit(entry(), s.ours, Reason.SUBMIT)
    assert submitter._in_time([row]) == ([] if s.late else [row])
    assert claims.exists(s.ours) == (s.told or not s.late)
    assert [each.job_end.result for each in claims.read(()) if each.key == s.ours and each.job_end] == [
        Result.MISSED
    ] * s.told
    assert [each.done.name for each in submitter.progress.outcomes] == ["REFUSED"] * s.late


def test_a_claim_that_another_has_submitted_for_is_not_given_back(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    for step in STEPS:
        of = key("e", "14:00", STEPS.index(step) + 1)
        on_disk(claims, of, step, "7")
        claims.give_up(of)
        assert claims.exists(of), step
