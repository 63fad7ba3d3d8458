"""All that a tick decides on, read once; what it decides, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from cronhpc.core.model.entries import Entry, KillRecord, Series, Settings, Switch, Switches, SwitchKind
from cronhpc.core.model.runs import Claim, ClaimState, EntryState, Instant, Job, JobEnd, Key, Queue, Result, entry_id
from cronhpc.cron.values import dataclass, field, grouped
from cronhpc.script.advice import Advice, Problem, command
from cronhpc.script.dialect import SLURM, Dialect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self, TypeVar

    T = TypeVar("T")

CLOCKS_APART = 1800  # seconds that the clocks of a cluster may differ by
_DAY = 86400
Difference = int  # of two clocks, in seconds: also below zero
LinksAhead = int  # each is a job
LONGER = 900  # seconds that a daemon's link may go on after its successor was to start


class NodeFault(StrEnum):
    """Why links cannot work on a node."""

    FILES = "files"  # it lacks the cron directory
    PYTHON = "python"
    LAUNCH = "launch"  # they could not start
    LOST = "lost"  # with one of them

    @classmethod
    def _missing_(cls, _: object) -> NodeFault:
        """Another version's word."""
        return cls.LAUNCH


@dataclass(frozen=True, slots=True)
class BadNode:
    """A node on which links could not work; they go elsewhere until then."""

    node: str
    until: int  # epoch seconds
    why: NodeFault


class Phase(StrEnum):
    """How far what a message tells of has come."""

    NEW = "new"
    STILL = "still"  # a reminder
    OVER = "over"
    ONCE = "once"  # an event that does not stand

    @classmethod
    def _missing_(cls, _: object) -> Phase:
        """Another version's word."""
        return cls.ONCE


@dataclass(frozen=True, slots=True)
class Told:
    """A standing condition that people have been told of (core/alerts.py)."""

    kind: str
    since: Instant
    told: Instant  # last
    entry: str = ""


@dataclass(slots=True)
class SchedulerState:
    """What is kept of the scheduler itself between ticks: what the last one left for this one."""

    EARLIER = {"struck": "kill_records", "crowded": "no_submit_slot", "odd": "invalid"}  # noqa: RUF012 - names

    last_tick: Instant | None = None
    caller: str = ""  # who called it, in words
    wake: Instant = 0  # when the next was wanted
    recent: tuple[tuple[int, str, int], ...] = ()  # (minute, entry id, submissions); entry "": all of them
    warned: Mapping[str, Instant] = field(default_factory=dict)  # job id -> when a kill switch's warning was sent
    comments: Mapping[str, str] = field(
        default_factory=dict
    )  # job id -> its comment, where a pause tag had no room beside
    kill_records: Mapping[str, KillRecord] = field(default_factory=dict)  # job or task id -> what a kill switch did
    alerts: Mapping[str, Told] = field(default_factory=dict)  # by the condition's subject
    absent: Mapping[str, Instant] = field(default_factory=dict)  # job id -> the first look at which the queue missed it
    given_up: Mapping[str, tuple[str, Instant]] = field(default_factory=dict)  # key -> job id, when its end was
    successor: str = ""  # job id of the link that it left
    spare: str = ""
    no_spare: str = ""  # why there can be none (two or three submit slots), in words
    no_spare_at: Instant = 0
    no_submit_slot: bool = False  # it takes the place of the runs: it goes
    full_since: Instant = 0  # since when a limit leaves no place for a successor, and the last link comes again
    job_limit: int = 0  # of this user's jobs in the queue, as a refused one showed; 0: none is known
    bad_nodes: tuple[tuple[str, Instant, NodeFault], ...] = ()  # as BadNode
    noted: tuple[str, ...] = ()  # finished claims whose rows are written and counted
    forgotten: tuple[Instant, bool] | None = None  # when the file was found cut off, and whether a tick has told it
    invalid: tuple[Instant, bool, str] | None = None  # the same of values that no tick writes, and their places
    disk_ahead: Difference = 0  # seconds that the disk's clock is ahead of ours
    due: str = ""  # which file scheduler/due was, by its inode and handle: another one is a copy's
    restored: Instant = 0  # when the directory was brought back from a copy: slots until then may have run


class Way(StrEnum):
    """Who calls the ticks, and what follows from that: no other place asks which it is."""

    links: bool  # jobs of ours, each of which submits the next
    daemon: bool  # a process that stays and wakes itself for each slot: in the links, else on this machine
    in_scrontab: bool  # an entry in the user's scrontab
    runs_ahead: bool  # only a login node may submit: the runs of the next `scheduler.ahead` wait in the queue

    # fmt: off
    #           in files    links  daemon in_scrontab runs_ahead
    CHAIN    = "chain",     True,  False, False,      False
    DAEMON   = "daemon",    True,  True,  False,      False
    SCRONTAB = "scrontab",  False, False, True,       False
    LOGIN    = "login",     False, False, False,      True
    LOCAL    = "local",     False, True,  False,      False
    UNKNOWN  = "",          True,  False, False,      False
    # fmt: on

    def __new__(cls, name: str, *follows: bool) -> Self:
        way = str.__new__(cls, name)
        way._value_ = name
        way.links, way.daemon, way.in_scrontab, way.runs_ahead = follows
        return way

    @classmethod
    def _missing_(cls, value: object) -> Way:
        """Another version's word."""
        return cls.LOCAL if value == "resident" else cls.UNKNOWN

    @property
    def start(self) -> Advice:
        """What has them call."""
        return command("start", options=("--daemon",) if self.links and self.daemon else ("--via", self.value))

    @property
    def here(self) -> bool:
        """A daemon on this machine, where there is no batch system."""
        return self.daemon and not self.links


@dataclass(frozen=True, slots=True)
class Started:
    """How ticks are driven here, as `start` wrote it down; "" and 0 where that is not known."""

    via: Way = Way.UNKNOWN
    fingerprint: str = ""  # of the text that links hold
    prequeue: LinksAhead = 1
    at: Instant = 0
    by: str = ""  # user
    generation: int = 0  # a stop from before this start is none to it
    cluster: str = ""
    zone: str = ""  # the machine's
    since: Instant = 0  # when the first start of this generation was

    def way(self, dialect: Dialect) -> Way:
        """Who calls the ticks; where that is not known, who would after `start`."""
        return self.via or (Way.LOCAL if dialect.runs_here else Way.CHAIN)


class Disabled(StrEnum):
    """Why those who are to call the ticks call none."""

    ENTRY_GONE = "its entry is no longer in your scrontab"
    ENTRY_DISABLED = "its entry in your scrontab is disabled, as its job was cancelled"
    DAEMON_ENDED = "its daemon has ended"  # one on this machine
    ELSEWHERE = "on the local backend, whose daemon runs scripts on one machine, if it still does"


@dataclass(frozen=True, slots=True)
class ChainFacts:
    """What the chain's decisions need beyond the queue."""

    wanted: bool  # `start` was called and `stop` was not
    stopped: bool = False  # `stop` was called
    since: int = 0  # when `start` was called first after a `stop`
    fingerprint: str = ""  # of the text and options that links should hold
    on_hold: str = ""  # an administrator's word, in words; "" while it goes on
    prequeue: int = 1  # successors wanted at once
    via: Way = Way.CHAIN
    disabled: Disabled | None = None
    caller: str = ""  # who called this tick, in words
    successor_noted: str = ""  # job id that the last link that ran left as its successor
    bad_nodes: tuple[BadNode, ...] = ()  # links are not to start there
    bad_nodes_changed: bool = False  # since the last tick: what waits is to know of it
    lease_holder: str = ""  # the tick at work just now, which sees to the links, in words
    drops_begin: str = ""  # the job that has begun before its --begin: this site drops it
    ended_badly: Mapping[str, JobEnd] = field(default_factory=dict)  # by job id: the newest links, no tick since
    moved_from: str = ""  # the folder that links look in, where this one was moved since `start`

    @property
    def by_links(self) -> bool:
        """Whether links are to wait in the queue."""
        return self.wanted and self.via.links


class LinkKind(StrEnum):
    """What a link is: the next one to come, or the one behind it."""

    SUCCESSOR = "successor"
    SPARE = "spare"

    @property
    def word(self) -> str:
        """As its job's comment, its arguments and its record say it."""
        return "spare" if self is LinkKind.SPARE else "link"


LINK_WORDS = {kind.word: kind for kind in LinkKind}


@dataclass(frozen=True, slots=True)
class LinkRecord:
    """A link as the one who submitted it wrote it down, beside its job id."""

    kind: LinkKind
    slot: int  # the instant that it stands for
    fingerprint: str  # of the text that it holds
    at: int = 0  # when it was written down
    fresh: bool = False  # it was, after the queue was asked: its job may be missing from the answer


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file below log/: path relative to it, and what retention needs.

    `own` false: another user's, or one with a second name elsewhere. It is cleaned by age alone, and its size is 0.
    """

    path: str
    size: int
    modified: int
    own: bool = True

    @property
    def name(self) -> str:
        """Without its folder."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Accounting:
    """What accounting says of jobs that the queue does not show as live."""

    exists: bool = False  # it has answered before, or the controller's configuration names it
    trouble: str = ""  # why it gave no answer, where it exists
    alive: frozenset[str] = frozenset()  # ids of jobs that it shows as waiting or running


@dataclass(frozen=True, slots=True)
class Rerun:
    """What `cronhpc rerun` asks for: a further attempt of a slot that has run."""

    slot: int  # epoch seconds
    attempt: int  # its number
    tasks: str = ""  # of an array: the only ones to run, as sbatch takes them; "": all


class Scope(StrEnum):
    """What a pass decides on."""

    ALL = "all"
    SWITCHES = "switches"  # the owner's order where no tick of the scheduler comes
    LINKS = "links"  # `start` and `stop`: runs go on


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls a tick, and what for. All left out: one of the scheduler's own, which decides on everything."""

    link: str = ""  # the job id of the scheduler's job that it runs in
    by_daemon: bool = False  # a daemon wakes itself for each slot: nothing is submitted ahead, but where Way.runs_ahead
    bad_nodes: tuple[BadNode, ...] = ()  # those that links could not work on
    only: str = ""  # `run NAME`: the entry id that a slot is made for now, whatever its schedule
    rerun: Rerun | None = None  # of that entry: this slot once more, and no new one
    side_by_side: bool = False  # of that entry: also while a run of it has not ended
    anew: bool = False  # `start`, where it submits: what was cancelled with all else is queued once more
    scope: Scope = Scope.ALL
    takes_back: bool = False  # after a login node's ticks, what they have submitted ahead: `stop`, or another way

    @property
    def whole(self) -> bool:
        """Whether all is decided on, as by a tick of the scheduler: then this look counts as one."""
        return not self.only and self.scope is Scope.ALL


SCHEDULED = Call()


@dataclass(frozen=True, slots=True)
class World:
    """Everything a tick decides on, read once. `queue` None: the batch system gave no answer; unknown is not empty."""

    now: int
    directory_id: str
    settings: Settings
    entries: tuple[Entry, ...] = ()
    series: tuple[Series, ...] = ()
    states: Mapping[str, EntryState] = field(default_factory=dict)  # by entry name
    claims: tuple[Claim, ...] = ()
    links: Mapping[str, LinkRecord] = field(default_factory=dict)  # by job id
    queue: Queue | None = None
    queue_error: str = ""
    job_ends: Mapping[str, JobEnd] | None = field(default_factory=dict)  # by job id; None: nobody answered
    accounting: Accounting = Accounting()
    switches: Switches = Switches()
    skipped: tuple[Problem, ...] = ()  # files that are no entries, and why
    chain: ChainFacts = ChainFacts(wanted=False)
    kept: SchedulerState = field(default_factory=SchedulerState)
    logged: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # entry id -> slot -> jobs that left a log
    call: Call = SCHEDULED
    clock_verified: bool = False  # the batch system has said that it is `now`
    disk_clock: int = 0  # what the file system's clock says, where `now` is far behind it
    dialect: Dialect = SLURM  # whose words advice has
    _made: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)  # by what makes it

    def once(self, make: Callable[[World], T]) -> T:
        """What `make` makes of it, made once."""
        if make not in self._made:
            self._made[make] = make(self)
        made: T = self._made[make]
        return made

    @property
    def believed(self) -> int:
        """A stamp later than this was made by a clock that was wrong: a day ahead, or by what the batch system says.

        Where our own clock is behind the file system's, stamps up to that one are believed.
        """
        usual = CLOCKS_APART if self.clock_verified else _DAY
        room = max(usual, self.settings.ahead + CLOCKS_APART) if self.chain.via.runs_ahead else usual
        return max(self.now + room, self.disk_clock)

    def has_run(self, key: Key) -> bool:
        """Whether a log says so, or nobody knows. Logs are asked only where state/ is older than the newest tick."""
        return key.slot <= self.kept.restored or self.logged.get(key.entry, {}).get(key.slot, 0) >= key.attempt

    def never_ran(self) -> list[Entry]:
        """Scripts that would run, and of which nothing has."""
        ran = {name for name, state in self.states.items() if state.last} | {claim.name for claim in self.claims}
        return [each for each in self.entries if each.script and not each.problem and each.name not in ran]

    def claimed(self) -> dict[Key, Claim]:
        return self.once(_claims_by_key)

    def unwritten(self) -> list[tuple[Claim, JobEnd]]:
        """What has ended by a tick that died before it wrote history.

        What waits for a further attempt, or could not be forgotten, was noted by the tick that finished it.
        """
        noted = {*self.kept.noted, *(state.finished for state in self.states.values())}
        ended = ((claim, claim.job_end) for claim in self.claims if claim.state is ClaimState.FINISHED)
        return [(claim, end) for claim, end in ended if end is not None and claim.note not in noted]

    @property
    def listed(self) -> tuple[Job, ...]:
        """The rows of the queue. Empty also where it is unknown: then they show nothing, and mean nothing."""
        return self.queue.jobs if self.queue is not None else ()

    def standing(self, kind: SwitchKind) -> list[Switch]:
        """The switches of that kind that act now."""
        return [switch for switch in self.switches.listed if switch.kind is kind and not switch.expired(self.now)]

    def jobs(self) -> dict[str, list[Job]]:
        """The rows of the queue by job id: of an array one a task. Empty also where the queue is unknown."""
        return self.once(_rows_by_job)

    def entries_by_id(self) -> dict[str, Entry]:
        """Entries and series by the id that claims carry."""
        return self.once(_entries_by_id)


def _claims_by_key(world: World) -> dict[Key, Claim]:
    return {claim.key: claim for claim in world.claims}


def _rows_by_job(world: World) -> dict[str, list[Job]]:
    return grouped(world.listed, lambda job: job.id)


def _entries_by_id(world: World) -> dict[str, Entry]:
    return {entry_id(each.name): each for each in (*world.entries, *(series.entry for series in world.series))}


# --- what a plan says is to be done and why, and what came of it -----------------------------------------------------


class Reason(StrEnum):
    """The rule that decided; shown everywhere."""

    SUBMIT = "submit"
    AHEAD = "ahead"
    RETRY = "retry"
    AGAIN = "again"  # the claim is ours, and no job was ever recorded for it
    STOPPED = "stopped"
    PAUSED = "paused"
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

    @classmethod
    def by_switch(cls, kind: str) -> Reason:
        """Why a switch of that kind (kill, pause) lets nothing go."""
        return cls.STOPPED if kind == SwitchKind.KILL else cls.PAUSED


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
        """Whether it comes on top of what the schedule asks for; an earlier try of a slot gave it no job."""
        return self.reason is Reason.RETRY or self.key.by_hand


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
    name: str = ""  # its entry's as written, where that is known


@dataclass(frozen=True, slots=True)
class Release:
    """Release the recorded job of `key` (`marked`: only note that it is released already)."""

    key: Key
    job_id: str
    marked: bool = False
    name: str = ""  # as above


class Still(StrEnum):
    """What a job must be, right before it is cancelled."""

    HELD = "held"
    AHEAD = "ahead"  # its slot has not come
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel a job of ours: a late twin, one that can never start, one ahead whose entry is gone or changed."""

    job_id: str
    why: str
    key: Key
    only: Still = Still.HELD
    name: str = ""  # as above


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Cancel `job_id`, submitted ahead for a slot that has not come; its claim is then one that has no job yet."""

    key: Key
    name: str
    job_id: str
    why: str
    gone: bool = False  # it was cancelled already, and never began: its slot may have come since
    drops: bool = False  # the claim goes, too: its slot is in no schedule any more, or there is no scheduler


@dataclass(frozen=True, slots=True)
class Finish:
    """`key` has ended."""

    key: Key
    name: str
    job_end: JobEnd
    retry_at: int | None = None  # when the next attempt is due
    job_id: str | None = None  # its job, where no claim that was read has it


@dataclass(frozen=True, slots=True)
class KeepLink:
    """A successor or spare stays as it is."""

    kind: LinkKind
    job_id: str
    at: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SubmitLink:
    """A successor or spare is missing; `lost`: none of its kind was in the queue.

    `again`: the link that runs; where a limit leaves no place for another, it comes again in its own.
    """

    kind: LinkKind
    at: int
    why: str
    lost: bool = False
    again: str = ""


@dataclass(frozen=True, slots=True)
class MoveLink:
    """A successor or spare starts at another time."""

    kind: LinkKind
    job_id: str
    at: int


@dataclass(frozen=True, slots=True)
class CancelLink:
    """One link too many, or one that cannot serve."""

    kind: LinkKind
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
    """A pause switch reaches these pending tasks that nobody holds; held and tagged in one update."""

    switch: Switch
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Unhold:
    """Their pause switch is gone: tasks that we tagged are released and their comment restored."""

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
    due: Mapping[str, int] = field(default_factory=dict)  # entry id -> the first slot that was due: see Claim.due

    def due_before(self, key: Key) -> int:
        """The first slot of its entry that was due, where `key` is a later one; 0: none."""
        due = self.due.get(key.entry, key.slot)
        return due if due < key.slot and not key.by_hand else 0


class Done(StrEnum):
    OK = "done"
    REFUSED = "refused"  # by act: a switch set since, a claim lost, a limit met
    FAILED = "failed"  # for good
    PASSING = "failed, stays due"  # a passing error


class Obstacle(StrEnum):
    """What kept a decision from being carried out, where more than its words depends on it."""

    SUBMIT_LIMIT = "submit limit"  # the site takes no more jobs of this user
    TAKEN = "taken"  # another tick has claimed it
    NO_ANSWER = "no answer"  # its job may be in the queue
    SHOWN = "shown"  # cancelled, and the queue shows it still


@dataclass(frozen=True, slots=True)
class Outcome:
    decision: Decision
    done: Done
    detail: str = ""
    job_id: str | None = None
    obstacle: Obstacle | None = None
    cause: str = ""  # of an error: what others of this tick have in common with it, where `detail` says more
