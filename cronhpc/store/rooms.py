"""Whether others can reach what cronhpc itself reads and writes: settings, state/, scheduler/, a page's folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cronhpc.core.model import Problem, command
from cronhpc.store.trust import Trust, owner_ids

if TYPE_CHECKING:
    from pathlib import Path

    from cronhpc.core.model import Settings
    from cronhpc.store.paths import Paths


def trust_of(paths: Paths, settings: Settings, me: int, *, whole: bool = False) -> Trust:
    """As the settings have it; names that no user has count for nobody."""
    return Trust(paths.root, owner_ids(settings.trust_owners, me)[0], settings.trust_group, whole=whole)


def refusal(paths: Paths, me: int) -> Problem | None:
    """Why this cron directory is not to be opened: its settings may name commands, and state/ holds scripts and ids.

    Both are mine or root's, and nobody else's to write, whatever the settings say; these say who else may write the
    folders on the way.
    """
    strict = Trust(paths.root, frozenset({0, me}), None)
    sealed = _sealed(strict, paths, me)
    if sealed is not None:
        return sealed
    refused = strict.refusal(paths.settings) if os.path.lexists(paths.settings) else None  # series need none
    if refused is not None and refused.code == "E402":  # which speaks of scripts
        from cronhpc.store.settings import no_file

        return no_file(paths.settings)
    refused = refused or strict.folder_refusal(paths.state)
    if refused is None or not (settings := _read(paths)):
        return refused
    asked = trust_of(paths, settings, me)
    return asked.refusal(paths.settings) or asked.folder_refusal(paths.state)


def _sealed(strict: Trust, paths: Paths, me: int) -> Problem | None:
    """The two that no setting opens to anybody."""
    for path in (paths.settings, paths.state):
        refused = strict.sealed(path) if os.path.lexists(path) else None
        if refused is not None:
            fix = refused.fix.partition(" (or allow it")[0]
            if path == paths.settings and refused.code == "E403" and os.stat(paths.root).st_uid not in {0, me}:
                fix = "It is another user's cron directory: " + command("status") + " shows it; for one of your own: "
                fix += command("init", directory="DIR")
            if path == paths.settings:
                return Problem(refused.code, refused.what, fix, "cronhpc.yaml")
            what = f"{refused.what} What lies in it is run as you, so nothing was done."
            fix = f"{fix}; then look for what is not yours: find {path} ! -user {me}"
            return Problem(refused.code, what, fix, "state")
    return None


def _read(paths: Paths) -> Settings | None:
    from cronhpc.core.model import SettingsError
    from cronhpc.store.settings import read_settings

    try:
        return read_settings(paths.settings)
    except SettingsError as error:
        return error.rest


def link_refusal(paths: Paths, settings: Settings, me: int) -> Problem | None:
    """Why no link may be submitted: its text, or the log that it writes, could be another's."""
    trust = trust_of(paths, settings, me)
    if refused := trust.folder_refusal(paths.scheduler):
        return refused
    if os.path.lexists(paths.script) and (refused := trust.refusal(paths.script)):
        return refused
    log = paths.scheduler / "scheduler.log"
    refused = trust.refusal(log) if os.path.lexists(log) else None
    return refused if refused is not None and refused.code != "E402" else None  # E402: a link of mine to /dev/null


def place_refusal(path: Path, paths: Paths, settings: Settings, me: int) -> Problem | None:
    """Why no file is put at `path`: others could put another folder in the place of the one it lies in.

    They may write in that very folder: what is put there replaces a link, and follows none.
    """
    return trust_of(paths, settings, me).way_refusal(path.parent)


def way_refusal(paths: Paths, settings: Settings, me: int) -> Problem | None:
    """Who could put another folder in the place of the cron directory. Trust begins at that, so it is only said."""
    return trust_of(paths, settings, me, whole=True).way_refusal(paths.root)
