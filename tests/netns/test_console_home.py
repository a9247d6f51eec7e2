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
    home.download(3_000_000)
    # It may be seen before, when it looks for routers.
    (device,) = eventually(lambda: [each for each in browser.get("look")["devices"] if each["addresses"]])
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


def test_a_by_pass_is_added_and_removed_by_who_has_logged_in(chromium: Chromium, home: Home, browser: Browser) -> None:
    browser.post("bypass", 401, match="8.8.8.0/24", to="lte")
    page = new_page(chromium, PHONE)
    page.goto(f"http://127.0.0.1:{browser.port}/#/login?token={token(home.router)}")
    page.get_by_label("Network, or").fill("8.8.8.8")
    page.get_by_label("Leaves by").select_option("lte")
    page.get_by_role("button", name="Add").click()
    page.get_by_role("button", name="Remove the by-pass of 8.8.8.8/32").wait_for()
    assert "8.8.8.8" in home.on_router("nft list table inet tributary-bypass")
    check_view(page, PHONE)
    page.get_by_role("button", name="Remove the by-pass").click()
    expect(page.get_by_text("Nothing is led past the tunnels.")).to_be_visible()
    browser.login()
    added, removed = browser.get("journal")["entries"][::-1]
    assert (added["subject"], added["after"], removed["after"]) == ("bypass 8.8.8.8/32", "lte", None)
    browser.post("undo", entry=removed["id"])
    assert [
        each["to"] for each in browser.get("look")["bypasses"] or eventually(lambda: browser.get("look")["bypasses"])
    ]
    assert "accepted" in browser.post("bypass", 400, match="10.0.0.0/8", to="lte")["error"]
    assert "accepted: best, dsl, lte" in browser.post("bypass", 400, match="8.8.4.0/24", to="nowhere")["error"]
