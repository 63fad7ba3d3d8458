"""`init`: a folder becomes a cron directory; what is in it stays as it is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cronhpc.batch.port import BatchError
from cronhpc.store import place
from cronhpc.store.files import replace_file
from cronhpc.store.paths import MARKER, DirectoryError, Paths, must_be_plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cronhpc.core.model import Job
    from cronhpc.site import Site

FOLDERS = ("cron.hourly", "cron.daily", "cron.weekly", "cron.monthly", "cron.d", "log", "scheduler")
_OURS = frozenset({*FOLDERS, "kill", "pause", "state", MARKER, "status.json"})


@dataclass(frozen=True, slots=True)
class Made:
    """What `init` did, in lines for a person."""

    root: Path
    adopted: bool
    lines: tuple[str, ...]


def init(root: Path, found: Mapping[str, str], *, group: str = "", adopt: bool = False) -> Made:
    """Make `root` a cron directory; what is in it stays as it is. `found`: settings by dotted key, to be filled in.

    Raises DirectoryError for a folder that holds something else, OSError.
    """
    must_be_plain(root)
    adopted = _may_take(root, adopt=adopt)
    if (root / MARKER).exists() and not (root / MARKER).is_file():
        kind = "a folder" if (root / MARKER).is_dir() else "no regular file"
        raise DirectoryError(f"{root / MARKER} is {kind}. Nothing was changed. Move it away, then try again.")
    lines = []
    root.mkdir(mode=0o755, parents=True, exist_ok=True)
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
        from cronhpc.store.settings_text import default_text

        replace_file(settings, default_text({**found, **({"kill.group": group} if group else {})}).encode(), 0o644)
        lines.append(f"wrote {MARKER}" + (f" with {', '.join(f'{k}: {v}' for k, v in found.items())}" if found else ""))
    return Made(root, adopted, tuple(lines))


def _may_take(root: Path, *, adopt: bool) -> bool:
    """Whether hand-made scripts are adopted; no folder that serves another purpose is taken."""
    try:
        names = {each.name for each in root.iterdir()}
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        raise DirectoryError(f"{root} is no folder. Choose another with --dir.") from None
    known = names & _OURS
    if names and not known and not adopt:
        raise DirectoryError(
            f"{root} holds other things ({', '.join(sorted(names)[:3])} …). Nothing was changed. "
            f"Choose a folder of its own: cronhpc init --dir {root}/cron; or take this one all the same: --adopt"
        )
    return bool(names) and MARKER not in names


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
        create_once(path, own, mode=0o644, whole=True)
    if not known:
        place.remember(paths)


def old_chain(site: Site) -> tuple[Job, ...]:
    """Jobs of the hand-made scripts that resubmit themselves: those that work in this folder and are not ours."""
    try:
        queue = site.batch.queue()
    except BatchError:
        return ()
    below = str(site.paths.root)
    return tuple(
        job
        for job in queue.jobs
        if job.live and not job.own_comment.startswith("cronhpc=") and (job.workdir + "/").startswith(below + "/")
    )
