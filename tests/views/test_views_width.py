"""Names as long as a file's may be do not widen a screen beyond a terminal; a pipe gets them whole."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cronhpc.core.model import HistoryRow, Queue
from cronhpc.core.plan import plan
from cronhpc.cron.schedule import parse
from cronhpc.views import next as upcoming
from cronhpc.views import plan as dry_run
from cronhpc.views import reports, runs, screen, text
from tests.view_situations import (
    ENTRIES,
    LINK,
    NOW,
    PARIS,
    SPARE,
    STATES,
    WORLD,
    at,
    entry,
    facts_of,
    running,
    state,
    style,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cronhpc.views.style import Style

LONG = "weekly-" + "very-" * 30 + "long"
_CLAIM, _JOB = running(LONG, at("14:00"), "4713")
HERE = replace(
    WORLD,
    entries=(*ENTRIES, entry(LONG, "@daily")),
    states={**STATES, LONG: state(LONG, at("04:00"), "failed", exit_code=1, failures=3, job="4656")},
    skipped=(replace(WORLD.skipped[0], file=f"cron.daily/{LONG}~"),),
    claims=(_CLAIM,),
    queue=Queue((LINK, SPARE, _JOB)),
)


def _next(how: Style) -> str:
    previews = [upcoming.Preview(name, parse("@daily", PARIS)) for name in ("backup", LONG)]
    return upcoming.render(upcoming.facts(previews, NOW, 4), how)


def _history(how: Style) -> str:
    row: HistoryRow = {"entry": LONG, "slot": NOW, "result": "failed", "detail": "no room " * 20, "node": "cpu1"}
    return reports.history([runs.run_facts(row)], how)


SCREENS: dict[str, Callable[[Style], str]] = {
    "status": lambda how: screen.render(facts_of(HERE), how).partition("\n\nENTRY")[2].partition("\n\n")[0],
    "needs attention": lambda how: screen.render(facts_of(HERE), how).partition("attention\n")[2].partition("\n\n")[0],
    "plan": lambda how: dry_run.render(HERE, plan(HERE), (), None, how),
    "next": _next,
    "history": _history,
}


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", SCREENS)
def test_a_long_name_fits_the_terminal(name: str, width: int) -> None:
    """But for commands, which are there to be copied: what they name stands on a line of its own."""
    lines = [line for line in SCREENS[name](style(width)).splitlines() if line.strip() != LONG]
    assert max(map(text.width, lines)) <= width
    assert any("…" in line for line in lines)


@pytest.mark.parametrize("name", SCREENS)
def test_a_pipe_gets_it_whole(name: str) -> None:
    shown = SCREENS[name](style())
    assert LONG in shown
    assert "…" not in shown
