"""Alerts: each is sent once, and once more when it is over."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import memory
import shelf

_NOTIFY_TIME = 60


@dataclass(frozen=True)
class Alert:
    """Something that is wrong. `key` says which thing, `level` how much ("warn" is less): another is told anew."""

    key: str
    text: str
    level: str = "alert"


@dataclass(frozen=True)
class Told:
    """What was sent last about a key, and when (seconds since 1970)."""

    level: str
    text: str
    at: float


def news(
    told: Mapping[str, Told],
    alerts: Sequence[Alert],
    unknown: frozenset[str] = frozenset(),
    *,
    now: float,
    again: float = 0,
    fine: Mapping[str, str] | None = None,
) -> tuple[list[str], dict[str, Told]]:
    """(what to send, what was told after that). The same alert is sent again after `again` seconds (0: never).

    An alert that stands no more is sent once as "fine again", in the words that `fine` has for its key; a key that it
    has not is not looked at any more, and is forgotten (without a `fine`, all have been looked at). Of an `unknown` key
    nothing is said, and nothing forgotten.
    """
    lines: list[str] = []
    after: dict[str, Told] = {}
    standing = {alert.key: alert for alert in alerts}
    for key, alert in standing.items():
        before = told.get(key)
        stale = before is not None and again > 0 and not 0 <= now - before.at < again  # the future is distrusted
        if before is None or before.level != alert.level or stale:
            lines.append(f"{'WARN' if alert.level == 'warn' else 'ALERT'}: {alert.text}")
            after[key] = Told(alert.level, alert.text, now)
        else:
            after[key] = before
    for key, before in told.items():
        if key in standing:
            continue
        if key in unknown:
            after[key] = before
        elif fine is None or key in fine:
            lines.append(f"fine again: {before.text if fine is None else fine[key]}")
    return lines, after


def tell(
    job: str,
    alerts: Sequence[Alert],
    unknown: frozenset[str] = frozenset(),
    *,
    now: float,
    notify: str = "",
    again: float = 0,
    fine: Mapping[str, str] | None = None,
) -> int:
    """Send what is new, remember it, and print what stands; the job's exit code.

    `notify` is a command that gets the message on its standard input; "": the job's log is all.
    """
    path, told = memory.state_file(job), remembered(job)
    lines, after = news(told, alerts, unknown, now=now, again=again, fine=fine)
    for alert in alerts:
        same = told.get(alert.key) is not None and after[alert.key] == told[alert.key]
        if same:
            print(f"still: {alert.text} (told {shelf.ago(now - told[alert.key].at)} ago)")
    for line in lines:
        print(line)
    if lines and notify and not _sent(notify, f"{job}\n" + "\n".join(lines) + "\n"):
        after = told  # tried again next time
    memory.write_state(path, {"told": {key: vars(row) for key, row in after.items()}}, quiet=after == told)
    return shelf.ALERT if any(alert.level != "warn" for alert in alerts) else shelf.FINE


def remembered(job: str) -> dict[str, Told]:
    """What was told of each key, and stands."""
    rows = memory.read_state(memory.state_file(job)).get("told", {})
    return {key: Told(str(row["level"]), str(row["text"]), float(str(row["at"]))) for key, row in rows.items()}


def _sent(notify: str, text: str) -> bool:
    try:
        words = [os.path.expanduser(word) for word in shlex.split(notify)]
        answer = shelf.ask(words, text=text, timeout=_NOTIFY_TIME, environ=os.environ)
    except (shelf.Broken, ValueError) as error:
        print(f"NOTIFY: {error}; it will be sent next time", file=sys.stderr)
        return False
    if answer.code:
        print(f"NOTIFY: {words[0]} exited {answer.code}: {answer.said}; it will be sent next time", file=sys.stderr)
    return answer.code == 0
