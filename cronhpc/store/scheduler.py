"""What lies in scheduler/ beside the link: how ticks are driven, the marks of `start` and `stop`, records of links."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from cronhpc.core import model
from cronhpc.core.model import LINK_WORDS, LinkRecord, Started, decode
from cronhpc.cron.values import dataclass
from cronhpc.script.dialect import DIALECTS, Dialect
from cronhpc.store.files import Paths, read_bytes, read_json, replace_file, retried, write_json
from cronhpc.store.memory import Cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

VERSION = 1
OURS = "# A link of cronhpc's chain"  # the second line of its text: nobody else's script has it


def started(paths: Paths) -> Started | None:
    """How ticks are driven here: what `start` wrote; None where it was never called, or `stop` was since."""
    return None if marks(paths).stopped else last_started(paths)


def last_started(paths: Paths) -> Started | None:
    """The same also after `stop`: what that could not undo, the next one has to."""
    return read_started(paths)[0]


def read_started(paths: Paths) -> tuple[Started | None, Sequence[str]]:
    """As `last_started`, and the places in the file of what is of no use.

    A file of which nothing is of use says that `start` was called, and no more.
    """
    path = paths.scheduler / "started"
    how = read_json(path, VERSION)
    if how is None:
        return (Started(), ["all of it"]) if os.path.lexists(path) else (None, ())
    return decode.read(Started, how)


@dataclass(frozen=True, slots=True)
class Marks:
    """What `start`, `stop` and administrators have left in scheduler/: start.N, stop.N, rest.N.

    A stop or rest is over once there is a start of a higher number. One without a number, of an older version or made
    by hand, stands until `start` removes it.
    """

    start: int = 0  # the newest
    stops: frozenset[str] = frozenset()  # those that stand
    holds: frozenset[str] = frozenset()
    newest: int = 0  # the highest number of all

    @property
    def stopped(self) -> bool:
        """`stop` was called, and `start` was not since."""
        return bool(self.stops)

    @property
    def next_start(self) -> int:
        """The number of the next start: a new one only where something has ended the chain since the last."""
        return self.newest + 1 if self.stops or self.holds or not self.start else self.start

    @property
    def next_stop(self) -> str:
        return f"stop.{self.newest + 1 if self.stops else self.newest}"


_MARK = re.compile(r"(start(?=\.)|stop|rest)(?:\.([0-9]{1,9}))?")


def marks(paths: Paths) -> Marks:
    """Found by listing the folder: on another machine a stat of a name may be a minute old, a listing is not.

    Raises OSError.
    """
    try:
        names = os.listdir(paths.scheduler)
    except FileNotFoundError:
        return Marks()
    numbered = [(match[1], int(match[2] or -1), match[0]) for name in names if (match := _MARK.fullmatch(name))]
    start = max((number for kind, number, _ in numbered if kind == "start"), default=0)
    standing = [(kind, name) for kind, number, name in numbered if number >= start or "." not in name]
    stops, holds = (frozenset(name for kind, name in standing if kind == wanted) for wanted in ("stop", "rest"))
    return Marks(start, stops, holds, max((0, *(number for _, number, _ in numbered))))


def mark_started(paths: Paths, how: Started) -> None:
    """Remember how; its generation ends `stop` and an administrator's word. Raises OSError.

    The marks of the generation before stay: who lists the folder meanwhile sees those, or the new one.
    """
    number, before = how.generation or marks(paths).next_start, last_started(paths)
    since = before.since if before is not None and before.generation == number else how.at
    body = {**decode.plain(how), "generation": number, "since": since}
    write_json(paths.scheduler / "started", body, VERSION, 0o644)
    replace_file(paths.scheduler / f"start.{number}", b"", 0o644)
    for name in os.listdir(paths.scheduler):
        match = _MARK.fullmatch(name)
        if match and int(match[2] or -1) < number - 1:
            (paths.scheduler / name).unlink(missing_ok=True)


def mark_stopped(paths: Paths, who: str) -> None:
    """Links that run from now on submit no successor. Raises OSError.

    Looked at afterwards: a start that was not seen at first must not outrank it.
    """
    for _ in range(3):
        name = marks(paths).next_stop
        _note(paths, name, f"stopped by {who}; {model.command('start')} goes on")
        if name in marks(paths).stops:
            return


def is_stopped_login(paths: Paths) -> bool:
    """Whether `stop` stands, and a line of crontab may go on calling ticks (`start --via login`)."""
    return marks(paths).stopped and (last_started(paths) or Started()).via.runs_ahead


class Asked(StrEnum):
    """What is asked of the batch system with a job, and not kept at each site."""

    SUBMIT = "submit"  # by a job
    BEGIN = "begin"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class SiteChanges:
    """What this site makes of submissions, as jobs have shown: read and written here, and noted by links as well.

    What links have to know is a file (no-submit, no-begin), until somebody says `start --via` anew. What is looked at
    once a day is in the cache: of hold and begin [the job that has shown it, when that was].
    """

    paths: Paths
    cache: Cache

    @property
    def no_submit(self) -> str:
        """`node: what sbatch said` of a job that tried to submit another; "": it may, or nobody knows."""
        return _noted(self.paths, "no-submit")

    @property
    def drops_begin(self) -> str:
        """The job that could begin before its --begin; "": that is kept, or nobody knows."""
        return _noted(self.paths, "no-begin")

    @property
    def drops_hold(self) -> str:
        """The job that could begin before its release; "": --hold is kept, or nobody knows."""
        return str(self.cache.get(Asked.HOLD, ("", 0))[0])

    def looked_at(self, kind: Asked) -> int:
        """When HOLD or BEGIN was looked at last (epoch seconds); 0: never."""
        return int(self.cache.get(kind, ("", 0))[1])

    def note(self, kind: Asked, evidence: str, now: int) -> None:
        """Remember, as of `now`, the `evidence` that `kind` is not kept; "": it is."""
        if kind is not Asked.SUBMIT:
            self.cache.keep(kind, [evidence, now])
        if kind is not Asked.HOLD and evidence:
            with suppress(OSError):
                _note(self.paths, f"no-{kind}", evidence)

    def forget(self) -> None:
        """What links have to know is found out anew. Raises OSError."""
        for kind in (Asked.SUBMIT, Asked.BEGIN):
            (self.paths.scheduler / f"no-{kind}").unlink(missing_ok=True)


def remember_admins_word(paths: Paths, why: str) -> None:
    """Keep an administrator's word until `start`. Raises OSError."""
    listed = marks(paths)
    if admins_word(paths, listed) != why:
        _note(paths, f"rest.{listed.start}", why)


def links(paths: Paths) -> dict[str, LinkRecord]:
    """The links that were submitted, by job id, as those who did it wrote them down. Raises OSError.

    A file of another shape, and one that is being written or cannot be opened here yet, is none: its link is known by
    its comment, or its name.
    """
    records: dict[str, LinkRecord] = {}
    try:
        names = retried(lambda: os.listdir(paths.scheduler / "links"))
    except FileNotFoundError:
        return records
    for name in filter(str.isdecimal, names):
        if match := re.fullmatch(_LINK, _noted(paths, f"links/{name}")):
            records[name] = LinkRecord(LINK_WORDS[match[1]], int(match[2]), match[3], int(match[4]))
    return records


_LINK = r"(link|spare)\s+([0-9]+)\s+(\S+)\s+([0-9]+)"  # kind, slot, fingerprint, when it was written


def remember_link(paths: Paths, job_id: str, link: LinkRecord) -> None:
    """Write down that `job_id` is a link. Raises OSError."""
    (paths.scheduler / "links").mkdir(mode=0o755, exist_ok=True)
    _note(paths, f"links/{job_id}", f"{link.kind.word} {link.slot} {link.fingerprint or '-'} {link.at}")


def forget_links(paths: Paths, job_ids: Iterable[str]) -> None:
    """Drop the records of links that have ended. Raises OSError."""
    for job_id in job_ids:
        (paths.scheduler / "links" / job_id).unlink(missing_ok=True)


def remember_successor(paths: Paths, job_id: str) -> None:
    """For the spare, which asks who cancelled it, should it be gone. Raises OSError."""
    if job_id and successor_noted(paths) != job_id:
        _note(paths, "successor", job_id)


def successor_noted(paths: Paths) -> str:
    """What the last link that ran, or tick, left there: a job id; "" where nobody did. Raises OSError."""
    return _noted(paths, "successor")


def scrontab_mark(paths: Paths) -> Path:
    """It stands while our entry is, or may be, in the user's scrontab: a write that failed may have been done."""
    return paths.scheduler / "in-scrontab"


def hand_made_mark(paths: Paths) -> Path:
    """It stands as long as a hand-made scheduler that `init` or `start` has seen may be in the queue."""
    return paths.scheduler / "hand-made"


def remember_batch_system(paths: Paths, dialect: Dialect) -> None:
    """A tick has found it here; by one stat where that is known. Raises OSError."""
    mark = paths.scheduler / f"on-{dialect.name}"
    if not os.path.lexists(mark):
        without = f"without {dialect.commands[0]} on PATH this is no local directory."
        _note(paths, mark.name, f"Ticks have found {dialect.title} here: {without}")


def batch_system_found(paths: Paths) -> str:
    """The name that `remember_batch_system` noted; "" for none."""
    return next((name for name in DIALECTS if os.path.lexists(paths.scheduler / f"on-{name}")), "")


def expect(paths: Paths, now: int, until: int) -> None:
    """Note, as the times of a file, when this was and until when a chain that is silent may still be well.

    Raises OSError.
    """
    _stamp(paths.scheduler / "due", now, until)


def saw_links(paths: Paths, now: int) -> None:
    """Note, for the login hook, that `start --if-stale` has looked: the chain was well, or nobody could say so."""
    with suppress(OSError):
        _stamp(paths.scheduler / "seen", now, now)


def _stamp(path: Path, accessed: int, modified: int) -> None:
    """Set the times of a file that is there for nothing else. Raises OSError."""
    try:
        os.utime(path, (accessed, modified), follow_symlinks=False)
    except FileNotFoundError:
        replace_file(path, b"", 0o644)
        os.utime(path, (accessed, modified), follow_symlinks=False)


def due_file(paths: Paths, noted: str) -> str:
    """Which file `expect` changes the times of, made where there is none: its inode and handle. A copy is another file.

    `noted`: what this returned the last time; it stands while the inode does. Raises OSError.
    """
    due = paths.scheduler / "due"
    if not os.path.lexists(due):
        replace_file(due, b"", 0o644)
    inode = str(due.stat(follow_symlinks=False).st_ino)
    if noted.startswith(f"{inode} "):
        return noted
    from cronhpc.store.disk import handle

    return f"{inode} {handle(due)}"


def expected(paths: Paths) -> tuple[int, int] | None:
    """What `expect` noted, by one stat; None where it never did. Nobody reads the file, so its times are ours.

    Raises OSError.
    """
    try:
        status = (paths.scheduler / "due").stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return int(status.st_atime), int(status.st_mtime)


def admins_word(paths: Paths, listed: Marks | None = None) -> str:
    """An administrator's word about the chain, in words; "" where there is none."""
    holds = (listed or marks(paths)).holds
    return next(filter(None, (_noted(paths, name) for name in sorted(holds, reverse=True))), "")


# --- what stands in a file of scheduler/ as a line -------------------------------------------------------------------


def _note(paths: Paths, name: str, text: str) -> None:
    replace_file(paths.scheduler / name, f"{text}\n".encode("utf-8", "replace"), 0o644)


def _noted(paths: Paths, name: str) -> str:
    """Nothing where there is none. Raises OSError."""
    return (read_bytes(paths.scheduler / name) or b"").decode("utf-8", "replace").strip()
