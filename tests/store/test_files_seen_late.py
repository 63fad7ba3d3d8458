"""Files that another machine has just made, or removed: this one may be told of it a minute late, but by a listing."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cronhpc.core.model import ClaimState, EntryState, Key, LinkKind, LinkRecord, Problem, Started, Way
from cronhpc.engine import read_entries
from cronhpc.engine.site import open_site
from cronhpc.store import entries, memory, scheduler
from cronhpc.store.claims import Claims
from cronhpc.store.files import Paths, is_listed, read_json, read_listed
from tests.cli.test_cli import Shell, later
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture

Unseen = Callable[..., None]


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> Unseen:
    """unseen(path, …): here they are said not to be there, until one is opened by a call that would make it."""
    names: set[str] = set()

    def late(call: Callable[..., Any]) -> Callable[..., Any]:
        def asked(path: Any, *args: Any, **more: Any) -> Any:
            if isinstance(path, int) or os.fspath(path) not in names:
                return call(path, *args, **more)
            if not (args and isinstance(args[0], int) and args[0] & os.O_CREAT):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            names.discard(os.fspath(path))
            return call(path, *args, **more)

        return asked

    for name in ("open", "stat", "lstat"):
        monkeypatch.setattr(os, name, late(getattr(os, name)))
    return lambda *paths: names.update(map(str, paths))


def test_a_file_that_is_never_removed_is_read_although_it_is_said_not_to_be_there(
    tmp_path: Path, unseen: Unseen
) -> None:
    path = tmp_path / "state.json"
    path.write_text('{"version": 1, "a": 2}')
    unseen(path)
    assert read_json(path, 1) == {"version": 1, "a": 2}


def test_in_anothers_folder_nothing_is_opened_so(
    tmp_path: Path, unseen: Unseen, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "status.json"
    path.write_text("{}")
    unseen(path)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert read_json(path, 1) is None


def test_one_that_may_be_removed_is_unknown_and_not_absent(tmp_path: Path, unseen: Unseen) -> None:
    path = tmp_path / "lease"
    path.touch()
    unseen(path)
    with pytest.raises(OSError, match="cannot be opened here yet") as caught:
        read_listed(path)
    assert (caught.value.errno, caught.value.filename) == (errno.ESTALE, str(path))


def test_what_is_absent_is_not_made_by_looking_for_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("none", "link", "folder/none"):
        assert (read_listed(tmp_path / name), read_json(tmp_path / name, 1)) == (None, None)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_where_the_folder_may_not_be_listed_a_stat_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "a").touch()
    monkeypatch.setattr(os, "listdir", refuse)
    assert (is_listed(tmp_path / "a"), is_listed(tmp_path / "b")) == (True, False)
    assert read_listed(tmp_path / "b") is None


def test_what_another_tick_has_written_since_is_merged_though_a_stat_still_tells_of_the_file_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "entries.json"
    memory.save(path, memory.Memory({"a": EntryState(watermark=60)}))
    here, before = memory.load(path), path.stat()
    memory.save(path, memory.Memory({"a": EntryState(watermark=120), "b": EntryState(suspended=120)}, data=here.data))
    monkeypatch.setattr(os, "stat", lambda *_, **__: before)
    memory.save(path, here)
    assert memory.load(path).entries == {"a": EntryState(watermark=120), "b": EntryState(suspended=120)}


def test_a_claim_with_which_another_has_gone_further_is_not_taken_back(tmp_path: Path, unseen: Unseen) -> None:
    claims, key = Claims(tmp_path), Key("a", 60)
    assert claims.make(key, "a", "me", 60)
    assert claims.record(key, "7", 60)
    unseen(tmp_path / str(key), tmp_path / f"{key}.id")
    assert claims.names() == {key: {"", ".id"}}
    assert claims.exists(key)
    claims.give_up(key)
    assert claims.exists(key)


def test_a_recorded_job_is_unknown_and_not_none(tmp_path: Path, unseen: Unseen) -> None:
    claims, key = Claims(tmp_path), Key("a", 60)
    assert claims.make(key, "a", "me", 60)
    assert claims.record(key, "7", 60)
    assert claims.step(key, ClaimState.RELEASING)
    unseen(tmp_path / f"{key}.go")
    with pytest.raises(OSError, match="cannot be opened here yet"):
        claims.look([key])


def test_a_claim_that_another_tick_forgets_after_it_was_listed_is_left_to_that_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken for one without a job, its job seemed to have begun before its release. Its slot is claimed still."""
    claims, key = Claims(tmp_path), Key("a", 60)
    monkeypatch.setattr(claims, "names", lambda: {key: {""}})
    (found,) = claims.read(())
    assert (found.key, found.state, found.job_id, found.fresh) == (key, ClaimState.CLAIMED, None, True)


def test_what_a_listing_of_a_minute_ago_does_not_show_yet_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims, key, other = Claims(tmp_path), Key("a", 60), Key("a", 120)
    assert claims.make(key, "a", "another", 60)
    listing = [path.name for path in tmp_path.iterdir()]
    monkeypatch.setattr(os, "listdir", lambda _: listing)
    assert [each.job_id for each in claims.look([key, other]).values()] == [None]
    assert claims.make(other, "a", "another", 60)
    for each in (key, other):
        assert claims.record(each, "7", 60)
    assert [each.job_id for each in claims.look([key, other]).values()] == ["7", "7"]
    assert claims.step(key, ClaimState.RELEASING)
    assert claims.look([key])[key].state is ClaimState.RELEASING


def test_a_link_whose_record_cannot_be_opened_yet_is_left_to_its_comment(tmp_path: Path, unseen: Unseen) -> None:
    paths = Paths(tmp_path)
    paths.scheduler.mkdir()
    for job_id in ("7", "8"):
        scheduler.remember_link(paths, job_id, LinkRecord(LinkKind.SUCCESSOR, 60, "f00d", 60))
    unseen(paths.scheduler / "links" / "7")
    assert scheduler.links(paths) == {"8": LinkRecord(LinkKind.SUCCESSOR, 60, "f00d", 60)}


def test_a_machine_that_looked_before_the_first_start_knows_that_it_was_called(shell: Shell, unseen: Unseen) -> None:
    paths = Paths(shell.cron)
    assert "not started" in shell("status").out
    scheduler.mark_started(paths, Started(via=Way.LOCAL, at=later()))
    unseen(paths.scheduler / "started")
    assert "not started" not in shell("status").out


@dataclass
class Row:
    """What a listing shows of a script whose stat says that it is not there."""

    path: str
    link: bool
    name: str = "new.slurm"

    def is_symlink(self) -> bool:
        return self.link

    def stat(self) -> os.stat_result:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)


@pytest.mark.parametrize(("link", "said"), [(False, "cannot be looked at here yet"), (True, "a link to nothing")])
def test_a_script_that_another_machine_has_just_dropped_is_no_link_to_nothing(
    tmp_path: Path, said: str, *, link: bool
) -> None:
    row = Row(str(tmp_path / "new.slurm"), link)
    found = entries.looked_at(row, "cron.d/new.slurm")  # type: ignore[arg-type]  # as much of one as is asked for
    assert isinstance(found, Problem)
    assert said in found.what


@pytest.mark.parametrize(("words", "code"), [(["--link", "7"], 75), ([], 2)])
def test_a_link_looks_again_where_the_disk_gave_no_answer(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int
) -> None:
    """It is told so as of a batch system that is silent: an error that passes must not cost an interval."""

    def stale(_: object) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(shell.cron / "state"))

    monkeypatch.setattr("cronhpc.engine.read.store_memory.load", stale)
    said = shell("tick", *words)
    assert (said.code, "Stale file handle" in said.err) == (code, True)


def test_a_listing_may_miss_a_script_once_and_of_one_that_is_missed_again_the_entry_goes(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.drop("cron.d/a.slurm", "#CRON @daily\ntrue")

    def look(*, misses: bool = False) -> list[str | None]:
        """The entries' problems, at a look that keeps what it has found for the next."""
        site = open_site(str(shell.cron), None, shell.environ)
        with monkeypatch.context() as patch:
            if misses:
                patch.setattr(read_entries, "scan", lambda *_: entries.Scan())
            looked = read_entries.read_entries(site, later())
        site.cache.keep("files", looked.parsed)
        site.cache.save()
        return [each.problem.code if each.problem else None for each in looked.entries]

    looks = [look(), look(misses=True), look(), look(misses=True), look(misses=True)]
    assert looks == [[None], ["E311"], [None], ["E311"], []]
