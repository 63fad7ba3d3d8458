"""The stand-in of PBS's commands, with which the lab tests go, prints what was recorded of OpenPBS 23.06."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cronhpc.batch import pbs
from tests.lab import pbs_standin

DATA = Path(__file__).resolve().parents[1] / "data"
GRID_ENGINE = DATA / "grid_engine"
TIME = r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ 1-3]\d \d\d:\d\d:\d\d \d{4}"
OURS = {"exec_host"}  # a host of another name


def printed(now: float) -> dict[str, dict[str, Any]]:
    """Of the jobs that Grid Engine was recorded with: held, waiting for its time, running, an array, in an error."""
    jobs, details = (
        (GRID_ENGINE / name).read_text(encoding="utf-8") for name in ("sge-qstat-u.xml", "sge-qstat-j.xml")
    )
    return pbs_standin.rows(jobs.replace("%lt;", "&lt;"), details.replace("%lt;", "&lt;"), now)


def recorded() -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = json.loads((DATA / "pbs" / "pbs-qstat-tf.json").read_text(encoding="utf-8"))[
        "Jobs"
    ]
    return rows


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        pytest.param("339.pbshost", "712.pbshost", id="a held job"),
        pytest.param("340.pbshost", "713.pbshost", id="one that waits for its time"),
        pytest.param("341.pbshost", "714.pbshost", id="one that runs"),
        pytest.param("342[].pbshost", "715[].pbshost", id="an array"),
        pytest.param("342[2].pbshost", "715[2].pbshost", id="a task of it"),
    ],
)
def test_it_prints_what_the_recorded_server_does(ours: str, theirs: str) -> None:
    made, real = printed(0)[ours], recorded()[theirs]
    assert made.keys() <= real.keys()
    for key, value in made.items():
        assert type(value) is type(real[key]), key
        if re.fullmatch(TIME, str(real[key])):
            assert re.fullmatch(TIME, value), key
    assert made["Hold_Types"] == real["Hold_Types"]
    if "[" not in ours:
        assert made["job_state"] == real["job_state"]


def test_a_line_a_job_is_as_recorded_too() -> None:
    line = (DATA / "pbs" / "pbs-qstat-dsv.txt").read_text(encoding="utf-8").strip()
    begins = {field.partition("=")[0] for field in line.split("|")}
    made = pbs_standin.dsv("716.pbshost", printed(0)["339.pbshost"])
    assert {field.partition("=")[0] for field in made.split("|")} <= begins
    assert "|Variable_List=PBS_O_" in line
    assert "|Variable_List=PBS_O_" in made


def test_what_reads_the_server_reads_it() -> None:
    rows = pbs.rows({"Jobs": printed(0)})
    shown = {job.shown_id: (job.state, job.reason) for job in pbs.jobs(rows, {})}
    assert shown["339"] == ("PENDING", "JobHeldUser")
    assert shown["340"] == ("PENDING", "BeginTime")
    assert shown["341"] == ("RUNNING", "")


@pytest.mark.parametrize(
    "argv",
    [
        ["qsub", "-f", "-d", "/tmp"],
        ["qsub", "-f", "script"],
        ["qsub", "script"],
        ["qalter", "-v", "A=1", "7"],
        ["qstat", "-u", "alice"],
        ["qalter", "-h", "u", "7[2].pbshost"],
    ],
    ids=" ".join,
)
def test_it_refuses_what_it_does_not_know(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        pbs_standin.COMMANDS[argv[0]](argv[1:])
    assert raised.value.code == pbs_standin.USAGE


@pytest.mark.parametrize(
    ("given", "looks"), [("007", 7), ("1e5", 100000), ("true", True), ("{}", {}), ("d1/7", "d1/7")]
)
def test_it_types_values_by_their_looks(given: str, looks: object) -> None:
    assert pbs_standin.looks(given) == looks
