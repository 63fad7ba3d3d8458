"""Lines that cron does not read as they were meant: what was meant, said in one sentence; pure."""

from __future__ import annotations

import re

from cronhpc.cron.fields import UNITS, WEEKDAYS
from cronhpc.cron.foreign import recognised
from cronhpc.cron.zones import is_zone

_NAMES = "|".join((*WEEKDAYS, *UNITS[3].names))
_FIELD = re.compile(rf"(?:[\d*?]|(?:{_NAMES}|H|LW?)(?![a-z.]))[\w*?,/#~()-]*", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"<[A-Za-z][^<>]*>|\{\{[^{}]*\}\}|\{[A-Za-z][^{}]*\}|\[[A-Za-z][^\[\]]*\]")
_ZONE_THEN_ENTRY = re.compile(r"(?P<zone>\S+)\s+(?P<entry>(?:@\w+|[\d*]\S*\s+\S+\s+\S+\s+\S+\s+\S+)\s+\S.*)")
_MOST_FIELDS = 7  # with seconds and a year
ZONE_VARIABLES = frozenset({"CRON_TZ", "TZ"})


def times(line: str) -> list[str]:
    """The words at the front of `line` that look like fields of time."""
    found: list[str] = []
    for word in line.split():
        if not _FIELD.fullmatch(word) or len(found) == _MOST_FIELDS:
            break
        found.append(word)
    return found


def refused(line: str) -> tuple[str, str] | None:
    """What is wrong with a line that cron refuses, and what to do; None where nothing better is known."""
    placeholder = _PLACEHOLDER.search(line)
    if placeholder and placeholder.start() <= len(" ".join(line.split()[: len(UNITS)])):
        return _placeholder(placeholder.group())
    found = times(line)
    if any("?" in word or "#" in word for word in found):
        foreign = recognised(" ".join(found))
        if foreign:
            return foreign.what, foreign.fix
    if 1 < len(found) < len(UNITS) and len(line.split()) > len(found):
        count = {2: "two", 3: "three", 4: "four"}[len(found)]
        last = UNITS[len(found)].name
        five = " ".join([*found, *("*" for _ in UNITS[len(found) :])])
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


def cut_by_percent(command: str, run: str) -> bool:
    r"""Whether the bare % that ends `run` was hardly meant: in quotes, in brackets, or in a format of date's."""
    if run == command or len(run) >= len(command):
        return False
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
