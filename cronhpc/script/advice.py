"""What to do about something, as a value: commands of cronhpc, and the words around them.

Which cron directory a command is about is known only where it is read: `text_of` names it there, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from cronhpc.cron.values import CronhpcError, dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from cronhpc.script.dialect import Dialect


@dataclass(frozen=True, slots=True)
class Command:
    """`cronhpc VERB ARGUMENTS`. `directory`: the absolute path of the one it is about, where that is fixed."""

    verb: str
    arguments: tuple[str, ...] = ()
    directory: str = ""

    def words(self, directory: str = "") -> list[str]:
        """Each as it is typed, about `directory` unless its own is fixed."""
        about = "" if self.verb in _OF_NO_DIRECTORY else self.directory or directory
        return ["cronhpc", self.verb, *(["--dir", word(about)] if about else []), *map(word, self.arguments)]

    def text(self, directory: str = "") -> str:
        """As it is typed; see `words`."""
        return " ".join(self.words(directory))


_OF_NO_DIRECTORY = frozenset({"again", "guard"})  # within a job


class Advice(str):
    """A sentence with commands in it; as a text it is what to type where the cron directory is the default one.

    `"Write it again: " + command("start")` is one as well. A format string keeps the text alone: the commands in it
    could name no directory any more.
    """

    __slots__ = ("parts",)
    parts: tuple[str | Command, ...]

    def __new__(cls, *parts: str | Command) -> Self:
        """The parts one after the other, as they stand."""
        flat: list[str | Command] = []
        for part in parts:
            flat += part.parts if isinstance(part, Advice) else (part,)
        self = super().__new__(cls, "".join(part.text() if isinstance(part, Command) else part for part in flat))
        self.parts = tuple(flat)
        return self

    def rstrip(self, chars: str | None = None, /) -> Advice:
        """Without these at the end of its last words."""
        *parts, last = self.parts or ("",)
        return Advice(*parts, last.rstrip(chars) if isinstance(last, str) else last)

    def __add__(self, other: str) -> Advice:
        return Advice(self, other)

    def __radd__(self, other: str) -> Advice:
        return Advice(other, self)


def command(verb: str, *names: str, options: tuple[str, ...] = (), directory: str = "") -> Advice:
    """The command on `names`, also where one begins with a dash. `directory`: see Command."""
    dashes = ("--",) if any(name.startswith("-") for name in names) else ()
    return Advice(Command(verb, (*options, *dashes, *names), directory))


def cancelling(dialect: Dialect, *job_ids: str) -> str:
    """What ends these jobs: the batch system's own command, or ours where there is none."""
    return " ".join((dialect.cancel, *job_ids)) if dialect.cancel else command("kill", *job_ids)


def joined(between: str, parts: Iterable[str]) -> Advice:
    """As `between.join(parts)`, which keeps the text alone."""
    return Advice(*[each for part in parts for each in (between, part)][1:])


def text_of(advice: str, directory: str) -> str:
    """`advice` with the directory named in its commands; "" where they find it by themselves."""
    if not isinstance(advice, Advice):
        return advice
    return "".join(part.text(directory) if isinstance(part, Command) else part for part in advice.parts)


_NO_ADVICE = frozenset({str, int, bool, float, type(None)})  # most of what there is


def texts_of(value: Any, directory: str) -> Any:
    """JSON-ready facts with all their texts so."""
    if type(value) in _NO_ADVICE:
        return value
    if isinstance(value, dict | Mapping):
        return {key: each if type(each) in _NO_ADVICE else texts_of(each, directory) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [texts_of(each, directory) for each in value]
    return text_of(value, directory) if isinstance(value, str) else value


class StateError(CronhpcError):
    """A state file cannot be used: unreadable, or written by a newer cronhpc."""


class Severity(StrEnum):
    """How bad a problem is; its code begins with the first letter."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a user can fix: `code` starts with E (error) or W (warning), or with N for what is merely so."""

    code: str
    what: str
    fix: str | Advice
    file: str = ""  # as the user knows it, relative to the cron directory
    line: int = 0  # from 1; 0 where no line is meant
    key: str = ""

    @property
    def severity(self) -> Severity:
        return {"E": Severity.ERROR, "N": Severity.NOTE}.get(self.code[:1], Severity.WARNING)

    @property
    def advice(self) -> Advice:
        """All of it, with the commands of its fix as values."""
        place = self.file + (f":{self.line}" if self.line else "")
        head = f"{f'{place}: ' if place else ''}{self.code} {self.what}"
        return Advice(head, " ", self.fix) if self.fix else Advice(head.strip())

    def __str__(self) -> str:
        return str(self.advice)


# --- for a shell ------------------------------------------------------------------------------------------------------


_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\x1b": "\\e"}
_PLAIN_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%+=:,./-_")


def escape(char: str) -> str:
    """A character that may not be printed, as bash would write it in $'…'."""
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    if 0xDC80 <= code <= 0xDCFF:  # noqa: PLR2004 - surrogateescape: a byte of a file name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:  # noqa: PLR2004 - ASCII
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - four hex digits


def dollar(text: str) -> str:
    """`text` in bash's $'…', which can spell everything."""
    body = "".join(
        "\\" + char if char in "\\'" else char if char.isprintable() else escape(char) for char in text
    )  # a combining character first would sit on the quote: bash reads it all the same
    return f"$'{body}'"


def word(given: object) -> str:
    """A text or path as one word that can be pasted into a shell."""
    text = str(given)
    if text and _PLAIN_WORD.issuperset(text):
        return text
    if not text.isprintable() or "'" in text:
        return dollar(text)
    return f"'{text}'"
