"""Debian's Chromium, without a head, a network or a memory; it fails, and is never skipped, where it is missing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

PHONE, DESK = (390, 844), (1280, 1000)
_WORDS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
    "--host-resolver-rules=MAP * ~NOTFOUND",  # what it would fetch, it cannot
)


@contextmanager
def opened(size: tuple[int, int] = DESK, *, dark: bool = False) -> Iterator[webdriver.Chrome]:
    """A browser of its own, with a window of that size (pixels)."""
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    if None in programs.values():
        pytest.fail("the browser is missing: apt-get install -y chromium chromium-driver", pytrace=False)
    profile = tempfile.mkdtemp(prefix="browser-")
    options = Options()
    options.binary_location = str(programs["chromium"])
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for word in (*_WORDS, f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}"):
        options.add_argument(word)
    driver = webdriver.Chrome(options=options, service=Service(str(programs["chromedriver"])))
    try:
        media = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        yield driver
    finally:
        driver.quit()
        shutil.rmtree(profile, ignore_errors=True)


def fetched(driver: webdriver.Chrome) -> list[str]:
    """The addresses on a network that were asked for; what the page's own policy stopped was not."""
    import json

    asked: dict[str, str] = {}
    for row in driver.get_log("performance"):  # type: ignore[no-untyped-call]  # selenium has no types for it
        message = json.loads(row["message"])["message"]
        of = message["params"]
        if message["method"] == "Network.requestWillBeSent":
            asked[of["requestId"]] = of["request"]["url"]
        elif message["method"] == "Network.loadingFailed" and of.get("blockedReason") == "csp":
            asked.pop(of["requestId"], None)
    return [url for url in asked.values() if url.startswith(("http", "ws", "ftp"))]


def show(driver: webdriver.Chrome, html: str, folder: Path) -> None:
    """Open `html` as a file."""
    path = folder / "page.html"
    path.write_text(html, encoding="utf-8")
    driver.get(path.as_uri())
