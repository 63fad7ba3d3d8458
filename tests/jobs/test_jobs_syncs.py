"""hub-sync and wandb-sync, with stand-ins that take what the real tools take (hf 1.x, wandb 0.2x)."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

import hub_sync
from hub_sync import File
from tests.ready_made_jobs import Ended, environment, filled_in, run, stand_in

NOW = 1795784840.0
TOKEN = "hf_" + "a" * 30  # made up; split, so that no scanner takes it for one

# hf upload REPO LOCAL_PATH PATH_IN_REPO --repo-type=T --commit-message=M; it follows links to files, as pathlib does.
HF = """#!{python} -ISs
import os, pathlib, shutil, sys
verb, repo, local, inside, *options = sys.argv[1:]
assert verb == "upload" and "/" in repo and "://" not in repo, sys.argv
assert sorted(option.partition("=")[0] for option in options) == ["--commit-message", "--repo-type"], options
assert os.environ["HF_TOKEN"] not in " ".join(sys.argv), "a token on a command line"
place = pathlib.Path({hub!r}, repo, inside)
if pathlib.Path({hub!r}, "fails").exists():
    print("401 for token " + os.environ["HF_TOKEN"], file=sys.stderr)
    sys.exit(1)
for path in pathlib.Path(local).glob("**/*"):
    if path.is_file():
        target = place / path.relative_to(local)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
with open(pathlib.Path({hub!r}, "commits"), "a") as file:
    file.write(options[-1] + chr(10))
"""


def old(path: Path, minutes: float = 60) -> None:
    at = time.time() - minutes * 60  # noqa: TID251 - the jobs look at this machine's clock
    os.utime(path, (at, at))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "hub").mkdir()
    stand_in(tmp_path, "hf", HF.format(python=sys.executable, hub=str(tmp_path / "hub")))
    logs = tmp_path / "logs"
    for name in ("a.jsonl", "deep/[b] é.jsonl", "c.bin"):
        path = logs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
        old(path)
    (logs / "link.jsonl").symlink_to("/etc/passwd")
    (tmp_path / ".hub-token").write_text(TOKEN + "\n", encoding="ascii")
    (tmp_path / ".hub-token").chmod(0o600)
    return tmp_path


def sync(place: Path, **settings: str) -> Ended:
    wanted = {"FOLDER": f"'{place}/logs'", "REPO": "me/logs", "SEND": "yes", "INCLUDE": "'*.jsonl'", **settings}
    return run(filled_in("hub-sync", place, **wanted), environment(place))


def sent(place: Path) -> list[str]:
    root = place / "hub/me/logs"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def commits(place: Path) -> int:
    path = place / "hub/commits"
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


@pytest.mark.processes
def test_new_files_are_sent_once_and_changed_ones_again(place: Path) -> None:
    assert sync(place).code == 0
    assert sent(place) == ["a.jsonl", "deep/[b] é.jsonl"], "what the pattern fits, and no link"
    assert "nothing new" in sync(place).out
    assert commits(place) == 1
    (place / "logs/a.jsonl").write_text("more", encoding="utf-8")
    old(place / "logs/a.jsonl", 30)
    assert "sent 1 file" in sync(place).out


@pytest.mark.processes
def test_until_told_to_nothing_is_sent(place: Path) -> None:
    ended = sync(place, SEND="no")
    assert ended.code == 0
    assert "would send a.jsonl" in ended.out
    assert commits(place) == 0


@pytest.mark.processes
def test_what_is_still_being_written_waits(place: Path) -> None:
    old(place / "logs/a.jsonl", 2)
    ended = sync(place)
    assert "not sent: a.jsonl: changed 2m" in ended.out
    assert sent(place) == ["deep/[b] é.jsonl"]


PLANS = {
    "a file that is too large": ([File("a", 11, 0)], {}, [], ["a: 11 B is more than MAX_FILE"]),
    "as much as a run may send, the oldest first": (
        [File("new", 8, 3), File("old", 8, 1), File("mid", 8, 2)],
        {},
        ["old", "mid"],
        ["new: next time: MAX_RUN is used up"],
    ),
    "one that was sent": ([File("a", 1, 5)], {"a": [1, 5]}, [], []),
    "one that has changed since": ([File("a", 2, 5)], {"a": [1, 5]}, ["a"], []),
}


@pytest.mark.parametrize(("found", "known", "going", "passed"), PLANS.values(), ids=PLANS)
def test_which_files_are_uploaded_and_which_passed_over(
    found: list[File], known: dict[str, object], going: list[str], passed: list[str]
) -> None:
    got, passed_over = hub_sync.plan(found, known, now=NOW, quiet=600, cap=10, total=20)
    assert [file.path for file in got] == going
    assert passed_over == passed


@pytest.mark.processes
def test_a_failure_is_said_without_the_token_and_tried_again(place: Path) -> None:
    (place / "hub/fails").touch()
    ended = sync(place)
    assert (ended.code, ended.last) == (2, "broken: hf upload exited 1: 401 for token ***")
    assert TOKEN not in ended.out
    (place / "hub/fails").unlink()
    assert sync(place).code == 0
    assert commits(place) == 1


@pytest.mark.processes
def test_a_token_that_others_may_read_is_not_used(place: Path) -> None:
    (place / ".hub-token").chmod(0o640)
    ended = sync(place)
    assert ended.code == 2
    assert "may be read by others: chmod 600" in ended.last
    assert commits(place) == 0


@pytest.mark.processes
def test_what_is_hidden_is_never_sent_nor_a_token_that_lies_in_the_folder(place: Path) -> None:
    for name in (".secret.jsonl", ".git/x.jsonl"):
        path = place / "logs" / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        old(path)
    sync(place)
    assert sent(place) == ["a.jsonl", "deep/[b] é.jsonl"]
    token = place / "logs/token.jsonl"
    (place / ".hub-token").rename(token)
    ended = sync(place, TOKEN_FILE=f"'{token}'")
    assert ended.code == 2
    assert "lies in FOLDER, which is to be sent" in ended.last


@pytest.mark.processes
def test_a_url_is_no_repository(place: Path) -> None:
    assert "a token does not belong into one" in sync(place, REPO="https://user:x@hub/me/logs").last


@pytest.mark.processes
def test_the_older_name_of_the_tool_does_too(place: Path) -> None:
    (place / "bin/hf").rename(place / "bin/huggingface-cli")
    assert sync(place).code == 0
    assert commits(place) == 1


# --- one at a time -------------------------------------------------------------------------------------------------


def running_mark(place: Path, began: str, number: int) -> Path:
    """The mark of a process of this machine."""
    path = place / f".local/state/cronhpc-jobs/hub-sync.{os.uname().nodename}.running.{began}.{number}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def began(number: int) -> str:
    return Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]


@pytest.mark.processes
def test_a_run_that_is_still_at_it_is_left_to_it(place: Path) -> None:
    running_mark(place, began(os.getpid()), os.getpid())
    ended = sync(place)
    assert ended.code == 0
    assert "another hub-sync is at it" in ended.out
    assert commits(place) == 0


@pytest.mark.processes
def test_by_hand_a_job_that_runs_is_seen(place: Path) -> None:
    stand_in(place, "squeue", "echo '50 7'")
    ended = sync(place)
    assert (ended.code, commits(place), "job 7 is at it" in ended.out) == (0, 0, True)


@pytest.mark.processes
@pytest.mark.parametrize("number", [os.getpid(), 2**22 + 1], ids=["its number is another process's", "it is gone"])
def test_a_run_that_has_died_keeps_nobody(place: Path, number: int) -> None:
    mark = running_mark(place, "1", number)
    assert sync(place).code == 0
    assert commits(place) == 1
    assert not mark.exists()


JOBS_OF_ITS_NAME = {
    "nobody else": ("echo '100 9'", 0, 1),
    "one that began later": ("echo '100 9'; echo '200 7'", 0, 1),
    "one that began before, on any node": ("echo '50 7'; echo '100 9'", 0, 0),
    "a queue that cannot be asked": ("echo unable to contact >&2; exit 1", 2, 0),
}


@pytest.mark.processes
@pytest.mark.parametrize(("squeue", "code", "count"), JOBS_OF_ITS_NAME.values(), ids=JOBS_OF_ITS_NAME)
def test_what_slurm_says_of_jobs_of_its_name_decides(place: Path, squeue: str, code: int, count: int) -> None:
    stand_in(place, "squeue", squeue)
    wanted = {"FOLDER": f"'{place}/logs'", "REPO": "me/logs", "SEND": "yes"}
    environ = environment(place, SLURM_JOB_ID="9", SLURM_JOB_NAME="hub-sync")
    ended = run(filled_in("hub-sync", place, **wanted), environ)
    assert (ended.code, commits(place)) == (code, count), ended.out


# --- wandb ---------------------------------------------------------------------------------------------------------

WANDB = """#!/bin/bash
[ "$1" = sync ] && [ -d "$2" ] && [ $# -eq 2 ] || exit 2
[ -z "${WANDB_MODE-}" ] || exit 3
[ ! -e "$2/corrupt" ] || { echo "wandb: ERROR corrupt" >&2; exit 1; }
echo "$2" >> "$HOME/synced"
id=${2##*-}
touch "$2/run-$id.wandb.synced"
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    stand_in(tmp_path, "wandb", WANDB)
    for number, minutes in ((1, 60), (2, 2), (3, 30)):
        folder = tmp_path / f"train/wandb/offline-run-20261127_14000{number}-id{number}"
        (folder / "files").mkdir(parents=True)
        path = folder / f"run-id{number}.wandb"
        path.write_text("x", encoding="ascii")
        for each in (path, folder / "files", folder):
            old(each, minutes)
    (tmp_path / "train/wandb/latest-run").symlink_to(folder)
    (tmp_path / ".netrc").write_text("machine api.wandb.ai\n  login user\n  password made-up\n", encoding="ascii")
    (tmp_path / ".netrc").chmod(0o600)
    return tmp_path


def push(runs: Path, **settings: str) -> Ended:
    wanted = {"FOLDERS": f"('{runs}/train')", **settings}
    return run(filled_in("wandb-sync", runs, **wanted), environment(runs, WANDB_MODE="offline"))


def synced(runs: Path) -> list[str]:
    path = runs / "synced"
    return [line[-1] for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


@pytest.mark.processes
def test_runs_that_have_been_quiet_are_sent_once(runs: Path) -> None:
    ended = push(runs)
    assert ended.code == 0, ended.out
    assert ended.last == "synced 2 runs; 1 still being written"
    assert synced(runs) == ["1", "3"]
    push(runs)
    assert synced(runs) == ["1", "3"]


@pytest.mark.processes
def test_one_that_was_resumed_after_it_was_sent_is_sent_again(runs: Path) -> None:
    push(runs)
    folder = next((runs / "train/wandb").glob("*-id1"))
    old(next(folder.glob("*.synced")), 50)
    (folder / "run-id1.wandb").write_text("more", encoding="ascii")
    old(folder / "run-id1.wandb", 20)
    push(runs)
    assert synced(runs) == ["1", "3", "1"]


@pytest.mark.processes
def test_one_that_fails_is_told_once_and_does_not_keep_the_others(runs: Path) -> None:
    folder = next((runs / "train/wandb").glob("*-id1"))
    (folder / "corrupt").touch()
    for path in (folder / "corrupt", folder):
        old(path)
    first, second = push(runs), push(runs)
    assert first.code == second.code == 1
    assert "ALERT: " in first.out
    assert "wandb sync exited 1: wandb: ERROR corrupt" in first.out
    assert "ALERT: " not in second.out
    assert synced(runs) == ["3"]


KEYS = {
    "none for this server": ("machine elsewhere login a password b\n", 0o600, "has no key for api.wandb.ai"),
    "one that others may read": ("machine api.wandb.ai login a password b\n", 0o644, "may be read by others"),
    "a file that is no netrc": ("machine\n\nnonsense x\n", 0o600, ".netrc:"),
}


@pytest.mark.processes
@pytest.mark.parametrize(("text", "mode", "words"), KEYS.values(), ids=KEYS)
def test_without_a_key_of_ones_own_nothing_is_sent(runs: Path, text: str, mode: int, words: str) -> None:
    (runs / ".netrc").write_text(text, encoding="ascii")
    (runs / ".netrc").chmod(mode)
    ended = push(runs)
    assert ended.code == 2
    assert words in ended.last
    assert synced(runs) == []
