"""The chain's health: what a tick saw of it, and what that means at the moment of looking."""

from __future__ import annotations

from enum import StrEnum

from cronhpc.core import chain as links
from cronhpc.core.model import (
    CLOCKS_APART,
    HOLDS,
    NEVER_STARTS,
    NO_NEWS,
    Disabled,
    Done,
    Fault,
    LeaveChain,
    LinkKind,
    MoveLink,
    Reason,
    Result,
    Submit,
    SubmitLink,
    Wait,
    Way,
    command,
)
from cronhpc.core.slots import boundary
from cronhpc.views import runs, text
from cronhpc.views.facts import Ahead, Chain, EndedLink, Link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from cronhpc.core.model import Job, JobEnd, Outcome, Plan, World
    from cronhpc.views.style import Style


def facts(world: World, plan: Plan, outcomes: Iterable[Outcome], *, ticked: bool) -> Chain:
    """What is known of the chain, the tick's own doings included."""
    of_chain = links.Links.of(world)
    chain = world.chain
    known = {LinkKind.SUCCESSOR: _link(of_chain.successors), LinkKind.SPARE: _link(of_chain.spares)}
    ahead = [job.start for job in of_chain.successors]
    full_since = world.kept.full_since
    for outcome in outcomes:
        decision = outcome.decision
        if isinstance(decision, SubmitLink) and decision.again and outcome.done is Done.REFUSED:
            known[decision.kind], full_since = Link(decision.again, decision.at, ""), full_since or world.now
        if outcome.done is Done.OK and isinstance(decision, SubmitLink | MoveLink):
            job = outcome.job_id or (decision.job_id if isinstance(decision, MoveLink) else None)
            known[decision.kind] = Link(job, decision.at, "")
            if isinstance(decision, SubmitLink) and decision.kind is LinkKind.SUCCESSOR:
                ahead.append(decision.at)
    next_link = known[LinkKind.SUCCESSOR]
    if next_link is not None and next_link.job not in {world.kept.successor, world.call.link}:
        full_since = 0  # another has found its place
    rest = next((d.why for d in plan.decisions if isinstance(d, LeaveChain) and not d.cause.at_work), "")
    on_hold = rest or chain.on_hold
    last = world.now if ticked else world.kept.last_tick
    running = [job.id for job in of_chain.running] or ([world.call.link] if world.call.link else [])
    return Chain(
        wanted=chain.wanted,
        stopped=chain.stopped,
        by_links=chain.by_links,
        by_daemon=world.call.by_daemon,
        disabled=str(chain.disabled or ""),
        via=chain.via if chain.wanted else Way.UNKNOWN,
        caller=chain.caller if ticked else world.kept.caller,
        interval=world.settings.interval,
        runs_ahead=runs_ahead(world, plan, outcomes, last or world.now) if chain.wanted and chain.via.runs_ahead else 0,
        last_tick=last,
        running=running[0] if running else None,
        next=next_link,
        spare=known[LinkKind.SPARE],
        on_hold=on_hold if (chain.wanted or rest) and not running else "",
        no_spare=world.kept.no_spare if chain.wanted else "",
        ahead=Ahead(len(ahead), max(filter(None, ahead), default=None)) if chain.prequeue > 1 else None,
        moved_from=chain.moved_from,
        state="",
        fix="",
        full_since=full_since or None,
        ended_badly=None if ticked else tuple(_ended_link(*each) for each in chain.ended_badly.items()) or None,
    )


def _ended_link(job_id: str, end: JobEnd) -> EndedLink:
    return EndedLink(job_id, str(end.result), end.exit_code, end.signal, end.ended, end.node)


def runs_ahead(world: World, plan: Plan, outcomes: Iterable[Outcome], last: int) -> int:
    """For so many seconds from the `last` tick on every run is queued: to the first that is not, at most."""
    queued = {id(outcome.decision) for outcome in outcomes if outcome.done is Done.OK}
    begins = [d.begin for d in plan.decisions if isinstance(d, Submit) and id(d) not in queued]
    begins += [d.slot for d in plan.decisions if isinstance(d, Wait) and d.reason in _TO_COME]
    return min([world.settings.ahead, *(max(0, at - last) for at in begins if at is not None)])


_TO_COME = frozenset({Reason.NOT_DUE, Reason.BUDGET})


def _link(jobs: tuple[Job, ...]) -> Link | None:
    if not jobs:
        return None
    stuck = [job.held or job.fault in NEVER_STARTS for job in jobs]
    job = jobs[stuck.index(min(stuck))]  # one that can start goes first
    # the batch system still names the time that a stuck one asked for
    return Link(job.id, None if all(stuck) else job.start, job.reason, job.fault)


class State(StrEnum):
    """How the chain is, in a word or two."""

    FINE = "fine"
    OTHERWISE = "driven otherwise"  # by a daemon, crontab, by hand
    NOT_NEEDED = "not needed yet"
    NOT_STARTED = "not started"
    STOPPED = "stopped"
    ON_HOLD = "on hold"
    DISABLED = "disabled"
    ELSEWHERE = "started elsewhere"
    LATE = "late"
    FAILING = "failing"
    SILENT = "silent"
    BROKEN = "broken"
    MOVED = "moved"
    UNKNOWN = "unknown"


FINE = frozenset({State.FINE, State.OTHERWISE, State.NOT_NEEDED})  # nobody has to do anything
LIMPS = frozenset({State.LATE, State.FAILING})  # it goes on by itself, later than it should
LOST = frozenset({State.SILENT, State.BROKEN, State.MOVED})  # it should go on, and does not
DOWN = LOST | {State.NOT_STARTED, State.STOPPED, State.ON_HOLD, State.DISABLED}


def health(chain: Chain, *, answers: bool, entries: int, now: int) -> State:
    """How the chain is at `now`, in a word or two, by facts that may be older: the first that applies is the answer."""
    last = chain.last_tick
    overdue = last is not None and _overdue(chain, last, now)
    if not chain.wanted and not chain.on_hold:
        if chain.stopped:
            return State.STOPPED
        if last is not None and not overdue:
            return State.OTHERWISE
        return State.NOT_STARTED if entries else State.NOT_NEEDED
    if chain.on_hold:
        return State.ON_HOLD
    if chain.by_links and answers and not (chain.running or any(map(_may_start, (chain.next, chain.spare)))):
        return State.BROKEN
    if chain.moved_from and chain.by_links:
        return State.MOVED
    if chain.disabled:
        return State.ELSEWHERE if chain.disabled == Disabled.ELSEWHERE else State.DISABLED
    if overdue:
        return State.SILENT
    return _health_at_work(chain, now) if answers else State.UNKNOWN


def _health_at_work(chain: Chain, now: int) -> State:
    if chain.ended_badly:
        return State.FAILING
    late = not chain.running and (_kept_back(chain.next, now) if chain.next else chain.spare is not None)
    return State.LATE if chain.by_links and late else State.FINE


def _kept_back(link: Link, now: int) -> bool:
    """Whether its time has come, it waits for more than its turn, and no tick puts another in its place: no nodes."""
    return (link.at is None or link.at < now) and link.fault in {Fault.KEPT_BACK, Fault.MAY_NEVER_START}


_KILL = 9  # the signal of those who are out of memory


def fix_of(chain: Chain, state: str) -> str:
    """What to do about a chain in that state."""
    start = command("start")
    if state in {State.FINE, State.UNKNOWN}:
        return ""
    if state == State.LATE and chain.next:
        return ""  # nobody here can make nodes come back
    if state in DOWN - {State.SILENT} or not chain.ended_badly:
        return start
    newest = chain.ended_badly[-1]
    killed = newest.result == Result.FAILED and (newest.signal == _KILL or newest.exit_code == 128 + _KILL)
    if killed or newest.result == Result.OUT_OF_MEMORY:
        return "give it more memory: scheduler: {sbatch: {mem: 1G}} in cronhpc.yaml, then " + start
    if newest.result == Result.TIMEOUT and not chain.via.daemon:  # that one's time follows from the interval
        return "give it more time: scheduler: {sbatch: {time: 20}} in cronhpc.yaml, then " + start
    return "see scheduler/scheduler.log; a tick now: " + command("tick")


def _may_start(link: Link | None) -> bool:
    """Whether a tick may come of it by itself."""
    return link is not None and link.fault not in HOLDS | NEVER_STARTS


def _overdue(chain: Chain, last: int, now: int) -> bool:
    """Or dated from a time that has not come: with it went the links."""
    return last > now + CLOCKS_APART or now > heard_until(chain, last)


def heard_until(chain: Chain, last: int) -> int:
    """The instant from which it is silent, its last tick having been at `last`."""
    return links.heard_until(last, chain.interval, chain.runs_ahead)


def words(chain: Chain, batch: str, style: Style) -> tuple[str, str, str]:
    """The chain in a line, without its fix: how it is, what stands between, and the rest.

    By its facts as `status.seen_at` has them. A line begins with the state, or with "not started".
    """
    state, last, jobs = chain.state, chain.last_tick, _jobs_words(chain, style)
    ended = [_how_it_ended(link, style) for link in (chain.ended_badly or ())[-_ENDED:]]
    at = f"last tick {style.clock(last, seconds=True)}" if last else "no tick yet"
    ticked = f"{at} ({style.distance(last)})" if last else at
    match state:
        case State.FINE:
            return state, ": ", ", ".join([at, *_caller_words(chain, style), *jobs])
        case State.NOT_STARTED | State.NOT_NEEDED:
            return ("not started", "; ", ticked) if last else ("not started", "", "")
        case State.OTHERWISE:
            return "not started", "; ", f"{ticked} came otherwise (a daemon, crontab, by hand)"
        case State.STOPPED:
            return f"stopped by {style.command('stop')}", "; ", ticked
        case State.ON_HOLD | State.DISABLED | State.ELSEWHERE:
            why = chain.on_hold if state == State.ON_HOLD else chain.disabled
            return state, ": ", f"{style.text(text.one_line(why))}; {ticked}"
        case State.BROKEN | State.LATE | State.FAILING:
            gone = "no scheduler job can start" if jobs else "no scheduler job is in the queue"
            none = "" if chain.next else "no successor waits, only the spare"
            known = gone if state == State.BROKEN else none if state == State.LATE else ", ".join(ended)
            return state, ": ", "; ".join([*filter(None, [known]), *jobs, ticked])
        case State.MOVED:
            moved = f"its scheduler jobs look for it in {text.one_line(chain.moved_from)}"
            return state, ": ", f"{moved}; {ticked}"
        case State.SILENT if last and last > style.now:
            dated = f"the last tick is dated {style.dated(last)}, by a clock that was wrong"
            return state, ": ", "; ".join([dated, *jobs])
        case State.SILENT:
            since = f"silent since {style.dated(last)} ({style.distance(last)})" if last else "silent"
            rest = "; ".join([*ended, *jobs])
            return since, "; " if rest else "", rest
        case _:
            return "unknown", ": ", f"{batch} does not answer; " + ", ".join([ticked, *jobs])


_ENDED = 2  # the newest of those that ended badly


def _how_it_ended(link: EndedLink, style: Style) -> str:
    at = f" at {style.clock(link.ended)}" if link.ended else ""
    return f"job {link.job} {runs.result_sentence(link)}{f' on {text.clean(link.node)}' if link.node else ''}{at}"


def _caller_words(chain: Chain, style: Style) -> list[str]:
    """Who calls the ticks, where no scheduler job does."""
    last = chain.last_tick
    if last and chain.via.in_scrontab:
        return [f"next {style.clock(boundary(last, chain.interval))} (your scrontab)"]
    if last and chain.via.runs_ahead:
        by = f"by {text.one_line(chain.caller)}" if chain.caller else "from a login node"
        return [by, f"runs are queued until {style.dated(last + chain.runs_ahead)}"]
    return []


def _jobs_words(chain: Chain, style: Style) -> list[str]:
    jobs = [f"running now (job {chain.running})"] if chain.running else []
    for key, link, full_since in (("next", chain.next, chain.full_since), ("spare", chain.spare, None)):
        if link:
            at = link.at
            late = at is None or at < style.now
            why = text.one_line(link.reason) if late and link.reason not in NO_NEWS else ""
            when = style.clock(at) if at else "stuck" if link.fault else "soon"
            notes = [f"waits: {why}"] if why else []
            if full_since:
                notes.append(f"again: a submit limit has left no place for another since {style.dated(full_since)}")
            jobs.append(f"{key} {when} ({', '.join([f'job {link.job}', *notes])})")
    if chain.ahead and chain.ahead.links > 1:
        until = chain.ahead.until
        jobs.append(f"{chain.ahead.links} links wait ahead" + (f", the last {style.clock(until)}" if until else ""))
    if chain.no_spare and not chain.spare and chain.wanted:
        jobs.append(f"no spare: {text.one_line(chain.no_spare)}")
    return jobs
