"""`cronhpc history [NAME]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.commands import UsageError
from cronhpc.cli.common import count_of, instant_of, no_such, paths_of, settings_or_default, site_of
from cronhpc.core.model import CronhpcError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping

    from cronhpc.cli.door import Door
    from cronhpc.store.paths import Paths

OF_TRAINS = True
HELP = "What ran and how it ended, newest first; what has not ended yet is there, too."
EXAMPLE = """
cronhpc history
cronhpc history backup --since 7d
cronhpc history --state failed,missed -n 50
cronhpc history --state pending,running
"""
_AHEAD = 3600  # seconds: what was queued ahead of its slot may end before it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="an entry (else all)")
    parser.add_argument(
        "--state", metavar="STATES", help="only these: ok, failed, missed, killed, running … with commas"
    )
    parser.add_argument("--since", metavar="TIME", help="slots from then on: 7d, 2026-11-01, 2026-11-27T04:00")
    parser.add_argument("-n", dest="number", type=count_of, metavar="N", help="how many (else 20, or all with --since)")


def run(args: argparse.Namespace, door: Door) -> int:
    """Exit code 1 if nothing was found."""
    paths = paths_of(args, door)
    zone_key = settings_or_default(paths).timezone
    since = 0 if args.since is None else instant_of(args.since, door, zone_key, past=True)
    number = args.number or (20 if args.since is None else None)
    found = _newest(_wanted(args, _known(args, door, paths), since), number)
    if args.json:
        door.json({"since": args.since and since, "runs": found})
    elif found:
        from cronhpc.views.history import render

        door.say(render(found, door.style(zone_key)))
    else:
        door.say(_nothing(args, paths))
    return FINE if found or not args.name else ATTENTION


def _wanted(
    args: argparse.Namespace, rows: Iterable[tuple[int, Mapping[str, Any]]], since: int
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Of what is known, newest first by when it was written: what was asked for."""
    from cronhpc.views.runs import when

    states = _states(args.state)
    for written, known in rows:
        if written < since - _AHEAD:
            return
        named = args.name is None or known["entry"] == args.name
        if named and (not states or known["result"] in states) and when(known) >= since:
            yield written, known


def _known(args: argparse.Namespace, door: Door, paths: Paths) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Runs as facts, each with the instant it was written: what no tick has settled yet, then history.

    What a switch stopped is among them.
    """
    from cronhpc.store import history
    from cronhpc.views.runs import run_facts, switch_facts

    unsettled = _unsettled(args, door, paths)
    yield from ((door.now, known) for known in unsettled)
    shown = {_attempt(known) for known in unsettled}
    for row in history.rows(paths.history):
        known = switch_facts(row) if row.get("what") == "switch" else run_facts(row)
        if _attempt(known) not in shown:  # a tick may settle it at this moment
            yield int(row.get("at") or 0), known


def _attempt(known: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(known[each] for each in ("entry", "slot", "attempt", "by_hand"))


def _unsettled(args: argparse.Namespace, door: Door, paths: Paths) -> list[dict[str, Any]]:
    """What is claimed and not in history yet. The queue is asked only where there is such a claim."""
    from cronhpc.store.claims import Claims
    from cronhpc.views.runs import unsettled

    try:
        steps = Claims(paths.claims).names().values()
    except FileNotFoundError:  # nothing was ever claimed here
        return []
    if not any(each - {""} for each in steps):
        return []
    from cronhpc.core.plan import plan
    from cronhpc.read import read_world

    try:
        world = read_world(site_of(args, door), door.now).world
    except CronhpcError as error:  # history is there to be read also where the batch system is not
        door.complain(f"what has not ended yet is not shown: {error}")
        return []
    return unsettled(world, plan(world))


def _newest(rows: Iterator[tuple[int, Mapping[str, Any]]], number: int | None) -> list[Mapping[str, Any]]:
    """The newest by slot. Rows come by when they were written, which is after their slot: so the end is soon known."""
    import heapq

    from cronhpc.views.runs import when

    found: list[Mapping[str, Any]] = []
    newest: list[int] = []
    for written, row in rows:
        if number is not None and len(newest) == number and newest[0] >= written + _AHEAD:
            break
        found.append(row)
        if number is not None:
            keep = heapq.heappush if len(newest) < number else heapq.heappushpop
            keep(newest, when(row))
    found.sort(key=when, reverse=True)
    return found[:number]


def _states(text: str | None) -> frozenset[str]:
    """The results meant; `failed` means every kind of failure. Raises UsageError."""
    from cronhpc.core.model import FAILURES, Result
    from cronhpc.views.runs import LIVE

    if text is None:
        return frozenset()
    wanted: set[str] = set()
    for word in (part.strip().lower().replace("-", " ").replace("_", " ") for part in text.split(",")):
        if word == "failed":
            wanted.update(map(str, FAILURES))
        elif word == "unknown":
            wanted.add(str(Result.UNKNOWN))
        elif word in {*map(str, Result), *LIVE}:
            wanted.add(word)
        else:
            there = ", ".join([*map(str, Result), *LIVE])
            raise UsageError(f"cronhpc history: no result is called {word!r}. There are: {there}")
    return frozenset(wanted)


def _names(paths: Paths) -> set[str]:
    """Of entries that are there, as far as can be told without a look into their scripts, and of those that were."""
    from cronhpc.store import memory

    scripts = {path.stem for folder in paths.root.glob("cron.*/") for path in folder.glob("*.slurm")}
    rows = {row.name for row in settings_or_default(paths).entries}
    return scripts | rows | set(memory.load(paths.entries).entries)


def _nothing(args: argparse.Namespace, paths: Paths) -> str:
    """Raises NoSuchError for a name that nothing has."""
    from cronhpc.core.model import command
    from cronhpc.views.text import name

    if args.name and args.name not in (known := _names(paths)):
        raise no_such("entry", args.name, known)

    asked = [f"--state {args.state}"] if args.state else []
    asked += [f"--since {args.since}"] if args.since else []
    if asked:
        return f"nothing ran{' of ' + name(args.name) if args.name else ''} with {' '.join(asked)}"
    if args.name:
        return f"nothing of {name(args.name)} has run yet; now: " + command("run", args.name)
    return (
        "nothing is recorded yet: the next tick does it (now: " + command("tick") + "); what comes: " + command("next")
    )
