"""A table's jobs as batch scripts of cron.d/: named, unique, and recognised when the table is imported again."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import groupby

from cronhpc.cron.values import dataclass, digest
from cronhpc.importer.table import Job, Table
from cronhpc.script.dialect import SYSTEMS
from cronhpc.script.shell_text import SHELLS
from cronhpc.script.spelling import SPELLINGS

FOLDER = "cron.d"


@dataclass(frozen=True, slots=True)
class Imported:
    """One entry. `existing` is the source of the script that holds it already: then nothing is to be written."""

    name: str
    path: str  # below the cron directory
    script: bytes
    job: Job
    existing: str = ""


def named(table: Table, taken: Collection[str], marks: Mapping[str, str]) -> tuple[Imported, ...]:
    """The jobs of `table` with names that no entry in `taken` has.

    `marks`: the source of every script that was imported before, by its mark.
    """
    used = {name.lower() for name in taken}  # for people, and for file systems, case makes no two names
    alike: Counter[str] = Counter()
    imported = []
    for job in table.jobs:
        first = fingerprint(table.source, job, 0)
        mark = fingerprint(table.source, job, alike[first])
        alike[first] += 1
        existing = marks.get(mark, "")
        name = (
            existing.rpartition("/")[2].removesuffix(".slurm")
            if existing
            else _unused(name_of(job.command, job.job_name), used)
        )
        used.add(name.lower())
        path = existing or f"{FOLDER}/{name}.slurm"
        imported.append(Imported(name, path, script(table.source, job, mark), job, existing))
    return tuple(imported)


def _unused(wanted: str, used: Collection[str]) -> str:
    name, number = wanted, 1
    while name.lower() in used:
        number += 1
        name = f"{wanted}-{number}"
    return name


# --- names ------------------------------------------------------------------------------------------------------------


_SKIPPED = frozenset(  # what prepares for a command, or asks whether to run it
    {"cd", "test", "[", "[[", "sleep", "source", ".", "export", "set", "unset", "umask", "ulimit", "module", "conda"}
    | {"mkdir", ":", "true", "eval", "trap", "pushd", "popd", "wait", "read", "shift", "local", "for", "case"}
    | {"function", "fi", "done", "esac", "}", "alias", "pgrep", "grep", "hash", "type", "which"}
)
_PREFIXES = frozenset({"{", "!", "if", "then", "else", "elif", "do", "while", "until"})
_ENDS = frozenset({"exit", "return", "break", "continue", "false"})
_PLAIN = _ENDS | {"echo", "printf", "date", "cat", "ls", "rm", "touch", "ps", "lockfile"}
_WRAPPERS = frozenset(
    {"nice", "ionice", "nohup", "time", "timeout", "flock", "env", "sudo", "exec", "command", "builtin", "setsid"}
    | {"stdbuf", "taskset", "unbuffer", "systemd-run", "chronic", "cronic", "srun", "setlock"}
    | (SUBMITTING := {each.commands[0] for each in SYSTEMS})
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
    "qsub": (*SPELLINGS["grid_engine"].valued.split(), *SPELLINGS["pbs"].valued.split()),
    "bsub": tuple(SPELLINGS["lsf"].valued.split()),
}
_INTERPRETERS = re.compile(r"(?:python|pypy|perl|ruby|node|Rscript|julia|bash|sh|dash|zsh|ksh|php|uv|poetry)[\d.]*")
_ENDINGS = re.compile(r"\.(?:sh|bash|zsh|ksh|csh|py|pl|rb|R|r|jl|js|php|slurm|sbatch|pbs|lsf|job|exe|bin)$")
# `$(…)`, also with one more in it, and `$((…))`; then `>FILE`, `2>&1`
_ASIDE = re.compile(r"\$\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|`[^`]*`|(?<!\S)\d?(?:>>?|<)(?!<)&?\s*[^\s<>&|;()]+")
_RUNNERS = frozenset({"conda", "mamba", "micromamba"})
_LONGEST = 60


def name_of(command: str, job_name: str = "") -> str:
    """A name for what `command` runs, fit for a file; "job" where nothing in it gives one."""
    if job_name:
        return _fit(_stem(job_name))
    command = re.sub(r"\bbsub\b([^<|;&]*)<", r"bsub\1", command)  # which reads its script there
    programs = [*filter(None, map(_program, _simple_commands(command)))]
    real = [program for program in programs if _bare(program) not in _PLAIN]
    return _fit(_stem((real or [program for program in programs if program not in _ENDS] or [""])[0]))


def submits(command: str) -> bool:
    """Whether what `command` runs in the end, behind settings and wrappers, is sbatch, or its like elsewhere."""
    runs = ([_bare(each) for each in _programs(words)] for words in _simple_commands(command))
    real = next((names for names in runs if names[0] and names[0] not in _PLAIN), [])
    return not SUBMITTING.isdisjoint(real)


def _bare(program: str) -> str:
    return program.rpartition("/")[2]


def _simple_commands(command: str) -> Iterator[list[str]]:
    """The simple commands of a line, roughly: nothing depends on it but a name."""
    lexer = shlex.shlex(_ASIDE.sub(" ", command), posix=True, punctuation_chars="&|;()")
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:  # an open quote
        tokens = command.split()
    for is_operator, words in groupby(tokens, lambda word: bool(word) and set(word) <= set("&|;()")):
        if not is_operator:
            yield list(words)


def _program(words: list[str]) -> str:
    """The program of one command, behind settings and wrappers; "" for what is only in its way."""
    *_, last = _programs(words)
    return last


def _programs(words: list[str]) -> Iterator[str]:
    """The wrappers of one command from the outermost to the innermost, and its program; "" where that is none."""
    rest = [word for word in words if word not in _PREFIXES]
    while rest:
        word = rest.pop(0)
        bare = _bare(word)
        if re.match(r"[A-Za-z_]\w*=", word):
            continue
        if bare in _RUNNERS and rest[:1] == ["run"]:
            rest = _behind("conda run", rest[1:])
        elif bare == "command" and rest[:1] in (["-v"], ["-V"]):  # as type and which
            break
        elif bare in _WRAPPERS:
            yield word
            rest = _behind(bare, rest)
        else:
            if bare in {"-c", "--command"}:  # flock's
                yield _argument(["-c", *rest])
            elif _INTERPRETERS.fullmatch(bare):
                yield _argument(rest) or bare
            else:
                yield "" if bare in _SKIPPED else word
            return
    yield ""


def _behind(wrapper: str, words: list[str]) -> list[str]:
    """The words that a wrapper runs: without its options, and the one argument that some take first."""
    at = 0
    while at < len(words) and (words[at].startswith("-") or "=" in words[at]):
        at += 2 if words[at] in _VALUE_FOLLOWS.get(wrapper, ()) else 1
    if wrapper in {"timeout", "flock", "taskset", "setlock"}:
        at += 1
    return words[at:]


def _argument(words: list[str]) -> str:
    """The script, or the module, that an interpreter is given."""
    for at, word in enumerate(words):
        if word == "-m" and at + 1 < len(words):
            return words[at + 1]
        if re.fullmatch(r"-[a-z]*c", word) and at + 1 < len(words):
            return next(filter(None, map(_program, _simple_commands(words[at + 1]))), "")
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


# --- scripts ----------------------------------------------------------------------------------------------------------


_READ_BY_SOMEONE = re.compile(r"#(?:!|\$|SBATCH|S?CRON|PBS|BSUB)", re.IGNORECASE)
MARK = re.compile(rb"^# imported from a (?:crontab|scrontab), ([0-9a-f]{12})$", re.MULTILINE)


def fingerprint(source: str, job: Job, ordinal: int) -> str:
    """What marks the script of one entry: the same for the same entry, wherever in the table it stands.

    `ordinal` counts entries that are alike in everything.
    """
    # Without the comments, which may be corrected, and the zone, which the settings decide (CRON_TZ is a variable).
    parts = (job.schedule, job.command, job.stdin, job.shell, job.variables, job.options, ordinal)
    text = f"{source}\0{parts!r}"
    return digest(text.encode("utf-8", "surrogatepass"))[:12]


def script(source: str, job: Job, mark: str) -> bytes:
    """The script of `job`: it runs the command as the table's scheduler did, in the home folder."""
    shell = job.shell if is_sh(job.shell) else "/bin/sh"
    lines = [f"#!{shell}", *map(_comment, job.comments)]
    lines += [directive(words) for words in job.options]
    lines += [f"#CRON {job.cron}", f"# imported from a {source}, {mark}"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in job.variables]
    if "HOME" in dict(job.variables):
        lines.append('cd "$HOME" || exit 1')
    if job.stdin:
        lines += _stdin(job.stdin)
    lines.append(_command(job))
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def is_sh(shell: str) -> bool:
    """Whether it reads a script as sh does."""
    return shell.rpartition("/")[2] in SHELLS


def directive(options: tuple[str, ...]) -> str:
    """An #SBATCH line of options that sbatch splits into just these."""
    return " ".join(("#SBATCH", *map(_quoted, options)))


def _quoted(option: str) -> str:
    if not re.search(r"""["'\\#\s]""", option):
        return option
    name, equals, value = option.partition("=") if option.startswith("--") else ("", "", option)
    if not equals:
        name, value = "", option
    escaped = re.sub(r'(["\\])', r"\\\1", value)
    return f'{name}{equals}"{escaped}"'


def _comment(text: str) -> str:
    """A comment that nobody takes for a directive."""
    return f"# {text}" if _READ_BY_SOMEONE.match(text) else text


def _stdin(text: str) -> list[str]:
    """The script's stdin: all of the command reads it, as under cron."""
    body = text.removesuffix("\n").split("\n")
    end = "END"
    while end in body:
        end += "_"
    return [f"exec <<'{end}'", *body, end]


def _command(job: Job) -> str:
    command = job.command
    bash_reads = job.shell.rpartition("/")[2] == "bash" and "BASH_ENV" in dict(job.variables)
    if bash_reads or not is_sh(job.shell):
        return f"exec {shlex.quote(job.shell)} -c {shlex.quote(command)}"
    return f": {command}" if command.startswith("#") else command
