"""A scrontab becomes scripts that run what Slurm ran, when Slurm ran it; and every line of it is accounted for.

scrontab_22.05.jsonl: [schedule, start epoch, [the next 8 starts]], or [schedule, 0, null] where scrontab refuses it.
From Slurm 22.05.8's own library, zone UTC, start exclusive; less three that trip that version on days 29 to 31.
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpc.batch.scrontab import block as scrontab_block
from cronhpc.check.lint import lint_script
from cronhpc.cron.schedule import parse
from cronhpc.importer.script import Imported, directive, named
from cronhpc.importer.scrontab import RefusedError, Scrontab, as_cron, meaning
from cronhpc.importer.table import Kind, Surroundings, Table
from cronhpc.script.directives import words as sbatch_words
from cronhpc.script.header import read_header
from tests.importer.test_import_crontab import command, cron, fires, lines_of, schedule_of, shown, table_file

__all__ = ["cron"]  # a fixture
ALICE = Surroundings(user="alice")
UTC = ZoneInfo("UTC")


def table_of(text: str, around: Surroundings = ALICE) -> Table:
    return Scrontab.read(text.encode("utf-8", "surrogateescape"), around)


def imported(text: str) -> tuple[Imported, ...]:
    return named(table_of(text), (), {})


# --- what is cronhpc's own -------------------------------------------------------------------------------------------

OWN = scrontab_block("ab12cd", "0 * * * *", ["--time=10", "--job-name=cronhpc-ab12cd"], "/py -m cronhpc tick --dir /c")


@pytest.mark.parametrize("own", [OWN, "".join(f"#DISABLED: {row}\n" for row in OWN.splitlines())], ids=["", "disabled"])
def test_the_entry_that_start_has_added_is_not_imported(own: str) -> None:
    """It became an entry that runs cronhpc tick."""
    table = table_of(f"#SCRON -p cpu\n0 4 * * * /x/a.sh\n{own}0 5 * * * /x/b.sh\n")
    assert [each.script for each in named(table, (), {})] == [
        each.script for each in imported("#SCRON -p cpu\n0 4 * * * /x/a.sh\n0 5 * * * /x/b.sh\n")
    ]
    assert table.remarks == ()


# --- situations: one entry and its script ----------------------------------------------------------------------------

SH = "#!/bin/sh\n"
SITUATIONS: dict[str, tuple[str, str]] = {
    "an entry without options": ("0 4 * * * /x/a.sh", f"{SH}#CRON 0 4 * * *\n/x/a.sh\n"),
    "an option": ("#SCRON --time=10\n0 4 * * * x", f"{SH}#SBATCH --time=10\n#CRON 0 4 * * *\nx\n"),
    "options all on one line": (
        "#SCRON -p cpu -A abc --time=10 -n 1\n0 4 * * * x",
        f"{SH}#SBATCH -p cpu -A abc --time=10 -n 1\n#CRON 0 4 * * *\nx\n",
    ),
    "options over several lines": (
        "#SCRON -p cpu\n#SCRON --time=10\n#SCRON --mem=1G\n0 4 * * * x",
        f"{SH}#SBATCH -p cpu\n#SBATCH --time=10\n#SBATCH --mem=1G\n#CRON 0 4 * * *\nx\n",
    ),
    "a value behind a blank": ("#SCRON --time 10\n@daily x", f"{SH}#SBATCH --time 10\n#CRON @daily\nx\n"),
    "many blanks and tabs": ("#SCRON\t -p  cpu\n0\t4 * * *  x  y", f"{SH}#SBATCH -p cpu\n#CRON 0 4 * * *\nx  y\n"),
    "no blank behind #SCRON": ("#SCRON--time=10\n@daily x", f"{SH}#SBATCH --time=10\n#CRON @daily\nx\n"),
    "an empty #SCRON": ("#SCRON\n@daily x", f"{SH}#CRON @daily\nx\n"),
    "a blank line between options and entry": (
        "#SCRON -p cpu\n\n0 4 * * * x",
        f"{SH}#SBATCH -p cpu\n#CRON 0 4 * * *\nx\n",
    ),
    "a comment between options and entry": (
        "#SCRON -p cpu\n# nightly\n0 4 * * * x",
        f"{SH}# nightly\n#SBATCH -p cpu\n#CRON 0 4 * * *\nx\n",
    ),
    "a variable between options and entry": (
        "#SCRON -p cpu\nD=/w\n0 4 * * * $D/x",
        f"{SH}#SBATCH -p cpu\n#CRON 0 4 * * *\n/w/x\n",
    ),
    "a # in a value": ("#SCRON --comment=a#4\n@daily x", f'{SH}#SBATCH --comment="a#4"\n#CRON @daily\nx\n'),
    "quotes around a value": ('#SCRON --comment="a b"\n@daily x', f'{SH}#SBATCH --comment="a b"\n#CRON @daily\nx\n'),
    "a comment behind options": ("#SCRON -t 10 # ten\n@daily x", f"{SH}#SBATCH -t 10\n#CRON @daily\nx\n"),
    "an indented #SCRON": ("  #SCRON -t 10\n@daily x", f"{SH}#SBATCH -t 10\n#CRON @daily\nx\n"),
    "a shebang first": ("#!/bin/bash\n@daily x", f"{SH}# #!/bin/bash\n#CRON @daily\nx\n"),
    "#SBATCH in a scrontab is a comment": ("#SBATCH -t 1\n@daily x", f"{SH}# #SBATCH -t 1\n#CRON @daily\nx\n"),
    "prose that begins like options": ("#SCRONTAB of alice\n@daily x", f"{SH}# #SCRONTAB of alice\n#CRON @daily\nx\n"),
    "a variable is filled in": ("D=/w\n@daily $D/x", f"{SH}#CRON @daily\n/w/x\n"),
    "its quotes are taken off": ("D='/w w'\n@daily cd \"$D\"", f'{SH}#CRON @daily\ncd "/w w"\n'),
    "the first of each only": ("D=/w\n@daily $D/x $D", f"{SH}#CRON @daily\n/w/x $D\n"),
    "also in front of a longer name": ("D=/w\n@daily echo $DIR", f"{SH}#CRON @daily\necho /wIR\n"),
    "braces are the shell's": ("D=/w\n@daily echo ${D}", f"{SH}#CRON @daily\necho ${{D}}\n"),
    "a value that names another": ("A=$B/a\nB=/b\n@daily $A", f"{SH}#CRON @daily\n/b/a\n"),
    "in the order they were set": ("B=/b\nA=$B/a\n@daily $A", f"{SH}#CRON @daily\n$B/a\n"),
    "SHELL does nothing": ("SHELL=/bin/bash\n@daily x", f"{SH}#CRON @daily\nx\n"),
    "CRON_TZ does nothing": ("CRON_TZ=Asia/Tokyo\n@daily x", f"{SH}#CRON @daily\nx\n"),
    "% is a character like any other": ("@daily date +%F \\%", f"{SH}#CRON @daily\ndate +%F \\%\n"),
    "a macro in capitals": ("@Hourly x", f"{SH}#CRON @hourly\nx\n"),
    "a stepped range counts from 0": ("10-50/20 * * * * x", f"{SH}#CRON 20,40 * * * *\nx\n"),
    "weekdays' steps count from Monday": ("0 4 * * */2 x", f"{SH}#CRON 0 4 * * 0,1-5/2\nx\n"),
    "a stepped date and a weekday: either": ("0 4 */2 * 1 x", f"{SH}#CRON 0 4 1-31/2 * 1\nx\n"),
    "a step over a list": ("1,3,10-20/3 * * * * x", f"{SH}#CRON 3,12-18/3 * * * *\nx\n"),
    "hour 24": ("0 24 * * * x", f"{SH}#CRON 0 0 * * *\nx\n"),
    "minute 60": ("30-60/30 * * * * x", f"{SH}#CRON 0,30 * * * *\nx\n"),
    "day 0": ("0 4 0-3 * * x", f"{SH}#CRON 0 4 1-3 * *\nx\n"),
    "a step at 0 is one value": ("0/15 * * * * x", f"{SH}#CRON 0 * * * *\nx\n"),
    "a weekday by name": ("0 4 * * Sun x", f"{SH}#CRON 0 4 * * Sun\nx\n"),
    "what scrontab refuses and cron knows": ("0 4 * * mon-fri x", f"{SH}#CRON 0 4 * * mon-fri\nx\n"),
    "a step of one": ("*/1 * * * * x", f"{SH}#CRON */1 * * * *\nx\n"),
    "an option that nobody knows is kept": ("#SCRON --foo=1\n@daily x", f"{SH}#SBATCH --foo=1\n#CRON @daily\nx\n"),
    "a disabled entry": (
        "#DISABLED: #SCRON -t 5\n#DISABLED: \n#DISABLED: 0 4 * * * x",
        f"{SH}#SBATCH -t 5\n#CRON 0 4 * * *\nx\n",
    ),
    "a disabled entry with a comment in it": (
        "#DISABLED: #SCRON -t 5\n#DISABLED: # nightly\n#DISABLED: 0 4 * * * x",
        f"{SH}# nightly\n#SBATCH -t 5\n#CRON 0 4 * * *\nx\n",
    ),
    "a disabled line that is no entry": ("#DISABLED: for now\n@daily x", f"{SH}#DISABLED: for now\n#CRON @daily\nx\n"),
    "Windows line ends": ("#SCRON -t 5\r\n@daily x\r\n", f"{SH}#SBATCH -t 5\n#CRON @daily\nx\n"),
    "bytes that are no UTF-8": ("# \udce9\n@daily x \udce9", f"{SH}# \udce9\n#CRON @daily\nx \udce9\n"),
}


@pytest.mark.parametrize(("text", "script"), SITUATIONS.values(), ids=SITUATIONS.keys())
def test_an_entry_becomes_this_script(text: str, script: str) -> None:
    (row,) = imported(f"{text}\n")
    assert shown(row) == script


@pytest.mark.parametrize("text", [text for text, _ in SITUATIONS.values()], ids=SITUATIONS.keys())
def test_check_finds_no_error_but_in_the_options(text: str) -> None:
    (row,) = imported(f"{text}\n")
    errors = [str(each) for each in lint_script(row.path, row.script) if each.severity == "error"]
    assert [each for each in errors if "--foo" not in each] == []


def test_options_hold_for_one_entry() -> None:
    rows = imported("#SCRON -p gpu\n0 1 * * * x\n0 2 * * * y\n#SCRON -p cpu\n0 3 * * * z\n")
    assert [row.job.options for row in rows] == [(("-p", "gpu"),), (), (("-p", "cpu"),)]


def test_only_disabled_entries_are_paused() -> None:
    rows = imported(
        "0 1 * * * x\n#DISABLED: 0 2 * * * y\n#DISABLED: #SCRON -t 5\n#DISABLED: 0 3 * * * z\n0 4 * * * w\n"
    )
    assert [(row.name, row.job.paused) for row in rows] == [("x", False), ("y", True), ("z", True), ("w", False)]


def test_a_job_name_names_the_entry() -> None:
    rows = imported("#SCRON -J nightly\n@daily x\n#SCRON --job-name=hub.sync --job-name=hub\n@daily x\n")
    assert [row.name for row in rows] == ["nightly", "hub"]


def test_a_variable_changed_in_between_holds_from_there_on() -> None:
    rows = imported("D=/a\n0 1 * * * $D/x\nD=/b\n0 2 * * * $D/x\n")
    assert [row.job.command for row in rows] == ["/a/x", "/b/x"]


# --- what is reported ------------------------------------------------------------------------------------------------

# table: (line, words of the remark, whether a person has to look, how many entries are imported)
REMARKS: dict[str, tuple[str, int, str, bool, int]] = {
    "an unknown option": ("#SCRON --tme=5\n@daily x\n", 1, "Did you mean --time?", True, 1),
    "an option of old": ("#SCRON --workdir=/w\n@daily x\n", 1, "Did you mean --chdir?", True, 1),
    "an option without its value": ("#SCRON -t\n@daily x\n", 1, "--time needs a value", True, 1),
    "a stray word": ("#SCRON please\n@daily x\n", 1, "expects an option", True, 1),
    "options with no entry": ("@daily x\n#SCRON -t 5\n", 2, "no entry below", True, 1),
    "options of what is not imported": ("#SCRON -t 5\n@reboot x\n@daily y\n", 1, "options of line 2", False, 1),
    "disabled options over an entry that is not": ("#DISABLED: #SCRON -t 5\n@daily x\n", 1, "left out", True, 1),
    "six fields": ("#SCRON -t 5\n0 0 4 * * * x\n", 2, "six fields", True, 0),
    "@reboot": ("@reboot x\n", 1, "no meaning on a cluster", True, 0),
    "an unknown macro": ("@fika x\n", 1, "is no schedule", True, 0),
    "a start with a step": ("5/15 * * * * x\n", 1, "Write 5-59/15 or */15", True, 0),
    "a range that runs backwards": ("0 22-4 * * * x\n", 1, "Write 22-23,0-4", True, 0),
    "30 February": ("0 0 30 2 * x\n", 1, "never fires", True, 0),
    "no command": ("0 4 * * *\n", 1, "no command", True, 0),
    "prose": ("every night\n", 1, "neither a comment", True, 0),
    "a continued line": ("@daily x \\\n  --more\n", 2, "neither a comment", True, 1),
    "mon-fri": ("0 4 * * mon-fri x\n", 1, 'scrontab refuses day of week "mon-fri"', True, 1),
    "a step of one": ("*/1 * * * * x\n", 1, "a step of 1", True, 1),
    "a list with a name": ("0 4 * jan,feb * x\n", 1, "scrontab refuses month", True, 1),
    "31 of a month that has it, by weekday too": ("0 0 31 2 1 x\n", 1, "no month of 2 has day 31", True, 1),
    "a schedule in cron's words": ("10-50/20 * * * * x\n", 1, 'Slurm ran it at "20,40 * * * *"', False, 1),
    "CRON_TZ": ("CRON_TZ=Asia/Tokyo\n@daily x\n", 1, "does nothing in a scrontab", True, 1),
    "MAILTO": ("MAILTO=a@b.c\n@daily x\n", 1, "alerts: {mail: a@b.c}", False, 1),
    "a variable": ("D=/w\n@daily $D/x\n", 1, "sets no variable", False, 1),
    "a variable's second use": ("D=/w\n@daily $D/x $D\n", 2, "the first $D of a command only", True, 1),
    "quotes": ('#SCRON --comment="a b"\n@daily x\n', 1, "neither quotes nor comments", False, 1),
    "a quote left open": ('#SCRON --comment="a\n@daily x\n', 1, "a quote is not closed", True, 1),
    "prose that begins like options": ("#SCRONTAB of alice\n@daily x\n", 1, "kept as a comment", False, 1),
    "an indented #SCRON": (" #SCRON -t 5\n@daily x\n", 1, "indented", False, 1),
    "a refused line": ("#BAD: 0 4 * * mon-fri x\n@daily y\n", 1, "scrontab refused this line", True, 1),
    "a disabled entry": ("#DISABLED: @daily x\n", 1, "written, and paused", False, 1),
    "a comment at the end": ("@daily x\n# y\n", 2, "no script holds them", False, 1),
    "a NUL byte": ("@daily x\0y\n", 1, "NUL", True, 0),
    "several unknown options": ("#SCRON --foo --bar=1 -Z\n@daily x\n", 1, "The same of bar, -Z.", True, 1),
    "#SBATCH": ("#SBATCH --time=1\n@daily x\n", 1, "whose word is #SCRON", True, 1),
    "a command that submits": ("@daily sbatch j.sh\n", 1, "put that script into cron.d/", False, 1),
    "four fields": ("0 3 * * /usr/bin/x\n", 1, "four fields of time", True, 0),
    "a placeholder": ("<m> 3 * * * x\n", 1, "never filled in", True, 0),
    "a zone in front": ("CRON_TZ=Europe/Paris 0 3 * * * x\n", 1, "on a line of its own", True, 0),
    "a byte order mark": ("\ufeff@daily x\n", 1, "byte order mark", False, 1),
    "a backslash at the end": ("@daily x \\\n", 1, "ends with a backslash", True, 1),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "words", "look", "entries"), REMARKS.values(), ids=REMARKS.keys())
def test_what_is_said_of_a_line(text: str, line: int, words: str, look: bool, entries: int) -> None:  # noqa: FBT001 - a column
    table = table_of(text)
    said = [each for each in table.remarks if words in str(each)]
    assert [(each.line, each.look) for each in said] == [(line, look)], table.remarks
    assert len(table.jobs) == entries


@pytest.mark.parametrize("text", ["0 4 * * MON x\n", "0 4 * JAN * x\n", "@DAILY x\n"])
def test_a_name_in_capitals_is_no_other_schedule(text: str) -> None:
    table = table_of(text)
    assert len(table.jobs) == 1
    assert table.remarks == ()


def test_an_ordinary_table_needs_nobody() -> None:
    table = table_of("# nightly\n#SCRON -p cpu -t 10\n\n0 4 * * * /x/a.sh\n\n*/15 8-18 * * 1-5 /x/b.sh\n")
    assert table.remarks == ()
    assert [each.entry for each in table.lines] == [4, 4, 0, 4, 0, 6]


@pytest.mark.parametrize("text", ["", "\n", "no crontab for alice\n"])
def test_an_empty_table_has_no_entry(text: str) -> None:
    table = table_of(text)
    assert (table.jobs, table.remarks) == ((), ())
    assert table.absent is text.startswith("no crontab")


# --- when ------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_imported_schedule_fires_when_slurm_started_it() -> None:
    accepted = 0
    for text, start, epochs in lines_of("scrontab_22.05.jsonl"):
        if epochs is None:
            continue
        accepted += 1
        (row,) = imported(f"{text} x\n")
        assert list(islice(fires(schedule_of(row.script), start), len(epochs))) == epochs, text
    assert accepted > 300


def test_what_scrontab_refuses_is_never_imported_silently() -> None:
    for text, _, epochs in lines_of("scrontab_22.05.jsonl"):
        assert any(each.look for each in table_of(f"{text} x\n").remarks) == (epochs is None), text


FIELD = st.sampled_from(
    [
        "*",
        "*/2",
        "*/3",
        "*/5",
        "*/7",
        "*/12",
        "0",
        "1",
        "7",
        "5",
        "24",
        "60",
        "31",
        "1-5",
        "0-6",
        "1-31",
        "9-20/3",
        "0,7",
    ]
)


@given(st.tuples(FIELD, FIELD, FIELD, FIELD, FIELD).map(" ".join))
def test_what_slurm_takes_is_good_cron_in_crons_words(text: str) -> None:
    try:
        written = as_cron(text)
    except RefusedError:
        return
    fields = parse(written, UTC).fields
    assert fields is not None
    assert [each.values for each in fields[:2]] == [each.values for each in meaning(text)[:2]]


# --- any text at all -------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    (
        *"04* \t\n#=A'\"%\\-$\0é\r\udcff",
        "*/5",
        "@daily",
        "#SCRON ",
        "#DISABLED: ",
        "#BAD: ",
        "0 4 * * * x\n",
        "# c\n",
        "A=b\n",
    )
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_every_line_is_accounted_for_whatever_is_in_it(text: str) -> None:
    table = table_of(text)
    assert [each.number for each in table.lines] == list(range(1, len(table.lines) + 1))
    reported = {each.number for each in table.lines if each.kind is Kind.REPORTED}
    assert reported <= {each.line for each in table.remarks}
    assert {each.number for each in table.lines if each.kind is Kind.ENTRY} == {job.line for job in table.jobs}
    for row in named(table, (), {}):
        header = read_header(row.script, "x.slurm")
        assert header.cron is not None
        assert header.cron.schedule == row.job.schedule


@given(
    st.lists(
        st.text(st.sampled_from("ab=-\"'\\# "), min_size=1, max_size=8).map(lambda word: f"--x={word}"), max_size=4
    )
)
def test_sbatch_reads_the_words_that_were_written(words: list[str]) -> None:
    assert sbatch_words(directive(tuple(words)).removeprefix("#SBATCH")) == words


# --- the command -----------------------------------------------------------------------------------------------------


def test_a_disabled_entry_is_written_with_its_pause_switch(cron: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = table_file(cron, "#DISABLED: #SCRON -t 5\n#DISABLED: 0 4 * * * /x/a.sh\n0 5 * * * /x/b.sh\n")
    code, said = command(cron, capsys, "scrontab", source)
    assert code == 0
    assert sorted(path.name for path in (cron / "cron.d").iterdir()) == ["a.slurm", "b.slurm"]
    assert (cron / "pause" / "a").read_text() == "imported: it was disabled in the scrontab\n"
    assert [path.name for path in (cron / "pause").iterdir()] == ["a"]
    assert f"cronhpc resume --dir {cron} a" in said


def test_system_is_no_option_of_a_scrontab(cron: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(cron, capsys, "scrontab", table_file(cron, "@daily x\n"), "--system")[0] == 2


def test_json_says_what_is_paused(cron: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, said = command(cron, capsys, "scrontab", table_file(cron, "#DISABLED: @daily x\n@daily y\n"), "--json")
    assert [(each["name"], each["paused"]) for each in json.loads(said)["entries"]] == [("x", True), ("y", False)]
