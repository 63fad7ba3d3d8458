"""The reference as text: one document, as Markdown for docs/ and as roff for `man`.

Words in backticks are literal: code in the one, bold in the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MARKDOWN, MAN = "markdown", "man"
FORMATS = (MARKDOWN, MAN)
WRITTEN_BY = "Do not edit: this is written by: python -m docs.generate"


@dataclass(frozen=True, slots=True)
class Prose:
    """One paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines as they stand: what is typed, or a file's."""

    text: str
    language: str = "console"


@dataclass(frozen=True, slots=True)
class Rows:
    """A table; in the man page its first column is the term, and the rest describe it."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: Sequence[Prose | Lines | Rows]
    parts: Sequence[Section] = ()


def render(sections: Sequence[Section], fmt: str, *, summary: str, version: str) -> str:
    """The whole text, which ends in a newline."""
    lines = _man(sections, summary, version) if fmt == MAN else _markdown(sections, summary)
    return "\n".join(lines) + "\n"


def _spans(text: str) -> Iterator[tuple[str, bool]]:
    """Pieces of `text`, and whether each is literal."""
    for place, piece in enumerate(text.split("`")):
        if piece:
            yield piece, place % 2 == 1


# --- Markdown ------------------------------------------------------------------------------------------------------


def _markdown(sections: Sequence[Section], summary: str) -> Iterator[str]:
    yield "# Reference"
    yield ""
    yield f"<!-- {WRITTEN_BY} -->"
    yield ""
    yield f"cronhpc: {summary}. The same as a page of the manual: `man cronhpc`."
    for section in sections:
        yield from _markdown_section(section, "##")


def _markdown_section(section: Section, level: str) -> Iterator[str]:
    yield ""
    yield f"{level} {_inline(section.title)}"
    for block in section.blocks:
        yield ""
        if isinstance(block, Prose):
            yield _inline(block.text)
        elif isinstance(block, Lines):
            yield from (f"```{block.language}", block.text, "```")
        else:
            yield _table_line(block.head)
            yield _table_line(["---"] * len(block.head))
            yield from (_table_line(row) for row in block.rows)
    for part in section.parts:
        yield from _markdown_section(part, f"{level}#")


def _table_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_inline(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def _inline(text: str) -> str:
    return "".join(f"`{piece}`" if literal else re.sub(r"([*<])", r"\\\1", piece) for piece, literal in _spans(text))


# --- roff ----------------------------------------------------------------------------------------------------------


def _man(sections: Sequence[Section], summary: str, version: str) -> Iterator[str]:
    yield f'.\\" {WRITTEN_BY}'
    yield f'.TH CRONHPC 1 "" "cronhpc {version}" "User Commands"'
    yield from (".nh", ".ad l")  # commands are copied from here: no word is broken
    yield from (".SH NAME", f"cronhpc \\- {_plain(summary)}")
    yield from (".SH SYNOPSIS", ".B cronhpc", ".I COMMAND", "[options]")
    for section in sections:
        yield f'.SH "{_plain(section.title.upper())}"'
        yield from _man_blocks(section)
        for part in section.parts:
            yield f'.SS "{_plain(part.title)}"'
            yield from _man_blocks(part)


def _man_blocks(section: Section) -> Iterator[str]:
    for place, block in enumerate(section.blocks):
        if isinstance(block, Prose):
            yield from (".PP",) if place else ()
            yield _roff(block.text)
        elif isinstance(block, Lines):
            yield from (".PP", ".RS 4", ".nf")
            yield from (_guarded(_plain(line)) for line in block.text.split("\n"))
            yield from (".fi", ".RE")
        else:
            for row in block.rows:
                yield from (".TP", _term(row[0]), *_described(block.head, row))


def _term(text: str) -> str:
    return f"\\fB{_plain(text.replace('`', ''))}\\fR"


def _described(head: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    """The last cell where it is the meaning, and below it the others with their columns' names; else all, in a row."""
    if head[-1] != "meaning":
        yield _roff(". ".join(row[1:]))
        return
    yield _roff(row[-1])
    others = "; ".join(f"{name}: {cell}" for name, cell in list(zip(head, row, strict=True))[1:-1] if cell != "-")
    if others:
        yield from (".br", _roff(others))


def _roff(text: str) -> str:
    words = "".join(f"\\fB{_plain(piece)}\\fR" if literal else _plain(piece) for piece, literal in _spans(text))
    return _guarded(words)


def _plain(text: str) -> str:
    """`text` so that roff prints just it, in any locale, and every dash can be copied as a minus sign."""
    text = text.replace("…", "...")  # which in C's locale is a warning and a gap
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace('"', "\\(dq")
    return "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in escaped)


def _guarded(line: str) -> str:
    """A dot at the beginning of a line would be a request."""
    return f"\\&{line}" if line.startswith(".") or not line else line
