from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cronhpc.core.model import Entry, EntryState, JobEnd, KillRecord, Policies, Problem, Result, Told, command, text_of
from cronhpc.core.model.decode import made, plain, read
from cronhpc.store.memory import Memory, load, save

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


KEPT: dict[str, tuple[Any, dict[str, Any]]] = {
    "an end, with a result as its word": (
        JobEnd(Result.FAILED, exit_code=0, started=5, node="cpu1"),
        {"result": "failed", "exit_code": 0, "started": 5, "node": "cpu1"},
    ),
    "an entry's state, with a list": (
        EntryState(watermark=7, nodes=("a", "b"), suspended=9),
        {"watermark": 7, "nodes": ["a", "b"], "suspended": 9},
    ),
    "a kill record": (
        KillRecord(1, "e", "bob", "", "/k", warned=True),
        {"at": 1, "name": "e", "by": "bob", "reason": "", "path": "/k", "warned": True},
    ),
}


@pytest.mark.parametrize(("value", "row"), KEPT.values(), ids=KEPT)
def test_what_is_kept_leaves_defaults_out_and_comes_back(value: Any, row: dict[str, Any]) -> None:
    assert json.loads(json.dumps(plain(value))) == row
    assert read(type(value), row) == (value, ())


WRONG: dict[str, tuple[dict[str, Any], list[str], JobEnd | None]] = {
    "a key that is not known is passed over": ({"result": "ok", "colour": 7}, [], JobEnd(Result.OK)),
    "a value that is wrong harms only itself": ({"result": "ok", "node": 7}, ["ending.node"], JobEnd(Result.OK)),
    "what is needed is missing": ({"node": "cpu1"}, [], None),
    "what is needed is wrong": ({"result": "fine"}, ["ending.result"], None),
}


@pytest.mark.parametrize(("row", "places", "known"), WRONG.values(), ids=WRONG)
def test_what_is_read_is_lenient_and_names_what_was_lost(
    row: dict[str, Any], places: list[str], known: JobEnd | None
) -> None:
    assert read(JobEnd, row, "ending") == (known, tuple(places))


def test_of_a_damaged_state_of_the_scheduler_what_lacks_a_part_is_forgotten_and_the_rest_is_kept(
    tmp_path: Path,
) -> None:
    path = tmp_path / "entries.json"
    told = {"kind": "failed", "text": "a failed once", "since": 1, "told": 2}
    killed = {"at": 1, "name": "e", "by": "bob", "reason": "", "path": "/k", "of a later version": 1}
    kept = {
        "last_tick": 7,
        "alerts": {"failed a": told, "failed b": {**told, "since": "x"}, "c": {}, "d": 3},
        "struck": {"7": killed, "8": {**killed, "at": "x"}, "9": []},
    }
    path.write_text(json.dumps({"version": 1, "entries": {}, "meta": kept}), encoding="utf-8")
    known = load(path)
    assert known.scheduler.alerts == {"failed a": Told("failed", 1, 2)}
    assert known.scheduler.kill_records == {"7": KillRecord(1, "e", "bob", "", "/k")}
    assert (known.scheduler.last_tick, "meta.alerts" in known.invalid) == (7, True)
    save(path, known)
    assert load(path).scheduler == known.scheduler


def test_of_states_that_were_read_the_changed_one_is_written_anew_and_the_others_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "entries.json"
    save(path, Memory({name: EntryState(watermark=60, to_retry=(7,)) for name in ("changed", "same", "gone")}))
    known = load(path)
    known.entries = {**known.entries, "changed": EntryState(watermark=120), "new": EntryState(failures=1)}
    del known.entries["gone"]
    save(path, known)
    assert load(path).entries == known.entries


def test_a_retry_that_an_older_version_has_written_down_is_still_to_come(tmp_path: Path) -> None:
    path = tmp_path / "entries.json"
    path.write_text(json.dumps({"version": 1, "entries": {"a": {"retried": 7}, "b": {"retried": 0}}}), encoding="utf-8")
    assert {name: state.to_retry for name, state in load(path).entries.items()} == {"a": (7,), "b": ()}


def test_names_that_an_older_version_gave_to_what_it_wrote_are_read(tmp_path: Path) -> None:
    path = tmp_path / "entries.json"
    row = {"settled": "a@20261128T0200Z.1", "held_up": "over budget: no more", "held_since": 7}
    path.write_text(json.dumps({"version": 1, "entries": {"a": row}}), encoding="utf-8")
    state = load(path).entries["a"]
    assert state == EntryState(finished="a@20261128T0200Z.1", blocked_reason="over budget: no more", blocked_since=7)
    save(path, Memory({"a": state}))
    assert load(path).entries == {"a": state}
