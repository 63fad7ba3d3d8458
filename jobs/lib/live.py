"""Which files jobs write just now: no clean-up may take them."""

from __future__ import annotations

import contextlib
import glob
import math
import os
import re
from dataclasses import dataclass

import slurm_queue


@dataclass(frozen=True)
class Live:
    """What jobs in the queue write: files with a job's number in their name, and `files` by device and inode."""

    ids: frozenset[str] = frozenset()
    files: frozenset[tuple[int, int]] = frozenset()
    began: float = math.inf  # when the first of those that run began
    told: bool = True  # the queue tells their files; else each that was written since may be one

    def has(self, name: str, found: os.stat_result) -> bool:
        """Whether a file, of this name in its folder, may still be written to."""
        named = not self.ids.isdisjoint(re.findall(r"[0-9]+", name)) or (found.st_dev, found.st_ino) in self.files
        return named or (not self.told and found.st_mtime >= self.began)


def in_slurm() -> Live:
    """What jobs in Slurm's queue write, by numbers and by the files that they name. Raises Broken: nothing may go."""
    rows = slurm_queue.jobs()
    files = set()
    for path in (path for pattern in slurm_queue.outputs() for path in glob.iglob(pattern)):
        with contextlib.suppress(OSError):
            found = os.stat(path)
            files.add((found.st_dev, found.st_ino))
    ids = frozenset(number for row in rows for number in (row.number, row.id.partition("_")[0]))
    return Live(ids, frozenset(files), slurm_queue.first_began())


def elsewhere(rows: str) -> Live:
    """By a start (seconds since 1970) and an id a line, of the jobs that run: `running` of start.sh."""
    pairs = [row.split() for row in rows.splitlines()]
    began = min((int(start) for start, _ in pairs), default=math.inf) - slurm_queue.CLOCKS_APART
    return Live(frozenset(number for _, number in pairs), began=began, told=False)
