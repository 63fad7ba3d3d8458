"""`cronhpc page`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.cli import FINE
from cronhpc.cli.common import is_mine, paths_of, settings_or_default
from cronhpc.core.model import CronhpcError

if TYPE_CHECKING:
    import argparse

    from cronhpc.cli.door import Door

OF_TRAINS = True
HELP = (
    "Write one HTML page of it all: the last 7 days, the next 24 hours, failures with the end of their logs. "
    "It is one file, needs no server, fetches nothing and runs no script. After each tick: `page:` in cronhpc.yaml."
)
EXAMPLE = """
cronhpc page                          # page.html in the cron directory
cronhpc page --out ~/public_html/cron.html
cronhpc page --out - | less
"""


class NotMineError(CronhpcError):
    """A colleague's cron directory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    parser.add_argument("--out", metavar="FILE", help="where to; - prints it (else `page:` of the settings, page.html)")


def run(args: argparse.Namespace, door: Door) -> int:
    """Write it."""
    from cronhpc import page
    from cronhpc.cli import status

    paths = paths_of(args, door)
    if not is_mine(paths):
        raise NotMineError(f"{paths.root} belongs to someone else: only its owner can read history and logs.")
    settings = settings_or_default(paths)
    args.name = None
    text = page.drawn(paths, status.facts(args, door), door.style(settings.timezone))
    if args.out == "-":
        door.out.write(text)
        return FINE
    if args.out and not Path(args.out).expanduser().parent.is_dir():
        folder = shlex.quote(str(Path(args.out).expanduser().parent))
        raise CronhpcError(f"{args.out}: its folder is not there. mkdir -p {folder}")
    path = Path(args.out).expanduser() if args.out else page.place(paths, settings.page or "page.html")
    page.write(path, text)
    if args.json:
        door.json({"page": str(path), "bytes": len(text.encode())})
    else:
        from cronhpc.views.text import size

        door.say(
            f"{door.style().path(str(path))}: {size(len(text.encode()))}; open it in a browser, or copy it anywhere"
        )
    return FINE
