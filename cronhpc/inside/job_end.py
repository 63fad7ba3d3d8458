"""When the job that this process runs in will end, as Slurm says."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_LIMIT = 20.0  # seconds that squeue may take


def known(environ: Mapping[str, str]) -> int | None:
    """The end in seconds since 1970: newer Slurm tells it in the environment, older is asked. None: unknown."""
    told = environ.get("SLURM_JOB_END_TIME", "")
    return int(told) if told.isdecimal() else asked(environ)


def asked(environ: Mapping[str, str]) -> int | None:
    """The end as the controller has it now: one squeue. None: no job, no limit, or no answer."""
    import subprocess  # noqa: TID251 - batch/process.py needs the whole of cronhpc, which a job may lack

    job = environ.get("SLURM_JOB_ID", "")
    if not job:
        return None
    clean = {name: value for name, value in environ.items() if not name.startswith("SQUEUE_")}
    try:
        done = subprocess.run(
            ["squeue", "-h", "-j", job, "-o", "%e"],  # noqa: S607 - the job's PATH is what leads to its Slurm
            env={**clean, "SLURM_TIME_FORMAT": "%s"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT,
            check=True,
            text=True,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    answer = done.stdout.split()
    return int(answer[0]) if answer and answer[0].isdecimal() else None
