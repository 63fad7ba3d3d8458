"""docs/quick-start.md, followed on a real Slurm: what it shows is what is printed, but for numbers, times and names."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.conftest import Lab
from tests.test_docs import printed

pytestmark = pytest.mark.lab

DAYS = "Mon|Tue|Wed|Thu|Fri|Sat|Sun"
MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
PROJECT = Path(__file__).parents[2]


def shape(text: str, home: str = "/home/alice") -> list[str]:
    """The lines of `text`, with N for what differs from day to day and from cluster to cluster."""
    text = re.sub(r"cronhpc-[0-9a-f]{6}", "cronhpc-ID", text.replace(home, "~"))
    text = re.sub(rf"\b(?:{DAYS}) (?=\d\d:\d\d)", "", text)  # a time of tomorrow has its day
    text = re.sub(rf"\b(?:{DAYS}|{MONTHS}|cpu\d+|\d{{8}}T\d{{4,6}}Z)\b", "N", text)
    text = re.sub(r"\bin \d+ (?:s|min|h|days?)\b", "in N", text)
    text = re.sub(r"\d+(?:[:.]\d+)*", "N", text)
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_quick_start_on_a_cluster(lab: Lab, cluster_user_dir: Callable[..., Path]) -> None:
    home = cluster_user_dir(name="home")
    environ = {"HOME": str(home), "PYTHONPATH": str(PROJECT)}

    def answer(*words: str) -> list[str]:
        done = lab.run([sys.executable, "-m", "cronhpc", *words], cwd=home, env=environ, check=False)
        return shape(done.stdout, str(home))

    def shown(block: str, command: str) -> list[str]:
        return shape(printed(block, command)[0])

    assert answer("init") == shown("## 2.", "cronhpc init")
    script = printed("## 3.", "cat > ~/cron/cron.daily/backup.slurm")[0]
    (home / "cron" / "cron.daily" / "backup.slurm").write_text(script, encoding="utf-8")
    (home / "project").mkdir()
    assert answer("check") == shown("## 3.", "cronhpc check")
    assert answer("next", "backup", "-n", "2")[1:] == shown("## 3.", "cronhpc next backup -n 2")[1:]
    assert answer("start") == shown("## 4.", "cronhpc start")
    lab.wait_for_chain()

    plan = shown("## See", "cronhpc plan")
    assert [answer("plan")[at] for at in (0, -1)] == [plan[at] for at in (0, -1)]
    assert answer("run", "backup") == shown("## 5.", "cronhpc run backup")
    lab.wait_for_chain()
    assert answer("logs", "backup") == shown("## 5.", "cronhpc logs backup")
    headings = answer("history")[:1]
    assert headings == shown("And the next morning", "cronhpc history")[:1]

    assert answer("kill", "backup", "--reason", "disk is full") == shown(
        "## Stop", 'cronhpc kill backup --reason "disk is full"'
    )
    assert answer("unkill", "backup") == shown("## Stop", "cronhpc unkill backup")
    assert sorted(answer("stop")) == sorted(shown("## Stop", "cronhpc stop"))
