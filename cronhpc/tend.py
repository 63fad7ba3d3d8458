"""When logs are cleaned, and what is remembered of them between ticks (`state/logs.json`).

Listing every log costs on a shared file system, so a tick does it once an hour; sooner where the last one left work to
do, or the disk is nearly full.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cronhpc.clean import Cleaned, clean_logs
from cronhpc.core import held_logs, retention
from cronhpc.core.model import Problem, StateError
from cronhpc.store import history, logs
from cronhpc.store.files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cronhpc.core.model import Settings
    from cronhpc.store.paths import Paths

VERSION = 1
MOST = 5000  # files that one tick removes
_FILE = "logs.json"
_EVERY = 55 * 60  # seconds between two listings of all logs
_SOON = 10 * 60  # ... while the disk is nearly full
_MONTHS = 24  # of history that are kept
_LOOK_BACK = 86400  # seconds by which clocks of machines, and rows of history, may be out of order


def tend(
    paths: Paths,
    settings: Settings,
    now: int,
    live: frozenset[str] | None,
    *,
    most: int = MOST,
    always: bool = False,
    dry_run: bool = False,
) -> Cleaned | None:
    """Clean where it is time to (`always`: now), and rotate the scheduler's log and history; None: it is not time.

    `live`: as held_logs.live_of tells; runs that ended long after their slot are added from history.
    Where it is not, this costs one small read and one look at how full the disk is. What the disk refuses is a problem.
    """
    try:
        known = _known(paths, settings, now, always=always)
    except (OSError, StateError) as error:
        return Cleaned(problems=(_not_kept(paths, str(error)),), left=True)
    if known is None:
        return None
    cleaned = clean_logs(
        paths,
        settings,
        now,
        live=None if live is None else live | known["late"].keys(),
        newest_failed=held_logs.newest_failed(known),
        most=most,
        dry_run=dry_run,
    )
    if dry_run:
        return cleaned
    try:
        _keep(paths, {**known, "at": now, "left": cleaned.left}, now)
    except OSError as error:
        return replace(cleaned, problems=(*cleaned.problems, _not_kept(paths, str(error))))
    return cleaned


def _known(paths: Paths, settings: Settings, now: int, *, always: bool) -> dict[str, Any] | None:
    """What earlier ticks and history tell; None where it is not time to clean. Raises OSError, StateError."""
    known = read_json(paths.state / _FILE, VERSION) or {}
    if not (always or _is_due(paths, settings, known, now)):
        return None
    return held_logs.remember(known, _rows_since(paths, known), now, settings.logs_keep)


def _keep(paths: Paths, known: Mapping[str, Any], now: int) -> None:
    """Raises OSError."""
    write_json(paths.state / _FILE, {name: known[name] for name in ("at", "left", "failed", "late")}, VERSION)
    logs.rotate(paths)
    history.rotate(paths.history, keep_months=_MONTHS, now=now)


def _not_kept(paths: Paths, error: str) -> Problem:
    what = f"What is known of logs cannot be read or kept: {error}."
    return Problem(
        "W616", what, "Mend that; until then the next tick looks at all of them again.", paths.shown(paths.state)
    )


def _is_due(paths: Paths, settings: Settings, known: Mapping[str, Any], now: int) -> bool:
    since = now - _last(known)
    if known.get("left") or not 0 <= since < _EVERY:
        return True
    if since < _SOON:
        return False
    try:
        return bool(retention.scarce(retention.Space(*logs.space(paths.log)), settings.logs_total))
    except FileNotFoundError:
        return False


def _last(known: Mapping[str, Any]) -> int:
    at = known.get("at")
    return at if isinstance(at, int) else 0


def _rows_since(paths: Paths, known: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """History since the last time, and a little before it."""
    until = _last(known) - _LOOK_BACK
    for row in history.rows(paths.history):
        at = row.get("at")
        if isinstance(at, int) and at < until:
            return
        yield row
