"""Whether a batch script submits itself: what `check` warns of, and what makes a job a hand-made scheduler."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cronhpc.core.shell_text import Piece, bare, commands, interpreter, lex

_SELF = r"[\"']?\$(?:0\b|\{0\b|\{?BASH_SOURCE\b)"
_SELF_ANYWHERE = re.compile(_SELF)
_SELF_WORD = re.compile(r"(?:^|\s)" + _SELF)
_ASKS_QUEUE = re.compile(r"Command=|%o\b")  # `scontrol show job` and `squeue -o %o` tell a job its own script
_OWN_NAME = re.compile(r"\$\{?SLURM_JOB_NAME\b")
_OF_A_PROGRAM = re.compile(r"__file__|\bargv\[0\]|\$0\b|\$PROGRAM_NAME")
_SBATCH = re.compile(r"(?:^|[\s\"'`(;&|/])sbatch\s+([^|;&\n]*)")
_SAYS = re.compile(r"(?:echo|printf|cat|log|info|alias|which|type|hash|command\s+-v|:)\b")
_ASSIGNS = re.compile(r"(?:export\s+|local\s+|readonly\s+|declare\s+(?:-\w+\s+)*)?([A-Za-z_]\w*)=")
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")
_AFTER_ITSELF = re.compile(
    r"(?:--dependency[=\s]|-d\s*)[\"']?(?:after\w*:\S*SLURM_(?:ARRAY_)?JOB_?ID|\S*\bsingleton\b)"
)
_DOCSTRING = re.compile(r"^[ \t]*[rR]?(\"{3}|\'{3}).*?\1", re.MULTILINE | re.DOTALL)
_STARTS_COMMANDS = re.compile(r"subprocess|system|exec|spawn|popen|\brun\b|\bcall\b|`|\bqx\b|\bpipe\(", re.IGNORECASE)
_BEGINS_LATER = re.compile(r"(?:^|\s)(?:--begin\b|-b)")


class SelfSubmission(NamedTuple):
    """One command by which a script submits itself."""

    line: int  # from 1
    by_copy: bool  # by $0, which inside a job is a copy in the node's spool folder
    is_series: bool  # the next piece waits for this one to end: work that goes on, not a clock


def submits_itself(text: str, file_name: str) -> bool:
    """Whether the script `text`, known as `file_name` ("" where it has none), submits itself as a scheduler does.

    A training whose next piece waits for this one (`--dependency=afterany:$SLURM_JOB_ID "$0"`, or `singleton`) is no
    scheduler, nor is a program that names sbatch in its description alone.
    """
    by = interpreter(text.partition("\n")[0])
    if by.is_shell or by.name in {"csh", "tcsh"}:
        code = tuple(piece for piece in lex(text) if not piece.comment)
        return any(not each.is_series for each in self_submissions(code, file_name))
    lines = [line for line in text.split("\n") if not line.lstrip().startswith("#")]
    program = _DOCSTRING.sub("", "\n".join(lines))
    submits = "sbatch" in program and _STARTS_COMMANDS.search(program)
    return bool(submits) and bool(_OF_A_PROGRAM.search(program) or _names(file_name).search(program))


def self_submissions(code: Iterable[Piece], file_name: str) -> Iterator[SelfSubmission]:
    """The commands of a shell script that submit it: by $0, by its name, by a variable, by asking the queue."""
    own_file = _names(file_name)
    own_variables: set[str] = set()
    for piece in code:
        assigned = _ASSIGNS.match(piece.text)
        if assigned and any(p.search(piece.text) for p in (_SELF_ANYWHERE, _ASKS_QUEUE, own_file)):
            own_variables.add(assigned[1])
        for command, arguments in _sbatch_commands(piece.text):
            by_copy = bool(_SELF_WORD.search(arguments))
            if (
                by_copy
                or own_file.search(arguments)
                or own_variables & set(_VARIABLE.findall(arguments))
                or _OWN_NAME.search(re.sub(r"(?:--job-name[=\s]|-J\s*)\S+", "", arguments))
                or _ASKS_QUEUE.search(command)
            ):
                is_series = bool(_AFTER_ITSELF.search(arguments)) and not _BEGINS_LATER.search(arguments)
                yield SelfSubmission(piece.line, by_copy, is_series)


def _names(file_name: str) -> re.Pattern[str]:
    """The file's name as a word of its own, whatever folder stands before it."""
    if not file_name:
        return re.compile(r"(?!)")
    return re.compile(rf"(?:^|[\s/\"'=<]){re.escape(file_name)}(?=$|[\s\"')\],`<>])", re.MULTILINE)


def _sbatch_commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command that calls sbatch, through ssh or eval too, and what follows its sbatch."""
    for _, command in commands(text):
        if not _SAYS.match(bare(command)):
            yield from ((command, match[1]) for match in _SBATCH.finditer(command))
