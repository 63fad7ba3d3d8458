"""A crontab becomes scripts that run what cron ran, when cron ran it; and every line of it is accounted for."""

from __future__ import annotations

import io
import json
import os
import subprocess  # noqa: TID251 - what the scripts do is tried with the shells that would run them
from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cronhpc.check.lint import lint_script
from cronhpc.core.policy import parse_policies
from cronhpc.cron.schedule import Schedule, parse
from cronhpc.importer.crontab import Crontab, split_percent, zone_of
from cronhpc.importer.script import MARK, Imported, name_of, named
from cronhpc.importer.table import Kind, Surroundings, Table
from cronhpc.script.header import read_header

DATA = Path(__file__).parents[1] / "data"
ALICE = Surroundings(user="alice")


def table_of(text: str, around: Surroundings = ALICE) -> Table:
    return Crontab.read(text.encode("utf-8", "surrogateescape"), around)


def imported(text: str, around: Surroundings = ALICE) -> tuple[Imported, ...]:
    return named(table_of(text, around), (), {})


def shown(row: Imported) -> str:
    """The script without the line that only marks it."""
    text = row.script.decode("utf-8", "surrogateescape")
    return "".join(line for line in text.splitlines(keepends=True) if not MARK.match(line.encode("utf-8", "replace")))


def schedule_of(script: bytes, zone: str = "UTC") -> Schedule:
    cron = read_header(script, "x.slurm").cron
    assert cron is not None
    policies, problems = parse_policies(cron.policies)
    assert problems == ()
    return parse(cron.schedule, ZoneInfo(policies.timezone or zone), hash_key="x")


# --- situations: one entry and its script ----------------------------------------------------------------------------

SH = "#!/bin/sh\n"
SITUATIONS: dict[str, tuple[str, str]] = {
    "a plain entry": ("0 4 * * * /home/alice/backup.sh", f"{SH}#CRON 0 4 * * *\n/home/alice/backup.sh\n"),
    "tabs and many blanks": ("\t0\t4  *  * *\t\tx  y", f"{SH}#CRON 0 4 * * *\nx  y\n"),
    "names and steps": ("*/30 8-18 * jan-jun mon-fri x", f"{SH}#CRON */30 8-18 * jan-jun mon-fri\nx\n"),
    "a macro": ("@daily x", f"{SH}#CRON @daily\nx\n"),
    "a step of one": ("*/1 * * * * x", f"{SH}#CRON */1 * * * *\nx\n"),
    "a weekend": ("0 0 * * sat-sun x", f"{SH}#CRON 0 0 * * sat-sun\nx\n"),
    "redirections are the shell's": ("0 4 * * * x >/dev/null 2>&1", f"{SH}#CRON 0 4 * * *\nx >/dev/null 2>&1\n"),
    "a comment is kept above": ("# nightly\n\n0 4 * * * x", f"{SH}# nightly\n#CRON 0 4 * * *\nx\n"),
    "several comments, an indented one": ("# a\n  # b\n0 4 * * * x", f"{SH}# a\n# b\n#CRON 0 4 * * *\nx\n"),
    "a comment that looks like a directive is none": (
        "#SBATCH --time=1\n#CRON @hourly\n#PBS -q x\n0 4 * * * x",
        f"{SH}# #SBATCH --time=1\n# #CRON @hourly\n# #PBS -q x\n#CRON 0 4 * * *\nx\n",
    ),
    "a shebang first is a comment": ("#!/bin/bash\n0 4 * * * x", f"{SH}# #!/bin/bash\n#CRON 0 4 * * *\nx\n"),
    "a # in a command is the shell's": ("0 4 * * * x # y", f"{SH}#CRON 0 4 * * *\nx # y\n"),
    "a command that is a comment": ("0 4 * * * #SBATCH x", f"{SH}#CRON 0 4 * * *\n: #SBATCH x\n"),
    "CRON_TZ": (
        "CRON_TZ=Europe/Paris\n0 4 * * * x",
        f"{SH}#CRON 0 4 * * * --timezone=Europe/Paris\nexport CRON_TZ=Europe/Paris\nx\n",
    ),
    "CRON_TZ with a colon": (
        "CRON_TZ=:Asia/Tokyo\n@daily x",
        f"{SH}#CRON @daily --timezone=Asia/Tokyo\nexport CRON_TZ=:Asia/Tokyo\nx\n",
    ),
    "TZ is the command's clock only": ("TZ=Asia/Tokyo\n@daily x", f"{SH}#CRON @daily\nexport TZ=Asia/Tokyo\nx\n"),
    "a variable": ("A=b\n0 4 * * * x $A", f"{SH}#CRON 0 4 * * *\nexport A=b\nx $A\n"),
    "blanks around =": ("  A \t=  b c  \n0 4 * * * x", f"{SH}#CRON 0 4 * * *\nexport A='b c'\nx\n"),
    "an empty value": ("A=\n0 4 * * * x", f"{SH}#CRON 0 4 * * *\nexport A=''\nx\n"),
    "quotes keep blanks": ("A=' b '\n0 4 * * * x", f"{SH}#CRON 0 4 * * *\nexport A=' b '\nx\n"),
    "a quoted name": ('"A" = "b"\n0 4 * * * x', f"{SH}#CRON 0 4 * * *\nexport A=b\nx\n"),
    "quotes within a value stay": (
        """A=b"c'd\n0 4 * * * x""",
        f"""{SH}#CRON 0 4 * * *\nexport A='b"c'"'"'d'\nx\n""",
    ),
    "nothing is expanded in a value": (
        "PATH=$HOME/bin:/bin\n0 4 * * * x",
        f"{SH}#CRON 0 4 * * *\nexport PATH='$HOME/bin:/bin'\nx\n",
    ),
    "no backslash is special in a value": ("A=b\\nc\n0 4 * * * x", f"{SH}#CRON 0 4 * * *\nexport A='b\\nc'\nx\n"),
    "a # behind a value is part of it": ("A=b # c\n0 4 * * * x", f"{SH}#CRON 0 4 * * *\nexport A='b # c'\nx\n"),
    "a variable set again": ("A=1\nB=2\nA=3\n0 4 * * * x", f"{SH}#CRON 0 4 * * *\nexport A=3\nexport B=2\nx\n"),
    "a variable below does not hold": ("0 4 * * * x\nA=b", f"{SH}#CRON 0 4 * * *\nx\n"),
    "an assignment in a command is the shell's": ("0 4 * * * A=b x", f"{SH}#CRON 0 4 * * *\nA=b x\n"),
    "SHELL": (
        "SHELL=/bin/bash\n0 4 * * * [[ -f x ]]",
        "#!/bin/bash\n#CRON 0 4 * * *\nexport SHELL=/bin/bash\n[[ -f x ]]\n",
    ),
    "a shell of another family gets the command": (
        "SHELL=/bin/tcsh\n0 4 * * * setenv A 'b'; x",
        f"{SH}#CRON 0 4 * * *\nexport SHELL=/bin/tcsh\nexec /bin/tcsh -c 'setenv A '\"'\"'b'\"'\"'; x'\n",
    ),
    "BASH_ENV is read by bash, as under cron": (
        "SHELL=/bin/bash\nBASH_ENV=~/.bashrc\n0 4 * * * x y",
        "#!/bin/bash\n#CRON 0 4 * * *\nexport SHELL=/bin/bash\nexport BASH_ENV='~/.bashrc'\nexec /bin/bash -c 'x y'\n",
    ),
    "BASH_ENV means nothing to sh": ("BASH_ENV=/x\n@daily x", f"{SH}#CRON @daily\nexport BASH_ENV=/x\nx\n"),
    "HOME is where it runs": ("HOME=/w\n@daily x", f'{SH}#CRON @daily\nexport HOME=/w\ncd "$HOME" || exit 1\nx\n'),
    "MAILTO is seen by the command": (
        "MAILTO=a@b.c\n@daily x | mail $MAILTO",
        f"{SH}#CRON @daily\nexport MAILTO=a@b.c\nx | mail $MAILTO\n",
    ),
    "LOGNAME and USER are cron's own": ("LOGNAME=bob\nUSER=bob\n@daily x", f"{SH}#CRON @daily\nx\n"),
    "% begins the input": ("@daily cat%a%b", f"{SH}#CRON @daily\nexec <<'END'\na\nb\nEND\ncat\n"),
    r"\% is a percent sign": (r"@daily date +\%F", f"{SH}#CRON @daily\ndate +%F\n"),
    r"\% in the input": (r"@daily cat%100\%%b", f"{SH}#CRON @daily\nexec <<'END'\n100%\nb\nEND\ncat\n"),
    "% at the end is no input": ("@daily cat%", f"{SH}#CRON @daily\ncat\n"),
    "%% is an empty line": ("@daily cat%%", f"{SH}#CRON @daily\nexec <<'END'\n\nEND\ncat\n"),
    "the input holds the word that would end it": (
        "@daily cat%END%$A",
        f"{SH}#CRON @daily\nexec <<'END_'\nEND\n$A\nEND_\ncat\n",
    ),
    "% in quotes is special all the same": (
        '@daily echo "a%b"',
        f"{SH}#CRON @daily\nexec <<'END'\nb\"\nEND\necho \"a\n",
    ),
    "cron's random minute": ("0~29 4 * * * x", f"{SH}#CRON H(0-29) 4 * * *\nx\n"),
    "cron's random, open": ("~ 4~ ~9 * * x", f"{SH}#CRON H H(4-23) H(1-9) * *\nx\n"),
    "Windows line ends": ("# a\r\nA=b\r\n@daily x\r\n", f"{SH}# a\n#CRON @daily\nexport A=b\nx\n"),
    "a byte order mark": ("\ufeff@daily x", f"{SH}#CRON @daily\nx\n"),
    "bytes that are no UTF-8": ("# \udce9\n@daily x \udce9", f"{SH}# \udce9\n#CRON @daily\nx \udce9\n"),
    "a line that wants no log entry": ("-0 4 * * * x", f"{SH}#CRON 0 4 * * *\nx\n"),
    "CRON_TZ set back": (
        "CRON_TZ=Asia/Tokyo\nCRON_TZ=\n@daily x",
        f"{SH}#CRON @daily\nexport CRON_TZ=''\nx\n",
    ),
    "CRON_TZ by its file": (
        "CRON_TZ=:/usr/share/zoneinfo/Asia/Tokyo\n@daily x",
        f"{SH}#CRON @daily --timezone=Asia/Tokyo\nexport CRON_TZ=:/usr/share/zoneinfo/Asia/Tokyo\nx\n",
    ),
    "a command in the background": ("@daily cd /x && nohup ./y &", f"{SH}#CRON @daily\ncd /x && nohup ./y & wait $!\n"),
    "two commands in the background": ("@daily x & y & # both", f"{SH}#CRON @daily\nx & y & wait # both\n"),
    "an & that is none": (
        "@daily x 2>&1 >&2 && y &>z || w |& v '&' \\& \"a & b\" $((3 & 1)) # & c",
        f"{SH}#CRON @daily\nx 2>&1 >&2 && y &>z || w |& v '&' \\& \"a & b\" $((3 & 1)) # & c\n",
    ),
    "a user's name as an option's value": ("@daily root -l", f"{SH}#CRON @daily\nroot -l\n"),
}


@pytest.mark.parametrize(("text", "script"), SITUATIONS.values(), ids=SITUATIONS.keys())
def test_an_entry_becomes_this_script(text: str, script: str) -> None:
    (row,) = imported(f"{text}\n")
    assert shown(row) == script


@pytest.mark.parametrize("text", [text for text, _ in SITUATIONS.values()], ids=SITUATIONS.keys())
def test_check_finds_no_error_in_an_imported_script(text: str) -> None:
    (row,) = imported(f"{text}\n")
    assert [str(each) for each in lint_script(row.path, row.script) if each.severity == "error"] == []


@pytest.mark.parametrize("text", [text for text, _ in SITUATIONS.values()], ids=SITUATIONS.keys())
def test_nothing_in_a_table_becomes_an_sbatch_option(text: str) -> None:
    (row,) = imported(f"{text}\n")
    header = read_header(row.script, "x.slurm")
    assert header.options == ()
    assert header.problems == ()


def test_a_variable_changed_in_between_holds_from_there_on() -> None:
    rows = imported("A=1\n0 1 * * * x\nA=2\nSHELL=/bin/bash\n0 2 * * * x\nCRON_TZ=Asia/Tokyo\n0 3 * * * x\n")
    assert [dict(row.job.variables)["A"] for row in rows] == ["1", "2", "2"]
    assert [row.script.split(b"\n")[0] for row in rows] == [b"#!/bin/sh", b"#!/bin/bash", b"#!/bin/bash"]
    assert [row.job.cron for row in rows] == ["0 1 * * *", "0 2 * * *", "0 3 * * * --timezone=Asia/Tokyo"]


def test_each_comment_goes_to_the_entry_below_it() -> None:
    rows = imported("# head\n\n# one\n0 1 * * * x\n# two\nA=1\n0 2 * * * y\n# tail\n")
    assert [row.job.comments for row in rows] == [("# head", "# one"), ("# two",)]


# --- what is reported ------------------------------------------------------------------------------------------------

# table: (line, words of the remark, whether a person has to look); each has one entry at most, and this is its number
REMARKS: dict[str, tuple[str, int, str, bool, int]] = {
    "@reboot": ("@reboot x\n", 1, "no meaning on a cluster", True, 0),
    "an unknown macro": ("@fika coffee\n", 1, '"@fika": is no schedule', True, 0),
    "a macro in capitals, which cron does not know": ("@Daily x\n", 1, "Write @daily", True, 0),
    "@every, which cron does not know": ("@every 5m x\n", 1, "@every", True, 0),
    "a range that runs backwards": ("0 22-4 * * * x\n", 1, "Write 22-23,0-4", True, 0),
    "a start with a step": ("5/15 * * * * x\n", 1, "Write 5-59/15 or */15", True, 0),
    "30 February": ("0 0 30 2 * x\n", 1, "never fires", True, 0),
    "a minute that is none": ("61 * * * * x\n", 1, "out of range", True, 0),
    "H, which is no cron": ("H H * * * x\n", 1, "cron has no H", True, 0),
    "six fields": ("0 0 4 * * * x\n", 1, "six fields", True, 0),
    "no command": ("0 4 * * *\n", 1, "no command", True, 0),
    "nothing before the %": ("0 4 * * * %x\n", 1, "no command before the %", True, 0),
    "prose": ("run the backup, please\n", 1, "neither a comment", True, 0),
    "a continued line": ("0 4 * * * x \\\n  --more\n", 2, "no continued lines", True, 1),
    "words behind a closed quote": ('A="b" c\n@daily x\n', 1, "follows the closed quote", True, 1),
    "a quote left open": ('A="b\n@daily x\n', 1, "one is open", True, 1),
    "a name that no shell exports": ("a.b=c\n@daily x\n", 1, "cannot pass on", True, 1),
    "a variable that is the shell's own": ("IFS=:\n@daily x\n", 1, "cannot pass on", True, 1),
    "RANDOM_DELAY": ("RANDOM_DELAY=30\n@daily x\n", 1, "RANDOM_DELAY=30", True, 1),
    "a user field": ("17 * * * * root cd / && x\n", 1, "--system", True, 0),
    "one's own name in front": ("17 * * * * alice /x\n", 1, "--system", True, 0),
    "a zone with rules of its own": ("CRON_TZ=CET-1CEST,M3.5.0,M10.5.0/3\n@daily x\n", 2, "no name", True, 0),
    "a zone that nobody knows is UTC to cron": ("CRON_TZ=Europe/Pari\n@daily x\n", 1, "it took UTC", True, 1),
    "an offset, whose sign POSIX turns round": ("CRON_TZ=UTC+3\n@daily x\n", 1, "3 h behind UTC to cron", False, 1),
    "a SHELL without a path": ("SHELL=bash\n@daily x\n", 2, "whole path", True, 0),
    "a SHELL with an option": ("SHELL=/bin/bash -l\n@daily x\n", 2, "whole path", True, 0),
    "#SCRON": ("#SCRON --time=5\n@daily x\n", 1, "cronhpc import scrontab", True, 1),
    "a NUL byte": ("@daily x\0y\n", 1, "NUL", True, 0),
    "MAILTO": ("MAILTO=a@b.c\n@daily x\n", 1, "alerts: {mail: a@b.c}", False, 1),
    "MAILTO to nobody": ('MAILTO=""\n@daily x\n', 1, "mailed nothing", False, 1),
    "MAILFROM": ("MAILFROM=a@b.c\n@daily x\n", 1, "cron's mail", False, 1),
    "TZ": ("TZ=Asia/Tokyo\n@daily x\n", 1, "not the schedule's", False, 1),
    "HOME": ("HOME=/w\n@daily x\n", 1, "HOME=/w", False, 1),
    "BASH_ENV": ("BASH_ENV=/x\n@daily x\n", 1, "BASH_ENV", False, 1),
    "LOGNAME": ("LOGNAME=bob\n@daily x\n", 1, "cron sets it itself", False, 1),
    "a $ in a value": ("A=$B\n@daily x\n", 1, "expands nothing", False, 1),
    "a comment behind a value": ("A=b # c\n@daily x\n", 1, "no comments behind a value", False, 1),
    "cron's random": ("0~9 4 * * * x\n", 1, "H(0-9) 4 * * *", False, 1),
    "a command that submits": ("@daily sbatch -p cpu job.sh\n", 1, "put that script into cron.d/", False, 1),
    "Windows line ends": ("@daily x\r\n", 1, "Windows line ends", False, 1),
    "no line end at the end": ("@daily x", 1, "no line end", False, 1),
    "a comment at the end": ("@daily x\n# y\n", 2, "no script holds them", False, 1),
    "a comment over what is not imported": ("# y\n@reboot x\n", 1, "no script holds them", False, 0),
    "a dash in front": ("-@daily x\n", 1, "left out", False, 1),
    "@every, and what it is here": ("@every 5m x\n", 1, "#CRON @every 5m", True, 0),
    "a number for a command": ("0 4 * * 1 1 x\n", 1, "six fields", True, 0),
    "a sixth field with a step": ("0 0 4 * * 1-5/2 x\n", 1, "six fields", True, 0),
    "a line of anacrontab": ("1 5 cron.daily nice run-parts /x\n", 1, "anacrontab", True, 0),
    "a line of anacrontab whose delay is no hour": ("7 45 weekly run-parts /x\n", 1, "anacrontab", True, 0),
    "a line of anacrontab by name": ("@monthly 45 cron.monthly run-parts /x\n", 1, "a number for a command", True, 0),
    "a random range that runs backwards": ("5~1 * * * * x\n", 1, '"5~1": a random value lies within 0-59', True, 0),
    "a backslash at the end": ("@daily x \\\n\n", 1, "ends with a backslash", True, 1),
    "old Mac line ends": ("@daily x\r@hourly y\n", 1, "carriage return", True, 1),
    "a command in the background": ("@daily x &\n", 1, "the script waits", False, 1),
    "something in the background before the end": ("@daily x & y\n", 1, "ends with the job", True, 1),
    "something in the background of a subshell": ("@daily (x &)\n", 1, "ends with the job", True, 1),
    "a background job of another shell": ("SHELL=/bin/tcsh\n@daily x &\n", 2, "ends with the job", True, 1),
    "a % in quotes": ('0 3 * * * echo "$(date "+%H:%M")" >>l\n', 1, r"Was \% meant?", True, 1),
    "a % of date's": ("0 3 * * * tar cf /b/$(date +%F).tar /d\n", 1, r"Was \% meant?", True, 1),
    "four fields": ("0 3 * * /usr/bin/x --y\n", 1, "four fields of time before the command: the day of week", True, 0),
    "three fields": ("0 3 * x\n", 1, "three fields of time", True, 0),
    "the last weekday, which is no anacrontab": ("0 0 LW * * x\n", 1, "cron has no L (last day)", True, 0),
    "placeholders for times": ("<minute> <hour> * * * x\n", 1, "<minute> stands for something", True, 0),
    "a placeholder with blanks": ("0 3 * * * <your command>\n", 1, "<your command> stands for", True, 0),
    "a template's braces": ("{{ minute }} 3 * * * x\n", 1, "never filled in", True, 0),
    "Quartz": ("0 0 12 ? * 2-6 x\n", 1, "write 0 12 * * mon-fri.", True, 0),
    "a zone in front": ("CRON_TZ=Europe/Paris 0 3 * * * x\n", 1, "on a line of its own above", True, 0),
    "a command's zone in front": ("TZ=UTC @daily x\n", 1, "on a line of its own above", True, 0),
    "a zone behind": ("0 3 * * * Europe/Paris x\n", 1, "Write CRON_TZ=Europe/Paris", True, 0),
    "a step longer than its field": ("*/90 * * * * x\n", 1, "minute 0 of the hour", False, 1),
    "a command that submits to Grid Engine, or PBS": ("@daily qsub -q x job.sh\n", 1, "into cron.d/", False, 1),
    "a command that submits to LSF": ("@daily bsub -W 60 < job.sh\n", 1, "into cron.d/", False, 1),
    "an sbatch behind a cd": ("@daily cd /x && sbatch job.sh\n", 1, "put that script into cron.d/", False, 1),
    "an sbatch behind a profile": ("@daily . /etc/profile; sbatch x\n", 1, "put that script into cron.d/", False, 1),
    "an sbatch behind a wrapper's options": ("@daily nice -n 19 sbatch x\n", 1, "put that script into", False, 1),
    "an sbatch that was looked for first": ("@daily command -v sbatch && sbatch x\n", 1, "put that script", False, 1),
    "OpenBSD's flags": ("@daily -ns x\n", 1, "OpenBSD", False, 1),
    "a byte order mark": ("\ufeff@daily x\n", 1, "byte order mark", False, 1),
    "a zone by its file": ("CRON_TZ=/etc/localtime\n@daily x\n", 2, "no name", True, 0),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "words", "look", "entries"), REMARKS.values(), ids=REMARKS.keys())
def test_what_is_said_of_a_line(text: str, line: int, words: str, look: bool, entries: int) -> None:  # noqa: FBT001 - a column
    table = table_of(text)
    said = [each for each in table.remarks if words in str(each)]
    assert [(each.line, each.look) for each in said] == [(line, look)], table.remarks
    assert len(table.jobs) == entries


@pytest.mark.parametrize(
    "text",
    [
        "0 4 * * * x \\\n  --more\n",
        "0 3 * * /usr/bin/x --y\n",
        "CRON_TZ=Europe/Paris 0 3 * * * x\n",
        "<a> <b> <c> * * x\n",
        "0 3 * * * sh -c 'date +%F'\n",
    ],
)
def test_one_cause_is_one_remark(text: str) -> None:
    assert len(table_of(text).remarks) == 1


TWICE_WRONG = {
    "two fields": ("61 25 * * * x\n", ['minute "61"', 'hour "25"']),
    "a field and the command": ("61 3 * * * <your command>\n", ['minute "61"', "<your command> stands for"]),
    "a field and the zone": (
        "CRON_TZ=CET-1CEST,M3.5.0,M10.5.0/3\n61 3 * * * x\n",
        ['minute "61"', "is no name of a time"],
    ),
    "the fields are misread, and so is the command": ("0 0 12 ? * 2-6 x\n", ["write 0 12 * * mon-fri."]),
    "days that no month has are one fault": ("0 3 31 2 * x\n", ["day of month 31 is in no month"]),
}


@pytest.mark.parametrize(("text", "words"), TWICE_WRONG.values(), ids=TWICE_WRONG)
def test_all_that_is_wrong_with_a_line_is_told_at_once(text: str, words: list[str]) -> None:
    said = [str(each) for each in table_of(text).remarks if each.look]
    assert len(said) == len(words)
    assert all(word in each for word, each in zip(words, said, strict=True)), said


@pytest.mark.parametrize("command", ["mail -s x a%hello%you", "a 100% b", "cat%"])
def test_each_percent_that_ends_a_command_is_told(command: str) -> None:
    [said] = table_of(f"@daily {command}\n").remarks
    assert f"cron ends a command at a bare %: it ran {command.partition('%')[0]}" in said.what


@pytest.mark.parametrize("command", ["mail -s x a%hello%you", r"x \%F", "a 100% b", "cat%one%two"])
def test_a_percent_that_was_meant_needs_nobody(command: str) -> None:
    assert [each for each in table_of(f"@daily {command}\n").remarks if each.look] == []


def test_a_table_in_utf_16_is_read() -> None:
    table = Crontab.read("0 4 * * * x\n".encode("utf-16"), ALICE)
    assert [job.command for job in table.jobs] == ["x"]


def test_who_looks_for_sbatch_submits_nothing() -> None:
    assert table_of("@daily command -v sbatch >/dev/null || exit; /x/run.py\n").remarks == ()


def test_an_ordinary_table_needs_nobody() -> None:
    table = table_of("# nightly\nPATH=/usr/bin:/bin\n\n0 4 * * * backup.sh >/dev/null\n*/5 8-18 * * 1-5 poll\n")
    assert table.remarks == ()
    assert [each.kind for each in table.lines] == [Kind.COMMENT, Kind.VARIABLE, Kind.BLANK, Kind.ENTRY, Kind.ENTRY]
    assert [each.entry for each in table.lines] == [4, 0, 0, 4, 5]


def test_where_alerts_are_set_mailto_asks_for_none() -> None:
    (remark,) = table_of("MAILTO=a@b.c\n@daily x\n", Surroundings("alice", alerts=True)).remarks
    assert "cronhpc.yaml tell of failures" in remark.fix


@pytest.mark.parametrize("text", ["", "\n", " \n\t\n", "no crontab for alice\n"])
def test_an_empty_table_has_no_entry(text: str) -> None:
    table = table_of(text)
    assert (table.jobs, table.remarks) == ((), ())
    assert table.absent is text.startswith("no crontab")


# --- system crontabs -------------------------------------------------------------------------------------------------

SYSTEM = Surroundings(user="alice", system=True)


def test_a_system_crontabs_own_lines_are_imported_without_the_user() -> None:
    (row,) = imported("17 * * * *\talice   cd / && run-parts x\n", SYSTEM)
    assert row.job.command == "cd / && run-parts x"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("17 * * * * root x", "runs as root"),
        ("17 * * * * bob x", "Let bob import it"),
        ("17 * * * * alice", "no user and command"),
        ("17 * * * * alice\N{NO-BREAK SPACE}x", "no user and command"),
        ("17 * * * *", "no user and command"),
    ],
)
def test_other_users_lines_are_reported(line: str, words: str) -> None:
    table = table_of(f"{line}\n", SYSTEM)
    assert table.jobs == ()
    (remark,) = table.remarks
    assert words in str(remark)
    assert remark.look


def test_a_table_whose_every_line_names_a_user_is_no_users_own() -> None:
    table = table_of("0 4 * * * root /x/a\n0 5 * * * bob /x/b\nA=1\n@daily nginx cd /y && z\n")
    assert table.jobs == ()
    assert [each.line for each in table.remarks if "--system" in each.fix] == [1, 2, 4]


def test_a_program_that_is_called_like_a_user_is_a_program_in_ones_own_table() -> None:
    table = table_of("0 4 * * * mysql db </x/a\n0 5 * * * /x/b.sh\n")
    assert [job.command for job in table.jobs] == ["mysql db </x/a", "/x/b.sh"]
    assert table.remarks == ()


@pytest.mark.processes
def test_how_a_command_in_the_background_ended_is_how_the_job_ends(tmp_path: Path) -> None:
    (row,) = imported("@daily (exit 3) &\n")
    with pytest.raises(subprocess.CalledProcessError) as ended:
        run(row, tmp_path)
    assert ended.value.returncode == 3


# --- clocks ----------------------------------------------------------------------------------------------------------


def test_where_entries_would_run_by_another_clock_the_tables_is_written() -> None:
    rows = imported("@daily x\nCRON_TZ=Asia/Tokyo\n@daily y\n", Surroundings("alice", timezone="Europe/Paris"))
    assert [row.job.cron for row in rows] == ["@daily --timezone=Europe/Paris", "@daily --timezone=Asia/Tokyo"]


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("Europe/Paris", "Europe/Paris"),
        (":Europe/Paris", "Europe/Paris"),
        ("EST5EDT", "EST5EDT"),
        ("UTC+3", "Etc/GMT+3"),
        ("XYZ-11", "Etc/GMT-11"),
        ("<+03>-3", "Etc/GMT-3"),
        ("UTC0", "UTC"),
        ("", "UTC"),
        ("nowhere", "UTC"),
        ("../../etc/passwd", "UTC"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", None),
        ("XYZ-5:30", None),
        ("XYZ-99", None),
    ],
)
def test_the_zone_that_the_c_library_takes(text: str, zone: str | None) -> None:
    assert zone_of(text) == zone


def lines_of(name: str) -> list[Any]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def fires(schedule: Schedule, after: int) -> Iterator[int]:
    while True:
        after = schedule.next_epoch(after)
        yield after


@pytest.mark.thorough
def test_the_imported_schedule_fires_when_crons_did() -> None:
    for text, start, epochs in lines_of("cronie_utc.jsonl"):
        (row,) = imported(f"{text} x\n")
        assert list(islice(fires(schedule_of(row.script), start), len(epochs))) == epochs, text


@pytest.mark.thorough
def test_it_does_so_in_the_nights_when_clocks_change() -> None:
    for zone, _, text, start, end, epochs in lines_of("cronie_dst.jsonl"):
        (row,) = imported(f"CRON_TZ={zone}\n{text} x\n")
        found = []
        for slot in fires(schedule_of(row.script), start):
            if slot > end:
                break
            found.append(slot)
        assert found == [epoch for epoch, _ in groupby(epochs)], (zone, text)


def test_what_cron_refuses_or_never_runs_is_reported_and_all_else_imported() -> None:
    for text, verdict in lines_of("cronie_syntax.jsonl"):
        if len(text.split()) > 5:  # here a sixth word is the command
            continue
        table = table_of(f"{text} x\n")
        assert len(table.jobs) == (verdict == "accepted"), text
        assert any(each.look for each in table.remarks) == (verdict != "accepted"), text


# --- what the scripts do ---------------------------------------------------------------------------------------------


def run(row: Imported, folder: Path) -> str:
    """What the script prints, with an environment as bare as cron's."""
    path = folder / "script"
    path.write_bytes(row.script)
    path.chmod(0o700)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "LC_ALL": "C"}
    done = subprocess.run(
        [path],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=10,
        check=True,
    )
    return done.stdout


RUN = {
    "input reaches the first command of a list": ("@daily cat; echo z%a%b", "a\nb\nz\n"),
    "input reaches the front of a pipe": ("@daily cat | tr a-z A-Z%a b", "A B\n"),
    "nothing of the input is expanded": ("@daily cat%$HOME `date` \\x", "$HOME `date` \\x\n"),
    "a percent sign for printf": (r"@daily printf '\%s-' a b", "a-b-"),
    "a value is what it was": ('A=\'$B "c" \'\n@daily echo "[$A]"', '[$B "c" ]\n'),
    "an apostrophe in a value": ("A=don't\n@daily echo $A", "don't\n"),
    "bash where the table says so": ("SHELL=/bin/bash\n@daily echo ${BASH_VERSION:+bash}", "bash\n"),
    "HOME is where it runs": ("HOME=/usr\n@daily pwd; echo ~", "/usr\n/usr\n"),
    "the command's own quotes": ("@daily echo \"it's\" 'a  b'", "it's a  b\n"),
    "a command that is a comment": ("@daily # nothing", ""),
    "a command in the background comes to its end": ("@daily (sleep 0.2; echo done) &", "done\n"),
}


@pytest.mark.processes
@pytest.mark.parametrize(("text", "out"), RUN.values(), ids=RUN.keys())
def test_a_script_does_what_cron_did(text: str, out: str, tmp_path: Path) -> None:
    (row,) = imported(f"{text}\n")
    assert run(row, tmp_path) == out


@pytest.mark.processes
def test_bash_reads_bash_env_before_the_command(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("greet() { echo hello $1; }\n")
    (row,) = imported("SHELL=/bin/bash\nBASH_ENV=~/env\n@daily greet you\n")
    assert run(row, tmp_path) == "hello you\n"


@given(st.text(st.sampled_from(["%", "\\", "a", " "]), max_size=12))
@example(r"a\\%b\%c%d\\%e")
def test_percent_signs_divide_as_cron_divides_them(text: str) -> None:
    command, stdin = split_percent(text)
    parts = text.replace("\\%", "\0").split("%") if "\\\\" not in text else None
    if parts is not None:
        assert command == parts[0].replace("\0", "%")
        given_to_it = "\n".join(parts[1:]).replace("\0", "%")
        assert stdin == (given_to_it if not given_to_it or given_to_it.endswith("\n") else f"{given_to_it}\n")
    assert not stdin or stdin.endswith("\n")
    assert command.count("%") <= text.count("\\%")


# --- any text at all -------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    (*"04* \t\n#=A'\"%\\-\0é\r\udcff", "*/5", "@daily", "@x", "CRON_TZ", "0 4 * * * x\n", "SHELL=/bin/bash\n", "# c\n")
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_every_line_is_accounted_for_whatever_is_in_it(text: str) -> None:
    table = table_of(text)
    assert [each.number for each in table.lines] == list(range(1, len(table.lines) + 1))
    reported = {each.number for each in table.lines if each.kind is Kind.REPORTED}
    assert reported <= {each.line for each in table.remarks if each.look}
    assert {each.number for each in table.lines if each.kind is Kind.ENTRY} == {job.line for job in table.jobs}
    for row in named(table, (), {}):
        header = read_header(row.script, "x.slurm")
        assert (header.problems, header.options) == ((), ())
        assert header.cron is not None
        assert header.cron.schedule == row.job.schedule


# --- names -----------------------------------------------------------------------------------------------------------

NAMES = {
    "/home/alice/bin/backup.sh --all": "backup",
    "backup": "backup",
    "./sync.py": "sync",
    "/usr/bin/rsync -a x y": "rsync",
    "cd /data && ./run.sh": "run",
    "cd /data; python3 train.py --x": "train",
    "python -m hello": "hello",
    "/usr/bin/python3.11 -u /x/poll.py": "poll",
    "bash -lc 'cd /x && ./nightly.sh'": "nightly",
    "sh /x/y.sh": "y",
    "A=b C=d /x/y.sh": "y",
    "env A=b /x/y.sh": "y",
    "nice -n 19 ionice -c3 /x/y.sh": "y",
    "timeout 3600 /x/y.sh": "y",
    "timeout -k 5 3600 /x/y.sh": "y",
    "flock -n /tmp/lock /x/y.sh": "y",
    "test -x /x/y && /x/y": "y",
    "[ -f /x ] && y.sh": "y",
    ". ~/.profile; y.sh": "y",
    "source /x/env.sh && y": "y",
    "sleep 30; y": "y",
    "( cd /x; ./y.sh )": "y",
    "sbatch -p cpu /x/train.slurm": "train",
    "command -v rclone && backup.sh": "backup",
    "qsub -l h_rt=60 -N x /x/train.sh": "train",
    "bsub -W 60 < /x/train.lsf": "train",
    "Rscript /x/plot.R": "plot",
    "module load gcc; make -C /x": "make",
    "/x/my job.sh": "my",
    "'/x/my job.sh'": "my-job",
    "~/bin/été.sh": "t",
    "/x/.hidden.sh": "hidden",
    "all": "job-all",
    "/x/4711": "job-4711",
    "cd /x": "job",
    "cd /x || exit 1 && run.sh": "run",
    "if [ -e a ]; then two.sh; fi": "two",
    "if ! pgrep foo; then start-foo; fi": "start-foo",
    "for f in *.csv; do process.py $f; done": "process",
    "while true; do poll.sh; sleep 5; done": "poll",
    "case $X in a) seven.sh;; esac": "seven",
    "false || three.sh": "three",
    "echo start; four.sh": "four",
    "date; printf x; five.sh": "five",
    'flock -n /tmp/lock -c "backup.sh --all"': "backup",
    "sleep $((RANDOM % 60)); jitter.sh": "jitter",
    "test $(date +%d -d tomorrow) -eq 1 && monthly.sh": "monthly",
    '[[ $(date -d "$(date +%F) +1 day" +%d) -eq 1 ]] && monthly.sh': "monthly",
    "case `hostname -s` in login1) one.sh;; esac": "one",
    "ps aux | grep -q daemon || keep-alive.sh": "keep-alive",
    "setlock -n /tmp/l locked.sh": "locked",
    "mkdir /tmp/lock && { guarded.sh; rmdir /tmp/lock; }": "guarded",
    ">/dev/null 2>&1 quiet.sh": "quiet",
    "conda run -n x python train.py": "train",
    "awk '$1 > 3' list": "awk",
    "echo hello": "echo",
    "exit 0": "job",
    "'": "job",
    "": "job",
    "x" * 200: "x" * 60,
}


@pytest.mark.parametrize(("command", "name"), NAMES.items())
def test_an_entry_is_named_after_its_program(command: str, name: str) -> None:
    assert name_of(command) == name


def test_names_are_unique_and_never_an_existing_entrys() -> None:
    rows = named(table_of("0 1 * * * backup\n0 2 * * * /x/backup.sh\n0 3 * * * Backup\n"), {"backup", "backup-3"}, {})
    assert [row.path for row in rows] == ["cron.d/backup-2.slurm", "cron.d/backup-4.slurm", "cron.d/Backup-5.slurm"]


def mark_of(row: Imported) -> str:
    """What its script carries."""
    found = MARK.search(row.script)
    assert found is not None
    return found[1].decode()


def test_the_same_table_again_is_there_already() -> None:
    table = table_of("# a\n0 1 * * * x\n0 1 * * * x\nA=b\n0 2 * * * y\n")
    first = named(table, (), {})
    marks = {mark_of(row): f"cron.daily/{row.name}.slurm" for row in first}
    assert len(marks) == 3
    moved = table_of(
        "# b\n\n0 1 * * * x\n0 1 * * * x\nA=b\n\n0 2 * * * y\n0 3 * * * x\n", Surroundings("alice", "Asia/Tokyo")
    )
    again = named(moved, {row.name for row in first}, marks)
    assert [row.existing for row in again] == ["cron.daily/x.slurm", "cron.daily/x-2.slurm", "cron.daily/y.slurm", ""]
    assert [row.name for row in again] == ["x", "x-2", "y", "x-3"]


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def cron(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from cronhpc.engine.init import init

    for name in ("WORK", "CRONHPC_DIR", "TZ"):
        monkeypatch.delenv(name, raising=False)
    init(tmp_path / "cron", {"backend": "local"})
    return tmp_path / "cron"


def command(cron: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    from cronhpc.cli import main

    code = main(["import", *words, "--dir", str(cron)])
    said = capsys.readouterr()
    return code, said.out + said.err


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def table_file(cron: Path, text: str) -> str:
    path = cron.parent / "table"
    path.write_text(text)
    return str(path)


def test_import_writes_scripts_that_are_ones_own(cron: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = table_file(cron, "0 4 * * * /x/backup.sh\n")
    code, said = command(cron, capsys, "crontab", source)
    path = cron / "cron.d" / "backup.slurm"
    assert code == 0
    assert b"\n/x/backup.sh\n" in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o700
    assert f"undo: rm {path}" in said
    assert "still runs" in said
    assert Path(source).read_text() == "0 4 * * * /x/backup.sh\n"
    assert names(cron / "cron.d") == ["backup.slurm"]


def test_import_twice_writes_once_even_after_an_edit(cron: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = table_file(cron, "0 4 * * * /x/backup.sh\n")
    command(cron, capsys, "crontab", source)
    path = cron / "cron.d" / "backup.slurm"
    path.write_bytes(path.read_bytes() + b"# mine\n")
    code, said = command(cron, capsys, "crontab", source)
    assert code == 0
    assert "already there: backup (cron.d/backup.slurm)" in said
    assert path.read_bytes().endswith(b"# mine\n")
    assert names(cron / "cron.d") == ["backup.slurm"]


@pytest.mark.parametrize("where", ["cron.daily/backup.slurm", "cron.d/backup.slurm", "cron.d/backup"])
def test_an_existing_entry_is_left_alone(cron: Path, capsys: pytest.CaptureFixture[str], where: str) -> None:
    (cron / where).write_text("#!/bin/sh\nmine\n")
    command(cron, capsys, "crontab", table_file(cron, "0 4 * * * /x/backup.sh\n"))
    assert (cron / where).read_text() == "#!/bin/sh\nmine\n"
    assert (cron / "cron.d" / "backup-2.slurm").exists()


def test_a_row_of_the_settings_has_its_name(cron: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (cron / "cronhpc.yaml").write_text("entries:\n  backup: {schedule: '@daily', command: x}\n")
    command(cron, capsys, "crontab", table_file(cron, "0 4 * * * /x/backup.sh\n"))
    assert (cron / "cron.d" / "backup-2.slurm").exists()


def test_a_dry_run_shows_the_files_and_writes_none(cron: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = command(cron, capsys, "crontab", table_file(cron, "0 4 * * * /x/backup.sh\n"), "--dry-run")
    assert code == 0
    assert "--- cron.d/backup.slurm\n#!/bin/sh\n#CRON 0 4 * * *\n" in said
    assert names(cron / "cron.d") == []


def test_a_dry_run_needs_no_cron_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = table_file(tmp_path / "none", "0 4 * * * /x/backup.sh\n")
    code, said = command(tmp_path / "none", capsys, "crontab", source, "--dry-run")
    assert (code, "#CRON 0 4 * * *" in said) == (0, True)
    code, said = command(tmp_path / "none", capsys, "crontab", source)
    assert (code, "cronhpc init" in said) == (2, True)


def test_what_needs_a_person_is_exit_code_1(cron: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = command(cron, capsys, "crontab", table_file(cron, "@reboot x\n0 4 * * * y\n"))
    assert code == 1
    assert 'needs a person\n  line 1: "@reboot"' in said
    assert (cron / "cron.d" / "y.slurm").exists()


@pytest.mark.parametrize(
    ("text", "words"), [("", "the input is empty"), ("no crontab for alice\n", "there is no crontab"), ("# x\n", "")]
)
def test_a_table_without_entries_is_fine(cron: Path, capsys: pytest.CaptureFixture[str], text: str, words: str) -> None:
    code, said = command(cron, capsys, "crontab", table_file(cron, text))
    assert code == 0
    assert words in said
    assert names(cron / "cron.d") == []


def test_json_has_the_same_facts(cron: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, said = command(cron, capsys, "crontab", table_file(cron, "# c\n@reboot x\n0 4 * * * y\n"), "--json")
    facts = json.loads(said)
    assert [(e["name"], e["path"], e["line"], e["cron"], e["state"]) for e in facts["entries"]] == [
        ("y", "cron.d/y.slurm", 3, "0 4 * * *", "written")
    ]
    assert [each["kind"] for each in facts["lines"]] == ["comment", "reported", "entry"]
    assert [each["line"] for each in facts["remarks"] if each["look"]] == [2]


def test_a_table_may_come_through_a_pipe(
    cron: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"0 4 * * * echo \xe9\n"), encoding="ascii"))
    assert command(cron, capsys, "crontab", "-")[0] == 0
    assert (cron / "cron.d" / "echo.slurm").read_bytes().endswith(b"\necho \xe9\n")


def test_a_script_that_cannot_be_read_keeps_its_name(cron: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(cron / "cron.d" / "y.slurm")
    command(cron, capsys, "crontab", table_file(cron, "0 4 * * * y\n"))
    assert names(cron / "cron.d") == ["y-2.slurm", "y.slurm"]


def test_a_dry_run_as_json_holds_the_scripts(cron: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, said = command(cron, capsys, "crontab", table_file(cron, "0 4 * * * y\n"), "--dry-run", "--json")
    (entry,) = json.loads(said)["entries"]
    assert entry["state"] == "planned"
    assert entry["script"].startswith("#!/bin/sh\n#CRON 0 4 * * *\n")


def test_a_file_that_is_not_there_is_said(cron: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = command(cron, capsys, "crontab", str(cron / "nowhere"))
    assert code == 2
    assert "nowhere cannot be read: No such file or directory" in said


def test_a_zone_of_the_settings_does_not_move_the_table(
    cron: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cronhpc.engine.site.machine_zone_key", lambda: "Europe/Paris")
    (cron / "cronhpc.yaml").write_text("timezone: Asia/Tokyo\n")
    command(cron, capsys, "crontab", table_file(cron, "0 4 * * * y\n"))
    assert b"#CRON 0 4 * * * --timezone=Europe/Paris\n" in (cron / "cron.d" / "y.slurm").read_bytes()


def test_the_tables_clock_may_be_named(cron: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = table_file(cron, "0 4 * * * y\n")
    assert command(cron, capsys, "crontab", source, "--timezone", "Europe/Pari")[0] == 2
    command(cron, capsys, "crontab", source, "--timezone", "Asia/Tokyo")
    assert b"#CRON 0 4 * * * --timezone=Asia/Tokyo\n" in (cron / "cron.d" / "y.slurm").read_bytes()
