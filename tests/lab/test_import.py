"""A scrontab moved in: each of its entries runs in its slots, on a real Slurm, and does what the line said."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cronhpc.engine.init import init
from tests.lab.conftest import Lab
from tests.lab.helpers_cron import DRIVE

pytestmark = pytest.mark.lab

HOUR, PAST = 3600, 1200  # the single slots are twenty past
PROJECT = Path(__file__).parents[2]


def table(base: int, ran: Path) -> tuple[str, dict[str, list[int]]]:
    """A scrontab of ten entries and a disabled one, and the slots of each: nine have one, an hour after the other's."""
    hours = [datetime.fromtimestamp(base + i * HOUR, UTC) for i in range(10)]
    when = [f"{at.minute} {at.hour} {at.day} {at.month} *" for at in hours]
    quirk = f"15-30/20 {hours[8].hour} {hours[8].day} {hours[8].month} *"  # to Slurm: minute 20
    write = 'echo "$CRONHPC_SLOT"'
    text = f"""#!/bin/bash
# a table with everything in it
RAN={ran}
{when[0]} {write} >>{ran}/plain
#SCRON --job-name=options --time=5
{when[1]} {write} >>{ran}/options
#SCRON -J lines -p cpu
#SCRON --time=5
#SCRON --cpus-per-task=2

{when[2]} [ "$SLURM_CPUS_PER_TASK" = 2 ] && {write} >>{ran}/lines
#SCRON -J variable
{when[3]} {write} >>$RAN/variable
#SCRON -J gpu --partition=gpu
{when[4]} [ "$SLURM_JOB_PARTITION" = gpu ] && {write} >>{ran}/gpu
#SCRON -J folder --chdir={ran}
{when[5]} {write} >>folder
#SCRON -J comment --comment=a#b
{when[6]} {write} >>{ran}/comment
#SCRON -J percent
{when[7]} [ "$(printf %s x)" = x ] && {write} >>{ran}/percent
#SCRON -J quirk
{quirk} {write} >>{ran}/quirk
#SCRON -J hourly
@hourly {write} >>{ran}/hourly
#DISABLED: #SCRON -J disabled
#DISABLED: {when[9]} {write} >>{ran}/disabled
"""
    single = ("plain", "options", "lines", "variable", "gpu", "folder", "comment", "percent", "quirk")
    slots = {name: [base + i * HOUR] for i, name in enumerate(single)}
    return text, slots | {"hourly": [base - PAST + i * HOUR for i in range(10)]}


def test_a_scrontab_of_ten_entries_runs_in_its_slots(lab: Lab, cluster_user_dir: Callable[..., Path]) -> None:
    root = cluster_user_dir(name="cron")
    ran = root.parent / "ran"
    ran.mkdir()
    init(root, {}, adopt=True)
    base = (int(time.time()) // HOUR + 2) * HOUR + PAST
    text, slots = table(base, ran)
    argv = [sys.executable, "-m", "cronhpc", "import", "scrontab", "-", "--dir", str(root), "--timezone", "UTC"]
    said = lab.run(argv, input=text, cwd=PROJECT)
    assert "needs a person" not in said.stdout
    assert len(list((root / "cron.d").glob("*.slurm"))) == 11
    time.sleep(3.1)  # a file this young is left for the next look

    for i in range(10):
        lab.run([sys.executable, str(DRIVE), "tick", str(root), str(base + i * HOUR + 10)])
        lab.wait_for(lambda: not lab.squeue(), every=0.2)

    assert {path.name: slots_in(path) for path in ran.iterdir()} == slots


def slots_in(path: Path) -> list[int]:
    """The slots that its jobs wrote down, one a run, as epoch seconds."""
    return [int(datetime.fromisoformat(line).timestamp()) for line in path.read_text().splitlines()]
