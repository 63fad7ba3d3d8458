from __future__ import annotations

import os
import random
import time
from contextlib import suppress
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cronhpc.core.model import CronhpcError
from cronhpc.cron.foreign import recognised
from cronhpc.cron.grammar import ALIASES, MAX_LENGTH, UNITS
from cronhpc.cron.schedule import ScheduleError, parse

UTC = ZoneInfo("UTC")


def values_of(text: str, hash_key: str | None = None) -> list[tuple[int, ...]]:
    fields = parse(text, UTC, hash_key=hash_key).fields
    assert fields is not None
    return [one.values for one in fields]


def refusal_of(text: str) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        parse(text, UTC)
    return caught.value


# --- what cron takes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        pytest.param("* * * * *", "* * * * *", id="every minute"),
        pytest.param("05 08 09 * *", "5 8 9 * *", id="leading zeros"),
        pytest.param("  0\t4  * * *  ", "0 4 * * *", id="blanks and tabs around"),
        pytest.param("0 4 * * *\n", "0 4 * * *", id="the line break of a yaml block"),
        pytest.param("0 0 1 JAN,Jul *", "0 0 1 1,7 *", id="names in any case"),
        pytest.param("0 0 * * mon-5", "0 0 * * 1-5", id="a name and a number in one range"),
        pytest.param("0 0 * * 7", "0 0 * * 0", id="Sunday by its other number"),
        pytest.param("0 0 * * sat-sun", "0 0 * * 0,6", id="a weekend"),
        pytest.param("0 0 * * 5-0", "0 0 * * 0,5,6", id="up to Sunday as 0"),
        pytest.param("0 0 * * sun-sun", "0 0 * * 0", id="Sunday to Sunday is one day"),
        pytest.param("5-5 * * * *", "5 * * * *", id="a range of one"),
        pytest.param("0-59/15 * * * *", "0-45/15 * * * *", id="a step over everything is no star"),
        pytest.param("*/15 * * * *", "*/15 * * * *", id="a star stays one"),
        pytest.param("*/1 * * * *", "* * * * *", id="a step of one"),
        pytest.param("*,5 * * * *", "* * * * *", id="a star first in a list"),
        pytest.param("5,* * * * *", "0-59 * * * *", id="a star later in a list is everything, but no star"),
        pytest.param("*/20,7 * * * *", "*/20,7 * * * *", id="a stepped star first in a list"),
        pytest.param("*/90 * * * *", "*/60 * * * *", id="a step beyond the field"),
        pytest.param("0-60/7 * * * *", "0-56/7 * * * *", id="bounds beyond the field that no value reaches"),
        pytest.param("30,0,30 4 * * *", "0,30 4 * * *", id="doubled and out of order"),
        pytest.param("@midnight", "0 0 * * *", id="a name"),
    ],
)
def test_a_schedule_has_one_canonical_text(text: str, canonical: str) -> None:
    schedule = parse(text, UTC)
    assert schedule.canonical == canonical
    assert schedule.text == text
    assert parse(canonical, UTC) == schedule


@pytest.mark.parametrize(("name", "meaning"), ALIASES.items())
def test_a_name_means_its_five_fields(name: str, meaning: str) -> None:
    assert parse(name, UTC) == parse(meaning, UTC)
    assert parse(name, UTC).wildcard == parse(meaning, UTC).wildcard


@pytest.mark.parametrize(
    ("text", "wildcard"),
    [
        ("* 4 * * *", True),
        ("0 * * * *", True),
        ("*/15 4 * * *", True),
        ("*,5 4 * * *", True),
        ("5,* 4 * * *", False),
        ("0-59 0-23 * * *", False),
        ("0 4 */2 * *", False),
        ("H H * * *", False),
        ("@hourly", True),
        ("@daily", False),
        ("@every 2h", True),
    ],
)
def test_a_star_first_in_minute_or_hour_makes_a_wildcard(text: str, *, wildcard: bool) -> None:
    assert parse(text, UTC).wildcard is wildcard


def test_equal_means_due_at_the_same_times_in_the_same_zone() -> None:
    assert parse("0 0 * * 0,7", UTC) == parse("@weekly", UTC)
    assert parse("0 0 * * 0", UTC) != parse("0 0 * * 0", ZoneInfo("Europe/Paris"))
    assert parse("0-59 4 * * *", UTC) != parse("* 4 * * *", UTC)
    assert parse("@every 60m", UTC) == parse("@every 1h", UTC)
    assert len({parse("0 0 * * sun", UTC), parse("0 0 * * 7", UTC)}) == 1


# --- schedules of other worlds ---------------------------------------------------------------------------------------

# as written elsewhere: (what the message says, what to write instead)
FOREIGN = {
    "0 3 * * * /home/me/run.sh >/dev/null 2>&1": ("a command stands behind", "0 3 * * *. What runs is the script"),
    "@daily ~/run.sh": ("a command stands behind", "Write @daily."),
    "*/5 * * * * python3 x.py": ("a command stands behind", "Write */5 * * * *."),
    "@daily at 3": ("takes no time of day", "Write 0 3 * * *."),
    "0 0 12 ? * 2-6": ("weekdays count from Sunday=1", "write 0 12 * * mon-fri."),
    "0 0 12 ? * 1": ("weekdays count from Sunday=1", "write 0 12 * * sun."),
    "0 12 ? * 2-6": ("weekdays count from Sunday=1", "Write 0 12 * * mon-fri."),
    "0 0 12 ? * FRI-MON": ("Quartz", "write 0 12 * * sun,mon,fri,sat."),
    "0 0 12 1/5 * ?": ("Quartz", "write 0 12 */5 * *."),
    "0 10,44 14 ? 3 WED": ("Quartz", "write 10,44 14 * 3 wed."),
    "0 30 9 * * ? *": ("7 fields", "write 30 9 * * *."),
    "0 0 8 ? * 2#1": ("nor a counterpart", "let the script look"),
    "0 15 10 L * ?": ("nor a counterpart", "28-31"),
    "0 15 10 ? * 6L": ("last weekday of a month", "let the script look at the date"),
    "0 15 10 ? * FRIL": ("last weekday of a month", "let the script look at the date"),
    "0 15 10 L-3 * ?": ("before the end", "let the script look at the date"),
    "0/30 0 12 * * ?": ("6 fields", "write 0 12 * * *. It starts once in such a minute."),
    "0 0 9 ? * MONDAY-FRIDAY": ("6 fields", "write 0 9 * * mon-fri."),
    "0 15 10 15W * ?": ("nor a counterpart", "let the script look"),
    "0/30 * * * * *": ("shortest step is a minute", "* * * * *"),
    "30 0 12 * * ?": ("6 fields", "30 s earlier"),
    "0 0 12 * * 2-6": ("not said", "by name"),
    "0 0 9-17 * * MON-FRI": ("6 fields", "write 0 9-17 * * mon-fri."),
    "0 12 * * ? *": ("EventBridge", "--timezone=UTC"),
    "cron(0 12 ? * MON-FRI *)": ("EventBridge", "write 0 12 * * mon-fri --timezone=UTC "),
    "cron(0 12)": ("six fields", "Write five fields"),
    "rate(5 minutes)": ("cron", "Write @every 5m."),
    "at(2026-01-01T00:00:00)": ("once", "submit it by hand, to begin at 2026-01-01T00:00:00."),
    "CRON_TZ=Europe/Paris 0 3 * * *": ("time zone", "Write 0 3 * * * --timezone=Europe/Paris "),
    "TZ=Europe/London\nH 7 * * *": ("time zone", "Write H 7 * * * --timezone=Europe/London "),
    "CRON_TZ=Europe/Paris @daily": ("time zone", "Write @daily --timezone=Europe/Paris "),
    "CRON_TZ=Asia/Tokyo 0 0 12 ? * 2-6": ("Quartz", "0 12 * * mon-fri --timezone=Asia/Tokyo "),
    "0 2 * * 1-5 Europe/Berlin": ("time zone", "Write 0 2 * * 1-5 --timezone=Europe/Berlin "),
    "0 2 * * 1-5 UTC": ("time zone", "Write 0 2 * * 1-5 --timezone=UTC "),
    "0 2 * * * UTC+2": ("time zone", "--timezone=Etc/GMT-2 "),
    "0 2 * * * GMT-5": ("time zone", "--timezone=Etc/GMT+5 "),
    "0 2 * * * PST": ("no time zone", "--timezone=ZONE"),
    "0 2 * * * +05:30": ("no time zone", "--timezone=ZONE"),
    "0 2 * * * utc": ("time zone", "--timezone=UTC "),
    "0 2 * * * --timezone=Europe/Paris": ("time zone", "--timezone=Europe/Paris (in cronhpc.yaml: timezone: "),
    "0 2 * * * Japan": ("time zone", "--timezone=Japan "),
    "0 2 * * * EST5EDT": ("time zone", "--timezone=EST5EDT "),
    "Mon..Fri *-*-* 10:00": ("OnCalendar", "Write 0 10 * * mon-fri."),
    "Mon..Fri *-*-* 10:00:00 Europe/Paris": ("OnCalendar", "0 10 * * mon-fri --timezone=Europe/Paris "),
    "*-*-01 04:00": ("OnCalendar", "Write 0 4 1 * *."),
    "1-59/90": ("1 field only", "write 1-59/90 * * * *."),  # no month and day
    "*:0/15": ("OnCalendar", "Write */15 * * * *."),
    "OnCalendar=weekly": ("cron", "Write 0 0 * * mon."),
    "Mon *-*-01..07 04:00": ("both must fit", "Leave one"),
    "*-*~01 00:00": ("nor a counterpart", "28-31"),
    "*-*~03 00:00": ("nor a counterpart", "let the script look at the date"),
    "*:*:0/20": ("seconds are not cron", "Leave the seconds out"),
    "2026-01-01 00:00": ("once", "submit it by hand, to begin at 2026-01-01T00:00."),
    "hourly": ("begins with @", "Write @hourly."),
    "every 90 minutes": ("not as cron", "Write @every 90m."),
    "every monday at 9": ("not as cron", "Write 0 9 * * mon."),
    "@daily 03:00": ("no time of day", "Write 0 3 * * *."),
    "daily at 12am": ("not as cron", "Write 0 0 * * *."),
    "PT15M": ("ISO 8601", "Write @every 15m."),
}  # fmt: skip


@pytest.mark.parametrize(("text", "named", "fix"), [(text, *said) for text, said in FOREIGN.items()], ids=FOREIGN)
def test_a_schedule_of_another_world_is_said_in_crons_words(text: str, named: str, fix: str) -> None:
    error = refusal_of(text)
    assert named in error.what
    assert fix in error.fix


# a month is no Monday; a number of repeats and a first instant would be dropped
_NOT_KEPT = ("every month at 3", "every monthly", "Month 10:00", "R5/PT1H", "R/2026-01-01T03:00:00Z/P1D")


@pytest.mark.parametrize(
    "text", ["every 0 minutes", "Mon to Fri this runs at 8", "0 4 * * * backup.sh", "(", "P", "TZ=", *_NOT_KEPT]
)
def test_what_is_no_schedule_anywhere_is_not_guessed(text: str) -> None:
    assert recognised(text) is None


# --- what is refused, and how it is fixed ---------------------------------------------------------------------------

# text: (position, what the message names, what the fix contains)
REFUSED = {
    "": (0, "empty", "Five fields"),
    "* * * *": (7, "4 fields", "* * * * *"),
    "0 4": (3, "2 fields", "0 4 * * *"),
    "0/15 * * * *": (0, 'minute "0/15"', "*/15"),
    "5/15 * * * *": (0, 'minute "5/15"', "5-59/15 or */15"),
    "0 1/2 * * *": (2, 'hour "1/2"', "1-23/2 or */2"),
    "0 0 1/5 * *": (4, 'day of month "1/5"', "*/5"),
    "0 0 * * 1/2": (8, 'day of week "1/2"', "1-6/2"),
    "0 22-4 * * *": (2, 'hour "22-4"', "22-23,0-4"),
    "0 1,22-4 * * *": (4, 'hour "22-4"', "22-23,0-4"),
    "0 22-4/2 * * *": (2, 'hour "22-4/2"', "22,0-4/2"),
    "50-10 * * * *": (0, 'minute "50-10"', "50-59,0-10"),
    "5-0 * * * *": (0, 'minute "5-0"', "5-59,0"),
    "0 0 25-5 * *": (4, 'day of month "25-5"', "25-31,1-5"),
    "0 0 1 nov-feb *": (6, 'month "nov-feb"', "nov-dec,jan-feb"),
    "0 0 * * fri-mon": (8, 'day of week "fri-mon"', "fri-sat,sun-mon"),
    "0 0 * * fri-sun/2": (8, 'day of week "fri-sun/2"', "fri,sun"),
    "0 0 * * 7-2": (8, 'day of week "7-2"', "0-2"),
    "0 0 * * monday": (8, 'day of week "monday"', "mon"),
    "0 0 1 september *": (6, 'month "september"', "sep"),
    "0 0 * * tus": (8, 'day of week "tus"', "tue"),
    "0 0 * mon *": (6, 'month "mon"', "day of week"),
    "0 0 * * soon": (8, 'day of week "soon"', "sun"),
    "60 * * * *": (0, 'minute "60": out of range', "0-59"),
    "0 24 * * *": (2, 'hour "24": out of range', "0-23"),
    "0 0 0 * *": (4, 'day of month "0"', "1-31"),
    "0 0 * 13 *": (6, 'month "13"', "1-12 or jan-dec"),
    "0 0 * * 8": (8, 'day of week "8"', "0-7 or sun-sat"),
    "1-70 * * * *": (0, 'minute "1-70"', "0-59"),
    "*/0 * * * *": (0, 'minute "*/0"', "1 to 59"),
    "*5 * * * *": (0, 'minute "*5"', "*/5"),
    "*/2/3 * * * *": (0, 'minute "*/2/3"', "*/2"),
    "1-5/ * * * *": (0, "step is missing", "1-5"),
    "1-10/-2 * * * *": (0, "negative", "1-10/2"),
    "1, * * * *": (2, 'minute ""', "comma"),
    ",1 * * * *": (0, 'minute ""', "comma"),
    "1.5 * * * *": (0, "fractions", "Write 1."),
    "-5 * * * *": (0, "negative", "*"),
    "0 0 ? * *": (4, "cron has no ?", "*"),
    "0 0 L * *": (4, "cron has no L", "28-31"),
    "0 0 L-2 * *": (4, "cron has no L-", "let the script look at the date"),
    "0 0 15W * *": (4, "cron has no W", "let the script look at the date"),
    "0 0 * * 5L": (8, "last weekday", "let the script look at the date"),
    "0 0 * * friL": (8, "last weekday", "let the script look at the date"),
    "0 0 * APRIL *": (6, 'month "APRIL"', "apr"),
    "0 0 * * fri#2": (8, "cron has no #", "Write fri"),
    "0~30 * * * *": (0, "random ~", "H(0-30)"),
    "~ * * * *": (0, "random ~", "H"),
    "h * * * *": (0, 'minute "h"', "H"),
    "H(5) * * * *": (0, 'minute "H(5)"', "H(0-7)"),
    "H(0-60) * * * *": (0, 'minute "H(0-60)"', "H(0-59)"),
    "H(30-10) * * * *": (0, 'minute "H(30-10)"', "H(0-59)"),
    "0 0 H(1-31) * *": (4, 'day of month "H(1-31)"', "H(1-28)"),
    "* * * * * *": (10, "seconds and years are not cron", "write * * * * *."),
    "0 30 4 * * *": (11, "6 fields", "write 30 4 * * *."),
    "0 0 12 * * ?": (11, "6 fields", "write 0 12 * * *."),
    "0 12 * * ? *": (11, "6 fields", "write 0 12 * * *."),
    "0 4 1 1 * 2027": (10, "6 fields", "write 0 4 1 1 *."),
    "0 0 4 1 1 ? 2027": (10, "7 fields", "write 0 4 1 1 *."),
    "0 0 1 * mon tue": (12, "6 fields", "write 0 0 1 * mon,tue."),
    "0 4 * * * backup.sh": (10, "6 fields", "write 0 4 * * *."),
    "a b c d e f": (10, "6 fields", "Five fields"),
    "0 0 30 2 *": (4, "never fires", "1-28"),
    "0 0 31 4,6 *": (4, "never fires", "1-28"),
    "0 0 30 2 */2": (4, "never fires", "1-28"),
    "@reboot": (0, "@reboot has no meaning on a cluster", "@daily"),
    "@dayly": (0, "no schedule", "@daily"),
    "@DAILY": (0, "no schedule", "@daily"),
    " @noon": (1, "no schedule", "0 12 * * *"),
    "@fortnightly": (0, "no schedule", "@every 14d"),
    "@biweekly": (0, "no schedule", "@every 14d"),
    "@weekdays": (0, "no schedule", "0 0 * * mon-fri"),
    "@bimonthly": (0, "no schedule", "0 0 1 */2 *"),
    "@semiannually": (0, "no schedule", "0 0 1 */6 *"),
    "@xyzzy": (0, "no schedule", "@hourly"),
    "0 4 * *\n* *": (7, "no blank", "one line"),
    "0\N{NO-BREAK SPACE}4 * * *": (1, "no blank", "plain spaces"),
    "0 4 * * *\N{NO-BREAK SPACE}": (9, "no blank", "plain spaces"),
    "@every\N{NO-BREAK SPACE}5m": (0, "@every needs", "@every 90m"),
    "\N{ARABIC-INDIC DIGIT FIVE} * * * *": (0, "minute", "0-59"),
    "\N{SUPERSCRIPT TWO} * * * *": (0, "minute", "0-59"),
    "9" * 900 + " * * * *": (0, "out of range", "0-59"),
    "*/" + "9" * 900 + " * * * *": (0, "step", "1 to 59"),
    "1," * 600 + "1 * * * *": (MAX_LENGTH, "characters", "five short fields"),
    "*" * 1_000_000: (MAX_LENGTH, "characters", "five short fields"),
    "\ud800 * * * *": (0, "minute", "0-59"),
    "\x1b[2J * * * *": (0, r"\x1b", "0-59"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "position", "named", "fix"),
    [(text, *expected) for text, expected in REFUSED.items()],
    ids=[ascii(text)[1:40] for text in REFUSED],
)
def test_what_cron_would_not_run_is_refused_with_its_fix(text: str, position: int, named: str, fix: str) -> None:
    error = refusal_of(text)
    assert isinstance(error, CronhpcError)
    assert named in str(error)
    assert fix in error.fix
    assert str(error).endswith(error.fix)
    assert (error.text, error.position) == (text, position)
    assert len(str(error)) < 350
    assert str(error).isprintable()


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("0/15 * * * *", "*/15 * * * *"),
        ("0 22-4/3 * * *", "0 22,1-4/3 * * *"),
        ("50-10/5 * * * *", "50-55/5,0-10/5 * * * *"),
        ("0 0 1 apr-jan/3 *", "0 0 1 apr-oct/3,jan *"),
        ("0 0 * * 6-2/2", "0 0 * * 6,1"),
    ],
)
def test_a_fix_is_itself_a_schedule(text: str, fixed: str) -> None:
    error = refusal_of(text)
    words = text.split()
    at = sum(1 for _ in text[: error.position].split())
    words[at] = error.fix.removeprefix("Write ").removesuffix(".")
    assert " ".join(words) == fixed
    assert parse(fixed, UTC)


# --- H ---------------------------------------------------------------------------------------------------------------


def test_h_is_stable_and_one_hash_a_field() -> None:
    assert parse("H H * * *", UTC, hash_key="ann /home/ann/cron backup").canonical == "17 20 * * *"
    assert parse("H H * * *", UTC, hash_key="ann /home/ann/cron sync").canonical == "32 7 * * *"
    assert parse("H * * * *", UTC) == parse("H * * * *", UTC, hash_key="")


@pytest.mark.thorough
def test_h_reaches_nearly_every_minute_of_the_day() -> None:
    reached = {parse("H H * * *", UTC, hash_key=f"ann /cron entry{n}").canonical for n in range(20_000)}
    assert 1_400 < len(reached) <= 1_440


@pytest.mark.parametrize(
    ("text", "index", "allowed"),
    [
        ("H * * * *", 0, set(range(60))),
        ("0 H * * *", 1, set(range(24))),
        ("0 0 H * *", 2, set(range(1, 29))),
        ("0 0 1 H *", 3, set(range(1, 13))),
        ("0 0 * * H", 4, set(range(7))),
        ("0 H(0-7) * * *", 1, set(range(8))),
        ("0 0 * * H(mon-fri)", 4, set(range(1, 6))),
        ("0 0 H(10-12) * *", 2, {10, 11, 12}),
    ],
)
def test_h_is_one_value_and_takes_each_in_its_bounds(text: str, index: int, allowed: set[int]) -> None:
    found = [values_of(text, f"entry {n}")[index] for n in range(1_000)]
    assert {len(values) for values in found} == {1}
    assert {values[0] for values in found} == allowed


@pytest.mark.parametrize(
    ("text", "index", "step", "first", "last"),
    [
        ("H/15 * * * *", 0, 15, 0, 59),
        ("H(0-29)/10 * * * *", 0, 10, 0, 29),
        ("0 H/7 * * *", 1, 7, 0, 23),
        ("0 0 H/10 * *", 2, 10, 1, 28),
        ("0 0 1 H/3 *", 3, 3, 1, 12),
        ("H(50-59)/30 * * * *", 0, 30, 50, 59),
    ],
)
def test_h_with_a_step_starts_anywhere_below_the_step(text: str, index: int, step: int, first: int, last: int) -> None:
    starts = set()
    for n in range(300):
        values = values_of(text, f"entry {n}")[index]
        assert values == tuple(range(values[0], last + 1, step))
        starts.add(values[0])
    assert starts == set(range(first, min(first + step, last + 1)))


# --- any text at all -------------------------------------------------------------------------------------------------

elements = st.one_of(
    st.integers(0, 70).map(str),
    st.sampled_from(
        ["*", "*/5", "H", "H/7", "H(3-9)", "1-5", "1-30/4", "5-1", "sun", "jan-mar", "sat-sun", "*/0", "?"]
    ),
)
fields = st.lists(elements, min_size=1, max_size=3).map(",".join)


@pytest.mark.thorough
@given(st.lists(fields, min_size=5, max_size=5).map(" ".join))
@example("*/7,*/9 */23 */31 */11 */6")
@example("5,* 0-23 1-31 1-12 0-7")
def test_canonical_text_is_a_fixed_point(text: str) -> None:
    try:
        schedule = parse(text, UTC, hash_key="entry")
    except ScheduleError:
        return
    again = parse(schedule.canonical, UTC)
    assert again == schedule
    assert again.canonical == schedule.canonical
    assert again.fields is not None
    assert schedule.fields is not None
    for one, other, unit in zip(schedule.fields, again.fields, UNITS, strict=True):
        assert (one.values, one.star) == (other.values, other.star)
        assert all(unit.low <= value <= unit.top for value in one.values)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_a_schedule_or_a_schedule_error(text: str) -> None:
    try:
        parse(text, UTC)
    except ScheduleError as error:
        assert error.fix  # noqa: PT017  # both ends are right; which one is the text's affair


def noise(rnd: random.Random) -> str:
    """What might pass for a schedule: cron's own characters mostly, anything now and then."""
    if rnd.random() < 0.1:
        return "".join(chr(rnd.randrange(0x11_0000)) for _ in range(rnd.randrange(40)))
    words = ["*", "/", "-", ",", "H", "(", ")", "@", " ", "  ", "mon", "jan", "@every ", "?", "L", "#", "~", "0", "59"]
    return "".join(rnd.choice([*words, str(rnd.randrange(100)), " "]) for _ in range(rnd.randrange(1, 30)))


def seconds_to_parse(text: str) -> float:
    """CPU time, the better of two looks: what else the machine does is not the text's fault."""
    spent = []
    for hash_key in ("one", "other"):  # so that the second look is no memory of the first
        start = time.process_time()
        with suppress(ScheduleError):
            parse(text, UTC, hash_key=hash_key)
        spent.append(time.process_time() - start)
    return min(spent)


@pytest.mark.thorough
def test_no_text_takes_long_or_raises_anything_but_schedule_error() -> None:
    """CRONHPC_TEST_TEXTS=1000000 makes it the million that was run before the first release."""
    rnd = random.Random(11)  # noqa: S311  # situations, no secrets
    texts = (noise(rnd) for _ in range(int(os.environ.get("CRONHPC_TEST_TEXTS", "20000"))))
    slowest, text = max((seconds_to_parse(text), text) for text in texts)
    assert slowest < 0.02, text
