"""What holds for every test."""

from __future__ import annotations

import pytest

from cronhpc.store import files


@pytest.fixture(autouse=True)
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses in which a disk is waited for, which no test sits through."""
    pauses: list[float] = []
    monkeypatch.setattr(files, "wait", pauses.append)
    monkeypatch.setattr(files, "_given_up_at", -files._GIVEN_UP - 1)
    return pauses
