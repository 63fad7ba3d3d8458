"""Small worlds for tables of situations. Times are written as a person would: "14:20" on one Friday, in UTC."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from cronhpc.batch.port import Ends
from cronhpc.batch.slurm.rows import fault_of
from cronhpc.core.model import (
    Adopt,
    Call,
    Cancel,
    CancelLink,
    CatchUp,
    ChainFacts,
    Claim,
    ClaimState,
    Decision,
    Entry,
    EntryState,
    Finish,
    Hold,
    Job,
    JobEnd,
    KeepLink,
    Key,
    LeaveChain,
    MoveLink,
    Overlap,
    Policies,
    Queue,
    Release,
    SchedulerState,
    Settings,
    Skip,
    Stop,
    Submit,
    SubmitLink,
    Switch,
    Switches,
    SwitchKind,
    Unhold,
    Wait,
    Withdraw,
    World,
    entry_id,
    slot_text,
    token,
)
from cronhpc.core.plan import plan
from cronhpc.store.claims import Claims

DAY = "2026-11-27"
ID = "ab12cd"
PRINT = "f00dfeed0000"


class WithoutAccounting:
    """What a batch system that has none says of it, for fakes (batch/port.py)."""

    assumed = False
    accounting: bool | None = None
    submit_line = True

    def job_ends(self, *_: Any, **__: Any) -> Ends:
        return Ends()

    def used(self, *_: object) -> None:
        return None


class Time:
    """It passes where somebody waits; meanwhile happens what is to happen then."""

    def __init__(self, begin: int) -> None:
        self.begin, self.now = begin, float(begin)
        self.to_come: list[tuple[float, Callable[[], object]]] = []

    def at(self, seconds: float, happens: Callable[[], object]) -> None:
        """So many seconds after the beginning."""
        insort(self.to_come, (self.begin + seconds, happens), key=lambda each: each[0])

    def pass_until(self, until: float, *, unless: Callable[[], bool]) -> None:
        while self.to_come and self.to_come[0][0] <= until and not unless():
            self.now, happens = self.to_come.pop(0)
            happens()
        if not unless():
            self.now = max(self.now, until)


def at(clock: str, day: str = DAY) -> int:
    """ "14:20" or "14:20:05" (or "2026-11-26 14:20") as epoch seconds, UTC."""
    if " " in clock:
        day, clock = clock.split(" ")
    text = clock if clock.count(":") == 2 else f"{clock}:00"
    return int(datetime.fromisoformat(f"{day}T{text}").replace(tzinfo=UTC).timestamp())


def entry(name: str = "e", schedule: str = "0 * * * *", *, born: str = "2026-01-01 00:00", **more: Any) -> Entry:
    words: dict[str, Any] = {"overlap": Overlap, "catch_up": CatchUp}
    policies = Policies(**{k: words.get(k, lambda v: v)(more.pop(k)) for k in list(more) if k in Policies.__slots__})
    return Entry(
        name,
        f"cron.d/{name}.slurm",
        f"/cron/cron.d/{name}.slurm",
        schedule,
        more.pop("timezone", "UTC"),
        f"u:/cron:{name}",
        policies,
        at(born),
        job_name=more.pop("job_name", name),
        **more,
    )


def write_end(
    claims: Claims, of: Key, name: str, job_end: JobEnd, job_id: str | None, *, now: int, retry_at: int | None = None
) -> None:
    """Write the end of `of` into its claim, as act does."""
    claims.write_end(Finish(of, name, job_end, retry_at, job_id), now)
    claims.drop_steps_of([of])


def state(watermark: str | None = None, **more: Any) -> EntryState:
    return EntryState(watermark=at(watermark) if watermark else 0, **more)


def key(name: str, clock: str, attempt: int = 1, *, by_hand: bool = False) -> Key:
    return Key(entry_id(name), at(clock), attempt, by_hand)


def claim(name: str, clock: str, step: ClaimState, job_id: str | None = None, attempt: int = 1, **more: Any) -> Claim:
    return Claim(key(name, clock, attempt), step, name, job_id, at=at(clock), **more)


def job(number: int, status: str = "RUNNING", *, of: Key | None = None, **more: Any) -> Job:
    comment = token(ID, str(of)) if of else more.pop("comment", "")
    more = waits_for(more.get("reason", "")) | more
    return Job(str(number), status, comment=comment, **more)


def waits_for(reason: str) -> dict[str, Any]:
    """A pending job's reason, and what Slurm means by it, for `replace`."""
    return {"reason": reason, "fault": fault_of(reason)}


def held(number: int, of: Key) -> Job:
    return job(number, "PENDING", of=of, reason="JobHeldUser")


def link(number: int, start: str, kind: str = "link", status: str = "PENDING", **more: Any) -> Job:
    more.setdefault("reason", "BeginTime" if status == "PENDING" else "None")
    more = waits_for(more["reason"]) | more
    comment = token(ID, f"{kind} {at(start)} {more.pop('fingerprint', PRINT)}")
    return Job(str(number), status, name=f"cronhpc-{ID}", comment=comment, start=at(start), **more)


def chain(**more: Any) -> ChainFacts:
    return ChainFacts(wanted=True, fingerprint=PRINT, **more)


def world(now: str, *entries: Entry, jobs: tuple[Job, ...] | None = (), **more: Any) -> World:
    kept = SchedulerState(
        **{"last_tick": at(now) - 60} | {name: more.pop(name) for name in SchedulerState.__slots__ if name in more}
    )
    states = more.pop("states", {})
    switches = Switches(more.pop("switches", ()), more.pop("switches_unknown", ()))
    settings = replace(Settings(), **more.pop("settings", {}))
    call = Call(**{name: more.pop(name) for name in Call.__slots__ if name in more})
    return World(
        at(now),
        ID,
        settings,
        tuple(sorted(entries, key=lambda e: e.name)),
        states=states,
        switches=switches,
        queue=None if jobs is None else Queue(jobs),
        kept=kept,
        call=call,
        **more,
    )


def switch(name: str, kind: str = "kill", **more: Any) -> Switch:
    return Switch(SwitchKind(kind), name, f"/cron/{kind}/{name}", "bob", at("13:00"), **more)


def said(decision: Decision) -> str:
    """A decision in one short line: "submit 14:00", "used up 13:00 missed", "wait 15:00 not due"."""
    match decision:
        case Submit():
            begin = f" begin {clock(decision.begin)}" if decision.begin else ""
            number = f" #{decision.key.attempt}" if decision.key.attempt > 1 else ""
            return f"{decision.reason} {clock(decision.key.slot)}{number}{begin}"
        case Skip():
            return f"used up {clock(decision.slot)} {decision.result} ({decision.count})"
        case Wait():
            return f"wait {clock(decision.slot) if decision.slot else '-'} {decision.reason}"
        case Adopt() | Cancel() | Withdraw():
            return f"{type(decision).__name__.lower()} {decision.job_id or '-'}"
        case Release():
            return f"{'mark' if decision.marked else 'release'} {decision.job_id}"
        case Finish():
            return f"finish {decision.job_end.result}" + (" retry" if decision.retry_at is not None else "")
        case SubmitLink() | KeepLink() | MoveLink() | CancelLink():
            job_id = getattr(decision, "job_id", "")
            return f"{type(decision).__name__.removesuffix('Link').lower()} {decision.kind} {job_id}".rstrip()
        case Stop() | Hold() | Unhold():
            return _switched(decision)
        case LeaveChain():
            return "leave"


def _switched(decision: Stop | Hold | Unhold) -> str:
    if not isinstance(decision, Stop):
        return f"{type(decision).__name__.lower()} {' '.join(each.shown_id for each in decision.jobs)}"
    parts = {
        "pending": decision.pending,
        "end": decision.running,
        f"warn {decision.warn_signal}": decision.warn,
        "wait for": decision.waiting,
        "ending": decision.completing,
        "alone": decision.left_alone,
        "unasked": decision.unasked,
    }
    return f"{decision.switch.name}: " + ", ".join(f"{k} {' '.join(v)}" for k, v in parts.items() if v)


def clock(instant: int) -> str:
    text = slot_text(instant)
    day = "" if text[:8] == DAY.replace("-", "") else f"{text[6:8]}th "
    return f"{day}{text[9:11]}:{text[11:13]}"


def planned(w: World) -> list[str]:
    return [said(d) for d in plan(w).decisions]
