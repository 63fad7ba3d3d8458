"""What a Slurm site allows this user, for `doctor`: partitions with their limits and prices, and limits on submission.

Queries only; each has a time-out, and after one that got no answer none is asked of the same daemon.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cronhpc.batch.port import Unreachable
from cronhpc.batch.site import Site, config_values, slurm_site, time_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Ask = Callable[[str, Sequence[str]], str]  # program and arguments to what it printed; raises Unreachable


@dataclass(frozen=True, slots=True)
class Offer:
    """A partition as `scontrol show partition` has it."""

    name: str
    default: bool = False
    up: bool = True
    gpus: bool = False
    time_limit: int | None = None  # seconds; None: none
    nodes: int = 0
    whole_nodes: bool = False  # a job gets, and pays for, whole nodes
    price: float | None = None  # what a CPU weighs in billing; None: the site says nothing
    accounts: tuple[str, ...] = ()  # the only ones allowed; () for all
    submitters: str = ""  # the only nodes that may submit to it; "" for all
    qos: str = ""  # whose limits count there


@dataclass(frozen=True, slots=True)
class Limit:
    """How many jobs may be in the queue at once, and who says so."""

    whose: str  # "QOS normal", "account abc"
    submit: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """What could be learnt; None and () where nobody could tell."""

    site: Site
    offers: tuple[Offer, ...] = ()
    limits: tuple[Limit, ...] = ()
    kill_wait: int | None = None
    requeue: bool | None = None
    scrontab: bool | None = None
    clock: int | None = None  # the controller's, when it answered
    accounts_enforced: bool = False


def cluster_of(ask: Ask, user: str, qos: str = "") -> Cluster:
    """Ask all of it; `qos`: the one that the settings ask for. Raises Unreachable where the controller is away."""
    asked: dict[tuple[str, ...], str] = {}

    def once(program: str, arguments: Sequence[str]) -> str:
        key = (program, *arguments)
        if key not in asked:
            asked[key] = ask(program, arguments)
        return asked[key]

    text = once("scontrol", ["show", "config"])
    config = config_values(text)
    site = slurm_site(once, user)
    gpus = {each.name for each in site.partitions if each.gpus}
    offers = offers_of(once("scontrol", ["--oneliner", "show", "partition"]), gpus)
    wanted = [qos, *(each.qos for each in offers)]
    return Cluster(
        site=site,
        offers=offers,
        limits=_limits(once, user, site.cluster, wanted) if site.accounting else (),
        kill_wait=_number(config.get("KillWait", "")),
        requeue={"1": True, "0": False}.get(config.get("JobRequeue", "")),
        scrontab="enable" in config.get("ScronParameters", "").lower() if "ScronParameters" in config else None,
        clock=_clock(text),
        accounts_enforced="associations" in config.get("AccountingStorageEnforce", ""),
    )


def _clock(text: str) -> int | None:
    """`scontrol show config` begins with the moment at which the controller answered (SLURM_TIME_FORMAT=%s)."""
    found = re.match(r"Configuration data as of (\d{9,})\s", text)
    return int(found[1]) if found else None


def _number(text: str) -> int | None:
    found = re.match(r"\d+", text)
    return int(found[0]) if found else None


def offers_of(text: str, gpus: set[str]) -> tuple[Offer, ...]:
    """`scontrol --oneliner show partition`; `gpus`: those with GPUs, by sinfo."""
    rows = (dict(_pairs(line)) for line in text.splitlines() if line.startswith("PartitionName="))
    return tuple(_offer(row, gpus) for row in rows)


def _pairs(line: str) -> list[tuple[str, str]]:
    return [(key, value) for key, equals, value in (word.partition("=") for word in line.split()) if equals]


_EXCLUSIVE = {"NODE": "EXCLUSIVE", "YES": "EXCLUSIVE"}  # the field that Slurm 26.05 has for it


def _offer(row: Mapping[str, str], gpus: set[str]) -> Offer:
    name = row["PartitionName"]
    price = re.search(r"\bcpu=([0-9.]+)", row.get("TRESBillingWeights", ""), re.IGNORECASE)
    return Offer(
        name,
        default=row.get("Default") == "YES",
        up=row.get("State") == "UP",
        gpus=name in gpus or "gres/gpu" in row.get("TRES", ""),
        time_limit=time_limit(row.get("MaxTime", "")),
        nodes=_number(row.get("TotalNodes", "")) or 0,
        whole_nodes="EXCLUSIVE" in (row.get("OverSubscribe"), _EXCLUSIVE.get(row.get("Exclusive", ""))),
        price=float(price[1]) if price else None,
        accounts=_only(row.get("AllowAccounts", "")),
        submitters="" if row.get("AllocNodes", "ALL") == "ALL" else row["AllocNodes"],
        qos="" if row.get("QoS", "N/A") == "N/A" else row["QoS"],
    )


def _only(text: str) -> tuple[str, ...]:
    return () if text in {"", "ALL", "(null)"} else tuple(text.split(","))


def _limits(ask: Ask, user: str, cluster: str, qos: Sequence[str]) -> tuple[Limit, ...]:
    """Of the user's associations, and of the QOS that count for them. () where accounting does not answer."""
    where = [f"user={user}", *([f"cluster={cluster}"] if cluster else [])]
    columns = "format=Account,DefaultQOS,QOS,MaxSubmitJobs,GrpSubmitJobs"
    try:
        rows = _rows(ask("sacctmgr", ["-n", "-P", "show", "assoc", "where", *where, columns]), 5)
        found = [Limit(f"account {row[0]}", int(each)) for row in rows for each in row[3:] if each.isdecimal()]
        names = {name for name in qos if name} | {row[1] or row[2] for row in rows if "," not in (row[1] or row[2])}
        columns = "format=Name,MaxSubmitJobsPerUser,MaxSubmitJobsPerAccount,GrpSubmitJobs"
        rows = _rows(ask("sacctmgr", ["-n", "-P", "show", "qos", columns]), 4)
    except Unreachable:
        return ()
    found += [Limit(f"QOS {row[0]}", int(n)) for row in rows if row[0] in names for n in row[1:] if n.isdecimal()]
    return tuple(dict.fromkeys(found))


def _rows(text: str, width: int) -> list[list[str]]:
    return [cells for line in text.splitlines() if len(cells := line.split("|")) == width]
