"""One HTML page of it all, whole in one file: nothing is fetched, no script runs, and what was printed is only text."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from cronhpc.core.model import FAILURES, HistoryRow, Result, command, entry_id, texts_of
from cronhpc.cron.values import dataclass, field
from cronhpc.views import Facts, chain, runs, screen, text, times
from cronhpc.views.attention import BAD, grouped, switch_verb
from cronhpc.views.facts import Chain, DeletedEntry, EntryStatus, HistoryRun, LiveRun, Notice, Status
from cronhpc.views.times import DAY

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from datetime import tzinfo

    from jinja2 import Template

    from cronhpc.views.style import Style


def render(
    status: Status,
    pasts: Mapping[str, Past],
    slots: Mapping[str, Sequence[int]],
    tails: Mapping[str, str],
    style: Style,
    *,
    beside_logs: bool = False,
    kept: bool = True,
    refresh: int = 0,
) -> str:
    """The page. `status`: `status.facts`; `slots`: by entry those of the next 24 hours; `tails`: by path of a log.

    `beside_logs`: it will lie in the cron directory, so that links lead to log/; `refresh`: seconds, 0 for never;
    `kept`: each tick writes it anew.
    """
    from base64 import b64encode
    from hashlib import sha256

    from markupsafe import Markup

    template, css = _template()
    context = {**_head(status, pasts, style), **_body(status, pasts, slots, tails, style)}
    digest_of_css = b64encode(sha256(css.encode()).digest()).decode()
    return template.render(
        texts_of(context, status.directory),  # a page is read anywhere
        silent_from=_silent_from(status.chain, style) if kept else "",  # by hand: its age tells nothing
        beside_logs=beside_logs,
        refresh=refresh,
        often=f"every {times.took(refresh)}",
        css=Markup(css),  # noqa: S704 - a file of ours
        policy=f"default-src 'none'; style-src 'sha256-{digest_of_css}'; base-uri 'none'; form-action 'none'",
    )


@cache
def _template() -> tuple[Template, str]:
    """The page's, and its style sheet: read and compiled once, though a daemon draws many pages."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    files = PackageLoader("cronhpc", "page")
    environment = Environment(
        loader=files,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["href"] = _href
    return environment.get_template("page.html.j2"), files.get_source(environment, "page.css")[0].strip()


# --- the head ------------------------------------------------------------------------------------------------------


def _head(status: Status, pasts: Mapping[str, Past], style: Style) -> Facts:
    facts = status.chain
    return {
        "owner": text.clean(status.owner),
        "cluster": text.clean(status.cluster) or status.batch.name,
        "directory": text.clean(status.directory),
        "written": style.whole(style.now),
        "version": status.cronhpc,
        "chain": {
            "kind": "ok" if facts.state == chain.State.FINE else "bad" if facts.state in chain.LOST else "other",
            "words": chain.words(facts, status.batch.name, style),
            "fix": facts.fix,
        },
        "start": command("start"),
        "sums": _sums(status, pasts),
    }


def _silent_from(facts: Chain, style: Style) -> str:
    """When this page is so old that its silence tells something: it cannot know its reader's clock."""
    if facts.state != chain.State.FINE or facts.last_tick is None:
        return ""
    return style.whole(chain.heard_until(facts, facts.last_tick))


def _sums(status: Status, pasts: Mapping[str, Past]) -> Facts:
    week = sum((past.week for past in pasts.values()), Counter())
    stopped = [entry for entry in status.entries if entry.switch or entry.suspended]
    return {
        "rate": _rate(week),
        "runs": f"{week['ok'] + week['bad']:,}",
        "failed": f"{week['bad']:,}",
        "stopped": len(stopped),
        "entries": len(status.entries),
    }


def _rate(counts: Mapping[str, int]) -> str:
    """Successes among what ended well or badly: killed, cancelled and skipped ones say nothing of the work."""
    judged = counts["ok"] + counts["bad"]
    if not judged:
        return "-"
    share = 100 * counts["ok"] / judged
    return "100 %" if counts["bad"] == 0 else f"{min(share, 99.9):.1f} %"


# --- the body ------------------------------------------------------------------------------------------------------


def _body(
    status: Status,
    pasts: Mapping[str, Past],
    slots: Mapping[str, Sequence[int]],
    tails: Mapping[str, str],
    style: Style,
) -> Facts:
    every: list[EntryStatus | DeletedEntry] = [*status.entries, *status.deleted]
    entries = [(entry, pasts.get(entry.name, Past())) for entry in every]
    entries.sort(key=lambda each: (_ORDER[_kind(*each)], each[0].name))
    hover = _EACH if sum(len(past.drawn) for past in pasts.values()) <= _MOST_EACH else _TOGETHER
    anchors = {entry_id(entry.name) for entry in every}
    failed = [runs.run_facts(row) for row in failures(pasts)]
    return {
        "attention": [_attention(row, anchors, style) for row in grouped(status.attention)],
        "anchors": anchors,
        "entries": [_row(entry, past, slots.get(entry.name, ()), hover, style) for entry, past in entries],
        "failed": {entry_id(run.entry) for run in failed},
        "failures": [_failure(run, tails, style) for run in failed],
        "axis": axis(style.now, style.zone),
        "width": WIDTH,
        "past": PAST,
    }


def _attention(notice: Notice, anchors: Container[str], style: Style) -> Facts:
    """`anchor`: where the page has more of it, "" where it is no entry's."""
    at, anchor = notice.at, entry_id(notice.name)
    return {
        "anchor": anchor if anchor in anchors else "",
        "name": text.name(notice.name),
        "what": notice.what,
        "when": f"{notice.when} {style.dated(at)}" if at is not None else "",
        "fix": notice.fix,
        "kind": "bad" if notice.kind in BAD else "other",
    }


def _href(log: str) -> str:
    """A log's address from a page in the cron directory: of an array its folder; "" where it is not in log/."""
    if not log.startswith("log/"):
        return ""
    return quote(log if "*" not in log else log.rpartition("/")[0] + "/")


def _row(entry: EntryStatus | DeletedEntry, past: Past, slots: Sequence[int], hover: Hover, style: Style) -> Facts:
    """What was, is, and is to come."""
    live = _live_runs(entry, style.now)
    drawn = [*past.drawn, *live]
    return {
        "anchor": entry_id(entry.name),
        "name": text.name(entry.name),
        "kind": _kind(entry, past),
        "paths": past_paths(drawn, style.now),
        "hover": [(*each.stretch, _tip(each.runs, hover, style)) for each in gathered(drawn, hover, style.now)],
        "rate": _rate(past.week),
        "judged": past.week["ok"] + past.week["bad"],
        "month_rate": _rate(past.month),
        "days": past.days[::-1],
        "waited": _spread(past.waited),
        "took": _spread(past.took),
        "runs": [_run_row(runs.run_facts(row), style) for row in past.newest],
        "source": "",
        "next_path": following(slots, style.now),
        **(_of_entry(entry, live, past, style) if isinstance(entry, EntryStatus) else _of_deleted(entry, live, past)),
    }


def _of_entry(entry: EntryStatus, live: Sequence[Run], past: Past, style: Style) -> Facts:
    last = _last(entry, past)
    blocked = screen.blocked(entry)
    upcoming, name = entry.next, text.name(entry.name)
    to_come = blocked or (style.clock(upcoming) if upcoming else "-")
    result = runs.result_words(last) if last else _at_work(live) if live else "not yet"
    return {
        "state": blocked or result,
        "why": _why(entry, style),
        "held": blocked != "",
        "next": to_come,
        "source": text.clean(entry.source),
        "schedule": text.one_line(entry.schedule or (entry.series.when if entry.series else "")),
        "timezone": entry.timezone if entry.schedule else "",
        "label": f"{name}: in the last 7 days {past.week['ok']} went well, {past.week['bad']} failed; next {to_come}",
    }


def _of_deleted(entry: DeletedEntry, live: Sequence[Run], past: Past) -> Facts:
    name, state = text.name(entry.name), f"deleted, {_at_work(live)}" if live else "deleted"
    return {
        "state": state,
        "why": "It was deleted; what runs of it goes on.",
        "held": False,
        "next": "-",
        "label": f"{name}: {state}; in the last 7 days {past.week['ok']} went well, {past.week['bad']} failed",
    }


def _live_runs(entry: EntryStatus | DeletedEntry, now: int) -> list[Run]:
    return [live for run in entry.runs if not run.ahead and (live := _live(run, now))]


def _at_work(live: Sequence[Run]) -> str:
    return "runs now" if live[0].started else "waits"


_ORDER = {"bad": 0, "stopped": 1, "other": 2, "ok": 3, "new": 4}


def _last(entry: EntryStatus, past: Past) -> HistoryRun | None:
    return entry.last or (runs.run_facts(past.newest[0]) if past.newest else None)


def _kind(entry: EntryStatus | DeletedEntry, past: Past) -> str:
    if isinstance(entry, DeletedEntry):
        return "other"
    last = _last(entry, past)
    if entry.switch or entry.suspended:
        return "stopped"
    if entry.problem or (last and last.result in FAILURES):
        return "bad"
    if not last:
        return "new"
    return "ok" if kind_of(last.result) is Kind.OK else "other"


def _why(entry: EntryStatus, style: Style) -> str:
    """What holds it back, in one sentence."""
    switch, problem = entry.switch, entry.problem
    if switch:
        since, reason = switch.since, text.one_line(switch.reason)
        when = f" since {style.dated(since)}" if since else ""
        return f"{switch_verb(switch)} by {text.one_line(switch.by)}{when}" + (f": “{reason}”" if reason else "")
    if entry.suspended:
        return f"suspended after {text.count(entry.failures, 'failure')} in a row"
    return text.one_line(problem.what) if problem else ""


def _live(run: LiveRun, now: int) -> Run | None:
    """An attempt that waits or runs just now."""
    ready, started = run.slot, run.started
    return Run(ready, started, now if started is None else None, Kind.LIVE, run) if ready and ready <= now else None


def _spread(seconds: Sequence[int]) -> Facts:
    """What is usual, and the most."""
    if not seconds:
        return {"usual": "-", "most": ""}
    usual, most = int(statistics.median(seconds)), max(seconds)
    return {"usual": times.took(usual), "most": times.took(most) if most > usual else ""}


def _run_row(run: HistoryRun, style: Style) -> Facts:
    return {
        "slot": style.at(run.slot),
        "kind": kind_of(run.result),
        "result": runs.result_words(run),
        "waited": times.took(run.waited),
        "took": times.took(run.took),
        "job": run.job or "-",
        "node": text.clean(run.node) or "-",
        "detail": text.one_line(run.detail),
        "log": text.clean(run.log),
    }


def _failure(run: HistoryRun, tails: Mapping[str, str], style: Style) -> Facts:
    return {
        **_run_row(run, style),
        "anchor": entry_id(run.entry),
        "name": text.name(run.entry),
        "when": style.dated(run.slot) if run.slot is not None else "",
        "tail": tails.get(run.log, ""),
        "command": command("logs", run.entry),
    }


# --- the past ---------------------------------------------------------------------------------------------------------
#
# One walk over history, newest first, to a digest of each entry.


MONTH = 30  # days that are looked back
_NEWEST = 6  # runs of an entry that are listed
_FAILURES = 30  # entries whose newest failure is shown with its log
_TAIL_LINES, _TAIL_CHARS = 40, 4000


@dataclass(slots=True)
class Past:
    """What history tells of one entry: its last 30 days."""

    drawn: list[Run] = field(default_factory=list)  # of the last 7 days
    results: Counter[str] = field(default_factory=Counter)  # of the last 30 days
    days: list[str] = field(default_factory=lambda: [""] * MONTH)  # the worst kind of each day, today first
    newest: list[HistoryRow] = field(default_factory=list)  # rows of history

    def add(self, row: HistoryRow, now: int) -> None:
        """One row of history; they come newest first. One that tells no time is passed over."""
        started, ended = row.get("started"), row.get("ended")
        ready = max(row.get("slot") or 0, row.get("submitted") or 0) or started or ended
        if not ready:
            return
        if len(self.newest) < _NEWEST:
            self.newest.append(row)
        day = (now - ready) // DAY
        if not 0 <= day < MONTH:
            return
        result = row.get("result", "")
        kind = kind_of(result)
        self.results[result] += 1
        if _RANK[kind] > _RANK[self.days[day]]:
            self.days[day] = kind
        if day < PAST_DAYS:
            self.drawn.append(Run(ready, started, ended, kind, row))

    @property
    def week(self) -> Counter[str]:
        """How many of each kind in the last 7 days."""
        return Counter(run.kind for run in self.drawn)

    @property
    def month(self) -> Counter[str]:
        """The same of the last 30 days."""
        return sum((Counter({kind_of(result): number}) for result, number in self.results.items()), Counter())

    @property
    def waited(self) -> list[int]:
        """Seconds that each run of the last 7 days waited."""
        return [max(run.started - run.ready, 0) for run in self.drawn if run.started is not None]

    @property
    def took(self) -> list[int]:
        """Seconds that each took."""
        times = ((run.started, run.ended) for run in self.drawn)
        return [max(ended - started, 0) for started, ended in times if started is not None and ended is not None]

    @property
    def failure(self) -> HistoryRow | None:
        """The newest of the last 7 days."""
        return next((run.facts for run in self.drawn if run.kind is Kind.BAD and isinstance(run.facts, dict)), None)


_RANK = {"": 0, "ok": 1, "other": 2, "bad": 3}


def digest(rows: Iterable[HistoryRow], now: int) -> dict[str, Past]:
    """The past of every entry, by name. `rows`: history, newest first; what is older than 30 days is not asked for."""
    pasts: defaultdict[str, Past] = defaultdict(Past)
    until = now - MONTH * DAY
    for row in rows:
        if row.get("at", until) < until:
            break
        if row.get("what") in {"run", "slot"}:
            pasts[row.get("entry", "")].add(row, now)
    return dict(pasts)


def failures(pasts: Mapping[str, Past]) -> list[HistoryRow]:
    """The newest failure of each entry, as rows of history, newest first: their logs' tails are wanted."""
    newest = [past.failure for past in pasts.values() if past.failure is not None]
    return sorted(newest, key=lambda row: row.get("at", 0), reverse=True)[:_FAILURES]


def tail(data: str) -> str:
    """The end of a log, harmless and not long."""
    lines = text.lines(data).rstrip("\n").split("\n")[-_TAIL_LINES:]
    kept = "\n".join(lines)
    return kept if len(kept) <= _TAIL_CHARS else "… " + kept[-_TAIL_CHARS:]


# --- the picture of an entry's week -----------------------------------------------------------------------------------
#
# Its week and its next day, drawn as a few paths: however many runs there were, the picture stays small. The line is
# `WIDTH` units long: the last 7 days in 10 minutes a unit, then the next 24 hours in 200 seconds a unit. What lies so
# close that it could not be told apart is drawn as one stroke; what went wrong is drawn last, over the rest.


PAST_DAYS = 7
PAST, FUTURE = 1008, 432  # units
WIDTH = PAST + FUTURE
MIDDLE = 11  # height of the line's centre, of 22


class Kind(StrEnum):
    """Of a run or a slot, in the order they are drawn."""

    WAIT = "wait"
    OK = "ok"
    OTHER = "other"
    LIVE = "live"
    BAD = "bad"


_LEAST = {"wait": 1, "ok": 4, "other": 5, "live": 5, "bad": 6, "next": 3}  # units: what is shorter could not be seen

Stretch = tuple[int, int]


class Run(NamedTuple):
    """A run or a slot as it is drawn; epoch seconds. `ready` is when it could have started."""

    ready: int
    started: int | None
    ended: int | None
    kind: Kind
    facts: HistoryRow | LiveRun | None = None  # a row of history, or of a live one its facts


class Scale(NamedTuple):
    """A part of the line: the seconds from `start` to `end` on `units`, from `offset` on."""

    start: int
    end: int
    units: int
    offset: int = 0


@cache
def kind_of(result: str) -> Kind:
    """ok, bad, or other: neither a success nor a failure of its own."""
    return Kind.OK if result == Result.OK else Kind.BAD if result in FAILURES else Kind.OTHER


def past_paths(runs: Iterable[Run], now: int) -> dict[str, str]:
    """The paths of the last 7 days by kind, those that hold anything."""
    scale = Scale(now - PAST_DAYS * DAY, now, PAST)
    stretches: dict[str, list[Stretch]] = {kind: [] for kind in Kind}
    for run in runs:
        begun = run.started if run.started is not None else run.ended or run.ready
        if begun > run.ready:
            stretches["wait"].append((run.ready, begun))
        if run.started is not None or run.kind is not Kind.LIVE:
            stretches[run.kind].append((begun, run.ended or (now if run.kind is Kind.LIVE else begun)))
    return {kind: path for kind in Kind if (path := _path(stretches[kind], scale, _LEAST[kind]))}


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
    strokes: list[Stretch] = []
    for begin, finish in sorted(stretches):
        if finish < start or begin > end:
            continue
        left = min(max(int((begin - start) / unit), 0), units - least)
        right = min(max(int((finish - start) / unit), left + least), units)
        if strokes and left <= strokes[-1][1]:
            strokes[-1] = (strokes[-1][0], max(right, strokes[-1][1]))
        else:
            strokes.append((left, right))
    return strokes


# What a pointer that rests on the line is told: each run in a line, of those side by side together.


class Hover(NamedTuple):
    """How fine it is: the units that are told together at least, and the most lines of one answer."""

    units: int
    lines: int


class Gathered(NamedTuple):
    """Runs that are told together, and where: units from and to."""

    stretch: Stretch
    runs: list[Run]


_EACH, _TOGETHER = Hover(10, 8), Hover(36, 2)
_MOST_EACH = 3000  # runs on a page, of which each has its line: a page stays below a megabyte


def gathered(runs: Iterable[Run], hover: Hover, now: int) -> list[Gathered]:
    """The runs of the last 7 days from left to right, in stretches that do not overlap."""
    lefts: list[int] = []
    rights: list[int] = []
    together: list[list[Run]] = []
    for run in sorted(runs, key=attrgetter("ready")):
        end = run.ended or (now if run.kind is Kind.LIVE else run.started or run.ready)
        if end < now - PAST_DAYS * DAY or run.ready > now:
            continue
        left = min(max(_unit(run.ready, now), 0), PAST - hover.units)
        right = min(max(_unit(end, now), left + hover.units), PAST)
        if lefts and left < lefts[-1] + hover.units:
            together[-1].append(run)
            rights[-1] = max(rights[-1], right)
            continue
        if lefts:
            rights[-1] = min(rights[-1], left)
        lefts.append(left)
        rights.append(right)
        together.append([run])
    return [*map(Gathered, zip(lefts, rights, strict=True), together)]


def _tip(together: Sequence[Run], hover: Hover, style: Style) -> str:
    """Its lines: each run, or of too many how they went, and the newest that failed."""
    if len(together) <= hover.lines:
        return "\n".join(_run_words(run, style) for run in together)
    bad, well = [run for run in together if run.kind is Kind.BAD], sum(run.kind is Kind.OK for run in together)
    span = f"{style.dated(together[0].ready)} to {style.clock(together[-1].ready)}"
    head = f"{span}: {len(together)} runs, {well} went well, {len(bad)} failed"
    return "\n".join([head, *(_run_words(run, style) for run in bad[-hover.lines + 1 :])])


def _run_words(run: Run, style: Style) -> str:
    """`today 04:00: failed (1), took 12s, waited 2m, job 4655, cpu2`."""
    facts = run.facts if isinstance(run.facts, LiveRun) else runs.run_facts(run.facts or {})
    if isinstance(facts, HistoryRun):
        result, took, waited = runs.result_words(facts), facts.took, facts.waited
    else:
        result = f"{'runs' if run.started else 'waits'} for {times.took(style.now - (run.started or run.ready))}"
        took = waited = None
    parts = {
        "took": times.took(took),
        "waited": times.took(waited),
        "attempt": str(facts.attempt) if facts.attempt > 1 else "-",
        "job": facts.job or "-",
        "on": text.clean(facts.node) or "-",
    }
    phrases = [result, *(f"{word} {value}" for word, value in parts.items() if value != "-")]
    return f"{style.dated(facts.slot or run.ready)}: {', '.join(phrases)}"


def axis(now: int, zone: tzinfo) -> Facts:
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


_WORTH_A_NAME = DAY * 9 // 10
_ROOM = DAY * 4 // 5  # beside the word "now"


def _day(at: int, zone: tzinfo) -> tuple[str, str]:
    moment = times.local(at, zone)
    return times.DAYS[moment.weekday()], str(moment.day)


def _apart(hours: list[tuple[int, str]], now: int) -> list[tuple[int, str]]:
    """Those that have room between "now" and the end of the line."""
    return [each for each in hours if DAY // 5 < each[0] - now < DAY * 9 // 10]


def _unit(at: int, now: int) -> int:
    if at <= now:
        return PAST - (now - at) * PAST // (PAST_DAYS * DAY)
    return PAST + (at - now) * FUTURE // DAY


def _percent(unit: float) -> str:
    return f"{100 * unit / WIDTH:.2f}%"
