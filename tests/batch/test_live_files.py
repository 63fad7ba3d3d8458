"""Which files the user's live jobs write: Slurm's patterns filled in as far as anyone can tell before the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from cronhpc.batch.port import Unreachable
from cronhpc.batch.slurm import rows
from cronhpc.store import logs

MARK = "\x1eab12cd34\x1f"


def row(**more: str) -> str:
    known = {
        "State": "RUNNING",
        "JobID": "7",
        "ArrayJobID": "7",
        "ArrayTaskID": "N/A",
        "Name": "train",
        "UserName": "ada",
        "WorkDir": "/w",
        "Command": "/w/t.sh",
        "StdOut": "/w/o.log",
        "StdErr": "/w/o.log",
    } | more
    return "".join(value + MARK for value in known.values()) + "\n"


PATHS = {
    "a fixed name": ({}, ["/w/o.log"]),
    "the job's id": ({"StdOut": "/l/tr-%j.log"}, ["/l/tr-7.log", "/w/o.log"]),
    "an id of six digits": ({"StdOut": "/l/%6j-%x-%u-%%.log", "StdErr": "/dev/null"}, ["/l/000007-train-ada-%.log"]),
    "a node that nobody knows yet": ({"StdOut": "/l/%N.%j", "StdErr": "/dev/null"}, ["/l/*.7"]),
    "an array's running task": (
        {"JobID": "9", "ArrayTaskID": "3", "StdOut": "/l/%A_%a-%j", "StdErr": "/dev/null"},
        ["/l/7_3-9"],
    ),
    "tasks that wait": ({"ArrayTaskID": "4-9%2", "StdOut": "/l/%A_%a-%j", "StdErr": "(null)"}, ["/l/7_*-*"]),
    "brackets and stars in a name": ({"StdOut": "/l/[a]*.log", "StdErr": "/l/[a]*.log"}, ["/l/[[]a][*].log"]),
    "a relative error file": ({"StdErr": "e %J.err"}, ["/w/e *.err", "/w/o.log"]),
    "a backslash: no patterns": ({"StdOut": "/l/\\%j", "StdErr": "/l/\\%j"}, ["/l/%j"]),
}


@pytest.mark.parametrize(("facts", "paths"), PATHS.values(), ids=PATHS.keys())
def test_a_live_job_writes(facts: dict[str, str], paths: list[str]) -> None:
    (job,) = rows.squeue_rows(row(**facts), MARK)
    assert list(job.outputs) == paths
    assert (job.id, job.command, job.workdir) == ("7", "/w/t.sh", "/w")


def test_an_ended_job_writes_nothing_and_an_answer_cut_short_is_none() -> None:
    text = row() + row(State="COMPLETED") + row(State="PENDING", Command="(null)")
    assert [job.command for job in rows.squeue_rows(text, MARK)] == ["/w/t.sh", ""]
    assert rows.squeue_rows("", MARK) == ()
    with pytest.raises(Unreachable):
        rows.squeue_rows(text[:-30], MARK)
    header = row(State="STATE", JobID="JOBID")
    assert rows.squeue_rows(f"# a site's wrapper\n{header}{text}bye\n", MARK) == rows.squeue_rows(text, MARK)
    assert rows.squeue_rows(f"# a site's wrapper\n{header}bye\n", MARK) == ()


def test_a_file_is_known_by_whatever_name_it_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    log = tmp_path / "real/7_3.log"
    log.touch()
    (tmp_path / "link").symlink_to("real")
    patterns = [f"{tmp_path}/link/7_*.log", f"{tmp_path}/absent/*"]
    assert logs.files_at(patterns) == {(log.stat().st_dev, log.stat().st_ino)}
