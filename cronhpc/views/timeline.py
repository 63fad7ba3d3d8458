"""One entry's week and its next day, drawn as a few paths: however many runs there were, the picture stays small.

The line is `WIDTH` units long: the last 7 days in 10 minutes a unit, then the next 24 hours in 200 seconds a unit. What
lies so close that it could not be told apart is drawn as one stroke; what went wrong is drawn last, over the rest.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from cronhpc.core.model import FAILURES, Result
from cronhpc.views import times

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import tzinfo

DAY = 86400
PAST_DAYS = 7
PAST, FUTURE = 1008, 432  # units
WIDTH = PAST + FUTURE
MIDDLE = 11  # height of the line's centre, of 22
KINDS = ("wait", "ok", "other", "live", "bad")  # in the order they are drawn
_LEAST = {"wait": 1, "ok": 4, "other": 5, "live": 5, "bad": 6, "next": 3}  # units: what is shorter could not be seen

_BAD = frozenset(map(str, FAILURES))
Stretch = tuple[int, int]


class Run(NamedTuple):
    """A run or a slot as it is drawn; epoch seconds. `ready` is when it could have started."""

    ready: int
    started: int | None
    ended: int | None
    kind: str


class Scale(NamedTuple):
    """A part of the line: the seconds from `start` to `end` on `units`, from `offset` on."""

    start: int
    end: int
    units: int
    offset: int = 0


def kind_of(result: str) -> str:
    """ok, bad, or other: neither a success nor a failure of its own."""
    if result == Result.OK:
        return "ok"
    return "bad" if result in _BAD else "other"


def run_of(row: Mapping[str, object]) -> Run | None:
    """A row of history; None where it tells no time."""
    slot, submitted = _whole(row.get("slot")), _whole(row.get("submitted"))
    started, ended = _whole(row.get("started")), _whole(row.get("ended"))
    ready = max(slot or 0, submitted or 0) or started or ended
    return Run(ready, started, ended, kind_of(str(row.get("result")))) if ready else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def past(runs: Iterable[Run], now: int) -> dict[str, str]:
    """The paths of the last 7 days by kind, those that hold anything."""
    scale = Scale(now - PAST_DAYS * DAY, now, PAST)
    found: dict[str, list[Stretch]] = {kind: [] for kind in KINDS}
    for run in runs:
        begun = run.started if run.started is not None else run.ended or run.ready
        if begun > run.ready:
            found["wait"].append((run.ready, begun))
        if run.started is not None or run.kind != "live":
            found[run.kind].append((begun, run.ended or (now if run.kind == "live" else begun)))
    return {kind: path for kind in KINDS if (path := _path(found[kind], scale, _LEAST[kind]))}


def following(slots: Sequence[int], now: int) -> str:
    """The path of the slots of the next 24 hours."""
    return _path([(slot, slot) for slot in slots], Scale(now, now + DAY, FUTURE, PAST), _LEAST["next"])


def _path(stretches: list[Stretch], scale: Scale, least: int) -> str:
    """Horizontal strokes, each after the first by its distance from the one before: the shortest way to say it."""
    text, pen = "", None
    for left, right in _merged(stretches, scale, least):
        if pen is None:
            text = f"M{left + scale.offset} {MIDDLE}h{right - left}"
        else:
            text += f"m{left - pen} 0h{right - left}"
        pen = right
    return text


def _merged(stretches: list[Stretch], scale: Scale, least: int) -> list[Stretch]:
    """In whole units, at least `least` long, within the line; what touches is one."""
    start, end, units, _ = scale
    unit = (end - start) / units
    found: list[Stretch] = []
    for begin, finish in sorted(stretches):
        if finish < start or begin > end:
            continue
        left = min(max(int((begin - start) / unit), 0), units - least)
        right = min(max(int((finish - start) / unit), left + least), units)
        if found and left <= found[-1][1]:
            found[-1] = (found[-1][0], max(right, found[-1][1]))
        else:
            found.append((left, right))
    return found


def axis(now: int, zone: tzinfo) -> dict[str, Any]:
    """Where days and hours lie: lines in units, words in percent of the line, by the clock of `zone`."""
    today = times.local(now, zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)

    def at(moment: datetime) -> int:
        return int(moment.replace(tzinfo=zone).timestamp())

    midnights = [at(today - timedelta(days=back)) for back in range(PAST_DAYS, -1, -1)]
    ends = [*midnights[1:], now]
    days = [
        {"x": _percent((_unit(left, now) + _unit(right, now)) / 2), "day": _day(left, zone)}
        for begin, right in zip(midnights, ends, strict=True)
        if right - (left := max(begin, now - PAST_DAYS * DAY)) > _WORTH_A_NAME and now - (left + right) // 2 > _ROOM
    ]
    moments = [today + timedelta(hours=6 * step) for step in range(1, 8)]
    hours = [(at(each), f"{each:%H:%M}") for each in moments if now < at(each) < now + DAY]
    return {
        "days": days,
        "hours": [{"x": _percent(_unit(instant, now)), "hour": name} for instant, name in _apart(hours, now)],
        "lines": [_unit(each, now) for each in midnights if each > now - PAST_DAYS * DAY]
        + [_unit(instant, now) for instant, _ in hours],
        "now": _percent(PAST),
    }


_WORTH_A_NAME = DAY * 3 // 4
_ROOM = DAY // 2  # beside the word "now"


def _day(at: int, zone: tzinfo) -> tuple[str, str]:
    moment = times.local(at, zone)
    return times.DAYS[moment.weekday()], str(moment.day)


def _apart(hours: list[tuple[int, str]], now: int) -> list[tuple[int, str]]:
    """Those that have room between "now" and the end of the line."""
    return [each for each in hours if DAY // 5 < each[0] - now < DAY * 19 // 20]


def _unit(at: int, now: int) -> int:
    if at <= now:
        return PAST - (now - at) * PAST // (PAST_DAYS * DAY)
    return PAST + (at - now) * FUTURE // DAY


def _percent(unit: float) -> str:
    return f"{100 * unit / WIDTH:.2f}%"
