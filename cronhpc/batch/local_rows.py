"""What the local backend's files mean: rows of the queue, endings, and which scripts sbatch would refuse."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cronhpc.batch import local_supervisor as sv
from cronhpc.batch.port import Refused, Unreachable
from cronhpc.core.model import ENDS, Ending, Job, Result

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD = 65536  # bytes of a script that are looked at for line ends


_WHOLE, _MAYBE = (int,), (int, type(None))
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("id", "submitted", "ended", "pid", "by"), _WHOLE),
    **dict.fromkeys(("begin", "started", "exit_code", "signal"), _MAYBE),
    **dict.fromkeys(("script", "job_name", "chdir", "comment", "state", "reason", "detail", "fate"), (str,)),
    **dict.fromkeys(("since", "boot", "host"), (str,)),
    "held": (bool,),
}
_NEEDED = {
    "job.json": {"id", "script", "job_name", "chdir", "submitted"},
    "plan.json": {"begin", "held", "comment"},
    "end.json": {"state", "ended"},
    "fate": {"fate"},
    "run.json": {"pid", "since", "boot", "host", "started"},
    "supervisor.json": {"pid", "since", "boot", "host"},
    "cancel": {"by"},
}
_LATEST = 253402128000  # 9999-12-30: a later instant has no date in every zone


def facts(folder: str, name: str) -> sv.Facts | None:
    """A file of a job, or None where there is none. Raises Unreachable for one that is no work of ours.

    What it says is unknown then, which is not absent: nobody may take the job for gone.
    """
    try:
        found = sv.read(folder, name)
    except (OSError, ValueError, RecursionError) as error:
        raise Unreachable(f"{folder}/{name}: cannot be read: {str(error)[:80]}") from None
    if found is not None and (flaw := _flaw(found, folder, name)):
        what = f"{folder}/{name}: its {flaw} is none that cronhpc writes"
        raise Unreachable(f"{what}. When nothing of that job runs any more, remove its folder.")
    return found


def _flaw(found: Any, folder: str, name: str) -> str:
    """Which part of it no program of ours would have written; "" where all is well."""
    if not isinstance(found, dict) or not _NEEDED[name] <= found.keys():
        return "content"
    for key, value in found.items():
        kinds = _KINDS.get(key)
        if kinds and (type(value) not in kinds or (type(value) is int and not 0 <= value <= _LATEST)):
            return str(key)
        if isinstance(value, str) and ("\0" in value or not _is_text(value)):
            return str(key)
    if name == "end.json" and found["state"] not in ENDS:
        return "state"
    if name == "fate" and found["fate"] != "cancelled" and not _NEEDED["supervisor.json"] <= found.keys():
        return "process"
    return "id" if name == "job.json" and str(found["id"]) != folder.rpartition("/")[2] else ""


def _is_text(value: str) -> bool:
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def waiting(facts: sv.Facts, plan: sv.Facts) -> Job:
    """A job that has not started."""
    begin = plan["begin"]
    reason = "JobHeldUser" if plan["held"] else "BeginTime" if (begin or 0) > sv.now() else ""
    return replace(_job(facts, plan, "PENDING"), reason=reason, start=begin)


def running(facts: sv.Facts, plan: sv.Facts, ran: sv.Facts | None) -> Job:
    """A job whose script runs, or is about to."""
    return replace(_job(facts, plan, "RUNNING"), nodes=os.uname().nodename, start=(ran or {}).get("started"))


def ended(facts: sv.Facts, plan: sv.Facts, end: sv.Facts) -> Job:
    """A job that is over."""
    return replace(
        _job(facts, plan, end["state"]),
        reason=end.get("reason", ""),
        start=end.get("started"),
        ended=end["ended"],
        nodes=os.uname().nodename if end.get("started") else "",
        exit_code=end.get("exit_code"),
        signal=end.get("signal"),
    )


def _job(facts: sv.Facts, plan: sv.Facts, state: str) -> Job:
    return Job(
        str(facts["id"]),
        state,
        name=facts["job_name"],
        comment=plan["comment"],
        workdir=facts["chdir"],
        submitted=facts["submitted"],
    )


def ending(job: Job, end: sv.Facts) -> Ending:
    """How a job that is over ended."""
    return Ending(
        result=ENDS.get(job.state, Result.UNKNOWN),
        exit_code=job.exit_code,
        signal=job.signal,
        submitted=job.submitted,
        started=job.start,
        ended=job.ended,
        node=job.nodes,
        detail=end.get("detail", ""),
    )


_LARGEST = 4 * 1024 * 1024  # bytes, as Slurm's max_script_size; the copy of each run is kept


def read_script(path: str) -> bytes:
    """The script's bytes, refused where sbatch would refuse them. Raises Refused, Unreachable."""
    try:
        with open(path, "rb") as file:
            script = file.read(_LARGEST + 1)
    except OSError as error:
        raise Unreachable(f"{path}: cannot be read: {error.strerror}") from None
    if len(script) > _LARGEST:
        raise Refused(f"{path}: job script exceeds size limit of {_LARGEST} bytes. Put its data into a file of its own")
    if not script:
        raise Refused(f"{path}: Batch script is empty!")
    if not script.startswith(b"#!"):
        raise Refused(f"{path}: This does not look like a batch script.  The first line must start with #!")
    if b"\r\n" in script[:_HEAD]:
        raise Refused(f"{path}: Batch script contains DOS line breaks (\\r\\n)")
    return script


def long_options(options: Sequence[str]) -> dict[str, str | None]:
    """Options as sbatch takes them ("--chdir=/x", "--hold"), by name."""
    found: dict[str, str | None] = {}
    for option in options:
        name, equals, value = option.removeprefix("--").partition("=")
        found[name] = value if equals else None
    return found
