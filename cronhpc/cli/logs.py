"""`cronhpc logs NAME`."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.common import count_of, no_such, paths_of
from cronhpc.store.files import open_file

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from cronhpc.cli.door import Door
    from cronhpc.store.paths import Paths

OF_TRAINS = True
HELP = "What a run printed: the newest one's log, or another's."
EXAMPLE = """
cronhpc logs backup
cronhpc logs backup -f
cronhpc logs backup --run 2          # the one before
cronhpc logs backup --job 4655
"""
_LOOK = 0.5  # seconds between looks of -f
_TAIL = 1 << 22  # bytes looked at for the last lines
_ON_TERMINAL = 100  # lines
_JOB = re.compile(r"-(?P<job>\d+)(?:_\d+)?\.\w+$")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    parser.add_argument("name", metavar="NAME", help="an entry")
    parser.add_argument("-f", "--follow", action="store_true", help="go on printing what comes, until Ctrl-C")
    parser.add_argument("--run", dest="back", type=count_of, default=1, metavar="N", help="the N-th newest (else 1)")
    parser.add_argument("--job", metavar="ID", help="the run of this job")
    parser.add_argument(
        "-n",
        "--lines",
        type=count_of,
        metavar="N",
        help=f"the last N lines (else {_ON_TERMINAL} on a terminal, or all)",
    )


@dataclass(frozen=True, slots=True)
class Log:
    """One run's file."""

    path: Path
    job: str
    size: int
    modified: int


def run(args: argparse.Namespace, door: Door) -> int:
    """Exit code 1 if there is none."""
    paths = paths_of(args, door)
    logs = _logs(paths, args.name)
    chosen = [log for log in logs if log.job == args.job] if args.job else logs[args.back - 1 :]
    if not chosen:
        return _none(args, door, logs)
    log = chosen[0]
    if args.json:
        door.json({**_facts(log, paths, args.name), "text": "\n".join(_last_lines(log.path, args.lines)[0])})
        return FINE
    _print(log, paths, args, door)
    return FINE


def _logs(paths: Paths, name: str) -> list[Log]:
    """The entry's logs, newest first: names begin with the slot, so they sort by it."""
    from cronhpc.core.model import entry_id

    folder = paths.log / entry_id(name)
    found = []
    try:
        with os.scandir(folder) as rows:
            for row in rows:
                if row.is_file(follow_symlinks=False):
                    status, match = row.stat(follow_symlinks=False), _JOB.search(row.name)
                    found.append(
                        Log(folder / row.name, match["job"] if match else "", status.st_size, int(status.st_mtime))
                    )
    except FileNotFoundError:
        return _of_train(paths, name)
    return sorted(found, key=lambda log: (log.path.name.partition("-")[0], log.modified, log.path.name), reverse=True)


def _of_train(paths: Paths, name: str) -> list[Log]:
    """Where Slurm said that the pieces of a train print; often it is one file."""
    from pathlib import Path

    from cronhpc.core.model import StateError
    from cronhpc.store import trains

    try:
        record = trains.load(paths.state, name)
    except (OSError, StateError):
        return []
    found: dict[str, Log] = {}
    for job, path in reversed(record.logs if record else []):
        with suppress(OSError):
            status = os.stat(path)  # noqa: PTH116 - beside scandir's
            found.setdefault(path, Log(Path(path), job, status.st_size, int(status.st_mtime)))
    return list(found.values())


def _facts(log: Log, paths: Paths, name: str) -> dict[str, Any]:
    from cronhpc.core.model import slot_of
    from cronhpc.views.times import iso

    try:
        slot = iso(slot_of(log.path.name.partition("-")[0]))
    except ValueError:
        slot = None
    return {
        "entry": name,
        "log": paths.shown(log.path),
        "job": log.job or None,
        "slot": slot,
        "size": log.size,
        "modified": iso(log.modified),
    }


def _none(args: argparse.Namespace, door: Door, logs: list[Log]) -> int:
    from cronhpc.core.model import command
    from cronhpc.views.text import count, name

    if logs:
        which = f"of job {args.job}" if args.job else f"number {args.back}"
        door.complain(
            f"{name(args.name)} has {count(len(logs), 'log')}, and none {which}. See: " + command("history", args.name)
        )
        return ATTENTION
    entry = _entry(args, door)
    if entry.problem is not None:
        refused = f"{name(args.name)} has no log yet, and is not run as it is: "
        door.complain(refused + entry.problem.advice)
    elif entry.output:
        door.complain(f"{name(args.name)} has no log yet. Now: " + command("run", args.name))
    else:
        door.complain(f"{name(args.name)} names its own output in {entry.source} (#SBATCH --output): look there.")
    return ATTENTION


def _entry(args: argparse.Namespace, door: Door) -> Any:
    from cronhpc.cli.common import site_of
    from cronhpc.read_entries import read_entries

    entries = {entry.name: entry for entry in read_entries(site_of(args, door), door.now, [])}
    if args.name not in entries:
        _no_log_of_a_train(args, door)
        raise no_such("entry", args.name, entries)
    return entries[args.name]


def _no_log_of_a_train(args: argparse.Namespace, door: Door) -> None:
    """Raises NoSuchError where the name is a train's."""
    from cronhpc.cli.common import NoSuchError
    from cronhpc.store import trains
    from cronhpc.views.text import name

    known = next((each for each in trains.every(paths_of(args, door).state) if each.name == args.name), None)
    if known is not None:
        places = ", ".join(path for _, path in known.logs) or f"#SBATCH --output in {known.script}"
        raise NoSuchError(f"{name(args.name)} has no log that can be read here. It prints to: {places}")


# --- printing ------------------------------------------------------------------------------------------------------


def _print(log: Log, paths: Paths, args: argparse.Namespace, door: Door) -> None:
    from cronhpc.views.text import clean, count, size

    number = args.lines or (_ON_TERMINAL if door.is_terminal else None)
    if door.is_terminal:
        style = door.style()
        facts = f"{size(log.size)}, written {style.distance(log.modified)}"
        door.say(style.paint(f"==> {clean(paths.shown(log.path))} ({facts})", "dim"))
    with open_file(log.path) as file:
        if number is None and not door.is_terminal:
            for part in iter(lambda: file.read(1 << 16), b""):
                _raw(part, door)
        else:
            lines, left_out = _last_lines(log.path, number)
            if left_out:
                last = count(len(lines), "line").removeprefix("1 ")
                door.say(f"... the last {last}; all of it: cat {clean(str(log.path))}")
            for line in lines:
                door.say(_shown(line, door))
            file.seek(0, os.SEEK_END)
        if args.follow:
            _follow(file, door)


def _raw(part: bytes, door: Door) -> None:
    """A pipe gets the very bytes."""
    buffer = getattr(door.out, "buffer", None)
    if buffer is None:
        door.out.write(part.decode("utf-8", "replace"))
    else:
        door.out.flush()
        buffer.write(part)


def _shown(line: str, door: Door) -> str:
    from cronhpc.views.text import lines

    return lines(line) if door.is_terminal else line


def _last_lines(path: Path, number: int | None) -> tuple[list[str], bool]:
    """The last lines of a file, and whether any were left out. A huge file is not read from its beginning."""
    with open_file(path) as file:
        end = file.seek(0, os.SEEK_END)
        start = max(end - _TAIL, 0) if number is not None else 0
        file.seek(start)
        lines = file.read(end - start).decode("utf-8", "replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    cut = number is not None and len(lines) > number
    return (lines[-number:] if number is not None else lines), cut or start > 0


def _follow(file: IO[bytes], door: Door) -> None:
    for part in _coming(file, door):
        if door.is_terminal:
            door.out.write(_shown(part.decode("utf-8", "replace"), door))
        else:
            _raw(part, door)
        door.out.flush()


def _coming(file: IO[bytes], door: Door) -> Iterator[bytes]:
    while True:
        part = file.read(1 << 16)
        if part:
            yield part
        else:
            door.wait(_LOOK)
