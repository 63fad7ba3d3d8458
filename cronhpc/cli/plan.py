"""`cronhpc plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.common import site_of

if TYPE_CHECKING:
    import argparse

    from cronhpc.cli.door import Door

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
    known = view.facts(world, plan(world), world.skipped)
    if args.json:
        door.json(known)
    else:
        door.say(view.render(known, door.style(site.settings.timezone)))
    wrong = world.queue is None or world.skipped or any(entry.problem for entry in world.entries)
    return ATTENTION if wrong else FINE
