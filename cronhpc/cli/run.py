"""`cronhpc run NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.common import no_such, site_of
from cronhpc.core.model import Advice, command

if TYPE_CHECKING:
    import argparse

    from cronhpc.cli.door import Door
    from cronhpc.core.model import Entry, Outcome
    from cronhpc.site import Site
    from cronhpc.tick import Report

HELP = "Run an entry now, whatever its schedule says; its next slots stay as they are. Switches and trust hold."
EXAMPLE = "cronhpc run backup"


_TRIES = 30  # seconds, for as many runs of one entry asked for at once


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its own options."""
    parser.add_argument("name", metavar="NAME", help="an entry")


def run(args: argparse.Namespace, door: Door) -> int:
    """Exit code 1 if it was not submitted."""
    from cronhpc.store.entries import FRESH

    site = site_of(args, door)
    report = _once(site, door.now, args.name)
    if _just_changed(report):  # who asks for a run by hand has surely finished writing in a moment
        door.wait(FRESH + 1)
        report = _once(site_of(args, door), door.again().now, args.name)
    for _ in range(_TRIES):  # its slot is this second, and somebody else has taken that one
        if not _taken(report):
            break
        door.wait(1)
        report = _once(site_of(args, door), door.again().now, args.name)
    entry = next((each for each in report.world.entries if each.name == args.name), None)
    if entry is None:
        raise no_such("entry", args.name, (each.name for each in report.world.entries))
    return _tell(args, door, site, report, entry)


def _once(site: Site, now: int, name: str) -> Report:
    from cronhpc.clock import reckoned
    from cronhpc.core.model import entry_id
    from cronhpc.tick import tick

    at = reckoned(site, now)
    return tick(site, at.now, only=entry_id(name), sure=at.sure)


def _just_changed(report: Report) -> bool:
    from cronhpc.core.model import Reason, Wait

    return any(isinstance(o.decision, Wait) and o.decision.reason is Reason.JUST_CHANGED for o in report.outcomes)


def _taken(report: Report) -> bool:
    from cronhpc.core.model import Done, Submit
    from cronhpc.launch import TAKEN

    return any(isinstance(o.decision, Submit) and (o.done, o.detail) == (Done.REFUSED, TAKEN) for o in report.outcomes)


def _tell(args: argparse.Namespace, door: Door, site: Site, report: Report, entry: Entry) -> int:
    outcome = report.outcomes[0]
    facts = _facts(outcome, entry, site.batch.name) | {"stays_due": _stays_due(site, outcome)}
    if args.json:
        door.json(facts)
    elif facts["job"] and facts["released"]:
        door.say(_submitted(facts))
    else:
        door.complain(_not_submitted(facts))
    return FINE if facts["job"] and facts["released"] else ATTENTION


def _facts(outcome: Outcome, entry: Entry, backend: str) -> dict[str, Any]:
    from cronhpc.core.model import Done, Submit, slot_text
    from cronhpc.views.times import iso

    decision = outcome.decision
    slot = decision.key.slot if isinstance(decision, Submit) else None
    log = ""
    if outcome.job_id and slot is not None and entry.output:
        number = f"{outcome.job_id}_*" if entry.array else outcome.job_id
        log = f"log/{decision.key.entry}/{slot_text(slot)}-{number}.out" if isinstance(decision, Submit) else ""
    return {
        "entry": entry.name,
        "job": outcome.job_id,
        "released": outcome.done is Done.OK,
        "slot": iso(slot),
        "log": log,
        "reason": str(getattr(decision, "reason", "")),
        "detail": outcome.detail or getattr(decision, "detail", ""),
        "undo": _undo(outcome.job_id, backend) if outcome.job_id else None,
        "held": entry.holds_itself,
    }


def _stays_due(site: Site, outcome: Outcome) -> bool:
    """Whether the order stands although no job came of it: ordered once more it would run twice."""
    from cronhpc.core.model import Done, Submit
    from cronhpc.store.claims import Claims

    row = outcome.decision
    return isinstance(row, Submit) and outcome.done is Done.PASSING and Claims(site.paths.claims).exists(row.key)


def _undo(job_id: str, backend: str) -> str:
    return f"scancel {job_id}" if backend == "slurm" else command("kill", job_id) + " && " + command("tick")


def _submitted(facts: dict[str, Any]) -> str:
    from cronhpc.views import text

    held = " (its script asks to be held: scontrol release it)" if facts["held"] else ""
    log = f"\nits log: {text.clean(facts['log'])}, or: " + command("logs", facts["entry"]) if facts["log"] else ""
    head = f"submitted {text.name(facts['entry'])} as job {facts['job']}{held}"
    return Advice(head, log, "\nundo: ", facts["undo"])


def _not_submitted(facts: dict[str, Any]) -> str:
    from cronhpc.views import text

    why = ": ".join(part for part in (facts["reason"], text.one_line(facts["detail"])) if part)
    more = "\nmore: " + command("status", facts["entry"])
    if facts["stays_due"]:
        due = "\nit stays due, and the next tick submits it: do not order it once more; now: " + command("tick")
        return Advice(f"{text.name(facts['entry'])} is not submitted yet: {why}", due, more)
    return f"{text.name(facts['entry'])} was not submitted: {why}" + more
