"""How sbatch reads a script. Each expectation was seen on sbatch 22.05.8 (`sbatch -v --test-only`)."""

from __future__ import annotations

import pytest

from cronhpc.script.header import Header, read_header
from cronhpc.script.sbatch_options import time_limit

SHEBANG = "#!/bin/bash\n"


def header(text: str | bytes, name: str = "backup.slurm") -> Header:
    data = text if isinstance(text, bytes) else (SHEBANG + text).encode()
    return read_header(data, name)


def given(text: str) -> list[tuple[str, str | None]]:
    return [(o.name, o.value) for o in header(text).options]


READ = {
    "a short option and its value are two words": ("#SBATCH -J a", [("job-name", "a")]),
    "a short option's value may be glued": ("#SBATCH -Ja -p cpu", [("job-name", "a"), ("partition", "cpu")]),
    "short options without values stand together": ("#SBATCH -HJa", [("hold", None), ("job-name", "a")]),
    "a long option takes = or a blank": ("#SBATCH --time 5 --mem=1G", [("time", "5"), ("mem", "1G")]),
    "a long option may be cut where that is clear": ("#SBATCH --job-na=x", [("job-name", "x")]),
    "another name of an option is the same option": ("#SBATCH --tasks-per-node=2", [("ntasks-per-node", "2")]),
    "a cut name may lead to the other name": ("#SBATCH --tasks=2", [("ntasks-per-node", "2")]),
    "an optional value needs the equals sign": (
        "#SBATCH --nice --exclusive=user",
        [("nice", None), ("exclusive", "user")],
    ),
    "no blank is needed after the directive": ("#SBATCH-J a", [("job-name", "a")]),
    "a tab is a blank": ("#SBATCH\t-J\ta", [("job-name", "a")]),
    "double quotes group": ('#SBATCH --comment="a # b|c" -t 5', [("comment", "a # b|c"), ("time", "5")]),
    "single quotes group": ("#SBATCH -J 'a b' -t 5", [("job-name", "a b"), ("time", "5")]),
    "quotes may begin within a word": ('#SBATCH -J pre"a b"post', [("job-name", "prea bpost")]),
    "one kind of quote protects the other": (
        "#SBATCH -J \"a'b\" --comment='x\"y'",
        [("job-name", "a'b"), ("comment", 'x"y')],
    ),
    "a backslash takes the next character": (
        r'#SBATCH --comment="a\"b" -J a\#b',
        [("comment", 'a"b'), ("job-name", "a#b")],
    ),
    "a backslash at the end is nothing": ("#SBATCH -J a\\\n#SBATCH -t 5", [("job-name", "a"), ("time", "5")]),
    "a # starts a comment even glued to a word": ("#SBATCH -J a#b -t 5", [("job-name", "a")]),
    "a # after a quote starts a comment": ('#SBATCH --comment="x"#y -t 5', [("comment", "x")]),
    "variables are not expanded": ("#SBATCH -J $USER --output=~/x", [("job-name", "$USER"), ("output", "~/x")]),
    "an empty value after = is a value": ("#SBATCH --job-name=", [("job-name", "")]),
    "##SBATCH is a comment": ("##SBATCH -J a", []),
    "an indented line is a comment": (" #SBATCH -J a", []),
    "another case is a comment": ("#SbATCH -J a\n#sbatch -J b", []),
    "blank lines and comments do not end the reading": ("\n \t\n# x\n#SBATCH -J a", [("job-name", "a")]),
    "an indented comment does not end the reading": (" # x\n#SBATCH -J a", [("job-name", "a")]),
    "a command ends the reading": ("#SBATCH -t 6\ntrue\n#SBATCH -t 7", [("time", "6")]),
    "an assignment is a command": ("A=1\n#SBATCH -t 7", []),
    "a heredoc is after a command": ("cat <<X\n#SBATCH -t 7\nX", []),
    "the last line needs no line end": ("#SBATCH -J a", [("job-name", "a")]),
    "a value may even come from the next line": ("#SBATCH -J\n#SBATCH foo", [("job-name", "foo")]),
    "options of newer versions are options": (
        "#SBATCH --segment=4 --oom-kill-step",
        [("segment", "4"), ("oom-kill-step", None)],
    ),
    "a plugin's option is left alone": ("#SBATCH --container-image=ubuntu -t 5", [("time", "5")]),
}


@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ.keys())
def test_options_are_read_as_sbatch_reads_them(text: str, expected: list[tuple[str, str | None]]) -> None:
    assert given(text) == expected


SOUND = {name: text for name, (text, _) in READ.items() if "next line" not in name}


@pytest.mark.parametrize("text", SOUND.values(), ids=SOUND.keys())
def test_what_sbatch_takes_is_no_problem(text: str) -> None:
    assert header(text).problems == ()


REFUSED = {
    "an unknown option names the nearest": ("#SBATCH --job_name=x", "E201", "--job-name"),
    "case counts": ("#SBATCH --Time=5", "E201", "--time"),
    "a retired option names its heir": ("#SBATCH --workdir=/x", "E201", "--chdir"),
    "an unknown letter": ("#SBATCH -Z", "E201", "sbatch --help"),
    "a long option with one dash": ("#SBATCH -job-name=x", "E201", "--job-name=x"),
    "an ambiguous abbreviation": ("#SBATCH --exclu=user", "E202", "--exclude, --exclusive"),
    "a value is missing at the end": ("#SBATCH -J", "E203", "--job-name=VALUE"),
    "an empty quoted word is no value": ('#SBATCH -J "" -t 5', "E203", "--job-name=VALUE"),
    "a value is missing and taken from the next line": (
        "#SBATCH --job-name\n#SBATCH --time=5",
        "E203",
        "--job-name=VALUE",
    ),
    "a flag takes no value": ("#SBATCH --hold=yes", "E204", "--hold"),
    "a stray word": ("#SBATCH foo -J a", "E205", "Quote"),
    "a word of something else": ("#SBATCH_FOO=1", "E205", "Quote"),
    "blanks around =": ("#SBATCH --time = 5", "E205", "write --time=5"),
    "a dash that is no minus sign": ("#SBATCH –time=5", "E205", "--time=5"),  # noqa: RUF001 - the situation
    "dashes that are no minus signs": ("#SBATCH -—mem=16G", "E201", "--mem=16G"),
    "an optional value without =": ("#SBATCH --exclusive user", "E205", "--exclusive=user"),
    "an unclosed quote": ('#SBATCH --comment="a b', "E206", "Close"),
    "a single quote cannot be escaped away": (r"#SBATCH --comment='a\'b", "E206", "Close"),
    "a PBS option that sbatch does not know": ("#PBS -Z x", "E209", "--ignore-pbs"),
    "a BSUB option that sbatch does not know": ('#BSUB -R "span[ptile=2]"', "E209", "--ignore-pbs"),
    "a PBS line without an option": ("#PBS job", "E209", "--ignore-pbs"),
}


@pytest.mark.parametrize(("text", "code", "fix"), REFUSED.values(), ids=REFUSED.keys())
def test_what_sbatch_refuses_is_a_problem_with_line_and_fix(text: str, code: str, fix: str) -> None:
    (problem,) = header("\n" + text).problems
    assert (problem.code, problem.line) == (code, 3)
    assert fix in problem.fix
    assert problem.severity == "error"


FOREIGN = {
    "PBS options are obeyed": (
        "#PBS -N n -q cpu -l walltime=01:00:00\n#PBS -o /tmp/o -e /tmp/e -A acc",
        {
            "job-name": "n",
            "partition": "cpu",
            "time": "01:00:00",
            "output": "/tmp/o",
            "error": "/tmp/e",
            "account": "acc",
        },
    ),
    "PBS wins over SBATCH": ("#SBATCH -J s\n#PBS -N p", {"job-name": "p"}),
    "PBS is read past the first command": ("#SBATCH -J s\ntrue\n#PBS -N p", {"job-name": "p"}),
    "PBS is read within the first 100 other lines": ("true\n" * 100 + "#PBS -N p", {"job-name": "p"}),
    "PBS is not read after the first 100 other lines": ("true\n" * 101 + "#PBS -N p", {"job-name": "backup.slurm"}),
    "--ignore-pbs switches PBS off": ("#SBATCH -J s --ignore-pbs\n#PBS -N p", {"job-name": "s"}),
    "BSUB options are obeyed": ("#BSUB -J b -q cpu -W 5", {"job-name": "b", "partition": "cpu", "time": "5"}),
    "BSUB switches PBS off": ("#BSUB -J b\n#PBS -N p", {"job-name": "b"}),
    "PBS options without a counterpart are ignored": ("#PBS -j oe -V -r n -N p", {"job-name": "p"}),
    "PBS memory": ("#PBS -l nodes=1:ppn=2,mem=100mb", {"mem": "100mb", "nodes": "1"}),
}


@pytest.mark.parametrize(("text", "expected"), FOREIGN.values(), ids=FOREIGN.keys())
def test_lines_of_other_batch_systems(text: str, expected: dict[str, str]) -> None:
    read = header(text)
    assert read.problems == ()
    assert {name: read.job_name if name == "job-name" else read.value(name) for name in expected} == expected


def test_the_last_of_several_counts_and_the_file_names_the_job() -> None:
    read = header("#SBATCH -p a --partition=b\n#SBATCH -o x -e y -D /w -A acc --comment=c -a 1-3 -b now -t 9 -W -H")
    assert (read.job_name, *map(read.value, ("partition", "output", "error"))) == ("backup.slurm", "b", "x", "y")
    assert tuple(map(read.value, ("chdir", "account", "comment", "array"))) == ("/w", "acc", "c", "1-3")
    assert (read.value("begin"), read.value("time")) == ("now", "9")
    assert read.find("wait")
    assert read.find("hold")
    assert header("").value("output") is None
    assert not header("").find("hold")


def test_requeue_is_what_was_said_last() -> None:
    def said(options: str) -> str:
        return next((option.name for option in reversed(header(options).options)), "")

    assert said("") == ""
    assert said("#SBATCH --requeue --no-requeue") == "no-requeue"
    assert said("#SBATCH --no-requeue --requeue") == "requeue"


def test_a_heterogeneous_job_is_named_by_its_first_component() -> None:
    read = header("#SBATCH -J a\n#SBATCH hetjob\n#SBATCH -J b --gres=gpu:1")
    assert read.job_name == "a"
    assert read.wants_gpu


GPU = {
    "gres": ("--gres=gpu:1", True),
    "gres with a type": ("--gres=gpu:a100:2", True),
    "gres without a count": ("--gres=gpu", True),
    "gres among others": ("--gres=nvme:1,gres/gpu:1", True),
    "a share of a GPU": ("--gres=shard:1", True),
    "no GPU": ("--gres=gpu:0", False),
    "another gres": ("--gres=nvme:1", False),
    "a gres whose name holds gpu": ("--gres=nogpu:1", False),
    "gpus": ("--gpus=4", True),
    "-G": ("-G 4", True),
    "gpus with types": ("--gpus=v100:1,a100:0", True),
    "no gpus": ("--gpus=0", False),
    "gpus per node": ("--gpus-per-node=a100:1", True),
    "gpus per task": ("--gpus-per-task=1", True),
    "gpus per socket": ("--gpus-per-socket=1", True),
    "tres per task": ("--tres-per-task=cpu:2,gres/gpu:1", True),
    "what is taken back": ("--gres=gpu:1 --gres=none", False),
    "a constraint is no request": ("--constraint=gpu", False),
    "memory per GPU is no request": ("--mem-per-gpu=1G", False),
    "nothing": ("", False),
}


@pytest.mark.parametrize(("options", "expected"), GPU.values(), ids=GPU.keys())
def test_who_asks_for_a_gpu(options: str, expected: bool) -> None:  # noqa: FBT001 - a column of the table
    assert header(f"#SBATCH {options}").wants_gpu is expected


def test_pbs_accelerators_are_gpus() -> None:
    assert header("#PBS -l naccelerators=2").wants_gpu
    assert header("#PBS -l accelerator=True").wants_gpu
    assert not header("#PBS -l accelerator=false").wants_gpu


def test_bytes_that_are_no_utf8_survive() -> None:
    read = header(b"#!/bin/bash\n# caf\xe9\n#SBATCH -J caf\xe9\n")
    assert read.job_name.encode("utf-8", "surrogateescape") == b"caf\xe9"


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\x00\x00", b"#SBATCH", b"#CRON", b'#SBATCH "', b"\xff\xfe#\x00", b"#PBS", b"#BSUB -"]
)
def test_any_bytes_can_be_read(data: bytes) -> None:
    assert read_header(data, "x").job_name == "x"


LIMITS = {
    "30": 1800,
    "1:30": 90,
    "1:2:3": 3723,
    "1-2": 93600,
    "1-2:3": 93780,
    "1-2:3:4": 93784,
    "2-": 172800,
    "25:61:61": 93721,
    "0": None,
    "UNLIMITED": None,
    "infinite": None,
    "-1": None,
}


@pytest.mark.parametrize(("text", "seconds"), LIMITS.items(), ids=LIMITS.keys())
def test_a_scripts_time_limit_is_so_many_seconds(text: str, seconds: int | None) -> None:
    assert time_limit(text) == seconds


@pytest.mark.parametrize("text", ["1h", "5m", "1:2:3:4", "", "x", "1.5", "-", "1--2", "٣"])
def test_what_is_no_time_limit(text: str) -> None:
    with pytest.raises(ValueError):
        time_limit(text)


def test_an_option_does_not_take_the_component_separator_as_its_value() -> None:
    read = header("#SBATCH --job-name hetjob -t 5")
    assert [(p.code, p.line) for p in read.problems] == [("E203", 2)]
    assert read.value("time") is None


def test_two_dashes_end_the_options() -> None:
    assert header("#SBATCH -t 5 --").problems == ()
    read = header("#SBATCH -t 5 --\n#SBATCH -J a")
    assert [(p.code, p.line) for p in read.problems] == [("E205", 3)]  # one cause, one complaint
    assert read.job_name == "backup.slurm"
