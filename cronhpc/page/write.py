"""The page as a file: history, the tails of failed runs' logs and the slots to come, drawn by views/page."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.core.model import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cronhpc.engine.site import Site
    from cronhpc.store.files import Paths
    from cronhpc.views.facts import Status
    from cronhpc.views.style import Style


_EVERY = 60  # seconds: a daemon ticks at every event, and a page takes a second to draw


def drawn(paths: Paths, known: Status, style: Style, *, to: Path | None = None, refresh: int = 0) -> str:
    """The page as `style.now` and `style.zone` see it; `known` is what `status` knows. Raises OSError.

    `to`: where it will lie (links to logs lead there from the cron directory only); `refresh`: seconds, 0 for never.
    """
    from cronhpc.page import view
    from cronhpc.store import history
    from cronhpc.store.logs import tail_of

    pasts = view.digest(history.rows(paths.history), style.now)
    logs = {str(row.get("log") or "") for row in view.failures(pasts)} - {""}
    read = {log: view.tail(text) for log in logs if (text := tail_of(paths.root, log))}
    beside_logs = to is not None and to.parent == paths.root
    return view.render(known, pasts, _slots(known, style.now), read, style, beside_logs=beside_logs, refresh=refresh)


def _slots(known: Status, now: int) -> dict[str, Sequence[int]]:
    """The slots of the next day, by entry."""
    from cronhpc.cron.schedule import between
    from cronhpc.views.explain import schedule_of
    from cronhpc.views.times import DAY

    slots: dict[str, Sequence[int]] = {}
    for entry in known.entries:
        schedule = schedule_of(entry)
        if schedule is not None:
            slots[entry.name] = between(schedule, now, now + DAY)
    return slots


def place(paths: Paths, wanted: str) -> Path:
    """Where a page goes: a relative path lies in the cron directory."""
    return paths.root / os.path.expanduser(wanted)  # noqa: PTH111 - a text


def write(path: Path, text: str) -> None:
    """Put the page there, whole or not at all, readable as the umask says. Raises OSError."""
    from cronhpc.store.files import write_out

    mask = os.umask(0o077)
    os.umask(mask)
    write_out(path, text.encode("utf-8", "replace"), 0o644 & ~mask)


def tend(site: Site, now: int) -> tuple[Problem, ...]:
    """After a tick, where `page:` is set. What goes wrong is a problem, and no reason to lose the tick."""
    from cronhpc.core.model import StateError
    from cronhpc.cron.zones import zone_of
    from cronhpc.store import trust
    from cronhpc.store.decode import MisfitError
    from cronhpc.store.files import read_json
    from cronhpc.views.facts import VERSION, of_json
    from cronhpc.views.style import Style

    path = place(site.paths, site.settings.page)
    if refused := trust.place_refusal(path, site.paths, site.settings, site.uid):
        what = f"the page was not written: {refused.what} So another folder could be put in the place of its own."
        return (Problem("W372", what, refused.fix, "", 0, "page"),)
    try:
        if _is_new(path, now):
            return ()
        known = read_json(site.paths.status, VERSION)
        if known is not None:
            style, refresh = Style(now, zone_of(site.timezone)), site.settings.page_refresh
            with suppress(MisfitError):
                write(path, drawn(site.paths, of_json(known), style, to=path, refresh=refresh))
    except (OSError, StateError) as error:
        return (Problem("W370", f"the page was not written: {error}", "Fix `page:` in cronhpc.yaml.", "", 0, "page"),)
    except ImportError as error:
        return (Problem("W371", f"the page needs {error.name}.", "Install cronhpc again, with what it needs."),)
    return ()


def _is_new(path: Path, now: int) -> bool:
    try:
        return 0 <= now - path.stat().st_mtime < _EVERY
    except FileNotFoundError:
        return False
