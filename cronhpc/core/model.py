"""The words of cronhpc as values: frozen, small, without behaviour that needs the world.

All instants are whole seconds since 1970-01-01 UTC (`int`); all durations are seconds.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class CronhpcError(Exception):
    """The root of every error that cronhpc raises on purpose; its text says what, where and the mend."""

    passing = False  # nothing is known to be wrong with what was asked: it may well go through another time


class StateError(CronhpcError):
    """A state file cannot be used: unreadable, or written by a newer cronhpc."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong that a user can mend: `code` starts with E (error) or W (warning)."""

    code: str
    what: str
    mend: str
    file: str = ""  # as the user knows it, relative to the cron directory
    line: int = 0  # from 1; 0 where no line is meant
    key: str = ""

    @property
    def severity(self) -> str:
        """`error` or `warning`."""
        return "error" if self.code.startswith("E") else "warning"

    def __str__(self) -> str:
        place = self.file + (f":{self.line}" if self.line else "")
        return f"{f'{place}: ' if place else ''}{self.code} {self.what} {self.mend}".strip()


class SettingsError(CronhpcError):
    """`cronhpc.yaml` cannot be used as it is; `problems` name file, line, key and the nearest right key.

    `rest` is what can be used where nothing but rows under `entries:` is wrong (those carry their problem).
    """

    def __init__(self, problems: tuple[Problem, ...], rest: Settings | None = None) -> None:
        super().__init__("\n".join(str(p) for p in problems))
        self.problems = problems
        self.rest = rest


# --- entries -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Policies:
    """What may stand behind a schedule (design: the policy table)."""

    timezone: str | None = None  # IANA key; None: the settings', else the machine's
    catch_up: str = "latest"  # latest | all | none
    catch_up_limit: int = 100
    deadline: int | None = None  # None: until the next slot (never, for catch-up: all)
    overlap: str = "skip"  # skip | allow | replace | queue
    retries: int = 0
    retry_delay: int = 0
    suspend_after: int | None = None
    record: bool = False  # the run writes its own end, for sites without accounting
    ping: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A recurring job as its file says it, resolved once and kept until the file changes.

    `problem` set means invalid or not trusted: it stays due and is not submitted. `options` are sbatch options beyond
    the script's own, ready to be passed (`--partition=cpu`).
    """

    name: str
    source: str  # "cron.daily/backup.slurm", "cronhpc.yaml:14"
    script: str  # absolute path of what is submitted; "" for a command row
    schedule: str
    timezone: str
    hash_key: str  # what H fields hash
    policies: Policies = Policies()
    born: int = 0  # ctime of the file: slots before it are not its own
    options: tuple[str, ...] = ()
    own_options: tuple[str, ...] = ()  # what the script says itself, where a stub is submitted in its place
    job_name: str = ""
    output: bool = True  # cronhpc names the log; False where the script names an absolute one
    error: bool = False  # what goes to stderr is to be in it, too: the script names a relative file for that
    chdir: str = ""
    partition: str = ""  # as the script says; `options` are over it
    account: str = ""
    comment: str = ""  # the script's own
    array: bool = False
    own_export: str = ""  # the script's own --export: it would keep the run's variables out
    holds_itself: bool = False  # the script asks for --hold: its runs are left held
    own_begin: bool = False  # the script asks for --begin
    command: str = ""  # a row's command: the text that its script is generated with
    arguments: tuple[str, ...] = ()  # of the script
    fresh: bool = False  # changed in the last seconds: left for the next look
    problem: Problem | None = None
    notes: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Train:
    """A long work that keeps itself going by `cronhpc again`; its pieces are claimed like an entry's slots.

    `entry` has no schedule: what is submitted is a stub that runs the script as it is when the piece starts.
    """

    entry: Entry
    when: str = ""  # "every 1h", "after each piece", in words
    runs: int = 0  # pieces that have started
    ends: tuple[str, ...] = ()  # what would end it, in words
    resting: str = ""  # why nothing is queued; "" while it goes on
    newest: str = ""  # the job of the piece that started last; the first one, a person's, has no claim
    at: int = 0  # when that was

    def owns(self, job: Job) -> bool:
        """Whether `job` is that piece; ids begin anew where a controller lost its state, so the name counts, too."""
        return job.id == self.newest and job.name == self.entry.job_name


# --- slots and runs ------------------------------------------------------------------------------------------------

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.+")
_LONGEST_ID = 150  # bytes: a file name holds 255, and slot, attempt and a temporary suffix follow


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
    CANCELLED = "cancelled"
    KILLED = "killed"  # by a switch or by `overlap: replace`
    REFUSED = "refused"  # sbatch said no for good
    LOST = "lost"  # the held job vanished before its release: it never ran
    UNKNOWN = "ended, outcome unknown"
    MISSED = "missed"
    SKIPPED = "skipped"
    STOPPED = "stopped"
    SUSPENDED = "suspended"


FAILURES = frozenset({Result.FAILED, Result.TIMEOUT, Result.OUT_OF_MEMORY, Result.NODE_FAIL, Result.REFUSED})


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


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt as the disk knows it."""

    key: Key
    state: ClaimState
    name: str = ""  # the entry's name as written
    job_id: str | None = None
    at: int = 0  # when it was claimed
    released: int | None = None
    ending: Ending | None = None
    retry_at: int | None = None  # settled, and a further attempt is due then
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
    suspended: int | None = None  # since
    previous_success: int | None = None  # slot
    last: Mapping[str, object] = field(default_factory=dict)  # the newest history row, for status
    missing: int = 0  # scans in a row in which its file was not seen
    source: str = ""  # the file that the name is known from: a second one of that name is refused


LONGER = 900  # seconds that a daemon's link may go on after its successor was to start


# --- the batch system ----------------------------------------------------------------------------------------------

ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED"}
    | {"NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"}
)
NEVER_STARTS = frozenset({"DependencyNeverSatisfied", "PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints"})


@dataclass(frozen=True, slots=True)
class Job:
    """One row of the queue."""

    id: str  # the job's number, without array parts
    state: str  # Slurm's long name: PENDING, RUNNING, COMPLETING, COMPLETED …
    name: str = ""
    comment: str = ""
    reason: str = ""
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
    raw_id: str = ""  # of an array's task: the number that it knows itself by ($SLURM_JOB_ID)

    @property
    def shown(self) -> str:
        """The id as squeue prints it."""
        return f"{self.id}_{self.tasks}" if self.tasks else self.id

    @property
    def held_by_user(self) -> bool:
        """Held by its owner, or by us: Slurm does not tell them apart."""
        return self.state == "PENDING" and self.reason == "JobHeldUser"

    @property
    def held(self) -> bool:
        """Cannot start until someone acts: held, or put back held after a failed launch."""
        return self.state == "PENDING" and (
            self.reason in {"JobHeldUser", "JobHeldAdmin"} or "held" in self.reason.lower()
        )

    @property
    def held_by_admin(self) -> bool:
        """An administrator's word."""
        return self.state == "PENDING" and self.reason == "JobHeldAdmin"

    @property
    def live(self) -> bool:
        """Not ended."""
        return self.state not in ENDED

    def token_of(self, directory_id: str) -> str | None:
        """What the comment says after this directory's mark, without the script's own comment; None: not ours."""
        mark = f"{TOKEN}{directory_id}/"
        comment = self.own_comment
        return comment.removeprefix(mark) if comment.startswith(mark) else None

    @property
    def own_comment(self) -> str:
        """The comment without the mark of a pause."""
        return self.comment.partition(" ")[2] if self.comment.startswith(PAUSED) else self.comment

    def key(self, directory_id: str) -> Key | None:
        """The attempt that this job was submitted for, or None."""
        text = self.token_of(directory_id)
        return Key.of(text.split(" ", 1)[0]) if text else None


@dataclass(frozen=True, slots=True)
class Queue:
    """All of this user's jobs, ended ones included as long as the batch system remembers them."""

    jobs: tuple[Job, ...]


# --- switches ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Switch:
    """A file in kill/ or pause/ (or a configured place) and what it says."""

    kind: str  # kill | pause
    name: str  # the file's name, or the configured switch's
    path: str
    by: str  # the file's owner
    since: int  # mtime
    reason: str = ""  # cleaned: one line, printable
    expires: int | None = None

    @property
    def title(self) -> str:
        """`kill/NAME` on one printable line: whoever may write there chooses the name."""
        name = " ".join("".join(c if c.isprintable() else " " for c in self.name).split())
        return f"{self.kind}/{name if len(name) <= _LONGEST_TITLE else name[:_LONGEST_TITLE] + '…'}"

    @property
    def said(self) -> str:
        """Which, by whom and why."""
        return f"{self.title}, by {self.by}" + (f": {self.reason}" if self.reason else "")


_LONGEST_TITLE = 80  # characters


@dataclass(frozen=True, slots=True)
class Struck:
    """What a kill switch has done to a job; kept until the job is gone and its end is recorded."""

    at: int  # first warned or cancelled
    name: str  # the switch's, and so on
    by: str
    reason: str
    path: str
    emptied: bool = False  # what was pending of it is cancelled
    warned: bool = False
    cancelled: bool = False  # what ran of it
    gone: bool = False

    @property
    def said(self) -> str:
        """By which switch, by whom and why."""
        return Switch("kill", self.name, self.path, self.by, 0, self.reason).said


@dataclass(frozen=True, slots=True)
class SwitchSetting:
    """A row under `kill.switches`: which jobs the switch of that name reaches. Empty patterns reach nothing."""

    name: str
    jobs: str = ""  # shell pattern over job names
    partition: str = ""
    account: str = ""
    workdir: str = ""
    file: str = ""
    warn_signal: str = ""
    warn_before: int = 0


# --- settings ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EntryRow:
    """A row under `entries:`."""

    name: str
    line: int
    schedule: str
    command: str = ""
    script: str = ""
    sbatch: tuple[tuple[str, str], ...] = ()
    policies: tuple[tuple[str, str | None, int], ...] = ()  # (name, value, line), for core.policy
    environment: tuple[tuple[str, str], ...] = ()
    problem: Problem | None = None  # the first thing wrong with this row: it is an invalid entry


@dataclass(frozen=True, slots=True)
class Settings:
    """`cronhpc.yaml`, every key typed."""

    timezone: str = ""  # "": the machine's
    backend: str = ""  # slurm | local | "": slurm where sbatch is on PATH
    cluster: str = ""
    sbatch: tuple[tuple[str, str], ...] = ()
    environment: tuple[str, ...] | None = None  # None: all but the batch system's and the login's
    folders: tuple[tuple[str, str], ...] = (
        ("hourly", "H * * * *"),
        ("daily", "H 4 * * *"),
        ("weekly", "H 4 * * sun"),
        ("monthly", "H 4 1 * *"),
    )
    defaults: tuple[tuple[str, str | None, int], ...] = ()
    entries: tuple[EntryRow, ...] = ()
    interval: int = 3600
    min_interval: int = 300
    link_sbatch: tuple[tuple[str, str], ...] = (("time", "10"),)
    timeout: int = 30  # seconds, for one command of the batch system
    parallel: int = 4  # sbatch calls at once; more does not help: the controller is the limit
    budget_tick: int = 1000
    budget_hour: int = 2000
    budget_entry: int = 20  # an hour, beyond the schedule
    kill_group: str = ""
    kill_also: tuple[str, ...] = ()
    kill_within: int = 600
    switches: tuple[SwitchSetting, ...] = ()
    trust_owners: tuple[str, ...] = ("me", "root")
    trust_group: str = ""
    logs_keep: int = 7 * 86400
    logs_files: int = 200
    logs_total: int = 5 * 1024**3
    logs_extra: tuple[tuple[str, str], ...] = ()  # (folder, pattern)
    alerts_command: str = ""
    alerts_apprise: tuple[str, ...] = ()
    alerts_ping: str = ""
    page: str = ""


# --- the chain -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChainFacts:
    """What the chain's decisions need beyond the queue."""

    wanted: bool  # `start` was called and `stop` was not
    self_id: str = ""  # the link that this tick runs in; "" elsewhere
    fingerprint: str = ""  # of the text and options that links should hold
    link_name: str = ""
    spare_name: str = ""
    resting: str = ""  # an administrator's word, in words; "" while it goes on
    no_spare: str = ""  # why there can be none (two or three submit slots), in words
    crowded: bool = False  # it takes the place of the runs: it goes
    successor_seen: str = ""  # job id that the last tick left as successor
    spare_seen: str = ""
    prequeue: int = 1  # successors wanted at once
    resident: bool = False  # links run the daemon until their successor starts (`start --daemon`)


# --- the world and what is decided ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file below log/: path relative to it, and what retention needs.

    `own` false: another user's, or one with a second name elsewhere. It is cleaned by age alone, and its size is 0.
    """

    path: str
    size: int
    modified: int
    own: bool = True


@dataclass(frozen=True, slots=True)
class World:
    """Everything a tick decides on, read once. `queue` None: the batch system gave no answer; unknown is not empty."""

    now: int
    directory_id: str
    settings: Settings
    entries: tuple[Entry, ...] = ()
    trains: tuple[Train, ...] = ()
    states: Mapping[str, EntryState] = field(default_factory=dict)  # by entry name
    claims: tuple[Claim, ...] = ()
    queue: Queue | None = None
    queue_error: str = ""
    endings: Mapping[str, Ending] | None = field(default_factory=dict)  # by job id; None: nobody answered
    switches: tuple[Switch, ...] = ()
    switches_unknown: tuple[str, ...] = ()  # folders of switches that could not be listed
    skipped: tuple[Problem, ...] = ()  # files that are no entries, and why
    chain: ChainFacts = ChainFacts(wanted=False)
    last_tick: int | None = None
    recent: tuple[tuple[int, str, int], ...] = ()  # (minute, entry id, submissions); entry "": all of them
    warned: Mapping[str, int] = field(default_factory=dict)  # job id -> when a kill switch's warning was sent
    struck: Mapping[str, Struck] = field(default_factory=dict)  # job or task id -> what a kill switch did to it
    comments: Mapping[str, str] = field(default_factory=dict)  # job id -> its comment, where a mark had no room beside
    resident: bool = False  # a daemon wakes itself for each slot: nothing is submitted ahead
    only: str = ""  # `run NAME`: the entry id that a slot is made for now, whatever its schedule

    def known(self) -> dict[str, Entry]:
        """Entries and trains by the id that claims carry."""
        return {entry_id(e.name): e for e in (*self.entries, *(train.entry for train in self.trains))}


class Reason(StrEnum):
    """The rung that decided; shown everywhere."""

    SUBMIT = "submit"
    AHEAD = "ahead"
    RETRY = "retry"
    AGAIN = "again"  # the claim is ours, and no job was ever recorded for it
    STOPPED = "stopped"
    SUSPENDED = "suspended"
    INVALID = "invalid"
    NOT_TRUSTED = "not trusted"
    JUST_CHANGED = "just changed"
    NOT_DUE = "not due"
    CLAIMED = "already claimed"
    MISSED = "missed"
    RUNNING = "still running"
    QUEUED = "waits for the previous run"
    BUDGET = "over budget"
    UNKNOWN = "batch system does not answer"
    NEVER = "no further slot"


@dataclass(frozen=True, slots=True)
class Submit:
    """Claim `key`, submit held, record the id; released with the others at the end."""

    entry: Entry
    key: Key
    reason: Reason
    begin: int | None = None  # a slot ahead: the job starts then
    detail: str = ""
    replaces: tuple[str, ...] = ()  # job ids to cancel first (overlap: replace)


@dataclass(frozen=True, slots=True)
class UseUp:
    """The slots up to `slot` will not run; `result` is recorded for it (and `count` earlier ones)."""

    entry: Entry
    slot: int
    result: Result
    reason: Reason
    detail: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is done for this entry now, and why. `slot` is due or next; None where there is none."""

    entry: Entry
    slot: int | None
    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Adopt:
    """Record `job_id` as the one job of `key`; it was found by its token."""

    key: Key
    job_id: str


@dataclass(frozen=True, slots=True)
class Release:
    """Release the recorded job of `key` (`marked`: only note that it is released already)."""

    key: Key
    job_id: str
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel a job of ours: a late twin, or a run submitted ahead whose entry is gone, changed or stopped."""

    job_id: str
    why: str
    key: Key | None = None
    only_if_held: bool = True


@dataclass(frozen=True, slots=True)
class Settle:
    """`key` has ended."""

    key: Key
    name: str
    ending: Ending
    retry_at: int | None = None  # when the next attempt is due


@dataclass(frozen=True, slots=True)
class KeepLink:
    """A successor or spare stays as it is."""

    kind: str  # successor | spare
    job_id: str
    at: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SubmitLink:
    """A successor or spare is missing."""

    kind: str
    at: int
    why: str


@dataclass(frozen=True, slots=True)
class MoveLink:
    """A successor or spare starts at another time."""

    kind: str
    job_id: str
    at: int


@dataclass(frozen=True, slots=True)
class CancelLink:
    """One link too many, or one that cannot serve."""

    kind: str
    job_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Rest:
    """The chain is left alone, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Stop:
    """A kill switch reaches these jobs: pending tasks go first, then the warning, then the end.

    All but `jobs` are ids as the batch system takes them: of a job, or of an array's task where the switch names one.
    """

    switch: Switch
    pending: tuple[str, ...]  # with pending tasks
    running: tuple[str, ...]  # these end now
    warn_signal: str = ""
    grace: int = 0
    warn: tuple[str, ...] = ()  # these get `warn_signal` now, and the end `grace` later
    completing: tuple[str, ...] = ()  # cancelled before, not gone yet, with their nodes
    left_alone: tuple[str, ...] = ()  # a scrontab's own jobs
    waiting: tuple[str, ...] = ()  # warned before, and their grace is not over
    end_at: int | None = None  # when the first grace is over
    unasked: tuple[str, ...] = ()  # nobody could say whether a scrontab's own: left for the next tick
    jobs: tuple[Job, ...] = ()  # what it stops or warns now, for people


@dataclass(frozen=True, slots=True)
class Hold:
    """A pause switch reaches these pending tasks that nobody holds; held and marked in one update."""

    switch: Switch
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Free:
    """Their pause switch is gone: tasks that we marked are released and their comment restored."""

    jobs: tuple[Job, ...]


Decision = (
    Submit | UseUp | Wait | Adopt | Release | Cancel | Settle
    | KeepLink | SubmitLink | MoveLink | CancelLink | Rest | Stop | Hold | Free
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a tick will do, in order, and when the next one is wanted."""

    decisions: tuple[Decision, ...]
    wake: int  # the instant the successor should start at
    next_slots: Mapping[str, tuple[str, int | None, int]] = field(default_factory=dict)
    # entry name -> (schedule_key, next slot after `now`'s decisions, watermark), where it had to be computed


class Done(StrEnum):
    """What became of a decision."""

    OK = "done"
    REFUSED = "refused"  # by act: a switch set since, a claim lost, a limit met
    FAILED = "failed"  # for good
    PASSING = "failed, stays due"  # a passing error


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decision and what came of it."""

    decision: Decision
    done: Done
    detail: str = ""
    job_id: str | None = None
    limited: bool = False  # the site takes no more jobs of this user
