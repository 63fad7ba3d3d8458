"""A scrontab as Slurm's scrontab reads it, line by line, and as `scrontab -l` prints it."""

from __future__ import annotations

import re

from cronhpc.batch.scrontab import own_lines
from cronhpc.cron.grammar import ALIASES, UNITS, Field, Fields, Unit, longest, ranges
from cronhpc.cron.schedule import ScheduleError, parse_fields
from cronhpc.importer import crontab, table
from cronhpc.importer.script import directive, submits
from cronhpc.importer.table import (
    CONTINUED,
    SUBMITS,
    Job,
    Kind,
    NotImportedError,
    Reader,
    Surroundings,
    no_command,
    scron_variable,
    to_be_told,
)
from cronhpc.script import directives

_ENTRY = re.compile(r"(?P<when>@\S+|(?:[^\s@]\S*[ \t]+){4}\S+)(?:[ \t]+(?P<command>.*))?")
_DISABLED = re.compile(r"#DISABLED(?::[ \t]?|[ \t])(?P<rest>.*)")
_OPTIONS = re.compile(r"#SCRON(?P<words>\s.*|-.*|)")


class Scrontab(Reader):
    """The lines in order, as scrontab reads them. Options wait for the next entry."""

    source = "scrontab"
    scheduler = "scrontab"
    entry = _ENTRY
    setting = staticmethod(scron_variable)

    def __init__(self, around: Surroundings, lines: list[str]) -> None:
        super().__init__(around, lines)
        self.ours = own_lines(lines)  # of the scheduler's own entry, counted from 0
        self.options: list[tuple[int, tuple[str, ...], bool]] = []  # line, words, disabled

    def line(self, number: int, text: str) -> None:
        """Options, a comment, a variable or an entry."""
        bare = text.strip(" \t")
        disabled = _DISABLED.fullmatch(bare)
        if not bare or number - 1 in self.ours:
            self.kinds[number] = Kind.BLANK
        elif "\0" in bare:
            self.report(number, "a NUL byte is in it.", "Remove it.")
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

    def end(self, data: bytes) -> None:  # noqa: ARG002 - options are among the lines
        """Options that no entry follows."""
        for number, _, _ in self.options:
            self.kinds[number] = Kind.REPORTED
            self.note(number, "options with no entry below them.", "Remove them, or add the entry.", look=True)

    def _comment(self, number: int, text: str) -> None:
        self.comment(number, text)
        if text.startswith("#BAD:"):
            self.note(number, "scrontab refused this line, and kept it as a comment; so do we.", look=True)
        elif text.startswith("#SBATCH"):
            what = "#SBATCH means nothing in a scrontab, whose word is #SCRON: kept as a comment."
            self.note(number, what, "If the option is wanted, write it into the script.", look=True)

    def _disabled(self, number: int, whole: str, rest: str) -> None:
        """What `scrontab -l` shows of an entry that was cancelled."""
        if not rest:
            self.kinds[number] = Kind.BLANK
        elif rest.startswith("#SCRON"):
            self._options(number, rest, disabled=True)
        elif rest.startswith("#"):
            self._comment(number, rest)
        elif _ENTRY.fullmatch(rest) and scron_variable(rest) is None:
            self._entry(number, rest, disabled=True)
        else:
            self._comment(number, whole)

    def _variable(self, number: int, name: str, value: str) -> None:
        zoned = table.zone_in_front(name, value)
        if zoned:
            what = (
                f"{name}=… and an entry on one line: scrontab takes it all for the value of {name}, and runs nothing."
            )
            fix = "Write the entry on a line of its own, and --timezone beside #CRON in its script."
            raise NotImportedError(what, f"{fix} It is not imported.")
        self.kinds[number] = Kind.VARIABLE
        self.variables.pop(name, None)  # set anew it is filled in last
        self.variables[name] = value
        if name == "MAILTO" and value:
            fix = "" if self.around.alerts else to_be_told(value)
            self.note(number, f"MAILTO={value}: scrontab sends no mail by it.", fix)
        elif name == "CRON_TZ":
            what = "CRON_TZ does nothing in a scrontab, which runs by the controller's clock."
            self.note(number, what, "If it was meant, add --timezone to the #CRON lines.", look=True)
        else:
            self.note(number, f"{name}: scrontab fills its value in for ${name}, and sets no variable; done.")

    # --- options

    def _options(self, number: int, text: str, *, indented: bool = False, disabled: bool = False) -> None:
        match = _OPTIONS.fullmatch(text)
        if match is None:
            self._comment(number, text)
            self.note(number, "it begins with #SCRON, so that scrontab refuses the table: kept as a comment.")
            return
        self.kinds[number] = Kind.OPTIONS
        if indented:
            self.note(number, "scrontab refuses an indented #SCRON: taken as meant.")
        self.options.append((number, self._option_words(number, match["words"]), disabled))

    def _option_words(self, number: int, text: str) -> tuple[str, ...]:
        """As scrontab splits them, at blanks alone; where it would refuse what that gives, as sbatch does."""
        plain = tuple(text.split())
        if not re.search(r"""["'\\]|(?:^|\s)#""", text):
            return plain
        try:
            meant = tuple(directives.words(text))
        except directives.UnclosedQuoteError:
            self.note(number, "a quote is not closed: the words are kept as they stand.", look=True)
            return plain
        if meant != plain:
            what = f"scrontab knows neither quotes nor comments among options: taken as {' '.join(meant)}"
            self.note(number, f"{what}.")
        return meant

    def _take_options(self, owner: int, *, disabled: bool) -> tuple[tuple[str, ...], ...]:
        taken = [row for row in self.options if row[2] is disabled]
        for number, _, _ in (row for row in self.options if row[2] is not disabled):
            self.kinds[number] = Kind.REPORTED
            self.note(number, "disabled options over an entry that is not: left out.", look=True)
        self.options.clear()
        for number, words, _ in taken:
            self.owners[number] = owner
            self._judge(number, words)
        return tuple(words for _, words, _ in taken if words)

    def _judge(self, number: int, words: tuple[str, ...]) -> None:
        _, problems = directives.sbatch_options_of(((number, directive(words)),))
        if problems:
            what, others = problems[0].what, [f"{each.key}" for each in problems[1:] if each.key]
            likewise = f" The same of {', '.join(others)}." if others else ""
            fix = f"{problems[0].fix} Kept: the cluster has the last word."
            self.note(number, what + likewise, fix, look=True)

    # --- entries

    def _entry(self, number: int, text: str, *, disabled: bool = False) -> None:
        match = _ENTRY.fullmatch(text)
        what = no_command(match["command"] or "") if match else "neither a comment, a setting nor an entry."
        fix = "Five fields are needed, then a command."
        if match is None or what:
            if number > 1 and CONTINUED.search(self.lines[number - 2]) and match is None:
                what = "neither a comment, a setting nor an entry; scrontab has no continued lines."
                fix = "Put the command into one line."
            else:
                what, fix = table.refused(text) or (what, fix)
        else:
            what, fix = table.command_of_placeholder(match["command"]) or ("", "")
        if match is None or what:
            raise NotImportedError(what, f"{fix} It is not imported.")
        schedule = self._schedule(number, " ".join(match["when"].split()), text)
        options = self._take_options(number, disabled=disabled)
        command = self._filled(number, match["command"])
        comments = self.take_comments(number)
        if submits(command):
            self.note(number, *SUBMITS)
        self.goes_on(number, command)
        if disabled:
            self.note(number, "disabled in the scrontab: written, and paused.")
        zone, name = self.around.timezone, _job_name(options)
        self.add(
            Job(number, schedule, command, zone, comments=comments, options=options, job_name=name, paused=disabled)
        )

    def refuse(self, line: int, what: str, fix: str) -> None:
        """With the options above it."""
        for number, _, _ in self.options:
            self.kinds[number] = Kind.REPORTED
            self.note(number, f"options of line {line}, which is not imported.")
        self.options.clear()
        self.report(line, what, fix)

    def _schedule(self, number: int, text: str, whole: str) -> str:
        """In cron's words; what scrontab refuses may be good cron: then it is taken, and said."""
        try:
            written = as_cron(text)
        except RefusedError as refused:
            try:
                written = crontab.as_cron(text)
            except ScheduleError as error:
                what, fix = table.refused(whole) or (f'"{error.text}": {error.what}', error.fix)
                raise NotImportedError(what, f"{fix} It is not imported.") from None
            what = f"scrontab refuses {refused}, so this line never ran there; here it means what cron means by it."
            self.note(number, what, "Look whether that is what you want.", look=True)
            return written
        if written.lower().split() != text.lower().split():
            what = f'"{text}": Slurm ran it at "{written}" in cron\'s words, which the script says.'
            self.note(number, what)
        return written

    def _filled(self, number: int, command: str) -> str:
        """As scrontab fills it in: of each variable the first `$NAME` only, whatever follows it, one by one."""
        filled = command
        for name, value in self.variables.items():
            filled = filled.replace(f"${name}", value, 1)
            if name and command.count(f"${name}") > 1:
                what = f"scrontab fills in the first ${name} of a command only; the others are left to the shell."
                self.note(number, what, f"Set {name} in the script if they should have it.", look=True)
        return filled


def _job_name(options: tuple[tuple[str, ...], ...]) -> str:
    read, _ = directives.sbatch_options_of(tuple((0, directive(words)) for words in options))
    return next((each.value for each in reversed(read) if each.name == "job-name"), None) or ""


# --- schedules --------------------------------------------------------------------------------------------------------
#
# As Slurm's own parser reads them, and its calculation of the next start (tried against 22.05.8's library):
# steps count from the field's first value, not the range's, and weekdays' from Monday, and one step holds for the
# whole list; minute 60 and hour 24 are 0, day and month 0 nothing; names stand alone; `*/1` and `mon-fri` are
# refused; and date and weekday are joined by "or" as soon as neither is a bare `*`.


_FIELD = re.compile(r"(?:(?P<star>\*)|(?P<name>[A-Za-z]{3})|(?P<list>[0-9,-]+))(?:/(?P<step>[0-9]+))?")
_SIZES = (61, 25, 32, 13, 8)  # of Slurm's bit strings
_FIRST = (0, 0, 1, 1, 1)  # where its steps begin
_AGAIN = (60, 24, 32, 13, 7)  # what is 0 again
_INT32 = 2**32


class RefusedError(ValueError):
    """scrontab refuses it: a table with such a line was never installed. Its text says why."""


def meaning(text: str) -> Fields:
    """What Slurm makes of five fields, said in cron's words. Raises RefusedError."""
    words = text.split()
    fields = Fields(*map(_field, range(len(UNITS)), words))
    if not any(fields.day.values[0] <= longest(month) for month in fields.month.values):
        raise RefusedError(f"no month of {words[3]} has day {words[2]}")
    return fields


def _field(index: int, word: str) -> Field:
    unit, size = UNITS[index], _SIZES[index]
    match = _FIELD.fullmatch(word)
    if match is None or (match["name"] and match["name"].lower() not in unit.names):
        raise RefusedError(f'{unit.name} "{word}"')
    if match["star"]:
        values = set(range(size))
    elif match["name"]:
        values = {unit.names.index(match["name"].lower()) + unit.low}
    else:
        values = _listed(unit, size, match["list"])
    if match["step"]:
        step = int(match["step"])
        if not 1 < step < size:
            raise RefusedError(f'{unit.name} "{word}": a step of {step}')
        values &= set(range(_FIRST[index], size, step))
    numbers = tuple(sorted(each for each in {value % _AGAIN[index] for value in values} if each >= unit.low))
    if not numbers:
        raise RefusedError(f'{unit.name} "{word}": no value is left')
    return Field(_written(unit, word, numbers), star=word == "*", values=numbers)


def _listed(unit: Unit, size: int, text: str) -> set[int]:
    """Numbers and ranges; a missing number is 0, of `1-3-5` the last two count, backwards is nothing."""
    values: set[int] = set()
    if text.startswith(","):
        return values
    for element in text.split(","):
        numbers = [int(part or "0") % _INT32 for part in element.split("-")]
        first, last = numbers[-2:] if len(numbers) > 1 else numbers * 2
        if max(first, last) >= size:
            raise RefusedError(f'{unit.name} "{text}"')
        values.update(range(first, last + 1))
    return values


def _written(unit: Unit, word: str, values: tuple[int, ...]) -> str:
    """In cron's words, with the star they were written with: it decides what happens when clocks change."""
    if unit in (UNITS[2], UNITS[4]):  # to cron a star, even a stepped one, means "and"
        return word if word == "*" else ranges(values)
    return word if word[0] == "*" else "*" if len(values) == unit.top - unit.low + 1 else ranges(values)


def as_cron(text: str) -> str:
    """The cron text that starts when Slurm started `text`: the same text where cron means the same by it.

    Raises RefusedError where scrontab takes no such line.
    """
    if text.startswith("@"):
        if text.lower() not in ALIASES:
            raise RefusedError(f'"{text}"')
        return text.lower()
    meant = meaning(text)
    try:
        return text if _same(meant, parse_fields(text)) else meant.text
    except ScheduleError:
        return meant.text


def _same(meant: Fields, fields: Fields) -> bool:
    """Whether cron fires then, too: every combination of date and weekday is compared."""
    return all(meant[at].values == fields[at].values for at in (0, 1, 3)) and all(
        meant.on(day, weekday) == fields.on(day, weekday) for day in range(1, 32) for weekday in range(7)
    )
