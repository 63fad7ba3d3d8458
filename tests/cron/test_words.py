from __future__ import annotations

import re
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpc.cron.schedule import parse
from cronhpc.cron.values import are, count, were


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("* * * * *", "Every minute"),
        ("@hourly", "Every hour"),
        ("0 4 * * *", "At 04:00"),
        ("0 4 * * sun", "At 04:00, only on Sunday"),
        ("0 16 1 * *", "At 16:00, on day 1 of the month"),
        ("@yearly", "At 00:00, on day 1 of the month, only in January"),
        ("*/30 8-18 * * mon-fri", "Every 30 minutes, between 08:00 and 18:59, only Monday through Friday"),
        ("0-59/15 2 * * *", "Every 15 minutes, between 02:00 and 02:59"),
        ("30 0-23 * * *", "At 30 minutes past the hour"),
        ("1 * * * *", "At 1 minute past the hour"),
        ("1 9-17 * * mon", "At 1 minute past the hour, between 09:00 and 17:59, only on Monday"),
        ("11 * * * *", "At 11 minutes past the hour"),
        ("0,1 * * * *", "Minutes 0 through 1 past the hour"),
        ("1,31 * * * *", "At 1 and 31 minutes past the hour"),
        ("@every 1d", "Every day"),
        ("@every 90m", "Every 1 hour 30 minutes"),
        ("@every 1h", "Every hour"),
        ("@every 2d", "Every 2 days"),
    ],
)
def test_a_schedule_in_words(text: str, words: str) -> None:
    assert parse(text, ZoneInfo("Europe/Paris")).in_words() == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("0 0 1,15 * fri", "on day 1 and 15 of the month, or on Friday", id="either"),
        pytest.param("0 0 1 * 1-5", "on day 1 of the month, or Monday through Friday", id="either, with a range"),
        pytest.param("0 0 31 2 mon", "on day 31 of the month, or on Monday, only in February", id="either, in a month"),
        pytest.param("0 0 13 * */5", "on day 13 of the month, only on Sunday and Friday", id="both, as one has a star"),
        pytest.param("0 0 1-31 * fri", "At 00:00", id="either, and one is every day"),
        pytest.param("0 0 13,* * fri", "At 00:00", id="a star later in a list is every day too"),
    ],
)
def test_date_and_weekday_are_joined_as_cron_joins_them(text: str, words: str) -> None:
    assert parse(text, ZoneInfo("UTC")).in_words().endswith(words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("*/26 * * * *", "At 0, 26, and 52 minutes past the hour"),
        ("0 */9 * * *", "At 00:00, 09:00 and 18:00"),
        ("*/90 * * * *", "Every hour"),
        ("5-5 * * * *", "At 5 minutes past the hour"),
        ("*/20,7 * * * *", "At 0, 7, 20, and 40 minutes past the hour"),
    ],
)
def test_a_step_that_does_not_come_out_even_is_said_as_its_times(text: str, words: str) -> None:
    assert parse(text, ZoneInfo("UTC")).in_words() == words


ONE = re.compile(
    r"(?<![0-9.,:] )(?<![0-9.,:])(?<!and )\b1 (?:minutes|hours|days|seconds|months|weeks|times|files|jobs)\b"
)


@settings(deadline=None)  # the machine may be busy
@given(
    st.sampled_from(["*", "0", "1", "1-1", "0,1", "1,2"]),
    st.sampled_from(["*", "1", "*/2", "1,2"]),
    st.sampled_from("*1"),
)
def test_one_is_never_said_as_many(minute: str, hour: str, day: str) -> None:
    assert not ONE.search(parse(f"{minute} {hour} {day} * *", ZoneInfo("UTC")).in_words())


COUNTS = {0: "0 files", 1: "1 file", 2: "2 files", 1904: "1,904 files"}


@pytest.mark.parametrize(("number", "said"), COUNTS.items())
def test_a_number_of_things_agrees_with_its_noun_and_verb(number: int, said: str) -> None:
    assert count(number, "file") == said
    assert were(number, "file") == f"{said} {'was' if number == 1 else 'were'}"
    assert are(number, "file") == f"{said} {'is' if number == 1 else 'are'}"
