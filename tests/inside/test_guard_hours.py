"""The guard by a clock of its own, and a command that is none: hours in a moment. And where its switches lie."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from signal import SIGCHLD, SIGCONT, SIGKILL, SIGTERM, SIGUSR1, Signals
from typing import Any

import pytest

from cronhpc.inside import guard
from cronhpc.inside.guard import STOPPED_EXIT, Guard, switch_paths
from tests import worlds

BEGIN = worlds.at("14:00")
MINUTE, HOUR = 60, 3600


class Guarded(Guard):
    """It guards a command that `ends` so many seconds after a signal, with an exit code; other signals it ignores."""

    def __init__(self, switch: Path, ends: Mapping[Signals, tuple[float, int]], **more: Any) -> None:
        self.time = worlds.Time(BEGIN)
        self.ends = {SIGKILL: (0.0, 128 + SIGKILL), **ends}
        self.came: list[Signals] = []  # and not heard yet
        self.at_once = 0  # so often it has waited for no time
        self.got: list[tuple[float, str]] = []  # by the command
        more = {"first": SIGUSR1, **more}
        super().__init__([str(switch)], ["train"], now=self._now, elapsed=self._now, wait=self._hear, **more)

    def _now(self) -> float:
        return self.time.now

    def _hear(self, seconds: float) -> int | None:
        self.at_once = 0 if seconds > 0 or self.came else self.at_once + 1
        assert self.at_once < 9, "it keeps a core busy"
        self.time.pass_until(self.time.now + seconds, unless=lambda: bool(self.came))
        return self.came.pop(0) if self.came else None

    def hears(self, after: float, *numbers: Signals) -> None:
        self.time.at(after, lambda: self.came.extend(numbers))

    def _start(self, _: object) -> None:
        self.ended = False

    def _send(self, number: Signals) -> None:
        at = self.time.now - BEGIN
        self.got.append((at, number.name.removeprefix("SIG")))
        if number in self.ends:
            self.leaves(at + self.ends[number][0], self.ends[number][1])

    def leaves(self, after: float, code: int) -> None:
        """It ends then."""

        def ends() -> None:
            if not self.ended:
                self.ended, self.left_with = True, code
                self.came.append(SIGCHLD)

        self.time.at(after, ends)

    def _reap(self) -> None:
        self.code = self.left_with

    def _alive(self) -> bool:
        return not self.ended

    @property
    def passed(self) -> float:
        return self.time.now - BEGIN


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """A guard blocks them for good."""
    mask, handler = signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(SIGCHLD)
    yield
    signal.signal(SIGCHLD, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@pytest.fixture
def switch(tmp_path: Path) -> Path:
    return tmp_path / "switch"


# --- stopping


def test_for_hours_nothing_is_sent_until_a_switch_is_set(switch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = Guarded(switch, {SIGUSR1: (20, 0)}, grace=300, every=5)
    one.time.at(10 * HOUR + 1, switch.touch)
    assert one.run() == STOPPED_EXIT
    assert one.got == [(10 * HOUR + 5, "USR1")]
    assert f"({switch}): ended after 20.0 s" in capsys.readouterr().err


def test_what_ignores_the_signal_is_killed_when_the_grace_is_over(
    switch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Guarded(switch, {}, grace=HOUR, every=5)
    one.time.at(1, switch.touch)
    assert one.run() == STOPPED_EXIT
    assert one.got == [(5, "USR1"), (5 + HOUR, "KILL")]
    assert f"({switch}): did not end within 3600 s, killed\n" in capsys.readouterr().err


def test_what_even_kill_does_not_end_is_waited_for_for_ten_seconds(
    switch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Guarded(switch, {SIGKILL: (24 * HOUR, 1)}, grace=10, every=5)
    one.time.at(1, switch.touch)
    assert one.run() == STOPPED_EXIT
    assert one.passed == 5 + 10 + 10
    assert "killed; some of it is stuck in the kernel" in capsys.readouterr().err


def test_a_command_that_ends_by_itself_ends_the_guard_at_once(switch: Path) -> None:
    one = Guarded(switch, {})
    one.leaves(2 * HOUR + 1, 7)
    assert (one.run(), one.passed, one.got) == (7, 2 * HOUR + 1, [])


# --- before the job's own end


class Slurm:
    """What it says when the end of job 77 is asked for: one after the other, the last for ever."""

    def __init__(self) -> None:
        self.ends: list[object] = []
        self.partition = "PreemptMode=OFF"
        self.asked = 0

    def answer(self, argv: Sequence[str], _: object) -> str:
        if argv[0] == "scontrol":
            return self.partition
        assert list(argv) == ["squeue", "-h", "-j", "77", "-o", "%e"]
        self.asked += 1
        return str(self.ends.pop(0) if len(self.ends) > 1 else self.ends[0])


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    made = Slurm()
    monkeypatch.setattr(guard, "_answer", made.answer)
    for name in ("SLURM_JOB_END_TIME", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    monkeypatch.setenv("SLURM_JOB_PARTITION", "cpu")
    return made


@pytest.fixture
def warned(switch: Path) -> Guarded:
    """To be warned ten minutes before its end; then it ends in a minute, with 6."""
    return Guarded(switch, {SIGUSR1: (MINUTE, 6), SIGTERM: (1, 5)}, warn_before_end=10 * MINUTE)


def test_the_command_is_warned_before_the_end_that_squeue_tells(
    slurm: Slurm, warned: Guarded, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.ends = [BEGIN + 2 * HOUR]
    assert warned.run() == 6
    assert warned.got == [(2 * HOUR - 10 * MINUTE, "USR1")]
    assert "the job's end is near: sending USR1" in capsys.readouterr().err
    assert slurm.asked == 2


def test_an_end_that_the_environment_tells_is_asked_for_only_when_it_comes(
    slurm: Slurm, warned: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.ends = [BEGIN + 2 * HOUR]
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(BEGIN + 2 * HOUR))
    assert warned.run() == 6
    assert slurm.asked == 1


def test_a_job_shorter_than_the_warning_is_warned_in_the_middle(
    slurm: Slurm, warned: Guarded, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.ends = [BEGIN + 12]
    assert warned.run() == 6
    assert warned.got == [(6, "USR1")]
    assert "this job ends in 12 s already: the warning comes 6 s before" in capsys.readouterr().err


def test_an_end_that_was_moved_is_heeded(slurm: Slurm, warned: Guarded) -> None:
    slurm.ends = [BEGIN + HOUR, BEGIN + 5 * HOUR]
    assert warned.run() == 6
    assert warned.got == [(5 * HOUR - 10 * MINUTE, "USR1")]
    assert slurm.asked == 3


def test_an_end_that_was_told_stands_where_the_next_question_gets_no_answer(slurm: Slurm, warned: Guarded) -> None:
    slurm.ends = [BEGIN + HOUR, ""]
    warned.leaves(2 * HOUR, 7)
    assert warned.run() == 6
    assert warned.got == [(HOUR - 10 * MINUTE, "USR1")]


@pytest.mark.parametrize("answer", ["", "NONE", "N/A", "Unlimited"])
def test_an_end_that_nobody_knows_is_said(
    slurm: Slurm, warned: Guarded, capsys: pytest.CaptureFixture[str], answer: str
) -> None:
    slurm.ends = [answer]
    warned.leaves(HOUR, 0)
    assert (warned.run(), warned.got) == (0, [])
    assert "Slurm does not say when this job ends" in capsys.readouterr().err


def test_preemptions_term_becomes_the_warning_and_comes_itself_after_the_grace(
    slurm: Slurm, switch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.ends = [BEGIN + 2 * HOUR]
    one = Guarded(switch, {SIGTERM: (1, 5)}, warn_before_end=10 * MINUTE, grace=300)
    one.hears(100, SIGTERM)
    assert one.run() == 5
    assert one.got == [(100, "USR1"), (400, "TERM")]
    assert "the job was told to end: sending USR1" in capsys.readouterr().err


def test_preemptions_nearer_end_is_asked_for_when_cont_comes(slurm: Slurm, warned: Guarded) -> None:
    slurm.ends = [BEGIN + 2 * HOUR, BEGIN + 11 * MINUTE]
    slurm.partition = "PreemptMode=CANCEL GraceTime=3600"
    warned.hears(30, SIGCONT)
    assert warned.run() == 6
    assert warned.got == [(30, "CONT"), (60, "USR1")]


def test_where_preemption_comes_without_cont_the_end_is_asked_for_again_and_again(
    slurm: Slurm, warned: Guarded
) -> None:
    slurm.ends = [*[BEGIN + 2 * HOUR] * 5, BEGIN + 11 * MINUTE]
    slurm.partition = "PreemptMode=CANCEL GraceTime=60"
    assert warned.run() == 6
    assert warned.got == [(100, "USR1")]  # each 20 seconds


@pytest.mark.parametrize(
    ("number", "asked"),
    [
        pytest.param(SIGTERM, 1, id="a TERM called for the warning"),
        pytest.param(SIGCONT, 5, id="an end that was asked for called for it"),  # at 0, 15, 35, 55 and 60 seconds
    ],
)
def test_after_the_warning_the_end_is_not_asked_for(slurm: Slurm, warned: Guarded, number: Signals, asked: int) -> None:
    """It was, and the guard kept a core busy until the command had ended."""
    slurm.ends = [BEGIN + 11 * MINUTE]
    slurm.partition = "PreemptMode=CANCEL GraceTime=60"
    warned.hears(15, number)
    warned.hears(70, SIGCONT)
    assert warned.run() == 6
    assert slurm.asked == asked


def test_of_many_ranks_only_the_first_asks_again(
    slurm: Slurm, warned: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.partition = "PreemptMode=CANCEL GraceTime=30"
    monkeypatch.setenv("SLURM_PROCID", "3")
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(BEGIN + HOUR))
    assert warned.run() == 6
    assert slurm.asked == 0


# --- which switches


@pytest.fixture
def cron(tmp_path: Path) -> Path:
    (tmp_path / "cron" / "kill").mkdir(parents=True)
    (tmp_path / "cron" / "cronhpc.yaml").touch()
    return tmp_path / "cron"


def test_a_name_lies_in_the_cron_directory_and_a_path_where_it_says(cron: Path) -> None:
    found = switch_paths(["training17", "/proj/x", "*"], None, {"CRONHPC_DIR": str(cron)})
    assert found == ["/proj/x", f"{cron}/kill/training17", f"{cron}/kill/*"]
    assert switch_paths(["a"], str(cron), {}) == [f"{cron}/kill/a"]
    assert switch_paths(["a"], None, {"WORK": str(cron.parent)}) == [f"{cron}/kill/a"]


def test_a_name_lies_also_where_the_settings_say(cron: Path) -> None:
    found = switch_paths(["a", "b"], str(cron), {}, ["/team/kill"], {"a": "/proj/a-switch", "c": "/proj/c"})
    assert found == [f"{cron}/kill/a", f"{cron}/kill/b", "/team/kill/a", "/team/kill/b", "/proj/a-switch"]


def test_without_a_name_and_a_cron_directory_nothing_is_watched(tmp_path: Path) -> None:
    assert switch_paths([], str(tmp_path), {"SLURM_JOB_ID": "1"}) == []


def test_without_a_name_it_is_what_the_job_is_called(cron: Path) -> None:
    environ = {
        "CRONHPC_DIR": str(cron),
        "CRONHPC_ENTRY": "nightly",
        "SLURM_JOB_NAME": "odd/name",
        "SLURM_JOB_ID": "12",
        "SLURM_ARRAY_JOB_ID": "10",
        "SLURM_ARRAY_TASK_ID": "2",
    }
    names = ["ALL", "nightly", "12", "10", "10_2"]
    assert switch_paths([], None, environ) == [f"{cron}/kill/{name}" for name in names]


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        pytest.param(
            {"SGE_JOB_SPOOL_DIR": "/s", "JOB_NAME": "n", "JOB_ID": "7", "SGE_TASK_ID": "undefined"},
            ["ALL", "n", "7"],
            id="on Grid Engine",
        ),
        pytest.param({"JOB_NAME": "n", "JOB_ID": "7"}, ["ALL"], id="in no job of Grid Engine's"),
        pytest.param(
            {"PBS_ENVIRONMENT": "PBS_BATCH", "PBS_JOBNAME": "n", "PBS_JOBID": "7[2].host", "PBS_ARRAY_INDEX": "2"},
            ["ALL", "n", "7", "7_2"],
            id="a task on PBS",
        ),
        pytest.param(
            {"LSB_SUB_HOST": "h", "LSB_JOBNAME": "n[2]", "LSB_JOBID": "7", "LSB_JOBINDEX": "2"},
            ["ALL", "n", "7", "7_2"],
            id="a task on LSF",
        ),
    ],
)
def test_elsewhere_too_it_is_what_the_job_is_called(cron: Path, environ: dict[str, str], names: list[str]) -> None:
    found = switch_paths([], None, {"CRONHPC_DIR": str(cron), **environ})
    assert found == [f"{cron}/kill/{name}" for name in names]


def test_a_name_without_a_cron_directory_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no cron directory to look for 'training17' in\. Give a path with a /"):
        switch_paths(["training17"], str(tmp_path), {})
