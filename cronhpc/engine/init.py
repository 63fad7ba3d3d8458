"""`init`: a folder becomes a cron directory; what is in it stays as it is."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.core.model import command
from cronhpc.cron.values import dataclass
from cronhpc.engine.hand_made import text_of
from cronhpc.script.shell_text import Resubmission, resubmission
from cronhpc.script.spelling import has_directives
from cronhpc.store import trust
from cronhpc.store.files import must_take_links, umask
from cronhpc.store.paths import MARKER, DirectoryError, Paths, moved_from, must_be_plain, remember_place

if TYPE_CHECKING:
    from collections.abc import Mapping


FOLDERS = ("cron.hourly", "cron.daily", "cron.weekly", "cron.monthly", "cron.d", "log", "scheduler")
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
        from cronhpc.store.settings_text import default_text, write_settings

        own = trust.private_group(umask())
        found = {**found, **({"trust.group": own} if own else {})}
        write_settings(settings, default_text({**found, **({"kill.group": group} if group else {})}))
        told = ", ".join(f"{key}: {value}" for key, value in found.items() if key != "timezone")
        lines.append(f"wrote {MARKER}" + (f" with {told}" if told else ""))
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
    import grp

    try:
        _give(path, grp.getgrnam(group).gr_gid)
    except KeyError:
        raise DirectoryError(f"there is no group {group}. Name one of yours: {_groups()}.") from None
    except PermissionError:
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
    from cronhpc.store.files import create_once, read_bytes

    known = read_bytes(paths.state / "id") or read_bytes(paths.scheduler / "id")
    own = known or os.urandom(3).hex().encode() + b"\n"
    for path in (paths.scheduler / "id", paths.state / "id"):
        create_once(path, own, mode=0o644)
    if not known:
        remember_place(paths)
