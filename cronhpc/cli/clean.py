"""`cronhpc clean`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.common import is_mine, paths_of, site_of
from cronhpc.core.model import CronhpcError

if TYPE_CHECKING:
    import argparse

    from cronhpc.clean import Cleaned
    from cronhpc.cli.door import Door
    from cronhpc.core.model import Settings
    from cronhpc.site import Site

HELP = (
    "Remove old logs, as each tick does: those over a limit of `logs:` in the settings. Live runs' files and each "
    "entry's newest failed log stay; links are never followed."
)
EXAMPLE = """
cronhpc clean --dry-run
cronhpc clean
"""


class NotMineError(CronhpcError):
    """Another user's cron directory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    parser.add_argument("--dry-run", "-n", action="store_true", help="only say which would go, and why")
    parser.add_argument("--all", action="store_true", help="with --dry-run: name each file, however many")


def run(args: argparse.Namespace, door: Door) -> int:
    """Exit code 1 if something could not be looked at or removed."""
    from cronhpc.tend import tend
    from cronhpc.views import clean as view

    paths = paths_of(args, door)
    if not is_mine(paths):
        raise NotMineError(f"{paths.root} belongs to someone else: only its owner cleans its logs.")
    site = site_of(args, door)
    live, files = _live(site), site.batch.live_files
    cleaned = tend(paths, site.settings, door.now, live, files, most=sys.maxsize, always=True, dry_run=args.dry_run)
    if cleaned is None:  # never with `always`
        return FINE
    known = _facts(cleaned, site.settings, dry_run=args.dry_run)
    if args.json:
        door.json(known)
    else:
        door.say(view.render(known, door.style(site.settings.timezone), everything=args.all))
    return ATTENTION if cleaned.problems else FINE


def _live(site: Site) -> frozenset[str] | None:
    from cronhpc.batch.port import BatchError
    from cronhpc.core.held_logs import live_of
    from cronhpc.store.claims import Claims

    try:
        queue = site.batch.queue()
    except BatchError:
        return None
    return live_of(queue, Claims(site.paths.claims).read(frozenset()))


def _facts(cleaned: Cleaned, settings: Settings, *, dry_run: bool) -> dict[str, object]:
    from cronhpc.views import clean as view

    return view.facts(
        settings,
        dry_run=dry_run,
        kept=cleaned.kept,
        size=None if cleaned.unmeasured else cleaned.bytes,
        folders=cleaned.folders,
        files=cleaned.files,
        stays=cleaned.stays,
        left=cleaned.left,
        scarce=cleaned.scarce,
        problems=cleaned.problems,
    )
