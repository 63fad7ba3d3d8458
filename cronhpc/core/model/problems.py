"""What is wrong, in words that a user can act on."""

from __future__ import annotations

from dataclasses import dataclass

from cronhpc.core.model.advice import Advice


class CronhpcError(Exception):
    """The root of every error that cronhpc raises on purpose; its parts say what, where and the mend."""

    passing = False  # nothing is known to be wrong with what was asked: it may well go through another time

    @property
    def advice(self) -> Advice:
        """What it says, with its commands as values."""
        return Advice(*(part if isinstance(part, str) else str(part) for part in self.args))


class StateError(CronhpcError):
    """A state file cannot be used: unreadable, or written by a newer cronhpc."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a user can mend: `code` starts with E (error) or W (warning), or with N for what is merely so."""

    code: str
    what: str
    mend: str
    file: str = ""  # as the user knows it, relative to the cron directory
    line: int = 0  # from 1; 0 where no line is meant
    key: str = ""

    @property
    def severity(self) -> str:
        """`error`, `warning` or `note`."""
        return {"E": "error", "N": "note"}.get(self.code[:1], "warning")

    @property
    def advice(self) -> Advice:
        """All of it, with the commands of its mend as values."""
        place = self.file + (f":{self.line}" if self.line else "")
        head = f"{f'{place}: ' if place else ''}{self.code} {self.what}"
        return Advice(head, " ", self.mend) if self.mend else Advice(head.strip())

    def __str__(self) -> str:
        return str(self.advice)
