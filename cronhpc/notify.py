"""Alerts out: a command with JSON on its standard input, Apprise, and pings in the way of healthchecks.

Whatever goes wrong here is a line in the log, and never the tick's end. Addresses may hold secrets: they are read from
files of mode 0600 or from variables, and no message, argument list or page shows them.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.core.model import CronhpcError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cronhpc.core.alerts import Alert
    from cronhpc.core.model import Settings

_COMMAND_TIME = 30.0
_PING_TIME = 5.0
_MOST_PINGS = 50  # a tick must end: what is more than this is dropped, and said


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
            raise SecretError(f"the variable {rest} is not set where the scheduler runs: set it, then cronhpc start")
        return value
    if kind == "file":
        path = Path(rest).expanduser()
        try:
            mode = path.stat().st_mode
            if stat.S_IMODE(mode) & 0o077:
                raise SecretError(f"{path} can be read by others: chmod 600 {path}")
            return path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            raise SecretError(f"{path} cannot be read: {error}") from None
    return where


def send(
    settings: Settings,
    alerts: Sequence[Alert],
    pings: Iterable[Ping],
    environ: Mapping[str, str],
    about: Mapping[str, str],
) -> tuple[Problem, ...]:
    """Tell everybody. `about`: whose cron directory it is. What failed is returned, with the mend."""
    problems = []
    for alert in alerts:
        for way in (_by_command, _by_apprise):
            said = way(settings, alert, environ, about)
            if said:
                problems.append(Problem("W350", f"an alert was not sent: {said}", "Try: cronhpc doctor --alerts."))
    rows = list(pings)
    for ping in rows[:_MOST_PINGS]:
        said = _ping(ping, environ)
        if said:
            problems.append(
                Problem("W351", f"the ping of {ping.entry} failed: {said}", "Its run is not touched by that.")
            )
    if len(rows) > _MOST_PINGS:
        problems.append(Problem("W351", f"{len(rows) - _MOST_PINGS} pings were dropped: too many for one tick.", ""))
    return tuple(problems)


def _by_command(settings: Settings, alert: Alert, environ: Mapping[str, str], about: Mapping[str, str]) -> str:
    if not settings.alerts_command:
        return ""
    import shlex

    from cronhpc.batch import process

    try:
        argv = [os.path.expanduser(word) for word in shlex.split(settings.alerts_command)]  # noqa: PTH111 - a text
        body = json.dumps({**about, **asdict(alert)})
        ended = process.run(argv, timeout=_COMMAND_TIME, env=environ, input=body)
    except (ValueError, CronhpcError, OSError) as error:
        return f"alerts.command: {error}"
    if ended.timed_out:
        return f"alerts.command took longer than {_COMMAND_TIME:.0f} s"
    return f"alerts.command exited {ended.code}: {ended.err.strip()[:200]}" if ended.code else ""


def _by_apprise(settings: Settings, alert: Alert, environ: Mapping[str, str], about: Mapping[str, str]) -> str:
    """Mail, Slack, Matrix … by the Apprise library, an optional extra."""
    if not settings.alerts_apprise:
        return ""
    try:
        import apprise
    except ImportError:
        return "alerts.apprise needs the package: pip install 'cronhpc[alerts]'"
    sender = apprise.Apprise()
    for number, where in enumerate(settings.alerts_apprise, 1):
        try:
            added = sender.add(address(where, environ))
        except SecretError as error:
            return str(error)
        if not added:
            return f"alerts.apprise: address {number} is none that Apprise knows"
    title = f"cronhpc {about.get('owner', '')}: {alert.kind} ({alert.phase})"
    return "" if sender.notify(title=title, body=alert.text) else "Apprise could not deliver it"


def _ping(ping: Ping, environ: Mapping[str, str]) -> str:
    """One GET; the address is never in a message."""
    import urllib.error
    import urllib.request

    try:
        base = address(ping.where, environ).rstrip("/")
        if not base.startswith(("https://", "http://")):
            return "its address does not begin with https://"
        suffix = {"start": "/start", "fail": "/fail"}.get(ping.what, "")
        with urllib.request.urlopen(base + suffix, timeout=_PING_TIME):  # noqa: S310 - http(s) alone, as just checked
            return ""
    except SecretError as error:
        return str(error)
    except urllib.error.HTTPError as error:
        return f"the server said {error.code}"
    except (OSError, ValueError) as error:
        return type(error).__name__
