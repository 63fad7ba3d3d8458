"""Decisions as facts and as words: the same in `plan`, in the scheduler's log, in status.json and after `start`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Self

from cronhpc.core import model, stop
from cronhpc.core.model import ALL, Decision, Done, Job, LinkKind, Outcome, Reason, SwitchKind, command, joined
from cronhpc.core.model.decode import iso
from cronhpc.cron.values import by_field, dataclass, grouped
from cronhpc.views import Facts, text, times

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cronhpc.core.model import Instant, Queue
    from cronhpc.views.facts import Trouble
    from cronhpc.views.style import Style


_CLAIM = ("entry", "slot", "attempt")
_LINK = ("link", "job", "at", "why")
_DUE = ("entry", "reason", "detail", "slot")
_STOP = ("switch", "by", "since", "pending", "running", "warn_signal", "grace", "warned", "completing", "left_alone")


class Kind(StrEnum):
    """The kinds of decisions as programs read them; of each its type and the keys of its facts."""

    of: type
    keys: tuple[str, ...]

    SUBMIT = "submit", model.Submit, (*_DUE, "attempt", "by_hand", "begin", "job_name", "options", "output", "replaces")
    SKIP = "use up", model.Skip, (*_DUE, "result", "count")
    WAIT = "wait", model.Wait, _DUE
    ADOPT = "adopt", model.Adopt, (*_CLAIM, "job")
    RELEASE = "release", model.Release, (*_CLAIM, "job", "marked")
    CANCEL = "cancel", model.Cancel, ("entry", "job", "why")
    WITHDRAW = "withdraw", model.Withdraw, (*_CLAIM, "job", "why")
    FINISH = "finish", model.Finish, (*_CLAIM, "result", "exit_code", "signal", "detail", "retry_at")
    KEEP_LINK = "keep link", model.KeepLink, _LINK
    SUBMIT_LINK = "submit link", model.SubmitLink, _LINK
    MOVE_LINK = "move link", model.MoveLink, _LINK
    CANCEL_LINK = "cancel link", model.CancelLink, _LINK
    LEAVE_CHAIN = "leave chain", model.LeaveChain, ("why",)
    STOP = "stop", model.Stop, _STOP
    HOLD = "hold", model.Hold, ("switch", "by", "jobs")
    UNHOLD = "unhold", model.Unhold, ("jobs",)

    def __new__(cls, word: str, of: type, keys: tuple[str, ...]) -> Self:
        kind = str.__new__(cls, word)
        kind._value_, kind.of, kind.keys = word, of, keys
        return kind


_KINDS = {kind.of: kind for kind in Kind}


@dataclass(frozen=True, slots=True)
class Subject:
    """What a decision is about: by that it is known again in the next tick."""

    kind: Kind
    entry: str | None = None
    link: str | None = None
    slot: Instant | None = None
    job: str | None = None
    switch: str | None = None


def subject(decision: Decision) -> Subject:
    kind = _KINDS[type(decision)]
    match decision:
        case model.Submit(entry=entry, key=key):
            return Subject(kind, entry.name, slot=key.slot)
        case model.Skip(entry=entry, slot=slot) | model.Wait(entry=entry, slot=slot):
            return Subject(kind, entry.name, slot=slot)
        case model.Adopt(key=key) | model.Release(key=key) | model.Withdraw(key=key):
            return Subject(kind, decision.name or key.entry, slot=key.slot, job=decision.job_id or None)
        case model.Cancel(key=key, job_id=job):
            return Subject(kind, decision.name or key.entry, job=job)
        case model.Finish(key=key, name=name):
            return Subject(kind, name, slot=key.slot)
        case model.KeepLink() | model.MoveLink() | model.CancelLink():
            return Subject(kind, link=decision.kind, job=decision.job_id)
        case model.SubmitLink(kind=link):
            return Subject(kind, link=link)
        case model.Stop(switch=switch) | model.Hold(switch=switch):
            return Subject(kind, switch=switch.name)
    return Subject(kind)


def decision_facts(decision: Decision) -> Facts:
    """JSON-ready; `decision` says its kind, the other keys depend on it."""
    it = subject(decision)
    values = {"at": None, "why": ""} | by_field(decision) | by_field(it) | _of_parts(decision)
    values |= {key: iso(values[key]) for key in ("slot", "begin", "retry_at", "at", "since") if key in values}
    values |= {key: list(each) for key, each in values.items() if isinstance(each, tuple)}
    return {"decision": it.kind, **{key: values[key] for key in it.kind.keys}}


def _of_parts(decision: Decision) -> Facts:
    """What is told of a decision under another name than its field's, or stands in one of them."""
    match decision:
        case model.Submit(entry=entry, key=key):
            run = {"attempt": key.attempt, "by_hand": key.by_hand, "output": _output(decision)}
            return run | {"job_name": entry.job_name, "options": entry.options}
        case model.Adopt(key=key) | model.Release(key=key) | model.Withdraw(key=key):
            return {"attempt": key.attempt}
        case model.Finish(key=key, job_end=end):
            return {"attempt": key.attempt} | by_field(end)
        case model.KeepLink(detail=why):
            return {"why": why}
        case model.Stop(switch=switch, warn=warned):
            return {"by": switch.by, "since": switch.since, "warned": warned}
        case model.Hold(switch=switch, jobs=jobs):
            return {"by": switch.by, "jobs": _ids(jobs)}
        case model.Unhold(jobs=jobs):
            return {"jobs": _ids(jobs)}
    return {}


def _output(decision: model.Submit) -> str:
    """Where the run will print; "" where its script says so itself."""
    entry = decision.entry
    return decision.key.log_for_sbatch(array=bool(entry.array)) if entry.output else ""


def _ids(jobs: Iterable[Job]) -> tuple[str, ...]:
    return tuple(job.shown_id for job in jobs)


# --- as a line of a plan -------------------------------------------------------------------------------------------


Line = tuple[str, str, str, str]  # for whom, the verb, its colour, with what and why


def line(decision: Decision, style: Style) -> Line:
    match decision:
        case model.Submit() | model.Skip() | model.Wait():
            return _slot_line(decision, style)
        case model.Stop() | model.Hold() | model.Unhold():
            return _switch_line(decision, style)
        case model.LeaveChain(why=why):
            return "chain", "leave", "yellow", text.one_line(why)
        case model.KeepLink() | model.SubmitLink() | model.MoveLink() | model.CancelLink():
            return _link_line(decision, style)
    it = subject(decision)
    whom, run = text.name(it.entry or ""), f"slot {style.at(it.slot)}"
    match decision:
        case model.Adopt() | model.Release():
            return whom, it.kind, "green", f"{run}, job {it.job}"
        case model.Cancel(why=why) | model.Withdraw(why=why):
            return whom, "cancel", "yellow", f"job {it.job}: {text.one_line(why)}"
        case model.Finish(job_end=end, retry_at=again):
            code = f", exit {end.exit_code}" if end.exit_code else ""
            detail = f", {text.one_line(end.detail)}" if end.detail else ""
            again_at = f", again at {style.at(again)}" if again else ""
            return whom, "finish", "", f"{run}: {end.result}{code}{detail}{again_at}"


def _slot_line(decision: model.Submit | model.Skip | model.Wait, style: Style) -> Line:
    entry, reason, detail = decision.entry, decision.reason, text.one_line(decision.detail)
    match decision:
        case model.Submit(key=key, begin=begin):
            parts = [f"slot {style.at(key.slot)}", f"begins {style.at(begin)}" if begin else ""]
            parts += [f"job {text.name(entry.job_name or entry.name)}"]
            parts += [text.one_line(option.removeprefix("--").replace("=", " ", 1)) for option in entry.options]
            colour, why = "green", ", ".join(filter(None, [*parts, text.one_line(_output(decision)), detail]))
        case model.Skip(slot=slot, result=result, count=count):
            slots = f"slot {style.at(slot)}" if count == 1 else f"{count} slots up to {style.at(slot)}"
            colour, why = "yellow", joined(": ", filter(None, (f"{slots} recorded as {result}", detail)))
        case model.Wait(slot=slot):
            colour, when = "" if reason is Reason.NOT_DUE else "yellow", ""
            if slot is not None:
                when = f"{'next' if slot > style.now else 'due since'} {style.clock(slot)}"
                when += "" if colour else f" ({style.distance(slot)})"
            why = joined("; ", filter(None, (detail, when)))
    if reason is Reason.SUSPENDED:
        why = why + "; lift it with: " + command("resume", entry.name)
    return text.name(entry.name), reason, colour, why


def _link_line(decision: model.KeepLink | model.SubmitLink | model.MoveLink | model.CancelLink, style: Style) -> Line:
    match decision:
        case model.KeepLink(kind=link, job_id=job, at=at, detail=why):
            verb, what = "keep", f"{link} job {job} at {style.at(at)}"
        case model.SubmitLink(kind=link, at=at, why=why):
            verb, what = "submit", f"{link} at {style.at(at)}"
        case model.MoveLink(kind=link, job_id=job, at=at):
            verb, what, why = "move", f"{link} job {job} to {style.at(at)}", ""
        case model.CancelLink(kind=link, job_id=job, why=why):
            verb, what = "cancel", f"{link} job {job}"
    return "chain", verb, "", f"{what}: {text.one_line(why)}" if why else what


def _switch_line(decision: model.Stop | model.Hold | model.Unhold, style: Style) -> Line:
    if isinstance(decision, model.Unhold):
        return "pause switch", "release", "green", f"jobs {', '.join(_ids(decision.jobs))}"
    switch = f"{text.name(decision.switch.name)}, by {text.one_line(decision.switch.by)}"
    if isinstance(decision, model.Hold):
        return "pause switch", "hold", "yellow", f"{switch}: {', '.join(_ids(decision.jobs))}"
    jobs = [f"{job} pending" for job in decision.pending] + [f"{job} running" for job in decision.running]
    warned = f"is warned ({decision.warn_signal}), then has {times.took(decision.grace)}"
    jobs += [f"{job} {warned}" for job in decision.warn] + [f"{job} is ending" for job in decision.completing]
    alone = f"; left alone (scrontab's own): {', '.join(decision.left_alone)}" if decision.left_alone else ""
    since = style.at(decision.switch.since)
    return "kill switch", "cancel", "red", f"{switch} since {since}: {', '.join(jobs) or 'no job'}{alone}"


# --- once it is done -----------------------------------------------------------------------------------------------


_SOON = 60  # seconds
_LINKS = {LinkKind.SUCCESSOR: "scheduler", LinkKind.SPARE: "spare"}


def not_done(outcome: Outcome) -> str:
    """What was not done, for whom, how that ended and why: `submit backup: refused: a switch was set`."""
    it = subject(outcome.decision)
    return f"{it.kind} {it.entry or it.link or it.switch or ''}: {outcome.done}: " + outcome.detail


def could_not(row: Trouble) -> tuple[str, str]:
    """Of what it is said, "" for the entry itself, and that it could not be done, and why."""
    what, verb = _COULD_NOT.get(row.decision, ("", row.decision))
    return what, f"{verb}: " + text.one_line(row.detail).rstrip(".")


_COULD_NOT: dict[str, tuple[str, str]] = {
    Kind.SUBMIT: ("", "could not be submitted"),
    Kind.SKIP: ("its slot", "could not be recorded"),
    Kind.ADOPT: ("its job", "could not be recorded"),
    Kind.RELEASE: ("its job", "could not be released"),
    Kind.CANCEL: ("its job", "could not be cancelled"),
    Kind.WITHDRAW: ("its job", "could not be taken back"),
    Kind.FINISH: ("its end", "could not be recorded"),
    Kind.SUBMIT_LINK: ("no scheduler job", "could be submitted"),
    Kind.MOVE_LINK: ("the scheduler job", "could not be moved"),
    Kind.CANCEL_LINK: ("a scheduler job", "could not be cancelled"),
    Kind.STOP: ("its jobs", "could not be cancelled"),
    Kind.HOLD: ("its jobs", "could not be held"),
    Kind.UNHOLD: ("jobs that wait", "could not be released"),
}


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
