"""Logs that clean themselves: what core/retention decides, carried out through store/logs, folder by folder.

A folder's logs are judged and removed before the next one is listed, so that 100,000 of them need little memory, and a
tick ends after its share with the work done so far.
"""

from __future__ import annotations

import contextlib
import fnmatch
import math
from collections import Counter
from typing import TYPE_CHECKING

from cronhpc.batch.port import BatchError, JobFiles
from cronhpc.core import retention
from cronhpc.core.model import LogFile, Problem, Settings
from cronhpc.core.retention import Cleaned, Judged, Rules, Use, Why, ordered
from cronhpc.cron.values import replace
from cronhpc.store import logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from cronhpc.store.files import Paths
    from cronhpc.store.logs import Folder

_NAMED = 3  # of many links or folders


def clean_logs(
    paths: Paths,
    settings: Settings,
    now: int,
    *,
    live: frozenset[str] | None,
    live_files: Callable[[], Iterable[JobFiles]],
    newest_failed: Mapping[str, str],
    first_began: float = math.inf,
    most: int = 5000,
    dry_run: bool = False,
    since: int | None = None,
) -> Cleaned:
    """Remove at most `most` logs that are over a limit (`logs:` in the settings); a dry run only says which.

    `live`: ids of jobs whose files stay; None where they are unknown: then nothing goes. `live_files` tells which files
    the user's live jobs write (it raises BatchError), whatever they are called; asked once, before the first file goes,
    and without an answer nothing goes either. `first_began`: as housekeeping has it. `newest_failed`: by entry id
    the path, relative to the cron directory, of the log that stays whatever its age. `since` (ns): only folders that a
    name came into after it (see Cleaned.seen), by age and count alone. What the disk refuses is a problem, and harms
    nothing else.
    """
    work = _Work(most, live_files, first_began, dry_run=dry_run)
    if live is None:
        work.unanswered()
        return work.done()
    rules = replace(Rules.of(settings, now), live=live, failed=newest_failed)
    with work.noted(), logs.opened(paths, settings) as log:
        work.clean(log, rules, since)
    for path, pattern in settings.logs_extra if since is None else ():
        with work.noted(), logs.outside(path, paths, settings) as folder:
            work.clean_outside(folder, pattern, rules)
    return work.done()


class _Work:
    """One pass over the logs."""

    def __init__(
        self, most: int, live_files: Callable[[], Iterable[JobFiles]], first_began: float, *, dry_run: bool
    ) -> None:
        self.room = most
        self.first_began = first_began
        self.live_files = live_files
        self.written: frozenset[tuple[int, int]] | None = None  # by live jobs: device and inode; None: not asked yet
        self.dry_run = dry_run
        self.left = False
        self.scarce = ""
        self.seen = 0
        self.bytes = self.unmeasured = 0
        self.stays: Counter[str] = Counter()
        self.folders: dict[str, Counter[str]] = {}
        self.files: list[tuple[str, str]] = []
        self.problems: list[Problem] = []

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Why a folder is left is a problem; what is absent needs no cleaning."""
        try:
            yield
        except logs.LogsError as error:
            self.problems += () if error.absent else (error.problem,)

    def unanswered(self) -> None:
        """Nobody knows which files are still written to."""
        what = "The batch system does not answer, so no one knows which runs still write their logs: none was removed."
        self.problems.append(Problem("W610", what, "The next tick tries again."))
        self.left = True
        self.room = 0

    def done(self) -> Cleaned:
        return Cleaned(
            bytes=self.bytes,
            problems=tuple(self.problems),
            stays=ordered(self.stays),
            unmeasured=self.unmeasured,
            left=self.left,
            scarce=self.scarce,
            seen=self.seen,
            folders={name: ordered(gone) for name, gone in self.folders.items() if gone},
            files=tuple(self.files),
        )

    # --- log/

    def clean(self, log: Folder, rules: Rules, since: int | None) -> None:
        """Each folder by age and count; then, where all together are too large, those that take most."""
        self.scarce = logs.scarce(logs.space(log.fd), rules.total)
        if self.scarce:
            rules = rules.halved()
        top = logs.listing(log)
        self._name_left(log, top.links, "links", "W613", "Remove them if they are not yours.")
        self.seen = max(self.seen, logs.last_change(log))
        names = sorted(top.folders)
        if since is not None:
            names = [name for name in names if logs.last_change(log, name) > since]
        uses: dict[str, Use] = {}
        for name in names:
            if self.room <= 0:
                self.left = True
                return
            with self.noted(), logs.entered(log, name) as folder:
                uses[name] = self._entry(folder, rules)
        most = retention.share(uses.values(), rules.total) if since is None else None
        if most is not None:
            self._cut([name for name, use in uses.items() if use.size > most], log, most, rules)

    def _entry(self, folder: Folder, rules: Rules) -> Use:
        listing = logs.listing(folder)
        if listing.has_logs:
            self._name_left(folder, listing.folders, "folders", "W614", "What is in them is yours to clean.")
            self._name_left(folder, listing.links, "links", "W613", "Remove them if they are not yours.")
        sorted_out = retention.by_name(folder.name, listing.files, rules)
        others, young = sorted_out.others, sorted_out.young
        if len(young) + len(others) > rules.files:
            others, young = [*young, *others], []
        keep, remove = retention.judge(folder.name, logs.measured(folder, others), rules)
        self.stays.update(why for _, why in keep)
        self.stays[Why.WITHIN] += len(young)
        self._remove_old(folder, sorted_out.old)
        self._remove(folder, remove)
        self.seen = max(self.seen, logs.last_change(folder))
        use = retention.use_of(keep)
        return replace(use, size=use.size + logs.size_of(folder, young))

    def _cut(self, names: Iterable[str], log: Folder, most: int, rules: Rules) -> None:
        """The folders that take more than their share are looked at again, so that none need be remembered."""
        for name in names:
            with self.noted(), logs.entered(log, name) as folder:
                sorted_out = retention.by_name(name, logs.listing(folder).files, rules)
                files = logs.measured(folder, [*sorted_out.young, *sorted_out.others])
                keep, _ = retention.judge(name, files, rules)
                _, large = retention.cut(keep, most, rules.now)
                self.stays[Why.WITHIN] -= self._remove(folder, large)
                self.seen = max(self.seen, logs.last_change(folder))

    # --- logs.extra

    def clean_outside(self, folder: Folder, pattern: str, rules: Rules) -> None:
        """The user's own regular files that match, by age alone."""
        names = [name for name in logs.listing(folder).files if fnmatch.fnmatchcase(name, pattern)]
        mine = [file for file in logs.measured(folder, names) if file.own]
        keep, remove = retention.judge("", mine, rules)
        self.stays.update(why for _, why in keep)
        self._remove(folder, remove)

    # --- removing

    def _spared(self, folder: Folder, names: Sequence[str]) -> set[str]:
        """Those of `names`, which are to go, that a live job writes or will append to; all, where nobody can tell."""
        if not names or self.room <= 0:
            return set()
        if self.written is None:
            try:
                self.written = logs.files_at({each for job in self.live_files() for each in job.outputs})
            except BatchError:
                self.unanswered()
                return set(names)
        spared = logs.written_by(folder, names, self.written, self.first_began)
        self.stays[Why.RUN] += len(spared)
        return spared

    def _remove_old(self, folder: Folder, names: list[str]) -> None:
        """By the age in their names, without a look at their size; but a dry run tells that."""
        if self.dry_run:
            self._remove(folder, [(file, Why.OLD) for file in logs.measured(folder, sorted(names))])
            return
        if spared := self._spared(folder, names):
            names = [name for name in names if name not in spared]
        if len(names) > self.room:
            names = sorted(names)[: self.room]
            self.left = True
        gone = self._unlinked(folder, names)
        self.unmeasured += gone
        self._count(folder, Why.OLD, gone)

    def _remove(self, folder: Folder, rows: Sequence[Judged]) -> int:
        """How many went. What was written to since it was looked at stays."""
        if spared := self._spared(folder, [file.name for file, _ in rows]):
            rows = [row for row in rows if row[0].name not in spared]
        if len(rows) > self.room:
            rows = rows[: max(self.room, 0)]
            self.left = True
        total = 0
        for why in (Why.OLD, Why.MANY, Why.LARGE):
            files = [file for file, each in rows if each is why]
            if files:
                total += self._remove_for(folder, why, files)
        return total

    def _remove_for(self, folder: Folder, why: Why, files: list[LogFile]) -> int:
        if self.dry_run:
            gone = len(files)
            self.files += ((f"{folder.label}/{file.name}", str(why)) for file in files)
        else:
            gone = self._unlinked(folder, logs.unchanged(folder, files))
        if gone == len(files):
            self.bytes += sum(file.size for file in files)
        else:
            self.unmeasured += gone
        self._count(folder, why, gone)
        return gone

    def _unlinked(self, folder: Folder, names: Sequence[str]) -> int:
        removal = logs.removed(folder, names)
        if removal.errors:
            error = removal.errors[0]
            what = f"{folder.label}: {error.filename} cannot be removed: {error.strerror}."
            self.problems.append(Problem("W615", what, "Look at its owner and at the folder's modes.", folder.label))
        return removal.count

    def _count(self, folder: Folder, why: Why, number: int) -> None:
        self.room -= number
        if number:
            self.folders.setdefault(folder.label, Counter())[why] += number

    def _name_left(self, folder: Folder, names: list[str], kind: str, code: str, fix: str) -> None:
        if names:
            named = ", ".join(sorted(names)[:_NAMED]) + (", …" if len(names) > _NAMED else "")
            what = f"{folder.label} holds {len(names)} {kind if len(names) > 1 else kind[:-1]} ({named}), left alone."
            self.problems.append(Problem(code, what, fix, folder.label))
