"""What sbatch takes: every long option, its short form, and whether a value follows.

Source: the option table that sbatch 22.05.8 hands to getopt_long, and sbatch(1) up to 26.05 for what came since.
An option that only some versions know is no mistake here: the cluster has the last word.
"""

from __future__ import annotations

import re

from cronhpc.cron import values
from cronhpc.cron.values import dataclass
from cronhpc.script.dialect import SLURM


@dataclass(frozen=True, slots=True)
class Option:
    """One sbatch option: its long name without dashes, its value, and where and how it was written."""

    name: str
    value: str | None
    line: int
    written: str = ""
    directive: str = SLURM.prefix
    component: int = 0  # of a heterogeneous job; the first is 0


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


VALUE = _set(
    "account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment constraint container "
    "container-id context core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot "
    "dependency distribution error exclude export export-file extra extra-node-info gid gpu-bind gpu-freq gpus "
    "gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint input job-name kill-on-invalid-dep licenses "
    "mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nodefile nodelist nodes "
    "ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode output "
    "partition power prefer priority profile qos reservation segment signal sockets-per-node switches thread-spec "
    "threads-per-core time time-min tmp tres-bind tres-per-task uid wait-all-nodes wckey wrap"
)
OPTIONAL_VALUE = _set("exclusive get-user-env nice no-kill oom-kill-step propagate resv-ports")
NO_VALUE = _set(
    "consolidate-segments contiguous help hold ignore-pbs no-requeue overcommit oversubscribe parsable quiet reboot "
    "requeue spread-job spread-segments stepmgr test-only usage use-min-nodes verbose version wait"
)
# Options of widespread plugins (pyxis, X11 forwarding, site tools): getopt_long takes them where the plugin is loaded.
PLUGIN_PREFIXES = ("container-", "no-container-", "x11", "stdin-", "beegfs", "tmpdir", "cpu-bind")

LONG = VALUE | OPTIONAL_VALUE | NO_VALUE
ALIASES = {"cluster": "clusters", "tasks-per-node": "ntasks-per-node"}
RETIRED = {"workdir": "chdir", "share": "oversubscribe", "cpu_bind": "cpu-bind", "immediate": "", "jobid": ""}
ELSEWHERE = {  # as other batch systems, and people, call them
    "queue": "partition",
    "walltime": "time",
    "memory": "mem",
    "name": "job-name",
    "stdout": "output",
    "log": "output",
    "stderr": "error",
    "email": "mail-user",
}
SHORT = {
    "A": "account", "B": "extra-node-info", "C": "constraint", "D": "chdir", "F": "nodefile", "G": "gpus",
    "H": "hold", "J": "job-name", "L": "licenses", "M": "clusters", "N": "nodes", "O": "overcommit",
    "Q": "quiet", "S": "core-spec", "V": "version", "W": "wait", "a": "array", "b": "begin", "c": "cpus-per-task",
    "d": "dependency", "e": "error", "h": "help", "i": "input", "k": "no-kill", "m": "distribution",
    "n": "ntasks", "o": "output", "p": "partition", "q": "qos", "s": "oversubscribe", "t": "time",
    "v": "verbose", "w": "nodelist", "x": "exclude",
}  # fmt: skip

# Whose value may hold any text.
FREE_TEXT = _set("account chdir comment error extra input job-name output wckey wrap")
# For which sbatch itself, or the controller, takes nothing but a number above zero.
COUNTS = _set(
    "cores-per-socket cpus-per-gpu cpus-per-task mincpus ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node "
    "ntasks-per-socket sockets-per-node threads-per-core"
)
GPU_COUNTS = ("gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task")
# 22.05 knows no PIPE, SEGV and the like; later versions do.
SIGNALS = _set(
    "HUP INT QUIT ILL TRAP ABRT IOT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CLD CONT STOP TSTP TTIN "
    "TTOU URG XCPU XFSZ VTALRM PROF WINCH IO POLL PWR SYS"
)
MAIL_TYPES = _set(
    "all array_tasks begin end fail invalid_depend none requeue stage_out time_limit time_limit_50 time_limit_80 "
    "time_limit_90"
)


def candidates(word: str) -> tuple[str, ...]:
    """The options that `word` (a long name without dashes) may mean: one is clear, several are ambiguous.

    As getopt_long: an exact name, else every name that it begins; two spellings of one option are not ambiguous.
    """
    if word in LONG:
        return (word,)
    if word in ALIASES:
        return (ALIASES[word],)
    begun = {ALIASES.get(name, name) for name in (*LONG, *ALIASES) if name.startswith(word)}
    return tuple(sorted(begun))


def is_held(priority: str) -> bool:
    """Whether sbatch reads 0 of the value of --priority, Slurm's for a held job (22.05's drops it); `x` is 0, too."""
    return priority.upper() != "TOP" and re.match(r"\s*\+?0*[1-9]", priority) is None


def is_plugin_option(word: str) -> bool:
    """Whether `word` may belong to a plugin that sites commonly load: unknown here, but no mistake."""
    return word.startswith(PLUGIN_PREFIXES)


def nearest(word: str) -> str | None:
    """The option most like a misspelt `word`, or None."""
    if word in ELSEWHERE:
        return ELSEWHERE[word]
    if word in RETIRED:
        return RETIRED[word] or None
    close = values.nearest(word.lower().replace("_", "-"), (*LONG, *ALIASES), 0.7)
    return ALIASES.get(close, close) if close else None


# --- what word processors and web pages put in the place of plain characters ------------------------------------------

DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"
QUOTES = "\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb\u2032\u2033"
BLANKS = "\u00a0\u2002\u2003\u2007\u2009\u202f\u3000"
UNSEEN = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
_PLAIN = str.maketrans(
    dict.fromkeys(DASHES, "-") | dict.fromkeys(QUOTES, "") | dict.fromkeys(BLANKS, " ") | dict.fromkeys(UNSEEN, "")
)
_NAMES = ((DASHES, "minus signs"), (QUOTES, "quotes"), (BLANKS, "blanks"), (UNSEEN, "blanks"))


def changed(text: str) -> str:
    """What of `text` was changed: "minus signs", "quotes" or "blanks"; "" where it is plain."""
    return next((name for characters, name in _NAMES if any(c in characters for c in text)), "")


def is_suspect(value: str) -> bool:
    """Whether free text holds what nobody types on purpose: unseen or odd blanks, curly quotes around it."""
    return any(c in BLANKS + UNSEEN for c in value) or value[:1] in {*QUOTES} or value[-1:] in {*QUOTES}


def plain(text: str) -> str:
    """`text` as it was typed: plain minus signs and blanks, no curly quotes."""
    return text.translate(_PLAIN)


def fix_of_word(word: str) -> str:
    """What to write for a changed option (`\u2014mem=16G`); "" for another word."""
    kind = changed(word)
    bare = plain(word).strip()
    if not kind or not re.match(r"-+\w", bare):
        return ""
    name = bare.lstrip("-")
    dashes = "-" if name[:1] in SHORT and name[1:2] in {"", "="} else "--"
    return f"A word processor has changed its {kind}: write {dashes}{name}."


def fix_of_value(name: str, value: str) -> str:
    """What to write for an option's changed value; "" where it is plain. `name` has its dashes."""
    kind = changed(value)
    right = plain(value).strip()
    right = f'"{right}"' if re.search(r"[\s#\"']", right) else right
    return f"A word processor has changed its {kind}: write {name}={right}." if kind else ""
