"""A crontab as cronie reads it (entry.c, env.c, do_command.c, crontab.5), line by line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cronhpc.core.model import command
from cronhpc.cron.grammar import ALIASES, LAST_HASHED_DAY, UNITS, Unit, steps_beyond, unknown_alias
from cronhpc.cron.schedule import ScheduleError, parse_fields
from cronhpc.cron.zones import fixed, is_zone
from cronhpc.importer import table
from cronhpc.importer.script import is_sh, submits
from cronhpc.importer.table import (
    SUBMITS,
    Job,
    Kind,
    NotImportedError,
    Reader,
    Surroundings,
    cron_variable,
    is_shell_name,
    no_command,
    to_be_told,
)

if TYPE_CHECKING:
    from collections.abc import Callable


_ENTRY = re.compile(r"(?P<quiet>-?)(?P<when>@\S+|(?:[^\s@]\S*[ \t]+){4}\S+)(?:[ \t]+(?P<rest>.*))?")
_USER = re.compile(r"(\S+)[ \t]+([^ \t].*)")  # and the command; other blanks end no user's name
_WHOSE = frozenset({"root", "nobody", "daemon", "www-data", "apache"})
_WHOSE_TOO = _WHOSE | {"nginx", "postgres", "mysql", "munge", "slurm"}  # programs as well
_ANACRON = re.compile(r"\d+\s+\d+\s+(?!LW?\s)[A-Za-z]\S*\s+[^\s*]")
_OPENBSD = re.compile(r"(?:-[nqs]+\s+)+")
_SET_BY_CRON = frozenset({"LOGNAME", "USER"})
_ONLY_MAIL = frozenset({"MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING"})


def _names_users(lines: list[str], me: str) -> bool:
    """Whether every entry begins its command with what may be a user's name, and one of them surely is one."""
    entries = [match for line in lines if (match := _ENTRY.fullmatch(line.lstrip(" \t"))) and "=" not in match["when"]]
    words = [_first(match["rest"] or "") for match in entries]
    named = all(re.fullmatch(r"[a-z_][a-z0-9_-]*", word) and behind[:1] not in {"", "-"} for word, behind in words)
    return named and any(word in _WHOSE_TOO or word == me for word, _ in words)


def _first(command: str) -> tuple[str, str]:
    word, behind = (*command.split(None, 1), "", "")[:2]
    return word, behind


class Crontab(Reader):
    """The lines in order, as cron reads them. `users`: it looks like a system crontab."""

    source = "crontab"
    scheduler = "cron"
    entry = _ENTRY
    setting = staticmethod(cron_variable)

    def __init__(self, around: Surroundings, lines: list[str]) -> None:
        super().__init__(around, lines)
        self.users = not around.system and _names_users(lines, around.user)

    def line(self, number: int, text: str) -> None:
        """A comment, a variable or an entry."""
        bare = text.lstrip(" \t")
        if not bare.strip():
            self.kinds[number] = Kind.BLANK
        elif bare.startswith("#"):
            self._comment(number, bare)
        elif "\0" in bare:
            self.report(number, "a NUL byte is in it.", "Remove it.")
        else:
            setting = cron_variable(bare)
            if setting is None:
                self._entry(number, bare)
            else:
                self._variable(number, *setting)

    def end(self, data: bytes) -> None:
        """A last line without its line end, which cron does not run."""
        if data and not data.endswith(b"\n") and self.kinds[len(self.lines)] is Kind.ENTRY:
            what = "the last line has no line end, so that cron passes it over: taken as meant."
            self.note(len(self.lines), what)

    def _comment(self, number: int, text: str) -> None:
        self.comment(number, text.rstrip())
        if text.startswith("#SCRON"):
            what = "#SCRON is scrontab's word; cron takes it for a comment, and so it is kept."
            self.note(number, what, "If this is a scrontab: " + command("import", "scrontab", "FILE"), look=True)

    # --- variables

    def _variable(self, number: int, name: str, value: str) -> None:
        if name in _SET_BY_CRON:
            self.kinds[number] = Kind.VARIABLE
            self.note(number, f"{name}: cron sets it itself, whatever the table says; so does cronhpc.")
        elif zoned := table.zone_in_front(name, value):
            self.report(number, zoned[0], f"{zoned[1]} It is not imported.")
        elif name == "RANDOM_DELAY":
            fix = "Write H for a minute or an hour (#CRON H 4 * * *): a fixed one, chosen by the entry's name."
            self._no_counterpart(number, f"RANDOM_DELAY={value}: nothing is delayed by chance here.", fix)
        elif name != "CRON_TZ" and not is_shell_name(name):
            what = f'"{name}": a shell script cannot pass on a variable of that name.'
            self._no_counterpart(number, what, "Rename it, or set it with env in the command. It is left out.")
        else:
            self.kinds[number] = Kind.VARIABLE
            self.variables[name] = value
            self._remark(number, name, value)

    def _no_counterpart(self, number: int, what: str, fix: str) -> None:
        """As `report`, but the comments above may be about what follows."""
        self.kinds[number] = Kind.REPORTED
        self.note(number, what, fix, look=True)

    def _remark(self, number: int, name: str, value: str) -> None:
        if name in _SAID:
            self.note(number, _SAID[name].format(name=name, value=value))
        elif name in _JUDGED and (judged := _JUDGED[name](value, self.around)):
            what, fix, look = judged
            self.note(number, what, fix, look=look)
        elif "$" in value or value.startswith("~"):
            what = f"{name}: cron expands nothing in a value; the script holds it as cron passed it on."
            self.note(number, what)
        elif " #" in value:
            self.note(number, f"{name}: cron has no comments behind a value: the # and what follows are in it.")

    # --- entries

    def _entry(self, number: int, text: str) -> None:
        match = _ENTRY.fullmatch(text)
        if match is None:
            raise NotImportedError(
                *(table.refused(text) or (_unreadable(text), "Five fields are needed, then a command."))
            )
        when, faults, command, zone = " ".join(match["when"].split()), list[tuple[str, str]](), "", ""
        try:
            schedule = as_cron(when)
        except ScheduleError as error:
            if misread := _of_anacron(text) or table.refused(text):  # what stands behind the fields is, too
                raise NotImportedError(misread[0], f"{misread[1]} It is not imported.") from None
            faults = [
                (f'"{when}": {each.what}', f"{each.fix} It is not imported.") for each in _of_fields(when) or [error]
            ]
        try:
            command = self._without_flags(number, self._command(match["rest"] or ""))
        except NotImportedError as error:
            faults.append(error.args)
        try:
            zone = self._zone()
        except NotImportedError as error:
            faults.append(error.args)
        for what, fix in dict.fromkeys(faults):
            self.refuse(number, what, fix)
        if faults:
            return
        if match["quiet"]:
            self.note(number, "the - in front (root's alone) keeps cron from logging the command: left out.")
        if schedule != when:
            self.note(number, f"cron draws ~ anew at each load: written as {schedule}, chosen once by name.")
        self._add(number, schedule, zone, command)

    def _command(self, rest: str) -> str:
        """What is run, without the user before it. Raises NotImportedError where there is none, or none of ours."""
        command, me = rest, self.around.user
        word, behind = _first(rest)
        if self.around.system:
            match = _USER.fullmatch(rest)
            if match is None:
                raise NotImportedError("no user and command behind the schedule.", "Is this a user's own crontab?")
            word, command = match.groups()
            if word != me:
                what = f"it runs as {word}; a cron directory's jobs run as its owner, here {me}."
                raise NotImportedError(what, f"Let {word} import it.")
        elif self.users or ((word in _WHOSE or word == me) and behind and not behind.startswith("-")):
            what = f'"{word}" in front of the command is the user of a system crontab.'
            raise NotImportedError(what, "Read such a table with --system. It is not imported.")
        what, fix = no_command(command), "Correct the line."
        if not what:
            what, fix = table.command_of_placeholder(command) or table.zone_behind(command) or ("", "")
        if what:
            raise NotImportedError(what, f"{fix} It is not imported.")
        return command

    def _without_flags(self, number: int, command: str) -> str:
        flags = _OPENBSD.match(command)
        if flags is None:
            return command
        what = f"{flags.group().strip()} in front of the command is for OpenBSD's cron: left out."
        self.note(number, f"{what} Runs of one entry never overlap here unless it says so.")
        return command[flags.end() :]

    def _zone(self) -> str:
        """Raises NotImportedError."""
        if not self.variables.get("CRON_TZ"):  # empty, it means the machine's own again
            return self.around.timezone
        zone = zone_of(self.variables["CRON_TZ"])
        if zone is None:
            what = f"CRON_TZ={self.variables['CRON_TZ']} is no name of a time zone."
            raise NotImportedError(what, "Write one like Europe/Paris in the table. It is not imported.")
        return zone

    def _add(self, number: int, schedule: str, zone: str, command: str) -> None:
        run, stdin = split_percent(command)
        if not run.strip():
            raise NotImportedError("no command before the %.", r"Write \% for the character.")
        variables = dict(self.variables)
        shell = variables.get("SHELL", "/bin/sh")
        if not shell.startswith("/") or " " in shell:
            what = f"SHELL={shell}: cron needs the whole path of a program, so this command never ran."
            raise NotImportedError(what, "Write SHELL=/bin/bash in the table. It is not imported.")
        if len(run) + run.count("%") < len(command):
            what = f"cron ends a command at a bare %: it ran {run.strip()}, and so does the script."
            fix = r"Was \% meant? Then write it, and import again."
            self.note(number, what, fix, look=table.cut_by_percent(run))
        for what, _ in steps_beyond(schedule):
            self.note(number, f"{what} So it did under cron.")
        comments = self.take_comments(number)
        pairs = tuple(variables.items())
        run = self._waiting(number, run, shell)
        self.add(Job(number, schedule, run, zone, stdin, shell, pairs, comments=comments))
        self.goes_on(number, run)
        if "\r" in run:
            what = "a carriage return is in it, which shells take for a letter: a file with old Mac line ends?"
            self.note(number, what, "Look at it with: cat -v", look=True)
        if submits(run):
            self.note(number, *SUBMITS)

    def _waiting(self, number: int, command: str, shell: str) -> str:
        """`command`, which cron let run on in the background, so that its job does not end before it."""
        waiting, left = waited_for(command)
        if left or (waiting != command and not is_sh(shell)):
            what = "it puts something into the background (&), which ends with the job, as soon as its shell ends."
            self.note(number, what, "Take the & out, or let the script wait for it.", look=True)
        elif waiting != command:
            what = "cron let it run on in the background; a job ends what its shell leaves: the script waits for it."
            self.note(number, what)
        return waiting if is_sh(shell) else command


def _of_anacron(text: str) -> tuple[str, str] | None:
    if not _ANACRON.match(text):
        return None
    return "it looks like a line of anacrontab: days, delay, name.", "Write @daily or @weekly for them."


def _of_fields(when: str) -> list[ScheduleError]:
    """What is wrong with each of the five fields by itself."""
    errors, words = [], when.split()
    for at, word in enumerate(words if len(words) == len(UNITS) else ()):
        try:
            as_cron(" ".join(word if each == at else "*" for each in range(len(UNITS))))
        except ScheduleError as error:
            errors.append(error)
    return errors


def _unreadable(text: str) -> str:
    if re.match(r"[A-Za-z_]\w*\s*=", text):
        return "neither a setting nor an entry: something follows the closed quote, or one is open."
    return "neither a comment, a setting nor an entry; cron has no continued lines."


# --- what is to be said of variables -------------------------------------------------------------------------------

_SAID = {
    "TZ": "TZ={value} is the commands' clock, not the schedule's: cron has CRON_TZ for that.",
    "HOME": "HOME={value}: cron runs commands in there, and so do the scripts.",
    "BASH_ENV": "BASH_ENV: bash reads it before a command, as under cron; /bin/sh (cron's SHELL) does not.",
    **dict.fromkeys(_ONLY_MAIL, "{name} is about cron's mail, which is not sent; the commands still see it."),
}

_Judged = tuple[str, str, bool]  # what is said, the fix, and whether a person has to look


def _mailto(value: str, around: Surroundings) -> _Judged:
    if not value:
        return 'MAILTO="": cron mailed nothing; what a run prints is in log/.', "", False
    what = f"MAILTO={value}: cron mailed what runs print; here it is kept in log/NAME/."
    return what, "The alerts in cronhpc.yaml tell of failures." if around.alerts else to_be_told(value), False


def _cron_tz(value: str, _: Surroundings) -> _Judged | None:
    zone = zone_of(value)
    if value and zone == "UTC" and value.removeprefix(":") not in {"UTC", "GMT", "Etc/UTC"}:
        what = f'CRON_TZ="{value}" is no time zone that cron knows, so it took UTC: written as --timezone=UTC.'
        return what, "Correct --timezone in the scripts if another was meant.", True
    if zone and zone.startswith("Etc/GMT") and value.removeprefix(":") != zone:
        side = "behind" if zone[7] == "+" else "ahead of"
        what = f"CRON_TZ={value} is {zone[8:]} h {side} UTC to cron, as POSIX reads the sign: --timezone={zone}."
        return what, "", False
    return None


_JUDGED: dict[str, Callable[[str, Surroundings], _Judged | None]] = {"MAILTO": _mailto, "CRON_TZ": _cron_tz}


# --- schedules --------------------------------------------------------------------------------------------------------
#
# As cronie reads them, said in ours: the same text but for its random `~`.


_RANDOM = re.compile(r"(\d*)~(\d*)")


def as_cron(text: str) -> str:
    """Five fields, or a name, that start when cron would start `text`. Raises ScheduleError with the fix."""
    if text.startswith("@"):
        if text == "@every":
            fix = "For a script in cron.d/ it has a meaning: #CRON @every 5m."
            raise ScheduleError(text, 0, "cron has no @every.", fix)
        if text not in ALIASES:
            raise ScheduleError(text, 0, *unknown_alias(text))
        return text
    words = text.split()
    if any("H" in word for word in words):
        raise ScheduleError(text, 0, "cron has no H.", "Put it beside #CRON in a script: there it has a meaning.")
    written = " ".join(_hashed(unit, word) for unit, word in zip(UNITS, words, strict=True))
    parse_fields(written)
    return written


def _hashed(unit: Unit, word: str) -> str:
    """Of cron's `a~b` (a random value, drawn at each load) `H(a-b)`: one value, chosen once."""

    def hashed(match: re.Match[str]) -> str:
        low, high = match.groups()
        if not unit.low <= int(low or unit.low) <= int(high or unit.top) <= unit.top:
            what = f'{unit.name} "{match[0]}": a random value lies within {unit.low}-{unit.top}, forwards.'
            raise ScheduleError(match[0], 0, what, f"Write {unit.low}~{unit.top}, or ~ alone.")
        top = LAST_HASHED_DAY if unit is UNITS[2] else unit.top
        return f"H({low or unit.low}-{min(int(high), top) if high else top})" if low or high else "H"

    return ",".join(_RANDOM.sub(hashed, part) if _RANDOM.fullmatch(part) else part for part in word.split(","))


# --- commands ---------------------------------------------------------------------------------------------------------
#
# cron's `%` is the end of the command and the line breaks of what it reads (do_command.c). What a command leaves in
# the background cron let run on, and a batch job ends it with its shell.


def split_percent(text: str) -> tuple[str, str]:
    r"""The command and its stdin ("" where it reads nothing): `%` divides, later ones are line breaks, `\%` is `%`."""
    command: list[str] = []
    escaped = False
    for at, char in enumerate(text):
        if escaped and char == "%":
            command.pop()
        elif char == "%":
            return "".join(command), _stdin_of(text[at + 1 :])
        command.append(char)
        escaped = not escaped and char == "\\"
    return "".join(command), ""


def _stdin_of(text: str) -> str:
    written: list[str] = []
    escaped = False
    for char in text:
        if escaped and char != "%":
            written.append("\\")
        out = "\n" if char == "%" and not escaped else char
        escaped = char == "\\"
        if not escaped:
            written.append(out)
    if escaped:
        written.append("\\")
    text = "".join(written)
    return text if not text or text.endswith("\n") else f"{text}\n"


_MASKED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|\(\([^()]*\)\)|(?:^|(?<=[\s;&|()]))\#.*$""", re.DOTALL)
_AMPERSAND = re.compile(r"(?<![<>&|])&(?![>&])")


def waited_for(command: str) -> tuple[str, bool]:
    """`command` so that it waits for what it puts into the background at its end; and whether anything may be left.

    `x & # why` becomes `x & wait $! # why`, whose exit code is x's. A word for shells of sh's family.
    """
    masked = _MASKED.sub(lambda match: ("_" if match[0][0] != "#" else " ") * len(match[0]), command)
    ampersands = list(_AMPERSAND.finditer(masked))
    if not ampersands:
        return command, False
    end = ampersands[-1].end()
    if masked[end:].strip():
        return command, True
    waiting = " wait $!" if len(ampersands) == 1 else " wait"
    return command[:end] + waiting + command[end:], False


# --- zones ------------------------------------------------------------------------------------------------------------


_RULES = re.compile(r"(?:[A-Za-z]{3,}|<[+-]?\w+>)[+-]?\d")


def zone_of(text: str) -> str | None:
    """The key of the zone that the C library takes for `text`: a name it does not know is UTC.

    None where it has rules of its own (`CET-1CEST,M3.5.0,M10.5.0/3`), for which there may be no key.
    """
    key = text.removeprefix(":").removeprefix("/usr/share/zoneinfo/")
    if is_zone(key):
        return key
    return fixed(key) or (None if _RULES.match(key) or key.startswith("/") else "UTC")  # a file may say anything
