"""A batch script's bytes to what sbatch and cronhpc learn from them: options, the `#CRON` line, and what is wrong.

The rules of reading are sbatch's own, each tried on 22.05.8 (tests/script/test_header.py). Lines are numbered from 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from cronhpc.cron.values import dataclass, grouped
from cronhpc.script import directives
from cronhpc.script.advice import Problem
from cronhpc.script.dialect import SLURM, Dialect
from cronhpc.script.directives import UnclosedQuoteError, text_lines
from cronhpc.script.sbatch_options import DASHES, GPU_COUNTS, Option

_FIRST = re.compile(rb"[ \t]*(?:#?[ \t]*![ \t]*|#[ \t]*)(/[\w./-]*bin/[^\n]*)")
_GPU_GRES = frozenset({"gpu", "shard", "mps"})


@dataclass(frozen=True, slots=True)
class Header:
    """What a script says of itself. Of options given twice the last one counts, as for sbatch."""

    options: tuple[Option, ...]
    cron: CronLine | None
    problems: tuple[Problem, ...]
    default_name: str

    def find(self, name: str) -> Option | None:
        """The option of that name that counts (of the first component), or None."""
        given = (option for option in reversed(self.options) if option.name == name and not option.component)
        return next(given, None)

    def value(self, name: str) -> str | None:
        """The value that counts for option `name`, or None where it is not given."""
        option = self.find(name)
        return option.value if option else None

    @property
    def job_name(self) -> str:
        """As the queue will show it, unless the command line says otherwise."""
        name = self.value("job-name")
        return self.default_name if name is None else name

    @property
    def wants_gpu(self) -> bool:
        """Whether any component asks for a GPU or a part of one."""
        components = grouped(self.options, lambda option: option.component).values()
        return any(asks_for_gpu({each.name: each.value or "" for each in options}) for options in components)


def asks_for_gpu(options: Mapping[str, str]) -> bool:
    """Whether sbatch options (long names without dashes) ask for a GPU or a part of one."""
    if any(_asked(options.get(name, "0")) for name in GPU_COUNTS):
        return True
    return any(_names_gpu(item) for name in ("gres", "tres-per-task") for item in options.get(name, "").split(","))


def _asked(count: str) -> bool:
    """Whether `4`, `a100:4` or `a100:2,v100:2` asks for any at all."""
    return any(part.rpartition(":")[2] not in {"", "0"} for part in count.split(","))


def _names_gpu(item: str) -> bool:
    """Whether one item of --gres (`gpu:a100:2`, `gres/gpu=1`) is a GPU."""
    parts = item.strip().lower().replace("=", ":").replace("/", ":").split(":")
    if parts[0] == "gres":
        parts = parts[1:]
    return bool(parts) and parts[0] in _GPU_GRES and parts[-1] != "0"


def read_header(data: bytes, default_name: str, dialect: Dialect = SLURM) -> Header:
    """What `data`, a batch script, says of itself; `default_name` is its job's name where it names none.

    Never raises: what cannot be read is a problem (E1xx of the `#CRON` line, E2xx what sbatch would refuse).
    """
    lines = directives.comment_lines(data)
    cron, of_cron = read_cron(lines)
    if not dialect.as_sbatch:
        from cronhpc.script import spelling

        options, wrong = spelling.options_of(data, dialect)
    else:
        of_sbatch, wrong = directives.sbatch_options_of(lines)
        others, of_others = directives.options(data, ignore=any(o.name == "ignore-pbs" for o in of_sbatch))
        options, wrong = (*of_sbatch, *others), (*wrong, *of_others)
    return Header(options, cron, tuple(sorted((*wrong, *of_cron), key=lambda p: p.line)), default_name)


# --- the #CRON line ---------------------------------------------------------------------------------------------------
#
# A crontab line's schedule, policies after it:
#
#     #CRON */30 8-18 * * mon-fri --timezone=Europe/Paris --overlap=skip --retries=2
#
# It is read at column 0, before the first command, like `#SBATCH` lines. A `#` after a blank starts a comment.


_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s"'])+""")
_QUOTED = re.compile(r""""([^"]*)"|'([^']*)'""")
_FIELD = re.compile(
    r"[\d*]\S*"
    r"|[HR](?:[\d(/,-]\S*)?$"
    r"|(?:sun|mon|tue|wed|thu|fri|sat|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(?:[-,/]\S*)?$",
    re.IGNORECASE,
)
_NAMES = frozenset({"hourly", "daily", "midnight", "nightly", "weekly", "monthly", "yearly", "annually", "reboot"})
_FLAGS = frozenset({"record"})  # policies that may stand without a value
_TRUTHS = frozenset({"true", "false", "yes", "no", "on", "off", "0", "1"})
_FORM = 'write "#CRON MINUTE HOUR DAY MONTH WEEKDAY --policy=value", as in "#CRON 30 4 * * mon-fri --retries=2".'


@dataclass(frozen=True, slots=True)
class CronLine:
    """The `#CRON` line: schedule text ("" where it gives policies only) and (policy, value, line) triples."""

    schedule: str
    policies: tuple[tuple[str, str | None, int], ...]
    line: int


def read_cron(lines: tuple[tuple[int, str], ...]) -> tuple[CronLine | None, tuple[Problem, ...]]:
    """The first `#CRON` line among a script's comment lines, and what is wrong with such lines."""
    problems: list[Problem] = []
    first: CronLine | None = None
    for number, line in lines:
        if line.startswith("#SCRON"):
            problems.append(_scron(line, number))
        elif line.startswith("#CRON"):
            if not looks_meant(line.removeprefix("#CRON")):
                problems.append(_prose(line, number))
            elif first is None:
                first, wrong = _parse(line, number)
                problems += wrong
            else:
                problems.append(_second(line, number, first.line))
    return first, tuple(problems)


@lru_cache(maxsize=1024)  # scripts share schedules; of `_parse`, too
def looks_meant(rest: str) -> bool:
    """Whether what follows `#CRON` was meant as a schedule or as policies, and not as prose."""
    words = rest.split()
    if not words or rest[0] in ":=_":
        return False
    return _looks_like_cron(rest, words) or (rest[0].isspace() and _looks_foreign(words))


def _looks_foreign(words: list[str]) -> bool:
    """Whether these words, up to the first policy, are a schedule of another scheduler's."""
    from cronhpc.cron.foreign import recognised

    policies = (at for at, word in enumerate(words) if word.startswith(("--", "#")))
    return recognised(" ".join(words[: next(policies, len(words))])) is not None


def _looks_like_cron(rest: str, words: list[str]) -> bool:
    head = words[0].lstrip("\"'")
    if head[:1] == "@" or head[:1] in {"-", *DASHES}:
        return rest[0].isspace() and len(head) > 1
    if head.lower() in _NAMES or (head.lower() == "every" and rest[0].isspace()):
        length = 2 if head.lower() == "every" else 1
        return len(words) == length or (len(words) > length and words[length].startswith(("-", "#")))
    front = words[:5]
    policies = [i for i, word in enumerate(front) if word.startswith(("-", "#"))]
    front = front[: policies[0]] if policies else front
    return bool(_FIELD.match(head)) and 2 * sum(bool(_FIELD.match(w)) for w in front) > len(front)


def _prose(line: str, number: int) -> Problem:
    what = f'"{line.strip()}": begins with #CRON and is no schedule, so it is not read.'
    fix = f"If it is a comment, put a blank after the #; if a schedule, {_FORM}"
    return Problem("W101", what, fix, line=number, key="#CRON")


def _second(line: str, number: int, first: int) -> Problem:
    what = f'"{line.strip()}": line {first} has a #CRON line already, and a script has one schedule.'
    fix = f"Remove this line or line {first}; a second schedule needs a second script, or a link to this one."
    return Problem("E104", what, fix, line=number, key="#CRON")


def _scron(line: str, number: int) -> Problem:
    rest = line.removeprefix("#SCRON").strip()
    word = "#CRON" if looks_meant(" " + rest) and not rest.startswith("-") else "#SBATCH"
    what = f'"{line.strip()}": #SCRON means something in a scrontab only.'
    return Problem("E105", what, f'Write "{f"{word} {rest}".strip()}".', line=number, key="#SCRON")


def _unquoted(text: str) -> list[str]:
    """Words without their quotes; a word that begins with `#` ends the line. Raises UnclosedQuoteError."""
    words: list[str] = []
    at = len(text) - len(text.lstrip())
    while at < len(text) and text[at] != "#":
        match = _WORD.match(text, at)
        end = match.end() if match else at
        if match is None or text[end : end + 1] in {'"', "'"}:
            raise UnclosedQuoteError(text[end])
        words.append(_QUOTED.sub(lambda m: m[1] or m[2] or "", match[0]))
        at = end + len(text[end:]) - len(text[end:].lstrip())
    return words


_CRONTAB_LINE = re.compile(r"\s*(@[a-z]+|(?:\S+\s+){4}\S+)\s+((?:[a-z]\S*\s+\S|[/~.$]\S).*)")
_POLICY = re.compile(r"[a-z-]+[=:]")  # without its dashes


def _whole_line(rest: str) -> tuple[str, str] | None:
    """The schedule and the command of a crontab's line; None for what is none."""
    match = _CRONTAB_LINE.fullmatch(rest.rstrip())
    if match is None or _FIELD.match(match[2].split()[0]) or _POLICY.match(match[2]):
        return None
    fields = match[1].split()
    timed = match[1][1:] in _NAMES - {"reboot"} if match[1][0] == "@" else all(map(_FIELD.match, fields))
    return (" ".join(fields), match[2]) if timed else None


@lru_cache(maxsize=1024)
def _parse(line: str, number: int) -> tuple[CronLine, list[Problem]]:
    rest = line.removeprefix("#CRON")
    problems: list[Problem] = []
    if not rest[0].isspace():
        what = f'"{line.strip()}": a blank is missing after #CRON.'
        problems.append(Problem("E106", what, f'Write "#CRON {rest.strip()}".', line=number, key="#CRON"))
    if whole := _whole_line(rest):
        schedule, command = whole
        what = f'"{line.strip()}": a whole line of a crontab; the command does not stand here.'
        fix = f'Write "#CRON {schedule}", and the command as a line of the script, below its options: {command}'
        return CronLine(schedule, (), number), [*problems, Problem("E106", what, fix, line=number, key="#CRON")]
    try:
        words = _unquoted(rest)
    except UnclosedQuoteError as error:
        what = f'"{line.strip()}": the quote {error} is not closed.'
        problems.append(Problem("E106", what, "Close it.", line=number, key="#CRON"))
        return CronLine("", (), number), problems
    read, wrong = _read(words, number)
    return read, problems + wrong


def _read(words: list[str], line: int) -> tuple[CronLine, list[Problem]]:
    """The words of one line: those of the schedule stand together, before or after policies."""
    schedule: list[str] = []
    policies: list[tuple[str, str | None, int]] = []
    wrong: list[tuple[str, str, str]] = []  # what, fix, key
    closed = False  # something stands behind the schedule's words
    rest = words[::-1]
    while rest:
        word = rest.pop()
        if word.startswith("--") and len(word) > 2:  # noqa: PLR2004 - the two dashes
            closed = bool(schedule)
            name, equals, given = word[2:].partition("=")
            value = given if equals else rest.pop() if rest and _is_value(rest[-1], name) else None
            policies.append((name, value, line))
        elif word[:1] == "-" or word[:1] in DASHES:
            closed, name = True, word.lstrip("-" + DASHES)
            wrong.append((f'"{word}": a policy begins with two minus signs.', f"Write --{name or 'NAME=VALUE'}.", name))
        elif closed:
            fix = "Quote a value that holds blanks, or remove it."
            wrong.append((f'"{word}": neither part of the schedule nor a policy.', fix, word))
        else:
            schedule.append(word)
    named = [value or "" for name, value, _ in policies if name == "schedule"]
    if named and (schedule or len(named) > 1):
        what = f'--schedule="{named[-1]}": this line has a schedule already.'
        wrong.append((what, "Keep one of them.", "schedule"))
    others = tuple(each for each in policies if each[0] != "schedule")
    problems = [Problem("E106", what, fix, line=line, key=key) for what, fix, key in wrong]
    return CronLine(" ".join(schedule) or (named[0] if named else ""), others, line), problems


def _is_value(word: str, policy: str) -> bool:
    """Whether a word behind a policy without = is its value."""
    return not word.startswith("--") and (policy not in _FLAGS or word.lower() in _TRUTHS)


# --- the first line ------------------------------------------------------------------------------------------------


def first_lines(data: bytes, dialect: Dialect = SLURM, path: str = "FILE") -> Iterator[Problem]:
    """What sbatch refuses before it reads any option: at most one of them, and Windows line ends.

    Other systems take some of that, and the run fails: there it is cronhpc that refuses it.

    `path`: of the script, as commands have it.
    """
    by = "sbatch" if dialect.as_sbatch else "cronhpc"
    if not data.strip():
        yield Problem("E226", f"nothing in it: {by} refuses an empty script.", "Write the script, or remove the file.")
    elif data.startswith((b"\xff\xfe", b"\xfe\xff")):
        what = f"is written in UTF-16, two bytes a letter: {by} does not see the #!."
        yield Problem("E222", what, "Save it as UTF-8 without BOM; iconv -f UTF-16 -t UTF-8 makes one of it.", line=1)
    elif b"\0" in data:
        what = f"a NUL byte: {by} refuses it; this is no text file."
        yield Problem(
            "E225", what, "Remove it, or move the file out of here.", line=data.count(b"\n", 0, data.index(b"\0")) + 1
        )
    elif data.startswith(b"\xef\xbb\xbf"):
        what = f"begins with a byte order mark, so {by} does not see the #!."
        yield Problem("E222", what, f"Save it as UTF-8 without BOM: sed -i '1s/^\\xef\\xbb\\xbf//' {path}.", line=1)
    elif not data.startswith(b"#!"):
        yield _no_interpreter(data, by)
    if b"\r\n" in data:
        what = f"Windows line ends (\\r\\n): {by} refuses them."
        line = data.count(b"\n", 0, data.index(b"\r\n")) + 1
        yield Problem("E224", what, f"Run dos2unix {path}, or sed -i 's/\\r$//' {path}.", line=line)


def _no_interpreter(data: bytes, by: str) -> Problem:
    first = data.split(b"\n", 1)[0]
    if not first.strip():
        return Problem(
            "E223", f"a blank first line: {by} wants #! there.", "Remove the blank lines at the top.", line=1
        )
    later = next((n for n, line in text_lines(data) if line.lstrip().startswith("#!")), 0)
    meant = _FIRST.match(first)
    fix = f'Write "#!{meant[1].decode("utf-8", "replace").strip()}".' if meant else 'Make the first line "#!/bin/bash".'
    fix = f"Move line {later} to the top." if later > 1 else fix
    fix = "Remove the blanks before #!." if later == 1 else fix
    return Problem("E221", f"the first line does not begin with #!: {by} refuses it.", fix, line=1)


def with_interpreter(data: bytes) -> bytes:
    """`data` with the first line that was meant (`!/bin/bash`): what is said of the rest holds once it is fixed."""
    meant = _FIRST.match(data) if not data.startswith(b"#!") else None
    return b"#!" + meant[1] + data[meant.end() :] if meant else data
