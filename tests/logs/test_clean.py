"""`cronhpc clean`, as its user runs it, and what it prints."""

from __future__ import annotations

import io
import json
import os
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from cronhpc import cli
from cronhpc.cli.change import clean_words
from cronhpc.cli.console import Console
from cronhpc.core.model import Problem, Settings, slot_text
from cronhpc.core.retention import Cleaned, Rules
from cronhpc.views.style import Style

NOW = 1_795_800_000
HOUR, DAY = 3600, 86400


@pytest.fixture
def home(tmp_path: Path) -> Path:
    assert clean_or(tmp_path, "init", "--backend", "local")[0] == 0
    return tmp_path


def clean_or(home: Path, *arguments: str) -> tuple[int, str]:
    """The exit code of a command, and all that it printed."""
    out = io.StringIO()
    environ = {"HOME": str(home), "PATH": os.environ["PATH"], "TZ": "UTC", "CRONHPC_DIR": str(home / "cron")}
    code = cli.main(arguments, Console(NOW, environ, out, out, is_terminal=False))
    return code, out.getvalue()


def put(home: Path, age: int, job: int, entry: str = "backup") -> Path:
    path = home / "cron/log" / entry / f"{slot_text(NOW - age)}-{job}.out"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x" * 2048, encoding="utf-8")
    return path


def test_a_dry_run_names_each_file_and_why_and_the_command_that_removes_them(home: Path) -> None:
    old, young = put(home, 8 * DAY, 1), put(home, DAY, 2)
    assert clean_or(home, "clean", "--dry-run") == (
        0,
        "would remove 1 of 2 logs, 2.0 kB\n"
        "\n"
        "FILE                             WHY\n"
        "log/backup/20261119T1720Z-1.out  older than 7 days\n" + "\n"
        "Nothing was removed. Remove them with: cronhpc clean\n",
    )
    assert old.exists()
    assert young.exists()


def test_it_says_what_it_removed(home: Path) -> None:
    for job in range(3):
        put(home, 8 * DAY + job * HOUR, job)
    put(home, DAY, 4)
    assert clean_or(home, "clean") == (
        0,
        "removed 3 of 4 logs\n\nFOLDER      FILES  WHY\nlog/backup      3  older than 7 days\n",
    )
    assert clean_or(home, "clean") == (0, "nothing to remove of 1 log\n")


def test_it_removes_more_than_a_tick_would(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronhpc.logs.housekeeping.MOST", 1)
    for job in range(3):
        put(home, 8 * DAY, job)
    assert clean_or(home, "clean")[1].startswith("removed 3 of 3 logs\n")


def test_json_has_every_file_and_the_limits(home: Path) -> None:
    put(home, 8 * DAY, 1)
    code, text = clean_or(home, "clean", "--dry-run", "--json")
    said = json.loads(text)
    assert code == 0
    assert said["files"] == [{"file": "log/backup/20261119T1720Z-1.out", "because": "too old"}]
    assert said["folders"] == [{"folder": "log/backup", "removed": 1, "because": {"too old": 1}}]
    assert (said["removed"], said["kept"], said["bytes"], said["dry_run"]) == (1, 0, 2048, True)
    assert said["limits"] == {"keep": 7 * DAY, "files": 200, "total": 5 << 30, "halved_because": ""}


def test_what_was_left_alone_needs_attention(home: Path) -> None:
    (home / "cron/log/evil").symlink_to("/etc")
    code, text = clean_or(home, "clean")
    assert code == 1
    assert "log holds 1 link (evil), left alone. Remove them if they are not yours." in text


def test_without_a_cron_directory_it_is_broken(tmp_path: Path) -> None:
    code, text = clean_or(tmp_path, "clean")
    assert code == 2
    assert "cronhpc init" in text


@pytest.mark.skipif(os.getuid() != 0, reason="another user's needs root")
def test_another_user_s_logs_are_not_cleaned(home: Path) -> None:
    log = put(home, 8 * DAY, 1)
    os.chown(home / "cron/state", 61_002, 61_002)
    code, text = clean_or(home, "clean")
    assert (code, log.exists()) == (2, True)
    assert "belongs to someone else" in text


# --- the screen ----------------------------------------------------------------------------------------------------


def words(*, dry_run: bool = False, everything: bool = False, **more: Any) -> str:
    values: dict[str, Any] = {
        "bytes": 1_153_434,
        "folders": {"log/hub-sync": {"too old": 150, "too many": 50}, "log/backup": {"too much in all": 12}},
        "stays": {"its run is live, or ended lately": 3, "the newest failed run's": 1, "within the limits": 1688},
        **more,
    }
    cleaned, limits = Cleaned(**values), Rules.of(Settings(), NOW)
    limits = limits.halved() if cleaned.scarce else limits
    return clean_words(cleaned, limits, Style(NOW, UTC), dry_run=dry_run, everything=everything)


def test_the_screen_of_a_large_clean_up() -> None:
    assert words(dry_run=True).splitlines() == [
        "would remove 212 of 1,904 logs, 1.1 MB",
        "",
        "FOLDER        FILES  WHY",
        "log/hub-sync    200  150 older than 7 days, 50 more than 200 of one entry",
        "log/backup       12  more than 5.0 GB in all",
        "",
        "kept  3 logs: its run is live, or ended lately",
        "kept  1 log: the newest failed run's",
        "",
        "Nothing was removed. Remove them with: cronhpc clean",
    ]


def test_on_a_nearly_full_disk_the_halved_limits_are_shown() -> None:
    why = "the file system has 0.9 % of its inodes left"
    lines = words(scarce=why).splitlines()
    assert lines[1] == f"{why}: the limits are halved"
    assert lines[4].endswith("150 older than 3d12h, 50 more than 100 of one entry")


def test_many_files_are_named_only_when_asked_for() -> None:
    files = [(f"log/backup/{n}.out", "too old") for n in range(212)]
    assert "log/backup/7.out" not in words(dry_run=True, files=files)
    assert "log/backup/7.out" in words(dry_run=True, files=files, everything=True)


def test_names_that_teammates_gave_do_no_harm_to_a_terminal() -> None:
    bad = "log/\x1b[2J\nx"
    problems = [Problem("W613", f"{bad} holds 1 link.", "Remove it.", bad)]
    for files in ([(f"{bad}/y", "too old")], []):
        assert "\x1b" not in words(dry_run=True, folders={bad: {"too old": 1}}, files=files, problems=problems)
