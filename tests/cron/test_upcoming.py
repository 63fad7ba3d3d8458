"""Slots of a stretch of time: the very ones that a walk from slot to slot finds."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpc.cron.schedule import Schedule, between, parse

DAY = 86400
PARIS = ZoneInfo("Europe/Paris")
TEXTS = (
    "* * * * *",
    "*/7 * * * *",
    "0 4 * * *",
    "30 2 * * *",
    "*/30 8-18 * * mon-fri",
    "0 0 13 * fri",
    "15 3 1,15 * *",
    "0 12 29 2 *",
    "@every 90m",
    "0 5 */2 * sun",
)


def walked(schedule: Schedule, after: int, until: int) -> list[int]:
    found = []
    while (after := schedule.next_epoch(after)) <= until:
        found.append(after)
    return found


@settings(max_examples=40, deadline=None)
@given(
    text=st.sampled_from(TEXTS),
    zone=st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]),
    after=st.integers(1_790_000_000, 1_830_000_000),
    length=st.integers(0, 30 * 3600),
)
def test_they_are_those_of_a_walk(text: str, zone: str, after: int, length: int) -> None:
    schedule = parse(text, ZoneInfo(zone))
    assert between(schedule, after, after + length) == walked(schedule, after, after + length)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("night", [1_806_195_600, 1_824_944_400], ids=["clocks go forward", "clocks go back"])
def test_also_where_the_clocks_change(text: str, night: int) -> None:
    schedule = parse(text, PARIS)
    for after in range(night - DAY, night + DAY, 2700):
        assert between(schedule, after, after + 3600) == walked(schedule, after, after + 3600)
