"""What commands share: the clock, the environment, the terminal, which only they may touch; names and times given."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

from cronhpc import __version__
from cronhpc.core.model import (
    Advice,
    CronhpcError,
    Settings,
    SettingsError,
    StateError,
    Withdraw,
    World,
    command,
    text_of,
)
from cronhpc.cron.values import dataclass, nearest, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import tzinfo
    from typing import Any, TextIO

    from cronhpc.core.model import Entry
    from cronhpc.engine.site import Site
    from cronhpc.store.files import Paths
    from cronhpc.views.facts import Status
    from cronhpc.views.style import Style


@dataclass(frozen=True, slots=True)
class Console:
    """The outside as one command sees it; the clock is read once, when it is opened."""

    now: int
    environ: Mapping[str, str]
    out: TextIO
    err: TextIO
    is_terminal: bool
    width: int = 0
    height: int = 0
    folder: str | None = None  # the --dir of this call
    backend: str = ""  # its --backend
    as_json: bool = False  # its --json
    of_series: bool = False  # it looks, or stops: also where `again` keeps series without a cron directory

    @classmethod
    def here(cls) -> Console:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, ValueError):  # a replaced stream, as under pytest
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # TextIOWrapper has it
        terminal = sys.stdout.isatty()
        width, height = _window() if terminal else (0, 0)
        return cls(
            now=_clock(),
            environ=dict(os.environ),
            out=sys.stdout,
            err=sys.stderr,
            is_terminal=terminal,
            width=width or _asked_width(),
            height=height,
        )

    def again(self) -> Console:
        """The same outside, later: for commands that go on watching."""
        later = replace(self, now=_clock())
        if not self.is_terminal or self.out is not sys.stdout:
            return later
        width, height = _window()  # it may have another size now
        return replace(later, width=width or _asked_width(), height=height)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def about(self, args: argparse.Namespace) -> Console:
        """The same outside, for a call with these options that every command has."""
        return replace(self, folder=args.dir, backend=args.backend or "", as_json=args.json, of_series=args.of_series)

    @property
    def directory(self) -> str:
        """What commands that are shown must name with --dir, absolute; "" where they find it without."""
        from cronhpc.store.files import DirectoryError, wanted

        if not self.folder:
            return ""
        meant, _ = wanted(self.folder, self.environ)
        try:
            usual, _ = wanted(None, self.environ)
        except DirectoryError:  # $WORK is not there
            return str(meant)
        return "" if meant == usual else str(meant)

    # --- printing

    def text(self, words: str) -> str:
        """`words` as its reader can use it: see `text_of`."""
        return text_of(words, self.directory) if isinstance(words, Advice) else words

    def say(self, text: str = "") -> None:
        print(self.text(text), file=self.out)

    def complain(self, text: str) -> None:
        """One or more lines on stderr; whatever names and messages hold, the terminal is safe."""
        from cronhpc.views.text import lines

        with contextlib.suppress(OSError, ValueError):  # nobody hears it: the exit code tells
            print(lines(self.text(text)), file=self.err)

    def put(self, part: bytes) -> None:
        """Of a log: to a terminal harmless text, to a pipe the very bytes."""
        from cronhpc.views.text import lines

        buffer = None if self.is_terminal else getattr(self.out, "buffer", None)
        if buffer is None:
            decoded = part.decode("utf-8", "replace")
            self.out.write(lines(decoded) if self.is_terminal else decoded)
        else:
            self.out.flush()
            buffer.write(part)

    def ask(self, question: str) -> str | None:
        """What the user answers, in small letters; None where nobody is there to be asked."""
        if not (self.is_terminal and sys.stdin.isatty()):
            return None
        self.out.write(question)
        self.out.flush()
        line = sys.stdin.readline()
        return line.strip().lower() if line else "n"  # Ctrl-D

    def json(self, value: Any) -> None:
        """The answer as JSON, records of facts too; each document says of which version its keys are."""
        import json

        from cronhpc.views.facts import VERSION, as_json

        document = {"version": VERSION, **as_json(value, self.directory)}
        print(json.dumps(document, indent=2), file=self.out)

    def answer(self, facts: object, words: Callable[[], str], *, aside: bool = False) -> None:
        """As JSON where that was asked for, a record's fields too; else in words: `aside`, on stderr."""
        if self.as_json:
            self.json(facts)
        else:
            (self.complain if aside else self.say)(words())

    @contextlib.contextmanager
    def redirected(self) -> Iterator[None]:
        """What argparse prints goes where answers go."""
        with contextlib.redirect_stdout(self.out), contextlib.redirect_stderr(self.err):
            yield

    def reader_left(self) -> int:
        """The reader of a pipe is gone (`cronhpc history | head`): nothing more is printed, and that is fine."""
        _let_go(self.out)
        return 0

    def emptied(self) -> bool:
        """Whether all that was said has been taken; what has not is let go of, or Python's end would stumble on it."""
        taken = True
        for stream in (self.out, self.err):
            try:
                stream.flush()
            except BrokenPipeError:
                _let_go(stream)
            except (OSError, ValueError):
                taken = False
                _let_go(stream)
        return taken

    # --- the user

    @property
    def colour(self) -> bool:
        """Whether colour may be shown (https://no-color.org)."""
        return self.is_terminal and not self.environ.get("NO_COLOR") and self.environ.get("TERM") != "dumb"

    def zone(self, settings_zone: str = "") -> tzinfo:
        """The user's: $TZ, else the settings', else the machine's."""
        from datetime import UTC

        keys = (self.environ.get("TZ", "").removeprefix(":"), settings_zone)
        return next(filter(None, map(_zone, keys)), None) or _machine_zone() or UTC

    def style(self, settings_zone: str = "") -> Style:
        from cronhpc.views.style import Style

        home = self.environ.get("HOME", "")
        return Style(self.now, self.zone(settings_zone), self.width, self.height, self.colour, home, self.directory)

    # --- the cron directory meant

    def site(self, *, anew: bool = False) -> Site:
        """The cron directory meant, opened; `anew` as open_site has it.

        Raises DirectoryError, SettingsError, StateError, BatchError, OSError.
        """
        from cronhpc.engine.site import open_site

        return open_site(self.named(), self.backend, self.environ, anew=anew)

    def paths(self) -> Paths:
        """The cron directory meant. Raises DirectoryError."""
        from cronhpc.store.files import existing

        return existing(self.named(), self.environ)

    def settings(self) -> Settings:
        """The settings where they can be used, else the defaults: for commands that must work all the same.

        The batch system is the directory's, as far as a line of the file or a tick tells: else all would be wrong.
        """
        from cronhpc.store.scheduler import batch_system_found
        from cronhpc.store.settings import backend_line, read_settings

        paths = self.paths()
        try:
            return read_settings(paths.settings)
        except SettingsError as error:
            return error.rest or Settings(backend=backend_line(paths.settings) or batch_system_found(paths))
        except OSError:
            return Settings(backend=batch_system_found(paths))

    def named(self) -> str | None:
        """The one named. For commands that look, or stop: also where `again` keeps series without a cron directory."""
        from cronhpc.store.files import of_series

        of_again = of_series(self.folder, self.environ) if self.of_series else None
        return self.folder if of_again is None else str(of_again)

    def keeps_series_only(self, paths: Paths) -> bool:
        """Whether it is the folder of `again` alone, where no scheduler works."""
        from cronhpc.store.files import own_folder

        return paths.root == own_folder(self.environ)

    def own_paths(self, deed: str) -> Paths:
        """As `paths`, for what only the owner does. Raises CronhpcError for another user's directory."""
        paths = self.paths()
        if not paths.is_mine:
            raise CronhpcError(f"{paths.root} belongs to someone else: only its owner {deed}.")
        return paths

    def own_site(self, deed: str) -> Site:
        """As `site`, for what only the owner does. Raises CronhpcError for another user's directory."""
        self.own_paths(deed)
        return self.site()

    def site_now(self) -> Site:
        """As `site`, after runs that wait for an entry which was edited since were withdrawn."""
        site = self.site()
        return self.site() if self.withdraw_edited(site) else site

    def withdraw_edited(self, site: Site) -> bool:
        """Tick, where a run waits for its slot and its entry was edited, stopped or removed since; whether that was so.

        So the owner's own look does not leave it to the next link, which may come after that slot.
        """
        from cronhpc.core.attempts import decide
        from cronhpc.engine.read import read_world
        from cronhpc.engine.site import reckoned
        from cronhpc.store.claims import Claims
        from cronhpc.store.scheduler import started
        from cronhpc.tick import tick

        try:
            waiting = any(key.slot > self.now for key in Claims(site.paths.claims).names())
            if not waiting or started(site.paths) is None:
                return False
            site, now = reckoned(site, self.now)
            if not any(isinstance(each, Withdraw) for each in decide(read_world(site, now).world)):
                return False
            tick(site, now)
        except (CronhpcError, OSError):
            return False  # said by the look itself, or by the next tick
        return True

    def entries(self) -> tuple[Entry, ...]:
        """The entries of the cron directory meant. Raises as `site`."""
        from cronhpc.engine.read_entries import read_entries

        return read_entries(self.site(), self.now).entries

    def offline_world(self, site: Site) -> World:
        """Entries, their state, switches. The queue is not asked: it may not answer."""
        from cronhpc.engine.read import with_switches
        from cronhpc.engine.read_entries import read_entries
        from cronhpc.store import memory

        entries, states = read_entries(site, self.now).entries, memory.load(site.paths.entries).entries
        return with_switches(site, World(self.now, "", site.settings, entries, states=states))

    def with_unreadable(self, world: World, environment: Mapping[str, str]) -> World:
        """With what shells cannot read of entries that have never run; what looks is loaded only then."""
        if not world.never_ran():
            return world
        from cronhpc.check.look import unread

        return unread(world, environment)

    def instant(self, text: str, zone_key: str = "", *, past: bool = False) -> int:
        """An instant as people write it: 2026-11-27T14:30, with or without a time or zone, yesterday, or 2d (from now).

        `past`: a duration counts back. Raises UsageError.
        """
        from datetime import datetime, timedelta

        from cronhpc.cron.duration import DurationError, parse_duration

        if text.lower() in _DAYS:
            today = datetime.fromtimestamp(self.now, self.zone(zone_key)).replace(hour=0, minute=0, second=0)
            return int((today + timedelta(days=_DAYS[text.lower()])).timestamp())
        try:
            seconds = parse_duration(text)
        except DurationError:
            pass
        else:
            return self.now - seconds if past else self.now + seconds
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=self.zone(zone_key))
            return int(moment.timestamp())
        except (ValueError, OverflowError):
            raise UsageError(
                f"{text!r} is no time. Write it like 2026-11-27T14:30, 2026-11-27, yesterday or 2d."
            ) from None


def _window() -> tuple[int, int]:
    return os.get_terminal_size(sys.stdout.fileno())


def _let_go(stream: TextIO) -> None:
    """What is left in the stream goes nowhere."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


def _asked_width() -> int:
    """$COLUMNS; a pipe or a file is not cut where nobody asked for a width."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isascii() and columns.isdecimal() else 0


def _clock() -> int:
    return int(time.time())  # noqa: TID251 - the one place where the clock is read


def _zone(key: str) -> tzinfo | None:
    from cronhpc.cron.zones import ZoneError, fixed, zone_of

    try:
        return zone_of(fixed(key) or key)
    except ZoneError:
        return None


def _machine_zone() -> tzinfo | None:
    from zoneinfo import ZoneInfo

    from cronhpc.engine.site import machine_zone_key

    key = machine_zone_key()
    if key:
        return ZoneInfo(key)
    with contextlib.suppress(OSError, ValueError), Path("/etc/localtime").open("rb") as file:
        return ZoneInfo.from_file(file)
    return None


# --- what several commands share: a cron directory's files, names and times from the command line --------------------

_STATUS = command("status")
_DIGITS = 9  # more is somebody's noise
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}


class UsageError(CronhpcError):
    """The command line cannot be understood."""


class NoSuchError(CronhpcError):
    """A name that nothing has."""


def entry_argument(parser: argparse.ArgumentParser, nargs: str | None = None) -> None:
    """NAME, where a job's id will do, too."""
    parser.add_argument("name", nargs=nargs, metavar="NAME", help="an entry, or a job's id")


def written_status(paths: Paths) -> Status | None:
    """What the last tick wrote to status.json; None where there is none yet. Raises StateError, OSError.

    Another user's may hold anything: nothing of it reaches this terminal as a code, or breaks what reads it.
    """
    from cronhpc.core.model.decode import MisfitError
    from cronhpc.store.files import read_json
    from cronhpc.views.facts import VERSION, cleaned, of_json

    document = read_json(paths.status, VERSION)
    try:
        return None if document is None else of_json(cleaned(document))
    except MisfitError as place:
        what = f"{paths.status} is not what a tick of cronhpc {__version__} writes (see its {place})."
        raise StateError(f"{what} Its owner can fix it: " + command("tick")) from None


def no_such(kind: str, name: str, names: Iterable[str], see: str = _STATUS) -> NoSuchError:
    """The error for a name that no entry has, with the nearest one."""
    from cronhpc.views.text import name as quoted
    from cronhpc.views.text import word

    near = nearest(name, names, 0.5)
    fix = f"Did you mean {word(near)}?" if near else "See: " + see
    return NoSuchError(f"There is no {kind} called {quoted(name)}. " + fix)


def filled(text: str) -> str:
    """What names something, for argparse. Raises UsageError where it is empty: a variable that is not set."""
    if text:
        return text
    raise UsageError("A name or file is empty. Write it, or leave it out.")


def count_of(text: str, least: int = 1) -> int:
    """A whole number from `least`, for argparse. Raises UsageError."""
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) >= least:
        return int(text)
    raise UsageError(f"{text!r} is no number. Write a whole number from {least}.")


def zone_named(text: str) -> str:
    """A time zone's name, or "", for argparse. Raises UsageError with the nearest one."""
    from cronhpc.cron.zones import fix, is_zone

    name = text.strip()
    if not name or is_zone(name):
        return name
    raise UsageError(f"{text!r} is no timezone. " + fix(name))


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
