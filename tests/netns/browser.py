"""Debian's Chromium, and what it says of pages."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from tests.netns.world import PATIENCE

PHONE, WIDE = ViewportSize(width=390, height=844), ViewportSize(width=1280, height=900)
expect.set_options(timeout=PATIENCE * 1000)
ALL_SIZES = pytest.mark.parametrize(("size", "dark"), [(WIDE, False), (WIDE, True), (PHONE, False), (PHONE, True)])


@contextmanager
def launched() -> Iterator[Chromium]:
    with sync_playwright() as playwright:
        # Root has no sandbox; the pages are our own.
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield browser
        browser.close()


def new_page(chromium: Chromium, size: ViewportSize = WIDE, dark: bool = False) -> Page:
    """An empty page; a complaint of the browser's fails the test."""
    page = chromium.new_context(viewport=size, color_scheme="dark" if dark else "light").new_page()
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    return page


def check_view(page: Page, size: ViewportSize) -> None:
    """Nothing in it is wider than the screen, and axe has nothing serious to say."""
    expect(page.get_by_role("heading").first).to_be_visible()
    found = Axe().run(page).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert not serious, [(each["id"], [node["html"] for node in each["nodes"]]) for each in serious]
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= size["width"], f"{page.url} is wider than the screen"
