"""Where trains are kept: the cron directory, or a folder of the user's own where there is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.core.model import Settings
from cronhpc.store.paths import DirectoryError, Paths, existing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cronhpc.read import Site


def open_train_site(dir_option: str | None, backend: str | None, environ: Mapping[str, str]) -> Site:
    """The site that `again` works on; its pieces get this job's environment, as sbatch in a script would give it.

    A cron directory that was named (--dir, $CRONHPC_DIR) must be there: with its records out of sight a second piece
    might be queued. Raises DirectoryError, SettingsError, OSError.
    """
    from cronhpc.batch import connect
    from cronhpc.batch.environment import scrub
    from cronhpc.read import Site, machine_zone, must_be_safe, user_name
    from cronhpc.store.settings import read_settings

    paths = _paths(dir_option, environ)
    must_be_safe(paths)
    settings = read_settings(paths.settings) if os.path.lexists(paths.settings) else Settings()
    environment = scrub(environ, settings.environment)
    batch = connect(backend or "", settings, environment, paths.state)
    zone = settings.timezone or machine_zone()
    uid = os.getuid()
    return Site(paths, settings, batch, environment, os.uname().nodename, user_name(uid), uid, zone)


def own_folder(environ: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/cronhpc`, by the XDG base directory rules."""
    state = environ.get("XDG_STATE_HOME", "")
    home = environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - a text
    return Path(state if state.startswith("/") else f"{home}/.local/state", "cronhpc")


def _paths(dir_option: str | None, environ: Mapping[str, str]) -> Paths:
    own = own_folder(environ)
    named = dir_option or environ.get("CRONHPC_DIR")
    if named and Path(named) == own:
        return _made(own)
    try:
        return existing(dir_option, environ)
    except DirectoryError:
        if named or ("WORK" in environ and not os.path.isdir(environ["WORK"])):  # noqa: PTH112 - a text
            raise
    return _made(own)


def _made(root: Path) -> Paths:
    from cronhpc.setup import identity

    paths = Paths(root)
    for folder in (root, paths.state, paths.claims, paths.scheduler, paths.kill, paths.pause):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    identity(paths)
    return paths
