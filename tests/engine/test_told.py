"""From a failing script to the people who are told: whole ticks on the local backend, a command, a server for pings."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cronhpc.batch.local import Local
from cronhpc.core.model import EntryState
from cronhpc.engine import notify
from cronhpc.engine.delivery import TIMEOUTS
from cronhpc.store import memory
from tests.cli.test_cli import Shell
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture
from tests.engine.test_notify import QUICK, Server
from tests.engine.test_notify import server as server  # noqa: PLC0414 - a fixture

pytestmark = pytest.mark.processes

SECRET = "0b5e-s3cr3t"  # noqa: S105 - the test looks for it
# It waits while a test wants that, and for five minutes at most: a test that fails leaves nothing behind.
SCRIPT = """for ((n = 0; n < 6000; n++)); do [ -e "$CRONHPC_DIR/wait" ] || break; sleep 0.05; done
echo "no $0"; [ -e "$CRONHPC_DIR/fixed" ]
"""


class Night:
    """One entry, `backup`, whose slot has come whenever a test says so."""

    def __init__(self, shell: Shell, policies: str = "") -> None:
        self.shell, self.now = shell, int(time.time()) + 10  # noqa: TID251 - files get their ctime from this clock
        at = datetime.fromtimestamp(self.now - 60, UTC)
        self.schedule = f"{at.minute} {at.hour} * * *"
        text = f"#CRON {self.schedule} --timezone=UTC {policies}\n{SCRIPT}"
        shell.drop("cron.d/backup.slurm", text)

    def due(self) -> None:
        slot = self.now // 60 * 60 - 60
        path = self.shell.cron / "state" / "entries.json"
        known = memory.load(path)
        state = known.entries.get("backup", EntryState())
        fields = {name: getattr(state, name) for name in EntryState.__slots__}
        fields |= {"watermark": slot - 60, "schedule_key": f"{self.schedule}|UTC|", "next_slot": slot, "finished": ""}
        known.entries["backup"] = EntryState(**fields)
        memory.save(path, known)

    def tick(self) -> str:
        said = self.shell("tick", "--json", now=self.now)
        assert said.code in {0, 1}, said.out + said.err
        return said.out + said.err

    def run(self) -> str:
        """Its slot comes, its run ends, a tick sees that."""
        self.due()
        before = self.ended()
        said = self.tick()
        return said + self.until(lambda: self.ended() > before)

    def until(self, there: Callable[[], bool]) -> str:
        """Ticks, until that is so."""
        said, last = "", time.monotonic() + 90
        while time.monotonic() < last and not there():
            time.sleep(0.1)
            said += self.tick()
        assert there(), said
        return said

    def ended(self) -> int:
        folder = self.shell.cron / "state" / "history"
        lines = "".join(path.read_text() for path in folder.glob("*.jsonl")) if folder.exists() else ""
        return len({row["key"] for row in map(json.loads, lines.splitlines()) if row["what"] == "run"})


def told(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def night(shell: Shell, server: Server) -> Callable[..., Night]:
    got = shell.home / "got"
    command = shell.home / "notify"
    command.write_text(f"#!/bin/sh\ncat >>{got}\necho >>{got}\n")
    command.chmod(0o755)
    address = shell.home / "ping"
    address.write_text(f"{server.url}/{SECRET}\n")
    address.chmod(0o600)
    alerts = f"{{command: {command}, format: json, ping: 'file:{address}'}}"
    (shell.cron / "cronhpc.yaml").write_text(f"backend: local\npage: page.html\nalerts: {alerts}\n")
    return lambda: Night(shell, f"--ping=file:{address}")


@pytest.fixture
def no_network(shell: Shell) -> Path:
    """Jobs find none: what would fetch an address fails. The folder has a file `called` once it was tried."""
    folder = shell.home / "bin"
    folder.mkdir()
    (folder / "curl").write_text(f"#!/bin/sh\ncat >/dev/null; echo >>{folder}/called; exit 7\n")
    (folder / "curl").chmod(0o755)
    shell.environ["PATH"] = f"{folder}:{shell.environ['PATH']}"
    return folder


def test_a_start_is_told_by_the_job_without_a_tick_and_no_tick_tells_it_again(
    shell: Shell, server: Server, night: Callable[..., Night]
) -> None:
    one = night()
    (shell.cron / "wait").touch()
    one.due()
    said = one.tick()
    until(lambda: f"/{SECRET}/start" in server.asked)
    for _ in range(3):
        said += one.tick()
    (shell.cron / "wait").unlink()
    said += one.until(lambda: one.ended() > 0)
    assert [path for path in server.asked if path != f"/{SECRET}"] == [f"/{SECRET}/start", f"/{SECRET}/fail"]
    assert not list((shell.cron / "state" / "ends").iterdir()), "what was noted for it is swept"
    _nothing_tells(SECRET, said, shell)


def until(there: Callable[[], bool]) -> None:
    last = time.monotonic() + 90
    while time.monotonic() < last and not there():
        time.sleep(0.1)
    assert there()


def test_a_failure_is_told_once_again_after_a_day_and_when_it_is_fine_again(
    shell: Shell, server: Server, night: Callable[..., Night], no_network: Path
) -> None:
    one = night()
    (shell.cron / "wait").touch()
    one.due()
    said = one.tick()
    until((no_network / "called").exists)
    said += one.until(lambda: f"/{SECRET}/start" in server.asked)
    said += one.tick()
    (shell.cron / "wait").unlink()
    said += one.until(lambda: one.ended() > 0)
    (alert,) = told(shell.home / "got")
    assert (alert["phase"], alert["kind"], alert["entry"]) == ("new", "failed", "backup")
    assert alert["text"] == "backup failed once: failed (exit 1)"
    assert alert["directory"] == str(shell.cron)
    assert alert["log"].startswith(f"{shell.cron}/log/backup/")
    assert [line.partition(" ")[0] for line in alert["log_end"]] == ["no"], "the log's end is told"
    assert [path for path in server.asked if path != f"/{SECRET}"] == [f"/{SECRET}/start", f"/{SECRET}/fail"]
    one.tick()
    assert len(told(shell.home / "got")) == 1
    (shell.cron / "fixed").touch()
    one.now += 86400
    said += one.run()
    assert [row["phase"] for row in told(shell.home / "got")] == ["new", "still", "over"], "a day later, and fixed"
    _nothing_tells(SECRET, said, shell)


def test_what_failed_before_anybody_was_to_be_told_is_told_to_who_asks_for_it(
    shell: Shell, night: Callable[..., Night]
) -> None:
    """It counted as told when nobody was; a day passed before the first word of it, and its end was told."""
    one = night()
    settings = shell.cron / "cronhpc.yaml"
    asked = settings.read_text()
    settings.write_text("backend: local\n")
    one.run()
    one.tick()
    assert told(shell.home / "got") == []
    settings.write_text(asked)
    one.tick()
    one.tick()
    assert [(row["phase"], row["entry"]) for row in told(shell.home / "got")] == [("new", "backup")]


def _nothing_tells(secret: str, said: str, shell: Shell) -> None:
    """Not the log, the page, the status that all may read, nor history."""
    assert secret not in said
    for path in shell.cron.rglob("*"):
        if path.is_file():
            assert secret not in path.read_text(errors="replace"), path


def test_a_server_that_hangs_breaks_no_tick(
    shell: Shell, server: Server, night: Callable[..., Night], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(notify.send.__kwdefaults__ or {}, "timeouts", QUICK)
    one = night()
    (shell.home / "ping").write_text(f"{server.url}/hang{SECRET}\n")
    began = time.monotonic()
    one.due()
    said = one.tick()
    assert time.monotonic() - began + TIMEOUTS.pings - QUICK.pings < 20
    assert "had no answer within" in said or "TimeoutError" in said
    assert (shell.cron / "status.json").exists()
    assert list((shell.cron / "state" / "claims").iterdir()), "the run was submitted all the same"
    _nothing_tells(SECRET, said, shell)


@pytest.mark.usefixtures("no_network")
def test_a_run_that_ends_between_two_ticks_is_told_by_its_end_alone(
    shell: Shell, server: Server, night: Callable[..., Night]
) -> None:
    """A start that nobody has seen would begin a clock that has run already."""
    one = night()
    one.due()
    one.tick()
    batch = Local(shell.cron / "state" / "local", dict(os.environ))
    until = time.monotonic() + 90
    while time.monotonic() < until and any(job.live for job in batch.queue().jobs):
        time.sleep(0.1)
    one.until(lambda: one.ended() > 0)
    assert [path for path in server.asked if path != f"/{SECRET}"] == [f"/{SECRET}/fail"]


def test_a_run_by_hand_that_fails_is_told_once(shell: Shell, night: Callable[..., Night]) -> None:
    one = night()
    said = shell("run", "backup", now=one.now)
    assert said.code == 0, said.err
    one.until(lambda: one.ended() > 0)
    (alert,) = told(shell.home / "got")
    assert (alert["phase"], alert["kind"], alert["entry"]) == ("once", "failed", "backup")
    assert alert["text"] == "backup, run by hand, failed (exit 1)"
    assert alert["log_end"]
    one.now += 86400
    one.tick()
    assert len([row for row in told(shell.home / "got") if row["entry"] == "backup" and row["kind"] == "failed"]) == 1


def test_what_could_not_be_sent_stands_in_status(shell: Shell, night: Callable[..., Night]) -> None:
    one = night()
    (shell.home / "notify").write_text("#!/bin/sh\necho no way >&2; exit 3\n")
    one.run()
    said = shell("status", now=one.now)
    assert "1 alert was not sent: alerts.command exited 3: no way The next tick" in " ".join(said.out.split())
    (shell.home / "notify").write_text(f"#!/bin/sh\ncat >>{shell.home}/got\necho >>{shell.home}/got\n")
    one.tick()
    assert len(told(shell.home / "got")) == 1
    assert "not sent" not in shell("status", now=one.now).out
