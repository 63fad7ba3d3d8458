"""What several commands share: opening a cron directory, names and times from the command line."""

from __future__ import annotations

import os

from cronhpc import __version__
from cronhpc.cli.commands import UsageError
from cronhpc.core.model import CronhpcError, Settings, SettingsError, StateError, Withdraw, World, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from cronhpc.cli.console import Console
    from cronhpc.engine.site import Site
    from cronhpc.store.files import Paths
    from cronhpc.views.facts import Status


_STATUS = command("status")
_DIGITS = 9  # more is somebody's noise
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}


class NoSuchError(CronhpcError):
    """A name that nothing has."""


def site_of(console: Console, *, anew: bool = False) -> Site:
    """The cron directory meant, opened; `anew` as open_site has it.

    Raises DirectoryError, SettingsError, StateError, BatchError, OSError.
    """
    from cronhpc.engine.site import open_site

    return open_site(directory(console), console.backend, console.environ, anew=anew)


def paths_of(console: Console) -> Paths:
    """The cron directory meant. Raises DirectoryError."""
    from cronhpc.store.files import existing

    return existing(directory(console), console.environ)


def directory(console: Console) -> str | None:
    """The one named. For commands that look, or stop: also where `again` keeps series without a cron directory."""
    from cronhpc.store.files import of_series

    own = of_series(console.asked, console.environ) if console.of_series else None
    return console.asked if own is None else str(own)


def keeps_series_only(paths: Paths, console: Console) -> bool:
    """Whether it is the folder of `again` alone, where no scheduler works."""
    from cronhpc.store.files import own_folder

    return paths.root == own_folder(console.environ)


def withdraw_edited(site: Site, now: int) -> bool:
    """Tick, where a run waits for its slot and its entry was edited, stopped or removed since; whether that was so.

    So the owner's own look does not leave it to the next link, which may come after that slot.
    """
    from cronhpc.core.attempts import decide
    from cronhpc.engine.read import read_world
    from cronhpc.store.claims import Claims
    from cronhpc.store.scheduler import started
    from cronhpc.tick import tick

    try:
        waiting = any(key.slot > now for key in Claims(site.paths.claims).names())
        if not waiting or started(site.paths) is None:
            return False
        world = read_world(site, now).world
        if not any(isinstance(each, Withdraw) for each in decide(world)):
            return False
        tick(site, now)
    except (CronhpcError, OSError):
        return False  # said by the look itself, or by the next tick
    return True


def settings_or_default(paths: Paths) -> Settings:
    """The settings where they can be used, else the defaults: for commands that must work all the same."""
    from cronhpc.store.settings import read_settings

    try:
        return read_settings(paths.settings)
    except (SettingsError, OSError):
        return Settings()


def is_mine(paths: Paths) -> bool:
    """Whether this user is the one whose scheduler works here; another sees its status.json only."""
    for path in (paths.state, paths.root):
        try:
            return path.lstat().st_uid == os.getuid()
        except FileNotFoundError:
            continue
    return False


def own_paths(console: Console, deed: str) -> Paths:
    """As `paths_of`, for what only the owner does. Raises CronhpcError for another user's directory."""
    paths = paths_of(console)
    if not is_mine(paths):
        raise CronhpcError(f"{paths.root} belongs to someone else: only its owner {deed}.")
    return paths


def own_site(console: Console, deed: str) -> Site:
    """As `site_of`, for what only the owner does. Raises CronhpcError for another user's directory."""
    own_paths(console, deed)
    return site_of(console)


def site_now(console: Console) -> Site:
    """As `site_of`, after runs that wait for an entry which was edited since were withdrawn."""
    site = site_of(console)
    return site_of(console) if withdraw_edited(site, console.now) else site


def offline_world(site: Site, now: int) -> World:
    """Entries, their state, switches. The queue is not asked: it may not answer."""
    from cronhpc.engine.read import with_switches
    from cronhpc.engine.read_entries import read_entries
    from cronhpc.store import memory

    entries, states = read_entries(site, now).entries, memory.load(site.paths.entries).entries
    return with_switches(site, World(now, "", site.settings, entries, states=states))


def entry_argument(parser: argparse.ArgumentParser, nargs: str | None = None) -> None:
    """NAME, where a job's id will do, too."""
    parser.add_argument("name", nargs=nargs, metavar="NAME", help="an entry, or a job's id")


def written_status(paths: Paths) -> Status | None:
    """What the last tick wrote to status.json; None where there is none yet. Raises StateError, OSError.

    Another user's may hold anything: nothing of it reaches this terminal as a code, or breaks what reads it.
    """
    from cronhpc.store.decode import MisfitError
    from cronhpc.store.files import read_json
    from cronhpc.views.facts import VERSION, cleaned, of_json

    known = read_json(paths.status, VERSION)
    try:
        return None if known is None else of_json(cleaned(known))
    except MisfitError as place:
        what = f"{paths.status} is not what a tick of cronhpc {__version__} writes (see its {place})."
        raise StateError(f"{what} Its owner can fix it: " + command("tick")) from None


def no_such(what: str, name: str, known: Iterable[str], see: str = _STATUS) -> NoSuchError:
    """The error for a name that no entry has, with the nearest one."""
    from cronhpc.cron.values import nearest
    from cronhpc.views.text import name as quoted
    from cronhpc.views.text import word

    near = nearest(name, known, 0.5)
    fix = f"Did you mean {word(near)}?" if near else "See: " + see
    return NoSuchError(f"There is no {what} called {quoted(name)}. " + fix)


def count_of(text: str, least: int = 1) -> int:
    """A whole number from `least`, for argparse. Raises UsageError."""
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) >= least:
        return int(text)
    raise UsageError(f"{text!r} is no number. Write a whole number from {least}.")


def seconds_of(text: str) -> int:
    """How long, as a duration or in seconds, for argparse. Raises UsageError."""
    from cronhpc.cron.duration import DurationError, parse_duration

    try:
        seconds = int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else parse_duration(text)
    except DurationError as error:
        raise UsageError(str(error)) from None
    if seconds <= 0:
        raise UsageError(f"{text!r} is no time at all. Write how long, like 90m or 3600 (seconds).")
    return seconds


def instant_of(text: str, console: Console, zone_key: str = "", *, past: bool = False) -> int:
    """An instant as people write it: 2026-11-27, 2026-11-27T14:30, with or without a zone, yesterday, or 2d (from now).

    `past`: a duration counts back. Raises UsageError.
    """
    from datetime import datetime, timedelta

    from cronhpc.cron.duration import DurationError, parse_duration

    if text.lower() in _DAYS:
        today = datetime.fromtimestamp(console.now, console.zone(zone_key)).replace(hour=0, minute=0, second=0)
        return int((today + timedelta(days=_DAYS[text.lower()])).timestamp())
    try:
        seconds = parse_duration(text)
    except DurationError:
        pass
    else:
        return console.now - seconds if past else console.now + seconds
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=console.zone(zone_key))
        return int(moment.timestamp())
    except (ValueError, OverflowError):
        raise UsageError(f"{text!r} is no time. Write it like 2026-11-27T14:30, 2026-11-27, yesterday or 2d.") from None
