"""What people are told of: each condition once, once more a day while it stands, and when it is over."""

from __future__ import annotations

from enum import StrEnum

from cronhpc.core import model
from cronhpc.core.model import FAILURES, Done, LinkKind, Phase, Reason, Result, Told, entry_id
from cronhpc.cron.values import count, dataclass, grouped, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from cronhpc.core.model import EntryState, Instant, JobEnd, Outcome, Switch, World
    from cronhpc.script.dialect import Dialect

REMIND = 86400  # seconds
_NAMED = 20  # jobs in one message


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that stands until it is fixed. `subject` is its name over time."""

    subject: str  # "failed backup", "switch kill/training17"
    kind: str  # failed | missed | suspended | stopped | chain | budget | disk
    text: str
    entry: str = ""
    job: str = ""  # of the run that it tells of
    log: str = ""  # that run's, relative to the cron directory


@dataclass(frozen=True, slots=True)
class Alert:
    """One message."""

    phase: Phase
    kind: str
    text: str
    entry: str = ""
    since: Instant | None = None
    entries: tuple[str, ...] = ()  # where one message tells of many
    job: str = ""
    log: str = ""  # relative to the cron directory


class Event(StrEnum):
    """What is told of by a ping; its value is what the address gets behind it."""

    START = "/start"
    SUCCESS = ""
    FAIL = "/fail"


@dataclass(frozen=True, slots=True)
class Ping:
    """One request. `where` is an address, file:PATH or env:NAME."""

    where: str
    event: Event
    entry: str


_APART, _LISTED = 10, 30  # messages of a kind that are told one by one; those that a message of many lists


_REST = "chain rests"  # as it is remembered, by earlier versions too


def conditions(
    world: World,
    states: Mapping[str, EntryState],
    outcomes: Sequence[Outcome],
    stopped: Mapping[str, Sequence[str]],
) -> list[Condition]:
    """What stands now, worst first within an entry: suspended before failed before missed.

    `stopped`: by a switch's path what it stopped in this tick, in words.
    """
    goes_on = _going_on(world, outcomes)
    conditions = []
    for entry in world.entries:
        name, state = entry.name, states.get(entry.name, model.NEW_STATE)
        kind, text = _of_entry(name, state, world.dialect, tried_again=entry_id(name) in goes_on)
        if kind:
            conditions.append(Condition(f"{kind} {name}", kind, f"{name} " + text, name, *_run_of(state)))
    for switch in world.switches.listed:
        if not switch.expired(world.now):
            text = f"{_set(switch)}{_stopped_jobs(stopped.get(switch.path, ()))}"
            conditions.append(Condition(_subject(switch), "stopped", text))
    left = (o.decision for o in outcomes if isinstance(o.decision, model.LeaveChain))
    on_hold = next((each for each in left if not each.cause.at_work), None)
    if on_hold is not None:
        conditions.append(Condition(_REST, "chain", "the chain is on hold, nothing runs by itself: " + on_hold.why))
    waits = (o.decision for o in outcomes if isinstance(o.decision, model.Wait))
    over = next((each for each in waits if each.reason is Reason.BUDGET and (each.slot or 0) <= world.now), None)
    if over is not None:  # a slot to come waits for its time
        conditions.append(Condition("budget", "budget", f"nothing more is submitted: {over.detail}"))
    return conditions


def _subject(switch: Switch) -> str:
    return f"switch {switch.title}"


def _set(switch: Switch) -> str:
    why = f': "{switch.reason}"' if switch.reason else ""
    return f"{switch.title} was set by {switch.by}{why}"


def _stopped_jobs(jobs: Sequence[str]) -> str:
    if not jobs:
        return ""
    more = f" and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else ""
    return f"; it stopped {', '.join(jobs[:_NAMED])}{more}"


def _going_on(world: World, outcomes: Sequence[Outcome]) -> set[str]:
    """Ids of entries of which an attempt has not ended, or a further one is to come."""
    claims = {claim.key: claim.job_end is None or claim.retry_at is not None for claim in world.claims}
    finished = (o.decision for o in outcomes if isinstance(o.decision, model.Finish) and o.done is Done.OK)
    claims |= {finish.key: finish.retry_at is not None for finish in finished}
    return {key.entry for key, goes_on in claims.items() if goes_on}


def _of_entry(name: str, state: EntryState, dialect: Dialect, *, tried_again: bool) -> tuple[str, str]:
    """The kind of what stands, and what is said behind the entry's name; "" where all is well."""
    if state.suspended is not None:
        after = f"after {count(state.failures, 'failure')} in a row"
        return "suspended", f"is suspended {after}; go on with: " + model.command("resume", name)
    result = state.last.get("result", "")
    if state.failures:  # until it goes well: a slot that was skipped, missed or cancelled fixes nothing
        times = f"{state.failures} times in a row" if state.failures > 1 else "once"
        return "failed", f"failed {times}" + (f": {result}{_how(state, dialect)}" if result in FAILURES else "")
    if result == Result.PREEMPTED and not tried_again:
        return "failed", f"was preempted{_how(state, dialect)}"
    if result == Result.MISSED:
        return "missed", _missing(state.last.get("detail", ""), state.last.get("count", 1))
    return "", ""


def _run_of(state: EntryState) -> tuple[str, str]:
    """Job and log of the newest run, where that is the failure which is told."""
    last = state.last
    return (last.get("job") or "", last.get("log") or "") if last.get("result") in FAILURES else ("", "")


def _how(state: EntryState, dialect: Dialect) -> str:
    """Exit code and detail of the newest failure, and the node that the last ones share."""
    last, node = state.last, state.shared_node
    end = _ended(last.get("exit_code"), last.get("signal"), last.get("detail", ""))
    if not node:
        return end
    from cronhpc.script.spelling import directive

    line = directive(dialect, "exclude", node)
    return f"{end}; each time on {node}" + (f": if it is at fault, add {line}" if line else "")


def _ended(exit_code: int | None, signal: int | None, detail: str) -> str:
    parts = [f"exit {exit_code}"] if exit_code else []
    parts += [f"signal {signal}"] if signal else []
    parts += [detail] if detail else []
    return f" ({', '.join(parts)})" if parts else ""


def by_hand(name: str, job_end: JobEnd, job: str, now: int) -> Alert | None:
    """A run that `run` submitted counts in no streak, so its failure stands nowhere: it is told once."""
    if job_end.result not in FAILURES or not job:  # one that sbatch refused was told to whoever asked for it
        return None
    is_verb = job_end.result in {Result.FAILED, Result.TIMEOUT}
    verb = str(job_end.result) if is_verb else f"failed: {job_end.result}"
    text = f"{name}, run by hand, {verb}{_ended(job_end.exit_code, job_end.signal, job_end.detail)}"
    return Alert(Phase.ONCE, "failed", text, name, now, job=job, log=job_end.log)


def events(
    world: World, outcomes: Sequence[Outcome], stopped: Mapping[str, Sequence[str]], told_before: Collection[str]
) -> list[Alert]:
    """What happened once: a lost link that was replaced; slots that were missed though the entry ran on.

    And what a switch stopped of which people have been told already (`told_before`: subjects).
    """
    later = [
        Alert(Phase.ONCE, "stopped", f"{_set(switch)}{_stopped_jobs(stopped[switch.path])}")
        for switch in world.switches.listed
        if switch.path in stopped and _subject(switch) in told_before
    ]
    return [*later, *_fixed(world, outcomes), *_missed(outcomes)]


def _fixed(world: World, outcomes: Sequence[Outcome]) -> list[Alert]:
    """Links submit their own successors: where a tick had to, or the spare had to go on, one was lost."""
    for each in outcomes:
        decision = each.decision
        if not isinstance(decision, model.SubmitLink) or each.done is not Done.OK:
            continue
        if (
            decision.kind is LinkKind.SUCCESSOR and decision.lost
        ):  # not one more that waits ahead, nor one in an old one's place
            text = f"the chain was fixed: {decision.why}; job {each.job_id} was submitted"
            return [Alert(Phase.ONCE, "chain", text, since=world.now)]
    me, lost, live = world.call.link, world.kept.successor, {job.id for job in world.listed if job.live}
    if world.queue and world.chain.wanted and me and me == world.kept.spare and lost not in {"", *live}:
        text = f"the chain was fixed: job {lost} did not come, and its spare, job {me}, went on"
        return [Alert(Phase.ONCE, "chain", text, since=world.now)]
    return []


def _missed(outcomes: Sequence[Outcome]) -> list[Alert]:
    """Of entries that run on in the same tick: the condition of those that do not says it already."""
    runs_on = {o.decision.entry.name for o in outcomes if isinstance(o.decision, model.Submit)}
    return [
        Alert(Phase.ONCE, "missed", f"{d.entry.name} {_missing(d.detail, d.count)}", d.entry.name, d.slot)
        for d in (outcome.decision for outcome in outcomes)
        if isinstance(d, model.Skip) and d.result is Result.MISSED and d.entry.name in runs_on
    ]


def _missing(detail: str, number: int) -> str:
    """Of several the detail says how many."""
    return f"missed {detail}" if number > 1 else f"missed a slot: {detail}"


def messages(
    standing: Iterable[Condition], remembered: Mapping[str, Told], now: int, entries: Collection[str]
) -> tuple[list[Alert], dict[str, Told]]:
    """The messages that are due, and what is to be remembered: tell this again and there is nothing to say.

    `entries`: the names that are there; what was told of another is over without being fine.
    """
    alerts: list[Alert] = []
    kept: dict[str, Told] = {}
    for each in standing:
        before = remembered.get(each.subject)
        phase = Phase.NEW if before is None else Phase.STILL if now - before.told >= REMIND else None
        row = before or Told(each.kind, now, now, each.entry)
        if phase:
            alerts.append(Alert(phase, each.kind, each.text, each.entry, row.since, job=each.job, log=each.log))
        kept[each.subject] = replace(row, told=now) if phase else row
    others = {row.entry: subject for subject, row in kept.items() if row.entry}
    for subject, row in remembered.items():
        if subject not in kept:
            alerts.append(Alert(Phase.OVER, row.kind, _over(subject, row.entry, others, entries), row.entry, now))
    return alerts, kept


def _over(subject: str, entry: str, others: Mapping[str, str], entries: Collection[str]) -> str:
    """`others`: by entry what stands of it now; a failing one that is suspended is not fine."""
    if entry and entry not in entries:
        return f"no longer watched: {subject} (there is no entry {entry} now)"
    fine = "the chain" if subject == _REST else subject
    return f"no longer {subject}, but {others[entry]}" if entry in others else f"fine again: {fine}"


def gathered(alerts: Sequence[Alert]) -> list[Alert]:
    """A night on which everything fails is told in a few messages: many of one kind and phase become one."""
    fewer: list[Alert] = []
    for (phase, kind), some in grouped(alerts, lambda each: (each.phase, each.kind)).items():
        if len(some) <= _APART:
            fewer += some
            continue
        named = "\n".join(each.text for each in some[:_LISTED])
        more = f"\nand {len(some) - _LISTED} more" if len(some) > _LISTED else ""
        entries = tuple(each.entry for each in some if each.entry)
        starts = [each.since for each in some if each.since is not None]
        text = f"{len(some)} at once ({kind}):\n{named}{more}"
        fewer.append(Alert(phase, kind, text, since=min(starts, default=None), entries=entries))
    return fewer
