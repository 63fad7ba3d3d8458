"""Grid Engine through its own commands, as 8.1.9 has them; sites with another one may differ."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.batch.commands import ByCommands, chunks, posix_moment
from cronhpc.batch.grid_engine import text
from cronhpc.batch.port import BatchError, JobFiles, Refused
from cronhpc.batch.process import run_many, which
from cronhpc.core.model import CronhpcError, Queue
from cronhpc.core.model.site import Site
from cronhpc.cron.values import replace
from cronhpc.script.dialect import GRID_ENGINE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from cronhpc.batch.commands import Usual
    from cronhpc.batch.port import Submission
    from cronhpc.core.model import JobEnd

_PARALLEL = 4  # questions at once about ended jobs
_CUT = 512  # bytes of a script's first line


class GridEngine(ByCommands):
    """The cell of `environ` (its SGE_ROOT, its PATH), as this user.

    It remembers no ended job: how one ended is in a file that nodes may not see, and that does not know of a job which
    was cancelled while it waited.
    """

    dialect = GRID_ENGINE
    signs = text.SIGNS

    def __init__(self, environ: Mapping[str, str], **usual: Unpack[Usual]) -> None:
        super().__init__(environ, **usual)
        # its clients need no more than two small files of this folder, which some sites copy to the nodes
        ends = f"{environ.get('SGE_ROOT', '')}/{environ.get('SGE_CELL', 'default')}/common/accounting"
        self.dialect = GRID_ENGINE if os.access(ends, os.R_OK) else replace(GRID_ENGINE, tells_ends=False)

    def queue(self) -> Queue:
        """All of this user's jobs that have not ended, in two questions; one more where some are held, or deleted.

        Raises Unreachable.
        """
        listed = self._listed()
        known = self._details([row.id for row in listed])
        held = self._listed("-s", "hu") if any("h" in row.state for row in listed) else ()
        silent = self._listed("-qs", "u") if any("d" in row.state for row in listed) else ()
        return Queue(text.jobs(listed, known, frozenset(row.id for row in held), _now(), silent))

    def _listed(self, *which: str) -> tuple[text.Row, ...]:
        return text.rows(self.commands.answer(["qstat", "-xml", *which, "-u", self._user()]))

    def _details(self, job_ids: Sequence[str]) -> dict[str, text.Details]:
        found: dict[str, text.Details] = {}
        for some in chunks(list(dict.fromkeys(job_ids))):
            found |= text.details(self.commands.answer(["qstat", "-xml", "-j", ",".join(some)]))
        return found

    def live_files(self) -> tuple[JobFiles, ...]:
        """What each of this user's live jobs runs and writes. Raises Unreachable."""
        names = {row.id: row.name for row in self._listed()}
        return tuple(
            JobFiles(job_id, job.command, job.workdir, text.as_globs(job, job_id, names.get(job_id, "")))
            for job_id, job in self._details(list(names)).items()
        )

    def submit(self, job: Submission) -> str:
        """The new job's id. Raises Unreachable (the job may exist all the same), Refused, Limited, BatchError."""
        env = {**self.commands.of_runs, **(job.export or {})}
        argv = text.submit_argv(job, self._shell(job.script, env), sorted(env), env.get("TZ"))
        # the time to begin at is read in the caller's zone
        return text.submitted(self.commands.submit(argv, {**(job.export or {}), "TZ": "UTC0"}))

    @staticmethod
    def _shell(script: str, env: Mapping[str, str]) -> str:
        try:
            with Path(script).open("rb") as file:
                line = file.readline(_CUT).decode("utf-8", "surrogateescape")
        except OSError as error:
            raise Refused(f"{script}: cannot be read ({error.strerror})") from None
        words = [word for word in line.removeprefix("#!").split() if not word.startswith("-")]
        searched = which(words[1], env) if words[:1] == ["/usr/bin/env"] and len(words) > 1 else None
        return text.shell_of(line) or searched or "/bin/sh"

    def signal(self, job_ids: Sequence[str], name: str) -> None:
        """It lets an owner send none. Raises BatchError."""
        raise BatchError(f"Grid Engine sends no {name} to {', '.join(job_ids)}: a guard in the script can warn it")

    def move(self, job_id: str, at: int, comment: str | None = None, exclude: str | None = None) -> None:
        """Let a pending job start at `at`, and set its comment in the same call. Raises BatchError."""
        del exclude  # of scheduler jobs alone, which are not here
        marks = ["-ac", text.comment_pair(comment)] if comment is not None else []
        self._change(["qalter", "-a", posix_moment(at), *marks, *self._names([job_id])], gone_is_fine=False)

    def hold(self, job_ids: Sequence[str], comment: str) -> None:
        """Hold pending tasks and set their comment in one call. Raises BatchError."""
        self._change_all(["qalter", "-h", "u", "-ac", text.comment_pair(comment)], job_ids)

    def comment(self, job_ids: Sequence[str], comment: str) -> None:
        """Set the comment of jobs. Raises BatchError."""
        self._change_all(["qalter", "-ac", text.comment_pair(comment)], job_ids)

    def _ends(self, job_ids: Sequence[str], since: int) -> Mapping[str, JobEnd]:
        """As the accounting file of this machine has it."""
        answers = run_many([partial(self.commands.look, ["qacct", "-j", job_id]) for job_id in job_ids], _PARALLEL)
        found = {}
        for job_id, answer in zip(job_ids, answers, strict=True):
            if isinstance(answer, CronhpcError):
                raise answer
            if answer.code == 0 and not answer.timed_out and (end := text.job_end(answer.out, since)):
                found[job_id] = end
        return found

    def site(self) -> Site:
        """Nothing that settings need: a queue is found by what a script asks for."""
        self._listed()
        return Site()

    def describe(self, job_id: str) -> Mapping[str, str]:
        """A job's own facts, by Slurm's names. Raises BatchError."""
        found = self._details([job_id]).get(job_id)
        if found is None:
            raise BatchError(f"job {job_id} does not exist")
        return {
            "JobId": job_id,
            "JobName": found.name,
            "Command": str(Path(found.submitted_in, found.command)),
            "WorkDir": found.workdir or str(Path.home()),  # where it starts jobs that name none
            "Comment": found.comment,
            **({"ArrayJobId": job_id} if found.is_array else {}),
        }

    def _names(self, job_ids: Sequence[str]) -> Sequence[str]:
        """`57_[2-4]` is 57.2-4 there."""
        parts = (each.partition("_") for each in job_ids)
        return [f"{number}.{tasks.strip('[]').partition('%')[0]}" if tasks else number for number, _, tasks in parts]


def _now() -> int:
    return int(time.time())  # noqa: TID251 - qstat says when it sent a job to its node, and not how long ago that is
