"""How a screen is drawn: the moment and zone it is seen from, its width, and whether it may have colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache

from cronhpc.core.model import Advice, command, text_of
from cronhpc.cron.values import dataclass
from cronhpc.views import text, times

_CODES = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "dim": "2", "bold": "1"}
_GAP = "  "
_BETWEEN, _WITHIN = "\ue000\ue001"  # blanks between a command's words, and in one; no text that is shown has these
_GO_ON = " \\"
_EASY = 2  # times its least width a column is easily read
_NEAR = 6  # days for which a weekday is enough


@dataclass(frozen=True, slots=True)
class Style:
    """`width` and `height` are the terminal's; 0: no limit (a pipe, a file)."""

    now: int
    zone: tzinfo = UTC
    width: int = 0
    height: int = 0
    colour: bool = False
    home: str = ""
    directory: str = ""  # what commands name with --dir; "" where they find it without

    def paint(self, words: str, colour: str) -> str:
        """`words` in a colour, on a terminal that may show it."""
        return f"\x1b[{_CODES[colour]}m{words}\x1b[0m" if self.colour and colour and words else words

    def text(self, words: str) -> str:
        """`words` as its reader can use it: see `text_of`."""
        return text_of(words, self.directory)

    def command(self, verb: str, *names: str, options: tuple[str, ...] = ()) -> str:
        """A command as its reader can type it."""
        return self.text(command(verb, *names, options=options))

    def wrapped(self, words: str, columns: int, used: int = 0) -> list[str]:
        """`words` as its reader can use it, in lines; see `wrap`. A command on several of them can be pasted, too."""
        parts = words.parts if isinstance(words, Advice) else (words,)
        kept = [part if isinstance(part, str) else _unbreakable(part.words(self.directory)) for part in parts]
        lines = [line for whole in wrap("".join(kept), columns, used) for line in _shell_lines(whole, columns)]
        return [line.replace(_WITHIN, " ") for line in lines]

    def clock(self, at: int, *, seconds: bool = False) -> str:
        """As short as is clear from now: `14:30` today, `Sat 04:00` within six days, else `28 Nov 04:00`."""
        return _clock(at if seconds else at - at % times.MINUTE, self.now, self.zone, seconds)

    def at(self, instant: int | None) -> str:
        """An instant on the clock; "-" where it is none."""
        return "-" if instant is None else self.clock(instant)

    def dated(self, at: int) -> str:
        """As in a sentence: `today 04:00`, `yesterday 22:00`, `tomorrow 04:00`, `Sat 28 Nov 04:00`."""
        moment, today = self._local(at)
        word = {-1: "yesterday", 0: "today", 1: "tomorrow"}.get((moment.date() - today.date()).days)
        hands = _time_of_day(moment, seconds=False)
        return f"{word} {hands}" if word else f"{self.day(at)} {hands}"

    def slot_words(self, at: int) -> str:
        """`Today's 04:00`, `Yesterday's 04:00`, `The slot Sat 28 Nov 04:00`."""
        moment, today = self._local(at)
        whose = {-1: "Yesterday's", 0: "Today's"}.get((moment.date() - today.date()).days)
        return f"{whose} {_time_of_day(moment, seconds=False)}" if whose else f"The slot {self.dated(at)}"

    def whole(self, at: int) -> str:
        """With its day and zone: `Sat 28 Nov 04:00 CET`."""
        moment, _ = self._local(at)
        return f"{self.day(at)} {moment:%H:%M %Z}"

    def day(self, at: int) -> str:
        """Only the day: `Sat 28 Nov`."""
        moment, today = self._local(at)
        return f"{times.DAYS[moment.weekday()]} {_date(moment, today)}"

    def distance(self, at: int) -> str:
        """`in 23 min`, `3 days ago`, `now`."""
        if at == self.now:
            return "now"
        return f"in {times.span(at - self.now)}" if at > self.now else f"{times.span(at - self.now)} ago"

    def _local(self, at: int) -> tuple[datetime, datetime]:
        """The instant, and now, in the zone."""
        return times.local(at, self.zone), times.local(self.now, self.zone)

    def path(self, path: str) -> str:
        """A path with the user's home as ~."""
        home = self.home.rstrip("/")
        short = "~" + path[len(home) :] if home and (path == home or path.startswith(home + "/")) else path
        return text.clean(short)

    def word(self, path: str) -> str:
        """A path within a command, the user's home as ~ where a shell reads that."""
        short = self.path(path)
        return short if text.word(short.removeprefix("~")) == short.removeprefix("~") else text.word(path)


@lru_cache(maxsize=4096)  # a table says many an instant again and again: entries share their minutes
def _clock(at: int, now: int, zone: tzinfo, seconds: bool) -> str:  # noqa: FBT001 - as `Style.clock` has it
    moment, today = times.local(at, zone), times.local(now, zone)
    hands = _time_of_day(moment, seconds=seconds)
    days = (moment.date() - today.date()).days
    if days == 0:
        return hands
    return f"{times.DAYS[moment.weekday()] if abs(days) <= _NEAR else _date(moment, today)} {hands}"


def _time_of_day(moment: datetime, *, seconds: bool) -> str:
    """The time of day; with its zone in the hour that the clocks pass twice."""
    text = f"{moment:%H:%M:%S}" if seconds else f"{moment:%H:%M}"
    other = moment.replace(fold=1 - moment.fold)
    twice = other.utcoffset() != moment.utcoffset() and other.astimezone(UTC).astimezone(moment.tzinfo) == other
    return f"{text} {moment:%Z}" if twice else text


def _date(moment: datetime, today: datetime) -> str:
    text = f"{moment.day} {times.MONTHS[moment.month - 1]}"
    return text if moment.year == today.year else f"{text} {moment.year}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; of the optional ones those with the highest `optional` go first where room is short."""

    title: str
    right: bool = False
    optional: int = 0
    least: int = 0  # columns below which it is not cut; 0: never cut
    name: bool = False  # cut in its middle
    wraps: bool = False  # the last one: what is wider goes on below

    @property
    def easy(self) -> int:
        """Down to this it gives way before an optional column goes; of what goes on below nothing is lost."""
        return self.least if self.wraps else _EASY * self.least


Cell = str | tuple[str, str]  # text, or text and its colour


def _cell_text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell[0]


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], style: Style) -> list[str]:
    """Lines of a table, its title line first; the last column is not filled up, and goes on below where it `wraps`."""
    cells = [each[1:] for each in zip([column.title for column in columns], *rows, strict=True)]
    last = cells[-1]
    cells[-1] = tuple(style.text(cell) if isinstance(cell, Advice) else cell for cell in last)
    used, widths = _fitted(columns, cells, style.width)
    kept = [columns[i] for i in used]
    titles = [column.title for column in kept]
    lines = [style.paint(_line(kept, titles, [widths[i] for i in used]), "dim")] if any(titles) else []
    painted = [_painted(columns[i], cells[i], widths[i], style) for i in used]
    if not columns[-1].wraps or not style.width:
        return [*lines, *(_GAP.join(parts).rstrip() for parts in zip(*painted, strict=True))]
    begun = _total_width(used[:-1], widths)
    for parts, cell in zip(zip(*painted[:-1], strict=True), last, strict=True):
        first, *more = style.wrapped(_cell_text(cell), style.width - len(_GAP), begun)
        lines += [_GAP.join((*parts, first)).rstrip(), *(_GAP + line for line in more)]
    return lines


def _fitted(columns: Sequence[Column], cells: Sequence[Sequence[Cell]], room: int) -> tuple[list[int], list[int]]:
    """Which columns are shown, and how wide each is. `cells`: by column.

    Columns that may be cut give way down to an easy width, then optional ones go, then those are cut to the least.
    """
    widths = [
        max(map(text.width, (column.title, *map(_cell_text, set(each)))))
        for column, each in zip(columns, cells, strict=True)
    ]
    used = list(range(len(columns)))
    if not room:
        return used, widths
    easy = [min(w, c.easy) if c.least else w for c, w in zip(columns, widths, strict=True)]
    for index in sorted(used, key=lambda i: -columns[i].optional):
        if _total_width(used, easy) <= room or not columns[index].optional:
            break
        used.remove(index)
    return used, _cut(columns, used, widths, room)


def _cut(columns: Sequence[Column], used: list[int], widths: list[int], room: int) -> list[int]:
    """The widest first, so that a long text does not cost a short name its letters."""
    widths = list(widths)
    for _ in range(_total_width(used, widths) - room):
        wide = [i for i in used if columns[i].least and widths[i] > columns[i].least]
        if not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _total_width(used: list[int], widths: list[int]) -> int:
    return sum(widths[i] for i in used) + len(_GAP) * (len(used) - 1)


def _line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = [text.pad(c, w, right=col.right) for col, c, w in zip(columns, cells, widths, strict=True)]
    return _GAP.join(parts).rstrip()


def _painted(column: Column, cells: Sequence[Cell], wide: int, style: Style) -> list[str]:
    """The column's cells, each filled or cut to its width: each text once, however many rows have it."""
    filled = {cell: _filled(column, cell, wide, style) for cell in set(cells)}
    return [filled[cell] for cell in cells]


def _filled(column: Column, cell: Cell, wide: int, style: Style) -> str:
    words, colour = (cell, "") if isinstance(cell, str) else cell
    size = text.width(words)
    if size > wide:
        words = (text.shorten if column.name else text.cut)(words, wide)
        size = text.width(words)
    painted = style.paint(words, colour) if colour else words
    return " " * (wide - size) + painted if column.right else painted + " " * (wide - size)


def wrap(words: str, columns: int, used: int = 0) -> list[str]:
    """`words` in lines of at most `columns` display columns, broken at blanks; 0: one line. `used`: of the first."""
    if not columns or used + text.width(words) <= columns:
        return [words]
    lines: list[str] = []
    line = ""
    for part in words.split(" "):
        joined = f"{line} {part}" if line else part
        taken = 0 if lines else used
        if (line or taken) and taken + text.width(joined) > columns:
            lines.append(line)
            joined = part
        line = joined
    return [*lines, line]


def _unbreakable(words: Sequence[str]) -> str:
    """A command as one word to `wrap`."""
    return _BETWEEN.join(word.replace(" ", _WITHIN) for word in words)


def _shell_lines(line: str, columns: int) -> Iterator[str]:
    """The line, broken within a command too wide for it as a shell takes it: all but the last end with a backslash."""
    if not columns or text.width(line) <= columns:
        yield line.replace(_BETWEEN, " ")
        return
    first, *words = line.split(_BETWEEN)
    for number, word in enumerate(words, 1):
        if text.width(f"{first} {word}") + (0 if number == len(words) else len(_GO_ON)) > columns:
            yield first + _GO_ON
            first = word
        else:
            first = f"{first} {word}"
    yield first
