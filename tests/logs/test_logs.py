"""Logs on disk: only they go, whatever a teammate puts in their place."""

from __future__ import annotations

import contextlib
import grp  # noqa: F401 -- read here, for users who may not read this Python's own folder
import os
import signal
import socket
import subprocess  # noqa: TID251 - mounts a small file system
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cronhpc import tick
from cronhpc.batch.port import JobFiles, Unreachable
from cronhpc.core import retention
from cronhpc.core.model import Job, LogFile, Queue, Result, Settings, slot_text
from cronhpc.core.retention import Cleaned
from cronhpc.logs.clean import clean_logs
from cronhpc.logs.housekeeping import clean_when_due
from cronhpc.store import history, logs
from cronhpc.store.files import Paths
from tests.worlds import at, world

NOW = 1_795_800_000  # 2026-11-27T17:20:00Z
HOUR, DAY = 3600, 86400
ALICE, BOB = 61_001, 61_002  # of nobody on this machine
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="being two users needs root")
SETTINGS = Settings()


@pytest.fixture
def cron(tmp_path: Path) -> Path:
    root = tmp_path / "cron"
    for folder in ("log/backup", "scheduler", "state"):
        (root / folder).mkdir(parents=True)
    (root / "cronhpc.yaml").touch()
    (root / "status.json").touch()
    os.utime(root / "status.json", (NOW + 30 * DAY,) * 2)  # what the file system's clock says
    root.chmod(0o755)
    return root


def put(path: Path, text: str = "printed\n", *, age: int = 30 * DAY) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (NOW - age, NOW - age))
    return path


def run_log(cron: Path, age: int, job: int | str = 1, *, entry: str = "backup", text: str = "printed\n") -> Path:
    """A log as cronhpc names it; the file itself is of now."""
    return put(cron / "log" / entry / f"{slot_text(NOW - age)}-{job}.out", text, age=0)


def clean(
    cron: Path,
    settings: Settings = SETTINGS,
    *,
    live: frozenset[str] | None = frozenset(),
    failed: Mapping[str, str] | None = None,
    most: int = 5000,
    dry_run: bool = False,
    live_files: Callable[[], tuple[JobFiles, ...]] = tuple,
) -> Cleaned:
    return clean_logs(
        Paths(cron),
        settings,
        NOW,
        live=live,
        live_files=live_files,
        newest_failed=failed or {},
        most=most,
        dry_run=dry_run,
    )


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def said(cleaned: Cleaned) -> str:
    return " ".join(map(str, cleaned.problems))


# --- what goes -----------------------------------------------------------------------------------------------------


def test_old_logs_go_and_young_ones_stay(cron: Path) -> None:
    old, young = run_log(cron, 8 * DAY, 1), run_log(cron, DAY, 2)
    cleaned = clean(cron)
    assert (old.exists(), young.exists()) == (False, True)
    assert (cleaned.removed, cleaned.kept, cleaned.reasons) == (1, 1, {"too old": 1})
    assert cleaned.problems == ()


def test_a_file_that_is_not_named_as_cronhpc_names_logs_is_the_user_s_for_ever(cron: Path) -> None:
    theirs = [
        *("log/hand-made.out", "log/20260101T0000Z-1.out", "log/backup/core.123", "log/backup/notes"),
        *("log/backup/20260101T0000Z-1.err", "log/backup/x20260101T0000Z-1.out", "log/backup/slurm-17.out"),
        *("log/theirs/results.csv", "log/theirs/deep/20260101T0000Z-1.out"),
    ]
    for name in theirs:
        put(cron / name, age=800 * DAY)
    mine = run_log(cron, 8 * DAY)
    cleaned = clean(cron, replace(SETTINGS, logs_files=1, logs_total=1))
    assert (cleaned.removed, mine.exists()) == (1, False)
    assert [name for name in theirs if not (cron / name).exists()] == []


def test_of_a_folder_of_the_user_s_own_nothing_is_said(cron: Path) -> None:
    put(cron / "log/theirs/deep/results.csv")
    (cron / "log/theirs/latest").symlink_to("deep")
    assert clean(cron).problems == ()


def test_nothing_outside_log_goes(cron: Path) -> None:
    for place in ("scheduler/x.out", "state/x.out", "cron.daily/x.out", "x.out"):
        put(cron / place)
    put(cron.parent / "x.out")
    clean(cron)
    assert [path.name for path in sorted(cron.parent.rglob("x.out"))] == ["x.out"] * 5


def test_an_entry_s_folder_stays_though_it_is_empty_because_its_next_run_needs_it(cron: Path) -> None:
    run_log(cron, 8 * DAY)
    os.utime(cron / "log/backup", (1, 1))
    clean(cron)
    assert names(cron / "log") == ["backup"]


def test_folders_in_an_entry_s_folder_are_not_entered_and_are_named(cron: Path) -> None:
    deep = put(cron / "log/backup/results/20260101T0000Z-1.out")
    run_log(cron, DAY)
    assert "log/backup holds 1 folder (results), left alone" in said(clean(cron))
    assert deep.exists()


def test_dot_files_stay(cron: Path) -> None:
    put(cron / "log/backup/.nfs0000001")
    put(cron / "log/.keep")
    assert clean(cron).removed == 0


def test_a_live_run_s_log_and_the_newest_failed_one_stay(cron: Path) -> None:
    live, failed, old = run_log(cron, 40 * DAY, 4711), run_log(cron, 30 * DAY, 4655), run_log(cron, 20 * DAY, 4656)
    cleaned = clean(cron, live=frozenset({"4711"}), failed={"backup": f"log/backup/{failed.name}"})
    assert (live.exists(), failed.exists(), old.exists()) == (True, True, False)
    assert cleaned.stays == {"its run is live, or ended lately": 1, "the newest failed run's": 1}


def test_where_the_queue_is_unknown_nothing_goes(cron: Path) -> None:
    old = run_log(cron, 8 * DAY)
    cleaned = clean(cron, live=None)
    assert old.exists()
    assert "does not answer" in said(cleaned)


def test_logs_of_entries_of_any_name_go(cron: Path) -> None:
    for name in ("-rf", "two words", "new\nline", "*", "ünï", b"\xff\xfe".decode("utf-8", "surrogateescape")):
        run_log(cron, 8 * DAY, entry=name)
    assert clean(cron).removed == 6


def test_count_and_total_apply_on_disk_too(cron: Path) -> None:
    for hour in range(6):
        run_log(cron, hour * HOUR, hour + 1, text="x" * 100)
    many = clean(cron, replace(SETTINGS, logs_files=4))
    assert (many.reasons, many.bytes) == ({"too many": 2}, 200)
    large = clean(cron, replace(SETTINGS, logs_total=250))
    assert (large.reasons, large.bytes, large.kept) == ({"too much in all": 2}, 200, 2)
    assert names(cron / "log/backup") == sorted(f"{slot_text(NOW - hour * HOUR)}-{hour + 1}.out" for hour in range(2))


def test_the_total_is_over_all_folders_and_the_one_that_takes_most_gives(cron: Path) -> None:
    calm = run_log(cron, 6 * DAY, 1, entry="calm", text="x" * 50)
    for hour in range(4):
        run_log(cron, hour * HOUR, hour + 1, entry="loud", text="x" * 100)
    assert clean(cron, replace(SETTINGS, logs_total=260)).folders == {"log/loud": {"too much in all": 2}}
    assert calm.exists()


def test_a_hard_link_s_size_is_not_the_folder_s(cron: Path) -> None:
    """Else planting a second name of one large file would push all logs out."""
    large = put(cron.parent / "large", "x" * 1000, age=0)
    mine = run_log(cron, HOUR, text="x" * 100)
    os.link(large, cron / "log/backup/large.out")
    assert clean(cron, replace(SETTINGS, logs_total=200)).removed == 0
    assert mine.exists()


def test_a_hard_link_named_like_a_young_log_has_no_size_either(cron: Path) -> None:
    large = put(cron.parent / "large", "x" * 1000, age=0)
    mine = run_log(cron, HOUR, text="x" * 100)
    os.link(large, cron / f"log/backup/{slot_text(NOW)}-2.out")
    assert clean(cron, replace(SETTINGS, logs_total=200)).removed == 0
    assert mine.exists()


# --- what live jobs write -------------------------------------------------------------------------------------------


def writes(*paths: Path) -> Callable[[], tuple[JobFiles, ...]]:
    """One live job that writes these."""
    return lambda: (JobFiles("4711", "", "/", tuple(map(str, paths))),)


def test_what_a_live_job_writes_stays_whatever_its_name(cron: Path) -> None:
    extra = cron.parent / "extra"
    log, silent, over = put(extra / "tr17.log"), put(extra / "done.log"), run_log(cron, 8 * DAY)
    (cron.parent / "alias").symlink_to(extra)
    limits = replace(SETTINGS, logs_extra=((str(extra), "*.log"),))
    cleaned = clean(cron, limits, live_files=writes(cron.parent / "alias/tr17.log", over))
    assert (log.exists(), silent.exists(), over.exists()) == (True, False, True)
    assert cleaned.stays == {"its run is live, or ended lately": 2}


def when_due(
    cron: Path,
    now: int,
    queue: Queue | None = Queue(()),  # noqa: B008 - frozen
    settings: Settings = SETTINGS,
    **how: Any,
) -> Cleaned | None:
    site: Any = SimpleNamespace(paths=Paths(cron), settings=settings, batch=SimpleNamespace(live_files=tuple))
    return clean_when_due(site, now, queue, (), **how)


BEGAN = {  # a log last written 9 days ago, with a limit of 7, beside a job that runs
    "that began before it was written: it may be that job's": ([Job("1", "RUNNING", start=NOW - 10 * DAY)], True),
    "that was put to sleep": ([Job("1", "SUSPENDED", start=NOW - 10 * DAY)], True),
    "of which nobody knows when it began": ([Job("1", "RUNNING", start=None)], True),
    "that began a minute later, by a clock that may be off": ([Job("1", "RUNNING", start=NOW - 9 * DAY + 60)], True),
    "that began later": ([Job("1", "RUNNING", start=NOW - 8 * DAY)], False),
    "that waits": ([Job("1", "PENDING", start=NOW - 10 * DAY)], False),
    "that has ended": ([Job("1", "COMPLETED", start=NOW - 10 * DAY)], False),
    "among others": ([Job("1", "RUNNING", start=NOW - DAY), Job("2", "RUNNING", start=NOW - 10 * DAY)], True),
}


@pytest.mark.parametrize(("jobs", "stays"), BEGAN.values(), ids=BEGAN)
def test_what_a_job_may_have_opened_by_itself_stays_while_it_runs(cron: Path, jobs: list[Job], stays: bool) -> None:  # noqa: FBT001 - a table's column
    extra = cron.parent / "extra"
    written, before, over = (
        put(extra / "step.log", age=9 * DAY),
        put(extra / "a.log", age=11 * DAY),
        run_log(cron, 9 * DAY),
    )
    limits = replace(SETTINGS, logs_extra=((str(extra), "*.log"),))
    others = Queue(tuple(replace(job, id=f"9{job.id}") for job in jobs))
    when_due(cron, NOW, others, limits, always=True)
    assert (written.exists(), before.exists(), over.exists()) == (stays, None in {j.start for j in jobs}, False)


def test_a_dry_run_does_not_name_what_a_live_job_writes(cron: Path) -> None:
    over = run_log(cron, 8 * DAY)
    cleaned = clean(cron, live_files=writes(over), dry_run=True)
    assert (cleaned.removed, cleaned.files, cleaned.kept) == (0, (), 1)


def test_without_an_answer_what_live_jobs_write_is_not_known_and_nothing_goes(cron: Path) -> None:
    def silent() -> tuple[JobFiles, ...]:
        raise Unreachable("no answer in time")

    logs_ = [run_log(cron, 8 * DAY), run_log(cron, 8 * DAY, entry="other"), put(cron.parent / "extra/old.log")]
    cleaned = clean(cron, replace(SETTINGS, logs_extra=((str(cron.parent / "extra"), "*.log"),)), live_files=silent)
    assert [path.exists() for path in logs_] == [True, True, True]
    assert (cleaned.removed, cleaned.left, len(cleaned.problems)) == (0, True, 1)
    assert "does not answer" in said(cleaned)


def test_it_is_not_asked_where_nothing_is_to_go(cron: Path) -> None:
    def never() -> tuple[JobFiles, ...]:
        raise AssertionError

    run_log(cron, DAY)
    assert clean(cron, live_files=never).kept == 1


# --- bounded, and said before --------------------------------------------------------------------------------------


def test_a_tick_removes_its_share_and_says_that_more_is_due(cron: Path) -> None:
    for entry in ("a", "b"):
        for age in range(10, 20):
            run_log(cron, age * DAY, age, entry=entry)
    first = clean(cron, most=15)
    assert (first.removed, first.left) == (15, True)
    assert len(names(cron / "log/a")) + len(names(cron / "log/b")) == 5
    second = clean(cron, most=15)
    assert (second.removed, second.left) == (5, False)


def test_of_one_folder_the_oldest_go_first(cron: Path) -> None:
    for age in range(10, 15):
        run_log(cron, age * DAY, age)
    clean(cron, most=2)
    assert names(cron / "log/backup") == sorted(f"{slot_text(NOW - age * DAY)}-{age}.out" for age in range(10, 13))


def test_a_share_that_is_just_enough_leaves_nothing_due(cron: Path) -> None:
    run_log(cron, 8 * DAY)
    assert clean(cron, most=1).left is False


def whole(cron: Path) -> None:
    """One of each reason."""
    for hour in range(8):
        run_log(cron, hour * HOUR, hour + 1, entry="many", text="x" * 10)
    for hour in range(4):
        run_log(cron, hour * HOUR, hour + 1, entry="loud", text="x" * 100)
    run_log(cron, 8 * DAY, 9, entry="old", text="x" * 7)
    run_log(cron, 8 * DAY, 9, entry="older", text="x" * 5)


def test_a_dry_run_removes_nothing_and_says_what_the_real_one_then_does(cron: Path) -> None:
    whole(cron)
    limits = replace(SETTINGS, logs_files=5, logs_total=300)
    before = sorted(cron.rglob("*"))
    dry = clean(cron, limits, dry_run=True)
    assert sorted(cron.rglob("*")) == before
    done = clean(cron, limits)
    assert (dry.removed, dry.reasons, dry.kept, dry.stays) == (done.removed, done.reasons, done.kept, done.stays)
    assert dry.reasons == {"too old": 2, "too many": 3, "too much in all": 2}
    assert dry.bytes == 7 + 5 + 3 * 10 + 2 * 100
    gone = {str(path.relative_to(cron)) for path in before} - {str(path.relative_to(cron)) for path in cron.rglob("*")}
    assert {file for file, _ in dry.files} == gone


def test_two_at_work_at_once_count_each_file_once(cron: Path) -> None:
    run_log(cron, 8 * DAY, 1)
    run_log(cron, 9 * DAY, 2)
    paths = Paths(cron)
    with logs.opened(paths, SETTINGS) as log, logs.entered(log, "backup") as folder:
        listed = logs.listing(folder).files
        assert clean(cron).removed == 2
        assert logs.removed(folder, listed) == logs.Removal(0)


def test_a_file_that_is_written_to_meanwhile_stays(cron: Path) -> None:
    path = put(cron / "log/backup/train.out", age=8 * DAY)
    with logs.opened(Paths(cron), SETTINGS) as log, logs.entered(log, "backup") as folder:
        files = logs.measured(folder, ["train.out"])
        assert logs.unchanged(folder, files) == ["train.out"]
        path.write_text("it goes on", encoding="utf-8")
        assert logs.unchanged(folder, files) == []


def test_a_file_that_is_written_to_while_it_is_judged_stays(cron: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run_log(cron, DAY)
    run_log(cron, HOUR, 2)
    judge = retention.judge

    def slowly(entry: str, files: list[LogFile], rules: retention.Rules) -> Any:
        if entry:
            path.write_text("it goes on", encoding="utf-8")
        return judge(entry, files, rules)

    monkeypatch.setattr(retention, "judge", slowly)
    assert clean(cron, replace(SETTINGS, logs_files=1)).removed == 0
    assert path.exists()


def test_while_the_disk_is_nearly_full_the_limits_are_halved_and_it_is_said(
    cron: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_log(cron, 5 * DAY, 1)
    run_log(cron, 3 * DAY, 2)
    monkeypatch.setattr(logs, "space", lambda _: logs.Space(1 << 40, 1 << 41, 9, 1000))
    cleaned = clean(cron)
    assert cleaned.scarce == "the file system has 0.9 % of its inodes left"
    assert (cleaned.removed, cleaned.kept) == (1, 1)


# --- what could stand in log/'s place ------------------------------------------------------------------------------


def outside(cron: Path) -> Path:
    """A folder of things that must never go."""
    folder = cron.parent / "precious"
    for number in range(3):
        put(folder / f"20260101T0000Z-{number}.out")
        put(folder / "sub" / f"20260101T0000Z-{number}.out")
    return folder


def all_there(folder: Path) -> bool:
    return sum(path.is_file() for path in folder.rglob("*")) == 6


def without_marker(cron: Path) -> None:
    (cron / "cronhpc.yaml").unlink()


def linked_log(cron: Path) -> None:
    (cron / "log").rename(cron / "real")
    (cron / "log").symlink_to(cron / "real")


def linked_to_precious(cron: Path) -> None:
    (cron / "log").rename(cron / "real")
    (cron / "log").symlink_to(outside(cron))


def file_for_log(cron: Path) -> None:
    (cron / "log").rename(cron / "real")
    (cron / "log").touch()


def anyone_may_write_beside_log(cron: Path) -> None:
    cron.chmod(0o777)


REFUSED: list[tuple[str, Callable[[Path], None], str]] = [
    ("without the marker it is no cron directory", without_marker, "it is no cron directory, so nothing was removed"),
    ("log/ is a link", linked_log, "log is a link, or no folder: nothing is removed through it"),
    ("log/ is a link to elsewhere", linked_to_precious, "log is a link, or no folder"),
    ("log/ is a file", file_for_log, "log is a link, or no folder"),
    ("others can put another folder in log/'s place", anyone_may_write_beside_log, "chmod go-w"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_nothing_goes_where(cron: Path, change: Callable[[Path], None], words: str) -> None:
    run_log(cron, 8 * DAY)
    change(cron)
    cleaned = clean(cron)
    assert words in said(cleaned)
    assert cleaned.removed == 0
    assert len([path for path in cron.parent.rglob("2*.out") if "precious" not in str(path)]) == 1


def test_a_folder_that_is_not_mounted_is_said_and_nothing_is_made(cron: Path) -> None:
    cron.rename(cron.parent / "unmounted")
    assert "cron cannot be opened: No such file or directory" in said(clean(cron))
    assert not cron.exists()


def test_a_cron_directory_that_has_no_log_yet_is_fine(cron: Path) -> None:
    (cron / "log/backup").rmdir()
    (cron / "log").rmdir()
    assert clean(cron) == Cleaned()


# --- what could stand in the place of a log or of its folder -------------------------------------------------------


def test_links_are_left_and_named_and_what_they_point_at_stays(cron: Path) -> None:
    precious = outside(cron)
    (cron / "log/evil").symlink_to(precious)
    (cron / "log/evil.out").symlink_to(precious / "20260101T0000Z-1.out")
    (cron / "log/backup/20260101T0000Z-7.out").symlink_to(precious / "20260101T0000Z-1.out")
    (cron / "log/backup/gone.out").symlink_to("/nowhere")
    cleaned = clean(cron)
    assert all_there(precious)
    assert cleaned.removed == 0
    assert "log holds 2 links (evil, evil.out), left alone" in said(cleaned)
    assert "log/backup holds 2 links" in said(cleaned)


def test_a_thousand_links_are_one_complaint(cron: Path) -> None:
    for number in range(1000):
        (cron / f"log/backup/20260101T0000Z-{number}.out").symlink_to("/etc/passwd")
    cleaned = clean(cron)
    assert len(cleaned.problems) == 1
    assert "holds 1000 links (" in said(cleaned)


def test_a_hard_link_loses_its_name_here_and_no_other(cron: Path) -> None:
    precious = outside(cron)
    for number in range(3):
        os.link(precious / f"20260101T0000Z-{number}.out", cron / f"log/backup/20260101T0000Z-{number}.out")
    assert clean(cron).removed == 3
    assert all_there(precious)


def test_what_is_neither_file_nor_folder_stays(cron: Path) -> None:
    folder = cron / "log/backup"
    os.mkfifo(folder / "20260101T0000Z-1.out")
    (folder / "20260101T0000Z-2.out").mkdir()
    with contextlib.chdir(folder), socket.socket(socket.AF_UNIX) as console:
        console.bind("20260101T0000Z-3.out")
    clean(cron)
    assert len(names(folder)) == 3


def test_a_folder_moved_away_after_it_was_listed_and_a_link_put_there(cron: Path) -> None:
    precious = outside(cron)
    for number in range(3):
        run_log(cron, 300 * DAY, number)
    with logs.opened(Paths(cron), SETTINGS) as log, logs.entered(log, "backup") as folder:
        listed = logs.listing(folder).files
        (cron / "log/backup").rename(cron / "log/aside")
        (cron / "log/backup").symlink_to(precious)
        assert logs.removed(folder, listed).count == 3
    assert all_there(precious)
    assert names(cron / "log/aside") == []


def test_a_link_put_in_a_file_s_place_after_it_was_listed(cron: Path) -> None:
    precious = outside(cron)
    path = run_log(cron, 300 * DAY)
    with logs.opened(Paths(cron), SETTINGS) as log, logs.entered(log, "backup") as folder:
        path.unlink()
        path.symlink_to(precious / "20260101T0000Z-1.out")
        logs.removed(folder, [path.name])
    assert all_there(precious)


def test_a_folder_put_in_a_file_s_place_is_an_error_and_the_rest_goes(cron: Path) -> None:
    first, second = run_log(cron, 300 * DAY, 1), run_log(cron, 200 * DAY, 2)
    with logs.opened(Paths(cron), SETTINGS) as log, logs.entered(log, "backup") as folder:
        first.unlink()
        put(first / "inside")
        removal = logs.removed(folder, [first.name, second.name])
    assert (removal.count, len(removal.errors)) == (1, 1)
    assert (first / "inside").exists()


@AS_ROOT
def test_another_user_s_folder_is_left(cron: Path) -> None:
    log = run_log(cron, 8 * DAY)
    os.chown(log.parent, BOB, BOB)
    assert f"log/backup belongs to {BOB}: what is in it was left" in said(clean(cron))
    assert log.exists()


@AS_ROOT
def test_in_a_sticky_folder_of_all_only_names_of_ours_go(cron: Path) -> None:
    """Bob may not rename what is in it, but where he may move such a folder he could put it into log/."""
    (cron / "log/backup").chmod(0o1777)
    log, other = run_log(cron, 8 * DAY), put(cron / "log/backup/thesis.tex")
    clean(cron)
    assert (log.exists(), other.exists()) == (False, True)


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A small file system of its own at `folder`."""
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("nothing may be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.processes
@AS_ROOT
def test_another_file_system_below_log_is_left(cron: Path) -> None:
    with mounted(cron / "log/backup", "size=1m"):
        log = run_log(cron, 8 * DAY)
        assert "log/backup is another file system: what is in it was left" in said(clean(cron))
        assert log.exists()


@pytest.mark.processes
@AS_ROOT
def test_a_file_system_that_runs_out_of_inodes_halves_the_limits(cron: Path) -> None:
    with mounted(cron / "log", "size=1m,nr_inodes=60"):
        for job in range(57):
            run_log(cron, 5 * DAY, job)
        cleaned = clean(cron)
        assert cleaned.scarce == "the file system has 1.7 % of its inodes left"
        assert cleaned.removed == 57


# --- two users -----------------------------------------------------------------------------------------------------


@pytest.fixture
def shared(cron: Path) -> Path:
    """Alice's cron directory, in a place that both come to; bob may write to log/ and to its folders."""
    for folder in (cron, *cron.parents):
        if folder.stat().st_mode & 0o005 != 0o005:
            folder.chmod(folder.stat().st_mode | 0o055)
    for folder in (cron, *cron.rglob("*")):
        os.chown(folder, ALICE, ALICE)
    for name in ("log", "log/backup"):
        (cron / name).chmod(0o777)
    return cron


def forked(uid: int, act: Callable[[], None]) -> int:
    """`act` in a process of that user's; its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        act()
        code = 0
    finally:
        os._exit(code)


def as_user(uid: int, act: Callable[[], None]) -> None:
    _, status = os.waitpid(forked(uid, act), 0)
    assert os.waitstatus_to_exitcode(status) == 0


@contextlib.contextmanager
def at_the_same_time(uid: int, act: Callable[[], None]) -> Iterator[None]:
    """While the block runs, that user does it again and again."""

    def always() -> None:
        while True:
            act()

    pid = forked(uid, always)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.processes
@AS_ROOT
def test_a_thousand_planted_links_hard_links_and_swapped_folders_delete_nothing_else(shared: Path) -> None:
    precious = outside(shared)
    for path in (precious, *precious.rglob("*")):
        os.chown(path, ALICE, ALICE)
    for number in range(1000):  # hard links by root: the kernel may forbid them to bob
        os.link(precious / f"20260101T0000Z-{number % 3}.out", shared / f"log/backup/20260102T0000Z-{number}.out")

    def plant() -> None:
        for number in range(1000):
            (shared / f"log/backup/20260103T0000Z-{number}.out").symlink_to(
                precious / f"20260101T0000Z-{number % 3}.out"
            )
        for number in range(50):
            (shared / f"log/link{number}").symlink_to(precious)
            (shared / f"log/up{number}").symlink_to("..")

    as_user(BOB, plant)
    young = run_log(shared, HOUR, 5)
    os.chown(young, ALICE, ALICE)

    def swap() -> None:
        log = shared / "log"
        (log / "backup").rename(log / "aside")
        (log / "backup").symlink_to(precious)
        (log / "backup").unlink()
        (log / "aside").rename(log / "backup")

    def tidy() -> None:
        total = sum(clean(shared, most=100).removed for _ in range(60))
        assert 0 < total <= 1000

    with at_the_same_time(BOB, swap):
        as_user(ALICE, tidy)
    assert all_there(precious)
    assert list(shared.glob("log/*/" + young.name)) != [], "wherever the folder was left by the last exchange"
    assert (shared / "cronhpc.yaml").exists()


@pytest.mark.processes
@AS_ROOT
def test_a_folder_that_alice_may_not_write_to_is_named_and_the_others_are_cleaned(shared: Path) -> None:
    stuck, other = run_log(shared, 8 * DAY, 1), run_log(shared, 8 * DAY, 2, entry="other")
    (shared / "log/backup").chmod(0o555)
    os.chown(other.parent, ALICE, ALICE)

    def tidy() -> None:
        cleaned = clean(shared)
        assert cleaned.removed == 1
        assert "log/backup: 2" in said(cleaned)
        assert "cannot be removed: Permission denied" in said(cleaned)

    as_user(ALICE, tidy)
    assert (stuck.exists(), other.exists()) == (True, False)


@pytest.mark.processes
@AS_ROOT
def test_a_folder_that_alice_may_not_list_is_unknown_not_empty(shared: Path) -> None:
    run_log(shared, 8 * DAY)
    (shared / "log/backup").chmod(0o300)
    as_user(ALICE, lambda: _said_by_alice(shared, "log/backup cannot be opened: Permission denied"))


def _said_by_alice(cron: Path, words: str) -> None:
    assert words in said(clean(cron))


@pytest.mark.processes
@AS_ROOT
def test_only_its_owner_cleans(shared: Path) -> None:
    log = run_log(shared, 8 * DAY)

    def try_it() -> None:
        assert f"log/ belongs to {ALICE}" in said(clean(shared))

    as_user(BOB, try_it)
    assert log.exists()


# --- logs.extra ----------------------------------------------------------------------------------------------------


def with_extra(folder: Path, pattern: str = "*.out") -> Settings:
    return replace(SETTINGS, logs_extra=((str(folder), pattern),))


def test_other_folders_are_cleaned_only_where_they_are_named_and_only_what_matches(cron: Path) -> None:
    runs = cron.parent / "runs"
    for name in ("a.out", "a.txt", "sub/a.out"):
        put(runs / name)
    put(runs / "young.out", age=DAY)
    assert clean(cron).removed == 0
    cleaned = clean(cron, with_extra(runs))
    assert cleaned.removed == 1
    assert cleaned.folders == {str(runs): {"too old": 1}}
    assert sorted(path.name for path in runs.rglob("*")) == ["a.out", "a.txt", "sub", "young.out"]


def test_other_folders_know_no_count(cron: Path) -> None:
    runs = cron.parent / "runs"
    for number in range(5):
        put(runs / f"{number}.out", age=DAY)
    assert clean(cron, replace(with_extra(runs), logs_files=1)).removed == 0


def linked_runs(cron: Path) -> Path:
    put(cron.parent / "real" / "a.out")
    (cron.parent / "runs").symlink_to(cron.parent / "real")
    return cron.parent / "runs"


def runs_below_a_folder_of_all(cron: Path) -> Path:
    put(cron.parent / "team/runs/a.out")
    (cron.parent / "team").chmod(0o777)
    return cron.parent / "team/runs"


def state_as_runs(cron: Path) -> Path:
    put(cron / "state/a.out")
    return cron / "state"


def home_as_runs(cron: Path) -> Path:
    put(cron.parent / "a.out")
    return cron.parent


@AS_ROOT
def test_another_user_s_files_and_folders_named_there_are_left(cron: Path) -> None:
    runs = cron.parent / "runs"
    mine, bobs = put(runs / "mine.out"), put(runs / "bob.out")
    os.chown(bobs, BOB, BOB)
    assert clean(cron, with_extra(runs)).removed == 1
    assert (mine.exists(), bobs.exists()) == (False, True)
    put(runs / "mine.out")
    os.chown(runs, BOB, BOB)
    assert f"{runs} belongs to {BOB}" in said(clean(cron, with_extra(runs)))
    assert len(names(runs)) == 2


NEVER: list[tuple[str, Callable[[Path], Path], str]] = [
    ("a link", linked_runs, "is a link, or no folder"),
    ("one that others could put another in the place of", runs_below_a_folder_of_all, "can be written by everyone"),
    ("a room of the cron directory", state_as_runs, "is the home folder, /, or the cron directory's own"),
    ("the home folder", home_as_runs, "is the home folder"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "words"), [row[1:] for row in NEVER], ids=[row[0] for row in NEVER])
def test_these_are_never_cleaned(
    cron: Path, make: Callable[[Path], Path], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(cron.parent))
    folder = make(cron)
    assert words in said(clean(cron, with_extra(folder)))
    assert (folder / "a.out").exists()


# --- for a tick ----------------------------------------------------------------------------------------------------


def cleaned_now(cron: Path, now: int, **how: Any) -> Cleaned:
    cleaned = when_due(cron, now, **how)
    assert cleaned is not None
    return cleaned


def test_a_tick_goes_on_where_the_last_one_left_work(cron: Path) -> None:
    for age in range(10, 15):
        run_log(cron, age * DAY, age)
    first, second = (cleaned_now(cron, NOW + number, most=3) for number in range(2))
    assert (first.removed, first.left) == (3, True)
    assert (second.removed, second.left) == (2, False)
    assert when_due(cron, NOW + 60) is None


def test_nothing_new_and_the_age_of_what_is_there_is_looked_at_four_times_a_day(cron: Path) -> None:
    log = run_log(cron, 7 * DAY - 60)
    assert cleaned_now(cron, NOW).removed == 0
    assert when_due(cron, NOW + HOUR) is None
    assert cleaned_now(cron, NOW + 6 * HOUR).removed == 1
    assert not log.exists()


def test_a_new_log_has_the_next_tick_look_into_its_folder_and_no_other(cron: Path) -> None:
    run_log(cron, HOUR, entry="other")
    cleaned_now(cron, NOW)
    time.sleep(0.02)  # a file system counts in jiffies
    for hour in range(3):
        run_log(cron, hour * HOUR, hour + 1)
    run_log(cron, 8 * DAY, 9)
    cleaned = cleaned_now(cron, NOW + 60)
    assert (cleaned.removed, cleaned.kept) == (1, 3)
    assert when_due(cron, NOW + 120) is None


def test_with_a_clock_that_is_years_ahead_of_the_file_system_s_nothing_goes(cron: Path) -> None:
    log = run_log(cron, DAY)
    os.utime(cron / "status.json", (NOW, NOW))
    ahead = when_due(cron, NOW + 3650 * DAY, always=True)
    assert ahead is not None
    assert (ahead.removed, log.exists()) == (0, True)
    assert "This machine's clock says 2036-11-24 17:20 UTC" in said(ahead)


def test_after_a_pause_of_days_a_tick_leaves_logs_to_the_next_one() -> None:
    """Its clock may have jumped by years, and the file system's with it where the disk is this machine's own."""
    jumped = world("12:00", last_tick=at("2016-11-27 12:00"))
    assert tick._cleaned(cast("Any", None), jumped) is None


def test_a_new_folder_is_seen_too(cron: Path) -> None:
    cleaned_now(cron, NOW)
    time.sleep(0.02)  # a file system counts in jiffies
    run_log(cron, 8 * DAY, entry="new")
    put(cron / "log/old.out")
    assert cleaned_now(cron, NOW + 60).folders == {"log/new": {"too old": 1}}


def test_a_last_time_in_the_future_does_not_stop_it(cron: Path) -> None:
    assert when_due(cron, NOW + 9 * DAY) is not None
    assert when_due(cron, NOW) is not None


def test_a_nearly_full_disk_is_looked_at_sooner(cron: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert when_due(cron, NOW) is not None
    monkeypatch.setattr(logs, "space", lambda _: logs.Space(1 << 40, 1 << 41, 9, 1000))
    assert when_due(cron, NOW + 60) is None
    assert when_due(cron, NOW + 700) is not None


def test_a_dry_run_does_not_count_as_the_last_time(cron: Path) -> None:
    run_log(cron, 8 * DAY)
    dry = when_due(cron, NOW, dry_run=True)
    assert dry is not None
    assert dry.removed == 1
    real = when_due(cron, NOW)
    assert real is not None
    assert real.removed == 1


def test_where_the_queue_does_not_answer_the_next_tick_tries_again(cron: Path) -> None:
    run_log(cron, 8 * DAY)
    unknown = when_due(cron, NOW, None)
    assert unknown is not None
    assert unknown.removed == 0
    known = when_due(cron, NOW + 60)
    assert known is not None
    assert known.removed == 1


def test_the_newest_failed_log_is_known_from_history_and_stays_known_when_that_is_gone(cron: Path) -> None:
    failed, older = run_log(cron, 60 * DAY, 7), run_log(cron, 61 * DAY, 8)
    for log, job in ((older, "8"), (failed, "7")):
        slot = log.name.partition("-")[0]
        row = {"what": "run", "key": f"backup@{slot}.1", "result": str(Result.FAILED), "job": job, "at": NOW - 60 * DAY}
        row["log"] = f"log/backup/{log.name}"
        history.append(Paths(cron).history, [row], host="h", now=NOW - 60 * DAY)
    first = when_due(cron, NOW)
    assert first is not None
    assert (failed.exists(), older.exists(), first.removed) == (True, False, 1)
    for path in Paths(cron).history.iterdir():
        path.unlink()
    again = when_due(cron, NOW + 7 * HOUR)
    assert again is not None
    assert failed.exists()


def test_a_state_that_cannot_be_read_is_said_and_nothing_goes(cron: Path) -> None:
    log = run_log(cron, 8 * DAY)
    put(cron / "state/logs.json", '{"version": 99}')
    cleaned = when_due(cron, NOW)
    assert cleaned is not None
    assert "written by a newer cronhpc" in said(cleaned)
    assert log.exists()


def test_a_state_that_cannot_be_written_is_said_and_the_logs_go(cron: Path) -> None:
    """A disk that is full is when logs must go."""
    log = run_log(cron, 8 * DAY)
    (cron / "state").rmdir()
    cleaned = when_due(cron, NOW)
    assert cleaned is not None
    assert "cannot be read or kept" in said(cleaned)
    assert not log.exists()


def test_a_corrupt_state_is_as_none(cron: Path) -> None:
    put(cron / "state/logs.json", '{"version": 1, "at"')
    assert when_due(cron, NOW) is not None


def test_a_run_that_waited_for_nine_days_keeps_its_log(cron: Path) -> None:
    log = run_log(cron, 9 * DAY, 7)
    row = {"what": "run", "key": f"backup@{log.name.partition('-')[0]}.1", "result": "ok", "job": "7"}
    history.append(Paths(cron).history, [{**row, "ended": NOW - HOUR, "at": NOW - HOUR}], host="h", now=NOW)
    when_due(cron, NOW)
    assert log.exists()


# --- the scheduler's own log ---------------------------------------------------------------------------------------


def test_the_scheduler_s_log_is_renamed_when_it_is_large_and_two_older_ones_stay(cron: Path) -> None:
    paths = Paths(cron)
    log = paths.scheduler / "scheduler.log"
    for text in ("one", "two", "three", "four"):
        log.write_text(text * 10, encoding="utf-8")
        assert logs.rotate(paths, most=20)
    assert not log.exists()
    assert {name: (paths.scheduler / name).read_text()[:3] for name in names(paths.scheduler)} == {
        "scheduler.log.1": "fou",
        "scheduler.log.2": "thr",
    }


def test_what_a_link_writes_while_it_is_renamed_is_not_lost(cron: Path) -> None:
    paths = Paths(cron)
    log = paths.scheduler / "scheduler.log"
    with log.open("a", encoding="utf-8") as mine:
        mine.write("x" * 30)
        mine.flush()
        assert logs.rotate(paths, most=20)
        mine.write("the end")
    with log.open("a", encoding="utf-8") as successor:
        successor.write("hello")
    assert (paths.scheduler / "scheduler.log.1").read_text() == "x" * 30 + "the end"
    assert log.read_text() == "hello"


def test_a_small_log_a_link_or_none_is_left(cron: Path) -> None:
    paths = Paths(cron)
    assert not logs.rotate(paths)
    log = paths.scheduler / "scheduler.log"
    log.write_text("small", encoding="utf-8")
    assert not logs.rotate(paths)
    log.unlink()
    log.symlink_to(put(cron.parent / "large", "x" * 100))
    assert not logs.rotate(paths, most=20)
    assert log.is_symlink()


# --- cost ----------------------------------------------------------------------------------------------------------


def test_an_old_log_costs_no_look_at_the_file_itself(cron: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for age in range(10, 30):
        run_log(cron, age * DAY, age)

    def refuse(_folder: logs.Folder, names: list[str]) -> list[LogFile]:
        assert names == []
        return []

    monkeypatch.setattr(logs, "measured", refuse)
    assert clean(cron).removed == 20
