"""The main job on a real Grid Engine: what is due runs once, whatever is lost; killed, in error, the master gone."""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.lab.slurmlab.clock import Clock
from deploy.lab.slurmlab.options import Options
from tests.lab.conftest import Lab
from tests.lab.helpers_days import unhurried
from tests.lab.helpers_grid_engine import TOP, Cell, Cron, a_cell, a_cron, wait_for
from tests.script.test_spelling import verdicts

pytestmark = pytest.mark.lab
_RUNS = 2


@pytest.fixture(scope="module")
def cell() -> Iterator[Cell]:
    with a_cell() as made:
        yield made


@pytest.fixture
def cron(cell: Cell, tmp_path: Path) -> Iterator[Cron]:
    with a_cron(cell, tmp_path / "home" / "cron") as made:
        yield made


def test_what_is_due_runs_once_and_how_it_ended_and_what_it_printed_is_known(cron: Cron) -> None:
    cron.entry("due", f'{cron.run}; echo "hello from $JOB_NAME, $TZ"', "* * * * *", "#$ -N mine\n")
    cron.until(lambda: bool(cron.ran))
    cron.until(lambda: "  ok  " in cron("history", "due", code=None))
    assert "hello from mine, Asia/Tokyo" in cron("logs", "due")
    slots = [line.split()[0] for line in cron.ran]
    assert len(slots) == len(set(slots))


def test_a_submission_whose_answer_is_lost_is_found_by_its_token_and_runs_once(cron: Cron, tmp_path: Path) -> None:
    cron.entry("lost", cron.run)
    wrapper = tmp_path / "bin" / "qsub"
    wrapper.parent.mkdir()
    real = shutil.which("qsub", path=cron.cell.environ["PATH"])
    wrapper.write_text(f'#!/bin/bash\n"{real}" "$@" >/dev/null\nexec sleep 60\n', encoding="utf-8")
    wrapper.chmod(0o755)
    assert "no answer in time" in cron("run", "lost", path=str(wrapper.parent), code=None)
    assert cron.ran == [], "it is held until its id is written down"
    cron.until(lambda: bool(cron.ran))
    cron.until(lambda: "  ok  " in cron("history", "lost", code=None))
    assert len(cron.ran) == 1


def test_a_master_that_was_killed_is_no_answer_and_what_waited_held_is_there_when_it_is_back(cron: Cron) -> None:
    cron.entry("waits", cron.run)
    cron.cell.master("kill")
    try:
        said = cron("run", "waits", code=None)
        assert "does not answer" in said
        assert "does not answer" in cron("status", code=None)
    finally:
        cron.cell.master("start")
    assert cron.ran == []
    cron("run", "waits")
    cron.until(lambda: bool(cron.ran))
    cron.until(lambda: "  ok  " in cron("history", "waits", code=None))
    assert len(cron.ran) == 1


def test_a_frozen_master_is_no_answer_either(cron: Cron) -> None:
    cron.entry("froze", cron.run)
    cron.cell.freeze()
    try:
        assert "does not answer" in cron("run", "froze", code=None)
    finally:
        cron.cell.wake()
    cron("run", "froze")
    cron.until(lambda: bool(cron.ran))
    assert len(cron.ran) == 1


def test_a_kill_switch_ends_a_run_and_an_error_state_is_named_with_its_cause(cron: Cron) -> None:
    cron.entry("long", f"{cron.run}; sleep 600")
    cron.entry("bad", "true", directives=f"#$ -o {cron.root.parent}/gone/log\n")
    cron("run", "long")
    cron("run", "bad")
    cron.until(lambda: bool(cron.ran))
    cron("kill", "long", "--reason", "enough", code=None)
    cron.until(lambda: "killed" in cron("history", "long", code=None))
    cron.until(lambda: "qmod -cj" in cron("status", code=None))
    assert "gone/log" in cron("status", code=None)


def test_the_chain_goes_on_by_itself_and_stop_ends_it(cron: Cron) -> None:
    settings = cron.root / "cronhpc.yaml"
    settings.write_text(
        settings.read_text(encoding="utf-8").replace("\nscheduler:\n", "\nscheduler:\n  interval: 1m\n"),
        encoding="utf-8",
    )
    cron.entry("each", cron.run, "* * * * *")
    cron("start")
    log = cron.root / "scheduler" / "scheduler.log"
    wait_for(lambda: len(cron.ran) >= _RUNS, 300, lambda: cron("status", code=None) + log.read_text())
    cron("stop")
    wait_for(lambda: not cron.jobs(), 90, lambda: str(cron.jobs()))
    slots = [line.split()[0] for line in cron.ran]
    assert len(slots) == len(set(slots)), slots
    links = re.findall(r"link (\d+): successor (\d+)", log.read_text())
    assert [later for _, later in links[:-1]] == [job for job, _ in links[1:]], log.read_text()


def test_the_chain_lives_through_a_limit_of_jobs_that_others_keep_full(tmp_path: Path) -> None:
    """A link that finds no place for its successor comes again in its own. On a clock that runs fast."""
    clock = Clock(Options(speed=unhurried(60), start_time=1_764_244_800))
    with ExitStack() as ends:
        ends.callback(clock.stop)
        cell = ends.enter_context(a_cell(clock.environment))
        lab, root = Lab(cell.folder, {"env": {**cell.environ, **clock.environment}}), tmp_path / "cron"

        def cronhpc(*words: str) -> str:
            return lab.run([sys.executable, "-m", "cronhpc", *words, "--dir", str(root)], check=False).stdout

        cronhpc("init", "--backend", "grid_engine")
        (root / "cronhpc.yaml").write_text("backend: grid_engine\nscheduler: {interval: 10m, min-interval: 5m}\n")
        shown = lab.run(["qconf", "-sconf"]).stdout.partition("\n")[2]
        (tmp_path / "global").write_text(re.sub("max_u_jobs +0", "max_u_jobs 1", shown))
        cronhpc("start")
        lab.run(["qconf", "-Mconf", str(tmp_path / "global")])
        log = root / "scheduler" / "scheduler.log"
        wait_for(lambda: log.exists() and log.read_text().count("comes again") > 2, 400, lambda: cronhpc("status"))
        again = "again: a submit limit has left no place for another since"
        wait_for(lambda: again in cronhpc("status"), 90, lambda: cronhpc("status"))  # it says so, and goes back then
        # a spare of before the limit ends first
        wait_for(lambda: len(lab.run(["qstat"]).stdout.splitlines()) == 2 + 1, 90, log.read_text)
        cronhpc("stop")
        wait_for(lambda: not lab.run(["qstat"]).stdout, 90, log.read_text)


def test_a_link_and_a_run_that_hang_in_their_start_are_named_and_the_link_is_replaced(
    cron: Cron, tmp_path: Path
) -> None:
    """Their node does not say that it runs them, for longer than that may take: a qstat dates their start back."""
    wrapper, later = tmp_path / "bin" / "qstat", tmp_path / "later"
    wrapper.parent.mkdir()
    real = shutil.which("qstat", path=cron.cell.environ["PATH"])
    back = "s/<JAT_start_time>2[0-9]*-/<JAT_start_time>2020-/"
    wrapper.write_text(
        f'#!/bin/bash\nset -o pipefail\n[ -e {later} ] || exec {real} "$@"\n{real} "$@" | sed "{back}"\n',
        encoding="utf-8",
    )
    wrapper.chmod(0o755)
    path = str(wrapper.parent)
    cron.entry("hangs", cron.run)
    cron.cell.freeze_host()
    try:
        cron("start", path=path)
        cron("run", "hangs", path=path)
        wait_for(lambda: len(re.findall(r" t +", cron.queue())) > 1, 90, cron.queue)
        started = {line.split()[0] for line in cron.queue().splitlines()[2:] if line.split()[4] == "t"}
        assert "chain   fine" in cron("status", path=path, code=None), "they were sent just now"
        later.touch()
        said = cron("status", path=path, code=None)
        assert "stuck in its start, held until: qdel -f" in said
        assert re.search(r"hangs +job (\d+) cannot start: stuck .* qdel -f \1\n", said), said
        (link,) = started - set(re.findall(r"hangs +job (\d+) ", said))
        assert f"job {link}, a link of the scheduler, is stuck in its start" in said
        cron("start", path=path)
        wait_for(lambda: len(set(cron.jobs()) - started) > 1, 90, cron.queue)  # the spare is one of them
        subprocess.run(["qdel", "-f", link], env=cron.cell.environ, check=True, capture_output=True, timeout=90)
    finally:
        cron.cell.wake_host()
        later.unlink(missing_ok=True)
    cron.until(lambda: "  ok  " in cron("history", "hangs", code=None))
    assert len(cron.ran) == 1
    assert "chain   fine" in cron("status", code=None)


def test_a_run_that_a_cached_qstat_does_not_show_yet_is_ended_by_its_id(cron: Cron, tmp_path: Path) -> None:
    cron.entry("hidden", f"{cron.run}; sleep 600")
    cached, wrapper = tmp_path / "cached", tmp_path / "bin" / "qstat"
    wrapper.parent.mkdir()
    real = shutil.which("qstat", path=cron.cell.environ["PATH"])
    cached.write_bytes(subprocess.check_output(["qstat", "-xml", "-u", "*"], env=cron.cell.environ, timeout=90))
    assert b"job_list" not in cached.read_bytes()
    wrapper.write_text(
        f'#!/bin/bash\ncase "$*" in *-u*) cat {cached} ;; *) exec {real} "$@" ;; esac\n', encoding="utf-8"
    )
    wrapper.chmod(0o755)
    cron("run", "hidden")
    wait_for(lambda: bool(cron.ran), 90, cron.queue)
    said = cron("kill", "hidden", path=str(wrapper.parent), code=None)
    told = r"cancelled job \d+ \(hidden\.slurm\), which was submitted .+ ago and is not listed yet"
    assert re.search(told, said), said
    wait_for(lambda: not cron.jobs(), 90, cron.queue)


def test_an_array_runs_all_of_its_tasks_and_tells_which_of_them_failed(cron: Cron) -> None:
    cron.entry("many", f'{cron.run}\n[ "$SGE_TASK_ID" != 3 ] || exit 7', directives="#$ -t 2-4 -tc 2\n")
    cron("run", "many")
    cron.until(lambda: "failed (7)" in cron("history", "many", code=None))
    assert "array tasks: 3 failed" in cron("history", "many", code=None)
    assert len(cron.ran) == 3, cron.ran


@pytest.mark.parametrize("code", [99, 100])
def test_an_exit_code_that_has_a_meaning_there_is_a_failure_as_any_other(cron: Cron, code: int) -> None:
    """99 starts a job again, at once and for ever; 100 leaves it in an error state."""
    cron.entry("fails", f"{cron.run}; exit {code}", directives="#$ -S /usr/bin/perl -b y\n#$ -now y -sync y\n")
    cron("run", "fails")
    cron.until(lambda: f"failed ({code})" in cron("history", "fails", code=None))
    assert len(cron.ran) == 1


def test_a_pause_holds_what_waits_and_its_end_lets_it_go(cron: Cron) -> None:
    cron.entry("later", cron.run, directives="#$ -a 203701010000\n")
    cron("run", "later")
    (job,) = cron.jobs()
    cron("pause", "later", code=None)
    cron.until(lambda: "hqw" in cron.queue())
    subprocess.run(["qalter", "-a", "202001010000", job], env=cron.cell.environ, check=True, capture_output=True)
    assert cron.ran == []
    cron("resume", "later", code=None)
    cron.until(lambda: bool(cron.ran))


def test_a_teammate_ends_a_run_by_a_file(cell: Cell) -> None:
    """Of the group; where nobody else can be had here, the owner stands for them."""
    group = grp.getgrgid(pwd.getpwnam("nobody").pw_gid) if os.getuid() == 0 else grp.getgrgid(os.getgid())
    teammate = ["setpriv", "--reuid=nobody", f"--regid={group.gr_name}", "--clear-groups"] if os.getuid() == 0 else []
    with a_cron(cell, cell.folder / "team" / "cron", "--group", group.gr_name) as cron:
        cron.entry("long", f"{cron.run}; sleep 600")
        cron("run", "long")
        cron.until(lambda: bool(cron.ran))
        subprocess.run([*teammate, "touch", str(cron.root / "kill" / "long")], check=True, cwd="/")
        cron.until(lambda: "killed" in cron("history", "long", code=None))


def test_a_series_goes_on_piece_by_piece_and_ends_by_its_rule(cron: Cron) -> None:
    place = cron.root.parent
    again = f"{sys.executable} -m cronhpc again --after --max-runs 3 --dir {cron.root}"
    (place / "train.sh").write_text(
        f"#!/bin/bash\n#$ -N train -l h_rt=600 -j y -o {place}/train.log\n"
        f"export PATH='{cron.cell.environ['PATH']}' PYTHONPATH={TOP}\n"
        f"{again} || [ $? -ne 113 ] || exit 0\necho $JOB_ID $SGE_CWD_PATH >>{place}/pieces\n",
        encoding="utf-8",
    )
    subprocess.run(["qsub", "-cwd", "train.sh"], cwd=place, env=cron.cell.environ, check=True, timeout=60)
    pieces, log = place / "pieces", place / "train.log"

    def told() -> str:
        return (log.read_text() if log.exists() else "no log") + str(cron.jobs())

    wait_for(lambda: pieces.exists() and len(pieces.read_text().split("\n")) > 3 and not cron.jobs(), 300, told)
    words = pieces.read_text().split()
    assert len(set(words[::2])) == 3, told()
    assert "this is the last piece of train" in log.read_text()
    assert set(words[1::2]) == {str(place)}, "each where the first one was submitted"


def test_a_crontab_is_moved_in_and_its_entries_run_in_their_slots(cron: Cron) -> None:
    table = cron.root.parent / "table"
    table.write_text(f"""MAILTO=""
RAN={cron.root.parent}/ran
* * * * * echo "$CRONHPC_SLOT $JOB_ID plain" >>$RAN
*/1 * * * * echo 'a\\%b' >/dev/null; echo "$CRONHPC_SLOT $JOB_ID percent" >>$RAN
""")
    said = cron("import", "crontab", str(table), code=None)
    assert "needs a person" not in said, said
    assert len(list((cron.root / "cron.d").glob("*.slurm"))) == 2, said
    wait_for(lambda: time.time() - (cron.root / "cron.d").stat().st_mtime > 4, 90, lambda: said)
    cron.until(lambda: {line.split()[-1] for line in cron.ran} == {"plain", "percent"})
    slots = [line.split()[::2] for line in cron.ran]
    assert all(slots.count(each) == 1 for each in slots), cron.ran


def test_doctor_shows_what_the_site_makes_of_a_job_and_leaves_none(cron: Cron) -> None:
    said = cron("doctor", "--submit", code=None)
    assert "keeps a job's hold, time to begin, comment and name" in said, said
    wait_for(lambda: not cron.jobs(), 90, cron.queue)


def test_qsub_judges_values_as_the_table_says(cell: Cell, tmp_path: Path) -> None:
    script, judged = tmp_path / "a.sh", []
    for _, line in verdicts():
        script.write_text(f"#!/bin/sh\n#$ {line}\n", encoding="utf-8")
        asked = ["qsub", "-terse", "-h", "-o", "/dev/null", "-N", "asks", str(script)]
        done = subprocess.run(asked, env=cell.environ, capture_output=True, text=True, timeout=90, check=False)
        judged.append(("refused" if done.returncode else "taken", line))
        if not done.returncode:
            job = done.stdout.split()[-1].partition(".")[0]
            subprocess.run(["qdel", job], env=cell.environ, capture_output=True, timeout=90, check=True)
    assert judged == verdicts()
