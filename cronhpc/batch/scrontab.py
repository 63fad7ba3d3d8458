"""A user's scrontab, changed with care: reading fails quietly, and writing replaces all of it.

A frozen controller makes `scrontab -l` print nothing and exit 1, just as a user without a table does; and an empty
pipe into `scrontab -` wipes the table, exit 0. So it is written only after it was surely read, and then read back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.batch.environment import for_commands
from cronhpc.batch.process import Missing, run
from cronhpc.core.model import CronhpcError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NONE = "no crontab for"  # what scrontab says to a user without a table
_TIME = 30.0
_HOUR = 3600


class ScrontabError(CronhpcError):
    """The table was not changed, or not as it should be; the text says which, and the mend."""


def read(environ: Mapping[str, str]) -> str:
    """The table as it is, byte for byte. Raises ScrontabError where nobody can tell."""
    try:
        ended = run(["scrontab", "-l"], timeout=_TIME, env=for_commands(environ))
    except Missing:
        raise ScrontabError("this site has no scrontab. Use: cronhpc start") from None
    if ended.code == 0 and not ended.timed_out:
        return ended.out
    if _NONE in ended.out + ended.err:
        return ""
    said = ended.err.strip() or ("it did not answer in time" if ended.timed_out else f"exit {ended.code}, no word why")
    raise ScrontabError(f"your scrontab cannot be read ({said}), so it is not touched. Try again.")


def write(environ: Mapping[str, str], text: str) -> None:
    """Install `text` as the table, and read it back. Raises ScrontabError."""
    ended = run(["scrontab", "-"], timeout=_TIME, env=for_commands(environ), input=text)
    failed = ended.code != 0 or ended.timed_out  # and may have written it all the same, a moment later
    said = ended.err.strip() or ("no answer in time" if ended.timed_out else f"exit {ended.code}")
    try:
        found = read(environ)
    except ScrontabError as error:
        if failed:
            raise ScrontabError(f"scrontab could not write the table ({said}), or has: {error}") from None
        raise
    if found.rstrip("\n") == text.rstrip("\n"):
        return
    if failed:
        raise ScrontabError(f"scrontab refused the table: {said}. As far as can be told it is as it was; try again.")
    raise ScrontabError("scrontab holds something else than was written. Look at it: scrontab -l; then try again.")


def _marks(directory_id: str) -> tuple[str, str]:
    return f"# cronhpc {directory_id}: begin", f"# cronhpc {directory_id}: end"


def block(directory_id: str, fields: str, options: Sequence[str], command: str) -> str:
    """The lines of our one entry."""
    begin, end = _marks(directory_id)
    rows = [f"{begin} (by `cronhpc start --via scrontab`; `cronhpc stop` removes it)"]
    rows += [f"#SCRON {option}" for option in options]
    return "\n".join([*rows, f"{fields} {command}", end, ""])


def with_block(table: str, directory_id: str, lines: str) -> str:
    """The table with our entry, once; everything else byte for byte."""
    rest = without_block(table, directory_id)
    if rest and not rest.endswith("\n"):
        rest += "\n"
    return rest + lines


def without_block(table: str, directory_id: str) -> str:
    """The table without our entry: its marks, its options, and the one line that calls a tick; nothing else.

    An edited table may lack a mark, and what stands below is its user's.
    """
    begin, end = _marks(directory_id)
    kept, ours = [], False
    for line in table.splitlines(keepends=True):
        if line.startswith(begin):
            ours = True
        elif line.rstrip("\n") == end:
            ours = False
        elif not (ours and (line.startswith("#SCRON ") or " tick --dir " in line)):
            kept.append(line)
        if " tick --dir " in line:
            ours = False  # what else there is of it is its end mark
    return "".join(kept)


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
