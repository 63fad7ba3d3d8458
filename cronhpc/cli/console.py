"""What only the command line may touch: the clock, the environment, the terminal, the user's zone."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

from cronhpc.core.model import Advice, text_of
from cronhpc.cron.values import dataclass, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping
    from datetime import tzinfo
    from typing import Any, TextIO

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
    asked: str | None = None  # the --dir of this call
    backend: str = ""  # its --backend
    as_json: bool = False  # its --json
    of_series: bool = False  # it looks, or stops: also where `again` keeps series without a cron directory

    @classmethod
    def here(cls) -> Console:
        """This process's."""
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
        """Let time pass."""
        time.sleep(seconds)

    def about(self, args: argparse.Namespace) -> Console:
        """The same outside, for a call with these options that every command has."""
        return replace(self, asked=args.dir, backend=args.backend or "", as_json=args.json, of_series=args.of_series)

    @property
    def directory(self) -> str:
        """What commands that are shown must name with --dir, absolute; "" where they find it without."""
        from cronhpc.store.files import DirectoryError, wanted

        if not self.asked:
            return ""
        asked, _ = wanted(self.asked, self.environ)
        try:
            usual, _ = wanted(None, self.environ)
        except DirectoryError:  # $WORK is not there
            return str(asked)
        return "" if asked == usual else str(asked)

    # --- printing

    def text(self, words: str) -> str:
        """`words` as its reader can use it: see `text_of`."""
        return text_of(words, self.directory) if isinstance(words, Advice) else words

    def say(self, text: str = "") -> None:
        """One or more lines of answer."""
        print(self.text(text), file=self.out)

    def complain(self, text: str) -> None:
        """One or more lines on stderr; whatever names and messages hold, the terminal is safe."""
        from cronhpc.views.text import lines

        with contextlib.suppress(OSError, ValueError):  # nobody hears it: the exit code tells
            print(lines(self.text(text)), file=self.err)

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

    def answer(self, facts: object, words: Callable[[], str]) -> None:
        """As JSON where that was asked for, a record's fields too; else in words."""
        if self.as_json:
            self.json(facts)
        else:
            self.say(words())

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

        for key in (self.environ.get("TZ", "").removeprefix(":"), settings_zone):
            found = _zone(key)
            if found is not None:
                return found
        return _machine_zone() or UTC

    def style(self, settings_zone: str = "") -> Style:
        """How screens are drawn here."""
        from cronhpc.views.style import Style

        home = self.environ.get("HOME", "")
        return Style(self.now, self.zone(settings_zone), self.width, self.height, self.colour, home, self.directory)


def _window() -> tuple[int, int]:
    """Columns and lines of the terminal."""
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
