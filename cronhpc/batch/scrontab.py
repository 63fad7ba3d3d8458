"""A user's scrontab, changed with care: reading fails quietly, and writing replaces all of it.

A frozen controller makes `scrontab -l` print nothing and exit 1, just as a user without a table does; and an empty
pipe into `scrontab -` wipes the table, exit 0. So it is written only after it was surely read, and then read back.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cronhpc.batch.process import Missing, for_commands, run
from cronhpc.core.model import CronhpcError, Way, command
from cronhpc.script.dialect import SLURM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NONE = "no crontab for"  # what scrontab says to a user without a table
_TIME = 30.0
_HOUR = 3600


class ScrontabError(CronhpcError):
    """The table was not changed, or not as it should be; the text says which, and the fix."""


def read(environ: Mapping[str, str]) -> str:
    """The table as it is, byte for byte. Raises ScrontabError where nobody can tell."""
    try:
        ended = run(["scrontab", "-l"], timeout=_TIME, env=for_commands(environ, SLURM))
    except Missing:
        raise ScrontabError("this site has no scrontab. Use: " + Way.CHAIN.start) from None
    if ended.code == 0 and not ended.timed_out:
        return ended.out
    if _NONE in ended.out + ended.err:
        return ""
    words = ended.err.strip() or ("it did not answer in time" if ended.timed_out else f"exit {ended.code}, no word why")
    if "disabled" in words.lower():
        raise ScrontabError(f"this site has switched scrontab off ({words}). Use: " + Way.CHAIN.start)
    raise ScrontabError(f"your scrontab cannot be read ({words}), so it is not touched. Try again.")


def write(environ: Mapping[str, str], text: str) -> None:
    """Install `text` as the table, and read it back. Raises ScrontabError."""
    ended = run(["scrontab", "-"], timeout=_TIME, env=for_commands(environ, SLURM), input=text)
    failed = ended.code != 0 or ended.timed_out  # and may have written it all the same, a moment later
    words = ended.err.strip() or ("no answer in time" if ended.timed_out else f"exit {ended.code}")
    try:
        table = read(environ)
    except ScrontabError as error:
        if failed:
            raise ScrontabError(f"scrontab could not write the table ({words}), or has: {error}") from None
        raise
    if table.rstrip("\n") == text.rstrip("\n"):
        return
    if failed:
        raise ScrontabError(f"scrontab refused the table: {words}. As far as can be told it is as it was; try again.")
    raise ScrontabError("scrontab holds something else than was written. Look at it: scrontab -l; then try again.")


_NO_NEWLINE = "; the line above had no newline"
_MARK = re.compile(r"# cronhpc (?P<id>\w+): (?P<which>begin|end)\b.*")
_DISABLED = "#DISABLED: "  # what Slurm writes before each line of an entry whose job was cancelled


def block(directory_id: str, fields: str, options: Sequence[str], line: str) -> str:
    """The lines of our one entry."""
    rows = [f"# cronhpc {directory_id}: begin (by `{Way.SCRONTAB.start}`; `{command('stop')}` removes it)"]
    rows += [f"#SCRON {option}" for option in options]
    return "\n".join([*rows, f"{fields} {line}", f"# cronhpc {directory_id}: end", ""])


def with_block(table: str, directory_id: str, lines: str) -> str:
    """The table with our entry, once; everything else byte for byte."""
    rest = without_block(table, directory_id)
    if rest and not rest.endswith("\n"):
        rest += "\n"
        lines = lines.replace("\n", f"{_NO_NEWLINE}\n", 1)
    return rest + lines


def without_block(table: str, directory_id: str) -> str:
    """The table without our entry: its marks, its options, and the one line that calls a tick; nothing else.

    An edited table may lack a mark, and what stands below is its user's.
    """
    kept: list[str] = []
    lines = table.splitlines(keepends=True)
    ours = own_lines(lines, directory_id)
    cut = ""
    for number, line in enumerate(lines):
        if number not in ours:
            kept.append(line)
            cut = ""
        elif _NO_NEWLINE in line:
            cut = "\n"
    return "".join(kept).removesuffix(cut)


def own_lines(lines: Sequence[str], directory_id: str = "") -> frozenset[int]:
    """Which lines (from 0) are of the entry of a cron directory; "": of any. Also where Slurm has disabled it."""
    numbers, ours = set(), ""
    for number, whole in enumerate(lines):
        line = whole.rstrip("\r\n").removeprefix(_DISABLED)
        mark = _MARK.fullmatch(line)
        if mark is not None and directory_id in {"", mark["id"]}:
            ours = mark["id"] if mark["which"] == "begin" else ""
            numbers.add(number)
        elif ours and (line.startswith("#SCRON ") or " tick --dir " in line):
            numbers.add(number)
        if " tick --dir " in line:
            ours = ""  # what else there is of it is its end mark
    return frozenset(numbers)


def is_disabled(table: str, directory_id: str) -> bool:
    """Whether our entry is there and runs no more, as its job was cancelled."""
    lines = table.splitlines()
    return any(lines[number].startswith(_DISABLED) for number in own_lines(lines, directory_id))


def has_entries(table: str) -> bool:
    """Whether anything else runs from it: installing a table gives all of them new jobs."""
    return any(
        line.strip() and not line.lstrip().startswith("#") and "=" not in line.split()[0] for line in table.splitlines()
    )


def fields_of(interval: int) -> str:
    """Cron fields for an interval in seconds. Raises ScrontabError for one that no cron line can say."""
    minutes = interval // 60
    if interval == 60:  # noqa: PLR2004 - a minute
        return "* * * * *"
    if interval % 60 == 0 and 1 < minutes < 60 and 60 % minutes == 0:  # noqa: PLR2004 - minutes of an hour
        return f"*/{minutes} * * * *"
    if interval == _HOUR:
        return "0 * * * *"
    hours = interval // _HOUR
    if interval % _HOUR == 0 and hours < 24 and 24 % hours == 0:  # noqa: PLR2004 - hours of a day
        return f"0 */{hours} * * *"
    raise ScrontabError(
        f"scheduler.interval of {interval} s fits no crontab line. Choose one that divides an hour or a day."
    )
