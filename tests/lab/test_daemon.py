"""The daemon on a real Slurm: how fast a teammate's file stops a hung job, and a daemon that is a job itself."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.lab.conftest import SLACK, Lab, MakeLab
from tests.lab.helpers_team import HUNG, Team, kill_wait

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.getuid() != 0, reason="a lab of an ordinary user has that user only"),
]
LATER = "--begin=now+1hour"


@pytest.fixture
def team(lab: Lab, cluster_user_dir: Callable[..., Path]) -> Team:
    return Team.make(lab, cluster_user_dir("alice"))


def test_a_teammates_file_ends_a_hung_job_in_two_seconds_and_kill_wait(team: Team) -> None:
    """The running job that ignores SIGTERM, the pending array and the held pieces; bob's scancel is refused."""
    name = "--job-name=nobody configured this"
    hung, array, held = (
        team.hung(name),
        team.submit(HUNG, name, LATER, "--array=0-9"),
        team.submit(HUNG, name, "--hold"),
    )
    with team.daemon():
        assert "Access/permission denied" in team.lab.run(["scancel", hung], user="bob", check=False).stderr
        began = time.monotonic()
        team.touch("nobody configured this", text="loss spikes")
        team.wait_gone(array, held)
        assert time.monotonic() - began < 2 + SLACK
        team.wait_gone(hung)
        assert time.monotonic() - began < 2 + kill_wait(team.lab) + SLACK
        team.lab.wait_for(lambda: any("gone" in row for row in team.rows("switch")))
        assert "stopped by bob" in team.cronhpc("status", user="bob")


def test_a_pause_and_its_end_act_at_once(team: Team) -> None:
    job = team.submit(HUNG, LATER, "--job-name=ft", "--comment=mine")
    with team.daemon():
        path = team.touch("ft", "pause")
        team.lab.wait_for(lambda: "JobHeldUser" in team.states(job)[job], timeout=2 + SLACK)
        path.unlink()
        team.lab.wait_for(lambda: "JobHeldUser" not in team.states(job)[job], timeout=2 + SLACK)
    team.lab.run(["scancel", job])


def test_two_daemons_beside_the_chain_stop_a_job_once(team: Team) -> None:
    team.cronhpc("start")
    hung = team.hung("--job-name=ft")
    with team.daemon(), team.daemon():
        team.touch("ft")
        team.wait_gone(hung)
        time.sleep(1)
    assert [row["jobs"] for row in team.rows("switch") if "jobs" in row] == [[hung]]
    team.wait_for_links()
    assert len(team.links()) == 1
    team.cronhpc("stop")


def test_two_daemons_four_ticks_and_a_run_at_once_make_one_job_a_slot(team: Team) -> None:
    """The three are known from one and the same tick on; a run by hand may be asked for at the second of a slot."""
    team.settings("timezone: UTC\n")
    text = '#CRON * * * * * --overlap=allow\n#SBATCH --time=1\necho "$CRONHPC_SLOT" >> {place}/ran-{name}\n'
    team.drop(text, *(f"cron.d/{name}.slurm" for name in "abc"))
    with team.daemon(), team.daemon():
        time.sleep((55 - time.time()) % 60)
        by_hand = team.lab.popen(team.argv("run", "a"), "alice", env=team.env)
        time.sleep(60 - time.time() % 60)
        ticks = [team.lab.popen(team.argv("tick"), "alice", env=team.env) for _ in range(4)]
        said = [process.communicate(timeout=180) for process in (*ticks, by_hand)]
        team.lab.wait_for(lambda: all((team.place / f"ran-{name}").exists() for name in "abc"))
        assert by_hand.returncode == 0, said
        team.lab.wait_for(lambda: 10 < time.time() % 60 < 45)  # no minute's runs are being submitted
    team.lab.wait_for(lambda: not team.lab.squeue("alice"))
    ran = {name: Counter((team.place / f"ran-{name}").read_text().split()) for name in "abc"}
    assert set(ran["b"].values()) == {1}
    assert all(slot.endswith(":00Z") for slot in ran["b"])
    assert ran["c"] == ran["b"]
    assert not ran["b"] - ran["a"]
    assert (ran["a"] - ran["b"]).total() == 1, "the one by hand"


def test_sigterm_under_a_frozen_controller_and_what_is_left_is_claimed(
    make_lab: MakeLab, cluster_user_dir: Callable[..., Path]
) -> None:
    lab = make_lab(users=["alice", "bob"], nodes=1, gpu_nodes=0)
    team = Team.make(lab, cluster_user_dir("alice"))
    with team.daemon() as process:
        lab.freeze()
        team.touch("whatever")
        lab.wait_for((team.root / "state" / "lease").exists)
        began = time.monotonic()
        process.terminate()
        process.wait(60)
        assert time.monotonic() - began < 1 + SLACK
        lab.thaw()


def test_a_daemon_that_is_a_job_hands_over_to_its_successor(team: Team) -> None:
    """`start --daemon`: one runs, one waits; a switch acts within seconds before, while and after they change."""
    team.settings("scheduler: {interval: 1m, min-interval: 1m}\nkill: {group: labgroup}\n")
    team.lab.run(["bash", "-c", f"{' '.join(team.argv('start', '--daemon'))}"], "alice", env=team.env)
    try:
        team.lab.wait_for(lambda: team.links("RUNNING") and team.links())
        [first], [second] = team.links("RUNNING"), team.links()
        assert team.lab.job(first)["TimeLimit"] == "00:16:00"
        seen: set[tuple[int, int]] = set()
        until = time.monotonic() + 150
        while team.links("RUNNING") != [second]:
            assert time.monotonic() < until, team.lab.squeue("alice")
            seen.add((len(team.links("RUNNING")), len(team.links())))
            time.sleep(0.1)
        assert all(running in {1, 2} for running, _ in seen), seen
        assert all(pending <= 1 for _, pending in seen), "never two pending successors"
        team.lab.wait_for(team.links)
        hung = team.hung("--job-name=ft")
        team.touch("ft")
        assert team.wait_gone(hung) < 2 + kill_wait(team.lab) + 2 * SLACK
        assert "daemon runs" in team.cronhpc("kill", "ALL", user="bob")
    finally:
        team.cronhpc("stop")
    team.lab.wait_for(lambda: not team.links("RUNNING") and not team.links())


def test_a_daemon_that_is_a_job_and_is_cancelled_calls_its_successor_for_the_next_slot(team: Team) -> None:
    """It came at the end of the interval, and the slots until then were missed."""
    team.settings(
        "scheduler: {interval: 1h, min-interval: 1m}\nkill: {group: labgroup}\n"
        'entries:\n  often: {schedule: "*/3 * * * *", command: "true"}\n'
    )
    team.lab.run(["bash", "-c", f"{' '.join(team.argv('start', '--daemon'))}"], "alice", env=team.env)
    try:
        team.lab.wait_for(lambda: team.links("RUNNING") and team.links() and (team.root / "status.json").exists())
        [first] = team.links("RUNNING")
        team.lab.run(["scancel", first], "alice")
        [successor] = team.links()
        soon = datetime.now() + timedelta(minutes=5)  # noqa: DTZ005 - as Slurm prints it
        team.lab.wait_for(lambda: datetime.fromisoformat(team.lab.job(successor)["StartTime"]) < soon)
    finally:
        team.cronhpc("stop")
    team.lab.wait_for(lambda: not team.links("RUNNING") and not team.links())


def test_a_daemon_that_is_a_job_brings_nothing_back_once_all_jobs_of_its_user_are_cancelled(team: Team) -> None:
    """`scancel -u` by an administrator was undone in the seconds that its last tick had."""
    team.settings("scheduler: {interval: 1h, min-interval: 1m}\nkill: {group: labgroup}\n")
    team.lab.run(["bash", "-c", f"{' '.join(team.argv('start', '--daemon'))}"], "alice", env=team.env)
    try:
        team.lab.wait_for(lambda: team.links("RUNNING") and team.links() and (team.root / "status.json").exists())
        team.lab.run(["scancel", "-u", "alice"])
        team.lab.wait_for(lambda: not team.links("RUNNING") and not team.links("COMPLETING"))
        assert not team.links()
    finally:
        team.cronhpc("stop")
