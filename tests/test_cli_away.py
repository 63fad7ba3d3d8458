"""A controller that does not answer: every command says so alike, and that the call may be made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from cronhpc.core.model import CronhpcError
from tests.test_cli import Shell, later
from tests.test_cli import shell as shell  # noqa: PLC0414 - a fixture

AWAY = "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
TRY_AGAIN = "Nothing is known to be wrong with the call: try again in a minute."


@pytest.fixture
def away(shell: Shell) -> Shell:
    folder = shell.home / "bin"
    folder.mkdir()
    for name in ("squeue", "sbatch", "scontrol", "scancel", "sinfo", "sacct", "sacctmgr"):
        (folder / name).write_text(f"#!/bin/sh\n{AWAY}\n")
        (folder / name).chmod(0o755)
    shell.environ["PATH"] = f"{folder}:{shell.environ['PATH']}"
    (shell.cron / "cronhpc.yaml").write_text("backend: slurm\nscheduler: {timeout: 2s}\n")
    shell.drop("cron.daily/backup.slurm")
    return shell


@pytest.mark.parametrize("words", ["run backup", "start", "stop", "tick", "plan", "status", "clean"])
def test_what_passes_by_itself_is_one_and_never_two(away: Shell, words: str) -> None:
    said = away(*words.split(), now=later())
    assert said.code == 1, said.out + said.err
    told = " ".join((said.out + said.err).split())
    assert "Unable to contact slurm controller" in told or "does not answer" in told


@pytest.mark.parametrize("words", ["start", "stop"])
def test_who_cannot_go_on_is_told_to_try_again(away: Shell, words: str) -> None:
    assert away(words, now=later()).err.endswith(TRY_AGAIN + "\n")
    assert TRY_AGAIN in away(words, "--json", now=later()).json["error"]


@pytest.mark.parametrize("words", ["run nobody", "start --dir /nonexistent", "status --colour"])
def test_what_is_wrong_with_the_call_is_two(shell: Shell, words: str) -> None:
    said = shell(*words.split())
    assert (said.code, TRY_AGAIN in said.err) == (2, False)


def test_another_start_at_work_passes(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from cronhpc.store import lease

    monkeypatch.setattr("cronhpc.start._PATIENCE", 0.1)
    assert lease.take(Path(shell.cron / "state" / "lease"), lease.myself("elsewhere", "", ""), lambda _: False) is None
    said = shell("start", now=later())
    assert (said.code, TRY_AGAIN in said.err) == (1, True)


@pytest.mark.parametrize("name", ["status", "run", "start"])
def test_the_help_says_what_codes_mean(shell: Shell, name: str) -> None:
    assert "1 something needs attention, or try again" in shell(name, "--help").out


def test_errors_are_for_good_unless_they_say_otherwise() -> None:
    assert CronhpcError.passing is False
