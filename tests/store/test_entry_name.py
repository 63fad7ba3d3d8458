"""An entry that no switch could mean alone is refused, wherever it is written."""

from __future__ import annotations

import re
import subprocess  # noqa: TID251 - the advice is pasted into a shell
from dataclasses import replace
from pathlib import Path

import pytest

from cronhpc.core.model import Job, Queue, Switch, SwitchKind
from cronhpc.core.stop import Index
from cronhpc.store.entries import is_script, meant_folder, meant_name, unswitchable
from tests.cli.test_cli import Shell, later
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture
from tests.view_situations import NOW, WORLD

AMBIGUOUS = ["ALL", "57", "57_3", "57_[3-5]", "57_[1,3-5%2]", "0"]
FINE = ["backup", "all", "job-57", "57a", "57_backup", "57_", "5.7", "_57", "\u0665\u0667", "57_[x]", "ALL2"]


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_a_switch_takes_for_another_is_no_name(name: str) -> None:
    problem = unswitchable(name, "cron.d/x.slurm")
    assert problem is not None
    assert (problem.code, problem.file) == ("E302", "cron.d/x.slurm")
    fixed = problem.fix.removeprefix("Rename it, for instance to ").partition(":")[0]
    assert unswitchable(fixed, "") is None


@pytest.mark.parametrize("name", FINE)
def test_any_other_name_stops_no_job_by_its_number(name: str) -> None:
    assert unswitchable(name, "") is None
    jobs = (Job("57", "RUNNING"), Job("57", "PENDING", tasks="[1-9]"))
    index = Index(replace(WORLD, queue=Queue(jobs)))
    assert index.reached(Switch(SwitchKind.KILL, name, f"/x/{name}", "bob", NOW)) == ()


@pytest.mark.processes
@pytest.mark.parametrize("name", ["ALL", "57"])
def test_such_an_entry_does_not_run_and_check_says_so(shell: Shell, name: str) -> None:
    file = shell.drop(f"cron.d/{name}.slurm", "#CRON * * * * *")
    now = later() + 60
    assert "submit" not in shell("plan", now=now).out
    said = shell("check", now=now)
    assert (said.code, said.out.count(f"cron.d/{name}.slurm: E302")) == (1, 1)
    assert "E302" in shell("check", str(file)).out
    assert "Rename it" in shell("status", now=now).out


@pytest.mark.processes
@pytest.mark.parametrize("name", ["ALL", "57"])
def test_a_row_of_the_settings_is_no_exception(shell: Shell, name: str) -> None:
    row = f"entries:\n  '{name}': {{schedule: '@hourly', command: 'true'}}\n"
    (shell.cron / "cronhpc.yaml").write_text(f"backend: local\n{row}")
    assert "cronhpc.yaml:3: E302" in shell("check", now=later()).out


def test_nor_is_one_from_the_shelf(shell: Shell) -> None:
    said = shell("add", "node-report", "--as", "57")
    assert (said.code, "Take another name" in said.err) == (2, True)


# --- names that are no scripts -------------------------------------------------------------------------------------

MEANT = {
    "x.SLURM": "x.slurm", "x.Slurm": "x.slurm", "x.slurm.txt": "x.slurm", "x.slurm.sh": "x.slurm", "x.slrum": "x.slurm",
    "x.slum": "x.slurm", "x.slurms": "x.slurm", "a.b.sbatch": "a.b.slurm", "x.job": "x.slurm", ".x.slurm": "x.slurm",
}  # fmt: skip
PLAIN = [
    "x-1001.out", "x.err", ".nfs000001", ".snapshot", ".DS_Store", "lost+found", "README", "README.md", "helper.sh",
    "lib.py", "x.slurm~", "#x.slurm#", ".#x.slurm", ".x.slurm.swp", "x.slurm.bak", "x.slurm.off", "x.slurm.disabled",
    "slurm-7.out", "Makefile", "core", ".git", "slurm",
]  # fmt: skip


@pytest.mark.parametrize(("name", "right"), MEANT.items(), ids=MEANT.keys())
def test_a_file_that_was_meant_to_be_a_script(name: str, right: str) -> None:
    assert not is_script(name)
    assert meant_name(name) == right


@pytest.mark.parametrize("name", PLAIN)
def test_a_file_that_is_plainly_none(name: str) -> None:
    assert not is_script(name)
    assert meant_name(name) == ""


@pytest.mark.parametrize("name", ["x.slurm", "a b.slurm", "-n.slurm", "50%.slurm", "é.slurm", "a.b.slurm"])
def test_a_name_that_runs(name: str) -> None:
    assert is_script(name)


FOLDERS = ["cron.hourly", "cron.daily", "cron.weekly", "cron.monthly", "cron.d", "kill", "pause"]


@pytest.mark.parametrize(
    ("name", "right"),
    [
        *(("cron.dayly", "cron.daily"), ("Cron.daily", "cron.daily"), ("cron_weekly", "cron.weekly")),
        *(
            ("daily", "cron.daily"),
            ("Hourly", "cron.hourly"),
            ("kills", "kill"),
            ("Pause", "pause"),
            ("cron.D", "cron.d"),
        ),
        *(("cron.daily", ""), ("data", ""), ("bill", ""), ("logs", ""), ("scripts", ""), ("cron.minutely", "")),
    ],
)
def test_a_folder_that_was_meant_to_be_another(name: str, right: str) -> None:
    assert meant_folder(name, FOLDERS) == right


@pytest.mark.processes
def test_what_is_plainly_no_script_is_one_line_and_nothing_to_fix(shell: Shell) -> None:
    shell.drop("cron.daily/x.slurm")
    for name in ("README", "helper.sh", ".nfs0001", ".DS_Store", *(f"x-{n}.out" for n in range(300))):
        (shell.cron / "cron.daily" / name).write_text("x\n")
    for name in (".snapshot", "lost+found"):
        (shell.cron / "cron.daily" / name).mkdir()
    said = shell("check", "--strict", now=later())
    assert said.code == 0
    assert said.out.splitlines() == [
        "cron.daily/: N001 306 other files, no scripts: only *.slurm files run.",
        "nothing to fix",
    ]
    for verb in ("status", "plan"):
        assert "other files" not in shell(verb, now=later()).out
        assert "x-1" not in shell(verb, now=later()).out


def test_what_begins_as_a_script_is_not_called_none(shell: Shell) -> None:
    """A crontab's backup.sh was "no script", and nothing said how it would run."""
    (shell.cron / "cron.daily" / "backup.sh").write_text("#!/bin/bash\ntrue\n")
    (shell.cron / "cron.daily" / "README").write_text("x\n")
    daily = shell.cron / "cron.daily"
    said = shell("check", "--strict", now=later())
    assert said.code == 0, "it may be another one's helper"
    fix = f"To run it: mv -n {daily}/backup.sh {daily}/backup.slurm"
    assert said.out.splitlines()[0] == f"cron.daily/: N001 2 other files (backup.sh …): only *.slurm files run. {fix}"


def test_a_batch_script_under_another_name_is_named(shell: Shell) -> None:
    for name in ("a.sbatch", "b.sh"):
        (shell.cron / "cron.daily" / name).write_text("#!/bin/bash\n#SBATCH --time=5\ntrue\n")
    (shell.cron / "cron.daily" / "old").mkdir()
    (shell.cron / "cron.daily" / "old" / "c.slurm").write_text("#!/bin/bash\n")
    said = shell("check", "--strict", now=later())
    assert said.code == 1
    daily = shell.cron / "cron.daily"
    assert f"To run it: mv -n {daily}/a.sbatch {daily}/a.slurm" in said.out
    assert f"To run it: mv -n {daily}/b.sh {daily}/b.slurm" in said.out
    never = "cron.daily/old/: W010 a folder in a cron folder: its 1 script never runs."
    assert f"{never} mv -n {daily}/old/*.slurm {daily}/" in said.out


@pytest.mark.processes
def test_no_advice_replaces_a_script_of_the_same_name(shell: Shell, tmp_path: Path) -> None:
    names = ("cron.daily/a.slurm", "cron.daily/a.sh", "a.slurm", "cron.dayly/a.slurm", "cron.daily/old/a.slurm")
    for name in names:
        (shell.cron / name).parent.mkdir(exist_ok=True)
        (shell.cron / name).write_text(f"#!/bin/bash\n#SBATCH --time=5\n: {name}\n")
    said = shell("check", now=later()).out
    assert "give it a name of its own: a.slurm is there already." in said
    moves = re.findall(r"mv -n .*", said)
    assert len(moves) == len(names) - 2
    for line in moves:
        subprocess.run(["bash", "-c", line], cwd=tmp_path, check=False, capture_output=True)  # some mv report a skip
    assert all((shell.cron / name).read_text().endswith(f": {name}\n") for name in names)


MISPLACED = {
    "cron.dayly/x.slurm": "W010 is no cron folder: its 1 script never runs. mv -n @/cron.dayly/*.slurm @/cron.daily/",
    "Cron.daily/x.slurm": "mv -n @/Cron.daily/*.slurm @/cron.daily/",
    "daily/x.slurm": "mv -n @/daily/*.slurm @/cron.daily/",
    "cron.minutely/x.slurm": 'folders: {minutely: "* * * * *"}',
    "kills/x": "mv -n @/kills/* @/kill/",
    "x.slurm": "mv -n @/x.slurm @/cron.daily/",
}


@pytest.mark.parametrize(("file", "fix"), MISPLACED.items(), ids=MISPLACED.keys())
def test_what_lies_where_nothing_runs_is_named_with_its_place(shell: Shell, file: str, fix: str) -> None:
    place = shell.cron / file
    place.parent.mkdir(exist_ok=True)
    place.write_text("#!/bin/bash\ntrue\n")
    said = shell("check", "--strict", now=later())
    assert said.code == 1
    assert fix.replace("@", str(shell.cron)) in said.out
    assert said.out.splitlines()[-1] == "1 warning"


def test_the_script_of_a_series_may_lie_beside_the_cron_folders(shell: Shell) -> None:
    shell.drop("train.slurm", "cronhpc again --after\npython /x/train.py\n")
    assert shell("check", now=later()).out == "nothing to fix\n"


def test_other_folders_in_a_cron_directory_are_nobody_s_business(shell: Shell) -> None:
    for name in ("data", "logs", "cron.old"):
        (shell.cron / name).mkdir()
    (shell.cron / "data" / "x.slurm").write_text("#!/bin/bash\n")
    assert shell("check", now=later()).out == "nothing to fix\n"


@pytest.mark.processes
def test_a_file_that_is_named_is_read_whatever_it_is_called(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH --time=90m\n")
    (tmp_path / "backup").write_text("#!/bin/bash\n#SBATCH --hold\n")
    shell.drop("cron.daily/backup.slurm")
    monkeypatch.chdir(tmp_path)
    for name in ("job.sh", "./job.sh", str(tmp_path / "job.sh")):
        said = shell("check", name, now=later())
        assert said.code == 1
        assert said.out.startswith(f"{Path(name)}:2: E207 ")
    assert shell("check", "backup", now=later()).out == "nothing to fix\n", "an entry goes before a file"


@pytest.mark.processes
def test_what_the_shell_cannot_read_is_said_with_its_line(shell: Shell) -> None:
    shell.drop("cron.daily/open.slurm", "if true; then\n  echo\n")
    shell.drop("cron.daily/fine.slurm", "for i in 1 2; do echo; done\n")
    said = shell("check", now=later())
    (line, _) = said.out.splitlines()
    assert re.match(r"cron\.daily/open\.slurm:\d: E230 its shell cannot read it: syntax error", line)


@pytest.mark.processes
def test_functions_of_the_environment_count(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "x.slurm").write_text("#!/bin/bash\nmodule load x\n")
    assert "W304" in shell("check", str(tmp_path / "x.slurm")).out
    shell.environ["BASH_FUNC_module%%"] = "() {  echo; }"
    assert shell("check", str(tmp_path / "x.slurm")).out == "nothing to fix\n"
