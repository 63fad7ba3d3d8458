"""What the ready-made jobs share: alerts that are sent once, programs that are asked, words."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest

import alerts
import shelf
from alerts import Alert, Told
from shelf import Broken, Settings
from tests.ready_made_jobs import LIB, Ended, environment, filled_in, run, stand_in

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
def test_what_is_new_is_told_once(
    told: dict[str, Told], wrong: list[Alert], unknown: list[str], again: int, expected: list[str]
) -> None:
    lines, after = alerts.news(told, wrong, frozenset(unknown), now=NOW, again=again)
    assert lines == expected
    assert set(after) == {alert.key for alert in wrong} | set(unknown)
    assert alerts.news(after, wrong, frozenset(unknown), now=NOW + 1)[0] == [], "and never twice"


def test_what_is_not_looked_at_any_more_is_forgotten_and_not_called_fine() -> None:
    assert alerts.news(BEFORE, [], now=NOW, fine={"/home space": "/home is 1 % full"}) == ([], {})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(["job=job", f"state={tmp_path}/state/job"])


def test_the_exit_code_says_how_it_stands_however_often_it_was_told(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert alerts.tell(settings, [FULL], now=NOW) == shelf.ALERT
    assert capsys.readouterr().out == "ALERT: / is 96 % full\n"
    assert alerts.tell(settings, [FULL], now=NOW + 2 * HOUR) == shelf.ALERT
    assert capsys.readouterr().out == "still: / is 96 % full (told 2h ago)\n"
    assert alerts.tell(settings, [], now=NOW + 3 * HOUR, fine={"/ space": "/ is 50 % full"}) == shelf.FINE
    assert capsys.readouterr().out == "fine again: / is 50 % full\n"
    assert alerts.tell(settings, [Alert("a", "b", "warn")], now=NOW + 4 * HOUR) == shelf.FINE


@pytest.mark.processes
def test_what_could_not_be_sent_is_sent_next_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent = tmp_path / "sent"

    def tell(notify: str) -> int:
        return alerts.tell(Settings(["job=job", f"state={tmp_path}/job", f"NOTIFY={notify}"]), [FULL], now=NOW)

    assert tell("/nowhere/mail") == shelf.ALERT
    assert tell("sh -c 'echo no >&2; exit 3'") == shelf.ALERT
    assert "exited 3: no; it will be sent next time" in capsys.readouterr().err
    for _ in range(2):
        tell(f"sh -c 'cat >> {sent}'")
    assert sent.read_text(encoding="utf-8") == "job\nALERT: / is 96 % full\n"


@pytest.mark.processes
def test_two_entries_of_one_job_do_not_share_what_they_told(tmp_path: Path) -> None:
    known = [start_sh(tmp_path, 'echo "$state"', CRONHPC_ENTRY=entry).last for entry in ("one/../of them", "two")]
    assert known == [f"{tmp_path}/.local/state/cronhpc-jobs/{name}" for name in ("one_.._of_them", "two")]
    one, two = (Settings(["job=job", f"state={state}"]) for state in known)
    alerts.tell(one, [FULL], now=NOW)
    assert alerts.remembered(one)
    assert alerts.remembered(two) == {}


def test_on_a_full_disk_the_alert_is_still_said(
    tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").write_text("in the way", encoding="utf-8")
    assert alerts.tell(settings, [FULL], now=NOW) == shelf.ALERT
    said = capsys.readouterr()
    assert "ALERT: / is 96 % full" in said.out
    assert "cannot be written" in said.err


@pytest.mark.parametrize("content", ["", "{", "[]", '{"told": {}'], ids=["empty", "a brace", "a list", "cut off"])
def test_a_corrupt_memory_is_forgotten(settings: Settings, content: str) -> None:
    path = settings.state("json")
    path.parent.mkdir(parents=True)
    path.write_text(content, encoding="utf-8")
    assert alerts.tell(settings, [FULL], now=NOW) == shelf.ALERT
    assert json.loads(path.read_bytes())["told"]


# --- other programs ------------------------------------------------------------------------------------------------


def test_what_a_running_job_has_in_its_environment_does_not_reach_the_commands() -> None:
    seen = shelf.clean_environment({"SQUEUE_STATES": "R", "SLURM_JOB_ID": "7", "SLURM_CONF": "/c", "HOME": "/h"})
    assert seen == {"SLURM_CONF": "/c", "HOME": "/h", "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}


@pytest.mark.processes
def test_a_program_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(Broken, match=r"did not end within 2 s"):
        shelf.ask(["sh", "-c", f"sleep 60 & echo $! > {pid}; wait"], timeout=2)
    status = Path(f"/proc/{pid.read_text(encoding='utf-8').strip()}/stat")
    until = time.monotonic() + 90
    while status.exists() and " Z " not in status.read_text(encoding="utf-8"):
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.processes
def test_a_missing_program_is_named_with_its_package(tmp_path: Path) -> None:
    ended = start_sh(tmp_path, 'need "the package plocate" tool2 tool3')
    assert ended.code == 2
    assert re.search(r"tool2 or tool3 is not on this node .*: it comes with the package plocate", ended.last)


def test_what_is_broken_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["job"])

    def full(_: object) -> int:
        raise OSError(28, "No space left on device", "/full")

    with pytest.raises(SystemExit) as ended:
        shelf.run(full)
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
}


@pytest.mark.parametrize(("got", "expected"), WORDS.values(), ids=WORDS)
def test_a_word_of_the_settings_is_read_as(got: object, expected: object) -> None:
    assert got == expected


# --- settings ------------------------------------------------------------------------------------------------------


def start_sh(place: Path, words: str, **more: str) -> Ended:
    """What bash says that has sourced start.sh."""
    script = place / "words.slurm"
    script.write_text(f"source {LIB}/start.sh\n{words}\n", encoding="utf-8")
    return run(script, environment(place, **more))


CAN_BE = {
    "a duration": ("X=90m; duration X", "5400"),
    "a week": ("X=1w; duration X", "604800"),
    "no time at all": ("X=0; duration X", "0"),
    "a size": ("X=5G; bytes X", str(5 << 30)),
    "a size in small letters": ("X=3k; bytes X", "3072"),
    "a size in bytes": ("X=512; bytes X", "512"),
    "a flag": ("X=no; if on X; then X=on; fi", "no"),
    "one of some words": ("X=b; one_of X a b", "b"),
    "a number with a point": ("X=0.5; number X", "0.5"),
    "a count": ("X=010; count X 10", "010"),
    "an array with an empty element": ("X=('' --two); given X", ""),
    "folders": ("X=(/ '' /tmp); folder X", "/"),
}


@pytest.mark.processes
@pytest.mark.parametrize(("words", "value"), CAN_BE.values(), ids=CAN_BE)
def test_settings_that_can_be(tmp_path: Path, words: str, value: str) -> None:
    ended = start_sh(tmp_path, f'{words}; echo "$X"')
    assert (ended.code, ended.out) == (0, f"{value}\n")


CANNOT_BE = {
    **{
        f"a flag {text!r}": (f"X='{text}'; flag X", f"X={text}: write yes or no")
        for text in ("YES", "true", "1", "", "y")
    },
    **{
        f"a duration {text!r}": (f"X='{text}'; duration X", f"X={text} is no duration: write it like 30m, 2h or 7d")
        for text in ("", "90", "1h30m", "-5m", "m", "٣m")
    },
    **{f"a size {text!r}": (f"X='{text}'; bytes X", f"X={text} is no size") for text in ("", "much", "5GB", "-1")},
    "a number": ("X=many; number X", "X=many: write a number, 0 or more"),
    "a count below the least": ("X=0; count X 1", "X=0: write a number, a whole one, 1 or more"),
    "a count with a point": ("X=1.5; count X", "X=1.5: write a number, a whole one, 0 or more"),
    "none of the words": ("X=c; one_of X a b c2", "X=c: write a, b or c2"),
    "an array without an element": ("X=(''); given X 'name it'", "X is empty: name it at the top of the script"),
    "no folder": ("X=''; folder X", "X is empty: set it at the top of the script"),
    "a folder's relative path": ("X=(/ x/y); folder X", "X=x/y: write the whole path, at the top of the script"),
    "a folder that is not there": ("X=/nowhere/at/all; folder X", "X=/nowhere/at/all: there is no such folder on"),
}


@pytest.mark.processes
@pytest.mark.parametrize(("words", "said"), CANNOT_BE.values(), ids=CANNOT_BE)
def test_a_setting_that_cannot_be_is_named_with_what_to_write(tmp_path: Path, words: str, said: str) -> None:
    ended = start_sh(tmp_path, f"{words}; echo on")
    assert ended.code == 2
    assert ended.last.startswith(f"broken: {said}")


@pytest.mark.processes
def test_settings_are_handed_over_word_by_word_whatever_is_in_them(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/seen.py").write_text("import sys\nprint(sys.argv[3:])", encoding="utf-8")
    settings = "NAME=$'a=b\\nc' LIST=(one '' --two) EMPTY= NONE=() COUNT=3"
    ended = start_sh(
        tmp_path, f"{settings}\nlib=lib; cd {tmp_path}\nneed_python; start seen.py NAME LIST NONE EMPTY COUNT again=5"
    )
    words = ["NAME=a=b\nc", "LIST=one", "LIST=", "LIST=--two", "EMPTY=", "COUNT=3", "again=5"]
    assert ended.last == repr(words)
    seen = Settings(words)
    assert (seen.text("NAME"), seen.text("EMPTY"), seen.text("NOT_THERE")) == ("a=b\nc", "", "")
    assert (seen.array("LIST"), seen.array("NOT_THERE"), seen.number("COUNT")) == (["one", "--two"], [], 3)


@pytest.mark.processes
@pytest.mark.parametrize("job", ["log-cleanup", "checkpoint-rotate", "quota-watch", "nccl-check", "scratch-age"])
def test_a_setting_that_is_no_number_is_named(tmp_path: Path, job: str) -> None:
    name = {"log-cleanup": "COUNT", "checkpoint-rotate": "LAST", "quota-watch": "WARN", "nccl-check": "NODES"}
    wrong = {name.get(job, "PURGE_DAYS"): "many", "ENABLED": "yes"}
    wanted = wrong if job == "nccl-check" else {key: value for key, value in wrong.items() if key != "ENABLED"}
    stand_in(tmp_path, "srun", "true")
    ended = run(filled_in(job, tmp_path, **wanted), environment(tmp_path))
    assert (ended.code, "=many: write a number" in ended.last) == (2, True), ended.out
