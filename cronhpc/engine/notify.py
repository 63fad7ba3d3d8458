"""Alerts and pings out: by every way that the settings have (delivery.py), and what could not be sent once more later.

Whatever goes wrong here is a line in the log and in `status`, and never the tick's end.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cronhpc.core.alerts import Alert, Ping
from cronhpc.core.model import Instant, Problem, Settings, StateError, decode, joined
from cronhpc.core.model import command as model_command
from cronhpc.cron.values import dataclass, grouped, replace, were
from cronhpc.engine.delivery import TIMEOUTS, About, SecretError, Timeouts, address, at_once, fetch, ways
from cronhpc.store.files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from cronhpc.engine.site import Site


_MOST_PINGS = 50  # a tick must end: what is more than this is dropped, and said


def send(
    settings: Settings,
    alerts: Sequence[Alert],
    pings: Iterable[Ping],
    of: About,
    *,
    outbox: Path | None = None,
    now: int = 0,
    timeouts: Timeouts = TIMEOUTS,
) -> tuple[Problem, ...]:
    """Tell everybody. `of`: whose cron directory it is. What failed is returned, with the fix.

    What an earlier tick could not send, it left in `outbox`; so does this one.
    """
    before = waiting(outbox, now) if outbox else []
    left: list[Unsent] = []
    problems = []
    for name, way in ways(settings, of, timeouts).items():
        rows = [row for row in before if row.way == name] + [Unsent(name, now, alert) for alert in alerts]
        sent, why = way([row.alert for row in rows]) if rows else (0, "")
        left += [replace(row, why=why) for row in rows[sent:]]
        if why:
            problems.append(_unsent(len(rows) - sent, why) if sent < len(rows) else _not_to_all(len(rows), why))
    if outbox and (left or before):
        try:
            keep(outbox, left)
        except OSError as error:
            problems.append(Problem("W350", f"{outbox} cannot be written: {error.strerror}.", "Make room."))
    return (*problems, *_pinged(list(pings), of.environ, timeouts.pings))


def about(site: Site) -> About:
    return About(str(site.paths.root), site.user, site.host, site.environment)


def _unsent(number: int, why: str) -> Problem:
    return _problem(f"{were(number, 'alert')} not sent: {why}.", "The next tick tries again; you can: ")


def _not_to_all(number: int, why: str) -> Problem:
    return _problem(f"{were(number, 'alert')} sent, but not to all: {why}.", "Correct alerts.mail, then: ")


def _problem(what: str, fix: str) -> Problem:
    return Problem("W350", what, joined("", (fix, model_command("doctor", options=("--alerts",)), ".")))


# --- pings ---------------------------------------------------------------------------------------------------------


def _pinged(pings: Sequence[Ping], environ: Mapping[str, str], seconds: float) -> list[Problem]:
    """All at once: a server that does not answer costs a tick no more than another."""
    answers = at_once([partial(_ping, ping, environ, seconds) for ping in pings[:_MOST_PINGS]], seconds)
    fix = "Its run is not touched by that."
    problems = [
        Problem("W351", f"the ping of {ping.entry} failed: {why}.", fix)
        for ping, why in zip(pings, answers, strict=False)
        if why
    ]
    if len(pings) > _MOST_PINGS:
        more = f"{were(len(pings) - _MOST_PINGS, 'ping')} dropped: too many for one tick."
        problems.append(Problem("W351", more, "Ping the chain (alerts.ping) rather than each entry."))
    return problems


def _ping(ping: Ping, environ: Mapping[str, str], seconds: float) -> str:
    """One GET; the address is never in a message."""
    try:
        url = _suffixed(address(ping.where, environ), ping.event)
        return fetch(url, environ, seconds)
    except SecretError as error:
        return str(error)


def _suffixed(url: str, suffix: str) -> str:
    base, mark, query = url.partition("?")
    return f"{base.rstrip('/')}{suffix}{mark}{query}"


# --- what could not be sent -------------------------------------------------------------------------------------------
#
# Alerts are kept for a day, and tried again by the next ticks.


VERSION = 1
_KEPT_FOR = 86400  # seconds
_MOST = 100


@dataclass(frozen=True, slots=True)
class Unsent:
    """An alert, the way that failed, when it was to be sent first, and why it was not."""

    way: str
    at: Instant
    alert: Alert
    why: str = ""


def waiting(path: Path, now: int) -> list[Unsent]:
    """What is still to be sent, oldest first; a file that cannot be used holds nothing."""
    try:
        rows = (read_json(path, VERSION) or {}).get("rows", [])
    except (OSError, StateError):
        return []
    unsent_rows = filter(None, map(_unsent_of, rows if isinstance(rows, list) else ()))
    return [row for row in unsent_rows if 0 <= now - row.at < _KEPT_FOR]


def _unsent_of(row: object) -> Unsent | None:
    """None for one of which a part is of no use: it would tell something else."""
    alert, invalid = decode.read(Unsent, row)
    return None if invalid else alert


def unsent(path: Path, now: int) -> list[Problem]:
    """For `status`: what waits to be sent again, by each way, and why."""
    by_way = grouped(waiting(path, now), lambda row: row.way)
    return [_unsent(len(rows), rows[-1].why or way) for way, rows in by_way.items()]


def keep(path: Path, rows: Sequence[Unsent]) -> None:
    """Keep the newest of these, and nothing else. Raises OSError."""
    if not rows:
        path.unlink(missing_ok=True)
        return
    write_json(path, {"rows": [decode.plain(row) for row in rows[-_MOST:]]}, VERSION)
