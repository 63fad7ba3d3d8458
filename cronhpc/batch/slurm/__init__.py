"""Slurm through its own commands: build an argument list, run it under a time-out, parse what it printed."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from cronhpc.batch.commands import ByCommands, changed, chunks
from cronhpc.batch.port import BatchError, Ends, JobFiles, Submission, Unreachable
from cronhpc.batch.process import run_many
from cronhpc.batch.slurm import rows, text
from cronhpc.core.model import Accounting, CronhpcError, Queue, log_name
from cronhpc.script.dialect import SLURM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Unpack

    from cronhpc.batch.commands import Usual
    from cronhpc.batch.slurm.job_ends import Row
    from cronhpc.core.model.site import Cluster, Partition, Site

_SIGNAL_MAY_HAVE_COME = frozenset({124, 228, 229})  # scancel's exits after which the signal may have been delivered
_CLOCK = 3.0  # seconds
_ALIKE = 20  # jobs of one script that are asked for their logs
_PRINTED = 3  # numbers among a wrapper's words, each a question


class Slurm(ByCommands):
    """The batch system of `environ` (its PATH, its SLURM_CONF), as this user.

    `cluster` is named to every command where set. `accounting` and `submit_line`: what is known of them already.
    """

    dialect = SLURM
    signs = text.SIGNS

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        cluster: str = "",
        accounting: bool | None = None,
        submit_line: bool = True,
        **usual: Unpack[Usual],
    ) -> None:
        self.cluster = cluster
        self.accounting = accounting
        self.submit_line = submit_line
        super().__init__(environ, **usual)

    # --- the port --------------------------------------------------------------------------------------------------

    def queue(self) -> Queue:
        separator = text.new_separator()
        # one row a task (-r): a row for several hides that some of them are held
        asked = ["--me", "--states=all", "--array", f"--format={rows.queue_format(separator)}"]
        answer = self.ask("squeue", asked)
        return Queue(rows.queue_rows(answer, separator))

    def live_files(self) -> tuple[JobFiles, ...]:
        separator = text.new_separator()
        asked = ["--me", "--states=all", f"--Format={rows.squeue_format(separator)}"]
        return rows.squeue_rows(self.ask("squeue", asked), separator)

    def script(self, job_id: str) -> str:
        """The copy that Slurm keeps."""
        return self.ask("scontrol", ["write", "batch_script", job_id, "-"])

    def submit(self, job: Submission) -> str:
        argv = text.submit_argv(job)
        try:
            return text.submitted(self.run(argv, job.export, submits=True, enough=text.has_id))
        except text.Unclear as error:
            job_id = self._submitted(job, error.numbers)
            if not job_id:
                raise
            return job_id

    def _submitted(self, job: Submission, numbers: Sequence[str]) -> str:
        """The id of what was just submitted, as the queue knows it; "" where nothing is certain. Raises Unreachable.

        Where sites cache its list, that does not have the job yet: then the numbers that were printed are asked about.
        One that has ended and was not printed is of an earlier submission: that was taken back before its slot came.
        """
        jobs = [job for job in self.queue().jobs if job.live or job.id in numbers]
        if job_id := rows.submitted(jobs, job, numbers):
            return job_id
        for each in rows.alike(jobs, job, numbers)[:_ALIKE]:  # a site has replaced the comment
            letters = {"j": each, "A": each}
            wanted = log_name(job.output or "", letters)
            if not wanted or text.fields(self._show_job(each)).get("StdOut", "") in {wanted, log_name(wanted, letters)}:
                return each
        return next((each for each in numbers[:_PRINTED] if job.comment and job.comment in self._record(each)), "")

    def _record(self, job_id: str) -> str:
        """What the controller says of a job; "" where it knows none, or gives no answer."""
        try:
            return self._show_job(job_id)
        except BatchError:
            return ""

    def _release(self, job_ids: Sequence[str]) -> None:
        self._change(["scontrol", "release", ",".join(job_ids)])

    def cancel(self, job_ids: Sequence[str], *, pending_only: bool = False) -> None:
        for some in chunks(job_ids):
            if pending_only and (tasks := [each for each in some if "_" in each]):
                # `scancel --state` ends all tasks that wait in one record; one that is held has a record of its own
                self._change(text.update_argv(tasks, Priority="0"))
            self._change(["scancel", *(["--state=PENDING"] if pending_only else []), *some])

    def signal(self, job_ids: Sequence[str], name: str) -> None:
        """Never for one with pending tasks: scancel then tries for 95 s."""
        for some in chunks(job_ids):
            ended = self.run(["scancel", "--full", f"--signal={name}", *some])  # the shell, its children, all steps
            if ended.code not in _SIGNAL_MAY_HAVE_COME:
                changed("scancel", ended, self.signs)

    def move(self, job_id: str, at: int, comment: str | None = None, exclude: str | None = None) -> None:
        argv = text.update_argv([job_id], StartTime=f"uts{at}", Comment=comment, ExcNodeList=exclude)
        self._change(argv, gone_is_fine=False)

    def hold(self, job_ids: Sequence[str], comment: str) -> None:
        for some in chunks(job_ids):
            self._change(text.update_argv(some, Comment=comment, Priority="0"))

    def comment(self, job_ids: Sequence[str], comment: str) -> None:
        for some in chunks(job_ids):
            self._change(text.update_argv(some, Comment=comment))

    def job_ends(self, job_ids: Sequence[str], since: int, tokens: Mapping[str, str] | None = None) -> Ends:
        """The controller first: sacct takes fifteen times as long, is late by seconds, and shows half of it then."""
        from cronhpc.batch.slurm import job_ends as ends

        if not job_ids:
            return Ends()
        since, wanted = since - ends.SLACK, frozenset(job_ids)
        asked = ["--me", "--states=all", "--array", f"--Format={ends.exits_format()}"]
        remembered = [row for row in ends.exits_rows(self.ask("squeue", asked)) if row.id in wanted]
        accounted, accounting = self._accounted(ends.for_accounting(job_ids, remembered), since)
        return ends.ends_of(remembered, accounted, accounting, since, tokens or {})

    def _accounted(self, job_ids: Sequence[str], since: int) -> tuple[Sequence[Row], Accounting]:
        """What sacct knows; nothing where there is no accounting, or where it fails: then why."""
        if self.accounting is False or not job_ids:
            return (), Accounting()
        try:
            rows = [row for some in chunks(job_ids) for row in self._sacct(some, since)]
        except text.NoAccounting:
            self.accounting = False
            return (), Accounting()
        except Unreachable as error:
            if self.accounting is None and self.has("sacct"):  # the controller knows whether there is any
                from cronhpc.batch.slurm.site import has_accounting

                with suppress(Unreachable):
                    self.accounting = has_accounting(self._config())
            return (), Accounting(exists=True, trouble=error.text) if self.accounting else Accounting()
        self.accounting = True
        return rows, Accounting(exists=True)

    def _sacct(self, job_ids: Sequence[str], since: int) -> Sequence[Row]:
        """Raises Unreachable. 20.11 has no field SubmitLine: that is remembered."""
        from cronhpc.batch.slurm import job_ends as ends

        separator, fields = text.new_separator(), ends.ACCOUNTING if self.submit_line else ends.ACCOUNTING[:-1]
        try:
            answer = self.answer(ends.accounting_argv(job_ids, since, separator, fields), ends.UTC_TIMES)
        except text.NoField:
            if not self.submit_line:
                raise
            self.submit_line = False
            return self._sacct(job_ids, since)
        return ends.accounting_rows(answer, separator, fields)

    def restarts(self) -> Mapping[str, int]:
        from cronhpc.batch.slurm import job_ends as ends

        asked = ["--me", "--states=all", "--array", "--noheader", f"--Format={ends.restarts_format()}"]
        return ends.restarts_of(self.ask("squeue", asked))

    def cluster_name(self) -> str:
        return self.cluster or self._config().get("ClusterName", "")

    def _config(self) -> Mapping[str, str]:
        from cronhpc.batch.slurm.site import config_values

        return config_values(self.ask("scontrol", ["show", "config"]))

    def clock(self) -> int | None:
        """`scontrol show config` says as of when it is. It is not waited for: the queue is asked next."""
        from cronhpc.batch.slurm.site import controller_clock

        return controller_clock(self.answer(["scontrol", "show", "config"], within=_CLOCK))

    def describe(self, job_id: str) -> Mapping[str, str]:
        """The fields of `scontrol show job`, and from squeue those that follow free text there."""
        separator = text.new_separator()
        facts = text.fields(self._show_job(job_id))
        if not facts:
            raise BatchError(f"job {job_id} does not exist")
        asked = ["--me", f"--jobs={job_id}", "--states=all", f"--format={rows.queue_format(separator)}"]
        for job in rows.queue_rows(self.ask("squeue", asked), separator)[:1]:
            facts |= {"WorkDir": job.workdir, "JobName": job.name, "Command": job.command or ""}
        reason = rows.word(facts.get("Reason", ""))
        fault = rows.fault_of(reason)
        return {**facts, "Reason": reason, **({"Fault": fault} if fault else {})}

    # --- beyond the port -------------------------------------------------------------------------------------------

    def of_scrontab(self, job_ids: Sequence[str]) -> frozenset[str]:
        """One call each."""
        answers = run_many([partial(self._show_job, job_id) for job_id in job_ids], 4)
        for answer in answers:
            if isinstance(answer, CronhpcError):
                raise answer
        return frozenset(each for each, answer in zip(job_ids, answers, strict=True) if text.of_scrontab(str(answer)))

    def _show_job(self, job_id: str) -> str:
        """What `scontrol show job` prints; "" where it knows of no such job. Raises Unreachable."""
        try:
            return self.ask("scontrol", ["show", "job", job_id])
        except text.NoJob:
            return ""

    def refusal(self, job: Submission, text_of_script: str | None = None) -> tuple[str, ...]:
        argv = text.submit_argv(job)
        argv.insert(argv.index("--parsable"), "--test-only")
        if text_of_script is not None:
            argv = argv[: argv.index("--")]
        ended = self.run(argv, job.export, submits=True, within=self._query_timeout, script=text_of_script)
        return text.tested(ended)

    def partitions(self) -> tuple[Partition, ...]:
        from cronhpc.batch.slurm.site import ROOM, partition_rows

        return partition_rows(self.ask("sinfo", ["--all", "--noheader", f"--format={ROOM}"]))

    def cluster_facts(self, user: str, qos: str, look: Callable[[], None]) -> Cluster:
        from cronhpc.batch.slurm.site import cluster_of

        def ask(program: str, arguments: Sequence[str]) -> str:
            look()
            answer = self.ask(program, arguments)
            look()
            return answer

        return cluster_of(ask, user, qos)

    def site(self) -> Site:
        from cronhpc.batch.slurm.site import slurm_site

        return slurm_site(self.ask, self._user())

    def used(self, names: Sequence[str], since: int) -> tuple[int, int] | None:
        from cronhpc.batch.slurm import job_ends as ends

        if self.accounting is False:
            return None
        try:
            return ends.used_of(self.answer(ends.used_argv(names, since), ends.UTC_TIMES))
        except text.NoAccounting:
            self.accounting = False
        except Unreachable:
            pass
        return None

    # --- the commands ----------------------------------------------------------------------------------------------

    def ask(self, program: str, arguments: Sequence[str]) -> str:
        """What a query printed, which is right. Raises Unreachable."""
        return self.answer([program, *arguments])

    def _called(self, argv: Sequence[str]) -> Sequence[str]:
        """With the cluster that settings name; sacctmgr takes no such option."""
        return argv if not self.cluster or argv[0] == "sacctmgr" else [argv[0], f"--clusters={self.cluster}", *argv[1:]]
