"""PBS's backend on a stand-in of its commands over a real Grid Engine: holds, begins and ends are real ones."""

from __future__ import annotations

import getpass
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.lab import pbs_standin
from tests.lab.helpers_grid_engine import LAB, Cell, Cron, a_cell, a_cron, wait_for

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
    with a_cron(server, tmp_path / "home" / "cron", backend="pbs") as made:
        yield made
        subprocess.run([f"{server.environ['STANDIN_GE']}/qdel", "-u", "*"], env=server.environ, check=False, timeout=90)


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


def test_a_submission_that_a_frozen_server_takes_when_it_wakes_runs_once(cron: Cron, tmp_path: Path) -> None:
    cron.entry("froze", counted(cron))
    (tmp_path / "bin").mkdir()
    freeze = f"{LAB} master --dir {cron.cell.folder} freeze"
    program(tmp_path / "bin" / "qsub", f'{freeze}\nexec "{cron.cell.environ["STANDIN"]}/bin/qsub" "$@"')
    try:
        assert "no answer in time" in cron("run", "froze", path=str(tmp_path / "bin"), code=None)
    finally:
        cron.cell.wake()
    cron.until(lambda: "  ok  " in cron("history", "froze", code=None))
    cron("tick", code=None)
    assert len(cron.ran) == 1


KILLING = """read -r when at <{plan}
count=$(($(wc -l <{counts}) + 1)) && echo >>{counts}
[ "$when $at" != "before $count" ] || {{ kill -KILL $PPID && exit; }}
{real} "$@"
code=$?
[ "$when $at" != "after $count" ] || kill -KILL $PPID
exit $code"""


def test_a_run_that_is_killed_before_or_after_any_of_its_commands_is_made_up_for_once(
    cron: Cron, tmp_path: Path
) -> None:
    """Whoever dies between the claim and the release: the job is adopted, released, or submitted once."""
    plan, counts, own = tmp_path / "plan", tmp_path / "counts", tmp_path / "bin"
    own.mkdir()
    for name in ("qselect", "qstat", "qsub", "qalter"):
        program(own / name, KILLING.format(plan=plan, counts=counts, real=f"{cron.cell.environ['STANDIN']}/bin/{name}"))
    names = [f"{when}{at}" for when in ("before", "after") for at in range(1, 13)]
    for name in names:
        path = cron.root / "cron.d" / f"{name}.slurm"
        path.write_text(f'#!/bin/bash\n#CRON 0 4 1 1 *\necho "$CRONHPC_ENTRY" >>"{cron.root.parent}/ran"\n')
    time.sleep(3.5)  # younger files are left for the next look
    killed, claimed = [], []
    for name in names:
        when, at = re.findall(r"([a-z]+)(\d+)", name)[0]
        plan.write_text(f"{when} {at}\n")
        counts.write_text("")
        cron("run", name, path=str(own), code=None)
        killed += [name] if counts.read_text().count("\n") == int(at) else []
        claimed += [name] if any((cron.root / "state" / "claims").glob(f"{name}@*")) else []
    assert len({*killed} & {*claimed}) > 5, (killed, claimed)
    cron.until(lambda: {*claimed} <= {*cron.ran})
    cron("tick", code=None)
    assert sorted(cron.ran) == sorted({*cron.ran}), killed


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


def test_a_switch_that_warns_sends_its_signal_first(cron: Cron) -> None:
    body = f"trap 'echo warned >>{cron.root.parent}/warned; exit 0' USR1\n{counted(cron, 'sleep 600 & wait')}"
    cron.entry("soft", body)
    settings = cron.root / "cronhpc.yaml"
    row = "\n  switches:\n    soft: {jobs: {name: soft.slurm}, warn: USR1@5m}\n"
    settings.write_text(settings.read_text(encoding="utf-8").replace("\n  switches:\n", row), encoding="utf-8")
    cron("run", "soft")
    cron.until(lambda: bool(cron.ran))
    cron("kill", "soft", code=None)
    cron.until((cron.root.parent / "warned").exists)


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


def test_the_chain_goes_on_by_itself_and_stop_ends_it(cron: Cron) -> None:
    """Each link hands in the next one with arguments in its text; a tick moves it, and its record knows where to."""
    settings = cron.root / "cronhpc.yaml"
    text = settings.read_text(encoding="utf-8").replace("\nscheduler:\n", "\nscheduler:\n  interval: 1m\n")
    settings.write_text(text, encoding="utf-8")
    cron.entry("each", counted(cron), "* * * * *")
    cron("start")
    log = cron.root / "scheduler" / "scheduler.log"
    wait_for(lambda: len(cron.ran) >= 2, 300, lambda: cron("status", code=None) + log.read_text(encoding="utf-8"))
    cron("stop")
    wait_for(
        lambda: not asked(cron, "qselect", "-u", getpass.getuser()), 90, lambda: asked(cron, "qselect", "-u", "root")
    )
    slots = [line.split()[0] for line in cron.ran]
    assert len(slots) == len(set(slots)), slots
    links = re.findall(r"link (\d+): successor (\d+)", log.read_text(encoding="utf-8"))
    assert len(links) > 1, log.read_text(encoding="utf-8")
    # on a busy machine a successor may have to begin before the tick of its link has looked: that adds another one
    assert len({later for _, later in links}) == len(links), log.read_text(encoding="utf-8")
    assert all(int(job) < int(later) for job, later in links)


def test_a_crontab_is_moved_in_and_its_entries_run_in_their_slots(cron: Cron) -> None:
    table = cron.root.parent / "table"
    table.write_text(f"""MAILTO=""
RAN={cron.root.parent}/ran
* * * * * echo "$CRONHPC_SLOT $PBS_JOBID plain" >>$RAN
*/1 * * * * echo 'a\\%b' >/dev/null; echo "$CRONHPC_SLOT $PBS_JOBID percent" >>$RAN
""")
    said = cron("import", "crontab", str(table), code=None)
    assert "needs a person" not in said, said
    wait_for(lambda: time.time() - (cron.root / "cron.d").stat().st_mtime > 4, 90, lambda: said)
    cron.until(lambda: {line.split()[-1] for line in cron.ran} == {"plain", "percent"})
    slots = [line.split()[::2] for line in cron.ran]
    assert all(slots.count(each) == 1 for each in slots), cron.ran


def test_doctor_shows_what_the_site_makes_of_a_job_and_leaves_none(cron: Cron) -> None:
    said = cron("doctor", "--submit", code=None)
    assert "keeps a job's hold, time to begin, comment and name" in said, said
    left = partial(asked, cron, "qselect", "-u", getpass.getuser())
    wait_for(lambda: not left(), 90, left)
