"""Which entries and jobs a switch reaches. A switch's name says it; its content is never consulted for that.

`ALL` reaches whatever cronhpc runs from this directory, an entry's name its runs, a job id that job (`57_3`, or the
number that a task knows itself by, that task), a job name every job of the owner so called, and a configured switch
whatever its row under `kill.switches` describes. The chain's own links are reached by their job id alone: without them
nobody would see the switch go.
"""

from __future__ import annotations

from enum import Enum, auto
from fnmatch import fnmatchcase

from cronhpc.core.identity import TWO_LOOKS, is_link, records, unlisted
from cronhpc.core.model import (
    ALL,
    PAUSED,
    UNLISTED,
    Done,
    Hold,
    Job,
    KillRecord,
    Problem,
    Result,
    Stop,
    SwitchKind,
    Unhold,
    command,
    cut_comment,
    entry_id,
    task_list,
    task_ranges,
)
from cronhpc.cron.values import dataclass, field, grouped, nearest, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from cronhpc.core.model import Claim, Decision, Entry, HistoryRow, JobEnd, Outcome, Switch, SwitchSetting, World


_HEARS = frozenset({"RUNNING", "SUSPENDED", "RESIZING", "SIGNALING"})  # states in which a program is there to warn


# --- entries -------------------------------------------------------------------------------------------------------


def switch_on(world: World, entry: Entry, kinds: Iterable[SwitchKind] = SwitchKind) -> Switch | None:
    """The first standing switch that covers `entry`, kill switches first; None where none does.

    A series (no schedule) is not stopped by a pause: its piece is queued, and held.
    """
    if not entry.schedule:
        kinds = (SwitchKind.KILL,)
    for kind in kinds if world.switches.listed else ():
        for switch in world.standing(kind):
            if _covers(world, switch, entry):
                return switch
    return None


def names(switch: Switch, name: str) -> bool:
    """Whether it covers the entry or series of that name by its own."""
    return switch.name in {ALL, name}


def _covers(world: World, switch: Switch, entry: Entry) -> bool:
    if switch.name in {ALL, entry.name, entry.job_name}:
        return True
    setting = _setting(world, switch)
    if setting is None:
        return False
    partition, account = (_option(entry, each) or getattr(entry, each) for each in ("partition", "account"))
    return _matches(setting, entry.job_name, partition, account, entry.chdir)


def _option(entry: Entry, name: str) -> str:
    """As sbatch would take it: the last one counts."""
    given = [option for option in (*(entry.own_options or ()), *entry.options) if option.startswith(f"--{name}=")]
    return given[-1].partition("=")[2] if given else ""


def _setting(world: World, switch: Switch) -> SwitchSetting | None:
    return next((setting for setting in world.settings.switches if setting.name == switch.name), None)


def _matches(setting: SwitchSetting, name: str, partition: str, account: str, workdir: str) -> bool:
    """All that the setting names must fit; a setting that names nothing fits nothing."""
    criteria = [
        (setting.jobs, fnmatchcase(name, setting.jobs)),
        (setting.partition, setting.partition in partition.split(",")),  # a pending job may ask for several
        (setting.account, account == setting.account),
        (setting.workdir, _below(workdir, setting.workdir)),
    ]
    named = [fits for pattern, fits in criteria if pattern]
    return bool(named) and all(named)


def _below(path: str, folder: str) -> bool:
    folder = folder.rstrip("/")
    return path == folder or path.startswith(folder + "/")


# --- jobs ----------------------------------------------------------------------------------------------------------


class Index:
    """The live jobs of the queue, and those that it does not list yet, by all that a switch may call them.

    Empty where the queue is unknown.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.by_id: dict[str, list[Job]] = {}
        self.by_name: dict[str, list[Job]] = {}  # links of any chain are not among these
        self.by_entry: dict[str, list[Job]] = {}
        for job in (*world.listed, *unlisted(world)):
            if job.live:
                self.by_id.setdefault(job.id, []).append(job)
                if job.raw_id:
                    self.by_id.setdefault(job.raw_id, []).append(job)
                if not is_link(world, job):
                    self.by_name.setdefault(job.name, []).append(job)
                    owner = records(world).of(job)
                    if owner is not None:
                        self.by_entry.setdefault(owner.entry, []).append(job)

    def reached(self, switch: Switch) -> tuple[Job, ...]:
        """The jobs that `switch` covers now; of an array of which it names tasks just those."""
        number, of_array, tasks = switch.name.partition("_")
        jobs = self.by_id.get(number, [])
        parts = [_with_tasks(job, task_ranges(tasks), inside=True) for job in jobs] if of_array else jobs
        reached = [job for job in parts if job is not None]
        reached += self.by_name.get(switch.name, ())
        if switch.name == ALL:
            reached += (job for jobs in self.by_entry.values() for job in jobs)
        else:
            reached += self.by_entry.get(entry_id(switch.name), ())
        setting = _setting(self.world, switch)
        if setting is not None:
            reached += (
                job
                for jobs in self.by_name.values()
                for job in jobs
                if _matches(setting, job.name, job.partition, job.account, job.workdir)
            )
        return tuple({job.shown_id: job for job in reached}.values())


def _with_tasks(job: Job, numbers: list[range], *, inside: bool) -> Job | None:
    """The job with those of its tasks that are among `numbers`, or with the others; None where none is left."""
    its_tasks = (task for tasks in task_ranges(job.tasks) for task in tasks)
    chosen = [task for task in its_tasks if any(task in each for each in numbers) is inside]
    return replace(job, tasks=task_list(chosen)) if chosen else None


def task_count(job: Job) -> int:
    """How many tasks of an array a row of the queue stands for; 1 for a job that is none."""
    return sum(map(len, task_ranges(job.tasks))) or 1


def reachable(world: World) -> bool:
    """Whether any job lives that a switch could reach: then a tick must not be far."""
    return any(job.live and not is_link(world, job) for job in world.listed)


def strangers(world: World) -> tuple[str, ...]:
    """Ids of jobs that switches reach and cronhpc did not submit: a scrontab's own may be among them."""
    reached = (job for kind in SwitchKind for _, jobs in _assigned(world, kind) for job in jobs)
    ids = (job.id for job in reached if records(world).of(job) is None and not job.ending)
    return tuple(dict.fromkeys(ids))


# --- what is decided -----------------------------------------------------------------------------------------------


def decide(world: World) -> Iterator[Decision]:
    """What standing switches, and those that went, do to the jobs in the queue."""
    if world.queue is None or not (world.switches.listed or any(j.comment.startswith(PAUSED) for j in world.listed)):
        return
    ending: set[str] = set()
    for switch, jobs in _assigned(world, SwitchKind.KILL):
        yield from _stop(world, switch, jobs)
        ending.update(job.shown_id for job in jobs)
    for switch, jobs in _assigned(world, SwitchKind.PAUSE):
        loose = [j for j in jobs if j.pending and not j.held and j.from_scrontab is False]
        loose = [j for j in loose if j.shown_id not in ending]
        if loose:
            yield Hold(switch, tuple(loose))
    if not world.switches.unknown:
        yield from _unhold(world, ending)


def _assigned(world: World, kind: SwitchKind) -> Iterator[tuple[Switch, list[Job]]]:
    """Each reached job under one switch: of several the one with the shortest grace, then the first."""
    taken: set[str] = set()
    for switch in sorted(world.standing(kind), key=lambda each: _grace(_setting(world, each))):
        jobs = [job for job in world.once(Index).reached(switch) if job.shown_id not in taken]
        taken.update(job.shown_id for job in jobs)
        if jobs:
            yield switch, jobs


def _grace(setting: SwitchSetting | None) -> int:
    return setting.warn_before if setting is not None and setting.warn_signal else 0


class Stage(Enum):
    """How far the end of a job that a kill switch reaches has come."""

    PENDING = auto()
    RUNNING = auto()
    WARN = auto()
    WAITING = auto()  # warned, and its grace has not passed
    COMPLETING = auto()
    SCRONTAB = auto()  # a scrontab's job: left alone
    UNASKED = auto()  # whether it is one is not known


def _stop(world: World, switch: Switch, jobs: list[Job]) -> Iterator[Stop]:
    """Ends first; warnings are a decision of their own, as they must wait until no task of theirs is pending."""
    setting = _setting(world, switch)
    grace = _grace(setting)
    by_id = world.once(Index).by_id
    reached = {of: {job.shown_id for job in rows} for of, rows in grouped(jobs, lambda job: job.id).items()}
    whole = {of for of, ids in reached.items() if ids >= {j.shown_id for j in by_id[of] if j.id == of}}

    def target(job: Job) -> str:
        """An array by its id only where all of it is reached: its tasks may differ in name or partition."""
        return job.id if job.id in whole else job.shown_id

    sorted_out = grouped(jobs, lambda job: _stage(world, job, target(job), grace))

    def ids_at(stage: Stage) -> tuple[str, ...]:
        return tuple(dict.fromkeys(target(j) for j in sorted_out.get(stage, ())))

    def jobs_at(*stages: Stage) -> tuple[Job, ...]:
        return tuple(job for stage in stages for job in sorted_out.get(stage, ()))

    warn_signal, waiting = setting.warn_signal if setting else "", ids_at(Stage.WAITING)
    if sorted_out.keys() != {Stage.WARN}:
        yield Stop(
            switch,
            pending=ids_at(Stage.PENDING),
            running=ids_at(Stage.RUNNING),
            warn_signal=warn_signal,
            grace=grace,
            completing=tuple(f"{j.shown_id} on {j.nodes}" for j in jobs_at(Stage.COMPLETING)),
            left_alone=tuple(j.shown_id for j in jobs_at(Stage.SCRONTAB)),
            waiting=waiting,
            end_at=min((world.kept.warned[each] + grace for each in waiting), default=None),
            unasked=tuple(j.shown_id for j in jobs_at(Stage.UNASKED)),
            jobs=jobs_at(Stage.RUNNING, Stage.PENDING),
        )
    if Stage.WARN in sorted_out:
        yield Stop(switch, (), (), warn_signal, grace, warn=ids_at(Stage.WARN), jobs=jobs_at(Stage.WARN))


def _stage(world: World, job: Job, target: str, grace: int) -> Stage:
    """How far the end of a reached job has come."""
    if job.ending:
        return Stage.COMPLETING
    if job.from_scrontab is not False:
        return Stage.SCRONTAB if job.from_scrontab else Stage.UNASKED
    if job.pending or (grace and job.state == UNLISTED):  # one that runs is warned when it is listed
        return Stage.PENDING
    if not grace or job.state not in _HEARS:
        return Stage.RUNNING
    warned = world.kept.warned.get(target)
    if warned is None or warned > world.now:  # by a clock that was ahead
        return Stage.WARN
    return Stage.WAITING if world.now < warned + grace else Stage.RUNNING


def _unhold(world: World, ending: set[str]) -> Iterator[Unhold]:
    """Those with our pause tag that no pause covers any more. Another cron directory's tags are its own."""
    tag = f"{PAUSED}{world.directory_id}"
    by_id = world.once(Index).by_id
    tagged = [j for of, jobs in by_id.items() for j in jobs if j.comment.partition(" ")[0] == tag and j.id == of]
    if not tagged:
        return
    paused = grouped((job for _, jobs in _assigned(world, SwitchKind.PAUSE) for job in jobs), lambda job: job.id)
    gone = [_without(job, paused.get(job.id, [])) for job in tagged if job.shown_id not in ending]
    loose = tuple(job for job in gone if job is not None)
    if loose:
        yield Unhold(loose)


def _without(job: Job, parts: list[Job]) -> Job | None:
    """`job` less `parts` of it; None where nothing is left."""
    if any(part.shown_id == job.shown_id for part in parts):
        return None
    numbers = [each for part in parts for each in task_ranges(part.tasks)]
    return _with_tasks(job, numbers, inside=False) if numbers else job


# --- the tag of a pause -----------------------------------------------------------------------------------------------
#
# It stands before the comment of a task that a pause switch holds; its own comment comes back.


def with_pause_tag(world: World, job: Job) -> str:
    """The comment of a task that we hold: the pause tag, then its own as far as there is room."""
    return cut_comment(f"{PAUSED}{world.directory_id} {whole_comment(world, job)}")


def whole_comment(world: World, job: Job) -> str:
    """Its own comment, the part included that a pause tag left no room for."""
    kept = world.kept.comments.get(job.id, "")
    return kept if job.comment.startswith(PAUSED) and kept.startswith(job.own_comment) else job.own_comment


# --- what kill switches did to jobs -----------------------------------------------------------------------------------
#
# Said once for each job, seen through until it is gone, and told from a failure.


STOPPED_EXIT = 113  # what `cronhpc guard` exits with where a switch ended its command


@dataclass(slots=True)
class KillRecords:
    """One tick's part of it. `rows` are for history; `stopped`: by a switch's path, the jobs that it stopped now."""

    kill_records: dict[str, KillRecord] = field(default_factory=dict)
    rows: list[HistoryRow] = field(default_factory=list)
    stopped: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, world: World, outcomes: Iterable[Outcome], unfinished: Collection[str]) -> KillRecords:
        """`unfinished`: job ids of runs whose end is not recorded yet, with this tick's records."""
        kills = cls(dict(world.kept.kill_records))
        for outcome in outcomes:
            if isinstance(outcome.decision, Stop) and outcome.done is Done.OK:
                kills._note(outcome.decision, world.now)
        kills._see_through(world, unfinished)
        return kills

    def _note(self, stop: Stop, now: int) -> None:
        """What a switch did to which job is a row once, however often it has to be done."""
        cancelled, warned, switch = (*stop.pending, *stop.running), stop.warn, stop.switch
        first = KillRecord(now, switch.name, switch.by, switch.reason, switch.path)
        changed = set()
        for job_id in dict.fromkeys((*cancelled, *warned)):
            before = self.kill_records.get(job_id, first)
            after = replace(
                before,
                emptied=before.emptied or job_id in stop.pending,
                warned=before.warned or job_id in warned,
                cancelled=before.cancelled or job_id in stop.running,
            )
            if self.kill_records.get(job_id) != after:
                changed.add(job_id)
            self.kill_records[job_id] = after
        if not changed:
            return
        words = [job_words(job, now) for job in stop.jobs if job.id in changed or job.shown_id in changed]
        self.rows.append(
            _history_row(switch.name, switch.by, switch.reason, now)
            | {
                "since": switch.since,
                "jobs": [job_id for job_id in dict.fromkeys(cancelled) if job_id in changed],
                "warned": [job_id for job_id in warned if job_id in changed],
                "were": words,
            }
        )
        self.stopped.setdefault(switch.path, []).extend(words)

    def _see_through(self, world: World, unfinished: Collection[str]) -> None:
        """Whether what was stopped is gone; forgotten when its run's end is recorded, too."""
        if world.queue is None:
            return
        live = {name for job in world.queue.jobs if job.live for name in (job.id, job.shown_id)}
        rows: dict[str, HistoryRow] = {}
        for job_id, record in world.kept.kill_records.items():
            may_run = record.waited and job_id in unfinished
            if job_id in live or (may_run and job_id not in world.jobs() and world.now - record.at < TWO_LOOKS):
                continue  # one that was not listed yet was ended only if it waited
            if not record.gone:
                row = _history_row(record.name, record.by, record.reason, world.now) | {"gone": {}}
                rows.setdefault(record.path, row)["gone"][job_id] = world.now - record.at
            if job_id in unfinished:
                self.kill_records[job_id] = replace(self.kill_records[job_id], gone=True)
            else:
                del self.kill_records[job_id]
        self.rows.extend(rows.values())


def _history_row(name: str, by: str, reason: str, now: int) -> HistoryRow:
    return {"what": "switch", "switch": name, "by": by, "reason": reason, "at": now}


def job_words(job: Job, now: int) -> str:
    """`4501 running 9h12m on cpu2`, `4502_[3-10] pending`."""
    from cronhpc.cron.duration import format_duration

    words = f"{job.shown_id} {job.state.lower()}"
    if not job.pending and job.start is not None and job.start < now:
        seconds = now - job.start
        words += f" {format_duration(seconds - seconds % 60 if seconds >= 3600 else seconds)}"  # noqa: PLR2004 - an hour
    return f"{words} on {job.nodes}" if job.nodes and not job.pending else words


_OF_A_CANCEL = (9, 15)  # SIGKILL, SIGTERM: what a cancelled job gets


def verdict(world: World, claim: Claim, entry: Entry | None, job_end: JobEnd) -> JobEnd:
    """`job_end`, as killed where a switch ended the run: no failure, and not tried again."""
    record = world.kept.kill_records.get(claim.job_id or "")
    # a run that wrote down its own end knows of the signal alone
    ended_by_us = job_end.result in {Result.CANCELLED, Result.UNKNOWN} or job_end.signal in _OF_A_CANCEL
    if record is not None and (record.warned or ended_by_us):
        late = job_end.ended is not None and job_end.ended < record.at
        return job_end if late else replace(job_end, result=Result.KILLED, detail=record.in_words)
    if job_end.result is Result.FAILED and job_end.exit_code == STOPPED_EXIT:
        return replace(job_end, result=Result.KILLED, detail=command("guard") + f" ended it (exit {STOPPED_EXIT})")
    if job_end.result is not Result.CANCELLED:
        return job_end
    switch = _killer(world, claim, entry)  # the tick that cancelled it may have died before it wrote that down
    if switch is None or (job_end.ended is not None and job_end.ended < switch.since):
        return job_end
    return replace(job_end, result=Result.KILLED, detail=switch.in_words)


def _killer(world: World, claim: Claim, entry: Entry | None) -> Switch | None:
    for switch in world.standing(SwitchKind.KILL):
        if switch.name == claim.job_id:
            return switch
    return switch_on(world, entry, (SwitchKind.KILL,)) if entry is not None else None


# --- names that nothing has -------------------------------------------------------------------------------------------
#
# A slip of the pen, or a job that is still to come.


_NEAREST = 20  # names for which a nearest one is looked for, among so many …
_CANDIDATES = 2000  # … names


def unmatched(world: World) -> list[Problem]:
    """One problem a switch, with the nearest name; none where the queue is unknown. It acts once something has it.

    In a folder of kill.also names may be those of teammates' entries.
    """
    if world.queue is None:
        return []
    index = world.once(Index)
    called = {ALL, *(row.name for row in world.settings.switches)}
    for entry in world.entries_by_id().values():
        called |= {entry.name, entry.job_name}
    shared = tuple(f"{each.rstrip('/').removeprefix('~')}/" for each in world.settings.kill_also)
    acted = {record.path for record in world.kept.kill_records.values()}
    lost = [
        s
        for s in world.switches.listed
        if not (
            s.expired(world.now) or s.name in called or s.path in acted or s.path.removesuffix(s.name).endswith(shared)
        )
        and not index.reached(s)
    ]
    candidates = sorted((called | index.by_name.keys()) - {""})[:_CANDIDATES] if lost else []
    return [_nameless(switch, candidates if place < _NEAREST else []) for place, switch in enumerate(lost)]


def alike(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that a misspelt name may mean: as its log folder is called, in other letters, the nearest."""
    candidates = list(candidates)
    same = [each for each in candidates if entry_id(each) == name or each.casefold() == name.casefold()]
    return same[0] if same else nearest(name, candidates, 0.5)


def matching(world: World, pattern: str) -> tuple[str, ...]:
    """The names that `train*` means now: entries, series, and jobs in the queue that are no runs of theirs."""
    of_entries = [entry.name for entry in world.entries_by_id().values()]
    called = {name for entry in world.entries_by_id().values() for name in (entry.name, entry.job_name)}
    of_jobs = [name for name in world.once(Index).by_name if name not in called]
    return tuple(dict.fromkeys(name for name in (*of_entries, *sorted(of_jobs)) if fnmatchcase(name, pattern)))


def is_pattern(name: str) -> bool:
    """Whether it is to be compared with names: the brackets of an array's tasks (57_[1-3]) are none of a pattern."""
    return any(char in name for char in "*?[") and not is_job_id(name)


def is_job_id(name: str) -> bool:
    """`57`, or tasks of an array: `57_3`."""
    return name.partition("_")[0].isdecimal()


def _nameless(switch: Switch, candidates: list[str]) -> Problem:
    near = alike(switch.name, candidates)
    what = f"nothing is called {switch.printable}{f'; nearest: {near}' if near else ''}."
    if is_job_id(switch.name):
        what = f"no job {switch.printable} is in the queue."
    fix = "It acts as soon as there is one."
    if switch.name.isprintable():
        fix = fix + " To remove it: " + command(switch.kind.undo, switch.name)
    return Problem("W504", what, fix, switch.title)
