"""Promise 1 on a real Slurm: wherever a scheduler dies, and whatever the disk refuses, each slot runs exactly once.

A tick with three due entries, yesterday's runs to finish and a chain to keep is killed at every call that changes
anything, in itself and in the commands it starts; the same with a full and with a broken disk. Then clean ticks.
With CRONHPC_ALL_POINTS=1 the points that CI samples are all walked.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cronhpc.batch.port import Submission
from cronhpc.core.model import ClaimState, JobEnd, Key, Result, Submit
from cronhpc.engine import init
from cronhpc.store.claims import Claims
from tests.engine.test_switches_act import Fake, ticked
from tests.lab.conftest import Lab, start, stop
from tests.lab.helpers_cron import DAY, Cron, Expected, finish, give_a_past, judge, judge_after, make
from tests.lab.helpers_points import (
    PROCESS,
    STATE,
    WAIT,
    Point,
    Walked,
    points_of_a_command,
    points_of_a_tick,
    stopped,
    walk,
)
from tests.worlds import write_end

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]  # the walks: minutes, and many of them on a busy machine

EVERY = bool(os.environ.get("CRONHPC_ALL_POINTS"))
KILL = "signal=KILL"
ONE_AT_A_TIME = "scheduler: {parallel: 1}\n"
HOUR = 3600

Maker = Callable[[str], Cron]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Lab]:
    made = start(min_job_age=150)
    yield made
    stop(made)


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Lab]:
    """No accounting, and ended jobs are gone from the queue after two seconds."""
    made = start(min_job_age=2)
    yield made
    stop(made)


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Callable[[str, Walked], None]:
    def say(what: str, walked: Walked) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n  {what}: {walked}\n")

    return say


def maker(lab: Lab, top: Path, settings: str = ONE_AT_A_TIME, *, links: bool = False) -> Maker:
    """Fresh directories with a past; `links`: with a chain that an earlier tick left, and that is to be pushed."""

    def made(name: str) -> Cron:
        (top / name).mkdir()
        cron = make(lab, top / name / "cron", settings=settings)
        give_a_past(cron)
        if links:
            cron.tick(-HOUR - 60)
        return cron

    return made


def sample(points: list[Point], every: int) -> list[list[Point]]:
    return [[point] for point in (points if EVERY else points[::every])]


@pytest.mark.parametrize(
    ("way", "every"),
    [
        ({"links": False}, 1),
        ({"links": True}, 4),
        ({"settings": ""}, 6),
    ],
    ids=["with no link in the queue", "with links to be pushed", "while it submits several at once"],
)
def test_a_tick_killed_at_any_of_its_calls(
    cluster: Lab, tmp_path: Path, tell: Callable[[str, Walked], None], way: dict[str, Any], every: int
) -> None:
    fresh = maker(cluster, tmp_path, **way)
    points = points_of_a_tick(fresh("recorded"), KILL, f"{STATE},{PROCESS},{WAIT}")
    walked = walk(cluster, sample(points, every), fresh)
    tell("a tick killed", walked)
    assert walked.kill_records > len(points) / every * 0.8
    assert walked.wrong == []


def test_a_tick_that_submits_further_attempts_killed_at_any_of_its_calls(
    cluster: Lab, tmp_path: Path, tell: Callable[[str, Walked], None]
) -> None:
    """The first attempts have failed: the tick finishes them, and submits the second ones."""

    def fresh(name: str) -> Cron:
        cron = make(
            cluster,
            tmp_path / name / "cron",
            settings=ONE_AT_A_TIME,
            policies="--retries=2",
            more='[ "$CRONHPC_ATTEMPT" = 2 ]',
        )
        cron.tick()
        cron.wait_quiet()
        cron.strike_at = 130
        return cron

    points = points_of_a_tick(fresh("recorded"), KILL, f"{STATE},{PROCESS}")
    walked = walk(cluster, sample(points, 3), fresh, Expected(dict.fromkeys("abc", 2), rows=2))
    tell("a tick that tries again killed", walked)
    assert walked.kill_records > len(points) / 3 * 0.8
    assert walked.wrong == []


CACHED = """#!/bin/sh
# Within the struck tick each question has the answer that it had first; the word between its columns is new each time.
[ "$DRIVE_QUIET" ] || exec {squeue} "$@"
word=$(echo "$*" | grep -oE '[0-9a-f]{{8}}' | head -n 1)
kept="{folder}/$PPID.$(echo "$*" | sed "s/$word//g" | cksum | cut -d' ' -f1)"
[ -e "$kept" ] || {squeue} "$@" | sed "s/$word/@@@@/g" >"$kept"
sed "s/@@@@/$word/g" "$kept"
"""


def with_cached_squeue(lab: Lab, folder: Path) -> Lab:
    folder.mkdir()
    wrapper = folder / "squeue"
    wrapper.write_text(CACHED.format(squeue=shutil.which("squeue"), folder=folder))
    wrapper.chmod(0o755)
    return replace(lab, facts={**lab.facts, "env": {**lab.facts["env"], "PATH": f"{folder}:{lab.env['PATH']}"}})


def waiting(cron: Cron) -> Cron:
    """Its runs wait for their slots, and a pause is set."""
    cron.tick(-130)
    assert len(cron.runs()) == 3
    (cron.root / "pause" / "ALL").touch()
    cron.strike_at = -18
    return cron


def begin(cron: Cron) -> None:
    """The pause is lifted, the slots come, and what waits still begins."""
    (cron.root / "pause" / "ALL").unlink()
    for run in cron.runs():
        cron.lab.run(["scontrol", "update", f"JobId={run['id']}", "StartTime=now"], check=False)


@pytest.mark.parametrize(
    "way",
    [(KILL, 2, False), (KILL, 2, True), ("error=ENOSPC", 4, False), ("error=EIO", 4, False)],
    ids=["killed", "killed, with a list of a minute ago", "ENOSPC", "EIO"],
)
def test_a_tick_that_takes_runs_back_which_wait_for_their_slots_struck_at_any_of_its_calls(
    cluster: Lab, tmp_path: Path, tell: Callable[[str, Walked], None], way: tuple[str, int, bool]
) -> None:
    """A pause stands. At the next tick it is lifted, the slots have come, and what waits still has begun."""
    fault, every, stale = way
    lab = with_cached_squeue(cluster, tmp_path / "bin") if stale else cluster

    def fresh(name: str) -> Cron:
        return waiting(make(lab, tmp_path / name / "cron", settings=ONE_AT_A_TIME))

    points = points_of_a_tick(fresh("recorded"), fault, f"{STATE},{PROCESS if fault == KILL else 'openat'}")
    walked = walk(cluster, sample(points, every), fresh, meanwhile=begin)
    tell(f"a tick that takes runs back: {fault}", walked)
    assert walked.kill_records > len(points) / every * 0.8
    assert walked.wrong == []


@pytest.mark.parametrize(
    ("program", "nth"),
    [("squeue", 1), ("sbatch", 1), ("sbatch", 2), ("sbatch", 4), ("scontrol", 1)],
    ids=["the query", "the successor's sbatch", "the spare's sbatch", "a run's sbatch", "the release"],
)
def test_a_command_of_a_tick_killed_at_any_of_its_calls_alone_and_with_the_tick(
    cluster: Lab, tmp_path: Path, tell: Callable[[str, Walked], None], program: str, nth: int
) -> None:
    fresh = maker(cluster, tmp_path)
    found = points_of_a_command(fresh("recorded"), program, nth)
    alone = found[:: 1 if EVERY else len(found) // 20 + 1]
    walked = walk(cluster, [[each] for point in alone for each in (point, replace(point, tick_too=True))], fresh)
    tell(f"{program} {nth} killed", walked)
    assert walked.kill_records > len(alone)
    assert walked.wrong == []


@pytest.mark.parametrize(("error", "every"), [("ENOSPC", 1), ("EIO", 1), ("EDQUOT", 6), ("ESTALE", 6)])
def test_a_disk_that_refuses_any_one_call_of_a_tick(
    cluster: Lab, tmp_path: Path, tell: Callable[[str, Walked], None], error: str, every: int
) -> None:
    fresh = maker(cluster, tmp_path)
    points = points_of_a_tick(fresh("recorded"), f"error={error}", f"{STATE},openat")
    walked = walk(cluster, sample(points, every), fresh)
    tell(f"{error} once", walked)
    assert walked.kill_records > len(points) / every * 0.8
    assert walked.wrong == []


def test_the_tick_that_fixes_is_killed_as_well_and_ended_jobs_vanish_at_once(
    forgetful: Lab, tmp_path: Path, tell: Callable[[str, Walked], None]
) -> None:
    seed = int(os.environ.get("CRONHPC_SEED", "7"))
    chance = random.Random(seed)  # noqa: S311 - a lot to draw, no secret
    fresh = maker(forgetful, tmp_path)
    points = points_of_a_tick(fresh("recorded"), KILL, f"{STATE},{PROCESS}")
    rows = [[chance.choice(points), chance.choice(points)] for _ in range(400 if EVERY else 40)]
    walked = walk(forgetful, rows, fresh, Expected(results=frozenset({"ok", "ended, outcome unknown"})))
    tell(f"killed twice, seed {seed}", walked)
    assert walked.wrong == []


# --- each step of the two phases, by hand ---------------------------------------------------------------------------


def claimed(cron: Cron) -> Key:
    key = Key("a", cron.slot)
    assert Claims(cron.root / "state" / "claims").make(key, "a", "a scheduler that died", cron.slot + 5)
    return key


def submitted(cron: Cron, *options: str) -> str:
    """A held job as sbatch leaves it: with the token, and nothing of it on the disk."""
    token = f"cronhpc={cron.id}/{Key('a', cron.slot)}"
    variables = f"CRONHPC_SLOT=x,CRONHPC_DIR={cron.root},CRONHPC_ENTRY=a"
    script = str(cron.root / "cron.d" / "a.slurm")
    log = f"--output={cron.root}/log/%j.out"
    return cron.lab.submit("--hold", f"--comment={token}", f"--export=ALL,{variables}", log, *options, script)


def died_after(cron: Cron, step: str) -> None:
    claims = Claims(cron.root / "state" / "claims")
    key = claimed(cron)
    jobs = []
    if step != "the claim was made":
        jobs = [submitted(cron) for _ in range(3 if "three" in step else 1)]
    if step.startswith(("the id", "the release", "a twin")):
        assert claims.record(key, jobs[0], cron.slot + 6)
    if step == "a twin came late":
        submitted(cron)
    if step.startswith("the release"):
        assert claims.step(key, ClaimState.RELEASING)
    if step == "the release was sent":
        cron.lab.run(["scontrol", "release", jobs[0]])
    if step == "the release was sent, and the run has ended":
        cron.lab.run(["scontrol", "release", jobs[0]])
        cron.wait_quiet()
    if step == "the release was sent, the run has ended, and that was half written":
        cron.lab.run(["scontrol", "release", jobs[0]])
        cron.wait_quiet()
        steps = cron.root / "state" / "claims" / f"{key}.go"
        kept = steps.read_bytes()
        write_end(claims, key, "a", JobEnd(Result.OK, 0), jobs[0], now=cron.slot + 9)
        steps.write_bytes(kept)


@pytest.mark.parametrize(
    "step",
    [
        "the claim was made",
        "sbatch had returned",
        "sbatch had submitted three times",
        "the id was recorded",
        "a twin came late",
        "the release was announced",
        "the release was sent",
        "the release was sent, and the run has ended",
        "the release was sent, the run has ended, and that was half written",
    ],
)
def test_a_scheduler_died_when(cluster: Lab, tmp_path: Path, step: str) -> None:
    cron = make(cluster, tmp_path / "cron")
    died_after(cron, step)
    for after in (20, 60, 120, 180):
        cron.tick(after)
        cron.wait_quiet()
    assert judge(cron, cluster.squeue()) == []


SCRIPTS = {
    "its own comment with a bar": ("#SBATCH --comment='mine | and yours'", 1),
    "arrays": ("#SBATCH --array=1-3", 3),
    "its own begin": ("#SBATCH --begin=now+1", 1),
    "wait": ("#SBATCH --wait", 1),
}


@pytest.mark.parametrize(("directive", "runs"), SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_with_this_directive_runs_so_often(cluster: Lab, tmp_path: Path, directive: str, runs: int) -> None:
    cron = make(cluster, tmp_path / "cron", names="a", directives=directive)
    cron.tick()
    finish(cron)
    assert judge(cron, cluster.squeue(), Expected({"a": runs})) == []


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        pytest.param('a: {{{row}, sbatch: {{comment: "mine |\\nand yours"}}}}', "mine | and yours", id="a row's"),
        pytest.param("a: {{{row}}}", "everybody's", id="everybody's"),
    ],
)
def test_a_comment_in_the_settings_is_the_jobs(cluster: Lab, tmp_path: Path, settings: str, kept: str) -> None:
    """It stands alone from the release on. A newline in it would cut the queue's row in two; a row's own was lost."""
    cron = make(cluster, tmp_path / "cron", names="", started=False)
    at = datetime.fromtimestamp(cron.slot, UTC)
    row = f'schedule: "{at.minute} {at.hour} * * *", command: "echo $CRONHPC_SLOT >>$CRONHPC_DIR/ran/a; sleep 2"'
    rows = settings.format(row=row)
    (cron.root / "cronhpc.yaml").write_text(
        f"timezone: UTC\nsbatch: {{comment: everybody's}}\nentries:\n  {rows}\n", encoding="utf-8"
    )
    cron.tick()
    (run,) = cron.runs()
    assert run["comment"] == kept
    finish(cron)
    assert {name: len(slots) for name, slots in cron.ran().items()} == {"a": 1}
    assert [row["result"] for row in cron.rows() if row["slot"] == cron.slot] == ["ok"]


def test_a_script_that_holds_itself_is_left_held_until_its_owner_releases_it(cluster: Lab, tmp_path: Path) -> None:
    cron = make(cluster, tmp_path / "cron", names="a", directives="#SBATCH --hold")
    for after in (10, 130, 250):
        cron.tick(after)
    (held,) = cron.runs()
    assert held["reason"] == "JobHeldUser"
    cluster.run(["scontrol", "release", held["id"]])
    finish(cron, (370, 490))
    assert judge(cron, cluster.squeue(), Expected({"a": 1})) == []


def cut_off(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


SPOILS: dict[str, Callable[[Path], object]] = {
    "lost": Path.unlink,
    "emptied": lambda path: path.write_bytes(b""),
    "cut off": cut_off,
}


@pytest.mark.parametrize("name", ["entries.json", "cache.json", "id", "environment.json", "history"])
@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_a_state_file_is_no_reason_to_run_anything_again(
    cluster: Lab, tmp_path: Path, spoil: Callable[[Path], object], name: str
) -> None:
    cron = make(cluster, tmp_path / "cron")
    cron.tick()
    cron.wait_quiet()
    for after in (130, 250):
        for path in (cron.root / "state").glob(f"{name}/*" if name == "history" else name):
            spoil(path)
        cron.tick(after)
        cron.wait_quiet()
    assert {entry: len(slots) for entry, slots in cron.ran().items()} == dict.fromkeys("abc", 1)
    assert judge_after(cron) == []
    assert [job for job in cluster.squeue() if job["comment"].startswith(f"cronhpc={cron.id[:3]}/")] == []


def wait_gone(cron: Cron) -> None:
    """Until the controller knows no run any more, ended ones included."""
    cron.lab.wait_for(lambda: not [j for j in cron.jobs_in(cron.lab.squeue(states="all")) if "@" in j["comment"]])


def copied(state: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(state, to)


@pytest.mark.parametrize(
    "attempts", ["", "--retries=1 --retry-delay=1m --record=true"], ids=["one attempt", "attempts that fail"]
)
def test_a_state_folder_brought_back_from_an_older_copy_runs_nothing_again(
    forgetful: Lab, tmp_path: Path, attempts: str
) -> None:
    """Without accounting, and with the jobs gone from the queue: only their logs are left to tell."""
    cron = make(forgetful, tmp_path / "cron", policies=attempts, more="exit 1" if attempts else "")
    cron.tick(-HOUR)
    copies = [tmp_path / "before"]
    copied(cron.root / "state", copies[0])
    afters = (10, 130, 250) if attempts else (10, 130)
    for after in afters:
        cron.tick(after)
        cron.wait_quiet()
        wait_gone(cron)
        copies.append(tmp_path / str(after))
        copied(cron.root / "state", copies[-1])
    ran = cron.ran()
    assert {entry: len(slots) for entry, slots in ran.items()} == dict.fromkeys("abc", 2 if attempts else 1)
    for copy in copies[:-1]:
        copied(copy, cron.root / "state")
        told = cron.tick(370)
        cron.wait_quiet()
        assert "W334" in told
        assert "W334" not in cron.tick(490)
        cron.wait_quiet()
        assert cron.ran() == ran, copy.name


def test_a_whole_directory_brought_back_from_an_older_copy_runs_nothing_again(forgetful: Lab, tmp_path: Path) -> None:
    """Logs and status.json, too: nothing is left to tell what ran since the copy was made."""
    past = (int(time.time()) // 60 - 180) * 60  # so links would begin at once, and tick beside
    cron = make(forgetful, tmp_path / "cron", slot=past, started=False)
    for before in (HOUR, HOUR - 130):
        cron.tick(-before)
    copy = tmp_path / "copy"
    shutil.copytree(cron.root, copy)
    cron.tick(10)
    cron.wait_quiet()
    wait_gone(cron)
    assert {entry: len(slots) for entry, slots in cron.ran().items()} == dict.fromkeys("abc", 1)
    shutil.rmtree(cron.root)
    shutil.copytree(copy, cron.root)
    assert "W334" in cron.tick(370)
    cron.wait_quiet()
    assert cron.ran() == {}
    assert {row["result"] for row in cron.rows() if row["slot"] == cron.slot} == {"missed"}


def test_claims_alone_brought_back_from_the_middle_of_a_tick_run_nothing_again(forgetful: Lab, tmp_path: Path) -> None:
    """Claimed, or submitted, the copy says: and none of it is in the queue any more."""
    cron = make(forgetful, tmp_path / "cron")
    cron.tick(-HOUR)
    before = tmp_path / "before"
    copied(cron.root / "state", before)
    cron.tick()
    cron.wait_quiet()
    ran = cron.ran()
    wait_gone(cron)
    claims = Claims(before / "claims")
    for name in "abc":
        claims.make(Key(name, cron.slot), name, "a tick", cron.slot)
    claims.record(Key("b", cron.slot), "4711", cron.slot)
    claims.record(Key("c", cron.slot), "4712", cron.slot)
    claims.step(Key("c", cron.slot), ClaimState.RELEASING)
    copied(before, cron.root / "state")
    for after in (130, 250, 370):
        cron.tick(after)
        cron.wait_quiet()
    assert cron.ran() == ran
    details = {row["entry"]: row.get("detail", "") for row in cron.rows() if row["slot"] == cron.slot}
    assert "its log shows that it has run" in str(details["a"])
    assert "its log shows that it has run" in str(details["b"])


def test_of_a_recorded_array_a_task_that_failed_counts_though_nobody_else_remembers_it(
    forgetful: Lab, tmp_path: Path
) -> None:
    """All tasks wrote the one file, and the last one had ended well."""
    cron = make(
        forgetful,
        tmp_path / "cron",
        names="a",
        started=False,
        directives="#SBATCH --array=0-3",
        policies="--record=true",
        more='sleep $((6 - 2 * SLURM_ARRAY_TASK_ID)); [ "$SLURM_ARRAY_TASK_ID" != 2 ]',
    )
    cron.tick()
    cron.wait_quiet()
    cron.tick(130)
    (row,) = [row for row in cron.rows() if row["slot"] == cron.slot]
    assert (row["result"], row["detail"]) == ("failed", "array tasks: 2 failed")
    assert not list((cron.root / "state" / "ends").iterdir())


@pytest.mark.parametrize("name", ["entries.json"])
def test_state_of_a_newer_version_is_refused_with_a_word_and_left_as_it_is(
    cluster: Lab, tmp_path: Path, name: str
) -> None:
    cron = make(cluster, tmp_path / "cron")
    path = cron.root / "state" / name
    path.write_text('{"version": 99, "entries": {}}', encoding="utf-8")
    done = cluster.run([sys.executable, "-m", "cronhpc", "tick", "--dir", str(cron.root)], check=False)
    assert done.returncode == 2
    assert "newer cronhpc" in done.stderr
    assert str(path) in done.stderr
    assert cron.runs() == []
    assert path.read_text(encoding="utf-8") == '{"version": 99, "entries": {}}'


# --- several at once ------------------------------------------------------------------------------------------------


def test_a_tick_stopped_at_any_of_its_calls_while_others_finish_the_slot_and_archive_it(
    cluster: Lab, tmp_path: Path, tell: Callable[[str, Walked], None]
) -> None:
    fresh = maker(cluster, tmp_path)
    points = points_of_a_tick(fresh("recorded"), "signal=STOP", f"{STATE},wait4")
    began = time.monotonic()
    rows = sample(points, 3)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda each: overtaken(fresh(f"point{each[0]}"), each[1][0]), enumerate(rows)))
    wrong = [each for row in found for each in row]
    tell("a tick overtaken", Walked(len(rows), len(rows), wrong, time.monotonic() - began))
    assert wrong == []


def overtaken(cron: Cron, point: Point, meanwhile: Callable[[Cron], object] = lambda _: None) -> list[str]:
    """A tick is stopped at `point`; others come, also on the next day; then it goes on."""
    with stopped(cron, point):
        meanwhile(cron)
        for after in (20, 200, DAY + 10, DAY + 200, DAY + 320):
            cron.tick(after)
            cron.wait_quiet()
    cron.wait_quiet()
    for after in (DAY + 440, DAY + 560):
        cron.tick(after)
        cron.wait_quiet()
    ran = cron.ran()
    wrong = [] if all(len(slots) == len(set(slots)) == 2 for slots in ran.values()) and len(ran) == 3 else [str(ran)]
    return [f"{point}: {each}" for each in (*wrong, *judge_after(cron))]


def test_a_tick_that_takes_runs_back_stopped_at_any_of_its_calls_while_others_go_on_with_the_slots(
    cluster: Lab, tmp_path: Path, tell: Callable[[str, Walked], None]
) -> None:
    def fresh(name: str) -> Cron:
        return waiting(make(cluster, tmp_path / name / "cron", settings=ONE_AT_A_TIME))

    points = points_of_a_tick(fresh("recorded"), "signal=STOP", f"{STATE},wait4")
    began = time.monotonic()
    rows = sample(points, 2)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda each: overtaken(fresh(f"point{each[0]}"), each[1][0], begin), enumerate(rows)))
    wrong = [each for row in found for each in row]
    tell("a tick that takes runs back overtaken", Walked(len(rows), len(rows), wrong, time.monotonic() - began))
    assert wrong == []


def test_a_tick_stopped_at_any_of_its_calls_harms_no_run_that_another_has_set_going(
    cluster: Lab, tmp_path: Path, tell: Callable[[str, Walked], None]
) -> None:
    """One that went on cancelled the running job, whose log it took for planted, and wrote down that it was refused."""
    fresh = maker(cluster, tmp_path)
    points = points_of_a_tick(fresh("recorded"), "signal=STOP", f"{STATE},wait4")
    began = time.monotonic()
    rows = sample(points, 2)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda each: overtaken_by_runs(fresh(f"point{each[0]}"), each[1][0]), enumerate(rows)))
    wrong = [each for row in found for each in row]
    tell("a tick overtaken by runs that go on", Walked(len(rows), len(rows), wrong, time.monotonic() - began))
    assert wrong == []


def overtaken_by_runs(cron: Cron, point: Point) -> list[str]:
    """A tick is stopped at `point`; another one submits and releases; then it goes on, beside the runs."""
    for script in (cron.root / "cron.d").iterdir():
        script.write_text(f'{script.read_text()}until [ -e "$CRONHPC_DIR/end" ]; do sleep 0.2; done\n')
    with stopped(cron, point):
        for after in (20, 140, 260):
            cron.tick(after)
    cron.tick(380)
    (cron.root / "end").touch()
    for after in (500, 620):
        cron.wait_quiet()
        cron.tick(after)
    return [f"{point}: {each}" for each in judge(cron, cron.lab.squeue())]


@pytest.mark.parametrize("lease", [True, False], ids=["with a lease", "where the disk gives no lease"])
def test_four_ticks_and_a_run_at_once_make_one_job_a_slot(cluster: Lab, tmp_path: Path, lease: bool) -> None:  # noqa: FBT001 - a situation
    for turn in range(10 if EVERY else 4):
        cron = make(cluster, tmp_path / f"turn{turn}" / "cron", policies="--overlap=allow")
        if not lease:
            (cron.root / "state" / "lease").mkdir()
        commands = [cron.argv("tick", cron.slot + 10 + n) for n in range(4)]
        commands.append(cron.argv("run", cron.slot + 12, "a"))
        processes = [cluster.popen(argv) for argv in commands]
        said = [process.communicate(timeout=180) for process in processes]
        assert {process.returncode for process in processes} == {0}, said
        if not lease:
            (cron.root / "state" / "lease").rmdir()
        cron.tick(30)
        finish(cron)
        ran = cron.ran()
        assert {name: len(slots) for name, slots in ran.items()} == {"a": 2, "b": 1, "c": 1}
        assert len(set(ran["a"])) == 2  # the slot, and the instant that `run` was asked at
        assert judge_after(cron) == []


# --- what is left on the disk ---------------------------------------------------------------------------------------


class Cluster(Fake):
    """Every job has a number of its own, and is gone from the queue by the next tick."""

    def __init__(self) -> None:
        super().__init__([])
        self.numbers = itertools.count(1)

    def submit(self, job: Submission) -> str:
        assert job.held
        return str(next(self.numbers))


def test_after_thirty_days_of_a_hundred_entries_state_has_few_files(tmp_path: Path) -> None:
    """A claim and a command an entry, and a file a month: what ran leaves no trace of its own. (A queue stands in.)"""
    root = tmp_path / "cron"
    init.init(root, {})
    rows = "".join(f'  e{n}: {{schedule: "0 14 * * *", command: "true"}}\n' for n in range(100))
    (root / "cronhpc.yaml").write_text(f"backend: local\ntimezone: UTC\nentries:\n{rows}", encoding="utf-8")
    first = (int(time.time()) // DAY + 2) * DAY + 14 * HOUR + 30
    cluster, runs = Cluster(), 0
    for look in (first + day * DAY + hour * HOUR for day in range(30) for hour in range(3)):  # two of them miss a job
        report = ticked(root, cluster, look)
        runs += sum(isinstance(each.decision, Submit) and each.job_id is not None for each in report.outcomes)
    ticked(root, cluster, first + 30 * DAY - HOUR)
    assert runs == 3000
    files = [path.name for path in (root / "state").rglob("*") if path.is_file()]
    assert len(files) < 300, files
