"""`cronhpc guard -- COMMAND…`, inside a job."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.cli.common import directory
from cronhpc.core.model import CronhpcError
from cronhpc.inside import guard

if TYPE_CHECKING:
    import argparse

    from cronhpc.cli.door import Door
    from cronhpc.core.model import Settings

OF_TRAINS = True
HELP = f"""Run a command inside a job, and end it when a kill switch is set.
Its exit code is the command's, or {guard.STOPPED_EXIT} where a switch ended it or kept it from starting."""
EXAMPLE = """
cronhpc guard -- python train.py
cronhpc guard --kill-switch /proj/team/kill/training17 --grace 10m --signal USR1 -- python train.py
cronhpc guard --warn-before-end 10m --signal USR1 -- python train.py
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    guard.add_arguments(parser)


def run(args: argparse.Namespace, door: Door) -> int:
    """Where the settings can be read, names are looked for in `kill.also` and at a switch's `file:`, too."""
    with suppress(CronhpcError, OSError):
        args.dir = directory(args, door)
    settings = _settings(args, door)
    files = {row.name: str(Path(row.file).expanduser()) for row in settings.switches if row.file} if settings else {}
    return guard.run(args, settings.kill_also if settings else (), files)


def _settings(args: argparse.Namespace, door: Door) -> Settings | None:
    """Nothing that is wrong with a cron directory keeps a job's command from running."""
    from cronhpc.cli.common import paths_of, settings_or_default

    try:
        return settings_or_default(paths_of(args, door))
    except (CronhpcError, OSError):
        return None
