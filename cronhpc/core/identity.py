"""Whose a job is: an attempt's, a link's, a piece of a series, or none of ours. Everybody asks here.

A job is ours when a claim, the record of a link or that of a series holds its id *and* its submit time fits: ids begin
anew where a controller lost its state. Scripts and sites change comments and names, so what was recorded decides; the
token in a comment only finds a job that no record knows yet.
"""

from __future__ import annotations

import re

from cronhpc.core.model import CLOCKS_APART, TOKEN, ClaimState, Key, LinkRecord, entry_id, link_names, standing_for
from cronhpc.cron.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cronhpc.core.model import Claim, Entry, Job, World

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
    found: dict[str, tuple[Job, ...]] = {}
    for job in jobs:
        mark = re.search(_MARK, job.own_comment) if job.live else None
        if mark and mark[1] != directory_id and mark[0].endswith(" "):
            found[mark[1]] = (*found.get(mark[1], ()), job)
    return found


@dataclass(frozen=True, slots=True)
class _Record:
    """An id that was written down: the job was submitted at `since` (0: not known) or later, and not after `at`."""

    owner: Owner
    since: int
    at: int


def records(world: World) -> Records:
    """The records of `world`, gathered once for it."""
    if "records" not in world.memo:
        world.memo["records"] = Records(world)
    found: Records = world.memo["records"]
    return found


def jobs_by_id(world: World) -> dict[str, Job]:
    """The row that speaks for each job of ours in the queue."""
    known = records(world)
    ours = {job_id: [job for job in rows if known.of(job) is not None] for job_id, rows in world.jobs().items()}
    return {job_id: one for job_id, rows in ours.items() if (one := standing_for(rows)) is not None}


class Records:
    """The ids of one world's claims, links and series."""

    def __init__(self, world: World) -> None:
        self.directory_id = world.directory_id
        self._entries = world.known()
        self._names = link_names(world.directory_id)
        self._claims = world.claimed()
        self._unrecorded = [c for c in world.claims if c.state is ClaimState.CLAIMED and not c.job_id and not c.job_end]
        self._records: dict[str, list[_Record]] = {}
        self._submitted = {job.id: job.submitted for job in world.listed}
        self._spare_self = world.kept.spare == world.chain.self_id
        for claim in world.claims:
            if claim.job_id:
                self._add(claim.job_id, _of_claim(claim))
        for job_id, link in world.links.items():
            self._add(job_id, _Record(Owner(link=link), link.at, link.at))
        if world.chain.self_id and world.chain.self_id not in world.links:
            own = LinkRecord("spare" if self._spare_self else "link", 0, "")
            self._add(world.chain.self_id, _Record(Owner(link=own), 0, 0))
        for series in world.series:
            if series.newest:
                self._add(series.newest, _Record(Owner(entry_id(series.entry.name)), 0, series.at))

    def _add(self, job_id: str, record: _Record) -> None:
        self._records.setdefault(job_id, []).append(record)

    def of(self, job: Job) -> Owner | None:
        """Whose `job` is; None: no job of ours."""
        known = [record for record in self._records.get(job.id, ()) if self._fits(record, job)]
        claimed = {record.owner.entry for record in known if record.owner.key is not None}
        known = [each for each in known if each.owner.key is not None or each.owner.entry not in claimed]
        if known:
            best = max(known, key=lambda record: (self._says(record.owner, job), record.owner.entry != "", record.at))
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

    def is_run(self, claim: Claim, job: Job) -> bool:
        """Whether `job`, which has the claim's id, is its job."""
        return self.key(job) == claim.key

    def known(self, job: Job) -> bool:
        """Whether a record, and not its token alone, says that `job` is ours."""
        return any(self._fits(record, job) for record in self._records.get(job.id, ()))

    def doubtful(self, jobs: Sequence[Job]) -> Iterator[Job]:
        """Jobs of recorded ids whose comment and submit time do not say so: requeued, or another's.

        And those that a claim without id may have submitted.
        """
        for job in jobs:
            known = self._records.get(job.id, ()) if job.submitted and not job.restarts else ()
            apart = any(record.at and not self._at_its_time(record, job) for record in known)
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
        return owner.key is not None and f"/{owner.key.log_stem(job.id)}" in job.output

    def _says(self, owner: Owner, job: Job) -> bool:
        """Whether the job's own comment says the same."""
        words = job.token_of(self.directory_id)
        if words is None:
            return False
        first = words.partition(" ")[0]
        return first == str(owner.key) if owner.key is not None else bool(owner.link) and first in {"link", "spare"}

    # --- by token

    def by_token(self, job: Job) -> Owner | None:
        """What the comment says, where nothing else about the job speaks against it: comments are copied, too."""
        first, *words = (job.token_of(self.directory_id) or "").split(" ")
        if first in {"link", "spare"}:
            owner = Owner(link=_link(first, words, job))
        elif (key := Key.of(first)) is not None and self._in_time(key, job):
            owner = Owner(key.entry, key)
        elif job.command and (link := re.search(_LINK, job.command)):  # a site has replaced the comment
            if link[2] == self.directory_id:
                return Owner(link=LinkRecord(link[1], job.start or 0, link[3]))
            if job.name not in self._names:
                return None
            return Owner(link=_link("spare" if job.name == self._names[1] else "link", [], job))
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
        if owner.link is None:
            return owner
        first, *words = (job.token_of(self.directory_id) or "").split(" ")
        return Owner(link=_link(first, words, job)) if first in {"link", "spare"} else owner

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


def _link(kind: str, words: Sequence[str], job: Job) -> LinkRecord:
    at = int(words[0]) if words and words[0].isdecimal() else job.start or 0
    return LinkRecord(kind, at, words[1] if len(words) > 1 else "")


def _names(entry: Entry) -> set[str]:
    return {entry.job_name} - {""} or {entry.script.rpartition("/")[2]}


def _is_of(entry: Entry, command: str | None) -> bool:
    """Whether a job's command is the entry's script, or what is submitted in its place."""
    if not command:
        return False
    made = (f"/state/commands/{entry_id(entry.name)}.slurm", "/state/stubs/run.slurm")
    return any(each in command for each in made) or (bool(entry.script) and f"{entry.script} " in f"{command} ")


def is_link(world: World, job: Job) -> bool:
    """Whether it belongs to a chain, of this cron directory or another of the user's."""
    owner = records(world).of(job)
    if owner is not None:
        return owner.link is not None
    words = job.own_comment.partition(TOKEN)[2].partition("/")[2]
    says = words.startswith(("link ", "spare ")) or bool(job.command and re.search(_LINK, job.command))
    return says and (not job.name or job.name.startswith("cronhpc-"))
