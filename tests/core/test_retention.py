"""Which logs go, which stay, and why."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpc.core.model import LogFile, Settings, slot_text
from cronhpc.core.retention import (
    Judged,
    Rules,
    Use,
    Why,
    by_name,
    cut,
    judge,
    share,
    use_of,
)
from cronhpc.store.logs import Space, scarce

NOW = 1_795_800_000  # 2026-11-27T17:20:00Z
HOUR, DAY, GB = 3600, 86400, 1 << 30
RULES = Rules(NOW, keep=7 * DAY, files=200, total=5 * GB)


class Retention(NamedTuple):
    """All logs that were asked about, each with its reason."""

    keep: tuple[Judged, ...]
    remove: tuple[Judged, ...]


def retain(files: Iterable[LogFile], rules: Rules) -> Retention:
    """As a clean-up goes about it, folder by folder, and then for all of them; paths are relative to log/."""
    folders: dict[str, list[LogFile]] = {}
    for file in files:
        folders.setdefault(file.path.rpartition("/")[0], []).append(file)
    judged = {entry: judge(entry, each, rules) for entry, each in folders.items()}
    most = share((use_of(keep) for keep, _ in judged.values()), rules.total)
    stays: list[Judged] = []
    goes: list[Judged] = []
    for keep, remove in judged.values():
        kept, large = (keep, []) if most is None else cut(keep, most, rules.now)
        stays += kept
        goes += [*remove, *large]
    return Retention(tuple(stays), tuple(goes))


def log(age: int, job: int | str = 1, *, entry: str = "backup", size: int = 10, modified: int = NOW) -> LogFile:
    """A log whose slot is `age` seconds ago; it was written just now, which must not matter."""
    return LogFile(f"{entry}/{slot_text(NOW - age)}-{job}.out", size, modified)


def other(name: str, age: int, *, size: int = 10, own: bool = True) -> LogFile:
    """A file that is not named as cronhpc names logs."""
    return LogFile(name, size, NOW - age, own)


# --- a table of single files ---------------------------------------------------------------------------------------

LIVE = Rules(NOW, 7 * DAY, 200, 5 * GB, live=frozenset({"4711"}))
FAILED = Rules(NOW, 7 * DAY, 200, 5 * GB, failed={"backup": f"log/backup/{slot_text(NOW - 30 * DAY)}-4655.out"})
FAILED_ARRAY = Rules(NOW, 7 * DAY, 200, 5 * GB, failed={"backup": f"log/backup/{slot_text(NOW - 30 * DAY)}-4655_*.out"})
FAILED_OTHER = Rules(NOW, 7 * DAY, 200, 5 * GB, failed={"backup": "log/backup/nightly.txt"})

SITUATIONS = [
    ("a log of yesterday stays", RULES, log(DAY), Why.WITHIN),
    ("a log of exactly the limit stays", RULES, log(7 * DAY), Why.WITHIN),
    ("a minute beyond the limit it goes", RULES, log(7 * DAY + 60), Why.OLD),
    ("a second beyond the limit it goes, too", RULES, log(7 * DAY + 1), Why.OLD),
    ("the slot counts, not when it was written", RULES, log(8 * DAY, modified=NOW), Why.OLD),
    ("a young slot counts, too, though the file was dated back", RULES, log(HOUR, modified=1), Why.WITHIN),
    ("an array task's log goes by its slot", RULES, log(8 * DAY, "12_3"), Why.OLD),
    ("another name goes by its last change", RULES, other("backup/slurm-12.out", 8 * DAY), Why.OLD),
    ("another name that was written to stays", RULES, other("backup/slurm-12.out", 6 * DAY), Why.WITHIN),
    ("no name at all that a log would have", RULES, other("backup/core.dump", 8 * DAY), Why.OLD),
    ("a file in log/ itself", RULES, other("daily-12.out", 8 * DAY), Why.OLD),
    ("a file dated in the future stays", RULES, other("backup/x.out", -9 * DAY), Why.WITHIN),
    ("a slot years ahead is not believed: the file's time counts", RULES, log(-900 * DAY, modified=1), Why.OLD),
    ("a slot submitted ahead stays", RULES, log(-HOUR, modified=1), Why.WITHIN),
    ("digits that are no date are no slot", RULES, other("backup/99999999T9999Z-1.out", 1), Why.WITHIN),
    ("a live run's log stays, however old its slot", LIVE, log(30 * DAY, 4711), Why.RUN),
    ("a live array's task logs stay", LIVE, log(30 * DAY, "4711_12"), Why.RUN),
    ("a job number that only looks alike does not hold it", LIVE, log(30 * DAY, 47110), Why.OLD),
    ("a live job's id anywhere in another name holds it", LIVE, other("backup/train.4711.err", 30 * DAY), Why.RUN),
    ("part of a number is not the number", LIVE, other("backup/train.14711.err", 30 * DAY), Why.OLD),
    ("an array's task of that number is not the job", LIVE, log(30 * DAY, "12_4711"), Why.OLD),
    ("the newest failed run's log stays", FAILED, log(30 * DAY, 4655), Why.FAILED),
    ("of the same slot another attempt's goes", FAILED, log(30 * DAY, 4654), Why.OLD),
    ("another entry's of that name goes", FAILED, log(30 * DAY, 4655, entry="sync"), Why.OLD),
    ("a failed array keeps all its tasks' logs", FAILED_ARRAY, log(30 * DAY, "4655_7"), Why.FAILED),
    ("a failed run's log of another name stays", FAILED_OTHER, other("backup/nightly.txt", 30 * DAY), Why.FAILED),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "file", "why"), [row[1:] for row in SITUATIONS], ids=[row[0] for row in SITUATIONS])
def test_a_single_log_stays_or_goes_for_this_reason(rules: Rules, file: LogFile, why: Why) -> None:
    found = retain([file], rules)
    goes = why in {Why.OLD, Why.MANY, Why.LARGE}
    assert found.remove == (((file, why),) if goes else ())
    assert found.keep == (() if goes else ((file, why),))


def whys(files: list[LogFile], rules: Rules) -> list[Why]:
    """The reason for each of `files`, in their order."""
    found = retain(files, rules)
    known = {file.path: why for file, why in (*found.keep, *found.remove)}
    return [known[file.path] for file in files]


# --- how many ------------------------------------------------------------------------------------------------------


def test_of_more_than_the_limit_the_oldest_go() -> None:
    files = [log(hour * HOUR, hour + 1) for hour in range(5)]
    assert whys(files, Rules(NOW, 7 * DAY, 3, GB)) == [Why.WITHIN] * 3 + [Why.MANY] * 2


def test_two_entries_have_a_limit_each() -> None:
    files = [log(hour * HOUR, hour + 1, entry=entry) for entry in ("a", "b") for hour in range(3)]
    assert whys(files, Rules(NOW, 7 * DAY, 3, GB)) == [Why.WITHIN] * 6


def test_files_in_log_itself_are_of_many_jobs_and_are_not_counted() -> None:
    files = [other(f"old-script-{number}.out", number * HOUR) for number in range(5)]
    assert whys(files, Rules(NOW, 7 * DAY, 3, GB)) == [Why.WITHIN] * 5


def test_of_one_slot_the_earlier_attempt_goes_first() -> None:
    files = [log(HOUR, 9), log(HOUR, 10)]
    assert whys(files, Rules(NOW, 7 * DAY, 1, GB)) == [Why.MANY, Why.WITHIN]


def test_slots_with_and_without_seconds_are_in_order() -> None:
    """As texts 20261127T1719Z would sort behind 20261127T171905Z."""
    early, late = log(80, 1), log(75, 2)
    early = LogFile("backup/20261127T1719Z-1.out", 10, NOW)
    late = LogFile("backup/20261127T171905Z-2.out", 10, NOW)
    assert whys([late, early], Rules(NOW, 7 * DAY, 1, GB)) == [Why.WITHIN, Why.MANY]


def test_an_array_goes_as_a_whole_and_the_newest_stays_whole() -> None:
    newest = [log(HOUR, f"20_{task}") for task in range(5)]
    before = [log(2 * HOUR, f"10_{task}") for task in range(2)]
    assert whys([*newest, *before], Rules(NOW, 7 * DAY, 3, GB)) == [Why.WITHIN] * 5 + [Why.MANY] * 2


def test_live_and_failed_logs_count_but_do_not_go() -> None:
    rules = Rules(NOW, 7 * DAY, 3, GB, frozenset({"1"}), {"backup": log(5 * HOUR, 6).path})
    files = [log(hour * HOUR, hour + 1) for hour in range(6)]
    assert whys(files, rules) == [Why.RUN, Why.WITHIN, Why.MANY, Why.MANY, Why.MANY, Why.FAILED]


def test_what_others_put_there_pushes_no_log_out() -> None:
    planted = [other(f"backup/{number}.out", 0, size=0, own=False) for number in range(1000)]
    files = [log(hour * HOUR, hour + 1) for hour in range(3)]
    assert whys([*planted, *files], Rules(NOW, 7 * DAY, 3, GB)) == [Why.WITHIN] * 1003


# --- how large -----------------------------------------------------------------------------------------------------


def test_over_the_total_the_oldest_of_one_entry_go() -> None:
    files = [log(hour * HOUR, hour + 1, size=100) for hour in range(5)]
    assert whys(files, Rules(NOW, 7 * DAY, 200, 300)) == [Why.WITHIN] * 3 + [Why.LARGE] * 2


def test_a_total_that_is_just_reached_removes_nothing() -> None:
    assert whys([log(HOUR, 1, size=100), log(0, 2, size=200)], Rules(NOW, 7 * DAY, 200, 300)) == [Why.WITHIN] * 2


def test_the_entry_that_takes_most_gives_not_the_one_with_the_oldest_logs() -> None:
    loud = [log(hour * HOUR, hour + 1, entry="loud", size=100) for hour in range(5)]
    calm = [log(6 * DAY, 9, entry="calm", size=100)]
    assert whys([*loud, *calm], Rules(NOW, 7 * DAY, 200, 400)) == [Why.WITHIN] * 3 + [Why.LARGE] * 2 + [Why.WITHIN]


def test_an_empty_log_frees_nothing_and_stays() -> None:
    files = [log(0, 1, size=100), log(HOUR, 2, size=0), log(2 * HOUR, 3, size=100)]
    assert whys(files, Rules(NOW, 7 * DAY, 200, 100)) == [Why.WITHIN, Why.WITHIN, Why.LARGE]


def test_a_live_log_larger_than_the_total_leaves_room_for_no_other() -> None:
    rules = Rules(NOW, 7 * DAY, 200, 100, frozenset({"2"}))
    files = [log(0, 1, size=50), log(HOUR, 2, size=1000), log(2 * HOUR, 3, size=50, entry="calm")]
    assert whys(files, rules) == [Why.LARGE, Why.RUN, Why.LARGE]


SHARES = [
    ("what fits needs no share", [Use(50, 0), Use(50, 0)], 100, None),
    ("two alike halve it", [Use(80, 0), Use(80, 0)], 100, 50),
    ("a small one keeps its own", [Use(80, 0), Use(10, 0)], 60, 50),
    ("what is held counts", [Use(80, 70), Use(80, 0)], 100, 30),
    ("where the held alone are too much, nothing else may stay", [Use(80, 80), Use(80, 80)], 100, 0),
    ("nothing at all", [], 100, None),
    ("a total of nothing", [Use(1, 0)], 0, 0),
]  # fmt: skip


@pytest.mark.parametrize(("uses", "total", "most"), [row[1:] for row in SHARES], ids=[row[0] for row in SHARES])
def test_the_share_of_one_folder(uses: list[Use], total: int, most: int | None) -> None:
    assert share(uses, total) == most


# --- properties ----------------------------------------------------------------------------------------------------

ENTRIES = ("", "a", "b")


@st.composite
def log_files(draw: st.DrawFn) -> LogFile:
    """Logs of a few entries, with small numbers so that they meet."""
    entry = draw(st.sampled_from(ENTRIES))
    age = draw(st.integers(-DAY, 20 * DAY))
    kind = draw(st.integers(0, 3))
    job = draw(st.integers(1, 12))
    name = (
        f"{slot_text(NOW - age)}-{job}.out",
        f"{slot_text(NOW - age)}-{job}_{age % 3}.out",
        f"x-{job}.err",
        "notes",
    )[kind]
    path = f"{entry}/{name}" if entry else name
    return LogFile(path, draw(st.integers(0, 9)), NOW - age, draw(st.integers(0, 5)) > 0)


@st.composite
def rules_for(draw: st.DrawFn) -> Rules:
    """Limits that are met by some of them."""
    failed = {entry: f"log/{entry}/{slot_text(NOW - draw(st.integers(0, 20)) * DAY)}-3.out" for entry in ENTRIES}
    live = frozenset(str(job) for job in draw(st.sets(st.integers(1, 12), max_size=3)))
    return Rules(NOW, draw(st.integers(0, 15)) * DAY, draw(st.integers(1, 8)), draw(st.integers(0, 60)), live, failed)


many_files = st.lists(log_files(), max_size=40, unique_by=lambda file: file.path)


@pytest.mark.thorough
@given(many_files, rules_for())
def test_keep_and_remove_are_all(files: list[LogFile], rules: Rules) -> None:
    found = retain(files, rules)
    assert sorted(file.path for file, _ in (*found.keep, *found.remove)) == sorted(file.path for file in files)


@pytest.mark.thorough
@given(many_files, rules_for())
def test_a_live_run_s_file_never_goes(files: list[LogFile], rules: Rules) -> None:
    for file, _ in retain(files, rules).remove:
        match = re.search(r"-(\d+)(?:_\d+)?\.(?:out|err)$", file.path)
        assert match is None or match[1] not in rules.live


@given(many_files, rules_for())
def test_what_stays_is_within_every_limit(files: list[LogFile], rules: Rules) -> None:
    found = retain(files, rules)
    held = sum(file.size for file, why in found.keep if why is not Why.WITHIN)
    assert sum(file.size for file, _ in found.keep) <= max(rules.total, held)
    oldest = datetime.fromtimestamp(NOW - rules.keep, UTC).strftime("%Y%m%dT%H%M")
    for file, why in found.keep:
        named = re.search(r"(\d{8}T\d{4})\d*Z-", file.path)
        assert why is not Why.WITHIN or named is None or named[1] >= oldest


@pytest.mark.thorough
@given(many_files, rules_for())
def test_of_each_entry_no_more_stay_than_the_limit_beside_what_is_held_and_the_newest_run(
    files: list[LogFile], rules: Rules
) -> None:
    keep = retain(files, rules).keep
    for entry in ("a", "b"):
        mine = [(file, why) for file, why in keep if file.path.startswith(f"{entry}/") and file.own]
        held = sum(why is not Why.WITHIN for _, why in mine)
        runs = {file.path.partition("_")[0] for file, why in mine if why is Why.WITHIN}
        assert len(mine) <= max(rules.files, held) or len(runs) == 1


@given(many_files, rules_for())
def test_once_cleaned_nothing_more_goes(files: list[LogFile], rules: Rules) -> None:
    stays = [file for file, _ in retain(files, rules).keep]
    assert retain(stays, rules).remove == ()


@pytest.mark.thorough
@given(many_files, rules_for())
def test_nothing_goes_for_its_number_or_size_while_an_older_one_of_that_entry_stays(
    files: list[LogFile], rules: Rules
) -> None:
    found = retain(files, rules)
    for gone, why in found.remove:
        if why is Why.OLD:
            continue
        for file, kept in found.keep:
            same = file.path.rpartition("/")[0] == gone.path.rpartition("/")[0]
            if same and kept is Why.WITHIN and file.own and file.size and gone.own:
                assert moment(file) >= moment(gone)


def moment(file: LogFile) -> str:
    """When it is from, as the tests see it."""
    named = re.match(r"(?:.*/)?(\d{8}T\d{4})(\d\d)?Z-", file.path)
    if named:
        return named[1] + (named[2] or "00")
    return datetime.fromtimestamp(file.modified, UTC).strftime("%Y%m%dT%H%M%S")


@pytest.mark.thorough
@given(many_files, rules_for())
def test_names_alone_tell_the_same_as_looking_at_the_files(files: list[LogFile], rules: Rules) -> None:
    """What by_name calls old goes for its age, and what it calls young does not."""
    for entry in ENTRIES:
        mine = {file.path.rpartition("/")[2]: file for file in files if file.path.rpartition("/")[0] == entry}
        sorted_out = by_name(entry, mine, rules)
        assert sorted(itertools.chain(*sorted_out)) == sorted(mine)
        keep, remove = judge(entry, list(mine.values()), replace(rules, files=1000))
        kept, gone = {file for file, why in keep if why is Why.WITHIN}, {file for file, _ in remove}
        assert {mine[name] for name in sorted_out.old} <= gone
        assert {mine[name] for name in sorted_out.young} <= kept


def test_in_the_minute_that_the_limit_falls_into_names_alone_do_not_tell() -> None:
    rules = Rules(NOW + 30, DAY, 200, GB)
    names = [f"{slot_text(NOW - DAY + second)}-1.out" for second in (-60, -1, 0, 29, 30, 60)]
    assert by_name("a", names, rules) == (names[:2] + names[3:4], names[5:], [names[2], names[4]])


@pytest.mark.thorough
@given(many_files, rules_for(), st.integers(0, 100))
def test_a_cut_leaves_what_is_held_and_no_more_than_its_share(files: list[LogFile], rules: Rules, most: int) -> None:
    keep, _ = judge("a", [file for file in files if file.path.startswith("a/")], rules)
    stays, goes = cut(keep, most, NOW)
    assert len(stays) + len(goes) == len(keep)
    assert use_of(stays).size <= max(most, use_of(keep).held)
    assert all(why is Why.LARGE for _, why in goes)


# --- a full disk ---------------------------------------------------------------------------------------------------

SPACES = [
    ("half free", Space(50 * GB, 100 * GB, 500_000, 1_000_000), ""),
    ("1 % of the bytes", Space(GB, 100 * GB, 500_000, 1_000_000), "the file system has 1.0 % of its bytes left"),
    ("1 % of a petabyte is plenty", Space(10_000 * GB, 1_000_000 * GB, 5, 0), ""),
    ("1 % of the inodes", Space(50 * GB, 100 * GB, 10_000, 1_000_000), "the file system has 1.0 % of its inodes left"),
    ("inodes that are not counted (btrfs)", Space(50 * GB, 100 * GB, 0, 0), ""),
    ("full in both", Space(0, 100 * GB, 0, 10), "the file system has 0.0 % of its bytes and 0.0 % of its inodes left"),
    ("a file system that says nothing", Space(0, 0, 0, 0), ""),
]  # fmt: skip


@pytest.mark.parametrize(("space", "words"), [row[1:] for row in SPACES], ids=[row[0] for row in SPACES])
def test_a_nearly_full_disk(space: Space, words: str) -> None:
    assert scarce(space, 5 * GB) == words


def test_while_the_disk_is_nearly_full_every_limit_is_halved() -> None:
    usual = Settings()
    half = Rules(NOW, usual.logs_keep, usual.logs_files, usual.logs_total, frozenset({"1"}), {"a": "x"}).halved()
    assert half == Rules(NOW, 7 * DAY // 2, 100, 5 * GB // 2, frozenset({"1"}), {"a": "x"})
    assert Rules(NOW, DAY, 1, GB).halved().files == 1
