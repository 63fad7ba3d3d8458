"""Where things are in a cron directory, and which folder is one."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from cronhpc.core.model import CronhpcError, StateError, command
from cronhpc.store.files import read_bytes, replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


MARKER = "cronhpc.yaml"


class DirectoryError(CronhpcError):
    """There is no usable cron directory where one was expected."""


class Paths:
    """The rooms of the cron directory at `root` (absolute)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings = root / MARKER  # also the marker
        self.status = root / "status.json"  # heartbeat and health, readable by all who may enter
        self.kill = root / "kill"  # switches that stop
        self.pause = root / "pause"  # switches that hold
        self.log = root / "log"  # what runs print, one folder an entry
        self.scheduler = root / "scheduler"  # the link's text and log
        self.script = self.scheduler / "scheduler.slurm"  # the generated link
        self.state = root / "state"  # the owner's alone
        self.claims = self.state / "claims"  # one file an attempt
        self.entries = self.state / "entries.json"  # what is kept of entries between ticks
        self.history = self.state / "history"  # what happened

    def shown(self, path: Path) -> str:
        """`path` as its owner knows it: relative to the cron directory where it lies in it."""
        try:
            return str(path.relative_to(self.root))
        except ValueError:
            return str(path)


def must_be_plain(root: Path) -> None:
    """Slurm takes backslashes out of `--output`, and no script holds a path with a line end. Raises DirectoryError."""
    if any(each in str(root) for each in "\\\n\r"):
        raise DirectoryError(
            f"{str(root)!r} has a backslash or a line end in it: the scheduler's jobs could never start there. "
            "Choose another place, or rename the folder."
        )


def wanted(option: str | None, environment: Mapping[str, str]) -> tuple[Path, str]:
    """The cron directory meant, absolute, and what named it. Raises DirectoryError for a $WORK that is not there.

    An unset or unmounted $WORK must never let anything run from another folder (a self-submitting script once became
    23 jobs in 30 s that way), so a named place that is missing is an error and not a reason to look elsewhere.
    """
    if option:
        return _absolute(option), "--dir"
    if option is not None:  # --dir "$UNSET"
        raise DirectoryError("--dir is empty. Name your cron directory, or leave the option out.")
    if "CRONHPC_DIR" in environment:
        if not environment["CRONHPC_DIR"]:
            raise DirectoryError("$CRONHPC_DIR is set but empty. Set it to your cron directory, or unset it.")
        return _absolute(environment["CRONHPC_DIR"]), "$CRONHPC_DIR"
    if "WORK" in environment:
        work = environment["WORK"]
        if not work or not Path(work).is_dir():
            raise DirectoryError(
                f"$WORK is {work!r}, which is no folder here (not mounted?). Nothing was done. "
                "Set WORK, or name the cron directory with --dir or CRONHPC_DIR."
            )
        return _absolute(work) / "cron", "$WORK"
    home = environment.get("HOME") or os.path.expanduser("~")
    return _absolute(home) / "cron", "~"


def _absolute(text: str) -> Path:
    return Path(os.path.abspath(os.path.expanduser(text)))


def own_folder(environment: Mapping[str, str]) -> Path:
    """Where series are kept that were started without a cron directory: `$XDG_STATE_HOME/cronhpc`, by the XDG rules."""
    state = environment.get("XDG_STATE_HOME", "")
    home = environment.get("HOME") or os.path.expanduser("~")
    return Path(state if state.startswith("/") else f"{home}/.local/state", "cronhpc")


def of_series(option: str | None, environment: Mapping[str, str]) -> Path | None:
    """The folder of one's own where no cron directory is named nor there, and series are; else None.

    Raises DirectoryError.
    """
    root, named_by = wanted(option, environment)
    if named_by in {"--dir", "$CRONHPC_DIR"} or os.path.lexists(root / MARKER):
        return None
    own = own_folder(environment)
    return own if os.path.lexists(own / MARKER) else None


def existing(option: str | None, environment: Mapping[str, str]) -> Paths:
    """The cron directory, which must be one (it holds the marker). Raises DirectoryError."""
    root, named_by = wanted(option, environment)
    try:
        os.lstat(root / MARKER)
    except FileNotFoundError:
        where, make = f"{root} (from {named_by})", command("init", directory=str(root))
        if not root.is_dir():
            raise DirectoryError(
                f"There is no folder {where}: not mounted, or not made yet. Nothing was done. Make it with: " + make
            ) from None
        raise DirectoryError(
            f"{where} is no cron directory: it has no {MARKER}. Nothing was done. Make it one with: " + make
        ) from None
    except OSError as error:
        raise DirectoryError(f"{root / MARKER} cannot be read: {error.strerror}. Nothing was done.") from None
    return Paths(root)


# --- the place where its id was made ----------------------------------------------------------------------------------
#
# A copy has the same id, and would take its jobs for its own.


def remember_place(paths: Paths) -> None:
    """It is at home here. Raises OSError."""
    here = os.fsencode(paths.root) + b"\n"
    if read_bytes(paths.state / "place") != here:
        replace_file(paths.state / "place", here)


def moved_from(paths: Paths) -> str:
    """The folder that it was in, if it has been elsewhere; "" where it was not, or nobody knows."""
    try:
        known = read_bytes(paths.state / "place") or b""
    except OSError:
        return ""
    place = os.fsdecode(known[:-1]) if known.endswith(b"\n") and known.startswith(b"/") else ""
    return "" if place == str(paths.root) or not place or _same(paths, place) else place


def must_be_no_copy(paths: Paths) -> None:
    """Raises StateError for a folder that was copied while the first one is still there."""
    place = moved_from(paths)
    if not place:
        return
    try:
        theirs, ours = (read_bytes(folder / "state" / "id") for folder in (Path(place), paths.root))
    except OSError:
        return  # not to be seen from here: nobody can tell
    if ours and theirs == ours:
        raise StateError(
            f"{paths.root} is a copy of {place} with the same id: each would take the other's jobs for its own. "
            "Nothing was done. " + id_of_its_own(paths)
        )


def id_of_its_own(paths: Paths) -> str:
    """What to type."""
    ids = [f"{paths.root}/{folder}/id" for folder in ("state", "scheduler")]
    return f"For one of its own: rm {shlex.join(ids)} && " + command("init", directory=str(paths.root))


def _same(paths: Paths, place: str) -> bool:
    """Whether both names lead to one folder, also through two mounts, whose device numbers differ."""
    try:
        here, there = (os.stat(f"{root}/state/id") for root in (paths.root, place))
    except OSError:
        return False
    return (here.st_ino, here.st_ctime_ns) == (there.st_ino, there.st_ctime_ns)
