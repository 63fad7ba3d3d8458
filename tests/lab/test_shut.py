"""Files of hers that alice has shut by mistake: what waits for them stays due, and she is told what to type."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.conftest import Lab, start, stop
from tests.lab.helpers_cron import Cron, make
from tests.lab.helpers_team import LIBRARIES, PYTHON

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.getuid() != 0, reason="nothing is shut for root, and only it is alice: needs root"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Lab]:
    made = start(users=["alice"], nodes=1, gpu_nodes=0)
    yield made
    stop(made)


@pytest.fixture
def hers(cluster: Lab) -> Iterator[Cron]:
    place = Path(cluster.env_of("alice")["HOME"]) / f"shut-{os.urandom(3).hex()}"
    cluster.run(["mkdir", str(place)], "alice")
    yield make(cluster, place / "cron", names="a", user="alice", started=False)
    shutil.rmtree(place)


@pytest.mark.parametrize("folder", ["log/a", "log"])
def test_a_log_folder_that_cannot_be_written_leaves_the_slot_due(hers: Cron, folder: str) -> None:
    """Its job was submitted, failed at its start, and the slot was gone."""
    path = hers.root / folder
    path.mkdir(exist_ok=True)
    shutil.chown(path, "alice", "alice")
    path.chmod(0o555)
    said = hers.tick()
    assert f"chmod u+wx {path}" in said
    assert hers.runs() == []
    path.chmod(0o755)
    hers.tick(70)
    hers.wait_quiet()
    assert {name: len(slots) for name, slots in hers.ran().items()} == {"a": 1}


@pytest.mark.parametrize("shut", ["state", "state/claims", "state/entries.json", "scheduler"])
def test_what_is_shut_is_not_gone_and_the_fix_is_a_command_to_paste(hers: Cron, shut: str) -> None:
    hers.tick(-60)
    path = hers.root / shut
    for command in ("status", "tick", "plan"):
        before = path.stat().st_mode
        path.chmod(0)
        argv = [PYTHON, "-m", "cronhpc", "--dir", str(hers.root), command]
        done = hers.lab.run(argv, "alice", check=False, env={"PYTHONPATH": LIBRARIES})
        fix = done.stderr.partition("It is yours: ")[2].strip()
        assert (done.returncode, fix) == (2, f"chmod u+rwX {shlex.quote(str(path))}"), done.stderr
        hers.lab.run(["bash", "-c", fix], "alice")
        path.chmod(before)
        assert hers.lab.run(argv, "alice", check=False, env={"PYTHONPATH": LIBRARIES}).returncode in {0, 1}
