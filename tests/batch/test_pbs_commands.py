"""Which commands the backend of PBS calls, and what of a job it keeps by itself."""

from __future__ import annotations

import json
import subprocess  # noqa: TID251 - what the server would start
from pathlib import Path
from typing import Any

import pytest

from cronhpc.batch.pbs import Pbs
from cronhpc.batch.port import BatchError, Ends, Submission, Unreachable
from cronhpc.core.model import Job

pytestmark = pytest.mark.processes

SAMPLES = Path(__file__).resolve().parents[1] / "data" / "pbs"


class Server:
    """Commands that print what lies in files, and note how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("qsub", "qselect", "qstat", "qalter", "qdel", "qsig"):
            path = folder / name
            path.write_text(
                f'#!/bin/bash\necho "{name} $*" >>{folder}/calls\n'
                f"[ {name} != qsub ] || cat >{folder}/text\n"
                f"cat {folder}/{name}.out 2>/dev/null\n"
                f"read -r code <{folder}/{name}.code && exit $code\nexit 0\n",
                encoding="utf-8",
            )
            path.chmod(0o755)
        self.environ = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), "OWN": "login's", "MORE": "x"}
        self.jobs: dict[str, dict[str, Any]] = json.loads((SAMPLES / "pbs-qstat-tf.json").read_text())["Jobs"]

    def show(self, *names: str) -> None:
        """These jobs are there."""
        shown = {name: facts for name, facts in self.jobs.items() if name in names}
        selected = [name for name in names if "[" not in name or "[]" in name]
        (self.folder / "qselect.out").write_text("".join(f"{name}\n" for name in selected))
        (self.folder / "qstat.out").write_text(json.dumps({"timestamp": 1, "Jobs": shown}))

    def calls(self) -> list[str]:
        """Since the last time."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [line for line in lines if not line.startswith(("qselect", "qstat -t"))]

    def batch(self) -> Pbs:
        return Pbs(self.folder / "marks", self.environ, timeout=90, query_timeout=90)

    def job(self, number: str) -> Job:
        return next(job for job in self.batch().queue().jobs if job.id == number)


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


ARRAY = ("715[].pbshost", "715[1].pbshost", "715[2].pbshost", "715[3].pbshost")


def test_without_jobs_nothing_is_asked_about_them(server: Server) -> None:
    """Qstat without an id lists everybody's."""
    server.show()
    assert server.batch().queue().jobs == ()
    assert (server.folder / "calls").read_text().split()[0] == "qselect"
    assert "qstat" not in (server.folder / "calls").read_text()


def test_a_server_that_does_not_answer_is_no_empty_queue(server: Server) -> None:
    server.show()
    (server.folder / "qselect.code").write_text("162\n")
    with pytest.raises(Unreachable):
        server.batch().queue()


@pytest.mark.parametrize(
    ("answers", "jobs"),
    [
        pytest.param(True, (), id="its greeting stands before an empty answer"),
        pytest.param(False, None, id="it says that the server is down, and exits 0"),
    ],
)
def test_what_a_sites_wrapper_says_alone_is_no_empty_queue(
    server: Server, jobs: tuple[()] | None, *, answers: bool
) -> None:
    (server.folder / "qselect.out").write_text("PBS at this site: see the wiki\n")
    (server.folder / "qstat.out").write_text('{"timestamp": 1}' if answers else "PBS at this site: see the wiki\n")
    if jobs is not None:
        assert server.batch().queue().jobs == jobs
    else:
        with pytest.raises(Unreachable):
            server.batch().queue()


def test_a_held_job_gets_its_logs_name_with_its_release(server: Server) -> None:
    for name in ("712.pbshost", "715[].pbshost"):
        server.jobs[name]["Output_Path"] = (
            "pbshost:/log/S-%A_^array_index^.out" if "[" in name else "pbshost:/log/S-%j.out"
        )
    server.show("712.pbshost", "713.pbshost", *ARRAY)
    server.batch().release(["712", "713", "715", "999"])
    assert sorted(server.calls()) == [
        "qalter -h n 713.pbshost",
        "qalter -o /log/S-712.out -h n 712.pbshost",
        "qalter -o /log/S-715_^array_index^.out -h n 715[].pbshost",
    ]


def test_a_hold_of_ours_comes_and_goes_beside_those_that_a_user_may_not_lift(server: Server) -> None:
    """The server lets a user change only holds of his: to take away all fails for a job that waits for another."""
    server.jobs["712.pbshost"] |= {"Hold_Types": "us", "depend": "afterok:713.pbshost@pbshost"}
    server.jobs["713.pbshost"] |= {"Hold_Types": "o"}
    server.show("712.pbshost", "713.pbshost")
    server.batch().release(["712"])
    server.batch().hold(["712", "713"], "paused")
    assert server.calls() == ["qalter -h s 712.pbshost", "qalter -h us 712.pbshost", "qalter -h uo 713.pbshost"]


@pytest.mark.parametrize(
    ("begin", "zone"),
    [
        pytest.param(1_795_791_600, "UTC0", id="an instant of ours"),
        pytest.param(None, "Asia/Tokyo", id="a script's own -a is meant in its user's zone"),
    ],
)
def test_in_which_zone_qsub_reads_when_to_begin(server: Server, begin: int | None, zone: str) -> None:
    (server.folder / "qsub").write_text(f"#!/bin/bash\necho $TZ >{server.folder}/zone\necho 7.pbshost\n")
    (server.folder / "a.slurm").write_text("#!/bin/bash\n")
    server.environ["TZ"] = "Asia/Tokyo"
    server.batch().submit(Submission(str(server.folder / "a.slurm"), begin=begin))
    assert (server.folder / "zone").read_text().strip() == zone


def test_a_release_that_fails_counts_where_the_job_is_held_all_the_same(server: Server) -> None:
    server.show("712.pbshost", "713.pbshost")
    (server.folder / "qalter.out").write_text("qalter: Unauthorized Request\n")
    (server.folder / "qalter.code").write_text("159\n")
    with pytest.raises(BatchError, match="Unauthorized"):
        server.batch().release(["712"])
    server.batch().release(["713"])


def test_tasks_that_wait_are_cancelled_and_those_that_run_are_not(server: Server) -> None:
    server.show("712.pbshost", "714.pbshost", *ARRAY)
    server.batch().cancel(["712", "714", "715"], pending_only=True)
    assert server.calls() == ["qdel 712.pbshost 715[].pbshost"]
    for name, state in (("715[].pbshost", "B"), ("715[2].pbshost", "R")):
        server.jobs[name] |= {"job_state": state, "Hold_Types": "n"}
    server.show("714.pbshost", *ARRAY)
    server.batch().cancel(["714", "715"], pending_only=True)
    assert server.calls() == ["qdel 715[1].pbshost 715[3].pbshost"]


def test_a_changed_comment_stays_until_it_is_changed_back(server: Server) -> None:
    server.show("712.pbshost", "713.pbshost")
    before = {number: server.job(number).comment for number in ("712", "713")}
    server.batch().hold(["712", "713"], "paused")
    assert server.job("712").comment == "paused"
    assert server.calls() == ["qalter -h u 712.pbshost 713.pbshost"]
    server.batch().unhold(["712"], before["712"])
    assert (server.job("712").comment, server.job("713").comment) == (before["712"], "paused")


def test_a_comment_goes_with_its_job_and_never_to_another_of_its_number(server: Server) -> None:
    server.show("712.pbshost", "713.pbshost")
    server.batch().hold(["712", "713"], "paused")
    server.jobs["712.pbshost"]["ctime"] = "Sun Nov 29 14:12:39 2026"
    server.show("712.pbshost")
    assert server.job("712").comment.startswith("cronhpc=")
    server.batch().comment(["712"], "other")
    assert [path.name for path in (server.folder / "marks").iterdir()] == ["712.json"]


def test_a_damaged_comment_harms_nothing_else(server: Server) -> None:
    server.show("712.pbshost")
    server.batch().hold(["712"], "paused")
    (server.folder / "marks" / "712.json").write_text("{")
    assert server.job("712").comment.startswith("cronhpc=")


def test_a_script_gets_what_it_cannot_be_given_beside_itself(server: Server) -> None:
    script = server.folder / "run.slurm"
    script.write_text("#!/bin/bash\ntrue\n")
    (server.folder / "qsub.out").write_text("7[].pbshost\n")
    job = Submission(
        str(script),
        ("an argument",),
        options=("-J 1-3", "-v OWN=its"),
        own_export="OWN=its",
        export={"CRONHPC_SLOT": "now"},
    )
    assert server.batch().submit(job) == "7"
    text = (server.folder / "text").read_text()
    for line in ("export MORE=x", "export CRONHPC_SLOT=now", "export CRONHPC_TASKS=3", "set -- 'an argument'"):
        assert line in text.splitlines()
    assert "OWN" not in text, "the value that the script's own line gives it counts"
    assert "-v OWN=its" in server.calls()[0]


def test_of_a_range_that_holds_more_tasks_than_were_asked_for_the_others_do_nothing(server: Server) -> None:
    script = server.folder / "run.slurm"
    script.write_text("#!/bin/bash\necho $CRONHPC_TASKS\n")
    (server.folder / "qsub.out").write_text("7[].pbshost\n")
    server.batch().submit(Submission(str(script), options=("-J 1-9", "--array=2,4,12")))
    assert " -J 2-12 " in server.calls()[0]
    text = (server.folder / "text").read_text()
    told = {
        task: subprocess.check_output(["bash"], input=text, env={"PBS_ARRAY_INDEX": task}, text=True, timeout=90)
        for task in ("1", "2", "3", "4", "12")
    }
    assert told == {"1": "", "2": "3\n", "3": "", "4": "3\n", "12": "3\n"}


def test_the_server_tells_its_time_and_version(server: Server) -> None:
    (server.folder / "qstat.out").write_text((SAMPLES / "pbs-server.json").read_text())
    assert server.batch().clock() == 1_795_875_164
    assert server.batch().site().version == "23.06.06"


@pytest.mark.parametrize(
    ("printed", "code"),
    [
        pytest.param("qstat: PBS is not configured to maintain job history", 0, id="it is off"),
        pytest.param("qstat: -x is for administrators here", 1, id="a site's own qstat refuses the question"),
        pytest.param("", 1, id="and says nothing"),
    ],
)
def test_a_history_that_is_not_to_be_had_tells_no_end(server: Server, printed: str, code: int) -> None:
    """Else no run had ever ended: those that it does not tell of have written their ends down."""
    server.show()
    (server.folder / "qstat.out").write_text(f"{printed}\n")
    (server.folder / "qstat.code").write_text(f"{code}\n")
    assert server.batch().job_ends(["7"], 0) == Ends()
    assert server.calls() == ["qstat -x -t -f -F json 7 7[]"]


def test_a_server_that_does_not_answer_about_its_history_leaves_ends_open(server: Server) -> None:
    server.show()
    (server.folder / "qstat.out").write_text("qstat: cannot connect to server pbshost (errno=111)\n")
    (server.folder / "qstat.code").write_text("162\n")
    with pytest.raises(Unreachable):
        server.batch().job_ends(["7"], 0)
