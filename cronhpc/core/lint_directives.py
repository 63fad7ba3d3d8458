"""The linter's view of a script's first line and its directives: what sbatch refuses, ignores, or takes by surprise."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from cronhpc.core import sbatch_options, sbatch_values
from cronhpc.core.cron_line import looks_meant
from cronhpc.core.directives import text_lines
from cronhpc.core.header import Header
from cronhpc.core.model import Problem
from cronhpc.core.sbatch_options import Option

_VARIABLE = re.compile(r"\$(?:[A-Za-z_]|\{|\()|`")
_PATHS = frozenset({"output", "error", "input", "chdir"})
_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
_MISSPELT = re.compile(r"(?:\s+#|##|#\s+)SBATCH(?=\s|-)(?P<rest>.*)", re.IGNORECASE)
_OTHER_CASE = re.compile(r"#SBATCH(?=\s+-|-)", re.IGNORECASE)
_TYPO = re.compile(r"#([A-Za-z_]{4,9})\s+-{1,2}[A-Za-z]")
_USAGE = re.compile(r"#+\s+sbatch\s")  # a command, where it stands among prose
_DIRECTIVE = re.compile(r"#(?:SBATCH|CRON|SCRON|PBS|BSUB)\b|#!")
_CRON_MISSPELT = re.compile(r"\s*#+\s*CRON(?=\s)(?P<rest>.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Facts:
    """What only the cluster and the disk know; None is unknown, and then nothing is said."""

    partitions: frozenset[str] | None = None
    is_folder: Callable[[str], bool | None] | None = None
    refused: str = ""  # why sbatch would not take the script, in its own words


# --- the first line ------------------------------------------------------------------------------------------------


def first_lines(data: bytes) -> Iterator[Problem]:
    """What sbatch refuses before it reads any option: at most one of them, and Windows line ends."""
    if not data.strip():
        yield Problem("E226", "nothing in it: sbatch refuses an empty script.", "Write the script, or remove the file.")
    elif b"\0" in data:
        what = "a NUL byte: sbatch refuses it; this is no text file."
        yield Problem("E225", what, "Remove it, or the file.", line=data.count(b"\n", 0, data.index(b"\0")) + 1)
    elif data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        what = "begins with a byte order mark, so sbatch does not see the #!."
        yield Problem("E222", what, "Save it as UTF-8 without BOM: sed -i '1s/^\\xef\\xbb\\xbf//' FILE.", line=1)
    elif not data.startswith(b"#!"):
        yield _no_interpreter(data)
    if b"\r\n" in data:
        what = "Windows line ends (\\r\\n): sbatch refuses them."
        line = data.count(b"\n", 0, data.index(b"\r\n")) + 1
        yield Problem("E224", what, "Run dos2unix FILE, or sed -i 's/\\r$//' FILE.", line=line)


def _no_interpreter(data: bytes) -> Problem:
    first = data.split(b"\n", 1)[0]
    if not first.strip():
        return Problem(
            "E223", "a blank first line: sbatch wants #! there.", "Remove the blank lines at the top.", line=1
        )
    later = next((n for n, line in text_lines(data) if line.lstrip().startswith("#!")), 0)
    mend = f"Move line {later} to the top." if later > 1 else 'Make the first line "#!/bin/bash".'
    mend = "Remove the blanks before #!." if later == 1 else mend
    return Problem("E221", "the first line does not begin with #!: sbatch refuses it.", mend, line=1)


# --- what was read -------------------------------------------------------------------------------------------------


def options(header: Header, facts: Facts) -> Iterator[Problem]:
    """What is wrong, or surprising, in the options that sbatch reads."""
    for option in header.options:
        yield from _value(option)
    yield from _flags(header)
    yield from _memory(header)
    yield from _repeated(header)
    yield from _world(header, facts)


def _shown(option: Option) -> str:
    return f'"{option.directive} {option.written}"'


def _value(option: Option) -> Iterator[Problem]:
    value = option.value
    if value is None:
        return
    tilde = option.name in _PATHS and value.startswith("~")
    if tilde or _VARIABLE.search(value):
        word = "~" if tilde else "variables"
        mend = "Use %x, %j, or a fixed path." if option.name in _PATHS else "Write the value itself."
        what = f"{_shown(option)}: sbatch does not expand {word}."
        yield Problem("W210", what, mend, line=option.line, key=option.name)
    elif why := sbatch_values.fault(option.name, value):
        what, mend = why
        yield Problem("E207", f"{_shown(option)}: {what}", mend, line=option.line, key=option.name)
    elif option.name == "mail-type":
        yield from _ignored_mail_types(option)


def _ignored_mail_types(option: Option) -> Iterator[Problem]:
    """Of several types sbatch drops those that it does not know, without a word."""
    unknown = [w for w in (option.value or "").split(",") if w.lower() not in sbatch_options.MAIL_TYPES]
    for word in unknown:
        what = f'{_shown(option)}: sbatch ignores "{word}".'
        yield Problem(
            "W222", what, f"Write {sbatch_values.nearest_mail_type(word)}.", line=option.line, key="mail-type"
        )


def _flags(header: Header) -> Iterator[Problem]:
    said = {
        "wait": ("W213", "sbatch does not return until the job ends, which blocks every other entry.", "Remove it."),
        "hold": (
            "W218",
            "each run stays held until you release it.",
            "Remove it, or release them: scontrol release ID.",
        ),
        "begin": ("W221", "each run waits until then, whatever its slot.", "Remove it: the schedule says when."),
        "test-only": ("W219", "sbatch submits nothing.", "Remove it."),
    }
    for name, (code, what, mend) in said.items():
        option = header.find(name)
        if option:
            yield Problem(code, f"{_shown(option)}: {what}", mend, line=option.line, key=name)
    requeue = header.find("requeue", "no-requeue")
    if requeue and requeue.name == "requeue":
        what = f"{_shown(requeue)}: after a node failure the script runs again from its first line."
        yield Problem("W214", what, "Write --no-requeue, unless it can start twice.", line=requeue.line, key="requeue")


def _memory(header: Header) -> Iterator[Problem]:
    given = [o for name in _MEMORY if (o := header.find(name))]
    if len(given) > 1:
        last = max(given, key=lambda o: o.line)
        names = " and ".join(f"--{o.name}" for o in given)
        mend = f"Keep one; --{last.name} is on this line."
        yield Problem("E208", f"{names} exclude each other.", mend, line=last.line, key=last.name)


def _repeated(header: Header) -> Iterator[Problem]:
    first: dict[tuple[str, int], Option] = {}
    for option in header.options:
        before = first.setdefault((option.name, option.component), option)
        if option.value == before.value or option.name == "mail-type":  # mail types add up
            continue
        if option.directive != before.directive:
            what = f"{_shown(option)} wins over {_shown(before)} of line {before.line}."
            mend = "Remove one, or add #SBATCH --ignore-pbs."
            yield Problem("W217", what, mend, line=option.line, key=option.name)
        else:
            what = f"{_shown(option)}: line {before.line} says {before.written}, and the last one counts."
            yield Problem("W220", what, "Remove one.", line=option.line, key=option.name)


def _world(header: Header, facts: Facts) -> Iterator[Problem]:
    partition = header.find("partition")
    if partition and facts.partitions is not None:
        yield from _partitions(partition, facts.partitions)
    if facts.is_folder is None:
        return
    for option in (header.find("output"), header.find("error")):
        folder = _fixed_folder(option.value or "") if option else ""
        if option and folder and facts.is_folder(folder) is False:
            what = f"{_shown(option)}: there is no folder {folder}, so the job would fail without a log."
            yield Problem("W215", what, f"mkdir -p {folder}", line=option.line, key=option.name)
    chdir = header.find("chdir")
    if chdir and (chdir.value or "").startswith("/") and facts.is_folder(chdir.value or "") is False:
        what = f"{_shown(chdir)}: there is no such folder, so the job would run in /tmp."
        yield Problem(
            "W216", what, "Write a folder that all nodes see, or make this one.", line=chdir.line, key="chdir"
        )


def _partitions(option: Option, known: frozenset[str]) -> Iterator[Problem]:
    import difflib

    for name in (option.value or "").split(","):
        if name and name not in known and not _VARIABLE.search(name):
            near = difflib.get_close_matches(name, known, n=1)
            mend = f"Did you mean {near[0]}?" if near else f"There are {', '.join(sorted(known))}."
            what = f"{_shown(option)}: this cluster has no partition {name}."
            yield Problem("E227", what, mend, line=option.line, key="partition")


def _fixed_folder(pattern: str) -> str:
    """The folder of an absolute output pattern, up to the first part that holds a %; "" where there is none."""
    if not pattern.startswith("/") or _VARIABLE.search(pattern):
        return ""
    return pattern.partition("%")[0].rpartition("/")[0]


# --- what was not read ---------------------------------------------------------------------------------------------


def unread(data: bytes) -> Iterator[Problem]:
    """Lines that look like directives and are comments to sbatch, or to cronhpc."""
    from cronhpc.core.shell_text import lex

    text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").decode("utf-8", "surrogateescape")
    first_command = 0
    late: list[tuple[int, str]] = []
    pieces = list(lex(text))
    comments = {piece.line: piece.text for piece in pieces if piece.comment}
    for piece in pieces:
        if not piece.comment:
            first_command = first_command or piece.line
        elif not first_command:
            if not (_USAGE.match(piece.text) and _in_prose(comments, piece.line)):
                yield from _misspelt(piece.line, piece.text)
        elif re.match(r"#SBATCH(?:\s|-)", piece.text):
            late.append((piece.line, piece.text))
        elif piece.text.startswith("#CRON") and looks_meant(piece.text.removeprefix("#CRON")):
            what = f'"{piece.text.strip()}": stands after the first command (line {first_command}), so it is not read.'
            yield Problem("W102", what, "Move it up to the #SBATCH lines.", line=piece.line, key="#CRON")
    if late:
        line, shown = late[0]
        more = f" and {len(late) - 1} more" if len(late) > 1 else ""
        what = f'"{shown.strip()}"{more}: after the first command (line {first_command}), so sbatch does not read it.'
        yield Problem("W211", what, f"Move it above line {first_command}.", line=line, key="#SBATCH")


def _in_prose(comments: Mapping[int, str], line: int) -> bool:
    """Whether a comment stands in a block of others that tells something: how to submit the script, for instance."""
    for step in (-1, 1):
        at = line + step
        while at in comments and not _DIRECTIVE.match(comments[at]):
            if not _USAGE.match(comments[at]) and comments[at].strip("# \t"):
                return True
            at += step
    return False


def _misspelt(line: int, text: str) -> Iterator[Problem]:
    right = _right_spelling(text)
    if right:
        what = f'"{text.strip()}": a comment to sbatch, for its spelling.'
        mend = f'Write "{right}"; to switch it off, write "# off: {right[1:]}".'
        yield Problem("W212", what, mend, line=line, key="#SBATCH")
    match = _CRON_MISSPELT.match(text)
    if match and not text.startswith("#CRON") and looks_meant(match["rest"]):
        what = f'"{text.strip()}": a comment, for its spelling.'
        mend = f'Write "#CRON {match["rest"].strip()}" at the beginning of the line.'
        yield Problem("W102", what, mend, line=line, key="#CRON")


def _right_spelling(text: str) -> str:
    """What a misspelt directive was meant to be; "" for an ordinary comment, or a right one."""
    match = _MISSPELT.fullmatch(text)
    if match and match["rest"].lstrip().startswith("-"):
        return f"#SBATCH {match['rest'].strip()}"
    if _OTHER_CASE.match(text) and not text.startswith("#SBATCH"):
        return f"#SBATCH{text[len('#SBATCH') :].rstrip()}"
    typo = _TYPO.match(text)
    if typo and typo[1] != "SBATCH" and not text.startswith("#SBATCH"):
        import difflib

        if difflib.SequenceMatcher(None, typo[1].upper(), "SBATCH").ratio() > 0.8:  # noqa: PLR2004 - one letter off
            return f"#SBATCH{text[1 + len(typo[1]) :].rstrip()}"
    return ""
