"""docs/completion.bash: a function that knows the commands and options of this version, and looks names up itself.

It starts no Python: entries are the `.slurm` files of the cron directory, switches the files in kill/ and pause/.
zsh runs the same function by its bashcompinit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cronhpc import __version__
from cronhpc.cli import SHIPPED
from cronhpc.cli.commands import parsers
from cronhpc.script.dialect import DIALECTS

if TYPE_CHECKING:
    import argparse

_COMMON = ("--dir", "--backend", "--json")
_OF_NAMES = {"unkill": "kill", "resume": "pause"}  # what they lift is a switch
_KINDS = {"FILE": "file", "PATH|NAME": "file", "NAME|FILE": "entry or file", "NAME": "entry"}
_ENTRIES = "_cronhpc_found \"$word\" .slurm 'cron.*'"
_COMPLETES = {
    "entry": _ENTRIES,
    "kill": "_cronhpc_found \"$word\" '' kill",
    "pause": f"{_ENTRIES}; _cronhpc_found \"$word\" '' pause",
    "file": '_cronhpc_files "$word" f',
    "entry or file": f'{_ENTRIES}; _cronhpc_files "$word" f',
}


class Words(NamedTuple):
    """What one command takes. A kind is "" (anything), "file", "entry", "entry or file", "kill", "pause"."""

    options: Mapping[str, Sequence[str] | str | None]  # None: a flag; else its choices, or a kind
    positional: str = ""
    choices: Sequence[str] = ()


def script() -> str:
    """The text for bash and zsh; it ends in a newline."""
    commands = {name: _words_of(name, parser) for name, parser in parsers().items()}
    printing = [f"{option}) {_reply(files)} && return ;;" for option, files in SHIPPED.items()]
    values = [f"{pattern}) {do} && return ;;" for pattern, do in _values(commands)]
    options = [line for name, words in commands.items() for line in _command(name, words)]
    filled = {
        "VERSION": __version__,
        "BACKENDS": " ".join(DIALECTS),
        "PRINTERS": " ".join(SHIPPED),
        "PRINTING": " | ".join(SHIPPED),
        "PRINTED": "\n    ".join(printing),
        "COMMON": " ".join(_COMMON),
        "COMMANDS": " ".join(commands),
        "VALUES": "\n    ".join(values),
        "OPTIONS": "\n    ".join(options),
    }
    text = Path(__file__).with_name("completion.in").read_text(encoding="utf-8")
    for name, value in filled.items():
        text = text.replace(f"@{name}@", value)
    return text


def _words_of(name: str, parser: argparse.ArgumentParser) -> Words:
    """The options of one command and what they take."""
    options: dict[str, tuple[str, ...] | str | None] = {}
    positional, choices = "", tuple[str, ...]()
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way
        takes = tuple(action.choices) if action.choices else _KINDS.get(str(action.metavar), "")
        if not action.option_strings:
            positional = positional or (takes if isinstance(takes, str) else "")
            choices = choices or (takes if isinstance(takes, tuple) else ())
        elif not {"--help", "--version", *_COMMON} & set(action.option_strings):
            of_value = None if action.nargs == 0 else takes if takes != "entry" else ""
            options |= dict.fromkeys(action.option_strings, of_value)
    return Words(options, _OF_NAMES.get(name, positional), choices)


def _reply(words: Sequence[str] | Mapping[str, str]) -> str:
    return f'_cronhpc_reply "$word" {" ".join(words)}'


def _values(commands: Mapping[str, Words]) -> Iterator[tuple[str, str]]:
    """For each option with a value: the pattern of "command option", and what completes the value."""
    for name, words in commands.items():
        for option, value in words.options.items():
            if value:
                yield f'"{name} {option}"', _COMPLETES[value] if isinstance(value, str) else _reply(value)
        free = [f'"{name} {option}"' for option, value in words.options.items() if value == ""]
        if free:
            yield " | ".join(free), "true"


def _command(name: str, words: Words) -> Iterator[str]:
    do = _COMPLETES.get(words.positional, "true")
    if words.choices:
        do = f"if _cronhpc_said {' '.join(words.choices)}; then {do}; else {_reply(words.choices)}; fi"
    yield f"{name})"
    yield f"  case $word in -*) {_reply([*words.options, *_COMMON, '--help', '--version'])} ;; *) {do} ;; esac"
    yield "  ;;"
