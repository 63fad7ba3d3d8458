"""What a command leaves in the background: cron let it run on, and a batch job ends it with its shell."""

from __future__ import annotations

import re

_BLOTTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|\(\([^()]*\)\)|(?:^|(?<=[\s;&|()]))\#.*$""", re.DOTALL)
_AMPERSAND = re.compile(r"(?<![<>&|])&(?![>&])")


def waited_for(command: str) -> tuple[str, bool]:
    """`command` so that it waits for what it puts into the background at its end; and whether anything may be left.

    `x & # why` becomes `x & wait $! # why`, whose exit code is x's. A word for shells of sh's family.
    """
    masked = _BLOTTED.sub(lambda match: ("_" if match[0][0] != "#" else " ") * len(match[0]), command)
    found = list(_AMPERSAND.finditer(masked))
    if not found:
        return command, False
    end = found[-1].end()
    if masked[end:].strip():
        return command, True
    waiting = " wait $!" if len(found) == 1 else " wait"
    return command[:end] + waiting + command[end:], False
