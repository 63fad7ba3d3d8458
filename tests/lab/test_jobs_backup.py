"""backup with the real rsync and rclone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.ready_made_jobs import Ended, environment, filled_in, run

pytestmark = pytest.mark.lab  # not for its Slurm: for the packages that are there with it
TOOLS = ["rsync", "rclone"]
ODD = ("plain", "with blank", "é", "line\nend", "back\\slash", "#003", "-dash")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    source = tmp_path / "project"
    (source / "deep/er").mkdir(parents=True)
    for name in ODD:
        (source / "deep" / name).write_text(name, encoding="utf-8")
    (source / "link").symlink_to("deep/plain")
    (tmp_path / "copies").mkdir()
    return tmp_path


def back_up(place: Path, **settings: str) -> Ended:
    wanted = {"SOURCES": f"('{place}/project')", "TARGET": f"'{place}/copies'", **settings}
    return run(filled_in("backup", place, **wanted), environment(place))


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("verify", ["size", "content", "no"])
@pytest.mark.parametrize("tool", TOOLS)
def test_every_file_is_there_whatever_its_name(place: Path, tool: str, verify: str) -> None:
    ended = back_up(place, TOOL=tool, VERIFY=verify)
    assert ended.code == 0, ended.out
    copied = files(place / "copies/project")
    assert {name: copied[name] for name in files(place / "project") if name != "link"} == {
        name: text for name, text in files(place / "project").items() if name != "link"
    }


@pytest.mark.parametrize("tool", TOOLS)
def test_it_is_a_copy_and_not_a_mirror(place: Path, tool: str) -> None:
    back_up(place, TOOL=tool)
    (place / "project/deep/plain").unlink()
    assert back_up(place, TOOL=tool).code == 0
    assert (place / "copies/project/deep/plain").is_file()


@pytest.mark.parametrize("tool", TOOLS)
def test_a_copy_that_is_not_what_is_here_is_an_alert_that_names_the_file_once(place: Path, tool: str) -> None:
    back_up(place, TOOL=tool)
    source, spoilt = place / "project/deep/é", place / "copies/project/deep/é"
    moment = (1_600_000_000, 1_600_000_000)
    spoilt.write_text("ë", encoding="utf-8")  # of the same size and time: neither tool copies it again
    for path in (source, spoilt):
        os.utime(path, moment)
    ready = place / "project"
    wait_until_old(ready)
    first = back_up(place, TOOL=tool, VERIFY="content")
    assert first.code == 1, first.out
    assert "deep/é is not in the copy as it is here" in first.out
    assert "ALERT: " in first.out
    second = back_up(place, TOOL=tool, VERIFY="content")
    assert (second.code, "ALERT: " in second.out) == (1, False)
    assert back_up(place, TOOL=tool, VERIFY="size").code == 0, "by size alone it is the same"


def wait_until_old(folder: Path) -> None:
    """Until nothing below counts as changed while the copy was made."""
    newest = max(path.lstat().st_ctime for path in folder.rglob("*"))
    time.sleep(max(newest + 2.2 - time.time(), 0))
