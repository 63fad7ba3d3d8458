"""How alerts reach people: a command, mail, webhooks, Apprise. All but the last need the standard library alone.

Each way takes alerts in order, and says how many of them it has sent, and why not the rest. Addresses may hold secrets:
they are read from files of mode 0600 or from variables, and no message and no argument list shows them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from cronhpc.batch import process
from cronhpc.core.model import AlertFormat, CronhpcError, Entry, Phase, Problem, Settings, command
from cronhpc.core.model.decode import iso
from cronhpc.cron.values import dataclass
from cronhpc.store.entries import file_of, row_of
from cronhpc.store.logs import tail_of
from cronhpc.views import text
from cronhpc.views.style import Style

if TYPE_CHECKING:
    import ssl
    from email.message import EmailMessage

    from cronhpc.core.alerts import Alert

Way = Callable[[Sequence["Alert"]], tuple[int, str]]
VERSION = 1  # of the keys that a program gets
_T = TypeVar("_T")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
_MOST_LETTERS = 200  # characters of what a command said
_SUBJECT = 150  # characters
_LINES, _LOGS, _COLUMNS = 10, 5, 300  # of a log that a message quotes; logs; characters of a line
_DISCORDS_MOST = 1900  # characters


class Timeouts(NamedTuple):
    """How long a tick waits, in seconds."""

    command: float = 30.0  # for one run of the command, or of sendmail
    commands: float = 60.0  # for all runs of the command
    apprise: float = 30.0
    pings: float = 5.0  # for all of them
    post: float = 15.0  # for a webhook, or a mail server


TIMEOUTS = Timeouts()


@dataclass(frozen=True, slots=True)
class About:
    """Whose cron directory tells, and from where. `environ`: what commands get, and where variables are looked up."""

    directory: str
    owner: str
    host: str
    environ: Mapping[str, str]


def ways(settings: Settings, about: About, timeouts: Timeouts = TIMEOUTS) -> dict[str, Way]:
    """The ways that the settings have, by the name under which what could not be sent is kept."""
    by_name: dict[str, Way] = {}
    if settings.alerts_command:
        by_name["command"] = partial(_by_command, settings, about, timeouts)
    if settings.alerts_mail:
        by_name["mail"] = partial(_by_mail, settings, about, timeouts)
    for number, where in enumerate(settings.alerts_webhook, 1):
        by_name["webhook" if number == 1 else f"webhook {number}"] = partial(_by_webhook, where, about, timeouts)
    if settings.alerts_apprise:
        by_name["apprise"] = partial(_by_apprise, settings.alerts_apprise, about, timeouts)
    return by_name


Fault = tuple[str, str, str]  # key of the settings, what, fix


def faults(settings: Settings, environ: Mapping[str, str]) -> Iterator[Fault]:
    """What in the settings keeps alerts from being sent, as far as one can see without sending: (key, what, fix)."""
    if settings.alerts_command:
        yield from _faults_of_command(settings.alerts_command, environ)
    if settings.alerts_mail and not settings.alerts_smtp and not any(_mailers(environ)):
        yield "alerts.mail", _NO_MAILER, "Name a mail server: alerts: {smtp: HOST}."
    if settings.alerts_smtp and not settings.alerts_mail:
        yield "alerts.smtp", "alerts.mail names nobody, so no mail goes out.", "Say to whom: alerts: {mail: ADDRESS}."
    if settings.alerts_apprise and find_spec("apprise") is None:
        yield "alerts.apprise", "it needs a package.", f"{_WITH_APPRISE}."
    addresses = [*(("alerts.webhook", each) for each in settings.alerts_webhook)]
    addresses += [("alerts.ping", settings.alerts_ping)] if settings.alerts_ping else []
    addresses += [("alerts.smtp", settings.alerts_smtp)] if settings.alerts_smtp else []
    for key, where in addresses:
        yield from _faults_of_address(key, where, environ)


def faults_of_ping(entry: Entry, environ: Mapping[str, str]) -> Iterator[Problem]:
    """What keeps the pings of an entry from being sent, as far as one can see without sending."""
    for key, what, fix in _faults_of_address("--ping", entry.policies.ping, environ) if entry.policies.ping else ():
        yield Problem("W351", f"{key}: {what}", fix, file_of(entry), row_of(entry), "ping")


_BY_SHELL = "Let a shell read it: command: bash -c 'COMMAND'; or write a script."


def _faults_of_command(line: str, environ: Mapping[str, str]) -> Iterator[Fault]:
    try:
        argv = _argv(line)
    except ValueError as error:
        yield "alerts.command", f"its quotes cannot be read: {error}.", "Close them."
        return
    if argv and re.match(r"\w+=|[^/]*\$", argv[0]):
        yield "alerts.command", f"no shell reads it, so {argv[0]} is the program's name as it stands.", _BY_SHELL
    elif lacking := _lacking(argv, environ):
        yield "alerts.command", f"{lacking}.", "Correct the path, or: chmod +x it."
    elif of_shell := next((word for word in argv if _OF_SHELLS.fullmatch(word)), ""):
        what = f"no shell reads it, so {of_shell} is an argument as the others are."
        yield "alerts.command", what, _BY_SHELL


def _faults_of_address(key: str, where: str, environ: Mapping[str, str]) -> Iterator[Fault]:
    try:
        url = address(where, environ)
    except SecretError as error:
        yield key, f"{error}.", error.fix
        return
    if key == "alerts.smtp":
        if _server(url) is None:
            yield key, f"{_NO_SERVER}.", "Write HOST, HOST:PORT, or smtps://USER:PASSWORD@HOST."
    elif not url.startswith(("https://", "http://")):
        yield key, "the address does not begin with https://.", "Write it whole."
    elif not _names_a_machine(url):
        yield key, "the address has no machine, a port that is no number, or spaces.", "Write it whole."


# --- addresses -----------------------------------------------------------------------------------------------------


class SecretError(CronhpcError):
    """An address cannot be had from where it is kept; `fix`: what else to do about it."""

    fix = "Put the address there."


class _Open(SecretError):
    fix = "Then change the secret, if others may have read it."


def address(where: str, environ: Mapping[str, str]) -> str:
    """The address that `where` means. Raises SecretError, which names the place and never the content."""
    kind, _, rest = where.partition(":")
    if kind == "env":
        value = environ.get(rest, "").strip()
        if not value:
            start = command("start")
            raise SecretError(f"the variable {rest} is not set where the scheduler runs: set it, then " + start)
        return value
    if kind == "file" or where.startswith(("/", "~")):
        return _kept_in(Path(rest if kind == "file" else where).expanduser())
    return where


def _kept_in(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise _Open(f"{path} can be read by others: chmod 600 {path}")
            return file.read().strip()
    except UnicodeError:
        raise SecretError(f"{path} is no text") from None
    except OSError as error:
        raise SecretError(f"{path} cannot be read: {error.strerror}") from None


# --- what is told --------------------------------------------------------------------------------------------------


def subject(alerts: Sequence[Alert], about: About) -> str:
    """One line: what happened, or how much did."""
    headline = _phase(alerts[0]) + alerts[0].text if len(alerts) == 1 else f"{len(alerts)} alerts"
    first = headline.partition("\n")[0]
    return text.cut(text.one_line(f"cronhpc {about.owner}: {first}"), _SUBJECT)


def body(alerts: Sequence[Alert], about: About) -> str:
    """For people: a line an alert, then how the logs of the runs end, then where to look."""
    lines = [f"{_phase(each)}{each.text}{_since(each)}" for each in alerts]
    logs = {each.log: each for each in alerts if each.log}
    for log, each in list(logs.items())[:_LOGS]:
        job = f", job {each.job}," if each.job else ""
        end = log_end(log, about)
        if end is not None:
            printed = [f"    {line}" for line in end] or ["    (nothing was printed)"]
            lines += ["", f"The log of {each.entry}{job} ends with:", *printed, f"    {about.directory}/{log}"]
    asked = [each.entry for each in alerts if each.entry] if len(alerts) == 1 else []
    more = str(command("status", *asked, directory=about.directory))
    return text.lines("\n".join([*lines, "", f"{about.directory} on {about.host}. More: {more}"]))


def _phase(alert: Alert) -> str:
    return "still: " if alert.phase is Phase.STILL else ""


def _since(alert: Alert) -> str:
    since = alert.since if alert.phase is Phase.STILL else None
    return "" if since is None else f" (since {Style(since).whole(since)})"


def log_end(log: str, about: About) -> list[str] | None:
    """The last lines of a run's log, harmless; None where there is none that may be read."""
    end = tail_of(Path(about.directory), log)
    if end is None:
        return None
    return [line[:_COLUMNS] for line in text.lines(end).rstrip("\n").split("\n")[-_LINES:] if end.strip()]


def facts(alert: Alert, about: About) -> dict[str, Any]:
    """For programs: what docs/alerts.md says of each key."""
    end = log_end(alert.log, about) if alert.log else None
    fields = {key: getattr(alert, key) for key in ("phase", "kind", "text", "entry", "entries", "since", "job")}
    place = {"directory": about.directory, "owner": about.owner, "host": about.host}
    whole = f"{about.directory}/{alert.log}" if alert.log else ""
    return {"version": VERSION, **place, **fields, "log": whole, "log_end": end or []}


# --- a command -----------------------------------------------------------------------------------------------------


def _argv(line: str) -> list[str]:
    """Raises ValueError."""
    return [os.path.expanduser(word) for word in shlex.split(line)]  # noqa: PTH111 - a text


_OF_SHELLS = re.compile(r"\||\|\||&|&&|;|\d?(?:>>?|<)(?:&\d)?\S*")  # words that only a shell understands


def _lacking(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """What is wrong with the program's name; "" where this machine has it."""
    named = argv[0] if argv else "nothing"
    if argv and process.which(named, environ) is not None:
        return ""
    return f"{named} {'is no program that may be executed' if '/' in named else 'is on no folder of PATH'}"


def _exited(program: str, ended: process.Finished) -> str:
    words = _harmless(ended.err) or _harmless(ended.out)
    return f"{program} exited {ended.code}{words and f': {words}'}"


def _by_command(settings: Settings, about: About, timeouts: Timeouts, alerts: Sequence[Alert]) -> tuple[int, str]:
    """Once an alert: text for people on its standard input, or JSON; the facts in CRONHPC_* variables."""
    until = process.elapsed() + timeouts.commands
    try:
        argv = _argv(settings.alerts_command)
        if lacking := _lacking(argv, about.environ):
            return 0, f"alerts.command: {lacking}"
        for number, alert in enumerate(alerts):
            left = min(timeouts.command, until - process.elapsed())
            if left <= 0:
                return number, "alerts.command takes too long"
            fields = facts(alert, about)
            as_json = settings.alerts_format == AlertFormat.JSON
            given = json.dumps(fields) if as_json else f"{body([alert], about)}\n"
            ended = process.run(argv, timeout=left, env={**about.environ, **_variables(fields)}, input=given)
            if ended.timed_out:
                return number, f"alerts.command did not end within {left:.0f} s"
            if ended.code:
                return number, _exited("alerts.command", ended)
    except (ValueError, IndexError, CronhpcError) as error:
        return 0, f"alerts.command: {_harmless(str(error))}"
    return len(alerts), ""


_LONGEST = 30_000  # bytes of a variable: with those of the site, an environment has room for it


def _variables(fields: Mapping[str, Any]) -> dict[str, str]:
    """As the reference has them."""
    given = {
        "CRONHPC_PHASE": fields["phase"],
        "CRONHPC_KIND": fields["kind"],
        "CRONHPC_TEXT": fields["text"],
        "CRONHPC_ENTRY": fields["entry"],
        "CRONHPC_JOB": fields["job"],
        "CRONHPC_LOG": fields["log"],
        "CRONHPC_SINCE": iso(fields["since"]) or "",
        "CRONHPC_DIR": fields["directory"],
        "CRONHPC_OWNER": fields["owner"],
        "CRONHPC_HOST": fields["host"],
    }
    return {name: str(value)[:_LONGEST] for name, value in given.items()}


def _harmless(message: str) -> str:
    """The end of what a program said: one line of whole words, without any address, which may hold a secret."""
    words = " ".join(_URL.sub("(an address)", message).split())
    if len(words) <= _MOST_LETTERS:
        return words
    end = words[-_MOST_LETTERS:]
    return f"… {end.partition(' ')[2] or end}"


# --- mail ----------------------------------------------------------------------------------------------------------


_NO_MAILER = "this machine has neither sendmail nor mail."
_SENDMAILS = ("sendmail", "/usr/sbin/sendmail", "/usr/lib/sendmail")
_PORTS = {"smtp": 25, "smtps": 465}
_SUBMISSION = 587


def _mailers(environ: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The paths of sendmail and of mail; None where this machine has none."""
    sendmail = next((path for each in _SENDMAILS if (path := process.which(each, environ))), None)
    return sendmail, process.which("mail", environ) or process.which("mailx", environ)


def _by_mail(settings: Settings, about: About, timeouts: Timeouts, alerts: Sequence[Alert]) -> tuple[int, str]:
    """One mail for all: by the server of alerts.smtp, else by this machine's sendmail, else by its mail."""
    title, content = subject(alerts, about), body(alerts, about)
    if settings.alerts_smtp:
        send = partial(_by_smtp, settings, about, title, content, timeouts.post)
        (why,) = at_once([send], timeouts.post)
        if isinstance(why, _Refused):
            return len(alerts), f"the mail server refused {', '.join(why.recipients)}"
        return (0, f"the mail server {why}") if why else (len(alerts), "")
    sendmail, mail = _mailers(about.environ)
    if sendmail:
        argv, given = [sendmail, "-i", "-t"], _mail(settings.alerts_mail, title, content).as_string()
    elif mail:
        argv, given = [mail, "-s", title, *settings.alerts_mail], f"{content}\n"
    else:
        return 0, f"{_NO_MAILER.rstrip('.')}; name a mail server: alerts: {{smtp: HOST}}"
    try:
        ended = process.run(argv, timeout=timeouts.command, env=about.environ, input=given)
    except CronhpcError as error:
        return 0, _harmless(str(error))
    if ended.timed_out:
        return 0, f"{argv[0]} did not end within {timeouts.command:.0f} s"
    return (0, _exited(argv[0], ended)) if ended.code else (len(alerts), "")


def _mail(to: Sequence[str], title: str, content: str, sender: str = "") -> EmailMessage:
    """`sender` "": the program that sends it knows better."""
    from email.message import EmailMessage
    from email.utils import formatdate

    mail = EmailMessage()
    if sender:
        mail["From"], mail["Date"] = sender, formatdate()
    mail["To"] = ", ".join(to)
    mail["Subject"] = title
    mail["Auto-Submitted"] = "auto-generated"  # no answer of one who is on leave
    mail.set_content(content + "\n")
    return mail


class _Refused(NamedTuple):
    """Of a mail that the others have got: it is not sent again, since each time they would get it once more."""

    recipients: tuple[str, ...]


def _by_smtp(settings: Settings, about: About, title: str, content: str, seconds: float) -> str | _Refused:
    """Why the server did not take it; "" if it did. A password goes out encrypted, or not at all."""
    import smtplib

    try:
        server = _server(address(settings.alerts_smtp, about.environ))
    except SecretError as error:
        return f"is not known: {error}"
    if server is None:
        return f"is not known: {_NO_SERVER}"
    kind = smtplib.SMTP_SSL if server.encrypted else smtplib.SMTP
    addresses = (server.user, *settings.alerts_mail)
    sender = next((each for each in addresses if "@" in each), f"{about.owner}@{about.host}")
    mail = _mail(settings.alerts_mail, title, content, sender)
    try:
        with kind(server.host, server.port, timeout=seconds) as connection:
            encrypted = server.encrypted
            connection.ehlo_or_helo_if_needed()
            if not encrypted and server.host not in _HERE and connection.has_extn("starttls"):
                connection.starttls()
                encrypted = True
            if server.user:
                if not encrypted and server.host not in _HERE:
                    return "offers no encryption, so the password was not sent"
                connection.login(server.user, server.password)
            refused = connection.send_message(mail)
    except smtplib.SMTPResponseException as error:
        return f"said {error.smtp_code}"
    except smtplib.SMTPRecipientsRefused:
        return "refused every recipient"
    except smtplib.SMTPNotSupportedError:
        return "knows no login: leave USER:PASSWORD@ out"
    except smtplib.SMTPException as error:
        return f"did not take it ({type(error).__name__})"
    return _Refused(tuple(refused)) if refused else ""


class _Server(NamedTuple):
    encrypted: bool  # from its first word on
    host: str
    port: int
    user: str
    password: str


_HERE = frozenset({"localhost", "127.0.0.1", "::1"})


_NO_SERVER = "its address is none of a mail server"


def _server(where: str) -> _Server | None:
    """HOST, HOST:PORT or smtp(s)://USER:PASSWORD@HOST:PORT; None where it is none of them."""
    try:
        url = urlsplit(where if "://" in where else f"smtp://{where}")
        user = unquote(url.username or "")
        usual = _SUBMISSION if user and url.scheme == "smtp" else _PORTS[url.scheme]
        return _Server(url.scheme == "smtps", url.hostname or "", url.port or usual, user, unquote(url.password or ""))
    except (ValueError, KeyError):
        return None


# --- webhooks, and HTTP in general ---------------------------------------------------------------------------------


def _by_webhook(where: str, about: About, timeouts: Timeouts, alerts: Sequence[Alert]) -> tuple[int, str]:
    """Chats get one message for all, a program's address the facts of each alert."""
    try:
        url = address(where, about.environ)
    except SecretError as error:
        return 0, str(error)
    chat = _chat(url)
    message = f"{subject(alerts, about)}\n{body(alerts, about)}" if len(alerts) > 1 else body(alerts, about)
    parts = [{chat: message[:_DISCORDS_MOST] if chat == "content" else message}] if chat else []
    parts = parts or [facts(each, about) for each in alerts]
    until = process.elapsed() + timeouts.post
    for number, part in enumerate(parts):
        left = max(until - process.elapsed(), 0.1)
        post = partial(fetch, url, about.environ, left, json.dumps(part).encode())
        (why,) = at_once([post], left)
        if why:
            return number, f"alerts.webhook: {why}"
    return len(alerts), ""


def _names_a_machine(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and (parts.port is None or parts.port > 0) and len(url.split()) == 1
    except ValueError:
        return False


def _chat(url: str) -> str:
    """The key under which a chat wants its text; "": no chat that is known by its address."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in {"discord.com", "discordapp.com"} and not parts.path.endswith("/slack"):
        return "content"
    slacks = host in {"hooks.slack.com", "chat.googleapis.com"} or parts.path.startswith("/hooks/")
    return "text" if slacks or parts.path.endswith("/slack") else ""


def fetch(url: str, environ: Mapping[str, str], seconds: float, body: bytes | None = None) -> str:
    """GET, or POST of JSON, by the proxies of `environ`: why it failed, without the address; "" if it did not."""
    import urllib.error
    import urllib.request as http

    if not url.startswith(("https://", "http://")):
        return "its address does not begin with https://"
    proxies = {name.lower().removesuffix("_proxy"): value for name, value in environ.items() if _is_proxy(name, value)}
    if http.proxy_bypass_environment(urlsplit(url).netloc, proxies):  # type: ignore[attr-defined]  # since 3.0
        proxies = {}
    headers = {"Content-Type": "application/json"} if body is not None else {}
    request = http.Request(url, body, headers)  # noqa: S310 - http(s) alone, as just checked

    class Sent(http.HTTPRedirectHandler):
        """A POST that is sent elsewhere for good (http to https) would go on as a GET, without what it tells."""

        def http_error_301(self, req, fp, code, msg, headers):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            return super().http_error_301(req, fp, code, msg, headers) if body is None else None

    try:
        https = http.HTTPSHandler(context=_trusted())
        with http.build_opener(http.ProxyHandler(proxies), Sent, https).open(request, timeout=seconds):
            return ""
    except urllib.error.HTTPError as error:
        with error:
            moved = ": its address is another now" if error.code in {301, 308} else ""
            return f"the server said {error.code}{moved}"


_READING_CERTIFICATES = threading.Lock()


@cache
def _certificates() -> ssl.SSLContext:
    import ssl

    return ssl.create_default_context()


def _trusted() -> ssl.SSLContext:
    """Whom this machine trusts, read once: from Python 3.12 on each opener reads it, 30 ms for each of fifty pings."""
    with _READING_CERTIFICATES:
        return _certificates()


def _is_proxy(name: str, value: str) -> bool:
    return bool(value) and name.lower().endswith("_proxy") and name != "HTTP_PROXY"  # a CGI's header, not a setting


def _kind_of(error: BaseException) -> str:
    """Its class, and what the system says of it; never its own words, which may hold an address."""
    cause = getattr(error, "reason", None)  # of a URLError
    cause = cause if isinstance(cause, BaseException) else error
    system = isinstance(cause, OSError) and type(cause).__module__ in {"builtins", "socket"} and cause.errno is not None
    words = cause.strerror if system and isinstance(cause, OSError) else ""
    return type(cause).__name__ + (f" ({words})" if words else "")


def at_once(tasks: Sequence[Callable[[], _T]], seconds: float) -> list[_T | str]:
    """What each task says, or that it gave no answer: it is left behind then, and ends with the process."""
    from http.client import HTTPException

    answers: list[_T | str] = [f"had no answer within {seconds:g} s"] * len(tasks)

    def work(index: int) -> None:
        try:
            answers[index] = tasks[index]()
        except (OSError, ValueError, TypeError, LookupError, HTTPException, RuntimeError) as error:
            answers[index] = _kind_of(error)

    until = process.elapsed() + seconds
    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(until - process.elapsed(), 0))
    return list(answers)


# --- Apprise -------------------------------------------------------------------------------------------------------


_WITH_APPRISE = "deploy/install --with alerts, or pip install 'cronhpc[alerts]'"


def _by_apprise(addresses: Sequence[str], about: About, timeouts: Timeouts, alerts: Sequence[Alert]) -> tuple[int, str]:
    """Matrix, Teams, Telegram … by the Apprise library, an optional extra; one message a tick."""
    import logging

    try:
        import apprise
    except ImportError:
        return 0, f"alerts.apprise needs a package: {_WITH_APPRISE}"
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # its complaints quote addresses
    sender = apprise.Apprise()
    for number, where in enumerate(addresses, 1):
        try:
            lines = address(where, about.environ).splitlines()
        except SecretError as error:
            return 0, error.advice
        if not lines or not all(sender.add(line) for line in lines):
            return 0, f"alerts.apprise: address {number} is none that Apprise knows"
    send = partial(sender.notify, title=subject(alerts, about), body=body(alerts, about))
    (why,) = at_once([lambda: "" if send() else "could not deliver it"], timeouts.apprise)
    return (0, f"Apprise {why}") if why else (len(alerts), "")
