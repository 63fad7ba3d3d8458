"""The words of cronhpc as values: frozen, small, without behaviour that needs the world.

All instants are whole seconds since 1970-01-01 UTC (`int`); all durations are seconds.
"""

# What is imported here is this package's face.
# ruff: noqa: F401
# mypy: implicit-reexport

from cronhpc.core.model.decisions import (
    Adopt,
    Cancel,
    CancelLink,
    Decision,
    Done,
    Finish,
    Hold,
    KeepLink,
    LeaveCause,
    LeaveChain,
    MoveLink,
    Obstacle,
    Outcome,
    Plan,
    Reason,
    Release,
    Skip,
    Stop,
    Submit,
    SubmitLink,
    Unhold,
    Wait,
    Withdraw,
)
from cronhpc.core.model.entries import (
    Entry,
    EntryRow,
    KillRecord,
    Policies,
    Series,
    Settings,
    SettingsError,
    Switch,
    SwitchSetting,
)
from cronhpc.core.model.runs import (
    ENDS,
    FAILURES,
    LOG_NAME,
    NEVER_STARTS,
    NEW_STATE,
    PAUSED,
    TOKEN,
    UNLISTED,
    Claim,
    ClaimState,
    EntryState,
    Fault,
    Instant,
    Job,
    JobEnd,
    Key,
    Queue,
    Result,
    cut_comment,
    entry_id,
    link_names,
    log_name,
    may_never_start,
    restarted,
    slot_of,
    slot_text,
    standing_for,
    token,
)
from cronhpc.core.model.world import (
    CLOCKS_APART,
    LONGER,
    SCHEDULED,
    Accounting,
    BadNode,
    Call,
    ChainFacts,
    LinkRecord,
    LogFile,
    Rerun,
    SchedulerState,
    Started,
    Told,
    World,
)
from cronhpc.cron.values import CronhpcError
from cronhpc.script.advice import Advice, Command, Problem, StateError, cancelling, command, joined, text_of, texts_of
