"""Runs as the command line knows them: what no tick has finished yet, then history; and the text that one prints."""

from __future__ import annotations

import glob
import re
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from cronhpc.cli.console import Console, NoSuchError, no_such
from cronhpc.core.model import CronhpcError, Entry, command, entry_id
from cronhpc.store import history, memory
from cronhpc.store.claims import Claims
from cronhpc.store.entries import SUFFIX
from cronhpc.store.files import Paths, open_file
from cronhpc.views import text
from cronhpc.views.facts import LIVE
from cronhpc.views.runs import run_facts, slot_or_end, switch_facts, unfinished

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cronhpc.views.facts import HistoryRun

AHEAD = 3600  # seconds: what was queued ahead of its slot may end before it
_JOB_ID = re.compile(r"(\d+)(?:_\S*)?")


def known_runs(console: Console, paths: Paths, entry: str = "") -> Iterator[tuple[int, HistoryRun]]:
    """Runs as facts, each with the instant it was written: what no tick has finished yet, then history.

    What a switch stopped is among them. Of one `entry`: its runs alone.
    """
    mine = (run for run in _unfinished(console, paths, entry) if entry in {"", run.entry})
    unfinished = sorted(mine, key=slot_or_end, reverse=True)
    yield from ((console.now, run) for run in unfinished)
    attempts = {_attempt(run) for run in unfinished}
    for row in history.rows(paths.history):
        run = switch_facts(row) if row.get("what") == "switch" else run_facts(row)
        if entry in {"", run.entry} and not (attempts and _attempt(run) in attempts):  # a tick may finish it meanwhile
            yield row.get("at", 0), run


def ended_runs(console: Console, entry: str) -> Iterator[tuple[int, HistoryRun]]:
    """Of those of one entry what has ended, or was passed over."""
    runs = known_runs(console, console.paths(), entry)
    return ((at, run) for at, run in runs if run.result not in LIVE and not run.switch and run.slot is not None)


def _attempt(run: HistoryRun) -> tuple[str, int | None, int, bool]:
    return run.entry, run.slot, run.attempt, run.by_hand


def _unfinished(console: Console, paths: Paths, entry: str) -> list[HistoryRun]:
    """What is claimed and not in history yet. The queue is asked only where there is such a claim, of the entry."""
    try:
        names = Claims(paths.claims).names()
    except FileNotFoundError:  # nothing was ever claimed here
        return []
    asked = {str(key) for key in names if not entry or key.entry == entry_id(entry)}
    try:
        if not asked or asked <= _written(memory.load(paths.entries)):
            return []
        from cronhpc.core.plan import plan
        from cronhpc.engine.read import read_world

        world = read_world(console.site(), console.now).world
    except (CronhpcError, OSError) as error:  # history is there to be read also where the rest is not
        console.complain(f"what has not ended yet is not shown: {error}")
        return []
    return unfinished(world, plan(world))


def _written(kept: memory.Memory) -> set[str]:
    """The claims, as texts, whose ends history has."""
    noted = {each.partition(" ")[0] for each in kept.scheduler.noted}
    return noted | {state.finished for state in kept.entries.values()}


# --- a job's id in place of a name ------------------------------------------------------------------------------------


def job_id(name: str | None) -> str:
    """The job that `27` or `27_3` means; "" for any other word. No entry has such a name."""
    match = _JOB_ID.fullmatch(name or "")
    return match[1] if match else ""


def entry_meant(name: str, console: Console, paths: Paths) -> str:
    """The name, or the entry of the job whose id was. Raises NoSuchError where no run was that job."""
    job = job_id(name)
    if not job:
        return name
    for _, run in known_runs(console, paths):
        if run.job == job:
            return run.entry
    raise no_run_of(job)


def entry_named(name: str, entries: Sequence[Entry], paths: Paths, see: str = "") -> Entry:
    """The entry of that name. Raises NoSuchError with the nearest one."""
    for entry in entries:
        if entry.name == name:
            return entry
    raise no_entry(name, (entry.name for entry in entries), paths, see)


def no_entry(name: str, names: Iterable[str], paths: Paths, see: str = "") -> NoSuchError:
    """The error for a name that no entry has; of one that there was its owner is told what is left, and where."""
    state = memory.load(paths.entries).entries.get(name) if paths.is_mine else None
    rows = history.rows(paths.history) if paths.is_mine else ()
    if state is None and not any(row.get("entry") == name for row in rows):
        return no_such("entry", name, names, see=see or command("status"))
    back = ""
    kept = sorted((paths.root / "trash").glob(f"{glob.escape(name)}.*{SUFFIX}"))
    if kept and state is not None and state.source.endswith(SUFFIX):
        back = f"; bring it back: mv -n {text.word(str(kept[-1]))} {text.word(str(paths.root / state.source))}"
    gone = f"{text.name(name)} is no entry any more: its script was removed, moved or renamed."
    return NoSuchError(f"{gone} What it ran: ", command("history", name), back)


def no_run_of(job: str) -> NoSuchError:
    """The error for a job that is none of ours."""
    return NoSuchError(f"No run here was job {job}. See: " + command("history"))


# --- what a run prints ------------------------------------------------------------------------------------------------


_LOOK = 0.5  # seconds between looks


class Follower:
    """Prints what comes in the logs of one run; of an array's several, each under its name.

    `names`: a glob pattern of theirs; `printed`: bytes of each that are printed already, those of `last` last.
    """

    def __init__(
        self, folder: Path, names: str, console: Console, printed: Mapping[str, int] | None = None, last: str = ""
    ) -> None:
        self.folder, self.names, self.console = folder, names, console
        self.printed, self.last = dict(printed or {}), last

    def go_on(self) -> NoReturn:
        """Print what comes, until Ctrl-C."""
        while True:
            self.more()
            self.console.wait(_LOOK)

    def more(self) -> None:
        """Print what is new. A log that is not there yet comes later."""
        for path in sorted(self.folder.glob(self.names)):
            with suppress(OSError), open_file(path) as file:  # opened anew: only so NFS shows what came since
                file.seek(self.printed.get(path.name, 0))
                while part := file.read(1 << 16):
                    self._print(path.name, part)
                self.printed[path.name] = file.tell()
        self.console.out.flush()

    def _print(self, name: str, part: bytes) -> None:
        if "_" in name and self.last != name:  # a task of an array
            self.console.put(f"==> {name}\n".encode())
        self.last = name
        self.console.put(part)
