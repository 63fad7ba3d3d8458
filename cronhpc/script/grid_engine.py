"""`#$` lines to options, as qsub of Grid Engine 8.1.9 reads them: to the end of the file, several on a line."""

from __future__ import annotations

import re
import shlex

from cronhpc.script.directives import text_lines
from cronhpc.script.sbatch_options import Option

# In our names, which are sbatch's.
_NAMES = {
    "-A": "account",
    "-N": "job-name",
    "-a": "begin",
    "-cwd": "chdir",
    "-e": "error",
    "-h": "hold",
    "-o": "output",
    "-q": "partition",
    "-t": "array",
    "-wd": "chdir",
}
_PATTERNS = {"$JOB_ID": "%j", "$TASK_ID": "%a", "$JOB_NAME": "%x", "$USER": "%u"}


def options_of(data: bytes, prefix: str) -> tuple[Option, ...]:
    """The options of a script's directives, of which qsub itself is the judge; those without our name are left out."""
    found: list[Option] = []
    for number, line in text_lines(data):
        if line.startswith(prefix):
            found += _of_line(line.removeprefix(prefix), number, prefix)
    return tuple(found)


def _of_line(text: str, number: int, prefix: str) -> list[Option]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    starts = [at for at, word in enumerate(words) if re.match(r"-[A-Za-z]", word)]
    found = []
    for at, end in zip(starts, [*starts[1:], len(words)], strict=True):
        name, value = _NAMES.get(words[at]), " ".join(words[at + 1 : end])
        if name in {"output", "error"}:
            value = re.sub("|".join(map(re.escape, _PATTERNS)), lambda one: _PATTERNS[one[0]], value.removeprefix(":"))
        if name is not None:
            found.append(Option(name, value or None, number, " ".join(words[at:end]), prefix))
    return found
