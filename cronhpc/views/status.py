"""How everything is, as facts: `cronhpc status` draws them, each tick writes them to status.json.

So whoever can read status.json, and nothing else of a cron directory, sees what its owner sees.
"""

from __future__ import annotations

from cronhpc import __version__
from cronhpc.core import stop
from cronhpc.core.chain import Links
from cronhpc.core.identity import absences, absences_at_a_look, jobs_by_id, records
from cronhpc.core.model import (
    ALL,
    NEW_STATE,
    ClaimState,
    Done,
    EntryState,
    Finish,
    Reason,
    Skip,
    Stop,
    Submit,
    SwitchKind,
    Wait,
    Withdraw,
    entry_id,
)
from cronhpc.core.slots import boundary, has_slot, schedule_key
from cronhpc.cron.values import by_field, dataclass, grouped, replace
from cronhpc.views import attention, chain, runs, text
from cronhpc.views.facts import (
    VERSION,
    Batch,
    Cost,
    DeletedEntry,
    EntryStatus,
    HistoryRun,
    LiveRun,
    SeriesStatus,
    Status,
    SwitchOn,
    SwitchStatus,
    Trouble,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from cronhpc.core.model import Entry, Outcome, Plan, Problem, Series, Switch, World
    from cronhpc.script.dialect import Dialect


@dataclass(frozen=True, slots=True)
class About:
    """Whose cron directory it is."""

    directory: str
    backend: str
    owner: str = ""
    host: str = ""
    series_only: bool = False  # it is no cron directory, but where `again` keeps its records without one
    used: tuple[int, int] | None = None  # the scheduler's own jobs in 30 days, and their CPU seconds


def used_of(cache: Mapping[str, Any]) -> tuple[int, int] | None:
    """What a tick noted of the scheduler's own cost; None where nobody told."""
    used = cache.get("used")
    return (int(used[0]), int(used[1])) if isinstance(used, list) and used[0] else None


def facts(
    world: World,
    plan: Plan,
    states: Mapping[str, EntryState],
    about: About,
    *,
    problems: Iterable[Problem] = (),
    outcomes: Sequence[Outcome] | None = None,
    before: Sequence[Trouble] = (),
) -> Status:
    """Everything that `status` shows.

    `outcomes`: what came of the plan, where this is a tick's last act; `states` are then those after it. Otherwise
    `before` is what the last tick could not do: it is still to be said.
    """
    problems = dict.fromkeys((*problems, *world.skipped))
    ticked, outcomes = outcomes is not None, outcomes or ()
    trouble = tuple(_trouble(outcome, world.now) for outcome in outcomes if outcome.done in _TROUBLE)
    index = _Index(world, plan, states, outcomes, directory=about.directory, ticked=ticked)
    nameless = {each.file: each.what.rstrip(".") for each in problems if each.code == attention.NAMELESS}
    status = Status(
        version=VERSION,
        cronhpc=__version__,
        now=world.now,
        directory=about.directory,
        owner=about.owner,
        host=about.host,
        cluster=world.settings.cluster,
        timezone=world.settings.timezone,
        batch=Batch(about.backend, world.queue is not None, world.queue_error, world.accounting.trouble or None),
        series_only=about.series_only,
        cost=Cost(30, *about.used) if about.used else None,
        chain=chain.facts(world, plan, outcomes, ticked=ticked),
        entries=(*map(index.entry, world.entries), *filter(None, map(index.series, world.series))),
        deleted=index.deleted(),
        trouble=trouble if ticked else _still_wanted(before, plan),
        switches=tuple(
            replace(_with_jobs(_switch(each, world, about.directory), plan, world), unmatched=nameless.get(each.title))
            for each in world.switches.listed
        ),
        attention=(),
        seen=world.now,
        needs_attention=False,
    )
    noticed = attention.rows(status, problems)
    return seen_at(replace(status, attention=tuple(noticed)), world.now)


_SERIES_SHOWN = 7 * 86400  # seconds that a series is shown after its end
_TROUBLE = frozenset({Done.FAILED, Done.PASSING})


def _trouble(outcome: Outcome, now: int) -> Trouble:
    """What a tick could not do, and why."""
    from cronhpc.views.decisions import subject

    it, done, cause = subject(outcome.decision), str(outcome.done), outcome.cause or None
    return Trouble(it.kind, it.entry, it.link, it.slot, it.job, it.switch, done, outcome.detail, now, cause)


def _still_wanted(before: Sequence[Trouble], plan: Plan) -> tuple[Trouble, ...]:
    """Of what the last tick could not do: what the next one would try again."""
    if not before:
        return ()
    from cronhpc.views.decisions import subject

    wanted = {(it.kind, it.entry, it.link, it.slot, it.job, it.switch) for it in map(subject, plan.decisions)}
    return tuple(t for t in before if (t.decision, t.entry, t.link, t.slot, t.job, t.switch) in wanted)


def seen_at(status: Status, now: int) -> Status:
    """The same facts looked at later: whether the chain is silent is for the reader's clock to say."""
    entries = sum(not entry.series for entry in status.entries)  # series need no scheduler
    health = chain.health(status.chain, answers=status.batch.answers, entries=entries, now=now)
    state = replace(status.chain, state=health, fix=chain.fix_of(status.chain, health))
    return replace(status, seen=now, chain=state, needs_attention=bool(status.attention) or health not in chain.FINE)


def with_switches(status: Status, switches: Iterable[Switch], now: int) -> Status:
    """The same facts with the switches that lie in the directory's own folders now: a touch shows before the next tick.

    What a job's name or a configured switch reaches is only known to the owner's ticks, and stays as the last wrote it.
    """
    folders = tuple(f"{status.directory}/{kind}/" for kind in SwitchKind)
    before = {row.path: row for row in status.switches}
    rows = [row for row in status.switches if not row.path.startswith(folders)]
    for switch in switches:
        present = _switch_on(switch, now, f"{status.directory}/{switch.kind}/{switch.name}", ours=True)
        new = SwitchStatus(**by_field(present), ending=(), warned=(), ends=None, left_alone=())
        rows.append(replace(before.get(present.path, new), **by_field(present)))
    standing = [SwitchOn(*(getattr(row, name) for name in SwitchOn.__match_args__)) for row in rows if not row.expired]
    entries = tuple(replace(entry, switch=_switch_of(entry, standing)) for entry in status.entries)
    return attention.with_switches(replace(status, switches=tuple(rows), entries=entries))


def _switch_of(entry: EntryStatus, standing: Sequence[SwitchOn]) -> SwitchOn | None:
    """The first that covers it, kill switches first: by its name, or as the last tick found."""
    was = (entry.switch.kind, entry.switch.name) if entry.switch else None
    covering = [row for row in standing if row.name in {ALL, entry.name} or (row.kind, row.name) == was]
    kinds = (SwitchKind.KILL,) if entry.series else tuple(SwitchKind)
    return next((row for kind in kinds for row in covering if row.kind == kind), None)


def _start(series: Series, dialect: Dialect) -> str:
    """What begins it anew. Arguments are for its author's eyes: anyone may read status.json."""
    script, *arguments = series.entry.arguments or ("",)
    return f"{dialect.submit} {text.word(script)}{' …' if arguments else ''}"


def _switch(switch: Switch, world: World, directory: str) -> SwitchOn:
    polled = any(row.name == switch.name and row.file for row in world.settings.switches)
    ours = polled or switch.path.startswith(f"{directory}/{switch.kind}/")
    return _switch_on(switch, world.now, switch.path, ours=ours)


def _switch_on(switch: Switch, now: int, path: str, *, ours: bool) -> SwitchOn:
    return SwitchOn(**by_field(switch) | {"path": path}, expired=switch.expired(now), ours=ours)


def _with_jobs(switch: SwitchOn, plan: Plan, world: World) -> SwitchStatus:
    by_id = world.queue is not None and stop.is_job_id(switch.name)
    live = {job.id for job in world.listed if job.live} if by_id else set()
    stops = [d for d in plan.decisions if isinstance(d, Stop) and d.switch.path == switch.path]
    ends = [d.end_at for d in stops if d.end_at is not None]
    return SwitchStatus(
        **by_field(switch),
        ending=tuple(job for d in stops for job in d.completing),
        warned=tuple(job for d in stops for job in (*d.waiting, *d.warn)),
        ends=min(ends, default=None),
        left_alone=tuple(job for d in stops for job in d.left_alone),
        ended=True if by_id and switch.name.partition("_")[0] not in live else None,
    )


class _Index:
    """What the plan, the claims and the memory say of each entry, indexed once."""

    def __init__(
        self,
        world: World,
        plan: Plan,
        states: Mapping[str, EntryState],
        outcomes: Sequence[Outcome],
        *,
        directory: str,
        ticked: bool,
    ) -> None:
        self.directory = directory
        self.world, self.plan, self.states = world, plan, states
        self.jobs = jobs_by_id(world)
        self.absent = absences(world) if ticked else absences_at_a_look(world)
        self.claims = grouped(world.claims, lambda claim: claim.key.entry)
        self.unwritten = grouped(world.unwritten(), lambda each: each[0].key.entry)
        of_slots = (d for d in plan.decisions if isinstance(d, Submit | Skip | Wait))
        self.decided = grouped(of_slots, lambda d: d.entry.name)
        self.ended = grouped((d for d in plan.decisions if isinstance(d, Finish)), lambda end: end.key.entry)
        self.tick_at = 0 if ticked else _next_tick(world)
        self.withdrawn = {
            d.key for d in plan.decisions if isinstance(d, Withdraw) and (ticked or d.gone or d.key.slot > self.tick_at)
        }
        edited = {entry_id(entry.name): entry for entry in world.entries if entry.fresh}  # the next look withdraws
        ahead = (c for c in world.claims if c.holds and c.key.slot > world.now and c.key.entry in edited)
        self.withdrawn |= {claim.key for claim in ahead if not has_slot(edited[claim.key.entry], claim)}
        self.submitted = {
            outcome.decision.key: outcome.job_id
            for outcome in outcomes
            if outcome.job_id and isinstance(outcome.decision, Submit)
        }
        self.just_submitted = grouped(self.submitted.items(), lambda each: each[0].entry)

    def entry(self, entry: Entry) -> EntryStatus:
        name, state = entry_id(entry.name), self.states.get(entry.name, NEW_STATE)
        reason, detail = self._reason(entry, state)
        live = self._live(name)
        switch = stop.switch_on(self.world, entry)
        return EntryStatus(
            name=entry.name,
            id=name,
            source=entry.source,
            schedule=entry.schedule,
            timezone=entry.timezone,
            hash_key=entry.hash_key if "H" in entry.schedule else "",
            reason=str(reason),
            detail=detail,
            problem=entry.problem,
            switch=_switch(switch, self.world, self.directory) if switch else None,
            next=self._next(entry, live, state),
            runs=live,
            last=self._last(entry, name, state),
            successes=state.successes,
            failures=state.failures,
            bad_node=state.shared_node,
            suspended=state.suspended,
            suspend_after=entry.policies.suspend_after,
            overlap=entry.policies.overlap,
            retries=entry.policies.retries,
            previous_success=state.previous_success,
            notes=entry.notes,
            series=None,
        )

    def series(self, series: Series) -> EntryStatus | None:
        """As an entry; None for one that came to its end a week ago."""
        facts = self.entry(series.entry)
        newest = self.jobs.get(series.newest)
        listed = {run.job for run in facts.runs}
        if (
            newest is not None
            and newest.live
            and records(self.world).of(newest) is not None
            and newest.id not in listed
        ):
            facts = replace(facts, runs=(runs.first_piece(newest), *facts.runs))
        last = self.states.get(series.entry.name, NEW_STATE).last
        if facts.last is None and last and (facts.successes or facts.failures):  # a piece was killed before its slot
            facts = replace(facts, last=runs.run_facts(last))
        going = bool(facts.runs) or self.world.queue is None or not (series.newest or series.no_next)
        ended = (facts.last and facts.last.ended) or series.at
        if not going and ended and ended < self.world.now - _SERIES_SHOWN:
            return None
        record = (series.when, series.runs, series.ends, series.no_next, series.crashed, series.trouble)
        return replace(facts, series=SeriesStatus(*record, going, _start(series, self.world.dialect), series.after))

    def deleted(self) -> tuple[DeletedEntry, ...]:
        """What still runs of entries that are there no more."""
        existing = {entry_id(each.name) for each in self.world.entries} | {
            each.entry.name for each in self.world.series
        }
        names = {key: claims[0].name or key for key, claims in self.claims.items() if key not in existing}
        return tuple(DeletedEntry(name, live) for key, name in names.items() if (live := self._live(key)))

    def _reason(self, entry: Entry, state: EntryState) -> tuple[Reason, str]:
        """The rule that holds for what comes next."""
        for decision in reversed(self.decided.get(entry.name, ())):
            if isinstance(decision, Submit) and decision.key in self.submitted:
                return Reason.NOT_DUE, ""
            if isinstance(decision, Skip) and decision.reason in {Reason.MISSED, Reason.RUNNING}:
                return Reason.NOT_DUE, decision.detail
            if (
                isinstance(decision, Wait)
                and decision.reason is Reason.BUDGET
                and (decision.slot or 0) > self.world.now
            ):
                return Reason.NOT_DUE, ""  # a run ahead of its slot that waits for its time
            return decision.reason, decision.detail
        return (Reason.SUSPENDED, "") if state.suspended else (Reason.NOT_DUE, "")

    def _next(self, entry: Entry, live: Iterable[LiveRun], state: EntryState) -> int | None:
        """When it runs next: the slot of a job that waits for it, one that is due, or one to come.

        Where it is new or its schedule was edited, no tick has set the next one for it yet: not before that.
        """
        now, name = self.world.now, entry_id(entry.name)
        ahead = [run.slot for run in live if run.slot and run.ahead and run.job and not run.gone]
        # One that has no job yet, or none any more, stays claimed, and waits until what stops it ends.
        over = self.withdrawn | {finish.key for finish in self.ended.get(name, ())}
        claimed = [each.key for each in self.claims.get(name, ()) if each.state is ClaimState.CLAIMED]
        ahead += [key.slot for key in claimed if key.slot > now and key not in over]
        looked_for: list[int] = []
        for d in self.decided.get(entry.name, ()):
            if isinstance(d, Wait) and d.slot is not None:
                (looked_for if d.reason is Reason.NOT_DUE else ahead).append(d.slot)
            elif isinstance(d, Submit) and d.key not in self.submitted:
                looked_for.append(d.key.slot)
        computed = self.plan.next_slots.get(entry.name)
        later = computed[1] if computed else state.next_slot
        if later is not None and later > now:
            looked_for.append(later)
        if self.tick_at and (state.schedule_key != schedule_key(entry) if state.schedule_key else state == NEW_STATE):
            looked_for = [max(slot, self.tick_at) for slot in looked_for]
        return min([*ahead, *looked_for], default=None)

    def _live(self, name: str) -> tuple[LiveRun, ...]:
        """Attempts that have not ended, oldest first."""
        now, last = self.world.now, self.world.kept.last_tick or 0
        ended = {finish.key for finish in self.ended.get(name, ())}
        live = [
            runs.live_facts(
                claim,
                self.jobs.get(claim.job_id or ""),
                now,
                answers=self.world.queue is not None,
                absent=self.absent.get(claim.job_id or ""),
            )
            for claim in self.claims.get(name, ())
            if claim.job_id
            or (claim.state is ClaimState.CLAIMED and claim.at > last)  # older: it could not be submitted
            if claim.state is not ClaimState.FINISHED
            and not any(claim.key in keys for keys in (ended, self.withdrawn, self.submitted))
        ]
        live += [runs.just_submitted(key, job_id, now) for key, job_id in self.just_submitted.get(name, ())]
        return tuple(sorted(live, key=lambda run: run.slot or 0))

    def _last(self, entry: Entry, name: str, state: EntryState) -> HistoryRun | None:
        """The newest run that has ended: by the queue just now, else by history."""
        ended = [runs.run_facts(state.last)] if state.last else []
        unwritten = self.unwritten.get(name, ())
        ended += [runs.ended_facts(entry.name, claim.key, end, claim.job_id) for claim, end in unwritten]
        if finished := self.ended.get(name):
            jobs = {claim.key: claim.job_id for claim in self.claims.get(name, ())}
            ended += [runs.ended_facts(entry.name, end.key, end.job_end, jobs.get(end.key)) for end in finished]
        return max(
            (run for run in ended if runs.slot_or_end(run) <= self.world.now),
            key=lambda run: (runs.slot_or_end(run), run.attempt),
            default=None,
        )


def _next_tick(world: World) -> int:
    """The instant of the next tick, as far as that is known; else 0."""
    if world.call.by_daemon or not world.chain.wanted:
        return 0
    if world.chain.via.in_scrontab:
        return boundary(world.now, world.settings.interval)
    links = Links.of(world)
    starts = [] if links.running else [job.start for job in links.successors if job.start and not job.held]
    return min(starts, default=0)
