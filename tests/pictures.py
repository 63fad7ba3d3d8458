"""The pictures in docs/, of a directory made up for them: `status` as SVG, the page as a browser shows it.

    .env/test/bin/python -m tests.pictures

The SVG is compared with what `status` draws today (test_docs.py); the page's picture wants Chromium.
"""

from __future__ import annotations

import base64
import re
import sys
import tempfile
from dataclasses import replace
from html import escape
from pathlib import Path

from cronhpc.core.plan import plan
from cronhpc.views import screen, status
from cronhpc.views.facts import Status
from tests.page_situations import NASTY, html, week, world
from tests.view_situations import ABOUT, style

DOCS = Path(__file__).resolve().parent.parent / "docs"
COLUMNS, ROWS = 96, 30
LETTER, LINE = 8.0, 19  # pixels
_CLASSES = {"1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow", "34": "blue"}
_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"
     role="img" aria-label="cronhpc status" font-size="13"
     font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace">
  <style>
    .back {{ fill: #f6f8fa }} text {{ fill: #1f2328; white-space: pre }} .bold {{ font-weight: 600 }}
    .dim {{ fill: #59636e }}
    .red {{ fill: #b3261e }} .green {{ fill: #1a6b34 }} .yellow {{ fill: #7d4e00 }} .blue {{ fill: #0a58b5 }}
    @media (prefers-color-scheme: dark) {{
      .back {{ fill: #161b22 }} text {{ fill: #e6edf3 }} .dim {{ fill: #9198a1 }}
      .red {{ fill: #ff8d85 }} .green {{ fill: #56d07a }} .yellow {{ fill: #e3b341 }} .blue {{ fill: #79b8ff }}
    }}
  </style>
  <rect class="back" width="{width}" height="{height}" rx="8"/>
"""


def known() -> Status:
    """What `status` knows of six entries: one fails, one is stopped, one runs, one is new."""
    whole = world()
    shown = replace(whole, entries=tuple(entry for entry in whole.entries if entry.name != NASTY))
    return status.facts(shown, plan(shown), shown.states, ABOUT)


def status_svg() -> str:
    """`cronhpc status` on a terminal of 96 columns, in its colours."""
    lines = ["\x1b[2m$\x1b[0m cronhpc status", *screen.render(known(), style(COLUMNS, ROWS, colour=True)).splitlines()]
    width, height = int(COLUMNS * LETTER) + 32, LINE * len(lines) + 26
    drawn = [_line(line, 30 + LINE * n) for n, line in enumerate(lines) if line]
    return _HEAD.format(width=width, height=height) + "\n".join(drawn) + "\n</svg>\n"


def _line(line: str, y: int) -> str:
    """A line of a terminal, as wide as its letters whatever font there is."""
    pieces, colour = [], ""
    for n, part in enumerate(re.split(r"\x1b\[(\d+)m", line)):
        if n % 2:
            colour = _CLASSES.get(part, "")
        elif part:
            pieces.append(f'<tspan class="{colour}">{escape(part)}</tspan>' if colour else escape(part))
    wide = len(re.sub(r"\x1b\[\d+m", "", line)) * LETTER
    return f'  <text x="16" y="{y}" textLength="{wide:.0f}" lengthAdjust="spacingAndGlyphs">{"".join(pieces)}</text>'


def page_png(width: int = 1000, height: int = 1010) -> bytes:
    """The page's top in a browser."""
    from tests.browser import opened, show

    rows = [row for row in week() if row["entry"] != NASTY]
    with tempfile.TemporaryDirectory() as folder, opened((width, height)) as browser:
        show(browser, html(known(), rows), Path(folder))
        end = browser.execute_script("return document.getElementById('failures').getBoundingClientRect().top")
        clip = {"x": 0, "y": 0, "width": width, "height": int(end), "scale": 1}
        answer = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    return base64.b64decode(answer["data"])


if __name__ == "__main__":
    (DOCS / "status.svg").write_text(status_svg(), encoding="utf-8")
    if "--no-browser" not in sys.argv:
        (DOCS / "page.png").write_bytes(page_png())
