"""Shell text to its commands: continued lines joined, comments and here-documents out. No shell parser; see `lex`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from cronhpc.cron.values import dataclass

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "ksh93", "mksh", "zsh"})
_SPECIAL = re.compile(r"[\\'\"#\n]|<<")
_HEREDOC = re.compile(r"<<(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([A-Za-z_][\w.+-]*))")
_IN_DOUBLE = re.compile(r'\\.|[^"\\]+', re.DOTALL)
_UNCLOSED = 20  # more here-documents without an end than this are something else
_SEPARATORS = re.compile(r"\|\||&&|(?<![<>&])&(?![>&\d])|(?<!>)\|&?|;+|\n")
_BLOTTED = re.compile(r"[\\'\"(]")
_LEADING = re.compile(r"\s*(?:(?:if|then|else|elif|while|until|do|time|exec|!|\{|\()\s+|\()*")


@dataclass(frozen=True, slots=True)
class Piece:
    """A command line (continued lines joined, comments out), or one comment; `line` is where it begins."""

    line: int
    text: str
    comment: bool = False


@dataclass(frozen=True, slots=True)
class Interpreter:
    """What the first line says runs the script."""

    name: str
    login: bool  # a login shell reads /etc/profile
    path: str = ""  # as written; "": `env` looks for the name on PATH

    @property
    def is_shell(self) -> bool:
        """Whether shell habits apply; a script without an interpreter counts as one."""
        return not self.name or self.name in _SHELLS


@lru_cache(maxsize=64)
def interpreter(first_line: str) -> Interpreter:
    """Of `#!/bin/bash -l`: bash, login. Of anything else: no name."""
    found = first_line.removeprefix("#!").split() if first_line.startswith("#!") else []
    names = [word for word in found if not word.startswith("-") and "=" not in word]
    by_env = bool(names) and names[0].rpartition("/")[2] == "env"
    names = names[1:] if by_env else names
    flags = [word for word in found[1:] if word.startswith("-")]
    login = any(f == "--login" or re.fullmatch(r"-[a-zA-Z]*l[a-zA-Z]*", f) for f in flags)
    path = names[0] if names and (not by_env or "/" in names[0]) else ""
    return Interpreter(names[0].rpartition("/")[2] if names else "", login, path)


@lru_cache(maxsize=4)  # here and below: each rule of a linter asks anew
def lex(text: str) -> tuple[Piece, ...]:
    """The commands and comments of `text`, in order.

    Knows quotes, backslashes, comments and here-documents, which is enough to tell code from data in batch scripts.
    From an unclosed quote on nothing is returned: better silent than wrong.
    """
    return tuple(_Lexer(text).pieces())


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.counted = (0, 1)  # offset, line
        self.parts: list[str] = []
        self.start = 0
        self.heredocs: list[tuple[str, bool]] = []
        self.comments: list[Piece] = []
        self.unclosed = 0

    def pieces(self) -> Iterator[Piece]:
        while self.at < len(self.text):
            match = _SPECIAL.search(self.text, self.at)
            end = match.start() if match else len(self.text)
            self._take(end)
            if match is None:
                break
            if match[0] == "\n":
                yield from self._line_end()
            elif match[0] == "#":
                self._comment()
            elif match[0] == "<<":
                self._heredoc()
            elif match[0] == "\\":
                self._escape()
            elif not self._quoted(match[0]):
                return
        yield from self._flush()

    def _take(self, end: int) -> None:
        if not self.parts:
            self.start = self.at
        self.parts.append(self.text[self.at : end])
        self.at = end

    def _line(self, offset: int) -> int:
        known, line = self.counted
        line += self.text.count("\n", known, offset)
        self.counted = (offset, line)
        return line

    def _flush(self) -> Iterator[Piece]:
        joined = "".join(self.parts)
        if joined.strip():
            yield Piece(self._line(self.start + len(joined) - len(joined.lstrip())), joined.strip())
        yield from self.comments
        self.parts, self.comments = [], []

    def _line_end(self) -> Iterator[Piece]:
        joined = "".join(self.parts).rstrip()
        if joined.endswith(("|", "&&")) and not self.heredocs:  # the command goes on
            self.parts.append(" ")
            self.at += 1
            return
        for delimiter, tabs in self.heredocs:
            if self.unclosed < _UNCLOSED:
                self._skip_heredoc(delimiter, tabs=tabs)
        self.heredocs = []
        yield from self._flush()
        self.at += 1

    def _skip_heredoc(self, delimiter: str, *, tabs: bool) -> None:
        """Move to the line end of the closing line; stay where there is none (then it was no here-document)."""
        at = self.at
        while at >= 0 and at + 1 <= len(self.text):
            end = self.text.find("\n", at + 1)
            line = self.text[at + 1 : end if end >= 0 else len(self.text)]
            if (line.lstrip("\t") if tabs else line).rstrip() == delimiter:
                self.at = end if end >= 0 else len(self.text)
                return
            at = end
        self.unclosed += 1

    def _comment(self) -> None:
        before = self.text[self.at - 1] if self.at else "\n"
        if not (before.isspace() or before in ";&|("):
            self._take(self.at + 1)
            return
        end = self.text.find("\n", self.at)
        end = end if end >= 0 else len(self.text)
        line_start = self.text.rfind("\n", 0, self.at) + 1
        self.comments.append(Piece(self._line(self.at), self.text[line_start:end], comment=True))
        self.at = end

    def _heredoc(self) -> None:
        here_string = self.text.startswith("<<<", self.at)
        match = None if here_string else _HEREDOC.match(self.text, self.at)
        if match and not self._in_arithmetic():
            self.heredocs.append((match[2] or match[3] or match[4], bool(match[1])))
            self._take(match.end())
        else:
            self._take(self.at + (3 if here_string else 2))

    def _in_arithmetic(self) -> bool:
        joined = "".join(self.parts)
        return joined.count("((") > joined.count("))")

    def _escape(self) -> None:
        if self.text.startswith("\\\n", self.at):
            self.parts.append(" ")
            self.at += 2
        else:
            self._take(min(self.at + 2, len(self.text)))

    def _quoted(self, quote: str) -> bool:
        ansi = quote == "'" and self.at > 0 and self.text[self.at - 1] == "$"
        at = self.at + 1
        if quote == "'" and not ansi:
            end = self.text.find("'", at)
        else:
            body = _IN_DOUBLE if quote == '"' else re.compile(r"\\.|[^'\\]+", re.DOTALL)
            while match := body.match(self.text, at):
                at = match.end()
            end = at if at < len(self.text) else -1
        if end < 0:
            return False
        self._take(end + 1)
        return True


@lru_cache(maxsize=1024)
def mask(text: str) -> str:
    """`text` of equal length with what is quoted or in parentheses blotted out, leaving this level alone."""
    if not _BLOTTED.search(text):
        return text
    out = list(text)
    depth = 0
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            out[at : at + 2] = "__"[: len(text) - at]
            at += 2
            continue
        if char in "'\"":
            end = _closing(text, at)
            out[at : end + 1] = "_" * (end + 1 - at)
            at = end + 1
            continue
        if char == "(":
            depth += 1
        if depth:
            out[at] = "_"
        if char == ")" and depth:
            depth -= 1
        at += 1
    return "".join(out)


def _closing(text: str, at: int) -> int:
    quote = text[at]
    at += 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" and quote == '"' else 1
    return min(at, len(text) - 1)


@lru_cache(maxsize=1024)
def commands(text: str) -> tuple[tuple[str, str], ...]:
    """The simple commands of a command line, each with the separator before it (`""`, `|`, `;`, `&&` …)."""
    found = []
    at = 0
    before = ""
    for match in _SEPARATORS.finditer(mask(text)):
        found.append((before, text[at : match.start()].strip()))
        at, before = match.end(), match[0]
    return (*found, (before, text[at:].strip()))


def bare(command: str) -> str:
    """A simple command without the keywords in front of it."""
    match = _LEADING.match(command)
    return command[match.end() if match else 0 :]
