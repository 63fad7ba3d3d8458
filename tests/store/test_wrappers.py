"""The script that is submitted in place of a user's: it tells that a run starts, once, and from inside the job."""

from __future__ import annotations

import json
import os
import shutil
import subprocess  # noqa: TID251 - what Slurm would start
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cronhpc.batch.local import Local
from cronhpc.core.model import Claim, ClaimState, Entry, JobEnd, Key, Result
from cronhpc.cron.values import replace
from cronhpc.engine import read
from cronhpc.engine.read_entries import read_entries
from cronhpc.engine.site import open_site
from cronhpc.script.dialect import GRID_ENGINE, LOCAL, PBS, SLURM
from cronhpc.store import wrappers
from cronhpc.store.files import Paths
from tests.cli.test_cli import Shell, later
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture
from tests.engine.test_notify import Server
from tests.engine.test_notify import server as server  # noqa: PLC0414 - a fixture

KEY = Key("backup", 1795831200)
SECRET = "0b5e-s3cr3t"  # noqa: S105 - the test looks for it
NEEDED = ("bash", "cat", "find", "rm", "sleep", "env", "mv")
# It lasts as long as a test wants that, and for a minute at most.
SCRIPT = """#!/bin/bash
echo "$*|${CRONHPC_PING-no address}" >>"$HOME/ran"
for ((n = 0; n < 600; n++)); do [ -e "$HOME/over" ] && exit 7; sleep 0.1; done
"""


class Job:
    """A run of an entry with --ping, as the batch system would start it."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.server = folder, server
        self.state = folder / "state"
        (self.state / "ends").mkdir(parents=True)
        self.script = folder / "my job.slurm"
        self.script.write_text(SCRIPT.replace("/bin/bash", "/usr/bin/env bash"))
        self.where = f"{server.url}/{SECRET}"
        self.environ = {"HOME": str(folder), "PATH": os.environ["PATH"]}

    def start(self, *arguments: str, record: bool = False) -> subprocess.Popen[bytes]:
        argv = wrappers.run(self.state, str(self.script), KEY, SLURM.job, record=record, ping=True)
        environ = {**self.environ, "CRONHPC_PING": self.where}
        with (self.folder / "errors").open("ab") as errors:
            return subprocess.Popen(["bash", *argv, *arguments], env=environ, stderr=errors)

    def only(self, *programs: str) -> None:
        """Of the programs that could tell it, the machine has these."""
        folder = self.folder / "bin"
        folder.mkdir()
        for name in (*NEEDED, *programs):
            real = sys.executable if name == "python3" else shutil.which(name)
            assert real, f"this machine has no {name}"
            (folder / name).symlink_to(real)
        self.environ["PATH"] = str(folder)

    def fake(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    @property
    def mark(self) -> Path:
        return self.state / "ends" / f"{KEY}.ping"

    def end(self, *jobs: subprocess.Popen[bytes]) -> list[int]:
        (self.folder / "over").touch()
        return [job.wait(90) for job in jobs]


def until(there: Callable[[], bool]) -> None:
    last = time.monotonic() + 90
    while not there() and time.monotonic() < last:
        time.sleep(0.05)
    assert there()


@pytest.fixture
def job(tmp_path: Path, server: Server) -> Job:
    return Job(tmp_path, server)


@pytest.mark.processes
@pytest.mark.parametrize("record", [False, True], ids=["", "and its end is recorded"])
@pytest.mark.parametrize("program", [each for each in ("curl", "wget", "python3") if shutil.which(each)])
def test_the_start_is_told_from_inside_the_job(job: Job, program: str, *, record: bool) -> None:
    job.only(program)
    one = job.start("an argument", "b", record=record)
    until(lambda: job.server.asked == [f"/{SECRET}/start"])
    assert job.end(one) == [7], "the script's own exit code"
    assert (job.folder / "ran").read_text() == "an argument b|no address\n", "the script does not get the address"
    assert job.mark.exists()
    assert not wrappers.mark_start(job.state, KEY), "a tick does not tell it again"
    if record:
        assert json.loads(wrappers.end_file(job.state, KEY).read_text())["exit_code"] == 7


@pytest.mark.processes
def test_a_job_that_was_requeued_and_the_other_tasks_of_an_array_tell_it_no_more(job: Job) -> None:
    one = job.start()
    until(lambda: job.server.asked == [f"/{SECRET}/start"])
    more = [job.start() for _ in range(3)]
    until(lambda: (job.folder / "ran").read_text().count("\n") == 4)
    job.end(one, *more)
    assert job.server.asked == [f"/{SECRET}/start"]


@pytest.mark.processes
def test_a_start_that_a_tick_has_told_is_told_no_more(job: Job) -> None:
    assert wrappers.mark_start(job.state, KEY), "the tick was first"
    one = job.start()
    until((job.folder / "ran").exists)
    job.end(one)
    assert job.server.asked == []


UNSENT = {
    "curl finds no network": "exit 7",
    "curl hangs until its time is over": "sleep 2; exit 28",
}


@pytest.mark.processes
@pytest.mark.parametrize("text", UNSENT.values(), ids=UNSENT)
def test_what_could_not_be_sent_is_left_to_the_tick(job: Job, text: str) -> None:
    job.only()
    job.fake("curl", f"cat >/dev/null; echo >>{job.folder}/called; {text}")
    one = job.start()
    until((job.folder / "ran").exists)
    until((job.folder / "called").exists)
    until(lambda: not job.mark.exists())
    assert one.poll() is None, "the job goes on"
    assert wrappers.mark_start(job.state, KEY)
    job.end(one)


@pytest.mark.processes
def test_a_node_without_any_program_for_it_leaves_it_to_the_tick(job: Job) -> None:
    job.only()
    one = job.start()
    until((job.folder / "ran").exists)
    until(lambda: not job.mark.exists())
    assert job.end(one) == [7]


@pytest.mark.processes
def test_the_address_is_no_argument_of_any_program(job: Job) -> None:
    """Whoever is on the node can list the arguments of all processes."""
    for program in ("curl", "wget"):
        job.only() if program == "curl" else (job.folder / "bin" / "curl").unlink()
        job.fake(program, f'echo "$0 $*" >>{job.folder}/called; cat >>{job.folder}/read')
        job.mark.unlink(missing_ok=True)
        (job.folder / "over").unlink(missing_ok=True)
        one = job.start()
        until(lambda: (job.folder / "read").exists() and SECRET in (job.folder / "read").read_text())
        job.end(one)
        (job.folder / "read").unlink()
    assert len((job.folder / "called").read_text().splitlines()) == 2
    assert SECRET not in (job.folder / "called").read_text()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("mode", "asked"), [(0o600, [f"/{SECRET}/start?a=b"]), (0o640, [])], ids=["the owner's alone", "others can read it"]
)
def test_an_address_in_a_file_is_read_where_the_job_starts(job: Job, mode: int, asked: list[str]) -> None:
    file = job.folder / "a secret"
    file.write_text(f"{job.where}/?a=b\n")
    file.chmod(mode)
    job.where = f"file:{file}"
    one = job.start()
    until((job.folder / "ran").exists)
    if asked:
        until(lambda: job.server.asked == asked)
    job.end(one)
    assert job.server.asked == asked


@pytest.mark.processes
@pytest.mark.parametrize(
    "where", ["env:HC_URL", "env:NO_SUCH", "env:no name", "file:/no/such", "ftp://x", "", "file:x"]
)
def test_an_address_that_is_none_stops_no_job(job: Job, where: str) -> None:
    job.environ["HC_URL"] = job.where
    job.where = where
    one = job.start()
    until((job.folder / "ran").exists)
    if where == "env:HC_URL":
        until(lambda: job.server.asked == [f"/{SECRET}/start"])
    assert job.end(one) == [7]
    assert (job.folder / "errors").read_text() == ""


WRAPPED = {
    "neither policy": ("#SBATCH --time=5\n#CRON @daily", None),
    "--record": ("#SBATCH --time=5\n#CRON @daily --record", ("--time=5",)),
    "--ping": ("#SBATCH --time=5\n#CRON @daily --ping=https://hc.example/x", ("--time=5",)),
    "--ping, and no options": ("#CRON @daily --ping=https://hc.example/x", ()),
    "a job of several components": (
        "#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n2\n#CRON @daily --ping=https://x.y/z",
        None,
    ),
}


@pytest.mark.parametrize(("head", "options"), WRAPPED.values(), ids=WRAPPED)
def test_a_wrapper_is_submitted_with_the_scripts_own_options_where_a_policy_needs_one(
    shell: Shell, head: str, options: tuple[str, ...] | None
) -> None:
    """sbatch reads no option of a script that it does not get; of several components each has its own."""
    shell.drop("cron.d/a.slurm", f"{head}\ntrue")
    assert [entry.own_options for entry in entries_of(shell)] == [options]


def test_a_row_with_a_script_keeps_the_scripts_options_too(shell: Shell) -> None:
    work = shell.home / "work.slurm"
    work.write_text("#!/bin/bash\n#SBATCH --time=5\ntrue\n")
    rows = f"entries:\n  a: {{schedule: '@daily', script: {work}, record: true}}\n"
    rows += "  b: {schedule: '@daily', command: 'true', ping: https://hc.example/x}\n"
    (shell.cron / "cronhpc.yaml").write_text(f"backend: local\n{rows}")
    assert {entry.name: entry.own_options for entry in entries_of(shell)} == {"a": ("--time=5",), "b": ()}


DEFAULT = {
    "nothing said": ("#CRON @daily", True),
    "it wants none": ("#CRON @daily --record=false", False),
}


@pytest.mark.parametrize(("head", "record"), DEFAULT.values(), ids=DEFAULT)
def test_runs_write_down_their_ends_where_nobody_could_be_asked(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, head: str, *, record: bool
) -> None:
    """Where a script gets no arguments the wrapper stands in its place all the same, with its options as written."""
    monkeypatch.setattr(Local, "dialect", replace(LOCAL, wraps=True, tells_ends=False))
    shell.drop("cron.d/a.slurm", f"#SBATCH --time 5\n{head}\ntrue")
    (entry,) = entries_of(shell)
    assert entry.policies.record is record
    assert entry.own_options == ("--time 5",)


def entries_of(shell: Shell) -> Sequence[Entry]:
    return read_entries(open_site(str(shell.cron), None, shell.environ), later()).entries


@pytest.mark.processes
def test_a_run_whose_script_is_gone_when_its_job_starts_writes_down_that_it_failed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    path, *arguments = wrappers.run(
        tmp_path / "state", str(tmp_path / "gone.slurm"), KEY, PBS.job, record=True, ping=False
    )
    done = subprocess.run(["bash", path, *arguments], capture_output=True, text=True, timeout=90, check=False)
    assert (done.returncode, "cannot be read" in done.stderr) == (127, True)
    end = wrappers.end_of(tmp_path / "state", KEY)
    assert end is not None
    assert (end.result, end.exit_code) == (Result.FAILED, 127)


def test_a_node_whose_tmp_is_full_starts_the_script_all_the_same() -> None:
    """An older bash keeps what stands behind << in a file there."""
    assert "<<" not in wrappers.run_text(SLURM.job) + wrappers.piece_text(SLURM.job)


def test_marks_are_forgotten_with_the_ends_of_their_runs(tmp_path: Path) -> None:
    other = Key("other", KEY.slot)
    assert wrappers.mark_start(tmp_path, KEY)
    assert wrappers.mark_start(tmp_path, other)
    wrappers.forget_ends(tmp_path, [KEY])
    assert [path.name for path in (tmp_path / "ends").iterdir()] == [f"{other}.ping"]


IN_AN_ARRAY = {"SGE_TASK_ID": "4", "SGE_TASK_FIRST": "2", "SGE_TASK_LAST": "6", "SGE_TASK_STEPSIZE": "2"}
NO_ARRAY = dict.fromkeys(IN_AN_ARRAY, "undefined")


@pytest.mark.processes
@pytest.mark.parametrize("record", [True, False], ids=["recorded", "with a ping alone"])
@pytest.mark.parametrize(
    ("code", "ends_with"), [(100, 1), (99, 1), (7, 7), (0, 0)], ids=["an error state", "once more", "", "well"]
)
@pytest.mark.parametrize(
    ("task", "tasks", "variables"), [("", 1, NO_ARRAY), (".4", 3, IN_AN_ARRAY)], ids=["", "a task"]
)
def test_on_grid_engine_exit_codes_of_another_meaning_do_not_reach_it(  # noqa: PLR0917 - a table's columns
    tmp_path: Path, code: int, ends_with: int, task: str, tasks: int, variables: dict[str, str], *, record: bool
) -> None:
    script = tmp_path / "job.slurm"
    script.write_text(f"#!/bin/bash\nexit {code}\n")
    argv = wrappers.run(tmp_path / "state", str(script), KEY, GRID_ENGINE.job, record=record, ping=not record)
    ended = subprocess.run(["bash", *argv], env={"PATH": os.environ["PATH"], **variables}, timeout=90, check=False)
    assert ended.returncode == ends_with
    found = {path.name: json.loads(path.read_text()) for path in (tmp_path / "state" / "ends").glob("*.json*")}
    assert {name: (row["exit_code"], row["tasks"]) for name, row in found.items()} == (
        {f"{KEY}.json{task}": (code, tasks)} if record else {}
    )


@pytest.mark.processes
@pytest.mark.parametrize(("code", "ends_with"), [(100, 1), (99, 1), (7, 7), (0, 0)])
def test_nor_do_those_of_a_series_piece(tmp_path: Path, code: int, ends_with: int) -> None:
    script = tmp_path / "job.slurm"
    script.write_text(f'#!/bin/bash\necho "$*"\nexit {code}\n')
    argv = [str(wrappers.piece(tmp_path / "state", GRID_ENGINE.job)), str(script), "an argument", "b"]
    ended = subprocess.run(["bash", *argv], capture_output=True, text=True, timeout=90, check=False)
    assert (ended.returncode, ended.stdout) == (ends_with, "an argument b\n"), ended.stderr


@pytest.mark.parametrize(
    ("told", "own", "shown"),
    [
        pytest.param(1, 99, 99, id="the wrapper ended with 1 in its place"),
        pytest.param(1, 100, 100, id="so it did for the other one"),
        pytest.param(1, 1, 1, id="the script's own 1"),
        pytest.param(1, None, 1, id="nothing was written down"),
        pytest.param(7, 99, 7, id="another one of the batch system's"),
    ],
)
def test_an_exit_code_that_tells_the_batch_system_something_else_is_shown(
    tmp_path: Path, told: int, own: int | None, shown: int
) -> None:
    paths = Paths(tmp_path)
    (paths.state / "ends").mkdir(parents=True)
    if own is not None:
        row = {"exit_code": own, "started": 1, "ended": 2, "node": "n1", "tasks": 1}
        wrappers.end_file(paths.state, KEY).write_text(json.dumps(row))
    claim = Claim(KEY, ClaimState.RELEASED, job_id="7")
    known = {"7": JobEnd(Result.FAILED, told, node="n2")}
    found = read._recorded_ends(paths.state, GRID_ENGINE, [claim], known)
    assert (found["7"].exit_code, found["7"].node) == (shown, "n2")
