"""Whose scripts run: a table of what others could have done to a script or the way to it."""

import os
import stat
import struct
import subprocess  # noqa: TID251 - runs the commands that complaints say
from collections.abc import Callable
from pathlib import Path

import pytest

from cronhpc.store import trust
from cronhpc.store.entries import fingerprint
from cronhpc.store.trust import Party, Trust, Writer, owner_ids

ME = os.getuid()
BOB, PROJ, OTHERS = 54321, 54322, 54323  # of nobody on this machine
OWNERS = frozenset({0, ME})
NOBODY = 0xFFFFFFFF
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32
AS_ROOT = pytest.mark.skipif(ME != 0, reason="giving files to others needs root")


@pytest.fixture
def cron(tmp_path: Path) -> Path:
    root = tmp_path / "cron"
    (root / "cron.daily").mkdir(parents=True)
    (root / "cronhpc.yaml").touch()
    script = root / "cron.daily" / "x.slurm"
    script.write_text("#!/bin/bash\n")
    for path in (root, script.parent):
        path.chmod(0o755)
    script.chmod(0o644)
    return root


def script_of(cron: Path) -> Path:
    return cron / "cron.daily" / "x.slurm"


def refused(cron: Path, path: Path | None = None, group: str | None = None) -> str:
    problem = Trust(cron, OWNERS, group).refusal(path or script_of(cron))
    return str(problem) if problem else ""


def fix(command: str) -> None:
    """Run the very command that was said."""
    subprocess.run(["bash", "-c", command], check=True)


def set_acl(path: Path, *rows: tuple[int, int, int]) -> None:
    raw = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)
    os.setxattr(path, "system.posix_acl_access", raw)


def test_a_script_of_mine_in_folders_of_mine_is_trusted(cron: Path) -> None:
    assert refused(cron) == ""


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o644, 0o755, 0o500, 0o4755])
def test_modes_that_let_nobody_else_write_are_trusted(cron: Path, mode: int) -> None:
    script_of(cron).chmod(mode)
    assert refused(cron) == ""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("which", "mode", "said"),
    [
        ("cron.daily/x.slurm", 0o646, "can be written by everyone. Fix it with: chmod o-w {path}"),
        ("cron.daily/x.slurm", 0o666, "can be written by everyone. Fix it with: chmod go-w {path}"),
        ("cron.daily/x.slurm", 0o664, "can be written by the group {group}. Fix it with: chmod g-w {path}"),
        ("cron.daily/x.slurm", 0o620, "can be written by the group {group}. Fix it with: chmod g-w {path}"),
        ("cron.daily", 0o777, "can be written by everyone. Fix it with: chmod go-w {path}"),
        ("cron.daily", 0o1777, "can be written by everyone. Fix it with: chmod go-w {path}"),
        ("cron.daily", 0o775, "can be written by the group {group}. Fix it with: chmod g-w {path}"),
        ("cron.daily", 0o2775, "can be written by the group {group}. Fix it with: chmod g-w {path}"),
        (".", 0o777, "can be written by everyone. Fix it with: chmod go-w {path}"),
        (".", 0o770, "can be written by the group {group}. Fix it with: chmod g-w {path}"),
    ],
)
def test_what_others_may_write_is_refused_with_the_command_that_fixes_it(
    cron: Path, which: str, mode: int, said: str
) -> None:
    import grp

    path = cron / which
    path.chmod(mode)
    group = grp.getgrgid(path.stat().st_gid).gr_name
    text = refused(cron)
    assert f"E404 {path} {said.format(path=path, group=group)}" in text
    fix(text.partition("Fix it with: ")[2].partition(" (or")[0])
    assert refused(cron) == ""


def test_a_group_may_write_where_trust_names_it(cron: Path) -> None:
    import grp

    for path in (cron, cron / "cron.daily", script_of(cron)):
        path.chmod(path.stat().st_mode | stat.S_IWGRP)
    mine = grp.getgrgid(script_of(cron).stat().st_gid).gr_name
    assert refused(cron, group=mine) == ""
    assert refused(cron, group="no such group") != ""
    assert refused(cron, group="") != ""


@AS_ROOT
def test_another_group_than_the_named_one_may_not_write(cron: Path) -> None:
    script_of(cron).chmod(0o664)
    os.chown(script_of(cron), 0, OTHERS)
    assert "can be written by the group 54323" in refused(cron, group="root")
    assert "trust: {group: 54323}" in refused(cron, group="root")
    assert refused(cron, group="54323") == "", "as is said for a group without a name"


@AS_ROOT
@pytest.mark.parametrize("which", [".", "cron.daily", "cron.daily/x.slurm"])
def test_what_belongs_to_another_user_is_refused(cron: Path, which: str) -> None:
    os.chown(cron / which, BOB, 0)
    assert f"E403 {cron / which} belongs to 54321" in refused(cron)
    assert Trust(cron, OWNERS | {BOB}, None).refusal(script_of(cron)) is None


@pytest.mark.processes
@AS_ROOT
def test_a_script_of_another_user_is_fixed_by_making_it_mine(cron: Path) -> None:
    os.chown(script_of(cron), BOB, 0)
    command = refused(cron).partition("make it yours: ")[2].partition(" (or")[0]
    fix(command)
    assert refused(cron) == ""
    assert script_of(cron).read_text() == "#!/bin/bash\n"


# --- links


def linked(cron: Path, target: Path | str) -> Path:
    link = cron / "cron.daily" / "link.slurm"
    link.symlink_to(target)
    return link


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir(mode=0o755)
    script = folder / "y.slurm"
    script.write_text("#!/bin/bash\n")
    script.chmod(0o644)
    for each in tmp_path.parents:
        if each.stat().st_uid not in OWNERS:
            pytest.skip("the folder of the tests is not mine")
    return script


def test_a_link_to_a_script_of_mine_is_trusted(cron: Path, outside: Path) -> None:
    assert refused(cron, linked(cron, outside)) == ""
    (cron / "cron.daily" / "link.slurm").unlink()
    assert refused(cron, linked(cron, "../../tools/y.slurm")) == ""
    (cron / "cron.daily" / "link.slurm").unlink()
    assert refused(cron, linked(cron, "x.slurm")) == ""


def _writable_target(outside: Path) -> Path:
    outside.chmod(0o666)
    return outside


def _writable_folder(outside: Path) -> Path:
    outside.parent.chmod(0o777)
    return outside


def _writable_folder_above(outside: Path) -> Path:
    deep = outside.parent / "deep"
    deep.mkdir(mode=0o755)
    outside.rename(deep / "y.slurm")
    outside.parent.chmod(0o777)
    return deep / "y.slurm"


def _link_of_a_writable_folder(outside: Path) -> Path:
    open_to_all = outside.parent / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (open_to_all / "link").symlink_to(outside)
    return open_to_all / "link"


def _linked_folder(outside: Path) -> Path:
    open_to_all = outside.parent / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (open_to_all / "folder").symlink_to(outside.parent)
    return open_to_all / "folder" / "y.slurm"


def _way_back(outside: Path) -> Path:
    open_to_all = outside.parent / "open"
    (open_to_all / "deep").mkdir(parents=True)
    open_to_all.chmod(0o777)
    return open_to_all / "deep" / ".." / ".." / "y.slurm"


@pytest.mark.parametrize(
    "prepare",
    [
        _writable_target,
        _writable_folder,
        _writable_folder_above,
        _link_of_a_writable_folder,
        _linked_folder,
        _way_back,
    ],
)
def test_a_link_whose_way_others_can_change_is_refused(
    cron: Path, outside: Path, prepare: Callable[[Path], Path]
) -> None:
    text = refused(cron, linked(cron, prepare(outside)))
    assert "E404" in text
    assert "can be written by everyone. Fix it with: chmod go-w" in text


def test_the_same_ways_through_a_relative_link_are_refused(cron: Path, outside: Path) -> None:
    _writable_folder(outside)
    assert "chmod go-w" in refused(cron, linked(cron, "../../tools/y.slurm"))


def test_what_is_mine_in_a_sticky_folder_others_cannot_replace(cron: Path, outside: Path) -> None:
    outside.parent.chmod(0o1777)
    assert refused(cron, linked(cron, outside)) == ""


@AS_ROOT
def test_in_a_sticky_folder_things_of_others_are_refused(cron: Path, outside: Path) -> None:
    outside.parent.chmod(0o1777)
    planted = outside.parent / "planted"
    planted.symlink_to(outside)
    os.chown(planted, BOB, BOB, follow_symlinks=False)
    assert "belongs to 54321" in refused(cron, linked(cron, planted))
    os.chown(outside, BOB, BOB)
    (cron / "cron.daily" / "link.slurm").unlink()
    assert "belongs to 54321" in refused(cron, linked(cron, outside))


@AS_ROOT
def test_a_sticky_folder_of_another_user_protects_nothing(cron: Path, outside: Path) -> None:
    outside.parent.chmod(0o1777)
    os.chown(outside.parent, BOB, 0)
    assert "belongs to 54321" in refused(cron, linked(cron, outside))


@AS_ROOT
def test_a_link_of_another_user_is_refused(cron: Path, outside: Path) -> None:
    link = linked(cron, outside)
    os.chown(link, BOB, BOB, follow_symlinks=False)
    assert "link.slurm belongs to 54321" in refused(cron, link)


@pytest.mark.parametrize("target", ["/nowhere/x", "link.slurm", "x.slurm/y", "/proc/1/cwd/x"])
def test_a_link_that_leads_nowhere_is_refused_and_ends(cron: Path, target: str) -> None:
    assert refused(cron, linked(cron, target)).count("E40") == 1


def test_a_script_that_is_gone_is_refused(cron: Path) -> None:
    assert "cannot be looked at: No such file or directory" in refused(cron, cron / "cron.daily" / "gone.slurm")


def test_a_folder_or_a_fifo_is_no_script(cron: Path) -> None:
    (cron / "cron.daily" / "d.slurm").mkdir()
    os.mkfifo(cron / "cron.daily" / "f.slurm", 0o600)
    assert "E402" in refused(cron, cron / "cron.daily" / "d.slurm")
    assert "E402" in refused(cron, cron / "cron.daily" / "f.slurm")


def test_a_cron_directory_that_is_reached_by_a_link_is_the_same_one(cron: Path, tmp_path: Path) -> None:
    (tmp_path / "home").symlink_to(cron)
    link = linked(cron, cron / "cron.daily" / "x.slurm")
    assert Trust(tmp_path / "home", OWNERS, None).refusal(tmp_path / "home" / "cron.daily" / "x.slurm") is None
    assert Trust(tmp_path / "home", OWNERS, None).refusal(tmp_path / "home" / "cron.daily" / link.name) is None


def test_a_linked_folder_of_scripts_is_followed(cron: Path, outside: Path) -> None:
    (cron / "cron.weekly").symlink_to(outside.parent)
    assert refused(cron, cron / "cron.weekly" / "y.slurm") == ""
    outside.parent.chmod(0o777)
    assert "chmod go-w" in refused(cron, cron / "cron.weekly" / "y.slurm")


def test_folders_can_be_looked_at_alone(cron: Path, outside: Path) -> None:
    trust = Trust(cron, OWNERS, None)
    (cron / "cron.weekly").symlink_to(outside.parent)
    for name in ("cron.daily", "cron.weekly", "cron.hourly"):
        assert trust.folder_refusal(cron / name) is None, name
    (cron / "cron.daily").chmod(0o775)
    outside.parent.chmod(0o777)
    trust = Trust(cron, OWNERS, None)
    assert "chmod g-w" in str(trust.folder_refusal(cron / "cron.daily"))
    assert "chmod go-w" in str(trust.folder_refusal(cron / "cron.weekly"))


# --- access control lists


LISTS = {
    "a user who may read": ([(USER, 4, BOB), (MASK, 4, NOBODY)], ""),
    "a user who may write": ([(USER, 6, BOB), (MASK, 6, NOBODY)], "can be written by 54321 (by an ACL)"),
    "a user whose writing the mask takes away": ([(USER, 6, BOB), (MASK, 4, NOBODY)], ""),
    "I myself": ([(USER, 6, ME), (MASK, 6, NOBODY)], ""),
    "a group that may write": ([(GROUP, 6, PROJ), (MASK, 6, NOBODY)], "can be written by the group 54322 (by an ACL)"),
    "a group that may read": ([(GROUP, 4, PROJ), (MASK, 6, NOBODY)], ""),
}


@pytest.mark.parametrize("which", ["cron.daily/x.slurm", "cron.daily", "."])
@pytest.mark.parametrize(("rows", "said"), LISTS.values(), ids=LISTS)
def test_an_acl_that_widens_access_counts(cron: Path, which: str, rows: list[tuple[int, int, int]], said: str) -> None:
    path = cron / which
    middle = [(GROUP_OBJ, 4, NOBODY), *rows] if rows[0][0] == GROUP else [rows[0], (GROUP_OBJ, 4, NOBODY), *rows[1:]]
    try:
        set_acl(path, (USER_OBJ, 7, NOBODY), *middle, (OTHER, 4, NOBODY))
    except OSError:
        pytest.skip("no ACLs on this file system")
    text = refused(cron)
    assert bool(text) == bool(said)
    assert said in text
    if said:
        kind, number = ("u", BOB) if rows[0][0] == USER else ("g", PROJ)
        assert f"Fix it with: setfacl -x {kind}:{number} {path}" in text


def test_an_acl_whose_owning_group_may_write_is_named_as_the_group(cron: Path) -> None:
    rows = [(USER_OBJ, 6, NOBODY), (USER, 4, BOB), (GROUP_OBJ, 6, NOBODY), (MASK, 6, NOBODY), (OTHER, 4, NOBODY)]
    try:
        set_acl(script_of(cron), *rows)
    except OSError:
        pytest.skip("no ACLs on this file system")
    assert "chmod g-w" in refused(cron)


def nfs4_list(*rows: tuple[int, int, int, str]) -> bytes:
    raw = struct.pack(">I", len(rows))
    for kind, flags, mask, who in rows:
        name = who.encode()
        raw += struct.pack(">IIII", kind, flags, mask, len(name)) + name + b"\0" * (-len(name) % 4)
    return raw


READ, WRITE = 0x1, 0x2
NFS4 = {
    "the owner alone": ([(0, 0, 0x1601FF, "OWNER@"), (0, 0x40, READ, "GROUP@"), (0, 0, READ, "EVERYONE@")], []),
    "everyone": ([(0, 0, WRITE, "EVERYONE@")], [Writer(Party.EVERYONE)]),
    "the owning group": ([(0, 0x40, WRITE, "GROUP@")], [Writer(Party.OWNING_GROUP)]),
    "a user": ([(0, 0, WRITE, "nobody-here@site.org")], [Writer(Party.USER, None, "nobody-here")]),
    "a user by number": ([(0, 0, WRITE, "54321")], [Writer(Party.USER, 54321, "54321")]),
    "a group that may delete": ([(0, 0x40, 0x40, "proj-x@site.org")], [Writer(Party.GROUP, None, "proj-x")]),
    "a user denied first": ([(1, 0, WRITE, "x@s"), (0, 0, WRITE, "x@s")], []),
    "a user denied other things": ([(1, 0, READ, "x@s"), (0, 0, WRITE, "x@s")], [Writer(Party.USER, None, "x")]),
    "a user denied too late": ([(0, 0, WRITE, "x@s"), (1, 0, WRITE, "x@s")], [Writer(Party.USER, None, "x")]),
    "an audit row": ([(2, 0, WRITE, "x@s")], []),
    "no rows": ([], []),
}


@pytest.mark.parametrize(("rows", "found"), NFS4.values(), ids=NFS4)
def test_an_nfs4_list_is_read(rows: list[tuple[int, int, int, str]], found: list[Writer]) -> None:
    assert list(trust.nfs4(nfs4_list(*rows))) == found


def test_a_user_of_an_nfs4_list_is_refused_unless_listed(cron: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = nfs4_list((0, 0, WRITE, "54321@site.org"))

    def answer(path: Path, name: str) -> bytes | None:
        return raw if name == "system.nfs4_acl" and path == script_of(cron) else None

    monkeypatch.setattr(trust, "_attribute", answer)
    assert "can be written by 54321 (by an ACL). Fix it with: nfs4_editfacl" in refused(cron)
    assert Trust(cron, OWNERS | {BOB}, None).refusal(script_of(cron)) is None


# --- the rest


def test_each_folder_is_looked_at_once_a_tick(cron: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (cron / "cron.daily" / f"{number}.slurm").touch(0o644)
    looked: list[str] = []
    real = os.lstat

    def counted(path: Path) -> os.stat_result:
        looked.append(str(path))
        return real(path)

    trust = Trust(cron, OWNERS, None)
    monkeypatch.setattr("cronhpc.store.trust.os.lstat", counted)
    for number in range(20):
        assert trust.refusal(cron / "cron.daily" / f"{number}.slurm") is None
    folders = [each for each in looked if each in {str(trust.root), str(trust.root / "cron.daily")}]
    assert len(looked) <= 20 + 20 + len(set(folders))


def test_owners_are_me_root_and_the_listed() -> None:
    ids, unknown = owner_ids(["me", "root", "54321", "no such user"], me=1000)
    assert ids == {0, 1000, 54321}
    assert unknown == ("no such user",)


def test_the_fingerprint_changes_with_content_modes_and_file(cron: Path) -> None:
    script = script_of(cron)
    seen = {tuple(fingerprint(script.stat()))}
    script.chmod(0o600)
    seen.add(tuple(fingerprint(script.stat())))
    copy = script.with_suffix(".new")
    copy.write_text("x")
    copy.rename(script)
    seen.add(tuple(fingerprint(script.stat())))
    assert len(seen) == 3


@pytest.mark.processes
def test_odd_names_are_quoted_for_the_shell_and_harmless_on_a_terminal(cron: Path) -> None:
    path = cron / "cron.daily" / "a b'\x1b[31m\n.slurm"
    path.touch()
    path.chmod(0o646)
    text = refused(cron, path)
    assert "chmod o-w $'" in text
    assert "\x1b" not in text.partition(": ")[2]
    fix(text.partition("Fix it with: ")[2])
    assert refused(cron, path) == ""
