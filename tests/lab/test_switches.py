"""A teammate touches a file, and alice's jobs stop: by ticks, on a real Slurm, with two users of one group."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.conftest import SLACK, Lab, MakeLab
from tests.lab.helpers_team import GROUP, HUNG, Team, kill_wait

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.getuid() != 0, reason="a lab of an ordinary user has that user only"),
]
LATER = "--begin=now+1hour"


@pytest.fixture
def team(lab: Lab, cluster_user_dir: Callable[..., Path]) -> Team:
    return Team.make(lab, cluster_user_dir("alice"))


def test_a_hung_job_its_array_and_held_pieces_are_gone_after_a_tick(team: Team) -> None:
    """By a name that nobody configured, set by someone whose scancel is refused."""
    name = "--job-name=ft by hand"
    hung, array, held = (
        team.hung(name),
        team.submit(HUNG, name, LATER, "--array=0-9"),
        team.submit(HUNG, name, "--hold"),
    )
    other = team.submit(HUNG, "--job-name=other", "--hold")
    assert "Access/permission denied" in team.lab.run(["scancel", hung], user="bob", check=False).stderr
    team.touch("ft by hand", text="loss spikes")
    report = team.tick()
    assert team.wait_gone(array, held) < SLACK
    assert team.wait_gone(hung) < kill_wait(team.lab) + SLACK
    assert other in team.states(other)
    [row] = team.rows("switch")
    assert (row["by"], row["reason"], set(row["jobs"])) == ("bob", "loss spikes", {hung, array, held})
    [stopped] = [row for row in report["outcomes"] if row["decision"] == "stop"]
    assert stopped["done"] == "done"
    team.tick()
    assert set(team.rows("switch")[0]["gone"]) == {hung, array, held}
    assert len(team.rows("switch")) == 2
    team.lab.run(["scancel", other])


def test_the_tick_that_stops_comes_within_the_time_asked_for(team: Team) -> None:
    """Tick mode: while a job lives that a switch could reach, the successor waits no longer than `within`."""
    team.settings("kill: {within: 6m}\nscheduler: {min-interval: 1m}\n")
    team.cronhpc("start")
    hung = team.hung("--job-name=ft")
    team.wait_for_links()
    team.tick()
    now = time.time()
    starts = [
        team.lab.run(["squeue", "-h", "-j", link, "-o", "%S"], env={"SLURM_TIME_FORMAT": "%s"}).stdout
        for link in team.links()
    ]
    assert [0 < int(start) - now <= 361 for start in starts] == [True]
    team.cronhpc("stop")
    team.lab.run(["scancel", hung])


def test_one_task_of_an_array_by_its_id(team: Team) -> None:
    array = team.submit(HUNG, "--array=0-3")
    team.lab.wait_for(lambda: sorted(team.states(array)) == [f"{array}_{n}" for n in range(4)])
    team.touch(f"{array}_2")
    team.tick()
    team.lab.wait_for(lambda: sorted(team.states(array)) == [f"{array}_{n}" for n in (0, 1, 3)])
    team.lab.wait_for(lambda: all("RUNNING" in state for state in team.states(array).values()))
    own = next(n for n in (0, 1) if team.lab.job(f"{array}_{n}")["JobId"] != array)
    team.touch(team.lab.job(f"{array}_{own}")["JobId"])
    team.tick()
    team.lab.wait_for(lambda: f"{array}_{own}" not in team.states(array))
    assert len(team.states(array)) == 2
    team.touch(array)
    team.tick()
    team.wait_gone(array)


def test_a_configured_switch_and_the_file_that_a_training_program_polls(
    team: Team, cluster_user_dir: Callable[..., Path]
) -> None:
    """By pattern, partition, account and working folder; from the team's folder, and from the program's own file."""
    shared = cluster_user_dir("bob", "team")
    polled = shared / "training17-kill-switch"
    team.settings(
        f"kill:\n  also: [{shared}/kill]\n  switches:\n"
        f"    training17: {{jobs: {{name: 'tr17-*', partition: gpu, workdir: {team.place}}}, file: {polled}}}\n"
    )
    (shared / "kill").mkdir()
    shutil.chown(shared / "kill", "bob")
    program = team.submit(
        "while [ ! -e " + str(polled) + " ]; do sleep 0.1; done; touch {place}/saw; sleep 100\n",
        "--job-name=tr17-a",
        "--partition=gpu",
    )
    other = team.submit(HUNG, "--job-name=tr17-b", "--partition=cpu")
    team.lab.wait_for(lambda: len([s for s in team.states(program, other).values() if s.startswith("RUNNING")]) == 2)
    team.lab.run(["touch", str(polled)], user="bob")
    team.tick()
    team.wait_gone(program)
    assert other in team.states(other)
    team.lab.run(["touch", str(shared / "kill" / other)], user="bob")
    team.tick()
    team.wait_gone(other)
    assert {row["switch"] for row in team.rows("switch") if "jobs" in row} == {"training17", other}


WARNED = """
#SBATCH --array=0-9%2
trap 'date +%s.%N >> {place}/usr1-$SLURM_ARRAY_TASK_ID' USR1
trap '' TERM
touch {place}/ready-$SLURM_ARRAY_TASK_ID
while :; do sleep 0.1; done
"""


def test_an_array_with_pending_tasks_is_warned_once_and_no_call_blocks(team: Team) -> None:
    """A signal to it while tasks are pending would take 95 s, and come ten times."""
    team.settings("kill: {switches: {tr: {jobs: {name: 'tr-*'}, warn: USR1@12s}}}\n")
    array = team.submit(WARNED, "--job-name=tr-x")
    team.lab.wait_for(lambda: (team.place / "ready-0").exists() and (team.place / "ready-1").exists())
    team.touch("tr")
    began = time.monotonic()
    team.tick()
    assert time.monotonic() - began < 10
    team.lab.wait_for(lambda: (team.place / "usr1-0").exists() and (team.place / "usr1-1").exists())
    assert sorted(team.states(array)) == [f"{array}_0", f"{array}_1"]
    team.tick()
    assert sorted(team.states(array)) == [f"{array}_0", f"{array}_1"], "the grace is not over"
    team.lab.wait_for(lambda: team.tick() and sum("jobs" in row for row in team.rows("switch")) == 3, every=1)
    team.wait_gone(array)
    assert [len((team.place / f"usr1-{n}").read_text().split()) for n in (0, 1)] == [1, 1]
    assert sorted(path.name for path in team.place.glob("ready-*")) == ["ready-0", "ready-1"]
    assert [(bool(row["warned"]), bool(row["jobs"])) for row in reversed(team.rows("switch")) if "jobs" in row] == [
        (False, True),
        (True, False),
        (False, True),
    ]


def test_a_killed_run_is_neither_failed_nor_tried_again(team: Team) -> None:
    team.drop("#CRON @daily --retries=3\n" + HUNG, "cron.daily/train.slurm")
    ran = team.json("run", "train")
    team.lab.wait_for((team.place / f"ready-{ran['job']}").exists)
    team.touch("train", text="wrong data")
    team.tick()
    team.wait_gone(ran["job"])
    team.lab.wait_for(lambda: team.tick() and team.rows("run"), every=0.5)
    [row] = team.rows("run")
    assert (row["result"], row["detail"]) == ("killed", "kill/train, by bob: wrong data")
    [known] = team.json("status")["entries"]
    assert (known["reason"], known["failures"]) == ("stopped", 0)
    refused = team.cronhpc("run", "train")
    assert "kill/train, by bob: wrong data" in refused
    assert team.states(*[r["id"] for r in team.lab.squeue("alice")]) == {}


def test_a_switch_set_in_the_last_moment_leaves_the_job_unreleased(team: Team) -> None:
    """Between the submission and its release: bob's file comes while sbatch is at work."""
    team.drop(HUNG, "cron.daily/train.slurm")
    real = shutil.which("sbatch")
    tools = team.place / "bin"
    tools.mkdir()
    (tools / "sbatch").write_text(f'#!/bin/bash\n{real} "$@"\ncode=$?\ntouch {team.root}/kill/train\nexit $code\n')
    (tools / "sbatch").chmod(0o755)
    done = team.lab.run(
        team.argv("run", "train", "--json"),
        "alice",
        check=False,
        env={**team.env, "PATH": f"{tools}:{os.environ['PATH']}"},
    )
    told = json.loads(done.stdout)
    assert "kill/train" in json.dumps(told)
    assert not told.get("released")
    team.lab.wait_for(lambda: not team.lab.squeue("alice"))
    assert not list(team.place.glob("ready-*"))


# --- pause ---------------------------------------------------------------------------------------------------------


def test_a_pause_holds_what_waits_and_its_removal_releases_just_that(team: Team) -> None:
    array = team.submit(HUNG, LATER, "--array=0-9", "--job-name=ft", "--comment=mine, and more")
    single = team.submit(HUNG, LATER, "--job-name=ft")
    hung = team.hung("--job-name=ft")
    team.lab.run(["scontrol", "hold", f"{array}_[3-4]"], user="alice")
    before = {job: team.lab.job(job)["SubmitTime"] for job in (f"{array}_0", single)}
    path = team.touch("ft", "pause", "the file server is slow")
    team.tick()
    rows = {r["id"]: r for r in team.lab.squeue("alice")}
    assert {r["reason"] for i, r in rows.items() if i != hung} == {"JobHeldUser"}
    assert rows[hung]["state"] == "RUNNING"
    marked = {i for i, r in rows.items() if r["comment"].startswith("cronhpc-paused/")}
    assert marked == {single, *(f"{array}_{n}" for n in (0, 1, 2, 5, 6, 7, 8, 9))}
    team.lab.run(["scontrol", "update", f"JobId={single}", "TimeLimit=7"], user="alice")
    team.tick()
    assert {r["id"] for r in team.lab.squeue("alice")} == set(rows)
    team.lab.run(["rm", str(path)], user="bob")
    team.tick()
    rows = {r["id"]: r for r in team.lab.squeue("alice")}
    assert {i for i, r in rows.items() if r["reason"] == "JobHeldUser"} == {f"{array}_3", f"{array}_4"}
    assert {r["comment"] for i, r in rows.items() if i.startswith(f"{array}_")} == {"mine, and more"}
    assert rows[single]["comment"] in {"", "(null)"}
    assert {job: team.lab.job(job)["SubmitTime"] for job in (f"{array}_0", single)} == before
    assert team.lab.job(single)["TimeLimit"] == "00:07:00"
    team.lab.run(["scancel", array, single, hung])


def test_a_long_comment_outlives_a_pause(team: Team) -> None:
    comment = "x" * 1023 + "y"
    job = team.submit(HUNG, LATER, "--job-name=ft", f"--comment={comment}")
    path = team.touch("ft", "pause")
    team.tick()
    assert "JobHeldUser" in team.states(job)[job]
    path.unlink()
    team.tick()
    assert {r["comment"] for r in team.lab.squeue("alice") if r["id"] == job} == {comment}
    team.lab.run(["scancel", job])


def test_nothing_but_its_removal_releases_and_an_expired_one_is_as_removed(team: Team) -> None:
    single = team.submit(HUNG, LATER, "--job-name=ft")
    path = team.touch("ft", "pause", "expires: 5m\n")
    team.tick()
    assert "JobHeldUser" in team.states(single)[single]
    os.utime(path, (time.time() - 301,) * 2)
    team.tick()
    assert "JobHeldUser" not in team.states(single)[single]
    assert path.exists()
    known = team.json("status")
    assert [(s["name"], s["expired"]) for s in known["switches"]] == [("ft", True)]
    assert any(row["kind"] == "expired" for row in known["attention"])
    team.lab.run(["scancel", single])


def test_what_a_hold_costs_is_what_is_said(make_lab: MakeLab, cluster_user_dir: Callable[..., Path]) -> None:
    """The submit time and the id stay; the age that priority counts begins anew at the release."""
    lab = make_lab(
        users=["alice", "bob"], accounting=True, conf=["PriorityType=priority/multifactor", "PriorityWeightAge=1000"]
    )
    team = Team.make(lab, cluster_user_dir("alice"))
    filler = [team.submit(HUNG, "--exclusive", "--job-name=filler") for _ in range(3)]
    waits = team.submit(HUNG, "--exclusive", "--job-name=ft")
    lab.wait_for(lambda: team.lab.job(waits)["AccrueTime"] not in {"Unknown", "N/A"})
    before = team.lab.job(waits)
    time.sleep(2.1)
    path = team.touch("ft", "pause")
    team.tick()
    path.unlink()
    team.tick()
    lab.wait_for(lambda: team.lab.job(waits)["AccrueTime"] not in {"Unknown", "N/A"})
    after = team.lab.job(waits)
    assert (after["JobId"], after["SubmitTime"]) == (before["JobId"], before["SubmitTime"])
    assert after["AccrueTime"] > before["AccrueTime"]
    assert "waiting time" in team.cronhpc("pause", "ft", user="bob")
    lab.run(["scancel", *filler, waits])


# --- series --------------------------------------------------------------------------------------------------------

PIECE = """
export PYTHONPATH={libraries}
{python} -m cronhpc --dir {root} again --every 1h || exit
touch {place}/piece-$SLURM_JOB_ID
while :; do sleep 0.2; done
"""


def test_a_job_id_ends_just_this_piece_and_a_name_the_series(team: Team) -> None:
    from tests.lab.helpers_team import LIBRARIES, PYTHON

    text = PIECE.replace("{libraries}", LIBRARIES).replace("{python}", PYTHON).replace("{root}", str(team.root))
    first = team.submit(text, "--job-name=tr17")
    team.lab.wait_for((team.place / f"piece-{first}").exists)
    [following] = [r["id"] for r in team.lab.squeue("alice") if r["state"] == "PENDING"]
    team.touch(first)
    team.tick()
    team.wait_gone(first)
    team.tick()
    assert following in team.states(following)
    path = team.touch("tr17", "pause")
    team.tick()
    assert "JobHeldUser" in team.states(following)[following]
    team.lab.run(["scontrol", "update", f"JobId={following}", "NumCPUs=2"], user="alice")
    path.unlink()
    team.tick()
    assert "JobHeldUser" not in team.states(following)[following]
    team.touch("tr17")
    team.tick()
    assert team.wait_gone(following) < SLACK


# --- the commands --------------------------------------------------------------------------------------------------


def test_a_teammate_sets_and_lifts_switches_whatever_the_umask(team: Team) -> None:
    team.drop(HUNG, "cron.daily/train.slurm")
    team.tick()
    said = team.cronhpc(
        "kill", "train", "--reason", "disk\nis \x1b[31mfull", "--expires", "2h", user="bob", umask=0o077
    )
    assert f"undo: cronhpc unkill --dir {team.root} train" in said
    path = team.root / "kill" / "train"
    found = path.stat()
    assert (path.owner(), path.group(), stat.S_IMODE(found.st_mode)) == ("bob", GROUP, 0o664)
    assert path.read_text().splitlines()[0] == "disk is full"
    assert "stopped by bob" in team.cronhpc("status", user="bob"), "at once, before her next tick"
    assert "held back: kill/train, by bob" in team.cronhpc("next", user="bob")
    team.tick()
    [row] = [r for r in team.json("status")["attention"] if r["kind"] == "switch"]
    assert (row["name"], row["what"]) == ("train", 'stopped by bob: "disk is full"')
    assert "stopped by bob" in team.cronhpc("status", user="bob")
    assert "removed" in team.cronhpc("unkill", "train", user="alice")
    team.cronhpc("pause", "ALL", user="alice", umask=0o077)
    assert "removed" in team.cronhpc("resume", "ALL", user="bob")
    assert (
        "nothing is called trian; nearest: train"
        in (team.touch("trian"), team.cronhpc("plan"), team.cronhpc("status"))[2]
    )


def test_undoing_a_switch_of_somebody_elses_removes_no_file_that_their_settings_name(team: Team) -> None:
    """alice's settings must not make bob's `unkill` delete what is his."""
    mine = team.place.parent / "thesis"
    mine.mkdir()
    (mine / "chapter").write_text("1")
    for path in (mine, mine / "chapter"):
        shutil.chown(path, "bob")
    team.settings(f"kill: {{switches: {{x: {{jobs: {{name: x}}, file: {mine}/chapter}}}}}}\n")
    said = team.cronhpc("unkill", "x", user="bob")
    assert (mine / "chapter").read_text() == "1"
    assert f"it still stands for the whole team: {mine}/chapter" in said
    assert "rm " not in said


# --- safety --------------------------------------------------------------------------------------------------------


def test_of_200_odd_switch_files_only_what_they_name_stops(team: Team) -> None:
    """Links, fifos, folders, huge files; names with newlines, globs, dots, escapes: nothing is made, removed or run."""
    named, spared = team.submit(HUNG, LATER, "--job-name=victim"), team.submit(HUNG, LATER, "--job-name=spared")
    canary = team.place / "canary"
    canary.write_text("x")
    chance = random.Random(5)  # noqa: S311 - a table of situations, no secret
    letters = [c for c in map(chr, range(1, 0x250)) if c != "/"]
    names = {"".join(chance.choices(letters, k=chance.randint(1, 60))).strip(".~#") or "x" for _ in range(180)}
    names |= {
        "*",
        "?",
        "[a-z]*",
        "..x",
        "new\nline",
        "-rf",
        "$(touch canary2)",
        "`id`",
        "x" * 255,
        "spare[d]",
        "spared ",
        "SPARED",
    }
    odd = ["victim", *sorted(names)]
    for name in odd:
        path = team.root / "kill" / name
        match chance.randrange(6):
            case 0:
                path.symlink_to(canary)
            case 1:
                path.mkdir()
            case 2:
                os.mkfifo(path)
            case 3:
                path.write_bytes(f"$(touch {team.place}/ran)\n`touch {team.place}/ran`\nexpires: never\n".encode())
            case 4:
                path.symlink_to("/dev/zero")
            case _:
                path.write_bytes(chance.randbytes(5000))
    before = _tree(team)
    report = team.tick()
    assert team.wait_gone(named) < SLACK
    assert spared in team.states(spared)
    team.tick()
    assert _tree(team) == before
    stopped = [row["switch"] for row in report["outcomes"] if row["decision"] == "stop"]
    assert stopped == ["victim"]
    for words in (("status",), ("plan",), ("history",), ("status", "--json")):
        shown = team.cronhpc(*words)
        assert all(line.isprintable() for line in shown.replace("\t", " ").splitlines()), words
    team.lab.run(["scancel", spared])


def _tree(team: Team) -> list[str]:
    """All that lies there, but for what the scheduler writes itself."""
    own = {"state", "status.json", "due", "on-slurm"}
    return sorted(str(p) for p in team.place.rglob("*") if not own.intersection(p.relative_to(team.place).parts))


# --- the owner's orders act at once ---------------------------------------------------------------------------------


def test_the_owners_kill_acts_at_once_and_tells_what_it_did(team: Team) -> None:
    """Jobs by name, by pattern, an array with waiting tasks; with no scheduler, and nothing else is done then."""
    team.drop("true\n", "cron.hourly/due.slurm")
    hung = team.hung("--job-name=ft-a")
    array = team.submit(HUNG, "--job-name=ft-b", LATER, "--array=0-9")
    said = team.cronhpc("kill", "ft-*", "--reason", "loss spikes", codes=(0,))
    assert team.wait_gone(array) < SLACK
    assert team.wait_gone(hung) < kill_wait(team.lab) + SLACK
    assert re.search(rf"^cancelled job {hung} \(ft-a\), ran \d+ (s|min) on \w+$", said, re.MULTILINE), said
    assert f"cancelled job {array} (ft-b), 10 waiting tasks\n" in said
    assert "nobody will act on later jobs: cronhpc start" in said
    [row] = team.rows("switch")[-1:]
    assert row["reason"] == "loss spikes"
    assert team.json("status")["entries"][0]["runs"] == [], "a kill submits nothing"
    assert "removed" in team.cronhpc("unkill", "*", codes=(0,))
    assert not list((team.root / "kill").iterdir())


def test_the_owners_pause_and_resume_act_at_once_beside_a_chain(team: Team) -> None:
    """A whole tick there: the links stay, and status.json tells the team."""
    team.cronhpc("start")
    try:
        waiting, running = team.submit(HUNG, "--job-name=ft", LATER), team.hung("--job-name=ft")
        team.wait_for_links()
        said = team.cronhpc("pause", "ft", codes=(0,))
        assert f"held job {waiting} (ft), which waited\n" in said
        assert f"job {running} (ft) runs on: a pause holds what waits\n" in said
        assert "nobody will act" not in said
        assert team.states(waiting)[waiting] == "PENDING JobHeldUser"
        assert "paused by alice" in team.cronhpc("status", user="bob")
        said = team.cronhpc("resume", "ft", codes=(0,))
        assert f"released job {waiting} (ft), which waited\n" in said
        team.lab.wait_for(lambda: team.states(waiting)[waiting] == "PENDING BeginTime")
        assert f"cancelled job {running} (ft), ran" in team.cronhpc("kill", running, codes=(0,))
        assert "no job 999999 is in the queue" in team.cronhpc("kill", "999999", codes=(2,))
        assert len(team.links()) == 1
    finally:
        team.cronhpc("stop")
    team.wait_gone(running)
    team.lab.run(["scancel", waiting])


def test_beside_a_daemon_an_order_is_told_whoever_was_faster(team: Team) -> None:
    with team.daemon():
        jobs = [team.hung("--job-name=ft") for _ in range(2)]
        said = team.cronhpc("kill", "ft", codes=(0,))
        for job in jobs:
            assert re.search(rf"job {job} \(ft\)(, ran| is ending| has ended)", said), said
        team.wait_gone(*jobs)


def test_an_order_without_an_answer_stands_and_says_when_it_acts(team: Team) -> None:
    hung = team.hung("--job-name=ft")
    team.lab.freeze()
    try:
        said = team.cronhpc("kill", "ft", codes=(1,))
    finally:
        team.lab.thaw()
    assert "set kill switch ft" in said
    assert "not done yet:" in said
    assert hung in team.states(hung)
    assert f"cancelled job {hung} (ft)" in team.cronhpc("kill", "ft", codes=(0,))
    team.wait_gone(hung)


def test_stop_finds_the_schedulers_jobs_where_the_folder_is_gone(team: Team) -> None:
    """By the text that Slurm keeps of each; another directory's chain stays."""

    def jobs(directory_id: str) -> set[str]:
        return {row["id"] for row in team.lab.squeue("alice") if f"cronhpc={directory_id}/" in row["comment"]}

    (team.place / "more").mkdir()
    shutil.chown(team.place / "more", "alice", "alice")
    other = Team.make(team.lab, team.place / "more")
    mine, others = ((each.root / "state" / "id").read_text().strip() for each in (team, other))
    other.cronhpc("start")
    team.cronhpc("start")
    try:
        team.wait_for_links()
        before = jobs(mine)
        shutil.rmtree(team.root)
        said = team.cronhpc("stop", codes=(0,))
        assert "is not there; the jobs of its scheduler are in the queue:" in said
        assert [job for job in before if f"job {job} (cronhpc-{mine}" not in said] == []
        team.lab.wait_for(lambda: not jobs(mine))
        assert len(jobs(others)) == 2
        assert "There is no folder" in team.cronhpc("stop", codes=(2,))
    finally:
        other.cronhpc("stop")
