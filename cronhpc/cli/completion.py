"""What `cronhpc --completion SHELL` prints: read off the very parsers, so that it cannot lag behind them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cronhpc import __version__
from cronhpc.cli.commands import UsageError
from cronhpc.views.completion import SHELLS, Words, render

if TYPE_CHECKING:
    from collections.abc import Iterable

_COMMON = ("--dir", "--backend", "--json")
_OF_NAMES = {"unkill": "kill", "resume": "pause"}  # what they lift is a switch
_KINDS = {"FILE": "file", "PATH|NAME": "file", "NAME|FILE": "entry or file", "NAME": "entry"}


def script(shell: str) -> str:
    """Raises UsageError for another shell than bash or zsh."""
    from cronhpc.cli import parsers

    if shell not in SHELLS:
        raise UsageError(f"cronhpc: --completion knows {' and '.join(SHELLS)}, not {shell!r}.")
    rows = {name: words_of(name, parser._actions) for name, parser in parsers().items()}  # noqa: SLF001 - argparse has no other way
    return render(rows, _COMMON, shell, __version__)


def words_of(name: str, actions: Iterable[argparse.Action]) -> Words:
    """The options of one command and what they take."""
    options: dict[str, tuple[str, ...] | str | None] = {}
    positional, choices = "", tuple[str, ...]()
    for action in actions:
        takes = tuple(action.choices) if action.choices else _KINDS.get(str(action.metavar), "")
        if not action.option_strings:
            positional = positional or (takes if isinstance(takes, str) else "")
            choices = choices or (takes if isinstance(takes, tuple) else ())
        elif not {"--help", "--version", *_COMMON} & set(action.option_strings):
            of_value = None if action.nargs == 0 else takes if takes != "entry" else ""
            options |= dict.fromkeys(action.option_strings, of_value)
    return Words(options, _OF_NAMES.get(name, positional), choices)
