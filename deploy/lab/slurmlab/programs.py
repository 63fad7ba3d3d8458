"""Where programs are, and the environment that they start in."""

from __future__ import annotations

import os
import shutil

from .options import LabError

SBIN = "/usr/sbin:/sbin:/usr/local/sbin"


def find(program: str) -> str:
    """The absolute path of a daemon.

    Raises LabError when it is not installed.
    """
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:{SBIN}")
    if path is None:
        raise LabError(f"{program} is not installed. On Debian: apt-get install -y slurm-wlm munge")
    return path


def clean_environment() -> dict[str, str]:
    """The daemons' environment: this one's without batch-system variables, a clock or another lab."""
    drop = ("SLURM", "SBATCH", "SRUN", "SALLOC", "SQUEUE", "SCANCEL", "SACCT", "SCONTROL", "FAKETIME", "LD_PRELOAD")
    return {name: value for name, value in os.environ.items() if not name.startswith(drop)}
