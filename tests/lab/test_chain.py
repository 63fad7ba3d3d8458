"""Promise 2 on a real Slurm: the chain neither dies nor forks, and an administrator's word stands."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cronhpc.core.model import Key, link_names
from tests.batch.test_scrontab import FAKE as SCRONTAB
from tests.lab.conftest import Lab, MakeLab
from tests.lab.helpers_cron import Cron, Expected, finish, judge, make, mark_started
from tests.lab.helpers_days import unhurried
from tests.lab.helpers_team import LIBRARIES, PYTHON

pytestmark = pytest.mark.lab

USER = "alice" if os.getuid() == 0 else None
HOUR = 3600
MINUTE = 60


@pytest.fixture
def cron(lab: Lab, cluster_user_dir: Callable[..., Path]) -> Cron:
    """A chain that is wanted, and no job of it yet; no entries."""
    return make(lab, cluster_user_dir() / "cron", names="")


def now_in(lab: Lab) -> int:
    """The lab's own clock."""
    return int(lab.run(["date", "+%s"]).stdout)


def counts(cron: Cron) -> tuple[int, int]:
    """Pending links and spares."""
    return len(cron.links()), len(cron.links("spare"))


def quiet(cron: Cron) -> bool:
    """No link runs, or is about to, and there are some."""
    jobs = cron.jobs()
    return bool(jobs) and all(job["state"] == "PENDING" and job["reason"] == "BeginTime" for job in jobs)


def starts(cron: Cron) -> list[int]:
    """When its pending links begin, epoch."""
    asked = cron.lab.run(
        ["squeue", "-h", "-n", link_names(cron.id)[0], "-t", "PENDING", "-o", "%S"], env={"SLURM_TIME_FORMAT": "%s"}
    )
    return [int(word) for word in asked.stdout.split()]


def submit_link(cron: Cron, *options: str, slot: int = 0, kind: str = "link", script: Path | None = None) -> str:
    """A link as its predecessor, or a tick, submits it."""
    path = script or cron.root / "scheduler" / "scheduler.slurm"
    mark = re.search(r"^fingerprint=(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert mark
    name = link_names(cron.id)[0 if kind == "link" else 1]
    return cron.lab.submit(
        f"--job-name={name}",
        f"--comment=cronhpc={cron.id}/{kind} {slot} {mark[1]}",
        f"--output={cron.root}/scheduler/scheduler.log",
        "--open-mode=append",
        "--no-requeue",
        *options,
        str(path),
        str(slot),
        kind,
        user=cron.user,
    )


def with_tick(cron: Cron, command: str) -> None:
    """The link's text with another command in the tick's place."""
    path = cron.root / "scheduler" / "scheduler.slurm"
    text, found = re.subn(
        r"^.*-m cronhpc .* --link .*$", command.replace("\\", r"\\"), path.read_text("utf-8"), flags=re.MULTILINE
    )
    assert found == 1
    path.write_text(text, encoding="utf-8")


# --- start and stop -------------------------------------------------------------------------------------------------


def test_start_twice_is_one_chain(cron: Cron) -> None:
    cron.drive("start", now_in(cron.lab))
    cron.lab.wait_for(lambda: quiet(cron))
    before = sorted(job["id"] for job in cron.jobs())
    cron.drive("start", now_in(cron.lab))
    assert counts(cron) == (1, 1)
    assert sorted(job["id"] for job in cron.jobs()) == before


def test_a_repair_from_a_crontab_whose_path_has_no_sbatch_is_one_on_slurm(cron: Cron) -> None:
    """It made the directory a local one, for good: runs on the login node, beside those that Slurm had."""
    cron.drive("start", now_in(cron.lab))
    cron.lab.wait_for(lambda: quiet(cron))
    cron.drive("tick", now_in(cron.lab))
    saved = cron.root / "state" / "environment.json"
    before = saved.read_text()
    poor = {"PATH": "/usr/local/bin"}
    command = [sys.executable, "-m", "cronhpc", "start", "--dir", str(cron.root)]
    for repair in (["--if-stale"], []):
        cron.lab.run(["scancel", *(job["id"] for job in cron.jobs())])
        cron.lab.wait_for(lambda: not cron.jobs())
        os.utime(cron.root / "scheduler" / "due", (0, 0))
        status = cron.root / "status.json"
        status.write_text(re.sub(r'"last_tick": *"[^"]*"', '"last_tick":"2020-01-01T00:00:00Z"', status.read_text()))
        cron.lab.run([*command, *repair], env=poor)
        cron.lab.wait_for(lambda: quiet(cron))
        assert counts(cron) == (1, 1), repair
        if repair:
            assert saved.read_text() == before
    assert "/usr/bin" in json.loads(saved.read_text())["environment"]["PATH"].split(":")
    saved.unlink()
    shown = cron.lab.run([*command[:3], "status", "--json", "--dir", str(cron.root)], env=poor, check=False)
    assert json.loads(shown.stdout)["batch"]["name"] == "slurm"


def test_right_after_a_scancel_of_everything_a_login_brings_the_chain_back(cron: Cron) -> None:
    start = [sys.executable, "-m", "cronhpc", "start", "--dir", str(cron.root)]
    cron.lab.run(start)
    cron.lab.wait_for(lambda: quiet(cron))
    before = {job["id"] for job in cron.jobs()}
    assert cron.lab.run([*start, "--if-stale"]).stdout == ""
    assert {job["id"] for job in cron.jobs()} == before
    cron.lab.run(["scancel", *before])
    cron.lab.wait_for(lambda: not cron.jobs())
    cron.lab.run([*start, "--if-stale"])
    cron.lab.wait_for(lambda: quiet(cron))
    assert counts(cron) == (1, 1)


def test_a_link_is_submitted_of_a_whole_text_only(cron: Cron) -> None:
    """It was cut off by a full disk: dead links, and every command called the chain fine."""
    cron.drive("start", now_in(cron.lab))
    cron.lab.wait_for(lambda: quiet(cron))
    script = cron.root / "scheduler" / "scheduler.slurm"
    whole = script.read_bytes()
    script.write_bytes(whole[: len(whole) // 2])
    cron.lab.run(["scancel", *(job["id"] for job in cron.jobs())])
    cron.lab.wait_for(lambda: not cron.jobs())
    cron.drive("tick", now_in(cron.lab))
    assert counts(cron) == (1, 1)
    assert script.read_bytes() == whole, "a tick makes it anew"
    before = {job["id"] for job in cron.jobs()}
    script.write_bytes(whole + b"echo edited\n")
    said = cron.lab.run([sys.executable, "-m", "cronhpc", "start", "--dir", str(cron.root)]).stdout
    assert "what waited with it is replaced" in said
    cron.lab.wait_for(lambda: quiet(cron))
    assert (counts(cron), before & {job["id"] for job in cron.jobs()}) == ((1, 1), set())
    assert script.read_bytes() == whole


def test_two_starts_at_once_are_one_chain(cron: Cron) -> None:
    processes = [cron.lab.popen(cron.argv("start", now_in(cron.lab))) for _ in range(3)]
    said = [process.communicate(timeout=180) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], said
    cron.lab.wait_for(lambda: quiet(cron))
    assert counts(cron) == (1, 1)


def test_links_ahead_begin_one_an_interval_and_a_repair_keeps_their_number(cron: Cron) -> None:
    start = [sys.executable, "-m", "cronhpc", "start", "--dir", str(cron.root)]
    cron.lab.run([*start, "--prequeue", "3"])
    submitted = sorted(int(job["comment"].split(" ")[1]) for job in cron.jobs() if "/link " in job["comment"])
    first = (now_in(cron.lab) // HOUR + 1) * HOUR
    assert [at for at in submitted if at >= first] == [first, first + HOUR]
    cron.lab.wait_for(lambda: quiet(cron))
    cron.lab.run(start)
    assert sorted(starts(cron)) == [first, first + HOUR, first + 2 * HOUR]
    cron.lab.run([*start, "--prequeue", "1"])
    assert starts(cron) == [first]


def test_more_links_ahead_than_anybody_needs_are_refused(cron: Cron) -> None:
    done = cron.lab.run(
        [sys.executable, "-m", "cronhpc", "start", "--dir", str(cron.root), "--prequeue", "100000"], check=False
    )
    assert done.returncode == 2, done.stdout
    assert cron.jobs() == []


def test_a_link_that_was_put_off_by_a_year_comes_at_the_next_hour(cron: Cron) -> None:
    cron.drive("start", now_in(cron.lab))
    cron.lab.wait_for(lambda: quiet(cron))
    cron.lab.run(["scontrol", "update", f"job={cron.links()[0]['id']}", "starttime=now+365days"])
    cron.drive("start", now_in(cron.lab))
    assert starts(cron) == [(now_in(cron.lab) // HOUR + 1) * HOUR]


def test_a_copied_folder_leaves_the_chain_of_the_first_alone(cron: Cron) -> None:
    start = [sys.executable, "-m", "cronhpc", "start", "--dir"]
    cron.lab.run([*start, str(cron.root)])
    cron.lab.wait_for(lambda: quiet(cron))
    before = sorted(job["id"] for job in cron.jobs())
    copy = cron.root.with_name("copy")
    shutil.copytree(cron.root, copy, symlinks=True)
    done = cron.lab.run([*start, str(copy)], check=False)
    assert done.returncode == 2, done.stdout
    assert sorted(job["id"] for job in cron.jobs()) == before
    moved = cron.root.rename(cron.root.with_name("moved"))
    cron.lab.run([*start, str(moved)])
    now_there = Cron(cron.lab, moved, cron.slot)
    cron.lab.wait_for(lambda: quiet(now_there))
    before = sorted(job["id"] for job in now_there.jobs())
    done = cron.lab.run([*start, str(copy)], check=False)
    assert done.returncode == 2, done.stdout
    assert sorted(job["id"] for job in now_there.jobs()) == before


def test_stop_stays_stopped_until_start(cron: Cron) -> None:
    cron.drive("start", now_in(cron.lab))
    cron.lab.wait_for(lambda: quiet(cron))
    cron.drive("stop", now_in(cron.lab))
    assert cron.jobs() == []
    cron.drive("tick", now_in(cron.lab))
    job = submit_link(cron)
    cron.lab.wait_ended(job)
    assert cron.jobs() == []
    cron.drive("start", now_in(cron.lab))
    cron.lab.wait_for(lambda: quiet(cron))
    assert counts(cron) == (1, 1)


def test_start_fixes_what_scancel_of_everything_left(cron: Cron) -> None:
    cron.drive("start", now_in(cron.lab))
    cron.lab.wait_for(lambda: quiet(cron))
    cron.lab.run(["scancel", *(job["id"] for job in cron.jobs())])
    cron.lab.wait_for(lambda: cron.jobs() == [])
    cron.drive("start", now_in(cron.lab))
    cron.lab.wait_for(lambda: quiet(cron))
    assert counts(cron) == (1, 1)


def test_directories_of_one_user_and_of_two_do_not_cross_over(lab: Lab, cluster_user_dir: Callable[..., Path]) -> None:
    users = ["alice", "alice", "bob", "bob"] if os.getuid() == 0 else [None, None]
    crons = [make(lab, cluster_user_dir(user) / "cron", started=False, user=user) for user in users]
    for what in ("start", "tick", "tick"):
        at = [now_in(lab) if what == "start" else cron.slot + 10 for cron in crons]
        processes = [lab.popen(cron.argv(what, now), cron.user) for cron, now in zip(crons, at, strict=True)]
        said = [process.communicate(timeout=180) for process in processes]
        assert {process.returncode for process in processes} == {0}, said
        if what == "start":
            lab.wait_for(lambda: all(quiet(cron) for cron in crons))
    for cron in crons:
        finish(cron)
    queue = lab.squeue()
    assert [judge(cron, queue) for cron in crons] == [[] for _ in crons]


# --- a tick counts --------------------------------------------------------------------------------------------------


def never_startable(cron: Cron) -> str:
    failed = cron.lab.submit("--wrap=false", "--output=/dev/null")
    return submit_link(cron, f"--dependency=afterok:{failed}", f"--begin=uts{now_in(cron.lab) + 5}", slot=1)


def held(cron: Cron) -> str:
    job = submit_link(cron, "--begin=now+1hour", slot=1)
    cron.lab.run(["scontrol", "hold", job], cron.user)
    return job


def outdated(cron: Cron) -> str:
    job = submit_link(cron, "--begin=now+1hour", slot=1)
    cron.lab.run(["scontrol", "update", f"JobId={job}", f"Comment=cronhpc={cron.id}/link 1 0123456789ab"])
    return job


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [(held, "JobHeldUser"), (never_startable, "DependencyNeverSatisfied"), (outdated, "BeginTime")],
    ids=["held", "never to start", "outdated"],
)
def test_a_link_that_is_replaced(
    lab: Lab, cluster_user_dir: Callable[..., Path], spoil: Callable[[Cron], str], reason: str
) -> None:
    """As alice where she is: what root holds is an administrator's word."""
    cron = make(lab, cluster_user_dir(USER) / "cron", names="", user=USER)
    job = spoil(cron)
    lab.wait_for(lambda: lab.job(job).get("Reason") == reason)
    cron.drive("tick", now_in(lab))
    assert counts(cron) == (1, 1)
    assert job not in {each["id"] for each in cron.links()}


def test_a_link_whose_partition_is_down_is_waited_for(cron: Cron) -> None:
    cron.lab.run(["scontrol", "update", "PartitionName=gpu", "State=DOWN"])
    try:
        job = submit_link(cron, "--partition=gpu", slot=1)
        cron.drive("tick", now_in(cron.lab))
        assert [each["id"] for each in cron.links()] == [job]
    finally:
        cron.lab.run(["scontrol", "update", "PartitionName=gpu", "State=UP"])


def test_of_extra_links_and_spares_the_lowest_id_stays(cron: Cron) -> None:
    links = [submit_link(cron, "--begin=now+1hour", slot=1) for _ in range(3)]
    spares = [submit_link(cron, "--begin=now+2hours", slot=1, kind="spare") for _ in range(3)]
    cron.drive("tick", now_in(cron.lab))
    assert [job["id"] for job in cron.links()] == links[:1]
    assert [job["id"] for job in cron.links("spare")] == spares[:1]


def test_every_tick_pushes_the_spare(cron: Cron) -> None:
    base = (now_in(cron.lab) // HOUR + 2) * HOUR
    pushed = []
    for at in (base + 10, base + HOUR + 10):
        cron.drive("tick", at)
        name = link_names(cron.id)[1]
        answer = cron.lab.run(["squeue", "-h", "-n", name, "-o", "%i %S"], env={"SLURM_TIME_FORMAT": "%s"})
        pushed.append(answer.stdout.split())
    assert pushed[0][0] == pushed[1][0]
    assert [int(when) for _, when in pushed] == [base + HOUR * 3 // 2, base + HOUR * 5 // 2]


# --- a link by itself -----------------------------------------------------------------------------------------------


def test_a_requeued_link_does_no_harm(cron: Cron) -> None:
    with_tick(cron, "sleep 20")
    job = submit_link(cron)
    cron.lab.wait_for(lambda: [each["id"] for each in cron.links()] not in ([], [job]))
    (successor,) = cron.links()
    cron.lab.run(["scontrol", "update", f"JobId={job}", "requeue=1"])
    cron.lab.run(["scontrol", "requeue", job])
    cron.lab.wait_for(lambda: cron.lab.job(job).get("JobState") == "PENDING")
    cron.lab.begin_now(job, lambda: cron.lab.job(job).get("JobState") == "RUNNING")
    time.sleep(2)
    assert [each["id"] for each in cron.links()] == [successor["id"]]
    cron.lab.run(["scancel", job])


def test_link_and_spare_that_start_together_submit_one_successor(cron: Cron) -> None:
    with_tick(cron, "true")
    jobs = [submit_link(cron), submit_link(cron, kind="spare"), submit_link(cron)]
    cron.lab.wait_ended(*jobs)
    assert counts(cron) == (1, 0)


def test_on_a_node_without_its_files_the_chain_goes_on_elsewhere_and_says_so(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
) -> None:
    """It is idle, so Slurm starts each link there first; the folder is hidden from its slurmd by a mount of its own."""
    lab = make_lab(nodes=2, gpu_nodes=0)
    cron = make(lab, cluster_user_dir() / "cron", names="")
    lab.kill_node("cpu1")
    hide = f"mount -t tmpfs none {shlex.quote(str(cron.root))} && exec slurmd -D -N cpu1"
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    node = lab.popen(["unshare", "--mount", "sh", "-c", hide], env={"PATH": path})
    try:
        lab.wait_for(lambda: lab.run(["sinfo", "-h", "-n", "cpu1", "-o", "%T"]).stdout.split() == ["idle"])
        cron.drive("start", now_in(lab))
        lab.wait_for(lambda: (cron.root / "status.json").exists() and quiet(cron))
        assert counts(cron) == (1, 1)
        excluded = {lab.job(job["id"])["ExcNodeList"] for job in cron.jobs()}
        assert excluded == {"cpu1"}, cron.jobs()
        said = lab.run([sys.executable, "-m", "cronhpc", "status", "--dir", str(cron.root)], check=False).stdout
        assert "cannot work on cpu1: it does not have the cron directory" in " ".join(said.split())
    finally:
        node.terminate()
        node.communicate(timeout=20)  # which closes its pipes


@pytest.mark.parametrize("off", [-600, 600], ids=["ten minutes slow", "ten minutes fast"])
def test_on_nodes_whose_clocks_are(cron: Cron, off: int) -> None:
    """One link an interval: each begins at the controller's time, and looks at its own node's clock."""
    with_tick(cron, "true")
    slot = (now_in(cron.lab) // HOUR + 2) * HOUR
    seen = []
    for _ in range(4):
        clock = f"@{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(slot + off + 3))}"
        environment = {"SLURM_JOB_ID": "999999", "SLURM_CONF": str(cron.lab.conf)}
        script = str(cron.root / "scheduler" / "scheduler.slurm")
        cron.lab.run(["faketime", "-f", clock, "bash", script, str(slot), "link"], env=environment)
        (link,) = cron.links()
        (begin,) = starts(cron)
        cron.lab.run(["scancel", link["id"]])
        seen.append(begin - slot)
        slot = begin
    assert seen == [HOUR] * 4


def test_a_broken_python_and_a_full_partition_for_six_intervals_leave_one_successor(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
) -> None:
    lab = make_lab(speed=120)
    cron = make(lab, cluster_user_dir() / "cron", names="", settings="scheduler: {interval: 10m}\n")
    with_tick(cron, "/nonexistent/python -m cronhpc tick")
    slot = (now_in(lab) // 600 + 1) * 600
    submit_link(cron, f"--begin=uts{slot}", slot=slot)
    most = 0
    full = False
    deadline = time.monotonic() + 60
    while now_in(lab) < slot + 7 * 600 and time.monotonic() < deadline:
        most = max(most, len(cron.links()))
        if now_in(lab) > slot + 2 * 600 and not full:
            full = True
            lab.submit("--nodes=3", "--exclusive", "--time=40", "--output=/dev/null", "--wrap=sleep 1300")
        time.sleep(0.3)
    lab.wait_for(lambda: counts(cron) == (1, 0))
    assert most == 1
    log = (cron.root / "scheduler" / "scheduler.log").read_text(encoding="utf-8")
    assert log.count("the tick could not work") >= 3
    mark_started(lab, cron.root)
    lab.wait_for(lambda: cron.drive("tick", now_in(lab)) and counts(cron) == (1, 1), every=0.5)


# --- scrontab (a stand-in: Debian has none with 22.05; it refuses what it does not know) ----------------------------

THEIRS = "#SCRON --time=5\n0 4 * * * /home/me/backup.sh\n"


@pytest.fixture
def table(cron: Cron) -> Iterator[tuple[Path, dict[str, str]]]:
    """The user's table, with an entry of their own, and the environment that has a scrontab for it."""
    home = cron.root.parent / "home"
    program = home / "bin" / "scrontab"
    program.parent.mkdir(parents=True)
    program.write_text(SCRONTAB, encoding="utf-8")
    program.chmod(0o755)
    (home / "table").write_text(THEIRS)
    yield home / "table", {"HOME": str(home), "PATH": f"{program.parent}:{os.environ['PATH']}"}
    shutil.rmtree(home)


def asked(cron: Cron, env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return cron.lab.run([sys.executable, "-m", "cronhpc", *words, "--dir", str(cron.root)], check=False, env=env)


def test_scrontab_may_call_the_ticks_and_what_is_the_users_stays(
    cron: Cron, table: tuple[Path, dict[str, str]]
) -> None:
    file, env = table
    told = asked(cron, env, "start", "--via", "scrontab")
    assert told.returncode == 0, told.stderr
    assert "added one entry to your scrontab" in told.stdout
    assert "a second time" in told.stdout, "reinstalling gives their entries new jobs"
    assert file.read_text().startswith(THEIRS)
    assert file.read_text().count(f"tick --dir {cron.root}") == 1
    before = file.read_bytes()
    assert asked(cron, env, "start").returncode == 0
    assert (file.read_bytes(), counts(cron)) == (before, (0, 0)), "as before, and only once"
    assert asked(cron, env, "stop").returncode == 0
    assert file.read_text().rstrip() == THEIRS.rstrip()


@pytest.mark.parametrize("fault", ["FROZEN", "REFUSES"])
def test_a_stop_that_could_not_change_the_table_is_done_by_the_next_one(
    cron: Cron, table: tuple[Path, dict[str, str]], fault: str
) -> None:
    """The next one said "stopped", and the entry went on calling ticks for ever."""
    file, env = table
    asked(cron, env, "start", "--via", "scrontab")
    first = asked(cron, {**env, fault: "1"}, "stop")
    assert first.returncode != 0
    assert "tick --dir" in file.read_text()
    assert asked(cron, env, "stop").returncode == 0
    assert file.read_text().rstrip() == THEIRS.rstrip()


def test_a_write_that_was_called_refused_and_was_done_later_is_undone_by_stop(
    cron: Cron, table: tuple[Path, dict[str, str]]
) -> None:
    file, env = table
    told = asked(cron, {**env, "LATER": "1"}, "start", "--via", "scrontab")
    assert told.returncode != 0
    cron.lab.wait_for(lambda: "tick --dir" in file.read_text())
    assert asked(cron, env, "stop").returncode == 0
    assert file.read_text().rstrip() == THEIRS.rstrip()


def test_a_table_that_cannot_be_read_is_not_written(cron: Cron, table: tuple[Path, dict[str, str]]) -> None:
    file, env = table
    told = asked(cron, {**env, "FROZEN": "1"}, "start", "--via", "scrontab")
    assert told.returncode != 0
    assert file.read_text() == THEIRS


def test_from_scrontab_to_the_chain_there_is_one_who_calls(cron: Cron, table: tuple[Path, dict[str, str]]) -> None:
    file, env = table
    asked(cron, env, "start", "--via", "scrontab")
    assert asked(cron, env, "start", "--via", "chain").returncode == 0
    assert file.read_text().rstrip() == THEIRS.rstrip()
    cron.lab.wait_for(lambda: quiet(cron))
    assert counts(cron) == (1, 1)


@pytest.mark.parametrize("off", ["+20h", "+366d", "-20h"])
def test_a_tick_whose_clock_is_far_off_goes_by_slurms(cron: Cron, off: str) -> None:
    """Ahead, it took the whole chain there, and used up slots that had not come: silence until then."""
    cron.drive("start", now_in(cron.lab))
    cron.lab.wait_for(lambda: quiet(cron))
    cron.lab.run([sys.executable, "-m", "cronhpc", "tick", "--dir", str(cron.root)], check=False)
    before, slots = starts(cron), cron.rows()
    argv = ["faketime", "-f", off, sys.executable, "-m", "cronhpc", "tick", "--dir", str(cron.root)]
    done = cron.lab.run(argv, check=False)
    assert ("the batch system's, which is used" in done.stdout + done.stderr, done.returncode) == (True, 0)
    assert (starts(cron), cron.rows()) == (before, slots)
    state = json.loads((cron.root / "state" / "entries.json").read_text())
    assert abs(state["meta"]["last_tick"] - now_in(cron.lab)) < MINUTE
    status = cron.lab.run([sys.executable, "-m", "cronhpc", "status", "--dir", str(cron.root)], check=False)
    assert "fine" in status.stdout


@pytest.mark.parametrize("off", ["+10m", "-10m"])
def test_a_link_on_a_node_whose_clock_is_minutes_off_runs_what_is_due_by_slurms(cron: Cron, off: str) -> None:
    """Ten minutes fast, it ran what lay ahead at once, and called what lay between missed."""
    lab, link = cron.lab, cron.root / "scheduler" / "scheduler.slurm"
    skewed = cron.root / "scheduler" / "skewed"
    mark = re.search(r"^fingerprint=\w+", link.read_text(encoding="utf-8"), re.MULTILINE)
    assert mark
    skewed.write_text(f'#!/bin/bash\n{mark[0]}\nexec faketime -f {off} bash {link} "$@"\n', "utf-8")
    script = cron.root / "cron.d" / "m.slurm"
    script.write_text("#!/bin/bash\n#CRON * * * * * --catch-up=all --overlap=allow\ntrue\n", "utf-8")
    os.utime(script, (0, 0))
    lab.wait_for(lambda: time.time() % 60 < 50 and time.time() > script.stat().st_ctime + 4)
    cron.drive("tick", now_in(lab))
    for job in cron.jobs():
        lab.run(["scancel", job["id"]])
    lab.wait_for(lambda: not cron.jobs())
    before = now_in(lab)
    lab.wait_ended(submit_link(cron, slot=before, script=skewed))
    log = (cron.root / "scheduler" / "scheduler.log").read_text(encoding="utf-8")
    assert "W360" in log, log
    state = json.loads((cron.root / "state" / "entries.json").read_text())
    assert abs(state["meta"]["last_tick"] - before) < MINUTE
    slots = [Key.of(name.removesuffix(".run")) for name in cron.claim_files()]
    assert all(key is not None and key.slot <= before + 6 * MINUTE for key in slots), slots
    assert not [row for row in cron.rows() if row.get("result") == "missed"]


def test_a_directory_whose_last_tick_was_ahead_is_right_after_the_next_one(
    lab: Lab, cluster_user_dir: Callable[..., Path]
) -> None:
    """Also by less than a day, where Slurm says what time it is: its entries waited for that day."""
    cron = make(lab, cluster_user_dir() / "cron", names="a")
    cron.drive("tick", now_in(cron.lab) + 20 * HOUR)
    cron.lab.run([sys.executable, "-m", "cronhpc", "tick", "--dir", str(cron.root)], check=False)
    state = json.loads((cron.root / "state" / "entries.json").read_text())
    assert state["entries"]["a"]["next_slot"] < now_in(cron.lab) + 6 * HOUR
    assert starts(cron) < [now_in(cron.lab) + HOUR + MINUTE]


def test_with_room_for_one_run_a_tick_every_entry_has_its_turn(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
) -> None:
    """The first in the order of names ran each time, the last one never."""
    lab = make_lab(accounting=True, max_submit=1, users=["alice", "bob"] if USER else [])
    cron = make(lab, cluster_user_dir(USER) / "cron", names="abc", user=USER, started=False)
    for day in range(3):
        cron.tick(day * 86400 + 10)
        cron.wait_quiet()
    assert {name: len(slots) for name, slots in cron.ran().items()} == dict.fromkeys("abc", 1)
    missed = [str(row["detail"]) for row in cron.rows() if row["result"] == "missed"]
    assert missed
    assert all("Limit" in each for each in missed), missed


# --- an administrator's word, and limits ----------------------------------------------------------------------------


@pytest.mark.skipif(os.getuid() != 0, reason="only root is an administrator and a user at once")
def test_a_link_held_by_an_administrator_is_obeyed_by_ticks_and_links(
    lab: Lab, cluster_user_dir: Callable[..., Path]
) -> None:
    cron = make(lab, cluster_user_dir("alice") / "cron", names="", user="alice")
    cron.drive("tick", now_in(lab))
    (link,) = cron.links()
    lab.run(["scontrol", "hold", link["id"]])
    lab.wait_for(lambda: lab.job(link["id"])["Reason"] == "JobHeldAdmin")
    said = cron.drive("tick", now_in(lab) + 2 * HOUR)
    assert "held by an administrator" in said
    job = submit_link(cron)
    lab.wait_ended(job)
    assert [each["id"] for each in cron.links()] == [link["id"]]


@pytest.mark.skipif(os.getuid() != 0, reason="only root is an administrator and a user at once")
def test_a_link_cancelled_by_an_administrator_is_obeyed_until_start(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
) -> None:
    lab = make_lab(users=["alice", "bob"], accounting=True)
    cron = make(lab, cluster_user_dir("alice") / "cron", names="", user="alice")
    cron.drive("tick", now_in(lab))
    (link,) = cron.links()
    lab.run(["scancel", link["id"]])
    lab.wait_for(
        lambda: "CANCELLED by 0" in lab.run(["sacct", "-X", "-n", "-P", "-j", link["id"], "-o", "State"]).stdout
    )
    said = cron.drive("tick", now_in(lab) + MINUTE)
    assert cron.links() == [], said
    for remembered in (True, False):  # by the tick; where none came, the spare asks for itself
        if not remembered:
            [rest] = (cron.root / "scheduler").glob("rest.*")
            rest.unlink()
        job = submit_link(cron, kind="spare")
        lab.wait_ended(job)
        assert cron.links() == []
    cron.drive("start", now_in(lab))
    lab.wait_for(lambda: quiet(cron))
    assert counts(cron) == (1, 1)


def test_with_two_submit_slots_it_goes_on_without_a_spare_and_says_so(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
) -> None:
    lab = make_lab(accounting=True, max_submit=2, users=["alice", "bob"] if USER else [])
    cron = make(lab, cluster_user_dir(USER) / "cron", names="", user=USER)
    other = lab.submit("--begin=now+2hours", "--wrap=true", user=USER)
    for after in (0, HOUR):
        said = cron.drive("tick", now_in(lab) + after)
        assert counts(cron) == (1, 0)
    assert "MaxSubmit" in (cron.root / "state" / "entries.json").read_text(encoding="utf-8"), said
    lab.run(["scancel", other])


def test_a_spare_that_takes_the_place_of_every_run_makes_room(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
) -> None:
    """Ticks by hand need two slots for the chain; a link that runs needs the third."""
    lab = make_lab(accounting=True, max_submit=2, users=["alice", "bob"] if USER else [])
    now = now_in(lab)
    cron = make(lab, cluster_user_dir(USER) / "cron", names="a", slot=now + HOUR, user=USER)
    cron.drive("tick", now)
    assert counts(cron) == (1, 1)
    cron.drive("tick", now + HOUR + 60)
    cron.drive("tick", now + 2 * HOUR)
    cron.wait_quiet()
    assert counts(cron) == (1, 0)
    assert {name: len(slots) for name, slots in cron.ran().items()} == {"a": 1}
    status = json.loads((cron.root / "status.json").read_text(encoding="utf-8"))
    assert "MaxSubmit" in status["chain"]["no_spare"]


FILLER = "while sleep 1; do sbatch --begin=now+30days --output=/dev/null --wrap=true; done"


def test_the_chain_lives_through_hours_of_a_submit_limit_that_others_keep_full(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
) -> None:
    """A link that finds no place for its successor comes again in its own, and there is one chain. `stop` ends it."""
    speed = unhurried(60)  # a command has to answer within half a minute
    lab = make_lab(speed=speed, accounting=True, max_submit=3, users=["alice", "bob"] if USER else [])
    settings = "scheduler: {interval: 10m, min-interval: 5m}\n"
    cron = make(lab, cluster_user_dir(USER) / "cron", names="", settings=settings, started=False, user=USER)

    def cronhpc(*words: str) -> str:
        argv = ["env", f"PYTHONPATH={LIBRARIES}", PYTHON, "-m", "cronhpc", *words, "--dir", str(cron.root)]
        return lab.run(argv, USER, check=False).stdout

    cronhpc("start")
    begun, filler = now_in(lab), lab.popen(["bash", "-c", FILLER], USER)
    most, lives, shown = 0, set[tuple[str, str]](), ""
    while now_in(lab) < begun + 4 * HOUR and (len(lives) < 7 or "again: a submit limit" not in shown):
        most = max(most, len(cron.links()))
        lives |= {(job["id"], lab.job(job["id"]).get("Restarts", "")) for job in cron.jobs()}
        shown = cronhpc("status") if len(lives) > 5 else ""
        time.sleep(0.5)
    assert most == 1, lives
    assert "again: a submit limit has left no place for another since" in shown, lives
    cronhpc("stop")
    lab.wait_for(lambda: cron.jobs() == [])
    filler.terminate()
    filler.communicate(timeout=20)
    lab.run(["scancel", *(job["id"] for job in lab.squeue())])
    cronhpc("start")
    lab.wait_for(lambda: counts(cron) == (1, 1))


def test_without_accounting_and_with_jobs_that_vanish_after_five_seconds(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
) -> None:
    lab = make_lab(min_job_age=5)
    cron = make(lab, cluster_user_dir() / "cron")
    cron.tick()
    cron.wait_quiet()
    lab.wait_for(lambda: not [job for job in lab.squeue(states="all") if "@" in job["comment"]], every=1)
    finish(cron)
    assert judge(cron, lab.squeue(), Expected(results=frozenset({"ended, outcome unknown"}))) == []


def test_the_generated_link_is_clean_bash(cron: Cron) -> None:
    if shutil.which("shellcheck") is None:
        pytest.fail("shellcheck is missing: apt-get install -y shellcheck")
    cron.lab.run(["shellcheck", "--shell=bash", str(cron.root / "scheduler" / "scheduler.slurm")])
