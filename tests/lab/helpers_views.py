"""One folder as several machines see it: a mount for each, whose kernel keeps what it was told for some seconds."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.conftest import Lab

# What a client of NFS promises: who opens a file reads what was closed before (direct_io); all else may be old.
_KEEPS = "attr_timeout={0},entry_timeout={0},negative_timeout={0},direct_io"


@dataclass(frozen=True)
class Machine:
    """A machine with a name of its own that sees the folder at `root` through its own mount."""

    name: str
    view: Path
    root: Path

    def argv(self, *words: str | Path) -> list[str]:
        """The command line that runs `words` on it."""
        named = f"hostname {self.name} && {self._inside}"
        return ["unshare", "--mount", "--uts", "sh", "-c", named, "-", *map(str, words)]

    def slurmd(self) -> list[str]:
        """The command line that runs its node's daemon; Slurm's configuration knows the real host's name."""
        return ["unshare", "--mount", "sh", "-c", self._inside, "-", "slurmd", "-D", "-N", self.name]

    @property
    def _inside(self) -> str:
        return f'mount --bind {shlex.quote(str(self.view))} {shlex.quote(str(self.root))} && exec "$@"'


@contextlib.contextmanager
def machines(folder: Path, *names: str, seconds: float) -> Iterator[list[Machine]]:
    """Machines that see `folder`; each keeps what it knows of a name, and that there is none, for `seconds`."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_machine(folder, name, seconds)) for name in names]


@contextlib.contextmanager
def _machine(folder: Path, name: str, seconds: float) -> Iterator[Machine]:
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        pytest.skip(f"/dev/fuse cannot be opened here ({error.strerror}), so no folder can be mounted twice")
    view = folder.with_name(f"{folder.name}-of-{name}")
    view.mkdir()
    # it ends with this process, however that ends, and takes the mount with it
    argv = ["setpriv", "--pdeathsig", "TERM", "bindfs", "-f", "-o", _KEEPS.format(seconds), str(folder), str(view)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        deadline = time.monotonic() + 30
        while not view.is_mount():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                pytest.fail(f"{shlex.join(argv)}: {process.communicate()[0]}")
            time.sleep(0.02)
        yield Machine(name, view, folder)
    finally:
        process.terminate()
        process.communicate(timeout=30)
        subprocess.run(["umount", "--lazy", view], capture_output=True, check=False)  # where it was ended by force
        view.rmdir()


@contextlib.contextmanager
def node_on(lab: Lab, machine: Machine) -> Iterator[None]:
    """The lab's node of that name, whose jobs see the folder as `machine` does; down with the lab."""
    lab.kill_node(machine.name)
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    process = lab.popen(machine.slurmd(), env={"PATH": path})
    try:
        idle = ["sinfo", "-h", "-n", machine.name, "-o", "%T"]
        lab.wait_for(lambda: lab.run(idle).stdout.split() == ["idle"])
        yield
    finally:
        process.terminate()
        process.communicate(timeout=30)  # which closes its pipes
