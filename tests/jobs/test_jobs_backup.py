"""backup: what is refused, and what the tools' answers mean. With the real rsync and rclone: tests/lab."""

from __future__ import annotations

from pathlib import Path

import pytest

import backup
from tests.ready_made_jobs import Ended, environment, filled_in, run, stand_in

pytestmark = pytest.mark.processes


@pytest.fixture
def place(tmp_path: Path) -> Path:
    source = tmp_path / "project"
    (source / "deep").mkdir(parents=True)
    (source / "deep/plain").write_text("plain", encoding="utf-8")
    (tmp_path / "copies").mkdir()
    stand_in(tmp_path, "rsync", f"echo x >> {tmp_path}/copies/called")
    return tmp_path


def back_up(place: Path, **settings: str) -> Ended:
    wanted = {"SOURCES": f"('{place}/project')", "TARGET": f"'{place}/copies'", **settings}
    return run(filled_in("backup", place, **wanted), environment(place))


RSYNC_SAYS = {
    "a file that could not be read": (
        23,
        'rsync: [sender] send_files failed to open "{p}/deep/plain": Permission denied (13)',
    ),
    "a file that vanished": (24, 'file has vanished: "{p}/deep/plain"'),
}


@pytest.mark.parametrize(("code", "words"), RSYNC_SAYS.values(), ids=RSYNC_SAYS)
def test_a_partial_copy_is_no_failure_and_says_what_is_missing(place: Path, code: int, words: str) -> None:
    said = words.replace("{p}", str(place / "project"))
    compares = "case $* in *--dry-run*) echo '>f+++++++++ project/deep/plain'; exit ;; esac"
    stand_in(place, "rsync", f"{compares}; echo '{said}' >&2; exit {code}")
    ended = back_up(place)
    assert ended.code == 0, ended.out
    assert said in ended.out
    assert "which is no failure" in ended.out


@pytest.mark.parametrize("code", [10, 12, 30])
def test_a_tool_that_fails_altogether_is_broken_and_no_alert(place: Path, code: int) -> None:
    stand_in(place, "rsync", f"echo connection refused >&2; exit {code}")
    ended = back_up(place)
    assert ended.code == 2
    assert ended.last == f"broken: {place}/project: rsync exited {code}: connection refused"


REFUSED = {
    "nothing to copy": ({"SOURCES": "()"}, "SOURCES is empty"),
    "nowhere to": ({"TARGET": "''"}, "TARGET is empty"),
    "a target that is not there": ({"TARGET": "/nowhere/at/all"}, "not mounted"),
    "a target inside of what is copied": ({"TARGET": "$HOME/project/deep"}, "choose another"),
    "a target inside, through a link": ({"TARGET": "$HOME/inside"}, "choose another"),
    "two sources of one name": ({"SOURCES": "($HOME/project $HOME/other/project)"}, "would be one folder"),
    "two options in one": ({"OPTIONS": "'--exclude=*.tmp --bwlimit=50M'"}, "write each option by itself"),
    "an option that deletes": ({"OPTIONS": "(--delete-after)"}, "leave --delete out"),
    "an empty source": ({"SOURCES": "($HOME/copies)", "TARGET": "$HOME/project"}, "is empty: not mounted?"),
}


@pytest.mark.parametrize(("wrong", "words"), REFUSED.values(), ids=REFUSED)
def test_what_would_go_wrong_is_refused_before_anything_is_copied(
    place: Path, wrong: dict[str, str], words: str
) -> None:
    (place / "inside").symlink_to(place / "project/deep")
    (place / "other/project").mkdir(parents=True)
    ended = back_up(place, **wrong)
    assert ended.code == 2
    assert words in ended.out
    assert list((place / "copies").iterdir()) == []


def test_one_source_that_is_broken_does_not_keep_the_others_from_being_copied(place: Path) -> None:
    empty = place / "empty"
    empty.mkdir()
    ended = back_up(place, SOURCES=f"('{empty}' '{place}/project')")
    assert ended.code == 2
    assert (place / "copies/called").is_file()


def test_names_are_read_back_as_they_are() -> None:
    assert backup.compared(">f+++++++++ p/\\#303\\#251 \\#012x\ncd+++++++++ p/\n.f..t...... p/y", "rsync") == [
        "p/é \nx"
    ]
    assert backup.compared("= same\n* differs\n+ only here\n! unreadable\n- only there", "rclone") == [
        "differs",
        "only here",
        "unreadable",
    ]
