"""The daemon: what wakes it, what ends it, and what it survives. On the local backend, on this disk."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import json
import os
import shutil
import signal
import subprocess  # noqa: TID251 - signals and threads of a daemon need a process of its own
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cronhpc.core.model import Call, ClaimState, Done, Outcome, Settings, SwitchSetting
from cronhpc.core.plan import plan
from cronhpc.drivers.daemon import Bell, Daemon, Place, Watch, watched
from cronhpc.engine import init
from cronhpc.engine.site import Site, open_site
from cronhpc.store import disk, history
from cronhpc.store.files import Paths
from cronhpc.tick import Report, tick
from tests import worlds

# Seconds, on a machine that has other things to do as well. What is not seen at once waits half a minute for the next
# look at the queue, an end that waits for a command a whole one. tests/bench/bench_switches.py has the true figures.
AT_ONCE, ENDED = 10, 1
REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def bell() -> Iterator[Bell]:
    made = Bell()
    yield made
    made.close()


# --- which file systems --------------------------------------------------------------------------------------------


def test_only_local_disks_have_events_and_what_nobody_knows_is_polled() -> None:
    shared = {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "afs", "panfs", "fuse.sshfs", "9p", ""}
    assert {disk.reach(kind) for kind in shared} == {"shared", "unknown"}


# --- the watch -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def watching(bell: Bell, *places: Place, poll: bool = False) -> Iterator[Watch]:
    made = Watch(places, bell, poll=poll)
    try:
        yield made
    finally:
        made.stop()


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file is made": lambda folder: (folder / "x").touch(),
    "a link is made": lambda folder: (folder / "x").symlink_to("/nowhere"),
    "a folder is made": lambda folder: (folder / "x").mkdir(),
    "a fifo is made": lambda folder: os.mkfifo(folder / "x"),
    "a file goes": lambda folder: (folder / "old").unlink(),
    "a file is moved in": lambda folder: (folder.parent / "new").rename(folder / "x"),
    "a file is moved out": lambda folder: (folder / "old").rename(folder.parent / "gone"),
    "a file is written": lambda folder: (folder / "old").write_text("more"),
    "a name that is no text": lambda folder: os.close(os.open(os.fsencode(folder) + b"/\xff", os.O_CREAT)),
}


@pytest.mark.parametrize("poll", [False, True], ids=["events", "polling"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_rings(tmp_path: Path, bell: Bell, change: Callable[[Path], object], poll: bool) -> None:  # noqa: FBT001 - a table
    folder = tmp_path / "kill"
    folder.mkdir()
    (folder / "old").touch()
    (tmp_path / "new").touch()
    with watching(bell, Place(folder, 0.05, urgent=True), poll=poll):
        time.sleep(0.1 if poll else 0)
        assert not bell.wait(0)
        change(folder)
        assert bell.wait(90)
        assert bell.urgent


@pytest.mark.parametrize("poll", [False, True], ids=["events", "polling"])
def test_a_folder_swapped_by_rename_or_made_again_is_noticed(tmp_path: Path, bell: Bell, poll: bool) -> None:  # noqa: FBT001 - a table
    folder, other = tmp_path / "kill", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    with watching(bell, Place(folder, 0.05), poll=poll) as made:
        assert made.healthy()
        folder.rename(tmp_path / "away")
        assert not made.healthy()
        other.rename(folder)
        assert not made.healthy()
    with watching(bell, Place(folder, 0.05), poll=poll) as made:
        assert made.healthy()
        bell.still()
        (folder / "x").touch()
        assert bell.wait(90)
        shutil.rmtree(folder)
        folder.mkdir()  # perhaps with the inode of the old one: by polling nothing has changed then
        time.sleep(0.2)
        again = contextlib.nullcontext() if made.healthy() else watching(bell, Place(folder, 0.05), poll=poll)
        with again:
            bell.still()
            (folder / "x").touch()
            assert bell.wait(90)


def test_a_folder_that_is_not_there_yet_is_noticed_when_it_comes(tmp_path: Path, bell: Bell) -> None:
    with watching(bell, Place(tmp_path / "kill")) as made:
        assert made.healthy()
        (tmp_path / "kill").mkdir()
        assert not made.healthy()


def test_an_observer_that_died_is_noticed(tmp_path: Path, bell: Bell) -> None:
    with watching(bell, Place(tmp_path)) as made:
        for emitter in made._observers[0].emitters:
            emitter.stop()
            emitter.join(5)
        assert not made.healthy()


def test_a_switch_that_a_stat_does_not_show_yet_rings_where_its_folder_is_polled(
    tmp_path: Path, bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was removed here within the last minute, say, and set again on another machine."""
    lstat = os.lstat

    def late(path: str) -> os.stat_result:
        if os.fspath(path).endswith("/again"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return lstat(path)

    monkeypatch.setattr(os, "lstat", late)
    with watching(bell, Place(tmp_path, 60.0, urgent=True), poll=True) as made:
        (tmp_path / "again").touch()
        assert made.healthy()
        assert (bell.wait(0), bell.urgent) == (True, True)


def test_a_single_file_of_a_polled_folder_is_looked_at_alone(tmp_path: Path, bell: Bell) -> None:
    """The folder that a training program's switch lies in may hold a hundred thousand others."""
    with watching(bell, Place(tmp_path, names=frozenset({"switch"}), urgent=True), poll=True) as made:
        assert made._observers == []
        (tmp_path / "other").touch()
        assert made.healthy()
        assert not bell.wait(0)
        (tmp_path / "switch").touch()
        assert made.healthy()
        assert bell.wait(0)
        bell.still()
        assert made.healthy()
        assert not bell.wait(0)


def test_where_there_are_no_more_events_to_be_had_folders_are_polled(
    tmp_path: Path, bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    from watchdog.observers import Observer

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(Observer, "schedule", full)
    with watching(bell, Place(tmp_path, 0.05)) as made:
        (tmp_path / "x").touch()
        assert bell.wait(90)
        assert made.healthy()


def threads_and_descriptors() -> tuple[int, int]:
    return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.thorough
@pytest.mark.parametrize(("poll", "times"), [(False, 1000), (True, 100)], ids=["events", "polling"])
def test_cycles_leak_no_thread_and_no_descriptor(tmp_path: Path, bell: Bell, poll: bool, times: int) -> None:  # noqa: FBT001 - a table
    Watch([Place(tmp_path)], bell, poll=poll).stop()
    before = threads_and_descriptors()
    for _ in range(times):
        Watch([Place(tmp_path)], bell, poll=poll).stop()
    assert threads_and_descriptors() == before


def test_a_bell_rung_by_many_threads_is_heard_once_and_holds_nobody_up(bell: Bell) -> None:
    def rings() -> None:
        for _ in range(20_000):
            bell.ring()

    ringers = [threading.Thread(target=rings) for _ in range(5)]
    for each in ringers:
        each.start()
    for each in ringers:
        each.join(10)
    assert bell.wait(0)
    bell.still()
    assert not bell.wait(0)


# --- what is watched -----------------------------------------------------------------------------------------------


def test_what_is_watched(tmp_path: Path) -> None:
    init.init(tmp_path / "cron", {"backend": "local"})
    rows = (
        SwitchSetting("a", jobs="a*", file=f"{tmp_path}/polled/a"),
        SwitchSetting("b", jobs="b*", file=f"{tmp_path}/polled/b"),
    )
    places = watched(Paths(tmp_path / "cron"), Settings(kill_also=("/proj/kill",), switches=rows))
    known = {str(p.path).replace(str(tmp_path), ""): (p.urgent, sorted(p.names)) for p in places}
    assert known["/cron/kill"] == known["/cron/pause"] == known["/proj/kill"] == (True, [])
    assert known["/polled"] == (True, ["a", "b"])
    assert known["/cron/cron.daily"] == known["/cron/cron.d"] == (False, [])
    assert "status.json" not in known["/cron"][1]
    assert {"cronhpc.yaml", "kill", "cron.d"} <= set(known["/cron"][1])
    assert known["/cron/scheduler"] == (False, ["stop", "stop.0"])


def test_neither_a_tick_nor_reading_rings(root: Path, bell: Bell) -> None:
    """Else each tick would be the cause of the next: it reads every script, and writes status.json."""
    (root / "cron.daily" / "a.slurm").write_text("#!/bin/bash\ntrue\n")
    site = opened(root)
    with watching(bell, *watched(site.paths, site.settings)):
        assert isinstance(tick(site, clock()), Report)
        list(root.iterdir())
        assert not bell.wait(0.7)
        (root / "kill").rename(root / "gone")
        assert bell.wait(90)


WAKES = {  # by when the tick began and ended (the slot is at 14:00), and after how many seconds the next is wanted
    "the slot is to come": ("13:59:30", 0.5, 29.5),
    "it comes while the tick works": ("13:59:58", 3.5, 0.05),
    "it has come, and has run": ("14:00:02", 1.0, 3597.0),
}


@pytest.mark.parametrize(("began", "took", "after"), WAKES.values(), ids=WAKES)
def test_the_next_tick_comes_with_the_next_slot(began: str, took: float, after: float) -> None:
    site = worlds.world(began, worlds.entry(schedule="0 14 * * *"), states={"e": worlds.state("2026-11-26 14:00")})
    if began > "14":
        site = replace(site, states={"e": worlds.state("14:00")})
    daemon = Daemon(lambda: pytest.fail("not opened"), lambda: site.now + took, lambda _: None)
    report = Report(site, plan(site), ())
    assert daemon._wanted(report) == pytest.approx(after)
    daemon.bell.close()


RETRIES = {  # when the run ended that this tick saw, the delay, and after how many seconds the next tick is wanted
    "it is due within the half minute": ("14:00:05", 35, 9.5),
    "it is due already": ("14:00:05", 20, 0.05),
}


@pytest.mark.parametrize(("ended", "delay", "after"), RETRIES.values(), ids=RETRIES)
def test_a_further_attempt_comes_when_its_delay_is_over(ended: str, delay: int, after: float) -> None:
    """Also that of a run whose end the tick has just found: it waits for no look at the queue."""
    of = worlds.key("e", "14:00")
    failed = worlds.job(7, "FAILED", of=of, ended=worlds.at(ended))
    site = worlds.world(
        "14:00:30",
        worlds.entry(retries=1, retry_delay=delay),
        jobs=(failed,),
        states={"e": worlds.state("14:00")},
        claims=(worlds.claim("e", "14:00", ClaimState.RELEASED, "7"),),
    )
    planned = plan(site)
    daemon = Daemon(lambda: pytest.fail("not opened"), lambda: site.now + 0.5, lambda _: None)
    report = Report(site, planned, tuple(Outcome(each, Done.OK) for each in planned.decisions))
    assert daemon._wanted(report) == pytest.approx(after)
    daemon.bell.close()


def test_the_next_tick_after_a_lost_reply_comes_in_two_minutes() -> None:
    site = worlds.world("14:00:02", worlds.entry(schedule="0 14 * * *"), states={"e": worlds.state("2026-11-26 14:00")})
    daemon = Daemon(lambda: pytest.fail("not opened"), lambda: site.now, lambda _: None)
    report = Report(site, plan(site), (), unreachable="Socket timed out on send/recv operation")
    assert daemon._wanted(report) == 120
    daemon.bell.close()


# --- the daemon itself ---------------------------------------------------------------------------------------------


@dataclass
class DaemonProcess:
    """A daemon of its own, over a cron directory on the local backend."""

    root: Path
    process: subprocess.Popen[str]
    log: Path

    def said(self, event: str, **facts: str) -> bool:
        """Whether its log has such a line."""
        rows = [json.loads(row) for row in self.log.read_text(encoding="utf-8").splitlines() if row.startswith("{")]
        return any(
            row["event"] == event and all(row.get(name) == value for name, value in facts.items()) for row in rows
        )

    def ticked(self) -> int:
        """The instant of its last tick, in nanoseconds."""
        return (self.root / "status.json").stat().st_mtime_ns

    def wait(self, what: Callable[[], object], seconds: float = 60) -> float:
        """Seconds until it is so."""
        began = time.monotonic()
        while not what():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() - began < seconds, self.log.read_text()
            time.sleep(0.02)
        return time.monotonic() - began

    def stops(self, job: str) -> float:
        """Seconds until the switch of `work` has ended that run."""
        took = self.wait(lambda: self.said("stop", switch="work"))
        self.wait(lambda: not lives(self.root, job))
        return took


WORK = "backend: local\nentries:\n  work: {schedule: 0 0 1 1 *, command: sleep 300}\n"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "cron"
    init.init(made, {})
    (made / "cronhpc.yaml").write_text(WORK)
    yield made
    (made / "cronhpc.yaml").write_text(WORK)
    batch = opened(made).batch
    batch.cancel([job.id for job in batch.queue().jobs if job.live])


def environment(root: Path) -> dict[str, str]:
    return {"HOME": str(root.parent), "PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "TZ": "UTC"}


def opened(root: Path) -> Site:
    return open_site(str(root), "local", environment(root))


def clock() -> int:
    return int(time.time())  # noqa: TID251 - the daemon under test reads this clock, too


def running(root: Path) -> str:
    """A run of `work`; its job id."""
    report = tick(opened(root), clock(), Call(only="work"))
    assert isinstance(report, Report)
    [job] = [outcome.job_id for outcome in report.outcomes if outcome.job_id]
    return job


def lives(root: Path, job: str) -> bool:
    return any(each.id == job and each.live for each in opened(root).batch.queue().jobs)


DRIVER = """
import os, sys, time
from cronhpc.drivers import daemon
from cronhpc.cli import engine
from cronhpc.cli.console import Console
from cronhpc.drivers import daemon
from cronhpc.engine.site import open_site
root, ahead, daemon.SWITCH_POLL, daemon._ENDING = sys.argv[1], float(sys.argv[2]), 0.5, 0.5
def tell(said):
    if isinstance(said, Exception):
        print(said)
    elif isinstance(said, daemon.Report):
        engine.report(said, Console.here(), "UTC")
    sys.stdout.flush()
def site():
    return open_site(root, None, os.environ)
def clock():
    return time.time() + ahead
daemon.Daemon(site, clock, tell, poll="--poll" in sys.argv).run()
"""


@contextlib.contextmanager
def running_daemon(
    root: Path, *words: str, ahead: float = 0.0, env: dict[str, str] | None = None
) -> Iterator[DaemonProcess]:
    """`ahead`: by so many seconds its clock is. Polling is quick, where it is asked for."""
    log = root.parent / f"daemon-{time.monotonic_ns()}.log"
    before = (root / "status.json").stat().st_mtime_ns if (root / "status.json").exists() else 0
    argv = [sys.executable, "-c", DRIVER, str(root), str(ahead), *words]
    with log.open("w") as file:
        process = subprocess.Popen(argv, env=env or environment(root), stdout=file, stderr=file, text=True)
    made = DaemonProcess(root, process, log)
    try:
        if env is None:
            made.wait(lambda: (root / "status.json").exists() and made.ticked() > before)
        yield made
    finally:
        process.kill()
        process.wait(60)


@pytest.mark.processes
def test_a_switch_is_seen_at_once_and_the_run_told_from_a_failed_one(root: Path) -> None:
    job = running(root)
    with running_daemon(root) as daemon:
        (root / "kill" / "work").write_text("loss spikes")
        assert daemon.stops(job) < 5
        daemon.wait(lambda: [row for row in history.rows(root / "state" / "history") if row.get("result") == "killed"])
        [row] = [row for row in history.rows(root / "state" / "history") if row.get("what") == "run"]
        assert "kill/work, by" in row["detail"]
        assert "loss spikes" in row["detail"]


@pytest.mark.processes
def test_a_new_script_is_found_when_it_is_dropped(root: Path) -> None:
    with running_daemon(root) as daemon:
        (root / "cron.daily" / "new.slurm").write_text("#!/bin/bash\ntrue\n")
        daemon.wait(lambda: "new.slurm" in (root / "status.json").read_text())


def until_a_minute(seconds: float = 3) -> float:
    """By how much a clock has to be ahead for a full minute to come in so many seconds, and none in between."""
    if (left := 60 - time.time() % 60) <= seconds + 1:  # noqa: TID251 - as for `clock`
        time.sleep(left)
    return 60 - (time.time() + seconds) % 60  # noqa: TID251 - as for `clock`


@pytest.mark.processes
def test_beside_each_other_two_run_due_slots_once_and_at_their_second(root: Path) -> None:
    names = [f"e{number}" for number in range(8)]
    ran = 'echo "$CRONHPC_SLOT" $(date +%s.%N) >> $CRONHPC_DIR/ran-$CRONHPC_ENTRY'
    rows = [f"  {name}: {{schedule: '* * * * *', command: '{ran}'}}\n" for name in names]
    ahead = until_a_minute()
    (root / "cronhpc.yaml").write_text("backend: local\nentries:\n" + "".join(rows))
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            daemon = stack.enter_context(running_daemon(root, ahead=ahead))
        daemon.wait(lambda: len(list(root.glob("ran-*"))) == len(names), 130)  # two minutes, where it started late
        time.sleep(0.5)
    lines = [path.read_text().split() for path in root.glob("ran-*")]
    assert [len(words) for words in lines] == [2] * len(names)
    late = [float(at) + ahead - dt.datetime.fromisoformat(slot).timestamp() for slot, at in lines]
    assert all(0 <= each < 60 for each in late), late  # in its minute: a daemon that starts late still finds it due


def ends(daemon: DaemonProcess) -> float:
    """Seconds from SIGTERM to its end."""
    began = time.monotonic()
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(60) == 0
    return time.monotonic() - began


@pytest.mark.processes
def test_sigterm_ends_it_within_a_second(root: Path) -> None:
    with running_daemon(root) as daemon:
        assert ends(daemon) < ENDED
    assert not (root / "state" / "lease").exists()


@pytest.mark.processes
def test_and_so_it_does_under_a_batch_system_that_does_not_answer(root: Path) -> None:
    """Mid-tick: what it leaves is claimed, and its lease is that of a process that is gone."""
    tools = root.parent / "bin"
    tools.mkdir()
    for name in ("sbatch", "squeue", "scontrol", "scancel", "sacct"):
        (tools / name).write_text("#!/bin/sh\nexec sleep 60\n")
        (tools / name).chmod(0o755)
    (root / "cronhpc.yaml").write_text("backend: slurm\n")
    with running_daemon(root, env={**environment(root), "PATH": f"{tools}:{os.environ['PATH']}"}) as daemon:
        daemon.wait((root / "state" / "lease").exists)
        time.sleep(0.3)
        assert ends(daemon) < ENDED
    (root / "cronhpc.yaml").write_text(WORK)
    assert isinstance(tick(opened(root), clock()), Report)
    assert not (root / "state" / "lease").exists()


@pytest.mark.processes
def test_a_log_on_a_full_disk_ends_it_not(root: Path) -> None:
    (root / "cronhpc.yaml").write_text(WORK.replace("0 0 1 1 *", "'* * * * *'").replace("sleep 300", "'true'"))
    (root / "kill" / "work").touch()  # told of at the first tick
    argv = [sys.executable, "-m", "cronhpc", "daemon", "--dir", str(root)]
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(argv, env=environment(root), stdout=full, stderr=full, text=True)
    try:
        daemon = DaemonProcess(root, process, Path("/dev/null"))
        daemon.wait((root / "status.json").exists)
        told = daemon.ticked()
        process.send_signal(signal.SIGHUP)
        daemon.wait(lambda: daemon.ticked() > told)
        assert json.loads((root / "status.json").read_text())["chain"]["by_daemon"]
    finally:
        process.kill()
        process.wait(60)


@pytest.mark.processes
def test_settings_that_cannot_be_used_are_said_once_and_switches_go_on_acting(root: Path) -> None:
    job = running(root)
    with running_daemon(root) as daemon:
        (root / "cronhpc.yaml").write_text("schedular: 1\n")
        daemon.wait(lambda: "schedular" in daemon.log.read_text())
        (root / "kill" / "work").touch()
        daemon.wait(lambda: daemon.said("stop", switch="work"))
        assert daemon.log.read_text().count("schedular") == 1
        (root / "cronhpc.yaml").write_text(WORK)
        daemon.stops(job)


def swapped(kill: Path) -> None:
    kill.with_name("kill2").mkdir()
    kill.rename(kill.with_name("kill3"))
    kill.with_name("kill2").rename(kill)


def made_again(kill: Path) -> None:
    kill.rmdir()
    kill.mkdir()


def linked(kill: Path) -> None:
    kill.rename(kill.with_name("kill2"))
    kill.symlink_to("kill2")


SWAPS = {"swapped by rename": swapped, "removed and made again": made_again, "replaced by a link": linked}


@pytest.mark.processes
@pytest.mark.parametrize("swap", SWAPS.values(), ids=SWAPS)
@pytest.mark.parametrize("how", [(), ("--poll",)], ids=["events", "polling"])
def test_a_switch_folder_that_was_exchanged_is_still_seen(
    root: Path, swap: Callable[[Path], None], how: tuple[str, ...]
) -> None:
    job = running(root)
    with running_daemon(root, *how) as daemon:
        swap(root / "kill")
        time.sleep(0.2)
        (root / "kill" / "work").touch()
        assert daemon.stops(job) < AT_ONCE


@pytest.mark.processes
def test_ten_thousand_events_in_a_second_hide_no_switch_and_keep_no_core_busy(root: Path) -> None:
    job = running(root)
    with running_daemon(root) as daemon:
        for number in range(5_000):  # each is several events
            path = root / "cron.d" / f"x{number % 50}~"
            path.touch()
            path.unlink()
        (root / "kill" / "work").touch()
        assert daemon.stops(job) < AT_ONCE
