"""What status.json and `status --json` hold: the facts that views draw, and that one user reads of another.

A record's fields are the keys of its JSON, in their order; its instants are ISO 8601 there.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from cronhpc.core.model import ENDS, Instant, Problem, Way, decode
from cronhpc.cron.values import dataclass
from cronhpc.script.dialect import DIALECTS, SLURM, Dialect
from cronhpc.views import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION = 1
_DEEPEST = 20  # mappings and lists in each other


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch system: whether it answers, and what went wrong."""

    name: str
    answers: bool
    error: str
    accounting_error: str | None

    @property
    def dialect(self) -> Dialect:
        """Its words; Slurm's where another version wrote a name that is none here."""
        return DIALECTS.get(self.name, SLURM)


@dataclass(frozen=True, slots=True)
class Cost:
    """What the scheduler's own jobs took in the last `days`."""

    days: int
    jobs: int
    cpu_seconds: int


@dataclass(frozen=True, slots=True)
class Link:
    """A link of the chain that waits; `at` is None where it cannot start by itself."""

    job: str | None
    at: Instant | None
    reason: str
    fault: str | None = None  # why it goes no further until somebody does something (Fault)


@dataclass(frozen=True, slots=True)
class EndedLink:
    """A link that ended otherwise than it should."""

    job: str
    result: str
    exit_code: int | None
    signal: int | None
    ended: Instant | None
    node: str


@dataclass(frozen=True, slots=True)
class Ahead:
    """Links submitted ahead: how many, and when the last one starts."""

    links: int
    until: Instant | None


@dataclass(frozen=True, slots=True)
class Chain:
    """The chain as a tick saw it; `state` and `fix` are its health at the moment of looking."""

    EARLIER = {"resident": "by_daemon", "resting": "on_hold"}  # noqa: RUF012 - names in earlier versions

    wanted: bool
    stopped: bool  # `cronhpc stop` was called
    by_links: bool
    by_daemon: bool  # calls the ticks
    disabled: str
    via: Way
    caller: str
    interval: int  # seconds
    runs_ahead: int  # seconds for which runs are queued ahead
    last_tick: Instant | None
    running: str | None
    next: Link | None
    spare: Link | None
    on_hold: str
    no_spare: str
    ahead: Ahead | None
    moved_from: str
    state: str
    fix: str
    ended_badly: tuple[EndedLink, ...] | None = None  # the newest, and no tick came since; where they were asked about
    full_since: Instant | None = None  # a submit limit leaves no place for a successor: the last link comes again


@dataclass(frozen=True, slots=True)
class SwitchOn:
    """The switch that holds an entry. `ours`: `unkill` or `resume` removes it; else it lies in a team's folder."""

    kind: str
    name: str
    path: str
    by: str
    since: Instant | None
    reason: str
    expires: Instant | None
    expired: bool
    ours: bool


@dataclass(frozen=True, slots=True)
class SwitchStatus:
    """A switch, and which jobs it reached and has not ended: with their nodes, until `ends`, or not at all."""

    kind: str
    name: str
    path: str
    by: str
    since: Instant | None
    reason: str
    expires: Instant | None
    expired: bool
    ours: bool
    ending: tuple[str, ...]
    warned: tuple[str, ...]
    ends: Instant | None
    left_alone: tuple[str, ...]
    ended: bool | None = None  # it names a job by its id, which is in no queue any more
    unmatched: str | None = None  # that nothing is called so, in words


class Untold(StrEnum):
    """The state of an attempt that has not ended, as far as is known, where the queue tells none."""

    SUBMITTING = "SUBMITTING"  # its slot is claimed, and no job of it is recorded
    SUBMITTED = "SUBMITTED"
    UNKNOWN = "UNKNOWN"  # the queue does not answer
    ENDED = "ENDED"  # nobody tells yet how


@dataclass(frozen=True, slots=True)
class LiveRun:
    """An attempt that has not ended; `state` as the queue has it, else one of Untold."""

    job: str | None
    slot: Instant | None
    attempt: int
    by_hand: bool
    state: str
    absent: str | None  # why the queue does not show it
    restarts: int | None
    reason: str
    held: bool
    started: Instant | None
    since: Instant | None
    ready: Instant | None  # from when it waits
    ahead: bool  # its slot is to come
    node: str
    paused: bool | None = None  # a pause switch holds it

    @property
    def gone(self) -> bool:
        """Whether its job has ended, though no tick has finished it."""
        return self.state == Untold.ENDED or self.state in ENDS

    fault: str | None = None  # as above


class Live(StrEnum):
    """What a run that has not ended is called in `history`."""

    SUBMITTED = "submitted"
    PENDING = "pending"
    HELD = "held"
    RUNNING = "running"
    ENDED = "ended"


LIVE = frozenset(Live)


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """A run or slot as history has it; `waited` and `took` are seconds. `switch`: what a switch stopped."""

    entry: str
    slot: Instant | None
    attempt: int
    by_hand: bool
    result: str
    exit_code: int | None
    signal: int | None
    job: str | None
    submitted: Instant | None
    started: Instant | None
    ended: Instant | None
    waited: int | None
    took: int | None
    node: str
    detail: str
    count: int  # of slots that were passed over together
    log: str
    switch: bool | None = None
    tasks: str | None = None  # of an array: those that failed, as sbatch takes them


@dataclass(frozen=True, slots=True)
class SeriesStatus:
    """What an entry is, too, that keeps itself going."""

    EARLIER = {"resting": "no_next"}  # noqa: RUF012 - names in earlier versions

    when: str
    runs: int
    ends: tuple[str, ...]
    no_next: str
    crashed: bool  # it has stopped as its pieces failed
    trouble: str
    going: bool
    start: str  # the command that begins it anew
    after: bool  # each piece comes as soon as the one before has ended


@dataclass(frozen=True, slots=True)
class EntryStatus:
    """An entry, or a series."""

    name: str
    id: str
    source: str
    schedule: str
    timezone: str
    hash_key: str
    reason: str
    detail: str
    problem: Problem | None
    switch: SwitchOn | None
    next: Instant | None
    runs: tuple[LiveRun, ...]
    last: HistoryRun | None
    successes: int
    failures: int
    bad_node: str
    suspended: Instant | None
    suspend_after: int | None
    overlap: str
    retries: int
    previous_success: Instant | None
    notes: tuple[Problem, ...]
    series: SeriesStatus | None


@dataclass(frozen=True, slots=True)
class DeletedEntry:
    """Runs that go on though their entry was deleted."""

    name: str
    runs: tuple[LiveRun, ...]


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a tick could not do."""

    decision: str  # its Kind (views/decisions), or another version's word
    entry: str | None
    link: str | None
    slot: Instant | None
    job: str | None
    switch: str | None
    done: str
    detail: str
    at: Instant
    cause: str | None = None  # what others have in common with it


class Concern(StrEnum):
    """What a notice is of."""

    BATCH = "batch"
    UNSENT = "unsent"  # alerts
    SWITCH = "switch"
    EXPIRED = "expired"  # a switch
    SUSPENDED = "suspended"
    FAILED = "failed"
    MISSED = "missed"
    INVALID = "invalid"
    NOT_TRUSTED = "not trusted"
    BUDGET = "budget"
    HELD = "held"
    RESTARTS = "restarts"
    ENDED = "ended"  # a series
    TROUBLE = "trouble"
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Notice:
    """What somebody has to look at; `when` and `at` together say since when: "since", an instant."""

    kind: str  # a Concern, or another version's word
    name: str
    what: str
    when: str
    at: Instant | None
    fix: str
    cause: tuple[str, ...] | None = None  # what it has in common with others, where `what` names more


@dataclass(frozen=True, slots=True)
class Status:
    """All of it: as of `now`, looked at when it is `seen`."""

    version: int
    cronhpc: str
    now: Instant
    directory: str
    owner: str
    host: str
    cluster: str
    timezone: str
    batch: Batch
    series_only: bool
    cost: Cost | None
    chain: Chain
    entries: tuple[EntryStatus, ...]
    deleted: tuple[DeletedEntry, ...]
    trouble: tuple[Trouble, ...]
    switches: tuple[SwitchStatus, ...]
    attention: tuple[Notice, ...]
    seen: Instant
    needs_attention: bool
    other_chains: tuple[str, ...] | None = None  # jobs of the user's other cron directories, where they were looked for


# What a file may lack, and what holds then: earlier versions did not write it, or only where it is known (None).
_MAY_LACK: dict[type, Mapping[str, Any]] = {
    Batch: {"accounting_error": None},
    Chain: {**dict.fromkeys(("disabled", "caller", "state", "fix"), ""), "runs_ahead": 0, "ended_badly": None}
    | {"via": Way.UNKNOWN, "full_since": None},
    EntryStatus: {"retries": 0},
    SeriesStatus: {"crashed": False, "after": False},
    Link: {"fault": None},
    LiveRun: {"absent": None, "restarts": None, "paused": None, "fault": None},
    SwitchStatus: {"ended": None, "unmatched": None},
    Notice: {"cause": None},
    Trouble: {"cause": None},
    HistoryRun: {"switch": None, "tasks": None},
    Status: {"series_only": False, "deleted": (), "seen": 0, "needs_attention": False, "other_chains": None},
}
_RECORDS = decode.Records(_MAY_LACK)
as_json = _RECORDS.whole


def of_json(value: object) -> Status:
    """What a tick wrote. A colleague's may hold anything: raises MisfitError with the place of what does not fit."""
    return _RECORDS.exact(Status, value)


def troubles(value: object) -> tuple[Trouble, ...]:
    """Those in it alone: the rest, with a row an entry, is not read for them. Raises MisfitError."""
    rows = value.get("trouble") if isinstance(value, Mapping) else None
    return tuple(_RECORDS.exact(Trouble, row) for row in cleaned(rows)) if isinstance(rows, list) else ()


def cleaned(value: Any, deepest: int = _DEEPEST) -> Any:
    """`value` with every text in it as one printable line: it is shown on another user's terminal.

    What lies deeper than anything of ours is left out: no program could print it.
    """
    if isinstance(value, Mapping):
        return {key: cleaned(each, deepest - 1) for key, each in value.items()} if deepest else {}
    if isinstance(value, list):
        return [cleaned(each, deepest - 1) for each in value] if deepest else []
    return text.clean(value) if isinstance(value, str) and not value.isprintable() else value
