"""What `cronhpc doctor` prints: findings, the worst first, and the settings to put."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cronhpc.core.findings import LEVELS, Finding
from cronhpc.views import text
from cronhpc.views.style import Style, wrap

_TITLES = {
    "error": ("to be mended", "red"),
    "warning": ("worth mending", "yellow"),
    "unknown": ("not known", "blue"),
    "advice": ("good to know", ""),
    "fine": ("fine", "green"),
}
_GAP = 2


def facts(found: Sequence[Finding], values: Mapping[str, str], *, written: bool) -> dict[str, Any]:
    """For --json; texts as they are."""
    names = ("level", "topic", "what", "mend")
    rows = [{**{name: getattr(each, name) for name in names}, "settings": dict(each.settings)} for each in found]
    counts = {level: sum(each.level == level for each in found) for level in LEVELS}
    return {"findings": rows, "counts": counts, "settings": dict(values), "written": written}


def render(found: Sequence[Finding], values: Mapping[str, str], style: Style, *, written: bool) -> str:
    """Findings by level; then what to put into the settings, or that it was put."""
    lines: list[str] = []
    column = max((text.width(each.topic) for each in found), default=0) + _GAP
    for level in LEVELS:
        rows = [each for each in found if each.level == level]
        if rows:
            title, colour = _TITLES[level]
            lines += [*([""] if lines else []), style.paint(title, colour or "bold")]
            lines += [line for each in rows for line in _row(each, column, style)]
    return "\n".join([*lines, *_settings(values, style, written=written)])


def _row(finding: Finding, column: int, style: Style) -> list[str]:
    room = max(style.width - column - _GAP, 30) if style.width else 0
    said = wrap(text.one_line(finding.what), room)
    said += [
        line for part in (_put(finding), finding.mend) if part for line in style.wrapped(text.one_line(part), room)
    ]
    heads = [finding.topic, *[""] * (len(said) - 1)]
    return [f"  {text.pad(head, column)}{line}" for head, line in zip(heads, said, strict=True)]


def _put(finding: Finding) -> str:
    return ", ".join(f"Put {key}: {value}" for key, value in finding.settings)


def _settings(values: Mapping[str, str], style: Style, *, written: bool) -> list[str]:
    if not values:
        return []
    rows = [f"  {key}: {text.one_line(value)}" for key, value in values.items()]
    write = style.command("doctor", options=("--write",))
    if written:
        return ["", "put into cronhpc.yaml:", *rows, f"next: {style.command('start')}   (so that links have them, too)"]
    return ["", f"settings to put into cronhpc.yaml ({write} does it):", *rows]
