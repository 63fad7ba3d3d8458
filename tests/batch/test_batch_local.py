"""The local backend: real processes in a folder of their own."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from cronhpc.batch.local import Local, Process, Request, numbered
from cronhpc.batch.local import supervisor as sv
from cronhpc.batch.port import BatchError, Ends, Refused, Submission, Unreachable
from cronhpc.batch.process import start
from cronhpc.core.model import Job, Result
from cronhpc.cron.values import replace

T = TypeVar("T")
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "SLURM_JOB_ID": "old", "KEEP": "kept"}


class Bench:
    """A local backend, scripts for it, and a way to wait."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.local = Local(folder / "local", ENV)

    def script(self, text: str, name: str = "job.slurm") -> str:
        path = self.folder / name
        path.write_text("#!/bin/bash\n" + text)
        return str(path)

    def submit(self, text: str, name: str = "job.slurm", **settings: Any) -> str:
        defaults: dict[str, Any] = {"output": str(self.folder / "out"), "chdir": str(self.folder), "held": False}
        return self.local.submit(Submission(self.script(text, name), **{**defaults, **settings}))

    def job(self, job_id: str) -> Job:
        return {job.id: job for job in self.local.queue().jobs}[job_id]

    def until(self, job_id: str, *states: str) -> Job:
        return self.wait(lambda: self.job(job_id), lambda job: job.state in states)

    def wait(self, look: Callable[[], T], fits: Callable[[T], bool]) -> T:
        deadline = time.monotonic() + 90
        while not fits(seen := look()):
            assert time.monotonic() < deadline, seen
            time.sleep(0.01)
        return seen

    def out(self) -> str:
        path = self.folder / "out"
        return path.read_text() if path.exists() else ""

    def facts(self, job_id: str, name: str) -> dict[str, object]:
        found: dict[str, object] = json.loads((self.folder / "local" / "jobs" / job_id / name).read_text())
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.local.cancel([job.id for job in made.local.queue().jobs if job.live])
    made.wait(lambda: [job for job in made.local.queue().jobs if job.live], lambda live: not live)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("text", "state", "result", "code_and_signal"),
    [
        pytest.param("exit 0", "COMPLETED", Result.OK, (0, None), id="well"),
        pytest.param("exit 3", "FAILED", Result.FAILED, (3, None), id="exit 3"),
        pytest.param("kill -9 $$", "FAILED", Result.FAILED, (None, 9), id="signal 9"),
    ],
)
def test_how_a_script_ends(
    bench: Bench, text: str, state: str, result: Result, code_and_signal: tuple[int | None, int | None]
) -> None:
    job_id = bench.submit(text)
    job = bench.until(job_id, "COMPLETED", "FAILED")
    assert (job.state, (job.exit_code, job.signal)) == (state, code_and_signal)
    job_end = bench.local.job_ends([job_id, "999"], 0).by_id[job_id]
    assert (job_end.result, (job_end.exit_code, job_end.signal)) == (result, code_and_signal)
    assert job_end.started is not None
    assert job_end.ended is not None
    assert bench.local.job_ends([job_id], sv.now() + 100) == Ends()


@pytest.mark.processes
def test_what_a_script_is_given(bench: Bench) -> None:
    text = 'echo "$SLURM_JOB_ID|$SLURM_JOB_NAME|$KEEP|$X|$1|$2|$PWD"; echo err >&2; read -r line || echo "no stdin"'
    job_id = bench.submit(
        text, job_name="a|b\nc", arguments=("x y", "-n"), export={"X": "1,\n2"}, comment="tok | own\nx"
    )
    job = bench.until(job_id, "COMPLETED")
    assert bench.out() == f"{job_id}|a|b\nc|kept|1,\n2|x y|-n|{bench.folder}\nerr\nno stdin\n"
    assert (job.name, job.comment, job.workdir) == ("a|b\nc", "tok | own\nx", str(bench.folder))


@pytest.mark.processes
def test_a_held_job_waits_for_its_release_and_runs_once_whoever_releases_it(bench: Bench) -> None:
    job_id = bench.submit("echo ran >> ran", held=True)
    assert (bench.job(job_id).reason, bench.job(job_id).held_by_user) == ("JobHeldUser", True)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: bench.local.release([job_id, "77", "nonsense"]), range(4)))
    bench.until(job_id, "COMPLETED")
    time.sleep(0.2)
    bench.local.release([job_id])
    time.sleep(0.2)
    assert (bench.folder / "ran").read_text() == "ran\n"


@pytest.mark.processes
def test_a_job_begins_at_its_time_and_that_can_be_moved(bench: Bench) -> None:
    job_id = bench.submit("date +%s", begin=sv.now() + 3600, comment="old")
    assert (bench.job(job_id).state, bench.job(job_id).reason) == ("PENDING", "BeginTime")
    at = sv.now() + 1
    bench.local.move(job_id, at, "new")
    assert (bench.job(job_id).start, bench.job(job_id).comment) == (at, "new")
    bench.until(job_id, "COMPLETED")
    assert int(bench.out()) in {at, at + 1}


@pytest.mark.processes
def test_a_job_that_has_run_cannot_be_moved(bench: Bench) -> None:
    job_id = bench.submit("true")
    bench.until(job_id, "COMPLETED")
    for gone in (job_id, "99"):
        with pytest.raises(BatchError, match="no longer pending"):
            bench.local.move(gone, 1)


@pytest.mark.processes
def test_hold_and_free_mark_and_restore(bench: Bench) -> None:
    job_id = bench.submit("true", begin=sv.now() + 3600, comment="own")
    bench.local.hold([job_id], "mark own")
    assert (bench.job(job_id).reason, bench.job(job_id).comment) == ("JobHeldUser", "mark own")
    bench.local.move(job_id, sv.now())
    time.sleep(0.3)
    assert bench.job(job_id).state == "PENDING", "held, although its time has come"
    bench.local.unhold([job_id], "own")
    assert bench.until(job_id, "COMPLETED").comment == "own"


@pytest.mark.processes
def test_a_pending_job_is_cancelled_at_once_and_never_runs(bench: Bench) -> None:
    job_id = bench.submit("touch ran", begin=sv.now() + 3600)
    who = bench.wait(lambda: sv.read(f"{bench.folder}/local/jobs/{job_id}", "supervisor.json"), bool)
    bench.local.cancel([job_id, "99"], pending_only=True)
    assert bench.job(job_id).state == "CANCELLED"
    bench.local.release([job_id])
    assert who
    bench.wait(Process(**who).lives, lambda alive: alive is False)
    assert not (bench.folder / "ran").exists()
    assert bench.local.job_ends([job_id], 0).cancelled_by.get(job_id) == os.getuid()
    assert bench.local.job_ends([job_id], 0).by_id[job_id].started is None


@pytest.mark.processes
def test_a_running_job_is_ended_with_all_its_processes(bench: Bench) -> None:
    job_id = bench.submit("set -m; sleep 60 & echo $!; trap 'echo term; exit 7' TERM; echo ready; wait")
    bench.wait(bench.out, lambda out: "ready" in out)
    bench.local.cancel([job_id], pending_only=True)
    time.sleep(0.2)
    assert bench.job(job_id).state == "RUNNING", "only pending ones were meant"
    bench.local.cancel([job_id])
    job = bench.until(job_id, "CANCELLED")
    assert (job.exit_code, bench.local.job_ends([job_id], 0).cancelled_by.get(job_id)) == (7, os.getuid())
    assert "term" in bench.out()
    assert not running(int(bench.out().split()[0]))


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.processes
def test_a_job_that_ignores_term_is_killed(bench: Bench) -> None:
    bench.local = Local(bench.folder / "local", ENV, kill_wait=2)
    job_id = bench.submit("trap '' TERM; echo ready; sleep 60; sleep 60")
    bench.wait(bench.out, lambda out: "ready" in out)
    begun = time.monotonic()
    bench.local.cancel([job_id])
    assert time.monotonic() - begun < 1.9, "the caller does not wait"
    assert bench.until(job_id, "CANCELLED").signal == signal.SIGKILL
    assert time.monotonic() - begun >= 2


@pytest.mark.processes
def test_a_signal_reaches_every_process_and_the_job_goes_on(bench: Bench) -> None:
    child = "(trap 'echo child' USR1; for i in {1..99}; do sleep 0.1; done) &"
    job_id = bench.submit(f"{child} trap 'echo parent' USR1; echo ready; wait; sleep 0.2")
    bench.wait(bench.out, lambda out: "ready" in out)
    time.sleep(0.1)
    bench.local.signal([job_id], "USR1")
    bench.wait(bench.out, lambda out: "child" in out and "parent" in out)
    with pytest.raises(BatchError, match="no such signal"):
        bench.local.signal([job_id], "HELLO")


@pytest.mark.processes
def test_a_supervisor_that_was_killed_shows_as_a_failed_node_and_takes_its_script_along(bench: Bench) -> None:
    job_id = bench.submit("echo $$; sleep 60")
    bench.wait(bench.out, bool)
    os.kill(int(str(bench.facts(job_id, "fate")["pid"])), signal.SIGKILL)
    assert bench.until(job_id, "NODE_FAIL").state == "NODE_FAIL"
    bench.wait(lambda: running(int(bench.out())), lambda still: not still)
    assert bench.local.job_ends([job_id], 0).by_id[job_id].result is Result.NODE_FAIL


@pytest.mark.processes
def test_a_waiting_job_whose_supervisor_died_gets_another_at_the_next_look(bench: Bench) -> None:
    job_id = bench.submit("echo ran", begin=sv.now() + 2)
    who = bench.wait(lambda: sv.read(f"{bench.folder}/local/jobs/{job_id}", "supervisor.json"), bool)
    assert who
    os.kill(who["pid"], signal.SIGKILL)
    bench.wait(Process(**who).lives, lambda alive: alive is False)
    assert bench.until(job_id, "COMPLETED").state == "COMPLETED"


def test_a_reused_process_id_is_not_mistaken_for_the_supervisor(bench: Bench) -> None:
    me = Process(**sv.identity(os.getpid()))
    assert me.lives() is True
    assert replace(me, since="1").lives() is False
    assert replace(me, boot="another").lives() is False, "the machine was started anew"
    assert replace(me, host="elsewhere").lives() is None, "nobody can tell from here"


@pytest.mark.processes
def test_a_process_that_has_the_id_of_a_dead_jobs_script_is_not_killed(bench: Bench) -> None:
    job_id = bench.submit("true", held=True)
    folder, me = f"{bench.folder}/local/jobs/{job_id}", sv.identity(os.getpid())
    pid = start(["/bin/sleep", "60"], env={})
    sv.write(folder, "run.json", {**me, "pid": pid, "since": "1", "started": 7})
    sv.write_once(folder, "fate", {"fate": "started", **me, "since": "1"})
    assert bench.job(job_id).state == "NODE_FAIL"
    assert sv.session(pid) == [pid]
    os.kill(pid, signal.SIGKILL)


def test_a_process_that_belongs_to_root_keeps_no_other_from_its_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that sudo had begun: a cancelled job's supervisor died of it, and then no queue could be read."""
    sent = []

    def kill(pid: int, _number: int) -> None:
        if pid == 1:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        sent.append(pid)

    monkeypatch.setattr(os, "kill", kill)
    sv.send([1, 7], signal.SIGTERM)
    assert sent == [7]


@pytest.mark.parametrize(
    ("cancelled", "shut_down", "looks"),
    [
        pytest.param(True, False, 3, id="a cancelled job has not ended while it goes on"),
        pytest.param(False, False, 1, id="a script that ended by itself has"),
        pytest.param(True, True, 1, id="the machine is shut down"),
    ],
)
def test_a_program_of_roots_that_outlives_its_script(
    monkeypatch: pytest.MonkeyPatch, *, cancelled: bool, shut_down: bool, looks: int
) -> None:
    """The run was told as killed, and the next one began beside it."""
    seen, slept = [[], [1], [1]], list[float]()

    def refused(_pid: int, _number: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(sv, "session", lambda _leader: seen.pop())
    monkeypatch.setattr(os, "kill", refused)
    sv._clear(7, cast("sv.Alarm", SimpleNamespace(shut_down=shut_down, sleep=slept.append)), wait=cancelled)
    assert len(slept) == looks - 1


def test_a_job_of_another_machine_is_left_alone(bench: Bench) -> None:
    job_id = bench.submit("true", held=True)
    folder = f"{bench.folder}/local/jobs/{job_id}"
    sv.write_once(folder, "fate", {"fate": "started", **sv.identity(os.getpid()), "host": "elsewhere"})
    assert bench.job(job_id).state == "RUNNING"
    sv.write(folder, "run.json", {**sv.identity(os.getpid()), "host": "elsewhere", "started": 7})
    assert (bench.job(job_id).state, bench.job(job_id).nodes) == ("RUNNING", "elsewhere")
    bench.local.cancel([job_id])
    assert bench.job(job_id).state == "COMPLETING", "it was asked to end, and has not"
    os.utime(f"{folder}/cancel", (sv.now() - 60,) * 2)
    assert bench.job(job_id).state == "COMPLETING", "a shared disk may show its machine files late"
    os.utime(f"{folder}/cancel", (sv.now() - 180,) * 2)
    assert bench.job(job_id).state == "CANCELLED", "its machine is no more: it would keep its entry from running"
    end = bench.local.job_ends([job_id], 0).by_id[job_id]
    assert (end.result, end.node, end.detail) == (Result.CANCELLED, "elsewhere", "elsewhere does not answer")


@pytest.mark.processes
def test_a_waiting_job_of_a_machine_that_does_not_begin_it_runs_here(bench: Bench) -> None:
    job_id = bench.submit("echo ran", held=True)
    folder, other = f"{bench.folder}/local/jobs/{job_id}", {**sv.identity(os.getpid()), "host": "elsewhere"}
    sv.write(folder, "supervisor.json", other)
    bench.local.release([job_id])
    bench.local.queue()
    time.sleep(0.2)
    assert bench.facts(job_id, "supervisor.json") == other, "it may have been released just now"
    os.utime(f"{folder}/supervisor.json", (sv.now() - 180,) * 2)
    assert bench.until(job_id, "COMPLETED").state == "COMPLETED"
    assert bench.out() == "ran\n"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("settings", "detail"),
    [
        pytest.param({"output": "/no/such/folder/out"}, "No such file", id="no log folder"),
        pytest.param({"chdir": "/no/such/folder"}, "No such file|not there", id="no working folder"),
    ],
)
def test_what_cannot_be_launched(bench: Bench, settings: Mapping[str, Any], detail: str) -> None:
    job_id = bench.submit("true", **settings)
    job = bench.until(job_id, "FAILED")
    assert (job.reason, job.signal) == ("JobLaunchFailure", 53)
    assert re.search(detail, bench.local.job_ends([job_id], 0).by_id[job_id].detail)


@pytest.mark.processes
def test_an_interpreter_that_is_gone_cannot_be_launched(bench: Bench) -> None:
    path = bench.folder / "x"
    path.write_text("#!/no/such/python -u\n")
    job_id = bench.local.submit(Submission(str(path), output=f"{bench.folder}/out", held=False))
    assert bench.until(job_id, "FAILED").reason == "JobLaunchFailure"


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(b"", Refused, id="empty"),
        pytest.param(b"echo hello\n", Refused, id="no interpreter line"),
        pytest.param(b"\xef\xbb\xbf#!/bin/bash\n", Refused, id="a byte order mark"),
        pytest.param(b"#!/bin/bash\r\ntrue\r\n", Refused, id="Windows line ends"),
        pytest.param(None, Unreachable, id="not there"),
    ],
)
def test_scripts_that_sbatch_would_not_take(bench: Bench, data: bytes | None, error: type[BatchError]) -> None:
    path = bench.folder / "x"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(error, match="x: "):
        bench.local.submit(Submission(str(path)))
    assert bench.local.queue().jobs == ()


def test_the_fix_of_a_refused_script_can_be_pasted(bench: Bench) -> None:
    path = bench.folder / "my job"
    path.write_bytes(b"#!/bin/bash\r\n")
    with pytest.raises(Refused, match=f"dos2unix '{re.escape(str(path))}',"):
        bench.local.submit(Submission(str(path)))


def test_arrays_are_refused_whoever_asks_for_one(bench: Bench) -> None:
    with pytest.raises(Refused, match="no arrays"):
        bench.submit("true", options=("--array=0-3",))
    with pytest.raises(Refused, match="no arrays"):
        bench.submit("#SBATCH --array=0-3\ntrue")


@pytest.mark.processes
def test_the_scripts_own_options_count_where_the_submission_says_nothing(bench: Bench) -> None:
    asked = f"#SBATCH --job-name=own --output=%x-%j.log --error=e --chdir={bench.folder} --hold\n"
    job_id = bench.submit(asked + "echo out; echo err >&2", output=None, chdir=None)
    assert bench.job(job_id).reason == "JobHeldUser", "its own --hold"
    bench.local.release([job_id])
    assert bench.until(job_id, "COMPLETED").name == "own"
    assert ((bench.folder / f"own-{job_id}.log").read_text(), (bench.folder / "e").read_text()) == ("out\n", "err\n")


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("%x-%j.out", "my job-7.out"),
        ("a%%j", "a%j"),
        ("%5j", "00007"),
        ("%A_%a", "7_4294967294"),
        ("%u", "me"),
        ("%q%", "%q%"),
        ("plain", "plain"),
    ],
)
def test_patterns_of_log_names(pattern: str, name: str) -> None:
    request = Request(0, "/x", "my job", "/", 0, output=pattern, user="me")
    assert numbered(request, 7) == replace(request, id=7, output=name)


@pytest.mark.processes
def test_logs_are_cut_or_appended_to(bench: Bench) -> None:
    for options in ((), (), ("--open-mode=append",)):
        bench.until(bench.submit("echo line", options=options), "COMPLETED")
    assert bench.out() == "line\nline\n"


@pytest.mark.processes
def test_edits_after_the_submission_do_not_count(bench: Bench) -> None:
    job_id = bench.submit("echo first", held=True)
    bench.script("echo second")
    bench.local.release([job_id])
    bench.until(job_id, "COMPLETED")
    assert bench.out() == "first\n"


def test_ids_are_never_given_twice_and_old_jobs_are_forgotten(bench: Bench) -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda n: bench.submit("true", f"s{n}", held=True), range(24)))
    assert sorted(map(int, ids)) == list(range(1, 25))
    bench.local.cancel(ids)
    for job_id in ids:
        sv.write(f"{bench.folder}/local/jobs/{job_id}", "end.json", {"state": "CANCELLED", "ended": sv.now() - 90000})
    assert [job.id for job in bench.local.queue().jobs] == ["24"], "the highest number stays known"
    assert bench.submit("true", held=True) == "25"
    assert not (bench.folder / "local" / "jobs" / "1").exists()


def test_a_tick_that_is_killed_while_it_forgets_a_job_leaves_none_that_waits(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of its files go first is chance: without fate and end.json it would have run a second time."""
    old, newest = (bench.submit("true", held=True) for _ in range(2))
    folder = bench.folder / "local" / "jobs" / old
    sv.write(str(folder), "plan.json", {**PLAN, "held": False})
    sv.write_once(str(folder), "fate", {"fate": "cancelled", "ended": 7})

    def killed(_: object) -> None:
        with suppress(FileNotFoundError):
            os.remove(folder / "fate")  # noqa: PTH107 - unlink is the one that is killed
        sys.exit("killed")

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", killed)
        with pytest.raises(SystemExit):
            bench.local.queue()
    assert [job.id for job in bench.local.queue().jobs] == [newest]


@pytest.mark.processes
def test_the_environment_is_scrubbed(bench: Bench) -> None:
    job_id = bench.submit("env", begin=None)
    bench.until(job_id, "COMPLETED")
    names = {line.partition("=")[0]: line.partition("=")[2] for line in bench.out().splitlines()}
    assert names["SLURM_JOB_ID"] == job_id
    assert names["KEEP"] == "kept"


def test_an_unreadable_queue_is_no_empty_queue(bench: Bench) -> None:
    job_id = bench.submit("true", held=True)
    plan = bench.folder / "local" / "jobs" / job_id / "plan.json"
    whole = plan.read_text()
    plan.write_text("{")
    with pytest.raises(Unreachable):
        bench.local.queue()
    plan.write_text(whole)


ME = {"pid": os.getpid(), "since": "1", "boot": "b", "host": os.uname().nodename}
JOB = {"id": 1, "script": "/x", "job_name": "x", "chdir": "/", "submitted": 7}
PLAN = {"begin": None, "held": True, "comment": ""}
DAMAGED: dict[str, tuple[str, object, str]] = {  # a file, what it holds, which part of it nobody wrote
    "null is no file that is not there": ("plan.json", None, "content"),
    "a list": ("plan.json", [], "content"),
    "a plan without its comment": ("plan.json", {"begin": None, "held": True}, "content"),
    "a word for a flag": ("plan.json", {**PLAN, "held": "no"}, "held"),
    "a beginning after all dates": ("plan.json", {**PLAN, "begin": 10**15}, "begin"),
    "half of a character": ("plan.json", {**PLAN, "comment": "\ud800"}, "comment"),
    "another job's": ("job.json", {**JOB, "id": 2}, "id"),
    "a path with a NUL": ("job.json", {**JOB, "script": "/x\0"}, "script"),
    "a log that is a number": ("job.json", {**JOB, "output": 7}, "output"),
    "an end that is none": ("end.json", {"state": "RUNNING", "ended": 7}, "state"),
    "a time before 1970": ("end.json", {"state": "FAILED", "ended": -1}, "ended"),
    "no fate": ("fate", {"started": 7}, "content"),
    "a fate without its supervisor": ("fate", {"fate": "started"}, "content"),
    "a process that is a text": ("supervisor.json", {**ME, "pid": "7"}, "pid"),
}


@pytest.mark.parametrize(("name", "value", "part"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_of_a_job_makes_the_queue_unknown(bench: Bench, name: str, value: object, part: str) -> None:
    folder = bench.folder / "local" / "jobs" / bench.submit("true", held=True)
    if name == "supervisor.json":
        sv.write(str(folder), "plan.json", {**PLAN, "held": False})
    path = folder / name
    whole = path.read_bytes() if path.exists() else None
    path.write_text(json.dumps(value))
    with pytest.raises(Unreachable, match=f"/{name}: its {part} is none that cronhpc writes. .*remove its folder"):
        bench.local.queue()
    path.write_bytes(whole or json.dumps({"fate": "cancelled"}).encode())
    if whole is None and name != "fate":
        path.unlink()


def test_what_earlier_versions_wrote_of_a_job_is_read(bench: Bench) -> None:
    job_id = bench.submit("true", held=True)
    folder = f"{bench.folder}/local/jobs/{job_id}"
    sv.write(folder, "job.json", {**JOB, "patience": 5})
    sv.write_once(folder, "fate", {"fate": "cancelled"})
    assert (bench.job(job_id).state, bench.local.job_ends([job_id], 0).cancelled_by.get(job_id)) == ("CANCELLED", None)
    sv.write(folder, "end.json", {"state": "CANCELLED", "ended": 9, "by": 7})
    assert (bench.job(job_id).state, bench.local.job_ends([job_id], 0).cancelled_by.get(job_id)) == ("CANCELLED", 7)


def test_earlier_versions_read_what_is_written_of_a_job_whose_supervisor_died(bench: Bench) -> None:
    job_id = bench.submit("true", held=True)
    folder = f"{bench.folder}/local/jobs/{job_id}"
    sv.write_once(folder, "fate", {"fate": "started", **ME})
    assert bench.job(job_id).state == "NODE_FAIL"
    assert None not in bench.facts(job_id, "end.json").values(), "to them None is damage"


def test_a_job_that_is_cancelled_while_it_waits_is_so_by_one_step(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tick that was killed between two steps left a job that was cancelled at each look, and never forgotten."""
    job_id = bench.submit("true", held=True)
    monkeypatch.setattr(sv, "write", None)
    bench.local.cancel([job_id])
    ended = bench.facts(job_id, "fate")["ended"]
    monkeypatch.setattr(sv, "now", lambda: 2_000_000_000)
    assert (bench.job(job_id).ended, bench.local.job_ends([job_id], 0).cancelled_by.get(job_id)) == (ended, os.getuid())


@pytest.mark.processes
def test_a_job_does_not_begin_while_its_machine_is_shut_down(bench: Bench) -> None:
    """Its supervisor was told before its first sleep: it began the script, ended it, and the run was lost."""
    folder = f"{bench.folder}/local/jobs/{bench.submit('true', held=True)}"
    sv.write(folder, "plan.json", {**PLAN, "held": False})
    argv = [sys.executable, "-I", "-S", sv.__file__, folder]
    pid = os.posix_spawn(argv[0], argv, {}, setsigmask=[signal.SIGTERM])
    os.kill(pid, signal.SIGTERM)
    assert os.waitpid(pid, 0)[1] == 0
    assert not Path(folder, "fate").exists()


def test_a_submission_that_a_full_disk_does_not_take_leaves_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_folder: str, name: str, _facts: sv.Facts) -> None:
        if name == "plan.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sv, "write", full)
    with pytest.raises(Unreachable, match="No space left"):
        bench.submit("true")
    assert list((bench.folder / "local" / "jobs").iterdir()) == []


def test_a_file_that_a_disk_has_room_for_half_of_is_not_put_in_place(tmp_path: Path) -> None:
    """It was, and that job made the whole queue unknown."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            sv.write(str(tmp_path), "job.json", {"environment": "x" * 1000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_what_the_disk_does_not_take_has_not_happened(bench: Bench) -> None:
    bench.submit("true", held=True)
    (bench.folder / "local").rename(bench.folder / "moved")
    (bench.folder / "local").touch()
    with pytest.raises(Unreachable, match="cannot be written"):
        bench.submit("true")
    (bench.folder / "local").unlink()
    (bench.folder / "moved").rename(bench.folder / "local")


@pytest.mark.processes
def test_a_full_disk_keeps_no_running_job_from_being_cancelled(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    job_id = bench.submit("sleep 60")
    bench.until(job_id, "RUNNING")
    with monkeypatch.context() as patched:
        patched.setattr(sv, "_fresh", full)
        bench.local.cancel([job_id])
    bench.until(job_id, "CANCELLED")
    assert bench.local.job_ends([job_id], 0).cancelled_by.get(job_id) == os.getuid()


def test_how_a_script_ended_is_written_when_a_full_disk_has_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Alarm:
        shut_down, slept = False, 0

        def sleep(self, _seconds: float) -> None:
            self.slept += 1

    def until_there_is_room(folder: str, name: str, facts: sv.Facts) -> None:
        if alarm.slept < 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(folder, name, facts)

    alarm, write = Alarm(), sv.write
    monkeypatch.setattr(sv, "write", until_there_is_room)
    sv.write_end(str(tmp_path), {"state": "COMPLETED"}, cast("sv.Alarm", alarm))
    assert sv.read(str(tmp_path), "end.json") == {"state": "COMPLETED"}
    alarm.slept, alarm.shut_down = 0, True
    with pytest.raises(OSError, match="No space left"):
        sv.write_end(str(tmp_path), {"state": "COMPLETED"}, cast("sv.Alarm", alarm))


@pytest.mark.processes
def test_the_umask_of_the_submission_counts(bench: Bench) -> None:
    before = os.umask(0o027)
    try:
        job_id = bench.submit("umask")
    finally:
        os.umask(before)
    bench.until(job_id, "COMPLETED")
    assert bench.out() == "0027\n"
