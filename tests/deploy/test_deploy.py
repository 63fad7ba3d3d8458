"""What lies in deploy/, jobs/ and .ci/: each file by its kind, and the shell that environments are made with."""

from __future__ import annotations

import ast
import configparser
import itertools
import os
import re
import shutil
import stat
import subprocess  # noqa: TID251 - these are programs of their own, tried as a user would
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from cronhpc.script.header import read_header

TOP = Path(__file__).resolve().parents[2]
DEPLOY = TOP / "deploy"
FILES = sorted(
    path
    for folder in (DEPLOY, TOP / "jobs", TOP / ".ci")
    for path in folder.rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
)
SHELL_NAMES = {".sh", ".bash", ".slurm"}
UNITS = {".service", ".timer"}
DATA = {".md", ".yaml", ".txt", ".json", ".toml"}  # test_docs.py reads the first; what uses the others has tests
A_SHELL = re.compile(rb"#!.*[/ ](ba|da|k)?sh\b")
A_PYTHON = re.compile(rb"#!.*\bpython3?\b")


def shown(path: Path) -> str:
    return str(path.relative_to(TOP))


def kind(path: Path) -> str:
    first = path.read_bytes().partition(b"\n")[0]
    if path.suffix in SHELL_NAMES or A_SHELL.match(first):
        return "shell"
    if path.suffix == ".py" or A_PYTHON.match(first):
        return "python"
    if path.name == ".shellcheckrc":  # the check of shell files reads it
        return "data"
    return "unit" if path.suffix in UNITS else "data" if path.suffix in DATA else ""


def run(*argv: str | Path, env: dict[str, str] | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("CRONHPC_", "PIP_"))}
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=60, check=False, env={**clean, **(env or {})}, stdin=-3
    )
    assert not (check and done.returncode), f"{argv}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def lib(commands: str, *argv: str | Path, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    """Run shell `commands` with deploy/lib.sh read in; `argv` are its $1 and so on."""
    return run("bash", "-uc", f'source "{DEPLOY}/lib.sh"\n{commands}', "lib", *argv, env=env, check=check)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


# --- every file


@pytest.mark.processes
@pytest.mark.parametrize("path", FILES, ids=shown)
def test_a_file_is_of_a_kind_that_is_checked(path: Path) -> None:
    name = kind(path)
    if name == "shell":
        run("bash", "-n", path)
    elif name == "python":
        ast.parse(path.read_bytes())
    elif name == "unit":
        configparser.ConfigParser(strict=False, interpolation=None).read_string(path.read_text(encoding="utf-8"))
    assert name, f"{shown(path)}: no test knows this kind of file"


def test_a_ready_made_job_says_nothing_that_sbatch_or_cronhpc_would_refuse() -> None:
    jobs = [path for path in FILES if path.suffix == ".slurm"]
    assert {shown(path): read_header(path.read_bytes(), path.name).problems for path in jobs} == dict.fromkeys(
        map(shown, jobs), ()
    )


@pytest.mark.parametrize("name", ["deploy/demo", "deploy/test", "deploy/install", "deploy/lab/lab", ".ci/run"])
def test_a_program_may_be_executed(name: str) -> None:
    assert os.access(TOP / name, os.X_OK)


@pytest.mark.parametrize("path", [p for p in FILES if kind(p) in {"shell", "python"}], ids=shown)
def test_packages_are_asked_for_by_name_alone(path: Path) -> None:
    """Where they come from is the business of whoever set up pip and apt on the machine."""
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"--(?:index-url|extra-index-url|trusted-host|find-links)|\b(?:pypi|debian)\.org", text)


# --- how they are called


@pytest.mark.processes
@pytest.mark.parametrize("name", ["deploy/demo", "deploy/test", "deploy/install"])
def test_help_says_how_it_is_called(name: str) -> None:
    lines = run(TOP / name, "--help").stdout.splitlines()
    assert any(line.split()[:1] == [name] for line in lines)
    assert not any(line.startswith("#") for line in lines)


WRONG_CALLS = {
    "an option that is not there": (["deploy/install", "--perfix", "/x"], "there is no option --perfix"),
    "an option without its value": (["deploy/install", "--prefix"], "--prefix needs a path"),
    "no test would be left": (["deploy/test", "--plain", "--lab"], "leaves no test"),
    "a Debian whose Slurm is not tried": (["deploy/test", "--slurm", "buster"], "write bullseye, bookworm"),
    "a Debian is left out": (["deploy/test", "--slurm"], "--slurm without a Debian"),
    "another Debian, and no Slurm": (["deploy/test", "--slurm", "sid", "--plain"], "Leave --plain out"),
    "the demo takes nothing": (["deploy/demo", "fast"], "there is no argument fast"),
}


@pytest.mark.processes
@pytest.mark.parametrize(("argv", "said"), WRONG_CALLS.values(), ids=WRONG_CALLS.keys())
def test_a_wrong_call_is_said_before_anything_is_made(argv: list[str], said: str) -> None:
    done = run(TOP / argv[0], *argv[1:], check=False)
    assert done.returncode == 1
    assert said in done.stderr


@pytest.mark.processes
@pytest.mark.parametrize("code", [0, 1])
def test_ci_runs_the_test_command_of_the_readme(tmp_path: Path, code: int) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(TOP / ".ci" / "run", tmp_path / ".ci")
    program(tmp_path / "deploy" / "test", f'#!/bin/bash\necho "called with $# words"\nexit {code}\n')
    done = run("bash", tmp_path / ".ci" / "run", check=False)
    assert (done.stdout, done.returncode) == ("called with 0 words\n", code)
    assert "$ deploy/test " in (TOP / "README.md").read_text(encoding="utf-8")


STEPS = (DEPLOY / "test").read_text(encoding="utf-8")
TIMETABLE = re.findall(r"""^  ['"](\w+) +(\d+) (.+)['"]$""", STEPS, re.MULTILINE)


def test_each_step_has_its_usual_time() -> None:
    written = re.findall(r"""(?:step|timed 'not run') "(.+?)" """, STEPS)
    names = {name.replace("$name", debian) for name in written for debian in ("trixie", "bullseye")}
    assert names == {name for _, _, name in TIMETABLE}


def holds(step: Expression, marks: dict[str, bool]) -> bool:
    def has(name: str, /, **_: object) -> bool:
        return marks[name]

    return step.evaluate(has)


def test_whatever_marks_a_test_has_a_step_runs_it() -> None:
    marks = re.findall(r'^  "(\w+): ', (TOP / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    steps = [Expression.compile(text) for text in re.findall(r'run_pytest .* -m "?([^";\n]+)', STEPS)]
    assert {"lab", "simulated", "browser", "processes", "thorough"} == set(marks)
    for chosen in itertools.product([False, True], repeat=len(marks)):
        has = dict(zip(marks, chosen, strict=True))
        if has["lab"] or not has["simulated"]:
            assert any(holds(step, has) for step in steps), has


def test_each_file_of_the_labs_tests_is_marked_so() -> None:
    """Else no step runs it: those without the lab pass that folder by."""
    files = sorted((TOP / "tests" / "lab").glob("test_*.py"))
    assert [path.name for path in files if "pytest.mark.lab" not in path.read_text(encoding="utf-8")] == []


# --- finding a Python

GOOD, OLD = "/good/python\n3.12.1", "/old/python\n3.9.2"
PYTHONS: dict[str, tuple[dict[str, str], str]] = {
    "python3 is new enough": ({"python3": f"echo '{GOOD}'"}, "/good/python"),
    "python3 is too old, a newer one is beside it": (
        {"python3": f"echo '{OLD}'; exit 1", "python3.12": f"echo '{GOOD}'"},
        "/good/python",
    ),
    "a wrapper with nothing behind it is passed over": (
        {"python3": "echo 'python3: no such version' >&2; exit 127", "python3.11": f"echo '{GOOD}'"},
        "/good/python",
    ),
}


@pytest.mark.processes
@pytest.mark.parametrize(("there", "found"), PYTHONS.values(), ids=PYTHONS.keys())
def test_a_python_that_is_new_enough_is_found(tmp_path: Path, there: dict[str, str], found: str) -> None:
    for name, text in there.items():
        program(tmp_path / name, f"#!/bin/bash\n{text}\n")
    assert lib("find_python", PATH=f"{tmp_path}:/usr/bin:/bin").stdout.strip() == found


@pytest.mark.processes
@pytest.mark.parametrize(
    ("before", "fix"),
    [("", "module avail python"), ("module() { :; };", "module load python/3.12")],
    ids=["no modules here", "a machine with modules"],
)
def test_where_no_python_is_new_enough_what_brings_one_is_said(tmp_path: Path, before: str, fix: str) -> None:
    old = program(tmp_path / "python3", f"#!/bin/bash\necho '{OLD}'; exit 1\n")
    done = lib(f"{before} find_python", check=False, CRONHPC_PYTHON=str(old))
    assert done.returncode == 1
    assert f"No Python of 3.11 or newer was found ({old} is 3.9.2)" in done.stderr
    assert fix in done.stderr


@pytest.mark.processes
def test_a_python_that_is_none_is_not_taken() -> None:
    done = lib("find_python", check=False, CRONHPC_PYTHON="/bin/true")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "/bin/true does not start" in done.stderr


@pytest.mark.processes
def test_a_python_that_does_not_start_says_why(tmp_path: Path) -> None:
    words = "error while loading shared libraries: libpython3.12.so.1.0: cannot open shared object file"
    broken = program(tmp_path / "python3", f"#!/bin/bash\necho 'python3: {words}' >&2; exit 127\n")
    (tmp_path / "python3.12").symlink_to(broken)
    done = lib(
        f'PATH="{tmp_path}"; command() {{ [ -x "{tmp_path}/$2" ] && echo "{tmp_path}/$2"; }}; find_python', check=False
    )
    assert done.returncode == 1
    assert done.stderr.count(words) == 1  # a second name of the same file is not tried again
    assert "conda create" in done.stderr


# --- making an environment


@pytest.mark.processes
def test_an_environment_is_made_where_python_has_no_venv_module(tmp_path: Path) -> None:
    bare = program(tmp_path / "python", f'#!/bin/bash\n[ "${{2-}}" = venv ] && exit 1\nexec "{sys.executable}" "$@"\n')
    folder = tmp_path / "with blank"
    lib('bare_environment "$1" "$2"', folder, bare)
    done = run(folder / "bin" / "python", "-c", "import sys; print(sys.prefix); print(*sys.path, sep='\\n')")
    prefix, *path = done.stdout.splitlines()
    assert prefix == str(folder)
    assert f"{folder}/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages" in path


@pytest.mark.processes
def test_one_that_is_complete_is_left_alone_and_needs_no_network(tmp_path: Path) -> None:
    fakes = "bring_certificates() { :; }; bring_pip() { echo pip; }; quietly() { :; };"
    make = f'{fakes} make_environment "$1" "$2" "${{@:3}}"'
    words = (tmp_path / "env", sys.executable)
    assert "pip" in lib(make, *words, ".").stdout
    assert lib(make, *words, ".").stdout == ""
    assert "pip" in lib(make, *words, ".[test]").stdout, "other words, another environment"
    (tmp_path / "env" / "bin" / "python").unlink()
    assert "pip" in lib(make, *words, ".[test]").stdout, "a broken one is made again"


@pytest.mark.processes
def test_one_that_is_made_again_by_its_own_python_outlives_that(tmp_path: Path) -> None:
    folder = tmp_path / "env"
    make = 'bring_certificates() { :; }; bring_pip() { echo pip; }; quietly() { :; };make_environment "$1" "$2" "$3"'
    lib(make, folder, sys.executable, ".")
    assert "pip" in lib(make, folder, folder / "bin" / "python", ".[test]").stdout
    assert run(folder / "bin" / "python", "-c", "import sys; print(sys.prefix)").stdout.strip() == str(folder)


@pytest.mark.processes
def test_one_that_could_not_be_completed_is_made_again(tmp_path: Path) -> None:
    fakes = "bring_certificates() { :; }; bring_pip() { return $1; };".replace("$1", "{code}")
    make = fakes.replace("{code}", "1") + 'make_environment "$1" "$2" .'
    assert lib(make, tmp_path / "env", sys.executable, check=False).returncode == 1
    assert not (tmp_path / "env" / "complete").exists()


@pytest.mark.processes
def test_without_any_pip_the_package_that_brings_it_is_said(tmp_path: Path) -> None:
    python = program(tmp_path / "python", f'#!/bin/bash\n[ "$1" = -c ] && exec "{sys.executable}" "$@"\nexit 1\n')
    program(tmp_path / "env" / "bin" / "python", python.read_text(encoding="utf-8"))
    fakes = "unpacked_package() { return 1; }; pip_from_wheel() { return 1; };"
    done = lib(fakes + 'bring_pip "$1" "$2"', tmp_path / "env", python, check=False)
    assert done.returncode == 1
    assert "apt-get install -y python3-venv" in done.stderr


@pytest.mark.processes
@pytest.mark.parametrize(
    ("env", "expected"),
    [({}, f"{TOP}/.env"), ({"CRONHPC_ENV": "/else/where"}, "/else/where"), ({"CRONHPC_ENV": "x"}, f"{Path.cwd()}/x")],
    ids=["in the checkout", "where one says", "relative to where one is"],
)
def test_environments_lie(env: dict[str, str], expected: str) -> None:
    assert run("bash", "-uc", f'source "{DEPLOY}/lib.sh"; environments', env=env).stdout.strip() == expected


# --- leaving nothing behind


@pytest.mark.processes
def test_what_hides_in_a_session_of_its_own_is_found_named_and_ended() -> None:
    commands = """
    mark_descendants
    setsid --fork sleep 47
    for _ in {1..50}; do [ -n "$(descendants)" ] && break; sleep 0.05; done
    left_behind 2
    end_descendants
    echo "then: $(descendants)"
    """
    said = lib(commands).stdout.splitlines()
    assert re.fullmatch(r"  \d+ sleep 47 ?", said[0])
    assert said[1:] == ["then: "]


@pytest.mark.processes
def test_what_ends_by_itself_is_not_called_left_behind() -> None:
    assert lib("mark_descendants; setsid --fork sleep 0.3; left_behind 30").stdout == ""


# --- install


class Installed:
    """deploy/install in a home of its own; environments are made from the one that runs the tests, without network."""

    def __init__(self, place: Path) -> None:
        self.home = place / "it's home"
        self.home.mkdir()
        shutil.copytree(DEPLOY, place / "deploy", ignore=shutil.ignore_patterns("lab", "__pycache__"))
        here = f"{sysconfig.get_path('purelib')}\\n{TOP}"
        with (place / "deploy" / "lib.sh").open("a", encoding="utf-8") as file:
            file.write(
                f'make_environment() {{ mkdir -p "$1" && bare_environment "$1" "$2" && bring "$1"; }}\n'
                f'bring() {{ printf \'{here}\\n\' > "$(echo "$1"/lib/python3*/site-packages)/here.pth"; }}\n'
            )
        self.install = place / "deploy" / "install"
        self.share = self.home / ".local" / "share" / "cronhpc"
        self.launcher = self.home / ".local" / "bin" / "cronhpc"

    def __call__(self, *argv: str, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        own = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "CRONHPC_PYTHON": sys.executable, "XDG_DATA_HOME": ""}
        return run(self.install, *argv, env={**own, **env}, check=check)

    def versions(self) -> list[str]:
        return sorted(path.name for path in self.share.glob("venv-*"))


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


@pytest.mark.processes
def test_install_puts_a_launcher_that_works_from_anywhere(installed: Installed) -> None:
    said = installed().stdout
    done = run(installed.launcher, "--version", env={"PYTHONPATH": "/nowhere", "PYTHONHOME": "/nowhere"})
    assert done.stdout.startswith("cronhpc ")
    assert str(installed.launcher) in said
    assert "to undo:" in said
    assert 'export PATH="' in said
    assert said.splitlines()[-1] == "next: cronhpc init"


@pytest.mark.processes
def test_install_again_upgrades_keeps_the_version_before_and_no_more(installed: Installed) -> None:
    for _ in range(3):
        said = installed().stdout
    assert len(installed.versions()) == 2
    assert "to go back:" in said
    assert said.splitlines()[-1].startswith("next: cronhpc start "), "the cron directory is there already"
    assert run(installed.launcher, "--version").stdout.startswith("cronhpc ")


@pytest.mark.processes
def test_a_version_that_a_daemon_says_it_uses_outlives_further_upgrades(installed: Installed) -> None:
    installed()
    (first,) = installed.versions()
    for _ in range(2):
        (installed.share / first / "in-use").touch()
        installed()
    assert first in installed.versions()
    assert len(installed.versions()) == 3
    os.utime(installed.share / first / "in-use", (0, 0))
    installed()
    assert len(installed.versions()) == 2


@pytest.mark.processes
@pytest.mark.parametrize("late", ["cronhpc.core.alerts", "cronhpc.cli.see", "third_party"])
def test_what_runs_while_the_link_is_moved_to_another_version_imports_of_its_own(tmp_path: Path, late: str) -> None:
    """A daemon or a guard of many hours: what it needs for its first alert, say, comes of the version that it is of."""
    shutil.copytree(TOP / "cronhpc", tmp_path / "one" / "cronhpc", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "one" / "third_party.py").touch()
    (tmp_path / "two").mkdir()
    (tmp_path / "venv").symlink_to("one")
    upgrade = f"os.unlink('{tmp_path}/venv'); os.symlink('two', '{tmp_path}/venv')"
    main = f"def main(): {upgrade}; importlib.import_module('{late}'); return 7"
    code = f"import importlib, os, sys; import cronhpc.cli\n{main}\ncronhpc.cli.main = main; cronhpc.cli.entry_point()"
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "venv"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (7, "")


@pytest.mark.processes
def test_a_daemon_marks_the_version_that_it_is_of_also_once_the_link_is_moved(tmp_path: Path) -> None:
    place = "lib/python3/site-packages"
    shutil.copytree(TOP / "cronhpc", tmp_path / "one" / place / "cronhpc", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "two" / place).mkdir(parents=True)
    (tmp_path / "venv").symlink_to("one")
    upgrade = f"os.unlink('{tmp_path}/venv'); os.symlink('two', '{tmp_path}/venv')"
    code = f"import os; from cronhpc.drivers import daemon; {upgrade}; print(os.path.realpath(daemon._IN_USE))"
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "venv" / place), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd="/", capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (str(tmp_path / "one" / "in-use"), "")


@pytest.mark.processes
def test_an_upgrade_that_fails_changes_nothing(installed: Installed) -> None:
    installed()
    before = installed.versions(), (installed.share / "venv").readlink()
    with (installed.install.parent / "lib.sh").open("a", encoding="utf-8") as file:
        file.write('bring() { echo "no network" >&2; return 1; }\n')
    done = installed(check=False)
    assert done.returncode == 1
    assert "nothing was changed" in done.stderr
    assert (installed.versions(), (installed.share / "venv").readlink()) == before


@pytest.mark.processes
@pytest.mark.parametrize(
    ("source", "asked"),
    [
        pytest.param("a-name==1.2", "a-name[alerts]==1.2", id="a version"),
        pytest.param("", "{top}[alerts]", id="this checkout"),
    ],
)
def test_what_alerts_need_is_installed_and_kept_by_upgrades(installed: Installed, source: str, asked: str) -> None:
    with (installed.install.parent / "lib.sh").open("a", encoding="utf-8") as file:
        file.write(
            'make_environment() { say "ASKED $3"; mkdir -p "$1" && bare_environment "$1" "$2" && bring "$1"; }\n'
        )
    wanted = f"ASKED {asked.format(top=installed.install.parent.parent)}\n"
    given = [source] if source else []
    assert wanted in installed("--with", "alerts", *given).stdout
    assert wanted in installed(*given).stdout
    assert "--with takes the word alerts" in installed("--with", "all", check=False).stderr


@pytest.mark.processes
def test_a_command_of_the_name_that_is_not_ours_is_kept(installed: Installed) -> None:
    program(installed.launcher, "#!/bin/sh\necho mine\n")
    done = installed(check=False)
    assert done.returncode == 1
    assert "is there already" in done.stderr
    assert run(installed.launcher).stdout == "mine\n"
    assert installed.versions() == []


@pytest.mark.processes
def test_prefix_and_bin_may_be_elsewhere(installed: Installed, tmp_path: Path) -> None:
    installed(f"--prefix={tmp_path}/work/cronhpc", "--bin", f"{tmp_path}/work/bin")
    assert run(tmp_path / "work" / "bin" / "cronhpc", "--version").stdout.startswith("cronhpc ")
    assert stat.S_IMODE((tmp_path / "work" / "bin" / "cronhpc").stat().st_mode) & 0o111


@pytest.mark.processes
def test_what_is_said_to_undo_it_removes_just_that_also_where_paths_have_blanks(
    installed: Installed, tmp_path: Path
) -> None:
    with_manual(installed)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "mine").touch()
    said = installed(f"--prefix={tmp_path}/a b'c/cronhpc", "--bin", f"{tmp_path}/a b'c/bin").stdout
    assert run(tmp_path / "a b'c" / "bin" / "cronhpc", "--version").stdout.startswith("cronhpc ")
    undo = next(line for line in said.splitlines() if "to undo:" in line)
    run("bash", "-c", undo.partition("stop; ")[2].partition("   (")[0])
    assert [path for path in (tmp_path / "a b'c").rglob("*") if not path.is_dir()] == []
    assert (tmp_path / "a" / "mine").exists()


@pytest.mark.processes
def test_where_nothing_can_be_written_it_says_what_to_choose(installed: Installed) -> None:
    done = installed("--prefix", "/dev/null/x", check=False)
    assert done.returncode == 1
    assert "nothing was changed: you cannot write in /dev/null/x. Choose others" in done.stderr


@pytest.mark.processes
@pytest.mark.parametrize("home", ["unset HOME", "HOME="])
def test_without_a_home_variable_the_user_database_is_asked(home: str) -> None:
    expected = run("getent", "passwd", str(os.getuid())).stdout.split(":")[5]
    assert run("bash", "-uc", f'{home}; source "{DEPLOY}/lib.sh"; echo "$HOME"').stdout == f"{expected}\n"


def with_manual(installed: Installed) -> None:
    """As the wheel brings it."""
    with (installed.install.parent / "lib.sh").open("a", encoding="utf-8") as file:
        file.write('eval "plain_$(declare -f bring)"; page=share/man/man1\n')
        file.write(f'bring() {{ plain_bring "$1" && mkdir -p "$1/$page" && cp "{TOP}/docs/cronhpc.1" "$1/$page"; }}\n')


def as_word(path: Path) -> str:
    """As install quotes it, so that the line can be pasted: the home has a blank and a quote."""
    inside = str(path).replace("'", "'\\''")
    return f"'{inside}'"


@pytest.mark.processes
def test_the_manual_lies_where_man_looks_beside_the_command(installed: Installed) -> None:
    with_manual(installed)
    page = installed.home / ".local" / "share" / "man" / "man1" / "cronhpc.1"
    for _ in range(2):  # also after an upgrade
        assert f"man {as_word(page)}\n" in installed().stdout
        assert page.read_bytes() == (TOP / "docs" / "cronhpc.1").read_bytes()


@pytest.mark.processes
def test_a_page_that_is_not_ours_and_a_folder_that_is_no_bin_are_left_alone(installed: Installed) -> None:
    with_manual(installed)
    page = installed.home / ".local" / "share" / "man" / "man1" / "cronhpc.1"
    page.parent.mkdir(parents=True)
    page.write_text("mine", encoding="ascii")
    own = installed.share / "venv" / "share" / "man" / "man1" / "cronhpc.1"
    assert f"man {as_word(own)}\n" in installed().stdout
    assert page.read_text(encoding="ascii") == "mine"
    installed("--bin", f"{installed.home}/tools", f"--prefix={installed.home}/other")
    assert not (installed.home / "share").exists()


@pytest.mark.processes
def test_a_python_that_needs_its_modules_libraries_gets_them_in_jobs_too(installed: Installed, tmp_path: Path) -> None:
    """As where `module load python` sets LD_LIBRARY_PATH, and a job does not load the module."""
    needy = program(
        tmp_path / "module" / "python3",
        f"#!/bin/bash\n[[ ${{LD_LIBRARY_PATH-}} = /module/lib* ]] || exit 127\n"
        f'[[ "$*" != *"-m pip"* ]] || exit 0 # nothing is taken from the environment of the tests\n'
        f'exec "{sys.executable}" "$@"\n',
    )
    with (installed.install.parent / "lib.sh").open("a", encoding="utf-8") as file:
        file.write(
            f'bare_environment() {{ mkdir -p "$1/bin" && ln -sf "{needy}" "$1/bin/python"; }}; bring() {{ :; }}\n'
        )
    installed(LD_LIBRARY_PATH="/module/lib")
    assert "export LD_LIBRARY_PATH='/module/lib'" in installed.launcher.read_text(encoding="utf-8")


@pytest.mark.processes
def test_a_training_environments_libraries_do_not_reach_the_python_of_cronhpc(installed: Installed) -> None:
    """A conda environment's libz of another kind would keep it from starting."""
    shows = program(installed.home / "python3", '#!/bin/sh\necho "${LD_LIBRARY_PATH-none} ${CRONHPC_LIBRARIES-none}"\n')
    installed()
    (installed.share / "venv" / "bin" / "python").unlink()
    (installed.share / "venv" / "bin" / "python").symlink_to(shows)
    for libraries, seen in (("/conda/lib", "none /conda/lib"), ("", "none none")):
        environ = {**os.environ, "LD_LIBRARY_PATH": libraries}
        shown = subprocess.run([installed.launcher, "again"], env=environ, capture_output=True, text=True, check=True)
        assert shown.stdout.strip() == seen


@pytest.mark.processes
def test_functions_that_the_shell_has_exported_reach_what_cronhpc_starts(installed: Installed) -> None:
    """`module` is one at most sites: a launcher run by dash would drop it, with all variables of such names."""
    installed()
    python = installed.share / "venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(program(installed.home / "python3", "#!/bin/bash\nmodule load x && env\n"))
    exported = {"BASH_FUNC_module%%": "() {  echo loaded $2; }", "LD_LIBRARY_PATH": "/conda/lib", "A.B": "1"}
    environ = {**os.environ, **exported, "BASH_ENV": "/nowhere", "SHELLOPTS": "xtrace"}
    shown = subprocess.run([installed.launcher, "again"], env=environ, capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("loaded x\n")
    assert "A.B=1\n" in shown.stdout
    assert "CRONHPC_LIBRARIES=/conda/lib\n" in shown.stdout
    assert "LD_LIBRARY_PATH" not in shown.stdout


# --- the login hook -------------------------------------------------------------------------------------------------

HOOK = DEPLOY / "login-hook.sh"


@pytest.mark.processes
@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize(
    ("times", "environ", "asked"),
    [
        pytest.param(((+600, +600),), {}, False, id="all is well: nothing is started"),
        pytest.param(((-240, +600),), {}, False, id="the scheduler was at work four minutes ago: nothing"),
        pytest.param(((-900, +600),), {}, True, id="a quarter of an hour ago: a look at the queue"),
        pytest.param(((-900, +600), (-120, -120)), {}, False, id="the last look is two minutes old: none"),
        pytest.param(((-900, +600), (-1200, -1200)), {}, True, id="the last look is older: another"),
        pytest.param(((-600, -600), (-60, -60)), {}, True, id="silence: a repair is asked for"),
        pytest.param(((86400, 86400), (-60, -60)), {}, True, id="a tick dated from tomorrow: its clock was wrong"),
        pytest.param(((-600, -600),), {"SLURM_JOB_ID": "57"}, False, id="inside a job: nothing"),
        pytest.param(((-600, -600),), {"SGE_JOB_SPOOL_DIR": "/x"}, False, id="inside a job of Grid Engine: nothing"),
        pytest.param(
            ((-600, -600),), {"PBS_JOBID": "57.host"}, False, id="of PBS, whose jobs are login shells: nothing"
        ),
        pytest.param(((-600, -600),), {"LSB_JOBID": "57"}, False, id="of LSF: nothing"),
        pytest.param((), {}, False, id="no cron directory: nothing"),
    ],
)
def test_the_login_hook(
    tmp_path: Path,
    shell: str,
    times: tuple[tuple[int, int], ...],
    environ: dict[str, str],
    asked: bool,  # noqa: FBT001 - a situation
) -> None:
    """`times`, from now: when the scheduler was at work, and until when it may be silent; when a login looked."""
    called = tmp_path / "called"
    fake = tmp_path / "cronhpc"
    fake.write_text(f'#!/bin/sh\necho "$@" >{called}\n')
    fake.chmod(0o755)
    cron = tmp_path / "work" / "cron"
    now = time.time()  # noqa: TID251 - the shell reads this machine's clock
    for name, (accessed, modified) in zip(("due", "seen"), times, strict=False):
        (cron / "scheduler").mkdir(parents=True, exist_ok=True)
        (cron / "scheduler" / name).touch()
        os.utime(cron / "scheduler" / name, (now + accessed, now + modified))
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "WORK": str(tmp_path / "work"), "CRONHPC": str(fake)}
    # the hook does not wait for what it begins; here its end is awaited: whoever holds the pipe has not ended
    done = subprocess.run(
        [shell, "-uc", f'exec 9>&1; . "{HOOK}"; echo logged in'],
        env={**env, **environ},
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("logged in\n", "")
    assert called.exists() == asked
    if asked:
        assert called.read_text() == f"start --if-stale --dir {cron}\n"
