"""Switches: which jobs one reaches, what is done to them and in which order, and what became of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cronhpc.core import alerts, stop
from cronhpc.core.model import (
    PAUSED,
    Call,
    ClaimState,
    Done,
    Entry,
    Finish,
    Job,
    JobEnd,
    KillRecord,
    Outcome,
    Result,
    Scope,
    Series,
    Stop,
    Submit,
    Switches,
    SwitchSetting,
    World,
)
from cronhpc.core.plan import plan
from cronhpc.core.stop import KillRecords, job_words, unmatched, verdict, whole_comment, with_pause_tag
from tests.worlds import ID, at, chain, claim, entry, job, key, link, said, state, switch, world

TR17 = SwitchSetting("training17", jobs="tr17-*")
NOW = "14:00:30"
OTHERS_LINK = "cronhpc=ffffff/link 1795791600 abc"


def pending(number: int, tasks: str = "", **more: Any) -> Job:
    more.setdefault("reason", "Resources")
    return job(number, "PENDING", tasks=tasks, **more)


def by_hand(number: int, tasks: str = "", **more: Any) -> Job:
    return pending(number, tasks, reason="JobHeldUser", **more)


def paused(number: int, tasks: str = "", own: str = "", of: str = ID, **more: Any) -> Job:
    return by_hand(number, tasks, comment=f"{PAUSED}{of} {own}", **more)


def seen(w: World) -> list[str]:
    """What switches do in `w`, one line a decision."""
    return [said(d) for d in stop.decide(w)]


def on(*names: str, jobs: tuple[Job, ...], entries: tuple[Entry, ...] = (), **more: Any) -> World:
    """A world with kill switches of these names; "pause/x" is a pause switch."""
    made = [switch(n.removeprefix("pause/"), "pause" if n.startswith("pause/") else "kill") for n in names]
    more.setdefault("settings", {})
    return world(NOW, *entries, jobs=jobs, switches=tuple(made), **more)


def remembering(w: World, **more: Any) -> World:
    """What the last tick has left."""
    return replace(w, kept=replace(w.kept, **more))


# --- which jobs ----------------------------------------------------------------------------------------------------

RUN = job(7, of=key("e", "14:00"), name="e")
FOREIGN = job(8, name="ft", partition="gpu", account="abc", workdir="/proj/ft/run1")
ROW = {"switches": (TR17,)}


def row(**asked: str) -> dict[str, Any]:
    """Settings with one configured switch, x."""
    return {"switches": (SwitchSetting("x", **asked),)}  # type: ignore[arg-type]  # texts alone


REACHED: dict[str, tuple[World, list[str]]] = {
    "nothing is set": (on(jobs=(RUN, FOREIGN)), []),
    "ALL stops what this directory runs, and no other job": (on("ALL", jobs=(RUN, FOREIGN)), ["ALL: end 7"]),
    "an entry's name stops its runs, whatever their job name": (
        on("e", jobs=(replace(RUN, name="other"), FOREIGN)),
        ["e: end 7"],
    ),
    "an entry of another cron directory is not ours to stop by its name": (
        on("e", jobs=(job(7, comment="cronhpc=ffffff/e@20261127T1400Z.1"),)),
        [],
    ),
    "an entry's odd name": (on("a b/c".replace("/", "%"), jobs=(job(7, of=key("a b%c", "14:00")),)), ["a b%c: end 7"]),
    "a run that was submitted just now and is not listed yet, by its entry, and by its id": (
        on("e", "7", jobs=(FOREIGN,), claims=(claim("e", "14:00", ClaimState.RELEASED, "7", recorded=at(NOW) - 20),)),
        ["e: end 7"],
    ),
    "one of another job name than a configured switch asks for, though its entry is called so": (
        on(
            "training17",
            jobs=(FOREIGN,),
            entries=(entry("tr17-clean", job_name="clean"),),
            claims=(claim("tr17-clean", "14:00", ClaimState.RELEASED, "7", recorded=at(NOW) - 20),),
            settings=ROW,
        ),
        [],
    ),
    "and one whose job name it asks for": (
        on(
            "training17",
            jobs=(FOREIGN,),
            entries=(entry("clean", job_name="tr17-clean"),),
            claims=(claim("clean", "14:00", ClaimState.RELEASED, "7", recorded=at(NOW) - 20),),
            settings=ROW,
        ),
        ["training17: end 7"],
    ),
    "a task of an array that is not listed yet: nobody knows its tasks": (
        on("7_3", jobs=(FOREIGN,), claims=(claim("e", "14:00", ClaimState.RELEASED, "7", recorded=at(NOW) - 20),)),
        [],
    ),
    "and not once more": (
        remembering(
            on("e", jobs=(FOREIGN,), claims=(claim("e", "14:00", ClaimState.RELEASED, "7", recorded=at(NOW) - 20),)),
            kill_records={"7": KillRecord(at(NOW) - 10, "e", "alice", "", "/c/kill/e", cancelled=True)},
        ),
        [],
    ),
    "one that was submitted longer ago than an answer is kept": (
        on("e", jobs=(FOREIGN,), claims=(claim("e", "14:00", ClaimState.RELEASED, "7", recorded=at(NOW) - 200),)),
        [],
    ),
    "a job id": (on("8", jobs=(RUN, FOREIGN)), ["8: end 8"]),
    "the start of a job id is no job id": (on("80", jobs=(FOREIGN, job(801))), []),
    "a job name that nobody configured": (on("ft", jobs=(RUN, FOREIGN)), ["ft: end 8"]),
    "a name is taken whole, and as it is": (on("f*", "FT", "[f]t", "ft ", jobs=(FOREIGN,)), []),
    "an array by its id": (on("57", jobs=(job(57, tasks="0"), pending(57, "[2-9]"))), ["57: pending 57, end 57"]),
    "a task that runs, by squeue's id": (on("57_0", jobs=(job(57, tasks="0"), job(57, tasks="1"))), ["57_0: end 57_0"]),
    "a task that waits among others": (
        on("57_3", jobs=(job(57, tasks="0"), pending(57, "[2-9]"))),
        ["57_3: pending 57_3"],
    ),
    "some tasks, as squeue lists them": (
        on("57_[3-5,8%2]", jobs=(job(57, tasks="4"), pending(57, "[5-9]"))),
        ["57_[3-5,8%2]: pending 57_[5,8], end 57_4"],
    ),
    "a task by the number that it knows itself by": (
        on("58", jobs=(job(57, tasks="0", raw_id="58"), job(57, tasks="1", raw_id="59"), pending(57, "[2-9]"))),
        ["58: end 57_0"],
    ),
    "every third task": (on("57_[2-9:3]", jobs=(pending(57, "[0-9]"),)), ["57_[2-9:3]: pending 57_[2,5,8]"]),
    "a task that is none": (on("57_", "57_x", "57_-1", "57_3-", "57_[0:2]", jobs=(job(57, tasks="0"),)), []),
    "a configured switch by job name pattern": (
        on("training17", jobs=(job(9, name="tr17-a"), job(10, name="tr18")), settings=ROW),
        ["training17: end 9"],
    ),
    "by partition, one of those asked for": (
        on("x", jobs=(pending(9, partition="cpu,gpu"), job(10, partition="cpu")), settings=row(partition="gpu")),
        ["x: pending 9"],
    ),
    "by account": (
        on("x", jobs=(FOREIGN, job(10, account="xyz")), settings=row(account="abc")),
        ["x: end 8"],
    ),
    "by working folder, below it too, and not beside it": (
        on("x", jobs=(FOREIGN, job(10, workdir="/proj/ft2")), settings=row(workdir="/proj/ft/")),
        ["x: end 8"],
    ),
    "all that a row names must fit": (
        on("x", jobs=(FOREIGN, job(10, name="ft", partition="cpu")), settings=row(jobs="f*", partition="gpu")),
        ["x: end 8"],
    ),
    "a row that names nothing reaches nothing": (
        on("x", jobs=(FOREIGN, RUN), settings=row(file="/proj/x")),
        [],
    ),
    "a row's switch also stops a job that bears its name": (
        on("training17", jobs=(job(9, name="training17"),), settings=ROW),
        ["training17: end 9"],
    ),
    "ended jobs are left": (on("ft", jobs=(job(8, "COMPLETED", name="ft"), job(9, "CANCELLED", name="ft"))), []),
    "an unknown queue: nothing is decided": (replace(on("ft", jobs=()), queue=None), []),
    "links are reached by no name": (
        on("ALL", f"cronhpc-{ID}", jobs=(link(4, "15:00"), RUN), chain=chain()),
        ["ALL: end 7"],
    ),
    "nor by a pattern that fits everything": (
        on("x", jobs=(link(4, "15:00"), RUN), settings=row(jobs="*"), chain=chain()),
        ["x: end 7"],
    ),
    "nor those of another cron directory": (
        on("cronhpc-ffffff", jobs=(job(4, "PENDING", comment=OTHERS_LINK, name="cronhpc-ffffff"),)),
        [],
    ),
    "a copied comment of a link protects no job": (
        on("x", jobs=(job(4, comment=OTHERS_LINK, name="x"), job(5, comment=link(9, "15:00").comment, name="x"))),
        ["x: end 4 5"],
    ),
    "of an array of which a task was renamed, the others": (
        on("a", jobs=(job(57, tasks="0", name="a"), job(57, tasks="1", name="kept"), pending(57, "[2-9]", name="a"))),
        ["a: pending 57_[2-9], end 57_0"],
    ),
    "a link by its id": (on("4", jobs=(link(4, "15:00"),), chain=chain()), ["4: pending 4"]),
    "a job of two switches is ended once": (on("8", "ft", jobs=(FOREIGN,)), ["8: end 8"]),
    "a piece by its id: the one queued behind it stays": (
        on("7", jobs=(RUN, by_hand(9, of=key("e", "15:00")), pending(10, name="e2"))),
        ["7: end 7"],
    ),
    "held pieces go as well": (on("e", jobs=(by_hand(9, of=key("e", "15:00")),)), ["e: pending 9"]),
    "jobs held by hand go as well": (on("ft", jobs=(by_hand(9, name="ft"),)), ["ft: pending 9"]),
    "what is ending is said with its nodes": (
        on("ft", jobs=(job(8, "COMPLETING", name="ft", nodes="gpu[1-2]"),)),
        ["ft: ending 8 on gpu[1-2]"],
    ),
    "a suspended job ends, and one whose nodes are being prepared": (
        on("ft", jobs=(job(8, "SUSPENDED", name="ft"), job(9, "CONFIGURING", name="ft"))),
        ["ft: end 8 9"],
    ),
    "a scrontab's own jobs are left alone, and said": (
        on("ft", jobs=(job(8, name="ft", from_scrontab=True), job(9, name="ft"))),
        ["ft: end 9, alone 8"],
    ),
    "where nobody could say whether they are a scrontab's, they wait": (
        on("ft", jobs=(pending(8, name="ft", from_scrontab=None), job(9, name="ft", from_scrontab=None))),
        ["ft: unasked 8 9"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("w", "expected"), REACHED.values(), ids=REACHED)
def test_what_a_kill_switch_reaches(w: World, expected: list[str]) -> None:
    assert seen(w) == expected


def test_an_expired_switch_reaches_nothing_and_holds_nothing() -> None:
    over = (switch("ft", expires=at("13:59")), switch("ft", "pause", expires=at(NOW)))
    assert seen(world(NOW, jobs=(FOREIGN, pending(9, name="ft")), switches=over)) == []


def test_what_cronhpc_has_not_submitted_is_asked_about_before_it_is_touched() -> None:
    jobs = (RUN, FOREIGN, job(9, "COMPLETING", name="ft"), job(10, name="another"), pending(11, name="p"))
    assert stop.strangers(on("ALL", "ft", "pause/p", jobs=jobs)) == ("8", "11")


@pytest.mark.thorough
def test_ten_thousand_jobs_and_hundreds_of_switches_are_matched_in_a_moment() -> None:
    jobs = tuple(job(n, name=f"job{n % 900}") for n in range(1, 10_001))
    w = on(*(f"job{n}" for n in range(0, 900, 3)), *(f"nothing{n}" for n in range(300)), jobs=jobs)
    assert sum(len(d.running) for d in stop.decide(w) if isinstance(d, Stop)) == 3333
    assert len(unmatched(w)) == 300


# --- entries are not submitted -------------------------------------------------------------------------------------

BY_PARTITION = row(partition="gpu")
COVERED: dict[str, tuple[World, bool]] = {
    "by its name": (on("e", jobs=(), entries=(entry(),)), True),
    "by its job name": (on("train", jobs=(), entries=(entry(job_name="train"),)), True),
    "ALL": (on("ALL", jobs=(), entries=(entry(),)), True),
    "another's name": (on("f", jobs=(), entries=(entry(),)), False),
    "a task or job id": (on("57", "57_3", jobs=(), entries=(entry(),)), False),
    "a pattern over its job name": (on("training17", jobs=(), entries=(entry(job_name="tr17-x"),), settings=ROW), True),
    "the partition that its script asks for": (
        on("x", jobs=(), entries=(entry(partition="gpu"),), settings=BY_PARTITION),
        True,
    ),
    "the partition that the settings add": (
        on("x", jobs=(), entries=(entry(options=("--partition=gpu",)),), settings=BY_PARTITION),
        True,
    ),
    "a row's own option is over its script's": (
        on("x", jobs=(), entries=(entry(partition="gpu", options=("--partition=cpu",)),), settings=BY_PARTITION),
        False,
    ),
    "the account that its script asks for": (
        on("x", jobs=(), entries=(entry(account="abc"),), settings=row(account="abc")),
        True,
    ),
    "its working folder": (
        on("x", jobs=(), entries=(entry(chdir="/proj/ft"),), settings=row(workdir="/proj")),
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("w", "covered"), COVERED.values(), ids=COVERED)
def test_nothing_that_a_switch_covers_is_submitted(w: World, covered: bool) -> None:  # noqa: FBT001 - a table
    due = replace(w, states={"e": state("13:00")})
    assert any(isinstance(d, Submit) for d in plan(due).decisions) is not covered


def test_a_job_submitted_ahead_is_cancelled_and_its_slot_recorded_as_stopped() -> None:
    ahead = claim("e", "14:02", ClaimState.RELEASED, "7")
    w = on("e", jobs=(pending(7, of=ahead.key, reason="BeginTime"),), entries=(entry(schedule="*/2 * * * *"),))
    decided = plan(replace(w, claims=(ahead,), states={"e": state("14:00")})).decisions
    assert [d.pending for d in decided if isinstance(d, Stop)] == [("7",)]
    [finished] = [d for d in decided if isinstance(d, Finish)]
    assert finished.job_end == JobEnd(Result.STOPPED, detail="kill/e, by bob")


# --- the warning ---------------------------------------------------------------------------------------------------

WARN = {"switches": (SwitchSetting("t", jobs="tr*", warn_signal="USR1", warn_before=300),)}
TR = job(9, name="tr")

WARNED: dict[str, tuple[World, list[str]]] = {
    "first the signal": (on("t", jobs=(TR,), settings=WARN), ["t: warn USR1 9"]),
    "pending tasks go first": (
        on("t", jobs=(replace(TR, tasks="0"), pending(9, "[1-9]", name="tr")), settings=WARN),
        ["t: pending 9", "t: warn USR1 9"],
    ),
    "while the grace lasts it is waited for": (
        on("t", jobs=(TR,), settings=WARN, warned={"9": at("14:00:00")}),
        ["t: wait for 9"],
    ),
    "then it ends": (on("t", jobs=(TR,), settings=WARN, warned={"9": at("13:55:30")}), ["t: end 9"]),
    "a task that began later has its own grace": (
        on("t", jobs=(TR, job(10, name="tr")), settings=WARN, warned={"9": at("13:50:00")}),
        ["t: end 9", "t: warn USR1 10"],
    ),
    "where no program runs yet nothing is warned": (
        on("t", jobs=(replace(TR, state="CONFIGURING"),), settings=WARN),
        ["t: end 9"],
    ),
    "one that is not listed yet goes if it waits; if it runs it is warned at the next look": (
        on(
            "t",
            jobs=(),
            entries=(entry("train", job_name="tr9"),),
            claims=(claim("train", "14:00", ClaimState.RELEASED, "9", recorded=at(NOW) - 20),),
            settings=WARN,
        ),
        ["t: pending 9"],
    ),
    "a second switch without a warning ends it at once": (
        on("t", "9", jobs=(TR,), settings=WARN),
        ["9: end 9"],
    ),
    "a warning from a clock that was ahead is given again": (
        on("t", jobs=(TR,), settings=WARN, warned={"9": at("16:00")}),
        ["t: warn USR1 9"],
    ),
}


@pytest.mark.parametrize(("w", "expected"), WARNED.values(), ids=WARNED)
def test_what_is_warned_and_for_how_long(w: World, expected: list[str]) -> None:
    assert seen(w) == expected


WAKES = {
    "after a warning the tick comes for the end": (on("t", jobs=(TR,), settings=WARN), "14:05:30"),
    "and so does one in between": (
        on("t", jobs=(TR,), settings=WARN, warned={"9": at("14:00:00")}),
        "14:05",
    ),
    "after a cancel it comes to see whether it is gone": (on("ft", jobs=(FOREIGN,)), "14:02:30"),
    "while it is ending": (on("ft", jobs=(job(8, "COMPLETING", name="ft"),)), "14:02:30"),
    "while anything lives that a switch could reach: within": (on(jobs=(FOREIGN,)), "14:10:30"),
    "a scrontab's own job hurries nobody": (on("ft", jobs=(replace(FOREIGN, from_scrontab=True),)), "14:10:30"),
    "nothing lives: the interval": (on("ft", jobs=()), "15:00"),
}


@pytest.mark.parametrize(("w", "wake"), WAKES.values(), ids=WAKES)
def test_when_the_next_tick_is_wanted(w: World, wake: str) -> None:
    assert plan(w).wake == at(wake)


def test_a_switch_that_expires_is_waited_for() -> None:
    w = world(NOW, jobs=(), switches=(switch("x", "pause", expires=at("14:20")),))
    assert plan(w).wake == at("14:20")


# --- pause ---------------------------------------------------------------------------------------------------------

PAUSES: dict[str, tuple[World, list[str]]] = {
    "pending tasks that nobody holds are held": (
        on("pause/ft", jobs=(pending(8, "[1-9]", name="ft"),)),
        ["hold 8_[1-9]"],
    ),
    "what runs goes on": (on("pause/ft", jobs=(FOREIGN,)), []),
    "what the user holds by hand is left": (on("pause/ft", jobs=(by_hand(8, name="ft"),)), []),
    "what an administrator holds is left": (on("pause/ft", jobs=(pending(8, name="ft", reason="JobHeldAdmin"),)), []),
    "what is paused already is left": (on("pause/ft", jobs=(paused(8, name="ft"),)), []),
    "part of an array, by hand and by us": (
        on("pause/57", jobs=(by_hand(57, "3"), paused(57, "[4-5]"), pending(57, "[6-9]"))),
        ["hold 57_[6-9]"],
    ),
    "one task": (on("pause/57_3", jobs=(pending(57, "[2-9]"),)), ["hold 57_3"]),
    "ALL holds what this directory runs": (
        on("pause/ALL", jobs=(pending(7, of=key("e", "14:00")), pending(8, name="ft"))),
        ["hold 7"],
    ),
    "a configured switch": (on("pause/training17", jobs=(pending(9, name="tr17-a"),), settings=ROW), ["hold 9"]),
    "a scrontab's own jobs are left alone": (on("pause/ft", jobs=(pending(8, name="ft", from_scrontab=True),)), []),
    "two of them hold it once": (on("pause/ft", "pause/8", jobs=(pending(8, name="ft"),)), ["hold 8"]),
    "what a kill switch ends is not held as well": (
        on("8", "pause/ft", jobs=(pending(8, name="ft"),)),
        ["8: pending 8"],
    ),
    "the switch is gone: just the marked ones are released": (
        on(jobs=(by_hand(57, "3"), paused(57, "[4-5]"), pending(57, "[6-9]"))),
        ["unhold 57_[4-5]"],
    ),
    "one of two is gone: still held": (on("pause/8", jobs=(paused(8, name="ft"),)), []),
    "one task stays paused, the others are released": (
        on("pause/57_4", jobs=(paused(57, "[3-6]"),)),
        ["unhold 57_[3,5-6]"],
    ),
    "each of its tasks is paused by a switch of its own": (
        on("pause/57_4", "pause/57_5", jobs=(paused(57, "[4-5]"),)),
        [],
    ),
    "another cron directory's marks are its own": (on(jobs=(paused(8, of="ffffff"),)), []),
    "a marked one that runs gets its comment back": (
        on(jobs=(job(8, comment=f"{PAUSED}{ID} mine"),)),
        ["unhold 8"],
    ),
    "a folder of switches cannot be listed: nothing is released": (
        on(jobs=(paused(8),), switches_unknown=("/proj/kill",)),
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("w", "expected"), PAUSES.values(), ids=PAUSES)
def test_what_a_pause_holds_and_what_its_removal_releases(w: World, expected: list[str]) -> None:
    assert seen(w) == expected


def test_the_users_own_comment_outlives_a_pause() -> None:
    assert paused(8, own="mine, and more").own_comment == "mine, and more"
    assert paused(8).own_comment == ""


def test_a_comment_that_leaves_no_room_for_the_mark_comes_back_whole() -> None:
    """Slurm refuses more than 1,024 bytes: what is cut off is kept."""
    own = "é" * 510
    w = on(jobs=(pending(8, comment=own),))
    text = with_pause_tag(w, pending(8, comment=own))
    assert len(text.encode()) <= 1024
    held = by_hand(8, comment=text)
    assert held.own_comment != own
    assert whole_comment(remembering(w, comments={"8": own}), held) == own
    assert whole_comment(remembering(w, comments={"8": "another"}), held) == held.own_comment
    assert whole_comment(w, pending(8, comment="short")) == "short"


TRAIN = Series(entry("tr", schedule=""))


def test_a_trains_name_reaches_the_piece_that_a_person_started() -> None:
    """It has no mark of ours, and the series may have a name of its own."""
    series = replace(TRAIN, newest="8", entry=replace(TRAIN.entry, job_name="sbatch-name"))
    first, other = job(8, name="sbatch-name"), job(9, name="sbatch-name")
    assert seen(on("tr", jobs=(first, other), series=(series,))) == ["tr: end 8"]
    reborn = on("tr", jobs=(job(8, name="another"),), series=(series,))
    assert seen(reborn) == [], "ids begin anew where a controller lost its state"


def test_a_pause_holds_a_trains_piece_and_leaves_it_its_claim() -> None:
    piece = claim("tr", "15:00", ClaimState.RELEASED, "9")
    w = on("pause/tr", jobs=(pending(9, of=piece.key, reason="BeginTime"),), series=(TRAIN,), claims=(piece,))
    decided = [d for d in plan(w).decisions if not isinstance(d, Stop)]
    assert [said(d) for d in decided] == ["hold 9"]


# --- what became of it ---------------------------------------------------------------------------------------------

KILLED = (Result.KILLED, "kill/e, by bob: loss spikes")


def kill_records(clock: str, **more: bool) -> KillRecord:
    return KillRecord(at(clock), "e", "bob", "loss spikes", "/cron/kill/e", **more)


VERDICTS: dict[str, tuple[World, JobEnd, tuple[Result, str]]] = {
    "cancelled by our hand": (
        on(jobs=(), kill_records={"7": kill_records("14:00", cancelled=True)}),
        JobEnd(Result.CANCELLED, ended=at("14:00:05")),
        KILLED,
    ),
    "warned, and it saved its work and ended well: it is not finished all the same": (
        on(jobs=(), kill_records={"7": kill_records("14:00", warned=True)}),
        JobEnd(Result.OK, 0, ended=at("14:02")),
        KILLED,
    ),
    "warned, and it died of the signal: no failure": (
        on(jobs=(), kill_records={"7": kill_records("14:00", warned=True)}),
        JobEnd(Result.FAILED, signal=10, ended=at("14:00:01")),
        KILLED,
    ),
    "it had ended before": (
        on(jobs=(), kill_records={"7": kill_records("14:00", cancelled=True)}),
        JobEnd(Result.OK, 0, ended=at("13:59:59")),
        (Result.OK, ""),
    ),
    "it ended by itself in the second of the cancel": (
        on(jobs=(), kill_records={"7": kill_records("14:00", cancelled=True)}),
        JobEnd(Result.FAILED, 3, ended=at("14:00")),
        (Result.FAILED, ""),
    ),
    "only the run itself has told how it ended: by the signal of the cancel": (
        on(jobs=(), kill_records={"7": kill_records("14:00", cancelled=True)}),
        JobEnd(Result.FAILED, 143, 15, ended=at("14:00:01")),
        KILLED,
    ),
    "in that very second": (
        on(jobs=(), kill_records={"7": kill_records("14:00", cancelled=True)}),
        JobEnd(Result.FAILED, 143, 15, ended=at("14:00")),
        KILLED,
    ),
    "by such a signal before that": (
        on(jobs=(), kill_records={"7": kill_records("14:00", cancelled=True)}),
        JobEnd(Result.FAILED, 143, 15, ended=at("13:59:59")),
        (Result.FAILED, ""),
    ),
    "nobody remembers how": (
        on(jobs=(), kill_records={"7": kill_records("14:00", cancelled=True)}),
        JobEnd(Result.UNKNOWN),
        KILLED,
    ),
    "the tick that cancelled it died before it wrote that down": (
        on("e", jobs=(), entries=(entry(),)),
        JobEnd(Result.CANCELLED, ended=at("14:00")),
        (Result.KILLED, "kill/e, by bob"),
    ),
    "the same, by its job id": (
        on("7", jobs=(), entries=(entry(),)),
        JobEnd(Result.CANCELLED, ended=at("14:00")),
        (Result.KILLED, "kill/7, by bob"),
    ),
    "cancelled by somebody before the switch was set": (
        on("e", jobs=(), entries=(entry(),)),
        JobEnd(Result.CANCELLED, ended=at("12:59")),
        (Result.CANCELLED, ""),
    ),
    "failed while a switch stands": (
        on("e", jobs=(), entries=(entry(),)),
        JobEnd(Result.FAILED, 1, ended=at("14:00")),
        (Result.FAILED, ""),
    ),
    "guard ended it": (
        on(jobs=()),
        JobEnd(Result.FAILED, 113, ended=at("14:00")),
        (Result.KILLED, "cronhpc guard ended it (exit 113)"),
    ),
    "an ordinary failure": (on(jobs=()), JobEnd(Result.FAILED, 1), (Result.FAILED, "")),
}


@pytest.mark.parametrize(("w", "job_end", "expected"), VERDICTS.values(), ids=VERDICTS)
def test_a_killed_run_is_told_from_a_failed_one(w: World, job_end: JobEnd, expected: tuple[Result, str]) -> None:
    [known] = w.entries or (entry(),)
    told = verdict(w, claim("e", "13:00", ClaimState.RELEASED, "7"), known, job_end)
    assert (told.result, told.detail) == expected
    assert (told.exit_code, told.ended) == (job_end.exit_code, job_end.ended)


def test_a_killed_run_is_not_tried_again() -> None:
    ran = claim("e", "13:00", ClaimState.RELEASED, "7")
    w = world(
        NOW,
        entry(retries=3),
        claims=(ran,),
        states={"e": state("14:00")},
        kill_records={"7": kill_records("14:00", warned=True)},
        job_ends={"7": JobEnd(Result.FAILED, 1, ended=at("14:00:10"))},
    )
    [finished] = [d for d in plan(w).decisions if isinstance(d, Finish)]
    assert (finished.job_end.result, finished.retry_at) == (Result.KILLED, None)


# --- said once -----------------------------------------------------------------------------------------------------


def kills(w: World, unfinished: frozenset[str] = frozenset()) -> KillRecords:
    return KillRecords.of(w, [Outcome(d, Done.OK) for d in stop.decide(w)], unfinished)


def test_what_a_switch_stopped_is_a_row_with_who_when_and_why() -> None:
    jobs = (job(8, name="ft", start=at("04:48"), nodes="gpu1"), pending(9, "[3-10]", name="ft"))
    w = replace(on(jobs=jobs), switches=Switches((switch("ft", reason="loss spikes"),)))
    [row] = kills(w).rows
    assert row == {
        "what": "switch",
        "switch": "ft",
        "by": "bob",
        "reason": "loss spikes",
        "since": at("13:00"),
        "at": at(NOW),
        "jobs": ["9", "8"],
        "warned": [],
        "were": ["8 running 9h12m on gpu1", "9_[3-10] pending"],
    }


def test_it_is_said_once_however_often_it_has_to_be_done() -> None:
    w = on("ft", jobs=(FOREIGN,))
    first = kills(w)
    again = kills(remembering(w, kill_records=first.kill_records))
    assert [len(first.rows), len(again.rows)] == [1, 0]
    assert again.kill_records == first.kill_records


def test_a_warning_and_the_end_are_two_rows() -> None:
    w = on("t", jobs=(TR,), settings=WARN)
    first = kills(w)
    late = remembering(w, kill_records=first.kill_records, warned={"9": at("13:50")})
    rows = [*first.rows, *kills(late).rows]
    assert [(row["warned"], row["jobs"]) for row in rows] == [(["9"], []), ([], ["9"])]
    assert [(each.warned, each.cancelled) for each in first.kill_records.values()] == [(True, False)]


def test_of_a_run_that_was_not_listed_yet_it_is_not_said_that_it_is_gone_while_the_list_may_lack_it() -> None:
    """It was cancelled only if it waited: it may run, and its warning is still to come."""
    released = claim("train", "14:00", ClaimState.RELEASED, "9", recorded=at(NOW) - 20)
    w = on("t", jobs=(), entries=(entry("train", job_name="tr9"),), claims=(released,), settings=WARN)
    unfinished = frozenset({"9"})
    first = kills(w, unfinished)
    soon, later = (replace(remembering(w, kill_records=first.kill_records), now=at(NOW) + n) for n in (10, 120))
    assert [[*row] for row in kills(soon, unfinished).rows] == []
    assert [row["gone"] for row in kills(later, unfinished).rows] == [{"9": 120}]


def test_when_it_is_gone_that_is_said_and_it_is_forgotten_once_its_end_is_recorded() -> None:
    known = {"8": kill_records("14:00", cancelled=True)}
    still = kills(on(jobs=(job(8, "COMPLETING"),), kill_records=known))
    assert (still.rows, still.kill_records) == ([], known)
    gone = kills(on(jobs=(job(8, "CANCELLED"),), kill_records=known), frozenset({"8"}))
    assert [row["gone"] for row in gone.rows] == [{"8": 30}]
    later = kills(on(jobs=(), kill_records=gone.kill_records))
    assert (later.rows, later.kill_records) == ([], {})
    unknown = kills(replace(on(jobs=(), kill_records=known), queue=None))
    assert (unknown.rows, unknown.kill_records) == ([], known)


def test_what_could_not_be_done_is_not_said_to_be_done() -> None:
    w = on("ft", jobs=(FOREIGN,))
    failed = KillRecords.of(w, [Outcome(d, Done.PASSING, "no answer") for d in stop.decide(w)], frozenset())
    assert (failed.rows, failed.kill_records) == ([], {})


JOBS_IN_WORDS = {
    "pending": (pending(9, "[3-10]"), "9_[3-10] pending"),
    "for seconds": (job(9, start=at("14:00:10"), nodes="cpu1"), "9 running 20s on cpu1"),
    "for hours": (job(9, start=at("04:48:10")), "9 running 9h12m"),
    "since a clock that was ahead": (job(9, start=at("15:00")), "9 running"),
}


@pytest.mark.parametrize(("row", "words"), JOBS_IN_WORDS.values(), ids=JOBS_IN_WORDS)
def test_a_job_is_said_in_these_words(row: Job, words: str) -> None:
    assert job_words(row, at(NOW)) == words


def test_who_has_stopped_the_scheduler_gets_switches_alone() -> None:
    """Nothing is submitted by a `kill`: due slots wait for `start`."""
    w = replace(on("ft", jobs=(FOREIGN,), entries=(entry(),)), chain=chain())
    assert [said(d) for d in plan(replace(w, call=Call(scope=Scope.SWITCHES))).decisions] == ["ft: end 8"]
    assert len(plan(w).decisions) > 1


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*", ("e", "my series", "ft")),
        ("f*", ("ft",)),
        ("[em]*", ("e", "my series")),
        ("e*-x", ()),
    ],
)
def test_a_pattern_means_entries_and_jobs_that_are_no_runs_of_theirs(pattern: str, names: tuple[str, ...]) -> None:
    known = (entry(job_name="run-of-e"),)
    series = (Series(entry("my series", "")),)
    w = on(jobs=(FOREIGN, job(9, name="run-of-e")), entries=known, series=series)
    assert stop.matching(w, pattern) == names
    assert stop.is_pattern(pattern)
    assert not stop.is_pattern("57_[1-3]")


# --- names that nothing has, and odd ones --------------------------------------------------------------------------

SOON = "It acts as soon as there is one. To remove it: cronhpc"
UNHEARD: dict[str, tuple[World, list[str]]] = {
    "a misspelt entry": (
        on("bakcup", jobs=(), entries=(entry("backup"),)),
        [f"kill/bakcup: W504 nothing is called bakcup; nearest: backup. {SOON} unkill bakcup"],
    ),
    "a misspelt job": (
        on("pause/trian 17", jobs=(job(8, name="train 17"),)),
        [f"pause/trian 17: W504 nothing is called trian 17; nearest: train 17. {SOON} resume 'trian 17'"],
    ),
    "in other letters": (
        on("all", jobs=()),
        [f"kill/all: W504 nothing is called all; nearest: ALL. {SOON} unkill all"],
    ),
    "nothing near": (
        on("zzz", jobs=(FOREIGN,)),
        [f"kill/zzz: W504 nothing is called zzz. {SOON} unkill zzz"],
    ),
    "a job that is not there": (
        on("4711_3", jobs=()),
        [f"kill/4711_3: W504 no job 4711_3 is in the queue. {SOON} unkill 4711_3"],
    ),
    "what has the name: ALL, an entry, its job name, a series, a configured switch, a job, its id": (
        on(
            *("ALL", "e", "train", "tr", "training17", "ft", "8"),
            jobs=(FOREIGN,),
            entries=(entry(job_name="train"),),
            series=(TRAIN,),
            settings=ROW,
        ),
        [],
    ),
    "one that has stopped what it named": (
        on(
            "ft", jobs=(), kill_records={"8": KillRecord(at("14:00"), "ft", "bob", "", "/cron/kill/ft", cancelled=True)}
        ),
        [],
    ),
    "nobody knows what is in the queue": (replace(on("zzz", jobs=()), queue=None), []),
    "a team's folder: it may be a teammate's": (on("zzz", jobs=(), settings={"kill_also": ("/cron/kill/",)}), []),
    "the same below somebody's home": (on("zzz", jobs=(), settings={"kill_also": ("~/kill",)}), []),
    "another folder is the team's": (
        on("zzz", jobs=(), settings={"kill_also": ("/proj/kill",)}),
        [f"kill/zzz: W504 nothing is called zzz. {SOON} unkill zzz"],
    ),
}


@pytest.mark.parametrize(("w", "expected"), UNHEARD.values(), ids=UNHEARD)
def test_a_name_that_nothing_has_is_said_with_the_nearest(w: World, expected: list[str]) -> None:
    assert [str(problem) for problem in unmatched(w)] == expected


def test_it_acts_as_soon_as_something_is_called_so() -> None:
    w = on("later", jobs=())
    assert (seen(w), len(unmatched(w))) == ([], 1)
    w = on("later", jobs=(job(9, name="later"),))
    assert (seen(w), unmatched(w)) == (["later: end 9"], [])


ODD = ["new\nline", "\x1b[31mred\x1b[0m", "\udcff\udcfe", "a\u202eb", "x" * 255, "\t", "$(touch x)", "-rf"]


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_an_odd_name_is_one_short_printable_line_wherever_it_is_said(name: str) -> None:
    w = on(name, jobs=(job(8, name=name),), entries=(entry(job_name=name),), states={"e": state("13:00")})
    told = [*alerts.conditions(w, {}, (), {}), *unmatched(on(name, jobs=()))]
    texts = [w.switches.listed[0].in_words, *(str(getattr(each, "text", each)) for each in told)]
    texts += [d.detail for d in plan(w).decisions if hasattr(d, "detail")]
    assert len(texts) >= 4
    assert all(text.isprintable() and len(text) < 600 for text in texts)
    assert seen(w) == [f"{name}: end 8"]


def test_people_are_told_who_stopped_what_once_and_again_each_day_while_it_stands() -> None:
    w = replace(on(jobs=(FOREIGN,)), switches=Switches((switch("ft", reason="loss spikes"),)))
    told, known = alerts.messages(alerts.conditions(w, {}, (), kills(w).stopped), {}, w.now, ())
    text = 'kill/ft was set by bob: "loss spikes"'
    assert [(a.phase, a.text) for a in told] == [("new", f"{text}; it stopped 8 running")]
    assert alerts.messages(alerts.conditions(w, {}, (), {}), known, w.now + 3600, ())[0] == []
    [still] = alerts.messages(alerts.conditions(w, {}, (), {}), known, w.now + 86400, ())[0]
    assert (still.phase, still.text, still.since) == ("still", text, w.now)
    [later] = alerts.events(w, (), {"/cron/kill/ft": ["9 running"]}, known)
    assert later.text == f"{text}; it stopped 9 running"
    [over] = alerts.messages([], known, w.now + 90000, ())[0]
    assert (over.phase, over.text) == ("over", "fine again: switch kill/ft")
