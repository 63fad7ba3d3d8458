"""Grid Engine through its own commands, as 8.1.9 has them; sites with another one may differ."""

from __future__ import annotations

import os
import pwd
import re
import shlex
from contextlib import suppress
from functools import partial
from glob import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote
from xml.etree import ElementTree as ET

from cronhpc.batch.commands import (
    ByCommands,
    Signs,
    chunks,
    code_and_signal,
    end_of_tasks,
    in_one_line,
    instant,
    option_words,
    our_clock,
    posix_moment,
    submission_error,
    task_numbers,
)
from cronhpc.batch.port import BatchError, Ends, JobFiles, Refused, Submission, Unreachable
from cronhpc.batch.process import Finished, run_many, which
from cronhpc.core.model import Accounting, CronhpcError, Fault, Job, JobEnd, Queue, Result, task_list
from cronhpc.core.model.site import Site
from cronhpc.cron.values import replace
from cronhpc.script.dialect import GRID_ENGINE

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
    from typing import Unpack

    from cronhpc.batch.commands import Usual


COMMENT = "cronhpc"  # the key of a job's context that holds our comment
_SAFE = "/@.:+=-_ ~"  # a comma would begin another pair of the context, and qstat spells < in a way of its own

# --- what is asked --------------------------------------------------------------------------------------------------


def submit_argv(job: Submission, shell: str, variables: Iterable[str], zone: str | None) -> list[str]:
    """The qsub call. Ours come last: of two the last counts, and both beat the script's own lines.

    `variables`: the names of those that the run gets, whose values come from qsub's environment; but its TZ, which is
    UTC for the time to begin at: `zone` is the run's.
    """
    names = [name for name in variables if name != "TZ" and "," not in name and "=" not in name]
    given = [*names, *([f"TZ={zone}"] if zone else [])]
    named = {"job-name": job_name(job.job_name or ""), "output": job.output, "error": job.error, "chdir": job.chdir}
    ours = {
        "-ac": comment_pair(job.comment) if job.comment else None,
        "-a": None if job.begin is None else posix_moment(job.begin),
        "-v": ",".join(given) or None,
    }
    return [
        *("qsub", "-terse"),
        *option_words([each for each in job.options if each.partition("=")[0] not in _NOT_FOR_RUNS], GRID_ENGINE),
        *("-S", shell),
        *(["-h"] if job.held and not job.holds_itself else []),
        *(["-r", "n"] if job.no_requeue else []),
        *(["-j", "y"] if job.output and not job.error else []),
        *option_words([f"--{name}={value}" for name, value in named.items() if value], GRID_ENGINE),
        *(word for option, value in ours.items() if value is not None for word in (option, value)),
        job.script,
        *job.arguments,
    ]


# options of a user's script, by which its job would not wait its turn, be waited for, or be no script
_NOT_FOR_RUNS = ("---b", "---now", "---sync", "---shell")


def job_name(name: str) -> str:
    """`name` without what Grid Engine refuses in one."""
    plain = re.sub(r"[^\x21-\x7e]|[/@:*\\,]", "_", name)[:500]
    return f"_{plain}" if plain[:1].isdigit() else plain


def comment_pair(comment: str) -> str:
    """A comment as a pair of a job's context."""
    return f"{COMMENT}={quote(comment, safe=_SAFE)}"


_CUT = 512  # bytes of a script's first line


def shell_of(script: str, env: Mapping[str, str]) -> str:
    """The interpreter for -S, which most sites ask instead of the script's first line; it takes no options."""
    try:
        with Path(script).open("rb") as file:
            line = file.readline(_CUT).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise Refused(f"{script}: cannot be read ({error.strerror})") from None
    words = [word for word in line.removeprefix("#!").split() if not word.startswith("-")]
    if words[:1] == ["/usr/bin/env"]:
        words = [which(each, env) or "" for each in words[1:2]]
    return words[0] if line.startswith("#!") and words and words[0].startswith("/") else "/bin/sh"


_UNDO = {"-h": "", "-verify": "", "-sync": "y", "-now": "y", "-b": "y"}  # with the first letter of its value


def undoing(files: Iterable[Path]) -> str:
    """The first default of qsub's that undoes how jobs are submitted, whatever follows: `FILE has -h`; "" for none.

    Of two -h none holds; -verify submits nothing, -sync and -now wait for a held job, -b reads no line of a script.
    """
    for file in files:
        with suppress(OSError, ValueError):  # what cannot be read here, or by anybody, qsub cannot read
            words = shlex.split(file.read_text(errors="replace"), comments=True)
            for word, value in pairwise((*words, "")):
                if value.startswith(_UNDO.get(word, "\n")):
                    return f"{file} has {word}"
    return ""


# --- what is answered -----------------------------------------------------------------------------------------------

SIGNS = Signs(
    at_limit=(25,),  # what qsub exits with where only so many jobs are allowed
    no_answer=(
        *("got select error", "unable to send message", "unable to contact", "syncron message", "commlib"),
        *("got send error", "connection refused", "timeout", "can't connect", "cannot connect", "got read error"),
        "unable to read qmaster",
    ),
    denied=("is not a submit host", "no permission to submit"),
    refused=(
        *(2, 4, 14),  # a bad option, a script that is not there or cannot be read
        *("unknown queue", "unknown resource", "is not a time value", "does not exist", "more than", "no script in"),
        *("invalid option", "unknown option", "must be", "no suitable queues", "is not a valid", "can't be converted"),
        "requires operator privileges",
    ),
    gone=("does not exist", "unknown job", "do not exist", "already"),
    failed=("denied", "error"),
)


def submitted(ended: Finished) -> str:
    """The new job's id: "36" of "36.1-5:1", too. Raises Unreachable, AtSubmitLimit, Denied, Refused, BatchError."""
    ids = [match[1] for line in ended.out.splitlines() if (match := re.fullmatch(r"(\d+)(?:\.\d+-\d+:\d+)?", line))]
    if len(ids) != 1:
        raise submission_error("qsub", ended, SIGNS)
    return str(ids[0])


class Row(NamedTuple):
    """One job, or some tasks of one, of `qstat -xml -u`."""

    id: str
    name: str
    state: str
    tasks: str
    at: int | None  # its start, of one that waits its submission
    queue: str


class Details(NamedTuple):
    """What `qstat -xml -j` tells of a job beside that."""

    comment: str
    begin: int
    submitted: int | None
    command: str
    workdir: str
    outputs: tuple[str, ...]
    trouble: str  # why it is in an error state
    account: str
    name: str = ""
    submitted_in: str = ""  # the folder that the script's path, as it was typed, is below
    is_array: bool = False
    depends: bool = False  # it waits for other jobs


def rows(answer: str) -> tuple[Row, ...]:
    """The jobs of `qstat -xml -u`. Raises Unreachable for anything else."""
    root = _root(answer, "job_info")
    return tuple(
        Row(
            _text(each, "JB_job_number"),
            _text(each, "JB_name"),
            _text(each, "state"),
            tasks_of(_text(each, "tasks")),
            instant(_text(each, "JAT_start_time") or _text(each, "JB_submission_time"), "%Y-%m-%dT%H:%M:%S"),
            _text(each, "queue_name"),
        )
        for each in root.iter("job_list")
    )


def details(answer: str) -> dict[str, Details]:
    """By id what `qstat -xml -j` printed; unknown ids are left out. Raises Unreachable."""
    root = _root(answer, "detailed_job_info", "unknown_jobs")
    return {_text(each, "JB_job_number"): _details(each) for each in root.iterfind("djob_info/element")}


def _details(job: ET.Element) -> Details:
    context = {_text(each, "VA_variable"): _text(each, "VA_value") for each in job.iter("context_list")}
    variables = {
        _text(each, "VA_variable"): _text(each, "VA_value") for each in job.iterfind("JB_env_list/job_sublist")
    }
    paths = [
        each for name in ("JB_stdout_path_list", "JB_stderr_path_list") for each in job.iterfind(f"{name}/path_list")
    ]
    words = [_text(job, "JB_script_file"), *(_text(each, "ST_name") for each in job.iterfind("JB_job_args/element"))]
    trouble = next((_text(each, "QIM_message") for each in job.iter("JAT_message_list") for each in each), "")
    return Details(
        comment=unquote(context.get(COMMENT, "")),
        begin=int(_text(job, "JB_execution_time") or 0),
        submitted=int(_text(job, "JB_submission_time") or 0) or None,
        command=" ".join(words),
        workdir=_text(job, "JB_cwd"),
        outputs=tuple(dict.fromkeys(_text(each, "PN_path") for each in paths)),
        name=_text(job, "JB_job_name"),
        submitted_in=variables.get("__SGE_PREFIX__O_WORKDIR", ""),
        is_array=any(_text(each, "RN_max") != "1" for each in job.iterfind("JB_ja_structure/task_id_range")),
        depends=job.find("JB_jid_predecessor_list/job_predecessors") is not None,
        trouble=re.sub(r"^\S+ \S+ \[\d+:\d+\]: ", "", trouble),
        account=_text(job, "JB_account"),
    )


def as_globs(job: Details, job_id: str, name: str) -> tuple[str, ...]:
    """The files that a job writes as absolute glob patterns: what only the start decides is `*`."""
    values = {"JOB_ID": escape(job_id), "JOB_NAME": escape(name)}
    globs = []
    for each in job.outputs:
        parts = re.split(r"\$(JOB_ID|JOB_NAME|TASK_ID|USER|HOSTNAME)", each.removeprefix(":"))
        pattern = "".join(values.get(part, "*") if n % 2 else escape(part) for n, part in enumerate(parts))
        globs.append(pattern if pattern.startswith("/") else f"{escape(job.workdir)}/{pattern}")
    return tuple(sorted(set(globs) - {"/dev/null"}))


def _root(answer: str, *tags: str) -> ET.Element:
    """The root, which alone tells an answer from none: qstat exits 0 without one. Raises Unreachable."""
    match = re.search(r"<\?xml.*</\w+>", answer, re.DOTALL)  # a site's wrapper may print lines of its own around it
    # two ways of its own, which are no XML
    whole = (match[0] if match else answer).replace("%lt;", "&lt;").replace("job ids>", "job_ids>")
    try:
        root = ET.fromstring(whole)  # noqa: S314 - of the batch system's own command
    except ET.ParseError as error:
        raise Unreachable(f"qstat's answer cannot be read ({error}): {answer[-200:]!r}") from None
    if root.tag not in tags:
        raise Unreachable(_text(root, "AN_text") or f"qstat printed {root.tag}, which is no answer")
    return root


def _text(element: ET.Element, name: str) -> str:
    return (element.findtext(name) or "").strip()


def tasks_of(text: str) -> str:
    """`1-5:1` and `3,4` as [1-5] and [3-4]; one task is its number."""
    return task_list(task_numbers(text)) if text else ""


_TRANSFER = (
    900  # seconds that a node may take to say that it has a job; each time that it is sent anew they begin again
)
_TRANSFER_UNHEARD = 120  # of a node that has said nothing at all for as long as the cell's max_unheard


def jobs(
    listed: Iterable[Row],
    details: Mapping[str, Details],
    held_by_user: frozenset[str],
    now: int,
    silent: Container[Row] = (),
) -> tuple[Job, ...]:
    """Rows as jobs in our words; one that has ended between the two questions keeps what is known of it.

    `silent`: those on nodes that do not answer.
    """
    return tuple(_job(row, details.get(row.id, _NOTHING), held_by_user, now, silent) for row in listed)


_NOTHING = Details("", 0, None, "", "", (), "", "")


def _job(row: Row, more: Details, held_by_user: frozenset[str], now: int, silent: Container[Row]) -> Job:
    longest = _TRANSFER_UNHEARD if row in silent else _TRANSFER
    stuck = "t" in row.state and row.at is not None and row.at < now - longest
    waits = "q" in row.state or stuck
    fault, reason = None, ""
    if "E" in row.state:
        fault, why = Fault.ERROR_STATE, f": {more.trouble}" if more.trouble else ""
        reason = f"{fault}, held until: {GRID_ENGINE.clear} {row.id}{why}"
    elif stuck:
        fault = Fault.STUCK
        reason = f"{fault}, held until: {GRID_ENGINE.force} {row.id}"
    elif "d" in row.state and row in silent:
        fault = Fault.UNENDING
        reason = f"{fault}: its node does not answer"
    elif waits and "h" in row.state and more.depends and row.id not in held_by_user:
        reason = "Dependency"
    elif waits and "h" in row.state:
        reason = fault = Fault.HELD_BY_USER if row.id in held_by_user else Fault.HELD_BY_ADMIN
    elif waits and more.begin:
        reason = "BeginTime"
    state = "PENDING" if waits else "COMPLETING" if "d" in row.state else "RUNNING"
    if not waits and set("sST").intersection(row.state):
        state = "SUSPENDED"
    queue, _, node = row.queue.partition("@")
    return Job(
        id=row.id,
        tasks=row.tasks,
        state=state,
        reason=reason,
        fault=fault,
        name=row.name,
        comment=more.comment,
        start=(more.begin or None) if waits else row.at,
        submitted=more.submitted or (row.at if waits else None),
        partition=queue,
        account=more.account,
        workdir=more.workdir,
        nodes=node,
        command=more.command or None,
    )


# --- how jobs ended -------------------------------------------------------------------------------------------------

_SIGNALLED = "100"  # the script's own shell was ended by a signal
_OF_QDEL = {9, 12, 15, None}  # KILL is what qdel sends, USR2 before it to a job with -notify; or a queue's own way
_TROUBLE = {
    "26": Result.FAILED,
    "28": Result.FAILED,
    "30": Result.FAILED,
    "37": Result.TIMEOUT,
    _SIGNALLED: Result.CANCELLED,
}
_RESCHEDULED = "25"


def job_end(answer: str, since: int) -> JobEnd | None:
    """The end that `qacct -j ID` tells of a job submitted `since`, which has a record a task; None: there is none.

    Of two about one task the later one counts.
    """
    records = [_fields(record) for record in re.split(r"^=+$", answer, flags=re.MULTILINE)]
    ends = {fields.get("taskid", ""): end for fields in records if (end := _end(fields, since)) is not None}
    return end_of_tasks(list(ends.items()))


def _fields(record: str) -> dict[str, str]:
    return {words[0]: words[1].strip() for line in record.splitlines() if len(words := line.split(None, 1)) > 1}


def _end(fields: Mapping[str, str], since: int) -> JobEnd | None:
    submitted = instant(fields.get("qsub_time", ""))
    number, _, why = fields.get("failed", "").partition(":")
    if submitted is None or submitted < since or number.strip() == _RESCHEDULED:
        return None
    status = fields.get("exit_status", "").partition(" ")[0]  # "137", or "137 (Killed)"
    code, signal = code_and_signal(int(status) if status.isdecimal() else None)
    well = not (code or signal) and number.strip() == "0"
    result = _TROUBLE.get(number.strip(), Result.OK if well else Result.FAILED)
    if number.strip() == _SIGNALLED and signal not in _OF_QDEL:
        result = Result.FAILED
    started = instant(fields.get("start_time", ""))
    return JobEnd(
        result=result,
        exit_code=code,
        signal=signal,
        submitted=submitted,
        started=started,
        ended=instant(fields.get("end_time", "")) or submitted,
        node=fields.get("hostname", "") if started else "",
        detail=why.strip(),
    )


# --- the batch system -------------------------------------------------------------------------------------------------

_PARALLEL = 4  # questions at once about ended jobs


class GridEngine(ByCommands):
    """The cell of `environ` (its SGE_ROOT, its PATH), as this user.

    It remembers no ended job: how one ended is in a file that nodes may not see, and that does not know of a job which
    was cancelled while it waited.
    """

    dialect = GRID_ENGINE
    signs = SIGNS

    def __init__(self, environ: Mapping[str, str], **usual: Unpack[Usual]) -> None:
        super().__init__(environ, **usual)
        # its clients need no more than two small files of this folder, which some sites copy to the nodes
        ends = f"{environ.get('SGE_ROOT', '')}/{environ.get('SGE_CELL', 'default')}/common/accounting"
        defaults = Path(ends).with_name("sge_request"), *(Path(each, ".sge_request") for each in self._homes(environ))
        self._defaults = tuple(dict.fromkeys(defaults))
        self.dialect = GRID_ENGINE if os.access(ends, os.R_OK) else replace(GRID_ENGINE, tells_ends=False)

    def queue(self) -> Queue:
        """In two questions; more where some are held, sent or deleted."""
        listed = self._listed()
        details = self._details([row.id for row in listed])
        held = self._listed("hu") if any("h" in row.state for row in listed) else ()
        silent = self._listed("a", "-qs", "u") if any({"d", "t"} & set(row.state) for row in listed) else ()
        return Queue(jobs(listed, details, frozenset(row.id for row in held), our_clock(), silent))

    def _listed(self, states: str = "a", *which: str) -> tuple[Row, ...]:
        """Those in such states: "a" is said, too, for a .sge_qstat of the user's may leave out what waits."""
        return rows(self.answer(["qstat", "-xml", "-s", states, *which, "-u", self._user()]))

    def _details(self, job_ids: Sequence[str]) -> dict[str, Details]:
        by_id: dict[str, Details] = {}
        for some in chunks(list(dict.fromkeys(job_ids))):
            by_id |= details(self.answer(["qstat", "-xml", "-j", ",".join(some)]))
        return by_id

    def live_files(self) -> tuple[JobFiles, ...]:
        names = {row.id: row.name for row in self._listed()}
        return tuple(
            JobFiles(job_id, job.command, job.workdir, as_globs(job, job_id, names.get(job_id, "")))
            for job_id, job in self._details(list(names)).items()
        )

    @staticmethod
    def _homes(environ: Mapping[str, str]) -> Iterator[str]:
        """Where qsub looks for defaults: the home folder, and the one that it is called in."""
        with suppress(KeyError):  # a directory service that is down: then qsub knows no user either
            yield pwd.getpwuid(os.getuid()).pw_dir
        yield environ.get("HOME", "/")

    def undoing(self) -> str:
        return undoing(self._defaults)

    def submit(self, job: Submission) -> str:
        if fault := self.undoing():
            raise BatchError(f"{fault}, by which no job would be held until it is written down: take that out of it")
        env = {**self.of_runs, **(job.export or {})}
        argv = submit_argv(job, shell_of(job.script, env), sorted(env), env.get("TZ"))
        # a time to begin at is read in the caller's zone: ours here, else the one in which the script was written
        zone = {} if job.begin is None else {"TZ": "UTC0"}
        return submitted(self.run(argv, {**(job.export or {}), **zone}, submits=True))

    def signal(self, job_ids: Sequence[str], name: str) -> None:
        """It lets an owner send none."""
        raise BatchError(f"Grid Engine sends no {name} to {', '.join(job_ids)}: a guard in the script can warn it")

    def move(self, job_id: str, at: int, comment: str | None = None, exclude: str | None = None) -> None:
        del exclude  # of scheduler jobs alone, which are not here
        marks = ["-ac", comment_pair(comment)] if comment is not None else []
        self._change(["qalter", "-a", posix_moment(at), *marks, *self._names([job_id])], gone_is_fine=False)

    def hold(self, job_ids: Sequence[str], comment: str) -> None:
        self._change_all(["qalter", "-h", "u", "-ac", comment_pair(comment)], job_ids)

    def comment(self, job_ids: Sequence[str], comment: str) -> None:
        self._change_all(["qalter", "-ac", comment_pair(comment)], job_ids)

    def _ends(self, job_ids: Sequence[str], since: int) -> Ends:
        """As the accounting file of this machine has it."""
        answers = run_many([partial(self.look, ["qacct", "-j", job_id]) for job_id in job_ids], _PARALLEL)
        ends, trouble = {}, ""
        for job_id, answer in zip(job_ids, answers, strict=True):
            if isinstance(answer, CronhpcError):
                raise answer
            if answer.timed_out:
                trouble = in_one_line("qacct", answer)
            elif answer.code == 0 and (end := job_end(answer.out, since)):
                ends[job_id] = end
        return Ends(ends, Accounting(exists=bool(trouble), trouble=trouble))

    def site(self) -> Site:
        """Nothing that settings need: a queue is found by what a script asks for."""
        self._listed()
        return Site()

    def describe(self, job_id: str) -> Mapping[str, str]:
        details = self._details([job_id]).get(job_id)
        if details is None:
            raise BatchError(f"job {job_id} does not exist")
        return {
            "JobId": job_id,
            "JobName": details.name,
            "Command": str(Path(details.submitted_in, details.command)),
            "WorkDir": details.workdir or str(Path.home()),  # where it starts jobs that name none
            "Comment": details.comment,
            **({"ArrayJobId": job_id} if details.is_array else {}),
        }

    def _names(self, job_ids: Sequence[str]) -> Sequence[str]:
        """`57_[2-4]` is 57.2-4 there."""
        parts = (each.partition("_") for each in job_ids)
        return [f"{number}.{tasks.strip('[]').partition('%')[0]}" if tasks else number for number, _, tasks in parts]
