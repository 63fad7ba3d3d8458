"""Slots and their attempts: names, claims, ends."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.+")
_LONGEST_ID = 150  # bytes: a file name holds 255, and slot, attempt and a temporary suffix follow


@lru_cache(maxsize=16384)
def entry_id(name: str) -> str:
    """`name` as one word safe in file names and comments; long ones end in a hash, and stay one to one."""
    raw = name.encode("utf-8", "surrogateescape")
    text = "".join(chr(b) if chr(b) in _PLAIN else f"%{b:02X}" for b in raw)
    if text.startswith("."):  # never a dot file
        text = "%2E" + text[1:]
    if len(text) <= _LONGEST_ID:
        return text
    return f"{text[: _LONGEST_ID - 18]}~{hashlib.sha256(raw).hexdigest()[:16]}"


def slot_text(slot: int) -> str:
    """`slot` as ISO 8601 basic UTC, to the minute where it is on one: 20261127T1330Z; these sort by time."""
    moment = datetime.fromtimestamp(slot, UTC)
    return moment.strftime("%Y%m%dT%H%M%SZ" if moment.second else "%Y%m%dT%H%MZ")


# the name of a run's log in log/<entry>/, by which cronhpc knows its own: nobody else names files so
LOG_NAME = r"(?P<run>(?P<minute>[0-9]{8}T[0-9]{4})(?P<second>[0-9]{2})?Z-(?P<job>[0-9]+))(?:_(?:[0-9]+|\*))?\.out"


def slot_of(text: str) -> int:
    """The reverse of `slot_text`. Raises ValueError."""
    layout = "%Y%m%dT%H%MZ" if len(text) == len("20261127T1330Z") else "%Y%m%dT%H%M%SZ"
    return int(datetime.strptime(text, layout).replace(tzinfo=UTC).timestamp())


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """One attempt of one slot of one entry: the name of its claim, and what the job's comment carries."""

    entry: str  # entry_id
    slot: int
    attempt: int = 1
    by_hand: bool = False  # made by `cronhpc run`: its slot is the instant asked, and moves no watermark

    def __str__(self) -> str:
        return f"{self.entry}@{slot_text(self.slot)}.{'r' if self.by_hand else ''}{self.attempt}"

    @classmethod
    def of(cls, text: str) -> Key | None:
        """The key that `str` wrote, or None."""
        entry, at, rest = text.rpartition("@")
        moment, dot, number = rest.partition(".")
        by_hand = number.startswith("r")
        number = number.removeprefix("r")
        if not (at and dot and entry and number.isascii() and number.isdecimal()):
            return None
        try:
            return cls(entry, slot_of(moment), int(number), by_hand)
        except ValueError:
            return None


PAUSED = "cronhpc-paused/"  # prepended to the comment of a task that we hold, the directory's id behind it
TOKEN = "cronhpc="  # noqa: S105 - the mark in a job's comment, no secret
_LONGEST_COMMENT = 1024  # bytes; Slurm refuses a longer one
_COMMENT_ROOM = 1000  # with a pause's mark before it, it still fits


def link_names(directory_id: str) -> tuple[str, str]:
    """Job names of a directory's links and of its spare."""
    return f"cronhpc-{directory_id}", f"cronhpc-{directory_id}-spare"


def cut_comment(text: str) -> str:
    """`text` as far as Slurm takes it: 1,024 bytes, counted in UTF-8."""
    return text.encode("utf-8", "surrogateescape")[:_LONGEST_COMMENT].decode("utf-8", "ignore")


def token(directory_id: str, what: str, own: str = "") -> str:
    """A job comment that says whose job it is (`what`: a key, or "link 1795791600 <fingerprint>"), then its own."""
    mark = f"{TOKEN}{directory_id}/{what}"
    own = " ".join(own.split("\n"))
    room = _COMMENT_ROOM - len(mark.encode()) - 1
    kept = own.encode("utf-8", "surrogateescape")[: max(room, 0)].decode("utf-8", "ignore")
    return f"{mark} {kept}" if kept else mark


class ClaimState(StrEnum):
    """How far an attempt has come. Each step is one atomic file operation (store/claims.py)."""

    CLAIMED = "claimed"  # nobody else may; perhaps a held job is on its way
    SUBMITTED = "submitted"  # its one job id is recorded; the job is held
    RELEASING = "releasing"  # the release may have been sent
    RELEASED = "released"  # it may run
    SETTLED = "settled"  # its end is known and recorded


class Result(StrEnum):
    """What became of an attempt."""

    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    NODE_FAIL = "node failed"
    PREEMPTED = "preempted"  # the system gave its place to another, or to a sibling cluster: no fault of the script
    CANCELLED = "cancelled"
    KILLED = "killed"  # by a switch or by `overlap: replace`
    REFUSED = "refused"  # sbatch said no for good
    LOST = "lost"  # the held job vanished before its release: it never ran
    UNKNOWN = "ended, outcome unknown"
    MISSED = "missed"
    SKIPPED = "skipped"
    STOPPED = "stopped"
    SUSPENDED = "suspended"


FAILURES = frozenset(
    {Result.FAILED, Result.TIMEOUT, Result.OUT_OF_MEMORY, Result.NODE_FAIL, Result.PREEMPTED, Result.REFUSED}
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended, as far as anyone can tell; the row that history keeps."""

    result: Result
    exit_code: int | None = None
    signal: int | None = None
    submitted: int | None = None
    started: int | None = None
    ended: int | None = None
    node: str = ""
    detail: str = ""
    log: str = ""  # path relative to the cron directory
    tasks: str = ""  # of an array: those that failed, as sbatch takes them ("3", "1-2,5"); "": not known, or no array


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt as the disk knows it."""

    key: Key
    state: ClaimState
    name: str = ""  # the entry's name as written
    job_id: str | None = None
    at: int = 0  # when it was claimed
    holds: str = ""  # which text and schedule a job submitted ahead was made of (slots.text_key)
    recorded: int | None = None  # when its job id was
    ending: Ending | None = None
    retry_at: int | None = None  # settled, and a further attempt is due then
    damaged: bool = False  # its record says neither what was done nor which job it was: it may have run
    tasks: str = ""  # of an array: the tasks that this attempt runs; "": all
    fresh: bool = False  # it changed while the queue was being asked: its job may be missing from the answer


@dataclass(frozen=True, slots=True)
class EntryState:
    """What is kept of an entry between ticks."""

    watermark: int = 0  # every scheduled slot up to here is used up
    schedule_key: str = ""  # schedule, zone and tzdata that `next_slot` was computed with
    next_slot: int | None = None  # the first slot after the watermark
    settled: str = ""  # the newest claim known to be settled: not opened again
    failures: int = 0  # in a row
    successes: int = 0  # in a row
    nodes: tuple[str, ...] = ()  # that the last failures in a row ran on, the newest last
    well_on: str = ""  # the nodes of the last success
    suspended: int | None = None  # since
    previous_success: int | None = None  # slot
    last: Mapping[str, object] = field(default_factory=dict)  # the newest history row, for status
    held_up: str = ""  # why a slot that had come was not submitted at the last look
    held_since: int = 0  # when one was first not submitted since one was: who waits longest goes first
    missing: int = 0  # scans in a row in which its file was not seen
    source: str = ""  # the file that the name is known from: a second one of that name is refused
