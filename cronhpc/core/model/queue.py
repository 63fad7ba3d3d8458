"""The batch system's jobs, as its queue shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cronhpc.core.model.runs import FAILURES, PAUSED, TOKEN, Result

if TYPE_CHECKING:
    from collections.abc import Iterable

# Slurm's states of an ended job (squeue's manual, JOB STATE CODES), and what each means for a run. Any other is live.
ENDS = {
    "COMPLETED": Result.OK,
    "FAILED": Result.FAILED,
    "TIMEOUT": Result.TIMEOUT,
    "DEADLINE": Result.TIMEOUT,
    "OUT_OF_MEMORY": Result.OUT_OF_MEMORY,
    "NODE_FAIL": Result.NODE_FAIL,
    "BOOT_FAIL": Result.NODE_FAIL,
    "PREEMPTED": Result.PREEMPTED,
    "REVOKED": Result.PREEMPTED,
    "CANCELLED": Result.CANCELLED,
}
# Live states in which no program of the job runs yet, or again after a requeue.
_WAITS = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED"})
NEVER_STARTS = frozenset({"DependencyNeverSatisfied", "PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints"})


_MAY_NEVER = frozenset({
    "PartitionConfig", "PartitionInactive", "AccountNotAllowed", "QOSNotAllowed", "InvalidAccount", "InvalidQOS",
})  # fmt: skip


def may_never_start(reason: str) -> bool:
    """Whether a pending job waits for more than its turn: for a change of its request, or of the site."""
    return reason in NEVER_STARTS or reason in _MAY_NEVER or "PerJob" in reason


@dataclass(frozen=True, slots=True)
class Job:
    """One row of the queue."""

    id: str  # the job's number, without array parts
    state: str  # Slurm's long name: PENDING, RUNNING, COMPLETING, COMPLETED …
    name: str = ""
    comment: str = ""
    reason: str = ""
    tasks: str = ""  # array part as printed: "3", "[5-9%1]", ""
    start: int | None = None  # actual, or planned for pending jobs
    submitted: int | None = None
    ended: int | None = None
    partition: str = ""
    account: str = ""
    workdir: str = ""
    nodes: str = ""
    exit_code: int | None = None
    signal: int | None = None
    from_scrontab: bool | None = False  # None: nobody could be asked
    restarts: int = 0  # how often it was put back into the queue and began anew, where that was asked
    raw_id: str = ""  # of an array's task: the number that it knows itself by ($SLURM_JOB_ID)
    command: str | None = None  # the script's path, arguments behind it; "": there is none; None: not told
    output: str = ""  # its log, where it was asked for

    @property
    def shown(self) -> str:
        """The id as squeue prints it."""
        return f"{self.id}_{self.tasks}" if self.tasks else self.id

    @property
    def held_by_user(self) -> bool:
        """Held by its owner, or by us: Slurm does not tell them apart."""
        return self.state == "PENDING" and self.reason == "JobHeldUser"

    @property
    def held(self) -> bool:
        """Cannot start until someone acts: held, or put back held after a failed launch."""
        return self.state == "PENDING" and (
            self.reason in {"JobHeldUser", "JobHeldAdmin"} or "held" in self.reason.lower()
        )

    @property
    def held_by_admin(self) -> bool:
        """An administrator's word."""
        return self.state == "PENDING" and self.reason == "JobHeldAdmin"

    @property
    def live(self) -> bool:
        """Not ended."""
        return self.state not in ENDS

    @property
    def waits(self) -> bool:
        """Live, and nothing of it runs: `start` is a plan then."""
        return self.state in _WAITS

    def ended_before(self, slot: int) -> bool:
        """Whether it was cancelled while it waited for `slot` (epoch) to come."""
        return self.state == "CANCELLED" and not self.nodes and self.ended is not None and self.ended < slot

    def token_of(self, directory_id: str) -> str | None:
        """What the comment says after this directory's mark, wherever a site has moved that; None: no such mark.

        Whether the job is ours tells core/identity.py: comments are changed, and copied.
        """
        _, mark, words = self.own_comment.partition(f"{TOKEN}{directory_id}/")
        return words if mark else None

    @property
    def own_comment(self) -> str:
        """The comment without the mark of a pause."""
        return self.comment.partition(" ")[2] if self.comment.startswith(PAUSED) else self.comment


@dataclass(frozen=True, slots=True)
class Queue:
    """All of this user's jobs, ended ones included as long as the batch system remembers them."""

    jobs: tuple[Job, ...]


def restarted(number: int) -> str:
    """In words, "restarted 3 times"; "" where it was not."""
    return "" if not number else "restarted once" if number == 1 else f"restarted {number} times"


def standing_for(rows: Iterable[Job]) -> Job | None:
    """The row that speaks for a job, of which an array has several; None: there is none.

    An array runs while one of its tasks does, else waits while one is left to start, and has ended when all have. Of
    ended ones a failed task speaks before a good one, and a later end before an earlier.
    """
    return max(rows, key=_standing, default=None)


def _standing(job: Job) -> tuple[int, bool, int]:
    if job.live:
        return 1 if job.waits else 2, job.held, 0
    return 0, ENDS[job.state] in FAILURES, job.ended or 0
