"""scratch-age: which files are near their purge."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.ready_made_jobs import Ended, environment, filled_in, run

pytestmark = pytest.mark.processes

DAY = 86400


def age(path: Path, days: float, *, read_days: float | None = None) -> None:
    """Give a file its times; its ctime is now, whatever one does."""
    now = time.time()  # noqa: TID251 - the job looks at this machine's clock
    os.utime(path, (now - (days if read_days is None else read_days) * DAY, now - days * DAY))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    scratch = tmp_path / "scratch"
    for name, days in (("old/a", 29), ("old/deep/b\nc", 25), ("new/d", 3), ("e", 28)):
        path = scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 100)
        age(path, days)
    (tmp_path / "away").mkdir()
    (tmp_path / "away/f").touch()
    age(tmp_path / "away/f", 99)
    (scratch / "link").symlink_to(tmp_path / "away")
    return tmp_path


def look(place: Path, **settings: str) -> Ended:
    wanted = {"FOLDER": f"'{place}/scratch'", "BY": "mtime", **settings}
    return run(filled_in("scratch-age", place, **wanted), environment(place))


def test_files_near_their_purge_are_told_by_folder_and_listed_whole(place: Path) -> None:
    ended = look(place)
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert lines[0].startswith("old: 2 files, 200 B, the first in 23h")
    assert lines[1].startswith(".: 1 file, 100 B, the first in 1d 23h")
    assert "3 files (300 B) will be purged within 10 days" in ended.out
    listed = (place / ".local/state/cronhpc-jobs/scratch-age.list").read_bytes().split(b"\0")
    assert [os.path.relpath(os.fsdecode(each), place / "scratch") for each in listed[:-1]] == [
        "old/a",
        "e",
        "old/deep/b\nc",
    ]


def test_what_is_past_its_day_says_so(place: Path) -> None:
    age(place / "scratch/old/a", 31)
    assert "the first any time now" in look(place).out


@pytest.mark.parametrize(("by", "code"), [("mtime", 1), ("atime", 0), ("any", 0)])
def test_what_counts_is_what_the_site_counts(place: Path, by: str, code: int) -> None:
    for path in (place / "scratch").rglob("*"):
        if path.is_file() and not path.is_symlink():
            age(path, 28, read_days=1)
    assert look(place, BY=by).code == code


def test_nothing_is_touched_until_asked_and_then_with_a_warning(place: Path) -> None:
    before = (place / "scratch/old/a").stat().st_mtime
    look(place)
    assert (place / "scratch/old/a").stat().st_mtime == before
    ended = look(place, TOUCH="yes")
    assert ended.code == 0
    assert "many sites forbid this" in ended.out
    assert "touched 3 files" in ended.out
    assert (place / "away/f").stat().st_mtime < before, "never through a link"
    assert look(place).code == 0


def test_it_is_told_once_and_again_once_when_it_is_over(place: Path) -> None:
    assert "ALERT: " in look(place).out
    assert "ALERT: " not in look(place).out
    look(place, TOUCH="yes")
    assert "fine again: " in look(place).out


def test_without_a_scratch_folder_it_says_what_to_set(place: Path) -> None:
    ended = look(place, FOLDER="${SCRATCH:-}")
    assert (ended.code, ended.last) == (2, "broken: FOLDER is empty: set it at the top of the script")
