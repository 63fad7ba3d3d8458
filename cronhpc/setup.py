"""`init`: a folder becomes a cron directory; what is in it stays as it is."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.batch.port import BatchError
from cronhpc.core.model import TOKEN, command
from cronhpc.core.self_submission import submits_itself
from cronhpc.store import place, trust
from cronhpc.store.files import must_take_links, umask
from cronhpc.store.paths import MARKER, DirectoryError, Paths, must_be_plain
from cronhpc.store.scheduler import OURS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cronhpc.batch.port import JobFiles
    from cronhpc.core.model import Job
    from cronhpc.site import Site

FOLDERS = ("cron.hourly", "cron.daily", "cron.weekly", "cron.monthly", "cron.d", "log", "scheduler")
_LARGEST = 4 << 20  # bytes of a script: Slurm's own limit by default
_LOOKS = 3  # at the queue while a chain is cancelled: a link may submit another one meanwhile
_OURS = frozenset({*FOLDERS, "kill", "pause", "state", MARKER, "status.json"})


@dataclass(frozen=True, slots=True)
class Made:
    """What `init` did, in lines for a person."""

    root: Path
    adopted: bool
    lines: tuple[str, ...]
    paths: tuple[str, ...] = ()  # what was made, relative to `root`, folders before what is in them
    is_new: bool = False  # the folder itself was made


def init(root: Path, found: Mapping[str, str], *, group: str = "", adopt: bool = False) -> Made:
    """Make `root` a cron directory; what is in it stays as it is. `found`: settings by dotted key, to be filled in.

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
    root.mkdir(mode=0o755, parents=True, exist_ok=True)
    try:
        must_take_links(root)
    except OSError:
        with suppress(OSError):  # what was there before stays
            root.rmdir()
        raise
    made = [name for name in FOLDERS if _folder(root / name, 0o755)]
    if made:
        lines.append(f"made {', '.join(made)}")
    for name in ("kill", "pause"):
        _shared(root / name, group, lines)
    state = Paths(root).state
    _folder(state, 0o700)
    _folder(state / "claims", 0o700)
    identity(Paths(root))
    settings = root / MARKER
    if settings.exists():
        lines.append(f"kept {MARKER}")
    else:
        from cronhpc.store.settings_text import default_text, write_settings

        own = trust.private_group(umask())
        found = {**found, **({"trust.group": own} if own else {})}
        write_settings(settings, default_text({**found, **({"kill.group": group} if group else {})}))
        lines.append(f"wrote {MARKER}" + (f" with {', '.join(f'{k}: {v}' for k, v in found.items())}" if found else ""))
        if own:
            lines.append(f"your files may be written by the group {own}, and nobody else is in it: it is trusted")
    return Made(root, adopted, tuple(lines), tuple(sorted(_names(root) - before)), is_new)


def _names(root: Path) -> set[str]:
    """What lies in a folder and in those of cronhpc's below it that `init` fills, relative to it."""
    found = set()
    for folder in ("", "scheduler", "state", "state/claims"):
        with suppress(OSError):
            found |= {str(each.relative_to(root)) for each in (root / folder).iterdir()}
    return found


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


def _is_evident(root: Path, names: set[str]) -> bool:
    """Scripts in a schedule folder, a script in scheduler/ that submits itself, or what an earlier `init` left."""
    schedules = [root / name for name in names & set(FOLDERS) if name.startswith("cron.")]
    if (schedules and names <= _OURS) or any((root / folder / "id").is_file() for folder in ("state", "scheduler")):
        return True
    if any(each.suffix == ".slurm" or "#SBATCH" in _text(each) for folder in schedules for each in _files(folder)):
        return True
    return any(submits_itself(_text(each), each.name) for each in _files(root / "scheduler"))


def _files(folder: Path) -> list[Path]:
    with suppress(OSError):
        return [each for each in folder.iterdir() if each.is_file() and each.stat().st_size <= _LARGEST]
    return []


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def _folder(path: Path, mode: int) -> bool:
    try:
        path.mkdir(mode)
    except FileExistsError:
        if not path.is_dir():
            raise DirectoryError(f"{path} is in the way: it is no folder. Move it, then call init again.") from None
        return False
    return True


def _shared(path: Path, group: str, lines: list[str]) -> None:
    """Switch folders: a group may write there where one is named, whatever the umask; and files there get the group."""
    _folder(path, 0o755)
    if not group:
        return
    import grp

    try:
        _give(path, grp.getgrnam(group).gr_gid)
    except KeyError:
        raise DirectoryError(f"there is no group {group}. Name one of yours: {_groups()}.") from None
    except PermissionError:
        raise DirectoryError(f"{path} cannot be given to group {group}. Name one of yours: {_groups()}.") from None
    lines.append(f"{path.name}/ may be written by group {group}")


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
    import grp

    names = []
    for gid in os.getgroups():
        try:
            names.append(grp.getgrgid(gid).gr_name)
        except KeyError:
            names.append(str(gid))
    return ", ".join(names)


def identity(paths: Paths) -> None:
    """A short random word that marks this directory's jobs; it outlives state/."""
    from cronhpc.store.files import create_once, read_bytes

    known = read_bytes(paths.state / "id") or read_bytes(paths.scheduler / "id")
    own = known or os.urandom(3).hex().encode() + b"\n"
    for path in (paths.scheduler / "id", paths.state / "id"):
        create_once(path, own, mode=0o644)
    if not known:
        place.remember(paths)


@dataclass(frozen=True, slots=True)
class OldJobs:
    """Live jobs that have to do with a cron directory and are not cronhpc's, one row of the queue each."""

    chain: tuple[Job, ...] = ()  # a hand-made scheduler's: their script submits itself
    others: tuple[Job, ...] = ()  # they go on: payload, series, and those whose script cannot be read

    def __bool__(self) -> bool:
        return bool(self.chain)


def old_jobs(site: Site) -> OldJobs:
    """The hand-made scheduler of this folder that is still in the queue, and what else runs of the folder.

    A job has to do with the folder where its script lies in it, it works in it, or its script names it. It is a
    scheduler's if the very text that it runs submits itself; but not if that lies in a schedule folder, for then it is
    payload. Raises BatchError: no answer is not "none".
    """
    live = [job for job in site.batch.queue().jobs if job.live and not job.own_comment.startswith(TOKEN)]
    if not live:
        return OldJobs()
    files = {each.id: each for each in site.batch.live_files()}
    kinds = {job.id: _kind(site, files[job.id]) for job in live if job.id in files}
    return OldJobs(
        tuple(job for job in live if kinds.get(job.id) is _Kind.SCHEDULER),
        tuple(job for job in live if kinds.get(job.id) is _Kind.OTHER),
    )


class _Kind(Enum):
    SCHEDULER = "of a scheduler"
    OTHER = "of this folder"
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
        text = _text(script) if script is not None else ""
    if OURS in text:  # a link whose comment the site has replaced
        return _Kind.FOREIGN
    if not is_near and str(site.paths.root) not in text:
        return _Kind.FOREIGN
    is_payload = script is not None and str(script).startswith(f"{root}/cron.")
    name = Path(job.command.partition(" ")[0]).name
    return _Kind.SCHEDULER if not is_payload and submits_itself(text, name) else _Kind.OTHER


def _may_name(script: Path, root: Path) -> bool:
    """Whether a script speaks of the folder; where it cannot be read, the copy that the job runs tells."""
    try:
        with script.open(encoding="utf-8", errors="replace") as file:
            return str(root) in file.read(_LARGEST)
    except (OSError, ValueError):
        return True


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
    return OldJobs(tuple(chain.values()), found.others)
