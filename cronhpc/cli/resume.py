"""`cronhpc resume NAME`."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.common import is_mine, paths_of, written_status
from cronhpc.cli.switching import lifted, unset_one

if TYPE_CHECKING:
    import argparse

    from cronhpc.cli.door import Door
    from cronhpc.store.paths import Paths

OF_TRAINS = True
HELP = "Lift a pause, or a suspension after failures."
EXAMPLE = "cronhpc resume backup"
_PATIENCE = 20.0  # seconds that a tick at work is waited for


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    parser.add_argument("name", metavar="NAME", help="an entry, or a pause switch as cronhpc status has it")


def run(args: argparse.Namespace, door: Door) -> int:
    """Exit code 1 if nothing held it."""
    paths = paths_of(args, door)
    removed, left = unset_one(args, door, "pause")
    suspended = is_mine(paths) and _lift_suspension(paths, args.name)
    if args.json:
        door.json({"switch": args.name, "removed": removed, "suspension_lifted": suspended, "still_stands": left})
    else:
        more = (
            ["its suspension is lifted, and its failures are counted anew"] if suspended else _owners(paths, args.name)
        )
        door.say(lifted(args, door, "pause", removed=removed, left=left, more=more))
    return FINE if removed or suspended else ATTENTION


def _owners(paths: Paths, name: str) -> list[str]:
    """A suspension is its owner's to lift: whoever may write switches can stop jobs, and start none."""
    known = None if is_mine(paths) else written_status(paths)
    row = next((entry for entry in known["entries"] if entry["name"] == name), None) if known else None
    if not known or not row or not row["suspended"]:
        return []
    return [f"it is suspended after failures, which {known['owner']} alone can lift, with the same command"]


def _lift_suspension(paths: Paths, name: str) -> bool:
    """Under the lease, so that no tick that began before writes the suspension back. Raises StateError, OSError."""
    from cronhpc.store import lease, memory

    state = memory.load(paths.entries).entries.get(name)
    if state is None or state.suspended is None:
        return False
    me = lease.myself(os.uname().nodename, "", "")
    place = paths.state / "lease"
    until = time.monotonic() + _PATIENCE
    while (holder := lease.take(place, me, lambda _: False)) is not None and time.monotonic() < until:
        time.sleep(0.1)
    try:
        known = memory.load(paths.entries)
        known.entries[name] = replace(known.entries[name], suspended=None, failures=0)
        memory.save(paths.entries, known)
    finally:
        if holder is None:
            lease.give_back(place, me)
    return True
