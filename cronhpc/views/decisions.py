"""Decisions as facts and as words: the same in `plan`, in the scheduler's log, in status.json and after `start`."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from cronhpc.core import model, stop
from cronhpc.core.model import Decision, Done, Job, LinkKind, Outcome, Reason, SwitchKind, command, joined
from cronhpc.core.model.decode import epoch, iso
from cronhpc.core.stop import ALL
from cronhpc.cron.values import dataclass, grouped
from cronhpc.views import Facts, text, times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from cronhpc.core.model import Queue
    from cronhpc.views.style import Style


def decision_facts(decision: Decision, names: Mapping[Any, str]) -> Facts:
    """One decision; `decision` says its kind, the other keys depend on it. `names`: keys of claims to entries."""
    kind = _KINDS[type(decision)]
    return {"decision": kind.name, **{key: _value_of(decision, key, names) for key in kind.keys}}


_ATTRIBUTES = {"link": "kind", "warned": "warn"}
_PARTS = ("key", "job_end", "switch", "entry")  # of a decision: where a fact stands that is none of its own
_INSTANTS = frozenset({"slot", "begin", "retry_at", "at", "since"})


def _value_of(decision: Any, key: str, names: Mapping[Any, str]) -> Any:
    match key:
        case "entry":
            return _entry_name(decision, names)
        case "job":
            return getattr(decision, "job_id", None) or None
        case "output":  # where the run will print; "" where its script says so itself
            entry = decision.entry
            return decision.key.log_for_sbatch(array=bool(entry.array)) if entry.output else ""
        case "switch":
            return decision.switch.name
        case "jobs":
            return [job.shown_id for job in decision.jobs]
        case "why":
            return getattr(decision, "why", "") or getattr(decision, "detail", "")
    name = _ATTRIBUTES.get(key, key)
    holders = (decision, *(getattr(decision, part, None) for part in _PARTS))
    value = next((getattr(holder, name) for holder in holders if hasattr(holder, name)), None)
    if key in _INSTANTS:
        return iso(value)
    return list(value) if isinstance(value, tuple) else value


def _entry_name(decision: Any, names: Mapping[Any, str]) -> str | None:
    if hasattr(decision, "entry"):
        return str(decision.entry.name)
    if hasattr(decision, "name"):
        return str(decision.name)
    key = decision.key
    return (names.get(key) or key.entry) if key else None


# --- as a line of a plan -------------------------------------------------------------------------------------------


Line = tuple[str, str, str]  # the verb, its colour, with what and why


def words(facts: Mapping[str, Any], style: Style) -> tuple[str, Line]:
    """For whom, and what: a decision by its facts."""
    kind = facts["decision"]
    whom = text.name(facts["entry"]) if facts.get("entry") else _WHOM.get(kind, "chain")
    return whom, _WORDS[kind](facts, style)


_WHOM = {"stop": "kill switch", "hold": "pause switch", "unhold": "pause switch", "cancel": "a twin"}


def _submit_line(facts: Mapping[str, Any], style: Style) -> Line:
    parts = [f"slot {style.at(facts['slot'])}"]
    if facts["begin"]:
        parts.append(f"begins {style.at(facts['begin'])}")
    parts.append(f"job {text.name(facts['job_name'] or facts['entry'])}")
    parts += [text.one_line(option.removeprefix("--").replace("=", " ", 1)) for option in facts["options"]]
    parts += [text.one_line(each) for each in (facts["output"], facts["detail"]) if each]
    return facts["reason"], "green", ", ".join(parts)


def _skip_line(facts: Mapping[str, Any], style: Style) -> Line:
    at = style.at(facts["slot"])
    slots = f"slot {at}" if facts["count"] == 1 else f"{facts['count']} slots up to {at}"
    recorded = f"{slots} recorded as {facts['result']}"
    return facts["reason"], "yellow", _with_resume(facts, joined(": ", filter(None, (recorded, _detail_words(facts)))))


def _wait_line(facts: Mapping[str, Any], style: Style) -> Line:
    slot, not_due = epoch(facts["slot"]), facts["reason"] == Reason.NOT_DUE
    when = ""
    if slot is not None:
        when = f"{'next' if slot > style.now else 'due since'} {style.clock(slot)}"
        when += f" ({style.distance(slot)})" if not_due else ""
    why = joined("; ", filter(None, (_detail_words(facts), when)))
    return facts["reason"], "" if not_due else "yellow", _with_resume(facts, why)


def _detail_words(facts: Mapping[str, Any]) -> str:
    return text.one_line(facts["detail"])


def _with_resume(facts: Mapping[str, Any], why: str) -> str:
    """`why`, with the command that ends a suspension."""
    return why + "; lift it with: " + command("resume", facts["entry"]) if facts["reason"] == Reason.SUSPENDED else why


def _finish_line(facts: Mapping[str, Any], style: Style) -> Line:
    parts = [f"slot {style.at(facts['slot'])}: {facts['result']}"]
    parts += [f"exit {facts['exit_code']}"] if facts["exit_code"] else []
    parts += [_detail_words(facts)] if facts["detail"] else []
    parts += [f"again at {style.at(facts['retry_at'])}"] if facts["retry_at"] else []
    return "finish", "", ", ".join(parts)


def _claim_line(facts: Mapping[str, Any], style: Style) -> Line:
    return facts["decision"], "green", f"slot {style.at(facts['slot'])}, job {facts['job']}"


def _cancel_line(facts: Mapping[str, Any], _: Style) -> Line:
    return "cancel", "yellow", f"job {facts['job']}: {text.one_line(facts['why'])}"


def _link_line(verb: str, facts: Mapping[str, Any], style: Style) -> Line:
    job = f" job {facts['job']}" if facts["job"] else ""
    at = f" {'to' if verb == 'move' else 'at'} {style.at(facts['at'])}" if facts["at"] else ""
    why = f": {text.one_line(facts['why'])}" if facts["why"] else ""
    return verb, "", f"{facts['link']}{job}{at}{why}"


def _stop_line(facts: Mapping[str, Any], style: Style) -> Line:
    jobs = [f"{job} {state}" for state in ("pending", "running") for job in facts[state]]
    warned = f"is warned ({facts['warn_signal']}), then has {times.took(facts['grace'])}"
    jobs += [f"{job} {warned}" for job in facts["warned"]]
    jobs += [f"{job} is ending" for job in facts["completing"]]
    alone = f"; left alone (scrontab's own): {', '.join(facts['left_alone'])}" if facts["left_alone"] else ""
    since = style.at(facts["since"])
    return "cancel", "red", f"{_switch_words(facts)} since {since}: {', '.join(jobs) or 'no job'}{alone}"


def _hold_line(facts: Mapping[str, Any], _: Style) -> Line:
    return "hold", "yellow", f"{_switch_words(facts)}: {', '.join(facts['jobs'])}"


def _switch_words(facts: Mapping[str, Any]) -> str:
    return f"{text.name(facts['switch'])}, by {text.one_line(facts['by'])}"


class _Kind(NamedTuple):
    """A kind of decision: its name, the keys of its facts, and its line."""

    name: str
    keys: tuple[str, ...]
    words: Callable[[Mapping[str, Any], Style], Line]


_CLAIM = ("entry", "slot", "attempt")
_LINK = ("link", "job", "at", "why")
_DUE = ("entry", "reason", "detail", "slot")
_SUBMIT = (*_DUE, "attempt", "by_hand", "begin", "job_name", "options", "output", "replaces")
_STOP = ("switch", "by", "since", "pending", "running", "warn_signal", "grace", "warned", "completing", "left_alone")
_KINDS: dict[type, _Kind] = {
    model.Submit: _Kind("submit", _SUBMIT, _submit_line),
    model.Skip: _Kind("use up", (*_DUE, "result", "count"), _skip_line),
    model.Wait: _Kind("wait", _DUE, _wait_line),
    model.Adopt: _Kind("adopt", (*_CLAIM, "job"), _claim_line),
    model.Release: _Kind("release", (*_CLAIM, "job", "marked"), _claim_line),
    model.Cancel: _Kind("cancel", ("entry", "job", "why"), _cancel_line),
    model.Withdraw: _Kind("withdraw", (*_CLAIM, "job", "why"), _cancel_line),
    model.Finish: _Kind("finish", (*_CLAIM, "result", "exit_code", "signal", "detail", "retry_at"), _finish_line),
    model.KeepLink: _Kind("keep link", _LINK, partial(_link_line, "keep")),
    model.SubmitLink: _Kind("submit link", _LINK, partial(_link_line, "submit")),
    model.MoveLink: _Kind("move link", _LINK, partial(_link_line, "move")),
    model.CancelLink: _Kind("cancel link", _LINK, partial(_link_line, "cancel")),
    model.LeaveChain: _Kind("leave chain", ("why",), lambda facts, _: ("leave", "yellow", text.one_line(facts["why"]))),
    model.Stop: _Kind("stop", _STOP, _stop_line),
    model.Hold: _Kind("hold", ("switch", "by", "jobs"), _hold_line),
    model.Unhold: _Kind("unhold", ("jobs",), lambda facts, _: ("release", "green", f"jobs {', '.join(facts['jobs'])}")),
}
_WORDS = {kind.name: kind.words for kind in _KINDS.values()}


# --- once it is done -----------------------------------------------------------------------------------------------


_SOON = 60  # seconds
_LINKS = {LinkKind.SUCCESSOR: "scheduler", LinkKind.SPARE: "spare"}


def not_done(outcome: Outcome) -> str:
    """What was not done, for whom, how that ended and why: `submit backup: refused: a switch was set`."""
    facts = decision_facts(outcome.decision, {})
    whom = facts.get("entry") or facts.get("link") or facts.get("switch") or ""
    return f"{facts['decision']} {whom}: {outcome.done}: " + outcome.detail


def chain_words(outcome: Outcome, style: Style) -> str:
    """What became of a decision about the chain, in a line; "" for one about anything else that went well."""
    decision = outcome.decision
    if outcome.done is not Done.OK:
        return text.one_line(not_done(outcome))
    match decision:
        case model.SubmitLink():
            clock = f"at {style.clock(decision.at)} ({style.distance(decision.at)})"
            at = "now" if decision.at <= style.now + _SOON else clock
            return f"submitted the {_LINKS[decision.kind]}: job {outcome.job_id}, begins {at}"
        case model.KeepLink():
            why = f"; {decision.detail}" if decision.detail else ""
            return f"the {_LINKS[decision.kind]} stands: job {decision.job_id} at {style.clock(decision.at)}{why}"
        case model.MoveLink():
            return f"moved the {_LINKS[decision.kind]}: job {decision.job_id} to {style.clock(decision.at)}"
        case model.CancelLink():
            return f"cancelled job {decision.job_id}: {text.one_line(decision.why)}"
        case model.LeaveChain():
            return text.one_line(decision.why)
        case _:
            return ""


# --- jobs that an order was about -------------------------------------------------------------------------------------


class Deed(StrEnum):
    """What became of a job that an order was about."""

    CANCELLED = "cancelled"
    WARNED = "warned"
    HELD = "held"
    RELEASED = "released"
    SUBMITTED = "submitted"
    ENDED = "ended"  # by itself, or a daemon was faster
    ENDING = "ending"
    LEFT_ALONE = "left alone"  # a scrontab's own
    NOT_ASKED = "not asked"
    WARNED_BEFORE = "warned before"
    HELD_BEFORE = "held before"
    RUNS_ON = "runs on"
    NOT_LISTED = "not listed"  # by the queue, yet


@dataclass(frozen=True, slots=True)
class JobDeed:
    """One row of the queue, and what was done with it; `trouble`: why it was not."""

    job: Job
    done: Deed
    trouble: str = ""
    grace: int = 0  # seconds that it has after its warning


@dataclass(frozen=True, slots=True)
class Order:
    """Switches of one kind that were set or lifted, and the live jobs that they reached then."""

    kind: SwitchKind
    names: frozenset[str]
    before: tuple[Job, ...] = ()


def deeds(order: Order, outcomes: Sequence[Outcome], queue: Queue) -> list[JobDeed]:
    """What became of the jobs of an order: by the tick that followed, and of the others by the queue as it found it."""
    done: dict[str, JobDeed] = {}  # a job that waits for its slot is reached by a switch, and withdrawn as well
    for each in (each for outcome in outcomes for each in _done_by(order, outcome)):
        if each.job.shown_id not in done or done[each.job.shown_id].trouble:
            done[each.job.shown_id] = each
    live = grouped((job for job in queue.jobs if job.live), lambda job: job.id)
    spared = _spared(outcomes)
    others = (
        (job, _otherwise(order, job, live.get(job.id, []), spared)) for job in order.before if job.shown_id not in done
    )
    return [*done.values(), *(JobDeed(job, deed) for job, deed in others if deed is not None)]


def _done_by(order: Order, outcome: Outcome) -> Iterator[JobDeed]:
    """What one decision did to jobs of the order."""
    trouble = "" if outcome.done is Done.OK else outcome.detail or str(outcome.done)
    match outcome.decision:
        case model.Stop(switch=switch, jobs=jobs) as stop if switch.kind == order.kind and switch.name in order.names:
            deed, grace = (Deed.WARNED, stop.grace) if stop.warn else (Deed.CANCELLED, 0)
            yield from (JobDeed(job, deed, trouble, grace) for job in jobs)
        case model.Hold(switch=switch, jobs=jobs) if switch.kind == order.kind and switch.name in order.names:
            yield from (JobDeed(job, Deed.HELD, trouble) for job in jobs)
        case model.Unhold(jobs=jobs) if order.kind is SwitchKind.PAUSE:
            yield from (JobDeed(job, Deed.RELEASED, trouble) for job in jobs)
        case model.Withdraw(job_id=job_id):
            yield from (JobDeed(job, Deed.CANCELLED, trouble) for job in order.before if job.id == job_id)
        case model.Submit(entry=entry) if outcome.job_id and order.names & {ALL, entry.name}:
            yield JobDeed(Job(outcome.job_id, "PENDING", entry.name), Deed.SUBMITTED, trouble)


def _spared(outcomes: Iterable[Outcome]) -> dict[str, Deed]:
    """By their ids the jobs that switches reached and let be for now."""
    deeds: dict[str, Deed] = {}
    for outcome in outcomes:
        if isinstance(stop := outcome.decision, model.Stop):
            deeds |= dict.fromkeys(stop.left_alone, Deed.LEFT_ALONE) | dict.fromkeys(stop.unasked, Deed.NOT_ASKED)
            deeds |= dict.fromkeys(stop.waiting, Deed.WARNED_BEFORE)
    return deeds


def _otherwise(order: Order, job: Job, rows: list[Job], spared: Mapping[str, Deed]) -> Deed | None:
    """Of a job that no decision was about; `rows`: its live ones now."""
    if not rows:
        return Deed.NOT_LISTED if job.state == model.UNLISTED else Deed.ENDED
    if all(row.ending for row in rows):
        return Deed.ENDING
    if order.kind is SwitchKind.PAUSE:
        return Deed.HELD_BEFORE if job.held else Deed.RUNS_ON
    return spared.get(job.shown_id) or spared.get(job.id)


_SENTENCES = {
    Deed.WARNED: "warned job {}",
    Deed.ENDED: "job {} has ended",
    Deed.ENDING: "job {} is ending",
    Deed.LEFT_ALONE: "left job {} alone: scancel would disable its entry in the scrontab",
    Deed.NOT_ASKED: "job {} is left for the next tick: nobody could say whether it is a scrontab's own",
    Deed.WARNED_BEFORE: "job {} was warned before, and its grace is not over",
    Deed.HELD_BEFORE: "job {} was held before",
    Deed.RUNS_ON: "job {} runs on: a pause holds what waits",
    Deed.SUBMITTED: "submitted job {}",
    Deed.NOT_LISTED: "job {} was submitted just now, and is not listed yet: the next tick looks again",
}
_WITH_TIME = frozenset({Deed.CANCELLED, Deed.WARNED, Deed.HELD, Deed.RELEASED})
_MOST_LINES = 30


def deed_facts(deed: JobDeed, now: int) -> Facts:
    """What became of a job, or of tasks of an array."""
    job = deed.job
    return {
        "job": job.id,
        "tasks": job.tasks,
        "name": job.name,
        "done": str(deed.done),
        "trouble": deed.trouble,
        "was": job.state,
        "ran": max(now - job.start, 0) if job.start and not job.waits else None,
        "nodes": "" if job.waits else job.nodes,
    }


def deed_lines(deeds: Iterable[JobDeed], now: int) -> list[str]:
    """`cancelled job 103 (train), ran 4 min on cpu1; 2 waiting tasks`: a line a job."""
    alike = grouped(deeds, lambda each: (each.job.id, each.done, each.trouble))
    lines = [_deed_line(rows, now) for rows in alike.values()]
    more = [f"and {text.count(len(lines) - _MOST_LINES, 'more job')}"] if len(lines) > _MOST_LINES else []
    return [*lines[:_MOST_LINES], *more]


def _deed_line(rows: list[JobDeed], now: int) -> str:
    first = rows[0]
    job_id = first.job.shown_id if first.done is Deed.RUNS_ON and len(rows) == 1 else first.job.id
    job = f"{job_id} ({text.name(first.job.name)})" if first.job.name else job_id
    if first.trouble:
        return f"job {job} was not {first.done}: {text.one_line(first.trouble)}"
    line = _SENTENCES[first.done].format(job) if first.done in _SENTENCES else f"{first.done} job {job}"
    if first.done not in _WITH_TIME:
        return line
    parts = [part for row in rows if (part := _tasks_words(row.job, now))]
    end = f"; it ends in {times.span(first.grace)}" if first.grace else ""
    return f"{line}{', ' if parts else ''}{'; '.join(parts)}{end}"


def _tasks_words(job: Job, now: int) -> str:
    """`ran 4 min on cpu1`, `task 3 ran 4 min on cpu1`, `2 waiting tasks`."""
    if job.state == model.UNLISTED:
        return f"which was submitted {times.span(max(now - (job.submitted or now), 0))} ago and is not listed yet"
    if job.waits or not job.start:
        return text.count(stop.task_count(job), "waiting task") if job.tasks else "which waited"
    ran = f"ran {times.span(max(now - job.start, 0))}{f' on {text.one_line(job.nodes)}' if job.nodes else ''}"
    return f"task {job.tasks} {ran}" if job.tasks else ran
