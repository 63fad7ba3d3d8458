"""What to do, as a value: commands that name the directory they are about, wherever they are read."""

from __future__ import annotations

import ast
import copy
import json
import re
import shlex
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cronhpc.cli import chain
from cronhpc.cli.commands import present
from cronhpc.core.model import (
    Advice,
    CronhpcError,
    Done,
    Key,
    LinkKind,
    Outcome,
    Problem,
    StateError,
    SubmitLink,
    Withdraw,
    command,
    joined,
    text_of,
    texts_of,
)
from cronhpc.drivers.start import Started
from cronhpc.views import text
from cronhpc.views.style import Style

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXTS = {
    "a verb alone": (command("tick"), "cronhpc tick --dir /a/cron"),
    "the directory stands before the name": (command("run", "backup"), "cronhpc run --dir /a/cron backup"),
    "options stand before it, too": (
        command("status", "b", options=("--all",)),
        "cronhpc status --dir /a/cron --all b",
    ),
    "a name with a dash ends the options": (command("run", "-n"), "cronhpc run --dir /a/cron -- -n"),
    "a name with a blank": (command("logs", "my job"), "cronhpc logs --dir /a/cron 'my job'"),
    "one whose directory is fixed": (command("init", directory="/b c"), "cronhpc init --dir '/b c'"),
    "in a job there is no directory": (command("again", options=("--help",)), "cronhpc again --help"),
    "words before it": ("Make it again: " + command("start"), "Make it again: cronhpc start --dir /a/cron"),
    "words behind it": (command("start") + ", then wait", "cronhpc start --dir /a/cron, then wait"),
    "two commands": (
        command("kill", "7") + " && " + command("tick"),
        "cronhpc kill --dir /a/cron 7 && cronhpc tick --dir /a/cron",
    ),
    "many joined": (joined("; ", ["a", command("tick"), "b"]), "a; cronhpc tick --dir /a/cron; b"),
    "words alone": ("Write */5.", "Write */5."),
    "an error": (StateError("Make it: " + command("start")).advice, "Make it: cronhpc start --dir /a/cron"),
    "an error of parts": (CronhpcError("Make it: ", command("start")).advice, "Make it: cronhpc start --dir /a/cron"),
    "a problem": (
        Problem("W1", "It is gone.", command("start"), "f", 2).advice,
        "f:2: W1 It is gone. cronhpc start --dir /a/cron",
    ),
    "on one line": (text.one_line("Look\n at it:  " + command("tick")), "Look at it: cronhpc tick --dir /a/cron"),
}  # fmt: skip


@pytest.mark.parametrize(("said", "expected"), TEXTS.values(), ids=TEXTS)
def test_a_command_names_its_directory(said: str, expected: str) -> None:
    assert text_of(said, "/a/cron") == expected
    assert texts_of({"fix": [said]}, "/a/cron") == {"fix": [expected]}
    assert text_of(copy.deepcopy(said), "/a/cron") == expected


@pytest.mark.parametrize("said", [row[0] for row in TEXTS.values()], ids=TEXTS)
def test_it_is_a_text_where_the_directory_is_the_default_one(said: str) -> None:
    assert text_of(said, "") == said == json.loads(json.dumps(said))


def test_a_directory_may_have_any_name() -> None:
    assert text_of(command("tick"), "/it's a/\tb") == "cronhpc tick --dir $'/it\\'s a/\\tb'"


def test_lines_do_not_break_within_a_command() -> None:
    said = "Look what it says, and then go on with it: " + command("resume", "my backup") + " or wait"
    assert Style(0, directory="/home/alice/cron").wrapped(said, 50) == [
        "Look what it says, and then go on with it:",
        "cronhpc resume --dir /home/alice/cron 'my backup'",
        "or wait",
    ]


def test_a_command_that_is_too_wide_goes_on_behind_a_backslash() -> None:
    said = "Go on with it: " + command("resume", "my  backup")
    lines = Style(0, directory="/home/alice/cron").wrapped(said, 30)
    assert lines == ["Go on with it:", "cronhpc resume --dir \\", "/home/alice/cron 'my  backup'"]
    pasted = "\n    ".join(lines[1:]).replace("\\\n", "")  # as a shell reads it
    assert shlex.split(pasted) == ["cronhpc", "resume", "--dir", "/home/alice/cron", "my  backup"]


def test_a_joined_text_of_no_parts_is_empty() -> None:
    assert joined("; ", []) == Advice() == ""


# --- no command is written as text ---------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "cronhpc").rglob("*.py"))
TEXTS_OF_HELP = ("HELP", "EXAMPLE")
MANUALS = {
    "cronhpc/check/lint.py": "the table of codes in docs/reference.md",
    "cronhpc/core/policy.py": "the table of policies there",
    "cronhpc/cli/commands.py": "cronhpc --help",
    "cronhpc/doctor/look.py": "a comment in the probe's script",
    "cronhpc/store/settings.py": "a comment in cronhpc.yaml",
}
_AS_TEXT = re.compile(
    rf"(?<!nstall )\bcronhpc (?:{'|'.join(present())})\b(?!:)|: cronhpc \x00"
)  # "cronhpc next: …" is who speaks


def _texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The strings of a module that are not documentation: docstrings, help, examples."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "").endswith(TEXTS_OF_HELP) for t in node.targets):
            continue
        if isinstance(node, ast.keyword) and node.arg == "help":
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.JoinedStr):  # "cronhpc {verb}" as well
            yield (
                node.lineno,
                "".join(getattr(part, "value", "") if isinstance(part, ast.Constant) else "\0" for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        yield from _texts(node)


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if path not in MANUALS and "/inside/" not in path]
)  # inside: no imports
def test_no_command_is_written_as_text(path: str) -> None:
    """It could not name its directory: write command("run", name)."""
    found = [f"{line}: {said}" for line, said in _texts(ast.parse((ROOT / path).read_text())) if _AS_TEXT.search(said)]
    assert found == []


_LIMIT = [Outcome(SubmitLink(kind, 1795784840, "there is none"), Done.REFUSED, "limit") for kind in LinkKind]
_BACK = Outcome(Withdraw(Key("a", 1795794840), "a", "5", "ticks come otherwise", drops=True), Done.OK)
_NONE = ["no scheduler job was submitted; when that has changed: cronhpc start"]
_STANDS = ["see: cronhpc status", "undo: cronhpc stop"]


@pytest.mark.parametrize(
    ("outcomes", "last"),
    [
        pytest.param(_LIMIT, _NONE, id="no place for a link"),
        pytest.param([_BACK, *_LIMIT], _NONE, id="… though runs that waited ahead were taken back"),
        pytest.param([replace(_LIMIT[0], done=Done.OK, job_id="7"), _LIMIT[1]], _STANDS, id="a link, and no spare"),
        pytest.param([], _STANDS, id="ticks that come without a link"),
    ],
)
def test_start_says_how_to_undo_it_where_it_has_done_something(outcomes: list[Outcome], last: list[str]) -> None:
    told = [str(each) for each in chain._start_words(Started(tuple(outcomes)), Style(1795784840, UTC))]
    assert told[-len(last) :] == last
    assert {*_NONE, *_STANDS} & {*told} == {*last}
