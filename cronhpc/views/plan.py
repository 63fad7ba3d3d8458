"""The dry run: the very decisions that a tick executes, each with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.core.model import Finish, Skip, Submit, Wait, Withdraw, command
from cronhpc.core.model.decode import iso
from cronhpc.cron.values import grouped
from cronhpc.views import Facts, text
from cronhpc.views.attention import problem_facts
from cronhpc.views.decisions import decision_facts, line, subject
from cronhpc.views.style import Cell, Column, Style, table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cronhpc.core.model import Decision, Plan, Problem, World
    from cronhpc.core.retention import Cleaned


def facts(world: World, plan: Plan, problems: Iterable[Problem], logs: Cleaned | None) -> Facts:
    """For --json; `logs`: what the clean-up would do, None: it is not time for it."""
    return {
        "now": iso(world.now),
        "entries": len(world.entries),
        "due": _due(world, plan),
        "wake": None if world.call.by_daemon else iso(plan.wake),  # that one ticks whenever it is time
        "batch": {"answers": world.queue is not None, "error": world.queue_error},
        "chain_wanted": world.chain.wanted,
        "decisions": [decision_facts(decision) for decision in plan.decisions],
        "logs": _logs_facts(logs) if logs and logs.removed else None,
        "problems": [problem_facts(problem) for problem in problems],
    }


def _due(world: World, plan: Plan) -> int:
    """How many entries have a slot that is due."""
    of_slots = map(subject, (each for each in plan.decisions if isinstance(each, Submit | Skip | Wait)))
    return len({it.entry for it in of_slots if it.slot is not None and it.slot <= world.now})


# --- the screen ----------------------------------------------------------------------------------------------------

_SHOWN = 2  # decisions of one cause about an entry: where only login nodes submit, a day's runs are queued ahead
_COLUMNS = (Column("", least=12, name=True), Column(""), Column("", least=20, wraps=True))


def render(world: World, plan: Plan, problems: Iterable[Problem], logs: Cleaned | None, style: Style) -> str:
    """One line a decision: for whom, what, and why or with what."""
    entries = text.count(len(world.entries), "entry", "entries")
    head = f"now {style.clock(world.now, seconds=True)}, {entries}, {_due(world, plan) or 'none'} due"
    lines: list[list[Cell]] = []
    alike = grouped((d for d in plan.decisions if _cause(d)), _cause)
    folded = {id(d): rows for rows in alike.values() if len(rows) > _SHOWN + 1 for d in rows[_SHOWN:]}
    for decision in plan.decisions:
        whom, verb, colour, why = line(decision, style)
        if rows := folded.get(id(decision)):
            if decision is not rows[_SHOWN]:
                continue
            why = f"and {len(rows) - _SHOWN} more, the last at {style.at(subject(rows[-1]).slot)}"
        lines.append([whom, (verb, colour), why])
    if world.chain.wanted and not world.call.by_daemon:
        lines.append(["next tick", "wanted", f"{style.clock(plan.wake)} ({style.distance(plan.wake)})"])
    elif world.entries and not world.chain.wanted:
        lines.append([("chain", "yellow"), ("none", "yellow"), "the scheduler is not started: " + command("start")])
    if logs and logs.removed:
        lines.append(["logs", "remove", _logs_words(logs)])
    if world.queue is None:
        error = text.one_line(world.queue_error)
        lines.append([("batch", "red"), ("unknown", "red"), f"it does not answer, so nothing is submitted: {error}"])
    for problem in problems:
        place = text.name(text.place(problem.file, problem.line) or "settings")
        advice = text.one_line(problem.what + " " + problem.fix)
        lines.append([(place, "yellow"), (problem.code, "yellow"), advice])
    return "\n".join([head, *table(_COLUMNS, lines, style)])


def _cause(decision: Decision) -> tuple[object, ...] | None:
    """What decisions about the slots of one entry have in common; None: it is shown by itself."""
    match decision:
        case Submit(entry=entry, begin=begin) if begin:
            return (entry.name,)
        case Withdraw(key=key, why=why):
            return key.entry, why
        case Finish(key=key, job_end=end, retry_at=None):
            return key.entry, end.result, end.exit_code, end.detail
    return None


def _logs_facts(logs: Cleaned) -> Facts:
    return {"remove": logs.removed, "keep": logs.kept, "bytes": logs.bytes, "reasons": logs.reasons}


def _logs_words(logs: Cleaned) -> str:
    """`212 of 1,904 files (200 too old, 12 too many), 1.1 MB`."""
    why = ", ".join(f"{number:,} {reason}" for reason, number in logs.reasons.items())
    size = f", {text.size(logs.bytes)}" if logs.bytes else ""
    return f"{logs.removed:,} of {text.count(logs.removed + logs.kept, 'file')} ({why}){size}"
