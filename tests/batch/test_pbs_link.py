"""PBS's part of the link (deploy/link/pbs.sh): what it reads of the queue, and what it hands in."""

from __future__ import annotations

import subprocess  # noqa: TID251 - what a link does
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cronhpc.batch.commands import wrapped_text
from cronhpc.batch.port import Submission

PART = Path(__file__).resolve().parents[2] / "deploy" / "link" / "pbs.sh"
RECORDED = (
    (Path(__file__).resolve().parents[1] / "data" / "pbs" / "pbs-qstat-dsv.txt").read_text(encoding="utf-8").strip()
)
BEGINS = '# A link of cronhpc\'s chain: a tiny job\nslot=$1 kind=$2; printf \'%s|\' "$MINE" "$@"\n'


class Link:
    """A link's surroundings: commands that print what lies in files, and note how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("qselect", "qstat", "qsub", "qalter"):
            path = folder / name
            path.write_text(
                f'#!/bin/bash\necho "{name} $*" >>{folder}/calls\n[ {name} != qsub ] || cat >{folder}/text\n'
                f"cat {folder}/{name}.out 2>/dev/null\n"
                f"read -r code 2>/dev/null <{folder}/{name}.code && exit $code\nexit 0\n"
            )
            path.chmod(0o755)
        (folder / "scheduler" / "links").mkdir(parents=True)

    def __call__(self, command: str, code: int = 0) -> str:
        before = f"limit=90 dir={self.folder} link=frome_script spare=spare options=(-q 'a b') copy={self.folder}/copy"
        done = subprocess.run(
            ["bash", "-c", f"{before}\n. {PART}\n{command}"],
            env={"PATH": f"{self.folder}:/usr/bin:/bin", "PBS_JOBID": "7.pbshost"},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert (done.returncode, done.stderr) == (code, "")
        return done.stdout

    def shows(self, line: str, code: int = 0) -> None:
        (self.folder / "qselect.out").write_text("716.pbshost\n")
        (self.folder / "qstat.out").write_text(f"{line}\n")
        (self.folder / "qstat.code").write_text(f"{code}\n")

    @property
    def calls(self) -> str:
        return (self.folder / "calls").read_text()


@pytest.fixture
def link(tmp_path: Path) -> Link:
    return Link(tmp_path)


CTIME = int(datetime(2026, 11, 28, 14, 12, 43, tzinfo=UTC).timestamp())
LATER = "|Execution_Time=Tue Jan  1 00:00:30 2030"
STIME = "|stime=Sat Nov 28 14:12:43 2026"


@pytest.mark.parametrize(
    ("line", "row"),
    [
        pytest.param(RECORDED, f"PENDING|frome_script|JobHeldUser||{CTIME}|cronhpc=d1/a b", id="as recorded"),
        pytest.param(
            RECORDED.replace("job_state=H", "job_state=W").replace("Hold_Types=u", "Hold_Types=n") + LATER,
            f"PENDING|frome_script|BeginTime|1893456030|{CTIME}|cronhpc=d1/a b",
            id="it waits for its time",
        ),
        pytest.param(
            RECORDED.replace("Hold_Types=u", "Hold_Types=s"),
            f"PENDING|frome_script|JobHeldAdmin||{CTIME}|cronhpc=d1/a b",
            id="an administrator holds it",
        ),
        pytest.param(
            RECORDED.replace("job_state=H", "job_state=R").replace("d1/a b", "d1/link%201%20f%2C") + STIME,
            f"RUNNING|frome_script|None|{CTIME}|{CTIME}|cronhpc=d1/link 1 f,",
            id="it runs",
        ),
    ],
)
def test_a_job_of_the_chain_is_a_row_in_slurms_words(link: Link, line: str, row: str) -> None:
    link.shows(line)
    assert link("queue") == f"716|{row}\n"


def test_a_job_of_another_name_is_none(link: Link) -> None:
    link.shows(RECORDED.replace("Job_Name=frome_script", "Job_Name=other"))
    assert link("queue") == ""


def test_a_link_with_a_record_stands_for_what_that_says(link: Link) -> None:
    """Its own comment is as old as the job: a tick may have moved it since."""
    link.shows(RECORDED)
    (link.folder / "scheduler" / "links" / "716").touch()
    assert link("queue").endswith(f"|{CTIME}|\n")


@pytest.mark.parametrize("code", [153, 35])
def test_a_job_that_ended_between_the_two_questions_is_left_out(link: Link, code: int) -> None:
    link.shows(RECORDED, code)
    assert link("queue").startswith("716|")


def test_no_answer_is_no_empty_queue_and_an_empty_queue_is_not_asked_about(link: Link) -> None:
    assert link("queue") == ""
    assert "qstat" not in link.calls
    link.shows("", 255)
    link("queue", 1)
    (link.folder / "qselect.code").write_text("162\n")
    link("queue", 162)


HAND_IN = """hand_in name 1795791600 "cronhpc=d1/link 1795791600 f'1, x" '' "$hold" 1795791600 link 0 '' 'd1/f'"""


def test_a_link_hands_in_its_own_text_with_other_arguments(link: Link) -> None:
    """As the tick submitted it, or as another link did: its variables stay, and arguments do not add up."""
    (link.folder / "template").write_text(f"#!/bin/bash\n{BEGINS}")
    first = wrapped_text(Submission(f"{link.folder}/template", ("1", "spare", "", "set -- x")), {"MINE": "a\nset -- b"})
    (link.folder / "copy").write_text(first)
    (link.folder / "qsub.out").write_text("Welcome\n8.pbshost\n")
    for _ in range(2):
        assert link(f"hold=\n{HAND_IN}") == "Welcome\n8\n"
        text = (link.folder / "text").read_text()
        told = subprocess.run(["bash"], input=text, capture_output=True, text=True, timeout=90, check=True).stdout
        assert told == "a\nset -- b|1795791600|link|0||d1/f|"
        (link.folder / "copy").write_text(text)
    call = link.calls.splitlines()[-1]
    assert "-v cronhpc=d1/link%201795791600%20f%271%2C%20x -k" in call
    assert call.startswith("qsub -f -r n -S /bin/bash -N name -a 202611271500.00 ")
    assert call.endswith("-q a b")


def test_a_copy_that_is_the_file_itself_has_no_arguments_yet(link: Link) -> None:
    (link.folder / "copy").write_text(f"#!/bin/bash\n{BEGINS}")
    link(f"hold=yes\n{HAND_IN}")
    assert (link.folder / "text").read_text().startswith("#!/bin/bash\nset -- 1795791600 link 0 '' d1/f \n# A link")
    assert "qsub -f -h -r n" in link.calls


def test_a_submission_that_fails_says_so(link: Link) -> None:
    (link.folder / "copy").write_text(f"#!/bin/bash\n{BEGINS}")
    (link.folder / "qsub.code").write_text("38\n")
    link(f"hold=\n{HAND_IN}", 38)


def test_a_held_link_gets_its_begin_with_its_release(link: Link) -> None:
    link("let_begin 8 1795791600")
    assert link.calls == "qalter -a 202611271500.00 -h n 8\n"
