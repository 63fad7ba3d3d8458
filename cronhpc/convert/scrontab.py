"""A scrontab as Slurm's scrontab reads it, line by line, and as `scrontab -l` prints it."""

from __future__ import annotations

import re
from dataclasses import replace

from cronhpc.batch.scrontab import own_lines
from cronhpc.convert import cron_fields, misread
from cronhpc.convert.naming import submits
from cronhpc.convert.script import directive
from cronhpc.convert.scron_fields import RefusedError, as_cron
from cronhpc.convert.table import (
    BOMS,
    CONTINUED,
    SUBMITS,
    Builder,
    Job,
    Kind,
    Surroundings,
    Table,
    no_command,
    says_none,
    source_lines,
)
from cronhpc.convert.variables import scron_variable, substituted
from cronhpc.core import directives
from cronhpc.core.grammar import ScheduleError

_ENTRY = re.compile(r"(?P<when>@\S+|(?:[^\s@]\S*[ \t]+){4}\S+)(?:[ \t]+(?P<command>.*))?")
_DISABLED = re.compile(r"#DISABLED(?::[ \t]?|[ \t])(?P<rest>.*)")
_OPTIONS = re.compile(r"#SCRON(?P<words>\s.*|-.*|)")


def read(data: bytes, around: Surroundings) -> Table:
    """The table in `data`. Never raises: what cannot be read is a remark on its line."""
    lines, windows = source_lines(data)
    if says_none(lines):
        return Table("scrontab", (), (), (), absent=True)
    reader = _Reader(around, lines)
    ours = own_lines(lines)
    for number, line in enumerate(lines, 1):
        if number - 1 in ours:
            reader.builder.kinds[number] = Kind.BLANK
        else:
            reader.line(number, line)
    reader.end()
    if data.startswith(BOMS):
        reader.builder.note(1, "it begins with a byte order mark, at which scrontab stumbles: taken off.")
    if windows:
        reader.builder.note(1, "Windows line ends, at which scrontab's commands fail: taken off.")
    return reader.builder.table(lines)


class _Reader:
    """The lines in order. Options wait for the next entry; a variable holds for the entries below it."""

    def __init__(self, around: Surroundings, lines: list[str]) -> None:
        self.around, self.lines = around, lines
        self.builder = Builder("scrontab")
        self.variables: dict[str, str] = {}
        self.options: list[tuple[int, tuple[str, ...], bool]] = []  # line, words, disabled

    def line(self, number: int, text: str) -> None:
        bare = text.strip(" \t")
        disabled = _DISABLED.fullmatch(bare)
        if not bare:
            self.builder.kinds[number] = Kind.BLANK
        elif "\0" in bare:
            self.builder.report(number, "a NUL byte is in it.", "Remove it.")
        elif disabled:
            self._disabled(number, bare, disabled["rest"].strip(" \t"))
        elif bare.startswith("#SCRON"):
            self._options(number, bare, indented=text[0] != "#")
        elif bare.startswith("#"):
            self._comment(number, bare)
        else:
            setting = scron_variable(text)
            if setting is None:
                self._entry(number, text.lstrip(" \t"))
            else:
                self._variable(number, *setting)

    def end(self) -> None:
        """Options that no entry follows."""
        for number, _, _ in self.options:
            self.builder.kinds[number] = Kind.REPORTED
            self.builder.note(number, "options with no entry below them.", "Remove them, or add the entry.", look=True)

    def _comment(self, number: int, text: str) -> None:
        self.builder.comment(number, text)
        if text.startswith("#BAD:"):
            self.builder.note(number, "scrontab refused this line, and kept it as a comment; so do we.", look=True)
        elif text.startswith("#SBATCH"):
            what = "#SBATCH means nothing in a scrontab, whose word is #SCRON: kept as a comment."
            self.builder.note(number, what, "If the option is wanted, write it into the script.", look=True)

    def _disabled(self, number: int, whole: str, rest: str) -> None:
        """What `scrontab -l` shows of an entry that was cancelled."""
        if not rest:
            self.builder.kinds[number] = Kind.BLANK
        elif rest.startswith("#SCRON"):
            self._options(number, rest, disabled=True)
        elif rest.startswith("#"):
            self._comment(number, rest)
        elif _ENTRY.fullmatch(rest) and scron_variable(rest) is None:
            self._entry(number, rest, disabled=True)
        else:
            self._comment(number, whole)

    def _variable(self, number: int, name: str, value: str) -> None:
        zoned = misread.zone_in_front(name, value)
        if zoned:
            what = (
                f"{name}=… and an entry on one line: scrontab takes it all for the value of {name}, and runs nothing."
            )
            mend = "Write the entry on a line of its own, and --timezone beside #CRON in its script."
            self._refuse(number, what, f"{mend} It is not imported.")
            return
        self.builder.kinds[number] = Kind.VARIABLE
        self.variables.pop(name, None)  # set anew it is filled in last
        self.variables[name] = value
        if name == "MAILTO" and value:
            what = f"MAILTO={value}: scrontab sends no mail by it."
            command = f"alerts: {{command: mail -s cronhpc {value.replace(',', ' ')}}}"
            mend = "" if self.around.alerts else f"To be told of failures, write in cronhpc.yaml: {command}"
            self.builder.note(number, what, mend)
        elif name == "CRON_TZ":
            what = "CRON_TZ does nothing in a scrontab, which runs by the controller's clock."
            self.builder.note(number, what, "If it was meant, add --timezone to the #CRON lines.", look=True)
        else:
            self.builder.note(number, f"{name}: scrontab fills its value in for ${name}, and sets no variable; done.")

    # --- options

    def _options(self, number: int, text: str, *, indented: bool = False, disabled: bool = False) -> None:
        match = _OPTIONS.fullmatch(text)
        if match is None:
            self._comment(number, text)
            self.builder.note(number, "it begins with #SCRON, so that scrontab refuses the table: kept as a comment.")
            return
        self.builder.kinds[number] = Kind.OPTIONS
        if indented:
            self.builder.note(number, "scrontab refuses an indented #SCRON: taken as meant.")
        self.options.append((number, self._words(number, match["words"]), disabled))

    def _words(self, number: int, text: str) -> tuple[str, ...]:
        """As scrontab splits them, at blanks alone; where it would refuse what that gives, as sbatch does."""
        plain = tuple(text.split())
        if not re.search(r"""["'\\]|(?:^|\s)#""", text):
            return plain
        try:
            meant = tuple(directives.words(text))
        except directives.UnclosedQuoteError:
            self.builder.note(number, "a quote is not closed: the words are kept as they stand.", look=True)
            return plain
        if meant != plain:
            what = f"scrontab knows neither quotes nor comments among options: taken as {' '.join(meant)}"
            self.builder.note(number, f"{what}.")
        return meant

    def _take_options(self, owner: int, *, disabled: bool) -> tuple[tuple[str, ...], ...]:
        taken = [row for row in self.options if row[2] is disabled]
        for number, _, _ in (row for row in self.options if row[2] is not disabled):
            self.builder.kinds[number] = Kind.REPORTED
            self.builder.note(number, "disabled options over an entry that is not: left out.", look=True)
        self.options.clear()
        for number, words, _ in taken:
            self.builder.owners[number] = owner
            self._judge(number, words)
        return tuple(words for _, words, _ in taken if words)

    def _judge(self, number: int, words: tuple[str, ...]) -> None:
        _, problems = directives.sbatch_options_of(((number, directive("#SBATCH", words)),))
        if problems:
            what, others = problems[0].what, [f"{each.key}" for each in problems[1:] if each.key]
            likewise = f" The same of {', '.join(others)}." if others else ""
            mend = f"{problems[0].mend} Kept: the cluster has the last word."
            self.builder.note(number, what + likewise, mend, look=True)

    # --- entries

    def _entry(self, number: int, text: str, *, disabled: bool = False) -> None:
        match = _ENTRY.fullmatch(text)
        what = no_command(match["command"] or "") if match else "neither a comment, a setting nor an entry."
        mend = "Five fields are needed, then a command."
        if match is None or what:
            if number > 1 and CONTINUED.search(self.lines[number - 2]) and match is None:
                what = "neither a comment, a setting nor an entry; scrontab has no continued lines."
                mend = "Put the command into one line."
            else:
                what, mend = misread.refused(text) or (what, mend)
        else:
            what, mend = misread.command_of_placeholder(match["command"]) or ("", "")
        if match is None or what:
            self._refuse(number, what, f"{mend} It is not imported.")
            return
        schedule = self._schedule(number, " ".join(match["when"].split()), text)
        if schedule is None:
            return
        options = self._take_options(number, disabled=disabled)
        command = self._filled(number, match["command"])
        comments = self.builder.take_comments(number)
        if submits(command):
            self.builder.note(number, *SUBMITS)
        below = "".join(self.lines[number : number + 1]).lstrip(" \t")
        said_there = below and below[0] != "#" and scron_variable(below) is None and _ENTRY.fullmatch(below) is None
        if CONTINUED.search(command) and not said_there:
            what = "it ends with a backslash: to scrontab the line below is no part of it."
            self.builder.note(number, what, "Put the command into one line.", look=True)
        if disabled:
            self.builder.note(number, "disabled in the scrontab: written, and paused.")
        job = Job(number, schedule, command, self.around.timezone, comments=comments, options=options)
        self.builder.add(_named(job, paused=disabled))

    def _refuse(self, number: int, what: str, mend: str) -> None:
        for line, _, _ in self.options:
            self.builder.kinds[line] = Kind.REPORTED
            self.builder.note(line, f"options of line {number}, which is not imported.")
        self.options.clear()
        self.builder.report(number, what, mend)

    def _schedule(self, number: int, text: str, whole: str) -> str | None:
        try:
            written = as_cron(text)
        except RefusedError as refused:
            return self._meant(number, text, str(refused), whole)
        if written.lower().split() != text.lower().split():
            what = f'"{text}": Slurm ran it at "{written}" in cron\'s words, which the script says.'
            self.builder.note(number, what)
        return written

    def _meant(self, number: int, text: str, why: str, whole: str) -> str | None:
        """What scrontab refuses may be good cron: then it is taken, and said."""
        try:
            written = cron_fields.as_cron(text)
        except ScheduleError as error:
            what, mend = misread.refused(whole) or (f'"{error.text}": {error.what}', error.mend)
            self._refuse(number, what, f"{mend} It is not imported.")
            return None
        what = f"scrontab refuses {why}, so this line never ran there; here it means what cron means by it."
        self.builder.note(number, what, "Look whether that is what you want.", look=True)
        return written

    def _filled(self, number: int, command: str) -> str:
        filled = substituted(command, tuple(self.variables.items()))
        for name in self.variables:
            if name and command.count(f"${name}") > 1:
                what = f"scrontab fills in the first ${name} of a command only; the others are left to the shell."
                self.builder.note(number, what, f"Set {name} in the script if they should have it.", look=True)
        return filled


def _named(job: Job, *, paused: bool) -> Job:
    lines = tuple((0, directive("#SBATCH", words)) for words in job.options)
    options, _ = directives.sbatch_options_of(lines)
    name = next((each.value for each in reversed(options) if each.name == "job-name"), None)
    return replace(job, job_name=name or "", paused=paused)
