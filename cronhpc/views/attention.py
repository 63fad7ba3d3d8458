"""What somebody has to look at: each row says what, since when, and the command or edit that fixes it."""

from __future__ import annotations

from cronhpc.core.identity import TWO_LOOKS
from cronhpc.core.model import (
    FAILURES,
    NEVER_STARTS,
    Done,
    Fault,
    Problem,
    Reason,
    Result,
    Severity,
    SwitchKind,
    cancelling,
    command,
    restarted,
)
from cronhpc.cron.values import replace
from cronhpc.script.dialect import Dialect
from cronhpc.store.entries import FRESH
from cronhpc.views import Facts, runs, text
from cronhpc.views.facts import (
    Concern,
    EntryStatus,
    HistoryRun,
    LiveRun,
    Notice,
    Status,
    SwitchOn,
    SwitchStatus,
    Trouble,
    Untold,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cronhpc.core.model import Instant
    from cronhpc.views.style import Style


def rows(known: Status, problems: Iterable[Problem]) -> list[Notice]:
    """The most urgent first: the batch system, alerts that go nowhere, switches, entries, then files passed over."""
    dialect = known.batch.dialect
    problems = [each for each in problems if each.code != NAMELESS]  # told with the switch
    problems.sort(key=lambda problem: problem.code != _UNSENT)
    unsent = sum(problem.code == _UNSENT for problem in problems)
    return [
        *_batch(known, dialect),
        *(replace(_of_directory(problem), kind=Concern.UNSENT) for problem in problems[:unsent]),
        *_switches(known),
        *(row for entry in known.entries for row in _entry(entry, dialect, known.now)),
        *_could_not(known),
        *map(_of_directory, problems[unsent:]),
    ]


def grouped(rows: Iterable[Notice]) -> list[Notice]:
    """One row for many entries of one cause, in the place of the first, which names the others."""
    causes: dict[tuple[object, ...], list[Notice]] = {}
    for row in rows:
        causes.setdefault((row.kind, row.cause or row.what, row.at), []).append(row)
    folded = ([_with_others(rows)] if len(rows) >= _ALIKE.get(kind, 4) else rows for (kind, *_), rows in causes.items())
    return [row for rows in folded for row in rows]


_ALIKE: dict[object, int] = {Concern.TROUBLE: 2}  # rows by kind, else 4: fewer are shown one by one
_OTHERS = 3  # of them are named


def _with_others(alike: list[Notice]) -> Notice:
    _, *names = dict.fromkeys(text.name(row.name) for row in alike)  # one may have several
    more = [f"{len(names) - _OTHERS} more"] if len(names) > _OTHERS else []
    others = f"; the same for {text.listed([*names[:_OTHERS], *more])}" if names else ""
    return replace(alike[0], what=alike[0].what + others)


NAMELESS = "W504"  # a switch whose name nothing has
_UNSENT = "W350"  # who relies on alerts has to know before all else that none comes
_FIRST = frozenset({Concern.BATCH, Concern.UNSENT})
BAD = frozenset({Concern.FAILED, Concern.SUSPENDED, Concern.INVALID, Concern.NOT_TRUSTED, Concern.ERROR})
_OF_SWITCHES = frozenset({Concern.SWITCH, Concern.EXPIRED})


def problem_facts(problem: Problem) -> Facts:
    """A problem as `plan` and `clean` have it, JSON-ready."""
    return {"code": problem.code, "file": problem.file, "line": problem.line, "what": problem.what, "fix": problem.fix}


def with_switches(known: Status) -> Status:
    """`known` with the rows of the switches that it lists now; what else needs attention stays."""
    others = [row for row in known.attention if row.kind not in _OF_SWITCHES]
    urgent, rest = ([row for row in others if (row.kind in _FIRST) == first] for first in (True, False))
    return replace(known, attention=(*urgent, *_switches(known), *rest))


def for_others(known: Status) -> Status:
    """`known`, from a colleague's status.json, as it is shown: no advice to remove what lies outside the directory.

    What the owner's settings name there, or status.json says, may be any file of the reader's.
    """
    foreign = {switch.name for switch in known.switches if not switch.ours}
    ask = f"ask {text.one_line(known.owner)}"
    rows = [
        replace(row, fix=ask) if row.kind in _OF_SWITCHES and row.name in foreign else row for row in known.attention
    ]
    switches = [replace(switch, ours=True) for switch in known.switches]
    return replace(known, attention=tuple(rows), switches=tuple(switches))


def _notice(
    kind: Concern, name: str, what: str, fix: str, *cause: str, when: str = "", at: Instant | None = None
) -> Notice:
    """`cause`: what several have in common, where `what` names more than that."""
    return Notice(kind, name, what, "" if at is None else when, at, fix, cause or None)


def _batch(known: Status, dialect: Dialect) -> Iterator[Notice]:
    batch, last = known.batch, known.chain.last_tick
    if not batch.answers:
        why = text.one_line(batch.error).rstrip(".")
        what = f"does not answer{f' ({why})' if why else ''}; this is what was known"
        fix = f"wait, or look: {dialect.look}" if dialect.look else "wait"
        yield _notice(Concern.BATCH, batch.name, what, fix, when="as of", at=last)
    open_ends = sum(run.state == Untold.ENDED for entry in known.entries for run in entry.runs)
    if batch.accounting_error and open_ends:
        why = text.one_line(batch.accounting_error).rstrip(".")
        runs_of = text.count(open_ends, "run")
        what = f"gives no answer ({why}); how {runs_of} ended is not known yet"
        yield _notice(Concern.BATCH, "accounting", what, f"wait: each tick asks again; or look: {dialect.past}")


def switch_verb(switch: SwitchOn | SwitchStatus) -> str:
    """What a switch has done to what it names."""
    return str(Reason.by_switch(switch.kind))


def just_changed(seen: Instant, style: Style) -> str:
    """A file may be half written yet: it is left alone for a moment, which loses no slot."""
    return f"dropped or edited just now: looked at from {style.clock(seen + FRESH, seconds=True)}"


def lift(switch: SwitchOn | SwitchStatus) -> str:
    """What removes a switch: a command, or `rm` where it lies in a team's folder."""
    if not switch.ours:
        return f"rm {text.word(switch.path)}"
    return command("unkill" if switch.kind == SwitchKind.KILL else "resume", switch.name)


def _switches(known: Status) -> Iterator[Notice]:
    for switch in known.switches:
        name = switch.name
        if switch.expired:
            what = f"a {switch.kind} switch by {text.one_line(switch.by)} that is over"
            yield _notice(Concern.EXPIRED, name, what, lift(switch), when="expired", at=switch.expires)
        else:
            reason = f': "{text.one_line(switch.reason)}"' if switch.reason else ""
            over = "; that job has ended" if switch.ended else f"; {switch.unmatched}" if switch.unmatched else ""
            what = f"{switch_verb(switch)} by {text.one_line(switch.by)}{reason}{_jobs_left(switch)}{over}"
            yield _notice(Concern.SWITCH, name, what, lift(switch), when="since", at=switch.since)


def _jobs_left(switch: SwitchStatus) -> str:
    """Jobs that it reached and has not ended."""
    parts = {
        "still ending": switch.ending,
        "warned": switch.warned,
        "a scrontab's own, left alone": switch.left_alone,
    }
    return text.one_line("".join(f"; {words}: {', '.join(jobs)}" for words, jobs in parts.items() if jobs))


def _entry(entry: EntryStatus, dialect: Dialect, now: int) -> Iterator[Notice]:
    name, last, problem = entry.name, entry.last, entry.problem
    if problem:
        kind = Concern.NOT_TRUSTED if entry.reason == Reason.NOT_TRUSTED else Concern.INVALID
        yield _problem(kind, name, replace(problem, file=problem.file or entry.source), own=entry.source)
    yield from _last_results(entry, last)
    yield from _series(entry)
    if entry.reason == Reason.BUDGET:
        yield _notice(Concern.BUDGET, name, "not submitted: " + entry.detail, "raise it in cronhpc.yaml, or wait")
    for run in entry.runs:
        yield from _restarts_often(entry, run, dialect)
        held = run.held and run.state == "PENDING" and not run.paused and not _just_released(run, now)
        unending = run.fault == Fault.UNENDING
        if held or unending or run.fault in _NOT_BY_ITSELF:
            cannot = f"cannot {'end' if unending else 'start'}: {text.one_line(run.reason)}"
            fix = letting_go(run, dialect) or cancelling(dialect, run.job or "")
            yield _notice(Concern.HELD, name, f"job {run.job} {cannot}", fix, cannot, when="since", at=run.since)
    for note in entry.notes:
        if note.severity is Severity.ERROR:  # warnings are for `check`, and for `status NAME`
            yield _problem(Concern.NOTE, name, note if note.line else replace(note, file=""), own=entry.source)


_NOT_BY_ITSELF = NEVER_STARTS | {Fault.MAY_NEVER_START}


def letting_go(run: LiveRun, dialect: Dialect) -> str:
    """What lets it start, or end, that cannot, by why it cannot; "" where nothing does."""
    by_fault: dict[str | None, str] = {
        Fault.ERROR_STATE: dialect.clear,
        Fault.STUCK: dialect.force,
        Fault.UNENDING: dialect.force,
    }
    ends_it = by_fault.get(run.fault, dialect.release if run.held else "")
    asked = "ask an administrator for: " if run.fault == Fault.HELD_BY_ADMIN else ""  # its owner may not
    return f"{asked}{ends_it} {run.job}" if ends_it else ""


def _just_released(run: LiveRun, now: int) -> bool:
    """Whether it is held as it was submitted, and so lately that the list of jobs may be older than its release."""
    return run.fault == Fault.HELD_BY_USER and run.since is not None and now - run.since < TWO_LOOKS


def _last_results(entry: EntryStatus, last: HistoryRun | None) -> Iterator[Notice]:
    """What its last runs came to."""
    name = entry.name
    if entry.suspended:
        what = f"suspended after {text.count(entry.failures, 'failure')} in a row"
        yield _notice(Concern.SUSPENDED, name, what, command("resume", name), when="since", at=entry.suspended)
    elif last and last.result in FAILURES:
        yield _failed(entry, last)
    elif last and entry.failures:  # a slot that was skipped, missed or cancelled since fixes nothing
        times = f"{entry.failures} times in a row" if entry.failures > 1 else "once"
        what = f"failed {times}, and has not gone well since; the last slot: {last.result}"
        yield _notice(Concern.FAILED, name, what, command("history", name), when="slot", at=last.slot)
    elif last and last.result in {Result.MISSED, Result.LOST} and not entry.runs:
        why = f": {text.one_line(last.detail)}" if last.detail else ""
        yield _notice(Concern.MISSED, name, f"{last.result}{why}", command("run", name), when="slot", at=last.slot)


_RESTARTS = 2  # a node's fault may be behind so many; more need attention, where `--retries` does not allow for them


def _restarts_often(entry: EntryStatus, run: LiveRun, dialect: Dialect) -> Iterator[Notice]:
    """A run that ends, time and again, in a way that has it put back into the queue."""
    restarts = run.restarts or 0
    if restarts > max(_RESTARTS, entry.retries):
        what = f"job {run.job} was {restarted(restarts)}: {dialect.title} puts it back into the queue each time it ends"
        yield _notice(Concern.RESTARTS, entry.name, what, command("logs", entry.name), when="since", at=run.since)


def _series(entry: EntryStatus) -> Iterator[Notice]:
    """One that ended otherwise than it was told to. Who cancelled its next piece knows of it."""
    series, last = entry.series, entry.last
    if not series or entry.switch:
        return
    trouble = text.one_line(series.trouble).rstrip(".")
    if series.going:
        if trouble and not any(run.state == "PENDING" for run in entry.runs):
            yield _notice(Concern.ENDED, entry.name, f"queues no next piece: {trouble}", text.one_line(series.start))
        return
    if series.crashed:
        yield _notice(Concern.ENDED, entry.name, f"has stopped: {series.no_next}", command("logs", entry.name))
    elif not series.no_next and not (last and last.result in {Result.CANCELLED, Result.KILLED}):
        what = f"has ended: {trouble or 'no piece of it is in the queue'}"
        yield _notice(Concern.ENDED, entry.name, what, text.one_line(series.start))


def _failed(entry: EntryStatus, last: HistoryRun) -> Notice:
    times = entry.failures
    streak = f" {times} times in a row" if times > 1 else ""
    result = last.result if last.result != Result.FAILED or not streak else "failed"
    code = f", exit {last.exit_code}" if last.exit_code else ""
    signal = f", signal {last.signal}" if last.signal else ""
    detail = f" ({text.one_line(last.detail)})" if last.detail else ""
    detail += f", each time on {text.clean(entry.bad_node)}" if entry.bad_node else ""
    fix = runs.log_of(last) if last.job else command("status", entry.name)
    return _notice(
        Concern.FAILED, entry.name, f"{result}{streak}{code}{signal}{detail}", fix, when="last", at=last.slot
    )


def troubles(known: Status, name: str = "") -> list[Trouble]:
    """What a tick could not do (for that entry or switch), each thing once: not what an entry's last run tells."""
    of_last_runs = {
        (each.name, text.one_line(each.last.detail))
        for each in known.entries
        if each.last and each.last.result == Result.REFUSED and not each.suspended
    }
    rows = [
        row
        for row in known.trouble
        if row.done == Done.PASSING or (row.entry, text.one_line(row.detail)) not in of_last_runs
        if name in {"", _whom(row)}
    ]
    return list({(_whom(row), row.decision, row.detail): row for row in rows}.values())  # successor and spare: one


TRIED_AGAIN = "it is tried again at each tick"


def _could_not(known: Status) -> Iterator[Notice]:
    if not (rows := troubles(known)):
        return
    from cronhpc.views.decisions import Kind, could_not

    for row in rows:
        if row.decision == Kind.SUBMIT and row.slot is not None and row.slot > known.now:
            continue  # it is not due yet: until then it may be submitted
        subject, cannot = could_not(row)
        again = TRIED_AGAIN if row.done == Done.PASSING else command("status", *filter(None, [row.entry]))
        cause = (row.decision, row.cause) if row.cause else ()
        if row.link and not (known.chain.next or known.chain.running):  # no tick will come by itself
            right = "" if row.done == Done.PASSING else ", once scheduler.sbatch in cronhpc.yaml is right"
            again = command("start") + right
        yield _notice(Concern.TROUBLE, _whom(row), f"{subject} ".lstrip() + cannot, again, *cause, when="at", at=row.at)


def _whom(row: Trouble) -> str:
    return row.entry or ("chain" if row.link else row.switch or (f"job {row.job}" if row.job else "pause"))


def _of_directory(problem: Problem) -> Notice:
    """By its place: no entry has it."""
    place = text.place(problem.file, problem.line) or problem.code
    return _problem(Concern(problem.severity), place, replace(problem, file="", line=0))


def _problem(kind: Concern, name: str, problem: Problem, *, own: str = "") -> Notice:
    """`own`: its entry's file, where it is of an entry. What is said of one that is not trusted names its path."""
    place = "" if kind is Concern.NOT_TRUSTED else text.place(problem.file, problem.line)
    what = text.one_line(f"{place}: {problem.what}" if place else problem.what)
    elsewhere = "" if problem.file == own else problem.file
    cause = (problem.code, elsewhere, problem.key if kind is Concern.NOT_TRUSTED else problem.what) if own else ()
    return _notice(kind, name, what.rstrip("."), text.one_line(problem.fix), *cause)
