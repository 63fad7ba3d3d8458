"""Text, times and tables: what a terminal shows, and what no name can do to it."""

from __future__ import annotations

import re
import subprocess  # noqa: TID251 - a shell is the judge of what is quoted for it
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpc.core.model import command
from cronhpc.core.model.decode import epoch, iso
from cronhpc.views import style, text, times

PARIS = ZoneInfo("Europe/Paris")
NAMES = {
    "a plain name": ("backup", "backup"),
    "a blank inside": ("my job", "my job"),
    "percent, bar and quote as written": ("50%|it's", "50%|it's"),
    "unicode as written": ("größe-日本", "größe-日本"),
    "a newline is spelt out": ("a\nb", "$'a\\nb'"),
    "a backslash and n is not a newline": ("a\\nb", "a\\nb"),
    "a quoted newline is told from a real one": ("$'a\\nb'", "$'$\\'a\\\\nb\\''"),
    "two blanks would be two columns": ("a  b", "'a  b'"),
    "a blank at the end": ("a ", "'a '"),
    "nothing": ("", "''"),
    "an escape sequence": ("\x1b[31mred", "$'\\e[31mred'"),
    "right to left override": ("a\u202egpj.exe", "$'a\\u202egpj.exe'"),
    "a zero-width blank": ("a\u200bb", "$'a\\u200bb'"),
    "a no-break space": ("a\u00a0b", "$'a\\u00a0b'"),
    "a byte that is not UTF-8": ("a\udcffb", "$'a\\xffb'"),
    "a combining accent first": ("\u0301a", "$'\u0301a'"),
}


@pytest.mark.parametrize(("raw", "shown"), NAMES.values(), ids=NAMES)
def test_a_name_is_shown_unambiguously(raw: str, shown: str) -> None:
    assert text.name(raw) == shown
    assert "\n" not in text.name(raw)


@settings(deadline=None)  # the machine may be busy
@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
)
def test_two_names_are_never_shown_alike(one: str, other: str) -> None:
    assert (text.name(one) == text.name(other)) == (one == other)


@settings(deadline=None)  # the machine may be busy
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_whatever_is_cleaned_is_printable(raw: str) -> None:
    assert text.clean(raw).isprintable()
    assert text.one_line(raw).isprintable()
    assert all(line.isprintable() for line in text.lines(raw).replace("\t", "").split("\n"))


WORDS = [
    "backup",
    "my job",
    "it's",
    "a\nb",
    "-n",
    "$HOME",
    "`id`",
    "50%",
    "日本",
    "a\\b",
    '"',
    "!",
    "*",
    "",
    "~",
    "a\tb'",
]


@pytest.mark.processes
@pytest.mark.parametrize("raw", WORDS)
def test_a_word_comes_back_from_a_shell_as_it_was(raw: str) -> None:
    ran = subprocess.run(["bash", "-c", f"printf %s {text.word(raw)}"], capture_output=True, check=True)
    assert ran.stdout.decode() == raw


def test_a_command_for_a_name_with_a_dash_ends_the_options() -> None:
    assert command("run", "-n") == "cronhpc run -- -n"


WIDTHS = {
    "plain": ("abc", 3),
    "wide": ("日本", 4),
    "combining": ("e\u0301", 1),
    "emoji": ("🚀", 2),
    "hangul parts": ("각", 2),
}


@pytest.mark.parametrize(("raw", "columns"), WIDTHS.values(), ids=WIDTHS)
def test_width_counts_columns(raw: str, columns: int) -> None:
    assert text.width(raw) == columns
    assert text.width(text.pad(raw, 10)) == 10


@settings(deadline=None)  # the machine may be busy
@given(st.text(alphabet="ab日e\u0301", max_size=30), st.integers(0, 20))
def test_what_is_cut_fits(raw: str, columns: int) -> None:
    assert text.width(text.cut(raw, columns)) <= columns or raw == ""
    assert text.width(raw) > columns or text.cut(raw, columns) == raw
    assert text.width(text.shorten(raw, columns)) <= columns or raw == ""
    assert text.width(raw) > columns or text.shorten(raw, columns) == raw


SHORT = {
    "it fits": ("backup-projects", 15, "backup-projects"),
    "the middle goes": ("backup-projects-weekly", 15, "backup-…-weekly"),
    "wide letters count two": ("日本語の名前", 8, "日本…前"),
    "no room": ("backup", 1, "…"),
}


@pytest.mark.parametrize(("raw", "columns", "shown"), SHORT.values(), ids=SHORT)
def test_a_name_that_is_too_long_loses_its_middle(raw: str, columns: int, shown: str) -> None:
    assert text.shorten(raw, columns) == shown


SIZES = {0: "0 B", 1023: "1023 B", 1024: "1.0 kB", 1153434: "1.1 MB", 5 * 1024**3: "5.0 GB", 200 * 1024**2: "200 MB"}


@pytest.mark.parametrize(("count", "said"), SIZES.items())
def test_sizes_as_people_say_them(count: int, said: str) -> None:
    assert text.size(count) == said


def at(*fields: int) -> int:
    return int(datetime(*fields, tzinfo=PARIS).timestamp())  # type: ignore[misc,arg-type]  # year, month, day, …


NOW = at(2026, 11, 27, 14, 7, 20)
CLOCKS = {
    "today": (at(2026, 11, 27, 14, 30), "14:30", "today 14:30"),
    "tomorrow": (at(2026, 11, 28, 4, 0), "Sat 04:00", "tomorrow 04:00"),
    "yesterday": (at(2026, 11, 26, 22, 14), "Thu 22:14", "yesterday 22:14"),
    "within six days": (at(2026, 12, 3, 4, 0), "Thu 04:00", "Thu 3 Dec 04:00"),
    "later": (at(2026, 12, 4, 4, 0), "4 Dec 04:00", "Fri 4 Dec 04:00"),
    "next year": (at(2027, 1, 4, 4, 0), "4 Jan 2027 04:00", "Mon 4 Jan 2027 04:00"),
}


@pytest.mark.parametrize(("instant", "short", "said"), CLOCKS.values(), ids=CLOCKS)
def test_a_time_is_as_short_as_is_clear(instant: int, short: str, said: str) -> None:
    seen = style.Style(NOW, PARIS)
    assert seen.clock(instant) == short
    assert seen.dated(instant) == said


def test_in_the_hour_that_comes_twice_the_zone_is_said() -> None:
    first, second = 1792888200, 1792891800  # 02:30 CEST, 02:30 CET on 25 October 2026
    assert style.Style(first, PARIS).clock(first) == "02:30 CEST"
    assert style.Style(second, PARIS).clock(second) == "02:30 CET"
    assert style.Style(second, PARIS).whole(second) == "Sun 25 Oct 02:30 CET"


DISTANCES = {
    0: "now",
    45: "in 45 s",
    -60: "1 min ago",
    23 * 60: "in 23 min",
    -93 * 60: "93 min ago",
    14 * 3600: "in 14 h",
    -3 * 86400: "3 days ago",
    40 * 86400: "in 6 weeks",
    -800 * 86400: "2 years ago",
}


@pytest.mark.parametrize(("seconds", "said"), DISTANCES.items())
def test_a_distance_is_rough(seconds: int, said: str) -> None:
    assert style.Style(NOW).distance(NOW + seconds) == said


TOOK = {None: "-", 0: "0s", 12: "12s", 72: "1m12s", 120: "2m", 33127: "9h12m", 187000: "2d3h", -5: "0s"}


@pytest.mark.parametrize(("seconds", "said"), TOOK.items())
def test_a_duration_has_its_two_largest_units(seconds: int | None, said: str) -> None:
    assert times.took(seconds) == said


@settings(deadline=None)  # the machine may be busy
@given(st.integers(0, 4_000_000_000))
def test_iso_times_come_back(instant: int) -> None:
    assert epoch(iso(instant)) == instant


@pytest.mark.parametrize("wrong", ["", "yesterday", "2026-11-27T14:00:00", 7, None, "0001-01-01T00:00:00+23:00"])
def test_what_is_no_instant_is_none(wrong: object) -> None:
    assert epoch(wrong) is None


COLUMNS = (style.Column("A", least=4), style.Column("B"), style.Column("C", optional=1), style.Column("D", optional=2))
ROWS: list[list[style.Cell]] = [["日本語の名前", "bbbb", "cccc", "dddd"], ["x", ("b", "red"), "c", "d"]]


def test_columns_are_aligned_by_display_width() -> None:
    assert style.table(COLUMNS, ROWS, style.Style(NOW)) == [
        "A             B     C     D",
        "日本語の名前  bbbb  cccc  dddd",
        "x             b     c     d",
    ]


@pytest.mark.parametrize("room", range(11, 40))
def test_a_table_fits_the_terminal_and_drops_the_least_important_first(room: int) -> None:
    lines = style.table(COLUMNS, ROWS, style.Style(NOW, width=room))
    assert max(map(text.width, lines)) <= room
    assert lines[0].split() == ["A", "B", "C", "D"][: 2 + (room >= 20) + (room >= 26)]


def test_colour_changes_no_column() -> None:
    plain, painted = (style.table(COLUMNS, ROWS, style.Style(NOW, colour=c)) for c in (False, True))
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in painted] == plain
    assert any("\x1b[31mb\x1b[0m" in line for line in painted)


def test_a_last_column_that_wraps_goes_on_below_and_loses_nothing() -> None:
    columns = (style.Column("", least=12, name=True), style.Column(""), style.Column("", least=20, wraps=True))
    why = "after 3 failures in a row; lift it with: " + command("resume", "flaky")
    found = style.table(
        columns, [["flaky", "suspended", why], ["b", "not due", "next 15:00"]], style.Style(NOW, width=40)
    )
    assert found == [
        "flaky  suspended  after 3 failures in a",
        "  row; lift it with:",
        "  cronhpc resume flaky",
        "b      not due    next 15:00",
    ]


def test_a_long_text_does_not_cost_a_short_name_its_letters() -> None:
    columns = (style.Column("ENTRY", least=12, name=True), style.Column("DETAIL", least=20))
    rows = [["a-name-of-twenty-two-x", "detail " * 20]]
    [_, line] = style.table(columns, rows, style.Style(NOW, width=60))
    assert line.startswith("a-name-of-twenty-two-x  detail")
    assert len(line) == 60
