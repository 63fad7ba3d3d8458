"""`cronhpc unkill NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.switching import lifted, unset_one

if TYPE_CHECKING:
    import argparse

    from cronhpc.cli.door import Door

OF_TRAINS = True
HELP = "Lift a kill switch. What it stopped stays stopped; its next slots run again."
EXAMPLE = "cronhpc unkill backup"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    parser.add_argument("name", metavar="NAME", help="the switch, as cronhpc status has it")


def run(args: argparse.Namespace, door: Door) -> int:
    """Exit code 1 if there was none, or if a team's still stands."""
    removed, left = unset_one(args, door, "kill")
    if args.json:
        door.json({"switch": args.name, "removed": removed, "still_stands": left})
    else:
        door.say(lifted(args, door, "kill", removed=removed, left=left, more=[]))
    return FINE if removed and not left else ATTENTION
