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
from tests.page_situations import NASTY, deleted, html, many, nothing

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

_LAYOUT = """
document.querySelectorAll('details').forEach(e => e.open = arguments[0]);
const scrolls = e => e.closest('.scroll, pre'), bad = [], found = [];
const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (const e of document.querySelectorAll('body *')) {
  const box = e.getBoundingClientRect();
  if (!e.checkVisibility() || scrolls(e) || e.closest('.skip') || !box.width) continue;
  if (box.right > innerWidth + 1 || box.left < -1)
    bad.push('sticks out: ' + (e.getAttribute('class') || e.tagName) + ' ' + Math.round(box.right));
}
for (let node; node = words.nextNode();) {
  const e = node.parentElement, text = node.data.trim();
  if (!text || scrolls(e) || e.closest('.skip, title') || !e.checkVisibility()) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const boxes = [...range.getClientRects()].filter(box => box.width > 1);
  if (boxes.length > 2 && text.length / boxes.length < 5) bad.push('squeezed: ' + text);
  for (const box of boxes) found.push([text, box]);
}
found.forEach(([a, one], n) => {
  for (const [b, two] of found.slice(n + 1)) {
    const [wide, high] = ['x', 'y'].map(axis => axis == 'x'
      ? Math.min(one.right, two.right) - Math.max(one.left, two.left)
      : Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top));
    if (wide > 1 && high > 4) bad.push(`overlap: ${a} | ${b}`);
  }
});
return [found.length, bad.slice(0, 10)];
"""
PAGES = {
    "no entries": nothing,
    "a few entries": html,
    "forty entries with long names": many,
    "a deleted entry": deleted,
}


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


@pytest.mark.parametrize("opened_details", [False, True], ids=["closed", "all open"])
@pytest.mark.parametrize("medium", ["screen", "print"])
@pytest.mark.parametrize("which", PAGES)
def test_nothing_is_squeezed_covered_or_cut_off_at_any_width(
    desk: webdriver.Chrome, tmp_path: Path, which: str, medium: str, *, opened_details: bool
) -> None:
    show(desk, PAGES[which](), tmp_path)
    desk.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium})
    try:
        for width in (320, 400, 560, 740, 800, 900, 960, 1280, 1400, 1600) if medium == "screen" else (680, 718, 1047):
            metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            desk.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            texts, bad = desk.execute_script(_LAYOUT, opened_details)
            assert texts > 10
            assert bad == [], f"{width} px"
            assert desk.execute_script("return document.documentElement.scrollWidth <= innerWidth"), width
    finally:
        metrics = {"width": DESK[0], "height": DESK[1], "deviceScaleFactor": 1, "mobile": False}
        desk.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        desk.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen"})


def test_trouble_leads_to_its_entry_and_from_there_to_its_log(desk: webdriver.Chrome, tmp_path: Path) -> None:
    show(desk, html(beside_logs=True), tmp_path)
    in_sight = "const box = arguments[0].getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight"
    for entry in ("backup", NASTY):
        row = next(e for e in desk.find_elements(By.CSS_SELECTOR, "details.entry") if entry in e.text)
        desk.find_element(By.PARTIAL_LINK_TEXT, entry).click()
        assert desk.execute_script("return arguments[0].open", row)
        assert desk.execute_script(in_sight, row.find_element(By.CSS_SELECTOR, "summary"))
        row.find_element(By.PARTIAL_LINK_TEXT, "newest failure").click()
        failure = next(e for e in desk.find_elements(By.CSS_SELECTOR, "details.fail") if entry in e.text)
        assert desk.execute_script("return arguments[0].open", failure)
        log = failure.find_element(By.PARTIAL_LINK_TEXT, "the whole log").get_attribute("href")
        assert str(log).startswith((tmp_path / "log").as_uri())


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
