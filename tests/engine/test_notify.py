"""Alerts out, for real: a command, a server of the test's own, Apprise; none breaks a tick or tells a secret."""

from __future__ import annotations

import json
import os
import subprocess  # noqa: TID251 - a process of its own shows what it would print
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cronhpc.core.alerts import Alert, Event, Ping
from cronhpc.core.model import Phase, Problem, Settings
from cronhpc.engine import delivery, notify
from cronhpc.engine.delivery import About, SecretError, Timeouts, address

ENV = {"PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent"}
ABOUT = About("/home/alice/cron", "alice", "login1", ENV)
FAILED = Alert(Phase.NEW, "failed", "backup failed once: failed (exit 1)", "backup", 1_795_790_000)
STILL = Alert(Phase.STILL, "failed", "sync failed twice", "sync", 1_795_790_000)
QUICK = Timeouts(command=1.0, commands=2.0, apprise=2.0, pings=1.5)
SECRET = "s3cr3t-t0k3n"  # noqa: S105 - the test looks for it
DAY = 86400


class Server(ThreadingHTTPServer):
    """Remembers what it was asked. A path with /hang is never answered, one with /drip for ever."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.posted: list[Any] = []
        self.over = threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path.startswith("/hang"):
            self.server.over.wait(20)
        elif self.path.startswith("/drip"):
            while not self.server.over.wait(0.1):
                self.wfile.write(b"H")
                self.wfile.flush()
        elif self.path.startswith("/garbage"):
            self.wfile.write(b"this is no HTTP\r\n\r\n")
        else:
            self.send_response(404 if self.path.startswith("/404") else 200)
            self.end_headers()

    def do_POST(self) -> None:
        self.server.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(int(self.path[1:]) if self.path in {"/301", "/500"} else 200)
        if self.path == "/301":
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in [each for each in os.environ if each.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    made = Server()
    worker = threading.Thread(target=made.serve_forever, args=(0.02,))
    worker.start()
    yield made
    made.over.set()
    made.shutdown()
    worker.join()
    made.server_close()


def pinged(*pings: Ping, env: dict[str, str] | None = None) -> list[str]:
    of = replace(ABOUT, environ={**ENV, **(env or {})})
    found = notify.send(Settings(), (), pings, of, timeouts=QUICK)
    return [f"{each.code} {each.what}" for each in found]


def told(settings: Settings, *alerts: Alert, **more: Any) -> list[str]:
    of = replace(ABOUT, environ=more.pop("env", ENV))
    found = notify.send(settings, alerts or (FAILED,), (), of, timeouts=QUICK, **more)
    return [each.what for each in found]


# --- pings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("what", "suffix"), [(Event.START, "/start"), (Event.SUCCESS, ""), (Event.FAIL, "/fail")])
def test_a_ping_says_how_it_goes_as_healthchecks_has_it(server: Server, what: Event, suffix: str) -> None:
    assert pinged(Ping(f"{server.url}/uuid", what, "backup")) == []
    assert server.asked == [f"/uuid{suffix}"]


def test_an_address_with_a_slash_or_a_query_keeps_its_shape(server: Server) -> None:
    assert pinged(Ping(f"{server.url}/a/", Event.START, "x"), Ping(f"{server.url}/b?create=1", Event.FAIL, "x")) == []
    assert sorted(server.asked) == ["/a/start", "/b/fail?create=1"]


def test_a_server_that_hangs_costs_a_moment_however_many_pings_there_are(server: Server) -> None:
    began = time.monotonic()
    said = pinged(
        *(Ping(f"{server.url}/{kind}{n}", Event.SUCCESS, f"e{n}") for n in range(10) for kind in ("hang", "drip"))
    )
    assert time.monotonic() - began < 15
    assert len(said) == 20
    assert all("had no answer within 1.5 s" in each or "TimeoutError" in each for each in said)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        pytest.param("{url}/404", "the server said 404", id="an error"),
        pytest.param("{url}/garbage", "failed", id="no HTTP at all"),
        pytest.param("http://127.0.0.1:1/x", "failed", id="nobody listens"),
        pytest.param("http://[::bad/x", "failed", id="no address"),
        pytest.param("http://127.0.0.1/a b\n", "failed", id="an address with blanks"),
        pytest.param("file:///etc/passwd", "can be read by others", id="a file that is none of ours"),
        pytest.param("ftp://127.0.0.1/x", "does not begin with https://", id="another protocol"),
        pytest.param("env:NO_SUCH", "the variable NO_SUCH is not set", id="no such variable"),
    ],
)
def test_what_goes_wrong_is_a_line_that_names_the_entry(server: Server, where: str, words: str) -> None:
    (said,) = pinged(Ping(where.format(url=server.url), Event.SUCCESS, "backup"), env={"HOME": "/x"})
    assert said.startswith("W351 the ping of backup failed")
    assert words in said


def test_the_other_pings_go_out_all_the_same(server: Server) -> None:
    said = pinged(Ping(f"{server.url}/hang", Event.SUCCESS, "a"), Ping(f"{server.url}/fine", Event.SUCCESS, "b"))
    assert [each.split()[4] for each in said] == ["a"]
    assert "/fine" in server.asked


def test_more_pings_than_a_tick_can_send_are_dropped_and_said(server: Server) -> None:
    said = pinged(*(Ping(f"{server.url}/{n}", Event.SUCCESS, "x") for n in range(53)))
    assert said == ["W351 3 pings were dropped: too many for one tick."]
    assert len(server.asked) == 50


def test_the_machines_certificates_are_read_once_for_all_pings(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of fifty pings read them, from Python 3.12 on: two seconds of a processor, and few came in time."""
    import ssl

    real, read = ssl.create_default_context, []

    def counted() -> ssl.SSLContext:
        read.append(1)
        return real()

    monkeypatch.setattr(ssl, "create_default_context", counted)
    delivery._certificates.cache_clear()
    assert pinged(*(Ping(f"{server.url}/{n}", Event.SUCCESS, "x") for n in range(20))) == []
    assert read == [1]


# --- a command -----------------------------------------------------------------------------------------------------


def script(folder: Path, text: str) -> str:
    path = folder / "notify"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.processes
def test_the_command_gets_each_alert_as_json_on_its_stdin(tmp_path: Path) -> None:
    command = script(tmp_path, f'cat >>{tmp_path}/got; echo >>{tmp_path}/got; echo "$*" >>{tmp_path}/words')
    assert told(Settings(alerts_command=f"{command} --to 'a b'", alerts_format="json"), FAILED, STILL) == []
    first, second = (json.loads(line) for line in (tmp_path / "got").read_text().splitlines())
    assert first == {
        "version": 1,
        "directory": "/home/alice/cron",
        "owner": "alice",
        "host": "login1",
        "phase": "new",
        "kind": "failed",
        "text": FAILED.text,
        "entry": "backup",
        "since": 1_795_790_000,
        "entries": [],
        "job": "",
        "log": "",
        "log_end": [],
    }
    assert (second["phase"], second["entry"]) == ("still", "sync")
    assert (tmp_path / "words").read_text() == "--to a b\n" * 2, "no alert's text is ever an argument"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("exit 3", "exited 3", id="it fails"),
        pytest.param(
            "for n in $(seq 100); do echo word$n; done >&2; exit 3",
            "exited 3: … word73 word74",
            id="what it said last, from a whole word on",
        ),
        pytest.param("sleep 60", "did not end within 1 s", id="it hangs"),
        pytest.param("echo no such channel >&2; exit 1", "no such channel", id="it says why"),
        pytest.param(f"echo at https://hooks.example/{SECRET} >&2; exit 1", "(an address)", id="it says its address"),
    ],
)
def test_a_command_that_fails_is_a_line(tmp_path: Path, text: str, words: str) -> None:
    (said,) = told(Settings(alerts_command=script(tmp_path, text)))
    assert words in said
    assert SECRET not in said


@pytest.mark.parametrize("command", ["/no/such/command", "'unbalanced", "''"])
def test_a_command_that_is_none_is_a_line(command: str) -> None:
    (said,) = told(Settings(alerts_command=command))
    assert "alerts.command" in said


@pytest.mark.processes
def test_a_command_that_hangs_is_not_asked_for_every_alert(tmp_path: Path) -> None:
    began = time.monotonic()
    (said,) = told(Settings(alerts_command=script(tmp_path, "sleep 60")), *[FAILED] * 20)
    assert "20 alerts were not sent" in said
    assert time.monotonic() - began < 15


# --- what could not be sent ----------------------------------------------------------------------------------------


@pytest.mark.processes
def test_what_could_not_be_sent_is_sent_by_a_later_tick_once(tmp_path: Path) -> None:
    outbox, fine = tmp_path / "outbox.json", tmp_path / "fine"
    settings = Settings(
        alerts_command=script(tmp_path, f"[ -e {fine} ] || exit 1; cat >>{tmp_path}/got; echo >>{tmp_path}/got"),
        alerts_format="json",
    )
    assert told(settings, FAILED, outbox=outbox, now=1000)
    assert outbox.stat().st_mode & 0o077 == 0
    fine.touch()
    assert told(settings, STILL, outbox=outbox, now=2000) == []
    assert [json.loads(line)["phase"] for line in (tmp_path / "got").read_text().splitlines()] == ["new", "still"]
    assert not outbox.exists()


@pytest.mark.processes
def test_after_a_day_it_is_no_news(tmp_path: Path) -> None:
    outbox = tmp_path / "outbox.json"
    settings = Settings(alerts_command=script(tmp_path, f"[ -e {outbox}.fine ] || exit 1; cat >>{tmp_path}/got"))
    assert told(settings, FAILED, outbox=outbox, now=1000)
    (tmp_path / "outbox.json.fine").touch()
    assert notify.send(settings, (), (), ABOUT, outbox=outbox, now=1000 + DAY, timeouts=QUICK) == ()
    assert not (tmp_path / "got").exists()


@pytest.mark.processes
@pytest.mark.parametrize("text", ["", "{", "[]", '{"version":1,"rows":[{"way":1}]}', '{"version":99}'])
def test_an_outbox_that_cannot_be_used_holds_nothing(tmp_path: Path, text: str) -> None:
    outbox = tmp_path / "outbox.json"
    outbox.write_text(text)
    assert told(Settings(alerts_command=script(tmp_path, "cat >/dev/null")), outbox=outbox, now=1000) == []


_APPRISE = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of modules that it loads

# --- Apprise -------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@_APPRISE
def test_apprise_gets_one_message_a_tick(server: Server) -> None:
    where = f"json://127.0.0.1:{server.server_port}/"
    assert told(Settings(alerts_apprise=(where,)), FAILED, STILL) == []
    (got,) = server.posted
    assert got["title"] == "cronhpc alice: 2 alerts"
    assert got["message"].split("\n")[:2] == [FAILED.text, f"still: {STILL.text} (since Fri 27 Nov 14:33 UTC)"]


@_APPRISE
@pytest.mark.parametrize("where", ["json://127.0.0.1:1/", "json://127.0.0.1:{port}/500"])
def test_apprise_that_cannot_deliver_is_a_line(server: Server, where: str) -> None:
    (said,) = told(Settings(alerts_apprise=(where.format(port=server.server_port),)))
    assert "could not deliver" in said


# --- secrets -------------------------------------------------------------------------------------------------------


def kept(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "address"
    path.write_text(f"{text}\n", encoding="utf-8")
    path.chmod(mode)
    return path


def test_an_address_comes_from_a_file_or_a_variable(server: Server, tmp_path: Path) -> None:
    path = kept(tmp_path, f"{server.url}/from-file")
    pings = [Ping(f"file:{path}", Event.SUCCESS, "a"), Ping("env:PING_URL", Event.SUCCESS, "b")]
    assert pinged(*pings, env={"PING_URL": f"{server.url}/from-env"}) == []
    assert sorted(server.asked) == ["/from-env", "/from-file"]


@_APPRISE
def test_apprise_reads_files_of_addresses(server: Server, tmp_path: Path) -> None:
    path = kept(tmp_path, f"json://127.0.0.1:{server.server_port}/a\njson://127.0.0.1:{server.server_port}/b")
    assert told(Settings(alerts_apprise=(str(path),))) == []
    assert len(server.posted) == 2


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_file_that_others_may_read_is_refused_with_the_fix(tmp_path: Path, mode: int) -> None:
    path = kept(tmp_path, f"https://hc.example/{SECRET}", mode)
    with pytest.raises(SecretError, match=f"chmod 600 {path}"):
        address(f"file:{path}", {})


def test_a_file_that_is_no_text_or_not_there_is_named(tmp_path: Path) -> None:
    path = kept(tmp_path, "x")
    path.write_bytes(b"\xff\xfe")
    for where in (path, tmp_path / "none", tmp_path):
        with pytest.raises(SecretError, match=str(where)):
            address(f"file:{where}", {})


@pytest.mark.processes
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(Settings(alerts_apprise=(f"json://127.0.0.1:1/{SECRET}",)), id="nobody listens"),
        pytest.param(Settings(alerts_apprise=(f"nosuch://{SECRET}@host",)), id="unknown to Apprise"),
        pytest.param(Settings(alerts_apprise=(f"slack://{SECRET}",)), id="malformed"),
        pytest.param(Settings(alerts_ping=f"http://127.0.0.1:1/{SECRET}"), id="a ping that fails"),
        pytest.param(Settings(alerts_ping=f"http://127.0.0.1:1/ {SECRET}"), id="a ping with a blank"),
        pytest.param(Settings(alerts_ping=f"gopher://{SECRET}/"), id="a ping of another protocol"),
    ],
)
def test_no_secret_is_ever_printed_or_told(settings: Settings) -> None:
    """Not by us, nor by a library's own logging: in a process as a tick's is, with nothing set up."""
    code = (
        "import sys; from cronhpc.engine import delivery, notify; from cronhpc.core.alerts import *; "
        "from cronhpc.core.model import Phase, Settings; "
        f"s = {settings!r}; pings = [Ping(s.alerts_ping, Event.FAIL, 'chain')] if s.alerts_ping else []; "
        "found = notify.send(s, [Alert(Phase.NEW, 'failed', 'x')], pings, delivery.About('/x', 'a', 'h', {}), "
        "timeouts=delivery.Timeouts(1, 1, 2, 1)); "
        "print(found); sys.exit(0 if found else 3)"
    )
    environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert done.stderr == ""


def test_a_problem_says_what_to_do() -> None:
    (problem,) = notify.send(Settings(alerts_command="/no/such"), [FAILED], (), ABOUT, timeouts=QUICK)
    assert isinstance(problem, Problem)
    assert "cronhpc doctor --alerts" in problem.fix
