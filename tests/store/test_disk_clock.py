"""A disk whose clock is not this machine's, or tells whole seconds only: ages are what they are."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cronhpc.core.model import Call, Done, Obstacle, Settings, SwitchKind
from cronhpc.cron.values import replace
from cronhpc.engine.read import read_world
from cronhpc.engine.site import by_its_disks_clock, open_site, reckoned
from cronhpc.store import entries, files, switches
from cronhpc.store.files import DiskClock, disk_clock
from cronhpc.tick import Report, tick
from tests.cli.test_cli import Shell, later
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture

_stamping = time.time  # noqa: TID251 - the clock by which the disk's files are stamped


def real() -> int:
    return int(_stamping())


@pytest.fixture
def off(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    """This machine's clock is so many seconds behind the one that stamps files; a negative number: before it."""
    seconds: int = request.param
    monkeypatch.setattr("cronhpc.store.files.time.time", lambda: _stamping() - seconds)
    return seconds


@pytest.mark.parametrize("off", [90, -90, 3600], indirect=True)
def test_by_how_much_the_disks_clock_is_ahead_is_told_by_a_file_just_made(tmp_path: Path, off: int) -> None:
    found = disk_clock(tmp_path)
    assert abs(found.ahead - off) <= 2
    assert found.device == tmp_path.stat().st_dev
    assert list(tmp_path.iterdir()) == []


def test_clocks_that_agree_differ_by_nothing(tmp_path: Path) -> None:
    assert disk_clock(tmp_path).ahead == 0


@pytest.mark.parametrize(("ahead", "used", "told"), [(0, 0, 0), (20, 20, 0), (90, 90, 1), (-90, -90, 1), (900, 0, 1)])
def test_a_clock_that_is_minutes_off_is_told_and_one_that_is_far_off_is_not_counted_by(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, ahead: int, used: int, told: int
) -> None:
    site = open_site(str(shell.cron), None, shell.environ)
    monkeypatch.setattr("cronhpc.engine.site.disk_clock", lambda _: DiskClock(ahead, 7))
    looked = by_its_disks_clock(site, real())
    assert looked.disk_clock == DiskClock(used, 7)
    assert [each.code for each in looked.problems] == ["W362"] * told


@pytest.mark.parametrize(
    ("fits", "ahead", "doubt", "verified", "used", "told"),
    [
        pytest.param(True, 9000, False, False, 0, [], id="it fits the last tick: nobody is asked"),
        pytest.param(False, 1800, False, True, 0, [], id="it does not: half an hour is no matter"),
        pytest.param(False, 1801, False, True, 1801, ["W360"], id="it does not: more than that is"),
        pytest.param(True, 60, True, True, 0, [], id="doubted: Slurm is asked, and a minute is no matter"),
        pytest.param(True, 61, True, True, 61, ["W360"], id="doubted: more than that is"),
    ],
)
def test_the_batch_systems_clock_is_asked_for(  # noqa: PLR0917 - a table's columns
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    fits: bool,  # noqa: FBT001 - a table's column
    ahead: int,
    doubt: bool,  # noqa: FBT001 - as above
    verified: bool,  # noqa: FBT001 - as above
    used: int,
    told: list[str],
) -> None:
    now = real()
    batch: Any = SimpleNamespace(clock=lambda: now + ahead)
    site = replace(open_site(str(shell.cron), None, shell.environ), batch=batch)
    monkeypatch.setattr("cronhpc.engine.site.expected", lambda _: (now - 60, now + 3600) if fits else None)
    looked, counted = reckoned(site, now, doubt=doubt)
    assert (looked.clock_verified, counted - now) == (verified, used)
    assert [each.code for each in looked.problems] == told


def test_where_slurm_has_corrected_this_machines_clock_files_are_dated_rightly_already(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = open_site(str(shell.cron), None, shell.environ)
    monkeypatch.setattr(
        "cronhpc.engine.site.disk_clock", lambda _: DiskClock(-200, 7)
    )  # the machine is 200 s ahead of all
    looked = by_its_disks_clock(replace(site, clock_verified=True), real() - 200)
    assert looked.disk_clock is not None
    assert abs(looked.disk_clock.ahead) <= 2


def test_a_script_is_as_old_as_its_disk_says(tmp_path: Path) -> None:
    (tmp_path / "cron.d").mkdir()
    script = tmp_path / "cron.d" / "a.slurm"
    script.touch()
    born = int(script.stat().st_ctime)
    for clock, shift in ((DiskClock(90, script.stat().st_dev), 90), (DiskClock(90, -1), 0), (DiskClock(), 0)):
        (found,) = entries.scan(tmp_path, "cron.d", clock).scripts
        assert (found.born, found.changed) == (born - shift, born - shift)


@pytest.mark.parametrize("ahead", [90, -90])
def test_a_switch_stands_as_long_as_it_says_and_blames_nobodys_clock(tmp_path: Path, ahead: int) -> None:
    folder = tmp_path / "kill"
    folder.mkdir()
    (folder / "x").write_text("expires: 2m\n")
    now = real()
    os.utime(folder / "x", (now + ahead, now + ahead))  # just made, by that clock
    found = switches.scan([(SwitchKind.KILL, folder)], [], now, None, DiskClock(ahead, folder.stat().st_dev))
    assert [(each.since, each.expires) for each in found.listed] == [(now, now + 120)]
    assert found.problems == ()


@pytest.mark.parametrize("off", [90, -90], indirect=True)
def test_a_half_written_script_waits_though_the_disks_clock_is_off(shell: Shell, off: int) -> None:
    shell.drop("cron.d/a.slurm", "#CRON * * * * *")
    now = real() - off
    looked = read_world(by_its_disks_clock(open_site(str(shell.cron), None, shell.environ), now), now)
    (entry,) = looked.world.entries
    assert entry.fresh
    assert abs(entry.born - now) <= 3
    assert "W362" in {each.code for each in looked.problems}
    shell("tick", now=now)
    later = read_world(open_site(str(shell.cron), None, shell.environ), now)  # who only looks goes by what a tick noted
    assert abs(later.memory.scheduler.disk_ahead - off) <= 2
    assert later.world.entries[0].fresh


def test_an_edit_within_the_second_of_a_tick_is_seen_where_the_disk_tells_whole_seconds(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def coarse(*found: os.stat_result) -> list[int]:
        return [int(value) for each in found for value in (each.st_mtime, each.st_ctime, each.st_size, each.st_ino)]

    monkeypatch.setattr("cronhpc.store.entries.fingerprint", coarse)
    script = shell.cron / "cron.d" / "a.slurm"
    for minute in (10, 20, 30):
        script.write_text(f"#!/bin/bash\n#CRON {minute} 4 * * *\ntrue\n", encoding="utf-8")
        shell("tick", now=real())
    later = real() + 30
    shell("tick", now=later)
    (entry,) = json.loads(shell("status", "--json", now=later).out)["entries"]
    assert entry["schedule"] == "30 4 * * *"


@pytest.mark.processes
def test_two_runs_of_one_second_have_keys_of_their_own(shell: Shell) -> None:
    """The first has ended, and its claim is gone, before the second is asked for."""
    shell.drop("cron.d/a.slurm", "#CRON 0 0 1 1 *")
    now = real() + 60
    site = open_site(str(shell.cron), None, shell.environ)
    first = tick(site, now, Call(only="a"))
    assert isinstance(first, Report)
    assert first.outcomes[0].done is Done.OK
    for _ in range(200):
        tick(open_site(str(shell.cron), None, shell.environ), now)
        if not list((shell.cron / "state" / "claims").iterdir()):
            break
        time.sleep(0.05)
    second = tick(open_site(str(shell.cron), None, shell.environ), now, Call(only="a"))
    assert isinstance(second, Report)
    assert [(each.done, each.obstacle) for each in second.outcomes] == [(Done.REFUSED, Obstacle.TAKEN)]
    third = tick(open_site(str(shell.cron), None, shell.environ), now + 1, Call(only="a"))
    assert isinstance(third, Report)
    assert third.outcomes[0].done is Done.OK


@pytest.mark.thorough
def test_a_script_larger_than_slurm_takes_is_refused_and_not_copied(shell: Shell) -> None:
    script = shell.drop("cron.d/big.slurm", "#CRON 0 0 1 1 *")
    with script.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(b"# data\n" * 700_000)
    said = shell("run", "big", now=real() + 60)
    assert said.code == 1
    assert "exceeds size limit" in said.err
    assert not any(path.stat().st_size > 10**6 for path in (shell.cron / "state").rglob("*"))


@pytest.mark.processes
@pytest.mark.parametrize("name", ["-rf", "--all", "a\x1b[31mb", "a\nb"])
def test_the_advice_for_a_switch_of_any_name_can_be_pasted(shell: Shell, name: str) -> None:
    (shell.cron / "pause" / name).touch()
    shown = shell("status").out
    assert "\x1b" not in shown
    advice = next(line for line in shown.splitlines() if "cronhpc resume" in line)
    words = [os.fsdecode(each) for each in _pasted(advice[advice.index("cronhpc resume") :])]
    assert words[:2] == ["cronhpc", "resume"]
    said = shell(*words[1:])
    assert said.code == 0, said.err
    assert list((shell.cron / "pause").iterdir()) == []


def _pasted(line: str) -> list[bytes]:
    import subprocess  # noqa: TID251 - a shell is what reads it

    shown = subprocess.run(["bash", "-c", f'printf "%s\\0" {line}'], capture_output=True, check=True)
    return shown.stdout.split(b"\0")[:-1]


def test_nothing_of_it_is_waited_for(waited: list[float], tmp_path: Path) -> None:
    files.replace_file(tmp_path / "a", b"x")
    assert waited == []


def test_settings_that_are_edited_while_a_tick_reads_them_count_from_the_next_look_on(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tick's cache would else hold the old ones under the new file's size and time, until the next edit."""
    from cronhpc.store import settings

    file, read = shell.cron / "cronhpc.yaml", settings.read_settings
    file.write_text("backend: local\nlogs: {keep: 8d}\n", encoding="utf-8")

    def read_just_before_an_edit(path: Path) -> Settings:
        found = read(path)
        file.write_text("backend: local\nlogs: {keep: 9d}\n", encoding="utf-8")
        return found

    monkeypatch.setattr(settings, "read_settings", read_just_before_an_edit)
    tick(open_site(str(shell.cron), None, shell.environ), later())
    assert open_site(str(shell.cron), None, shell.environ).settings.logs_keep == 9 * 86400


@pytest.mark.processes
def test_without_slurm_a_clock_that_jumps_ten_years_ahead_of_the_disks_catches_up_with_nothing(shell: Shell) -> None:
    far = (real() // 60 + 30) % 60  # no slot comes while this test runs
    shell.drop("cron.d/a.slurm", f"#CRON {far} * * * * --catch-up=all\ntrue")
    shell("tick", now=later())
    jumped = shell("tick", now=later() + 3653 * 86400)
    assert "W360" in jumped.out
    assert "days ahead of the file system's, which is used" in jumped.out
    assert '"reason": "submit"' not in jumped.out
    assert "W360" not in shell("tick", now=later() + 1).out
    after = shell("tick", now=later() + 3600)
    assert after.out.count('"reason": "submit"') == 1, "its slots have not been used up"


def test_a_year_of_silence_is_none_where_the_disk_says_the_same(shell: Shell) -> None:
    """As after a long outage; so it is, too, with a disk that has this machine's own clock."""
    shell("tick", now=later() - 800 * 86400)
    assert "W360" not in shell("tick", now=later()).out
