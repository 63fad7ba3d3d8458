"""`init`: a folder becomes a cron directory; what is in it stays as it is. And schedulers made by hand."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.batch.port import Batch, BatchError, JobFiles
from cronhpc.core.identity import other_marks
from cronhpc.core.model import TOKEN, Job, Problem, command
from cronhpc.cron.values import dataclass
from cronhpc.inside.switch_file import owner
from cronhpc.script.shell_text import Resubmission, resubmission
from cronhpc.script.spelling import has_directives
from cronhpc.store import trust
from cronhpc.store.entries import read_script
from cronhpc.store.files import (
    MARKER,
    DirectoryError,
    Paths,
    create_once,
    moved_from,
    must_be_plain,
    must_take_links,
    read_bytes,
    remember_place,
    replace_file,
    umask,
)
from cronhpc.store.scheduler import OURS, hand_made_mark

if TYPE_CHECKING:
    from collections.abc import Mapping


# --- schedulers made by hand ------------------------------------------------------------------------------------------

_LOOKS = 3  # at the queue while a chain is cancelled: a link may submit another one meanwhile


@dataclass(frozen=True, slots=True)
class OldJobs:
    """Live jobs that have to do with a cron directory and are not cronhpc's, one row of the queue each."""

    chain: tuple[Job, ...] = ()  # a hand-made scheduler's: their script submits itself, for a later time
    others: tuple[Job, ...] = ()  # they go on: payload, series, and those whose script cannot be read
    unclear: tuple[Job, ...] = ()  # of those: their script submits itself at once, as a training may do

    def __bool__(self) -> bool:
        return bool(self.chain)


def old_jobs(batch: Batch, root: Path) -> OldJobs:
    """The hand-made scheduler of this folder that is still in the queue, and what else runs of the folder.

    A job has to do with the folder where its script lies in it, it works in it, or its script names it. It is a
    scheduler's if the very text that it runs submits itself for a later time; but not if that lies in a schedule
    folder, for then it is payload. Raises BatchError: no answer is not "none".
    """
    live = [job for job in batch.queue().jobs if job.live and not job.own_comment.startswith(TOKEN)]
    if not live:
        return OldJobs()
    files = {each.id: each for each in batch.live_files()}
    related = [
        (job, how) for job in live if job.id in files and (how := _goes_on(batch, root, files[job.id])) is not None
    ]
    return OldJobs(
        tuple(job for job, how in related if how is Resubmission.CLOCK),
        tuple(job for job, how in related if how is not Resubmission.CLOCK),
        tuple(job for job, how in related if how is Resubmission.UNCLEAR),
    )


def _goes_on(batch: Batch, named: Path, job: JobFiles) -> Resubmission | None:
    """How a job of the folder `named` goes on after itself; None for one of another folder, and for a link."""
    root = named.resolve()
    script = (Path(job.workdir) / job.command).resolve() if job.command else None
    is_near = Path(job.workdir or "/").resolve().is_relative_to(root) or bool(script and script.is_relative_to(root))
    if not is_near and script is not None and not _may_name(script, named):
        return None
    try:
        text = batch.script(job.id)
    except BatchError:
        text = text_of(script) if script is not None else ""
    if OURS in text or (not is_near and str(named) not in text):  # a link whose comment the site has replaced
        return None
    if script is not None and str(script).startswith(f"{root}/cron."):
        return Resubmission.NONE  # payload, whatever it does
    return resubmission(text, Path(job.command.partition(" ")[0]).name)


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


def hand_made_problem(batch: Batch, paths: Paths) -> Problem | None:
    """The hand-made scheduler that `init` or `start` has seen, as long as it is in the queue; then nobody asks again.

    By one stat where there never was one. Raises BatchError, OSError.
    """
    mark = hand_made_mark(paths)
    if not os.path.lexists(mark):
        return None
    old = old_jobs(batch, paths.root)
    if not old:
        mark.unlink(missing_ok=True)
        return None
    named = ", ".join(f"{job.shown_id} ({job.name})" for job in old.chain)
    what = f"a hand-made scheduler of this folder is still in the queue: {named}. Each of its scripts runs twice."
    return Problem("W365", what, "Cancel it: " + command("init", options=("--cancel-old",)))


def look_for_hand_made(batch: Batch, paths: Paths) -> Problem | None:
    """The same, looked for whether or not one was seen before; it is told from then on. Raises BatchError, OSError."""
    mark = hand_made_mark(paths)
    if not os.path.lexists(mark):
        replace_file(mark, b"", 0o644)
    return hand_made_problem(batch, paths)


@dataclass(frozen=True, slots=True)
class OtherChain:
    """A chain of the user's that is not this directory's. `place`: its cron directory, or its script; "": unknown."""

    place: str
    jobs: tuple[Job, ...]
    is_hand_made: bool = False


def other_chains(batch: Batch, root: Path, directory_id: str) -> list[OtherChain]:
    """Those of other cron directories, and hand-made ones that have nothing to do with `root`. Raises BatchError."""
    jobs = batch.queue().jobs
    chains = [
        OtherChain(next(filter(None, (_directory_of(batch, job) for job in links[:_LOOKS])), ""), links)
        for links in other_marks(jobs, directory_id).values()
    ]
    unmarked = {job.id: job for job in jobs if job.live and not job.own_comment.startswith(TOKEN)}
    scripts: dict[Path, tuple[Job, ...]] = {}
    for each in batch.live_files() if unmarked else ():
        if each.command and each.id in unmarked:
            script = Path(each.workdir, each.command.partition(" ")[0])
            scripts[script] = (*scripts.get(script, ()), unmarked[each.id])
    chains += [OtherChain(str(path), of, is_hand_made=True) for path, of in scripts.items() if _is_clock(path, root)]
    return sorted(chains, key=lambda each: each.place)


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


def cancel_old_chain(batch: Batch, root: Path) -> OldJobs:
    """Cancel the hand-made scheduler's jobs, and those that they submit meanwhile. Raises BatchError."""
    chain: dict[str, Job] = {}
    for _ in range(_LOOKS):
        old = old_jobs(batch, root)
        more = {job.id: job for job in old.chain if not job.ending and job.id not in chain}
        if not more:
            break
        batch.cancel(list(more))
        chain |= more
    return OldJobs(tuple(chain.values()), old.others, old.unclear)


FOLDERS = ("cron.hourly", "cron.daily", "cron.weekly", "cron.monthly", "cron.d", "log", "scheduler")
_OURS = frozenset({*FOLDERS, "kill", "pause", "state", MARKER, "status.json"})


# --- setting up -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Made:
    """What `init` did, in lines for a person."""

    root: Path
    adopted: bool
    lines: tuple[str, ...]
    paths: tuple[str, ...] = ()  # what was made, relative to `root`, folders before what is in them
    is_new: bool = False  # the folder itself was made


def init(root: Path, values: Mapping[str, str], *, group: str = "", adopt: bool = False) -> Made:
    """Make `root` a cron directory; what is in it stays as it is. `values`: settings by dotted key, to be filled in.

    A umask that lets the user's own private group write (002) is provided for: `trust.group`. Raises DirectoryError for
    a folder that holds something else, OSError.
    """
    must_be_plain(root)
    adopted = _may_take(root, adopt=adopt)
    is_new, before = not root.exists(), _names(root)
    if (root / MARKER).exists() and not (root / MARKER).is_file():
        kind = "a folder" if (root / MARKER).is_dir() else "no regular file"
        raise DirectoryError(f"{root / MARKER} is {kind}. Nothing was changed. Move it away, then try again.")
    lines = []
    try:
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
    except FileNotFoundError:  # /proc/x: what is above it is there, and takes no folders
        raise DirectoryError(f"{root} cannot be made: no folders can be made there. Choose another: --dir") from None
    try:
        must_take_links(root)
    except OSError:
        with suppress(OSError):  # what was there before stays
            root.rmdir()
        raise
    made = [name for name in FOLDERS if _folder(root / name, 0o755)]
    if made:
        lines.append(f"made {', '.join(made)}")
    lines += [line for name in ("kill", "pause") for line in _shared(root / name, group)]
    state = Paths(root).state
    _folder(state, 0o700)
    _folder(state / "claims", 0o700)
    has_id = any((folder / "id").exists() for folder in (state, root / "scheduler"))
    if not has_id and (first := moved_from(Paths(root))):  # a copy whose id was taken from it to get one of its own
        _forget_jobs(Paths(root))
        lines.append(f"it was copied: what it knew of jobs that are those of {first} is removed, and it is not started")
    identity(Paths(root))
    settings = root / MARKER
    if settings.exists():
        lines.append(f"kept {MARKER}")
    else:
        from cronhpc.store.settings import default_text, write_settings

        private = trust.private_group(umask())
        values = {**values, **({"trust.group": private} if private else {})}
        write_settings(settings, default_text({**values, **({"kill.group": group} if group else {})}))
        listed = ", ".join(f"{key}: {value}" for key, value in values.items() if key != "timezone")
        lines.append(f"wrote {MARKER}" + (f" with {listed}" if listed else ""))
        if private:
            lines.append(f"your files may be written by the group {private}, and nobody else is in it: it is trusted")
    return Made(root, adopted, tuple(lines), tuple(sorted(_names(root) - before)), is_new)


def _names(root: Path) -> set[str]:
    """What lies in a folder and in those of cronhpc's below it that `init` fills, relative to it."""
    names = set()
    for folder in ("", "scheduler", "state", "state/claims"):
        with suppress(OSError):
            names |= {str(each.relative_to(root)) for each in (root / folder).iterdir()}
    return names


def _may_take(root: Path, *, adopt: bool) -> bool:
    """Whether hand-made scripts are adopted; no folder that serves another purpose is taken.

    A name alone is no evidence: any project has a log/ or a scheduler/.
    """
    try:
        names = {each.name for each in root.iterdir()}
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        raise DirectoryError(f"{root} is no folder. Choose another with --dir.") from None
    if names and MARKER not in names and not adopt and not _is_evident(root, names):
        raise DirectoryError(
            f"{root} holds other things ({', '.join(sorted(names)[:3])} …). Nothing was changed. "
            "Choose a folder of its own: "
            + command("init", directory=f"{root}/cron")
            + "; or take this one all the same: --adopt"
        )
    return bool(names) and MARKER not in names


def adoptable(script: Path) -> Path | None:
    """The folder of a hand-made scheduler's script, where `init` would take it without being told to; else None."""
    root = script.parent.parent if script.parent.name == "scheduler" else script.parent
    try:
        names = {each.name for each in root.iterdir()}
    except OSError:
        return None
    return root if MARKER in names or _is_evident(root, names) else None


def _is_evident(root: Path, names: set[str]) -> bool:
    """Scripts in a schedule folder, a script in scheduler/ that submits itself, or what an earlier `init` left."""
    schedules = [root / name for name in names & set(FOLDERS) if name.startswith("cron.")]
    if (schedules and names <= _OURS) or any((root / folder / "id").is_file() for folder in ("state", "scheduler")):
        return True
    if any(each.suffix == ".slurm" or _is_batch(each) for folder in schedules for each in _files(folder)):
        return True
    by_itself = {Resubmission.CLOCK, Resubmission.UNCLEAR}
    return any(resubmission(text_of(each), each.name) in by_itself for each in _files(root / "scheduler"))


def _is_batch(path: Path) -> bool:
    text = text_of(path)
    return "#SBATCH" in text or has_directives(text.encode("utf-8", "surrogateescape"))


def _files(folder: Path) -> list[Path]:
    with suppress(OSError):
        return [each for each in folder.iterdir() if each.is_file()]
    return []


def _folder(path: Path, mode: int) -> bool:
    try:
        path.mkdir(mode)
    except FileExistsError:
        if not path.is_dir():
            raise DirectoryError(f"{path} is in the way: it is no folder. Move it, then call init again.") from None
        return False
    return True


def _shared(path: Path, group: str) -> list[str]:
    """Switch folders: a group may write there where one is named, whatever the umask; and files there get the group."""
    _folder(path, 0o755)
    if not group:
        return []
    if (gid := trust.group_id(group)) is None:
        raise DirectoryError(f"there is no group {group}. Name one of yours: {_groups()}.")
    try:
        _give(path, gid)
    except PermissionError:
        if (uid := path.stat().st_uid) != os.geteuid():
            what = f"{path} belongs to {owner(uid)}: only its owner gives it to a group."
            raise DirectoryError(f"{what} For one of your own: " + command("init", options=("--dir", "DIR"))) from None
        raise DirectoryError(f"{path} cannot be given to group {group}. Name one of yours: {_groups()}.") from None
    return [f"{path.name}/ may be written by group {group}"]


def _give(folder: Path, gid: int) -> None:
    """To a group; never through a link, which could lead to a folder that is nobody else's business."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        raise DirectoryError(f"{folder} is a link. Put a real folder there, then call init again.") from None
    try:
        os.fchown(fd, -1, gid)
        os.fchmod(fd, 0o2775)
    finally:
        os.close(fd)


def _groups() -> str:
    return ", ".join(map(trust.group_name, os.getgroups()))


def _forget_jobs(paths: Paths) -> None:
    """Drop the records of jobs: by those they would be its own, whatever id they are marked with. Raises OSError."""
    import shutil

    in_scheduler = [each for each in paths.scheduler.iterdir() if _OF_LINKS.fullmatch(each.name)]
    in_state = [paths.state / name for name in ("local", "ends", "lease", "daemon.json", "outbox.json")]
    for each in [*in_scheduler, *in_state, *paths.claims.iterdir()]:
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink(missing_ok=True)


_OF_LINKS = re.compile(r"links|successor|started|(start|stop|rest)(\.\d+)?")


def identity(paths: Paths) -> None:
    """A short random word that marks this directory's jobs; it outlives state/."""
    before = read_bytes(paths.state / "id") or read_bytes(paths.scheduler / "id")
    word = before or os.urandom(3).hex().encode() + b"\n"
    for path in (paths.scheduler / "id", paths.state / "id"):
        create_once(path, word, mode=0o644)
    if not before:
        remember_place(paths)
