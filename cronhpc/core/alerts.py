"""What people are told of: each condition once, once more a day while it stands, and when it is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cronhpc.core import model
from cronhpc.core.model import FAILURES, Done, Reason, Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cronhpc.core.model import EntryState, Outcome, Switch, World

REMIND = 86400  # seconds
_NAMED = 20  # jobs in one message
Known = dict[str, dict[str, object]]  # subject -> {"kind", "text", "since", "told"}


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that stands until it is mended. `subject` is its name over time."""

    subject: str  # "failed backup", "switch kill/training17"
    kind: str  # failed | missed | suspended | stopped | chain | budget | disk
    text: str
    entry: str = ""


@dataclass(frozen=True, slots=True)
class Alert:
    """One message. `phase`: new, still (a reminder), over, or once (an event that does not stand)."""

    phase: str
    kind: str
    text: str
    entry: str = ""
    since: int | None = None


def conditions(
    world: World,
    states: Mapping[str, EntryState],
    outcomes: Sequence[Outcome],
    stopped: Mapping[str, Sequence[str]],
) -> list[Condition]:
    """What stands now, worst first within an entry: suspended before failed before missed.

    `stopped`: by a switch's path what it stopped in this tick, in words.
    """
    found = [each for entry in world.entries if (each := _of_entry(entry.name, states.get(entry.name))) is not None]
    for switch in world.switches:
        if switch.expires is None or switch.expires > world.now:
            text = f"{_set(switch)}{_what(stopped.get(switch.path, ()))}"
            found.append(Condition(_subject(switch), "stopped", text))
    over = next((o.decision for o in outcomes if _is_over_budget(o)), None)
    if isinstance(over, model.Wait):
        found.append(Condition("budget", "budget", f"nothing more is submitted: {over.detail}"))
    return found


def _subject(switch: Switch) -> str:
    return f"switch {switch.title}"


def _set(switch: Switch) -> str:
    why = f': "{switch.reason}"' if switch.reason else ""
    return f"{switch.title} was set by {switch.by}{why}"


def _what(jobs: Sequence[str]) -> str:
    if not jobs:
        return ""
    more = f" and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else ""
    return f"; it stopped {', '.join(jobs[:_NAMED])}{more}"


def _of_entry(name: str, state: EntryState | None) -> Condition | None:
    if state is None:
        return None
    if state.suspended is not None:
        text = f"{name} is suspended after {state.failures} failures in a row; go on with: cronhpc resume {name}"
        return Condition(f"suspended {name}", "suspended", text, name)
    result = str(state.last.get("result", ""))
    if state.failures and result in FAILURES:
        times = f"{state.failures} times in a row" if state.failures > 1 else "once"
        detail = f" ({state.last['detail']})" if state.last.get("detail") else ""
        return Condition(f"failed {name}", "failed", f"{name} failed {times}: {result}{detail}", name)
    if result == Result.MISSED:
        return Condition(f"missed {name}", "missed", f"{name} missed a slot: {state.last.get('detail', '')}", name)
    return None


def _is_over_budget(outcome: Outcome) -> bool:
    return isinstance(outcome.decision, model.Wait) and outcome.decision.reason is Reason.BUDGET


def events(
    world: World, outcomes: Iterable[Outcome], stopped: Mapping[str, Sequence[str]], known: Known
) -> list[Alert]:
    """What happened once: a link that a tick had to submit was lost before, for links submit their own successors.

    And what a switch stopped that people have been told of already (`known`).
    """
    later = [
        Alert("once", "stopped", f"{_set(switch)}{_what(stopped[switch.path])}")
        for switch in world.switches
        if switch.path in stopped and _subject(switch) in known
    ]
    return later + [
        Alert("once", "chain", f"the chain was mended: {o.decision.why}; job {o.job_id} was submitted")
        for o in outcomes
        if isinstance(o.decision, model.SubmitLink)
        and o.done is Done.OK
        and o.decision.kind == "successor"
        and world.chain.self_id
    ]


def told(standing: Iterable[Condition], known: Known, now: int) -> tuple[list[Alert], Known]:
    """The messages that are due, and what is to be remembered: tell this again and there is nothing to say."""
    alerts: list[Alert] = []
    kept: Known = {}
    for each in standing:
        row = known.get(each.subject)
        if row is None:
            alerts.append(Alert("new", each.kind, each.text, each.entry, now))
            kept[each.subject] = {"kind": each.kind, "text": each.text, "entry": each.entry, "since": now, "told": now}
            continue
        since, last = _number(row.get("since"), now), _number(row.get("told"), now)
        if now - last >= REMIND:
            alerts.append(Alert("still", each.kind, each.text, each.entry, since))
            last = now
        kept[each.subject] = {**row, "text": each.text, "since": since, "told": last}
    for subject, row in known.items():
        if subject not in kept:
            text = f"fine again: {subject}"
            alerts.append(Alert("over", str(row.get("kind", "")), text, str(row.get("entry", "")), now))
    return alerts, kept


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) else default
