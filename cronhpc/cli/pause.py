"""`cronhpc pause NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.cli.switching import add_set_arguments, set_one

if TYPE_CHECKING:
    import argparse

    from cronhpc.cli.door import Door

OF_TRAINS = True
HELP = "Hold jobs: pending ones wait with their ids, and nothing new is submitted, until cronhpc resume."
EXAMPLE = """
cronhpc pause backup --reason "until the new disk is in"
cronhpc pause ALL --expires 2h
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    add_set_arguments(parser)


def run(args: argparse.Namespace, door: Door) -> int:
    """It only writes a file: the owner's scheduler does the holding."""
    return set_one(args, door, "pause")
