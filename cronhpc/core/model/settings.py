"""`cronhpc.yaml`, typed."""

from __future__ import annotations

from dataclasses import dataclass

from cronhpc.core.model.advice import joined
from cronhpc.core.model.problems import CronhpcError, Problem
from cronhpc.core.model.switches import SwitchSetting


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
