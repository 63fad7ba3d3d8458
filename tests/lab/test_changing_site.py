"""A site whose plugin changes what is submitted, and whose sbatch and squeue are wrappers with habits of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.conftest import Lab, start, stop
from tests.lab.helpers_cron import Cron, make

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not list(Path("/usr/lib").glob("*/slurm*/job_submit_lua.so")), reason="this Slurm has no job_submit/lua"
    ),
]

PLUGIN = """
function slurm_job_submit(job, partitions, uid)
  job.comment = "proj=abc"
  if job.priority == 0 and DROPS_HOLD then job.priority = slurm.NO_VAL end
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end
"""
WRAPPER = """#!/bin/sh
echo "Core hours left:"
echo 5000
exec {sbatch} "$@"
"""


@pytest.fixture
def cluster() -> Iterator[Lab]:
    made = start(nodes=2, gpu_nodes=0)
    yield made
    stop(made)


HOUR = 3600


def with_plugin(lab: Lab, *, drops_hold: bool = False) -> None:
    etc = Path(lab.env["SLURM_CONF"]).parent
    (etc / "job_submit.lua").write_text(PLUGIN.replace("DROPS_HOLD", str(drops_hold).lower()))
    with (etc / "slurm.conf").open("a") as file:
        file.write("JobSubmitPlugins=lua\n")
    lab.kill_controller()
    lab.start_controller()


def with_wrapper(folder: Path, program: str = "sbatch", text: str = WRAPPER) -> str:
    """A PATH on which sbatch prints a number of its own first; or `program` does what `text` says."""
    folder.mkdir()
    path = folder / program
    path.write_text(text.format(**{program: shutil.which(program)}))
    path.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def live(cron: Cron, name: str) -> list[str]:
    return [job["id"] for job in cron.lab.squeue() if job["name"] == name]


def test_where_comments_are_replaced_there_is_one_chain_and_a_switch_reaches_its_run(
    cluster: Lab, tmp_path: Path
) -> None:
    cron = make(cluster, tmp_path / "cron", names="a", directives="#SBATCH --time=5")
    with_plugin(cluster)
    (cron.root / "cron.d" / "a.slurm").write_text((cron.root / "cron.d" / "a.slurm").read_text() + "sleep 300\n")
    for after in (10, 70, 130):
        cron.tick(after)
    cluster.wait_for(lambda: any(job["state"] == "RUNNING" for job in cluster.squeue()))
    assert {job["comment"] for job in cluster.squeue() if job["name"].startswith("a")} == {"proj=abc"}
    assert [len(live(cron, f"cronhpc-{cron.id}{kind}")) for kind in ("", "-spare")] == [1, 1]
    (run,) = live(cron, "a.slurm")
    (cron.root / "kill" / "a").touch()
    cron.tick(190)
    cluster.wait_for(lambda: run not in [job["id"] for job in cluster.squeue()])


def test_numbers_that_sbatch_prints_besides_are_no_ids_also_where_hold_is_dropped(cluster: Lab, tmp_path: Path) -> None:
    cron = make(cluster, tmp_path / "cron", names="ab", started=False)
    with_plugin(cluster, drops_hold=True)
    path = with_wrapper(tmp_path / "bin")
    for after in (10, 70, 130):
        cron.tick(after, env={"PATH": path})
        cluster.wait_for(lambda: not live(cron, "a.slurm") + live(cron, "b.slurm"), 60, every=0.2)
    cron.tick(190)
    assert {name: len(slots) for name, slots in cron.ran().items()} == {"a": 1, "b": 1}
    assert sorted(str(row["result"]) for row in cron.rows() if row["slot"] == cron.slot) == ["ok", "ok"]
    assert '"W342"' in (cron.root / "status.json").read_text()


@pytest.mark.parametrize(
    ("does", "why"),
    [("exit 0", "printed nothing"), ('{squeue} "$@" | head -n 1', "it is not believed")],
    ids=["nothing at all", "its header alone"],
)
def test_a_squeue_that_lists_no_job_is_not_believed_against_the_controller(
    cluster: Lab, tmp_path: Path, does: str, why: str
) -> None:
    """From a cache of a minute ago, say: each tick would add a link and a spare."""
    cron = make(cluster, tmp_path / "cron", names="a", directives="#SBATCH --time=5")
    cron.tick(-HOUR)
    before = sorted(job["id"] for job in cron.jobs())
    path = with_wrapper(tmp_path / "bin", "squeue", f"#!/bin/sh\n{does}\n")
    for after in (60, 120, 180):
        cron.tick(after - HOUR, env={"PATH": path})
    assert sorted(job["id"] for job in cron.jobs()) == before
    assert why in (cron.root / "status.json").read_text()
    cron.tick(10)
    cron.wait_quiet()
    cron.tick(70)
    assert {name: len(slots) for name, slots in cron.ran().items()} == {"a": 1}
    assert [len(live(cron, f"cronhpc-{cron.id}{kind}")) for kind in ("", "-spare")] == [1, 1]
