"""What people want: entries with their policies, switches, settings."""

from __future__ import annotations

from enum import StrEnum

from cronhpc.core.model.runs import Instant
from cronhpc.cron.values import CronhpcError, dataclass, field
from cronhpc.script.advice import Problem, joined
from cronhpc.script.dialect import DIALECTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    _T = TypeVar("_T")


class CatchUp(StrEnum):
    """Which of the slots missed while nothing ran are made up for."""

    LATEST = "latest"
    ALL = "all"
    NONE = "none"


class Overlap(StrEnum):
    """What a due slot does while the previous run is pending or running."""

    SKIP = "skip"
    ALLOW = "allow"
    REPLACE = "replace"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class Policies:
    """What may stand behind a schedule (design: the policy table)."""

    timezone: str | None = None  # IANA key; None: the settings', else the machine's
    catch_up: CatchUp = CatchUp.LATEST
    catch_up_limit: int = 100
    deadline: int | None = None  # None: until the next slot (never, for catch-up: all)
    overlap: Overlap = Overlap.SKIP
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
    own_options: tuple[str, ...] | None = None  # the script's, where a wrapper is submitted in its place
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
    command: str = ""  # a row's command: the text that its script is generated with
    arguments: tuple[str, ...] = ()  # of the script
    fresh: bool = False  # changed in the last seconds: left for the next look
    problem: Problem | None = None
    notes: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """A long work that keeps itself going by `cronhpc again`; its pieces are claimed like an entry's slots.

    `entry` has no schedule: what is submitted is a wrapper that runs the script as it is when the piece starts.
    """

    entry: Entry
    when: str = ""  # "every 1h", "after each piece", in words
    runs: int = 0  # pieces that have started
    ends: tuple[str, ...] = ()  # what would end it, in words
    no_next: str = ""  # why nothing is queued; "" while it goes on
    crashed: bool = False  # it has stopped as its pieces failed
    newest: str = ""  # the job of the piece that started last; the first one, a person's, has no claim
    at: int = 0  # when that was
    trouble: str = ""  # why that one has queued no next piece, though no rule of the series ended it
    after: bool = False  # each piece comes as soon as the one before has ended


@dataclass(frozen=True, slots=True)
class Rules:
    """When the next piece of a series is due, and what ends it. Exactly one of `every`, `cron`, `after` is set."""

    every: int = 0  # seconds
    cron: str = ""
    timezone: str = "UTC"
    after: bool = False
    until: str = ""  # a file, absolute
    until_time: Instant | None = None
    max_runs: int | None = None
    max_fast_failures: int | None = 3
    fast: int = 120


# --- switches, what they reach, and what they did ---------------------------------------------------------------------


ALL = "ALL"  # the switch that reaches everything


class SwitchKind(StrEnum):
    """What a switch does; its folder, and the command that sets it, are called so."""

    KILL = "kill"
    PAUSE = "pause"

    @property
    def undo(self) -> str:
        """The command that lifts it."""
        return "unkill" if self is SwitchKind.KILL else "resume"


@dataclass(frozen=True, slots=True)
class Switch:
    """A file in kill/ or pause/ (or a configured place) and what it says."""

    kind: SwitchKind
    name: str  # the file's name, or the configured switch's
    path: str
    by: str  # the file's owner
    since: int  # mtime
    reason: str = ""  # cleaned: one line, printable
    expires: int | None = None

    @property
    def printable(self) -> str:
        """Its name on one printable line: whoever may write there chooses it."""
        name = " ".join("".join(c if c.isprintable() else " " for c in self.name).split())
        return name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…"

    @property
    def title(self) -> str:
        return f"{self.kind}/{self.printable}"

    def expired(self, now: int) -> bool:
        """Whether its `expires:` has passed."""
        return self.expires is not None and self.expires <= now

    @property
    def in_words(self) -> str:
        """Which, by whom and why."""
        return f"{self.title}, by {self.by}" + (f": {self.reason}" if self.reason else "")


_LONGEST_NAME = 80  # characters


@dataclass(frozen=True, slots=True)
class Switches:
    """What lies in the switch folders. Expired ones are among them: whoever acts compares `expires` with now."""

    listed: tuple[Switch, ...] = ()
    unknown: tuple[str, ...] = ()  # folders (or files) that could not be looked at: not the same as empty
    problems: tuple[Problem, ...] = ()  # files that are no switches, dates that cannot be


@dataclass(frozen=True, slots=True)
class KillRecord:
    """What a kill switch has done to a job; kept until the job is gone and its end is recorded."""

    at: Instant  # first warned or cancelled
    name: str  # the switch's, and so on
    by: str
    reason: str
    path: str
    emptied: bool = False  # what was pending of it is cancelled
    warned: bool = False
    cancelled: bool = False  # what ran of it
    gone: bool = False

    @property
    def waited(self) -> bool:
        """Whether nothing of it ran, for all that is known."""
        return self.emptied and not (self.warned or self.cancelled)

    @property
    def in_words(self) -> str:
        """By which switch, by whom and why."""
        return Switch(SwitchKind.KILL, self.name, self.path, self.by, 0, self.reason).in_words


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


class AlertFormat(StrEnum):
    """What `alerts.command` gets."""

    TEXT = "text"
    JSON = "json"


def _key(
    default: _T, key: str, kind: str, example: str, doc: str, *, choices: tuple[str, ...] = (), least: int = 0
) -> _T:
    """A field of Settings: its default, dotted key, kind (`KINDS` of store/settings_reader.py), example and sentence.

    The example is as it would stand in the file, of a table each row on a line; it is the default where there is one.
    """
    about = {"key": key, "kind": kind, "example": example, "doc": doc, "choices": choices, "least": least}
    return field(default=default, metadata=about)


@dataclass(frozen=True, slots=True)
class Settings:
    """`cronhpc.yaml`, every key typed: all that is known of each (store/schema.py reads it from here)."""

    # fmt: off
    timezone: str = _key("", "timezone", "text", "Europe/Paris", "Whose clock schedules follow: an IANA name.")
    sbatch: tuple[tuple[str, str], ...] = _key((), "sbatch", "sbatch", "partition: cpu\naccount: abc@cpu",
        "For entries that name none themselves; the partition only if they ask for no GPU.")
    folders: tuple[tuple[str, str], ...] = _key(
        (("hourly", "H * * * *"), ("daily", "H 4 * * *"), ("weekly", "H 4 * * sun"), ("monthly", "H 4 1 * *")),
        "folders", "folders",
        'hourly: "H * * * *"\ndaily: "H 4 * * *"\nweekly: "H 4 * * sun"\nmonthly: "H 4 1 * *"',
        "When the scripts in cron.hourly/ … run. H is a fixed minute or hour that spreads the load, one per folder.")
    defaults: tuple[tuple[str, str | None, int], ...] = _key((), "defaults", "policies",
        "catch-up: latest\noverlap: skip", "Policies for entries that say nothing.")
    entries: tuple[EntryRow, ...] = _key((), "entries", "entries",
        'hello: {schedule: "*/30 8-18 * * mon-fri", command: echo hello, sbatch: {time: 10}}',
        "Entries without a script of their own in a folder.")
    interval: int = _key(3600, "scheduler.interval", "duration", "1h", "How often the scheduler job runs.", least=1)
    min_interval: int = _key(300, "scheduler.min-interval", "duration", "5m",
        "It may run earlier for a due slot, but not sooner than this after the last time.", least=1)
    ahead: int = _key(86400, "scheduler.ahead", "duration", "1d",
        "With start --via login: runs of this time are submitted ahead, and wait in the queue.", least=60)
    link_sbatch: tuple[tuple[str, str], ...] = _key((("time", "10"),), "scheduler.sbatch", "sbatch", "time: 10",
        "Options of the scheduler job itself; a comment stands behind its own.")
    parallel: int = _key(4, "scheduler.parallel", "count", "4", "How many submissions run at once.", least=1)
    timeout: int = _key(30, "scheduler.timeout", "duration", "30s",
        "How long one call of the batch system may take.", least=1)
    budget_tick: int = _key(1000, "scheduler.budget.tick", "count", "1000", "Most submissions in one tick.", least=1)
    budget_hour: int = _key(2000, "scheduler.budget.hour", "count", "2000", "Most submissions in an hour.", least=1)
    budget_entry: int = _key(20, "scheduler.budget.entry", "count", "20",
        "Most submissions of one entry in an hour beyond its schedule (retries, by hand).", least=1)
    kill_group: str = _key("", "kill.group", "text", "proj", "The Unix group whose members may write kill/ and pause/.")
    kill_also: tuple[str, ...] = _key((), "kill.also", "paths", "[/proj/team/kill]",
        "More folders to look for kill switches in.")
    kill_within: int = _key(600, "kill.within", "duration", "10m",
        "Without a daemon: how soon a switch must act while jobs that it could reach are live.", least=1)
    switches: tuple[SwitchSetting, ...] = _key((), "kill.switches", "switches",
        'training17: {jobs: {name: "tr17-*"}, file: /proj/tmp/training17-kill-switch, warn: USR1@5m}',
        "Switches by a name of your choice: which jobs they reach, a file that a program polls already, a warning.")
    trust_owners: tuple[str, ...] = _key(("me", "root"), "trust.owners", "texts", "[me, root]",
        "Whose scripts may run: me, root, or user names.")
    trust_group: str = _key("", "trust.group", "text", "proj",
        "The one group that may write scripts and their folders.")
    logs_keep: int = _key(7 * 86400, "logs.keep", "duration", "7d", "Logs older than this are removed.")
    logs_files: int = _key(200, "logs.files", "count", "200", "Most logs kept of one entry.", least=1)
    logs_total: int = _key(5 * 1024**3, "logs.total", "size", "5G", "Most bytes of logs in all.")
    logs_extra: tuple[tuple[str, str], ...] = _key((), "logs.extra", "patterns", '~/runs/out: "*.out"',
        "Other folders: what matches goes by age (logs.keep).")
    alerts_mail: tuple[str, ...] = _key((), "alerts.mail", "mails", "alice@example.org",
        "Who gets a mail: by alerts.smtp, else by this machine's sendmail or mail.")
    alerts_smtp: str = _key("", "alerts.smtp", "text", "smtp.example.org",
        "The mail server: HOST, HOST:PORT, or a file (mode 600) with smtps://USER:PASSWORD@HOST.")
    alerts_webhook: tuple[str, ...] = _key((), "alerts.webhook", "texts", "file:~/.slack-hook",
        "Addresses that get a POST, or files (mode 600) that hold one: Slack's form for chats, else JSON.")
    alerts_command: str = _key("", "alerts.command", "text", "mail -s cronhpc alice@example.org",
        "A program that gets each alert on its stdin.")
    alerts_format: str = _key("text", "alerts.format", "choice", "text", "What alerts.command gets: text, or json.",
        choices=tuple(AlertFormat))
    alerts_apprise: tuple[str, ...] = _key((), "alerts.apprise", "texts", "[~/.apprise]",
        "Apprise URLs, or files (mode 600) that hold them.")
    alerts_ping: str = _key("", "alerts.ping", "text", "https://hc.example/uuid",
        "A URL to fetch while the scheduler is well.")
    page: str = _key("", "page", "file", "page.html", "Write the HTML page here after each tick.")
    page_refresh: int = _key(300, "page-refresh", "duration", "5m",
        "A browser loads the page anew this often; 0: never.")
    environment: tuple[str, ...] | None = _key(None, "environment", "names", "[PATH, HOME, LANG]",
        "The only variables that runs get; unset: all but the batch system's and the login's.")
    cluster: str = _key("", "cluster", "text", "lab", "The cluster's name, where one controller serves several.")
    backend: str = _key("", "backend", "choice", "slurm",
        "What runs the scripts; init writes it. Unset, and without a batch system's commands on PATH, nothing runs.",
        choices=tuple(DIALECTS))
    # fmt: on

    @property
    def sends_alerts(self) -> bool:
        """Whether anybody is told of failures."""
        return bool(self.alerts_mail or self.alerts_webhook or self.alerts_command or self.alerts_apprise)
