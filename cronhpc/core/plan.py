"""World to decisions: rules, in order.

For one entry and one slot the first rule that applies decides, and its name is the reason shown everywhere:

    stopped, paused, suspended  ->  used up, recorded
    invalid, not trusted  ->  stays due until its deadline
    not due
    already claimed
    past deadline  ->  used up, recorded as missed
    still running  ->  as `overlap` says
    over budget  ->  stays due
    submit
"""

from __future__ import annotations

from itertools import accumulate

from cronhpc.core import attempts, chain, slots, stop
from cronhpc.core.attempts import suspended_now
from cronhpc.core.identity import Absence, Lives, counted, is_queued, queued, runs
from cronhpc.core.model import (
    NEW_STATE,
    Claim,
    ClaimState,
    Finish,
    Hold,
    Key,
    Overlap,
    Plan,
    Reason,
    Rerun,
    Result,
    Scope,
    Skip,
    Stop,
    Submit,
    Unhold,
    Wait,
    Withdraw,
    entry_id,
)
from cronhpc.cron.values import count, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from cronhpc.core.model import Decision, Entry, World


def plan(world: World, late: Collection[Decision] = ()) -> Plan:
    """Everything that a tick will do at `world.now`, in order, each with its reason.

    `late`: runs ahead of their time that go for others, as a first try has found.
    """
    if world.call.scope is Scope.LINKS:
        back = attempts.withdrawals(world) if world.call.takes_back else ()
        return Plan((*chain.decide(world, chain.wake_of_start(world)), *back), world.now)
    budget = attempts.Budget.of(world)
    if world.call.only:
        return Plan(_ordered(world, budget), world.now)
    decided: list[Decision] = [*stop.decide(world)]
    ends = (d for d in attempts.decide(world) if isinstance(d, Finish))
    if suspended := suspended_now(world, ends):
        world = replace(world, states={**world.states, **suspended})  # at once: no retry, and what waits goes
    ahead, tried = _apart(world, (*attempts.decide(world), *late))
    turns: list[list[Decision]] = [[each] for each in tried if isinstance(each, Submit)]
    decided += (each for each in tried if not isinstance(each, Submit))
    withdrawn = {each.job_id for each in decided if isinstance(each, Withdraw)}
    decided = [_without(each, withdrawn) for each in decided]
    if world.call.scope is Scope.SWITCHES:
        return Plan(tuple(d for d in decided if isinstance(d, Stop | Hold | Unhold | Withdraw)), world.now)
    seen = slots.Seen.of(world)
    # What this very tick cancels or knows to have ended is in no other run's way.
    lives = Lives.of(world, but={each.key for each in decided if isinstance(each, Finish)})
    going = {each.key.entry: each for each in tried if isinstance(each, Submit)}
    of_others: list[Decision] = []
    of_entries = {each.name: _entry(world, each, seen, lives, going.get(entry_id(each.name))) for each in world.entries}
    for of_entry, _, _ in of_entries.values():
        to_begin, rows = _apart(world, of_entry)
        ahead += to_begin
        if any(isinstance(each, Submit) for each in rows):
            turns.append(rows)
        else:
            of_others += rows
    # What belongs together stands by its first submission.
    turns.sort(key=lambda rows: slots.turn(world, next(row for row in rows if isinstance(row, Submit))))
    for rows in turns:
        decided.extend(budget.granted(rows))
    decided.extend(of_others)
    ahead.sort(key=lambda row: row.key.slot)
    fit, go_first = _places(world, lives, decided, ahead)
    if go_first and not late:
        return plan(world, go_first)
    by_time = list(_earliest_first(ahead, fit, world.kept.job_limit, budget))
    without = {each.entry.name for each in by_time if isinstance(each, Wait)}  # their next slot is one of those
    decided = [
        d for d in decided if not (isinstance(d, Wait) and d.reason is Reason.NOT_DUE and d.entry.name in without)
    ]
    decided += by_time
    wake = slots.wake(world, (at for _, _, at in of_entries.values() if at is not None), decided, lives)
    # A daemon wakes itself: its successor comes at the interval's end, to take over.
    at = slots.boundary(world.now, world.settings.interval) if world.call.by_daemon else wake
    decided.extend(chain.decide(world, at))
    dues = {name: due for name, (_, due, _) in of_entries.items() if due is not None}
    computed = {name: due.computed for name, due in dues.items() if due.computed is not None}
    first = {entry_id(name): due.first for name, due in dues.items() if due.first is not None}
    return Plan(tuple(decided), wake, computed, first | seen.first_of_gone(world, decided))


def _apart(world: World, rows: Iterable[Decision]) -> tuple[list[Submit], list[Decision]]:
    """What is to begin at its time, also where it was tried before, if only a login node submits; and the rest."""
    ahead: list[Submit] = []
    rest: list[Decision] = []
    for each in rows:
        if world.chain.via.runs_ahead and isinstance(each, Submit) and each.begin is not None:
            ahead.append(each)
        else:
            rest.append(each)
    return ahead, rest


def _ordered(world: World, budget: attempts.Budget) -> tuple[Decision, ...]:
    """What is asked by hand of one entry, last, and what goes for it."""
    entries = (each for each in world.entries if entry_id(each.name) == world.call.only)
    rows = [row for entry in entries for row in budget.granted(_by_hand(world, entry))]
    late = _places(world, Lives.of(world), rows)[1]
    return (*(each for each in late if isinstance(each, Withdraw)), *rows)


def _by_hand(world: World, entry: Entry) -> Iterator[Decision]:
    """`cronhpc run`: a slot at the instant asked, whatever the schedule says; switches, trust and overlap hold.

    `cronhpc rerun`: a further attempt of a slot that has run, unless one of it has not ended or comes by itself.
    """
    asked = world.call.rerun or Rerun(world.now, 1)
    key = Key(entry_id(entry.name), asked.slot, asked.attempt, by_hand=True)
    tasks = asked.tasks if entry.array else ""
    if (refusal := _barred(world, entry)) is not None:
        yield Wait(entry, world.now, *refusal)
    elif world.queue is None:
        yield Wait(entry, world.now, Reason.UNKNOWN, world.queue_error)
    elif world.call.rerun and (why := attempts.unended(world, key)):
        yield Wait(entry, None, Reason.CLAIMED, why)
    elif not world.call.rerun and (in_the_way := _unended(world, entry)) is not None:
        yield Wait(entry, None, *in_the_way)
    else:
        yield Submit(entry, key, Reason.SUBMIT, detail=f"array tasks {tasks}" if tasks else "", tasks=tasks)


def _unended(world: World, entry: Entry) -> tuple[Reason, str] | None:
    """Runs beside which none is started by hand, unless that was asked for or `overlap: allow` stands."""
    if world.call.side_by_side or entry.policies.overlap is Overlap.ALLOW:
        return None
    lives = Lives.of(world)
    jobs = [claim.job_id or "" for claim in lives.of_entry(entry_id(entry.name)) if claim.key.slot <= world.now]
    if not jobs:
        return None
    absent = [lives.absent.get(job) for job in jobs]
    if doubt := absent[0] if all(absent) else None:
        return Reason.QUEUED, f"job {', '.join(jobs)}: {doubt}"
    return Reason.RUNNING, f"job {', '.join(jobs)} has not ended"


def _barred(world: World, entry: Entry) -> tuple[Reason, str] | None:
    """The rules that do not depend on a slot."""
    switch = stop.switch_on(world, entry)
    if switch is not None:
        return Reason.by_switch(switch.kind), switch.in_words
    if world.switches.unknown:
        return Reason.STOPPED, f"{world.switches.unknown[0]} cannot be read, so nobody knows what it stops"
    if entry.problem is not None:
        reason = Reason.NOT_TRUSTED if entry.problem.code.startswith("E40") else Reason.INVALID
        return reason, (f"{entry.problem.what} " + entry.problem.fix).rstrip()
    if entry.fresh:
        return Reason.JUST_CHANGED, "changed in the last seconds; it is looked at again"
    return None


def _entry(
    world: World, entry: Entry, seen: slots.Seen, lives: Lives, going: Submit | None = None
) -> tuple[list[Decision], slots.Due | None, int | None]:
    """What becomes of its slots, which those are, and when a tick must come for the next one.

    `going`: an attempt of an earlier slot that this very tick submits.
    """
    if entry.problem is not None and not entry.schedule:
        return [Wait(entry, None, *(_barred(world, entry) or (Reason.INVALID, "")))], None, None
    state = world.states.get(entry.name, NEW_STATE)
    due = seen.due(world, entry, state)
    refusal = _barred(world, entry)
    if refusal is None and state.suspended is not None:
        refusal = Reason.SUSPENDED, f"after {count(state.failures, 'failure')} in a row"
    if refusal is not None:
        return [*_refused(entry, due, *refusal, readable=not world.switches.unknown)], due, None
    rows: list[Decision] = [due.missed] if due.missed is not None else []
    before = [claim for claim in lives.of_entry(entry_id(entry.name)) if claim.key.slot <= world.now]
    live = [claim.job_id or "" for claim in before]
    # What has lasted as long as there is time left to the next slot may well last until then.
    left = due.next - world.now
    lasting = [claim.job_id or "" for claim in before if world.now - claim.key.slot >= left]
    doubt = next((why for each in live if (why := lives.absent.get(each)) is Absence.ONE_LOOK), None)
    for slot in due.slots:
        decision = _beside(entry, slot, going) or _slot(world, entry, slot, overlapping=live, doubt=doubt)
        rows.append(decision)
        if isinstance(decision, Wait):
            return rows, due, None  # later slots wait behind an earlier one that stays due
        if isinstance(decision, Submit):
            if entry.policies.overlap is Overlap.QUEUE and slot != due.slots[-1]:
                following = due.slots[due.slots.index(slot) + 1]
                by_turns = "one run at a time: it stays due until the one before has ended"
                return [*rows, Wait(entry, following, Reason.QUEUED, by_turns)], due, None
            live, doubt = [], None  # catch-up slots of one tick do not count as overlapping
    to_come, at = _ahead(world, entry, due, overlapping=lasting)
    return [*rows, *to_come], due, at


def _beside(entry: Entry, slot: int, going: Submit | None) -> Decision | None:
    """What is in the way of a slot that is due while an earlier one's attempt is submitted by the same tick."""
    if going is None:
        return None
    why = f"attempt {going.key.attempt} of an earlier slot begins now"
    if entry.policies.overlap is Overlap.QUEUE:
        return Wait(entry, slot, Reason.QUEUED, why)
    if entry.policies.overlap is Overlap.SKIP and going.reason is Reason.RETRY:  # others: as slots that are caught up
        return Skip(entry, slot, Result.SKIPPED, Reason.RUNNING, why)
    return None


def _refused(entry: Entry, due: slots.Due, reason: Reason, detail: str, *, readable: bool) -> Iterator[Decision]:
    """A switch or a suspension uses its slots up; anything that can be fixed leaves them due."""
    uses_up = reason is Reason.SUSPENDED or (reason in {Reason.STOPPED, Reason.PAUSED} and readable)
    if not uses_up or not due.slots:
        if due.missed is not None:
            yield due.missed
        yield Wait(entry, due.slots[0] if due.slots else due.next, reason, detail)
        return
    result = Result.SUSPENDED if reason is Reason.SUSPENDED else Result.STOPPED
    count = len(due.slots) + (due.missed.count if due.missed else 0)
    yield Skip(entry, due.slots[-1], result, reason, detail, count)


def _slot(world: World, entry: Entry, slot: int, *, overlapping: list[str], doubt: Absence | None) -> Decision:
    """The further rules, for a slot that is due. `doubt`: whether an overlapping run has ended the next look tells."""
    key = Key(entry_id(entry.name), slot)
    limit = entry.policies.deadline
    if limit is not None and world.now - slot > limit:
        why = f"{world.now - slot} s late, deadline {limit} s{slots.cause(world.states.get(entry.name))}"
        return Skip(entry, slot, Result.MISSED, Reason.MISSED, why)
    if world.queue is None:
        return Wait(entry, slot, Reason.UNKNOWN, world.queue_error)
    replaces: tuple[str, ...] = ()
    if overlapping and entry.policies.overlap is not Overlap.ALLOW:
        jobs = ", ".join(overlapping)
        if doubt is not None:
            return Wait(entry, slot, Reason.QUEUED, f"job {jobs}: {doubt}")
        if entry.policies.overlap is Overlap.QUEUE:
            return Wait(entry, slot, Reason.QUEUED, f"job {jobs} has not ended")
        if entry.policies.overlap is Overlap.SKIP:
            return Skip(entry, slot, Result.SKIPPED, Reason.RUNNING, f"job {jobs} has not ended")
        replaces = tuple(overlapping)
    detail = f"job {', '.join(replaces)} is cancelled for it" if replaces else ""
    return Submit(entry, key, Reason.SUBMIT, detail=detail, replaces=replaces)


def _ahead(world: World, entry: Entry, due: slots.Due, *, overlapping: list[str]) -> tuple[list[Decision], int]:
    """Slots nearer than the next possible tick are submitted now, to begin at their time; and when a tick must come.

    While a run of before lasts they are not: whether it still does, only a tick at the slot can tell. Where ticks come
    from a login node alone nobody would come at the slot.
    """
    near, following = due.near(world)
    earliest, runs_ahead = world.now + world.settings.min_interval, world.chain.via.runs_ahead
    if near and overlapping and entry.policies.overlap is not Overlap.ALLOW and not runs_ahead:
        why = f"job {', '.join(overlapping)} has not ended: looked at when the slot comes"
        return [Wait(entry, due.next, Reason.NOT_DUE, why)], max(due.next, world.now + slots.UNFINISHED_WAKE)
    one_by_one = entry.policies.overlap is Overlap.QUEUE and not runs_ahead
    if not near or world.queue is None or one_by_one:
        return [Wait(entry, due.next, Reason.NOT_DUE)], max(due.next, earliest)
    ahead = (Submit(entry, Key(entry_id(entry.name), slot), Reason.AHEAD, begin=slot) for slot in near)
    return [*ahead], max(following, earliest)


def _without(decision: Decision, gone: Collection[str]) -> Decision:
    """A pause holds no job that is cancelled in this tick."""
    if not isinstance(decision, Hold):
        return decision
    return replace(decision, jobs=tuple(job for job in decision.jobs if job.id not in gone))


def _places(
    world: World, lives: Lives, decided: Collection[Decision], ahead: Sequence[Submit] = ()
) -> tuple[int, list[Decision]]:
    """How many of `ahead`, in order, to submit ahead of their slots, and which of those that wait so go for others.

    Under a limit the earliest of all entries wait, as many as there are places beside all else. One more is tried:
    the limit may have been raised.
    """
    limit = world.kept.job_limit if world.chain.via.runs_ahead else 0
    if not limit:
        return len(ahead), []
    limit = max(limit, jobs := queued(world))
    why = f"{_fitting(limit)}, and others come first"
    going = {each.key: each for each in decided if isinstance(each, Withdraw) and each.job_id and not each.gone}
    waiting = [each for claims in lives.by_entry.values() for each in claims if each.holds and each.key not in going]
    waiting = [each for each in waiting if each.key.slot > world.now and not runs(world, each)]
    due = sum(counted(world, each) for each in decided if isinstance(each, Submit))
    freed = sum(counted(world, each) for each in going.values()) + sum(counted(world, each) for each in waiting)
    places = limit - jobs + freed - due
    in_order: list[Claim | Submit] = sorted((*waiting, *ahead), key=lambda each: each.key.slot)
    fit = sum(number <= places for number in accumulate(counted(world, each) for each in in_order))
    late = [
        row
        for each in in_order[fit:]
        if isinstance(each, Claim) and each.state is ClaimState.RELEASED and not each.taken_back
        if is_queued(world, each)
        for row in attempts.taken_back(world, each, world.entries_by_id().get(each.key.entry), why)
    ]
    return sum(isinstance(each, Submit) for each in in_order[:fit]) + (not going), late


def _earliest_first(ahead: Sequence[Submit], fit: int, limit: int, budget: attempts.Budget) -> Iterator[Decision]:
    """What is submitted for the next day, of all entries: where there is room for few, those whose time comes first."""
    waiting: set[str] = set()
    for number, row in enumerate(ahead):
        turn = [row] if number < fit else [Wait(row.entry, row.key.slot, Reason.NOT_DUE, _fitting(limit))]
        for each in budget.granted(turn if row.key.entry not in waiting else []):
            if isinstance(each, Wait):
                waiting.add(row.key.entry)
            yield each


def _fitting(limit: int) -> str:
    return f"the site takes {count(limit, 'job')} of yours at a time"
