"""An upgrade keeps state/: each format that was ever written is read, as it lies in tests/data; a newer one is refused.

A change of format adds a folder there, and a row to VERSIONS: it is never written anew.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cronhpc.core.model import ClaimState, Job, Key, Queue, Result, Rules, Skip, StateError, Submit
from cronhpc.core.plan import plan
from cronhpc.engine import init
from cronhpc.engine.read import read_world
from cronhpc.engine.site import Site, open_site
from cronhpc.script.dialect import SLURM
from cronhpc.store import history, memory, series_records
from cronhpc.store.memory import Cache
from cronhpc.store.wrappers import end_of, forget_ends
from tests.cli.test_cli import Shell, later
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture

DATA = Path(__file__).parents[1] / "data"
VERSIONS = [1]
NOW = 1795831980  # 2026-11-28 02:13 UTC: its last tick was two minutes ago
SCRIPT = "#!/bin/bash\n#CRON */5 * * * * --suspend-after=3\ntrue\n"
RUNNING = Job("11", "RUNNING", "backup.slurm", "cronhpc=cc72a7/backup@20261128T0210Z.1")
VERSIONED = ["entries.json", "environment.json", "logs.json", "trains/train.json"]


class OneJob:
    """The queue of that moment; anything else that is asked fails the test."""

    dialect = SLURM

    def queue(self) -> Queue:
        return Queue((RUNNING,))


@pytest.fixture(params=VERSIONS)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = tmp_path / "cron"
    init.init(made, {"backend": "local"})
    shutil.rmtree(made / "state")
    shutil.copytree(DATA / f"state-v{request.param}", made / "state", copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(made / "state"):
        Path(folder).chmod(0o700)
    shutil.copyfile(made / "state" / "id", made / "scheduler" / "id")
    for name in ("backup", "sync"):
        (made / "cron.d" / f"{name}.slurm").write_text(SCRIPT, encoding="utf-8")
        (made / "cron.d" / f"{name}.slurm").chmod(0o644)
    return made


def opened(root: Path) -> Site:
    site = open_site(str(root), None, {"PATH": "/usr/bin:/bin", "HOME": "/home/alice", "TZ": "UTC"})
    return replace(site, batch=OneJob())  # type: ignore[arg-type]  # no more than is asked here


def test_what_was_remembered_is_known(root: Path) -> None:
    reading = read_world(opened(root), NOW)
    world = reading.world
    assert world.directory_id == "cc72a7"
    assert {name: state.watermark for name, state in world.states.items()} == dict.fromkeys(
        ("backup", "sync"), 1795831800
    )
    assert (world.states["sync"].suspended, world.states["sync"].failures) == (1795830962, 4)
    assert (world.states["backup"].successes, world.kept.last_tick) == (6, 1795831862)
    assert reading.memory.scheduler.alerts.keys() == {"suspended sync"}


def test_no_slot_that_ran_runs_again(root: Path) -> None:
    decisions = plan(read_world(opened(root), NOW).world).decisions
    assert not [each for each in decisions if isinstance(each, Submit)]
    assert not [each for each in decisions if isinstance(each, Skip)]


def test_attempts_stand_where_they_stood(root: Path) -> None:
    claims = {claim.key: claim for claim in read_world(opened(root), NOW).world.claims}
    assert {str(key): claim.state for key, claim in claims.items()} == {
        "backup@20261128T0205Z.1": ClaimState.FINISHED,
        "backup@20261128T0210Z.1": ClaimState.RELEASED,
        "sync@20261128T0155Z.1": ClaimState.FINISHED,
    }
    assert claims[Key("backup", 1795831800)].job_id == "11"


def test_a_series_of_an_earlier_version_goes_on(root: Path) -> None:
    (series,) = read_world(opened(root), NOW).world.series
    assert (series.entry.name, series.runs, series.entry.arguments) == (
        "train",
        2,
        ("/home/alice/train.slurm", "--seed", "1"),
    )
    known = series_records.load(root / "state", "train")
    assert known is not None
    assert (known.next_slot, known.ran) == (1795831900, (("900", "ok", 1795820000, 1795825000),))
    assert known.rules == Rules(after=True, max_runs=20)


def test_a_rule_of_a_newer_version_stays_unknown_in_a_record_that_is_saved_again(root: Path) -> None:
    path = root / "state" / "trains" / "train.json"
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**value, "rules": {**value["rules"], "on_holidays": False}}), encoding="utf-8")
    for _ in range(2):
        known = series_records.load(root / "state", "train")
        assert known is not None
        assert (known.unknown_rules, known.rules.after) == (("on_holidays",), True)
        series_records.save(root / "state", known)


def test_the_past_and_the_environment_are_kept(root: Path) -> None:
    rows = list(history.rows(root / "state" / "history"))
    assert [row["result"] for row in rows].count("failed") == 4
    assert opened(root).environment == {"PATH": "/usr/bin:/bin", "HOME": "/home/alice", "LANG": "C.UTF-8"}
    end = end_of(root / "state", Key("backup", 1795831200))
    assert end is not None
    assert (end.result, end.node) == (Result.OK, "cpu1")


def test_settings_that_an_older_version_parsed_are_parsed_again(root: Path) -> None:
    assert opened(root).cache.changed
    assert "settings" in opened(root).cache.known


def newer(path: Path) -> None:
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**value, "version": 99}), encoding="utf-8")


@pytest.mark.parametrize("name", ["entries.json", "environment.json"])
def test_state_of_a_newer_cronhpc_is_refused_and_left_as_it_is(root: Path, name: str) -> None:
    path = root / "state" / name
    newer(path)
    before = path.read_bytes()
    with pytest.raises(StateError) as error:
        read_world(opened(root), NOW)
    assert str(error.value) == (
        f"{path}: written by a newer cronhpc (format 99, this one knows 1). "
        "Use that version, or move the state/ folder away to start afresh."
    )
    assert path.read_bytes() == before


def test_a_newer_record_of_a_train_is_refused(root: Path) -> None:
    newer(root / "state" / "trains" / "train.json")
    with pytest.raises(StateError, match="format 99"):
        series_records.load(root / "state", "train")


def test_a_newer_cache_is_made_anew(root: Path) -> None:
    newer(root / "state" / "cache.json")
    assert Cache(root / "state").known == {}
    assert read_world(opened(root), NOW).world.entries


@pytest.mark.parametrize("name", VERSIONED)
@pytest.mark.parametrize("left", [0, 20])
def test_a_file_that_was_cut_off_is_as_none_and_nothing_runs_twice(root: Path, name: str, left: int) -> None:
    path = root / "state" / name
    path.write_bytes(path.read_bytes()[:left])
    ran = {row["key"] for row in history.rows(root / "state" / "history") if row["what"] == "run"}
    ran |= {path.name.removesuffix(".run") for path in (root / "state" / "claims").iterdir()}
    decisions = plan(read_world(opened(root), NOW).world).decisions
    assert not [each for each in decisions if isinstance(each, Submit) and str(each.key) in ran]


def told(shell: Shell, *words: str, now: int) -> str:
    said = shell(*words, now=now)
    return said.out + said.err


@pytest.mark.processes
@pytest.mark.parametrize("content", ["", '{"version":1,"entries":{"a":{"wat', "\0\0\0\0", "[]", '{"version":1}'])
def test_results_that_were_cut_off_are_told_once_and_shown_for_a_day(shell: Shell, content: str) -> None:
    """It was silent: a suspended entry began to run again, and nobody knew why."""
    shell.drop("cron.daily/backup.slurm")
    now = later()
    shell("tick", now=now)
    (shell.cron / "state" / "entries.json").write_text(content)
    assert "W332" not in told(shell, "run", "backup", now=now)  # it makes the file whole, and says nothing
    before = json.loads(told(shell, "status", "--json", now=now))
    assert [row["name"] for row in before["attention"]].count("state/entries.json") == 1
    assert told(shell, "tick", now=now + 60).count("W332") == 1
    assert "W332" not in told(shell, "tick", now=now + 120)
    for at, shown in ((now + 180, 1), (now + 90000, 0)):
        screen = told(shell, "status", now=at)
        assert screen.count("state/entries.json") == shown
        assert screen.count("No slot runs twice") == shown


def test_other_files_that_were_cut_off_are_named_until_someone_acts(shell: Shell) -> None:
    now = later()
    (shell.cron / "state" / "environment.json").write_text("")
    (shell.cron / "state" / "trains").mkdir()
    (shell.cron / "state" / "trains" / "long.json").write_text('{"version":1,"na')
    for _ in range(2):
        said = told(shell, "tick", now=now)
        assert (said.count("W333"), said.count("W341")) == (1, 1)


def test_a_new_directory_has_lost_nothing(shell: Shell) -> None:
    assert "forgotten" not in told(shell, "status", now=later())
    assert "forgotten" not in told(shell, "tick", now=later())


YEAR = 365 * 86400


def ran(shell: Shell, now: int) -> list[str]:
    """A tick at `now`, and more until what it submitted has ended: the results of all rows so far, sorted."""
    said = told(shell, "tick", now=now)
    claims = shell.cron / "state" / "claims"
    until = time.monotonic() + 90
    while any(path.suffix in {".id", ".go", ".run"} for path in claims.iterdir()) and time.monotonic() < until:
        time.sleep(0.05)
        said += told(shell, "tick", now=now)
    assert time.monotonic() < until, said
    return sorted(row["result"] for row in history.rows(shell.cron / "state" / "history"))


@pytest.mark.processes
def test_a_clock_a_year_ahead_leaves_nothing_that_stands_before_what_comes_after_it(shell: Shell) -> None:
    """LAST stayed in the year ahead, and failures were not counted until it had come."""
    shell.drop("cron.hourly/backup.slurm", "exit 1\n")
    now = later() + 3600
    ran(shell, now)
    assert ran(shell, now + YEAR) == [*["failed"] * 2, "missed"]
    assert ran(shell, now + 7200) == [*["failed"] * 2, *["missed"] * 2], "what ran meanwhile is not known"
    assert ran(shell, now + 10800) == [*["failed"] * 3, *["missed"] * 2]
    assert ran(shell, now + 14400) == [*["failed"] * 4, *["missed"] * 2]
    known = memory.load(shell.cron / "state" / "entries.json").entries["backup"]
    assert now + 10800 < int(str(known.last["slot"])) <= now + 14400
    assert known.failures == 4
    assert len(list((shell.cron / "state" / "claims").iterdir())) == 1


@pytest.mark.parametrize(
    ("name", "made", "said"),
    [
        ("claims", Path.touch, "Something that is no folder has that name: move it away"),
        ("entries.json", Path.mkdir, "A folder has that name: move it away"),
    ],
)
def test_what_has_the_name_of_a_state_file_is_said_with_the_fix(
    shell: Shell, name: str, made: Callable[[Path], None], said: str
) -> None:
    path = shell.cron / "state" / name
    path.rename(path.with_name("was")) if path.exists() else None
    made(path)
    for command in ("tick", "status"):
        found = shell(command, now=later())
        assert (found.code, found.err.count(said)) == (2, 1), found.err


@pytest.mark.processes
def test_a_script_whose_disk_is_away_for_long_has_lost_nothing_when_it_is_back(shell: Shell) -> None:
    """Two ticks without it, and its suspension was lifted, and the slot that was due was forgotten."""
    shell.drop("cron.hourly/backup.slurm", "#CRON 0 * * * * --suspend-after=1\nexit 1")
    disk = shell.home / "disk"
    disk.mkdir()
    script = shell.cron / "cron.hourly" / "backup.slurm"
    shutil.move(script, disk / "backup.slurm")
    script.symlink_to(disk / "backup.slurm")
    now = later() + 3600
    assert ran(shell, now) == ["failed"]
    before = memory.load(shell.cron / "state" / "entries.json").entries["backup"]
    assert before.suspended
    disk.rename(shell.home / "away")
    for after in (3600, 7200, 10800):
        said = told(shell, "tick", now=now + after)
        assert "Mount it, or remove the link" in said
    (shell.home / "away").rename(disk)
    told(shell, "tick", now=now + 10860)
    known = memory.load(shell.cron / "state" / "entries.json").entries["backup"]
    assert (known.suspended, known.failures) == (before.suspended, 1)
    script.unlink()
    for after in (10900, 11000):
        told(shell, "tick", now=now + after)
    assert json.loads(told(shell, "status", "--json", now=now + 11100))["entries"] == []


TASKS = {
    "all ended well": ({"0": 0, "1": 0}, 2, "ok"),
    "one failed": ({"0": 0, "1": 3}, 2, "failed"),
    "one failed, and another told nothing": ({"1": 3}, 2, "failed"),
    "one told nothing: it may have been killed": ({"0": 0}, 2, ""),
    "a job that is no array": ({"": 0}, 1, "ok"),
}


@pytest.mark.parametrize(("codes", "tasks", "result"), TASKS.values(), ids=TASKS)
def test_the_end_of_an_array_is_that_of_all_its_tasks(
    tmp_path: Path, codes: dict[str, int], tasks: int, result: str
) -> None:
    key = Key("backup", 1795831200)
    (tmp_path / "ends").mkdir()
    for task, code in codes.items():
        path = tmp_path / "ends" / f"{key}.json{f'.{task}' if task else ''}"
        path.write_text(json.dumps({"exit_code": code, "started": 1, "ended": 2, "node": "cpu1", "tasks": tasks}))
    end = end_of(tmp_path, key)
    assert (end.result if end else "") == result
    forget_ends(tmp_path, [key])
    assert not list((tmp_path / "ends").iterdir())


def test_the_newest_finished_claim_is_known_by_its_name_of_before() -> None:
    known = memory.load(DATA / "state-v1" / "entries.json").entries["backup"]
    assert known.finished == "backup@20261128T0205Z.1"
