"""The tables of test_header.py and test_lint.py put to the real sbatch: it reads and refuses as we say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cronhpc.script.header import read_header
from tests.check.test_lint import FIRST_LINES, SITUATIONS, TOP, verdicts
from tests.lab.conftest import Lab
from tests.script.test_header import FOREIGN, READ, REFUSED

pytestmark = pytest.mark.lab

NOT_IN_EVERY_SLURM = {"options of newer versions are options", "a plugin's option is left alone"}
SHOWN = ("job-name", "comment", "partition", "error", "output", "account")
# The first is misspelt, but to sbatch a value like any other; of the second it prints half a character.
NOT_ASKED = {"a value is missing and taken from the next line", "dashes that are no minus signs"}
# Of the table of 22.05, what other releases judge the other way; by release, as tried on them.
OTHERWISE = {
    "20.11": {
        "--core-spec=1 --thread-spec=1",
        "--distribution=arbitrary",
        "--distribution=block,foo",
        "--gres=",
        "--ntasks-per-gpu=1",
    },
    "24.11": {"--gres-flags=", "--gres=", "--cpu-freq=1-2-3", '--dependency="afterok: 1"', "--dependency=AFTEROK:1"},
}


def ask(lab: Lab, folder: Path, data: bytes) -> tuple[bool, dict[str, str], str]:
    """Whether sbatch takes the script, what it read, and what it said."""
    script = folder / "backup.slurm"
    script.write_bytes(data)
    done = lab.run(["sbatch", "-v", "--test-only", str(script)], check=False, cwd="/")
    read = dict(re.findall(r"^sbatch: ([a-z-]+) +: (.*)$", done.stderr, re.MULTILINE))
    return done.returncode == 0, read, done.stderr


@pytest.mark.parametrize("name", sorted((READ.keys() | FOREIGN.keys()) - NOT_IN_EVERY_SLURM))
def test_sbatch_reads_what_we_read(lab: Lab, tmp_path: Path, name: str) -> None:
    text = (READ.get(name) or FOREIGN[name])[0]
    data = f"{TOP}{text}\n".encode()
    header = read_header(data, "backup.slurm")
    _, read, said = ask(lab, tmp_path, data)
    assert "defined options" in said, said
    for option in SHOWN:
        mine = header.value(option)
        theirs = read.get(option)
        if mine and option in {"output", "error"}:  # sbatch shows whole paths
            theirs = (theirs or "")[-len(mine) :]
        assert theirs == mine, said
    assert ("hold" in read) == (header.find("hold") is not None)


@pytest.mark.parametrize("name", sorted(REFUSED.keys() - NOT_ASKED))
def test_sbatch_refuses_what_we_say_it_refuses(lab: Lab, tmp_path: Path, name: str) -> None:
    taken, _, said = ask(lab, tmp_path, f"{TOP}{REFUSED[name][0]}\n".encode())
    assert not taken, said


@pytest.mark.parametrize("name", sorted(FIRST_LINES))
def test_sbatch_refuses_such_first_lines(lab: Lab, tmp_path: Path, name: str) -> None:
    taken, _, said = ask(lab, tmp_path, FIRST_LINES[name][0])
    assert not taken, said


ERRORS = sorted(n for n, (_, code, *_) in SITUATIONS.items() if code.startswith("E2") and code != "E230")  # the shell's


@pytest.mark.parametrize("name", ERRORS)
def test_check_calls_an_error_what_sbatch_refuses(lab: Lab, tmp_path: Path, name: str) -> None:
    taken, _, said = ask(lab, tmp_path, f"{TOP}{SITUATIONS[name][0]}".encode())
    assert not taken, said


@pytest.mark.parametrize("verdict", ["refused", "taken"])
def test_sbatch_judges_values_as_the_table_says(lab: Lab, tmp_path: Path, verdict: str) -> None:
    asked = {line for said, line in verdicts() if said == verdict}
    otherwise = OTHERWISE.get(lab.facts["version"].rpartition(".")[0], set())
    assert {
        line for line in asked if ask(lab, tmp_path, f"{TOP}#SBATCH {line}\n".encode())[0] == (verdict == "refused")
    } == asked & otherwise
