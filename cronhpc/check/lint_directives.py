"""The linter's view of a script's first line and its directives: what sbatch refuses, ignores, or takes by surprise."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from cronhpc.core.model import Problem
from cronhpc.core.model.site import Partition
from cronhpc.cron.duration import format_duration
from cronhpc.cron.values import count, dataclass, field, grouped, nearest, replace
from cronhpc.script import sbatch_options, spelling
from cronhpc.script.dialect import SLURM, SYSTEMS, Dialect
from cronhpc.script.directives import comment_lines, cut_at, text_lines
from cronhpc.script.header import Header, looks_meant
from cronhpc.script.sbatch_options import Option

if TYPE_CHECKING:
    from cronhpc.script.spelling import Translation

_VARIABLE = re.compile(r"\$(?:[A-Za-z_]|\{|\()|`")
_PATHS = frozenset({"output", "error", "input", "chdir"})
_TYPO = re.compile(r"#([A-Za-z_]{4,9})\s+-{1,2}[A-Za-z]")
_NEAREST = 3
_Asked = Callable[[str], float | None]
_Most = Callable[[Partition], float | None]
_CRON_MISSPELT = re.compile(r"\s*#+\s*CRON(?=\s)(?P<rest>.*)", re.IGNORECASE)


class Unreadable(NamedTuple):
    """Where and why a script cannot be read, the command that tells so, and who cannot read it."""

    line: int
    why: str
    by: str = "bash -n"
    who: str = "its shell"


@dataclass(frozen=True, slots=True)
class Facts:
    """What only the cluster and the disk know; None is unknown, and then nothing is said."""

    partitions: Mapping[str, Partition] | None = None  # by name
    is_folder: Callable[[str], bool | None] | None = None
    refused: tuple[str, ...] = ()  # why sbatch would not take the script, in its own words: the last is its own
    is_function: Callable[[str], bool] | None = None  # of the shell, in the environment that runs get
    unreadable: Unreadable | None = None
    missing: str = ""  # the interpreter that its first line names, where this machine has none of that name
    added: Mapping[str, str] = field(default_factory=dict)  # options that the settings give it
    path: str = "FILE"  # of the script, as commands have it


# --- what was read -------------------------------------------------------------------------------------------------


def options(header: Header, facts: Facts, dialect: Dialect) -> Iterator[Problem]:
    """What is wrong, or surprising, in the options that the batch system reads."""
    yield from _flags(header, dialect)
    yield from _repeated(header)
    if not dialect.as_sbatch:
        for option in header.options:
            if why := spelling.fault(option, dialect):
                key = option.written.split(" ")[0].lstrip("-")
                yield Problem("E207", f"{_as_written(option)}: {why[0]}", why[1], line=option.line, key=key)
        yield from _folders(header, facts)
        return
    reported = {(each.line, each.key) for each in header.problems}
    for option in header.options:
        if (option.line, option.name) not in reported:
            yield from _value(option)
    yield from _together(header, facts.added)
    yield from _world(header, facts)


def _as_written(option: Option) -> str:
    return f'"{option.directive} {option.written}"'


def _value(option: Option) -> Iterator[Problem]:
    value = option.value
    if value is None:
        return
    written, name = _as_written(option), f"--{option.name}"
    why = sbatch_options.fault(option.name, value)
    tilde = option.name in _PATHS and value.startswith("~")
    if tilde or _VARIABLE.search(value):
        word = "~" if tilde else "variables"
        fix = "Use %x, %j, or a fixed path." if option.name in _PATHS else "Write the value itself."
        what = f"{written}: sbatch does not expand {word}{', and refuses it' if why else ''}."
        yield Problem("E207" if why else "W210", what, fix, line=option.line, key=option.name)
    elif why or sbatch_options.is_suspect(value):
        changed = sbatch_options.fix_of_value(name, value)
        what, fix = why or ("sbatch takes it as it stands.", "")
        fix = f"No blanks around =: write {name}{value}." if value.startswith("=") else fix
        what = f"{written}: {what}"
        yield Problem("E207" if why else "W225", what, changed or fix, line=option.line, key=option.name)
    elif option.name == "mail-type":
        yield from _ignored_mail_types(option)
    elif option.name == "dependency" and re.search(r"(?:^|[:,?])\s*\d+", value):
        what = f"{written}: every run waits for the same job; once Slurm has forgotten it, sbatch may refuse the run."
        yield Problem("W226", what, "Remove it: the schedule says when.", line=option.line, key="dependency")


def _ignored_mail_types(option: Option) -> Iterator[Problem]:
    """Of several types sbatch drops those that it does not know, without a word."""
    unknown = [w for w in (option.value or "").split(",") if w.lower() not in sbatch_options.MAIL_TYPES]
    for word in unknown:
        what = f'{_as_written(option)}: sbatch ignores "{word}".'
        right = sbatch_options.nearest_mail_type(word.strip())
        fix = f"Write {right}, without blanks." if word != word.strip() else f"Write {right}."
        yield Problem("W222", what, fix, line=option.line, key="mail-type")


def _flags(header: Header, dialect: Dialect) -> Iterator[Problem]:
    release = dialect.release or SLURM.release
    surprises = {
        "hold": ("W218", "each run stays held until you release it.", f"Remove it, or release them: {release} ID."),
        "begin": ("W221", "each run waits until then, whatever its slot.", "Remove it: the schedule says when."),
        "test-only": ("W219", "sbatch submits nothing.", "Remove it."),
    }
    if dialect.runs_here:
        what = "the local backend has no arrays, and refuses it."
        surprises["array"] = ("E201", what, "Loop in the script, or use Slurm.")
    if header.value("chdir") is None:  # Grid Engine's -cwd
        what = "runs are submitted from your home folder, so that is where they start."
        fix = f"Write {spelling.directive(dialect, 'chdir', '/PATH')}; remove it if home is meant."
        surprises["chdir"] = ("W303", what, fix)
    for name, (code, what, fix) in surprises.items():
        if option := header.find(name):
            yield Problem(code, f"{_as_written(option)}: {what}", fix, line=option.line, key=name)


def _together(header: Header, added: Mapping[str, str]) -> Iterator[Problem]:
    for component in grouped(header.options, lambda option: option.component).values():
        given = {each.name: each for each in component if not sbatch_options.fault(each.name, each.value or "")}
        for code, what, option, fix in sbatch_options.conflicts(given, frozenset(added)):
            yield Problem(code, what, fix, line=option.line, key=option.name)


def _repeated(header: Header) -> Iterator[Problem]:
    first: dict[tuple[str, int], Option] = {}
    for option in header.options:
        before = first.setdefault((option.name, option.component), option)
        if option.value == before.value or option.name == "mail-type" or option.name.startswith("-"):  # they add up
            continue
        if option.directive != before.directive:
            what = f"{_as_written(option)} wins over {_as_written(before)} of line {before.line}."
            fix = "Remove one, or add #SBATCH --ignore-pbs."
            yield Problem("W217", what, fix, line=option.line, key=option.name)
        else:
            what = f"{_as_written(option)}: line {before.line} says {before.written}, and the last one counts."
            yield Problem("W220", what, "Remove one.", line=option.line, key=option.name)


def _world(header: Header, facts: Facts) -> Iterator[Problem]:
    partition = header.find("partition")
    value = (partition and partition.value) or ""
    doubted = sbatch_options.fault("partition", value) or sbatch_options.is_suspect(value)
    if partition and facts.partitions is not None and not doubted:
        yield from _partitions(partition, facts.partitions)
    if facts.partitions is not None and not facts.refused:  # else sbatch has said it
        yield from _too_much(header, facts.partitions, facts.added.get("partition") or value)
    yield from _folders(header, facts)


def _folders(header: Header, facts: Facts) -> Iterator[Problem]:
    if facts.is_folder is None:
        return
    reported: set[str] = set()
    for option in (header.find("output"), header.find("error")):
        folder = _fixed_folder(option.value or "") if option else ""
        if option and folder and folder not in reported and facts.is_folder(folder) is False:
            reported.add(folder)
            what = f"{_as_written(option)}: there is no folder {folder}, so the job would fail without a log."
            yield Problem("W215", what, f"mkdir -p {shlex.quote(folder)}", line=option.line, key=option.name)
    chdir = header.find("chdir")
    if chdir and (chdir.value or "").startswith("/") and facts.is_folder(chdir.value or "") is False:
        what = "there is no such folder here; where the scheduler sees none, no run is submitted."
        fix = "Write a folder that all nodes see, or make this one."
        yield Problem("W216", f"{_as_written(chdir)}: {what}", fix, line=chdir.line, key="chdir")


def _too_much(header: Header, partitions: Mapping[str, Partition], chosen: str) -> Iterator[Problem]:
    """What no partition that the job may go to gives: such a job is refused, or waits for ever."""
    candidates = [partitions[name] for name in chosen.split(",") if name in partitions] if chosen else []
    candidates = candidates or [each for each in partitions.values() if each.default and not chosen]
    for name, (requested, limit_of, in_words) in _MEASURES.items():
        option = header.find(name)
        wanted = requested(option.value) if option and option.value else None
        limits = [limit_of(each) for each in candidates]
        if option is None or wanted is None or not limits or any(not room or wanted <= room for room in limits):
            continue
        room, names = max(filter(None, limits)), ", ".join(each.name for each in candidates)
        what = f"{_as_written(option)}: partition {names} gives at most {in_words(room)}."
        open_to_all = (each for each in partitions.values() if not each.accounts)
        larger = sorted(each.name for each in open_to_all if (limit_of(each) or wanted) >= wanted)
        others = f", or another partition: {', '.join(larger[:_NEAREST])}" if larger else ""
        fix = f"The job would be refused, or wait for ever: ask for less{others}."
        yield Problem("W231", what, fix, line=option.line, key=option.name)


def _asked_time(text: str) -> float | None:
    if text.strip("0:-") == "":
        return None  # no limit of its own
    try:
        return sbatch_options.time_limit(text) or float("inf")
    except ValueError:
        return None


def _asked_number(text: str) -> float | None:
    match = re.match(r"\d+(?=-\d+$|$)", text.strip())
    return int(match[0]) if match else None


def _nodes_of(partition: Partition) -> float | None:
    return min(filter(None, (partition.most_nodes, partition.nodes)), default=None)


# Option: what its value asks for, what a partition gives (None, 0: not known, or no limit), how that is shown.
_MEASURES: dict[str, tuple[_Asked, _Most, Callable[[float], str]]] = {
    "time": (_asked_time, lambda each: each.time_limit, lambda seconds: format_duration(int(seconds))),
    "nodes": (_asked_number, _nodes_of, lambda number: count(int(number), "node")),
    "mem": (sbatch_options.megabytes, lambda each: each.memory, lambda number: f"{int(number)}M a node"),
    "cpus-per-task": (_asked_number, lambda each: each.cpus, lambda number: f"{count(int(number), 'CPU')} a node"),
}


def _partitions(option: Option, partitions: Mapping[str, Partition]) -> Iterator[Problem]:
    for name in (option.value or "").split(","):
        if name and name not in partitions and not _VARIABLE.search(name):
            what = f"{_as_written(option)}: this cluster has no partition {name}."
            yield Problem("E227", what, _which_partition(name, partitions), line=option.line, key="partition")


def _which_partition(name: str, partitions: Mapping[str, Partition]) -> str:
    """The one that is meant, or the nearest few, in an order that does not change."""
    import difflib

    near = nearest(name, sorted(partitions))
    if near:
        return f"Did you mean {near}?"
    by_likeness = sorted(partitions, key=lambda each: (-difflib.SequenceMatcher(None, name, each).ratio(), each))
    more = f" and {len(partitions) - _NEAREST} more: sinfo -s" if len(partitions) > _NEAREST else ""
    return f"There are {', '.join(sorted(by_likeness[:_NEAREST]))}{more}."


def _fixed_folder(pattern: str) -> str:
    """The folder of an absolute output pattern, up to the first part that holds a %; "" where there is none."""
    if not pattern.startswith("/") or _VARIABLE.search(pattern):
        return ""
    return pattern.partition("%")[0].rpartition("/")[0]


# --- what was not read ---------------------------------------------------------------------------------------------


def unread(data: bytes, text: str, header: Header, dialect: Dialect) -> Iterator[Problem]:
    """Lines that look like directives and are comments to sbatch, or to cronhpc, and directives that are cut short."""
    yield from _of_others(data, header, dialect)
    from cronhpc.script.shell_text import lex

    its_lines = _its_lines(dialect.prefix)
    first_command = 0
    late: list[tuple[int, str]] = []
    for piece in lex(text):
        if not piece.comment:
            first_command = first_command or piece.line
        elif not first_command:
            yield from _misspelt(piece.line, piece.text, dialect)
        elif its_lines.match(piece.text):
            late.append((piece.line, piece.text))
        elif piece.text.startswith("#CRON") and looks_meant(piece.text.removeprefix("#CRON")):
            what = f'"{piece.text.strip()}": stands after the first command (line {first_command}), so it is not read.'
            yield Problem("W102", what, f"Move it up to the {dialect.prefix} lines.", line=piece.line, key="#CRON")
    where = f"after the first command (line {first_command})"
    above = f"above line {first_command}" if first_command else "to the lines below #!"
    if not late and not header.options:
        late, where, above = [*_in_a_text(text, its_lines)], "within a text", "to the lines below #!"
    if late and not spelling.reads_on(dialect):
        line, directive = late[0]
        more = f" and {len(late) - 1} more" if len(late) > 1 else ""
        what = f'"{directive.strip()}"{more}: {where}, so {reader(dialect)} does not read it.'
        yield Problem("W211", what, f"Move it {above}.", line=line, key=dialect.prefix)
    if dialect.as_sbatch:
        yield from _cut_short(data)


@lru_cache(maxsize=4)
def _its_lines(prefix: str) -> re.Pattern[str]:
    return re.compile(rf"{re.escape(prefix)}(?:\s|-)")


def _of_others(data: bytes, header: Header, dialect: Dialect) -> Iterator[Problem]:
    """Lines for another batch system, where this one's say nothing of the same."""
    own = {option.name for option in header.options}
    read = _READ_BY_SBATCH if dialect.as_sbatch else {dialect.prefix}
    others = [each for each in SYSTEMS if each.prefix not in read]
    lines = (
        (*each, source) for each in comment_lines(data) for source in others if spelling.is_directive(each[1], source)
    )
    for number, line, source in lines:
        right = spelling.foreign_line(line, number, source, dialect, own)
        if right.line or right.missing:
            what = f'"{line.strip()}": a line for {source.title}, which {reader(dialect)} does not read.'
            yield Problem("W233", what, _instead(right, dialect), line=number, key=source.prefix)


_READ_BY_SBATCH = frozenset({"#SBATCH", "#PBS", "#BSUB"})


def reader(dialect: Dialect) -> str:
    """The command that reads the script, as people know it."""
    return (dialect.commands or SLURM.commands)[0]


def _instead(right: Translation, dialect: Dialect) -> str:
    lacking = f"{reader(dialect)} has nothing of its own for {', '.join(right.missing)}."
    return " ".join([*([f"Write '{right.line}'."] if right.line else []), *([lacking] if right.missing else [])])


def with_translations(data: bytes, problems: Iterable[Problem], dialect: Dialect) -> Iterator[Problem]:
    """`problems`; where sbatch obeys another system's line that it cannot read, with what it stands for."""
    lines = dict(text_lines(data)) if any(problem.code == "E209" for problem in problems) else {}
    for problem in problems:
        line = lines.get(problem.line, "") if problem.code == "E209" else ""
        source = next((system for system in SYSTEMS if spelling.is_directive(line, system)), None)
        right = spelling.foreign_line(line, problem.line, source, dialect) if source else None
        yield replace(problem, fix=f"Write '{right.line}', or remove it.") if right and right.line else problem


def _in_a_text(text: str, its_lines: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """The directives of a docstring, or of a here-document that nobody reads, which begins a script."""
    end = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if end and (line.strip() == end if end.isidentifier() else end in line):
            return
        if end and its_lines.match(line):
            yield number, line
        if not end and line.strip() and not line.lstrip().startswith("#"):
            opened = re.match(r"\s*(?:(?::|true)\s+<<-?\s*['\"]?(\w+)|[rRuU]?(\"\"\"|\'\'\')|:\s+(['\"])$)", line)
            if opened is None:
                return
            end = opened[1] or opened[2] or opened[3]


def _cut_short(data: bytes) -> Iterator[Problem]:
    """Directives of which sbatch reads less than is there: up to a `#`, or up to a backslash at the end."""
    lines = list(comment_lines(data))
    for (number, line), (_, following) in pairwise([*lines, (0, "")]):
        if not line.startswith("#SBATCH") or not ("#" in line[1:] or line.rstrip().endswith("\\")):
            continue
        text = line.removeprefix("#SBATCH")
        at = cut_at(text)
        word = text[:at].split(" ")[-1] if at > 0 else ""
        if text[at:].startswith("#SBATCH") and at >= 0:
            what = f'"{text[at:].strip()}": behind another directive, so a comment to sbatch.'
            yield Problem("W224", what, "Write it on a line of its own.", line=number, key="#SBATCH")
        elif at > 0 and word.strip() and not text[at - 1].isspace():
            name, _, value = f"{word}{text[at:].split()[0]}".partition("=")
            what = f'"#SBATCH{text.rstrip()}": sbatch reads it up to the #: "{word.strip()}".'
            is_text = value and name.lstrip("-") not in sbatch_options.JUDGED
            fix = f'Quote it: {name}="{value}".' if is_text else "Put a blank before the #."
            yield Problem("W224", what, fix, line=number, key="#")
        elif line.rstrip().endswith("\\") and not following.startswith("#SBATCH"):
            what = f'"{line.strip()}": sbatch joins no lines, so what follows is not read.'
            yield Problem("W224", what, "Begin each line with #SBATCH.", line=number, key="#SBATCH")


def _misspelt(line: int, text: str, dialect: Dialect) -> Iterator[Problem]:
    if text.startswith((dialect.prefix, "#CRON", "#!")):
        return
    fix = "" if spelling.reads_on(dialect) else _right_spelling(text, dialect.prefix)
    if fix:
        what = f'"{text.strip()}": a comment to {reader(dialect)}, for its spelling.'
        yield Problem("W212", what, fix, line=line, key=dialect.prefix)
    match = _CRON_MISSPELT.match(text)
    if match and looks_meant(match["rest"]):
        what = f'"{text.strip()}": a comment, for its spelling.'
        fix = f'Write "#CRON {match["rest"].strip()}" at the beginning of the line.'
        yield Problem("W102", what, fix, line=line, key="#CRON")


def _right_spelling(text: str, prefix: str) -> str:
    """What to do with a misspelt directive; "" for an ordinary comment, or one that is switched off."""
    bare = text.lstrip()
    is_meant = bare.upper().startswith(prefix) and re.match(r"\s+-|-", bare[len(prefix) :]) is not None
    if is_meant and text != bare and bare.startswith(prefix):
        blanks = "tab" if text.startswith("\t") else "blanks"
        return f'Remove the {blanks} before it: "{text.strip()}" has to begin its line.'
    right = ""
    typo = _TYPO.match(text)
    if is_meant:
        right = f"{prefix}{text.strip()[len(prefix) :]}"
    elif typo and typo[1] != prefix[1:]:
        import difflib

        if difflib.SequenceMatcher(None, typo[1].upper(), prefix[1:]).ratio() > 0.8:  # noqa: PLR2004 - one letter off
            right = f"{prefix}{text[1 + len(typo[1]) :].rstrip()}"
    return f'Write "{right}".' if right else ""
