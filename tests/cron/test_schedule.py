from __future__ import annotations

import json
import os
import random
import subprocess  # noqa: TID251 - a whole process is looked at
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpc.cron import zones
from cronhpc.cron.schedule import Schedule, ScheduleError, parse

DATA = Path(__file__).parents[1] / "data"
UTC_ZONE, PARIS = ZoneInfo("UTC"), ZoneInfo("Europe/Paris")
HOUR, DAY, YEAR = 3_600, 86_400, 366 * 86_400
NOW = 1_790_000_000  # 2026-09-21


def lines_of(name: str) -> list[list[Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def slots(schedule: Schedule, after: int) -> Iterator[int]:
    while True:
        after = schedule.next_epoch(after)
        yield after


def slots_until(schedule: Schedule, after: int, until: int) -> list[int]:
    found: list[int] = []
    for slot in slots(schedule, after):
        if slot > until:
            return found
        found.append(slot)
    raise AssertionError


def epoch(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


# --- cronie's own answers --------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_computing_a_slot_starts_no_program(tmp_path: Path) -> None:
    stand_in = tmp_path / "file"
    stand_in.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    stand_in.chmod(0o755)
    code = (
        "from cronhpc.cron.schedule import *; from zoneinfo import *; parse('1 * * * *', ZoneInfo('UTC')).next_epoch(0)"
    )
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=60)
    assert not (tmp_path / "asked").exists()


@pytest.mark.thorough
def test_in_utc_every_chain_of_cronie_is_ours() -> None:
    """Where cronie fires one entry twice in a minute, once is right: repeats in a row are dropped."""
    wrong = []
    for expression, start, fires in lines_of("cronie_utc.jsonl"):
        expected = [fire for fire, _ in groupby(fires)]
        found = list(islice(slots(parse(expression, UTC_ZONE), start), len(expected)))
        if found != expected:
            wrong.append((expression, start))
    assert wrong == []


@pytest.mark.thorough
def test_around_clock_changes_every_chain_of_cronie_is_ours() -> None:
    wrong = []
    for zone, _direction, expression, start, end, fires in lines_of("cronie_dst.jsonl"):
        expected = [fire for fire, _ in groupby(fires)]
        if slots_until(parse(expression, ZoneInfo(zone)), start, end) != expected:
            wrong.append((zone, expression, start))
    assert wrong == []


def test_what_cronie_accepts_is_accepted_and_what_it_never_fires_is_refused() -> None:
    wrong = []
    for expression, verdict in lines_of("cronie_syntax.jsonl"):
        try:
            parse(expression, UTC_ZONE)
            accepted = True
        except ScheduleError:
            accepted = False
        if accepted != (verdict == "accepted"):
            wrong.append((expression, verdict))
    assert wrong == []


# --- the worst nights, told one by one -------------------------------------------------------------------------------

# zone, expression, (from, to] and the slots, all in UTC
NIGHTS = {
    "a fixed time in the skipped hour runs at the change": (
        "Europe/Paris", "30 2 * * *", "2026-03-28T12:00Z", "2026-03-29T12:00Z", ["03-29T01:00"],
    ),
    "two fixed times in the skipped hour run once": (
        "Europe/Paris", "0,30 2 * * *", "2026-03-28T12:00Z", "2026-03-29T12:00Z", ["03-29T01:00"],
    ),
    "a fixed time that falls on the change itself runs once": (
        "Europe/Paris", "30 2,3 * * *", "2026-03-28T12:00Z", "2026-03-29T12:00Z", ["03-29T01:00", "03-29T01:30"],
    ),
    "a fixed time in the repeated hour runs in the first pass only": (
        "Europe/Paris", "30 2 * * *", "2026-10-24T12:00Z", "2026-10-25T12:00Z", ["10-25T00:30"],
    ),
    "a wildcard schedule leaves the skipped hour out": (
        "Europe/Paris", "*/30 2 * * *", "2026-03-28T12:00Z", "2026-03-29T12:00Z", [],
    ),
    "a wildcard schedule runs in both passes of the repeated hour": (
        "Europe/Paris", "*/30 2 * * *", "2026-10-24T12:00Z", "2026-10-25T12:00Z",
        ["10-25T00:00", "10-25T00:30", "10-25T01:00", "10-25T01:30"],
    ),
    "half an hour skipped on Lord Howe": (
        "Australia/Lord_Howe", "15 2 * * *", "2025-10-04T00:00Z", "2025-10-05T00:00Z", ["10-04T15:30"],
    ),
    "half an hour repeated on Lord Howe": (
        "Australia/Lord_Howe", "45 1 * * *", "2025-04-05T00:00Z", "2025-04-06T00:00Z", ["04-05T14:45"],
    ),
    "two hours skipped at Troll": (
        "Antarctica/Troll", "30 1,2 * * *", "2025-03-29T12:00Z", "2025-03-30T12:00Z", ["03-30T01:00"],
    ),
    "Ramadan puts the clock back in Casablanca": (
        "Africa/Casablanca", "30 2 * * *", "2025-02-22T12:00Z", "2025-02-23T12:00Z", ["02-23T01:30"],
    ),
    "midnight skipped in Havana": (
        "America/Havana", "0 0 * * *", "2025-03-08T12:00Z", "2025-03-09T12:00Z", ["03-09T05:00"],
    ),
    "midnight skipped in Beirut on the last Sunday only": (
        "Asia/Beirut", "15 0 * * sun", "2025-03-29T12:00Z", "2025-03-30T12:00Z", ["03-29T22:00"],
    ),
    "an hour before midnight repeated in Santiago stays in its day": (
        "America/Santiago", "30 23 * * sat", "2025-04-05T12:00Z", "2025-04-06T12:00Z", ["04-06T02:30"],
    ),
    "St John's put its clock back one minute after midnight": (
        "America/St_Johns", "0 0 * * *", "2006-10-28T12:00Z", "2006-10-29T12:00Z", ["10-29T02:30"],
    ),
    "a day that Apia never had runs nothing, not even later": (
        "Pacific/Apia", "0 12 * * *", "2011-12-29T12:00Z", "2011-12-31T12:00Z", ["12-29T22:00", "12-30T22:00"],
    ),
    "three hours skipped at Casey are no daylight saving": (
        "Antarctica/Casey", "30 5 * * *", "2018-10-06T00:00Z", "2018-10-07T12:00Z", [],
    ),
    "three hours back at Casey are still waited for, as in cron.c": (
        "Antarctica/Casey", "30 2 * * *", "2019-03-16T00:00Z", "2019-03-17T12:00Z", ["03-16T15:30"],
    ),
    "twenty-three hours back at Kwajalein repeat everything": (
        "Pacific/Kwajalein", "0 12 * * *", "1969-09-29T14:00Z", "1969-10-01T14:00Z",
        ["09-30T01:00", "10-01T00:00"],
    ),
    "Kathmandu has a quarter of an hour and no changes": (
        "Asia/Kathmandu", "0 4 * * *", "2025-03-30T00:00Z", "2025-03-31T00:00Z", ["03-30T22:15"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("zone", "expression", "start", "end", "expected"), NIGHTS.values(), ids=NIGHTS.keys())
def test_on_the_worst_nights(zone: str, expression: str, start: str, end: str, expected: list[str]) -> None:
    found = slots_until(parse(expression, ZoneInfo(zone)), epoch(start), epoch(end))
    assert [f"{zones.instant(slot):%m-%dT%H:%M}" for slot in found] == expected


@pytest.mark.parametrize(
    ("day", "hours"),
    [
        pytest.param("2026-10-25", 25, id="autumn night in Paris"),
        pytest.param("2026-03-29", 23, id="spring night in Paris"),
        pytest.param("2026-06-01", 24, id="any other night"),
    ],
)
def test_an_hourly_schedule_follows_real_time(day: str, hours: int) -> None:
    midnight = datetime.fromisoformat(day).replace(tzinfo=PARIS)
    start, end = int(midnight.timestamp()), int((midnight + timedelta(days=1)).timestamp())
    found = slots_until(parse("@hourly", PARIS), start - 1, end - 1)
    assert found == list(range(start, end, HOUR))
    assert len(found) == hours


def test_the_next_slot_is_strictly_later() -> None:
    daily = parse("0 4 * * *", PARIS)
    first, second = (int(datetime(2026, 11, day, 3, tzinfo=UTC).timestamp()) for day in (28, 29))
    assert daily.next_epoch(first - 1) == first
    assert daily.next_epoch(first) == second


@pytest.mark.parametrize(
    "instant",
    [
        pytest.param(datetime.min.replace(tzinfo=UTC), id="the first instant there is"),
        pytest.param(datetime.max.replace(tzinfo=UTC), id="the last instant there is"),
        pytest.param(datetime(9999, 12, 29, tzinfo=UTC), id="days before the end of the calendar"),
    ],
)
def test_an_instant_without_an_answer_is_a_schedule_error(instant: datetime) -> None:
    with pytest.raises(ScheduleError):
        parse("0 4 * * *", PARIS).next_epoch((instant - zones.EPOCH) // timedelta(seconds=1))


def test_a_slot_decades_away_is_found() -> None:
    leap_sunday = parse("0 0 29 2 */7", UTC_ZONE)  # both at once, as one begins with a star
    found = leap_sunday.next_epoch(int(datetime(2088, 3, 1, tzinfo=UTC).timestamp()))
    assert zones.instant(found) == datetime(2128, 2, 29, tzinfo=UTC)


# --- cron.c, minute by minute ----------------------------------------------------------------------------------------


def waking_every_minute(schedule: Schedule, after: int, until: int) -> list[int]:
    """The main loop of cron as cron.c documents it: a virtual clock in minutes, and four kinds of time jump."""

    def wall(at: int) -> int:
        return (at + zones.offset(schedule.zone, at)) // 60

    fixed, fired = not schedule.wildcard, []
    virtual = wall(after - 6 * HOUR)
    for at in range(after - after % 60 - 6 * HOUR, until + 1, 60):
        now = wall(at)
        ahead = now - virtual
        if 1 < ahead <= 5 or (5 < ahead <= 180 and fixed):
            due = any(matches(schedule, minute) for minute in range(virtual + 1, now + 1))
        else:
            due = matches(schedule, now) and (ahead >= 1 or ahead < -180 or not fixed)
        if ahead >= 1 or ahead < -180:
            virtual = now
        if due and after < at:
            fired.append(at)
    return fired


def matches(schedule: Schedule, minute: int) -> bool:
    assert schedule.fields is not None
    at, fields = zones.instant(minute * 60), schedule.fields
    by_date, by_weekday = at.day in fields.day.values, at.isoweekday() % 7 in fields.weekday.values
    return (
        at.minute in fields.minute.values
        and at.hour in fields.hour.values
        and at.month in fields.month.values
        and ((by_date or by_weekday) if fields.either_day else (by_date and by_weekday))
    )


def some_changes(count: int) -> list[tuple[ZoneInfo, zones.Change]]:
    """Clock changes of whole minutes since 1970, one each of `count` zones."""
    chosen = random.Random(3).sample(sorted(available_timezones()), count)  # noqa: S311  # situations, no secrets
    found = []
    for zone in map(ZoneInfo, chosen):
        whole = [one for one in zones.changes(zone, 0, NOW) if not (one.before % 60 or one.after % 60)]
        found += [(zone, whole[len(whole) * 2 // 3])] if whole else []
    return found


def some_expression(rnd: random.Random) -> str:
    minute = rnd.choice(["*", "0", "30", "*/15", "1", "59", "0-59/20", "7,37"])
    hour = rnd.choice(["*", "*/2", "0", "1", "2", "3", "23", "0-3", "1-23/2", "2,3", "0-23"])
    day = rnd.choice(["*", "*", "*", "*/2", "1-31", "1-15", "25-31"])
    return f"{minute} {hour} {day} * {rnd.choice(['*', '*', 'sun', '*/2', 'sat-sun', '1-5'])}"


@pytest.mark.thorough
def test_around_any_zones_changes_it_fires_as_a_cron_that_wakes_every_minute() -> None:
    rnd = random.Random(5)  # noqa: S311  # situations, no secrets
    wrong = []
    for zone, change in some_changes(45):
        schedule = parse(some_expression(rnd), zone)
        start, end = change.epoch - rnd.randrange(6 * HOUR), change.epoch + 8 * HOUR
        if slots_until(schedule, start, end) != waking_every_minute(schedule, start, end):
            wrong.append((zone.key, change, schedule.text))
    assert wrong == []


# --- @every ----------------------------------------------------------------------------------------------------------


def test_every_counts_elapsed_time_on_a_grid_without_zones() -> None:
    """The grid begins at 1970-01-01T00:00Z, so nobody's start shifts it, and no clock change does."""
    night = epoch("2026-10-25T00:00Z")
    in_paris = list(islice(slots(parse("@every 90m", PARIS), night), 4))
    assert in_paris == [night + step * 5_400 for step in (1, 2, 3, 4)]
    assert in_paris == list(islice(slots(parse("@every 1h30m", ZoneInfo("Asia/Kathmandu")), night + 7), 4))


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        pytest.param("@every", "@every 90m", id="no duration"),
        pytest.param("@every90m", "@every 90m", id="no blank"),
        pytest.param("@every 90", "90m", id="no unit"),
        pytest.param("@every 59s", "1m", id="less than a minute"),
        pytest.param("@every 0", "1m", id="no time at all"),
        pytest.param("@every 999999d", "36500d", id="beyond everybody's life"),
        pytest.param("@every 1h 30m", "1h30m", id="a blank inside"),
    ],
)
def test_an_every_that_cannot_be_is_refused(text: str, fix: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse(text, UTC_ZONE)
    assert fix in caught.value.fix
    assert caught.value.text == text


# --- the latest slot, and the changes --------------------------------------------------------------------------------


@pytest.mark.parametrize("expression", ["* * * * *", "30 2 * * *", "*/7 1-3 * * sun", "0 0 29 2 *", "@every 90m"])
@pytest.mark.parametrize("outage", [1, 59, 60, 3 * HOUR, 40 * DAY, 5 * YEAR])
def test_the_latest_slot_of_an_outage_is_the_one_before_the_next(expression: str, outage: int) -> None:
    schedule = parse(expression, PARIS)
    instant = epoch("2026-10-25T02:15Z")
    latest = schedule.latest_before(instant, instant - outage)
    if latest is None:
        assert schedule.next_epoch(instant - outage) > instant
    else:
        assert instant - outage < latest <= instant < schedule.next_epoch(latest)
        assert schedule.next_epoch(latest - 1) == latest


def test_the_latest_slot_includes_now_and_excludes_the_one_handled() -> None:
    hourly = parse("0 * * * *", UTC_ZONE)
    noon = epoch("2026-11-27T12:00Z")
    assert hourly.latest_before(noon, noon - 1) == noon
    assert hourly.latest_before(noon, noon) is None
    assert hourly.latest_before(noon + 59, noon) is None
    assert hourly.latest_before(noon, noon + HOUR) is None


def test_the_changes_of_a_year_are_told() -> None:
    start = epoch("2026-01-01T00:00Z")
    spring, autumn = epoch("2026-03-29T01:00Z"), epoch("2026-10-25T01:00Z")
    daily = parse("0 4 * * *", PARIS)
    assert list(daily.changes(start, start + YEAR)) == [(spring, 3_600, 7_200), (autumn, 7_200, 3_600)]
    assert list(daily.changes(spring, autumn)) == [(autumn, 7_200, 3_600)]
    assert list(daily.changes(spring - 1, spring)) == [(spring, 3_600, 7_200)]
    assert list(daily.changes(spring, spring)) == []
    assert list(parse("0 4 * * *", UTC_ZONE).changes(start, start + YEAR)) == []


# --- properties ------------------------------------------------------------------------------------------------------

some_zones = st.sampled_from([
    "UTC", "Europe/Paris", "Europe/Dublin", "America/Havana", "Australia/Lord_Howe", "Africa/Casablanca",
    "Antarctica/Troll", "Antarctica/Casey", "Pacific/Apia", "Asia/Beirut", "America/St_Johns", "Asia/Kathmandu",
]).map(ZoneInfo)  # fmt: skip
expressions = st.one_of(
    st.builds(some_expression, st.randoms(use_true_random=False)),
    st.sampled_from(["@hourly", "@daily", "@weekly", "@every 7m", "@every 1d", "H/15 H(0-3) * * *"]),
)
instants = st.integers(min_value=epoch("1969-01-01T00:00Z"), max_value=epoch("2040-01-01T00:00Z"))
shortly = st.integers(min_value=0, max_value=3 * DAY)


@given(expressions, some_zones, instants, shortly)
def test_slots_increase_and_none_is_skipped(expression: str, zone: ZoneInfo, after: int, later: int) -> None:
    """Whatever a later start gives, an earlier one gives first, unless it has something sooner still."""
    schedule = parse(expression, zone)
    first = schedule.next_epoch(after)
    assert first > after
    assert schedule.next_epoch(first) > first
    from_later = schedule.next_epoch(after + later)
    assert first <= from_later
    if first > after + later:
        assert first == from_later


@given(expressions, some_zones, instants, shortly)
def test_walking_forward_meets_the_latest_slot(expression: str, zone: ZoneInfo, start: int, length: int) -> None:
    schedule = parse(expression, zone)
    end = start + length // 16
    assert schedule.latest_before(end, start) == max(slots_until(schedule, start, end), default=None)


@given(expressions, some_zones, st.integers(min_value=-(10**11), max_value=10**12))
def test_any_instant_has_a_later_slot_or_a_schedule_error(expression: str, zone: ZoneInfo, after: int) -> None:
    try:
        assert parse(expression, zone).next_epoch(after) > after
    except ScheduleError as error:
        assert not zones.FIRST <= after <= zones.LAST - YEAR, error  # noqa: PT017  # the ends of the calendar only


def test_the_library_is_asked_once_for_the_words_of_alike_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads its catalog anew each time, which ten thousand entries would wait for."""
    import cron_descriptor

    asked, library = [], cron_descriptor.ExpressionDescriptor

    def counted(expression: str, options: cron_descriptor.Options) -> cron_descriptor.ExpressionDescriptor:
        asked.append(expression)
        return library(expression, options)

    monkeypatch.setattr(cron_descriptor, "ExpressionDescriptor", counted)
    zones = [ZoneInfo(key) for key in ("Europe/Paris", "America/New_York", "UTC")]
    assert {parse("43 3 * * *", zone).in_words() for zone in zones} == {"At 03:43"}
    assert len(asked) <= 2
