"""One decision as facts: the same keys in `plan --json`, in the scheduler's log and in status.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cronhpc.core.model import (
    Adopt,
    Cancel,
    CancelLink,
    Free,
    Hold,
    KeepLink,
    MoveLink,
    Release,
    Rest,
    Settle,
    Stop,
    Submit,
    SubmitLink,
    UseUp,
    Wait,
    Withdraw,
    slot_text,
)
from cronhpc.views.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cronhpc.core.model import Decision

Facts = dict[str, Any]


def decision_facts(decision: Decision, names: Mapping[Any, str]) -> Facts:
    """One decision; `decision` says its kind, the other keys depend on it. `names`: keys of claims to entries."""
    return _FACTS[type(decision)](decision, names)


def _submit(d: Submit, _: Mapping[Any, str]) -> Facts:
    return {
        "decision": "submit",
        "entry": d.entry.name,
        "reason": str(d.reason),
        "detail": d.detail,
        "slot": iso(d.key.slot),
        "attempt": d.key.attempt,
        "by_hand": d.key.by_hand,
        "begin": iso(d.begin),
        "job_name": d.entry.job_name,
        "options": list(d.entry.options),
        "output": _output(d),
        "replaces": list(d.replaces),
    }


def _output(d: Submit) -> str:
    """Where the run will print; "" where its script says so itself."""
    number = "%A_%a" if d.entry.array else "%j"
    return f"log/{d.key.entry}/{slot_text(d.key.slot)}-{number}.out" if d.entry.output else ""


def _use_up(d: UseUp, _: Mapping[Any, str]) -> Facts:
    return {
        "decision": "use up",
        "entry": d.entry.name,
        "reason": str(d.reason),
        "detail": d.detail,
        "slot": iso(d.slot),
        "result": str(d.result),
        "count": d.count,
    }


def _wait(d: Wait, _: Mapping[Any, str]) -> Facts:
    return {"decision": "wait", "entry": d.entry.name, "reason": str(d.reason), "detail": d.detail, "slot": iso(d.slot)}


def _of_key(verb: str) -> Callable[[Any, Mapping[Any, str]], Facts]:
    def row(d: Adopt | Release, names: Mapping[Any, str]) -> Facts:
        marked = {"marked": d.marked} if isinstance(d, Release) else {}
        entry = names.get(d.key) or d.key.entry
        return {
            "decision": verb,
            "entry": entry,
            "slot": iso(d.key.slot),
            "attempt": d.key.attempt,
            "job": d.job_id,
            **marked,
        }

    return row


def _cancel(d: Cancel, names: Mapping[Any, str]) -> Facts:
    entry = (names.get(d.key) or d.key.entry) if d.key else None
    return {"decision": "cancel", "entry": entry, "job": d.job_id, "why": d.why}


def _withdraw(d: Withdraw, _: Mapping[Any, str]) -> Facts:
    return {
        "decision": "withdraw",
        "entry": d.name,
        "slot": iso(d.key.slot),
        "attempt": d.key.attempt,
        "job": d.job_id or None,
        "why": d.why,
    }


def _settle(d: Settle, _: Mapping[Any, str]) -> Facts:
    return {
        "decision": "settle",
        "entry": d.name,
        "slot": iso(d.key.slot),
        "attempt": d.key.attempt,
        "result": str(d.ending.result),
        "exit_code": d.ending.exit_code,
        "signal": d.ending.signal,
        "detail": d.ending.detail,
        "retry_at": iso(d.retry_at),
    }


def _link(verb: str) -> Callable[[Any, Mapping[Any, str]], Facts]:
    def row(d: Any, _: Mapping[Any, str]) -> Facts:
        return {
            "decision": verb,
            "link": d.kind,
            "job": getattr(d, "job_id", None),
            "at": iso(getattr(d, "at", None)),
            "why": getattr(d, "why", "") or getattr(d, "detail", ""),
        }

    return row


def _stop(d: Stop, _: Mapping[Any, str]) -> Facts:
    return {
        "decision": "stop",
        "switch": d.switch.name,
        "by": d.switch.by,
        "since": iso(d.switch.since),
        "pending": list(d.pending),
        "running": list(d.running),
        "warn_signal": d.warn_signal,
        "grace": d.grace,
        "warned": list(d.warn),
        "completing": list(d.completing),
        "left_alone": list(d.left_alone),
    }


def _hold(d: Hold, _: Mapping[Any, str]) -> Facts:
    return {"decision": "hold", "switch": d.switch.name, "by": d.switch.by, "jobs": [j.shown for j in d.jobs]}


_FACTS: dict[type, Callable[[Any, Mapping[Any, str]], Facts]] = {
    Submit: _submit,
    UseUp: _use_up,
    Wait: _wait,
    Adopt: _of_key("adopt"),
    Release: _of_key("release"),
    Cancel: _cancel,
    Withdraw: _withdraw,
    Settle: _settle,
    KeepLink: _link("keep link"),
    SubmitLink: _link("submit link"),
    MoveLink: _link("move link"),
    CancelLink: _link("cancel link"),
    Rest: lambda d, _: {"decision": "rest", "why": d.why},
    Stop: _stop,
    Hold: _hold,
    Free: lambda d, _: {"decision": "free", "jobs": [j.shown for j in d.jobs]},
}
