"""What a page tells of the past: one walk over history, newest first, to a digest of each entry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cronhpc.views import text, timeline
from cronhpc.views.timeline import DAY, PAST_DAYS, Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MONTH = 30  # days that are looked back
_NEWEST = 6  # runs of an entry that are listed
_FAILURES = 30  # entries whose newest failure is shown with its log
_TAIL_LINES, _TAIL_CHARS = 40, 4000


@dataclass(slots=True)
class Past:
    """What history tells of one entry: its last 30 days."""

    drawn: list[Run] = field(default_factory=list)  # of the last 7 days
    week: dict[str, int] = field(default_factory=lambda: {"ok": 0, "bad": 0, "other": 0})
    month: dict[str, int] = field(default_factory=lambda: {"ok": 0, "bad": 0, "other": 0})
    results: dict[str, int] = field(default_factory=dict)  # of the last 30 days
    days: list[str] = field(default_factory=lambda: [""] * MONTH)  # the worst kind of each day, today first
    waited: list[int] = field(default_factory=list)  # seconds, of the last 7 days
    took: list[int] = field(default_factory=list)
    newest: list[Mapping[str, Any]] = field(default_factory=list)  # rows of history
    failure: Mapping[str, Any] | None = None  # the newest of the last 7 days

    def add(self, row: Mapping[str, Any], now: int) -> None:
        """One row of history; they come newest first."""
        run = timeline.run_of(row)
        if run is None:
            return
        if len(self.newest) < _NEWEST:
            self.newest.append(row)
        day = (now - run.ready) // DAY
        if not 0 <= day < MONTH:
            return
        self.month[run.kind] += 1
        result = str(row.get("result"))
        self.results[result] = self.results.get(result, 0) + 1
        self.days[day] = max(self.days[day], run.kind, key=_RANK.__getitem__)
        if day < PAST_DAYS:
            self._add_drawn(row, run)

    def _add_drawn(self, row: Mapping[str, Any], run: Run) -> None:
        self.drawn.append(run)
        self.week[run.kind] += 1
        if run.started is not None:
            self.waited.append(max(run.started - run.ready, 0))
            if run.ended is not None:
                self.took.append(max(run.ended - run.started, 0))
        if run.kind == "bad" and self.failure is None:
            self.failure = row


_RANK = {"": 0, "ok": 1, "other": 2, "bad": 3}


def digest(rows: Iterable[Mapping[str, Any]], now: int) -> dict[str, Past]:
    """The past of every entry, by name. `rows`: history, newest first; what is older than 30 days is not asked for."""
    found: dict[str, Past] = {}
    until = now - MONTH * DAY
    for row in rows:
        if _written(row, now) < until:
            break
        if row.get("what") in {"run", "slot"}:
            name = str(row.get("entry"))
            past = found.get(name)
            if past is None:
                past = found[name] = Past()
            past.add(row, now)
    return found


def _written(row: Mapping[str, Any], default: int = 0) -> int:
    at = row.get("at")
    return at if isinstance(at, int) else default


def failures(pasts: Mapping[str, Past]) -> list[Mapping[str, Any]]:
    """The newest failure of each entry, as rows of history, newest first: their logs' tails are wanted."""
    found = [past.failure for past in pasts.values() if past.failure is not None]
    return sorted(found, key=_written, reverse=True)[:_FAILURES]


def tail(data: str) -> str:
    """The end of a log, harmless and not long."""
    lines = text.lines(data).rstrip("\n").split("\n")[-_TAIL_LINES:]
    kept = "\n".join(lines)
    return kept if len(kept) <= _TAIL_CHARS else "… " + kept[-_TAIL_CHARS:]
