"""`cronhpc next [NAME]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.cli import FINE
from cronhpc.cli.commands import UsageError
from cronhpc.cli.common import count_of, instant_of, no_such, site_of

if TYPE_CHECKING:
    import argparse
    from zoneinfo import ZoneInfo

    from cronhpc.cli.door import Door
    from cronhpc.core.model import World
    from cronhpc.site import Site
    from cronhpc.views.next import Preview

HELP = "When entries run next, or when any schedule would; with the clock changes on the way."
EXAMPLE = """
cronhpc next
cronhpc next backup -n 3
cronhpc next --schedule "30 2 * * *" --timezone Europe/Paris --after 2026-10-24
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="an entry (else all)")
    parser.add_argument("--schedule", metavar="CRON", help="any schedule, instead of an entry's")
    parser.add_argument("--timezone", metavar="ZONE", help="the schedule's zone (else the settings', yours)")
    parser.add_argument("--after", metavar="TIME", help="slots after this time (else now): 2026-10-25T01:00, or 2d")
    parser.add_argument("-n", dest="number", type=count_of, default=10, metavar="N", help="how many (else 10)")


def run(args: argparse.Namespace, door: Door) -> int:
    """Exit code 2 for a schedule that cannot be used."""
    from cronhpc.views import next as view

    if args.schedule is not None:
        previews, zone_key = _any(args, door)
    elif args.timezone is not None:
        raise UsageError("cronhpc next: --timezone goes with --schedule. An entry's zone stands in its #CRON line.")
    else:
        previews, zone_key = _entries(args, door)
    after = door.now if args.after is None else instant_of(args.after, door, args.timezone or zone_key)
    known = view.facts(previews, after, args.number)
    if args.json:
        door.json(known)
    else:
        door.say(view.render(known, door.style(zone_key)))
    return FINE


def _any(args: argparse.Namespace, door: Door) -> tuple[list[Preview], str]:
    """A schedule needs no cron directory; where there is one its zone counts."""
    from cronhpc.core.schedule import parse
    from cronhpc.views.next import Preview

    if args.name is not None:
        raise UsageError("cronhpc next: either NAME or --schedule.")
    key = _settings_zone(args, door)
    return [Preview("", parse(args.schedule, _zone(args.timezone or key, door)))], key


def _settings_zone(args: argparse.Namespace, door: Door) -> str:
    from cronhpc.cli.common import paths_of, settings_or_default
    from cronhpc.store.paths import DirectoryError

    try:
        return settings_or_default(paths_of(args, door)).timezone
    except DirectoryError:
        if args.dir:
            raise
        return ""


def _zone(key: str, door: Door) -> ZoneInfo:
    from zoneinfo import ZoneInfo

    from cronhpc.core.policy import parse_policies
    from cronhpc.core.zones import zone_of

    if not key:
        zone = door.zone()
        return zone if isinstance(zone, ZoneInfo) and zone.key else ZoneInfo("UTC")
    _, problems = parse_policies([("timezone", key, 0)])
    if problems:
        raise UsageError(f"cronhpc next: {problems[0].what} " + problems[0].mend)
    return zone_of(key.strip())


def _world(site: Site, now: int) -> World:
    """What decides about slots: entries, their state, switches. The queue is not asked: it may not answer."""
    from cronhpc.core.model import World
    from cronhpc.read import switches_now
    from cronhpc.read_entries import read_entries
    from cronhpc.store import memory

    entries, states = read_entries(site, now, []), memory.load(site.paths.entries).entries
    return World(now, "", site.settings, entries, states=states, **switches_now(site, now))


def _entries(args: argparse.Namespace, door: Door) -> tuple[list[Preview], str]:
    from cronhpc.core import slots, stop
    from cronhpc.core.model import EntryState
    from cronhpc.views.next import Preview

    site = site_of(args, door)
    world = _world(site, door.now)
    chosen = [entry for entry in world.entries if args.name in {None, entry.name}]
    if args.name is not None and not chosen:
        raise no_such("entry", args.name, (entry.name for entry in world.entries))
    previews = []
    for entry in chosen:
        switch = stop.switch_on(world, entry)
        held = ""
        if switch:
            held = f"{switch.kind}/{switch.name}, by {switch.by}"
        elif entry.problem:
            held = door.text(f"{entry.problem.what} " + entry.problem.mend)
        elif world.states.get(entry.name, EntryState()).suspended:
            held = "suspended"
        if entry.schedule:
            previews.append(Preview(entry.name, slots.schedule_of(entry), held))
    return previews, site.settings.timezone
