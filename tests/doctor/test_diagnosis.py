"""What doctor says of a disk, a machine, and the nodes that its probe ran on: tables of situations."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cronhpc.batch.port import BatchError, Refused, Submission, Unreachable
from cronhpc.core.model import Job, Problem, Queue, Settings
from cronhpc.core.model.site import Disk, Finding, Reach
from cronhpc.doctor import look
from cronhpc.doctor.judge import Beat, Here, Node, of_disk, of_files, of_machine, of_nodes, of_submission, of_trust
from tests.worlds import waits_for

GIB = 1 << 30
SHARED = Disk("/home/alice/cron", "nfs4", "/home", ("rw", "hard"), Reach.SHARED, 100 * GIB, 900 * GIB, 10**6, 10**7)
CRONTAB = Beat("crontab", usable=True)
HERE = Here(0o022, "alice", "alice", group_is_private=True, python="/py", tzdata="2025b", zone="UTC", beats=(CRONTAB,))
NODE = Node(
    "cpu1", "", "", "", clock=0, tzdata="2025b", umask=0o022, disk="", tried=(1, 2), created=(1, 2), linked=(1, 2)
)
REFUSED_BEAT = Beat("crontab", usable=False, detail="not allowed")
SILENT_BEAT = Beat("crontab", usable=None, detail="no answer")


def worst(found: list[Finding]) -> list[tuple[str, str]]:
    return [(each.level, each.topic) for each in found if each.level not in {"fine", "advice"}]


def test_what_a_node_found_is_read_as_far_as_it_is_of_its_kind() -> None:
    found = {"umask": 18, "tzdata": None, "tried": [1, 2], "created": 7, "disk": ["full"], "network": "no", "at": 5.5}
    assert look.node_of("cpu1", found) == Node("cpu1", "", umask=18, tried=(1, 2), network="no")
    assert look.node_of("cpu1", None) == Node("cpu1", "")


DISKS: dict[str, tuple[Disk, list[tuple[str, str]], str]] = {
    "a shared one": (SHARED, [], ", shared."),
    "read-only": (replace(SHARED, options=("ro",)), [("error", "disk")], "read-only"),
    "in memory": (replace(SHARED, kind="tmpfs", reach=Reach.MEMORY), [("error", "disk")], "gone after a restart"),
    "a local one": (replace(SHARED, kind="xfs", reach=Reach.LOCAL), [("warning", "disk")], "of this machine alone"),
    "one of a kind unheard of": (replace(SHARED, kind="", reach=Reach.UNKNOWN), [], "unknown kind"),
    "without locks": (replace(SHARED, options=("rw", "nolock")), [], "cronhpc takes no locks"),
    "mounted soft": (replace(SHARED, options=("rw", "soft", "nolock")), [], "writing fails instead of waiting"),
    "nearly full": (replace(SHARED, bytes_free=GIB), [("warning", "room")], "1.0 of 900 GB are free"),
    "full": (replace(SHARED, bytes_free=4096), [("error", "room")], "no bytes are free there: no tick can write"),
    "few inodes": (replace(SHARED, inodes_free=50), [("warning", "room")], "50 inodes are left"),
    "no inodes": (replace(SHARED, inodes_free=5), [("error", "room")], "no inodes are free there: no tick can write"),
    "no inodes, few bytes": (
        replace(SHARED, inodes_free=5, bytes_free=GIB // 2),
        [("error", "room")],
        "no inodes are free there",
    ),
    "no fixed number of inodes": (replace(SHARED, inodes_free=0, inodes_total=0), [], "shared"),
    "scratch": (replace(SHARED, purged="it lies under $SCRATCH"), [("warning", "purge")], "it lies under $SCRATCH"),
}


@pytest.mark.parametrize(("disk", "levels", "words"), DISKS.values(), ids=DISKS)
def test_of_a_disk_doctor_says(disk: Disk, levels: list[tuple[str, str]], words: str) -> None:
    found = list(of_disk(disk))
    assert worst(found) == levels
    assert any(words in each.what for each in found)


def test_a_local_disk_that_nodes_have_is_fine() -> None:
    assert worst(list(of_disk(replace(SHARED, reach=Reach.LOCAL), on_nodes=True))) == []


def test_a_local_disk_is_fine_where_runs_are_processes_of_this_machine() -> None:
    """It told to call `doctor --submit`, which tries nothing there; in memory it is still gone after a restart."""
    assert worst(list(of_disk(replace(SHARED, reach=Reach.LOCAL), alone=True))) == []
    assert worst(list(of_disk(replace(SHARED, reach=Reach.MEMORY), alone=True))) == [("error", "disk")]


def test_where_no_probe_job_is_run_none_is_advised() -> None:
    """On Grid Engine, PBS and LSF `doctor --submit` looks at a held job, and at no node: it told to call itself."""
    found = next(of_disk(replace(SHARED, reach=Reach.LOCAL), probes=False))
    assert str(found.fix) == "See whether a job finds it: ls -d /home/alice/cron"
    found = next(of_disk(replace(SHARED, reach=Reach.LOCAL, path="/home/alice b/cron"), probes=False))
    assert str(found.fix) == "See whether a job finds it: ls -d '/home/alice b/cron'"


MACHINES: dict[str, tuple[Here, list[tuple[str, str]], str]] = {
    "as it should be": (HERE, [], "could be crontab."),
    "a private group that may write": (
        replace(HERE, umask=0o002),
        [("warning", "umask")],
        "though you alone are in it",
    ),
    "a team's group that may write": (
        replace(HERE, umask=0o002, group="proj", group_is_private=False),
        [("warning", "umask")],
        "the group proj write",
    ),
    "everybody may write": (replace(HERE, umask=0o000), [("error", "umask")], "lets everybody write"),
    "no time zones": (replace(HERE, tzdata=""), [("error", "zones")], "only UTC"),
    "nothing from outside": (replace(HERE, beats=(REFUSED_BEAT,)), [], "crontab (not allowed)"),
    "nobody knows": (replace(HERE, beats=(SILENT_BEAT,)), [], "nothing here can call"),
}


@pytest.mark.parametrize(("here", "levels", "words"), MACHINES.values(), ids=MACHINES)
def test_of_a_machine_doctor_says(here: Here, levels: list[tuple[str, str]], words: str) -> None:
    found = list(of_machine(here, needs_network=False))
    assert worst(found) == levels
    assert any(words in each.what for each in found)


def test_a_private_group_can_be_trusted_by_a_setting() -> None:
    found = list(of_machine(replace(HERE, umask=0o002), needs_network=True))
    assert [each.settings for each in found if each.settings] == [(("trust.group", "alice"),)]
    assert any("--url" in each.fix for each in found)


NODES: dict[str, tuple[Node, list[tuple[str, str]], str]] = {
    "as it should be": (NODE, [], "may submit jobs and cancel them"),
    "it may not submit": (
        replace(NODE, submit="Access/permission denied"),
        [("error", "submit")],
        "may not submit jobs",
    ),
    "a limit": (replace(NODE, submit="error: QOSMaxSubmitJobPerUserLimit"), [("unknown", "submit")], "limit was met"),
    "a site's words": (replace(NODE, submit="error: too many jobs"), [("unknown", "submit")], "limit was met"),
    "it may not cancel": (replace(NODE, cancel="denied"), [("warning", "submit")], "could not cancel"),
    "no interpreter": (replace(NODE, python="No such file"), [("error", "python")], "cannot run /py: No such file"),
    "a slow clock": (replace(NODE, clock=-30), [("warning", "clock")], "30 s behind the controller's"),
    "a clock of another time": (replace(NODE, clock=4000), [("error", "clock")], "4000 s ahead of"),
    "other time zones": (replace(NODE, tzdata="2019a"), [("warning", "zones")], "tzdata 2019a, this machine 2025b"),
    "another umask": (replace(NODE, umask=0o002), [], "cpu1 has umask 002, this machine 022"),
    "no way out": (replace(NODE, network="timed out"), [("warning", "network")], "cannot be reached from cpu1"),
    "a way out": (replace(NODE, network=""), [], "can be reached from cpu1"),
    "nothing was tried there": (Node("cpu2"), [], ""),
}


@pytest.mark.parametrize(("node", "levels", "words"), NODES.values(), ids=NODES)
def test_of_a_node_doctor_says(node: Node, levels: list[tuple[str, str]], words: str) -> None:
    found = list(of_nodes([node], HERE))
    assert worst(found) == levels
    assert any(words in each.what for each in found) or not words


def test_where_nodes_may_not_submit_the_way_that_is_here_is_named() -> None:
    refused = [replace(NODE, submit="denied")]
    for beats, words in (
        ((CRONTAB,), "let crontab call"),
        ((Beat("scrontab", usable=True), CRONTAB), "let crontab call"),
        ((Beat("scrontab", usable=True),), "let the login hook call"),
    ):
        (found,) = (each for each in of_nodes(refused, replace(HERE, beats=beats)) if each.topic == "submit")
        assert "cronhpc start --via login" in found.fix
        assert words in found.fix


LOSER = replace(NODE, name="cpu2", created=(), linked=())
RACES: dict[str, tuple[list[Node], list[tuple[str, str]]]] = {
    "one winner": ([NODE, LOSER], []),
    "winners of one race each": ([replace(NODE, linked=(1,)), replace(LOSER, created=(), linked=(2,))], []),
    "two create the same file once": ([NODE, replace(LOSER, created=(2,))], [("error", "files")]),
    "two link the same file once": ([NODE, replace(LOSER, linked=(1,))], [("error", "files")]),
    "two that never tried the same name": (
        [NODE, replace(NODE, name="cpu2", tried=(3,), created=(3,), linked=(3,))],
        [("unknown", "files")],
    ),
    "nobody can create one": ([LOSER], [("error", "files")]),
    "one does not see the folder": ([NODE, replace(LOSER, disk="No such file or directory")], [("error", "files")]),
    "nobody looked": ([Node("cpu1")], []),
}


@pytest.mark.parametrize(("nodes", "levels"), RACES.values(), ids=RACES)
def test_of_all_that_race_for_a_file_one_wins(nodes: list[Node], levels: list[tuple[str, str]]) -> None:
    assert worst(list(of_files(nodes))) == levels


def test_trust_has_its_own_words() -> None:
    problem = Problem("E404", "/proj can be written by everyone.", "chmod o-w /proj")
    assert worst(list(of_trust(problem, None))) == [("error", "trust")]
    assert worst(list(of_trust(None, problem))) == [("warning", "trust")]
    assert worst(list(of_trust(None, None))) == []


KEPT = Job("7", "PENDING", "cronhpc-doctor-held", "cronhpc-doctor=a1", start=5000, **waits_for("JobHeldUser"))
SITES: dict[str, tuple[Job | None, list[tuple[str, str]], str]] = {
    "all is kept": (KEPT, [], "keeps a job's hold, time to begin, comment and name"),
    "the comment is replaced": (replace(KEPT, comment="proj=x"), [("warning", "options")], "replaces a job's comment"),
    "the comment gets a prefix": (replace(KEPT, comment="x cronhpc-doctor=a1"), [], "adds to a job's comment"),
    "the name is changed": (replace(KEPT, name="x"), [("warning", "options")], "changes a job's name"),
    "--hold is dropped": (replace(KEPT, **waits_for("BeginTime")), [("error", "options")], "drops a job's hold"),
    "--begin is dropped": (replace(KEPT, start=None), [("warning", "options")], "drops when a job is to begin"),
    "--begin is brought forward": (replace(KEPT, start=1400), [("warning", "options")], "drops when a job is to begin"),
    "--hold and --begin are": (
        replace(KEPT, state="RUNNING", **waits_for("None"), start=1400),
        [("error", "options"), ("warning", "options")],
        "drops when a job is to begin",
    ),
    "it is not in the queue": (None, [("unknown", "options")], "not in the queue"),
}


@pytest.mark.parametrize(("seen", "levels", "words"), SITES.values(), ids=SITES)
def test_what_a_site_makes_of_a_submission(seen: Job | None, levels: list[tuple[str, str]], words: str) -> None:
    found = list(of_submission(seen, name="cronhpc-doctor-held", comment="cronhpc-doctor=a1", begin=5000))
    assert worst(found) == levels
    assert any(words in each.what for each in found)


class Cached:
    """A batch system whose list of jobs is older than the last submission."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.cancelled: list[str] = []

    def tools(self) -> str:
        return "/bin"

    def submit(self, job: Submission) -> str:
        assert job.held
        return "7"

    def queue(self) -> Queue:
        self.looks -= 1
        return Queue((Job("7", "PENDING"),) if self.looks < 0 else ())

    def cancel(self, job_ids: list[str]) -> None:
        self.cancelled += job_ids


@pytest.mark.parametrize(
    ("looks", "found"),
    [
        pytest.param(0, True, id="listed at once"),
        pytest.param(3, True, id="the list is cached for a while"),
        pytest.param(1000, False, id="never listed"),
    ],
)
def test_a_held_job_is_looked_for_as_long_as_sites_cache_their_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: int, *, found: bool
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(look, "elapsed", lambda: sum(waited))
    monkeypatch.setattr("time.sleep", waited.append)
    batch = Cached(looks)
    with look.ProbeJob(batch, tmp_path, "python", ()) as job:  # type: ignore[arg-type] # what it asks for is there
        assert (job.read_back(0)[1] is not None) is found
    assert batch.cancelled == ["7"]


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (Unreachable("sbatch: error: Socket timed out on send/recv operation"), "unknown"),
        (Refused("sbatch: error: invalid partition specified: nosuch"), "error"),
    ],
)
def test_a_probe_job_whose_reply_was_lost_is_not_told_as_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BatchError, level: str
) -> None:
    def submit() -> None:
        raise error

    job = SimpleNamespace(folder=tmp_path, submit=submit)
    monkeypatch.setattr(look, "ProbeJob", lambda *_: nullcontext(job))
    monkeypatch.setattr(look, "_connected", lambda *_: None)
    monkeypatch.setattr(look, "existing", lambda *_: SimpleNamespace(state=tmp_path))
    monkeypatch.setattr("cronhpc.inside.probe.Racer", lambda *_: SimpleNamespace(look=lambda _: None))
    asked: Any = SimpleNamespace(root=tmp_path, environ={}, url="", timeout=1)
    here: Any = SimpleNamespace(python="python")
    [found] = look._nodes(asked, Settings(), here, int)
    assert (found.level, found.topic) == (level, "submit")
