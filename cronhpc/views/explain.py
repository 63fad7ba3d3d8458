"""One entry in sentences: when it runs, how it went, and why it does not run now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.core.model import Advice, Done, Fault, Problem, Reason, Result, command, joined, restarted
from cronhpc.cron.schedule import Schedule, ScheduleError, parse
from cronhpc.cron.values import are, dataclass
from cronhpc.cron.zones import zone_of
from cronhpc.views import runs, text, times
from cronhpc.views.attention import TRIED_AGAIN, just_changed, letting_go, lift, switch_verb, troubles
from cronhpc.views.chain import LIMPS, State
from cronhpc.views.decisions import could_not
from cronhpc.views.facts import Untold
from cronhpc.views.next import ClockChange, change_words, clock_changes, lowered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cronhpc.views.facts import (
        DeletedEntry,
        EntryStatus,
        HistoryRun,
        LiveRun,
        SeriesStatus,
        Status,
        SwitchOn,
        Trouble,
    )
    from cronhpc.views.style import Style

_LOOK = 60 * times.DAY  # how far ahead a clock change is worth a sentence


def schedule_of(entry: EntryStatus) -> Schedule | None:
    """The entry's schedule by its facts; None where it has none that can be used."""
    try:
        return parse(entry.schedule, zone_of(entry.timezone), hash_key=entry.hash_key)
    except (ScheduleError, KeyError, ValueError, OSError):  # no schedule; a zone that this machine does not know
        return None


@dataclass(frozen=True, slots=True)
class More:
    """What the sentences need beyond the entry's own facts."""

    words: str
    clock_change: ClockChange | None


def facts(schedule: Schedule | None, now: int) -> More:
    """Of an entry's schedule, None where it has none that can be used."""
    if schedule is None:
        return More("", None)
    return More(schedule.in_words(), next(clock_changes(schedule, now, now + _LOOK), None))


def render(entry: EntryStatus, status: Status, schedule: Schedule | None, style: Style) -> str:
    """The sentences, the most important first."""
    more = facts(schedule, style.now)
    title = _series(entry, entry.series, style) if entry.series else _title(entry, more, style)
    lines = [title, *_held_back_by(entry, status, style)]
    gone = [run for run in entry.runs if run.ahead and run.gone]
    waiting = [run for run in entry.runs if run.ahead and not run.gone]
    lines += [_live_sentence(run, style, status) for run in entry.runs if not run.ahead or run in waiting[:1]]
    if gone:
        last = style.dated(gone[-1].slot or 0)
        lines.append(
            f"{are(len(gone), 'run')} gone from the queue that waited for a time to come, the last for {last}."
        )
    if len(waiting) > 1:
        until, others = style.dated(waiting[-1].slot or 0), waiting[1:]
        wait = "wait in the queue, the last" if others[1:] else "waits in the queue,"
        lines.append(f"{text.count(len(others), 'more run')} of it {wait} for {until}.")
    lines += _last_sentences(entry, status, style)
    if more.clock_change and schedule:
        lines.append(_clock_change(more.clock_change, schedule, style))
    lines += ["Note: " + _problem_words(note) for note in entry.notes]
    return "\n".join(part for line in lines for part in style.wrapped(line, style.width))


def deleted(entry: DeletedEntry, status: Status, style: Style) -> str:
    """What still runs of an entry that was deleted."""
    lines = [f"{text.name(entry.name)} was deleted; what runs of it goes on."]
    lines += [_live_sentence(run, style, status) for run in entry.runs]
    return "\n".join(part for line in lines for part in style.wrapped(line, style.width))


def _title(entry: EntryStatus, more: More, style: Style) -> str:
    head = f"{text.name(entry.name)} ({text.name(entry.source)})"
    words = f": {lowered(more.words)} ({text.one_line(entry.schedule)}), {entry.timezone}" if more.words else ""
    at = entry.next
    if at is None:
        return f"{head}{words}."
    if at <= style.now:
        return f"{head}{words}; due since {style.dated(at)}."
    return f"{head}{words}; next {style.whole(at)} ({style.distance(at)})."


def _series(entry: EntryStatus, series: SeriesStatus, style: Style) -> str:
    at = entry.next
    following = f"; next {style.whole(at)} ({style.distance(at)})" if at is not None and at > style.now else ""
    ends = f" It ends {text.listed([text.one_line(each) for each in series.ends], 'or')}." if series.ends else ""
    if not series.going:
        why = f"It has stopped: {text.one_line(series.no_next)}" if series.no_next else "No piece of it is in the queue"
        stopped = f" {why}. Start it again: {text.one_line(series.start)}"
        ends = ""
    else:
        stopped = f" This is the {text.one_line(series.no_next)}." if series.no_next else ""
    keeps = "keeps itself going" if series.going else "has kept itself going"
    head = f"{text.name(entry.name)} ({text.name(entry.source)}) {keeps}"
    pieces = text.count(series.runs, "piece")
    return f"{head}, {text.one_line(series.when)}: {pieces} so far{following}.{stopped}{ends}"


# --- why not now ---------------------------------------------------------------------------------------------------


def _held_back_by(entry: EntryStatus, status: Status, style: Style) -> Iterator[str]:
    """What holds it back at present, each with its fix."""
    name, switch, problem = entry.name, entry.switch, entry.problem
    if switch:
        yield _switch(switch, style)
    if problem:
        kind = "not trusted" if entry.reason == Reason.NOT_TRUSTED else "not run as it is"
        yield f"It is {kind}: " + _problem_words(problem)
    if entry.suspended:
        since = entry.suspended
        when = f" since {style.dated(since)}" if since else ""
        failures = text.count(entry.failures, "failure")
        yield f"It is suspended{when}, after {failures} in a row. Lift it: " + command("resume", name)
    yield from (_could_not(trouble, style) for trouble in troubles(status, name))
    if entry.reason == Reason.JUST_CHANGED and not problem:
        yield f"It was {just_changed(status.now, style)}."
    if entry.reason in {Reason.BUDGET, Reason.UNKNOWN, Reason.QUEUED} and not problem:
        detail = ": " + text.one_line(entry.detail) if entry.detail else ""
        yield f"It waits ({entry.reason})" + detail + "."
    chain = status.chain
    if chain.state != State.FINE and (chain.fix or chain.state in LIMPS) and not entry.series:
        spare = " for its spare" if chain.state == State.LATE and not chain.next else ""
        state, effect = chain.state, f"what is due waits{spare}" if chain.state in LIMPS else "nothing starts by itself"
        if state == State.OTHERWISE:
            state, effect = State.NOT_STARTED, "what is due waits for a tick by other means"
        yield joined(" Fix it: ", filter(None, (f"The scheduler is {state}, so {effect}.", chain.fix)))


def _could_not(trouble: Trouble, style: Style) -> str:
    subject, cannot = could_not(trouble)
    again = f" {TRIED_AGAIN.capitalize()}." if trouble.done == Done.PASSING else ""
    return f"{subject.capitalize() or 'It'} " + cannot + f" (at {style.dated(trouble.at)}).{again}"


def _switch(switch: SwitchOn, style: Style) -> str:
    since = switch.since
    reason = f' ("{text.one_line(switch.reason)}")' if switch.reason else ""
    until = switch.expires
    when = f", until {style.dated(until)}" if until else ""
    by = f"{switch.kind}/{text.name(switch.name)}, by {text.one_line(switch.by)}"
    stands = f"{switch_verb(switch)} by {by} since {style.dated(since) if since else '-'}{reason}{when}"
    return f"It is {stands}. Lift it: " + lift(switch)


def _problem_words(problem: Problem) -> str:
    place = text.place(problem.file, problem.line)
    head = f"{text.name(place)}: {problem.code}" if place else problem.code
    return joined(" ", filter(None, (head, text.one_line(problem.what), text.one_line(problem.fix))))


# --- runs ----------------------------------------------------------------------------------------------------------


def _live_sentence(run: LiveRun, style: Style, status: Status) -> str:
    slot, started = run.slot, run.started
    which = "asked for by hand" if run.by_hand else f"slot {style.clock(slot)}" if slot else "an unknown slot"
    if run.state == Untold.SUBMITTING:
        since = f"claimed at {style.clock(run.since, seconds=True)}" if run.since else "claimed"
        does = "The tick at work does that in seconds; was it killed, the next one finds the job or submits it: "
        return f"It is being submitted ({which}): {since}, its job not recorded yet. {does}" + command("tick")
    head = f"Job {run.job} ({which})"
    let_go = letting_go(run, status.batch.dialect)
    fix = f" Let it go: {let_go}" if let_go else ""
    if run.fault == Fault.UNENDING:
        return f"{head} is {text.one_line(run.reason)}.{fix}"
    if started is not None:
        where = f" on {text.clean(run.node)}" if run.node else ""
        then = "by now" if status.now == style.now else f"as of {style.dated(status.now)}"
        about = "about " if status.batch.dialect.minutes else ""
        ran = about + times.took(max(status.now - started, 0))
        return f"{head} is running{where} since {style.clock(started)}, for {ran} {then}."
    if run.state == Untold.UNKNOWN:
        return f"{head} has not ended as far as is known."
    if again := restarted(run.restarts or 0):
        head += f", {again},"
    if run.absent:
        return f"{head}: {text.one_line(run.absent)}."
    if run.ahead:
        return f"{head} is queued ahead, to begin at its time."
    if run.paused:
        return f"{head} is held by the pause."
    why = f": {text.one_line(run.reason)}" if run.reason else ""
    return f"{head} is {'held' if run.held else 'waiting in the queue'}{why}.{fix}"


def _last_sentences(entry: EntryStatus, status: Status, style: Style) -> Iterator[str]:
    last = entry.last
    if not last:
        if not entry.runs and not entry.series:
            refused = entry.problem or entry.switch or troubles(status, entry.name)  # by hand it would be as well
            yield "It has not run yet." if refused else "It has not run yet. Now: " + command("run", entry.name)
        return
    yield _last_sentence(last, style)
    if entry.bad_node and entry.failures:
        from cronhpc.script.spelling import directive

        node = text.clean(entry.bad_node)
        line = directive(status.batch.dialect, "exclude", node)
        advice = f" If that node is at fault, add: {line}" if line else ""
        yield f"Its last failures all ran on {node}.{advice}"
    streak = _streak(entry)
    log = Advice(f"Its log: {text.clean(last.log)} (", runs.log_of(last), ")") if last.log else ""
    if streak or log:
        yield joined(" ", filter(None, (streak, log)))


def _last_sentence(last: HistoryRun, style: Style) -> str:
    slot = last.slot
    when = style.dated(slot) if slot else "at an unknown time"
    of_slot = style.slot_words(slot) if slot else f"The slot {when}"
    subject = f"The run by hand, {when}," if last.by_hand else of_slot
    if not last.job:
        more = f": {text.one_line(last.detail)}" if last.detail else ""
        return f"{subject} {runs.result_sentence(last)}{more}."
    at = "" if last.submitted is None else f" at {style.clock(last.submitted, seconds=True)}"
    parts = [f"{subject} was submitted{at} as job {last.job}"]
    if last.waited is not None:
        parts.append(f"waited {times.took(last.waited)}")
    if last.took is not None:
        where = f" on {text.clean(last.node)}" if last.node else ""
        parts.append(f"ran {times.took(last.took)}{where}")
    detail = f" ({text.one_line(last.detail)})" if last.detail else ""
    attempt = f", in its attempt {last.attempt}" if last.attempt > 1 else ""
    return f"{', '.join(parts)}, and {runs.result_sentence(last)}{attempt}{detail}."


def _streak(entry: EntryStatus) -> str:
    if entry.failures > 1:
        limit = entry.suspend_after
        after = f"suspend-after is {limit}" if limit else "suspend-after is off"
        return f"It has failed {entry.failures} times in a row ({after})."
    if entry.successes > 1 and entry.last and runs.slot_or_end(entry.last) and entry.last.result == Result.OK:
        return f"It has gone well {entry.successes} times in a row."
    return ""


# --- clocks --------------------------------------------------------------------------------------------------------


def _clock_change(change: ClockChange, schedule: Schedule, style: Style) -> str:
    day, words = change_words(change, style)
    return f"On {day} {words}: {_clock_effect(change, schedule)}."


def _clock_effect(change: ClockChange, schedule: Schedule) -> str:
    """What the change does to the schedule: a fixed time that is skipped runs at the change, one that repeats once."""
    if schedule.fields is None or schedule.wildcard:
        return "it follows real time"

    naive = parse(schedule.canonical, zone_of("UTC"))
    low, high = sorted((change.at + change.before, change.at + change.after))
    if naive.next_epoch(low - 1) >= high:
        return "its times are not touched"
    if change.after > change.before:
        return "what falls into the hour left out runs once, at the change"
    return "what falls into the hour that comes twice runs once, the first time"
