"""Submissions in two phases: claim; submit held, record the id; and when all ids are on disk one release for all.

A run executes only after its release, and only the recorded id is ever released. So whatever dies in between leaves at
worst a held job with a token, and the next tick knows what to do with it (core/claimed.py).
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from dataclasses import replace
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
    Result,
    Submit,
    entry_id,
    slot_text,
    token,
)
from cronhpc.core.slots import text_key
from cronhpc.release import Recorded, cancel_held, disk_words, settle, with_log
from cronhpc.store import memory as store_memory
from cronhpc.store.files import read_bytes, replace_file
from cronhpc.store.stubs import end_file, recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cronhpc.act import Actor
    from cronhpc.core.model import Entry, Key


TAKEN = "another tick has claimed it"


def submit_all(actor: Actor, rows: Sequence[Submit]) -> None:
    """Claim and submit; what was recorded is released later, by `release_recorded`."""
    ready = _claimed(actor, [row for row in rows if _prepared(actor, row)])
    for chunk in _chunks(actor, ready):
        if actor.unreachable or actor.at_submit_limit or actor.spent:
            why = actor.unreachable or actor.at_submit_limit or "this tick has no time left"
            for row in chunk:
                _give_back(actor, row)
                actor.note(row, Done.PASSING, f"not tried: {why}")
            continue
        for row, answer in zip(chunk, _submitted(actor, chunk), strict=True):
            _note_answer(actor, row, answer)


def _chunks(actor: Actor, rows: Sequence[Submit]) -> list[Sequence[Submit]]:
    """Those that were held up go first, one by one: side by side, who is taken under a limit would be chance."""
    states = actor.world.states
    held = [row for row in rows if states.get(row.entry.name, EntryState()).held_since]
    rest = [row for row in rows if not states.get(row.entry.name, EntryState()).held_since]
    size = max(1, actor.site.settings.parallel) * 16  # an error stops what comes after it: not too many at once
    return [*([row] for row in held), *(rest[i : i + size] for i in range(0, len(rest), size))]


def _prepared(actor: Actor, row: Submit) -> bool:
    """The working folder is there, and the log's folder: sbatch would take a job that cannot start."""
    entry = row.entry
    if entry.chdir and not os.path.isdir(entry.chdir):  # noqa: PTH112 - a text
        fix = "mount or make it, or correct --chdir"
        actor.note(row, Done.PASSING, f"its working folder {entry.chdir} is not there: {fix}")
        return False
    try:
        if entry.output and (refused := _no_log(actor, log_folder(actor, entry))):
            actor.note(row, Done.PASSING, refused)
            return False
        if entry.command:
            _write_command(actor, entry)
    except OSError as error:
        actor.note(row, Done.PASSING, f"{error.filename}: {error.strerror}")
        return False
    return True


def _no_log(actor: Actor, folder: Path) -> str:
    """Why a log cannot be made in `folder`, which is made; the job would fail where it starts. Raises OSError."""
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    except PermissionError:
        folder = folder.parent
    if refused := actor.trust.folder_refusal(folder):
        return f"its log could be led astray: {refused.what} " + refused.fix
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"its log cannot be made: chmod u+wx {shlex.quote(str(folder))}"
    return ""


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
            actor.note(row, Done.REFUSED, TAKEN)
    try:
        return _in_time(actor, mine)
    except OSError as error:  # the claims stand, and the next tick goes on from there
        for row in mine:
            actor.note(row, Done.PASSING, f"claimed, and not submitted: {disk_words(error)}")
        return []


def _made(actor: Actor, row: Submit) -> bool | None:
    """Whether the claim is ours; None: the disk took none."""
    try:
        holds = text_key(row.entry) if row.reason is Reason.AHEAD else ""
        return actor.claims.make(row.key, row.entry.name, actor.by, actor.world.now, holds=holds, tasks=row.tasks)
    except OSError as error:
        actor.note(row, Done.PASSING, f"it could not be claimed: {disk_words(error)}")
        return None


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
            actor.note(row, Done.REFUSED, TAKEN if row.key.by_hand else "its slot was used up meanwhile")
    return [row for row in mine if row.key not in late]


def _late(actor: Actor, rows: list[Submit]) -> set[Key]:
    """Read again after claiming: this tick may have been stopped since it read, while another went past the slot."""
    if not rows:
        return set()
    believed = actor.world.believed
    late = actor.claims.late([row.key for row in rows], believed)
    states = store_memory.states_now(actor.site.paths.entries)
    for row in rows:
        key = row.key
        if key.attempt > 1:
            before = replace(key, attempt=key.attempt - 1)
            if not actor.claims.exists(before):
                late.add(key)  # its first attempt is archived, so the further one has been made
            continue
        state = states.get(row.entry.name, EntryState())
        if state.last.get("key") == str(key) if key.by_hand else key.slot <= state.watermark <= believed:
            late.add(key)  # a run by hand: another of this second has ended already
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
    if row.reason is Reason.AHEAD and row.key.entry in actor.refused:
        return AsBefore("refused as its slot before that")
    if actor.unreachable or actor.at_submit_limit or actor.spent:
        return NotTried(f"not tried: {actor.unreachable or actor.at_submit_limit or 'this tick has no time left'}")
    try:
        if row.replaces:
            actor.site.batch.cancel(row.replaces)
        job_id = actor.site.batch.submit(_submission(actor, row))
    except Refused as error:
        actor.refused.add(row.key.entry)
        return error
    except BatchError as error:
        actor.failed(error)
        return error
    try:
        if not actor.claims.record(row.key, job_id, actor.clock) and actor.claims.job_id(row.key) != job_id:
            return Twin(job_id)  # unless another tick has found this very job and adopted it
    except OSError as error:  # a full disk: the job stays held, and is found by its token
        return Unreachable(f"job {job_id} is held, its id could not be recorded ({error.strerror}); the next tick will")
    return job_id


class Twin(BatchError):
    """Another job was recorded for the attempt while ours was being submitted; `text` is our job's id."""


class NotTried(Unreachable):
    """sbatch was not called: surely there is no job."""


class AsBefore(BatchError):
    """sbatch was not called: it has refused another slot of the entry in this tick."""


def _give_back(actor: Actor, row: Submit) -> None:
    """No job came of it, and its slot is still to come: the claim is not to stand in the way of an edit until then."""
    if row.reason is Reason.AHEAD:
        with suppress(OSError):
            actor.claims.give_up(row.key)


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
    log = log_pattern(actor, entry, key) if entry.output else None
    return Submission(
        script=script,
        arguments=arguments,
        options=(*entry.own_options, *entry.options, *_some_tasks(entry, row.tasks)),
        job_name=entry.job_name if entry.command or entry.policies.record or not entry.schedule else None,
        comment=token(world.directory_id, str(key), entry.comment),
        output=log,
        error=log if entry.error else None,
        chdir=entry.chdir,
        begin=row.begin,
        export=variables,
        own_export=entry.own_export or None,
    )


def _some_tasks(entry: Entry, tasks: str) -> tuple[str, ...]:
    """A further attempt of an array runs those tasks that failed, as many at once as the script says."""
    _, at_submit_limit, limit = str(entry.array).partition("%")  # True in what an older version has cached
    return (f"--array={tasks}{at_submit_limit}{limit}",) if tasks and entry.array else ()


def _iso(instant: int) -> str:
    return datetime.fromtimestamp(instant, UTC).isoformat().replace("+00:00", "Z")


def _note_answer(actor: Actor, row: Submit, answer: str | BatchError) -> None:
    if isinstance(answer, str):
        actor.recorded.append(Recorded(row, row.key, answer, ClaimState.SUBMITTED))
        _replaced(actor, row)
    elif isinstance(answer, Refused):
        if other := actor.claims.job_id(row.key):
            actor.note(row, Done.REFUSED, f"another tick has submitted it as job {other}", other)
            return
        if row.reason is Reason.AHEAD:  # its slot has not come: until then it may be fixed
            _give_back(actor, row)
        else:
            settle(actor, row.key, row.entry.name, Ending(Result.REFUSED, detail=answer.text))
        actor.note(row, Done.FAILED, answer.text)
    elif isinstance(answer, AsBefore):
        _give_back(actor, row)
        actor.note(row, Done.REFUSED, answer.text)
    elif isinstance(answer, Twin):
        cancel_held(actor, answer.text)
        actor.note(row, Done.REFUSED, f"another tick submitted it as well; job {answer.text} is cancelled, still held")
    elif isinstance(answer, Limited | NotTried):
        _give_back(actor, row)
        if isinstance(answer, NotTried):
            actor.note(row, Done.PASSING, answer.text)
            return
        actor.note(row, Done.PASSING, f"{answer.text} (no more tries in this tick)", at_submit_limit=True)
    else:
        actor.note(row, Done.PASSING, answer.text)


def _replaced(actor: Actor, row: Submit) -> None:
    """The runs that made room (overlap: replace) have ended by our hand."""
    for claim in actor.world.claims:
        if claim.job_id in row.replaces and claim.ending is None:
            ending = Ending(Result.KILLED, detail=f"replaced by the slot {slot_text(row.key.slot)}")
            ending = with_log(actor.world, claim.key, ending, claim.job_id)
            settle(actor, claim.key, claim.name, ending, claim.job_id)
