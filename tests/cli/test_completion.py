"""What a shell offers behind `cronhpc`: the printed function, run by a real bash; it knows all that the parsers do."""

from __future__ import annotations

import shlex
import subprocess  # noqa: TID251 - bash runs what is printed
from pathlib import Path

import pytest

from cronhpc.cli.commands import parsers
from cronhpc.script.dialect import DIALECTS
from docs.generate.completion import script

pytestmark = pytest.mark.processes

PARSERS = parsers()


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "cronhpc.bash"
    path.write_text(script(), encoding="utf-8")
    return path


@pytest.fixture
def cron(tmp_path: Path) -> Path:
    root = tmp_path / "my cron"
    for name in ("cron.daily/backup.slurm", "cron.d/hub sync.slurm", "cron.d/$(x).slurm", "kill/backup", "kill/train"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    for name in ("cron.d/.hidden.slurm", "cron.d/README", "cron.d/x.slurm~", "pause/night"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def offered(printed: Path, line: str, cron: Path | None = None, **environ: str) -> list[str]:
    """What is offered for the last word of `line`, which may be empty."""
    words = shlex.split(line) + ([""] if line.endswith(" ") else [])
    code = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cronhpc; printf "%s\\n" "${COMPREPLY[@]}"'
    (printed.parent / "my folder").mkdir(exist_ok=True)
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(printed.parent),
        **({"CRONHPC_DIR": str(cron)} if cron else {}),
        **environ,
    }
    argv = ["bash", "--norc", "-uc", code, "bash", str(printed), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=env, cwd=printed.parent)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


def test_without_a_word_every_command_is_offered(printed: Path) -> None:
    assert offered(printed, "cronhpc ") == list(PARSERS)


@pytest.mark.parametrize("name", PARSERS)
def test_all_options_of_a_command(printed: Path, name: str) -> None:
    known = {word for action in PARSERS[name]._actions for word in action.option_strings}
    assert set(offered(printed, f"cronhpc {name} -")) == known - {"-h"}


LINES = {
    "the beginning of a command": ("cronhpc un", ["unkill"]),
    "no such beginning": ("cronhpc xyz", []),
    "a command behind options": ("cronhpc --dir /x --json st", ["start", "stop", "status"]),
    "before the command": ("cronhpc --v", ["--version"]),
    "choices of an option": ("cronhpc check --format ", ["text", "json", "github"]),
    "a choice that was made is not offered again": ("cronhpc import crontab s", []),
    "choices of a place": ("cronhpc import s", ["scrontab"]),
    "a backend": ("cronhpc status --backend l", ["local", "lsf"]),
    "all backends": ("cronhpc status --backend ", list(DIALECTS)),
    "a form of the reference": ("cronhpc --reference m", ["markdown", "man"]),
    "a shell": ("cronhpc --completion ", ["bash", "zsh"]),
    "an option's free value": ("cronhpc kill --reason ", []),
    "a file": ("cronhpc page --out cronhpc.b", ["cronhpc.bash"]),
    "entries": ("cronhpc run ", ["\\$\\(x\\)", "backup", "hub\\ sync"]),
    "the beginning of an entry": ("cronhpc status ba", ["backup"]),
    "switches that stand": ("cronhpc unkill ", ["backup", "train"]),
    "what may be resumed": ("cronhpc resume n", ["night"]),
    "entries or files": ("cronhpc check cronhpc.b", ["cronhpc.bash"]),
    "nothing": ("cronhpc stop ", []),
    "a value behind =": ("cronhpc start --via = sc", ["scrontab"]),
    "nothing yet behind =": ("cronhpc start --via =", ["chain", "login", "scrontab"]),
    "a value behind =, one word as zsh has it": ("cronhpc start --via=sc", ["--via=scrontab"]),
    "a folder whose name holds a blank": ("cronhpc status --dir my", ["my\\ folder"]),
    "such a folder, begun with its backslash": ("cronhpc status --dir 'my\\ fo'", ["my\\ folder"]),
    "such a folder, begun with a quote": ("""cronhpc status --dir "'my fo\"""", ["my folder"]),
    "such a folder behind $HOME": ("cronhpc status --dir '$HOME/my'", ["$HOME/my\\ folder"]),
    "such a folder at home": ("cronhpc status --dir '~/my'", ["~/my\\ folder"]),
}


@pytest.mark.parametrize(("line", "words"), LINES.values(), ids=LINES)
def test_a_line_is_completed_with(printed: Path, cron: Path, line: str, words: list[str]) -> None:
    assert sorted(offered(printed, line, cron)) == sorted(words)


def test_the_cron_directory_is_the_one_that_the_command_would_take(printed: Path, cron: Path) -> None:
    link = cron.parent / "cron"
    link.symlink_to(cron)
    assert offered(printed, f"cronhpc --dir '{cron}' run ba") == ["backup"]
    assert offered(printed, "cronhpc run ba", WORK=str(cron.parent)) == ["backup"]
    assert offered(printed, "cronhpc run ba", HOME=str(cron.parent)) == ["backup"]
    assert offered(printed, "cronhpc run ba") == []
