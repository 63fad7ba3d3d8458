"""`run --wait`, `run --follow` and `rerun`, on the local backend."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cronhpc.batch.local import Local
from cronhpc.cli import run as by_hand
from cronhpc.core.model import Call, Claim, ClaimState, Done, HistoryRow, Key, Rerun
from cronhpc.engine.site import open_site
from cronhpc.store.claims import Claims
from cronhpc.tick import tick
from cronhpc.views.runs import run_facts
from tests.cli.test_cli import Said, Shell, later, shell

__all__ = ["shell"]


ENDS: dict[str, tuple[str, int, str]] = {
    "a run that ends well": ("true", 0, "job 1: ok"),
    "a script's own exit code": ("exit 3", 3, "job 1: failed (3)"),
    "a signal that ends it": ("kill -9 $$", 137, "job 1: failed"),
}


@pytest.mark.processes
@pytest.mark.parametrize(("text", "code", "words"), ENDS.values(), ids=ENDS)
def test_waiting_for_a_run_ends_with_its_exit_code(shell: Shell, text: str, code: int, words: str) -> None:
    shell.drop("cron.daily/a.slurm", text)
    said = shell("run", "a", "--wait", now=later())
    assert (said.code, words in said.out) == (code, True), said.out + said.err


CODES: dict[str, tuple[dict[str, Any], int]] = {
    "fine": ({"result": "ok"}, 0),
    "failed with a code": ({"result": "failed", "exit_code": 7}, 7),
    "failed by a signal": ({"result": "failed", "exit_code": 0, "signal": 11}, 139),
    "failed, and nobody knows with which code": ({"result": "failed"}, 1),
    "its time was over": ({"result": "timed out"}, 124),
    "out of memory": ({"result": "out of memory"}, 137),
    "its node failed": ({"result": "node failed"}, 75),
    "preempted": ({"result": "preempted"}, 75),
    "cancelled": ({"result": "cancelled"}, 143),
    "killed by a switch": ({"result": "killed"}, 143),
    "nobody knows": ({"result": "ended, outcome unknown"}, 1),
}


@pytest.mark.parametrize(("end", "code"), CODES.values(), ids=CODES)
def test_each_end_has_its_exit_code(end: HistoryRow, code: int) -> None:
    assert by_hand.exit_code(run_facts(end)) == code


@pytest.mark.processes
def test_waiting_tells_the_end_as_json(shell: Shell) -> None:
    shell.drop("cron.daily/a.slurm", "exit 3")
    said = shell("run", "a", "--wait", "--json", now=later())
    assert (said.code, said.json["exit_code"]) == (3, 3)
    assert (said.json["job"], said.json["end"]["result"], said.json["end"]["job"]) == ("1", "failed", "1")


@pytest.mark.processes
def test_following_prints_the_log_until_the_run_has_ended(shell: Shell) -> None:
    shell.drop("cron.daily/a.slurm", "echo first; sleep 0.3; echo last; exit 4")
    said = shell("run", "a", "--follow", now=later())
    assert said.code == 4
    assert said.out.endswith("\nfirst\nlast\n")
    assert said.err.startswith("job 1: failed (4)")


def test_following_is_no_json(shell: Shell) -> None:
    shell.drop("cron.daily/a.slurm")
    said = shell("run", "a", "--follow", "--json", now=later())
    assert (said.code, "--wait" in said.json["error"]) == (2, True)
    assert shell("history", "--json", now=later()).json["runs"] == []


@pytest.mark.processes
def test_a_script_with_an_output_of_its_own_is_waited_for(shell: Shell) -> None:
    shell.drop("cron.daily/a.slurm", f"#SBATCH --output={shell.home}/own.txt\necho hello")
    said = shell("run", "a", "--follow", now=later())
    assert (said.code, "names its own output" in said.err) == (0, True)
    assert (shell.home / "own.txt").read_text(encoding="utf-8") == "hello\n"


@pytest.mark.processes
def test_ctrl_c_leaves_the_run_going_and_says_how_to_see_it(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    shell.drop("cron.daily/a.slurm", "sleep 600")
    monkeypatch.setattr(by_hand, "_end", interrupted)
    said = shell("run", "a", "--wait", now=later())
    assert said.code == 130
    assert "job 1 goes on. See it: cronhpc logs -f a; end it: " in said.err
    batch = Local(shell.cron / "state" / "local", shell.environ)
    assert [job.live for job in batch.queue().jobs] == [True]
    batch.cancel(["1"])


@pytest.mark.processes
def test_a_second_run_beside_one_that_runs_is_only_started_where_that_is_asked_for(shell: Shell) -> None:
    shell.drop("cron.daily/a.slurm", "sleep 600")
    shell("run", "a", now=later())
    refused = shell("run", "a", now=later())
    assert (refused.code, refused.out) == (1, "")
    assert "a runs already: job 1 has not ended. Another beside it: cronhpc run --again a" in refused.err
    said = shell("run", "a", "--again", now=later() + 1)
    assert "note: job 1 of it has not ended: they run side by side" in said.out
    assert shell("run", "a", "--json", now=later() + 2).json["reason"] == "still running"
    assert shell("run", "a", "--again", "--json", now=later() + 2).json["beside"] == ["1", "2"]
    said = shell("run", "a", "--again", now=later() + 3)
    assert "note: jobs 1, 2, 3 of it have not ended: they run side by side" in said.out
    Local(shell.cron / "state" / "local", shell.environ).cancel(["1", "2", "3", "4"])


# --- rerun ------------------------------------------------------------------------------------------------------------


@dataclass
class Flaky:
    """An entry that fails as long as a file is not there, and has failed once as job 1."""

    shell: Shell
    calls: int = 0  # each is a few seconds later

    @property
    def good(self) -> Path:
        return self.shell.home / "good"

    @property
    def slots(self) -> list[str]:
        return (self.shell.home / "slots").read_text(encoding="utf-8").split()

    def __call__(self, *words: str) -> Said:
        self.calls += 3
        return self.shell(*words, now=later() + self.calls)


@pytest.fixture
def flaky(shell: Shell) -> Flaky:
    home = shell.home
    shell.drop("cron.daily/a.slurm", f"echo $CRONHPC_SLOT/$CRONHPC_ATTEMPT >> {home}/slots; test -e {home}/good")
    assert shell("run", "a", "--wait", now=later()).code == 1
    return Flaky(shell)


@pytest.mark.processes
def test_a_failed_slot_runs_again_with_the_same_slot(flaky: Flaky) -> None:
    flaky.good.touch()
    said = flaky("rerun", "a", "--wait")
    assert (said.code, "submitted a as job 2, once more for the slot" in said.out) == (0, True), said.err
    first, second = flaky.slots
    assert second == first.replace("/1", "/2")


@pytest.mark.processes
def test_a_tick_between_the_failure_and_its_rerun_changes_nothing(flaky: Flaky) -> None:
    flaky("tick")
    assert flaky("rerun", "a", "--wait").code == 1
    flaky("tick")
    flaky.good.touch()
    assert flaky("rerun", "1", "--wait").code == 0
    assert [each.partition("/")[2] for each in flaky.slots] == ["1", "2", "3"]
    assert len({each.partition("/")[0] for each in flaky.slots}) == 1
    flaky("tick")
    rows = flaky("history", "--json").json["runs"]
    assert sorted((row["attempt"], row["result"]) for row in rows) == [(1, "failed"), (2, "failed"), (3, "ok")]


@pytest.mark.processes
def test_the_success_of_a_slot_that_ran_again_is_the_slots(shell: Shell) -> None:
    """It ends the streak of failures, and is the last success; one of a run that was by hand from the first is not."""
    good, told = shell.home / "good", shell.home / "told"
    script = f"#CRON * * * * *\necho $CRONHPC_PREVIOUS_SUCCESS > {told}; test -e {good}"
    shell.drop("cron.d/a.slurm", script)
    slot = later() // 60 * 60 + 120
    assert shell("run", "a", "--wait", now=slot - 50).code == 1
    shell("tick", now=slot + 1)
    batch = Local(shell.cron / "state" / "local", shell.environ)
    for _ in range(900):
        if [job.live for job in batch.queue().jobs] == [False, False]:
            break
        time.sleep(0.1)
    shell("tick", now=slot + 20)
    assert streak(shell, slot + 21) == (1, 0)
    good.touch()
    assert shell("rerun", "1", "--wait", now=slot + 25).code == 0
    shell("tick", now=slot + 30)
    assert streak(shell, slot + 31) == (1, 0)
    assert shell("rerun", "2", "--wait", now=slot + 35).code == 0
    shell("tick", now=slot + 40)
    assert streak(shell, slot + 41) == (0, 1)
    assert shell("status", "--json", now=slot + 42).json["attention"] == []
    assert shell("run", "a", "--wait", now=slot + 45).code == 0
    assert told.read_text(encoding="utf-8").strip() == datetime.fromtimestamp(slot, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def streak(shell: Shell, now: int) -> tuple[int, int]:
    [entry] = shell("status", "--json", now=now).json["entries"]
    return entry["failures"], entry["successes"]


NOT_AGAIN: dict[str, tuple[tuple[str, ...], str, str, int]] = {
    "it ended well since": (("rerun a --wait",), "a", "nothing of its newest slot failed (job 2 ended well)", 1),
    "the slot of a job that failed ended well since": (("rerun a --wait",), "1", "nothing of that slot failed", 1),
    "a newer slot ended well": (("run a --wait",), "a", "To run it anew: cronhpc run a", 1),
    "a job that no run was": ((), "77", "No run here was job 77. See: cronhpc history", 2),
    "an entry that there is not": ((), "b", "There is no entry called b.", 2),
    "a switch stands": (("kill a",), "a", "was not submitted: stopped: kill/a", 1),
}


@pytest.mark.processes
@pytest.mark.parametrize(("before", "name", "words", "code"), NOT_AGAIN.values(), ids=NOT_AGAIN)
def test_where_nothing_failed_nothing_runs_again(
    flaky: Flaky, before: tuple[str, ...], name: str, words: str, code: int
) -> None:
    flaky.good.touch()
    for each in before:
        flaky(*each.split())
    ran = len(flaky.slots)
    said = flaky("rerun", name)
    assert (said.code, words in said.out + said.err) == (code, True), said.out + said.err
    assert len(flaky.slots) == ran


def test_an_entry_that_never_ran_has_nothing_to_run_again(shell: Shell) -> None:
    shell.drop("cron.daily/a.slurm")
    said = shell("rerun", "a", now=later())
    assert (said.code, "no run of it has ended yet" in said.out) == (1, True)
    assert shell("rerun", "a", "--json", now=later()).json["job"] is None


@pytest.mark.processes
def test_one_that_runs_is_not_run_beside_itself(flaky: Flaky) -> None:
    (flaky.shell.cron / "cron.daily" / "a.slurm").write_text("#!/bin/bash\nsleep 600\n", encoding="utf-8")
    assert flaky("rerun", "a").code == 0
    said = flaky("rerun", "a")
    assert (said.code, "already claimed: job 2" in said.err) == (1, True), said.err
    Local(flaky.shell.cron / "state" / "local", flaky.shell.environ).cancel(["2"])


STALE: dict[str, Callable[[Flaky], object]] = {
    "the other runs": lambda _: None,
    "the other has ended": lambda flaky: flaky("tick"),
}


@pytest.mark.processes
@pytest.mark.parametrize("meanwhile", STALE.values(), ids=STALE)
def test_two_that_ask_at_once_make_one_run(
    flaky: Flaky, meanwhile: Callable[[Flaky], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one has read all before the other claimed, stands still, and goes on when that has come to an end."""
    key = Key("a", slot_of(flaky), 2, by_hand=True)
    claimed = Claims.make

    def slow(claims: Claims, mine: Key, *words: Any, **more: Any) -> bool:
        monkeypatch.setattr(Claims, "make", claimed)
        assert flaky("rerun", "a", "--wait").code == 1
        meanwhile(flaky)
        return claimed(claims, mine, *words, **more)

    monkeypatch.setattr(Claims, "make", slow)
    monkeypatch.setattr("cronhpc.store.lease._WAITS", 0.0)  # the one at work stands still
    site = open_site(str(flaky.shell.cron), None, flaky.shell.environ)
    [outcome] = tick(site, later(), Call(only="a", rerun=Rerun(key.slot, 2))).outcomes
    assert (outcome.done, outcome.job_id) == (Done.REFUSED, None)
    assert len(flaky.slots) == 2
    assert [each for each in claims(flaky) if each.state is ClaimState.CLAIMED] == []


def claims(flaky: Flaky) -> tuple[Claim, ...]:
    return Claims(flaky.shell.cron / "state" / "claims").read(())


def slot_of(flaky: Flaky) -> int:
    return claims(flaky)[0].key.slot
