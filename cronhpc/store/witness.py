"""What the names of logs say, where state/ has forgotten what ran: it was brought back from an older copy, say."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING

from cronhpc.core.model import entry_id, slot_of
from cronhpc.store.files import read_json
from cronhpc.store.scheduler import expected

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cronhpc.core.model import Entry
    from cronhpc.store.paths import Paths


def is_older(paths: Paths, last_tick: int, heard_until: int) -> bool:
    """Whether a tick has been that state/ does not know, which remembers one at `last_tick` as the newest.

    One stat while all is well: `heard_until` is what that tick has noted (store/scheduler.py: expect).
    """
    from cronhpc.core.model import StateError

    noted = expected(paths)
    if noted is None or noted[1] <= heard_until:
        return False
    try:
        chain = (read_json(paths.status, 1) or {}).get("chain")
        seen = datetime.fromisoformat(str(chain["last_tick"])) if isinstance(chain, dict) else None
    except (StateError, OSError, KeyError, ValueError):
        return False
    return seen is not None and seen.tzinfo is not None and int(seen.timestamp()) > last_tick


def logged(paths: Paths, entries: Iterable[Entry]) -> Mapping[str, Mapping[int, int]]:
    """Entry id to slot to the number of jobs that have left a log of it; a log's name is SLOT-JOBID.out.

    Scripts that name their logs themselves leave no such witness. A folder that cannot be listed says nothing.
    """
    found: dict[str, dict[int, int]] = {}
    for entry in entries:
        name = entry_id(entry.name)
        try:
            logs = os.listdir(paths.log / name)
        except OSError:
            continue
        jobs: dict[int, set[str]] = {}
        for log in logs:
            slot, dash, rest = log.partition("-")
            try:
                at = slot_of(slot)
            except ValueError:
                continue
            if dash:
                jobs.setdefault(at, set()).add(rest.partition(".")[0].partition("_")[0])
        found[name] = {slot: len(ids) for slot, ids in jobs.items()}
    return found
