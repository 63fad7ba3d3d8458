"""What cronhpc asks of a batch system: this much and no more."""

from __future__ import annotations

from cronhpc.core.model import Accounting, CronhpcError, JobEnd, Queue
from cronhpc.cron.values import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol

    from cronhpc.core.model.site import Cluster, Partition, Site
    from cronhpc.script.dialect import Dialect
else:
    Protocol = object


class BatchError(CronhpcError):
    """A command of the batch system failed. `text` is what it printed.

    Itself, and none of its leaves: there was an answer, a no to this one thing, and it may be a yes another time.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = self.cause = text


class Unreachable(BatchError):
    """No answer: time-out, controller unreachable. What was asked may or may not have happened."""

    passing = True


class NoCluster(Unreachable):
    """The batch system's commands are there, and know of no cluster."""


class NoProgram(Unreachable):
    """The batch system's commands are not on PATH: the same until they are loaded."""

    passing = False


class Refused(BatchError):
    """A plain no that will be no again: account, partition, impossible request, bad option, not a script."""


class Denied(BatchError):
    """No permission: from this machine, or to that partition. Nodes of some sites may not submit at all."""


class AtSubmitLimit(BatchError):
    """A limit of the site: no further submission will be taken now."""

    passing = True


@dataclass(frozen=True, slots=True)
class Submission:
    """One job to submit. It is always held when `held`; paths are absolute."""

    script: str
    arguments: tuple[str, ...] = ()  # of the script
    options: tuple[str, ...] = ()  # sbatch options: "--partition=cpu"; of a system that wraps also its own: "-q cpu"
    job_name: str | None = None
    comment: str = ""
    output: str | None = None
    error: str | None = None
    chdir: str | None = None
    begin: int | None = None  # epoch seconds
    held: bool = True
    holds_itself: bool = False  # the script asks for that, too: of two `-h` Grid Engine's qsub holds nothing
    export: Mapping[str, str] | None = None  # variables added to the run's environment
    own_export: str | None = None  # the script's own --export, which would keep `export` out
    no_requeue: bool = False


@dataclass(frozen=True, slots=True)
class Ends:
    """How jobs ended."""

    by_id: Mapping[str, JobEnd] = field(default_factory=dict)  # without those that nobody knows (yet) to have ended
    accounting: Accounting = Accounting()  # what it says of those
    cancelled_by: Mapping[str, int] = field(default_factory=dict)  # by id the user id, where that is told


@dataclass(frozen=True, slots=True)
class JobFiles:
    """What one live job runs, and the files that it writes."""

    id: str  # without array parts
    command: str  # the script as it was named to sbatch, arguments behind it; "" for --wrap and standard input
    workdir: str
    outputs: tuple[str, ...] = ()  # absolute glob patterns of its stdout and stderr (batch/slurm/rows.py)


class Batch(Protocol):
    """A batch system. Every call has a time-out and raises BatchError's leaves; none waits for a job.

    What is said here holds for each; their own files say what is their own. What has an answer here is answered so by
    a system that does not know of such a thing.
    """

    dialect: Dialect
    assumed: bool = False  # nobody has asked for it: another system's commands may only not be loaded
    accounting: bool | None = None  # whether there is any to ask; None: nobody knows yet
    submit_line: bool = True  # whether accounting has that field; a caller may keep both between ticks

    def tools(self) -> str:
        """The folder of the batch system's commands, for the link's PATH; "" where it has none."""
        return ""

    def queue(self) -> Queue:
        """All of this user's jobs in one query, ended ones as long as they are remembered. Raises Unreachable."""

    def restarts(self) -> Mapping[str, int]:
        """How often each of this user's jobs was put back into the queue (of an array: its tasks). Raises Unreachable.

        By id; those that were not are left out, and all where it does not tell.
        """
        return {}

    def live_files(self) -> tuple[JobFiles, ...]:
        """What each of this user's live jobs runs and writes, whoever submitted it. Raises Unreachable."""

    def script(self, job_id: str) -> str:
        """The text of the script that a live job runs. Raises BatchError."""
        raise BatchError(f"job {job_id}: {self.dialect.title} does not show the text of a job's script")

    def submit(self, job: Submission) -> str:
        """The new job's id. Raises Unreachable (the job may exist all the same), Refused, AtSubmitLimit, BatchError."""

    def release(self, job_ids: Sequence[str]) -> None:
        """Release held jobs in one call; unknown ids do not stop the others: judge by the queue. Raises Unreachable."""

    def cancel(self, job_ids: Sequence[str], *, pending_only: bool = False) -> None:
        """Cancel jobs, or just their tasks that wait; those that are gone already are fine. Raises Unreachable."""

    def signal(self, job_ids: Sequence[str], name: str) -> None:
        """Send a signal (TERM, USR1 …) to all processes of running jobs. Raises Unreachable."""

    def move(self, job_id: str, at: int, comment: str | None = None, exclude: str | None = None) -> None:
        """Let a pending job start at `at` (epoch), and set its comment in the same update. Raises BatchError.

        `exclude`: nodes that it is not to start on, in place of those so far; "": none.
        """

    def hold(self, job_ids: Sequence[str], comment: str) -> None:
        """Hold pending tasks ("57_[0-2,4]") and set their comment in one update. Raises BatchError."""

    def comment(self, job_ids: Sequence[str], comment: str) -> None:
        """Set the comment of jobs. Raises BatchError."""

    def unhold(self, job_ids: Sequence[str], comment: str) -> None:
        """Release tasks, then set their comment: a mark is not lost before what it stands for. Raises BatchError."""
        self.release(job_ids)
        self.comment(job_ids, comment)

    def job_ends(self, job_ids: Sequence[str], since: int, tokens: Mapping[str, str] | None = None) -> Ends:
        """What accounting, and else the batch system's memory, knows of ended jobs submitted after `since`.

        `tokens`: by id a text in the job's comment, so that a reused id is not mistaken. Raises Unreachable.
        """

    def used(self, names: Sequence[str], since: int) -> tuple[int, int] | None:
        """Jobs of these names since then, and their CPU seconds; None where accounting does not tell."""
        del names, since
        return None

    def of_scrontab(self, job_ids: Sequence[str]) -> frozenset[str]:
        """Those of `job_ids` that a scrontab submitted: cancelling one disables its entry. Raises Unreachable."""
        del job_ids
        return frozenset()

    def site(self) -> Site:
        """What `init` and `doctor` want to know: cluster, version, account, partitions. Raises Unreachable."""

    def undoing(self) -> str:
        """Which default of the submit command, of the site's or the user's, undoes how jobs are submitted; "": none."""
        return ""

    def cluster_name(self) -> str:
        """The cluster's name; "" where it has none. Raises Unreachable."""
        return ""

    def clock(self) -> int | None:
        """The instant by its own clock, epoch seconds; None where it has none but ours. Raises Unreachable."""
        return None

    def describe(self, job_id: str) -> Mapping[str, str]:
        """A job's own facts, by Slurm's names: Command, WorkDir, JobName, Partition and others; and its Fault.

        Raises Unreachable; BatchError where there is no such job.
        """


class Examinable(Batch, Protocol):
    """One that `check` and `doctor` have questions for: the local backend has nothing to tell."""

    def refusal(self, job: Submission, text_of_script: str | None = None) -> tuple[str, ...]:
        """Why sbatch would not take `job` (its script, or the text given), its own word last; () if it would.

        Raises Unreachable.
        """

    def partitions(self) -> tuple[Partition, ...]:
        """All of them, hidden ones too, with what one job may have there. Raises Unreachable."""

    def cluster_facts(self, user: str, qos: str, look: Callable[[], None]) -> Cluster:
        """What it offers and allows `user`; `qos`: the one asked for. `look` is called before and after each question.

        Raises Unreachable.
        """
