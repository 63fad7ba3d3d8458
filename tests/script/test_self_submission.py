"""Which scripts submit themselves as a scheduler does, and which jobs are therefore a hand-made scheduler's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cronhpc.batch.port import BatchError, JobFiles, Unreachable
from cronhpc.core.model import CronhpcError, Job, Queue, Settings, Started, Way
from cronhpc.drivers import start
from cronhpc.engine import init
from cronhpc.engine import site as site_module
from cronhpc.engine.link import template
from cronhpc.script.dialect import SLURM, Dialect
from cronhpc.script.shell_text import Resubmission, resubmission
from cronhpc.store import scheduler
from cronhpc.store.files import Paths
from cronhpc.store.memory import Cache
from cronhpc.tick import tick

ITSELF = {
    "by $0": 'sbatch --begin=now+1hour "$0"',
    "by its path": "sbatch --begin=now+1hour /home/ada/cron/scheduler/hourly.slurm",
    "by its name, from its folder": "cd ~/cron/scheduler && sbatch -b now+1hour hourly.slurm || exit 1",
    "by a variable": 'me=$(realpath "$0")\nsbatch --begin=now+1hour "$me"',
    "by a variable that holds its path": "export ME=/x/hourly.slurm\nsbatch --begin=now+60 $ME",
    "by asking the queue in place": (
        "sbatch --begin=now+1hour $(scontrol show job $SLURM_JOB_ID | awk -F= '/Command=/{print $2}')"
    ),
    "by asking squeue": "sbatch --begin=now+1hour $(squeue -h -j $SLURM_JOB_ID -o %o)",
    "from standard input": "sbatch --begin=now+1hour < $0",
    "by its job's name": 'sbatch --begin=now+1hour "$SLURM_JOB_NAME"',
    "after a sleep": "sleep 3600\nsbatch $0",
    "after a sleep of a variable length": "HOUR=$((60*60))\nsh cron.hourly/*\nsleep $HOUR\nsbatch $0",
    "after a sleep in hours": "sleep 1h && sbatch $0",
    "its time in a directive": "#SBATCH --begin=now+1hour\nsbatch $0",
    "after itself, its time in a directive": "#SBATCH -b now+1hour\nsbatch -d afterany:$SLURM_JOB_ID $0",
    "its time in a variable": 'options="--time=5 --begin=now+1hour"\nsbatch $options $0',
    "its time in the environment": "export SBATCH_BEGIN=now+1hour\nsbatch $0",
    "its time in front of the command": "SBATCH_BEGIN=now+1hour sbatch $0",
    "after itself, at a time": "sbatch --dependency=afterany:$SLURM_JOB_ID --begin=now+1hour $0",
    "one at a time": "sbatch --dependency=singleton --begin=now+1hour $0",
    "in backticks": "next=`sbatch --parsable --begin=now+1hour hourly.slurm`",
    "its output thrown away": "sbatch --begin=now+1hour hourly.slurm>/dev/null",
    "in a condition, through ssh": 'if [ -e go ]; then ssh login "sbatch --begin=now+1hour $0"; fi',
}
NOT = {
    "payload": "srun python train.py",
    "a training whose next piece waits for this one": 'sbatch --dependency=afterany:$SLURM_JOB_ID "$0"',
    "a training of which one piece runs at a time": 'sbatch --dependency=singleton "$0"',
    "the same, with the short option": "sbatch -d afterok:4711,singleton hourly.slurm",
    "a training that goes on at its end": 'srun python train.py\n[ -e done ] || sbatch "$0"',
    "the same, after a wait for the disk": 'srun python train.py\nsleep 5\nsbatch "$0"',
    "the same, after a wait for a file": 'until [ -e ckpt ]; do\n  sleep 300\ndone\nsbatch "$0"',
    "a training that a sleep ends in time": "python train.py & PID=$!\nsleep 82800\nkill -USR1 $PID\nwait\nsbatch $0",
    "a training with a timer beside it": "(sleep 82800; touch stop) &\nsrun python train.py\nsbatch $0",
    "a training with an option -b of its own": "srun python train.py\nsbatch $0 -b 32",
    "a training that queues its evaluation for later": "sbatch --begin=now+1day eval.slurm\nsbatch $0",
    "a training that waits after a failure only": "srun python train.py || sbatch --begin=now+1hour $0\nsbatch $0",
    "the next piece queued first, by a variable": "J=$SLURM_JOB_ID\nME=hourly.slurm\nsbatch -d afterany:$J $ME",
    "another script": "sbatch --begin=now+1hour other.slurm",
    "a script whose name ends alike": "sbatch --begin=now+1hour my-hourly.slurm.old",
    "in a comment": "# sbatch $0\nhostname",
    "said only": 'echo "sbatch $0"',
    "its own name for another script": 'sbatch --job-name="$SLURM_JOB_NAME" other.slurm',
    "cronhpc's own": "cronhpc again --every 1h",
}


@pytest.mark.parametrize("text", ITSELF.values(), ids=ITSELF.keys())
def test_it_submits_itself(text: str) -> None:
    assert resubmission(f"#!/bin/bash\n#SBATCH --time=5\n{text}\n", "hourly.slurm") is Resubmission.CLOCK


@pytest.mark.parametrize("text", NOT.values(), ids=NOT.keys())
def test_a_script_does_not_resubmit_itself_by_the_clock(text: str) -> None:
    assert resubmission(f"#!/bin/bash\n#SBATCH --time=5\n{text}\n", "hourly.slurm") is not Resubmission.CLOCK


def test_other_languages_do_too() -> None:
    python = "#!/usr/bin/env python3\nimport subprocess\nsubprocess.run(['sbatch', '--begin=now+1hour', {}])\n"
    assert resubmission(python.format("__file__"), "c.py") is Resubmission.CLOCK
    assert resubmission(python.format("'/home/ada/c.py'"), "c.py") is Resubmission.CLOCK
    assert resubmission(python.format("'other.slurm'"), "c.py") is Resubmission.NONE
    usage = (
        '#!/usr/bin/env python3\n"""Train.\n\nUsage: sbatch c.py\n"""\nimport subprocess\nsubprocess.run(["make"])\n'
    )
    assert resubmission(usage, "c.py") is Resubmission.NONE, "its description says how a person submits it"
    assert (
        resubmission("#!/usr/bin/env python3\nprint('submitted by: sbatch c.py', __file__)\n", "c.py")
        is Resubmission.NONE
    )
    assert resubmission("#!/bin/tcsh\nsbatch --begin=now+1hour $0\n", "c.csh") is Resubmission.CLOCK


def test_a_program_without_a_begin_or_a_sleep_is_a_training() -> None:
    text = "#!/usr/bin/env python3\nimport subprocess, time\ntime.sleep({})\nsubprocess.run(['sbatch', {}__file__])\n"
    assert resubmission(text.format("2", ""), "c.py") is Resubmission.UNCLEAR
    assert resubmission(text.format("60 * 60", ""), "c.py") is Resubmission.CLOCK
    assert resubmission(text.format("2", "'--dependency=afterany:' + job, "), "c.py") is Resubmission.SERIES


# --- jobs ----------------------------------------------------------------------------------------------------------

CHAIN = '#!/bin/bash\nsbatch --begin=now+1hour "$0"\n'
AT_ONCE = '#!/bin/bash\nsrun python train.py\nsbatch "$0"\n'
PAYLOAD = "#!/bin/bash\nsleep 1000\n"


@dataclass
class Batch:
    """A queue of one job and more: (command, folder, text) by id; text None: cannot be read."""

    jobs: dict[str, tuple[str, str, str | None]]
    comments: dict[str, str] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    submits: list[tuple[str, str, str | None]] = field(default_factory=list)  # on each cancellation

    def queue(self) -> Queue:
        return Queue(tuple(Job(id_, "RUNNING", comment=self.comments.get(id_, "")) for id_ in self.jobs))

    def live_files(self) -> tuple[JobFiles, ...]:
        return tuple(JobFiles(id_, command, folder) for id_, (command, folder, _) in self.jobs.items())

    def script(self, job_id: str) -> str:
        text = self.jobs[job_id][2]
        if text is None:
            raise BatchError("no")
        return text

    def cancel(self, ids: list[str]) -> None:
        self.cancelled += ids
        for each in ids:
            del self.jobs[each]
        if self.submits:
            self.jobs[str(100 + len(self.submits))] = self.submits.pop()


D = "/data/cron"
JOBS = {
    "the chain, submitted in the folder": (("scheduler/hourly.slurm", D, CHAIN), "chain"),
    "the chain, submitted from elsewhere": ((f"{D}/scheduler/hourly.slurm", "/home/ada", CHAIN), "chain"),
    "the chain, its path given from home": (("../data/cron/hourly.slurm", "/home", CHAIN), "chain"),
    "a chain that lies elsewhere and works here": (("/home/ada/bin/hourly.slurm", D, CHAIN), "chain"),
    "a chain from standard input that names the folder": (("", "/home/ada", CHAIN + f"cd {D}\n"), "chain"),
    "the chain, with arguments": ((f"{D}/scheduler/hourly.slurm 3 x", "/home/ada", CHAIN), "chain"),
    "payload of a schedule folder": ((f"{D}/cron.daily/train.slurm", D, PAYLOAD), "others"),
    "payload that submits itself": ((f"{D}/cron.daily/train.slurm", D, CHAIN), "others"),
    "a training that goes on at its end": (("train.slurm", f"{D}/work", AT_ONCE), "others"),
    "payload below the folder": (("train.slurm", f"{D}/work", PAYLOAD), "others"),
    "a job whose script cannot be read": (("train.slurm", f"{D}/work", None), "others"),
    "another chain of the user's": (("/home/ada/other/hourly.slurm", "/home/ada", CHAIN), ""),
    "a job of a folder whose name begins alike": ((f"{D}-old/scheduler/hourly.slurm", f"{D}-old", CHAIN), ""),
    "a link of cronhpc's that lost its comment": (
        (f"{D}/scheduler/scheduler.slurm", D, "#!/bin/bash\n# A link of cronhpc's chain: …\nsbatch $0\n"),
        "",
    ),
}


@pytest.mark.parametrize(("job", "kind"), JOBS.values(), ids=JOBS.keys())
def test_a_job_of_the_queue_is(job: tuple[str, str, str | None], kind: str) -> None:
    found = init.old_jobs(cast("Any", Batch({"7": job})), Path(D))
    assert {"chain": [each.id for each in found.chain], "others": [each.id for each in found.others]} == {
        "chain": ["7"] if kind == "chain" else [],
        "others": ["7"] if kind == "others" else [],
    }


def test_a_job_that_may_be_a_training_or_a_scheduler_is_named_and_not_cancelled() -> None:
    from cronhpc.cli.setup import _old_words

    batch = Batch({"7": ("train.slurm", f"{D}/work", AT_ONCE), "8": ("train.slurm", f"{D}/work", PAYLOAD)})
    found = init.cancel_old_chain(cast("Any", batch), Path(D))
    assert batch.cancelled == []
    assert [job.id for job in found.unclear] == ["7"]
    assert _old_words(found, SLURM, cancelled=True)[-1].endswith("If that is a scheduler: scancel 7")


def test_where_the_copy_cannot_be_read_the_file_tells(tmp_path: Path) -> None:
    script = tmp_path / "scheduler" / "hourly.slurm"
    script.parent.mkdir()
    script.write_text(CHAIN, encoding="utf-8")
    found = init.old_jobs(cast("Any", Batch({"7": (str(script), "/", None)})), tmp_path)
    assert [job.id for job in found.chain] == ["7"]


def test_only_the_chain_is_cancelled_and_what_it_submits_meanwhile() -> None:
    link = ("scheduler/hourly.slurm", D, CHAIN)
    batch = Batch({"7": link, "8": ("cron.daily/a.slurm", D, PAYLOAD), "9": ("x", D, PAYLOAD)}, submits=[link])
    found = init.cancel_old_chain(cast("Any", batch), Path(D))
    assert [job.id for job in found.chain] == batch.cancelled == ["7", "100"]
    assert [job.id for job in found.others] == ["8", "9"]


LINK = "#!/bin/bash\n# A link of cronhpc's chain: …\ndir='/home/ada/my cron'\nsbatch $0\n"
# The jobs of a user, by their comments and files; what is said of chains other than that of the directory `me` in D.
CHAINS: dict[str, tuple[dict[str, str], dict[str, tuple[str, str, str | None]], list[tuple[str, str, bool]]]] = {
    "nothing else": ({"7": "cronhpc=me/link 1795791600 ab"}, {"7": ("", "/", LINK)}, []),
    "another directory's link and spare": (
        {"7": "cronhpc=other/link 1795791600 ab", "8": "cronhpc=other/spare 1795791600 ab"},
        {"7": ("", "/", LINK), "8": ("", "/", LINK)},
        [("/home/ada/my cron", "7 8", False)],
    ),
    "one whose text cannot be read": ({"7": "cronhpc=other/link 1 ab"}, {"7": ("", "/", None)}, [("", "7", False)]),
    "a mark behind a site's own words": (
        {"7": "site: x cronhpc=other/link 1 ab"},
        {"7": ("", "/", LINK)},
        [("/home/ada/my cron", "7", False)],
    ),
    "a run of another directory is no chain": ({"7": "cronhpc=other/a@20261128T0400Z.1"}, {"7": ("", "/", None)}, []),
    "a hand-made scheduler elsewhere": (
        {},
        {"7": ("{tmp}/hourly.slurm 3", "/", CHAIN)},
        [("{tmp}/hourly.slurm", "7", True)],
    ),
    "a training elsewhere": ({}, {"7": ("{tmp}/train.slurm", "/", AT_ONCE)}, []),
    "a job elsewhere": ({}, {"7": ("{tmp}/x.slurm", "/", PAYLOAD)}, []),
    "a script that is gone": ({}, {"7": ("/nowhere/hourly.slurm", "/", CHAIN)}, []),
}


@pytest.mark.parametrize("name", CHAINS)
def test_the_users_other_chains(name: str, tmp_path: Path) -> None:
    comments, jobs, said = CHAINS[name]
    placed = {}
    for each, (command, folder, text) in jobs.items():
        path = command.format(tmp=tmp_path)
        placed[each] = (path, folder, text)
        if command.startswith("{tmp}"):
            Path(path.partition(" ")[0]).write_text(text or "", encoding="utf-8")
    batch = Batch(placed)
    batch.comments = comments
    found = init.other_chains(cast("Any", batch), Path(D), "me")
    told = [(each.place, " ".join(job.id for job in each.jobs), each.is_hand_made) for each in found]
    assert told == [(place.format(tmp=tmp_path), ids, by_hand) for place, ids, by_hand in said]


def test_no_answer_is_not_none() -> None:
    class Silent(Batch):
        def queue(self) -> Queue:
            raise Unreachable("away")

    with pytest.raises(Unreachable):
        init.old_jobs(cast("Any", Silent({})), Path(D))


def test_the_marker_of_links_stands_in_their_template() -> None:

    assert scheduler.OURS in template("slurm")


# --- another scheduler at work on the same folder -------------------------------------------------------------------


@dataclass
class Cluster(Batch):
    """One that has a name."""

    dialect: Dialect = SLURM
    cluster: str = "alps"
    asked: int = 0

    def cluster_name(self) -> str:
        self.asked += 1
        return self.cluster


def folder_of(root: Path, **started: Any) -> Paths:
    paths = Paths(root)
    paths.scheduler.mkdir()
    if started:
        scheduler.mark_started(paths, replace(Started(via=Way.CHAIN), **started))
    return paths


def at(paths: Paths, batch: Batch, timezone: str = "") -> Any:
    settings = replace(Settings(), timezone=timezone)
    return cast(
        "Any",
        SimpleNamespace(
            paths=paths, batch=batch, host="login1", environment={}, cache=Cache(paths.state), parsed=[],
            settings=settings, timezone=timezone or "Europe/Paris",
        ),
    )  # fmt: skip


def test_start_refuses_beside_a_hand_made_scheduler_and_it_is_told_until_that_is_gone(tmp_path: Path) -> None:
    link = (str(tmp_path / "scheduler" / "hourly.slurm"), str(tmp_path), CHAIN)
    batch = Cluster({"7": link})
    site = at(folder_of(tmp_path), batch)
    assert init.hand_made_problem(site.batch, site.paths) is None, "nobody has looked for one yet"
    with pytest.raises(
        CronhpcError, match=r"still in the queue: 7 .*cronhpc init --cancel-old.*cronhpc start --beside"
    ):
        start._must_be_alone(site.batch, site.paths, beside=False)
    assert start._must_be_alone(site.batch, site.paths, beside=True) == "alps"
    told = init.hand_made_problem(site.batch, site.paths)
    assert told is not None
    assert told.code == "W365"
    init.cancel_old_chain(site.batch, site.paths.root)
    assert init.hand_made_problem(site.batch, site.paths) is None
    assert not scheduler.hand_made_mark(site.paths).exists()
    assert start._must_be_alone(site.batch, site.paths, beside=False) == "alps"


def test_on_another_cluster_than_its_own_nothing_is_done(tmp_path: Path) -> None:
    paths = folder_of(tmp_path, cluster="alps")
    here, there = at(paths, Cluster({})), at(paths, Cluster({}, cluster="jura"))
    assert site_module.of_other_cluster(here) is None
    with pytest.raises(CronhpcError, match=r"cluster jura, .* runs on alps.* on alps: cronhpc stop"):
        tick(there, 0)
    with pytest.raises(CronhpcError, match="cluster jura"):
        start._must_be_alone(there.batch, there.paths, beside=True)
    assert site_module.of_other_cluster(there) is not None
    assert there.batch.asked == 2, "each look asks once on a machine"
    scheduler.mark_stopped(paths, "me")
    assert site_module.of_other_cluster(there) is None
    assert start._must_be_alone(there.batch, there.paths, beside=True) == "jura", "its own stop has ended it"


@pytest.mark.parametrize(
    ("noted", "setting", "told"),
    [("UTC", "", True), ("Europe/Paris", "", False), ("UTC", "Asia/Tokyo", False), ("", "", False)],
    ids=["another zone than at start", "the same", "the settings name one", "nobody noted any"],
)
def test_a_machine_in_another_time_zone_says_so(tmp_path: Path, noted: str, setting: str, told: bool) -> None:  # noqa: FBT001 - a table's column
    site = at(folder_of(tmp_path, zone=noted), Cluster({}), setting)
    found = site_module.of_other_zone(site)
    assert (found is not None) == told
    assert found is None or found.fix == "Write into cronhpc.yaml: timezone: UTC"
