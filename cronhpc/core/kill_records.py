"""What kill switches did to jobs: said once for each job, seen through until it is gone, and told from a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cronhpc.core.model import Done, KillRecord, Result, Stop, command
from cronhpc.core.stop import expired, switch_on
from cronhpc.cron.values import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from cronhpc.core.model import Claim, Entry, Job, JobEnd, Outcome, Switch, World

STOPPED_EXIT = 113  # what `cronhpc guard` exits with where a switch ended its command
Row = dict[str, Any]


@dataclass(slots=True)
class Strikes:
    """One tick's part of it. `rows` are for history; `said`: by a switch's path, what it stopped now."""

    kill_records: dict[str, KillRecord] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    said: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, world: World, outcomes: Iterable[Outcome], unfinished: Collection[str]) -> Strikes:
        """`unfinished`: job ids of runs whose end is not recorded yet, with this tick's records."""
        found = cls(dict(world.kept.kill_records))
        for outcome in outcomes:
            if isinstance(outcome.decision, Stop) and outcome.done is Done.OK:
                found._strike(outcome.decision, world.now)
        found._see_through(world, unfinished)
        return found

    def _strike(self, stop: Stop, now: int) -> None:
        """What a switch did to which job is a row once, however often it has to be done."""
        cancelled, warned, switch = (*stop.pending, *stop.running), stop.warn, stop.switch
        new = KillRecord(now, switch.name, switch.by, switch.reason, switch.path)
        fresh = set()
        for each in dict.fromkeys((*cancelled, *warned)):
            known = self.kill_records.get(each, new)
            after = replace(
                known,
                emptied=known.emptied or each in stop.pending,
                warned=known.warned or each in warned,
                cancelled=known.cancelled or each in stop.running,
            )
            if self.kill_records.get(each) != after:
                fresh.add(each)
            self.kill_records[each] = after
        if not fresh:
            return
        words = [job_words(job, now) for job in stop.jobs if job.id in fresh or job.shown in fresh]
        self.rows.append(
            _row(switch.name, switch.by, switch.reason, now)
            | {
                "since": switch.since,
                "jobs": [each for each in dict.fromkeys(cancelled) if each in fresh],
                "warned": [each for each in warned if each in fresh],
                "were": words,
            }
        )
        self.said.setdefault(switch.path, []).extend(words)

    def _see_through(self, world: World, unfinished: Collection[str]) -> None:
        """Whether what was struck is gone; forgotten when its run's end is recorded, too."""
        if world.queue is None:
            return
        live = {name for job in world.queue.jobs if job.live for name in (job.id, job.shown)}
        rows: dict[str, Row] = {}
        for each, known in world.kept.kill_records.items():
            if each in live:
                continue
            if not known.gone:
                row = _row(known.name, known.by, known.reason, world.now) | {"gone": {}}
                rows.setdefault(known.path, row)["gone"][each] = world.now - known.at
            if each in unfinished:
                self.kill_records[each] = replace(self.kill_records[each], gone=True)
            else:
                del self.kill_records[each]
        self.rows.extend(rows.values())


def _row(name: str, by: str, reason: str, now: int) -> Row:
    return {"what": "switch", "switch": name, "by": by, "reason": reason, "at": now}


def job_words(job: Job, now: int) -> str:
    """`4501 running 9h12m on cpu2`, `4502_[3-10] pending`."""
    from cronhpc.cron.duration import format_duration

    words = f"{job.shown} {job.state.lower()}"
    if job.state != "PENDING" and job.start is not None and job.start < now:
        seconds = now - job.start
        words += f" {format_duration(seconds - seconds % 60 if seconds >= 3600 else seconds)}"  # noqa: PLR2004 - an hour
    return f"{words} on {job.nodes}" if job.nodes and job.state != "PENDING" else words


def verdict(world: World, claim: Claim, entry: Entry | None, job_end: JobEnd) -> JobEnd:
    """`ending`, as killed where a switch ended the run: no failure, and not tried again."""
    kill_records = world.kept.kill_records.get(claim.job_id or "")
    if kill_records is not None and (kill_records.warned or job_end.result in {Result.CANCELLED, Result.UNKNOWN}):
        late = job_end.ended is not None and job_end.ended < kill_records.at
        return job_end if late else replace(job_end, result=Result.KILLED, detail=kill_records.said)
    if job_end.result is Result.FAILED and job_end.exit_code == STOPPED_EXIT:
        return replace(job_end, result=Result.KILLED, detail=command("guard") + f" ended it (exit {STOPPED_EXIT})")
    if job_end.result is not Result.CANCELLED:
        return job_end
    switch = _killer(world, claim, entry)  # the tick that cancelled it may have died before it wrote that down
    if switch is None or (job_end.ended is not None and job_end.ended < switch.since):
        return job_end
    return replace(job_end, result=Result.KILLED, detail=switch.said)


def _killer(world: World, claim: Claim, entry: Entry | None) -> Switch | None:
    for switch in world.switches:
        if switch.kind == "kill" and not expired(switch, world.now) and switch.name == claim.job_id:
            return switch
    return switch_on(world, entry, ("kill",)) if entry is not None else None
