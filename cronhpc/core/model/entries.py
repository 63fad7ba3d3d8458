"""What people want: entries with their policies, switches, settings."""

from __future__ import annotations

from dataclasses import dataclass

from cronhpc.core.model.advice import CronhpcError, Problem, joined


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
    array: str = ""  # its indexes as the script has them: "1-4%2"
    own_export: str = ""  # the script's own --export: it would keep the run's variables out
    holds_itself: bool = False  # the script asks for --hold: its runs are left held
    own_begin: bool = False  # the script asks for --begin
    command: str = ""  # a row's command: the text that its script is generated with
    arguments: tuple[str, ...] = ()  # of the script
    fresh: bool = False  # changed in the last seconds: left for the next look
    problem: Problem | None = None
    notes: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
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
    trouble: str = ""  # why that one has queued no next piece, though no rule of the series ended it


# --- switches, what they reach, and what they did ---------------------------------------------------------------------


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
class KillRecord:
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


# --- cronhpc.yaml, typed ----------------------------------------------------------------------------------------------


class SettingsError(CronhpcError):
    """`cronhpc.yaml` cannot be used as it is; `problems` name file, line, key and the nearest right key.

    `rest` is what can be used where nothing but rows under `entries:` is wrong (those carry their problem).
    """

    def __init__(self, problems: tuple[Problem, ...], rest: Settings | None = None) -> None:
        super().__init__(joined("\n", (problem.advice for problem in problems)))
        self.problems = problems
        self.rest = rest


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
    ahead: int = 86400  # seconds: start --via login submits the runs of this time ahead
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
