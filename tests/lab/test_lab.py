"""The lab is what it says: real, private, quick, and gone without a trace."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab.conftest import LAB, MOST_WAIT, Lab, MakeLab, clean_environment, lab_command, stop
from tests.lab.helpers_team import PYTHON

pytestmark = pytest.mark.lab
as_root = os.getuid() == 0


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a lab may be made, with a short path; ends what a failed test left."""
    path = Path(tempfile.mkdtemp(prefix="lab-"))
    path.chmod(0o755)
    yield path
    if path.exists():
        subprocess.run([sys.executable, LAB, "down", "--dir", path], check=False, capture_output=True)
    with contextlib.suppress(FileNotFoundError):
        path.rmdir()


def up(folder: Path, *words: str) -> subprocess.Popen[str]:
    argv = [sys.executable, str(LAB), "up", "--dir", str(folder), "--json", *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment())


def mentions(word: str) -> list[str]:
    """Command lines of living processes that hold the word."""
    lines = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if entry.name.isdigit() and int(entry.name) != os.getpid() and word in line:
                lines.append(line)
    return lines


def test_every_node_is_idle_in_its_partition_and_the_gpu_node_has_gpus(lab: Lab) -> None:
    lab.drain_queue()
    rows = lab.run(["sinfo", "-hN", "-o", "%N %P %T %c %G"]).stdout.splitlines()
    assert rows == [*(f"cpu{n} cpu* idle 8 (null)" for n in (1, 2, 3)), "gpu1 gpu idle 8 gpu:4"]


def test_it_is_ready_within_three_seconds(lab: Lab) -> None:
    assert lab.facts["took"] < 3


@pytest.mark.skipif(not as_root, reason="a lab of an ordinary user has that user only")
def test_a_users_job_runs_as_that_user_in_her_folder_with_the_shared_group(
    lab: Lab, cluster_user_dir: Callable[..., Path]
) -> None:
    place = cluster_user_dir("alice")
    job = lab.submit("--wrap", "id -un; id -Gn; pwd", user="alice", cwd=place)
    lab.wait_ended(job)
    who, groups, where = (place / f"slurm-{job}.out").read_text(encoding="utf-8").splitlines()
    assert (who, where) == ("alice", str(place))
    assert "labgroup" in groups.split()


@pytest.mark.skipif(not as_root, reason="a lab of an ordinary user has that user only")
def test_bob_may_not_cancel_alices_job(lab: Lab) -> None:
    job = lab.submit("--hold", "--wrap", "true", user="alice")
    refused = lab.run(["scancel", job], user="bob", check=False)
    assert "Access/permission denied" in refused.stderr
    lab.drain_queue()


def test_a_job_that_asks_for_a_gpu_gets_one(lab: Lab, cluster_user_dir: Callable[..., Path]) -> None:
    place = cluster_user_dir()
    job = lab.submit("-p", "gpu", "--gres=gpu:1", "--wrap", "echo gpus $CUDA_VISIBLE_DEVICES", cwd=place)
    lab.wait_ended(job)
    assert (place / f"slurm-{job}.out").read_text(encoding="utf-8") == "gpus 0\n"


def test_a_frozen_controller_answers_again_after_the_thaw(lab: Lab) -> None:
    lab.freeze()
    try:
        process = lab.popen(["squeue"])
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=0.5)
    finally:
        lab.thaw()
    process.communicate(timeout=20)
    assert process.returncode == 0


def test_a_controller_that_comes_back_knows_its_queue_and_one_without_its_state_knows_nothing(lab: Lab) -> None:
    lab.drain_queue()
    job = lab.submit("--hold", "--wrap", "true")
    lab.kill_controller()
    assert "Unable to contact slurm controller" in lab.run(["squeue"], check=False).stderr
    lab.start_controller()
    assert [row["id"] for row in lab.squeue()] == [job]
    lab.kill_controller()
    lab.start_controller(clean=True)
    assert lab.squeue() == []
    lab.wait_for(lambda: set(lab.run(["sinfo", "-hN", "-o", "%T"]).stdout.split()) == {"idle"})


def test_a_node_that_dies_under_a_job_fails_it(lab: Lab) -> None:
    job = lab.submit("--no-requeue", "--nodelist=cpu2", "-o", "/dev/null", "--wrap", "sleep 7712345")
    lab.wait_for(lambda: mentions("sleep 7712345"))
    lab.kill_node("cpu2")
    lab.down_node("cpu2")
    lab.wait_for(lambda: lab.job(job)["JobState"] == "NODE_FAIL")
    assert not mentions("sleep 7712345")
    lab.start_node("cpu2")


def test_draining_cancels_every_job(lab: Lab) -> None:
    lab.submit("-o", "/dev/null", "--wrap", "sleep 100")
    lab.submit("--hold", "--array=1-3", "--wrap", "sleep 100")
    assert len(lab.squeue()) == 4
    lab.drain_queue()
    assert lab.squeue() == []


def test_exec_env_and_status_name_the_same_cluster(lab: Lab) -> None:
    place = ("--dir", str(lab.root))
    ran = lab_command("exec", *place, "--", "printenv", "SLURM_CONF").stdout.strip()
    exported = lab_command("env", *place).stdout.strip()
    said = json.loads(lab_command("status", *place, "--json").stdout)
    assert ran == said["conf"] == str(lab.conf)
    assert exported == f"export SLURM_CONF={lab.conf}"
    assert said["running"]
    assert all(said["daemons"].values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("exec",), "Write it after two dashes", id="exec without a command"),
        pytest.param(("exec", "--user", "nobody-of-that-name", "--", "true"), "no user", id="exec as nobody"),
        pytest.param(("node", "kill", "cpu9"), "there are: cpu1, cpu2, cpu3, gpu1", id="a node that is none"),
        pytest.param(("up",), "a lab runs here already", id="a second lab in one folder"),
        pytest.param(("ctld", "start", "--clean-state"), "ctld kill", id="forgetting while it runs"),
    ],
)
def test_a_wrong_word_is_answered_with_the_fix(lab: Lab, words: tuple[str, ...], said: str) -> None:
    argv = [sys.executable, str(LAB), words[0], "--dir", str(lab.root), *words[1:]]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert said in done.stderr


def test_a_folder_that_holds_things_is_left_alone(folder: Path) -> None:
    (folder / "thesis.txt").touch()
    process = up(folder)
    assert "not empty" in process.communicate()[1]
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]
    (folder / "thesis.txt").unlink()


def test_two_labs_started_at_the_same_moment_do_not_meet(lab: Lab, folder: Path) -> None:
    second = Path(tempfile.mkdtemp(prefix="lab-"))
    second.chmod(0o755)
    starts = [up(folder), up(second)]
    labs = [Lab(path, json.loads(one.communicate()[0])) for path, one in zip((folder, second), starts, strict=True)]
    ports = [port for one in (lab, *labs) for port in one.facts["ports"].values()]
    assert len(ports) == len(set(ports))
    job = labs[0].submit("--hold", "--wrap", "true")
    assert [[row["id"] for row in one.squeue()] for one in labs] == [[job], []]
    for one in labs:
        stop(one)


def test_down_ends_detached_job_processes_and_leaves_no_file(make_lab: MakeLab) -> None:
    made = make_lab(nodes=1, gpu_nodes=0)
    made.submit("-o", "/dev/null", "--wrap", "setsid sleep 71717 & sleep 71718")
    made.wait_for(lambda: len(mentions("sleep 7171")) == 2)
    lab_command("down", "--dir", str(made.root))
    assert not made.root.exists()
    assert not mentions("sleep 7171")
    assert not mentions(str(made.root))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_an_interrupted_up_leaves_nothing(folder: Path, number: signal.Signals) -> None:
    process = up(folder)
    deadline = time.monotonic() + MOST_WAIT
    while not (folder / "run" / "munged.pid").exists():
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(number)
    process.communicate()
    while folder.exists() or mentions(str(folder)):
        assert time.monotonic() < deadline, mentions(str(folder))
        time.sleep(0.05)


def test_down_cleans_up_after_a_keeper_that_was_killed(folder: Path) -> None:
    facts = json.loads(up(folder, "--speed", "60").communicate()[0])
    made = Lab(folder, facts)
    made.submit("-o", "/dev/null", "--wrap", "sleep 81818")
    made.wait_for(lambda: mentions("sleep 81818"))
    clock = re.findall(r"/(\S+)", facts["env"]["FAKETIME_SHARED"])
    os.kill(facts["keeper"], signal.SIGKILL)
    stop(made)
    assert not mentions("sleep 81818")
    assert not mentions(str(folder))
    assert not [path for path in Path("/dev/shm").iterdir() if any(name in path.name for name in clock)]


def test_a_lab_ends_with_the_process_it_was_started_for(folder: Path) -> None:
    with subprocess.Popen(["sleep", "100"]) as process:
        assert up(folder, "--until", str(process.pid)).communicate()
        process.kill()
    deadline = time.monotonic() + MOST_WAIT
    while folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_further_lines_beat_the_labs_own(make_lab: MakeLab) -> None:
    made = make_lab(nodes=1, gpu_nodes=0, min_job_age=2, conf=["KillWait=7", "MaxArraySize=11"])
    shown = made.run(["scontrol", "show", "config"]).stdout
    assert re.search(r"^KillWait\s+= 7 sec", shown, re.MULTILINE)
    assert re.search(r"^MaxArraySize\s+= 11$", shown, re.MULTILINE)
    assert re.search(r"^MinJobAge\s+= 2 sec", shown, re.MULTILINE)


def test_nodes_that_are_in_two_partitions_are_ready(make_lab: MakeLab) -> None:
    made = make_lab(nodes=2, gpu_nodes=0, conf="PartitionName=night Nodes=cpu[1-2] MaxTime=60")
    rows = made.run(["sinfo", "-hN", "-o", "%N %P"]).stdout.split("\n")
    assert sorted(rows)[1:] == ["cpu1 cpu*", "cpu1 night", "cpu2 cpu*", "cpu2 night"]


def test_accounting_enforces_accounts_and_limits_and_keeps_comments(make_lab: MakeLab) -> None:
    user = "alice" if as_root else None
    made = make_lab(accounting=True, max_submit=2, **({"users": ["alice"]} if as_root else {}))
    later = ("--begin=now+1hour", "--comment=two words", "--wrap", "true")
    first, _ = (made.submit("-A", "abc", *later, user=user) for _ in range(2))
    assert "QOSMaxSubmitJobPerUserLimit" in made.run(["sbatch", *later], user=user, check=False).stderr
    made.run(["scancel", first])
    wrong = made.run(["sbatch", "-A", "other", *later], user=user, check=False).stderr
    assert "Invalid account or account/partition combination" in wrong
    ask = ["sacct", "-a", "-n", "-P", "-o", "comment,state", "-j", first]
    made.wait_for(lambda: "two words|CANCELLED by 0" in made.run(ask).stdout or not as_root)


def test_on_a_fast_clock_jobs_and_commands_share_the_time_and_a_job_begins_on_its_hour(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
) -> None:
    made = make_lab(speed=600, start_time="2026-03-01 00:00:00", **({"users": ["alice"]} if as_root else {}))
    user = "alice" if as_root else None
    place = cluster_user_dir(user)

    def now() -> int:
        return int(made.run(["date", "+%s"]).stdout)

    assert made.run(["date", "+%F"]).stdout.strip() == "2026-03-01"
    begin = (now() // 3600 + 1) * 3600
    job = made.submit(f"--begin=uts{begin}", "--wrap", "date +%s; TZ=Asia/Tokyo date +%s", user=user, cwd=place)
    output = place / f"slurm-{job}.out"
    made.wait_for(lambda: output.exists() and len(output.read_text(encoding="utf-8").split()) == 2)
    here, in_tokyo = map(int, output.read_text(encoding="utf-8").split())
    assert begin <= here <= in_tokyo <= begin + 1200
    assert here <= now() <= here + 3600
    before = now()
    time.sleep(2)
    assert now() - before >= 1200


@pytest.mark.skipif(not as_root, reason="becoming somebody else needs root")
def test_an_ordinary_user_can_have_a_lab_of_her_own(lab: Lab, cluster_user_dir: Callable[..., Path]) -> None:
    place = cluster_user_dir("alice", name="lab")
    argv = [PYTHON, str(LAB)]
    lab.run([*argv, "up", "--dir", place], user="alice", env={"PATH": "/usr/bin:/bin"})
    shown = lab.run([*argv, "exec", "--dir", place, "--", "srun", "id", "-un"], user="alice").stdout
    lab.run([*argv, "down", "--dir", place], user="alice")
    users = lab.run([*argv, "up", "--dir", place, "--users", "alice"], user="alice", check=False)
    assert shown == "alice\n"
    assert "--users needs root" in users.stderr
    assert not mentions(str(place))


@pytest.mark.skipif(not as_root, reason="only root makes users")
def test_users_that_a_lab_made_go_with_the_machines_last_lab_that_uses_them(
    make_lab: MakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another run of tests, with a TMPDIR of its own, made them or uses them."""
    first = make_lab(nodes=1, gpu_nodes=0, users=["lab-carol"], group="lab-carols")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    second = make_lab(nodes=1, gpu_nodes=0, users=["lab-carol"], group="lab-carols")
    home = Path(pwd.getpwnam("lab-carol").pw_dir)
    lab_command("down", "--dir", str(first.root))
    assert home.is_dir()
    assert pwd.getpwnam("lab-carol").pw_dir == str(home)
    lab_command("down", "--dir", str(second.root))
    assert not home.exists()
    with pytest.raises(KeyError):
        pwd.getpwnam("lab-carol")
