"""An entry's name, from the program that its command runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import groupby

_SKIPPED = frozenset(
    {"cd", "test", "[", "[[", "sleep", "source", ".", "export", "set", "unset", "umask", "ulimit", "module", "conda"}
    | {
        "mkdir",
        ":",
        "true",
        "eval",
        "trap",
        "pushd",
        "popd",
        "wait",
        "read",
        "shift",
        "local",
        "for",
        "case",
        "function",
    }
    | {"fi", "done", "esac", "}", "conda", "module", "ulimit", "alias", "pgrep", "grep", "hash", "type", "which"}
)
_PREFIXES = frozenset({"{", "!", "if", "then", "else", "elif", "do", "while", "until"})
_PLAIN = frozenset(
    {"exit", "return", "break", "continue", "false", "echo", "printf", "date", "cat", "ls", "rm", "touch"}
)
_ENDS = frozenset({"exit", "return", "break", "continue", "false"})
_WRAPPERS = frozenset(
    {"nice", "ionice", "nohup", "time", "timeout", "flock", "env", "sudo", "exec", "command", "builtin", "setsid"}
    | {"stdbuf", "taskset", "unbuffer", "systemd-run", "chronic", "cronic", "srun", "sbatch"}
)
_SBATCH = ("-A", "-c", "-D", "-J", "-n", "-N", "-o", "-e", "-p", "-q", "-t")
_VALUE_FOLLOWS = {
    "nice": ("-n",),
    "ionice": ("-c", "-n"),
    "timeout": ("-k", "-s"),
    "env": ("-u", "-C"),
    "sudo": ("-u", "-g"),
    "flock": ("-w", "-E"),
    "conda run": ("-n", "--name", "-p", "--prefix", "--cwd"),
    "stdbuf": ("-i", "-o", "-e"),
    "srun": _SBATCH,
    "sbatch": _SBATCH,
}
_INTERPRETERS = re.compile(r"(?:python|pypy|perl|ruby|node|Rscript|julia|bash|sh|dash|zsh|ksh|php|uv|poetry)[\d.]*")
_ENDINGS = re.compile(r"\.(?:sh|bash|zsh|ksh|csh|py|pl|rb|R|r|jl|js|php|slurm|sbatch|job|exe|bin)$")
_ASIDE = re.compile(r"\$\(\(.*?\)\)|(?<!\S)\d?(?:>>?|<)(?!<)&?\s*[^\s<>&|;()]+")  # arithmetic; `>FILE`, `2>&1`
_RUNNERS = frozenset({"conda", "mamba", "micromamba"})
_LONGEST = 60


def name_of(command: str, job_name: str = "") -> str:
    """A name for what `command` runs, fit for a file; "job" where nothing in it gives one."""
    if job_name:
        return _fit(_stem(job_name))
    found = [program for words in _commands(command) if (program := _program(words))]
    real = [program for program in found if program.rpartition("/")[2] not in _PLAIN]
    return _fit(_stem((real or [each for each in found if each not in _ENDS] or [""])[0]))


def submits(command: str) -> bool:
    """Whether what `command` runs in the end, behind settings and wrappers, is sbatch."""
    for words in _commands(command):
        plain = [word for word in words if word not in _PREFIXES and not re.match(r"[A-Za-z_]\w*=", word)]
        bare = plain[0].rpartition("/")[2] if plain else ""
        if bare not in _SKIPPED and bare not in _PLAIN and bare:
            programs = [word.rpartition("/")[2] for word in plain]
            at = next((at for at, word in enumerate(programs) if word not in _WRAPPERS or word == "sbatch"), -1)
            return at >= 0 and programs[at] == "sbatch"
    return False


def _commands(command: str) -> Iterator[list[str]]:
    """The simple commands of a line, roughly: nothing depends on it but a name."""
    lexer = shlex.shlex(_ASIDE.sub(" ", command), posix=True, punctuation_chars="&|;()")
    lexer.whitespace_split = True
    try:
        found = list(lexer)
    except ValueError:  # an open quote
        found = command.split()
    for is_operator, words in groupby(found, lambda word: bool(word) and set(word) <= set("&|;()")):
        if not is_operator:
            yield list(words)


def _program(words: list[str]) -> str:
    """The program of one command, behind settings and wrappers; "" for what is only in its way."""
    rest = [word for word in words if word not in _PREFIXES]
    while rest:
        word = rest.pop(0)
        bare = word.rpartition("/")[2]
        if re.match(r"[A-Za-z_]\w*=", word):
            continue
        if bare in _RUNNERS and rest[:1] == ["run"]:
            rest = _behind("conda run", rest[1:])
            continue
        if bare in _SKIPPED:
            return ""
        if bare in {"-c", "--command"}:  # flock's
            return _argument(["-c", *rest])
        if bare in _WRAPPERS:
            rest = _behind(bare, rest)
        elif _INTERPRETERS.fullmatch(bare):
            return _argument(rest) or bare
        else:
            return word
    return ""


def _behind(wrapper: str, words: list[str]) -> list[str]:
    """The words that a wrapper runs: without its options, and the one argument that some take first."""
    at = 0
    while at < len(words) and (words[at].startswith("-") or "=" in words[at]):
        at += 2 if words[at] in _VALUE_FOLLOWS.get(wrapper, ()) else 1
    if wrapper in {"timeout", "flock", "taskset"}:
        at += 1
    return words[at:]


def _argument(words: list[str]) -> str:
    """The script, or the module, that an interpreter is given."""
    for at, word in enumerate(words):
        if word == "-m" and at + 1 < len(words):
            return words[at + 1]
        if re.fullmatch(r"-[a-z]*c", word) and at + 1 < len(words):
            return next((found for part in _commands(words[at + 1]) if (found := _program(part))), "")
        if word == "run" or word.startswith("-"):
            continue
        return word
    return ""


def _stem(program: str) -> str:
    return _ENDINGS.sub("", program.rstrip("/").rpartition("/")[2])


def _fit(name: str) -> str:
    """Fit for a file, a switch and a command line: no dot or dash first, no job id, not ALL."""
    plain = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-.")[:_LONGEST].rstrip("-.")
    if not plain:
        return "job"
    return f"job-{plain}" if plain.upper() == "ALL" or re.fullmatch(r"[0-9]+(?:_.*)?", plain) else plain
