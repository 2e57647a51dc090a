"""A browser for tests: Debian's Chromium without a window, driven by Selenium, with what it asked servers for."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)
"""It has no window, keeps to what a page asks for, and runs as any user."""

SETTLED = (
    "return document.readyState === 'complete' && performance.timing.loadEventEnd > 0 "
    "&& performance.timing.loadEventEnd - performance.timing.navigationStart"
)
SERIOUS = {"serious", "critical"}
AXE = """
const done = arguments[arguments.length - 1];
axe.run(document).then((found) => done(found.violations), (error) => done([{id: String(error), impact: 'critical'}]));
"""


def programs() -> tuple[str, str] | None:
    """Return the browser and its driver; None where one of them is not installed."""
    found = shutil.which("chromium"), shutil.which("chromedriver")
    return None if None in found else (str(found[0]), str(found[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """One browser. Tests share it: each loads its own page and puts nothing back but `plain`."""

    driver: Chrome

    def open(self, url: str) -> float:
        """Load a page and return how many ms that took, from the request to the end of drawing."""
        self.driver.get(url)
        return float(self.run(SETTLED) or 0)

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script's body in the page."""
        return self.driver.execute_script(script, *arguments)

    def plain(self) -> None:
        """Show pages light and at the width of a desk again."""
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.theme("light")
        self.driver.delete_all_cookies()

    def theme(self, name: str) -> None:
        """Show pages `light` or `dark`."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def phone(self) -> None:
        """Show pages as a phone does."""
        size = {"width": 375, "height": 740, "deviceScaleFactor": 1, "mobile": True}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def requested(self) -> list[str]:
        """Return the origins and paths that were asked for since the last call."""
        logged = [
            json.loads(each["message"])["message"] for each in self.driver.get_log("performance")
        ]
        urls = [
            urlsplit(each["params"]["request"]["url"])
            for each in logged
            if each["method"] == "Network.requestWillBeSent"
        ]
        return [f"{url.scheme}://{url.netloc}{url.path}" for url in urls]

    def complaints(self) -> list[str]:
        """Return what the browser wrote to its console since the last call: errors and refused loads."""
        return [each["message"] for each in self.driver.get_log("browser")]

    def barriers(self) -> list[str]:
        """Return what keeps people from using the page, as axe-core finds it: each rule with the elements."""
        self.run(_axe())
        found = self.driver.execute_async_script(AXE)
        return [
            f"{each['id']}: {[node['html'] for node in each.get('nodes', ())][:3]}"
            for each in found
            if each["impact"] in SERIOUS
        ]


def has_axe() -> bool:
    """Whether axe-core is there: a package of the development environment carries it."""
    return find_spec("axe_core_python") is not None


def _axe() -> str:
    spec = find_spec("axe_core_python")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).with_name("axe.min.js").read_text(encoding="utf-8")


@contextmanager
def running(found: tuple[str, str], folder: Path) -> Iterator[Browser]:
    """Run a browser with a profile of its own in this folder."""
    os.environ["SE_OFFLINE"] = "true"  # else Selenium looks for a driver elsewhere
    options = ChromeOptions()
    options.binary_location = found[0]
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = Chrome(options=options, service=Service(found[1]))
    try:
        yield Browser(driver=driver)
    finally:
        driver.quit()
