"""Names of files and folders: which are scripts, which were meant to be, and which no entry can have."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cronhpc.core.model import Problem
from cronhpc.cron.words import nearest
from cronhpc.script.dialect import SLURM

_TASKS = r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*(?:%[0-9]+)?"
_JOB_ID = rf"[0-9]+(?:_(?:{_TASKS}|\[{_TASKS}\]))?"


_WORD = SLURM.suffix.removeprefix(".")
_ALIKE = 0.75  # two letters of five changed places
_BATCH_SUFFIXES = frozenset({_WORD, "sbatch", "batch", "job", "sub", "slm"})
_SWITCHED_OFF = r"(?i).*\.(?:off|old|bak|orig|disabled?|save|tmp|no|not|never|rej|sw[a-p])$"


# Periods that have no folder by themselves, with their schedules: `folders:` in cronhpc.yaml may make one.
PERIODS = {"minutely": "* * * * *", "yearly": "0 4 1 1 *", "annually": "0 4 1 1 *", "quarterly": "0 4 1 */3 *"}


def is_script(name: str) -> bool:
    """Whether a file of this name in a cron folder is an entry."""
    return name.endswith(SLURM.suffix) and not name.startswith((".", "#"))


def meant_name(name: str) -> str:
    """The name under which a file would be an entry that was most likely meant to be one; "" for any other file.

    `x.SLURM`, `x.slurm.txt`, `x.slrum`, `x.sbatch` and `.x.slurm` were; `x-7.out`, `x.slurm~`, `x.slurm.off` were not.
    """
    import difflib

    if name.endswith("~") or name.startswith(("#", ".#")) or re.match(_SWITCHED_OFF, name):
        return ""
    stem, _, suffix = name.rpartition(".")
    if suffix in {"txt", "sh"} and stem.endswith(SLURM.suffix):
        stem, _, suffix = stem.rpartition(".")
    alike = difflib.SequenceMatcher(None, suffix.lower(), _WORD).ratio() > _ALIKE
    bare = stem.lstrip(".")
    if not bare or not (alike or suffix.lower() in _BATCH_SUFFIXES) or (stem.startswith(".") and suffix != _WORD):
        return ""
    return f"{bare}{SLURM.suffix}"


def meant_folder(name: str, known: Iterable[str]) -> str:
    """The one of the folders `known` (`cron.daily`, `kill`) that a folder called `name` was meant to be, or ""."""
    names = sorted(known)
    if name in names or name.lower().rpartition(".")[2] in PERIODS:
        return ""
    plain = name.lower() if "cron" in name.lower() or f"cron.{name.lower()}" not in names else f"cron.{name.lower()}"
    return nearest(plain, names, 0.8) or ""


def unswitchable(name: str, source: str) -> Problem | None:
    """What is wrong with an entry called so: neither could be stopped without the other."""
    if name == "ALL":
        what = "a switch of the name ALL stops everything, so this entry cannot be stopped by itself."
    elif re.fullmatch(_JOB_ID, name):
        what = f"a switch of the name {name} stops job {name}, so this entry cannot be stopped by itself."
    else:
        return None
    near = "everything" if name == "ALL" else f"job-{name}"
    return Problem("E302", what, f"Rename it, for instance to {near}: until then it does not run.", source)
