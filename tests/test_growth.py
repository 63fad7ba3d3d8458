"""A tick's work grows with the number of entries, and no faster: four times as many, four times as many calls."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from cronhpc.batch.local import Local
from cronhpc.batch.port import Ends
from cronhpc.core.model import Done, Queue
from cronhpc.engine import init
from cronhpc.engine.site import open_site
from cronhpc.tick import tick

if TYPE_CHECKING:
    from cronhpc.engine.site import Site

PACKAGE = str(Path(tick.__code__.co_filename).parent)
NOW = (int(time.time()) // 1800 + 2) * 1800 + 5  # noqa: TID251 - a slot to come: files have this machine's time
FEW, TIMES = 12, 4
TICKS = (  # what is seen of the jobs, and what is decided for each of them
    ("all are due", "PENDING", "Submit"),
    ("the queue shows none of them", "", "Wait"),
    ("all have failed", "FAILED", "Finish"),
    ("all are tried again", "FAILED", "Submit"),
)
SMALL = 30  # calls: what happens less often is no matter
LISTDIR, SCANDIR = os.listdir, os.scandir


class Cluster:
    """The local backend, whose jobs wait until `state` says otherwise; "": the queue shows none of them."""

    name = "local"

    def __init__(self, local: Local) -> None:
        self.local, self.state = local, "PENDING"

    def __getattr__(self, name: str) -> object:
        return getattr(self.local, name)

    def queue(self) -> Queue:
        jobs = self.local.queue().jobs
        return Queue(tuple(replace(job, state=self.state) for job in jobs) if self.state else ())

    def job_ends(self, *_: object) -> Ends:
        return Ends()


class Listed(list[os.DirEntry[str]]):
    """What a scan of a folder gives, by name."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""


def in_order(patch: pytest.MonkeyPatch) -> None:
    """Each folder is listed by name: how often sorting compares would hang on the file system's own order."""

    def scanned(folder: Any = ".") -> Listed:
        with SCANDIR(folder) as rows:
            return Listed(sorted(rows, key=lambda each: each.name))

    patch.setattr(os, "listdir", lambda folder=".": sorted(LISTDIR(folder)))
    patch.setattr(os, "scandir", scanned)


def site_of(root: Path, entries: int) -> tuple[Site, Cluster]:
    """A directory with so many entries, all due at once."""
    init.init(root, {})
    row = f'{{schedule: "{NOW // 60 % 60} {NOW // 3600 % 24} * * *", command: "true", retries: 1}}'
    lines = [f"  e{number:03}: {row}" for number in range(entries)]
    (root / "cronhpc.yaml").write_text("\n".join(["backend: local", "timezone: UTC", "entries:", *lines, ""]))
    made = open_site(str(root), "local", {"HOME": str(root.parent)})
    tick(made, NOW - 1200)  # entries count from their file's time on
    cluster = Cluster(made.batch)  # type: ignore[arg-type]  # it is the local one
    return replace(made, batch=cluster), cluster  # type: ignore[arg-type]  # as strict as is needed


def counted(root: Path, entries: int) -> tuple[dict[str, Counter[str]], Counter[str]]:
    """By tick, how often each function of ours was called; and how often each listed the claims."""
    site, cluster = site_of(root, entries)
    calls: dict[str, Counter[str]] = {}
    listed: Counter[str] = Counter()
    now = ""

    def note(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            calls[now][f"{code.co_filename[len(PACKAGE) + 1 :]}:{code.co_qualname}"] += 1
        elif event == "c_call" and argument is LISTDIR:
            listed[now] += 1

    for at, (now, cluster.state, decision) in enumerate(TICKS):
        calls[now] = Counter()
        sys.setprofile(note)
        try:
            report = tick(site, NOW + 130 * at)
        finally:
            sys.setprofile(None)
        done = [type(each.decision).__name__ for each in report.outcomes if each.done is Done.OK]
        assert done.count(decision) == entries, (now, Counter(done))
    return calls, listed


@pytest.mark.thorough
def test_four_times_as_many_entries_are_four_times_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the claims are listed as often as for few."""
    monkeypatch.setattr(Local, "_supervise", lambda *_: None)
    in_order(monkeypatch)
    few, listed_for_few = counted(tmp_path / "few", FEW)
    many, listed_for_many = counted(tmp_path / "many", FEW * TIMES)
    faster = {
        f"{when}: {name}": (few[when][name], number)
        for when, calls in many.items()
        for name, number in calls.items()
        if number > SMALL * TIMES and number > few[when][name] * TIMES * 1.1
    }
    assert faster == {}
    assert all(number < listed_for_few[when] + FEW for when, number in listed_for_many.items())
