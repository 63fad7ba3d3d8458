"""The queue as the ready-made jobs read it: whole names, whole reasons, and a failed question is never "no jobs"."""

from __future__ import annotations

import fnmatch
import glob
import grp
import math
import os
import pwd
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import shelf
from shelf import Broken

_COLUMNS = ("%A", "%i", "%T", "%r", "%u", "%V", "%k", "%o", "%j")  # no widths: a width cuts names
_FIELD, _ROW = "\x1f", "\x1e"

# JobHeldUser, JobHeldAdmin, JobHoldMaxRequeue, launch failed requeued held, job requeued in held state, …
_HELD = re.compile(r"JobHeld|JobHold|\bheld\b")
_NEVER = frozenset(
    {"PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints", "AccountNotAllowed", "InvalidAccount", "InvalidQOS"}
    | {"QOSNotAllowed", "AssocMaxWallDurationPerJobLimit", "QOSMaxWallDurationPerJobLimit"}
)
RUNNING, PENDING, HELD = "running", "pending", "held"
DEPENDENCY, NEVER, GONE = "dependency never satisfied", "can never start", "gone"
STANDINGS = (RUNNING, PENDING, HELD, DEPENDENCY, NEVER, GONE)  # the best first
_ENDED = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
    | {"REVOKED"}
)


@dataclass(frozen=True)
class Job:
    """A job, or a part of an array, in the queue. `number` is its id without the array's task."""

    number: str
    id: str
    state: str
    reason: str
    user: str
    submitted: str
    comment: str
    command: str
    name: str

    @property
    def stands(self) -> str:
        """Whether it runs (or is on its way in or out), can start (PENDING), cannot, and why, or has ended."""
        if self.state in {"REQUEUE_HOLD", "SPECIAL_EXIT"}:
            return HELD
        if self.state != "PENDING":
            return GONE if self.state in _ENDED else RUNNING
        if _HELD.search(self.reason):
            return HELD
        if self.reason == "DependencyNeverSatisfied":
            return DEPENDENCY
        return NEVER if self.reason in _NEVER else PENDING

    def __str__(self) -> str:
        reason = "" if self.reason in {"None", ""} or self.stands == RUNNING else f", {self.reason}"
        return f"job {self.id} {shelf.shown(self.name)} ({self.state.lower()}{reason})"


def jobs(users: Sequence[str] = ()) -> list[Job]:
    """All jobs of these users, or of this one, in the queue. Raises Broken: then nothing is known about them."""
    return parse(_squeue("-o", _ROW + _FIELD.join(_COLUMNS), "-u", ",".join(users) or str(os.getuid())))


_NOBODY = "Invalid user: "  # squeue's word for a name that is nobody's; it exits 0, with the rows of the others


def _squeue(*words: str) -> str:
    answer = shelf.ask(["squeue", "-h", *words], timeout=120)
    if answer.code or _NOBODY in answer.err:
        raise Broken(f"the queue is unknown: {answer.said}")
    return answer.out


CLOCKS_APART = 1800  # seconds that the clocks of a cluster, and of its disks, may differ by


def first_began() -> float:
    """When the first of one's jobs that run began, by the slowest clock; infinity where none runs. Raises Broken."""
    running = "--states=running,suspended,completing,stopped,signaling,stage_out"
    starts = _squeue("-u", str(os.getuid()), running, "-o", "%S").split()
    return min(map(int, filter(str.isdecimal, starts)), default=math.inf) - CLOCKS_APART


_OUTPUTS = ("JobID", "ArrayJobID", "WorkDir", "StdOut", "StdErr")
_PATTERN = re.compile(r"%[0-9]*([a-zA-Z%])")


def outputs() -> set[str]:
    """Glob patterns of the files that one's jobs in the queue write or will append to. Raises Broken."""
    fields = ",".join(f"{name}:{_FIELD}" for name in _OUTPUTS)
    cells = _squeue("-u", str(os.getuid()), "-O", fields).split(_FIELD)
    if len(cells) % len(_OUTPUTS) != 1:
        raise Broken(f"the queue is unknown: squeue told {len(cells)} cells")
    found = set()
    for start in range(0, len(cells) - 1, len(_OUTPUTS)):
        number, array, folder, *paths = (cell.lstrip("\n") for cell in cells[start : start + len(_OUTPUTS)])
        known = {"j": number, "J": number, "A": array, "%": "%"}
        found |= {_globbed(os.path.join(folder, path), known) for path in paths}
    return found


def _globbed(path: str, known: Mapping[str, str]) -> str:
    """What only the start decides (a node, a task) is `*`."""
    text, at = "", 0
    for match in _PATTERN.finditer(path):
        text += glob.escape(path[at : match.start()]) + known.get(match[1], "*")
        at = match.end()
    return text + glob.escape(path[at:])


def parse(text: str) -> list[Job]:
    """The rows of squeue; a name may hold anything, a line end included."""
    rows = (row.rstrip("\n").split(_FIELD, len(_COLUMNS) - 1) for row in text.split(_ROW)[1:])
    return [Job(*cells) for cells in rows if len(cells) == len(_COLUMNS)]


def without_own(rows: Sequence[Job], environ: Mapping[str, str]) -> list[Job]:
    """The queue less the job that asks, and less other copies of it: a watcher must not find itself.

    Copies are jobs of the same script, or runs of the same cronhpc entry (its token in the comment).
    """
    numbers = {environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID")} - {""}
    mine = [row for row in rows if numbers & {row.number, row.id.partition("_")[0]}]
    commands = {row.command for row in mine} - {"", "(null)"}
    tokens = {_entry(row.comment) for row in mine} - {""}
    return [
        row for row in rows if row not in mine and row.command not in commands and _entry(row.comment) not in tokens
    ]


def _entry(comment: str) -> str:
    """`cronhpc=<directory>/<entry>` of a run's comment, without the slot."""
    words = [word for word in comment.split(" ") if word.startswith("cronhpc=")]
    return words[0].rpartition("@")[0] if words else ""


def of_name(rows: Sequence[Job], pattern: str) -> list[Job]:
    """The jobs whose whole name matches a shell pattern."""
    return [row for row in rows if fnmatch.fnmatchcase(row.name, pattern)]


def people(words: str) -> list[str]:
    """User names of `alice,bob`, or of `@group` (its members). Raises Broken for a group that is not there."""
    found: list[str] = []
    for word in words.replace(",", " ").split():
        found += _members(word[1:]) if word.startswith("@") else [word]
    return list(dict.fromkeys(found))


def _members(group: str) -> list[str]:
    try:
        entry = grp.getgrnam(group)
    except KeyError:
        raise Broken(f"there is no group {group}: see `groups`") from None
    if members := [*entry.gr_mem, *(user.pw_name for user in pwd.getpwall() if user.pw_gid == entry.gr_gid)]:
        return members
    raise Broken(f"group {group} has no members that this node knows: name the users instead")
