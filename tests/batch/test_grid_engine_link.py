"""Grid Engine's part of the link (deploy/link/grid_engine.sh): what it reads of the queue, and what it hands in."""

from __future__ import annotations

import subprocess  # noqa: TID251 - what a link does
from pathlib import Path

import pytest

PART = Path(__file__).resolve().parents[2] / "deploy" / "link" / "grid_engine.sh"
DATA = Path(__file__).resolve().parents[1] / "data" / "grid_engine"
SUBMITTED, BEGIN = 1795875164, 1893456030
QSTAT = """#!/bin/bash
echo "qstat $*" >>{folder}/calls
case "$*" in *-j*) cat {folder}/details ;; *"-s hu"*) cat {folder}/held ;; *) cat {folder}/listed ;; esac
"""


class Link:
    """A link's surroundings: a qstat that prints what lies in files, and commands that note how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("qsub", "qalter", "qrls"):
            self.program(name, f'#!/bin/bash\necho "$TZ {name} $*" >>{folder}/calls\necho 8\n')
        self.program("qstat", QSTAT.format(folder=folder))
        for name, recorded in (("listed", "u"), ("held", "u"), ("details", "j")):
            self.shows(name, (DATA / f"sge-qstat-{recorded}.xml").read_text(encoding="utf-8"))

    def program(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def shows(self, question: str, text: str) -> None:
        (self.folder / question).write_text(text, encoding="utf-8")

    def __call__(self, command: str, name: str = "nightly", code: int = 0) -> str:
        """What it prints as a link of that name; the spare's is "broken"."""
        before = f"limit=90 link={name} spare=broken options=(-l h_rt=600) copy=/spool/8"
        done = subprocess.run(
            ["bash", "-c", f"{before}\n. {PART}\n{command}"],
            env={"PATH": f"{self.folder}:/usr/bin:/bin", "JOB_ID": "7", "TZ": "Asia/Tokyo"},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert (done.returncode, done.stderr) == (code, "")
        return done.stdout

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()


@pytest.fixture
def link(tmp_path: Path) -> Link:
    return Link(tmp_path)


BROKEN = f"343|PENDING|broken|in an error state, held until: qmod -cj 343|0|{SUBMITTED}|"


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("nightly", f"339|PENDING|nightly|JobHeldUser|0|{SUBMITTED}|d1a2/nightly@20261128T0100Z.1"),
        ("later", f"340|PENDING|later|BeginTime|{BEGIN}|{SUBMITTED}|d1a2/x"),
        ("runs", f"341|RUNNING|runs|None|{SUBMITTED}|{SUBMITTED}|d1a2/y"),
    ],
)
def test_jobs_of_the_chain_are_rows_in_slurms_words(link: Link, name: str, row: str) -> None:
    rows = link("queue", name).splitlines()  # the stand-in tells of all
    assert row in rows
    assert any(each.startswith(BROKEN) for each in rows), "the spare, which is in an error state"
    assert f"qstat -xml -j {row[:3]},343" in link.calls or f"qstat -xml -j 343,{row[:3]}" in link.calls


@pytest.mark.parametrize(
    ("later", "known"),
    [(60, "RUNNING|runs|None"), (3600, "PENDING|runs|stuck in its start, held until: qdel -f 341")],
    ids=["just now", "for an hour"],
)
def test_a_link_whose_node_does_not_say_that_it_runs_is_no_successor(link: Link, later: int, known: str) -> None:
    listed = link.folder / "listed"
    listed.write_text(listed.read_text().replace("<state>r<", "<state>t<"))
    rows = link(f"here={SUBMITTED + later}; queue", "runs").splitlines()
    assert f"341|{known}|{SUBMITTED}|{SUBMITTED}|d1a2/y" in rows


def test_a_hold_that_is_not_the_users_is_an_administrators(link: Link) -> None:
    link.shows("held", "<job_info  xmlns='x'>\n</job_info>\n")
    assert "|JobHeldAdmin|" in link("queue")


def test_what_is_encoded_in_a_comment_is_read(link: Link) -> None:
    details = link.folder / "details"
    details.write_text(details.read_text().replace("d1a2/nightly@20261128T0100Z.1", "cronhpc=d1a2/link 5 f a%2Cb%25"))
    assert link("queue").splitlines()[0].endswith("|cronhpc=d1a2/link 5 f a,b%")


def test_a_job_that_ended_between_the_questions_is_left_out(link: Link) -> None:
    link.shows("details", (DATA / "sge-qstat-j-unknown.xml").read_text(encoding="utf-8"))
    assert link("queue") == ""


@pytest.mark.parametrize("question", ["listed", "held", "details"])
def test_a_master_that_is_away_is_no_answer_though_qstat_ends_well(link: Link, question: str) -> None:
    link.shows(question, (DATA / "sge-qstat-j-down.xml").read_text(encoding="utf-8"))
    link("queue", code=1)


def test_a_link_is_handed_in_with_its_begin_and_its_token_and_not_on_the_nodes_to_avoid(link: Link) -> None:
    link("""hand_in mine 1795791600 "cronhpc=d1/link 1795791600 f1 50%, x" cpu1,cpu2 '' 1795791600 link 0 '' d1/f1""")
    (call,) = link.calls
    assert call.startswith("UTC0 qsub -terse -S /bin/bash -r n -N mine -a 202611271500.00 -ac cronhpc=cronhpc=d1/link ")
    assert " 1795791600 f1 50%25%2C x -o /dev/null -j y -wd / -l h_rt=600 -l h=!(cpu1|cpu2) " in call
    assert call.endswith("/spool/8 1795791600 link 0  d1/f1")


def test_a_held_link_gets_its_begin_before_its_release(link: Link) -> None:
    link("hand_in mine 1 c '' yes; let_begin 8 1795791600")
    assert " -h " in link.calls[0]
    assert link.calls[1:] == ["UTC0 qalter -a 202611271500.00 8", "Asia/Tokyo qrls 8"]
