"""The second half of the two phases: one release for all whose ids are on disk, and what stands against it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cronhpc.batch.port import BatchError, Unreachable
from cronhpc.core.model import ClaimState, Done, Ending, Release, Result, cut_comment, slot_text
from cronhpc.core.stop import switch_on

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cronhpc.act import Actor
    from cronhpc.core.model import Key, Submit, World


@dataclass(slots=True)
class Recorded:
    """A held job whose id is on disk: it waits for the one release."""

    decision: Submit | Release
    key: Key
    job_id: str
    state: ClaimState


def release_all(actor: Actor, rows: Sequence[Release]) -> None:
    """Attempts that an earlier tick left recorded, or whose release it may have sent."""
    states = {claim.key: claim.state for claim in actor.world.claims}
    for row in rows:
        state = states.get(row.key, ClaimState.SUBMITTED)
        if state is ClaimState.CLAIMED:  # just adopted
            state = ClaimState.SUBMITTED
        if not row.marked:
            actor.recorded.append(Recorded(row, row.key, row.job_id, state))
            continue
        try:
            if state is ClaimState.SUBMITTED:
                actor.claims.step(row.key, ClaimState.RELEASING)
            actor.claims.step(row.key, ClaimState.RELEASED)
        except OSError as error:
            actor.note(row, Done.PASSING, f"it was released already; {disk_words(error)}", row.job_id)
        else:
            actor.note(row, Done.OK, "it was released already", row.job_id)


def release_recorded(actor: Actor) -> None:
    """One release for all whose ids are on disk, after a last look at the disk and at the switches."""
    recorded, actor.recorded = actor.recorded, []
    _look_at_submissions(actor, recorded)
    planted = {each.key: found for each in recorded if (found := _planted(actor, each))}
    mine: list[Recorded] = []
    sending: list[Recorded] = []
    try:  # looked at after the logs: a log of a job that another tick has released since is no planted one
        gone = actor.claims.superseded(each.key for each in recorded if each.state is ClaimState.SUBMITTED)
        mine = [each for each in recorded if not _is_gone(actor, each, gone)]
        mine = [each for each in mine if not _begun(actor, each, planted)]
        ready = _not_stopped(actor, [each for each in mine if not _led_astray(actor, each, planted)])
        sending = [each for each in ready if _releasing(actor, each)]
        if sending:
            actor.claims.sync()
    except OSError as error:
        _unreleased(actor, mine or recorded, f"is held: {disk_words(error)}")
    else:
        _send(actor, sending)


_LOOK_AGAIN = 86400  # seconds
_EARLY = 60  # seconds


def _look_at_submissions(actor: Actor, recorded: Sequence[Recorded]) -> None:
    """Once a day: does this site keep --hold? Where it does not, a run may begin before it is written down.

    And does it keep --begin, which a run submitted ahead of its slot needs?
    """
    ids = {each.job_id for each in recorded if each.state is ClaimState.SUBMITTED}
    begins = {each.job_id: begin for each in recorded if (begin := _begin(actor, each))}
    site, now = actor.site, actor.world.now
    old = [not 0 <= now - site.changes.looked_at(kind) < _LOOK_AGAIN for kind in ("hold", "begin")]
    if not ids or not (old[0] or (old[1] and begins)) or actor.unreachable or site.batch.name == "local":
        return
    try:
        jobs = [job for job in actor.site.batch.queue().jobs if job.id in ids]
    except BatchError as error:
        actor.failed(error)
        return
    if jobs:
        site.changes.note("hold", next((job.id for job in jobs if not job.held), ""), now)
    if asked := [job for job in jobs if job.id in begins]:
        early = [job.id for job in asked if job.held and (job.start or 0) < begins[job.id] - _EARLY]
        site.changes.note("begin", early[0] if early else "", now)
        actor.drops_begin = early[0] if early else actor.drops_begin


def _begin(actor: Actor, each: Recorded) -> int:
    """When it is to begin where that is later than now; 0: at once."""
    begin = each.key.slot if isinstance(each.decision, Release) else each.decision.begin or 0
    return begin if begin > actor.world.now else 0


def _is_gone(actor: Actor, each: Recorded, gone: set[Key]) -> bool:
    """Another tick has gone further, while this one stood still. Raises OSError."""
    if each.key not in gone:
        return False
    if actor.claims.knows(each.key, each.job_id):
        why = f"another tick has released job {each.job_id}"
    else:
        cancel_held(actor, each.job_id)
        why = f"it was settled meanwhile; job {each.job_id} is cancelled, still held"
    actor.note(each.decision, Done.REFUSED, why, each.job_id)
    return True


def _begun(actor: Actor, each: Recorded, planted: dict[Key, Path]) -> bool:
    """Its user has released it before us, so that its log is its own. Raises OSError."""
    if each.key not in planted:
        return False
    try:
        jobs = actor.site.batch.queue().jobs
    except BatchError as error:
        actor.failed(error)
        return False
    if all(job.state == "PENDING" for job in jobs if job.id == each.job_id):
        return False
    for step in (ClaimState.RELEASING, ClaimState.RELEASED):
        actor.claims.step(each.key, step)
    actor.note(each.decision, Done.OK, "somebody else has released it", each.job_id)
    return True


def _led_astray(actor: Actor, each: Recorded, planted: dict[Key, Path]) -> bool:
    """What stands where the log is to be made was planted: Slurm would follow a link, and cut off its target."""
    found = planted.get(each.key)
    if found is None:
        return False
    why = f"{found} was there before the run: somebody put it there. Remove it: rm {found}"
    if cancel_held(actor, each.job_id):
        entry = actor.world.known().get(each.key.entry)
        settle(actor, each.key, entry.name if entry else "", Ending(Result.REFUSED, detail=why), each.job_id)
        actor.note(each.decision, Done.FAILED, why, each.job_id)
    else:
        actor.note(each.decision, Done.REFUSED, f"{why}. Job {each.job_id} stays unreleased", each.job_id)
    return True


def _planted(actor: Actor, each: Recorded) -> Path | None:
    """A file under the name of a log of a job that has not begun; a script that names its own log minds it itself."""
    entry = actor.world.known().get(each.key.entry)
    if each.state is not ClaimState.SUBMITTED or (entry is not None and not entry.output):
        return None
    folder = actor.site.paths.log / each.key.entry
    begins = f"{slot_text(each.key.slot)}-{each.job_id}"
    if os.path.lexists(folder / f"{begins}.out"):
        return folder / f"{begins}.out"
    return next(folder.glob(f"{begins}_*"), None) if entry is None or entry.array else None


def _releasing(actor: Actor, each: Recorded) -> bool:
    """Note that the release may be sent; False where another has gone further. Raises OSError."""
    if each.state is ClaimState.SUBMITTED and not actor.claims.step(each.key, ClaimState.RELEASING):
        why = "another tick has released it"
    elif actor.claims.job_id(each.key) != each.job_id:
        why = f"another job than {each.job_id} is recorded for it"
    else:
        return True
    actor.note(each.decision, Done.REFUSED, why)
    return False


def _unreleased(actor: Actor, rows: Sequence[Recorded], why: str) -> None:
    noted = {id(outcome.decision) for outcome in actor.outcomes}
    for each in rows:
        if id(each.decision) not in noted:
            actor.note(each.decision, Done.PASSING, f"job {each.job_id} {why}", each.job_id)


def _send(actor: Actor, sending: list[Recorded]) -> None:
    held_on_purpose = {name for name, entry in actor.world.known().items() if entry.holds_itself}
    ids = [each.job_id for each in sending if each.key.entry not in held_on_purpose]
    if ids and actor.unreachable and not actor.has_time_for_one:
        _unreleased(actor, sending, f"is held: {actor.unreachable}")
        return
    _give_own_comments(actor, sending)
    try:
        for each in sending if actor.drops_begin else ():
            if begin := _begin(actor, each):
                actor.site.batch.move(each.job_id, begin)
        still, why = _released(actor, ids)
    except BatchError as error:
        actor.failed(error)
        _unreleased(actor, sending, f"is held; its release failed: {error.text}")
        return
    _unreleased(actor, [each for each in sending if each.job_id in still], f"is held; its release failed: {why}")
    for each in sending:
        if each.job_id in still:
            continue
        with suppress(OSError):  # the next tick sees that it is released, and marks it
            actor.claims.step(each.key, ClaimState.RELEASED)
        actor.note(each.decision, Done.OK, job_id=each.job_id)


def _give_own_comments(actor: Actor, sending: Sequence[Recorded]) -> None:
    """A script's own comment stands alone from now on, as programs of the site read it: the job's id is recorded."""
    known = actor.world.known()
    alike: dict[str, list[str]] = {}
    for each in sending:
        if each.key.entry in known and known[each.key.entry].comment:
            alike.setdefault(known[each.key.entry].comment, []).append(each.job_id)
    for comment, ids in alike.items():
        with suppress(BatchError):  # it stands behind the token then
            actor.site.batch.comment(ids, cut_comment(" ".join(comment.split("\n"))))


def _released(actor: Actor, ids: Sequence[str]) -> tuple[frozenset[str], str]:
    """Those that are held all the same, and why: for one that can never start scontrol reports the call as failed."""
    try:
        if ids:
            actor.site.batch.release(ids)
    except Unreachable:
        raise
    except BatchError as error:
        jobs = actor.site.batch.queue().jobs
        return frozenset(job.id for job in jobs if job.id in ids and job.live and job.held_by_user), error.text
    return frozenset(), ""


def _not_stopped(actor: Actor, recorded: list[Recorded]) -> list[Recorded]:
    """A switch set while we submitted: what it covers is cancelled, still held."""
    from cronhpc.read import switches_now

    if not recorded:
        return []
    world = replace(actor.world, **switches_now(actor.site, actor.world.now))
    entries = world.known()
    ready = []
    for each in recorded:
        entry = entries.get(each.key.entry)
        switch = switch_on(world, entry) if entry is not None else None
        if switch is None and not world.switches_unknown:
            ready.append(each)
            continue
        why = switch.said if switch else f"{world.switches_unknown[0]} cannot be read"
        if switch is not None and each.state is ClaimState.SUBMITTED and cancel_held(actor, each.job_id):
            if each.key.slot > actor.world.now:  # submitted ahead: the switch may be lifted before its slot comes
                with suppress(OSError):
                    actor.claims.forget([each.key])
            else:
                ending = Ending(Result.STOPPED, detail=why)
                settle(actor, each.key, entry.name if entry else "", ending, each.job_id)
        done = Done.REFUSED if switch else Done.PASSING
        actor.note(each.decision, done, f"{why}: job {each.job_id} stays unreleased", each.job_id)
    return ready


def cancel_held(actor: Actor, job_id: str) -> bool:
    """Cancel a job of ours that is held; False: it stays so, and the next tick cancels it.

    One that was released meanwhile, and runs, is left alone.
    """
    try:
        actor.site.batch.cancel([job_id], pending_only=True)
    except BatchError as error:
        actor.failed(error)
        return False
    return True


def settle(actor: Actor, key: Key, name: str, ending: Ending, job_id: str | None = None) -> None:
    """Write an end down; where the disk refuses, the next tick finds out by itself."""
    with suppress(OSError):
        actor.claims.settle(key, name, ending, job_id, now=actor.world.now)


def disk_words(error: OSError) -> str:
    """What the disk refused, and where."""
    return f"{error.filename or 'state/claims'}: {error.strerror}"


def with_log(world: World, key: Key, ending: Ending, job_id: str | None) -> Ending:
    """`ending` with its log's path, relative to the cron directory, where cronhpc named the log."""
    if not job_id or ending.log:
        return ending
    entry = world.known().get(key.entry)
    if entry is not None and not entry.output:
        return ending
    tail = f"{job_id}_*" if entry is not None and entry.array else job_id
    return replace(ending, log=f"log/{key.entry}/{slot_text(key.slot)}-{tail}.out")
