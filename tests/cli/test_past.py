"""`logs` and `history`: which run is meant, what is said of it, and in which order."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cronhpc.batch.local import Local
from cronhpc.cli.console import Console
from cronhpc.core.model import slot_text
from cronhpc.store import history
from tests.cli.test_cli import HOUR, NOW, Said, Shell, later, shell

__all__ = ["shell"]


@pytest.fixture
def ran(shell: Shell) -> Iterator[Shell]:
    """Job 1 of a has printed a line and failed; what it runs next prints nothing for a minute."""
    shell.drop("cron.daily/a.slurm", f"test -e {shell.home}/quiet && exec sleep 600; echo hello; exit 3")
    assert shell("run", "a", "--wait", now=later()).code == 3
    (shell.home / "quiet").touch()
    yield shell
    batch = Local(shell.cron / "state" / "local", shell.environ)
    batch.cancel([job.id for job in batch.queue().jobs if job.live])


def log_of_2(ran: Shell) -> Path:
    """The log of job 2, once that has made it."""
    for _ in range(900):
        for path in (ran.cron / "log" / "a").glob("*-2.out"):
            return path
        time.sleep(0.1)
    raise AssertionError(ran("history").out)


@pytest.mark.processes
def test_a_terminal_is_told_which_run_it_was_and_how_that_ended(ran: Shell) -> None:
    said = ran("logs", "a", now=later(), terminal=True, width=80)
    head, place, *lines = said.out.splitlines()
    assert head.startswith("a: job 1, by hand ")
    assert re.search(r", failed \(3\) after \w+ on \S+$", head), head
    assert place.startswith("==> log/a/") or "==> log/a/" in place
    assert lines == ["hello"]


@pytest.mark.processes
def test_a_pipe_gets_the_log_alone(ran: Shell) -> None:
    said = ran("logs", "a", now=later())
    assert (said.out, said.err) == ("hello\n", "")


@pytest.mark.processes
def test_a_jobs_id_stands_for_its_run(ran: Shell) -> None:
    assert ran("logs", "1", now=later()).out == "hello\n"
    known = ran("logs", "1", "--json", now=later()).json
    assert (known["entry"], known["job"], known["run"]["result"]) == ("a", "1", "failed")
    assert ran("status", "1", now=later()).out.startswith("a (cron.daily/a.slurm)")
    assert [run["job"] for run in ran("history", "1", "--json", now=later()).json["runs"]] == ["1"]


@pytest.mark.processes
@pytest.mark.parametrize("asked", [["1_3"], ["a", "--job", "1_3"]], ids=" ".join)
def test_the_id_of_an_arrays_task_means_the_log_of_that_task(ran: Shell, asked: list[str]) -> None:
    folder = ran.cron / "log" / "a"
    (whole,) = folder.glob("*-1.out")
    for task in (3, 4):
        whole.with_name(whole.name.replace("-1.out", f"-1_{task}.out")).write_text(f"task {task}\n")
    whole.unlink()
    assert ran("logs", *asked, now=later()).out == "task 3\n"
    none = ran("logs", "1_5", now=later())
    assert (none.code, none.out) == (1, "")
    assert "a has 2 logs, and none of job 1_5. See: cronhpc history a" in none.err


@pytest.mark.processes
def test_of_an_array_the_first_task_that_failed_is_shown_and_all_its_logs_are_one_run(ran: Shell) -> None:
    """Else the one last written to, which is where to look while it runs."""
    folder, now = ran.cron / "log" / "a", later() + 60
    slot, before = slot_text(now), slot_text(now - 30)
    for minute, job in ((before, 8), (slot, 9)):
        for task in (1, 2, 3):
            log = folder / f"{minute}-{job}_{task}.out"
            log.write_text(f"job {job}, task {task}\n")
            os.utime(log, (now + task, now + task))
    assert ran("logs", "a", now=now + 9).out == "job 9, task 3\n"
    row = {"what": "run", "key": f"a@{slot}.1", "entry": "a", "slot": now, "job": "9", "result": "failed", "at": now}
    history.append(ran.cron / "state" / "history", [{**row, "tasks": "2-3"}], host="h", now=now)
    for words in ("logs a", "logs 9", "logs a --run 1"):
        assert ran(*words.split(), now=now + 9).out == "job 9, task 2\n"
    assert ran("logs", "a", "--run", "2", now=now + 9).out == "job 8, task 3\n"
    assert ran("logs", "a", "--run", "3", now=now + 9).out == "hello\n"
    assert (
        "a has logs of 3 runs, and none number 4. See: cronhpc history a"
        in ran("logs", "a", "--run", "4", now=now + 9).err
    )
    shown = ran("logs", "a", now=now + 9, terminal=True, width=80).out
    assert "task 2 of 3; another's: cronhpc logs 9_TASK" in shown


NO_JOB = [("logs", "77"), ("status", "77"), ("history", "77"), ("rerun", "77")]


@pytest.mark.processes
@pytest.mark.parametrize("words", NO_JOB, ids=" ".join)
def test_a_job_that_no_run_was_is_said(ran: Shell, words: tuple[str, ...]) -> None:
    said = ran(*words, now=later())
    assert (said.code, said.err) == (2, "No run here was job 77. See: cronhpc history\n")


@pytest.mark.processes
def test_right_after_a_run_was_asked_for_the_log_before_it_is_not_shown_in_its_place(ran: Shell) -> None:
    assert ran("run", "a", now=later() + 5).code == 0
    log_of_2(ran).unlink()
    said = ran("logs", "a", now=later() + 10)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("job 2 ")
    assert said.err.endswith("has printed nothing yet. Before it: cronhpc logs --job 1 a\n")
    known = ran("logs", "2", "--json", now=later() + 10).json
    assert (known["job"], known["log"], known["text"]) == ("2", None, "")
    assert ran("logs", "a", "--job", "1", now=later() + 10).out == "hello\n"


@pytest.mark.processes
def test_a_name_that_is_empty_is_no_name(ran: Shell) -> None:
    """It was told that nothing is recorded yet, with exit code 0."""
    said = ran("history", "")
    assert (said.code, said.err.splitlines()[0]) == (2, "There is no entry called ''. See: cronhpc status")


def test_that_a_log_is_empty_is_said_beside_it(ran: Shell) -> None:
    assert ran("run", "a", now=later() + 5).code == 0
    assert log_of_2(ran).stat().st_size == 0
    said = ran("logs", "a", now=later() + 10)
    assert (said.code, said.out, said.err) == (0, "", "job 2 has printed nothing yet\n")
    log_of_2(ran).with_name("20260101T0000Z-9.out").touch()
    assert ran("logs", "a", "--job", "9", now=later() + 10).err == "job 9 printed nothing\n"


@pytest.mark.processes
def test_a_run_by_hand_in_the_minute_of_a_slot_is_newer_than_that_slots(ran: Shell) -> None:
    folder = ran.cron / "log" / "a"
    (folder / "20991127T0300Z-8.out").write_text("of the slot\n")
    (folder / "20991127T030009Z-9.out").write_text("by hand\n")
    assert ran("logs", "a", now=later()).out == "by hand\n"


@pytest.mark.processes
def test_a_log_that_is_not_there_yet_is_waited_for(ran: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran("run", "a", now=later() + 5).code == 0
    path = log_of_2(ran)
    path.unlink()
    looks: list[float] = []

    def wait(_: Console, seconds: float) -> None:
        looks.append(seconds)
        if len(looks) > 2:
            raise KeyboardInterrupt
        path.write_text("here it is\n", encoding="utf-8")

    monkeypatch.setattr(Console, "wait", wait)
    said = ran("logs", "a", "-f", now=later() + 10)
    assert (said.code, said.out) == (130, "here it is\n")
    assert said.err.startswith("job 2 ")


@pytest.mark.processes
def test_a_newest_run_that_left_no_log_is_named_beside_the_log_before_it(ran: Shell) -> None:
    (ran.home / "quiet").unlink()
    assert ran("run", "a", "--wait", now=later() + 5).code == 3
    log_of_2(ran).unlink()
    said = ran("logs", "a", now=later() + 10)
    assert (said.code, said.out) == (0, "hello\n")
    assert said.err.startswith("the newest run left no log: a: job 2, by hand ")


@pytest.mark.processes
def test_without_a_name_the_runs_that_have_one_are_listed(ran: Shell) -> None:
    said = ran("logs", now=later() + 5)
    assert "failed (3)" in said.out
    assert said.out.endswith("the log of one: cronhpc logs JOB; of an entry's newest: cronhpc logs NAME\n")
    assert [run["job"] for run in ran("logs", "--json", now=later() + 5).json["runs"]] == ["1"]


@pytest.mark.processes
@pytest.mark.parametrize("words", [("-f",), ("--job", "1"), ("--run", "2")], ids=" ".join)
def test_which_run_is_followed_is_asked_for(ran: Shell, words: tuple[str, ...]) -> None:
    said = ran("logs", *words)
    assert (said.code, said.err) == (2, "cronhpc logs: of which entry, or job? See: cronhpc logs\n")


# --- history ----------------------------------------------------------------------------------------------------------


def row(name: str, at: int, took: int, waited: int = 0, result: str = "ok") -> dict[str, Any]:
    began = at + waited
    which = {"what": "run", "key": f"{name}@{at}", "entry": name, "slot": at, "job": str(at), "at": at}
    return {**which, "result": result, "submitted": at, "started": began, "ended": began + took}


@pytest.fixture
def past(shell: Shell) -> Shell:
    """Runs of today, yesterday and the day before, at noon in Paris."""
    noon = NOW - 2 * HOUR - 440
    rows = [row("a", noon - 48 * HOUR, 5), row("b", noon - 24 * HOUR, 90, 7), row("c", noon, 30, 60, "failed")]
    history.append(shell.cron / "state" / "history", rows, host="h", now=NOW)
    return shell


SINCE: dict[str, tuple[str, str]] = {
    "today": ("today", "c"),
    "yesterday, from its midnight on": ("yesterday", "cb"),
    "in capitals": ("Yesterday", "cb"),
    "a duration": ("2d", "cb"),
    "a date": ("2026-11-25", "cba"),
}


@pytest.mark.parametrize(("since", "entries"), SINCE.values(), ids=SINCE)
def test_history_since_a_day_as_people_say_it(past: Shell, since: str, entries: str) -> None:
    runs = past("history", "--since", since, "--json").json["runs"]
    assert "".join(run["entry"] for run in runs) == entries


def test_of_one_slot_the_last_attempt_comes_first_in_whichever_order_their_ends_were_learnt(shell: Shell) -> None:
    rows = [row("d", NOW - HOUR, 5) | {"key": f"d@{attempt}", "attempt": attempt} for attempt in (2, 1, 3)]
    history.append(shell.cron / "state" / "history", rows, host="h", now=NOW)
    assert [run["attempt"] for run in shell("history", "d", "--json").json["runs"]] == [3, 2, 1]


SORTED = {"slot": "cba", "took": "bca", "waited": "cba", "entry": "abc", "result": "cba"}


@pytest.mark.parametrize(("by", "entries"), SORTED.items())
def test_history_in_another_order(past: Shell, by: str, entries: str) -> None:
    def told(*more: str) -> Said:
        return past("history", "--sort", by, "--json", *more)

    assert "".join(run["entry"] for run in told().json["runs"]) == entries
    assert "".join(run["entry"] for run in told("-n", "1").json["runs"]) == entries[:1]
