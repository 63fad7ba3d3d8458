"""The link: its text, and what of the caller's environment it takes along; or a line of scrontab in its place."""

from __future__ import annotations

import os
import shlex
from itertools import chain, count
from typing import TYPE_CHECKING

from cronhpc.batch import scrontab
from cronhpc.batch.process import USUAL_PATH, options_kept, scrub, which
from cronhpc.core import model
from cronhpc.core.model import Disabled, Started, command
from cronhpc.cron.values import replace
from cronhpc.engine.site import Site, directory_id
from cronhpc.store import scheduler
from cronhpc.store.files import MARKER, Paths, read_bytes, replace_file, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cronhpc.core.model import Settings


def keep_environment(site: Site, environ: Mapping[str, str], *, repair: bool) -> None:
    """Runs get the environment that `start` was called in, less what belongs to the batch system and the login.

    A `repair` comes from crontab or a unit, whose environment is nobody's: what is kept stays. The way to the cluster
    stays in any case: a poor PATH would leave links without their commands.
    """
    path = site.paths.state / "environment.json"
    if repair and (read_bytes(path) or b"").rstrip().endswith(b"}"):
        return
    dialect = site.batch.dialect
    kept = scrub(environ, dialect)
    if not dialect.runs_here:
        kept = {**{name: site.environment[name] for name in dialect.kept if name in site.environment}, **kept}
        if not which(dialect.commands[0], kept) and (tools := site.batch.tools()):
            kept["PATH"] = f"{kept.get('PATH', USUAL_PATH)}:{tools}"
    write_json(path, {"environment": kept}, 1)


def keep_options(site: Site, environ: Mapping[str, str]) -> tuple[Site, list[str]]:
    """What people keep in SBATCH_ACCOUNT and the like goes into the settings: the scrubbing would lose it.

    The site with them, and what to say of it.
    """
    has = {name for name, _ in site.settings.sbatch}
    options = options_kept(environ, site.batch.dialect)
    wanted = {f"sbatch.{name}": value for name, value in options.items() if name not in has}
    if not wanted:
        return site, []
    from cronhpc.store.settings import put

    put(site.paths.settings, wanted)
    kept = ", ".join(f"{key}: {value}" for key, value in wanted.items())
    added = tuple((key.removeprefix("sbatch."), value) for key, value in wanted.items())
    begins = next(iter(site.batch.dialect.options)).partition("_")[0]
    settings = replace(site.settings, sbatch=(*site.settings.sbatch, *added))
    return replace(site, settings=settings), [f"kept from your {begins}_ variables, in {MARKER}: {kept}"]


def write_link(site: Site, *, by_daemon: bool = False, generation: int = 0) -> tuple[str, list[str]]:
    """Generate `scheduler/scheduler.slurm` from the settings; a hand-made one is kept beside it.

    The text's fingerprint, and what to say of it.
    """
    text, fingerprint = _rendered(site, by_daemon=by_daemon, generation=generation)
    path = site.paths.script
    known = read_bytes(path)
    said = []
    if known is not None and scheduler.OURS.encode() not in known:
        kept = _free_name(path.with_name("scheduler.slurm.before-cronhpc"))
        os.link(path, kept)
        said = [f"kept your scheduler.slurm as scheduler/{kept.name}"]
    scheduler.write_script(site.paths, text)
    return fingerprint, said


def fix_link(site: Site) -> str:
    """Why the link's text cannot be submitted; a file that was cut off or edited is written anew as `start` left it.

    Raises OSError.
    """
    if scheduler.is_whole(site.paths):
        return ""
    how = scheduler.started(site.paths) or Started()
    text, fingerprint = _rendered(site, by_daemon=how.via.daemon, generation=how.generation)
    if fingerprint != how.fingerprint:
        return f"{site.paths.script} was cut off or edited. Make it anew: " + command("start")
    scheduler.write_script(site.paths, text)
    return ""


def _rendered(site: Site, *, by_daemon: bool, generation: int) -> tuple[str, str]:
    from cronhpc.batch.commands import option_words

    options = option_words(scheduler.link_options(site.settings, by_daemon=by_daemon), site.batch.dialect)
    return scheduler.render(
        site.paths,
        site.settings,
        directory_id(site.paths),
        site.batch.tools(),
        dialect=site.batch.dialect,
        options=options,
        by_daemon=by_daemon,
        generation=generation,
    )


def _free_name(path: Path) -> Path:
    """`path`, or the first of path-2, path-3 … that nothing is called."""
    others = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(each for each in chain([path], others) if not os.path.lexists(each))


# --- a line of scrontab instead of links ------------------------------------------------------------------------------


def may_be_in_scrontab(paths: Paths) -> bool:
    """Whether our entry is there, or may be: a write that failed may have been done."""
    return os.path.lexists(scheduler.scrontab_mark(paths))


def add_to_scrontab(paths: Paths, settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """One entry beside the user's own, which stay byte for byte; what to say of it. Raises ScrontabError."""
    mark = directory_id(paths)
    command = shlex.join([*scheduler.command(), "tick", "--dir", str(paths.root)])
    log = str(paths.scheduler / "scheduler.log").replace("%", "%%")
    options = [*scheduler.link_options(settings), f"--job-name={model.link_names(mark)[0]}"]
    options += [shlex.quote(f"--output={log}"), "--open-mode=append"]
    ours = scrontab.block(mark, scrontab.fields_of(settings.interval), options, command)
    table = scrontab.read(environ)
    if scrontab.with_block(table, mark, ours) == table:
        return []
    replace_file(scheduler.scrontab_mark(paths), b"cronhpc has an entry in the scrontab\n", 0o644)
    scrontab.write(environ, scrontab.with_block(table, mark, ours))
    said = []
    if scrontab.is_disabled(table, mark):
        said = ["its entry in your scrontab was disabled, as its job had been cancelled: put back"]
    added = "added one entry to your scrontab; scancel of its job disables it for good: "
    said.append(added + model.command("stop") + " removes it")
    if scrontab.has_entries(scrontab.without_block(table, mark)):
        said.append("your other entries got new job ids by that: one that was running just now may run a second time")
    return said


def scrontab_trouble(paths: Paths, environ: Mapping[str, str]) -> Disabled | None:
    """Why our entry calls no ticks: it was disabled, or removed; None where it does, or nobody can tell."""
    try:
        table = scrontab.read(environ)
    except scrontab.ScrontabError:
        return None
    mark = directory_id(paths)
    if scrontab.is_disabled(table, mark):
        return Disabled.ENTRY_DISABLED
    return None if scrontab.own_lines(table.splitlines(), mark) else Disabled.ENTRY_GONE


def remove_from_scrontab(paths: Paths, environ: Mapping[str, str]) -> list[str]:
    """Our entry alone; what to say of it. Raises ScrontabError."""
    table = scrontab.read(environ)
    rest = scrontab.without_block(table, directory_id(paths))
    if rest != table:
        scrontab.write(environ, rest)
    scheduler.scrontab_mark(paths).unlink(missing_ok=True)
    removed = "removed its entry from your scrontab; the others stand as they were, with new job ids"
    return [removed] if rest != table else []
