"""Slurm's own scrontab, where there is one: Debian has it from 13 on (deploy/test --slurm trixie)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.conftest import MakeLab
from tests.lab.helpers_cron import make
from tests.lab.test_chain import THEIRS, asked

pytestmark = pytest.mark.lab

if shutil.which("scrontab"):

    def test_it_calls_the_ticks_and_keeps_what_is_the_users(
        make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
    ) -> None:
        lab = make_lab(nodes=1, gpu_nodes=0, conf="ScronParameters=enable")
        cron = make(lab, cluster_user_dir() / "cron", names="")
        lab.run(["scrontab", "-"], input=THEIRS)
        (theirs,) = lab.squeue()
        told = asked(cron, {}, "start", "--via", "scrontab")
        assert told.returncode == 0, told.stdout + told.stderr
        table = lab.run(["scrontab", "-l"]).stdout
        assert THEIRS.strip() in table
        assert table.count(f"tick --dir {cron.root}") == 1
        assert len(lab.squeue()) == 2, "an entry is a job that waits for its time"
        assert asked(cron, {}, "start").returncode == 0
        assert lab.run(["scrontab", "-l"]).stdout == table, "as before, and only once"
        assert asked(cron, {}, "stop").returncode == 0
        assert lab.run(["scrontab", "-l"]).stdout.strip() == THEIRS.strip()
        assert [job["name"] for job in lab.squeue()] == [theirs["name"]]
