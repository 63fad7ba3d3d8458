"""A team's folder of switches shows nothing of a private one, wherever a teammate leads."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cronhpc.core.model import Switches, SwitchKind
from cronhpc.store.switches import AstrayError, SwitchError, open_folder, scan, set_switch, unset_switch

BOB, CAROL = 54321, 54322
NOW = 1_795_800_000
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="links of another user need root to make")


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """The project's folder, which others may write; mine, private, lies beside it."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "token").write_text("SECRET\nexpires: 2020-01-01\n")
    team = tmp_path / "proj"
    team.mkdir()
    team.chmod(0o2775)
    return team


def linked(path: Path, target: str, by: int) -> None:
    path.symlink_to(target)
    os.lchown(path, by, by)


def made(path: Path, by: int, mode: int = 0o2775) -> Path:
    path.mkdir(parents=True)
    os.chown(path, by, by)
    path.chmod(mode)
    return path


def _above(team: Path) -> None:
    (team.parent / "private" / "kill").mkdir()
    linked(team / "way", "../private", BOB)
    linked(team / "kill", "way/kill", 0)


def _twice(team: Path) -> None:
    linked(team / "second", str(team.parent / "private"), BOB)
    linked(team / "kill", "second", BOB)


def _carols(team: Path) -> None:
    made(team.parent / "carols", CAROL)
    linked(team / "kill", "../carols", BOB)


def _moved(team: Path) -> None:
    (team.parent / "private").rename(team / "kill")


ASTRAY: dict[str, tuple[Callable[[Path], None], str]] = {
    "his link to my private folder": (lambda team: linked(team / "kill", "../private", BOB), "a link of 54321's"),
    "his link on the way to a folder of mine": (_above, "a link of 54321's"),
    "his link to a link of his": (_twice, "a link of 54321's"),
    "his link to what a third person lets me read": (_carols, "which is 54322's"),
    "my private folder, moved into its place": (_moved, "only you may list it"),
}


@pytest.mark.parametrize(("lead", "why"), ASTRAY.values(), ids=ASTRAY)
def test_a_folder_that_another_has_led_to_is_unknown_and_nothing_of_it_is_said(
    team: Path, lead: Callable[[Path], None], why: str
) -> None:
    lead(team)
    found = scan([(SwitchKind.KILL, team / "kill")], [("t", team / "kill" / "token")], NOW)
    assert found.listed == ()
    assert found.unknown == (str(team / "kill"), str(team / "kill" / "token"))
    assert [each.code for each in found.problems] == ["E320", "E320"]
    assert why in found.problems[0].what
    assert "SECRET" not in str(found)


@pytest.mark.parametrize("lead", [row[0] for row in ASTRAY.values()], ids=ASTRAY)
def test_no_file_is_removed_through_it(team: Path, lead: Callable[[Path], None]) -> None:
    lead(team)
    there = sorted(team.parent.rglob("*"))
    with pytest.raises(SwitchError, match="real place"):
        unset_switch(team / "kill", "token")
    assert sorted(team.parent.rglob("*")) == there


@pytest.mark.parametrize("lead", [row[0] for row in ASTRAY.values()], ids=ASTRAY)
def test_no_file_is_made_through_it(team: Path, lead: Callable[[Path], None]) -> None:
    """It would be a file of mine, which a group may write, in a folder of my own or a third person's."""
    lead(team)
    there = sorted(team.parent.rglob("*"))
    with pytest.raises(SwitchError, match="real place"):
        set_switch(team / "kill", "autorun", "why", group="users")
    assert sorted(team.parent.rglob("*")) == there


def test_no_file_is_made_in_a_third_person_s_folder_that_was_put_there(team: Path) -> None:
    made(team / "kill", CAROL)
    os.chown(team, BOB, BOB)
    with pytest.raises(SwitchError, match="54322's, not of the cron directory's owner"):
        set_switch(team / "kill", "x")
    assert list((team / "kill").iterdir()) == []


def test_a_switch_is_set_in_a_teammate_s_own_folder(team: Path) -> None:
    made(team / "kill", BOB)
    os.chown(team, BOB, BOB)
    assert set_switch(team / "kill", "x")


def _linked_by_root(team: Path) -> None:
    made(team.parent / "elsewhere", CAROL)
    linked(team / "kill", "../elsewhere", 0)


def _his_own(team: Path) -> None:
    made(team.parent / "his", BOB)
    linked(team / "kill", str(team.parent / "his"), BOB)


def _his(team: Path) -> None:
    made(team / "kill", BOB)


def _mine_private(team: Path) -> None:
    team.chmod(0o755)
    (team / "kill").mkdir(mode=0o700)


PLAIN: dict[str, Callable[[Path], None]] = {
    "a folder of mine": lambda team: (team / "kill").mkdir(mode=0o755),
    "a folder of his": _his,
    "a folder of his, by his link": _his_own,
    "a link of mine or root's to anybody's": _linked_by_root,
    "a private folder of mine where nobody else could have put it": _mine_private,
}


@pytest.mark.parametrize("lead", PLAIN.values(), ids=PLAIN)
def test_what_nobody_led_astray_is_listed(team: Path, lead: Callable[[Path], None]) -> None:
    lead(team)
    (team / "kill" / "x").write_text("why")
    found = scan([(SwitchKind.KILL, team / "kill")], [("t", team / "kill" / "x"), ("u", team / "kill" / "none")], NOW)
    assert [(each.name, each.reason) for each in found.listed] == [("x", "why"), ("t", "why")]
    assert found.unknown == ()
    assert unset_switch(team / "kill", "x")


def test_below_the_cron_directory_the_way_to_it_is_not_asked(team: Path) -> None:
    cron = made(team.parent / "carols" / "cron", CAROL)
    made(cron / "kill", CAROL)
    linked(team / "cron", str(cron), BOB)
    os.close(open_folder(team / "cron" / "kill", team / "cron"))
    with pytest.raises(AstrayError):
        open_folder(team / "cron" / "kill")


def test_links_that_go_round_are_unknown(team: Path) -> None:
    linked(team / "kill", "kill", BOB)
    assert scan([(SwitchKind.KILL, team / "kill")], [], NOW).unknown == (str(team / "kill"),)


# --- a file that was put there


def _said(team: Path) -> Switches:
    return scan([(SwitchKind.KILL, team / "kill")], [], NOW)


def test_a_private_file_that_was_moved_there_stops_and_its_words_are_not_shown(team: Path) -> None:
    (team / "kill").mkdir()
    (team.parent / "private" / "token").rename(team / "kill" / "x")
    (team / "kill" / "x").chmod(0o600)
    [switch] = _said(team).listed
    assert "SECRET" not in switch.reason
    assert "alone to read" in switch.reason
    assert switch.expires == 1577836800  # 2020: when it expires counts all the same


def test_what_another_group_may_read_is_not_shown_to_this_one(team: Path) -> None:
    (team / "kill").mkdir()
    path = team / "kill" / "x"
    path.write_text("SECRET\nexpires: SECRET")
    path.chmod(0o640)
    assert "SECRET" in _said(team).listed[0].reason
    os.chown(path, 0, CAROL)
    assert "SECRET" not in str(_said(team))


def test_a_second_name_of_a_file_does_not_say_what_is_in_it(team: Path) -> None:
    (team / "kill").mkdir()
    (team / "kill" / "x").hardlink_to(team.parent / "private" / "token")
    [switch] = _said(team).listed
    assert "SECRET" not in switch.reason
