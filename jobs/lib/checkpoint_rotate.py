"""checkpoint-rotate: remove old checkpoints. What stays, and why, is decided before anything goes.

Never removed: the last two complete ones, anything without the marker, anything that is a link or lies behind one.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import shelf
from shelf import Broken, Settings

LEAST = 2  # complete ones that stay, whatever is asked
_LATEST = ("latest", "latest_checkpointed_iteration.txt")  # where DeepSpeed and Megatron name the one to resume from
_PIN = "keep"  # a file of this name in a checkpoint keeps it
_REMOVING = re.compile(r"\.(.+)\.removing")  # on its way out; a run that was cut off is finished by the next


@dataclass(frozen=True)
class Checkpoint:
    """What is known of one entry of the folder. `at`: when its marker was written; None where there is none."""

    name: str
    step: int | None
    is_folder: bool = True
    at: float | None = None
    pinned: bool = False

    @property
    def complete(self) -> bool:
        """A real folder with a step in its name and the marker in it."""
        return self.is_folder and self.step is not None and self.at is not None


def step_of(name: str) -> int | None:
    """The last number in a name: global_step300, checkpoint-300, iter_0000300, step=300-v2 is 2 (so name a pattern)."""
    numbers = re.findall(r"[0-9]{1,18}", name)
    return int(numbers[-1]) if numbers else None


def plan(
    found: Sequence[Checkpoint], *, last: int, every: int, latest: frozenset[str] = frozenset()
) -> dict[Checkpoint, str]:
    """Why each stays, in the order of steps; "": it goes. `latest`: names or steps that are to be resumed from."""
    complete = [each for each in found if each.complete]
    last = max(last, LEAST)
    by_step = sorted({each.step for each in complete if each.step is not None})[-last:]
    by_time = sorted(complete, key=lambda each: each.at or 0)[-last:]  # after a restart from an older step

    def why(each: Checkpoint) -> str:
        reasons = (
            (not each.is_folder, "it is a link, or no folder"),
            (each.step is None, "there is no step in its name"),
            (each.at is None, "it has no marker: not complete, or not a checkpoint"),
            (each.step in by_step, f"one of the last {last}"),
            (each in by_time, f"one of the last {last} written"),
            (each.name in latest or str(each.step) in latest, "the one to resume from"),
            (each.pinned, f"it holds a file {_PIN}"),
            (every > 0 and each.step is not None and each.step % every == 0, f"a multiple of {every:,} steps"),
        )
        return next((words for applies, words in reasons if applies), "")

    return {each: why(each) for each in sorted(found, key=lambda each: (each.step is None, each.step or 0, each.name))}


# --- the folder ----------------------------------------------------------------------------------------------------


def look(folder: int, patterns: Sequence[str], marker: str) -> list[Checkpoint]:
    """What lies in an open folder and matches one of the patterns. Raises OSError."""
    return [
        _checkpoint(folder, name, marker)
        for name in sorted(os.listdir(folder))
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns) and not _REMOVING.fullmatch(name)
    ]


def _checkpoint(folder: int, name: str, marker: str) -> Checkpoint:
    if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
        return Checkpoint(name, step_of(name), is_folder=False)
    with shelf.opened(name, folder) as inside:
        pinned = _file_time(inside, _PIN) is not None
        return Checkpoint(name, step_of(name), at=_file_time(inside, marker), pinned=pinned)


def _file_time(folder: int, name: str) -> float | None:
    """When a file (no link) was written; None where there is none."""
    try:
        found = os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return None
    return found.st_mtime if stat.S_ISREG(found.st_mode) else None


def latest(folder: int) -> frozenset[str]:
    """What the files say that name the checkpoint to resume from."""
    words: set[str] = set()
    for name in _LATEST:
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with open(handle, "rb") as file:
                words.update(file.read(4096).decode("utf-8", "replace").split())
    return frozenset(words)


# --- removing ------------------------------------------------------------------------------------------------------


def remove(folder: int, name: str, marker: str) -> int:
    """Remove a checkpoint; the bytes it had. Raises Broken where it has changed since it was looked at, OSError.

    It gets another name first, so that nobody resumes from half of it; its marker goes last, so that what was cut off
    still shows what it is.
    """
    if not _checkpoint(folder, name, marker).complete:
        raise Broken(f"{shelf.shown(name)} is not complete any more: left alone")
    weigh(folder, name)  # what it cannot enter is found before anything is changed
    going = f".{name}.removing"
    os.rename(name, going, src_dir_fd=folder, dst_dir_fd=folder)
    return _remove_named(folder, going, marker)


def finish(folder: int, marker: str) -> list[str]:
    """Remove what an earlier run was cut off from removing; the names. Raises OSError."""
    done = []
    for name in sorted(os.listdir(folder)):
        if _REMOVING.fullmatch(name) and _checkpoint(folder, name, marker).at is not None:
            _remove_named(folder, name, marker)
            done.append(name)
    return done


def _remove_named(folder: int, name: str, marker: str) -> int:
    count = 0
    with shelf.opened(name, folder) as inside:
        for place, path, found in _all_of(inside):
            if path == marker:
                continue
            if stat.S_ISDIR(found.st_mode):
                os.rmdir(os.path.basename(path), dir_fd=place)
            else:
                os.unlink(os.path.basename(path), dir_fd=place)
                count += found.st_size
        os.unlink(marker, dir_fd=inside)
    os.rmdir(name, dir_fd=folder)
    return count


def weigh(folder: int, name: str) -> int:
    """The bytes of a checkpoint's files. Raises OSError, Broken."""
    with shelf.opened(name, folder) as inside:
        return sum(found.st_size for _, _, found in _all_of(inside) if not stat.S_ISDIR(found.st_mode))


def _all_of(inside: int) -> Iterator[tuple[int, str, os.stat_result]]:
    device = os.fstat(inside).st_dev
    for place, path, found in shelf.below(inside, strict=True):
        if found.st_dev != device:
            raise Broken(f"{shelf.shown(path)} is another file system: left alone")
        yield place, path, found


# --- the job -------------------------------------------------------------------------------------------------------


def rotate(place: Path, patterns: Sequence[str], marker: str, *, last: int, every: int, delete: bool) -> int:
    """One folder: say what stays and goes, and with `delete` remove it; how many could not be removed."""
    with shelf.opened(place) as folder:
        for name in finish(folder, marker) if delete else ():
            print(f"{place}: finished removing {shelf.shown(name)}")
        found = plan(look(folder, patterns, marker), last=last, every=every, latest=latest(folder))
        if not any(each.complete for each in found):
            print(f"{place}: no complete checkpoint here: no folder {' or '.join(patterns)} holds a file {marker}")
        return sum(not _carry_out(place, folder, *row, marker, delete=delete) for row in found.items())


def _carry_out(place: Path, folder: int, each: Checkpoint, stays: str, marker: str, *, delete: bool) -> bool:
    name, path = each.name, shelf.shown(place / each.name)
    if stays:
        print(f"keep    {path}: {stays}")
        return True
    try:
        if delete:
            print(f"removed {path}: {shelf.size(remove(folder, name, marker))}")
        else:
            print(f"would remove {path}: {shelf.size(weigh(folder, name))} (complete, and newer ones are there)")
    except (OSError, Broken) as error:
        print(f"not removed: {path}: {error}")
        return False
    return True


def main(settings: Settings) -> int:
    """Each folder in turn."""
    delete, (last, every) = settings.text("DELETE") == "yes", map(settings.number, ("LAST", "EVERY"))
    patterns, marker = settings.text("PATTERNS").split(), settings.text("MARKER")
    places = map(Path, settings.array("FOLDERS"))
    failed = sum(rotate(place, patterns, marker, last=last, every=every, delete=delete) for place in places)
    if not delete:
        print("nothing was removed: with DELETE=yes at the top of the script it is")
    return shelf.ALERT if failed else shelf.FINE


if __name__ == "__main__":
    shelf.run(main)
