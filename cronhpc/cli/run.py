"""`cronhpc run NAME` and `rerun NAME`: a run by hand, and how it goes."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, FINE, INTERRUPTED
from cronhpc.cli.commands import Command
from cronhpc.cli.console import Console, UsageError
from cronhpc.cli.runs import AHEAD, Follower, ended_runs, entry_meant, entry_named, job_id
from cronhpc.core.identity import Lives
from cronhpc.core.model import (
    Advice,
    Call,
    CronhpcError,
    Done,
    Instant,
    Key,
    Obstacle,
    Reason,
    Rerun,
    Result,
    Submit,
    Wait,
    cancelling,
    command,
    entry_id,
)
from cronhpc.cron.duration import format_duration
from cronhpc.cron.values import dataclass
from cronhpc.script.spelling import own_output
from cronhpc.store.claims import Claims
from cronhpc.store.entries import FRESH
from cronhpc.views import text
from cronhpc.views.facts import HistoryRun, as_json
from cronhpc.views.runs import result_words, slot_or_end
from cronhpc.views.times import took

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from cronhpc.core.model import Entry, Outcome
    from cronhpc.engine.site import Site
    from cronhpc.script.dialect import Dialect
    from cronhpc.tick import Report
    from cronhpc.views.style import Style


_CODES = (
    "With --wait or --follow the exit code is the run's: the script's own, 128 + n by signal n, 124 timed out, 137 out "
    "of memory, 143 cancelled or killed, 75 its node failed or it was preempted, 1 nobody knows how it ended. Ctrl-C "
    "leaves the run going (130)."
)
_RUN_HELP = (
    "Run an entry now, whatever its schedule says; its next slots stay as they are. Switches and trust hold. " + _CODES
)
_RUN_EXAMPLE = """
cronhpc run backup
cronhpc run backup --follow        # its log as it comes, until it ends
cronhpc run backup --wait && echo fine
cronhpc run backup --again         # beside the run that has not ended
"""
_RERUN_HELP = (
    "Run a failed slot once more, with the same CRONHPC_SLOT; of an array only the tasks that failed. NAME means its "
    "newest slot, a job's id the slot of that job. Where nothing failed nothing is run. " + _CODES
)
_RERUN_EXAMPLE = """
cronhpc rerun backup
cronhpc rerun 4711                      # the slot that job 4711 ran for
"""
_TRIES = 30  # seconds, for as many runs of one entry asked for at once
_LOOK = 0.5  # seconds between looks at a log
_FIRST_ASK, _LAST_ASK, _SLOWER = 2.0, 30.0, 1.5  # seconds between questions to the batch system, which grow
_OF_SIGNAL = 128
_CODE_OF: dict[str, int] = {
    Result.OK: 0,
    Result.TIMEOUT: 124,
    Result.OUT_OF_MEMORY: 137,
    Result.NODE_FAIL: 75,
    Result.PREEMPTED: 75,
    Result.CANCELLED: 143,
    Result.KILLED: 143,
    Result.STOPPED: 143,
}
_NO_ATTEMPT = frozenset({Result.MISSED, Result.SKIPPED, Result.STOPPED, Result.SUSPENDED})


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="an entry")
    parser.add_argument("--again", action="store_true", help="also beside a run of it that has not ended")
    _attending(parser)


def _rerun_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="an entry, or the id of a job that failed")
    _attending(parser)


def _attending(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wait", action="store_true", help="until the run has ended; with its exit code")
    parser.add_argument("-f", "--follow", action="store_true", help="as --wait, and print its log as it comes")


def _run(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if it was not submitted."""
    return _order(args, console, args.name, None)


def _rerun(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if it was not submitted, because nothing failed, say."""
    paths = console.own_paths("runs its entries")
    name = entry_meant(args.name, console, paths)
    entry_named(name, console.offline_world(console.site()).entries, paths)
    failed = _failed(console, name, job_id(args.name))
    if isinstance(failed, str):
        console.answer({"entry": name, "job": None, "reason": failed}, lambda: failed)
        return ATTENTION
    return _order(args, console, name, Rerun(slot_or_end(failed), failed.attempt + 1, failed.tasks or ""))


def _order(args: argparse.Namespace, console: Console, name: str, rerun: Rerun | None) -> int:
    """Submit, tell, and attend to the run where that was asked."""
    if console.as_json and args.follow:
        raise UsageError(f"cronhpc {'rerun' if rerun else 'run'}: --follow prints the log, which is no JSON: --wait")
    site = console.site()
    once = partial(_once, name=name, rerun=rerun, side_by_side=rerun is None and args.again)
    report = once(site, console.now)
    if _just_changed(report):  # who asks for a run by hand has surely finished writing in a moment
        report = _later(console, once, FRESH + 1)
    for _ in range(0 if rerun else _TRIES):  # its slot is this second, and somebody else has taken that one
        if not _taken(report):
            break
        report = _later(console, once, 1)
    entry = entry_named(name, report.world.entries, site.paths)
    outcome = report.outcomes[-1]  # first of all what went for it
    order = _ordered(report, outcome, entry, site)
    if not (isinstance(outcome.decision, Submit) and order.job and order.released):
        console.answer(order, lambda: _not_submitted(order, outcome.obstacle, site.batch.dialect), aside=True)
        return ATTENTION
    attended = args.wait or args.follow
    if not (console.as_json and attended):
        style, release = console.style(site.settings.timezone), site.batch.dialect.release
        console.answer(order, lambda: _submitted(order, style, release))
    return _attended(args, console, site, outcome.decision.key, order) if attended else FINE


def _once(site: Site, now: int, *, name: str, rerun: Rerun | None, side_by_side: bool) -> Report:
    from cronhpc.engine.site import reckoned
    from cronhpc.tick import tick

    site, now = reckoned(site, now)
    return tick(site, now, Call(only=entry_id(name), rerun=rerun, side_by_side=side_by_side))


def _later(console: Console, once: Callable[[Site, int], Report], seconds: float) -> Report:
    console.wait(seconds)
    return once(console.site(), console.again().now)


def _just_changed(report: Report) -> bool:
    return any(isinstance(o.decision, Wait) and o.decision.reason is Reason.JUST_CHANGED for o in report.outcomes)


def _taken(report: Report) -> bool:
    return any(outcome.obstacle is Obstacle.TAKEN for outcome in report.outcomes)


# --- what failed ------------------------------------------------------------------------------------------------------


def _failed(console: Console, name: str, job: str) -> HistoryRun | str:
    """The last attempt of the slot that `job` ran for, or of the newest slot; or why that is not run again."""
    ends: list[HistoryRun] = []
    wanted: int | None = None  # the slot
    for at, run in ended_runs(console, name):
        if wanted is not None and at < wanted - AHEAD:  # what is written earlier is of earlier slots
            break
        ends.append(run)
        if (job and run.job == job) or (not job and (wanted is None or slot_or_end(run) > wanted)):
            wanted = slot_or_end(run)
    attempts = [run for run in ends if slot_or_end(run) == wanted]
    title = text.name(name)
    if not attempts:
        live = f"job {job} has not ended" if job else "no run of it has ended yet"
        return f"{title} is not run again: {live}. See: " + command("history", name)
    last = max(attempts, key=lambda run: run.attempt)
    if last.result == Result.OK:
        anew = "nothing of that slot failed" if job else "nothing of its newest slot failed"
        ended = f" (job {last.job} ended well)" if last.job else ""
        return f"{title} is not run again: {anew}{ended}. To run it anew: " + command("run", name)
    if last.result in _NO_ATTEMPT and not last.job:
        return f"{title} is not run again: its newest slot was {last.result}. To run it now: " + command("run", name)
    return last


# --- telling ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ordered:
    """What came of an order to run an entry. `beside`: jobs of it that have not ended; `held`: its script asks so."""

    entry: str
    job: str | None
    released: bool
    slot: Instant | None
    attempt: int | None
    tasks: str
    log: str
    reason: str
    detail: str
    undo: str | None
    held: bool
    beside: tuple[str, ...]
    stays_due: bool  # it stands although no job came of it: ordered once more it would run twice


def _ordered(report: Report, outcome: Outcome, entry: Entry, site: Site) -> Ordered:
    decision, job = outcome.decision, outcome.job_id
    key = decision.key if isinstance(decision, Submit) else None
    live = Lives.of(report.world).of_entry(entry_id(entry.name))
    return Ordered(
        entry=entry.name,
        job=job,
        released=outcome.done is Done.OK,
        slot=key.slot if key else None,
        attempt=key.attempt if key else None,
        tasks=decision.tasks if isinstance(decision, Submit) else "",
        log=key.log(job, array=bool(entry.array)) if job and key and entry.output else "",
        reason=str(getattr(decision, "reason", "")),
        detail=outcome.detail or getattr(decision, "detail", ""),
        undo=cancelling(site.batch.dialect, job) if job else None,
        held=entry.holds_itself,
        beside=tuple(claim.job_id or "" for claim in live if claim.key.slot <= report.world.now),
        stays_due=key is not None and outcome.done is Done.PASSING and Claims(site.paths.claims).exists(key),
    )


def _submitted(order: Ordered, style: Style, release: str) -> str:
    held = f" (its script asks to be held, until: {release} {order.job})" if order.held and release else ""
    log = f"\nits log: {text.clean(order.log)}, or: " + command("logs", order.entry) if order.log else ""
    again = ""
    if order.attempt and order.attempt > 1:
        tasks = f", array tasks {order.tasks}" if order.tasks else ""
        slot = style.clock(order.slot or 0)
        again = f", once more for the slot {slot} (attempt {order.attempt}{tasks})"
    others = text.jobs_of_it(order.beside, "has not ended", "have not ended")
    beside = f"\nnote: {others}: they run side by side"
    head = f"submitted {text.name(order.entry)} as job {order.job}{again}{held}"
    return Advice(head, beside if order.beside else "", log, "\nundo: ", order.undo or "")


def _not_submitted(order: Ordered, obstacle: Obstacle | None, dialect: Dialect) -> str:
    why = ": ".join(part for part in (order.reason, text.one_line(order.detail)) if part)
    more = "\nmore: " + command("status", order.entry)
    if order.stays_due:
        due: str = "\nit stays due, and the next tick submits it: do not order it once more; now: " + command("tick")
        if late := dialect.shows_late:
            wait = format_duration(late)
            due = f"\nits job may come within {wait}; else a later tick submits it: do not order it once more"
        if obstacle is Obstacle.NO_ANSWER:
            return Advice(f"{text.name(order.entry)}: {text.one_line(order.detail)}", due, more)
        return Advice(f"{text.name(order.entry)} is not submitted yet: {why}", due, more)
    if order.reason in {Reason.RUNNING, Reason.QUEUED}:
        beside = command("run", order.entry, options=("--again",))
        runs = "runs already" if order.reason == Reason.RUNNING else "may run still"
        return f"{text.name(order.entry)} {runs}: {text.one_line(order.detail)}. Another beside it: " + beside
    return f"{text.name(order.entry)} was not submitted: {why}" + more


# --- until it has ended -----------------------------------------------------------------------------------------------


def _attended(args: argparse.Namespace, console: Console, site: Site, key: Key, order: Ordered) -> int:
    """The run's exit code, once it has ended."""
    console.out.flush()
    follower = None
    if args.follow and order.log:
        folder, _, name = order.log.rpartition("/")
        follower = Follower(site.paths.root / folder, name, console)
    elif args.follow:
        named = own_output(site.batch.dialect)
        console.complain(f"its script names its own output ({named}): look there. Its end is waited for.")
    try:
        end = _end(console, key, order.entry, follower)
    except KeyboardInterrupt:
        seen = command("logs", order.entry, options=("-f",)) if order.log else command("status", order.entry)
        console.complain(f"\njob {order.job} goes on. See it: " + seen + f"; end it: {order.undo}")
        return INTERRUPTED
    code = exit_code(end)
    console.answer({**as_json(order), "end": end, "exit_code": code}, lambda: _end_words(end), aside=args.follow)
    return code


def _end(console: Console, key: Key, name: str, follower: Follower | None) -> HistoryRun:
    """The run's facts once it has ended; its log is printed meanwhile."""
    ask = rest = _FIRST_ASK
    while True:
        console.wait(_LOOK)
        if follower is not None:
            follower.more()
        rest -= _LOOK
        if rest > 0:
            continue
        ask = rest = min(ask * _SLOWER, _LAST_ASK)
        with suppress(CronhpcError):  # a controller that does not answer is asked again
            if (end := _ended(console.again(), key, name)) is not None:
                if follower is not None:
                    follower.more()
                return end


def _ended(console: Console, key: Key, name: str) -> HistoryRun | None:
    """The facts of an attempt that has ended; None as long as it has not, or nobody tells how."""
    for at, run in ended_runs(console, name):
        if (run.slot, run.attempt, run.by_hand) == (key.slot, key.attempt, key.by_hand):
            return run
        if at < key.slot - AHEAD:
            break
    return None


def _end_words(end: HistoryRun) -> str:
    """`job 27: failed (3), took 12s on cpu1`."""
    went = f", took {took(end.took)}" if end.took is not None else ""
    where = f" on {end.node}" if end.node else ""
    why = f": {text.one_line(end.detail)}" if end.detail else ""
    return f"job {end.job}: {result_words(end)}{went}{where}{why}"


def exit_code(end: HistoryRun) -> int:
    """A run's end as a shell's: see `_CODES`."""
    if end.result == Result.FAILED:
        return int(end.exit_code or (_OF_SIGNAL + end.signal if end.signal else ATTENTION))
    return _CODE_OF.get(end.result, ATTENTION)


COMMANDS = {
    "run": Command(_RUN_HELP, _RUN_EXAMPLE, _run, _run_arguments),
    "rerun": Command(_RERUN_HELP, _RERUN_EXAMPLE, _rerun, _rerun_arguments),
}
