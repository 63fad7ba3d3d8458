"""Commands, run in this process as a user runs them, on the local backend."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from cronhpc import cli
from cronhpc.batch.local import Local
from cronhpc.cli import commands, switches
from cronhpc.cli.console import Console
from cronhpc.core.model import EntryState, Problem, Queue, Started, Way
from cronhpc.store import entries, memory, scheduler
from cronhpc.store.files import Paths
from cronhpc.store.switches import set_switch

NOW = 1795784840  # Friday 27 November 2026, 14:07:20 in Paris
HOUR = 3600


@dataclass
class Said:
    """What one command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Shell:
    """A user's shell with a cron directory of their own; the clock is given with each command."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.cron = home / "cron"
        self.environ = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "TZ": "Europe/Paris",
            "CRONHPC_DIR": str(self.cron),
        }

    def __call__(self, *arguments: str, now: int = NOW, terminal: bool = False, width: int = 0, **more: str) -> Said:
        out, err = io.StringIO(), io.StringIO()
        console = Console(now, {**self.environ, **more}, out, err, terminal, width, 40 if terminal else 0)
        code = cli.main(arguments, console)
        return Said(code, out.getvalue(), err.getvalue())

    def drop(self, path: str, text: str = "echo hello", *, born: int = NOW - 60) -> Path:
        """Put a script there; what counts as its birth is its ctime, which only the clock of this machine sets."""
        file = self.cron / path
        file.write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        os.utime(file, (born, born))
        return file


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """What is looked at again and again is looked at without a rest."""
    monkeypatch.setattr(Console, "wait", lambda _, seconds: time.sleep(min(seconds, 0.01)))
    one = Shell(tmp_path)
    made = one("init", "--backend", "local")
    assert made.code == 0, made.err
    return one


def later() -> int:
    """After what this test has put on disk: past the seconds for which a file counts as just changed."""
    return int(time.time()) + 10  # noqa: TID251 - files get their ctime from this machine's clock


def test_init_beside_an_idle_slurm_names_the_other_batch_system_that_is_here(tmp_path: Path) -> None:
    for name, text in {"sbatch": "exit 1", "scontrol": "exit 1", "sinfo": "exit 1", "qsub": "", "qconf": ""}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    made = Shell(tmp_path)("init", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert made.code == 0, made.err
    assert "could not be asked for account and partition" in made.out
    assert "if Grid Engine is meant, write backend: grid_engine there" in made.out


def test_init_takes_the_batch_system_that_answers(tmp_path: Path) -> None:
    """A machine may keep the commands of a Slurm that is gone."""
    answer = "<?xml version='1.0'?><job_info><queue_info/><job_info/></job_info>"
    here = {
        "sbatch": "exit 1",
        "scontrol": "echo away >&2; exit 1",
        "qsub": "",
        "qconf": "",
        "qstat": f'echo "{answer}"',
    }
    for name, text in here.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    made = Shell(tmp_path)("init", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert "with backend: grid_engine" in made.out
    assert "Slurm gave no answer (away); if Slurm is meant, write backend: slurm in cronhpc.yaml" in made.out


def test_init_beside_slurm_programs_without_a_cluster_names_this_machine(tmp_path: Path) -> None:
    """Three lines of how come before the one that says what; each command repeated all four."""
    how = "echo 'scontrol: error: fetch_config: DNS SRV lookup failed' >&2"
    what = "scontrol: fatal: Could not establish a configuration source"
    for name in ("sbatch", "scontrol", "sinfo"):
        (tmp_path / name).write_text(f"#!/bin/sh\n{how}\necho '{what}' >&2\nexit 1\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    made = Shell(tmp_path)("init", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert made.code == 0, made.err
    assert f"({what}): see sbatch:" in made.out
    assert "if scripts shall run on this machine, write backend: local there" in made.out


# --- the command line itself ---------------------------------------------------------------------------------------


def test_help_names_every_command_without_importing_it(shell: Shell) -> None:
    said = shell("--help")
    assert said.code == 0
    assert all(f"  {name} " in said.out for name in commands.present())


def test_without_a_command_the_help_is_shown_and_it_is_a_usage_error(shell: Shell) -> None:
    assert shell().code == 2


USAGE = {
    "an unknown command": (["statsu"], "there is no command statsu. Did you mean: cronhpc status"),
    "a command's opposite, as others call it": (["unpause", "a"], "Did you mean: cronhpc resume"),
    "a command by another tool's name": (["ls"], "Did you mean: cronhpc list"),
    "a command by another word": (["remove", "a"], "Did you mean: cronhpc rm"),
    "a page in a folder that is not there": (["page", "--out", "/no/such/x.html"], "mkdir -p /no/such"),
    "a page in the place of a folder": (["page", "--out", "/tmp"], "Name a file in it: --out /tmp/cron.html"),
    "a folder to be checked": (["check", "/tmp"], "/tmp is a folder. Name its scripts; or, if it is a cron directory"),
    "an unknown option": (["status", "--colour"], "unrecognized arguments: --colour"),
    "a missing name": (["run"], "the following arguments are required: NAME"),
    "an option without a command": (["--colour"], "without a command"),
    "a bad number": (["next", "-n", "0"], "Write a whole number from 1"),
    "a number beyond all use": (["next", "--schedule", "@daily", "-n", "9" * 20], "Write a whole number from 1"),
    "a daemon for less than no time": (["daemon", "--for", "-1"], '"-1" is not a duration'),
    "a daemon for no time": (["daemon", "--for", "0"], "'0' is no time at all"),
    "a daemon for no number": (["daemon", "--for", "nan"], '"nan" is not a duration'),
    "a bad time": (["next", "--schedule", "@daily", "--after", "soon"], "Write it like 2026-11-27T14:30"),
    "a bad schedule": (["next", "--schedule", "0/15 * * * *"], "Write */15."),
    "a schedule for a name": (
        ["next", "61 * * * *"],
        "A schedule goes with --schedule: cronhpc next --schedule '61 * * * *'",
    ),
    "a bad zone": (["next", "--schedule", "@daily", "--timezone", "Europe/Pari"], "Europe/Paris"),
    "a zone with a blank": (["next", "--schedule", "@daily", "--timezone", "Europe/Paris x"], "Europe/Paris"),
    "a zone of 600 levels": (["next", "--schedule", "@daily", "--timezone", "a/" * 600], "the name of a time zone"),
    "a bad result": (["history", "--state", "fine"], "no result is called 'fine'"),
    "a name behind an option, and a word that is none": (
        ["kill", "a", "--anyway", "b", "--no"],
        "unrecognized arguments: --no",
    ),
}


@pytest.mark.parametrize(("arguments", "words"), USAGE.values(), ids=USAGE)
def test_what_cannot_be_understood_is_said_with_its_fix(shell: Shell, arguments: list[str], words: str) -> None:
    said = shell(*arguments)
    assert (said.code, said.out) == (2, "")
    assert words in said.err


def test_names_may_stand_on_both_sides_of_an_option(shell: Shell) -> None:
    assert shell("kill", "a", "--anyway", "b", "--reason", "full", "c").code == 0
    assert sorted(path.name for path in (shell.cron / "kill").iterdir()) == ["a", "b", "c"]


PLACES = [
    ["doctor"], ["clean"], ["page"], ["status"], ["history"], ["next"], ["check"], ["plan"], ["tick"], ["daemon"],
    ["kill", "x"], ["pause", "x"], ["unkill", "x"], ["resume", "x"], ["logs", "x"], ["run", "x"], ["start"], ["stop"],
    ["list"], ["show", "x"], ["edit", "x"], ["rm", "x"], ["rerun", "x"],
    ["add", "node-report"], ["import", "crontab", "/dev/null"],
]  # fmt: skip


@pytest.mark.parametrize("words", PLACES, ids=" ".join)
def test_a_folder_that_is_not_there_is_named_with_its_fix(shell: Shell, words: list[str]) -> None:
    said = shell(*words, "--dir", str(shell.home / "no where"))
    assert (said.code, said.out) == (2, "")
    assert "There is no folder" in said.err
    assert f"cronhpc init --dir '{shell.home}/no where'" in said.err
    assert not (shell.home / "no where").exists()


@pytest.mark.parametrize("verb", ["status", "tick", "check", "plan", "page", "start", "init"])
def test_settings_that_are_a_folder_are_not_taken_for_a_script(shell: Shell, verb: str) -> None:
    (shell.cron / "cronhpc.yaml").unlink()
    (shell.cron / "cronhpc.yaml").mkdir()
    said = shell(verb)
    assert said.code == 2
    assert "cronhpc.yaml" in said.out + said.err
    assert "is a folder" in said.out + said.err
    assert "Move it away" in said.out + said.err
    assert "batch script" not in said.out + said.err


def test_empty_settings_are_all_defaults_and_said(shell: Shell) -> None:
    """A disk that was full leaves them: the backend, the partition and each switch were silently others."""
    (shell.cron / "cronhpc.yaml").write_text("")
    for verb in ("status", "check"):
        strict = ["--strict"] if verb == "check" else []
        said = shell(verb, *strict, "--backend", "local", now=later())
        assert said.code == 1
        assert f"rm {shell.cron}/cronhpc.yaml && cronhpc init --dir {shell.cron}" in said.out
    (shell.cron / "cronhpc.yaml").write_text("# all defaults are fine here\n")
    assert "is empty" not in shell("status", "--backend", "local", now=later()).out


UNREACHABLE = [
    pytest.param("ELOOP", "It leads to itself: remove the link.", id="a link to itself"),
    pytest.param("EACCES", "Let yourself into where it lies: chmod u+x ", id="a folder that is closed"),
    pytest.param("ESTALE", "Mount what it lies on (", id="a disk that is gone"),
]


@pytest.mark.parametrize(("code", "fix"), UNREACHABLE)
def test_a_script_that_cannot_be_looked_at_has_its_fix(tmp_path: Path, code: str, fix: str) -> None:
    class Row:
        name, path = "a.slurm", str(tmp_path / "a.slurm")

        def is_symlink(self) -> bool:
            raise OSError(getattr(errno, code), "no")

    found = entries.looked_at(Row(), "cron.d/a.slurm")  # type: ignore[arg-type]  # as much as is asked of it
    assert isinstance(found, Problem)
    assert (found.code, found.fix.startswith(fix)) == ("W009", True)


MISTYPED = {
    "an option that is none": (["status", "--nonsense", "--json"], "unrecognized arguments: --nonsense"),
    "a value that is none": (["start", "--json", "--via", "pigeon"], "invalid choice: 'pigeon'"),
    "a command that is none": (["stats", "--json"], "there is no command stats"),
}


@pytest.mark.parametrize(("words", "error"), MISTYPED.values(), ids=MISTYPED)
def test_a_mistake_of_the_command_line_is_json_too(shell: Shell, words: list[str], error: str) -> None:
    """docs/json.md said that it was text on standard error."""
    said = shell(*words)
    assert (said.code, said.err) == (2, "")
    assert error in said.json["error"]


def test_json_behind_two_dashes_is_asked_of_the_jobs_command(shell: Shell) -> None:
    said = shell("guard", "--every", "pigeon", "--", "tool", "--json")
    assert (said.code, said.out) == (2, "")
    assert "pigeon" in said.err


BROKEN_SETTINGS = {
    "a line names the system": ("backend: pbs\nnonsense\n", "", "#PBS"),
    "a tick has found it": ("nonsense: {\n", "on-grid_engine", "#$"),
    "one row alone is wrong": ("backend: lsf\nentries: {a: {schedule: nonsense, command: x}}\n", "", "#BSUB"),
}


@pytest.mark.parametrize(("settings", "mark", "prefix"), BROKEN_SETTINGS.values(), ids=BROKEN_SETTINGS)
def test_scripts_are_judged_by_the_directorys_system_under_broken_settings(
    shell: Shell, settings: str, mark: str, prefix: str, tmp_path: Path
) -> None:
    """They were by Slurm's rules: a line of the right system was no line, a line of Slurm's was none to complain of."""
    (shell.cron / "cronhpc.yaml").write_text(settings)
    if mark:
        (shell.cron / "scheduler" / mark).touch()
    shell.drop("cron.daily/foreign.slurm", "#SBATCH --time=10\ntrue")
    said = shell("check", PATH=str(tmp_path))
    assert "a line for Slurm" in said.out
    assert prefix in said.out
    assert "nobody knows the batch system" not in said.out


def test_where_nothing_tells_the_system_that_is_said(shell: Shell, tmp_path: Path) -> None:
    (shell.cron / "cronhpc.yaml").write_text("nonsense: {\n")
    shell.drop("cron.daily/bad.slurm", "#SBATCH --tiem=10\ntrue")
    said = shell("check", "--json", PATH=str(tmp_path))
    codes = {each["code"] for each in said.json["problems"]}
    assert {"E601", "N004", "E201"} <= codes, codes


def test_check_is_json_in_every_locale(shell: Shell) -> None:
    """What a terminal has no letter for is spelt \\xe9 there, which is no JSON."""
    shell.drop("cron.daily/bad.slurm", "#SBATCH --tiém=10\ntrue")
    for words in (("--json",), ("--format", "json")):
        said = shell("check", *words)
        assert said.out.isascii()
        assert any("--tiém" in each["what"] for each in said.json["problems"])


def test_an_error_is_json_where_json_was_asked_for(shell: Shell) -> None:
    assert "There is no entry called nobody" in shell("history", "nobody").err
    said = shell("run", "nobody", "--json")
    assert said.code == 2
    assert said.json == {"version": 1, "error": "There is no entry called nobody. See: cronhpc status"}


def test_a_zone_of_a_fixed_offset_is_read_as_date_reads_it() -> None:
    console = Console(NOW, {"TZ": "UTC+3"}, io.StringIO(), io.StringIO(), is_terminal=False)
    assert str(console.zone("Europe/Paris")) == "Etc/GMT+3"


@pytest.mark.parametrize("name", commands.present())
def test_every_command_has_help_with_an_example_and_the_common_options(shell: Shell, name: str) -> None:
    said = shell(name, "--help")
    assert said.code == 0
    assert "example:" in said.out
    assert f"cronhpc {name}" in said.out.partition("example:")[2]
    if name != "guard":
        assert all(option in said.out for option in ("--dir", "--backend", "--json", "--version"))


def test_common_options_may_stand_before_the_command(shell: Shell, tmp_path: Path) -> None:
    other = Shell(tmp_path / "other")
    assert shell("--dir", str(other.cron), "init", "--backend", "local").code == 0
    assert shell("--dir", str(other.cron), "--json", "status").json["directory"] == str(other.cron)


def test_parsers_are_there_for_the_docs() -> None:
    assert set(commands.parsers()) == set(commands.present())


def test_the_version_is_said_everywhere(shell: Shell) -> None:
    assert shell("--version").out == shell("status", "--version").out


def test_a_reader_who_left_is_no_error(shell: Shell) -> None:
    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    console = Console(NOW, shell.environ, Gone(), io.StringIO(), is_terminal=False)
    assert cli.main(["status"], console) == 0


# --- directories ---------------------------------------------------------------------------------------------------

NOWHERE = {
    "no such folder": ({"CRONHPC_DIR": "/nonexistent/cron"}, "There is no folder /nonexistent/cron"),
    "WORK is unset to nothing": ({"WORK": ""}, "which is no folder here"),
    "WORK is not mounted": ({"WORK": "/nonexistent"}, "not mounted?"),
}


@pytest.mark.parametrize(("environ", "words"), NOWHERE.values(), ids=NOWHERE)
@pytest.mark.parametrize("command", ["status", "plan", "next", "tick", "check"])
def test_without_a_cron_directory_nothing_is_done(
    tmp_path: Path, command: str, environ: dict[str, str], words: str
) -> None:
    one = Shell(tmp_path)
    one.environ.pop("CRONHPC_DIR")
    one.environ |= environ
    said = one(command)
    assert said.code == 2
    assert words in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_the_marker_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "cron").mkdir()
    said = Shell(tmp_path)("tick")
    assert said.code == 2
    assert "it has no cronhpc.yaml" in said.err


BROKEN = {
    "status": 2,
    "plan": 2,
    "next": 2,
    "tick": 2,
    "check": 2,
}


@pytest.mark.parametrize(("command", "code"), BROKEN.items())
def test_a_mistake_in_the_settings_is_named_with_its_line_and_the_nearest_key(
    shell: Shell, command: str, code: int
) -> None:
    (shell.cron / "cronhpc.yaml").write_text("timezone: Europe/Paris\nfoldrs: {}\n", encoding="utf-8")
    said = shell(command)
    assert said.code == code
    assert "cronhpc.yaml:2" in said.out + said.err
    assert "folders" in said.out + said.err


def test_init_for_another_backend_says_that_the_settings_stay(shell: Shell) -> None:
    assert "says backend: local, and that stays; for slurm, edit that line" in shell("init", "--backend", "slurm").out
    assert "that stays" not in shell("init", "--backend", "local").out
    assert "that stays" not in shell("init").out


def test_init_twice_keeps_everything(shell: Shell) -> None:
    (shell.cron / "cronhpc.yaml").write_text("timezone: Asia/Tokyo\n", encoding="utf-8")
    said = shell("init")
    assert said.code == 0
    assert (shell.cron / "cronhpc.yaml").read_text(encoding="utf-8") == "timezone: Asia/Tokyo\n"


# --- the empty directory -------------------------------------------------------------------------------------------


def test_the_first_screen_tells_what_to_do(shell: Shell) -> None:
    said = shell("status")
    assert said.code == 0
    assert said.out.splitlines()[:2] == [
        "~/cron (local)                                              Fri 27 Nov 14:07 CET",
        "chain   not started  cronhpc start",
    ]
    assert "There are no entries yet." in said.out


EMPTY = {
    "plan": "now 14:07:20, 0 entries, none due\n",
    "next": "nothing is to come\n",
    "check": "nothing to fix\n",
    "history": "nothing is recorded yet: the next tick does it (now: cronhpc tick); what comes: cronhpc next\n",
}


@pytest.mark.parametrize(("command", "out"), EMPTY.items())
def test_an_empty_directory_is_no_trouble(shell: Shell, command: str, out: str) -> None:
    said = shell(command)
    assert (said.code, said.out, said.err) == (0, out, "")


# --- a run, from the drop to its log -------------------------------------------------------------------------------


def wait_for(shell: Shell, name: str, result: str) -> Any:
    """The entry's facts once its last run has that result: the local backend's processes take a moment."""
    for _ in range(100):
        known = shell("status", name, "--json", now=later()).json
        if known["last"] and known["last"]["result"] == result and not known["runs"]:
            return known
        time.sleep(0.05)
    raise AssertionError(known)


@pytest.mark.processes
def test_a_dropped_script_runs_by_hand_and_is_seen_everywhere(shell: Shell) -> None:
    shell.drop("cron.daily/backup.slurm", "echo hello from $CRONHPC_ENTRY")
    assert "now: cronhpc run backup" in shell("status", now=later()).out

    said = shell("run", "backup", now=later())
    assert said.code == 0, said.err
    assert said.out.splitlines()[0] == "submitted backup as job 1"
    assert said.out.splitlines()[-1] == "undo: cronhpc kill 1"
    wait_for(shell, "backup", "ok")

    assert shell("tick", now=later()).code == 0
    assert "backup" in shell("history", now=later()).out
    assert shell("logs", "backup").out == "hello from backup\n"
    assert shell("history", "--json", now=later()).json["runs"][0]["job"] == "1"
    assert "as job 1" in shell("status", "backup", now=later()).out


@pytest.mark.processes
def test_files_that_a_script_names_in_a_folder_which_is_not_there_are_its_log(shell: Shell) -> None:
    """`--output=logs/%x.out` means a folder beside the script to whoever wrote it: for a run that is its log."""
    header = "#SBATCH --output=logs/%x-%j.out\n#SBATCH --error=logs/%x-%j.err\n"
    shell.drop("cron.daily/train.slurm", f"{header}echo hello; echo oh >&2")
    assert shell("run", "train", now=later()).code == 0
    wait_for(shell, "train", "ok")
    assert sorted(shell("logs", "train").out.split()) == ["hello", "oh"]
    assert not (shell.home / "logs").exists()


@pytest.mark.processes
def test_a_whole_path_for_errors_is_the_scripts_own(shell: Shell) -> None:
    shell.drop("cron.daily/train.slurm", f"#SBATCH -e {shell.home}/err.txt -o out.txt\necho hello; echo oh >&2")
    assert shell("run", "train", now=later()).code == 0
    wait_for(shell, "train", "ok")
    assert shell("logs", "train").out == "hello\n"
    assert (shell.home / "err.txt").read_text(encoding="utf-8") == "oh\n"


@pytest.mark.processes
def test_a_rows_relative_file_for_errors_is_its_log(shell: Shell) -> None:
    row = '{schedule: "@daily", command: "echo oh >&2", sbatch: {error: e/%j}}'
    (shell.cron / "cronhpc.yaml").write_text(f"backend: local\nentries:\n  x: {row}\n", encoding="utf-8")
    said = shell("run", "x", now=later())
    assert said.code == 0, said.err
    wait_for(shell, "x", "ok")
    assert shell("logs", "x").out == "oh\n"


@pytest.mark.processes
def test_a_failure_needs_attention_until_it_is_well_again(shell: Shell) -> None:
    script = shell.drop("cron.daily/backup.slurm", "exit 3")
    shell("run", "backup", now=later())
    wait_for(shell, "backup", "failed")
    shell("tick", now=later())
    said = shell("status", now=later())
    assert said.code == 1
    assert "backup  failed, exit 3, last " in said.out
    assert "cronhpc logs backup" in said.out
    script.write_text("#!/bin/bash\ntrue\n", encoding="utf-8")
    shell("run", "backup", now=later() + 1)
    wait_for(shell, "backup", "ok")
    assert "failed" not in shell("status", now=later()).out


@pytest.mark.processes
def test_a_tick_writes_json_lines_and_leaves_what_is_not_due_out(shell: Shell) -> None:
    shell.drop("cron.daily/backup.slurm")
    shell("run", "backup", now=later())
    wait_for(shell, "backup", "ok")
    rows = [json.loads(line) for line in shell("tick", now=later()).out.splitlines()]
    assert [(row["event"], row["entry"], row["result"]) for row in rows] == [("finish", "backup", "ok")]
    assert {"timestamp", "level", "slot", "done"} <= set(rows[0])
    assert shell("tick", now=later()).out == ""


def test_a_tick_on_a_terminal_is_a_table(shell: Shell) -> None:
    shell.drop("cron.daily/backup.slurm")
    assert "backup  not due" in shell("tick", now=later(), terminal=True, width=80).out


@pytest.mark.processes
def test_a_broken_entry_does_not_keep_the_others(shell: Shell) -> None:
    shell.drop("cron.d/good.slurm", "#CRON * * * * *\necho good")
    shell.drop("cron.d/bad.slurm", "#CRON 0/15 * * * *\necho bad")
    said = shell("tick", now=later() + 60)
    assert said.code == 1
    assert [row["entry"] for row in map(json.loads, said.out.splitlines()) if row["event"] == "submit"] == ["good"]
    assert "cron.d/bad.slurm:2" in shell("status", now=later()).out


def test_a_colleague_sees_what_the_last_tick_wrote(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.drop("cron.daily/backup.slurm")
    shell("tick", now=later())
    mine = shell("status", now=later()).out
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    seen = shell("status", now=later())
    assert [line for line in mine.splitlines() if line.startswith("backup")] == [
        line for line in seen.out.splitlines() if line.startswith("backup")
    ]
    assert "as the owner's scheduler saw it" in seen.out


def test_a_colleague_sees_a_switch_before_the_owners_next_tick(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("backup", "other"):
        shell.drop(f"cron.daily/{name}.slurm")
    shell("tick", now=later())
    (shell.cron / "kill" / "backup").write_text("the disk is full\n")
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    known = shell("status", "--json", now=later()).json
    assert [entry["switch"] and entry["switch"]["name"] for entry in known["entries"]] == ["backup", None]
    assert [row["what"] for row in known["attention"] if row["kind"] == "switch"] == [
        f'stopped by {known["switches"][0]["by"]}: "the disk is full"'
    ]
    assert "the disk is full" in shell("status", "backup", now=later()).out
    assert re.search(r"backup +held back: kill/backup, by", shell("next", now=later()).out)
    (shell.cron / "kill" / "backup").rename(shell.cron / "pause" / "ALL")
    known = shell("status", "--json", now=later()).json
    assert [entry["switch"]["kind"] for entry in known["entries"]] == ["pause", "pause"]
    (shell.cron / "pause" / "ALL").unlink()
    assert not shell("status", "--json", now=later()).json["switches"]
    assert "held back" not in shell("next", now=later()).out


def test_a_colleague_before_the_first_tick_is_told_so(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    said = shell("status")
    assert said.code == 2
    assert "its owner's scheduler has not run" in said.err


def test_no_slurm_on_path_is_said(shell: Shell) -> None:
    shell.drop("cron.daily/backup.slurm")
    said = shell("status", "--backend", "slurm", now=later(), PATH="/nonexistent")
    assert said.code == 1
    assert "slurm" in said.out
    assert "does not answer" in said.out


# --- switches ------------------------------------------------------------------------------------------------------


def test_plan_beside_a_daemon_is_the_plan_of_its_ticks(shell: Shell) -> None:
    """It showed runs submitted ahead of their time, which a daemon never does."""
    shell.drop("cron.d/often.slurm", "#CRON * * * * *\necho hello")
    scheduler.mark_started(Paths(shell.cron), Started(via=Way.LOCAL, at=later()))
    assert "ahead" not in shell("plan", now=later()).out


def test_kill_says_what_it_did_and_how_to_undo_it(shell: Shell) -> None:
    shell.drop("cron.daily/backup.slurm")
    said = shell("kill", "backup", "--reason", "disk full", "--expires", "2h", now=later())
    assert said.code == 0
    assert said.out.splitlines()[0] == "set kill switch backup (~/cron/kill/backup)"
    assert said.out.splitlines()[-1] == "undo: cronhpc unkill backup"
    seen = shell("status", now=later())
    assert seen.code == 1
    assert '"disk full"' in seen.out
    assert shell("run", "backup", now=later()).code == 1
    assert "kill/backup" in shell("plan", now=later()).out
    shell("pause", "backup", now=later())
    [removed, undo] = shell("unkill", "backup").out.splitlines()
    assert removed == "removed ~/cron/kill/backup"
    assert re.fullmatch(
        r"pause/backup still stands; undo: cronhpc kill --reason 'disk full' --expires \S+Z backup", undo
    )
    assert shell("resume", "backup").out.splitlines() == [
        "removed ~/cron/pause/backup",
        "nobody will submit its next slots: cronhpc start; undo: cronhpc pause backup",
    ]
    shell("kill", "4711", "--anyway", now=later())
    assert shell("unkill", "4711").out.splitlines()[1].startswith("it stops nothing any more; undo: ")
    assert shell("unkill", "backup").code == 1
    assert shell("status", now=later()).code == 1  # not started yet
    assert "needs attention" not in shell("status", now=later()).out


def test_pause_and_resume(shell: Shell) -> None:
    shell.drop("cron.daily/backup.slurm")
    assert shell("pause", "backup", now=later()).out.endswith("undo: cronhpc resume backup\n")
    assert "paused" in shell("status", now=later()).out
    assert shell("resume", "backup").code == 0
    assert "no pause switch backup stands" in shell("resume", "backup").out


@pytest.mark.processes
def test_a_script_that_its_shell_cannot_read_is_named_before_it_runs(shell: Shell) -> None:
    """`check` alone knew, and `list`, `show` and `status` called it well until it failed."""
    shell.drop("cron.daily/backup.slurm", "if true; then")
    assert "fails: E230" in shell("list", now=later()).out
    assert "fails: E230" in shell("show", "backup", now=later()).out
    assert "its shell cannot read it: syntax error" in shell("status", now=later()).out
    assert "E230" in shell("status", "backup", now=later()).out
    for number in range(30):
        shell.drop(f"cron.daily/a{number}.slurm", f"make {number}")
    assert shell("list", now=later()).out.count("fails: E230") == 1, "also after more than twenty others"
    shell.drop("cron.daily/backup.slurm", "# cronhpc: ignore=E230\nif true; then")
    assert "E230" not in shell("list", now=later()).out + shell("status", now=later()).out


def test_the_undo_of_unkill_sets_it_as_it_stood(shell: Shell) -> None:
    """Reason and end were lost."""
    shell.drop("cron.daily/backup.slurm")
    now = later()
    shell("kill", "backup", "--reason", "the disk is full", "--expires", "2h", now=now)
    undo = shell("unkill", "backup", now=now).out.partition("undo: cronhpc ")[2]
    before = shell.cron / "kill" / "backup"
    shell(*shlex.split(undo), now=now)
    said = before.read_text()
    assert said.startswith("the disk is full\nexpires: ")
    assert "the disk is full" in shell("status", now=now).out


@pytest.mark.parametrize(
    ("reason", "left"),
    [
        pytest.param("-full\n", ["-full"], id="a reason like an option"),
        pytest.param("- disk full\n", ["- disk full"], id="a reason with a dash in front"),
        pytest.param("over\nexpires: 2020-01-01\n", None, id="one that had expired stopped nothing: no undo"),
    ],
)
def test_the_undo_of_unkill_can_be_typed(shell: Shell, reason: str, left: list[str] | None) -> None:
    shell.drop("cron.daily/backup.slurm")
    switch = shell.cron / "kill" / "backup"
    switch.write_text(reason)
    said = shell("unkill", "backup", now=later()).out
    _, has_undo, undo = said.partition("undo: cronhpc ")
    assert bool(has_undo) == (left is not None), said
    if left is not None:
        assert shell(*shlex.split(undo), now=later()).code in {0, 1}
        assert switch.read_text().splitlines() == left


NAMED = [
    pytest.param("backup", id="an entry"),
    pytest.param("my job 50%", id="an entry with blanks and percent"),
    pytest.param("-n", id="an entry with a dash"),
    pytest.param("nightly", id="an entry's job name"),
    pytest.param("ALL", id="everything"),
]
UNNAMED = [
    pytest.param("bakcup", "nothing is called bakcup; nearest: backup.", id="a slip of the pen"),
    pytest.param("my%20job%2050%25", "; nearest: my job 50%.", id="as its log folder is called"),
    pytest.param("57", "no job 57 is in the queue.", id="a job that is not there"),
    pytest.param("all", "nothing is called all; nearest: ALL.", id="everything, in other letters"),
    pytest.param("x*", "Nothing is called x* now", id="a pattern that nothing fits"),
]


@pytest.fixture
def named(shell: Shell) -> Shell:
    for each in ("backup", "my job 50%", "-n"):
        shell.drop(f"cron.daily/{each}.slurm", "#SBATCH --job-name=nightly" if each == "backup" else "")
    return shell


@pytest.mark.parametrize("verb", ["kill", "pause"])
@pytest.mark.parametrize("name", NAMED)
def test_a_switch_is_set_on_what_is_called_so(named: Shell, verb: str, name: str) -> None:
    """By the entries that lie there now: no tick has seen them yet."""
    said = named(verb, "--", name, now=later())
    assert (said.code, (named.cron / verb / name).exists()) == (0, True)
    assert "note:" not in said.out
    assert "no job that it reaches is in the queue\n" in said.out
    assert "nobody will act on later jobs: cronhpc start\n" in said.out
    again = named(verb, "--json", "--", name, now=later()).json
    assert (again["notes"], again["switches"][0]["made"], again["acts"]) == ([], False, "at once")


@pytest.mark.parametrize("verb", ["kill", "pause"])
@pytest.mark.parametrize(("name", "why"), UNNAMED)
def test_a_switch_that_nothing_is_called_is_an_error_and_set_only_if_that_is_wished(
    named: Shell, verb: str, name: str, why: str
) -> None:
    said = named(verb, "backup", name, now=later())
    assert (said.code, said.out) == (2, "")
    assert why in said.err
    assert not list((named.cron / verb).iterdir()), "one wrong name, and nothing is set"
    assert named(verb, "--anyway", name, now=later()).code == 0
    assert (named.cron / verb / name).exists()


def test_several_names_and_patterns_are_told_apart(named: Shell) -> None:
    said = named("kill", "my*", "back*", "backup.slurm", "cron.daily/-n.slurm", now=later())
    assert said.code == 0, said.err
    assert {path.name for path in (named.cron / "kill").iterdir()} == {"my job 50%", "backup", "-n"}
    assert said.out.splitlines()[-1] == "undo: cronhpc unkill -- 'my job 50%' backup -n"
    undone = named("unkill", "*", now=later())
    assert (undone.code, list((named.cron / "kill").iterdir())) == (0, [])
    assert undone.out.count("removed ") == 3


BARE = [
    pytest.param(
        "kill", "cronhpc kill: write which: -n, backup, 'my job 50%', ALL; or the id or name of any job.", id="kill"
    ),
    pytest.param("pause", "cronhpc pause: write which: -n, backup,", id="pause"),
    pytest.param("unkill", "cronhpc unkill: write which: backup.", id="unkill"),
    pytest.param("resume", "cronhpc resume: write NAME. Nothing is to be lifted: none stands.", id="resume"),
]


@pytest.mark.parametrize(("verb", "words"), BARE)
def test_without_a_name_it_is_said_what_could_be_named(named: Shell, verb: str, words: str) -> None:
    (named.cron / "kill" / "backup").touch()
    said = named(verb, now=later())
    assert (said.code, said.out) == (2, "")
    assert words in said.err


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("stop", "To stop one entry: cronhpc kill backup (what runs is cancelled), or cronhpc pause backup"),
        ("start", "To run one entry now: cronhpc run backup; to go on with it: cronhpc resume backup"),
    ],
)
def test_who_stops_or_starts_an_entry_is_told_which_command_is_meant(named: Shell, verb: str, words: str) -> None:
    said = named(verb, "backup")
    assert (said.code, said.out) == (2, "")
    assert f"cronhpc {verb} takes no name. " in said.err
    assert words in said.err


OTHERWISE = [
    pytest.param("resume", "backup", "backup is killed, not paused. To lift that: cronhpc unkill backup", id="killed"),
    pytest.param("unkill", "-n", "-n is paused, not killed. To lift that: cronhpc resume -- -n", id="paused"),
    pytest.param(
        "unkill", "27", "no kill switch 27 stands. What stands: backup. See: cronhpc status", id="nothing of that name"
    ),
]


@pytest.mark.parametrize(("verb", "name", "words"), OTHERWISE)
def test_what_does_not_stand_cannot_be_lifted_and_what_stands_is_said(
    named: Shell, verb: str, name: str, words: str
) -> None:
    (named.cron / "kill" / "backup").touch()
    (named.cron / "pause" / "-n").touch()
    said = named(verb, "--", name, now=later())
    assert (said.code, said.out) == (1, f"{words}\n")


@pytest.mark.processes
def test_the_owners_kill_ends_a_run_at_once_and_says_so(shell: Shell) -> None:
    """Also where no scheduler is at work; a tick later on records it as killed."""
    shell.drop("cron.daily/sleeper.slurm", "sleep 300")
    now = later()
    shell("run", "sleeper", now=now)
    job_id = str(shell("status", "--json", now=now).json["entries"][0]["runs"][0]["job"])
    assert _polled(lambda: shell("status", "--json", now=now).json["entries"][0]["runs"][0]["state"] == "RUNNING")
    said = shell("kill", job_id, now=now + 60)
    assert re.search(rf"^cancelled job {job_id} \(sleeper[^)]*\), ran ", said.out, re.MULTILINE), said
    assert said.code == 0
    assert _polled(lambda: shell("status", "--json", now=now + 61).json["entries"][0]["runs"] == [])
    shell("tick", now=now + 120)
    assert "killed" in shell("history", now=now + 121).out


@pytest.mark.processes
def test_a_kill_that_a_daemon_was_quicker_with_names_the_jobs_that_it_ended(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.drop("cron.daily/sleeper.slurm", "sleep 300")
    now = later()
    shell("run", "sleeper", now=now)
    job_id = str(shell("status", "--json", now=now).json["entries"][0]["runs"][0]["job"])
    assert _polled(lambda: shell("status", "--json", now=now).json["entries"][0]["runs"][0]["state"] == "RUNNING")

    def seen_by_a_daemon(*arguments: Any) -> bool:
        made = set_switch(*arguments)
        shell("tick", now=now + 60)
        assert _polled(lambda: shell("status", "--json", now=now + 60).json["entries"][0]["runs"] == [])
        return made

    monkeypatch.setattr(switches, "set_switch", seen_by_a_daemon)
    said = shell("kill", "sleeper", now=now + 61)
    assert f"\njob {job_id} has ended\n" in said.out, said


@pytest.mark.parametrize("verb", ["kill", "pause", "unkill"])
def test_the_owners_order_asks_the_queue_once(shell: Shell, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    shell.drop("cron.daily/backup.slurm")
    if verb == "unkill":
        shell("kill", "backup", now=later())
    asked: list[Local] = []
    queue = Local.queue

    def counted(local: Local) -> Queue:
        asked.append(local)
        return queue(local)

    monkeypatch.setattr(Local, "queue", counted)
    assert shell(verb, "backup", now=later()).code == 0
    assert len(asked) == 1


def test_who_switched_it_off_by_another_word_is_told_how_it_is_called(shell: Shell) -> None:
    shell.drop("cron.daily/backup.slurm")
    assert "called paused: disable is another word for pause" in shell("disable", "backup", now=later()).out
    assert "another word" not in shell("pause", "backup", now=later()).out


def test_a_run_by_hand_that_a_switch_refuses_holds_up_no_slot(shell: Shell) -> None:
    """Else a slot that comes later would be told to be late because of it, and stand before those who do wait."""
    shell.drop("cron.daily/backup.slurm")
    shell("kill", "backup", now=later())
    assert shell("run", "backup", now=later()).code == 1
    state = memory.load(shell.cron / "state" / "entries.json").entries.get("backup", EntryState())
    assert (state.blocked_reason, state.blocked_since) == ("", 0)


def _polled(what: Callable[[], bool]) -> bool:
    until = time.monotonic() + 90
    while not what():
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
    return True


PAST = ["2020-01-01", "2026-11-27T14:07", "0s", "2026-11-27T13:07:20Z", ""]


@pytest.mark.parametrize("verb", ["kill", "pause"])
@pytest.mark.parametrize("expires", PAST)
def test_a_switch_that_would_stop_nothing_is_refused(shell: Shell, verb: str, expires: str) -> None:
    said = shell(verb, "backup", "--expires", expires)
    assert (said.code, said.out) == (2, "")
    assert "like 2h" in said.err or "or 2d" in said.err
    assert not (shell.cron / verb / "backup").exists()


def test_for_a_teammate_a_switchs_name_is_compared_with_what_the_last_tick_wrote(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("backup", "my job 50%"):
        shell.drop(f"cron.daily/{each}.slurm")
    shell("tick", now=later())
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert "note:" not in shell("kill", "my job 50%", now=later()).out
    assert "note: no entry is called bakcup (nearest: backup)" in shell("kill", "bakcup", now=later()).out
    assert "(nearest: 'my job 50%')" in shell("kill", "my%20job%2050%25", now=later()).out
    assert "nearest: ALL" in shell("kill", "all", now=later()).err
    assert {path.name for path in (shell.cron / "kill").iterdir()} == {"my job 50%", "bakcup", "my%20job%2050%25"}


def test_for_a_teammate_unkill_leaves_the_file_that_the_owners_settings_name(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was removed: no site is opened to say how a series begins anew, which only the owner's may be."""
    thesis = shell.home / "thesis"
    thesis.touch()
    rows = f"kill: {{switches: {{x: {{jobs: {{name: x}}, file: {thesis}}}}}}}\n"
    (shell.cron / "cronhpc.yaml").write_text(f"backend: local\n{rows}", encoding="utf-8")
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    monkeypatch.setattr(Console, "site", lambda _: pytest.fail("opened a colleague's site"))
    said = shell("unkill", "x", now=later())
    assert (said.code, said.out, said.err) == (1, f"it still stands for the whole team: {thesis}\n", "")
    assert thesis.exists()


def test_resume_lifts_a_suspension(shell: Shell) -> None:
    from cronhpc.core.model import EntryState
    from cronhpc.store import memory

    shell.drop("cron.daily/backup.slurm")
    place = shell.cron / "state" / "entries.json"
    known = memory.load(place)
    known.entries["backup"] = EntryState(watermark=later() - 5, failures=4, suspended=later() - 5)
    memory.save(place, known)
    assert "suspended after 4 failures in a row" in shell("status", now=later()).out
    assert shell("resume", "backup").out.splitlines()[0].startswith("its suspension is lifted")
    assert "suspended" not in shell("status", now=later()).out


# --- logs, next, check ---------------------------------------------------------------------------------------------


@pytest.fixture
def logs(shell: Shell) -> Shell:
    folder = shell.cron / "log" / "backup"
    folder.mkdir(parents=True)
    (folder / "20261126T0300Z-7.out").write_text("the day before\n", encoding="utf-8")
    (folder / "20261127T0300Z-9.out").write_text(
        "a\rb\x1b[31m\n" + "".join(f"{n}\n" for n in range(300)), encoding="utf-8"
    )
    shell.drop("cron.daily/backup.slurm")
    return shell


def test_the_newest_log_goes_to_a_pipe_as_it_is(logs: Shell) -> None:
    assert logs("logs", "backup").out.startswith("a\rb\x1b[31m\n0\n")


def test_a_terminal_gets_the_last_lines_and_no_escapes(logs: Shell) -> None:
    said = logs("logs", "backup", terminal=True, width=80).out
    assert said.endswith("298\n299\n")
    assert "the last 100 lines; all of it: cat " in said
    assert "b\\e[31m" in logs("logs", "backup", "-n", "301", terminal=True, width=80).out


@pytest.mark.parametrize("which", [("--run", "2"), ("--job", "7")])
def test_an_older_run_by_count_or_job(logs: Shell, which: tuple[str, str]) -> None:
    assert logs("logs", "backup", *which).out == "the day before\n"


@pytest.mark.parametrize("name", ["notes.txt", "results-12.out"])
def test_a_file_of_the_owners_beside_the_logs_is_not_taken_for_the_newest_run(logs: Shell, name: str) -> None:
    (logs.cron / "log" / "backup" / name).write_text("mine\n", encoding="utf-8")
    assert logs("logs", "backup").out.endswith("299\n")


NO_LOG = {
    "a job that has none": (("backup", "--job", "8"), "and none of job 8"),
    "too far back": (("backup", "--run", "3"), "and none number 3"),
}


@pytest.mark.parametrize(("arguments", "words"), NO_LOG.values(), ids=NO_LOG)
def test_a_log_that_is_not_there(logs: Shell, arguments: tuple[str, ...], words: str) -> None:
    said = logs("logs", *arguments)
    assert said.code == 1
    assert words in said.err
    as_json = logs("logs", *arguments, "--json")
    assert as_json.code == 1
    assert words in as_json.json["error"]


def test_logs_of_an_entry_that_never_ran_names_the_command(shell: Shell) -> None:
    shell.drop("cron.daily/backup.slurm")
    assert shell("logs", "backup").err == "backup has no log yet. Now: cronhpc run backup\n"
    assert "Did you mean backup?" in shell("logs", "bakup").err


def test_next_of_an_entry_and_what_holds_it_back(shell: Shell) -> None:
    shell.drop("cron.d/sync.slurm", "#CRON 30 2 * * * --timezone=America/New_York\ntrue")
    shell("kill", "sync")
    said = shell("next", "sync", "-n", "1", now=later())
    assert said.out.splitlines()[0] == "sync: 30 2 * * * (America/New_York): at 02:30"
    assert said.out.splitlines()[1].startswith("held back: kill/sync, by ")


def test_next_needs_no_cron_directory_for_a_schedule(tmp_path: Path) -> None:
    said = Shell(tmp_path)("next", "--schedule", "0 12 * * *", "-n", "1")
    assert said.code == 0
    assert said.out.splitlines()[-1] == "Sat 28 Nov 12:00 CET  in 22 h"


CHECKED = {
    "Windows line ends": (b"#!/bin/bash\r\necho\r\n", "cron.d/x.slurm:1: E224"),
    "no shebang": (b"echo\n", "cron.d/x.slurm:1: E221"),
    "a bad #CRON option": (b"#!/bin/bash\n#CRON @daily --retires=2\n", "cron.d/x.slurm:2: E102"),
}


@pytest.mark.parametrize(("data", "words"), CHECKED.values(), ids=CHECKED)
def test_check_names_file_line_and_fix(shell: Shell, data: bytes, words: str) -> None:
    (shell.cron / "cron.d" / "x.slurm").write_bytes(data)
    said = shell("check", now=later())
    assert said.code == 1
    assert words in said.out


def test_check_says_each_thing_once(shell: Shell) -> None:
    (shell.cron / "cron.d" / "x.slurm").write_bytes(b"echo\n")
    (shell.cron / "cron.d" / "y~").write_bytes(b"")
    lines = shell("check", now=later()).out.splitlines()
    places = [line.split(" ")[0] + line.split(" ")[1] for line in lines[:-1]]
    assert len(places) == len(set(places))


def test_check_of_a_file_that_is_not_there_names_it_whether_or_not_there_is_a_cron_directory(
    shell: Shell, tmp_path: Path
) -> None:
    for said in (shell("check", "gone.slurm"), shell("check", "gone.slurm", CRONHPC_DIR="", HOME=str(tmp_path))):
        assert "gone.slurm" in said.out + said.err
        assert said.code == 2


@pytest.mark.processes
def test_check_of_one_file_anywhere(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "job.slurm").write_text("#!/bin/bash\n#SBATCH --hold\n", encoding="utf-8")
    said = shell("check", "--strict", str(tmp_path / "job.slurm"))
    assert said.code == 1
    assert "W218" in said.out
    assert shell("check", str(tmp_path / "job.slurm")).code == 0, "check && start goes on where there are warnings"


@pytest.mark.processes
def test_names_with_newlines_and_dashes_work_everywhere(shell: Shell) -> None:
    for name in ("-n", "a\nb", "50%|x", "größe", "two  blanks"):
        shell.drop(f"cron.daily/{name}.slurm")
        said = shell("run", "--", name, now=later())
        assert said.code == 0, said.err
    shown = shell("status", now=later()).out
    assert [line.split("  ")[0] for line in shown.splitlines() if line.startswith(("-n", "$'a", "50", "gr", "'two"))]
    assert "$'a\\nb'" in shown


def test_plan_counts_the_logs_that_would_go(shell: Shell) -> None:
    folder = shell.cron / "log" / "backup"
    folder.mkdir(parents=True)
    for day in range(10, 13):
        (folder / f"202611{day}T0300Z-{day}.out").write_text("old", encoding="utf-8")
    assert "logs  remove  3 of 3 files (3 too old)" in shell("plan").out
    assert len(list(folder.iterdir())) == 3


WIDTHS = [pytest.param("100", 100, id="asked for"), pytest.param("", 0, id="empty"), pytest.param("wide", 0, id="none")]


@pytest.mark.parametrize(("columns", "width"), WIDTHS)
def test_a_pipe_is_cut_only_to_a_width_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.stdout", io.StringIO())
    here = Console.here()
    assert (here.width, here.height) == (width, 0)


@pytest.mark.processes
def test_start_and_stop_say_which_process_the_daemon_is(shell: Shell) -> None:
    began = shell("start", now=later())
    pid = re.search(r"started the daemon: process (\d+) of this machine", began.out)
    assert pid, began.out + began.err
    try:
        assert f"the daemon runs already: process {pid[1]}" in shell("start", now=later()).out
        for _ in range(200):  # it has begun: what is stopped before that is ended by a signal, seconds later
            if (shell.cron / "status.json").exists():
                break
            time.sleep(0.05)
        ended = shell("stop", now=later())
        assert ended.code == 0
        assert ended.out.splitlines()[0] == f"stopped the daemon: process {pid[1]} of this machine"
        assert "no daemon that cronhpc start began runs" in shell("stop", now=later()).out
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid[1]), signal.SIGTERM)


def test_a_daemon_of_another_machine_is_not_called_stopped(shell: Shell) -> None:
    known = {"version": 1, "pid": os.getpid(), "born": "1", "host": "login9"}
    (shell.cron / "state" / "daemon.json").write_text(json.dumps(known))
    assert "if the one on login9 does, it ends within seconds" in shell("stop", now=later()).out


@pytest.mark.processes
def test_what_is_said_of_another_directory_acts_on_that(shell: Shell, tmp_path: Path) -> None:
    """`undo: cronhpc kill 1` without its --dir would stop a job of one's own instead."""
    shell.drop("cron.daily/backup.slurm")
    shell.environ["CRONHPC_DIR"] = str(tmp_path / "other")
    there = ["--dir", str(shell.cron)]
    said = [shell("run", "backup", *there, now=later()).out, shell("status", *there, now=later()).out]
    said += [shell("status", "backup", *there, now=later()).out, shell("kill", "backup", *there, now=later()).out]
    said += [shell("stop", *there, now=later()).out, shell("unkill", "backup", *there, now=later()).out]
    commands = re.findall(r"cronhpc (?:run|tick|start|kill|unkill|logs|status)\b[^\n;&|,]*", "\n".join(said))
    assert len(commands) >= 7
    assert [each for each in commands if each.count(f"--dir {shell.cron}") != 1] == []


def test_what_is_started_gets_the_libraries_that_the_launcher_kept_from_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONHPC_LIBRARIES", "/conda/lib")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/ours")
    monkeypatch.setattr("sys.argv", ["cronhpc", "--version"])
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit):
        cli.entry_point()
    assert os.environ["LD_LIBRARY_PATH"] == "/conda/lib"
    assert "CRONHPC_LIBRARIES" not in os.environ


@pytest.mark.parametrize("name", ["back\\slash", "new\nline", "carriage\rreturn"])
def test_a_place_whose_name_no_job_could_be_given_is_refused(tmp_path: Path, name: str) -> None:
    """`init` and `start` said that all was well, and every link died before its first line."""
    said = Shell(tmp_path)("init", "--backend", "local", "--dir", str(tmp_path / name / "cron"))
    assert (said.code, "could never start there" in said.err) == (2, True)
    assert not (tmp_path / name).exists()


@pytest.mark.processes
def test_a_second_run_in_the_same_second_takes_the_next_one(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """ "Another tick has claimed it", it said, and nobody knew what that meant."""
    shell.drop("cron.daily/backup.slurm")
    now = later()
    waited: list[float] = []
    monkeypatch.setattr(Console, "wait", lambda _, seconds: waited.append(seconds))
    monkeypatch.setattr(Console, "again", lambda console: replace(console, now=now + len(waited)))
    said = [shell("run", "backup", "--again", now=now) for _ in range(3)]
    assert [(each.code, each.err) for each in said] == [(0, "")] * 3
    assert len({line for each in said for line in each.out.splitlines() if line.startswith("its log: ")}) == 3
