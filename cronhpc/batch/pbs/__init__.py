"""PBS through its own commands, as OpenPBS 23.06 has them; PBS Pro's are the same. Not Torque's.

A job's comment is a variable of it, which nobody can change later: a comment that was changed since stands in a file.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cronhpc.batch.commands import ByCommands, chunks, meant, posix_moment
from cronhpc.batch.local import supervisor as files
from cronhpc.batch.pbs import text
from cronhpc.batch.port import BatchError, JobFiles, Unreachable
from cronhpc.batch.process import run_many
from cronhpc.batch.wrapped import wrapped_text
from cronhpc.core.model import Queue
from cronhpc.core.model.site import Site
from cronhpc.script.dialect import PBS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Unpack

    from cronhpc.batch.commands import Usual
    from cronhpc.batch.port import Submission
    from cronhpc.core.model import JobEnd

_PARALLEL = 4  # calls at once


class Pbs(ByCommands):
    """The server of `environ` (its PBS_CONF_FILE, its PATH), as this user. `folder`: where changed comments are kept.

    It remembers no ended job, unless an administrator has switched its history on.
    """

    dialect = PBS
    signs = text.SIGNS

    def __init__(self, folder: Path, environ: Mapping[str, str], **usual: Unpack[Usual]) -> None:
        super().__init__(environ, **usual)
        self._folder = folder
        self._known: dict[str, text.Row] = {}  # of the last look, by number; of an array the whole

    def queue(self) -> Queue:
        """All of this user's jobs that have not ended, in two questions. Raises Unreachable."""
        listed = self._look()
        return Queue(text.jobs(listed, self._comments()))

    def _look(self) -> list[text.Row]:
        """Each job and each task. Without an id qstat would list everybody's."""
        names = text.ids(self.commands.look(["qselect", "-u", self._user()]))
        listed: list[text.Row] = []
        for some in chunks(names):
            listed += text.rows(text.answer(self.commands.look(["qstat", "-t", "-f", "-F", "json", *some])))
        self._known = {row.number: row for row in listed if not row.task}
        return listed

    def restarts(self) -> Mapping[str, int]:
        """How often each job began anew. Raises Unreachable."""
        counts = {row.number: row.text("run_count") for row in self._look() if not row.task}
        return {number: int(count) - 1 for number, count in counts.items() if count.isdecimal() and int(count) > 1}

    def live_files(self) -> tuple[JobFiles, ...]:
        """What each live job writes; which script it runs is not told. Raises Unreachable."""
        self._look()
        return tuple(
            JobFiles(number, "", row.workdir, (text.as_glob(row),) if row.output not in {"", "/dev/null"} else ())
            for number, row in self._known.items()
        )

    def submit(self, job: Submission) -> str:
        """The new job's id. Raises Unreachable (the job may exist all the same), Refused, Limited, BatchError."""
        argv, array = text.submit_argv(job), text.array(job.options)
        own = text.own_values(job.own_export)  # qsub sets these
        environment = {name: value for name, value in self.commands.of_runs.items() if name not in own}
        environment |= {**(job.export or {}), **({PBS.job.tasks: str(array.tasks)} if array.tasks else {})}
        name = text.submitted(self.commands.submit_text(argv, wrapped_text(job, environment, array.only)))
        row = text.Row(name, {})
        return row.number

    def _release(self, job_ids: Sequence[str]) -> None:
        """Each gets its id into its log's name."""
        self._look()
        argvs = []
        for number in dict.fromkeys(each.partition("_")[0] for each in job_ids):
            if row := self._known.get(number):
                log = ["-o", row.log] if row.log else []
                argvs.append(["qalter", *log, "-h", "n", row.name])
        done = run_many([partial(self._change, argv) for argv in argvs], _PARALLEL)
        troubles = [each for each in done if isinstance(each, BatchError)]
        for each in sorted(troubles, key=lambda each: not isinstance(each, Unreachable)):
            raise each

    def _waiting(self, job_ids: Sequence[str]) -> list[str]:
        """An array of which no task runs is one."""
        jobs = self.queue().jobs
        runs = {job.id for job in jobs if not job.waits}
        parts = ((job, shown) for job in jobs if job.waits and (shown := meant(job, job_ids)))
        return [shown if job.id in runs or shown in job_ids else job.id for job, shown in parts]

    def signal(self, job_ids: Sequence[str], name: str) -> None:
        """Send a signal to all processes of running jobs. Raises Unreachable, BatchError."""
        self._change_all(["qsig", "-s", name.removeprefix("SIG")], job_ids)

    def move(self, job_id: str, at: int, comment: str | None = None, exclude: str | None = None) -> None:
        """Let a pending job start at `at`, and keep its comment. Raises BatchError."""
        del exclude  # of scheduler jobs alone
        names = self._names([job_id])
        if comment is not None:
            self.comment([job_id], comment)
        self._change(["qalter", "-a", posix_moment(at), *names], gone_is_fine=False)

    def hold(self, job_ids: Sequence[str], comment: str) -> None:
        """Hold jobs, an array as a whole, and keep their comment, that first: a hold of ours has its mark.

        Raises BatchError.
        """
        numbers = list(dict.fromkeys(each.partition("_")[0] for each in job_ids))
        self.comment(numbers, comment)
        self._change_all(["qalter", "-h", "u"], numbers)

    def comment(self, job_ids: Sequence[str], comment: str) -> None:
        """Keep the comment of jobs, where it is another than they were submitted with. Raises BatchError."""
        self._look()
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            for each in self._folder.glob("*.json"):
                if each.stem not in self._known:  # it has ended
                    each.unlink(missing_ok=True)
            for number in {each.partition("_")[0] for each in job_ids}.intersection(self._known):
                row = self._known[number]
                if comment == row.comment:
                    (self._folder / f"{number}.json").unlink(missing_ok=True)
                else:
                    kept = {"ctime": row.text("ctime"), "comment": comment}
                    files.write(str(self._folder), f"{number}.json", kept)
        except OSError as error:
            raise BatchError(f"{error.filename}: {error.strerror}: the comment of a job cannot be kept") from None

    def _comments(self) -> dict[str, str]:
        """By number the comments that were changed; another job of that number has another time."""
        found: dict[str, str] = {}
        for number, row in self._known.items() if self._folder.is_dir() else ():
            try:
                kept = files.read(str(self._folder), f"{number}.json")
            except OSError as error:
                raise Unreachable(f"{self._folder}/{number}.json: cannot be read: {error.strerror}") from None
            except (ValueError, RecursionError):
                kept = None  # as if it had not been changed
            if isinstance(kept, dict) and kept.get("ctime") == row.text("ctime"):
                found[number] = str(kept.get("comment", row.comment))
        return found

    def _ends(self, job_ids: Sequence[str], since: int) -> Mapping[str, JobEnd]:
        """Where the server keeps a history."""
        asked = [each for number in job_ids for each in (number, f"{number}[]")]
        found: dict[str, JobEnd] = {}
        for some in chunks(asked):
            printed = text.history(self.commands.look(["qstat", "-x", "-t", "-f", "-F", "json", *some]))
            found |= text.job_ends(text.rows(printed), since)
        return found

    def site(self) -> Site:
        """Its version; a queue is found by what a script asks for. Raises Unreachable."""
        return Site(version=str(self._server().get("pbs_version", "")))

    def clock(self) -> int | None:
        """The server's. Raises Unreachable."""
        said = self._server().get("timestamp")
        return said if isinstance(said, int) else None

    def _server(self) -> Mapping[str, object]:
        return text.answer(self.commands.look(["qstat", "-B", "-f", "-F", "json"]))

    def describe(self, job_id: str) -> Mapping[str, str]:
        """A job's own facts, by Slurm's names. Raises BatchError."""
        self._look()
        row = self._known.get(job_id.partition("_")[0])
        if row is None:
            raise BatchError(f"job {job_id} does not exist")
        log = row.log or row.output
        return {"JobId": job_id, "WorkDir": row.workdir, "Comment": row.comment, "StdOut": log}

    def _names(self, job_ids: Sequence[str]) -> list[str]:
        """What the commands call these jobs: an array's number looks like a job's. Raises Unreachable."""
        if any(each.partition("_")[0] not in self._known for each in job_ids):
            self._look()
        found = []
        for each in job_ids:
            number = each.partition("_")[0]
            name = self._known[number].name if number in self._known else number
            found += text.command_ids(each, name)
        return found
