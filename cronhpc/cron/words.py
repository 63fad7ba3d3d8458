"""Text: how many, in words; one word that can be pasted into a shell; and the root of all errors."""

from __future__ import annotations

from collections.abc import Iterable


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 file`, `1,904 files`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def are(number: int, noun: str) -> str:
    """`1 file is`, `3 files are`."""
    return f"{count(number, noun)} {'is' if number == 1 else 'are'}"


def were(number: int, noun: str) -> str:
    """`1 file was`, `3 files were`."""
    return f"{count(number, noun)} {'was' if number == 1 else 'were'}"


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of `known` most like a misspelt `word`; None where none is as like as `cutoff` (0 to 1)."""
    import difflib

    return next(iter(difflib.get_close_matches(word, list(known), 1, cutoff)), None)


# --- for a shell ------------------------------------------------------------------------------------------------------


_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\x1b": "\\e"}
_PLAIN_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%+=:,./-_")


def escape(char: str) -> str:
    """A character that may not be printed, as bash would write it in $'…'."""
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    if 0xDC80 <= code <= 0xDCFF:  # noqa: PLR2004 - surrogateescape: a byte of a file name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:  # noqa: PLR2004 - ASCII
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - four hex digits


def dollar(text: str) -> str:
    """`text` in bash's $'…', which can spell everything."""
    body = "".join(
        "\\" + char if char in "\\'" else char if char.isprintable() else escape(char) for char in text
    )  # a combining character first would sit on the quote: bash reads it all the same
    return f"$'{body}'"


def word(text: str) -> str:
    """`text` as one word that can be pasted into a shell."""
    if text and _PLAIN_WORD.issuperset(text):
        return text
    if not text.isprintable() or "'" in text:
        return dollar(text)
    return f"'{text}'"


# --- what is wrong; its texts may have commands in them (model/advice.py), and + keeps those -------------------------


class CronhpcError(Exception):
    """The root of every error that cronhpc raises on purpose; its parts say what, where and the fix."""

    passing = False  # nothing is known to be wrong with what was asked: it may well go through another time

    @property
    def advice(self) -> str:
        """What it says, with its commands as values."""
        text = ""
        for part in self.args:
            text += part if isinstance(part, str) else str(part)
        return text
