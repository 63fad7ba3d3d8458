"""What a cluster offers, asked once by `init` and `doctor`: version, account, partitions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cronhpc.core.model import CronhpcError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Ask = Callable[[str, Sequence[str]], str]  # program and arguments to what it printed; raises Unreachable

_DAY = 86400


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as `sinfo` shows it to this user."""

    name: str
    default: bool = False
    up: bool = True
    gpus: bool = False  # any of its nodes has some
    time_limit: int | None = None  # seconds; None: none
    nodes: int = 0


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
        able = [one for one in self.partitions if not one.gpus]
        return max(able, key=lambda one: (one.up, one.default, one.nodes), default=None)


def slurm_site(ask: Ask, user: str) -> Site:
    """Ask Slurm. Raises Unreachable when the controller does not answer; accounting may be silent."""
    config = config_values(ask("scontrol", ["show", "config"]))
    partitions = partition_rows(ask("sinfo", ["--noheader", "--format=%R|%P|%a|%l|%D|%G"]))
    accounting = has_accounting(config)
    cluster = config.get("ClusterName", "")
    account, accounts = _accounts(ask, user, cluster) if accounting else ("", ())
    return Site(
        cluster=cluster,
        version=config.get("SLURM_VERSION", ""),
        account=account,
        accounts=accounts,
        partitions=partitions,
        accounting=accounting if "AccountingStorageType" in config else None,
        min_job_age=_seconds(config.get("MinJobAge", "")),
    )


def _accounts(ask: Ask, user: str, cluster: str) -> tuple[str, tuple[str, ...]]:
    where = [f"user={user}", *([f"cluster={cluster}"] if cluster else [])]
    try:
        default = ask("sacctmgr", ["-n", "-P", "show", "user", user, "format=DefaultAccount"])
        every = ask("sacctmgr", ["-n", "-P", "show", "assoc", "where", *where, "format=Account"])
    except CronhpcError:
        return "", ()
    names = dict.fromkeys(line.strip() for line in every.splitlines() if line.strip())
    return next(iter(default.split()), ""), tuple(names)


def has_accounting(config: Mapping[str, str]) -> bool:
    """Whether the controller's configuration names an accounting database."""
    return config.get("AccountingStorageType", "").endswith("slurmdbd")


def config_values(text: str) -> dict[str, str]:
    """`scontrol show config` as a mapping."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def partition_rows(text: str) -> tuple[Partition, ...]:
    """`sinfo -o "%R|%P|%a|%l|%D|%G"`: a partition has a row for each kind of its nodes."""
    found: dict[str, Partition] = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != len("RPalDG"):
            continue  # a CLUSTER: line
        name, starred, avail, limit, nodes, gres = fields
        before = found.get(name, Partition(name))
        found[name] = Partition(
            name=name,
            default=starred.endswith("*"),
            up=avail == "up",
            gpus=before.gpus or re.search(r"\b(?:gpu|shard|mps)\b", gres) is not None,
            time_limit=time_limit(limit),
            nodes=before.nodes + (int(nodes) if nodes.isdecimal() else 0),
        )
    return tuple(found.values())


def time_limit(text: str) -> int | None:
    """Seconds in Slurm's "1-02:03:04", "30:00", "infinite"; None for none and for what is no time."""
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdecimal() for part in (*parts, *([days] if dash else []))):
        return None
    hours, minutes, seconds = [0, 0, *map(int, parts)][-3:]
    return int(days or 0) * _DAY + hours * 3600 + minutes * 60 + seconds


def _seconds(text: str) -> int | None:
    found = re.match(r"\d+", text)
    return int(found[0]) if found else None
