"""`cronhpc tick`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, FINE, NO_ANSWER
from cronhpc.cli.common import site_of
from cronhpc.core.model import command

if TYPE_CHECKING:
    import argparse

    from cronhpc.cli.door import Door

OF_TRAINS = True
HELP = "One pass of the scheduler: read, plan, act, record. Its log is JSON lines, unless it is read on a terminal."
EXAMPLE = "cronhpc tick"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    parser.add_argument("--link", metavar="JOB", default="", help="the scheduler job that this runs in")
    parser.add_argument("--avoid", metavar="NODES", default="", help="nodes on which such jobs could not work")
    parser.add_argument("--doubt-clock", action="store_true", help="ask the batch system what time it is")


def run(args: argparse.Namespace, door: Door) -> int:
    """Exit code 1 if a person should look.

    A link is told where the batch system gave no answer: it looks again before it ends.
    """
    from cronhpc.cli import log
    from cronhpc.clock import reckoned
    from cronhpc.core.chain import bad_nodes_of
    from cronhpc.store.scheduler import is_stopped_login
    from cronhpc.tick import tick

    site = site_of(args, door)
    if not args.link and is_stopped_login(site.paths):
        if door.is_terminal:
            stopped = "stopped by " + command("stop") + ", so this tick does nothing; it goes on with: "
            door.say(stopped + command("start"))
        return FINE
    at = reckoned(site, door.now, doubt=args.doubt_clock)
    report = tick(site, at.now, link=args.link, sure=at.sure, bad_nodes=bad_nodes_of(args.avoid))
    log.report(report, args, door, site.settings.timezone)
    if args.link and report.away:
        return NO_ANSWER
    return ATTENTION if report.attention else FINE
