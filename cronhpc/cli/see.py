"""`cronhpc status [NAME]`, `next [NAME]` and `page`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.commands import Command
from cronhpc.cli.console import UsageError, count_of, entry_argument, filled, no_such, written_status, zone_named
from cronhpc.core import slots, stop
from cronhpc.core.identity import other_marks
from cronhpc.core.model import CronhpcError, EntryState, Instant, Problem, Settings, StateError, Switch, World, command
from cronhpc.core.model.decode import MisfitError
from cronhpc.core.plan import plan
from cronhpc.cron.schedule import parse
from cronhpc.cron.values import replace
from cronhpc.cron.zones import zone_of
from cronhpc.store import history
from cronhpc.store.files import DirectoryError, Paths, own_folder, read_json, write_out
from cronhpc.store.switches import of_directory
from cronhpc.views import next as next_slots
from cronhpc.views import text
from cronhpc.views.facts import VERSION, Status, SwitchOn, Trouble, as_json, troubles
from cronhpc.views.next import Preview

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence
    from zoneinfo import ZoneInfo

    from cronhpc.cli.console import Console
    from cronhpc.engine.site import Site


_STATUS_HELP = "How everything is, on one screen. With a NAME: that entry in sentences, and why it does not run now."
_STATUS_EXAMPLE = """
cronhpc status
cronhpc status backup
cronhpc status --watch
cronhpc status --prometheus --out /var/lib/node_exporter/cronhpc.prom
cronhpc status --dir /home/alice/cron   # a colleague's, from her status.json
"""
_EVERY = 30
_WEEK = 7 * 86400


def _status_arguments(parser: argparse.ArgumentParser) -> None:
    entry_argument(parser, nargs="?")
    parser.add_argument("--all", action="store_true", help="everything, also what does not fit on one screen")
    parser.add_argument("--prometheus", action="store_true", help="metrics for the node exporter's textfile folder")
    parser.add_argument(
        "--out", type=filled, metavar="FILE", help="with --prometheus: put them there, whole or not at all"
    )
    parser.add_argument(
        "--nagios", action="store_true", help="one line; exit code 0 OK, 1 warning, 2 critical, 3 unknown"
    )
    parser.add_argument(
        "--watch",
        nargs="?",
        const=_EVERY,
        metavar="N",
        help=f"look again every N seconds (else {_EVERY}), until Ctrl-C",
    )


def _status(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if anything needs attention; --nagios has its own codes."""
    if args.out and not args.prometheus:
        raise UsageError("cronhpc status: --out goes with --prometheus.")
    if args.nagios:
        return _nagios(args, console)
    if args.prometheus:
        return _prometheus(args, console)
    name, every = args.name, args.watch
    if every is None:
        return _once(name, console, everything=args.all)
    if isinstance(every, str) and name is None and not every.isdecimal():
        name, every = every, _EVERY  # status --watch NAME
    seconds = count_of(str(every))
    while True:
        if console.is_terminal:
            console.out.write("\x1b[H\x1b[2J")
            console.out.flush()  # before an error is written beside it, which it would wipe away
        _once(name, console, everything=args.all)
        console.out.flush()
        console.wait(seconds)
        console = console.again()


def _once(name: str | None, console: Console, *, everything: bool) -> int:
    paths = console.paths()
    from_file = not paths.is_mine
    if name is not None and not from_file:
        from cronhpc.cli.runs import entry_meant

        name = entry_meant(name, console, paths)
    status = facts(console)
    if name is not None:
        return _explain(name, console, status)
    if console.as_json:
        console.json({**as_json(status), "from_file": True} if from_file else status)
    else:
        from cronhpc.views.screen import render

        below = _other_schedulers(console, status)
        style = console.style(status.timezone)
        console.say(render(status, style, everything=everything, from_file=from_file, below=below))
    return ATTENTION if status.needs_attention else FINE


def _other_schedulers(console: Console, status: Status) -> list[str]:
    """A word on the user's other chains, and on series that were started before there was this cron directory."""
    of_again, lines = own_folder(console.environ), []
    if status.other_chains:
        jobs = " ".join(status.other_chains)
        lines.append(f"another cron directory of yours is at work (jobs {jobs}): {console.text(command('doctor'))}")
    if console.paths().root != of_again:
        newest = max((path.stat().st_mtime for path in (of_again / "state" / "trains").glob("*.json")), default=0.0)
        if newest > console.now - _WEEK:
            look = console.text(command("status", directory=str(of_again)))
            lines.append(f"jobs that keep themselves going without this directory: {look}")
    return ["", *lines] if lines else []


def _nagios(args: argparse.Namespace, console: Console) -> int:
    """What cannot be looked at is unknown: code 2 would mean that it is down."""
    from cronhpc.page import write

    try:
        status = facts(console)
        names = [*(entry.name for entry in status.entries), *(gone.name for gone in status.deleted)]
        if args.name is not None and args.name not in names:
            raise no_such("entry", args.name, names)
        code, line = write.nagios(status, args.name, console.now)
    except (CronhpcError, OSError) as error:
        code, line = write.UNKNOWN, write.one_line(write.UNKNOWN, str(error))
    console.say(line)
    return code


def _prometheus(args: argparse.Namespace, console: Console) -> int:
    from cronhpc.page import view, write

    paths = console.paths()
    status = facts(console)
    pasts = view.digest(history.rows(paths.history), console.now) if paths.is_mine else None
    text = write.prometheus(status, pasts, console.now)
    if args.out:
        write_out(Path(args.out).expanduser().absolute(), text.encode("utf-8", "replace"), 0o644)
    else:
        console.out.write(text)
    return FINE


def facts(console: Console) -> Status:
    """Read now by its owner; by anyone else as the owner's last tick wrote it."""
    paths = console.paths()
    if not paths.is_mine:
        return _from_status_file(paths, console)
    from cronhpc.engine.read import read_world
    from cronhpc.store.damage import of_entries
    from cronhpc.store.disk import closed
    from cronhpc.views import status

    site = console.site_now()
    reading = read_world(site, console.now)
    world = console.with_unreadable(_with_who_calls_ticks(reading.world, site, console), site.environment)
    about = status.About(
        directory=str(paths.root),
        backend=site.batch.dialect.name,
        owner=site.user,
        host=site.host,
        series_only=console.keeps_series_only(paths),
        used=status.used_of(site.cache.known),
    )
    answer = status.facts(
        world,
        plan(world),
        reading.memory.entries,
        about,
        problems=(
            *reading.problems,
            *closed(paths),
            *of_entries(reading.memory, console.now, reported_too=True),
            *_unsent(paths, console.now),
            *_of_pings(world, site.environment),
            *_of_daemon(site),
        ),
        before=_last_troubles(paths),
    )
    others = other_marks(world.listed, world.directory_id).values()
    jobs = tuple(job.shown_id for each in others for job in each)
    return replace(answer, other_chains=jobs or None)


def _unsent(paths: Paths, now: int) -> Sequence[Problem]:
    """Alerts that could not be sent so far."""
    outbox = paths.state / "outbox.json"
    if not outbox.exists():
        return ()
    from cronhpc.engine.notify import unsent

    return unsent(outbox, now)


def _of_pings(world: World, environ: Mapping[str, str]) -> Iterator[Problem]:
    """Entries whose pings cannot be sent."""
    for entry in world.entries:
        if entry.policies.ping:
            from cronhpc.engine.delivery import faults_of_ping

            yield from faults_of_ping(entry, environ)


def _of_daemon(site: Site) -> Iterator[Problem]:
    """That one which was begun on this machine is of another version."""
    if (site.paths.state / "daemon.json").exists():
        from cronhpc.drivers.start import of_another_version

        yield from of_another_version(site.paths, site.host)


def _with_who_calls_ticks(world: World, site: Site, console: Console) -> World:
    """With a look at who is to call the ticks: how links ended, an entry of the scrontab, a daemon."""
    if world.chain.via.in_scrontab:
        from cronhpc.engine.link import scrontab_trouble

        why = scrontab_trouble(site.paths, console.environ)
    elif world.chain.via.here and not world.chain.disabled:
        from cronhpc.drivers.start import daemon_trouble

        why = daemon_trouble(site.paths, site.host)
    else:
        from cronhpc.engine.read import with_ends_of_links

        return with_ends_of_links(site.batch, world)
    return replace(world, chain=replace(world.chain, disabled=why))


def _last_troubles(paths: Paths) -> Sequence[Trouble]:
    """What the last tick could not do: all that is asked of what it wrote."""
    try:
        return troubles(read_json(paths.status, VERSION))
    except (OSError, StateError, MisfitError):
        return ()


def _from_status_file(paths: Paths, console: Console) -> Status:
    """What the owner's last tick wrote, with the switches as they lie there now."""
    from cronhpc.views.attention import for_others
    from cronhpc.views.status import seen_at, with_switches

    status = written_status(paths)
    if status is None:
        raise StateError(
            f"{paths.status} is not there yet: its owner's scheduler has not run. Ask for: " + command("start")
        )
    listing = of_directory(paths, Settings(), console.now)  # what another's settings name elsewhere is not looked at
    if not listing.unknown:
        status = with_switches(status, listing.listed, console.now)
    return for_others(seen_at(status, console.now))


def _explain(name: str, console: Console, status: Status) -> int:
    from cronhpc.views import explain

    entry = next((each for each in status.entries if each.name == name), None)
    gone = next((each for each in status.deleted if each.name == name), None)
    if entry is None and gone is not None:
        console.answer(as_json(gone), lambda: explain.deleted(gone, status, console.style(status.timezone)))
        return FINE
    if entry is None:
        from cronhpc.cli.runs import no_entry

        raise no_entry(name, (each.name for each in status.entries), console.paths())
    rows = [row for row in status.attention if row.name in {entry.name, entry.source}]
    schedule = explain.schedule_of(entry)
    answer = {**as_json(entry), **as_json(explain.facts(schedule, console.now)), "attention": rows}
    console.answer(answer, lambda: explain.render(entry, status, schedule, console.style(status.timezone)))
    return ATTENTION if rows or entry.switch else FINE


# --- next -------------------------------------------------------------------------------------------------------------


_NEXT_HELP = "When entries run next, or when any schedule would; with the clock changes on the way."
_NEXT_EXAMPLE = """
cronhpc next
cronhpc next backup -n 3
cronhpc next --schedule "5 2 * * *" --timezone Europe/Paris --after 2026-10-24
"""


def _next_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="an entry (else all)")
    parser.add_argument("--schedule", metavar="CRON", help="any schedule, instead of an entry's")
    parser.add_argument(
        "--timezone", type=zone_named, metavar="ZONE", help="the schedule's zone (else the settings', yours)"
    )
    parser.add_argument("--after", metavar="TIME", help="slots after this time (else now): 2026-10-25T01:00, or 2d")
    parser.add_argument("-n", dest="number", type=count_of, default=10, metavar="N", help="how many (else 10)")


def _next(args: argparse.Namespace, console: Console) -> int:
    """Exit code 2 for a schedule that cannot be used."""
    if args.schedule is not None:
        previews, zone_key = _of_schedule(args, console)
    elif args.timezone is not None:
        raise UsageError("cronhpc next: --timezone goes with --schedule. An entry's zone stands in its #CRON line.")
    else:
        previews, zone_key = _of_entries(args, console)
    after = console.now if args.after is None else console.instant(args.after, args.timezone or zone_key)
    upcoming = next_slots.facts(previews, after, args.number, in_words=console.as_json or len(previews) == 1)
    console.answer(upcoming, lambda: next_slots.render(upcoming, console.style(zone_key)))
    return FINE


def _of_schedule(args: argparse.Namespace, console: Console) -> tuple[list[Preview], str]:
    """A schedule needs no cron directory; where there is one its zone counts."""
    if args.name is not None:
        raise UsageError("cronhpc next: either NAME or --schedule.")
    key = _settings_zone(console)
    return [Preview("", parse(args.schedule, _schedule_zone(args.timezone or key, console)))], key


def _settings_zone(console: Console) -> str:
    try:
        return console.settings().timezone
    except DirectoryError:
        if console.folder:
            raise
        return ""


def _schedule_zone(key: str, console: Console) -> ZoneInfo:
    from zoneinfo import ZoneInfo

    if key:
        return zone_of(key)
    zone = console.zone()
    return zone if isinstance(zone, ZoneInfo) and zone.key else ZoneInfo("UTC")


def _of_entries(args: argparse.Namespace, console: Console) -> tuple[list[Preview], str]:
    paths = console.paths()
    if not paths.is_mine:
        return _of_anothers(args, _from_status_file(paths, console))
    site = console.site_now()
    world = console.offline_world(site)
    chosen = [entry for entry in world.entries if args.name in {None, entry.name}]
    if args.name is not None and not chosen:
        if " " in args.name or args.name.startswith("@"):
            raise UsageError("A schedule goes with --schedule: " + command("next", options=("--schedule", args.name)))
        from cronhpc.cli.runs import no_entry

        raise no_entry(args.name, (entry.name for entry in world.entries), paths)
    previews = []
    for entry in chosen:
        suspended = world.states.get(entry.name, EntryState()).suspended
        held = console.text(_held_back_by(stop.switch_on(world, entry), entry.problem, suspended))
        if entry.schedule:
            previews.append(Preview(entry.name, slots.schedule_of(entry), held))
    return previews, site.settings.timezone


def _held_back_by(switch: Switch | SwitchOn | None, problem: Problem | None, suspended: Instant | None) -> str:
    """Why it does not run by itself; "" where it does."""
    if switch:
        return f"{switch.kind}/{switch.name}, by {switch.by}"
    return f"{problem.what} " + problem.fix if problem else "suspended" if suspended else ""


def _of_anothers(args: argparse.Namespace, status: Status) -> tuple[list[Preview], str]:
    """By what the owner's last tick wrote, and the switches that stand now."""
    from cronhpc.views.explain import schedule_of

    chosen = [entry for entry in status.entries if args.name in {None, entry.name}]
    if args.name is not None and not chosen:
        raise no_such("entry", args.name, (entry.name for entry in status.entries))
    rows = (
        (each, schedule_of(each), _held_back_by(each.switch, each.problem, each.suspended).rstrip()) for each in chosen
    )
    previews = [Preview(each.name, schedule, held) for each, schedule, held in rows if schedule is not None]
    return previews, status.timezone


# --- page -------------------------------------------------------------------------------------------------------------


_PAGE_HELP = (
    "Write one HTML page of it all: the last 7 days, the next 24 hours, failures with the end of their logs. "
    "It is one file, needs no server, fetches nothing and runs no script. After each tick: `page:` in cronhpc.yaml."
)
_PAGE_EXAMPLE = """
cronhpc page                          # page.html in the cron directory
cronhpc page --out ~/public_html/cron.html
cronhpc page --out - | less
"""


def _page_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=filled, metavar="FILE", help="where to; - prints it (else `page:` of the settings, page.html)"
    )


def _page(args: argparse.Namespace, console: Console) -> int:
    from cronhpc.page import write

    paths = console.own_paths("can read history and logs")
    settings = console.settings()
    path = Path(args.out).expanduser() if args.out else write.place(paths, settings.page or "page.html")
    style, to = console.style(settings.timezone), None if args.out == "-" else path.absolute()
    kept, refresh = bool(settings.page), settings.page_refresh
    html = write.drawn(paths, facts(console), style, to=to, kept=kept, refresh=refresh)
    if to is None:
        console.out.write(html)
        return FINE
    if args.out and not path.parent.is_dir():
        raise CronhpcError(f"{args.out}: its folder is not there. mkdir -p {shlex.quote(str(path.parent))}")
    if args.out and path.is_dir():
        raise CronhpcError(f"{args.out} is a folder. Name a file in it: --out {shlex.quote(str(path / 'cron.html'))}")
    write.write(path, html)
    size = len(html.encode())
    drawn = f"{console.style().path(str(path))}: {text.size(size)}; open it in a browser, or copy it anywhere"
    console.answer({"page": str(path), "bytes": size}, lambda: drawn)
    return FINE


COMMANDS = {
    "status": Command(_STATUS_HELP, _STATUS_EXAMPLE, _status, _status_arguments, of_series=True),
    "next": Command(_NEXT_HELP, _NEXT_EXAMPLE, _next, _next_arguments),
    "page": Command(_PAGE_HELP, _PAGE_EXAMPLE, _page, _page_arguments, of_series=True),
}
