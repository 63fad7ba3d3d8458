"""The status screen, word for word, in every situation that a user may meet it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from cronhpc.core.model import (
    Accounting,
    Call,
    Cancel,
    CatchUp,
    ChainFacts,
    Claim,
    ClaimState,
    Disabled,
    Done,
    Entry,
    EntryState,
    Fault,
    HistoryRow,
    Job,
    JobEnd,
    Key,
    Outcome,
    Overlap,
    Policies,
    Problem,
    Queue,
    Release,
    Result,
    SchedulerState,
    Series,
    Submit,
    SubmitLink,
    Switch,
    Switches,
    SwitchKind,
    Unhold,
    Wait,
    Way,
    World,
    entry_id,
    standing_for,
)
from cronhpc.core.plan import plan
from cronhpc.core.slots import text_key
from cronhpc.views import attention, explain, status, text
from cronhpc.views.decisions import Kind
from cronhpc.views.facts import Trouble, as_json, of_json
from cronhpc.views.runs import unfinished
from cronhpc.views.screen import render
from tests.view_situations import (
    ABOUT,
    BACKUP_FILE,
    BOBS,
    CHAIN,
    ENTRIES,
    LINK,
    NOW,
    SPARE,
    STATES,
    WORLD,
    at,
    entry,
    facts_of,
    job,
    running,
    state,
    style,
)
from tests.worlds import waits_for


def screen(world: World, width: int = 0, height: int = 0, *, colour: bool = False) -> str:
    return render(facts_of(world), style(width, height, colour=colour))


FULL = """\
~/cron on cluster lab (slurm)                               Fri 27 Nov 14:07 CET
chain   fine: last tick 14:00:04, next 15:00 (job 4711), spare 15:30 (job 4712)

needs attention
  train-watch        stopped by bob: "loss spikes", since yesterday 22:14  cronhpc unkill train-watch
  backup             failed 3 times in a row, exit 1, last today 04:00     cronhpc logs backup
  cron.hourly/sync~  skipped: an editor's backup file                      Remove it.

ENTRY        NEXT              LAST       RESULT      TOOK   WAITED  STREAK
hub-sync     14:30 (23 min)    14:00      ok          1m12s  3s      41 ok
backup       Sat 04:00 (14 h)  04:00      failed (1)  12s    2m      3 failed
gpu-health   Sat 05:20 (15 h)  05:20      ok          41s    18m     9 ok
train-watch  stopped           Thu 22:00  ok          2s     1s      -"""


def test_the_whole_screen_reads_as_drawn() -> None:
    assert screen(WORLD) == FULL


def test_on_80_columns_nothing_is_wider_and_a_fix_goes_below() -> None:
    shown = screen(WORLD, 80)
    assert max(map(text.width, shown.splitlines())) <= 80
    assert (
        '  train-watch        stopped by bob: "loss spikes", since yesterday 22:14\n'
        "                     cronhpc unkill train-watch\n"
    ) in shown


def test_colour_is_only_added() -> None:
    painted = screen(WORLD, 120, colour=True)
    assert "\x1b[31mfailed (1)\x1b[0m" in painted
    assert re.sub(r"\x1b\[\d+m", "", painted) == screen(WORLD, 120)


QUIET = replace(WORLD, switches=Switches(), skipped=(), states={**STATES, "backup": STATES["gpu-health"]})
NOT_STARTED = replace(QUIET, chain=ChainFacts(wanted=False), queue=Queue(()), kept=SchedulerState())
KILLED = JobEnd(Result.FAILED, exit_code=137, started=at("14:02"), ended=at("14:03"), node="cpu1")
OOM = replace(KILLED, result=Result.OUT_OF_MEMORY, exit_code=None, ended=at("14:05"))
HANGS: dict[str, Any] = {"reason": "stuck in its start, held until: qdel -f 4711", "fault": Fault.STUCK}
DRAINED = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
CHAINS = {
    "all is well": (QUIET, "fine: last tick 14:00:04, next 15:00 (job 4711), spare 15:30 (job 4712)"),
    "a link runs": (
        replace(QUIET, queue=Queue((replace(LINK, id="4700", state="RUNNING", reason="None"), LINK, SPARE))),
        "fine: last tick 14:00:04, running now (job 4700), next 15:00 (job 4711), spare 15:30 (job 4712)",
    ),
    "a link runs, and has not submitted its successor yet": (
        replace(QUIET, queue=Queue((replace(LINK, state="RUNNING", reason="None"), SPARE))),
        "fine: last tick 14:00:04, running now (job 4711), spare 15:30 (job 4712)",
    ),
    "another tick is at work, which sees to the links": (
        replace(QUIET, chain=replace(CHAIN, lease_holder="job 4711 on cpu1")),
        "fine: last tick 14:00:04, next 15:00 (job 4711), spare 15:30 (job 4712)",
    ),
    "ticks have stopped coming": (
        replace(QUIET, kept=SchedulerState(last_tick=at("11:00"))),
        "silent since today 11:00 (3 h ago); next 15:00 (job 4711); spare 15:30 (job 4712)  cronhpc start",
    ),
    "the link is held by its owner": (
        replace(QUIET, queue=Queue((replace(LINK, **waits_for("JobHeldUser")), SPARE))),
        "fine: last tick 14:00:04, next stuck (job 4711, waits: JobHeldUser), spare 15:30 (job 4712)",
    ),
    "the only link is held by its owner": (
        replace(QUIET, queue=Queue((replace(LINK, **waits_for("JobHeldUser")),))),
        (
            "broken: no scheduler job can start; next stuck (job 4711, waits: JobHeldUser); "
            "last tick 14:00:04 (7 min ago)  cronhpc start"
        ),
    ),
    "the link's node does not say that it runs": (
        replace(QUIET, queue=Queue((replace(LINK, **HANGS), SPARE))),
        (
            "fine: last tick 14:00:04, next stuck (job 4711, waits: stuck in its start, held until: qdel -f 4711), "
            "spare 15:30 (job 4712)"
        ),
    ),
    "all nodes are drained, and its time has come": (
        replace(QUIET, queue=Queue((replace(LINK, start=None, **waits_for(DRAINED)), SPARE))),
        (f"late: next stuck (job 4711, waits: {DRAINED}); spare 15:30 (job 4712); last tick 14:00:04 (7 min ago)"),
    ),
    "it is its turn soon": (
        replace(QUIET, queue=Queue((replace(LINK, start=None, reason="Priority"), SPARE))),
        "fine: last tick 14:00:04, next soon (job 4711, waits: Priority), spare 15:30 (job 4712)",
    ),
    "it waits for its turn, in words that only LSF has": (
        replace(QUIET, queue=Queue((replace(LINK, start=None, reason="New job is waiting for scheduling"), SPARE))),
        (
            "fine: last tick 14:00:04, next soon (job 4711, waits: New job is waiting for scheduling), "
            "spare 15:30 (job 4712)"
        ),
    ),
    "all nodes are drained, and its time is to come": (
        replace(QUIET, queue=Queue((replace(LINK, **waits_for(DRAINED)), SPARE))),
        "fine: last tick 14:00:04, next 15:00 (job 4711), spare 15:30 (job 4712)",
    ),
    "another has taken its place": (
        replace(QUIET, queue=Queue((replace(LINK, id="4701", **HANGS), LINK, SPARE))),
        "fine: last tick 14:00:04, next 15:00 (job 4711), spare 15:30 (job 4712)",
    ),
    "no other is there": (
        replace(QUIET, queue=Queue((replace(LINK, **HANGS),))),
        (
            "broken: no scheduler job can start; next stuck (job 4711, waits: stuck in its start, held until: "
            "qdel -f 4711); last tick 14:00:04 (7 min ago)  cronhpc start"
        ),
    ),
    "scheduler/ was removed, and its jobs wait": (
        replace(QUIET, chain=ChainFacts(wanted=False)),
        (
            "on hold: scheduler/started is gone, though nobody has called cronhpc stop; fix it: cronhpc start; "
            "last tick 14:00:04 (7 min ago)  cronhpc start"
        ),
    ),
    "links wait ahead, where jobs may not submit": (
        replace(
            QUIET,
            chain=replace(CHAIN, prequeue=3),
            queue=Queue(
                (LINK, replace(LINK, id="4713", start=at("16:00")), replace(LINK, id="4714", start=at("17:00")))
            ),
        ),
        "fine: last tick 14:00:04, next 15:00 (job 4711), 3 links wait ahead, the last 17:00",
    ),
    "a scrontab calls the ticks": (
        replace(QUIET, chain=ChainFacts(wanted=True, via=Way.SCRONTAB), queue=Queue(())),
        "fine: last tick 14:00:04, next 15:00 (your scrontab)",
    ),
    "its entry there was disabled": (
        replace(QUIET, chain=ChainFacts(wanted=True, via=Way.SCRONTAB, disabled=Disabled.ENTRY_GONE), queue=Queue(())),
        "disabled: its entry is no longer in your scrontab; last tick 14:00:04 (7 min ago)  cronhpc start",
    ),
    "it was started on the local backend, and Slurm is there now": (
        replace(QUIET, chain=ChainFacts(wanted=True, via=Way.LOCAL, disabled=Disabled.ELSEWHERE), queue=Queue(())),
        (
            "started elsewhere: on the local backend, whose daemon runs scripts on one machine, if it still does; "
            "last tick 14:00:04 (7 min ago)  cronhpc start"
        ),
    ),
    "only a login node submits": (
        replace(
            QUIET,
            entries=(),
            chain=ChainFacts(wanted=True, via=Way.LOGIN),
            queue=Queue(()),
            kept=SchedulerState(last_tick=at("14:00:04"), caller="cronhpc tick on login1"),
        ),
        "fine: last tick 14:00:04, by cronhpc tick on login1, runs are queued until tomorrow 14:00",
    ),
    "only a login node submits, and nobody has called there for five hours": (
        replace(
            QUIET,
            entries=(),
            chain=ChainFacts(wanted=True, via=Way.LOGIN),
            queue=Queue(()),
            kept=SchedulerState(last_tick=at("09:00")),
        ),
        "fine: last tick 09:00:00, from a login node, runs are queued until tomorrow 09:00",
    ),
    "only a login node submits, and could not submit all of it": (
        replace(
            QUIET,
            chain=ChainFacts(wanted=True, via=Way.LOGIN),
            queue=Queue(()),
            kept=SchedulerState(last_tick=at("14:00:04"), caller="cronhpc tick on login1"),
        ),
        "fine: last tick 14:00:04, by cronhpc tick on login1, runs are queued until today 14:30",
    ),
    "the folder was moved": (
        replace(QUIET, chain=replace(CHAIN, moved_from="/home/alice/old")),
        "moved: its scheduler jobs look for it in /home/alice/old; last tick 14:00:04 (7 min ago)  cronhpc start",
    ),
    "the link waits for a node": (
        replace(
            QUIET,
            kept=SchedulerState(last_tick=at("11:00")),
            queue=Queue((replace(LINK, start=at("12:00"), reason="Resources"), replace(SPARE, start=at("12:30")))),
        ),
        (
            "silent since today 11:00 (3 h ago); next 12:00 (job 4711, waits: Resources); "
            "spare 12:30 (job 4712)  cronhpc start"
        ),
    ),
    "the successor alone was cancelled: slots would come an hour late, and nobody would know": (
        replace(QUIET, queue=Queue((SPARE,))),
        (
            "late: no successor waits, only the spare; spare 15:30 (job 4712); last tick 14:00:04 (7 min ago)"
            "  cronhpc start"
        ),
    ),
    "two links in a row were killed, and the next one waits: not fine until it is overdue": (
        replace(QUIET, chain=replace(CHAIN, ended_badly={"4708": KILLED, "4709": OOM})),
        (
            "failing: job 4708 failed with exit code 137 on cpu1 at 14:03, job 4709 ran out of memory on cpu1 at "
            "14:05; next 15:00 (job 4711); spare 15:30 (job 4712); last tick 14:00:04 (7 min ago)"
            "  give it more memory: scheduler: {sbatch: {mem: 1G}} in cronhpc.yaml, then cronhpc start"
        ),
    ),
    "the newest link hit its time limit": (
        replace(QUIET, chain=replace(CHAIN, ended_badly={"4709": replace(KILLED, result=Result.TIMEOUT)})),
        (
            "failing: job 4709 hit its time limit on cpu1 at 14:03; next 15:00 (job 4711); spare 15:30 (job 4712); "
            "last tick 14:00:04 (7 min ago)"
            "  give it more time: scheduler: {sbatch: {time: 20}} in cronhpc.yaml, then cronhpc start"
        ),
    ),
    "a daemon's link hit its time limit, which no setting gives": (
        replace(
            QUIET, chain=replace(CHAIN, via=Way.DAEMON, ended_badly={"4709": replace(KILLED, result=Result.TIMEOUT)})
        ),
        (
            "failing: job 4709 hit its time limit on cpu1 at 14:03; next 15:00 (job 4711); spare 15:30 (job 4712); "
            "last tick 14:00:04 (7 min ago)  see scheduler/scheduler.log; a tick now: cronhpc tick"
        ),
    ),
    "it was lost with its node": (
        replace(QUIET, chain=replace(CHAIN, ended_badly={"4709": replace(KILLED, result=Result.NODE_FAIL)})),
        (
            "failing: job 4709 was lost with its node on cpu1 at 14:03; next 15:00 (job 4711); spare 15:30 (job 4712); "
            "last tick 14:00:04 (7 min ago)  see scheduler/scheduler.log; a tick now: cronhpc tick"
        ),
    ),
    "killed, and overdue by now": (
        replace(
            QUIET,
            chain=replace(CHAIN, ended_badly={"4709": KILLED}),
            kept=SchedulerState(last_tick=at("11:00")),
        ),
        (
            "silent since today 11:00 (3 h ago); job 4709 failed with exit code 137 on cpu1 at 14:03; next 15:00 "
            "(job 4711); spare 15:30 (job 4712)"
            "  give it more memory: scheduler: {sbatch: {mem: 1G}} in cronhpc.yaml, then cronhpc start"
        ),
    ),
    "everything was cancelled": (
        replace(QUIET, queue=Queue(())),
        "broken: no scheduler job is in the queue; last tick 14:00:04 (7 min ago)  cronhpc start",
    ),
    "never started": (NOT_STARTED, "not started  cronhpc start"),
    "not started, and nothing to run": (replace(NOT_STARTED, entries=()), "not started  cronhpc start"),
    "ticks come from crontab": (
        replace(NOT_STARTED, kept=SchedulerState(last_tick=at("14:00:04"))),
        "not started; last tick 14:00:04 (7 min ago) came otherwise (a daemon, crontab, by hand)  cronhpc start",
    ),
    "an administrator holds a link": (
        replace(QUIET, queue=Queue((replace(LINK, **waits_for("JobHeldAdmin")),))),
        (
            "on hold: job 4711 is held by an administrator; when that is settled: cronhpc start; "
            "last tick 14:00:04 (7 min ago)  cronhpc start"
        ),
    ),
    "no third submit slot": (
        replace(QUIET, queue=Queue((LINK,)), kept=replace(QUIET.kept, no_spare="only two jobs may be queued")),
        "fine: last tick 14:00:04, next 15:00 (job 4711), no spare: only two jobs may be queued",
    ),
    "a submit limit that others keep full": (
        replace(QUIET, queue=Queue((LINK,)), kept=replace(QUIET.kept, successor="4711", full_since=at("11:00"))),
        (
            "fine: last tick 14:00:04, next 15:00 (job 4711, again: a submit limit has left no place for another since "
            "today 11:00)"
        ),
    ),
    "… and another link has found one since": (
        replace(QUIET, kept=replace(QUIET.kept, successor="4700", full_since=at("11:00"))),
        "fine: last tick 14:00:04, next 15:00 (job 4711), spare 15:30 (job 4712)",
    ),
    "the batch system does not answer": (
        replace(QUIET, queue=None, queue_error="connect failure"),
        "unknown: slurm does not answer; last tick 14:00:04 (7 min ago)  ",
    ),
}


@pytest.mark.parametrize(("world", "line"), CHAINS.values(), ids=CHAINS)
def test_the_chain_in_a_line(world: World, line: str) -> None:
    assert screen(world).splitlines()[1] == f"chain   {line}".rstrip()


def test_stopped_on_purpose_is_said() -> None:
    stopped = replace(NOT_STARTED, chain=replace(NOT_STARTED.chain, stopped=True))
    known = status.facts(stopped, plan(stopped), STATES, ABOUT)
    assert render(known, style()).splitlines()[1] == "chain   stopped by cronhpc stop; no tick yet  cronhpc start"


FINE = {
    "it is its turn soon",
    "all nodes are drained, and its time is to come",
    "all is well",
    "another tick is at work, which sees to the links",
    "a link runs",
    "a link runs, and has not submitted its successor yet",
    "the link is held by its owner",
    "not started, and nothing to run",
    "ticks come from crontab",
    "no third submit slot",
    "a submit limit that others keep full",
    "… and another link has found one since",
    "links wait ahead, where jobs may not submit",
    "a scrontab calls the ticks",
    "only a login node submits",
    "only a login node submits, and nobody has called there for five hours",
    "only a login node submits, and could not submit all of it",
    "the link's node does not say that it runs",  # a problem of the tick says it
    "another has taken its place",
    "it waits for its turn, in words that only LSF has",
}


@pytest.mark.parametrize(("name", "world"), [(name, each[0]) for name, each in CHAINS.items()], ids=CHAINS)
def test_what_is_fine_needs_no_attention(name: str, world: World) -> None:
    assert facts_of(world).needs_attention is (name not in FINE)


def with_entry(one: Entry, state: EntryState | None = None, **facts: object) -> World:
    states = {one.name: state} if state else {}
    return replace(WORLD, entries=(one,), states=states, switches=Switches(), skipped=(), **facts)  # type: ignore[arg-type]  # by name


def with_switch(switch: Switch) -> World:
    return replace(with_entry(entry("backup")), switches=Switches((switch,)))


def ended(failures: int, **facts: object) -> EntryState:
    return replace(STATES["backup"], failures=failures, last={**STATES["backup"].last, **facts})  # type: ignore[typeddict-item]  # by name


def test_how_long_a_run_goes_on_is_about_so_long_where_the_minute_is_told_in_which_it_began() -> None:
    world = with_entry(entry("backup", "0 * * * *"), claims=(RUNS[0],), queue=Queue((LINK, SPARE, RUNS[1])))
    known = facts_of(world)
    known = replace(known, batch=replace(known.batch, name="lsf"))
    shown = next(line for line in render(known, style(0, 0)).splitlines() if line.startswith("backup"))
    assert shown.split()[-4:-1] == ["running", "~7m17s", "~3s"]


@pytest.mark.parametrize(
    ("fault", "fix"),
    [
        pytest.param(Fault.STUCK, "qdel -f 4720", id="it hangs in its start"),
        pytest.param(Fault.ERROR_STATE, "qmod -cj 4720", id="in an error state"),
        pytest.param(Fault.HELD_BY_USER, "qrls 4720", id="it is held"),
        pytest.param(Fault.HELD_BY_ADMIN, "ask an administrator for: qrls 4720", id="its owner may not release it"),
        pytest.param(Fault.HELD, "qrls 4720", id="it was put back so"),
    ],
)
@pytest.mark.parametrize("reason", ["held", "in an error state", "stuck in its end", "none of that"])
def test_a_job_that_cannot_start_is_let_go_by_the_command_for_its_fault(fault: Fault, fix: str, reason: str) -> None:
    """On the screen of all and on that of its entry: qrls does not end an error state. Its reason decides nothing."""
    held = replace(HELD, reason=reason, fault=fault)
    known = facts_of(with_entry(entry("backup"), claims=(RUNS[0],), queue=Queue((LINK, SPARE, held))))
    known = replace(known, batch=replace(known.batch, name="grid_engine"))
    (row,) = attention.rows(known, ())
    assert (row.what, row.fix) == (f"job 4720 cannot start: {reason}", fix)
    assert f"Let it go: {fix}" in explain.render(known.entries[0], known, None, style())


def test_a_job_that_cannot_end_is_named_with_what_ends_it() -> None:
    reason = "stuck in its end: its node does not answer"
    ends = replace(HELD, state="COMPLETING", reason=reason, fault=Fault.UNENDING, nodes="cpu1", start=at("14:00"))
    known = facts_of(with_entry(entry("backup"), claims=(RUNS[0],), queue=Queue((LINK, SPARE, ends))))
    known = replace(known, batch=replace(known.batch, name="grid_engine"))
    (row,) = attention.rows(known, ())
    assert (row.what, row.fix) == (f"job 4720 cannot end: {reason}", "qdel -f 4720")
    assert f"is {reason}. Let it go: qdel -f 4720" in explain.render(known.entries[0], known, None, style())


@pytest.mark.parametrize(
    ("done", "fix"),
    [
        pytest.param(
            Done.FAILED, "cronhpc start, once scheduler.sbatch in cronhpc.yaml is right", id="refused for good"
        ),
        pytest.param(Done.PASSING, "cronhpc start", id="for now: by a limit, or by what stands in ~/.sge_request"),
    ],
)
def test_settings_are_blamed_only_for_a_scheduler_job_that_is_refused_for_good(done: Done, fix: str) -> None:
    known = facts_of(replace(WORLD, queue=Queue(())))
    told = Trouble("submit link", None, "successor", None, None, None, done, "~/.sge_request has -h", NOW)
    rows = attention.rows(replace(known, trouble=(told,)), ())
    assert [row.fix for row in rows if row.kind == "trouble"] == [fix]


def test_what_a_pause_holds_is_no_job_that_cannot_start() -> None:
    """Also where Slurm calls it held by an administrator, as it does of root's own: releasing it is no advice."""
    held = replace(RUNS[1], state="PENDING", **waits_for("JobHeldAdmin"), start=None)
    ours = replace(held, comment=f"cronhpc-paused/{WORLD.directory_id} {held.comment}")
    switch = Switch(SwitchKind.PAUSE, "backup", "/home/alice/cron/pause/backup", "bob", at("12:00"))
    for held_job, words in ((held, 1), (ours, 0)):
        world = with_entry(entry("backup"), claims=(RUNS[0],), queue=Queue((held_job,)))
        known = facts_of(replace(world, switches=Switches((switch,))))
        assert [row.kind for row in known.attention].count("held") == words
        said = explain.render(known.entries[0], known, None, style())
        assert ("scontrol release" in said, "is held by the pause" in said) == (bool(words), not words)


def test_alerts_that_go_nowhere_are_told_before_all_switches_and_entries() -> None:
    unsent = Problem("W350", "1 alert was not sent: mail is away.", "The next tick tries again.")
    known = facts_of(WORLD, problems=(BAD, unsent))
    assert known.attention[0].what == "1 alert was not sent: mail is away"
    assert status.with_switches(known, (), NOW).attention[0].kind == "unsent"
    assert [row.name for row in known.attention].count("W350") == 1


def test_what_was_dropped_just_now_says_from_when_it_is_looked_at() -> None:
    known = facts_of(with_entry(replace(entry("backup"), fresh=True)))
    words = "dropped or edited just now: looked at from 14:07:23"
    assert f"backup: {words}" in render(known, style())
    assert f"It was {words}." in explain.render(known.entries[0], known, None, style())
    world = replace(WORLD, entries=tuple(replace(entry(name), fresh=True) for name in "abcdef"))
    assert f"a, b and 4 others: {words}" in render(facts_of(world), style()), "three were told of, as if they were all"


def used_up(**facts: object) -> EntryState:
    return EntryState(watermark=at("04:00"), last={"entry": "backup", "slot": at("04:00"), **facts})  # type: ignore[typeddict-item]  # by name


LAST = {
    "a piece that a switch took back": (
        used_up(result="stopped", job="27", detail="kill/backup, by bob"),
        "as job 27, and was stopped by a switch (kill/backup, by bob).",
    ),
    "a run that made room for the next": (
        used_up(result="killed", job="27", detail="replaced by the slot 20261127T0500"),
        "as job 27, and was killed (replaced by the slot 20261127T0500).",
    ),
    "a slot of which no job was submitted": (
        used_up(result="cancelled", detail="its entry is gone"),
        "Today's 04:00 was cancelled: its entry is gone.",
    ),
}


@pytest.mark.parametrize(("state", "sentence"), LAST.values(), ids=LAST)
def test_the_last_run_is_told_by_what_ended_it(state: EntryState, sentence: str) -> None:
    known = facts_of(with_entry(entry("backup"), state))
    assert sentence in explain.render(known.entries[0], known, None, style())


RUNS = running("backup", at("14:00"), "4720")
BESIDE = running("backup", at("14:05"), "4721")
AHEAD = [
    running("backup", at(when), job_id) for when, job_id in (("15:00", "4722"), ("16:00", "4723"), ("17:00", "4724"))
]
HELD = replace(RUNS[1], state="PENDING", **waits_for("launch failed requeued held"), start=None)
OVER = replace(RUNS[1], state="COMPLETED", submitted=at("14:00"), ended=at("14:05:03"))
UNREADABLE = Problem(
    "E310", "cannot be read (Permission denied): its entries wait.", "Make it readable: chmod u+rx /c/cron.d", "cron.d"
)
BAD = Problem("E101", '"0/15 * * * *": cron has no 0/15.', "Write */15.", "cron.d/sync.slurm", 3)
ATTENTION = {
    "a pause switch": (
        with_switch(Switch(SwitchKind.PAUSE, "ALL", "/home/alice/cron/pause/ALL", "bob", at("12:00"))),
        "ALL  paused by bob, since today 12:00  cronhpc resume ALL",
    ),
    "a switch on a job that has ended": (
        with_switch(Switch(SwitchKind.KILL, "27", "/home/alice/cron/kill/27", "bob", at("12:00"))),
        "27  stopped by bob; that job has ended, since today 12:00  cronhpc unkill 27",
    ),
    "a switch on a job that runs": (
        replace(
            with_switch(Switch(SwitchKind.KILL, "4720_3", "/home/alice/cron/kill/4720_3", "bob", at("12:00"))),
            claims=(RUNS[0],),
            queue=Queue((RUNS[1],)),
        ),
        "4720_3  stopped by bob, since today 12:00  cronhpc unkill 4720_3",
    ),
    "an array of which tasks failed": (
        with_entry(entry("backup"), ended(1, job="27", tasks="3,5-7")),
        "backup  failed, exit 1, last today 04:00  cronhpc logs 27_3",
    ),
    "a switch in a team's folder": (
        with_switch(Switch(SwitchKind.KILL, "ALL", "/proj/kill/ALL", "bob", at("12:00"))),
        "ALL  stopped by bob, since today 12:00  rm /proj/kill/ALL",
    ),
    "a switch that is over": (
        with_switch(replace(BOBS, expires=at("13:00"))),
        "train-watch  a kill switch by bob that is over, expired today 13:00  cronhpc unkill train-watch",
    ),
    "a suspended entry": (
        with_entry(entry("backup"), replace(STATES["backup"], suspended=at("04:02:18"))),
        "backup  suspended after 3 failures in a row, since today 04:02  cronhpc resume backup",
    ),
    "an entry that cannot be": (
        with_entry(entry("sync", problem=BAD)),
        'sync  cron.d/sync.slurm:3: "0/15 * * * *": cron has no 0/15  Write */15.',
    ),
    "one that timed out": (
        with_entry(entry("backup"), ended(1, result="timed out")),
        "backup  timed out, exit 1, last today 04:00  cronhpc logs backup",
    ),
    "one that fails each second time, and is skipped in between": (
        with_entry(entry("backup"), ended(4, result="skipped")),
        ("backup  failed 4 times in a row, and has not gone well since; the last slot: skipped, slot today 04:00  "
        "cronhpc history backup"),
    ),
    "one that was preempted": (
        with_entry(entry("backup"), ended(0, result="preempted", exit_code=None)),
        "backup  preempted, last today 04:00  cronhpc logs backup",
    ),
    "accounting that gives no answer": (
        with_entry(
            entry("backup"),
            claims=(RUNS[0],),
            queue=Queue((LINK, SPARE)),
            kept=SchedulerState(last_tick=at("14:00:04"), absent={"4720": NOW - 600}),
            accounting=Accounting(exists=True, trouble="Connection refused"),
        ),
        ("accounting  gives no answer (Connection refused); how 1 run ended is not known yet  "
        "wait: each tick asks again; or look: sacct"),
    ),
    "one that was missed": (
        with_entry(entry("backup"), used_up(result="missed", detail="600 s late, deadline 300 s")),
        "backup  missed: 600 s late, deadline 300 s, slot today 04:00  cronhpc run backup",
    ),
    "a job that is held": (
        with_entry(entry("backup"), claims=(RUNS[0],), queue=Queue((LINK, SPARE, HELD))),
        "backup  job 4720 cannot start: launch failed requeued held, since today 14:00  scontrol release 4720",
    ),
    "a job that ends again and again so that it is put back into the queue": (
        with_entry(
            entry("backup"),
            claims=(RUNS[0],),
            queue=Queue((LINK, SPARE, replace(HELD, **waits_for("BeginTime"), restarts=9))),
        ),
        ("backup  job 4720 was restarted 9 times: Slurm puts it back into the queue each time it ends, "
        "since today 14:00  cronhpc logs backup"),
    ),
    "a job that asks for more than its partition gives": (
        with_entry(
            entry("backup"),
            claims=(RUNS[0],),
            queue=Queue((LINK, SPARE, replace(HELD, **waits_for("QOSMaxWallDurationPerJobLimit")))),
        ),
        "backup  job 4720 cannot start: QOSMaxWallDurationPerJobLimit, since today 14:00  scancel 4720",
    ),
    "no answer": (
        with_entry(entry("backup"), queue=None, queue_error="Unable to contact slurm controller"),
        ("slurm  does not answer (Unable to contact slurm controller); this is what was known, as of today 14:00  "
        "wait, or look: squeue --me"),
    ),
    "a folder that cannot be read": (
        replace(with_entry(entry("backup")), skipped=(UNREADABLE,)),
        "cron.d  cannot be read (Permission denied): its entries wait  Make it readable: chmod u+rx /c/cron.d",
    ),
    "a reason that plays with the terminal": (
        with_switch(replace(BOBS, reason="\x1b[2J\u202egone\nnow")),
        'train-watch  stopped by bob: "\\e[2J\\u202egone now", since yesterday 22:14  cronhpc unkill train-watch',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("world", "line"), ATTENTION.values(), ids=ATTENTION)
def test_each_complaint_says_what_and_ends_with_its_fix(world: World, line: str) -> None:
    shown = screen(world).splitlines()
    block = shown[shown.index("needs attention") + 1 :]
    assert block[: block.index("")] == [f"  {line}"]


SILENT_ENDS: dict[str, Any] = {
    "job_ends": {},
    "kept": SchedulerState(last_tick=at("14:00:04"), absent={"4720": NOW - 600, "4721": NOW - 600}),
    "accounting": Accounting(exists=True, trouble="Connection refused"),
}
ROWS = {
    "never ran": (with_entry(entry("backup")), "backup  15:00 (53 min)  -  not yet  -  -  -"),
    "runs now": (
        with_entry(entry("backup", "0 * * * *"), claims=(RUNS[0],), queue=Queue((LINK, SPARE, RUNS[1]))),
        "backup  15:00 (53 min)  14:00  running  7m17s  3s  -",
    ),
    "two run side by side": (
        with_entry(
            entry("backup", "0 * * * *"),
            claims=(RUNS[0], BESIDE[0]),
            queue=Queue((LINK, SPARE, RUNS[1], BESIDE[1])),
        ),
        "backup  15:00 (53 min)  14:00  running (2)  7m17s  3s  -",
    ),
    "one runs, and how an earlier one ended is not known": (
        with_entry(
            entry("backup", "0 * * * *"),
            claims=(RUNS[0], BESIDE[0]),
            queue=Queue((LINK, SPARE, BESIDE[1])),
            **SILENT_ENDS,
        ),
        "backup  15:00 (53 min)  14:05  running  2m17s  3s  -",
    ),
    "how two ended is not known": (
        with_entry(
            entry("backup", "0 * * * *"), claims=(RUNS[0], BESIDE[0]), queue=Queue((LINK, SPARE)), **SILENT_ENDS
        ),
        "backup  15:00 (53 min)  14:05  ended (2)  -  -  -",
    ),
    "waits in the queue": (
        with_entry(
            entry("backup", "0 * * * *"),
            claims=(RUNS[0],),
            queue=Queue((LINK, SPARE, replace(RUNS[1], state="PENDING", reason="Priority"))),
        ),
        "backup  15:00 (53 min)  14:00  pending  -  7m20s  -",
    ),
    "ended since the last tick": (
        with_entry(
            entry("backup", "0 * * * *"),
            EntryState(watermark=at("14:00")),
            claims=(RUNS[0],),
            queue=Queue((LINK, SPARE, OVER)),
        ),
        "backup  15:00 (53 min)  14:00  ok  5m  3s  -",
    ),
    "its second attempt has ended since the last tick": (
        with_entry(
            entry("backup", "0 * * * *"),
            state("backup", at("14:00"), "failed", exit_code=1, job="4716"),
            claims=(replace(RUNS[0], key=replace(RUNS[0].key, attempt=2)),),
            queue=Queue((LINK, SPARE, OVER)),
        ),
        "backup  15:00 (53 min)  14:00  ok  5m  3s  -",
    ),
    "killed by a signal": (
        with_entry(entry("backup"), ended(1, exit_code=None, signal=9)),
        "backup  Sat 04:00 (14 h)  04:00  failed (signal 9)  12s  2m  1 failed",
    ),
    "several slots were skipped": (
        with_entry(entry("backup"), used_up(result="skipped", count=3)),
        "backup  Sat 04:00 (14 h)  04:00  skipped (3)  -  -  -",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("world", "row"), ROWS.values(), ids=ROWS)
def test_an_entry_in_a_row(world: World, row: str) -> None:
    shown = screen(world).splitlines()
    title = next(n for n, line in enumerate(shown) if line.startswith("ENTRY"))
    assert re.split(r" {2,}", shown[title + 1]) == row.split("  ")


@pytest.mark.parametrize("overlap", ["skip", "replace"])
def test_of_a_run_that_waits_for_its_slot_behind_a_live_one_it_is_said_that_it_starts_all_the_same(
    overlap: str,
) -> None:
    (now, job_now), (following, job_following) = running("fit", at("14:00"), "7"), running("fit", at("14:10"), "8")
    ahead = replace(job_following, state="PENDING", start=at("14:10"))
    world = replace(
        QUIET,
        entries=(replace(entry("fit", "*/10 * * * *"), policies=Policies(overlap=Overlap(overlap))),),
        claims=(now, following),
    )
    shown = screen(replace(world, queue=Queue((job_now, ahead))))
    assert shown.endswith("fit: the next run is already queued, and starts even if this one still runs")


def test_after_a_drop_the_next_time_and_the_command_for_now_are_said() -> None:
    fresh = entry("new", born=NOW - 10)
    shown = screen(with_entry(fresh))
    assert shown.endswith("\n\nnew has not run yet: next Sat 04:00 (in 14 h); now: cronhpc run new")


def test_an_empty_directory_tells_the_first_steps() -> None:
    shown = screen(replace(NOT_STARTED, entries=(), states={}))
    assert "There are no entries yet." in shown
    assert "cp job.slurm ~/cron/cron.daily/" in shown
    assert "cronhpc start" in shown
    assert max(map(len, shown.splitlines())) <= 80, "the first screen of all was 102 wide"
    elsewhere = replace(style(), directory="/proj/a folder/of/a/long/name")
    far = render(facts_of(replace(NOT_STARTED, entries=(), states={})), elsewhere)
    assert "cronhpc start --dir '/proj/a folder/of/a/long/name'  then it runs by itself" in far


def test_one_cause_for_290_entries_is_told_once_and_json_keeps_each() -> None:
    """They were told one by one: 290 times where nobody cut them to the height of a terminal."""
    full = replace(KILLED, result=Result.REFUSED, exit_code=None, detail="Invalid account")
    names = [f"e{number:03}" for number in range(290)]
    row: HistoryRow = {"result": "refused", "detail": full.detail, "what": "run", "slot": at("14:00")}
    states = {name: EntryState(last={**row, "key": str(Key(name, at("14:00"))), "entry": name}) for name in names}
    world = replace(QUIET, entries=tuple(map(entry, names)), states=states)
    [told] = [line for line in screen(world).splitlines() if "Invalid account" in line]
    assert told == (
        "  e000  refused (Invalid account); the same for e001, e002, e003 and 286 more, last today 14:00  "
        "cronhpc status e000"
    )
    assert len(facts_of(world).attention) == 290
    assert render(facts_of(world), style(), everything=True).count("Invalid account") == 290


def test_entries_that_differ_in_more_than_their_names_are_told_one_by_one() -> None:
    """Their names were cut out of the sentences: an entry called 1 with exit code 1 was as one called 2 with 2."""
    names = ["1", "2", "3", "4"]
    states = {name: ended(int(name), exit_code=int(name)) for name in names}
    shown = screen(replace(QUIET, entries=tuple(map(entry, names)), states=states))
    assert "; the same for" not in shown
    assert "failed 4 times in a row, exit 4" in shown


def test_scripts_that_several_may_write_are_told_by_whom() -> None:
    """The first one's writer was told as that of all."""
    writers = {"a": "everyone", "b": "the group lab", "c": "the group lab", "d": "eve (by an ACL)", "e": "everyone"}
    entries = []
    for name, by in writers.items():
        file = f"cron.d/{name}.slurm"
        what = f"/home/u/cron/{file} can be written by {by}."
        problem = Problem("E404", what, "Fix it with: chmod", file, key=by)
        entries.append(replace(entry(name), source=file, problem=problem))
    shown = screen(replace(QUIET, entries=tuple(entries)))
    assert "the same for" not in shown
    assert {by: shown.count(f"can be written by {by}") for by in writers.values()} == {
        "everyone": 2,
        "the group lab": 2,
        "eve (by an ACL)": 1,
    }
    alike = tuple(
        replace(each, problem=replace(each.problem, what=what.replace("the group lab", "everyone"), key="everyone"))
        for each in entries
        if each.problem and each.name != "d" and (what := each.problem.what)
    )
    assert "can be written by everyone; the same for b, c and e" in screen(replace(QUIET, entries=alike))


def test_two_runs_of_one_entry_that_one_limit_kept_back_name_it_once() -> None:
    """`the same for backup` stood behind backup's own row."""
    world = with_entry(entry("backup", "0 13,14 * * *", policies=Policies(catch_up=CatchUp.ALL, overlap=Overlap.ALLOW)))
    details = iter(("full (no more tries in this tick)",))
    done = [
        Outcome(d, Done.PASSING, next(details, "not tried: full"), cause="full")
        if isinstance(d, Submit)
        else Outcome(d, Done.OK)
        for d in plan(world).decisions
    ]
    known = status.facts(world, plan(world), {}, ABOUT, outcomes=done)
    assert len(known.attention) == 2
    [told] = [line for line in render(known, style()).splitlines() if "full" in line]
    assert "could not be submitted: full (no more tries in this tick), at today" in told


def many(count: int, runs: int = 0, troubles: int | None = None, name: str = "entry-{:03}") -> World:
    """`runs`: how many of the entries run, those with the latest slots."""
    names = [name.format(number) for number in range(count)]
    entries = tuple(entry(each, f"{number % 60} 15 * * *") for number, each in enumerate(names))
    live = [running(each, at("14:00"), str(5000 + n)) for n, each in enumerate(names[count - runs :])]
    skipped = tuple(
        replace(BACKUP_FILE, file=f"cron.d/{number}~") for number in range(count if troubles is None else troubles)
    )
    queue = Queue((LINK, SPARE, *(job for _, job in live)))
    claims = tuple(claim for claim, _ in live)
    return replace(WORLD, entries=entries, states={}, switches=Switches(), skipped=skipped, queue=queue, claims=claims)


@pytest.mark.thorough
def test_a_hundred_entries_fit_one_screen_and_all_of_them_a_pipe() -> None:
    shown = screen(many(100), 100, 40)
    assert len(shown.splitlines()) < 40
    assert "more, later: cronhpc status --all" in shown
    assert screen(many(100)).count("\nentry-") == 100


LONG_NAME = "a-{:03}-" + "very-" * 20 + "long-name"
SIZES = {"80 x 24": (80, 24), "100 x 40": (100, 40), "60 x 30": (60, 30), "200 x 24": (200, 24)}
CROWDS = {
    "no entry": many(0),
    "one entry": many(1, troubles=0),
    "thirty entries, one trouble": many(30, troubles=1),
    "thirty entries, ten troubles": many(30, troubles=10),
    "three hundred entries": many(300, troubles=0),
    "three hundred entries, each with a trouble": many(300),
    "thirty entries, twelve of them run": many(30, 12, 0),
    "thirty entries, twelve of them run, ten troubles": many(30, 12, 10),
    "long names": many(30, 3, 2, LONG_NAME),
    "no entry is left, and one runs": replace(many(1, 1, 0), entries=()),
    "a chain of many words": replace(many(30, 2, 3), queue=None, queue_error="Unable to contact slurm controller " * 5),
}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("world", CROWDS.values(), ids=CROWDS)
def test_the_screen_fits_its_terminal_and_shows_what_runs(world: World, size: tuple[int, int]) -> None:
    width, height = size
    shown = screen(world, width, height).splitlines()
    assert shown[0].startswith("~/cron on cluster lab")
    assert sum(max(-(-text.width(line) // width), 1) for line in shown) < height, "the prompt's line is left"
    live = [job for job in world.queue.jobs if job.state == "RUNNING"] if world.queue else []
    assert sum(bool(re.search(r" running\b", line)) for line in shown) == len(live)
    assert any(line == "needs attention" for line in shown) == bool(facts_of(world).attention)


def test_of_more_runs_than_a_terminal_has_lines_it_is_said_how_many_are_not_shown() -> None:
    shown = screen(many(60, 40, 0), 80, 24)
    assert len(shown.splitlines()) < 24
    assert "more (22 of them run): cronhpc status --all" in shown
    assert screen(many(60, 40, 0)).count(" running ") == 40


def test_with_all_nothing_is_left_out() -> None:
    world = many(30, 12, 10)
    shown = render(facts_of(world), style(80, 24), everything=True)
    assert shown.count("\nentry-") == 30
    assert shown.count("~ ") == 10
    assert " more" not in shown.replace("more, later", " more")


def test_a_run_whose_entry_was_deleted_is_shown() -> None:
    world = with_entry(entry("hub"), claims=(RUNS[0],), queue=Queue((LINK, SPARE, RUNS[1])))
    assert [(each.name, each.runs[0].job) for each in facts_of(world).deleted] == [("backup", "4720")]
    assert re.search(r"^backup +deleted +14:00 +running +7m17s +3s +-$", screen(world), re.MULTILINE)
    said = explain.deleted(facts_of(world).deleted[0], facts_of(world), style())
    assert said == (
        "backup was deleted; what runs of it goes on.\n"
        "Job 4720 (slot 14:00) is running on cpu1 since 14:00, for 7m17s by now."
    )
    alone = screen(replace(world, entries=()))
    assert " running " in alone
    assert "There are no entries. Put" in alone


def test_what_has_not_run_yet_is_said_in_one_line_and_not_as_the_table_says_it() -> None:
    assert screen(many(3, troubles=0)).splitlines()[-1] == "3 entries have not run yet; one now: cronhpc run entry-000"


def test_what_runs_in_a_colleague_s_file_has_run_until_the_file_was_written() -> None:
    """The file tells nothing of the time since: the run may have been cancelled."""
    world = with_entry(entry("backup", "0 * * * *"), claims=(RUNS[0],), queue=Queue((LINK, SPARE, RUNS[1])))
    later = status.seen_at(facts_of(world), NOW + 3600)
    assert " running  7m17s  3s" in render(later, style(now=NOW + 3600), from_file=True)
    [one] = later.entries
    said = explain.render(one, later, explain.schedule_of(one), style(now=NOW + 3600))
    assert "is running on cpu1 since 14:00, for 7m17s as of today 14:07." in said


def test_facts_are_json_and_come_back() -> None:
    known = as_json(facts_of(WORLD))
    assert json.loads(json.dumps(known)) == known
    assert known["now"] == "2026-11-27T13:07:20Z"
    assert of_json(json.loads(json.dumps(known))) == facts_of(WORLD)


def test_a_name_that_is_not_utf8_is_json_all_the_same() -> None:
    known = facts_of(with_entry(entry("a\udcff")))
    assert json.loads(json.dumps(as_json(known))) == as_json(known)
    assert "$'a\\xff'" in render(known, style())


def test_a_colleague_sees_the_silence_by_her_own_clock() -> None:
    written = of_json(json.loads(json.dumps(as_json(facts_of(QUIET)))))
    later = NOW + 3 * 3600
    seen = status.seen_at(written, later)
    assert seen.needs_attention
    shown = render(seen, style(now=later), from_file=True).splitlines()
    assert shown[0].startswith("alice's ~/cron")
    assert shown[1].startswith("chain   silent since today 14:00 (3 h ago)")
    assert shown[2] == "seen    as the owner's scheduler saw it today 14:07 (3 h ago)"


@pytest.mark.parametrize(("kind", "word"), [(SwitchKind.KILL, "stopped"), (SwitchKind.PAUSE, "paused")])
def test_a_colleague_sees_what_the_last_tick_held_back_though_its_switch_is_lifted(kind: SwitchKind, word: str) -> None:
    held = facts_of(with_switch(Switch(kind, "backup", f"/home/alice/cron/{kind}/backup", "bob", at("12:00"))))
    lifted = status.with_switches(of_json(json.loads(json.dumps(as_json(held)))), (), NOW)
    [row] = [line for line in render(lifted, style(), from_file=True).splitlines() if line.startswith("backup ")]
    assert row.split()[1] == word


def outcomes(world: World, **done: object) -> list[Outcome]:
    decided = plan(world)
    return [Outcome(d, **done) if isinstance(d, Submit) else Outcome(d, Done.OK) for d in decided.decisions]  # type: ignore[arg-type]  # by name


DUE = with_entry(entry("backup", "0 14 * * *"))


def test_a_tick_writes_what_it_has_just_submitted() -> None:
    known = status.facts(DUE, plan(DUE), {}, ABOUT, outcomes=outcomes(DUE, done=Done.OK, job_id="4800"))
    backup = known.entries[0]
    assert [run.job for run in backup.runs] == ["4800"]
    assert backup.next == at("14:00", 28)
    assert known.chain.last_tick == NOW


def test_what_a_tick_could_not_do_is_said_until_it_is_no_longer_wanted() -> None:
    failed = outcomes(DUE, done=Done.PASSING, detail="Socket timed out on send/recv operation")
    written = status.facts(DUE, plan(DUE), {}, ABOUT, outcomes=failed)
    line = (
        "  backup  could not be submitted: Socket timed out on send/recv operation, at today 14:07  it is tried again"
    )
    assert line in render(written, style())
    assert line in render(status.facts(DUE, plan(DUE), {}, ABOUT, before=written.trouble), style())
    assert line not in render(facts_of(QUIET, before=written.trouble), style())


def test_what_a_tick_could_not_do_for_a_switch_is_said_no_more_once_that_is_lifted_though_another_stops_jobs() -> None:
    kill = Switch(SwitchKind.KILL, "backup", "/home/alice/cron/kill/backup", "bob", at("12:00"))
    world = replace(with_switch(kill), claims=(RUNS[0],), queue=Queue((LINK, SPARE, RUNS[1])))
    told = [Trouble("stop", None, None, None, None, name, Done.PASSING, "no", NOW) for name in ("lifted", "backup")]
    known = status.facts(world, plan(world), {}, ABOUT, before=told)
    assert [row.switch for row in known.trouble] == ["backup"]


COULD_NOT = {
    Kind.SUBMIT: "It could not be submitted",
    Kind.SKIP: "Its slot could not be recorded",
    Kind.ADOPT: "Its job could not be recorded",
    Kind.RELEASE: "Its job could not be released",
    Kind.CANCEL: "Its job could not be cancelled",
    Kind.WITHDRAW: "Its job could not be taken back",
    Kind.FINISH: "Its end could not be recorded",
    Kind.STOP: "Its jobs could not be cancelled",
    Kind.HOLD: "Its jobs could not be held",
}
NONE_S = {Kind.SUBMIT_LINK, Kind.MOVE_LINK, Kind.CANCEL_LINK, Kind.UNHOLD}  # no entry's
NEVER_FAIL = {Kind.WAIT, Kind.KEEP_LINK, Kind.LEAVE_CHAIN}  # nothing is done


@pytest.mark.parametrize(("decision", "sentence"), COULD_NOT.items(), ids=COULD_NOT)
def test_what_a_tick_could_not_do_for_an_entry_is_a_sentence(decision: str, sentence: str) -> None:
    assert set(Kind) == {*COULD_NOT, *NONE_S, *NEVER_FAIL}
    known = status.facts(DUE, plan(DUE), {}, ABOUT, outcomes=outcomes(DUE, done=Done.PASSING, detail="no"))
    known = replace(known, trouble=(replace(known.trouble[0], decision=decision),))
    assert f"{sentence}: no (at today 14:07)." in explain.render(known.entries[0], known, None, style())


def test_that_jobs_could_not_be_released_when_their_pause_was_over_is_a_sentence_too() -> None:
    failed = [Outcome(Unhold((RUNS[1],)), Done.PASSING, "no")]
    shown = render(status.facts(DUE, plan(DUE), {}, ABOUT, outcomes=failed), style())
    assert "  pause  jobs that wait could not be released: no, at today 14:07" in shown


_ODD = Key(entry_id("größe"), at("14:00"))
_HELD = replace(job("4801", str(_ODD), at("14:00")), **waits_for("JobHeldUser"))


@pytest.mark.parametrize(
    ("claims", "jobs", "words"),
    [
        pytest.param(
            (Claim(_ODD, ClaimState.RELEASING, job_id="4800", name="größe", at=at("14:00")),),
            (job("4800", str(_ODD), at("14:00")),),
            "its job could not be released: no",
            id="a run whose job is to be released",
        ),
        pytest.param(
            (Claim(_ODD, ClaimState.FINISHED, at=at("14:00")),),
            (_HELD,),
            "its job could not be cancelled: no",
            id="a twin of one that ended",
        ),
        pytest.param(
            (), (_HELD,), "its job could not be cancelled: no", id="a job that came late, of a run that is forgotten"
        ),
    ],
)
def test_what_a_tick_could_not_do_with_an_entry_s_job_is_told_of_the_entry_whatever_its_name(
    claims: tuple[Claim, ...], jobs: tuple[Job, ...], words: str
) -> None:
    states = {"größe": EntryState(watermark=at("14:00"))}
    world = replace(with_entry(entry("größe"), claims=claims, queue=Queue(jobs)), states=states)
    failed = [Outcome(d, Done.PASSING, "no") for d in plan(world).decisions if isinstance(d, Release | Cancel)]
    known = status.facts(world, plan(world), states, ABOUT, outcomes=failed)
    assert words.capitalize() in explain.render(known.entries[0], known, None, style())
    assert f"größe  {words}" in render(known, style())


def test_an_entry_that_was_refused_is_told_once() -> None:
    world = with_entry(entry("backup", "0 14 * * *"))
    refused = outcomes(world, done=Done.FAILED, detail="Invalid partition")
    after = {"backup": ended(3, result="refused", exit_code=None, job="", detail="Invalid partition")}
    known = status.facts(world, plan(world), after, ABOUT, outcomes=refused)
    (row,) = (each for each in known.attention if each.name == "backup")
    assert (row.kind, row.what) == ("failed", "refused 3 times in a row (Invalid partition)")
    assert known.trouble, "for programs"


def test_an_entry_that_was_refused_ahead_for_another_cause_has_both_told() -> None:
    """A slot to come is not its last run: the new cause would stand nowhere."""
    world = with_entry(entry("backup", "0 14 * * *"))
    refused = outcomes(world, done=Done.FAILED, detail="Invalid account")
    after = {"backup": ended(1, result="refused", exit_code=None, job="", detail="Invalid partition")}
    known = status.facts(world, plan(world), after, ABOUT, outcomes=refused)
    assert [each.what for each in known.attention if each.name == "backup"] == [
        "refused (Invalid partition)",
        "could not be submitted: Invalid account",
    ]


def test_runs_that_one_limit_kept_back_are_told_once() -> None:
    world = replace(QUIET, entries=tuple(entry(name, "0 14 * * *") for name in "abc"), states={})
    details = {"a": "full (no more tries in this tick)", "b": "not tried: full", "c": "not tried: full"}
    done = [
        Outcome(d, Done.PASSING, details[d.entry.name], cause="full") if isinstance(d, Submit) else Outcome(d, Done.OK)
        for d in plan(world).decisions
    ]
    known = status.facts(world, plan(world), {}, ABOUT, outcomes=done)
    [told] = [line for line in render(known, style()).splitlines() if "full" in line]
    assert told == (
        "  a  could not be submitted: full (no more tries in this tick); the same for b and c, at today 14:07  "
        "it is tried again at each tick"
    )
    assert len(known.attention) == 3


def test_a_run_that_was_refused_ahead_needs_no_attention_before_it_is_due() -> None:
    known = status.facts(DUE, plan(DUE), {}, ABOUT, outcomes=outcomes(DUE, done=Done.PASSING, detail="full"))
    ahead = replace(known, trouble=(replace(known.trouble[0], slot=NOW + 60),))
    assert attention.rows(known, ())
    assert not attention.rows(ahead, ())
    assert "It could not be submitted: full" in explain.render(ahead.entries[0], ahead, None, style())


def test_the_successor_that_a_tick_submitted_is_shown() -> None:
    world = replace(QUIET, queue=Queue((replace(LINK, id="4700", state="RUNNING"),)), call=Call(link="4700"))
    done = [
        Outcome(d, Done.OK, job_id="9001") if isinstance(d, SubmitLink) else Outcome(d, Done.OK)
        for d in plan(world).decisions
    ]
    known = status.facts(world, plan(world), STATES, ABOUT, outcomes=done)
    assert known.chain.next is not None
    assert known.chain.next.job == "9001"


# --- status NAME ---------------------------------------------------------------------------------------------------


def explained(world: World, name: str) -> str:
    known = facts_of(world)
    one = next(each for each in known.entries if each.name == name)
    return explain.render(one, known, explain.schedule_of(one), style())


def test_while_the_next_link_waits_for_nodes_it_is_said_that_runs_wait_and_not_what_fixes_it() -> None:
    world = replace(QUIET, queue=Queue((replace(LINK, start=None, **waits_for(DRAINED)), SPARE)))
    assert "The scheduler is late, so what is due waits.\n" in explained(world, "hub-sync")


LOG = "Its log: log/backup/20261127T0300Z-4655.out (cronhpc logs backup)"
BACKUP = f"""\
backup (cron.d/backup.slurm): at 04:00 (0 4 * * *), Europe/Paris; next Sat 28 Nov 04:00 CET (in 14 h).
Today's 04:00 was submitted at 04:00:06 as job 4655, waited 2m, ran 12s on cpu2, and failed with exit code 1.
It has failed 3 times in a row (suspend-after is off). {LOG}"""


def test_an_entry_in_sentences() -> None:
    assert explained(WORLD, "backup") == BACKUP


SENTENCES = {
    "stopped": (
        WORLD,
        "train-watch",
        (
            'It is stopped by kill/train-watch, by bob since yesterday 22:14 ("loss spikes"). '
            "Lift it: cronhpc unkill train-watch"
        ),
    ),
    "its slot is claimed, and a tick is submitting it or was killed there: to run it now is no advice": (
        with_entry(
            entry("backup", "0 * * * *"),
            claims=(Claim(Key("backup", at("14:00")), ClaimState.CLAIMED, "backup", at=at("14:00:05")),),
        ),
        "backup",
        (
            "It is being submitted (slot 14:00): claimed at 14:00:05, its job not recorded yet. The tick at work does "
            "that in seconds; was it killed, the next one finds the job or submits it: cronhpc tick"
        ),
    ),
    "its slot was claimed by the last tick, which could not submit it: nobody does just now": (
        with_entry(
            entry("backup", "0 * * * *"),
            claims=(Claim(Key("backup", at("14:00")), ClaimState.CLAIMED, "backup", at=at("14:00:04")),),
        ),
        "backup",
        "It has not run yet. Now: cronhpc run backup",
    ),
    "never ran": (with_entry(entry("backup")), "backup", "It has not run yet. Now: cronhpc run backup"),
    "runs": (
        with_entry(entry("backup"), claims=(RUNS[0],), queue=Queue((LINK, SPARE, RUNS[1]))),
        "backup",
        "Job 4720 (slot 14:00) is running on cpu1 since 14:00, for 7m17s by now.",
    ),
    "two wait ahead": (
        with_entry(entry("backup"), claims=tuple(claim for claim, _ in AHEAD[:2]), queue=Queue((LINK, SPARE))),
        "backup",
        "1 more run of it waits in the queue, for today 16:00.",
    ),
    "three wait ahead": (
        with_entry(entry("backup"), claims=tuple(claim for claim, _ in AHEAD), queue=Queue((LINK, SPARE))),
        "backup",
        "2 more runs of it wait in the queue, the last for today 17:00.",
    ),
    "three waited ahead, and somebody cancelled all of his jobs": (
        with_entry(
            entry("backup"),
            claims=tuple(replace(claim, holds=text_key(entry("backup"))) for claim, _ in AHEAD),
            queue=Queue((LINK, SPARE, *(replace(job, state="CANCELLED") for _, job in AHEAD))),
        ),
        "backup",
        "3 runs are gone from the queue that waited for a time to come, the last for today 17:00.",
    ),
    "suspended": (
        with_entry(entry("backup"), replace(STATES["backup"], suspended=at("04:02:18"))),
        "backup",
        "It is suspended since today 04:02, after 3 failures in a row. Lift it: cronhpc resume backup",
    ),
    "cannot be": (
        with_entry(entry("sync", problem=BAD)),
        "sync",
        'It is not run as it is: cron.d/sync.slurm:3: E101 "0/15 * * * *": cron has no 0/15. Write */15.',
    ),
    "the chain is gone": (
        replace(QUIET, queue=Queue(())),
        "backup",
        "The scheduler is broken, so nothing starts by itself. Fix it: cronhpc start",
    ),
    "a tick came otherwise": (
        replace(NOT_STARTED, kept=SchedulerState(last_tick=NOW - 60)),
        "backup",
        "The scheduler is not started, so what is due waits for a tick by other means. Fix it: cronhpc start",
    ),
    "only the spare waits": (
        replace(QUIET, queue=Queue((SPARE,))),
        "backup",
        "The scheduler is late, so what is due waits for its spare. Fix it: cronhpc start",
    ),
}


@pytest.mark.parametrize(("world", "name", "sentence"), SENTENCES.values(), ids=SENTENCES)
def test_why_it_does_not_run_now(world: World, name: str, sentence: str) -> None:
    assert sentence in explained(world, name).splitlines()


CHANGES = {
    "a time outside is not touched": ("0 4 * * *", "its times are not touched"),
    "a time in the hour left out": ("30 2 * * *", "what falls into the hour left out runs once, at the change"),
    "real time": ("*/10 * * * *", "it follows real time"),
}


@pytest.mark.parametrize(("schedule", "words"), CHANGES.values(), ids=CHANGES)
def test_a_clock_change_ahead_is_told(schedule: str, words: str) -> None:
    [one] = facts_of(with_entry(entry("one", schedule))).entries
    parsed = explain.schedule_of(one)
    change = explain.facts(parsed, 1774000000).clock_change  # 20 March 2026
    assert parsed is not None
    assert change is not None
    assert explain._clock_change(change, parsed, style(now=1774000000)) == (
        f"On Sun 29 Mar the clocks go forward 1h, 02:00 CET to 03:00 CEST (Europe/Paris): {words}."
    )


def test_jobs_of_arrays_are_one_run() -> None:
    tasks = tuple(Job("4720", s, tasks=t, start=at("14:00:03")) for s, t in (("RUNNING", "1"), ("PENDING", "[2-9]")))
    world = with_entry(entry("backup"), claims=(RUNS[0],), queue=Queue((LINK, SPARE, *tasks)))
    assert [run.state for run in facts_of(world).entries[0].runs] == ["RUNNING"]


WAVES = {
    "the second wave runs": (
        [("COMPLETED", 3, 5), ("COMPLETED", 3, 6), ("RUNNING", 6, None), ("PENDING", None, None)],
        3,
    ),
    "a task that was cancelled before it began": ([("CANCELLED", 1, 2), ("COMPLETED", 3, 5), ("RUNNING", 5, None)], 3),
}


@pytest.mark.parametrize(("tasks", "began"), WAVES.values(), ids=WAVES)
def test_an_array_in_waves_has_run_since_its_first_task_began(
    tasks: list[tuple[str, int | None, int | None]], began: int
) -> None:
    whole = at("14:00:00")
    jobs = (
        Job("4720", state, tasks=str(n), start=start and whole + start, ended=ended and whole + ended,
            nodes="" if state == "CANCELLED" else "cpu1")
        for n, (state, start, ended) in enumerate(tasks)
    )  # fmt: skip
    world = with_entry(entry("backup"), claims=(RUNS[0],), queue=Queue((LINK, SPARE, *jobs)))
    assert [run.started for run in facts_of(world).entries[0].runs] == [whole + began]


def test_an_array_that_has_ended_took_from_its_first_task_to_its_last() -> None:
    ends = (("FAILED", 10, 20), ("COMPLETED", 5, 30), ("COMPLETED", 30, 60))
    rows = [Job("7", state, tasks=str(n), start=s, ended=e, nodes="cpu1") for n, (state, s, e) in enumerate(ends)]
    one = standing_for(rows)
    assert one is not None
    assert (one.state, one.start, one.ended) == ("FAILED", 5, 60)


@pytest.mark.parametrize(
    ("tasks", "state"),
    [
        pytest.param(["FAILED", "RUNNING", "PENDING"], "RUNNING", id="one has failed, one runs, one waits"),
        pytest.param(["RUNNING", "CANCELLED"], "RUNNING", id="one was cancelled, one runs"),
        pytest.param(["PENDING", "COMPLETED"], "PENDING", id="one has ended, and the others wait"),
        pytest.param(["COMPLETED", "REQUEUED"], "REQUEUED", id="one waits again after a requeue"),
        pytest.param(["COMPLETING", "PENDING"], "COMPLETING", id="one is ending"),
    ],
)
def test_an_array_runs_while_a_task_runs_else_waits_until_all_have_ended(tasks: list[str], state: str) -> None:
    jobs = tuple(Job("4720", s, tasks=str(n), start=at("14:00:03"), ended=1) for n, s in enumerate(tasks))
    world = with_entry(entry("backup"), claims=(RUNS[0],), queue=Queue((LINK, SPARE, *jobs)))
    run = facts_of(world).entries[0].runs[0]
    assert run.state == state
    assert (run.started is None) == (state in {"PENDING", "REQUEUED"}), "what waits has no start"
    assert unfinished(world, plan(world))[0].result == ("pending" if run.started is None else "running")


def test_the_entries_are_ordered_by_what_comes_first() -> None:
    shown = screen(replace(WORLD, entries=tuple(reversed(ENTRIES)))).splitlines()
    assert [line.split()[0] for line in shown[-4:]] == ["hub-sync", "backup", "gpu-health", "train-watch"]


TRAIN = Series(entry("train17", ""), "every 1h", 12, ("when done.txt exists", "after 20 pieces"))


def test_a_job_that_keeps_itself_going_is_a_row_beside_the_entries() -> None:
    world = replace(QUIET, entries=(), series=(TRAIN,), states={})
    assert "train17  every 1h  -     not yet" in screen(world)
    assert explained(world, "train17").splitlines()[0] == (
        "train17 (cron.d/train17.slurm) keeps itself going, every 1h: 12 pieces so far. "
        "It ends when done.txt exists or after 20 pieces."
    )


def test_one_that_rests_says_why() -> None:
    world = replace(QUIET, entries=(), series=(replace(TRAIN, no_next="3 pieces in a row failed at once"),), states={})
    assert "train17  stopped" in screen(world)
    assert "It has stopped: 3 pieces in a row failed at once." in explained(world, "train17")


PIECE = Key("train17", at("14:00"))
GOING = replace(TRAIN, newest="4800", at=at("13:00"), entry=replace(TRAIN.entry, arguments=("/w/t.slurm", "--lr", "1")))


def of_series(series: Series, *jobs: Job, claim: str = "", last: HistoryRow | None = None) -> World:
    """A world of one series; `claim`: the job of its next piece."""
    claims = (Claim(PIECE, ClaimState.RELEASED, "train17", claim),) if claim else ()
    states = {"train17": EntryState(last={"result": "ok", "job": "4801", "slot": at("13:30"), **last})} if last else {}
    return replace(QUIET, entries=(), series=(series,), states=states, claims=claims, queue=Queue((LINK, SPARE, *jobs)))


def test_a_series_whose_next_piece_was_killed_before_its_slot_has_run_all_the_same() -> None:
    """It said "not yet", beside a streak of 12."""
    world = of_series(GOING, last={"result": "killed", "slot": at("15:00")})
    world = replace(world, states={"train17": replace(world.states["train17"], successes=12)})
    assert re.search(r"train17  ended  15:00 +killed .* 12 ok", screen(world))


def test_the_piece_that_a_person_started_is_seen_running() -> None:
    """No claim tells of it."""
    first, second = Job("4800", "RUNNING", "train17", start=at("13:00")), Job("4801", "PENDING", "train17")
    world = of_series(GOING, first, second, claim="4801")
    assert [run.job for run in facts_of(world).entries[0].runs] == ["4800", "4801"]
    assert "Job 4800 (asked for by hand) is running since 13:00" in explained(world, "train17")


def test_a_train_without_a_next_piece_has_ended_and_what_starts_it_again_is_said() -> None:
    """Its next piece was cancelled, its script was away, or cronhpc was broken: nobody else would tell."""
    world = of_series(GOING, last={})
    assert "train17  ended" in screen(world)
    assert "train17  has ended: no piece of it is in the queue  sbatch /w/t.slurm …" in screen(world)
    assert "No piece of it is in the queue. Start it again: sbatch /w/t.slurm …" in explained(world, "train17")


@pytest.mark.parametrize(
    ("no_next", "result", "row"),
    [
        ("", "cancelled", ""),
        ("", "killed", ""),
        ("run 3 of --max-runs 3", "ok", ""),
        ("the last 3 pieces failed within 2m each", "ok", "has stopped: the last 3 pieces failed within 2m each"),
    ],
)
def test_an_end_that_nobody_asked_for_needs_attention(no_next: str, result: str, row: str) -> None:
    facts = facts_of(of_series(replace(GOING, no_next=no_next, crashed="failed" in no_next), last={"result": result}))
    assert [each.what for each in facts.attention] == ([row] if row else [])


def test_a_series_that_could_queue_no_next_piece_is_told_while_its_last_one_runs_and_after() -> None:
    lost = replace(GOING, trouble="/w/cron/state/trains/t.json: Input/output error.")
    row = "train17  queues no next piece: /w/cron/state/trains/t.json: Input/output error  sbatch /w/t.slurm …"
    running, pending = Job("4800", "RUNNING", "train17", start=at("13:00")), Job("4801", "PENDING", "train17")
    assert row in screen(of_series(lost, running))
    assert "queues no next piece" not in screen(
        of_series(lost, running, pending, claim="4801")
    )  # another try came through
    assert "train17  has ended: /w/cron/state/trains/t.json: Input/output error" in screen(of_series(lost, last={}))


def test_the_last_piece_of_a_train_that_still_runs() -> None:
    world = of_series(replace(GOING, no_next="last piece: run 3 of --max-runs 3"), Job("4800", "RUNNING", "train17"))
    assert "train17  last piece" in screen(world)
    assert "This is the last piece: run 3 of --max-runs 3." in explained(world, "train17")


def test_a_train_that_ended_a_week_ago_is_shown_no_more() -> None:
    assert facts_of(of_series(replace(GOING, at=NOW - 8 * 86400))).entries == ()


def test_trains_need_no_scheduler() -> None:
    piece = Job("4800", "RUNNING", "train17")
    world = replace(
        of_series(GOING, piece), queue=Queue((piece,)), chain=replace(CHAIN, wanted=False), kept=SchedulerState()
    )
    facts = status.facts(world, plan(world), {}, replace(ABOUT, series_only=True))
    assert not facts.needs_attention
    assert "chain" not in render(facts, style())


def test_a_run_whose_queue_does_not_answer_is_unknown_and_not_pending() -> None:
    world = with_entry(entry("backup", "0 * * * *"), claims=(RUNS[0],), queue=None, queue_error="no answer")
    assert "backup  15:00 (53 min)  14:00  unknown" in screen(world)
    assert "Job 4720 (slot 14:00) has not ended as far as is known." in explained(world, "backup")


def test_what_the_scheduler_itself_took_is_said_where_accounting_tells() -> None:
    world, about = QUIET, replace(ABOUT, used=status.used_of({"used": [720, 1260, 5]}))
    shown = render(status.facts(world, plan(world), world.states, about), style())
    assert "cost    720 jobs, 21 min of CPU in 30 days" in shown
    assert "cost" not in screen(world)
    assert status.used_of({"used": [0, 0, 5]}) is None


def test_a_node_that_the_last_failures_share_is_named_with_what_to_add() -> None:
    state = replace(STATES["backup"], nodes=("cpu2", "cpu2", "cpu2"), well_on="cpu1")
    world = replace(WORLD, states={**STATES, "backup": state})
    assert "Its last failures all ran on cpu2. If that node is at fault, add: #SBATCH --exclude=cpu2" in explained(
        world, "backup"
    )
    assert "failed 3 times in a row, exit 1, each time on cpu2" in screen(world)
    assert "exclude" not in explained(WORLD, "backup")


NEXT = {
    "edited, and the next tick comes after its new slot": ("30 * * * *", "0 * * * *|UTC|", "15:00"),
    "as the last tick knew it: that one comes in time": ("30 * * * *", "30 * * * *|UTC|", "14:30"),
    "edited, and its new slot is later than the next tick": ("40 14 * * *", "0 * * * *|UTC|", "15:40"),
}


@pytest.mark.parametrize(("schedule", "known", "shown"), NEXT.values(), ids=NEXT)
def test_next_is_when_it_will_run(schedule: str, known: str, shown: str) -> None:
    before = EntryState(watermark=at("14:05"), schedule_key=known)
    fit = entry("fit", schedule, timezone="UTC")
    facts = facts_of(replace(QUIET, entries=(fit,), states={"fit": before}, claims=()))
    assert facts.entries[0].next == at(shown)


def test_what_a_killed_tick_has_only_claimed_is_not_queued() -> None:
    claims = (Claim(Key("backup", at("14:30")), ClaimState.CLAIMED, "backup", at=at("14:00:04")),)
    chain, kept = ChainFacts(wanted=True, via=Way.LOGIN), SchedulerState(last_tick=at("14:00:04"))
    shown = screen(replace(QUIET, chain=chain, queue=Queue(()), claims=claims, kept=kept))
    assert "runs are queued until today 14:30" in " ".join(shown.split())


@pytest.mark.parametrize(("ago", "told"), [(30, False), (119, False), (130, True)])
def test_a_run_that_an_old_list_shows_held_though_it_was_released_is_not_said_to_be_stuck(
    ago: int,
    told: bool,  # noqa: FBT001 - a table's column
) -> None:
    mine, job = replace(RUNS[0], recorded=NOW - ago), replace(HELD, **waits_for("JobHeldUser"))
    shown = screen(with_entry(entry("backup"), claims=(mine,), queue=Queue((LINK, SPARE, job))))
    assert ("cannot start: JobHeldUser" in shown) == told


EDITED_AHEAD = {
    "it waits in the queue, made of what stands there": ("10 14 * * *", {}, "14:10", 1),
    "edited this very second: the look after this one takes it back": ("10 15 * * *", {"fresh": True}, "16:10", 0),
    "its file was only touched: what waits is still right": ("10 14 * * *", {"fresh": True}, "14:10", 1),
}


@pytest.mark.parametrize(("schedule", "more", "shown", "live"), EDITED_AHEAD.values(), ids=EDITED_AHEAD)
def test_next_is_what_lies_on_the_disk_now(schedule: str, more: dict[str, Any], shown: str, live: int) -> None:
    """An edit showed the old next run for three seconds."""
    before = entry("fit", "10 14 * * *", timezone="UTC")
    fit = replace(before, schedule=schedule, **more)
    ahead = Claim(Key("fit", at("14:10")), ClaimState.RELEASED, "fit", "7", at=at("14:05"), holds=text_key(before))
    state = EntryState(watermark=at("14:05"), schedule_key="10 14 * * *|UTC|")
    waits = replace(RUNS[1], id="7", state="PENDING", reason="BeginTime", start=at("14:10"), comment="")
    queue = Queue((LINK, SPARE, waits))
    facts = facts_of(replace(QUIET, entries=(fit,), states={"fit": state}, claims=(ahead,), queue=queue))
    assert (facts.entries[0].next, len(facts.entries[0].runs)) == (at(shown), live)


def test_the_slot_of_a_run_that_was_cancelled_ahead_is_none_that_is_to_come() -> None:
    end = JobEnd(Result.CANCELLED)
    over = Claim(Key("fit", at("14:10")), ClaimState.FINISHED, "fit", "7", at=at("13:00"), job_end=end)
    state = EntryState(watermark=at("14:10"), next_slot=at("14:20"))
    fit = entry("fit", "*/10 * * * *")
    [known] = facts_of(replace(QUIET, entries=(fit,), states={"fit": state}, claims=(over,))).entries
    assert (known.next, known.runs) == (at("14:20"), ())


def test_the_slot_of_a_run_that_waits_for_it_is_the_next_one_when_its_script_was_edited() -> None:
    """For three seconds the slot after it was shown."""
    before = entry("fit", "10 * * * *", timezone="UTC")
    fit = replace(before, options=("--mem=1",), fresh=True)
    ahead = Claim(Key("fit", at("14:10")), ClaimState.RELEASED, "fit", "7", at=at("14:05"), holds=text_key(before))
    state = EntryState(watermark=at("14:05"), schedule_key="10 * * * *|UTC|", next_slot=at("15:10"))
    jobs = Queue((Job("7", "PENDING", reason="BeginTime"),))
    world = replace(QUIET, entries=(fit,), states={"fit": state}, claims=(ahead,), queue=jobs)
    assert facts_of(world).entries[0].next == at("14:10")
    waits = [each.slot for each in plan(world).decisions if isinstance(each, Wait)]
    assert waits == [at("15:10")], "its claim stays, and is submitted as the script is by now"
