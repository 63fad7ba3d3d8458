"""Scripts for batch systems that hand a job neither arguments nor an environment: a text that has them in itself."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.batch.port import Refused
from cronhpc.batch.process import SCRATCH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cronhpc.batch.port import Submission

_FUNCTION = re.compile(r"BASH_FUNC_([\w:.+-]+)(?:%%|\(\))")  # as bash names one that it exports
_READ_ONLY = frozenset({"BASHOPTS", "EUID", "PPID", "SHELLOPTS", "UID"})


def wrapped_text(job: Submission, environment: Mapping[str, str], begins: str = "") -> str:
    """The text of `job.script`, a bash script, that first sets what it cannot be given beside itself.

    That is `environment`, the working folder, and the script's arguments. `begins`: lines before those. Raises Refused.
    """
    try:
        text = Path(job.script).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise Refused(f"{job.script}: cannot be read ({error.strerror})") from None
    first, _, rest = text.partition("\n")
    lines = [_exported(*each) for each in environment.items()]
    lines += [f"cd -- {shlex.quote(job.chdir)} || exit 127\n"] if job.chdir else []
    return f"{first}\n{begins}{''.join(lines)}set -- {shlex.join(job.arguments)}\n{rest}"


def _exported(name: str, value: str) -> str:
    """A variable as bash sets it, or a function that bash has exported; "" for what bash could not have."""
    function = _FUNCTION.fullmatch(name)
    if function and value.startswith("() {"):
        return f"{function[1]} {value}\nexport -f {function[1]}\n"
    if not name.isidentifier() or not name.isascii() or name in _READ_ONLY:
        return ""
    own = f'[ -n "${name}" ] || ' if name in SCRATCH else ""  # the job has one of its own
    return f"{own}export {name}={shlex.quote(value)}\n"
