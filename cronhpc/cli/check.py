"""`cronhpc check [FILE|NAME …]`."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from cronhpc.cli import ATTENTION, BROKEN, FINE
from cronhpc.cli.common import no_such, paths_of, site_of
from cronhpc.core.model import SettingsError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from cronhpc.cli.check_online import Online, Partitions
    from cronhpc.cli.door import Door
    from cronhpc.core.model import Entry, EntryRow, Problem, Settings
    from cronhpc.store.paths import Paths

HELP = "Look for mistakes in scripts and settings: whatever sbatch or cron would stumble over or silently ignore."
EXAMPLE = """
cronhpc check
cronhpc check backup ~/new-job.slurm
cronhpc check --online          # also asks the cluster, for each script, whether sbatch takes it
cronhpc check --format github
"""
_NAMES_PARTITION = re.compile(rb"^#(?:SBATCH|PBS)\b.*\s-(?:p|-pa|q)", re.MULTILINE)
_ANY_SCHEDULE = "0 4 * * *"  # for a file that lies in no folder of ours yet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    parser.add_argument("names", nargs="*", metavar="NAME|FILE", help="only these entries, or scripts anywhere")
    parser.add_argument("--online", action="store_true", help="also ask sbatch --test-only; nothing is submitted")
    parser.add_argument("--format", choices=("text", "json", "github"), default="text", help="how to print it")


def run(args: argparse.Namespace, door: Door) -> int:
    """Exit code 1 if there is anything to mend, 2 if the settings cannot be used."""
    from cronhpc.views import check

    here = _has_directory(args, door)
    files = [
        name for name in args.names if "/" in name or (name.endswith(".slurm") and (Path(name).is_file() or not here))
    ]
    names = [name for name in args.names if name not in files]
    online = _online(args, door) if args.online else None
    partitions = _partitions(args, door)
    found = [problem for file in files for problem in _file(Path(file), online, partitions)]
    broken = False
    if names or not files:
        more, broken = _directory(args, door, names, online, partitions)
        found += more
    found += [problem for asked in (partitions, online) if asked is not None for problem in asked.problems]
    found = sorted(dict.fromkeys(found), key=lambda p: (p.file, p.line, p.code))
    door.say(check.render(found, fmt="json" if args.json else args.format))
    return BROKEN if broken else ATTENTION if found else FINE


def _has_directory(args: argparse.Namespace, door: Door) -> bool:
    from cronhpc.store.paths import DirectoryError

    try:
        paths_of(args, door)
    except DirectoryError:
        return False
    return True


def _online(args: argparse.Namespace, door: Door) -> Online:
    """The cluster of the cron directory, or, where there is none that can be used, of this environment."""
    from cronhpc.batch import connect
    from cronhpc.cli.check_online import Online
    from cronhpc.core.model import Settings
    from cronhpc.store.paths import DirectoryError

    try:
        return Online(site_of(args, door).batch)
    except (DirectoryError, SettingsError):
        return Online(connect(args.backend or "", Settings(), door.environ, Path("/nonexistent")))


def _partitions(args: argparse.Namespace, door: Door) -> Partitions | None:
    """Of the cron directory's cluster, or of this environment's."""
    from cronhpc.cli.check_online import Partitions
    from cronhpc.cli.common import settings_or_default
    from cronhpc.core.model import Settings
    from cronhpc.store.paths import DirectoryError

    try:
        settings = settings_or_default(paths_of(args, door))
    except DirectoryError:
        settings = Settings()
    return Partitions.of(args, settings, door.environ)


def _file(path: Path, online: Online | None, partitions: Partitions | None) -> tuple[Problem, ...]:
    from cronhpc.core.entry_name import unswitchable
    from cronhpc.store.entries import read_script

    look = partial(_linted, str(path), read_script(str(path)), partitions, folder_schedule=_ANY_SCHEDULE)
    named = unswitchable(path.stem, str(path))
    return (*((named,) if named else ()), *_with_cluster(look, online, str(path), None))


def _linted(shown: str, data: bytes, partitions: Partitions | None, **more: Any) -> tuple[Problem, ...]:
    from cronhpc.core.lint import Facts, lint_script

    known = partitions() if partitions is not None and _NAMES_PARTITION.search(data) else None
    facts = Facts(known, os.path.isdir, more.pop("refused", ""))
    return lint_script(shown, data, facts=facts, **more)


def _with_cluster(
    look: Callable[..., tuple[Problem, ...]], online: Online | None, path: str, entry: Entry | None
) -> tuple[Problem, ...]:
    """Where nothing else is wrong with a script, sbatch has its say."""
    found = look()
    if online is None or any(each.severity == "error" for each in found):
        return found
    return look(refused=online.refusal(path, entry))


def _directory(
    args: argparse.Namespace, door: Door, names: list[str], online: Online | None, partitions: Partitions | None
) -> tuple[list[Problem], bool]:
    """What is to be said of a cron directory, and whether its settings are unusable."""
    from cronhpc.core.model import Settings
    from cronhpc.read_entries import read_entries

    paths = paths_of(args, door)
    try:
        site = site_of(args, door)
    except SettingsError as error:  # the scripts are looked at all the same, under the default settings
        looked = _Look(paths, Settings(), ZoneInfo("UTC"), "", names)
        looked.online, looked.partitions = online, partitions
        return [*error.problems, *looked.scripts()], True
    problems: list[Problem] = list(site.problems)
    entries = read_entries(site, door.now, problems)
    looked = _Look(paths, site.settings, ZoneInfo(site.timezone), site.user, names)
    looked.online, looked.partitions = online, partitions
    looked.entries = {entry.name: entry for entry in entries}
    found = list(looked.scripts())
    for entry in entries:
        if names and entry.name not in names:
            continue
        from_row = entry.source.startswith("cronhpc.yaml")
        own = [each for each in (entry.problem, *entry.notes) if each is not None]
        found += [each for each in own if from_row or each.code >= "E3"]  # the rest is what lint says of the script
        if online is not None and entry.command and entry.problem is None:
            found += online.of_command(entry)
    known = {entry.name for entry in entries}
    for name in names:
        if name not in known:
            raise no_such("entry", name, known)
    return [*found, *([] if names else problems)], False


class _Look:
    """The scripts of one cron directory, linted one by one."""

    def __init__(self, paths: Paths, settings: Settings, zone: ZoneInfo, user: str, names: list[str]) -> None:
        self.paths, self.settings, self.zone, self.user, self.names = paths, settings, zone, user, names
        self.online: Online | None = None
        self.partitions: Partitions | None = None
        self.entries: dict[str, Entry] = {}

    def scripts(self) -> Iterator[Problem]:
        """All that lint says of them."""
        from cronhpc.store.entries import scan

        for folder, schedule in (*((f"cron.{name}", text) for name, text in self.settings.folders), ("cron.d", None)):
            passed_over: list[Problem] = []
            try:
                found = scan(self.paths.root, folder, passed_over)
            except OSError:
                continue  # named by read_entries
            for each in found:
                if not self.names or each.name in self.names:
                    hashed = folder if schedule else each.name
                    yield from self._lint(each.source, each.path, schedule, hashed, self.entries.get(each.name))
        for row in self.settings.entries:
            if row.script and (not self.names or row.name in self.names):
                yield from self._row(row)

    def _row(self, row: EntryRow) -> Iterator[Problem]:
        path = str(self.paths.root / Path(row.script).expanduser())
        entry = self.entries.get(row.name)
        yield from self._lint(row.script, path, row.schedule, row.name, entry, in_folder=False)

    def _lint(
        self, shown: str, path: str, schedule: str | None, hashed: str, entry: Entry | None, *, in_folder: bool = True
    ) -> tuple[Problem, ...]:
        from cronhpc.store.entries import read_script

        try:
            data = read_script(path)
        except OSError:
            return ()  # named by read_entries
        look = partial(
            _linted,
            shown,
            data,
            self.partitions,
            folder_schedule=schedule,
            zone=self.zone,
            hash_key=f"{self.user}:{self.paths.root}:{hashed}",
            in_folder=in_folder,
        )
        return _with_cluster(look, self.online, path, entry)
