"""`cronhpc doctor` against programs that stand in for Slurm's: what it asks, changes, prints, and how long it waits."""

from __future__ import annotations

import io
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from cronhpc.cli import main
from cronhpc.cli.console import Console
from cronhpc.core.model.site import Finding, Level
from cronhpc.engine import init
from cronhpc.store.settings import read_settings
from cronhpc.views import reports as view
from cronhpc.views.style import Style

pytestmark = pytest.mark.processes

NOW = 1795826219
CONFIG = f"""Configuration data as of {NOW}
AccountingStorageType   = accounting_storage/none
ClusterName             = lab
KillWait                = 30 sec
MinJobAge               = 300 sec
SLURM_VERSION           = 24.11.5
"""
PARTITION = "PartitionName={} AllocNodes=ALL Default={} MaxTime=UNLIMITED State=UP TotalNodes=3 TRES=cpu=1{}"
PROGRAMS = {
    "sbatch": """cat >/dev/null; case " $* " in
  *" --test-only "*) echo 'sbatch: Job 7 to start at 2026-11-29T15:00:00 using 1 processors on nodes cpu1' >&2 ;;
  *) echo refused >&2; exit 9 ;;
esac""",
    "scontrol": f"""case "$*" in
  "show config") echo '{CONFIG}' ;;
  *partition) echo '{PARTITION.format("gpu", "YES", ",gres/gpu=4")}'; echo '{PARTITION.format("cpu", "NO", "")}' ;;
  *) exit 9 ;;
esac""",
    "sinfo": "echo 'gpu|gpu*|up|infinite|3|gpu:4'; echo 'cpu|cpu|up|infinite|3|(null)'",
    "squeue": "exit 9",
    "crontab": "echo no crontab for alice >&2; exit 1",
    "systemctl": "exit 1",
}


class Site:
    """A cron directory, and a PATH with nothing but the stand-ins and /usr/bin's tools."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.bin = place / "bin"
        self.root = place / "cron"  # which is also where cronhpc looks unless told
        self.named = True
        for name, text in PROGRAMS.items():
            self.program(name, text)

    def program(self, name: str, text: str) -> None:
        self.bin.mkdir(exist_ok=True)
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def __call__(self, *words: str) -> tuple[int, str]:
        out = io.StringIO()
        environ = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.place)}
        console = Console(NOW, environ, out, out, is_terminal=False)
        code = main(["doctor", *(["--dir", str(self.root)] if self.named else []), *words], FixedDoor.of(console))
        return code, out.getvalue()

    def json(self, *words: str) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self(*words, "--json")[1])
        return value

    def levels(self, topic: str, *words: str) -> list[str]:
        return [row["level"] for row in self.json(*words)["findings"] if row["topic"] == topic]


class FixedDoor(Console):
    """A door whose clock stands still."""

    __slots__ = ()

    @classmethod
    def of(cls, console: Console) -> Console:
        return cls(console.now, console.environ, console.out, console.err, console.is_terminal)

    def again(self) -> Console:
        return self


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    init.init(made.root, {})
    return made


def tree(root: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in (root, *root.rglob("*"))}


def test_it_changes_nothing_unless_it_is_asked_to(site: Site) -> None:
    before = tree(site.root)
    code, said = site()
    assert code == 1
    assert "settings to put into cronhpc.yaml" in said
    assert tree(site.root) == before


def test_it_puts_what_it_found_and_the_next_look_has_nothing_to_put(site: Site) -> None:
    assert site.json()["settings"] == {"sbatch.partition": "cpu", "defaults.record": "true"}
    code, said = site("--write")
    assert (code, "put into cronhpc.yaml:" in said) == (1, True)
    settings = read_settings(site.root / "cronhpc.yaml")
    assert dict(settings.sbatch) == {"partition": "cpu"}
    assert settings.defaults[0][:2] == ("record", "true")
    assert "# Whose clock schedules follow" in (site.root / "cronhpc.yaml").read_text(encoding="utf-8")
    assert site.json()["settings"] == {}


def test_findings_have_stable_keys(site: Site) -> None:
    told = site.json()
    assert set(told) == {"version", "findings", "counts", "settings", "written"}
    assert all(set(row) == {"level", "topic", "what", "fix", "settings"} for row in told["findings"])
    order = [[*Level].index(row["level"]) for row in told["findings"]]
    assert order == sorted(order)


SITUATIONS = {
    "Slurm is well": ("", "", "slurm", ["fine"]),
    "the clock agrees": ("", "", "clock", ["fine"]),
    "a crontab may be had": ("", "", "heartbeat", ["advice"]),
    "sbatch would refuse a link": (
        "sbatch",
        "echo 'allocation failure: Invalid account' >&2; exit 1",
        "sbatch",
        ["error"],
    ),
    "a wrapper swallows what sbatch says": ("sbatch", "exit 0", "sbatch", ["unknown"]),
    "the controller is down": ("scontrol", "echo 'Unable to contact slurm controller' >&2; exit 1", "slurm", ["error"]),
    "scontrol prints nonsense": ("scontrol", "head -c 3000 /dev/urandom; echo =", "slurm", ["fine"]),
    "sinfo fails": ("sinfo", "exit 1", "slurm", ["error"]),
    "nobody tried the nodes": ("", "", "submit", ["unknown"]),
}


@pytest.mark.parametrize(("program", "text", "topic", "levels"), SITUATIONS.values(), ids=SITUATIONS)
def test_of_a_site_doctor_says(site: Site, program: str, text: str, topic: str, levels: list[str]) -> None:
    if program:
        site.program(program, text)
    assert site.levels(topic) == levels


def test_a_controller_that_hangs_is_told_of_in_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """One question runs into its time-out, and no other is put to it."""
    monkeypatch.setattr("cronhpc.doctor.look._QUESTION", 0.5)
    for name in ("scontrol", "sinfo", "sbatch"):
        site.program(name, f"echo {name} >>{site.place}/asked; sleep 30")
    began = time.monotonic()
    assert site.levels("slurm", "--submit") == ["error"]
    assert time.monotonic() - began < 25, "each sleeps for 30 s"
    assert (site.place / "asked").read_text(encoding="utf-8").split() == ["scontrol"]


def test_without_slurm_it_says_so(site: Site) -> None:
    (site.bin / "sbatch").unlink()
    if any(os.access(f"{folder}/sbatch", os.X_OK) for folder in ("/usr/bin", "/bin")):
        assert site.levels("slurm", "--backend", "local") == ["advice"]
    else:
        assert site.levels("slurm") == ["advice"]


def test_settings_that_say_local_are_no_trouble(site: Site) -> None:
    """A disk of one machine is the right one there, and no job could look at it from another."""
    (site.root / "cronhpc.yaml").write_text("backend: local\n", encoding="utf-8")
    assert site.levels("backend") == ["fine"]
    assert site.levels("slurm") == []
    assert "warning" not in site.levels("disk")


def test_another_batch_system_is_asked_whether_it_answers(site: Site) -> None:
    site.program("qstat", "echo '<?xml version=\"1.0\"?><job_info><queue_info/><job_info/></job_info>'")
    assert site.levels("batch system", "--backend", "grid_engine") == ["unknown", "fine"], "limits are not looked at"
    site.program("qstat", "echo 'error: unable to contact qmaster' >&2; exit 1")
    assert site.levels("batch system", "--backend", "grid_engine") == ["error"]
    assert "unable to contact qmaster" in site("--backend", "grid_engine")[1]


def test_before_init_it_says_what_the_place_is_like(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.named = False
    assert site.levels("directory") == ["advice"]
    assert site.levels("disk")
    assert not site.root.exists()
    code, said = site("--write")
    assert (code, "needs a cron directory" in said) == (2, True)


def test_a_directory_that_was_named_and_is_not_there_is_not_looked_at(tmp_path: Path) -> None:
    """It reported on the disk of the nearest folder above, which was /."""
    code, said = Site(tmp_path)()
    assert code == 2
    assert "There is no folder" in said
    assert f"no folder {tmp_path / 'cron'}" in said
    assert said.endswith("Make it with: cronhpc init\n")  # it is where cronhpc looks unless told


def test_mistakes_in_the_settings_are_findings(site: Site) -> None:
    (site.root / "cronhpc.yaml").write_text("foldrs: {}\n", encoding="utf-8")
    assert site.levels("settings") == ["error"]


def test_a_directory_that_others_may_write_is_a_finding_with_the_fix(site: Site) -> None:
    site.root.chmod(0o777)
    rows = [row for row in site.json()["findings"] if row["topic"] == "trust"]
    assert [row["level"] for row in rows] == ["error"]
    assert f"chmod go-w {site.root}" in rows[0]["fix"]


def test_a_test_alert_is_sent_by_the_ways_that_the_settings_have(site: Site) -> None:
    assert site.levels("alerts", "--alerts") == ["warning"]
    site.program("notify", f'echo "$CRONHPC_KIND" >{site.place}/alert; cat >>{site.place}/alert')
    (site.root / "cronhpc.yaml").write_text(f"alerts: {{command: {site.bin}/notify}}\n", encoding="utf-8")
    assert site.levels("alerts", "--alerts") == ["fine"]
    kind, text = (site.place / "alert").read_text(encoding="utf-8").split("\n", 1)
    assert (kind, "a test" in text) == ("test", True), text
    site.program("notify", "exit 3")
    assert site.levels("alerts", "--alerts") == ["error"]


def test_an_address_that_cannot_be_reached_is_not_in_what_is_said(site: Site) -> None:
    _, said = site("--url", "http://127.0.0.1:1/secret-path")
    assert "cannot be reached from here" in said
    assert "secret" not in said


def test_the_screen_has_the_worst_first_and_hostile_texts_on_one_line() -> None:
    found = [
        Finding(Level.ERROR, "submit", "n1\x1b[2J may not\nsubmit.", "Ask.", (("sbatch.partition", "cpu"),)),
        Finding(Level.FINE, "slurm", "answers."),
    ]
    text = view.doctor(found, {"sbatch.partition": "cpu"}, Style(NOW, width=60), written=False)
    assert text.splitlines() == [
        "to be fixed",
        "  submit  n1\\e[2J may not submit.",
        "          Put sbatch.partition: cpu",
        "          Ask.",
        "",
        "fine",
        "  slurm   answers.",
        "",
        "settings to put into cronhpc.yaml (cronhpc doctor --write does it):",
        "  sbatch.partition: cpu",
    ]
