"""Which slots of an entry are due, which were missed, which is next, and when the next tick is wanted."""

from __future__ import annotations

from datetime import UTC, datetime

from cronhpc.core.identity import TWO_LOOKS, Absence, Lives, records
from cronhpc.core.model import (
    NEW_STATE,
    CatchUp,
    ClaimState,
    Finish,
    Reason,
    Result,
    Skip,
    Stop,
    Submit,
    Wait,
    Withdraw,
    entry_id,
)
from cronhpc.core.stop import reachable
from cronhpc.cron.values import CronhpcError, dataclass, digest, is_dataclass, replace, set_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from cronhpc.core.model import Claim, Decision, Entry, EntryState, Key, World
    from cronhpc.cron.schedule import Schedule

UNFINISHED_WAKE = 120
_COUNTED = 1000  # missed slots are counted up to here
_FIRST = 1577836800  # 2020: cronhpc is younger, so an older watermark is of a clock that had lost its date
_OUTAGE = 1.5  # intervals without a tick
_DAY = 86400


def schedule_key(entry: Entry) -> str:
    """What a stored next slot was computed with."""
    return f"{entry.schedule}|{entry.timezone}|{entry.hash_key if 'H' in entry.schedule else ''}"


def text_key(entry: Entry) -> str:
    """What a job submitted ahead is made of: schedule, script and options. It is replaced once that has changed.

    A row's command stands in the settings file, whose other edits do not count. Fields that say nothing do not count
    either: other versions have more of them, or fewer, and an upgrade replaces no job.
    """
    born = 0 if entry.command else entry.born
    text = repr(_what_it_says(replace(entry, born=born, source="", fresh=False, problem=None, notes=())))
    return digest(text.encode("utf-8", "surrogateescape"))[:12]


def _what_it_says(value: object) -> object:
    """Of a class's object the fields that are not as they are where nothing is said."""
    if not is_dataclass(value):
        return str(value) if isinstance(value, str) else value  # not the name that a word of ours has in this version
    return sorted((name, _what_it_says(each)) for name, each in set_fields(value).items())


def schedule_of(entry: Entry) -> Schedule:
    """Raises ScheduleError; croniter is loaded only here, when a slot has to be computed."""
    from cronhpc.cron.schedule import parse
    from cronhpc.cron.zones import zone_of

    return parse(entry.schedule, zone_of(entry.timezone), hash_key=entry.hash_key)


def has_slot(entry: Entry, claim: Claim) -> bool:
    """Whether the entry, as it is by now, has the slot that was claimed ahead of its time."""
    at = claim.key.slot
    return claim.holds == text_key(entry) or (bool(entry.schedule) and schedule_of(entry).next_epoch(at - 1) == at)


def holds(world: World, row: Submit) -> str:
    """Of a submission that waits for its slot, which text it is made of; "" of others."""
    before = world.claimed().get(row.key)
    ahead = row.reason is Reason.AHEAD or (before is not None and before.holds and row.begin is not None)
    return text_key(row.entry) if ahead else ""


@dataclass(frozen=True, slots=True)
class Due:
    """`slots` are due now, oldest first; `missed` collapses those that will not run; `next` is the first one later."""

    slots: tuple[int, ...]
    next: int
    entry: Entry
    claimed: Collection[int]
    missed: Skip | None = None
    first: int | None = None  # the oldest, where it is known what has run before
    computed: tuple[str, int | None, int] | None = None  # for `Plan.next_slots`; None: what is stored holds

    def near(self, world: World) -> tuple[list[int], int]:
        """Slots before the next possible tick, which would come too late if they waited for it; and the one after.

        Where only ticks on a login node submit, nobody knows when that is: all slots of the next `ahead`.
        """
        runs_ahead = world.chain.via.runs_ahead
        until = world.now + (world.settings.ahead if runs_ahead else world.settings.min_interval)
        if (world.call.by_daemon and not runs_ahead) or not world.chain.wanted or self.next >= until:
            return [], self.next
        near, slot, schedule = [], self.next, schedule_of(self.entry)
        while slot < until:
            near.append(slot)
            slot = _free(schedule, slot, self.claimed)
        return near, slot


@dataclass(frozen=True, slots=True)
class Seen:
    """Which slots of all entries are dealt with.

    Each slot stands for itself: it is dealt with where it has a claim. Those up to the newest that has ended, or that
    the entry's state says are used up, are: of them claims are forgotten.
    """

    newest: Mapping[str, int]  # entry id -> newest scheduled slot that has ended
    claimed: Mapping[str, Collection[int]]  # entry id -> slots that have a claim
    believed: int  # as World has it: asked for each entry

    @classmethod
    def of(cls, world: World) -> Seen:
        """Claims from a clock that was far ahead do not count."""
        believed, by_key = world.believed, world.claimed()
        keys = [(claim.key, claim.used_up) for claim in world.claims]
        for job in world.listed:  # should claims be lost, what ran is remembered there
            key = records(world).key(job)
            if key is not None and key not in by_key and not (job.never_began or job.held):  # held: it goes
                keys.append((key, key.slot if key.slot <= world.now else 0))
        newest: dict[str, int] = {}
        claimed: dict[str, set[int]] = {}
        for key, used_up in keys:
            if not key.by_hand and key.slot <= believed:
                claimed.setdefault(key.entry, set()).add(key.slot)
                newest[key.entry] = max(used_up, newest.get(key.entry, 0))
        for entry, logged in world.logged.items():  # whole minutes: `run` makes slots at any second
            scheduled = [slot for slot in logged if logged[slot] and slot <= believed and not slot % 60]
            newest[entry] = max(newest.get(entry, 0), *scheduled, 0)
        return cls(newest, claimed, believed)

    def due(self, world: World, entry: Entry, state: EntryState) -> Due:
        """Compare the stored next slot with now; compute only where it has come, or does not fit any more."""
        claimed = self.claimed.get(entry_id(entry.name), frozenset[int]())
        used, lost = self._used(world, entry, state, claimed)
        first, computed = state.next_slot, None
        by_clock_ahead = max(state.watermark, world.kept.last_tick or 0) > self.believed
        if state.schedule_key != schedule_key(entry) or first is None or first <= used or by_clock_ahead:
            first = _free(schedule_of(entry), used, claimed)
            unborn = world.disk_clock and entry.born > world.now and not state.watermark
            computed = _computed(world, entry, first, 0 if unborn else used, claimed)
        elif first in claimed:
            first = _free(schedule_of(entry), first, claimed)
        if first > world.now:
            missed = _as_one(lost) or self._unknown(world, entry, state)
            return Due((), first, entry, claimed, missed, computed=computed)
        schedule = schedule_of(entry)
        following = _free(schedule, world.now, claimed)
        computed = _computed(world, entry, following, used, claimed)
        runs, missed = _caught_up(world, entry, schedule, first, claimed)
        missed = missed and replace(missed, detail=missed.detail + cause(state))
        oldest = first if state.watermark else None
        return Due(runs, following, entry, claimed, _as_one([*lost, missed]), oldest, computed)

    def first_of_gone(self, world: World, decided: Iterable[Decision]) -> dict[str, int]:
        """Of entries that are gone, and of which a run ends now, the first slot nobody has run: they may come back."""
        first = dict[str, int]()
        for each in decided:
            if isinstance(each, Finish) and (gone := each.key.entry) not in world.entries_by_id():
                state = world.states.get(each.name, NEW_STATE)
                if state.watermark and (schedule := _schedule_of_before(state)) is not None:
                    used = max(state.watermark, self.newest.get(gone, 0))
                    first[gone] = _free(schedule, used, self.claimed.get(gone, ()))
        return first

    def _used(
        self, world: World, entry: Entry, state: EntryState, claimed: Collection[int]
    ) -> tuple[int, list[Skip | None]]:
        """Up to where slots are used up, and which of them nobody has run, as far as that is known."""
        newest, key, restored = self.newest.get(entry_id(entry.name), 0), schedule_key(entry), world.kept.restored
        is_changed = state.schedule_key not in {"", key}
        used = state.watermark if state.watermark <= self.believed else world.now  # else stamped by a clock ahead
        if used < _FIRST or is_changed:
            used = max(used, min(entry.born, world.now))  # new, or a changed schedule: earlier slots are not its own
        used = max(used, newest)
        lost = [_of_old_schedule(world, entry, state, (newest, used), claimed)] if is_changed else []
        noted_since = state.schedule_key == key and (state.next_slot or 0) > restored
        if used < restored and not noted_since:
            why = "the directory was brought back from a copy that knows nothing of it, so it may have run"
            lost.append(_missed(entry, schedule_of(entry), (used, restored), why, claimed))
            used = restored
        return used, lost

    def _unknown(self, world: World, entry: Entry, state: EntryState) -> Skip | None:
        """A clock that was ahead took the watermark with it: nobody knows which slots before now have run."""
        if state.watermark <= self.believed:
            return None
        seen = max(self.newest.get(entry_id(entry.name), 0), min(entry.born, world.now))
        latest = schedule_of(entry).latest_before(world.now, seen)
        if latest is None:
            return None
        ahead = f"a clock that was ahead has used up all slots until {datetime.fromtimestamp(state.watermark, UTC):%F}"
        return Skip(entry, latest, Result.MISSED, Reason.MISSED, f"{ahead}; whether this one ran is not known")


def _computed(
    world: World, entry: Entry, following: int, used: int, claimed: Collection[int]
) -> tuple[str, int | None, int]:
    """What the next tick is to know. A claim before its slot may be dropped, and that be the next one again."""
    ahead = any(world.now < slot < following for slot in claimed)
    return schedule_key(entry), None if ahead else following, used


def lapses(entry: Entry, slot: int) -> int | None:
    """When `slot` is missed unless it is submitted: at its deadline or the next slot, what is sooner; None: never."""
    following = entry.schedule and entry.policies.catch_up is not CatchUp.ALL
    at = [slot + entry.policies.deadline] if entry.policies.deadline is not None else []
    return min([*at, schedule_of(entry).next_epoch(slot)] if following else at, default=None)


def turn(world: World, row: Submit) -> tuple[int, int, str, Key]:
    """Of few places: to what would be missed first, then to what has waited longest, then by name.

    An entry that has missed a slot keeps that slot's place until it has its turn, and nothing waits for longer than a
    day behind what comes due meanwhile.
    """
    held = world.states.get(row.entry.name, NEW_STATE).blocked_since
    slot, since = row.key.slot, held or max(row.key.slot, world.now)
    end = lapses(row.entry, slot)
    at = since + _DAY if end is None else min(end, since + min(end - slot, _DAY))
    return slot if row.key.by_hand else at, held or world.now + 1, row.entry.name, row.key


def cause(state: EntryState | None) -> str:
    """What held a slot up while it was due is why it was missed; a policy or deadline only says why it is over."""
    return f"; at the last look: {state.blocked_reason}" if state is not None and state.blocked_reason else ""


def _free(schedule: Schedule, after: int, claimed: Collection[int]) -> int:
    """The first slot after `after` that nobody has claimed."""
    slot = schedule.next_epoch(after)
    while slot in claimed:
        slot = schedule.next_epoch(slot)
    return slot


def _latest_free(schedule: Schedule, first: int, until: int, claimed: Collection[int]) -> int | None:
    """The latest slot from `first` to `until` that nobody has claimed."""
    slot = schedule.latest_before(until, first - 1) if until >= first else None
    while slot is not None and slot in claimed:
        slot = schedule.latest_before(slot - 1, first - 1) if slot > first else None
    return slot


def _caught_up(
    world: World, entry: Entry, schedule: Schedule, first: int, claimed: Collection[int]
) -> tuple[tuple[int, ...], Skip | None]:
    """Of the slots from `first` to now that nobody has claimed: what runs, and what is missed, and said."""
    policy = entry.policies
    latest = schedule.latest_before(world.now, first - 1)
    if latest is None:
        return (), None
    most, why = int(latest not in claimed), f"only the latest runs (catch-up: {policy.catch_up})"
    if policy.catch_up is CatchUp.ALL:
        most = policy.catch_up_limit
        why = f"no more than {most} are caught up with (catch-up-limit)"
    elif policy.catch_up is CatchUp.NONE and _after_outage(world) and world.now - latest > world.settings.min_interval:
        most, why = 0, "nothing ran then (catch-up: none)"
    runs, older = list[int](), _latest_free(schedule, first, latest, claimed)
    while older is not None and len(runs) < most:
        runs.insert(0, older)
        older = _latest_free(schedule, first, older - 1, claimed)
    return tuple(runs), None if older is None else _missed(entry, schedule, (first - 1, older), why, claimed)


def _schedule_of_before(state: EntryState) -> Schedule | None:
    """What the entry's slots were computed with; None: another version's, or a zone that this machine does not know."""
    from cronhpc.cron.schedule import parse
    from cronhpc.cron.zones import zone_of

    try:
        text, timezone, hash_key = state.schedule_key.split("|", 2)
        return parse(text, zone_of(timezone), hash_key=hash_key)
    except (CronhpcError, ValueError):
        return None


def _of_old_schedule(
    world: World, entry: Entry, state: EntryState, between: tuple[int, int], claimed: Collection[int]
) -> Skip | None:
    """Slots of the schedule of before that waited, or had come since the last tick, when that was changed.

    Of others nobody knows: the entry's file may have been away. Once a tick has not seen it, there were none.
    """
    last, until = state.unseen or (world.kept.last_tick or 0, between[1])
    between = max(between[0], state.watermark, 0 if state.blocked_reason else last), min(between[1], until)
    schedule = _schedule_of_before(state) if between[0] >= _FIRST else None
    if schedule is None:
        return None
    return _missed(entry, schedule, between, f"its schedule was changed before that{cause(state)}", claimed)


def _as_one(missed: Iterable[Skip | None]) -> Skip | None:
    """What is missed for several reasons, the oldest first, as one row."""
    skips = [each for each in missed if each is not None]
    if not skips:
        return None
    detail = "; then ".join(each.detail for each in skips)
    return replace(skips[-1], count=sum(each.count for each in skips), detail=detail)


def _after_outage(world: World) -> bool:
    last = world.kept.last_tick
    return last is None or last > world.now or world.now - last > _OUTAGE * world.settings.interval


def _missed(
    entry: Entry, schedule: Schedule, between: tuple[int, int], why: str, claimed: Collection[int]
) -> Skip | None:
    """The slots after the first instant of `between`, up to the second, but those that are claimed."""
    after, until = between
    last = _latest_free(schedule, after + 1, until, claimed)
    if last is None:
        return None
    count, slot = 1, _free(schedule, after, claimed)
    while slot < last and count < _COUNTED:
        slot = _free(schedule, slot, claimed)
        count += 1
    how_many = "" if count == 1 else f"{count} slots: " if count < _COUNTED else f"{_COUNTED} slots or more: "
    return Skip(entry, last, Result.MISSED, Reason.MISSED, f"{how_many}{why}", count)


def boundary(now: int, interval: int) -> int:
    """The first aligned instant after `now`: whole intervals since the epoch."""
    return (now // interval + 1) * interval


def _after_stop(world: World, stop: Stop) -> list[int]:
    """When a warning's grace is over, and when to look whether what was cancelled is gone."""
    at = [world.now + stop.grace] if stop.warn else []
    at += [stop.end_at] if stop.end_at is not None else []
    if stop.pending or stop.running or stop.completing or stop.unasked:
        at.append(world.now + UNFINISHED_WAKE)
    return [max(each, world.now + 1) for each in at] or [world.now + world.settings.interval]


def _goes_on(world: World, claim: Claim, lives: Lives) -> bool:
    """Whether the next look takes it further: to its release, or to the end of a job that is taken back.

    One that a list of after its slot still shows is the slot's run, however long.
    """
    if claim.state in {ClaimState.SUBMITTED, ClaimState.RELEASING}:
        return True
    stays = claim.key.slot <= world.now - TWO_LOOKS and claim in lives.of_entry(claim.key.entry)
    return claim.state is ClaimState.RELEASED and bool(claim.taken_back) and not stays


def wake(world: World, for_slots: Iterable[int], decided: Iterable[Decision], lives: Lives) -> int:
    """When the next tick is wanted: the next interval, or the first slot that nothing is submitted for, if sooner.

    `for_slots`: when one has to come for the slots of each entry. Never nearer than `min-interval`, but for a claim
    that the next look finishes, and for a slot that could not be submitted ahead: two minutes.
    """
    s = world.settings
    earliest = world.now + s.min_interval
    at = min([boundary(world.now, s.interval), *for_slots])
    if reachable(world) or any(isinstance(each, Submit) for each in decided):  # a switch set from now on stops it
        at = min(at, max(world.now + s.kill_within, earliest))
    for switch in world.switches.listed:
        if switch.expires is not None and switch.expires > world.now:
            at = min(at, max(switch.expires, earliest))  # what it holds is released then
    for each in decided:
        if isinstance(each, Stop):
            at = min(at, *_after_stop(world, each))
    retries = [claim.retry_at for claim in world.claims] + [d.retry_at for d in decided if isinstance(d, Finish)]
    at = min([at, *(max(retry, earliest) for retry in retries if retry is not None)])
    without_job = [claim for claim in world.claims if claim.state is ClaimState.CLAIMED]
    at = min([at, *(max(claim.key.slot, earliest) for claim in without_job if claim.key.slot > world.now)])
    unsettled = any(claim.key.slot <= world.now or claim.fresh for claim in without_job)
    unsettled |= any(_goes_on(world, claim, lives) for claim in world.claims)
    unsettled |= any(isinstance(each, Withdraw) and each.job_id != "" and not each.gone for each in decided)
    if Absence.ONE_LOOK in lives.absent.values() or unsettled:
        at = min(at, world.now + UNFINISHED_WAKE)
    soon = {Reason.JUST_CHANGED, Reason.BUDGET}
    if any(isinstance(d, Wait) and d.reason in soon for d in decided):
        at = min(at, earliest)
    return at
