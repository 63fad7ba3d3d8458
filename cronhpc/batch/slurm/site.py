"""What a Slurm site offers and allows this user, for `init`, `start` and `doctor`: partitions, accounts, limits.

Queries only; each has a time-out, and after one that got no answer none is asked of the same daemon.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cronhpc.batch.port import Unreachable
from cronhpc.core.model import CronhpcError
from cronhpc.core.model.site import Cluster, Limit, Partition, Site
from cronhpc.script import sbatch_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Ask = Callable[[str, Sequence[str]], str]  # program and arguments to what it printed; raises Unreachable


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
        min_job_age=_number(config.get("MinJobAge", "")),
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


ROOM = "%R|%P|%a|%l|%D|%G|%s|%m|%c"  # also what one job, and one node, may have


def partition_rows(text: str) -> tuple[Partition, ...]:
    """`sinfo -o "%R|%P|%a|%l|%D|%G"`, or of ROOM: a partition has a row for each kind of its nodes."""
    partitions: dict[str, Partition] = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) not in {len("RPalDG"), len("RPalDGsmc")}:
            continue  # a CLUSTER: line
        name, starred, avail, limit, nodes, gres, sizes, memory, cpus = (*fields, "", "", "")[:9]
        before = partitions.get(name, Partition(name))
        partitions[name] = Partition(
            name=name,
            default=starred.endswith("*"),
            up=avail == "up",
            gpus=before.gpus or re.search(r"\b(?:gpu|shard|mps)\b", gres) is not None,
            time_limit=time_limit(limit),
            nodes=before.nodes + (int(nodes) if nodes.isdecimal() else 0),
            most_nodes=_number(sizes.rpartition("-")[2]),
            memory=max(before.memory, _number(memory) or 0),
            cpus=max(before.cpus, _number(cpus) or 0),
        )
    return tuple(partitions.values())


def time_limit(text: str) -> int | None:
    """Seconds in Slurm's "1-02:03:04", "30:00", "infinite"; None for none and for what is no time."""
    try:
        return sbatch_options.time_limit(text)
    except ValueError:
        return None


# --- for `doctor` ---------------------------------------------------------------------------------------------------


def cluster_of(ask: Ask, user: str, qos: str = "") -> Cluster:
    """Ask all of it; `qos`: the one that the settings ask for. Raises Unreachable where there is no answer."""
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
        clock=controller_clock(text),
        accounts_enforced="associations" in config.get("AccountingStorageEnforce", ""),
    )


def controller_clock(text: str) -> int | None:
    """When the controller answered, as `scontrol show config` begins with it (SLURM_TIME_FORMAT=%s): epoch seconds."""
    match = re.search(r"^Configuration data as of (\d+)\s", text, re.MULTILINE)
    return int(match[1]) if match else None


def _number(text: str) -> int | None:
    match = re.match(r"\d+", text)
    return int(match[0]) if match else None


def offers_of(text: str, gpus: set[str]) -> tuple[Partition, ...]:
    """`scontrol --oneliner show partition`; `gpus`: those with GPUs, by sinfo."""
    rows = (dict(_pairs(line)) for line in text.splitlines() if line.startswith("PartitionName="))
    return tuple(_offer(row, gpus) for row in rows)


def _pairs(line: str) -> list[tuple[str, str]]:
    return [(key, value) for key, equals, value in (word.partition("=") for word in line.split()) if equals]


_EXCLUSIVE = {"NODE": "EXCLUSIVE", "YES": "EXCLUSIVE"}  # the field that Slurm 26.05 has for it


def _offer(row: Mapping[str, str], gpus: set[str]) -> Partition:
    name = row["PartitionName"]
    price = re.search(r"\bcpu=([0-9.]+)", row.get("TRESBillingWeights", ""), re.IGNORECASE)
    return Partition(
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


def _limits(ask: Ask, user: str, cluster: str, qos: Sequence[str]) -> tuple[Limit, ...] | None:
    """Of the user's associations, and of the QOS that count for them. None where accounting does not answer."""
    where = [f"user={user}", *([f"cluster={cluster}"] if cluster else [])]
    columns = "format=Account,DefaultQOS,QOS,MaxSubmitJobs,GrpSubmitJobs"
    try:
        rows = _cells(ask("sacctmgr", ["-n", "-P", "show", "assoc", "where", *where, columns]), 5)
        limits = [Limit(f"account {row[0]}", int(each)) for row in rows for each in row[3:] if each.isdecimal()]
        names = {name for name in qos if name} | {row[1] or row[2] for row in rows if "," not in (row[1] or row[2])}
        columns = "format=Name,MaxSubmitJobsPerUser,MaxSubmitJobsPerAccount,GrpSubmitJobs"
        rows = _cells(ask("sacctmgr", ["-n", "-P", "show", "qos", columns]), 4)
    except Unreachable:
        return None
    limits += [Limit(f"QOS {row[0]}", int(n)) for row in rows if row[0] in names for n in row[1:] if n.isdecimal()]
    return tuple(dict.fromkeys(limits))


def _cells(text: str, width: int) -> list[list[str]]:
    return [cells for line in text.splitlines() if len(cells := line.split("|")) == width]
