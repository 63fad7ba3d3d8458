"""doctor on a real Slurm: a site of limits, nodes that may and may not submit, a controller that hangs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import Lab, MakeLab

pytestmark = pytest.mark.lab


def doctor(lab: Lab, root: Path, *words: str) -> dict[tuple[str, str], str]:
    """By topic and level what was found, in words."""
    done = lab.run(
        [sys.executable, "-m", "cronhpc", "doctor", "--dir", str(root), "--json", *words], check=False, timeout=90
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    found: dict[tuple[str, str], str] = {}
    for row in rows:
        key = (row["topic"], row["level"])
        found[key] = f"{found.get(key, '')} {row['what']} {row['fix']}".strip()
    return found


def init(lab: Lab, root: Path) -> Path:
    lab.run([sys.executable, "-m", "cronhpc", "init", "--dir", str(root)])
    return root


def test_two_nodes_try_what_a_link_has_to_do(lab: Lab, cluster_user_dir: Callable[..., Path]) -> None:
    lab.drain_queue()
    root = init(lab, cluster_user_dir() / "my cron")
    before = sorted(path.name for path in (root / "state").iterdir())
    found = doctor(lab, root, "--submit")
    assert "may submit jobs and cancel them" in found["submit", "fine"]
    assert "this machine" in found["files", "fine"]
    assert found["files", "fine"].count("cpu") == 2
    assert "agree about the time" in found["clock", "fine"]
    assert ("disk", "warning") not in found  # nodes have seen it
    assert "forgets an ended job" in found["ends", "warning"]
    assert sorted(path.name for path in (root / "state").iterdir()) == before
    assert lab.squeue() == []


def test_what_keeps_a_chain_from_going_on_is_found(make_lab: MakeLab, cluster_user_dir: Callable[..., Path]) -> None:
    lab = make_lab(nodes=2)
    root = init(lab, cluster_user_dir() / "cron")
    lab.run(["scontrol", "update", "PartitionName=cpu", "AllocNodes=login1"])
    found = doctor(lab, root)
    assert "only login1 may submit to cpu" in found["submit", "warning"]
    assert ("sbatch", "error") in found
    lab.run(["scontrol", "update", "PartitionName=cpu", "AllocNodes=ALL", "MaxTime=5"])
    assert "at most 5m; a link asks for 10m" in doctor(lab, root, "--write")["partition", "error"]
    assert ("partition", "error") not in doctor(lab, root)
    lab.run(["scontrol", "update", "PartitionName=cpu", "State=DOWN"])
    found = doctor(lab, root, "--submit", "--wait", "2s")
    assert "did not start within 2 s, and was cancelled" in found["submit", "unknown"]
    assert lab.squeue() == []


def test_a_node_without_the_interpreter_is_named(lab: Lab, cluster_user_dir: Callable[..., Path]) -> None:
    """What links would meet: the probe is asked to run one that is not there."""
    from cronhpc.batch import connect
    from cronhpc.core.model import Settings
    from cronhpc.doctor.look import ProbeJob

    state = cluster_user_dir()
    batch = connect("slurm", Settings(), lab.env, state)
    with ProbeJob(batch, state, "/nowhere/python", ["--partition=cpu"]) as job:
        job.submit()
        assert job.wait(40)
        nodes = list(job.nodes())
    assert nodes
    assert all("/nowhere/python: No such file or directory" in (node.python or "") for node in nodes)
    assert any(node.submit == "" for node in nodes)
    assert list(state.iterdir()) == []


def test_limits_and_accounts_are_told(make_lab: MakeLab, cluster_user_dir: Callable[..., Path]) -> None:
    lab = make_lab(accounting=True, max_submit=2, account="abc", users="alice")
    root = init(lab, cluster_user_dir() / "cron")
    found = doctor(lab, root)
    assert "lets you have 2 jobs in the queue" in found["limits", "warning"]
    assert "sacct tells" in found["ends", "fine"]
    blocker = [lab.submit("--hold", "--output=/dev/null", "--wrap", "true") for _ in range(1)]
    assert "limit was met just now" in doctor(lab, root, "--submit")["submit", "unknown"]
    assert [job["id"] for job in lab.squeue()] == blocker


def test_under_a_frozen_controller_it_answers_within_half_a_minute(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
) -> None:
    lab = make_lab(nodes=1)
    root = init(lab, cluster_user_dir() / "cron")
    lab.freeze()
    began = time.monotonic()
    found = doctor(lab, root, "--submit")
    assert time.monotonic() - began < 30
    lab.thaw()
    assert "gives no answer" in found["slurm", "error"]


def test_check_asks_once_for_the_names_of_partitions_and_waits_for_no_answer(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
) -> None:
    lab = make_lab(nodes=1)
    root = init(lab, cluster_user_dir() / "cron")
    for name in ("a", "b"):
        text = "#!/bin/sh\n#SBATCH -p cpuu\n#SBATCH -t 5\ntrue\n"
        (root / "cron.daily" / f"{name}.slurm").write_text(text, encoding="utf-8")
    argv = [sys.executable, "-m", "cronhpc", "check", "--dir", str(root)]
    lines = lab.run(argv, check=False).stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines[:2]] == ["cron.daily/a.slurm:2:", "cron.daily/b.slurm:2:"]
    assert all("E227" in line and "Did you mean cpu?" in line for line in lines[:2])
    lab.freeze()
    began = time.monotonic()
    said = lab.run(argv, check=False).stdout
    took = time.monotonic() - began
    lab.thaw()
    assert said.startswith("W229 the cluster gave no answer")
    assert "E227" not in said
    assert 4 < took < 9


def test_the_users_other_chains_are_named(lab: Lab, cluster_user_dir: Callable[..., Path]) -> None:
    home = cluster_user_dir()
    one, two = init(lab, home / "cron"), init(lab, home / "cron2")
    hand_made = home / "hourly.slurm"
    hand_made.write_text("#!/bin/bash\n#SBATCH --time=5 --begin=now+1hour\nsbatch --begin=now+1hour $0\n")
    lab.submit("--output=/dev/null", str(hand_made))
    lab.run([sys.executable, "-m", "cronhpc", "start", "--dir", str(two)])
    said = doctor(lab, one)["other chains", "advice"]
    assert f"your cron directory {two} is at work, too (jobs " in said
    assert f"{hand_made} submits itself for later: a hand-made scheduler (jobs " in said
    assert ("other chains", "advice") not in doctor(lab, two) or str(one) not in doctor(lab, two)[
        "other chains", "advice"
    ]
    shown = lab.run([sys.executable, "-m", "cronhpc", "status", "--dir", str(one)], check=False).stdout
    assert "another cron directory of yours is at work (jobs " in shown
    argv = [sys.executable, "-m", "cronhpc", "status", "--json", "--dir", str(one)]
    assert len(json.loads(lab.run(argv, check=False).stdout)["other_chains"]) >= 2, "the link and its spare"
    two.rename(home / "moved")
    assert f"{two} is gone, and its scheduler goes on (jobs " in doctor(lab, one)["other chains", "warning"]
    lab.run(["scancel", "--me"])


def test_check_online_has_sbatch_look_at_each_script(lab: Lab, cluster_user_dir: Callable[..., Path]) -> None:
    root = init(lab, cluster_user_dir() / "cron")
    for name, line in (("a", "--partition=gpuu"), ("b", "--nodes=50"), ("c", "--time=5")):
        (root / "cron.daily" / f"{name}.slurm").write_text(f"#!/bin/sh\n#SBATCH {line}\ntrue\n", encoding="utf-8")
    argv = [sys.executable, "-m", "cronhpc", "check", "--online", "--dir", str(root)]
    lines = lab.run(argv, check=False).stdout.splitlines()
    assert "a.slurm:2: E227" in lines[0]
    assert "Did you mean gpu?" in lines[0]
    assert "b.slurm:2: E228 sbatch would refuse it: Requested node configuration is not available." in lines[1]
    assert lines[2:] == ["2 errors"]
    assert lab.squeue() == []
