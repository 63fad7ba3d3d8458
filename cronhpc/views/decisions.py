"""One decision as facts: the same keys in `plan --json`, in the scheduler's log and in status.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cronhpc.core import model
from cronhpc.core.model import slot_text
from cronhpc.views.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cronhpc.core.model import Decision, Outcome, Submit

Facts = dict[str, Any]


def decision_facts(decision: Decision, names: Mapping[Any, str]) -> Facts:
    """One decision; `decision` says its kind, the other keys depend on it. `names`: keys of claims to entries."""
    kind, keys = _KINDS[type(decision)]
    return {"decision": kind, **{key: _READ[key](decision, names) for key in keys}}


def not_done(outcome: Outcome) -> str:
    """What was not done, for whom, and how that ended: `submit backup: refused: `; its detail follows."""
    facts = decision_facts(outcome.decision, {})
    who = facts.get("entry") or facts.get("link") or facts.get("switch") or ""
    return f"{facts['decision']} {who}: {outcome.done}: "


_LINK = ("link", "job", "at", "why")
_KINDS: dict[type, tuple[str, tuple[str, ...]]] = {
    model.Submit: (
        "submit",
        (
            *("entry", "reason", "detail", "slot", "attempt", "by_hand"),
            *("begin", "job_name", "options", "output", "replaces"),
        ),
    ),
    model.Skip: ("use up", ("entry", "reason", "detail", "slot", "result", "count")),
    model.Wait: ("wait", ("entry", "reason", "detail", "slot")),
    model.Adopt: ("adopt", ("entry", "slot", "attempt", "job")),
    model.Release: ("release", ("entry", "slot", "attempt", "job", "marked")),
    model.Cancel: ("cancel", ("entry", "job", "why")),
    model.Withdraw: ("withdraw", ("entry", "slot", "attempt", "job", "why")),
    model.Settle: ("settle", ("entry", "slot", "attempt", "result", "exit_code", "signal", "detail", "retry_at")),
    model.KeepLink: ("keep link", _LINK),
    model.SubmitLink: ("submit link", _LINK),
    model.MoveLink: ("move link", _LINK),
    model.CancelLink: ("cancel link", _LINK),
    model.Rest: ("rest", ("why",)),
    model.Stop: (
        "stop",
        (
            *("switch", "by", "since", "pending", "running", "warn_signal"),
            *("grace", "warned", "completing", "left_alone"),
        ),
    ),
    model.Hold: ("hold", ("switch", "by", "jobs")),
    model.Unhold: ("free", ("jobs",)),
}


def _entry(decision: Any, names: Mapping[Any, str]) -> str | None:
    if hasattr(decision, "entry"):
        return str(decision.entry.name)
    if hasattr(decision, "name"):
        return str(decision.name)
    key = decision.key
    return (names.get(key) or key.entry) if key else None


def _output(submit: Submit) -> str:
    """Where the run will print; "" where its script says so itself."""
    key, number = submit.key, "%A_%a" if submit.entry.array else "%j"
    return f"log/{key.entry}/{slot_text(key.slot)}-{number}.out" if submit.entry.output else ""


_READ: dict[str, Callable[[Any, Mapping[Any, str]], Any]] = {
    "entry": _entry,
    "reason": lambda d, _: str(d.reason),
    "detail": lambda d, _: _ending(d).detail,
    "slot": lambda d, _: iso(d.slot if hasattr(d, "slot") else d.key.slot),
    "attempt": lambda d, _: d.key.attempt,
    "by_hand": lambda d, _: d.key.by_hand,
    "begin": lambda d, _: iso(d.begin),
    "job_name": lambda d, _: d.entry.job_name,
    "options": lambda d, _: list(d.entry.options),
    "output": lambda d, _: _output(d),
    "replaces": lambda d, _: list(d.replaces),
    "result": lambda d, _: str(_ending(d).result),
    "count": lambda d, _: d.count,
    "job": lambda d, _: getattr(d, "job_id", None) or None,
    "marked": lambda d, _: d.marked,
    "why": lambda d, _: getattr(d, "why", "") or getattr(d, "detail", ""),
    "exit_code": lambda d, _: d.ending.exit_code,
    "signal": lambda d, _: d.ending.signal,
    "retry_at": lambda d, _: iso(d.retry_at),
    "link": lambda d, _: d.kind,
    "at": lambda d, _: iso(getattr(d, "at", None)),
    "switch": lambda d, _: d.switch.name,
    "by": lambda d, _: d.switch.by,
    "since": lambda d, _: iso(d.switch.since),
    "pending": lambda d, _: list(d.pending),
    "running": lambda d, _: list(d.running),
    "warn_signal": lambda d, _: d.warn_signal,
    "grace": lambda d, _: d.grace,
    "warned": lambda d, _: list(d.warn),
    "completing": lambda d, _: list(d.completing),
    "left_alone": lambda d, _: list(d.left_alone),
    "jobs": lambda d, _: [job.shown for job in d.jobs],
}


def _ending(decision: Any) -> Any:
    """Of an attempt that has ended its ending, else the decision itself."""
    return getattr(decision, "ending", decision)
