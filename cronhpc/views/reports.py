"""What `cronhpc check`, `doctor` and `history` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cronhpc.core.model import Problem, Severity
from cronhpc.core.model.site import Finding, Level
from cronhpc.views import Facts, runs, text, times
from cronhpc.views.facts import HistoryRun, as_json, cleaned
from cronhpc.views.style import Cell, Column, Style, table, wrap

# --- check ------------------------------------------------------------------------------------------------------------


_FIELDS = ("file", "line", "code", "severity", "key", "what", "fix")
_GITHUB = {"error": "error", "warning": "warning", "note": "notice"}


def check(problems: Sequence[Problem], *, fmt: str = "text") -> str:
    """`problems` as lines for people, or as GitHub's workflow commands; no line end at the end.

    A line is printable: names and scripts may hold line ends, terminal codes and bytes that are no UTF-8.
    """
    lines = [_github(p) if fmt == "github" else text.clean(str(p)) for p in problems]
    return "\n".join([*lines, summary(problems)])


def check_facts(problems: Sequence[Problem]) -> Facts:
    """For --json; texts are printable."""
    rows = [{name: cleaned(getattr(problem, name)) for name in _FIELDS} for problem in problems]
    return {"problems": rows, **{f"{level}s": number for level, number in _counts(problems).items()}}


def summary(problems: Sequence[Problem]) -> str:
    """`2 warnings, 1 error`, or `nothing to fix`."""
    counted = (text.count(number, level) for level, number in _counts(problems).items() if number)
    return ", ".join(counted) or "nothing to fix"


def _counts(problems: Sequence[Problem]) -> dict[str, int]:
    return {level: sum(p.severity is level for p in problems) for level in (Severity.WARNING, Severity.ERROR)}


def _github(problem: Problem) -> str:
    place = f"file={_escaped_property(problem.file)}," if problem.file else ""
    place += f"line={problem.line}," if problem.line else ""
    kind, advice = _GITHUB[problem.severity], f"{problem.what} {problem.fix}".strip()
    return f"::{kind} {place}title={problem.code}::{_escaped_message(advice)}"


def _escaped_message(message: str) -> str:
    return text.clean(message).replace("%", "%25")


def _escaped_property(value: str) -> str:
    return _escaped_message(value).replace(":", "%3A").replace(",", "%2C")


# --- doctor -----------------------------------------------------------------------------------------------------------


_TITLES = {
    "error": ("to be fixed", "red"),
    "warning": ("worth fixing", "yellow"),
    "unknown": ("not known", "blue"),
    "advice": ("good to know", ""),
    "fine": ("fine", "green"),
}
_GAP = 2


def doctor_facts(findings: Sequence[Finding], values: Mapping[str, str], *, written: bool) -> Facts:
    """For --json; texts as they are."""
    rows = [{**as_json(each), "settings": dict(each.settings)} for each in findings]
    counts = {level: sum(each.level is level for each in findings) for level in Level}
    return {"findings": rows, "counts": counts, "settings": dict(values), "written": written}


def doctor(findings: Sequence[Finding], values: Mapping[str, str], style: Style, *, written: bool) -> str:
    """Findings by level; then what to put into the settings, or that it was put."""
    lines: list[str] = []
    column = max((text.width(each.topic) for each in findings), default=0) + _GAP
    for level in Level:
        rows = [each for each in findings if each.level is level]
        if rows:
            title, colour = _TITLES[level]
            lines += [*([""] if lines else []), style.paint(title, colour or "bold")]
            lines += [line for each in rows for line in _finding_lines(each, column, style)]
    return "\n".join([*lines, *_settings(values, style, written=written)])


def _finding_lines(finding: Finding, column: int, style: Style) -> list[str]:
    room = max(style.width - column - _GAP, 30) if style.width else 0
    put = ", ".join(f"Put {key}: {value}" for key, value in finding.settings)
    lines = wrap(text.one_line(finding.what), room)
    lines += [line for part in (put, finding.fix) if part for line in style.wrapped(text.one_line(part), room)]
    heads = [finding.topic, *[""] * (len(lines) - 1)]
    return [f"  {text.pad(head, column)}{line}" for head, line in zip(heads, lines, strict=True)]


def _settings(values: Mapping[str, str], style: Style, *, written: bool) -> list[str]:
    if not values:
        return []
    rows = [f"  {key}: {text.one_line(value)}" for key, value in values.items()]
    write = style.command("doctor", options=("--write",))
    if written:
        return ["", "put into cronhpc.yaml:", *rows, f"next: {style.command('start')}   (so that links have them, too)"]
    return ["", f"settings to put into cronhpc.yaml ({write} does it):", *rows]


# --- history ----------------------------------------------------------------------------------------------------------


_HISTORY = (
    Column("SLOT"),
    Column("ENTRY", least=12, name=True),
    Column("RESULT", least=12),
    Column("TOOK", optional=2),
    Column("WAITED", optional=3),
    Column("JOB", optional=1),
    Column("NODE", optional=4, least=4),
    Column("DETAIL", least=20, wraps=True),
)


def history(rows: Sequence[HistoryRun], style: Style) -> str:
    """A line a run."""
    return "\n".join(table(_HISTORY, [_history_row(row, style) for row in rows], style))


def _history_row(run: HistoryRun, style: Style) -> list[Cell]:
    again = f" #{run.attempt}" if run.attempt > 1 else ""
    hand = " by hand" if run.by_hand else ""
    return [
        style.at(run.slot) + again + hand,
        text.name(run.entry),
        (runs.result_words(run), runs.result_colour(run.result)),
        times.took(run.took),
        times.took(run.waited),
        run.job or "-",
        text.clean(run.node) or "-",
        text.one_line(run.detail),
    ]
