"""`cronhpc history [NAME]` and `cronhpc logs NAME`."""

from __future__ import annotations

import glob
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.commands import Command
from cronhpc.cli.console import Console, NoSuchError, UsageError, count_of, entry_argument, no_such
from cronhpc.cli.runs import (
    AHEAD,
    Follower,
    entry_meant,
    entry_named,
    job_id,
    known_runs,
    no_run_of,
)
from cronhpc.core.model import FAILURES, Advice, Entry, Result, StateError, command, entry_id, slot_of, slot_text
from cronhpc.core.model.decode import iso
from cronhpc.cron.values import dataclass, grouped
from cronhpc.script.spelling import own_output
from cronhpc.store import memory, series_records
from cronhpc.store.files import Paths, open_file
from cronhpc.views import Facts, text
from cronhpc.views.facts import LIVE, Live
from cronhpc.views.runs import first_failed, result_words, slot_or_end
from cronhpc.views.times import took

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

    from cronhpc.views.facts import HistoryRun


_HISTORY_HELP = "What ran and how it ended, newest first; what has not ended yet is there, too."
_HISTORY_EXAMPLE = """
cronhpc history
cronhpc history --since yesterday --sort took
cronhpc history backup --since 7d
cronhpc history --state failed,missed -n 50
cronhpc history --state pending,running
"""
_SORTS: dict[str, Callable[[HistoryRun], int | str]] = {
    "slot": lambda _: 0,  # as they come
    "took": lambda run: -(run.took or 0),
    "waited": lambda run: -(run.waited or 0),
    "entry": lambda run: run.entry,
    "result": lambda run: run.result,
}


def _history_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="an entry, or a job's id (else all)")
    parser.add_argument(
        "--state", metavar="STATES", help="only these: ok, failed, missed, killed, running … with commas"
    )
    parser.add_argument("--since", metavar="TIME", help="slots from then on: yesterday, 7d, 2026-11-27T04:00")
    parser.add_argument("--sort", choices=tuple(_SORTS), default="slot", help="by what: the newest, the longest first")
    parser.add_argument("-n", dest="number", type=count_of, metavar="N", help="how many (else 20, or all with --since)")


def _history(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if nothing was found."""
    paths = console.paths()
    zone_key = console.settings().timezone
    since = 0 if args.since is None else console.instant(args.since, zone_key, past=True)
    number = args.number or (20 if args.since is None else None)
    among = number if args.sort == "slot" else None
    runs = _newest(_asked_for(args, known_runs(console, paths), since), among)
    runs = sorted(runs, key=_SORTS[args.sort])[:number]
    if console.as_json:
        console.json({"since": args.since and since, "runs": runs})
    elif runs:
        from cronhpc.views.reports import history as render

        console.say(render(runs, console.style(zone_key)))
    else:
        console.say(_nothing_found(args, console))
    return FINE if runs or not args.name else ATTENTION


def _asked_for(
    args: argparse.Namespace, rows: Iterable[tuple[int, HistoryRun]], since: int
) -> Iterator[tuple[int, HistoryRun]]:
    """Of what is known, newest first by when it was written: what was asked for."""
    states, job = _results_asked_for(args.state), job_id(args.name)
    for written, run in rows:
        if written < since - AHEAD:
            return
        named = args.name is None or (run.job == job if job else run.entry == args.name)
        if named and (not states or run.result in states) and slot_or_end(run) >= since:
            yield written, run


def _newest(rows: Iterator[tuple[int, HistoryRun]], number: int | None) -> list[HistoryRun]:
    """The newest by slot. Rows come by when they were written, which is after their slot: so the end is soon known."""
    import heapq

    runs: list[HistoryRun] = []
    newest: list[int] = []
    for written, run in rows:
        if number is not None and len(newest) == number and newest[0] >= written + AHEAD:
            break
        runs.append(run)
        if number is not None:
            keep = heapq.heappush if len(newest) < number else heapq.heappushpop
            keep(newest, slot_or_end(run))
    return sorted(runs, key=lambda run: (slot_or_end(run), run.attempt), reverse=True)[:number]


def _results_asked_for(text: str | None) -> frozenset[str]:
    """The results meant; `failed` means every kind of failure. Raises UsageError."""
    if text is None:
        return frozenset()
    names = dict.fromkeys([*map(str, Result), *Live])
    meanings = {name: {name} for name in names}
    meanings |= {"failed": {*map(str, FAILURES)}, "unknown": {str(Result.UNKNOWN)}}
    wanted: set[str] = set()
    for word in (part.strip().lower().replace("-", " ").replace("_", " ") for part in text.split(",")):
        if word not in meanings:
            raise UsageError(f"cronhpc history: no result is called {word!r}. There are: {', '.join(names)}")
        wanted |= meanings[word]
    return frozenset(wanted)


def _names(console: Console) -> set[str]:
    """Of entries that are there, as far as can be told without a look into their scripts, and of those that were."""
    paths = console.paths()
    scripts = {path.stem for folder in paths.root.glob("cron.*/") for path in folder.glob("*.slurm")}
    rows = {row.name for row in console.settings().entries}
    return scripts | rows | set(memory.load(paths.entries).entries)


def _nothing_found(args: argparse.Namespace, console: Console) -> str:
    """Raises NoSuchError for a name that nothing has."""
    if job_id(args.name):
        raise no_run_of(job_id(args.name))
    if args.name is not None and args.name not in (names := _names(console)):
        raise no_such("entry", args.name, names)
    limits = [f"--state {args.state}"] if args.state else []
    limits += [f"--since {args.since}"] if args.since else []
    if limits:
        return f"nothing ran{' of ' + text.name(args.name) if args.name else ''} with {' '.join(limits)}"
    if args.name:
        return f"nothing of {text.name(args.name)} has run yet; now: " + command("run", args.name)
    return _nothing_recorded()


def _nothing_recorded() -> str:
    return Advice(
        "nothing is recorded yet: the next tick does it (now: ", command("tick"), "); what comes: ", command("next")
    )


# --- logs -------------------------------------------------------------------------------------------------------------


_LOGS_HELP = "What a run printed: the newest one's log, or another's. Without a NAME: the runs that can be asked for."
_LOGS_EXAMPLE = """
cronhpc logs
cronhpc logs backup
cronhpc logs 4655                    # of that job
cronhpc logs backup -f
cronhpc logs backup --run 2          # the one before
cronhpc logs backup --job 4655
"""
_TAIL = 1 << 22  # bytes looked at for the last lines
_ON_TERMINAL = 100  # lines
_ON_SCREEN = 20  # runs
_SLOT = re.compile(r"\d{8}T\d{4}")
_JOB = re.compile(r"-(?P<job>\d+)(?:_(?P<task>\d+))?\.\w+$")


def _logs_arguments(parser: argparse.ArgumentParser) -> None:
    entry_argument(parser, nargs="?")
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
    path: Path
    job: str
    size: int
    modified: int
    task: str = ""  # of an array


def _log(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if there is none."""
    paths = console.paths()
    if args.name is None:
        return _runs_with_logs(args, console, paths)
    wanted = args.job or args.name
    job = job_id(wanted) or args.job
    task = wanted.partition("_")[2] if job else ""
    name = entry_meant(args.name, console, paths)
    logs = _logs(paths, name)
    runs = _RunsAsRead(known_runs(console, paths, name))
    run = runs.of_job(job) if job else runs.newest(console.now) if args.back == 1 else None
    if run is not None and run.job not in {log.job for log in logs} and _has_its_log_here(name, console):
        if run.result in LIVE:
            return _no_log_yet(run, logs, paths, console, follow=args.follow)
        if not job and logs:
            console.complain(f"the newest run left no log: {_run_words(run, console)}")
    chosen = _logs_of_run(logs, job, task, args.back)
    if not chosen:
        return _no_log(name, job and wanted, args.back, console, logs)
    log, others = chosen[0], len(chosen) - 1
    run = runs.of_job(log.job) if console.as_json or console.is_terminal or others else None
    if others and not args.follow:  # of an array
        first = first_failed(run) if run else ""
        log = next((each for each in chosen if first and each.task == first), log)
    if console.as_json:
        text = "\n".join(_last_lines(log.path, args.lines)[0])
        console.json({**_log_facts(log, paths, name), "run": run, "text": text})
        return FINE
    if console.is_terminal:
        _say_which_log(run, log, others, console)
    if not log.size and not args.follow:
        run = run or runs.of_job(log.job)
        goes_on = run is not None and run.result in LIVE
        console.complain(f"job {log.job} {'has printed nothing yet' if goes_on else 'printed nothing'}")
    _print(log, paths, args, console)
    return FINE


def _say_which_log(run: HistoryRun | None, log: Log, others: int, console: Console) -> None:
    if run is not None:
        console.say(_run_words(run, console))
    if others and log.task:
        console.say(f"task {log.task} of {others + 1}; another's: " + command("logs", f"{log.job}_TASK"))


def _logs_of_run(logs: list[Log], job: str | None, task: str, back: int) -> list[Log]:
    """Of the run that is meant: of an array one a task, the last written to first."""
    by_run = _by_run(logs)
    if not job:
        return [*by_run.values()][back - 1] if back <= len(by_run) else []
    return [log for log in by_run.get(job, []) if not task or log.task == task]


def _by_run(logs: list[Log]) -> dict[str, list[Log]]:
    return grouped(logs, lambda log: log.job or str(log.path))  # where no name says of which job: a run's of its own


class _RunsAsRead:
    """Runs, the newest first, read only as far as they are asked for."""

    def __init__(self, rows: Iterator[tuple[int, HistoryRun]]) -> None:
        self.rows = rows
        self.read: list[HistoryRun] = []

    def _all(self) -> Iterator[HistoryRun]:
        yield from self.read
        for _, run in self.rows:
            self.read.append(run)
            yield run

    def of_job(self, job: str) -> HistoryRun | None:
        return next((run for run in self._all() if run.job == job), None) if job else None

    def newest(self, now: int) -> HistoryRun | None:
        """Of those whose slot has come."""
        return next((run for run in self._all() if run.job and slot_or_end(run) <= now), None)


def _has_its_log_here(name: str, console: Console) -> bool:
    """Whether cronhpc names the logs of the entry; those of a series Slurm does."""
    return any(each.name == name and each.output for each in console.entries())


def _run_words(run: HistoryRun, console: Console) -> str:
    """`backup: job 4655, slot 04:47, failed (1) after 12s on cpu1`."""
    style = console.style()
    slot = run.slot
    origin = "by hand " if run.by_hand else "slot "
    which = f", {origin}{style.clock(slot)}" if slot is not None else ""
    which += f" #{run.attempt}" if run.attempt > 1 else ""
    after = f" after {took(run.took)}" if run.took is not None else ""
    where = f" on {run.node}" if run.node else ""
    return f"{text.name(run.entry)}: job {run.job}{which}, {result_words(run)}{after}{where}"


def _no_log_yet(run: HistoryRun, logs: list[Log], paths: Paths, console: Console, *, follow: bool) -> int:
    """Of a run that has not ended and has no log yet, beside `logs`: what it waits for. With -f its log is, too."""
    why = f": {run.detail}" if run.detail else ""
    if run.result == Live.RUNNING:
        words = "runs, and has printed nothing yet"
    else:
        words = f"waits{why}; it has printed nothing yet" if run.result != Live.SUBMITTED else "has printed nothing yet"
    state = f"job {run.job} {words}"
    before = ". Before it: " + command("logs", run.entry, options=("--job", logs[0].job)) if logs else ""
    facts = {"entry": run.entry, "job": run.job, "run": run, "log": None, "text": ""}
    console.answer(facts, lambda: Advice(state, "." if follow else before), aside=True)
    if console.as_json or not follow:
        return ATTENTION
    log = f"{slot_text(slot_or_end(run))}-{run.job}*.out"
    return Follower(paths.log / entry_id(run.entry), log, console).go_on()


def _runs_with_logs(args: argparse.Namespace, console: Console, paths: Paths) -> int:
    """The newest runs, each with the job that names it."""
    from cronhpc.views.reports import history as render

    if args.job or args.follow or args.back > 1:
        raise UsageError("cronhpc logs: of which entry, or job? See: " + command("logs"))
    begun = ((at, run) for at, run in known_runs(console, paths) if run.job and slot_or_end(run) <= console.now)
    runs = _newest(begun, _ON_SCREEN)
    if console.as_json:
        console.json({"runs": runs})
    elif runs:
        console.say(render(runs, console.style(console.settings().timezone)))
        console.say(
            "\nthe log of one: " + command("logs", "JOB") + "; of an entry's newest: " + command("logs", "NAME")
        )
    else:
        console.say(_nothing_recorded())
    return FINE


def _logs(paths: Paths, name: str) -> list[Log]:
    """The entry's logs, newest first: names begin with the slot, and sort by it without its Z; others come last."""
    folder = paths.log / entry_id(name)
    try:
        with os.scandir(folder) as files:
            entries = [each for each in files if each.is_file(follow_symlinks=False)]
            logs = [_log_of(folder / each.name, each.stat(follow_symlinks=False)) for each in entries]
    except FileNotFoundError:
        return _of_one_series(paths, name)

    def age(log: Log) -> tuple[bool, str, int, str]:
        name = log.path.name
        return bool(_SLOT.match(name)), name.partition("-")[0].rstrip("Z"), log.modified, name

    return sorted(logs, key=age, reverse=True)


def _log_of(path: Path, status: os.stat_result, job: str = "") -> Log:
    """Of the job in its name, where nobody says of which."""
    match = _JOB.search(path.name)
    named, task = match.group("job", "task") if match else ("", "")
    return Log(path, job or named, status.st_size, int(status.st_mtime), task or "")


def _of_one_series(paths: Paths, name: str) -> list[Log]:
    """Where Slurm said that the pieces of a series print; often it is one file."""
    try:
        record = series_records.load(paths.state, name)
    except (OSError, StateError):
        return []
    logs: dict[str, Log] = {}
    for job, path in reversed(record.logs if record else []):
        with suppress(OSError):
            logs.setdefault(path, _log_of(Path(path), os.stat(path), job))  # noqa: PTH116 - beside scandir's
    return list(logs.values())


def _log_facts(log: Log, paths: Paths, name: str) -> Facts:
    try:
        slot = iso(slot_of(log.path.name.partition("-")[0]))
    except ValueError:
        slot = None
    return {
        "entry": name,
        "log": paths.relative(log.path),
        "job": log.job or None,
        "slot": slot,
        "size": log.size,
        "modified": iso(log.modified),
    }


def _no_log(name: str, job: str | None, back: int, console: Console, logs: list[Log]) -> int:
    """`job`: the one that was asked for, else the run number `back`."""
    if logs:
        of_job = f"{text.count(len(logs), 'log')}, and none of job {job}"
        of_run = f"logs of {text.count(len(_by_run(logs)), 'run')}, and none number {back}"
        why: str = f"has {of_job if job else of_run}. See: " + command("history", name)
    elif (problem := (entry := _without_log(name, console)).problem) is not None:
        why = "has no log yet, and is not run as it is: " + problem.advice
    elif entry.output:
        why = "has no log yet. Now: " + command("run", name)
    else:
        why = f"names its own output in {entry.source} ({own_output(console.site().batch.dialect)}): look there."
    why = f"{text.name(name)} " + why
    console.answer({"error": why}, lambda: why, aside=True)
    return ATTENTION


def _without_log(name: str, console: Console) -> Entry:
    """The entry of that name. Raises NoSuchError, of a series with where it prints to."""
    entries, paths = console.entries(), console.paths()
    series = next((each for each in series_records.every(paths.state) if each.name == name), None)
    if series is None or any(each.name == name for each in entries):
        return entry_named(name, entries, paths)
    in_script = f"{own_output(console.site().batch.dialect)} in {series.script}"
    places = ", ".join(path for _, path in series.logs) or in_script
    raise NoSuchError(f"{text.name(name)} has no log that can be read here. It prints to: {places}")


# --- printing ------------------------------------------------------------------------------------------------------


def _print(log: Log, paths: Paths, args: argparse.Namespace, console: Console) -> None:
    number = args.lines or (_ON_TERMINAL if console.is_terminal else None)
    if console.is_terminal:
        style = console.style()
        facts = f"{text.size(log.size)}, written {style.distance(log.modified)}"
        console.say(style.paint(f"==> {text.clean(paths.relative(log.path))} ({facts})", "dim"))
    with open_file(log.path) as file:
        if number is None:
            for part in iter(lambda: file.read(1 << 16), b""):
                console.put(part)
        else:
            lines, left_out = _last_lines(log.path, number)
            if left_out:
                last = "line" if len(lines) == 1 else text.count(len(lines), "line")
                console.say(f"... the last {last}; all of it: cat {text.clean(str(log.path))}")
            for line in lines:
                console.put(f"{line}\n".encode())
            file.seek(0, os.SEEK_END)
        end = file.tell()
    if args.follow:
        Follower(log.path.parent, glob.escape(log.path.name), console, {log.path.name: end}, log.path.name).go_on()


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


COMMANDS = {
    "history": Command(_HISTORY_HELP, _HISTORY_EXAMPLE, _history, _history_arguments, of_series=True),
    "logs": Command(_LOGS_HELP, _LOGS_EXAMPLE, _log, _logs_arguments, of_series=True),
}
