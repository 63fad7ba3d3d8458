"""The words of cronhpc as values: frozen, small, without behaviour that needs the world.

All instants are whole seconds since 1970-01-01 UTC (`int`); all durations are seconds.
"""

# This package's face: all that its modules name, and what is imported here.
# ruff: noqa: F401, F403
# mypy: implicit-reexport

from cronhpc.core.model.entries import *
from cronhpc.core.model.runs import *
from cronhpc.core.model.world import *
from cronhpc.cron.values import CronhpcError
from cronhpc.script.advice import (
    Advice,
    Command,
    Problem,
    Severity,
    StateError,
    cancelling,
    command,
    joined,
    text_of,
    texts_of,
)
