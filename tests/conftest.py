"""What holds for every test."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys

import pytest

os.environ.setdefault("HYPOTHESIS_NO_PLUGINS", "1")  # there is one for trio, which comes with selenium: slow to import
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from cronhpc.store import files

# How long an example takes is the machine's affair: a loaded one is no reason to fail. Everywhere they are the same:
# what fails has failed before. CRONHPC_CHANCE=1 looks for new ones.
CHANCE = bool(os.environ.get("CRONHPC_CHANCE"))
settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not CHANCE,
)
settings.load_profile("any machine")
if not CHANCE:
    # Else Hypothesis parses all modules of ours that happen to be loaded, and draws from their numbers and strings: the
    # examples of a test would be others after any edit anywhere, and whatever ran before it.
    providers._get_local_constants = lambda: providers._local_constants

# Else each process compiles all that it imports: pytest the tests, and what they start cronhpc.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Under nohup, and behind a shell's &, these are ignored, and whatever a test starts would inherit that.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

# pytest loads readline, which exports a window of 80 columns, past os.environ: what a test starts has none, unless it
# asks for one.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)
    os.unsetenv(name)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """--reruns asks another process about each test in two small messages: the kernel kept the second for 40 ms."""
    if hasattr(config, "failures_db") and hasattr(config.failures_db, "sock"):
        config.failures_db.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def pytest_collection_finish() -> None:
    """Thousands of tests that stay to the end: else the collector looks through all of them again and again."""
    gc.collect()
    gc.freeze()


# The pauses in which a disk is waited for, which no test sits through. Nor is a write forced to the disk. Both are so
# from here on: a fixture of thousands of tests takes longer than many of them.
_waited: list[float] = []
_patch = pytest.MonkeyPatch()
_patch.setattr(files, "wait", _waited.append)
_patch.setattr(os, "fsync", lambda _: None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Each test finds a disk that has not been waited for."""
    _waited.clear()
    files._given_up_at = -files._GIVEN_UP - 1


@pytest.fixture
def waited() -> list[float]:
    return _waited
