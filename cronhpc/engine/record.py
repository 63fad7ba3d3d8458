"""Record: outcomes to files, so that the next tick finds them. Nothing else flows back.

Order matters where a process may die in between: history first (a row written twice counts once), then the state with
its watermarks, then the claims that both have outlived.
"""

from __future__ import annotations

import os
from contextlib import suppress

from cronhpc.core import alerts, chain, identity, model
from cronhpc.core.alerts import Alert, Event, Ping
from cronhpc.core.attempts import counted, with_log
from cronhpc.core.model import (
    FAILURES,
    IN_ORDER,
    NEW_STATE,
    ClaimState,
    Done,
    EntryState,
    Key,
    LinkKind,
    Problem,
    Reason,
    Result,
    entry_id,
    joined,
    text_of,
)
from cronhpc.core.slots import schedule_of
from cronhpc.core.stop import KillRecords, with_pause_tag
from cronhpc.cron.values import dataclass, replace
from cronhpc.store import damage, history, logs, scheduler
from cronhpc.store import memory as store_memory
from cronhpc.store.claims import Claims
from cronhpc.store.damage import fix
from cronhpc.store.entries import file_of
from cronhpc.store.files import sweep, write_json
from cronhpc.views import status
from cronhpc.views.facts import VERSION, as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cronhpc.core.model import Claim, HistoryRow, Outcome, Plan, Settings, World
    from cronhpc.engine.read import Reading
    from cronhpc.engine.site import Site
    from cronhpc.store.files import Paths

_HOUR = 60  # minutes
_OLD_TEMPORARY = 3600
_ACCOUNTING_AGAIN = 86400
_COST_AGAIN, _COST_OF = 86400, 30 * 86400


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the disk refused, and what is to be told to people."""

    problems: tuple[Problem, ...]
    alerts: tuple[Alert, ...] = ()
    pings: tuple[Ping, ...] = ()


def record(site: Site, reading: Reading, plan: Plan, outcomes: Sequence[Outcome]) -> Recorded:
    """Write down what came of the plan. What the disk refuses is a problem, and no reason to lose the rest."""
    if reading.world.call.scope is model.Scope.LINKS:
        _note_successor(site.paths, outcomes)
        return Recorded(())
    keeper = _Keeper(site, reading, plan, outcomes)
    problems: list[Problem] = []
    vital = (keeper.write_history, keeper.write_memory, keeper.forget_claims)  # each after the one before
    for step in (*vital, keeper.write_chain, keeper.write_cache, keeper.write_status):
        try:
            step()
        except OSError as error:
            what = f"{error.filename or site.paths.state} cannot be written: {error.strerror}."
            kept = "nothing that was submitted is forgotten (state/claims)."
            problems.append(Problem("E330", what, joined("; ", filter(None, (fix(error), kept)))))
            break
    remembered = [*keeper.failed_by_hand, *keeper.alerts] if keeper.saved else []  # else told by the tick that can
    if reading.world.call.whole:  # what is told once a day is a tick's to tell: `again` sends nothing
        remembered += _of_disk(site.paths, site.settings, reading.world.now, problems)
    return Recorded(tuple(problems), tuple(alerts.gathered(remembered)), tuple(keeper.pings))


def _note_successor(paths: Paths, outcomes: Iterable[Outcome]) -> None:
    """A first link that fails before it notes a successor of its own was on a node that could not run it."""
    for each in outcomes:
        if isinstance(each.decision, model.SubmitLink) and each.decision.kind is LinkKind.SUCCESSOR and each.job_id:
            with suppress(OSError):
                scheduler.remember_successor(paths, each.job_id)


def _of_disk(paths: Paths, settings: Settings, now: int, problems: Sequence[Problem]) -> list[Alert]:
    """What a full disk can still remember is in a file's name and time.

    Where it is nearly full logs are cleaned to half their limits, and people are told before it is too late.
    """
    trouble = problems[0].what if problems else ""
    with suppress(OSError):  # named where logs are cleaned
        if not trouble and (scarce := logs.scarce(logs.space(paths.log), settings.logs_total)):
            trouble = f"the disk is nearly full: {scarce}; of logs half as much is kept"
    phase = damage.told_of_disk(paths.state, now, full=bool(trouble), again=alerts.REMIND)
    return [Alert(phase, "disk", trouble or "fine again: the disk", since=now)] if phase else []


class _Keeper:
    """One tick's bookkeeping."""

    def __init__(self, site: Site, reading: Reading, plan: Plan, outcomes: Sequence[Outcome]) -> None:
        self.site = site
        self.world: World = reading.world
        self.memory = reading.memory
        self.kept = replace(self.world.kept)  # for the next tick
        self.problems = reading.problems
        self.plan = plan
        self.outcomes = outcomes
        self.states: dict[str, EntryState] = dict(reading.memory.entries)
        by_id = self.world.entries_by_id()
        self.names = {each: entry.name for each, entry in by_id.items()}
        self.entries = {entry.name: entry for entry in by_id.values()}
        self.rows: list[HistoryRow] = []
        self.served: set[str] = set()
        self.finished: list[Claim] = [
            claim for claim in self.world.claims if claim.state is ClaimState.FINISHED and claim.job_end is not None
        ]
        self.saved = False
        self.alerts: list[Alert] = []
        self.failed_by_hand: list[Alert] = []
        self.pings: list[Ping] = []
        self.given_up: dict[str, tuple[str, int]] = {}
        self._correct()
        for claim, job_end in self.world.unwritten():
            self._ended(claim.key, self._name_of(claim), job_end, claim.job_id, claim.retry_at)
        self._note_slots()
        self._ping_starts()
        for outcome in outcomes:
            self._note(outcome)
        self.kills = KillRecords()  # what switches did, and whether it is gone by now
        if not self.world.call.only:
            unfinished = {c.job_id for c in self.world.claims if c.job_id and c.state is not ClaimState.FINISHED}
            ended = {claim.job_id for claim in self.finished}
            self.kills = KillRecords.of(self.world, outcomes, {job for job in unfinished - ended if job})
        self.rows.extend(self.kills.rows)

    # --- slots

    def _note_slots(self) -> None:
        """The next slots that planning computed; of the others what a clock that was ahead has noted is forgotten."""
        if not self._believed(self.world.kept.last_tick or 0):
            self.states = {name: replace(state, next_slot=None) for name, state in self.states.items()}
        refused = (o.decision for o in self.outcomes if o.done is not Done.OK)
        stays = {each.entry.name for each in refused if isinstance(each, model.Skip)}  # to be told by the next tick
        for name, (key, following, used) in self.plan.next_slots.items():
            if name in stays:
                continue
            state = self.states.get(name, NEW_STATE)
            believed = state.watermark if self._believed(state.watermark) else 0
            self.states[name] = replace(
                state,
                schedule_key=key,
                next_slot=following if used <= self.world.now else None,  # behind claims that may be given back
                watermark=max(min(used, self.world.now), believed),
            )

    def _used(self, name: str, slot: int) -> None:
        state = self.states.get(name, NEW_STATE)
        if slot > state.watermark:
            following = state.next_slot if state.next_slot is not None and state.next_slot > slot else None
            self.states[name] = replace(state, watermark=slot, next_slot=following, blocked_reason="")

    def _had_its_turn(self, name: str, key: Key) -> None:
        """It is its claim's from now on: what is due before it stays so."""
        if key.by_hand:
            return
        state = self.states.get(name, NEW_STATE)
        reason = "" if key.slot <= self.world.now else state.blocked_reason
        self.states[name] = replace(state, blocked_since=0, blocked_reason=reason)
        self.served.add(name)

    def _due_still(self, name: str, why: str) -> None:
        """A slot stays due: the next one is computed from the watermark again. `why` is told, should it be missed."""
        state = self.states.get(name, NEW_STATE)
        since = state.blocked_since or self.world.now + (name in self.served)  # who had a turn goes behind who had none
        self.states[name] = replace(state, next_slot=None, blocked_reason=why, blocked_since=since)

    def _name_of(self, claim: Claim) -> str:
        return claim.name or self.names.get(claim.key.entry, claim.key.entry)

    # --- outcomes

    def _correct(self) -> None:
        """What accounting tells at last of a run whose end was given up: of two rows of a run the later one counts.

        Streaks and further attempts stay as they are.
        """
        for text, (job_id, at) in self.world.kept.given_up.items():
            job_end, key = (self.world.job_ends or {}).get(job_id), Key.of(text)
            if key is None or self.world.now - at > identity.SILENT:
                continue
            if job_end is None or job_end.result is Result.UNKNOWN or self._is_anothers(text):
                self.given_up[text] = job_id, at
                continue
            name = self.names.get(key.entry, key.entry)
            row = with_log(self.world, key, job_end, job_id).row(key, name, job_id, self.world.now)
            self.rows.append(row)
            state = self.states.get(name)
            if state is not None and state.last.get("key") == text:
                self.states[name] = replace(state, last=row)

    def _note(self, outcome: Outcome) -> None:
        decision = outcome.decision
        if isinstance(decision, model.Submit):
            self._submitted(decision, outcome)
        elif isinstance(decision, model.Adopt):  # submitted, and only the answer was lost
            if outcome.done is Done.OK and (adopted := self.names.get(decision.key.entry)):
                self._had_its_turn(adopted, decision.key)
        elif isinstance(decision, model.Skip):
            if outcome.done is Done.OK:
                self._used_up(decision)
            else:
                before = self.states.get(decision.entry.name, NEW_STATE).blocked_reason
                self._due_still(decision.entry.name, before or outcome.detail)
        elif isinstance(decision, model.Wait):
            due = decision.slot is not None and decision.slot <= self.world.now
            if due and not self.world.call.only and decision.reason is not Reason.NOT_DUE:
                self._due_still(decision.entry.name, ": ".join(filter(None, (decision.reason, decision.detail))))
        elif isinstance(decision, model.Finish) and outcome.done is Done.OK:
            claim = self.world.claimed().get(decision.key)
            job_id = claim.job_id if claim and claim.job_id else decision.job_id
            job_end = with_log(self.world, decision.key, decision.job_end, job_id)
            self.finished.append(
                model.Claim(
                    decision.key,
                    ClaimState.FINISHED,
                    decision.name,
                    job_id,
                    job_end=job_end,
                    retry_at=decision.retry_at,
                    due=self.plan.due_before(decision.key),
                )
            )
            if claim is not None and claim.job_end is not None:
                self._not_tried_again(decision.key, decision.name, job_end, job_id)
            else:
                self._ended(decision.key, decision.name, job_end, job_id, decision.retry_at)

    def _submitted(self, decision: model.Submit, outcome: Outcome) -> None:
        name, key = decision.entry.name, decision.key
        if outcome.done in {Done.OK, Done.FAILED} or outcome.job_id:
            self._had_its_turn(name, key)
            self._count_submission(key, beyond=decision.beyond_schedule)
        elif not key.by_hand and key.slot <= self.world.now:
            self._due_still(name, outcome.detail if outcome.done is Done.PASSING else "")
        if outcome.done is Done.FAILED and decision.begin is None:
            job_end = model.JobEnd(Result.REFUSED, detail=outcome.detail)
            due = self.plan.due_before(key)
            self.finished.append(model.Claim(key, ClaimState.FINISHED, name, job_end=job_end, due=due))
            self._ended(key, name, job_end, None, None)

    def _used_up(self, decision: model.Skip) -> None:
        name = decision.entry.name
        self._used(name, decision.slot)
        key = Key(entry_id(name), decision.slot)
        row: HistoryRow = {
            "what": "slot",
            "key": str(key),
            "entry": name,
            "slot": decision.slot,
            "result": str(decision.result),
            "detail": decision.detail,
            "count": decision.count,
            "at": self.world.now,
        }
        self.rows.append(row)
        state = self.states[name]
        if self._last_of(state) < decision.slot:
            self.states[name] = replace(state, last=row)

    def _ended(self, key: Key, name: str, job_end: model.JobEnd, job_id: str | None, retry_at: int | None) -> None:
        state = self.states.get(name, NEW_STATE)
        row = job_end.row(key, name, job_id, self.world.now)
        self.rows.append(row)
        if job_end.result is Result.UNKNOWN and job_id and self.world.accounting.exists:
            self.given_up[str(key)] = job_id, self.world.now
        finished = Key.of(state.finished) if state.finished else None
        newest = finished.slot if finished is not None and self._believed(finished.slot) else 0
        entry, final = self.entries.get(name), key.by_hand or retry_at is None
        good_rerun = job_end.result is Result.OK and key.attempt > 1 and not state.suspended
        if not key.by_hand or (good_rerun and _is_a_slot(entry, key.slot)):
            state = counted(state, entry, job_end, key.slot, self.world.now, final=final, newest=newest)
        elif alert := alerts.by_hand(name, job_end, job_id or "", self.world.now):
            self.failed_by_hand.append(alert)
        if job_end.result is Result.OK or job_end.result in FAILURES:
            self._ping(name, Event.SUCCESS if job_end.result is Result.OK else Event.FAIL)
        if self._last_of(state) <= key.slot:
            state = replace(state, last=row)
        self.states[name] = state

    def _not_tried_again(self, key: Key, name: str, job_end: model.JobEnd, job_id: str | None) -> None:
        """It was told when it ended; as no further attempt comes, it counts, and its row says why none came."""
        state, alike = self.states.get(name, NEW_STATE), replace(job_end, node="")
        row = job_end.row(key, name, job_id, self.world.now)
        self.rows.append(row)
        if state.last.get("key") == str(key):
            state = replace(state, last=row)
        self.states[name] = counted(state, self.entries.get(name), alike, key.slot, self.world.now, final=True)

    def _believed(self, slot: int) -> bool:
        """False: it was made while a clock was ahead, and is not to stand before all that come."""
        return slot <= self.world.believed

    def _last_of(self, state: EntryState) -> int:
        slot = state.last.get("slot", 0)
        return slot if self._believed(slot) else 0

    def _ping_starts(self) -> None:
        """Where a job could not tell itself that it started, the first look that sees it run does: none that waits.

        One that began and ended between two looks is told by its end alone.
        """
        pinged = {name for name, entry in self.entries.items() if entry.policies.ping}
        for claim in self.world.claims if pinged else ():
            if (
                (name := self._name_of(claim)) in pinged
                and claim.state is not ClaimState.FINISHED
                and identity.runs(self.world, claim)
            ):
                from cronhpc.store.wrappers import mark_start

                with suppress(OSError):  # what cannot be noted is not told: it would be at each tick
                    if mark_start(self.site.paths.state, claim.key):
                        self._ping(name, Event.START)

    def _ping(self, name: str, event: Event) -> None:
        entry = self.entries.get(name)
        if entry is not None and entry.policies.ping:
            self.pings.append(Ping(entry.policies.ping, event, name))

    # --- the scheduler's own

    def _count_submission(self, key: Key, *, beyond: bool) -> None:
        minute = self.world.now // 60
        for name in ("", key.entry) if beyond else ("",):
            before, last = self.kept.recent[:-1], self.kept.recent[-1:]
            same = [number for at, of, number in last if (at, of) == (minute, name)]
            self.kept.recent = (*before, *(() if same else last), (minute, name, sum(same) + 1))

    def _note_switches(self) -> None:
        """What they did to jobs, and what is to be remembered of those until they are gone."""
        reached = {job for d in self.plan.decisions if isinstance(d, model.Stop) for job in (*d.waiting, *d.running)}
        before = self.world.kept.warned
        still = reached if self.world.queue is not None and not self.world.switches.unknown else set(before)
        warned = {job: at for job, at in before.items() if job in still}
        for outcome in self.outcomes:
            if isinstance(outcome.decision, model.Stop) and outcome.done is Done.OK:
                warned |= dict.fromkeys(outcome.decision.warn, self.world.now)
        self.kept.warned = warned
        self.kept.comments = self._comments()
        self.kept.kill_records = self.kills.kill_records

    def _note_scheduler(self) -> None:
        """That it was at work, its links, and what people are told of."""
        now, kept = self.world.now, self.kept
        kept.last_tick, kept.caller, kept.wake = now, self.world.chain.caller, self.plan.wake
        kept.recent = tuple(row for row in kept.recent if row[0] >= now // 60 - _HOUR)
        kept.given_up = self.given_up
        with suppress(OSError):  # a full disk: named where status.json is written
            kept.due = scheduler.due_file(self.site.paths, kept.due)
        fits = any(isinstance(outcome.decision, model.Submit) and outcome.job_id for outcome in self.outcomes)
        kept.job_limit = identity.job_limit(self.world, self.outcomes)
        links, full = {LinkKind.SUCCESSOR: kept.successor, LinkKind.SPARE: kept.spare}, False
        for outcome in self.outcomes:
            decision = outcome.decision
            if isinstance(decision, model.SubmitLink):
                again = decision.again if outcome.done is Done.REFUSED else ""
                links[decision.kind] = outcome.job_id or again or links[decision.kind]
                full = full or again != ""
                if decision.kind is LinkKind.SPARE and outcome.done in {
                    Done.OK,
                    Done.REFUSED,
                }:  # refused: a limit of the site
                    kept.no_spare, kept.no_spare_at, kept.no_submit_slot = outcome.detail, now, False
            elif outcome.obstacle is model.Obstacle.SUBMIT_LIMIT and not fits and chain.fills_the_limit(self.world):
                kept.no_spare, kept.no_spare_at, kept.no_submit_slot = outcome.detail, now, True
            elif isinstance(decision, model.KeepLink | model.MoveLink):
                links[decision.kind] = decision.job_id
        if full or links[LinkKind.SUCCESSOR] != kept.successor:
            kept.full_since = (kept.full_since or now) if full else 0
        kept.successor, kept.spare = links[LinkKind.SUCCESSOR], links[LinkKind.SPARE]
        kept.bad_nodes = tuple((bad.node, bad.until, bad.why) for bad in self.world.chain.bad_nodes)
        self._tell()
        if self.site.settings.alerts_ping:
            how = Event.FAIL if self.world.queue is None else Event.SUCCESS
            self.pings.append(Ping(self.site.settings.alerts_ping, how, "the chain"))

    def _tell(self) -> None:
        standing = alerts.conditions(self.world, self.states, self.outcomes, self.kills.stopped)
        if standing and not self.site.settings.sends_alerts:
            return  # nobody is told: who sets them up later is told of all that stands then
        before = self.kept.alerts
        names = {entry.name for entry in self.world.entries}
        self.alerts, self.kept.alerts = alerts.messages(standing, before, self.world.now, names)
        self.alerts += alerts.events(self.world, self.outcomes, self.kills.stopped, before)
        where = str(self.site.paths.root)  # they are read anywhere
        self.alerts = [replace(each, text=text_of(each.text, where)) for each in self.alerts]

    def _comments(self) -> dict[str, str]:
        """Comments of held jobs that the tag of a pause left no room for; restored when it goes."""
        if self.world.queue is None:
            return dict(self.world.kept.comments)
        held = [job for d in self.plan.decisions if isinstance(d, model.Hold) for job in d.jobs]
        paused = {job.id for job in self.world.queue.jobs if job.live and job.comment.startswith(model.PAUSED)}
        long = {
            job.id: job.own_comment for job in held if not with_pause_tag(self.world, job).endswith(job.own_comment)
        }
        return {**{job: text for job, text in self.world.kept.comments.items() if job in paused}, **long}

    # --- to disk

    def _pass(self, ended: Iterable[Key]) -> None:
        """The watermark passes what has ended, before anybody forgets it; also of an entry whose file may come back."""
        names = {claim.key.entry: claim.name for claim in (*self.world.claims, *self.finished) if claim.name}
        for key in ended:
            name = self.names.get(key.entry) or names.get(key.entry, key.entry)
            state = self.states.get(name)
            if state is not None and not key.by_hand and state.watermark < key.slot <= self.world.now:
                self.states[name] = replace(state, watermark=key.slot)

    def write_history(self) -> None:
        if self.rows:
            history.append(self.site.paths.history, self.rows, host=self.site.host, now=self.world.now)

    def write_memory(self) -> None:
        believed = range(self.world.now + 1, self.world.believed + 1)
        self.forgettable, marks = _outlived(self.finished, self.world.claims, self.names, believed)
        self._pass([*self.forgettable, *(claim.key for claim in self.finished if not claim.due)])
        for name, mark in marks.items():
            if (state := self.states.get(name, NEW_STATE)).finished != mark:
                self.states[name] = replace(state, finished=mark)
        for entry in self.world.entries:
            state, source = self.states.get(entry.name, NEW_STATE), file_of(entry)
            if state.source != source:
                self.states[entry.name] = replace(state, source=source)
        marks_of_damage = damage.marks(self.memory, self.world.now, reported=self.world.call.whole)
        self.kept.forgotten, self.kept.invalid = marks_of_damage
        if self.world.call.whole:
            self._note_unseen()
            self._note_scheduler()
        if not self.world.call.only:
            self._note_switches()
        # when each absent job was first missed; one entry's own look leaves the others' as they are
        since = self.world.now - 2 * identity.SILENT
        kept = {job: at for job, at in self.world.kept.absent.items() if at > since} if self.world.call.only else {}
        self.kept.absent = kept | identity.missed_since(self.world)
        noted = {claim.note for claim in self.finished} | {str(key) for key in self.forgettable}
        noted |= {each for each in self.kept.noted if self._is_anothers(each)}
        self.kept.noted = tuple(sorted(noted.difference(marks.values())))
        self.memory = replace(self.memory, entries=self.states, scheduler=self.kept)
        store_memory.save(self.site.paths.entries, self.memory)
        self.saved = True

    def _note_unseen(self) -> None:
        """From the first tick that does not see an entry's file until one sees a schedule of it, it has no slots."""
        now = self.world.now
        for name, state in self.states.items():
            entry = self.entries.get(name)
            if entry is None and state.unseen is None:
                self.states[name] = replace(state, unseen=(self.world.kept.last_tick or now, now))
            elif entry is not None and entry.schedule and state.unseen is not None:
                self.states[name] = replace(state, unseen=None)

    def _is_anothers(self, note: str) -> bool:
        """Whether a note is of an entry that this look was not about."""
        key = Key.of(note.partition(" ")[0])
        return bool(self.world.call.only) and key is not None and key.entry != self.world.call.only

    def write_chain(self) -> None:
        """What the bash of a link, and a command with a poor PATH, want to know."""
        if self.world.queue is not None and self.world.links:
            live = {job.id for job in self.world.queue.jobs if job.live}
            old = (each for each, link in self.world.links.items() if link.at < self.world.now - _OLD_TEMPORARY)
            scheduler.forget_links(self.site.paths, (each for each in old if each not in live))
        if not self.site.batch.dialect.runs_here and self.world.queue is not None:
            scheduler.remember_batch_system(self.site.paths, self.site.batch.dialect)
        on_hold = self.world.chain.on_hold
        if on_hold and any(
            isinstance(d, model.LeaveChain) and d.cause is model.LeaveCause.CANCELLED for d in self.plan.decisions
        ):
            scheduler.remember_admins_word(self.site.paths, on_hold)
        elif self.world.chain.by_links and self.world.call.whole:
            scheduler.remember_successor(self.site.paths, self.kept.successor)

    def forget_claims(self) -> None:
        claims = Claims(self.site.paths.claims)
        claims.forget(self.forgettable)
        if os.path.isdir(self.site.paths.state / "ends"):  # noqa: PTH112 - one stat
            from cronhpc.store.wrappers import forget_ends

            forget_ends(self.site.paths.state, (claim.key for claim in self.finished))
        if self.world.call.whole:
            claims.drop_steps({state.finished for state in self.states.values() if state.finished})
            paths = self.site.paths
            for folder in (paths.claims, paths.state, paths.scheduler, paths.root, paths.scheduler / "links"):
                with suppress(FileNotFoundError):
                    sweep(folder, self.world.now - _OLD_TEMPORARY)

    def write_cache(self) -> None:
        self._note_cost()
        self._note_accounting()
        self.site.cache.save()

    def _note_accounting(self) -> None:
        """Whether there is accounting, and a field that sacct lacks, is asked once a day: not at every end of a run."""
        batch, noted = self.site.batch, self.site.cache.get("accounting")
        accounting, line = batch.accounting, batch.submit_line
        old = noted is not None and abs(self.world.now - noted[1]) > _ACCOUNTING_AGAIN
        if (noted is None and accounting is not None) or (noted is not None and noted[2:] != [line]) or old:
            self.site.cache.keep("accounting", None if old else [accounting, self.world.now, line])

    def _note_cost(self) -> None:
        """What the scheduler itself used is asked for once a day, where there is accounting; the cache keeps it."""
        noted = self.site.cache.get("used", [0, 0, 0])
        if not self.world.chain.by_links or 0 <= self.world.now - noted[2] < _COST_AGAIN:
            return
        used = self.site.batch.used(model.link_names(self.world.directory_id), self.world.now - _COST_OF)
        self.site.cache.keep("used", [*(used or noted[:2]), self.world.now])  # no answer: another one tomorrow

    def write_status(self) -> None:
        """What everybody may read; also the heartbeat."""
        if not self.world.call.whole:
            return
        about = status.About(
            directory=str(self.site.paths.root),
            backend=self.site.batch.dialect.name,
            owner=self.site.user,
            host=self.site.host,
            used=status.used_of(self.site.cache.known),
        )
        problems = (*self.problems, *damage.of_entries(self.memory, self.world.now, reported_too=True))
        report = status.facts(self.world, self.plan, self.states, about, problems=problems, outcomes=self.outcomes)
        facts = as_json(report, about.directory)  # its readers may have another one
        write_json(self.site.paths.status, facts, VERSION, 0o644)
        until = chain.expected_until(self.world.now, self.world.settings.interval, self.world.chain.via)
        scheduler.expect(self.site.paths, self.world.now, until)


def _is_a_slot(entry: model.Entry | None, at: int) -> bool:
    """Whether the schedule has it: the success of a run by hand that was a further attempt of it is the slot's."""
    return entry is not None and bool(entry.schedule) and schedule_of(entry).next_epoch(at - 1) == at


def _outlived(
    finished: Iterable[Claim], claims: Sequence[Claim], names: Mapping[str, str], to_come: range
) -> tuple[list[Key], dict[str, str]]:
    """Claims to forget, and for each entry's name the newest finished one, which stays and need not be opened again.

    One that has ended before its slot, which is `to_come`, stays until then: no watermark passes it so far; and so does
    one that had an earlier slot `due`, until a newer one has ended. Slots later than those to come were made by a clock
    that was ahead: none of them is the newest.
    """
    present = {claim.key for claim in claims}
    newest: dict[str, Key] = {}
    for claim in (*claims, *finished):
        key = claim.key
        if claim.state is not ClaimState.FINISHED or claim.due or key.by_hand or key.slot >= to_come.stop:
            continue
        newest[key.entry] = max(key, newest.get(key.entry, key))
    forget: list[Key] = []
    marks: dict[str, str] = {}
    by_key = {claim.key: claim for claim in finished}
    unopened = [claim.key for claim in claims if claim.state is ClaimState.FINISHED and claim.job_end is None]
    for key in sorted({*unopened, *by_key}, key=IN_ORDER):
        ended = by_key.get(key)
        waits = (
            ended is not None and ended.retry_at is not None and replace(key, attempt=key.attempt + 1) not in present
        )
        stands_alone = ended is not None and ended.due and newest.get(key.entry, key) <= key
        if waits or stands_alone:
            continue
        if key == newest.get(key.entry) and key.entry in names:
            marks[names[key.entry]] = str(key)
        elif key.by_hand or key.slot not in to_come:
            forget.append(key)
    return forget, marks
