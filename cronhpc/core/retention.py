"""Which logs go, which stay, and why, as data: keep and remove together are all, and each has its reason.

A log is a file in an entry's folder below `log/` that bears the name cronhpc gives (`<slot>-<job>.out`): it is as old
as its slot, so that nobody need look at the file. Any other file there is the user's. What `logs.extra` names is as old
as its last change.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from cronhpc.core.model import LOG_NAME, LogFile, Problem
from cronhpc.cron.values import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cronhpc.core.model import Settings


_NAME = re.compile(LOG_NAME)
_NUMBERS = re.compile(r"[0-9]+")
_STAMP = "%Y%m%dT%H%M%S"
_LAST = 253402300799  # the end of the year 9999
_AHEAD = 86400  # a slot later than this from now is no slot: the file's own time counts


class Why(StrEnum):
    """What decided about a log."""

    OLD = "too old"
    MANY = "too many"
    LARGE = "too much in all"
    RUN = "its run is live, or ended lately"
    FAILED = "the newest failed run's"
    WITHIN = "within the limits"


Judged = tuple["LogFile", Why]


@dataclass(frozen=True, slots=True)
class Rules:
    """The limits at one moment, and what they do not reach.

    `live`: job ids whose files stay. `failed`: for each entry's id the path of its newest failed log, relative to the
    cron directory, as history has it.
    """

    now: int
    keep: int  # seconds
    files: int  # of one entry
    total: int  # bytes in all
    live: frozenset[str] = frozenset()
    failed: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings, now: int) -> Rules:
        """What `logs:` of the settings says."""
        return cls(now, settings.logs_keep, settings.logs_files, settings.logs_total)

    @property
    def oldest(self) -> str:
        """The stamp of the oldest log that stays."""
        return _stamp_at(self.now - self.keep)

    def halved(self) -> Rules:
        """What counts while the disk is nearly full."""
        return replace(self, keep=self.keep // 2, files=max(self.files // 2, 1), total=self.total // 2)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What went, what stayed, and why. `folders` and `stays` count files by reason."""

    bytes: int = 0  # of the removed files whose size was looked at
    problems: tuple[Problem, ...] = ()
    stays: Mapping[str, int] = field(default_factory=dict)
    unmeasured: int = 0  # removed by the age in their names, without a look at their size
    left: bool = False  # there is more to do than `most` files
    scarce: str = ""  # why the limits are halved, in words
    folders: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # removed ones by folder and reason
    seen: int = 0  # the newest change of a folder, after the cleaning: ns
    files: tuple[tuple[str, str], ...] = ()  # a dry run: each file (log/…, or absolute), and why it goes

    @property
    def reasons(self) -> dict[str, int]:
        """How many went, by reason."""
        return ordered(sum(map(Counter, self.folders.values()), Counter()))

    @property
    def removed(self) -> int:
        """How many went."""
        return sum(self.reasons.values())

    @property
    def kept(self) -> int:
        """How many stayed."""
        return sum(self.stays.values())


def ordered(whys: Mapping[str, int]) -> dict[str, int]:
    """Counts by reason, in the order of `Why`."""
    return {str(why): whys[why] for why in Why if whys.get(why)}


# --- one folder ----------------------------------------------------------------------------------------------------


class ByName(NamedTuple):
    """What names alone tell. `old` go; `young` are within the age limit; `others` have to be looked at."""

    old: list[str]
    young: list[str]
    others: list[str]


def by_name(entry: str, names: Iterable[str], rules: Rules) -> ByName:
    """`names` in the folder `entry` by the slots in them; what is held, and what bears no slot, is among the others."""
    sorted_out = ByName([], [], [])
    add_old, add_young, add_other = sorted_out.old.append, sorted_out.young.append, sorted_out.others.append
    live, match, failed = rules.live, _NAME.fullmatch, _failed_run(entry, rules)
    oldest, newest = rules.oldest, _stamp_at(rules.now + _AHEAD)
    next_minute = _stamp_at(rules.now - rules.keep + 60)[: -len("00")]
    for name in names:  # names that begin with a slot sort by it, but for the minute that the limit falls into
        named = match(name)
        if named is None or named["job"] in live or named["run"] == failed:
            add_other(name)
        elif name < oldest:
            add_old(name)
        elif next_minute <= name < newest:
            add_young(name)
        else:
            add_other(name)
    return sorted_out


def judge(entry: str, files: Sequence[LogFile], rules: Rules) -> tuple[list[Judged], list[Judged]]:
    """`files` of one folder (`entry` "": those in log/ itself) by age and count: what stays, what goes."""
    keep: list[Judged] = []
    remove: list[Judged] = []
    within: list[tuple[str, LogFile]] = []
    oldest, newest = rules.oldest, _stamp_at(rules.now + _AHEAD)
    failed = _failed_run(entry, rules)
    for file in files:
        name = file.name
        named = _NAME.fullmatch(name)
        held = _held(name, named, rules.live, failed)
        stamp = _stamp(file, named, newest)
        if held is not None:
            keep.append((file, held))
        elif stamp < oldest:
            remove.append((file, Why.OLD))
        else:
            within.append((stamp, file))
    spent = sum(file.own for file, _ in keep)
    many = _too_many(within, rules.files - spent) if entry else frozenset()
    for _, file in within:
        if file.path in many:
            remove.append((file, Why.MANY))
        else:
            keep.append((file, Why.WITHIN))
    return keep, remove


def _failed_run(entry: str, rules: Rules) -> str:
    """What tells the files of the entry's newest failed run: the run's part of their names, or the whole name."""
    name = rules.failed.get(entry, "").rpartition("/")[2]
    named = _NAME.fullmatch(name)
    return named["run"] if named else name


def _held(name: str, named: re.Match[str] | None, live: frozenset[str], failed: str) -> Why | None:
    if named is not None:
        if named["job"] in live:
            return Why.RUN
        return Why.FAILED if named["run"] == failed else None
    if not live.isdisjoint(_NUMBERS.findall(name)):  # slurm-4711.out, train.4711.err: any number may be the job's
        return Why.RUN
    return Why.FAILED if name == failed else None


def _stamp(file: LogFile, named: re.Match[str] | None, newest: str) -> str:
    """When the log is from, to the second, as a text that sorts; a slot that is still to come is not believed."""
    if named is not None:
        stamp = named["minute"] + (named["second"] or "00")
        if stamp <= newest:
            return stamp
    return _stamp_at(file.modified)


def _stamp_at(instant: int) -> str:
    return datetime.fromtimestamp(min(max(instant, 0), _LAST), UTC).strftime(_STAMP)


def _too_many(within: Sequence[tuple[str, LogFile]], room: int) -> frozenset[str]:
    """Paths of what has no room, oldest runs first. The newest run stays.

    A run goes as a whole: an array has many files, and half of them explain nothing. Only the owner's own files with no
    second name count: what others put there pushes nothing out.
    """
    counted = [(stamp, file) for stamp, file in within if file.own]
    if len(counted) <= room:
        return frozenset()
    runs: dict[tuple[str, int, str], list[LogFile]] = {}
    for stamp, file in counted:
        named = _NAME.fullmatch(file.name)
        run = (stamp, int(named["job"]), "") if named else (stamp, 0, file.path)
        runs.setdefault(run, []).append(file)
    gone: list[str] = []
    used = 0
    for number, run in enumerate(sorted(runs, reverse=True)):
        used += len(runs[run])
        if used > room and number:
            gone += (file.path for file in runs[run])
    return frozenset(gone)


# --- all folders ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Use:
    """What the kept logs of one folder take: in all, and of that what nothing may remove. Bytes."""

    size: int
    held: int


def use_of(keep: Iterable[Judged]) -> Use:
    """What kept logs take."""
    rows = [(file.size, why is Why.WITHIN) for file, why in keep]
    return Use(sum(size for size, _ in rows), sum(size for size, within in rows if not within))


def share(uses: Iterable[Use], total: int) -> int | None:
    """The most that one folder may take where all together take more than `total`; None where they do not.

    So the folders that take most give first, and an entry that prints without end pushes no other's logs out.
    """
    uses = list(uses)
    if sum(use.size for use in uses) <= total:
        return None
    sizes = range(max(use.size for use in uses))  # the largest that fits is among them, or nothing does
    fit = bisect_right(sizes, total, key=lambda most: sum(max(use.held, min(use.size, most)) for use in uses))
    return max(fit - 1, 0)


def cut(keep: Sequence[Judged], most: int, now: int) -> tuple[list[Judged], list[Judged]]:
    """Kept logs of one folder that take more than `most` bytes: what stays of them, and what goes, oldest first."""
    newest = _stamp_at(now + _AHEAD)
    by_age = sorted(keep, key=lambda row: _stamp(row[0], _NAME.fullmatch(row[0].name), newest))
    excess = sum(file.size for file, _ in keep) - most
    stays: list[Judged] = []
    goes: list[Judged] = []
    for file, why in by_age:
        if excess > 0 and why is Why.WITHIN and file.size:
            goes.append((file, Why.LARGE))
            excess -= file.size
        else:
            stays.append((file, why))
    return stays, goes
