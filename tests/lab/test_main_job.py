"""The main job on a real Slurm, as a user does it: init, drop, start, and look."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.conftest import Lab, MakeLab

pytestmark = pytest.mark.lab

CRON = (sys.executable, "-m", "cronhpc")
HAND_MADE = """#!/bin/bash
#SBATCH --job-name=hand_made --time=5
cd {root} && sbatch --begin=now+1hour scheduler/cron_hourly.slurm
for f in cron.hourly/*.slurm; do sbatch "$f"; done
"""


@dataclass
class Shell:
    """One cron directory on one lab, driven by the command line."""

    lab: Lab
    root: Path

    def __call__(self, *words: str, code: int | None = 0, **env: str) -> str:
        done = self.lab.run([*CRON, "--dir", str(self.root), *words], check=False, env=env)
        if code is not None and done.returncode != code:
            pytest.fail(f"cronhpc {' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def drop(self, name: str, text: str = "#!/bin/bash\n#SBATCH --time=1\nhostname\n") -> Path:
        """A script that is old enough to be believed."""
        path = self.root / name
        path.write_text(text, encoding="utf-8")
        return path

    def finished(self) -> None:
        """Files are believed, and nothing runs."""
        time.sleep(3.2)

    def history(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(self("history", "--json", code=None))["runs"]
        return found


@pytest.fixture
def shell(lab: Lab, cluster_user_dir: Callable[..., Path]) -> Shell:
    lab.drain_queue()
    made = Shell(lab, cluster_user_dir() / "my cron %j")
    made("init")
    return made


def test_init_asks_slurm_for_the_partition_without_gpus(shell: Shell) -> None:
    assert "partition: cpu" in (shell.root / "cronhpc.yaml").read_text(encoding="utf-8")


def test_a_script_that_wants_no_gpu_goes_to_the_cpu_partition_and_one_that_does_stays_its_own(shell: Shell) -> None:
    shell.drop("cron.daily/plain.slurm")
    shell.drop("cron.daily/gpu.slurm", "#!/bin/bash\n#SBATCH --time=1 --partition=gpu --gres=gpu:1\nhostname\n")
    shell.finished()
    shell("run", "plain")
    shell("run", "gpu")
    rows = {row["name"]: row["partition"] for row in shell.lab.squeue(states="all")}
    assert (rows["plain.slurm"], rows["gpu.slurm"]) == ("cpu", "gpu")


def idle(lab: Lab) -> None:
    """Nothing is in the queue."""
    lab.wait_for(lambda: lab.squeue() == [])


ODD = ["two words", "quo'te", 'dou"ble', "per%cent", "pi|pe", "new\nline", "ünïcode", "-dash", "a" * 180, "$HOME", "*"]


def test_odd_names_run_and_leave_their_logs(shell: Shell) -> None:
    for name in ODD:
        shell.drop(
            f"cron.d/{name}.slurm", '#!/bin/bash\n#CRON 0 0 1 1 *\n#SBATCH --time=1\necho "I am $CRONHPC_ENTRY"\n'
        )
    shell.finished()
    for name in ODD:
        shell("run", "--", name) if name.startswith("-") else shell("run", name)
    idle(shell.lab)
    said = {path.read_text(encoding="utf-8") for path in shell.root.glob("log/*/*.out")}
    assert said == {f"I am {name}\n" for name in ODD}


def test_started_twice_there_is_one_chain_and_stop_keeps_it_stopped(shell: Shell) -> None:
    shell.drop("cron.daily/plain.slurm")
    shell("start")
    shell("start", code=None)
    shell.lab.wait_for_chain()
    shell("start")
    assert sorted(row["name"].rpartition("-")[2] == "spare" for row in pending(shell)) == [False, True]
    shell("stop")
    idle(shell.lab)
    shell("tick", code=None)
    assert not shell.lab.squeue()
    assert "stopped" in shell("status", code=None)


def pending(shell: Shell) -> list[dict[str, str]]:
    return [row for row in shell.lab.squeue() if row["state"] == "PENDING"]


def test_the_first_link_shows_that_all_works(shell: Shell) -> None:
    shell.drop("cron.daily/plain.slurm")
    shell("start")
    shell.lab.wait_for((shell.root / "status.json").exists)
    assert "chain   fine" in shell("status", code=None)


def test_a_broken_interpreter_ends_no_chain(shell: Shell) -> None:
    shell("start")
    shell.lab.wait_for((shell.root / "status.json").exists)
    shell.lab.wait_for_chain()
    link = shell.root / "scheduler" / "scheduler.slurm"
    text = link.read_text(encoding="utf-8").replace(sys.executable, "/nowhere/python")
    link.write_text(text, encoding="utf-8")
    for row in shell.lab.squeue():
        shell.lab.run(["scancel", row["id"]])
    comment = next(line for line in text.splitlines() if line.startswith("fingerprint=")).partition("=")[2]
    mark = (shell.root / "scheduler" / "id").read_text(encoding="ascii").strip()
    slot = str(int(time.time()) // 3600 * 3600)
    name = f"cronhpc-{mark}"
    for _ in range(3):
        job = shell.lab.submit(
            f"--job-name={name}", f"--comment=cronhpc={mark}/link {slot} {comment}", "-o", "/dev/null", str(link), slot
        )
        shell.lab.wait_ended(job)
    waiting = [row for row in pending(shell) if row["name"] == name]
    assert len(waiting) == 1


def test_hand_made_scripts_are_adopted_in_place(lab: Lab, cluster_user_dir: Callable[..., Path]) -> None:
    lab.drain_queue()
    root = cluster_user_dir() / "cron"
    for folder in ("scheduler", "cron.hourly", "cron.daily"):
        (root / folder).mkdir(parents=True)
    old = root / "scheduler" / "cron_hourly.slurm"
    old.write_text(HAND_MADE.format(root=root), encoding="utf-8")
    (root / "cron.daily" / "mine.slurm").write_text("#!/bin/bash\nhostname\n", encoding="utf-8")
    chain = lab.submit("--begin=now+1hour", str(old), cwd=root)
    shell = Shell(lab, root)
    said = shell("init", code=1)
    assert chain in said
    assert old.read_text(encoding="utf-8") == HAND_MADE.format(root=root)
    assert "mine" in shell("status", code=None)
    shell("init", "--cancel-old")
    idle(lab)


def test_only_the_hand_made_chain_is_cancelled_wherever_it_was_submitted(
    lab: Lab, cluster_user_dir: Callable[..., Path]
) -> None:
    lab.drain_queue()
    root = cluster_user_dir() / "cron"
    for folder in ("scheduler", "cron.daily", "train"):
        (root / folder).mkdir(parents=True)
    old = root / "scheduler" / "cron_hourly.slurm"
    old.write_text(HAND_MADE.format(root=root), encoding="utf-8")
    payload = root / "cron.daily" / "mine.slurm"
    payload.write_text("#!/bin/bash\nsleep 600\n", encoding="utf-8")
    chain = lab.submit("--begin=now+1hour", str(old), cwd="/")
    running = lab.submit("--output=/dev/null", str(payload), cwd=root)
    waiting = lab.submit("--hold", "--array=1-3", "--wrap=sleep 600", cwd=root / "train")
    shell = Shell(lab, root)
    said = shell("init", "--cancel-old")
    assert f"cancelled the old chain: {chain} (hand_made)" in said
    assert f"other jobs of this folder go on: {running} (mine.slurm), {waiting}_[1-3] (wrap)" in said
    assert {row["id"].partition("_")[0] for row in lab.squeue()} == {running, waiting}
    lab.drain_queue()


def test_what_live_jobs_write_is_not_cleaned_whoever_submitted_them(shell: Shell) -> None:
    logs = shell.root.parent / "tr logs"
    logs.mkdir()
    settings = shell.root / "cronhpc.yaml"
    text = re.sub(r"#~/runs/out:.*", f'"{logs}": "*.log"', settings.read_text(encoding="utf-8"))
    settings.write_text(text, encoding="utf-8")
    running = shell.lab.submit("--open-mode=append", "-o", f"{logs}/tr17.log", "--wrap=sleep 600")
    waiting = shell.lab.submit("--hold", "--array=1-3", "-o", f"{logs}/%x-%A_%a.log", "-J", "fit", "--wrap=true")
    names = ["tr17.log", f"fit-{waiting}_2.log", "fit-1_2.log", "over.log"]
    shell.lab.wait_for((logs / "tr17.log").exists)
    for name in names:
        (logs / name).touch()
        os.utime(logs / name, (1, 1))
    assert "removed 2 of 4 logs" in shell("clean")
    assert sorted(path.name for path in logs.iterdir()) == sorted(names[:2]), running
    shell.lab.drain_queue()


def test_an_account_kept_in_a_variable_is_accepted_where_accounts_are_enforced(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
) -> None:
    lab = make_lab(accounting=True, users="alice", account="abc", enforce="associations")
    lab.run(["sacctmgr", "-i", "add", "account", "other"])
    lab.run(["sacctmgr", "-i", "add", "user", "root", "account=other"])
    shell = Shell(lab, cluster_user_dir() / "cron")
    shell("init", SBATCH_ACCOUNT="other")
    assert "account: other" in (shell.root / "cronhpc.yaml").read_text(encoding="utf-8")
    shell.drop("cron.daily/plain.slurm")
    shell.finished()
    shell("start", SBATCH_ACCOUNT="other")
    shell("run", "plain")
    lab.wait_for((shell.root / "status.json").exists)
    assert {lab.job(row["id"])["Account"] for row in lab.squeue(states="all")} == {"other"}


@pytest.mark.parametrize("words", [["status"], ["plan"], ["next"], ["check"]], ids=lambda words: words[0])
def test_under_a_frozen_controller_every_question_is_answered_in_time(shell: Shell, words: list[str]) -> None:
    shell.drop("cron.daily/plain.slurm")
    shell.finished()
    shell.lab.freeze()
    begun = time.monotonic()
    try:
        said = shell(*words, code=None)
    finally:
        shell.lab.thaw()
    assert time.monotonic() - begun < 30
    assert "Traceback" not in said
    if words[0] in {"status", "plan"}:
        assert "does not answer" in said


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"WORK": "/not/mounted"}, "/not/mounted"),
        ({"WORK": ""}, "WORK"),
        ({"CRONHPC_DIR": "/nowhere/cron"}, "/nowhere/cron"),
    ],
    ids=["an unmounted $WORK", "an empty $WORK", "a folder that is not there"],
)
def test_nothing_is_submitted_from_the_wrong_place(lab: Lab, environment: dict[str, str], words: str) -> None:
    lab.drain_queue()
    for command in ("tick", "start"):
        done = lab.run([*CRON, command], check=False, env=environment, cwd="/tmp")
        assert done.returncode == 2
        assert words in done.stderr
    assert not lab.squeue()


def test_a_missing_marker_submits_nothing_and_says_so(shell: Shell) -> None:
    shell.drop("cron.daily/plain.slurm")
    (shell.root / "cronhpc.yaml").unlink()
    assert "cronhpc.yaml" in shell("tick", code=2)
    assert not shell.lab.squeue()


def test_a_link_into_the_folder_enables_a_job(shell: Shell, cluster_user_dir: Callable[..., Path]) -> None:
    script = cluster_user_dir(name="scripts") / "linked.sh"
    script.write_text("#!/bin/bash\n#SBATCH --time=1\necho linked\n", encoding="utf-8")
    (shell.root / "cron.daily" / "linked.slurm").symlink_to(script)
    shell.finished()
    shell("run", "linked")
    idle(shell.lab)
    assert [path.read_text(encoding="utf-8") for path in shell.root.glob("log/linked/*")] == ["linked\n"]
