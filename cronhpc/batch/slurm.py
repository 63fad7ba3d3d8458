"""Slurm through its own commands: build an argument list, run it under a time-out, parse what it printed."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from cronhpc.batch import slurm_rows as rows
from cronhpc.batch import slurm_text as text
from cronhpc.batch.environment import for_commands, scrub
from cronhpc.batch.port import BatchError, Unreachable
from cronhpc.batch.process import Finished, Missing, run, run_many, which
from cronhpc.core.model import CronhpcError, Queue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cronhpc.batch import slurm_endings as ends
    from cronhpc.batch.port import Submission
    from cronhpc.batch.site import Site
    from cronhpc.core.model import Ending

_NO_ACCOUNTING = "accounting storage is disabled"
_SLACK = 120  # seconds that the clock of the controller may be behind ours
_SIGNAL_MAY_HAVE_COME = frozenset({124, 228, 229})  # scancel's exits after which the signal may have been delivered


class Slurm:
    """The batch system of `environ` (its PATH, its SLURM_CONF), as this user.

    `cluster` is named to every command where set. `accounting`: None as long as nobody knows whether `sacct` has
    anything to ask; a caller may keep the attribute between ticks. `accounting_trouble`: why sacct failed last.
    """

    name = "slurm"

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        cluster: str = "",
        names: Sequence[str] | None = None,
        accounting: bool | None = None,
        timeout: float = 30,
        query_timeout: float = 20,
    ) -> None:
        self.cluster = cluster
        self.accounting = accounting
        self.accounting_trouble = ""
        self._commands = for_commands(environ)
        self._runs = {**scrub(environ, names), "PATH": self._commands.get("PATH", "")}
        self._timeout = timeout
        self._query_timeout = query_timeout

    # --- the port --------------------------------------------------------------------------------------------------

    def tools(self) -> str:
        """The folder that sbatch lies in."""
        found = which("sbatch", self._commands)
        return found.rpartition("/")[0] if found else ""

    def queue(self) -> Queue:
        """All of this user's jobs in one query. Raises Unreachable."""
        mark = _mark()
        # one row a task (-r): a row for several hides that some of them are held
        asked = ["--me", "--states=all", "--array", "--noheader", f"--format={rows.queue_format(mark)}"]
        ended = self._ask("squeue", asked)
        return Queue(rows.queue_rows(ended.out, mark))

    def submit(self, job: Submission) -> str:
        """The new job's id. Raises Unreachable (the job may exist all the same), Refused, Limited."""
        env = {**self._runs, **(job.export or {})}
        argv = text.submit_argv(job, self.cluster)
        return text.submitted(_run(argv, self._timeout, env, enough=text.has_id, cwd=_home(env)))

    def release(self, job_ids: Sequence[str]) -> None:
        """Release held jobs in one call (500 at a time). Raises Unreachable."""
        for some in text.chunks(job_ids):
            self._change(text.release_argv(some, self.cluster))

    def cancel(self, job_ids: Sequence[str], *, pending_only: bool = False) -> None:
        """Cancel jobs, or just their pending tasks. Raises Unreachable."""
        for some in text.chunks(job_ids):
            self._change(text.cancel_argv(some, self.cluster, pending_only=pending_only))

    def signal(self, job_ids: Sequence[str], name: str) -> None:
        """Signal running jobs; never for one with pending tasks: scancel then tries for 95 s. Raises Unreachable."""
        for some in text.chunks(job_ids):
            argv = text.signal_argv(some, name, self.cluster)
            ended = _run(argv, self._timeout, self._commands)
            if ended.code not in _SIGNAL_MAY_HAVE_COME:
                text.changed("scancel", ended, gone_is_fine=True)

    def move(self, job_id: str, at: int, comment: str | None = None) -> None:
        """Let a pending job start at `at`. Raises Unreachable; BatchError where it is not pending any more."""
        argv = text.update_argv([job_id], self.cluster, StartTime=f"uts{at}", Comment=comment)
        self._change(argv, gone_is_fine=False)

    def hold(self, job_ids: Sequence[str], comment: str) -> None:
        """Hold pending tasks ("57_[0-2,4]" for some of an array) and set their comment. Raises Unreachable."""
        for some in text.chunks(job_ids):
            self._change(text.update_argv(some, self.cluster, Comment=comment, Priority="0"))

    def free(self, job_ids: Sequence[str], comment: str) -> None:
        """Release tasks, then set their comment: a mark is not lost before what it stands for. Raises Unreachable."""
        self.release(job_ids)
        for some in text.chunks(job_ids):
            self._change(text.update_argv(some, self.cluster, Comment=comment))

    def endings(
        self, job_ids: Sequence[str], since: int, tokens: Mapping[str, str] | None = None
    ) -> Mapping[str, Ending]:
        """How jobs submitted after `since` ended: as the controller remembers, and from sacct what it cannot tell.

        sacct is late by seconds, and shows half of things meanwhile. `tokens`: by id a text in the job's comment, so
        that a reused id is not mistaken. Raises Unreachable; where sacct alone fails, `accounting_trouble` says why.
        """
        if not job_ids:
            return {}
        remembered = self._remembered(frozenset(job_ids))
        accounted = self._accounted(ends.for_accounting(job_ids, remembered), since)
        return ends.endings_of([*remembered, *accounted], since - _SLACK, tokens or {})

    def cancelled_by(self, job_id: str, since: int) -> int | None:
        """The user id that cancelled a job, where accounting tells; None: unknown."""
        return ends.canceller(row for row in self._accounted([job_id], since) if (row.submitted or 0) >= since - _SLACK)

    def describe(self, job_id: str) -> Mapping[str, str]:
        """The fields of `scontrol show job`. Raises Unreachable."""
        return text.fields(self._ask("scontrol", ["show", "job", job_id]).out)

    # --- beyond the port -------------------------------------------------------------------------------------------

    def of_scrontab(self, job_ids: Sequence[str]) -> frozenset[str]:
        """Those of `job_ids` that a scrontab submitted; one call each, for cancelling one disables its entry for good.

        Raises Unreachable.
        """
        answers = run_many([partial(self._shown, job_id) for job_id in job_ids], 4)
        for answer in answers:
            if isinstance(answer, CronhpcError):
                raise answer
        return frozenset(one for one, answer in zip(job_ids, answers, strict=True) if text.of_scrontab(str(answer)))

    def _shown(self, job_id: str) -> str:
        argv = [*text.command("scontrol", self.cluster), "show", "job", job_id]
        ended = _run(argv, self._query_timeout, self._commands)
        text.changed("scontrol", ended, gone_is_fine=True)
        return ended.out

    def site(self) -> Site:
        """What `init` and `doctor` want to know of this cluster. Raises Unreachable."""
        import pwd

        from cronhpc.batch.site import slurm_site

        user = pwd.getpwuid(os.getuid()).pw_name
        return slurm_site(lambda program, arguments: self._ask(program, arguments).out, user)

    # --- the runner ------------------------------------------------------------------------------------------------

    def _ask(self, program: str, arguments: Sequence[str]) -> Finished:
        """A query; what it printed is right. Raises Unreachable."""
        cluster = "" if program == "sacctmgr" else self.cluster  # it takes no such option
        ended = _run([*text.command(program, cluster), *arguments], self._query_timeout, self._commands)
        if ended.code != 0 or ended.timed_out:
            raise Unreachable(text.told(program, ended))
        return ended

    def _change(self, argv: Sequence[str], *, gone_is_fine: bool = True) -> None:
        text.changed(argv[0], _run(argv, self._timeout, self._commands), gone_is_fine=gone_is_fine)

    def _remembered(self, job_ids: frozenset[str]) -> list[ends.Row]:
        """What the controller still knows (MinJobAge seconds), exit codes included."""
        arguments = ["--me", "--states=all", "--array", "--noheader", f"--Format={ends.exits_format()}"]
        return [row for row in ends.exits_rows(self._ask("squeue", arguments).out) if row.id in job_ids]

    def _accounted(self, job_ids: Sequence[str], since: int) -> list[ends.Row]:
        """What sacct knows; nothing where there is no accounting, or where it fails (accounting_trouble says why)."""
        self.accounting_trouble = ""
        if self.accounting is False or not job_ids:
            return []
        try:
            return [row for some in text.chunks(job_ids) for row in self._sacct(some, since)]
        except BatchError as error:
            if _NO_ACCOUNTING in error.text:
                self.accounting = False
            else:
                self.accounting_trouble = error.text
            return []

    def _sacct(self, job_ids: Sequence[str], since: int) -> list[ends.Row]:
        try:
            found = self._sacct_rows(job_ids, since, submit_line=True)
        except Unreachable as error:
            if "Invalid field" not in error.text:
                raise
            found = self._sacct_rows(job_ids, since, submit_line=False)
        self.accounting = True
        return found

    def _sacct_rows(self, job_ids: Sequence[str], since: int, *, submit_line: bool) -> list[ends.Row]:
        mark = _mark()
        argv = text.accounting_argv(
            job_ids, since - _SLACK, mark, ends.accounting_fields(submit_line=submit_line), self.cluster
        )
        # sacct reads its window's start in the caller's zone, and takes no epoch seconds
        ended = _run(argv, self._query_timeout, {**self._commands, "TZ": "UTC0"})
        if ended.code != 0 or ended.timed_out:
            raise Unreachable(text.told("sacct", ended))
        return ends.accounting_rows(ended.out, mark, submit_line=submit_line)


def _run(
    argv: Sequence[str],
    timeout: float,
    env: Mapping[str, str],
    *,
    enough: Callable[[str], bool] | None = None,
    cwd: str = "/",  # a working folder that is gone is no reason to fail
) -> Finished:
    try:
        return run(argv, timeout=timeout, env=env, cwd=cwd, enough=enough)
    except Missing as error:
        raise Unreachable(f"{error}. Load Slurm's commands, or say `backend: local` in cronhpc.yaml.") from None


def _home(env: Mapping[str, str]) -> str:
    """Where sbatch is called, so where a relative --chdir in a script starts: as cron does."""
    home = env.get("HOME", "/")
    return home if os.path.isdir(home) else "/"  # noqa: PTH112 - pathlib is not worth its start-up here


def _mark() -> str:
    """A text that no name or comment holds: two control characters around a number that nobody could know."""
    return f"\x1e{os.urandom(4).hex()}\x1f"
