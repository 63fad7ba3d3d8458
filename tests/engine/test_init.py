"""`init`: which folders are taken over, what is made in them, and how it is undone."""

from __future__ import annotations

import grp
import io
import os
import pwd
import stat
import subprocess  # noqa: TID251 - the undo is typed into a shell
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cronhpc import cli
from cronhpc.cli.console import Console
from cronhpc.engine.init import adoptable
from cronhpc.store import settings, trust

NOW = 1_795_800_000
ITSELF = '#!/bin/bash\nsbatch --begin=now+1hour "$0"\n'


def init(root: Path, *words: str) -> tuple[int, str]:
    """The exit code, and all that it printed."""
    out = io.StringIO()
    environ = {"HOME": str(root.parent), "PATH": os.environ["PATH"], "TZ": "UTC"}
    arguments = ("init", "--backend", "local", "--dir", str(root), *words)
    return cli.main(arguments, Console(NOW, environ, out, out, is_terminal=False)), out.getvalue()


@pytest.fixture
def masked() -> Iterator[Callable[[int], None]]:
    """Sets the umask, for one test."""
    old = os.umask(0o022)
    yield lambda mask: void(os.umask(mask))
    os.umask(old)


def void(_: object) -> None:
    return


def put(path: Path, text: str = "mine\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


# --- taken over on evidence ----------------------------------------------------------------------------------------

EVIDENCE = {
    "a batch script in a schedule folder": {"cron.daily/a.slurm": "", "notes.txt": ""},
    "a script in a schedule folder, of another ending": {"cron.hourly/a.sh": "#!/bin/bash\n#SBATCH -t 5\n", "x": ""},
    "a script in scheduler/ that submits itself": {"scheduler/hourly.slurm": ITSELF, "data/x": ""},
    "what an init that was cut off has left": {"cron.hourly/": ""},
    "a cron directory whose settings are gone": {"state/id": "ab12cd\n", "scheduler/id": "ab12cd\n", "mine.txt": ""},
}
NONE = {
    "a project's log/": {"log/results.csv": ""},
    "an empty log/ alone": {"log/": ""},
    "a project's state/": {"state/model.pt": ""},
    "a project's kill/": {"kill/bill.txt": ""},
    "a project's pause/": {"pause/": ""},
    "a project's scheduler/ with a module in it": {"scheduler/cosine.py": "import torch\n"},
    "a scheduler/ with a script that submits others": {"scheduler/go.sh": "#!/bin/bash\nsbatch train.slurm\n"},
    "a status.json": {"status.json": "{}"},
    "a schedule folder without scripts, beside other things": {"cron.daily/readme.txt": "", "data/x": ""},
    "something else": {"thesis.tex": ""},
}


def laid(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        if name.endswith("/"):
            (root / name).mkdir(parents=True)
        else:
            put(root / name, text)


@pytest.mark.parametrize("files", EVIDENCE.values(), ids=EVIDENCE.keys())
def test_a_folder_is_adopted_on_evidence(tmp_path: Path, files: dict[str, str]) -> None:
    laid(tmp_path / "d", files)
    assert adoptable(tmp_path / "d" / "hand.slurm") == tmp_path / "d"
    assert adoptable(tmp_path / "d" / "scheduler" / "hand.slurm") == tmp_path / "d"
    code, said = init(tmp_path / "d")
    assert (code, said.splitlines()[0]) == (0, "adopted ~/d")


@pytest.mark.parametrize("files", NONE.values(), ids=NONE.keys())
def test_a_folder_that_serves_another_purpose_is_left_as_it_is(tmp_path: Path, files: dict[str, str]) -> None:
    laid(tmp_path / "d", files)
    before = tree(tmp_path / "d")
    assert adoptable(tmp_path / "d" / "hand.slurm") is None, "doctor advises no init that refuses"
    code, said = init(tmp_path / "d")
    assert code == 2
    assert "--adopt" in said
    assert tree(tmp_path / "d") == before
    assert init(tmp_path / "d", "--adopt")[0] == 0
    assert before.items() <= tree(tmp_path / "d").items()


def test_a_place_that_takes_no_folders_is_said() -> None:
    assert init(Path("/proc/cron")) == (
        2,
        "/proc/cron cannot be made: no folders can be made there. Choose another: --dir\n",
    )


def tree(root: Path) -> dict[str, str]:
    """Every path below, and what is in it."""
    found = sorted(root.rglob("*"))
    return {str(path.relative_to(root)): path.read_text("utf-8") if path.is_file() else "" for path in found}


# --- undone by name ------------------------------------------------------------------------------------------------

BEFORE: dict[str, dict[str, str]] = {
    "nothing": {},
    "a kill/ and a state/ of the user's": {"kill/x": "", "state/precious": "", "cron.daily/a.slurm": ""},
    "a scheduler/ of the user's": {"scheduler/hourly.slurm": ITSELF},
    "an empty folder of schedules": {"cron.hourly/": ""},
}


@pytest.mark.processes
@pytest.mark.parametrize("name", ["d", "two words"])
@pytest.mark.parametrize("files", BEFORE.values(), ids=BEFORE.keys())
def test_the_undo_removes_just_what_was_made(tmp_path: Path, files: dict[str, str], name: str) -> None:
    root = tmp_path / name
    laid(root, files)
    before = tree(root)
    code, said = init(root)
    assert code == 0
    undo = said.splitlines()[-1].removeprefix("undo:").strip()
    subprocess.run(["bash", "-c", undo], check=True, env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    assert tree(root) == before
    assert root.exists() == bool(files)


def test_a_second_init_has_nothing_to_undo(tmp_path: Path) -> None:
    init(tmp_path / "d")
    assert init(tmp_path / "d")[1].splitlines()[-1] == "undo:  nothing to undo"


# --- modes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_the_settings_have_the_modes_that_the_umask_leaves(
    tmp_path: Path, masked: Callable[[int], None], mask: int, mode: int
) -> None:
    masked(mask)
    init(tmp_path / "d")
    assert stat.S_IMODE((tmp_path / "d/cronhpc.yaml").stat().st_mode) == mode


SECRETS = {
    "none": ("timezone: UTC\n", 0o644),
    "names alone": ("environment: [PATH, HOME]\n", 0o644),
    "names alone, one a line": ("environment:\n  - PATH\n", 0o644),
    "an entry's": ("entries:\n  a: {command: x, environment: {TOKEN: x}}\n", 0o600),
    "an entry's, below it": ("entries:\n  a:\n    environment:\n\n      # of the site\n      TOKEN: x\n", 0o600),
    "none of an entry": ("entries:\n  a: {command: x, environment: {}}\n", 0o644),
    "in a comment": ("#  a: {command: x, environment: {TOKEN: x}}\n", 0o644),
}


@pytest.mark.parametrize(("text", "mode"), SECRETS.values(), ids=SECRETS.keys())
def test_values_of_the_environment_are_for_the_owner_alone(
    tmp_path: Path, masked: Callable[[int], None], text: str, mode: int
) -> None:
    masked(0o022)
    settings.write_settings(tmp_path / "cronhpc.yaml", text)
    assert stat.S_IMODE((tmp_path / "cronhpc.yaml").stat().st_mode) == mode


def test_the_modes_of_settings_that_are_there_stay(tmp_path: Path) -> None:
    put(tmp_path / "cronhpc.yaml")
    (tmp_path / "cronhpc.yaml").chmod(0o604)
    settings.write_settings(tmp_path / "cronhpc.yaml", "timezone: UTC\n")
    assert stat.S_IMODE((tmp_path / "cronhpc.yaml").stat().st_mode) == 0o604


def test_settings_behind_a_link_are_written_where_they_are(tmp_path: Path) -> None:
    """`start` and `doctor --write` left a copy in place of the link, and what it led to as it was."""
    (tmp_path / "dotfiles").write_text("page: 1h\n")
    (tmp_path / "cronhpc.yaml").symlink_to("dotfiles")
    settings.put(tmp_path / "cronhpc.yaml", {"timezone": "UTC"})
    assert (tmp_path / "cronhpc.yaml").is_symlink()
    assert (tmp_path / "dotfiles").read_text() == "page: 1h\ntimezone: UTC\n"


@pytest.mark.parametrize("before", ["page: x\r\n", "\ufeffpage: x\r\n"], ids=["", "and a mark of its encoding"])
def test_settings_with_line_ends_of_another_system_keep_them(tmp_path: Path, before: str) -> None:
    (tmp_path / "cronhpc.yaml").write_bytes(f"{before}# mine\r\n".encode())
    settings.put(tmp_path / "cronhpc.yaml", {"page": "index.html"})
    assert (tmp_path / "cronhpc.yaml").read_bytes() == b"page: index.html\r\n# mine\r\n"


# --- a private group -----------------------------------------------------------------------------------------------


def user(name: str, uid: int, gid: int) -> Any:
    return SimpleNamespace(pw_name=name, pw_uid=uid, pw_gid=gid)


GROUPS = {
    "ada's own": (0o002, "ada", 700, [], [user("ada", 700, 700)], "ada"),
    "ada's own, and she is named in it": (0o002, "ada", 700, ["ada"], [user("ada", 700, 700)], "ada"),
    "her group of another name and her number": (0o002, "ada_g", 700, [], [user("ada", 700, 700)], "ada_g"),
    "umask 022": (0o022, "ada", 700, [], [user("ada", 700, 700)], ""),
    "another member": (0o002, "ada", 700, ["bob"], [user("ada", 700, 700)], ""),
    "another user's primary group": (0o002, "ada", 700, [], [user("ada", 700, 700), user("bob", 701, 700)], ""),
    "a group of many, none of whom is listed": (0o002, "users", 100, [], [user("ada", 700, 100)], ""),
}


@pytest.mark.parametrize(("mask", "name", "gid", "members", "users", "found"), GROUPS.values(), ids=GROUPS.keys())
def test_a_group_is_private(  # noqa: PLR0917 - a table
    monkeypatch: pytest.MonkeyPatch, mask: int, name: str, gid: int, members: list[str], users: list[Any], found: str
) -> None:
    monkeypatch.setattr(pwd, "getpwuid", lambda _: users[0])
    monkeypatch.setattr(pwd, "getpwall", lambda: users)
    monkeypatch.setattr(grp, "getgrgid", lambda _: SimpleNamespace(gr_name=name, gr_gid=gid, gr_mem=members))
    assert trust.private_group(mask) == found


@pytest.mark.processes
def test_with_a_private_group_and_umask_002_the_first_script_is_trusted(
    tmp_path: Path, masked: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = grp.getgrgid(os.getegid()).gr_name
    monkeypatch.setattr(trust, "private_group", lambda mask: "" if mask & 0o020 else own)
    masked(0o002)
    code, said = init(tmp_path / "d")
    assert code == 0
    assert f"trust.group: {own}" in said
    assert "nobody else is in it" in said
    put(tmp_path / "d/cron.daily/a.slurm", "#!/bin/bash\n#SBATCH --time=5\nhostname\n")
    out = io.StringIO()
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TZ": "UTC", "CRONHPC_DIR": str(tmp_path / "d")}
    cli.main(("check",), Console(NOW, environ, out, out, is_terminal=False))
    assert "chmod" not in out.getvalue()
