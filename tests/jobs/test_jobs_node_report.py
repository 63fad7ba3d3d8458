"""node-report: what sinfo says, grouped, and what is new. On real nodes: tests/lab/test_jobs.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ready_made_jobs import Ended, environment, filled_in, run, stand_in

pytestmark = pytest.mark.processes

STATES = {
    "idle": False,
    "mixed": False,
    "allocated": False,
    "reserved": False,
    "completing": False,
    "planned": False,
    "idle*": True,
    "down": True,
    "down*": True,
    "drained": True,
    "draining": True,
    "failing": True,
    "inval": True,
}


@pytest.mark.parametrize(("state", "bad"), STATES.items(), ids=STATES)
def test_a_nodes_state_says_whether_it_can_be_used(tmp_path: Path, state: str, *, bad: bool) -> None:
    sinfo_says(tmp_path, ("n", state, ""))
    assert report(tmp_path).out.startswith(f"{bad:d} of 1 node cannot be used\n")


def sinfo_says(place: Path, *rows: tuple[str, str, str]) -> None:
    text = "".join(f"{name}\\x1f{state}\\x1f{reason}\\x1froot\\x1f1795784840\\n" for name, state, reason in rows)
    stand_in(place, "sinfo", f"printf '{text}'")
    stand_in(place, "scontrol", 'echo "[${*:3}]"')


def report(place: Path, **settings: str) -> Ended:
    return run(filled_in("node-report", place, **settings), environment(place))


def test_nodes_of_one_reason_are_one_line_and_changes_are_told(tmp_path: Path) -> None:
    bad = ("drained", "bad disk | really")
    sinfo_says(tmp_path, ("n1", *bad), ("n2", *bad), ("n3", "idle", "none"), ("n4", "down*", "Not responding"))
    first = report(tmp_path)
    assert first.code == 0
    assert first.out.splitlines() == [
        "3 of 4 nodes cannot be used",
        "  [n1,n2]: drained: bad disk | really (root)",
        "  [n4]: down*: Not responding (root)",
        "this is the first run: changes are told from the next one on",
    ]
    assert report(tmp_path).last == "nothing changed since the last run"
    sinfo_says(tmp_path, ("n1", "idle", "none"), ("n2", *bad), ("n3", "drained", "fan"))
    assert report(tmp_path).out.splitlines()[-3:] == [
        "newly out since the last run: [n3]",
        "back again since the last run: [n1]",
        "not listed any more since the last run: [n4]",
    ]


def test_a_node_of_two_partitions_counts_once(tmp_path: Path) -> None:
    sinfo_says(tmp_path, ("n1", "idle", "none"), ("n1", "idle", "none"))
    assert report(tmp_path).out.startswith("0 of 1 node cannot be used")


def test_it_alerts_only_where_asked_and_then_once(tmp_path: Path) -> None:
    sinfo_says(tmp_path, ("n1", "drained", "fan"))
    assert report(tmp_path).code == 0
    first, second = report(tmp_path, ALERT="yes"), report(tmp_path, ALERT="yes")
    assert (first.code, first.last) == (1, "ALERT: n1 is drained: fan")
    assert (second.code, "ALERT" in second.out) == (1, False)
    sinfo_says(tmp_path, ("n1", "idle", "none"))
    assert report(tmp_path, ALERT="yes").last == "fine again: n1 is idle"


@pytest.mark.parametrize("answer", ["echo gone >&2; exit 1", "exit 0"], ids=["a failure", "no nodes at all"])
def test_without_an_answer_nothing_is_known_and_nothing_forgotten(tmp_path: Path, answer: str) -> None:
    sinfo_says(tmp_path, ("n1", "drained", "fan"))
    report(tmp_path)
    stand_in(tmp_path, "sinfo", answer)
    assert report(tmp_path).code == 2
    sinfo_says(tmp_path, ("n1", "drained", "fan"))
    assert report(tmp_path).last == "nothing changed since the last run"
