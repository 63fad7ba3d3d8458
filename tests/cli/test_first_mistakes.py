"""What a new user gets wrong in the first week: each answer names the thing, where it is, and what to type or edit.

Commands run in this process, on the local backend. What only a real Slurm can tell (a partition that is not there) is
in tests/check and tests/lab.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.cli.test_cli import Shell, later
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture


class Mistake(NamedTuple):
    """What was typed, what lay there before, and what the answer has to name."""

    typed: str
    words: tuple[str, ...]
    code: int | None = 0  # None: it is another before the job has begun
    files: tuple[tuple[str, str], ...] = ()  # path in the cron directory, text
    before: tuple[str, ...] = ()  # commands


def of_script(text: str, *words: str, code: int = 0, place: str = "cron.daily/backup.slurm") -> Mistake:
    """`check`, of one script."""
    return Mistake("check", words, code, ((place, text),))


def of_settings(text: str, *words: str, code: int = 0) -> Mistake:
    """`check`, with a line more in cronhpc.yaml."""
    return Mistake("check", words, code, (("cronhpc.yaml", f"backend: local\n{text}\n"),))


BASH = "#!/bin/bash\n"
BACKUP = (("cron.daily/backup.slurm", f"{BASH}echo hello\n"),)
SLEEPS = (("cron.daily/long.slurm", f"{BASH}sleep 60\n"),)

MISTAKES = {
    # --- where a script lies
    "a folder's name has a slip": Mistake(
        "check", ("cron.dayly/", "its 1 script never runs", "cron.daily/"), 0, (("cron.dayly/a.slurm", BASH),)
    ),
    "a folder's name has a capital": Mistake(
        "check", ("Cron.daily/", "never runs", "cron.daily/"), 0, (("Cron.daily/a.slurm", BASH),)
    ),
    "a folder that crontab's users expect": Mistake(
        "check", ("cron.minutely/", "never runs"), 0, (("cron.minutely/a.slurm", BASH),)
    ),
    "a script lies beside the folders": Mistake(
        "check", ("stray.slurm", "never runs", "cron.daily/"), 0, (("stray.slurm", BASH),)
    ),
    "a script has another suffix": Mistake(
        "check",
        ("cron.daily/a.sh", "not a .slurm file", "a.slurm"),
        0,
        (("cron.daily/a.sh", f"{BASH}#SBATCH --time=5\n"),),
    ),
    "a script has another batch system's suffix": Mistake(
        "check",
        ("cron.daily/a.lsf", "not a .slurm file", "cron.daily/a.slurm"),
        0,
        (("cron.daily/a.lsf", f"{BASH}#BSUB -W 5\n"),),
    ),
    "a script begins with a dot": Mistake(
        "check", ("cron.daily/.a.slurm", "hidden", "mv -n"), 0, (("cron.daily/.a.slurm", BASH),)
    ),
    "two scripts have one name": Mistake(
        "check",
        ("cron.weekly/backup.slurm", "cron.daily/backup.slurm"),
        1,
        (*BACKUP, ("cron.weekly/backup.slurm", f"{BASH}echo hello\n")),
    ),
    # --- when it runs
    "a script in cron.d without a schedule": of_script(
        BASH, "cron.d/a.slurm", "there is no #CRON line", "#CRON 30 4 * * *", code=1, place="cron.d/a.slurm"
    ),
    "a whole line of a crontab": of_script(
        f"{BASH}#CRON 0 5 * * * rsync -a --delete /a 'b c'\n",
        "a.slurm:2",
        "a whole line of a crontab",
        'Write "#CRON 0 5 * * *"',
        "below its options: rsync -a --delete /a 'b c'",
        code=1,
        place="cron.d/a.slurm",
    ),
    "a minute that no hour has": of_script(
        f"{BASH}#CRON 61 * * * *\n", "a.slurm:2", 'minute "61"', "Write 0-59", code=1, place="cron.d/a.slurm"
    ),
    "a schedule of four fields": of_script(
        f"{BASH}#CRON 5 * * *\n", "a.slurm:2", "4 fields only", "write 5 * * * *", code=1, place="cron.d/a.slurm"
    ),
    "a word that crontab does not have": of_script(
        f"{BASH}#CRON @dayly\n", "a.slurm:2", "@dayly", "@daily", code=1, place="cron.d/a.slurm"
    ),
    "a zone with a slip": of_script(
        f"{BASH}#CRON @daily --timezone=Europe/Pari\n", "a.slurm:2", "Europe/Paris", code=1, place="cron.d/a.slurm"
    ),
    "a policy with a slip": of_script(
        f"{BASH}#CRON @daily --overlpa=skip\n", "a.slurm:2", "--overlpa", "overlap", code=1, place="cron.d/a.slurm"
    ),
    "#SCRON, as scrontab has it": of_script(
        f"{BASH}#SCRON --time=5\n", "a.slurm:2", "#SCRON", "#SBATCH", code=1, place="cron.daily/a.slurm"
    ),
    "a schedule below the first command": of_script(
        f"{BASH}echo\n#CRON 5 * * * *\n",
        "a.slurm:3",
        "after the first command (line 2)",
        "Move it up",
        place="cron.daily/a.slurm",
    ),
    "a schedule in place of a name": Mistake("next '61 * * * *'", ("cronhpc next --schedule '61 * * * *'",), 2),
    # --- the script itself
    "an option below the first command": of_script(
        f"{BASH}echo\n#SBATCH --time=5\n", "backup.slurm:3", "sbatch does not read it", "Move it above line 2"
    ),
    "an option with a slip": of_script(
        f"{BASH}#SBATCH --tiem=5\n", "backup.slurm:2", "no option --tiem", "Did you mean --time?", code=1
    ),
    "a script that bash cannot read": of_script(
        f"{BASH}if true; then echo\n", "backup.slurm", "syntax error", "bash -n", code=1
    ),
    "an interpreter with a slip": of_script(
        "#!/usr/bin/env pyhton3\nprint(1)\n", "backup.slurm:1", "pyhton3", "Did you mean python3?"
    ),
    "no first line": of_script("echo hi\n", "backup.slurm:1", "#!", 'Make the first line "#!/bin/bash"', code=1),
    "line ends of Windows": of_script(
        "#!/bin/bash\r\necho hi\r\n", "backup.slurm:1", "Windows line ends", "dos2unix", code=1
    ),
    "minus signs of a word processor": of_script(
        f"{BASH}#SBATCH \u2013-time=5\n", "backup.slurm:2", "--time=5", code=1
    ),
    "a script that submits itself": of_script(
        f"{BASH}sbatch $0\n", "backup.slurm:2", "submits itself", "cronhpc again"
    ),
    # --- the settings
    "an alert's command that is not there": of_settings(
        "alerts: {command: /nope/notify}", "alerts.command", "/nope/notify", "Correct the path"
    ),
    "a key with a slip": of_settings("tiemzone: UTC", "cronhpc.yaml:2", "tiemzone", "Did you mean timezone?", code=2),
    "a value of another kind": of_settings("scheduler: {interval: often}", "cronhpc.yaml:2", "interval", "1h", code=2),
    # --- the command line
    "a command with a slip": Mistake("statsu", ("no command statsu", "cronhpc status"), 2),
    "scancel's word": Mistake("cancel long", ("no command cancel", "cronhpc kill"), 2),
    "the shell's word": Mistake("ls", ("no command ls", "cronhpc list"), 2),
    "help as a command": Mistake("help", ("cronhpc --help",), 2),
    "a name with a slip, to be run": Mistake("run bakcup", ("bakcup", "Did you mean backup?"), 2, BACKUP),
    "a name with a slip, to be shown": Mistake("show bakcup", ("bakcup", "Did you mean backup?"), 2, BACKUP),
    "a name with a slip, of logs": Mistake("logs bakcup", ("bakcup", "Did you mean backup?"), 2, BACKUP),
    "a name with a slip, of next": Mistake("next bakcup", ("bakcup", "Did you mean backup?"), 2, BACKUP),
    "a ready-made job with a slip": Mistake("add backpu", ("backpu", "Did you mean backup?"), 2),
    "start with a name": Mistake(
        "start backup", ("start takes no name", "cronhpc run backup", "cronhpc resume backup"), 2, BACKUP
    ),
    "stop with a name": Mistake(
        "stop backup", ("stop takes no name", "cronhpc kill backup", "cronhpc pause backup"), 2, BACKUP
    ),
    "init with a folder": Mistake("init mycron", ("init takes no name", "cronhpc init --dir mycron"), 2),
    "a variable for --dir that is not set": Mistake("init --dir=", ("--dir is empty", "leave the option out"), 2),
    "and for a command that needs one": Mistake("status --dir=", ("--dir is empty",), 2),
    "a variable for a page's file that is not set": Mistake("page --out ''", ("is empty",), 2),
    "a variable for a ready-made job that is not set": Mistake("add ''", ("is empty",), 2),
    "a variable for a crontab's file that is not set": Mistake("import crontab ''", ("is empty",), 2),
    "a result with a slip": Mistake("history --state faild", ("faild", "failed"), 2),
    "a page in a folder that is not there": Mistake("page --out {home}/x/p.html", ("mkdir -p {home}/x",), 2),
    "an entry to be removed, and nobody to ask": Mistake(
        "rm backup", ("nobody is there to be asked", "--yes"), 2, BACKUP
    ),
    # --- switches
    "a name with a slip, to be killed": Mistake(
        "kill bakcup", ("bakcup", "nearest: backup", "Nothing was set", "cronhpc kill --anyway bakcup"), 2, BACKUP
    ),
    "all in small letters": Mistake("kill all", ("nothing is called all", "nearest: ALL"), 2, BACKUP),
    "kill without a name": Mistake("kill", ("write which", "backup", "ALL"), 2, BACKUP),
    "kill where nobody is at work": Mistake(
        "kill backup", ("nobody will act on later jobs: cronhpc start", "undo: cronhpc unkill backup"), 0, BACKUP
    ),
    "a run of what is killed": Mistake(
        "run backup", ("was not submitted", "kill/backup", "cronhpc status backup"), 1, BACKUP, ("kill backup",)
    ),
    "resume of what is killed": Mistake(
        "resume backup", ("killed, not paused", "cronhpc unkill backup"), 1, BACKUP, ("kill backup",)
    ),
    "unkill of what is paused": Mistake(
        "unkill backup", ("paused, not killed", "cronhpc resume backup"), 1, BACKUP, ("pause backup",)
    ),
    "unkill of what nobody killed": Mistake("unkill 27", ("no kill switch 27 stands", "cronhpc status"), 1),
    "a switch that has ended before it begins": Mistake(
        "kill backup --expires 2020-01-01", ("not in the future", "Write a later time"), 2, BACKUP
    ),
    # --- runs and logs
    "status before the start": Mistake("status", ("not started", "cronhpc start", "cronhpc run backup"), 1, BACKUP),
    "a second run beside the first": Mistake(
        "run long", ("runs already: job 1", "cronhpc run --again long"), 1, SLEEPS, ("run long",)
    ),
    "logs right after run": Mistake("logs long", ("job 1", "printed nothing yet"), None, SLEEPS, ("run long",)),
    "logs before the first run": Mistake("logs backup", ("has no log yet", "cronhpc run backup"), 1, BACKUP),
    "logs of nobody's job": Mistake("logs 9999", ("No run here was job 9999", "cronhpc history"), 2),
    "rerun of what never ran": Mistake("rerun backup", ("no run of it has ended yet",), 1, BACKUP),
}


@pytest.fixture
def runs_end(shell: Shell) -> Iterator[None]:
    """What a row has started does not outlive it."""
    yield
    shell("kill", "ALL", now=later())


@pytest.mark.usefixtures("runs_end")
@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_first_mistake_is_named_with_its_place_and_fix(shell: Shell, mistake: Mistake) -> None:
    for place, text in mistake.files:
        path = shell.cron / place
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    for each in mistake.before:
        assert shell(*each.split(), now=later()).code == 0, each
    said = shell(*shlex.split(mistake.typed.format(home=shell.home)), now=later())
    told = " ".join((said.out + said.err).split())
    missing = [word for word in mistake.words if word.format(home=shell.home) not in told]
    assert not missing, told
    assert mistake.code in {None, said.code}, told


def test_there_are_as_many_as_a_week_has() -> None:
    assert len(MISTAKES) >= 45
