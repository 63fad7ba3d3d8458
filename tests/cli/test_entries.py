"""`list`, `show`, `edit`, `rm`, and the words that lead to them."""

from __future__ import annotations

import os
import re
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from cronhpc.batch.local import Local
from cronhpc.cli.commands import overview
from cronhpc.cli.console import Console
from cronhpc.core.model import Started, Way
from cronhpc.store import scheduler
from cronhpc.store.files import Paths
from docs.generate import json_page
from tests.cli.test_cli import Shell, later, shell

__all__ = ["shell"]

SETTINGS = """backend: local
timezone: Europe/Paris
folders: {daily: "47 4 * * *"}
sbatch: {account: abc}
defaults: {catch-up: all, overlap: queue}
entries:
  report: {schedule: "@daily", command: "echo x", retries: 1, sbatch: {time: 5}}
"""
SYNC = """#SBATCH --time=20 --account=own
#CRON */30 8-18 * * mon-fri --overlap=skip
# what it does

sync
#SBATCH --late
"""


@pytest.fixture
def three(shell: Shell) -> Shell:
    """An entry in a folder, one with its own schedule, and a row of cronhpc.yaml."""
    (shell.cron / "cronhpc.yaml").write_text(SETTINGS, encoding="utf-8")
    shell.drop("cron.daily/backup.slurm", "#SBATCH --time=30\necho hello")
    shell.drop("cron.d/sync.slurm", SYNC)
    return shell


def test_help_is_one_screen(shell: Shell) -> None:
    lines = overview().splitlines()
    assert len(lines) < 24  # and a prompt
    assert max(map(len, lines)) <= 80
    assert "disable" not in overview()


WORDS = {
    "cancel": "kill", "help": "--help", "ls": "list", "remove": "rm", "delete": "rm", "retry": "rerun", "hold": "pause",
    "shwo": "show", "cat": "show", "unpause": "resume", "trigger": "run",
}  # fmt: skip


@pytest.mark.parametrize(("word", "meant"), WORDS.items())
def test_a_word_of_another_tool_names_the_command(shell: Shell, word: str, meant: str) -> None:
    said = shell(word, "a")
    assert (said.code, said.err) == (2, f"cronhpc: there is no command {word}. Did you mean: cronhpc {meant}\n")


# --- list and show ----------------------------------------------------------------------------------------------------


def test_list_has_a_line_an_entry(three: Shell) -> None:
    three.drop("cron.d/wrong.slurm", "#CRON 0 25 * * *\ntrue")
    three("pause", "sync")
    title, *lines = [line.split() for line in three("list", now=later()).out.splitlines()]
    assert title == ["NAME", "SCHEDULE", "STATE", "FILE"]
    assert [(line[0], line[-1]) for line in lines] == [
        ("backup", "cron.daily/backup.slurm"),
        ("report", "cronhpc.yaml:7"),
        ("sync", "cron.d/sync.slurm"),
        ("wrong", "cron.d/wrong.slurm"),
    ]
    states = {
        row["name"]: row["state"].partition(" by")[0] for row in three("list", "--json", now=later()).json["entries"]
    }
    assert states == {"backup": "on", "report": "on", "sync": "paused", "wrong": "not run: E101"}


def test_a_list_of_nothing_says_how_to_begin(shell: Shell) -> None:
    assert shell("list").out == "there are no entries yet. Drop a script into cron.daily/, or: cronhpc add\n"


def origins(shell: Shell, name: str, what: str) -> dict[str, tuple[Any, str]]:
    known = shell("show", name, "--json", now=later()).json
    return {row["name"]: (row["value"], row["from"]) for row in known[what]}


def test_show_says_where_each_policy_comes_from(three: Shell) -> None:
    sync, report = origins(three, "sync", "policies"), origins(three, "report", "policies")
    assert sync["overlap"] == ("skip", "line 3 of its script")
    assert sync["catch-up"] == ("all", "defaults of cronhpc.yaml")
    assert sync["retries"] == ("0", "default")
    assert report["retries"] == ("1", "cronhpc.yaml:7")
    assert report["overlap"] == ("queue", "defaults of cronhpc.yaml")


def test_show_says_where_each_option_comes_from(three: Shell) -> None:
    assert origins(three, "sync", "options") == {
        "time": ("20", "line 2 of its script"),
        "account": ("own", "line 2 of its script"),
    }
    assert origins(three, "backup", "options") == {
        "time": ("30", "line 2 of its script"),
        "account": ("abc", "sbatch of cronhpc.yaml"),
    }
    assert origins(three, "report", "options") == {
        "account": ("abc", "sbatch of cronhpc.yaml"),
        "time": ("5", "cronhpc.yaml:7"),
    }


SCHEDULES = {"sync": "line 3 of its script", "backup": "folders.daily of cronhpc.yaml", "report": "cronhpc.yaml:7"}


@pytest.mark.parametrize(("name", "origin"), SCHEDULES.items())
def test_show_says_where_the_schedule_comes_from(three: Shell, name: str, origin: str) -> None:
    assert three("show", name, "--json", now=later()).json["schedule"]["from"] == origin


def test_show_has_the_head_of_the_script_and_the_place_of_the_log(three: Shell) -> None:
    known = three("show", "sync", "--json", now=later()).json
    assert known["head"].splitlines() == ["#!/bin/bash", *SYNC.splitlines()[:3]]
    assert known["log"] == "log/sync/SLOT-JOB.out"
    screen = three("show", "sync", now=later()).out
    assert "every 30 minutes" in screen
    assert "  #CRON */30 8-18 * * mon-fri --overlap=skip\n" in screen


def test_show_of_what_does_not_run_says_why(three: Shell) -> None:
    three.drop("cron.d/wrong.slurm", "#CRON 0 25 * * *\ntrue")
    said = three("show", "wrong", now=later())
    assert said.code == 1
    assert "it is not run as it is: " in said.out


@pytest.mark.parametrize("words", [("show", "snyc"), ("edit", "snyc"), ("rm", "snyc", "--yes")], ids=" ".join)
def test_a_misspelt_name_has_the_nearest(three: Shell, words: tuple[str, ...]) -> None:
    said = three(*words, now=later())
    assert (said.code, "Did you mean sync?" in said.err) == (2, True)


# --- edit -------------------------------------------------------------------------------------------------------------


def editor(shell: Shell, text: str) -> str:
    """What EDITOR holds where an editor is to do this to its file, $1."""
    program = shell.home / "my editor"
    program.write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
    program.chmod(0o755)
    return f"'{program}'"


@pytest.mark.processes
def test_what_is_edited_takes_the_scripts_place_with_its_mode_and_says_when_it_runs(three: Shell) -> None:
    script = three.cron / "cron.daily" / "backup.slurm"
    script.chmod(0o640)
    said = three("edit", "backup", now=later(), EDITOR=editor(three, 'sed -i s/hello/goodbye/ "$1"'))
    assert said.code == 0, said.err
    assert "echo goodbye" in script.read_text(encoding="utf-8")
    assert stat.S_IMODE(script.stat().st_mode) == 0o640
    assert said.out.startswith("nothing to fix\nbackup is changed; it runs next ")
    assert ", once the scheduler is started: cronhpc start" in said.out
    assert list((three.cron / "state" / "edit").iterdir()) == []


@pytest.mark.processes
def test_a_link_stays_one_and_its_target_is_edited(three: Shell) -> None:
    target = three.home / "mine.slurm"
    target.write_text("#!/bin/bash\n#CRON @daily\necho hello\n", encoding="utf-8")
    (three.cron / "cron.d" / "mine.slurm").symlink_to(target)
    assert three("edit", "mine", now=later(), EDITOR=editor(three, 'sed -i s/hello/goodbye/ "$1"')).code == 0
    assert (three.cron / "cron.d" / "mine.slurm").is_symlink()
    assert "goodbye" in target.read_text(encoding="utf-8")


@pytest.mark.processes
def test_settings_behind_a_link_are_edited_where_they_are(three: Shell) -> None:
    settings, target = three.cron / "cronhpc.yaml", three.home / "mine.yaml"
    settings.rename(target)
    settings.symlink_to(target)
    assert three("edit", "report", now=later(), EDITOR=editor(three, 'sed -i s/echo/printf/ "$1"')).code == 0
    assert settings.is_symlink()
    assert "printf" in target.read_text(encoding="utf-8")


@pytest.mark.processes
def test_of_a_row_the_settings_are_edited_at_its_line(three: Shell) -> None:
    (three.home / "nano").write_text(
        f'#!/bin/bash\nprintf %s "$*" > {three.home}/asked\nsed -i "s/echo x/echo y/" "$2"\n'
    )
    (three.home / "nano").chmod(0o755)
    said = three("edit", "report", now=later(), terminal=True, VISUAL=f"{three.home}/nano", EDITOR="false")
    assert said.code == 0, said.err
    assert "echo y" in (three.cron / "cronhpc.yaml").read_text(encoding="utf-8")
    assert (three.home / "asked").read_text(encoding="utf-8") == f"+7 {three.cron}/state/edit/cronhpc.yaml"


@pytest.mark.processes
def test_what_was_not_changed_is_not_written(three: Shell) -> None:
    script = three.cron / "cron.daily" / "backup.slurm"
    before = script.stat()
    said = three("edit", "backup", now=later(), EDITOR="true")
    assert (said.code, said.out.startswith("backup stays as it was; it runs next ")) == (0, True)
    assert (script.stat().st_ino, script.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.processes
def test_what_edit_and_import_print_for_programs_fits_what_the_docs_say_of_it(three: Shell) -> None:
    table = three.home / "crontab"
    table.write_text("5 4 * * * echo hello\n*/7 * * * * true # odd\n", encoding="utf-8")
    for table_of, words in {
        "edited": ("edit", "backup"),
        "import": ("import", "crontab", str(table), "--dry-run"),
    }.items():
        known = three(*words, "--json", now=later(), EDITOR="true").json
        assert json_page.shaped(known, table_of, words[0]) == []


NOT_WRITTEN = {
    "the editor fails": ('echo more >> "$1"; exit 3', "The editor ended with code 3. Nothing was changed. Your text: "),
    "somebody else edits it meanwhile": ('echo more >> "$1"; echo theirs >> {script}', "was changed by somebody else"),
}


@pytest.mark.processes
@pytest.mark.parametrize(("text", "words"), NOT_WRITTEN.values(), ids=NOT_WRITTEN)
def test_what_cannot_be_put_in_place_is_kept(three: Shell, text: str, words: str) -> None:
    script = three.cron / "cron.daily" / "backup.slurm"
    said = three("edit", "backup", now=later(), EDITOR=editor(three, text.replace("{script}", str(script))))
    assert (said.code, words in said.err) == (2, True), said.err
    assert "more" not in script.read_text(encoding="utf-8")
    kept = Path(said.err.rpartition("Your text: ")[2].strip())
    assert kept.read_text(encoding="utf-8").endswith("more\n")


@pytest.mark.parametrize("words", ["run", "rerun", "status", "show", "edit", "rm --yes", "next", "check"])
def test_of_a_removed_entry_each_command_says_what_is_left(three: Shell, words: str) -> None:
    three("tick", now=later())
    script = three.cron / "cron.daily" / "backup.slurm"
    assert three("rm", "backup", "--yes", now=later()).code == 0
    said = three(*words.split(), "backup", now=later())
    assert said.code == 2
    assert "backup is no entry any more: its script was removed, moved or renamed." in said.err
    left = rf"What it ran: cronhpc history backup; bring it back: mv -n \S+/trash/backup\.\w+\.slurm {script}$"
    assert re.search(left, said.err)


@pytest.mark.parametrize("asked", ["", "/usr/bin/vim"], ids=["none is asked for", "one is asked for"])
def test_an_editor_that_draws_on_a_terminal_is_not_started_without_one(
    three: Shell, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setattr("cronhpc.batch.process.attended", lambda *_, **__: pytest.fail("it was started"))
    (three.home / "vi").touch(mode=0o755)
    said = three("edit", "backup", now=later(), PATH=str(three.home), EDITOR=asked)
    assert said.code == 2
    assert f"change {three.cron}/cron.daily/backup.slurm itself. Nothing was changed." in said.err


@pytest.mark.processes
def test_an_editor_that_is_not_there_is_named(three: Shell) -> None:
    said = three("edit", "backup", now=later(), EDITOR="/no/such/editor")
    assert (said.code, "/no/such/editor: cannot be started" in said.err) == (2, True)
    assert list((three.cron / "state" / "edit").iterdir()) == []


BAD = 'sed -i "s/^#SBATCH.*/#SBATCH --tme=5/" "$1"'


@pytest.mark.processes
def test_a_mistake_is_said_and_without_a_terminal_nobody_is_asked(three: Shell) -> None:
    said = three("edit", "backup", now=later(), EDITOR=editor(three, BAD))
    assert said.code == 1
    assert "--tme" in said.out


@pytest.mark.processes
def test_a_mistake_can_be_edited_again(three: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(_: Console, question: str) -> str:
        asked.append(question)
        return ""

    monkeypatch.setattr(Console, "ask", ask)
    once = f'[ -e {three.home}/once ] && sed -i "s/tme/time/" "$1" || {BAD}; touch {three.home}/once'
    said = three("edit", "backup", now=later(), EDITOR=editor(three, once))
    assert (said.code, asked) == (0, ["edit again? [Y/n] "]), said.out
    assert "--time=5" in (three.cron / "cron.daily" / "backup.slurm").read_text(encoding="utf-8")


@pytest.mark.processes
def test_a_mistake_may_stay(three: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Console, "ask", lambda *_: "n")
    said = three("edit", "backup", now=later(), EDITOR=editor(three, BAD))
    assert (said.code, "backup is changed" in said.out) == (1, True)


@pytest.mark.processes
def test_an_edit_takes_back_what_waits_on_the_schedule_before_it(three: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is too young for a look: until another command came, the runs stayed, and began at the old times."""
    now = int(time.time())  # noqa: TID251 - as a user edits: the file is as old as the command
    minutes = [(now + delay) // 60 % 60 for delay in (1800, 2700)]
    (three.cron / "cronhpc.yaml").write_text("backend: local\ntimezone: UTC\nscheduler: {ahead: 50m}\n")
    scheduler.mark_started(Paths(three.cron), Started(via=Way.LOGIN, at=now, by="me"))
    three.drop("cron.d/sync.slurm", f"#CRON {minutes[0]} * * * *\ntrue")
    waits: list[float] = []
    monkeypatch.setattr(Console, "wait", lambda _, seconds: waits.append(seconds))
    monkeypatch.setattr("cronhpc.cli.console._clock", lambda: later() if waits else now)
    try:
        with monkeypatch.context() as dropped_long_ago:
            dropped_long_ago.setattr("cronhpc.engine.read_entries.FRESH", 0)
            three("tick", now=now)
        said = three(
            "edit", "sync", now=now, EDITOR=editor(three, f'sed -i "s/CRON {minutes[0]}/CRON {minutes[1]}/" "$1"')
        )
        assert said.code == 0, said.err
        known = next(e for e in three("status", "--json", now=now).json["entries"] if e["name"] == "sync")
        assert {int(run["slot"][14:16]) for run in known["runs"]} == {minutes[1]}
    finally:
        three("stop", now=later())


@pytest.mark.processes
def test_an_edit_as_json(three: Shell) -> None:
    known = three("edit", "backup", "--json", now=later(), EDITOR=editor(three, 'echo true >> "$1"')).json
    assert (known["entry"], known["changed"], known["state"]) == ("backup", True, "on")
    assert known["next"]


# --- rm ---------------------------------------------------------------------------------------------------------------


def test_what_is_removed_can_be_brought_back(three: Shell) -> None:
    script = three.cron / "cron.d" / "sync.slurm"
    text = script.read_bytes()
    said = three("rm", "sync", "backup", "--yes", now=later())
    assert said.code == 0, said.err
    assert not script.exists()
    assert [row["name"] for row in three("list", "--json", now=later()).json["entries"]] == ["report"]
    undo = said.out.splitlines()[0].partition("undo: ")[2]
    os.system(undo)  # noqa: S605, TID251 - it is to be pasted into a shell
    assert script.read_bytes() == text


def test_two_that_had_one_name_are_both_kept(three: Shell) -> None:
    now = later()
    for text in ("first", "second"):
        three.drop("cron.d/sync.slurm", f"#CRON @daily\necho {text}")
        assert three("rm", "sync", "--yes", now=now).code == 0
    kept = sorted(path.read_text(encoding="utf-8").split()[-1] for path in (three.cron / "trash").iterdir())
    assert kept == ["first", "second"]


ANSWERS = {"yes": ("y", 0), "no": ("n", 1), "nothing": ("", 1)}


@pytest.mark.parametrize(("answer", "code"), ANSWERS.values(), ids=ANSWERS)
def test_a_terminal_is_asked(three: Shell, monkeypatch: pytest.MonkeyPatch, answer: str, code: int) -> None:
    asked: list[str] = []

    def ask(_: Console, question: str) -> str:
        asked.append(question)
        return answer

    monkeypatch.setattr(Console, "ask", ask)
    assert three("rm", "sync", "backup", now=later()).code == code
    assert asked == ["remove sync and backup? [y/N] "]
    assert (three.cron / "cron.d" / "sync.slurm").exists() == bool(code)


NOT_REMOVED = {
    "nobody is there to be asked": (("sync",), "If it is meant: cronhpc rm --yes sync"),
    "a row of the settings": (("sync", "report", "--yes"), "Take the row out: cronhpc edit report"),
    "one of several has no such name": (("sync", "nobody", "--yes"), "There is no entry called nobody."),
}


@pytest.mark.parametrize(("words", "said"), NOT_REMOVED.values(), ids=NOT_REMOVED)
def test_what_is_not_removed_is_said_and_nothing_is(three: Shell, words: tuple[str, ...], said: str) -> None:
    told = three("rm", *words, now=later())
    assert (told.code, said in told.err) == (2, True), told.err
    assert (three.cron / "cron.d" / "sync.slurm").exists()


@pytest.mark.processes
def test_what_runs_of_it_goes_on(three: Shell) -> None:
    three.drop("cron.d/long.slurm", "#CRON @daily\nsleep 600")
    assert three("run", "long", now=later()).code == 0
    batch = Local(three.cron / "state" / "local", three.environ)
    for _ in range(900):
        if [job.state for job in batch.queue().jobs] == ["RUNNING"]:
            break
        time.sleep(0.1)
    known = three("rm", "long", "--yes", "--json", now=later()).json
    assert [(row["name"], row["running"], row["cancelled"]) for row in known["removed"]] == [("long", ["1"], [])]
    assert [job.live for job in batch.queue().jobs] == [True]
    batch.cancel(["1"])


# --- disable and enable -----------------------------------------------------------------------------------------------


def test_a_disabled_entry_is_a_paused_one(three: Shell) -> None:
    assert three("disable", "sync", now=later()).code == 0
    assert (three.cron / "pause" / "sync").exists()
    assert three("list", "--json", now=later()).json["entries"][2]["state"].startswith("paused by ")
    assert three("enable", "sync", now=later()).code == 0
    assert not (three.cron / "pause" / "sync").exists()
