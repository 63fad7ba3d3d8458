"""The probe that runs on nodes: several of them at once on one folder, as nodes would."""

from __future__ import annotations

import json
import os
import subprocess  # noqa: TID251 - nodes are other processes
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from cronhpc.inside import probe


@pytest.mark.processes
def test_of_eight_at_once_one_creates_and_one_links_each_of_many_fresh_names(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "cronhpc.inside.probe", str(tmp_path)]
    names = [f"n{i}" for i in range(8)]
    running = [subprocess.Popen([*argv, name, "", "1.5"]) for name in names]
    assert [each.wait(60) for each in running] == [0] * 8
    rows = [json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8")) for name in names]
    assert [row["disk"] for row in rows] == [""] * 8
    tried = Counter(number for row in rows for number in row["tried"])
    for won in ("created", "linked"):
        assert sorted(number for row in rows for number in row[won]) == sorted(tried)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", *(f".{number}" for number in tried)}


def test_what_two_create_within_a_quarter_of_a_second_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O_EXCL that sees a file of another machine only when it is that old, as some caches do."""
    real = os.open

    def late(path: str, flags: int, mode: int = 0o777) -> int:
        young = os.path.exists(path) and time.time() - Path(path).stat().st_mtime < 0.25  # noqa: PTH110, TID251 - as a client sees it
        return real(path, flags & ~os.O_EXCL if young else flags, mode)

    monkeypatch.setattr("cronhpc.inside.probe.os.open", late)
    racers = [probe.Racer(str(tmp_path), name) for name in ("here", "cpu1")]
    for _ in range(60):
        threads = [threading.Thread(target=racer.race, args=[0.5]) for racer in racers]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        if both := set(racers[0].created) & set(racers[1].created):
            break
    assert both


def test_its_own_answer_that_was_lost_on_the_way_counts(tmp_path: Path) -> None:
    racer = probe.Racer(str(tmp_path), "n1")
    (tmp_path / "own").write_text("n1")
    (tmp_path / "claim.7").write_text("n1")
    (tmp_path / "lease.7").write_text("n1")
    racer._try(7, str(tmp_path / "own"))
    (tmp_path / "claim.8").write_text("n2")
    (tmp_path / "lease.8").write_text("n2")
    racer._try(8, str(tmp_path / "own"))
    assert racer.report() == {"disk": "", "tried": [7, 8], "created": [7], "linked": [7]}


@pytest.mark.parametrize(("ns", "ahead"), [(1_795_000_000_500_000_000, 100.5), (1_795_000_000_000_000_000, 0.0)])
def test_all_meet_by_the_folders_clock_where_it_tells_more_than_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ns: int, ahead: float
) -> None:
    (tmp_path / "own").touch()
    os.utime(tmp_path / "own", ns=(ns, ns))
    monkeypatch.setattr("cronhpc.inside.probe.time.time", lambda: 1_794_999_900.0)
    assert probe._ahead(str(tmp_path / "own")) == pytest.approx(ahead)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    racer = probe.Racer(str(tmp_path / "gone"), "n1")
    racer.look(0)
    assert "No such file or directory" in racer.disk


@pytest.mark.parametrize("url", ["ftp://x", "file:///etc/passwd", "x", ""])
def test_other_addresses_than_of_the_web_are_not_tried(url: str) -> None:
    assert probe.reaches(url) == "it does not begin with https://"


def test_the_time_zone_database_has_a_version() -> None:
    assert probe.tzdata()
