"""`cronhpc stop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.common import site_of

if TYPE_CHECKING:
    import argparse

    from cronhpc.cli.door import Door

HELP = "Stop the scheduler, and keep it stopped. Jobs that run go on."
EXAMPLE = "cronhpc stop"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has none of its own."""


def run(args: argparse.Namespace, door: Door) -> int:
    """Exit code 1 if one of its jobs could not be cancelled."""
    from cronhpc.cli.chain_words import report
    from cronhpc.start import stop

    site = site_of(args, door)
    stopped = stop(site, door.environ, lambda: door.again().now)
    report(stopped, args, door, site.settings.timezone, undo="start")
    return FINE if stopped.ok else ATTENTION
