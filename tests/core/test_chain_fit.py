"""`start --daemon` on partitions with a time limit: what cannot start is said before it waits for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cronhpc.core.chain import misfit
from cronhpc.core.model import Settings
from cronhpc.core.model.site import Partition
from cronhpc.doctor.judge import of_cluster
from tests.cli.test_cli import Shell, later
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture
from tests.doctor.test_findings import WELL

MINUTE, HOUR = 60, 3600
PLAIN = Settings()


def site(limit: int | None, *others: Partition) -> list[Partition]:
    return [Partition("debug", default=True, time_limit=limit, nodes=1), *others]


LONG = Partition("long", time_limit=None, nodes=9)
GPUS = Partition("gpus", gpus=True, nodes=9)

FITS = [
    pytest.param(site(None), PLAIN, id="no limit"),
    pytest.param(site(75 * MINUTE), PLAIN, id="just enough"),
    pytest.param(site(20 * MINUTE), replace(PLAIN, interval=5 * MINUTE), id="a short interval"),
    pytest.param(site(MINUTE, LONG), replace(PLAIN, link_sbatch=(("partition", "long"),)), id="another partition"),
    pytest.param(site(MINUTE, LONG), replace(PLAIN, sbatch=(("partition", "debug,long"),)), id="one of two"),
    pytest.param([], PLAIN, id="nobody told of any"),
    pytest.param(site(MINUTE), replace(PLAIN, sbatch=(("partition", "gone"),)), id="one that is not shown"),
]
MISFITS = [
    pytest.param(site(74 * MINUTE), PLAIN, "30m", "", id="a minute short"),
    pytest.param(site(HOUR, LONG), PLAIN, "30m", "{partition: long}", id="another one would take it"),
    pytest.param(site(30 * MINUTE, GPUS), PLAIN, "15m", "", id="one with GPUs is not offered"),
    pytest.param(site(10 * MINUTE), PLAIN, "", "", id="no interval is short enough"),
    pytest.param(
        site(30 * MINUTE), replace(PLAIN, min_interval=20 * MINUTE), "", "", id="none that the settings allow"
    ),
]


@pytest.mark.parametrize(("partitions", "settings"), FITS)
def test_a_link_that_fits_is_not_spoken_of(partitions: list[Partition], settings: Settings) -> None:
    assert misfit(partitions, settings) is None


@pytest.mark.parametrize(("partitions", "settings", "interval", "other"), MISFITS)
def test_one_that_could_never_start_has_the_setting_to_put(
    partitions: list[Partition], settings: Settings, interval: str, other: str
) -> None:
    found = misfit(partitions, settings)
    assert found is not None
    assert found.interval == interval
    assert f"scheduler: {{interval: {interval}}}" in found.fix or not interval
    assert other in found.fix
    assert "cronhpc start --via chain" in found.fix
    if interval:
        from cronhpc.cron.duration import parse_duration

        assert misfit(partitions, replace(settings, interval=parse_duration(interval))) is None


def test_doctor_says_so_and_only_puts_it_where_a_daemon_was_started() -> None:
    short = replace(WELL, offers=(Partition("cpu", default=True, nodes=3, time_limit=HOUR),))
    for driven, level, put in ((True, "error", (("scheduler.interval", "30m"),)), (False, "advice", ())):
        told = of_cluster(short, PLAIN, asked=1000, answered=1001, by_daemon=driven)
        assert [(each.level, each.settings) for each in told if each.topic == "daemon"] == [(level, put)]


@pytest.mark.processes
def test_start_refuses_it_and_submits_nothing(shell: Shell) -> None:
    folder = shell.home / "bin"
    folder.mkdir()
    said = {
        "squeue": "echo \"$*\" | sed 's/.*--format=//; s/%i %A/JOBID JOBID/'",  # the names of its columns, and no job
        "sinfo": "echo 'debug|debug*|up|30:00|3|(null)'",
        "scontrol": "printf 'ClusterName = lab\\nSLURM_VERSION = 24.11.5\\n'",
        "sbatch": f"echo called >> {shell.home}/called; exit 1",
    }
    for name in ("scancel", "sacct", "sacctmgr", *said):
        (folder / name).write_text(f"#!/bin/sh\n{said.get(name, 'exit 0')}\n")
        (folder / name).chmod(0o755)
    shell.environ["PATH"] = f"{folder}:{shell.environ['PATH']}"
    (shell.cron / "cronhpc.yaml").write_text("backend: slurm\n")
    began = shell("start", "--daemon", now=later())
    assert began.code == 2
    assert "partition debug takes jobs of at most 30m" in began.err
    assert "Put scheduler: {interval: 15m} in cronhpc.yaml" in began.err
    assert not (shell.home / "called").exists()
