"""`cronhpc again`, decided: times and ends of pieces, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from cronhpc.core import pieces
from cronhpc.core.model import JobEnd, Result, Rules
from cronhpc.core.pieces import Ran, ended, last, next_slot
from tests.worlds import at, clock

HOURLY = Rules(every=3600)


@pytest.mark.parametrize(
    ("rules", "own", "now", "slot"),
    [
        pytest.param(HOURLY, "", "14:20", "15:00", id="started by hand at 14:20: the next whole hour"),
        pytest.param(HOURLY, "15:00", "15:00:07", "16:00", id="a piece that began a moment late does not drift"),
        pytest.param(HOURLY, "15:00", "15:59:59", "16:00", id="nor one that begins at the last moment"),
        pytest.param(HOURLY, "15:00", "18:30", "19:00", id="what was missed while the cluster was full is not made up"),
        pytest.param(HOURLY, "15:00", "14:50", "16:00", id="a clock ten minutes slow queues no slot again"),
        pytest.param(HOURLY, "15:00", "15:00", "16:00", id="on the second: strictly later"),
        pytest.param(Rules(every=5400), "", "14:20", "15:00", id="every 90m: whole multiples since the epoch"),
        pytest.param(Rules(cron="0 3 * * *"), "", "14:20", "28th 03:00", id="a crontab line"),
        pytest.param(Rules(cron="0 3 * * *", timezone="Asia/Tokyo"), "", "14:20", "18:00", id="on another clock"),
        pytest.param(Rules(after=True), "", "14:20", "14:20", id="--after: the instant is its name"),
        pytest.param(
            Rules(after=True), "14:20", "14:20", "14:20", id="--after, twice in one second: a name of its own"
        ),
    ],
)
def test_the_next_piece_is_due(rules: Rules, own: str, now: str, slot: str) -> None:
    own_slot = at(own) if own else 0
    found = next_slot(rules, own_slot, at(now))
    assert clock(found) == slot
    assert found > own_slot


def ran(*pieces: tuple[Result, int | None]) -> list[Ran]:
    """Pieces by their result and how long they took (None: nobody knows)."""
    begun = at("12:00")
    return [
        Ran(str(n), result, begun, None if took is None else begun + took) for n, (result, took) in enumerate(pieces)
    ]


FAST, SLOW, GOOD = (Result.FAILED, 5), (Result.FAILED, 500), (Result.OK, 5)


@pytest.mark.parametrize(
    ("rules", "facts", "why"),
    [
        pytest.param({}, {}, "", id="nothing says so: it goes on"),
        pytest.param({"until": "/d/done"}, {"until_exists": True}, "/d/done exists", id="its file is there"),
        pytest.param({"until": "/d/done"}, {}, "", id="its file is not there yet"),
        pytest.param({"until_time": at("14:00")}, {}, "its --until-time has come", id="its time has come"),
        pytest.param({"until_time": at("14:01")}, {}, "", id="its time has not come"),
        pytest.param({}, {"ran": ran(FAST, FAST, FAST)}, "the last 3 pieces failed within 2m each", id="three crashes"),
        pytest.param({}, {"ran": ran(FAST, FAST)}, "", id="two crashes are not three"),
        pytest.param({}, {"ran": ran(FAST, FAST, GOOD, FAST)}, "", id="a good one between starts the count anew"),
        pytest.param({}, {"ran": ran(FAST, FAST, SLOW, FAST)}, "", id="so does one that failed after a while"),
        pytest.param({}, {"ran": ran(FAST, (Result.CANCELLED, 5), FAST, FAST)}, "", id="so does a cancelled one"),
        pytest.param({}, {"ran": ran(*[(Result.TIMEOUT, 60)] * 3)}, "", id="nor are time limits, however short"),
        pytest.param({}, {"ran": ran(FAST, (Result.FAILED, None), FAST)}, "", id="how long it took must be known"),
        pytest.param(
            {}, {"ran": ran(*[(Result.NODE_FAIL, 5)] * 3)}, "the last 3 pieces failed within 2m each", id="nodes"
        ),
        pytest.param({"max_fast_failures": None}, {"ran": ran(*[FAST] * 9)}, "", id="0: it never rests by itself"),
        pytest.param(
            {"max_fast_failures": 1, "fast": 3600},
            {"ran": ran(GOOD, SLOW)},
            "it failed within 1h",
            id="other limits",
        ),
    ],
)
def test_a_piece_ends_the_series(rules: dict[str, Any], facts: dict[str, Any], why: str) -> None:
    asked = Rules(**{"every": 3600, **rules})
    assert ended(asked, **{"until_exists": False, "now": at("14:00"), "ran": (), **facts}) == why


@pytest.mark.parametrize(
    ("rules", "runs", "why"),
    [
        pytest.param({}, 99, "", id="no limit"),
        pytest.param({"max_runs": 3}, 2, "", id="the second of three queues the third"),
        pytest.param({"max_runs": 3}, 3, "run 3 of --max-runs 3", id="the third of three runs, and queues none"),
        pytest.param(
            {"until_time": at("14:59")}, 1, "the next one would start after --until-time", id="too late by one"
        ),
        pytest.param({"until_time": at("15:00")}, 1, "", id="just in time"),
        pytest.param({"until_time": at("14:59"), "every": 0, "after": True}, 1, "", id="--after starts when it can"),
    ],
)
def test_a_piece_is_the_last_one(rules: dict[str, Any], runs: int, why: str) -> None:
    assert last(Rules(**{"every": 3600, **rules}), next_at=at("15:00"), runs=runs) == why


@pytest.mark.parametrize(
    ("rules", "words", "job_ends"),
    [
        pytest.param(Rules(after=True), "each as soon as the one before has ended", 1, id="--after"),
        pytest.param(HOURLY, "every 1h", 1, id="--every"),
        pytest.param(Rules(cron="0 3 * * *", timezone="Europe/Paris"), "0 3 * * * (Europe/Paris)", 1, id="--cron"),
        pytest.param(Rules(every=60, until="/d", until_time=1, max_runs=2), "every 1m", 4, id="each end is named"),
        pytest.param(Rules(every=60, max_fast_failures=None), "every 1m", 0, id="nothing ends it"),
    ],
)
def test_a_train_in_words(rules: Rules, words: str, job_ends: int) -> None:
    assert pieces.words(rules) == words
    assert len(pieces.job_ends(rules)) == job_ends


def test_an_ending_is_remembered_with_its_times() -> None:
    assert Ran.of("7", JobEnd(Result.TIMEOUT, started=1, ended=2)) == Ran("7", Result.TIMEOUT, 1, 2)
