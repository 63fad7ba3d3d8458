"""The keeper: the one process above all of a lab's. It starts the daemons, and ends whatever the lab started.

It adopts orphans (PR_SET_CHILD_SUBREAPER), so job processes that detached themselves are still below it, and `down`
need not guess by name what belongs to the lab. Its daemons die with it (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import contextlib
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

from . import processes, users
from .clock import Clock
from .daemons import LIBC, Daemons
from .options import Facts, LabError, read_facts

PR_SET_CHILD_SUBREAPER = 36


class Keeper:
    """One lab's clock and daemons, from the first to the last."""

    def __init__(self, root: Path) -> None:
        self.facts = read_facts(root)
        self.daemons = Daemons(self.facts)
        self.clock: Clock | None = None

    def start(self) -> None:
        """Start the clock, if the lab has its own, and the daemons.

        Raises LabError when one does not come up.
        """
        options = self.facts.options
        if options.own_clock:
            self.clock = Clock(options)
        me = os.getpid()
        started = processes.start_time(me) or ""
        clock = {} if self.clock is None else self.clock.environment
        self.facts = dataclasses.replace(self.facts, keeper_pid=me, keeper_start=started, clock=clock)
        self.facts.write()
        self.daemons = Daemons(self.facts)
        self.daemons.start_all()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one order of `lab ctld`, `lab node` or `lab status`."""
        what = request.get("what", "")
        try:
            if request["do"] == "start":
                self.daemons.start(what, clean=request.get("clean", False))
            elif request["do"] == "signal":
                self.daemons.send(what, signal.Signals[request["signal"]], os.getpid())
        except (LabError, OSError, subprocess.TimeoutExpired, KeyError) as error:
            return {"error": str(error)}
        ended = self.daemons.ended()
        pids = {name: None if name in ended else process.pid for name, process in self.daemons.running.items()}
        return {"daemons": pids, "ended": ended}

    def own(self) -> set[int]:
        """The children that are waited for by name."""
        clock = () if self.clock is None else self.clock.processes()
        return {process.pid for process in self.daemons.running.values()} | set(clock)

    def end(self) -> None:
        """End every process below, then remove every file, user and clock of this lab."""
        self._sweep()
        if self.clock is not None:
            self.clock.stop()
        remove(Path(self.facts.root))
        users.release(Path(self.facts.root))

    def _sweep(self) -> None:
        deadline = time.monotonic() + 10
        holder = () if self.clock is None else self.clock.processes()
        while time.monotonic() < deadline:
            left = [pid for pid in processes.descendants(os.getpid()) if pid not in holder]
            if not left:
                return
            for pid in left:
                processes.send(pid, signal.SIGKILL)
            reap(set(holder))
            time.sleep(0.005)


def reap(spare: set[int]) -> None:
    """Collect ended children, adopted ones too, but those in `spare`."""
    for pid in set(processes.children(os.getpid())) - spare:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def remove(root: Path) -> None:
    """Remove the lab's folder. A file that a dying process writes meanwhile is met by a second pass."""
    for _ in range(20):
        shutil.rmtree(root, ignore_errors=True)
        if not root.exists() or not any(root.iterdir()):  # an empty one in a folder that is not ours to change
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
        keeper.start()
        door = _door(keeper)  # before `up` hears that all is well: it may knock at once
        link.sendall(b'{"ok": true}\n')
        _serve(keeper, door, link, woken, until)
    except (LabError, OSError) as error:
        with contextlib.suppress(OSError):
            link.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
    keeper.end()
    return 0


def _door(keeper: Keeper) -> socket.socket:
    door = socket.socket(socket.AF_UNIX)
    old = os.umask(0o077)
    door.bind(str(keeper.facts.layout.keeper_socket))
    os.umask(old)
    door.listen(8)
    return door


def _serve(keeper: Keeper, door: socket.socket, link: socket.socket, woken: socket.socket, until: int | None) -> None:
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
                    reap(keeper.own())


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
