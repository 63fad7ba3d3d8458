"""What `start` and `stop` say of the chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cronhpc.core.model import CancelLink, Done, KeepLink, MoveLink, Rest, SubmitLink, command, joined

if TYPE_CHECKING:
    import argparse

    from cronhpc.cli.door import Door
    from cronhpc.core.model import Outcome
    from cronhpc.start import Started
    from cronhpc.views.style import Style


def report(started: Started, args: argparse.Namespace, door: Door, zone: str, *, undo: str) -> None:
    """What was done, to which jobs, and how to undo it: by the command `undo`."""
    if args.json:
        door.json(
            {
                "ok": started.ok,
                "done": list(started.lines),
                "links": [_facts(o) for o in started.outcomes],
                "undo": command(undo),
            }
        )
        return
    style = door.style(zone)
    lines = [*started.lines, *(_words(outcome, style) for outcome in started.outcomes)]
    lines = [line for line in lines if line]
    if undo == "stop":
        lines.append("see: " + command("status"))
    else:
        lines = lines or ["no scheduler job was in the queue"]
        again = any(isinstance(o.decision, KeepLink | MoveLink | SubmitLink) for o in started.outcomes)
        lines.append("somebody has started it again meanwhile" if again else "stopped; jobs that run go on")
    door.say(joined("\n", [*lines, "undo: " + command(undo)]))


def _facts(outcome: Outcome) -> dict[str, Any]:
    from cronhpc.views.decisions import decision_facts

    facts = decision_facts(outcome.decision, {})
    return {**facts, "job": outcome.job_id or facts.get("job"), "done": str(outcome.done), "outcome": outcome.detail}


def _words(outcome: Outcome, style: Style) -> str:
    from cronhpc.views.text import one_line

    decision = outcome.decision
    if outcome.done is not Done.OK:
        facts = _facts(outcome)
        return f"{facts['decision']} {facts.get('link', '')}: {outcome.done}: " + one_line(outcome.detail)
    match decision:
        case SubmitLink():
            clock = f"at {style.clock(decision.at)} ({style.distance(decision.at)})"
            at = "now" if decision.at <= style.now + _SOON else clock
            return f"submitted the {_NAMES[decision.kind]}: job {outcome.job_id}, begins {at}"
        case KeepLink():
            return f"the {_NAMES[decision.kind]} stands: job {decision.job_id} at {style.clock(decision.at)}"
        case MoveLink():
            return f"moved the {_NAMES[decision.kind]}: job {decision.job_id} to {style.clock(decision.at)}"
        case CancelLink():
            return f"cancelled job {decision.job_id}: {one_line(decision.why)}"
        case Rest():
            return one_line(decision.why)
        case _:
            return ""


_SOON = 60  # seconds
_NAMES = {"successor": "scheduler", "spare": "spare"}
