"""`#PBS` lines to options, as qsub of OpenPBS 23.06 reads them: up to the first command, several on a line."""

from __future__ import annotations

import re
import shlex

from cronhpc.script.directives import comment_lines
from cronhpc.script.sbatch_options import Option

# In our names, which are sbatch's; the others keep their own.
_NAMES = {
    "-A": "account",
    "-J": "array",
    "-N": "job-name",
    "-a": "begin",
    "-e": "error",
    "-h": "hold",
    "-o": "output",
    "-q": "partition",
    "-v": "export",
}
_FLAGS = frozenset({"-I", "-V", "-X", "-f", "-h", "-z"})  # no value follows


def options_of(data: bytes, prefix: str) -> tuple[Option, ...]:
    """The options of a script's directives, of which qsub itself is the judge, each `written` as a shell takes it."""
    found: list[Option] = []
    for number, line in comment_lines(data):
        if line.startswith(prefix):
            found += _of_line(line.removeprefix(prefix), number, prefix)
    return tuple(found)


def _of_line(text: str, number: int, prefix: str) -> list[Option]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    found, rest = [], words[::-1]
    while rest:
        word = rest.pop()
        name, value = word[:2], word[2:]
        if not re.fullmatch("-[A-Za-z]", name):
            continue  # qsub refuses it
        takes = name not in _FLAGS
        value = value or (rest.pop() if takes and rest else "")
        written = shlex.join([name, value] if value else [name])
        if name in {"-o", "-e"}:
            value = re.sub("^[^/:]+:", "", value).replace("^array_index^", "%a")
        found.append(Option(_NAMES.get(name, name), value or None, number, written, prefix))
    return found
