"""How each batch system spells a job's options: its directives to our names, which are sbatch's, and our names to its.

One that has no name of ours keeps its own, dash and all (`-pe`, `-l h_vmem`). Sources: qsub(1) of Grid Engine 8.1.9 and
of OpenPBS 23.06, tried; bsub(1) of IBM LSF 10.1, and how OpenLava reads lines. Slurm has its own in `directives`.
"""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from cronhpc.cron.duration import DurationError, parse_duration
from cronhpc.cron.values import nearest, replace
from cronhpc.script.advice import Problem
from cronhpc.script.dialect import SYSTEMS, Dialect, option_text
from cronhpc.script.directives import comment_lines, sbatch_options_of, text_lines
from cronhpc.script.sbatch_options import ELSEWHERE, Option, megabytes, time_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence


class Form(NamedTuple):
    """How a kind of value is written, and read: a text of ours to one of theirs, and back; None: it has no such."""

    write: Callable[[str], str | None]
    read: Callable[[str], str | None]


class Value(NamedTuple):
    """What an option of a system's takes, where its form tells: a pattern of it, what it is, and how to write it.

    `indexes`: where in it ranges stand of which none may run backwards, as a pattern.
    """

    form: str
    kind: str
    like: str
    indexes: str = ""


class Spelling(NamedTuple):
    """The options of one system's submitting command."""

    to_the_end: bool  # its lines are read to the end of the file; else to the first command
    glued: str  # what may follow an option's letter without a blank, as a pattern; "": nothing
    flags: str  # the options without a value
    valued: str
    names: Mapping[str, str]  # ours: theirs; "-l mem" is the resource mem of -l; else words that stand for a flag
    patterns: Mapping[str, str]  # of a log's name, ours: theirs
    forms: Mapping[str, Form]  # by our names; of all others the value is the same
    also: Mapping[str, str]  # other options of theirs that mean one of ours
    values: Mapping[str, Value]  # by their options, of those of which a wrong form is certain
    host: str = ""  # what may stand in front of a log's path, as a pattern
    others: str = ""  # options that Univa's and Altair's alone have


# --- values ----------------------------------------------------------------------------------------------------------


def _clock(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _limit(write: Callable[[int], str], ours: str) -> str | None:
    try:
        seconds = time_limit(ours)
    except ValueError:
        return None
    return None if seconds is None else write(seconds)


def _of_parts(unit: int, theirs: str) -> str | None:
    """`3600`, `60:00` or `1:00:00`, the last part in units of so many seconds."""
    parts = theirs.split(":")
    if not all(part.isdecimal() and part.isascii() for part in parts):
        return None
    return _clock(sum(int(part) * 60**place for place, part in enumerate(reversed(parts))) * unit)


_IN_SECONDS = Form(partial(_limit, str), partial(_of_parts, 1))
_IN_HOURS = Form(partial(_limit, _clock), partial(_of_parts, 1))
_IN_MINUTES = Form(partial(_limit, lambda seconds: _clock(seconds + 59).rpartition(":")[0]), partial(_of_parts, 60))
_MOMENT = "%Y-%m-%dT%H:%M:%S"


def _other_moment(old: str, new: str, text: str) -> str | None:
    try:
        return datetime.strptime(text, old).strftime(new)  # noqa: DTZ007 - the reader's zone, on both sides
    except ValueError:
        return None


def _moment(form: str, short: str) -> Form:
    """`short`: a pattern of those without a year, which stay as they are."""

    def write(ours: str) -> str | None:
        return _other_moment(_MOMENT, form, ours) or _as_is(short, ours)

    return Form(write, lambda theirs: _other_moment(form, _MOMENT, theirs) or theirs)


def _size(ours: str) -> str | None:
    return None if megabytes(ours) is None else f"{megabytes(ours)}mb"


def _of_size(theirs: str) -> str | None:
    match = re.fullmatch(r"(\d+)([kmgt])b", theirs.lower())
    return match[1] + match[2].upper() if match else None


def _around(ours: str, theirs: str, inner: str, joints: tuple[str, str] = (",", ",")) -> Form:
    """What stands at `@` of both, of the form `inner`, where `~` is what joins a list: another character in each."""

    def turned(old: str, new: str, joint: int, text: str) -> str | None:
        match = re.fullmatch(re.escape(old).replace("@", f"({inner.replace('~', joints[joint])})"), text)
        return new.replace("@", match[1].replace(joints[joint], joints[1 - joint])) if match else None

    return Form(partial(turned, ours, theirs, 0), partial(turned, theirs, ours, 1))


def _unless(ours: str) -> str:
    return "select[" + " && ".join(f"hname!='{node}'" for node in ours.split(",")) + "]"


def _of_unless(theirs: str) -> str | None:
    node = r"hname!='?([\w.-]+)'?"
    return ",".join(re.findall(node, theirs)) if re.fullmatch(rf"select\[{node}(?: && {node})*\]", theirs) else None


_TASKS = r"[1-9]\d*(?:-\d+(?::\d+)?)?"  # one span, as `-t` has it


def _as_is(form: str, text: str) -> str | None:
    return text if re.fullmatch(form, text) else None


def _same(form: str) -> Form:
    return Form(partial(_as_is, form), partial(_as_is, form))


def _span_and_limit(ours: str) -> str | None:
    """`1-5%2` as two options of Grid Engine's: `1-5 -tc 2`."""
    return ours.replace("%", " -tc ", 1) if re.fullmatch(rf"{_TASKS}(?:%\d+)?", ours) else None


# --- the systems -----------------------------------------------------------------------------------------------------

_NUMBER = Value(r"\d+", "a whole number", "4")
_YES = Value("(?i)y|n|yes|no", "yes or no", "y or n")
_PRIORITY = r"[+-]?0*(?:\d{{1,3}}|10[01]\d|102[0-3])|{}0*1024"
_SGE_TASKS = r"0*[1-9]\d*(?:-\d+(?::0*[1-9]\d*)?)?"
_SGE_NUMBER = r"[+-]?(?:0x[\da-f]+|[\d.]+(?:e\d+)?[kmgt]?)"
_SGE_LIMIT = Value(rf"(?i)[\d.]*:\d*:[\d.]*|infinity|{_SGE_NUMBER}", "a time limit", "3600 (seconds) or 1:00:00")
_SGE_SIZE = Value(rf"(?i)infinity|{_SGE_NUMBER}", "a size", "4G")
_PBS_LIMIT = Value(r"(?:\d+:){0,2}\d+(?:\.\d+)?", "a time limit", "1:00:00")
_PBS_SIZE = Value(r"(?i)\d+[kmgtp]?[bw]?", "a size", "4gb")
_PBS_RESOURCE = r"[A-Za-z][\w-]*=[^:+=]+"
_PBS_CHUNK = rf"(?:\d+|{_PBS_RESOURCE})(?::{_PBS_RESOURCE})*"
_LSF_LIMIT = Value(r"(?:\d+:)?\d+(?:/\S+)?", "a time limit", "90 (minutes) or 1:30")
_LSF_MOMENT = Value(r"(?:\d+:){1,4}\d+", "a time that it knows", "2029:12:01:12:30")
_LSF_INDEX = r"\s*0*[1-9]\d*(?:-\d+(?::\d+)?)?\s*"  # "[1, 2, 3]": IBM's own example has blanks
_LSF_INDEXES = rf"{_LSF_INDEX}(?:,{_LSF_INDEX})*"
_QSUB_MOMENT = _moment("%Y%m%d%H%M.%S", r"\d+(?:\.\d+)?")
SPELLINGS = {
    "grid_engine": Spelling(
        to_the_end=True,
        glued="",
        flags="-clear -cwd -h -hard -help -notify -soft -terse -verify -V",
        valued="-@ -A -C -M -N -P -R -S -a -ac -ar -b -binding -c -ckpt -dc -display -dl -e -hold_jid -hold_jid_ad -i "
        "-j -js -jsv -l -m -masterq -now -o -p -pe -pty -q -r -sc -shell -sync -t -tc -v -w -wd",
        names={
            "account": "-A",
            "array": "-t",
            "begin": "-a",
            "chdir": "-wd",
            "dependency": "-hold_jid",
            "error": "-e",
            "exclude": "-l h",
            "hold": "-h",
            "job-name": "-N",
            "no-requeue": "-r n",
            "output": "-o",
            "partition": "-q",
            "time": "-l h_rt",
        },
        patterns={"%j": "$JOB_ID", "%A": "$JOB_ID", "%a": "$TASK_ID", "%x": "$JOB_NAME", "%u": "$USER"},
        forms={
            "time": _IN_SECONDS,
            "begin": _QSUB_MOMENT,
            "array": Form(_span_and_limit, partial(_as_is, _TASKS)),
            "dependency": _around("afterany:@", "@", r"\d+(?:~\d+)*", (":", ",")),
            "exclude": _around("@", "!(@)", ".*", (",", "|")),
        },
        also={"-cwd": "chdir"},
        values={
            **dict.fromkeys(("-l h_rt", "-l s_rt", "-l h_cpu", "-l s_cpu"), _SGE_LIMIT),
            **dict.fromkeys(
                (f"-l {name}" for name in ("h_vmem", "s_vmem", "h_rss", "s_rss", "mem_free", "mem_total", "h_fsize")),
                _SGE_SIZE,
            ),
            **dict.fromkeys(("-r", "-j", "-R", "-b", "-now", "-shell", "-sync"), _YES),
            "-t": Value(
                rf"{_SGE_TASKS}(?:,{_SGE_TASKS})*",
                "a list of tasks, which begin at 1",
                "1-10 or 1-10:2; a limit: -tc 2",
            ),
            "-tc": _NUMBER,
            "-N": Value("[^/]*", "a name without a /", "save"),
            "-a": Value(r"(?:(?:\d\d)?\d\d)?(?:0\d|1[0-2])\d{6}(?:\.\d\d)?", "a time that it knows", "202912011230"),
            "-p": Value(_PRIORITY.format(""), "a priority", "-100 (from -1023 to 1024)"),
            "-m": Value("[abens]+", "a mail option", "ea (of a, b, e, n, s)"),
            "-pe": Value(r"\S+ [\d-]\S*", "an environment and a number", "smp 4"),
        },
        host=r"^[^/:]*:",
        others="-adds -bgio -clearp -clears -jc -masterl -mbind -mods -par -rdi -rou -si -tcon -umask -xd -xdv "
        "-xd_run_as_image_user",
    ),
    "pbs": Spelling(
        to_the_end=False,
        glued=r".+",
        flags="-G -I -V -X -f -h -z",
        valued="-A -C -J -M -N -P -R -S -W -a -c -e -j -k -l -m -o -p -q -r -u -v",
        names={
            "account": "-A",
            "array": "-J",
            "begin": "-a",
            "cpus-per-task": "-l ncpus",
            "error": "-e",
            "export": "-v",
            "gres": "-l ngpus",
            "hold": "-h",
            "job-name": "-N",
            "mem": "-l mem",
            "output": "-o",
            "partition": "-q",
            "time": "-l walltime",
        },
        patterns={"%a": "^array_index^"},
        forms={
            "time": _IN_HOURS,
            "begin": _QSUB_MOMENT,
            "array": _same(r"\d+-\d+(?::\d+)?(?:%\d+)?"),
            "export": Form(lambda _: None, lambda theirs: theirs),  # sbatch's ALL is no name
            "mem": Form(_size, _of_size),
            "gres": _around("gpu:@", "@", r"\d+"),
            "cpus-per-task": _same(r"\d+"),
        },
        also={},
        values={
            **dict.fromkeys((f"-l {name}" for name in ("walltime", "cput", "pcput")), _PBS_LIMIT),
            **dict.fromkeys((f"-l {name}" for name in ("mem", "pmem", "vmem", "pvmem", "file")), _PBS_SIZE),
            **dict.fromkeys((f"-l {name}" for name in ("ncpus", "ngpus", "mpiprocs", "ompthreads")), _NUMBER),
            **{f"-{each}": Value(".+", "a value", f"-{each} VALUE") for each in "ACMNPRSWcekoquv"},
            "-l select": Value(rf"{_PBS_CHUNK}(?:\+{_PBS_CHUNK})*", "a list of chunks", "2:ncpus=4:mem=8gb"),
            "-J": Value(r"\d+-\d+(?::\d+)?(?:%\d+)?", "a range of indexes", "1-10 or 1-10:2", indexes=".*"),
            "-a": Value(r"(?:\d\d){2,6}(?:\.\d\d)?", "a time that it knows", "202912011230"),
            "-p": Value(_PRIORITY.format("-"), "a priority", "-100 (from -1024 to 1023)"),
            "-r": Value("[yn]", "y or n", "n"),
            "-j": Value("oe|eo|n", "a way to join logs", "oe"),
            "-m": Value("n|[abej]+", "a mail option", "ae (of a, b, e; or n)"),
        },
        host=r"^[^/:]+:",
    ),
    "lsf": Spelling(
        to_the_end=True,
        glued=r"[\d/\"'%].*",
        flags="-B -H -I -IS -ISp -ISs -IX -Ip -Is -K -N -Ne -V -XF -Zs -ar -datachk -h -hl -r -rn -ti -tty -ul -x",
        valued="-C -D -E -Ep -F -G -J -Jd -L -Lp -M -P -Q -R -S -T -U -W -We -a -alloc_flags -app -b -c -clusters "
        "-cn_cu -cn_mem -core -core_isolation -csm -cwd -data -datagrp -e -eo -eptl -env -ext -extsched -f -freq -g "
        "-gpu -hostfile -i -is -jobaff -jsdl -jsdl_strict -json -jsm -k -ln_mem -ln_slots -m -mig -n -network -nnodes "
        "-notify -o -oo -outdir -p -pack -ptl -q -rcacct -rnc -s -sla -smt -sp -stage -step_cgroup -t -u -v -w -wa "
        "-wt -yaml",
        names={
            "account": "-P",
            "array": "-J",
            "begin": "-b",
            "chdir": "-cwd",
            "error": "-e",
            "exclude": "-R",
            "gres": "-gpu",
            "hold": "-H",
            "job-name": "-J",
            "ntasks": "-n",
            "output": "-o",
            "partition": "-q",
            "time": "-W",
        },
        patterns={"%j": "%J", "%A": "%J", "%a": "%I"},
        forms={
            "exclude": Form(_unless, _of_unless),
            "time": _IN_MINUTES,
            "begin": _moment("%Y:%m:%d:%H:%M", r"\d+(?::\d+)+"),
            "ntasks": _same(r"\d+"),
            "array": _same(rf"{_TASKS}(?:,{_TASKS})*(?:%\d+)?"),
            "gres": _around("gpu:@", "num=@", r"\d+"),
        },
        also={"-oo": "output", "-eo": "error"},
        values={
            **dict.fromkeys(("-W", "-We", "-c"), _LSF_LIMIT),
            **dict.fromkeys(("-b", "-t"), _LSF_MOMENT),
            "-n": Value(r"\d+(?:,\d+)?", "a number of tasks", "4 or 4,8"),
            "-M": Value(r"(?i)\d+(?:\.\d+)?(?:[kmgtpez]b?)?(?:/\w+)?\s*!?", "a size", "4GB"),
            "-sp": _NUMBER,
            "-R": Value(
                r"[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*", "a resource requirement with closed brackets", "rusage[mem=4000]"
            ),
            "-J": Value(
                rf"[^\[\]]*(?:\[{_LSF_INDEXES}\](?:%\d+)?)?",
                "a name, or a name with indexes",
                "name[1-10]%2",
                indexes=r"\[.*\]",
            ),
            "-gpu": Value(r"-|\w+=[^:]+(?::\s*\w+=[^:]+)*", "a request for GPUs", "num=2:mode=shared"),
        },
    ),
}
_SEVERAL = {"-pe", "-binding"}  # whose value is several words
_LOGS = frozenset({"output", "error"})


def has_directives(data: bytes) -> bool:
    """Whether a script is one for any of the batch systems."""
    return any(is_directive(line, each) for _, line in text_lines(data) for each in SYSTEMS)


def reads_on(dialect: Dialect) -> bool:
    """Whether its lines are read behind the first command, too."""
    return not dialect.as_sbatch and SPELLINGS[dialect.name].to_the_end


# --- to our names ----------------------------------------------------------------------------------------------------


def is_directive(line: str, dialect: Dialect) -> bool:
    """Whether options stand behind the prefix, and no prose."""
    return line.startswith(dialect.prefix) and line.removeprefix(dialect.prefix).lstrip().startswith("-")


def options_of(data: bytes, dialect: Dialect) -> tuple[tuple[Option, ...], tuple[Problem, ...]]:
    """The options of a script's directives, each `written` as a shell takes it; and those that are none: E201."""
    lines = text_lines(data) if SPELLINGS[dialect.name].to_the_end else comment_lines(data)
    ours = ((number, line.removeprefix(dialect.prefix)) for number, line in lines if is_directive(line, dialect))
    return read_lines(ours, dialect)


def read_lines(lines: Iterable[tuple[int, str]], dialect: Dialect) -> tuple[tuple[Option, ...], tuple[Problem, ...]]:
    """The same of (number, text behind the prefix) pairs."""
    if dialect.as_sbatch:
        return sbatch_options_of(tuple((number, dialect.prefix + text) for number, text in lines))
    spelling = SPELLINGS[dialect.name]
    options: list[Option] = []
    problems: list[Problem] = []
    for number, text in lines:
        for word, value in _pairs(text, spelling):
            options += _named(word, value, number, dialect)  # one that is unknown, too: the system is the judge
            if not _is_known(word, spelling):
                problems.append(_unknown(word, number, dialect))
    return _with_limit(options), tuple(problems)


def _is_known(word: str, spelling: Spelling) -> bool:
    return word in (*spelling.flags.split(), *spelling.valued.split())


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _pairs(text: str, spelling: Spelling) -> Iterator[tuple[str, str | None]]:
    """(option, value) of one line: all words up to the next option are its value, a `#` ends the line."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = _split(re.split(r"(?<=\s)#", text)[0])  # the quote may be an apostrophe of what follows a #
    words = words[: next((at for at, word in enumerate(words) if word.startswith("#")), len(words))]
    dashed = [at for at, word in enumerate(words) if re.match(r"--?[A-Za-z@]", word)]
    starts = [at for at in dashed if not (at and words[at - 1] in spelling.others.split())]
    for at, end in pairwise([*starts, len(words)]):
        word, given = words[at], words[at + 1 : end]
        glued = word[:2] in spelling.valued.split() and spelling.glued and re.fullmatch(spelling.glued, word[2:])
        if glued and not _is_known(word, spelling):
            word, given = word[:2], [word[2:], *given]
        is_flag = word in spelling.flags.split() or (not given and not _is_known(word, spelling))
        yield word, None if is_flag else " ".join(given)


def _unknown(word: str, line: int, dialect: Dialect) -> Problem:
    spelling = SPELLINGS[dialect.name]
    submit, name = dialect.commands[0], word.lstrip("-").partition("=")[0]
    if word in spelling.others.split():
        what = f'"{dialect.prefix} {word}": Univa and Altair have it; the {submit} of others refuses the script.'
        return Problem("W234", what, "Remove it, unless yours is one of those.", line=line, key=word.lstrip("-"))
    meant = spelling.names.get(ELSEWHERE.get(name, name), "")
    near = nearest(word, [*spelling.flags.split(), *spelling.valued.split()])
    fix = f"Did you mean {near}?" if near else f"See {submit}'s manual for what there is."
    fix = f"Write {meant}{'=' if ' ' in meant else ' '}VALUE." if meant else fix
    what = f'"{dialect.prefix} {word}": {submit} has no option {word}.'
    return Problem("E201", what, fix, line=line, key=word.lstrip("-"))


def _named(word: str, value: str | None, line: int, dialect: Dialect) -> list[Option]:
    """The option by our name; of `-l`, which lists resources, and of an array's name, several."""
    spelling = SPELLINGS[dialect.name]
    ours = {theirs: name for name, theirs in spelling.names.items() if name != "array"} | dict(spelling.also)
    make = partial(Option, line=line, written=_written(word, value), directive=dialect.prefix)
    if f"{word} {value}" in ours:
        return [make(ours[f"{word} {value}"], None)]
    if word == spelling.names["array"]:
        name, tasks, limit = array_in(value or "") if word in ours else ("", value or "", "")
        named = [make(ours[word], name)] if name else []
        return [*named, *([make("array", tasks + limit)] if tasks else [])]
    if word == "-l" and value:
        return [_resource(item, ours, spelling, make) for item in value.split(",")]
    name = ours.get(word, word)
    read = _ours(name, value, spelling)
    return [make(word, value) if read is None and value is not None else make(name, read)]


def _written(word: str, value: str | None) -> str:
    several = word in _SEVERAL
    return word if not value else f"{word} {value}" if several else shlex.join([word, value])


def _resource(item: str, ours: Mapping[str, str], spelling: Spelling, make: Callable[..., Option]) -> Option:
    resource, _, value = item.partition("=")
    name = ours.get(f"-l {resource}", "")
    read = _ours(name, value, spelling) if name else None
    own = make(f"-l {resource}", value or None)
    return replace(own if read is None else make(name, read), written=_written("-l", item))


def _ours(name: str, value: str | None, spelling: Spelling) -> str | None:
    if value is None:
        return None
    if name in _LOGS:
        back = {theirs: ours for ours, theirs in spelling.patterns.items() if ours != "%A"}
        return re.sub(
            "|".join(map(re.escape, back)), lambda match: back[match[0]], re.sub(spelling.host or "^$", "", value)
        )
    return spelling.forms[name].read(value) if name in spelling.forms else value


def array_in(value: str) -> tuple[str, str, str]:
    """`name[1-5]%2`: (name, tasks, limit)."""
    match = re.fullmatch(r"(.*?)\[(.*)\](%\d+)?", value)
    return (match[1], match[2], match[3] or "") if match else (value, "", "")


def _with_limit(options: Sequence[Option]) -> tuple[Option, ...]:
    """Grid Engine's `-tc 2` as part of the array, where it is one."""
    limit = next((each.value for each in options if each.name == "-tc"), None)
    if limit is None or not limit.isdecimal() or all(each.name != "array" for each in options):
        return tuple(options)
    whole = (replace(each, value=f"{each.value}%{limit}") if each.name == "array" else each for each in options)
    return tuple(each for each in whole if each.name != "-tc")


# --- what a system refuses -------------------------------------------------------------------------------------------


def fault(option: Option, dialect: Dialect) -> tuple[str, str] | None:
    """(what, fix) where the system refuses the option's value for its form; only what is certain."""
    spelling, submit = SPELLINGS[dialect.name], dialect.commands[0]
    word, *rest = _split(option.written)
    text = " ".join(rest)
    for name, value in [(word, text)] if word != "-l" else _resources(text):
        taken = spelling.values.get(name)
        if taken and not _fits(taken, value):
            right = _as_meant(name, value, spelling)
            like = f"Write {name}{'=' if ' ' in name else ' '}{right}." if right else f"Write it like {taken.like}."
            return f"{submit} wants {taken.kind} there{f', not {value}' if value else ''}.", like
    return None


def _fits(taken: Value, value: str) -> bool:
    if not re.fullmatch(taken.form, value, re.ASCII):
        return False
    indexes = re.search(taken.indexes, value) if taken.indexes else None
    return not indexes or all(int(low) <= int(high) for low, high in re.findall(r"(\d+)-(\d+)", indexes[0]))


def _resources(item: str) -> Iterator[tuple[str, str]]:
    """(option, value) of a resource, and of those in the chunks of a `select`."""
    name, _, value = item.partition("=")
    yield f"-l {name}", value
    for part in re.split(r"[:+]", value) if name == "select" else ():
        inner, equals, its_value = part.partition("=")
        if equals:
            yield f"-l {inner}", its_value


def _as_meant(name: str, value: str, spelling: Spelling) -> str | None:
    """A value that another system would take, or people write (`1-0`, `90m`), as this one has it."""
    ours = next((each for each, theirs in spelling.names.items() if theirs == name), "")
    right = spelling.forms[ours].write(value) if ours in spelling.forms else None
    if right is None and ours == "time" and value:
        with suppress(DurationError):
            right = spelling.forms[ours].write(_clock(parse_duration(value)))
    return right if right and _fits(spelling.values[name], right) else None


# --- to theirs -------------------------------------------------------------------------------------------------------


class UnspeltError(ValueError):
    """An option that the system has not; or a value that its `option` does not take."""

    def __init__(self, written: str, option: str) -> None:
        super().__init__(written)
        self.option = option


def words_of(options: Iterable[tuple[str, str | None]], dialect: Dialect) -> list[str]:
    """Options by our names as words of the submitting command. Raises UnspeltError for one that it has not."""
    given = list(options)
    if dialect.as_sbatch:
        return [option_text(*each) for each in given]
    spelling, values = SPELLINGS[dialect.name], dict(given)
    words: list[str] = []
    resources: list[str] = []
    for name, value in given:
        its_words = _own(name, value) if name.startswith("-") else _spelt(name, value, values, spelling)
        if its_words[:1] == ["-l"]:
            resources += its_words[1:]
        else:
            words += its_words
    return [*words, *(["-l", ",".join(resources)] if resources else [])]


def _own(name: str, value: str | None) -> list[str]:
    """An option that has kept its own name."""
    option, _, resource = name.partition(" ")
    if resource:
        return [option, resource if value is None else f"{resource}={value}"]
    return [name, *([] if value is None else value.split() if name in _SEVERAL else [value])]


def _spelt(name: str, value: str | None, values: Mapping[str, str | None], spelling: Spelling) -> list[str]:
    """An option by our name; `values`: those of all. Raises UnspeltError."""
    theirs, text = _option(name, value, spelling), _theirs(name, value, spelling)
    if theirs is None or (text is None and value is not None):
        raise UnspeltError(option_text(name, value), theirs or "")
    option, _, resource = theirs.partition(" ")
    if resource:
        return [option, resource if text is None else f"{resource}={text}"]
    named_array = spelling.names["array"] == spelling.names["job-name"]
    if name == "array" and named_array:
        return [option, indexed(values.get("job-name") or "", text or "")]
    if name == "job-name" and named_array and "array" in values:
        return []
    return [option, *([] if text is None else text.split() if name == "array" else [text])]


def _option(name: str, value: str | None, spelling: Spelling) -> str | None:
    """One without a value is a flag: Grid Engine's -cwd stands for our chdir, too."""
    names = [spelling.names.get(name, ""), *(theirs for theirs, ours in spelling.also.items() if ours == name)]
    flags = {*spelling.flags.split(), *(each for each in names if " " in each and not each.startswith("-l "))}
    return next((each for each in names if each and (each in flags) is (value is None)), None)


def indexed(name: str, tasks: str) -> str:
    """`name` and `1-5%2` as one: `name[1-5]%2`."""
    span, percent, limit = tasks.partition("%")
    return f"{name}[{span}]{percent}{limit}"


def _theirs(name: str, value: str | None, spelling: Spelling) -> str | None:
    if value is None:
        return None
    if name in _LOGS:
        return _log(value, spelling.patterns)
    return spelling.forms[name].write(value) if name in spelling.forms else value


def _log(path: str, patterns: Mapping[str, str]) -> str | None:
    """None where the system has no such pattern."""
    letters = {**patterns, "%%": "%"}
    if any(each not in letters for each in re.findall(r"%.", path)):
        return None
    filled = re.sub("%.", lambda match: letters[match[0]], path)
    return f":{filled}" if ":" in filled and "$JOB_ID" in patterns.values() else filled  # else it is a host's


def directive(dialect: Dialect, name: str, value: str | None = None) -> str:
    """The line of a script that says so; "" where the system has no such option."""
    try:
        return " ".join([dialect.prefix, *map(_quoted, words_of([(name, value)], dialect))])
    except UnspeltError:
        return ""


def spelt(name: str, dialect: Dialect) -> str:
    """What the system calls an option of ours; "" where it has none."""
    return f"--{name}" if dialect.as_sbatch else SPELLINGS[dialect.name].names.get(name, "")


def own_output(dialect: Dialect) -> str:
    """How a script names its log itself: `#SBATCH --output`."""
    return f"{dialect.prefix} {spelt('output', dialect)}"


# What sbatch does by itself, or cronhpc for each job: there is nothing to write elsewhere.
_ONE_LOG = {("-j", "oe"), ("-j", "y"), ("-j", "yes")}
_NOTHING = {("ntasks", "1"), ("nodes", "1"), ("ntasks-per-node", "1"), ("cpus-per-task", "1"), *_ONE_LOG}
_OURS_ALWAYS = frozenset({"no-requeue", "open-mode"})


def _has(target: Dialect, pair: tuple[str, str | None]) -> bool:
    try:
        words_of([pair], target)
    except UnspeltError:
        return False
    return True


class Translation(NamedTuple):
    """A line for another system: "" where nothing is left to write; and the options that it has not."""

    line: str
    missing: tuple[str, ...]


def translated(options: Sequence[Option], source: Dialect, target: Dialect) -> Translation:
    """The options of a line of `source` as one of `target`."""
    kept: list[tuple[str, str | None]] = []
    missing: list[str] = []
    for option in options:
        pair = (option.name, option.value)
        if pair in _NOTHING or option.name in _OURS_ALWAYS:
            continue
        if not option.name.startswith("-") and _has(target, pair):
            kept.append(pair)
        else:
            missing.append(words_of([pair], source)[0] if source.as_sbatch else option.written)
    words = words_of(kept, target)
    return Translation(" ".join([target.prefix, *map(_quoted, words)]) if words else "", tuple(missing))


def _quoted(word: str) -> str:
    return f'"{word}"' if re.search(r"[\s#'\[]", word) and '"' not in word else word


def foreign_line(line: str, number: int, source: Dialect, target: Dialect, own: Container[str] = ()) -> Translation:
    """What to write in place of a directive of `source` where `target` reads the script, and says `own` already."""
    options, _ = read_lines([(number, line.removeprefix(source.prefix))], source)
    return translated([each for each in options if each.name not in own], source, target)
