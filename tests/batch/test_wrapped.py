"""The text that is submitted where a batch system hands its jobs neither arguments nor an environment."""

from __future__ import annotations

import os
import subprocess  # noqa: TID251 - what the batch system would start
from pathlib import Path

import pytest

from cronhpc.batch.commands import wrapped_text
from cronhpc.batch.port import Refused, Submission

pytestmark = pytest.mark.processes

# What it tells of itself, a line each.
SCRIPT = """#!/bin/bash
printf '<%s>' "$@" "${VALUE-none}" "${TMPDIR-none}" "$PWD" "$UID"; ! type hello >/dev/null 2>&1 || hello
"""


def started(folder: Path, environment: dict[str, str], *arguments: str, **own: str) -> str:
    """What the script prints, started with nothing but the text, by a system that gives its jobs variables `own`."""
    script = folder / "run.slurm"
    script.write_text(SCRIPT, encoding="utf-8")
    (folder / "it's work").mkdir()
    job = Submission(str(script), arguments, chdir=str(folder / "it's work"))
    text = wrapped_text(job, environment)
    environ = {"PATH": "/usr/bin:/bin", **own}
    done = subprocess.run(
        ["bash"], input=text, env=environ, cwd="/", capture_output=True, text=True, timeout=90, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), text
    return done.stdout


@pytest.mark.parametrize(
    "text",
    ["plain", "two\nlines", 'it\'s "quoted"', "a,b=c $HOME `id` \\ !", "", "-n", "*"],
    ids=["plain", "lines", "quotes", "what a shell would read", "empty", "like an option", "a pattern"],
)
def test_arguments_and_variables_arrive_as_they_are(tmp_path: Path, text: str) -> None:
    told = started(tmp_path, {"VALUE": text}, "first", text)
    assert told.startswith(f"<first><{text}><{text}><none><{tmp_path}/it's work>")


def test_a_script_without_arguments_has_none_of_the_shells(tmp_path: Path) -> None:
    assert started(tmp_path, {}).startswith("<none><none>")


def test_functions_that_a_shell_exports_come_along(tmp_path: Path) -> None:
    """Sites keep `module` so."""
    assert started(tmp_path, {"BASH_FUNC_hello%%": "() {  echo 'hello there'\n}"}).endswith("hello there\n")


def test_the_scratch_folder_that_a_job_has_stays(tmp_path: Path) -> None:
    assert "<none></of/job>" in started(tmp_path, {"TMPDIR": "/mine"}, TMPDIR="/of/job")


def test_what_a_shell_cannot_set_is_left_out(tmp_path: Path) -> None:
    unset = {"UID": "7", "SHELLOPTS": "xtrace", "a.b": "1", "BASH_FUNC_x%%": "no function", "é": "1"}
    printed = started(tmp_path, {**unset, "VALUE": "1"})
    assert printed == f"<1><none><{tmp_path}/it's work><{os.getuid()}>"


def test_a_script_that_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"/gone: cannot be read \(No such file"):
        wrapped_text(Submission(f"{tmp_path}/gone"), {})
