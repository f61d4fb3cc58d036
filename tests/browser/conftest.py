"""Fixtures of a browser for each module of tests, and of pages.

The browser's driver keeps an event loop running, beside which no second driver could start.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.pages import PAGES

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def _missing(what: str) -> None:
    """Skips a test with a reason, or fails it in continuous integration, where all is installed."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what}, which continuous integration needs")
    pytest.skip(what)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Yields a headless Chromium for the tests of a module."""
    program = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if program is None:
        _missing(f"no browser: none of {', '.join(_NAMES)} is installed")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        _missing("no driver of a browser: playwright is not installed")
    arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as driver:
        window = driver.chromium.launch(executable_path=program, args=arguments)
        yield window
        window.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns a function from the name of a page in `PAGES` to its path; the first call for a name writes that page."""
    folder = tmp_path_factory.mktemp("pages")

    def write(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(PAGES[name](), encoding="utf-8")
        return path

    return write
