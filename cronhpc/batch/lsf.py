"""LSF through its own commands: written from IBM's documentation and OpenLava, and not yet seen on LSF itself."""

from __future__ import annotations

import functools
import pwd
import re
import shlex
from datetime import UTC, datetime
from glob import escape
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from cronhpc.batch.commands import (
    ByCommands,
    Signs,
    changed,
    chunks,
    code_and_signal,
    end_of_tasks,
    holds,
    in_one_line,
    json_in,
    meant,
    option_words,
    our_clock,
    submission_error,
    task_numbers,
    wrapped_text,
)
from cronhpc.batch.port import BatchError, Ends, JobFiles, Refused, Submission, Unreachable
from cronhpc.core.model import ENDS, FAILURES, Fault, Job, JobEnd, Queue, Result, standing_for
from cronhpc.core.model.site import Site
from cronhpc.cron.values import grouped, replace
from cronhpc.script.dialect import LSF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cronhpc.batch.process import Finished

T = TypeVar("T")

# --- what is asked --------------------------------------------------------------------------------------------------

_SAFE = "/@.:+=-_ ~"
_BEGIN = "|"  # what follows it in a description is the instant to begin at, which bjobs does not tell
_LONGEST_NAME = 200  # characters that every version takes


def submit_argv(job: Submission, *, year: bool = True) -> list[str]:
    """The bsub call, which gets `script_text` on its standard input. Raises Refused.

    `year`: whether -b may have one. The job's output goes where the text sends it: what LSF would mail, or write with
    a report of its own before the output, goes nowhere.
    """
    from cronhpc.script.spelling import array_in, indexed

    words: list[str] = []
    name, tasks, flags = job.job_name or "", "", {"-H"} if job.held else set()
    replaced = {"-Jd", *(["-cwd"] if job.chdir else []), *(["-b"] if job.begin is not None else [])}
    for option in job.options:
        ours = option.startswith("--")
        word, mark, value = option.removeprefix("--").partition("=") if ours else _as_typed(option)
        if word == "array":
            tasks = value
        elif word == "-J":
            tasks = "".join(array_in(value)[1:]) or tasks
        elif ours and word != "job-name":
            words += option_words([option], LSF)
        elif word == "-H":
            flags.add(word)
        elif not ours and word not in replaced:
            words += [word, value] if mark else [word]
    given = {
        "-J": (indexed(job_name(name), tasks) if tasks else job_name(name)) or None,
        "-Jd": description(job.comment, job.begin) or None,
        "-b": None if job.begin is None else moment_text(job.begin, year=year),
        "-cwd": job.chdir,
        "-o": "/dev/null" if job.output else None,
        "-e": "/dev/null" if job.error else None,
    }
    pairs = (word for option, value in given.items() if value is not None for word in (option, value))
    return ["bsub", *flags, *([] if "-r" in words else ["-rn"]), *words, *pairs]


def begins_itself(job: Submission) -> bool:
    """Whether the script says when to begin, which is meant in its user's zone."""
    return job.begin is None and any(option.startswith("-b ") for option in job.options)


def _as_typed(option: str) -> tuple[str, str, str]:
    """An option of the script's own, `-R 'a b'`, as (option, mark, value)."""
    word, *rest = shlex.split(option)
    return word, " " if rest else "", " ".join(rest)


def job_name(name: str) -> str:
    """`name` without what LSF would take for an array."""
    return re.sub(r"[\x00-\x1f\[\]]", "_", name)[:_LONGEST_NAME]


def description(comment: str, begin: int | None) -> str:
    """A comment, and the instant to begin at, as a job's description."""
    return quote(comment, safe=_SAFE) + ("" if begin is None else f"{_BEGIN}{begin}")


def described(text: str) -> tuple[str, int | None]:
    """The comment and the instant of a description."""
    comment, _, begin = text.partition(_BEGIN)
    return unquote(comment), int(begin) if begin.isdecimal() else None


def moment_text(at: int, *, year: bool = True) -> str:
    """An instant as -b takes it where TZ is UTC: in minutes, and never before `at`.

    Without its year a time that has passed is next year's.
    """
    return datetime.fromtimestamp(-(-at // 60) * 60, UTC).strftime("%Y:%m:%d:%H:%M" if year else "%m:%d:%H:%M")


def script_text(job: Submission, zone: str | None) -> str:
    """What LSF spools and runs. Raises Refused.

    LSF knows no arguments, keeps the output back until the end, and what bsub has in its environment the job has, too,
    unless the script's own -env keeps it out: what a run is told of itself stands in the text. `zone`: the run's TZ;
    None: it has none.
    """
    told_of_itself = {**(job.export or {}), **({} if zone is None else {"TZ": zone})}
    first, _, rest = wrapped_text(job, told_of_itself).partition("\n")
    lines = ["unset LSB_NTRIES TZ", '[ "$LSB_JOBINDEX" != 0 ] || unset LSB_JOBINDEX']  # 0: it is no array
    if job.output:
        lines += [f"exec >>{_shell_path(job.output)} || exit 127"]
    if job.error and job.error != job.output:
        lines += [f"exec 2>>{_shell_path(job.error)} || exit 127"]
    elif job.output and not any(option.startswith(("-e ", "-eo ", "--error=")) for option in job.options):
        lines += ["exec 2>&1"]
    return "\n".join((first, *lines, rest))


_VARIABLES = {
    "%j": '"$LSB_JOBID"',
    "%A": '"$LSB_JOBID"',
    "%a": '"$LSB_JOBINDEX"',
    "%x": '"$LSB_JOBNAME"',
    "%u": '"$USER"',
    "%%": "%",
}


def _shell_path(pattern: str) -> str:
    """A log's path with its patterns, as a shell's word."""
    parts = re.split("(%[jAaxu%])", pattern)
    return "".join(_VARIABLES.get(part) or shlex.quote(part) for part in parts if part)


# --- what is answered -----------------------------------------------------------------------------------------------

SIGNS = Signs(
    at_limit=("threshold reached", "retrying in ", "job limit"),
    no_answer=(
        *("not responding", "still trying", "please wait", "lsf is down", "cannot connect", "connection refused"),
        *("timed out", "timedout", "timeout", "time out", "communication", "failed in an lsf library call"),
        *("lim is down", "master lim", "try later", "trying later"),
    ),
    denied=("permission denied", "host does not belong", "not a submission host", "not a client host"),
    refused=(
        *("no such queue", "cannot exceed", "too many processors", "syntax", "bad ", "no command is specified"),
        *("aborted by esub", "cannot use the queue", "illegal", "invalid", "unknown", "not defined", "not enabled"),
        *("unsupported", "usage:"),
    ),
    gone=("already finished", "no matching job", "is not found", "in progress"),
    done=(
        *("being terminated", "being resumed", "being stopped", "being signaled", "being modified", "being changed"),
        "parameters of",
    ),
)
_SUBMITTED = re.compile(r"^Job <(\d+)> is submitted to (?:default )?queue <", re.MULTILINE)
_NO_JOB = re.compile(r"^No (?:unfinished |matching )?jobs? found\.?$", re.MULTILINE)
_WITHOUT_JOBS = frozenset({0, 254, 255})  # what bjobs then exits with, by version


def has_id(printed: str) -> bool:
    """Whether bsub has said the new job's id."""
    return _SUBMITTED.search(printed) is not None


def submitted(ended: Finished) -> str:
    """The new job's id, behind whatever notices. Raises Unreachable, AtSubmitLimit, Denied, Refused, BatchError.

    A bsub that was killed counts as one without an answer: what it had sent may be accepted.
    """
    if ids := _SUBMITTED.findall(ended.out):
        return str(min(ids, key=int))
    raise submission_error("bsub", ended, SIGNS)


def refuses_year(ended: Finished) -> bool:
    """Whether a command was refused, which may be for the year in its -b: older versions take none."""
    if has_id(ended.out) or type(submission_error("bsub", ended, SIGNS)) not in {BatchError, Refused}:
        return False
    return re.search(r"begin|time|syntax|specification", ended.printed, re.IGNORECASE) is not None


def begins_next_year(answer: str, begin: int) -> bool:
    """Whether bsub, which says when the job will begin, took -b without year for a time that has passed."""
    match = re.search(r"will be scheduled after \w{3} (\w{3} +\d+ \d+:\d+:\d+ \d{4})", answer)
    at = moment(match[1], begin) if match else None
    return at is not None and at > begin + _AHEAD


def identity(answer: str) -> tuple[str, str]:
    """The cluster's name, and the version, as lsid prints them; "" for what it does not."""
    name = re.search(r"^My cluster name is (\S+)", answer, re.MULTILINE)
    version = re.search(r"\b\d+\.\d+[\d.]*", answer)
    return name[1] if name else "", version[0] if version else ""


# What others fill with anything stands last.
FIELDS = (
    *("jobid", "jobindex", "stat", "queue", "submit_time", "start_time", "finish_time", "exit_code", "exit_reason"),
    *("exec_host", "job_description", "pend_reason", "job_name"),
)
FILES = ("jobid", "stat", "output_file", "error_file", "sub_cwd")
_CARET = "^"


def list_argv(fields: Sequence[str], job_ids: Sequence[str] = (), *, as_json: bool) -> list[str]:
    """The bjobs call for all of this user's jobs, or for some. Versions before 10.1.0.2 know no JSON."""
    how = ["-json", "-o", " ".join(fields)] if as_json else ["-o", f'{" ".join(fields)} delimiter="{_CARET}"']
    return ["bjobs", "-a", *how, *job_ids]


def without_json(ended: Finished) -> bool:
    """Whether this bjobs knows no -json."""
    return ended.code > 0 and re.search(r"illegal option|unrecognized|usage:", ended.printed, re.IGNORECASE) is not None


def records(ended: Finished, fields: Sequence[str] = FIELDS) -> list[dict[str, str]]:
    """The jobs that bjobs printed: values by the names of `fields`. Raises Unreachable for anything else."""
    heading = _CARET.join(fields).upper()
    if ended.timed_out:
        raise Unreachable(in_one_line("bjobs", ended))
    if heading in ended.out:
        return _parted(ended.out.partition(heading)[2].splitlines()[1:], fields)
    if re.search(r"^\{", ended.out, re.MULTILINE):
        return _of_json(ended.out)
    if _NO_JOB.search(ended.printed) and ended.code in _WITHOUT_JOBS:
        return []
    raise Unreachable(in_one_line("bjobs", ended))


def _of_json(answer: str) -> list[dict[str, str]]:
    try:
        rows = json_in(answer)["RECORDS"]
        jobs = [{name.lower(): str(value) for name, value in row.items()} for row in rows if "ERROR" not in row]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unreachable(f"bjobs' answer cannot be read: {answer[-200:]!r}") from None
    if any(not row.get("jobid") or not row.get("stat") for row in jobs):
        raise Unreachable("bjobs' answer has a job without id or state")
    return jobs


def _parted(lines: Iterable[str], fields: Sequence[str]) -> list[dict[str, str]]:
    rows = []
    for line in lines:
        parts = line.split(_CARET, len(fields) - 1)
        if len(parts) == len(fields):
            rows.append({name: "" if part == "-" else part for name, part in zip(fields, parts, strict=True)})
        elif line.strip() and not re.fullmatch(r"Job <\S+> is not found", line):
            raise Unreachable(f"bjobs' answer has a line that does not add up: {line!r}")
    return rows


_STATES = {
    "PEND": "PENDING",
    "WAIT": "PENDING",
    "PSUSP": "PENDING",
    "PROV": "CONFIGURING",
    "RUN": "RUNNING",
    "USUSP": "SUSPENDED",
    "SSUSP": "SUSPENDED",
    "ZOMBI": "COMPLETING",
    "DONE": "COMPLETED",
}
_REASONS = (  # how the reason of an end begins, and what it is in our words
    (("TERM_RUNLIMIT", "TERM_CPULIMIT", "TERM_DEADLINE", "TERM_WINDOW", "TERM_PROCESSLIMIT"), "TIMEOUT"),
    (("TERM_MEMLIMIT", "TERM_SWAP"), "OUT_OF_MEMORY"),
    (("TERM_OWNER", "TERM_ADMIN", "TERM_FORCE", "TERM_BUCKET"), "CANCELLED"),
    (("TERM_PREEMPT",), "PREEMPTED"),
    (("TERM_ZOMBI", "TERM_RMS", "TERM_SLURM"), "NODE_FAIL"),
)


def job(record: Mapping[str, str], now: int) -> Job:
    """A record as a job in our words; `now`: bjobs prints times without their year."""
    state = record["stat"]
    comment, begin = described(record.get("job_description", ""))
    why = record.get("pend_reason", "").strip()
    started = moment(record.get("start_time", ""), now)
    waits = state in {"PEND", "PSUSP", "WAIT"}
    fault, reason = None, ""
    if state == "ZOMBI":
        fault = Fault.UNENDING
        reason = f"{fault}: its node does not answer"
    elif state == "PSUSP":
        reason = fault = Fault.HELD_BY_ADMIN if re.search("admin|root", why) else Fault.HELD_BY_USER
    elif waits:
        reason = "BeginTime" if begin is not None and begin > now else why.partition(";")[0]
    code = record.get("exit_code", "")
    number = int(code) if code.isdecimal() else 0 if state == "DONE" else None
    exit_code, signal = code_and_signal(number)
    tasks = record.get("jobindex", "")
    return Job(
        id=record["jobid"].partition("[")[0],
        tasks="" if tasks in {"", "0", "-"} else tasks,
        # a host that is lost may still run it: a state that nobody knows is no end
        state=_ended(record, started) if state == "EXIT" else _STATES.get(state, "RUNNING"),
        reason=reason,
        fault=fault,
        name=re.sub(r"\[[^\[\]]*\](%\d+)?$", "", record.get("job_name", "")),
        comment=comment,
        start=begin if waits else started,
        submitted=moment(record.get("submit_time", ""), now),
        ended=_last_second(record.get("finish_time", ""), now) if state in {"DONE", "EXIT"} else None,
        partition=record.get("queue", ""),
        nodes=re.sub(r"\d+\*", "", record.get("exec_host", "")).replace(":", ",").strip("-"),
        exit_code=exit_code,
        signal=signal,
        command=None,
    )


def files(record: Mapping[str, str]) -> JobFiles:
    """The files that a job names itself, as absolute glob patterns."""
    folder, number = record.get("sub_cwd", ""), record["jobid"].partition("[")[0]
    named = {record.get(each, "") for each in ("output_file", "error_file")} - {"", "-", "/dev/null"}
    paths = (each if each.startswith("/") else f"{folder}/{each}" for each in sorted(named))
    return JobFiles(number, "", folder, tuple(escape(each).replace("%J", number).replace("%I", "*") for each in paths))


def _ended(record: Mapping[str, str], started: int | None) -> str:
    """The state of a job that did not end well; one that never began was cancelled."""
    why = record.get("exit_reason", "")
    for beginnings, state in _REASONS:
        if why.startswith(beginnings):
            return state
    return "CANCELLED" if started is None else "FAILED"


_MOMENT = re.compile(r"(?:\w{3} )?(\w{3}) +(\d+) (\d+):(\d+)(?::(\d+))?(?: (\d{4}))?")
_AHEAD = 86400  # seconds by which a clock may be ahead of ours


def moment(text: str, now: int) -> int | None:
    """Epoch seconds of `Dec 28 19:56`, printed where TZ is UTC: the last such moment; None: none, or an estimate.

    Seconds and year are read where they are told. What is estimated has an ` L`, ` E` or ` X` behind it.
    """
    match = _MOMENT.fullmatch(text.strip())
    if not match:
        return None
    month, day, hour, minute, second, year = match.groups()
    latest = datetime.fromtimestamp(now + _AHEAD, UTC)
    for each in [int(year)] if year else range(latest.year, latest.year - 5, -1):  # five: the 29th of February
        try:
            at = datetime.strptime(f"{each} {month} {day} {hour}:{minute}:{second or 0} +0000", "%Y %b %d %H:%M:%S %z")
        except ValueError:
            continue
        if year or at <= latest:
            return int(at.timestamp())
    return None


def _last_second(text: str, now: int) -> int | None:
    """Of a minute in which something ended the last second that has come: what was done about it came before."""
    at = moment(text, now)
    return at if at is None or text.count(":") > 1 else max(at, min(at + 59, now))


# --- how jobs ended -------------------------------------------------------------------------------------------------

_FOLD = "\n" + " " * 21  # bhist -l breaks lines at 80 columns, inside words too
_EVENT = re.compile(r"^(\w{3} \w{3} +\d+ \d+:\d+:\d+(?: \d{4})?): (.*)$", re.MULTILINE)


class Past(NamedTuple):
    """What `bhist -l` tells of one job, or of one task of an array."""

    id: str
    task: str  # its number in an array
    submitted: int
    end: JobEnd | None  # None: it has not ended
    ended_by: str  # the user who asked for its end; "": nobody, or not told


def past(ended: Finished, now: int) -> tuple[Past, ...]:
    """The jobs of `bhist -l`. Raises Unreachable where it gives no answer."""
    if ended.timed_out or ended.code < 0 or holds(ended.err, SIGNS.no_answer):
        raise Unreachable(in_one_line("bhist", ended))
    texts = re.split(r"^(?=Job <\d+)", ended.out.replace(_FOLD, ""), flags=re.MULTILINE)
    return tuple(each for text in texts if (each := _past(text, now)))


def _past(text: str, now: int) -> Past | None:
    number = re.match(r"Job <(\d+)(?:\[(\d+)\])?", text)
    events = [(moment(at, now), event) for at, event in _EVENT.findall(text)]
    submitted = next((at for at, event in events if event.startswith("Submitted")), None)
    if number is None or submitted is None:
        return None
    started, node = None, ""
    ends: list[tuple[int | None, str]] = []
    for at, event in events:
        if begun := re.match(r"(?:Started|Starting|Dispatched|\[\d+\] started)[^<]*(?:<([^>]*)>)?", event):
            started, node, ends = at, begun[1] or node, []
        elif re.match(r"Done successfully|Exited|Completed", event):
            ends.append((at, event))
        elif re.match(r"Job has been requeued|Pending", event):
            ends = []
    who = re.search(r"requested by user or administrator <([^>]+)>", text)
    end = _end(ends[0][0] or submitted, " ".join(event for _, event in ends), submitted, started) if ends else None
    if end is not None and started:
        end = replace(end, started=started, node=node)
    return Past(number[1], number[2] or "", submitted, end, who[1] if who else "")


def _end(at: int, words: str, submitted: int, started: int | None) -> JobEnd:
    """What the lines about an end say, `Exited with exit code 3. …; Completed <exit>; TERM_RUNLIMIT: …`."""
    if "Done successfully" in words:
        return JobEnd(Result.OK, 0, submitted=submitted, ended=at)
    why = re.search(r"(TERM_\w+)(?:: ([^.;]*))?", words)
    state = _ended({"exit_reason": why[1] if why else ""}, started)
    code = re.search(r"exit code (\d+)", words)
    by = re.search(r"by signal (\d+)", words)
    number, signal = (None, int(by[1])) if by else code_and_signal(int(code[1]) if code else None)
    return JobEnd(
        ENDS[state],
        number,
        signal,
        submitted=submitted,
        ended=at,
        detail=(why[2] or why[1]).strip() if why else "",
    )


# --- the batch system -------------------------------------------------------------------------------------------------

_EVENTS = "5"  # files of past events in which an end is looked for


class Lsf(ByCommands):
    """The cluster of `environ` (its LSF_ENVDIR, its PATH), as this user.

    `json`: whether its bjobs prints JSON, `year`: whether its -b takes one; both are found out, and may be read.
    """

    dialect = LSF
    signs = SIGNS
    json = True
    year = True

    def queue(self) -> Queue:
        """Ended ones for about an hour."""
        return Queue(tuple(self._jobs()))

    def _jobs(self, *job_ids: str) -> list[Job]:
        now = our_clock()
        return [job(record, now) for record in self._records(FIELDS, *job_ids)]

    def _records(self, fields: Sequence[str], *job_ids: str) -> list[dict[str, str]]:
        ended = self.look(list_argv(fields, job_ids, as_json=self.json))
        if self.json and without_json(ended):
            self.json = False
            ended = self.look(list_argv(fields, job_ids, as_json=False))
        return records(ended, fields)

    def live_files(self) -> tuple[JobFiles, ...]:
        """Those that scripts name themselves: a log of ours has its job's number in its name."""
        return tuple(files(record) for record in self._records(FILES))

    def submit(self, job: Submission) -> str:
        zone = {**self.of_runs, **(job.export or {})}.get("TZ")
        script, given = script_text(job, zone), {**(job.export or {}), **dict(LSF.set)}
        if begins_itself(job):
            given = {**given, "TZ": zone} if zone else {name: given[name] for name in given if name != "TZ"}

        def bsub(*, year: bool) -> Finished:
            return self.run(submit_argv(job, year=year), given, submits=True, enough=has_id, script=script)

        ended = bsub(year=False) if job.begin is None else self._with_year(bsub)
        job_id = submitted(ended)
        if job.begin is not None and begins_next_year(ended.printed, job.begin):  # its minute passed on the way
            self._change(["bmod", "-bn", job_id], gone_is_fine=False)
        return job_id

    def _with_year(self, call: Callable[..., Finished]) -> Finished:
        """`call` with whether its -b may have a year."""
        ended = call(year=self.year)
        if self.year and refuses_year(ended):
            ended = call(year=False)
            self.year = ended.code != 0
        return ended

    def signal(self, job_ids: Sequence[str], name: str) -> None:
        self._change_all(["bkill", "-s", name], job_ids)

    def move(self, job_id: str, at: int, comment: str | None = None, exclude: str | None = None) -> None:
        if comment is None:
            comment = next((job.comment for job in self._jobs(_id(job_id))), "")
        marks = ["-Jd", description(comment, at)]
        if exclude is not None:
            marks += option_words([f"--exclude={exclude}"], LSF) if exclude else ["-Rn"]

        def bmod(*, year: bool) -> Finished:
            return self.run(["bmod", "-b", moment_text(at, year=year), *marks, _id(job_id)])

        changed("bmod", self._with_year(bmod), self.signs, gone_is_fine=False)

    def hold(self, job_ids: Sequence[str], comment: str) -> None:
        """The comment first: a hold of ours is never without its mark. One that began meanwhile goes on."""
        self.comment(job_ids, comment)
        self._change_all(["bstop"], job_ids)
        began = [job.shown_id for job in self._jobs() if job.state == "SUSPENDED" and meant(job, job_ids)]
        self._change_all(["bresume"], began)

    def comment(self, job_ids: Sequence[str], comment: str) -> None:
        """The instant that each is to begin at stays beside it."""
        begins = {job.id: job.start for job in self._jobs() if job.waits}
        for begin, ids in grouped(job_ids, lambda each: begins.get(each.partition("_")[0])).items():
            self._change_all(["bmod", "-Jd", description(comment, begin)], ids)

    def job_ends(self, job_ids: Sequence[str], since: int, tokens: Mapping[str, str] | None = None) -> Ends:
        """To the second: `queue` knows the minute alone, and forgets one task of an array after another.

        Where the history gives no answer, or another one, what `queue` shows has to do.
        """
        del tokens  # `since` tells a reused id
        listed = grouped(self._jobs(), lambda job: job.id)
        asked = [each for each in dict.fromkeys(job_ids) if not any(job.live for job in listed.get(each, ()))]
        history: list[Past] = []
        try:
            history = [each for each in self._past(asked) if each.submitted >= since - _MINUTE]
        except Unreachable:
            if not listed.keys() >= set(asked):
                raise
        by_id = {
            job_id: end
            for job_id, tasks in grouped(history, lambda each: each.id).items()
            if all(each.end for each in tasks)
            and (end := end_of_tasks([(each.task, each.end) for each in tasks if each.end]))
            and _agrees(standing_for(listed.get(job_id, ())), end)
        }
        by = {each.id: uid for each in history if each.ended_by and (uid := _uid(each.ended_by)) is not None}
        return Ends(by_id, cancelled_by=by)

    def _past(self, job_ids: Sequence[str]) -> list[Past]:
        answers = (self.look(["bhist", "-l", "-n", _EVENTS, *self._names(some)]) for some in chunks(job_ids))
        return [job for answer in answers for job in past(answer, our_clock())]

    def site(self) -> Site:
        """Also what its commands were found to do."""
        self._jobs()
        cluster, version = identity(self.answer(["lsid"]))
        lists = "bjobs prints JSON" if self.json else "bjobs prints no JSON"
        begins = "no -b with a year was refused" if self.year else "-b takes no year"
        return Site(cluster=cluster, version=f"{version}: {lists}; {begins}")

    def cluster_name(self) -> str:
        return identity(self.answer(["lsid"]))[0]

    def describe(self, job_id: str) -> Mapping[str, str]:
        for job in self._jobs(_id(job_id)):
            fields = {"JobId": job.id, "JobState": job.state, "JobName": job.name, "Partition": job.partition}
            return {**fields, "Comment": job.comment}
        raise BatchError(f"job {job_id} does not exist")

    def _names(self, job_ids: Sequence[str]) -> Sequence[str]:
        return [_id(each) for each in job_ids]


def _agrees(listed: Job | None, end: JobEnd) -> bool:
    """Whether an end is the one that the list shows; of an array tasks may have failed that it has forgotten."""
    same = listed is None or ENDS[listed.state] is end.result
    if listed is None or not listed.tasks:
        return same
    return (same or end.result in FAILURES) and task_numbers(listed.failed) <= task_numbers(end.tasks)


@functools.cache
def _uid(name: str) -> int | None:
    """None: this machine knows no such user."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


_MINUTE = 60  # seconds: bjobs tells no finer when a job was submitted


def _id(job_id: str) -> str:
    """`57_[2-4]` as LSF has it: 57[2-4]. Raises Refused for 0, which means all jobs there."""
    number, _, tasks = job_id.partition("_")
    if not number.isdecimal() or not int(number):
        raise Refused(f"{job_id!r} is no job's id")
    return f"{number}[{tasks.strip('[]').partition('%')[0]}]" if tasks else number
