"""Where trains are kept: the cron directory, or a folder of the user's own where there is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.core.model import Settings
from cronhpc.store.files import read_bytes, replace_file
from cronhpc.store.paths import DirectoryError, Paths, existing, own_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cronhpc.site import Site


def open_train_site(dir_option: str | None, backend: str | None, environ: Mapping[str, str]) -> Site:
    """The site that `again` works on; its pieces get this job's environment, as sbatch in a script would give it.

    A cron directory that was named (--dir, $CRONHPC_DIR) must be there: with its records out of sight a second piece
    might be queued. Raises DirectoryError, SettingsError, OSError.
    """
    from cronhpc.batch import connect
    from cronhpc.batch.environment import scrub
    from cronhpc.site import Site, machine_zone, must_be_safe, user_name
    from cronhpc.store.settings import read_settings

    paths = _paths(dir_option, environ)
    must_be_safe(paths)
    plain = not os.path.lexists(paths.settings) or read_bytes(paths.settings) == _SETTINGS  # then YAML is not loaded
    settings = Settings() if plain else read_settings(paths.settings)
    environment = scrub(environ, settings.environment)
    if not backend and not settings.backend and "SLURM_CLUSTER_NAME" in environ:
        backend = "slurm"  # not another one because a module has taken sbatch from PATH
    batch = connect(backend or "", settings, environment, paths.state)
    zone = settings.timezone or machine_zone()
    uid = os.getuid()
    return Site(paths, settings, batch, environment, os.uname().nodename, user_name(uid), uid, zone)


_SETTINGS = b"""\
# Made by `cronhpc again`: here are the records of trains that were started without a cron directory.
# `cronhpc status` and the like find it where there is no cron directory; else: cronhpc status --dir FOLDER
"""


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
    try:
        for folder in (root, paths.state, paths.claims, paths.scheduler, paths.kill, paths.pause):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.path.lexists(paths.settings):
            replace_file(paths.settings, _SETTINGS, 0o644)
        identity(paths)
    except OSError as error:
        raise DirectoryError(
            f"the records of trains cannot be kept: {error.filename or root}: {error.strerror}. Set XDG_STATE_HOME to "
            "a folder of yours that all nodes see, or CRONHPC_DIR to a cron directory."
        ) from None
    return paths
