"""Text for terminals: how wide it is, what of it may be shown, and names that no one can mistake."""

from __future__ import annotations

from cronhpc.core.model import Advice, Command
from cronhpc.cron.values import count as core_count
from cronhpc.script.advice import dollar, escape
from cronhpc.script.advice import word as core_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

count, word = core_count, core_word
_JAMO = range(0x1160, 0x1200)  # Hangul vowels and finals join the syllable before them


def char_width(char: str) -> int:
    """Columns that a printable character takes on a terminal: 0 (combining), 1 or 2."""
    if char < "\u0300":
        return 1
    import unicodedata

    if unicodedata.category(char) in {"Mn", "Me"} or ord(char) in _JAMO:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def width(text: str) -> int:
    """Columns that cleaned text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(char_width, text))


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """`text` filled with blanks to `columns`; at its right end where `right`."""
    blanks = " " * (columns - width(text))
    return blanks + text if right else text + blanks


def cut(text: str, columns: int) -> str:
    """`text` in at most `columns` columns, its end replaced by "..." where it is longer."""
    if width(text) <= columns:
        return text
    kept = _fitting(text, max(columns - 3, 0))
    return (kept + "...")[: max(columns, 0)] if columns < 4 else kept + "..."  # noqa: PLR2004 - the dots and a letter


def shorten(text: str, columns: int) -> str:
    """A name in at most `columns` columns, its middle replaced by "…": names of a kind differ at either end."""
    if width(text) <= columns:
        return text
    room = max(columns - 1, 0)
    end = _fitting(reversed(text), room // 2)[::-1]
    return (_fitting(text, room - width(end)) + "…" + end)[: None if columns > 0 else 0]


def _fitting(chars: Iterable[str], columns: int) -> str:
    kept = ""
    for char in chars:
        columns -= char_width(char)
        if columns < 0:
            break
        kept += char
    return kept


def clean(text: str) -> str:
    """`text` on one line and harmless to a terminal: control, bidirectional and invisible characters are spelt out."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else escape(char) for char in text)


def one_line(text: str) -> str:
    """`clean`, with runs of white space (newlines too) as one blank; commands stay as they are."""
    if isinstance(text, Advice):
        return Advice(*(part if isinstance(part, Command) else _inner(part) for part in text.parts))
    return clean(" ".join(text.split()))


def _inner(text: str) -> str:
    """`one_line` of a part, which keeps a blank at either end."""
    before, after = (" " if edge.isspace() else "" for edge in (text[:1], text[1:][-1:]))
    return f"{before}{one_line(text)}{after}"


def lines(text: str) -> str:
    """`clean` for what is meant to have lines and tabs: a log. A lone return begins a line."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join("\t".join(clean(part) for part in line.split("\t")) for line in text.split("\n"))


def name(text: str) -> str:
    """A name as its user wrote it; quoted as bash would where that could be mistaken on a line."""
    if not text.isprintable() or text.startswith(("$'", "'")) or (text and char_width(text[0]) == 0):
        return dollar(text)
    if not text or text != " ".join(text.split()):
        return f"'{text}'" if "'" not in text else dollar(text)
    return text


def place(file: str, line: int) -> str:
    """Where a problem is: `cron.d/backup.slurm:3`; "" where it has no file."""
    return f"{file}:{line}" if line else file


def size(count_of_bytes: int) -> str:
    """Bytes as people say them: 512 B, 1.1 MB (1 kB is 1,024 B, as in the settings)."""
    value = float(count_of_bytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1024 or unit == "TB":  # noqa: PLR2004 - the next unit
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"  # noqa: PLR2004 - three digits tell enough


def listed(parts: list[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}" if len(parts) > 1 else "".join(parts)


def jobs_of_it(ids: Sequence[str], singular: str, plural: str) -> str:
    """`job 7 of it runs`, `jobs 7, 8 of it run`."""
    return f"job{'s' if len(ids) > 1 else ''} {', '.join(ids)} of it {plural if len(ids) > 1 else singular}"
