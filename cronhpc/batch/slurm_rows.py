"""What squeue and sacct print, as values. Pure.

Names, comments and folders may hold anything: blanks, `|`, newlines, control characters. So fields are parted by a
mark that is made anew for each query, and a row that does not add up is an error, never dropped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cronhpc.batch.port import Unreachable
from cronhpc.core.model import ENDED, Ending, Job, Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# --- squeue --------------------------------------------------------------------------------------------------------

# id, state, reason, start, submitted, end, partition, account, nodes; then what people may fill with anything
_FORMAT = ("%i", "%T", "%r", "%S", "%V", "%e", "%P", "%a", "%N", "%j", "%Z", "%k")
_NOTHING = frozenset({"", "N/A", "NONE", "None", "Unknown", "(null)"})
_ID = re.compile(r"(\d+)(?:_(.+?))?(?:\+\d+)?")
_HELD_STATES = frozenset({"REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})  # pending, and held
_ENDING_STATES = ENDED | {"COMPLETING"}


def queue_format(mark: str) -> str:
    """The -o argument of squeue."""
    return mark + mark.join(_FORMAT) + mark


def queue_rows(text: str, mark: str) -> tuple[Job, ...]:
    """The jobs that squeue printed with `queue_format(mark)`; an array's pending tasks that are alike are one job.

    Raises Unreachable for anything else: an answer that is not understood is no answer.
    """
    between, *rest = text.split(mark)
    width = len(_FORMAT) + 1
    _check_between(between)
    if len(rest) % width:
        raise Unreachable(f"squeue's answer breaks off: {text[-200:]!r}")
    jobs = []
    for start in range(0, len(rest), width):
        *fields, between = rest[start : start + width]
        if not between.startswith("\n"):
            raise Unreachable(f"squeue's answer has a row that does not end: {fields!r}")
        _check_between(between)
        jobs.append(_job(fields))
    return tuple(_gathered(jobs))


def _check_between(text: str) -> None:
    """Between rows there is nothing, but with --clusters a line that names the cluster."""
    for line in text.splitlines():
        if line.strip() and not line.startswith("CLUSTER:"):
            raise Unreachable(f"squeue printed {line!r}, which is no queue. Is `squeue` a wrapper on this PATH?")


def _job(fields: Sequence[str]) -> Job:
    id_, state, reason, start, submitted, end, partition, account, nodes, name, workdir, comment = fields
    found = _ID.fullmatch(id_)
    if not found or not state:
        raise Unreachable(f"squeue's answer has a row without job id or state: {fields!r}")
    if state in _HELD_STATES:
        reason = reason if "held" in reason.lower() else f"{reason}, held ({state})"
        state = "PENDING"
    return Job(
        id=found[1],
        tasks=found[2] or "",
        state=state,
        reason=_word(reason),
        name=name,
        comment=_word(comment),
        start=moment(start),
        submitted=moment(submitted),
        ended=moment(end) if state in _ENDING_STATES else None,  # of a running job it is a plan
        partition=partition,
        account=_word(account),
        workdir=_word(workdir),
        nodes=_word(nodes),
    )


def _word(text: str) -> str:
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
        if job.state == "PENDING" and job.tasks.isdecimal():
            alike.setdefault(replace(job, tasks=""), []).append(int(job.tasks))
        else:
            yield job
    for job, tasks in alike.items():
        yield replace(job, tasks=task_list(tasks))


def task_list(tasks: Iterable[int]) -> str:
    """Task numbers as Slurm writes them: "3", "[0-2,5]"."""
    spans: list[list[int]] = []
    for task in sorted(tasks):
        if spans and task == spans[-1][1] + 1:
            spans[-1][1] = task
        else:
            spans.append([task, task])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
    return text if text.isdecimal() else f"[{text}]"


# --- how jobs ended ------------------------------------------------------------------------------------------------

_RESULTS = {
    "COMPLETED": Result.OK,
    "FAILED": Result.FAILED,
    "TIMEOUT": Result.TIMEOUT,
    "DEADLINE": Result.TIMEOUT,
    "OUT_OF_MEMORY": Result.OUT_OF_MEMORY,
    "NODE_FAIL": Result.NODE_FAIL,
    "BOOT_FAIL": Result.NODE_FAIL,
    "LAUNCH_FAILED": Result.NODE_FAIL,
    "PREEMPTED": Result.CANCELLED,
    "CANCELLED": Result.CANCELLED,
    "REVOKED": Result.CANCELLED,
}
_LAUNCH_FAILURE = 53  # the "signal" of a job that slurmd could not start
# of an array's tasks the worst stands for all
_WORST = (
    *(Result.NODE_FAIL, Result.OUT_OF_MEMORY, Result.TIMEOUT, Result.FAILED, Result.CANCELLED, Result.UNKNOWN),
    Result.OK,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One job, or one task of an array, as accounting or the controller remembers it."""

    id: str  # without the array part
    state: str
    exit: str
    submitted: int | None
    started: int | None
    ended: int | None
    nodes: str = ""
    task: str = ""
    marks: str = ""  # comment and submit line, to tell a reused id by


def exit_of(text: str) -> tuple[int | None, int | None]:
    """Exit code and signal from "3:0", or from a wait status as older squeues print it ("768")."""
    code, colon, number = text.partition(":")
    if not code.isdecimal() or (colon and not number.isdecimal()):
        return None, None
    if colon:
        return (int(code), None) if number == "0" else (int(code) or None, int(number))
    status = int(code)
    return (None, status & 0x7F) if status & 0x7F else (status >> 8, None)


def ending_of(row: Row) -> Ending | None:
    """How that job or task ended; None: it has not, or it was requeued."""
    word = row.state.split(" ", 1)[0].rstrip("+")
    if word not in _RESULTS:
        return None
    code, number = exit_of(row.exit)
    detail = "" if word in {"COMPLETED", "FAILED"} else row.state.lower().replace("_", " ")
    if number == _LAUNCH_FAILURE:
        detail = "it could not be launched: no log was produced (its output or working folder may be missing there)"
    return Ending(
        result=_RESULTS[word],
        exit_code=code,
        signal=number,
        submitted=row.submitted,
        started=row.started,
        ended=row.ended,
        node=row.nodes,
        detail=detail,
    )


def combined(rows: Sequence[Row]) -> Ending | None:
    """One ending for a job's rows (an array has one a task); None while one of them has not ended."""
    endings = [ending for ending in map(ending_of, rows) if ending is not None]
    if len(endings) < len(rows) or not endings:
        return None
    if len(endings) == 1:
        return endings[0]
    worst = min(endings, key=lambda ending: _WORST.index(ending.result))
    bad = sum(ending.result is not Result.OK for ending in endings)
    return replace(
        worst,
        started=min((e.started for e in endings if e.started), default=None),
        ended=max((e.ended for e in endings if e.ended), default=None),
        detail=f"{bad} of {len(endings)} array tasks did not end well" if bad else f"{len(endings)} array tasks",
    )


def mistaken(rows: Iterable[Row], since: int, tokens: Mapping[str, str]) -> frozenset[str]:
    """Ids that another job has by now, as its comment tells."""
    return frozenset(row.id for row in rows if (row.submitted or 0) >= since and _foreign(row, tokens))


def _foreign(row: Row, tokens: Mapping[str, str]) -> bool:
    token = tokens.get(row.id)
    return bool(token and row.marks and token not in row.marks)


def endings_of(rows: Iterable[Row], since: int, tokens: Mapping[str, str]) -> dict[str, Ending]:
    """The ended jobs among rows submitted at `since` or later, by id.

    Ids are used again when a controller loses its state: where `tokens` has an id, only rows that carry that text
    are taken (if any row shows comments at all).
    """
    jobs: dict[str, dict[str, Row]] = {}
    for row in rows:
        if (row.submitted or 0) < since or _foreign(row, tokens):
            continue
        tasks = jobs.setdefault(row.id, {})
        known = tasks.get(row.task)
        if known is None or (row.submitted or 0, row.started or 0) >= (known.submitted or 0, known.started or 0):
            tasks[row.task] = row  # a requeued job has a row for each start: the newest counts
    found = {job_id: combined(list(tasks.values())) for job_id, tasks in jobs.items()}
    return {job_id: ending for job_id, ending in found.items() if ending is not None}


# --- squeue -O: exit codes within MinJobAge ------------------------------------------------------------------------

_EXIT_FIELDS = ("JobArrayID", "State", "exit_code", "SubmitTime", "StartTime", "EndTime", "NodeList")
_EXIT_WIDTH = 64


def exits_format() -> str:
    """The -O argument of squeue: words of fixed width, none of which holds a blank."""
    return ",".join(f"{name}:{_EXIT_WIDTH}" for name in _EXIT_FIELDS)


def exits_rows(text: str) -> list[Row]:
    """The rows that squeue printed with `exits_format`. Raises Unreachable."""
    rows = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("CLUSTER:"):
            continue
        words = [line[at : at + _EXIT_WIDTH].strip() for at in range(0, len(_EXIT_FIELDS) * _EXIT_WIDTH, _EXIT_WIDTH)]
        found = _ID.fullmatch(words[0])
        if not found:
            raise Unreachable(f"squeue's answer has a row without job id: {line!r}")
        submitted, started, ended = (moment(word) for word in words[3:6])
        rows.append(Row(found[1], words[1], words[2], submitted, started, ended, _word(words[6]), found[2] or ""))
    return rows


# --- sacct ---------------------------------------------------------------------------------------------------------

_ACCOUNTING = ("JobID", "State", "ExitCode", "Submit", "Start", "End", "NodeList", "Comment", "SubmitLine")


def accounting_fields(*, submit_line: bool) -> tuple[str, ...]:
    """What is asked of sacct; `SubmitLine` came with 21.08."""
    return _ACCOUNTING if submit_line else _ACCOUNTING[:-1]


def accounting_rows(text: str, mark: str, *, submit_line: bool) -> list[Row]:
    """The rows that `sacct --parsable2 --delimiter=mark` printed. Raises Unreachable."""
    width = len(accounting_fields(submit_line=submit_line))
    return [_accounted(fields) for fields in _joined_rows(text, mark, width)]


def _joined_rows(text: str, mark: str, width: int) -> Iterator[list[str]]:
    """Rows of `width` fields: only the last two may hold newlines, and no row's first one is empty or has any."""
    pieces = text.removesuffix("\n").split(mark) if text.strip() else []
    row: list[str] = []
    for index, piece in enumerate(pieces):
        if len(row) < width - 1 or index == len(pieces) - 1:
            row.append(piece)
            continue
        last, newline, first = piece.rpartition("\n")  # the end of this row and the start of the next
        if not newline:
            raise Unreachable(f"sacct's answer does not add up near {piece!r}")
        yield [*row, last]
        row = [first]
    if row and len(row) != width:
        raise Unreachable(f"sacct's answer breaks off: {text[-200:]!r}")
    if row:
        yield row


def _accounted(fields: Sequence[str]) -> Row:
    id_, state, exit_text, submitted, started, ended, nodes, *marks = fields
    found = _ID.fullmatch(id_)
    if not found:
        raise Unreachable(f"sacct's answer has a row without job id: {fields!r}")
    return Row(
        id=found[1],
        state=state,
        exit=exit_text,
        submitted=moment(submitted),
        started=moment(started),
        ended=moment(ended),
        nodes="" if nodes == "None assigned" else nodes,
        task=found[2] or "",
        marks="\n".join(marks).strip(),
    )


def canceller(rows: Iterable[Row]) -> int | None:
    """The user id in "CANCELLED by 1000", of the newest row that has one."""
    for row in reversed(list(rows)):
        found = re.fullmatch(r"CANCELLED by (\d+)", row.state)
        if found:
            return int(found[1])
    return None
