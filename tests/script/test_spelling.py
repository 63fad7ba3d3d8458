"""How batch systems spell options: what their lines say in our names, and our names in their words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cronhpc.batch import connect
from cronhpc.core.model import Settings
from cronhpc.script.dialect import DIALECTS, GRID_ENGINE, LSF, PBS, SLURM, SYSTEMS, Dialect
from cronhpc.script.header import Header, read_header
from cronhpc.script.spelling import SPELLINGS, UnspeltError, directive, fault, foreign_line, words_of


def header(text: str, dialect: Dialect) -> Header:
    return read_header(f"#!/bin/bash\n{text}\n".encode(), "save.slurm", dialect)


READ: dict[str, tuple[Dialect, str, list[tuple[str, str | None]]]] = {
    "Grid Engine's to the end of the file": (GRID_ENGINE, "#$ -N a\necho\n#$ -h", [("job-name", "a"), ("hold", None)]),
    "LSF's to the end of the file": (LSF, "#BSUB -J a\necho\n#BSUB -H", [("job-name", "a"), ("hold", None)]),
    "PBS's to the first command": (
        PBS,
        "#PBS -N a\n\n # more\n#PBS -h\necho\n#PBS -q x",
        [("job-name", "a"), ("hold", None)],
    ),
    "a limit in seconds": (GRID_ENGINE, "#$ -l h_rt=3600", [("time", "1:00:00")]),
    "a limit as a clock has it": (PBS, "#PBS -l walltime=1:30:00", [("time", "1:30:00")]),
    "a limit in minutes": (LSF, "#BSUB -W 90", [("time", "1:30:00")]),
    "a limit in hours and minutes": (LSF, "#BSUB -W 1:30", [("time", "1:30:00")]),
    "a limit for one kind of host keeps its own name": (LSF, "#BSUB -W 60/fast", [("-W", "60/fast")]),
    "several resources on a line": (
        GRID_ENGINE,
        "#$ -l h_rt=60,h_vmem=4G",
        [("time", "0:01:00"), ("-l h_vmem", "4G")],
    ),
    "a resource without a name of ours": (PBS, "#PBS -l select=1:ncpus=4", [("-l select", "1:ncpus=4")]),
    "a value behind its letter": (PBS, "#PBS -Na -lwalltime=5:00", [("job-name", "a"), ("time", "0:05:00")]),
    "a number behind its letter": (LSF, "#BSUB -n4 -W5", [("ntasks", "4"), ("time", "0:05:00")]),
    "an array in the name": (LSF, '#BSUB -J "a[1-5]%2"', [("job-name", "a"), ("array", "1-5%2")]),
    "an array without a name": (LSF, '#BSUB -J "[1-5]"', [("array", "1-5")]),
    "an array and its limit": (GRID_ENGINE, "#$ -t 1-5 -tc 2", [("array", "1-5%2")]),
    "an array of PBS": (PBS, "#PBS -J 1-5%2", [("array", "1-5%2")]),
    "a value of several words": (GRID_ENGINE, "#$ -pe smp 4 -q all.q", [("-pe", "smp 4"), ("partition", "all.q")]),
    "a log's patterns": (GRID_ENGINE, "#$ -o :/l/$JOB_NAME-$JOB_ID.$TASK_ID", [("output", "/l/%x-%j.%a")]),
    "a log that is begun anew": (LSF, "#BSUB -oo /l/%J.%I -eo /e", [("output", "/l/%j.%a"), ("error", "/e")]),
    "a moment": (PBS, "#PBS -a 202912011230.15", [("begin", "2029-12-01T12:30:15")]),
    "a moment without a year stays as it is": (LSF, "#BSUB -b 12:30", [("begin", "12:30")]),
    "a # begins a comment": (GRID_ENGINE, "#$ -N a # not -h", [("job-name", "a")]),
    "prose behind the prefix": (PBS, "#PBS lines of the group - see below", []),
    "no second start": (GRID_ENGINE, "#$ -r n", [("no-requeue", None)]),
    "a second start, which is said": (GRID_ENGINE, "#$ -r y", [("-r", "y")]),
    "the folder of the submission": (GRID_ENGINE, "#$ -cwd", [("chdir", None)]),
    "another system's lines": (LSF, "#SBATCH -J a\n#PBS -N b\n#$ -N c", []),
}


@pytest.mark.parametrize(("dialect", "text", "options"), READ.values(), ids=READ.keys())
def test_a_script_says_in_our_names_what_its_lines_say(
    dialect: Dialect, text: str, options: list[tuple[str, str | None]]
) -> None:
    found = header(text, dialect)
    assert [(each.name, each.value) for each in found.options] == options
    assert found.problems == ()


WRITTEN: dict[str, tuple[Dialect, list[tuple[str, str | None]], list[str]]] = {
    "resources of one list": (PBS, [("time", "60"), ("mem", "4G")], ["-l", "walltime=1:00:00,mem=4096mb"]),
    "days": (GRID_ENGINE, [("time", "1-12")], ["-l", "h_rt=129600"]),
    "seconds where there are minutes only, rounded up": (LSF, [("time", "0:59:30")], ["-W", "1:00"]),
    "an array with a limit": (GRID_ENGINE, [("array", "1-5%2")], ["-t", "1-5", "-tc", "2"]),
    "an array and a name": (LSF, [("job-name", "a"), ("array", "1,4-5%2")], ["-J", "a[1,4-5]%2"]),
    "a flag": (LSF, [("hold", None)], ["-H"]),
    "a moment": (LSF, [("begin", "2029-12-01T12:30:15")], ["-b", "2029:12:01:12:30"]),
    "a log whose path holds a colon": (GRID_ENGINE, [("output", "/l/a:b-%j")], ["-o", ":/l/a:b-$JOB_ID"]),
    "the folder of the submission": (GRID_ENGINE, [("chdir", None)], ["-cwd"]),
    "resources of its own": (GRID_ENGINE, [("-l h_vmem", "4G"), ("-l gpu", None)], ["-l", "h_vmem=4G,gpu"]),
    "no second start": (GRID_ENGINE, [("no-requeue", None)], ["-r", "n"]),
    "the end of other jobs": (GRID_ENGINE, [("dependency", "afterany:7:8")], ["-hold_jid", "7,8"]),
    "nodes to keep away from": (GRID_ENGINE, [("exclude", "a,b"), ("time", "1")], ["-l", "h=!(a|b),h_rt=60"]),
    "an option of its own": (GRID_ENGINE, [("-pe", "smp 4")], ["-pe", "smp", "4"]),
    "a value of one word that holds blanks": (LSF, [("-R", "a[b=1] c[d=2]")], ["-R", "a[b=1] c[d=2]"]),
    "Slurm's": (SLURM, [("time", "60"), ("hold", None)], ["--time=60", "--hold"]),
}


@pytest.mark.parametrize(("dialect", "options", "words"), WRITTEN.values(), ids=WRITTEN.keys())
def test_options_become_words_of_the_submitting_command(
    dialect: Dialect, options: list[tuple[str, str | None]], words: list[str]
) -> None:
    assert words_of(options, dialect) == words


@pytest.mark.parametrize(
    ("dialect", "name", "value"),
    [
        pytest.param(GRID_ENGINE, "array", "0-4", id="tasks of Grid Engine begin at 1"),
        pytest.param(GRID_ENGINE, "array", "1,3", id="a list of tasks"),
        pytest.param(GRID_ENGINE, "array", "1-5%", id="a limit of tasks that is none: the next word would be it"),
        pytest.param(GRID_ENGINE, "array", "1-5%2 -h", id="more words behind a limit of tasks"),
        pytest.param(PBS, "output", "/l/%j.out", id="a log named after a job's id"),
        pytest.param(LSF, "mem", "4G", id="memory, whose unit is the site's"),
        pytest.param(PBS, "time", "soon", id="no time"),
        pytest.param(LSF, "begin", "now+1hour", id="a moment of Slurm's"),
    ],
)
def test_what_a_system_has_not_is_refused(dialect: Dialect, name: str, value: str) -> None:
    with pytest.raises(UnspeltError, match=f"--{name}="):
        words_of([(name, value)], dialect)


UNKNOWN: dict[str, tuple[Dialect, str, str]] = {
    "a slip": (GRID_ENGINE, "#$ -hold_jd 7", "Did you mean -hold_jid?"),
    "Slurm's own": (GRID_ENGINE, "#$ --time=60", "Write -l h_rt=VALUE."),
    "a word of people's": (PBS, "#PBS -walltime 60", "Write -l walltime=VALUE."),
    "a queue": (LSF, "#BSUB -queue long", "Write -q VALUE."),
    "nothing like it": (LSF, "#BSUB -xyzzy", "See bsub's manual"),
}


@pytest.mark.parametrize(
    "line",
    [
        '-alloc_flags "gpumps smt4"',
        "-core_isolation 2",
        "-data tag:x -datachk",
        "-ln_slots 2",
        "-Ne",
        "-w done(x) -ti",
    ],
)
def test_an_option_of_bsubs_reference_is_known_with_its_value(line: str) -> None:
    read = header(f"#BSUB {line}", LSF)
    assert not read.problems
    assert " ".join(" ".join(filter(None, (each.name, each.value))) for each in read.options) == line.replace('"', "")


@pytest.mark.parametrize(("dialect", "text", "fix"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_an_option_that_a_system_has_not_is_named_with_the_right_one(dialect: Dialect, text: str, fix: str) -> None:
    (problem,) = header(text, dialect).problems
    assert (problem.code, problem.line) == ("E201", 2)
    assert fix in problem.fix


# (refused or taken; the line), as PBS and LSF document it; what Grid Engine's qsub said is a table of tests/data.
JUDGED: list[tuple[str, Dialect, str]] = [
    *(("refused", PBS, line) for line in ("-l walltime=1h", "-l walltime=1-0", "-l walltime=1:2:3:4", "-l mem=4GiB")),
    *(("refused", PBS, line) for line in ("-l mem=1.5gb", "-l mem=lots", "-l ncpus=four", "-J 5", "-J 1,3", "-j y")),
    *(("refused", PBS, line) for line in ("-l select=2:ncpus4", "-l select=1:ncpus=4:mem=4GiB", "-a 12:30", "-r yes")),
    *(("refused", PBS, line) for line in ("-p 1024", "-p high", "-m x", "-l select=1:ncpus=2+two:ncpus=1")),
    *(("taken", PBS, line) for line in ("-l walltime=3600", "-l walltime=1:00", "-l walltime=100:00:00", "-l mem=4G")),
    *(("taken", PBS, line) for line in ("-l select=2:ncpus=4:mem=8gb+1:ncpus=1", "-l nodes=2:ppn=4", "-l mem=4096")),
    *(
        ("taken", PBS, line)
        for line in ("-l select=4", "-J 1-10:2%3", "-a 1230", "-r n", "-j oe", "-m abe", "-p -1024")
    ),
    *(("taken", PBS, line) for line in ("-l select=ncpus=4:mem=1gb,walltime=1:00:00", "-l place=scatter:excl")),
    *(("refused", LSF, line) for line in ("-W 1:00:00", "-W 1h", "-W 1-0", "-n four", "-n 4-8", "-M lots", "-b 12.30")),
    *(("refused", LSF, line) for line in ("-R rusage[mem=4", '-J "a[0-5]"', '-J "a[1-5"', "-gpu 2", "-b tomorrow")),
    *(("taken", LSF, line) for line in ("-W 60", "-W 1:30", "-W 60/fast", "-n 4", "-n 4,8", "-M 4GB", "-M 4000!")),
    *(("taken", LSF, line) for line in ("-b 2029:12:01:12:30", "-b 12:30", '-J "a[1,3,5-9:2]%2"', "-J save")),
    *(("taken", LSF, line) for line in ('-R "select[mem>4] rusage[mem=4:duration=1h]"', "-gpu num=2:mode=shared")),
    *(("taken", LSF, line) for line in ('-gpu "num=1:gmodel=V100-16G"', "-gpu -", "-q long", "-Jd anything")),
    *(("taken", LSF, line) for line in ('-J "a[1, 2, 3]"', '-J "a[01-10]"', '-gpu "num=1:gmodel=Tesla V100"')),
]


def verdicts() -> list[tuple[str, str]]:
    """(refused or taken; what stands behind #$) of each row of the table."""
    rows = (Path(__file__).parents[1] / "data" / "qsub_values_8.1.9.txt").read_text(encoding="utf-8").splitlines()
    return [(row[:8].strip(), row[8:]) for row in rows if not row.startswith("#")]


@pytest.mark.parametrize(
    ("verdict", "dialect", "line"), [*JUDGED, *((verdict, GRID_ENGINE, line) for verdict, line in verdicts())]
)
def test_a_value_is_a_fault_where_the_system_refuses_its_form(verdict: str, dialect: Dialect, line: str) -> None:
    faults = [fault(option, dialect) for option in header(f"{dialect.prefix} {line}", dialect).options]
    assert any(faults) is (verdict == "refused")


@pytest.mark.parametrize(
    ("dialect", "line", "fix"),
    [
        pytest.param(GRID_ENGINE, "-l h_rt=1-0", "Write -l h_rt=86400.", id="days, as Slurm has them"),
        pytest.param(GRID_ENGINE, "-l h_rt=90m30s", "Write -l h_rt=5430.", id="a span, as people write it"),
        pytest.param(PBS, "-l mem=4GiB", "Write it like 4gb.", id="what nothing stands for"),
        pytest.param(LSF, "-W 1:00:00", "Write -W 1:00.", id="a clock with seconds"),
    ],
)
def test_the_fix_of_a_value_is_the_value_that_is_meant_where_that_is_clear(
    dialect: Dialect, line: str, fix: str
) -> None:
    (option,) = header(f"{dialect.prefix} {line}", dialect).options
    assert (fault(option, dialect) or ("", ""))[1] == fix


@pytest.mark.parametrize(
    ("dialect", "line"),
    [
        (SLURM, "#SBATCH --exclude=n1"),
        (GRID_ENGINE, "#$ -l h=!(n1)"),
        (LSF, "#BSUB -R \"select[hname!='n1']\""),
        (PBS, ""),
    ],
)
def test_a_directive_for_advice_is_the_systems_own_or_none(dialect: Dialect, line: str) -> None:
    assert directive(dialect, "exclude", "n1") == line


TRANSLATED: dict[str, tuple[Dialect, str, Dialect, str, tuple[str, ...]]] = {
    "Slurm's limit for Grid Engine": (SLURM, "#SBATCH --time=1:00:00", GRID_ENGINE, "#$ -l h_rt=3600", ()),
    "Slurm's limit for PBS": (SLURM, "#SBATCH -t 60", PBS, "#PBS -l walltime=1:00:00", ()),
    "Slurm's limit for LSF": (SLURM, "#SBATCH -t 60", LSF, "#BSUB -W 1:00", ()),
    "LSF's limit for Slurm": (LSF, "#BSUB -W 60", SLURM, "#SBATCH --time=1:00:00", ()),
    "LSF's array for Slurm": (LSF, '#BSUB -J "a[1-5]"', SLURM, "#SBATCH --job-name=a --array=1-5", ()),
    "Slurm's array for LSF": (SLURM, "#SBATCH -J a -a 1-5", LSF, '#BSUB -J "a[1-5]"', ()),
    "a GPU for LSF": (SLURM, "#SBATCH --gres=gpu:2", LSF, "#BSUB -gpu num=2", ()),
    "a GPU for Grid Engine, where each site names it": (
        SLURM,
        "#SBATCH --gres=gpu:2",
        GRID_ENGINE,
        "",
        ("--gres=gpu:2",),
    ),
    "in part": (SLURM, "#SBATCH -p a --signal=B:TERM@60", PBS, "#PBS -q a", ("--signal=B:TERM@60",)),
    "what is so anyway": (SLURM, "#SBATCH --ntasks=1 --no-requeue --open-mode=append", LSF, "", ()),
    "one log, which PBS has to be told": (PBS, "#PBS -N a -j oe", GRID_ENGINE, "#$ -N a", ()),
    "one log, which Grid Engine has to be told": (GRID_ENGINE, "#$ -j y", SLURM, "", ()),
    "an option of its own": (GRID_ENGINE, "#$ -pe smp 4 -N a", SLURM, "#SBATCH --job-name=a", ("-pe smp 4",)),
    "a value that holds blanks": (SLURM, '#SBATCH -J "a b"', GRID_ENGINE, '#$ -N "a b"', ()),
}


@pytest.mark.parametrize(("source", "line", "target", "right", "missing"), TRANSLATED.values(), ids=TRANSLATED.keys())
def test_a_line_is_translated(
    source: Dialect, line: str, target: Dialect, right: str, missing: tuple[str, ...]
) -> None:
    assert foreign_line(line, 2, source, target) == (right, missing)


@pytest.mark.parametrize("dialect", [each for each in SYSTEMS if each.name in SPELLINGS], ids=lambda each: each.name)
def test_what_is_written_is_read_again(dialect: Dialect) -> None:
    plain = {"account": "a", "array": "1-5", "begin": "2029-12-01T12:30:00", "time": "1:30:00", "gres": "gpu:2"}
    plain |= {"dependency": "afterany:7:8", "mem": "4096M", "ntasks": "4", "cpus-per-task": "4"}
    options: list[Any] = [
        (name, plain.get(name, "x"))
        for name in SPELLINGS[dialect.name].names
        if name not in {"hold", "no-requeue", "export"}
    ]
    words = " ".join(words_of([*options, ("hold", None)], dialect))
    found = header(f"{dialect.prefix} {words}", dialect)
    assert sorted((each.name, each.value) for each in found.options if each.value) == sorted(options)
    assert found.find("hold")
    assert found.problems == ()


@pytest.mark.parametrize("name", DIALECTS)
def test_what_can_be_chosen_has_a_backend(name: str, tmp_path: Any) -> None:
    assert connect(name, Settings(), {"PATH": str(tmp_path)}, tmp_path).dialect.name == name
