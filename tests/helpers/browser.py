"""A real browser, without a window: Debian's chromium and its driver."""

import shutil
from contextlib import contextmanager

import pytest

PROGRAMS = [shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")]
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")

needs_browser = pytest.mark.skipif(
    not all(PROGRAMS), reason="there is no chromium with its chromedriver on this machine"
)


@contextmanager
def browser(width=1280, height=1000, dark=False):
    """A window of this size, with the console's messages kept."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = PROGRAMS[0]
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(PROGRAMS[1]))
    try:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield driver
    finally:
        driver.quit()


def complaints(driver):
    """What the console has to say."""
    return [entry["message"] for entry in driver.get_log("browser")]
