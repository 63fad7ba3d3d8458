"""Which attempts are live, and when one that the queue does not show any more counts as ended.

The queue's word that a job has ended is believed at once, and so is accounting's. A job that neither shows as ended is
absent: a controller that was frozen, and a `squeue` that repeats an answer of a minute ago (sites cache it), leave out
jobs that live. So absence is believed at a second look, two minutes later; and how the run ended stays open while
accounting, where there is one, gives no answer or is late.
"""

from __future__ import annotations

from enum import StrEnum

from cronhpc.core.identity import records
from cronhpc.core.model import UNLISTED, ClaimState, Job, JobEnd, Result
from cronhpc.cron.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from cronhpc.core.model import Claim, Key, World

TWO_LOOKS = 120  # seconds between two looks that both miss a job; cached answers are at most a minute old
LATE = 3600  # seconds after which accounting that answers, and does not tell the end, is not waited for any longer
SILENT = 86400  # seconds after which accounting that gives no answer is not waited for any longer
_WITH_JOB = frozenset({ClaimState.SUBMITTED, ClaimState.RELEASING, ClaimState.RELEASED})


class Absence(StrEnum):
    """Why an attempt whose job the queue does not show is not finished yet."""

    ONE_LOOK = "the queue does not show it any more: looked at again in two minutes"
    GONE = "it has ended; how is not known: the queue does not show it any more"
    ALIVE = "the queue does not show it any more, but accounting says that it has not ended"
    NO_ANSWER = "it has ended; how is not known yet, as accounting gives no answer"
    NO_WORD = "it has ended; how is not known yet, as accounting does not tell it so far"

    @property
    def may_live(self) -> bool:
        """Whether the job may be there all the same: then no other run takes its place."""
        return self in {Absence.ONE_LOOK, Absence.ALIVE}


@dataclass(frozen=True, slots=True)
class Lives:
    """Which attempts may be live, looked up once."""

    by_entry: Mapping[str, tuple[Claim, ...]]  # entry id -> claims
    absent: Mapping[str, Absence]  # job id -> why it is not finished

    @classmethod
    def of(cls, world: World, but: Container[Key] = ()) -> Lives:
        """Where the queue is unknown, every attempt that is not finished may be live. `but`: those are not."""
        absent = absences(world)
        shown = world.jobs()
        found: dict[str, list[Claim]] = {}
        for claim in world.claims:
            if world.queue is None:
                lives = claim.job_end is None and bool(claim.job_id)
            elif claim.state not in _WITH_JOB:
                lives = False
            else:
                missing = absent.get(claim.job_id or "")
                rows = shown.get(claim.job_id or "", ())
                lives = claim.fresh or (missing is not None and missing.may_live)
                lives = lives or any(job.live and records(world).is_run(claim, job) for job in rows)
            if lives and claim.key not in but:
                found.setdefault(claim.key.entry, []).append(claim)
        return cls({entry: tuple(claims) for entry, claims in found.items()}, absent)

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
        known = claim.job_id in (world.job_ends or ()) or claim.job_id in world.kept.kill_records
        entry = world.known().get(claim.key.entry)
        name = entry.job_name if entry is not None else ""
        if claim.state in _WITH_JOB and not known and (job := _unlisted(world, claim.job_id, name, at)):
            yield job
    for job_id, link in world.links.items() if world.queue is not None else ():
        if link.slot > world.now and (job := _unlisted(world, job_id, "", link.at)):
            yield job


def _unlisted(world: World, job_id: str | None, name: str, at: int) -> Job | None:
    if not job_id or job_id in world.jobs() or not 0 <= world.now - at < TWO_LOOKS:
        return None
    return Job(job_id, UNLISTED, name=name, submitted=at)


def runs(world: World, claim: Claim) -> bool:
    """Whether the queue shows that the attempt's job has begun and not ended."""
    rows = world.jobs().get(claim.job_id or "", ())
    return any(job.live and not job.waits and records(world).is_run(claim, job) for job in rows)


def absences(world: World) -> dict[str, Absence]:
    """By job id, why attempts whose job is absent are not finished yet; those that may be are not among them."""
    found = ((claim.job_id or "", _absence(world, claim)) for claim in _absent(world))
    return {job_id: why for job_id, why in found if why is not None}


def absences_at_a_look(world: World) -> dict[str, Absence]:
    """The same for who looks and decides nothing, and after whom perhaps no tick comes: one look is all there is.

    No list of jobs is so old that it could lack a job of before `TWO_LOOKS` which has not ended.
    """
    submitted = {claim.job_id: claim.recorded or claim.at for claim in world.claims}
    old = world.now - TWO_LOOKS
    return {
        job_id: Absence.GONE if why is Absence.ONE_LOOK and submitted[job_id] <= old else why
        for job_id, why in absences(world).items()
    }


def missed_since(world: World) -> dict[str, int]:
    """By job id, the first look that missed it: what the next tick is to know. Nothing new where nobody was asked."""
    if world.queue is None or world.job_ends is None:
        return dict(world.kept.absent)
    return {claim.job_id or "": _since(world, claim) for claim in _absent(world)}


def unknown(world: World, claim: Claim) -> JobEnd:
    """The end of an absent job that is not waited for any longer."""
    known = world.accounting
    if claim.job_id in known.alive:
        why = "accounting says that it has not ended, but the controller does not know it"
    elif known.trouble:
        why = f"accounting has given no answer for {SILENT // 3600} hours ({known.trouble})"
    elif known.exists:
        why = "accounting does not tell how"
    else:
        why = "there is no accounting to ask"
    return JobEnd(Result.UNKNOWN, detail=f"it is in no queue any more, and {why}")


def _absent(world: World) -> Iterator[Claim]:
    """Unfinished attempts whose job no row of the queue shows, and of which nobody says that it has ended.

    Where another job has its id by now, the controller has forgotten it: that needs no second look.
    """
    if world.queue is None:
        return
    shown = world.jobs()
    for claim in world.claims:
        if not claim.job_id or claim.state not in _WITH_JOB or claim.damaged or claim.fresh:
            continue
        ended = world.job_ends is not None and claim.job_id in world.job_ends
        if not ended and not any(records(world).is_run(claim, job) for job in shown.get(claim.job_id, ())):
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
    if world.accounting.trouble:
        return Absence.NO_ANSWER if age < SILENT else None
    return Absence.NO_WORD if world.accounting.exists and age < LATE else None


def _cancelled(world: World, claim: Claim) -> bool:
    """Whether a switch has cancelled its job, which was listed then, and waited: no batch system need tell that end."""
    record = world.kept.kill_records.get(claim.job_id or "")
    return record is not None and record.waited and record.at < _since(world, claim)


def _since(world: World, claim: Claim) -> int:
    return min(world.kept.absent.get(claim.job_id or "", world.now), world.now)
