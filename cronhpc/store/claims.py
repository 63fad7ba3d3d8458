"""Claims: how an attempt is run by one scheduler and once, on any file system.

An attempt's steps are names in `state/claims/`, so a listing shows them all:

    <key>              claimed: link(2) of a finished file, so by one alone, who knows it by its content
    <key>.id           its one job id is recorded: in the same way, so it is written once and never changed
    <key>.go           the release may have been sent (.id, by this name: no other job's record takes its place)
    <key>.run          it was released (.go, in the same way)
                       (of several the furthest counts: who records an id late finds that name free, and may die then)
    <key>.back         beside these: its job, submitted ahead, is cancelled by us before its slot has come (or may be):
                       whose doing that was, and of which job, while the claim has none or another
    <key>  with an ending, alone: finished

A claim outlives its job: without one it is as one that never had one. It goes only with its slot, or finished.

The newest finished claim of an entry stays until a newer one is finished: with it, a scheduler that read the folder
long ago and was stopped since cannot claim the slot again, even where the watermark in `entries.json` was lost.
"""

from __future__ import annotations

import json
import os

from cronhpc.core.model import IN_ORDER, Claim, ClaimState, JobEnd, Key, Result, decode
from cronhpc.cron.values import dataclass, replace
from cronhpc.store.files import (
    beside,
    create_once,
    decoded,
    is_listed,
    move,
    no_file,
    read_bytes,
    read_listed,
    remove,
    replace_file,
    retried,
    sync_folder,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping
    from pathlib import Path
    from typing import Any

    from cronhpc.core.model import Finish, Instant, JobId

_STEPS = {".id": ClaimState.SUBMITTED, ".go": ClaimState.RELEASING, ".run": ClaimState.RELEASED}
STEP_OF = {state: suffix for suffix, state in _STEPS.items()}
_BACK = ".back"
_SUFFIXES = (*_STEPS, _BACK)
VERSION = 1


@dataclass(frozen=True, slots=True)
class _File:
    """What the file of a claim holds, or of a step; of a step its job alone, and when that was."""

    name: str = ""
    by: str = ""  # who claimed it: there until it has ended
    id: JobId | None = None
    at: Instant | None = None
    holds: str = ""
    tasks: str = ""
    ending: Any = decode.GONE  # a JobEnd, as far as it can be read; GONE: it has not ended
    retry_at: Instant | None = None
    due: Instant = 0
    version: int = VERSION  # what is no number is no work of ours


_CUT_OFF = _File()  # what is in one of which the name alone says that it is claimed
_NONE = _File()  # what is in one that another tick has renamed, or forgotten, since it was listed


class Claims:
    """The claims of one cron directory. All methods raise OSError where the disk does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.invalid: list[str] = []  # files whose content is of no use, in part or wholly, as `read` has found them

    def names(self) -> dict[Key, set[str]]:
        """What the folder lists: for each key the suffixes present ("" for the claim itself)."""
        suffixes: dict[Key, set[str]] = {}
        for name in retried(lambda: os.listdir(self.folder)):
            stem, suffix = _parts(name)
            key = Key.of(stem)
            if key is not None:
                suffixes.setdefault(key, set()).add(suffix)
        return suffixes

    def read(self, finished: Container[str]) -> tuple[Claim, ...]:
        """Every claim; those whose key's text is in `finished` are known to be, and are not opened.

        A step without its claim is none: a scheduler that had been stopped for long wrote it, and was killed.
        """
        listed = self.names()
        keys = sorted((key for key, suffixes in listed.items() if "" in suffixes), key=IN_ORDER)
        return tuple(
            Claim(key, ClaimState.FINISHED)
            if listed[key] == {""} and str(key) in finished
            else self._read(key, listed[key])
            for key in keys
        )

    def _read(self, key: Key, suffixes: set[str]) -> Claim:
        file, invalid = self._file(key, "")
        if file is _NONE:  # its slot is another tick's all the same: a listing may lack what came after it
            return Claim(key, ClaimState.CLAIMED, fresh=True)
        job_end, invalid_end = _job_end(file)
        base = Claim(
            key,
            ClaimState.CLAIMED,
            name=file.name,
            at=file.at or 0,
            holds=file.holds,
            job_end=job_end,
            job_id=file.id,
            retry_at=file.retry_at,
            tasks=file.tasks,
            due=file.due,
            damaged=not file.by and job_end is None and file is not _CUT_OFF,
        )
        if invalid or invalid_end:
            self.invalid.append(str(key))
        if job_end is not None:
            return replace(base, state=ClaimState.FINISHED, damaged=False)
        furthest = next((suffix for suffix in (".run", ".go", ".id") if suffix in suffixes), "")
        claim = self._step(base, furthest) if furthest else base
        return self._taken_back(claim) if _BACK in suffixes else claim

    def _taken_back(self, claim: Claim) -> Claim:
        """With the job that is cancelled; an earlier one of the same slot is no matter of the claim's job."""
        job_id = self._recorded_in(claim.key, _BACK) or claim.job_id
        return claim if claim.job_id not in {None, job_id} else replace(claim, taken_back=job_id or "")

    def look(self, keys: Iterable[Key]) -> dict[Key, Claim]:
        """Those of `keys` that are claimed, as the disk has them now.

        A listing may be a minute old: where it shows no step, each is asked for by its name.
        """
        listed, claims = self.names(), dict[Key, Claim]()
        for key in keys:
            suffixes = listed.get(key, set())
            if suffixes.isdisjoint(_STEPS):
                suffixes |= {each for each in ("", *_STEPS) if read_bytes(self.folder / f"{key}{each}") is not None}
            if "" in suffixes:
                claims[key] = self._read(key, suffixes)
        return claims

    def ends(self, since: Mapping[str, int]) -> dict[Key, Claim]:
        """Of the entries in `since`, the claims from that slot on: of each no more than whether it has ended."""
        keys = (key for key, suffixes in self.names().items() if "" in suffixes)
        return {key: self._read(key, {""}) for key in keys if key.slot >= since.get(key.entry, key.slot + 1)}

    def _step(self, base: Claim, listed: str) -> Claim:
        steps = list(_STEPS)
        for suffix in steps[steps.index(listed) :]:  # another tick may have just renamed it
            step, invalid = self._file(base.key, suffix)
            if step is not _NONE:
                break
        else:
            return replace(base, state=_STEPS[listed], damaged=False, fresh=True)
        if invalid or step.id is None:
            self.invalid.append(f"{base.key}{suffix}")
        return replace(
            base,
            state=_STEPS[suffix],
            job_id=step.id,
            recorded=step.at,
            holds=step.holds or base.holds,
            damaged=step.id is None,
        )

    def _file(self, key: Key, suffix: str) -> tuple[_File, tuple[str, ...]]:
        """What a file holds, without what is of no use; and the places of that."""
        try:
            data = read_listed(self.folder / f"{key}{suffix}")
        except OSError as error:
            if not no_file(error):
                raise
            data = b"-"
        value = decoded(data)
        if data is None:
            return _NONE, ()
        if value is None and not suffix and _is_cut_off(data):
            return _CUT_OFF, ()
        record, invalid = decode.read(_File, value)
        return record or _File(), invalid

    def _recorded_in(self, key: Key, suffix: str) -> str | None:
        """The job that a file names."""
        return self._file(key, suffix)[0].id

    def make(self, key: Key, name: str, by: str, now: int, *, holds: str = "", tasks: str = "") -> bool:
        """Claim `key`; False: another has it. Then ask `had_its_turn`. `holds`, `tasks`: see Claim."""
        data = _dump(_File(name, by, at=now, holds=holds, tasks=tasks))
        return create_once(self.folder / str(key), data, durable=False)  # its name says enough

    def record(self, key: Key, job_id: str, now: int, *, holds: str = "") -> bool:
        """Record `job_id` as the one job of `key`; False: the attempt has another. Then cancel yours.

        `holds`: what the job is made of, where that may be another text than when it was claimed.

        Before its release `look` again: the attempt may have been finished and forgotten meanwhile.
        """
        return create_once(self.folder / f"{key}.id", _dump(_File(id=job_id, at=now, holds=holds)))

    def step(self, key: Key, state: ClaimState) -> bool:
        """Go from submitted to releasing, or from releasing to released; False: another did, or it is finished."""
        before, after = {ClaimState.RELEASING: (".id", ".go"), ClaimState.RELEASED: (".go", ".run")}[state]
        return move(self.folder / f"{key}{before}", self.folder / f"{key}{after}", over=False)

    def exists(self, key: Key) -> bool:
        """Whether anybody has claimed `key` and it is not archived."""
        return is_listed(self.folder / str(key))

    def write_end(self, end: Finish, now: int, due: int = 0) -> None:
        """The attempt's end in its claim: then sync, and only then drop its steps. `due`: see Claim."""
        file = _File(end.name, id=end.job_id, at=now, ending=end.job_end, retry_at=end.retry_at, due=due)
        replace_file(self.folder / str(end.key), _dump(file), durable=False)

    def drop_steps_of(self, keys: Iterable[Key]) -> None:
        """What led to an end that is durable."""
        for key in keys:
            for suffix in _SUFFIXES:
                remove(self.folder / f"{key}{suffix}")

    def take_back(self, jobs: Mapping[Key, str], now: int) -> None:
        """Note, before it is done, that these jobs are cancelled by us: whoever sees that goes on without them."""
        for key, job_id in jobs.items():
            replace_file(self.folder / f"{key}{_BACK}", _dump(_File(id=job_id, at=now)), durable=False)
        self.sync()

    def end_job(self, key: Key, job_id: str) -> None:
        """Its job was taken back, and has not begun: the claim is one that has none.

        Where that has been done while this tick stood still, the steps are another job's, and stay.
        """
        for suffix in _STEPS:
            step = self.folder / f"{key}{suffix}"
            aside = beside(step)
            if self._recorded_in(key, suffix) == job_id and move(step, aside):
                if (decoded(read_listed(aside)) or {}).get("id") == job_id:
                    remove(aside)
                else:  # another tick has put its own there just now
                    move(aside, step)

    def drop_record(self, key: Key) -> None:
        """Of a job that was recorded where another had gone further: its name is free beside a later step."""
        remove(self.folder / f"{key}.id")

    def give_up(self, key: Key) -> None:
        """Take back a claim that turned out to be too late, unless another has submitted for it meanwhile."""
        if not any(is_listed(self.folder / f"{key}{suffix}") for suffix in _STEPS):
            remove(self.folder / str(key))

    def forget(self, keys: Iterable[Key]) -> None:
        """Drop finished claims that history holds and the watermark has passed; last the name that says "finished"."""
        for key in keys:
            for suffix in (*_SUFFIXES, ""):  # steps are there where a scheduler was killed while it finished
                remove(self.folder / f"{key}{suffix}")

    def drop_steps(self, finished: Container[str]) -> None:
        """Remove steps without their claim (`read`), and steps that a killed scheduler left of what is `finished`."""
        for key, suffixes in self.names().items():
            steps = suffixes - {""}
            if not steps or (str(key) not in finished and ("" in suffixes or self.exists(key))):
                continue
            for suffix in steps:
                remove(self.folder / f"{key}{suffix}")

    def sync(self) -> None:
        """Make claims durable before what they guard happens."""
        sync_folder(self.folder)


def _parts(name: str) -> tuple[str, str]:
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix), suffix
    return name, ""


def _dump(file: _File) -> bytes:
    return json.dumps({"version": VERSION, **decode.plain(file)}, separators=(",", ":")).encode()


_BEGINS = b'{"version":'


def _is_cut_off(data: bytes) -> bool:
    """A scheduler, or its machine, died while it claimed: nothing was submitted then.

    What is cut off later than that, or is nothing that ever began so, tells nothing of what was done.
    """
    rest = data.rstrip(b"\0")
    begins = rest.startswith(_BEGINS) or _BEGINS.startswith(rest)
    return begins and len(rest) < _LONGEST and b'"id"' not in rest and b'"ending"' not in rest


_LONGEST = 2048  # bytes of a claim


def _job_end(file: _File) -> tuple[JobEnd | None, tuple[str, ...]]:
    """How it ended, None where the claim does not say that it has; and what of that is of no use.

    One that says so in other words has ended, too.
    """
    if file.ending is decode.GONE:
        return None, ()
    job_end, invalid = decode.read(JobEnd, file.ending, "ending")
    if job_end is None:
        return JobEnd(Result.UNKNOWN, detail="the claim's record cannot be read"), (*invalid, "ending.result")
    return job_end, invalid
