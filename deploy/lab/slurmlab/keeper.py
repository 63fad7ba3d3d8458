"""The keeper: the one process above all of a lab's. It starts the daemons, and ends whatever the lab started.

It adopts orphans (PR_SET_CHILD_SUBREAPER), so job processes that detached themselves are still below it, and `down`
need not guess by name what belongs to the lab. Its daemons die with it (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from . import accounting, processes, users
from .clock import Clock
from .options import Facts, LabError, Layout, node_names, read_facts
from .programs import clean_environment, find

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LISTEN = "0A"  # in /proc/net/tcp
LIBC = ctypes.CDLL(None, use_errno=True)


def _as_daemon() -> None:
    """In the child, before it becomes the daemon."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # slurmd does so itself, but a moment too late on a fast clock
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Keeper:
    """The daemons of one lab, by name: munged, sql, dbd, ctld, and the node names."""

    def __init__(self, root: Path) -> None:
        self.layout = Layout(root)
        self.facts = read_facts(root)
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.clock: Clock | None = None

    def start_all(self) -> None:
        """Start everything, each once what it needs answers."""
        if self.facts.options.own_clock:
            self.clock = Clock(self.facts.options)
        me = os.getpid()
        clock = {} if self.clock is None else self.clock.environment
        self.facts = dataclasses.replace(
            self.facts, keeper_pid=me, keeper_start=processes.start_time(me) or "", clock=clock
        )
        self.facts.write()
        self.start("munged")
        self._until(self.layout.munge_socket.exists, "munged")
        if self.facts.options.accounting:
            self._start_accounting()
        self.start("ctld")
        self._until(lambda: listening(self.facts.ports.ctld), "ctld")
        for name in node_names(self.facts.options):
            self.start(name)

    def _start_accounting(self) -> None:
        self.start("sql")
        self._until(lambda: listening(self.facts.ports.sql), "sql", seconds=30)
        self.start("dbd")
        self._until(lambda: listening(self.facts.ports.dbd), "dbd", seconds=30)
        accounting.fill(self.facts)

    def start(self, name: str, *, clean: bool = False) -> None:
        """Start one daemon, unless it runs.

        Raises LabError for an unknown name.
        """
        running = self.daemons.get(name)
        if running is not None and running.poll() is None:
            return
        if clean:
            shutil.rmtree(self.layout.state)
            self.layout.state.mkdir(mode=0o700)
        environment = {**clean_environment(), **({} if name == "sql" else self.facts.clock)}
        with (self.layout.log / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                self._argv(name),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**environment, "SLURM_CONF": str(self.layout.conf)},
                cwd="/",
                start_new_session=True,
                preexec_fn=_as_daemon,  # noqa: PLW1509 -- the keeper has one thread
            )

    def _argv(self, name: str) -> list[str]:
        layout = self.layout
        conf = str(layout.conf)
        if name == "munged":
            return [
                find("munged"),
                "--foreground",
                "--force",
                f"--key-file={layout.key}",
                f"--socket={layout.munge_socket}",
                f"--pid-file={layout.root}/run/munged.pid",
                f"--log-file={layout.log}/munged.log",
                f"--seed-file={layout.root}/run/munged.seed",
            ]
        if name == "ctld":
            return [find("slurmctld"), "-D", "-f", conf]
        if name == "dbd":
            return [find("slurmdbd"), "-D"]
        if name == "sql":
            return accounting.server_argv(layout, self.facts.ports)
        if name in node_names(self.facts.options):
            return [find("slurmd"), "-D", "-f", conf, "-N", name]
        raise LabError(f"no daemon is named {name!r}; there are: {', '.join(self.daemons)}")

    def _until(self, ready: Any, name: str, seconds: float = 10) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            code = self.daemons[name].poll()
            if code is not None:
                raise LabError(f"{name} ended with exit code {code} at its start:\n{tail(self.layout, name)}")
            if time.monotonic() > deadline:
                raise LabError(f"{name} does not answer after {seconds:g} s:\n{tail(self.layout, name)}")
            time.sleep(0.005)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one order of `lab ctld`, `lab node` or `lab status`."""
        what = request.get("what", "")
        try:
            if request["do"] == "start":
                self.start(what, clean=request.get("clean", False))
            elif request["do"] == "signal":
                self._signal(what, signal.Signals[request["signal"]])
        except (LabError, OSError, KeyError) as error:
            return {"error": str(error)}
        ended = {name: code for name, process in self.daemons.items() if (code := process.poll()) is not None}
        running = {name: process.pid for name, process in self.daemons.items() if name not in ended}
        return {"daemons": {name: running.get(name) for name in self.daemons}, "ended": ended}

    def _signal(self, name: str, number: signal.Signals) -> None:
        daemon = self.daemons.get(name)
        if daemon is None or daemon.poll() is not None:
            raise LabError(f"{name} does not run")
        if number is signal.SIGKILL and name in node_names(self.facts.options):
            for pid in processes.steps_of(self.layout.log / f"{name}.log", processes.descendants(os.getpid())):
                processes.send(pid, number)
        daemon.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            daemon.wait(10)

    def end(self) -> None:
        """End every process below, then remove every file, user and clock of this lab."""
        for number in (signal.SIGKILL,):
            self._sweep(number)
        if self.clock is not None:
            self.clock.stop()
        remove(self.layout.root)
        users.release(self.layout.root)

    def _sweep(self, number: signal.Signals) -> None:
        deadline = time.monotonic() + 10
        holder = () if self.clock is None else self.clock.processes()
        while time.monotonic() < deadline:
            left = [pid for pid in processes.descendants(os.getpid()) if pid not in holder]
            if not left:
                return
            for pid in left:
                processes.send(pid, number)
            reap(set(holder))
            time.sleep(0.005)


def reap(spare: set[int]) -> None:
    """Collect ended children, adopted ones too, but those in `spare`."""
    for pid in set(processes.children(os.getpid())) - spare:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def listening(port: int) -> bool:
    """Whether anything listens on that TCP port. Looks only: a connection would be a complaint in its log."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return any(row[3] == LISTEN and int(row[1].partition(":")[2], 16) == port for row in rows)


def tail(layout: Layout, name: str, lines: int = 15) -> str:
    """The last lines that a daemon said, to its log or its output."""
    names = {"ctld": "slurmctld.log", "dbd": "slurmdbd.log", "sql": "sql.out"}
    said: list[str] = []
    for path in (layout.log / f"{name}.out", layout.log / names.get(name, f"{name}.log")):
        with contextlib.suppress(OSError):
            said = path.read_text(encoding="utf-8", errors="replace").splitlines() or said
    return "\n".join(said[-lines:])


def remove(root: Path) -> None:
    """Remove the lab's folder. A file that a dying process writes meanwhile is met by a second pass."""
    for _ in range(20):
        shutil.rmtree(root, ignore_errors=True)
        if not root.exists():
            return
        time.sleep(0.05)


def main(root: Path, link: socket.socket, until: int | None) -> int:
    """Start the lab, tell `up` over `link`, and serve until a signal, or `up` dies early, or process `until` ends."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake, woken = socket.socketpair()
    wake.settimeout(0)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    keeper = Keeper(root)
    try:
        keeper.start_all()
        link.sendall(b'{"ok": true}\n')
        _serve(keeper, link, woken, until)
    except (LabError, OSError) as error:
        with contextlib.suppress(OSError):
            link.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
    keeper.end()
    return 0


def _serve(keeper: Keeper, link: socket.socket, woken: socket.socket, until: int | None) -> None:
    door = socket.socket(socket.AF_UNIX)
    old = os.umask(0o077)
    door.bind(str(keeper.layout.keeper_socket))
    os.umask(old)
    door.listen(8)
    with selectors.DefaultSelector() as selector:
        for source in (door, link, woken):
            selector.register(source, selectors.EVENT_READ)
        if until is not None:
            selector.register(os.pidfd_open(until), selectors.EVENT_READ, "until")
        while True:
            for key, _ in selector.select():
                if key.data == "until":
                    return
                if key.fileobj is door:
                    _converse(keeper, door)
                elif key.fileobj is link:
                    if link.recv(16) == b"":
                        return
                    selector.unregister(link)  # `up` is content: from here on the lab stands on its own
                elif set(woken.recv(64)) & {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}:
                    return
                else:
                    reap({p.pid for p in keeper.daemons.values()})


def _converse(keeper: Keeper, door: socket.socket) -> None:
    guest, _ = door.accept()
    guest.settimeout(5)
    with guest, contextlib.suppress(OSError, ValueError):
        request = json.loads(guest.makefile("rb").readline())
        guest.sendall(json.dumps(keeper.answer(request)).encode() + b"\n")


def order(facts: Facts, **request: Any) -> dict[str, Any]:
    """Give the keeper of a running lab an order; its answer.

    Raises LabError when it refuses or is gone.
    """
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(30)
        try:
            line.connect(str(facts.layout.keeper_socket))
            line.sendall(json.dumps(request).encode() + b"\n")
            answer: dict[str, Any] = json.loads(line.makefile("rb").readline())
        except (OSError, ValueError) as error:
            raise LabError(f"{facts.root}: the lab's keeper does not answer ({error}). End it: lab down") from error
    if "error" in answer:
        raise LabError(answer["error"])
    return answer


def spawn(root: Path, until: int | None) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a keeper for the lab in `root`; the process, and the line on which it tells how it went."""
    here, there = socket.socketpair()
    launcher = Path(__file__).resolve().parent.parent / "lab"
    with (root / "log" / "keeper.out").open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-I", str(launcher), "keep", str(root), str(there.fileno()), str(until or 0)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            pass_fds=(there.fileno(),),
            cwd="/",
            start_new_session=True,
        )
    there.close()
    return process, here
