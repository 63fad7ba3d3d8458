"""How jobs ended, as the controller remembers (squeue -O) and as accounting tells (sacct). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cronhpc.batch.port import Unreachable
from cronhpc.batch.slurm_rows import JOB_ID, behind_header, moment, task_list, word
from cronhpc.core.model import ENDS, FAILURES, TOKEN, Ending, Result, restarted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# of an array's tasks the worst stands for all
_WORST = (
    *(Result.NODE_FAIL, Result.OUT_OF_MEMORY, Result.TIMEOUT, Result.FAILED, Result.PREEMPTED, Result.CANCELLED),
    *(Result.UNKNOWN, Result.OK),
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
    restarts: int = 0
    marks: str | None = None  # comment and submit line, to tell a reused id by; None where neither is stored


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
    if word not in ENDS:
        return None
    code, number = exit_of(row.exit)
    detail = "" if word in {"COMPLETED", "FAILED"} else row.state.lower().replace("_", " ")
    return Ending(
        result=ENDS[word],
        exit_code=code,
        signal=number,
        submitted=row.submitted,
        started=row.started if row.nodes else None,  # of a job that never ran it is the time of its end
        ended=row.ended,
        node=row.nodes,
        detail=detail,
    )


def combined(rows: Sequence[Row]) -> Ending | None:
    """One ending for a job's rows (an array has one a task): the worst; None while one of them has not ended."""
    ended = [(row.task, ending) for row in rows if (ending := ending_of(row)) is not None]
    if len(ended) < len(rows) or not ended:
        return None
    failed = [int(task) for task, ending in ended if ending.result in FAILURES and task.isdecimal()]
    tasks = task_list(failed).strip("[]") if failed else ""
    if len(ended) == 1:
        return replace(ended[0][1], tasks=tasks)
    endings = [ending for _, ending in ended]
    return replace(
        min(endings, key=lambda ending: _WORST.index(ending.result)),
        started=min((e.started for e in endings if e.started), default=None),
        ended=max((e.ended for e in endings if e.ended), default=None),
        detail=_which_tasks(ended),
        tasks=tasks,
    )


def _which_tasks(ended: Sequence[tuple[str, Ending]]) -> str:
    """Those, as in "array tasks: [1-2] failed", that did not end well."""
    bad: dict[str, list[int]] = {}
    for task, ending in ended:
        if ending.result is not Result.OK and task.isdecimal():
            bad.setdefault(str(ending.result), []).append(int(task))
    words = ", ".join(f"{task_list(tasks)} {result}" for result, tasks in bad.items())
    return f"array tasks: {words}" if words else ""


def _foreign(row: Row, tokens: Mapping[str, str]) -> bool:
    token = tokens.get(row.id)
    return bool(token and row.marks is not None and token not in row.marks)


def endings_of(rows: Iterable[Row], since: int, tokens: Mapping[str, str]) -> dict[str, Ending]:
    """The ended jobs among rows submitted at `since` or later, by id; of two rows about one thing the later one counts.

    Ids are used again when a controller loses its state: where `tokens` has an id, rows with another comment are not
    of that job.
    """
    jobs: dict[str, dict[str, Row]] = {}
    starts: dict[str, set[tuple[str, int]]] = {}  # accounting has a row for each
    for row in rows:
        if (row.submitted or 0) < since or _foreign(row, tokens):
            continue
        tasks = jobs.setdefault(row.id, {})
        starts.setdefault(row.id, set()).add((row.task, row.submitted or 0))
        known = tasks.get(row.task)
        if known is None or _rank(row) >= _rank(known):
            tasks[row.task] = row
    found = {job_id: combined(_whole(tasks)) for job_id, tasks in jobs.items()}
    return {
        job_id: _with_restarts(ending, len(starts[job_id]) - len(jobs[job_id]), jobs[job_id].values())
        for job_id, ending in found.items()
        if ending is not None
    }


def _with_restarts(ending: Ending, counted: int, rows: Iterable[Row]) -> Ending:
    """Said with the end: of a job that ran three times, waiting and running time tell of the last one only."""
    number = max(counted, sum(row.restarts for row in rows))
    return replace(ending, detail="; ".join(filter(None, [restarted(number), ending.detail])))


def alive(rows: Iterable[Row], since: int, tokens: Mapping[str, str]) -> frozenset[str]:
    """Ids of jobs of which a row, submitted at `since` or later, has not ended."""
    mine = (row for row in rows if (row.submitted or since) >= since and not _foreign(row, tokens))
    return frozenset(row.id for row in mine if ending_of(row) is None)


def _rank(row: Row) -> tuple[int, bool, int]:
    """A requeued job has a row for each start, with a submit time of its own; accounting is late by seconds."""
    return row.submitted or 0, ending_of(row) is not None, row.started or 0


def _whole(tasks: dict[str, Row]) -> list[Row]:
    """Without what accounting shows of an array before it knows that it is one."""
    return [row for task, row in tasks.items() if task or len(tasks) == 1]


def for_accounting(job_ids: Iterable[str], remembered: Iterable[Row]) -> list[str]:
    """Of `job_ids` those that the controller forgot, in whole or (arrays) in part, or cannot say who cancelled."""
    told = dict.fromkeys(job_ids, False)
    whole = dict(told)
    for row in remembered:
        told[row.id] = True
        whole[row.id] = whole[row.id] or bool(row.task) or row.state == "CANCELLED"
    return [job_id for job_id, known in told.items() if not known or whole[job_id]]


# --- squeue -O: exit codes within MinJobAge ------------------------------------------------------------------------

_EXIT_FIELDS = ("JobArrayID", "State", "exit_code", "SubmitTime", "StartTime", "EndTime", "NodeList")
_EXIT_WIDTH = 64
_EXIT_ROW = re.compile(r"(?=\d.{63}[A-Z].{63}\d)" + r"(.{64})" * len(_EXIT_FIELDS) + r"(.*)")
_MARKS_WIDTH = 300  # of the comment: our mark stands first


def exits_format() -> str:
    """The -O argument of squeue: words of fixed width, and the start of the comment."""
    words = [f"{name}:{_EXIT_WIDTH}" for name in _EXIT_FIELDS]
    return ",".join([*words, f"Comment:{_MARKS_WIDTH}", f"RestartCnt:{_EXIT_WIDTH}"])


def restarts_format() -> str:
    """The -O argument of squeue that `restarts_of` reads."""
    return f"JobArrayID:{_EXIT_WIDTH},RestartCnt:{_EXIT_WIDTH}"


def restarts_of(text: str) -> dict[str, int]:
    """By job id, how often it was put back into the queue; of an array all its tasks together."""
    found: dict[str, int] = {}
    for line in text.split("\n"):
        name, number = line[:_EXIT_WIDTH].strip(), line[_EXIT_WIDTH:].strip()
        job = JOB_ID.fullmatch(name)
        if job and number.isdecimal() and int(number):
            found[job[1]] = found.get(job[1], 0) + int(number)
    return found


def exits_rows(text: str) -> list[Row]:
    """The rows that squeue printed with `exits_format`. Raises Unreachable."""
    rows: list[Row] = []
    text, headed = behind_header(text, f"{'JOBID':{_EXIT_WIDTH}}{'STATE':{_EXIT_WIDTH}}")
    for line in text.split("\n"):
        found = _EXIT_ROW.fullmatch(line)
        if found:
            rows.append(_remembered([word.strip() for word in found.groups()]))
        elif line.strip() and not (headed or rows or line.startswith("CLUSTER:")):
            raise Unreachable(f"squeue's answer has a row without job id: {line!r}")  # later ones: a comment goes on
    return rows


def _remembered(words: Sequence[str]) -> Row:
    id_, state, exit_text, submitted, started, ended, nodes, rest = words
    comment, restarts = rest[:_MARKS_WIDTH].rstrip(), rest[_MARKS_WIDTH:].strip()
    found = JOB_ID.fullmatch(id_)
    if not found:
        raise Unreachable(f"squeue's answer has a row without job id: {words!r}")
    return Row(
        id=found[1],
        state=state,
        exit=exit_text,
        submitted=moment(submitted),
        started=moment(started),
        ended=moment(ended),
        nodes=word(nodes),
        task=found[2] or "",
        restarts=int(restarts) if restarts.isdecimal() else 0,
        marks=word(comment),
    )


# --- sacct ---------------------------------------------------------------------------------------------------------

_ACCOUNTING = ("JobID", "State", "ExitCode", "Submit", "Start", "End", "NodeList", "Comment", "SubmitLine")


def accounting_fields(*, submit_line: bool) -> tuple[str, ...]:
    """What is asked of sacct; `SubmitLine` came with 21.08."""
    return _ACCOUNTING if submit_line else _ACCOUNTING[:-1]


def accounting_rows(text: str, mark: str, *, submit_line: bool) -> list[Row]:
    """The rows that `sacct --parsable2 --delimiter=mark` printed. Raises Unreachable."""
    names = accounting_fields(submit_line=submit_line)
    text, headed = behind_header(text, mark.join(names))
    if headed and mark not in text:
        return []
    return [_accounted(fields) for fields in _joined_rows(text, mark, len(names))]


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
    found = JOB_ID.fullmatch(id_)
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
        marks=_marks(*marks),
    )


def _marks(comment: str, submit_line: str = "") -> str | None:
    """A job may have got another comment since; without the line that submitted it that proves nothing."""
    known = bool(submit_line.strip()) or TOKEN in comment
    return f"{comment}\n{submit_line}".strip() if known else None


def used_of(text: str) -> tuple[int, int]:
    """Jobs that used anything, and their CPU seconds, from one CPUTimeRAW a line. Raises Unreachable."""
    words = [line.strip() for line in text.split("\n") if line.strip()]
    if not all(word.isdecimal() for word in words):
        raise Unreachable(f"sacct's answer is no number of seconds: {text[:200]!r}")
    seconds = [int(word) for word in words]
    return sum(1 for each in seconds if each), sum(seconds)


def canceller(rows: Iterable[Row]) -> int | None:
    """The user id in "CANCELLED by 1000", of the newest row that has one."""
    for row in reversed(list(rows)):
        found = re.fullmatch(r"CANCELLED by (\d+)", row.state)
        if found:
            return int(found[1])
    return None
