"""Which variables reach the batch system's commands and the runs."""

from __future__ import annotations

import pytest

from cronhpc.batch.process import for_commands, options_kept, scrub
from cronhpc.script.dialect import SLURM

GONE = [
    *("SLURM_JOB_ID", "SLURM_MEM_PER_CPU", "SLURM_CLUSTERS", "SLURMD_NODENAME", "SBATCH_TIMELIMIT", "SBATCH_ACCOUNT"),
    *("SRUN_DEBUG", "SALLOC_BELL", "SQUEUE_STATES", "SQUEUE_FORMAT", "SCANCEL_STATE", "SACCT_FORMAT", "SCONTROL_ALL"),
    *("SINFO_FORMAT", "SPRIO_FORMAT", "SSTAT_FORMAT", "SLURM_TIME_FORMAT", "SLURM_EXPORT_ENV", "_SLURM_SPANK_X"),
    *("PMI_RANK", "PMI2_SIZE", "PMIX_RANK", "OMPI_MCA_x", "CUDA_VISIBLE_DEVICES", "ENVIRONMENT", "HOSTNAME"),
    *("SSH_AUTH_SOCK", "SSH_CONNECTION", "DISPLAY", "XAUTHORITY", "TMUX", "TMUX_PANE", "STY", "XDG_SESSION_ID"),
    *("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "VSCODE_IPC_HOOK_CLI", "TERM_PROGRAM", "SUDO_USER", "SHLVL"),
    *("PWD", "OLDPWD", "_", "INVOCATION_ID", "JOURNAL_STREAM", "CRONHPC_SLOT", "CRONHPC_ENTRY", "WAYLAND_DISPLAY"),
]
KEPT = [
    *("SLURM_CONF", "SLURM_JWT", "PATH", "HOME", "USER", "LANG", "LD_LIBRARY_PATH", "MODULEPATH", "CONDA_PREFIX"),
    *("BASH_FUNC_module%%", "LD_PRELOAD", "FAKETIME", "FAKETIME_SHARED", "FAKETIME_DONT_RESET", "WORK", "CRONHPC_DIR"),
    *("VIRTUAL_ENV", "TMPDIR", "OMP_NUM_THREADS", "TZ", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "HF_HOME", "SLURMISH"),
]


@pytest.mark.parametrize("name", GONE)
def test_the_batch_systems_and_the_logins_are_gone(name: str) -> None:
    assert scrub({name: "x"}, SLURM) == {}


@pytest.mark.parametrize("name", KEPT)
def test_the_rest_stays(name: str) -> None:
    assert scrub({name: "a,b\nc"}, SLURM) == {name: "a,b\nc"}


def test_scrubbing_twice_is_scrubbing_once() -> None:
    kept = dict.fromkeys(KEPT, "kept")
    every = {**dict.fromkeys(GONE, "gone"), **kept}
    assert scrub(scrub(every, SLURM), SLURM) == scrub(every, SLURM) == kept


def test_a_jobs_own_scratch_folder_is_forgotten() -> None:
    assert scrub({"SLURM_JOB_ID": "4711", "TMPDIR": "/scratch/job.4711", "TMP": "/tmp/47110"}, SLURM) == {
        "TMP": "/tmp/47110"
    }


def test_names_narrow_it_to_them_and_to_what_no_script_can_do_without() -> None:
    environ = dict.fromkeys(["PATH", "HOME", "SLURM_CONF", "CONDA_PREFIX", "CONDA_EXE", "SECRET", "MY"], "x")
    assert set(scrub(environ, SLURM, ["CONDA_*", "MY"])) == set(environ) - {"SECRET"}
    assert set(scrub(environ, SLURM, [])) == {"PATH", "HOME", "SLURM_CONF"}


def test_names_do_not_bring_back_what_is_the_batch_systems() -> None:
    assert scrub({"SLURM_JOB_ID": "1", "PATH": "/bin"}, SLURM, ["SLURM_*"]) == {"PATH": "/bin"}


def test_commands_print_epoch_seconds_whole_task_lists_and_english() -> None:
    ours = for_commands(
        {"PATH": "/bin", "SLURM_TIME_FORMAT": "relative", "LC_ALL": "fr_FR", "SQUEUE_STATES": "PD"}, SLURM
    )
    assert ours == {"PATH": "/bin", "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8", "SLURM_BITSTR_LEN": "0"}


def test_what_people_keep_in_variables_becomes_options() -> None:
    environ = {"SBATCH_ACCOUNT": "abc", "SBATCH_PARTITION": "cpu", "SBATCH_TIMELIMIT": "10", "SBATCH_QOS": "", "X": "1"}
    assert options_kept(environ, SLURM) == {"account": "abc", "partition": "cpu", "time": "10"}
