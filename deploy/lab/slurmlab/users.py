"""The lab's users: system users that are made when missing, and removed when the last lab that uses them ends."""

from __future__ import annotations

import contextlib
import fcntl
import grp
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from .options import LabError, Options

# Users are the machine's, whatever TMPDIR or SLURMLAB_BASE a lab has: so are their homes, and the marks of the labs
# that use them. The folder is there while a lab has users.
MACHINE = Path("/var/lib/slurmlab")
MARKS, HOMES = MACHINE / "users", MACHINE / "home"
MADE, LOCK = ".made", ".lock"
COMMENT = "slurm lab"  # in passwd: this user was made by a lab


def base_path() -> Path:
    """The folder of all of this user's labs."""
    return Path(os.environ.get("SLURMLAB_BASE") or Path(tempfile.gettempdir()) / f"slurmlab-{os.getuid()}")


def base() -> Path:
    """The same, made when missing.

    Raises LabError when somebody else made it first.
    """
    path = base_path()
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o755)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise LabError(f"{path} is not a folder of yours alone. Name another: SLURMLAB_BASE=/var/tmp/my-labs")
    return path


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """One lab of this machine at a time makes or removes users."""
    while True:
        lock = _lock_file()
        if lock is not None:
            with lock:
                fcntl.lockf(lock, fcntl.LOCK_EX)
                if _is(lock.fileno(), MARKS / LOCK):  # else the one before us tidied up meanwhile
                    yield
                    return


def _lock_file() -> IO[str] | None:
    """None while another lab tidies up."""
    for folder, mode in ((MACHINE, 0o755), (MARKS, 0o700)):
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            folder.mkdir(mode=mode)
    try:
        return (MARKS / LOCK).open("w")
    except FileNotFoundError:
        return None


def _is(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def ensure(options: Options, root: Path) -> None:
    """Make the missing ones of `options.users`, in the shared group, and mark all as used by the lab in `root`.

    Raises LabError when one is missing and we are not root.
    """
    if not options.users:
        return
    if os.getuid() != 0:
        missing = [name for name in options.users if not _exists(name)]
        raise LabError(
            f"--users needs root: a lab runs jobs of its own user only (missing users: {', '.join(missing) or 'none'})"
        )
    with _locked():
        _group(options.group)
        for name in options.users:
            if not _exists(name):
                _add(name, options.group)
            _mark(name, root)
            _join(name, options.group)
        _mark(f"group:{options.group}", root)


def release(root: Path) -> None:
    """Take this lab's marks away, and remove users, home folders and groups that a lab made and no lab uses."""
    if os.getuid() == 0 and MARKS.is_dir():
        with _locked():
            for folder in sorted(path for path in MARKS.iterdir() if path.is_dir()):
                (folder / _key(root)).unlink(missing_ok=True)
                if not any(_in_use(mark) for mark in folder.iterdir() if mark.name != MADE):
                    _remove(folder)
            _tidy()
    with contextlib.suppress(OSError):
        base_path().rmdir()


def _tidy() -> None:
    """Remove the last lab's leftovers; folders that hold anything stay."""
    if [path.name for path in MARKS.iterdir()] == [LOCK]:
        (MARKS / LOCK).unlink()
        for folder in (MARKS, HOMES, MACHINE):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _in_use(mark: Path) -> bool:
    return Path(mark.read_text(encoding="utf-8"), "lab.json").exists()


def _key(root: Path) -> str:
    return str(root).strip("/").replace("/", "_")


def _mark(name: str, root: Path) -> None:
    folder = MARKS / name
    folder.mkdir(exist_ok=True)
    (folder / _key(root)).write_text(str(root), encoding="utf-8")


def _made(name: str) -> None:
    folder = MARKS / name
    folder.mkdir(exist_ok=True)
    (folder / MADE).touch()


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _group(name: str) -> None:
    try:
        grp.getgrnam(name)
    except KeyError:
        _call(["groupadd", name])
        _made(f"group:{name}")


def _add(name: str, group: str) -> None:
    home = HOMES / name
    HOMES.mkdir(mode=0o755, exist_ok=True)
    _made(name)  # first, so that an interruption leaves nothing that nobody knows of
    _call(["useradd", "--create-home", "--home-dir", str(home), "--shell", "/bin/bash", "--comment", COMMENT,
           "--groups", group, name])  # fmt: skip
    home.chmod(0o755)


def _join(name: str, group: str) -> None:
    """Put a user that was here before into the lab's group; the group takes the membership with it when it goes."""
    if name in grp.getgrnam(group).gr_mem:
        return
    if not any((MARKS / made / MADE).exists() for made in (name, f"group:{group}")):
        raise LabError(f"user {name} is not in group {group}, and neither is the lab's. Name another: --group labgroup")
    _call(["usermod", "--append", "--groups", group, name])


def _remove(folder: Path) -> None:
    kind, _, group = folder.name.rpartition(":")
    if (folder / MADE).exists():
        if kind:
            _call(["groupdel", group], check=False)
        elif _exists(folder.name) and pwd.getpwnam(folder.name).pw_gecos.startswith(COMMENT):
            _call(["userdel", "--force", folder.name], check=False)
            shutil.rmtree(HOMES / folder.name, ignore_errors=True)
    shutil.rmtree(folder)


def _call(argv: list[str], *, check: bool = True) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    if check and done.returncode:
        raise LabError(f"{' '.join(argv)}: {done.stderr.strip()}")
