"""The daemon that `start` begins where there is no batch system: which process it is, and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from cronhpc.batch.process import elapsed
from cronhpc.core.model import command
from cronhpc.cron.values import dataclass
from cronhpc.store import decode, lease
from cronhpc.store.files import read_json

if TYPE_CHECKING:
    from cronhpc.engine.site import Site

_ENDS_WITHIN = 7  # seconds: a daemon without file events looks for the mark every five
_TERMINATES_WITHIN = 3


@dataclass(frozen=True, slots=True)
class Begun:
    """The process that `start` began: on which machine, and when (store/lease.py: process_born)."""

    pid: int = 0
    born: str = ""
    host: str = ""


def daemon(site: Site) -> tuple[int, str]:
    """The process of the daemon that `start` began, where it runs on this machine, else 0; and where it was begun."""
    known = decode.read(Begun, read_json(site.paths.state / "daemon.json", 1) or {})[0] or Begun()
    pid, host = known.pid, known.host or site.host
    state, _, born = lease.process_born(pid).partition(" ") if pid and host == site.host else ("", "", "")
    lives = born and born == known.born and state not in {"Z", "X"}
    return (pid if lives else 0), host if pid else ""


def _ended(site: Site, pid: int, within: float) -> bool:
    """Whether the daemon has gone by then."""
    until = elapsed() + within
    while daemon(site)[0] == pid:
        if elapsed() > until:
            return False
        time.sleep(0.1)
    return True


def ended_now(site: Site, pid: int) -> str:
    """The daemon of the local backend goes where Slurm takes over; runs that it has begun go on."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    gone = _ended(site, pid, _TERMINATES_WITHIN)
    return f"ended the daemon of the local backend: process {pid}" if gone else f"it does not end: kill -9 {pid}"


def stopped(site: Site, pid: int, host: str) -> str:
    """What became of it: it sees the mark of `stop`, and ends its tick first.

    One that was begun in this moment may take the mark for an old one: it gets a signal.
    """
    if pid:
        ended = _ended(site, pid, _ENDS_WITHIN)
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            ended = _ended(site, pid, _TERMINATES_WITHIN)
        done = f"the daemon: process {pid} of this machine"
        return f"stopped {done}" if ended else f"asked {done}; it does not end: kill -9 {pid}"
    if host not in {"", site.host}:
        return f"no daemon runs on this machine; if the one on {host} does, it ends within seconds"
    return "no daemon that " + command("start") + " began runs; one in a terminal ends within seconds"
