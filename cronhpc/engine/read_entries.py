"""Folders and rows to entries. A file is opened only when its fingerprint has changed."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from cronhpc.core.model import Entry, EntryRow, Policies, Problem, Severity
from cronhpc.core.model.decode import made, plain
from cronhpc.core.slots import schedule_of
from cronhpc.cron.values import dataclass, grouped, replace
from cronhpc.script.advice import word
from cronhpc.script.dialect import option_text
from cronhpc.store.entries import FRESH, ScriptFile, by_name, misplaced, read_script, scan, unswitchable
from cronhpc.store.files import passes
from cronhpc.store.trust import Trust, owner_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from cronhpc.engine.site import Site
    from cronhpc.script.header import Header

CRON_D = "cron.d"
_SCANS = 2  # looks in a row that must miss a file before its entry is dropped


@dataclass(frozen=True, slots=True)
class Entries:
    """What the folders and the settings hold."""

    entries: tuple[Entry, ...]  # by name
    problems: tuple[Problem, ...]  # what was passed over, unreadable or refused
    parsed: Mapping[str, list[Any]]  # by source, for the cache: [fingerprint, entry, looks that missed it]


def read_entries(site: Site, now: int) -> Entries:
    """All entries; what the cache has need not be parsed again."""
    reader = _Reader(site, now)
    for name, schedule in site.settings.folders:
        reader.folder(f"cron.{name}", schedule)
    reader.folder(CRON_D, "")
    reader.rows(site.settings.entries)
    lost = misplaced(site.paths.root, [CRON_D, *(f"cron.{name}" for name, _ in site.settings.folders)])
    named, refused = by_name(reader.entries, site.paths.entries)
    problems = (*reader.problems, *lost, *refused)
    return Entries(tuple(sorted(named.values(), key=lambda entry: entry.name)), problems, reader.kept)


class _Reader:
    """One look at everything; `kept` is the cache for the next time."""

    def __init__(self, site: Site, now: int) -> None:
        self.site = site
        self.now = now
        self.problems: list[Problem] = []
        self.entries: list[Entry] = []
        self.cached: Mapping[str, list[Any]] = site.cache.get("files") or {}
        self.before = grouped(self.cached, lambda source: source.rpartition("/")[0])  # by folder, what was known of it
        self.kept: dict[str, list[Any]] = {}
        self.clock = site.disk_clock
        self.usual = dict(site.settings.sbatch)

    def folder(self, folder: str, schedule: str) -> None:
        try:
            listing = scan(self.site.paths.root, folder, self.clock)
        except OSError as error:
            fix = _reach(error, f"chmod u+rx {self.site.paths.root / folder}")
            self.problems.append(Problem("E310", f"cannot be read ({error.strerror}): its entries wait.", fix, folder))
            self._unseen(folder, f"{folder} cannot be read ({error.strerror}).", fix, drop=False)
            return
        unreachable = [each for each in listing.skipped if each.code in {"W005", "W009"} and each.file in self.cached]
        self.problems += [each for each in listing.skipped if each not in unreachable]
        # Each tick asks who may write there: a folder's modes change without its files' knowing.
        refused = self.trust.folder_refusal(self.site.paths.root / folder) if listing.scripts else None
        for each in listing.scripts:
            entry = self._script(each, schedule)
            self.entries.append(replace(entry, problem=refused) if refused and entry.problem is None else entry)
        self._away(unreachable)
        self._unseen(folder, "its file was not seen just now;", "it is looked for again.", drop=True)

    def _away(self, links: Iterable[Problem]) -> None:
        """A link that was an entry is one while it lies there: what it leads to is not mounted, say."""
        for problem in links:
            prints, row, _ = self.cached[problem.file]
            self.kept[problem.file] = [prints, row, 0]
            what, fix = problem.what, f"{problem.fix} Its slots stay due until their deadlines."
            if problem.code == "W005":
                what = "it leads to nothing just now."
                fix = "Mount it, or remove the link; its slots stay due until their deadlines."
            self.entries.append(replace(made(Entry, row), problem=Problem("E311", what, fix, problem.file)))

    def _unseen(self, folder: str, what: str, fix: str, *, drop: bool) -> None:
        """Files that were there: a listing on a shared file system may miss one once. One moved or removed is gone."""
        for source in self.before.get(folder, ()):
            prints, row, missed = self.cached[source]
            if source in self.kept or (drop and (missed + 1 >= _SCANS or self._gone(source))):
                continue
            self.kept[source] = [prints, row, missed + 1 if drop else missed]
            self.entries.append(replace(made(Entry, row), problem=Problem("E311", what, fix, source)))

    def _gone(self, source: str) -> bool:
        """Whether the file is there no more, asked by its own name; of a folder that leads nowhere nobody can tell."""
        path = self.site.paths.root / source
        return not os.path.lexists(path) and (path.parent.exists() or not path.parent.is_symlink())

    def _script(self, file: ScriptFile, schedule: str) -> Entry:
        cached = self.cached.get(file.source)
        if cached is not None and cached[0] == file.fingerprint:
            entry, row = made(Entry, cached[1]), cached[1]
        else:
            entry = self._parsed(file, schedule)
            row = plain(entry)
        fresh = abs(self.now - file.changed) < FRESH
        if entry.problem is None and (file.is_link or cached is None or cached[0] != file.fingerprint):
            if refused := self.trust.refusal(Path(file.path)):
                entry = replace(entry, problem=replace(refused, file=file.source))
            if not file.is_link:  # what a link points through may change without the link's knowing
                row = plain(entry)
        # Its next edit may have the very same times, where the disk tells whole seconds: it is read again.
        self.kept[file.source] = [[] if fresh else file.fingerprint, row, 0]
        entry = self._in_a_known_zone(entry)
        return replace(entry, fresh=True) if fresh else entry

    @cached_property
    def trust(self) -> Trust:
        """What is wrong with its settings is named where anybody asks."""
        owners, unknown = owner_ids(self.site.settings.trust_owners, self.site.uid)
        for name in unknown:
            fix = "Correct trust.owners in cronhpc.yaml."
            self.problems.append(Problem("W410", f"trust.owners: there is no user {name}.", fix, "cronhpc.yaml"))
        return Trust(self.site.paths.root, owners, self.site.settings.trust_group)

    @cached_property
    def policies(self) -> Policies:
        """Those of entries that name none; what is wrong with them is named where the settings are read."""
        from cronhpc.core.policy import DEFAULTS, parse_policies

        dialect = self.site.batch.dialect
        usual = replace(DEFAULTS, record=not dialect.tells_ends or bool(dialect.job.codes))
        return parse_policies(self.site.settings.defaults, usual)[0]

    # --- what a file or a row says

    def _parsed(self, file: ScriptFile, schedule: str) -> Entry:
        """One that cannot be understood harms only itself, also where that is our mistake."""
        blank = Entry(file.name, file.source, file.path, "", self.site.timezone, "", born=file.born)
        try:
            return self._parse(file, blank, schedule)
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            what = f"cannot be understood, which is a mistake of cronhpc's ({type(error).__name__})."
            fix = (
                f"Report it with the script; until then simplify its #CRON and {self.site.batch.dialect.prefix} lines."
            )
            return replace(blank, problem=Problem("E313", what, fix, file.source))

    def _in_a_known_zone(self, entry: Entry) -> Entry:
        """A zone that the machine knew which read the file first may be unknown to this one."""
        if entry.timezone == self.site.timezone or entry.problem is not None:
            return entry
        from cronhpc.cron.zones import is_zone

        if is_zone(entry.timezone):
            return entry
        what = f"{entry.timezone}: {self.site.host} does not know this time zone."
        fix = "Have tzdata installed there, or take another zone."
        return replace(entry, schedule="", problem=Problem("E103", what, fix, entry.source))

    def _parse(self, file: ScriptFile, blank: Entry, schedule: str) -> Entry:
        from cronhpc.core.policy import parse_policies
        from cronhpc.script.header import read_header

        try:
            data = read_script(file.path)
        except OSError as error:
            fix = _reach(error, f"chmod u+r {file.path}")
            return replace(blank, problem=Problem("E312", f"cannot be read ({error.strerror}).", fix, file.source))
        header = read_header(data, os.path.basename(file.path), self.site.batch.dialect)  # noqa: PTH119 - a text, no path
        policies, wrong = parse_policies(header.cron.policies if header.cron else (), self.policies)
        problems = [replace(each, file=file.source) for each in (*header.problems, *wrong)]
        own = header.cron.schedule if header.cron else ""  # a line may hold policies only
        entry = replace(
            blank,
            schedule=own or schedule,
            policies=policies,
            timezone=policies.timezone or self.site.timezone,
            hash_key=self._hash_key(file.name if own else file.source.rpartition("/")[0]),
        )
        return self._checked(self._with_options(entry, header), data, problems, header)

    def _hash_key(self, name: str) -> str:
        return f"{self.site.user}:{self.site.paths.root}:{name}"

    def _checked(self, entry: Entry, data: bytes, problems: list[Problem], header: Header) -> Entry:
        from cronhpc.script.header import first_lines

        # Only what is certain bars a run: of options that this version does not know, sbatch is the judge.
        named = unswitchable(entry.name, entry.source)
        certain = [named] if named else []
        first = first_lines(data, self.site.batch.dialect, word(entry.script))
        certain += [replace(each, file=entry.source) for each in first]
        certain += [each for each in problems if each.code.startswith("E10")]
        notes = tuple(each for each in problems if each not in certain)
        line = header.cron.line if header.cron else 0
        certain += self._schedule_problem(entry, line)
        bad_schedule = any(each.code.startswith("E10") for each in certain)
        return replace(
            entry,
            schedule="" if bad_schedule else entry.schedule,
            problem=certain[0] if certain else None,
            notes=(*notes, *certain[1:]),
        )

    def _schedule_problem(self, entry: Entry, line: int) -> list[Problem]:
        from cronhpc.cron.schedule import ScheduleError

        if not entry.schedule:
            fix = f"Write one beside the {self.site.batch.dialect.prefix} lines: #CRON */30 8-18 * * mon-fri"
            return [Problem("E107", "no #CRON line: nothing says when it runs.", fix, entry.source)]
        try:
            schedule_of(entry)
        except ScheduleError as error:
            return [Problem("E101", f'"{error.text}": {error.what}', error.fix, entry.source, line)]
        return []

    def _with_options(self, entry: Entry, header: Header) -> Entry:
        """With what its script asks of sbatch, and what is added to it."""
        chdir = header.value("chdir")
        home = self.site.environment.get("HOME", "/")
        output = _is_ours(header.value("output"), chdir)
        error = header.value("error") or self.usual.get("error")
        return replace(
            entry,
            options=self._added({o.name for o in header.options}, wants_gpu=header.wants_gpu),
            own_options=self._spelt(header) if self._is_wrapped(entry.policies) else None,
            job_name=header.job_name,
            output=output,
            error=output and bool(error) and _is_ours(error, chdir),
            partition=header.value("partition") or "",
            account=header.value("account") or "",
            chdir=home if chdir is None else os.path.join(home, chdir),  # noqa: PTH118 - texts
            comment=header.value("comment") or self.usual.get("comment", ""),
            array=header.value("array") or "",
            own_export=header.value("export") or "",
            holds_itself=header.find("hold") is not None,
        )

    def _is_wrapped(self, policies: Policies) -> bool:
        dialect = self.site.batch.dialect
        return policies.record or policies.ping is not None or dialect.wraps or bool(dialect.job.codes)

    def _spelt(self, header: Header) -> tuple[str, ...] | None:
        """The script's own options, as a command line has them; None for a job of several components: none has them."""
        if any(option.component for option in header.options):
            return None
        if self.site.batch.dialect.wraps:
            return tuple(option.written for option in header.options)
        return tuple(option_text(o.name, o.value) for o in header.options)

    def _added(self, own: set[str], *, wants_gpu: bool) -> tuple[str, ...]:
        """The settings' `sbatch:` for what the script does not say itself; no CPU partition for who wants a GPU.

        Nor what sbatch would refuse beside an option of the script's: `mem` beside its --mem-per-cpu.
        """
        from cronhpc.script.sbatch_options import EXCLUSIVE

        own = own.union(*(names for names in EXCLUSIVE if own.intersection(names)))
        return tuple(
            option_text(name, value or None)
            for name, value in self.site.settings.sbatch
            if name not in own and not (name == "partition" and wants_gpu)
        )

    # --- rows of cronhpc.yaml

    def rows(self, rows: tuple[EntryRow, ...]) -> None:
        if not rows:
            return
        status = os.stat(self.site.paths.settings)  # noqa: PTH116 - beside the other stat calls
        for row in rows:
            source = f"cronhpc.yaml:{row.line}"
            cached = self.cached.get(source)
            if cached is not None and not row.script:
                entry, kept = made(Entry, cached[1]), cached
            else:
                entry = self._entry_of(row, source, self.clock.ours(status, status.st_ctime))
                kept = [[], plain(entry), 0]
            self.kept[source] = kept
            refused = self.trust.folder_refusal(self.site.paths.root)
            if refused is not None and entry.problem is None:
                entry = replace(entry, problem=refused)
            self.entries.append(self._in_a_known_zone(entry))

    def _entry_of(self, row: EntryRow, source: str, born: int) -> Entry:
        from cronhpc.core.policy import parse_policies

        policies, wrong = parse_policies(row.policies, self.policies)
        zone, hash_key = policies.timezone or self.site.timezone, self._hash_key(row.name)
        entry = Entry(row.name, source, "", row.schedule, zone, hash_key, policies, born, job_name=row.name)
        own = dict(row.sbatch)
        home = self.site.environment.get("HOME", "/")
        problems = [replace(each, file="cronhpc.yaml") for each in wrong]
        if row.script:
            entry, more = self._row_script(entry, row)
            problems += more
        else:
            from cronhpc.script.header import asks_for_gpu

            options = self._added(set(own), wants_gpu=asks_for_gpu(own))
            own_options = () if self._is_wrapped(policies) else None
            entry = replace(entry, command=_command_text(row), chdir=home, options=options, own_options=own_options)
        given = tuple(option_text(name, value or None) for name, value in row.sbatch)
        chdir = own.get("chdir", entry.chdir if entry.chdir != home else None)
        output = entry.output and _is_ours(own.get("output"), chdir)
        entry = replace(
            entry,
            options=(*entry.options, *given),
            job_name=own.get("job-name", entry.job_name),
            comment=own.get("comment", entry.comment or self.usual.get("comment", "")),
            output=output,
            error=output and (_is_ours(own["error"], chdir) if own.get("error") else entry.error),
            chdir=os.path.join(home, own["chdir"]) if "chdir" in own else entry.chdir,  # noqa: PTH118 - texts
        )
        problems += [replace(p, file="cronhpc.yaml", line=row.line) for p in self._schedule_problem(entry, row.line)]
        errors = [each for each in (unswitchable(row.name, source), row.problem) if each is not None]
        errors += [each for each in problems if each.severity is Severity.ERROR]
        return replace(entry, problem=errors[0] if errors else None, schedule="" if errors else entry.schedule)

    def _row_script(self, entry: Entry, row: EntryRow) -> tuple[Entry, list[Problem]]:
        from cronhpc.script.header import read_header

        path = os.path.join(self.site.paths.root, os.path.expanduser(row.script))  # noqa: PTH111, PTH118 - texts
        try:
            data = read_script(path)
        except OSError as error:
            what = f"script: {row.script} cannot be read ({error.strerror})."
            return entry, [Problem("E312", what, "Correct the path.", "cronhpc.yaml", row.line)]
        refused = self.trust.refusal(Path(path))
        header = read_header(data, os.path.basename(path), self.site.batch.dialect)  # noqa: PTH119 - a text
        return self._with_options(replace(entry, script=path), header), [refused] if refused else []


def _reach(error: OSError, command: str) -> str:
    if passes(error):
        return "The file system is at fault: it is looked at again at each tick."
    return f"Make it readable: {command}"


def _is_ours(pattern: str | None, chdir: str | None) -> bool:
    """Whether the log stands for a file that a script names so: in the home folder it would be nobody's to find.

    What it names in a folder of its own choice (`--chdir=/PATH`), or by a whole path, is kept as sbatch has it.
    """
    return not (pattern and (pattern.startswith("/") or (chdir or "").startswith("/")))


def _command_text(row: EntryRow) -> str:
    """The script that runs a row's command."""
    import shlex

    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in row.environment)
    return f"#!/bin/bash\n# made by cronhpc from cronhpc.yaml:{row.line}; edit it there\n{exports}{row.command}\n"
