"""Names that an entry cannot have: a switch of that name would mean something else, too."""

from __future__ import annotations

import re

from cronhpc.core.model import Problem

_TASKS = r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*(?:%[0-9]+)?"
_JOB_ID = re.compile(rf"[0-9]+(?:_(?:{_TASKS}|\[{_TASKS}\]))?")


def unswitchable(name: str, source: str) -> Problem | None:
    """What is wrong with an entry called so: neither could be stopped without the other."""
    if name == "ALL":
        what = "a switch of the name ALL stops everything, so this entry cannot be stopped by itself."
    elif _JOB_ID.fullmatch(name):
        what = f"a switch of the name {name} stops job {name}, so this entry cannot be stopped by itself."
    else:
        return None
    near = "everything" if name == "ALL" else f"job-{name}"
    return Problem("E302", what, f"Rename it, for instance to {near}: until then it does not run.", source)
