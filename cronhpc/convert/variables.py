"""Lines that set a variable, as cron (load_env in env.c) and scrontab (its own, of the same name) read them."""

from __future__ import annotations

import re

_SPACE = " \t\n\r\v\f"
# cron: name and value may each be quoted; nothing may follow a closed quote; an open value loses its last blanks.
_CRON = re.compile(
    r"""[ \t]*(?:'(?P<single>[^'=]*)'|"(?P<double>[^"=]*)"|(?P<name>(?!['"])[^\s=]*))\s*=\s*"""
    r"""(?:'(?P<value1>[^']*)'\s*|"(?P<value2>[^"]*)"\s*|(?P<value>(?!['"]).*))"""
)
_SCRON = re.compile(
    r"""[ \t]*(?P<name>[A-Za-z0-9_]*)[ \t]*=[ \t]*"""
    r"""(?:'(?P<value1>[^']*)'[ \t]*|"(?P<value2>[^"]*)"[ \t]*|(?P<value>(?!['"]).*))"""
)
# A shell does not take these from outside, or not as they are: IFS would split words anew.
_SHELLS_OWN = frozenset({"IFS", "UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS", "PWD", "OLDPWD", "OPTIND", "_"})
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def cron_variable(line: str) -> tuple[str, str] | None:
    """(name, value) where cron takes `line` for a setting; nothing in the value is expanded."""
    match = _CRON.fullmatch(line)
    if match is None:
        return None
    name = match["single"] or match["double"] or match["name"] or ""
    quoted = match["value1"] if match["value1"] is not None else match["value2"]
    return name, quoted if quoted is not None else match["value"].rstrip(_SPACE)


def scron_variable(line: str) -> tuple[str, str] | None:
    """(name, value) where scrontab takes `line` for a setting."""
    match = _SCRON.fullmatch(line)
    if match is None:
        return None
    quoted = match["value1"] if match["value1"] is not None else match["value2"]
    return match["name"], quoted if quoted is not None else match["value"]


def is_shell_name(name: str) -> bool:
    """Whether a script can pass on a variable of this name."""
    return bool(_PLAIN.fullmatch(name)) and name not in _SHELLS_OWN


def substituted(command: str, variables: tuple[tuple[str, str], ...]) -> str:
    """`command` as scrontab fills it in: of each variable the first `$NAME` only, whatever follows it, one by one."""
    for name, value in variables:
        command = command.replace(f"${name}", value, 1)
    return command
