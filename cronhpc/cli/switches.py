"""`cronhpc kill`, `unkill`, `pause` and `resume`.

They write files, so any teammate may use them. Where the directory's owner does, a tick acts on them at once.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.commands import Command
from cronhpc.cli.console import Console, NoSuchError, UsageError, written_status
from cronhpc.cli.runs import job_id
from cronhpc.core.model import (
    ALL,
    Call,
    CronhpcError,
    Instant,
    Job,
    Scope,
    Settings,
    StateError,
    Switch,
    SwitchKind,
    World,
    command,
    joined,
)
from cronhpc.core.model.decode import iso
from cronhpc.core.stop import Index, alike, is_job_id, is_pattern, matching, unmatched
from cronhpc.cron.values import dataclass, replace
from cronhpc.store import lease, memory
from cronhpc.store.scheduler import started
from cronhpc.store.switches import check_name, is_where_it_says, of_directory, set_switch, unset_switch
from cronhpc.views import Facts, text
from cronhpc.views.decisions import Deed, JobDeed, Order, deed_facts, deed_lines, deeds

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from cronhpc.store.files import Paths
    from cronhpc.tick import Report
    from cronhpc.views.facts import Status


_COST = (
    "what it holds keeps its id and submit time; the waiting time that its priority counts may begin anew when it is "
    "released (the batch system's rule; your site's limits decide)"
)
_PAUSED = "everywhere else this is called paused: disable is another word for pause, enable for resume"
_LISTED = 30  # names that could be given


def _set_arguments(parser: argparse.ArgumentParser) -> None:
    names = "entries, job ids, job names, configured switches, ALL; 'train*': all that are called so now"
    parser.add_argument("names", nargs="*", metavar="NAME", help=names)
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; shown wherever the switch is")
    parser.add_argument("--expires", metavar="TIME", help="it stands until then: 2h, or 2026-11-27T18:00")
    parser.add_argument("--anyway", action="store_true", help="set it also where nothing is called so yet")


def _set(args: argparse.Namespace, console: Console, kind: SwitchKind) -> int:
    """Set the switches and, as their owner, act on them. Exit code 1 where that could not be done; 2: no such name."""
    paths = console.paths()
    settings = console.settings()
    expires = _expiry(args, console, settings.timezone)
    look = _Look.of(console, paths, args.names)
    switches = _chosen(args, console, kind, look)
    names = [each.name for each in switches]
    rows = []
    for each in switches:
        made = set_switch(_folder(paths, kind), each.name, args.reason, expires, settings.kill_group)
        rows.append({"switch": each.name, "path": each.path, "made": made})
        if not console.as_json:
            stands = "set" if made else "it stands already:"
            console.say(f"{stands} {kind} switch {text.name(each.name)} ({console.style().path(each.path)})")
    console.out.flush()  # they stand, however long the batch system takes to answer
    effect = _ordered(console, Order(kind, frozenset(names)), look, switches)
    notes = [note for name in names if (note := _unwritten(name, look, settings))]
    undo = command(kind.undo, *names)
    lines = [*effect.words(console, settings.timezone, kind, names)]
    lines += [_COST] if kind is SwitchKind.PAUSE and (not effect.at_once or effect.did(Deed.HELD)) else []
    lines += [_PAUSED] if args.typed == "disable" else []
    lines += ["undo: " + undo, *(f"note: {note}" for note in notes)]
    facts = {"kind": kind, "switches": rows, **effect.facts, "undo": undo, "notes": notes}
    console.answer(facts, lambda: joined("\n", lines))
    return FINE if effect.ok else ATTENTION


def _expiry(args: argparse.Namespace, console: Console, zone: str) -> int | None:
    """The instant asked for. Raises UsageError for one that has passed: the switch would stop nothing."""
    if args.expires is None:
        return None
    at = console.instant(args.expires, zone)
    if at <= console.now:
        passed = f"{args.expires!r} is {console.style(zone).whole(at)}, which is not in the future"
        raise UsageError(f"--expires {passed}: it would stop nothing. Write a later time, or how long, like 2h.")
    return at


def _folder(paths: Paths, kind: SwitchKind) -> Path:
    return paths.kill if kind is SwitchKind.KILL else paths.pause


# --- what could be named ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Look:
    """What there is to be named, as far as this user can see: both None where nobody can tell."""

    world: World | None = None  # the owner's
    written: Status | None = None  # a teammate's: what the last tick wrote

    @classmethod
    def of(cls, console: Console, paths: Paths, names: Sequence[str]) -> _Look:
        """Settings that cannot be used, or a queue without an answer, keep no switch from being set.

        Where all `names` are entries', or ALL, the queue is not asked: it may take its time to answer.
        """
        from cronhpc.engine.read import read_world
        from cronhpc.engine.read_entries import read_entries

        if not paths.is_mine:
            return cls(written=_written(paths, console))
        try:
            site = console.site()
            entries = {entry.name for entry in read_entries(site, console.now).entries}
            return cls() if names and entries.issuperset({*names} - {ALL}) else cls(read_world(site, console.now).world)
        except (CronhpcError, OSError):
            return cls()

    @property
    def entries(self) -> list[str]:
        """Names of entries and series."""
        if self.world is not None:
            return [entry.name for entry in self.world.entries_by_id().values()]
        return [entry.name for entry in self.written.entries] if self.written else []

    @property
    def unanswered(self) -> str:
        """Why the batch system gave the owner no answer; "" where it did."""
        return self.world.queue_error if self.world is not None and self.world.queue is None else ""

    def matching(self, pattern: str) -> tuple[str, ...]:
        """All that `train*` means: a teammate is shown no queue, and so no names of jobs."""
        from fnmatch import fnmatchcase

        if self.world is not None:
            return matching(self.world, pattern)
        return tuple(name for name in self.entries if fnmatchcase(name, pattern))

    def of_file(self, name: str) -> str:
        """The entry whose file is named (`cron.daily/backup.slurm`, as a shell completes it), else the name itself."""
        entries = () if self.world is None or name in self.entries else self.world.entries
        return next((each.name for each in entries if name in {each.source, Path(each.source).name}), name)

    def lacks(self, switch: Switch) -> str:
        """Why it is likely to be a slip: nothing has its name. "" where something has, or nobody can tell."""
        if self.world is not None:
            alone = replace(self.world.switches, listed=(switch,))
            return "".join(problem.what for problem in unmatched(replace(self.world, switches=alone)))
        same = alike(switch.name, [ALL])
        slip = self.written is not None and same and switch.name not in {ALL, *self.entries}
        return f"nothing is called {text.name(switch.name)}; nearest: {same}." if slip else ""

    def reached(self, switches: Sequence[Switch]) -> tuple[Job, ...]:
        """The live jobs that these cover, and those that a daemon has stopped by them since it saw their files."""
        if self.world is None:
            return ()
        index, paths = self.world.once(Index), {each.path for each in switches}
        records = self.world.kept.kill_records.items()
        stopped = {job_id: Job(job_id, "CANCELLED") for job_id, record in records if record.path in paths}
        live = {job.shown_id: job for each in switches for job in index.reached(each)}
        return tuple((stopped | live).values())


def _written(paths: Paths, console: Console) -> Status | None:
    """What the last tick wrote, as of now; None where that cannot be read."""
    from cronhpc.views.status import seen_at

    try:
        status = written_status(paths)
    except (OSError, StateError):
        return None
    return seen_at(status, console.now) if status else None


def _chosen(args: argparse.Namespace, console: Console, kind: SwitchKind, look: _Look) -> list[Switch]:
    """The switches to be set: none of them is yet. Raises UsageError, NoSuchError, SwitchError."""
    folder = _folder(console.paths(), kind)
    if not args.names:
        raise UsageError(_which(kind, look))
    chosen: dict[str, Switch] = {}
    for wanted in args.names:
        exact = not is_pattern(wanted) or wanted in look.entries
        names = [look.of_file(wanted)] if exact else look.matching(wanted)
        if not names and not args.anyway:
            raise NoSuchError(f"Nothing is called {wanted} now, so nothing was set. {_which(kind, look)}")
        for name in names or [wanted]:
            check_name(name)
            chosen[name] = Switch(kind, name, str(folder / name), "", console.now)
            if not args.anyway and (why := look.lacks(chosen[name])):
                anyway = command(kind, name, options=("--anyway",))
                raise NoSuchError(f"{why} Nothing was set. For one that is to come: " + anyway)
    return list(chosen.values())


def _which(kind: SwitchKind, look: _Look) -> str:
    """What could be named."""
    names = [text.word(name) for name in look.matching("*")]
    more = [f"and {len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return f"cronhpc {kind}: write which: {', '.join([*names[:_LISTED], *more, ALL])}; or the id or name of any job."


def _unwritten(name: str, look: _Look, settings: Settings) -> str:
    """For a teammate: by what the owner's last tick wrote. A job may have the name, and nobody asks the queue here."""
    configured = [row.name for row in settings.switches]
    if look.written is None or is_job_id(name) or name in {ALL, *configured, *look.entries}:
        return ""
    near = alike(name, [*look.entries, *configured])
    hint = f" (nearest: {text.word(near)})" if near else ""
    return f"no entry is called {text.word(name)}{hint}: it reaches the jobs that are, now or later"


# --- what came of it ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Effect:
    """What was done at once, or when it will be."""

    acts: str  # "at once", "at the next tick"
    at: Instant | None = None  # that tick's
    fix: str | None = None  # what acts at once; where it has: what makes somebody act later, too
    deeds: tuple[JobDeed, ...] = ()
    world: World | None = None  # what the tick found that acted at once
    trouble: str = ""  # as `not_done` says it

    @property
    def now(self) -> int:
        return self.world.now if self.world else 0

    @property
    def at_once(self) -> bool:
        """Whether the batch system has been told."""
        return self.world is not None

    @property
    def ok(self) -> bool:
        """Whether all went well that was tried."""
        return not self.trouble and not any(each.trouble for each in self.deeds)

    @property
    def facts(self) -> Facts:
        jobs = [deed_facts(each, self.now) for each in self.deeds]
        return {"acts": self.acts, "at": iso(self.at), "fix": self.fix, "jobs": jobs, "trouble": self.trouble}

    def did(self, deed: Deed) -> bool:
        """Whether that happened to any job."""
        return any(each.done is deed for each in self.deeds)

    def not_done(self) -> list[str]:
        """Why nothing could be done at once, where that was tried."""
        return [f"not done yet: {text.one_line(self.trouble)}"] if self.trouble else []

    def words(self, console: Console, zone: str, kind: SwitchKind, names: Sequence[str]) -> Iterator[str]:
        """A line a job; or when the switches of those names will act."""
        style = console.style(zone)
        if self.at_once:
            yield from deed_lines(self.deeds, self.now) or ["no job that it reaches is in the queue"]
            if self.fix:
                yield "nobody will act on later jobs: " + self.fix
            return
        yield from self.not_done()
        when = f"{self.acts}: {style.clock(self.at)} ({style.distance(self.at)})" if self.at else self.acts
        whom = "everything" if ALL in names else text.name(names[0]) if len(names) == 1 else "them"
        line = f"{'stops' if kind is SwitchKind.KILL else 'holds'} {whom} {when}"
        yield line + "; at once: " + self.fix if self.fix else line


def _ordered(console: Console, order: Order, look: _Look, switches: Sequence[Switch] = ()) -> _Effect:
    """What the owner has ordered is done. Where it cannot be, or a teammate ordered it, a later tick does it.

    `look`: what was seen before it; where the batch system has just given no answer it is not asked again.
    `switches`: the order's, whose jobs are told of; by the tick's own look where there was none before.

    A whole tick where the scheduler's own would come: what waits ahead is taken back, the next link comes in time.
    Elsewhere, and beside a daemon, nothing but switches: who has stopped the scheduler wants nothing submitted.
    """
    from cronhpc.engine.site import reckoned
    from cronhpc.tick import tick

    paths = console.paths()

    def not_done(why: str = "") -> _Effect:
        return replace(_left_to(console, paths), trouble=why)

    if not paths.is_mine:
        return not_done()
    if look.unanswered:
        return not_done(f"the batch system does not answer: {look.unanswered}")
    try:
        site, now = reckoned(console.site(), console.again().now)
        how = started(site.paths)
        whole = (how is not None and not how.way(site.batch.dialect).daemon) or console.keeps_series_only(paths)
        report = tick(site, now, Call(scope=Scope.ALL if whole else Scope.SWITCHES))
    except (CronhpcError, OSError) as error:
        return not_done(str(error))
    queue = report.world.queue
    if queue is None:
        return not_done(f"the batch system does not answer: {report.world.queue_error}")
    before = (look if look.world is not None else _Look(report.world)).reached(switches)
    job_deeds = tuple(deeds(replace(order, before=before), report.outcomes, queue))
    return _Effect("at once", fix=_nobody(report, paths, console), deeds=job_deeds, world=report.world)


def _nobody(report: Report, paths: Paths, console: Console) -> str | None:
    """How to start the scheduler where none is at work."""
    from cronhpc.views import chain

    if console.keeps_series_only(paths):
        return None
    facts = chain.facts(report.world, report.plan, report.outcomes, ticked=report.world.call.whole)
    state = chain.health(facts, answers=True, entries=1, now=report.world.now)
    return None if state in chain.FINE | chain.LIMPS else command("start")


def _left_to(console: Console, paths: Paths) -> _Effect:
    """When the next look at the switches is, by what the last tick wrote."""
    now, written = command("tick") if paths.is_mine else None, _written(paths, console)
    if written is None:
        return _Effect("as soon as the scheduler runs", fix=now)
    chain = written.chain
    from cronhpc.views.chain import LIMPS, State

    if chain.by_daemon and chain.state in {State.FINE, State.OTHERWISE}:
        return _Effect("within seconds: the daemon runs")
    if chain.state not in {State.FINE, State.UNKNOWN, State.OTHERWISE, *LIMPS}:
        return _Effect(f"when the scheduler is fixed, which is {chain.state}", fix=chain.fix or None)
    link = (chain.next or chain.spare) if chain.wanted and chain.by_links else None
    return _Effect("at the next tick", link.at if link else None, now)


# --- removing ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lifted:
    """What became of one name."""

    switch: str
    removed: tuple[str, ...] = ()  # paths
    still_stands: tuple[str, ...] = ()  # the team's
    suspension_lifted: bool = False

    @property
    def done(self) -> bool:
        return bool(self.removed) or self.suspension_lifted


def _unset(args: argparse.Namespace, console: Console, kind: SwitchKind) -> int:
    """Exit code 1 if one of these did not stand, or a team's still stands."""
    paths = console.paths()
    settings = console.settings()
    followed = settings if paths.is_mine else Settings()  # of another's, folders elsewhere are not looked into
    standing = of_directory(paths, followed, console.now).listed
    suspended = _suspended(paths)
    names = _lifted_names(args, kind, standing, suspended if kind is SwitchKind.PAUSE else [])
    rows = []
    for name in names:
        removed, left = _removed(paths, settings, name, kind)
        lifted = kind is SwitchKind.PAUSE and name in suspended and _lift_suspension(paths, name)
        rows.append(Lifted(name, tuple(removed), tuple(left), lifted))
    done = [row.switch for row in rows if row.done]
    effect = _ordered(console, Order(kind, frozenset(done)), _Look()) if done else _left_to(console, paths)
    look = _Look(effect.world)
    series = {each.entry.name for each in (effect.world.series if effect.world else ())}
    lost = [name for name in done if look.lacks(Switch(kind, name, str(_folder(paths, kind) / name), "", console.now))]
    over = {each.name for each in standing if each.kind is kind and each.expired(console.now)}
    stood = [name for name in done if name not in over]
    undo = command(kind, *stood, options=(*(("--anyway",) if lost else ()), *_as_it_was(kind, stood, standing)))
    gone = {path for row in rows for path in row.removed}
    meant = [each for each in standing if ALL in done or each.name in {*done, ALL}]
    others = [f"{each.kind}/{text.word(each.name)}" for each in meant if each.path not in gone]
    facts = {"kind": kind, "switches": rows, **effect.facts, "undo": undo if stood else None}

    def words() -> str:
        again: str = "its next slots run as usual"
        if others:
            again = f"{', '.join(others)} still {'stand' if len(others) > 1 else 'stands'}"
        elif kind is SwitchKind.PAUSE and not effect.at_once:
            again = "what it held is released at the next tick"
        elif kind is SwitchKind.KILL and (console.keeps_series_only(paths) or (done and series.issuperset(done))):
            again = f"a series that it ended begins anew with {console.site().batch.dialect.submit}"
        elif all(map(job_id, done)):
            again = f"it {'stops' if kind is SwitchKind.KILL else 'holds'} nothing any more"
        elif effect.at_once and effect.fix:
            again = "nobody will submit its next slots: " + effect.fix
        lines = [line for row in rows for line in unset_words(row, kind, standing, paths, console)]
        lines += [*deed_lines(effect.deeds, effect.now), *effect.not_done()]
        lines += [joined("; undo: ", (again, *([undo] if stood else [])))] if any(row.removed for row in rows) else []
        return joined("\n", lines)

    console.answer(facts, words)
    return FINE if len(done) == len(rows) and not any(row.still_stands for row in rows) and effect.ok else ATTENTION


def _as_it_was(kind: SwitchKind, names: Sequence[str], standing: Sequence[Switch]) -> tuple[str, ...]:
    """The options that set these switches again as they stood, where they stood alike."""
    were = {(each.reason, each.expires) for each in standing if each.kind is kind and each.name in names}
    reason, expires = were.pop() if len(were) == 1 else ("", None)
    options = (f"--reason={reason}",) if reason.startswith("-") else ("--reason", reason) if reason else ()
    return (*options, "--expires", str(iso(expires))) if expires is not None else options


def _lifted_names(
    args: argparse.Namespace, kind: SwitchKind, standing: Sequence[Switch], suspended: Sequence[str]
) -> list[str]:
    """Those asked for; `*` means all that stand. Raises UsageError where none is named."""
    from fnmatch import fnmatchcase

    liftable = list(dict.fromkeys([*(each.name for each in standing if each.kind is kind), *suspended]))
    if not args.names:
        choices = f"which: {', '.join(map(text.word, liftable))}." if liftable else ""
        raise UsageError(f"cronhpc {kind.undo}: write {choices or 'NAME. Nothing is to be lifted: none stands.'}")
    names: list[str] = []
    for wanted in args.names:
        if is_pattern(wanted) and wanted not in liftable:
            names += [name for name in liftable if fnmatchcase(name, wanted)] or [wanted]
        else:
            names.append(wanted)
    return list(dict.fromkeys(names))


def _removed(paths: Paths, settings: Settings, name: str, kind: SwitchKind) -> tuple[list[str], list[str]]:
    """Remove the switch wherever this directory has it: paths removed, and the team's that still stand."""
    folder = _folder(paths, kind)
    removed = [str(folder / name)] if unset_switch(folder, name, paths.root) else []
    left = []
    if kind is SwitchKind.KILL:
        polled = [Path(row.file).expanduser() for row in settings.switches if row.file and row.name == name]
        team = [Path(each).expanduser() / name for each in settings.kill_also]
        if paths.is_mine:
            removed += [str(file) for file in polled if unset_switch(file.parent, file.name)]
        else:  # somebody else's settings must not choose which file of mine goes
            team += polled
        left = [str(path) for path in team if os.path.lexists(path) and is_where_it_says(path.parent)]
    return removed, left


def unset_words(
    row: Lifted, kind: SwitchKind, standing: Sequence[Switch], paths: Paths, console: Console
) -> Iterator[str]:
    """What was removed, what still stands, or what stands instead."""
    name = row.switch
    rm = "rm " if paths.is_mine else ""  # what another's settings name may be any file of mine: no advice to remove it
    yield from (f"removed {console.style().path(path)}" for path in row.removed)
    if row.suspension_lifted:
        yield "its suspension is lifted, and its failures are counted anew"
    else:
        yield from _owners(paths, name) if kind is SwitchKind.PAUSE else ()
    yield from (f"it still stands for the whole team: {rm}{text.word(path)}" for path in row.still_stands)
    if row.done or row.still_stands:
        return
    others = [each for each in standing if each.kind is not kind and each.name == name]
    if others:
        state = "killed, not paused" if kind is SwitchKind.PAUSE else "paused, not killed"
        yield f"{text.name(name)} is {state}. To lift that: " + command(others[0].kind.undo, name)
        return
    standing_names = list(dict.fromkeys(text.name(each.name) for each in standing if each.kind is kind))
    stand = f" What stands: {', '.join(standing_names[:_LISTED])}." if standing_names else ""
    yield f"no {kind} switch {text.name(name)} stands.{stand} See: " + command("status")


_KILL_HELP = "Stop jobs by a kill switch: what runs is cancelled, and nothing new is submitted while it stands."
_KILL_EXAMPLE = """
cronhpc kill backup --reason "disk is full"
cronhpc kill 4711
cronhpc kill ALL --expires 2h
cronhpc kill train17 --dir /home/alice/cron     # a teammate's
"""


_PAUSE_HELP = "Hold jobs: pending ones wait with their ids, and nothing new is submitted, until cronhpc resume."
_PAUSE_EXAMPLE = """
cronhpc pause backup --reason "until the new disk is in"
cronhpc pause ALL --expires 2h
"""


def _unset_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="what stands, as cronhpc status has it; '*': all")


_UNKILL_HELP = "Lift a kill switch. What it stopped stays stopped; its next slots run again."
_UNKILL_EXAMPLE = """
cronhpc unkill backup
cronhpc unkill '*'
"""
_RESUME_HELP = "Lift a pause, or a suspension after failures. What it held is released."
_RESUME_EXAMPLE = "cronhpc resume backup"
_TIMEOUT = 20.0  # seconds that a tick at work is waited for


def _suspended(paths: Paths) -> list[str]:
    """Entries that are suspended after failures, as far as this user may read."""
    if not paths.is_mine:
        return []
    return [name for name, state in memory.load(paths.entries).entries.items() if state.suspended is not None]


def _owners(paths: Paths, name: str) -> list[str]:
    """A suspension is its owner's to lift: whoever may write switches can stop jobs, and start none."""
    status = None if paths.is_mine else written_status(paths)
    if status is None or not any(entry.name == name and entry.suspended for entry in status.entries):
        return []
    return [f"it is suspended after failures, which {status.owner} alone can lift, with the same command"]


def _lift_suspension(paths: Paths, name: str) -> bool:
    """Under the lease, so that no tick that began before writes the suspension back. Raises StateError, OSError."""
    state = memory.load(paths.entries).entries.get(name)
    if state is None or state.suspended is None:
        return False
    with lease.held(paths.state / "lease", lease.myself(os.uname().nodename, "", ""), seconds=_TIMEOUT):
        remembered = memory.load(paths.entries)
        remembered.entries[name] = replace(remembered.entries[name], suspended=None, failures=0)
        memory.save(paths.entries, remembered)
    return True


COMMANDS = {
    "kill": Command(_KILL_HELP, _KILL_EXAMPLE, partial(_set, kind=SwitchKind.KILL), _set_arguments, of_series=True),
    "pause": Command(_PAUSE_HELP, _PAUSE_EXAMPLE, partial(_set, kind=SwitchKind.PAUSE), _set_arguments, of_series=True),
    "unkill": Command(
        _UNKILL_HELP, _UNKILL_EXAMPLE, partial(_unset, kind=SwitchKind.KILL), _unset_arguments, of_series=True
    ),
    "resume": Command(
        _RESUME_HELP, _RESUME_EXAMPLE, partial(_unset, kind=SwitchKind.PAUSE), _unset_arguments, of_series=True
    ),
}
