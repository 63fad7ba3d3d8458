"""What squeue prints of a user's jobs, as values. Pure.

Names, comments and folders may hold anything: blanks, `|`, newlines, control characters. So fields are parted by a
mark that is made anew for each query, and a row that does not add up is an error, never dropped. A site's wrapper may
print lines of its own around them: the header proves that squeue itself has answered, also where there are no rows.
"""

from __future__ import annotations

import re

from cronhpc.batch.port import JobFiles, Submission, Unreachable
from cronhpc.core.model import ENDS, Fault, Job, log_name, task_list
from cronhpc.cron.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


# id (a task's own number behind it), state, reason, start, submitted, end, partition, account, nodes; then what
# people may fill with anything
_FORMAT = ("%i %A", "%T", "%r", "%S", "%V", "%e", "%P", "%a", "%N", "%j", "%Z", "%o", "%k")
_NOTHING = frozenset({"", "N/A", "NONE", "None", "Unknown", "(null)"})
JOB_ID = r"(\d+)(?:_(.+?))?(?:\+\d+)?"  # 57, 57_3, 57_[4-9%2], 57+1
_HELD_STATES = frozenset({"REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})  # pending, and held
_ITS_TURN = frozenset({"", "None", "(null)", "BeginTime", "Priority", "Resources"})
_FAULTS = {
    **{str(each): each for each in (Fault.HELD_BY_USER, Fault.HELD_BY_ADMIN)},
    "BadConstraints": Fault.IMPOSSIBLE,
    **dict.fromkeys(("DependencyNeverSatisfied", "PartitionTimeLimit", "PartitionNodeLimit"), Fault.NEVER_STARTS),
    **dict.fromkeys(
        ("PartitionConfig", "PartitionInactive", "AccountNotAllowed", "QOSNotAllowed", "InvalidAccount", "InvalidQOS"),
        Fault.MAY_NEVER_START,
    ),
}
_ENDING_STATES = {*ENDS, "COMPLETING"}


def queue_format(separator: str) -> str:
    """The -o argument of squeue."""
    return separator + separator.join(_FORMAT) + separator


def queue_rows(text: str, separator: str) -> tuple[Job, ...]:
    """The jobs that squeue printed with `queue_format(mark)`; an array's pending tasks that are alike are one job.

    Raises Unreachable for anything else: an answer that is not understood is no answer.
    """
    text, headed = behind_header(text, f"{separator}JOBID JOBID{separator}")
    if not headed and not text.strip():
        raise Unreachable("squeue exited 0 and printed nothing, not even the names of its columns")
    between, *rest = text.split(separator)
    width = len(_FORMAT) + 1
    if not headed:
        _check_between(between)
    if len(rest) % width:
        raise Unreachable(f"squeue's answer breaks off: {text[-200:]!r}")
    jobs = []
    for start in range(0, len(rest), width):
        *fields, between = rest[start : start + width]
        if not between.startswith("\n"):
            raise Unreachable(f"squeue's answer has a row that does not end: {fields!r}")
        if not headed:
            _check_between(between)
        jobs.append(_job(fields))
    return tuple(_gathered(jobs))


def behind_header(text: str, header: str) -> tuple[str, bool]:
    """What follows the line that `header` begins, and whether there is one; else all of `text`."""
    _, heading, rest = text.partition(header)
    return (rest.partition("\n")[2], True) if heading else (text, False)


def submitted(jobs: Iterable[Job], asked: Submission, numbers: Sequence[str]) -> str:
    """The id of the job that was submitted as `asked`, by its comment; "" where that does not tell.

    `numbers`: what was printed.
    """
    by_comment = {job.id for job in jobs if asked.comment and asked.comment in job.comment}
    candidates = by_comment & set(numbers) or by_comment
    return candidates.pop() if len(candidates) == 1 else ""


def alike(jobs: Iterable[Job], asked: Submission, numbers: Sequence[str]) -> list[str]:
    """Ids of jobs of the script that was submitted as `asked`: printed ones first, then the newest.

    Where the log's name does not tell one job from the next, the arguments must do: of one live job, or a printed one.
    """
    argv = " ".join([asked.script, *asked.arguments])
    whole = "%j" not in (asked.output or "") and "%A" not in (asked.output or "")
    mine = [job for job in jobs if f"{job.command} ".startswith(f"{argv if whole else asked.script} ")]
    if whole:
        live = [job for job in mine if job.live]
        mine = [job for job in live if job.id in numbers] or (live if len(live) == 1 else [])
    return sorted({job.id for job in mine}, key=lambda each: (each not in numbers, -int(each)))


def _check_between(text: str) -> None:
    """Between rows there is nothing, but with --clusters a line that names the cluster."""
    for line in text.splitlines():
        if line.strip() and not line.startswith("CLUSTER:"):
            raise Unreachable(f"squeue printed {line!r}, which is no queue; is `squeue` a wrapper on this PATH?")


def _job(fields: Sequence[str]) -> Job:
    id_, state, reason, start, submitted, end, partition, account, nodes, name, workdir, command, comment = fields
    id_, _, raw = id_.partition(" ")
    match = re.fullmatch(JOB_ID, id_)
    if not match or not state:
        raise Unreachable(f"squeue's answer has a row without job id or state: {fields!r}")
    fault = fault_of(reason) if state == "PENDING" else None
    if state in _HELD_STATES:
        fault = fault_of(reason) if _tells_hold(reason) else Fault.HELD
        reason = reason if _tells_hold(reason) else f"{reason}, held ({state})"
        state = "PENDING"
    return Job(
        id=match[1],
        tasks=match[2] or "",
        raw_id=raw if match[2] and raw != match[1] else "",
        state=state,
        reason=word(reason),
        fault=fault,
        name=name,
        comment=word(comment),
        start=moment(start),
        submitted=moment(submitted),
        ended=moment(end) if state in _ENDING_STATES else None,  # of a running job it is a plan
        partition=partition,
        account=word(account),
        workdir=word(workdir),
        nodes=word(nodes),
        command=word(command),
    )


def fault_of(reason: str) -> Fault | None:
    """What Slurm's reason of a pending job means; None: it waits for its time or turn."""
    if reason in _FAULTS:
        return _FAULTS[reason]
    if _tells_hold(reason):
        return Fault.HELD
    return None if reason in _ITS_TURN else Fault.MAY_NEVER_START if "PerJob" in reason else Fault.KEPT_BACK


def _tells_hold(reason: str) -> bool:
    return "held" in reason.lower()


def word(text: str) -> str:
    """What is printed, without the words for nothing."""
    return "" if text in {"(null)", "None", "N/A"} else text


def moment(text: str) -> int | None:
    """Epoch seconds as SLURM_TIME_FORMAT=%s makes them, or None. Raises Unreachable."""
    if text in _NOTHING:
        return None
    try:
        return int(text)
    except ValueError:
        raise Unreachable(f"a time reads {text!r}: epoch seconds were asked for") from None


def _gathered(jobs: Iterable[Job]) -> Iterator[Job]:
    """Pending tasks of one array that differ in nothing become one job again: "[2-9]"."""
    alike: dict[Job, list[int]] = {}
    for job in jobs:
        if job.pending and job.tasks.isdecimal():
            alike.setdefault(replace(job, tasks=""), []).append(int(job.tasks))
        else:
            yield job
    for job, tasks in alike.items():
        yield replace(job, tasks=task_list(tasks))


# --- what live jobs run and which files they write --------------------------------------------------------------------

# A path is a glob pattern: what of Slurm's `%` patterns is known of the job stands in it, what
# only the start decides (node, ids of pending array tasks) is `*`.

_FIELDS = ("State", "JobID", "ArrayJobID", "ArrayTaskID", "Name", "UserName", "WorkDir", "Command", "StdOut", "StdErr")


def squeue_format(separator: str) -> str:
    """The -O argument of squeue: whole fields, each followed by `mark`."""
    return ",".join(f"{field}:{separator}" for field in _FIELDS)


def squeue_rows(text: str, separator: str) -> tuple[JobFiles, ...]:
    """The live jobs that squeue printed with `squeue_format(mark)`. Raises Unreachable for an answer cut short."""
    text, headed = behind_header(text, f"STATE{separator}JOBID{separator}")
    *values, rest = text.split(separator)
    whole = headed and rest.endswith("\n") and (rest.startswith("\n") or not values)  # lines of a site's wrapper
    if len(values) % len(_FIELDS) or (rest.strip() and not whole):
        raise Unreachable(f"squeue's answer breaks off: {text[-200:]!r}")
    files = []
    for start in range(0, len(values), len(_FIELDS)):
        row = dict(zip(_FIELDS, values[start : start + len(_FIELDS)], strict=True))
        state = row["State"].rpartition("\n")[2].strip()  # behind the last row's end, and a cluster's name
        if state not in ENDS:
            files.append(_files_of(row))
    return tuple(files)


def _files_of(row: Mapping[str, str]) -> JobFiles:
    from glob import escape

    master, task, number = row["ArrayJobID"], row["ArrayTaskID"], row["JobID"]
    is_array = master.isdecimal() and task != "N/A"
    letters = {
        "A": master if is_array else number,
        "j": "" if is_array and not task.isdecimal() else number,
        "a": task if is_array and task.isdecimal() else "",
        "x": row["Name"],
        "u": row["UserName"],
    }
    folder = word(row["WorkDir"])
    names = {log_name(word(row[field]), letters, as_glob=True) for field in ("StdOut", "StdErr")} - {"", "/dev/null"}
    return JobFiles(
        master if is_array else number,
        word(row["Command"]),
        folder,
        tuple(sorted(each if each.startswith("/") else f"{escape(folder)}/{each}" for each in names)),
    )
