"""PBS's backend on a stand-in of its commands over a real Grid Engine: holds, begins and ends are real ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab import pbs_standin
from tests.lab.helpers_grid_engine import Cell, Cron, a_cell, a_cron

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def server() -> Iterator[Cell]:
    with a_cell() as cell:
        own = cell.folder / "pbs"
        (own / "bin").mkdir(parents=True)
        real = cell.environ["PATH"].partition(":")[0]
        for name in pbs_standin.COMMANDS:
            program(own / "bin" / name, f'exec {sys.executable} {pbs_standin.__file__} {name} "$@"')
        more = {"PATH": f"{own}/bin:{cell.environ['PATH']}", "STANDIN": str(own), "STANDIN_GE": real}
        yield replace(cell, environ={**cell.environ, **more})


@pytest.fixture
def cron(server: Cell, tmp_path: Path) -> Iterator[Cron]:
    with a_cron(server, tmp_path / "home" / "cron", "pbs") as made:
        yield made


def program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def counted(cron: Cron, more: str = "") -> str:
    """A script's body that leaves a line a run."""
    return f'echo "$CRONHPC_SLOT $PBS_JOBID" >>"{cron.root.parent}/ran"\n{more}'


def asked(cron: Cron, *argv: str, given: str | None = None) -> str:
    """What one of PBS's commands prints."""
    environ = {**cron.cell.environ, "HOME": str(cron.root.parent)}
    return subprocess.check_output(argv, input=given, env=environ, cwd="/", text=True, timeout=90)


def test_what_is_due_runs_once_and_writes_down_how_it_ended(cron: Cron) -> None:
    """Its script gets its directives, its environment and its working folder, and its log is named by its number."""
    body = counted(cron, 'echo "hello from $PWD, $TZ, $OWN"; exit 3')
    cron.entry("due", body, "* * * * *", "#PBS -N mine -l walltime=0:10:00\n#PBS -v OWN=a\n")
    cron.until(lambda: bool(cron.ran))
    cron.until(lambda: "failed (3)" in cron("history", "due", code=None))
    assert f"hello from {cron.root.parent}, Asia/Tokyo, a" in cron("logs", "due", code=None)
    slots = [line.split()[0] for line in cron.ran]
    assert len(slots) == len(set(slots))
    number = cron.ran[0].split()[1].partition(".")[0]
    assert list((cron.root / "log" / "due").glob(f"*Z-{number}.out"))


def test_a_submission_whose_answer_is_lost_is_found_by_its_token_and_runs_once(cron: Cron, tmp_path: Path) -> None:
    cron.entry("lost", counted(cron))
    (tmp_path / "bin").mkdir()
    real = f"{cron.cell.environ['STANDIN']}/bin/qsub"
    program(tmp_path / "bin" / "qsub", f'"{real}" "$@" >/dev/null\nexec sleep 60')
    assert "no answer in time" in cron("run", "lost", path=str(tmp_path / "bin"), code=None)
    assert cron.ran == [], "it is held until its id is written down"
    cron.until(lambda: bool(cron.ran))
    cron.until(lambda: "  ok  " in cron("history", "lost", code=None))
    assert len(cron.ran) == 1


def test_a_server_that_is_down_is_no_answer_and_runs_go_on_when_it_is_back(cron: Cron) -> None:
    cron.entry("waits", counted(cron))
    cron.cell.master("kill")
    try:
        assert "does not answer" in cron("run", "waits", code=None)
        assert "does not answer" in cron("status", code=None)
    finally:
        cron.cell.master("start")
    assert cron.ran == []
    cron("run", "waits")
    cron.until(lambda: bool(cron.ran))
    cron.until(lambda: "  ok  " in cron("history", "waits", code=None))
    assert len(cron.ran) == 1


def test_a_limit_of_the_site_is_met_and_the_run_starts_when_there_is_room(cron: Cron) -> None:
    cron.entry("more", counted(cron))
    limit = Path(cron.cell.environ["STANDIN"]) / "limit"
    limit.touch()
    assert "per-user limit" in cron("run", "more", code=None)
    limit.unlink()
    cron.until(lambda: bool(cron.ran))
    assert len(cron.ran) == 1


def test_a_kill_switch_ends_a_run(cron: Cron) -> None:
    cron.entry("long", counted(cron, "sleep 600"))
    cron("run", "long")
    cron.until(lambda: bool(cron.ran))
    cron("kill", "long", "--reason", "enough", code=None)
    cron.until(lambda: "killed" in cron("history", "long", code=None))


def test_a_pause_holds_a_job_that_waits_and_its_end_releases_that_job_alone(cron: Cron) -> None:
    """Nobody can change a variable of a job, so the mark of the pause lies in the cron directory."""
    ids = {}
    for name, hold in (("works", []), ("mine", ["-h"])):
        argv = ["qsub", "-f", *hold, "-a", "203001010000", "-N", name]
        ids[name] = asked(cron, *argv, given="#!/bin/bash\ntrue\n").strip()

    def state(name: str) -> str:
        return str(json.loads(asked(cron, "qstat", "-f", "-F", "json", ids[name]))["Jobs"][ids[name]]["job_state"])

    cron("pause", "works", "mine", code=None)
    cron.until(lambda: state("works") == "H")
    assert list((cron.root / "state" / "pbs").glob("*.json"))
    cron("resume", "works", "mine", code=None)
    cron.until(lambda: state("works") == "W")
    assert state("mine") == "H", "its user holds it"


def test_tasks_of_an_array_end_each_for_itself(cron: Cron) -> None:
    cron.entry("many", counted(cron, '[ "$PBS_ARRAY_INDEX" != 2 ]'), directives="#PBS -J 1-3\n")
    cron("run", "many")
    cron.until(lambda: len(cron.ran) == 3)
    cron.until(lambda: "array tasks: 2 failed" in cron("history", "many", "--json", code=None))


def test_start_says_what_is_not_here_and_names_the_daemon(cron: Cron) -> None:
    said = cron("start", code=2)
    assert "not here for PBS" in said
    assert "cronhpc daemon" in said
