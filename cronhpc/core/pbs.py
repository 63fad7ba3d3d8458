"""`#PBS` and `#BSUB` lines, which sbatch obeys after the `#SBATCH` ones, and so over them.

Measured on sbatch 22.05.8: at column 0 only; anywhere among the first 100 lines that do not begin with `#`, past the
first command too; `#BSUB` lines switch the `#PBS` ones off; `#SBATCH --ignore-pbs` both.
"""

from __future__ import annotations

from cronhpc.core.directives import split_directive, text_lines
from cronhpc.core.model import Problem
from cronhpc.core.sbatch_options import Option

_LINES = 100
# letter -> sbatch's option; "" is taken and ignored; a letter not named here is refused
_PBS = {
    "a": "begin", "A": "account", "e": "error", "J": "array", "t": "array", "l": "", "m": "mail-type",
    "M": "mail-user", "N": "job-name", "o": "output", "p": "nice", "q": "partition", "v": "export", "W": "",
    "c": "", "C": "", "j": "", "k": "", "r": "", "S": "", "u": "",
}  # fmt: skip
_PBS_FLAGS = {"h": "hold", "I": "", "V": "", "z": ""}
_BSUB = {
    "c": "chdir", "e": "error", "J": "job-name", "m": "nodelist", "M": "mem-per-cpu", "n": "ntasks", "o": "output",
    "q": "partition", "W": "time",
}  # fmt: skip
_BSUB_FLAGS = {"x": "exclusive"}


def options(data: bytes, *, ignore: bool) -> tuple[tuple[Option, ...], tuple[Problem, ...]]:
    """The options that other systems' lines stand for, in sbatch's names, and what sbatch would refuse in them."""
    if ignore or (b"#PBS" not in data and b"#BSUB" not in data):
        return (), ()
    for directive in ("#BSUB", "#PBS"):
        lines = [split_directive(line, directive, number) for number, line in _lines(data, directive)]
        if lines:
            options, problems = _read([word for words, _ in lines for word in words], directive)
            return options, (*(each for _, wrong in lines for each in wrong), *problems)
    return (), ()


def _lines(data: bytes, directive: str) -> list[tuple[int, str]]:
    found = []
    others = 0
    for number, line in text_lines(data):
        if line.startswith(directive):
            found.append((number, line))
        elif not line.startswith("#"):
            others += 1
            if others > _LINES:
                break
    return found


def _read(found: list[tuple[str, int]], directive: str) -> tuple[tuple[Option, ...], list[Problem]]:
    problems: list[Problem] = []
    valued, flags = (_PBS, _PBS_FLAGS) if directive == "#PBS" else (_BSUB, _BSUB_FLAGS)
    options: list[Option] = []
    rest = found[::-1]
    while rest:
        word, line = rest.pop()
        word = "-c" if directive == "#BSUB" and word == "-cwd" else word  # sbatch rewrites it so
        letter = word[1:2] if word.startswith("-") else ""
        if letter in flags:
            options += _option(flags[letter], None, line, directive, word)
        elif letter in valued:
            value = word[2:] or (rest.pop()[0] if rest else "")
            written = f"-{letter} {value}"
            resources = directive == "#PBS" and letter == "l"
            options += (
                _resources(value, line) if resources else _option(valued[letter], value, line, directive, written)
            )
        else:
            what = f'"{directive} {word}": sbatch obeys {directive} lines, and cannot read this one.'
            problems.append(Problem("E209", what, "Remove it, or add #SBATCH --ignore-pbs.", line=line, key=word))
            while letter and rest and rest[-1][1] == line and not rest[-1][0].startswith("-"):
                rest.pop()  # most likely its value: one complaint is enough
    return tuple(options), problems


def _option(name: str, value: str | None, line: int, directive: str, written: str) -> list[Option]:
    return [Option(name, value, line, written, directive)] if name else []


def _resources(listed: str, line: int) -> list[Option]:
    """`-l walltime=1:00:00,mem=1gb,naccelerators=2`; what sbatch ignores is ignored."""
    found = []
    for item in listed.split(","):
        name, _, value = item.partition("=")
        written = f"-l {item}"
        if name in {"walltime", "cput"}:
            found += _option("time", value, line, "#PBS", written)
        elif name in {"mem", "nodes"}:
            found += _option(name, value.partition(":")[0], line, "#PBS", written)
        elif name == "naccelerators" or (name == "accelerator" and value.lower() == "true"):
            count = value if name == "naccelerators" else "1"
            found += _option("gres", f"gpu:{count}", line, "#PBS", written)
    return found
