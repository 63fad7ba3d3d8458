"""What a run's job gets at its release, and what is found out about a site before it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cronhpc.batch.local import Local
from cronhpc.batch.port import AtSubmitLimit, BatchError, Submission, Unreachable
from cronhpc.batch.process import side_by_side
from cronhpc.core.model import Call, ClaimState, Done, Queue, Started, Submit, Way, slot_text
from cronhpc.engine import init, submit
from cronhpc.engine.site import open_site
from cronhpc.script.dialect import SLURM
from cronhpc.store import scheduler
from cronhpc.store.claims import Claims
from cronhpc.tick import Report, tick

if TYPE_CHECKING:
    from cronhpc.engine.site import Site

NOW = (int(time.time()) // 1800 + 1) * 1800 + 5  # noqa: TID251 - the next slot by this machine, whose files have its time
SETTINGS = """backend: local
timezone: UTC
entries:
  e: {schedule: "*/30 * * * *", command: "true", sbatch: {comment: '{"Reaper": "90"}'}}
  plain: {schedule: "*/30 * * * *", command: "true"}
"""


class Changing:
    """A batch system whose site changes what is submitted: `job` says how a submission looks in the queue."""

    dialect = SLURM

    def __init__(self, local: Local, **change: object) -> None:
        self.local, self.change = local, change

    def __getattr__(self, name: str) -> object:
        return getattr(self.local, name)

    def queue(self) -> Queue:
        return Queue(tuple(replace(job, **self.change) for job in self.local.queue().jobs))  # type: ignore[arg-type]  # by name


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(Local, "_supervise", lambda *_: None)  # what is submitted waits for ever
    monkeypatch.setattr("cronhpc.batch.local.supervisor.now", lambda: NOW + 1)
    return of_settings(tmp_path / "cron", SETTINGS)


def of_settings(root: Path, settings: str) -> Site:
    init.init(root, {})
    (root / "cronhpc.yaml").write_text(settings)
    made = open_site(str(root), "local", {"HOME": str(root.parent)})
    tick(made, NOW - 1200)  # entries count from their file's time on
    return made


def ticked(site: Site, now: int) -> Report:
    report = tick(site, now)
    assert isinstance(report, Report)
    return report


def test_a_scripts_own_comment_stands_alone_from_the_release_on(site: Site) -> None:
    """Programs of the site read it; the run is known by its recorded id, and finished by it."""
    ticked(site, NOW)
    comments = {job.name: job.comment for job in site.batch.queue().jobs}
    assert max(comments.values()) == '{"Reaper": "90"}'
    assert "/plain@" in min(comments.values())
    again = ticked(site, NOW + 60)
    assert not [o for o in again.outcomes if type(o.decision).__name__ in {"Finish", "Submit", "Cancel"}]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"reason": "Priority", "fault": None}, True, id="a site that drops --hold"),
        pytest.param({}, False, id="a site that keeps it"),
    ],
)
def test_once_a_day_it_is_looked_whether_a_submission_is_held(
    site: Site, change: dict[str, str | None], *, said: bool
) -> None:
    changed = replace(site, batch=Changing(site.batch, **change))  # type: ignore[arg-type]  # as strict as is needed
    ticked(changed, NOW)
    codes = [problem.code for problem in ticked(changed, NOW + 60).problems]
    assert ("W342" in codes) == said


class Adopting(Changing):
    """A batch system of which another tick has released what waits, before it is asked."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.batch, reason="Priority")  # type: ignore[arg-type]  # as strict as is needed
        self.claims = site.paths.claims

    def queue(self) -> Queue:
        claims = Claims(self.claims)
        for key in [key for key, steps in claims.names().items() if ".id" in steps]:
            claims.step(key, ClaimState.RELEASING)
        return super().queue()


def test_what_another_tick_has_released_since_is_no_sign_that_a_site_drops_hold(site: Site) -> None:
    changed = replace(site, batch=Adopting(site))  # type: ignore[arg-type]  # as above
    ticked(changed, NOW)
    assert "W342" not in [problem.code for problem in ticked(changed, NOW + 60).problems]


def test_a_wrapper_that_cannot_be_written_keeps_back_no_other_run(site: Site) -> None:
    """Nor any from its release."""
    settings = f"{SETTINGS}  recorded: {{schedule: '*/30 * * * *', command: 'true', record: true}}\n"
    (site.paths.root / "cronhpc.yaml").write_text(settings)
    again = open_site(str(site.paths.root), "local", {"HOME": str(site.paths.root.parent)})
    tick(again, NOW - 1190)
    (site.paths.state / "stubs").write_text("in the way")
    done = {o.decision.entry.name: o for o in ticked(again, NOW).outcomes if isinstance(o.decision, Submit)}
    assert {name: each.done for name, each in done.items()} == {
        "e": Done.OK, "plain": Done.OK, "recorded": Done.PASSING
    }  # fmt: skip
    assert "stubs" in done["recorded"].detail


class Planting(Changing):
    """Somebody puts a file where the log of a run is to be made, right after its submission."""

    log: Path

    def submit(self, job: Submission) -> str:
        job_id = self.local.submit(job)
        (self.log / f"{slot_text(NOW - 5)}-{job_id}.out").touch()
        return job_id

    def queue(self) -> Queue:
        return Queue(()) if self.change.get("state") == "gone" else super().queue()


PLANTED: dict[str, tuple[dict[str, Any], Done, str, ClaimState]] = {
    "it is held": ({}, Done.FAILED, "somebody put it there", ClaimState.FINISHED),
    "it is in no list": ({"state": "gone"}, Done.FAILED, "somebody put it there", ClaimState.FINISHED),
    "it runs, as its user has released it": (
        {"state": "RUNNING", "fault": None}, Done.OK, "somebody else has released it", ClaimState.RELEASED
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PLANTED.values(), ids=PLANTED)
def test_a_file_in_the_place_of_its_log_keeps_a_run_back_unless_it_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[dict[str, Any], Done, str, ClaimState]
) -> None:
    seen, done, why, state = case
    monkeypatch.setattr(Local, "_supervise", lambda *_: None)
    monkeypatch.setattr("cronhpc.batch.local.supervisor.now", lambda: NOW + 1)
    site = of_settings(tmp_path / "cron", "timezone: UTC\nentries: {e: {schedule: '*/30 * * * *', command: 'true'}}\n")
    batch: Any = Planting(site.batch)  # type: ignore[arg-type]  # that of the machine
    batch.log = site.paths.log / "e"
    submitted = batch.submit

    def then_shown(job: Submission) -> str:
        job_id = submitted(job)
        batch.change = seen
        return str(job_id)

    batch.submit = then_shown
    outcomes = [o for o in ticked(replace(site, batch=batch), NOW).outcomes if isinstance(o.decision, Submit)]
    assert [(o.done, why in o.detail) for o in outcomes] == [(done, True)]
    (claim,) = Claims(site.paths.claims).read(())
    assert (claim.state, claim.name, claim.job_end is not None) == (state, "e", state is ClaimState.FINISHED)


class Refusing(Changing):
    """A site that takes no job, in words of its own."""

    def submit(self, _: object) -> str:
        raise BatchError("come back with a project code")


@pytest.mark.parametrize("policy", ["all", "latest"])
def test_a_no_in_words_that_nobody_knows_is_tried_again_until_the_deadline(tmp_path: Path, policy: str) -> None:
    """Whatever the batch system: such words may be those of a closure that lasts for days."""
    at = time.gmtime(NOW)
    monthly = f'schedule: "{at.tm_min} {at.tm_hour} {at.tm_mday} * *", catch-up: {policy}, command: "true"'
    rows = f"backend: local\ntimezone: UTC\nentries:\n  e: {{{monthly}}}\n"
    site = of_settings(tmp_path / "cron", rows)
    refusing = replace(site, batch=Refusing(site.batch))  # type: ignore[arg-type]  # as strict as is needed
    told = []
    for later in (0, 3600, 86400 - 60, 86400 + 60, 10 * 86400):
        outcomes = ticked(refusing, NOW + later).outcomes
        told.append([(each.done, each.detail) for each in outcomes if isinstance(each.decision, Submit)])
    assert told == [[(Done.PASSING, "come back with a project code")]] * 5


class Early(Changing):
    """A site that drops --begin; what is moved has one. `moved`: the jobs, and when they are to begin.

    `answers`: how often it has listed a job.
    """

    def __init__(self, local: Local) -> None:
        super().__init__(local, start=None)
        self.moved: list[tuple[str, int]] = []
        self.answers = 0

    def queue(self) -> Queue:
        listed = super().queue()
        self.answers += bool(listed.jobs)
        return listed

    def move(self, job_id: str, at: int, *_: object) -> None:
        self.moved.append((job_id, at))


def test_where_a_site_drops_begin_a_run_ahead_of_its_slot_gets_it_again_before_its_release(site: Site) -> None:
    """It would run at once, hours before its slot; later ones need no look at the queue."""
    early = Early(site.batch)  # type: ignore[arg-type]  # as strict as is needed
    changed = replace(site, batch=early)  # type: ignore[arg-type]
    scheduler.mark_started(site.paths, Started(via=Way.CHAIN, fingerprint="f00d"))
    ticked(changed, NOW - 125)
    assert sorted(early.moved) == [("1", NOW - 5), ("2", NOW - 5)]
    assert "W343" in [problem.code for problem in ticked(changed, NOW - 65).problems]


def test_so_does_one_that_is_submitted_in_the_tick_that_has_found_it_out_by_what_a_killed_one_left_held(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = Early(site.batch)  # type: ignore[arg-type]  # as strict as is needed
    changed = replace(site, batch=early)  # type: ignore[arg-type]
    scheduler.mark_started(site.paths, Started(via=Way.CHAIN, fingerprint="f00d"))
    (site.paths.kill / "plain").touch()
    with monkeypatch.context() as patch:
        patch.setattr(submit.Releaser, "release_held", lambda *_: None)
        ticked(changed, NOW - 185)
    (site.paths.kill / "plain").unlink()
    ticked(changed, NOW - 125)
    assert sorted(early.moved) == [("1", NOW - 5), ("2", NOW - 5)]


@pytest.mark.parametrize(("a_job", "an_answer"), [(20, 0), (0, 40)], ids=["submitted", "asked the queue"])
def test_a_slot_that_came_while_the_tick_did_this_is_no_sign_that_a_site_drops_begin(
    site: Site, monkeypatch: pytest.MonkeyPatch, a_job: int, an_answer: int
) -> None:
    early = Early(site.batch)  # type: ignore[arg-type]  # as strict as is needed
    changed = replace(site, batch=early)  # type: ignore[arg-type]
    scheduler.mark_started(site.paths, Started(via=Way.CHAIN, fingerprint="f00d"))
    with monkeypatch.context() as patch:
        patch.setattr("cronhpc.tick.elapsed", lambda: 0)
        patch.setattr(
            "cronhpc.engine.submit.elapsed", lambda: a_job * len(site.batch.queue().jobs) + an_answer * early.answers
        )
        ticked(changed, NOW - 25)
    assert "W343" not in [problem.code for problem in ticked(changed, NOW + 30).problems]
    assert early.moved == []


def test_a_tick_whose_clock_is_behind_does_not_put_off_a_run_by_hand(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its slot is the instant of whoever ordered it: no time that its job has to wait for."""
    early = Early(site.batch)  # type: ignore[arg-type]  # as strict as is needed
    changed = replace(site, batch=early)  # type: ignore[arg-type]

    def refuse(_: object) -> None:
        raise BatchError("the controller is busy")

    with monkeypatch.context() as patch:
        patch.setattr(site.batch, "release", refuse)
        assert tick(changed, NOW + 12, Call(only="e")).outcomes[0].done is Done.PASSING
    (going,) = site.paths.claims.glob("e@*.r1.go")
    going.rename(going.with_suffix(".id"))  # as if the other tick had looked before that one came to its release
    ticked(changed, NOW + 3)
    assert not any(job.held for job in site.batch.queue().jobs)
    assert early.moved == []


def test_many_runs_take_no_more_listings_of_the_claims_than_few(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each run made a tick's time grow with the square of what is due."""
    rows = "\n".join(f'  e{n}: {{schedule: "*/30 * * * *", command: "true"}}' for n in range(12))
    many = of_settings(site.paths.root.parent / "many", f"backend: local\ntimezone: UTC\nentries:\n{rows}\n")
    listed: list[str] = []
    listdir = os.listdir

    def counted(path: str | int) -> list[str]:
        listed.append(str(path))
        return listdir(path)

    monkeypatch.setattr(os, "listdir", counted)
    for each in (site, many):
        ticked(each, NOW)
    assert len(many.batch.queue().jobs) == 12
    few = listed.count(os.fspath(site.paths.claims))
    assert listed.count(os.fspath(many.paths.claims)) == few > 0


class Ending(Changing):
    """A batch system that takes `taken` submissions, and then ends the tick's by `error`."""

    def __init__(self, local: Local, taken: int, error: BatchError) -> None:
        super().__init__(local)
        self.taken, self.error, self.asked = taken, error, 0

    def submit(self, job: Submission) -> str:
        self.asked += 1
        if self.asked > self.taken:
            raise self.error
        return self.local.submit(job)


@pytest.mark.parametrize(
    ("error", "tries"),
    [pytest.param(Unreachable("no answer"), 8, id="silence"), pytest.param(AtSubmitLimit("full"), 1, id="a limit")],
)
@pytest.mark.parametrize("parallel", [1, 4])
def test_after_an_error_of_a_long_burst_no_more_is_submitted_and_each_slot_says_so(
    site: Site, error: BatchError, tries: int, parallel: int
) -> None:
    rows = "".join(f"  more{n}: {{schedule: '*/30 * * * *', command: 'true'}}\n" for n in range(70))
    (site.paths.root / "cronhpc.yaml").write_text(f"{SETTINGS}{rows}scheduler: {{parallel: {parallel}}}\n")
    again = open_site(str(site.paths.root), "local", {"HOME": str(site.paths.root.parent)})
    tick(again, NOW - 1190)
    taken = 3 if parallel == 1 or tries == 1 else 0  # one that is taken late begins the count of lost replies anew
    ending = Ending(again.batch, taken, error)  # type: ignore[arg-type]  # as above
    done = [o for o in ticked(replace(again, batch=ending), NOW).outcomes if isinstance(o.decision, Submit)]  # type: ignore[arg-type]  # as above
    assert len({o.decision.entry.name for o in done if isinstance(o.decision, Submit)}) == len(done) == 72
    assert ending.asked < taken + tries + parallel
    assert sum(f"not tried: {error.text}" in o.detail for o in done) == len(done) - ending.asked


@pytest.mark.parametrize(
    ("error", "at_once"), [(AtSubmitLimit("full"), 1), (Unreachable("no answer"), 4)], ids=["a limit", "silence"]
)
def test_what_was_held_up_is_submitted_one_by_one_only_after_a_limit(
    site: Site, monkeypatch: pytest.MonkeyPatch, error: BatchError, at_once: int
) -> None:
    """After a burst that a slow sbatch, or a dead node, had cut short, the rest took its time as if under a limit."""
    ticked(replace(site, batch=Ending(site.batch, 0, error)), NOW)  # type: ignore[arg-type]  # as above
    asked = []

    def noted(call: Any, rows: Any, width: int) -> Any:
        asked.append(width)
        return side_by_side(call, rows, width)

    monkeypatch.setattr(submit, "side_by_side", noted)
    ticked(site, NOW + 130)
    assert asked == [at_once]


class StoppedMidway(Changing):
    """A batch system whose user says `cronhpc stop` during each submission."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.batch)  # type: ignore[arg-type]  # as above
        self.paths = site.paths

    def submit(self, job: Submission) -> str:
        scheduler.mark_stopped(self.paths, "alice")
        return self.local.submit(job)


def test_a_stop_in_mid_burst_ends_it_and_the_rest_is_due_after_the_next_start(site: Site) -> None:
    """What was submitted by then runs, as all runs do after `stop`."""
    (site.paths.root / "cronhpc.yaml").write_text(f"{SETTINGS}scheduler: {{parallel: 1}}\n")
    again = open_site(str(site.paths.root), "local", {"HOME": str(site.paths.root.parent)})
    scheduler.mark_started(again.paths, Started(via=Way.LOCAL))
    stopped = replace(again, batch=StoppedMidway(again))  # type: ignore[arg-type]  # as above
    done = {o.decision.entry.name: o for o in ticked(stopped, NOW).outcomes if isinstance(o.decision, Submit)}
    assert {name: (each.done, each.detail) for name, each in done.items()} == {
        "e": (Done.OK, ""), "plain": (Done.PASSING, "not tried: the scheduler was stopped meanwhile")
    }  # fmt: skip
    assert [job.held for job in again.batch.queue().jobs] == [False]
    scheduler.mark_started(again.paths, Started(via=Way.LOCAL))
    ticked(again, NOW + 60)
    assert [job.held for job in again.batch.queue().jobs] == [False, False]
