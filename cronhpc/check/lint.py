"""What `cronhpc check` says of one script: all that sbatch or cron would stumble over or silently ignore.

Pure: what only the disk or the cluster knows comes in as `Facts`. Silence a complaint with `# cronhpc: ignore=CODE` on
its line, on a comment line just above, or, for the whole script, among the comments at its top.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cronhpc.batch.slurm.text import is_full
from cronhpc.check import lint_directives, lint_shell
from cronhpc.check.lint_directives import Facts, Unreadable
from cronhpc.core.model import Problem
from cronhpc.core.policy import parse_policies
from cronhpc.cron import grammar
from cronhpc.cron.schedule import ScheduleError, parse
from cronhpc.cron.values import nearest, replace
from cronhpc.cron.zones import zone_of
from cronhpc.script.dialect import SLURM, Dialect
from cronhpc.script.directives import text_lines
from cronhpc.script.header import Header, first_lines, read_header, with_interpreter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cronhpc.script.sbatch_options import Option


# --- codes ------------------------------------------------------------------------------------------------------------

# Those of complaints about scripts, which an ignore comment may name. What they mean: docs/generate/codes.py.
_CODES = (
    "W004 E101 E102 E103 E104 E105 E106 E107 W101 W102 W104 E201 E202 E203 E204 E205 E206 E207 E208 E209 "
    "E221 E222 E223 E224 E225 E226 E227 E228 W229 W210 W211 W212 W215 W216 W217 W218 W219 W220 W221 W222 "
    "W223 W224 W225 W226 W227 E230 W231 W232 W233 W234 W301 W302 W303 W304 W305 W306 W307 W308 W309"
)
CODES = frozenset(_CODES.split())
# Codes of former versions: a comment that ignores one of them is no mistake.
RETIRED = frozenset({"W001", "W002", "W003", "W103", "W213", "W214"})


# --- one script -------------------------------------------------------------------------------------------------------

_IGNORE = re.compile(r"#\s*cronhpc\s*:\s*ignore\b(?:\s*=\s*([A-Za-z]\d+(?:\s*,\s*[A-Za-z]\d+)*))?", re.IGNORECASE)

NO_FACTS = Facts()


def lint_script(
    path_shown: str,
    data: bytes,
    *,
    folder_schedule: str | None = None,
    hash_key: str = "",
    facts: Facts = NO_FACTS,
    scheduled: bool = True,
    dialect: Dialect = SLURM,
) -> tuple[Problem, ...]:
    """Everything to say of the script `data`, by line.

    `folder_schedule` is the schedule that its folder (or its `entries:` row) gives; None where the script must carry
    its own. `scheduled` is False for a file that lies in no cron folder: where it has no #CRON line, it may be the
    script of a series. `dialect`: of the batch system that the script is for.
    """
    first = tuple(first_lines(data, dialect, facts.path))
    data = with_interpreter(data)
    header = read_header(data, path_shown.rpartition("/")[2], dialect)
    text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").decode("utf-8", "surrogateescape")
    unread = tuple(lint_directives.unread(data, text, header, dialect))
    cron_unread = any(p.code == "W102" for p in unread)
    problems = [
        *lint_directives.with_translations(data, header.problems, dialect),
        *first,
        *lint_directives.options(header, facts, dialect),
        *unread,
        *lint_shell.habits(text, header, facts.is_function, scheduled=scheduled or bool(header.cron), dialect=dialect),
        *(() if cron_unread and not header.cron else _schedule(header, folder_schedule, hash_key)),
        *_refused(facts, header, dialect),
        *unreadable(data, facts.unreadable, facts.path),
        *_no_interpreter(facts),
    ]
    if b"\0" in data or not data.strip():
        problems = [*first]  # the rest is noise
    kept = [*_unknown_ignores(data), *without_ignored(problems, data)]
    return tuple(replace(p, file=path_shown) for p in sorted(dict.fromkeys(kept), key=lambda p: (p.line, p.code)))


_INTERPRETERS = ("bash", "sh", "zsh", "python3", "python", "perl", "Rscript", "julia", "ruby", "env")


def _no_interpreter(facts: Facts) -> Iterable[Problem]:
    if not facts.missing:
        return
    place, slash, name = facts.missing.rpartition("/")
    near = nearest(name, _INTERPRETERS)
    fix = f"Did you mean {place}{slash}{near}?" if near and near != name else "Where nodes have it, all is well."
    yield Problem("W232", f"its first line names {facts.missing}, which this machine lacks.", fix, line=1, key="#!")


_MERGE_MARK = re.compile(rb"^(?:<{7} |>{7} |={7}$)", re.MULTILINE)


def unreadable(data: bytes, complaint: Unreadable | None, path: str) -> Iterable[Problem]:
    """Marks of a merge that was left half done; else the `complaint` of its shell."""
    mark = _MERGE_MARK.search(data) if b"<<<<<<< " in data and b">>>>>>> " in data else None
    if mark:
        line = data.count(b"\n", 0, mark.start()) + 1
        yield Problem("E230", "marks of a merge stand in it.", "Finish the merge.", line=line, key="<<<<<<<")
    elif complaint:
        line, why, by, who = complaint
        yield Problem("E230", f"{who} cannot read it: {why}.", f"Try: {by} {path}", line=line, key="syntax")


# What sbatch and the controller say of an option, where they do not name it: the options that may be meant.
_REASONS = (
    ("invalid node name", ("nodelist", "exclude")),
    ("preferred feature", ("prefer",)),
    ("feature specification", ("constraint",)),
    ("license", ("licenses",)),
    ("array", ("array",)),
    ("account", ("account", "partition")),
    ("partition", ("partition",)),
    ("qos", ("qos",)),
    ("time limit", ("time", "deadline")),
    ("time-min", ("time-min",)),
    ("generic resource", ("gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket")),
    ("trackable resource", ("gres", "gpus", "gpus-per-node", "tres-per-task")),
    ("dependency", ("dependency",)),
    ("reservation", ("reservation",)),
    ("memory", ("mem", "mem-per-cpu", "mem-per-gpu")),
    ("cpu count", ("cpus-per-task", "ntasks", "ntasks-per-node", "mincpus")),
    ("node count", ("nodes",)),
    ("more processors", ("ntasks", "cpus-per-task")),
    ("burst buffer", ("bb", "bbf")),
    ("cluster", ("clusters",)),
    ("wckey", ("wckey",)),
    ("too large", ("comment",)),
)
_MAY_NOT_FIT = (
    *("mem", "mem-per-cpu", "gres", "gpus", "gpus-per-node", "cpus-per-task", "ntasks-per-node", "nodes", "ntasks"),
)


def _refused(facts: Facts, header: Header, dialect: Dialect) -> Iterable[Problem]:
    if not facts.refused:
        return
    refusal = " / ".join(facts.refused)
    option = None if is_full(refusal) else _option_meant((facts.refused[-1], refusal), header)
    what = f"{lint_directives.reader(dialect)} would refuse it: {refusal.rstrip('.')}."
    fix = f"Correct the {dialect.prefix} lines, or sbatch: in cronhpc.yaml."
    if is_full(refusal):
        fix = "Nothing, if your jobs fill the queue just now: it is submitted when some end. Else ask for fewer tasks."
    if option:
        fix = f"Correct --{option.name}{'' if option.value is None else f'={option.value}'}."
    yield Problem("E228", what, fix, line=option.line if option else 0, key=option.name if option else "sbatch")


def _option_meant(reasons: Sequence[str], header: Header) -> Option | None:
    """The option of the script that sbatch's word is about, else all `reasons`; None: it may be several, or none."""
    for message in map(str.lower, reasons):
        names = tuple(re.findall(r"--([a-z][a-z-]+)", message))
        names += next((of for words, of in _REASONS if words in message), ())
        option = next(filter(None, map(header.find, names)), None)
        if option is None and "configuration is not available" in message:
            candidates = [each for name in _MAY_NOT_FIT if (each := header.find(name)) and each.value not in {"0", "1"}]
            return candidates[0] if len(candidates) == 1 else None
        if option:
            return option
    return None


# --- the schedule --------------------------------------------------------------------------------------------------


def _schedule(header: Header, folder_schedule: str | None, hash_key: str) -> Iterable[Problem]:
    cron = header.cron
    line, own = (cron.line, cron.schedule) if cron else (0, "")
    _, problems = parse_policies(cron.policies if cron else ())
    yield from problems
    text = own or folder_schedule
    if not text:
        if not any(p.code in {"E105", "E106"} for p in header.problems):
            fix = 'Add a line such as "#CRON 30 4 * * *" below the first, or move it to cron.daily/.'
            yield Problem("E107", "no schedule: there is no #CRON line.", fix, line=line, key="#CRON")
        return
    try:
        parse(text, zone_of("UTC"), hash_key=hash_key)  # no zone makes one wrong
    except ScheduleError as error:
        if own:
            yield Problem("E101", f'"#CRON {text}": {error.what}', error.fix, line=line, key="schedule")
        return
    for what, fix in grammar.steps_beyond(text):
        yield Problem("W104", f'"{text}": {what}', fix, line=line, key="schedule")


# --- ignore comments -----------------------------------------------------------------------------------------------


def _ignores(data: bytes) -> Iterable[tuple[int, bool, bool, tuple[str, ...]]]:
    """(line, alone on it, before the first command, codes) of each ignore comment."""
    top = True
    for number, line in text_lines(data) if b"gnore" in data else ():
        bare = line.strip()
        top = top and (not bare or bare.startswith("#"))
        match = _IGNORE.search(line)
        if match:
            codes = tuple(each.strip().upper() for each in (match[1] or "").split(","))
            yield number, bare.startswith(match[0]), top, codes


def without_ignored(problems: Iterable[Problem], data: bytes) -> Iterable[Problem]:
    """Those that no comment of the script silences."""
    here: set[tuple[str, int]] = set()
    everywhere: set[str] = set()
    for line, alone, top, codes in _ignores(data):
        here |= {(code, number) for code in codes for number in ((line, line + 1) if alone else (line,))}
        everywhere |= set(codes) if alone and top else set()
    return (p for p in problems if p.code not in everywhere and (p.code, p.line) not in here)


def _unknown_ignores(data: bytes) -> Iterable[Problem]:
    for line, _, _, codes in _ignores(data):
        for code in codes:
            if not code:
                what = "an ignore comment that names no code: it silences nothing."
                yield Problem("W004", what, "Write it like: # cronhpc: ignore=W303", line=line, key="ignore")
            elif code not in CODES and code not in RETIRED:
                what = f"ignore={code}: there is no such code."
                yield Problem("W004", what, "The codes of check: man cronhpc.", line=line, key=code)
