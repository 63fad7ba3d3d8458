"""Grid Engine through its own commands, as 8.1.9 has them; sites with another one may differ."""

from __future__ import annotations

import os
import pwd
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.batch.commands import Commands, chunks
from cronhpc.batch.grid_engine import text
from cronhpc.batch.port import BatchError, JobFiles, Refused, Unreachable
from cronhpc.batch.process import run_many, which
from cronhpc.core.model import CronhpcError, Queue
from cronhpc.core.model.site import Site
from cronhpc.script.dialect import GRID_ENGINE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cronhpc.batch.port import Submission
    from cronhpc.batch.process import Finished
    from cronhpc.core.model import JobEnd

_PARALLEL = 4  # questions at once about ended jobs
_CUT = 512  # bytes of a script's first line


class GridEngine:
    """The cell of `environ` (its SGE_ROOT, its PATH), as this user.

    It remembers no ended job: how one ended is in a file that nodes may not see, and that does not know of a job which
    was cancelled while it waited.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        names: Sequence[str] | None = None,
        timeout: float = 30,
        query_timeout: float = 20,
    ) -> None:
        self.commands = Commands(GRID_ENGINE, environ, names, timeout, query_timeout)
        # its clients need no more than two small files of this folder, which some sites copy to the nodes
        ends = f"{environ.get('SGE_ROOT', '')}/{environ.get('SGE_CELL', 'default')}/common/accounting"
        self.dialect = GRID_ENGINE if os.access(ends, os.R_OK) else GRID_ENGINE._replace(tells_ends=False)
        self._user = pwd.getpwuid(os.getuid()).pw_name

    def tools(self) -> str:
        """The folder that qsub lies in."""
        return self.commands.folder()

    def queue(self) -> Queue:
        """All of this user's jobs that have not ended, in two questions, and one more where some are held.

        Raises Unreachable.
        """
        listed = text.rows(self.commands.answer(["qstat", "-xml", "-u", self._user]))
        known = self._details([row.id for row in listed])
        held: frozenset[str] = frozenset()
        if any("h" in row.state for row in listed):
            held = frozenset(
                r.id for r in text.rows(self.commands.answer(["qstat", "-xml", "-s", "hu", "-u", self._user]))
            )
        return Queue(text.jobs(listed, known, held))

    def _details(self, job_ids: Sequence[str]) -> dict[str, text.Details]:
        found: dict[str, text.Details] = {}
        for some in chunks(list(dict.fromkeys(job_ids))):
            found |= text.details(self.commands.answer(["qstat", "-xml", "-j", ",".join(some)]))
        return found

    def restarts(self) -> Mapping[str, int]:
        """It does not tell before the end; cronhpc asks for none."""
        return {}

    def live_files(self) -> tuple[JobFiles, ...]:
        """What each of this user's live jobs runs and writes. Raises Unreachable."""
        listed = text.rows(self.commands.answer(["qstat", "-xml", "-u", self._user]))
        names = {row.id: row.name for row in listed}
        return tuple(
            JobFiles(job_id, job.command, job.workdir, text.as_globs(job, job_id, names.get(job_id, "")))
            for job_id, job in self._details(list(names)).items()
        )

    def script(self, job_id: str) -> str:
        """Its copy is the master's alone. Raises BatchError."""
        raise BatchError(f"job {job_id}: Grid Engine shows nobody the text of a job's script")

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

    def release(self, job_ids: Sequence[str]) -> None:
        """Release held jobs; BatchError where one is held all the same. Raises Unreachable."""
        for some in chunks(job_ids):
            try:
                self._change(["qrls", *map(_id, some)])
            except Unreachable:
                raise
            except BatchError:
                if {each for job in self.queue().jobs if job.held_by_user for each in (job.id, job.shown)}.intersection(
                    some
                ):
                    raise

    def cancel(self, job_ids: Sequence[str], *, pending_only: bool = False) -> None:
        """Cancel jobs, or just their tasks that wait. Raises Unreachable."""
        wanted = list(job_ids)
        if pending_only:
            rows = [job for job in self.queue().jobs if job.waits and {job.id, job.shown}.intersection(wanted)]
            wanted = [job.shown for job in rows]
        for some in chunks(wanted):
            self._change(["qdel", *map(_id, some)])

    def signal(self, job_ids: Sequence[str], name: str) -> None:
        """It lets an owner send none. Raises BatchError."""
        raise BatchError(f"Grid Engine sends no {name} to {', '.join(job_ids)}: a guard in the script can warn it")

    def move(self, job_id: str, at: int, comment: str | None = None, exclude: str | None = None) -> None:
        """Let a pending job start at `at`, and set its comment in the same call. Raises BatchError."""
        del exclude  # of scheduler jobs alone, which are not here
        marks = ["-ac", text.comment_pair(comment)] if comment is not None else []
        self._change(["qalter", "-a", text.moment_text(at), *marks, _id(job_id)], gone_is_fine=False)

    def hold(self, job_ids: Sequence[str], comment: str) -> None:
        """Hold pending tasks and set their comment in one call. Raises BatchError."""
        for some in chunks(job_ids):
            self._change(["qalter", "-h", "u", "-ac", text.comment_pair(comment), *map(_id, some)])

    def comment(self, job_ids: Sequence[str], comment: str) -> None:
        """Set the comment of jobs. Raises BatchError."""
        for some in chunks(job_ids):
            self._change(["qalter", "-ac", text.comment_pair(comment), *map(_id, some)])

    def free(self, job_ids: Sequence[str], comment: str) -> None:
        """Release tasks, then set their comment: a mark is not lost before what it stands for. Raises BatchError."""
        self.release(job_ids)
        self.comment(job_ids, comment)

    def job_ends(
        self, job_ids: Sequence[str], since: int, tokens: Mapping[str, str] | None = None
    ) -> Mapping[str, JobEnd]:
        """How jobs submitted after `since` ended, as the accounting file of this machine has it; others are left out.

        Raises Unreachable.
        """
        del tokens  # the file has no comments: `since` tells a reused id
        ids = list(dict.fromkeys(job_ids))
        live = {job.id for job in self.queue().jobs}  # of an array the ended tasks are in the file already
        asked = [job_id for job_id in ids if job_id not in live]
        answers = run_many([partial(self.commands.look, ["qacct", "-j", job_id]) for job_id in asked], _PARALLEL)
        found = {}
        for job_id, answer in zip(asked, answers, strict=True):
            if isinstance(answer, CronhpcError):
                raise answer
            if answer.code == 0 and not answer.timed_out and (end := text.job_end(answer.out, since)):
                found[job_id] = end
        return found

    def cancelled_by(self, job_id: str, since: int) -> int | None:
        """It does not tell."""
        del job_id, since
        return None

    def of_scrontab(self, job_ids: Sequence[str]) -> frozenset[str]:
        """It has none."""
        del job_ids
        return frozenset()

    def site(self) -> Site:
        """Nothing that settings need: a queue is found by what a script asks for."""
        self.commands.answer(["qstat", "-xml", "-u", self._user])
        return Site()

    def cluster_name(self) -> str:
        """It has none."""
        return ""

    def clock(self) -> int | None:
        """Its own is not asked."""
        return None

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

    def _change(self, argv: Sequence[str], *, gone_is_fine: bool = True) -> None:
        ended: Finished = self.commands.change(argv)
        text.changed(argv[0], ended, gone_is_fine=gone_is_fine)


def _id(shown: str) -> str:
    """`57_[2-4]` as Grid Engine has it: 57.2-4."""
    number, _, tasks = shown.partition("_")
    return f"{number}.{tasks.strip('[]').partition('%')[0]}" if tasks else number
