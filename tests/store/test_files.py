"""Files that are written whole or not at all: what a full disk says names the file that was meant."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cronhpc.core.model import ClaimState, Key
from cronhpc.store.claims import Claims
from cronhpc.store.damage import fix
from cronhpc.store.files import create_once, replace_file, write_json, write_out
from tests.cli.test_cli import Shell
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture
from tests.faults import Disk

WAYS: dict[str, Callable[[Path], object]] = {
    "replaced": lambda path: replace_file(path, b"text"),
    "replaced by JSON": lambda path: write_json(path, {"a": 1}, 1),
    "created": lambda path: create_once(path, b"text"),
}
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def full(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(FULL.errno, FULL.strerror)

    monkeypatch.setattr(os, call, refuse)


@pytest.mark.parametrize("call", ["write", "open"])
@pytest.mark.parametrize("way", WAYS)
def test_a_full_disk_is_told_of_the_file_that_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, call: str
) -> None:
    target = tmp_path / "page.html"
    full(monkeypatch, call)
    with pytest.raises(OSError, match="No space") as caught:
        WAYS[way](target)
    monkeypatch.undo()
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(target))
    assert list(tmp_path.iterdir()) == []


def test_what_may_not_be_written_keeps_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", "elsewhere")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PermissionError) as caught:
        replace_file(tmp_path / "a", b"")
    assert caught.value.filename == str(tmp_path / "a")


@pytest.mark.parametrize(("words", "target"), [("page", "page.html"), ("add node-report", "alerts.py"), ("init", "id")])
def test_commands_name_it(shell: Shell, monkeypatch: pytest.MonkeyPatch, words: str, target: str) -> None:
    if words == "init":
        (shell.cron / "scheduler" / target).unlink()
    full(monkeypatch, "write")
    said = shell(*words.split())
    monkeypatch.undo()
    assert said.code == 2
    assert f"{target}: No space left on device" in said.err
    assert ".tmp" not in said.err


# --- errors that pass, replies that are lost ---------------------------------------------------------------------

HOW = ("refused", "lost")
DONE: dict[str, Callable[[Path], object]] = {
    "replaced": lambda path: replace_file(path, b"mine"),
    "created": lambda path: create_once(path, b"mine"),
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("way", DONE)
def test_a_write_of_which_one_call_fails_for_a_moment_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, how: str
) -> None:
    disk = Disk(monkeypatch, tmp_path)
    disk.fail(how, ())
    DONE[way](tmp_path / "counted")
    calls = disk.count
    assert calls > 4
    for at in range(1, calls + 1):
        target = tmp_path / f"a{at}"
        disk.fail(how, [at])
        assert DONE[way](target) in {None, True}, disk.log
        disk.heal()
        assert target.read_bytes() == b"mine"
    left = [each.name for each in tmp_path.iterdir() if each.name.startswith(".")]
    assert len(left) <= (how == "refused")  # the call that failed was the one that removes it: `sweep` does


@pytest.mark.parametrize("call", ["link", "rename"])
def test_a_write_whose_every_reply_is_lost_is_judged_by_what_lies_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    disk = Disk(monkeypatch, tmp_path)
    disk.fail("lost", None, calls=[call])
    assert DONE["created" if call == "link" else "replaced"](tmp_path / "a") in {None, True}
    assert (tmp_path / "a").read_bytes() == b"mine"


@pytest.mark.parametrize("how", HOW)
def test_somebody_elses_file_is_never_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    (tmp_path / "a").write_bytes(b"theirs")
    disk = Disk(monkeypatch, tmp_path)
    for at in range(1, 12):
        disk.fail(how, [at])
        assert create_once(tmp_path / "a", b"mine") is False
    assert (tmp_path / "a").read_bytes() == b"theirs"


def test_a_dead_disk_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waited: list[float]) -> None:
    disk = Disk(monkeypatch, tmp_path)
    disk.fail("refused", None)
    for pauses in (4, 0):
        with pytest.raises(OSError, match="Input/output error") as caught:
            replace_file(tmp_path / "a", b"mine")
        assert caught.value.filename == str(tmp_path / "a")
        assert len(waited) == pauses
        waited.clear()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS])
def test_what_does_not_pass_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waited: list[float], code: int
) -> None:
    disk = Disk(monkeypatch, tmp_path)
    disk.fail("refused", [1], code)
    with pytest.raises(OSError, match=os.strerror(code)):
        replace_file(tmp_path / "a", b"mine")
    assert waited == []


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_hard_links_is_named_by_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    disk = Disk(monkeypatch, tmp_path)
    disk.fail("refused", None, code, calls=["link"])
    with pytest.raises(OSError, match="no hard links") as caught:
        create_once(tmp_path / "a", b"mine")
    assert "--dir" in fix(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_replaced_is_fixed_at_its_folder(tmp_path: Path) -> None:
    (tmp_path / "entries.json").touch()
    tmp_path.chmod(0o555)
    said = fix(PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "entries.json")))
    assert said == f"It is yours: chmod u+rwX {tmp_path}"


@pytest.mark.parametrize("how", HOW)
def test_a_claim_and_its_steps_outlive_any_one_error_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    claims = Claims(tmp_path)
    disk = Disk(monkeypatch, tmp_path)

    def walk(key: Key) -> None:
        assert claims.make(key, "a", f"tick {key}", 1)
        assert not claims.make(key, "a", "another tick", 2)
        assert claims.record(key, "17", 3)
        assert claims.look([key])[key].state is ClaimState.SUBMITTED
        assert claims.step(key, ClaimState.RELEASING)
        assert claims.step(key, ClaimState.RELEASED)
        assert claims.look([key])[key].job_id == "17"

    disk.fail(how, ())
    walk(Key("a", 0))
    for at in range(1, disk.count + 1):
        disk.fail(how, [at])
        walk(Key("a", 60 * at))


def test_a_step_that_two_take_at_once_puts_no_job_recorded_meanwhile_in_the_place_of_the_first(tmp_path: Path) -> None:
    """One looked before the first had taken it: the second job would have run beside the first."""
    claims, key = Claims(tmp_path), Key("a", 0)
    assert claims.make(key, "a", "a tick", 1)
    assert claims.record(key, "17", 2)
    for step in (ClaimState.RELEASING, ClaimState.RELEASED):
        assert claims.step(key, step)
        claims.record(key, "18", 3)  # that name is free by then; the furthest counts
        claims.step(key, ClaimState.RELEASING)
        assert (claims.look([key])[key].state, claims.look([key])[key].job_id) == (step, "17")


def test_init_on_a_file_system_without_hard_links_makes_no_half_directory(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    disk = Disk(monkeypatch, tmp_path / "new")
    disk.fail("refused", None, errno.EOPNOTSUPP, calls=["link"])
    said = shell("init", "--backend", "local", "--dir", str(tmp_path / "new"))
    assert (said.code, said.out) == (2, "")
    assert f"{tmp_path / 'new'}: this file system knows no hard links" in said.err
    assert not (tmp_path / "new").exists()


def test_a_pipe_that_a_person_names_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    try:
        link = tmp_path / "out"
        link.symlink_to(f"/proc/self/fd/{writer}")
        write_out(link, b"text", 0o644)
        assert os.read(reader, 10) == b"text"
        assert link.is_symlink()
    finally:
        os.close(reader)
        os.close(writer)
