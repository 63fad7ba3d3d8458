"""How runs ended, on a real Slurm: with accounting, and with nothing but what the controller remembers.

Both clusters run the same entries at the same time, so the minute of a time limit is waited for once.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cronhpc.batch.slurm import Slurm
from cronhpc.core import identity
from cronhpc.core.model import EntryState, HistoryRow
from cronhpc.store import memory
from tests.engine.test_notify import Server
from tests.engine.test_notify import server as server  # noqa: PLC0414 - a fixture
from tests.lab.conftest import Lab, MakeLab, start, stop
from tests.lab.helpers_team import Team

pytestmark = pytest.mark.lab
USERS = ["alice", "bob"]
_FRESH = 3.2  # a file that changed just now is left for the next look
SLEEP = "touch $CRONHPC_DIR/up-$CRONHPC_ENTRY; sleep 300"
_COUNTING = """#!/bin/sh
echo {name} >>{log}
exec {real} "$@"
"""


@dataclass
class Night(Team):
    """alice's cron directory, in which every entry has one slot: the minute that has just passed."""

    calls: Path = field(default_factory=Path)  # what the last ticks called, one a line

    @property
    def env(self) -> dict[str, str]:
        """Slurm's queries are counted on their way."""
        return {**super().env, "PATH": f"{self.place}/bin:{os.environ['PATH']}"}

    def count_queries(self) -> None:
        folder, self.calls = self.place / "bin", self.place / "calls"
        folder.mkdir()
        self.calls.touch()
        self.calls.chmod(0o666)
        for name in ("squeue", "sacct"):
            real = self.lab.run(["bash", "-c", f"command -v {name}"]).stdout.strip()
            path = folder / name
            path.write_text(_COUNTING.format(name=name, log=self.calls, real=real), encoding="utf-8")
            path.chmod(0o755)

    def entry(self, name: str, body: str, options: str = "", policies: str = "") -> None:
        """One with its slot a minute ago: a new file has none before it was put there, so a tick is made to know it."""
        slot = (int(time.time()) // 60 - 1) * 60
        at = datetime.fromtimestamp(slot, UTC)
        schedule = f"{at.minute} {at.hour} * * *"
        lines = ["#!/bin/bash", f"#SBATCH {options}" if options else "", f"#CRON {schedule} {policies}", body]
        path = self.root / "cron.d" / f"{name}.slurm"
        path.write_text("\n".join([*filter(None, lines), ""]), encoding="utf-8")
        os.utime(path, (slot, slot))
        known = memory.load(self.root / "state" / "entries.json")
        key = f"{schedule}|UTC|"
        known.entries[name] = EntryState(watermark=slot - 60, schedule_key=key, next_slot=slot)
        memory.save(self.root / "state" / "entries.json", known)
        shutil.chown(self.root / "state" / "entries.json", "alice")

    def went_well_on(self, name: str, node: str) -> None:
        known = memory.load(self.root / "state" / "entries.json")
        known.entries[name] = replace(known.entries[name], well_on=node)
        memory.save(self.root / "state" / "entries.json", known)
        shutil.chown(self.root / "state" / "entries.json", "alice")

    def looked_earlier(self, seconds: int) -> None:
        """The looks that missed a job, as if they had been so much earlier."""
        known = memory.load(self.root / "state" / "entries.json")
        known.scheduler.absent = {job: at - seconds for job, at in known.scheduler.absent.items()}
        memory.save(self.root / "state" / "entries.json", known)
        shutil.chown(self.root / "state" / "entries.json", "alice")

    def rows(self, name: str) -> list[Any]:
        """Its runs, newest first."""
        return [row for row in self.history() if row.get("entry") == name and row["what"] == "run"]

    def history(self) -> list[HistoryRow]:
        from cronhpc.store import history

        return list(history.rows(self.root / "state" / "history"))

    def job_of(self, name: str) -> str:
        (job,) = (row["id"] for row in self.lab.squeue("alice") if f"/{name}@" in row["comment"])
        return job

    def is_up(self, name: str) -> bool:
        return (self.root / f"up-{name}").exists()

    def ended(self, *but: str) -> Callable[[], bool]:
        """Whether none of its runs is in the queue any more, but those named."""

        def check() -> bool:
            left = [row["comment"] for row in self.lab.squeue("alice")]
            return not [comment for comment in left if not any(f"/{name}@" in comment for name in but)]

        return check


def night(lab: Lab, folder: Path) -> Night:
    made: Night = Night.make(lab, folder)  # type: ignore[assignment]  # `make` gives what it is called on
    made.settings("timezone: UTC\nbackend: slurm\n")
    return made


# --- every way to end ----------------------------------------------------------------------------------------------

ENDS = {
    "fine": ("echo well", ""),
    "code": ("exit 3", ""),
    "crash": ("kill -9 $$", ""),
    "long": (SLEEP, "--time=1"),
    "node": (SLEEP, "-w cpu3 --no-requeue"),
    "nolog": ("true", "--output=/nonexistent/folder/%j.out"),
    "mine": (SLEEP, ""),
    "roots": (SLEEP, ""),
    "array": ("exit $((SLURM_ARRAY_TASK_ID == 2))", "--array=1-3"),
}
SLEEPERS = ("long", "node", "mine", "roots")


@pytest.fixture(scope="module")
def nights() -> Iterator[dict[bool, Night]]:
    """Without and with accounting: all have ended, and one tick has looked at them."""
    labs = {known: start(users=USERS, accounting=known) for known in (False, True)}
    made = {}
    try:
        for known, lab in labs.items():
            made[known] = night(lab, _place())
            for name, (body, options) in ENDS.items():
                made[known].entry(name, body, options)
        time.sleep(_FRESH)
        for one in made.values():
            one.tick()
        for one in made.values():
            _end_them(one)
        for one in made.values():
            one.lab.wait_for(one.ended(), 300, every=0.5)
            one.count_queries()
        nights_lab = made[True].lab
        nights_lab.wait_for(lambda: accounted(nights_lab, len(ENDS) + 2))  # it is late by seconds
        for one in made.values():
            one.tick()
        yield made
    finally:
        for lab in labs.values():
            stop(lab)
        for one in made.values():
            shutil.rmtree(one.place)


def accounted(lab: Lab, tasks: int) -> bool:
    """Whether accounting knows how each of so many jobs and tasks of arrays has ended."""
    states = lab.run(["sacct", "-a", "-n", "-X", "-P", "-S", "now-1hour", "-o", "State"]).stdout.splitlines()
    return len(states) == tasks and not {"PENDING", "RUNNING", "COMPLETING"} & set(states)


def _place() -> Path:
    """A folder of alice's that every node reaches."""
    folder = Path(tempfile.mkdtemp(prefix="lab-user-"))
    folder.chmod(0o755)
    shutil.chown(folder, "alice", "alice")
    return folder


def _end_them(one: Night) -> None:
    lab = one.lab
    lab.wait_for(lambda: all(one.is_up(name) for name in SLEEPERS))
    lab.run(["scancel", one.job_of("mine")], "alice")
    lab.run(["scancel", one.job_of("roots")])
    lab.kill_node("cpu3")
    lab.down_node("cpu3")


@pytest.mark.parametrize("accounting", [False, True], ids=["without accounting", "with accounting"])
@pytest.mark.parametrize(
    ("name", "result", "facts", "detail"),
    [
        pytest.param("fine", "ok", {"exit_code": 0}, "", id="it went well"),
        pytest.param("code", "failed", {"exit_code": 3}, "", id="an exit code"),
        pytest.param("crash", "failed", {"signal": 9}, "", id="a signal"),
        pytest.param("long", "timed out", {}, "", id="its time limit"),
        pytest.param("node", "node failed", {"node": "cpu3"}, "", id="its node died"),
        pytest.param("nolog", "failed", {}, "no log was produced", id="it could not be launched"),
        pytest.param("mine", "cancelled", {}, "by alice", id="cancelled by its user"),
        pytest.param("roots", "cancelled", {}, "by root", id="cancelled by root"),
        pytest.param("array", "failed", {"exit_code": 1}, "array tasks: 2 failed", id="one task of an array failed"),
    ],
)
def test_an_end_is_told_from_the_others(
    nights: dict[bool, Night], name: str, result: str, facts: dict[str, Any], detail: str, *, accounting: bool
) -> None:
    (row,) = nights[accounting].rows(name)
    assert row["result"] == result, row
    assert {key: row.get(key) for key in facts} == facts
    if accounting or "by " not in detail:  # who cancelled a job is known to accounting alone
        assert detail in row.get("detail", "")


@pytest.mark.parametrize("accounting", [False, True], ids=["without accounting", "with accounting"])
def test_times_and_node_are_known(nights: dict[bool, Night], *, accounting: bool) -> None:
    for name in set(ENDS) - {"nolog"}:
        (row,) = nights[accounting].rows(name)
        assert row["slot"] <= row["submitted"] <= row["started"] <= row["ended"] <= time.time()
        assert row["node"].startswith("cpu")
        assert row["log"].startswith(f"log/{name}/")
    (long,) = nights[accounting].rows("long")
    assert 55 <= long["ended"] - long["started"] <= 120


@pytest.mark.parametrize("accounting", [False, True], ids=["without accounting", "with accounting"])
def test_each_source_was_asked_once_for_all_of_them(nights: dict[bool, Night], *, accounting: bool) -> None:
    """Nine runs ended: the queue, their exits, and where there is accounting one sacct."""
    calls = nights[accounting].calls.read_text().split()
    assert calls.count("squeue") == 2
    assert calls.count("sacct") == 1


@pytest.mark.parametrize("accounting", [False, True], ids=["without accounting", "with accounting"])
def test_a_further_tick_has_nothing_left_to_ask_and_records_nothing_twice(
    nights: dict[bool, Night], *, accounting: bool
) -> None:
    one = nights[accounting]
    before = len(one.history())
    one.calls.write_text("")
    one.tick()
    assert one.calls.read_text().split() == ["squeue"]
    assert len(one.history()) == before


def test_what_jobs_of_a_name_used_is_known_to_accounting(nights: dict[bool, Night]) -> None:
    """How the scheduler's own cost is found: by its links' names."""
    since = int(time.time()) - 3600
    used = Slurm(nights[True].lab.env).used(("long.slurm", "no-such-name"), since)
    assert used is not None
    assert used[0] == 1
    assert 55 <= used[1] <= 8 * 120
    assert Slurm(nights[False].lab.env).used(("long.slurm",), since) is None


def test_history_and_status_say_it(nights: dict[bool, Night]) -> None:
    shown = nights[True].cronhpc("history")
    assert "cancelled by root" in shown
    assert "no log was produced" in shown
    said = nights[True].cronhpc("status", "crash")
    assert "failed by signal 9" in said
    assert json.loads(nights[True].cronhpc("history", "--state", "failed", "--json"))["runs"]


# --- what is easily mistaken ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("accounting", [False, True], ids=["without accounting", "with accounting"])
def test_a_job_id_that_was_used_again_is_not_mistaken(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path], *, accounting: bool
) -> None:
    """A controller that lost its state counts from the beginning: another job has the id of our run, and fails."""
    lab = make_lab(users=USERS, accounting=accounting)
    one = night(lab, cluster_user_dir("alice"))
    one.entry("work", SLEEP)
    time.sleep(_FRESH)
    one.tick()
    lab.wait_for(lambda: one.is_up("work"))
    ours = one.job_of("work")
    node = lab.run(["squeue", "-h", "-j", ours, "-o", "%N"]).stdout.strip()
    lab.kill_controller()
    lab.kill_node(node)  # while it has a job of that number it starts no other one of it, and Slurm holds that for ever
    lab.start_controller(clean=True)
    lab.start_node(node)
    other = ""
    while other != ours:
        other = one.submit("exit 7")
        assert int(other) <= int(ours), "the ids did not start anew"
    lab.wait_ended(other)
    if accounting:
        lab.wait_for(lambda: "FAILED" in lab.run(["sacct", "-n", "-X", "-P", "-j", other, "-o", "State"]).stdout)
    one.tick()
    for row in one.rows("work"):
        assert row.get("exit_code") != 7, row
    if not accounting:
        assert [row["result"] for row in one.rows("work")] == ["ended, outcome unknown"]


def test_a_run_that_records_its_own_end_is_known_after_the_controller_forgot_it(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
) -> None:
    lab = make_lab(users=USERS, min_job_age=5)
    one = night(lab, cluster_user_dir("alice"))
    one.entry("told", "echo printed; exit 4", policies="--record")
    one.entry("well", "true", policies="--record")
    one.entry("term", "kill -TERM $$", policies="--record")
    one.entry("silent", "exit 4")
    time.sleep(_FRESH)
    one.tick()
    lab.wait_for(one.ended())
    lab.wait_for(lambda: not lab.squeue("alice", "all"), every=0.5)
    one.tick()
    assert one.rows("silent") == [], "the queue does not show it: one look says nothing yet"
    one.looked_earlier(identity.TWO_LOOKS)
    one.tick()
    ends = {name: one.rows(name)[0] for name in ("told", "well", "term", "silent")}
    assert {name: row["result"] for name, row in ends.items()} == {
        "told": "failed",
        "well": "ok",
        "term": "failed",
        "silent": "ended, outcome unknown",
    }
    assert (ends["told"]["exit_code"], ends["term"]["signal"]) == (4, 15)
    assert ends["told"]["node"]
    assert (one.root / ends["told"]["log"]).read_text() == "printed\n"
    assert not list((one.root / "state" / "ends").iterdir()), "what was read is swept"


def test_a_run_tells_its_start_from_its_node_once_and_the_tick_its_end(alone: Night, server: Server) -> None:
    """Of an array the first task does."""
    address = alone.root / "address"
    address.write_text(f"{server.url}/uuid\n")
    address.chmod(0o600)
    shutil.chown(address, "alice")
    body = "echo up >>$CRONHPC_DIR/begun; until [ -e $CRONHPC_DIR/over ]; do sleep 0.2; done"
    alone.entry("pinged", body, "--array=1-3 --time=5 --comment=mine", f"--ping=file:{address}")
    time.sleep(_FRESH)
    alone.tick()
    alone.lab.wait_for(lambda: server.asked == ["/uuid/start"])
    alone.lab.wait_for(lambda: (alone.root / "begun").read_text().count("up") == 3)
    shown = alone.lab.run(["scontrol", "show", "job", "-o"], "alice").stdout
    assert "TimeLimit=00:05:00" in shown, "the script's own options count"
    assert "JobName=pinged.slurm" in shown
    assert "uuid" not in shown
    alone.tick()
    (alone.root / "over").touch()
    alone.lab.wait_for(alone.ended())
    alone.lab.wait_for(lambda: bool(alone.tick()) and server.asked != ["/uuid/start"])
    assert server.asked == ["/uuid/start", "/uuid"]
    assert [row["result"] for row in alone.rows("pinged")] == ["ok"]


# --- held, retries, suspension -------------------------------------------------------------------------------------


@pytest.fixture
def alone(lab: Lab, cluster_user_dir: Callable[..., Path]) -> Iterator[Night]:
    yield night(lab, cluster_user_dir("alice"))
    lab.drain_queue()


def test_held_runs_are_said_to_be_held_and_by_whom(alone: Night) -> None:
    """By the script's own wish, and by an administrator."""
    alone.entry("own", "true", "--hold")
    alone.entry("later", "true", "--begin=now+1hour")
    time.sleep(_FRESH)
    alone.tick()
    alone.lab.run(["scontrol", "hold", alone.job_of("later")])
    own, later = alone.cronhpc("status", "own"), alone.cronhpc("status", "later")
    assert f"is held: JobHeldUser. Let it go: scontrol release {alone.job_of('own')}" in own
    assert "is held: JobHeldAdmin" in later
    assert alone.rows("own") == []


def test_a_failed_run_is_tried_again_and_counts_once(alone: Night) -> None:
    alone.entry("again", "exit 1", policies="--retries=1 --retry-delay=1s --suspend-after=1")
    time.sleep(_FRESH)
    for _ in range(2):
        alone.tick()
        alone.lab.wait_for(alone.ended())
    time.sleep(1.2)
    alone.tick()
    alone.lab.wait_for(alone.ended())
    alone.tick()
    rows = alone.rows("again")
    assert [(row["attempt"], row["result"]) for row in rows] == [(2, "failed"), (1, "failed")]
    (entry,) = alone.json("status")["entries"]
    assert entry["failures"] == 1
    assert entry["suspended"] is not None
    assert "It is suspended" in alone.cronhpc("status", "again")
    alone.cronhpc("resume", "again")
    assert alone.json("status")["entries"][0]["suspended"] is None


def test_a_further_attempt_of_an_array_runs_the_tasks_that_failed(alone: Night) -> None:
    """Two at a time, as its script says."""
    body = 'touch "$CRONHPC_DIR/ran-$CRONHPC_ATTEMPT-$SLURM_ARRAY_TASK_ID"\n'
    body += '[ "$CRONHPC_ATTEMPT" = 2 ] || exit $((SLURM_ARRAY_TASK_ID % 2))'
    alone.entry("sweep", body, "--array=1-4%2", policies="--retries=1")
    time.sleep(_FRESH)
    for _ in range(3):
        alone.tick()
        alone.lab.wait_for(alone.ended())
    alone.tick()
    assert [(row["attempt"], row["result"]) for row in alone.rows("sweep")] == [(2, "ok"), (1, "failed")]
    ran = sorted(path.name.removeprefix("ran-") for path in alone.root.glob("ran-*"))
    assert ran == ["1-1", "1-2", "1-3", "1-4", "2-1", "2-3"]


def test_a_run_that_slurm_puts_back_into_the_queue_is_shown_with_its_restarts(alone: Night) -> None:
    alone.entry("anew", SLEEP, "--requeue")
    time.sleep(_FRESH)
    alone.tick()
    alone.lab.wait_for(lambda: alone.is_up("anew"))
    job = alone.job_of("anew")
    record = next((alone.root / "state" / "claims").glob("anew@*.run"))
    earlier = json.loads(record.read_text())["at"] - 120
    for path in (record, next((alone.root / "state" / "claims").glob("anew@*.1"))):  # as if it had been submitted then
        path.write_text(json.dumps({**json.loads(path.read_text()), "at": earlier}), encoding="utf-8")
    alone.lab.run(["scontrol", "requeue", job])
    alone.lab.wait_for(lambda: {"Restarts": "1", "JobState": "PENDING"}.items() <= alone.lab.job(job).items())
    assert f"Job {job}" in (shown := alone.cronhpc("status", "anew"))
    assert "restarted once" in shown
    (row,) = alone.json("history", "anew")["runs"]
    assert (row["result"], row["detail"].partition(";")[0]) == ("pending", "restarted once")


def test_a_preempted_run_is_tried_again_and_is_no_failure_of_its_script(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
) -> None:
    lab = make_lab(users=USERS, nodes=1, gpu_nodes=0, conf=["PreemptType=preempt/partition_prio", "PreemptMode=CANCEL"])
    for name, tier in (("low", 1), ("high", 10)):
        lab.run(["scontrol", "create", f"PartitionName={name}", "Nodes=cpu1", "MaxTime=60", f"PriorityTier={tier}"])
    one = night(lab, cluster_user_dir("alice"))
    one.entry("guest", SLEEP, "--partition=low --exclusive", policies="--retries=1 --retry-delay=1h --suspend-after=1")
    time.sleep(_FRESH)
    one.tick()
    lab.wait_for(lambda: one.is_up("guest"))
    job = one.job_of("guest")
    other = lab.submit("--partition=high", "--exclusive", "--output=/dev/null", "--wrap", "true")
    lab.wait_ended(job, other)
    one.tick()
    (row,) = one.rows("guest")
    assert row["result"] == "preempted"
    (entry,) = one.json("status")["entries"]
    assert (entry["failures"], entry["suspended"]) == (0, None)
    assert "preempted" in one.cronhpc("status")
    assert [each["retry_at"] for each in _finished(one)] == [row["ended"] + 3600]


def _finished(one: Night) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (one.root / "state" / "claims").glob("guest@*")]


def test_a_killed_run_is_neither_a_failure_nor_tried_again(alone: Night) -> None:
    alone.entry("victim", SLEEP, policies="--retries=3 --suspend-after=1")
    time.sleep(_FRESH)
    alone.tick()
    alone.lab.wait_for(lambda: alone.is_up("victim"))
    (alone.root / "kill" / "victim").write_text("enough\n")
    alone.tick()
    alone.lab.wait_for(alone.ended())
    alone.tick()
    (row,) = alone.rows("victim")
    assert row["result"] == "killed"
    (entry,) = alone.json("status")["entries"]
    assert (entry["failures"], entry["suspended"]) == (0, None)


def test_the_node_that_failures_share_is_named(alone: Night) -> None:
    alone.entry("picky", "exit 1", "-w cpu2", policies="--retries=1 --retry-delay=0")
    alone.went_well_on("picky", "cpu1")
    time.sleep(_FRESH)
    for _ in range(4):
        alone.tick()
        alone.lab.wait_for(alone.ended())
    assert "add: #SBATCH --exclude=cpu2" in alone.cronhpc("status", "picky")
