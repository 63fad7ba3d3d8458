"""The probe that runs on nodes: several of them at once on one folder, as nodes would."""

from __future__ import annotations

import json
import subprocess  # noqa: TID251 - nodes are other processes
import sys
from pathlib import Path

import pytest

from cronhpc.inside import probe


def test_of_eight_at_once_one_creates_and_one_links(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "cronhpc.inside.probe", str(tmp_path)]
    names = [f"n{i}" for i in range(8)]
    running = [subprocess.Popen([*argv, name]) for name in names]
    assert [each.wait(30) for each in running] == [0] * 8
    rows = [json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8")) for name in names]
    assert [row["disk"] for row in rows] == [""] * 8
    assert sum(row["created"] for row in rows) == 1
    assert sum(row["linked"] for row in rows) == 1
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ""}


def test_its_own_answer_that_was_lost_on_the_way_counts(tmp_path: Path) -> None:
    (tmp_path / "claim").write_text("n1", encoding="ascii")
    assert probe.look(str(tmp_path), "n1")["created"] is True
    assert probe.look(str(tmp_path), "n2")["created"] is False


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert "No such file or directory" in str(probe.look(str(tmp_path / "gone"), "n1")["disk"])


@pytest.mark.parametrize("url", ["ftp://x", "file:///etc/passwd", "x", ""])
def test_other_addresses_than_of_the_web_are_not_tried(url: str) -> None:
    assert probe.reaches(url) == "it does not begin with https://"


def test_the_time_zone_database_has_a_version() -> None:
    assert probe.tzdata()
