"""What the local backend's files mean: rows of the queue, endings, and which scripts sbatch would refuse."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from cronhpc.batch import local_supervisor as sv
from cronhpc.batch.port import Refused, Unreachable
from cronhpc.core.model import Ending, Job, Result

if TYPE_CHECKING:
    from collections.abc import Sequence

_RESULTS = {"COMPLETED": Result.OK, "FAILED": Result.FAILED, "NODE_FAIL": Result.NODE_FAIL}
_HEAD = 65536  # bytes of a script that are looked at for line ends


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
        result=_RESULTS.get(job.state, Result.CANCELLED),
        exit_code=job.exit_code,
        signal=job.signal,
        submitted=job.submitted,
        started=job.start,
        ended=job.ended,
        node=job.nodes,
        detail=end.get("detail", ""),
    )


def read_script(path: str) -> bytes:
    """The script's bytes, refused where sbatch would refuse them. Raises Refused, Unreachable."""
    try:
        with open(path, "rb") as file:
            script = file.read()
    except OSError as error:
        raise Unreachable(f"{path}: cannot be read: {error.strerror}") from None
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
