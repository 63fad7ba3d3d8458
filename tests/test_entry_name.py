"""An entry that no switch could mean alone is refused, wherever it is written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cronhpc.core.entry_name import unswitchable
from cronhpc.core.model import Job, Queue, Switch
from cronhpc.core.stop import Index
from tests.test_cli import Shell, later
from tests.test_cli import shell as shell  # noqa: PLC0414 - a fixture
from tests.view_situations import NOW, WORLD

AMBIGUOUS = ["ALL", "57", "57_3", "57_[3-5]", "57_[1,3-5%2]", "0"]
FINE = ["backup", "all", "job-57", "57a", "57_backup", "57_", "5.7", "_57", "\u0665\u0667", "57_[x]", "ALL2"]


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_a_switch_takes_for_another_is_no_name(name: str) -> None:
    problem = unswitchable(name, "cron.d/x.slurm")
    assert problem is not None
    assert (problem.code, problem.file) == ("E302", "cron.d/x.slurm")
    mended = problem.mend.removeprefix("Rename it, for instance to ").partition(":")[0]
    assert unswitchable(mended, "") is None


@pytest.mark.parametrize("name", FINE)
def test_any_other_name_stops_no_job_by_its_number(name: str) -> None:
    assert unswitchable(name, "") is None
    jobs = (Job("57", "RUNNING"), Job("57", "PENDING", tasks="[1-9]"))
    index = Index.of(replace(WORLD, queue=Queue(jobs)))
    assert index.reached(Switch("kill", name, f"/x/{name}", "bob", NOW)) == ()


@pytest.mark.parametrize("name", ["ALL", "57"])
def test_such_an_entry_does_not_run_and_check_says_so(shell: Shell, name: str) -> None:
    file = shell.drop(f"cron.d/{name}.slurm", "#CRON * * * * *")
    now = later() + 60
    assert "submit" not in shell("plan", now=now).out
    said = shell("check", now=now)
    assert (said.code, said.out.count(f"cron.d/{name}.slurm: E302")) == (1, 1)
    assert "E302" in shell("check", str(file)).out
    assert "Rename it" in shell("status", now=now).out


@pytest.mark.parametrize("name", ["ALL", "57"])
def test_a_row_of_the_settings_is_no_exception(shell: Shell, name: str) -> None:
    row = f"entries:\n  '{name}': {{schedule: '@hourly', command: 'true'}}\n"
    (shell.cron / "cronhpc.yaml").write_text(f"backend: local\n{row}")
    assert "cronhpc.yaml:3: E302" in shell("check", now=later()).out


def test_nor_is_one_from_the_shelf(shell: Shell) -> None:
    said = shell("add", "node-report", "--as", "57")
    assert (said.code, "Take another name" in said.err) == (2, True)
