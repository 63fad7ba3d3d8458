"""What a lab is asked to be, and where its files lie."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class LabError(Exception):
    """What went wrong, where, and the fix."""


class PortClash(LabError):
    """A daemon ended because somebody else took its port in between."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The wishes of `lab up`. `min_job_age` and all Slurm times in seconds on the lab's own clock."""

    nodes: int = 3
    gpu_nodes: int = 1
    cpus: int = 8
    users: tuple[str, ...] = ()
    group: str = "labgroup"
    accounting: bool = False
    account: str = "abc"
    max_submit: int | None = None  # QOS MaxSubmitJobsPerUser
    enforce: str = "associations,limits,qos"
    min_job_age: int | None = None
    speed: float | None = None
    start_time: float | None = None  # epoch seconds that the lab's clock starts at
    conf: tuple[str, ...] = ()

    @property
    def own_clock(self) -> bool:
        """Whether the lab's clock is not the machine's."""
        return self.speed is not None or self.start_time is not None


@dataclass(frozen=True)
class Ports:
    """The TCP ports of one lab; `nodes` in the order of `node_names`."""

    ctld: int
    nodes: tuple[int, ...]
    dbd: int = 0
    sql: int = 0


@dataclass(frozen=True)
class Layout:
    """Every path of a lab. All under `root`."""

    root: Path

    @property
    def conf(self) -> Path:
        """slurm.conf."""
        return self.root / "etc" / "slurm.conf"

    @property
    def facts(self) -> Path:
        """What `up` wrote down."""
        return self.root / "lab.json"

    @property
    def key(self) -> Path:
        """The munge key."""
        return self.root / "etc" / "munge.key"

    @property
    def munge_socket(self) -> Path:
        """Where munged listens."""
        return self.root / "run" / "munge.sock"

    @property
    def sql(self) -> Path:
        """The database's folder."""
        return self.root / "sql"

    @property
    def tables(self) -> Path:
        """The statements that the database starts with."""
        return self.root / "etc" / "tables.sql"

    @property
    def sql_socket(self) -> Path:
        """Where mariadbd listens."""
        return self.root / "run" / "sql.sock"

    @property
    def keeper_socket(self) -> Path:
        """Where the keeper takes orders; its owner's alone."""
        return self.root / "run" / "keeper.sock"

    @property
    def state(self) -> Path:
        """The controller's StateSaveLocation."""
        return self.root / "state"

    @property
    def spool(self) -> Path:
        """The nodes' spool folders."""
        return self.root / "spool"

    @property
    def log(self) -> Path:
        """Every daemon's log."""
        return self.root / "log"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a running lab is; kept in lab.json."""

    root: str
    options: Options
    ports: Ports
    keeper_pid: int
    keeper_start: str
    version: str
    clock: dict[str, str] = field(default_factory=dict)  # the environment that carries the lab's own clock

    @property
    def layout(self) -> Layout:
        """The paths of this lab."""
        return Layout(Path(self.root))

    @property
    def environment(self) -> dict[str, str]:
        """What a client of this lab needs."""
        return {"SLURM_CONF": str(self.layout.conf), **self.clock}

    def write(self) -> None:
        """Put lab.json in place, whole or not at all."""
        path = self.layout.facts
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n", encoding="utf-8")
        fresh.rename(path)


def read_facts(root: Path) -> Facts:
    """The facts of the lab in `root`.

    Raises LabError when there is none.
    """
    path = Layout(root).facts
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LabError(f"{root}: no lab here. Start one: lab up --dir {root}") from None
    options: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in raw.pop("options").items()
    }
    ports = raw.pop("ports")
    ports["nodes"] = tuple(ports["nodes"])
    return Facts(options=Options(**options), ports=Ports(**ports), **raw)


def node_names(options: Options) -> tuple[str, ...]:
    """cpu1 and on, then gpu1 and on."""
    cpu = [f"cpu{n}" for n in range(1, options.nodes + 1)]
    return (*cpu, *(f"gpu{n}" for n in range(1, options.gpu_nodes + 1)))
