"""A controller that does not answer: every command says so alike, and that the call may be made again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cronhpc.core.model import CronhpcError
from cronhpc.store import lease
from tests.cli.test_cli import Shell, later
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture

AWAY = "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
TRY_AGAIN = "Nothing is known to be wrong with the call: try again in a minute."


@pytest.fixture
def unreachable(shell: Shell) -> Shell:
    folder = shell.home / "bin"
    folder.mkdir()
    for name in ("squeue", "sbatch", "scontrol", "scancel", "sinfo", "sacct", "sacctmgr"):
        (folder / name).write_text(f"#!/bin/sh\n{AWAY}\n")
        (folder / name).chmod(0o755)
    shell.environ["PATH"] = f"{folder}:{shell.environ['PATH']}"
    (shell.cron / "cronhpc.yaml").write_text("backend: slurm\nscheduler: {timeout: 2s}\n")
    shell.drop("cron.daily/backup.slurm")
    return shell


@pytest.mark.processes
@pytest.mark.parametrize("words", ["run backup", "start", "stop", "tick", "plan", "status", "clean"])
def test_what_passes_by_itself_is_one_and_never_two(unreachable: Shell, words: str) -> None:
    said = unreachable(*words.split(), now=later())
    assert said.code == 1, said.out + said.err
    told = " ".join((said.out + said.err).split())
    assert "Unable to contact slurm controller" in told or "does not answer" in told


@pytest.mark.processes
@pytest.mark.parametrize("words", ["start", "stop"])
def test_who_cannot_go_on_is_told_to_try_again(unreachable: Shell, words: str) -> None:
    assert unreachable(words, now=later()).err.endswith(TRY_AGAIN + "\n")
    assert TRY_AGAIN in unreachable(words, "--json", now=later()).json["error"]


def test_where_slurms_commands_are_not_loaded_no_minute_helps(unreachable: Shell) -> None:
    unreachable.environ["PATH"] = str(unreachable.home / "none")
    said = unreachable("start", now=later())
    assert said.code == 2
    assert said.err.endswith("Load Slurm's commands first (module load slurm).\n")
    assert ".." not in unreachable("stop", now=later()).err


@pytest.mark.processes
@pytest.mark.parametrize("words", ["start", "stop", "run backup", "status", "kill backup"])
@pytest.mark.parametrize("text", ["#!/bin/sh\nlibslurm", "#!/no/such/shell\n"], ids=["its wrapper fails", "no program"])
def test_commands_that_cannot_begin_lead_to_a_start_from_a_good_shell(
    unreachable: Shell, text: str, words: str
) -> None:
    for name in ("squeue", "sbatch", "scontrol", "scancel", "sinfo", "sacct", "sacctmgr"):
        (unreachable.home / "bin" / name).write_text(text)
    said = unreachable(*words.split(), now=later())
    told = " ".join((said.out + said.err).split())
    assert said.code in {1, 2}
    assert f"{unreachable.home}/bin/" in told
    assert "From a shell in which Slurm's commands work: cronhpc start" in told


@pytest.mark.parametrize("words", ["run nobody", "start --dir /nonexistent", "status --colour"])
def test_what_is_wrong_with_the_call_is_two(shell: Shell, words: str) -> None:
    said = shell(*words.split())
    assert (said.code, TRY_AGAIN in said.err) == (2, False)


@pytest.mark.processes
def test_a_run_by_hand_that_sbatch_did_not_answer_stays_due_and_says_so(unreachable: Shell) -> None:
    """Ordered once more it would run twice: the next tick submits it."""
    for name in ("squeue", "scontrol", "sinfo"):
        header = "case $* in *--format=*) echo \"$*\" | sed 's/.*--format=//; s/%i %A/JOBID JOBID/' ;; esac"
        (unreachable.home / "bin" / name).write_text(f"#!/bin/sh\n{header}\n")
    said = unreachable("run", "backup", now=later())
    assert said.code == 1
    assert "backup: no reply came, and its job may be there: the next tick sees it (" in said.err
    assert "the next tick submits it: do not order it once more; now: cronhpc tick" in said.err


@pytest.mark.parametrize("seconds_ago", [0, 120], ids=["at work, or just killed", "killed two minutes ago"])
@pytest.mark.parametrize("words", ["tick", "start", "stop", "run backup"])
def test_beside_a_process_of_another_machine_that_keeps_the_lease(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, words: str, seconds_ago: int
) -> None:
    """It goes on without the lease; the one that nobody gives back is told, and does not cost a wait each time."""
    monkeypatch.setattr("cronhpc.store.lease._WAITS", 60.0 if seconds_ago else 0.1)
    monkeypatch.setattr("cronhpc.batch.process.start", lambda *_, **__: os.getpid())  # no daemon
    monkeypatch.setattr("cronhpc.drivers.start.local_daemon", lambda *_: (None, ""))
    shell.drop("cron.daily/backup.slurm")
    path = Path(shell.cron / "state" / "lease")
    assert lease.take(path, lease.myself("login9", "", ""), lambda _: False) is None
    os.utime(path, (path.stat().st_mtime - seconds_ago,) * 2)
    assert shell(*words.split(), now=later()).code == 0
    told = "the lease of process" in shell("status", now=later()).out
    assert told == bool(seconds_ago)


@pytest.mark.parametrize("name", ["status", "run", "start"])
def test_the_help_says_what_codes_mean(shell: Shell, name: str) -> None:
    assert "1 look at it, or try again" in shell(name, "--help").out


def test_errors_are_for_good_unless_they_say_otherwise() -> None:
    assert CronhpcError.passing is False


@pytest.mark.skipif(os.getuid() != 0, reason="root may write anywhere, and another user is needed")
@pytest.mark.parametrize("command", ["status", "check", "doctor"])
def test_a_folder_that_has_lost_its_write_permission_is_told_before_a_tick_meets_it(shell: Shell, command: str) -> None:
    shell(command)  # what it imports is loaded: that user may not reach this installation
    for each in (shell.home, *shell.home.parents):
        each.chmod(each.stat().st_mode | 0o011)
    for each in (shell.cron, *shell.cron.rglob("*")):
        os.chown(each, 54321, 54321)
        each.chmod(0o700)
    (shell.cron / "state" / "claims").mkdir(exist_ok=True)
    (shell.cron / "state" / "claims").chmod(0o555)
    os.setresuid(54321, 54321, 0)
    try:
        said = shell(command)
    finally:
        os.setresuid(0, 0, 0)
    assert f"you cannot write in {shell.cron}/state/claims: " in said.out + said.err
    assert "mounted read-only" in said.out + said.err
