from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpc.cron.duration import DurationError, format_duration, parse_duration
from cronhpc.inside import switch_file


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20s", 20),
        ("90m", 5_400),
        ("1h30m", 5_400),
        ("2d", 172_800),
        ("1w", 604_800),
        ("1w2d3h4m5s", 788_645),
        ("0", 0),
        ("0s", 0),
        ("007m", 420),
    ],
)
def test_a_duration_is_its_seconds(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@given(st.from_regex(r"(\A([0-9]{1,10}[wdhms] ?){1,6}\Z)", alphabet=st.sampled_from("0123456789wdhms ")))
def test_jobs_read_a_duration_of_whole_numbers_in_the_same_way(text: str) -> None:
    """They carry the standard library only, and so a reader of their own, to which 0.5s is one as well."""
    try:
        assert switch_file.seconds(text) == parse_duration(text)
    except DurationError:
        assert switch_file.seconds(text) is None


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        pytest.param("90", "90m", id="a number alone could mean anything"),
        pytest.param("", "Write it like", id="nothing"),
        pytest.param("1.5h", "Write 1h30m.", id="a fraction is converted"),
        pytest.param("90 minutes", "Write 1h30m.", id="a unit in full"),
        pytest.param("2D", "Write 2d.", id="a capital unit"),
        pytest.param("1h 30m", "Write 1h30m.", id="a blank inside"),
        pytest.param("30m1h", "Write it like", id="units out of order"),
        pytest.param("-5m", "Write it like", id="a negative one"),
        pytest.param("1m\n", "Write 1m.", id="a line break behind it"),
        pytest.param("٣m", "Write it like", id="digits of another script"),
        pytest.param("9" * 5_000 + "s", "Write it like", id="more digits than int() takes"),
        pytest.param("soon", "Write it like", id="a word"),
    ],
)
def test_what_is_no_duration_is_refused_with_its_fix(text: str, fix: str) -> None:
    with pytest.raises(DurationError) as caught:
        parse_duration(text)
    assert fix in caught.value.fix
    assert caught.value.text == text
    assert len(str(caught.value)) < 120


@given(st.integers(min_value=0, max_value=10**9))
def test_a_formatted_duration_reads_back(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_a_duration_or_a_duration_error(text: str) -> None:
    try:
        assert parse_duration(text) >= 0
    except DurationError as error:
        assert error.fix  # noqa: PT017  # both ends are right; which one is the text's affair
