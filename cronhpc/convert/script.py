"""A job's batch script."""

from __future__ import annotations

import hashlib
import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cronhpc.convert.table import Job

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "ksh93", "mksh", "zsh"})
_READ_BY_SOMEONE = re.compile(r"#(?:!|SBATCH|S?CRON|PBS|BSUB)", re.IGNORECASE)
MARK = re.compile(rb"^# imported from a (?:crontab|scrontab), ([0-9a-f]{12})$", re.MULTILINE)


def fingerprint(source: str, job: Job, ordinal: int) -> str:
    """What marks the script of one entry: the same for the same entry, wherever in the table it stands.

    `ordinal` counts entries that are alike in everything.
    """
    # Without the comments, which may be corrected, and the zone, which the settings decide (CRON_TZ is a variable).
    said = (job.schedule, job.command, job.stdin, job.shell, job.variables, job.options, ordinal)
    text = f"{source}\0{said!r}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def script(source: str, job: Job, mark: str) -> bytes:
    """The script of `job`: it runs the command as the table's scheduler did, in the home folder."""
    shell = job.shell if is_sh(job.shell) else "/bin/sh"
    lines = [f"#!{shell}", *map(_comment, job.comments)]
    lines += [directive("#SBATCH", words) for words in job.options]
    zone = f" --timezone={job.timezone}" if job.timezone else ""
    lines += [f"#CRON {job.schedule}{zone}", f"# imported from a {source}, {mark}"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in job.variables]
    if "HOME" in dict(job.variables):
        lines.append('cd "$HOME" || exit 1')
    if job.stdin:
        lines += _stdin(job.stdin)
    lines.append(_command(job))
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def is_sh(shell: str) -> bool:
    """Whether it reads a script as sh does."""
    return shell.rpartition("/")[2] in _SHELLS


def directive(word: str, options: tuple[str, ...]) -> str:
    """A line of options that sbatch splits into just these."""
    return " ".join((word, *map(_quoted, options)))


def _quoted(option: str) -> str:
    if not re.search(r"""["'\\#\s]""", option):
        return option
    name, equals, value = option.partition("=") if option.startswith("--") else ("", "", option)
    if not equals:
        name, value = "", option
    escaped = re.sub(r'(["\\])', r"\\\1", value)
    return f'{name}{equals}"{escaped}"'


def _comment(text: str) -> str:
    """A comment that nobody takes for a directive."""
    return f"# {text}" if _READ_BY_SOMEONE.match(text) else text


def _stdin(text: str) -> list[str]:
    """The script's stdin: all of the command reads it, as under cron."""
    body = text.removesuffix("\n").split("\n")
    end = "END"
    while end in body:
        end += "_"
    return [f"exec <<'{end}'", *body, end]


def _command(job: Job) -> str:
    command = job.command
    bash_reads = job.shell.rpartition("/")[2] == "bash" and "BASH_ENV" in dict(job.variables)
    if bash_reads or not is_sh(job.shell):
        return f"exec {shlex.quote(job.shell)} -c {shlex.quote(command)}"
    return f": {command}" if command.startswith("#") else command
