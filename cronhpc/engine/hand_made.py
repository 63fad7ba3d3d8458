"""A hand-made scheduler: jobs of the user's own whose script submits itself, which cronhpc takes over from."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.batch.port import BatchError
from cronhpc.core.identity import other_marks
from cronhpc.core.model import TOKEN, Problem, command
from cronhpc.cron.values import dataclass
from cronhpc.script.shell_text import Resubmission, resubmission
from cronhpc.store.entries import read_script
from cronhpc.store.files import replace_file
from cronhpc.store.scheduler import OURS, hand_made_mark

if TYPE_CHECKING:
    from cronhpc.batch.port import Batch, JobFiles
    from cronhpc.core.model import Job
    from cronhpc.engine.site import Site

_LOOKS = 3  # at the queue while a chain is cancelled: a link may submit another one meanwhile


@dataclass(frozen=True, slots=True)
class OldJobs:
    """Live jobs that have to do with a cron directory and are not cronhpc's, one row of the queue each."""

    chain: tuple[Job, ...] = ()  # a hand-made scheduler's: their script submits itself, for a later time
    others: tuple[Job, ...] = ()  # they go on: payload, series, and those whose script cannot be read
    unclear: tuple[Job, ...] = ()  # of those: their script submits itself at once, as a training may do

    def __bool__(self) -> bool:
        return bool(self.chain)


def old_jobs(site: Site) -> OldJobs:
    """The hand-made scheduler of this folder that is still in the queue, and what else runs of the folder.

    A job has to do with the folder where its script lies in it, it works in it, or its script names it. It is a
    scheduler's if the very text that it runs submits itself for a later time; but not if that lies in a schedule
    folder, for then it is payload. Raises BatchError: no answer is not "none".
    """
    live = [job for job in site.batch.queue().jobs if job.live and not job.own_comment.startswith(TOKEN)]
    if not live:
        return OldJobs()
    files = {each.id: each for each in site.batch.live_files()}
    kinds = {job.id: _kind(site, files[job.id]) for job in live if job.id in files}
    return OldJobs(
        tuple(job for job in live if kinds.get(job.id) is _Kind.SCHEDULER),
        tuple(job for job in live if kinds.get(job.id) in {_Kind.OTHER, _Kind.UNCLEAR}),
        tuple(job for job in live if kinds.get(job.id) is _Kind.UNCLEAR),
    )


class _Kind(Enum):
    SCHEDULER = "of a scheduler"
    OTHER = "of this folder"
    UNCLEAR = "of this folder, and submits itself"
    FOREIGN = "of another folder"


def _kind(site: Site, job: JobFiles) -> _Kind:
    root = site.paths.root.resolve()
    script = (Path(job.workdir) / job.command).resolve() if job.command else None
    is_near = Path(job.workdir or "/").resolve().is_relative_to(root) or bool(script and script.is_relative_to(root))
    if not is_near and script is not None and not _may_name(script, site.paths.root):
        return _Kind.FOREIGN
    try:
        text = site.batch.script(job.id)
    except BatchError:
        text = text_of(script) if script is not None else ""
    if OURS in text:  # a link whose comment the site has replaced
        return _Kind.FOREIGN
    if not is_near and str(site.paths.root) not in text:
        return _Kind.FOREIGN
    if script is not None and str(script).startswith(f"{root}/cron."):
        return _Kind.OTHER
    how = resubmission(text, Path(job.command.partition(" ")[0]).name)
    return {Resubmission.CLOCK: _Kind.SCHEDULER, Resubmission.UNCLEAR: _Kind.UNCLEAR}.get(how, _Kind.OTHER)


def _may_name(script: Path, root: Path) -> bool:
    """Whether a script speaks of the folder; where it cannot be read, the copy that the job runs tells."""
    try:
        return os.fsencode(root) in read_script(str(script))
    except (OSError, ValueError):
        return True


def text_of(path: Path) -> str:
    """A script's text, as far as sbatch takes one; "" where it cannot be read."""
    with suppress(OSError):
        return read_script(str(path)).decode("utf-8", "replace")
    return ""


def hand_made_problem(site: Site) -> Problem | None:
    """The hand-made scheduler that `init` or `start` has seen, as long as it is in the queue; then nobody asks again.

    By one stat where there never was one. Raises BatchError, OSError.
    """
    mark = hand_made_mark(site.paths)
    if not os.path.lexists(mark):
        return None
    found = old_jobs(site)
    if not found:
        mark.unlink(missing_ok=True)
        return None
    named = ", ".join(f"{job.shown} ({job.name})" for job in found.chain)
    what = f"a hand-made scheduler of this folder is still in the queue: {named}. Each of its scripts runs twice."
    return Problem("W365", what, "Cancel it: " + command("init", options=("--cancel-old",)))


def look_for_hand_made(site: Site) -> Problem | None:
    """The same, looked for whether or not one was seen before; it is told from then on. Raises BatchError, OSError."""
    mark = hand_made_mark(site.paths)
    if not os.path.lexists(mark):
        replace_file(mark, b"", 0o644)
    return hand_made_problem(site)


@dataclass(frozen=True, slots=True)
class OtherChain:
    """A chain of the user's that is not this directory's. `place`: its cron directory, or its script; "": unknown."""

    place: str
    jobs: tuple[Job, ...]
    is_hand_made: bool = False


def other_chains(batch: Batch, root: Path, directory_id: str) -> list[OtherChain]:
    """Those of other cron directories, and hand-made ones that have nothing to do with `root`. Raises BatchError."""
    jobs = batch.queue().jobs
    found = [
        OtherChain(next(filter(None, (_directory_of(batch, job) for job in links[:_LOOKS])), ""), links)
        for links in other_marks(jobs, directory_id).values()
    ]
    unmarked = {job.id: job for job in jobs if job.live and not job.own_comment.startswith(TOKEN)}
    scripts: dict[Path, tuple[Job, ...]] = {}
    for each in batch.live_files() if unmarked else ():
        if each.command and each.id in unmarked:
            script = Path(each.workdir, each.command.partition(" ")[0])
            scripts[script] = (*scripts.get(script, ()), unmarked[each.id])
    found += [OtherChain(str(path), of, is_hand_made=True) for path, of in scripts.items() if _is_clock(path, root)]
    return sorted(found, key=lambda each: each.place)


_DIRECTORY = re.compile(r"^dir=(.*)$", re.MULTILINE)


def _directory_of(batch: Batch, link: Job) -> str:
    """As the text of the link has it."""
    try:
        named = _DIRECTORY.search(batch.script(link.id))
        return shlex.split(named[1])[0] if named else ""
    except (BatchError, ValueError, IndexError):
        return ""


def _is_clock(script: Path, root: Path) -> bool:
    text = "" if script.is_relative_to(root) else text_of(script)
    return OURS not in text and resubmission(text, script.name) is Resubmission.CLOCK


def cancel_old_chain(site: Site) -> OldJobs:
    """Cancel the hand-made scheduler's jobs, and those that they submit meanwhile. Raises BatchError."""
    chain: dict[str, Job] = {}
    for _ in range(_LOOKS):
        found = old_jobs(site)
        more = {job.id: job for job in found.chain if job.state != "COMPLETING" and job.id not in chain}
        if not more:
            break
        site.batch.cancel(list(more))
        chain |= more
    return OldJobs(tuple(chain.values()), found.others, found.unclear)
