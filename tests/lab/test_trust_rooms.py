"""What bob tries by links, swaps and races: in log/, scheduler/, a page's folder, series, tables, his own folders."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.lab.helpers_attempts import EVIL, GROUP, World, crashed, opened
from tests.lab.helpers_attempts import world as new_world
from tests.lab.helpers_team import LIBRARIES, PYTHON

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.getuid() != 0, reason="bob is a second user: only root makes one")]
world = pytest.fixture(new_world)

# --- the scheduler's own folder


def start(world: World) -> None:
    """Her chain stands: a successor and a spare wait, long from now, and the first link has ended."""
    (world.root / "cron.d" / "mine.slurm").unlink()
    (world.root / "cronhpc.yaml").write_text("scheduler: {interval: 30d}\n", encoding="utf-8")
    told = world.cronhpc("start")
    assert "submitted the scheduler" in told, told

    def far_off() -> list[bool]:
        """the successor and the spare, and no link of just now"""
        due = [int(job["comment"].split()[1]) for job in chain(world) if job["state"] == "PENDING"]
        return [at > time.time() + 3600 for at in due] if len(due) == len(chain(world)) else []

    world.lab.wait_for(lambda: far_off() == [True, True])


def chain(world: World) -> list[dict[str, str]]:
    mark = f"cronhpc={(world.root / 'scheduler' / 'id').read_text().strip()}"
    return [job for job in world.lab.squeue("alice") if job["comment"].startswith((f"{mark}/link ", f"{mark}/spare "))]


def links(world: World) -> list[dict[str, str]]:
    return [job for job in chain(world) if job["state"] == "PENDING"]


SWAPPED = {
    "the link's text, in an open folder": (opened("$root/scheduler"), "rm $link; cp $evil $link"),
    "the link's text, itself open": (opened("$root/scheduler/scheduler.slurm"), "cat $evil >$link"),
    "the folder, by a link of hers to the team's": (
        "mv $root/scheduler $team/s; ln -s $team/s $root/scheduler",
        "mv $team/s $team/t; mkdir $team/s; cp -r $team/t/* $team/s/; cp $evil $link",
    ),
}


@pytest.mark.parametrize(("alice", "bob"), SWAPPED.values(), ids=SWAPPED)
def test_a_link_that_is_not_hers_alone_is_submitted_by_nobody(world: World, alice: str, bob: str) -> None:
    start(world)
    world.does("alice", alice)
    world.does("bob", bob)
    for _ in range(4):  # a link that was running may have submitted one more just before it ended
        world.lab.run(["scancel", "--quiet", *(job["id"] for job in links(world))], "alice", check=False)
        time.sleep(1)
    for told in (world.tick(), world.cronhpc("start")):
        assert "can be written by the group labgroup" in told, told
    assert links(world) == []
    assert world.harm() == []


def test_a_link_hands_on_its_own_text_and_not_what_lies_there_now(world: World) -> None:
    start(world)
    world.does("alice", opened("$root/scheduler"))
    world.does(
        "bob", "rm $root/scheduler/scheduler.slurm; cp $evil $root/scheduler/scheduler.slurm; "
        "rm -f $root/scheduler/scheduler.log; ln -s $hers/old.out $root/scheduler/scheduler.log"
    )  # fmt: skip
    waiting = next(job for job in links(world) if "spare" not in job["name"])
    spare = next(job["id"] for job in links(world) if "spare" in job["name"])
    world.lab.run(["scancel", waiting["id"]], "alice")
    world.lab.run(["scontrol", "update", f"JobId={spare}", "StartTime=now"], "alice")
    world.lab.wait_for(lambda: any(int(job["id"]) > int(spare) for job in links(world)))
    world.lab.wait_ended(spare)
    job = world.lab.job(links(world)[0]["id"])
    assert job["StdOut"] == "/dev/null"
    assert world.harm() == []


# --- logs


def test_a_log_folder_that_he_may_write_gets_no_log(world: World) -> None:
    world.does("alice", f"mkdir $root/log/mine; {opened('$root/log/mine')}")
    told = world.tick()
    assert "log/mine can be written by the group labgroup. Fix it with: chmod g-w" in told, told
    assert world.lab.squeue("alice") == []
    assert world.harm() == []


def test_a_log_folder_that_is_his_link_gets_no_log(world: World) -> None:
    world.does("alice", opened("$root/log"))
    world.does("bob", "ln -s $hers $root/log/mine")
    told = world.tick()
    assert "log can be written by the group labgroup" in told, told
    world.does("alice", "chmod g-w $root/log")
    told = world.tick(7300)
    assert "belongs to bob" in told, told
    assert world.lab.squeue("alice") == []


def test_a_link_that_he_left_where_the_log_will_be_is_not_followed(world: World) -> None:
    """The folder was open once; he planted links for the jobs to come; alice has fixed the folder since."""
    world.does("alice", f"mkdir $root/log/mine; {opened('$root/log/mine')}")
    newest = max((int(job["id"].partition("_")[0]) for job in world.lab.squeue(states="all")), default=0)
    slot = (int(time.time()) + 7200) // 60 * 60
    stamps = [time.strftime("%Y%m%dT%H%MZ", time.gmtime(slot + 60 * minute)) for minute in range(-1, 3)]
    world.does(
        "bob",
        f"for s in {' '.join(stamps)}; do for i in {{{newest}..{newest + 30}}}; do"
        " ln -s $hers/precious $root/log/mine/$s-$i.out; done; done",
    )
    world.does("alice", "chmod g-w $root/log/mine")
    told = world.tick()
    assert "was there before the run" in told, told
    assert world.harm() == []


PLANTED = {
    "links": "ln -s $hers $root/log/x; ln -s $hers/old.out $root/log/mine/20200101T0000Z-1.out",
    "a link to the folder above": "ln -s ../.. $root/log/mine/up; ln -s .. $root/log/up",
    "a folder of his": "mkdir $root/log/y && touch -d 2020-01-01 $root/log/y/20200101T0000Z-1.out",
    "names": "cd $root/log/mine && touch -d 2020-01-01 -- -rf '*' '$(touch x)' $'a\\nb' '..x'",
}


@pytest.mark.parametrize("bob", PLANTED.values(), ids=PLANTED)
def test_the_cleaner_deletes_nothing_that_he_points_at(world: World, bob: str) -> None:
    world.does("alice", f"mkdir $root/log/mine; {opened('$root/log')}; {opened('$root/log/mine')}")
    world.does("bob", bob)
    assert not crashed(world.cronhpc("clean"))
    world.tick()
    assert world.harm() == []
    assert (world.root / "cronhpc.yaml").exists()


def test_the_cleaner_takes_no_more_than_one_name_of_a_hard_link(world: World) -> None:
    world.does("alice", "mkdir $root/log/mine")
    for name in ("precious", "old.out"):  # the kernel forbids him to; an older one would not
        os.link(world.hers / name, world.root / "log" / "mine" / f"20200101T0000Z-{len(name)}.out")
    world.cronhpc("clean")
    assert world.harm() == []


def test_folders_swapped_under_the_cleaner_cost_nothing_elsewhere(world: World) -> None:
    world.does("alice", f"mkdir $root/log/mine; {opened('$root/log')}; {opened('$root/log/mine')}")
    world.does(
        "bob", "mkdir $root/log/x; for i in {1..300}; do touch -d 2020-01-01 $root/log/x/20200101T0000Z-$i.out; done"
    )
    swap = "mv -T $root/log/x $root/log/z; ln -s $hers $root/log/x; rm $root/log/x; mv -T $root/log/z $root/log/x"
    with world.racing("bob", swap):
        for _ in range(4):
            world.cronhpc("clean")
    assert world.harm() == []


# --- races


def test_a_script_swapped_between_the_look_and_the_submission_is_never_submitted(world: World) -> None:
    world.does("alice", "install -m 644 $root/cron.d/mine.slurm $team/good; ln -s $team/x.slurm $root/cron.d/")
    world.does("bob", "cp $evil $team/bad")
    with world.racing("bob", "ln -sfn good $team/x.slurm; ln -sfn bad $team/x.slurm"):
        told = [world.tick(7200 + 60 * i) for i in range(4)]
    assert all("team can be written by the group labgroup" in each or "link to nothing" in each for each in told), told
    assert world.harm() == []


def test_a_folder_swapped_between_the_look_and_the_submission_is_never_entered(world: World) -> None:
    world.does("alice", "mkdir $team/day; cp $root/cron.d/mine.slurm $team/day/x.slurm")
    world.does("alice", "rmdir $root/cron.hourly; ln -s $team/day $root/cron.hourly")
    world.does("bob", "mkdir $team/bad; cp $evil $team/bad/x.slurm")
    swap = "mv -T $team/day $team/d; mv -T $team/bad $team/day; mv -T $team/day $team/bad; mv -T $team/d $team/day"
    with world.racing("bob", swap):
        for i in range(4):
            assert not crashed(world.tick(7200 + 60 * i))
    assert world.harm() == []


# --- what is written


def test_a_page_in_the_teams_folder_replaces_a_link_and_follows_none(world: World) -> None:
    with (world.root / "cronhpc.yaml").open("a", encoding="utf-8") as file:
        file.write(f"page: {world.top}/team/page.html\n")
    world.does("bob", "ln -s $hers/page.html $team/page.html")
    world.tick()
    assert world.harm() == []
    assert "<html" in (world.top / "team" / "page.html").read_text(encoding="utf-8")


def test_a_page_is_not_put_into_a_folder_that_he_can_exchange(world: World) -> None:
    with (world.root / "cronhpc.yaml").open("a", encoding="utf-8") as file:
        file.write(f"page: {world.top}/team/www/page.html\n")
    world.does("bob", "ln -s $hers $team/www")
    assert "the page was not written" in world.tick()
    assert world.harm() == []


def test_status_json_is_put_in_the_place_of_a_link(world: World) -> None:
    (world.root / "status.json").unlink(missing_ok=True)
    (world.root / "status.json").symlink_to(world.hers / "old.out")  # from before she closed her folder
    world.tick()
    assert world.harm() == []
    assert not (world.root / "status.json").is_symlink()


# --- bob's own cron directory


def his_directory(world: World) -> Path:
    """A cron directory of bob's, with a script and a command that would run as whoever ticks there."""
    world.does(
        "bob",
        "$python -m cronhpc init --dir $his/cron && cp $evil $his/cron/cron.d/ && chmod -R a+rwX $his/cron;"
        " cp $his/settings $his/cron/cronhpc.yaml; cp $his/status $his/cron/status.json",
    )
    return world.top / "bob" / "cron"


@pytest.mark.parametrize(
    "words",
    [
        "tick",
        "plan",
        "start",
        "start --if-stale",
        "run evil",
        "run x",
        "clean",
        "next",
        "status",
        "check",
        "kill x",
        "doctor",
    ],
)
def test_no_command_on_his_directory_runs_anything_of_his(world: World, words: str) -> None:
    told = world.cronhpc(*words.split(), where=his_directory(world))
    assert not crashed(told), told
    assert "\x1b" not in told
    assert world.lab.squeue("alice") == []
    assert world.harm() == []


def test_a_folder_that_he_prepared_is_not_taken_through_links(world: World) -> None:
    """init would write an id, give kill/ to a group, and make files readable: all of that through his links."""
    world.does(
        "bob",
        "mkdir -p $team/new/scheduler $team/new/state; cd $team/new; ln -s $hers/precious scheduler/id;"
        " ln -s $hers/precious state/id; ln -s $hers kill; ln -s $hers/old.out cronhpc.yaml; chmod -R 777 .",
    )
    told = world.cronhpc("init", "--group", GROUP, where=world.top / "team" / "new")
    assert not crashed(told), told
    assert world.harm() == []
    assert world.hers.stat().st_mode & 0o7777 == 0o755
    assert "exit 2" in world.cronhpc("tick", where=world.top / "team" / "new")


# --- series


AGAIN = """#!/bin/bash
#SBATCH --job-name=train --time=1
{python} -m cronhpc again --after --dir {root} >{out}/said-$SLURM_JOB_ID 2>&1
"""


@pytest.mark.parametrize(("place", "owner"), [("bob", "bob"), ("team", "alice")])
def test_a_train_whose_script_is_not_hers_alone_has_no_next_piece(world: World, place: str, owner: str) -> None:
    script = world.top / place / "train.slurm"
    out = world.top / "out"
    script.write_text(AGAIN.format(python=PYTHON, root=world.root, out=out), encoding="utf-8")
    world.lab.run(["chown", owner, str(script)])
    job = world.lab.submit("--output=/dev/null", str(script), user="alice", env={"PYTHONPATH": LIBRARIES})
    world.does("bob", f"cp $evil {script}.new; mv -f {script}.new {script}")
    world.lab.wait_ended(job)
    told = (out / f"said-{job}").read_text(encoding="utf-8")
    assert "a script that is not trusted" in told, told
    assert world.harm() == []
    assert world.lab.squeue("alice") == []


# --- tables moved in


def test_a_table_of_his_names_nothing_outside_the_folder(world: World) -> None:
    table = "\n".join(
        f"#SCRON --job-name={name}\n#SCRON --output=/dev/null\n* * * * * true"
        for name in ("../../data/precious", "../mine", "/tmp/x", "..", "-n", "a\tb", "$(id)", "x" * 300, "mine")
    )
    (world.top / "out" / "table").write_text(f"{table}\n", encoding="utf-8")
    before = (world.root / "cron.d" / "mine.slurm").read_text(encoding="utf-8")
    told = world.cronhpc("import", "scrontab", str(world.top / "out" / "table"))
    assert not crashed(told), told
    assert (world.root / "cron.d" / "mine.slurm").read_text(encoding="utf-8") == before
    assert {path.parent.name for path in world.root.rglob("*.slurm")} <= {"cron.d", "scheduler"}
    assert world.harm() == []


def test_import_puts_nothing_through_a_link_that_he_left(world: World) -> None:
    world.does("alice", opened("$root/cron.d"))
    world.does("bob", "ln -s $hers/old.out $root/cron.d/job.slurm; ln -s $hers/old.out $root/cron.d/true.slurm")
    (world.top / "out" / "table").write_text("#SCRON -J job\n* * * * * true\n* * * * * true\n", encoding="utf-8")
    world.cronhpc("import", "scrontab", str(world.top / "out" / "table"))
    assert world.harm() == []


def test_his_script_names_are_never_options(world: World) -> None:
    """A file of hers that is called like an option of sbatch is a file."""
    (world.root / "cron.d" / "--wrap=id.slurm").write_text(EVIL.format(out=world.top / "out"), encoding="utf-8")
    world.lab.run(["chown", "alice", str(world.root / "cron.d" / "--wrap=id.slurm")])
    told = world.tick()
    assert not crashed(told), told
    assert world.ran_as() == ["alice"]
