from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cronhpc.core.model import Entry, Policies, Problem, command, text_of
from cronhpc.store.shapes import made, plain

PLAIN = Entry(
    "backup", "cron.daily/backup.slurm", "/cron/cron.daily/backup.slurm", "0 4 * * *", "Europe/Paris", "daily"
)
PROBLEM = Problem("E101", "not a schedule", "Write */15.", "cron.d/a.slurm", 3)

ENTRIES = {
    "a plain script": PLAIN,
    "a command row has no script": replace(PLAIN, script="", command="df -h", source="cronhpc.yaml:14"),
    "the machine's zone is no name": replace(PLAIN, timezone=""),
    "a script that names its own output keeps it": replace(PLAIN, output=False),
    "words stay words": replace(PLAIN, options=("--partition=cpu",), arguments=("-n", "")),
    "policies": replace(PLAIN, policies=replace(Policies(), retries=2)),
    "what is wrong with it": replace(PLAIN, problem=PROBLEM, notes=(PROBLEM, PROBLEM)),
}


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES.keys())
def test_an_entry_comes_back_from_the_cache_as_it_was(entry: Entry) -> None:
    assert made(Entry, json.loads(json.dumps(plain(entry)))) == entry


def test_a_command_in_advice_comes_back_as_a_value() -> None:
    note = replace(PROBLEM, fix="Leave it there (" + command("logs", "NAME") + ").")
    (known,) = made(Entry, json.loads(json.dumps(plain(replace(PLAIN, notes=(note,)))))).notes
    assert text_of(known.fix, "/cron") == "Leave it there (cronhpc logs --dir /cron NAME)."
