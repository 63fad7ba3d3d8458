"""The status screen: most important first, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.core import pieces
from cronhpc.core.model import Reason
from cronhpc.store.decode import LATEST
from cronhpc.views import chain, runs, text, times
from cronhpc.views.attention import done
from cronhpc.views.style import Cell, Column, Style, table, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cronhpc.views.facts import Chain, Cost, EntryStatus, LiveRun, Notice, Status

_ALL = ("--all",)
_HEADER = 80  # columns that the first line fills where there is no terminal
_FEW = 3  # hints shown one by one
_LEAST_ROWS = 5
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


def render(known: Status, style: Style, *, everything: bool = False, from_file: bool = False) -> str:
    """On a terminal only as much as fits, unless `everything`. `from_file`: it is a colleague's, as last written."""
    top = [_header(known, style, from_file=from_file), *([] if known.series_only else [_chain(known, style)])]
    if known.cost:
        top.append(_cost(known.cost))
    if from_file:
        top.append(_pale(known, style))
    attention = _attention(known.attention, style, everything=everything)
    hints = _hints(known, style)
    room = _room(style, len(top) + len(attention) + len(hints), everything=everything)
    return "\n".join([*top, *attention, *_entries(known.entries, style, room), *hints])


def _room(style: Style, taken: int, *, everything: bool) -> int:
    """Rows of the table that fit; 0: all."""
    if not style.height or everything:
        return 0
    return max(style.height - taken - 4, _LEAST_ROWS)  # its blank line and titles, "and 3 more", the prompt


def _header(known: Status, style: Style, *, from_file: bool) -> str:
    cluster = f" on cluster {text.clean(known.cluster)}" if known.cluster else ""
    owner = f"{text.clean(known.owner)}'s " if from_file and known.owner else ""
    left = f"{owner}{style.path(known.directory)}{cluster} ({known.batch.name})"
    right = style.whole(style.now)
    gap = (min(style.width, 120) or _HEADER) - text.width(left) - len(right)
    return style.paint(left, "bold") + " " * max(gap, 2) + style.paint(right, "dim")


def _pale(known: Status, style: Style) -> str:
    when = f"{style.said(known.now)} ({style.distance(known.now)})"
    return f"seen    as the owner's scheduler saw it {when}"


def _cost(cost: Cost) -> str:
    """What the scheduler itself took from the cluster."""
    return f"cost    {text.count(cost.jobs, 'job')}, {times.span(cost.cpu_seconds)} of CPU in {cost.days} days"


_CHAIN_COLOURS = {
    "fine": "green",
    "driven otherwise": "",
    "not needed yet": "",
    "silent": "red",
    "broken": "red",
    "moved": "red",
}


def _chain(known: Status, style: Style) -> str:
    facts = known.chain
    lines = wrap("".join(chain.words(facts, known.batch.name, style)), max(style.width - _CHAIN, 0))
    if facts.fix:
        fix = style.text(facts.fix)
        if style.width and _CHAIN + text.width(lines[-1]) + 2 + text.width(fix) > style.width:
            lines += [style.paint(line, "bold") for line in style.wrapped(facts.fix, style.width - _CHAIN)]
        else:
            lines[-1] += f"  {style.paint(fix, 'bold')}"
    state, colour = facts.state, _CHAIN_COLOURS.get(facts.state, "yellow")
    if colour:
        lines[0] = style.paint(state, colour) + lines[0][len(state) :]
    return "chain   " + ("\n" + " " * _CHAIN).join(lines)


# --- needs attention -----------------------------------------------------------------------------------------------


def _attention(rows: Sequence[Notice], style: Style, *, everything: bool) -> list[str]:
    if not rows:
        return []
    most = max(style.height // 3, _LEAST_ROWS) if style.height and not everything else len(rows)
    shown = rows[:most]
    names = min(max(text.width(text.name(row.name)) for row in shown), max(_NAME, style.width // 3))
    lines = ["", style.paint("needs attention", "bold")]
    whats = [_what(row, style) for row in shown]
    wide = _what_width(shown, whats, names, style)
    for row, what in zip(shown, whats, strict=True):
        lines += _attention_row(row, what, names, wide, style)
    left = len(rows) - len(shown)
    return [*lines, f"  and {left} more: {style.command('status', options=_ALL)}"] if left else lines


def _what(row: Notice, style: Style) -> str:
    at = row.at
    what = style.text(row.what)
    return f"{what}, {row.when} {style.said(at)}" if at is not None else what


def _what_width(rows: Sequence[Notice], whats: Sequence[str], names: int, style: Style) -> int:
    """How wide the middle column is: as the widest of those that leave room for their fix."""
    room = style.width - names - 4 if style.width else 0
    fixes = [text.width(style.text(row.fix)) for row in rows]
    fitting = [text.width(w) for w, m in zip(whats, fixes, strict=True) if not room or text.width(w) + 2 + m <= room]
    return min(max(fitting, default=0), 60)


def _attention_row(row: Notice, what: str, names: int, wide: int, style: Style) -> list[str]:
    name, fix = text.name(row.name), style.text(row.fix)
    name = text.shorten(name, names) if style.width else name
    first = f"  {style.paint(name, _colour(row))}{' ' * (names - text.width(name))}  "
    room = style.width - names - 4 if style.width else 0
    lead = " " * (names + 4)
    if not room or max(wide, text.width(what)) + 2 + text.width(fix) <= room:
        return [f"{first}{text.pad(what, wide)}  {style.paint(fix, 'bold')}".rstrip()]
    whats, fixes = wrap(what, room), style.wrapped(row.fix, room)
    return [
        first + whats[0],
        *(lead + line for line in whats[1:]),
        *(lead + style.paint(m, "bold") for m in fixes if m),
    ]


def _colour(row: Notice) -> str:
    return "yellow" if row.kind in {"warning", "note", "expired", "switch", "missed"} else "red"


# --- entries -------------------------------------------------------------------------------------------------------


def _entries(entries: Sequence[EntryStatus], style: Style, room: int) -> list[str]:
    if not entries:
        return []
    ordered = sorted(entries, key=_order)
    shown = ordered[:room] if room and len(ordered) > room else ordered
    rows = [_entry_cells(entry, style) for entry in shown]
    left = len(ordered) - len(shown)
    more = [style.paint(f"and {left} more, later: {style.command('status', options=_ALL)}", "dim")] if left else []
    return ["", *table(COLUMNS, rows, style), *more]


def _order(entry: EntryStatus) -> tuple[bool, int, str]:
    return blocked(entry) != "", entry.next or LATEST, entry.name


def blocked(entry: EntryStatus) -> str:
    """Why nothing is to come, in a word or two; "" where a slot is."""
    if entry.switch:
        return done(entry.switch)
    reason, series = entry.reason, entry.series
    if series and not series.going:
        return "resting" if series.resting else "ended"
    if series and series.resting:
        return "last piece"
    if reason in {Reason.STOPPED, Reason.SUSPENDED, Reason.INVALID, Reason.NOT_TRUSTED, Reason.NEVER}:
        return str(reason)
    return "" if entry.next or series else "-"


def _entry_cells(entry: EntryStatus, style: Style) -> list[Cell]:
    run = next((each for each in entry.runs if not each.ahead), None)
    last = entry.last
    name = text.name(entry.name)
    if run:
        return [name, _next(entry, style), style.at(run.slot), *_running(run, style), _streak(entry)]
    if not last:
        return [name, _next(entry, style), "-", ("not yet", "dim"), "-", "-", _streak(entry)]
    result = (runs.result_words(last), runs.result_colour(last.result))
    took, waited = times.took(last.took), times.took(last.waited)
    return [name, _next(entry, style), style.at(last.slot), result, took, waited, _streak(entry)]


def _running(run: LiveRun, style: Style) -> list[Cell]:
    """RESULT, TOOK, WAITED of a run that has not ended."""
    started, ready = run.started, run.ready
    if run.state in {"UNKNOWN", "ENDED"}:
        return [(run.state.lower(), "yellow"), "-", "-"]
    if started is None:
        waits = times.took(max(style.now - ready, 0)) if ready is not None else "-"
        return [("held" if run.held else "pending", "yellow"), "-", waits]
    waited = times.took(max(started - ready, 0)) if ready is not None else "-"
    return [(run.state.lower(), "blue"), times.took(style.now - started), waited]


def _next(entry: EntryStatus, style: Style) -> Cell:
    word = blocked(entry)
    if word:
        return word, "" if word == "-" else "yellow"
    at = entry.next
    if at is None:
        when = text.one_line(entry.series.when) if entry.series else "-"
        return "after this one" if when == pieces.AFTER else when
    if at <= style.now:
        return "due now", "blue"
    near = f" ({times.span(at - style.now)})" if at - style.now < _AHEAD else ""
    return style.clock(at) + near


def _streak(entry: EntryStatus) -> Cell:
    if entry.failures:
        return f"{entry.failures} failed", "red"
    return f"{entry.successes} ok" if entry.successes else "-"


# --- hints ---------------------------------------------------------------------------------------------------------


def _hints(known: Status, style: Style) -> list[str]:
    """What to do next, for those who have just begun."""
    if not known.entries:
        return ["", *_first_steps(known, style)]
    new = [e for e in known.entries if not (e.last or e.runs or blocked(e))]
    lines = [_new(entry, known.chain, style) for entry in sorted(new, key=_order)[:_FEW]]
    if len(new) > _FEW:
        lines.append(f"and {len(new) - _FEW} more have not run yet")
    by_login = known.chain.via == "login"
    ahead = [e for e in known.entries if not e.series and _comes_all_the_same(e, by_login=by_login)]
    lines += [
        f"{text.name(e.name)}: its next run is queued ahead, so overlap: {e.overlap} cannot hold it back"
        for e in ahead[:_FEW]
    ]
    return ["", *lines] if lines else []


def _comes_all_the_same(entry: EntryStatus, *, by_login: bool) -> bool:
    """Whether a run waits for its slot behind another that its policy would have it wait for."""
    runs = entry.runs
    if len(runs) <= 1 or not runs[-1].ahead:
        return False
    if by_login:  # a day's runs wait, so only behind one that lives
        return entry.overlap != "allow" and not runs[0].ahead
    return bool(entry.overlap == "skip")


def _new(entry: EntryStatus, chain: Chain, style: Style) -> str:
    at = entry.next
    due = f"next {style.clock(at)} ({style.distance(at)})" if at and at > style.now else "due now"
    look = chain.next.at if chain.next and not chain.by_daemon else None
    if at and look and at < look:
        due += f", but the scheduler looks at {style.clock(look)} first (sooner: {style.command('tick')})"
    return f"{text.name(entry.name)} has not run yet: {due}; now: {style.command('run', entry.name)}"


def _first_steps(known: Status, style: Style) -> list[str]:
    if known.series_only:
        more = style.command("again", options=("--help",))
        return [f"No job keeps itself going now. One line at the top of a script does it: {more}"]
    root = style.word(known.directory)
    start = [] if known.chain.wanted else [f"  {style.command('start'):<35}then it runs by itself"]
    return [
        "There are no entries yet. Put a batch script into a folder:",
        f"  cp job.slurm {root}/cron.daily/    or cron.hourly/, cron.weekly/, cron.monthly/",
        f"  {root}/cron.d/                     for scripts with a schedule of their own: #CRON 30 7 * * mon-fri",
        *start,
    ]
