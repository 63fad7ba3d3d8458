"""Shell text to commands."""

from __future__ import annotations

import pytest

from cronhpc.script.shell_text import bare, commands, interpreter, lex, mask

LEXED: dict[str, tuple[str, list[tuple[int, str]]]] = {
    "one command a line": ("a\nb\n", [(1, "a"), (2, "b")]),
    "blank lines count": ("\n\n  a\n", [(3, "a")]),
    "a continued line is one": ("a \\\n  b\nc\n", [(1, "a    b"), (3, "c")]),
    "a pipe at the end goes on": ("a |\nb\n", [(1, "a | b")]),
    "an and at the end goes on": ("a &&\nb\n", [(1, "a && b")]),
    "a comment within a piped command": ("a |\n# c\nb\nd\n", [(1, "a |  b"), (4, "d")]),
    "continued before it begins": ("\\\n \\\n a\nb\n", [(3, "a"), (4, "b")]),
    "a comment is none": ("a # b\n# c\nd\n", [(1, "a"), (3, "d")]),
    "a # within a word is no comment": ("a#b ${#c} $#\n", [(1, "a#b ${#c} $#")]),
    "a # in quotes is no comment": ("a '# b' \"# c\"\n", [(1, "a '# b' \"# c\"")]),
    "quotes may span lines": ("a 'b\nc'\nd\n", [(1, "a 'b\nc'"), (3, "d")]),
    "an escaped quote is none": ("a \\' b\nc\n", [(1, "a \\' b"), (2, "c")]),
    "an escaped quote within quotes": ('a "b\\"c"\nd\n', [(1, 'a "b\\"c"'), (2, "d")]),
    "a dollar quote": ("a $'b\\'c'\nd\n", [(1, "a $'b\\'c'"), (2, "d")]),
    "a here-document is left out": ("a <<EOF\nb\nEOF\nc\n", [(1, "a <<EOF"), (4, "c")]),
    "a quoted here-document": ("a <<'E F' | b\n'\nE F\nc\n", [(1, "a <<'E F' | b"), (4, "c")]),
    "a here-document with tabs": ("a <<-X\n\tb\n\tX\nc\n", [(1, "a <<-X"), (4, "c")]),
    "two here-documents": ("a <<X <<Y\n1\nX\n2\nY\nc\n", [(1, "a <<X <<Y"), (6, "c")]),
    "a here-document without an end is none": ("a <<X\nb\n", [(1, "a <<X"), (2, "b")]),
    "a here-string": ("a <<<X\nb\nX\n", [(1, "a <<<X"), (2, "b"), (3, "X")]),
    "a shift": ("((a<<b))\nc\nb\n", [(1, "((a<<b))"), (2, "c"), (3, "b")]),
    "from an unclosed quote on nothing": ("a\nb 'c\nd\n", [(1, "a")]),
}


@pytest.mark.parametrize(("text", "expected"), LEXED.values(), ids=LEXED.keys())
def test_commands_with_their_lines(text: str, expected: list[tuple[int, str]]) -> None:
    assert [(p.line, p.text) for p in lex(text) if not p.comment] == expected


def test_comments_with_their_lines_and_indent() -> None:
    found = [(p.line, p.text) for p in lex("#!x\na # b\n  # c\n'\n# d'\n<<X\n# e\nX\n") if p.comment]
    assert found == [(1, "#!x"), (2, "a # b"), (3, "  # c")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a | b", [("", "a"), ("|", "b")]),
        ("a |& b", [("", "a"), ("|&", "b")]),
        ("a || b && c; d", [("", "a"), ("||", "b"), ("&&", "c"), (";", "d")]),
        ("a 2>&1 >| x &> y", [("", "a 2>&1 >| x &> y")]),
        ("a & b", [("", "a"), ("&", "b")]),
        ("a '|' \"|\" $(b | c) \\| d", [("", "a '|' \"|\" $(b | c) \\| d")]),
    ],
)
def test_simple_commands(text: str, expected: list[tuple[str, str]]) -> None:
    assert list(commands(text)) == expected


def test_a_mask_is_as_long_as_its_text() -> None:
    for text in ("a 'b", '"', "\\", "(", "a)b", "$(a (b) c) d"):
        assert len(mask(text)) == len(text)
    assert mask("$(a (b) c) d") == "$_________ d"


@pytest.mark.parametrize("text", ["if a b", "! a b", "then a b", "{ a b", "( a b", "do a b", "time a b", "a b"])
def test_a_command_without_its_keywords(text: str) -> None:
    assert bare(text) == "a b"


@pytest.mark.parametrize(
    ("line", "name", "login"),
    [
        ("#!/bin/bash", "bash", False),
        ("#! /bin/sh -e", "sh", False),
        ("#!/bin/bash -l", "bash", True),
        ("#!/usr/bin/env bash", "bash", False),
        ("#!/usr/bin/env -S A=1 bash --login", "bash", True),
        ("#!/usr/bin/env python3", "python3", False),
        ("echo", "", False),
        ("#!", "", False),
    ],
)
def test_who_runs_a_script(line: str, name: str, login: bool) -> None:  # noqa: FBT001 - a column of the table
    found = interpreter(line)
    assert (found.name, found.login) == (name, login)


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("#!/bin/bash -l", "/bin/bash"),
        ("#!/usr/bin/env bash", ""),
        ("#!/usr/bin/env /opt/py/bin/python3", "/opt/py/bin/python3"),
        ("echo", ""),
    ],
)
def test_where_what_runs_a_script_lies(line: str, path: str) -> None:
    assert interpreter(line).path == path
