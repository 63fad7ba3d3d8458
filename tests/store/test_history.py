"""History on disk: appended by several machines, read newest first, lines that were cut off passed over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cronhpc.store import history

NOVEMBER, DECEMBER = 1_795_790_000, 1_798_000_000  # 2026-11-27, 2026-12-23
DAY = 86400


def row(name: str, at: int, **more: Any) -> dict[str, Any]:
    return {"what": "run", "key": f"{name}@{at}.1", "entry": name, "at": at, **more}


def ats(folder: Path) -> list[int]:
    return [row["at"] for row in history.rows(folder)]


def test_rows_of_two_machines_come_by_their_time_newest_first(tmp_path: Path) -> None:
    for n in range(6):
        history.append(tmp_path, [row("e", NOVEMBER + n)], host="ab"[n % 2], now=NOVEMBER + n)
    history.append(tmp_path, [row("e", DECEMBER)], host="a", now=DECEMBER)
    assert ats(tmp_path) == [DECEMBER, *(NOVEMBER + n for n in (5, 4, 3, 2, 1, 0))]


def test_a_row_written_twice_counts_once_even_by_another_machine(tmp_path: Path) -> None:
    one = row("e", NOVEMBER)
    history.append(tmp_path, [one], host="a", now=NOVEMBER)
    history.append(tmp_path, [one, one], host="b", now=NOVEMBER)
    assert list(history.rows(tmp_path)) == [one]


def test_rows_without_a_key_are_all_kept(tmp_path: Path) -> None:
    said = {"what": "switch", "switch": "ALL", "at": NOVEMBER}
    history.append(tmp_path, [said, said], host="a", now=NOVEMBER)
    assert list(history.rows(tmp_path)) == [said, said]


@pytest.mark.parametrize("cut_off", ["", '{"what": "ru', "[1]", "\x00\x00", '{"a": 1}x'])
def test_a_line_that_was_cut_off_harms_only_itself(tmp_path: Path, cut_off: str) -> None:
    history.append(tmp_path, [row("e", NOVEMBER)], host="a", now=NOVEMBER)
    path = next(tmp_path.iterdir())
    path.write_text(path.read_text() + cut_off)
    history.append(tmp_path, [row("e", NOVEMBER + 1)], host="a", now=NOVEMBER + 1)
    assert ats(tmp_path) == [NOVEMBER + 1, NOVEMBER]


def test_lines_longer_than_a_block_are_whole(tmp_path: Path) -> None:
    rows = [row("e", NOVEMBER + n, detail="é" * 50_000) for n in range(4)]
    history.append(tmp_path, rows, host="a", now=NOVEMBER)
    assert list(history.rows(tmp_path)) == rows[::-1]


@pytest.mark.parametrize("block", [1, 2, 7, 64, 1 << 16])
def test_blocks_cut_anywhere(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_BLOCK", block)
    rows = [row("e", NOVEMBER + n, detail="x" * n) for n in range(20)]
    history.append(tmp_path, rows, host="a", now=NOVEMBER)
    assert list(history.rows(tmp_path)) == rows[::-1]


def test_the_newest_row_is_read_without_the_rest(tmp_path: Path) -> None:
    history.append(tmp_path, [row("e", NOVEMBER + n, detail="x" * 200) for n in range(5000)], host="a", now=NOVEMBER)
    path = next(tmp_path.iterdir())
    path.write_bytes(b"\xff" * 200_000 + b"\n" + path.read_bytes()[-70_000:])  # what is not read cannot trip it
    assert next(history.rows(tmp_path))["at"] == NOVEMBER + 4999


def test_there_is_no_history_before_the_first_run(tmp_path: Path) -> None:
    assert ats(tmp_path / "none") == []


def test_old_months_are_forgotten(tmp_path: Path) -> None:
    for n in range(4):
        at = DECEMBER - n * 31 * DAY
        history.append(tmp_path, [row("e", at)], host="a", now=at)
    history.rotate(tmp_path, keep_months=2, now=DECEMBER)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2026-10.a.jsonl", "2026-11.a.jsonl", "2026-12.a.jsonl"]


def test_a_row_is_one_line_of_json(tmp_path: Path) -> None:
    history.append(tmp_path, [row("e\n", NOVEMBER)], host="a", now=NOVEMBER)
    (line,) = next(tmp_path.iterdir()).read_text().splitlines()
    assert json.loads(line)["entry"] == "e\n"
