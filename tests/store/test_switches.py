"""Switches on disk: whatever a teammate puts there, it only ever names what to stop."""

import errno
import os
import pwd
import random
import socket
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpc.core.model import Switch, Switches, SwitchKind
from cronhpc.inside.switch_file import clean, expiry
from cronhpc.store.switches import (
    SwitchError,
    check_name,
    scan,
    set_switch,
    unset_switch,
)

NOW = 1_795_800_000
T = TypeVar("T")
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="another user's view needs root to take")


@pytest.fixture
def cron(tmp_path: Path) -> Path:
    (tmp_path / "cronhpc.yaml").touch()
    (tmp_path / "kill").mkdir()
    (tmp_path / "pause").mkdir()
    return tmp_path


def seen(listing: Switches) -> tuple[tuple[Switch, ...], tuple[str, ...]]:
    return listing.listed, listing.unknown


def kill_switches(cron: Path) -> tuple[Switch, ...]:
    found, unknown = seen(scan([(SwitchKind.KILL, cron / "kill")], [], NOW))
    assert unknown == ()
    return found


def dated(path: Path, instant: int = NOW - 60) -> Path:
    os.utime(path, (instant, instant), follow_symlinks=False)
    return path


def opened(folder: Path) -> None:
    """Let others come as far as `folder`."""
    for each in (folder, *folder.parents):
        if not each.stat().st_mode & 0o001:
            each.chmod(0o755)


def as_user(uid: int, act: Callable[[], T]) -> T:
    """`act` as another user, in this process."""
    os.setegid(uid)
    os.seteuid(uid)
    try:
        return act()
    finally:
        os.seteuid(0)
        os.setegid(0)


def test_a_file_says_who_stops_what_since_when_and_why(cron: Path) -> None:
    (cron / "kill" / "training17").write_text("loss spikes\n")
    dated(cron / "kill" / "training17")
    [switch] = kill_switches(cron)
    assert (switch.kind, switch.name, switch.since, switch.reason) == ("kill", "training17", NOW - 60, "loss spikes")
    assert switch.by == pwd.getpwuid(os.getuid()).pw_name
    assert switch.expires is None


def test_folders_and_files_are_listed_with_their_kind(cron: Path, tmp_path: Path) -> None:
    polled = tmp_path / "polled"
    for path in (cron / "kill" / "b", cron / "kill" / "a", cron / "pause" / "ALL", polled):
        path.touch()
    found, unknown = seen(
        scan(
            [(SwitchKind.KILL, cron / "kill"), (SwitchKind.PAUSE, cron / "pause")],
            [("training17", polled), ("other", tmp_path / "not there")],
            NOW,
        )
    )
    assert [(s.kind, s.name) for s in found] == [
        ("kill", "a"),
        ("kill", "b"),
        ("pause", "ALL"),
        ("kill", "training17"),
    ]
    assert found[-1].path == str(polled)
    assert unknown == ()


def _secret(path: Path) -> None:
    (path.parent.parent / "secret").write_text("SECRET")
    path.symlink_to("../secret")


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("SECRET")


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            sock.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


ODD: dict[str, Callable[[Path], None]] = {
    "a link to a secret": _secret,
    "a link to nothing": lambda p: p.symlink_to("/nowhere"),
    "a link to itself": lambda p: p.symlink_to(p),
    "a link to a device that never ends": lambda p: p.symlink_to("/dev/zero"),
    "a folder": _folder,
    "a fifo that nobody writes": _fifo,
    "a socket": _socket,
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_what_is_no_plain_file_counts_by_its_name_alone(cron: Path, make: Callable[[Path], None]) -> None:
    make(cron / "kill" / "odd")
    [switch] = kill_switches(cron)
    assert (switch.name, switch.reason, switch.expires) == ("odd", "", None)


def test_of_a_huge_file_only_the_start_is_read(cron: Path) -> None:
    _huge(cron / "kill" / "huge")
    (cron / "kill" / "long").write_text("x" * 100_000)
    huge, long = kill_switches(cron)
    assert huge.reason == ""
    assert len(long.reason) == 200


@AS_ROOT
def test_an_unreadable_file_counts_by_its_name(cron: Path) -> None:
    path = cron / "kill" / "mine"
    path.write_text("secret")
    path.chmod(0)
    os.chown(path, 12345, 12345)
    opened(cron)
    [switch] = as_user(54321, lambda: kill_switches(cron))
    assert (switch.name, switch.reason, switch.by) == ("mine", "", "12345")


NAMES = [
    "new\nline",
    "a..b",
    "*",
    "[0-9]*",
    "?",
    "-rf",
    "$(touch x)",
    "`id`",
    "a b",
    "%s",
    "é",
    "x" * 255,
    "4711_3",
    "~",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_taken_as_it_is(cron: Path, name: str) -> None:
    (cron / "kill" / name).touch()
    assert [s.name for s in kill_switches(cron)] == [name]


def test_a_name_that_is_no_text_is_kept(cron: Path) -> None:
    raw = os.fsencode(cron / "kill") + b"/\xff\xfe"
    os.close(os.open(raw, os.O_CREAT))
    [switch] = kill_switches(cron)
    assert os.fsencode(switch.name) == b"\xff\xfe"


def test_hidden_files_are_no_switches(cron: Path) -> None:
    for name in (".nfs00000001", ".training17.swp", ".gitkeep"):
        (cron / "kill" / name).touch()
    assert scan([(SwitchKind.KILL, cron / "kill")], [], NOW) == Switches((), (), ())


def test_backups_of_editors_are_no_switches_and_are_named(cron: Path) -> None:
    for name in ("train~", "#train#"):
        (cron / "kill" / name).touch()
    found = scan([(SwitchKind.KILL, cron / "kill")], [], NOW)
    assert found.listed == ()
    assert sorted(str(p) for p in found.problems) == [
        "kill/#train#: W501 #train#: an editor's backup, no switch. Remove it, or rename it.",
        "kill/train~: W501 train~: an editor's backup, no switch. Remove it, or rename it.",
    ]


def test_200_odd_files_are_named_and_nothing_else_happens(cron: Path) -> None:
    chance = random.Random(17)  # noqa: S311 - a table of situations, no secret
    letters = [c for c in map(chr, range(1, 0x250)) if c != "/"]
    names = {"".join(chance.choices(letters, k=chance.randint(1, 80))).strip(".~#") or "x" for _ in range(200)}
    makers: list[Callable[[Path], object]] = [make for make in ODD.values() if make is not _socket]  # names too long
    makers += [lambda p: p.write_bytes(chance.randbytes(5000)), lambda p: p.touch()]
    for name in names:
        chance.choice(makers)(cron / "kill" / name)
    before = sorted(str(p) for p in cron.rglob("*"))
    found, unknown = seen(scan([(SwitchKind.KILL, cron / "kill")], [], NOW))
    assert {s.name for s in found} == names
    assert all(s.reason.isprintable() and len(s.reason) <= 200 for s in found)
    assert unknown == ()
    assert sorted(str(p) for p in cron.rglob("*")) == before


REASONS = {
    "one line": ("loss spikes", "loss spikes"),
    "several lines": ("a\n\n  b\r\nc", "a b c"),
    "colours": ("\x1b[31mred\x1b[0m", "red"),
    "a terminal's title": ("\x1b]0;owned\x07x", "x"),
    "control characters": ("a\x00\x08\x9bb", "a"),
    "direction marks": ("abc\u202edef\u2066", "abc def"),
    "not text": ("caf\udce9", "caf\ufffd"),
    "a tab": ("a\tb", "a b"),
    "nothing": ("", ""),
    "blank lines": ("\n\n", ""),
}


@pytest.mark.parametrize(("text", "shown"), REASONS.values(), ids=REASONS)
def test_a_reason_is_one_printable_line(cron: Path, text: str, shown: str) -> None:
    (cron / "kill" / "x").write_bytes(text.encode("utf-8", "surrogateescape"))
    [switch] = kill_switches(cron)
    assert switch.reason.startswith(shown)
    assert switch.reason.isprintable()


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=400))
def test_whatever_is_cleaned_is_printable_short_and_stays_so(text: str) -> None:
    shown = clean(text)
    assert shown.isprintable() or shown == ""
    assert len(shown) <= 200
    assert clean(shown) == shown


EXPIRIES = {
    "a duration": ("expires: 2h", NOW - 60 + 7200),
    "a duration amid a reason": ("why\nexpires: 1h30m\nmore", NOW - 60 + 5400),
    "upper case and blanks": ("  Expires :  10m ", NOW - 60 + 600),
    "an instant in UTC": ("expires: 2026-11-27T18:00:00Z", int(datetime(2026, 11, 27, 18, tzinfo=UTC).timestamp())),
    "an instant with its zone": (
        "expires: 2026-11-27T18:00+01:00",
        int(datetime(2026, 11, 27, 17, tzinfo=UTC).timestamp()),
    ),
    "none": ("expired yesterday", None),
}


@pytest.mark.parametrize(("text", "expires"), EXPIRIES.values(), ids=EXPIRIES)
def test_a_line_says_when_it_expires(cron: Path, text: str, expires: int | None) -> None:
    (cron / "kill" / "x").write_text(text)
    dated(cron / "kill" / "x")
    [switch] = kill_switches(cron)
    assert switch.expires == expires
    assert "expires:" not in switch.reason.lower()


def test_an_expired_switch_is_still_listed_for_status_to_say(cron: Path) -> None:
    (cron / "kill" / "x").write_text("expires: 10s")
    dated(cron / "kill" / "x", NOW - 3600)
    [switch] = kill_switches(cron)
    assert switch.expires == NOW - 3590


@pytest.mark.parametrize(
    "text", ["soon", "", "1e9", "2h later", "99999-01-01", "0001-01-01", "9999-12-31T23:59:59-23:00"]
)
def test_an_expiry_that_cannot_be_read_is_reported_and_the_switch_stands(cron: Path, text: str) -> None:
    (cron / "kill" / "x").write_text(f"expires: {text}")
    dated(cron / "kill" / "x")
    found = scan([(SwitchKind.KILL, cron / "kill")], [], NOW)
    assert [(s.name, s.expires is None or s.expires <= 253402300799) for s in found.listed] == [("x", True)]
    if found.listed[0].expires is None:
        assert [p.code for p in found.problems] == ["W503"]


def test_an_expiry_without_a_zone_is_this_machines() -> None:
    assert expiry("2026-11-27T18:00", 0) == int(datetime(2026, 11, 27, 18).astimezone().timestamp())


@pytest.mark.parametrize("instant", [NOW + 3600, 1 << 40])
def test_a_date_in_the_future_is_reported(cron: Path, instant: int) -> None:
    (cron / "kill" / "x").touch()
    dated(cron / "kill" / "x", instant)
    found = scan([(SwitchKind.KILL, cron / "kill")], [], NOW)
    assert [s.name for s in found.listed] == ["x"]
    assert [p.code for p in found.problems] == ["W502"]


# --- unknown is not empty


def test_a_kill_folder_that_is_not_there_yet_is_empty(cron: Path) -> None:
    (cron / "kill").rmdir()
    assert seen(scan([(SwitchKind.KILL, cron / "kill")], [], NOW)) == ((), ())


def test_a_folder_that_is_not_mounted_is_unknown(tmp_path: Path) -> None:
    also = tmp_path / "proj" / "kill"
    polled = tmp_path / "proj" / "switch"
    assert seen(scan([(SwitchKind.KILL, also)], [("t", polled)], NOW)) == ((), (str(also), str(polled)))


def test_a_file_where_a_folder_should_be_is_unknown(cron: Path) -> None:
    (cron / "kill").rmdir()
    (cron / "kill").touch()
    assert seen(scan([(SwitchKind.KILL, cron / "kill")], [], NOW)) == ((), (str(cron / "kill"),))


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT])
def test_a_folder_that_cannot_be_listed_is_unknown(cron: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fails(_: Path) -> list[str]:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("cronhpc.store.switches.os.listdir", fails)
    assert seen(scan([(SwitchKind.KILL, cron / "kill")], [], NOW)) == ((), (str(cron / "kill"),))


def test_a_stale_handle_is_opened_again(cron: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cron / "kill" / "x").touch()
    answers: list[OSError | list[str]] = [OSError(errno.ESTALE, "stale"), ["x"]]

    def listing(_: Path) -> list[str]:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr("cronhpc.store.switches.os.listdir", listing)
    assert [s.name for s in kill_switches(cron)] == ["x"]


def test_a_listed_switch_counts_though_a_stat_does_not_see_it_yet(cron: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    polled = cron / "polled"
    monkeypatch.setattr("cronhpc.store.switches.os.listdir", lambda _: ["polled"])
    found, _ = seen(scan([], [("t", polled)], NOW))
    assert [(s.name, s.since) for s in found] == [("t", NOW)]


# --- setting and removing


def test_a_switch_is_set_for_the_team_whatever_the_umask(cron: Path) -> None:
    if os.getuid() == 0:
        os.chown(cron / "kill", 0, 4242)
    old = os.umask(0o077)
    try:
        assert set_switch(cron / "kill", "train", "loss\nspikes\x1b[31m", NOW + 3600)
    finally:
        os.umask(old)
    status = (cron / "kill" / "train").stat()
    assert stat.S_IMODE(status.st_mode) == 0o664
    assert status.st_gid == (cron / "kill").stat().st_gid
    [switch] = kill_switches(cron)
    assert (switch.reason, switch.expires) == ("loss spikes", NOW + 3600)


def test_setting_it_again_changes_nothing(cron: Path) -> None:
    assert set_switch(cron / "kill", "train", "first")
    assert not set_switch(cron / "kill", "train", "second")
    assert kill_switches(cron)[0].reason == "first"


def test_setting_it_never_writes_through_a_link(cron: Path) -> None:
    target = cron / "target"
    (cron / "kill" / "train").symlink_to(target)
    assert not set_switch(cron / "kill", "train", "x")
    assert not target.exists()


@pytest.mark.parametrize(
    "group",
    [
        pytest.param("no such group", id="a name"),
        pytest.param("4294967295", id="the number that no group has"),
        pytest.param("99999999999", id="a number too large for a group"),
        pytest.param("9" * 5000, id="a number that is not even read"),
    ],
)
def test_a_group_that_does_not_exist_is_no_reason_to_fail(cron: Path, group: str) -> None:
    assert set_switch(cron / "kill", "train", "why", group=group)
    assert kill_switches(cron)[0].reason == "why"


def test_a_removed_kill_folder_is_made_again(cron: Path) -> None:
    (cron / "kill").rmdir()
    assert set_switch(cron / "kill", "train")
    assert [s.name for s in kill_switches(cron)] == ["train"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SwitchError, match=r"There is no folder .*kill. Is it mounted"):
        set_switch(tmp_path / "kill", "train")


BAD = ["", ".", "..", "a/b", "../x", "/etc/passwd", "a\0", "x" * 256, "é" * 128, ".hidden", "train~", "#train#"]


@pytest.mark.parametrize("name", BAD, ids=repr)
def test_a_name_that_cannot_be_a_switch_is_refused(cron: Path, name: str) -> None:
    with pytest.raises(SwitchError):
        check_name(name)
    with pytest.raises(SwitchError):
        set_switch(cron / "kill", name)
    with pytest.raises(SwitchError):
        unset_switch(cron / "kill", name)
    assert list((cron / "kill").iterdir()) == []


@pytest.mark.parametrize("name", ["ALL", "-rf", "*", "a b", "new\nline", "4711_3", "~", "é"])
def test_any_other_name_can_be_set_and_removed(cron: Path, name: str) -> None:
    assert set_switch(cron / "kill", name)
    assert [s.name for s in kill_switches(cron)] == [name]
    assert unset_switch(cron / "kill", name)
    assert kill_switches(cron) == ()


def test_removing_says_whether_there_was_one(cron: Path) -> None:
    set_switch(cron / "kill", "train")
    assert unset_switch(cron / "kill", "train")
    assert not unset_switch(cron / "kill", "train")
    assert not unset_switch(cron / "nowhere", "train")


def test_removing_a_link_leaves_its_target(cron: Path) -> None:
    (cron / "target").write_text("x")
    (cron / "kill" / "train").symlink_to(cron / "target")
    assert unset_switch(cron / "kill", "train")
    assert (cron / "target").read_text() == "x"


def test_an_empty_folder_is_removed_and_a_full_one_is_left_to_the_user(cron: Path) -> None:
    (cron / "kill" / "empty").mkdir()
    assert unset_switch(cron / "kill", "empty")
    _folder(cron / "kill" / "full")
    with pytest.raises(SwitchError, match=r"Remove it with: rm -r .*kill/full"):
        unset_switch(cron / "kill", "full")


@AS_ROOT
def test_who_may_not_write_there_is_told_whom_to_ask(cron: Path) -> None:
    opened(cron)
    set_switch(cron / "kill", "train")

    def tries() -> list[str]:
        said = []
        for act in (set_switch, unset_switch):
            with pytest.raises(SwitchError) as caught:
                act(cron / "kill", "other" if act is set_switch else "train")
            said.append(str(caught.value))
        return said

    told = f"Permission denied. Ask root for: chgrp GROUP {cron}/kill && chmod 2775 {cron}/kill"
    assert [told in text for text in as_user(54321, tries)] == [True, True]


# --- a stat that is older than what lies there ---------------------------------------------------------------------


def stale_stats(patch: pytest.MonkeyPatch, real: os.stat_result | None) -> None:
    """From now on every lstat by name sees what was there before."""

    def lstat(path: str, *, dir_fd: int | None = None) -> os.stat_result:
        if dir_fd is None:
            return old(path)
        if real is None:
            raise FileNotFoundError(errno.ENOENT, "not yet", path)
        return real

    old = os.lstat
    patch.setattr("cronhpc.store.switches.os.lstat", lstat)


def test_a_polled_file_that_was_removed_no_longer_stands_though_a_stat_still_sees_it(
    cron: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    polled = cron / "polled"
    polled.touch()
    stale_stats(monkeypatch, polled.lstat())
    polled.unlink()
    assert seen(scan([], [("t", polled)], NOW)) == ((), ())


def test_a_polled_file_that_was_made_stands_though_no_stat_sees_it_yet(
    cron: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cron / "polled").touch()
    stale_stats(monkeypatch, None)
    (found,) = scan([], [("t", cron / "polled")], NOW).listed
    assert (found.name, found.by) == ("t", "unknown")


def test_a_polled_file_in_a_folder_that_may_be_entered_and_not_listed_is_found_by_a_stat(
    cron: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def opened(path: Path, flags: int, *more: int, **kwargs: int) -> int:
        if path == cron and not flags & os.O_PATH:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, flags, *more, **kwargs)

    monkeypatch.setattr("cronhpc.store.switches.os.open", opened)
    assert seen(scan([], [("t", cron / "polled")], NOW)) == ((), ())
    (cron / "polled").touch()
    assert [s.name for s in scan([], [("t", cron / "polled")], NOW).listed] == ["t"]
