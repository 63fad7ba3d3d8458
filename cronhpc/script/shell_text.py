"""Shell text to its commands: continued lines joined, comments and here-documents out. No shell parser; see `lex`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import lru_cache
from math import prod
from typing import NamedTuple

from cronhpc.cron.values import dataclass

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "ksh93", "mksh", "zsh"})
_TOKEN = re.compile(
    r"""(?P<end>\n|\Z) | (?P<joined>\\\n) | (?P<comment>(?<![^\s;&|(])\#[^\n]*)
    | (?P<heredoc><<(?P<tabs>-?)[ \t]*(?:'(?P<single>[^'\n]+)'|"(?P<double>[^"\n]+)"|\\?(?P<bare>[A-Za-z_][\w.+-]*)))
    | (?P<plain><<|(?:[^\\'"\#\n<]+ | <(?!<) | <<< | (?<=[^\s;&|(])\# | \\(?!\n).?
        | (?<!\$)'[^']*' | (?<=\$)'[^'\\]*(?:\\.[^'\\]*)*' | "[^"\\]*(?:\\.[^"\\]*)*")+)""",
    re.DOTALL | re.VERBOSE,
)
_QUOTED = re.compile(r"""\\.?|'[^']*'?|"(?:\\.|[^"\\])*"?""", re.DOTALL)
_UNCLOSED = 20  # more here-documents without an end than this are something else
_SEPARATORS = re.compile(r"\|\||&&|(?<![<>&])&(?![>&\d])|(?<!>)\|&?|;+|\n")
_LEADING = re.compile(r"\s*(?:(?:if|then|else|elif|while|until|do|time|exec|!|\{|\()\s+|\()*")


@dataclass(frozen=True, slots=True)
class Piece:
    """A command line (continued lines joined, comments out), or one comment; `line` is where it begins."""

    line: int
    text: str
    comment: bool = False


@dataclass(frozen=True, slots=True)
class Interpreter:
    """What the first line says runs the script."""

    name: str
    login: bool  # a login shell reads /etc/profile
    path: str = ""  # as written; "": `env` looks for the name on PATH

    @property
    def is_shell(self) -> bool:
        """Whether shell habits apply; a script without an interpreter counts as one."""
        return not self.name or self.name in SHELLS


@lru_cache(maxsize=64)
def interpreter(first_line: str) -> Interpreter:
    """Of `#!/bin/bash -l`: bash, login. Of anything else: no name."""
    words = first_line.removeprefix("#!").split() if first_line.startswith("#!") else []
    names = [word for word in words if not word.startswith("-") and "=" not in word]
    by_env = bool(names) and names[0].rpartition("/")[2] == "env"
    names = names[1:] if by_env else names
    flags = [word for word in words[1:] if word.startswith("-")]
    login = any(f == "--login" or re.fullmatch(r"-[a-zA-Z]*l[a-zA-Z]*", f) for f in flags)
    path = names[0] if names and (not by_env or "/" in names[0]) else ""
    return Interpreter(names[0].rpartition("/")[2] if names else "", login, path)


@lru_cache(maxsize=4)  # here and below: each rule of a linter asks anew
def lex(text: str) -> tuple[Piece, ...]:
    """The commands and comments of `text`, in order.

    Knows quotes, backslashes, comments and here-documents, which is enough to tell code from data in batch scripts.
    From an unclosed quote on nothing is returned: better silent than wrong.
    """
    pieces: list[Piece] = []
    comments: list[Piece] = []  # within the command that is read, and told after it
    heredocs: list[re.Match[str]] = []
    command, begins = "", 0  # its line
    at, line, unclosed = 0, 1, 0
    while token := _TOKEN.match(text, at):
        kind, begin, at = token.lastgroup, at, token.end()
        if kind == "plain":
            begins = begins or (0 if token[0].isspace() else line)
            command += token[0]
        elif kind == "comment":
            comments.append(Piece(line, text[text.rfind("\n", 0, begin) + 1 : at], comment=True))
        elif kind == "heredoc":
            if command.count("((") <= command.count("))"):  # else a shift
                heredocs.append(token)
            begins, command = begins or line, command + token[0]
        elif kind == "joined" or (command.rstrip().endswith(("|", "&&")) and not heredocs and token[0]):
            command += " "  # it goes on
        else:
            for heredoc in heredocs:
                closed = _closing_line(heredoc).search(text, at) if unclosed < _UNCLOSED else None
                unclosed += closed is None  # then it was no here-document
                line += text.count("\n", at, closed.end()) if closed else 0
                at = closed.end() if closed else at
            if begins:
                pieces.append(Piece(begins, command.strip()))
            pieces += comments
            command, begins, comments, heredocs = "", 0, [], []
            if not token[0]:  # the end of the text
                break
        line += token[0].count("\n")
    return tuple(pieces)


def _closing_line(heredoc: re.Match[str]) -> re.Pattern[str]:
    delimiter = heredoc["single"] or heredoc["double"] or heredoc["bare"]
    tabs = r"\t*" if heredoc["tabs"] else ""
    return re.compile(rf"^{tabs}{re.escape(delimiter)}[^\S\n]*(?:\n|\Z)", re.MULTILINE)


@lru_cache(maxsize=1024)
def mask(text: str) -> str:
    """`text` of equal length with what is quoted or in parentheses blotted out, leaving this level alone."""
    text = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text)
    if "(" not in text:
        return text
    blotted, depth = "", 0
    for char in text:
        depth += char == "("
        blotted += "_" if depth else char
        depth -= char == ")" and depth > 0
    return blotted


@lru_cache(maxsize=1024)
def commands(text: str) -> tuple[tuple[str, str], ...]:
    """The simple commands of a command line, each with the separator before it (`""`, `|`, `;`, `&&` …)."""
    simple = []
    at = 0
    before = ""
    for match in _SEPARATORS.finditer(mask(text)):
        simple.append((before, text[at : match.start()].strip()))
        at, before = match.end(), match[0]
    return (*simple, (before, text[at:].strip()))


def bare(command: str) -> str:
    """A simple command without the keywords in front of it."""
    match = _LEADING.match(command)
    return command[match.end() if match else 0 :]


# --- scripts that submit themselves -----------------------------------------------------------------------------------

SELF = r"[\"']?\$(?:0\b|\{0\b|\{?BASH_SOURCE\b)"
_SELF_ANYWHERE = re.compile(SELF)
_SELF_WORD = re.compile(r"(?:^|\s)" + SELF)
_ASKS_QUEUE = re.compile(r"Command=|%o\b")  # `scontrol show job` and `squeue -o %o` tell a job its own script
_OWN_NAME = re.compile(r"\$\{?SLURM_JOB_NAME\b")
_OF_A_PROGRAM = re.compile(r"__file__|\bargv\[0\]|\$0\b|\$PROGRAM_NAME")
_SBATCH = re.compile(r"(?:^|[\s\"'`(;&|/])sbatch\s+([^|;&\n]*)")
_SAYS = re.compile(r"(?:echo|printf|cat|log|info|alias|which|type|hash|command\s+-v|:)\b")
_ASSIGNS = re.compile(r"(?:export\s+|local\s+|readonly\s+|declare\s+(?:-\w+\s+)*)?([A-Za-z_]\w*)=")
VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")
_AFTER_ITSELF = re.compile(
    r"(?:--dependency[=\s]|-d\s*)[\"']?(?:after\w*:\S*SLURM_(?:ARRAY_)?JOB_?ID|\S*\bsingleton\b)"
)
_DOCSTRING = re.compile(r"^[ \t]*[rR]?(\"{3}|\'{3}).*?\1", re.MULTILINE | re.DOTALL)
_STARTS_COMMANDS = re.compile(r"subprocess|system|exec|spawn|popen|\brun\b|\bcall\b|`|\bqx\b|\bpipe\(", re.IGNORECASE)
_BEGINS_LATER = re.compile(r"(?:^|\s)(?:--begin\b|-b)")
_LATER_ANYWHERE = re.compile(r"--begin\b|\bSBATCH_BEGIN\b")
_BEGIN_DIRECTIVE = re.compile(r"^#SBATCH\s(?:.*\s)?(?:--begin\b|-b)", re.MULTILINE)
_SLEEP = re.compile(r"(?:(?:then|else|time)\s+)?sleep\s+(\S+)")
_PROGRAM_SLEEP = re.compile(r"\bsleep\(?\s*([\d_*. ]+)")
_BLOCK = re.compile(r"(?:(?:then|else|do)\s+)*(?:while|until|for|foreach|select)\b|.*\{$|\{\s")
_BLOCK_END = re.compile(r"done\b|\}|end$")
_LENGTH = re.compile(r"[\"']?(?:\$\(\()?\s*(\d[\d_]*(?:\.\d*)?(?:\s*\*\s*\d+)*)\s*(?:\)\))?([smhd]?)[\"']?")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PAUSE = 60  # seconds: a shorter sleep waits for something, it is no clock


class Resubmission(Enum):
    """How a script goes on after itself."""

    NONE = "it does not submit itself"
    SERIES = "its next piece waits for this one to end: work that goes on"
    UNCLEAR = "its next piece neither waits for this one nor begins later"
    CLOCK = "its next piece begins later, at a time of its own, or after a sleep: a scheduler"


class SelfSubmission(NamedTuple):
    """One command by which a script submits itself."""

    line: int  # from 1
    by_copy: bool  # by $0, which inside a job is a copy in the node's spool folder
    waits: bool  # for the piece that submits it to end
    begins_later: bool


def resubmission(text: str, file_name: str) -> Resubmission:
    """How the script `text`, known as `file_name` ("" where it has none), submits itself.

    A scheduler asks for a time (`--begin`), or sleeps, between its pieces; a training goes on at once, or when the
    piece before it has ended. A program that names sbatch in its description alone does not submit itself.
    """
    by = interpreter(text.partition("\n")[0])
    if by.is_shell or by.name in {"csh", "tcsh"}:
        code = tuple(piece for piece in lex(text) if not piece.comment)
        submissions = tuple(self_submissions(code, file_name))
        later = bool(_BEGIN_DIRECTIVE.search(text)) or _pauses(code)
    else:
        program = _DOCSTRING.sub("", "\n".join(li for li in text.split("\n") if not li.lstrip().startswith("#")))
        submits = "sbatch" in program and _STARTS_COMMANDS.search(program)
        itself = submits and (_OF_A_PROGRAM.search(program) or _names(file_name).search(program))
        waits = bool(re.search(r"after(?:any|ok|notok|corr)\b|singleton", program))
        submissions = (SelfSubmission(0, False, waits, bool(_LATER_ANYWHERE.search(program))),) if itself else ()  # noqa: FBT003
        later = any(_seconds(each[1]) >= _PAUSE for each in _PROGRAM_SLEEP.finditer(program))
    if not submissions:
        return Resubmission.NONE
    if all(each.begins_later or (later and not each.waits) for each in submissions) or _BEGIN_DIRECTIVE.search(text):
        return Resubmission.CLOCK
    return Resubmission.SERIES if all(each.waits for each in submissions) else Resubmission.UNCLEAR


def _pauses(code: Iterable[Piece]) -> bool:
    """Whether a script sleeps for a minute or more and does nothing else meanwhile.

    A sleep in a loop waits for something, and one beside a command in the background ends a training in time.
    """
    assigned: dict[str, str] = {}
    depth, pauses = 0, False
    for piece in code:
        for before, command in commands(piece.text):
            if before == "&":
                return False
            depth += bool(_BLOCK.match(command)) - bool(_BLOCK_END.match(command))
            if value := re.fullmatch(r"(\w+)=(\S+)", command):
                assigned[value[1]] = value[2]
            if depth <= 0 and (sleep := _SLEEP.fullmatch(command)):
                name = VARIABLE.fullmatch(sleep[1].strip("\"'"))
                pauses = pauses or _seconds(assigned.get(name[1], "") if name else sleep[1]) >= _PAUSE
    return pauses


def _seconds(length: str) -> float:
    """Of `3600`, `1h`, `$((60 * 60))`; 0 where nobody can tell."""
    match = _LENGTH.fullmatch(length.strip())
    return prod(map(float, match[1].split("*"))) * _UNITS.get(match[2], 1) if match else 0


def self_submissions(code: Iterable[Piece], file_name: str) -> Iterator[SelfSubmission]:
    """The commands of a shell script that submit it: by $0, by its name, by a variable, by asking the queue."""
    code = tuple(code)
    if not any(_SBATCH.search(piece.text) for piece in code):
        return
    own_file = _names(file_name)
    own_variables: set[str] = set()
    later_variables: set[str] = set()
    for piece in code:
        assigned = _ASSIGNS.match(piece.text)
        if assigned and _LATER_ANYWHERE.search(piece.text) and not _SBATCH.search(piece.text):
            later_variables.add(assigned[1])
        if assigned and any(p.search(piece.text) for p in (_SELF_ANYWHERE, _ASKS_QUEUE, own_file)):
            own_variables.add(assigned[1])
        for command, arguments in _sbatch_commands(piece.text):
            by_copy = _SELF_WORD.search(arguments)
            by_name = own_file.search(arguments)
            variables = set(VARIABLE.findall(arguments))
            if (
                by_copy
                or by_name
                or own_variables & variables
                or _OWN_NAME.search(re.sub(r"(?:--job-name[=\s]|-J\s*)\S+", "", arguments))
                or _ASKS_QUEUE.search(command)
            ):
                script = by_copy or by_name
                options = arguments[: script.start()] if script else arguments  # what follows is for the script
                later = _BEGINS_LATER.search(options) or "SBATCH_BEGIN=" in command or later_variables & variables
                yield SelfSubmission(
                    piece.line,
                    bool(by_copy),
                    waits=bool(_AFTER_ITSELF.search(options)),
                    begins_later=bool(later or "SBATCH_BEGIN" in later_variables),
                )


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
