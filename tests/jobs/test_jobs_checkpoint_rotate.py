"""checkpoint-rotate: what stays, for any tree; and that nothing outside is ever reached."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checkpoint_rotate as rotate
from checkpoint_rotate import Checkpoint
from shelf import Broken
from tests.ready_made_jobs import Ended, environment, filled_in, run

MARKER = "complete"


def verdicts(*found: Checkpoint, last: int = 2, every: int = 0, latest: tuple[str, ...] = ()) -> dict[str, str]:
    """name -> "remove", or why it stays."""
    rows = rotate.plan(found, last=last, every=every, latest=frozenset(latest))
    return {each.name: why or "remove" for each, why in rows.items()}


def done(step: int, **more: bool) -> Checkpoint:
    return Checkpoint(f"checkpoint-{step}", step, at=float(step), **more)


# --- the plan ------------------------------------------------------------------------------------------------------


def test_the_last_two_complete_ones_stay_and_older_ones_go() -> None:
    assert verdicts(done(100), done(200), done(300)) == {
        "checkpoint-100": "remove",
        "checkpoint-200": "one of the last 2",
        "checkpoint-300": "one of the last 2",
    }


def test_steps_are_numbers_and_not_text() -> None:
    assert verdicts(done(900), done(1000), done(99))["checkpoint-99"] == "remove"


def test_incomplete_ones_stay_and_do_not_count() -> None:
    newest = Checkpoint("checkpoint-400", 400)
    got = verdicts(done(100), done(200), done(300), newest)
    assert got["checkpoint-400"] == "it has no marker: not complete, or not a checkpoint"
    assert [got["checkpoint-200"], got["checkpoint-300"]] == ["one of the last 2"] * 2


def test_every_kth_stays_by_its_step_so_that_the_same_ones_stay_next_time() -> None:
    rows = [done(step) for step in range(100, 1100, 100)]
    stay = {name for name, why in verdicts(*rows, every=500).items() if why != "remove"}
    assert stay == {"checkpoint-500", "checkpoint-900", "checkpoint-1000"}
    left = [row for row in rows if row.name in stay]
    assert "remove" not in verdicts(*left, every=500).values()


def test_after_a_restart_from_an_older_step_the_ones_written_last_stay_too() -> None:
    old = [Checkpoint(f"checkpoint-{step}", step, at=float(step)) for step in (700, 800, 900)]
    new = [Checkpoint(f"checkpoint-{step}", step, at=2000.0 + step) for step in (500, 600)]
    got = verdicts(*old, *new)
    assert [name for name, why in got.items() if why == "remove"] == ["checkpoint-700"]


STAYS = {
    "a link": (Checkpoint("checkpoint-1", 1, is_folder=False), (), "it is a link, or no folder"),
    "a folder without a number": (Checkpoint("best", None, at=1.0), (), "there is no step in its name"),
    "the one that `latest` names": (done(1), ("checkpoint-1",), "the one to resume from"),
    "the one whose step is named": (done(1), ("1",), "the one to resume from"),
    "one that is pinned": (done(1, pinned=True), (), "it holds a file keep"),
}


@pytest.mark.parametrize(("one", "latest", "why"), STAYS.values(), ids=STAYS)
def test_what_stays_however_old(one: Checkpoint, latest: tuple[str, ...], why: str) -> None:
    assert verdicts(one, done(8), done(9), latest=latest)[one.name] == why


def test_less_than_two_is_never_kept_even_where_asked() -> None:
    assert "remove" not in verdicts(done(1), done(2), last=0).values()


STEPS = {
    "checkpoint-1500": 1500,
    "global_step300": 300,
    "iter_0000300": 300,
    "epoch=3-step=1500": 1500,
    "final": None,
    "checkpoint-" + "9" * 30: int("9" * 12),
}


@pytest.mark.parametrize(("name", "step"), STEPS.items(), ids=STEPS)
def test_the_step_is_the_last_number_of_a_name(name: str, step: int | None) -> None:
    assert rotate.step_of(name) == step


# --- any tree: what a training, a person and an accident leave -----------------------------------------------------

KINDS = ("complete", "complete", "deep", "incomplete", "link", "file", "pinned", "deep", "marker is a link")
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a thousand trees are many files for a disk
trees = st.lists(
    st.tuples(
        st.sampled_from(("checkpoint-", "global_step", "other-", "checkpoint-x")),
        st.integers(0, 40),
        st.sampled_from(KINDS),
    ),
    max_size=9,
    unique_by=lambda row: (row[0], row[1]),
)


def build(root: Path, rows: list[tuple[str, int, str]], outside: Path) -> None:
    """A folder of checkpoints, some of which lead outside."""
    for number, (prefix, step, kind) in enumerate(rows):
        path = root / f"{prefix}{step}"
        if kind == "link":
            path.symlink_to(outside)
            continue
        if kind == "file":
            path.write_text("x", encoding="ascii")
            continue
        path.mkdir()
        if kind == "deep":
            (path / "deep/er").mkdir(parents=True)
            (path / "deep/er/weights").write_bytes(b"w" * 10)
            (path / "deep/away").symlink_to(outside)
            (path / "link to a file").symlink_to(outside / "precious")
        if kind == "pinned":
            (path / "keep").touch()
        if kind == "marker is a link":
            (path / MARKER).symlink_to(outside / MARKER)
        elif kind != "incomplete":
            (path / MARKER).touch()
            os.utime(path / MARKER, (number, number))


def complete_in(root: Path) -> list[tuple[int, str]]:
    """(step, name) of complete checkpoints, found by other means than the job's."""
    found = []
    for path in root.iterdir():
        marker = path / MARKER
        if path.is_symlink() or not path.is_dir() or not marker.is_file() or marker.is_symlink():
            continue
        if path.name.startswith(("checkpoint-", "global_step")):
            found.append((int(re.findall(r"\d+", path.name)[-1]), path.name))
    return sorted(found)


@pytest.mark.thorough
@settings(max_examples=1000)
@given(rows=trees, last=st.integers(2, 4), every=st.sampled_from((0, 0, 1, 7, 10)))
def test_in_any_tree_the_last_two_complete_ones_stay_and_nothing_goes_through_a_link_or_without_a_marker(
    rows: list[tuple[str, int, str]], last: int, every: int
) -> None:
    top = Path(tempfile.mkdtemp(prefix="rotate-", dir=IN_MEMORY))
    try:
        root, outside = top / "checkpoints", top / "outside"
        root.mkdir()
        outside.mkdir()
        (outside / "precious").write_text("p", encoding="ascii")
        (outside / MARKER).touch()
        build(root, rows, outside)
        before, names = complete_in(root), {path.name for path in root.iterdir()}

        failed = rotate.rotate(root, ["checkpoint-*", "global_step*"], MARKER, last=last, every=every, delete=True)

        left = {path.name for path in root.iterdir()}
        gone = names - left
        kept_steps = sorted({step for step, _ in before})[-2:]
        assert failed == 0
        assert left <= names, "nothing new is left behind"
        assert gone <= {name for _, name in before}, "nothing without the marker goes"
        assert not gone & {name for step, name in before if step in kept_steps}, "the last two stay"
        assert not gone & {f"{prefix}{step}" for prefix, step, kind in rows if kind in {"link", "pinned"}}
        assert not gone & {name for step, name in before if every and step % every == 0}
        assert sorted(path.name for path in outside.iterdir()) == [MARKER, "precious"], "nothing outside is touched"
        stay = {step for step, name in before if name in left}
        assert len(stay) >= min(2, len({step for step, _ in before}))
    finally:
        shutil.rmtree(top)


# --- the folder ----------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Five complete checkpoints, of 100 to 500 steps."""
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    build(folder, [("checkpoint-", step * 100, "complete") for step in range(1, 6)], tmp_path)
    return folder


def rotated(place: Path, **settings: str) -> Ended:
    script = filled_in("checkpoint-rotate", place.parent, **{"FOLDERS": f"('{place}')", "EVERY": "0", **settings})
    return run(script, environment(place.parent))


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@pytest.mark.processes
def test_by_default_it_only_prints(place: Path) -> None:
    before = names(place)
    ended = rotated(place)
    assert ended.code == 0
    assert f"would remove {place}/checkpoint-300: " in ended.out
    assert ended.last == "nothing was removed: with DELETE=yes at the top of the script it is"
    assert names(place) == before


@pytest.mark.processes
def test_with_the_flag_it_removes_and_says_how_much(place: Path) -> None:
    ended = rotated(place, DELETE="yes")
    assert ended.code == 0
    assert names(place) == ["checkpoint-400", "checkpoint-500"]
    assert f"removed {place}/checkpoint-100: " in ended.out


@pytest.mark.processes
def test_what_deepspeed_or_a_person_marks_stays(place: Path) -> None:
    (place / "latest").write_text("checkpoint-100\n", encoding="ascii")
    (place / "checkpoint-200/keep").touch()
    rotated(place, DELETE="yes")
    assert names(place) == ["checkpoint-100", "checkpoint-200", "checkpoint-400", "checkpoint-500", "latest"]


@pytest.mark.processes
def test_a_removal_that_was_cut_off_is_finished_by_the_next_run(place: Path) -> None:
    (place / "checkpoint-100").rename(place / ".checkpoint-100.removing")
    (place / ".other.removing").mkdir()
    ended = rotated(place, DELETE="yes")
    assert "finished removing .checkpoint-100.removing" in ended.out
    assert names(place) == [".other.removing", "checkpoint-400", "checkpoint-500"], "without a marker it is not ours"


def test_one_that_cannot_be_removed_is_said_and_the_others_are(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = rotate.remove

    def remove(folder: int, name: str, marker: str) -> int:
        if name == "checkpoint-200":
            raise PermissionError(13, "Permission denied", name)
        return real(folder, name, marker)

    monkeypatch.setattr(rotate, "remove", remove)
    assert rotate.rotate(place, ["checkpoint-*"], MARKER, last=2, every=0, delete=True) == 1
    assert names(place) == ["checkpoint-200", "checkpoint-400", "checkpoint-500"]


def test_one_that_became_incomplete_meanwhile_is_left_alone(place: Path) -> None:
    (place / "checkpoint-100" / MARKER).unlink()
    folder = os.open(place, os.O_RDONLY)
    try:
        with pytest.raises(Broken, match="not complete any more"):
            rotate.remove(folder, "checkpoint-100", MARKER)
    finally:
        os.close(folder)


SETTINGS = {
    "no folder": ({"FOLDERS": "()"}, "FOLDERS is empty"),
    "a folder that is not there": ({"FOLDERS": "(/nowhere/at/all)"}, "not mounted"),
    "fewer than two": ({"LAST": "1"}, "the last 2 complete ones always stay"),
    "a flag that is no flag": ({"DELETE": "true"}, "write yes or no"),
    "no marker": ({"MARKER": "''"}, "MARKER"),
    "a marker elsewhere": ({"MARKER": "../x"}, "MARKER"),
    "no pattern": ({"PATTERNS": "''"}, "PATTERNS"),
}


@pytest.mark.processes
@pytest.mark.parametrize(("wrong", "words"), SETTINGS.values(), ids=SETTINGS)
def test_settings_that_cannot_be_end_with_2_and_remove_nothing(place: Path, wrong: dict[str, str], words: str) -> None:
    ended = rotated(place, **{"DELETE": "yes", **wrong})
    assert ended.code == 2
    assert words in ended.last
    assert len(names(place)) == 5


@pytest.mark.processes
def test_a_folder_where_nothing_is_complete_says_what_it_looked_for(place: Path) -> None:
    ended = rotated(place, MARKER="done.json", DELETE="yes")
    assert ended.code == 0
    assert "no complete checkpoint here" in ended.out
    assert len(names(place)) == 5
