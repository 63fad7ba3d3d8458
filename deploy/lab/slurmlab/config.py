"""Options to the text of slurm.conf and its companions. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .options import LabError, Layout, Options, Ports, node_names

CGROUP_SINCE = (24, 5)  # from here on slurmd does not start in a container unless told to leave cgroups alone
STORE_FLAGS_SINCE = (21, 8)  # before, comments had a key of their own
STAND_INS = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random")  # device files that every machine has
MANY = ("NodeName", "PartitionName", "DownNodes", "NodeSet", "FrontendName")  # keys that may stand more than once


@dataclass(frozen=True)
class Machine:
    """Where the lab runs: `host` is `hostname -s`, `user` the owner of the daemons, `release` as "22.05.8"."""

    host: str
    user: str
    release: str
    loopback_only: bool = False  # the host's name resolves to a loopback address, so daemons may bind to just that
    address: str = "127.0.0.1"


def slurm_conf(options: Options, layout: Layout, ports: Ports, machine: Machine) -> str:
    """The whole of slurm.conf; lines of `options.conf` beat defaults of the same key."""
    lines = [
        *_daemons(layout, ports, machine),
        *_behaviour(options),
        *_times(options),
        *_accounting(options, layout, ports, machine.release),
        *_nodes(options, ports, machine),
    ]
    return "\n".join(merge(lines, options.conf)) + "\n"


def merge(lines: list[str], extra: tuple[str, ...]) -> list[str]:
    """`lines` with `extra` over them: same key replaced (a node or partition by its like), new ones before the nodes.

    Raises LabError for a line that is not Key=Value.
    """
    merged = {_identity(line): line for line in lines}
    for line in extra:
        merged[_identity(line)] = line
    plain = [line for key, line in merged.items() if "=" not in key]
    return plain + [line for key, line in merged.items() if "=" in key]


def _identity(line: str) -> str:
    key, equals, value = line.strip().partition("=")
    if not equals or not key.strip().isalnum():
        raise LabError(f"--conf {line!r}: not a slurm.conf line. Write Key=Value, as in --conf MessageTimeout=20")
    key = key.strip()
    several = {name.lower() for name in MANY}
    return f"{key.lower()}={value.split()[0]}" if key.lower() in several else key.lower()


def _daemons(layout: Layout, ports: Ports, machine: Machine) -> list[str]:
    root = layout.root
    return [
        "ClusterName=lab",
        f"SlurmctldHost={machine.host}({machine.address})",
        f"SlurmctldPort={ports.ctld}",
        f"SlurmUser={machine.user}",
        f"SlurmdUser={machine.user}",
        "AuthType=auth/munge",
        f"AuthInfo=socket={layout.munge_socket}",
        "CredType=cred/munge",
        f"StateSaveLocation={layout.state}",
        f"SlurmdSpoolDir={layout.spool}/%n",
        f"SlurmctldPidFile={root}/run/slurmctld.pid",
        f"SlurmdPidFile={root}/run/%n.pid",
        f"SlurmctldLogFile={layout.log}/slurmctld.log",
        f"SlurmdLogFile={layout.log}/%n.log",
        *(["CommunicationParameters=NoCtldInAddrAny,NoInAddrAny"] if machine.loopback_only else []),
    ]


def _behaviour(options: Options) -> list[str]:
    return [
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/none",
        "MpiDefault=none",
        "MailProg=/bin/true",
        "ReturnToService=2",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        "SchedulerType=sched/backfill",
        # without these a job waits up to 30 s to start
        "SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1",
        "SlurmdParameters=config_overrides",  # a node may claim more CPUs than this machine has
        "MaxJobCount=20000",
        *(["GresTypes=gpu"] if options.gpu_nodes else []),
    ]


def _times(options: Options) -> list[str]:
    age = options.min_job_age
    if options.speed is None or options.speed <= 1:
        return [f"MinJobAge={300 if age is None else age}", "KillWait=2"]
    # all count on the compressed clock, where the defaults would be milliseconds; a busy machine needs real seconds
    return [
        f"MinJobAge={3600 if age is None else age}",
        "KillWait=30",
        f"MessageTimeout={max(100, round(2 * options.speed))}",
        f"TCPTimeout={max(60, round(options.speed))}",
        "SlurmdTimeout=0",
        "BatchStartTimeout=3600",
        "UnkillableStepTimeout=3600",  # else a step that ends slowly drains its node
    ]


def _accounting(options: Options, layout: Layout, ports: Ports, release: str) -> list[str]:
    if not options.accounting:
        return []
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={ports.dbd}",
        f"AccountingStoragePass={layout.munge_socket}",  # else the machine's own munge is tried, and every call fails
        "AccountingStoreFlags=job_comment" if _since(release, STORE_FLAGS_SINCE) else "AccountingStoreJobComment=yes",
        f"AccountingStorageEnforce={options.enforce}",
    ]


def _nodes(options: Options, ports: Ports, machine: Machine) -> list[str]:
    names = node_names(options)
    common = f"NodeHostname={machine.host} NodeAddr={machine.address} CPUs={options.cpus} RealMemory=4000 State=UNKNOWN"
    nodes = [
        f"NodeName={name} {common}{_gres(name)} Port={port}" for name, port in zip(names, ports.nodes, strict=True)
    ]
    partitions = [("cpu", options.nodes), ("gpu", options.gpu_nodes)]
    default = "cpu" if options.nodes else "gpu"
    return nodes + [
        f"PartitionName={name} Nodes={name}[1-{count}] Default={'YES' if name == default else 'NO'} MaxTime=INFINITE"
        for name, count in partitions
        if count
    ]


def _gres(name: str) -> str:
    return f" Gres=gpu:{len(STAND_INS)}" if name.startswith("gpu") else ""


def gres_conf(options: Options) -> str:
    """Four GPUs on each gpu node. Slurm wants a device file each, and looks only whether it exists."""
    if not options.gpu_nodes:
        return ""
    return "".join(f"NodeName=gpu[1-{options.gpu_nodes}] Name=gpu File={device}\n" for device in STAND_INS)


def cgroup_conf(release: str) -> str:
    """The text of cgroup.conf, empty where none is needed."""
    return "CgroupPlugin=disabled\n" if _since(release, CGROUP_SINCE) else ""


def _since(release: str, first: tuple[int, int]) -> bool:
    year, month = release.split(".")[:2]
    return (int(year), int(month)) >= first


def slurmdbd_conf(layout: Layout, ports: Ports, machine: Machine, sql_user: str) -> str:
    """slurmdbd.conf (its file must have mode 600)."""
    return "\n".join(
        [
            "AuthType=auth/munge",
            f"AuthInfo=socket={layout.munge_socket}",
            "DbdHost=localhost",
            "DbdAddr=127.0.0.1",
            f"DbdPort={ports.dbd}",
            f"SlurmUser={machine.user}",
            "StorageType=accounting_storage/mysql",
            "StorageHost=127.0.0.1",
            f"StoragePort={ports.sql}",
            f"StorageUser={sql_user}",
            "StorageLoc=slurm_acct_db",
            f"PidFile={layout.root}/run/slurmdbd.pid",
            f"LogFile={layout.log}/slurmdbd.log",
            "",
        ]
    )


def release(text: str) -> str:
    """The release that `slurmctld -V` prints ("slurm 22.05.8", "slurm-wlm 24.11.5").

    Raises LabError when there is none.
    """
    found = re.search(r"\b\d+\.\d+(\.\d+)?", text)
    if found is None:
        raise LabError(f"slurmctld -V said {text.strip()!r}: no release in it")
    return found.group()
