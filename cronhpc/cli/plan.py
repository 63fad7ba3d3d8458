"""`cronhpc plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.common import site_of

if TYPE_CHECKING:
    import argparse

    from cronhpc.cli.door import Door
    from cronhpc.core.model import World
    from cronhpc.site import Site

OF_TRAINS = True
HELP = "What the next tick would do, and why. Nothing is changed: these are the very decisions that a tick executes."
EXAMPLE = "cronhpc plan"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has none of its own."""


def run(args: argparse.Namespace, door: Door) -> int:
    """Exit code 1 if something was passed over, or the batch system does not answer."""
    from cronhpc.core.plan import plan
    from cronhpc.read import read_world
    from cronhpc.views import plan as view

    site = site_of(args, door)
    world = read_world(site, door.now).world
    known = view.facts(world, plan(world), world.skipped, _logs(site, world))
    if args.json:
        door.json(known)
    else:
        door.say(view.render(known, door.style(site.settings.timezone)))
    wrong = world.queue is None or world.skipped or any(entry.problem for entry in world.entries)
    return ATTENTION if wrong else FINE


def _logs(site: Site, world: World) -> dict[str, Any] | None:
    """What the tick's clean-up would do; None where it is not time for it, or nothing would go."""
    from cronhpc.core.held_logs import live_of
    from cronhpc.tend import tend

    cleaned = tend(
        site.paths, site.settings, world.now, live_of(world.queue, world.claims), site.batch.live_files, dry_run=True
    )
    if cleaned is None or not cleaned.removed:
        return None
    return {
        "remove": cleaned.removed,
        "keep": cleaned.kept,
        "bytes": cleaned.bytes,
        "reasons": dict(cleaned.reasons),
    }
