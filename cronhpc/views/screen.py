"""The status screen: most important first, on one screen."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from cronhpc.core.model import Instant, Overlap, Reason, Severity
from cronhpc.core.model.decode import LATEST
from cronhpc.cron.values import replace
from cronhpc.views import chain, runs, text, times
from cronhpc.views.attention import grouped, just_changed, switch_verb
from cronhpc.views.facts import Concern, Untold
from cronhpc.views.style import Cell, Column, Style, table, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cronhpc.views.facts import EntryStatus, HistoryRun, LiveRun, Notice, Status

_ALL = ("--all",)
_HEADER = 80  # columns that the first line fills where there is no terminal
_FEW = 3  # entries that a hint names
_LEAST_ROWS = 5
_TITLES = 2  # lines above the rows of a table, one of them empty
_NAME = 24
_CHAIN = 8  # columns of the label before the chain's words
_AHEAD = 100 * times.HOUR  # a next slot this near gets its distance, too

COLUMNS = (
    Column("ENTRY", least=12, name=True),
    Column("NEXT"),
    Column("LAST"),
    Column("RESULT", least=12),
    Column("TOOK", optional=2),
    Column("WAITED", optional=3),
    Column("STREAK", optional=1),
)


def render(
    status: Status, style: Style, *, everything: bool = False, from_file: bool = False, below: Sequence[str] = ()
) -> str:
    """On a terminal what fits its height, unless `everything`. `from_file`: it is a colleague's, as last written.

    What runs is shown first where the table is cut. `below`: more lines, that stand last.
    """
    rows, hints = _entry_rows(status, style), _hints(status, style)
    notices = status.attention if everything else grouped(status.attention)
    most, most_rows = len(notices), None
    if style.height and not everything:
        plain = replace(style, colour=False)  # colours take no room
        around = [*_top(status, plain, from_file=from_file), *below, ""]  # the prompt's line, too
        room = style.height - _line_count(around, style)
        if _line_count([*_attention(notices, plain, most), *_entries(rows, plain), *hints], style) > room:
            hints = hints if not rows else []  # the table says which entries have not run yet
            most, most_rows = _fitting(notices, rows, plain, room - _line_count(hints, style))
    middle = [*_attention(notices, style, most), *_entries(rows, style, most_rows), *hints]
    return "\n".join([*_top(status, style, from_file=from_file), *middle, *below])


def _top(status: Status, style: Style, *, from_file: bool) -> list[str]:
    top = [_header(status, style, from_file=from_file), *([] if status.series_only else [_chain(status, style)])]
    if status.cost:
        spent = f"{text.count(status.cost.jobs, 'job')}, {times.span(status.cost.cpu_seconds)} of CPU"
        top.append(f"cost    {spent} in {status.cost.days} days")  # what the scheduler itself took from the cluster
    if from_file:
        top.append(f"seen    as the owner's scheduler saw it {style.dated(status.now)} ({style.distance(status.now)})")
    return top


def _fitting(notices: Sequence[Notice], rows: Sequence[Row], plain: Style, room: int) -> tuple[int, int | None]:
    """Of both as many as fit in `room` lines (None: all): of the table at least what runs, or a few rows."""
    least = min(max(sum(row.runs for row in rows), _LEAST_ROWS) + 1, len(rows))  # how many are left out has a line, too
    for most in range(max(min(len(notices), room), 0), -1, -1):
        left = room - _line_count(_attention(notices, plain, most), plain) - _TITLES
        if left >= least or most <= 1:
            break
    return most, None if left >= len(rows) else max(left - 1, 1)


def _line_count(texts: Iterable[str], style: Style) -> int:
    """How many lines of the terminal they fill, without colours."""
    wide = style.width or sys.maxsize
    lines = (line for each in texts for line in each.split("\n"))
    return sum(max(-(-text.width(line) // wide), 1) for line in lines)


def _header(status: Status, style: Style, *, from_file: bool) -> str:
    cluster = f" on cluster {text.clean(status.cluster)}" if status.cluster else ""
    owner = f"{text.clean(status.owner)}'s " if from_file and status.owner else ""
    left = f"{owner}{style.path(status.directory)}{cluster} ({status.batch.name})"
    right = style.whole(style.now)
    gap = (min(style.width, 120) or _HEADER) - text.width(left) - len(right)
    return style.paint(left, "bold") + " " * max(gap, 2) + style.paint(right, "dim")


def _chain(status: Status, style: Style) -> str:
    facts = status.chain
    state, between, rest = chain.words(facts, status.batch.name, style)
    lines = wrap(between + rest, max(style.width - _CHAIN, 0), text.width(state))
    if facts.fix:
        fix = style.text(facts.fix)
        used = _CHAIN + text.width(lines[-1]) + (0 if lines[1:] else text.width(state))
        if style.width and used + 2 + text.width(fix) > style.width:
            lines += [style.paint(line, "bold") for line in style.wrapped(facts.fix, style.width - _CHAIN)]
        else:
            lines[-1] += f"  {style.paint(fix, 'bold')}"
    colour = "green" if facts.state == chain.State.FINE else "red" if facts.state in chain.LOST else "yellow"
    lines[0] = style.paint(state, "" if facts.state in chain.FINE - {chain.State.FINE} else colour) + lines[0]
    return "chain   " + ("\n" + " " * _CHAIN).join(lines)


# --- needs attention -----------------------------------------------------------------------------------------------


_MILD = frozenset({Concern.WARNING, Concern.NOTE, Concern.EXPIRED, Concern.SWITCH, Concern.MISSED})


def _attention(rows: Sequence[Notice], style: Style, most: int) -> list[str]:
    if not rows:
        return []
    listed = rows[:most]
    names = min(max((text.width(text.name(notice.name)) for notice in listed), default=0), max(_NAME, style.width // 3))
    lines = ["", style.paint("needs attention", "bold")]
    sentences = [_sentence(notice, style) for notice in listed]
    wide = _middle_width(listed, sentences, names, style)
    for notice, sentence in zip(listed, sentences, strict=True):
        lines += _attention_row(notice, sentence, names, wide, style)
    left = len(rows) - len(listed)
    return [*lines, f"  and {left} more: {style.command('status', options=_ALL)}"] if left else lines


def _sentence(notice: Notice, style: Style) -> str:
    at = notice.at
    sentence = style.text(notice.what)
    return f"{sentence}, {notice.when} {style.dated(at)}" if at is not None else sentence


def _middle_width(rows: Sequence[Notice], sentences: Sequence[str], names: int, style: Style) -> int:
    """How wide the middle column is: as the widest of those that leave room for their fix."""
    room = style.width - names - 4 if style.width else 0
    fixes = [text.width(style.text(notice.fix)) for notice in rows]
    fitting = [
        text.width(w) for w, m in zip(sentences, fixes, strict=True) if not room or text.width(w) + 2 + m <= room
    ]
    return min(max(fitting, default=0), 60)


def _attention_row(notice: Notice, sentence: str, names: int, wide: int, style: Style) -> list[str]:
    name, fix = text.name(notice.name), style.text(notice.fix)
    name = text.shorten(name, names) if style.width else name
    colour = "yellow" if notice.kind in _MILD else "red"
    first = f"  {style.paint(name, colour)}{' ' * (names - text.width(name))}  "
    room = style.width - names - 4 if style.width else 0
    lead = " " * (names + 4)
    if not room or max(wide, text.width(sentence)) + 2 + text.width(fix) <= room:
        return [f"{first}{text.pad(sentence, wide)}  {style.paint(fix, 'bold')}".rstrip()]
    sentence_lines, fix_lines = wrap(sentence, room), style.wrapped(notice.fix, room)
    return [
        first + sentence_lines[0],
        *(lead + line for line in sentence_lines[1:]),
        *(lead + style.paint(line, "bold") for line in fix_lines if line),
    ]


# --- entries -------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A row of the table; `runs`: one of its runs waits or runs now."""

    cells: list[Cell]
    runs: bool


def _entry_rows(status: Status, style: Style) -> list[Row]:
    """By what comes first; then what still runs though its entry was deleted."""
    about = "~" if status.batch.dialect.minutes else ""
    rows = [
        Row(_entry_cells(entry, style, status.now, about), any(not run.ahead for run in entry.runs))
        for entry in sorted(status.entries, key=_sort_key)
    ]
    deleted = [(each.name, run) for each in status.deleted for run in each.runs if not run.ahead]
    return rows + [
        Row(
            [text.name(name), ("deleted", "yellow"), style.at(run.slot), *_live_cells(run, status.now, about), "-"],
            runs=True,
        )
        for name, run in deleted
    ]


def _entries(rows: Sequence[Row], style: Style, most: int | None = None) -> list[str]:
    if not rows:
        return []
    if most is not None:
        rows = sorted(rows, key=lambda row: not row.runs)
    lines = table(COLUMNS, [row.cells for row in rows[:most]], style)
    hidden = rows[most:] if most is not None else []
    live = sum(row.runs for row in hidden)
    more = f"and {len(hidden)} more{f' ({live} of them run)' if live else ', later'}: "
    return ["", *lines, *([style.paint(more + style.command("status", options=_ALL), "dim")] if hidden else [])]


def _sort_key(entry: EntryStatus) -> tuple[bool, int, str]:
    return _has_no_next(entry), entry.next or LATEST, entry.name


def _has_no_next(entry: EntryStatus) -> bool:
    return blocked(entry) != "" or not (entry.next or entry.series)


def blocked(entry: EntryStatus) -> str:
    """Why nothing is to come, in a word or two; "" where nothing is in the way."""
    if entry.switch:
        return switch_verb(entry.switch)
    reason, series = entry.reason, entry.series
    if series and not series.going:
        return "stopped" if series.no_next else "ended"
    if series and series.no_next:
        return "last piece"
    if reason in {Reason.STOPPED, Reason.PAUSED, Reason.SUSPENDED, Reason.INVALID, Reason.NOT_TRUSTED}:
        return str(reason)
    return ""


def _entry_cells(entry: EntryStatus, style: Style, as_of: Instant, about: str) -> list[Cell]:
    live, last = [run for run in entry.runs if not run.ahead], entry.last
    first, streak = [text.name(entry.name), _next(entry, style)], _streak(entry)
    if run := _run_to_show(live, last):
        beside = sum(each.state == run.state for each in live)
        return [*first, style.at(run.slot), *_live_cells(run, as_of, about, beside), streak]
    if not last:
        return [*first, "-", ("not yet", "dim"), "-", "-", streak]
    result = (runs.result_words(last), runs.result_colour(last.result))
    return [*first, style.at(last.slot), result, times.took(last.took), times.took(last.waited), streak]


def _run_to_show(live: Sequence[LiveRun], last: HistoryRun | None) -> LiveRun | None:
    """What waits or runs; else the newest of those whose end is not known, unless that of a later one is."""
    for run in live:
        if not run.gone:
            return run
    newer = last is not None and live and last.slot is not None and last.slot > (live[-1].slot or 0)
    return live[-1] if live and not newer else None


def _live_cells(run: LiveRun, as_of: Instant, about: str, beside: int = 1) -> list[Cell]:
    """RESULT, TOOK, WAITED of a run that had not ended, `as_of` when (by another's file, that may be long ago).

    `about` stands before times that the batch system tells by the minute. `beside`: how many of its entry are so.
    """
    more = f" ({beside})" if beside > 1 else ""
    started, ready = run.started, run.ready
    if run.state in {Untold.UNKNOWN, Untold.ENDED, Untold.SUBMITTING}:
        return [(run.state.lower() + more, "yellow"), "-", "-"]
    if started is None:
        waits = times.took(max(as_of - ready, 0)) if ready is not None else "-"
        return [(("held" if run.held else "pending") + more, "yellow"), "-", waits]
    waited = about + times.took(max(started - ready, 0)) if ready is not None else "-"
    return [(run.state.lower() + more, "blue"), about + times.took(as_of - started), waited]


def _next(entry: EntryStatus, style: Style) -> Cell:
    if word := blocked(entry):
        return word, "yellow"
    at = entry.next
    if at is None:
        if not entry.series:
            return "-"
        return "after this one" if entry.series.after else text.one_line(entry.series.when)
    if at <= style.now:
        return "due now", "blue"
    near = f" ({times.span(at - style.now)})" if at - style.now < _AHEAD else ""
    return style.clock(at) + near


def _streak(entry: EntryStatus) -> Cell:
    if entry.failures:
        return f"{entry.failures} failed", "red"
    return f"{entry.successes} ok" if entry.successes else "-"


# --- hints ---------------------------------------------------------------------------------------------------------


def _hints(status: Status, style: Style) -> list[str]:
    """What to do next, for those who have just begun."""
    if not status.entries:
        return ["", *_first_steps(status, style)]
    new = [e for e in status.entries if not (e.last or e.runs or _has_no_next(e))]
    lines = [_new_entry_hint(entry, style) for entry in new] if len(new) == 1 else []
    if len(new) > 1:  # the table says which
        fit = [entry for entry in new if not any(note.severity is Severity.ERROR for note in entry.notes)]
        first = min(fit or new, key=_sort_key)
        lines.append(f"{len(new)} entries have not run yet; one now: {style.command('run', first.name)}")
    by_login = status.chain.via.runs_ahead
    ahead = [e for e in status.entries if not e.series and _starts_though_one_runs(e, by_login=by_login)]
    if fresh := [text.name(e.name) for e in status.entries if e.reason == Reason.JUST_CHANGED]:
        lines.append(f"{_named(fresh)}: {just_changed(status.now, style)}")
    if ahead:
        names = _named([text.name(e.name) for e in ahead])
        lines.append(f"{names}: the next run is already queued, and starts even if this one still runs")
    return ["", *lines] if lines else []


def _named(names: list[str]) -> str:
    """Entries of which the same is said; of many, how many more."""
    return text.listed(names if len(names) <= _FEW else [*names[: _FEW - 1], f"{len(names) - _FEW + 1} others"])


def _starts_though_one_runs(entry: EntryStatus, *, by_login: bool) -> bool:
    """Whether a run waits for its slot behind another that its policy would have it wait for."""
    runs = entry.runs
    if len(runs) <= 1 or not runs[-1].ahead:
        return False
    # From a login node a day's runs wait, so only behind one that lives.
    return entry.overlap != Overlap.ALLOW and not (by_login and runs[0].ahead)


def _new_entry_hint(entry: EntryStatus, style: Style) -> str:
    at = entry.next
    due = f"next {style.clock(at)} ({style.distance(at)})" if at and at > style.now else "due now"
    return f"{text.name(entry.name)} has not run yet: {due}; now: {style.command('run', entry.name)}"


def _first_steps(status: Status, style: Style) -> list[str]:
    if status.series_only:
        more = style.command("again", options=("--help",))
        return [f"No job keeps itself going now. One line at the top of a script does it: {more}"]
    root = style.word(status.directory)
    start = [] if status.chain.wanted else [f"  {style.command('start')}  then it runs by itself"]
    return [
        f"There are no entries{'' if status.deleted else ' yet'}. Put a batch script into a folder:",
        f"  cp job.slurm {root}/cron.daily/",
        "    or into cron.hourly/, cron.weekly/, cron.monthly/; into cron.d/ one with a",
        "    schedule of its own, a line such as #CRON 30 7 * * mon-fri",
        *start,
    ]
