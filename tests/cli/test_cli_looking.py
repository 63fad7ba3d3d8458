"""`page`, `status --prometheus` and `status --nagios`, as a user runs them on the local backend."""

from __future__ import annotations

import io
import json
import os
import subprocess  # noqa: TID251 - what bash says itself
import sys
import time
from itertools import product
from pathlib import Path

import pytest

from cronhpc import cli
from cronhpc.cli.console import Console
from cronhpc.core.model import JobEnd, Key, Result, Started, Way
from cronhpc.store import history, logs, scheduler
from cronhpc.store.claims import Claims
from cronhpc.store.files import Paths
from tests.cli.test_cli import HOUR, NOW, Shell, later, wait_for
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture
from tests.worlds import write_end

DAY = 86400


def past(shell: Shell, name: str = "backup", result: str = "failed", log: str = "") -> None:
    slot = NOW - 5 * HOUR
    row = {"what": "run", "key": f"{name}@x.1", "entry": name, "slot": slot, "result": result, "exit_code": 1}
    row |= {"submitted": slot, "started": slot + 5, "ended": slot + 65, "job": "7", "at": slot + 99, "log": log}
    history.append(shell.cron / "state" / "history", [row], host="a", now=NOW)


def write_log(shell: Shell, text: str = "it broke\n") -> Path:
    path = shell.cron / "log" / "backup" / "20261127T0300Z-7.out"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def settings(shell: Shell, text: str) -> None:
    (shell.cron / "cronhpc.yaml").write_text(f"backend: local\n{text}\n")


# --- page ----------------------------------------------------------------------------------------------------------


def test_page_is_one_file_in_the_cron_directory(shell: Shell) -> None:
    shell.drop("cron.daily/backup.slurm")
    said = shell("page")
    assert said.code == 0, said.err
    assert "~/cron/page.html" in said.out
    assert "backup" in (shell.cron / "page.html").read_text()


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o007, 0o640)])
def test_who_may_read_it_is_for_the_umask_to_say(shell: Shell, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        shell("page", "--out", str(shell.home / "p.html"))
    finally:
        os.umask(before)
    assert (shell.home / "p.html").stat().st_mode & 0o777 == mode


def test_page_goes_to_standard_output_too(shell: Shell) -> None:
    assert shell("page", "--out", "-").out.startswith("<!DOCTYPE html>")
    assert shell("page", "--json").json["bytes"] > 1000


def test_the_end_of_a_failed_runs_log_is_on_it_as_text(shell: Shell) -> None:
    write_log(shell, "early\n" * 500 + "<script>late</script>\n")
    shell.drop("cron.daily/backup.slurm")
    past(shell, log="log/backup/20261127T0300Z-7.out")
    html = shell("page", "--out", "-").out
    assert "&lt;script&gt;late&lt;/script&gt;" in html
    assert "<script>" not in html
    assert html.count("early") < 50


@pytest.mark.parametrize(
    ("words", "linked"),
    [([], True), (["--out", "{home}/cron/mine.html"], True), (["--out", "{home}/p.html"], False)],
    ids=["in the cron directory", "there, by another name", "elsewhere"],
)
def test_links_lead_to_logs_where_the_page_lies_beside_them(shell: Shell, words: list[str], *, linked: bool) -> None:
    write_log(shell)
    past(shell, log="log/backup/20261127T0300Z-7.out")
    words = [word.format(home=shell.home) for word in words]
    assert shell("page", *words).code == 0
    page = Path(words[-1]) if words else shell.cron / "page.html"
    assert ('href="log/backup/20261127T0300Z-7.out"' in page.read_text()) == linked
    assert "it broke" in page.read_text()


@pytest.mark.parametrize(("setting", "seconds"), [("", 300), ("page-refresh: 30m", 1800), ("page-refresh: 0", 0)])
def test_how_often_a_browser_loads_it_anew_is_a_setting(shell: Shell, setting: str, seconds: int) -> None:
    settings(shell, f"page: page.html\n{setting}")
    shell("tick")
    for html in ((shell.cron / "page.html").read_text(), shell("page", "--out", "-").out):
        assert (f'http-equiv="refresh" content="{seconds}"' in html) == bool(seconds)
        assert ('http-equiv="refresh"' in html) == bool(seconds)


@pytest.mark.parametrize("setting", ["", "page: page.html"])
def test_only_a_page_that_ticks_write_says_that_its_age_is_the_schedulers_silence(shell: Shell, setting: str) -> None:
    settings(shell, setting)
    scheduler.mark_started(Paths(shell.cron), Started(via=Way.LOCAL, at=later()))
    shell("tick")
    assert ("the scheduler is silent" in shell("page", "--out", "-").out) == bool(setting)


@pytest.mark.parametrize("planted", ["a link", "a linked folder", "a hard link", "a pipe"])
def test_a_link_planted_in_place_of_a_log_shows_nothing(shell: Shell, planted: str) -> None:
    """Whoever may write to a log folder would else put any file of the owner's on the page."""
    secret = shell.home / "secret"
    secret.mkdir()
    (secret / "20261127T0300Z-7.out").write_text("my private key")
    log = write_log(shell)
    log.unlink()
    if planted == "a link":
        log.symlink_to(secret / log.name)
    elif planted == "a hard link":
        log.hardlink_to(secret / log.name)
    elif planted == "a pipe":
        os.mkfifo(log)
    else:
        log.parent.rmdir()
        log.parent.symlink_to(secret)
    past(shell, log="log/backup/20261127T0300Z-7.out")
    html = shell("page", "--out", "-").out
    assert "private" not in html
    assert "Its log is empty, or gone" in html


@pytest.mark.parametrize("log", ["log/../state/id", "state/id", "/etc/passwd", "log/backup/../../state/id", "log"])
def test_a_path_in_history_that_leads_elsewhere_is_not_read(shell: Shell, log: str) -> None:
    write_log(shell)
    past(shell, log=log)
    assert "Its log is empty, or gone" in shell("page", "--out", "-").out


def test_of_an_arrays_logs_the_newest_is_shown(shell: Shell) -> None:
    folder = write_log(shell).parent
    for task, at in ((1, NOW - 50), (2, NOW - 10), (3, NOW - 90)):
        path = folder / f"20261127T0300Z-8_{task}.out"
        path.write_text(f"task {task} says so")
        os.utime(path, (at, at))
    past(shell, log="log/backup/20261127T0300Z-8_*.out")
    html = shell("page", "--out", "-").out
    assert "task 2 says so" in html
    assert "task 3 says so" not in html


def test_a_colleagues_page_is_hers_to_make(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    said = shell("page")
    assert (said.code, "belongs to someone else" in said.err) == (2, True)


def test_the_page_is_written_after_each_tick_where_the_settings_say_so(shell: Shell) -> None:
    settings(shell, "page: page.html")
    shell.drop("cron.daily/backup.slurm")
    page = shell.cron / "page.html"
    now = later()
    assert shell("tick", now=now).code in {0, 1}
    assert "cron.daily/backup.slurm" in page.read_text()
    os.utime(page, (now - DAY, now - DAY))
    page.write_text("old")
    os.utime(page, (now - DAY, now - DAY))
    shell("tick", now=now + 1)
    assert page.read_text() != "old"


def test_a_page_that_cannot_be_written_is_no_reason_to_lose_the_tick(shell: Shell) -> None:
    settings(shell, "page: no/such/folder/page.html")
    said = shell("tick", now=later())
    assert "the page was not written" in said.out + said.err
    assert (shell.cron / "status.json").exists()


# --- metrics -------------------------------------------------------------------------------------------------------


def test_metrics_are_put_in_place_whole_and_readable_by_the_exporter(shell: Shell) -> None:
    shell.drop("cron.daily/backup.slurm")
    past(shell)
    place = shell.home / "cronhpc.prom"
    before = os.umask(0o077)
    try:
        said = shell("status", "--prometheus", "--out", str(place))
    finally:
        os.umask(before)
    assert (said.code, said.out, said.err) == (0, "", "")
    assert place.stat().st_mode & 0o777 == 0o644
    assert 'cronhpc_runs{directory="' in place.read_text()
    assert [path.name for path in shell.home.iterdir() if "prom" in path.name] == ["cronhpc.prom"]


def test_metrics_are_printed(shell: Shell) -> None:
    assert "# TYPE cronhpc_chain_fine gauge" in shell("status", "--prometheus").out


def test_out_belongs_to_metrics(shell: Shell) -> None:
    said = shell("status", "--out", "x")
    assert (said.code, "--out goes with --prometheus" in said.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        pytest.param([], 0, "CRONHPC OK - 1 entry fine | entries=1", id="all"),
        pytest.param(["backup"], 0, "CRONHPC OK - 1 entry fine", id="an entry"),
        pytest.param(["nosuch"], 3, "CRONHPC UNKNOWN - There is no entry called nosuch", id="no such entry"),
    ],
)
def test_nagios_gets_an_exit_code_and_a_line(shell: Shell, words: list[str], code: int, line: str) -> None:
    shell.drop("cron.daily/backup.slurm")
    now = int(time.time())  # noqa: TID251 - the tick's heartbeat is of this clock
    shell("tick", now=now)
    said = shell("status", *words, "--nagios", now=now)
    assert said.code == code, said.out
    assert said.out.startswith(line)
    assert said.err == ""


def test_a_folder_that_is_none_is_unknown_and_not_critical(shell: Shell) -> None:
    said = shell("status", "--nagios", "--dir", str(shell.home / "none"))
    assert (said.code, said.err) == (3, "")
    assert said.out.startswith("CRONHPC UNKNOWN - There is no folder")


# --- history -------------------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_a_run_is_in_history_at_once_and_each_run_once(shell: Shell) -> None:
    """Who has just said `cronhpc run` looks there first; the next tick may be an hour away."""
    gate = shell.home / "gate"
    shell.drop("cron.daily/backup.slurm", f"until [ -e {gate} ]; do sleep 0.05; done")
    shell("run", "backup", now=later())
    for _ in range(100):
        [known] = shell("history", "--json", now=later()).json["runs"]
        if known["result"] == "running":
            break
        time.sleep(0.05)
    assert (known["result"], known["job"], known["by_hand"], known["entry"]) == ("running", "1", True, "backup")
    assert shell("history", "backup", "--state", "running,pending", now=later()).code == 0
    assert shell("history", "backup", "--state", "ok", now=later()).code == 1
    gate.touch()
    wait_for(shell, "backup", "ok")
    [before] = shell("history", "--json", now=later()).json["runs"]
    assert (before["job"], before["result"]) == ("1", "ok")
    shell("tick", now=later())
    [after] = shell("history", "--json", now=later()).json["runs"]
    assert after == before | {"log": after["log"]}


def test_the_end_of_a_run_is_in_history_also_where_the_tick_died_that_was_to_write_it(shell: Shell) -> None:
    shell.drop("cron.daily/backup.slurm")
    shell("tick", now=later())
    key = Key("backup", NOW - NOW % 60)
    claims = Claims(shell.cron / "state" / "claims")
    claims.make(key, "backup", "a:1:2", NOW)
    write_end(claims, key, "backup", JobEnd(Result.FAILED, exit_code=3, ended=NOW), "7", now=NOW)
    for words in (["history"], ["history", "backup"]):
        [run] = shell(*words, "--json", now=later()).json["runs"]
        assert (run["job"], run["result"], run["exit_code"]) == ("7", "failed", 3)
    assert shell("status", "backup", "--json", now=later()).json["last"]["job"] == "7"
    shell("tick", now=later() + 60)
    [written] = shell("history", "--json", now=later() + 60).json["runs"]
    assert written == run


def test_history_can_be_read_where_the_batch_system_is_not_there(shell: Shell) -> None:
    past(shell)
    claims = shell.cron / "state" / "claims"
    (claims / "backup@20261127T1300Z.1").write_text('{"version":1,"name":"backup","at":1795784400}')
    (claims / "backup@20261127T1300Z.1.id").write_text('{"version":1,"id":"8","at":1795784400}')
    settings(shell, "nonsense: 1")
    said = shell("history", "--json")
    assert [run["job"] for run in said.json["runs"]] == ["7"]
    assert "what has not ended yet is not shown" in said.err


# --- logs that go --------------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_a_tick_says_what_logs_it_has_removed(shell: Shell) -> None:
    folder = shell.cron / "log" / "backup"
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"20200101T000{number}Z-{number + 1}.out").write_text("x" * 1000)
    shell.drop("cron.daily/backup.slurm")
    now = later()
    rows = [json.loads(line) for line in shell("tick", now=now).out.splitlines()]
    [said] = [row for row in rows if row["event"].startswith("removed")]
    assert said["event"].startswith("removed 3 logs")
    assert (said["level"], sum(said["reasons"].values())) == ("info", 3)
    (folder / "20200101T0009Z-9.out").write_text("x" * 1000)
    os.utime(folder, (now, now))
    assert "removed 1 log" in shell("tick", now=now + 7 * HOUR, terminal=True, width=100).out
    assert shell("tick", "--json", now=now + 14 * HOUR).json["logs_removed"] == 0


@pytest.mark.processes
def test_a_disk_that_is_nearly_full_is_told_before_it_is_too_late(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = shell.home / "told"
    notify = shell.home / "notify"
    notify.write_text(f"#!/bin/sh\ncat >> {told}\n")
    notify.chmod(0o755)
    settings(shell, f"alerts: {{command: {notify}}}")
    shell("tick", now=later())
    before = told.read_text() if told.exists() else ""
    assert "nearly full" not in before
    monkeypatch.setattr("cronhpc.store.logs.space", lambda _: logs.Space(10**8, 10**12, 10**6, 10**7))
    for minute in (1, 2):
        shell("tick", now=later() + 60 * minute)
    monkeypatch.undo()
    shell("tick", now=later() + 200)
    said = told.read_text()
    assert said.count("the disk is nearly full: the file system has 0.0 % of its bytes left") == 1
    assert said.count("fine again: the disk") == 1


def test_history_can_be_read_where_what_ticks_keep_cannot(shell: Shell) -> None:
    past(shell)
    claims = Claims(shell.cron / "state" / "claims")
    claims.make(Key("backup", NOW - NOW % 60), "backup", "a:1:2", NOW)
    kept = shell.cron / "state" / "entries.json"
    kept.unlink(missing_ok=True)
    kept.mkdir()
    said = shell("history", "--json")
    assert [run["job"] for run in said.json["runs"]] == ["7"]
    assert "what has not ended yet is not shown" in said.err


def test_history_is_there_where_nothing_was_ever_claimed(shell: Shell) -> None:
    past(shell)
    (shell.cron / "state" / "claims").rmdir()
    assert [run["job"] for run in shell("history", "--json").json["runs"]] == ["7"]


# --- check of what stands in cronhpc.yaml ----------------------------------------------------------------------------

SETTINGS_THAT_NEVER_WORK = {
    'folders: {daily: "H 4 * * fri#1"}': "E101 folders.daily:",
    "sbatch: {time: 90m}": "E207 sbatch.time:",
    'entries: {a: {schedule: "0 3 * * *", command: x, sbatch: {mem: 4 GB}}}': "E207 entries.a.sbatch.mem:",
    'entries: {a: {schedule: "*/90 * * * *", command: x}}': "cronhpc.yaml:2: W104",
    'entries: {a: {schedule: "foo-bar/2 * * * *", command: x}}': "cronhpc.yaml:2: E101",
    "scheduler: {sbatch: {time: 90m}}": "E207 scheduler.sbatch.time:",
    'entries: {a: {schedule: "@daily", command: x, sbatch: {mem: 1, mem-per-cpu: 1G}}}': "E208 --mem and --mem-per",
    'entries: {a: {schedule: "@daily", command: x, sbatch: {gpus-per-task: 1}}}': "E207 --gpus-per-task needs --ntasks",
}
COMMANDS = {  # of a row: what is said of its command, as of a script's body
    "python train.py | tee log.txt": "the last command is a pipe into tee: the job counts as fine even when what "
    'feeds it fails. Begin it with "set -o pipefail;".',
    "cd data && make": "W303 entries.a.command:",
    "module load cuda; make": 'Begin it with ". /etc/profile;".',
    "curl https://u:hunter2@x/": "W301 entries.a.command:",
    "make &": "W308 entries.a.command:",
    "if true; then make": "E230 entries.a.command: its shell cannot read it:",
    "while squeue -n a; do sleep 60; done": "W306 entries.a.command:",
}
QUIET_COMMANDS = {
    "python -m hello": "",
    ". /etc/profile; module load cuda": "",
    "cd data && make": "chdir: /tmp",
    "set -o pipefail; python train.py | tee log.txt": "",
    "make | tee log.txt # cronhpc: ignore=W305": "",
}


@pytest.mark.processes
@pytest.mark.parametrize(("text", "said"), COMMANDS.items(), ids=COMMANDS.keys())
def test_a_command_in_the_settings_is_looked_at_as_a_script_is(shell: Shell, text: str, said: str) -> None:
    settings(shell, f"entries:\n  a:\n    schedule: '@daily'\n    command: {json.dumps(text)}\n")
    found = shell("check", "--strict")
    assert found.code == 1
    assert shell("check").code == (1 if shell("check", "--json").json["errors"] else 0), "a warning is no failure"
    assert found.out.count(said) == 1
    assert "hunter2" not in found.out
    assert "cronhpc.yaml:3: " in found.out


@pytest.mark.processes
@pytest.mark.parametrize(("text", "sbatch"), QUIET_COMMANDS.items(), ids=QUIET_COMMANDS.keys())
def test_of_a_good_command_nothing_is_said(shell: Shell, text: str, sbatch: str) -> None:
    row = f"{{schedule: '@daily', command: {json.dumps(text)}, sbatch: {{{sbatch}}}}}"
    settings(shell, f"entries: {{a: {row}}}")
    assert shell("check").code == 0


@pytest.mark.processes
def test_what_the_settings_give_a_script_beside_its_own_options_counts(shell: Shell) -> None:
    settings(shell, "sbatch: {ntasks: 4, mem: 4G}")
    shell.drop("cron.daily/a.slurm", "#!/bin/bash\n#SBATCH --gpus-per-task=1 --mem-per-cpu=2G\ntrue\n")
    assert "E207" not in shell("check").out
    settings(shell, "entries: {b: {schedule: '@daily', script: cron.daily/a.slurm, sbatch: {mem: 4G}}}")
    assert "E208 --mem-per-cpu and --mem exclude each other." in shell("check", "b").out
    settings(shell, "sbatch: {ntasks: 4, mem: 4G}")
    shell("tick", now=later())
    asked = (shell.cron / "state" / "cache.json").read_text()
    assert "--ntasks=4" in asked
    assert "--mem=4G" not in asked, "sbatch refuses it beside --mem-per-cpu"


@pytest.mark.parametrize(("text", "said"), SETTINGS_THAT_NEVER_WORK.items(), ids=SETTINGS_THAT_NEVER_WORK.keys())
def test_what_is_refused_later_is_said_by_check(shell: Shell, text: str, said: str) -> None:
    settings(shell, text)
    found = shell("check", "--strict")
    assert found.code == 1
    assert shell("check").code == (1 if shell("check", "--json").json["errors"] else 0), "a warning is no failure"
    assert found.out.count(said) == 1


def test_a_wrong_default_is_named_as_long_as_it_is_there(shell: Shell) -> None:
    settings(shell, "defaults: {overlap: skp}")
    said = "cronhpc.yaml:2: E103 --overlap=skp: not a value for overlap."
    assert shell("check").out.count(said) == 1, "with no script"
    shell.drop("cron.daily/a.slurm", "#!/bin/bash\ntrue\n")
    for _ in range(3):
        assert shell("check").out.count(said) == 1
        assert "--overlap=skp: not a value for overlap" in shell("status").out
        shell("tick", now=later())


# --- check of what this place has -------------------------------------------------------------------------------------


@pytest.mark.processes
@pytest.mark.parametrize("by", ["sh", "bash"])
def test_the_shell_that_cannot_read_a_script_is_the_one_to_ask(shell: Shell, by: str) -> None:
    path = shell.cron / "cron.daily" / "a.slurm"
    path.write_text(f"#!/bin/{by}\nif true; then\n")
    assert f"Try: {by} -n {path}" in shell("check", now=later()).out


BODIES = {  # of scripts that bash is asked about together
    "plain": "touch {ran}",
    "turns -n off": "set +n; touch {ran}",
    "a trap": "trap 'touch {ran}' EXIT DEBUG ERR",
    "substitutions": "$(touch {ran}) `touch {ran}` <(touch {ran}) >{ran}",
    "a function": "f() {{ touch {ran}; }}; f",
    "ends the group of a caller": "touch {ran}; ) ; touch {ran} ; (",
    "a quote that goes on": "echo 'x\ntouch {ran}",
    "a quote of the one before": "'\ntouch {ran}",
    "no fi": "if true; then\n",
    "a fi": "fi",
    "a here-document without its end": "cat <<X\ntouch {ran}",
    "an array": "a=(1 2",
    "a substitution that is wrong": "echo $(if)",
    "what the rest reads": "cat; touch {ran}",
    "a test of two": "[[ a -gt ]]",
    "of another's letters": "echo \u00e9\u201c; touch {ran}",
    "an array that is wrong, with which a function ends well": "a=( }}; touch {ran}; {{ $( \n",
    "a substitution that ends the bash which reads it": "<( then",
    "nothing": "",
    "a backslash": "touch {ran} \\",
    "a file that is not named": "touch {ran} > \\",
}


@pytest.mark.processes
def test_scripts_that_bash_reads_together_are_judged_as_bash_n_does_and_never_run(shell: Shell, tmp_path: Path) -> None:
    refused = []
    for number, (body, end) in enumerate(product(BODIES.values(), ("\n", ""))):
        text = f"#!/bin/bash\n{body.format(ran=tmp_path / 'ran')}{end}"
        (shell.cron / "cron.daily" / f"a{number:02}.slurm").write_text(text)
        alone = subprocess.run(
            ["bash", "-n"], input=text.encode(), capture_output=True, env={"LC_ALL": "C"}, check=False
        )
        refused += [f"a{number:02}.slurm"] if alone.returncode else []
    problems = shell("check", "--json", now=later()).json["problems"]
    told = {problem["file"].rpartition("/")[2] for problem in problems if problem["code"] == "E230"}
    assert sorted(told) == refused
    assert len(refused) > 4
    assert not (tmp_path / "ran").exists()


@pytest.mark.processes
def test_python_that_cannot_be_read_and_an_interpreter_that_is_not_here(shell: Shell) -> None:
    folder = shell.cron / "cron.daily"
    (folder / "a.slurm").write_text(f"#!{sys.executable}\nprint('x'\n")
    (folder / "b.slurm").write_text("#!/usr/bin/env pyhton3\nprint('x')\n")
    (folder / "c.slurm").write_text(f"#!{sys.executable}\nprint('x')\n")
    lines = shell("check", now=later()).out.splitlines()
    assert "cron.daily/a.slurm:2: E230 Python cannot read it: '(' was never closed." in lines[0]
    assert f"-m py_compile {shell.cron}/cron.daily/a.slurm" in lines[0]
    assert lines[1:] == [
        "cron.daily/b.slurm:1: W232 its first line names pyhton3, which this machine lacks. Did you mean python3?",
        "1 warning, 1 error",
    ]


def test_alerts_that_cannot_be_sent_are_named(shell: Shell) -> None:
    settings(shell, "alerts: {command: /nope/notify, webhook: 'file:/nope/hook'}")
    command, webhook, count = shell("check").out.splitlines()
    assert command.startswith("cronhpc.yaml: W352 alerts.command: /nope/notify is no program that may be executed. ")
    assert webhook.startswith("cronhpc.yaml: W352 alerts.webhook: /nope/hook cannot be read: No such file or ")
    assert count == "2 warnings"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("name", "where", "what"),
    [
        ("a", "file:/nope/hc", "--ping: /nope/hc cannot be read: No such file or directory"),
        ("a", "file:HOME/hc", "/hc can be read by others: chmod 600 "),
        ("a", "env:NO_SUCH", "--ping: the variable NO_SUCH is not set where the scheduler runs"),
        ("a:b", "env:NO_SUCH", "--ping: the variable NO_SUCH is not set where the scheduler runs"),
        ("a:5", "env:NO_SUCH", "--ping: the variable NO_SUCH is not set where the scheduler runs"),
    ],
    ids=["no such file", "a file that others can read", "no such variable", "a colon in its name", "and a number"],
)
def test_a_ping_that_cannot_be_sent_is_named_by_check_and_status(
    shell: Shell, name: str, where: str, what: str
) -> None:
    (shell.home / "hc").write_text("https://hc.example/uuid\n")
    (shell.home / "hc").chmod(0o644)
    shell.drop(
        f"cron.d/{name}.slurm", f"#SBATCH --time=5\n#CRON @daily --ping={where.replace('HOME', str(shell.home))}\ntrue"
    )
    shell.drop("cron.d/fine.slurm", "#SBATCH --time=5\n#CRON @daily --ping=https://hc.example/uuid\ntrue")
    checked = shell("check", now=later()).out
    assert f"cron.d/{name}.slurm: W351 --ping: " in checked
    assert what in checked
    assert "fine.slurm" not in checked
    for words in (["status"], ["status", name]):
        said = shell(*words, "--json", now=later()).json
        assert [what in row["what"] for row in said["attention"] if "--ping" in row["what"]] == [True]


@pytest.mark.processes
def test_add_says_what_keeps_the_job_from_running(shell: Shell) -> None:
    shell.drop("cron.daily/a.slurm", "#SBATCH --tme=5\ntrue\n")
    said = shell("add", "quota-watch", "--as", "b")
    assert said.code == 0
    assert "E201" not in said.out, "another entry's errors are not told"
    settings(shell, "folders: {hourly: '0 25 * * *'}")
    said = shell("add", "quota-watch", "--as", "c")
    assert said.out.splitlines()[0].startswith('cronhpc.yaml: E101 folders.hourly: "0 25 * * *": ')
    assert "all that is wrong: cronhpc check" in said.out
    assert shell("add", "quota-watch", "--as", "d", "--json").json["errors"][0].startswith("cronhpc.yaml: E101 ")


def slurm(shell: Shell, place: Path, sbatch: str) -> str:
    """The PATH of a site with one partition, and an sbatch that does so."""
    (shell.cron / "cronhpc.yaml").write_text("backend: slurm\n")
    tools = place / "tools"
    tools.mkdir()
    for tool, does in (("sbatch", sbatch), ("sinfo", "echo 'small|small*|up|1:00:00|4|(null)|1-2|16000|8'")):
        (tools / tool).write_text(f"#!/bin/sh\n{does}\n")
        (tools / tool).chmod(0o755)
    return f"{tools}:/usr/bin:/bin"


TAKES = "echo 'sbatch: Job 7 to start at 2026-11-29T15:00:00 using 1 processors on nodes cpu1' >&2"
SLURM = {  # stand-ins, by how sbatch behaves: its lines, and what is said
    "it takes the script": (TAKES, []),
    "a wrapper swallows its answer": (
        "exit 0",
        ["N003 what sbatch thinks of 1 script is not known: sbatch exited 0, and did not say when the job would start"],
    ),
    "it refuses the script": (
        "echo 'allocation failure: Invalid account' >&2; exit 1",
        ["cron.daily/a.slurm: E228 sbatch would refuse it: Invalid account. Correct the #SBATCH lines, "],
    ),
    "it hangs": (
        "sleep 60",
        ["N003 what sbatch thinks of 1 script is not known: it takes longer than a second. To wait for it: "],
    ),
}


@pytest.mark.processes
@pytest.mark.parametrize("name", SLURM)
def test_sbatch_is_asked_for_a_moment_where_there_is_one(
    shell: Shell, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, said = SLURM[name]
    moment, answer = (0.5, 1.5) if name == "it hangs" else (90.0, 90.0)  # however long a start takes here
    monkeypatch.setattr("cronhpc.cli.check._A_MOMENT", moment)
    monkeypatch.setattr("cronhpc.cli.check._ANSWER_TIMEOUT", answer)
    shell.drop("cron.daily/a.slurm", "#!/bin/bash\ntrue\n")
    path = slurm(shell, tmp_path, line)
    lines = shell("check", now=later(), PATH=path).out.splitlines()[:-1]
    assert len(lines) == len(said)
    for each, words in zip(lines, said, strict=True):
        assert each.startswith(words)
    assert shell("check", "--offline", now=later(), PATH=path).out == "nothing to fix\n"
    assert shell("check", "--offline", "--online", now=later(), PATH=path).code == 2


@pytest.mark.processes
def test_the_room_of_partitions_is_asked_of_sinfo(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_A_MOMENT", "_ANSWER_TIMEOUT", "_CLUSTER_TIMEOUT"):
        monkeypatch.setattr(f"cronhpc.cli.check.{name}", 90.0)
    shell.drop("cron.daily/a.slurm", "#SBATCH --time=2:00:00\ntrue\n")
    (line, _) = shell("check", now=later(), PATH=slurm(shell, tmp_path, TAKES)).out.splitlines()
    assert line == (
        'cron.daily/a.slurm:2: W231 "#SBATCH --time=2:00:00": partition small gives at most 1h. '
        "The job would be refused, or wait for ever: ask for less."
    )


@pytest.mark.processes
def test_the_check_of_one_entry_names_its_folders_schedule(shell: Shell) -> None:
    settings(shell, 'folders: {daily: "H 4 * * fri#1"}')
    shell.drop("cron.daily/x.slurm")
    assert "E101 folders.daily:" in shell("check", "x", now=later()).out


# --- status --watch ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "seconds", "shown"),
    [
        pytest.param(["--watch"], 30, "~/cron", id="the usual pace"),
        pytest.param(["--watch", "5"], 5, "~/cron", id="every five seconds"),
        pytest.param(["backup", "--watch", "5"], 5, "backup (cron.daily/backup.slurm)", id="one entry"),
        pytest.param(["--watch", "backup"], 30, "backup (cron.daily/backup.slurm)", id="its name stands last"),
    ],
)
def test_status_looks_again_as_often_as_it_is_told(
    shell: Shell, words: list[str], seconds: int, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.drop("cron.daily/backup.slurm")
    waited: list[float] = []

    def wait(_: Console, seconds: float) -> None:
        waited.append(seconds)
        if len(waited) > 1:
            raise BrokenPipeError

    monkeypatch.setattr(Console, "wait", wait)
    assert shell("status", *words).out.count(shown) == 2
    assert waited == [seconds, seconds]


def test_an_error_is_not_wiped_away_with_what_stood_on_the_screen(shell: Shell) -> None:
    """A terminal's output waits for a flush, its errors do not."""
    screen = io.BytesIO()
    out, err = io.TextIOWrapper(io.BufferedWriter(screen)), io.TextIOWrapper(screen, write_through=True)
    cli.main(["status", "--watch", "backpu"], Console(NOW, shell.environ, out, err, is_terminal=True))
    out.flush()
    assert screen.getvalue().startswith(b"\x1b[H\x1b[2J")
    assert b"no entry called backpu" in screen.getvalue()


@pytest.mark.parametrize("pace", ["0", "-5"])
def test_status_is_not_looked_at_without_a_pause(shell: Shell, pace: str) -> None:
    assert shell("status", f"--watch={pace}").code == 2
