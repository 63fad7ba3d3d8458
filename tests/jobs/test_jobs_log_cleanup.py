"""log-cleanup: which logs go, and that nothing else ever does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import log_cleanup
from log_cleanup import Limits, Log
from tests.ready_made_jobs import Ended, environment, filled_in, run, stand_in

DAY = 86400
NOW = 1795784840.0
NO = Limits(0, 0, 0)


def log(path: str, days: float, size: int = 10, *, live: bool = False) -> Log:
    return Log(path, NOW - days * DAY, size, live)


PLANS = {
    "no limits, nothing goes": ([log("a/1", 900), log("a/2", 900)], NO, []),
    "older than the limit": ([log("a/1", 31), log("a/2", 29), log("a/3", 1)], Limits(30 * DAY, 0, 0), ["a/1"]),
    "the newest of a folder stays however old": ([log("a/1", 90), log("b/1", 40)], Limits(30 * DAY, 0, 0), []),
    "more than so many in a folder": (
        [log("a/1", 3), log("a/2", 2), log("a/3", 1), log("b/1", 9)],
        Limits(0, 2, 0),
        ["a/1"],
    ),
    "more than so much in all": (
        [log("a/1", 3, 50), log("a/2", 2, 50), log("a/3", 1, 50)],
        Limits(0, 0, 100),
        ["a/1"],
    ),
    "those of jobs in the queue stay": (
        [log("a/1", 90, live=True), log("a/2", 80), log("a/3", 1)],
        Limits(30 * DAY, 1, 1),
        ["a/2"],
    ),
}


@pytest.mark.parametrize(("logs", "limits", "going"), PLANS.values(), ids=PLANS)
def test_which_logs_are_removed(logs: list[Log], limits: Limits, going: list[str]) -> None:
    assert sorted(each.path for each in log_cleanup.plan(logs, limits, NOW)) == going


_logs = st.lists(
    st.builds(
        log,
        st.sampled_from([f"{folder}/{number}" for folder in "abc" for number in range(9)]),
        st.floats(0, 100),
        st.integers(0, 99),
        live=st.booleans(),
    ),
    max_size=20,
    unique_by=lambda each: each.path,
)


@pytest.mark.thorough
@given(logs=_logs, age=st.integers(0, 50), count=st.integers(0, 5), total=st.integers(0, 300))
def test_what_stays_needs_no_second_look(logs: list[Log], age: int, count: int, total: int) -> None:
    limits = Limits(age * DAY, count, total)
    going = log_cleanup.plan(logs, limits, NOW)
    left = [each for each in logs if each not in going]
    assert not log_cleanup.plan(left, limits, NOW)
    assert not any(each.live for each in going)
    assert {Path(each.path).parent for each in left} == {Path(each.path).parent for each in logs}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Ten logs of one entry, a day apart; a file that is none, and a link that leads outside."""
    folder = tmp_path / "log/backup"
    folder.mkdir(parents=True)
    for number in range(10):
        path = folder / f"20261118T0400Z-{470 + number}.out"
        path.write_text("said", encoding="ascii")
        at = time.time() - (10 - number) * DAY  # noqa: TID251 - the job looks at this machine's clock
        os.utime(path, (at, at))
    for path in (folder / "notes.txt", tmp_path / "outside.out"):
        path.touch()
        os.utime(path, (0, 0))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/old.out").touch()
    os.utime(tmp_path / "elsewhere/old.out", (0, 0))
    (tmp_path / "log/away").symlink_to(tmp_path / "elsewhere")
    (folder / "linked.out").symlink_to(tmp_path / "outside.out")
    stand_in(tmp_path, "squeue", "exit 0")
    return tmp_path


def clean(place: Path, **settings: str) -> Ended:
    wanted = {"FOLDER": f"'{place}/log'", "AGE": "5d", **settings}
    return run(filled_in("log-cleanup", place, **wanted), environment(place))


def left(place: Path) -> int:
    return len(list((place / "log/backup").glob("2026*.out")))


@pytest.mark.processes
def test_by_default_it_only_prints(place: Path) -> None:
    ended = clean(place)
    assert ended.code == 0
    assert "would remove 5 of 10 logs" in ended.out or "would remove 6 of 10 logs" in ended.out
    assert ended.last == "nothing was removed: with DELETE=yes at the top of the script it is"
    assert left(place) == 10


@pytest.mark.processes
def test_with_the_flag_it_removes_logs_and_nothing_else(place: Path) -> None:
    assert clean(place, DELETE="yes", COUNT="3").code == 0
    assert left(place) == 3
    for path in ("log/backup/notes.txt", "outside.out", "elsewhere/old.out"):
        assert (place / path).exists(), path
    assert (place / "log/backup/linked.out").is_symlink()
    assert (place / "log/away").is_symlink()


@pytest.mark.processes
def test_the_log_of_a_job_that_is_in_the_queue_stays_however_old(place: Path) -> None:
    row = "\\x1e470\\x1f470\\x1fRUNNING\\x1fNone\\x1fme\\x1f1\\x1f\\x1f/x\\x1fbackup\\n"
    stand_in(place, "squeue", f"case \"$*\" in *StdOut*) ;; *) printf '{row}' ;; esac")
    clean(place, DELETE="yes", COUNT="1")
    assert sorted(path.stem[-3:] for path in (place / "log/backup").glob("2026*.out")) == ["470", "479"]


@pytest.mark.processes
def test_what_a_job_in_the_queue_writes_stays_whatever_its_name(place: Path) -> None:
    folder = f"{place}/log/backup"
    row = "\\x1f".join(["99", "99", folder, "20261118T0400Z-471.out", f"{folder}/20261118T0400Z-4%%N3.out", "\\n"])
    stand_in(place, "squeue", f"case \"$*\" in *StdOut*) printf '{row}' ;; esac")
    clean(place, DELETE="yes", COUNT="1")
    assert sorted(path.stem[-3:] for path in (place / "log/backup").glob("2026*.out")) == ["471", "473", "479"]


@pytest.mark.processes
def test_what_was_written_since_a_job_began_that_still_runs_is_not_too_old(place: Path) -> None:
    logs = sorted((place / "log/backup").glob("2026*.out"))
    began = int(logs[2].stat().st_mtime) - 60  # the third one was written a minute later
    stand_in(place, "squeue", f"case \"$*\" in *'-o %S') echo N/A; echo {began + DAY}; echo {began};; esac")
    clean(place, DELETE="yes", COUNT="0", TOTAL="0")
    assert sorted((place / "log/backup").glob("2026*.out")) == logs[2:]


@pytest.mark.processes
def test_beside_slurm_what_was_written_since_the_first_job_began_stays_and_what_has_its_number(place: Path) -> None:
    logs = sorted((place / "log/backup").glob("2026*.out"))
    began = int(logs[7].stat().st_mtime) + 1800 - 60  # clocks may be half an hour apart
    start = time.strftime("%b %d %H:%M", time.gmtime(began))
    stand_in(
        place,
        "bjobs",
        f"[ \"$*\" = \"-r -u $(id -un) -noheader -o start_time jobid delimiter='|'\" ] &&\necho '{start}|472'",
    )
    script = filled_in("log-cleanup", place, FOLDER=f"'{place}/log'", DELETE="yes", COUNT="1")
    ended = run(script, environment(place, LSB_JOBID="9", LSB_JOBNAME="log-cleanup"))
    assert ended.code == 0, ended.out
    assert sorted(path.stem[-3:] for path in (place / "log/backup").glob("2026*.out")) == ["472", "477", "478", "479"]
    stand_in(place, "bjobs", "echo 'LSF is down. Please wait ...'; exit 255")
    ended = run(script, environment(place, LSB_JOBID="9", LSB_JOBNAME="log-cleanup"))
    assert (ended.code, "the queue is unknown" in ended.out) == (2, True)


@pytest.mark.processes
def test_a_queue_that_does_not_answer_ends_it_with_nothing_removed(place: Path) -> None:
    stand_in(place, "squeue", "echo unable to contact >&2; exit 1")
    ended = clean(place, DELETE="yes", COUNT="1")
    assert ended.code == 2
    assert "the queue is unknown" in ended.last
    assert left(place) == 10


def test_a_folder_that_is_swapped_for_a_link_is_not_followed(place: Path) -> None:
    folder = os.open(place / "log", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match=r"Not a directory|symbolic"):
            log_cleanup.remove(folder, "away/old.out")
    finally:
        os.close(folder)
    assert (place / "elsewhere/old.out").exists()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"AGE": "5"}, "is no duration"),
        ({"TOTAL": "much"}, "is no size"),
        ({"ENDINGS": "''"}, "ENDINGS is empty"),
        ({"ENDINGS": "'*.out'"}, "without * or /"),
    ],
    ids=["an age", "a size", "no ending", "a pattern for an ending"],
)
def test_settings_that_cannot_be_end_with_2(place: Path, wrong: dict[str, str], words: str) -> None:
    ended = clean(place, DELETE="yes", **wrong)
    assert (ended.code, left(place)) == (2, 10)
    assert words in ended.last
