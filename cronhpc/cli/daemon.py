"""`cronhpc daemon`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.cli import FINE
from cronhpc.cli.common import seconds_of, site_of

if TYPE_CHECKING:
    import argparse

    from cronhpc.cli.door import Door
    from cronhpc.tick import Report

HELP = (
    "Tick whenever a file changes, a slot is due or the interval is over: for tmux, a systemd user unit, a long job. "
    "SIGTERM ends it, SIGHUP makes it look again, and so does `cronhpc stop`."
)
EXAMPLE = """
cronhpc daemon                     # in tmux
cronhpc daemon --poll              # where events do not reach and the file system is not known for it
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    parser.add_argument("--poll", action="store_true", help="look at folders every few seconds instead of file events")
    parser.add_argument(
        "--for", dest="seconds", type=seconds_of, metavar="TIME", help="end after this long: 8h, or seconds"
    )
    parser.add_argument("--link", metavar="JOB", default="", help="the scheduler job that this runs in")
    parser.add_argument("--avoid", metavar="NODES", default="", help="nodes on which such jobs could not work")
    parser.add_argument("--doubt-clock", action="store_true", help="ask the batch system what time it is")


def run(args: argparse.Namespace, door: Door) -> int:
    """Exit code 0 when it was told to end."""
    from cronhpc.cli import log
    from cronhpc.core.chain import bad_nodes_of
    from cronhpc.daemon import Daemon

    def tell(said: Report | Exception) -> None:
        if isinstance(said, Exception):
            door.complain(str(said))
        elif log.worth_telling(said):
            log.report(said, args, door, said.world.settings.timezone)
        door.out.flush()  # whoever follows the log sees it when it happens

    daemon = Daemon(
        lambda: site_of(args, door),
        lambda: door.again().now,
        tell,
        link=args.link,
        bad_nodes=bad_nodes_of(args.avoid),
        seconds=args.seconds,
        poll=args.poll,
        doubt=args.doubt_clock,
    )
    daemon.run()
    return FINE
