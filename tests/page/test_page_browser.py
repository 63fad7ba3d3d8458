"""The page as a browser shows it: on a phone and on a desk, in the light and in the dark, by keyboard, and harmless."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.browser import DESK, PHONE, fetched, opened, show
from tests.page_situations import NASTY, html

pytestmark = pytest.mark.browser
_CONTRAST = """
const lum = c => { const [r, g, b] = c.map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b; };
const rgb = t => t.match(/[\\d.]+/g).map(Number);
const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
  if (c.length < 4 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
const bad = [];
for (const e of document.querySelectorAll('body *')) {
  if (![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim()) || !e.getClientRects().length) continue;
  const style = getComputedStyle(e), svg = e instanceof SVGElement;
  const [a, b] = [lum(rgb(svg ? style.fill : style.color).slice(0, 3)), lum(behind(e))];
  const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  if (ratio < 4.5) bad.push([e.textContent.trim().slice(0, 30), ratio.toFixed(2)]);
}
return bad;
"""


@pytest.fixture(scope="module")
def page() -> str:
    return html()


@pytest.fixture(scope="module")
def desk() -> Iterator[webdriver.Chrome]:
    with opened() as driver:
        yield driver


def _screenshot(driver: webdriver.Chrome, name: str) -> None:
    """Kept where CRONHPC_SCREENSHOTS names a folder, for people to look at."""
    folder = os.environ.get("CRONHPC_SCREENSHOTS")
    if folder:
        height = driver.execute_script("return document.documentElement.scrollHeight")
        width = driver.execute_script("return innerWidth")
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.save_screenshot(str(Path(folder) / f"{name}.png"))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_it_is_readable(page: str, tmp_path: Path, size: tuple[int, int], *, dark: bool) -> None:
    """Nothing sticks out sideways, all text has contrast enough (WCAG AA), nothing was blocked, nothing fetched."""
    with opened(size, dark=dark) as driver:
        show(driver, page, tmp_path)
        for closed in driver.find_elements(By.CSS_SELECTOR, "details.entry summary")[:2]:
            closed.click()
        assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        assert driver.execute_script(_CONTRAST) == []
        assert _brightness(driver) == ("dark" if dark else "light")
        assert [row["message"] for row in driver.get_log("browser")] == []  # type: ignore[no-untyped-call]  # no types
        assert fetched(driver) == []
        _screenshot(driver, f"{'phone' if size == PHONE else 'desk'}-{'dark' if dark else 'light'}")


def _brightness(driver: webdriver.Chrome) -> str:
    background: str = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    first = int(background.removeprefix("rgb(").split(",")[0])
    return "dark" if first < 128 else "light"


def test_what_logs_and_names_hold_is_text(desk: webdriver.Chrome, page: str, tmp_path: Path) -> None:
    show(desk, page, tmp_path)
    assert desk.title.startswith("alice on lab")
    assert desk.find_elements(By.CSS_SELECTOR, "script, img, iframe, link, [onerror]") == []
    names = [each.text for each in desk.find_elements(By.CSS_SELECTOR, ".name")]
    assert any(NASTY in name for name in names)
    tail = desk.find_element(By.CSS_SELECTOR, "pre").text
    assert "</pre><script>" in tail
    assert "\\e[31mred" in tail


def test_even_a_script_that_got_in_would_not_run(desk: webdriver.Chrome, page: str, tmp_path: Path) -> None:
    """The policy of the page itself, should a mistake of ours ever let markup through."""
    hole = "<script>document.title='in'</script><img src='https://x.example/'><b style='color:red' id=b>b</b>"
    show(desk, page.replace("</main>", f"{hole}</main>"), tmp_path)
    assert desk.title != "in"
    assert desk.execute_script("return getComputedStyle(document.getElementById('b')).color") != "rgb(255, 0, 0)"
    assert [url for url in fetched(desk) if "x.example" in url] == []


def test_a_keyboard_reaches_and_opens_everything(desk: webdriver.Chrome, page: str, tmp_path: Path) -> None:
    show(desk, page, tmp_path)
    seen: list[Any] = []
    for _ in range(30):
        desk.switch_to.active_element.send_keys(Keys.TAB)
        focused = desk.switch_to.active_element
        seen.append((focused.tag_name, focused.get_attribute("class")))
        if seen[-1] == ("summary", "row") and seen.count(("summary", "row")) == 1:
            outline = desk.execute_script("return getComputedStyle(arguments[0]).outlineStyle", focused)
            assert outline == "solid"
            focused.send_keys(Keys.ENTER)
            assert desk.execute_script("return arguments[0].parentElement.open", focused)
    entries = len(desk.find_elements(By.CSS_SELECTOR, "details.entry"))
    assert seen[0] == ("a", "skip")
    assert seen.count(("summary", "row")) >= entries
    assert ("pre", "") in seen, "a long log is scrolled by keyboard"


def test_a_line_is_told_to_those_who_cannot_see_it(desk: webdriver.Chrome, page: str, tmp_path: Path) -> None:
    show(desk, page, tmp_path)
    labels = [each.get_attribute("aria-label") for each in desk.find_elements(By.CSS_SELECTOR, "svg.line")]
    assert "backup: in the last 7 days 4 went well, 3 failed; next Sat 04:00" in labels
