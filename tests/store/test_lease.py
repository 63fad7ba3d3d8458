"""Who holds the lease, and when nobody does."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from cronhpc.store import lease
from cronhpc.store.lease import Holder

ME = lease.myself("here", "", "")
EARLIER = Holder("here", ME.pid, ME.born, "t1")


def held(folder: Path, holder: Holder, *, seconds_ago: int = 0) -> Path:
    path = folder / "lease"
    path.write_text(json.dumps(asdict(holder)), encoding="utf-8")
    stamp = path.stat().st_mtime - seconds_ago
    os.utime(path, (stamp, stamp))
    return path


def test_the_first_one_has_it_and_gives_it_back(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    assert lease.take(path, ME, lambda _: False) is None
    other = lease.myself("here", "", "")
    found = lease.take(path, other, lambda _: True)
    assert found == ME
    lease.give_back(path, other)
    assert path.exists()
    lease.give_back(path, ME)
    assert list(tmp_path.iterdir()) == []


ELSEWHERE = Holder("there", 77, "1", "t1")
IN_A_JOB = replace(ELSEWHERE, job_id="12", restarts="0")
HOUR = 3600

SITUATIONS: dict[str, tuple[Holder, Holder, bool, int, bool]] = {
    # holder, me, what the batch system says of its job's end, seconds ago, whether it is mine now
    "a process of this machine that has ended": (Holder("here", 2**22 + 1, "1", "t1"), ME, False, 0, True),
    "a process of this machine whose number is another's by now": (
        replace(EARLIER, born="1"),
        ME,
        False,
        0,
        True,
    ),
    "this very process": (EARLIER, ME, True, HOUR, False),
    "a job that runs on another machine, however old": (IN_A_JOB, ME, False, HOUR, False),
    "a job of another machine that has ended": (IN_A_JOB, ME, True, 0, True),
    "our own job's life before it was requeued": (IN_A_JOB, replace(ME, job_id="12", restarts="1"), False, 0, True),
    "our own job on another of its machines": (IN_A_JOB, replace(ME, job_id="12", restarts="0"), False, HOUR, False),
    "a process of another machine, a minute ago": (ELSEWHERE, ME, True, 60, False),
    "a process of another machine, an hour ago": (ELSEWHERE, ME, False, HOUR, True),
}


@pytest.mark.parametrize(("holder", "me", "gone", "ago", "mine"), SITUATIONS.values(), ids=SITUATIONS)
def test_the_lease_is_held_by(tmp_path: Path, holder: Holder, me: Holder, gone: bool, ago: int, mine: bool) -> None:  # noqa: FBT001, PLR0917 - a table's columns
    path = held(tmp_path, holder, seconds_ago=ago)
    found = lease.take(path, me, lambda _: gone)
    assert found == (None if mine else holder)
    assert lease.read(path) == (me if mine else holder)
    assert [each.name for each in tmp_path.iterdir()] == ["lease"]


@pytest.mark.parametrize("anothers", [True, False])
def test_a_dead_holders_lease_that_is_anothers_by_now_or_gone_is_left(tmp_path: Path, anothers: bool) -> None:  # noqa: FBT001 - a table's column
    """Two ticks have seen that it is dead, and one was faster."""
    path = tmp_path / "lease"
    if anothers:
        held(tmp_path, ME)
    lease._break(path, EARLIER)
    assert lease.read(path) == (ME if anothers else None)
    assert [each.name for each in tmp_path.iterdir()] == ["lease"] * anothers


AT_WORK: dict[str, tuple[Holder, int, str, bool]] = {
    # holder, seconds ago, the state of this process, whether its tick can be counted on
    "a process of this machine, a moment ago": (EARLIER, 0, "R", True),
    "it is stopped": (EARLIER, 0, "T", False),
    "one of another machine, of which nobody can tell": (ELSEWHERE, 0, "T", True),
    "it began longer ago than a tick takes": (EARLIER, 120, "R", False),
}


@pytest.mark.parametrize(("holder", "ago", "state", "at_work"), AT_WORK.values(), ids=AT_WORK)
def test_whether_the_holder_ends_its_tick(  # noqa: PLR0917 - a table's columns
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    holder: Holder,
    ago: int,
    state: str,
    at_work: bool,  # noqa: FBT001 - a table's column
) -> None:
    monkeypatch.setattr(lease, "process_born", lambda _: (state, ME.born))
    path = held(tmp_path, holder, seconds_ago=ago)
    (tmp_path / "looked").touch()
    assert lease.is_at_work(path, holder, "here") == at_work
    if not at_work:
        with lease.held(path, ME) as beside:
            assert beside == holder, "at once: nobody waits for it"


def test_it_is_held_for_the_length_of_a_with_and_beside_a_holder_who_stays_it_is_left_to_that_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lease"
    with lease.held(path, ME) as beside:
        assert (beside, lease.read(path)) == (None, ME)
    assert not path.exists()
    held(tmp_path, ELSEWHERE, seconds_ago=0)
    with lease.held(path, ME, seconds=0.0) as beside:
        assert beside == ELSEWHERE
    assert lease.read(path) == ELSEWHERE


def test_where_the_disk_refuses_one_a_tick_goes_on_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, _: bytes) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    (tmp_path / "lease").mkdir()
    assert lease.take(tmp_path / "lease", ME, lambda _: False) is None, "a folder has that name"
    monkeypatch.setattr(lease, "create_once", full)
    with pytest.raises(OSError, match="No space left"):
        lease.take(tmp_path / "other", ME, lambda _: False)
    with lease.held(tmp_path / "other", ME) as beside:
        assert beside is None


@pytest.mark.parametrize("text", ["", "{", '{"host": 1}', "[]"], ids=["empty", "cut off", "of another form", "a list"])
def test_a_lease_that_cannot_be_read_stops_nobody_for_ever(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lease"
    path.write_text(text, encoding="utf-8")
    os.utime(path, (1, 1))
    assert lease.take(path, ME, lambda _: False) is None
