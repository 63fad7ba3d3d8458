"""`start --if-stale` in a login script: it notices silence as `status` does, and a chain whose jobs are all gone."""

from __future__ import annotations

import subprocess  # noqa: TID251 - what a login's own process loads
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cronhpc.cli.chain import is_stale
from cronhpc.cli.console import Console
from cronhpc.core.chain import heard_until
from cronhpc.core.model import Job, LinkKind, LinkRecord, Queue, Started, Way
from cronhpc.store.files import Paths
from cronhpc.store.scheduler import (
    expect,
    expected,
    mark_started,
    mark_stopped,
    remember_admins_word,
    remember_link,
)
from tests.cli.test_cli import Shell, later
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture

MINUTE = 60
TOP = Path(__file__).resolve().parents[2]


def looks(shell: Shell, now: int) -> bool:
    console = Console(now, shell.environ, None, None, is_terminal=False)  # type: ignore[arg-type]  # nothing is said
    return is_stale(Paths(shell.cron), console)


INTERVALS = [
    pytest.param("5m", 9 * MINUTE, 10 * MINUTE, id="a short interval: ten minutes, not an hour and a half"),
    pytest.param("1h", 91 * MINUTE, 93 * MINUTE, id="the usual one"),
    pytest.param("6h", 9 * 60 * MINUTE, 10 * 60 * MINUTE, id="a long one: nothing is read for nine hours"),
]


@pytest.mark.parametrize(("interval", "well", "silent"), INTERVALS)
def test_silence_is_noticed_by_the_settings_interval(shell: Shell, interval: str, well: int, silent: int) -> None:
    (shell.cron / "cronhpc.yaml").write_text(f"backend: local\nscheduler: {{interval: {interval}}}\n")
    now = later()
    shell("tick", now=now)
    mark_started(Paths(shell.cron), Started(via=Way.CHAIN, at=now))
    assert [looks(shell, now + after) for after in (1, well, silent)] == [False, False, True]


def test_while_a_tick_is_not_overdue_what_is_broken_is_not_told_at_a_login(shell: Shell) -> None:
    """Whatever lies there: it is for those to say who ask."""
    now = later()
    expect(Paths(shell.cron), now, now + 60)
    (shell.cron / "cronhpc.yaml").write_text("{")
    (shell.cron / "status.json").write_text("{")
    assert shell("start", "--if-stale", now=now).code == 0
    assert shell("start", "--if-stale", now=now + 61).code == 0  # it was never started


def test_where_all_is_well_it_prints_nothing_and_an_answer_in_json(shell: Shell) -> None:
    now = later()
    expect(Paths(shell.cron), now, now + 60)
    assert shell("start", "--if-stale", now=now).out == ""
    well = {"version": 1, "ok": True, "done": [], "links": [], "undo": "", "errors": []}
    assert shell("start", "--if-stale", "--json", now=now).json == well


def test_what_was_stopped_or_never_started_is_not_stale(shell: Shell) -> None:
    paths, now = Paths(shell.cron), later()
    shell("tick", now=now)
    assert not looks(shell, now + 10**6)
    mark_started(paths, Started(via=Way.CHAIN, at=now))
    assert looks(shell, now + 10**6)
    mark_stopped(paths, "alice")
    assert not looks(shell, now + 10**6)


def test_a_chain_that_never_ticked_is_stale(shell: Shell) -> None:
    mark_started(Paths(shell.cron), Started(via=Way.CHAIN, at=later()))
    assert looks(shell, later())


def test_a_tick_dated_far_ahead_of_now_is_no_sign_of_life(shell: Shell) -> None:
    """A clock that was a year ahead, once: the chain had moved there, and a login took it for well until then."""
    now = later()
    for ahead, stale in ((600, False), (20 * 3600, True), (366 * 86400, True)):
        shell("tick", now=now + ahead)
        mark_started(Paths(shell.cron), Started(via=Way.LOCAL, at=now))
        assert looks(shell, now) == stale
        said = shell("status", now=now)
        assert ("by a clock that was wrong" in said.out, said.code) == (stale, int(stale)), said.out


def test_what_was_noted_is_read_back_and_moves_both_ways(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.scheduler.mkdir()
    assert expected(paths) is None
    for until in (heard_until(1_000_000, 300), 999_000, 4_000_000_000):
        expect(paths, 17, until)
        assert expected(paths) == (17, until)
    assert [path.name for path in paths.scheduler.iterdir()] == ["due"]


LISTS = """case $* in
  *--format=*) echo "$*" | sed 's/.*--format=//; s/%i %A/JOBID JOBID/' ;;
esac"""  # squeue's columns, and no job
GONE = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"
AWAY = "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
WAITS = "echo 'JobId=71 JobName=cronhpc-x JobState=PENDING Reason=BeginTime'"

QUEUES = [
    pytest.param(LISTS, GONE, {}, True, id="all were cancelled just after a tick: now, not in an hour and a half"),
    pytest.param(LISTS, GONE, {"via": Way.DAEMON}, True, id="the links of a daemon, too"),
    pytest.param(LISTS, GONE, {"via": Way.SCRONTAB}, False, id="the ticks come from a scrontab"),
    pytest.param(LISTS, GONE, {"via": Way.LOGIN}, False, id="no job calls the ticks"),
    pytest.param(LISTS, WAITS, {}, False, id="the list is an old one: the newest link is known to wait"),
    pytest.param(AWAY, AWAY, {}, False, id="the controller gives no answer: nobody knows"),
    pytest.param("exit 0", GONE, {}, False, id="squeue says nothing at all: no answer"),
]


@pytest.mark.processes
@pytest.mark.parametrize(("squeue", "scontrol", "how", "stale"), QUEUES)
def test_where_the_queue_answers_the_chain_is_dead_when_it_has_no_job_of_it(
    shell: Shell,
    squeue: str,
    scontrol: str,
    how: dict[str, Any],
    stale: bool,  # noqa: FBT001 - a table's column
) -> None:
    folder, paths, now = shell.home / "bin", Paths(shell.cron), later()
    folder.mkdir()
    for name, text in (("squeue", squeue), ("scontrol", scontrol), ("sbatch", AWAY), ("scancel", AWAY)):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    shell.environ["PATH"] = f"{folder}:{shell.environ['PATH']}"
    (shell.cron / "cronhpc.yaml").write_text("backend: slurm\nscheduler: {timeout: 30s}\n")
    mark_started(paths, replace(Started(via=Way.CHAIN, fingerprint="f00d", at=now), **how))
    remember_link(paths, "71", LinkRecord(LinkKind.SUCCESSOR, now + 3600, "f00d", now))
    expect(paths, now, heard_until(now, 3600))
    assert looks(shell, now + 1) == stale
    assert (paths.scheduler / "seen").exists() != stale, "the login hook needs no further look for a while"


ALONE = [
    pytest.param({}, True, id="the spare alone: slots would come up to an hour late"),
    pytest.param({"71": "PENDING"}, False, id="the successor, too"),
    pytest.param({"71": "RUNNING"}, False, id="the link runs, and queues its own successor"),
    pytest.param({"72": "RUNNING"}, False, id="the spare runs, and does"),
]


@pytest.mark.parametrize(("states", "stale"), ALONE)
def test_a_spare_that_waits_alone_is_no_chain(
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    states: dict[str, str],
    stale: bool,  # noqa: FBT001 - a table's column
) -> None:
    paths, now = Paths(shell.cron), later()
    (shell.cron / "cronhpc.yaml").write_text("backend: slurm\n")
    mark_started(paths, Started(via=Way.CHAIN, fingerprint="f00d", at=now - 9000))
    for job_id, kind in (("71", LinkKind.SUCCESSOR), ("72", LinkKind.SPARE)):
        remember_link(paths, job_id, LinkRecord(kind, now + 3600, "f00d", now - 600))
    expect(paths, now, heard_until(now, 3600))
    jobs = [Job(each, state, submitted=now - 600) for each, state in {"72": "PENDING", **states}.items()]
    monkeypatch.setattr("cronhpc.batch.slurm.Slurm.queue", lambda _: Queue(tuple(jobs)))
    assert looks(shell, now + 1) == stale


def test_an_administrators_word_is_no_death_of_the_chain(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, now = Paths(shell.cron), later()
    (shell.cron / "cronhpc.yaml").write_text("backend: slurm\n")
    mark_started(paths, Started(via=Way.CHAIN, at=now))
    expect(paths, now, heard_until(now, 3600))
    monkeypatch.setattr("cronhpc.batch.slurm.Slurm.queue", lambda _: Queue(()))
    assert looks(shell, now + 1)
    remember_admins_word(paths, "uid 0 cancelled job 71")
    assert not looks(shell, now + 1)


@pytest.mark.processes
def test_a_login_that_finds_all_well_loads_nothing_of_what_would_repair(shell: Shell) -> None:
    """Each login waits for it."""
    code = "import sys; from cronhpc.cli import main; print(main(sys.argv[1:])); print(*sys.modules)"
    argv = [sys.executable, "-c", code, "start", "--if-stale"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=TOP, env=shell.environ)
    code, modules = ended.stdout.split("\n", 1)
    assert code == "0"
    assert {name for name in modules.split() if name.startswith(("cronhpc.check", "cronhpc.drivers"))} == set()
