"""The dry run: the very decisions that a tick executes, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cronhpc.core.model import Instant, Plan, Problem, Skip, Submit, Wait, World, command
from cronhpc.cron.values import dataclass, grouped
from cronhpc.views import Facts, text
from cronhpc.views.attention import problem_facts
from cronhpc.views.decisions import decision_facts, words
from cronhpc.views.style import Cell, Column, Style, table

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class ToRemove:
    """What the clean-up of logs would do: how many files it would remove, by reason, and keep."""

    remove: int
    keep: int
    bytes: int
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether the batch system answers, and what went wrong."""

    answers: bool
    error: str


@dataclass(frozen=True, slots=True)
class Planned:
    """What a tick would do; decisions and problems JSON-ready."""

    now: Instant
    entries: int
    due: int
    wake: Instant | None
    batch: Answer
    chain_wanted: bool
    decisions: tuple[Facts, ...]
    logs: ToRemove | None
    problems: tuple[Facts, ...]


def facts(world: World, plan: Plan, problems: Iterable[Problem] = (), logs: ToRemove | None = None) -> Planned:
    """The plan; `logs`: what the clean-up would do, None: nothing."""
    names = {claim.key: claim.name for claim in world.claims}
    rows = tuple(decision_facts(decision, names) for decision in plan.decisions)
    slots = [each for each in plan.decisions if isinstance(each, Submit | Skip | Wait)]
    due = {d.entry.name for d in slots if not isinstance(d, Wait) or (d.slot is not None and d.slot <= world.now)}
    return Planned(
        now=world.now,
        entries=len(world.entries),
        due=len(due),
        wake=None if world.call.by_daemon else plan.wake,  # that one ticks whenever it is time
        batch=Answer(world.queue is not None, world.queue_error),
        chain_wanted=world.chain.wanted,
        decisions=rows,
        logs=logs,
        problems=tuple(map(problem_facts, problems)),
    )


# --- the screen ----------------------------------------------------------------------------------------------------

_SHOWN = 2  # runs to come of an entry; a day's of them, where only login nodes submit, are told in a line
_COLUMNS = (Column("", least=12, name=True), Column(""), Column("", least=20, wraps=True))


def render(planned: Planned, style: Style) -> str:
    """One line a decision: for whom, what, and why or with what."""
    entries = text.count(planned.entries, "entry", "entries")
    due = f"{planned.due} due" if planned.due else "none due"
    head = f"now {style.clock(planned.now, seconds=True)}, {entries}, {due}"
    lines: list[list[Cell]] = []
    to_come = grouped((each for each in planned.decisions if each.get("begin")), lambda each: each["entry"])
    folded = {id(each): rows for rows in to_come.values() if len(rows) > _SHOWN + 1 for each in rows[_SHOWN:]}
    for decision in planned.decisions:
        whom, (verb, colour, why) = words(decision, style)
        if rows := folded.get(id(decision)):
            if decision is not rows[_SHOWN]:
                continue
            why = f"and {len(rows) - _SHOWN} more, the last at {style.at(rows[-1]['begin'])}"
        lines.append([whom, (verb, colour), why])
    if planned.chain_wanted and planned.wake:
        lines.append(["next tick", "wanted", f"{style.clock(planned.wake)} ({style.distance(planned.wake)})"])
    elif planned.entries and not planned.chain_wanted:
        lines.append([("chain", "yellow"), ("none", "yellow"), "the scheduler is not started: " + command("start")])
    if planned.logs:
        lines.append(["logs", "remove", _logs_words(planned.logs)])
    if not planned.batch.answers:
        error = text.one_line(planned.batch.error)
        lines.append([("batch", "red"), ("unknown", "red"), f"it does not answer, so nothing is submitted: {error}"])
    for problem in planned.problems:
        place = text.name(text.place(problem["file"], problem["line"]) or "settings")
        advice = text.one_line(problem["what"] + " " + problem["fix"])
        lines.append([(place, "yellow"), (problem["code"], "yellow"), advice])
    return "\n".join([head, *table(_COLUMNS, lines, style)])


def _logs_words(logs: ToRemove) -> str:
    """`212 of 1,904 files (200 too old, 12 too many), 1.1 MB`."""
    why = ", ".join(f"{number:,} {reason}" for reason, number in logs.reasons.items())
    size = f", {text.size(logs.bytes)}" if logs.bytes else ""
    return f"{logs.remove:,} of {text.count(logs.remove + logs.keep, 'file')} ({why}){size}"
