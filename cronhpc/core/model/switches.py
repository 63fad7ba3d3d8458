"""Switches, what they reach, and what they did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Switch:
    """A file in kill/ or pause/ (or a configured place) and what it says."""

    kind: str  # kill | pause
    name: str  # the file's name, or the configured switch's
    path: str
    by: str  # the file's owner
    since: int  # mtime
    reason: str = ""  # cleaned: one line, printable
    expires: int | None = None

    @property
    def title(self) -> str:
        """`kill/NAME` on one printable line: whoever may write there chooses the name."""
        name = " ".join("".join(c if c.isprintable() else " " for c in self.name).split())
        return f"{self.kind}/{name if len(name) <= _LONGEST_TITLE else name[:_LONGEST_TITLE] + '…'}"

    @property
    def said(self) -> str:
        """Which, by whom and why."""
        return f"{self.title}, by {self.by}" + (f": {self.reason}" if self.reason else "")


_LONGEST_TITLE = 80  # characters


@dataclass(frozen=True, slots=True)
class Struck:
    """What a kill switch has done to a job; kept until the job is gone and its end is recorded."""

    at: int  # first warned or cancelled
    name: str  # the switch's, and so on
    by: str
    reason: str
    path: str
    emptied: bool = False  # what was pending of it is cancelled
    warned: bool = False
    cancelled: bool = False  # what ran of it
    gone: bool = False

    @property
    def said(self) -> str:
        """By which switch, by whom and why."""
        return Switch("kill", self.name, self.path, self.by, 0, self.reason).said


@dataclass(frozen=True, slots=True)
class SwitchSetting:
    """A row under `kill.switches`: which jobs the switch of that name reaches. Empty patterns reach nothing."""

    name: str
    jobs: str = ""  # shell pattern over job names
    partition: str = ""
    account: str = ""
    workdir: str = ""
    file: str = ""
    warn_signal: str = ""
    warn_before: int = 0
