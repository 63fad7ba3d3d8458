"""When the job that this process runs in will end, as Slurm says.

Measured on 22.05: when a job is preempted with a grace time, its end moves nearer at once and its steps get CONT and
TERM, but what its batch script runs hears nothing until the grace is over. So there the end has to be asked for again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LIMIT = 20.0  # seconds that an answer may take
_SHORTEST, _LONGEST = 10.0, 60.0  # seconds between questions: every job of a cluster may ask


def known(environ: Mapping[str, str]) -> int | None:
    """The end in seconds since 1970: newer Slurm tells it in the environment, older is asked. None: unknown."""
    told = environ.get("SLURM_JOB_END_TIME", "")
    return int(told) if told.isdecimal() else asked(environ)


def asked(environ: Mapping[str, str]) -> int | None:
    """The end as the controller has it now: one squeue. None: no job, no limit, or no answer."""
    job = environ.get("SLURM_JOB_ID", "")
    words = _answer(["squeue", "-h", "-j", job, "-o", "%e"], environ).split() if job else []
    return int(words[0]) if words and words[0].isdecimal() else None


def asks_for_others(environ: Mapping[str, str]) -> bool:
    """Whether this is the one process of a step, or of the batch script, that may ask repeatedly."""
    return environ.get("SLURM_PROCID", "0") == "0"


def ask_every(environ: Mapping[str, str]) -> float | None:
    """Seconds between questions that notice a preemption in time; None: none can come, or none with a warning."""
    partition = environ.get("SLURM_JOB_PARTITION", "")
    if not (environ.get("SLURM_JOB_ID") and partition):
        return None
    shown = _answer(["scontrol", "-o", "show", "partition", partition], environ)
    if not shown or "PreemptMode=OFF" in shown:
        return None
    match = re.search(r"\bGraceTime=(\d+)", shown)
    grace = int(match[1]) if match else 0
    if not grace and environ.get("SLURM_JOB_QOS"):
        argv = ["sacctmgr", "-nP", "show", "qos", f"name={environ['SLURM_JOB_QOS']}", "format=GraceTime"]
        grace = _clock(_answer(argv, environ).strip())
    return min(max(grace / 3, _SHORTEST), _LONGEST) if grace else None


def _clock(text: str) -> int:
    """Seconds of `00:05:00`; 0 for anything else."""
    parts = text.split(":")
    if not all(part.isdecimal() for part in parts):
        return 0
    return sum(int(part) * 60**power for power, part in enumerate(reversed(parts)))


def _answer(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """What a command of Slurm's prints; "" where it fails."""
    import subprocess  # noqa: TID251 - batch/process.py needs the whole of cronhpc, which a job may lack

    clean = {name: value for name, value in environ.items() if not name.startswith(("SQUEUE_", "SCONTROL_"))}
    try:
        return subprocess.run(
            argv,
            env={**clean, "SLURM_TIME_FORMAT": "%s"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT,
            check=True,
            text=True,
        ).stdout
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
