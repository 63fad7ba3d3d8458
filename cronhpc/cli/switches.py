"""`cronhpc kill`, `unkill`, `pause` and `resume`: they only write files, so any teammate may use them."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.commands import Command, UsageError
from cronhpc.cli.common import (
    instant_of,
    is_mine,
    keeps_series_only,
    paths_of,
    settings_or_default,
    site_of,
    written_status,
)
from cronhpc.core.model import CronhpcError, StateError, command, joined

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from cronhpc.cli.console import Console
    from cronhpc.core.model import Outcome
    from cronhpc.store.paths import Paths
    from cronhpc.views import Facts


_COST = (
    "what it holds keeps its id and submit time; the waiting time that its priority counts may begin anew when it is "
    "released (Slurm's rule; your site's limits decide)"
)
_UNDO = {"kill": "unkill", "pause": "resume"}


def _set_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="an entry, job id, job name, configured switch, or ALL")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; shown wherever the switch is")
    parser.add_argument("--expires", metavar="TIME", help="it stands until then: 2h, or 2026-11-27T18:00")


def _set(args: argparse.Namespace, console: Console, kind: str) -> int:
    """Make the switch; say when it acts and how to undo it. The owner's scheduler does the stopping and holding."""
    from cronhpc.store.switches import set_switch

    paths = paths_of(args, console)
    settings = settings_or_default(paths)
    folder = _folder(paths, kind)
    expires = _expiry(args, console, settings.timezone)
    made = set_switch(folder, args.name, args.reason, expires, settings.kill_group)
    known = _written(paths, console)
    facts = {
        "switch": args.name,
        "kind": kind,
        "path": str(folder / args.name),
        "made": made,
        **(_at_once(args, console, paths) or _effect(known, paths)),
        "undo": command(_UNDO[kind], args.name),
    }
    if not args.json:
        console.say(_words(facts, console, settings.timezone))
        console.out.flush()  # it stands, however long the batch system takes to answer
    note = _unknown_name(args, console, known, folder / args.name)
    if args.json:
        console.json({**facts, "note": note})
    elif note:
        console.say(f"note: {note}")
    return FINE


def _expiry(args: argparse.Namespace, console: Console, zone: str) -> int | None:
    """The instant asked for. Raises UsageError for one that has passed: the switch would stop nothing."""
    if args.expires is None:
        return None
    at = instant_of(args.expires, console, zone)
    if at <= console.now:
        passed = f"{args.expires!r} is {console.style(zone).whole(at)}, which is not in the future"
        raise UsageError(f"--expires {passed}: it would stop nothing. Write a later time, or how long, like 2h.")
    return at


def _folder(paths: Paths, kind: str) -> Path:
    return paths.kill if kind == "kill" else paths.pause


def _written(paths: Paths, console: Console) -> Mapping[str, Any] | None:
    from cronhpc.views.status import seen_at

    try:
        known = written_status(paths)
    except (OSError, StateError):
        return None
    return seen_at(known, console.now) if known else None


def _effect(known: Mapping[str, Any] | None, paths: Paths) -> Facts:
    """When the next look at the switches is, by what the last tick wrote."""
    now = command("tick") if is_mine(paths) else None
    if known is None:
        return _acts("as soon as the scheduler runs", fix=now)
    chain = known["chain"]
    if chain.get("resident") and chain["state"] in {"fine", "driven otherwise"}:
        return _acts("within seconds: the daemon runs")
    if chain["state"] not in {"fine", "unknown", "driven otherwise"}:
        return _acts(f"when the scheduler is fixed, which is {chain['state']}", fix=chain["fix"] or None)
    link = (chain["next"] or chain["spare"]) if chain["wanted"] and chain["by_links"] else None
    return _acts("at the next tick", link["at"] if link else None, now)


def _acts(when: str, at: str | None = None, fix: str | None = None) -> Facts:
    return {"acts": when, "at": at, "fix": fix}


def _at_once(args: argparse.Namespace, console: Console, paths: Paths) -> Facts | None:
    """The effect of a tick of one's own where no scheduler looks: series without a cron directory. None elsewhere."""
    if not (keeps_series_only(paths, console) and is_mine(paths)):
        return None
    from cronhpc.tick import tick

    try:
        report = tick(site_of(args, console), console.now)
    except (CronhpcError, OSError) as error:
        return _acts(f"when Slurm can be asked ({error})", fix=command("tick"))
    return _acts(f"at once: {_done(report.outcomes)}")


def _done(outcomes: Iterable[Outcome]) -> str:
    """What became of jobs, by kind."""
    from cronhpc.core.model import Done, Hold, Stop, Unhold

    verbs = {Stop: "cancelled", Hold: "held", Unhold: "released"}
    jobs: dict[str, list[str]] = {}
    for outcome in outcomes:
        verb = verbs.get(type(outcome.decision))
        if verb is not None:
            end = verb if outcome.done is Done.OK else f"{verb} NOT ({outcome.detail})"
            jobs.setdefault(end, []).extend(job.shown for job in outcome.decision.jobs)  # type: ignore[union-attr]  # these three have them
    return "; ".join(f"{end} {', '.join(each)}" for end, each in jobs.items() if each) or "no job of it was there"


def _unknown_name(args: argparse.Namespace, console: Console, known: Mapping[str, Any] | None, path: Path) -> str:
    """A remark where nothing has the name; the owner's batch system is asked only where no entry has it."""
    from cronhpc.core.stop import ALL

    paths = paths_of(args, console)
    configured = [row.name for row in settings_or_default(paths).switches]
    if args.name in {ALL, *configured}:
        return ""
    if is_mine(paths):
        return _unmatched(args, console, path)
    return "" if known is None else _unwritten(args.name, [entry["name"] for entry in known["entries"]], configured)


def _unmatched(args: argparse.Namespace, console: Console, path: Path) -> str:
    """By entries as they lie there now, and by the queue; "" where that cannot be known."""
    from cronhpc.core.stop import unmatched
    from cronhpc.engine.read import read_world
    from cronhpc.engine.read_entries import read_entries

    try:
        site = site_of(args, console)
        if args.name in {name for e in read_entries(site, console.now).entries for name in (e.name, e.job_name)}:
            return ""
        world = read_world(site, console.now).world
    except (CronhpcError, OSError):
        return ""
    lost = unmatched(replace(world, switches=tuple(each for each in world.switches if each.path == str(path))))
    return "".join(f"{each.what} It acts as soon as there is one." for each in lost)


def _unwritten(name: str, entries: list[str], configured: list[str]) -> str:
    """For a teammate: by what the owner's last tick wrote. A job may have the name, and nobody asks the queue here."""
    from cronhpc.core.model import entry_id
    from cronhpc.cron.words import nearest
    from cronhpc.views.text import word

    if name.partition("_")[0].isdecimal() or name in entries:
        return ""
    of_id = [each for each in entries if entry_id(each) == name]  # as the log folder is called
    near = of_id[0] if of_id else nearest(name, [*entries, *configured], 0.5)
    hint = f" (nearest: {word(near)})" if near else ""
    return f"no entry is called that{hint}: it reaches the jobs that are, now or later"


def _words(facts: Mapping[str, Any], console: Console, zone: str) -> str:
    from cronhpc.views import text
    from cronhpc.views.times import epoch

    style = console.style(zone)
    name, kill = text.name(facts["switch"]), facts["kind"] == "kill"
    made = "set" if facts["made"] else "it stands already:"
    at = epoch(facts["at"])
    when = f"{facts['acts']}: {style.clock(at)} ({style.distance(at)})" if at else facts["acts"]
    effect = f"{'stops' if kill else 'holds'} {'everything' if facts['switch'] == 'ALL' else name} {when}"
    lines = [
        f"{made} {facts['kind']} switch {name} ({style.path(facts['path'])})",
        effect + "; at once: " + facts["fix"] if facts["fix"] else effect,
        *([] if kill else [_COST]),
        "undo: " + facts["undo"],
    ]
    return joined("\n", lines)


# --- removing ------------------------------------------------------------------------------------------------------


def unset_one(args: argparse.Namespace, console: Console, kind: str) -> tuple[list[str], list[str]]:
    """Remove the switch wherever this directory has it: paths removed, and the team's that still stand."""
    from cronhpc.store.switches import is_where_it_says, unset_switch

    paths = paths_of(args, console)
    settings = settings_or_default(paths)
    folder = _folder(paths, kind)
    removed = [str(folder / args.name)] if unset_switch(folder, args.name, paths.root) else []
    left = []
    if kind == "kill":
        polled = [Path(row.file).expanduser() for row in settings.switches if row.file and row.name == args.name]
        team = [Path(each).expanduser() / args.name for each in settings.kill_also]
        if is_mine(paths):
            removed += [str(file) for file in polled if unset_switch(file.parent, file.name)]
        else:  # somebody else's settings must not choose which file of mine goes
            team += polled
        left = [str(path) for path in team if os.path.lexists(path) and is_where_it_says(path.parent)]
    return removed, left


def lifted(
    args: argparse.Namespace, console: Console, kind: str, *, removed: list[str], left: list[str], more: list[str]
) -> str:
    """What was done, to what, and how to undo it."""
    from cronhpc.views import text

    style = console.style()
    lines = [f"removed {style.path(path)}" for path in removed] + more
    paths = paths_of(args, console)
    rm = "rm " if is_mine(paths) else ""  # what another's settings name may be any file of mine: no advice to remove it
    lines += [f"it still stands for the whole team: {rm}{text.word(path)}" for path in left]
    if not lines:
        return f"no {kind} switch {text.name(args.name)} stands. See: " + command("status")
    if removed and (effect := _at_once(args, console, paths) if kind == "pause" else None):
        lines.append(f"{effect['acts']}; undo: " + command(kind, args.name))
    elif removed:
        again = "its next slots run as usual" if kind == "kill" else "what it held is released at the next tick"
        if kind == "kill" and keeps_series_only(paths, console):
            again = "a series that it ended begins anew with sbatch"
        lines.append(f"{again}; undo: " + command(kind, args.name))
    return joined("\n", lines)


_KILL_HELP = "Stop jobs by a kill switch: what runs is cancelled, and nothing new is submitted while it stands."
_KILL_EXAMPLE = """
cronhpc kill backup --reason "disk is full"
cronhpc kill 4711
cronhpc kill ALL --expires 2h
cronhpc kill train17 --dir /home/alice/cron     # a teammate's
"""


_PAUSE_HELP = "Hold jobs: pending ones wait with their ids, and nothing new is submitted, until cronhpc resume."
_PAUSE_EXAMPLE = """
cronhpc pause backup --reason "until the new disk is in"
cronhpc pause ALL --expires 2h
"""


_UNKILL_HELP = "Lift a kill switch. What it stopped stays stopped; its next slots run again."
_UNKILL_EXAMPLE = "cronhpc unkill backup"


def _unkill_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the switch, as cronhpc status has it")


def _unkill(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if there was none, or if a team's still stands."""
    removed, left = unset_one(args, console, "kill")
    facts = {"switch": args.name, "removed": removed, "still_stands": left}
    console.answer(facts, lambda: lifted(args, console, "kill", removed=removed, left=left, more=[]))
    return FINE if removed and not left else ATTENTION


_RESUME_HELP = "Lift a pause, or a suspension after failures."
_RESUME_EXAMPLE = "cronhpc resume backup"
_TIMEOUT = 20.0  # seconds that a tick at work is waited for


def _resume_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="an entry, or a pause switch as cronhpc status has it")


def _resume(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if nothing held it."""
    paths = paths_of(args, console)
    removed, left = unset_one(args, console, "pause")
    suspended = is_mine(paths) and _lift_suspension(paths, args.name)
    facts = {"switch": args.name, "removed": removed, "suspension_lifted": suspended, "still_stands": left}
    anew = ["its suspension is lifted, and its failures are counted anew"] if suspended else []

    def words() -> str:
        return lifted(args, console, "pause", removed=removed, left=left, more=anew or _owners(paths, args.name))

    console.answer(facts, words)
    return FINE if removed or suspended else ATTENTION


def _owners(paths: Paths, name: str) -> list[str]:
    """A suspension is its owner's to lift: whoever may write switches can stop jobs, and start none."""
    known = None if is_mine(paths) else written_status(paths)
    row = next((entry for entry in known["entries"] if entry["name"] == name), None) if known else None
    if not known or not row or not row["suspended"]:
        return []
    return [f"it is suspended after failures, which {known['owner']} alone can lift, with the same command"]


def _lift_suspension(paths: Paths, name: str) -> bool:
    """Under the lease, so that no tick that began before writes the suspension back. Raises StateError, OSError."""
    from cronhpc.store import lease, memory

    state = memory.load(paths.entries).entries.get(name)
    if state is None or state.suspended is None:
        return False
    me = lease.myself(os.uname().nodename, "", "")
    place = paths.state / "lease"
    until = time.monotonic() + _TIMEOUT
    while (holder := lease.take(place, me, lambda _: False)) is not None and time.monotonic() < until:
        time.sleep(0.1)
    try:
        known = memory.load(paths.entries)
        known.entries[name] = replace(known.entries[name], suspended=None, failures=0)
        memory.save(paths.entries, known)
    finally:
        if holder is None:
            lease.give_back(place, me)
    return True


COMMANDS = {
    "kill": Command(_KILL_HELP, _KILL_EXAMPLE, partial(_set, kind="kill"), _set_arguments, of_series=True),
    "pause": Command(_PAUSE_HELP, _PAUSE_EXAMPLE, partial(_set, kind="pause"), _set_arguments, of_series=True),
    "unkill": Command(_UNKILL_HELP, _UNKILL_EXAMPLE, _unkill, _unkill_arguments, of_series=True),
    "resume": Command(_RESUME_HELP, _RESUME_EXAMPLE, _resume, _resume_arguments, of_series=True),
}
