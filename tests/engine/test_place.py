"""A cron directory that was copied or moved: its id marks jobs in the queue, so only one folder may have it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cronhpc.core.model import StateError
from cronhpc.engine import init
from cronhpc.engine.site import directory_id, open_site
from cronhpc.store.files import Paths, moved_from, must_be_no_copy


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A cron directory, as `init` makes it."""
    root = tmp_path / "first one"
    init.init(root, {"backend": "local"})
    return root


def copied(first: Path, second: Path) -> None:
    shutil.copytree(first, second)


def copied_and_the_first_renamed(first: Path, second: Path) -> None:
    copied(first, second)
    first.rename(first.with_name("old"))


def linked(first: Path, second: Path) -> None:
    second.symlink_to(first)


def moved(first: Path, second: Path) -> None:
    first.rename(second)


def restored(first: Path, second: Path) -> None:
    """A back-up of another day in its old place, seen from there."""
    copied(first, first.with_name("back-up"))
    shutil.rmtree(first)
    copied(first.with_name("back-up"), first)
    second.symlink_to(first)


@pytest.mark.parametrize(
    ("happened", "was_elsewhere"),
    [(copied_and_the_first_renamed, True), (linked, False), (moved, True), (restored, False)],
)
def test_a_folder_that_may_work(
    first: Path, tmp_path: Path, happened: Callable[[Path, Path], None], *, was_elsewhere: bool
) -> None:
    second = Paths(tmp_path / "second")
    happened(first, second.root)
    must_be_no_copy(second)
    assert moved_from(second) == (str(first) if was_elsewhere else "")


def test_a_copy_is_refused_until_it_has_an_id_of_its_own(first: Path, tmp_path: Path) -> None:
    second = Paths(tmp_path / "second")
    copied(first, second.root)
    with pytest.raises(StateError, match=r"is a copy of .*first one with the same id.*rm .*cronhpc init"):
        open_site(str(second.root), "local", {})
    open_site(str(first), "local", {})
    for folder in (second.state, second.scheduler):
        (folder / "id").unlink()
    init.init(second.root, {})
    open_site(str(second.root), "local", {})
    assert directory_id(second) != directory_id(Paths(first))


@pytest.mark.parametrize(
    "known",
    [
        "scheduler/links/54",
        "scheduler/successor",
        "scheduler/started",
        "scheduler/start.3",
        "scheduler/stop.2",
        "state/claims/arr@20261129T2030Z.1",
        "state/local/jobs/1/run.json",
        "state/daemon.json",
        "state/lease",
        "state/outbox.json",
    ],
)
def test_a_copy_with_an_id_of_its_own_knows_nothing_of_the_first_ones_jobs(
    first: Path, tmp_path: Path, known: str
) -> None:
    (first / known).parent.mkdir(parents=True, exist_ok=True)
    (first / known).write_text("54\n")
    (first / "scheduler" / "mine.slurm").write_text("#!/bin/bash\n")
    (first / "state" / "history").mkdir()
    second = Paths(tmp_path / "second")
    copied(first, second.root)
    for folder in (second.state, second.scheduler):
        (folder / "id").unlink()
    made = init.init(second.root, {})
    assert not (second.root / known).exists()
    assert (first / known).exists()
    assert (second.scheduler / "mine.slurm").exists()
    assert (second.state / "history").is_dir()
    assert second.claims.is_dir()
    assert f"jobs that are those of {first} is removed" in " ".join(made.lines)


@pytest.mark.parametrize("lost", [("state", "scheduler"), ("state",)], ids=["both ids", "one id"])
def test_who_lost_an_id_in_its_own_place_keeps_what_it_knows_of_jobs(first: Path, lost: tuple[str, ...]) -> None:
    claim = first / "state" / "claims" / "arr@20261129T2030Z.1"
    claim.write_text("54\n")
    for folder in lost:
        (first / folder / "id").unlink()
    init.init(first, {})
    assert claim.exists()
