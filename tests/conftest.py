"""What holds for every test."""

from __future__ import annotations

import signal

import pytest

from cronhpc.store import files

# Under nohup, and behind a shell's &, these are ignored, and whatever a test starts would inherit that.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses in which a disk is waited for, which no test sits through."""
    pauses: list[float] = []
    monkeypatch.setattr(files, "wait", pauses.append)
    monkeypatch.setattr(files, "_given_up_at", -files._GIVEN_UP - 1)
    return pauses
