"""Ready-made jobs and examples on a real Slurm, with the real tools."""

from __future__ import annotations

import getpass
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab.conftest import Lab, MakeLab
from tests.ready_made_jobs import JOBS, LIB, SCRIPTS, filled_in, stand_in

pytestmark = pytest.mark.lab
EXAMPLES = JOBS / "examples"
STAND_INS = JOBS.parent / "tests/standins"
LONG = "training-of-a-model-with-a-name-longer-than-40-characters"
STALLED = """import socket
def all_reduce_that_never_ends():
    one, other = socket.socketpair()
    one.recv(1)
print('begun', flush=True)
all_reduce_that_never_ends()
"""


class Shelf:
    """Jobs of the shelf, run on the lab from a folder of their own."""

    def __init__(self, lab: Lab, place: Path) -> None:
        self.lab, self.place = lab, place
        self.count = 0

    @property
    def env(self) -> dict[str, str]:
        """What a run gets: the tools of this environment, and Python as its users have it."""
        path = f"{self.place / 'bin'}:{Path(sys.executable).parent}:{self.lab.env['PATH']}"
        own = {"CRONHPC_JOBS_LIB": str(LIB), "CRONHPC_PYTHON": sys.executable}
        return {**own, "PATH": path, "HOME": str(self.place), "XDG_STATE_HOME": str(self.place / "state")}

    def submit(self, script: Path, *options: str, **more: str) -> tuple[str, Path]:
        """(job id, log)."""
        self.count += 1
        log = self.place / f"log-{self.count}"
        job = self.lab.submit("-o", str(log), *options, str(script), env={**self.env, **more}, cwd=self.place)
        return job, log

    def run(self, script: Path, *options: str, **more: str) -> tuple[str, str]:
        """Submit, wait for the end; (exit code as Slurm has it, log)."""
        job, log = self.submit(script, *options, **more)
        self.lab.wait_ended(job)
        return self.lab.job(job)["ExitCode"], log.read_text(encoding="utf-8", errors="replace")

    def fill(self, job: str, **settings: str) -> Path:
        """A job of the shelf with its settings, under a name of its own."""
        return filled_in(job, self.place, **settings)


@pytest.fixture
def shelf(lab: Lab, cluster_user_dir: Callable[..., Path]) -> Iterator[Shelf]:
    yield Shelf(lab, cluster_user_dir())
    # by the array's number: Slurm does not know a task that was requeued by its own (and says nothing)
    lab.run(["scancel", *lab.run(["squeue", "-h", "-o", "%F"]).stdout.split()], check=False)
    lab.drain_queue()


# --- as they are ---------------------------------------------------------------------------------------------------


def test_every_job_runs_as_it_is_from_where_it_lies(shelf: Shelf) -> None:
    """All at once; each ends by itself with 0, 1 or 2, says something, and no stack trace."""
    bare = {"CRONHPC_JOBS_LIB": ""}  # so that each finds its lib by what Slurm knows of its script
    jobs = {path.stem: shelf.submit(path, **bare) for path in SCRIPTS}
    shelf.lab.wait_ended(*(job for job, _ in jobs.values()), timeout=180)
    for name, (job, log) in jobs.items():
        code, said = shelf.lab.job(job)["ExitCode"], log.read_text(encoding="utf-8")
        assert code in {"0:0", "1:0", "2:0"}, (name, said)
        assert said, name
        assert "Traceback" not in said, (name, said)
        assert "there is no" not in said or "start.sh" not in said, (name, said)
        if code == "2:0":
            assert said.rstrip().rpartition("\n")[2].startswith("broken: "), (name, said)
    ran = {name for name, (job, _) in jobs.items() if shelf.lab.job(job)["ExitCode"] == "0:0"}
    assert {"quota-watch", "mlocate-update", "node-report", "nccl-check"} <= ran


def test_an_index_of_names_is_made_and_found_with_the_real_tools(shelf: Shelf) -> None:
    root = shelf.place / "work with blank"
    (root / ".git").mkdir(parents=True)
    for name in ("needle in a haystack", ".git/needle"):
        (root / name).touch()
    script = shelf.fill("mlocate-update", ROOT=f"'{root}'")
    code, said = shelf.run(script)
    assert code == "0:0", said
    found = shelf.lab.run(["plocate", "-d", str(root / ".locate.db"), "needle"]).stdout
    assert found == f"{root}/needle in a haystack\n"
    before = (root / ".locate.db").read_bytes()
    stand_in(shelf.place, "updatedb.plocate", "echo no >&2; exit 1")
    code, said = shelf.run(script)
    assert (code, (root / ".locate.db").read_bytes()) == ("2:0", before), said
    assert sorted(path.name for path in root.iterdir()) == [".git", ".locate.db", "needle in a haystack"]


def test_what_is_added_runs_as_an_entry_of_a_cron_directory(shelf: Shelf) -> None:
    cron = shelf.place / "cron"
    environ = {**shelf.env, "CRONHPC_JOBS_LIB": "", "PYTHONPATH": str(JOBS.parent), "CRONHPC_DIR": str(cron)}

    def cronhpc(*words: str) -> str:
        return shelf.lab.run([sys.executable, "-m", "cronhpc", *words], env=environ, cwd=shelf.place).stdout

    cronhpc("init")
    cronhpc("add", "quota-watch", "--as", "how-full", "--schedule", "@hourly")
    assert "nothing to fix" in cronhpc("check")
    time.sleep(3.5)  # a file that has just changed is left for the next look
    job = json.loads(cronhpc("run", "how-full", "--json"))["job"]
    shelf.lab.wait_ended(job)
    said = cronhpc("logs", "how-full")
    assert ": space " in said
    assert shelf.lab.job(job)["ExitCode"] in {"0:0", "1:0"}, said


# --- training-watch ------------------------------------------------------------------------------------------------


def test_training_watch_tells_apart_what_a_training_can_be(shelf: Shelf) -> None:
    lab = shelf.lab
    sent = shelf.place / "sent"
    notify = stand_in(shelf.place, "notify", f"cat >> {sent}") / "notify"
    names = {"running": LONG + "-a", "pending": "waits", "held": "held", "two": "two of them", "lost": "lost"}
    lab.submit("-J", LONG + "-a", "--wrap", "sleep 300")
    lab.submit("-J", "waits", "--begin=now+1hour", "--wrap", "true")
    lab.submit("-J", "held", "--hold", "--wrap", "true")
    lab.submit("-J", "two of them", "--hold", "--wrap", "true")
    lab.submit("-J", "two of them", "--wrap", "sleep 300")
    fails = lab.submit("--wrap", "false")
    lab.wait_ended(fails)
    lab.submit("-J", "lost", f"--dependency=afterok:{fails}", "--wrap", "true")
    lab.wait_for(lambda: any(row["reason"] == "DependencyNeverSatisfied" for row in lab.squeue()))
    lab.wait_for(lambda: sum(row["state"] == "RUNNING" for row in lab.squeue()) == 2)
    every = " ".join(f"'{name}'" for name in [*names.values(), LONG + "-b", "training-watch"])
    script = shelf.fill("training-watch", WATCH=f"({every})", NOTIFY=str(notify))
    code, said = shelf.run(script)
    assert code == "1:0"
    states = {line.partition(" is ")[0]: line.partition(" is ")[2] for line in said.splitlines() if " is " in line}
    assert states[LONG + "-a"].startswith("running: job ")
    assert states["waits"].startswith("pending: job ")
    assert states["held"].startswith("held: job ")
    assert states["two of them"].startswith("running: job ")
    assert states["lost"].startswith("dependency never satisfied: job ")
    assert states[LONG + "-b"].startswith("gone"), "whole names are compared, beyond 40 characters"
    assert states["training-watch"].startswith("gone"), "it does not see itself"
    assert sent.read_text(encoding="utf-8").count("ALERT: ") == 4

    assert shelf.run(script)[0] == "1:0"
    assert sent.read_text(encoding="utf-8").count("ALERT: ") == 4, "each is sent once"

    held = next(row["id"] for row in lab.squeue() if row["name"] == "held")
    lab.run(["scontrol", "update", f"jobid={held}", "StartTime=now+1hour"])
    lab.run(["scontrol", "release", held])
    for _ in range(2):
        shelf.run(script)
    said = sent.read_text(encoding="utf-8")
    assert said.count("fine again: held is pending") == said.count("fine again") == 1


def test_training_watch_without_a_controller_says_unknown_and_alerts_nobody(shelf: Shelf) -> None:
    lab = shelf.lab
    script = shelf.fill("training-watch", WATCH="(train)")
    gate, running = shelf.place / "gate", shelf.place / "running"
    waiting = shelf.place / "waiting.slurm"
    waiting.write_text(
        f"#!/bin/bash\ntouch {running}\nuntil [ -e {gate} ]; do sleep 0.1; done\nexec bash {script}\n", encoding="utf-8"
    )
    job, log = shelf.submit(waiting)
    lab.wait_for(running.exists)
    lab.kill_controller()
    try:
        gate.touch()
        lab.wait_for(lambda: "queue is unknown" in log.read_text(encoding="utf-8"))
    finally:
        lab.start_controller()
    lab.wait_ended(job)
    said = log.read_text(encoding="utf-8")
    assert "ALERT" not in said
    assert "broken: the queue is unknown: " in said
    assert shelf.lab.job(job)["ExitCode"] == "2:0"


# --- stall-watch ---------------------------------------------------------------------------------------------------


def test_stall_watch_shows_where_both_ranks_of_a_hung_program_are(shelf: Shelf) -> None:
    lab = shelf.lab
    program = shelf.place / "hangs.py"
    program.write_text(STALLED, encoding="utf-8")
    script = shelf.place / "hangs.slurm"
    script.write_text(f"#!/bin/bash\nsrun {sys.executable} {program}\n", encoding="utf-8")
    job, log = shelf.submit(script, "-J", "hangs", "--nodes=2", "--ntasks=2")
    lab.wait_for(lambda: log.exists() and log.read_text(encoding="utf-8").count("begun") == 2)
    watch = shelf.fill("stall-watch", WATCH="(hangs)", MINUTES="0.01")
    time.sleep(1)
    code, said = shelf.run(watch)
    assert code == "1:0", said
    assert f"ALERT: job {job} hangs (running): its log has not grown for " in said
    for rank, node in (("0", "cpu"), ("1", "cpu")):
        assert f"rank {rank} of step 0" in said, node
    assert said.count("all_reduce_that_never_ends (hangs.py:4)") == 2, said
    code, again = shelf.run(watch)
    assert (code, "ALERT" in again, "never_ends" in again) == ("1:0", False, False)
    assert lab.job(job)["JobState"] == "RUNNING"

    by_hand = lab.run(["bash", EXAMPLES / "stacks.sh", job], env=shelf.env).stdout
    assert by_hand.count("all_reduce_that_never_ends (hangs.py:4)") == 2

    code, last = shelf.run(shelf.fill("stall-watch", WATCH="(hangs)", MINUTES="0.01", STOP="yes"))
    assert "cancelled (STOP=yes)" in last
    lab.wait_ended(job)


# --- the nodes -----------------------------------------------------------------------------------------------------


def test_drained_nodes_are_reported_by_reason_and_what_is_new_is_said(shelf: Shelf) -> None:
    lab = shelf.lab
    script = shelf.fill("node-report", ALERT="yes")
    assert "0 of 4 nodes cannot be used" in shelf.run(script)[1]
    for nodes, reason in (("cpu2,cpu3", "bad disk | really"), ("gpu1", "fan")):
        lab.run(["scontrol", "update", f"nodename={nodes}", "state=drain", f"reason={reason}"])
    try:
        code, said = shelf.run(script)
        by_hand = lab.run(["bash", EXAMPLES / "drained-nodes.sh"]).stdout
    finally:
        lab.run(["scontrol", "update", "nodename=cpu2,cpu3,gpu1", "state=resume"])
        # Slurm shows what was resumed as idle*, not responding, until it has asked the node: about a second
        lab.wait_for(lambda: "*" not in lab.run(["sinfo", "-h", "-o", "%t"]).stdout)
    assert code == "1:0", said
    assert f"  cpu[2-3]: drained: bad disk | really ({getpass.getuser()})" in said
    assert "newly out since the last run: cpu[2-3],gpu1" in said
    assert by_hand.startswith(f"cpu[2-3]: bad disk | really ({getpass.getuser()}), since ")
    code, said = shelf.run(script)
    assert code == "0:0", said
    assert "back again since the last run: cpu[2-3],gpu1" in said
    assert said.count("fine again: ") == 3
    assert "no node is drained" in lab.run(["bash", EXAMPLES / "drained-nodes.sh"]).stdout


def test_bad_nodes_are_found_and_listed_for_exclude(shelf: Shelf) -> None:
    script = shelf.place / "find-bad-nodes.slurm"
    text = (EXAMPLES / "find-bad-nodes.slurm").read_text(encoding="utf-8")
    text = text.replace("CHECK=cuda ", "CHECK=nccl ").replace("PYTHON=python3", f"PYTHON={sys.executable}")
    script.write_text(text, encoding="utf-8")
    meeting = shelf.place / "meeting"
    meeting.mkdir()
    three = ("-p", "cpu", "--gres=none", "--nodes=3")
    torch = {"PYTHONPATH": str(STAND_INS), "TORCH_STAND_IN": str(meeting), "MASTER_ADDR": "127.0.0.1"}
    code, said = shelf.run(script, *three, **torch)
    assert code == "0:0", said
    assert "all 3 nodes are fine (nccl)" in said
    stand_in(shelf.place, "scontrol-real", "")
    bad = stand_in(
        shelf.place, "python-of-the-nodes", f'[[ $SLURMD_NODENAME != cpu[13] ]] && exec {sys.executable} "$@"'
    )
    script.write_text(text.replace(f"PYTHON={sys.executable}", f"PYTHON={bad}/python-of-the-nodes"), encoding="utf-8")
    shutil.rmtree(meeting)
    meeting.mkdir()
    code, said = shelf.run(script, *three, **torch)
    assert code == "1:0", said
    assert "2 of 3 nodes are bad (nccl):\n--exclude=cpu[1,3]" in said


def test_an_all_reduce_across_nodes_in_an_allocation_of_its_own(shelf: Shelf) -> None:
    """With a stand-in for PyTorch; with the real one and GPUs it has been run by hand."""
    meeting = shelf.place / "meeting"
    meeting.mkdir()
    torch = {"PYTHONPATH": str(STAND_INS), "TORCH_STAND_IN": str(meeting), "MASTER_ADDR": "127.0.0.1"}
    settings = {
        "ENABLED": "yes",
        "PARTITION": "cpu",
        "PYTHON": sys.executable,
        "OPTIONS": "(--gres=none)",
        "WAIT": "20",
    }
    code, said = shelf.run(shelf.fill("nccl-check", **settings), **torch)
    assert code == "0:0", said
    assert "all_reduce of 256 MiB over 2 ranks" in said


# --- accounting ----------------------------------------------------------------------------------------------------


def test_what_jobs_used_is_read_from_real_accounting(make_lab: MakeLab, cluster_user_dir: Callable[..., Path]) -> None:
    shelf = Shelf(make_lab(accounting=True), cluster_user_dir())
    lab = shelf.lab
    job = lab.submit("-J", "wasteful", "-c", "4", "--time=60", "--wrap", "sleep 2")
    gpus = lab.submit("-p", "gpu", "--gres=gpu:3", "-J", "on gpus", "--wrap", "sleep 2")
    lab.wait_ended(job, gpus)
    seen = [
        "sacct",
        "-n",
        "-X",
        "-S",
        "now-1hour",
        "-o",
        "State",
    ]  # by time it knows them some seconds later than by id
    lab.wait_for(lambda: lab.run(seen).stdout.split() == ["COMPLETED"] * 2)
    code, said = shelf.run(shelf.fill("efficiency-report"))
    assert code == "0:0", said
    row = next(line for line in said.splitlines() if line.endswith("wasteful"))
    assert row.split()[0] == "1"
    assert lab.run(["bash", EXAMPLES / "gpu-use.sh", gpus]).stdout.startswith(
        f"job {gpus} (COMPLETED): 3 GPUs for 0h00m0"
    )


def test_without_accounting_the_report_says_so_and_gpu_use_asks_the_controller(shelf: Shelf) -> None:
    job = shelf.lab.submit("-p", "gpu", "--gres=gpu:2", "--wrap", "sleep 1")
    code, said = shelf.run(SCRIPTS[[path.stem for path in SCRIPTS].index("efficiency-report")])
    assert code == "2:0"
    assert "the accounting does not answer" in said
    shelf.lab.wait_ended(job)
    assert "2 GPUs for 0h00m0" in shelf.lab.run(["bash", EXAMPLES / "gpu-use.sh", job]).stdout


# --- series --------------------------------------------------------------------------------------------------------


@pytest.fixture
def series(shelf: Shelf) -> Callable[..., Path]:
    """A train whose training counts its starts, and is done after three."""
    stand_in(shelf.place, "cronhpc", f'PYTHONPATH={JOBS.parent} exec {sys.executable} -m cronhpc "$@"')
    program = shelf.place / "train.sh"
    program.write_text(
        'echo x >> starts; [ ! -e fails ] || exit 1; [ "$(wc -l < starts)" -lt 3 ] || touch done; sleep "${1:-0}"\n',
        encoding="utf-8",
    )

    def make(seconds: str = "0.2", **settings: str) -> Path:
        return shelf.fill("train-chain", TRAIN=f"(bash {program} {seconds})", **settings)

    return make


def starts(shelf: Shelf) -> int:
    path = shelf.place / "starts"
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


def trains_in(shelf: Shelf) -> list[dict[str, str]]:
    return [row for row in shelf.lab.squeue() if row["name"] == "train-chain"]


def test_a_train_goes_on_until_its_done_file(shelf: Shelf, series: Callable[..., Path]) -> None:
    shelf.submit(series())
    shelf.lab.wait_for(lambda: (shelf.place / "done").exists() and not trains_in(shelf))
    assert starts(shelf) == 3


def test_a_train_rests_after_fast_failures(shelf: Shelf, series: Callable[..., Path]) -> None:
    (shelf.place / "fails").touch()
    shelf.submit(series(FAILURES="2"))
    shelf.lab.wait_for(lambda: starts(shelf) >= 2 and not trains_in(shelf))
    assert starts(shelf) == 2


def test_a_kill_switch_ends_a_train_and_what_waits_behind_it(shelf: Shelf, series: Callable[..., Path]) -> None:
    switch = shelf.place / "stop-it"
    _, log = shelf.submit(series("300", KILL=str(switch), WARN="5s"))
    shelf.lab.wait_for(lambda: starts(shelf) == 1)
    switch.touch()
    shelf.lab.wait_for(lambda: not trains_in(shelf))
    assert starts(shelf) == 1
    assert "stopped by " in log.read_text(encoding="utf-8")


def test_an_array_that_a_file_pauses_loses_no_task(shelf: Shelf) -> None:
    lab = shelf.lab
    shutil.copy(EXAMPLES / "array-train.slurm", shelf.place)
    script = shelf.place / "array-train.slurm"
    text = script.read_text(encoding="utf-8").replace("TRAIN=(python3 train.py)", "TRAIN=(bash -c 'echo x >> starts')")
    script.write_text(text.replace("1-10%1", "1-3%1"), encoding="utf-8")
    (shelf.place / "pause").touch()
    job, log = shelf.submit(script)

    def all_held() -> bool:
        rows = [row for row in lab.squeue() if row["name"] == "array-train"]
        return len(rows) == 3 and all(row["state"] == "PENDING" and "held" in row["reason"].lower() for row in rows)

    lab.wait_for(all_held)
    (shelf.place / "pause").unlink()
    lab.run(["scontrol", "release", job])
    lab.begin_now(f"{job}_1", lambda: starts(shelf) == 3)
    assert "back to the queue" in log.read_text(encoding="utf-8")
    lab.wait_ended(job)


def test_a_submitit_job_requeues_itself_and_goes_on_where_it_was(shelf: Shelf) -> None:
    lab = shelf.lab
    shutil.copy(EXAMPLES / "submitit_requeue.py", shelf.place)
    logs = shelf.place / "logs"
    argv = [sys.executable, "submitit_requeue.py", "--folder", str(logs), "--steps", "60", "--seconds", "0.1"]
    submitted = lab.run(argv, env=shelf.env, cwd=shelf.place).stdout
    job = submitted.split()[1].rstrip(";")
    log = logs / f"{job}_0_log.out"
    checkpoint = logs / "checkpoint"
    lab.wait_for(lambda: checkpoint.exists() and int(checkpoint.read_text(encoding="ascii")) >= 5)
    lab.run(["scancel", "--signal=USR2", job])
    lab.wait_for(lambda: lab.job(job)["Restarts"] == "1")
    lab.begin_now(job, lambda: lab.job(job)["JobState"] == "COMPLETED")
    begun = [line.rpartition(" ")[2] for line in log.read_text(encoding="utf-8").splitlines() if "begins at" in line]
    assert begun[0] == "0"
    assert int(begun[1]) >= 5
    assert checkpoint.read_text(encoding="ascii") == "60"


# --- first steps ---------------------------------------------------------------------------------------------------


def test_a_first_gpu_job_says_what_it_was_given(shelf: Shelf) -> None:
    stand_in(shelf.place, "nvidia-smi", "echo NVIDIA-SMI of $SLURMD_NODENAME")
    code, said = shelf.run(EXAMPLES / "first-gpu-job.slurm")
    assert code == "0:0", said
    assert "GPUs of this job: 0" in said
    assert "NVIDIA-SMI of gpu1" in said


def test_a_pytorch_training_runs_on_two_ranks_and_resumes(shelf: Shelf) -> None:
    for name in ("pytorch.slurm", "train.py"):
        shutil.copy(EXAMPLES / name, shelf.place)
    meeting = shelf.place / "meeting"
    meeting.mkdir()
    script = shelf.place / "pytorch.slurm"
    text = script.read_text(encoding="utf-8").replace("PYTHON=python3", f"PYTHON={sys.executable}")
    script.write_text(text.replace("STEPS=200", "STEPS=60"), encoding="utf-8")
    torch = {"PYTHONPATH": str(STAND_INS), "TORCH_STAND_IN": str(meeting)}
    code, said = shelf.run(script, **torch)
    assert code == "0:0", said
    assert "step 60: loss " in said
    assert (shelf.place / "done").exists()
    script.write_text(text.replace("STEPS=200", "STEPS=70"), encoding="utf-8")
    code, said = shelf.run(script, **torch)
    assert "step 70: loss " in said
    assert "step 50:" not in said, "it went on from step 60"


def test_a_launcher_expands_the_nodes_into_a_hostfile_and_starts_one_on_each(shelf: Shelf) -> None:
    job, log = shelf.submit(EXAMPLES / "multi-node.slurm")
    shelf.lab.wait_ended(job)
    said = log.read_text(encoding="utf-8")
    nodes = (shelf.place / f"hostfile-{job}").read_text(encoding="ascii").splitlines()
    assert len(nodes) == 2
    assert all(line.startswith("cpu") and line.endswith(" slots=2") for line in nodes)
    first = nodes[0].split()[0]
    for number, line in enumerate(nodes):
        assert f"node {number} of 2 is {line.split()[0]}; all meet at {first}:" in said


# --- keepers ---------------------------------------------------------------------------------------------------------


def test_a_keeper_is_alone_and_that_its_time_is_up_is_no_failure(shelf: Shelf) -> None:
    began = shelf.place / "began"
    stand_in(shelf.place, "ssh", f"echo x >> {began}; exec sleep 600")
    script = shelf.fill("tunnel-keep", HOST="me@host", FORWARD="(-L 5432:db:5432)")
    first, log = shelf.submit(script, "--time=2", "--signal=B:TERM@100")
    shelf.lab.wait_for(began.exists)
    code, said = shelf.run(script)
    assert (code, f"job {first} is at it" in said) == ("0:0", True), said
    shelf.lab.wait_ended(first, timeout=180)
    assert shelf.lab.job(first)["JobState"] == "COMPLETED"
    assert "the job's time is up" in log.read_text(encoding="utf-8")
    assert began.read_text(encoding="utf-8") == "x\n"
