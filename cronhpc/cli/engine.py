"""`cronhpc tick`, `daemon` and `plan`, and what a tick says: JSON lines into a log, a table on a terminal.

structlog is loaded only when there is a line to write: an idle tick has none.
"""

from __future__ import annotations

import gc

from cronhpc.cli import ATTENTION, FINE, NO_ANSWER
from cronhpc.cli.commands import Command
from cronhpc.cli.console import Console, seconds_of
from cronhpc.core.chain import bad_nodes_of
from cronhpc.core.model import (
    Call,
    Done,
    KeepLink,
    MoveLink,
    Outcome,
    Reason,
    Severity,
    Wait,
    command,
    text_of,
    texts_of,
)
from cronhpc.core.model.decode import iso
from cronhpc.core.plan import plan
from cronhpc.engine.read import read_world
from cronhpc.engine.site import reckoned
from cronhpc.logs.housekeeping import clean_when_due
from cronhpc.store.scheduler import is_stopped_login, started
from cronhpc.tick import Report, tick
from cronhpc.views.text import count, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

    from cronhpc.core.retention import Cleaned
    from cronhpc.views import Facts


_TICK_HELP = (
    "One pass of the scheduler: read, plan, act, record. Its log is JSON lines, unless it is read on a terminal."
)
_TICK_EXAMPLE = "cronhpc tick"


def _link_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--link", metavar="JOB", default="", help="the scheduler job that this runs in")
    parser.add_argument("--avoid", metavar="NODES", default="", help="nodes on which such jobs could not work")
    parser.add_argument("--doubt-clock", action="store_true", help="ask the batch system what time it is")


def _tick(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if a person should look.

    A link is told where the batch system gave no answer: it looks again before it ends.
    """
    site = console.site()
    if not args.link and is_stopped_login(site.paths):
        if console.is_terminal:
            stopped = "stopped by " + command("stop") + ", so this tick does nothing; it goes on with: "
            console.say(stopped + command("start"))
        return FINE
    site, now = reckoned(site, console.now, doubt=args.doubt_clock)
    ticked = tick(site, now, Call(link=args.link, bad_nodes=bad_nodes_of(args.avoid)))
    report(ticked, console, site.settings.timezone)
    if args.link and ticked.unreachable:
        return NO_ANSWER
    return ATTENTION if ticked.attention else FINE


_DAEMON_HELP = (
    "Tick whenever a file changes, a slot is due or the interval is over: for tmux, a systemd user unit, a long job. "
    "SIGTERM and `cronhpc stop` end it, SIGHUP makes it look again."
)
_DAEMON_EXAMPLE = """
cronhpc daemon                     # in tmux
cronhpc daemon --poll              # where file events do not come through
"""


def _daemon_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--poll", action="store_true", help="look at folders every few seconds instead of file events")
    parser.add_argument(
        "--for", dest="seconds", type=seconds_of, metavar="TIME", help="end after this long: 8h, or seconds"
    )
    _link_arguments(parser)


def _daemon(args: argparse.Namespace, console: Console) -> int:
    """Exit code 0 when it was told to end."""
    from cronhpc.drivers.daemon import Daemon
    from cronhpc.drivers.start import another_daemon

    if not args.link and (other := another_daemon(console.site(), console.now)):
        console.complain(f"{other}.")
    gc.set_threshold(700)  # it stays, so what it drops is collected as is usual

    def tell(news: Report | Exception) -> None:
        try:
            if isinstance(news, Exception):
                console.complain(str(news))
            elif worth_telling(news):
                report(news, console, news.world.settings.timezone)
            console.out.flush()  # whoever follows the log sees it when it happens
        except BrokenPipeError:
            raise
        except OSError:  # its disk is full: the log lacks some lines, and the work goes on
            pass

    daemon = Daemon(
        console.site,
        lambda: console.again().now,
        tell,
        link=args.link,
        bad_nodes=bad_nodes_of(args.avoid),
        seconds=args.seconds,
        poll=args.poll,
        doubt=args.doubt_clock,
    )
    daemon.run()
    return FINE


# --- plan -------------------------------------------------------------------------------------------------------------


_PLAN_HELP = (
    "What the next tick would do, and why. Nothing is changed: these are the very decisions that a tick executes."
)
_PLAN_EXAMPLE = "cronhpc plan"


def _plan(_: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if something was passed over, or the batch system does not answer."""
    from cronhpc.views import plan as view

    site = console.site()
    how = started(site.paths)
    call = Call(by_daemon=how is not None and how.via.daemon)
    world = read_world(site, console.now, call).world
    cleaned = clean_when_due(site, world.now, world.queue, world.claims, dry_run=True)
    about, style = (world, plan(world), world.skipped, cleaned), console.style(site.settings.timezone)
    console.answer(view.facts(*about), lambda: view.render(*about, style))
    wrong = world.queue is None or world.skipped or any(entry.problem for entry in world.entries)
    return ATTENTION if wrong else FINE


# --- what a tick says -------------------------------------------------------------------------------------------------


_ERRORS = {Done.FAILED, Done.PASSING}


def report(report: Report, console: Console, zone: str) -> None:
    """One tick's decisions and what came of each, but for those that say that nothing is due."""
    if console.as_json:
        console.json(_report_facts(report))
    elif console.is_terminal:
        _show(report, console, zone)
    else:
        _write(console, _lines(report))


def worth_telling(report: Report) -> bool:
    """Whether a tick did or found anything that a log should keep."""
    return next(_lines(report), None) is not None


Line = tuple[str, str, "Facts"]  # level, event, facts


def _lines(report: Report) -> Iterator[Line]:
    """The lines, if any is worth one: links that stay where they are are not."""
    yield from (_line(outcome) for outcome in report.outcomes if _worth_a_line(outcome))
    for problem in report.problems:
        level = "error" if problem.severity is Severity.ERROR else "warning"
        facts = {"code": problem.code, "file": problem.file, "line": problem.line, "fix": problem.fix}
        yield level, problem.what, {name: value for name, value in facts.items() if value}
    if report.cleaned is not None and report.cleaned.removed:
        yield "info", _removed(report.cleaned), {"reasons": dict(report.cleaned.reasons)}
    if report.world.queue is None:
        yield "error", "the batch system does not answer", {"detail": report.world.queue_error}
    if report.lease_holder:
        yield "warning", "went on beside another tick", {"detail": f"the lease of {report.lease_holder} stood"}


def _removed(cleaned: Cleaned) -> str:
    """`removed 212 logs, 1.1 MB`; of some the size was not looked at, as their names tell their age."""
    least = "at least " if cleaned.unmeasured else ""
    freed = f", {least}{size(cleaned.bytes)}" if cleaned.bytes else ""
    return f"removed {count(cleaned.removed, 'log')}{freed}"


def _worth_a_line(outcome: Outcome) -> bool:
    decision = outcome.decision
    if outcome.done in _ERRORS:
        return True
    if outcome.done is Done.REFUSED and outcome.cause and not outcome.obstacle:
        return False  # not due, and not tried as another had met a limit, which is told
    if isinstance(decision, Wait):
        return decision.reason is not Reason.NOT_DUE
    return not isinstance(decision, KeepLink | MoveLink)


def _line(outcome: Outcome) -> Line:
    facts = _outcome(outcome)
    event = str(facts.pop("decision"))
    level = "error" if outcome.done is Done.FAILED else "warning" if outcome.done is not Done.OK else "info"
    return level, event, {name: value for name, value in facts.items() if value not in (None, "", [], False)}


def _outcome(outcome: Outcome) -> Facts:
    from cronhpc.views.decisions import decision_facts

    facts = decision_facts(outcome.decision)
    facts["done"] = str(outcome.done)
    if outcome.detail:
        facts["outcome"] = outcome.detail
    if outcome.job_id:
        facts["job"] = outcome.job_id
    return facts


def _report_facts(report: Report) -> Facts:
    return {
        "now": iso(report.world.now),
        "attention": report.attention,
        "outcomes": [_outcome(outcome) for outcome in report.outcomes],
        "problems": [problem.advice for problem in report.problems],
        "logs_removed": report.cleaned.removed if report.cleaned is not None else 0,
        "batch": {"answers": report.world.queue is not None, "error": report.world.queue_error},
    }


def _show(report: Report, console: Console, zone: str) -> None:
    from cronhpc.views import plan
    from cronhpc.views.decisions import not_done

    console.say(plan.render(report.world, report.plan, report.problems, None, console.style(zone)))
    if report.cleaned is not None and report.cleaned.removed:
        console.say(_removed(report.cleaned))
    for outcome in report.outcomes:
        if outcome.done is not Done.OK and _worth_a_line(outcome):
            console.complain(not_done(outcome))


def _write(console: Console, lines: Iterator[Line]) -> None:
    first = next(lines, None)
    if first is None:
        return
    logger, directory = _logger(console), console.directory
    for level, event, facts in (first, *lines):
        getattr(logger, level)(text_of(event, directory), **texts_of(facts, directory))


def _logger(console: Console) -> Any:
    import structlog

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=console.out),  # one write a line: two jobs' lines do not mix
        cache_logger_on_first_use=False,
    )
    return structlog.get_logger()


COMMANDS = {
    "tick": Command(_TICK_HELP, _TICK_EXAMPLE, _tick, _link_arguments, of_series=True),
    "daemon": Command(_DAEMON_HELP, _DAEMON_EXAMPLE, _daemon, _daemon_arguments),
    "plan": Command(_PLAN_HELP, _PLAN_EXAMPLE, _plan, of_series=True),
}
