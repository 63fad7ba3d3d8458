"""A site whose nodes may not submit: ticks on the login node submit the runs of the next hours ahead."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab.conftest import Lab, room
from tests.lab.helpers_cron import Cron, make

pytestmark = pytest.mark.lab

WRAPPER = """#!/bin/bash
# refuses below slurmstepd, as AllocNodes does; links have cleared what else would tell a job
at=$$
while [ "$at" -gt 1 ]; do
  [ "$(cat /proc/$at/comm)" != slurmstepd ] ||
    { echo 'sbatch: error: Batch job submission failed: Access/permission denied' >&2; exit 1; }
  at=$(awk '/^PPid/ { print $2 }' /proc/$at/status)
done
exec @SBATCH@ "$@"
"""
LIMITED = """#!/bin/bash
# a site that takes five jobs of a user
exec 9>>"$0.lock"
flock 9
[ "$(@SQUEUE@ --me -h -r | wc -l)" -lt 5 ] || { echo 'sbatch: error: AssocMaxSubmitJobLimit' >&2; exit 1; }
exec @SBATCH@ "$@"
"""
SETTINGS = "timezone: UTC\nscheduler: {ahead: 3h}\n"


@pytest.fixture
def site(lab: Lab, cluster_user_dir: Callable[..., Path]) -> Iterator[Cron]:
    """A cron directory with an entry an hour, on a login node; nothing has been started."""
    room(90, of=1800)  # slots at whole and half hours are counted
    cron = make(lab, cluster_user_dir() / "cron", names="")
    (cron.root / "scheduler" / "started").unlink()
    (cron.root / "cronhpc.yaml").write_text(SETTINGS)
    drop(cron, "0 * * * *")
    wrapped(cron, WRAPPER)
    yield cron
    lab.drain_queue()


def wrapped(cron: Cron, text: str) -> None:
    """Its site's own sbatch."""
    program = cron.root.parent / "bin" / "sbatch"
    program.parent.mkdir(exist_ok=True)
    for name in ("sbatch", "squeue"):
        text = text.replace(f"@{name.upper()}@", shutil.which(name) or "")
    program.write_text(text)
    program.chmod(0o755)


def drop(cron: Cron, schedule: str, name: str = "hourly") -> None:
    """The entry, old enough to be believed."""
    script = cron.root / "cron.d" / f"{name}.slurm"
    script.write_text(f"#!/bin/bash\n#CRON {schedule}\ntrue\n")
    cron.lab.wait_for(lambda: age(script) > 4)


def age(path: Path) -> float:
    import time

    return time.time() - path.stat().st_ctime


def asked(cron: Cron, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{cron.root.parent}/bin:{os.environ['PATH']}"}
    return cron.lab.run([sys.executable, "-m", "cronhpc", *words, "--dir", str(cron.root)], check=False, env=env)


def waiting(cron: Cron, name: str = "hourly") -> list[str]:
    """The minutes at which runs are to begin."""
    rows = cron.lab.run(["squeue", "-h", "-t", "PENDING", "-o", "%S %k"], env={"TZ": "UTC"}).stdout.splitlines()
    mine = [row.split(" ")[0] for row in rows if f"cronhpc={cron.id}/{name}@" in row]
    return sorted(when.partition(":")[2] for when in mine)


def cancel_all(cron: Cron) -> None:
    cron.lab.run(["scancel", "-u", getpass.getuser()])
    cron.lab.wait_for(lambda: not cron.lab.squeue())


def test_ticks_on_a_login_node_keep_the_next_hours_runs_in_the_queue(site: Cron) -> None:
    told = asked(site, "start", "--via", "login")
    assert (told.returncode, "submitted 3 runs" in told.stdout) == (0, True), told.stdout + told.stderr
    assert "* * * *" in told.stdout
    assert waiting(site) == ["00:00"] * 3
    assert site.links() + site.links("spare") == []
    shown = json.loads(asked(site, "status", "--json").stdout)
    assert (shown["chain"]["state"], shown["chain"]["via"]) == ("fine", "login")
    assert shown["chain"]["caller"].startswith("cronhpc tick on ")

    (site.root / "kill" / "hourly").touch()
    asked(site, "tick")
    assert waiting(site) == []
    (site.root / "kill" / "hourly").unlink()
    asked(site, "tick")
    assert waiting(site) == ["00:00"] * 3, "the switch was lifted before their time: due again"

    drop(site, "30 * * * *")
    told = asked(site, "tick")
    assert waiting(site) == ["30:00"] * 3, told.stdout + told.stderr
    cancel_all(site)
    asked(site, "tick")
    assert waiting(site) == [], "somebody's word stands"
    asked(site, "start")
    assert waiting(site) == ["30:00"] * 3, "until start is called"
    asked(site, "stop")
    assert waiting(site) == []
    asked(site, "tick")
    assert waiting(site) == [], "a line of crontab goes on calling"
    asked(site, "start")
    assert waiting(site) == ["30:00"] * 3
    rows = asked(site, "history", "--json").stdout
    assert "lost" not in rows
    assert "stopped" not in [row["result"] for row in json.loads(rows)["runs"] if row.get("what") == "run"]


def test_a_chain_takes_the_places_of_the_runs_that_a_login_node_had_queued_ahead(site: Cron) -> None:
    """They had filled the limit: no link found a place, and `start` told how to undo what it had not done."""
    wrapped(site, LIMITED)
    (site.root / "cronhpc.yaml").write_text("timezone: UTC\nscheduler: {ahead: 12h}\n")
    asked(site, "start", "--via", "login")
    assert len(waiting(site)) == 5
    told = asked(site, "start", "--via", "chain")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "cancelled 5 runs that waited in the queue for a time to come" in told.stdout
    site.lab.wait_for(lambda: (len(site.links()), len(site.links("spare"))) == (1, 1))
    assert len(waiting(site)) <= 1, "one that is due before the next tick"
    asked(site, "stop")
    others = [site.lab.submit("--begin=now+1day", "--output=/dev/null", "--wrap=true") for _ in range(5)]
    told = asked(site, "start")
    assert (told.returncode, "undo" in told.stdout) == (1, False)
    assert "no scheduler job was submitted; when that has changed: cronhpc start" in told.stdout
    site.lab.run(["scancel", *others])


def test_of_few_places_the_earliest_runs_have_them_and_give_way_to_what_is_due(site: Cron) -> None:
    wrapped(site, LIMITED)
    (site.root / "cronhpc.yaml").write_text("timezone: UTC\nscheduler: {ahead: 12h}\n")
    told = asked(site, "start", "--via", "login")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "submitted 5 runs of the next 5 h, as no more jobs fit" in told.stdout + told.stderr
    assert "not submitted" not in told.stdout
    planned = asked(site, "plan").stdout
    assert "the site takes 5 jobs of yours at a time" in planned
    assert planned.count("begins") == 1, "whether one more fits by now"
    assert asked(site, "tick").returncode == 0, "nobody has to look"

    drop(site, "30 * * * *", "half")
    asked(site, "tick")
    assert sorted(map(len, (waiting(site), waiting(site, "half")))) == [2, 3], "the earliest of both"
    told = asked(site, "run", "half")
    assert told.returncode == 0, told.stdout + told.stderr
    site.lab.wait_for(lambda: len(waiting(site)) + len(waiting(site, "half")) == 4)
    assert "runs are queued until" in asked(site, "status").stdout
    site.lab.wait_for(lambda: len(site.lab.squeue()) == 4)
    asked(site, "tick")
    assert len(waiting(site)) + len(waiting(site, "half")) == 5, "and it is queued again once a place is free"
    both = sorted((waiting(site), waiting(site, "half")))
    cancel_all(site)
    asked(site, "tick")
    told = asked(site, "start")
    assert sorted((waiting(site), waiting(site, "half"))) == both, "what was cancelled with all else" + told.stdout
    rows = json.loads(asked(site, "history", "--json").stdout)["runs"]
    assert {row["result"] for row in rows if row.get("what") == "run"} <= {"ok"}, "a run that gave way is not cancelled"


def test_start_waits_for_an_entry_that_was_dropped_just_now(site: Cron) -> None:
    """The next tick may be an hour away: until then nothing of it would be in the queue."""
    script = site.root / "cron.d" / "hourly.slurm"
    script.write_text("#!/bin/bash\n#CRON 30 * * * *\ntrue\n")
    told = asked(site, "start", "--via", "login")
    assert (told.returncode, "submitted 3 runs" in told.stdout) == (0, True), told.stdout + told.stderr
    assert waiting(site) == ["30:00"] * 3


def test_a_link_that_may_not_submit_says_so_and_start_names_the_way(site: Cron) -> None:
    asked(site, "start")
    note = site.root / "scheduler" / "no-submit"
    site.lab.wait_for(note.exists)
    told = asked(site, "start")
    assert told.returncode == 2
    assert "Access/permission denied" in told.stderr
    assert "--via login" in told.stderr
    shown = asked(site, "status").stdout
    assert "--via login" in shown
    assert asked(site, "start", "--via", "login").returncode == 0
    assert "may not submit" not in asked(site, "status").stdout
