"""Where a run's log goes: what a script names in a folder of its own is kept, anything else is `log/NAME/`."""

from __future__ import annotations

import io
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cronhpc import cli
from cronhpc.cli import switches
from cronhpc.cli.console import Console
from cronhpc.core.model import Switch, Switches, SwitchKind
from cronhpc.store.files import Paths
from cronhpc.views import attention
from tests.view_situations import NOW, WORLD, facts_of

KEPT = {
    "a whole path": "--output=/w/my-%j.log",
    "a name in a folder that is named wholly": "--chdir=/ --output=my-%j.log",
    "the same, the short way": "-D / -o my-%j.log",
}
OURS = {
    "none": "--time=5",
    "a folder alone": "--chdir=/",
    "a name relative to the home folder": "--output=my-%j.log",
    "a folder relative to the home folder": "--chdir=w --output=my-%j.log",
}


def cronhpc(home: Path, *words: str) -> str:
    out = io.StringIO()
    environ = {"HOME": str(home), "PATH": os.environ["PATH"], "TZ": "UTC"}
    cli.main(words, Console(int(time.time()) + 120, environ, out, out, is_terminal=False))  # noqa: TID251 - files are of now
    return out.getvalue()


def planned(home: Path, options: str) -> str:
    (home / "w").mkdir()
    cronhpc(home, "init", "--backend", "local")
    text = f"#!/bin/bash\n#SBATCH {options}\n#CRON * * * * *\nhostname\n"
    (home / "cron/cron.d/mine.slurm").write_text(text, encoding="utf-8")
    return cronhpc(home, "plan")


@pytest.mark.processes
@pytest.mark.parametrize("options", KEPT.values(), ids=KEPT.keys())
def test_the_script_s_own_log_is_kept(tmp_path: Path, options: str) -> None:
    said = planned(tmp_path, options)
    assert "job mine" in said
    assert "log/mine/" not in said
    assert "N002" not in cronhpc(tmp_path, "check")


@pytest.mark.parametrize("options", OURS.values(), ids=OURS.keys())
def test_the_log_is_cronhpc_s(tmp_path: Path, options: str) -> None:
    assert "log/mine/" in planned(tmp_path, options)


@pytest.mark.processes
def test_check_says_once_that_a_relative_name_gives_way(tmp_path: Path) -> None:
    planned(tmp_path, "--output=my-%j.log")
    for name in ("b", "c", "d"):
        text = "#!/bin/bash\n#SBATCH -o x.log\n#CRON 5 4 * * *\nhostname\n"
        (tmp_path / f"cron/cron.d/{name}.slurm").write_text(text, encoding="utf-8")
    said = cronhpc(tmp_path, "check")
    assert said.count("N002") == 1
    assert "a relative --output (b, c, d, …): the log is log/NAME/SLOT-JOB.out instead" in said


def test_no_advice_to_remove_a_file_that_another_s_settings_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cronhpc(tmp_path, "init", "--backend", "local")
    thesis = str(tmp_path / "thesis.tex")
    console = Console(0, {"HOME": str(tmp_path), "TZ": "UTC"}, io.StringIO(), io.StringIO(), is_terminal=False)

    def told() -> str:
        lifted = switches.Lifted("thesis.tex", still_stands=(thesis,))
        return "\n".join(switches.unset_words(lifted, SwitchKind.KILL, [], Paths(tmp_path / "cron"), console))

    assert told() == f"it still stands for the whole team: rm {thesis}"
    monkeypatch.setattr(Paths, "is_mine", False)
    assert told() == f"it still stands for the whole team: {thesis}"


def test_a_colleague_s_status_gives_no_advice_to_remove_a_file_of_mine() -> None:
    thesis = Switch(SwitchKind.KILL, "thesis.tex", "/home/bob/thesis.tex", "bob", NOW)
    everything = Switch(SwitchKind.KILL, "ALL", "/home/alice/cron/kill/ALL", "bob", NOW)
    known = facts_of(replace(WORLD, entries=(), skipped=(), switches=Switches((thesis, everything))))
    known = replace(known, owner="mallory")
    assert [row.fix for row in known.attention] == ["rm /home/bob/thesis.tex", "cronhpc unkill ALL"]
    shown = attention.for_others(known)
    assert [row.fix for row in shown.attention] == ["ask mallory", "cronhpc unkill ALL"]
    assert all(switch.ours for switch in shown.switches)
