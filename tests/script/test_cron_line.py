"""The `#CRON` line."""

from __future__ import annotations

import pytest

from cronhpc.script.header import Header, read_header


def header(text: str) -> Header:
    return read_header(f"#!/bin/bash\n{text}\ntrue\n".encode(), "backup.slurm")


MEANT: dict[str, tuple[str, str, list[tuple[str, str | None]]]] = {
    "a crontab line's five fields": ("#CRON */30 8-18 * * mon-fri", "*/30 8-18 * * mon-fri", []),
    "policies after the schedule": (
        "#CRON */30 8-18 * * mon-fri --timezone=Europe/Paris --overlap=skip --retries=2",
        "*/30 8-18 * * mon-fri",
        [("timezone", "Europe/Paris"), ("overlap", "skip"), ("retries", "2")],
    ),
    "a policy's value after a blank": (
        "#CRON @daily --retries 2 --record",
        "@daily",
        [("retries", "2"), ("record", None)],
    ),
    "a name": ("#CRON @hourly", "@hourly", []),
    "an interval": ("#CRON @every 90m", "@every 90m", []),
    "hashed fields": ("#CRON H H(0-7) * * *", "H H(0-7) * * *", []),
    "tabs and many blanks": ("#CRON\t0  4\t* *   *  ", "0 4 * * *", []),
    "a comment behind": ("#CRON 0 4 * * *  # nightly", "0 4 * * *", []),
    "a glued # is no comment: nothing of a schedule is lost": ("#CRON 0 4 * * fri#2", "0 4 * * fri#2", []),
    "a quoted schedule": ('#CRON "0 4 * * *" --retries=1', "0 4 * * *", [("retries", "1")]),
    "the schedule as an option": ('#CRON --schedule="0/15 * * * *"', "0/15 * * * *", []),
    "policies only: the folder's schedule stays": ("#CRON --retries=2", "", [("retries", "2")]),
    "policies before the schedule": ("#CRON --overlap=allow 0 4 * * *", "0 4 * * *", [("overlap", "allow")]),
    "too few fields are still meant": ("#CRON 0 4 * *", "0 4 * *", []),
    "too many fields are still meant": ("#CRON 0 0 4 * * *", "0 0 4 * * *", []),
    "a forgotten @ is still meant": ("#CRON daily --retries=1", "daily", [("retries", "1")]),
    "a flag with a value": ("#CRON @daily --record=no", "@daily", [("record", "no")]),
    "a flag with a value after a blank": ("#CRON @daily --record yes", "@daily", [("record", "yes")]),
    "a quoted value": ("#CRON @daily --ping 'https://x/y z'", "@daily", [("ping", "https://x/y z")]),
    "between #SBATCH lines": ("#SBATCH -J a\n#CRON @daily\n#SBATCH -t 5", "@daily", []),
}


@pytest.mark.parametrize(("text", "schedule", "policies"), MEANT.values(), ids=MEANT.keys())
def test_a_cron_line_is_a_schedule_and_policies(
    text: str, schedule: str, policies: list[tuple[str, str | None]]
) -> None:
    read = header(text)
    assert read.problems == ()
    assert read.cron is not None
    assert read.cron.schedule == schedule
    assert [(name, value) for name, value, _ in read.cron.policies] == policies
    assert all(line == read.cron.line for _, _, line in read.cron.policies)


PROSE = [
    "#CRON",
    "#CRON jobs of the group live here",
    "#CRON: every night",
    "#CRONTAB entry follows",
    "#CRON 5 minutes after midnight, sync the hub",
    "#CRON every night at four",
    "#CRON daily backup of the project",
    "#CRON Mon to Fri this runs at 8",
    "#CRON_SCHEDULE=1",
    "#CRON was @daily once",
    "#CRON - see the wiki",
]


@pytest.mark.parametrize("line", PROSE)
def test_prose_after_cron_is_a_warning_and_no_schedule(line: str) -> None:
    read = header(line)
    assert read.cron is None
    (problem,) = read.problems
    assert (problem.code, problem.line, problem.severity) == ("W101", 2, "warning")


@pytest.mark.parametrize(
    "line",
    ["##CRON @daily", " #CRON @daily", "# CRON @daily", "#cron @daily", "# the #CRON line", "true\n#CRON @daily"],
)
def test_what_is_no_cron_line(line: str) -> None:
    read = header(line)
    assert read.cron is None
    assert read.problems == ()


def test_a_second_cron_line_is_an_error_that_names_the_first() -> None:
    read = header("#CRON @daily\n# x\n#CRON @hourly")
    assert read.cron is not None
    assert read.cron.schedule == "@daily"
    (problem,) = read.problems
    assert (problem.code, problem.line) == ("E104", 4)
    assert "line 2" in problem.what


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("#SCRON */5 * * * *", '"#CRON */5 * * * *"'),
        ("#SCRON @daily --retries=2", '"#CRON @daily --retries=2"'),
        ("#SCRON --time=10 -p cpu", '"#SBATCH --time=10 -p cpu"'),
        ("#SCRON -t 10", '"#SBATCH -t 10"'),
    ],
)
def test_scron_is_an_error_with_the_fix(line: str, fix: str) -> None:
    (problem,) = header(line).problems
    assert (problem.code, problem.line) == ("E105", 2)
    assert fix in problem.fix


WRONG = {
    "a missing blank": ("#CRON*/5 * * * *", 'Write "#CRON */5 * * * *".'),
    "one dash": ("#CRON @daily -retries=2", "Write --retries=2."),
    "a dash that is no minus sign": ("#CRON @daily –retries=2", "Write --retries=2."),  # noqa: RUF001 - the situation
    "a stray word after policies": ("#CRON @daily --overlap=skip please", "Quote"),
    "blanks around =": ("#CRON @daily --retries = 2", "Quote"),
    "an unclosed quote": ('#CRON "0 4 * * *', "Close it."),
    "two schedules": ('#CRON @daily --schedule="@hourly"', "Keep one"),
}


NO_COMMAND = {  # what the schedule's own reader says of it is to the point
    "blanks in a list": "#CRON 0 4 * * mon, tue, wed",
    "policies without their dashes": "#CRON 0 4 * * * overlap=skip retries=2",
    "policies as YAML has them": "#CRON 0 4 * * * overlap: skip",
    "a name that is no schedule's": "#CRON @see the manual page",
    "what no cluster has": "#CRON @reboot ~/bin/sync",
}


@pytest.mark.parametrize("line", NO_COMMAND.values(), ids=NO_COMMAND.keys())
def test_what_is_no_command_is_not_to_be_put_into_the_script(line: str) -> None:
    assert [problem.fix for problem in header(line).problems] == []


@pytest.mark.parametrize(("line", "fix"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_read_is_an_error_with_the_fix(line: str, fix: str) -> None:
    (problem,) = header(line).problems
    assert (problem.code, problem.line) == ("E106", 2)
    assert fix in problem.fix
