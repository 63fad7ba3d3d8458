"""Alerts out: a command with JSON on its standard input, Apprise, and pings in the way of healthchecks.

Whatever goes wrong here is a line in the log, and never the tick's end. Addresses may hold secrets: they are read from
files of mode 0600 or from variables, and no message, argument list or page shows them.
"""

from __future__ import annotations

import json
import os
import re
import stat
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cronhpc.core.model import CronhpcError, Problem, StateError
from cronhpc.core.model import command as model_command
from cronhpc.cron.words import were
from cronhpc.store import decode
from cronhpc.store.files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cronhpc.core.alerts import Alert
    from cronhpc.core.model import Settings


Facts = Mapping[str, Any]
_MOST_PINGS = 50  # a tick must end: what is more than this is dropped, and said
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
_SHOWN = 200  # characters of what a command said


class Timeouts(NamedTuple):
    """How long a tick waits, in seconds: for one run of the command, for all of them, for Apprise, for all pings."""

    command: float = 30.0
    commands: float = 60.0
    apprise: float = 30.0
    pings: float = 5.0


TIMEOUTS = Timeouts()


@dataclass(frozen=True, slots=True)
class Ping:
    """One request: `what` is start, success or fail. `where` is an address, file:PATH or env:NAME."""

    where: str
    what: str
    entry: str


class SecretError(CronhpcError):
    """An address cannot be had from where it is kept."""


def address(where: str, environ: Mapping[str, str]) -> str:
    """The address that `where` means. Raises SecretError, which names the place and never the content."""
    kind, _, rest = where.partition(":")
    if kind == "env":
        value = environ.get(rest, "").strip()
        if not value:
            start = model_command("start")
            raise SecretError(f"the variable {rest} is not set where the scheduler runs: set it, then " + start)
        return value
    if kind == "file" or where.startswith(("/", "~")):
        return _kept_in(Path(rest if kind == "file" else where).expanduser())
    return where


def _kept_in(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise SecretError(f"{path} can be read by others: chmod 600 {path}")
            return file.read().strip()
    except UnicodeError:
        raise SecretError(f"{path} is no text") from None
    except OSError as error:
        raise SecretError(f"{path} cannot be read: {error.strerror}") from None


def send(
    settings: Settings,
    alerts: Sequence[Alert],
    pings: Iterable[Ping],
    environ: Mapping[str, str],
    about: Mapping[str, str],
    *,
    outbox: Path | None = None,
    now: int = 0,
    timeouts: Timeouts = TIMEOUTS,
) -> tuple[Problem, ...]:
    """Tell everybody. `about`: whose cron directory it is. What failed is returned, with the fix.

    What an earlier tick could not send, it left in `outbox`; so does this one.
    """
    before = waiting(outbox, now) if outbox else []
    left: list[Unsent] = []
    problems = []
    test = model_command("doctor", options=("--alerts",))
    for name, way in _ways(settings, environ, about, timeouts).items():
        rows = [row for row in before if row.way == name] + [Unsent(name, now, asdict(alert)) for alert in alerts]
        sent, why = way([row.alert for row in rows]) if rows else (0, "")
        left += rows[sent:]
        if why:
            what = f"{were(len(rows) - sent, 'alert')} not sent: " + why + "."
            problems.append(Problem("W350", what, "The next tick tries again; you can: " + test + "."))
    if outbox and (left or before):
        try:
            keep(outbox, left)
        except OSError as error:
            problems.append(Problem("W350", f"{outbox} cannot be written: {error.strerror}.", "Make room."))
    return (*problems, *_pinged(list(pings), environ, timeouts.pings))


def _ways(
    settings: Settings, environ: Mapping[str, str], about: Mapping[str, str], timeouts: Timeouts
) -> dict[str, Callable[[Sequence[Facts]], tuple[int, str]]]:
    """Each takes alerts, in order, and says how many of them it has sent, and why not the rest."""
    ways: dict[str, Callable[[Sequence[Facts]], tuple[int, str]]] = {}
    if settings.alerts_command:
        ways["command"] = partial(_by_command, settings.alerts_command, environ, about, timeouts)
    if settings.alerts_apprise:
        ways["apprise"] = partial(_by_apprise, settings.alerts_apprise, environ, about, timeouts)
    return ways


# --- a command -----------------------------------------------------------------------------------------------------


def _by_command(
    command: str, environ: Mapping[str, str], about: Mapping[str, str], timeouts: Timeouts, alerts: Sequence[Facts]
) -> tuple[int, str]:
    import shlex

    from cronhpc.batch import process

    until = process.elapsed() + timeouts.commands
    try:
        argv = [os.path.expanduser(word) for word in shlex.split(command)]  # noqa: PTH111 - a text
        for number, alert in enumerate(alerts):
            left = min(timeouts.command, until - process.elapsed())
            if left <= 0:
                return number, "alerts.command takes too long"
            body = json.dumps({**about, **alert})
            ended = process.run(argv, timeout=left, env=environ, input=body)
            if ended.timed_out:
                return number, f"alerts.command did not end within {left:.0f} s"
            if ended.code:
                return number, f"alerts.command exited {ended.code}: {_harmless(ended.err)}"
    except (ValueError, IndexError, CronhpcError) as error:
        return 0, f"alerts.command: {_harmless(str(error))}"
    return len(alerts), ""


def _harmless(text: str) -> str:
    """The end of what a program said: one line of whole words, without any address, which may hold a secret."""
    words = " ".join(_ADDRESS.sub("(an address)", text).split())
    if len(words) <= _SHOWN:
        return words
    end = words[-_SHOWN:]
    return f"… {end.partition(' ')[2] or end}"


# --- Apprise -------------------------------------------------------------------------------------------------------


def _by_apprise(
    addresses: Sequence[str],
    environ: Mapping[str, str],
    about: Mapping[str, str],
    timeouts: Timeouts,
    alerts: Sequence[Facts],
) -> tuple[int, str]:
    """Mail, Slack, Matrix … by the Apprise library, an optional extra; one message a tick."""
    import logging

    try:
        import apprise
    except ImportError:
        return 0, "alerts.apprise needs a package: pip install 'cronhpc[alerts]'"
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # its complaints quote addresses
    sender = apprise.Apprise()
    for number, where in enumerate(addresses, 1):
        try:
            lines = address(where, environ).splitlines()
        except SecretError as error:
            return 0, error.advice
        if not lines or not all(sender.add(line) for line in lines):
            return 0, f"alerts.apprise: address {number} is none that Apprise knows"
    title, body = _message(alerts, about)
    (why,) = _at_once([lambda: "" if _notified(sender, title, body) else "could not deliver it"], timeouts.apprise)
    return (0, f"Apprise {why}") if why else (len(alerts), "")


def _notified(sender: object, title: str, body: str) -> bool:
    return bool(sender.notify(title=title, body=body))  # type: ignore[attr-defined]  # Apprise has no types


def _message(alerts: Sequence[Facts], about: Mapping[str, str]) -> tuple[str, str]:
    """Title and body for people."""
    owner = about.get("owner", "")
    lines = [f"{_PHASES.get(each['phase'], '')}{each['text']}" for each in alerts]
    what = f"{alerts[0]['kind']} ({alerts[0]['phase']})" if len(alerts) == 1 else f"{len(alerts)} alerts"
    return f"cronhpc {owner}: {what}", "\n".join(
        [*lines, "", f"{about.get('directory', '')} on {about.get('host', '')}"]
    )


_PHASES = {"still": "still: "}


# --- pings ---------------------------------------------------------------------------------------------------------


def _pinged(pings: Sequence[Ping], environ: Mapping[str, str], seconds: float) -> list[Problem]:
    """All at once: a server that does not answer costs a tick no more than another."""
    answers = _at_once([partial(_ping, ping, environ, seconds) for ping in pings[:_MOST_PINGS]], seconds)
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


def _at_once(tasks: Sequence[Callable[[], str]], seconds: float) -> list[str]:
    """What each task says, or that it gave no answer: it is left behind then, and ends with the process."""
    from http.client import HTTPException

    from cronhpc.batch import process

    answers = [f"had no answer within {seconds:g} s"] * len(tasks)

    def work(index: int) -> None:
        try:
            answers[index] = tasks[index]()
        except (OSError, ValueError, TypeError, LookupError, HTTPException, RuntimeError) as error:
            answers[index] = type(error).__name__  # its words may hold an address

    until = process.elapsed() + seconds
    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(until - process.elapsed(), 0))
    return list(answers)


def _ping(ping: Ping, environ: Mapping[str, str], seconds: float) -> str:
    """One GET; the address is never in a message."""
    import urllib.error
    import urllib.request

    try:
        url = _suffixed(address(ping.where, environ), {"start": "/start", "fail": "/fail"}.get(ping.what, ""))
        if not url.startswith(("https://", "http://")):
            return "its address does not begin with https://"
        with urllib.request.urlopen(url, timeout=seconds):  # noqa: S310 - http(s) alone, as just checked
            return ""
    except SecretError as error:
        return str(error)
    except urllib.error.HTTPError as error:
        with error:
            return f"the server said {error.code}"


def _suffixed(url: str, suffix: str) -> str:
    base, mark, query = url.partition("?")
    return f"{base.rstrip('/')}{suffix}{mark}{query}"


# --- what could not be sent -------------------------------------------------------------------------------------------
#
# Alerts are kept for a day, and tried again by the next ticks.


VERSION = 1
_KEPT_FOR = 86400  # seconds
_MOST = 100


class Unsent(NamedTuple):
    """An alert, the way that failed, and when it was to be sent first."""

    way: str
    at: int
    alert: dict[str, Any]


def waiting(path: Path, now: int) -> list[Unsent]:
    """What is still to be sent, oldest first; a file that cannot be used holds nothing."""
    try:
        rows = (read_json(path, VERSION) or {}).get("rows", [])
    except (OSError, StateError):
        return []
    whole = [row for row in rows if _is_whole(row)] if isinstance(rows, list) else []
    return [Unsent(**row) for row in whole if 0 <= now - row["at"] < _KEPT_FOR]


def _is_whole(row: object) -> bool:
    """An alert of which a part is of no use would tell something else."""
    known, invalid = decode.decode(row, decode.UNSENT)
    return not invalid and known == row and known.keys() == decode.UNSENT.keys() and known["alert"].keys() >= _TOLD


_TOLD = frozenset({"phase", "kind", "text"})


def keep(path: Path, rows: Sequence[Unsent]) -> None:
    """Keep the newest of these, and nothing else. Raises OSError."""
    if not rows:
        path.unlink(missing_ok=True)
        return
    write_json(path, {"rows": [each._asdict() for each in rows[-_MOST:]]}, VERSION)
