"""The main job on a stand-in of LSF's commands that does what LSF is documented to do to its users.

LSF itself cannot be had: what is written here of it is IBM's documentation, and what OpenLava did.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cronhpc.batch.lsf import Lsf
from cronhpc.batch.port import Submission
from cronhpc.core.model import Result
from tests.lab.conftest import MOST_WAIT, clean_environment

STANDIN = Path(__file__).with_name("lsf_standin.py")
TOP = STANDIN.parents[2]
pytestmark = pytest.mark.lab
SHORT = "8s"  # after which a command counts as one without an answer; a busy machine starts Python in seconds


@dataclass(frozen=True)
class Cluster:
    """The stand-in, and a cron directory on it."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "home" / "cron"

    @property
    def environ(self) -> dict[str, str]:
        environ = clean_environment()
        return environ | {
            "PATH": f"{self.folder}/bin:{environ['PATH']}",
            "LSF_ENVDIR": str(self.folder / "lsf"),
            "HOME": str(self.root.parent),
            "CRONHPC_DIR": str(self.root),
            "PYTHONPATH": str(TOP),
            "TZ": "Asia/Tokyo",
            "COLOUR": "it's\nblue",
        }

    def __call__(self, *words: str, code: int | None = 0) -> str:
        """What a command of cronhpc prints."""
        argv = [sys.executable, "-m", "cronhpc", *words]
        done = subprocess.run(argv, env=self.environ, cwd="/", capture_output=True, text=True, timeout=300, check=False)
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def lsf(self, *words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """A command of LSF's, as the user types it."""
        return subprocess.run(
            words, env=self.environ, input=given, capture_output=True, text=True, timeout=MOST_WAIT, check=False
        )

    def does(self, what: str, text: str = "") -> None:
        (self.folder / "lsf" / what).write_text(text, encoding="utf-8")

    def does_not(self, what: str) -> None:
        (self.folder / "lsf" / what).unlink()

    @property
    def jobs(self) -> list[dict[str, Any]]:
        state = self.folder / "lsf" / "state.json"
        return list(json.loads(state.read_text(encoding="utf-8"))["jobs"]) if state.exists() else []

    @property
    def sent(self) -> int:
        """How many submissions wait to be accepted."""
        return len(list((self.folder / "lsf").glob("sent.*")))

    def two_minutes_pass(self) -> None:
        """For claims: after so long a submission without answer may be tried again."""
        for path in (self.root / "state" / "claims").iterdir():
            claim = json.loads(path.read_text(encoding="utf-8"))
            path.write_text(json.dumps(claim | {"at": claim["at"] - 121}), encoding="utf-8")

    def entry(self, name: str, body: str, schedule: str = "0 4 1 1 *", directives: str = "") -> None:
        path = self.root / "cron.d" / f"{name}.slurm"
        path.write_text(f"#!/bin/bash\n{directives}#CRON {schedule}\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
        time.sleep(3.5)  # younger files are left for the next look

    @property
    def run(self) -> str:
        """What a script does to be counted."""
        return f'echo "$CRONHPC_SLOT $LSB_JOBID" >>{self.folder}/ran'

    @property
    def ran(self) -> list[str]:
        """A line a run."""
        told = self.folder / "ran"
        return told.read_text(encoding="utf-8").splitlines() if told.exists() else []

    def poll(self, holds: Callable[[], bool], seconds: float) -> None:
        """Let what is due begin, as the stand-in has no daemon, until it does."""
        end = time.monotonic() + seconds
        while not holds():
            log = self.root / "scheduler" / "scheduler.log"
            assert time.monotonic() < end, self("status", code=None) + (log.read_text("utf-8") if log.exists() else "")
            self.lsf("bjobs", "-a")
            time.sleep(0.5)

    def until(self, holds: Callable[[], bool]) -> None:
        """Tick until it does."""
        end = time.monotonic() + MOST_WAIT + 60  # for the next minute, which is due
        while not holds():
            assert time.monotonic() < end, (
                self("status", code=None) + self("history", code=None) + str([{**job, "env": ""} for job in self.jobs])
            )
            self("tick", code=None)
            time.sleep(0.5)


@pytest.fixture
def lsf(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "lsf").mkdir()
    for name in ("bsub", "bjobs", "bkill", "bmod", "bresume", "bstop", "bhist", "lsid"):
        path = tmp_path / "bin" / name
        path.write_text(f'#!/bin/bash\nexec {sys.executable} -I -S {STANDIN} {name} "$@"\n', encoding="utf-8")
        path.chmod(0o755)
    made.root.parent.mkdir()
    made("init", "--backend", "lsf")
    settings = made.root / "cronhpc.yaml"
    text = settings.read_text(encoding="utf-8").replace("\nscheduler:\n", f"\nscheduler:\n  timeout: {SHORT}\n")
    assert f"timeout: {SHORT}" in text
    settings.write_text(text, encoding="utf-8")
    yield made
    for job in made.jobs:
        if job["pid"]:
            made.lsf("bkill", str(job["id"]))


def test_what_is_due_runs_once_and_how_it_ended_and_what_it_printed_is_known(lsf: Cluster) -> None:
    lsf.does("notices", "Welcome to the cluster.\nYour quota: 70 %")
    lsf.entry(
        "due", f'{lsf.run}; echo "hello from $LSB_JOBNAME, $TZ, $COLOUR"', "* * * * *", "#BSUB -J mine -q short\n"
    )
    lsf.until(lambda: bool(lsf.ran))
    lsf.until(lambda: "  ok  " in lsf("history", "due", code=None))
    printed = lsf("logs", "due")
    assert "hello from mine, Asia/Tokyo, it's\nblue" in printed
    assert "LSF System" not in printed
    slots = [line.split()[0] for line in lsf.ran]
    assert len(slots) == len(set(slots))
    assert {job["queue"] for job in lsf.jobs} == {"short"}
    assert not (lsf.folder / "lsf" / "mail").exists(), "nothing is mailed"


def test_arguments_a_failure_and_an_older_version_without_json(lsf: Cluster) -> None:
    lsf.does("old")
    lsf.does("none", "254")
    script = lsf.folder / "fails"
    script.write_text('#!/bin/bash\necho "got $1"; exit 3\n', encoding="utf-8")
    script.chmod(0o755)
    with (lsf.root / "cronhpc.yaml").open("a", encoding="utf-8") as settings:
        settings.write(f'entries:\n  row: {{schedule: "0 4 1 1 *", command: "{script} \'two words\'"}}\n')
    lsf("run", "row", code=None)
    lsf.until(lambda: "failed (3)" in lsf("history", "row", code=None))
    assert "got two words" in lsf("logs", "row", code=None)


def test_each_task_of_an_array_has_its_log_and_the_one_that_fails_decides(lsf: Cluster) -> None:
    lsf.entry(
        "arr", 'echo "task $LSB_JOBINDEX"; [ "$LSB_JOBINDEX" != 2 ] || exit 4', directives='#BSUB -J "x[1-3]%2"\n'
    )
    lsf("run", "arr")
    lsf.until(lambda: "failed (4)" in lsf("history", "arr", code=None))
    logs = sorted((lsf.root / "log" / "arr").iterdir())
    assert [path.read_text(encoding="utf-8") for path in logs] == ["task 1\n", "task 2\n", "task 3\n"]
    assert [path.stem.rpartition("_")[2] for path in logs] == ["1", "2", "3"]


def test_a_submission_whose_answer_is_lost_is_found_by_its_token_and_runs_once(lsf: Cluster) -> None:
    lsf.entry("lost", lsf.run)
    lsf.does("deaf")
    assert "no answer in time" in lsf("run", "lost", code=None)
    assert lsf.ran == [], "it is held until its id is written down"
    lsf.does_not("deaf")
    lsf.until(lambda: bool(lsf.ran))
    lsf.until(lambda: "  ok  " in lsf("history", "lost", code=None))
    assert len(lsf.ran) == 1
    assert len(lsf.jobs) == 1


def test_a_killed_submission_that_bjobs_shows_late_is_waited_for_and_runs_once(lsf: Cluster) -> None:
    lsf.entry("late", lsf.run)
    lsf.does("slow")
    assert "its job may come within 2m" in lsf("run", "late", code=None)
    for _ in range(3):
        lsf("tick", code=None)
    assert lsf.sent == 1, "no second one is tried before two minutes have passed"
    assert lsf.jobs == []
    lsf.does_not("slow")
    lsf.until(lambda: "  ok  " in lsf("history", "late", code=None))
    assert len(lsf.ran) == len(lsf.jobs) == 1


def test_a_killed_submission_that_was_not_accepted_is_tried_again_and_a_late_twin_never_runs(lsf: Cluster) -> None:
    lsf.entry("twice", lsf.run)
    lsf.does("slow")
    lsf("run", "twice", code=None)
    kept = lsf.folder / "kept"
    next((lsf.folder / "lsf").glob("sent.*")).rename(kept)
    lsf.does_not("slow")
    lsf.two_minutes_pass()
    lsf.until(lambda: "  ok  " in lsf("history", "twice", code=None))
    kept.rename(lsf.folder / "lsf" / "sent.1")
    lsf.until(lambda: [job["stat"] for job in lsf.jobs] == ["DONE", "EXIT"])
    assert len(lsf.ran) == 1


def test_a_frozen_system_is_no_answer(lsf: Cluster) -> None:
    lsf.entry("froze", lsf.run)
    lsf.does("frozen")
    assert "does not answer" in lsf("status", code=None) + lsf("run", "froze", code=None)
    lsf.does_not("frozen")
    lsf("run", "froze")
    lsf.until(lambda: bool(lsf.ran))
    assert len(lsf.ran) == 1


def test_a_system_that_is_down_for_which_commands_would_wait_for_ever_is_no_answer(lsf: Cluster) -> None:
    lsf.entry("waits", lsf.run)
    lsf.does("down")
    assert "Cannot connect to LSF" in lsf("run", "waits", code=None)
    assert "does not answer" in lsf("status", code=None)
    lsf.does_not("down")
    lsf("run", "waits")
    lsf.until(lambda: "  ok  " in lsf("history", "waits", code=None))
    assert len(lsf.ran) == 1


def test_a_limit_that_blocks_is_told_as_one_and_the_run_comes_later(lsf: Cluster) -> None:
    lsf.entry("many", lsf.run)
    lsf.does("limit")
    assert "Pending job threshold reached" in lsf("run", "many", code=None)
    lsf.does_not("limit")
    lsf.two_minutes_pass()
    lsf.until(lambda: bool(lsf.ran))
    assert len(lsf.ran) == 1


def test_a_switch_ends_a_run_and_a_pause_holds_what_waits_and_lets_it_go(lsf: Cluster) -> None:
    lsf.entry("long", f"{lsf.run}; sleep 600")
    lsf("run", "long")
    lsf.until(lambda: bool(lsf.ran))
    lsf("kill", "long", "--reason", "enough", code=None)
    lsf.until(lambda: "killed" in lsf("history", "long", code=None))
    later = time.strftime("%Y:%m:%d:%H:%M", time.gmtime(time.time() + 7200))
    environ = lsf.environ | {"TZ": "UTC0"}
    words = ["bsub", "-J", "theirs", "-b", later]
    subprocess.run(words, env=environ, input="#!/bin/bash\n:", text=True, check=True, timeout=MOST_WAIT)
    (lsf.root / "pause" / "theirs").write_text("wait", encoding="utf-8")
    lsf.until(lambda: lsf.jobs[-1]["stat"] == "PSUSP")
    assert "cronhpc-paused" in lsf.jobs[-1]["description"]
    (lsf.root / "pause" / "theirs").unlink()
    lsf.until(lambda: lsf.jobs[-1]["stat"] == "PEND")
    assert "cronhpc-paused" not in lsf.jobs[-1]["description"]


def test_a_switch_that_warns_sends_its_signal_first(lsf: Cluster) -> None:
    lsf.entry("soft", f"trap 'echo warned >>{lsf.folder}/warned; exit 0' USR1\n{lsf.run}; sleep 600 & wait")
    settings = lsf.root / "cronhpc.yaml"
    row = "\n  switches:\n    soft: {jobs: {name: soft.slurm}, warn: USR1@5m}\n"
    settings.write_text(settings.read_text(encoding="utf-8").replace("\n  switches:\n", row), encoding="utf-8")
    lsf("run", "soft")
    lsf.until(lambda: bool(lsf.ran))
    lsf("kill", "soft", code=None)
    lsf.until((lsf.folder / "warned").exists)


def test_how_long_a_run_took_is_known_to_the_second_though_bjobs_tells_minutes(lsf: Cluster) -> None:
    lsf.entry("brief", f"{lsf.run}; sleep 2", directives="#BSUB -env none\n")
    lsf("run", "brief")
    lsf.until(lambda: "  ok  " in lsf("history", "brief", code=None))
    (known,) = (run for run in json.loads(lsf("history", "brief", "--json"))["runs"] if run["result"] == "ok")
    (job,) = (job for job in lsf.jobs if job["name"].startswith("brief"))
    assert known["took"] == job["finish"] - job["start"], (known, job)


def test_an_end_that_bjobs_has_forgotten_is_found_by_bhist(lsf: Cluster) -> None:
    lsf.entry("old", f"{lsf.run}; exit 7")
    lsf("run", "old")
    end = time.monotonic() + MOST_WAIT
    while not (lsf.jobs and lsf.jobs[0]["finish"]):
        assert time.monotonic() < end
        lsf.lsf("bjobs", "-a")
        time.sleep(0.2)
    state = lsf.folder / "lsf" / "state.json"
    known = json.loads(state.read_text(encoding="utf-8"))
    state.write_text(json.dumps(known | {"past": known["jobs"], "jobs": []}), encoding="utf-8")
    lsf.until(lambda: "failed (7)" in lsf("history", "old", code=None))


def test_the_chain_goes_on_by_itself_and_stop_ends_it(lsf: Cluster) -> None:
    settings = lsf.root / "cronhpc.yaml"
    text = settings.read_text(encoding="utf-8").replace("\nscheduler:\n", "\nscheduler:\n  interval: 1m\n")
    settings.write_text(text, encoding="utf-8")
    lsf.entry("each", lsf.run, "* * * * *")
    lsf("start")
    log = lsf.root / "scheduler" / "scheduler.log"

    def links() -> list[tuple[str, str]]:
        return re.findall(r"link (\d+): successor (\d+)", log.read_text(encoding="utf-8") if log.exists() else "")

    lsf.poll(lambda: len(links()) >= 2 and len(lsf.ran) >= 2, 4 * 60 + MOST_WAIT)
    lsf("stop")
    lsf.poll(lambda: all(job["stat"] in {"DONE", "EXIT"} for job in lsf.jobs), MOST_WAIT)
    slots = [line.split()[0] for line in lsf.ran]
    assert len(slots) == len(set(slots)), slots
    assert [later for _, later in links()[:-1]] == [job for job, _ in links()[1:]], log.read_text(encoding="utf-8")


def test_a_crontab_is_moved_in_and_its_entries_run_in_their_slots(lsf: Cluster) -> None:
    table = lsf.root.parent / "table"
    table.write_text(f"""MAILTO=""
RAN={lsf.folder}/ran
* * * * * echo "$CRONHPC_SLOT $LSB_JOBID plain" >>$RAN
*/1 * * * * echo 'a\\%b' >/dev/null; echo "$CRONHPC_SLOT $LSB_JOBID percent" >>$RAN
""")
    said = lsf("import", "crontab", str(table), code=None)
    assert "needs a person" not in said, said
    lsf.until(lambda: {line.split()[-1] for line in lsf.ran} == {"plain", "percent"})
    slots = [line.split()[::2] for line in lsf.ran]
    assert all(slots.count(each) == 1 for each in slots), lsf.ran


def test_doctor_shows_what_a_submission_looks_like_and_whether_the_year_was_taken(lsf: Cluster) -> None:
    said = lsf("doctor", "--submit", code=None)
    assert "keeps a job's hold, time to begin, comment and name" in said
    assert "10.1.0.0: bjobs prints JSON; no -b with a year was refused" in said
    lsf.does("old")
    assert "10.1.0.0: bjobs prints no JSON; -b takes no year" in lsf("doctor", "--submit", code=None)
    assert {job["stat"] for job in lsf.jobs} == {"EXIT"}, "each is cancelled"


# --- the backend's own calls


@pytest.fixture
def batch(lsf: Cluster) -> Lsf:
    return Lsf(lsf.environ, timeout=60, query_timeout=60)


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script"
    path.write_text("#!/bin/bash\nsleep 60\n", encoding="utf-8")
    return str(path)


def test_the_begin_of_a_job_stays_with_it_through_comments_moves_and_pauses(batch: Lsf, script: str) -> None:
    begin = (int(time.time()) + 7200) // 60 * 60

    def seen() -> tuple[str, str, int | None, bool]:
        (job,) = batch.queue().jobs
        return job.name, job.comment, job.start, job.held_by_user

    job_id = batch.submit(Submission(script, job_name="a", comment="cronhpc=1/a", chdir="/", begin=begin))
    assert seen() == ("a", "cronhpc=1/a", begin, True)
    batch.release([job_id])
    batch.comment([job_id], "other")
    assert seen() == ("a", "other", begin, False)
    batch.move(job_id, begin + 600)
    assert seen() == ("a", "other", begin + 600, False)
    batch.move(job_id, begin, "moved", exclude="n1,n2")
    assert seen() == ("a", "moved", begin, False)
    batch.hold([job_id], "marked")
    assert seen() == ("a", "marked", begin, True)
    batch.unhold([job_id], "free")
    assert seen() == ("a", "free", begin, False)
    assert batch.describe(job_id)["Comment"] == "free"


def test_a_look_that_only_moves_finds_out_that_an_older_version_takes_no_year(
    lsf: Cluster, batch: Lsf, script: str
) -> None:
    """Each process finds it out anew: a tick that submits nothing pushed no spare."""
    begin = (int(time.time()) + 7200) // 60 * 60
    lsf.does("old")
    job_id = batch.submit(Submission(script, job_name="a", comment="x", chdir="/", begin=begin))
    batch.year = True
    batch.move(job_id, begin + 600)
    assert [job.start for job in batch.queue().jobs] == [begin + 600]


def test_a_job_that_began_before_it_could_be_held_goes_on(batch: Lsf, script: str) -> None:
    job_id = batch.submit(Submission(script, job_name="a", comment="x", chdir="/", held=False))
    assert [job.state for job in batch.queue().jobs] == ["RUNNING"]
    batch.hold([job_id], "marked")
    assert [job.state for job in batch.queue().jobs] == ["RUNNING"]


def test_of_an_array_the_tasks_that_wait_are_cancelled_and_others_run_on(batch: Lsf, script: str) -> None:
    options = ("-J 'a[1-4]%2'",)
    job_id = batch.submit(Submission(script, options=options, job_name="a", comment="x", chdir="/", held=False))
    batch.cancel([f"{job_id}_[2-3]"], pending_only=True)
    states = {job.tasks: job.state for job in batch.queue().jobs}
    assert states == {"1": "RUNNING", "2": "RUNNING", "3": "CANCELLED", "4": "PENDING"}
    batch.cancel([job_id])
    assert {job.state for job in batch.queue().jobs} == {"CANCELLED"}
    batch.cancel([job_id, "999"])
    ends = batch.job_ends([job_id, "999"], since=0).by_id
    assert {each: (end.result, end.tasks) for each, end in ends.items()} == {job_id: (Result.CANCELLED, "")}


# --- the stand-in itself ----------------------------------------------------------------------------------------------

RECORDED = TOP / "tests" / "data" / "lsf" / "openlava-bjobs.txt"


def shape(line: str) -> str:
    """A line less its numbers, names and widths."""
    line = re.sub(r"[A-Z][a-z]{2} {1,2}\d+ \d\d:\d\d", "TIME", line)
    line = re.sub(r"<(\w+)>(?= is| are|,|$)", "<>", re.sub(r"\d+", "9", line))
    return re.sub(r"\s+", " ", re.sub(r"pbshost|here", "HOST", line)).strip()


def test_the_standin_speaks_as_openlava_did(lsf: Cluster) -> None:
    recorded = RECORDED.read_text(encoding="utf-8").splitlines()
    said = lsf.lsf("bsub", "-H", "-J", "held", given="sleep 1").stdout.splitlines()
    assert [shape(line) for line in said] == [shape(recorded[0])]
    lsf.lsf("bsub", "-H", "-J", "arr[1-3]", given="sleep 1")
    listed = lsf.lsf("bjobs", "-a").stdout.splitlines()
    assert listed[0] == next(line for line in recorded if line.startswith("JOBID"))
    shapes = {shape(line) for line in recorded}
    assert {shape(line) for line in listed} <= shapes
    killed = lsf.lsf("bkill", "7", "8").stdout.splitlines()
    assert {shape(line) for line in killed} <= shapes


@pytest.mark.parametrize(
    "words",
    [
        ("bsub", "-K"),
        ("bjobs", "-l"),
        ("bjobs", "-o", "jobid nosuch"),
        ("bmod", "-q", "x", "7"),
        ("bkill", "-r", "7"),
        ("bhist", "-x"),
    ],
    ids=" ".join,
)
def test_the_standin_refuses_what_it_does_not_know(lsf: Cluster, words: tuple[str, ...]) -> None:
    lsf.lsf("bsub", "-H", given="sleep 1")
    assert lsf.lsf(*words, given="sleep 1").returncode == 255
