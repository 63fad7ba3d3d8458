"""Submissions in two phases: claim; submit held, record the id; and when all ids are on disk one release for all.

A run executes only after its release, and only the recorded id is ever released. So whatever dies in between leaves at
worst a held job with a token, and the next tick knows what to do with it (core/claimed.py).
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.batch.port import BatchError, Limited, Refused, Submission, Unreachable
from cronhpc.core.model import (
    ClaimState,
    Done,
    Ending,
    EntryState,
    Reason,
    Release,
    Result,
    Submit,
    entry_id,
    slot_text,
    token,
)
from cronhpc.core.slots import FUTURE
from cronhpc.core.stop import switch_on
from cronhpc.store import memory as store_memory
from cronhpc.store.files import read_bytes, replace_file
from cronhpc.store.stubs import end_file, recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cronhpc.act import Actor
    from cronhpc.core.model import Entry, Key, World


@dataclass(slots=True)
class Recorded:
    """A held job whose id is on disk: it waits for the one release."""

    decision: Submit | Release
    key: Key
    job_id: str
    state: ClaimState


def submit_all(actor: Actor, rows: Sequence[Submit]) -> None:
    """Claim and submit; what was recorded is released later, by `release_recorded`."""
    ready = _claimed(actor, [row for row in rows if _prepared(actor, row)])
    for chunk in _chunks(ready, max(1, actor.site.settings.parallel)):
        if actor.away or actor.limited or actor.spent:
            why = actor.away or actor.limited or "this tick has no time left"
            for row in chunk:
                actor.note(row, Done.PASSING, f"not tried: {why}")
            continue
        for row, answer in zip(chunk, _submitted(actor, chunk), strict=True):
            _note_answer(actor, row, answer)


def _chunks(rows: Sequence[Submit], width: int) -> list[Sequence[Submit]]:
    size = width * 16  # an error stops what comes after it: not too many at once
    return [rows[i : i + size] for i in range(0, len(rows), size)]


def _prepared(actor: Actor, row: Submit) -> bool:
    """The working folder is there, and the log's folder: sbatch would take a job that cannot start."""
    entry = row.entry
    if entry.chdir and not os.path.isdir(entry.chdir):  # noqa: PTH112 - a text
        mend = "mount or make it, or correct --chdir"
        actor.note(row, Done.PASSING, f"its working folder {entry.chdir} is not there: {mend}")
        return False
    try:
        if entry.output:
            log_folder(actor, entry).mkdir(parents=True, exist_ok=True)
            if refused := actor.trust.folder_refusal(log_folder(actor, entry)):
                actor.note(row, Done.PASSING, f"its log could be led astray: {refused.what} {refused.mend}")
                return False
        if entry.command:
            _write_command(actor, entry)
    except OSError as error:
        actor.note(row, Done.PASSING, f"{error.filename}: {error.strerror}")
        return False
    return True


def log_folder(actor: Actor, entry: Entry) -> Path:
    """Where the entry's logs go."""
    return actor.site.paths.log / entry_id(entry.name)


def log_pattern(actor: Actor, entry: Entry, key: Key) -> str:
    """The log's name as sbatch takes it: it sorts by slot, and carries the job's id."""
    folder = str(log_folder(actor, entry)).replace("%", "%%")
    return f"{folder}/{slot_text(key.slot)}-{'%A_%a' if entry.array else '%j'}.out"


def _script(actor: Actor, entry: Entry) -> Path:
    return (
        actor.site.paths.state / "commands" / f"{entry_id(entry.name)}.slurm" if entry.command else Path(entry.script)
    )


def _write_command(actor: Actor, entry: Entry) -> None:
    path = _script(actor, entry)
    data = entry.command.encode("utf-8", "surrogateescape")
    if read_bytes(path) != data:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        replace_file(path, data, 0o700)


# --- phase one: claims ---------------------------------------------------------------------------------------------


def _claimed(actor: Actor, rows: list[Submit]) -> list[Submit]:
    """Those that are ours alone: claimed by us, and not used up by anyone while we were planning."""
    mine = []
    for row in rows:
        if row.reason is Reason.AGAIN:  # the claim stands already, and no job of it was ever seen
            if actor.claims.exists(row.key):
                mine.append(row)
            else:
                actor.note(row, Done.REFUSED, "it was settled meanwhile")
        elif (made := _made(actor, row)) is True:
            mine.append(row)
        elif made is False:
            actor.note(row, Done.REFUSED, "another tick has claimed it")
    try:
        return _in_time(actor, mine)
    except OSError as error:  # the claims stand, and the next tick goes on from there
        for row in mine:
            actor.note(row, Done.PASSING, f"claimed, and not submitted: {_disk(error)}")
        return []


def _made(actor: Actor, row: Submit) -> bool | None:
    """Whether the claim is ours; None: the disk took none."""
    try:
        return actor.claims.make(row.key, row.entry.name, actor.by, actor.world.now)
    except OSError as error:
        actor.note(row, Done.PASSING, f"it could not be claimed: {_disk(error)}")
        return None


def _disk(error: OSError) -> str:
    return f"{error.filename or 'state/claims'}: {error.strerror}"


def _in_time(actor: Actor, mine: list[Submit]) -> list[Submit]:
    """Those of our claims that do not come too late, durable."""
    if not mine:
        return []
    fresh = [row for row in mine if row.reason is not Reason.AGAIN]
    late = _late(actor, fresh)
    actor.claims.sync()
    for row in fresh:
        if row.key in late:
            actor.claims.give_up(row.key)
            actor.note(row, Done.REFUSED, "its slot was used up meanwhile")
    return [row for row in mine if row.key not in late]


def _late(actor: Actor, rows: list[Submit]) -> set[Key]:
    """Read again after claiming: this tick may have been stopped since it read, while another went past the slot."""
    if not rows:
        return set()
    believed = actor.world.now + FUTURE
    late = actor.claims.late([row.key for row in rows], believed)
    marks = store_memory.watermarks(actor.site.paths.entries)
    for row in rows:
        key = row.key
        if key.attempt > 1:
            before = replace(key, attempt=key.attempt - 1)
            if not actor.claims.exists(before):
                late.add(key)  # its first attempt is archived, so the further one has been made
        elif not key.by_hand and key.slot <= marks.get(row.entry.name, 0) <= believed:
            late.add(key)
    return late


# --- phase two: held submission, the id on disk --------------------------------------------------------------------


def _submitted(actor: Actor, rows: Sequence[Submit]) -> list[str | BatchError]:
    """Job ids, or why not; a few sbatch at once, and none started after one got no answer."""
    if len(rows) == 1 or actor.site.settings.parallel == 1:
        return [_submit(actor, row) for row in rows]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(actor.site.settings.parallel) as pool:
        return list(pool.map(lambda row: _submit(actor, row), rows))


def _submit(actor: Actor, row: Submit) -> str | BatchError:
    """Submit held, and record the id at once."""
    if actor.away or actor.limited or actor.spent:
        return Unreachable(f"not tried: {actor.away or actor.limited or 'this tick has no time left'}")
    try:
        if row.replaces:
            actor.site.batch.cancel(row.replaces)
        job_id = actor.site.batch.submit(_submission(actor, row))
        _not_led_astray(actor, row, job_id)
    except Refused as error:
        return error
    except BatchError as error:
        actor.failed(error)
        return error
    try:
        if not actor.claims.record(row.key, job_id, actor.world.now) and actor.claims.job_id(row.key) != job_id:
            return Twin(job_id)  # unless another tick has found this very job and adopted it
    except OSError as error:  # a full disk: the job stays held, and is found by its token
        return Unreachable(f"job {job_id} is held, its id could not be recorded ({error.strerror}); the next tick will")
    return job_id


def _not_led_astray(actor: Actor, row: Submit, job_id: str) -> None:
    """What stands where the log is to be made was planted: Slurm would follow a link, and cut off its target.

    Raises Refused, the job cancelled; BatchError.
    """
    if not row.entry.output:
        return
    folder = log_folder(actor, row.entry)
    begins = f"{slot_text(row.key.slot)}-{job_id}{'_' if row.entry.array else '.out'}"
    if row.entry.array:
        found = next(folder.glob(f"{begins}*"), None)
    else:
        found = folder / begins if os.path.lexists(folder / begins) else None
    if found is not None:
        actor.site.batch.cancel([job_id])
        raise Refused(f"{found} was there before the run: somebody put it there. Remove it: rm {found}")


class Twin(BatchError):
    """Another job was recorded for the attempt while ours was being submitted; `text` is our job's id."""


def _submission(actor: Actor, row: Submit) -> Submission:
    entry, key, world = row.entry, row.key, actor.world
    state = world.states.get(entry.name, EntryState())
    previous = state.previous_success
    variables = {
        "CRONHPC_ENTRY": entry.name,
        "CRONHPC_SLOT": _iso(key.slot),
        "CRONHPC_ATTEMPT": str(key.attempt),
        "CRONHPC_PREVIOUS_SUCCESS": "" if previous is None else _iso(previous),
        "CRONHPC_DIR": str(actor.site.paths.root),
    }
    script, arguments = str(_script(actor, entry)), entry.arguments
    if entry.policies.record:
        end = end_file(actor.site.paths.state, key)
        end.parent.mkdir(mode=0o700, exist_ok=True)
        script, arguments = str(recorded(actor.site.paths.state)), (script, str(end), *arguments)
    return Submission(
        script=script,
        arguments=arguments,
        options=(*entry.own_options, *entry.options),
        job_name=entry.job_name if entry.command or entry.policies.record or not entry.schedule else None,
        comment=token(world.directory_id, str(key), entry.comment),
        output=log_pattern(actor, entry, key) if entry.output else None,
        chdir=entry.chdir,
        begin=row.begin,
        export=variables,
        own_export=entry.own_export or None,
    )


def _iso(instant: int) -> str:
    return datetime.fromtimestamp(instant, UTC).isoformat().replace("+00:00", "Z")


def _note_answer(actor: Actor, row: Submit, answer: str | BatchError) -> None:
    if isinstance(answer, str):
        actor.recorded.append(Recorded(row, row.key, answer, ClaimState.SUBMITTED))
        _replaced(actor, row)
    elif isinstance(answer, Refused):
        ending = Ending(Result.REFUSED, detail=answer.text)
        _settle(actor, row.key, row.entry.name, ending)
        actor.note(row, Done.FAILED, answer.text)
    elif isinstance(answer, Twin):
        _cancel_twin(actor, answer.text)
        actor.note(row, Done.REFUSED, f"another tick submitted it as well; job {answer.text} is cancelled, still held")
    elif isinstance(answer, Limited):
        actor.note(row, Done.PASSING, f"{answer.text} (no more tries in this tick)")
    else:
        actor.note(row, Done.PASSING, answer.text)


def _cancel_twin(actor: Actor, job_id: str) -> None:
    try:
        actor.site.batch.cancel([job_id])
    except BatchError as error:
        actor.failed(error)  # still held: the next tick cancels it


def _settle(actor: Actor, key: Key, name: str, ending: Ending, job_id: str | None = None) -> None:
    """Write an end down; where the disk refuses, the next tick finds out by itself."""
    with suppress(OSError):
        actor.claims.settle(key, name, ending, job_id, now=actor.world.now)


def _replaced(actor: Actor, row: Submit) -> None:
    """The runs that made room (overlap: replace) have ended by our hand."""
    for claim in actor.world.claims:
        if claim.job_id in row.replaces and claim.ending is None:
            ending = Ending(Result.KILLED, detail=f"replaced by the slot {slot_text(row.key.slot)}")
            ending = with_log(actor.world, claim.key, ending, claim.job_id)
            _settle(actor, claim.key, claim.name, ending, claim.job_id)


# --- the release ---------------------------------------------------------------------------------------------------


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
            actor.note(row, Done.PASSING, f"it was released already; {_disk(error)}", row.job_id)
        else:
            actor.note(row, Done.OK, "it was released already", row.job_id)


def release_recorded(actor: Actor) -> None:
    """One release for all whose ids are on disk, after a last look at the switches and at the disk."""
    ready = _not_stopped(actor, actor.recorded)
    try:
        gone = actor.claims.gone_their_way(each.key for each in ready if each.state is ClaimState.SUBMITTED)
        sending = [each for each in ready if _releasing(actor, each, gone)]
        if sending:
            actor.claims.sync()
    except OSError as error:
        _unreleased(actor, ready, f"is held: {_disk(error)}")
    else:
        _send(actor, sending)


def _releasing(actor: Actor, each: Recorded, gone: set[Key]) -> bool:
    """Note that the release may be sent; False where another has gone further. Raises OSError."""
    if each.key in gone:
        _cancel_twin(actor, each.job_id)
        why = f"it was settled meanwhile; job {each.job_id} is cancelled, still held"
    elif each.state is ClaimState.SUBMITTED and not actor.claims.step(each.key, ClaimState.RELEASING):
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
    held_on_purpose = {e.name for e in actor.world.known().values() if e.holds_itself}
    names = {claim.key: claim.name for claim in actor.world.claims}
    ids = []
    for each in sending:
        name = each.decision.entry.name if isinstance(each.decision, Submit) else names.get(each.key, "")
        if name not in held_on_purpose:
            ids.append(each.job_id)
    if ids and actor.away and not actor.has_time_for_one:
        _unreleased(actor, sending, f"is held: {actor.away}")
        return
    try:
        if ids:
            actor.site.batch.release(ids)
    except BatchError as error:
        actor.failed(error)
        _unreleased(actor, sending, f"is held; its release failed: {error.text}")
        return
    for each in sending:
        with suppress(OSError):  # the next tick sees that it is released, and marks it
            actor.claims.step(each.key, ClaimState.RELEASED)
        actor.note(each.decision, Done.OK, job_id=each.job_id)


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
        if switch is not None and each.state is ClaimState.SUBMITTED:
            _cancel_twin(actor, each.job_id)
            name = entry.name if entry else ""
            ending = Ending(Result.STOPPED, detail=why)
            _settle(actor, each.key, name, ending, each.job_id)
        actor.note(each.decision, Done.REFUSED, f"{why}: job {each.job_id} stays unreleased", each.job_id)
    return ready


def with_log(world: World, key: Key, ending: Ending, job_id: str | None) -> Ending:
    """`ending` with its log's path, relative to the cron directory, where cronhpc named the log."""
    if not job_id or ending.log:
        return ending
    entry = world.known().get(key.entry)
    if entry is not None and not entry.output:
        return ending
    tail = f"{job_id}_*" if entry is not None and entry.array else job_id
    return replace(ending, log=f"log/{key.entry}/{slot_text(key.slot)}-{tail}.out")
