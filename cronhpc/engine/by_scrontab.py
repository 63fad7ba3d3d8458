"""Ticks that the user's scrontab calls: one entry of ours beside theirs (`start --via scrontab`)."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from cronhpc.batch import scrontab
from cronhpc.core import model
from cronhpc.engine.site import directory_id
from cronhpc.store import scheduler
from cronhpc.store.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cronhpc.engine.site import Site
    from cronhpc.store.paths import Paths


def may_be_in(site: Site) -> bool:
    """Whether our entry is there, or may be: a write that failed may have been done."""
    return os.path.lexists(scheduler.scrontab_mark(site.paths))


def add(site: Site, environ: Mapping[str, str]) -> list[str]:
    """One entry beside the user's own, which stay byte for byte; what to say of it. Raises ScrontabError."""
    mark = directory_id(site.paths)
    command = shlex.join([*scheduler.command(), "tick", "--dir", str(site.paths.root)])
    log = str(site.paths.scheduler / "scheduler.log").replace("%", "%%")
    options = [*scheduler.link_options(site.settings), f"--job-name={model.link_names(mark)[0]}"]
    options += [shlex.quote(f"--output={log}"), "--open-mode=append"]
    ours = scrontab.block(mark, scrontab.fields_of(site.settings.interval), options, command)
    table = scrontab.read(environ)
    if scrontab.with_block(table, mark, ours) == table:
        return []
    replace_file(scheduler.scrontab_mark(site.paths), b"cronhpc has an entry in the scrontab\n", 0o644)
    scrontab.write(environ, scrontab.with_block(table, mark, ours))
    said = []
    if scrontab.is_disabled(table, mark):
        said = ["its entry in your scrontab was disabled, as its job had been cancelled: put back"]
    added = "added one entry to your scrontab; scancel of its job disables it for good: "
    said.append(added + model.command("stop") + " removes it")
    if scrontab.has_entries(scrontab.without_block(table, mark)):
        said.append("your other entries got new job ids by that: one that was running just now may run a second time")
    return said


def trouble(paths: Paths, environ: Mapping[str, str]) -> str:
    """Why our entry calls no ticks: it was disabled, or removed; "" where it does, or nobody can tell."""
    try:
        table = scrontab.read(environ)
    except scrontab.ScrontabError:
        return ""
    mark = directory_id(paths)
    if scrontab.is_disabled(table, mark):
        return "its entry in your scrontab is disabled, as its job was cancelled"
    return "" if scrontab.own_lines(table.splitlines(), mark) else "its entry is no longer in your scrontab"


def remove(site: Site, environ: Mapping[str, str]) -> list[str]:
    """Our entry alone; what to say of it. Raises ScrontabError."""
    table = scrontab.read(environ)
    rest = scrontab.without_block(table, directory_id(site.paths))
    if rest != table:
        scrontab.write(environ, rest)
    scheduler.scrontab_mark(site.paths).unlink(missing_ok=True)
    removed = "removed its entry from your scrontab; the others stand as they were, with new job ids"
    return [removed] if rest != table else []
