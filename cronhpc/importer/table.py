"""What a table says: its jobs, and what became of each of its lines."""

from __future__ import annotations

import re
from enum import StrEnum
from itertools import takewhile
from typing import TYPE_CHECKING

from cronhpc.core.model import Advice
from cronhpc.cron.foreign import recognised
from cronhpc.cron.grammar import UNITS, WEEKDAYS
from cronhpc.cron.values import dataclass
from cronhpc.cron.zones import is_zone

if TYPE_CHECKING:
    from collections.abc import Callable


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
    """What a person should know of a line; `look`: something has to be decided or fixed by hand."""

    line: int
    what: str
    fix: str = ""
    look: bool = False

    def __str__(self) -> str:
        return str(self.advice)

    @property
    def advice(self) -> Advice:
        """The whole remark, with the commands of its fix as values."""
        return Advice(f"line {self.line}: {self.what} ", self.fix).rstrip()


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

    @property
    def cron(self) -> str:
        """What its #CRON line says."""
        return self.schedule + (f" --timezone={self.timezone}" if self.timezone else "")


@dataclass(frozen=True, slots=True)
class Table:
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
    "its command submits a job: the imported one would only submit another.",
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


def to_be_told(mailto: str) -> str:
    """What takes the place of MAILTO here."""
    whom = f"[{', '.join(mailto.split(','))}]" if "," in mailto else mailto
    return f"To be told of failures, write in cronhpc.yaml: alerts: {{mail: {whom}}}"


_TIME = re.compile(r"[\d*][\d*/,~-]*(?:\s|$)")


def no_command(text: str) -> str:
    """What is wrong with what stands behind a schedule, where that is nothing to run; "" else."""
    if not text.strip():
        return "no command behind the schedule."
    return "six fields of time, or a number for a command: cron has five fields." if _TIME.match(text) else ""


class NotImportedError(Exception):
    """An entry that becomes nothing: what is wrong with it, and the fix."""


class Reader:
    """Reads a table; each dialect says in `line` what a line is. Comments wait for the entry below them."""

    source = ""
    scheduler = ""  # whose commands the table's are
    entry: re.Pattern[str]  # a line that is one
    setting: Callable[[str], tuple[str, str] | None]  # (name, value) where a line sets a variable

    def __init__(self, around: Surroundings, lines: list[str]) -> None:
        self.around, self.lines = around, lines
        self.jobs: list[Job] = []
        self.remarks: list[Remark] = []
        self.kinds: dict[int, Kind] = {}
        self.owners: dict[int, int] = {}  # line -> the entry's line
        self.comments: list[tuple[int, str]] = []
        self.variables: dict[str, str] = {}  # a variable holds for the entries below it

    @classmethod
    def read(cls, data: bytes, around: Surroundings) -> Table:
        """The table in `data`. Never raises: what cannot be read is a remark on its line."""
        lines, windows = source_lines(data)
        if says_none(lines):
            return Table(cls.source, (), (), (), absent=True)
        reader = cls(around, lines)
        for number, line in enumerate(lines, 1):
            try:
                reader.line(number, line)
            except NotImportedError as error:
                reader.refuse(number, *error.args)
        if data.startswith(BOMS):
            reader.note(1, f"it begins with a byte order mark, at which {cls.scheduler} stumbles: taken off.")
        if windows:
            reader.note(1, f"Windows line ends, at which {cls.scheduler}'s commands fail: taken off.")
        reader.end(data)
        return reader.table()

    def line(self, number: int, text: str) -> None:
        """One line, counted from 1. Raises NotImportedError."""
        raise NotImplementedError

    def end(self, data: bytes) -> None:
        """What is to be said once the last line is read; `data` is the whole table."""

    def note(self, line: int, what: str, fix: str = "", *, look: bool = False) -> None:
        self.remarks.append(Remark(line, what, fix, look))

    def report(self, line: int, what: str, fix: str = "") -> None:
        """This line becomes nothing; the comments above it were about it."""
        self.kinds[line] = Kind.REPORTED
        self.note(line, what, fix, look=True)
        self.comments.clear()

    def refuse(self, line: int, what: str, fix: str) -> None:
        """The same of an entry."""
        self.report(line, what, fix)

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
        self.kinds[job.line] = Kind.ENTRY
        self.owners[job.line] = job.line
        self.jobs.append(job)

    def goes_on(self, number: int, command: str) -> None:
        """A remark on a command that ends with a backslash, unless the line below is refused with one of its own."""
        below = "".join(self.lines[number : number + 1]).lstrip(" \t")
        refused = below and below[0] != "#" and not self.setting(below) and not self.entry.fullmatch(below)
        if CONTINUED.search(command) and not refused:
            what = f"it ends with a backslash: to {self.scheduler} the line below is no part of it."
            self.note(number, what, "Put the command into one line.", look=True)

    def table(self) -> Table:
        """All of it; remarks by line."""
        stray = [number for number, kind in self.kinds.items() if kind is Kind.COMMENT and number not in self.owners]
        if stray:
            others = f" (and {', '.join(map(str, stray[1:]))})" if stray[1:] else ""
            what = f"comments{others} that belong to no entry imported: no script holds them."
            self.remarks.append(Remark(stray[0], what))
        rows = tuple(
            Line(number, text, self.kinds[number], self.owners.get(number, 0))
            for number, text in enumerate(self.lines, 1)
        )
        return Table(self.source, tuple(self.jobs), rows, tuple(sorted(self.remarks, key=lambda each: each.line)))


# --- variables --------------------------------------------------------------------------------------------------------
#
# Lines that set one, as cron (load_env in env.c) and scrontab (its own, of the same name) read them.


_SPACE = " \t\n\r\v\f"
# cron: name and value may each be quoted; nothing may follow a closed quote; an open value loses its last blanks.
_CRON = re.compile(
    r"""[ \t]*(?:'(?P<single>[^'=]*)'|"(?P<double>[^"=]*)"|(?P<name>(?!['"])[^\s=]*))\s*=\s*"""
    r"""(?:'(?P<value1>[^']*)'\s*|"(?P<value2>[^"]*)"\s*|(?P<value>(?!['"]).*))"""
)
_SCRON = re.compile(
    r"""[ \t]*(?P<name>[A-Za-z0-9_]*)[ \t]*=[ \t]*"""
    r"""(?:'(?P<value1>[^']*)'[ \t]*|"(?P<value2>[^"]*)"[ \t]*|(?P<value>(?!['"]).*))"""
)
# A shell does not take these from outside, or not as they are: IFS would split words anew.
_SHELLS_OWN = frozenset({"IFS", "UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS", "PWD", "OLDPWD", "OPTIND", "_"})
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def cron_variable(line: str) -> tuple[str, str] | None:
    """(name, value) where cron takes `line` for a setting; nothing in the value is expanded."""
    match = _CRON.fullmatch(line)
    if match is None:
        return None
    name = match["single"] or match["double"] or match["name"] or ""
    quoted = match["value1"] if match["value1"] is not None else match["value2"]
    return name, quoted if quoted is not None else match["value"].rstrip(_SPACE)


def scron_variable(line: str) -> tuple[str, str] | None:
    """(name, value) where scrontab takes `line` for a setting."""
    match = _SCRON.fullmatch(line)
    if match is None:
        return None
    quoted = match["value1"] if match["value1"] is not None else match["value2"]
    return match["name"], quoted if quoted is not None else match["value"]


def is_shell_name(name: str) -> bool:
    """Whether a script can pass on a variable of this name."""
    return bool(_PLAIN.fullmatch(name)) and name not in _SHELLS_OWN


# --- what a line is misread as ----------------------------------------------------------------------------------------

_NAMES = "|".join((*WEEKDAYS, *UNITS[3].names))
_FIELD = re.compile(rf"(?:[\d*?]|(?:{_NAMES}|H|LW?)(?![a-z.]))[\w*?,/#~()-]*", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"<[A-Za-z][^<>]*>|\{\{[^{}]*\}\}|\{[A-Za-z][^{}]*\}|\[[A-Za-z][^\[\]]*\]")
_ZONE_THEN_ENTRY = re.compile(r"(?P<zone>\S+)\s+(?P<entry>(?:@\w+|[\d*]\S*\s+\S+\s+\S+\s+\S+\s+\S+)\s+\S.*)")
_MOST_FIELDS = 7  # with seconds and a year
ZONE_VARIABLES = frozenset({"CRON_TZ", "TZ"})


def times(line: str) -> list[str]:
    """The words at the front of `line` that look like fields of time."""
    return [*takewhile(_FIELD.fullmatch, line.split()[:_MOST_FIELDS])]


def refused(line: str) -> tuple[str, str] | None:
    """What is wrong with a line that cron refuses, and what to do; None where nothing better is known."""
    placeholder = _PLACEHOLDER.search(line)
    if placeholder and placeholder.start() <= len(" ".join(line.split()[: len(UNITS)])):
        return _placeholder(placeholder.group())
    fields = times(line)
    if any("?" in word or "#" in word for word in fields):
        foreign = recognised(" ".join(fields))
        if foreign:
            return foreign.what, foreign.fix
    if 1 < len(fields) < len(UNITS) and len(line.split()) > len(fields):
        count = {2: "two", 3: "three", 4: "four"}[len(fields)]
        last = UNITS[len(fields)].name
        five = " ".join([*fields, *("*" for _ in UNITS[len(fields) :])])
        what = f"{count} fields of time before the command: the {last} is missing."
        return what, f"Write all five, as in {five}."
    return None


def command_of_placeholder(command: str) -> tuple[str, str] | None:
    """`<your command>` where a command should be."""
    match = re.match(r"<[A-Za-z][^<>]*>", command)
    return _placeholder(match.group()) if match else None


def _placeholder(text: str) -> tuple[str, str]:
    return f"{text} stands for something that was never filled in.", f"Write what is meant in the place of {text}."


def zone_in_front(name: str, value: str) -> tuple[str, str] | None:
    """`CRON_TZ=Europe/Paris 0 3 * * * x` on one line, which is a setting of that whole value."""
    match = _ZONE_THEN_ENTRY.fullmatch(value)
    if name not in ZONE_VARIABLES or match is None:
        return None
    what = (
        f"{name}={match['zone']} and an entry on one line: cron takes it all for the value of {name}, and runs nothing."
    )
    return what, f"Write CRON_TZ={match['zone']} on a line of its own above the entry."


def zone_behind(command: str) -> tuple[str, str] | None:
    """`0 3 * * * Europe/Paris x`: the zone is what cron runs."""
    word = command.split(None, 1)[0]
    if not re.fullmatch(r"[A-Z][A-Za-z_]+(?:/[A-Za-z0-9_+-]+){1,2}|UTC|GMT", word) or not is_zone(word):
        return None
    what = f"{word} behind the fields is no time zone to cron, but the command."
    return what, f"Write CRON_TZ={word} on a line of its own above, and take it out here."


def cut_by_percent(run: str) -> bool:
    r"""Whether the bare % that ends `run` was hardly meant: in quotes, in brackets, or in a format of date's."""
    quotes = re.sub(r"\\.", "", run)
    without = re.sub(r"'[^']*'|\"[^\"]*\"", "", quotes)
    return (
        "'" in without
        or '"' in without
        or without.count("(") > without.count(")")
        or quotes.count("`") % 2 == 1
        or bool(re.search(r"(?:^|\s)\+$", without))
        or bool(re.search(r"\bdate\b[^|;&]*\+\S*$", without))
    )
