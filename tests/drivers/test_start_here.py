"""`start` where there is no batch system: a daemon of this machine, one alone, that `stop` ends."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess  # noqa: TID251 - a whole process, as a user starts it
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cronhpc.batch.local import Local
from cronhpc.core.model import (
    ClaimState,
    Done,
    Job,
    Obstacle,
    Outcome,
    Queue,
    SchedulerState,
    Started,
    Submit,
    Way,
    Withdraw,
)
from cronhpc.core.plan import plan
from cronhpc.cron.values import replace
from cronhpc.drivers import start
from cronhpc.drivers.start import another_daemon
from cronhpc.engine.site import open_site
from cronhpc.script.dialect import SLURM
from cronhpc.store import lease, scheduler
from cronhpc.store.files import Paths
from cronhpc.tick import Report
from tests.cli.test_cli import Shell, later
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture
from tests.worlds import chain, claim, entry, world


def cronhpc(root: Path, *words: str) -> str:
    argv = [sys.executable, "-m", "cronhpc", *words, "--dir", str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def lives(root: Path) -> bool:
    known = json.loads((root / "state" / "daemon.json").read_text(encoding="ascii"))
    return bool(lease.process_born(known["pid"])[1] == known["born"])


def until(condition: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.processes
def test_start_runs_one_daemon_and_stop_ends_it(tmp_path: Path) -> None:
    root = tmp_path / "cron"
    cronhpc(root, "init", "--backend", "local")
    try:
        assert "started the daemon" in cronhpc(root, "start")
        assert until((root / "status.json").exists)
        assert "chain   fine" in cronhpc(root, "status")
        assert "runs already" in cronhpc(root, "start")
    finally:
        cronhpc(root, "stop")
    assert until(lambda: not lives(root))


@pytest.mark.processes
def test_a_daemon_that_somebody_killed_is_told_at_once_and_brought_back(tmp_path: Path) -> None:
    root = tmp_path / "cron"
    cronhpc(root, "init", "--backend", "local")
    try:
        cronhpc(root, "start")
        assert until((root / "status.json").exists)
        pid = json.loads((root / "state" / "daemon.json").read_text(encoding="ascii"))["pid"]
        os.kill(pid, signal.SIGKILL)
        assert until(lambda: "chain   disabled: its daemon has ended" in cronhpc(root, "status"))
        cronhpc(root, "start", "--if-stale")
        assert lives(root)
        assert "chain   fine" in cronhpc(root, "status")
    finally:
        cronhpc(root, "stop")


# --- Slurm's commands are not loaded ---------------------------------------------------------------------------------

THIS = "scripts would run on THIS machine"


def test_init_without_sbatch_makes_nothing_and_asks_for_the_local_backend(shell: Shell, tmp_path: Path) -> None:
    """It made a local directory: `module load slurm` had been forgotten, and jobs ran on the login node."""
    said = shell("init", "--dir", str(tmp_path / "new"), PATH=str(tmp_path))
    assert said.code == 2
    assert THIS in said.err
    assert "--backend local" in said.err
    assert not (tmp_path / "new").exists()


def test_init_writes_what_runs_the_scripts(shell: Shell, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    program.touch(0o755)
    shell("init", "--dir", str(tmp_path / "new"), PATH=str(program.parent))
    assert "\nbackend: slurm\n" in (tmp_path / "new" / "cronhpc.yaml").read_text()


@pytest.mark.parametrize("words", [["start"], ["run", "hello"], ["tick"]], ids=lambda words: words[0])
def test_nothing_runs_on_this_machine_that_nobody_has_asked_for(shell: Shell, words: list[str], tmp_path: Path) -> None:
    (shell.cron / "cronhpc.yaml").write_text("timezone: UTC\n")
    shell.drop("cron.hourly/hello.slurm")
    said = shell(*words, PATH=str(tmp_path), now=later() + 7200)
    assert THIS in said.out + said.err
    assert not list((shell.cron / "state" / "local" / "jobs").glob("[0-9]*"))
    assert not (shell.cron / "state" / "daemon.json").exists()


# --- what cannot be had here, or is elsewhere -------------------------------------------------------------------------

WITHOUT_EFFECT = {
    "chain": (["--via", "chain"], "--via chain: on the local backend a daemon of this machine calls the ticks"),
    "login": (["--via", "login"], "Leave it out: cronhpc start"),
    "links ahead": (["--prequeue", "3"], "--prequeue 3: on the local backend"),
}


@pytest.mark.parametrize(("options", "words"), WITHOUT_EFFECT.values(), ids=WITHOUT_EFFECT)
def test_an_option_that_nothing_would_come_of_is_refused(shell: Shell, options: list[str], words: str) -> None:
    """It was passed over in silence."""
    said = shell("start", *options)
    assert said.code == 2
    assert words in said.err
    assert scheduler.started(Paths(shell.cron)) is None


def noted_on_another_machine(shell: Shell, now: int) -> str:
    """The note of a daemon that was begun there, and the tick that it has made."""
    paths = Paths(shell.cron)
    scheduler.mark_started(paths, Started(via=Way.LOCAL, at=now, by="me"))
    note = json.dumps({"version": 1, "pid": 4711, "born": "1", "host": "login1", "by_hand": False})
    (paths.state / "daemon.json").write_text(note)
    scheduler.expect(paths, now, now + 3600)
    return note


def test_a_daemon_of_another_machine_is_left_alone_while_its_ticks_come(shell: Shell) -> None:
    """One that was begun by hand here took its place in the notes, and `start` began a second one."""
    note = noted_on_another_machine(shell, now := later())
    said = shell("start", now=now + 60)
    assert said.code == 2
    assert "the daemon was begun on login1 (process 4711), and ticks come" in said.err
    assert "To have it here: cronhpc stop, then cronhpc start" in said.err
    by_hand = another_daemon(open_site(None, None, shell.environ), now + 60)
    words = "the daemon was begun on login1 (process 4711), and ticks come: of two, neither sees what the other runs"
    assert by_hand == words, "it said as well that they share the work"
    assert (shell.cron / "state" / "daemon.json").read_text() == note


@pytest.mark.parametrize("how", ["silent", "stopped"])
def test_a_daemon_of_another_machine_that_is_gone_is_followed_by_one_here(shell: Shell, how: str) -> None:
    noted_on_another_machine(shell, now := later())
    if how == "stopped":
        scheduler.mark_stopped(Paths(shell.cron), "me")
    after = 60 if how == "stopped" else 3601
    assert another_daemon(open_site(None, None, shell.environ), now + after) == ""
    assert json.loads((shell.cron / "state" / "daemon.json").read_text())["pid"] == os.getpid()


OF_AN_UPGRADE = {
    "begun by this version": (None, False, ""),
    "begun by `start` of a version before": ("/opt/cronhpc/venv-1/cronhpc", False, "cronhpc stop, then cronhpc start"),
    "begun by one that did not say which it is": ("", False, "cronhpc stop, then cronhpc start"),
    "begun by hand": ("", True, f"kill {os.getpid()}, then cronhpc daemon"),
}


@pytest.mark.parametrize(("code", "by_hand", "fix"), OF_AN_UPGRADE.values(), ids=OF_AN_UPGRADE)
def test_a_daemon_of_another_version_is_told(
    shell: Shell,
    code: str | None,
    by_hand: bool,  # noqa: FBT001 - a table's column
    fix: str,
) -> None:
    """After an upgrade neither `start` nor `status` said that the old one went on."""
    paths = Paths(shell.cron)
    scheduler.mark_started(paths, Started(via=Way.LOCAL, at=later(), by="me"))
    start._note_daemon(paths, os.uname().nodename, os.getpid(), by_hand=by_hand)
    if code is not None:
        note = json.loads((paths.state / "daemon.json").read_text())
        (paths.state / "daemon.json").write_text(json.dumps(note | {"code": code}))
    for words in ("start", "status"):
        said = " ".join(shell(words, now=later(), width=200).out.split())
        assert (f"the daemon, process {os.getpid()}, is of another version of cronhpc" in said) == bool(fix)
        assert fix in said


def test_stop_on_a_full_disk_ends_the_daemon_and_speaks_of_no_links(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(scheduler, "mark_stopped", full)
    said = shell("stop")
    assert said.code == 2
    assert "no daemon that can be ended from here is known" in said.err
    assert "link" not in said.err


# --- runs that wait ahead of their slots -----------------------------------------------------------------------------


def seen(shell: Shell, now: int) -> tuple[list[str], str, list[str]]:
    """Of the one entry: the slots that runs wait for, when it is next, and slots of LAST that are still to come."""
    known = shell("status", "--json", now=now).json
    [entry] = known["entries"]
    last = [entry["last"]["slot"]] if entry["last"] else []
    waiting = [run["slot"][11:16] for run in entry["runs"] if run["ahead"]]
    return waiting, (entry["next"] or "")[11:16], [slot for slot in last if slot > known["now"]]


def test_stop_does_not_tell_what_it_has_cancelled_as_still_to_run() -> None:
    """Behind a cached squeue it told so of all that waited, though their cancel had been taken."""
    slots = (("09:00", "1"), ("10:00", "2"), ("11:00", "3"), ("12:00", "4"))
    one, two, *cancelled = (claim("a", clock, ClaimState.RELEASED, job_id) for clock, job_id in slots)
    queue = Queue((Job("1", "PENDING", "a", ""), Job("2", "PENDING", "a", ""), Job("3", "CANCELLED", "a", "")))
    gone = Outcome(Withdraw(two.key, "a", "2", ""), Done.REFUSED, obstacle=Obstacle.SHOWN)
    still = "; the queue shows 1 of them, as it may for a minute; if it does later: scancel 2"
    seen = replace(world("08:00", claims=(one, two, *cancelled)), queue=queue)
    assert start._ahead_words(SLURM, seen, [gone]) == [
        f"cancelled 1 run that waited in the queue for a time to come{still}",
        "submitted ahead, and still to run: 1 job; if they shall not: scancel 1",
    ]


def test_start_under_a_limit_that_is_known_says_how_often_to_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing more was tried, so nothing met the limit: it told of the next day, and advised a tick an hour."""
    kept = SchedulerState(job_limit=3)
    seen = replace(world("08:00:10", entry("a", "*/10 * * * *"), chain=chain(via=Way.LOGIN)), kept=kept)
    planned = plan(seen)
    first = [d for d in planned.decisions if isinstance(d, Submit)]
    taken = [Outcome(each, Done.OK, job_id=str(number)) for number, each in enumerate(first[:-1])]
    lost = Outcome(first[-1], Done.PASSING, "no reply came", obstacle=Obstacle.NO_ANSWER)
    outcomes = (*taken, lost, Outcome(first[-1], Done.PASSING, "its folder is not there"))
    monkeypatch.setattr(start, "tick", lambda *_: Report(seen, planned, outcomes))
    monkeypatch.setattr(start, "directory_id", lambda _: "3")
    site: Any = SimpleNamespace(paths=Paths(tmp_path), settings=seen.settings)
    lines = start._first_tick(site, lambda: seen.now)
    assert lines[0].startswith(f"submitted {len(first) - 1} runs of the next 29 min, as no more jobs fit")
    assert lines[1:3] == ["no reply came", "not submitted: its folder is not there"]
    assert "at least every 20 min; a line for crontab -e" in lines[3]
    assert lines[4].startswith("  */20 * * * * ")


@pytest.mark.processes
@pytest.mark.parametrize("look", ["check", "status", "next"])
def test_the_owners_own_look_takes_back_what_waits_on_a_schedule_that_was_edited(shell: Shell, look: str) -> None:
    """It ran on the old one: the next link came an hour later. LAST then showed it as lost, before its time."""
    now = later() // 86400 * 86400 + 5 * 86400  # midnight: nothing ahead begins while this test runs
    (shell.cron / "cronhpc.yaml").write_text("backend: local\ntimezone: UTC\nscheduler: {ahead: 2h}\n")
    scheduler.mark_started(Paths(shell.cron), Started(via=Way.LOGIN, at=now, by="me"))
    file = shell.drop("cron.d/fit.slurm", "#CRON 30 * * * *")
    try:
        shell("tick", now=now)
        assert seen(shell, now + 20) == (["00:30", "01:30"], "00:30", [])
        file.write_text("#!/bin/bash\n#CRON 40 * * * *\ntrue\n")
        shell(look, now=now + 60)
        assert seen(shell, now + 61) == (["00:40", "01:40"], "00:40", [])
        (shell.cron / "pause" / "ALL").touch()
        shell(look, now=now + 120)
        assert seen(shell, now + 121) == ([], "00:40", [])
        (shell.cron / "pause" / "ALL").unlink()
        shell("tick", now=now + 180)
        assert seen(shell, now + 181) == (["00:40", "01:40"], "00:40", [])
    finally:
        shell("stop", now=now + 200)
    assert shell("tick", now=now + 240, terminal=True).out.startswith("stopped by cronhpc stop")


@pytest.mark.processes
def test_the_owners_own_look_on_a_machine_whose_clock_is_ahead_submits_nothing_before_its_time(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ticked by that clock, and every slot of those hours was used up."""
    now = later() // 86400 * 86400 + 5 * 86400
    (shell.cron / "cronhpc.yaml").write_text("backend: local\ntimezone: UTC\nscheduler: {ahead: 5h}\n")
    scheduler.mark_started(Paths(shell.cron), Started(via=Way.LOGIN, at=now, by="me"))
    file = shell.drop("cron.d/fit.slurm", "#CRON 30 */4 * * *")
    monkeypatch.setattr(Local, "clock", lambda _: now + 60)
    try:
        shell("tick", now=now)
        file.write_text("#!/bin/bash\n#CRON 40 */4 * * *\ntrue\n")
        shell("status", now=now + 7200)
        assert seen(shell, now + 61) == (["00:40", "04:40"], "00:40", [])
        for words in (["tick"], ["pause", "ALL"]):
            shell(*words, now=now + 7200)
            assert "W360" in (shell.cron / "status.json").read_text(), words
    finally:
        shell("stop", now=now + 200)


@pytest.mark.parametrize(
    ("ahead", "told"), [("10m", "10 min"), ("90m", "1 h"), ("2d", "48 h"), ("86h", "86 h"), ("500h", "500 h")]
)
def test_a_login_node_is_not_told_that_runs_are_queued_for_longer_than_they_are(
    shell: Shell, ahead: str, told: str
) -> None:
    (shell.cron / "cronhpc.yaml").write_text(f"scheduler: {{ahead: {ahead}}}\n")
    lines = start._first_tick(open_site(None, "local", shell.environ), later)
    assert lines[0].startswith(f"submitted 0 runs of the next {told};")
