"""How many, in words."""

from __future__ import annotations


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 file`, `1,904 files`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def are(number: int, noun: str) -> str:
    """`1 file is`, `3 files are`."""
    return f"{count(number, noun)} {'is' if number == 1 else 'are'}"


def were(number: int, noun: str) -> str:
    """`1 file was`, `3 files were`."""
    return f"{count(number, noun)} {'was' if number == 1 else 'were'}"
