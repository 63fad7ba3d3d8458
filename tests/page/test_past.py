"""What the page makes of history: counts, days, typical times, lines, and the failures whose logs it wants."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpc.core.model import HistoryRow
from cronhpc.page import view
from cronhpc.page.view import Kind, Run
from cronhpc.store import history
from tests.page_situations import html, known, row
from tests.view_situations import NOW, at

DAY, HOUR = 86400, 3600


def digest(*rows: HistoryRow) -> view.Past:
    """Of the entry e, rows given newest first."""
    return view.digest(iter(rows), NOW)["e"]


def ago(days: float, result: str = "ok", **facts: Any) -> Any:
    slot = NOW - int(days * DAY)
    return row("e", slot, result, **{"at": slot + 200, **facts})


def test_a_week_and_a_month_are_counted_by_kind() -> None:
    one = digest(ago(1), ago(2, "failed"), ago(3, "killed"), ago(10), ago(12, "timed out"), ago(40))
    assert one.week == {"ok": 1, "bad": 1, "other": 1}
    assert one.month == {"ok": 2, "bad": 2, "other": 1}
    assert one.results == {"ok": 2, "failed": 1, "killed": 1, "timed out": 1}


def test_a_day_is_as_its_worst_run() -> None:
    one = digest(ago(0.1), ago(0.2, "failed"), ago(0.3), ago(1.1, "skipped"), ago(1.2))
    assert one.days[:3] == ["bad", "other", ""]


def test_rows_beyond_a_month_are_not_even_asked_for() -> None:
    def rows() -> Any:
        yield ago(1)
        yield ago(31)
        pytest.fail("it went on")

    assert view.digest(rows(), NOW)["e"].month["ok"] == 1


@pytest.mark.parametrize(
    "odd",
    [{}, {"what": "run"}, {"what": "run", "entry": "e"}, {"what": "run", "entry": "e", "slot": "x", "at": "y"}],
)
def test_a_row_that_tells_nothing_is_passed_over(odd: dict[str, Any], tmp_path: Path) -> None:
    history.append(tmp_path, [ago(1), odd], host="a", now=NOW)
    assert view.digest(history.rows(tmp_path), NOW)["e"].week["ok"] == 1


def test_waiting_counts_from_when_it_could_have_started() -> None:
    early = ago(1, submitted=NOW - DAY - HOUR, started=NOW - DAY + 30, ended=NOW - DAY + 90)  # queued ahead of its slot
    late = ago(2, submitted=NOW - 2 * DAY + 100, started=NOW - 2 * DAY + 130, ended=NOW - 2 * DAY + 135)
    one = digest(early, late)
    assert (one.waited, one.took) == ([30, 30], [60, 5])


def test_the_newest_failure_of_each_entry_of_the_last_week_is_wanted() -> None:
    rows = [ago(1), ago(2, "failed", log="new"), ago(3, "failed", log="old"), row("f", NOW - 8 * DAY, "failed")]
    assert [each["log"] for each in view.failures(view.digest(iter(rows), NOW))] == ["new"]


def test_a_tail_is_its_last_lines_and_not_long() -> None:
    assert view.tail("\n".join(map(str, range(100)))).split("\n")[0] == "60"
    assert len(view.tail("x" * 10_000)) < 4100
    assert view.tail("a\x1b[31mb\x00\u202e") == "a\\e[31mb\\x00\\u202e"


# --- lines ---------------------------------------------------------------------------------------------------------


def strokes(path: str) -> list[tuple[int, int]]:
    """From where to where a path draws, in units."""
    pen, found = 0, []
    for move, dx, length in re.findall(r"([Mm])(-?\d+) \d+h(\d+)", path):
        left = int(dx) if move == "M" else pen + int(dx)
        pen = left + int(length)
        found.append((left, pen))
    return found


def test_waiting_and_running_are_drawn_apart() -> None:
    paths = view.past_paths([Run(NOW - DAY, NOW - DAY + 6 * HOUR, NOW - DAY + 9 * HOUR, Kind.OK)], NOW)
    assert strokes(paths["wait"]) == [(864, 900)]
    assert strokes(paths["ok"]) == [(900, 918)]


def test_a_short_run_can_still_be_seen_and_those_side_by_side_are_one_stroke() -> None:
    runs = [Run(NOW - HOUR * n, NOW - HOUR * n, NOW - HOUR * n + 1, Kind.OK) for n in (20, 21)]
    assert [right - left for left, right in strokes(view.past_paths(runs, NOW)["ok"])] == [4, 4]
    runs = [Run(NOW - 60 * n, NOW - 60 * n, NOW - 60 * n + 1, Kind.OK) for n in range(100, 200)]
    assert len(strokes(view.past_paths(runs, NOW)["ok"])) == 1


@pytest.mark.parametrize(
    ("run", "kinds"),
    [
        pytest.param(Run(NOW - HOUR, None, None, Kind.OTHER), {"other"}, id="a missed slot is a mark"),
        pytest.param(Run(NOW - HOUR, None, NOW, Kind.LIVE), {"wait"}, id="one that waits now has not run"),
        pytest.param(Run(NOW - HOUR, NOW - 600, None, Kind.LIVE), {"wait", "live"}, id="one that runs now"),
        pytest.param(Run(NOW - 9 * DAY, NOW - 9 * DAY, NOW - 8 * DAY, Kind.OK), set(), id="before the week"),
        pytest.param(Run(NOW - 9 * DAY, NOW - 9 * DAY, NOW - 6 * DAY, Kind.OK), {"ok"}, id="from before into the week"),
    ],
)
def test_a_run_is_drawn_in_these_strokes(run: Run, kinds: set[str]) -> None:
    assert set(view.past_paths([run], NOW)) == kinds


_INSTANT = st.integers(NOW - 10 * DAY, NOW + 2 * DAY)


@given(st.lists(st.tuples(_INSTANT, _INSTANT, _INSTANT, st.sampled_from([*Kind][1:])), max_size=60))
def test_strokes_are_in_order_apart_and_on_the_line(runs: list[tuple[int, int, int, Kind]]) -> None:
    drawn = view.past_paths([Run(*each) for each in runs], NOW)
    whole = [Run(*each) for each in runs if NOW - 7 * DAY <= each[0] <= each[1] <= each[2] <= NOW]
    assert {run.kind for run in whole} | {"wait" for run in whole if run.ready < (run.started or 0)} <= set(drawn)
    for path in drawn.values():
        found = strokes(path)
        assert found
        assert all(0 <= left < right <= view.PAST for left, right in found)
        assert all(before[1] < after[0] for before, after in itertools.pairwise(found))


@given(st.lists(st.integers(NOW, NOW + DAY), max_size=2000))
def test_the_next_day_is_drawn_behind_it(slots: list[int]) -> None:
    found = strokes(view.following(slots, NOW))
    assert bool(found) == bool(slots)
    for slot in slots[:20]:
        place = view.PAST + (slot - NOW) * view.FUTURE / DAY
        assert any(left - 3 <= place <= right + 3 for left, right in found), "it is drawn where it lies"
    assert all(view.PAST <= left < right <= view.WIDTH for left, right in found)
    assert len(found) <= view.FUTURE // 3


def tips(*rows: HistoryRow) -> list[str]:
    """What a pointer on the line of the entry e is told, from left to right, by the page."""
    facts = replace(known(), entries=(replace(known().entries[0], name="e", runs=(), last=None),))
    ordered = sorted(rows, key=lambda each: -each["at"])
    return [
        unescape(tip) for tip in re.findall(r'class="t"[^>]*><title>(.*?)</title>', html(facts, ordered), re.DOTALL)
    ]


def test_a_pointer_on_a_run_is_told_of_it() -> None:
    four, noon = at("04:00"), at("12:00")
    failed = row("e", four, "failed", exit_code=3, started=four + 130, ended=four + 142, attempt=2)
    missed = row("e", noon, "missed")
    assert tips(failed, missed) == [
        f"today 04:00: failed (3), took 12s, waited 2m6s, attempt 2, job {failed['job']}, on cpu2",
        "today 12:00: missed",
    ]


def test_a_pointer_on_runs_side_by_side_is_told_of_each_and_of_too_many_what_went_wrong() -> None:
    close = [row("e", at("04:00") + 60 * n, "failed" if n == 2 else "ok") for n in range(4)]
    (tip,) = tips(*close)
    assert [line.partition(",")[0] for line in tip.splitlines()] == [
        "today 04:00: ok", "today 04:01: ok", "today 04:02: failed", "today 04:03: ok",
    ]  # fmt: skip
    (tip,) = tips(*[row("e", at("04:00") + 4 * n, "failed" if n == 2 else "ok") for n in range(40)])
    head, worst = tip.splitlines()
    assert head == "today 04:00 to 04:02: 40 runs, 39 went well, 1 failed"
    assert worst.startswith("today 04:00: failed, took 2m")


def test_a_pointer_on_what_waits_or_runs_is_told_for_how_long() -> None:
    words = " ".join(re.findall(r"<title>(.*?)</title>", html(), re.DOTALL))
    assert re.search(r"today 12:30: (runs|waits) for 1h\w+, job 4701", words), words


@given(st.lists(st.tuples(_INSTANT, _INSTANT, _INSTANT, st.sampled_from([*Kind][1:])), max_size=60))
def test_what_a_pointer_can_meet_lies_in_order_apart_and_holds_every_run_of_the_week(
    runs: list[tuple[int, int, int, Kind]],
) -> None:
    drawn = [Run(*each) for each in runs]
    found = view.gathered(drawn, view.Hover(10, 8), NOW)
    whole = [run for run in drawn if NOW - 7 * DAY <= run.ready <= NOW and (run.ended or 0) >= run.ready]
    assert {id(run) for run in whole} <= {id(run) for each in found for run in each.runs}
    stretches = [each.stretch for each in found]
    assert all(0 <= left < right <= view.PAST for left, right in stretches)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(stretches))


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "Asia/Kathmandu", "Pacific/Auckland"])
@pytest.mark.parametrize("now", [NOW, at("00:00"), at("23:59"), 1_806_195_600, 1_824_944_400 + 7200])
def test_days_and_hours_lie_in_order_on_the_line(now: int, zone: str) -> None:
    axis = view.axis(now, ZoneInfo(zone))
    assert 5 <= len(axis["days"]) <= 7
    places = [float(each["x"].rstrip("%")) for each in [*axis["days"], {"x": axis["now"]}, *axis["hours"]]]
    assert places == sorted(places)
    assert axis["lines"] == sorted(axis["lines"])
    assert all(0 <= each <= view.WIDTH for each in axis["lines"])


def test_an_entry_whose_first_run_goes_on_is_no_longer_said_not_to_have_run() -> None:
    assert re.search(r">sweep<small class=\"new\">runs now<", html())
    assert re.search(r">report<small class=\"new\">not yet<", html())


def test_a_browser_loads_the_page_anew_as_often_as_the_settings_say() -> None:
    assert '<meta http-equiv="refresh" content="300">' in html(refresh=300)
    assert "every 5m" in html(refresh=300)
    assert 'http-equiv="refresh"' not in html(refresh=0)
    assert "anew every" not in html(refresh=0)


@pytest.mark.parametrize(
    ("log", "href"),
    [
        ("log/backup/20261127T0300Z-7.out", "log/backup/20261127T0300Z-7.out"),
        ("log/sweep/20261127T0300Z-*.out", "log/sweep/"),
        ("log/gr%C3%B6%C3%9Fe/x#?.out", "log/gr%25C3%25B6%25C3%259Fe/x%23%3F.out"),
        ("javascript:alert(1)", None),
        ("/etc/passwd", None),
        ('log/"><script>', "log/%22%3E%3Cscript%3E"),
        ("", None),
    ],
)
def test_a_link_leads_to_a_log_in_log_and_nowhere_else(log: str, href: str | None) -> None:
    rows = [row("backup", at("04:00"), "failed", log=log)]
    assert set(re.findall(r'href="(?!#)([^"]*)"', html(known(), rows, beside_logs=True))) == ({href} if href else set())
    assert re.findall(r'href="(?!#)([^"]*)"', html(known(), rows)) == []


def test_the_page_is_the_same_each_time_and_small() -> None:
    one = html()
    assert one == html()
    assert len(one) < 60_000
    assert one.count("<script") == 0
