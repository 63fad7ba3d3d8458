"""bob, of alice's group, tries to make her run, submit, delete or overwrite something: real users, a real Slurm.

Here by scripts, settings, state and switches; test_trust_rooms.py has logs, the scheduler's folder, pages and the rest.
"""

from __future__ import annotations

import os
import struct
import time

import pytest

from tests.lab.helpers_attempts import GROUP, PRECIOUS, World, crashed, opened
from tests.lab.helpers_attempts import world as new_world
from tests.lab.helpers_team import PYTHON

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.getuid() != 0, reason="bob is a second user: only root makes one")]
world = pytest.fixture(new_world)
# What alice has done before; what bob does; and what her tick says of it.
SCRIPTS: dict[str, tuple[str, str, str]] = {
    "a script of his in a folder of hers": ("", 'cp "$evil" $root/cron.d/', ""),
    "a line into her script": ("", "tail -n 1 $evil >>$root/cron.d/mine.slurm", ""),
    "a script that his group may write": (
        opened("$root/cron.d/mine.slurm"),
        "cat $evil >$root/cron.d/mine.slurm",
        "can be written by the group labgroup. Fix it with: chmod g-w",
    ),
    "a script that everybody may write": (
        "chmod o+w $root/cron.d/mine.slurm",
        "cat $evil >$root/cron.d/mine.slurm",
        "can be written by everyone. Fix it with: chmod o-w",
    ),
    "a folder that his group may write": (
        opened("$root/cron.d"),
        "cp $evil $root/cron.d/",
        "cron.d can be written by the group labgroup. Fix it with: chmod g-w",
    ),
    "her script replaced in such a folder": (
        opened("$root/cron.d"),
        "mv $root/cron.d/mine.slurm $root/cron.d/was; cp $evil $root/cron.d/mine.slurm",
        "cron.d can be written by",
    ),
    "a folder that was open once, and is fixed": (
        opened("$root/cron.d"),
        "cp $evil $root/cron.d/",
        "belongs to bob, who is neither you nor root nor among trust.owners",
    ),
    "a folder within a folder": (
        "mkdir $root/cron.d/team; " + opened("$root/cron.d/team"),
        "cp $evil $root/cron.d/team/",
        "its 1 script never runs",
    ),
    "a folder of the kind that holds schedules": (
        opened("$root/cron.hourly"),
        "cp $evil $root/cron.hourly/",
        "cron.hourly can be written by",
    ),
    "a link to his script": ("ln -s $evil $root/cron.d/", "", "bob belongs to bob"),
    "a link to her script in his folder": (
        "ln -s $his/x.slurm $root/cron.d/",
        "cp $evil $his/x.slurm",
        "belongs to bob",
    ),
    "a link into the team's folder, where he puts another": (
        "cp $root/cron.d/mine.slurm $team/x.slurm; ln -s $team/x.slurm $root/cron.d/",
        "rm -f $team/x.slurm; cp $evil $team/x.slurm",
        "team can be written by the group labgroup",
    ),
    "a link that led nowhere until he came": (
        "ln -s $team/later.slurm $root/cron.d/",
        "ln -s $evil $team/later.slurm",
        "team can be written by the group labgroup",
    ),
    "a link to a link of his": (
        "ln -s $his/link $root/cron.d/x.slurm",
        "ln -s $evil $his/link",
        "bob belongs to bob",
    ),
    "a link whose way leads through his folder and back": (
        "ln -s $his/back/x.slurm $root/cron.d/; cp $root/cron.d/mine.slurm $hers/x.slurm",
        "ln -s $hers $his/back; rm $his/back; mkdir $his/back; cp $evil $his/back/x.slurm",
        "belongs to bob",
    ),
    "a folder that is a link to his": (
        "rmdir $root/cron.daily; ln -s $his/daily $root/cron.daily",
        "mkdir $his/daily; sed 's/#CRON.*/#CRON * * * * */' $evil >$his/daily/x.slurm",
        "belongs to bob",
    ),
    "a script under entries: in the team's folder": (
        (
            "install -m 644 $root/cron.d/mine.slurm $team/x.slurm;"
            " echo \"entries: {x: {schedule: '* * * * *', script: $team/x.slurm}}\" >$root/cronhpc.yaml"
        ),
        "mv $team/x.slurm $team/y; cp $evil $team/x.slurm",
        "team can be written by the group labgroup",
    ),
    "her settings, which his group may write": (
        opened("$root/cronhpc.yaml"),
        "cat $his/settings >$root/cronhpc.yaml",
        "cronhpc.yaml can be written by the group labgroup",
    ),
    "her settings, which he lets trust his group": (
        opened("$root/cronhpc.yaml", "$root/cron.d"),
        "cat $his/trusting >$root/cronhpc.yaml; cp $evil $root/cron.d/",
        "cronhpc.yaml can be written by the group labgroup",
    ),
    "settings of his in the place of hers": (
        opened("$root"),
        "mv $root/cronhpc.yaml $root/was; cp $his/trusting $root/cronhpc.yaml; cp $evil $root/cron.d/",
        "E40",
    ),
    "a folder of schedules in the place of hers": (
        opened("$root"),
        "mv $root/cron.d $root/was; mkdir $root/cron.d; cp $evil $root/cron.d/",
        "can be written by the group labgroup",
    ),
    "a script in state/, which his group may write": (
        opened("$root/state", "$root/state/claims") + "; chmod g+x $root/state",
        "cp $his/environment $root/state/environment.json",
        "state can be written by the group labgroup",
    ),
    "state/ that is only his group's to read": (
        "chmod 750 $root/state",
        "touch $root/state/claims/x@20260101T0000Z.1",
        "",
    ),
    "a claim in state/, which is hers alone": ("", 'echo {} >"$root/state/claims/mine@20260101T0000Z.1"', ""),
    "state/ that is a link into the team's folder": (
        "mv $root/state $team/state && ln -s $team/state $root/state",
        "mv $team/state $team/was; mkdir $team/state; cp -r $team/was/* $team/state/",
        "E40",
    ),
}


@pytest.mark.parametrize(("alice", "bob", "said"), SCRIPTS.values(), ids=SCRIPTS)
def test_he_brings_a_script(world: World, request: pytest.FixtureRequest, alice: str, bob: str, said: str) -> None:
    world.does("alice", alice)
    world.does("bob", bob)
    if "fixed" in request.node.name:
        world.does("alice", "chmod g-w $root/cron.d")
    told = world.tick()
    if said not in told:  # what is no script at all is told by check
        told += world.cronhpc("check")
    assert said in told, told
    assert not crashed(told), told
    assert world.harm() == []


def test_the_table_would_see_it_if_he_succeeded(world: World) -> None:
    """alice trusts bob here: so what he brings does run as her, and is found out."""
    (world.root / "cronhpc.yaml").write_text("trust: {owners: [me, bob]}\n", encoding="utf-8")
    world.does("alice", opened("$root/cron.d"))
    world.does("bob", "cp $evil $root/cron.d/")
    world.does("alice", "chmod g-w $root/cron.d")
    world.tick()
    assert world.harm() == ["alice ran alice's script"]


def test_a_group_that_she_trusts_may_write_folders_and_scripts_and_others_run_what_she_wrote(world: World) -> None:
    (world.root / "cronhpc.yaml").write_text(f"trust: {{group: {GROUP}}}\n", encoding="utf-8")
    world.does("alice", opened("$root", "$root/cron.d", "$root/cron.d/mine.slurm"))
    world.does("bob", "cat $evil >$root/cron.d/mine.slurm")
    world.tick()
    assert world.ran_as() == ["alice"]


USER_OBJ, USER, GROUP_OBJ, MASK, OTHER, NOBODY = 1, 2, 4, 16, 32, 0xFFFFFFFF


@pytest.mark.parametrize("where", ["cron.d/mine.slurm", "cron.d", ".", "cronhpc.yaml", "state", "scheduler"])
def test_a_list_that_lets_him_write_is_seen(world: World, where: str) -> None:
    import pwd

    path = world.root / where
    bob = pwd.getpwnam("bob").pw_uid
    rows = [(USER_OBJ, 7, NOBODY), (USER, 7, bob), (GROUP_OBJ, 5, NOBODY), (MASK, 7, NOBODY), (OTHER, 5, NOBODY)]
    raw = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)
    os.setxattr(path, "system.posix_acl_access", raw)
    world.does(
        "bob", "cat $evil >$root/cron.d/mine.slurm; cp $evil $root/cron.d/ || cp $evil $root/scheduler/scheduler.slurm"
    )
    told = world.cronhpc("start") if where == "scheduler" else world.tick()
    assert "can be written by bob (by an ACL)" in told
    assert "setfacl -x u:bob" in told
    assert world.harm() == []


# --- names


NAMES = {
    "the folder above": "..x",
    "an option": "-n",
    "a line end": "x\n.. precious",
    "a shell's words": '$(bash "$evil");`bash "$evil"`;&|',
    "a pattern": "*",
    "a file name's worth": "x" * 255,
    "a terminal's codes": "\x1b]0;owned\x07\x1b[2Jx",
    "a page's tags": "<script>alert(1)<:script>",
    "bytes that are no text": "\udcff\udcfe",
    "a percent sign": "%j%x%%s",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_switch_of_any_name_is_only_named(world: World, name: str) -> None:
    for kind in ("kill", "pause"):
        code = "import os,sys; os.close(os.open(os.fsencode(sys.argv[1]), os.O_CREAT | os.O_WRONLY))"
        world.lab.run([PYTHON, "-c", code, os.fsencode(f"{world.root}/{kind}/{name}")], "bob")  # type: ignore[list-item]  # bytes, as the kernel has names
    told = world.tick() + world.cronhpc("status") + world.cronhpc("plan")
    assert told.count("exit 0") + told.count("exit 1") == 3, told
    assert "\x1b" not in told
    assert "\x07" not in told
    assert world.harm() == []
    page = world.cronhpc("page", "-o", "-") if "<" in name else ""
    assert "<script>alert" not in page


CONTENTS = {
    "codes and tags": ("kill", r"printf '\033]0;x\007\033[31m<b onload=x>\x9b2J' >$root/kill/mine", "mine"),
    "a link to what only she may read": ("kill", "ln -s $hers/precious $root/kill/mine", "mine"),
    "a link to a device": ("kill", "ln -s /dev/zero $root/kill/mine", "mine"),
    "a link to itself": ("pause", "ln -s mine $root/pause/mine", "mine"),
    "a fifo": ("kill", "mkfifo $root/kill/mine", "mine"),
    "a fifo to pause": ("pause", "mkfifo $root/pause/mine", "mine"),
    "a folder": ("kill", "mkdir -p $root/kill/mine/deep", "mine"),
    "ten megabytes": ("kill", "head -c 10000000 /dev/zero >$root/kill/mine", "mine"),
    "a date that cannot be": (
        "kill",
        "echo 'expires: 9999999999w' >$root/kill/mine; touch -d 2400-01-01 $root/kill/mine",
        "mine",
    ),
    "two thousand files": ("kill", "for i in {1..2000}; do : >$root/kill/$i; done; : >$root/kill/mine", "mine"),
}


@pytest.mark.parametrize(("kind", "bob", "name"), CONTENTS.values(), ids=CONTENTS)
def test_a_switch_of_any_kind_stops_and_does_no_more(world: World, kind: str, bob: str, name: str) -> None:
    world.does("bob", bob)
    began = time.monotonic()
    told = world.tick()
    assert time.monotonic() - began < 15
    assert f"{kind}/{name}" in told, told
    status = (world.root / "status.json").read_text(encoding="utf-8")
    for text in (told, status, world.cronhpc("status")):
        assert PRECIOUS.strip() not in text
        assert "\x1b" not in text
    assert world.harm() == []


def test_a_device_in_the_place_of_a_switch_is_not_read(world: World) -> None:
    os.mknod(world.root / "kill" / "mine", 0o666 | 0o020000, os.makedev(1, 5))  # zero: it never ends
    assert "kill/mine" in world.tick()
    assert world.harm() == []


LEADS = {
    "his link to her folder": "ln -s $hers $team/kill",
    "his link to a link of hers": "ln -s $hers/way $team/kill",
    "a folder of hers, moved into its place": "mv $team/hers $team/kill",
}


@pytest.mark.parametrize("bob", LEADS.values(), ids=LEADS)
def test_a_teams_folder_of_switches_that_he_leads_into_hers_shows_and_removes_nothing(world: World, bob: str) -> None:
    team = world.top / "team"
    (world.root / "cronhpc.yaml").write_text(
        f"kill: {{also: [{team}/kill], switches: {{x: {{jobs: {{name: x}}, file: {team}/kill/secret}}}}}}\n",
        encoding="utf-8",
    )
    made = (
        "umask 077; mkdir $team/hers; ln -s $hers $hers/way; for d in $hers $team/hers; do echo HUSH >$d/secret; done"
    )
    world.does("alice", f"{made}; chmod 644 $hers/secret; chmod 700 $hers")
    world.does("bob", bob)
    said = world.tick() + world.cronhpc("status") + world.cronhpc("unkill", "x") + world.cronhpc("unkill", "secret")
    status = (world.root / "status.json").read_text(encoding="utf-8")
    assert "E320" in said, said
    assert "HUSH" not in said + status
    assert "rm " not in said
    secrets = [*world.hers.glob("secret"), *team.glob("*/secret")]
    assert len({path.stat().st_ino for path in secrets}) == 2
    assert world.harm() == []
