"""When entries, or any schedule, run next; with the clock changes on the way and what would hold a slot back."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter

from cronhpc.core.model import Instant
from cronhpc.cron.schedule import Schedule, ScheduleError
from cronhpc.cron.values import dataclass, replace
from cronhpc.cron.zones import zone_of
from cronhpc.views import text, times
from cronhpc.views.style import Cell, Column, Style, table, wrap


@dataclass(frozen=True, slots=True)
class Preview:
    """A schedule and whose it is; `held_back` says what would keep its slots from running."""

    name: str
    schedule: Schedule
    held_back: str = ""


@dataclass(frozen=True, slots=True)
class Described:
    """A schedule as it is printed; its words are left out where they would not be."""

    name: str
    schedule: str
    canonical: str
    timezone: str
    words: str
    held_back: str


@dataclass(frozen=True, slots=True)
class SlotToCome:
    """A slot, whose it is, and what would keep it from running."""

    at: Instant
    entry: str
    held_back: str


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A change of the clocks in a zone: its offsets from UTC before and after, in seconds."""

    at: Instant
    timezone: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Next:
    """The slots after an instant, earliest first, and the clock changes among them."""

    after: Instant
    entries: tuple[Described, ...]
    slots: tuple[SlotToCome, ...]
    clock_changes: tuple[ClockChange, ...]


def facts(previews: Sequence[Preview], after: int, number: int, *, in_words: bool = True) -> Next:
    """The next `number` slots of all `previews` after `after`, and the clock changes among them.

    Without `in_words` schedules are not put into words, which takes long: a screen of many shows none.
    """
    in_order = heapq.merge(*(_slots(preview, after) for preview in previews), key=attrgetter("at", "entry"))
    slots = tuple(islice(in_order, number))
    until = slots[-1].at if slots else after
    zones = {preview.schedule.zone.key: preview.schedule for preview in reversed(previews)}
    changes = [change for schedule in zones.values() for change in clock_changes(schedule, after, until)]
    return Next(
        after=after,
        entries=tuple(_described(preview, in_words=in_words) for preview in previews),
        slots=slots,
        clock_changes=tuple(sorted(changes, key=lambda each: (each.at, each.before, each.after, each.timezone))),
    )


def _slots(preview: Preview, after: int) -> Iterator[SlotToCome]:
    try:
        while True:
            after = preview.schedule.next_epoch(after)
            yield SlotToCome(after, preview.name, preview.held_back)
    except ScheduleError:  # the end of the calendar
        return


def clock_changes(schedule: Schedule, after: int, until: int) -> Iterator[ClockChange]:
    """Those of the schedule's zone."""
    for at, before, later in schedule.changes(after, until):
        yield ClockChange(at, schedule.zone.key, before, later)


def _described(preview: Preview, *, in_words: bool) -> Described:
    schedule = preview.schedule
    words = schedule.in_words() if in_words else ""
    return Described(
        preview.name, schedule.text, schedule.canonical, schedule.zone.key, words, held_back=preview.held_back
    )


# --- the screen ----------------------------------------------------------------------------------------------------


def render(upcoming: Next, style: Style) -> str:
    """A line a slot, earliest first."""
    by_its_clock = style
    lines = []
    if len(upcoming.entries) == 1:
        by_its_clock = replace(style, zone=zone_of(upcoming.entries[0].timezone))
        lines += wrap(_title(upcoming.entries[0]), style.width)
    if not upcoming.slots:
        return "\n".join([*lines, "nothing is to come"])
    return "\n".join([*lines, *_table(upcoming, style, by_its_clock)])


def _title(entry: Described) -> str:
    who = f"{text.name(entry.name)}: " if entry.name else ""
    held = f"\nheld back: {text.one_line(entry.held_back)}" if entry.held_back else ""
    written = text.one_line(entry.schedule)
    plain = "" if entry.canonical == written else f" = {entry.canonical}"
    return f"{who}{written}{plain} ({entry.timezone}): {lowered(entry.words)}{held}"


def lowered(words: str) -> str:
    """A sentence's words, to go on with."""
    return words[:1].lower() + words[1:]


def _table(upcoming: Next, style: Style, by_its_clock: Style) -> list[str]:
    """`by_its_clock`: the clock of the one schedule that was asked for."""
    single = len(upcoming.entries) == 1
    foreign = single and by_its_clock.zone != style.zone
    columns = [Column("AT"), Column("FROM NOW", optional=2)]
    columns += [Column("YOUR CLOCK", optional=3)] if foreign else []
    columns += [] if single else [Column("ENTRY", least=12, name=True)]
    columns += [Column("", optional=1)] if any(slot.held_back for slot in upcoming.slots) and not single else []
    rows: list[list[Cell]] = []
    for slot in upcoming.slots:
        row: list[Cell] = [by_its_clock.whole(slot.at), style.distance(slot.at)]
        row += [style.whole(slot.at)] if foreign else []
        row += [] if single else [text.name(slot.entry)]
        if len(columns) > len(row):
            row.append((f"held back: {text.one_line(slot.held_back)}" if slot.held_back else "", "yellow"))
        rows.append(row)
    lines = table(columns, rows, style)
    for change in reversed(upcoming.clock_changes):
        place = sum(slot.at < change.at for slot in upcoming.slots)
        lines.insert(place + 1, style.paint(f"-- {': '.join(change_words(change, style))}", "yellow"))
    return lines


def change_words(change: ClockChange, style: Style) -> tuple[str, str]:
    """`Sun 29 Mar` and `the clocks go forward 1 h, 02:00 CET to 03:00 CEST (Europe/Paris)`."""
    at, zone = change.at, zone_of(change.timezone)
    before, after = times.local(at - 1, zone), times.local(at, zone)
    wall = at + change.before
    old = f"{wall % times.DAY // times.HOUR:02d}:{wall % times.HOUR // times.MINUTE:02d}"
    jump = change.after - change.before
    way = "forward" if jump > 0 else "back"
    words = f"the clocks go {way} {times.took(abs(jump))}, {old} {before:%Z} to {after:%H:%M} {after:%Z}"
    return replace(style, zone=zone).day(at), f"{words} ({change.timezone})"
