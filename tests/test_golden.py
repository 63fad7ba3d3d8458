"""Every screen and every --json of one rich directory, word for word: tests/data/golden/.

Who changes a word on purpose writes them anew, and reads the difference before it is committed:

    CRONHPC_WRITE_GOLDEN=1 deploy/test --plain tests/test_golden.py
    git diff tests/data/golden
"""

from __future__ import annotations

import difflib
import html
import io
import json
import os
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from cronhpc import __version__, cli
from cronhpc.cli import commands
from cronhpc.cli.console import Console
from cronhpc.core.alerts import Alert
from cronhpc.core.model import Phase
from cronhpc.core.model.site import Level
from cronhpc.doctor.judge import of_cluster, of_disk, of_machine, of_nodes
from cronhpc.engine.delivery import About, facts
from cronhpc.engine.read import read_world
from cronhpc.engine.site import open_site
from docs.generate import json_page
from tests import golden_directory
from tests.doctor.test_diagnosis import DISKS, HERE, MACHINES, NODES
from tests.doctor.test_findings import SITES
from tests.golden_directory import Cluster
from tests.view_situations import NOW

GOLDEN = Path(__file__).parent / "data" / "golden"
WRITE = bool(os.environ.get("CRONHPC_WRITE_GOLDEN"))
HOME = "/home/alice-golden"  # stands for the folder of the test, and is as long: what is cut to a width stays so
WIDTHS = (80, 120)
NO_PATH = "/nowhere/bin"  # no Slurm of this machine's


@dataclass
class Shell:
    """Alice's, at one instant."""

    home: Path
    cluster: Cluster

    def __call__(self, *words: str, width: int = 0) -> str:
        """A command, what it printed and its exit code, as one text."""
        out, err = io.StringIO(), io.StringIO()
        environ = {
            "HOME": str(self.home),
            "PATH": NO_PATH,
            "TZ": "Europe/Paris",
            "CRONHPC_DIR": str(self.home / "cron"),
            "NO_COLOR": "1",
        }
        words = tuple(word.replace(HOME, str(self.home)) for word in words)
        code = cli.main(words, Console(NOW, environ, out, err, bool(width), width, 1000 if width else 0))
        error = f"--- on standard error\n{err.getvalue()}" if err.getvalue() else ""
        return self.fixed(f"{out.getvalue()}{error}--- exit code {code}\n")

    def fixed(self, text: str) -> str:
        """Without what differs from one place and version to another."""
        text = re.sub('"timestamp": "[^"]*"', '"timestamp": "NOW"', text)  # structlog reads a clock of its own
        return text.replace(str(self.home), HOME).replace(__version__, "VERSION")


@pytest.fixture(scope="module")
def model() -> Iterator[Path]:
    """The directory, built once."""
    with tempfile.TemporaryDirectory(prefix="gold-", dir="/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        shell = Shell(Path(folder), Cluster(tuple(golden_directory.jobs(Path(folder) / "cron"))))
        golden_directory.outside(patch, shell.cluster)
        golden_directory.make(Path(folder) / "cron")
        written, _, _ = shell("status", "--json").rpartition("---")  # what the last tick has left there is as much
        (Path(folder) / "cron" / "status.json").write_text(written.replace(HOME, folder), encoding="utf-8")
        yield Path(folder) / "cron"


def _copied(model: Path, patch: pytest.MonkeyPatch) -> Iterator[Shell]:
    with tempfile.TemporaryDirectory(prefix="gold-", dir="/tmp") as folder:
        assert len(folder) == len(HOME)
        shell = Shell(Path(folder), Cluster(tuple(golden_directory.jobs(Path(folder) / "cron"))))
        golden_directory.outside(patch, shell.cluster)
        golden_directory.copy(model, shell.home / "cron")
        yield shell


@pytest.fixture(scope="module")
def looking(model: Path) -> Iterator[Shell]:
    """One directory for all that only look; its scripts are parsed once."""
    with pytest.MonkeyPatch.context() as patch:
        for shell in _copied(model, patch):
            site = open_site(str(shell.home / "cron"), None, {"HOME": str(shell.home), "PATH": NO_PATH})
            read_world(site, NOW)
            site.cache.save()
            yield shell


@pytest.fixture
def doing(model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """A directory of its own for each that changes something; submissions one by one, so that ids are as ever."""
    monkeypatch.setattr("concurrent.futures.ThreadPoolExecutor", lambda _: ThreadPoolExecutor(1))
    yield from _copied(model, monkeypatch)


def compare(name: str, text: str) -> None:
    """`text` against the golden file, or into it."""
    path = GOLDEN / name
    if WRITE:
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    difference = "\n".join(difflib.unified_diff(before.splitlines(), text.splitlines(), name, "now", lineterm="", n=2))
    assert text == before, f"{difference}\nIf it is meant so: CRONHPC_WRITE_GOLDEN=1 pytest tests/test_golden.py"


def screens(shell: Shell, words: tuple[str, ...], widths: tuple[int, ...] = WIDTHS) -> str:
    """What a command shows at each width."""
    return "\n".join(f"$ cronhpc {' '.join(words)}  # {w} columns\n{shell(*words, width=w)}" for w in widths)


LOOKS = {
    "status": ("status",),
    "plan": ("plan",),
    "next": ("next",),
    "next-one": ("next", "new-york", "-n", "4"),
    "next-any": ("next", "--schedule", "0 2 * * sun", "--after", "2026-10-17", "-n", "4"),
    "history": ("history",),
    "history-one": ("history", "backup", "--since", "7d"),
    "history-state": ("history", "--state", "failed,missed,running,pending", "-n", "30"),
    "logs": ("logs", "backup", "-n", "6"),
    "logs-none": ("logs", "brand-new"),
    "logs-list": ("logs",),
    "list": ("list",),
    "show": ("show", "hub-sync"),
    "show-row": ("show", "hello"),
    "logs-waits": ("logs", "4790"),
    "check": ("check",),
    "check-one": ("check", "bad-option"),
    "clean": ("clean", "--dry-run"),
}
EXPLAINED = (
    "backup", "bad-option", "bad-schedule", "brand-new", "fetch", "flaky", "gpu-health", "heartbeat", "hello",
    "loss-watch", "mirror", "new-york", "one-node", "open-to-all", "queued", "sweep",
)  # fmt: skip
LOOKS |= {f"status-of-{name}": ("status", name) for name in EXPLAINED}
DEEDS = {
    "kill": ("kill", "backup", "--reason", "disk is full"),
    "kill-all": ("kill", "ALL", "--expires", "2h"),
    "kill-unknown": ("kill", "bakup"),
    "pause": ("pause", "sweep", "--reason", "until the new disk is in"),
    "unkill": ("unkill", "loss-watch"),
    "resume": ("resume", "gpu-health"),
    "resume-suspended": ("resume", "flaky"),
    "run": ("run", "quota"),
    "run-refused": ("run", "open-to-all"),
    "rerun": ("rerun", "one-node"),
    "rm": ("rm", "cleanup", "fetch", "--yes"),
    "rerun-refused": ("rerun", "heartbeat"),
    "start": ("start",),
    "stop": ("stop",),
    "init": ("init", "--dir", f"{HOME}/other", "--backend", "slurm"),
    "init-again": ("init",),
    "add": ("add", "quota-watch"),
    "tick": ("tick",),
}
BROKEN = ("init", "tick")  # deeds with a line that 80 columns break


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_shows_the_same_words_as_ever(looking: Shell, name: str) -> None:
    compare(f"{name}.txt", screens(looking, LOOKS[name]))
    compare(f"{name}.json.txt", looking(*LOOKS[name], "--json"))


def test_what_other_programs_read_is_the_same_as_ever(looking: Shell) -> None:
    """Metrics, a monitoring check's line, the page (as text: its tags and styles are the page's own)."""
    compare("metrics.txt", looking("status", "--prometheus"))
    compare("nagios.txt", looking("status", "--nagios"))
    compare("page.txt", _text_of(looking("page", "--out", "-")))


def test_what_doctor_says_of_sites_disks_machines_and_nodes_is_the_same_as_ever(
    looking: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sentence that its tests know, once; what it finds on this machine is no golden file's."""
    found = [each for site in SITES.values() for each in of_cluster(*site[:2], asked=1000, answered=1001)]
    found += [each for disk, *_ in DISKS.values() for each in of_disk(disk)]
    found += [each for here, *_ in MACHINES.values() for each in of_machine(here, needs_network=True)]
    found += [each for node, *_ in NODES.values() for each in of_nodes([node], HERE)]
    ordered = sorted(dict.fromkeys(found), key=lambda each: [*Level].index(each.level))
    monkeypatch.setattr("cronhpc.doctor.look.examine", lambda *_: ordered)
    compare("doctor.txt", screens(looking, ("doctor",)))
    compare("doctor.json.txt", looking("doctor", "--json"))


def _text_of(page: str) -> str:
    """What a reader sees of an HTML page, a line for each piece of text."""
    body = re.sub(r"<(style|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    lines = (" ".join(html.unescape(each).split()) for each in re.split(r"<[^>]*>", body))
    return "\n".join(filter(None, lines)) + "\n"


@pytest.mark.parametrize("name", DEEDS)
def test_a_deed_is_told_in_the_same_words_as_ever(doing: Shell, name: str) -> None:
    compare(f"{name}.txt", screens(doing, DEEDS[name], (80,)))


@pytest.mark.parametrize("name", DEEDS)
def test_a_deed_is_told_in_the_same_words_on_a_wider_screen(doing: Shell, name: str) -> None:
    wide = screens(doing, DEEDS[name], (120,))
    if name in BROKEN:
        compare(f"{name}-wide.txt", wide)
    else:
        assert wide == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").replace("# 80 columns", "# 120 columns")


@pytest.mark.parametrize("name", DEEDS)
def test_a_deed_is_told_in_the_same_json_as_ever(doing: Shell, name: str) -> None:
    compare(f"{name}.json.txt", doing(*DEEDS[name], "--json"))


@pytest.mark.processes
def test_a_tick_writes_the_same_log_and_status_as_ever(doing: Shell) -> None:
    compare("tick.log.txt", doing("tick"))
    known = json.loads((doing.home / "cron" / "status.json").read_text(encoding="utf-8"))
    compare("status-file.txt", doing.fixed(json.dumps(known, indent=2)) + "\n")


def test_every_golden_file_is_compared_with_something() -> None:
    names = {f"{name}{end}" for name in (*LOOKS, *DEEDS) for end in (".txt", ".json.txt")}
    names |= {
        *(f"{name}-wide.txt" for name in BROKEN),
        "metrics.txt",
        "nagios.txt",
        "page.txt",
        "tick.log.txt",
        "status-file.txt",
        "doctor.txt",
        "doctor.json.txt",
    }
    assert {path.name for path in GOLDEN.iterdir()} == names


# Commands without one, and what holds their words.
ELSEWHERE = {
    "again": "tests/again",
    "daemon": "tests/drivers: it prints what ticks log",
    "edit": "tests/cli/test_entries.py",
    "guard": "tests/inside",
    "import": "tests/importer",
}


def test_every_command_has_a_golden_file() -> None:
    shown = {words[0] for words in (*LOOKS.values(), *DEEDS.values())} | {"doctor", "page"}
    assert shown | ELSEWHERE.keys() == set(commands.present())
    assert not shown & ELSEWHERE.keys()


# --- docs/json.md ----------------------------------------------------------------------------------------------------

# The golden files with JSON, by the table of docs/json.md that they are to fit. More keys may come; none goes.
PRINTED = {
    "status": "status", "status-file": "status", "plan": "plan", "tick": "tick", "next": "next", "next-one": "next",
    "next-any": "next", "history": "history", "history-one": "history", "history-state": "history", "logs": "log",
    "logs-list": "history", "logs-waits": "log", "check": "check", "check-one": "check", "run": "submitted",
    "run-refused": "submitted", "rerun": "submitted", "rerun-refused": "submitted", "start": "scheduler",
    "stop": "scheduler", "init": "init", "init-again": "init", "add": "added", "clean": "clean", "doctor": "doctor",
    "list": "list", "show": "shown", "show-row": "shown", "rm": "removed", "kill": "order", "kill-all": "order",
    "pause": "order", "unkill": "lifting", "resume": "lifting", "resume-suspended": "lifting",
}  # fmt: skip
PRINTED |= {f"status-of-{name}": "one entry" for name in EXPLAINED}


@pytest.mark.parametrize("name", PRINTED)
def test_what_is_printed_fits_what_the_docs_say_of_it(name: str) -> None:
    path = GOLDEN / (f"{name}.txt" if name == "status-file" else f"{name}.json.txt")
    whole = json.loads(path.read_text(encoding="utf-8").partition("--- ")[0])
    assert next(iter(whole.items())) == ("version", 1)
    assert json_page.shaped(whole, PRINTED[name], name) == [], "docs/json.md: a key keeps its name and its type"


def test_each_table_of_the_docs_is_of_something_printed_or_part_of_it() -> None:
    linked = set(re.findall(r"\]\(#([\w-]+)\)", json_page.PAGE))
    assert {name.replace(" ", "-") for name in json_page.TABLES if name != "alert"} <= linked
    assert set(PRINTED.values()) <= set(json_page.TABLES)


def test_an_alert_fits_what_the_docs_say_of_it() -> None:
    alert = Alert(Phase.NEW, "failed", "backup failed", "backup", NOW)
    known = json.loads(json.dumps(facts(alert, About("/home/alice/cron", "alice", "login1", {}))))
    assert json_page.shaped(known, "alert", "alert") == []
    assert set(known) == set(json_page.TABLES["alert"])


def test_the_list_of_ready_made_jobs_fits_what_the_docs_say_of_it(looking: Shell) -> None:
    """It grows with each job, so that no golden file has it."""
    whole = json.loads(looking("add", "--json").partition("--- ")[0])
    assert json_page.shaped(whole, "shelf", "add") == []
    assert {frozenset(job) for job in whole["jobs"]} == {frozenset({"name", "runs", "what", "edit"})}


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ({"days": 30, "jobs": 4, "cpu_seconds": 7}, []),
        ({"days": 30, "jobs": 4, "cpu_seconds": 7, "new": 1}, []),
        ({"days": 30, "jobs": "4", "cpu_seconds": 7}, ["x.jobs: '4' is no number"]),
        ({"days": True, "jobs": 4, "cpu_seconds": 7}, ["x.days: True is no number"]),
        ({"days": 30, "jobs": 4}, ["x.cpu_seconds is missing"]),
        ([], ["x: [] is no cost"]),
    ],
)
def test_what_does_not_fit_the_docs_is_found(value: object, wrong: list[str]) -> None:
    assert json_page.shaped(value, "cost", "x") == wrong
    assert json_page.misfits("yesterday", "instant or null", "x") == ["x: 'yesterday' is no instant"]
    assert json_page.misfits([{}], "list of [link](#link)", "x")[0] == "x[0].job is missing"
