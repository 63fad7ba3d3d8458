"""Which links must exist, which must go: one startable successor, one spare, and an administrator's word obeyed."""

from __future__ import annotations

from cronhpc.core.identity import TWO_LOOKS, records, unlisted
from cronhpc.core.model import (
    CLOCKS_APART,
    ENDS,
    FAILURES,
    LAUNCH_FAILED,
    LONGER,
    NEVER_STARTS,
    BadNode,
    CancelLink,
    Fault,
    Job,
    KeepLink,
    LeaveCause,
    LeaveChain,
    LinkKind,
    LinkRecord,
    MoveLink,
    NodeFault,
    Problem,
    Queue,
    Result,
    SubmitLink,
    Way,
    command,
)
from cronhpc.core.slots import boundary
from cronhpc.cron.values import dataclass, replace
from cronhpc.script.dialect import SLURM, Dialect, option_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cronhpc.core.model import ChainFacts, Decision, JobEnd, Settings, World
    from cronhpc.core.model.site import Partition

_CLOSE = 30  # seconds: a start this near is left as it is
_OUTAGE = 1.5  # intervals: by then the spare has run
_SLACK = 120  # seconds that a queue may take to start a link that is due


def expected_until(now: int, interval: int, via: Way) -> int:
    """Until when nobody has to look for the tick after one at `now`: a login hook calls the next one itself."""
    return now + interval if via.runs_ahead else heard_until(now, interval)


def heard_until(last_tick: int, interval: int, ahead: int = 0) -> int:
    """The instant from which a chain whose newest tick was at `last_tick` is silent.

    `ahead` (seconds): runs of this time were submitted ahead, and wait in the queue meanwhile.
    """
    return last_tick + max(int(_OUTAGE * interval) + _SLACK, ahead)


@dataclass(frozen=True, slots=True)
class Links:
    """The chain's jobs in the queue, lowest id first."""

    successors: tuple[Job, ...]  # pending
    spares: tuple[Job, ...]  # pending
    running: tuple[Job, ...]  # one that ends just now does nothing any more

    @classmethod
    def of(cls, world: World) -> Links:
        """Found by their records (core/identity.py), so that no other job of that name is taken for one."""
        jobs = sorted(world.listed, key=lambda job: int(job.id))
        links = [(job, records(world).link(job)) for job in jobs if job.live]
        mine = [(job, link.kind) for job, link in links if link]
        pending = [(job, kind) for job, kind in mine if job.pending and job.id != world.call.link]
        return cls(
            tuple(job for job, kind in pending if kind is LinkKind.SUCCESSOR),
            tuple(job for job, kind in pending if kind is LinkKind.SPARE),
            tuple(job for job, _ in mine if not (job.pending or job.ending)),
        )


def doubted(world: World) -> list[str]:
    """Links to be asked about by their ids: the list of jobs has no successor, and lacks the newest link.

    Sites cache it: so the newest, and those of the last minutes.
    """
    if not world.chain.by_links or world.queue is None or Links.of(world).successors:
        return []
    newest = max(world.links, key=int, default="")
    if not newest or newest in world.jobs():
        return []
    young = {job_id for job_id, link in world.links.items() if _young(world, link)} - world.jobs().keys()
    return sorted({newest, *young}, key=int)[-_MOST_DOUBTED:]


_MOST_DOUBTED = 4  # of the last minutes: links that ran one after another, their successor, the spare


def completed(world: World, answers: Mapping[str, Mapping[str, str] | None], uid: int) -> World:
    """With the doubted links that are in the queue; without the list, where it lacks an older one: it is cut short.

    `answers`: what the batch system said of each (None: it knows none; empty: no answer). Without an answer a link of
    the last minutes may be there, so none takes its place yet; of an older one the list is believed.
    """
    rows = {
        job_id: _as_told(job_id, world.links[job_id], facts, uid, world.now)
        for job_id, facts in answers.items()
        if facts or (facts is not None and _young(world, world.links[job_id]))
    }
    live = [job for job in rows.values() if job is not None]
    newest = max(answers, key=int)
    if live and not _young(world, world.links[newest]):
        why = f"the list of jobs lacks {newest}, a link that is in the queue: it is not believed"
        return replace(world, queue=None, queue_error=why)
    return replace(world, queue=Queue((*world.listed, *live))) if live else world


def _as_told(job_id: str, link: LinkRecord, facts: Mapping[str, str], uid: int, now: int) -> Job | None:
    """The link's row; None: it has ended, or is another's job."""
    state = facts.get("JobState", "PENDING" if link.slot > now else "RUNNING")  # it may, where that is not told
    ours = f"({uid})"
    if state in ENDS or not facts.get("UserId", ours).endswith(ours):  # where ids began anew
        return None
    name, reason = facts.get("JobName", ""), facts.get("Reason", "")
    fault = Fault(facts["Fault"]) if "Fault" in facts else None
    return Job(job_id, state, name, reason=reason, fault=fault, start=link.slot or None, submitted=link.at)


def _young(world: World, link: LinkRecord) -> bool:
    """Whether a list that is not of this moment may lack it."""
    return world.now - link.at < TWO_LOOKS


def begun_and_gone(world: World) -> list[str]:
    """Links to be asked about by their ids: they have begun since the newest tick, and are gone, by all that is listed.

    A daemon's link calls ticks for a whole interval.
    """
    links, last = Links.of(world), world.kept.last_tick or 0
    by_daemon = world.chain.via.daemon
    if not world.chain.by_links or world.queue is None or (by_daemon and links.running):
        return []
    since = last - daemon_lasts(world.settings) if by_daemon else last
    rows = {job.id: job for job in world.listed if records(world).link(job)}
    badly = [each.id for each in rows.values() if ENDS.get(each.state, Result.OK) is not Result.OK and each.nodes]
    gone = [job_id for job_id, link in world.links.items() if since < link.slot <= world.now]
    return sorted(
        {
            *(each for each in badly if _no_tick_since(world, rows[each].start, rows[each].ended)),
            *(set(gone) - rows.keys()),
        },
        key=int,
    )


def _no_tick_since(world: World, began: int | None, ended: int | None) -> bool:
    """A link that is ended before its time ticks once more, in its last seconds; a daemon's ticks all the while."""
    last = world.kept.last_tick or 0
    if world.chain.via.daemon or began is None:
        return (ended or world.now) > last + TWO_LOOKS
    return began > last


def without_tick(world: World, ends: Mapping[str, JobEnd]) -> dict[str, JobEnd]:
    """Of those the newest that ended otherwise than they should, since the newest tick; one that ended well ends it."""
    ended_badly: dict[str, JobEnd] = {}
    for job_id in sorted(ends, key=int, reverse=True):
        end, link = ends[job_id], world.links.get(job_id)
        anothers = link is not None and (end.submitted or 0) > link.at + CLOCKS_APART
        never_began = end.result is Result.CANCELLED and not (end.started and end.node)
        if anothers or never_began or not _no_tick_since(world, end.started, end.ended):
            continue
        if end.result not in FAILURES | {Result.CANCELLED, Result.UNKNOWN}:
            break
        ended_badly[job_id] = end
    return dict(reversed(ended_badly.items()))


def slot_of(world: World, job: Job) -> int:
    """The instant that a link stands for, as its comment or record says; else its start, as far as that is known."""
    link = records(world).link(job)
    return link.slot if link is not None and link.slot else job.start or 0


def begins(world: World, job: Job) -> int | None:
    """When it starts, as far as that is known: one that is due and waits for its turn did so at its slot."""
    slot = slot_of(world, job)
    return slot if job.start is None and 0 < slot <= world.now else job.start


def comment_words(link: LinkRecord) -> str:
    """What the comment of a link says after the directory's mark: its kind, its slot, the text it holds."""
    return f"{link.kind.word} {link.slot} {link.fingerprint}"


def wake_of_start(world: World) -> int:
    """When `start` wants the next tick: a new chain's first link begins at once, which shows that all works.

    A link that waits already stays where it is, unless somebody has put it off. So does one that is due and waits for
    its turn: to put it off would cost it its place in the queue, and what is due its run.
    """
    links, next_one = Links.of(world), boundary(world.now, world.settings.interval)
    if not links.running and all(unfit(world, job) for job in links.successors):
        return world.now
    latest = next_one + world.settings.interval
    starts = [begins(world, job) or 0 for job in links.successors]
    return min((at for at in starts if 0 < at <= latest), default=next_one)


_START = command("start")
_WAITS = "it is due, and waits for its turn"


def decide(world: World, wake: int) -> Iterator[Decision]:
    """Keep, move, submit and cancel links, so that the next tick comes at `wake` and a spare stands behind it."""
    if world.queue is None:
        return
    links = Links.of(world)
    if not world.chain.wanted and not world.chain.stopped:
        if links.successors or links.spares:
            gone = "scheduler/started is gone, though nobody has called " + command("stop") + "; fix it: " + _START
            yield LeaveChain(LeaveCause.NOT_MARKED, gone)
        return
    if not world.chain.by_links:
        yield from _all_cancelled(world, links)
        return
    held = next((job for job in (*links.successors, *links.spares) if job.held_by_admin), None)
    if held is not None:
        yield LeaveChain(LeaveCause.HELD, f"job {held.id} is held by an administrator; when that is settled: " + _START)
        return
    if world.chain.on_hold:
        yield LeaveChain(LeaveCause.CANCELLED, f"{world.chain.on_hold}; when that is settled: " + _START)
        return
    if world.chain.lease_holder:
        yield LeaveChain(
            LeaveCause.TICK_AT_WORK, f"the tick of {world.chain.lease_holder} is at work; it sees to the links"
        )
        return
    if not links.successors and _another_is_at_work(world, links):
        why = f"link {links.running[0].id} is running; it queues its own successor"
        yield LeaveChain(LeaveCause.LINK_AT_WORK, why)
        return
    interval = world.settings.interval
    taken = 0 if wake <= world.now else 1  # one that is due leaves the next whole interval to those ahead
    ahead = [boundary(world.now, interval) + (n + taken) * interval for n in range(world.chain.prequeue - 1)]
    yield from _reconcile(world, LinkKind.SUCCESSOR, links.successors, [wake, *ahead])
    yield from _spare(world, links)


def _all_cancelled(world: World, links: Links) -> Iterator[CancelLink]:
    why = "ticks come otherwise" if world.chain.wanted else "the scheduler is stopped"
    for job in (*links.successors, *links.spares):
        yield CancelLink(LinkKind.SUCCESSOR if job in links.successors else LinkKind.SPARE, job.id, why)
    for job in unlisted(world):
        if (link := records(world).link(job)) is not None:
            yield CancelLink(link.kind, job.id, f"{why}; it was submitted just now, and is not listed yet")


def _another_is_at_work(world: World, links: Links) -> bool:
    """A link that runs beside us deals with its successor itself, and before its tick: until it has noted that one.

    Beside a daemon's link that is its successor, which has just started.
    """
    noted = int(world.chain.successor_noted) if world.chain.successor_noted.isdecimal() else 0
    return any(job.id != world.call.link and int(job.id) >= noted for job in links.running) and (
        not world.call.link or world.call.by_daemon or int(links.running[0].id) < int(world.call.link)
    )


def _spare(world: World, links: Links) -> Iterator[Decision]:
    """A spare half an interval behind; while there is no successor it stays: it may be all that comes."""
    interval, spares = world.settings.interval, links.spares
    if world.kept.no_submit_slot:
        for job in spares:
            yield CancelLink(LinkKind.SPARE, job.id, f"it takes the place of a run: {world.kept.no_spare}")
    if world.kept.no_submit_slot or (world.kept.no_spare and not spares):
        return
    at = boundary(world.now, interval) + interval // 2
    starts = [] if links.successors else [begins(world, job) for job in spares]
    at = min([at, *(start for start in starts if start is not None and start > world.now)])
    yield from _reconcile(world, LinkKind.SPARE, spares, [at])


def fills_the_limit(world: World) -> bool:
    """Whether a limit that a run has met is used up by the chain alone: with three submit slots no run ever fits."""
    return bool(Links.of(world).spares) and all(records(world).link(job) for job in world.listed if job.live)


def _reconcile(world: World, kind: LinkKind, jobs: tuple[Job, ...], wanted: list[int]) -> Iterator[Decision]:
    """Of those that can serve the lowest ids stay, one for each instant wanted; the others go first: never too many."""
    good = [job for job in jobs if not unfit(world, job)]
    kept = good[: len(wanted)]
    for job in jobs:
        if job not in kept:
            beside = kept[0].id if kept else ""
            yield CancelLink(kind, job.id, unfit(world, job) or f"one {kind} too many beside job {beside}")
    in_daemons_place = world.call.by_daemon or (world.call.link and world.chain.via.daemon)
    for job, at in zip(sorted(kept, key=lambda job: job.start or 0), wanted, strict=False):
        if kind is LinkKind.SUCCESSOR and in_daemons_place and slot_of(world, job) <= world.now:
            yield KeepLink(kind, job.id, slot_of(world, job), _WAITS)
        elif (start := begins(world, job)) is None or abs(start - at) > _CLOSE or world.chain.bad_nodes_changed:
            yield MoveLink(kind, job.id, at)
        else:
            yield KeepLink(kind, job.id, start, _WAITS if start <= world.now else "")
    again = world.call.link if kind is LinkKind.SUCCESSOR and world.dialect.begins_again else ""
    for at in wanted[len(kept) :]:
        why = f"instead of job {jobs[0].id}" if jobs else f"there is no {kind}"
        yield SubmitLink(kind, at, why, lost=not jobs, again=again if at == wanted[0] else "")


def unfit(world: World, job: Job) -> str:
    """Why a pending link cannot serve; "" if it can. A partition that is down is waited for."""
    if job.held:
        return f"it is held ({job.reason})"
    if job.fault in NEVER_STARTS:
        return f"it can never start ({job.reason})"
    link = records(world).link(job)
    if world.chain.fingerprint and (link is None or link.fingerprint != world.chain.fingerprint):
        return "it holds an older scheduler.slurm or other settings"
    return ""


def stuck_problems(world: World, dialect: Dialect) -> Iterator[Problem]:
    """Links that a node does not answer for: others take their places, and they go by an order of somebody only."""
    links = Links.of(world)
    for job in (*links.successors, *links.spares):
        if job.fault is Fault.STUCK:
            what = f"job {job.id}, a link of the scheduler, is {Fault.STUCK}: its node has not said that it runs"
            fix = f"{dialect.force} {job.id} (some sites leave that to administrators). If no other link waits: "
            yield Problem("W366", what, fix + _START)


# --- nodes on which links could not work ---------------------------------------------------------------------------

_SHUNNED = 6 * 3600  # seconds: a node may have been fixed since; as in the link's text
_LACKS = {
    NodeFault.FILES: "it does not have the cron directory",
    NodeFault.PYTHON: "it does not have cronhpc's Python",
    NodeFault.LOST: "it was lost while one of them was there",
}


def bad_nodes_of(text: str) -> tuple[BadNode, ...]:
    """What a link hands on: "cpu7:1795791600:files,cpu8:…"; rows that cannot be read are left out."""
    rows = (row.split(":") for row in text.split(","))
    rows = (row for row in rows if len(row) == 3 and row[1].isdecimal())  # noqa: PLR2004 - as above
    return tuple(BadNode(node, int(until), NodeFault(why)) for node, until, why in rows)


def bad_nodes_text(nodes: Iterable[BadNode]) -> str:
    """The same, for a link's argument."""
    return ",".join(f"{bad.node}:{bad.until}:{bad.why}" for bad in nodes)


_FAULTS = {"NODE_FAIL": NodeFault.LOST}  # by the state of a job; one whose node did not boot could not start


def failed_launches(world: World) -> tuple[BadNode, ...]:
    """Nodes of the chain's jobs that ended before they did anything, as the queue remembers."""
    jobs = [job for job in world.listed if not job.live and job.nodes]
    return tuple(
        BadNode(job.nodes, (job.ended or world.now) + _SHUNNED, _FAULTS.get(job.state, NodeFault.LAUNCH))
        for job in jobs
        if records(world).link(job) and never_ran(world, job.id, ENDS[job.state], job.signal)
    )


def never_ran(world: World, job_id: str, result: Result, signal: int | None) -> bool:
    """Whether a link that ended so cannot have begun its work: it would have written down a successor of its own."""
    failed = result is Result.FAILED and (signal == LAUNCH_FAILED or job_id == world.chain.successor_noted)
    return failed or result is Result.NODE_FAIL


def with_bad_nodes(world: World) -> ChainFacts:
    """The chain, with the nodes that cannot start its jobs, as far as the queue tells."""
    chain = world.chain
    here = {job.nodes for job in world.listed if job.id == world.call.link}  # this one works
    rows = (row for row in (*chain.bad_nodes, *failed_launches(world)) if row.node not in here)
    bad = standing(rows, world.now)
    return replace(chain, bad_nodes=bad, bad_nodes_changed=chain.bad_nodes_changed or bad != chain.bad_nodes)


def standing(nodes: Iterable[BadNode], now: int) -> tuple[BadNode, ...]:
    """One row a node, the one that lasts longest; what is over is left out."""
    rows = sorted(nodes, key=lambda bad: bad.until)
    return tuple({bad.node: bad for bad in rows if bad.until > now}.values())


def bad_node_problems(nodes: Iterable[BadNode], now: int, dialect: Dialect = SLURM) -> Iterator[Problem]:
    """What to say of them."""
    for bad in nodes:
        hours = max(1, round((bad.until - now) / 3600))
        lacks = _LACKS.get(bad.why, f"{dialect.title} could not start them there")
        what = f"links of the scheduler cannot work on {bad.node}: {lacks}. It is excluded for them for {hours} h."
        yield Problem("W361", what, "Tell the administrators." + _elsewhere(bad.node, dialect))


def _elsewhere(node: str, dialect: Dialect) -> str:
    from cronhpc.script.spelling import directive

    line = directive(dialect, "exclude", node)
    return f" For runs that fail there: {line}" if line else ""


# --- what links ask for -----------------------------------------------------------------------------------------------


def daemon_lasts(settings: Settings) -> int:
    """Seconds that a link which runs the daemon asks for: until its successor starts, which may have to wait."""
    return settings.interval + LONGER


def link_options(settings: Settings, via: Way = Way.CHAIN) -> tuple[str, ...]:
    """Options for sbatch of links: their own, then partition and account as entries have them."""
    own = {name: value for name, value in settings.link_sbatch if name not in {"comment", "exclude"}}
    if via.daemon:
        own["time"] = str(daemon_lasts(settings) // 60)
    for name, value in settings.sbatch:
        if name in {"partition", "account", "qos"}:
            own.setdefault(name, value)
    return tuple(option_text(name, value or None) for name, value in own.items())


def link_exclude(settings: Settings, nodes: Iterable[str] = ()) -> str:
    """The value of --exclude for links: the settings', and `nodes` that they could not work on."""
    return ",".join(filter(None, (dict(settings.link_sbatch).get("exclude", ""), *nodes)))


def link_comment(settings: Settings) -> str:
    """What the settings want in the comment of links, behind our own words."""
    own = dict(settings.link_sbatch).get("comment", "")
    return f" {own}" if own else ""


_NEAT = (86400, 43200, 21600, 10800, 7200, 3600, 1800, 1200, 900, 600, 300)  # intervals that people name


@dataclass(frozen=True, slots=True)
class Misfit:
    """What is wrong, the fix in words, and the interval to put; "" where none would fit."""

    what: str
    fix: str
    interval: str


def misfit(partitions: Sequence[Partition], settings: Settings) -> Misfit | None:
    """Why a link of `start --daemon` could never start where links go; None where it could, or nobody can tell."""
    chosen = dict(settings.link_sbatch).get("partition") or dict(settings.sbatch).get("partition", "")
    names = chosen.split(",") if chosen else [each.name for each in partitions if each.default]
    named = [each for each in partitions if each.name in names]
    asks = daemon_lasts(settings)
    if not named or any(_takes(each, asks) for each in named):
        return None
    longest = max(each.time_limit or 0 for each in named)
    from cronhpc.cron.duration import format_duration

    what = (
        f"partition {chosen or named[0].name} takes jobs of at most {format_duration(longest)}; a link of "
        f"start --daemon asks for {format_duration(asks)} (the interval and {format_duration(LONGER)}), so it could "
        "never start."
    )
    interval = next((each for each in _NEAT if each + LONGER <= longest and each >= settings.min_interval), 0)
    other = next((each.name for each in partitions if each.up and not each.gpus and _takes(each, asks)), "")
    ways: list[str] = []
    if interval:
        ways.append(f"put scheduler: {{interval: {format_duration(interval)}}} in cronhpc.yaml")
    if other:
        ways.append(f"name a partition that allows it: scheduler: {{sbatch: {{partition: {other}}}}}")
    by_links = " short links do the work: " + Way.CHAIN.start + "."
    fix = f"{ways[0][:1].upper()}{', or '.join(ways)[1:]}, or let" + by_links if ways else "Let" + by_links
    return Misfit(what, fix, format_duration(interval) if interval else "")


def _takes(partition: Partition, seconds: int) -> bool:
    return partition.time_limit is None or partition.time_limit >= seconds
