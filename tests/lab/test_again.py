"""Jobs that keep themselves going, on a real Slurm: one series, whatever happens to its pieces."""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from cronhpc.engine.init import init
from tests.lab.conftest import Lab, MakeLab
from tests.lab.helpers_cron import Cron
from tests.lab.helpers_days import DAY, HOUR, Evidence, days, evidence_of, instant, simulated, simulation
from tests.lab.helpers_points import PROCESS, STATE, WAIT, Point, points_of_a_tick, strike

pytestmark = pytest.mark.lab

AGAIN = f"{sys.executable} -m cronhpc again {{words}} || [ $? -ne 113 ] || exit 0"


def script_text(name: str, words: str, *lines: str, place: Path, time: int = 5) -> str:
    """A batch script with the one line at its top; it notes its piece, then does `lines`."""
    head = f"#!/bin/bash\n#SBATCH --job-name={name} --time={time} --output={place}/{name}.log --open-mode=append\n"
    note = f"cd {place}\necho $SLURM_JOB_ID >>{name}.pieces"
    return "\n".join([head + AGAIN.format(words=words), note, *lines, ""])


# --- a watchdog for two days ---------------------------------------------------------------------------------------

MIDNIGHT = instant("2025-11-25 00:00")


@simulation(305)
def watchdog() -> Evidence:
    """Every hour for two days, and two hours before them: 300 s."""
    with days("2025-11-24 22:10", "timezone: UTC\n") as day:
        script = day.place / "watchdog.slurm"
        script.write_text(script_text("watchdog", f"--every 1h --dir {day.root}", place=day.place, time=300))
        day.lab.submit(str(script))
        day.watch(MIDNIGHT + DAY)
        day.noted["status"] = json.loads(day.cronhpc("status", "--json"))
        day.watch(MIDNIGHT + 2 * DAY + HOUR // 3)
        waiting = day.lab.run(["squeue", "-h", "-n", "watchdog", "-t", "PENDING", "-o", "%i"]).stdout.split()
        day.noted["waiting"] = waiting
        day.noted["pieces"] = (day.place / "watchdog.pieces").read_text().split()
        day.lab.drain_queue()
        return day.evidence()


@simulated(watchdog)
def test_a_watchdog_runs_48_times_in_two_days_without_drift(request: pytest.FixtureRequest) -> None:
    day = evidence_of(watchdog, request)
    jobs = {job.id: job for job in day.ended if job.name == "watchdog"}
    due = [jobs[piece].due for piece in day.noted["pieces"] if piece in jobs]
    assert [at for at in due if MIDNIGHT <= at < MIDNIGHT + 2 * DAY] == [MIDNIGHT + n * HOUR for n in range(48)]
    assert len(set(day.noted["pieces"])) == len(day.noted["pieces"])
    assert len(day.noted["waiting"]) == 1


@simulated(watchdog)
def test_status_lists_a_train_beside_the_entries(request: pytest.FixtureRequest) -> None:
    shown = evidence_of(watchdog, request).noted["status"]
    series = next(row for row in shown["entries"] if row["name"] == "watchdog")
    assert series["series"]["runs"] >= 24
    assert series["series"]["when"] == "every 1h"


# --- a series whose pieces die --------------------------------------------------------------------------------------


@simulation(40)
def series() -> Evidence:
    """Five pieces: the time limit ends the first, its node's death the second, scancel the third; the fifth is done."""
    with days("2025-11-24 12:00", "timezone: UTC\n", speed=30) as day:
        work = "case $(wc -l <train.pieces) in 1 | 2 | 3) sleep 100000 ;; 5) touch done ;; esac"
        script = day.place / "train.slurm"
        words = f"--after --until {day.place}/done --dir {day.root}"
        script.write_text(script_text("train", words, work, place=day.place))

        def pieces() -> list[str]:
            """the next piece"""
            path = day.place / "train.pieces"
            return path.read_text().split() if path.exists() else []

        day.lab.submit(str(script))
        day.lab.wait_for(lambda: len(pieces()) == 2)
        node = day.lab.run(["squeue", "-h", "-j", pieces()[1], "-o", "%N"]).stdout.strip()
        day.lab.kill_node(node)
        day.lab.down_node(node)
        day.lab.wait_for(lambda: len(pieces()) == 3)
        day.lab.run(["scancel", pieces()[2]])
        day.lab.wait_for((day.place / "done").exists)
        day.lab.wait_for(lambda: not day.lab.run(["squeue", "-h"]).stdout)
        day.noted["pieces"] = pieces()
        day.noted["log"] = (day.place / "train.log").read_text()
        day.noted["status"] = json.loads(day.cronhpc("status", "--json"))
        return day.evidence()


@simulated(series)
def test_a_train_outlives_its_pieces_and_ends_at_its_done_file(request: pytest.FixtureRequest) -> None:
    day = evidence_of(series, request)
    states = {job.id: job.state for job in day.ended}
    assert [states[piece] for piece in day.noted["pieces"]] == [
        "TIMEOUT",
        "NODE_FAIL",
        "CANCELLED",
        "COMPLETED",
        "COMPLETED",
    ]
    assert len(states) == 6, "the sixth sees the file, and runs nothing"
    assert "/done exists; nothing is queued" in day.noted["log"]
    row = next(row for row in day.noted["status"]["entries"] if row["name"] == "train")
    assert row["series"]["no_next"].endswith("/done exists")


# --- in real time --------------------------------------------------------------------------------------------------


@dataclass
class Series:
    """A script that keeps itself going, with a cron directory of its own."""

    lab: Lab
    place: Path
    name: str

    @property
    def script(self) -> Path:
        return self.place / f"{self.name}.slurm"

    @property
    def log(self) -> str:
        path = self.place / f"{self.name}.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def write(self, words: str, *lines: str) -> None:
        """What its script says from now on."""
        words = f"{words} --dir {self.place}/cron"
        self.script.write_text(script_text(self.name, words, *lines, place=self.place), encoding="utf-8")

    def pieces(self) -> list[str]:
        """Job ids of the pieces that ran, in order."""
        path = self.place / f"{self.name}.pieces"
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    def jobs(self, state: str = "") -> list[str]:
        """Its jobs in the queue."""
        return [row["id"] for row in self.lab.squeue() if row["name"] == self.name and state in {"", row["state"]}]

    def status(self) -> str:
        """What people read of it."""
        argv = [sys.executable, "-m", "cronhpc", "status", self.name, "--dir", str(self.place / "cron")]
        return self.lab.run(argv, check=False).stdout


@pytest.fixture
def new_series(lab: Lab, cluster_user_dir: Callable[..., Path]) -> Callable[[str], Series]:
    """A train with nothing in its script yet."""

    def make(name: str) -> Series:
        place = cluster_user_dir()
        init(place / "cron", {})
        return Series(lab, place, name)

    return make


def test_edited_while_it_waits_the_next_piece_runs_the_new_text(lab: Lab, new_series: Callable[[str], Series]) -> None:
    mine = new_series("edited")
    mine.write("--after", "echo old >>said", "while [ ! -e go ]; do sleep 0.2; done")
    first = lab.submit(str(mine.script))
    lab.wait_for(lambda: mine.pieces() and mine.jobs("PENDING"))
    mine.script.write_text(f"#!/bin/bash\n#SBATCH --output={mine.place}/log2\ncd {mine.place}\necho new >>said\n")
    (mine.place / "go").touch()
    lab.wait_for(lambda: not mine.jobs())
    assert (mine.place / "said").read_text().split() == ["old", "new"]
    assert mine.pieces() == [first]


def test_a_script_that_crashes_at_once_rests_after_three_pieces_and_says_why(
    lab: Lab, new_series: Callable[[str], Series]
) -> None:
    mine = new_series("crashing")
    mine.write("--after", "exit 1")
    lab.submit(str(mine.script))
    lab.wait_for(lambda: "nothing is queued" in mine.log)
    lab.wait_for(lambda: not mine.jobs())
    assert len(mine.pieces()) == 3
    assert "series crashing ends: the last 3 pieces failed within 2m each; nothing is queued" in mine.log
    assert "It has stopped: the last 3 pieces failed within 2m each." in mine.status()


def test_started_twice_at_once_it_is_one_series(lab: Lab, new_series: Callable[[str], Series]) -> None:
    mine = new_series("twice")
    mine.write("--every 1h")
    starts = [lab.popen(["sbatch", "-w", node, str(mine.script)]) for node in ("cpu1", "cpu2")]
    for each in starts:
        assert "Submitted" in each.communicate()[0]
    lab.wait_for(lambda: len(mine.pieces()) == 2)
    lab.wait_for(lambda: not mine.jobs("RUNNING"))
    assert len(mine.jobs("PENDING")) == 1, mine.log
    lab.submit(str(mine.script))
    lab.wait_for(lambda: len(mine.pieces()) == 3)
    lab.wait_for(lambda: not mine.jobs("RUNNING"))
    assert len(mine.jobs("PENDING")) == 1, mine.log
    assert "series twice is going on already: this start of it queues nothing" in mine.log
    lab.run(["scancel", *mine.jobs()])


def test_a_requeued_piece_queues_no_second_one(lab: Lab, new_series: Callable[[str], Series]) -> None:
    mine = new_series("requeued")
    mine.write("--every 1h", "while [ ! -e go ]; do sleep 0.2; done")
    first = lab.submit("--requeue", str(mine.script))
    lab.wait_for(lambda: mine.pieces() == [first] and mine.jobs("PENDING"))
    lab.run(["scontrol", "requeue", first])
    (mine.place / "go").touch()

    lab.begin_now(first, lambda: mine.pieces() == [first, first])
    lab.wait_for(lambda: first not in mine.jobs())
    assert len(mine.jobs()) == 1, mine.log
    lab.run(["scancel", *mine.jobs()])


def test_a_held_twin_does_not_stall_it(lab: Lab, new_series: Callable[[str], Series]) -> None:
    """Two recipes that count jobs by their name stop for ever where a held job has that name."""
    mine = new_series("twin")
    held = lab.submit("--hold", "--job-name=twin", "-o", "/dev/null", "--wrap", "true")
    mine.write("--after --max-runs 3")
    lab.submit(str(mine.script))
    lab.wait_for(lambda: len(mine.pieces()) == 3)
    lab.wait_for(lambda: mine.jobs() == [held])
    assert "this is the last piece of twin: run 3 of --max-runs 3" in mine.log
    lab.run(["scancel", held])


def test_a_kill_switch_ends_it(lab: Lab, new_series: Callable[[str], Series]) -> None:
    mine = new_series("killed")
    mine.write("--after", "while [ ! -e go ]; do sleep 0.2; done")
    lab.submit(str(mine.script))
    lab.wait_for(lambda: mine.pieces() and mine.jobs("PENDING"))
    (mine.place / "cron" / "kill" / "killed").write_text("loss spikes\n")
    (mine.place / "go").touch()
    lab.wait_for(lambda: not mine.jobs())
    assert len(mine.pieces()) == 1
    assert f"series killed ends: kill switch killed (by {getpass.getuser()}: loss spikes)" in mine.log


def test_what_the_first_command_line_asked_for_is_kept(lab: Lab, new_series: Callable[[str], Series]) -> None:
    """As `sbatch --gres=gpu:2 train.slurm`: without GPUs the second piece would crash, or crawl."""
    mine = new_series("asked")
    fields = "-e 'TresPerNode=.*' -e 'TimeLimit=[^ ]*' -e 'ExcNodeList=[^ ]*'"
    show = f"scontrol show job $SLURM_JOB_ID | grep -o {fields} >>said"
    mine.write("--after --max-runs 3", show)
    asked = ["--partition=gpu", "--gres=gpu:2", "--exclude=cpu2", "--time=9", f"--output={mine.place}/own-%j.log"]
    first = lab.submit(*asked, str(mine.script))
    lab.wait_for(lambda: len(mine.pieces()) == 3)
    lab.wait_for(lambda: not mine.jobs())
    said = (mine.place / "said").read_text().replace("gres/gpu", "gres:gpu").split()  # as Slurm writes it from 23.11 on
    assert said == ["TimeLimit=00:09:00", "ExcNodeList=cpu2", "TresPerNode=gres:gpu:2"] * 3
    assert sorted(path.name for path in mine.place.glob("own-*")) == sorted(f"own-{job}.log" for job in mine.pieces())
    assert (
        "kept of the command line: --partition=gpu --time=00:09:00 --gres=gpu:2"
        in (mine.place / f"own-{first}.log").read_text()
    )


def test_whoever_cancels_the_piece_that_waits_ends_the_train_after_this_one(
    lab: Lab, new_series: Callable[[str], Series]
) -> None:
    mine = new_series("stopped")
    mine.write("--after", "while [ ! -e go ]; do sleep 0.2; done")
    lab.submit(str(mine.script))
    lab.wait_for(lambda: mine.pieces() and mine.jobs("PENDING"))
    lab.run(["scancel", *mine.jobs("PENDING")])
    (mine.place / "go").touch()
    lab.wait_for(lambda: not mine.jobs())
    assert len(mine.pieces()) == 1
    assert f"No piece of it is in the queue. Start it again: sbatch {mine.script}" in mine.status()


def test_a_script_that_is_gone_is_named_by_the_piece_that_would_run_it(
    lab: Lab, new_series: Callable[[str], Series]
) -> None:
    mine = new_series("gone")
    mine.write("--after", "while [ ! -e go ]; do sleep 0.2; done")
    lab.submit(str(mine.script))
    lab.wait_for(lambda: mine.pieces() and mine.jobs("PENDING"))
    mine.script.unlink()
    (mine.place / "go").touch()
    lab.wait_for(lambda: not mine.jobs())
    assert "gone.slurm cannot be read on" in mine.log
    assert "No such file" not in mine.log


def test_a_controller_that_hangs_for_a_moment_ends_no_series(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
) -> None:
    lab, place = make_lab(), cluster_user_dir()
    init(place / "cron", {})
    mine = Series(lab, place, "patient")
    mine.write("--after --max-runs 2", "true")
    text = mine.script.read_text()
    mine.script.write_text(text.replace(sys.executable, f"touch {place}/up; sleep 2; {sys.executable}", 1))
    lab.submit(str(mine.script))
    lab.wait_for((place / "up").exists)
    lab.freeze()
    lab.wait_for(lambda: "asked once more in 5 s" in mine.log)
    lab.thaw()
    lab.wait_for(lambda: len(mine.pieces()) == 2)


def test_without_a_cron_directory_the_train_is_seen_and_ended_by_its_name(
    lab: Lab, cluster_user_dir: Callable[..., Path]
) -> None:
    place = cluster_user_dir()
    environ = {"HOME": str(place), "XDG_STATE_HOME": f"{place}/state"}

    def cronhpc(*words: str) -> str:
        argv = ["env", "-u", "WORK", *(f"{name}={value}" for name, value in environ.items())]
        done = lab.run([*argv, sys.executable, "-m", "cronhpc", *words], check=False)
        return done.stdout + done.stderr

    script = place / "own.slurm"
    script.write_text(script_text("own", "--after --name mine", "sleep 300", place=place))
    first = lab.submit(f"--export=ALL,{','.join(f'{n}={v}' for n, v in environ.items())}", str(script))
    lab.wait_for(lambda: len([row for row in lab.squeue() if row["name"] == "own"]) == 2)
    lab.wait_for(lambda: "next piece of mine: job" in (place / "own.log").read_text())
    assert f"Job {first} (asked for by hand) is running" in cronhpc("status", "mine")
    assert f"cancelled job {first} (own), ran " in cronhpc("kill", "mine")
    lab.wait_for(lambda: not any(row["name"] == "own" for row in lab.squeue()))
    assert "next piece of mine: job" in cronhpc("logs", "mine")


@pytest.mark.parametrize("way", ["wrap", "stdin"])
def test_a_job_without_a_script_is_told_so_and_its_payload_goes_on(
    way: str, lab: Lab, cluster_user_dir: Callable[..., Path]
) -> None:
    place = cluster_user_dir()
    text = f"{AGAIN.format(words='--every 1h')}; touch {place}/went-on"
    argv = ["--output", f"{place}/log", "--export", f"ALL,XDG_STATE_HOME={place}/state"]
    if way == "wrap":
        lab.submit(*argv, "--wrap", text)
    else:
        lab.submit(*argv, input=f"#!/bin/bash\n{text}\n")
    lab.wait_for((place / "went-on").exists)
    assert "there is no script to run again. Put it in a file." in (place / "log").read_text()


# --- killed at every call ------------------------------------------------------------------------------------------

AS_PIECE = """
import os, sys
os.environ["SLURM_JOB_ID"] = sys.argv.pop(1)
from cronhpc.cli import main
sys.exit(main(sys.argv[1:]))
"""


@dataclass
class Piece(Cron):
    """The first piece of a series, a job that only sleeps: its `again` is called from here, under strace."""

    job: str = ""
    name: str = ""

    def argv(self, *_: object) -> list[str]:
        """The call; it reads its own clock."""
        return [sys.executable, "-c", AS_PIECE, self.job, "again", "--every", "1h", "--dir", str(self.root)]

    def queued(self) -> list[str]:
        """The pieces that wait, and whether they are held."""
        rows = [row for row in self.lab.squeue() if row["name"] == self.name and row["id"] != self.job]
        return [f"{row['state']} {row['reason']}" for row in rows]


def test_killed_at_any_of_its_calls_and_called_once_more_there_is_one_next_piece(
    lab: Lab, cluster_user_dir: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """As when a node dies, and Slurm starts the piece anew."""

    def begun(name: str) -> Piece:
        place = cluster_user_dir()
        init(place / "cron", {})
        script = place / "piece.slurm"
        script.write_text(f"#!/bin/bash\n#SBATCH --job-name={name} --output=/dev/null\nsleep 600\n")
        return Piece(lab, place / "cron", 0, job=lab.submit(str(script)), name=name)

    def kill_records(row: tuple[int, Point]) -> tuple[str, list[str]]:
        piece = begun(f"walk{row[0]}")
        hit = strike(piece, row[1], 0)
        for _ in range(2):
            lab.run(piece.argv())
        lab.wait_for(lambda: "None" not in " ".join(piece.queued()))  # Slurm may take a moment to say why a job waits
        found = piece.queued()
        lab.run(["scancel", "--quiet", "--name", piece.name])
        return f"{row[1]} ({hit.call[:100]})" if hit.call else "", found

    points = points_of_a_tick(begun("walk"), "signal=KILL", f"{STATE},{PROCESS},{WAIT}")
    points = points if os.environ.get("CRONHPC_ALL_POINTS") else points[::2]
    lab.run(["scancel", "--quiet", "--name", "walk"])
    with ThreadPoolExecutor(3) as pool:
        walked = list(pool.map(kill_records, enumerate(points)))
    with capsys.disabled():
        sys.stdout.write(f"\n  again killed: {sum(bool(call) for call, _ in walked)} of {len(points)} points struck\n")
    assert sum(bool(call) for call, _ in walked) > 0.8 * len(points)
    assert [row for row in walked if row[1] != ["PENDING BeginTime"]] == []
