"""One cron directory, seen by three machines whose kernels keep for a minute what they know of names and files.

What one of them writes or removes, another that has looked before sees a minute later, but by listing the folder or
opening the file. The machines are mounts of one folder in namespaces of their own; the nodes' jobs run on them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cronhpc.store import memory
from tests.lab import conftest
from tests.lab.conftest import Lab
from tests.lab.helpers_cron import Cron, judge, make
from tests.lab.helpers_views import Machine, machines, node_on
from tests.lab.test_again import script_text
from tests.lab.test_chain import counts, submit_link

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.getuid() != 0, reason="mounts in namespaces of their own are root's to make"),
]

KEPT = 60  # seconds for which a machine keeps what it knows: no test lasts as long
STATE = ("entries.json", "environment.json", "cache.json", "lease", "logs.json", "daemon.json", "outbox.json")
SCHEDULER = ("started", "start.1", "stop.1", "start.2", "successor", "due", "on-slurm", "no-submit", "scheduler.log")
FILES = ("status.json", *(f"state/{name}" for name in STATE), *(f"scheduler/{name}" for name in SCHEDULER))
LOST = """import errno, os
_link = os.link
def link(*args, **more):
    _link(*args, **more)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))  # the reply was lost, and the call sent again
os.link = link
"""


@dataclass
class Site:
    """A lab of two nodes and a machine to log in; `place` is the folder that they share."""

    lab: Lab
    place: Path
    login: Machine
    cpu1: Machine
    cpu2: Machine

    def cronhpc(self, machine: Machine, cron: Cron, *words: str, codes: Iterable[int] = (0, 1)) -> str:
        """What a command printed there."""
        argv = machine.argv(sys.executable, "-m", "cronhpc", "--dir", cron.root, *words)
        done = self.lab.run(argv, check=False)
        assert done.returncode in codes, f"{machine.name}: {words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def popen(self, machine: Machine, *words: str | Path, **options: object) -> subprocess.Popen[str]:
        """A process there."""
        return self.lab.popen(machine.argv(*words), **options)  # type: ignore[arg-type]  # passed through

    def tick(self, machine: Machine, cron: Cron, after: int, **env: str) -> None:
        """A tick there, `after` seconds after the slot."""
        argv = cron.argv("tick", cron.slot + after)
        done = self.lab.run(machine.argv(*argv), check=False, env=env)
        assert done.returncode == 0, f"{machine.name}: {done.stdout}{done.stderr}"

    def look_for(self, machine: Machine, cron: Cron, names: Iterable[str] = FILES) -> None:
        """The machine has looked for these, and keeps what it was told of each: that there is none, for most."""
        program = "import os, sys; [os.path.lexists(name) for name in sys.argv[1:]]"
        self.lab.run(machine.argv(sys.executable, "-c", program, *(cron.root / name for name in names)))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Site]:
    """For all tests here."""
    with contextlib.ExitStack() as stack:
        top = Path(tempfile.mkdtemp(prefix="lab-user-"))
        stack.callback(shutil.rmtree, top, ignore_errors=True)
        top.chmod(0o755)
        place = top / "shared"
        place.mkdir()
        login, cpu1, cpu2 = stack.enter_context(machines(place, "login", "cpu1", "cpu2", seconds=KEPT))
        lab = conftest.start(nodes=2, gpu_nodes=0)
        stack.callback(conftest.stop, lab)
        for node in (cpu1, cpu2):
            stack.enter_context(node_on(lab, node))
        yield Site(lab, place, login, cpu1, cpu2)


@pytest.fixture
def site(cluster: Site) -> Site:
    """A folder of its own in the shared one: also a second try of a test finds nothing of the first."""
    place = cluster.place / os.urandom(3).hex()
    place.mkdir()
    return replace(cluster, place=place)


@pytest.fixture(autouse=True)
def tidy(site: Site) -> Iterator[None]:
    """Nothing is left in the queue for the next test."""
    yield
    site.lab.drain_queue()


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


# --- start and stop -------------------------------------------------------------------------------------------------


def test_start_and_stop_count_at_once_on_a_node_that_has_looked_before(site: Site) -> None:
    cron = make(
        site.lab, site.place / "chain", names="", started=False, settings="scheduler: {sbatch: {nodelist: cpu1}}\n"
    )
    log = cron.root / "scheduler" / "scheduler.log"

    def linked(number: int) -> Callable[[], bool]:
        """its link has run on the node, and left a successor and a spare; at the full hour one more does"""
        return lambda: text(log).count(": successor") >= number and not running() and counts(cron) == (1, 1)

    def running() -> list[str]:
        return [job["id"] for job in cron.jobs() if job["state"] != "PENDING"]

    site.look_for(site.cpu1, cron)
    assert "not started" in site.cronhpc(site.cpu1, cron, "status")
    site.cronhpc(site.login, cron, "start")
    site.lab.wait_for(linked(1))
    assert "gone" not in text(log), "the node knows that `start` was called"
    assert "chain   fine" in site.cronhpc(site.cpu1, cron, "status")
    site.cronhpc(site.login, cron, "stop")
    site.cronhpc(site.cpu1, cron, "tick")
    assert counts(cron) == (0, 0), "a tick there puts nothing back"
    site.lab.wait_ended(submit_link(cron, "--nodelist=cpu1"))
    assert "stopped (scheduler/stop.1 stands): no successor" in text(log)
    assert counts(cron) == (0, 0), "nor does a link that begins there"
    site.cronhpc(site.login, cron, "start")
    site.lab.wait_for(linked(2))


# --- slots ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [False, True], ids=["caches", "caches and lost replies"])
def test_two_ticks_on_two_machines_at_once_run_each_slot_once(site: Site, *, lost: bool) -> None:
    """Also where each link(2) of one is done and called refused."""
    cron = make(site.lab, site.place / f"ticks-{lost:d}", names="abc")
    env = {}
    if lost:
        (site.place / "sitecustomize.py").write_text(LOST)
        env = {"PYTHONPATH": str(site.place)}
    for machine in (site.cpu1, site.cpu2):
        site.look_for(machine, cron)
    with ThreadPoolExecutor() as pool:
        ticks = [pool.submit(site.tick, site.cpu1, cron, 10, **env), pool.submit(site.tick, site.cpu2, cron, 10)]
    for each in ticks:
        each.result()
    cron.wait_quiet()
    for after, machine in ((200, site.cpu1), (320, site.cpu2), (440, site.login)):
        site.tick(machine, cron, after)
        cron.wait_quiet()
    assert judge(cron, site.lab.squeue()) == []


def test_what_one_tick_records_another_that_began_before_does_not_undo(site: Site) -> None:
    """The second stands still where it asks the queue; a folder in the lease's place lets both go on."""
    cron = make(site.lab, site.place / "merged", names="a")
    site.tick(site.cpu1, cron, -7000)  # entries.json is there
    (cron.root / "state" / "lease").mkdir()
    slow = site.place / "slow"
    slow.mkdir()
    program = shutil.which("squeue")
    waits = f"touch {slow}/asked\nuntil ls {slow} | grep -qx go; do sleep 0.1; done"
    (slow / "squeue").write_text(f'#!/bin/sh\n{waits}\nexec {program} "$@"\n')
    (slow / "squeue").chmod(0o755)
    with ThreadPoolExecutor() as pool:
        stalled = pool.submit(site.tick, site.cpu2, cron, -6000, PATH=f"{slow}:{os.environ['PATH']}")
        site.lab.wait_for((slow / "asked").exists)
        site.tick(site.cpu1, cron, 10)
        cron.wait_quiet()
        site.tick(site.cpu1, cron, 200)  # the slot is used up once its run has ended
        (slow / "go").touch()
    stalled.result()
    assert memory.load(cron.root / "state" / "entries.json").entries["a"].watermark == cron.slot


# --- switches -------------------------------------------------------------------------------------------------------


def test_a_kill_switch_acts_on_another_machine_that_knew_of_none(site: Site) -> None:
    """By a tick there and by a guard there; and its removal counts there, too."""
    cron = make(site.lab, site.place / "kill", names="a", more="sleep 600")
    site.cronhpc(site.login, cron, "run", "a")
    site.lab.wait_for(lambda: [job["state"] for job in cron.runs()] == ["RUNNING"])
    switches = [cron.root / "kill" / name for name in ("a", "training")]
    site.look_for(site.cpu2, cron, [f"kill/{path.name}" for path in switches])
    ready = site.place / "ready"
    work = f"touch {ready}; sleep 600"
    words = ["guard", "--kill-switch", str(switches[1]), "--every", "1s", "--grace", "1s", "--", "sh", "-c", work]
    guard = site.popen(site.cpu2, sys.executable, "-m", "cronhpc", *words)
    try:
        site.lab.wait_for(ready.exists)
        site.lab.run(site.login.argv("touch", *switches))
        site.cronhpc(site.cpu2, cron, "tick")
        cron.wait_quiet()
        assert guard.wait(60) == 113
    finally:
        guard.kill()
        guard.communicate()
    assert "stopped by" in site.cronhpc(site.cpu2, cron, "status")
    site.lab.run(site.login.argv("rm", *switches))
    assert "submitted a as job" in site.cronhpc(site.cpu2, cron, "run", "a")


# --- settings, series, logs -----------------------------------------------------------------------------------------


def test_settings_edited_on_one_machine_are_not_forgotten_for_those_that_another_still_knows(site: Site) -> None:
    cron = make(site.lab, site.place / "settings", names="", started=False)
    row = 'backend: slurm\nentries: {{x: {{schedule: "0 {} * * *", command: "true"}}}}\n'
    edit = 'printf %s "$1" > "$2"'

    def schedule(machine: Machine) -> str:
        shown = json.loads(site.cronhpc(machine, cron, "status", "--json"))
        return str(shown["entries"][0]["schedule"])

    for hour, ticks_on in ((1, site.login), (2, site.cpu1), (3, site.cpu1)):
        site.lab.run(site.login.argv("sh", "-c", edit, "-", row.format(hour), cron.root / "cronhpc.yaml"))
        site.cronhpc(ticks_on, cron, "tick")
        assert schedule(site.login) == f"0 {hour} * * *"


def test_a_series_goes_on_from_node_to_node(site: Site) -> None:
    script = site.place / "series.slurm"
    words = f"--after --max-runs 4 --dir {site.place}/series"
    cron = make(site.lab, site.place / "series", names="", started=False)
    site.look_for(site.cpu1, cron, ["state/trains", "state/trains/series.json", "state/entries.json"])
    site.look_for(site.cpu2, cron, ["state/trains", "state/trains/series.json", "state/entries.json"])
    script.write_text(script_text("series", words, "echo $SLURMD_NODENAME >>nodes", place=site.place))
    site.lab.submit("--exclude=cpu2", str(script))

    def over() -> bool:
        """the fourth piece is the last"""
        return len(text(site.place / "nodes").split()) >= 4 and not site.lab.squeue()

    site.lab.wait_for(over, timeout=120)
    assert len(text(site.place / "series.pieces").split()) == 4, text(site.place / "series.log")
    assert "this is the last piece of series: run 4" in text(site.place / "series.log")


def test_logs_are_cleaned_on_one_machine_while_a_job_on_another_writes(site: Site) -> None:
    """The job's own log looks a month old here, as a stat of before it was written to does."""
    more = f"until ls {site.place} | grep -qx enough; do sleep 0.2; done; echo the last line"
    cron = make(site.lab, site.place / "logs", names="a", more=more, settings="logs: {keep: 1d}\n")
    site.cronhpc(site.cpu1, cron, "run", "a")
    site.lab.wait_for(lambda: [job["state"] for job in cron.runs()] == ["RUNNING"])
    folder = cron.root / "log" / "a"
    site.lab.wait_for(lambda: list(folder.glob("*.out")))
    (log,) = folder.glob("*.out")
    old = folder / "20250101T0000Z-1.out"
    old.touch()
    month = time.time() - 30 * 86400
    for path in (log, old):
        os.utime(path, (month, month))
    site.look_for(site.login, cron, [f"log/a/{path.name}" for path in (log, old)])
    site.cronhpc(site.login, cron, "clean")
    assert [path.name for path in folder.iterdir()] == [log.name]
    (site.place / "enough").touch()
    cron.wait_quiet()
    assert text(log).endswith("the last line\n")
