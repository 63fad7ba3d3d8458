"""What word processors and web pages put in the place of plain characters: dashes, curly quotes, odd blanks."""

from __future__ import annotations

import re

from cronhpc.script import sbatch_options

DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"
QUOTES = "\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb\u2032\u2033"
BLANKS = "\u00a0\u2002\u2003\u2007\u2009\u202f\u3000"
UNSEEN = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
_PLAIN = str.maketrans(
    dict.fromkeys(DASHES, "-") | dict.fromkeys(QUOTES, "") | dict.fromkeys(BLANKS, " ") | dict.fromkeys(UNSEEN, "")
)
_NAMES = ((DASHES, "minus signs"), (QUOTES, "quotes"), (BLANKS, "blanks"), (UNSEEN, "blanks"))


def changed(text: str) -> str:
    """What of `text` was changed: "minus signs", "quotes" or "blanks"; "" where it is plain."""
    return next((name for characters, name in _NAMES if any(c in characters for c in text)), "")


def is_suspect(value: str) -> bool:
    """Whether free text holds what nobody types on purpose: unseen or odd blanks, curly quotes around it."""
    return any(c in BLANKS + UNSEEN for c in value) or value[:1] in {*QUOTES} or value[-1:] in {*QUOTES}


def plain(text: str) -> str:
    """`text` as it was typed: plain minus signs and blanks, no curly quotes."""
    return text.translate(_PLAIN)


def fix_of_word(word: str) -> str:
    """What to write for a changed option (`\u2014mem=16G`); "" for another word."""
    kind = changed(word)
    bare = plain(word).strip()
    if not kind or not re.match(r"-+\w", bare):
        return ""
    name = bare.lstrip("-")
    dashes = "-" if name[:1] in sbatch_options.SHORT and name[1:2] in {"", "="} else "--"
    return f"A word processor has changed its {kind}: write {dashes}{name}."


def fix_of_value(name: str, value: str) -> str:
    """What to write for an option's changed value; "" where it is plain. `name` has its dashes."""
    kind = changed(value)
    right = plain(value).strip()
    right = f'"{right}"' if re.search(r"[\s#\"']", right) else right
    return f"A word processor has changed its {kind}: write {name}={right}." if kind else ""
