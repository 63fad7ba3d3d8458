"""What the user's live jobs run and which files they write, as squeue tells it. Pure.

A path is a glob pattern: what of Slurm's `%` patterns is known of the job stands in it, what
only the start decides (node, ids of pending array tasks) is `*`.
"""

from __future__ import annotations

from glob import escape
from typing import TYPE_CHECKING

from cronhpc.batch.port import JobFiles, Unreachable
from cronhpc.batch.slurm.rows import behind_header
from cronhpc.core.model import ENDS, log_name

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELDS = ("State", "JobID", "ArrayJobID", "ArrayTaskID", "Name", "UserName", "WorkDir", "Command", "StdOut", "StdErr")


def squeue_format(separator: str) -> str:
    """The -O argument of squeue: whole fields, each followed by `mark`."""
    return ",".join(f"{field}:{separator}" for field in _FIELDS)


def squeue_rows(text: str, separator: str) -> tuple[JobFiles, ...]:
    """The live jobs that squeue printed with `squeue_format(mark)`. Raises Unreachable for an answer cut short."""
    text, headed = behind_header(text, f"STATE{separator}JOBID{separator}")
    *values, rest = text.split(separator)
    whole = headed and rest.endswith("\n") and (rest.startswith("\n") or not values)  # lines of a site's wrapper
    if len(values) % len(_FIELDS) or (rest.strip() and not whole):
        raise Unreachable(f"squeue's answer breaks off: {text[-200:]!r}")
    found = []
    for start in range(0, len(values), len(_FIELDS)):
        row = dict(zip(_FIELDS, values[start : start + len(_FIELDS)], strict=True))
        state = row["State"].rpartition("\n")[2].strip()  # behind the last row's end, and a cluster's name
        if state not in ENDS:
            found.append(_files_of(row))
    return tuple(found)


def _files_of(row: Mapping[str, str]) -> JobFiles:
    master, task, number = row["ArrayJobID"], row["ArrayTaskID"], row["JobID"]
    is_array = master.isdecimal() and task != "N/A"
    known = {
        "A": master if is_array else number,
        "j": "" if is_array and not task.isdecimal() else number,
        "a": task if is_array and task.isdecimal() else "",
        "x": row["Name"],
        "u": row["UserName"],
    }
    folder = _value(row["WorkDir"])
    names = {log_name(_value(row[field]), known, as_glob=True) for field in ("StdOut", "StdErr")} - {"", "/dev/null"}
    return JobFiles(
        master if is_array else number,
        _value(row["Command"]),
        folder,
        tuple(sorted(each if each.startswith("/") else f"{escape(folder)}/{each}" for each in names)),
    )


def _value(text: str) -> str:
    return "" if text in {"(null)", "N/A"} else text
