"""Names are one namespace: of two files with one name the newcomer is refused, wherever the folders sort."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cronhpc.core.model import Entry
from cronhpc.store.entries import Scan, by_name
from tests.cli.test_cli import Shell, later
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture


def entry(source: str, born: int) -> Entry:
    return Entry("backup", source, "/x", "@daily", "UTC", "", born=born)


DAILY, WEEKLY, ROW = entry("cron.daily/backup.slurm", 200), entry("cron.weekly/backup.slurm", 100), "cronhpc.yaml"
WHOSE = [
    pytest.param("", [DAILY, WEEKLY], WEEKLY, id="nobody knows: the older file"),
    pytest.param("", [WEEKLY, DAILY], WEEKLY, id="nobody knows: the older file, seen first"),
    pytest.param("", [DAILY, entry("cron.d/backup.slurm", 200)], DAILY, id="equally old: the first folder"),
    pytest.param(DAILY.source, [DAILY, WEEKLY], DAILY, id="known, and edited since"),
    pytest.param(DAILY.source, [WEEKLY, DAILY], DAILY, id="known, and seen last"),
    pytest.param("cron.hourly/backup.slurm", [DAILY, WEEKLY], WEEKLY, id="known from a file that is gone"),
    pytest.param(ROW, [WEEKLY, entry("cronhpc.yaml:9", 300)], entry("cronhpc.yaml:9", 300), id="a row that moved"),
]


@pytest.mark.parametrize(("known", "added", "whose"), WHOSE)
def test_whose_a_name_is(tmp_path: Path, known: str, added: list[Entry], whose: Entry) -> None:
    memory = tmp_path / "entries.json"
    if known:
        memory.write_text(f'{{"version":1,"entries":{{"backup":{{"source":"{known}"}}}},"meta":{{}}}}')
    named, [problem] = by_name(added, memory)
    assert named == {"backup": whose}
    assert (problem.code, problem.file) == ("E301", next(each.source for each in added if each != whose))
    assert f"{whose.source} had the name first" in problem.what


def test_of_three_each_newcomer_is_told_who_was_first(tmp_path: Path) -> None:
    _, refused = by_name((DAILY, entry("cron.d/backup.slurm", 150), WEEKLY), tmp_path / "entries.json")
    told = {problem.file: problem.what for problem in refused}
    assert set(told) == {DAILY.source, "cron.d/backup.slurm"}
    assert [f"{WEEKLY.source} had the name first" in what for what in told.values()] == [True, True]


@pytest.mark.processes
def test_a_newcomer_neither_runs_nor_takes_over_what_is_known(shell: Shell) -> None:
    """cron.daily is looked at before cron.weekly: the newcomer was taken for the entry, history and all."""
    now = later()
    first = shell.drop("cron.weekly/backup.slurm", "echo first")
    shell("tick", now=now)
    time.sleep(1.1)  # a ctime is what tells them apart where nothing is remembered
    shell.drop("cron.daily/backup.slurm", "echo second")
    first.write_text("#!/bin/bash\necho edited\n")
    os.utime(first)
    known = shell("status", "--json", now=now + 20).json
    assert [each["source"] for each in known["entries"]] == ["cron.weekly/backup.slurm"]
    assert [each["name"] for each in known["attention"]] == ["cron.daily/backup.slurm"]
    said = shell("check", now=now + 20)
    assert "cron.daily/backup.slurm: E301" in said.out
    first.unlink()
    (shell.cron / "state" / "cache.json").unlink()
    known = shell("status", "--json", now=now + 20).json
    assert [each["source"] for each in known["entries"]] == ["cron.daily/backup.slurm"]


MOVES = {
    "to another folder": ("cron.weekly/fit.slurm", ["cron.weekly/fit.slurm"]),
    "to another name": ("cron.d/fat.slurm", ["cron.d/fat.slurm"]),
    "away": ("fit.txt", []),
}


@pytest.mark.parametrize(("to", "sources"), MOVES.values(), ids=MOVES)
def test_a_file_that_was_moved_or_removed_is_so_at_once(shell: Shell, to: str, sources: list[str]) -> None:
    """The one that had gone was "not seen just now", and the moved one a second entry of its name, until two ticks."""
    now = later()
    file = shell.drop("cron.d/fit.slurm", "#CRON 7 * * * *\n")
    shell("tick", now=now)
    file.rename(shell.cron / to)
    known = shell("status", "--json", now=now + 20).json
    assert ([each["source"] for each in known["entries"]], known["attention"]) == (sources, [])
    assert "E3" not in shell("check", now=now + 20).out


def test_a_file_that_a_listing_has_missed_is_there_still(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    now = later()
    shell.drop("cron.d/fit.slurm", "#CRON 7 * * * *\n")
    shell("tick", now=now)
    monkeypatch.setattr("cronhpc.engine.read_entries.scan", lambda *_: Scan())
    known = shell("status", "--json", now=now + 20).json
    assert [each["problem"]["code"] for each in known["entries"]] == ["E311"]
