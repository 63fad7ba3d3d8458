"""Slots and their attempts: names, claims, ends; and the batch system's jobs, as its queue shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter

from cronhpc.cron.values import TypedDict, dataclass, digest, field, replace, set_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Instant = int  # seconds since 1970
Watermark = int  # an instant; one beyond all dates is of a clock that was wrong
JobId = str  # the number of a job, as text
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.+")
_LONGEST_ID = 150  # bytes: a file name holds 255, and slot, attempt and a temporary suffix follow


@lru_cache(maxsize=16384)
def entry_id(name: str) -> str:
    """`name` as one word safe in file names and comments; long ones end in a hash, and stay one to one."""
    raw = name.encode("utf-8", "surrogateescape")
    text = name if _PLAIN.issuperset(name) else "".join(chr(b) if chr(b) in _PLAIN else f"%{b:02X}" for b in raw)
    if text.startswith("."):  # never a dot file
        text = "%2E" + text[1:]
    if len(text) <= _LONGEST_ID:
        return text
    return f"{text[: _LONGEST_ID - 18]}~{digest(raw)[:16]}"


@lru_cache(maxsize=4096)  # many entries have the same slots
def slot_text(slot: int) -> str:
    """`slot` as ISO 8601 basic UTC, to the minute where it is on one: 20261127T1330Z; these sort by time."""
    moment = datetime.fromtimestamp(slot, UTC)
    return moment.strftime("%Y%m%dT%H%M%SZ" if moment.second else "%Y%m%dT%H%MZ")


_SLOT = "([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})([0-9]{2})?Z"

# the name of a run's log in log/<entry>/, by which cronhpc knows its own: nobody else names files so
LOG_NAME = r"(?P<run>(?P<minute>[0-9]{8}T[0-9]{4})(?P<second>[0-9]{2})?Z-(?P<job>[0-9]+))(?:_(?:[0-9]+|\*))?\.out"


@lru_cache(maxsize=4096)
def slot_of(text: str) -> int:
    """The reverse of `slot_text`. Raises ValueError."""
    parts = re.fullmatch(_SLOT, text)
    if parts is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(part or 0) for part in parts.groups())
    return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp())


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """One attempt of one slot of one entry: the name of its claim, and what the job's comment carries."""

    entry: str  # entry_id
    slot: int
    attempt: int = 1
    by_hand: bool = False  # made by `cronhpc run`: its slot is the instant asked, and moves no watermark

    def __str__(self) -> str:
        return f"{self.entry}@{slot_text(self.slot)}.{'r' if self.by_hand else ''}{self.attempt}"

    def log_stem(self, job_id: str) -> str:
        """How the names of its run's logs begin: `.out` follows, or of an array `_TASK.out` (see LOG_NAME)."""
        return f"{slot_text(self.slot)}-{job_id}"

    def log(self, job_id: str, *, array: bool = False) -> str:
        """Its run's log, relative to the cron directory; of an array a pattern of all tasks' logs."""
        return f"log/{self.entry}/{self.log_stem(job_id)}{'_*' if array else ''}.out"

    def log_for_sbatch(self, *, array: bool = False) -> str:
        """The same before its job has an id, as sbatch is asked for it."""
        return self.log("%A_%a" if array else "%j")

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


IN_ORDER = attrgetter(*Key.__match_args__)  # to sort keys by: as `<` does, which is asked of each pair


def log_name(pattern: str, values: Mapping[str, str], *, as_glob: bool = False) -> str:
    """A log's name with sbatch's `%` patterns filled in, `%5j` to five digits. `values`: by letter.

    What is not known, or "", stays as it is; `as_glob`: it becomes `*`, and all else is quoted. A backslash switches
    patterns off, as for sbatch.
    """
    quoted: Callable[[str], str] = str
    if as_glob:
        from glob import escape as quoted
    if "\\" in pattern:
        return quoted(pattern.replace("\\", ""))
    name, rest = "", pattern
    while "%" in rest:
        before, _, rest = rest.partition("%")
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        letter, rest = rest[len(digits) : len(digits) + 1], rest[len(digits) + 1 :]
        value = "%" if letter == "%" else values.get(letter, "")
        name += quoted(before)
        if not value:
            name += "*" if as_glob and letter.isascii() and letter.isalpha() else quoted(f"%{digits}{letter}")
        else:
            name += quoted(value.zfill(min(int(digits[:9] or 0), 10)) if value.isdecimal() else value)
    return name + quoted(rest)


PAUSED = "cronhpc-paused/"  # prepended to the comment of a task that we hold, the directory's id behind it
TOKEN = "cronhpc="  # noqa: S105 - the mark in a job's comment, no secret
_LONGEST_COMMENT = 1024  # bytes; Slurm refuses a longer one
_COMMENT_ROOM = 1000  # with the tag of a pause before it, it still fits


def link_names(directory_id: str) -> tuple[str, str]:
    """Job names of a directory's links and of its spare."""
    return f"cronhpc-{directory_id}", f"cronhpc-{directory_id}-spare"


def cut_comment(text: str) -> str:
    """`text` as far as Slurm takes it: 1,024 bytes, counted in UTF-8."""
    return text.encode("utf-8", "surrogateescape")[:_LONGEST_COMMENT].decode("utf-8", "ignore")


def token(directory_id: str, whose: str, own: str = "") -> str:
    """A job comment that says whose job it is (`whose`: a key, or "link 1795791600 <fingerprint>"), then its own."""
    mark = f"{TOKEN}{directory_id}/{whose}"
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
    FINISHED = "finished"  # its end is known and recorded


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
LAUNCH_FAILED = 53  # the "signal" of a script that slurmd could not start; 20.11 says exit code 1 instead


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How an attempt ended, as far as anyone can tell; the row that history keeps."""

    result: Result
    exit_code: int | None = None
    signal: int | None = None
    submitted: Instant | None = None
    started: Instant | None = None
    ended: Instant | None = None
    node: str = ""
    detail: str = ""
    log: str = ""  # path relative to the cron directory
    tasks: str = ""  # of an array: those that failed, as sbatch takes them ("3", "1-2,5"); "": not known, or no array

    def row(self, key: Key, name: str, job_id: str | None, now: int) -> HistoryRow:
        """What is known of it, and of which attempt it is the end."""
        fields: Any = set_fields(self) | {"result": str(self.result)}
        fields |= {"what": "run", "key": str(key), "entry": name, "slot": key.slot, "attempt": key.attempt}
        row: HistoryRow = fields | {"job": job_id, "by_hand": key.by_hand, "at": now}
        return row


class HistoryRow(TypedDict, total=False):
    """What happened to a run, a slot or a job, as store/history.py keeps it: as far as it is known."""

    what: str  # run | slot | switch
    key: str
    entry: str
    slot: Instant
    attempt: int
    by_hand: bool
    job: str | None
    at: Instant  # when it was written

    # how it ended, as JobEnd
    result: str
    exit_code: int | None
    signal: int | None
    submitted: Instant | None
    started: Instant | None
    ended: Instant | None
    node: str
    detail: str
    log: str
    tasks: str
    count: int  # of slots, the last of which is this one

    # what a switch did: which one, and to which jobs
    switch: str
    by: str
    reason: str
    since: Instant
    jobs: list[str]
    warned: list[str]
    were: list[str]  # in words
    gone: dict[str, int]  # and after how many seconds


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
    job_end: JobEnd | None = None
    retry_at: int | None = None  # finished, and a further attempt is due then
    damaged: bool = False  # its record says neither what was done nor which job it was: it may have run
    tasks: str = ""  # of an array: the tasks that this attempt runs; "": all
    fresh: bool = False  # it changed while the queue was being asked: its job may be missing from the answer
    taken_back: str = ""  # the job that we cancel before its slot has come, or have cancelled: it may have begun
    due: int = 0  # an earlier slot that was due when it ended: from there on it uses up no slot but its own; 0: none

    @property
    def used_up(self) -> int:
        """The slot up to which its end uses up those of its entry; 0: it uses up none but its own.

        It has ended, and not before its slot had come: by the controller's clock, or by whose noted it, as ours may be
        behind.
        """
        ended = self.job_end.ended if self.job_end is not None else None
        if self.state is not ClaimState.FINISHED or max(self.at or self.key.slot, ended or 0) < self.key.slot:
            return 0
        return self.due - 1 if self.due else self.key.slot

    @property
    def note(self) -> str:
        """What is remembered of it, finished, once history and streaks have it: its key, and when it is tried again."""
        return f"{self.key} {self.retry_at or ''}".rstrip()


@dataclass(frozen=True, slots=True)
class EntryState:
    """What is kept of an entry between ticks."""

    EARLIER = {"settled": "finished", "held_up": "blocked_reason", "held_since": "blocked_since"}  # noqa: RUF012 - names

    watermark: Watermark = 0  # every scheduled slot up to here is used up
    schedule_key: str = ""  # schedule, zone and tzdata that `next_slot` was computed with
    next_slot: Instant | None = None  # the first slot after the watermark
    finished: str = ""  # the newest claim known to be finished: not opened again
    failures: int = 0  # in a row
    to_retry: tuple[Instant, ...] = ()  # slots whose failure does not count yet, as a further attempt is to come
    successes: int = 0  # in a row
    nodes: tuple[str, ...] = ()  # that the last failures in a row ran on, the newest last
    well_on: str = ""  # the nodes of the last success
    suspended: Instant | None = None  # since
    previous_success: Instant | None = None  # slot
    last: HistoryRow = field(default_factory=HistoryRow)  # the newest history row, for status
    blocked_reason: str = ""  # why a slot that had come was not submitted at the last look
    blocked_since: Instant = 0  # start of the current wait for a submission: see slots.turn
    unseen: tuple[Instant, Instant] | None = None  # the last tick that saw its file, and the first that did not
    source: str = ""  # the file that the name is known from: a second one of that name is refused

    @property
    def shared_node(self) -> str:
        """The one node that every one of the last failures ran on, where the last success ran elsewhere; else "".

        On a small idle cluster everything runs on one node: that the failures did, too, says nothing about it.
        """
        if len(self.nodes) < _FEW or not self.well_on:
            return ""
        common = set.intersection(*(set(hosts(each)) for each in self.nodes)) - set(hosts(self.well_on))
        return common.pop() if len(common) == 1 else ""


NEW_STATE = EntryState()  # of one that no tick has seen

_FEW = 2  # failures: fewer tell nothing
_MOST_NODES = 10_000  # of one range


def task_list(tasks: Iterable[int]) -> str:
    """Task numbers as cronhpc, and Slurm, writes them: "3", "[0-2,5]"."""
    spans: list[list[int]] = []
    for task in sorted(tasks):
        if spans and task == spans[-1][1] + 1:
            spans[-1][1] = task
        else:
            spans.append([task, task])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
    return text if text.isdecimal() else f"[{text}]"


def task_ranges(tasks: str) -> list[range]:
    """Array tasks, as "3", "[5-9,12%2]" or "1-9:2"; none for what is no list of tasks."""
    match = re.fullmatch(r"\[?([0-9,:-]+)(?:%[0-9]+)?\]?", tasks, re.ASCII)
    parts = [re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part) for part in match[1].split(",")] if match else []
    spans = [(int(part[1]), int(part[2] or part[1]), int(part[3] or 1)) for part in parts if part]
    return [range(low, high + 1, step or 1) for low, high, step in spans] if all(parts) else []


def hosts(text: str) -> list[str]:
    """The nodes in a list as Slurm writes it: "cpu[08-10],gpu1" is cpu08, cpu09, cpu10 and gpu1.

    What cannot be read as such stands for itself.
    """
    names: list[str] = []
    for word in re.findall(r"(?:\[[^\]]*\]?|[^,\[])+", text):
        start, bracket, rest = word.partition("[")
        numbers, closed, end = rest.partition("]")
        if not bracket or not closed or "[" in end:
            names.append(word)
            continue
        names += [f"{start}{number}{end}" for part in numbers.split(",") for number in _numbers(part)]
    return names


def _numbers(part: str) -> list[str]:
    first, dash, last = part.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()) or int(last) - int(first) > _MOST_NODES:
        return [part]
    return [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]


# --- jobs -------------------------------------------------------------------------------------------------------------


# Slurm's states of an ended job (squeue's manual, JOB STATE CODES), and what each means for a run. Any other is live.
ENDS = {
    "COMPLETED": Result.OK,
    "FAILED": Result.FAILED,
    "TIMEOUT": Result.TIMEOUT,
    "DEADLINE": Result.TIMEOUT,
    "OUT_OF_MEMORY": Result.OUT_OF_MEMORY,
    "NODE_FAIL": Result.NODE_FAIL,
    "BOOT_FAIL": Result.NODE_FAIL,
    "PREEMPTED": Result.PREEMPTED,
    "REVOKED": Result.PREEMPTED,
    "CANCELLED": Result.CANCELLED,
}
# Live states in which no program of the job runs yet, or again after a requeue.
_WAITS = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED"})


class Fault(StrEnum):
    """Why a job goes no further by its time and turn alone; `reason` says the same in words for people."""

    HELD_BY_USER = "JobHeldUser"  # or by us: Slurm does not tell them apart
    HELD_BY_ADMIN = "JobHeldAdmin"
    HELD = "held"  # put back so after a failed launch, or the like
    ERROR_STATE = "in an error state"  # its batch system has put it aside after a fault
    STUCK = "stuck in its start"  # it was sent to a node which has not said since that it runs
    UNENDING = "stuck in its end"  # it was cancelled, and its node does not answer
    IMPOSSIBLE = "impossible request"  # its batch system has given it up for good
    NEVER_STARTS = "never starts"
    MAY_NEVER_START = "may never start"  # before its request, or the site, is changed
    KEPT_BACK = "kept back"  # it waits for more than its turn: for drained nodes, or below a limit


HOLDS = frozenset({Fault.HELD_BY_USER, Fault.HELD_BY_ADMIN, Fault.HELD, Fault.ERROR_STATE, Fault.STUCK})
NEVER_STARTS = frozenset({Fault.IMPOSSIBLE, Fault.NEVER_STARTS})
# Reasons that say no more than the state and the result, in Slurm's words, which all backends use. BeginTime: of what
# waits for that alone. JobLaunchFailure: older versions say it of any signal.
NO_NEWS = frozenset({"BeginTime", "NonZeroExitCode", "TimeLimit", "JobLaunchFailure"})
UNLISTED = "UNLISTED"  # the state of a job that was submitted just now, and that the queue does not show yet


@dataclass(frozen=True, slots=True)
class Job:
    """One row of the queue."""

    id: str  # the job's number, without array parts
    state: str  # Slurm's long name: PENDING, RUNNING, COMPLETING, COMPLETED …
    name: str = ""
    comment: str = ""
    reason: str = ""  # in its batch system's words
    fault: Fault | None = None
    tasks: str = ""  # array part as printed: "3", "[5-9%1]", ""
    start: int | None = None  # actual, or planned for pending jobs
    submitted: int | None = None
    ended: int | None = None
    partition: str = ""
    account: str = ""
    workdir: str = ""
    nodes: str = ""
    exit_code: int | None = None
    signal: int | None = None
    from_scrontab: bool | None = False  # None: nobody could be asked
    restarts: int = 0  # how often it was put back into the queue and began anew, where that was asked
    raw_id: str = ""  # of an array's task: the number that it knows itself by ($SLURM_JOB_ID)
    command: str | None = None  # the script's path, arguments behind it; "": there is none; None: not told
    output: str = ""  # its log, where it was asked for
    failed: str = ""  # in the row that speaks for an array: its tasks that failed, as sbatch takes them

    @property
    def shown_id(self) -> str:
        """The id as squeue prints it."""
        return f"{self.id}_{self.tasks}" if self.tasks else self.id

    @property
    def news(self) -> str:
        """Its reason, where that says more than its state and its result."""
        return "" if self.reason in NO_NEWS else self.reason

    @property
    def pending(self) -> bool:
        """It has no node yet: so it can be held, moved and changed."""
        return self.state == "PENDING"

    @property
    def ending(self) -> bool:
        """Its programs are being ended, or its node is cleaned up."""
        return self.state == "COMPLETING"

    @property
    def never_placed(self) -> bool:
        """Cancelled, and no node is named: while it waited, though it may have run before a requeue."""
        return self.state == "CANCELLED" and not self.nodes

    @property
    def held_by_user(self) -> bool:
        """Held by its owner, or by us."""
        return self.pending and self.fault is Fault.HELD_BY_USER

    @property
    def held(self) -> bool:
        """Cannot start until someone acts: held, or put back held after a failed launch."""
        return self.pending and self.fault in HOLDS

    @property
    def held_by_admin(self) -> bool:
        """An administrator's word."""
        return self.pending and self.fault is Fault.HELD_BY_ADMIN

    @property
    def live(self) -> bool:
        """Not ended."""
        return self.state not in ENDS

    @property
    def waits(self) -> bool:
        """Live, and nothing of it runs: `start` is a plan then."""
        return self.state in _WAITS

    def ended_before(self, slot: int) -> bool:
        """Whether it was cancelled while it waited for `slot` (epoch) to come."""
        return self.never_placed and self.ended is not None and self.ended < slot

    @property
    def never_began(self) -> bool:
        """Whether it was cancelled while it waited, for all that its row tells."""
        return self.never_placed and not self.restarts

    def token_of(self, directory_id: str) -> str | None:
        """What the comment says after this directory's mark, wherever a site has moved that; None: no such mark.

        Whether the job is ours tells core/identity.py: comments are changed, and copied.
        """
        _, mark, words = self.own_comment.partition(f"{TOKEN}{directory_id}/")
        return words if mark else None

    @property
    def own_comment(self) -> str:
        """The comment without the tag of a pause."""
        return self.comment.partition(" ")[2] if self.comment.startswith(PAUSED) else self.comment


@dataclass(frozen=True, slots=True)
class Queue:
    """All of this user's jobs, ended ones included as long as the batch system remembers them."""

    jobs: tuple[Job, ...]


def restarted(number: int) -> str:
    """In words, "restarted 3 times"; "" where it was not."""
    return "" if not number else "restarted once" if number == 1 else f"restarted {number} times"


def standing_for(rows: Iterable[Job]) -> Job | None:
    """The row that speaks for a job, of which an array has several; None: there is none.

    An array runs while one of its tasks does, else waits while one is left to start, and has ended when all have. Of
    ended ones a failed task speaks before a good one, and a later end before an earlier. It began with the first of its
    tasks, and ends with the last, however few may run at a time.
    """
    tasks = tuple(rows)
    job = max(tasks, key=_standing, default=None)
    if job is None or job.waits:
        return job
    failed = sorted(int(t.tasks) for t in tasks if t.tasks.isdecimal() and ENDS.get(t.state) in FAILURES)
    if failed:
        job = replace(job, failed=",".join(map(str, failed)))
    if len(tasks) == 1:
        return job
    began = [task.start for task in tasks if task.start and not task.waits and not task.never_placed]
    ended = job.ended if job.live else max((task.ended for task in tasks if task.ended), default=job.ended)
    return replace(job, start=min(began, default=job.start), ended=ended)


def _standing(job: Job) -> tuple[int, bool, int]:
    if job.live:
        return 1 if job.waits else 2, job.held, 0
    return 0, ENDS[job.state] in FAILURES, job.ended or 0
