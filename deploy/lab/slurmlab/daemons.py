"""The daemons of one lab: how each is started, and when it answers."""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import signal
import subprocess
import time
from pathlib import Path

from . import accounting, processes
from .options import Facts, LabError, Layout, node_names
from .programs import clean_environment, find

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)
ANSWERING = ("munged", "sql", "dbd", "ctld")  # nodes are not waited for: `up` waits until all are idle
# munged gives a client 2 s to speak and a credential 300 s to live: on a fast clock too little for a busy machine, and
# then clients die of SIGPIPE. Nobody compares its clock with theirs.
ON_REAL_TIME = ("munged", "sql")
ANSWERS_WITHIN = 30  # seconds
LISTEN = "0A"  # in /proc/net/tcp


def _as_daemon() -> None:
    """In the child, before it becomes the daemon."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # slurmd does so itself, but a moment too late on a fast clock
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Daemons:
    """By name: munged, sql, dbd, ctld, and the nodes. `facts.clock` reaches all but ON_REAL_TIME."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.layout = facts.layout
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start_all(self) -> None:
        """Start everything, each once what it needs answers.

        Raises LabError with what the daemon said that did not come up.
        """
        self.start("munged")
        if self.facts.options.accounting:
            self.start("sql")
            self.start("dbd")
            accounting.fill(self.facts)
        self.start("ctld")
        for name in node_names(self.facts.options):
            self.start(name)

    def start(self, name: str, *, clean: bool = False) -> None:
        """Start one daemon, unless it runs; returns when it answers. `clean`: the controller forgets every job.

        Raises LabError for an unknown name, or with what the daemon said that did not come up.
        """
        running = self.running.get(name)
        if running is not None and running.poll() is None:
            if clean:
                raise LabError(f"{name} runs, and forgets nothing meanwhile. First: lab {name} kill")
            return
        if clean:
            shutil.rmtree(self.layout.state)
            self.layout.state.mkdir(mode=0o700)
        self._spawn(name)
        if name in ANSWERING:
            self._until_it_answers(name)

    def _spawn(self, name: str) -> None:
        clock = {} if name in ON_REAL_TIME else self.facts.clock
        with (self.layout.log / f"{name}.out").open("ab") as out:
            self.running[name] = subprocess.Popen(
                self._argv(name),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**clean_environment(), **clock, "SLURM_CONF": str(self.layout.conf)},
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
        raise LabError(f"no daemon is named {name!r}; there are: {', '.join(self.running)}")

    def _until_it_answers(self, name: str) -> None:
        ports = {"ctld": self.facts.ports.ctld, "dbd": self.facts.ports.dbd, "sql": self.facts.ports.sql}
        deadline = time.monotonic() + ANSWERS_WITHIN
        while not (self.layout.munge_socket.exists() if name == "munged" else listening(ports[name])):
            code = self.running[name].poll()
            if code is not None:
                raise LabError(f"{name} ended with exit code {code} at its start:\n{tail(self.layout, name)}")
            if time.monotonic() > deadline:
                raise LabError(f"{name} does not answer after {ANSWERS_WITHIN} s:\n{tail(self.layout, name)}")
            time.sleep(0.005)

    def send(self, name: str, number: signal.Signals, keeper: int) -> None:
        """Send a signal to one; SIGKILL of a node ends its jobs with it. Returns when one that is to end is gone.

        Raises LabError when it does not run.
        """
        daemon = self.running.get(name)
        if daemon is None or daemon.poll() is not None:
            raise LabError(f"{name} does not run")
        if number is signal.SIGKILL and name in node_names(self.facts.options):
            for step in processes.steps_of(self.layout.log / f"{name}.log", processes.descendants(keeper)):
                for pid in (step, *processes.descendants(step)):
                    processes.send(pid, number)
        daemon.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            daemon.send_signal(signal.SIGCONT)
            daemon.wait(20)

    def ended(self) -> dict[str, int]:
        """The exit codes of those that do not run."""
        return {name: code for name, process in self.running.items() if (code := process.poll()) is not None}


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
