"""When entries, or any schedule, run next; with the clock changes on the way and what would hold a slot back."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from cronhpc.cron.schedule import Schedule, ScheduleError
from cronhpc.cron.values import dataclass
from cronhpc.cron.zones import zone_of
from cronhpc.store.decode import epoch, iso
from cronhpc.views import Facts, text, times
from cronhpc.views.style import Cell, Column, Style, table

if TYPE_CHECKING:
    from datetime import tzinfo


@dataclass(frozen=True, slots=True)
class Preview:
    """A schedule and whose it is; `held_back` says what would keep its slots from running."""

    name: str
    schedule: Schedule
    held_back: str = ""


def facts(previews: Sequence[Preview], after: int, number: int, *, in_words: bool = True) -> Facts:
    """The next `number` slots of all `previews` after `after`, and the clock changes among them.

    Without `in_words` schedules are not put into words, which takes long: a screen of many shows none.
    """
    slots = list(islice(heapq.merge(*(_slots(preview, after) for preview in previews)), number))
    until = slots[-1][0] if slots else after
    zones = {preview.schedule.zone.key for preview in previews}
    changes = {(change, zone) for zone in zones for change in _changes(previews, zone, after, until)}
    return {
        "after": iso(after),
        "entries": [_preview(preview, in_words=in_words) for preview in previews],
        "slots": [
            {"at": iso(at), "entry": name, "held_back": previews[index].held_back}
            for at, name, index in _named(slots, previews)
        ],
        "clock_changes": [
            {"at": iso(at), "timezone": zone, "before": before, "after": later}
            for (at, before, later), zone in sorted(changes)
        ],
    }


def _slots(preview: Preview, after: int) -> Iterator[tuple[int, str]]:
    try:
        while True:
            after = preview.schedule.next_epoch(after)
            yield after, preview.name
    except ScheduleError:  # the end of the calendar
        return


def _named(slots: Iterable[tuple[int, str]], previews: Sequence[Preview]) -> Iterator[tuple[int, str, int]]:
    place = {preview.name: index for index, preview in enumerate(previews)}
    return ((at, name, place[name]) for at, name in slots)


def _changes(previews: Sequence[Preview], zone: str, after: int, until: int) -> Iterator[tuple[int, int, int]]:
    schedule = next(preview.schedule for preview in previews if preview.schedule.zone.key == zone)
    return ((c[0], c[1], c[2]) for c in schedule.changes(after, until))


def _preview(preview: Preview, *, in_words: bool) -> Facts:
    schedule = preview.schedule
    return {
        "name": preview.name,
        "schedule": schedule.text,
        "canonical": schedule.canonical,
        "timezone": schedule.zone.key,
        "words": schedule.in_words() if in_words else "",
        "held_back": preview.held_back,
    }


# --- the screen ----------------------------------------------------------------------------------------------------


def render(known: Mapping[str, Any], style: Style) -> str:
    """A line a slot, earliest first."""
    entries = known["entries"]
    zone: tzinfo = style.zone
    lines = []
    if len(entries) == 1:
        zone = zone_of(entries[0]["timezone"])
        lines.append(_title(entries[0]))
    if not known["slots"]:
        return "\n".join([*lines, "nothing is to come"])
    return "\n".join([*lines, *_table(known, style, zone)])


def _title(entry: Mapping[str, Any]) -> str:
    who = f"{text.name(entry['name'])}: " if entry["name"] else ""
    held = f"\nheld back: {text.one_line(entry['held_back'])}" if entry["held_back"] else ""
    written = text.one_line(entry["schedule"])
    plain = "" if entry["canonical"] == written else f" = {entry['canonical']}"
    return f"{who}{written}{plain} ({entry['timezone']}): {lowered(entry['words'])}{held}"


def lowered(words: str) -> str:
    """A sentence's words, to go on with."""
    return words[:1].lower() + words[1:]


def _table(known: Mapping[str, Any], style: Style, zone: tzinfo) -> list[str]:
    single = len(known["entries"]) == 1
    foreign = single and zone != style.zone
    columns = [Column("AT"), Column("FROM NOW", optional=2)]
    columns += [Column("YOUR CLOCK", optional=3)] if foreign else []
    columns += [] if single else [Column("ENTRY", least=12, name=True)]
    columns += [Column("", optional=1)] if any(slot["held_back"] for slot in known["slots"]) and not single else []
    events = [(epoch(slot["at"]) or 0, 1, slot) for slot in known["slots"]]
    events += [(epoch(change["at"]) or 0, 0, change) for change in known["clock_changes"]]
    rows: list[list[Cell]] = []
    marks: list[tuple[int, str]] = []
    for at, kind, event in sorted(events, key=lambda each: each[:2]):
        if kind == 0:
            marks.append((len(rows), f"-- {': '.join(change_words(event, style))}"))
            continue
        row: list[Cell] = [times.whole(at, style.now, zone), style.distance(at)]
        row += [style.whole(at)] if foreign else []
        row += [] if single else [text.name(event["entry"])]
        if len(columns) > len(row):
            row.append((_held(event["held_back"]), "yellow"))
        rows.append(row)
    lines = table(columns, rows, style)
    for place, words in reversed(marks):
        lines.insert(place + 1, style.paint(words, "yellow"))
    return lines


def _held(why: str) -> str:
    return f"held back: {text.one_line(why)}" if why else ""


def change_words(change: Mapping[str, Any], style: Style) -> tuple[str, str]:
    """`Sun 29 Mar` and `the clocks go forward 1 h, 02:00 CET to 03:00 CEST (Europe/Paris)`."""
    at, zone = epoch(change["at"]) or 0, zone_of(change["timezone"])
    before, after = times.local(at - 1, zone), times.local(at, zone)
    wall = at + change["before"]
    old = f"{wall % times.DAY // times.HOUR:02d}:{wall % times.HOUR // times.MINUTE:02d}"
    jump = change["after"] - change["before"]
    way = "forward" if jump > 0 else "back"
    how_much = times.took(abs(jump))
    words = f"the clocks go {way} {how_much}, {old} {before:%Z} to {after:%H:%M} {after:%Z}"
    return times.day(at, style.now, zone), f"{words} ({change['timezone']})"
