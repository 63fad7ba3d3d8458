"""The shelf as a whole: what every ready-made job must be, its README, and `cronhpc add`."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from cronhpc.check.lint import lint_script
from cronhpc.cli import ready_made
from cronhpc.core.model import Settings
from cronhpc.script.dialect import GRID_ENGINE, LSF, PBS, SLURM, SYSTEMS, Dialect
from cronhpc.script.header import read_header
from cronhpc.script.sbatch_options import time_limit
from cronhpc.store.files import Paths
from tests.cli.test_cli import NOW, Shell, later
from tests.ready_made_jobs import JOBS, LIB, SCRIPTS, bare_environment, environment, filled_in, run, stand_in

NAMES = [path.stem for path in SCRIPTS]
EXAMPLES = sorted(path for path in (JOBS / "examples").iterdir() if path.is_file())
MODULES = sorted(LIB.glob("*.py"))
FIRST_SETTING = re.compile(r"^[A-Z_]+=", re.MULTILINE)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    one = Shell(tmp_path)
    made = one("init", "--backend", "local")
    assert made.code == 0, made.err
    return one


# --- every script --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SCRIPTS, ids=NAMES)
def test_check_has_nothing_to_say(path: Path) -> None:
    runs = {job.name: job.runs for job in ready_made.jobs()}[path.stem]
    times = {"hourly": "17 * * * *", "half-hourly": "*/30 * * * *"}.get(runs, "17 4 * * *")
    scheduled = runs != "by itself"
    assert lint_script(path.name, path.read_bytes(), folder_schedule=times, scheduled=scheduled) == ()


@pytest.mark.parametrize("path", SCRIPTS, ids=NAMES)
def test_its_first_lines_say_what_it_does_when_and_what_to_edit(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    job = next(job for job in ready_made.jobs() if job.path == path)
    for setting in re.findall(r"\b[A-Z][A-Z_]+\b", job.edit):
        assert re.search(rf"^{setting}=", text, re.MULTILINE), f"{setting} is to be edited, and is not there"
    assert "Exit codes: 0 " in text[: text.index("#SBATCH")]


@pytest.mark.parametrize("path", SCRIPTS, ids=NAMES)
def test_below_the_settings_nothing_is_to_be_edited_and_the_way_to_lib_is_everywhere_the_same(path: Path) -> None:
    head, mark, tail = path.read_text(encoding="utf-8").partition("# --- nothing to edit from here on ---\n")
    assert mark
    assert FIRST_SETTING.search(head), "its settings stand at the top"
    assert not FIRST_SETTING.search(tail.replace("PATH=", ""))
    if "$lib" in tail:
        assert tail.startswith(LIB_TAIL)


LIB_TAIL = (
    (JOBS / "quota-watch.slurm")
    .read_text(encoding="utf-8")
    .partition("from here on ---\n")[2]
    .partition("need_python")[0]
)


@pytest.mark.parametrize("path", SCRIPTS, ids=NAMES)
def test_its_options_are_those_of_a_chore(path: Path) -> None:
    header = read_header(path.read_bytes(), path.name)
    assert header.job_name == path.stem
    assert [each.name for each in header.options if each.name.endswith("requeue")][-1:] == ["no-requeue"]
    assert header.value("open-mode") == "append"
    assert header.value("time")
    if not header.wants_gpu and path.stem != "train-chain":
        assert header.value("partition") is None, "which one is the cron directory's settings' to say"
        assert header.value("ntasks") == "1"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_what_it_imports_is_in_the_standard_library_of_every_python_since_3_9(path: Path) -> None:
    own = {module.stem for module in MODULES}
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            first = name.partition(".")[0]
            assert first in own or first in sys.stdlib_module_names or (path.stem, first) in PAYLOAD, name


PAYLOAD = {("nccl_allreduce", "torch")}  # what it measures


@pytest.mark.processes
@pytest.mark.parametrize("path", SCRIPTS, ids=NAMES)
def test_without_python_or_its_tool_it_ends_with_2_and_a_word(path: Path, tmp_path: Path) -> None:
    environ = bare_environment(tmp_path)
    (tmp_path / "bin/python3").unlink()
    lib = tmp_path / "lib"
    shutil.copytree(LIB, lib)
    start = lib / "start.sh"
    start.write_text(start.read_text(encoding="utf-8").replace("/usr/bin/python3", ""), encoding="utf-8")
    script = tmp_path / path.name
    script.write_text(without_sbin(path.read_text(encoding="utf-8")), encoding="utf-8")
    ended = run(script, {**environ, "CRONHPC_JOBS_LIB": str(lib)})
    assert ended.code == 2, ended.out
    assert re.match(r"broken: \S+ .*it comes with .*(package|pip)", ended.last)


def without_sbin(text: str) -> str:
    return text.replace("PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin", "")


MISSING = {
    "quota": ("quota-watch", {"TOOL": "quota"}, "the package quota"),
    "squeue": ("training-watch", {"WATCH": "(x)"}, "the package slurm-client"),
    "rsync": ("backup", {"SOURCES": "($HOME)", "TARGET": "$HOME/bin"}, "the package rsync"),
    "nvidia-smi": ("gpu-health", {}, "NVIDIA's driver"),
    "sinfo": ("node-report", {}, "the package slurm-client"),
    "sacct": ("efficiency-report", {}, "the package slurm-client"),
    "srun": ("nccl-check", {"ENABLED": "yes"}, "the package slurm-client"),
    "hf": ("hub-sync", {"FOLDER": "$HOME", "REPO": "me/x"}, "pip install huggingface_hub"),
    "wandb": ("wandb-sync", {"FOLDERS": "($HOME)"}, "pip install wandb"),
    "updatedb": ("mlocate-update", {}, "the package plocate"),
    "cronhpc": ("train-chain", {"TRAIN": "(true)"}, "pip install cronhpc"),
    "git": ("git-mirror", {"REPOS": "(x)", "FOLDER": "$HOME"}, "the package git"),
    "wget": ("dataset-fetch", {"URLS": "(x)", "FOLDER": "$HOME"}, "the package wget"),
    "aria2c": ("dataset-fetch", {"URLS": "(x)", "FOLDER": "$HOME", "TOOL": "aria2c"}, "the package aria2c"),
    "sqlite3": ("database-dump", {"DATABASE": "x", "FOLDER": "$HOME"}, "the package sqlite3"),
    "pg_dump": ("database-dump", {"KIND": "postgres"}, "the package postgresql-client"),
    "mysqldump": ("database-dump", {"KIND": "mysql"}, "the package mariadb-client"),
    "pip": ("cache-clean", {}, "the package python3-pip"),
    "kinit": ("kerberos-renew", {}, "the package krb5-user"),
    "papermill": ("notebook-run", {"NOTEBOOK": "$HOME/x"}, "pip install papermill"),
    "cronhpc, for a digest": ("weekly-digest", {}, "pip install cronhpc"),
    "sshare": ("fair-share", {}, "the package slurm-client"),
    "jupyter": ("jupyter-keep", {}, "pip install jupyterlab"),
    "ssh": ("tunnel-keep", {"HOST": "x"}, "the package openssh-client"),
    "snakemake": ("workflow-run", {"FOLDER": "$HOME"}, "pip install snakemake"),
    "nextflow": ("workflow-run", {"FOLDER": "$HOME", "TOOL": "nextflow"}, "https://www.nextflow.io"),
    "rclone": ("backup", {"SOURCES": "($HOME)", "TARGET": "remote:x", "TOOL": "rclone"}, "the package rclone"),
}


@pytest.mark.processes
@pytest.mark.parametrize(("job", "settings", "package"), MISSING.values(), ids=MISSING)
def test_a_missing_tool_is_exit_2_with_the_package_that_brings_it(
    tmp_path: Path, job: str, settings: dict[str, str], package: str
) -> None:
    script = filled_in(job, tmp_path, **settings)
    script.write_text(without_sbin(script.read_text(encoding="utf-8")), encoding="utf-8")
    ended = run(script, bare_environment(tmp_path))
    assert ended.code == 2, ended.out
    assert package in ended.out
    assert "Traceback" not in ended.out


@pytest.mark.processes
@pytest.mark.parametrize("path", SCRIPTS, ids=NAMES)
def test_as_it_is_it_ends_in_a_word_and_never_in_a_stack_trace(path: Path, tmp_path: Path) -> None:
    ended = run(path, environment(tmp_path))
    assert ended.code in {0, 1, 2}
    assert ended.out
    assert "Traceback" not in ended.out
    if ended.code == 2:
        assert ended.last.startswith("broken: ")


@pytest.mark.processes
def test_without_its_lib_a_job_says_how_to_get_it(tmp_path: Path) -> None:
    copy = tmp_path / "quota-watch.slurm"
    shutil.copy(JOBS / "quota-watch.slurm", copy)
    ended = run(copy, {"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    assert (ended.code, ended.out) == (
        2,
        f"broken: there is no {tmp_path}/lib/start.sh: take this job with 'cronhpc add'\n",
    )


@pytest.mark.processes
@pytest.mark.parametrize("link", [False, True], ids=["its own path", "a link to it"])
def test_inside_a_job_it_finds_its_lib_by_the_path_that_slurm_knows(tmp_path: Path, *, link: bool) -> None:
    script = JOBS / "quota-watch.slurm"
    known = tmp_path / "linked.slurm" if link else script
    if link:
        known.symlink_to(script)
    stand_in(tmp_path, "scontrol", f'[ "$*" = "show job 7" ] && echo "   Command={known}"')
    spooled = tmp_path / "slurm_script"
    shutil.copy(script, spooled)
    environ = environment(tmp_path, SLURM_JOB_ID="7", XDG_STATE_HOME=str(tmp_path / "state"))
    del environ["CRONHPC_JOBS_LIB"]
    assert run(spooled, environ).code in {0, 1}


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.suffix == ".slurm"], ids=lambda path: path.stem)
def test_check_has_nothing_to_say_of_an_example(path: Path) -> None:
    """They are submitted by hand: one is the script of a series."""
    assert lint_script(path.name, path.read_bytes(), folder_schedule="17 4 * * *", scheduled=False) == ()


# --- the README ----------------------------------------------------------------------------------------------------


def readme_rows() -> dict[str, list[str]]:
    text = (JOBS / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[([\w-]+)\]\(([\w-]+)\.slurm\) \| (.+) \|$", text, re.MULTILINE)
    assert all(name == target for name, target, _ in rows)
    return {name: rest.split(" | ") for name, _, rest in rows}


def test_the_readme_has_one_row_a_job() -> None:
    assert sorted(readme_rows()) == NAMES


def test_the_readme_names_every_example_and_none_that_is_not_there() -> None:
    text = (JOBS / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(examples/([\w.-]+)\)", text)) == {path.name for path in EXAMPLES}
    rows = dict(re.findall(r"^\| \[([\w-]+)\]\(examples/.*\) \| (.+) \|$", text, re.MULTILINE))
    assert rows == {example.name: example.what for example in ready_made.examples()}


@pytest.mark.parametrize("name", NAMES)
def test_its_row_says_what_it_does_when_and_how_long(name: str) -> None:
    what, runs, limit, *_ = readme_rows()[name]
    job = next(job for job in ready_made.jobs() if job.name == name)
    header = read_header(job.path.read_bytes(), job.path.name)
    assert (what, runs) == (job.what, job.runs)
    number, unit = limit.split(" ")
    assert time_limit(header.value("time") or "") == int(number) * {"h": 3600, "min": 60}[unit]


# --- cronhpc add ---------------------------------------------------------------------------------------------------


def test_add_lists_every_job_with_its_cadence_and_one_line(shell: Shell) -> None:
    said = shell("add")
    assert said.code == 0
    for job in ready_made.jobs():
        assert any(re.split("  +", line) == [job.name, job.runs, job.what] for line in said.out.splitlines())
    assert [row["name"] for row in shell("add", "--json").json["jobs"]] == NAMES


def test_add_lists_every_example_with_what_it_shows(shell: Shell) -> None:
    said = shell("add")
    for example in ready_made.examples():
        assert any(re.split("  +", line) == [example.name, example.what] for line in said.out.splitlines())
    listed = [(row["name"], row["what"]) for row in shell("add", "--json").json["examples"]]
    assert listed == [(example.name, example.what) for example in ready_made.examples()]
    assert {path.name for path in EXAMPLES} - {example.path.name for example in ready_made.examples()} == {"train.py"}


@pytest.mark.parametrize("name", [example.name for example in ready_made.examples()])
def test_an_example_is_copied_with_what_it_needs_and_is_no_entry(shell: Shell, name: str) -> None:
    """No path of the installation is left in it: an upgrade removes that."""
    facts = shell("add", name, "--json").json
    path = Path(facts["path"])
    assert (path.parent, facts["entry"]) == (shell.cron / "examples" / name, None)
    text = path.read_text(encoding="utf-8")
    assert "CRONHPC_JOBS_LIB:-" not in text
    assert str(JOBS) not in text
    assert "train.py" not in text or (path.parent / "train.py").is_file()
    for lib in re.findall(r"\S*/lib/jobs-\w+", text):
        assert Path(lib.partition("=")[2] or lib, "shelf.py").is_file()
    assert os.access(path, os.X_OK)
    assert shell("status", "--json", now=later()).json["entries"] == []
    assert shell("check", now=later()).code == 0


def test_an_example_may_have_another_name_and_is_found_by_its_file_name(shell: Shell) -> None:
    path = Path(shell("add", "pytorch.slurm", "--as", "mine", "--json").json["path"])
    assert path == shell.cron / "examples/mine/mine.slurm"
    assert read_header(path.read_bytes(), "").job_name == "mine"
    assert sorted(each.name for each in path.parent.iterdir()) == ["mine.slurm", "train.py"]


def test_the_list_fits_a_terminal(shell: Shell) -> None:
    said = shell("add", terminal=True, width=80)
    assert all(len(line) <= 80 for line in said.out.splitlines() if line)
    assert "…" not in said.out


@pytest.mark.processes
@pytest.mark.parametrize("name", NAMES)
def test_what_is_added_is_an_entry_that_check_has_nothing_to_say_of(shell: Shell, name: str) -> None:
    said = shell("add", name)
    assert said.code == 0, said.err
    job = next(job for job in ready_made.jobs() if job.name == name)
    assert not job.edit or job.edit in said.out
    assert shell("check", now=later()).out == "nothing to fix\n"
    facts = shell("add", name, "--as", "another", "--json").json
    assert facts["entry"] == ("another" if job.is_entry else None)
    assert read_header(Path(facts["path"]).read_bytes(), "").job_name == "another"


@pytest.mark.processes
def test_a_job_goes_into_the_folder_of_its_cadence(shell: Shell) -> None:
    shell("add", "quota-watch")
    shell("add", "backup")
    assert (shell.cron / "cron.hourly/quota-watch.slurm").is_file()
    assert (shell.cron / "cron.daily/backup.slurm").is_file()


@pytest.mark.processes
def test_with_a_schedule_it_goes_into_cron_d_with_a_cron_line(shell: Shell) -> None:
    said = shell("add", "backup.slurm", "--schedule", "30 3 * * mon-fri  --retries=2", "--as", "nightly")
    path = shell.cron / "cron.d/nightly.slurm"
    header = read_header(path.read_bytes(), path.name)
    assert header.cron is not None
    assert (header.cron.schedule, header.cron.policies[0][:2]) == ("30 3 * * mon-fri", ("retries", "2"))
    assert "cronhpc run nightly" in said.out


@pytest.mark.processes
def test_what_was_added_runs_from_where_it_lies_and_keeps_its_own_lib(shell: Shell) -> None:
    path = Path(shell("add", "quota-watch", "--json").json["path"])
    environ = environment(shell.home, XDG_STATE_HOME=str(shell.home / "state"))
    del environ["CRONHPC_JOBS_LIB"]
    ended = run(path, environ)
    assert ended.code in {0, 1}, ended.out
    assert "% full" in ended.out


REFUSED = {
    "no such job": (["add", "quota-wach"], "Did you mean quota-watch?"),
    "a name that is taken": (["add", "quota-watch", "--as", "there"], "already: cron.daily/there.slurm"),
    "a name that is a path": (["add", "quota-watch", "--as", "../x"], "a name has letters"),
    "a schedule that is none": (["add", "quota-watch", "--schedule", "0/15 * * * *"], "Write */15."),
    "a policy that is none": (["add", "quota-watch", "--schedule", "@daily --retry=2"], "--retry"),
    "a schedule of two lines": (["add", "quota-watch", "--schedule", "@daily\n#SBATCH --time=1"], "on one line"),
    "a name without a job": (["add", "--as", "x"], "which job?"),
    "an example with a schedule": (["add", "pytorch", "--schedule", "@daily"], "is an example, and has no schedule"),
    "no such example": (["add", "pytorhc"], "Did you mean pytorch?"),
}


@pytest.mark.parametrize(("arguments", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_added_is_refused_and_nothing_is_written(shell: Shell, arguments: list[str], words: str) -> None:
    shell.drop("cron.daily/there.slurm")
    before = sorted(shell.cron.rglob("*"))
    said = shell(*arguments)
    assert (said.code, said.out) == (2, "")
    assert words in said.err
    assert sorted(shell.cron.rglob("*")) == before


OTHERS = [each for each in SYSTEMS if each.prefix != SLURM.prefix]


@pytest.mark.parametrize("dialect", OTHERS, ids=lambda each: each.name)
def test_a_job_for_another_batch_system_has_its_head(shell: Shell, dialect: Dialect) -> None:
    here = [job for job in ready_made.jobs() if not ready_made.lacking(job, dialect)]
    for job in here:
        paths = Paths(shell.cron)
        copy = ready_made.copy_of(job, paths, Settings(), name=job.name, schedule="@daily", dialect=dialect)
        header = read_header(copy.script, job.name, dialect)
        assert (header.job_name, b"\n#SBATCH" in copy.script) == (job.name, False)
        assert header.value("time"), "its limit"
        head = copy.script.decode().partition("\n\n")[0] + job.edit
        assert not re.search("sbatch|squeue|scontrol", head, re.IGNORECASE), "a word of Slurm's"
        assert (header.cron and header.cron.schedule) == "@daily"
        found = lint_script(job.path.name, copy.script, dialect=dialect)
        assert {each.code for each in found} <= ({"W302"} if "cronhpc again" in copy.script.decode() else set())
    assert {"backup", "log-cleanup", "quota-watch", "tunnel-keep"} <= {job.name for job in here}


@pytest.mark.parametrize(
    ("name", "dialect", "why"),
    [
        pytest.param("fair-share", GRID_ENGINE, "it asks Slurm (sshare)", id="a command of Slurm's"),
        pytest.param("stall-watch", GRID_ENGINE, "it asks Slurm (squeue)", id="another"),
        pytest.param("array-train", PBS, "it asks Slurm ($SLURM_ARRAY_TASK_ID)", id="a variable of Slurm's"),
        pytest.param("train-chain", LSF, "does not say where the script lies", id="a series"),
    ],
)
def test_a_job_that_needs_slurm_is_not_added_elsewhere(shell: Shell, name: str, dialect: Dialect, why: str) -> None:
    job = next(each for each in (*ready_made.jobs(), *ready_made.examples()) if each.name == name)
    with pytest.raises(ready_made.AddError) as error:
        ready_made.copy_of(job, Paths(shell.cron), Settings(), name=name, schedule="", dialect=dialect)
    assert why in str(error.value)
    assert "Nothing was added" in str(error.value)


@pytest.mark.processes
def test_nothing_is_ever_overwritten(shell: Shell) -> None:
    path = Path(shell("add", "quota-watch", "--json").json["path"])
    path.write_text("#!/bin/bash\necho mine\n", encoding="utf-8")
    assert shell("add", "quota-watch").code == 2
    assert path.read_text(encoding="utf-8") == "#!/bin/bash\necho mine\n"


@pytest.mark.processes
def test_a_lib_that_was_changed_by_hand_is_kept_and_said(shell: Shell) -> None:
    shell("add", "quota-watch")
    lib = next((shell.cron / "lib").iterdir()) / "shelf.py"
    lib.write_text("# mine\n", encoding="utf-8")
    said = shell("add", "backup")
    assert said.code == 2
    assert "has been changed" in said.err
    assert lib.read_text(encoding="utf-8") == "# mine\n"


@pytest.mark.processes
def test_another_version_of_the_lib_lies_beside_the_first(shell: Shell, tmp_path: Path) -> None:

    newer = tmp_path / "newer"
    shutil.copytree(JOBS, newer)
    (newer / "lib/shelf.py").write_text("# a newer one\n", encoding="utf-8")
    shell("add", "quota-watch")
    job = next(job for job in ready_made.jobs(newer) if job.name == "backup")
    ready_made.write(ready_made.copy_of(job, Paths(shell.cron), Settings(), name="backup", schedule=""))
    assert len(list((shell.cron / "lib").iterdir())) == 2


def test_without_a_cron_directory_they_can_still_be_listed(tmp_path: Path) -> None:
    one = Shell(tmp_path)
    assert one("add", now=NOW).code == 0
    assert one("add", "backup").code == 2
