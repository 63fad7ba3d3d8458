"""Up and down."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import accounting, clock, config, keeper, ports, processes, users
from .daemons import tail
from .options import Facts, LabError, Layout, Options, PortClash, node_names, read_facts
from .programs import clean_environment, find

TRIES = 5
LONGEST_SOCKET = 107  # bytes of a unix socket's path
READY_WITHIN = 5  # seconds
CLASH = ("Address already in use", "bind: ", "Unable to bind", "in use by another")


def folder(name: str | None, directory: str | None) -> Path:
    """The lab's folder: `directory`, else the one of that name."""
    if directory:
        return Path(directory).absolute()
    name = name or "lab"
    if "/" in name or name.startswith("."):
        raise LabError(f"{name!r} is no name for a lab. Use letters and digits, or --dir for a folder")
    return users.base() / name


def up(root: Path, options: Options, until: int | None = None) -> Facts:
    """Start a lab in `root`; returns when its nodes are idle.

    Raises LabError, and leaves nothing, when it does not come up.
    """
    os.umask(0o022)
    _check(root, options)
    with _interruptible():
        try:
            return _up(root, options, until)
        except BaseException:
            _tear(root)
            raise


def _up(root: Path, options: Options, until: int | None) -> Facts:
    machine = _machine()
    for left in reversed(range(TRIES)):
        _lay_out(root, node_names(options))
        try:
            return _attempt(root, options, machine, until)
        except PortClash:
            if not left:
                raise
            _tear(root)
    raise AssertionError


def _attempt(root: Path, options: Options, machine: config.Machine, until: int | None) -> Facts:
    chosen = ports.pick(options.nodes + options.gpu_nodes, accounting=options.accounting)
    facts = Facts(root=str(root), options=options, ports=chosen, keeper_pid=0, keeper_start="",
                  version=machine.release)  # fmt: skip
    _write(facts, machine)
    users.ensure(options, root)
    if options.accounting:
        accounting.prepare(facts.layout)
    process, link = keeper.spawn(root, until)
    with link:
        try:
            said = link.makefile("rb").readline()
            answer = json.loads(said) if said else {"error": f"the keeper ended early:\n{_keeper_said(root)}"}
            if "error" in answer:
                _fail(answer["error"])
            facts = read_facts(root)
            _wait_idle(facts)
            link.sendall(b"k")
        except BaseException:
            link.close()  # the keeper sees that nobody waits for it, and ends all
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
            raise
    return facts


def _fail(text: str) -> None:
    if any(sign in text for sign in CLASH):
        raise PortClash(text)
    raise LabError(text)


def _check(root: Path, options: Options) -> None:
    with contextlib.suppress(LabError):
        facts = read_facts(root)
        if processes.alive(facts.keeper_pid, facts.keeper_start):
            raise LabUp(f"{root}: a lab runs here already. End it: lab down --dir {root}")
        down(root)
    if root.exists() and any(root.iterdir()):
        raise LabError(f"{root} is not empty. Name a new folder")
    _check_reach(root, options)
    longest = len(os.fsencode(Layout(root).keeper_socket))
    if longest > LONGEST_SOCKET:
        raise LabError(f"{root}: {longest - LONGEST_SOCKET} bytes too long for a socket's path. Name a shorter folder")


def _check_reach(root: Path, options: Options) -> None:
    closed = [parent for parent in root.parents if parent.exists() and not parent.stat().st_mode & 0o001]
    if options.users and closed:
        raise LabError(
            f"{root}: {options.users[0]} cannot pass through {closed[0]}. Name a folder under /tmp or /var/tmp"
        )


class LabUp(Exception):
    """It runs already."""


def _machine() -> config.Machine:
    try:
        said = subprocess.run([find("slurmctld"), "-V"], capture_output=True, text=True, check=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise LabError(f"slurmctld -V: {error}. On Debian: apt-get install -y slurm-wlm munge") from error
    host = socket.gethostname().partition(".")[0]
    address = _address(host)
    return config.Machine(
        host=host,
        user=getpass.getuser(),
        release=config.release(said),
        loopback_only=address is not None,
        address=address or "127.0.0.1",
    )


def _address(host: str) -> str | None:
    """The loopback address that this machine's own name has, as on most laptops; None when it has another or none."""
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return None
    return address if address.startswith("127.") else None


def _lay_out(root: Path, names: tuple[str, ...]) -> None:
    """Every folder: 755, since munged wants each folder above its socket so; the controller's state is its own."""
    root.mkdir(mode=0o755, parents=True, exist_ok=True)
    root.chmod(0o755)
    for name in ("etc", "run", "log", "spool"):
        (root / name).mkdir(exist_ok=True)
        (root / name).chmod(0o755)
    for name in names:
        (root / "spool" / name).mkdir(exist_ok=True)
    (root / "state").mkdir(mode=0o700, exist_ok=True)


def _write(facts: Facts, machine: config.Machine) -> None:
    layout, options = facts.layout, facts.options
    facts.write()  # first, so that `down` knows the folder for a lab's whatever happens next
    texts = {
        layout.conf: config.slurm_conf(options, layout, facts.ports, machine),
        layout.conf.with_name("gres.conf"): config.gres_conf(options),
        layout.conf.with_name("cgroup.conf"): config.cgroup_conf(machine.release),
    }
    for path, text in texts.items():
        if text:
            path.write_text(text, encoding="utf-8")
            path.chmod(0o644)
    secret(layout.key, secrets.token_bytes(128))
    if options.accounting:
        text = config.slurmdbd_conf(layout, facts.ports, machine, machine.user)
        secret(layout.conf.with_name("slurmdbd.conf"), text.encode())


def secret(path: Path, content: bytes) -> None:
    """Write a file of mode 600 that never was anything else."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as out:
        out.write(content)


def _wait_idle(facts: Facts) -> None:
    deadline = time.monotonic() + READY_WITHIN
    idle = {f"{name} idle" for name in node_names(facts.options)}
    states = ""
    while time.monotonic() < deadline:
        states = _node_states(facts)
        if set(states.splitlines()) == idle:  # a node has a line for each partition that it is in
            return
        for name, code in keeper.order(facts, do="list")["ended"].items():
            _fail(f"{name} ended with exit code {code} at its start:\n{tail(facts.layout, name)}")
        time.sleep(0.03)
    raise LabError(f"the nodes are not idle after {READY_WITHIN} s, but:\n{states or 'no answer'}")


def _node_states(facts: Facts) -> str:
    environment = {**clean_environment(), **facts.environment}
    asked = subprocess.run(
        [find("sinfo"), "-hN", "-o", "%N %T"], capture_output=True, text=True, env=environment, check=False
    )
    return asked.stdout


def _keeper_said(root: Path) -> str:
    with contextlib.suppress(OSError):
        return (root / "log" / "keeper.out").read_text(encoding="utf-8")[-2000:]
    return ""


def down(root: Path) -> None:
    """End the lab in `root`, and leave nothing.

    Raises LabError when there is none.
    """
    facts = read_facts(root)
    if processes.alive(facts.keeper_pid, facts.keeper_start):
        processes.send(facts.keeper_pid, signal.SIGCONT)
        processes.send(facts.keeper_pid, signal.SIGTERM)
        if not processes.wait_gone(facts.keeper_pid, facts.keeper_start, 20):
            processes.send(facts.keeper_pid, signal.SIGKILL)
    _tear(root)


def _tear(root: Path) -> None:
    """What `down` does where no keeper does it: after a failed start, or when the keeper was killed."""
    if not root.exists():
        return
    with contextlib.suppress(LabError):
        facts = read_facts(root)
        if processes.alive(facts.keeper_pid, facts.keeper_start):
            processes.send(facts.keeper_pid, signal.SIGTERM)
            processes.wait_gone(facts.keeper_pid, facts.keeper_start, 20)
        for pid in processes.strays(root):
            processes.send(pid, signal.SIGKILL)
        for path in clock.files(facts.clock):
            path.unlink(missing_ok=True)
    keeper.remove(root)
    users.release(root)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP raise, so that an interrupted `up` cleans up."""

    def stop(number: int, _: Any) -> None:
        raise KeyboardInterrupt(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
