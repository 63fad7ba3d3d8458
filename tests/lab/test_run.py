"""Runs by hand on a real Slurm: waited for to their end, followed, and run again where they failed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.conftest import Lab
from tests.lab.test_main_job import Shell

pytestmark = pytest.mark.lab

SWEEP = """#!/bin/bash
#SBATCH --time=1 --array=1-4%2
echo "$SLURM_ARRAY_TASK_ID $CRONHPC_SLOT" >> {root}/ran
test $((SLURM_ARRAY_TASK_ID % 2)) = 1 || test -e {root}/good
"""


@pytest.fixture
def shell(lab: Lab, cluster_user_dir: Callable[..., Path]) -> Shell:
    lab.drain_queue()
    made = Shell(lab, cluster_user_dir() / "cron")
    made("init")
    return made


def test_a_run_that_is_waited_for_ends_with_its_exit_code_and_one_that_is_followed_prints_its_log(shell: Shell) -> None:
    shell.drop("cron.daily/good.slurm", "#!/bin/bash\n#SBATCH --time=1\necho begun; sleep 1; echo done\n")
    shell.drop("cron.daily/bad.slurm", "#!/bin/bash\n#SBATCH --time=1\nexit 7\n")
    shell.finished()
    assert "begun\ndone\n" in shell("run", "good", "--follow", code=0)
    assert ": failed (7)" in shell("run", "bad", "--wait", code=7)


def test_of_an_array_just_the_tasks_that_failed_run_again_for_the_same_slot(shell: Shell) -> None:
    shell.drop("cron.daily/sweep.slurm", SWEEP.format(root=shell.root))
    shell.finished()
    shell("run", "sweep", "--wait", code=1)
    (shell.root / "good").touch()
    again = json.loads(shell("rerun", "sweep", "--wait", "--json", code=0))
    assert (again["attempt"], again["tasks"], again["exit_code"]) == (2, "2,4", 0)
    lines = (shell.root / "ran").read_text(encoding="utf-8").splitlines()
    assert Counter(line.split()[0] for line in lines) == {"1": 1, "2": 2, "3": 1, "4": 2}
    assert len({line.split()[1] for line in lines}) == 1
    assert "nothing of its newest slot failed" in shell("rerun", "sweep", code=1)
    shell("tick", code=None)
    assert "nothing of that slot failed" in shell("rerun", again["job"], code=1)


def test_of_a_removed_entry_what_waits_is_cancelled_and_what_runs_goes_on(shell: Shell) -> None:
    long = "#!/bin/bash\n#SBATCH --time=5\n#CRON 0 0 1 1 *\nsleep 300\n"
    shell.drop("cron.d/runs.slurm", long)
    shell.drop("cron.d/waits.slurm", long.replace("#CRON", "#SBATCH --begin=now+1hour\n#CRON"))
    shell.finished()
    runs = json.loads(shell("run", "runs", "--json"))["job"]
    waits = json.loads(shell("run", "waits", "--json"))["job"]
    shell.lab.wait_for(lambda: (runs, "RUNNING") in [(row["id"], row["state"]) for row in shell.lab.squeue()])
    removed = json.loads(shell("rm", "runs", "waits", "--yes", "--json"))["removed"]
    assert [(row["name"], row["running"], row["cancelled"]) for row in removed] == [
        ("runs", [runs], []),
        ("waits", [], [waits]),
    ]
    shell.lab.wait_for(lambda: [row["id"] for row in shell.lab.squeue()] == [runs])
    shell.lab.run(["scancel", runs])


def test_of_a_removed_entry_a_run_that_waits_for_its_slot_goes(shell: Shell) -> None:
    shell.drop("cron.d/often.slurm", "#!/bin/bash\n#SBATCH --time=1\n#CRON * * * * *\ntrue\n")
    shell.finished()
    shell("start")

    def states(name: str) -> set[str]:
        return {row["state"] for row in shell.lab.squeue() if row["name"].startswith(name)}

    shell.lab.wait_for(lambda: "PENDING" in states("often"))
    shell.lab.wait_for(lambda: states("cronhpc-") == {"PENDING"})  # no tick is at work that has seen the script
    shell("rm", "often", "--yes")
    shell.lab.wait_for(lambda: not states("often"))
    assert "often" not in shell("list")
    shell("stop")
