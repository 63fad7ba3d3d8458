"""`cronhpc again`: queue the next piece of the job that this runs in, exactly once, whatever happens.

It is a tick over a world of one series: the same claims, the same two phases, the same record (tick.py). Without a cron
directory that world lies under `$XDG_STATE_HOME/cronhpc`.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.batch import around
from cronhpc.batch.port import BatchError, Unreachable
from cronhpc.core import attempts, pieces, stop
from cronhpc.core.identity import records
from cronhpc.core.model import (
    Call,
    ClaimState,
    CronhpcError,
    Done,
    Finish,
    Job,
    Key,
    Plan,
    Queue,
    Reason,
    Release,
    Rules,
    Settings,
    Submit,
    SwitchKind,
    World,
    entry_id,
    log_name,
    token,
)
from cronhpc.cron.values import dataclass, replace
from cronhpc.engine.act import run_pass
from cronhpc.engine.read import Reading, asked_about_doubtful, with_job_ends, with_jobs, with_switches
from cronhpc.engine.read_series import ran_of, read_series, series_of
from cronhpc.engine.site import Site, by_its_disks_clock, directory_id, must_be_safe, site_here
from cronhpc.script.dialect import option_text
from cronhpc.script.sbatch_options import megabytes, time_limit
from cronhpc.script.spelling import directive
from cronhpc.store import lease, series_records, trust, wrappers
from cronhpc.store import memory as store_memory
from cronhpc.store.entries import read_script
from cronhpc.store.files import DirectoryError, Paths, existing, is_listed, own_folder, read_bytes, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cronhpc.core.model import Decision, Outcome
    from cronhpc.script.header import Header


# --- a piece's options ------------------------------------------------------------------------------------------------

NOT_KEPT = ("signal", "export", "open-mode")  # Slurm does not tell them of a running job
_ANY = frozenset({"", "(null)", "N/A", "0"})
_FROM_SLURM = (  # sbatch option, the field of `scontrol show job`, further values that mean nothing was asked
    ("partition", "Partition", ()),
    ("account", "Account", ()),
    ("qos", "QOS", ("normal",)),
    ("reservation", "Reservation", ()),
    ("time", "TimeLimit", ("UNLIMITED", "Partition_Limit")),
    ("nodes", "NumNodes", ("1",)),
    ("ntasks", "NumTasks", ("1",)),
    ("ntasks-per-node", "NtasksPerN:B:S:C", ()),
    ("cpus-per-task", "CPUs/Task", ("1",)),
    ("mem", "MinMemoryNode", ()),
    ("mem-per-cpu", "MinMemoryCPU", ()),
    ("gres", "TresPerNode", ()),
    ("gpus", "TresPerJob", ()),
    ("gpus-per-task", "TresPerTask", ()),
    ("gpus-per-socket", "TresPerSocket", ()),
    ("tmp", "MinTmpDiskNode", ()),
    ("constraint", "Features", ()),
    ("nodelist", "ReqNodeList", ()),
    ("exclude", "ExcNodeList", ()),
    ("exclusive", "OverSubscribe", ("OK", "YES")),
    ("licenses", "Licenses", ()),
    ("wckey", "WCKey", ()),
    ("nice", "Nice", ()),
    ("mail-user", "MailUser", ()),
    ("mail-type", "MailType", ("NONE",)),
)
_FAMILIES = (  # one thing under several names
    frozenset({"mem", "mem-per-cpu", "mem-per-gpu"}),
    frozenset({"gres", "gpus-per-node"}),
    frozenset({"gpus-per-task", "tres-per-task", "ntasks-per-gpu"}),
)


def tells(job: Mapping[str, str]) -> bool:
    """Whether a job's own facts hold what it asked for."""
    return any(field in job for _, field, _ in _FROM_SLURM)


def told_by_slurm(job: Mapping[str, str], own: Mapping[str, str | None]) -> dict[str, str | None]:
    """Options of the first command line, as far as `scontrol show job` tells.

    What the script says as well (`own`: its options) is among them only where the command line said otherwise.
    """
    options: dict[str, str | None] = {}
    for option, field, nothing in _FROM_SLURM:
        value = _asked(option, _exclusive(job) if option == "exclusive" else job.get(field, ""))
        if value in _ANY or value in nothing or (option == "ntasks" and _one_each(value, job)):
            continue
        in_script = _family(option) & own.keys()
        if not in_script:
            options[option] = None if option == "exclusive" and value == "NO" else value
        elif option in in_script and _differ(option, value, own[option] or ""):
            options[option] = value
    return options


def _asked(option: str, value: str) -> str:
    """A field of Slurm's as sbatch takes it."""
    if option in {"nodes", "ntasks-per-node"}:  # 2-2; 4:0:*:1
        return value.partition("-")[0].partition(":")[0]
    if option.startswith(("gres", "gpus")):
        items = [item.removeprefix("gres:").removeprefix("gres/") for item in value.split(",")]
        if option == "gres":
            return ",".join(items).replace("=", ":")  # 22.05 takes no gpu=2
        counts = [item.removeprefix("gpu").lstrip(":=") for item in items if item.startswith("gpu")]
        return ",".join(counts)
    return value.lower() if option == "exclusive" and value in {"USER", "MCS", "TOPO"} else value


def _exclusive(job: Mapping[str, str]) -> str:
    """--exclusive as Slurm tells it: by a field of its own from 26.05 on, where OverSubscribe says NO of any job."""
    own = job.get("Exclusive")
    if own is None:
        return job.get("OverSubscribe", "")
    return {"NO": "", "NODE": "NO"}.get(own, own)


def _one_each(tasks: str, job: Mapping[str, str]) -> bool:
    """Whether so many tasks follow from the nodes: fixed, they would stand in the way of other numbers of nodes."""
    nodes, each = (_asked(name, job.get(field, "")) for name, field, _ in _FROM_SLURM if name in _PER_NODE)
    return nodes.isdecimal() and tasks == str(int(nodes) * max(1, int(each) if each.isdecimal() else 1))


_PER_NODE = ("nodes", "ntasks-per-node")


def _differ(option: str, by_slurm: str, by_script: str) -> bool:
    """Whether the command line asked for something else than the script; a mere spelling is no matter."""
    if option == "exclusive":
        return False
    if option == "time":
        return _minutes(by_slurm) != _minutes(by_script)
    if option == "partition":  # of several the one that it runs in is shown
        return by_slurm not in by_script.split(",")
    if option == "nodes":
        low, _, high = by_script.partition("-")
        return not (_number(low) <= _number(by_slurm) <= _number(high or low))
    if option in {"mem", "mem-per-cpu", "tmp"}:
        return megabytes(by_slurm) != megabytes(by_script)
    if option.startswith(("gres", "gpus")):
        return _items(by_slurm) != _items(_asked(option, by_script) or by_script)
    return by_slurm.casefold() != by_script.strip().strip("\"'").casefold()


def _minutes(text: str) -> float:
    try:
        seconds = time_limit(text)
    except ValueError:
        return -1
    return float("inf") if seconds is None else -(-seconds // 60)


def _number(text: str) -> int:
    return int(text) if text.strip().isdecimal() else 0


def _items(text: str) -> frozenset[str]:
    """`gpu`, `gpu:1`, `gpu=1` are the same."""
    items = (item.strip().replace("=", ":") for item in text.split(","))
    return frozenset(item if item.rpartition(":")[2].isdecimal() else f"{item}:1" for item in items)


def _family(option: str) -> frozenset[str]:
    return next((family for family in _FAMILIES if option in family), frozenset({option}))


def log_pattern(path: str, by_script: str | None, job: Mapping[str, str]) -> str:
    """What --output (or --error) the command line gave, from the `path` that Slurm shows; "" where it gave none.

    `by_script`: what the script says; with more in it than %j, %A and %x it cannot be compared, and stands.
    """
    job_id, workdir = job.get("JobId", ""), job.get("WorkDir", "")
    own = log_name(by_script or "slurm-%j.out", _letters(job))
    if path in _ANY or "%" in own or path == (own if own.startswith("/") else f"{workdir}/{own}"):
        return ""
    folder, slash, name = path.rpartition("/")
    return folder + slash + re.sub(rf"(?<!\d){re.escape(job_id)}(?!\d)", "%j", name)


def log_path(job: Mapping[str, str]) -> str:
    """Where the job's output goes; some versions of Slurm show the pattern."""
    path = log_name(job.get("StdOut", ""), _letters(job))
    return "" if path in _ANY else path


def _letters(job: Mapping[str, str]) -> dict[str, str]:
    number = job.get("JobId", "")
    return {"j": number, "A": number, "x": job.get("JobName", "")}


def merged(
    script: Sequence[tuple[str, str | None]],
    kept: Sequence[str],
    given: Sequence[str],
    overruled: Mapping[str, str | None] | None = None,
) -> tuple[str, ...]:
    """The next piece's options, the last one counts: the script's, those kept of the first, those given to `again`.

    `overruled`: what the script said where the first command line said otherwise. An edit of it there counts again.
    """
    says = dict(script)
    named = {name_of(option) for option in given}
    over = frozenset[str]().union(*map(_family, named))  # sbatch takes no --mem beside --mem-per-cpu
    own = [option_text(name, value) for name, value in script if name in named or name not in over]
    before, after = [], []
    for option in kept:
        name = name_of(option)
        if name in over:
            continue
        if overruled and name in overruled:
            if says.get(name, "") == overruled[name]:
                after.append(option)
        elif not _family(name) & says.keys():
            before.append(option)
    return (*before, *own, *after, *given)


def name_of(option: str) -> str:
    """`time` of `--time=60`."""
    return option.partition("=")[0].removeprefix("--")


ENDED = 113  # as `cronhpc guard`: a switch or a rule of its own has ended this work
_TIMEOUT = 20.0
_KEPT_ENDS = 10
_HEADER = 1 << 20
_LONGEST = 40 * 86400  # seconds that a piece may have run


@dataclass(frozen=True, slots=True)
class Asked:
    """The command line of `again`. `rules` with what ends it; `options` for sbatch; `arguments` of the script."""

    rules: Rules
    name: str = ""
    options: tuple[str, ...] = ()
    arguments: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """`code`: 0 go on, ENDED: this piece should end. `lines` for the job's log."""

    code: int
    lines: tuple[str, ...]
    job_id: str = ""


class NoSeries(CronhpcError):
    """This job cannot queue another piece; its payload goes on all the same."""


def again(site: Site, asked: Asked, now: int, job_id: str) -> Answer:
    """Queue the next piece, or say why there is none. Raises NoSeries, BatchError, StateError, OSError."""
    site = by_its_disks_clock(site, now)
    details = {"JobId": job_id, **site.batch.describe(job_id)}
    with lease.held(site.paths.state / "lease", lease.myself(site.host, job_id, ""), seconds=_TIMEOUT):
        queueing = _Again(site, asked, now, job_id, details)
        try:
            return queueing.run()
        except (CronhpcError, OSError) as error:
            queueing.note_trouble(error)
            raise


class _Again:
    def __init__(self, site: Site, asked: Asked, now: int, job_id: str, details: Mapping[str, str]) -> None:
        self.site = site
        self.asked = asked
        self.now = now
        self.job_id, self.details = job_id, details  # the piece that this runs in
        self.lines: list[str] = []
        self.memory = store_memory.load(site.paths.entries)
        self.jobs = self._jobs()
        own = next(iter(self.jobs.jobs().get(self.job_id, ())), None)
        owner = records(self.jobs).of(own) if own is not None else None
        self.key = owner.key if owner is not None else None  # None: it was not queued by us
        names = (each.entry.name for each in self.jobs.series if owner and entry_id(each.entry.name) == owner.entry)
        self.name = asked.name or next(names, "") or details.get("JobName", "")
        self.record = self._record(series_records.load(site.paths.state, self.name))

    def run(self) -> Answer:
        """Finish what has ended, then end, or queue the next piece."""
        if self.key is None and self.record.seen != self.job_id and self._going():
            return Answer(0, (f"series {self.name} is going on already: this start of it queues nothing",))
        self._refresh()
        self.world = self._world()
        budget = attempts.Budget.of(self.world)
        self.decisions = [d for each in attempts.decide(self.world) for d in budget.granted([each])]
        key = self._next_key()
        if reason := self._ended():
            return self._end(reason)
        last = pieces.last(self.asked.rules, next_at=key.slot, runs=self.record.runs)
        self.record = replace(self.record, no_next=last and f"last piece: {last}")
        decisions = [*self.decisions, *([] if last else self._submit(key))]
        series_records.save(self.site.paths.state, self.record)
        return self._answer(self._carry_out(decisions), key, last)

    def note_trouble(self, error: Exception) -> None:
        """For `status`: the series ends against its rules, unless another try goes through."""
        if self.record.seen == self.job_id:  # else it is no piece of it
            self.record = replace(self.record, trouble=str(error))
            with suppress(OSError):
                series_records.save(self.site.paths.state, self.record)

    # --- what is known of this series

    def _record(self, record: series_records.Record | None) -> series_records.Record:
        script, workdir = _script_of(
            self.details, record if self.key else None, wrappers.run_path(self.site.paths.state)
        )
        refused = trust.trust_of(self.site.paths, self.site.settings, self.site.uid).refusal(Path(script))
        if refused is not None:
            raise NoSeries(f"the next piece would read a script that is not trusted: {refused.what} " + refused.fix)
        if record is not None and record.script != script and self._going():
            raise NoSeries(
                f"another series called {self.name!r} is going on ({record.script}). Give this one a name: --name NAME"
            )
        if record is None or record.script != script:
            return series_records.Record(self.name, script, workdir)
        return record

    def _refresh(self) -> None:
        """What this piece, the script as it is now and the command line say."""
        record, asked, details = self.record, self.asked, self.details
        header = self._header(record.script)
        if record.seen != self.job_id:  # a requeued piece is no further run
            record = self._begun(header) if self.key is None else record
            log = log_path(details)
            logs = (*record.logs, (self.job_id, log))[-_KEPT_ENDS:] if log else record.logs
            record = replace(record, runs=record.runs + 1, seen=self.job_id, at=self.now, next_slot=0, logs=logs)
            self.record = record
        own = [(o.name, o.value) for o in header.options if o.name not in _OURS]
        self.record = replace(
            record,
            arguments=record.arguments if asked.arguments is None else tuple(asked.arguments),
            trouble="",
            given=tuple(asked.options),
            rules=asked.rules,
            unknown_rules=(),
            workdir=details.get("WorkDir", record.workdir),
            job_name=details.get("JobName", self.name),
            comment=header.value("comment") or "",
            submitted=tuple(merged(own, record.options, asked.options, record.overruled)),
        )

    def _begun(self, header: Header) -> series_records.Record:
        """Started by hand: a new series, which keeps what its command line asked for."""
        if header.value("array") is not None or self.details.get("ArrayJobId"):
            line = directive(self.site.batch.dialect, "array", "1-10%1")
            raise NoSeries(f"an array cannot queue itself: write {line}, whose tasks follow each other")
        if self.details.get("HetJobId") or any(option.component for option in header.options):
            raise NoSeries("a job of several components (hetjob) cannot queue itself")
        own = {option.name: option.value for option in header.options}
        given = {**told_by_slurm(self.details, own), **self._logs_of_command_line(own)}
        record = replace(
            self.record,
            runs=0,
            ran=(),
            first=self.job_id,
            arguments=(),
            logs=(),
            options=tuple(option_text(name, value) for name, value in given.items()),
            overruled={name: own[name] or "" for name in given if name in own},
        )
        lost = [f"--{name}" for name in NOT_KEPT if name not in {*own, *given}]
        lacking = f"; not to be had from {self.site.batch.dialect.title}: {', '.join(lost)}" if lost else ""
        if not tells(self.details):
            lacking = f", as {self.site.batch.dialect.title} does not tell it: write options into the script"
        kept = shlex.join(record.options) or "nothing that the script does not say itself"
        self.lines.append(f"kept of the command line: {kept}{lacking}")
        return record

    def _logs_of_command_line(self, own: Mapping[str, str | None]) -> dict[str, str]:
        """Where the command line sends the log; later pieces go on in it, as nobody knows what it said of that."""
        job, options = self.details, {}
        out, err = job.get("StdOut", ""), job.get("StdErr", "")
        for option, path in (("output", out), ("error", err if err != out else "")):
            pattern = log_pattern(path, own.get(option), job)
            if pattern:
                options[option] = pattern
        if options and "open-mode" not in own:
            options["open-mode"] = "append"
        return options

    def _header(self, script: str) -> Header:
        from cronhpc.script.header import read_header

        name = os.path.basename(script)  # noqa: PTH119 - a text
        return read_header(read_script(script, _HEADER), name, self.site.batch.dialect)

    def _going(self) -> bool:
        """Whether another piece of this series is in the queue."""
        return any(job.live and job.id != self.job_id for job in self._mine())

    def _mine(self) -> list[Job]:
        """The jobs of this series in the queue, but for the one that a person started."""
        mine, owners = entry_id(self.name), records(self.jobs)
        return [job for job in self.jobs.listed if (key := owners.key(job)) is not None and key.entry == mine]

    def _jobs(self) -> World:
        """The queue, and what tells whose the jobs in it are: every series and claim."""
        site = self.site
        world = World(
            now=self.now,
            directory_id=directory_id(site.paths),
            settings=site.settings,
            series=read_series(site.paths.state, site.batch.dialect.job)[0],
            states=self.memory.entries,
            kept=self.memory.scheduler,
            dialect=site.batch.dialect,
        )
        world, _ = with_jobs(site.paths, site.batch, world)  # a tick tells what is wrong with claims
        if world.queue is None:
            raise Unreachable(world.queue_error)
        return asked_about_doubtful(site.batch, world)

    def _world(self) -> World:
        """This series alone, as it is by now, and how its pieces have ended.

        Without the jobs of others: one that is held, and whose claim is not here, would be cancelled as left over.
        """
        mine, owners = entry_id(self.name), records(self.jobs)
        claims = tuple(claim for claim in self.jobs.claims if claim.key.entry == mine)
        listed = tuple(job for job in self.jobs.listed if (key := owners.key(job)) is None or key.entry == mine)
        world = replace(
            self.jobs,
            queue=Queue(listed),
            series=(series_of(self.site.paths.state, self.jobs.dialect.job, self.record),),
            claims=claims,
            call=Call(only=mine),
        )
        world = attempts.recognised(with_switches(self.site, world))
        return with_job_ends(self.site.paths, self.site.batch, world)

    # --- whether, and when

    def _next_key(self) -> Key:
        """The same however often this piece asks: a requeue, or a second copy of it, finds the claim."""
        if not self.record.next_slot:
            own = self.key.slot if self.key is not None else 0
            self.record = replace(self.record, next_slot=pieces.next_slot(self.asked.rules, own, self.now))
        return Key(entry_id(self.name), self.record.next_slot)

    def _ended(self) -> str:
        switch = stop.switch_on(self.world, self.world.series[0].entry)
        if switch is not None:
            return f"kill switch {switch.name} (by {switch.by}{': ' + switch.reason if switch.reason else ''})"
        self._ask_for_first()
        until = bool(self.asked.rules.until) and is_listed(Path(self.asked.rules.until))
        ran = ran_of(self.record) + self._ends(self.decisions)  # those included that nobody has finished yet
        return pieces.ended(self.asked.rules, until_exists=until, now=self.now, ran=ran)

    def _ask_for_first(self) -> None:
        """How the piece ended that a person started: no claim knows it. Where nobody tells, the next piece asks."""
        first = self.record.first
        known = {"", self.job_id, *(job for job, *_ in self.record.ran)}
        if first in known or self.record.runs > _KEPT_ENDS:
            return
        with suppress(BatchError):
            if job_end := self.site.batch.job_ends([first], self.now - _LONGEST).by_id.get(first):
                self.record = replace(self.record, ran=(pieces.Ran.of(first, job_end), *self.record.ran))

    def _ends(self, decisions: Iterable[Decision]) -> list[pieces.Ran]:
        """The pieces that these finish, oldest first."""
        jobs = {claim.key: claim.job_id or "" for claim in self.world.claims}
        return [pieces.Ran.of(jobs.get(d.key, ""), d.job_end) for d in decisions if isinstance(d, Finish)]

    def _submit(self, key: Key) -> list[Submit]:
        """The next piece, unless one waits already: of two started copies only one queues it."""
        waiting = {job.id for job in self.world.listed if job.pending}
        for claim in self.world.claims:
            if claim.key == key or (claim.state is not ClaimState.FINISHED and claim.job_id in waiting):
                queued = f"job {claim.job_id}" if claim.job_id else str(key)
                self.lines.append(f"the next piece of {self.name} is queued already: {queued}")
                return []
        begin = None if self.asked.rules.after else key.slot
        return [Submit(self.world.series[0].entry, key, Reason.SUBMIT, begin=begin)]

    # --- doing it

    def _carry_out(self, decisions: Iterable[Decision]) -> tuple[Outcome, ...]:
        plan = Plan(tuple(decisions), self.now)
        outcomes, recorded, _ = run_pass(self.site, Reading(self.world, self.memory), plan)
        self.lines += map(str, recorded.problems)
        ended = self._ends(outcome.decision for outcome in outcomes if outcome.done is Done.OK)
        self.record = replace(self.record, ran=(*self.record.ran, *ended)[-_KEPT_ENDS:])
        series_records.save(self.site.paths.state, self.record)
        return outcomes

    def _end(self, reason: str) -> Answer:
        """It ends here: nothing is queued, and a piece that was is cancelled."""
        self.record = replace(self.record, no_next=reason)
        waiting = [job.id for job in self._mine() if job.pending]
        self._carry_out([d for d in self.decisions if isinstance(d, Finish)])
        if waiting:
            self.site.batch.cancel(waiting, pending_only=True)
        return Answer(ENDED, (*self.lines, f"series {self.name} ends: {reason}; nothing is queued"))

    def _answer(self, outcomes: Sequence[Outcome], key: Key, last: str) -> Answer:
        if last:
            return Answer(0, (*self.lines, f"this is the last piece of {self.name}: {last}"))
        for outcome in outcomes:
            if isinstance(outcome.decision, Submit | Release) and outcome.decision.key == key:
                if outcome.done is Done.OK:
                    self._pause(key, outcome.job_id or "")
                    line = f"next piece of {self.name}: job {outcome.job_id} ({pieces.words(self.asked.rules)})"
                    return Answer(0, (*self.lines, line), outcome.job_id or "")
                error = NoSeries(f"the next piece of {self.name} is not queued: " + (outcome.cause or outcome.detail))
                error.passing = outcome.done is Done.PASSING
                raise error
        return Answer(0, tuple(self.lines))

    def _pause(self, key: Key, job_id: str) -> None:
        """A pause switch holds the piece that was just queued; its place in the queue stays."""
        for switch in self.world.standing(SwitchKind.PAUSE):
            if stop.names(switch, self.name):
                comment = self.record.comment or token(self.world.directory_id, str(key))
                self.site.batch.hold([job_id], stop.with_pause_tag(self.world, Job(job_id, "PENDING", comment=comment)))
                self.lines.append(f"pause switch {switch.name} (by {switch.by}): job {job_id} is held")
                return


_OURS = frozenset({"job-name", "chdir", "comment", "hold", "wait", "array", "begin", "dependency"})


def _script_of(job: Mapping[str, str], series: series_records.Record | None, wrapper: Path) -> tuple[str, str]:
    """The script's real path (of `wrapper` the one that it runs), and its working folder. Raises NoSeries.

    `series`: the one of which `job` was queued as a piece.
    """
    workdir = job.get("WorkDir", "/")
    if series is not None:
        return series.script, workdir
    command = job.get("Command", "")
    if job.get("BatchFlag") == "0":
        raise NoSeries("this is no batch job: there is no script to run again. Submit a script.")
    if not command or command == "(null)":
        raise NoSeries(
            "this job was submitted from --wrap or stdin: there is no script to run again. Put it in a file."
        )
    path = Path(workdir, command.removeprefix(f"{wrapper} "))
    words = str(path).split(" ")
    while words:  # Slurm prints the arguments behind the path, unquoted
        if os.path.isfile(" ".join(words)):  # noqa: PTH113 - a text
            return " ".join(words), workdir
        words.pop()
    raise NoSeries(f"{command} is not there any more. Put the script back, then submit it once more.")


# --- where series are kept --------------------------------------------------------------------------------------------


def open_series_site(dir_option: str | None, backend: str | None, environ: Mapping[str, str]) -> Site:
    """The site that `again` works on; its pieces get this job's environment, as sbatch in a script would give it.

    A cron directory that was named (--dir, $CRONHPC_DIR) must be there: with its records out of sight a second piece
    might be queued. Raises DirectoryError, SettingsError, OSError; CronhpcError on a batch system that has no series.
    """
    from cronhpc.store.settings import read_settings

    paths = _paths(dir_option, environ)
    must_be_safe(paths)
    plain = not os.path.lexists(paths.settings) or read_bytes(paths.settings) == _SETTINGS  # then YAML is not loaded
    settings = Settings() if plain else read_settings(paths.settings)
    # the job's own system, and not another one because a module has taken its commands from PATH
    of_job = around(environ)
    if of_job and not backend and settings.backend not in {"", of_job.name}:
        what = f"this is a job of {of_job.title}, and {paths.root} is for backend: {settings.backend}"
        raise CronhpcError(f"{what}. Name a directory of this cluster's own: again --dir DIR, or export CRONHPC_DIR.")
    backend = backend or settings.backend or (of_job.name if of_job else "")
    site = site_here(paths, settings, backend, environ, store_memory.Cache(paths.state))
    if why := site.batch.dialect.no_again:
        raise CronhpcError(f"again is not here for {site.batch.dialect.title}: {why}. Nothing was submitted.")
    return site


_SETTINGS = b"""\
# Made by `cronhpc again`: here are the records of series that were started without a cron directory.
# `cronhpc status` and the like find it where there is no cron directory; else: cronhpc status --dir FOLDER
"""


def _paths(dir_option: str | None, environ: Mapping[str, str]) -> Paths:
    own = own_folder(environ)
    named = dir_option or environ.get("CRONHPC_DIR")
    if named and Path(named) == own:
        return _made(own)
    try:
        return existing(dir_option, environ)
    except DirectoryError:
        if named or ("WORK" in environ and not os.path.isdir(environ["WORK"])):  # noqa: PTH112 - a text
            raise
    return _made(own)


def _made(root: Path) -> Paths:
    from cronhpc.engine.init import identity

    paths = Paths(root)
    try:
        for folder in (root, paths.state, paths.claims, paths.scheduler, paths.kill, paths.pause):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.path.lexists(paths.settings):
            replace_file(paths.settings, _SETTINGS, 0o644)
        identity(paths)
    except OSError as error:
        raise DirectoryError(
            f"the records of series cannot be kept: {error.filename or root}: {error.strerror}. Set XDG_STATE_HOME to "
            "a folder of yours that all nodes see, or CRONHPC_DIR to a cron directory."
        ) from None
    return paths
