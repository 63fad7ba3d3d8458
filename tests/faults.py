"""A disk in whose calls something goes wrong: what a mount over a network does, in this process.

`Disk(monkeypatch)` counts the calls that change or open files; `fail` says what happens at which of them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

CALLS = ("open", "write", "fsync", "rename", "link", "unlink", "mkdir", "listdir", "scandir")


def _nothing(_: int) -> None:
    """A test needs no disk to have written."""


class Disk:
    """The calls of `os` below `root`, which may fail before they are done ("refused") or after ("lost")."""

    def __init__(self, patch: pytest.MonkeyPatch, root: object) -> None:
        self.root = str(root)
        self.count = 0
        self.log: list[str] = []
        self._at: Collection[int] | None = ()  # None: every call
        self._how = ""
        self._errno = errno.EIO
        self._calls: Collection[str] = CALLS
        for name in CALLS:
            patch.setattr(os, name, self._wrapped(name, _nothing if name == "fsync" else getattr(os, name)))

    def fail(self, how: str, at: Collection[int] | None, code: int = errno.EIO, calls: Collection[str] = CALLS) -> None:
        """From now on: `how` at the calls numbered so (from 1), of those named so."""
        self.count, self.log = 0, []
        self._how, self._at, self._errno, self._calls = how, at, code, calls

    def heal(self) -> None:
        """Nothing fails any more."""
        self._at = ()

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if name not in self._calls or not self._is_ours(args):
                return call(*args, **kwargs)
            self.count += 1
            self.log.append(f"{name} {args[0]}")
            if self._at is not None and self.count not in self._at:
                return call(*args, **kwargs)
            if self._how == "lost":
                done = call(*args, **kwargs)
                if name == "open":
                    os.close(done)
            raise OSError(self._errno, os.strerror(self._errno), args[0] if isinstance(args[0], str) else None)

        return wrapper

    def _is_ours(self, args: tuple[Any, ...]) -> bool:
        if not args:
            return False
        first = args[0]
        if isinstance(first, int):
            try:
                first = str(Path(f"/proc/self/fd/{first}").readlink())
            except OSError:
                return False
        return os.fsdecode(os.fspath(first)).startswith(self.root)
