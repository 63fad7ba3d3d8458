"""PBS through its own commands, as OpenPBS 23.06 has them; PBS Pro's are the same. Not Torque's.

A job's comment is a variable of it, which nobody can change later: a comment that was changed since stands in a file.
"""

from __future__ import annotations

import re
import shlex
from functools import partial
from glob import escape
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from cronhpc.batch.commands import (
    ByCommands,
    Signs,
    chunks,
    code_and_signal,
    end_of_tasks,
    in_one_line,
    instant,
    json_in,
    meant,
    option_words,
    posix_moment,
    submission_error,
    task_numbers,
    wrapped_text,
)
from cronhpc.batch.local import supervisor as files
from cronhpc.batch.port import BatchError, Ends, JobFiles, Refused, Submission, Unreachable
from cronhpc.batch.process import Finished, run_many
from cronhpc.core.model import TOKEN, Fault, Job, JobEnd, Queue, Result, log_name, task_list
from cronhpc.core.model.site import Site
from cronhpc.cron.values import replace
from cronhpc.script.dialect import PBS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Unpack

    from cronhpc.batch.commands import Usual


_TOKEN = TOKEN.removesuffix("=")  # the variable that holds a job's comment
_FOREIGN = "plain/"  # begins the value of a comment that is none of ours
_TASK = "^array_index^"

# --- what is asked --------------------------------------------------------------------------------------------------

# Of a script's own: the text has the environment, and bash reads it; -v is merged; with -z no id is printed.
_LEFT_OUT = frozenset({"-C", "-I", "-S", "-V", "-X", "-f", "-v", "-z"})
_ADDED_UP = frozenset({"-W", "-l"})  # of all others one is given, the last


def submit_argv(job: Submission) -> list[str]:
    """The qsub call for a text on standard input. Ours beat the script's own. Raises Refused.

    In the log's name %j stays until the release, when the id is known.
    """
    error = _path(job.error) if job.error and job.error != job.output else None
    ours = {
        "-S": "/bin/bash",
        "-N": job.job_name and job_name(job.job_name),
        "-a": None if job.begin is None else posix_moment(job.begin),
        "-o": job.output and _path(job.output),
        "-e": error,
        "-k": "oed" if job.output else None,
        "-j": "oe" if job.output and error is None else None,
        "-v": ",".join(_variables(job)) or None,
    }
    own = _pairs(job.options)
    once = {} if any(option == "-J" for option, _ in own) else {"-r": "n"}  # it refuses an array that is not rerunnable
    once |= {option: value for option, value in own if option not in _ADDED_UP}
    once |= {option: value for option, value in ours.items() if value is not None}
    pairs = [pair for pair in own if pair[0] in _ADDED_UP] + list(once.items())
    # without -f a process stays behind for a minute
    return ["qsub", "-f", *(["-h"] if job.held else []), *(word for pair in pairs for word in pair if word)]


def _pairs(options: Sequence[str]) -> list[tuple[str, str]]:
    """Options of settings as qsub has them, and those that the script has written itself. Raises Refused."""
    pairs: list[tuple[str, str]] = []
    for option in options:
        if option.startswith("--"):
            tasks = option.removeprefix("--array=")
            words = option_words([option if tasks == option else f"--array={_range(tasks, option)}"], PBS)
            pairs.append((words[0], "".join(words[1:])))
            continue
        letter, *rest = shlex.split(option)
        kept = ",".join(each for each in "".join(rest).split(",") if not each.startswith("block="))  # it would wait
        if letter not in _LEFT_OUT and (kept or not rest):
            pairs.append((letter, kept))
    return pairs


def _range(tasks: str, option: str) -> str:
    """`3`, `2,4` and `1-5%2` as -J takes them: one range of two numbers or more, with others in it."""
    if not re.fullmatch(r"\d+(-\d+(:\d+)?)?(,\d+(-\d+(:\d+)?)?)*(%\d+)?", tasks):
        raise Refused(f"{option}: this is no list of tasks, as 1-5 or 2,4.")
    numbers, (spans, percent, limit) = sorted(task_numbers(tasks)), tasks.partition("%")
    if len(numbers) > 1:
        spans = spans if "," not in spans else f"{numbers[0]}-{numbers[-1]}"
    else:
        spans = f"{numbers[0]}-{numbers[0] + 1}:2"
    return f"{spans}{percent}{limit}"


class Array(NamedTuple):
    """The array that is submitted."""

    tasks: int  # how many; 0: it is none
    only: str  # a line for the text of one whose range holds more tasks; "" for others


def array_of(options: Sequence[str]) -> Array:
    """What `options` ask for, those of the script and ours behind them."""
    asked = ""
    for option in options:
        if option.startswith(("--array=", "-J")):
            asked = option.removeprefix("--array=") if option.startswith("--") else shlex.split(option)[-1]
    numbers = task_numbers(asked)
    listed = ",".join(map(str, sorted(numbers)))
    only = f"case ,{listed}, in *,$PBS_ARRAY_INDEX,*) ;; *) exit 0 ;; esac\n" if "," in asked else ""
    return Array(len(numbers), only)


def own_values(own_export: str | None) -> dict[str, str]:
    """What a script gives variables itself (`#PBS -v A=1,B`)."""
    pairs = (each.partition("=") for each in re.split(r"(?<!\\),", own_export or ""))
    return {name.strip(): value for name, equals, value in pairs if equals}


def _variables(job: Submission) -> list[str]:
    """What -v sets, which replaces the script's own: they are merged. Those without a value are set in the text.

    A comment begins with a letter and holds a slash, as qstat types values by their looks; and nothing that is quoted.
    """
    own = [f"{name}={value}" for name, value in own_values(job.own_export).items() if name != _TOKEN]
    text = job.comment.removeprefix(TOKEN) if job.comment.startswith(TOKEN) else _FOREIGN + job.comment
    return own + ([f"{_TOKEN}={quote(text, safe='/@.:+-_~')}"] if job.comment else [])


def job_name(name: str) -> str:
    """`name` without what PBS refuses in one."""
    plain = re.sub(r"[^\w+.-]", "_", name, flags=re.ASCII)[:230]
    return plain if plain[:1] not in {"", "."} else f"_{plain}"


def _path(text: str) -> str:
    return text.replace("%a", _TASK)


def command_ids(job_id: str, name: str) -> list[str]:
    """`57_[2-4,6]` as the commands have it, one word a range; `name`: how the queue calls it, `57[].server`."""
    number, _, tasks = job_id.partition("_")
    if not tasks:
        return [name]
    server = name.partition(".")[2]
    ranges = tasks.strip("[]").partition("%")[0].split(",")
    return [f"{number}[{each}]{'.' if server else ''}{server}" for each in ranges]


# --- what is answered -----------------------------------------------------------------------------------------------

_SOME_UNKNOWN = frozenset({0, 35, 153})  # of the ids that were asked about some have ended; the others are printed
SIGNS = Signs(
    at_limit=(38, 198),  # of an entity's jobs, of all in the queue
    no_answer=(162, 171, 183, 255),  # no connection, no answer of the server in time, it is shutting down
    denied=(159,),
    refused=(1, 2, 166, 170, 187, 188, 197),  # unreadable, usage, a value, queue, resource, limit, group
    gone=("unknown job id", "job has finished", "invalid for state of job"),
)
_NO_HISTORY = "not configured to maintain job history"


_ID = r"\d+(?:\[\d*\])?\.[\w.-]+"


def ids(printed: str) -> list[str]:
    """The jobs that were printed, a line each, `7.server`, `7[].server`; a wrapper may print lines of its own."""
    return [line.strip() for line in printed.splitlines() if re.fullmatch(_ID, line.strip())]


def submitted(ended: Finished) -> str:
    """The new job as there. Raises Unreachable, AtSubmitLimit, Denied, Refused."""
    names = ids(ended.out)
    if len(names) != 1:
        raise submission_error("qsub", ended, SIGNS)
    return names[0]


def answer(ended: Finished) -> dict[str, Any]:
    """The JSON that qstat printed, of some unknown ids, too; {} where there is no history. Raises Unreachable.

    It has no `Jobs` where there are none and where the server gives no answer: the exit code tells.
    """
    if ended.timed_out or ended.code not in _SOME_UNKNOWN:
        raise Unreachable(in_one_line("qstat", ended))
    if _NO_HISTORY in ended.printed:
        return {}
    try:
        # variables with control characters or single backslashes are printed as they are
        whole = re.sub(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?', lambda each: each[0] if each[1] else r"\\", ended.out)
        content = json_in(whole)
    except ValueError as error:
        raise Unreachable(f"qstat's answer cannot be read ({error}): {ended.out[-200:]!r}") from None
    if not isinstance(content, dict) or "timestamp" not in content:
        raise Unreachable(f"qstat's answer is none: {ended.out[-200:]!r}")
    return content


def history(ended: Finished) -> dict[str, Any]:
    """The same of a question about ended jobs: {} as well where a site's own qstat refuses it, with words or without.

    Runs write their ends down. Raises Unreachable.
    """
    answered = ended.code > 0 and not ended.timed_out
    return {} if answered and ended.code not in {*_SOME_UNKNOWN, *SIGNS.no_answer} else answer(ended)


class Row(NamedTuple):
    """One job, or one task of an array, as qstat has it."""

    name: str  # 7.server, 7[].server, 7[2].server
    facts: dict[str, Any]

    @property
    def number(self) -> str:
        """Its number without the server's name."""
        return re.split(r"[\[.]", self.name, maxsplit=1)[0]

    @property
    def task(self) -> str | None:
        """Of an array as a whole "", of a task "2"; None: it is no array."""
        match = re.match(r"\d+\[(\d*)\]", self.name)
        return match[1] if match else None

    def text(self, key: str) -> str:
        """A value as it was before qstat typed it by its looks, but for zeros in front."""
        value = self.facts.get(key, "")
        return "" if isinstance(value, dict) else str(value)

    def instant(self, key: str) -> int | None:
        """A time in epoch seconds, printed where TZ is UTC."""
        return instant(self.text(key))

    @property
    def variables(self) -> dict[str, Any]:
        """Those that it was submitted with."""
        variables = self.facts.get("Variable_List")
        return variables if isinstance(variables, dict) else {}

    @property
    def workdir(self) -> str:
        """Where it was submitted."""
        return str(self.variables.get("PBS_O_WORKDIR", ""))

    @property
    def output(self) -> str:
        """Its log; as long as it is held the id may be missing in the name."""
        return self.text("Output_Path").partition(":")[2]

    @property
    def log(self) -> str:
        """Its log with the id in its name; "" where that is there, or is none of ours."""
        named = log_name(self.output, {"j": self.number, "A": self.number})
        return "" if named == self.output else named

    @property
    def others_holds(self) -> str:
        """The letters of holds that are none of its owner's, who may not lift them: of operators, and of the server."""
        return re.sub("[nu]", "", self.text("Hold_Types"))

    @property
    def comment(self) -> str:
        """As it was submitted."""
        value = self.variables.get(_TOKEN)
        text = unquote(str(value))
        return "" if value is None else text.removeprefix(_FOREIGN) if text.startswith(_FOREIGN) else TOKEN + text


def rows(printed: Mapping[str, Any]) -> tuple[Row, ...]:
    """The jobs of an answer."""
    jobs = printed.get("Jobs", {})
    return tuple(Row(name, facts) for name, facts in jobs.items() if isinstance(facts, dict))


_STATES = {"R": "RUNNING", "B": "RUNNING", "E": "COMPLETING", "S": "SUSPENDED", "U": "SUSPENDED"}
_ENDED_HERE = "FX"
_ENDED = f"{_ENDED_HERE}M"  # M: it was moved to another server


def jobs(listed: Sequence[Row], comments: Mapping[str, str]) -> tuple[Job, ...]:
    """Rows as jobs in our words, tasks that wait alike as one. `comments`: by number those that were changed since."""
    arrays = {row.number: row for row in listed if row.task == ""}
    split = {row.number for row in listed if row.task}
    alike: dict[Job, list[int]] = {}
    for row in listed:
        if row.text("job_state") in _ENDED or (row.task == "" and row.number in split):
            continue
        job = _job(row, arrays.get(row.number, row), comments.get(row.number))
        tasks = alike.setdefault(job, [])
        tasks += [int(row.task)] if row.task else []
    return tuple(replace(job, tasks=part) for job, tasks in alike.items() for part in _parts(job, tasks))


def _parts(job: Job, tasks: Sequence[int]) -> Sequence[str]:
    if not tasks:
        return [""]
    return [task_list(tasks)] if job.pending else [str(task) for task in tasks]


def _job(row: Row, whole: Row, comment: str | None) -> Job:
    state, held, begin = row.text("job_state"), whole.text("Hold_Types").strip("n"), row.instant("Execution_Time")
    fault, reason = None, ""
    waits = state not in _STATES
    depends = "s" in held and whole.text("depend") != ""  # the server holds what waits for another job
    held = held.replace("s", "") if depends else held
    if waits and held:
        reason = fault = Fault.HELD_BY_USER if held == "u" else Fault.HELD_BY_ADMIN
    elif waits and depends:
        reason = "Dependency"
    elif waits and begin is not None:
        reason = "BeginTime"
    nodes = dict.fromkeys(part.partition("/")[0] for part in row.text("exec_host").split("+"))
    return Job(
        id=row.number,
        state="PENDING" if waits else _STATES[state],
        reason=reason,
        fault=fault,
        name=row.text("Job_Name"),
        comment=row.comment if comment is None else comment,
        start=begin if waits else row.instant("stime"),
        submitted=row.instant("ctime"),
        partition=row.text("queue"),
        account=row.text("Account_Name"),
        workdir=row.workdir,
        nodes=",".join(nodes),
        output=row.log or row.output,
    )


def as_glob(row: Row) -> str:
    """The file that a job writes as an absolute glob pattern."""
    return escape(row.log or row.output).replace(escape(_TASK), "*").replace(_TASK, "*")


# --- how jobs ended -------------------------------------------------------------------------------------------------

_SIGNALLED_ITSELF = 256  # and PBS's, of the shell itself


def job_ends(listed: Iterable[Row], since: int) -> dict[str, JobEnd]:
    """By number the ends among the rows (an array has several) of jobs submitted `since` that have ended."""
    ends: dict[str, list[tuple[str, JobEnd]]] = {}
    for row in listed:
        submitted_at = row.instant("ctime")
        if row.text("job_state") in _ENDED_HERE and submitted_at is not None and submitted_at >= since:
            ends.setdefault(row.number, []).append((row.task or "", _end(row, submitted_at)))
    return {number: end for number, rows in ends.items() if (end := end_of_tasks(rows))}


def _end(row: Row, submitted_at: int) -> JobEnd:
    printed, started = row.text("Exit_status"), row.instant("stime")
    status = int(printed) if re.fullmatch(r"-?\d+", printed) else None
    itself = status is not None and status > _SIGNALLED_ITSELF
    code, signal = (None, status - _SIGNALLED_ITSELF) if status and itself else code_and_signal(status)
    detail = ""
    if status is None or (signal and "terminated by" in row.text("comment")):
        result = Result.CANCELLED
    elif status < 0:
        result, detail = Result.NODE_FAIL, f"PBS could not start it (status {status})"
    elif signal and _past_its_time(row):
        result = Result.TIMEOUT
    else:
        result = Result.FAILED if status else Result.OK
    return JobEnd(
        result=result,
        exit_code=None if code is None or code < 0 else code,
        signal=signal,
        submitted=submitted_at,
        started=started,
        ended=row.instant("obittime") or row.instant("mtime") or submitted_at,
        node=row.text("exec_host").partition("/")[0],
        detail=detail,
    )


def _past_its_time(row: Row) -> bool:
    used, asked = (row.facts.get(key, {}) for key in ("resources_used", "Resource_List"))
    if not (isinstance(used, dict) and isinstance(asked, dict)):
        return False
    ran, limit = (_duration(str(each.get("walltime", ""))) for each in (used, asked))
    return ran is not None and limit is not None and ran >= limit


def _duration(text: str) -> int | None:
    match = re.fullmatch(r"(\d+):(\d\d):(\d\d)", text)
    return int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3]) if match else None


# --- the batch system -------------------------------------------------------------------------------------------------

_PARALLEL = 4  # calls at once


class Pbs(ByCommands):
    """The server of `environ` (its PBS_CONF_FILE, its PATH), as this user. `folder`: where changed comments are kept.

    It remembers no ended job, unless an administrator has switched its history on.
    """

    dialect = PBS
    signs = SIGNS

    def __init__(self, folder: Path, environ: Mapping[str, str], **usual: Unpack[Usual]) -> None:
        super().__init__(environ, **usual)
        self._folder = folder
        self._by_number: dict[str, Row] = {}  # of the last look, by number; of an array the whole

    def queue(self) -> Queue:
        """In two questions; none that has ended."""
        listed = self._look()
        return Queue(jobs(listed, self._comments()))

    def _look(self) -> list[Row]:
        """Each job and each task. Without an id qstat would list everybody's."""
        selected = self.answer(["qselect", "-u", self._user()])
        names = ids(selected)
        if not names and selected.strip():
            self._server()  # a wrapper alone may have spoken, of a server that is down: that is no empty queue
        listed: list[Row] = []
        for some in chunks(names):
            listed += rows(answer(self.look(["qstat", "-t", "-f", "-F", "json", *some])))
        self._by_number = {row.number: row for row in listed if not row.task}
        return listed

    def restarts(self) -> Mapping[str, int]:
        counts = {row.number: row.text("run_count") for row in self._look() if not row.task}
        return {number: int(count) - 1 for number, count in counts.items() if count.isdecimal() and int(count) > 1}

    def live_files(self) -> tuple[JobFiles, ...]:
        """Which script a job runs is not told."""
        self._look()
        return tuple(
            JobFiles(number, "", row.workdir, (as_glob(row),) if row.output not in {"", "/dev/null"} else ())
            for number, row in self._by_number.items()
        )

    def submit(self, job: Submission) -> str:
        argv, array = submit_argv(job), array_of(job.options)
        own = own_values(job.own_export)  # qsub sets these
        environment = {name: value for name, value in self.of_runs.items() if name not in own}
        environment |= {**(job.export or {}), **({PBS.job.tasks: str(array.tasks)} if array.tasks else {})}
        # a time to begin at is read in the caller's zone: ours here, else the one in which the script was written
        zone = None if job.begin is None else {"TZ": "UTC0"}
        ended = self.run(argv, zone, submits=True, script=wrapped_text(job, environment, array.only))
        return Row(submitted(ended), {}).number

    def _release(self, job_ids: Sequence[str]) -> None:
        """Each gets its id into its log's name."""
        self._look()
        argvs = []
        for number in dict.fromkeys(each.partition("_")[0] for each in job_ids):
            if row := self._by_number.get(number):
                log = ["-o", row.log] if row.log else []
                argvs.append(["qalter", *log, "-h", row.others_holds or "n", row.name])
        done = run_many([partial(self._change, argv) for argv in argvs], _PARALLEL)
        troubles = [each for each in done if isinstance(each, BatchError)]
        for each in sorted(troubles, key=lambda each: not isinstance(each, Unreachable)):
            raise each

    def _waiting(self, job_ids: Sequence[str]) -> list[str]:
        """An array of which no task runs is one."""
        jobs = self.queue().jobs
        runs = {job.id for job in jobs if not job.waits}
        parts = ((job, job_id) for job in jobs if job.waits and (job_id := meant(job, job_ids)))
        return [job_id if job.id in runs or job_id in job_ids else job.id for job, job_id in parts]

    def signal(self, job_ids: Sequence[str], name: str) -> None:
        self._change_all(["qsig", "-s", name.removeprefix("SIG")], job_ids)

    def move(self, job_id: str, at: int, comment: str | None = None, exclude: str | None = None) -> None:
        del exclude  # of scheduler jobs alone
        names = self._names([job_id])
        if comment is not None:
            self.comment([job_id], comment)
        self._change(["qalter", "-a", posix_moment(at), *names], gone_is_fine=False)

    def hold(self, job_ids: Sequence[str], comment: str) -> None:
        """An array as a whole. The comment first: a hold of ours has its mark."""
        numbers = list(dict.fromkeys(each.partition("_")[0] for each in job_ids))
        self.comment(numbers, comment)
        others = {each: self._by_number[each].others_holds if each in self._by_number else "" for each in numbers}
        for holds in dict.fromkeys(others.values()):
            self._change_all(["qalter", "-h", f"u{holds}"], [each for each in numbers if others[each] == holds])

    def comment(self, job_ids: Sequence[str], comment: str) -> None:
        """Kept here, where it is another than they were submitted with."""
        self._look()
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            for each in self._folder.glob("*.json"):
                if each.stem not in self._by_number:  # it has ended
                    each.unlink(missing_ok=True)
            for number in {each.partition("_")[0] for each in job_ids}.intersection(self._by_number):
                row = self._by_number[number]
                if comment == row.comment:
                    (self._folder / f"{number}.json").unlink(missing_ok=True)
                else:
                    kept = {"ctime": row.text("ctime"), "comment": comment}
                    files.write(str(self._folder), f"{number}.json", kept)
        except OSError as error:
            raise BatchError(f"{error.filename}: {error.strerror}: the comment of a job cannot be kept") from None

    def _comments(self) -> dict[str, str]:
        """By number the comments that were changed; another job of that number has another time."""
        comments: dict[str, str] = {}
        for number, row in self._by_number.items() if self._folder.is_dir() else ():
            try:
                kept = files.read(str(self._folder), f"{number}.json")
            except OSError as error:
                raise Unreachable(f"{self._folder}/{number}.json: cannot be read: {error.strerror}") from None
            except (ValueError, RecursionError):
                kept = None  # as if it had not been changed
            if isinstance(kept, dict) and kept.get("ctime") == row.text("ctime"):
                comments[number] = str(kept.get("comment", row.comment))
        return comments

    def _ends(self, job_ids: Sequence[str], since: int) -> Ends:
        """Where the server keeps a history."""
        asked = [each for number in job_ids for each in (number, f"{number}[]")]
        ends: dict[str, JobEnd] = {}
        for some in chunks(asked):
            printed = history(self.look(["qstat", "-x", "-t", "-f", "-F", "json", *some]))
            ends |= job_ends(rows(printed), since)
        return Ends(ends)

    def site(self) -> Site:
        """A queue is found by what a script asks for."""
        return Site(version=str(self._server().get("pbs_version", "")))

    def clock(self) -> int | None:
        timestamp = self._server().get("timestamp")
        return timestamp if isinstance(timestamp, int) else None

    def _server(self) -> Mapping[str, object]:
        return answer(self.look(["qstat", "-B", "-f", "-F", "json"]))

    def describe(self, job_id: str) -> Mapping[str, str]:
        self._look()
        row = self._by_number.get(job_id.partition("_")[0])
        if row is None:
            raise BatchError(f"job {job_id} does not exist")
        log = row.log or row.output
        return {"JobId": job_id, "WorkDir": row.workdir, "Comment": row.comment, "StdOut": log}

    def _names(self, job_ids: Sequence[str]) -> list[str]:
        """What the commands call these jobs: an array's number looks like a job's. Raises Unreachable."""
        if any(each.partition("_")[0] not in self._by_number for each in job_ids):
            self._look()
        names = []
        for each in job_ids:
            number = each.partition("_")[0]
            name = self._by_number[number].name if number in self._by_number else number
            names += command_ids(each, name)
        return names
