"""What sbatch takes: every long option, its short form, whether a value follows, and which are refused.

Source: the option table that sbatch 22.05.8 hands to getopt_long, and sbatch(1) up to 26.05 for what came since.
An option that only some versions know is no mistake here: the cluster has the last word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

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


# --- values -----------------------------------------------------------------------------------------------------------

# Each rule was tried on 22.05.8 (tests/data/sbatch_values_22.05.txt) and is silent where a later version takes more:
# node lists in --nodes (23.02), --exclusive=topo (24.05), names of signals, gres/gpu:2 and gpu=2 in --gres.
# What only a cluster can know (names of nodes, features, licences; how much it has) is not judged here.

_SIZE = r"(?i)\s*\+?\d{1,18}(?:[KMGT]B?)?"
_INDEXES = r"(?P<low>\d+)(?:-(?P<high>\d+)(?::0*[1-9]\d*)?)?"
_COUNT = "[0-9]+[kKmMgGtT]?"
_MOST_INDEX = 4_000_001  # MaxArraySize cannot be larger
_SIZES = frozenset({"mem", "mem-per-cpu", "mem-per-gpu", "tmp"})
_GPUS = frozenset(GPU_COUNTS)


def _list_of(item: str, separator: str = ",") -> str:
    return f"(?:{item})(?:{separator}(?:{item}))*"


# Times (parse_time.c): `now` and a delta, or a date and a time of day in either order. A capital T is a blank to it.
_CLOCK = (
    r"(?:(?:0?[1-9]|1[0-2]):[0-5]\d(?::[0-5]\d)?\s*[AaPp][Mm]|(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?)"  # 4:30PM, 16:30
)
_DATE = (
    r"(?:\d{4}-(?:0\d|1[0-2])-(?:[0-2]\d|3[01])"  # 2027-01-31
    r"|(?:0?[1-9]|1[0-2])[/.](?:0?[1-9]|[12]\d|3[01])(?:[/.]\d\d)?"  # 1/31, 1/31/27
    r"|(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:\d\d)?)"  # 0131, 013127
)
_DAY = rf"(?:{_CLOCK}|{_DATE}|[Mm]idnight|[Nn]oon|[Ff]ika|teatime|today|tomorrow)"
_DELTA = r"\s*[+-]\s*\d+\s*(?i:(?:second|minute|hour|day|week)s?)?"
_TIME = rf"\s*(?:(?i:now)(?:{_DELTA})?|uts\d+|T?{_DAY}(?:[\sT-]*{_DAY})*)[\sT]*"
_TIME_SAID = ("no time that it knows.", "Write it like 2027-01-31T04:30, 16:00, tomorrow or now+2hours.")

_JOB = r"\s*-?[1-9]\d*(?:_(?:\d+|\*|\[[\d,-]+\]))?(?:\+\d+)?"
_DEPENDS = rf"after(?:any|ok|notok|corr|burstbuffer)?(?::{_JOB})+|expand:{_JOB}|singleton|{_JOB}"
_FREQUENCY = r"(?:low|medium|highm1|high|\d[^:-]*)"
_GOVERNOR = r"(?:conservative|ondemand|performance|powersave|schedutil|userspace)"
_RANKS = {"low": 0, "medium": 1, "highm1": 2, "high": 3}
_GPU_FREQUENCY = r"(?:memory=)?(?:low|medium|high|highm1|\d+)|v(?:erbose)?"
_INTERVAL = r"(?:(?:task|energy|network|filesystem)=)?\d+[^,]*"
_BINDING = r"q|quiet|v|verbose|no|none|p|prefer|rank|local|sort|nosort|ma(?:p|sk)_mem:[\da-fx,*]+"
_LIMIT = r"(?:RLIMIT_)?(?:AS|CORE|CPU|DATA|FSIZE|MEMLOCK|NOFILE|NPROC|RSS|STACK)"
_SPREAD = r"(?:arbitrary|hostfile|\*|block|cyclic)(?::(?:\*|block|f?cyclic)){0,2}(?:,(?:no)?pack)?|(?:no)?pack"

# option: what its value may be, what is said of all else, what to write
_FORMS = {
    "acctg-freq": (f"(?i){_list_of(_INTERVAL)}|", "no interval.", "Write it like task=30."),
    "begin": (_TIME, *_TIME_SAID),
    "core-spec": (r"(?:\s*\+?\d+)?", "not a number.", "Write a whole number."),
    "cpu-freq": (
        rf"(?i){_FREQUENCY}|{_GOVERNOR}|{_FREQUENCY}-{_FREQUENCY}(?:-\w+)?(?::{_GOVERNOR})?",
        "no frequency.",
        "Write low, medium, high, a number of kilohertz, MIN-MAX or MIN-MAX:GOVERNOR.",
    ),
    "deadline": (_TIME, *_TIME_SAID),
    "dependency": (
        f"(?i){_list_of(_DEPENDS, '[,?]')}|",
        "no dependency.",
        "Write it like afterok:JOBID, or singleton.",
    ),
    "distribution": (
        rf"(?i)plane=0*[1-9]\d*|{_SPREAD}",
        "no such distribution.",
        "Write block, cyclic, plane=SIZE or arbitrary, with :block, :cyclic or :fcyclic behind the first two.",
    ),
    "exclusive": ("(?i)|user|mcs|topo|exclusive|node", "no such way.", "Write --exclusive, --exclusive=user or =mcs."),
    "extra-node-info": (r"\s*(?:\*|\+?\d+)(?:[:x,-].*)?", "not a number.", "Write SOCKETS:CORES:THREADS: 2:8:1."),
    "get-user-env": (r"(?i)-?\d*(?:[SL].*)?", "no number of seconds.", "Write --get-user-env alone."),
    "gpu-bind": (
        r"(?i)(?:v(?:erbose)?,)?(?:[cn][a-z]*|(?:single|per_task):\w+|ma(?:p|sk)_gpu:[\da-fx,*]+)(?:,v(?:erbose)?)?",
        "no such binding.",
        "Write closest, none, single:TASKS, per_task:GPUS, map_gpu:LIST or mask_gpu:LIST.",
    ),
    "gpu-freq": (
        f"(?i){_list_of(_GPU_FREQUENCY)}",
        "no frequency.",
        "Write low, medium, high, highm1 or a number of megahertz.",
    ),
    "gres-flags": (
        f"(?i){_list_of('(?:enforce|disable)-binding|(?:one-task|multiple-tasks)-per-sharing')}",
        "no such flag.",
        "Write enforce-binding or disable-binding.",
    ),
    "hint": (
        f"(?i){_list_of('compute_bound|memory_bound|(?:no)?multithread')}",
        "no such hint.",
        "Write compute_bound, memory_bound, multithread or nomultithread.",
    ),
    "kill-on-invalid-dep": ("(?i)yes|no", "neither yes nor no.", "Write yes or no."),
    "mem-bind": (
        f"(?i){_list_of(_BINDING)}",
        "no such binding.",
        "Write none, local, rank, map_mem:LIST or mask_mem:LIST.",
    ),
    "no-kill": ("(?i)|off|no", "no such value.", "Write --no-kill, or --no-kill=off."),
    "open-mode": ("(?i)[at].*", "no such mode.", "Write append or truncate."),
    "partition": (
        r"(?=.)[^\s,]*(?:,[^\s,]*)*",
        "no partition has such a name.",
        "Write names, with commas and no blanks.",
    ),
    "priority": ("(?!-).*", "below zero.", "Write a number, or leave it out."),
    "profile": (
        "(?i).*(?:all|none|energy|task|lustre|network).*",
        "no such profile.",
        "Write all, none, energy, task, lustre or network.",
    ),
    "propagate": (
        f"(?:ALL|NONE)?|{_list_of(_LIMIT)}",
        "no such limit.",
        "Write ALL, NONE, or names in capitals: MEMLOCK,STACK.",
    ),
    "switches": (r"\s*\+?0*[1-9]\d*(?:@.*)?", "not a number above zero.", "Write COUNT, or COUNT@MINUTES."),
    "thread-spec": (r"(?:\s*\+?\d+)?", "not a number.", "Write a whole number."),
    "wait-all-nodes": (r"(?:\+?[01])?", "neither 0 nor 1.", "Write 0 or 1."),
}
# Options whose values are judged here, by a form or by a function.
JUDGED = frozenset({*_FORMS, *_SIZES, *_GPUS, *COUNTS, "array", "gres", "nodes", "signal", "time", "time-min"})
_SIGNAL = r"(?i)(?:[RB]+:)?(?:SIG)?(?P<name>[+-]?\w+)(?:@(?P<seconds>\d*))?"
_MOST_SECONDS = 65_535


def _fits(form: str, value: str) -> re.Match[str] | None:
    return re.fullmatch(form, value, re.ASCII | re.DOTALL)


def time_limit(text: str) -> int | None:
    """Seconds of a limit in one of sbatch's forms; None for no limit. Raises ValueError.

    Forms: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]].
    """
    if text.upper() in {"UNLIMITED", "INFINITE", "-1"}:
        return None
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if dash and rest == "":
        parts = ["0"]
    if len(parts) > 3 or not all(p.isascii() and p.isdecimal() for p in [*parts, *([days] if dash else [])]):  # noqa: PLR2004 - hours, minutes, seconds
        raise ValueError(text)
    numbers = [int(p) for p in parts]
    if dash or len(numbers) == 3:  # noqa: PLR2004 - hours come first
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    else:
        hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
    return (int(days) if dash else 0) * 86400 + hours * 3600 + minutes * 60 + seconds or None


def megabytes(text: str) -> int | None:
    """Of --mem: 4000, 4G, 1T; None for what is none of its forms."""
    match = _fits(r"(?P<number>\d+)(?P<unit>[kKmMgGtT]?)[bB]?", text.strip())
    if match is None:
        return None
    return int(int(match["number"]) * {"k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1024**2}[match["unit"].lower()])


@lru_cache(maxsize=1024)  # several rules ask it of one option, and scripts are alike
def fault(name: str, value: str) -> tuple[str, str] | None:
    """(what, fix) where sbatch would refuse `value` for option `name`; only what is certain."""
    if name in {"time", "time-min", "delay-boot"}:
        return _bad_time(value)
    if name in _SIZES and not _fits(_SIZE, value):
        return "not a size.", "Write a whole number of megabytes, or one with K, M, G or T: 4G."
    if name in COUNTS and not (_fits(r"\s*\+?0*[1-9]\d*", value) and int(value) < 2**31):
        return "not a number above zero.", "Write a whole number."
    form, *refusal = _FORMS.get(name, ("",))
    if refusal and not _fits(form, value):
        return refusal[0], refusal[1]
    if name == "mail-type" and not MAIL_TYPES & set(re.split(r",\s*", value.lower())):
        types = [each for each in re.split(r"[\s;|:+/]+", value.lower()) if each]
        right = ",".join(types).upper() if MAIL_TYPES.issuperset(types) else nearest_mail_type(value)
        return "no such mail type.", f"Write {right}."
    judge = {"nodes": _bad_nodes, "array": _bad_array, "signal": _bad_signal, "gres": _bad_gres, "cpu-freq": _bad_order}
    if name in _GPUS:
        return _bad_gpus(value)
    return judge[name](value) if name in judge else None


def conflicts(
    given: Mapping[str, Option], added: frozenset[str] = frozenset()
) -> Iterator[tuple[str, str, Option, str]]:
    """(code, what, option, fix) of options of one job that sbatch refuses together; `given` by their names.

    `added`: names of options that the settings give the job beside its own.
    """
    for names in EXCLUSIVE:
        present = [given[name] for name in names if name in given]
        if not present:
            continue
        every = [o.name for o in present] + [name for name in names if name in added and name not in given]
        if len(every) > 1:
            last = max(present, key=lambda o: o.line)
            flags = " and ".join(f"--{name}" for name in every)
            yield "E208", f"{flags} exclude each other.", last, f"Keep one; --{last.name} is on this line."
            return
    for name, (needs, usual) in _NEEDS.items():
        option = given.get(name)
        if option and option.value not in {"0", ""} and not needs & (given.keys() | added):
            yield "E207", f"--{name} needs --{usual} beside it.", option, f"Add --{usual}=NUMBER."
    spread = given.get("distribution")
    arbitrary = spread and re.match("(?i)arbitrary|hostfile", spread.value or "")
    if spread and arbitrary and not {"nodelist", "nodefile"} & (given.keys() | added):
        yield "E207", f"--distribution={spread.value} needs --nodelist beside it.", spread, "Add --nodelist=NODES."
    least, most = given.get("time-min"), given.get("time")
    if least and most and _seconds(least) > _seconds(most):
        what = f"--time-min={least.value} is more than --time={most.value}."
        yield "E207", what, least, "Write a smaller --time-min, or leave it out."


EXCLUSIVE = (
    ("mem", "mem-per-cpu", "mem-per-gpu"),
    ("core-spec", "thread-spec"),
    ("cpus-per-gpu", "cpus-per-task"),
    ("ntasks-per-gpu", "gpus-per-task"),
    ("ntasks-per-gpu", "gpus-per-socket"),
    ("ntasks-per-gpu", "ntasks-per-node"),
)
_NEEDS = {  # option: (one of these has to stand beside it, the usual one)
    "gpus-per-task": (frozenset({"gpus", "ntasks", "nodes"}), "ntasks"),
    "gpus-per-socket": (frozenset({"sockets-per-node", "extra-node-info"}), "sockets-per-node"),
    "mem-per-gpu": (frozenset({*_GPUS, "gres", "tres-per-task"}), "gpus"),
    "ntasks-per-gpu": (frozenset({*_GPUS, "gres", "ntasks", "nodes"}), "gpus"),
}


def _seconds(option: Option) -> float:
    return time_limit(option.value or "") or float("inf")


def _bad_nodes(value: str) -> tuple[str, str] | None:
    count = _fits(r"\s*(?P<low>\+?\d+[kKmM]{0,2})?\s*(?:-\s*(?P<high>\d+[kKmM]{0,2})\s*)?", value)
    if count and count[0].strip():
        low, high = _count(count["low"]), _count(count["high"])
        if low is not None and high is not None and high < low:
            return "the most nodes are fewer than the least.", "Write MIN-MAX, or one number."
        return None
    if _fits(r"\d+(?:-\d+)?(?::\d+)?(?:,\d+(?:-\d+)?(?::\d+)?)*", value):  # 23.02 has lists of counts
        return None
    if _fits(r"\s*\+?\d+\s*-.*", value):
        return "not a range of counts.", "Write MIN-MAX, or one number."
    return "not a count of nodes; names go into --nodelist.", "Write a number, or MIN-MAX."


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    match = re.match(r"\+?\d+", text)
    times = 1024 ** (text.lower().count("k") + 2 * text.lower().count("m"))
    return int(match[0]) * times if match else None


def _bad_time(value: str) -> tuple[str, str] | None:
    try:
        time_limit(value.removeprefix("-"))
    except ValueError:
        pass
    else:
        return None
    from cronhpc.cron.duration import DurationError, parse_duration

    fix = "Write minutes, hours:minutes:seconds or days-hours: 30, 2:00:00, 1-0."
    try:
        seconds = parse_duration(value)
    except DurationError:
        return "not a time limit.", fix
    hours, rest = divmod(seconds, 3600)
    return "not a time limit to sbatch.", f"Write {hours}:{rest // 60:02}:{rest % 60:02}."


def _bad_array(value: str) -> tuple[str, str] | None:
    listed = value.strip().partition("%")[0]
    listed = listed[1:-1] if listed.startswith("[") and listed.endswith("]") else listed
    ranges = [_fits(_INDEXES, part) for part in listed.split(",") if part]
    wrong = [r for r in ranges if r is None or not int(r["low"]) <= int(r["high"] or r["low"]) < _MOST_INDEX]
    if wrong or (value and not ranges):
        return "not a list of indexes.", "Write it like 0-15, 1,3,5-7 or 0-99%10."
    return None


def _bad_signal(value: str) -> tuple[str, str] | None:
    match = _fits(_SIGNAL, value)
    name = match["name"] if match else "0"
    if name == "0" or not (name.lstrip("+-").isdecimal() or name.upper() in SIGNALS):
        return "no such signal.", "Write it like B:USR1@300."
    if int((match and match["seconds"]) or 0) > _MOST_SECONDS:
        return f"more than {_MOST_SECONDS} seconds before the end.", "Write fewer: B:USR1@300."
    return None


def _bad_gpus(value: str) -> tuple[str, str] | None:
    for item in value.split(",") if value else ():
        kind, _, number = item.rpartition(":")
        bare = "" if kind else item
        if (
            item.count(":") > 1
            or item.startswith(":")
            or (":" in item and not _fits(_COUNT, number))
            or (re.match("[0-9]", bare) and not _fits(_COUNT, bare))
            or re.search(r"\s", item)
        ):
            return "not a number of GPUs.", "Write NUMBER, or TYPE:NUMBER: 2, a100:2."
    return None


def _bad_gres(value: str) -> tuple[str, str] | None:
    for item in value.split(","):
        parts = re.sub(r"^gres[:/]", "", item).replace("=", ":").split(":")
        counted = len(parts) > 2 and not _fits(_COUNT, parts[-1])  # noqa: PLR2004 - name, type, count
        if "" in parts or counted or len(parts) > 3 or re.search(r"\s", item) or _fits(r"\d+\.\d+", parts[-1]):  # noqa: PLR2004
            return "no resource is named so.", "Write NAME:NUMBER, or NAME:TYPE:NUMBER: gpu:2, gpu:a100:2."
    return None


def _bad_order(value: str) -> tuple[str, str] | None:
    low, dash, high = value.lower().partition(":")[0].partition("-")
    pair = [_RANKS.get(each, int(each) if each.isdecimal() else None) for each in (low, high)]
    if dash and (low in _RANKS) == (high in _RANKS) and None not in pair and pair[0] >= pair[1]:  # type: ignore[operator]
        return "its least is not below its most.", "Write MIN-MAX."
    return None


def nearest_mail_type(word: str) -> str:
    """The mail type most like a misspelt `word`, in capitals."""
    if word.lower() in {"done", "complete", "completed", "finished", "success"}:
        return "END"
    near = values.nearest(word.lower(), sorted(MAIL_TYPES))
    return near.upper() if near else "END or FAIL"
