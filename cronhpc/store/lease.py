"""The lease: which tick is at work. It only saves a second one the work; claims are what makes two of them safe.

It is a file made by link(2) that names its holder. It is stale when its holder is known to be gone: its job by the
batch system's word, its process where it can be looked at. No clock says so: a stopped process would be taken for dead,
which the claims survive, and a slow one for dead as well, which helps nobody. But for one case: of a process on another
machine and outside of any job nobody can tell (that machine was started anew, say), and it must not be waited for
for ever; it counts as gone once its lease is far older than any tick takes. Nobody waits long for a lease in any case.
"""

from __future__ import annotations

import json
import os
import stat
import time
from contextlib import contextmanager, suppress

from cronhpc.core.model import Problem, decode
from cronhpc.cron.values import by_field, dataclass
from cronhpc.script.advice import word
from cronhpc.store.files import create_once, decoded, no_file, read_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


_FORSAKEN = 900  # seconds; a tick ends within minutes
_OLD = 90  # seconds: most ticks have ended by then, so nobody waits for this one
_WAITS = 10.0  # seconds that a tick, `start` or `stop` waits for another at work; then it goes on beside it


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds it; `token` is random, so that no two are equal."""

    host: str
    pid: int
    born: str  # the process's start time in clock ticks since boot, so that a reused pid is not mistaken
    token: str
    job_id: str = ""
    restarts: str = ""

    def __str__(self) -> str:
        return f"job {self.job_id} on {self.host}" if self.job_id else f"process {self.pid} on {self.host}"


def process_born(pid: int) -> tuple[str, str]:
    """The state of a process of this machine and its start time ("R", "12345"); "" where there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]


def myself(host: str, job_id: str, restarts: str) -> Holder:
    pid = os.getpid()
    return Holder(host, pid, process_born(pid)[1], os.urandom(8).hex(), job_id, restarts)


@contextmanager
def held(
    path: Path, me: Holder, job_gone: Callable[[str], bool] = lambda _: False, seconds: float | None = None
) -> Iterator[Holder | None]:
    """The lease for the length of a `with`; beside the holder that it gives, who does not end, one goes on without.

    It is waited for for some `seconds`. It only saves work: claims are what makes two ticks safe. So it is no error
    where the disk refuses one.
    """
    until, pause = time.monotonic() + (_WAITS if seconds is None else seconds), 0.1
    try:
        while (holder := take(path, me, job_gone)) and time.monotonic() < until and is_at_work(path, holder, me.host):
            time.sleep(pause)
            pause = min(2 * pause, 1.0)
    except OSError:
        holder = None
    try:
        yield holder
    finally:
        if holder is None:
            give_back(path, me)


def age(path: Path) -> float:
    """Seconds between the lease's making and the last change in its folder, both by the file system's clock.

    To try to take it is such a change. 0 where there is none.
    """
    try:
        return os.stat(path.parent).st_mtime - os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0


def problems(path: Path) -> tuple[Problem, ...]:
    """What to say of a lease that is none, or older than a tick takes."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            what = "is a folder, a pipe or a device: ticks do not see each other, which the claims make safe."
            return (Problem("W338", what, "Remove it.", "state/lease"),)
        seconds = age(path)
        holder = read(path) if seconds > _OLD else None
    except OSError:
        return ()  # said where it is taken
    if holder is None:
        return ()
    what = f"the lease of {holder} is {int(seconds) // 60} min old: ticks go on beside it, which the claims make safe."
    return (Problem("W339", what, f"If that has ended: rm {word(path)}", "state/lease"),)


def take(path: Path, me: Holder, job_gone: Callable[[str], bool]) -> Holder | None:
    """Take the lease; None: it is mine, or there can be none. Otherwise who holds it.

    `job_gone(job_id)` is True only when the batch system has said that the job is not running. Raises OSError.
    """
    data = json.dumps(by_field(me)).encode()
    try:
        for _ in range(3):
            if create_once(path, data):
                return None
            holder = read(path)
            if holder is None:
                continue  # gone again, or being made: look once more
            if not is_gone(holder, me, job_gone) and not _forsaken(path, holder, me):
                return holder
            _break(path, holder)
        return read(path)
    except OSError as error:
        if not no_file(error):
            raise
        return None


def read(path: Path) -> Holder | None:
    """Who holds it, or None."""
    data = read_bytes(path)
    if data is None:
        return None
    holder, invalid = decode.read(Holder, decoded(data))
    if invalid or holder is None or not holder.token.isalnum():
        return Holder("an unknown machine", 0, "", "")
    return holder


def is_gone(holder: Holder, me: Holder, job_gone: Callable[[str], bool]) -> bool:
    """Whether the holder is known to have ended."""
    if holder.host == me.host and holder.pid:
        state, born = process_born(holder.pid)
        return born != holder.born or state in {"Z", "X"}
    if holder.job_id and holder.job_id == me.job_id:
        return holder.restarts != me.restarts  # the same job, requeued: we are its next life
    return bool(holder.job_id) and job_gone(holder.job_id)


def _forsaken(path: Path, holder: Holder, me: Holder) -> bool:
    """Whether nobody can tell of the holder, and its lease is old by the file system's own clock.

    That clock has just stamped the folder: `create_once` made a temporary file in it.
    """
    if holder.job_id or holder.host == me.host:
        return False
    return age(path) > _FORSAKEN


def is_stalled(holder: Holder, host: str) -> bool:
    """Whether the holder is known to be stopped (SIGSTOP): alive, but nobody should wait for it."""
    return holder.host == host and process_born(holder.pid)[0] in {"T", "t"}


def is_at_work(path: Path, holder: Holder, host: str) -> bool:
    """Whether the holder can be counted on to end its tick: it began a short while ago, and is not stopped.

    Raises OSError.
    """
    return age(path) <= _OLD and not is_stalled(holder, host)


def _break(path: Path, holder: Holder) -> None:
    """Remove a dead holder's lease; one breaker wins (link of a name that only this lease has)."""
    grave = path.with_name(f"lease.dead.{holder.token or 'unknown'}")
    try:
        os.link(path, grave)
    except FileExistsError:
        pass  # another is breaking it, or died doing so: the token read below decides
    except FileNotFoundError:
        return
    current = read(path)
    if current is not None and current.token == holder.token:
        path.unlink(missing_ok=True)
    grave.unlink(missing_ok=True)


def give_back(path: Path, me: Holder) -> None:
    """Let go of the lease, if it is still mine. Where the disk refuses, the next one sees that we have ended."""
    with suppress(OSError):
        current = read(path)
        if current is not None and current.token == me.token:
            path.unlink(missing_ok=True)
