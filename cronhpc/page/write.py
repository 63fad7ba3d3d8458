"""The page as a file (history, the tails of failed logs, the slots to come; view.py draws it), and metrics."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cronhpc.core.model import Problem, StateError, SwitchKind
from cronhpc.core.model.decode import MisfitError
from cronhpc.store.files import Paths, read_json, umask, write_out
from cronhpc.views import chain, text
from cronhpc.views.attention import BAD, grouped
from cronhpc.views.facts import VERSION, Concern, DeletedEntry, EntryStatus, Notice, Status, of_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client.core import Metric

    from cronhpc.engine.site import Site
    from cronhpc.page.view import Past
    from cronhpc.views.style import Style


_EVERY = 60  # seconds: a daemon ticks at every event, and a page takes a second to draw


def drawn(paths: Paths, known: Status, style: Style, *, to: Path | None = None, kept: bool, refresh: int) -> str:
    """The page as `style.now` and `style.zone` see it; `known` is what `status` knows. Raises OSError.

    `to`: where it will lie (links to logs lead there from the cron directory only); `kept`, `refresh`: `render`'s.
    """
    from cronhpc.page import view
    from cronhpc.store import history
    from cronhpc.store.logs import tail_of

    pasts = view.digest(history.rows(paths.history), style.now)
    logs = {row.get("log", "") for row in view.failures(pasts)} - {""}
    read = {log: view.tail(text) for log in logs if (text := tail_of(paths.root, log))}
    beside_logs = to is not None and to.parent == paths.root
    slots = _slots(known, style.now)
    return view.render(known, pasts, slots, read, style, beside_logs=beside_logs, kept=kept, refresh=refresh)


def _slots(known: Status, now: int) -> dict[str, Sequence[int]]:
    """The slots of the next day, by entry."""
    from cronhpc.cron.schedule import between
    from cronhpc.views.explain import schedule_of
    from cronhpc.views.times import DAY

    slots: dict[str, Sequence[int]] = {}
    for entry in known.entries:
        schedule = schedule_of(entry)
        if schedule is not None:
            slots[entry.name] = between(schedule, now, now + DAY)
    return slots


def place(paths: Paths, wanted: str) -> Path:
    """Where a page goes: a relative path lies in the cron directory."""
    return paths.root / os.path.expanduser(wanted)  # noqa: PTH111 - a text


def write(path: Path, text: str) -> None:
    """Put the page there, whole or not at all, readable as the umask says. Raises OSError."""
    write_out(path, text.encode("utf-8", "replace"), 0o644 & ~umask())


def write_when_due(site: Site, now: int) -> tuple[Problem, ...]:
    """After a tick, where `page:` is set. What goes wrong is a problem, and no reason to lose the tick."""
    from cronhpc.cron.zones import zone_of
    from cronhpc.store import trust
    from cronhpc.views.style import Style

    path = place(site.paths, site.settings.page)
    if refused := trust.place_refusal(path, site.paths, site.settings, site.uid):
        what = f"the page was not written: {refused.what} So another folder could be put in the place of its own."
        return (Problem("W372", what, refused.fix, "", 0, "page"),)
    try:
        if _is_new(path, now):
            return ()
        known = read_json(site.paths.status, VERSION)
        if known is not None:
            style, refresh = Style(now, zone_of(site.timezone)), site.settings.page_refresh
            with suppress(MisfitError):
                write(path, drawn(site.paths, of_json(known), style, to=path, kept=True, refresh=refresh))
    except (OSError, StateError) as error:
        return (Problem("W370", f"the page was not written: {error}", "Fix `page:` in cronhpc.yaml.", "", 0, "page"),)
    except ImportError as error:
        return (Problem("W371", f"the page needs {error.name}.", "Install cronhpc again, with what it needs."),)
    return ()


def _is_new(path: Path, now: int) -> bool:
    try:
        return 0 <= now - path.stat().st_mtime < _EVERY
    except FileNotFoundError:
        return False


# --- metrics ----------------------------------------------------------------------------------------------------------

Value = tuple[dict[str, str], float]
_CRITICAL = BAD | {Concern.MISSED}


class Gauge(NamedTuple):
    """One metric: its name without the prefix, what it says, and its values by labels."""

    name: str
    words: str
    values: Sequence[Value]


def prometheus(known: Status, pasts: Mapping[str, Past] | None, now: int) -> str:
    """The text format. `known`: `status.facts`; `pasts`: what history tells, None where it may not be read."""
    from prometheus_client import generate_latest
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector

    whose = {"owner": text.clean(known.owner), "directory": text.clean(known.directory)}

    class Facts(Collector):
        """All of them, once."""

        def collect(self) -> Iterator[Metric]:
            for gauge in _gauges(known, pasts, now):
                names = sorted({name for labels, _ in gauge.values for name in labels})
                family = GaugeMetricFamily(f"cronhpc_{gauge.name}", gauge.words, labels=[*whose, *names])
                for labels, value in gauge.values:
                    family.add_metric([*whose.values(), *(text.clean(labels[name]) for name in names)], value)
                yield family

    return generate_latest(Facts()).decode()


def _gauges(known: Status, pasts: Mapping[str, Past] | None, now: int) -> Iterator[Gauge]:
    yield from _chain(known, now)
    for name, words, value in _OF_ENTRIES:
        values = [({"entry": each.name}, at) for each in known.entries if (at := value(each, now)) is not None]
        yield Gauge(name, words, values)
    yield Gauge("live_runs", "Runs in the queue by their state.", _live((*known.entries, *known.deleted)))
    deleted = [({"entry": each.name}, len(each.runs)) for each in known.deleted]
    yield Gauge("deleted_live_runs", "Runs in the queue of an entry that was deleted.", deleted)
    standing = [switch.kind for switch in known.switches if not switch.expired]
    yield Gauge("switches", "Switches that stand.", [({"kind": kind}, standing.count(kind)) for kind in SwitchKind])
    yield Gauge("needs_attention", "Things that somebody has to look at.", [({}, len(known.attention))])
    if pasts is not None:
        runs = [
            ({"entry": name, "result": result}, number)
            for name, past in sorted(pasts.items())
            for result, number in sorted(past.results.items())
        ]
        yield Gauge("runs", "Runs and slots of the last 30 days by how they ended.", runs)
    if cost := known.cost:
        yield Gauge("own_jobs", "Jobs that the scheduler itself ran in the last 30 days.", [({}, cost.jobs)])
        yield Gauge("own_cpu_seconds", "CPU seconds allocated to them.", [({}, cost.cpu_seconds)])


def _chain(known: Status, now: int) -> Iterator[Gauge]:
    state, last = known.chain.state, known.chain.last_tick
    yield Gauge("chain_fine", "1 while the scheduler goes on by itself.", [({}, int(state in chain.FINE))])
    yield Gauge("chain_state", "How the scheduler is, in a word.", [({"state": state}, 1)])
    if last is not None:
        yield Gauge("last_tick_timestamp_seconds", "When the scheduler last made its pass.", [({}, last)])
        yield Gauge("chain_age_seconds", "Seconds since then, when this was written.", [({}, now - last)])
    yield Gauge("batch_answers", "1 if the batch system answers.", [({}, int(known.batch.answers))])


def _latency(entry: EntryStatus, _: int) -> int | None:
    last = entry.last
    return None if last is None or last.submitted is None or last.slot is None else max(last.submitted - last.slot, 0)


# Of each entry: a metric, what it says, and its value at an instant, None where nobody knows it.
_OF_ENTRIES: tuple[tuple[str, str, Callable[[EntryStatus, int], int | None]], ...] = (
    ("last_success_slot_timestamp_seconds", "The newest slot that went well.", lambda each, _: each.previous_success),
    (
        "last_success_age_seconds",
        "Seconds since that slot, when this was written.",
        lambda each, now: None if each.previous_success is None else now - each.previous_success,
    ),
    ("next_slot_timestamp_seconds", "The next slot.", lambda each, _: each.next),
    ("failures_in_a_row", "Failed slots in a row.", lambda each, _: each.failures),
    (
        "stopped",
        "1 while a switch or its suspension stops it.",
        lambda each, _: int(bool(each.switch or each.suspended)),
    ),
    ("submit_latency_seconds", "From the newest ended run's slot to its submission.", _latency),
    (
        "queue_wait_seconds",
        "How long that run waited in the queue.",
        lambda each, _: each.last.waited if each.last else None,
    ),
    ("run_seconds", "How long it ran.", lambda each, _: each.last.took if each.last else None),
)


def _live(entries: Sequence[EntryStatus | DeletedEntry]) -> list[Value]:
    runs = ((entry.name, run) for entry in entries for run in entry.runs)
    counts = Counter((name, "held" if run.held else run.state.lower()) for name, run in runs)
    return [({"entry": name, "state": state}, number) for (name, state), number in sorted(counts.items())]


# --- Nagios --------------------------------------------------------------------------------------------------------

OK, WARNING, CRITICAL, UNKNOWN = 0, 1, 2, 3
_FAILING = frozenset({Concern.FAILED, Concern.SUSPENDED})
_WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
_NAMED = 3


def nagios(known: Status, name: str | None, now: int) -> tuple[int, str]:
    """Exit code and one line: of everything, or of one entry."""
    entries = [entry for entry in known.entries if name in {None, entry.name}]
    own = {entry.name for entry in entries} | {entry.source for entry in entries}
    rows = [row for row in known.attention if name is None or row.name in own]
    code = _code(known, rows)
    ordered = sorted(grouped(rows), key=lambda row: row.kind not in _CRITICAL)  # what the exit code is for goes first
    parts = [f"{row.name} {row.what}" for row in ordered[:_NAMED]]
    parts += [f"and {len(ordered) - _NAMED} more"] if len(ordered) > _NAMED else []
    if known.chain.state not in chain.FINE | {chain.State.UNKNOWN}:
        parts.insert(0, f"the scheduler is {known.chain.state}")
    if code == UNKNOWN:
        parts.insert(0, f"{known.batch.name} does not answer")
    deleted = [each for each in known.deleted if name in {None, each.name}]
    parts = parts or ([text.count(len(entries), "entry", "entries") + " fine"] if entries or not deleted else [])
    parts += [f"{each.name} was deleted and has {text.count(len(each.runs), 'job')} left" for each in deleted[:_NAMED]]
    return code, one_line(code, "; ".join(parts), _perfdata(known, entries, rows, now))


def _code(known: Status, rows: Sequence[Notice]) -> int:
    if known.chain.state in chain.DOWN or any(row.kind in _CRITICAL for row in rows):
        return CRITICAL
    if not known.batch.answers or known.chain.state == chain.State.UNKNOWN:
        return UNKNOWN
    return WARNING if rows or known.chain.state not in chain.FINE else OK


def one_line(code: int, what: str, perfdata: str = "") -> str:
    """As plugins print it; the bar is theirs."""
    line = text.one_line(what).replace("|", "/")
    return f"CRONHPC {_WORDS[code]} - {line}" + (f" | {perfdata}" if perfdata else "")


def _perfdata(known: Status, entries: Sequence[EntryStatus], rows: Sequence[Notice], now: int) -> str:
    last = known.chain.last_tick
    named = {row.name for row in rows if row.kind in _FAILING}  # also runs by hand, which count in no streak
    failing = sum(1 for entry in entries if entry.failures or entry.name in named)
    values = [f"entries={len(entries)}", f"failing={failing}", f"attention={len(rows)}"]
    return " ".join([*values, *([f"last_tick_age={max(now - last, 0)}s"] if last is not None else [])])
