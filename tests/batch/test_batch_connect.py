"""Which backend is meant, and what a cluster says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from cronhpc.batch import connect, dialect_of
from cronhpc.batch.port import Unreachable
from cronhpc.batch.slurm.site import config_values, partition_rows, slurm_site, time_limit
from cronhpc.core.model import CronhpcError, Settings
from cronhpc.core.model.site import Partition, Site


@pytest.mark.parametrize(
    ("name", "backend", "sbatch", "chosen"),
    [
        pytest.param("", "", True, "slurm", id="sbatch is on PATH"),
        pytest.param("", "", False, "local", id="no sbatch on PATH"),
        pytest.param("", "local", True, "local", id="settings beat PATH"),
        pytest.param("slurm", "local", False, "slurm", id="the command line beats settings"),
        pytest.param("local", "slurm", True, "local", id="and so it does the other way round"),
    ],
)
def test_the_backend_is_the_one_asked_for_or_set_or_found(
    tmp_path: Path, name: str, backend: str, *, sbatch: bool, chosen: str
) -> None:
    if sbatch:
        (tmp_path / "sbatch").write_text("#!/bin/sh\n")
        (tmp_path / "sbatch").chmod(0o755)
    environment = {"PATH": str(tmp_path)}
    assert dialect_of(name, Settings(backend=backend), environment).name == chosen
    assert connect(name, Settings(backend=backend), environment, tmp_path).dialect.name == chosen


def test_an_unknown_backend_is_said() -> None:
    with pytest.raises(
        CronhpcError, match=r"'torque': there is none of that name\. Write one of: slurm, grid_engine, pbs, lsf, local"
    ):
        dialect_of("torque", Settings(), {})


def test_slurm_without_its_commands_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="squeue: no such program on PATH"):
        connect("slurm", Settings(), {"PATH": str(tmp_path)}, tmp_path).queue()


def test_connecting_asks_and_makes_nothing(tmp_path: Path) -> None:
    connect("local", Settings(), {}, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("infinite", None),
        ("30:00", 1800),
        ("1:30:00", 5400),
        ("1-00:00:00", 86400),
        ("20-10:00:01", 20 * 86400 + 36001),
        ("n/a", None),
        ("", None),
    ],
)
def test_a_partitions_time_limit_is_so_many_seconds(text: str, seconds: int | None) -> None:
    assert time_limit(text) == seconds


ROWS = """CLUSTER: lab
prepost|prepost|up|20:00:00|4|(null)
gpu_p1|gpu_p1*|up|4-04:00:00|100|gpu:v100:4(S:0-1)
gpu_p1|gpu_p1*|up|4-04:00:00|20|(null)
cpu_p1|cpu_p1|up|infinite|700|(null)
old|old|down|infinite|900|(null)
"""


def test_partitions_with_nodes_of_several_kinds() -> None:
    assert partition_rows(ROWS) == (
        Partition("prepost", time_limit=72000, nodes=4),
        Partition("gpu_p1", default=True, gpus=True, time_limit=360000, nodes=120),
        Partition("cpu_p1", nodes=700),
        Partition("old", up=False, nodes=900),
    )


@pytest.mark.parametrize(
    ("partitions", "name"),
    [
        pytest.param(partition_rows(ROWS), "cpu_p1", id="the default one has GPUs: the largest without that is up"),
        pytest.param((Partition("big", nodes=9), Partition("small", default=True)), "small", id="the default one"),
        pytest.param((Partition("gpu", default=True, gpus=True),), None, id="none"),
        pytest.param((), None, id="no partition at all"),
    ],
)
def test_where_housekeeping_belongs(partitions: tuple[Partition, ...], name: str | None) -> None:
    found = Site(partitions=partitions).cpu_partition
    assert (found.name if found else None) == name


CONFIG = """Configuration data as of 2026-11-27T04:00:00
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = lab
MinJobAge               = 300 sec
SLURM_VERSION           = 22.05.8
X                       = a=b
"""


@pytest.mark.parametrize("accounting_answers", [True, False])
def test_a_site_is_known_even_when_accounting_is_silent(*, accounting_answers: bool) -> None:
    def ask(program: str, arguments: object) -> str:
        if program == "sacctmgr" and not accounting_answers:
            raise Unreachable("no answer")
        if program == "sacctmgr":
            return "abc@cpu\n" if "format=DefaultAccount" in list(arguments) else "abc@cpu\nabc@gpu\nabc@cpu\n"  # type: ignore[call-overload]  # a sequence
        return {"scontrol": CONFIG, "sinfo": ROWS}[program]

    site = slurm_site(ask, "alice")
    assert (site.cluster, site.version, site.min_job_age, site.accounting) == ("lab", "22.05.8", 300, True)
    expected = ("abc@cpu", ("abc@cpu", "abc@gpu")) if accounting_answers else ("", ())
    assert (site.account, site.accounts) == expected


def test_values_may_hold_equals_signs() -> None:
    assert config_values(CONFIG)["X"] == "a=b"
