"""What a folder lies on, read from mountinfo tables and from paths."""

from __future__ import annotations

import os
import subprocess  # noqa: TID251 - coreutils tells the same
from pathlib import Path

import pytest

from cronhpc.doctor.judge import of_rooms
from cronhpc.store import disk
from cronhpc.store.disk import closed, look, mount_of, purged
from cronhpc.store.files import Paths

TABLE = r"""23 28 0:22 / /proc rw,nosuid shared:5 - proc proc rw
28 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 28 0:33 / /home rw,relatime shared:9 - nfs4 server:/home rw,vers=4.2,hard,local_lock=none
41 28 0:34 / /with\040blank rw - lustre mgs@tcp:/fs rw,flock
42 28 0:35 / /home/alice/fast rw - tmpfs tmpfs rw,size=1g
43 28 0:36 / /home/alice/fast rw - xfs /dev/sdb ro
44 28 0:37 / /hom rw - btrfs /dev/x rw
45 28 0:38 / /caf\303\251 rw - beegfs b rw
broken line
"""
PLACES = {
    "/home/alice/cron": ("nfs4", "/home"),
    "/home": ("nfs4", "/home"),
    "/homes": ("ext4", "/"),
    "/hom/x": ("btrfs", "/hom"),
    "/with blank/x": ("lustre", "/with blank"),
    "/café/x": ("beegfs", "/café"),
    "/home/alice/fast/x": ("xfs", "/home/alice/fast"),
    "/": ("ext4", "/"),
}


@pytest.mark.parametrize(("path", "found"), PLACES.items(), ids=PLACES)
def test_the_mount_that_holds_a_path(path: str, found: tuple[str, str]) -> None:
    assert mount_of(path, TABLE)[:2] == found


@pytest.mark.processes
def test_where_no_mount_is_shown_as_in_a_chroot_the_kernel_says_the_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True)
    monkeypatch.setattr(disk, "_mountinfo", lambda: "30 22 0:30 / /proc rw - proc proc rw\n")
    names = {"ext2/ext3": "ext4", "overlayfs": "overlay"}
    assert disk.kind_of(tmp_path) == names.get(told.stdout.strip(), told.stdout.strip())
    assert disk.look(tmp_path, {}).kind == disk.kind_of(tmp_path)
    assert disk.kind_of(tmp_path / "gone") == ""


def test_its_options_are_the_mounts_and_the_file_systems() -> None:
    assert mount_of("/home/x", TABLE)[2] == ("rw", "relatime", "vers=4.2", "hard", "local_lock=none")
    assert "ro" in mount_of("/home/alice/fast", TABLE)[2]


@pytest.mark.parametrize("table", ["", "x", "1 2 3 - ext4"])
def test_a_table_that_says_nothing_is_unknown(table: str) -> None:
    assert mount_of("/x", table) == ("", "", ())


PURGED = {
    "a variable": ("/lustre/alice/cron", {"SCRATCH": "/lustre/alice"}, "it lies under $SCRATCH"),
    "a variable of another place": ("/lustre/alicex/cron", {"SCRATCH": "/lustre/alice"}, ""),
    "a name": ("/scratch/alice/cron", {}, "its path has 'scratch' in it"),
    "a name with a number": ("/gpfs/scratch2/alice", {}, "its path has 'scratch2' in it"),
    "a name of several words": ("/lustre/fs_scratch/alice", {}, "its path has 'fs_scratch' in it"),
    "/tmp": ("/tmp/x", {}, "its path has 'tmp' in it"),
    "a home": ("/home/alice/cron", {}, ""),
    "a word that only holds one": ("/home/template/scratchpad", {}, ""),
}


@pytest.mark.parametrize(("path", "environ", "why"), PURGED.values(), ids=PURGED)
def test_places_that_sites_purge(path: str, environ: dict[str, str], why: str) -> None:
    assert purged(path, path, environ) == why


def test_a_folder_that_is_not_there_yet_is_looked_at_by_the_one_above(tmp_path: Path) -> None:
    found = look(tmp_path / "not" / "yet", {})
    assert found.path == str(tmp_path)
    assert found.bytes_total > 0


@pytest.mark.skipif(os.getuid() != 0, reason="root may write anywhere, and another user is needed")
@pytest.mark.parametrize("closed_to", [0o500, 0o600, 0], ids=["it can be listed", "not be entered", "not even listed"])
def test_folders_in_which_a_tick_could_make_nothing_are_named(tmp_path: Path, closed_to: int) -> None:
    modes = {".": 0o700, "state/claims": 0o700, "state": closed_to, "scheduler": 0o300, "log": 0o700}
    for name, mode in modes.items():
        (tmp_path / name).mkdir(mode=mode, exist_ok=True, parents=True)
        (tmp_path / name).chmod(mode)
        os.chown(tmp_path / name, 54321, 54321)
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(0o755)
    os.seteuid(54321)
    try:
        found = [*closed(Paths(tmp_path))]
    finally:
        os.seteuid(0)
    places = [str(tmp_path / name) for name in ("state", "scheduler")]
    assert [each.what.partition(" in ")[2].partition(":")[0] for each in found] == places
    assert [(each.level, each.topic) for each in of_rooms(found)] == [("error", "disk")] * 2
