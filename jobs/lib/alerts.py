"""Alerts: each is sent once, and once more when it is over.

A job in bash has them sent with `start alerts.py NOTIFY alerts fine unknown`: arrays of "KEY<tab>TEXT", and of keys.
With `of=PREFIX` it has looked at all whose keys begin so, and at no others.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import shelf
from shelf import Settings


class Alert(NamedTuple):
    """Something that is wrong. `key` says which thing, `level` how much ("warn" is less): another is told anew."""

    key: str
    text: str
    level: str = "alert"


class Told(NamedTuple):
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
    for alert in alerts:
        before = told.get(alert.key)
        stale = before is not None and again > 0 and not 0 <= now - before.at < again  # the future is distrusted
        if before is None or before.level != alert.level or stale:
            lines.append(f"{'WARN' if alert.level == 'warn' else 'ALERT'}: {alert.text}")
            after[alert.key] = Told(alert.level, alert.text, now)
        else:
            after[alert.key] = before
    for key in [each for each in told if each not in after]:
        if key in unknown:
            after[key] = told[key]
        elif fine is None or key in fine:
            lines.append(f"fine again: {told[key].text if fine is None else fine[key]}")
    return lines, after


def tell(
    settings: Settings,
    alerts: Sequence[Alert],
    unknown: frozenset[str] = frozenset(),
    *,
    now: float,
    again: float = 0,
    fine: Mapping[str, str] | None = None,
) -> int:
    """Send what is new, remember it, and print what stands; the job's exit code.

    NOTIFY is a command that gets the message on its standard input; "": the job's log is all.
    """
    told = remembered(settings)
    lines, after = news(told, alerts, unknown, now=now, again=again, fine=fine)
    for alert in alerts:
        if after[alert.key] == told.get(alert.key):
            print(f"still: {alert.text} (told {shelf.ago(now - told[alert.key].at)} ago)")
    for line in lines:
        print(line)
    if lines and not _sent(settings.text("NOTIFY"), f"{settings.text('job')}\n" + "\n".join(lines) + "\n"):
        after = told  # tried again next time
    rows = {key: row._asdict() for key, row in after.items()}
    shelf.write_state(settings.state("json"), {"told": rows}, quiet=after == told)
    return shelf.ALERT if any(alert.level != "warn" for alert in alerts) else shelf.FINE


def remembered(settings: Settings) -> dict[str, Told]:
    """What was told of each key, and stands."""
    rows = shelf.read_state(settings.state("json")).get("told", {})
    return {key: Told(str(row["level"]), str(row["text"]), float(row["at"])) for key, row in rows.items()}


def _sent(notify: str, text: str) -> bool:
    if not notify:
        return True
    try:
        words = [os.path.expanduser(word) for word in shlex.split(notify)]
        answer = shelf.ask(words, text=text, environ=os.environ)
        wrong = f"{words[0]} exited {answer.code}: {answer.said}" if answer.code else ""
    except (shelf.Broken, ValueError) as error:
        wrong = str(error)
    if wrong:
        print(f"NOTIFY: {wrong}; it will be sent next time", file=sys.stderr)
    return not wrong


def main(settings: Settings) -> int:
    """Of a job in bash: the alerts that stand, what is fine, and the keys of which nothing is known."""
    wrong, fine = (
        {shelf.shown(key): shelf.shown(text) for key, _, text in (row.partition("\t") for row in settings.array(name))}
        for name in ("alerts", "fine")
    )
    unknown, of = frozenset(map(shelf.shown, settings.array("unknown"))), settings.text("of")
    if of:
        unknown = frozenset(key for key in remembered(settings) if not key.startswith(of))
    return tell(
        settings, list(map(Alert, wrong, wrong.values())), unknown, now=shelf.seconds_now(), fine=None if of else fine
    )


if __name__ == "__main__":
    shelf.run(main)
