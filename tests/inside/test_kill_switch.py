"""KillSwitch: for loops that ask a million times, and for many ranks that must agree."""

import multiprocessing
import os
import subprocess  # noqa: TID251 - a fresh interpreter shows what an import costs
import sys
import time
import timeit
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import cronhpc
from cronhpc.inside import kill_switch, switch_file
from cronhpc.inside.kill_switch import KillSwitch


@pytest.mark.processes
def test_the_package_offers_it_and_is_nearly_free_to_import() -> None:
    assert cronhpc.KillSwitch is KillSwitch
    code = "import sys; n = len(sys.modules); import cronhpc; print(len(sys.modules) - n)"
    new = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert int(new.stdout) <= 2


def test_the_package_offers_nothing_else() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = cronhpc.nonsense


def test_it_follows_the_file(tmp_path: Path) -> None:
    switch = KillSwitch(tmp_path / "x", every=0)
    assert not switch.is_set()
    (tmp_path / "x").write_text("loss spikes")
    assert switch.is_set()
    assert switch.found is not None
    assert switch.found.reason == "loss spikes"
    (tmp_path / "x").unlink()
    assert not switch.is_set()


def test_between_looks_it_does_not_look(tmp_path: Path) -> None:
    switch = KillSwitch(tmp_path / "x", every=3600)
    assert not switch.is_set()
    (tmp_path / "x").touch()
    assert not switch.is_set()
    assert switch.look()
    assert switch.is_set()


def test_a_relative_path_is_that_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    switch = KillSwitch("x", every=0)
    monkeypatch.chdir("/")
    (tmp_path / "x").touch()
    assert switch.is_set()


@pytest.mark.parametrize("kind", ["dangling link", "folder", "fifo"])
def test_whatever_bears_the_name_is_a_switch(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "dangling link":
        path.symlink_to("/nowhere")
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    assert KillSwitch(path).is_set()


@pytest.mark.parametrize(
    ("text", "stands"), [("expires: 1h", True), ("expires: 2020-01-01", False), ("expires: ?", True)]
)
def test_an_expired_switch_does_not_stand(tmp_path: Path, text: str, stands: bool) -> None:  # noqa: FBT001 - a table
    (tmp_path / "x").write_text(text)
    assert KillSwitch(tmp_path / "x").is_set() is stands


def test_what_cannot_be_known_changes_nothing(tmp_path: Path) -> None:
    """A mount that is missing is no reason to stop, nor to go on after a stop."""
    folder = tmp_path / "mount"
    assert not KillSwitch(folder / "x", every=0).is_set()
    folder.mkdir()
    (folder / "x").touch()
    switch = KillSwitch(folder / "x", every=0)
    assert switch.is_set()
    folder.rename(tmp_path / "away")
    assert switch.is_set()


def test_a_file_that_only_a_listing_shows_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").touch()

    def stale(path: str) -> os.stat_result:
        raise FileNotFoundError(2, "not yet", path)

    monkeypatch.setattr("cronhpc.inside.switch_file.os.lstat", stale)
    found = switch_file.look(str(tmp_path / "x"))
    assert found is not None
    assert (found.by, found.since) == ("unknown", None)
    assert switch_file.look(str(tmp_path / "y")) is None


def test_a_file_that_was_removed_no_longer_counts_though_a_stat_still_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tmp_path.lstat()
    monkeypatch.setattr("cronhpc.inside.switch_file.os.lstat", lambda _: before)
    assert switch_file.look(str(tmp_path / "x")) is None


def test_between_looks_a_call_takes_less_than_a_third_of_a_microsecond(tmp_path: Path) -> None:
    switch = KillSwitch(tmp_path / "x", every=3600)
    switch.is_set()
    count = 20_000
    best = min(timeit.repeat(switch.is_set, number=count, repeat=15, timer=time.process_time)) / count
    assert best < 0.3e-6, f"{best * 1e9:.0f} ns"


def rank(number: int, path: str, told: list[Connection], tells: list[Connection], result: Connection) -> None:
    """The documented pattern: rank 0 looks, the others are told, all stop at the same step."""
    switch = KillSwitch(path, every=0.01)
    for step in range(100_000):
        if number == 0:
            stop = switch.is_set()
            for pipe in tells:
                pipe.send(stop)
        else:
            stop = told[number].recv()
        if stop:
            result.send((number, step))
            return
        if number == 0 and step == 20:
            Path(path).touch()
    result.send((number, -1))


@pytest.mark.processes
def test_of_many_ranks_all_stop_at_the_same_step(tmp_path: Path) -> None:
    ranks = 6
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(ranks)]
    results = [context.Pipe(duplex=False) for _ in range(ranks)]
    told, tells = [p[0] for p in pipes], [p[1] for p in pipes][1:]
    processes = [
        context.Process(target=rank, args=(n, str(tmp_path / "x"), told, tells, results[n][1])) for n in range(ranks)
    ]
    for process in processes:
        process.start()
    ended = [results[n][0].recv() if results[n][0].poll(20) else None for n in range(ranks)]
    for process in processes:
        process.join(5)
    steps = {step for _, step in filter(None, ended)}
    assert [number for number, _ in filter(None, ended)] == list(range(ranks))
    assert len(steps) == 1
    assert steps.pop() >= 20


def test_the_pattern_for_many_ranks_is_documented() -> None:
    assert "broadcast" in (kill_switch.__doc__ or "")
