"""A login node with an old system Python: what the installer says there, tried with real ones where any are at hand."""

from __future__ import annotations

import os
import subprocess  # noqa: TID251 - the installer and old interpreters are programs of their own
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
# The machine's own new Python is out of sight: what is found lies in the folder of the test, or in none.
HIDDEN = """command() {
  local path
  path=$(builtin command "$@") && case $path in "$1" | "$HERE"/*) echo "$path" ;; *) return 1 ;; esac
}"""


def olds() -> dict[str, Path]:
    """Interpreters older than 3.11 that lie beside this one, as version managers put them, or on PATH; by version.

    None is started to find it: that would be done wherever tests are collected.
    """
    found: dict[str, Path] = {}
    for version in (f"3.{n}" for n in range(6, 11)):
        beside = Path(sys.base_prefix).parent.glob(f"*/bin/python{version}")
        on_path = (Path(folder, f"python{version}") for folder in os.get_exec_path())
        programs = [path for path in (*beside, *on_path) if path.is_file() and os.access(path, os.X_OK)]
        # A version manager's script of that name may have no Python behind it.
        real = next((path for path in programs if path.read_bytes().startswith(b"\x7fELF")), None)
        if real is not None:
            found[version] = real
    return found


REAL = olds()
VERSIONS = [*REAL, *[version for version in ("3.6", "3.9") if version not in REAL]][: max(len(REAL), 2)]


def old_python(version: str, place: Path) -> Path:
    """A real one, or what answers the installer's one question as it would; where none is installed."""
    if version in REAL:
        return REAL[version]
    path = place / f"stand-in-{version}"
    question = "*'sys.exit(sys.version_info < (3, 11))'"
    answer = f"printf '%s\\n' \"$0\" {version}.0; exit 1"
    refused = 'echo "stand-in: what is that? $*" >&2; exit 2'
    path.write_text(f"#!/bin/sh\ncase $1$2 in -c{question}) {answer} ;; esac\n{refused}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def installed(place: Path, commands: dict[str, Path], **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the search as deploy/install does, with these commands and no other Python in sight."""
    folder = place / "bin"
    folder.mkdir()
    for name, target in commands.items():
        (folder / name).symlink_to(target)
    env = {"PATH": f"{folder}:/usr/bin:/bin", "HERE": str(folder), "HOME": str(place), **environ}
    shell = f'source "{DEPLOY}/lib.sh"; {HIDDEN}\nfind_python'
    return subprocess.run(["bash", "-uc", shell, "install"], capture_output=True, text=True, check=False, env=env)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_python_is_named_with_its_version(tmp_path: Path, version: str) -> None:
    done = installed(tmp_path, {"python3": old_python(version, tmp_path)})
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"No Python of 3.11 or newer was found ({tmp_path}/bin/python3 is {version}." in done.stderr
    assert "Traceback" not in done.stderr
    assert "SyntaxError" not in done.stderr


def test_with_two_old_ones_the_one_that_is_python3_is_named_and_the_way_to_a_new_one(tmp_path: Path) -> None:
    first, second = sorted(VERSIONS, key=lambda text: int(text.partition(".")[2]))[:2]
    found = {"python3": old_python(first, tmp_path), f"python{second}": old_python(second, tmp_path)}
    done = installed(tmp_path, found)
    assert done.returncode == 1
    assert f"python3 is {first}." in done.stderr
    assert "module avail python" in done.stderr
    assert "CRONHPC_PYTHON=/path/to/python3" in done.stderr


def test_a_new_one_beside_an_old_one_is_taken(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\nprintf '/old\\n3.6.8\\n'; exit 1\n", encoding="utf-8")
    old.chmod(0o755)
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    done = installed(tmp_path, {"python3": old, name: Path(sys.executable)})
    assert done.returncode == 0
    assert done.stdout.strip()


@pytest.mark.parametrize("version", REAL)
def test_the_lab_names_the_python_that_it_needs(version: str) -> None:
    lab = DEPLOY / "lab" / "lab"
    done = subprocess.run([REAL[version], lab, "up"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith(f"lab: Python 3.11 or newer is needed; {REAL[version]}")
    assert done.stderr.endswith(f"Use: python3.11 {lab}\n")
    assert "Traceback" not in done.stderr


def test_no_python_at_all_is_said_without_a_version(tmp_path: Path) -> None:
    done = installed(tmp_path, {})
    assert done.returncode == 1
    assert "No Python of 3.11 or newer was found." in done.stderr


def test_the_installer_stops_there_and_leaves_nothing(tmp_path: Path) -> None:
    oldest = old_python(min(VERSIONS, key=lambda text: int(text.partition(".")[2])), tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "CRONHPC_PYTHON": str(oldest)}
    done = subprocess.run([DEPLOY / "install"], capture_output=True, text=True, check=False, env=env, timeout=60)
    assert done.returncode == 1
    assert "No Python of 3.11 or newer was found" in done.stderr
    assert [path for path in home.rglob("*") if not path.is_dir()] == []
