"""How jobs ended, as the controller remembers (squeue -O) and as accounting tells (sacct).

Read by few ticks, so imported by those only.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cronhpc.batch.commands import end_of_tasks
from cronhpc.batch.port import Ends, Unreachable
from cronhpc.batch.slurm.rows import JOB_ID, behind_header, moment, word
from cronhpc.core.model import ENDS, TOKEN, Accounting, JobEnd, restarted
from cronhpc.cron.values import dataclass, replace
from cronhpc.inside.switch_file import owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


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
    by: int | None = None  # the user id that cancelled it
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


def job_end_of(row: Row) -> JobEnd | None:
    """How that job or task ended; None: it has not, or it was requeued."""
    state = row.state.rstrip("+")
    if state not in ENDS:
        return None
    code, number = exit_of(row.exit)
    detail = "" if state in {"COMPLETED", "FAILED"} else row.state.lower().replace("_", " ")
    return JobEnd(
        result=ENDS[state],
        exit_code=code,
        signal=number,
        submitted=row.submitted,
        started=row.started if row.nodes else None,  # of a job that never ran it is the time of its end
        ended=row.ended,
        node=row.nodes,
        detail=detail if row.by is None else f"{detail} by {owner(row.by)}",
    )


def combined(rows: Sequence[Row]) -> JobEnd | None:
    """One ending for a job's rows (an array has one a task): the worst; None while one of them has not ended."""
    ended = [(row.task, job_end) for row in rows if (job_end := job_end_of(row)) is not None]
    return end_of_tasks(ended) if len(ended) == len(rows) else None


def _foreign(row: Row, tokens: Mapping[str, str]) -> bool:
    token = tokens.get(row.id)
    return bool(token and row.marks is not None and token not in row.marks)


def job_ends_of(rows: Iterable[Row], since: int, tokens: Mapping[str, str]) -> dict[str, JobEnd]:
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
        before = tasks.get(row.task)
        if before is None or _rank(row) >= _rank(before):
            tasks[row.task] = row
    ends = {job_id: combined(_whole(tasks)) for job_id, tasks in jobs.items()}
    return {
        job_id: _with_restarts(job_end, len(starts[job_id]) - len(jobs[job_id]), jobs[job_id].values())
        for job_id, job_end in ends.items()
        if job_end is not None
    }


SLACK = 120  # seconds that the clock of the controller may be behind ours


def ends_of(
    remembered: Sequence[Row], accounted: Sequence[Row], accounting: Accounting, since: int, tokens: Mapping[str, str]
) -> Ends:
    """Of both sources; `accounting`: what is known of that itself."""
    by_id = job_ends_of([*remembered, *accounted], since, tokens)
    by = {row.id: row.by for row in accounted if row.by is not None and (row.submitted or 0) >= since}  # the newest's
    return Ends(by_id, replace(accounting, alive=alive(accounted, since, tokens) - by_id.keys()), by)


def _with_restarts(job_end: JobEnd, counted: int, rows: Iterable[Row]) -> JobEnd:
    """Said with the end: of a job that ran three times, waiting and running time tell of the last one only."""
    number = max(counted, sum(row.restarts for row in rows))
    return replace(job_end, detail="; ".join(filter(None, [restarted(number), job_end.detail])))


def alive(rows: Iterable[Row], since: int, tokens: Mapping[str, str]) -> frozenset[str]:
    """Ids of jobs of which a row, submitted at `since` or later, has not ended."""
    mine = (row for row in rows if (row.submitted or since) >= since and not _foreign(row, tokens))
    return frozenset(row.id for row in mine if job_end_of(row) is None)


def _rank(row: Row) -> tuple[int, bool, int]:
    """A requeued job has a row for each start, with a submit time of its own; accounting is late by seconds."""
    return row.submitted or 0, job_end_of(row) is not None, row.started or 0


def _whole(tasks: dict[str, Row]) -> list[Row]:
    """Without what accounting shows of an array before it knows that it is one."""
    return [row for task, row in tasks.items() if task or len(tasks) == 1]


def for_accounting(job_ids: Iterable[str], remembered: Iterable[Row]) -> list[str]:
    """Of `job_ids` those that the controller forgot, in whole or (arrays) in part, or cannot say who cancelled."""
    is_remembered = dict.fromkeys(job_ids, False)
    whole = dict(is_remembered)
    for row in remembered:
        is_remembered[row.id] = True
        whole[row.id] = whole[row.id] or bool(row.task) or row.state == "CANCELLED"
    return [job_id for job_id in whole if not is_remembered[job_id] or whole[job_id]]


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
    restarts: dict[str, int] = {}
    for line in text.split("\n"):
        name, number = line[:_EXIT_WIDTH].strip(), line[_EXIT_WIDTH:].strip()
        job = re.fullmatch(JOB_ID, name)
        if job and number.isdecimal() and int(number):
            restarts[job[1]] = restarts.get(job[1], 0) + int(number)
    return restarts


def exits_rows(text: str) -> list[Row]:
    """The rows that squeue printed with `exits_format`. Raises Unreachable."""
    rows: list[Row] = []
    text, headed = behind_header(text, f"{'JOBID':{_EXIT_WIDTH}}{'STATE':{_EXIT_WIDTH}}")
    for line in text.split("\n"):
        match = _EXIT_ROW.fullmatch(line)
        if match:
            rows.append(_remembered([word.strip() for word in match.groups()]))
        elif line.strip() and not (headed or rows or line.startswith("CLUSTER:")):
            raise Unreachable(f"squeue's answer has a row without job id: {line!r}")  # later ones: a comment goes on
    return rows


def _remembered(words: Sequence[str]) -> Row:
    *words, rest = words
    comment, restarts = rest[:_MARKS_WIDTH].rstrip(), rest[_MARKS_WIDTH:].strip()
    number = int(restarts) if restarts.isdecimal() else 0
    return _parsed("squeue", words, marks=word(comment), restarts=number)


def _parsed(program: str, words: Sequence[str], *, marks: str | None, restarts: int = 0) -> Row:
    """Of what a `program` printed: id, state, exit, submit, start, end, nodes. Raises Unreachable."""
    id_, state, exit_text, submitted, started, ended, nodes = words
    match = re.fullmatch(JOB_ID, id_)
    if not match:
        raise Unreachable(f"{program}'s answer has a row without job id: {words!r}")
    state, _, by = state.partition(" by ")  # "CANCELLED by 1000"
    return Row(
        id=match[1],
        state=state,
        exit=exit_text,
        submitted=moment(submitted),
        started=moment(started),
        ended=moment(ended),
        nodes="" if nodes == "None assigned" else word(nodes),
        task=match[2] or "",
        restarts=restarts,
        by=int(by) if by.isdecimal() else None,
        marks=marks,
    )


# --- sacct ---------------------------------------------------------------------------------------------------------

# the last came with 21.08
ACCOUNTING = ("JobID", "State", "ExitCode", "Submit", "Start", "End", "NodeList", "Comment", "SubmitLine")


def accounting_rows(text: str, separator: str, names: Sequence[str] = ACCOUNTING) -> list[Row]:
    """The rows that `sacct --parsable2 --delimiter=mark` printed. Raises Unreachable."""
    text, headed = behind_header(text, separator.join(names))
    if headed and separator not in text:
        return []
    width = len(_EXIT_FIELDS)
    rows = _joined_rows(text, separator, len(names))
    return [_parsed("sacct", fields[:width], marks=_marks(*fields[width:])) for fields in rows]


def _joined_rows(text: str, separator: str, width: int) -> Iterator[list[str]]:
    """Rows of `width` fields: only the last two may hold newlines, and no row's first one is empty or has any."""
    pieces = text.removesuffix("\n").split(separator) if text.strip() else []
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


def _marks(comment: str, submit_line: str = "") -> str | None:
    """A job may have got another comment since; without the line that submitted it that proves nothing."""
    is_proof = bool(submit_line.strip()) or TOKEN in comment
    return f"{comment}\n{submit_line}".strip() if is_proof else None


def used_of(text: str) -> tuple[int, int]:
    """Jobs that used anything, and their CPU seconds, from one CPUTimeRAW a line. Raises Unreachable."""
    words = [line.strip() for line in text.split("\n") if line.strip()]
    if not all(word.isdecimal() for word in words):
        raise Unreachable(f"sacct's answer is no number of seconds: {text[:200]!r}")
    seconds = [int(word) for word in words]
    return sum(1 for each in seconds if each), sum(seconds)


UTC_TIMES = {"TZ": "UTC0"}  # of those that sacct is given


def accounting_argv(job_ids: Sequence[str], since: int, separator: str, fields: Sequence[str]) -> list[str]:
    """The sacct call, in UTC: jobs that were there at `since` or later, a row for each start of a requeued one."""
    flags = ("--allocations", "--duplicates", "--parsable2", f"--delimiter={separator}")
    return ["sacct", *flags, _start_time(since), f"--jobs={','.join(job_ids)}", f"--format={','.join(fields)}"]


def used_argv(names: Sequence[str], since: int) -> list[str]:
    """The sacct call, in UTC, for what was allocated to jobs of these names."""
    flags = ("--allocations", "--noheader", "--parsable2")
    return ["sacct", *flags, _start_time(since), f"--name={','.join(names)}", "--format=CPUTimeRAW"]


def _start_time(since: int) -> str:
    """Sacct reads its window's start in the caller's zone, here UTC, and takes no epoch seconds."""
    return datetime.fromtimestamp(since, UTC).strftime("--starttime=%Y-%m-%dT%H:%M:%S")
