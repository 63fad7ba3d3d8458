"""`cronhpc check [FILE|NAME …]`."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.batch import connect, dialect_of, examinable, examined, present
from cronhpc.batch.process import which
from cronhpc.check.look import Linter, Online, Partitions, Script, added_options, read_well
from cronhpc.cli import ATTENTION, BROKEN, FINE
from cronhpc.cli.commands import Command
from cronhpc.cli.console import Console, UsageError
from cronhpc.cli.runs import no_entry
from cronhpc.core.model import Entry, EntryRow, Problem, Settings, SettingsError, Severity, command
from cronhpc.cron import grammar
from cronhpc.cron.schedule import ScheduleError, parse
from cronhpc.cron.values import count, dataclass, field, replace
from cronhpc.cron.zones import zone_of
from cronhpc.script import sbatch_options
from cronhpc.script.dialect import SLURM, Dialect
from cronhpc.script.header import read_header
from cronhpc.script.sbatch_options import Option, conflicts
from cronhpc.script.spelling import directive, has_directives, spelt
from cronhpc.store.entries import file_of, is_script, moving, read_script, renaming, row_of, scan, unswitchable
from cronhpc.store.files import DirectoryError, Paths

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cronhpc.engine.site import Site


_HELP = "Look for mistakes in scripts and settings: what the batch system or cron stumbles over or silently ignores."
_EXAMPLE = """
cronhpc check
cronhpc check backup ~/new-job.slurm
cronhpc check --strict && cronhpc start
cronhpc check --online    # asks sbatch, however long it takes; else a second
cronhpc check --format github
"""
_CLUSTER_TIMEOUT = 5.0  # seconds: without an answer the rest is said all the same
_A_MOMENT = 1.0  # seconds after which sbatch is asked no more where nobody wants to wait for it
_ANSWER_TIMEOUT = 3.0  # … and that its one answer may take then
_ANY_SCHEDULE = "0 4 * * *"  # for a file that lies in no folder of ours yet
_FIX_IN_ROWS = {  # where the one for scripts is of another line than the command's
    "W303": "Write the whole path, or under the entry: sbatch: {chdir: /PATH}.",
    "W304": 'Begin it with ". /etc/profile;".',
    "W305": 'Begin it with "set -o pipefail;".',
    "W306": "Give it another name, under the entry: sbatch: {job-name: NAME}; or leave out $SLURM_JOB_ID.",
    "W309": "Name one under the entry: sbatch: {output: /PATH/slurm-%j.out}.",
    "W307": "Write the folder's path, or under the entry: sbatch: {chdir: /PATH}.",
    "E230": "Correct it; in YAML a command of several lines stands behind: command: |",
}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME|FILE", help="only these entries, or scripts anywhere")
    parser.add_argument("--online", action="store_true", help="wait for what sbatch --test-only says of each script")
    parser.add_argument("--offline", action="store_true", help="ask the cluster nothing")
    parser.add_argument("--strict", action="store_true", help="exit code 1 for warnings, too")
    parser.add_argument("--format", choices=("text", "json", "github"), default="text", help="how to print it")


def _run(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if there is an error, with --strict also for a warning; 2 if the settings cannot be used."""
    from cronhpc.views import reports

    here = _has_directory(console)
    entries = _entry_names(console) if here and any(_may_be_a_file(name) for name in args.names) else set()
    files = [
        name
        for name in args.names
        if "/" in name or (name.endswith(".slurm") and not here) or (_may_be_a_file(name) and name not in entries)
    ]
    names = [name for name in args.names if name not in files]
    if args.online and args.offline:
        raise UsageError("cronhpc check: --online or --offline, not both.")
    linter = Linter(console.environ, _partitions(args, console), _online(args, console), dialect_here(console))
    problems = [problem for file in files for problem in _file(Path(file), linter)]
    site, broken = None, False
    if names or not files:
        of_directory, site = _directory(console, names, linter)
        problems, broken = problems + of_directory, site is None
    if here and console.paths().is_mine and not broken:
        console.withdraw_edited(site or console.site())
    problems += [problem for source in (linter.partitions, linter.online) if source for problem in source.problems]
    problems = [replace(each, what=console.text(each.what), fix=console.text(each.fix)) for each in _in_order(problems)]
    if console.as_json or args.format == "json":
        console.json(reports.check_facts(problems))
    else:
        console.say(reports.check(problems, fmt=args.format))
    bad = {Severity.ERROR, Severity.WARNING} if args.strict else {Severity.ERROR}
    return BROKEN if broken else ATTENTION if any(each.severity in bad for each in problems) else FINE


def errors(console: Console, names: Sequence[str] = ()) -> list[Problem]:
    """What keeps entries (`names`; else all) from running, for commands that set them going; the cluster is not asked.

    Raises SettingsError.
    """
    problems, _ = _directory(console, list(names), Linter(console.environ))
    return [problem for problem in _in_order(problems) if problem.severity is Severity.ERROR]


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    """By their places, each once."""
    return sorted(dict.fromkeys(problems), key=lambda each: (each.file, each.line, each.code))


_MOST_TOLD = 3


def will_not_run(wrong: Sequence[Problem]) -> list[str]:
    """The first few of these errors, a line each, and where the rest is."""
    lines = [str(each) for each in wrong[:_MOST_TOLD]]
    return [*lines, "all that is wrong: " + command("check"), ""] if lines else []


def _may_be_a_file(name: str) -> bool:
    return "/" not in name and Path(name).is_file()


def _entry_names(console: Console) -> set[str]:
    try:
        return {entry.name for entry in console.entries()}
    except SettingsError:
        return set()


def _has_directory(console: Console) -> bool:
    try:
        console.paths()
    except DirectoryError:
        return False
    return True


def _online(args: argparse.Namespace, console: Console) -> Online | None:
    """The cluster of the cron directory, or, where there is none that can be used, of this environment."""
    if args.offline:
        return None
    if not args.online:
        cluster = examinable(console.backend, _settings(console), console.environ, _ANSWER_TIMEOUT)
        return Online(cluster, _A_MOMENT) if cluster is not None and which("sbatch", console.environ) else None
    try:
        batch = console.site().batch
    except (DirectoryError, SettingsError):
        batch = connect(console.backend, Settings(), console.environ, Path("/nonexistent"))
    if (system := examined(batch)) is None:
        what = "cronhpc check: --online asks sbatch, and this backend has none. Leave it out, or: --backend slurm"
        raise UsageError(what)
    return Online(system)


def _partitions(args: argparse.Namespace, console: Console) -> Partitions | None:
    """Of the cron directory's cluster, or of this environment's; None where there is no Slurm."""
    if args.offline:
        return None
    cluster = examinable(console.backend, _settings(console), console.environ, _CLUSTER_TIMEOUT)
    return Partitions(cluster) if cluster is not None and which("sinfo", console.environ) else None


def dialect_here(console: Console) -> Dialect:
    """Of the cron directory's batch system, or, where there is none that can be used, of this environment's."""
    return dialect_of(console.backend, _settings(console), console.environ)


def _settings(console: Console) -> Settings:
    try:
        return console.settings()
    except DirectoryError:
        return Settings()


def _file(path: Path, linter: Linter) -> tuple[Problem, ...]:
    """Of a file that was named: it is read whatever it is called."""
    if path.is_dir():
        whole = command("check", directory=str(path.absolute()))
        raise UsageError(f"{path} is a folder. Name its scripts; or, if it is a cron directory: " + whole)
    data = read_script(str(path))
    scheduled = path.absolute().parent.name.startswith("cron.")
    unnamed = unswitchable(path.stem, str(path)) if is_script(path.name) else None
    script = Script(str(path), str(path.absolute()), data, _ANY_SCHEDULE, scheduled=scheduled)
    return (*((unnamed,) if unnamed else ()), *linter.with_cluster(script))


def _directory(console: Console, names: list[str], linter: Linter) -> tuple[list[Problem], Site | None]:
    """What is to be said of a cron directory; and the directory, None where its settings are unusable."""
    from cronhpc.engine.read_entries import read_entries
    from cronhpc.store.disk import closed

    paths = console.paths()
    try:
        site = console.site()
    except SettingsError as error:  # the scripts are looked at all the same, under the default settings
        by_default = linter._replace(environ=None, dialect=dialect_here(console))
        unknown = not (console.backend or _settings(console).backend or present(console.environ))
        notes = [_UNKNOWN_SYSTEM] if unknown else []
        scripts = _Look(paths, Settings(), "", names, by_default).scripts()
        return [*error.problems, *notes, *scripts], None
    reading = read_entries(site, console.now)
    entries = {entry.name: entry for entry in reading.entries}
    linter = linter._replace(environ=site.environment, dialect=site.batch.dialect)
    look = _Look(paths, site.settings, site.user, names, linter, entries)
    problems = [*look.in_settings(), *([] if names else _of_alerts(site.settings, site.environment)), *look.scripts()]
    for entry in reading.entries:
        if names and entry.name not in names:
            continue
        its_problems = [each for each in (entry.problem, *entry.notes) if each is not None]
        problems += [
            each for each in its_problems if row_of(entry) or each.code >= "E3"
        ]  # the rest is what lint says of the script
        problems += _of_ping(entry, site.environment)
        if linter.online is not None and entry.command and entry.problem is None:
            problems += linter.online.of_command(entry)
    for name in names:
        if name not in entries:
            raise no_entry(name, entries, paths)
    return [*problems, *(() if names else (*site.problems, *reading.problems, *closed(paths)))], site


_UNKNOWN_SYSTEM = Problem(
    "N004",
    "while the settings cannot be used, nobody knows the batch system: the scripts are judged as Slurm's.",
    "Correct the settings; or name it, as in: " + command("check", options=("--backend", "pbs")),
    "cronhpc.yaml",
)


def _of_alerts(settings: Settings, environ: Mapping[str, str]) -> Iterator[Problem]:
    """What keeps alerts from being sent, seen before one has to be."""
    if not (settings.sends_alerts or settings.alerts_ping or settings.alerts_smtp):
        return
    from cronhpc.engine.delivery import faults

    for key, what, fix in faults(settings, environ):
        yield Problem("W352", f"{key}: {what}", fix, "cronhpc.yaml", key=key)


def _of_ping(entry: Entry, environ: Mapping[str, str]) -> Iterator[Problem]:
    if entry.policies.ping:
        from cronhpc.engine.delivery import faults_of_ping

        yield from faults_of_ping(entry, environ)


_OF_SCRIPTS = frozenset(
    ("", ".sh", ".bash", ".sge", ".pbs", ".lsf", ".qsub", ".bsub", ".job")
)  # what sites end them with


def _scripts_in(place: Path) -> list[str]:
    """The scripts of a folder; a shell script's own name where it has directives; else none."""
    try:
        if place.is_dir():
            return [each.name for each in place.iterdir() if is_script(each.name)]
        if place.suffix not in _OF_SCRIPTS or not place.is_file():
            return []
        head = read_script(str(place), 4096)
    except OSError:
        return []
    return [place.name] if head.startswith(b"#!") and has_directives(head) else []


def _begins_as_script(place: Path) -> bool:
    """As a crontab's does: it may be a helper of another, or be meant to run."""
    try:
        shell = place.suffix in _OF_SCRIPTS and not place.name.startswith(".")
        return shell and place.is_file() and read_script(str(place), 2) == b"#!"
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class _Look:
    """The scripts of one cron directory, linted one by one."""

    paths: Paths
    settings: Settings
    user: str
    names: list[str]  # entries that were asked for; []: all
    linter: Linter
    entries: dict[str, Entry] = field(default_factory=dict)

    def _relative_outputs(self, scripts: Iterable[Script]) -> Iterator[Problem]:
        """One line for all entries whose relative --output gives way to log/NAME/: nothing is wrong with any."""
        dialect = self.linter.dialect
        with_log = ((each.entry.name, each.data) for each in scripts if each.entry and each.entry.output)
        renamed = [name for name, data in with_log if b"-o" in data and read_header(data, "", dialect).value("output")]
        if not renamed:
            return
        named = ", ".join(renamed[:3]) + (", …" if len(renamed) > 3 else "")  # noqa: PLR2004 - of many
        what = f"a relative {spelt('output', dialect)} ({named}): the log is log/NAME/SLOT-JOB.out instead, as "
        what = what + command("logs") + " shows it."
        line = directive(dialect, "chdir", "/PATH")
        fix = f"To keep it, write a whole path{f', or {line}' if line else ''}."
        yield Problem("N002", what, fix, key="output")

    def scripts(self) -> Iterator[Problem]:
        scripts: list[Script] = []
        of_folders = ((f"cron.{name}", schedule) for name, schedule in self.settings.folders)
        for folder, schedule in (*of_folders, ("cron.d", None)):
            try:
                files = scan(self.paths.root, folder)
            except OSError:
                continue  # named by read_entries
            if files.others and not self.names:
                yield from self._others(folder, files.others)
            for each in files.scripts:
                hashed = folder if schedule else each.name
                scripts += self._script(each.source, each.path, schedule, hashed, each.name)
        for row in self.settings.entries:
            if row.script:
                path = str(self.paths.root / Path(row.script).expanduser())
                scripts += self._script(row.script, path, row.schedule, row.name, row.name)
            elif not self.names or row.name in self.names:
                yield from self._command(row)
        well = read_well([script.data for script in scripts]) if len(scripts) > 1 else self.linter.read_well
        linter = self.linter._replace(read_well=well)
        for script in scripts:
            yield from linter.with_cluster(script)
        yield from self._relative_outputs(scripts)

    def in_settings(self) -> Iterator[Problem]:
        """Schedules and sbatch values in cronhpc.yaml that are read as they stand, and refused where they are used."""
        rows = [row for row in self.settings.entries if not self.names or row.name in self.names]
        settings = self.settings
        blocks = [] if self.names else [("sbatch", settings.sbatch, 0), ("scheduler.sbatch", settings.link_sbatch, 0)]
        for where, options, line in (*blocks, *((f"entries.{row.name}.sbatch", row.sbatch, row.line) for row in rows)):
            for name, value in options:
                if value and (fault := sbatch_options.fault(name, value)):
                    key = f"{where}.{name}"
                    yield Problem("E207", f'{key}: "{value}": {fault[0]}', fault[1], "cronhpc.yaml", line, key)
        for row in rows:
            for what, fix in grammar.steps_beyond(row.schedule):
                yield Problem("W104", f'"{row.schedule}": {what}', fix, "cronhpc.yaml", row.line)
        sources = [self.entries[name].source for name in self.names if name in self.entries]
        for name, schedule in self.settings.folders:
            if self.names and not any(source.startswith(f"cron.{name}/") for source in sources):
                continue
            try:
                parse(schedule, zone_of("UTC"), hash_key=f"cron.{name}")  # no zone makes one wrong
            except ScheduleError as error:
                key = f"folders.{name}"
                yield Problem("E101", f'{key}: "{schedule}": {error.what}', error.fix, "cronhpc.yaml", key=key)

    def _others(self, folder: str, names: Iterable[str]) -> Iterator[Problem]:
        """Of what is no script by its name: batch scripts among it, and folders of scripts; the rest in one line."""
        rest: list[Path] = []
        for name in names:
            place = self.paths.root / folder / name
            scripts = [] if name.startswith(".") else _scripts_in(place)
            source = f"{folder}/{name}"
            if scripts == [name]:
                fix = renaming(place, f"{place.stem}.slurm")
                yield Problem("W001", "a batch script, but not a .slurm file: it does not run.", fix, source)
            elif scripts:
                run = "runs" if len(scripts) == 1 else "run"
                what = f"a folder in a cron folder: its {count(len(scripts), 'script')} never {run}."
                yield Problem("W010", what, moving(place, place.parent, "*.slurm"), f"{source}/")
            else:
                rest.append(place)
        by_hand = next((place for place in rest if _begins_as_script(place)), None)
        if rest:
            named = f" ({by_hand.name}{' …' if len(rest) > 1 else ''})" if by_hand else ""
            none = named or f", no {'script' if len(rest) == 1 else 'scripts'}"
            what = f"{count(len(rest), 'other file')}{none}: only *.slurm files run."
            yield Problem("N001", what, renaming(by_hand, f"{by_hand.stem}.slurm") if by_hand else "", f"{folder}/")

    def _command(self, row: EntryRow) -> Iterator[Problem]:
        """Of a row's command: what lint says of the script that is made of it, in the words of a row."""
        name, entry = row.name, self.entries.get(row.name)
        given = {option: Option(option, value, row.line) for option, value in row.sbatch}
        for code, what, wrong, fix in conflicts(given, frozenset(added_options(entry))):
            yield Problem(code, what, fix, "cronhpc.yaml", row.line, f"entries.{name}.sbatch.{wrong.name}")
        if entry is None or not entry.command:
            return
        first, _, rest = entry.command.partition("\n")
        options = (f"--job-name={entry.job_name}", *entry.options)
        directives = "".join(f"#SBATCH {shlex.quote(option)}\n" for option in options if option.isprintable())
        data = f"{first}\n{directives}{rest}".encode("utf-8", "surrogateescape")
        linter = self.linter._replace(online=None, dialect=SLURM)  # whose words settings have
        for each in linter(Script(file_of(entry), "", data, _ANY_SCHEDULE)):
            if each.code.startswith("W3") or each.code in {"E230", "W231"}:  # in_settings has the rest
                fix = _FIX_IN_ROWS.get(each.code, each.fix)
                yield replace(each, what=f"entries.{name}.command: {each.what}", fix=fix, line=row_of(entry))

    def _script(self, source: str, path: str, schedule: str | None, hashed: str, name: str) -> Iterator[Script]:
        """If it is asked for, with what its H are made of; one that cannot be read is told of by read_entries."""
        if self.names and name not in self.names:
            return
        with suppress(OSError):
            key = f"{self.user}:{self.paths.root}:{hashed}"
            yield Script(source, path, read_script(path), schedule, self.entries.get(name), key)


COMMANDS = {
    "check": Command(_HELP, _EXAMPLE, _run, _arguments),
}
