"""quota-watch: what the tools print, when it is too full, and the job as it is run."""

from __future__ import annotations

from pathlib import Path

import pytest

import quota_watch
from quota_watch import Usage
from tests.ready_made_jobs import environment, filled_in, run, stand_in

GIB = 1 << 30
DF = """Mounted on              Used          Avail   IUsed   IFree
/work/with blank  96636764160     5368709120     900     100
"""
QUOTA = """Disk quotas for user alice (uid 1001):
     Filesystem   space   quota   limit   grace   files   quota   limit   grace
          /home 9437184* 8388608 10485760 518400     900    1000    2000       0
          /work 4194304       0 104857600      0      10       0       0       0
           none       0       0       0       0       0       0       0       0
Disk quotas for group proj (gid 2000):
     Filesystem   space   quota   limit   grace   files   quota   limit   grace
          /work 99614720      0 104857600      0   99000       0  100000       0
"""
LFS = """        /lustre/a/long/name
                 96      0     100       -       3       0       0       -
"""


def test_df_is_read_in_bytes_and_inodes() -> None:
    assert quota_watch.parse_df(DF) == [
        Usage("/work/with blank", "space", 90 * GIB, 95 * GIB, "df"),
        Usage("/work/with blank", "inodes", 900, 1000, "df"),
    ]


def test_a_file_system_without_inodes_has_none_to_run_out_of() -> None:
    rows = quota_watch.parse_df("Mounted on Used Avail IUsed IFree\n/btrfs 1 1 0 0\n/odd 1 1 - -\n")
    assert [(row.place, row.what) for row in rows] == [("/btrfs", "space"), ("/odd", "space")]


def test_a_file_system_whose_inodes_are_all_in_use_is_full() -> None:
    (_, inodes) = quota_watch.parse_df("Mounted on Used Avail IUsed IFree\n/full 1 9 1000 0\n")
    assert (inodes.what, inodes.percent) == ("inodes", 100)


def test_quota_is_read_by_its_soft_limit_where_there_is_one_and_over_it_too() -> None:
    rows = {(row.place, row.what, row.limit): round(row.percent, 1) for row in quota_watch.parse_quota(QUOTA)}
    assert rows == {
        ("/home", "space", 8 * GIB): 112.5,
        ("/home", "inodes", 1000): 90.0,
        ("/work", "space", 100 * GIB): 95.0,
        ("/work", "inodes", 100000): 99.0,
    } | {("/work", "space", 100 * GIB): 95.0}


def test_lustre_puts_a_long_name_on_a_line_of_its_own() -> None:
    rows = quota_watch.parse_quota(quota_watch._unfolded(LFS))
    assert [(row.place, row.what, row.used, row.limit) for row in rows] == [
        ("/lustre/a/long/name", "space", 96 * 1024, 100 * 1024)
    ]


def test_what_is_no_table_is_no_quota() -> None:
    assert quota_watch.parse_quota("Disk quotas for user root (uid 0): none\n") == []


LEVELS = {
    "far from it": (84.9, "", ""),
    "at the first threshold": (85.0, "", "warn"),
    "at the second": (95.0, "", "alert"),
    "just below where an alert stands": (93.5, "alert", "alert"),
    "clearly below it": (92.9, "alert", "warn"),
    "just below where a warning stands": (83.5, "warn", "warn"),
    "clearly below both": (82.9, "alert", ""),
    "a warning is no alert because it stands": (94.0, "warn", "warn"),
}


@pytest.mark.parametrize(("percent", "before", "expected"), LEVELS.values(), ids=LEVELS)
def test_the_level_of_a_quota_rises_and_falls_with_a_margin(percent: float, before: str, expected: str) -> None:
    row = Usage("/w", "space", round(percent * 10), 1000, "df")
    found = quota_watch.judge([row], 85, 95, {"/w space": before} if before else {})
    assert [alert.level for alert in found] == ([expected] if expected else [])


def df_says(place: Path, used: int, inodes: int = 1) -> None:
    rows = f"Mounted on Used Avail IUsed IFree\n/full {used} {100 - used} {inodes} {100 - inodes}"
    stand_in(place, "df", f"cat <<'END'\n{rows}\nEND")


@pytest.mark.processes
def test_the_same_alert_is_sent_once_and_its_end_once(tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    notify = stand_in(tmp_path, "notify", f"cat >> {sent}") / "notify"
    script = filled_in("quota-watch", tmp_path, PATHS=f"({tmp_path})", TOOL="df", NOTIFY=str(notify))
    environ = environment(tmp_path)
    for used, inodes, code in ((90, 1, 0), (96, 99, 1), (97, 99, 1), (50, 1, 0), (50, 1, 0)):
        df_says(tmp_path, used, inodes)
        assert run(script, environ).code == code
    assert sent.read_text(encoding="utf-8").splitlines() == [
        "quota-watch",
        "WARN: /full: space 90 % full (90 B of 100 B, df)",
        "quota-watch",
        "ALERT: /full: space 96 % full (96 B of 100 B, df)",
        "ALERT: /full: inodes 99 % full (99 of 100, df)",
        "quota-watch",
        "fine again: /full: space 50 % full (50 B of 100 B, df)",
        "fine again: /full: inodes 1 % full (1 of 100, df)",
    ]


@pytest.mark.processes
def test_a_place_that_cannot_be_asked_is_unknown_and_the_others_are_looked_at(tmp_path: Path) -> None:
    script = filled_in("quota-watch", tmp_path, PATHS=f"(/nowhere/at/all {tmp_path})", TOOL="df")
    ended = run(script, environment(tmp_path))
    assert ended.code == 2
    assert "% full" in ended.out
    assert "unknown: /nowhere/at/all" in ended.out


@pytest.mark.processes
def test_an_alert_stands_while_its_place_cannot_be_asked(tmp_path: Path) -> None:
    script = filled_in("quota-watch", tmp_path, PATHS=f"({tmp_path})", TOOL="df")
    df_says(tmp_path, 99)
    assert run(script, environment(tmp_path)).code == 1
    stand_in(tmp_path, "df", "echo stale file handle >&2; exit 1")
    ended = run(script, environment(tmp_path))
    assert ended.code == 2
    assert "fine again" not in ended.out
    df_says(tmp_path, 99)
    assert "still: " in run(script, environment(tmp_path)).out


@pytest.mark.processes
def test_quota_is_asked_for_where_it_is_there(tmp_path: Path) -> None:
    df_says(tmp_path, 10)
    table = QUOTA.replace("/work", "/full")
    stand_in(tmp_path, "quota", f"cat <<'END'\n{table}\nEND\nexit 1")  # it exits 1 where one is exceeded
    script = filled_in("quota-watch", tmp_path, PATHS=f"({tmp_path})")
    ended = run(script, environment(tmp_path))
    assert ended.code == 1
    assert "/full: inodes 99 % full (99,000 of 100,000, quota)" in ended.out


@pytest.mark.processes
def test_thresholds_that_cannot_be_are_refused(tmp_path: Path) -> None:
    script = filled_in("quota-watch", tmp_path, WARN="96")
    ended = run(script, environment(tmp_path))
    assert (ended.code, ended.last) == (2, "broken: WARN=96 is above ALERT=95: swap them")
