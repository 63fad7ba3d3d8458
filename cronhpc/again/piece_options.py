"""`cronhpc again`, decided: which sbatch options the next piece gets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cronhpc.core.model import log_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOT_KEPT = ("signal", "export", "open-mode")  # Slurm does not tell them of a running job
_ANY = frozenset({"", "(null)", "N/A", "0"})
_FROM_SLURM = (  # sbatch option, the field of `scontrol show job`, further values that mean nothing was asked
    ("partition", "Partition", ()),
    ("account", "Account", ()),
    ("qos", "QOS", ("normal",)),
    ("reservation", "Reservation", ()),
    ("time", "TimeLimit", ("UNLIMITED", "Partition_Limit")),
    ("nodes", "NumNodes", ("1",)),
    ("ntasks", "NumTasks", ("1",)),
    ("ntasks-per-node", "NtasksPerN:B:S:C", ()),
    ("cpus-per-task", "CPUs/Task", ("1",)),
    ("mem", "MinMemoryNode", ()),
    ("mem-per-cpu", "MinMemoryCPU", ()),
    ("gres", "TresPerNode", ()),
    ("gpus", "TresPerJob", ()),
    ("gpus-per-task", "TresPerTask", ()),
    ("gpus-per-socket", "TresPerSocket", ()),
    ("tmp", "MinTmpDiskNode", ()),
    ("constraint", "Features", ()),
    ("nodelist", "ReqNodeList", ()),
    ("exclude", "ExcNodeList", ()),
    ("exclusive", "OverSubscribe", ("OK", "YES")),
    ("licenses", "Licenses", ()),
    ("wckey", "WCKey", ()),
    ("nice", "Nice", ()),
    ("mail-user", "MailUser", ()),
    ("mail-type", "MailType", ("NONE",)),
)
_FAMILIES = (  # one thing under several names
    frozenset({"mem", "mem-per-cpu", "mem-per-gpu"}),
    frozenset({"gres", "gpus-per-node"}),
    frozenset({"gpus-per-task", "tres-per-task", "ntasks-per-gpu"}),
)


def tells(job: Mapping[str, str]) -> bool:
    """Whether a job's own facts hold what it asked for."""
    return any(field in job for _, field, _ in _FROM_SLURM)


def told_by_slurm(job: Mapping[str, str], own: Mapping[str, str | None]) -> dict[str, str | None]:
    """Options of the first command line, as far as `scontrol show job` tells.

    What the script says as well (`own`: its options) is among them only where the command line said otherwise.
    """
    found: dict[str, str | None] = {}
    for option, field, nothing in _FROM_SLURM:
        value = _asked(option, _exclusive(job) if option == "exclusive" else job.get(field, ""))
        if value in _ANY or value in nothing or (option == "ntasks" and _one_each(value, job)):
            continue
        said = _family(option) & own.keys()
        if not said:
            found[option] = None if option == "exclusive" and value == "NO" else value
        elif option in said and _differ(option, value, own[option] or ""):
            found[option] = value
    return found


def _asked(option: str, value: str) -> str:
    """A field of Slurm's as sbatch takes it."""
    if option in {"nodes", "ntasks-per-node"}:  # 2-2; 4:0:*:1
        return value.partition("-")[0].partition(":")[0]
    if option.startswith(("gres", "gpus")):
        items = [item.removeprefix("gres:").removeprefix("gres/") for item in value.split(",")]
        if option == "gres":
            return ",".join(items).replace("=", ":")  # 22.05 takes no gpu=2
        counts = [item.removeprefix("gpu").lstrip(":=") for item in items if item.startswith("gpu")]
        return ",".join(counts)
    return value.lower() if option == "exclusive" and value in {"USER", "MCS", "TOPO"} else value


def _exclusive(job: Mapping[str, str]) -> str:
    """--exclusive as Slurm tells it: by a field of its own from 26.05 on, where OverSubscribe says NO of any job."""
    own = job.get("Exclusive")
    if own is None:
        return job.get("OverSubscribe", "")
    return {"NO": "", "NODE": "NO"}.get(own, own)


def _one_each(tasks: str, job: Mapping[str, str]) -> bool:
    """Whether so many tasks follow from the nodes: fixed, they would stand in the way of other numbers of nodes."""
    nodes, each = (_asked(name, job.get(field, "")) for name, field, _ in _FROM_SLURM if name in _PER_NODE)
    return nodes.isdecimal() and tasks == str(int(nodes) * max(1, int(each) if each.isdecimal() else 1))


_PER_NODE = ("nodes", "ntasks-per-node")


def _differ(option: str, shown: str, said: str) -> bool:
    """Whether the command line asked for something else than the script; a mere spelling is no matter."""
    if option == "exclusive":
        return False
    if option == "time":
        return _minutes(shown) != _minutes(said)
    if option == "partition":  # of several the one that it runs in is shown
        return shown not in said.split(",")
    if option == "nodes":
        low, _, high = said.partition("-")
        return not (_number(low) <= _number(shown) <= _number(high or low))
    if option in {"mem", "mem-per-cpu", "tmp"}:
        return _megabytes(shown) != _megabytes(said)
    if option.startswith(("gres", "gpus")):
        return _items(shown) != _items(_asked(option, said) or said)
    return shown.casefold() != said.strip().strip("\"'").casefold()


def _minutes(text: str) -> float:
    from cronhpc.script.sbatch_values import time_limit

    try:
        seconds = time_limit(text)
    except ValueError:
        return -1
    return float("inf") if seconds is None else -(-seconds // 60)


def _number(text: str) -> int:
    return int(text) if text.strip().isdecimal() else 0


def _megabytes(text: str) -> float:
    number, unit = text.strip().upper().removesuffix("B").rstrip("KMGT"), text.strip().upper().removesuffix("B")[-1:]
    try:
        return float(number) * {"K": 1 / 1024, "G": 1024, "T": 1024**2}.get(unit, 1)
    except ValueError:
        return -1


def _items(text: str) -> frozenset[str]:
    """`gpu`, `gpu:1`, `gpu=1` are the same."""
    items = (item.strip().replace("=", ":") for item in text.split(","))
    return frozenset(item if item.rpartition(":")[2].isdecimal() else f"{item}:1" for item in items)


def _family(option: str) -> frozenset[str]:
    return next((family for family in _FAMILIES if option in family), frozenset({option}))


def log_pattern(shown: str, said: str | None, job: Mapping[str, str]) -> str:
    """What --output (or --error) the command line gave, from the path that Slurm shows; "" where it gave none.

    `said`: what the script says; with more in it than %j, %A and %x it cannot be compared, and stands.
    """
    job_id, workdir = job.get("JobId", ""), job.get("WorkDir", "")
    own = log_name(said or "slurm-%j.out", _letters(job))
    if shown in _ANY or "%" in own or shown == (own if own.startswith("/") else f"{workdir}/{own}"):
        return ""
    folder, slash, name = shown.rpartition("/")
    return folder + slash + re.sub(rf"(?<!\d){re.escape(job_id)}(?!\d)", "%j", name)


def log_path(job: Mapping[str, str]) -> str:
    """Where the job's output goes; some versions of Slurm show the pattern."""
    path = log_name(job.get("StdOut", ""), _letters(job))
    return "" if path in _ANY else path


def _letters(job: Mapping[str, str]) -> dict[str, str]:
    number = job.get("JobId", "")
    return {"j": number, "A": number, "x": job.get("JobName", "")}


def merged(
    script: Sequence[tuple[str, str | None]],
    kept: Sequence[str],
    given: Sequence[str],
    overruled: Mapping[str, str | None] | None = None,
) -> tuple[str, ...]:
    """The next piece's options, the last one counts: the script's, those kept of the first, those given to `again`.

    `overruled`: what the script said where the first command line said otherwise. An edit of it there counts again.
    """
    says = dict(script)
    named = {name_of(option) for option in given}
    over = frozenset[str]().union(*map(_family, named))  # sbatch takes no --mem beside --mem-per-cpu
    own = [written(name, value) for name, value in script if name in named or name not in over]
    before, after = [], []
    for option in kept:
        name = name_of(option)
        if name in over:
            continue
        if overruled and name in overruled:
            if says.get(name, "") == overruled[name]:
                after.append(option)
        elif not _family(name) & says.keys():
            before.append(option)
    return (*before, *own, *after, *given)


def written(name: str, value: str | None) -> str:
    """An option as it stands on a command line."""
    return f"--{name}" if value is None else f"--{name}={value}"


def name_of(option: str) -> str:
    """`time` of `--time=60`."""
    return option.partition("=")[0].removeprefix("--")
