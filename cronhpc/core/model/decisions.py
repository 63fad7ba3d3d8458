"""What a plan says is to be done and why, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from cronhpc.core.model.entries import Entry, Switch
from cronhpc.core.model.runs import Job, JobEnd, Key, Result
from cronhpc.cron.values import dataclass, field


class Reason(StrEnum):
    """The rule that decided; shown everywhere."""

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


class LeaveCause(StrEnum):
    """Why the chain is left alone."""

    NOT_MARKED = "scheduler/started is gone"
    HELD = "an administrator holds a link"
    CANCELLED = "somebody else cancelled a link"
    LINK_AT_WORK = "a link that runs queues its own successor"
    TICK_AT_WORK = "another tick sees to the links"

    @property
    def at_work(self) -> bool:
        """Whether somebody beside us deals with the links: nothing that anybody has to know."""
        return self in {LeaveCause.LINK_AT_WORK, LeaveCause.TICK_AT_WORK}


@dataclass(frozen=True, slots=True)
class Submit:
    """Claim `key`, submit held, record the id; released with the others at the end."""

    entry: Entry
    key: Key
    reason: Reason
    begin: int | None = None  # a slot ahead: the job starts then
    detail: str = ""
    replaces: tuple[str, ...] = ()  # job ids to cancel first (overlap: replace)
    tasks: str = ""  # of an array: the only ones to run; "": all

    @property
    def beyond_schedule(self) -> bool:
        """Whether it comes on top of what the schedule asks for."""
        return self.reason in {Reason.RETRY, Reason.AGAIN} or self.key.by_hand


@dataclass(frozen=True, slots=True)
class Skip:
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
    """Cancel a job of ours: a late twin, one that can never start, one ahead whose entry is gone or changed."""

    job_id: str
    why: str
    key: Key | None = None
    only: str = "held"  # what it must still be: held | ahead (its slot has not come) | pending


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Cancel `job_id`, submitted ahead for a slot that has not come, and give the claim back: nothing has happened."""

    key: Key
    name: str
    job_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Finish:
    """`key` has ended."""

    key: Key
    name: str
    job_end: JobEnd
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
    """A successor or spare is missing; `lost`: none of its kind was in the queue."""

    kind: str
    at: int
    why: str
    lost: bool = False


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
class LeaveChain:
    """The chain is left alone, and why in words."""

    cause: LeaveCause
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
class Unhold:
    """Their pause switch is gone: tasks that we marked are released and their comment restored."""

    jobs: tuple[Job, ...]


Decision = (
    Submit | Skip | Wait | Adopt | Release | Cancel | Withdraw | Finish
    | KeepLink | SubmitLink | MoveLink | CancelLink | LeaveChain | Stop | Hold | Unhold
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a tick will do, in order, and when the next one is wanted."""

    decisions: tuple[Decision, ...]
    wake: int  # the instant the successor should start at
    next_slots: Mapping[str, tuple[str, int | None, int]] = field(default_factory=dict)


class Done(StrEnum):
    """What became of a decision."""

    OK = "done"
    REFUSED = "refused"  # by act: a switch set since, a claim lost, a limit met
    FAILED = "failed"  # for good
    PASSING = "failed, stays due"  # a passing error


class Obstacle(StrEnum):
    """What kept a decision from being carried out, where more than its words depends on it."""

    SUBMIT_LIMIT = "the site takes no more jobs of this user"
    TAKEN = "another tick has claimed it"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decision and what came of it."""

    decision: Decision
    done: Done
    detail: str = ""
    job_id: str | None = None
    obstacle: Obstacle | None = None
