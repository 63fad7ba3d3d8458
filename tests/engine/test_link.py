"""The link, deploy/scheduler.slurm.in: which successor it submits, by what the queue shows and what its clock says.

Its commands are stand-ins on PATH: `squeue` prints the rows of the situation, `sbatch` writes down how it was called.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess  # noqa: TID251 -- the script is the thing under test
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from cronhpc.batch.slurm.text import NO_SUBMIT
from cronhpc.core.model import Settings, Started, Way
from cronhpc.engine import init, link
from cronhpc.engine.site import open_site
from cronhpc.script.dialect import GRID_ENGINE, LSF, PBS, SLURM, Dialect
from cronhpc.store import scheduler
from cronhpc.store.files import Paths, write_json

pytestmark = pytest.mark.processes

HOUR = 3600
NOON = 1_764_244_800  # 2025-11-27 12:00 UTC
ID = "ab12cd"
LINK, SPARE = f"cronhpc-{ID}", f"cronhpc-{ID}-spare"
JOB = 70


def row(
    job: int, at: int, state: str = "PENDING", reason: str = "BeginTime", kind: str = "link", *, start: object = "N/A"
) -> str:
    """A row of squeue, as the link asks for it; `start` by the controller's clock."""
    name = LINK if kind == "link" else SPARE
    return f"{job}|{state}|{name}|{reason}|{start}|{at - HOUR}|cronhpc={ID}/{kind} {at} f00d"


ME = row(JOB, NOON, "RUNNING", "None")


@dataclass
class Situation:
    """`now` on the node's clock; `slot` as the job's argument has it; `rows` of the queue, None: no answer."""

    now: int
    rows: list[str] | None = field(default_factory=lambda: [ME])
    then: list[str] | None = None  # what the queue shows once it has submitted one, if it looks
    slot: int = NOON
    kind: str = "link"


ASKED = {"slurm": ["squeue"], "pbs": ["qselect", "qstat"], "lsf": ["bjobs"]}
SUBMITTED = {"slurm": "71", "pbs": "71.here", "lsf": "Job <71> is submitted to default queue <normal>."}
STATES = {"PENDING": ("W", "PEND"), "RUNNING": ("R", "RUN"), "COMPLETING": ("E", "ZOMBI")}


def printed(program: str, rows: list[str]) -> list[str]:
    """What it prints of the `rows` of squeue."""
    cells = [each.split("|") for each in rows]
    if program == "qselect":
        return [f"{job}.here" for job, *_ in cells]
    if program == "qstat":
        times = "Execution_Time=Thu Nov 27 13:00:00 2025|ctime=Thu Nov 27 12:00:00 2025"
        return [
            f"Job Id: {job}.here|Job_Name={name}|job_state={STATES[state][0]}|Hold_Types=n|{times}|"
            f"Variable_List=PBS_O_HOME=/,{comment.replace(' ', '%20')}"
            for job, state, name, *_, comment in cells
        ]
    if program == "bjobs":
        head = "JOBID^STAT^JOB_NAME^SUBMIT_TIME^START_TIME^PEND_REASON^JOB_DESCRIPTION"
        said = "{}^{}^{}^Nov 27 12:00^^^{}|" + str(NOON + HOUR)
        return [head, *(said.format(job, STATES[state][1], name, comment) for job, state, name, *_, comment in cells)]
    return rows


@dataclass
class Stand:
    """A cron directory whose link can be run."""

    root: Path
    sbatch: str = "echo 71"  # what it does once it has written down how it was called
    sacct: str = "exit 1"
    scontrol: str = "exit 0"
    arguments: tuple[str, ...] = ()  # the link's third and following
    dialect: Dialect = SLURM

    def run(self, situation: Situation) -> tuple[list[str], str]:
        """The begins of the successors that it submitted ("12:00"), what it cancelled, and what it said."""
        _, said = self.ended(situation)
        found = re.findall(r"--begin=uts(\d+)|(cancel \d+)", (self.root / "calls").read_text())
        return [_clock(int(at)) if at else cancelled for at, cancelled in found], said

    def ended(self, situation: Situation) -> tuple[int, str]:
        """Its exit code, and what it said."""
        bin_, calls = self.root / "bin", self.root / "calls"
        calls.write_text("")
        for name in ASKED[self.dialect.name]:
            before, after = (
                "exit 1" if rows is None else "\n".join(["cat <<'ROWS'", *printed(name, rows), "ROWS"])
                for rows in (situation.rows, situation.then)
            )
            self._stand_in(name, f"if [ -s {calls} ]; then\n{after}\nelse\n{before}\nfi")
        self._stand_in("scancel", f'echo "cancel $*" >>{calls}')
        self._stand_in(self.dialect.commands[0], f'echo "$*" >>{calls}\n{self.sbatch}')
        self._stand_in("sacct", self.sacct)
        self._stand_in("scontrol", f'echo "scontrol $*" >>{calls}\n{self.scontrol}')
        self._stand_in("sleep", "exit 0")
        given = f'builtin printf -v "$2" %s {situation.now}'
        clock = f'printf() {{ if [ "$1" = -v ]; then {given}; else builtin printf "$@"; fi; }}\n'
        text = (self.root / "cron" / "scheduler" / "scheduler.slurm").read_text()
        script = self.root / "link"
        script.write_text(text.replace("#!/bin/bash\n", f"#!/bin/bash\n{clock}", 1))
        done = subprocess.run(
            ["bash", str(script), str(situation.slot), situation.kind, *self.arguments],
            env={"PATH": f"{bin_}:{os.environ['PATH']}", self.dialect.job.id: str(JOB), "SLURMD_NODENAME": "cpu7"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        log = self.root / "cron" / "scheduler" / "scheduler.log"
        return done.returncode, done.stdout + done.stderr + (log.read_text() if log.exists() else "")

    def _stand_in(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)


def _clock(at: int) -> str:
    return f"{12 + (at - NOON) // HOUR:02}:{(at - NOON) % HOUR // 60:02}"


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    return made(tmp_path)


def made(folder: Path, dialect: Dialect = SLURM) -> Stand:
    """Made as `start` makes it; its tick does nothing."""
    paths = Paths(folder / "cron")
    paths.scheduler.mkdir(parents=True)
    (folder / "bin").mkdir()
    text, _ = link.render(paths, Settings(), ID, str(folder / "bin"), dialect=dialect)
    text = re.sub(r"^.* --dir .* --link .*$", "true", text, flags=re.MULTILINE)
    (paths.scheduler / "scheduler.slurm").write_text(text)
    return Stand(folder, f"echo '{SUBMITTED[dialect.name]}'", dialect=dialect)


@pytest.mark.parametrize(
    ("dialect", "variables", "left"),
    [
        pytest.param(SLURM, "SLURM_CONF SLURM_JWT SLURM_JOB_ID SQUEUE_USERS PMI_RANK OMPI_X", "SLURM_CONF SLURM_JWT"),
        pytest.param(GRID_ENGINE, "SGE_ROOT SGE_TASK_ID JOB_NAME JOBS PE", "JOBS SGE_ROOT"),
        pytest.param(PBS, "PBS_CONF_FILE PBS_SERVER PBS_JOBID NCPUS CPUS", "CPUS PBS_CONF_FILE PBS_SERVER"),
        pytest.param(LSF, "LSF_ENVDIR LSB_JOBID LS_SUBCWD LSF_X BSUB_QUIET", "LSF_ENVDIR LSF_X"),
    ],
    ids=["Slurm", "Grid Engine", "PBS", "LSF"],
)
def test_what_the_batch_system_set_for_this_job_goes_and_the_way_to_it_stays(
    dialect: Dialect, variables: str, left: str, tmp_path: Path
) -> None:
    text, _ = link.render(Paths(tmp_path), Settings(), ID, "/bin", dialect=dialect)
    (line,) = re.findall(r"^for name in \$\(compgen -e\).*$", text, re.MULTILINE)
    argv = ["bash", "-c", f"unset PWD SHLVL _\n{line}\ncompgen -e"]
    assert subprocess.check_output(argv, env=dict.fromkeys(variables.split(), "x"), text=True).split() == left.split()


MINUTE = 60


@pytest.mark.parametrize(
    ("situation", "begins"),
    [
        pytest.param(Situation(NOON + 5), ["13:00"], id="a few seconds past its hour: the next whole one"),
        pytest.param(Situation(NOON), ["13:00"], id="on the second"),
        pytest.param(Situation(NOON - 10 * MINUTE), ["13:00"], id="its clock is slow: not its own slot again"),
        pytest.param(Situation(NOON + 10 * MINUTE), ["13:00"], id="its clock is fast: the same"),
        pytest.param(Situation(NOON + 5 * HOUR), ["18:00"], id="it waited five hours for a node: none is made up"),
        pytest.param(Situation(NOON + 5, [ME, row(71, NOON + HOUR)]), [], id="a successor waits already"),
        pytest.param(
            Situation(NOON - 30 * MINUTE, [row(JOB, NOON - 30 * MINUTE, "RUNNING", "None")]),
            ["12:00"],
            id="a tick had moved it half an hour ahead: the whole interval after that, not the one after its first",
        ),
        pytest.param(
            Situation(NOON - 40 * MINUTE, [row(JOB, NOON - 30 * MINUTE, "RUNNING", "None")]),
            ["12:00"],
            id="moved, and its clock is slow",
        ),
        pytest.param(
            Situation(NOON - 65 * MINUTE, [row(JOB, NOON - HOUR, "RUNNING", "None")]),
            ["12:00"],
            id="moved to a whole interval, and its clock is slow: not that one again",
        ),
        pytest.param(
            Situation(NOON + 90 * MINUTE, [row(JOB, NOON + 90 * MINUTE, "RUNNING", "None", "spare")], kind="spare"),
            ["14:00"],
            id="a spare that ticks had pushed on and on",
        ),
        pytest.param(
            Situation(NOON + 5, [ME, row(71, NOON + HOUR, reason="JobHeldUser")]), ["13:00"], id="a held one is none"
        ),
        pytest.param(
            Situation(NOON + 5, [ME, row(71, NOON + HOUR, reason="DependencyNeverSatisfied")]),
            ["13:00"],
            id="nor is one that can never start",
        ),
        pytest.param(
            Situation(NOON + 5, [ME, row(71, NOON + HOUR, reason="PartitionDown")]), [], id="a partition is waited for"
        ),
        pytest.param(
            Situation(NOON + 5, [ME, row(71, NOON + HOUR, reason="JobHeldAdmin")]), [], id="an admin's hold is obeyed"
        ),
        pytest.param(Situation(NOON + 5, [ME, row(71, NOON + HOUR, kind="spare")]), ["13:00"], id="a spare is none"),
    ],
)
def test_a_link_submits_its_successor_for(situation: Situation, begins: list[str], stand: Stand) -> None:
    assert stand.run(situation)[0] == begins


OTHERS_NAME = f"71|PENDING|abc-job|BeginTime|N/A|{NOON - HOUR}|proj=abc"  # as a site has changed a link
OWN_COPY = f"/var/spool/slurmd/job00070/slurm_script {NOON + HOUR} link 0 "  # its command: no site changes that
WAITS = f"cronhpc={ID}/link {NOON + HOUR} f00d"


@pytest.mark.parametrize(
    ("record", "rows", "begins"),
    [
        pytest.param({71: f"link {NOON + HOUR} f00d {NOON}"}, [ME, OTHERS_NAME], [], id="known by its record"),
        pytest.param(
            {71: f"link {NOON + HOUR} f00d {NOON - 2 * HOUR}"}, [ME, OTHERS_NAME], ["13:00"], id="id given anew"
        ),
        pytest.param({}, [ME, OTHERS_NAME], ["13:00"], id="nobody's"),
        pytest.param({}, [ME, f"{OTHERS_NAME}|{OWN_COPY} {ID}/f00d"], [], id="known by its arguments"),
        *(
            pytest.param({}, [ME, f"{OTHERS_NAME}, {WAITS}|{copy} {ID}/f00d"], [], id=f"and its comment is kept{more}")
            for copy, more in ((OWN_COPY, ""), (OWN_COPY.replace(" link ", " spare "), "; it was a spare once"))
        ),
        pytest.param(
            {71: f"link {NOON + HOUR} f00d {NOON}"},
            [ME, f"{OTHERS_NAME}|{OWN_COPY.replace(' link ', ' spare ')} {ID}/f00d"],
            [],
            id="its record says that it is none any more",
        ),
        pytest.param(
            {},
            [ME, f"{OTHERS_NAME.replace('abc-job', LINK)}|{OWN_COPY.replace(' link ', ' spare ')} {ID}/f00d"],
            [],
            id="and so does its name",
        ),
        pytest.param({}, [ME, f"{OTHERS_NAME}, {WAITS}|/w/train.sh"], ["13:00"], id="its comment is copied"),
        pytest.param({}, [ME, f"{OTHERS_NAME}|{OWN_COPY} ab12ce/f00d"], ["13:00"], id="another directory's"),
        pytest.param(
            {JOB: f"link {NOON - 30 * MINUTE} f00d {NOON}"},
            [f"{JOB}|RUNNING|{LINK}|None|N/A|{NOON - HOUR}|99999999999 of the site"],
            ["12:00"],
            id="its own instant, where the site has replaced its comment",
        ),
    ],
)
def test_links_of_a_site_that_changes_comments_and_names(
    record: dict[int, str], rows: list[str], begins: list[str], stand: Stand
) -> None:
    links = stand.root / "cron" / "scheduler" / "links"
    links.mkdir()
    for job, text in record.items():
        (links / str(job)).write_text(f"{text}\n")
    assert stand.run(Situation(NOON - 40 * MINUTE if JOB in record else NOON + 5, rows))[0] == begins


def test_a_link_writes_down_what_it_has_submitted(stand: Stand) -> None:
    stand.run(Situation(NOON + 5))
    record = (stand.root / "cron" / "scheduler" / "links" / "71").read_text().split()
    assert (record[:2], record[3:]) == (["link", str(NOON + HOUR)], [str(NOON + 5)])


EARLY = f"{NOON - HOUR + 5}"


@pytest.mark.parametrize(
    ("start", "noted", "begins", "steps"),
    [
        pytest.param(
            EARLY, False, ["12:00"], ["update JobId=71 StartTime=uts%d", "release 71"], id="it began too early"
        ),
        pytest.param(NOON, True, ["13:00"], ["update JobId=71 StartTime=uts%d", "release 71"], id="one before it did"),
        pytest.param(NOON, False, ["13:00"], [], id="a site that keeps it"),
    ],
)
def test_where_a_site_drops_begin_the_successor_is_held_until_it_has_one(
    stand: Stand, start: object, begins: list[str], steps: list[str], *, noted: bool
) -> None:
    """Else it would begin at once, and so would its own: without end."""
    note = stand.root / "cron" / "scheduler" / "no-begin"
    if noted:
        note.write_text("69\n")
    me = row(JOB, NOON, "RUNNING", "None", start=start)
    found, said = stand.run(Situation(NOON - HOUR + 5 if start == EARLY else NOON + 5, [me]))
    calls = (stand.root / "calls").read_text().replace(f"scontrol show job {JOB}\n", "")
    at = NOON if start == EARLY else NOON + HOUR
    assert found == begins, said
    assert re.findall("(?m)^scontrol (.*)$", calls) == [step.replace("%d", str(at)) for step in steps]
    assert ("--hold" in calls, note.exists()) == (bool(steps), bool(steps))


def test_that_a_person_let_a_link_go_before_its_time_is_no_word_on_the_site(stand: Stand) -> None:
    """`scontrol update StartTime=now` on it was told as W343: this site drops when a job is to begin."""
    stand.scontrol = f"echo '   SubmitTime={NOON - HOUR} EligibleTime={NOON - 1800} AccrueTime=Unknown'"
    me = row(JOB, NOON, "RUNNING", "None", start=NOON - 1800)
    begins, said = stand.run(Situation(NOON - 1800, [me]))
    assert begins == ["12:00"], said
    assert "--hold" not in (stand.root / "calls").read_text()
    assert not (stand.root / "cron" / "scheduler" / "no-begin").exists()


def test_a_successor_that_can_be_given_no_begin_is_taken_back(stand: Stand) -> None:
    stand.scontrol = "exit 1"
    begins, said = stand.run(Situation(NOON - HOUR + 5, [row(JOB, NOON, "RUNNING", "None", start=EARLY)]))
    assert begins[:2] == ["12:00", "cancel 71"]
    assert "NO SUCCESSOR" in said


FULL = "echo 'submission failed: Job violates accounting/QOS policy' >&2; exit 1"
TAKEN = [ME, row(71, NOON + HOUR)]
SPARE_RUNS = [row(JOB, NOON, "RUNNING", "None", "spare")]


@pytest.mark.parametrize(
    ("situation", "record", "scontrol", "at"),
    [
        pytest.param(
            Situation(NOON + 5, [ME], [ME]), None, "exit 0", "13:00", id="its tick could not work: the next interval"
        ),
        pytest.param(
            Situation(NOON + 5, [ME], [ME]),
            NOON + 10 * MINUTE,
            "exit 0",
            "12:10",
            id="when its tick wants the next one",
        ),
        pytest.param(
            Situation(NOON + 5, [ME], [ME]), NOON - HOUR, "exit 0", "13:00", id="its record is its own slot's"
        ),
        pytest.param(
            Situation(NOON + 5, SPARE_RUNS, SPARE_RUNS, kind="spare"),
            None,
            "exit 0",
            "13:00",
            id="a spare becomes the link",
        ),
        pytest.param(
            Situation(NOON + 5, [ME], [ME]), None, "case $* in *requeue*) exit 1 ;; esac", "", id="the site forbids it"
        ),
        pytest.param(
            Situation(NOON + 5, [ME], [ME]),
            None,
            'case $* in *requeue*) [ -e "$0.once" ] || { touch "$0.once" && exit 1; } ;; esac',
            "13:00",
            id="the controller gives no answer once",
        ),
        pytest.param(Situation(NOON + 5, [ME], TAKEN), None, "exit 0", "", id="its tick has found a place"),
        pytest.param(Situation(NOON + 5, None), None, "exit 0", "", id="the queue does not answer"),
    ],
)
def test_a_link_that_finds_no_place_for_a_successor_comes_again_in_its_own(
    situation: Situation, record: int | None, scontrol: str, at: str, stand: Stand
) -> None:
    """Something else took each place of the limit as soon as it was free, and the chain was dead."""
    scheduler_, stand.sbatch, stand.scontrol = stand.root / "cron" / "scheduler", FULL, scontrol
    (scheduler_ / "links").mkdir()
    if record is not None:
        (scheduler_ / "links" / str(JOB)).write_text(f"link {record} f00d {NOON}\n")
    _, said = stand.run(situation)
    calls = re.findall("(?m)^scontrol (.*)$", (stand.root / "calls").read_text())
    moved = [_clock(int(when)) for call in calls for when in re.findall(r"StartTime=uts(\d+) Requeue=0", call)]
    assert moved == [at] * (at != ""), said
    assert calls[0] == f"update JobId={JOB} Requeue=1"  # its node may fail, and no other job would start
    if at:
        assert calls[1].startswith(f"update JobId={JOB} JobName={LINK} Comment=cronhpc={ID}/link ")
        assert calls[2] == f"requeue {JOB}"
        assert (scheduler_ / "successor").read_text() == f"{JOB}\n"
        assert _clock(int((scheduler_ / "links" / str(JOB)).read_text().split()[1])) == at
    else:
        assert not (scheduler_ / "successor").exists() or situation.then == TAKEN
        assert ("or: cronhpc start --dir" in said) == (situation.then != TAKEN), "what is left to do is said"


def test_a_link_that_was_stopped_meanwhile_does_not_come_again(stand: Stand) -> None:
    stop = stand.root / "cron" / "scheduler" / "stop.0"
    stand.sbatch = f"touch {stop}; {FULL}"
    _, said = stand.run(Situation(NOON + 5, [ME], [ME]))
    assert "no other start" in said
    assert f"scontrol requeue {JOB}" not in (stand.root / "calls").read_text()


REFUSALS = {
    **{f"a wrapper's word: {word}": (f"echo 'jobs: {word}' >&2; exit 1", True) for word in NO_SUBMIT},
    "Slurm's word": ("echo 'submission failed: Access/permission denied' >&2; exit 1", True),
    "another failure behind a banner": ("echo 'compute nodes: 9'; echo 'submission failed: Ouch' >&2; exit 1", False),
    "a banner beside ids": ("printf '5 login nodes are up: 5\\n71\\n'", False),
}


@pytest.mark.parametrize(("sbatch", "noted"), REFUSALS.values(), ids=REFUSALS)
def test_that_jobs_may_not_submit_on_a_node_is_noted_for_start(sbatch: str, *, noted: bool, stand: Stand) -> None:
    stand.sbatch = sbatch
    _, said = stand.run(Situation(NOON + 5))
    assert (stand.root / "cron" / "scheduler" / "no-submit").exists() == noted, said


def test_numbers_that_a_wrapper_prints_are_no_links(stand: Stand) -> None:
    """It looks again: the successor is in the queue."""
    stand.sbatch = "printf '5000\\n71\\n'"
    begins, said = stand.run(Situation(NOON + 5, [ME], [ME, row(71, NOON + HOUR)]))
    assert begins == ["13:00"], said
    assert "NO SUCCESSOR" not in said
    assert not (stand.root / "cron" / "scheduler" / "links").exists()


def test_without_an_answer_one_is_submitted_and_no_second_one(stand: Stand) -> None:
    begins, said = stand.run(Situation(NOON + 5, None))
    assert begins == ["13:00"]
    assert "successor 71" in said


def test_a_link_with_a_lower_id_goes_first(stand: Stand) -> None:
    """It would be another link's business; but that one never does it, so after a while it is ours."""
    other = row(JOB - 1, NOON, "RUNNING", "None")
    assert stand.run(Situation(NOON + 5, [other, ME]))[0] == ["13:00"]


OTHER = row(JOB + 1, NOON, "RUNNING", "None", "spare")


@pytest.mark.parametrize(
    ("then", "done"),
    [
        pytest.param([ME, OTHER, row(71, NOON + HOUR)], ["13:00"], id="ours alone"),
        pytest.param([ME, OTHER, row(71, NOON + HOUR), row(72, NOON + HOUR)], ["13:00"], id="the other's came later"),
        pytest.param(
            [ME, OTHER, row(71, NOON + HOUR), row(68, NOON + HOUR)], ["13:00", "cancel 71"], id="the other's came first"
        ),
        pytest.param([ME, OTHER, row(72, NOON + HOUR)], ["13:00"], id="ours is not shown yet"),
        pytest.param(None, ["13:00"], id="no answer, though it asks for a while"),
    ],
)
def test_a_link_and_a_spare_that_begin_in_the_same_second(
    then: list[str] | None, done: list[str], stand: Stand
) -> None:
    """Each has found no successor, and has submitted one: ours is job 71."""
    assert stand.run(Situation(NOON + 5, [ME, OTHER], then=then))[0] == done


@pytest.mark.parametrize(
    ("codes", "calls", "exits"),
    [
        pytest.param("0", 1, 0, id="well"),
        pytest.param("1", 1, 0, id="something needs attention"),
        pytest.param("75 75 1", 3, 0, id="no answer twice: it looks again"),
        pytest.param("75 75 75 75 75 75 75 75 75 75", 7, 0, id="no answer: it gives up, and the next link goes on"),
        pytest.param("137 0", 2, 0, id="it was killed: it looks again"),
        pytest.param("137 137 137 137 137 137 137 137 137 137", 7, 137, id="it is killed each time: it gives up"),
        pytest.param("2", 1, 2, id="broken"),
    ],
)
def test_a_tick_without_an_answer_is_tried_again_for_a_while(codes: str, calls: int, exits: int, stand: Stand) -> None:
    """`sleep` is no time here: the shell's own clock is set on by it."""
    assert ticked(stand, f'set -- {codes}; shift "$count"; (exit "$1")') == (exits, calls)


@pytest.mark.parametrize(
    ("tick", "calls", "exits"),
    [
        pytest.param("[ $count = 1 ] || exit 9; kill $$; (exit 143)", ["daemon", "tick"], 9, id="one more tick"),
        pytest.param(
            "[ $count = 1 ] || exit 9; sleep() { kill $$; }; (exit 143)",
            ["daemon", "tick"],
            9,
            id="what it called is told a moment before it: one more tick",
        ),
        pytest.param("kill $$; (exit 0)", ["daemon", "tick"], 0, id="told again: no third"),
        pytest.param("kill $$; touch $dir/scheduler/stop", ["daemon"], 0, id="stopped meanwhile: none"),
        pytest.param("(exit 143)", ["daemon"], 143, id="it alone was ended: none"),
        pytest.param("sleep() { kill $$; }; (exit 75)", ["daemon", "tick"], 0, id="told while it waits: no third"),
        pytest.param("kill $$; (exit 143)", ["daemon", "tick"], 143, id="the other is ended, too: no spare"),
    ],
)
def test_a_link_that_is_to_end_goes_on_with_what_is_due_while_it_can(
    tick: str, calls: list[str], exits: int, stand: Stand
) -> None:
    """Preempted in mid-burst a daemon left what was due to its successor, up to an hour later."""
    link = stand.root / "cron" / "scheduler" / "scheduler.slurm"
    link.write_text(link.read_text().replace("work=(tick) ended=''", "work=(daemon --for 60) ended=''"))
    told = stand.root / "work"
    told.write_text("")
    waits = [row(JOB, NOON, "COMPLETING", "None"), row(71, NOON + HOUR)]
    code, count = ticked(stand, f'echo "$work" >>{told}; {tick.replace("$count", "$((count + 1))")}', waits)
    assert (told.read_text().split(), count, code) == (calls, len(calls), exits)


@pytest.mark.parametrize(
    ("waits", "calls"),
    [
        pytest.param([row(71, NOON + HOUR)], 2, id="it alone: one more tick"),
        pytest.param(None, 1, id="no answer, as where the question is ended as well: it brings none back"),
        pytest.param([], 1, id="all were cancelled: it brings none back"),
        pytest.param([row(72, NOON + HOUR, kind="spare")], 1, id="its successor, too: the spare takes over"),
    ],
)
@pytest.mark.parametrize("tick", ["kill $$; (exit 143)", "sleep() { kill $$; }; (exit 75)"])
@pytest.mark.parametrize("dialect", [SLURM, PBS, LSF], ids=["Slurm", "PBS", "LSF"])
def test_a_link_that_is_ended_with_its_successor_does_not_go_on(
    dialect: Dialect, tick: str, waits: list[str] | None, calls: int, tmp_path: Path
) -> None:
    """An administrator's `scancel -u` was undone where a link ran; so was a `qdel` that is told again each second."""
    stand = made(tmp_path, dialect)
    then = None if waits is None else [row(JOB, NOON, "COMPLETING", "None"), *waits]
    assert ticked(stand, tick, then)[1] == calls


@pytest.mark.parametrize("code", [75, 137])
@pytest.mark.parametrize(
    ("mark", "calls"),
    [
        pytest.param("stop", 1, id="a stop that names no start"),
        pytest.param("stop.$started", 1, id="cronhpc stop"),
        pytest.param("rest.$started", 1, id="an administrator's word"),
        pytest.param("start.3; touch $dir/scheduler/stop.2", 7, id="an older stop, and a start since"),
    ],
)
def test_a_link_that_was_stopped_meanwhile_looks_no_more(code: int, mark: str, calls: int, stand: Stand) -> None:
    tick = f"touch $dir/scheduler/{mark}; (exit {code})"
    assert ticked(stand, tick)[1] == calls


def ticked(stand: Stand, tick: str, then: list[str] | None = None) -> tuple[int, int]:
    """The exit code of a link with this tick, which knows its `count`, and how often it was called."""
    link = stand.root / "cron" / "scheduler" / "scheduler.slurm"
    counted = stand.root / "ticked"
    counted.write_text("")
    tick = f"count=$(wc -l <{counted}); echo >>{counted}; {tick}"
    text, found = re.subn(r"^ *true$", lambda _: tick, link.read_text(), flags=re.MULTILINE)
    assert found == 1
    link.write_text(text.replace("#!/bin/bash\n", "#!/bin/bash\nsleep() { SECONDS=$((SECONDS + $1)); }\n", 1))
    code, _ = stand.ended(Situation(NOON + 5, then=then))
    return code, counted.read_text().count("\n")


@pytest.mark.parametrize(
    ("start", "doubted"),
    [
        pytest.param(NOON + 5, False, id="the node and Slurm agree"),
        pytest.param(NOON - 50, False, id="a prolog took a while"),
        pytest.param(NOON - 600, True, id="the node is ten minutes fast"),
        pytest.param(NOON + 600, True, id="the node is ten minutes slow"),
        pytest.param("N/A", False, id="Slurm does not say"),
        pytest.param("", False, id="or says nothing"),
    ],
)
def test_where_node_and_slurm_differ_on_when_it_began_its_tick_asks_for_the_time(
    start: object,
    doubted: bool,  # noqa: FBT001 - a situation
    stand: Stand,
) -> None:
    link = stand.root / "cron" / "scheduler" / "scheduler.slurm"
    link.write_text(re.sub(r"^ *true$", r'echo "clock: ${clock[*]}"', link.read_text(), flags=re.MULTILINE))
    _, said = stand.ended(Situation(NOON + 5, [row(JOB, NOON, "RUNNING", "None", start=start)]))
    assert ("clock: --doubt-clock" in said, "syntax" in said or "arithmetic" in said) == (doubted, False), said


MARKS = {
    # what lies in scheduler/, the start that this link belongs to, what it says ("": it goes on)
    "stop was called": (["start.3", "stop.3"], 3, "stopped"),
    "stop was called twice": (["start.3", "stop.3", "stop.4"], 3, "stopped"),
    "the stop is from before the last start": (["stop.3", "start.4"], 4, ""),
    "the stop is from before this link's start, which is not seen here yet": (["start.3", "stop.3"], 4, ""),
    "a start that came after this link's": (["start.3", "stop.3", "start.4"], 3, ""),
    "numbers, not texts: ten is more than nine": (["stop.9", "start.10"], 10, ""),
    "and the other way round": (["start.9", "stop.10"], 9, "stopped"),
    "an empty file of an older version, or made by hand": (["start.3", "stop"], 3, "stopped"),
    "an administrator's word stands": (["start.3", "rest.3"], 3, "on hold"),
    "an administrator's word from before the last start": (["rest.3", "start.4"], 4, ""),
    "files that only look alike": (["started", "start.x", "stop.x", "stop.", "stopped", "rest.3.old"], 0, ""),
}


@pytest.mark.parametrize(("names", "generation", "said"), MARKS.values(), ids=MARKS)
def test_a_stop_or_rest_counts_until_a_start_of_a_higher_number(
    stand: Stand, names: list[str], generation: int, said: str
) -> None:
    folder = stand.root / "cron" / "scheduler"
    link = folder / "scheduler.slurm"
    link.write_text(link.read_text().replace("\nstarted=0 ", f"\nstarted={generation} "))
    for name in names:
        (folder / name).touch()
    begins, told = stand.run(Situation(NOON + 5))
    assert (begins, said in told) == ([] if said else ["13:00"], True), told
    (folder / f"start.{generation}").touch()  # by now it is seen everywhere
    marks = scheduler.marks(Paths(stand.root / "cron"))
    assert (marks.stopped, bool(marks.holds)) == (said == "stopped", said == "on hold")


def test_start_and_stop_outrank_each_other_and_clean_up(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.scheduler.mkdir()

    def start() -> None:
        scheduler.mark_started(paths, Started(via=Way.CHAIN, generation=scheduler.marks(paths).next_start))

    def left() -> tuple[bool, list[str]]:
        return scheduler.marks(paths).stopped, sorted(path.name for path in paths.scheduler.iterdir())

    start()
    start()
    assert left() == (False, ["start.1", "started"])
    scheduler.mark_stopped(paths, "me")
    assert left() == (True, ["start.1", "started", "stop.1"])
    start()
    assert left() == (False, ["start.1", "start.2", "started", "stop.1"])
    scheduler.remember_admins_word(paths, "cancelled by root")
    assert scheduler.admins_word(paths) == "cancelled by root"
    (paths.scheduler / "stop").touch()
    start()
    assert (scheduler.admins_word(paths), *left()) == ("", False, ["rest.2", "start.2", "start.3", "started"])


# --- nodes on which it cannot work ----------------------------------------------------------------------------------

LATER, OVER = NOON + 5 * HOUR, NOON - HOUR
HERE = f"cpu7:{NOON + 5 + 6 * HOUR}"

NODES = {
    # what is missing here, its arguments, sacct of the successor noted; then: begin, nodes excluded, what is handed on
    "all is there": ("", ("0",), "", "13:00", "", "0 "),
    "the cron directory is not there: at once, elsewhere": ("files", ("0",), "", "soon", "cpu7", f"1 {HERE}:files"),
    "its Python is not there": ("python", (), "", "soon", "cpu7", f"1 {HERE}:python"),
    "the second node in a row": (
        *("files", ("1", f"cpu8:{LATER}:files"), "", "soon", "cpu8,cpu7"),
        f"2 cpu8:{LATER}:files,{HERE}:files",
    ),
    "the fourth in a row: it is everywhere": ("files", ("3",), "", "13:00", "cpu7", f"4 {HERE}:files"),
    "a week of them": ("files", ("168",), "", "", "", ""),
    "well here, and not on another": ("", ("2", f"cpu8:{LATER}:files"), "", "13:00", "cpu8", f"0 cpu8:{LATER}:files"),
    "that was six hours ago": ("", ("0", f"cpu8:{OVER}:files,cpu9:{LATER}:python"), "", "13:00", "cpu9", "0 cpu9:"),
    "what is no such list": ("", ("0", "cpu8,:x:,;$(exit)"), "", "13:00", "", "0 "),
    "the successor could not be launched": ("", ("0",), "FAILED|cpu3", "13:00", "cpu3", "0 cpu3:"),
    "the successor's node went down": ("", ("0",), "NODE_FAIL|cpu3", "13:00", "cpu3", "0 cpu3:"),
    "the successor ran well": ("", ("0",), "COMPLETED|cpu3", "13:00", "", "0 "),
}


@pytest.mark.parametrize(("missing", "arguments", "sacct", "begin", "excluded", "handed_on"), NODES.values(), ids=NODES)
def test_links_avoid_nodes_on_which_they_could_not_work(  # noqa: PLR0917 - a table's columns
    stand: Stand, missing: str, arguments: tuple[str, ...], sacct: str, begin: str, excluded: str, handed_on: str
) -> None:
    folder = stand.root / "cron" / "scheduler"
    text = (folder / "scheduler.slurm").read_text()
    if missing == "python":
        text = text.replace(sys.executable, "/nonexistent/python")
    text = text.replace(f"dir={stand.root}/cron\n", "dir=/nonexistent\n") if missing == "files" else text
    text = text.replace("\ntrue\n", "\necho ticked\n").replace("  true\n", "  echo ticked\n")
    (folder / "scheduler.slurm").write_text(text)
    (folder / "successor").write_text("69\n")
    stand.sacct = f"echo '{LINK}|{sacct}'"
    stand.arguments = arguments
    code, said = stand.ended(Situation(NOON + 5, kind="spare" if sacct else "link"))
    calls = (stand.root / "calls").read_text()
    found = re.search(r"--begin=uts(\d+).* --output=/dev/null --chdir=/ .*", calls)
    assert (found is not None) == bool(begin), calls
    assert (code, "ticked" in said) == ((1, False) if missing else (0, True)), said
    if found is not None:
        at = int(found[1])
        assert ("soon" if at == NOON + 15 else _clock(at)) == begin
        assert re.findall(r"--exclude=(\S+)", calls) == ([excluded] if excluded else [])
        assert f" link {handed_on}" in calls


WAITS = row(71, NOON + HOUR)
SPARES = {
    # the tick, the link's arguments, what the queue shows once it has a successor; then: the spare's begin
    "no Python, and no spare waits": ("python", (), [ME, WAITS], "12:30"),
    "no Python for the fourth time: the successor comes an interval later": ("python", ("3",), [ME, WAITS], "13:30"),
    "nor does one where the tick cannot work": ("exit 2", (), [ME, WAITS], "13:30"),
    "it avoids no node, as the successor does": ("python", ("1", f"cpu8:{LATER}:files"), [ME, WAITS], "12:30"),
    "one waits": ("python", (), [ME, WAITS, row(72, NOON + HOUR, kind="spare")], ""),
    "this job is the spare that ran": ("python", (), [row(JOB, NOON, "RUNNING", "None", "spare"), WAITS], "12:30"),
    "beside a link with a lower id, which submits it": (
        "python",
        (),
        [row(69, NOON, "RUNNING", "None"), ME, WAITS],
        "",
    ),
    "beside one with a higher id": ("python", (), [ME, OTHER, WAITS], "12:30"),
    "no answer": ("python", (), None, ""),
    "a week of them": ("python", ("168",), [ME, WAITS], ""),
    "the tick works, and sees to it": ("exit 0", (), [ME, WAITS], ""),
}


@pytest.mark.parametrize(("tick", "arguments", "then", "begin"), SPARES.values(), ids=SPARES)
def test_where_no_tick_works_a_spare_stands_behind_a_successor_that_may_never_begin(
    stand: Stand, tick: str, arguments: tuple[str, ...], then: list[str] | None, begin: str
) -> None:
    """The nodes that are left beside those it avoids may be down, and no tick is there to move it."""
    link = stand.root / "cron" / "scheduler" / "scheduler.slurm"
    text = link.read_text()
    text = text.replace(sys.executable, "/nonexistent/python") if tick == "python" else text
    link.write_text(text.replace("\ntrue\n", f"\n({tick})\n"))
    stand.arguments = arguments
    _, said = stand.ended(Situation(NOON + 5, then=then))
    calls = (stand.root / "calls").read_text().splitlines()
    found = [call for call in calls if f"--job-name={SPARE} " in call]
    begins = [re.findall(rf"--begin=uts(\d+) --comment=cronhpc={ID}/spare (\d+) ", call)[0] for call in found]
    assert [(_clock(int(at)), at == slot) for at, slot in begins] == [(begin, True)] * bool(begin), said
    assert not any("--exclude" in call for call in found)
    assert ("spare 71\n" in said) == bool(begin)


@pytest.mark.parametrize(
    ("minute", "begin"), [(0, "12:30"), (20, "12:30"), (29, "13:30"), (31, "13:30"), (59, "13:30")]
)
def test_spares_come_half_way_between_two_links_and_not_beside_a_successor(
    stand: Stand, minute: int, begin: str
) -> None:
    link = stand.root / "cron" / "scheduler" / "scheduler.slurm"
    link.write_text(link.read_text().replace(sys.executable, "/nonexistent/python"))
    stand.ended(Situation(NOON + minute * MINUTE, then=[ME, WAITS], kind="spare"))
    (found,) = re.findall(rf"--job-name={SPARE} --begin=uts(\d+)", (stand.root / "calls").read_text())
    assert _clock(int(found)) == begin


def test_a_successor_that_slurm_took_though_it_avoids_every_node_is_replaced_by_one_that_avoids_none(
    stand: Stand,
) -> None:
    stand.arguments = ("3", f"cpu8:{LATER}:files")
    impossible = row(69, NOON + HOUR, reason="BadConstraints")
    begins, said = stand.run(Situation(NOON + 5, [ME, impossible], then=[ME, impossible, WAITS]))
    assert begins == ["13:00", "cancel 69"], said
    assert "--exclude" not in (stand.root / "calls").read_text()


@pytest.mark.parametrize(
    ("answer", "begins"),
    [
        (
            'case "$*" in *--exclude*) echo "Requested node configuration is not available"; exit 1 ;; esac; echo 71',
            2,
        ),
        ("echo 'sbatch: a word from the site' >&2; echo 71; echo 'and one more'", 1),
        ("echo '71;cluster'", 1),
    ],
    ids=["no other node is left: it goes without", "a plugin's words around the id", "with the cluster's name"],
)
def test_the_id_is_read_whatever_is_printed_beside_it(stand: Stand, answer: str, begins: int) -> None:
    stand.sbatch, stand.arguments = answer, ("0", f"cpu8:{LATER}:files")
    _, said = stand.ended(Situation(NOON + 5, then=[ME]))
    assert (stand.root / "calls").read_text().count("--begin=") == begins
    assert "successor 71\n" in said
    assert (stand.root / "cron" / "scheduler" / "successor").read_text() == "71\n"


def test_a_folder_that_is_called_as_a_word_of_the_template(tmp_path: Path) -> None:
    for name in ("@ID@", "@FINGERPRINT@", "@OPTIONS@ @DIR@"):
        paths = Paths(tmp_path / name)
        paths.scheduler.mkdir(parents=True)
        text, fingerprint = link.render(paths, Settings(), ID, "/usr/bin")
        assert f"\ndir={shlex.quote(str(paths.root))}\n" in text
        assert f"\nfingerprint={fingerprint}\n" in text
        link.write_script(paths, text)
        assert link.is_whole(paths)


def test_options_that_the_settings_add_stand_beside_the_links_own(stand: Stand) -> None:
    given = (("time", "7"), ("comment", "billing: it's us"), ("exclude", "cpu1"))
    text, _ = link.render(
        Paths(stand.root / "cron"), replace(Settings(), link_sbatch=given), ID, str(stand.root / "bin")
    )
    text = re.sub(r"^.* --dir .* --link .*$", "true", text, flags=re.MULTILINE)
    (stand.root / "cron" / "scheduler" / "scheduler.slurm").write_text(text)
    stand.arguments = ("0", f"cpu8:{LATER}:files")
    stand.run(Situation(NOON + 5))
    calls = (stand.root / "calls").read_text()
    assert re.search(rf" --comment=cronhpc={ID}/link {NOON + HOUR} \w+ billing: it's us --output", calls)
    assert re.search(r" --time=7 --exclude=cpu1,cpu8 ", calls)


@pytest.mark.parametrize(
    ("anew", "leads", "expected"),
    [(True, True, "new"), (True, False, "old"), (False, True, "old")],
    ids=["a start by hand", "a start by hand from a crontab's poor PATH", "any other command"],
)
def test_whose_commands_are_used_where_the_last_start_knew_others(
    tmp_path: Path, *, anew: bool, leads: bool, expected: str
) -> None:
    """Those of a Slurm that had been upgraded answered no more, so `start` failed as well, for ever."""
    for each in ("old", "new"):
        (tmp_path / each).mkdir()
        if each == "old" or leads:
            (tmp_path / each / "sbatch").write_text("#!/bin/sh\n")
            (tmp_path / each / "sbatch").chmod(0o755)
    init.init(tmp_path / "cron", {})
    saved = {"PATH": str(tmp_path / "old"), "SLURM_CONF": "/saved"}
    write_json(tmp_path / "cron" / "state" / "environment.json", {"environment": saved}, 1)
    site = open_site(str(tmp_path / "cron"), "local", {"PATH": str(tmp_path / "new")}, anew=anew)
    assert site.environment["PATH"] == str(tmp_path / expected)
    assert site.environment["SLURM_CONF"] == "/saved"


def test_what_sbatch_variables_ask_for_goes_into_the_settings_unless_these_name_it(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    init.init(tmp_path / "cron", {"backend": "slurm", "timezone": "UTC", "sbatch.partition": "cpu"})
    site = open_site(str(tmp_path / "cron"), None, environ)
    asked = {"SBATCH_ACCOUNT": "abc", "SBATCH_PARTITION": "gpu"}
    kept, lines = link.keep_options(site, environ | asked)
    assert kept.settings.sbatch == (("partition", "cpu"), ("account", "abc"))
    assert open_site(str(tmp_path / "cron"), None, environ).settings.sbatch == kept.settings.sbatch
    assert lines == ["kept from your SBATCH_ variables, in cronhpc.yaml: sbatch.account: abc"]
    assert link.keep_options(kept, environ | asked) == (kept, [])
