"""`cronhpc kill NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.cli.switching import add_set_arguments, set_one

if TYPE_CHECKING:
    import argparse

    from cronhpc.cli.door import Door

OF_TRAINS = True
HELP = "Stop jobs by a kill switch: what runs is cancelled, and nothing new is submitted while it stands."
EXAMPLE = """
cronhpc kill backup --reason "disk is full"
cronhpc kill 4711
cronhpc kill ALL --expires 2h
cronhpc kill train17 --dir /home/alice/cron     # a teammate's
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    add_set_arguments(parser)


def run(args: argparse.Namespace, door: Door) -> int:
    """It only writes a file: the owner's scheduler does the stopping."""
    return set_one(args, door, "kill")
