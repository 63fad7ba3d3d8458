"""CRON_TZ, which the C library reads, as a key of the time zone database."""

from __future__ import annotations

import re

from cronhpc.core.zones import is_zone

_FIXED = re.compile(r"(?:[A-Za-z]{3,}|<[+-]?\w+>)(?P<sign>[+-]?)(?P<hours>\d{1,2})")
_RULES = re.compile(r"(?:[A-Za-z]{3,}|<[+-]?\w+>)[+-]?\d")


def zone_of(text: str) -> str | None:
    """The key of the zone that the C library takes for `text`: a name it does not know is UTC.

    None where it has rules of its own (`CET-1CEST,M3.5.0,M10.5.0/3`), for which there may be no key.
    """
    key = text.removeprefix(":").removeprefix("/usr/share/zoneinfo/")
    if is_zone(key):
        return key
    fixed = _FIXED.fullmatch(key)
    if fixed:
        hours = int(fixed["hours"])
        sign = "-" if fixed["sign"] == "-" else "+"  # west is + here as there
        found = f"Etc/GMT{sign}{hours}" if hours else "UTC"
        return found if is_zone(found) else None
    return None if _RULES.match(key) or key.startswith("/") else "UTC"  # a file may say anything
