"""What a tick asks of the batch system because of switches: what, in which order, and what it leaves alone."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cronhpc import cli
from cronhpc.batch.port import AtSubmitLimit, BatchError, Ends, NoProgram, Submission, Unreachable
from cronhpc.batch.process import side_by_side
from cronhpc.cli import switches
from cronhpc.cli.console import Console
from cronhpc.core.identity import LATE
from cronhpc.core.model import (
    PAUSED,
    Accounting,
    Call,
    ClaimState,
    EntryState,
    Job,
    JobEnd,
    Key,
    LinkKind,
    LinkRecord,
    Outcome,
    Plan,
    Queue,
    Result,
    Started,
    Stop,
    Submit,
    Wait,
    Way,
    link_names,
    slot_text,
)
from cronhpc.drivers import start
from cronhpc.engine import init, submit
from cronhpc.engine.act import Actor
from cronhpc.engine.link import template
from cronhpc.engine.read import read_world
from cronhpc.engine.site import Site, directory_id, open_site
from cronhpc.script.dialect import SLURM
from cronhpc.store import history, scheduler
from cronhpc.store.claims import Claims
from cronhpc.store.files import Paths
from cronhpc.store.memory import load, save
from cronhpc.tick import Report, tick
from tests.view_situations import SPARE, WORLD
from tests.worlds import WithoutAccounting, at, job, waits_for, write_end

NOW = at("14:00:30")


class Fake(WithoutAccounting):
    """A batch system that notes what is asked; what no switch may ask it has not got."""

    dialect = SLURM

    def __init__(self, *queues: Sequence[Job]) -> None:
        self.queues = list(queues)
        self.asked: list[str] = []
        self.submitted: list[Submission] = []
        self.scrontab: frozenset[str] | BatchError = frozenset()
        self.fails: dict[str, BatchError] = {}
        self.ends: dict[str, JobEnd] = {}
        self.says = Accounting()
        self.asked_ends: list[tuple[str, ...]] = []
        self.when_submitting: Callable[[], object] = lambda: None

    def _note(self, verb: str, *words: str) -> None:
        self.asked.append(" ".join((verb, *words)))
        if verb in self.fails:
            raise self.fails[verb]

    def tools(self) -> str:
        return ""

    def queue(self) -> Queue:
        return Queue(tuple(self.queues.pop(0) if len(self.queues) > 1 else self.queues[0]))

    def restarts(self) -> Mapping[str, int]:
        self._note("restarts?")
        return {"7": 3}

    def live_files(self) -> tuple[()]:
        return ()

    def job_ends(self, job_ids: Sequence[str], *_: object) -> Ends:
        self.asked_ends.append(tuple(job_ids))
        return Ends({each: self.ends[each] for each in job_ids if each in self.ends}, self.says)

    def of_scrontab(self, job_ids: Sequence[str]) -> frozenset[str]:
        self._note("scrontab?", *job_ids)
        if isinstance(self.scrontab, BatchError):
            raise self.scrontab
        return self.scrontab

    def cancel(self, job_ids: Sequence[str], *, pending_only: bool = False) -> None:
        self._note("cancel pending" if pending_only else "cancel", *job_ids)

    def signal(self, job_ids: Sequence[str], name: str) -> None:
        self._note("signal", name, *job_ids)

    def hold(self, job_ids: Sequence[str], comment: str) -> None:
        self._note("hold", *job_ids, repr(comment))

    def unhold(self, job_ids: Sequence[str], comment: str) -> None:
        self._note("unhold", *job_ids, repr(comment))

    def submit(self, job: Submission) -> str:
        assert job.held or job.no_requeue, "a run"
        self.when_submitting()
        self._note("submit")
        self.submitted.append(job)
        return "900"

    def move(self, job_id: str, *_: object) -> None:
        self._note("move", job_id)

    def release(self, job_ids: Sequence[str]) -> None:
        self._note("release", *job_ids)


SETTINGS = """backend: local
timezone: UTC
kill: {switches: {tr: {jobs: {name: "tr-*"}, warn: USR1@5m}}}
entries:
  e: {schedule: "0 0 1 1 *", command: "true"}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    init.init(tmp_path / "cron", {})
    (tmp_path / "cron" / "cronhpc.yaml").write_text(SETTINGS)
    return tmp_path / "cron"


def site_of(root: Path, fake: Fake) -> Site:
    return replace(open_site(str(root), "local", {"HOME": str(root.parent)}), batch=fake)  # type: ignore[arg-type]  # as strict as is needed


def ticked(root: Path, fake: Fake, now: int = NOW, only: str = "") -> Report:
    report = tick(site_of(root, fake), now, Call(only=only))
    assert isinstance(report, Report)
    return report


def outcomes(report: Report, kind: type) -> list[Outcome]:
    return [each for each in report.outcomes if isinstance(each.decision, kind)]


TASK = job(57, name="tr-x", tasks="0")
WAITING = job(57, "PENDING", name="tr-x", tasks="[1-9]", reason="Resources")


def test_pending_tasks_go_first_and_the_signal_comes_when_none_is_left(root: Path) -> None:
    (root / "kill" / "tr").touch()
    fake = Fake([TASK, WAITING], [TASK])
    ticked(root, fake)
    assert fake.asked == ["scrontab? 57", "cancel pending 57", "signal USR1 57"]
    assert load(root / "state" / "entries.json").scheduler.warned == {"57": NOW}


def test_where_nobody_is_warned_what_begins_while_the_switch_acts_ends_as_well(root: Path) -> None:
    """A cancel of what waits alone left it running, and `kill` said that it was cancelled."""
    (root / "kill" / "ft").touch()
    fake = Fake([job(8, "PENDING", name="ft", reason="Priority"), job(9, name="ft")])
    ticked(root, fake)
    assert fake.asked == ["scrontab? 8 9", "cancel 8 9"]


def test_while_a_task_is_still_pending_nothing_is_signalled(root: Path) -> None:
    """scancel would try for 95 s, and send the signal ten times."""
    (root / "kill" / "tr").touch()
    fake = Fake([TASK, WAITING])
    report = ticked(root, fake)
    assert fake.asked == ["scrontab? 57", "cancel pending 57"]
    [_, warning] = outcomes(report, Stop)
    assert (str(warning.done), "still pending" in warning.detail) == ("refused", True)
    assert load(root / "state" / "entries.json").scheduler.warned == {}
    fake = Fake([TASK])
    ticked(root, fake, NOW + 120)
    assert fake.asked == ["scrontab? 57", "signal USR1 57"]


def test_after_the_grace_it_ends_and_a_switch_that_went_forgets_its_warning(root: Path) -> None:
    (root / "kill" / "tr").touch()
    ticked(root, Fake([TASK]))
    fake = Fake([TASK])
    ticked(root, fake, NOW + 299)
    assert fake.asked == ["scrontab? 57"]
    ticked(root, fake, NOW + 300)
    assert fake.asked[-1] == "cancel 57"
    (root / "kill" / "tr").unlink()
    ticked(root, Fake([TASK]), NOW + 310)
    (root / "kill" / "tr").touch()
    fake = Fake([TASK])
    ticked(root, fake, NOW + 400)
    assert fake.asked == ["scrontab? 57", "signal USR1 57"]


def test_a_scrontabs_own_job_is_left_and_said(root: Path) -> None:
    (root / "kill" / "ft").touch()
    fake = Fake([job(8, name="ft"), job(9, name="ft")])
    fake.scrontab = frozenset({"8"})
    report = ticked(root, fake)
    assert fake.asked == ["scrontab? 8 9", "cancel 9"]
    [stop] = [each.decision for each in outcomes(report, Stop)]
    assert isinstance(stop, Stop)
    assert stop.left_alone == ("8",)


def test_where_nobody_can_say_whose_they_are_nothing_is_cancelled(root: Path) -> None:
    (root / "kill" / "ft").touch()
    fake = Fake([job(8, name="ft")])
    fake.scrontab = Unreachable("no answer")
    ticked(root, fake)
    assert fake.asked == ["scrontab? 8"]
    fake.scrontab = frozenset()
    ticked(root, fake, NOW + 60)
    assert fake.asked[1:] == ["scrontab? 8", "cancel 8"]


def test_thousands_of_jobs_are_stopped_in_several_ticks(root: Path) -> None:
    """A question for each that is not ours must not hold the tick up."""
    (root / "kill" / "ft").touch()
    jobs = [job(n, name="ft") for n in range(1, 1201)]
    for now, left in ((NOW, 700), (NOW + 60, 200), (NOW + 120, 0)):
        fake = Fake(jobs)
        [stop] = [each.decision for each in outcomes(ticked(root, fake, now), Stop)]
        assert isinstance(stop, Stop)
        assert len(stop.unasked) == left
        jobs = [each for each in jobs if each.id not in stop.running]


def test_what_a_switch_has_not_ended_is_in_the_status(root: Path) -> None:
    (root / "kill" / "ft").touch()
    fake = Fake([job(8, "COMPLETING", name="ft", nodes="gpu1"), job(9, name="ft")])
    fake.scrontab = frozenset({"9"})
    ticked(root, fake)
    known = json.loads((root / "status.json").read_text())
    [row] = [row for row in known["attention"] if row["kind"] == "switch"]
    assert row["what"].endswith("; still ending: 8 on gpu1; a scrontab's own, left alone: 9")
    (root / "kill" / "ft").rename(root / "kill" / "tr")
    ticked(root, Fake([TASK]), NOW + 60)
    known = json.loads((root / "status.json").read_text())
    [switch] = known["switches"]
    assert (switch["warned"], switch["ends"]) == (["57"], None)
    ticked(root, Fake([TASK]), NOW + 120)
    [switch] = json.loads((root / "status.json").read_text())["switches"]
    assert (switch["warned"], switch["ends"]) == (["57"], "2026-11-27T14:06:30Z")


def test_a_suspension_is_its_owners_to_lift(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write switches can stop jobs, and start none."""
    memory = load(root / "state" / "entries.json")
    memory.entries["e"] = EntryState(watermark=NOW - 60, failures=3, suspended=NOW - 60)
    save(root / "state" / "entries.json", memory)
    site = site_of(root, Fake([]))
    ticked(root, Fake([]))
    for mine, words in ((False, f"which {site.user} alone can lift"), (True, "its suspension is lifted")):
        monkeypatch.setattr(Paths, "is_mine", mine)
        out = io.StringIO()
        cli.main(["--dir", str(root), "resume", "e"], Console(NOW, {}, out, out, is_terminal=False))
        assert words in out.getvalue()
        assert load(root / "state" / "entries.json").entries["e"].suspended == (None if mine else NOW - 60)


def test_without_a_switch_nothing_is_asked_beyond_the_queue(root: Path) -> None:
    fake = Fake([job(8, name="ft"), TASK, WAITING])
    ticked(root, fake)
    assert fake.asked == []


def test_a_cancel_without_an_answer_is_tried_again_and_not_said_to_be_done(root: Path) -> None:
    (root / "kill" / "ft").touch()
    fake = Fake([job(8, name="ft")])
    fake.fails["cancel"] = Unreachable("Socket timed out")
    assert [str(each.done) for each in outcomes(ticked(root, fake), Stop)] == ["failed, stays due"]
    assert list(history.rows(root / "state" / "history")) == []
    fake.fails = {}
    ticked(root, fake, NOW + 60)
    [row] = history.rows(root / "state" / "history")
    assert (row["jobs"], row["at"]) == (["8"], NOW + 60)


def test_tasks_with_the_same_comment_are_held_and_freed_in_one_call(root: Path) -> None:
    mark = PAUSED + directory_id(open_site(str(root), "local", {}).paths)
    (root / "pause" / "ft").touch()
    same = [job(n, "PENDING", name="ft", reason="Resources", comment="mine") for n in (8, 9)]
    fake = Fake([*same, job(10, "PENDING", name="ft", reason="Priority")])
    ticked(root, fake)
    assert fake.asked == ["scrontab? 8 9 10", f"hold 8 9 '{mark} mine'", f"hold 10 '{mark} '"]
    (root / "pause" / "ft").unlink()
    fake = Fake([replace(each, **waits_for("JobHeldUser"), comment=f"{mark} mine") for each in same])
    ticked(root, fake, NOW + 60)
    assert fake.asked == ["unhold 8 9 'mine'"]


def test_a_switch_set_while_we_submit_keeps_the_job_from_its_release(root: Path) -> None:
    fake = Fake([])
    fake.when_submitting = lambda: (root / "kill" / "e").write_text("not now")
    report = ticked(root, fake, only="e")
    assert fake.asked == ["submit", "cancel pending 900"]
    [submitted] = outcomes(report, Submit)
    assert (str(submitted.done), "not now" in submitted.detail) == ("refused", True)
    fake = Fake([])
    ticked(root, fake, NOW + 60)
    assert fake.asked == [], "it is not submitted again"
    [row] = [row for row in history.rows(root / "state" / "history") if row["what"] == "run"]
    assert (row["result"], row["detail"]) == (Result.STOPPED, f"kill/e, by {row['detail'].split()[2]} not now")
    assert load(root / "state" / "entries.json").entries["e"].failures == 0


def test_a_run_whose_log_was_planted_is_released_by_no_tick_also_where_it_could_not_be_cancelled(root: Path) -> None:
    planted = root / "log" / "e" / "20261127T140030Z-900.out"
    fake = Fake([])
    fake.when_submitting = lambda: planted.symlink_to(root.parent / "precious")
    fake.fails = {"cancel pending": Unreachable("no answer")}
    ticked(root, fake, only="e")
    assert fake.asked == ["submit", "cancel pending 900"]
    token = f"cronhpc={directory_id(site_of(root, fake).paths)}/e@20261127T140030Z.r1"
    fake = Fake([job(900, "PENDING", reason="JobHeldUser", comment=token)])
    ticked(root, fake, NOW + 60)
    assert fake.asked == ["cancel pending 900"]
    fake = Fake([])
    ticked(root, fake, NOW + 120)
    assert fake.asked == []
    [row] = [row for row in history.rows(root / "state" / "history") if row["what"] == "run"]
    assert (row["result"], f"rm {planted}" in row["detail"]) == (Result.REFUSED, True)


def test_a_switch_folder_that_went_while_we_submit_keeps_it_held_until_somebody_knows(root: Path) -> None:
    team = root.parent / "team"
    team.mkdir()
    (root / "cronhpc.yaml").write_text(SETTINGS.replace("kill: {", f"kill: {{also: [{team}], "))
    fake = Fake([])
    fake.when_submitting = lambda: team.rename(root.parent / "away")
    report = ticked(root, fake, only="e")
    assert fake.asked == ["submit"]
    [submitted] = outcomes(report, Submit)
    assert "cannot be read" in submitted.detail
    (root.parent / "away").rename(team)
    token = f"cronhpc={directory_id(site_of(root, fake).paths)}/e@20261127T140030Z.r1"
    fake = Fake([job(900, "PENDING", reason="JobHeldUser", comment=token)])
    ticked(root, fake, NOW + 60)
    assert fake.asked == ["release 900"]


def test_an_unlisted_switch_folder_lets_nothing_be_submitted(root: Path) -> None:
    (root / "cronhpc.yaml").write_text(SETTINGS.replace("kill: {", "kill: {also: [/nowhere/kill], "))
    fake = Fake([])
    report = ticked(root, fake, only="e")
    assert fake.asked == []
    assert outcomes(report, Wait)


IN_THE_WAY = {
    "a file where a folder belongs": (
        lambda state: (state / "history").write_text("x"),
        "Something else has that name: move it away; ",
    ),
    "a folder where a file belongs": (
        lambda state: (state.parent / "status.json").mkdir(),
        "A folder has that name: move it away; ",
    ),
}


@pytest.mark.parametrize(("put", "fix"), IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_what_cannot_be_written_for_a_name_in_the_way_is_not_called_a_full_disk(
    root: Path, put: Callable[[Path], object], fix: str
) -> None:
    shutil.rmtree(root / "state" / "history", ignore_errors=True)
    (root / "status.json").unlink(missing_ok=True)
    put(root / "state")
    (root / "kill" / "tr").touch()
    report = ticked(root, Fake([TASK]))
    [problem] = [each for each in report.problems if each.code == "E330"]
    assert problem.fix.startswith(fix)


# --- limits --------------------------------------------------------------------------------------------------------


def test_a_limit_asks_for_one_more_look_and_that_look_for_the_next_link_in_two_minutes(root: Path) -> None:
    """The next link came with the next slot, which is the deadline of this one."""
    (root / "cronhpc.yaml").write_text(SETTINGS.replace("0 0 1 1 *", "0 14 * * *"))
    fake = Fake([])
    fake.fails = {"submit": AtSubmitLimit("QOSMaxSubmitJobPerUserLimit")}
    now = (int(time.time()) // 86400 + 2) * 86400 + 14 * 3600 + 30  # noqa: TID251 - the entry was born by this clock
    first = ticked(root, fake, now)
    assert first.unreachable == "QOSMaxSubmitJobPerUserLimit"
    second = ticked(root, fake, now + 45)
    assert [str(each.done) for each in outcomes(second, Submit)] == ["failed, stays due"]
    assert (second.unreachable, second.plan.wake - now) == ("", 45 + 120)


SILENCE = Unreachable("Socket timed out on send/recv operation")


@pytest.mark.parametrize(
    ("answers", "submitted", "asked"),
    [
        pytest.param([SILENCE, None, None] * 8, 16, 24, id="a third of the replies are lost: the others go on"),
        pytest.param([None, *[SILENCE] * 23], 1, 9, id="the batch system goes away: it is left alone"),
        pytest.param([None, NoProgram("sbatch is not there")] * 12, 1, 2, id="its commands go away"),
    ],
)
def test_a_lost_reply_keeps_no_other_run_waiting(
    root: Path, answers: list[BatchError | None], submitted: int, asked: int
) -> None:
    rows = (f'  f{n}: {{schedule: "0 14 * * *", command: "true"}}\n' for n in range(24))
    (root / "cronhpc.yaml").write_text(f"scheduler: {{parallel: 1}}\n{SETTINGS}{''.join(rows)}")
    fake, queue = Fake([]), iter(answers)

    def answer() -> None:
        error = next(queue)
        fake.fails = {"submit": error} if error else {}

    fake.when_submitting = answer
    now = (int(time.time()) // 86400 + 2) * 86400 + 14 * 3600 + 30  # noqa: TID251 - the entries were born by this clock
    report = ticked(root, fake, now)
    assert fake.asked.count("submit") == asked
    assert [bool(each.job_id) for each in outcomes(report, Submit)].count(True) == submitted
    assert report.unreachable  # another look soon finds what was submitted all the same


@pytest.mark.parametrize(
    ("seconds", "submitted", "again"),
    [
        pytest.param(20, 3, True, id="no time is left"),
        pytest.param(11, 5, False, id="the last one took the rest of it"),
    ],
)
def test_a_tick_that_has_no_time_for_all_is_looked_after_soon(
    root: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, submitted: int, *, again: bool
) -> None:
    """The next link came ten minutes later."""
    rows = (f'  f{n}: {{schedule: "0 14 * * *", command: "true"}}\n' for n in range(5))
    (root / "cronhpc.yaml").write_text(f"scheduler: {{parallel: 1}}\n{SETTINGS}{''.join(rows)}")
    fake = Fake([])
    monkeypatch.setattr("cronhpc.engine.submit.elapsed", lambda: seconds * len(fake.submitted))
    now = (int(time.time()) // 86400 + 2) * 86400 + 14 * 3600 + 30  # noqa: TID251 - the entries were born by this clock
    report = ticked(root, fake, now)
    assert (len(fake.submitted), bool(report.unreachable)) == (submitted, again)


@pytest.mark.parametrize(
    ("started", "tried"),
    [pytest.param(-600, False, id="started before"), pytest.param(-60, True, id="started since")],
)
def test_a_spare_that_a_limit_has_forbidden_is_tried_again_by_start(root: Path, started: int, *, tried: bool) -> None:
    site = site_of(root, Fake([]))
    scheduler.mark_started(site.paths, Started(via=Way.CHAIN, fingerprint="f00d", at=NOW + started))
    memory = load(site.paths.entries)
    memory.scheduler.no_spare, memory.scheduler.no_spare_at = "QOSMaxSubmitJobPerUserLimit", NOW - 300
    save(site.paths.entries, memory)
    assert (read_world(site, NOW).world.kept.no_spare == "") == tried


def test_since_when_a_limit_leaves_no_place_is_kept_until_another_link_has_found_one(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, now = site_of(root, Fake([])), NOW - NOW % 3600 + 600
    of = directory_id(site.paths)
    scheduler.mark_started(site.paths, Started(via=Way.CHAIN, fingerprint="f00d", at=now - 600))
    monkeypatch.setattr(Actor, "_refused_link", lambda *_: "")

    def link(job_id: int, state: str) -> Job:
        return job(job_id, state, name=link_names(of)[0], comment=f"cronhpc={of}/link {now} f00d", start=now)

    def full_since(at: int, fake: Fake, caller: str) -> int:
        tick(site_of(root, fake), at, Call(link=caller))
        return load(site.paths.entries).scheduler.full_since

    full = Fake([link(7, "RUNNING")])
    full.fails = {"submit": AtSubmitLimit("QOSMaxSubmitJobPerUserLimit")}
    site.paths.script.write_text("sbatch --begin=uts$at\n")
    assert full_since(now, full, "7") == 0, "a text of an earlier version: it ends with this link"
    assert scheduler.links(site.paths) == {}
    site.paths.script.write_text(template("slurm"))
    assert full_since(now, full, "7") == now
    assert scheduler.links(site.paths)["7"].slot > now, "its text reads there when to come"
    assert full_since(now + 60, Fake([link(7, "PENDING")]), "") == now
    assert full_since(now + 3600, full, "7") == now
    assert full_since(now + 3660, Fake([link(8, "PENDING")]), "") == 0


@pytest.mark.parametrize("silent", [False, True], ids=["at once", "after a tick without an answer"])
@pytest.mark.parametrize("refused", ["spare", "link"])
def test_what_waits_as_a_link_has_met_a_limit_is_submitted_one_by_one(
    root: Path, refused: str, monkeypatch: pytest.MonkeyPatch, *, silent: bool
) -> None:
    rows = SETTINGS.replace("0 0 1 1 *", "0 14 * * *")
    (root / "cronhpc.yaml").write_text(rows + '  f: {schedule: "0 14 * * *", command: "true"}\n')
    now = (int(time.time()) // 86400 + 2) * 86400 + 14 * 3600 + 30  # noqa: TID251 - the entry was born by this clock
    of, fake = directory_id(site_of(root, Fake([])).paths), Fake([])
    scheduler.mark_started(Paths(root), Started(via=Way.CHAIN, fingerprint="f00d", at=now - 600))
    there = [job(7, "PENDING", name=link_names(of)[0], comment=f"cronhpc={of}/link {now + 600} f00d", start=now + 600)]
    fake.queues = [there if refused == "spare" else []]
    fake.fails = {"submit": AtSubmitLimit("QOSMaxSubmitJobPerUserLimit")}
    monkeypatch.setattr(Actor, "_refused_link", lambda *_: "")
    assert [each.detail[:9] for each in outcomes(ticked(root, fake, now), Submit)] == ["not tried"] * 2
    if silent:
        fake.fails = {"submit": Unreachable("no answer")}
        ticked(root, fake, now + 60)
    widths = []

    def noted(call: Any, rows: Any, width: int) -> Any:
        widths.append(width)
        return side_by_side(call, rows, width)

    monkeypatch.setattr(submit, "side_by_side", noted)
    fake.fails = {}
    ticked(root, fake, now + 120)
    assert widths == [1]


@pytest.mark.parametrize(
    ("taken", "gives_way"),
    [
        pytest.param(0, True, id="no run fits beside the chain"),
        pytest.param(1, False, id="the runs of this very tick have filled it"),
    ],
)
def test_the_spare_gives_way_where_no_run_fits_beside_the_chain_alone(
    root: Path, taken: int, *, gives_way: bool
) -> None:
    rows = SETTINGS.replace("0 0 1 1 *", "0 14 * * *")
    (root / "cronhpc.yaml").write_text(rows + '  f: {schedule: "0 14 * * *", command: "true"}\n')
    now = (int(time.time()) // 86400 + 2) * 86400 + 14 * 3600 + 30  # noqa: TID251 - the entry was born by this clock
    of = directory_id(site_of(root, Fake([])).paths)
    names = zip((7, 8), ("link", "spare"), link_names(of), strict=True)
    fake = Fake([job(n, "PENDING", name=name, comment=f"cronhpc={of}/{kind} 1 x") for n, kind, name in names])
    limit = {"submit": AtSubmitLimit("QOSMaxSubmitJobPerUserLimit")}
    answers: list[dict[str, AtSubmitLimit]] = [{}] * taken + [limit] * 2
    fake.when_submitting = lambda: setattr(fake, "fails", answers.pop(0))
    report = ticked(root, fake, now)
    assert [bool(each.job_id) for each in outcomes(report, Submit)].count(True) == taken
    assert load(root / "state" / "entries.json").scheduler.no_submit_slot == gives_way


@pytest.mark.parametrize(
    ("state", "nodes", "dropped"),
    [
        pytest.param("RUNNING", "cpu1", True, id="it runs"),
        pytest.param("CANCELLED", "cpu1", True, id="it ran, and was cancelled"),
        pytest.param("CANCELLED", "", False, id="it was cancelled as it waited, held"),
        pytest.param("PENDING", "", False, id="it waits"),
    ],
)
def test_a_hold_is_called_dropped_where_a_run_began_before_it_was_recorded(
    root: Path, state: str, nodes: str, *, dropped: bool
) -> None:
    of, key = directory_id(site_of(root, Fake([])).paths), Key("e", NOW - 630)
    assert Claims(root / "state" / "claims").make(key, "e", "a tick", NOW - 600)
    run = job(57, state, nodes=nodes, comment=f"cronhpc={of}/{key}")
    codes = {each.code for each in ticked(root, Fake([run])).problems}
    assert ("W342" in codes) == dropped


def test_an_end_counts_once_however_often_its_claim_is_read(root: Path) -> None:
    """While it waits for a further attempt, and where the disk did not let it go."""
    claims = Claims(root / "state" / "claims")
    first, second = (Key("e", NOW - seconds - NOW % 60) for seconds in (600, 60))
    for key, retry in ((first, None), (second, NOW + 600)):
        assert claims.make(key, "e", "a tick", NOW)
        write_end(claims, key, "e", JobEnd(Result.FAILED, 1, node="cpu1"), "7", now=NOW, retry_at=retry)
    for look in range(3):
        ticked(root, Fake([]), NOW + look)
        write_end(claims, first, "e", JobEnd(Result.FAILED, 1, node="cpu1"), "7", now=NOW)
    state = load(root / "state" / "entries.json").entries["e"]
    assert (state.failures, state.nodes) == (1, ("cpu1", "cpu1")), "a slot failed, and one attempt of another"
    (file,) = (root / "state" / "history").iterdir()
    assert len(file.read_text().splitlines()) == 2


def test_a_failure_whose_further_attempt_a_newer_slot_supersedes_counts_and_is_told_once(root: Path) -> None:
    script = root / "cron.d" / "r.slurm"
    script.write_text("#!/bin/bash\n#CRON * * * * * --retries=1\nfalse\n")
    os.utime(script, (NOW - 900, NOW - 900))
    claims, key = Claims(root / "state" / "claims"), Key("r", NOW - 120 - NOW % 60)
    assert claims.make(key, "r", "a tick", NOW - 100)
    write_end(claims, key, "r", JobEnd(Result.FAILED, 1, node="cpu1"), "7", now=NOW - 98, retry_at=NOW - 80)
    for now, failures in ((NOW - 95, 0), (NOW + 5, 1)):
        ticked(root, Fake([]), now)
        state = load(root / "state" / "entries.json").entries["r"]
        assert (state.failures, state.nodes) == (failures, ("cpu1",))
    rows = [row for row in history.rows(root / "state" / "history") if row.get("key") == str(key)]
    assert [row["result"] for row in rows] == ["failed"]


def test_a_further_attempt_of_an_array_submits_the_tasks_that_failed(root: Path) -> None:
    script = root / "cron.d" / "sweep.slurm"
    script.write_text("#!/bin/bash\n#SBATCH --array=1-4%2\n#CRON 0 0 1 1 * --retries=1\ntrue\n")
    os.utime(script, (NOW - 900, NOW - 900))
    claims, key = Claims(root / "state" / "claims"), Key("sweep", NOW - 600 - NOW % 60)
    assert claims.make(key, "sweep", "a tick", NOW - 600)
    write_end(claims, key, "sweep", JobEnd(Result.FAILED, 1, tasks="1,3"), "7", now=NOW, retry_at=NOW)
    fake = Fake([])
    ticked(root, fake, int(script.stat().st_ctime) + 60)
    assert [each.options[-1] for each in fake.submitted] == ["--array=1,3%2"]
    (second,) = (each for each in claims.read(()) if each.key.attempt == 2)
    assert second.tasks == "1,3", "should this submission be cut off, the next one knows"


def test_how_often_a_run_began_anew_is_asked_only_where_its_submit_time_says_that_one_did(root: Path) -> None:
    assert Claims(root / "state" / "claims").make(Key("e", NOW - 30), "e", "a tick", NOW - 20)
    Claims(root / "state" / "claims").record(Key("e", NOW - 30), "7", NOW - 20)
    fake = Fake([job(7, "PENDING", name="e", submitted=NOW - 21, reason="JobHeldUser")])
    assert read_world(site_of(root, fake), NOW).world.queue == Queue(tuple(fake.queues[0]))
    assert fake.asked == []
    fake = Fake([job(7, "PENDING", name="e", submitted=NOW + 300, reason="BeginTime")])
    queue = read_world(site_of(root, fake), NOW + 360).world.queue
    assert queue is not None
    assert ([each.restarts for each in queue.jobs], fake.asked) == ([3], ["restarts?"])


def test_an_end_that_was_given_up_is_corrected_when_accounting_tells_it(root: Path) -> None:
    """With the next question that is asked anyway, within a day: an idle tick asks nothing."""
    claims, fake = Claims(root / "state" / "claims"), Fake([])
    fake.says = Accounting(exists=True)
    for job_id, begin in (("7", NOW), ("8", NOW + 3 * LATE)):
        key = Key("e", begin - 3600 - 30)
        assert claims.make(key, "e", "a tick", key.slot)
        claims.record(key, job_id, key.slot)
        claims.step(key, ClaimState.RELEASING)
        claims.step(key, ClaimState.RELEASED)
        for after in (0, 130, 130 + LATE):  # two looks, then accounting is waited for
            ticked(root, fake, begin + after)
        results = {row["job"]: row["result"] for row in history.rows(root / "state" / "history")}
        assert results[job_id] == str(Result.UNKNOWN)
        fake.asked_ends.clear()
        ticked(root, fake, begin + LATE + 200)
        assert fake.asked_ends == [], "nothing has ended: nobody is asked"
        fake.ends = {"7": JobEnd(Result.OK, 0, ended=NOW - 3000)}
    results = {row["job"]: row["result"] for row in history.rows(root / "state" / "history")}
    assert results == {"7": "ok", "8": str(Result.UNKNOWN)}
    assert set(load(root / "state" / "entries.json").scheduler.given_up) == {f"e@{slot_text(NOW + 3 * LATE - 3630)}.1"}


@pytest.mark.parametrize(
    ("cluster", "asked"),
    [
        pytest.param(
            "alps", ["cancel 11"], id="where it was started, its last link, which is not listed yet, goes by its id"
        ),
        pytest.param("jura", [], id="on another cluster of the same home that id is another job's"),
    ],
)
def test_stop_ends_by_its_id_what_is_in_this_cluster_s_queue(root: Path, cluster: str, asked: list[str]) -> None:
    site = site_of(root, fake := Fake([job(8)]))
    fake.cluster_name = lambda: cluster  # type: ignore[attr-defined]
    scheduler.mark_started(site.paths, Started(Way.CHAIN, "f00d", at=NOW - 600, cluster="alps"))
    scheduler.remember_link(site.paths, "11", LinkRecord(LinkKind.SUCCESSOR, NOW + 600, "f00d", NOW - 20))
    for _ in range(2):
        stopped = start.stop(site, {}, lambda: NOW)
        assert stopped.ok
    assert fake.asked == 2 * asked
    assert ("alps" in " ".join(stopped.lines)) == (cluster != "alps")


@pytest.mark.parametrize(
    ("reason", "job_id", "said"),
    [
        pytest.param("JobHeldUser", "", ["to cancel: scancel 9"], id="its reply was lost: it would wait for ever"),
        pytest.param("JobHeldUser", "9", ["to cancel: scancel 9"], id="… or its tick died before the release"),
        pytest.param("Priority", "9", [], id="it was released: runs go on"),
    ],
)
def test_stop_names_the_held_jobs_that_no_tick_will_release(
    root: Path, reason: str, job_id: str, said: list[str]
) -> None:
    key = Key("e", NOW - 60)
    site = site_of(root, fake := Fake([]))
    fake.queues = [[job(9, "PENDING", comment=f"cronhpc={directory_id(site.paths)}/{key}", reason=reason)]]
    scheduler.mark_started(site.paths, Started(Way.CHAIN, "f00d", at=NOW - 600))
    claims = Claims(site.paths.claims)
    claims.make(key, "e", "a tick", NOW - 60)
    if job_id:
        claims.record(key, job_id, NOW - 60)
    if reason == "Priority":
        claims.step(key, ClaimState.RELEASING)
        claims.step(key, ClaimState.RELEASED)
    stopped = start.stop(site, {}, lambda: NOW)
    assert [line.partition("1 job; ")[2] for line in stopped.lines] == said
    assert fake.asked == []


@pytest.mark.parametrize(
    ("waiting", "fix"),
    [
        pytest.param((SPARE,), "", id="the spare alone, whose tick comes late"),
        pytest.param((), "cronhpc start", id="no scheduler job"),
    ],
)
def test_that_nobody_acts_later_is_said_only_where_no_tick_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: tuple[Job, ...], fix: str
) -> None:
    monkeypatch.setattr(Console, "keeps_series_only", lambda *_: False)
    world = replace(WORLD, queue=Queue(waiting))
    report = SimpleNamespace(world=world, plan=Plan((), world.now), outcomes=())
    console = Console(world.now, {}, io.StringIO(), io.StringIO(), is_terminal=False)
    assert str(switches._nobody(report, Paths(tmp_path), console) or "") == fix  # type: ignore[arg-type] # what is asked
