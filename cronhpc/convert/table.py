"""What a table says: its jobs, and what became of each of its lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from cronhpc.core.model import Advice


class Kind(StrEnum):
    """What a line of a table is."""

    BLANK = "blank"
    COMMENT = "comment"
    VARIABLE = "variable"
    OPTIONS = "options"
    ENTRY = "entry"
    REPORTED = "reported"  # no counterpart, or not to be read: a remark says why


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the source, numbered from 1; `entry` is the line of the entry whose script holds it, 0 for none."""

    number: int
    text: str
    kind: Kind
    entry: int = 0


@dataclass(frozen=True, slots=True)
class Remark:
    """What a person should know of a line; `look`: something has to be decided or mended by hand."""

    line: int
    what: str
    mend: str = ""
    look: bool = False

    def __str__(self) -> str:
        return str(self.advice)

    @property
    def advice(self) -> Advice:
        """The whole remark, with the commands of its mend as values."""
        return Advice(f"line {self.line}: {self.what} ", self.mend).rstrip()


@dataclass(frozen=True, slots=True)
class Job:
    """One entry of a table, as its scheduler ran it."""

    line: int
    schedule: str  # what a #CRON line says
    command: str
    timezone: str = ""  # IANA key for --timezone; "": none is written
    stdin: str = ""  # what the command reads, with its last newline
    shell: str = "/bin/sh"
    variables: tuple[tuple[str, str], ...] = ()  # exported, in this order
    options: tuple[tuple[str, ...], ...] = ()  # sbatch's words, a tuple for each line
    comments: tuple[str, ...] = ()
    job_name: str = ""  # the table's own name for it
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table that has been read."""

    source: str  # crontab | scrontab
    jobs: tuple[Job, ...]
    lines: tuple[Line, ...]
    remarks: tuple[Remark, ...]
    absent: bool = False  # the input says that there is no table


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a table does not say itself."""

    user: str = ""  # whose table it is
    timezone: str = ""  # IANA key of the clock it ran by, where entries would run by another one else
    alerts: bool = False  # somebody is told of failures already
    system: bool = False  # a system crontab: a user's name stands before each command


BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\$")  # the line ends with a backslash
SUBMITS = (
    "its command is sbatch: the imported job would only submit another.",
    "Simpler: put that script into cron.d/ itself, with the #CRON line.",
)
_NO_TABLE = re.compile(r"no crontab for \S+")


def source_lines(data: bytes) -> tuple[list[str], bool]:
    """The lines, without Windows line ends, and whether there were any such; bytes that are no UTF-8 are kept."""
    if data.startswith(BOMS[1:]):
        text = data.decode("utf-16", "replace")
    else:
        text = data.removeprefix(BOMS[0]).decode("utf-8", "surrogateescape")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines], any(line.endswith("\r") for line in lines)


def says_none(lines: list[str]) -> bool:
    """Whether this is what `crontab -l` and `scrontab -l` print where there is no table."""
    words = [line for line in lines if line.strip()]
    return len(words) == 1 and bool(_NO_TABLE.fullmatch(words[0].strip()))


_TIME = re.compile(r"[\d*][\d*/,~-]*(?:\s|$)")


def no_command(text: str) -> str:
    """What is wrong with what stands behind a schedule, where that is nothing to run; "" else."""
    if not text.strip():
        return "no command behind the schedule."
    return "six fields of time, or a number for a command: cron has five fields." if _TIME.match(text) else ""


@dataclass(slots=True)
class Builder:
    """Collects a Table line by line. Comments wait for the entry that follows them."""

    source: str
    jobs: list[Job] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    kinds: dict[int, Kind] = field(default_factory=dict)
    owners: dict[int, int] = field(default_factory=dict)  # line -> the entry's line
    comments: list[tuple[int, str]] = field(default_factory=list)

    def note(self, line: int, what: str, mend: str = "", *, look: bool = False) -> None:
        """One remark."""
        self.remarks.append(Remark(line, what, mend, look))

    def report(self, line: int, what: str, mend: str = "") -> None:
        """This line becomes nothing; the comments above it were about it."""
        self.kinds[line] = Kind.REPORTED
        self.note(line, what, mend, look=True)
        self.comments.clear()

    def comment(self, line: int, text: str) -> None:
        """Kept above the next entry."""
        self.kinds[line] = Kind.COMMENT
        self.comments.append((line, text))

    def take_comments(self, owner: int) -> tuple[str, ...]:
        """Those that wait, for the entry at line `owner`."""
        taken, self.comments = self.comments, []
        self.owners.update((line, owner) for line, _ in taken)
        return tuple(text for _, text in taken)

    def add(self, job: Job) -> None:
        """An entry."""
        self.kinds[job.line] = Kind.ENTRY
        self.owners[job.line] = job.line
        self.jobs.append(job)

    def table(self, lines: list[str]) -> Table:
        """All of it; remarks by line."""
        stray = [number for number, kind in self.kinds.items() if kind is Kind.COMMENT and number not in self.owners]
        if stray:
            others = f" (and {', '.join(map(str, stray[1:]))})" if stray[1:] else ""
            what = f"comments{others} that belong to no entry imported: no script holds them."
            self.remarks.append(Remark(stray[0], what))
        rows = tuple(
            Line(number, text, self.kinds[number], self.owners.get(number, 0)) for number, text in enumerate(lines, 1)
        )
        return Table(self.source, tuple(self.jobs), rows, tuple(sorted(self.remarks, key=lambda each: each.line)))
