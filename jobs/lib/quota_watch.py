"""quota-watch: how full folders are, in space and in inodes, by the quota tools or by df. Nothing is walked."""

from __future__ import annotations

import getpass
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import alerts
import shelf
from alerts import Alert
from shelf import Broken, Settings

_SLACK = 1800  # a run comes some minutes early or late
_CALM = 2  # points below a threshold before its level is left, so that a value on the edge is told once


@dataclass(frozen=True)
class Usage:
    """How much of one thing is used: `what` is "space" (bytes) or "inodes"; `limit` as for `used`, above 0."""

    place: str
    what: str
    used: int
    limit: int
    by: str

    @property
    def key(self) -> str:
        """What it is remembered by."""
        return f"{self.place} {self.what}"

    @property
    def percent(self) -> float:
        """Of the limit."""
        return 100 * self.used / self.limit

    def __str__(self) -> str:
        numbers = (self.used, self.limit)
        used, limit = map(shelf.size, numbers) if self.what == "space" else (f"{n:,}" for n in numbers)
        return f"{self.place}: {self.what} {self.percent:.0f} % full ({used} of {limit}, {self.by})"


# --- what the tools print ------------------------------------------------------------------------------------------


def parse_df(text: str) -> list[Usage]:
    """Of `df -B1 --output=target,used,avail,iused,iavail`: percent as df reckons it, what is reserved left out."""
    rows = []
    for line in text.splitlines()[1:]:
        place, *numbers = line.rsplit(None, 4)
        for what, *counts in (("space", *numbers[:2]), ("inodes", *numbers[2:])):
            if len(numbers) == 4 and all(map(str.isdecimal, counts)):  # noqa: PLR2004 - "-": it does not tell them
                used, free = map(int, counts)
                rows += [Usage(place.strip(), what, used, used + free, "df")] if used + free else []
    return rows


def parse_quota(text: str) -> list[Usage]:
    """Of `quota -w -p` (mount point, 1 KiB blocks, soft, hard, grace, files, soft, hard, grace) and `lfs quota -q`."""
    rows = []
    for place, *words in filter(None, map(str.split, text.splitlines())):
        if place.startswith("/") and len(words) == 8:  # noqa: PLR2004 - the columns of both tools
            numbers = [word.rstrip("*") for word in words]
            rows += _limited(place, "space", numbers[:3], 1024) + _limited(place, "inodes", numbers[4:7], 1)
    return rows


def _limited(place: str, what: str, numbers: Sequence[str], unit: int) -> list[Usage]:
    """Past the soft limit the days are counted, so that is the one that matters where there is one."""
    if not all(number.isdecimal() for number in numbers):
        return []
    used, soft, hard = (int(number) * unit for number in numbers)
    limit = soft or hard
    return [Usage(place, what, used, limit, "quota")] if limit else []


# --- asking them ---------------------------------------------------------------------------------------------------


def usage_of(path: str, tool: str) -> list[Usage]:
    """What the tools say of the file system that `path` is on. Raises Broken."""
    seen = _df(path)
    mount = seen[0].place if seen else path
    if limits := list(_quotas(mount, tool)) if tool != "df" else []:
        return limits
    if tool == "quota":
        raise Broken(f"{path}: there is no quota on {mount}. Write TOOL=df")
    if not seen:
        raise Broken(f"{path}: its file system has no limits that df knows")
    return seen


def _df(path: str) -> list[Usage]:
    answer = shelf.ask(["df", "-B1", "--output=target,used,avail,iused,iavail", "--", path], timeout=60)
    if answer.code:
        raise Broken(f"{path}: {answer.said}")
    return parse_df(answer.out)


def _quotas(mount: str, tool: str) -> Iterator[Usage]:
    """Of user and groups on one mount point; it exits 1 where a quota is exceeded, so its words count."""
    if tool == "auto" and shutil.which("lfs"):
        answer = shelf.ask(["lfs", "quota", "-q", "-u", getpass.getuser(), mount])
        yield from (row for row in parse_quota(_unfolded(answer.out)) if row.place == mount)
    if tool == "quota" or shutil.which("quota"):
        answer = shelf.ask(["quota", "-w", "-p", "-u", "-g", "--show-mntpoint", "--hide-device"])
        yield from (row for row in parse_quota(answer.out) if row.place == mount)


def _unfolded(text: str) -> str:
    """`lfs quota` puts a long mount point on a line of its own."""
    lines = text.splitlines()
    return " ".join(lines) if lines and len(lines[0].split()) == 1 else text


# --- what it means -------------------------------------------------------------------------------------------------


def judge(rows: Iterable[Usage], warn: float, alert: float, before: dict[str, str]) -> list[Alert]:
    """The rows that are too full. `before` has the level that stands of a key: it is left `_CALM` points lower."""
    found = []
    for row in rows:
        stands = before.get(row.key)
        if row.percent >= alert - (_CALM if stands == "alert" else 0):
            found.append(Alert(row.key, str(row), "alert"))
        elif row.percent >= warn - (_CALM if stands in {"alert", "warn"} else 0):
            found.append(Alert(row.key, str(row), "warn"))
    return found


def main(settings: Settings) -> int:
    """Ask, judge, tell."""
    warn, alert = float(settings.text("WARN")), float(settings.text("ALERT"))
    if not 0 < warn <= alert:
        raise Broken(f"WARN={warn:g} is above ALERT={alert:g}: swap them")
    known: dict[tuple[str, str, str], Usage] = {}  # of each file system once
    problems = []
    for path in settings.array("PATHS"):
        try:
            known.update({(row.place, row.what, row.by): row for row in usage_of(path, settings.text("TOOL"))})
        except Broken as error:
            problems.append(str(error))
    rows = list(known.values())
    for line in (*rows, *(f"unknown: {problem}" for problem in problems)):
        print(line)
    told = alerts.remembered(settings)
    wrong = judge(rows, warn, alert, {key: row.level for key, row in told.items()})
    unknown = frozenset(told) if problems else frozenset()
    fine = {row.key: str(row) for row in rows}
    code = alerts.tell(settings, wrong, unknown, now=shelf.seconds_now(), again=shelf.DAY - _SLACK, fine=fine)
    return shelf.BROKEN if problems and code == shelf.FINE else code


if __name__ == "__main__":
    shelf.run(main)
