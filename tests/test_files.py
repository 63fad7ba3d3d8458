"""Files that are written whole or not at all: what a full disk says names the file that was meant."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cronhpc.store.files import create_once, replace_file, write_json
from tests.test_cli import Shell
from tests.test_cli import shell as shell  # noqa: PLC0414 - a fixture

WAYS: dict[str, Callable[[Path], object]] = {
    "replaced": lambda path: replace_file(path, b"text"),
    "replaced by JSON": lambda path: write_json(path, {"a": 1}, 1),
    "created": lambda path: create_once(path, b"text"),
    "created whole": lambda path: create_once(path, b"text", whole=True),
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
