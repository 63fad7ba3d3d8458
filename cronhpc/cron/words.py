"""Text: how many, in words; the nearest one; and the root of all errors."""

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


def digest(data: bytes) -> str:
    """What tells one text from another: its SHA-256 in hex, by the lean module that `random` uses, too.

    `hashlib` loads OpenSSL: a fifth of what the start of a bare Python takes.
    """
    try:
        from _sha2 import sha256  # type: ignore[import-not-found,unused-ignore]  # Python 3.12 and later
    except ImportError:
        try:
            from _sha256 import sha256  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            from hashlib import sha256
    return str(sha256(data).hexdigest())


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
