"""The typed table of `cronhpc.yaml`: it drives the parser, the file that `init` writes, and the docs.

Defaults are those of `core.model.Settings`, stated there once.
"""

from __future__ import annotations

from dataclasses import dataclass

from cronhpc.core.model import Settings


@dataclass(frozen=True, slots=True)
class Setting:
    """One key: its dotted name, the field of Settings that it fills, what it may be, and what it is for."""

    key: str
    field: str
    kind: str  # a name in KINDS
    doc: str
    example: str  # as it would stand in the file; of a table, each row on a line
    choices: tuple[str, ...] = ()
    least: int = 0


KINDS = {
    "text": "text",
    "choice": "one of",
    "texts": "list of texts",
    "names": "list of variable names",
    "paths": "list of absolute paths",
    "file": "path, in the cron directory unless absolute",
    "duration": "duration: 90s, 10m, 1h30m, 7d",
    "size": "size: 500M, 5G",
    "count": "whole number",
    "sbatch": "sbatch options, long names without dashes",
    "folders": "schedule for hourly, daily, weekly, monthly",
    "policies": "policies, as after a #CRON line's schedule, without dashes",
    "entries": "name: {schedule, command or script, sbatch, environment, policies}",
    "switches": "name: {jobs: {name, partition, account, workdir}, file, warn}",
    "patterns": "folder: file pattern",
}

TABLES = frozenset({"sbatch", "folders", "policies", "entries", "switches", "patterns"})

TABLE = (
    Setting("timezone", "timezone", "text", "Whose clock schedules follow: an IANA name.", "Europe/Paris"),
    Setting(
        "sbatch",
        "sbatch",
        "sbatch",
        "For entries that name none themselves; the partition only if they ask for no GPU.",
        "partition: cpu\naccount: abc@cpu",
    ),
    Setting(
        "folders",
        "folders",
        "folders",
        "When the scripts in cron.hourly/ … run. H is a fixed minute or hour that spreads the load, one per folder.",
        'hourly: "H * * * *"\ndaily: "H 4 * * *"\nweekly: "H 4 * * sun"\nmonthly: "H 4 1 * *"',
    ),
    Setting(
        "defaults",
        "defaults",
        "policies",
        "Policies for entries that say nothing.",
        "catch-up: latest\noverlap: skip",
    ),
    Setting(
        "entries",
        "entries",
        "entries",
        "Entries without a script of their own in a folder.",
        'hello: {schedule: "*/30 8-18 * * mon-fri", command: echo hello, sbatch: {time: 10}}',
    ),
    Setting("scheduler.interval", "interval", "duration", "How often the scheduler job runs.", "1h", least=1),
    Setting(
        "scheduler.min-interval",
        "min_interval",
        "duration",
        "It may run earlier for a due slot, but not sooner than this after the last time.",
        "5m",
        least=1,
    ),
    Setting(
        "scheduler.ahead",
        "ahead",
        "duration",
        "With start --via login: runs of this time are submitted ahead, and wait in the queue.",
        "1d",
        least=60,
    ),
    Setting(
        "scheduler.sbatch",
        "link_sbatch",
        "sbatch",
        "Options of the scheduler job itself; a comment stands behind its own.",
        "time: 10",
    ),
    Setting("scheduler.parallel", "parallel", "count", "How many sbatch calls run at once.", "4", least=1),
    Setting(
        "scheduler.timeout", "timeout", "duration", "How long one call of the batch system may take.", "30s", least=1
    ),
    Setting("scheduler.budget.tick", "budget_tick", "count", "Most submissions in one tick.", "1000", least=1),
    Setting("scheduler.budget.hour", "budget_hour", "count", "Most submissions in an hour.", "2000", least=1),
    Setting(
        "scheduler.budget.entry",
        "budget_entry",
        "count",
        "Most submissions of one entry in an hour beyond its schedule (retries, by hand).",
        "20",
        least=1,
    ),
    Setting("kill.group", "kill_group", "text", "The Unix group whose members may write kill/ and pause/.", "proj"),
    Setting("kill.also", "kill_also", "paths", "More folders to look for kill switches in.", "[/proj/team/kill]"),
    Setting(
        "kill.within",
        "kill_within",
        "duration",
        "Without a daemon: how soon a switch must act while jobs that it could reach are live.",
        "10m",
        least=1,
    ),
    Setting(
        "kill.switches",
        "switches",
        "switches",
        "Switches by a name of your choice: which jobs they reach, a file that a program polls already, a warning.",
        'training17: {jobs: {name: "tr17-*"}, file: /proj/tmp/training17-kill-switch, warn: USR1@5m}',
    ),
    Setting("trust.owners", "trust_owners", "texts", "Whose scripts may run: me, root, or user names.", "[me, root]"),
    Setting("trust.group", "trust_group", "text", "The one group that may write scripts and their folders.", "proj"),
    Setting("logs.keep", "logs_keep", "duration", "Logs older than this are removed.", "7d"),
    Setting("logs.files", "logs_files", "count", "Most logs kept of one entry.", "200", least=1),
    Setting("logs.total", "logs_total", "size", "Most bytes of logs in all.", "5G"),
    Setting(
        "logs.extra",
        "logs_extra",
        "patterns",
        "Other folders: what matches goes by age (logs.keep).",
        '~/runs/out: "*.out"',
    ),
    Setting("alerts.command", "alerts_command", "text", "Gets each alert as JSON on its stdin.", "~/bin/notify"),
    Setting(
        "alerts.apprise", "alerts_apprise", "texts", "Apprise URLs, or files (mode 600) that hold them.", "[~/.apprise]"
    ),
    Setting(
        "alerts.ping", "alerts_ping", "text", "A URL to fetch while the scheduler is well.", "https://hc.example/uuid"
    ),
    Setting("page", "page", "file", "Write the HTML page here after each tick.", "page.html"),
    Setting(
        "environment",
        "environment",
        "names",
        "The only variables that runs get; unset: all but the batch system's and the login's.",
        "[PATH, HOME, LANG]",
    ),
    Setting("cluster", "cluster", "text", "The cluster's name, where one controller serves several.", "lab"),
    Setting(
        "backend",
        "backend",
        "choice",
        "What runs the scripts; init writes it. Unset, and without sbatch on PATH, nothing runs.",
        "slurm",
        choices=("slurm", "local"),
    ),
)

BY_KEY = {setting.key: setting for setting in TABLE}

POLICIES = (
    "timezone", "catch-up", "catch-up-limit", "deadline", "overlap", "retries", "retry-delay", "suspend-after",
    "record", "ping",
)  # fmt: skip
ENTRY_ABOUT = {
    "schedule": "When, as after #CRON. Needed.",
    "command": "What to run in a shell: one text, or a list of words. This or script.",
    "script": "A batch script to submit as it is; its path, in the cron directory unless absolute.",
    "sbatch": "sbatch options of this row, over those at the top.",
    "environment": "Variables for its runs: {NAME: value}.",
}
ENTRY_KEYS = (*ENTRY_ABOUT, *POLICIES)
FOLDERS = ("hourly", "daily", "weekly", "monthly")
SWITCH_ABOUT = {
    "jobs": "All that fit each of: name (as in a shell: tr17-*), partition, account, workdir (or below it).",
    "file": "A file whose presence sets the switch as well: one that a program polls already.",
    "warn": "SIGNAL@TIME: running jobs get the signal, and are cancelled so much later.",
}
SWITCH_KEYS = tuple(SWITCH_ABOUT)
SWITCH_JOB_KEYS = ("name", "partition", "account", "workdir")


def level(prefix: str) -> tuple[str, ...]:
    """The keys that may stand under `prefix` ("" or "scheduler."), without it."""
    names = (setting.key.removeprefix(prefix) for setting in TABLE if setting.key.startswith(prefix))
    return tuple(dict.fromkeys(name.split(".")[0] for name in names))


def describe() -> list[tuple[str, str, str, str]]:
    """(key, type, default, doc) of every setting, for the docs."""
    plain = Settings()
    return [
        (row.key, f"{KINDS[row.kind]} {', '.join(row.choices)}".strip(), _shown(row, plain), row.doc) for row in TABLE
    ]


def _shown(row: Setting, plain: Settings) -> str:
    value = getattr(plain, row.field)
    if value in ("", (), None):
        return "-"
    if row.kind in {"text", "choice", "path"}:
        return str(value)
    if row.kind in TABLES:
        return "{" + ", ".join(row.example.split("\n")) + "}"
    return row.example  # the test holds that an example of a key with a default is that default
