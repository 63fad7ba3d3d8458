"""The ways by which alerts reach people: what each gets, word for word, and what is said where one fails."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cronhpc.core.alerts import Alert
from cronhpc.core.model import Phase, Settings
from cronhpc.engine import delivery, notify
from cronhpc.engine.delivery import About, faults
from tests.engine.test_notify import ENV, QUICK, Server, script
from tests.engine.test_notify import server as server  # noqa: PLC0414 - a fixture

LOG = "log/backup/20261128T0400Z-1234.out"
FAILED = Alert(Phase.NEW, "failed", "backup failed once: failed (exit 1)", "backup", 1_795_790_000, job="1234", log=LOG)
STILL = Alert(Phase.STILL, "missed", "sync missed a slot: no tick came", "sync", 1_795_790_000)


@pytest.fixture
def about(tmp_path: Path) -> About:
    """A cron directory with the log of one failed run."""
    root = tmp_path / "cron"
    (root / "log" / "backup").mkdir(parents=True)
    (root / LOG).write_text("".join(f"line {n}\n" for n in range(30)) + "tar: /data: \x1b[31mNo such file\n")
    return About(str(root), "alice", "login1", ENV)


def told(settings: Settings, about: About, *alerts: Alert, outbox: Path | None = None, now: int = 1000) -> list[str]:
    return [each.what for each in notify.send(settings, alerts, (), about, outbox=outbox, now=now, timeouts=QUICK)]


def text_of(root: str) -> str:
    printed = "".join(f"    line {n}\n" for n in range(21, 30))
    return (
        "backup failed once: failed (exit 1)\n\nThe log of backup, job 1234, ends with:\n"
        f"{printed}    tar: /data: \\e[31mNo such file\n    {root}/{LOG}\n\n"
        f"{root} on login1. More: cronhpc status --dir {root} backup\n"
    )


# --- a command -----------------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_a_command_gets_text_that_reads_as_a_mail_does(tmp_path: Path, about: About) -> None:
    settings = Settings(alerts_command=script(tmp_path, f"cat >{tmp_path}/got; env >{tmp_path}/env"))
    assert told(settings, about, FAILED) == []
    assert (tmp_path / "got").read_text() == text_of(about.directory)
    given = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if line[:8] == "CRONHPC_")
    assert given == {
        "CRONHPC_PHASE": "new",
        "CRONHPC_KIND": "failed",
        "CRONHPC_TEXT": FAILED.text,
        "CRONHPC_ENTRY": "backup",
        "CRONHPC_JOB": "1234",
        "CRONHPC_LOG": f"{about.directory}/{LOG}",
        "CRONHPC_DIR": about.directory,
        "CRONHPC_OWNER": "alice",
        "CRONHPC_HOST": "login1",
        "CRONHPC_SINCE": "2026-11-27T14:33:20Z",
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param("no-such-mailer me", "no-such-mailer is on no folder of PATH", id="not there"),
        pytest.param("/no/notify", "/no/notify is no program that may be executed", id="a path to nothing"),
        pytest.param("{here}/no-first-line", "{here}/no-first-line: cannot be started: Exec format error", id="no #!"),
        pytest.param("sh -c 'exit 3'", " exited 3", id="ends without a word"),
        pytest.param("sh -c 'echo no route; exit 3'", " exited 3: no route", id="complains on its output"),
    ],
)
def test_a_command_that_fails_is_told_whole(tmp_path: Path, about: About, line: str, said: str) -> None:
    """However long PATH is."""
    (tmp_path / "no-first-line").write_text("true\n")
    (tmp_path / "no-first-line").chmod(0o755)
    line, said = line.replace("{here}", str(tmp_path)), said.replace("{here}", str(tmp_path))
    told_by = replace(about, environ={**ENV, "PATH": "/bin:/usr/bin" + ":/a/folder/of/a/module" * 30})
    separator = "" if said.startswith(" ") else ": "
    assert told(Settings(alerts_command=line), told_by, FAILED) == [
        f"1 alert was not sent: alerts.command{separator}{said}."
    ]


def test_a_reminder_says_since_when(about: About) -> None:
    said = delivery.body([Alert(Phase.STILL, "failed", "sync failed", "sync", since=0)], about)
    assert said.startswith("still: sync failed (since Thu 1 Jan 00:00 UTC)\n")


@pytest.mark.parametrize("kind", ["a link", "another name of a file", "gone"])
def test_a_log_that_is_not_surely_the_runs_own_is_not_quoted(tmp_path: Path, about: About, kind: str) -> None:
    secret, log = tmp_path / "secret", Path(about.directory, LOG)
    secret.write_text("a secret\n")
    log.unlink()
    if kind == "a link":
        log.symlink_to(secret)
    elif kind == "another name of a file":
        log.hardlink_to(secret)
    assert "secret" not in delivery.body([Alert(Phase.NEW, "failed", "x", "backup", log=LOG)], about)


@pytest.mark.processes
def test_an_alert_may_hold_anything(tmp_path: Path, about: About) -> None:
    odd = replace(FAILED, text="x\x1b]0;y\x07\nBcc: mallory@example.org\udcff", log="")
    settings = Settings(alerts_command=script(tmp_path, f"cat >{tmp_path}/got"))
    assert told(settings, about, odd) == []
    assert (tmp_path / "got").read_text().startswith("x\\e]0;y\\x07\nBcc: mallory@example.org\\xff\n")
    assert "\n" not in delivery.subject([odd], about)


# --- mail ----------------------------------------------------------------------------------------------------------


def with_programs(about: About, folder: Path, *names: str) -> About:
    """On whose PATH these programs are, which write down what they get, and no other mailer is."""
    for name in names:
        path = folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >{folder}/{name}.words\n/bin/cat >{folder}/{name}.got\n')
        path.chmod(0o755)
    return replace(about, environ={"PATH": f"{folder}/bin"})


@pytest.fixture
def _no_mailer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_SENDMAILS", ("sendmail",))


@pytest.mark.processes
@pytest.mark.usefixtures("_no_mailer")
def test_mail_goes_by_sendmail_in_one_letter(tmp_path: Path, about: About) -> None:
    at = with_programs(about, tmp_path, "sendmail", "mail")
    settings = Settings(alerts_mail=("alice@example.org", "bob"))
    assert told(settings, at, FAILED, STILL) == []
    assert (tmp_path / "sendmail.words").read_text() == "-i -t\n"
    head, _, body = (tmp_path / "sendmail.got").read_text().partition("\n\n")
    assert "To: alice@example.org, bob" in head
    assert "Subject: cronhpc alice: 2 alerts" in head
    assert "Auto-Submitted: auto-generated" in head
    assert body.startswith(f"{FAILED.text}\nstill: {STILL.text} (since ")
    assert "tar: /data" in body
    assert not (tmp_path / "mail.got").exists()


@pytest.mark.processes
@pytest.mark.usefixtures("_no_mailer")
def test_mail_goes_by_mail_where_there_is_no_sendmail(tmp_path: Path, about: About) -> None:
    at = with_programs(about, tmp_path, "mail")
    assert told(Settings(alerts_mail=("alice@example.org",)), at, FAILED) == []
    assert (tmp_path / "mail.words").read_text() == f"-s cronhpc alice: {FAILED.text} alice@example.org\n"
    assert (tmp_path / "mail.got").read_text() == text_of(about.directory)


@pytest.mark.usefixtures("_no_mailer")
def test_where_nothing_sends_mail_the_way_out_is_said(tmp_path: Path, about: About) -> None:
    at = with_programs(about, tmp_path)
    (said,) = told(Settings(alerts_mail=("alice@example.org",)), at, FAILED)
    assert "this machine has neither sendmail nor mail; name a mail server: alerts: {smtp: HOST}" in said


class MailServer(socketserver.ThreadingTCPServer):
    """As much of SMTP as a letter needs; `refuses` is the answer to each RCPT of `whom`. It keeps what it gets."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, host: str) -> None:
        self.letters: list[str] = []
        self.refuses = ""
        self.whom = "@"
        self.hangs = threading.Event()
        self.silent = False
        super().__init__((host, 0), _Mailing)

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Mailing(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        if self.server.silent:
            self.server.hangs.wait(60)
            return
        self._say("220 ready")
        while line := self.rfile.readline().decode().strip():
            word = line.split(" ", maxsplit=1)[0].upper()
            if word == "DATA":
                self._say("354 go on")
                letter = iter(self.rfile.readline, b".\r\n")
                self.server.letters.append(b"".join(letter).decode())
                self._say("250 kept")
            elif word == "QUIT":
                self._say("221 bye")
                return
            else:
                refused = word == "RCPT" and self.server.whom in line
                self._say((refused and self.server.refuses) or "250 fine")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@contextmanager
def serving(host: str) -> Iterator[MailServer]:
    made = MailServer(host)
    worker = threading.Thread(target=made.serve_forever, args=(0.02,))
    worker.start()
    try:
        yield made
    finally:
        made.hangs.set()
        made.shutdown()
        worker.join()
        made.server_close()


@pytest.fixture
def post() -> Iterator[MailServer]:
    with serving("127.0.0.1") as made:
        yield made


def test_mail_goes_to_the_server_that_the_settings_name(post: MailServer, about: About) -> None:
    settings = Settings(alerts_mail=("alice@example.org",), alerts_smtp=f"127.0.0.1:{post.port}")
    assert told(settings, about, FAILED) == []
    (letter,) = post.letters
    for line in ("To: alice@example.org", "From: alice@example.org", f"Subject: cronhpc alice: {FAILED.text}"):
        assert line in letter
    assert "tar: /data" in letter


def test_a_server_that_says_no_is_named_and_the_mail_is_sent_later(
    post: MailServer, about: About, tmp_path: Path
) -> None:
    settings = Settings(alerts_mail=("alice@example.org",), alerts_smtp=f"smtp://127.0.0.1:{post.port}")
    outbox = tmp_path / "outbox.json"
    post.refuses = "550 no such user"
    assert told(settings, about, FAILED, outbox=outbox) == [
        "1 alert was not sent: the mail server refused every recipient."
    ]
    (waiting,) = notify.unsent(outbox, 2000)
    assert waiting.what == "1 alert was not sent: the mail server refused every recipient."
    assert "cronhpc doctor --alerts" in waiting.fix
    post.refuses = ""
    assert told(settings, about, outbox=outbox, now=2000) == []
    assert len(post.letters) == 1
    assert notify.unsent(outbox, 2000) == []


def test_who_has_got_a_mail_does_not_get_it_again_because_another_was_refused(
    post: MailServer, about: About, tmp_path: Path
) -> None:
    settings = Settings(alerts_mail=("alice@b", "gone@b"), alerts_smtp=f"smtp://127.0.0.1:{post.port}")
    post.refuses, post.whom = "550 no such user", "gone@b"
    said = ["1 alert was sent, but not to all: the mail server refused gone@b."]
    assert told(settings, about, FAILED, outbox=tmp_path / "outbox.json") == said
    assert told(settings, about, outbox=tmp_path / "outbox.json", now=2000) == []
    assert len(post.letters) == 1


def test_a_login_that_a_server_does_not_know_is_said(post: MailServer, about: About) -> None:
    settings = Settings(alerts_mail=("alice@b",), alerts_smtp=f"smtp://me:secret@127.0.0.1:{post.port}")
    said = "1 alert was not sent: the mail server knows no login: leave USER:PASSWORD@ out."
    assert told(settings, about, FAILED) == [said]


@pytest.mark.parametrize(
    ("where", "words"),
    [
        pytest.param("127.0.0.1:{port}", "had no answer within 2 s", id="it hangs"),
        pytest.param("127.0.0.1:1", "ConnectionRefusedError", id="nobody listens"),
        pytest.param("gopher://127.0.0.1:1", "its address is none of a mail server", id="no mail server's address"),
        pytest.param("127.0.0.1:none", "its address is none of a mail server", id="a port that is no number"),
        pytest.param("env:NO_SUCH", "the variable NO_SUCH is not set", id="no such variable"),
    ],
)
def test_a_server_that_gives_no_answer_costs_a_moment(post: MailServer, about: About, where: str, words: str) -> None:
    post.silent = True
    settings = Settings(alerts_mail=("alice@example.org",), alerts_smtp=where.format(port=post.port))
    timeouts = QUICK._replace(post=2.0)
    (said,) = notify.send(settings, [FAILED], (), about, timeouts=timeouts)
    assert words in said.what or "TimeoutError" in said.what


def test_a_password_is_not_sent_in_the_open(about: About, tmp_path: Path) -> None:
    """To another machine, that is: 127.0.0.2 is this one by another address."""
    kept = tmp_path / "smtp"
    settings = Settings(alerts_mail=("alice@example.org",), alerts_smtp=f"file:{kept}")
    with serving("127.0.0.2") as other:
        kept.write_text(f"smtp://alice:secret@127.0.0.2:{other.port}\n")
        kept.chmod(0o600)
        (said,) = told(settings, about, FAILED)
    assert "offers no encryption, so the password was not sent" in said
    assert other.letters == []


# --- webhooks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://hooks.slack.com/services/T/B/x", "text"),
        ("https://chat.example.org/hooks/abc", "text"),
        ("https://chat.googleapis.com/v1/spaces/x", "text"),
        ("https://discord.com/api/webhooks/1/x", "content"),
        ("https://discord.com/api/webhooks/1/x/slack", "text"),
        ("https://example.org/my-own", ""),
    ],
)
def test_a_chat_is_known_by_its_address(url: str, key: str) -> None:
    assert delivery._chat(url) == key


def test_a_chat_gets_one_message_in_slacks_form(server: Server, about: About) -> None:
    assert told(Settings(alerts_webhook=(f"{server.url}/hooks/abc",)), about, FAILED) == []
    assert told(Settings(alerts_webhook=(f"{server.url}/hooks/abc",)), about, FAILED, STILL) == []
    one, two = server.posted
    assert one == {"text": text_of(about.directory).rstrip("\n")}
    assert two["text"].startswith(f"cronhpc alice: 2 alerts\n{FAILED.text}\nstill: {STILL.text}")


def test_a_program_gets_the_facts_of_each_alert(server: Server, about: About) -> None:
    """The keys are documented in docs/alerts.md."""
    assert told(Settings(alerts_webhook=(f"{server.url}/mine",)), about, FAILED, STILL) == []
    first, second = server.posted
    assert first == {
        "version": 1,
        "directory": about.directory,
        "owner": "alice",
        "host": "login1",
        "phase": "new",
        "kind": "failed",
        "text": FAILED.text,
        "entry": "backup",
        "entries": [],
        "since": FAILED.since,
        "job": "1234",
        "log": f"{about.directory}/{LOG}",
        "log_end": [*(f"line {n}" for n in range(21, 30)), "tar: /data: \\e[31mNo such file"],
    }
    assert (second["phase"], second["log"], second["log_end"]) == ("still", "", [])


def test_one_webhook_that_fails_is_tried_again_and_the_other_is_not(
    server: Server, about: About, tmp_path: Path
) -> None:
    outbox = tmp_path / "outbox.json"
    both = Settings(alerts_webhook=(f"{server.url}/fine", f"{server.url}/500"))
    assert told(both, about, FAILED, outbox=outbox) == ["1 alert was not sent: alerts.webhook: the server said 500."]
    now_fine = replace(both, alerts_webhook=(f"{server.url}/fine", f"{server.url}/well"))
    assert told(now_fine, about, outbox=outbox, now=2000) == []
    assert len(server.posted) == 3, "the first got it once, the second twice"


def test_a_post_that_would_go_on_as_a_get_is_not_taken_for_sent(server: Server, about: About) -> None:
    settings = Settings(alerts_webhook=(f"{server.url}/301",))
    said = "1 alert was not sent: alerts.webhook: the server said 301: its address is another now."
    assert told(settings, about, FAILED) == [said]
    assert server.asked == []


def test_why_nobody_answers_is_said_without_the_address(about: About) -> None:
    settings = Settings(alerts_webhook=("http://127.0.0.1:1/secret",))
    assert told(settings, about, FAILED) == [
        "1 alert was not sent: alerts.webhook: ConnectionRefusedError (Connection refused)."
    ]


def test_the_proxy_of_the_environment_is_used(server: Server, about: About) -> None:
    behind = replace(about, environ={**ENV, "http_proxy": server.url})
    assert told(Settings(alerts_webhook=("http://hook.example/hooks/x",)), behind, FAILED) == []
    assert len(server.posted) == 1
    inside = replace(about, environ={**ENV, "http_proxy": "http://127.0.0.1:1", "no_proxy": "127.0.0.1"})
    assert told(Settings(alerts_webhook=(f"{server.url}/hooks/x",)), inside, FAILED) == []
    assert len(server.posted) == 2


# --- what check says before anything fails -------------------------------------------------------------------------


@pytest.mark.usefixtures("_no_mailer")
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param(Settings(), [], id="no alerts"),
        pytest.param(Settings(alerts_command="sh -c true"), [], id="a program on PATH"),
        pytest.param(
            Settings(alerts_command="/no/notify --x"),
            ["alerts.command: /no/notify is no program that may be executed."],
            id="a program that is not there",
        ),
        pytest.param(
            Settings(alerts_command="no-such-mailer me"),
            ["alerts.command: no-such-mailer is on no folder of PATH."],
            id="a name that PATH does not know",
        ),
        pytest.param(
            Settings(alerts_command="mail 'me"),
            ["alerts.command: its quotes cannot be read: No closing quotation."],
            id="an open quote",
        ),
        pytest.param(
            Settings(alerts_command="tail -n3 | mail me"),
            ["alerts.command: no shell reads it, so | is an argument as the others are."],
            id="a pipe that no shell sees",
        ),
        pytest.param(
            Settings(alerts_command="$HOME/bin/notify"),
            ["alerts.command: no shell reads it, so $HOME/bin/notify is the program's name as it stands."],
            id="a variable that no shell sees",
        ),
        pytest.param(
            Settings(alerts_command="LANG=C mail me"),
            ["alerts.command: no shell reads it, so LANG=C is the program's name as it stands."],
            id="an assignment that no shell sees",
        ),
        pytest.param(
            Settings(alerts_command="cat >~/told 2>&1"),
            ["alerts.command: no shell reads it, so >~/told is an argument as the others are."],
            id="a redirection that no shell sees",
        ),
        pytest.param(Settings(alerts_command="sh -c 'cat >told | x; y'"), [], id="a shell that is named"),
        pytest.param(
            Settings(alerts_smtp="smtp.b"),
            ["alerts.smtp: alerts.mail names nobody, so no mail goes out."],
            id="a mail server, and nobody to write to",
        ),
        pytest.param(
            Settings(alerts_mail=("a@b",), alerts_smtp="smtp.b:none"),
            ["alerts.smtp: its address is none of a mail server."],
            id="a mail server's port that is no number",
        ),
        pytest.param(
            Settings(alerts_webhook=("https://chat.b:port/x", "https:///x", "https://b/x y", "https://b:8443/x?a=1")),
            ["alerts.webhook: the address has no machine, a port that is no number, or spaces."] * 3,
            id="addresses that nobody can reach",
        ),
        pytest.param(
            Settings(alerts_mail=("a@b",)),
            ["alerts.mail: this machine has neither sendmail nor mail."],
            id="nothing that sends mail",
        ),
        pytest.param(Settings(alerts_mail=("a@b",), alerts_smtp="smtp.b"), [], id="mail by a server"),
        pytest.param(
            Settings(alerts_webhook=("hooks.slack.com/x",)),
            ["alerts.webhook: the address does not begin with https://."],
            id="an address that is cut",
        ),
        pytest.param(
            Settings(alerts_webhook=("file:/no/such",)),
            ["alerts.webhook: /no/such cannot be read: No such file or directory."],
            id="a file that is not there",
        ),
        pytest.param(
            Settings(alerts_ping="env:NO_SUCH"),
            ["alerts.ping: the variable NO_SUCH is not set where the scheduler runs: set it, then cronhpc start."],
            id="a variable that is not set",
        ),
    ],
)
def test_what_cannot_work_is_seen_without_sending(settings: Settings, said: list[str]) -> None:
    found = [f"{key}: {what}" for key, what, _ in faults(settings, {"PATH": "/bin"})]
    assert [each.replace("/usr/bin", "/bin") for each in found] == said


def test_who_made_an_address_private_is_not_told_to_put_it_there(tmp_path: Path) -> None:
    hook = tmp_path / "hook"
    hook.write_text("https://chat.b/x")
    hook.chmod(0o644)
    ((_, what, fix),) = faults(Settings(alerts_webhook=(f"file:{hook}",)), {})
    assert what == f"{hook} can be read by others: chmod 600 {hook}."
    assert fix == "Then change the secret, if others may have read it."


def test_the_keys_are_all_documented() -> None:
    known = delivery.facts(FAILED, About("/x", "a", "h", {}))
    page = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text()
    assert [key for key in known if f"`{key}`" not in page] == []
    assert json.dumps(known)
