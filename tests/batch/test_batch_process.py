"""The one door to other programs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from cronhpc.batch import process
from cronhpc.batch.process import Finished, Missing, run, run_many, side_by_side, which
from cronhpc.core.model import CronhpcError

ENV = {"PATH": "/usr/bin:/bin"}


def bash(script: str, **options: object) -> Finished:
    settings: dict[str, object] = {"timeout": 10, "env": ENV, **options}
    return run(["bash", "-c", script], **settings)  # type: ignore[arg-type]  # a table's options


@pytest.mark.processes
@pytest.mark.parametrize(
    ("script", "code", "out", "err"),
    [
        pytest.param("echo a; echo b >&2; exit 3", 3, "a\n", "b\n", id="exit code and both outputs"),
        pytest.param("kill -9 $$", -9, "", "", id="killed by a signal"),
        pytest.param(r"printf '\xff\xe9'", 0, "\udcff\udce9", "", id="bytes that are no UTF-8"),
        pytest.param("printf '%s' \"${SECRET-unset}\"", 0, "unset", "", id="no variable but those given"),
        pytest.param("exec >&- 2>&-; sleep 0.1; exit 4", 4, "", "", id="pipes closed before its end"),
        pytest.param('read -r line; echo "<$line>"', 0, "<>\n", "", id="nothing on stdin"),
    ],
)
def test_what_comes_back(monkeypatch: pytest.MonkeyPatch, script: str, code: int, out: str, err: str) -> None:
    monkeypatch.setenv("SECRET", "seen")
    assert bash(script) == Finished(code, out, err)


@pytest.mark.processes
def test_much_output_on_both_pipes_does_not_block() -> None:
    ended = bash("head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2")
    assert (len(ended.out), len(ended.err)) == (1000000, 1000000)


@pytest.mark.processes
def test_input_larger_than_a_pipe_arrives() -> None:
    assert run(["wc", "-c"], timeout=10, env=ENV, input="é" * 200_000).out.strip() == "400000"


@pytest.mark.processes
def test_a_program_that_does_not_read_its_input_is_fine() -> None:
    assert run(["true"], timeout=10, env=ENV, input="x" * 1_000_000).code == 0


@pytest.mark.processes
def test_the_working_folder(tmp_path: Path) -> None:
    assert run(["pwd"], timeout=10, env=ENV, cwd=str(tmp_path)).out.strip() == str(tmp_path)


@pytest.mark.processes
def test_a_time_out_ends_the_program_and_all_that_it_started(tmp_path: Path) -> None:
    begun = time.monotonic()
    ended = bash(f"sleep 60 & echo $! > {tmp_path}/pid; echo before; trap '' TERM; wait", timeout=2)
    assert ended.timed_out
    assert ended.out == "before\n"
    assert time.monotonic() - begun < 50, "its child sleeps for 60 s"
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 30
    while Path(f"/proc/{child}").exists() and state(child) != "Z":
        assert time.monotonic() < deadline, "the grandchild still lives"
        time.sleep(0.01)


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@pytest.mark.processes
def test_a_grandchild_that_keeps_the_pipes_does_not_keep_us() -> None:
    begun = time.monotonic()
    ended = bash("setsid sleep 30 & echo done")
    assert ended == Finished(0, "done\n", "")
    assert time.monotonic() - begun < 25, "it sleeps for 30 s"


@pytest.mark.processes
def test_once_it_said_enough_it_need_not_end() -> None:
    begun = time.monotonic()
    ended = bash("echo 4711; sleep 60", enough=lambda out: "4711\n" in out)
    assert ended == Finished(0, "4711\n", "", cut=True)
    assert time.monotonic() - begun < 50, "it sleeps for 60 s"


@pytest.mark.processes
def test_what_said_enough_and_then_ends_by_itself_keeps_its_exit_code() -> None:
    assert bash("echo 4711; exit 3", enough=lambda out: "4711\n" in out).code == 3


@pytest.mark.parametrize("program", ["no-such-program", "/no/such/program", "relative/program", "/etc/passwd"])
def test_a_missing_program_is_said(program: str) -> None:
    with pytest.raises(Missing, match=program):
        run([program], timeout=1, env=ENV)


@pytest.mark.processes
def test_a_program_that_cannot_be_executed_is_said(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    with pytest.raises(Missing, match="cannot be started"):
        run([str(broken)], timeout=1, env=ENV)


@pytest.mark.processes
def test_a_working_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="gone"):
        run(["true"], timeout=1, env=ENV, cwd=str(tmp_path / "gone"))


def test_relative_folders_of_a_path_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trap").write_text("#!/bin/sh\n")
    (tmp_path / "trap").chmod(0o755)
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    assert which("trap", {"PATH": ":.:"}) is None
    assert which("trap", {"PATH": f".:{tmp_path}"}) == f"{tmp_path}/trap"
    assert which("folder", {"PATH": str(tmp_path)}) is None


@pytest.mark.processes
def test_no_child_and_no_file_is_left_open() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    bash("echo; sleep 60", timeout=0.1)
    with pytest.raises(Missing):
        run(["nothing"], timeout=1, env=ENV, input="x")
    bash("cat", input="x")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.processes
def test_a_started_program_outlives_its_caller_in_a_session_of_its_own(tmp_path: Path) -> None:
    pid = process.start(["/bin/sleep", "30"], env=ENV)
    try:
        assert os.getsid(pid) == pid
        assert Path(f"/proc/{pid}/fd/1").readlink() == Path("/dev/null")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.processes
def test_started_programs_that_have_ended_do_not_pile_up_under_their_caller() -> None:
    ended = process.start(["/bin/true"], env=ENV)
    os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)
    started = process.start(["/bin/true"], env=ENV)
    assert not Path(f"/proc/{ended}").exists()
    os.waitpid(started, 0)


def test_many_tasks_keep_their_order_and_their_errors() -> None:
    def task(number: int) -> int:
        if number == 3:
            raise CronhpcError("three")
        time.sleep(0.01 * (5 - number))
        return number

    results = run_many([lambda n=n: task(n) for n in range(5)], 3)  # type: ignore[misc]  # a lambda's default
    assert [str(result) for result in results] == ["0", "1", "2", "three", "4"]


def test_no_more_than_so_many_at_once() -> None:
    running, most = [0], [0]

    pair, lock = threading.Barrier(2), threading.Lock()

    def task() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        pair.wait(90)
        with lock:
            running[0] -= 1

    assert run_many([task] * 8, 2) == [None] * 8
    assert most == [2]


def test_a_mistake_of_ours_is_raised_not_kept() -> None:
    with pytest.raises(ZeroDivisionError):
        run_many([lambda: 1 // 0, lambda: 1], 2)


def test_where_nobody_asks_on_what_has_not_begun_is_left() -> None:
    begun = []

    def task(number: int) -> int:
        begun.append(number)
        time.sleep(0.01)
        return number

    results = side_by_side(task, range(1000), 2)
    assert next(results) == 0
    assert isinstance(results, Generator)
    results.close()
    assert len(begun) < 1000


def test_nothing_to_do() -> None:
    assert run_many([], 4) == []
