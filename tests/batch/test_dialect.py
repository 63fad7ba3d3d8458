"""One value a batch system says what it calls things: no other place asks which system it is."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cronhpc.batch import around, dialect_of, job_around, present
from cronhpc.core.model import Settings, Way, cancelling
from cronhpc.script.dialect import DIALECTS, LOCAL, SLURM
from cronhpc.store import scheduler
from cronhpc.store.files import Paths

PACKAGE = Path(__file__).resolve().parents[2] / "cronhpc"
HOME = ("batch/", "script/dialect.py")

# Variables of Slurm's that are still spelt elsewhere, and how often: what reads Slurm's scripts (check,
# script/shell_text.py), what runs in Slurm's jobs (inside, doctor/look.py), words of help.
SPELT = {
    "check/lint_shell.py": 7,
    "cli/check.py": 1,
    "cli/in_jobs.py": 1,
    "doctor/look.py": 12,
    "engine/link.py": 1,
    "inside/guard.py": 14,
    "script/shell_text.py": 4,
}
# The word has another meaning there: a disk that is local, and what could call ticks on a machine.
OTHER_MEANING = {"disk.reach == 'local'", "reach(kind_of(path)) in {'local', 'memory'}", "beat.name != 'scrontab'"}


def trees() -> Iterator[tuple[str, ast.AST]]:
    """The modules outside batch/ and the dialects."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(HOME):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


NAMES = {*DIALECTS, *Way} - {""}
NAMED = {*(name.upper() for name in DIALECTS), "Way"}


def comparisons(tree: ast.AST) -> Iterator[str]:
    """Those with the name of a batch system or of who calls the ticks, or with a dialect or `Way` itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            parts = [each for side in sides for each in (getattr(side, "elts", None) or [side])]
            parts = [each.value if isinstance(each, ast.Attribute) else each for each in parts]  # SLURM.prefix
            if any(isinstance(each, ast.Constant) and each.value in NAMES for each in parts) or any(
                isinstance(each, ast.Name) and each.id in NAMED for each in parts
            ):
                yield ast.unparse(node)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("if backend == 'slurm': pass", 1, id="by its name"),
        pytest.param("x = site.batch.dialect.name != 'local'", 1, id="by the name of its dialect"),
        pytest.param("if backend in ('slurm', 'local'): pass", 1, id="by one of several names"),
        pytest.param("if site.batch.dialect is SLURM: pass", 1, id="by the dialect itself"),
        pytest.param("if dialect.prefix != PBS.prefix: pass", 1, id="by what only one of them has"),
        pytest.param("if how.via == 'daemon': pass", 1, id="who calls the ticks, by name"),
        pytest.param("if how.via in {Way.CHAIN, Way.DAEMON}: pass", 1, id="who calls the ticks, by its row"),
        pytest.param("if how.via.links: pass", 0, id="what follows from that may be asked"),
        pytest.param("if site.batch.dialect.runs_here: pass", 0, id="what it says of itself may be asked"),
    ],
)
def test_a_place_that_asks_for_a_name_is_found(text: str, found: int) -> None:
    assert len(list(comparisons(ast.parse(text)))) == found


@pytest.mark.thorough
def test_no_place_outside_batch_asks_which_batch_system_it_is_or_who_calls_the_ticks() -> None:
    asked = {f"{name}: {each}" for name, tree in trees() for each in comparisons(tree) if each not in OTHER_MEANING}
    assert asked == set()


@pytest.mark.thorough
def test_variables_of_a_batch_system_are_spelt_in_its_dialect() -> None:
    spelt: Counter[str] = Counter()
    for name, tree in trees():
        statements = (node for node in ast.walk(tree) if isinstance(node, ast.Expr))
        prose = {id(node.value) for node in statements}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
                spelt[name] += len(re.findall(r"\b_?(?:SLURMD?|SBATCH|SQUEUE|SCANCEL|SACCT|SCONTROL)_\w*", node.value))
    assert {name: count for name, count in spelt.items() if count > SPELT.get(name, 0)} == {}


# Slurm's own commands and options in a text that another system's user could read.
OF_SLURM = re.compile(
    r"(?<![\w./`-])(?:sbatch(?!:)|squeue|scancel|scontrol|sacct|sinfo|srun|salloc|#SBATCH|Slurm)(?![\w-])"
    r"|(?<![\w-])--(?:time|mem|chdir|requeue|no-requeue|begin|hold|job-name|test-only|exclude|output|array)\b"
)
# Where such words are meant: what only Slurm's users are shown, and why.
MEANT = {
    "script/directives.py": "how sbatch reads its own lines",
    "script/shell_text.py": "patterns",
    "check/lint.py": "the reference's table, of which some rows are of Slurm's lines alone",
    "check/lint_directives.py": "after the branch for other systems, whose values `spelling.fault` judges",
    "check/lint_shell.py": "of --signal, which no other system has, of a script that calls sbatch or squeue",
    "doctor/": "it examines Slurm; other systems get the rows of `_other_system`",
    "core/chain.py": "of partitions, which only Slurm tells",
    "engine/link.py": "scrontab is Slurm's",
    "importer/scrontab.py": "scrontab is Slurm's",
    "views/decisions.py": "scrontab is Slurm's",
    "store/schema.py": "options of settings have sbatch's names on each system",
    "store/settings_reader.py": "options of settings have sbatch's names on each system",
    "store/scheduler.py": "a comment in the link's text",
    "script/sbatch_options.py": "what sbatch refuses",
    "cli/change.py": "which jobs ask Slurm",
    "cli/entries.py": "a key of the settings",
    "cli/ready_made.py": "which jobs ask Slurm",
    "cli/check.py": "help of --online, which Slurm alone has",
    "cli/commands.py": "it names all systems",
    "cli/in_jobs.py": "examples",
    "cli/reference.py": "a table of settings and variables with Slurm's as examples",
    "cli/setup.py": "how Slurm's commands are loaded, and all others'",
    "core/model/entries.py": "examples of settings",
}


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The literals of several words that are no docstrings, without what is filled in."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inner = {id(each) for node in joined for each in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(str(each.value) for each in node.values if isinstance(each, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (prose | inner):
            yield node.lineno, node.value


@pytest.mark.thorough
def test_no_text_that_is_shown_on_another_system_has_slurms_words() -> None:
    said = {
        f"{name}:{line}: {text}"
        for name, tree in trees()
        if not any(name.startswith(each) for each in MEANT)
        for line, text in texts(tree)
        if " " in text and OF_SLURM.search(text)
    }
    assert said == set()


@pytest.mark.parametrize(
    ("environment", "system", "job"),
    [
        pytest.param({}, None, "", id="outside of jobs"),
        pytest.param({"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "c"}, SLURM, "7", id="in a job of Slurm's"),
        pytest.param({"SLURM_JOB_ID": "7"}, None, "7", id="in a job of the local backend, which imitates Slurm's"),
    ],
)
def test_which_job_is_around_us(environment: dict[str, str], system: object, job: str) -> None:
    assert around(environment) is system
    assert job_around(environment) == job


def test_nothing_is_present_without_commands(tmp_path: Path) -> None:
    assert present({"PATH": str(tmp_path)}) is None
    assert dialect_of("", Settings(), {"PATH": str(tmp_path)}) is LOCAL


def test_a_batch_system_once_found_is_remembered_by_its_name(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.scheduler.mkdir()
    assert scheduler.batch_system_found(paths) == ""
    scheduler.remember_batch_system(paths, SLURM)
    assert [each.name for each in paths.scheduler.iterdir()] == ["on-slurm"]
    assert scheduler.batch_system_found(paths) == "slurm"


def test_a_job_is_cancelled_by_the_systems_command_and_where_there_is_none_by_ours() -> None:
    assert cancelling(SLURM, "7", "8") == "scancel 7 8"
    assert cancelling(LOCAL, "7", "8") == "cronhpc kill 7 8"
