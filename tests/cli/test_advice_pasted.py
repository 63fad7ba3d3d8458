"""What screens say to type works as it stands, from anywhere, also where another cron directory is the default one."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess  # noqa: TID251 - what is pasted is for bash
import time
from typing import TYPE_CHECKING

import pytest

from cronhpc import cli
from cronhpc.cli import commands
from cronhpc.cli.console import Console, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_COMMAND = re.compile(rf"\bcronhpc (?:{'|'.join(commands.present())})\b(?!:)")
_OF_NO_DIRECTORY = ("again", "guard")
_END = re.compile(r"(?<=[\w'/])[.,;)]*(?= |$)|(?= \()")  # a sentence goes on behind a command


class Desk:
    """A user whose default cron directory is another than the one that is meant, which has a blank in its name."""

    def __init__(self, home: Path) -> None:
        self.cron = home / "my cron"
        self.environ = {"HOME": str(home), "PATH": os.environ["PATH"], "TZ": "UTC", "CRONHPC_DIR": str(home / "other")}
        self.now = int(time.time()) + 10  # noqa: TID251 - files get their ctime from this machine's clock

    def type(self, *words: str, terminal: bool = False) -> str:
        """All that a command prints."""
        said = io.StringIO()
        width, height = (80, 40) if terminal else (0, 0)
        cli.main(words, Console(self.now, self.environ, said, said, terminal, width, height))
        return _ANSI.sub("", said.getvalue()).replace("\\\n", " ")  # a backslash at its end: the line goes on

    def say(self, *words: str, terminal: bool = False) -> str:
        """What a command about the directory prints; each comes a moment after the one before."""
        self.now += 2
        return self.type(*words, "--dir", str(self.cron), terminal=terminal)

    def paste(self, line: str) -> str:
        """A line as a shell takes it, commands of cronhpc alone."""
        return "".join(self.type(*shlex.split(part)[1:]) for part in line.split(" && "))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """With an entry that has not run, one that failed, one that is wrong, one suspended, and both kinds of switches."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        one = Desk(home)
        one.type("init", "--backend", "local")  # the default one
        one.say("init", "--backend", "local")
        scripts = {
            "cron.daily/new.slurm": "echo",
            "cron.daily/my backup.slurm": "echo saved; exit 3",
            "cron.d/wrong.slurm": "#CRON 61 * * * *\necho",
            "cron.d/often.slurm": "#CRON * * * * * --suspend-after=1\nexit 1",
            "cron.d/away.slurm": "#CRON * * * * *\n#SBATCH --chdir=/nonexistent\necho",
        }
        for name, text in scripts.items():
            (one.cron / name).write_text(f"#!/bin/bash\n{text}\n")
        one.say("run", "my backup")
        one.now += 120  # a slot of those that run each minute is due
        _until_ended(one)
        one.say("kill", "--anyway", "ended-switch", "--reason", "x")
        one.say("pause", "new")
        one.say("tick")
        yield one


def _until_ended(desk: Desk) -> None:
    for _ in range(300):
        desk.say("tick")
        if "suspended" in desk.say("status") and "failed" in desk.say("status", "my backup"):
            return
        time.sleep(0.1)
    raise AssertionError(desk.say("status"))


SCREENS = {
    "status": ["status"],
    "status of one that failed": ["status", "my backup"],
    "status of one that is wrong": ["status", "wrong"],
    "status of one that is suspended": ["status", "often"],
    "status of one that is paused": ["status", "new"],
    "status of one whose folder is missing": ["status", "away"],
    "plan": ["plan"],
    "check": ["check"],
    "history of one that has not run": ["history", "new"],
    "logs of one that has not run": ["logs", "new"],
    "logs of a run that is not there": ["logs", "my backup", "--run", "9"],
    "a ready-made job": ["add", "node-report"],
    "the ready-made jobs": ["add"],
    "no such ready-made job": ["add", "zzz"],
    "no such entry": ["run", "zzz"],
    "a run": ["run", "my backup"],
    "one that is not submitted": ["run", "wrong"],
    "a kill switch": ["kill", "4711"],
    "a kill switch lifted": ["unkill", "4711"],
    "no kill switch": ["unkill", "zzz"],
    "no pause switch": ["resume", "zzz"],
    "a dry run of clean": ["clean", "--dry-run"],
    "init once more": ["init"],
    "doctor": ["doctor"],
    "stop": ["stop"],
}


def _pasted(said: str) -> Iterator[list[str]]:
    """The words of each command that is said; a sentence may go on behind it."""
    for found in _COMMAND.finditer(said):
        line = said[found.start() :].partition("\n")[0].partition(" && ")[0]
        yield _words(line)


def _words(line: str) -> list[str]:
    """The longest beginning that is a command line."""
    for end in sorted({len(line), *(match.start() for match in _END.finditer(line))}, reverse=True):
        try:
            words = shlex.split(line[:end])
            quiet = io.StringIO()
            commands.parse(words[1:], Console(0, {}, quiet, quiet, is_terminal=False))
        except (ValueError, UsageError, SystemExit):
            continue
        return words
    raise AssertionError(f"no command line: {line}")


@pytest.mark.processes
def test_nothing_is_added_for_the_default_directory(desk: Desk) -> None:
    other = desk.environ["CRONHPC_DIR"]
    for words in (["status"], ["status", "--dir", other], ["status", "--dir", f"{other}/../other"]):
        assert "cronhpc start  " in desk.type(*words)


def test_what_others_read_names_the_directory_always(desk: Desk) -> None:
    """A teammate reads status.json, and whoever gets an alert reads that."""
    desk.say("tick")
    known = json.loads((desk.cron / "status.json").read_text())
    fixes = [row["fix"] for row in known["attention"] if row["fix"].startswith("cronhpc ")]
    assert fixes
    assert [fix for fix in fixes if f" --dir '{desk.cron}'" not in fix] == []


@pytest.mark.parametrize("words", SCREENS.values(), ids=SCREENS)
def test_each_command_that_a_screen_shows_is_about_its_directory(desk: Desk, words: list[str]) -> None:
    """On a terminal of 80 columns: colours and line ends are around it."""
    said = desk.say(*words, terminal=True)
    commands = [shown for shown in _pasted(said) if shown[1] not in _OF_NO_DIRECTORY]
    assert bool(commands) == (words[0] not in {"check", "clean"}), "these two show paths only"
    for shown in commands:
        assert shown[2:4] == ["--dir", str(desk.cron)], said


ACTS = {
    "a kill switch is lifted": (
        ["kill", "--anyway", "8"],
        r"undo: (.*)",
        lambda desk: not (desk.cron / "kill/8").exists(),
    ),
    "a pause is lifted": (["pause", "--anyway", "8"], r"undo: (.*)", lambda desk: not (desk.cron / "pause/8").exists()),
    "a switch is set again": (
        ["unkill", "ended-switch"],
        r"undo: (.*)",
        lambda desk: (desk.cron / "kill/ended-switch").exists(),
    ),
    "a suspension is lifted": (
        ["status", "often"],
        r"Lift it: (.*)",
        lambda desk: "It is suspended" not in desk.say("status", "often"),
    ),
}


@pytest.mark.parametrize(("words", "sentence", "done"), ACTS.values(), ids=ACTS)
def test_what_is_pasted_does_what_the_sentence_says(
    desk: Desk, words: list[str], sentence: str, done: Callable[[Desk], bool]
) -> None:
    screen = desk.say(*words)
    said = re.search(sentence, screen)
    assert said, screen
    desk.paste(said[1])
    assert done(desk)


@pytest.mark.processes
def test_a_log_is_shown_by_the_command_beside_it(desk: Desk) -> None:
    said = re.search(r"its log: .*, or: (.*)", desk.say("run", "my backup"))
    assert said
    for _ in range(300):
        if "saved" in desk.paste(said[1]):
            return
        time.sleep(0.1)
    raise AssertionError(desk.paste(said[1]))


@pytest.mark.processes
def test_a_directory_that_is_missing_is_made_by_the_command_of_the_error(desk: Desk) -> None:
    place = desk.cron.parent / "a new one"
    said = re.search(r"Make it with: (.*)", desk.type("status", "--dir", str(place)))
    assert said
    desk.paste(said[1])
    assert (place / "cronhpc.yaml").exists()
    assert f"cp job.slurm '{place}'/cron.daily/" in desk.type("status", "--dir", str(place))


@pytest.mark.processes
def test_a_large_import_is_undone_by_the_command_that_is_shown(desk: Desk) -> None:
    table = desk.cron.parent / "table"
    table.write_text("".join(f"{n} 4 * * * /x/job{n}\n" for n in range(30)))
    before = set((desk.cron / "cron.d").iterdir())
    said = re.search(r"undo: (.*)", desk.say("import", "crontab", str(table)))
    assert said
    assert len(set((desk.cron / "cron.d").iterdir()) - before) == 30
    subprocess.run(["bash", "-c", said[1]], check=True)
    assert set((desk.cron / "cron.d").iterdir()) == before


@pytest.mark.processes
def test_the_reason_of_the_list_is_the_reason_of_the_entry(desk: Desk) -> None:
    desk.now = (desk.now // 60 + 2) * 60  # a slot is due, and the next one is a minute away
    desk.say("tick")
    said = desk.say("status", "away")
    assert "its working folder /nonexistent is not there" in said
    assert "Now: cronhpc run" not in said


def test_who_is_refused_is_not_told_to_run_it(desk: Desk) -> None:
    said = desk.say("logs", "wrong")
    assert "wrong has no log yet, and is not run as it is: cron.d/wrong.slurm:2: E101" in said
    assert "cronhpc run" not in said


@pytest.mark.processes
@pytest.mark.parametrize(
    ("data", "code", "fix"),
    [
        pytest.param(b"\xef\xbb\xbf#!/bin/bash\necho\n", "E222", r"without BOM: (.*)\.$", id="a byte order mark"),
        pytest.param(b"#!/bin/bash\r\necho\r\n", "E224", r"or (sed .*)\.$", id="Windows line ends"),
    ],
)
def test_the_command_of_a_files_complaint_names_it_and_helps(desk: Desk, data: bytes, code: str, fix: str) -> None:
    script = desk.cron / "cron.daily" / "odd one.slurm"
    script.write_bytes(data)
    (said,) = [line for line in desk.say("check", "odd one").splitlines() if code in line]
    found = re.search(fix, said)
    assert found, said
    assert found[1] in desk.say("status", "odd one"), "it said FILE"
    subprocess.run(["bash", "-c", found[1]], check=True, cwd="/")
    assert code not in desk.say("check", "odd one")
