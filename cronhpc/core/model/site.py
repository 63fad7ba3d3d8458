"""What is learnt of a site, by `init`, `start` and `doctor` only: its partitions, its limits, a folder's disk."""

from __future__ import annotations

from enum import StrEnum

from cronhpc.cron.values import dataclass


class Level(StrEnum):
    """What a finding comes to, the worst first."""

    ERROR = "error"
    WARNING = "warning"
    UNKNOWN = "unknown"
    ADVICE = "advice"
    FINE = "fine"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing learnt. `settings`: (dotted key, value) that would fix it."""

    level: Level
    topic: str
    what: str
    fix: str = ""
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as this user sees it; from `whole_nodes` on only `scontrol show partition` tells."""

    name: str
    default: bool = False
    up: bool = True
    gpus: bool = False  # any of its nodes has some
    time_limit: int | None = None  # seconds; None: none
    nodes: int = 0
    most_nodes: int | None = None  # of one job; None: no limit, or not asked
    memory: int = 0  # MB of its largest node; 0: not asked
    cpus: int = 0  # of its largest node; 0: not asked
    whole_nodes: bool = False  # a job gets, and pays for, whole nodes
    price: float | None = None  # what a CPU weighs in billing; None: the site says nothing
    accounts: tuple[str, ...] = ()  # the only ones allowed; () for all
    submitters: str = ""  # the only nodes that may submit to it; "" for all
    qos: str = ""  # whose limits count there


@dataclass(frozen=True, slots=True)
class Site:
    """Facts about a cluster; "" and None where nobody could tell."""

    cluster: str = ""
    version: str = ""
    account: str = ""  # the user's default one
    accounts: tuple[str, ...] = ()
    partitions: tuple[Partition, ...] = ()
    accounting: bool | None = None
    min_job_age: int | None = None  # seconds that the controller remembers ended jobs

    @property
    def cpu_partition(self) -> Partition | None:
        """Where housekeeping belongs: without GPUs; the default one if it can, else the largest that is up."""
        able = [each for each in self.partitions if not each.gpus]
        return max(able, key=lambda each: (each.up, each.default, each.nodes), default=None)


@dataclass(frozen=True, slots=True)
class Limit:
    """How many jobs may be in the queue at once, and who says so."""

    whose: str  # "QOS normal", "account abc"
    submit: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """A site in detail, for `doctor`; None and () where nobody could tell."""

    site: Site
    offers: tuple[Partition, ...] = ()
    limits: tuple[Limit, ...] | None = ()  # None: there is accounting, which gave no answer
    kill_wait: int | None = None  # seconds
    requeue: bool | None = None
    clock: int | None = None  # the controller's, when it answered
    accounts_enforced: bool = False


class Reach(StrEnum):
    """From which machines a file system can be seen."""

    SHARED = "shared"
    LOCAL = "local"
    MEMORY = "memory"  # this one, until it restarts
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Disk:
    """Of the folder `path` (the nearest one that exists)."""

    path: str
    kind: str  # "nfs4", "ext4" …; "" unknown
    mount: str
    options: tuple[str, ...]
    reach: Reach
    bytes_free: int
    bytes_total: int
    inodes_free: int
    inodes_total: int  # 0: the file system has no fixed number
    purged: str = ""  # why what lies here may be removed by the site, in words
