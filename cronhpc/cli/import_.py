"""`cronhpc import crontab|scrontab FILE|-`."""

from __future__ import annotations

import contextlib
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.commands import Command
from cronhpc.cli.console import Console, UsageError, filled, zone_named
from cronhpc.core.model import CronhpcError, Settings, command, joined
from cronhpc.cron.values import dataclass, field
from cronhpc.importer.crontab import Crontab
from cronhpc.importer.script import MARK, Imported, named
from cronhpc.importer.scrontab import Scrontab
from cronhpc.importer.table import Surroundings, Table
from cronhpc.inside.switch_file import owner
from cronhpc.store.entries import read_script, scan
from cronhpc.store.files import DirectoryError, Paths, create_once
from cronhpc.store.settings import read_settings
from cronhpc.store.switches import set_switch
from cronhpc.views import Facts, text
from cronhpc.views.style import Column, table, wrap

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator


_HELP = (
    "Take over a crontab or a scrontab: each entry becomes a script in cron.d/. The table itself is not changed. "
    "What has no counterpart is reported line by line. Safe to repeat."
)
_EXAMPLE = """
crontab -l | cronhpc import crontab -
scrontab -l > table && cronhpc import scrontab table --dry-run
"""
_MOST = 4 * 1024 * 1024  # bytes; more is no table
_FEW = 20  # of more files the folder is named once
_EDITORS = {"crontab": "crontab -e", "scrontab": "scrontab -e"}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=tuple(_EDITORS), help="what the table is")
    parser.add_argument("file", type=filled, metavar="FILE", help="the table; - for standard input")
    parser.add_argument("--dry-run", action="store_true", help="print the scripts, write nothing")
    parser.add_argument("--system", action="store_true", help="a user's name stands before each command (/etc/crontab)")
    parser.add_argument(
        "--timezone", type=zone_named, metavar="ZONE", help="the clock that the table ran by (else this machine's)"
    )


def _run(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if something is left for a person to decide."""
    data = _input(args.file)
    target = _target(args, console)
    reader = Crontab if args.kind == "crontab" else Scrontab
    table = reader.read(data, _around(args, target.settings))
    rows = named(table, target.names, target.marks)
    if not args.dry_run and target.paths is not None:
        _write(target.paths, target.settings, rows)
    words = partial(joined, "\n", _words(args, console, target, table, rows))
    console.answer(_facts(args, target, table, rows), words)
    return ATTENTION if any(remark.look for remark in table.remarks) else FINE


# --- what goes in --------------------------------------------------------------------------------------------------


def _input(file: str) -> bytes:
    """The table's bytes. Raises CronhpcError."""
    try:
        if file == "-":
            data = sys.stdin.buffer.read(_MOST + 1)
        else:
            with Path(file).expanduser().open("rb") as stream:
                data = stream.read(_MOST + 1)
    except OSError as error:
        raise CronhpcError(f"{file} cannot be read: {error.strerror}. Nothing was done.") from None
    if len(data) > _MOST:
        raise CronhpcError(f"{file} holds more than {_MOST // 1024**2} MB, which is no table. Nothing was done.")
    return data


@dataclass(frozen=True, slots=True)
class _Target:
    """The cron directory that gets the scripts; `paths` None: there is none yet (a dry run)."""

    paths: Paths | None
    settings: Settings
    names: frozenset[str] = frozenset()
    marks: dict[str, str] = field(default_factory=dict)  # mark of an earlier import -> source


def _target(args: argparse.Namespace, console: Console) -> _Target:
    """Raises DirectoryError, SettingsError, CronhpcError."""
    try:
        paths = console.paths()
    except DirectoryError:
        if args.dry_run:
            return _Target(None, Settings())
        raise
    if not args.dry_run and not paths.is_mine:
        init = command("init", directory="DIR")
        raise CronhpcError(f"{paths.root} is another user's: jobs run as its owner. Make your own: " + init)
    settings = read_settings(paths.settings)
    names = {row.name for row in settings.entries}
    marks: dict[str, str] = {}
    try:
        for name, mark, source in _scripts(paths, settings):
            names.add(name)
            if mark:
                marks.setdefault(mark, source)
    except OSError as error:
        raise CronhpcError(f"{error.filename} cannot be read: {error.strerror}. Nothing was done.") from None
    return _Target(paths, settings, frozenset(names), marks)


def _scripts(paths: Paths, settings: Settings) -> Iterator[tuple[str, str, str]]:
    """(name, mark, source) of every file that has, or would take, an entry's name. Raises OSError."""
    for folder in (*(f"cron.{name}" for name, _ in settings.folders), "cron.d"):
        for each in scan(paths.root, folder).scripts:
            match = None
            with contextlib.suppress(OSError):  # one that cannot be read keeps its name all the same
                match = MARK.search(read_script(each.path))
            yield each.name, match[1].decode() if match else "", each.source
        if (paths.root / folder).is_dir():
            for path in (paths.root / folder).iterdir():
                yield path.name.removesuffix(".slurm"), "", ""


def _around(args: argparse.Namespace, settings: Settings) -> Surroundings:
    if args.system and args.kind != "crontab":
        raise UsageError("--system is about system crontabs; a scrontab names no users.")
    return Surroundings(
        user=owner(os.getuid()),
        timezone=args.timezone or _zone(settings),
        alerts=settings.sends_alerts,
        system=args.system,
    )


def _zone(settings: Settings) -> str:
    """The machine's, which tables run by, where entries that name none run by another; else ""."""
    from cronhpc.engine.site import machine_zone_key

    machine = machine_zone_key()
    return machine if machine not in {"", settings.timezone or machine} else ""


# --- what is written -----------------------------------------------------------------------------------------------


def _write(paths: Paths, settings: Settings, rows: tuple[Imported, ...]) -> None:
    """The scripts that are not there yet; a paused one's switch first, so that it never runs in between."""
    for row in rows:
        if row.existing:
            continue
        path = paths.root / row.path
        try:
            if row.job.paused:
                why = "imported: it was disabled in the scrontab"
                set_switch(paths.pause, row.name, why, None, settings.kill_group)
            path.parent.mkdir(mode=0o755, exist_ok=True)
            if not create_once(path, row.script):
                raise CronhpcError(f"{path} was made by someone else just now. Import again: what is done is kept.")
            path.chmod(0o700)  # as private as the table was
        except OSError as error:
            what = f"{path} cannot be written: {error.strerror}."
            raise CronhpcError(f"{what} Import again when that is fixed: what is done is kept.") from None


# --- what is said --------------------------------------------------------------------------------------------------


def _facts(args: argparse.Namespace, target: _Target, table: Table, rows: tuple[Imported, ...]) -> Facts:
    return {
        "source": table.source,
        "dry_run": args.dry_run,
        "directory": str(target.paths.root) if target.paths else None,
        "entries": [
            {
                "name": row.name,
                "path": row.path,
                "line": row.job.line,
                "cron": row.job.cron,
                "state": "there" if row.existing else "planned" if args.dry_run else "written",
                "paused": row.job.paused,
                "script": row.script.decode("utf-8", "replace") if args.dry_run else None,
            }
            for row in rows
        ],
        "remarks": [
            {"line": r.line, "what": text.clean(r.what), "fix": text.clean(r.fix), "look": r.look}
            for r in table.remarks
        ],
        "lines": [{"line": each.number, "kind": each.kind, "entry": each.entry or None} for each in table.lines],
    }


def _words(
    args: argparse.Namespace, console: Console, target: _Target, table: Table, rows: tuple[Imported, ...]
) -> Iterator[str]:
    if not rows and not table.remarks:
        yield _nothing(args, table)
        return
    new = [row for row in rows if not row.existing]
    if args.dry_run:
        for row in new:
            yield f"--- {row.path}"
            yield text.lines(row.script.decode("utf-8", "surrogateescape")).rstrip("\n")
            yield ""
    yield from _list(args, console, target, new)
    for row in rows:
        if row.existing:
            yield f"already there: {text.name(row.name)} ({text.clean(row.existing)}), from line {row.job.line}"
    yield from _remarks(console, "needs a person", [each.advice for each in table.remarks if each.look])
    yield from _remarks(console, "notes", [each.advice for each in table.remarks if not each.look])
    if new:
        yield ""
        yield from _next(args, target, new)


def _nothing(args: argparse.Namespace, table: Table) -> str:
    if table.absent:
        return f"there is no {args.kind}: nothing to import"
    if not table.lines:
        return f"nothing to import: the input is empty. If there should be entries, look what `{args.kind} -l` says"
    return f"nothing to import: there is no entry in {text.count(len(table.lines), 'line')}"


def _list(args: argparse.Namespace, console: Console, target: _Target, new: list[Imported]) -> Iterator[str]:
    where = console.style().path(str(target.paths.root / "cron.d")) if target.paths else "cron.d"
    if args.dry_run:
        yield f"{text.count(len(new), 'script')} for {where}; nothing was written (--dry-run)"
    elif new:
        yield f"imported {text.count(len(new), 'entry', 'entries')} into {where}"
    else:
        yield f"nothing new for {where}"
    columns = [Column("ENTRY"), Column("LINE", right=True), Column("#CRON"), Column("")]
    rows = [[text.name(row.name), str(row.job.line), row.job.cron, "paused" if row.job.paused else ""] for row in new]
    if rows:
        yield from table(columns, rows, console.style())


def _remarks(console: Console, title: str, remarks: list[str]) -> Iterator[str]:
    if remarks:
        yield ""
        yield title
        room = max(console.width - 2, 0)
        yield from ("  " + line for each in remarks for line in wrap(text.clean(each), room))


def _next(args: argparse.Namespace, target: _Target, new: list[Imported]) -> Iterator[str]:
    edit = _EDITORS[args.kind]
    yield f"the {args.kind} is as it was and still runs them: when all is well here, remove them there ({edit})"
    if args.dry_run or target.paths is None:
        return
    paused = [row for row in new if row.job.paused]
    yield from ("to go on with a paused one: " + command("resume", row.name) for row in paused[:1])
    yield "look at them: " + command("check") + "; when they run: " + command("next")
    root = target.paths.root
    files = [row.path for row in new] + [f"pause/{row.name}" for row in paused]
    if len(files) > _FEW:
        yield f"undo: (cd {text.word(str(root))} && rm {' '.join(map(text.word, files))})"
    else:
        yield f"undo: rm {' '.join(text.word(str(root / file)) for file in files)}"


COMMANDS = {"import": Command(_HELP, _EXAMPLE, _run, _arguments)}
