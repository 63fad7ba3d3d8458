"""Which variables reach the batch system's commands and the runs. Pure: a mapping in, a dict out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The batch system's. A running job's make sbatch inside it do other things, SQUEUE_* hide jobs despite --me, and
# SCANCEL_* make scancel a no-op that exits 0.
_BATCH = (
    *("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "SALLOC_", "SBCAST_", "SCRONTAB_", "SATTACH_", "STRIGGER_"),
    *("SQUEUE_", "SCANCEL_", "SACCT_", "SACCTMGR_", "SCONTROL_", "SINFO_", "SPRIO_", "SSTAT_", "SREPORT_", "SSHARE_"),
    *("SPANK_", "_SLURM_", "_SPANK_"),
    *("PMI_", "PMI2_", "PMIX_", "PRTE_", "OMPI_", "HYDRA_", "HYDI_", "MPI_LOCAL", "PALS_", "I_MPI_HYDRA", "FLUX_"),
)
_OF_A_JOB = frozenset(
    {"ENVIRONMENT", "HOSTNAME", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}
    | {"HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}
    # a run's own, when cronhpc is called inside one
    | {"CRONHPC_SLOT", "CRONHPC_ENTRY", "CRONHPC_ATTEMPT", "CRONHPC_PREVIOUS_SUCCESS"}
)
_KEPT = frozenset({"SLURM_CONF", "SLURM_JWT"})  # where the cluster is, and who we are there

# The login's: gone, or somebody else's, when the run starts.
_LOGIN = (
    *("SSH_", "XDG_SESSION_", "VSCODE_", "TERM_PROGRAM", "LC_TERMINAL", "ITERM_", "KONSOLE_", "GNOME_", "KITTY_"),
    *("WEZTERM_", "ALACRITTY_", "VTE_", "TMUX", "BYOBU_", "ZELLIJ", "SUDO_", "JUPYTERHUB_", "JPY_", "WATCHDOG_"),
    *("LISTEN_", "KDE_", "NVIM"),
)
_OF_A_LOGIN = frozenset(
    {"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "WINDOWID", "STY", "WINDOW", "TERMCAP", "COLORTERM", "TERM"}
    | {"XDG_RUNTIME_DIR", "XDG_SEAT", "XDG_VTNR", "XDG_CURRENT_DESKTOP", "DESKTOP_SESSION", "DBUS_SESSION_BUS_ADDRESS"}
    | {"GPG_TTY", "GPG_AGENT_INFO", "GIT_ASKPASS", "BROWSER", "MAIL", "SHLVL", "PWD", "OLDPWD", "_"}
    | {"INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "MANAGERPID", "SYSTEMD_EXEC_PID", "ICEAUTHORITY"}
    | {"SESSION_MANAGER", "LINES", "COLUMNS", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE"}
)
_ALWAYS = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "SLURM_CONF", "SLURM_JWT")

# What people keep in their profile instead of their scripts: option by variable.
_OPTIONS = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos",
    "SBATCH_RESERVATION": "reservation",
    "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_TIMELIMIT": "time",
    "SBATCH_WCKEY": "wckey",
    "SBATCH_MEM_PER_CPU": "mem-per-cpu",
    "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_EXCLUSIVE": "exclusive",
    "SBATCH_NETWORK": "network",
    "SBATCH_CLUSTERS": "clusters",
}


def scrub(environ: Mapping[str, str], names: Sequence[str] | None = None) -> dict[str, str]:
    """`environ` less what belongs to the batch system, to a running job and to the login (design: Environment).

    `names` narrows it to those (shell patterns, "CONDA_*") and to what no script can do without (PATH, HOME …).
    """
    kept = {name: value for name, value in environ.items() if _stays(name)}
    if "SLURM_JOB_ID" in environ:
        _leave_the_job(kept, environ["SLURM_JOB_ID"])
    if names is None:
        return kept
    from fnmatch import fnmatchcase

    wanted = (*_ALWAYS, *names)
    return {name: value for name, value in kept.items() if any(fnmatchcase(name, one) for one in wanted)}


def _stays(name: str) -> bool:
    if name in _KEPT:
        return True
    return not (name in _OF_A_JOB or name in _OF_A_LOGIN or name.startswith(_BATCH) or name.startswith(_LOGIN))


def _leave_the_job(kept: dict[str, str], job_id: str) -> None:
    """Forget scratch folders that a site makes for each job, and removes with it."""
    for name in ("TMPDIR", "TMP", "TEMP", "TEMPDIR"):
        if re.search(rf"(?<!\d){re.escape(job_id)}(?!\d)", kept.get(name, "")):
            del kept[name]


def for_commands(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of squeue, scontrol and the like: scrubbed, times as epoch seconds, texts in English."""
    return {
        **scrub(environ),
        "LC_ALL": "C.UTF-8",
        "SLURM_TIME_FORMAT": "%s",
        "SLURM_BITSTR_LEN": "0",  # task lists in full: they are cut at 64 bytes otherwise
    }


def options_kept(environ: Mapping[str, str]) -> dict[str, str]:
    """What the caller's SBATCH_* variables ask for, as sbatch's long option names: `init` writes it into settings."""
    return {option: environ[name] for name, option in _OPTIONS.items() if environ.get(name)}
