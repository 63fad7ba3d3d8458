"""A page with everything on it: a week of alice's cron, with failures, a queue that was long, a switch, a new entry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cronhpc.core.model import Entry, EntryState, HistoryRow, Key, Queue, World, entry_id
from cronhpc.core.plan import plan
from cronhpc.cron.schedule import between
from cronhpc.page import view
from cronhpc.views import status
from cronhpc.views.explain import schedule_of
from cronhpc.views.facts import DeletedEntry, Status
from tests.view_situations import ABOUT, ENTRIES, NOW, STATES, WORLD, at, entry, running, style

NASTY = "<img src=x onerror=alert(1)>"
TAIL = "step 1\n\x1b[31mred\x1b[0m\ttab\n</pre><script>document.title = 'hacked'</script>\nExit 1\n"


def row(name: str, slot: int, result: str = "ok", **facts: Any) -> Any:
    """A row of history: submitted at its slot, waited 20 s, ran for two minutes, unless told otherwise."""
    job = str(4000 + slot // 60 % 1000)
    known = {"what": "run", "key": str(Key(entry_id(name), slot)), "entry": name, "slot": slot, "result": result}
    if result in {"missed", "skipped", "stopped"}:
        return {**known, "what": "slot", "at": slot + 60, **facts}
    times = {"submitted": slot + 4, "started": slot + 24, "ended": slot + 144, "at": slot + 3600}
    return {**known, **times, "job": job, "node": "cpu2", "log": f"log/{entry_id(name)}/{slot}-{job}.out", **facts}


def week() -> list[HistoryRow]:
    """Thirty days of history, newest first."""
    rows = []
    for day in range(30):
        four = at("04:00") - day * 86400
        failed = day in {0, 1, 2, 9}
        wait = 7200 if day == 4 else 126
        times = {"started": four + 4 + wait, "ended": four + 4 + wait + (12 if failed else 5400)}
        rows.append(row("backup", four, "failed" if failed else "ok", exit_code=1 if failed else 0, **times))
        twenty = at("05:20") - day * 86400
        rows.append(row("gpu-health", twenty, started=twenty + 1080 * (day % 7), ended=twenty + 1080 * (day % 7) + 41))
        for half in range(0 if day % 7 in {5, 6} else 21):
            slot = at("08:00") - day * 86400 + half * 1800
            if slot < NOW:
                rows.append(row("hub-sync", slot, "skipped" if half == 9 else "ok"))
        rows.append(row("train-watch", at("22:00", 26) - day * 86400, "stopped" if not day else "ok"))
    rows.append(row(NASTY, at("03:00"), "timed out", detail="<b>time limit</b>"))
    return sorted(rows, key=lambda each: -each["at"])


def world() -> World:
    """The same moment as a world."""
    claim, job = running("sweep", at("12:30"), "4701")
    entries: tuple[Entry, ...] = (*ENTRIES, entry("sweep", "30 12 * * *"), entry("report", "0 9 1 * *"))
    nasty = entry(NASTY, "0 3 * * *")
    states = {**STATES, NASTY: EntryState(watermark=at("03:00"), failures=1, last=row(NASTY, at("03:00"), "timed out"))}
    queue = Queue((*(WORLD.queue.jobs if WORLD.queue else ()), job))
    return replace(WORLD, entries=(*entries, nasty), states=states, claims=(claim,), queue=queue)


def known() -> Status:
    """What `status` knows of it."""
    one = world()
    return status.facts(one, plan(one), one.states, ABOUT)


def html(facts: Status | None = None, rows: list[HistoryRow] | None = None, **options: Any) -> str:
    """The page of that moment, or of other facts and another history; `options`: of `view.render`."""
    facts, rows = known() if facts is None else facts, week() if rows is None else rows
    pasts = view.digest(iter(rows), NOW)
    slots = {e.name: between(s, NOW, NOW + 86400) for e in facts.entries if (s := schedule_of(e)) is not None}
    tails = {str(each["log"]): view.tail(TAIL) for each in view.failures(pasts)}
    return view.render(facts, pasts, slots, tails, style(), **options)


def nothing() -> str:
    """The page of a directory without entries."""
    return html(replace(known(), entries=(), attention=()), [])


def deleted() -> str:
    """The page while an entry that was deleted still runs."""
    facts = known()
    (gone,) = (entry for entry in facts.entries if entry.name == "sweep")
    entries = tuple(entry for entry in facts.entries if entry is not gone)
    return html(replace(facts, entries=entries, deleted=(DeletedEntry(gone.name, gone.runs),)))


LONG = "a-name-that-is-so-long-that-no-column-of-a-table-holds-it-whole-{}"


def many() -> str:
    """The page of forty entries with long names and much to look at, far down in the tree."""
    facts, rows = known(), week()
    names = {f"{LONG.format(n)}-{entry.name}": entry for n in range(6) for entry in facts.entries}
    entries = [replace(entry, name=name) for name, entry in names.items()][:40]
    attention = [
        replace(row, name=f"{LONG.format(n)}-{row.name}", fix=f"rm /{'very/deep/' * 12}{row.name}")
        for n in range(6)
        for row in facts.attention
    ]
    again: list[HistoryRow] = [{**row, "entry": f"{LONG.format(n)}-{row['entry']}"} for row in rows for n in range(6)]
    facts = replace(facts, entries=tuple(entries), attention=tuple(attention), directory="/very/deep" * 20)
    return html(facts, again)
