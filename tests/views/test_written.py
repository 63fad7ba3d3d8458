"""What a colleague's cron directory may hold: a status.json of any shape, and anything in the place of a file."""

from __future__ import annotations

import copy
import errno
import io
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cronhpc.cli import main, past
from cronhpc.cli.console import Console
from cronhpc.core.model import Queue, Way, World
from cronhpc.core.model.decode import MisfitError
from cronhpc.engine import init
from cronhpc.store.files import read_bytes, read_json
from cronhpc.views.facts import as_json, cleaned, of_json
from tests.view_situations import LINK, NOW, SPARE, WORLD, at, facts_of, running

CODES = "\x1b]0;owned\x07\x1b[2J\nFAKE\r\x9b31m\u202e<script>"
CLAIM, JOB = running("sync", at("14:00"), "4720")
BUSY = replace(WORLD, claims=(CLAIM,), queue=Queue((LINK, SPARE, JOB)))
BOB = 54321
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="another user's directory needs root to make")


def whole(world: World = BUSY) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(json.dumps(as_json(facts_of(world))))
    return value


def flaw(value: object) -> str:
    """The place of what no tick writes; "" where there is none."""
    try:
        of_json(value)
    except MisfitError as place:
        return str(place)
    return ""


def places(value: object, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each part of it."""
    yield way
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in rows:
        yield from places(each, (*way, key))


def put(value: Any, way: tuple[Any, ...], part: object) -> Any:
    """`value` with another part there."""
    new = copy.deepcopy(value)
    inner = new
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = part
    return new


@pytest.mark.parametrize("world", [WORLD, BUSY, replace(BUSY, queue=None)])
def test_what_a_tick_writes_has_no_flaw(world: World) -> None:
    assert flaw(whole(world)) == ""


# Nothing reads this from the file.
UNREAD = {"severity"}  # its code says it


def test_a_part_of_another_kind_is_named_wherever_it_stands() -> None:
    value = whole()
    ways = [way for way in places(value) if way and (way[-1] not in UNREAD or way[0] == "attention")]
    assert len(ways) > 150
    missed = [way for way in ways if not flaw(put(value, way, 1.5))]
    assert missed == []
    assert flaw(put(value, ("entries", 0, "runs"), 1.5)) == "entries.0.runs"


@pytest.mark.parametrize(
    ("way", "part"),
    [
        (("chain", "interval"), 10**400),
        (("chain", "interval"), True),
        (("now",), None),
        (("now",), "soon"),
        (("now",), "2026-11-27T14:00:00"),
        (("entries", 0, "last"), {}),
        (("entries", 0, "next"), "9999-99-99T00:00:00Z"),
        (("batch", "answers"), 1),
        (("chain", "via"), {}),
        (("entries",), {}),
    ],
)
def test_a_value_that_no_tick_writes_is_a_flaw(way: tuple[Any, ...], part: object) -> None:
    assert flaw(put(whole(), way, part)) == ".".join(map(str, way))


def test_what_an_earlier_version_called_otherwise_is_read() -> None:
    now = json.dumps(whole(replace(BUSY, chain=replace(BUSY.chain, via=Way.LOCAL, on_hold="job 7 is held"))))
    before = (
        now.replace('"by_daemon"', '"resident"').replace('"on_hold"', '"resting"').replace('"no_next"', '"resting"')
    )
    before = before.replace('"via": "local"', '"via": "resident"')
    assert before != now
    assert of_json(json.loads(before)) == of_json(json.loads(now))


def test_a_way_to_call_ticks_that_a_later_version_has_is_no_flaw() -> None:
    assert of_json(put(whole(), ("chain", "via"), "pigeon")).chain.via is Way.UNKNOWN
    assert flaw(put(whole(), ("chain", "via"), 7)) == "chain.via"


def test_a_missing_part_is_a_flaw() -> None:
    value = whole()
    del value["entries"][0]["successes"]
    assert flaw(value) == "entries.0"
    assert flaw({}) != ""


def test_every_text_is_made_one_printable_line() -> None:
    value = whole()
    for way in places(value):
        if way:
            texts = [part for part in parts(cleaned(put(value, way, CODES))) if isinstance(part, str)]
            assert all(text.isprintable() for text in texts)
    assert cleaned(value) == value


def parts(value: object) -> Iterator[object]:
    for way in places(value):
        part: Any = value
        for key in way:
            part = part[key]
        yield part


# --- in the place of a file


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


ODD: dict[str, tuple[Callable[[Path], None], int]] = {
    "a fifo that nobody writes": (os.mkfifo, errno.EINVAL),
    "a link to a device that never ends": (lambda path: path.symlink_to("/dev/zero"), errno.EINVAL),
    "a folder": (Path.mkdir, errno.EISDIR),
    "a terabyte": (_huge, errno.EFBIG),
    "a link to itself": (lambda path: path.symlink_to(path), errno.ELOOP),
}


@pytest.mark.parametrize(("make", "number"), ODD.values(), ids=ODD)
def test_what_is_no_file_of_ours_is_not_read(tmp_path: Path, make: Callable[[Path], None], number: int) -> None:
    make(tmp_path / "x")
    with pytest.raises(OSError) as raised:
        read_bytes(tmp_path / "x")
    assert raised.value.errno == number


def test_a_million_brackets_are_a_corrupt_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("[" * 1_000_000)
    assert read_json(tmp_path / "x", 1) is None


@pytest.fixture
def bobs(tmp_path: Path) -> Path:
    """A cron directory of another user's, where a tick has been."""
    root = tmp_path / "cron"
    init.init(root, {})
    (root / "cron.d" / "x.slurm").write_text("#!/bin/bash\n#CRON 0 4 * * *\n")
    (root / "status.json").write_text(json.dumps(whole()))
    for path in (root, *root.rglob("*")):
        os.lchown(path, BOB, BOB)
    return root


def cronhpc(root: Path, *words: str) -> tuple[int, str]:
    out = io.StringIO()
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(root.parent)}
    return main([*words, "--dir", str(root)], Console(NOW, environ, out, out, is_terminal=False)), out.getvalue()


LOOKS = [("status",), ("status", "sync"), ("kill", "sync"), ("unkill", "sync"), ("status", "--nagios")]


@AS_ROOT
@pytest.mark.parametrize("words", LOOKS, ids=[" ".join(words) for words in LOOKS])
def test_no_code_of_his_reaches_the_terminal(bobs: Path, words: tuple[str, ...]) -> None:
    value = whole()
    for way in (
        ("batch", "name"),
        ("chain", "running"),
        ("entries", 0, "last", "result"),
        ("entries", 1, "detail"),
        ("attention", 0, "fix"),
        ("attention", 0, "when"),
    ):
        value = put(value, way, CODES)
    (bobs / "status.json").write_text(json.dumps(value))
    _, said = cronhpc(bobs, *words)
    assert "\x1b" not in said
    assert "\x9b" not in said
    assert "\nFAKE" not in said


@AS_ROOT
def test_a_status_that_no_tick_wrote_is_said_with_its_place(bobs: Path) -> None:
    (bobs / "status.json").write_text(json.dumps(put(whole(), ("entries", 0, "series"), 7)))
    code, said = cronhpc(bobs, "status")
    assert code == 2
    assert "is not what a tick of cronhpc" in said
    assert "entries.0.series" in said


@pytest.mark.processes
@AS_ROOT
@pytest.mark.parametrize("make", [row[0] for row in ODD.values()], ids=ODD)
@pytest.mark.parametrize("name", ["cronhpc.yaml", "status.json"])
def test_anything_may_lie_there_and_nothing_hangs(bobs: Path, make: Callable[[Path], None], name: str) -> None:
    (bobs / name).unlink()
    make(bobs / name)
    os.lchown(bobs / name, BOB, BOB)
    for words in (("status",), ("kill", "sync"), ("check",), ("doctor",), ("history",)):
        code, said = cronhpc(bobs, *words)
        assert code in {0, 1, 2}, said


@AS_ROOT
@pytest.mark.parametrize("name", ["state/claims", "state/not/there", "cronhpc.yaml"])
def test_what_he_alone_may_is_said_to_be_his(bobs: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(bobs / name))

    monkeypatch.setitem(past.COMMANDS, "history", replace(past.COMMANDS["history"], run=denied))
    code, said = cronhpc(bobs, "history")
    assert code == 2
    assert "Permission denied. " in said
    assert "belongs to 54321: ask them, or name a directory of your own with --dir" in said


def test_what_is_denied_of_ones_own_is_said_with_the_command_that_fixes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "x"))

    monkeypatch.setitem(past.COMMANDS, "history", replace(past.COMMANDS["history"], run=denied))
    said = f"{tmp_path}/x: Permission denied. It is yours: chmod u+rwX {tmp_path}\n"
    assert cronhpc(tmp_path, "history")[1] == said


# --- doctor


@AS_ROOT
@pytest.mark.parametrize("words", [("--submit",), ("--write",), ("--alerts",)])
def test_doctor_does_nothing_in_anothers_directory(bobs: Path, words: tuple[str, ...]) -> None:
    (bobs / "cronhpc.yaml").write_text(f"backend: local\nalerts: {{command: touch {bobs}/ran}}\n")
    before = (bobs / "cronhpc.yaml").read_bytes()
    code, said = cronhpc(bobs, "doctor", *words)
    assert not (bobs / "ran").exists()
    assert (bobs / "cronhpc.yaml").read_bytes() == before
    assert code != 0
    assert "belongs to 54321" in said
    assert "another user's cron directory" in said


@pytest.mark.processes
@AS_ROOT
def test_doctor_does_not_judge_by_anothers_settings(bobs: Path) -> None:
    (bobs / "cronhpc.yaml").write_text("a: [\n")
    _, said = cronhpc(bobs, "doctor")
    assert "belongs to 54321" in said
    assert "E601" not in said
    assert "cronhpc.yaml:" not in said
