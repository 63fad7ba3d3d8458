"""The link: its text, and what of the caller's environment it takes along; or a line of scrontab in its place."""

from __future__ import annotations

import os
import re
import shlex
import sys
from itertools import chain, count
from typing import TYPE_CHECKING

from cronhpc.batch import scrontab
from cronhpc.batch.process import USUAL_PATH, options_kept, scrub, which
from cronhpc.core import model
from cronhpc.core.chain import daemon_lasts, link_comment, link_exclude, link_options
from cronhpc.core.model import Disabled, Started, Way, command
from cronhpc.cron.values import digest, replace
from cronhpc.engine.site import Site, directory_id
from cronhpc.script.dialect import SLURM
from cronhpc.store import scheduler
from cronhpc.store.files import MARKER, Paths, read_bytes, replace_file, shipped, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cronhpc.core.model import Settings
    from cronhpc.script.dialect import Dialect


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
    wanted = {name: value for name, value in options.items() if name not in has}
    if not wanted:
        return site, []
    from cronhpc.store.settings import put

    rows = {f"sbatch.{name}": value for name, value in wanted.items()}
    put(site.paths.settings, rows)
    kept = ", ".join(f"{key}: {value}" for key, value in rows.items())
    begins = next(iter(site.batch.dialect.options)).partition("_")[0]
    settings = replace(site.settings, sbatch=(*site.settings.sbatch, *wanted.items()))
    return replace(site, settings=settings), [f"kept from your {begins}_ variables, in {MARKER}: {kept}"]


_MARGIN = 120  # seconds before its time limit at which a daemon ends by itself
_BLANK = "\nfingerprint=@FINGERPRINT@\n"


def write_link(site: Site, via: Way = Way.CHAIN, generation: int = 0) -> tuple[str, list[str]]:
    """Generate `scheduler/scheduler.slurm` from the settings; a hand-made one is kept beside it.

    The text's fingerprint, and what to say of it.
    """
    text, fingerprint = _rendered(site, via, generation)
    path = site.paths.script
    before = read_bytes(path)
    lines = []
    if before is not None and scheduler.OURS.encode() not in before:
        kept = _free_name(path.with_name("scheduler.slurm.before-cronhpc"))
        os.link(path, kept)
        lines = [f"kept your scheduler.slurm as scheduler/{kept.name}"]
    write_script(site.paths, text)
    return fingerprint, lines


def fix_link(site: Site) -> str:
    """Why the link's text cannot be submitted; a file that was cut off or edited is written anew as `start` left it.

    Raises OSError.
    """
    if is_whole(site.paths):
        return ""
    how = scheduler.started(site.paths) or Started()
    text, fingerprint = _rendered(site, how.via, how.generation)
    if fingerprint != how.fingerprint:
        return f"{site.paths.script} was cut off or edited. Make it anew: " + command("start")
    write_script(site.paths, text)
    return ""


def _rendered(site: Site, via: Way, generation: int) -> tuple[str, str]:
    tools, mark = site.batch.tools(), directory_id(site.paths)
    return render(site.paths, site.settings, mark, tools, dialect=site.batch.dialect, via=via, generation=generation)


def render(
    paths: Paths,
    settings: Settings,
    directory_id: str,
    tools: str,
    *,
    dialect: Dialect = SLURM,
    via: Way = Way.CHAIN,
    generation: int = 0,
) -> tuple[str, str]:
    """The link's text and its fingerprint; `tools` is the folder of the batch system's commands.

    `generation`: the start that it belongs to; a stop from before that one is none to it. Raises Refused.
    """
    from cronhpc.batch.commands import option_words

    link, spare = model.link_names(directory_id)
    values = {
        "DIR": shlex.quote(str(paths.root)),
        "ID": directory_id,
        "GENERATION": str(generation),
        "INTERVAL": str(settings.interval),
        "TIMEOUT": str(settings.timeout),
        "PYTHON": shlex.quote(sys.executable),
        "EXCLUDE": shlex.quote(link_exclude(settings)),
        "COMMENT": shlex.quote(own) if (own := link_comment(settings)) else "",
        "OPTIONS": shlex.join(option_words(link_options(settings, via), dialect)),
        "SUBMIT": dialect.commands[0],
        "LINK": link,
        "SPARE": spare,
        "GROUP": shlex.quote(settings.trust_group),
        "PATH": shlex.quote(tools),
        "TICK": shlex.join(this_cronhpc()),
        "WORK": f"daemon --for {daemon_lasts(settings) - _MARGIN}" if via.daemon else "tick",
        "COMMAND": "cronhpc",
        "KEPT": " | ".join(dialect.kept),
        "FOREIGN": " | ".join((*(f"{start}*" for start in dialect.foreign), *dialect.of_jobs)),
    }
    # in one pass: a folder may be called as one of these words is
    text = re.sub("@([A-Z]+)@", lambda word: values.get(word[1], word[0]), template(dialect.name))
    mark = _mark(text)
    return text.replace(_BLANK, f"\nfingerprint={mark}\n", 1), mark


def template(system: str) -> str:
    """The link's text before it is filled in, with what the batch system `system` says in its way."""
    text, part = shipped("deploy/scheduler.slurm.in"), shipped(f"deploy/link/{system}.sh")
    place = "# shellcheck source=deploy/link/slurm.sh\nsource @SYSTEM@\n"
    return text.replace(place, part.partition("\n")[2], 1)  # less what the linter is told


def this_cronhpc() -> tuple[str, ...]:
    """How this very one is called, by absolute paths, wherever PATH points on a node."""
    return (sys.executable, *(["-I"] if sys.flags.isolated else []), "-m", "cronhpc")


def _mark(blank: str) -> str:
    return digest(blank.encode("utf-8", "surrogateescape"))[:12]


def is_whole(paths: Paths) -> bool:
    """Whether the link's text on disk is one that `render` made, by its fingerprint. Raises OSError."""
    text = (read_bytes(paths.script) or b"").decode("utf-8", "surrogateescape")
    mark = text.partition("\nfingerprint=")[2].partition("\n")[0]
    return bool(mark) and _mark(text.replace(f"\nfingerprint={mark}\n", _BLANK, 1)) == mark


def comes_again(paths: Paths) -> bool:
    """Whether links of that text put themselves back into the queue: earlier versions' do not. Raises OSError."""
    return b"begin_again" in (read_bytes(paths.script) or b"")


def write_script(paths: Paths, text: str) -> None:
    """Raises OSError."""
    paths.scheduler.mkdir(mode=0o755, exist_ok=True)
    data = text.encode("utf-8", "surrogateescape")
    if read_bytes(paths.script) != data:
        replace_file(paths.script, data, 0o755)


def _free_name(path: Path) -> Path:
    """`path`, or the first of path-2, path-3 … that nothing is called."""
    others = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(each for each in chain([path], others) if not os.path.lexists(each))


# --- a line of scrontab instead of links ------------------------------------------------------------------------------


def add_to_scrontab(paths: Paths, settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """One entry beside the user's own, which stay byte for byte; what to say of it. Raises ScrontabError."""
    mark = directory_id(paths)
    command = shlex.join([*this_cronhpc(), "tick", "--dir", str(paths.root)])
    log = str(paths.scheduler / "scheduler.log").replace("%", "%%")
    options = [*link_options(settings), f"--job-name={model.link_names(mark)[0]}"]
    options += [shlex.quote(f"--output={log}"), "--open-mode=append"]
    ours = scrontab.block(mark, scrontab.fields_of(settings.interval), options, command)
    table = scrontab.read(environ)
    if scrontab.with_block(table, mark, ours) == table:
        return []
    replace_file(scheduler.scrontab_mark(paths), b"cronhpc has an entry in the scrontab\n", 0o644)
    scrontab.write(environ, scrontab.with_block(table, mark, ours))
    lines = []
    if scrontab.is_disabled(table, mark):
        lines = ["its entry in your scrontab was disabled, as its job had been cancelled: put back"]
    added = "added one entry to your scrontab; scancel of its job disables it for good: "
    lines.append(added + model.command("stop") + " removes it")
    if scrontab.has_entries(scrontab.without_block(table, mark)):
        lines.append("your other entries got new job ids by that: one that was running just now may run a second time")
    return lines


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
    """Our entry alone, where it is there or may be: a write that failed may have been done. What to say of it.

    Raises ScrontabError.
    """
    how = scheduler.last_started(paths)
    if not (how is not None and how.via.in_scrontab) and not os.path.lexists(scheduler.scrontab_mark(paths)):
        return []
    table = scrontab.read(environ)
    rest = scrontab.without_block(table, directory_id(paths))
    if rest != table:
        scrontab.write(environ, rest)
    scheduler.scrontab_mark(paths).unlink(missing_ok=True)
    removed = "removed its entry from your scrontab; the others stand as they were, with new job ids"
    return [removed] if rest != table else []
