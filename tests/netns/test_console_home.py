"""The console of a home router beside its real daemon: what the people at home see and change."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import expect

from tests.netns.browser import PHONE, WIDE, check_view, new_page
from tests.netns.console_world import Browser, console, token
from tests.netns.lan_world import DEVICE, MAC, NAME, Home
from tests.netns.world import eventually


@pytest.fixture
def browser(home: Home, tmp_path: Path) -> Iterator[Browser]:
    with home.daemon(home.text), console(tmp_path / "console", namespace=home.router) as (made, _):
        yield made


def test_the_page_gets_devices_with_what_they_use_now(home: Home, browser: Browser) -> None:
    assert browser.get("look")["devices"] == []
    home.download(3_000_000)
    (device,) = eventually(lambda: browser.get("look")["devices"])
    assert (device["mac"], device["name"], device["addresses"]) == (MAC, NAME, [DEVICE])
    home.download(5_000_000)
    assert eventually(lambda: (browser.get("look")["devices"][0]["sent_rate"] or 0) > 1e6)


def test_a_device_with_a_name_of_markup_is_text(chromium: Chromium, home: Home, browser: Browser) -> None:
    home.download(2_000_000)
    for size, dark in ((WIDE, False), (PHONE, True)):
        page = new_page(chromium, size, dark)
        page.goto(f"http://127.0.0.1:{browser.port}/#/login?token={token(home.router)}")
        expect(page.get_by_role("heading", name="Devices")).to_be_visible()
        row = page.get_by_role("region", name="Devices of the LAN").get_by_role("row").nth(1)
        expect(row).to_contain_text(NAME)
        expect(row).to_contain_text(DEVICE)
        check_view(page, size)
