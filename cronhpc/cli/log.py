"""What a tick says: JSON lines into the scheduler's log, a table on a terminal.

structlog is loaded only when there is a line to write: an idle tick has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cronhpc.core.model import Done, KeepLink, MoveLink, Reason, Wait, texts_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from cronhpc.clean import Cleaned
    from cronhpc.cli.door import Door
    from cronhpc.core.model import Outcome
    from cronhpc.tick import Report

_ERRORS = {Done.FAILED, Done.PASSING}


def report(report: Report, args: argparse.Namespace, door: Door, zone: str) -> None:
    """One tick's decisions and what came of each, but for those that say that nothing is due."""
    if args.json:
        door.json(_facts(report))
    elif door.is_terminal:
        _show(report, door, zone)
    else:
        _write(door, _lines(report))


def worth_telling(report: Report) -> bool:
    """Whether a tick did or found anything that a log should keep."""
    return next(_lines(report), None) is not None


Line = tuple[str, str, dict[str, Any]]  # level, event, facts


def _lines(report: Report) -> Iterator[Line]:
    """The lines, if any is worth one: links that stay where they are are not."""
    yield from (_line(outcome, report) for outcome in report.outcomes if _worth_a_line(outcome))
    for problem in report.problems:
        level = "error" if problem.severity == "error" else "warning"
        facts = {"code": problem.code, "file": problem.file, "line": problem.line, "mend": problem.mend}
        yield level, problem.what, {name: value for name, value in facts.items() if value}
    if report.cleaned is not None and report.cleaned.removed:
        yield "info", _removed(report.cleaned), {"reasons": dict(report.cleaned.reasons)}
    if report.world.queue is None:
        yield "error", "the batch system does not answer", {"detail": report.world.queue_error}
    if report.beside:
        yield "warning", "went on beside another tick", {"detail": report.beside}


def _removed(cleaned: Cleaned) -> str:
    """`removed 212 logs, 1.1 MB`; of some the size was not looked at, as their names tell their age."""
    from cronhpc.views.text import count, size

    least = "at least " if cleaned.unmeasured else ""
    known = f", {least}{size(cleaned.bytes)}" if cleaned.bytes else ""
    return f"removed {count(cleaned.removed, 'log')}{known}"


def _worth_a_line(outcome: Outcome) -> bool:
    decision = outcome.decision
    if outcome.done in _ERRORS:
        return True
    if isinstance(decision, Wait):
        return decision.reason not in {Reason.NOT_DUE, Reason.NEVER}
    return not isinstance(decision, KeepLink | MoveLink)


def _line(outcome: Outcome, report: Report) -> Line:
    facts = _outcome(outcome, {claim.key: claim.name for claim in report.world.claims})
    event = str(facts.pop("decision"))
    level = "error" if outcome.done is Done.FAILED else "warning" if outcome.done is not Done.OK else "info"
    return level, event, {name: value for name, value in facts.items() if value not in (None, "", [], False)}


def _outcome(outcome: Outcome, names: dict[Any, str]) -> dict[str, Any]:
    from cronhpc.views.decisions import decision_facts

    facts = decision_facts(outcome.decision, names)
    facts["done"] = str(outcome.done)
    if outcome.detail:
        facts["outcome"] = outcome.detail
    if outcome.job_id:
        facts["job"] = outcome.job_id
    return facts


def _facts(report: Report) -> dict[str, Any]:
    from cronhpc.views.times import iso

    names = {claim.key: claim.name for claim in report.world.claims}
    return {
        "now": iso(report.world.now),
        "attention": report.attention,
        "outcomes": [_outcome(outcome, names) for outcome in report.outcomes],
        "problems": [problem.advice for problem in report.problems],
        "logs_removed": report.cleaned.removed if report.cleaned is not None else 0,
        "batch": {"answers": report.world.queue is not None, "error": report.world.queue_error},
    }


def _show(report: Report, door: Door, zone: str) -> None:
    from cronhpc.views import plan

    known = plan.facts(report.world, report.plan, report.problems)
    door.say(plan.render(known, door.style(zone)))
    if report.cleaned is not None and report.cleaned.removed:
        door.say(_removed(report.cleaned))
    for outcome in report.outcomes:
        if outcome.done is not Done.OK:
            facts = _outcome(outcome, {})
            who = facts.get("entry") or facts.get("link") or facts.get("switch") or ""
            door.complain(f"{facts['decision']} {who}: {outcome.done}: " + outcome.detail)


def _write(door: Door, lines: Iterator[Line]) -> None:
    first = next(lines, None)
    if first is None:
        return
    logger = _logger(door)
    for level, event, facts in (first, *lines):
        getattr(logger, level)(door.text(event), **texts_of(facts, door.directory))


def _logger(door: Door) -> Any:
    import structlog

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=door.out),  # one write a line: two jobs' lines do not mix
        cache_logger_on_first_use=False,
    )
    return structlog.get_logger()
