"""What ran and how it ended, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cronhpc.views import runs, text, times
from cronhpc.views.style import Cell, Column, Style, table
from cronhpc.views.times import epoch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COLUMNS = (
    Column("SLOT"),
    Column("ENTRY", least=12, name=True),
    Column("RESULT", least=12),
    Column("TOOK", optional=2),
    Column("WAITED", optional=3),
    Column("JOB", optional=1),
    Column("NODE", optional=4, least=4),
    Column("DETAIL", least=20),
)


def render(rows: Sequence[Mapping[str, Any]], style: Style) -> str:
    """A line a run (`runs.run_facts`)."""
    return "\n".join(table(_COLUMNS, [_row(row, style) for row in rows], style))


def _row(row: Mapping[str, Any], style: Style) -> list[Cell]:
    slot = epoch(row["slot"])
    again = f" #{row['attempt']}" if row["attempt"] > 1 else ""
    hand = " by hand" if row["by_hand"] else ""
    return [
        (style.clock(slot) if slot is not None else "-") + again + hand,
        text.name(row["entry"]),
        (runs.result_words(row), runs.result_colour(row)),
        times.took(row["took"]),
        times.took(row["waited"]),
        row["job"] or "-",
        text.clean(row["node"]) or "-",
        text.one_line(row["detail"]),
    ]
