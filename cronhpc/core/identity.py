"""Whose a job is (an attempt's, a link's, a piece of a series, or none of ours), and which of them live.

Everybody asks here.

A job is ours when a claim, the record of a link or that of a series holds its id *and* its submit time fits: ids begin
anew where a controller lost its state. Scripts and sites change comments and names, so what was recorded decides; the
token in a comment only finds a job that no record knows yet.
"""

from __future__ import annotations

import re
from enum import StrEnum

from cronhpc.core.model import (
    CLOCKS_APART,
    LINK_WORDS,
    TOKEN,
    UNLISTED,
    ClaimState,
    Done,
    Job,
    JobEnd,
    Key,
    LinkKind,
    LinkRecord,
    Obstacle,
    Result,
    Submit,
    SubmitLink,
    Withdraw,
    entry_id,
    link_names,
    standing_for,
    task_ranges,
)
from cronhpc.cron.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from cronhpc.core.model import Claim, Entry, Outcome, World

_ROUNDED = 2  # seconds that an id may have been noted too early: its clock is read in whole seconds, and so is Slurm's
_CLOSE = 60  # seconds that the clocks of a site which minds them differ by
_LINK = r"(?s)(?:^|/)(?:slurm_script|scheduler\.slurm)(?: \d+ (link|spare)\b.*?(?: (\w+)/(\w+))?)?$"


@dataclass(frozen=True, slots=True)
class Owner:
    """What a job of ours is. Of `key`, `link` one is set; of a series' first piece, which has no claim, neither."""

    entry: str = ""  # the entry's id; "" for a link
    key: Key | None = None
    link: LinkRecord | None = None


_MARK = rf"{TOKEN}(\w+)/(?:(?:link|spare) )?"


def other_marks(jobs: Iterable[Job], directory_id: str) -> dict[str, tuple[Job, ...]]:
    """Live links of the user's other cron directories, by the id that marks those; `directory_id`: this one's."""
    chains: dict[str, tuple[Job, ...]] = {}
    for job in jobs:
        mark = re.search(_MARK, job.own_comment) if job.live else None
        if mark and mark[1] != directory_id and mark[0].endswith(" "):
            chains[mark[1]] = (*chains.get(mark[1], ()), job)
    return chains


@dataclass(frozen=True, slots=True)
class _Record:
    """An id that was written down: the job was submitted at `since` (0: not known) or later, and not after `at`."""

    owner: Owner
    since: int
    at: int


def records(world: World) -> Records:
    """The records of `world`, gathered once for it."""
    return world.once(Records)


def jobs_by_id(world: World) -> dict[str, Job]:
    """The row that speaks for each job of ours in the queue."""
    owners = records(world)
    ours = {job_id: [job for job in rows if owners.of(job) is not None] for job_id, rows in world.jobs().items()}
    return {job_id: row for job_id, rows in ours.items() if (row := standing_for(rows)) is not None}


class Records:
    """The ids of one world's claims, links and series."""

    def __init__(self, world: World) -> None:
        self.directory_id = world.directory_id
        self._entries = world.entries_by_id()
        self._names = link_names(world.directory_id)
        self._claims = world.claimed()
        self._rows = world.jobs()
        self._unrecorded = [c for c in world.claims if c.state is ClaimState.CLAIMED and not c.job_id and not c.job_end]
        self._records: dict[str, list[_Record]] = {}
        self._submitted = {job.id: job.submitted for job in world.listed}
        for claim in world.claims:
            if claim.job_id:
                self._add(claim.job_id, _of_claim(claim))
        for job_id, link in world.links.items():
            self._add(job_id, _Record(Owner(link=link), link.at, link.at))
        if world.call.link and world.call.link not in world.links:
            kind = LinkKind.SPARE if world.kept.spare == world.call.link else LinkKind.SUCCESSOR
            self._add(world.call.link, _Record(Owner(link=LinkRecord(kind, 0, "")), 0, 0))
        for series in world.series:
            if series.newest:
                self._add(series.newest, _Record(Owner(entry_id(series.entry.name)), 0, series.at))

    def _add(self, job_id: str, record: _Record) -> None:
        self._records.setdefault(job_id, []).append(record)

    def of(self, job: Job) -> Owner | None:
        """Whose `job` is; None: no job of ours."""
        matching = [record for record in self._records.get(job.id, ()) if self._fits(record, job)]
        claimed = {record.owner.entry for record in matching if record.owner.key is not None}
        matching = [each for each in matching if each.owner.key is not None or each.owner.entry not in claimed]
        if matching:
            best = max(
                matching, key=lambda record: (self._says(record.owner, job), record.owner.entry != "", record.at)
            )
            return self._with_words(best.owner, job)
        return self.by_token(job) or self._by_script(job)

    def key(self, job: Job) -> Key | None:
        """The attempt that `job` was submitted for."""
        owner = self.of(job)
        return owner.key if owner is not None else None

    def link(self, job: Job) -> LinkRecord | None:
        """What `job` is in the chain; None: no link."""
        owner = self.of(job)
        return owner.link if owner is not None else None

    def rows_of(self, claim: Claim) -> Iterator[Job]:
        """The rows of the queue that are its job: those of its id, unless that is another's by now."""
        return (job for job in self._rows.get(claim.job_id or "", ()) if self.key(job) == claim.key)

    def doubtful(self, jobs: Sequence[Job]) -> Iterator[Job]:
        """Jobs of recorded ids whose comment and submit time do not say so: requeued, or another's.

        And those that a claim without id may have submitted.
        """
        for job in jobs:
            recorded = self._records.get(job.id, ()) if job.submitted and not job.restarts else ()
            apart = any(record.at and not self._at_its_time(record, job) for record in recorded)
            lost = self._unrecorded and self.of(job) is None and any(self._may_be(c, job) for c in self._unrecorded)
            if apart or lost:
                yield job

    # --- by record

    def _fits(self, record: _Record, job: Job) -> bool:
        """The comment or the log of the run says so, or its submit time; where clocks may be apart, its script."""
        if self._says(record.owner, job) or self._has_its_log(record.owner, job):
            return True
        if job.submitted is not None and record.at:
            if job.submitted < record.since - CLOCKS_APART:
                return False
            if self._soon(record, job) or job.restarts:
                return True
            if job.submitted > record.at + CLOCKS_APART:
                return False
        entry = self._entries.get(record.owner.entry)
        if TOKEN in job.own_comment:
            return False
        if entry is not None and job.command is not None:
            return _is_of(entry, job.command) and not (job.output and entry.output)  # a name is easily the same
        return self._alike(record.owner, job)

    def _at_its_time(self, record: _Record, job: Job) -> bool:
        in_time = (job.submitted or 0) >= record.since - CLOCKS_APART and self._soon(record, job)
        return in_time or self._says(record.owner, job)

    def _soon(self, record: _Record, job: Job) -> bool:
        """Submitted before its id was noted; within what rounding makes, a run has to look like ours, too."""
        late = (job.submitted or 0) - record.at
        certain = late < -_ROUNDED or record.owner.link is not None or job.command is None
        return late <= _ROUNDED and (certain or self._alike(record.owner, job))

    def _has_its_log(self, owner: Owner, job: Job) -> bool:
        return owner.key is not None and f"/log/{owner.key.entry}/{owner.key.log_stem(job.id)}" in job.output

    def _says(self, owner: Owner, job: Job) -> bool:
        """Whether the job's own comment says the same."""
        first = self._token(job)[0]
        return first == str(owner.key) if owner.key is not None else bool(owner.link) and first in LINK_WORDS

    # --- by token

    def _token(self, job: Job) -> list[str]:
        """The words of the comment that are ours; a single empty one where none are."""
        return (job.token_of(self.directory_id) or "").split(" ")

    def by_token(self, job: Job) -> Owner | None:
        """What the comment says, where nothing else about the job speaks against it: comments are copied, too."""
        first, *words = self._token(job)
        if first in LINK_WORDS:
            owner = Owner(link=_link(LINK_WORDS[first], words, job))
        elif (key := Key.of(first)) is not None and self._in_time(key, job):
            owner = Owner(key.entry, key)
        elif job.command and (link := re.search(_LINK, job.command)):  # a site has replaced the comment
            if link[2] == self.directory_id:
                return Owner(link=LinkRecord(LINK_WORDS[link[1]], job.start or 0, link[3]))
            if job.name not in self._names:
                return None
            kind = LinkKind.SPARE if job.name == self._names[1] else LinkKind.SUCCESSOR
            return Owner(link=_link(kind, [], job))
        else:
            return None
        return owner if self._alike(owner, job) else None

    def _by_script(self, job: Job) -> Owner | None:
        """The job of a claim without id, where neither sbatch nor the comment tells: its log has the attempt's slot.

        Of a script that names its own log, script, name and time have to do: it must not run twice.
        """
        for claim in self._unrecorded:
            key, entry = claim.key, self._entries.get(claim.key.entry)
            if entry is None or not self._may_be(claim, job):
                continue
            named = self._has_its_log(Owner(key.entry, key), job)
            if named if entry.output else job.name in _names(entry) and (job.submitted or 0) >= claim.at - _CLOSE:
                return Owner(key.entry, key)
        return None

    def _may_be(self, claim: Claim, job: Job) -> bool:
        entry = self._entries.get(claim.key.entry)
        since = claim.at - CLOCKS_APART
        return entry is not None and (job.submitted or 0) >= since and _is_of(entry, job.command)

    def _in_time(self, key: Key, job: Job) -> bool:
        """A second submission of an attempt comes about when the recorded one does, by the controller's clock."""
        claim = self._claims.get(key)
        recorded = self._submitted.get(claim.job_id or "") if claim is not None else None
        return recorded is None or job.submitted is None or abs(job.submitted - recorded) <= CLOCKS_APART

    def _with_words(self, owner: Owner, job: Job) -> Owner:
        """A link's comment is newer than its record where a tick has moved it."""
        first, *words = self._token(job)
        return Owner(link=_link(LINK_WORDS[first], words, job)) if owner.link and first in LINK_WORDS else owner

    def _alike(self, owner: Owner, job: Job) -> bool:
        """Whether the job's log, script or name is what we gave it; yes where nothing of that is known."""
        if owner.link is not None:
            return job.name in {"", *self._names} or bool(job.command and re.search(_LINK, job.command))
        entry = self._entries.get(owner.entry)
        if not job.name and not job.command:
            return job.command is None
        if entry is None:
            return owner.entry in job.name or owner.entry in (job.command or "")
        return job.name in _names(entry) or _is_of(entry, job.command)


def _of_claim(claim: Claim) -> _Record:
    """What a finished claim keeps is when it was finished."""
    since = 0 if claim.state is ClaimState.FINISHED else claim.at
    return _Record(Owner(claim.key.entry, claim.key), since, max(claim.recorded or 0, claim.at))


def _link(kind: LinkKind, words: Sequence[str], job: Job) -> LinkRecord:
    at = int(words[0]) if words and words[0].isdecimal() else job.start or 0
    return LinkRecord(kind, at, words[1] if len(words) > 1 else "")


def _names(entry: Entry) -> set[str]:
    return {entry.job_name} - {""} or {entry.script.rpartition("/")[2]}


def _is_of(entry: Entry, command: str | None) -> bool:
    """Whether a job's command is the entry's script, or what is submitted in its place.

    A wrapper is every entry's: the script behind it says whose run it is, where arguments are told.
    """
    if not command or command.endswith("/state/stubs/run.slurm"):
        return bool(command)
    generated = f"/state/commands/{entry_id(entry.name)}.slurm"
    return generated in command or (bool(entry.script) and f"{entry.script} " in f"{command} ")


def is_link(world: World, job: Job) -> bool:
    """Whether it belongs to a chain, of this cron directory or another of the user's."""
    owner = records(world).of(job)
    if owner is not None:
        return owner.link is not None
    words = job.own_comment.partition(TOKEN)[2].partition("/")[2]
    says = words.partition(" ")[0] in LINK_WORDS or bool(job.command and re.search(_LINK, job.command))
    return says and (not job.name or job.name.startswith("cronhpc-"))


# --- which attempts are live -----------------------------------------------------------------------------------------
#
# The queue's word that a job has ended is believed at once, and so is accounting's. A job that neither shows as ended
# is absent: a controller that was frozen, and a `squeue` that repeats an answer of a minute ago (sites cache it),
# leave out jobs that live. So absence is believed at a second look, two minutes later; and how the run ended stays
# open while accounting, where there is one, gives no answer or is late.

TWO_LOOKS = 120  # seconds between two looks that both miss a job; cached answers are at most a minute old
LATE = 3600  # seconds after which accounting that answers, and does not tell the end, is not waited for any longer
SILENT = 86400  # seconds after which accounting that gives no answer is not waited for any longer
_WITH_JOB = frozenset({ClaimState.SUBMITTED, ClaimState.RELEASING, ClaimState.RELEASED})


class Absence(StrEnum):
    """Why an attempt whose job the queue does not show is not finished yet."""

    JUST_SUBMITTED = "submitted just now: the queue may not show it yet"
    ONE_LOOK = "the queue does not show it any more: looked at again in two minutes"
    GONE = "it has ended; how is not known: the queue does not show it any more"
    ALIVE = "the queue does not show it any more, but accounting says that it has not ended"
    NO_ANSWER = "it has ended; how is not known yet, as accounting gives no answer"
    NO_WORD = "it has ended; how is not known yet, as accounting does not tell it so far"

    @property
    def may_live(self) -> bool:
        """Whether the job may be there all the same: then no other run takes its place."""
        return self in {Absence.JUST_SUBMITTED, Absence.ONE_LOOK, Absence.ALIVE}


@dataclass(frozen=True, slots=True)
class Lives:
    """Which attempts may be live, looked up once."""

    by_entry: Mapping[str, tuple[Claim, ...]]  # entry id -> claims
    absent: Mapping[str, Absence]  # job id -> why it is not finished

    @classmethod
    def of(cls, world: World, but: Container[Key] = ()) -> Lives:
        """Where the queue is unknown, every attempt that is not finished may be live. `but`: those are not."""
        absent = absences(world)
        by_entry: dict[str, list[Claim]] = {}
        for claim in world.claims:
            if world.queue is None:
                lives = claim.job_end is None and bool(claim.job_id)
            else:
                why = absent.get(claim.job_id or "")
                lives = claim.state in _WITH_JOB and (
                    claim.fresh
                    or (why is not None and why.may_live)
                    or any(job.live for job in records(world).rows_of(claim))
                )
            if lives and claim.key not in but:
                by_entry.setdefault(claim.key.entry, []).append(claim)
        return cls({entry: tuple(claims) for entry, claims in by_entry.items()}, absent)

    def of_entry(self, entry: str) -> tuple[Claim, ...]:
        """Attempts of the entry (by id) that may be live."""
        return self.by_entry.get(entry, ())


def unlisted(world: World) -> Iterator[Job]:
    """Runs, and links that have not begun, that were submitted just now and that the queue does not show.

    A cached answer leaves them out: they are there, for all that is known, and are ended by their ids, once. A job that
    ended as fast loses nothing by that.
    """
    for claim in world.claims if world.queue is not None else ():
        at = claim.recorded or claim.at
        ended = claim.job_id in (world.job_ends or ()) or claim.job_id in world.kept.kill_records
        entry = world.entries_by_id().get(claim.key.entry)
        name = entry.job_name if entry is not None else ""
        if claim.state in _WITH_JOB and not ended and (job := _unlisted(world, claim.job_id, name, at)):
            yield job
    for job_id, link in world.links.items() if world.queue is not None else ():
        if link.slot > world.now and (job := _unlisted(world, job_id, "", link.at)):
            yield job


def is_queued(world: World, claim: Claim) -> bool:
    """Whether its job is in the queue, as that shows, or was submitted too lately for that: else it may have begun."""
    return claim.job_id in world.jobs() or any(job.id == claim.job_id for job in unlisted(world))


def queued(world: World) -> int:
    """How many jobs of this user are in the queue as a limit counts them, with those that it does not show yet."""
    listed = {(job.id, job.tasks) for job in world.listed if job.live}
    claims = {claim.job_id: claim for claim in world.claims}
    hidden = (claims.get(job.id) for job in unlisted(world))
    sizes = [_counted(world, tasks) for _, tasks in listed]
    return sum([*sizes, *(counted(world, claim) if claim else 1 for claim in hidden)])


def counted(world: World, each: Claim | Submit | Withdraw) -> int:
    """How many jobs of an attempt a limit counts: of an array its tasks, all or those that are asked for."""
    entry = world.entries_by_id().get(each.key.entry)
    tasks = "" if isinstance(each, Withdraw) else each.tasks
    return _counted(world, tasks or (str(entry.array) if entry is not None else ""))


def _counted(world: World, tasks: str) -> int:
    return 1 if world.dialect.arrays_count_once else max(1, sum(map(len, task_ranges(tasks))))


def job_limit(world: World, outcomes: Sequence[Outcome]) -> int:
    """Of this user's jobs in the queue, as what came of a tick shows; 0: none is known.

    Where more fit than that, it was raised, or others leave more of it: twice as many are tried, until one is refused.
    """
    met, before = any(outcome.obstacle is Obstacle.SUBMIT_LIMIT for outcome in outcomes), world.kept.job_limit
    jobs = queued(world) if met or before else 0
    for outcome in outcomes:
        decision, submitted = outcome.decision, bool(outcome.job_id) or (met and outcome.obstacle is Obstacle.NO_ANSWER)
        if isinstance(decision, Submit) and submitted:
            jobs += counted(world, decision)
        elif isinstance(decision, Withdraw) and outcome.done is Done.OK and not decision.gone:
            jobs -= counted(world, decision)
        else:
            jobs += isinstance(decision, SubmitLink) and submitted
    return max(jobs, 1) if met else 2 * jobs if 0 < before < jobs else before


def frees(world: World, outcomes: Iterable[Outcome]) -> bool:
    """Whether a job that is taken back may have its place still: its slot is to have that again."""
    taken_back = [claim.job_id or "" for claim in world.claims if claim.taken_back]
    absent = absences(world) if taken_back else {}
    passing = (each for each in outcomes if each.done is Done.PASSING or each.obstacle is Obstacle.SHOWN)
    return any(isinstance(each.decision, Withdraw) for each in passing) or any(
        job_id in absent and absent[job_id].may_live for job_id in taken_back
    )


def _unlisted(world: World, job_id: str | None, name: str, at: int) -> Job | None:
    if not job_id or job_id in world.jobs() or not 0 <= world.now - at < TWO_LOOKS:
        return None
    return Job(job_id, UNLISTED, name=name, submitted=at)


def runs(world: World, claim: Claim) -> bool:
    """Whether the queue shows that the attempt's job has begun and not ended."""
    return any(job.live and not job.waits for job in records(world).rows_of(claim))


def absences(world: World) -> dict[str, Absence]:
    """By job id, why attempts whose job is absent are not finished yet; those that may be are not among them."""
    reasons = ((claim.job_id or "", _absence(world, claim)) for claim in _absent(world))
    return {job_id: why for job_id, why in reasons if why is not None}


def absences_at_a_look(world: World) -> dict[str, Absence]:
    """The same for who looks and decides nothing, and after whom perhaps no tick comes: one look is all there is.

    No list of jobs is so old that it could lack a job of before `TWO_LOOKS` which has not ended.
    """
    submitted = {claim.job_id: claim.recorded or claim.at for claim in world.claims}
    new = {job_id for job_id, at in submitted.items() if at > world.now - TWO_LOOKS}
    one_look = {job_id: Absence.JUST_SUBMITTED if job_id in new else Absence.GONE for job_id in submitted}
    return {job: one_look[job] if why is Absence.ONE_LOOK else why for job, why in absences(world).items()}


def missed_since(world: World) -> dict[str, int]:
    """By job id, the first look that missed it: what the next tick is to know. Nothing new where nobody was asked."""
    if world.queue is None or world.job_ends is None:
        return dict(world.kept.absent)
    return {claim.job_id or "": _since(world, claim) for claim in _absent(world)}


def unknown(world: World, claim: Claim) -> JobEnd:
    """The end of an absent job that is not waited for any longer."""
    accounting = world.accounting
    if claim.job_id in accounting.alive:
        why = "accounting says that it has not ended, but the controller does not know it"
    elif accounting.trouble:
        why = f"accounting has given no answer for {SILENT // 3600} hours ({accounting.trouble})"
    elif accounting.exists:
        why = "accounting does not tell how"
    else:
        why = "there is no accounting to ask"
    return JobEnd(Result.UNKNOWN, detail=f"it is in no queue any more, and {why}")


def _absent(world: World) -> Iterator[Claim]:
    """Unfinished attempts whose job no row of the queue shows, and of which nobody says that it has ended.

    Where another job has its id by now, the controller has forgotten it: that needs no second look.
    """
    for claim in world.claims if world.queue is not None else ():
        if not claim.job_id or claim.state not in _WITH_JOB or claim.damaged or claim.fresh:
            continue
        ended = world.job_ends is not None and claim.job_id in world.job_ends
        if not ended and not any(records(world).rows_of(claim)):
            yield claim


def _absence(world: World, claim: Claim) -> Absence | None:
    age = world.now - _since(world, claim)
    replaced = claim.job_id in world.jobs()
    if claim.job_id in world.accounting.alive and claim.state is not ClaimState.SUBMITTED and age < LATE:
        return Absence.ALIVE
    if (age < TWO_LOOKS and not replaced and not _cancelled(world, claim)) or world.job_ends is None:
        return Absence.ONE_LOOK
    if claim.state is ClaimState.SUBMITTED or claim.job_id in world.accounting.alive:
        return None  # a held job cannot have run; one that only accounting knows was lost by the controller
    if claim.taken_back and claim.key.slot > world.now:
        return None  # nor can one that is gone before its time has come
    if world.accounting.trouble:
        return Absence.NO_ANSWER if age < SILENT else None
    return Absence.NO_WORD if world.accounting.exists and age < LATE else None


def _cancelled(world: World, claim: Claim) -> bool:
    """Whether a switch has cancelled its job, which was listed then, and waited: no batch system need tell that end."""
    record = world.kept.kill_records.get(claim.job_id or "")
    return record is not None and record.waited and record.at < _since(world, claim)


def _since(world: World, claim: Claim) -> int:
    return min(world.kept.absent.get(claim.job_id or "", world.now), world.now)
