"""A directory brought back from an older copy, status.json and log/ included: what may have run is not run again."""

from __future__ import annotations

import json
import os
import subprocess  # noqa: TID251 - cp is what people bring a copy back with
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cronhpc.batch.local import Local
from cronhpc.core.model import Queue
from tests.cli.test_cli import HOUR, Shell, later
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture

pytestmark = pytest.mark.processes


def cp(*words: str | Path) -> None:
    subprocess.run(["cp", *map(str, words)], check=True, timeout=60)


def anew(cron: Path) -> None:
    """The old one is removed, or lies on a disk that is gone."""
    copy = cron.with_name("copy")
    cp("-a", cron, copy)
    os.close(os.open(cron.with_name("other"), os.O_CREAT | os.O_WRONLY))  # takes an inode that is free
    cron.rename(cron.with_name("gone"))
    cp("-a", copy, cron)


def same_inode(cron: Path) -> None:
    """A disk gives a new file the inode of one that was removed: ext4 at once, tmpfs never."""
    due, copy = cron / "scheduler" / "due", cron.with_name("copy")
    cp("-a", due, copy)
    inode = due.stat().st_ino
    for _ in range(100):
        due.unlink()
        cp("-a", copy, due)
        if due.stat().st_ino == inode:
            break


def file_by_file(cron: Path) -> None:
    """As rsync and tar do it: beside the old one, then in its place."""
    for path in [each for each in cron.rglob("*") if each.is_file()]:
        cp("-a", path, path.with_name(f"{path.name}.new"))
        path.with_name(f"{path.name}.new").replace(path)


def modes(cron: Path) -> None:
    for path in cron.rglob("*"):
        path.chmod(path.stat().st_mode & 0o777)


def hard_links(cron: Path) -> None:
    """As backups by rsync --link-dest or cp -al make them: each file's ctime changes."""
    cp("-al", cron, cron.with_name("backup"))


def there_and_back(cron: Path) -> None:
    cron.rename(cron.with_name("aside"))
    cron.with_name("aside").rename(cron)


def read_times(cron: Path) -> None:
    """Backups that put back the time of the last reading."""
    for path in [each for each in cron.rglob("*") if each.name != "due"]:
        os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))


ACTS: dict[str, tuple[Callable[[Path], None], bool]] = {
    "a copy in the place of a directory that is gone": (anew, True),
    "a copy that got the inodes of what was removed": (same_inode, True),
    "a copy, file by file": (file_by_file, True),
    "chmod": (modes, False),
    "a backup of hard links": (hard_links, False),
    "moved away and back": (there_and_back, False),
    "a backup that restores the times of reading": (read_times, False),
    "nothing but an outage": (lambda _: None, False),
}


def back_by(cron: Path, seconds: int) -> None:
    """As if there had been no tick for so long."""
    entries, status = cron / "state" / "entries.json", cron / "status.json"
    known, said = json.loads(entries.read_text()), json.loads(status.read_text())
    last = known["meta"]["last_tick"] - seconds
    known["meta"]["last_tick"] = last
    known["entries"]["a"]["watermark"] -= seconds
    known["entries"]["a"].pop("next_slot")
    said["chain"]["last_tick"] = datetime.fromtimestamp(last, UTC).isoformat()
    entries.write_text(json.dumps(known))
    status.write_text(json.dumps(said))


@pytest.mark.parametrize(("act", "copied"), ACTS.values(), ids=ACTS)
def test_after_an_outage_the_latest_slot_runs_but_not_after_a_copy_was_brought_back(
    shell: Shell,
    act: Callable[[Path], None],
    copied: bool,  # noqa: FBT001 - a table's column
) -> None:
    far = (later() // 60 + 30) % 60  # no slot comes while this test runs
    shell.drop("cron.d/a.slurm", f"#CRON {far} * * * *\ntrue")
    shell("tick", now=later())
    back_by(shell.cron, 3 * HOUR)
    act(shell.cron)
    said = shell("tick", now=later())
    rows = shell("history", "--json").json["runs"]
    assert ("W334" in said.out + said.err) == copied
    assert any(row["result"] == "missed" and "brought back from a copy" in row["detail"] for row in rows) == copied
    assert ('"reason": "submit"' in said.out) != copied
    assert "W334" not in shell("tick", now=later() + 2).out


def test_a_copy_of_a_moment_ago_is_one_too(shell: Shell) -> None:
    """By a clock that is ahead of the disk's: then all slots until now may have run."""
    far = (later() // 60 + 30) % 60
    shell.drop("cron.d/a.slurm", f"#CRON {far} * * * *\ntrue")
    shell("tick", now=later())
    copy = shell.cron.with_name("copy")
    cp("-a", shell.cron, copy)
    assert '"reason": "submit"' in shell("tick", now=later() + HOUR).out
    time.sleep(0.3)
    shell.cron.rename(shell.cron.with_name("gone"))
    cp("-a", copy, shell.cron)
    again = shell("tick", now=later() + HOUR + 120)
    assert "W334" in again.out
    assert '"reason": "submit"' not in again.out
    assert "W334" not in shell("tick", now=later() + HOUR + 240).out
    assert '"reason": "submit"' in shell("tick", now=later() + 2 * HOUR).out


def test_a_copy_that_was_kept_beside_counts_from_when_it_was_moved_into_place(shell: Shell) -> None:
    """Not from when it was made: until then the other one was at work."""
    shell.drop("cron.d/a.slurm", f"#CRON {(later() // 60 + 30) % 60} * * * *\ntrue")
    shell("tick", now=later())
    back_by(shell.cron, 3 * HOUR)
    copy = shell.cron.with_name("copy")
    cp("-a", shell.cron, copy)
    time.sleep(1.1)
    shell.cron.rename(shell.cron.with_name("gone"))
    put = int(time.time())  # noqa: TID251 - folders get their ctime from this machine's clock
    copy.rename(shell.cron)
    assert "W334" in shell("tick", now=later()).out
    assert json.loads((shell.cron / "state" / "entries.json").read_text())["meta"]["restored"] >= put


def test_a_tick_that_ends_while_the_queue_is_asked_makes_the_state_no_older_one(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell("tick", now=later())
    ask = Local.queue

    def meanwhile(batch: Local) -> Queue:
        monkeypatch.setattr(Local, "queue", ask)
        shell("tick", now=later() + HOUR)
        return ask(batch)

    monkeypatch.setattr(Local, "queue", meanwhile)
    said = shell("plan", now=later() + HOUR)
    assert "W334" not in said.out + said.err
