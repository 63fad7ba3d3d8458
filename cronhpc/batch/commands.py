"""A batch system's commands: the environment that they and the runs get, time-outs, lists that fit, and no answer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cronhpc.batch.port import NoProgram, Refused, Unreachable
from cronhpc.batch.process import Finished, Missing, for_commands, run, scrub, which
from cronhpc.core.model import FAILURES, JobEnd, Result, command
from cronhpc.cron.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from cronhpc.core.model import Advice
    from cronhpc.script.dialect import Dialect

_NEVER_BEGAN = frozenset({126, 127})  # a wrapper's program, or a library of it, is not there; no command ends so itself
LIST_LIMIT = 500  # job ids in one command line


def chunks(job_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """`job_ids` in lists that fit one command line."""
    for start in range(0, len(job_ids), LIST_LIMIT):
        yield job_ids[start : start + LIST_LIMIT]


def told(program: str, ended: Finished) -> str:
    """What a program said, as one line."""
    words = " / ".join(line.strip() for line in ended.said.splitlines() if line.strip())
    if ended.timed_out:
        return f"{program} gave no answer in time" + (f": {words}" if words else "")
    return words or f"{program} exited {ended.code} and said nothing"


def task_list(tasks: Iterable[int]) -> str:
    """Task numbers as cronhpc, and Slurm, writes them: "3", "[0-2,5]"."""
    spans: list[list[int]] = []
    for task in sorted(tasks):
        if spans and task == spans[-1][1] + 1:
            spans[-1][1] = task
        else:
            spans.append([task, task])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
    return text if text.isdecimal() else f"[{text}]"


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
        way = f"Write it into the script, as {dialect.prefix} has it."
        raise Refused(f"{error}: {dialect.title} has no such option. {way}") from None


class Commands:
    """The commands of `dialect` on the PATH of `environ`; `names`: the only variables that runs get.

    Seconds: `timeout` for what changes something, `query_timeout` for what asks. All raise NoProgram.
    """

    def __init__(
        self,
        dialect: Dialect,
        environ: Mapping[str, str],
        names: Sequence[str] | None,
        timeout: float,
        query_timeout: float,
    ) -> None:
        self._dialect = dialect
        self._environment = for_commands(environ, dialect)
        self.of_runs = {**scrub(environ, dialect, names), "PATH": self._environment.get("PATH", "")}
        self._timeout = timeout
        self._query_timeout = query_timeout

    def folder(self) -> str:
        """Where the command that submits lies; "" where it is not there."""
        found = which(self._dialect.commands[0], self._environment)
        return found.rpartition("/")[0] if found else ""

    def has(self, program: str) -> bool:
        """Whether this machine has it."""
        return which(program, self._environment) is not None

    def look(self, argv: Sequence[str]) -> Finished:
        """How a query ended."""
        return self._run(argv, self._query_timeout, self._environment)

    def answer(self, argv: Sequence[str], more: Mapping[str, str] | None = None, within: float | None = None) -> str:
        """What a query printed, which is right. `more`: variables for it. `within`: seconds. Raises Unreachable."""
        ended = self._run(argv, within or self._query_timeout, {**self._environment, **(more or {})})
        if ended.code != 0 or ended.timed_out:
            raise Unreachable(told(argv[0], ended))
        return ended.out

    def change(self, argv: Sequence[str]) -> Finished:
        """How a command that changes something ended."""
        return self._run(argv, self._timeout, self._environment)

    def submit(
        self,
        argv: Sequence[str],
        export: Mapping[str, str] | None,
        enough: Callable[[str], bool] | None = None,
        script: str | None = None,
    ) -> Finished:
        """How a submission ended, which gets the environment of runs, and `script` on its standard input.

        `enough`: see `process.run`.
        """
        env = {**self.of_runs, **(export or {})}
        return self._run(argv, self._timeout, env, enough=enough, cwd=_home(env), given=script)

    def try_submission(self, argv: Sequence[str], export: Mapping[str, str] | None, script: str | None) -> Finished:
        """The same for one that only asks, with `script` on its standard input."""
        env = {**self.of_runs, **(export or {})}
        return self._run(argv, self._query_timeout, env, cwd=_home(env), given=script)

    def submit_text(self, argv: Sequence[str], text: str) -> Finished:
        """How the submission of a script's text, on standard input, ended."""
        return self._run(argv, self._timeout, self._environment, cwd=_home(self._environment), given=text)

    def _run(
        self,
        argv: Sequence[str],
        timeout: float,
        env: Mapping[str, str],
        *,
        enough: Callable[[str], bool] | None = None,
        cwd: str = "/",  # a working folder that is gone is no reason to fail
        given: str | None = None,
    ) -> Finished:
        try:
            ended = run(argv, timeout=timeout, env=env, cwd=cwd, enough=enough, input=given)
        except Missing as error:
            if which(argv[0], env) is not None:
                raise NoProgram(f"{error}. " + self._unusable()) from None
            load = f"Load {self._dialect.title}'s commands first ({self._dialect.load})."
            raise NoProgram(f"{error}. {load}") from None
        if ended.code in _NEVER_BEGAN and not ended.timed_out:
            raise NoProgram(f"{which(argv[0], env)}: {told(argv[0], ended)} (exit {ended.code}). " + self._unusable())
        return ended

    def _unusable(self) -> Advice:
        """Of a PATH that leads to commands which do not work: it is the one that `start` was called with."""
        first = "It is the first on the PATH, which `start` keeps. "
        return f"{first}From a shell in which {self._dialect.title}'s commands work: " + command("start")


def _home(env: Mapping[str, str]) -> str:
    """Where jobs are submitted, so where a relative working folder in a script starts: as cron does."""
    home = env.get("HOME", "/")
    return home if os.path.isdir(home) else "/"  # noqa: PTH112 - pathlib is not worth its start-up here
