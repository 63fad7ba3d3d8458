"""LSF through its own commands: written from IBM's documentation and OpenLava, and not yet seen on LSF itself."""

from __future__ import annotations

import pwd
import time
from typing import TYPE_CHECKING

from cronhpc.batch.commands import ByCommands, chunks, end_of_tasks, meant, option_words, task_numbers
from cronhpc.batch.lsf import text
from cronhpc.batch.port import BatchError, JobFiles, Refused, Unreachable
from cronhpc.core.model import ENDS, FAILURES, Queue, standing_for
from cronhpc.core.model.site import Site
from cronhpc.script.dialect import LSF as DIALECT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cronhpc.batch.port import Submission
    from cronhpc.core.model import Job, JobEnd

_EVENTS = "5"  # files of past events in which an end is looked for


class Lsf(ByCommands):
    """The cluster of `environ` (its LSF_ENVDIR, its PATH), as this user.

    `json`: whether its bjobs prints JSON, `year`: whether its -b takes one; both are found out, and may be read.
    """

    dialect = DIALECT
    signs = text.SIGNS
    json = True
    year = True

    def queue(self) -> Queue:
        """All of this user's jobs in one query, ended ones for about an hour. Raises Unreachable."""
        return Queue(tuple(self._jobs()))

    def _jobs(self, *job_ids: str) -> list[Job]:
        now = _now()
        return [text.job(record, now) for record in self._records(text.FIELDS, *job_ids)]

    def _records(self, fields: Sequence[str], *job_ids: str) -> list[dict[str, str]]:
        ended = self.commands.look(text.list_argv(fields, job_ids, as_json=self.json))
        if self.json and text.without_json(ended):
            self.json = False
            ended = self.commands.look(text.list_argv(fields, job_ids, as_json=False))
        return text.records(ended, fields)

    def live_files(self) -> tuple[JobFiles, ...]:
        """The files that scripts name themselves: a log of ours has its job's number in its name.

        Raises Unreachable.
        """
        return tuple(text.files(record) for record in self._records(text.FILES))

    def submit(self, job: Submission) -> str:
        """The new job's id. Raises Unreachable (the job may exist all the same), Refused, Limited, BatchError."""
        try:
            return self._submit(job, year=self.year)
        except Refused as error:
            if not (self.year and job.begin is not None and text.refuses_year(error.text)):
                raise
            job_id = self._submit(job, year=False)
            self.year = False
            return job_id

    def _submit(self, job: Submission, *, year: bool) -> str:
        zone = {**self.commands.of_runs, **(job.export or {})}.get("TZ")
        argv, script = text.submit_argv(job, year=year), text.script_text(job, zone)
        given = {**(job.export or {}), **dict(DIALECT.set)}
        if text.begins_itself(job):
            given = {**given, "TZ": zone} if zone else {name: given[name] for name in given if name != "TZ"}
        ended = self.commands.submit(argv, given, text.has_id, script)
        job_id = text.submitted(ended)
        if job.begin is not None and text.begins_next_year(ended.said, job.begin):  # its minute passed on the way
            self._change(["bmod", "-bn", job_id], gone_is_fine=False)
        return job_id

    def signal(self, job_ids: Sequence[str], name: str) -> None:
        """Signal running jobs. Raises Unreachable."""
        self._change_all(["bkill", "-s", name], job_ids)

    def move(self, job_id: str, at: int, comment: str | None = None, exclude: str | None = None) -> None:
        """Let a pending job start at `at`, and set its comment in the same call. Raises BatchError."""
        if comment is None:
            comment = next((job.comment for job in self._jobs(_id(job_id))), "")
        marks = ["-Jd", text.description(comment, at)]
        if exclude is not None:
            marks += option_words([f"--exclude={exclude}"], DIALECT) if exclude else ["-Rn"]
        begin = text.moment_text(at, year=self.year)
        self._change(["bmod", "-b", begin, *marks, _id(job_id)], gone_is_fine=False)

    def hold(self, job_ids: Sequence[str], comment: str) -> None:
        """Set the comment of pending tasks, then hold them: a hold of ours is never without its mark.

        One that began meanwhile goes on. Raises BatchError.
        """
        self.comment(job_ids, comment)
        self._change_all(["bstop"], job_ids)
        began = [job.shown for job in self._jobs() if job.state == "SUSPENDED" and meant(job, job_ids)]
        self._change_all(["bresume"], began)

    def comment(self, job_ids: Sequence[str], comment: str) -> None:
        """Set the comment of jobs; the instant that each is to begin at stays beside it. Raises BatchError."""
        begins = {job.id: job.start for job in self._jobs() if job.waits}
        alike: dict[int | None, list[str]] = {}
        for each in job_ids:
            alike.setdefault(begins.get(each.partition("_")[0]), []).append(each)
        for begin, ids in alike.items():
            self._change_all(["bmod", "-Jd", text.description(comment, begin)], ids)

    def job_ends(
        self, job_ids: Sequence[str], since: int, tokens: Mapping[str, str] | None = None
    ) -> Mapping[str, JobEnd]:
        """How jobs submitted after `since` ended, to the second: `queue` knows the minute alone. Raises Unreachable.

        Of an array that list forgets one task after another. Where the history gives no answer, or another one, what
        `queue` shows has to do.
        """
        del tokens  # `since` tells a reused id
        listed: dict[str, list[Job]] = {}
        for job in self._jobs():
            listed.setdefault(job.id, []).append(job)
        asked = [each for each in dict.fromkeys(job_ids) if not any(job.live for job in listed.get(each, ()))]
        ends: dict[str, list[tuple[str, JobEnd | None]]] = {}
        try:
            for past in self._past(asked):
                if past.submitted >= since - _MINUTE:
                    ends.setdefault(past.id, []).append((past.task, past.end))
        except Unreachable:
            if not listed.keys() >= set(asked):
                raise
        found = {job_id: end_of_tasks([(task, end) for task, end in tasks if end]) for job_id, tasks in ends.items()}
        return {
            job_id: end
            for job_id, end in found.items()
            if end and all(end for _, end in ends[job_id]) and _agrees(standing_for(listed.get(job_id, ())), end)
        }

    def _past(self, job_ids: Sequence[str]) -> list[text.Past]:
        found: list[text.Past] = []
        for some in chunks(job_ids):
            found += text.past(self.commands.look(["bhist", "-l", "-n", _EVENTS, *self._names(some)]), _now())
        return found

    def cancelled_by(self, job_id: str, since: int) -> int | None:
        """The user id that ended a job; None: not told."""
        names = [each.ended_by for each in self._past([job_id]) if each.submitted >= since - _MINUTE]
        try:
            return pwd.getpwnam(next(filter(None, names))).pw_uid
        except (KeyError, StopIteration):
            return None

    def site(self) -> Site:
        """Its name and version, and what its commands were found to do. Raises Unreachable."""
        self._jobs()
        cluster, version = text.identity(self.commands.answer(["lsid"]))
        lists = "bjobs prints JSON" if self.json else "bjobs prints no JSON"
        begins = "no -b with a year was refused" if self.year else "-b takes no year"
        return Site(cluster=cluster, version=f"{version}: {lists}; {begins}")

    def cluster_name(self) -> str:
        """As `lsid` says it. Raises Unreachable."""
        return text.identity(self.commands.answer(["lsid"]))[0]

    def describe(self, job_id: str) -> Mapping[str, str]:
        """A job's own facts, by Slurm's names. Raises BatchError."""
        for job in self._jobs(_id(job_id)):
            found = {"JobId": job.id, "JobState": job.state, "JobName": job.name, "Partition": job.partition}
            return {**found, "Comment": job.comment}
        raise BatchError(f"job {job_id} does not exist")

    def _names(self, job_ids: Sequence[str]) -> Sequence[str]:
        return [_id(each) for each in job_ids]


def _agrees(listed: Job | None, end: JobEnd) -> bool:
    """Whether an end is the one that the list shows; of an array tasks may have failed that it has forgotten."""
    same = listed is None or ENDS[listed.state] is end.result
    if listed is None or not listed.tasks:
        return same
    return (same or end.result in FAILURES) and task_numbers(listed.failed) <= task_numbers(end.tasks)


_MINUTE = 60  # seconds: bjobs tells no finer when a job was submitted


def _id(shown: str) -> str:
    """`57_[2-4]` as LSF has it: 57[2-4]. Raises Refused for 0, which means all jobs there."""
    number, _, tasks = shown.partition("_")
    if not number.isdecimal() or not int(number):
        raise Refused(f"{shown!r} is no job's id")
    return f"{number}[{tasks.strip('[]').partition('%')[0]}]" if tasks else number


def _now() -> int:
    return int(time.time())  # noqa: TID251 - bjobs prints no year: ours is the only clock there is
