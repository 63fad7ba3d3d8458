"""A batch system's commands: the environment that they and the runs get, time-outs, lists that fit, and no answer."""

from __future__ import annotations

import os
import pwd
import re
import time
from datetime import UTC, datetime

from cronhpc.batch.port import (
    AtSubmitLimit,
    Batch,
    BatchError,
    Denied,
    Ends,
    NoProgram,
    Refused,
    Submission,
    Unreachable,
)
from cronhpc.batch.process import SCRATCH, Finished, Missing, for_commands, run, scrub, which
from cronhpc.core.model import FAILURES, Advice, Job, JobEnd, Result, command, task_list, task_ranges
from cronhpc.cron.values import dataclass, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypedDict, Unpack

    from cronhpc.script.dialect import Dialect

    class Usual(TypedDict, total=False):
        """What each cluster's backend is given."""

        names: Sequence[str] | None  # the only variables that runs get
        timeout: float  # seconds for what changes something; 30
        query_timeout: float  # seconds for what asks; 20


_NEVER_BEGAN = frozenset({126, 127})  # a wrapper's program, or a library of it, is not there; no command ends so itself
_SILENT = 15  # seconds for which a query that gave no answer is answered so: a daemon asks again later
NO_CLUSTER = "could not establish a configuration source"  # Slurm's last word on it; three lines of how come before
LIST_LIMIT = 500  # job ids in one command line


def chunks(job_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """`job_ids` in lists that fit one command line."""
    for start in range(0, len(job_ids), LIST_LIMIT):
        yield job_ids[start : start + LIST_LIMIT]


def in_one_line(program: str, ended: Finished, signs: Sequence[str | int] = ()) -> str:
    """What a program said, as one line. `signs`: where that was no answer, of which the site's banner tells nothing."""
    lines = [line.strip() for line in ended.printed.splitlines() if line.strip()]
    own = [line for line in lines if not signs or holds(line, (f"{program}: ", *signs))]
    words = " / ".join([line for line in lines if holds(line, (NO_CLUSTER,))] or own)
    if ended.timed_out:
        return f"{program} gave no answer in time" + (f": {words}" if words else "")
    return words or f"{program} exited {ended.code} and said nothing" + (" of it" if lines else "")


def task_numbers(tasks: str) -> frozenset[int]:
    """The numbers of a list of tasks: "3", "[0-2,5%1]", "1-9:2"."""
    return frozenset[int]().union(*task_ranges(tasks))


def meant(job: Job, job_ids: Iterable[str]) -> str:
    """What of `job` is named by `job_ids` (57, 57_2, 57_[2-4]), as one of them; "": nothing."""
    parts = [tasks for number, _, tasks in (each.partition("_") for each in job_ids) if number == job.id]
    if not parts or not job.tasks or not all(parts):
        return job.shown_id if parts else ""
    tasks = task_numbers(job.tasks) & {task for part in parts for task in task_numbers(part)}
    return f"{job.id}_{task_list(tasks)}" if tasks else ""


def posix_moment(at: int) -> str:
    """An instant as -a of a POSIX qsub takes it, where TZ is UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y%m%d%H%M.%S")


def instant(text: str, form: str = "%a %b %d %H:%M:%S %Y") -> int | None:
    """Epoch seconds of a time that was printed where TZ is UTC, as ctime does or in another form; None: it is none."""
    try:
        return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None


def our_clock() -> int:
    """This machine's clock, for what is printed without its year, or without how long it goes on."""
    return int(time.time())  # noqa: TID251 - such an answer has no clock of its own


def json_in(printed: str) -> Any:
    """The JSON object that begins a line of it: a site's wrapper may print others around it; None: there is none.

    Raises ValueError.
    """
    import json

    start = re.search(r"^\{", printed, re.MULTILINE)
    return json.JSONDecoder(strict=False).raw_decode(printed, start.start())[0] if start else None


_SIGNALLED = 128  # the shell's way of saying that a signal ended it


def code_and_signal(status: int | None) -> tuple[int | None, int | None]:
    """A shell's exit status as an exit code, or as the signal that ended it."""
    return (None, status - _SIGNALLED) if status and status > _SIGNALLED else (status, None)


# --- what a failure means -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Signs:
    """By what its commands print (any of these, in small letters) or exit with a batch system says why it did not.

    The first that fits counts.
    """

    at_limit: tuple[str | int, ...] = ()
    no_answer: tuple[str | int, ...] = ()
    denied: tuple[str | int, ...] = ()
    refused: tuple[str | int, ...] = ()
    gone: tuple[str, ...] = ()  # of a job: it is not there any more
    done: tuple[str, ...] = ()  # in a line about a job for which it was done
    failed: tuple[str, ...] = ()  # if there are such, other lines tell of no failure
    unanswered: tuple[tuple[str, type[Unreachable]], ...] = ()  # of a query: words, and which cause they tell


def holds(text: str, signs: Iterable[str | int]) -> bool:
    """Whether a word of `signs` is in it, in small or large letters."""
    lowered = text.lower()
    return any(isinstance(each, str) and each in lowered for each in signs)


def _fits(ended: Finished, signs: Sequence[str | int]) -> bool:
    return ended.code in signs or holds(ended.printed, signs)


def submission_error(program: str, ended: Finished, signs: Signs) -> BatchError:
    """Why a submission gave no id; words that nobody knows are never a no for good: sites add their own."""
    kind = BatchError
    if _fits(ended, signs.at_limit):
        kind = AtSubmitLimit
    elif ended.timed_out or ended.code <= 0 or _fits(ended, signs.no_answer):
        kind = Unreachable
    elif _fits(ended, signs.denied):
        kind = Denied
    elif _fits(ended, signs.refused):
        kind = Refused
    return kind(in_one_line(program, ended, signs.no_answer if kind is Unreachable else ()))


def changed(program: str, ended: Finished, signs: Signs, *, gone_is_fine: bool = True) -> None:
    """Judge a change of jobs.

    Raises Unreachable; BatchError where it was answered by a no to some of it, or a job is gone and that is not fine.
    """
    if ended.code == 0 and not ended.timed_out:
        return
    lines = [line for line in ended.printed.splitlines() if line.strip() and not holds(line, signs.done)]
    lines = [line for line in lines if holds(line, signs.failed)] if signs.failed else lines
    gone = bool(lines) and not ended.timed_out and all(holds(line, signs.gone) for line in lines)
    unreachable = ended.timed_out or ended.code < 0 or not ended.printed.strip()
    if unreachable or (not gone and _fits(ended, signs.no_answer)):
        raise Unreachable(in_one_line(program, ended))
    if not (gone and gone_is_fine):
        raise BatchError(in_one_line(program, ended))


# --- how jobs ended -------------------------------------------------------------------------------------------------

# of an array's tasks the worst stands for all
_WORST = (
    *(Result.NODE_FAIL, Result.OUT_OF_MEMORY, Result.TIMEOUT, Result.FAILED, Result.PREEMPTED, Result.CANCELLED),
    *(Result.UNKNOWN, Result.OK),
)


def end_of_tasks(ended: Sequence[tuple[str, JobEnd]]) -> JobEnd | None:
    """One end for a job's, each beside the number of its task ("": it is no array): the worst. None where none is."""
    if not ended:
        return None
    failed = [int(task) for task, job_end in ended if job_end.result in FAILURES and task.isdecimal()]
    tasks = task_list(failed).strip("[]") if failed else ""
    if len(ended) == 1:
        return replace(ended[0][1], tasks=tasks)
    job_ends = [job_end for _, job_end in ended]
    return replace(
        min(job_ends, key=lambda job_end: _WORST.index(job_end.result)),
        started=min((e.started for e in job_ends if e.started), default=None),
        ended=max((e.ended for e in job_ends if e.ended), default=None),
        detail=_which_tasks(ended),
        tasks=tasks,
    )


def _which_tasks(ended: Sequence[tuple[str, JobEnd]]) -> str:
    """Those, as in "array tasks: [1-2] failed", that did not end well."""
    bad: dict[str, list[int]] = {}
    for task, job_end in ended:
        if job_end.result is not Result.OK and task.isdecimal():
            bad.setdefault(str(job_end.result), []).append(int(task))
    words = ", ".join(f"{task_list(tasks)} {result}" for result, tasks in bad.items())
    return f"array tasks: {words}" if words else ""


def option_words(options: Sequence[str], dialect: Dialect) -> list[str]:
    """`--partition=all.q`, an option by our name, as the submitting command has it. Raises Refused."""
    from cronhpc.script.spelling import UnspeltError, words_of

    parts = (option.removeprefix("--").partition("=") for option in options)
    try:
        return words_of([(name, value if equals else None) for name, equals, value in parts], dialect)
    except UnspeltError as error:
        if error.option:
            raise Refused(f"{error}: {error.option} of {dialect.title} takes no such value") from None
        way = f"Write it into the script, as {dialect.prefix} has it."
        raise Refused(f"{error}: {dialect.title} has no such option. {way}") from None


def _home(env: Mapping[str, str]) -> str:
    """Where jobs are submitted, so where a relative working folder in a script starts: as cron does."""
    home = env.get("HOME", "/")
    return home if os.path.isdir(home) else "/"  # noqa: PTH112 - pathlib is not worth its start-up here


class ByCommands(Batch):
    """A batch system behind its commands, on the PATH of `environ`: what all of them do alike. All raise NoProgram."""

    signs: Signs

    def __init__(self, environ: Mapping[str, str], **usual: Unpack[Usual]) -> None:
        self._environment = for_commands(environ, self.dialect)
        self.of_runs = {**scrub(environ, self.dialect, usual.get("names")), "PATH": self._environment.get("PATH", "")}
        self._timeout = usual.get("timeout", 30)
        self._query_timeout = usual.get("query_timeout", 20)
        self._silent: dict[str, tuple[float, Finished]] = {}

    def tools(self) -> str:
        path = which(self.dialect.commands[0], self._environment)
        return path.rpartition("/")[0] if path else ""

    def has(self, program: str) -> bool:
        """Whether this machine has it."""
        return which(program, self._environment) is not None

    def look(self, argv: Sequence[str], more: Mapping[str, str] | None = None, within: float | None = None) -> Finished:
        """How a query ended. `more`: variables for it. `within`: seconds.

        What gave no answer in time is not waited for again in the same command: the next one would be as silent.
        """
        before, ended = self._silent.get(argv[0], (0.0, None))
        if ended is not None and time.monotonic() < before + _SILENT:
            return ended
        within = within or self._query_timeout
        ended = self.run(argv, more, within=within)
        if ended.timed_out and within >= self._query_timeout:
            self._silent[argv[0]] = time.monotonic(), ended
        return ended

    def answer(self, argv: Sequence[str], more: Mapping[str, str] | None = None, within: float | None = None) -> str:
        """What a query printed, which is right. Raises Unreachable."""
        ended = self.look(argv, more, within)
        if ended.code != 0 or ended.timed_out:
            causes = (cause for words, cause in self.signs.unanswered if holds(ended.printed, (words,)))
            raise next(causes, Unreachable)(in_one_line(argv[0], ended))
        return ended.out

    def run(
        self,
        argv: Sequence[str],
        more: Mapping[str, str] | None = None,
        *,
        submits: bool = False,
        within: float | None = None,
        enough: Callable[[str], bool] | None = None,
        script: str | None = None,
    ) -> Finished:
        """How a command ended that changes something; `more`: variables for it, `script`: its standard input.

        `submits`: it gets the environment of runs, and their home. `enough`: see `process.run`.
        """
        words, env = self._called(argv), {**(self.of_runs if submits else self._environment), **(more or {})}
        cwd = _home(env) if submits else "/"  # a working folder that is gone is no reason to fail
        try:
            ended = run(words, timeout=within or self._timeout, env=env, cwd=cwd, enough=enough, input=script)
        except Missing as error:
            if which(argv[0], env) is not None:
                raise NoProgram(f"{error}. " + self._unusable()) from None
            load = f"Load {self.dialect.title}'s commands first ({self.dialect.load})."
            raise NoProgram(f"{error}. {load}") from None
        if ended.code in _NEVER_BEGAN and not ended.timed_out:
            words = f"{which(argv[0], env)}: {in_one_line(argv[0], ended)} (exit {ended.code}). "
            raise NoProgram(words + self._unusable())
        return ended

    def _called(self, argv: Sequence[str]) -> Sequence[str]:
        """How a command is really called."""
        return argv

    def _unusable(self) -> Advice:
        """Of a PATH that leads to commands which do not work: it is the one that `start` was called with."""
        first = "It is the first on the PATH, which `start` keeps. "
        return f"{first}From a shell in which {self.dialect.title}'s commands work: " + command("start")

    def release(self, job_ids: Sequence[str]) -> None:
        """Release held jobs (500 at a time); BatchError where one is held all the same. Raises Unreachable.

        Some fail for all where one id is gone, in words of their own: so the queue is asked.
        """
        for some in chunks(job_ids):
            try:
                self._release(some)
            except (Unreachable, Refused):
                raise
            except BatchError:
                if any(job.held_by_user and meant(job, some) for job in self.queue().jobs):
                    raise

    def _release(self, job_ids: Sequence[str]) -> None:
        self._change([self.dialect.release, *self._names(job_ids)])

    def cancel(self, job_ids: Sequence[str], *, pending_only: bool = False) -> None:
        self._change_all([self.dialect.cancel], self._waiting(job_ids) if pending_only else job_ids)

    def job_ends(self, job_ids: Sequence[str], since: int, tokens: Mapping[str, str] | None = None) -> Ends:
        """Of those whose submission, after `since`, tells them from a reused id."""
        del tokens
        live = {job.id for job in self.queue().jobs}  # of an array some tasks may have ended
        return self._ends([each for each in dict.fromkeys(job_ids) if each not in live], since)

    def _ends(self, job_ids: Sequence[str], since: int) -> Ends:
        """The same of jobs that the queue does not show."""
        raise NotImplementedError

    def _waiting(self, job_ids: Sequence[str]) -> list[str]:
        return [job_id for job in self.queue().jobs if job.waits and (job_id := meant(job, job_ids))]

    def _names(self, job_ids: Sequence[str]) -> Sequence[str]:
        """What the commands call these jobs."""
        return job_ids

    def _user(self) -> str:
        return pwd.getpwuid(os.getuid()).pw_name

    def _change_all(self, words: Sequence[str], job_ids: Sequence[str]) -> None:
        for some in chunks(self._names(job_ids)):
            self._change([*words, *some])

    def _change(self, argv: Sequence[str], *, gone_is_fine: bool = True) -> None:
        changed(argv[0], self.run(argv), self.signs, gone_is_fine=gone_is_fine)


# --- scripts that carry what a job cannot be given beside itself ------------------------------------------------------

_FUNCTION = r"BASH_FUNC_([\w:.+-]+)(?:%%|\(\))"  # as bash names one that it exports
_READ_ONLY = frozenset({"BASHOPTS", "EUID", "PPID", "SHELLOPTS", "UID"})


def wrapped_text(job: Submission, environment: Mapping[str, str], begins: str = "") -> str:
    """The text of `job.script`, a bash script, that first sets what it cannot be given beside itself.

    That is `environment`, the working folder, and the script's arguments. `begins`: lines before those. Raises Refused.
    """
    import shlex
    from pathlib import Path

    try:
        text = Path(job.script).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise Refused(f"{job.script}: cannot be read ({error.strerror})") from None
    first, _, rest = text.partition("\n")
    lines = [_exported(*each) for each in environment.items()]
    lines += [f"cd -- {shlex.quote(job.chdir)} || exit 127\n"] if job.chdir else []
    return f"{first}\n{begins}{''.join(lines)}set -- {shlex.join(job.arguments)}\n{rest}"


def _exported(name: str, value: str) -> str:
    """A variable as bash sets it, or a function that bash has exported; "" for what bash could not have."""
    import shlex

    function = re.fullmatch(_FUNCTION, name)
    if function and value.startswith("() {"):
        return f"{function[1]} {value}\nexport -f {function[1]}\n"
    if not name.isidentifier() or not name.isascii() or name in _READ_ONLY:
        return ""
    own = f'[ -n "${name}" ] || ' if name in SCRATCH else ""  # the job has one of its own
    return f"{own}export {name}={shlex.quote(value)}\n"
