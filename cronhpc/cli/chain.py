"""`cronhpc start` and `stop`, and what they say of the chain."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.commands import Command
from cronhpc.cli.console import Console, UsageError, count_of, written_status
from cronhpc.core.model import (
    CLOCKS_APART,
    CronhpcError,
    Done,
    KeepLink,
    MoveLink,
    Settings,
    SubmitLink,
    Way,
    command,
    joined,
)
from cronhpc.cron.values import replace
from cronhpc.store.files import DirectoryError, Paths, wanted
from cronhpc.store.scheduler import expect, expected, is_stopped_login, saw_links, started
from cronhpc.views import Facts, text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from cronhpc.core.model import Outcome
    from cronhpc.drivers.start import Started
    from cronhpc.script.dialect import Dialect
    from cronhpc.views.style import Style


_START_HELP = "Start the scheduler, or fix it: one job that waits for its time, and a spare behind it. Safe to repeat."
_START_EXAMPLE = """
cronhpc start
cronhpc start --daemon     # a long job: switches act within seconds
cronhpc start --via login  # where nodes may not submit: a login node does
cronhpc start --if-stale   # in ~/.bashrc: fixes the chain where it was lost
"""


_MOST = 200  # links ahead: a week of hours, and some; arbitrary


def _start_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--if-stale", action="store_true", help="if it was started, and is lost, late or silent; quiet")
    parser.add_argument(
        "--via",
        choices=("chain", "scrontab", "login"),
        help="who calls the ticks (else as before): chain, jobs of its own; scrontab, an entry there; "
        "login, you or crontab on a login node, where nodes may not submit",
    )
    parser.add_argument(
        "--beside", action="store_true", help="also while a hand-made scheduler of the folder is in the queue"
    )
    parser.add_argument(
        "--daemon",
        action="store_true",
        help="the scheduler's job stays until its successor starts, and acts on switches and files at once",
    )
    parser.add_argument(
        "--prequeue",
        type=_links,
        metavar="N",
        help="links that wait ahead, where jobs may not submit (else as before; 1: as usual)",
    )


def _start(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if the chain does not stand."""
    if args.if_stale and not is_stale(console.paths(), console):
        if console.as_json:
            console.json({"ok": True, "done": [], "links": [], "undo": "", "errors": []})
        return FINE  # at each login: nothing of what follows is loaded

    from cronhpc.cli.check import errors, will_not_run
    from cronhpc.core.chain import heard_until
    from cronhpc.core.model import Started
    from cronhpc.drivers.start import start
    from cronhpc.engine.site import reckoned

    site = console.site(anew=not args.if_stale)
    before = started(site.paths) or Started()  # a repair changes nothing of how ticks are driven
    if is_stopped_login(site.paths):  # a site where nodes may not submit is still one
        before = Started(Way.LOGIN)
    if before.via.here and not site.batch.dialect.runs_here:
        before = Started()  # the local backend's way
    via = Way("daemon" if args.daemon else args.via or before.via or "chain")
    prequeue = args.prequeue or before.prequeue
    _must_have_an_effect(args, site.batch.dialect, via)
    site, right = reckoned(site, console.now)
    off = right - console.now
    done = start(
        site,
        console.environ,
        lambda: console.again().now + off,
        via=via,
        prequeue=prequeue,
        repair=args.if_stale,
        anew=bool(args.via or args.daemon),
        beside=args.beside,
    )
    if done.ok and not via.runs_ahead:  # whose tick has noted it
        expect(site.paths, console.now + off, heard_until(console.now + off, site.settings.interval))
    wrong = [] if args.if_stale else errors(console)
    facts = {**_facts(done, undo="stop"), "errors": [problem.advice for problem in wrong]}
    style = console.style(site.settings.timezone)
    console.answer(facts, lambda: joined("\n", [*will_not_run(wrong), *_start_words(done, style)]))
    return FINE if done.ok else ATTENTION


def _must_have_an_effect(args: argparse.Namespace, dialect: Dialect, via: Way) -> None:
    """Raises UsageError for an option that nothing would come of."""
    ahead = f"--prequeue {args.prequeue}" if (args.prequeue or 1) > 1 else ""
    asked = f"--via {args.via}" if args.via else ahead
    if dialect.runs_here and asked:
        here = "on the local backend a daemon of this machine calls the ticks, and no job waits in a queue. "
        raise UsageError(f"cronhpc start: {asked}: " + here + "Leave it out: " + command("start"))
    if args.daemon and not Way(args.via).links:
        raise UsageError(f"cronhpc start: --daemon or --via {args.via}, not both.")
    if ahead and not via.links:
        fix = "Leave it out, or let the chain's jobs call them: " + Way.CHAIN.start
        raise UsageError(f"cronhpc start: {ahead}: no links wait ahead where {via} calls the ticks. " + fix)


def _links(text: str) -> int:
    """For argparse. Raises UsageError: each one is a job in everybody's queue."""
    number = count_of(text)
    if number > _MOST:
        raise UsageError(f"--prequeue {number} would queue so many jobs at once. Write a number from 1 to {_MOST}.")
    return number


def is_stale(paths: Paths, console: Console) -> bool:
    """Whether ticks have stopped that should come: the next one is overdue, or the queue has no job that would do it.

    Where nobody can look into the queue, and where links are not what calls the ticks, it is the former alone.
    """
    from cronhpc.views.chain import LOST, health

    due = expected(paths)
    how = started(paths)
    if how is None:
        return False
    if due is not None and due[0] <= console.now + CLOCKS_APART and console.now <= due[1]:
        gone = (how.via.links or how.via.here) and _gone(how.via, console)
        if not gone:
            saw_links(paths, console.now)
        return gone
    if how.via.runs_ahead:
        return True  # the next tick is wanted
    known = written_status(paths)
    if known is None:
        return True
    chain = replace(known.chain, wanted=True, interval=console.settings().interval)
    return health(chain, answers=True, entries=1, now=console.now) in LOST


_TIMEOUT = 6  # seconds: a login waits for the answer


def _gone(way: Way, console: Console) -> bool:
    """Whether those who are to call the ticks are gone: the links from the queue, the daemon from this machine."""
    from cronhpc.batch import connect
    from cronhpc.drivers.start import daemon_trouble, links_gone

    try:
        site = console.site()
        if way.here:
            return site.batch.dialect.runs_here and bool(daemon_trouble(site.paths, site.host))
        hurried = replace(site.settings, timeout=min(site.settings.timeout, _TIMEOUT))
        batch = connect(site.batch.dialect.name, hurried, site.environment, site.paths.state)
        return links_gone(replace(site, batch=batch), console.now)
    except (CronhpcError, OSError):
        return False  # unknown; said by what comes when the next tick is overdue


def _not_one(name: str) -> str:
    one = command("kill", name) + " (what runs is cancelled), or " + command("pause", name) + " (what runs goes on)"
    return "It stops the whole scheduler. To stop one entry: " + one


def _not_started(name: str) -> str:
    lift = command("resume", name) + " or " + command("unkill", name)
    return "It starts the scheduler. To run one entry now: " + command("run", name) + "; to go on with it: " + lift


_STOP_HELP = "Stop the scheduler, and keep it stopped. Jobs that run go on."
_STOP_EXAMPLE = "cronhpc stop"


def _stop(_: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if one of its jobs could not be cancelled."""
    from cronhpc.drivers.start import stop

    try:
        site = console.site()
    except DirectoryError:
        if not _stopped_without_folder(console):
            raise
        return FINE
    stopped = stop(site, console.environ, lambda: console.again().now)
    style = console.style(site.settings.timezone)
    console.answer(_facts(stopped, undo="start"), lambda: joined("\n", _stop_words(stopped, style)))
    return FINE if stopped.ok else ATTENTION


def _stopped_without_folder(console: Console) -> bool:
    """Whether the folder is gone, and its scheduler's jobs waited in the queue: they are named, and cancelled.

    Raises BatchError.
    """
    from cronhpc.batch import connect, dialect_of
    from cronhpc.batch.port import BatchError
    from cronhpc.drivers.start import links_that_name

    root, _ = wanted(console.folder, console.environ)
    dialect = dialect_of(console.backend, Settings(), console.environ)
    if os.path.lexists(root) or dialect.runs_here:
        return False
    batch = connect(dialect.name, Settings(), console.environ, root / "state")
    try:
        jobs = links_that_name(batch, root)
    except BatchError:
        return False  # the error says that the folder is missing, and that nothing was done
    if not jobs:
        return False
    lines = [f"{console.style().path(str(root))} is not there; the jobs of its scheduler are in the queue:"]
    lines += [f"job {job.id} ({text.one_line(job.name)}), {job.state.lower()}" for job in jobs]
    if not console.as_json:
        console.say("\n".join(lines))
        console.out.flush()
    batch.cancel([job.id for job in jobs])
    done = f"cancelled {text.count(len(jobs), 'job')}; runs of entries go on"
    facts = {"ok": True, "done": [*lines, done], "links": [], "undo": command("init")}
    console.answer(facts, lambda: done)
    return True


# --- what is said -----------------------------------------------------------------------------------------------------


def _facts(started: Started, *, undo: str) -> Facts:
    """What was done, to which jobs, and the command that undoes it."""
    links = [_link_facts(outcome) for outcome in started.outcomes]
    return {"ok": started.ok, "done": list(started.lines), "links": links, "undo": command(undo)}


def _link_facts(outcome: Outcome) -> Facts:
    from cronhpc.views.decisions import decision_facts

    facts = decision_facts(outcome.decision)
    return {**facts, "job": outcome.job_id or facts.get("job"), "done": str(outcome.done), "outcome": outcome.detail}


def _start_words(started: Started, style: Style) -> Iterator[str]:
    yield from _done(started, style)
    links = [each for each in started.outcomes if isinstance(each.decision, KeepLink | MoveLink | SubmitLink)]
    if links and all(each.done is not Done.OK for each in links):
        yield "no scheduler job was submitted; when that has changed: " + command("start")
    else:
        yield "see: " + command("status")
        yield "undo: " + command("stop")


def _stop_words(stopped: Started, style: Style) -> Iterator[str]:
    yield from _done(stopped, style) or ["no scheduler job was in the queue"]
    again = any(isinstance(o.decision, KeepLink | MoveLink | SubmitLink) for o in stopped.outcomes)
    yield "somebody has started it again meanwhile" if again else "stopped; jobs that run go on"
    yield "undo: " + command("start")


def _done(started: Started, style: Style) -> list[str]:
    from cronhpc.views.decisions import chain_words

    return [*started.lines, *filter(None, (chain_words(outcome, style) for outcome in started.outcomes))]


COMMANDS = {
    "start": Command(_START_HELP, _START_EXAMPLE, _start, _start_arguments, of_no_name=_not_started),
    "stop": Command(_STOP_HELP, _STOP_EXAMPLE, _stop, of_no_name=_not_one),
}
