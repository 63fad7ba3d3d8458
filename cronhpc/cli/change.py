"""`cronhpc add [JOB]` and `clean`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, FINE
from cronhpc.cli.commands import Command
from cronhpc.cli.console import Console, UsageError, filled, no_such
from cronhpc.core.model import command, joined
from cronhpc.core.retention import Cleaned, Rules, Why
from cronhpc.cron.duration import format_duration
from cronhpc.store.claims import Claims
from cronhpc.views import Facts, text, times
from cronhpc.views.style import Column, table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from cronhpc.cli.ready_made import Copy, ReadyMade
    from cronhpc.script.dialect import Dialect
    from cronhpc.views.style import Style


_ADD_HELP = (
    "Add a ready-made job, or an example to start your own from: without a JOB, list them. The copy is yours to edit: "
    "a job's settings stand at its top, and it changes and deletes nothing until you say so there."
)
_ADD_EXAMPLE = """
cronhpc add
cronhpc add quota-watch
cronhpc add backup --schedule "30 3 * * mon-fri" --as backup-results
cronhpc add first-gpu-job
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", type=filled, metavar="JOB", help="which; without one they are listed")
    parser.add_argument("--schedule", default="", help="instead of the job's own times, as a #CRON line has it")
    parser.add_argument("--as", dest="name", default="", metavar="NAME", help="the entry's name (the job's)")


def _add(args: argparse.Namespace, console: Console) -> int:
    """Exit code 0; what cannot be added is an error."""
    from cronhpc.cli import ready_made
    from cronhpc.cli.check import dialect_here, errors, will_not_run

    dialect = dialect_here(console)
    jobs, examples = ready_made.jobs(), ready_made.examples()
    by_name = {job.name: job for job in (*jobs, *examples)}
    if not args.job:
        if args.schedule or args.name:
            raise UsageError("cronhpc add: which job? See: " + command("add"))
        _list(console, jobs, examples, dialect)
        return FINE
    name = next((job.name for job in by_name.values() if args.job == job.path.name), args.job)
    if name not in by_name:
        raise no_such("ready-made job", args.job, by_name, see=command("add"))
    paths = console.paths()
    choices = {"name": args.name or name, "schedule": args.schedule, "dialect": dialect}
    copy = ready_made.copy_of(by_name[name], paths, console.settings(), **choices)
    ready_made.write(copy)
    wrong = errors(console, [copy.name]) if copy.job.is_entry or copy.cron else []
    facts = {**_facts(copy), "errors": [problem.advice for problem in wrong]}
    console.answer(facts, lambda: joined("\n", [*will_not_run(wrong), *_added(copy, dialect, console)]))
    return FINE


def _list(
    console: Console,
    every_job: tuple[ReadyMade, ...],
    every_example: tuple[ReadyMade, ...],
    dialect: Dialect,
) -> None:
    """Those that are for the batch system that is here."""
    from cronhpc.cli.ready_made import lacking

    jobs = [job for job in every_job if not lacking(job, dialect)]
    examples = [job for job in every_example if not lacking(job, dialect)]
    others = len(every_job) + len(every_example) - len(jobs) - len(examples)
    if console.as_json:
        rows = [{"name": job.name, "runs": job.runs, "what": job.what, "edit": job.edit} for job in jobs]
        console.json({"jobs": rows, "examples": [{"name": job.name, "what": job.what} for job in examples]})
        return
    columns = [Column("JOB"), Column("RUNS"), Column("WHAT IT DOES", least=20, wraps=True)]
    for line in table(columns, [[job.name, job.runs, job.what] for job in jobs], console.style()):
        console.say(line)
    columns = [Column("EXAMPLE"), Column("WHAT IT SHOWS", least=20, wraps=True)]
    for line in ["", *table(columns, [[job.name, job.what] for job in examples], console.style())] if examples else []:
        console.say(line)
    if others:
        console.say(f"\n{others} more are not for {dialect.title}: they ask Slurm, or keep a series going")
    console.say("\nto take one: " + command("add", "JOB"))


def _facts(copy: Copy) -> Facts:
    return {
        "entry": copy.name if copy.job.is_entry or copy.cron else None,
        "job": copy.job.name,
        "path": str(copy.path),
        "cron": copy.cron or None,
        "runs": copy.cron or copy.job.runs,
        "edit": copy.job.edit,
    }


def _added(copy: Copy, dialect: Dialect, console: Console) -> Iterator[str]:
    path = text.word(str(copy.path))
    if copy.job.is_example:
        beside = ", ".join(each.name for each, _ in copy.companions if each.parent == copy.path.parent)
        yield f"added {text.name(copy.name)}: {console.style().path(str(copy.path))}" + (
            f", with {beside}" if beside else ""
        )
        yield f"what it shows: {copy.job.what}"
        yield "read and edit it; its first lines say how to start it"
        yield f"undo: rm -r {text.word(str(copy.path.parent))}"
        return
    when = f"by its line #CRON {copy.cron}" if copy.cron else copy.job.runs
    yield f"added {text.name(copy.name)}: {console.style().path(str(copy.path))}, runs {when}"
    yield f"what it does: {copy.job.what}"
    edit = f"edit, at its top: {copy.job.edit}" if copy.job.edit else ""
    yield edit or "nothing needs an edit; its settings are at its top"
    recurs = copy.job.is_entry or copy.cron
    yield "then try it: " + command("run", copy.name) if recurs else f"then submit it, once: {dialect.submit} {path}"
    yield f"undo: rm {path}"


# --- clean ------------------------------------------------------------------------------------------------------------


_CLEAN_HELP = (
    "Remove old logs, as each tick does: those over a limit of `logs:` in the settings. Live runs' files and each "
    "entry's newest failed log stay; links are never followed."
)
_CLEAN_EXAMPLE = """
cronhpc clean --dry-run
cronhpc clean
"""


def _clean_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", "-n", action="store_true", help="only say which would go, and why")
    parser.add_argument("--all", action="store_true", help="with --dry-run: name each file, however many")


def _clean(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if something could not be looked at or removed."""
    from cronhpc.batch.port import BatchError
    from cronhpc.logs.housekeeping import clean_when_due

    site = console.own_site("cleans its logs")
    try:
        queue = site.batch.queue()
    except BatchError:
        queue = None
    claims = Claims(site.paths.claims).read(frozenset()) if queue else ()
    cleaned = clean_when_due(site, console.now, queue, claims, most=sys.maxsize, always=True, dry_run=args.dry_run)
    if cleaned is None:  # never with `always`
        return FINE
    limits = Rules.of(site.settings, console.now)
    limits = limits.halved() if cleaned.scarce else limits
    style = console.style(site.settings.timezone)
    facts = clean_facts(cleaned, limits, dry_run=args.dry_run)
    console.answer(facts, lambda: clean_words(cleaned, limits, style, dry_run=args.dry_run, everything=args.all))
    return ATTENTION if cleaned.problems else FINE


def clean_facts(cleaned: Cleaned, limits: Rules, *, dry_run: bool) -> Facts:
    """What a clean-up did or would do. `bytes` None: nobody looked at each file's size."""
    from cronhpc.views.attention import problem_facts

    return {
        "dry_run": dry_run,
        "removed": cleaned.removed,
        "bytes": None if cleaned.unmeasured else cleaned.bytes,
        "kept": cleaned.kept,
        "kept_because": cleaned.stays,
        "folders": [
            {"folder": name, "removed": sum(because.values()), "because": because}
            for name, because in cleaned.folders.items()
        ],
        "files": [{"file": file, "because": why} for file, why in cleaned.files],
        "left": cleaned.left,
        "limits": {
            "keep": limits.keep,
            "files": limits.files,
            "total": limits.total,
            "halved_because": cleaned.scarce,
        },
        "problems": [problem_facts(problem) for problem in cleaned.problems],
    }


def clean_words(cleaned: Cleaned, limits: Rules, style: Style, *, dry_run: bool, everything: bool = False) -> str:
    """The same for people."""
    lines = [_headline(cleaned, dry_run=dry_run)]
    if cleaned.scarce:
        lines.append(style.paint(f"{cleaned.scarce}: the limits are halved", "yellow"))
    if cleaned.removed:
        lines += ["", *_removed_table(cleaned, _limit_words(limits), style, everything=everything)]
    held = {why: n for why, n in cleaned.stays.items() if why != Why.WITHIN}
    lines += [""] if held or cleaned.problems else []
    lines += [f"kept  {text.count(n, 'log')}: {why}" for why, n in held.items()]
    advice = (f"{text.clean(problem.what)} " + text.clean(problem.fix) for problem in cleaned.problems)
    lines += [style.paint(style.text(each), "yellow") for each in advice]
    if dry_run and cleaned.removed:
        lines += ["", f"Nothing was removed. Remove them with: {style.command('clean')}"]
    return "\n".join(lines)


def _headline(cleaned: Cleaned, *, dry_run: bool) -> str:
    number, everything = cleaned.removed, text.count(cleaned.removed + cleaned.kept, "log")
    if not number:
        return f"nothing to remove of {everything}"
    size = "" if cleaned.unmeasured else f", {text.size(cleaned.bytes)}"
    return f"{'would remove' if dry_run else 'removed'} {number:,} of {everything}{size}"


def _limit_words(limits: Rules) -> dict[str, str]:
    keep = limits.keep
    age = format_duration(keep) if keep % times.DAY else text.count(keep // times.DAY, "day")
    return {
        Why.OLD: f"older than {age}",
        Why.MANY: f"more than {limits.files:,} of one entry",
        Why.LARGE: f"more than {text.size(limits.total)} in all",
    }


_LISTED = 20  # files that a dry run names one by one; of more it says how many in each folder
_COLUMNS = (Column("FOLDER"), Column("FILES", right=True), Column("WHY"))
_FILES = (Column("FILE"), Column("WHY"))


def _removed_table(cleaned: Cleaned, words: Mapping[str, str], style: Style, *, everything: bool) -> list[str]:
    if cleaned.files and (everything or len(cleaned.files) <= _LISTED):
        return table(_FILES, [(text.clean(file), words[why]) for file, why in cleaned.files], style)
    rows = [
        (text.clean(name), f"{sum(because.values()):,}", _reasons(because, words))
        for name, because in cleaned.folders.items()
    ]
    return table(_COLUMNS, rows, style)


def _reasons(because: Mapping[str, int], words: Mapping[str, str]) -> str:
    if len(because) == 1:
        return words[next(iter(because))]
    return ", ".join(f"{number:,} {words[why]}" for why, number in because.items())


COMMANDS = {
    "add": Command(_ADD_HELP, _ADD_EXAMPLE, _add, _add_arguments),
    "clean": Command(_CLEAN_HELP, _CLEAN_EXAMPLE, _clean, _clean_arguments),
}
