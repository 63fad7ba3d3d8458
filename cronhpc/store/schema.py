"""What `cronhpc.yaml` may hold: it drives the parser, the file that `init` writes, and the docs.

Each setting is declared once, as a field of `core.model.Settings`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

from cronhpc.core.model import Policies, Settings


class Setting(NamedTuple):
    """One key: the field of Settings that it fills, its dotted name, what it may be, and what it is for."""

    field: str
    default: Any
    key: str
    kind: str  # a name in KINDS (settings_reader.py)
    example: str  # as it would stand in the file; of a table, each row on a line
    doc: str
    choices: tuple[str, ...]
    least: int


TABLES = frozenset({"sbatch", "folders", "policies", "entries", "switches", "patterns"})

TABLE = tuple(Setting(each.name, each.default, **each.metadata) for each in fields(Settings))
BY_KEY = {setting.key: setting for setting in TABLE}

POLICIES = tuple(name.replace("_", "-") for name in Policies.__slots__)
ENTRY_ABOUT = {
    "schedule": "When, as after #CRON. Needed.",
    "command": "What to run in a shell: one text, or a list of words. This or script.",
    "script": "A batch script to submit as it is; its path, in the cron directory unless absolute.",
    "sbatch": "sbatch options of this row, over those at the top.",
    "environment": "Variables for its runs: {NAME: value}.",
}
ENTRY_KEYS = (*ENTRY_ABOUT, *POLICIES)
FOLDERS = ("hourly", "daily", "weekly", "monthly")
SWITCH_ABOUT = {
    "jobs": "All that fit each of: name (as in a shell: tr17-*), partition, account, workdir (or below it).",
    "file": "A file whose presence sets the switch as well: one that a program polls already.",
    "warn": "SIGNAL@TIME: running jobs get the signal, and are cancelled so much later.",
}
SWITCH_KEYS = tuple(SWITCH_ABOUT)
SWITCH_JOB_KEYS = ("name", "partition", "account", "workdir")


def level(prefix: str) -> tuple[str, ...]:
    """The keys that may stand under `prefix` ("" or "scheduler."), without it."""
    names = (setting.key.removeprefix(prefix) for setting in TABLE if setting.key.startswith(prefix))
    return tuple(dict.fromkeys(name.split(".")[0] for name in names))


def example(row: Setting) -> str:
    """It on one line; where there is a default, that is it."""
    return f"{{{', '.join(row.example.splitlines())}}}" if row.kind in TABLES else row.example
