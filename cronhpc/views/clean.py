"""Which logs go, or went, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cronhpc.core.duration import format_duration
from cronhpc.core.retention import Why
from cronhpc.views import text, times
from cronhpc.views.style import Column, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cronhpc.core.model import Problem, Settings
    from cronhpc.views.style import Style

Facts = dict[str, Any]
_LISTED = 20  # files that a dry run names one by one; of more it says how many in each folder
_COLUMNS = (Column("FOLDER"), Column("FILES", right=True), Column("WHY"))
_FILES = (Column("FILE"), Column("WHY"))


def facts(
    settings: Settings,
    *,
    dry_run: bool,
    kept: int,
    size: int | None,
    folders: Mapping[str, Mapping[str, int]],
    files: Iterable[tuple[str, str]],
    stays: Mapping[str, int],
    left: bool,
    scarce: str,
    problems: Sequence[Problem],
) -> Facts:
    """What a clean-up did or would do, JSON-ready. `size` (bytes) None: nobody looked at each file's."""
    part = 2 if scarce else 1
    return {
        "dry_run": dry_run,
        "removed": sum(sum(row.values()) for row in folders.values()),
        "bytes": size,
        "kept": kept,
        "kept_because": dict(stays),
        "folders": [
            {"folder": name, "removed": sum(row.values()), "because": dict(row)} for name, row in folders.items()
        ],
        "files": [{"file": file, "because": why} for file, why in files],
        "left": left,
        "limits": {
            "keep": settings.logs_keep // part,
            "files": max(settings.logs_files // part, 1),
            "total": settings.logs_total // part,
            "halved_because": scarce,
        },
        "problems": [
            {"code": p.code, "file": p.file, "line": p.line, "what": p.what, "mend": p.mend} for p in problems
        ],
    }


def render(known: Facts, style: Style, *, everything: bool = False) -> str:
    """For people."""
    lines = [_headline(known)]
    if known["limits"]["halved_because"]:
        lines.append(style.paint(f"{known['limits']['halved_because']}: the limits are halved", "yellow"))
    words = _words(known["limits"])
    if known["removed"]:
        lines += ["", *_table(known, words, style, everything=everything)]
    held = {why: n for why, n in known["kept_because"].items() if why != Why.WITHIN}
    lines += [""] if held or known["problems"] else []
    lines += [f"kept  {text.count(n, 'log')}: {why}" for why, n in held.items()]
    lines += [style.paint(style.text(_said(problem)), "yellow") for problem in known["problems"]]
    if known["dry_run"] and known["removed"]:
        lines += ["", f"Nothing was removed. Remove them with: {style.command('clean')}"]
    return "\n".join(lines)


def _said(problem: Facts) -> str:
    return f"{text.clean(problem['what'])} " + text.clean(problem["mend"])


def _headline(known: Facts) -> str:
    verb = "would remove" if known["dry_run"] else "removed"
    number, everything = known["removed"], known["removed"] + known["kept"]
    size = f", {text.size(known['bytes'])}" if number and known["bytes"] is not None else ""
    if not number:
        return f"nothing to remove of {text.count(everything, 'log')}"
    return f"{verb} {number:,} of {text.count(everything, 'log')}{size}"


def _words(limits: Mapping[str, Any]) -> dict[str, str]:
    return {
        Why.OLD: f"older than {_age(limits['keep'])}",
        Why.MANY: f"more than {limits['files']:,} of one entry",
        Why.LARGE: f"more than {text.size(limits['total'])} in all",
    }


def _age(seconds: int) -> str:
    return format_duration(seconds) if seconds % times.DAY else text.count(seconds // times.DAY, "day")


def _table(known: Facts, words: Mapping[str, str], style: Style, *, everything: bool) -> list[str]:
    if known["files"] and (everything or len(known["files"]) <= _LISTED):
        return table(_FILES, [(text.clean(row["file"]), words[row["because"]]) for row in known["files"]], style)
    rows = [
        (text.clean(row["folder"]), f"{row['removed']:,}", _because(row["because"], words)) for row in known["folders"]
    ]
    return table(_COLUMNS, rows, style)


def _because(because: Mapping[str, int], words: Mapping[str, str]) -> str:
    if len(because) == 1:
        return words[next(iter(because))]
    return ", ".join(f"{number:,} {words[why]}" for why, number in because.items())
