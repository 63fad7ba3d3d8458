"""What the ready-made jobs share: alerts that are sent once, programs that are asked, words."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

import alerts
import memory
import shelf
from alerts import Alert, Told
from shelf import Broken
from tests.ready_made_jobs import environment, filled_in, run, stand_in

NOW = 1795784840.0
HOUR = 3600


# --- the same alert is not sent twice ------------------------------------------------------------------------------

FULL = Alert("/ space", "/ is 96 % full")
BEFORE = {"/ space": Told("alert", "/ is 95 % full", NOW - HOUR)}
NEWS = {
    "a first alert is sent": ({}, [FULL], [], 0, ["ALERT: / is 96 % full"]),
    "the same one is not sent again": (BEFORE, [FULL], [], 0, []),
    "it is sent again after the time that was asked for": (BEFORE, [FULL], [], HOUR, ["ALERT: / is 96 % full"]),
    "not a second earlier": (BEFORE, [FULL], [], HOUR + 1, []),
    "another level is news": (
        {"/ space": Told("warn", "/ is 86 % full", NOW - 60)},
        [FULL],
        [],
        0,
        ["ALERT: / is 96 % full"],
    ),
    "a warning says that it is one": ({}, [Alert("/", "86 %", "warn")], [], 0, ["WARN: 86 %"]),
    "when it is over that is sent, in the words it was told in": (BEFORE, [], [], 0, ["fine again: / is 95 % full"]),
    "what could not be asked is neither over nor news": (BEFORE, [], ["/ space"], 0, []),
    "nothing wrong, nothing said": ({}, [], [], 0, []),
    "a stamp from the future does not silence for ever": (
        {"/ space": Told("alert", "x", NOW + 9 * HOUR)},
        [FULL],
        [],
        HOUR,
        ["ALERT: / is 96 % full"],
    ),
}


@pytest.mark.parametrize(("told", "wrong", "unknown", "again", "expected"), NEWS.values(), ids=NEWS)
def test_news(told: dict[str, Told], wrong: list[Alert], unknown: list[str], again: int, expected: list[str]) -> None:
    lines, after = alerts.news(told, wrong, frozenset(unknown), now=NOW, again=again)
    assert lines == expected
    assert set(after) == {alert.key for alert in wrong} | set(unknown)
    assert alerts.news(after, wrong, frozenset(unknown), now=NOW + 1)[0] == [], "and never twice"


def test_what_is_not_looked_at_any_more_is_forgotten_and_not_called_fine() -> None:
    assert alerts.news(BEFORE, [], now=NOW, fine={"/home space": "/home is 1 % full"}) == ([], {})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("CRONHPC_ENTRY", "SLURM_JOB_NAME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_the_exit_code_says_how_it_stands_however_often_it_was_told(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert alerts.tell("job", [FULL], now=NOW) == shelf.ALERT
    assert capsys.readouterr().out == "ALERT: / is 96 % full\n"
    assert alerts.tell("job", [FULL], now=NOW + 2 * HOUR) == shelf.ALERT
    assert capsys.readouterr().out == "still: / is 96 % full (told 2h ago)\n"
    assert alerts.tell("job", [], now=NOW + 3 * HOUR, fine={"/ space": "/ is 50 % full"}) == shelf.FINE
    assert capsys.readouterr().out == "fine again: / is 50 % full\n"
    assert alerts.tell("job", [Alert("a", "b", "warn")], now=NOW + 4 * HOUR) == shelf.FINE


def test_what_could_not_be_sent_is_sent_next_time(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent = home / "sent"
    assert alerts.tell("job", [FULL], now=NOW, notify="/nowhere/mail") == shelf.ALERT
    assert alerts.tell("job", [FULL], now=NOW, notify="sh -c 'echo no >&2; exit 3'") == shelf.ALERT
    assert "exited 3: no; it will be sent next time" in capsys.readouterr().err
    for _ in range(2):
        alerts.tell("job", [FULL], now=NOW, notify=f"sh -c 'cat >> {sent}'")
    assert sent.read_text(encoding="utf-8") == "job\nALERT: / is 96 % full\n"


def test_two_entries_of_one_job_do_not_share_what_they_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONHPC_ENTRY", "one/../of them")
    alerts.tell("job", [FULL], now=NOW)
    assert memory.state_file("job").parent == home / "state/cronhpc-jobs"
    assert alerts.remembered("job")
    monkeypatch.setenv("CRONHPC_ENTRY", "two")
    assert alerts.remembered("job") == {}


def test_on_a_full_disk_the_alert_is_still_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "state").write_text("in the way", encoding="utf-8")
    assert alerts.tell("job", [FULL], now=NOW) == shelf.ALERT
    said = capsys.readouterr()
    assert "ALERT: / is 96 % full" in said.out
    assert "cannot be written" in said.err


@pytest.mark.parametrize("content", ["", "{", "[]", '{"told": {}'], ids=["empty", "torn", "a list", "cut off"])
def test_a_torn_memory_is_forgotten(home: Path, content: str) -> None:
    path = memory.state_file("job")
    path.parent.mkdir(parents=True)
    path.write_text(content, encoding="utf-8")
    assert alerts.tell("job", [FULL], now=NOW) == shelf.ALERT
    assert json.loads(path.read_bytes())["told"]


# --- other programs ------------------------------------------------------------------------------------------------


def test_what_a_running_job_has_in_its_environment_does_not_reach_the_commands() -> None:
    seen = shelf.clean_environment({"SQUEUE_STATES": "R", "SLURM_JOB_ID": "7", "SLURM_CONF": "/c", "HOME": "/h"})
    assert seen == {"SLURM_CONF": "/c", "HOME": "/h", "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}


def test_a_program_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(Broken, match=r"did not end within 2 s"):
        shelf.ask(["sh", "-c", f"sleep 60 & echo $! > {pid}; wait"], timeout=2)
    status = Path(f"/proc/{pid.read_text(encoding='utf-8').strip()}/stat")
    until = time.monotonic() + 10
    while status.exists() and " Z " not in status.read_text(encoding="utf-8"):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_missing_program_is_named_with_its_package() -> None:
    with pytest.raises(Broken, match=r"tool2 or tool3 is not on this node .*: it comes with the package plocate"):
        shelf.find("tool2", "tool3", package="the package plocate")


def test_what_is_broken_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["job"])

    def full(_: object) -> int:
        raise OSError(28, "No space left on device", "/full")

    with pytest.raises(SystemExit) as ended:
        shelf.door(full)
    assert ended.value.code == shelf.BROKEN
    assert capsys.readouterr().err == "broken: /full: No space left on device\n"


# --- words ---------------------------------------------------------------------------------------------------------

WORDS = {
    "seconds": (shelf.ago(40), "40s"),
    "two units at most": (shelf.ago(3 * 86400 + 5 * 3600 + 7), "3d 5h"),
    "time that went back": (shelf.ago(-5), "0s"),
    "bytes": (shelf.size(812), "812 B"),
    "just under the next unit": (shelf.size(1023 * 1024), "0.999 MiB"),
    "terabytes": (shelf.size(3.5 * (1 << 40)), "3.5 TiB"),
    "one": (shelf.plural(1, "file"), "1 file"),
    "many": (shelf.plural(1234, "file"), "1,234 files"),
    "a name with a line end": (shelf.shown("a\nb"), "a\\nb"),
    "a duration": (shelf.duration("90m"), 5400),
    "a size": (shelf.byte_count("5G"), 5 << 30),
    "a size in bytes": (shelf.byte_count("512"), 512),
    "a flag": (shelf.yes("no", "DELETE"), False),
}


@pytest.mark.parametrize(("got", "expected"), WORDS.values(), ids=WORDS)
def test_words(got: object, expected: object) -> None:
    assert got == expected


@pytest.mark.parametrize("text", ["YES", "true", "1", "", "y"])
def test_a_slip_never_switches_a_flag_on(text: str) -> None:
    with pytest.raises(Broken, match="write yes or no"):
        shelf.yes(text, "DELETE")


@pytest.mark.parametrize("text", ["", "90", "1h30m", "-5m", "m", "٣m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Broken):
        shelf.duration(text)


FOLDERS = {
    "nothing": ("", "is empty"),
    "a relative path": ("x/y", "write the whole path"),
    "one that is not there": ("/nowhere/at/all", "not mounted"),
}


@pytest.mark.parametrize(("text", "words"), FOLDERS.values(), ids=FOLDERS)
def test_a_folder_that_cannot_be_is_refused_with_its_settings_name(text: str, words: str) -> None:
    with pytest.raises(Broken, match=words):
        shelf.folder(text, "FOLDER")


# --- settings ------------------------------------------------------------------------------------------------------


def test_settings_are_handed_over_word_by_word_whatever_is_in_them() -> None:
    settings = shelf.Settings(["NAME=a=b\nc", "LIST=one", "LIST=", "LIST=--two", "EMPTY=", "COUNT=3", "PART=0.5"])
    assert (settings.text("NAME"), settings.text("EMPTY"), settings.text("NOT_THERE")) == ("a=b\nc", "", "")
    assert (settings.array("LIST"), settings.array("NOT_THERE")) == (["one", "--two"], [])
    assert (settings.count("COUNT", 3), settings.number("PART"), settings.one_of("COUNT", "2", "3")) == (3, 0.5, "3")


@pytest.mark.parametrize("job", ["log-cleanup", "checkpoint-rotate", "quota-watch", "nccl-check", "scratch-age"])
def test_a_setting_that_is_no_number_is_named(tmp_path: Path, job: str) -> None:
    name = {"log-cleanup": "COUNT", "checkpoint-rotate": "LAST", "quota-watch": "WARN", "nccl-check": "NODES"}
    wrong = {name.get(job, "PURGE_DAYS"): "many", "ENABLED": "yes"}
    wanted = wrong if job == "nccl-check" else {key: value for key, value in wrong.items() if key != "ENABLED"}
    stand_in(tmp_path, "srun", "true")
    ended = run(filled_in(job, tmp_path, **wanted), environment(tmp_path))
    assert (ended.code, "=many: write a number" in ended.last) == (2, True), ended.out
