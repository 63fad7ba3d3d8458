"""Values of sbatch options that sbatch, or the controller behind it, refuses; tried on 22.05.8."""

from __future__ import annotations

import re

from cronhpc.core import sbatch_options
from cronhpc.core.header import time_limit

_SIZE = re.compile(r"\d+(?:[KMGT]B?)?", re.IGNORECASE)
_INDEXES = re.compile(r"(?P<low>\d+)(?:-(?P<high>\d+)(?::0*[1-9]\d*)?)?")
_NODES = re.compile(r"\s*\+?(?P<low>\d+)-\+?(?P<high>\d*)\s*")
_WORDS = {
    "open-mode": re.compile(r"[at]", re.IGNORECASE),
    "kill-on-invalid-dep": re.compile(r"(?:yes|no)$", re.IGNORECASE),
}
_SAID = {
    "open-mode": ("no such mode.", "Write append or truncate."),
    "kill-on-invalid-dep": ("neither yes nor no.", "Write yes or no."),
}
_SIGNAL = re.compile(r"(?:[RB]+:)?(?:SIG)?(?P<name>\w+)(?:@\d+)?", re.IGNORECASE)


def fault(name: str, value: str) -> tuple[str, str] | None:
    """(what, mend) where sbatch would refuse `value` for option `name`; only what is certain."""
    if name in {"time", "time-min"}:
        return _bad_time(value)
    if name in {"mem", "mem-per-cpu", "mem-per-gpu", "tmp"} and not _SIZE.fullmatch(value):
        return "not a size.", "Write a whole number of megabytes, or one with K, M, G or T: 4G."
    if name in sbatch_options.COUNTS and not re.fullmatch(r"\s*\+?0*[1-9]\d*", value):
        return "not a number above zero.", "Write a whole number."
    if name == "nodes":
        return _bad_nodes(value)
    if name == "array" and not _is_array(value):
        return "not a list of indexes.", "Write it like 0-15, 1,3,5-7 or 0-99%10."
    if name in _WORDS and not _WORDS[name].match(value):
        return _SAID[name]
    if name == "mail-type" and not sbatch_options.MAIL_TYPES & set(value.lower().split(",")):
        return "no such mail type.", f"Write {nearest_mail_type(value)}."
    if name == "signal":
        match = _SIGNAL.fullmatch(value)
        if not match or not (
            match["name"].isdecimal() or match["name"].upper().removeprefix("SIG") in sbatch_options.SIGNALS
        ):
            return "no such signal.", "Write it like B:USR1@300."
    return None


def _bad_nodes(value: str) -> tuple[str, str] | None:
    if not re.match(r"\s*\+?\d", value):
        return "not a count of nodes; names go into --nodelist.", "Write a number, or MIN-MAX."
    match = _NODES.fullmatch(value)
    if match and int(match["high"] or 0) < int(match["low"]):
        return "the most nodes are fewer than the least.", "Write MIN-MAX, or one number."
    return None


def _bad_time(value: str) -> tuple[str, str] | None:
    try:
        time_limit(value)
    except ValueError:
        pass
    else:
        return None
    from cronhpc.core.duration import DurationError, parse_duration

    mend = "Write minutes, hours:minutes:seconds or days-hours: 30, 2:00:00, 1-0."
    try:
        seconds = parse_duration(value)
    except DurationError:
        return "not a time limit.", mend
    hours, rest = divmod(seconds, 3600)
    return "not a time limit to sbatch.", f"Write {hours}:{rest // 60:02}:{rest % 60:02}."


def _is_array(value: str) -> bool:
    listed, _, at_once = value.strip().partition("%")
    listed = listed[1:-1] if listed.startswith("[") and listed.endswith("]") else listed
    ranges = [_INDEXES.fullmatch(part) for part in listed.split(",") if part]
    if not ranges or not (at_once.isdecimal() or not at_once):
        return False
    return all(r is not None and int(r["low"]) <= int(r["high"] or r["low"]) for r in ranges)


def nearest_mail_type(word: str) -> str:
    """The mail type most like a misspelt `word`, in capitals."""
    import difflib

    near = difflib.get_close_matches(word.lower(), sbatch_options.MAIL_TYPES, n=1)
    return near[0].upper() if near else "END or FAIL"
