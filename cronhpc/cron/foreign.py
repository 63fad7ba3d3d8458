"""Schedules as other schedulers write them: what they mean, and what to write here. Never another time.

Sources of the rules: Quartz's CronExpression, Spring's CronExpression, Amazon EventBridge's cron(), rate() and at(),
systemd.time(7), Kubernetes' and robfig/cron's `CRON_TZ=`, Jenkins' `TZ=`, ISO 8601 durations. What has no counterpart
is said to have none.
"""

from __future__ import annotations

import re

from cronhpc.cron.grammar import (
    ALIASES,
    BY_SCRIPT,
    FIVE,
    UNITS,
    WEEKDAYS,
    ScheduleError,
    can_be_read,
    ranges,
    strict_fields,
)
from cronhpc.cron.values import dataclass, replace
from cronhpc.cron.zones import is_zone

_ZONE = r"(?:[A-Za-z][A-Za-z_]*(?:/[A-Za-z0-9_+-]+){1,2}|(?i:UTC|GMT)|Z|[A-Z]{3,4}|(?i:UTC|GMT)?[+-]\d{1,2}(?::?\d\d)?)"
_ZONE_FIRST = re.compile(r"(?:CRON_)?TZ=([\"']?)(?P<zone>[^\s\"';]+)\1[;\s]\s*(?P<rest>\S.*)", re.DOTALL)
_ZONE_LAST = re.compile(rf"(?P<rest>\S.*\S)\s+(?:--timezone[= ]|\()?(?P<zone>{_ZONE})\)?", re.DOTALL)
_OFFSET = re.compile(r"(?i:UTC|GMT)?([+-])(\d{1,2})(?::?00)?")
_NAMES = "|".join((*WEEKDAYS, *UNITS[3].names))
_FIELD = re.compile(rf"(?:[0-9*?,/#LW-]|(?:{_NAMES})[a-z]*)+", re.IGNORECASE)
_ON_THE_LAST = "Write 28-31 as the day of month, and let the script look whether tomorrow is the 1st."


@dataclass(frozen=True, slots=True)
class Foreign:
    """A schedule of another scheduler: `what` it is, and `write`, the cron text with its zone, or `instead`."""

    what: str
    write: str = ""  # "": cron has no counterpart
    zone: str = ""
    instead: str = ""  # whole sentences; where `write` is given, what has to be done besides
    counted: bool = False  # the number of its fields is what is wrong

    @property
    def fix(self) -> str:
        """What to do, in sentences."""
        if not self.write:
            return self.instead
        written = f"{f'{FIVE}; w' if self.counted else 'W'}rite {self.write}"
        if self.zone:
            written += f" --timezone={self.zone} (in cronhpc.yaml: timezone: {self.zone})"
        return f"{written}. {self.instead}".rstrip()


def recognised(text: str) -> Foreign | None:
    """What `text`, which is no schedule of cron's, says elsewhere; None where it is not known."""
    bare = text.strip().strip("\"'").strip()
    if len(bare) > 200 or not bare:  # noqa: PLR2004 - none of these is longer
        return None
    if re.search(r"[^\S \t]", bare):  # of several lines only Jenkins' zone, which has one of its own
        return _zoned(bare) if _ZONE_FIRST.fullmatch(bare) else None
    return _zoned(bare) or _crontab_line(bare) or _amazon(bare) or _systemd(bare) or _spoken(bare) or _six(bare.split())


_LINE = re.compile(r"(?P<time>@[a-z]+|(?:\S+[ \t]+){4}\S+)[ \t]+(?P<first>[~/.$]\S+|[A-Za-z][\w.-]*(?=[ \t]))")


def _crontab_line(text: str) -> Foreign | None:
    """`0 3 * * * /home/me/run.sh > log`: a whole line of a crontab."""
    match = _LINE.match(text)
    if match is None or _FIELD.fullmatch(match["first"]) or not _usable(match["time"]):
        return None
    if match["time"].startswith("@") and "/" not in match["first"]:  # `@daily at 3`
        return None
    instead = "What runs is the script itself, or command: in cronhpc.yaml."
    return Foreign("a command stands behind the schedule, as in a crontab.", match["time"], instead=instead)


# --- zones in the text ---------------------------------------------------------------------------------------------


def _zoned(text: str) -> Foreign | None:
    """`CRON_TZ=Europe/Paris 0 3 * * *`, `0 2 * * * UTC`."""
    match = _ZONE_FIRST.fullmatch(text) or _ZONE_LAST.fullmatch(text) or _named_last(text)
    if match is None or (match.re is not _ZONE_FIRST and match["zone"].lower()[:3] in (*WEEKDAYS, *UNITS[3].names)):
        return None
    rest, zone = match["rest"].strip(), _zone_key(match["zone"])
    inner = Foreign("a time zone is no part of cron's fields.", rest) if _usable(rest) else recognised(rest)
    if inner is None or not inner.write:
        return inner
    if not is_zone(zone):
        instead = f"Write {inner.write} --timezone=ZONE, with a name like Europe/Paris."
        return Foreign(f'"{zone}" is no time zone that is known here.', instead=instead)
    return Foreign(inner.what, inner.write, zone)


def _named_last(text: str) -> re.Match[str] | None:
    """A zone of one word behind the schedule that only the database knows: `Japan`, `EST5EDT`."""
    match = re.fullmatch(r"(?P<rest>\S.*\S)\s+(?P<zone>[A-Z][A-Za-z0-9-]{2,})", text, re.DOTALL)
    return match if match and is_zone(match["zone"]) else None


def _zone_key(text: str) -> str:
    """The IANA key: an offset's sign is the other way round there (POSIX)."""
    match = _OFFSET.fullmatch(text)
    if match is None:
        return "UTC" if text == "Z" or text.lower() == "utc" else text.removeprefix(":")
    hours = int(match[2])
    return f"Etc/GMT{'-' if match[1] == '+' else '+'}{hours}" if hours else "UTC"


def _usable(text: str) -> bool:
    return text in ALIASES or can_be_read(text) or bool(re.fullmatch(r"@every [1-9]\d*[mhdw]", text))


# --- Quartz, Spring, Amazon ----------------------------------------------------------------------------------------


def _amazon(text: str) -> Foreign | None:
    """`cron(0 12 * * ? *)`, `rate(5 minutes)`, `at(2026-01-01T00:00:00)`; they run by UTC."""
    match = re.fullmatch(r"(cron|rate|at)\((.*)\)", text)
    if match is None:
        return None
    kind, inside = match.groups()
    if kind == "at":
        what = "EventBridge's at(…) runs once; cron has no date with a year."
        return Foreign(what, instead=f"To run once, submit it by hand, to begin at {inside or 'TIME'}.")
    if kind == "rate":
        fix = "Write @every 5m, or five fields."
        return _spoken(f"every {inside}") or Foreign("EventBridge's rate(…), and no span of time.", instead=fix)
    words = inside.split()
    if len(words) != len(UNITS) + 1:
        return Foreign("EventBridge's cron(…) has six fields, a year last.", instead="Write five fields.")
    return _quartz(_EVENTBRIDGE, words[:5], year=words[5], zone="UTC")


_SECONDS = "seconds and years are not cron"
_EVENTBRIDGE = f"6 fields: {_SECONDS}; as EventBridge writes it, weekdays count from Sunday=1"


def _six(words: list[str]) -> Foreign | None:
    """Five to seven fields of Quartz's or Spring's, or of EventBridge's without its brackets."""
    if not all(_FIELD.fullmatch(word) for word in words):
        return None
    count, marked = len(words), [at for at, word in enumerate(words) if word == "?"]
    if count == len(UNITS):
        what = "cron has no ?; where it stands, weekdays count from Sunday=1"
        return _quartz(what, words, counted=False) if marked else None
    if not len(UNITS) < count <= len(UNITS) + 2 or all(word[0].isalpha() and word[0] not in "LW" for word in words[4:]):
        return None  # the last: a list of names with blanks
    quartz = f"{count} fields: {_SECONDS}; as Quartz writes it, weekdays count from Sunday=1"
    if count == len(UNITS) + 2:
        return _quartz(quartz, words[1:6], second=words[0], year=words[6])
    if marked and marked[0] in {2, 4}:
        foreign = _quartz(_EVENTBRIDGE, words[:5], year=words[5])
        besides = f"{foreign.instead} EventBridge runs by UTC: add --timezone=UTC for the same times.".lstrip()
        return replace(foreign, instead=besides) if foreign.write else foreign
    if marked:
        return _quartz(quartz, words[1:], second=words[0])
    plain = f"{count} fields: {_SECONDS}"
    if re.fullmatch(r"\d{4}\S*", words[5]):
        return _quartz(plain, words[:5], year=words[5], numbered=False)
    return _quartz(plain, words[1:], second=words[0], numbered=False)


def _quartz(
    what: str,
    words: list[str],
    second: str = "0",
    year: str = "*",
    zone: str = "",
    *,
    numbered: bool = True,
    counted: bool = True,
) -> Foreign:
    """Minute to weekday by Quartz's rules; `numbered`: weekdays by number count from Sunday=1, else nobody says."""
    minute, hour, day, month, weekday = words
    often = re.search(r"[*/,-]", second)  # it starts more than once in a minute
    if missing := _no_counterpart(day, weekday):
        return missing
    if often and not {*words} - {"*", "?"}:
        return Foreign(f"{what}: its shortest step is a minute.", instead="For every minute write * * * * *.")
    if not numbered and re.search(r"\d", weekday):
        why = f"{what}, and whether weekdays count from 0 or 1 is not said."
        return Foreign(why, instead="Write five fields, with weekdays by name: mon-fri.")
    if not {"*", "?"} & {day, weekday}:
        why = "a date and a weekday: elsewhere both must fit, for cron one is enough."
        return Foreign(why, instead="Leave one of them *, and let the script look at the other.")
    try:
        plain = [_stepped(at, word) for at, word in enumerate((minute, hour, day, month))]
        written = " ".join([*plain, _weekdays(weekday)])
        strict_fields(written)
    except ValueError as error:
        return Foreign(f"{what}.", instead=f"{error} Write five cron fields.")
    except ScheduleError as error:
        return Foreign(error.what, instead=error.fix)
    besides = ""
    if often:
        besides = "It starts once in such a minute."
    elif not re.fullmatch(r"0+", second):
        besides = f"It starts at the full minute, {second} s earlier."
    if year not in {"*", "?"}:
        besides = "It comes each year: let the script look which it is."
    return Foreign(f"{what}.", written, zone, besides, counted)


def _no_counterpart(day: str, weekday: str) -> Foreign | None:
    """`L`, `W` and `#`."""
    if "#" in weekday:
        return Foreign("cron has no # (n-th weekday of a month), nor a counterpart.", instead=BY_SCRIPT)
    if "W" in day.upper():
        return Foreign("cron has no W (nearest weekday), nor a counterpart.", instead=BY_SCRIPT)
    if re.search(r"L$|L,", weekday.upper()):
        return Foreign("cron has no L (last weekday of a month), nor a counterpart.", instead=BY_SCRIPT)
    if "L-" in day.upper():
        return Foreign("cron has no L- (days before the end of the month), nor a counterpart.", instead=BY_SCRIPT)
    if "L" in day.upper():
        return Foreign("cron has no L (last day), nor a counterpart.", instead=_ON_THE_LAST)
    return None


def _stepped(at: int, word: str) -> str:
    """A field with `5/15` as a range; raises ValueError with a sentence."""
    if word == "?":
        return "*"
    unit, parts = UNITS[at], []
    for part in word.split(","):
        match = re.fullmatch(r"(\d+)/(\d+)", part)
        if match and int(match[1]) > unit.high:
            raise ValueError(f"{match[1]} is no {unit.name}.")
        if match:
            start = int(match[1])
            parts.append(f"*/{match[2]}" if start == unit.low else f"{start}-{unit.high}/{match[2]}")
        else:
            parts.append(part)
    return ",".join(parts)


def _weekdays(word: str) -> str:
    """Quartz's weekdays, 1-7 from Sunday, by their names; raises ValueError with a sentence."""
    if word in {"*", "?"}:
        return "*"
    days: set[int] = set()
    for part in word.split(","):
        match = re.fullmatch(r"(\*|[0-9A-Za-z]+)(?:-([0-9A-Za-z]+))?(?:/(\d+))?", part)
        if match is None:
            raise ValueError(f'"{part}" is no day of week.')
        first = 0 if match[1] == "*" else _quartz_day(match[1])
        last = _quartz_day(match[2]) if match[2] else 6 if match[3] or match[1] == "*" else first
        span = last - first if last >= first else last - first + 7
        days |= {(first + step) % 7 for step in range(0, span + 1, max(1, int(match[3] or 1)))}
    return named_weekdays(days)


def _quartz_day(word: str) -> int:
    if word.isdigit():
        if not 1 <= int(word) <= len(WEEKDAYS):
            raise ValueError(f"weekday {word}: they count from Sunday=1 to Saturday=7.")
        return int(word) - 1
    if not re.fullmatch(_DAY_NAMES, word, re.IGNORECASE):
        raise ValueError(f'"{word}" is no day of week.')
    return WEEKDAYS.index(word.lower()[:3])


def named_weekdays(days: set[int]) -> str:
    """Weekdays (Sunday is 0) in cron's words, by name: `mon-fri`, `sun,tue`; all of them are `*`."""
    if len(days) == len(WEEKDAYS):
        return "*"
    ascending = tuple(sorted(days))
    return ",".join(
        "-".join(WEEKDAYS[int(end)] for end in part.split("-"))
        if "/" not in part
        else ",".join(WEEKDAYS[day] for day in range(int(part[0]), int(part[2]) + 1, int(part[4:])))
        for part in ranges(ascending).split(",")
    )


# --- systemd's OnCalendar ------------------------------------------------------------------------------------------

_DAY_NAMES = r"(?:(?:sun|mon|fri)(?:days?)?|tue(?:s|sdays?)?|wed(?:nesdays?)?|thu(?:rs?|rsdays?)?|sat(?:urdays?)?)"
_CALENDAR = re.compile(
    rf"(?:(?P<days>{_DAY_NAMES}(?:(?:\.\.|-|,){_DAY_NAMES})*,?)(?:\s+|$))?"
    r"(?:(?:(?P<year>[\d*.,/]+)-)?(?P<month>[\d*.,/]+)-(?P<day>[\d*.,/~-]+)(?:\s+|T|$))?"
    r"(?:(?P<hour>[\d*.,/]+):(?P<minute>[\d*.,/]+)(?::(?P<second>[\d*.,/]+))?)?",
    re.IGNORECASE,
)
_CALENDAR_WORDS = {
    "minutely": "* * * * *",
    "hourly": "@hourly",
    "daily": "@daily",
    "weekly": "@weekly",
    "monthly": "@monthly",
    "yearly": "@yearly",
    "annually": "@yearly",
    "quarterly": "0 0 1 1,4,7,10 *",
    "semiannually": "0 0 1 1,7 *",
    "midnight": "@daily",
    "noon": "0 12 * * *",
}


def _systemd(text: str) -> Foreign | None:
    """`Mon..Fri *-*-* 10:00`, `*:0/15`, `OnCalendar=weekly`, `03:00`."""
    bare = re.sub(r"^OnCalendar\s*=\s*", "", text)
    named = bare != text
    if bare.lower() in _CALENDAR_WORDS:
        written = _CALENDAR_WORDS[bare.lower()]
        if named and bare.lower() == "weekly":
            written = "0 0 * * mon"  # systemd's week begins on Monday
        return Foreign("a name begins with @." if written[0] == "@" else "is no name of cron's.", written)
    match = _CALENDAR.fullmatch(bare)
    if match is None or not (match["hour"] or match["day"] or named):
        return None
    what = "a time as systemd's OnCalendar has it."
    if match["second"] and not re.fullmatch(r"0+", match["second"]):
        return Foreign("seconds are not cron: it starts at full minutes.", instead="Leave the seconds out.")
    if match["year"] and (match["year"] + match["month"] + match["day"]).isdigit():
        when = f"{match['year']}-{match['month']}-{match['day']}T{match['hour'] or '00'}:{match['minute'] or '00'}"
        return Foreign("a date with a year comes once.", instead=f"To run once, submit it by hand, to begin at {when}.")
    if match["year"] not in {None, "*"}:
        return Foreign(f'cron has no years, and so no "{match["year"]}".', instead="Let the script look at the year.")
    if "~" in (match["day"] or ""):
        instead = _ON_THE_LAST if re.fullmatch(r"\*?~0*1", match["day"]) else BY_SCRIPT
        return Foreign("cron has no ~ (days before the end of the month), nor a counterpart.", instead=instead)
    try:
        days = _calendar_days(match["days"])
        fields = [_calendar(at, match[name] or default) for at, name, default in _CALENDAR_FIELDS]
    except ValueError:
        return None
    written = " ".join([*fields, days])
    if days != "*" and fields[2] != "*":
        return Foreign(
            "a date and a weekday: for systemd both must fit, for cron one is enough.",
            instead="Leave one of them *, and let the script look at the other.",
        )
    return Foreign(what, written) if _usable(written) else None


_CALENDAR_FIELDS = ((0, "minute", "0"), (1, "hour", "0"), (2, "day", "*"), (3, "month", "*"))


def _calendar(at: int, word: str) -> str:
    parts = [re.sub(r"^0+(?=\d)", "", part.replace("..", "-")) for part in word.split(",")]
    return _stepped(at, ",".join(re.sub(r"-0+(?=\d)", "-", part) for part in parts))


def _calendar_days(text: str | None) -> str:
    if not text:
        return "*"
    return _weekdays(text.rstrip(",").replace("..", "-"))


# --- said in English, and ISO 8601 ---------------------------------------------------------------------------------

_CLOCK = r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>am|pm)?"
_SPOKEN_DAYS = {"weekday": "mon-fri", "weekdays": "mon-fri", "weekend": "sun,sat", "weekends": "sun,sat"}
_AT = re.compile(
    rf"(?:(?:every|each|on)\s+)?(?P<day>@?daily|day|nightly|@weekly|@monthly|weekdays?|weekends?|{_DAY_NAMES}|at)"
    rf"\s+(?:at\s+)?{_CLOCK}",
    re.IGNORECASE,
)
_EVERY = re.compile(r"(?:every|each)\s+(?:(?P<count>\d+)\s*)?(?P<unit>[a-z]+)", re.IGNORECASE)
_ISO = re.compile(r"(?:R/)?P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?)?")
_UNITS = {
    **dict.fromkeys(("m", "min", "minute"), 1),
    **dict.fromkeys(("h", "hr", "hour"), 60),
    **dict.fromkeys(("d", "day"), 1440),
    **dict.fromkeys(("w", "week"), 10080),
}
_EVERY_ONE = {"minute": "* * * * *", "hour": "@hourly", "day": "@daily", "week": "@weekly", "month": "@monthly"}
_EVERY_ONE |= {"year": "@yearly", "night": "@daily", "midnight": "@daily", "quarter": "0 0 1 1,4,7,10 *"}


def _spoken(text: str) -> Foreign | None:
    """`every 5 minutes`, `daily at 03:00`, `@daily 3am`, `PT15M`."""
    at = _AT.fullmatch(text)
    if at:
        return _at(at["day"].lower(), int(at["hour"]), int(at["minute"] or 0), (at["half"] or "").lower())
    iso = _ISO.fullmatch(text)
    if iso and any(iso.groups()):
        weeks, days, hours, minutes = (int(part or 0) for part in iso.groups())
        total = ((weeks * 7 + days) * 24 + hours) * 60 + minutes
        return Foreign("a duration as ISO 8601 has it.", f"@every {_span(total)}") if total else None
    match = _EVERY.fullmatch(text)
    if match is None:
        return None
    unit = match["unit"].lower()
    singular = unit.removesuffix("s") if len(unit) > 1 else unit
    count = 1 if match["count"] is None else int(match["count"])
    if count == 1 and (singular in _EVERY_ONE or re.fullmatch(_DAY_NAMES, unit)):
        written = _EVERY_ONE.get(singular) or f"0 0 * * {singular[:3]}"
    elif singular in {"weekday", "weekend"}:
        written = f"0 0 * * {_SPOKEN_DAYS[singular]}"
    elif singular in {"second", "sec", "s"}:
        what = "seconds are not cron: its shortest step is a minute."
        return Foreign(what, instead="For every minute write * * * * *.")
    elif singular in _UNITS and count:
        written = f"@every {_span(count * _UNITS[singular])}"
    elif singular == "month" and count in {2, 3, 4, 6}:
        written = f"0 0 1 */{count} *"
    else:
        return None
    return Foreign("not as cron writes it.", written)


def _at(day: str, hour: int, minute: int, half: str) -> Foreign | None:
    if half:
        if not 1 <= hour <= 12:  # noqa: PLR2004 - a clock face
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    if day == "@monthly":
        rest = "1 * *"
    elif day in {"daily", "@daily", "day", "nightly", "at"}:
        rest = "* * *"
    else:
        rest = f"* * {'sun' if day == '@weekly' else _SPOKEN_DAYS.get(day) or day[:3]}"
    written = f"{minute} {hour} {rest}"
    what = "a name takes no time of day." if day[0] == "@" else "not as cron writes it."
    return Foreign(what, written) if _usable(written) else None


def _span(minutes: int) -> str:
    for size, unit in ((10080, "w"), (1440, "d"), (60, "h")):
        if minutes % size == 0:
            return f"{minutes // size}{unit}"
    return f"{minutes}m"
