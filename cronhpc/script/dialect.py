"""What the batch systems call things: one frozen value a system, and no code.

`batch/` does things with a batch system; the rest of cronhpc asks these values, and never which system it has.
"""

from __future__ import annotations

from cronhpc.cron.values import dataclass, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def option_text(name: str, value: str | None) -> str:
    """An option by its long name, as it is kept here and as sbatch has it; `value` None: it takes none."""
    return f"--{name}" if value is None else f"--{name}={value}"


@dataclass(frozen=True, slots=True)
class JobVariables:
    """The names of the variables that tell a job of itself."""

    id: str
    restarts: str  # how often it was put back into the queue
    task: str  # its number in an array; of other jobs unset
    tasks: str  # how many its array has, as bash counts them
    cluster: str  # which only the batch system itself sets: the local backend's jobs have the others, too
    codes: tuple[int, ...] = ()  # exit codes that tell the batch system something else than that the job failed


@dataclass(frozen=True, slots=True)
class Dialect:
    """A batch system as data."""

    name: str  # as in settings and --backend
    title: str
    commands: tuple[str, ...]  # it is here where these are on PATH; the first submits
    load: str  # what brings them there
    prefix: str  # of the directives in a script
    log: str  # the file that a job which names none prints to
    release: str  # these three are typed with job ids behind them
    cancel: str
    look: str
    submit: str  # typed with a script behind it
    past: str  # shows how jobs ended
    job: JobVariables
    foreign: tuple[str, ...]  # how the variables begin that reach neither its commands nor a run
    kept: tuple[str, ...]  # those that do all the same: where the cluster is, and who we are there
    set: tuple[tuple[str, str], ...]  # and what its commands are given
    options: Mapping[str, str]  # what people keep in their profile instead of their scripts: option by variable
    of_jobs: tuple[str, ...] = ()  # variables of jobs that begin like anybody's, and are not handed on either
    as_sbatch: bool = False  # its scripts are read as sbatch reads them
    runs_here: bool = False  # no batch system: jobs are processes of this machine, by its clock
    wraps: bool = (
        False  # its scripts take no arguments and no environment: a wrapper's text that sets both is submitted
    )
    shows_late: int = 0  # seconds for which its queue may leave out the job of a submission that got no answer
    tells_ends: bool = True  # how a job ended can be asked; else runs write that down, but where record is false
    minutes: bool = False  # it tells the minute alone in which a job began that runs
    clear: str = ""  # what ends a job's error state, where there is such: typed with job ids behind it
    force: str = ""  # and what forgets a job whose node does not answer for it
    begins_again: bool = False  # a link can put itself back into the queue, for a later time
    arrays_count_once: bool = False  # where it limits how many jobs a user has; elsewhere each task counts
    no_again: str = ""  # why `again` is not here, where it is not


SLURM = Dialect(
    name="slurm",
    title="Slurm",
    commands=("sbatch",),
    load="module load slurm",
    prefix="#SBATCH",
    log="slurm-%j.out",
    release="scontrol release",
    cancel="scancel",
    look="squeue --me",
    submit="sbatch",
    past="sacct",
    job=JobVariables(
        "SLURM_JOB_ID",
        restarts="SLURM_RESTART_COUNT",
        task="SLURM_ARRAY_TASK_ID",
        tasks="SLURM_ARRAY_TASK_COUNT",
        cluster="SLURM_CLUSTER_NAME",
    ),
    # A running job's make sbatch inside it do other things, SQUEUE_* hide jobs despite --me, and SCANCEL_* make
    # scancel a no-op that exits 0.
    foreign=(
        *("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "SALLOC_", "SBCAST_", "SCRONTAB_", "SATTACH_", "STRIGGER_"),
        *("SQUEUE_", "SCANCEL_", "SACCT_", "SACCTMGR_", "SCONTROL_", "SINFO_", "SPRIO_", "SSTAT_", "SREPORT_"),
        *("SSHARE_", "SPANK_", "_SLURM_", "_SPANK_"),
    ),
    kept=("SLURM_CONF", "SLURM_JWT"),
    set=(
        ("SLURM_TIME_FORMAT", "%s"),
        ("SLURM_BITSTR_LEN", "0"),  # task lists in full: they are cut at 64 bytes otherwise
    ),
    options={
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
    },
    as_sbatch=True,
    begins_again=True,
)
GRID_ENGINE = Dialect(
    name="grid_engine",
    title="Grid Engine",
    commands=("qsub", "qconf"),  # PBS has a qsub, too
    load="source $SGE_ROOT/default/common/settings.sh",
    prefix="#$",
    log="$JOB_NAME.o$JOB_ID",
    release="qrls",
    cancel="qdel",
    look="qstat",
    submit="qsub",
    past="qacct -j JOB",
    clear="qmod -cj",
    force="qdel -f",
    begins_again=True,
    arrays_count_once=True,
    job=JobVariables(
        "JOB_ID",
        restarts="RESTARTED",
        task="SGE_TASK_ID",
        tasks="(SGE_TASK_LAST - SGE_TASK_FIRST) / SGE_TASK_STEPSIZE + 1",
        cluster="SGE_JOB_SPOOL_DIR",
        codes=(99, 100),  # once more, and an error state: even where the job is not to run again
    ),
    foreign=("SGE_",),
    of_jobs=(
        *("JOB_ID", "JOB_NAME", "JOB_SCRIPT", "QUEUE", "REQUEST", "REQNAME", "ARC", "NHOSTS", "NQUEUES", "NSLOTS"),
        *("RESTARTED", "PE", "PE_HOSTFILE"),
    ),
    kept=("SGE_ROOT", "SGE_CELL", "SGE_QMASTER_PORT", "SGE_EXECD_PORT"),
    set=(("TZ", "UTC0"),),  # it prints local times
    options={},
)
PBS = Dialect(
    name="pbs",
    title="PBS",
    commands=("qsub", "pbs_rsub"),  # Torque, and Slurm's wrappers, have a qsub, too
    load="module load pbs",
    prefix="#PBS",
    log="JOBNAME.oNUMBER",
    release="qrls",
    cancel="qdel",
    look="qstat -u $USER",
    submit="qsub",
    past="qstat -x",
    job=JobVariables(
        "PBS_JOBID",
        restarts="",
        task="PBS_ARRAY_INDEX",
        tasks="CRONHPC_TASKS",  # PBS does not tell it: batch/pbs.py does
        cluster="PBS_JOBID",
    ),
    foreign=("PBS_",),
    of_jobs=("CRONHPC_TASKS", "NCPUS", "OMP_NUM_THREADS"),
    kept=("PBS_CONF_FILE", "PBS_DEFAULT", "PBS_EXEC", "PBS_HOME", "PBS_PRIMARY", "PBS_SECONDARY", "PBS_SERVER"),
    set=(("TZ", "UTC0"),),  # it prints local times, and reads them
    options={},
    wraps=True,
    tells_ends=False,  # it may, where an administrator has switched its history on
    no_again="PBS keeps a copy of a job's script, and does not say where the script lies",
)
LSF = Dialect(
    name="lsf",
    title="LSF",
    commands=("bsub", "bjobs"),
    load="source profile.lsf of its conf folder",
    prefix="#BSUB",
    log="",  # it mails the output
    release="bresume",
    cancel="bkill",
    look="bjobs",
    submit="bsub <",
    past="bhist",
    force="bkill -r",
    job=JobVariables(
        "LSB_JOBID",
        restarts="",
        task="LSB_JOBINDEX",
        tasks="LSB_JOBINDEX_END",
        cluster="LSB_SUB_HOST",
    ),
    foreign=("LSB_", "LS_", "BSUB_"),
    kept=("LSF_ENVDIR", "LSF_SERVERDIR", "LSF_BINDIR", "LSF_LIBDIR"),
    set=(("TZ", "UTC0"), ("LSB_NTRIES", "1")),  # its commands wait for ever for a system that is down
    options={"LSB_DEFAULTQUEUE": "partition", "LSB_DEFAULTPROJECT": "account"},
    wraps=True,
    minutes=True,
    shows_late=120,  # what it sent is accepted although it was killed, and bjobs repeats an answer for some seconds
    no_again="LSF keeps a copy of a job's script, and does not say where the script lies",
)
# It runs Slurm's scripts, and tells them of themselves in Slurm's variables.
LOCAL = replace(
    SLURM,
    name="local",
    title="this machine",
    commands=(),
    load="",
    release="",
    cancel="",
    look="",
    runs_here=True,
)

SYSTEMS = (SLURM, GRID_ENGINE, PBS, LSF)  # whose scripts are known; of several that are here the first is meant
DIALECTS = {each.name: each for each in (*SYSTEMS, LOCAL)}
KEPT = tuple(dict.fromkeys(name for each in DIALECTS.values() for name in each.kept))
