"""The console of a home router beside its real daemon: what the people at home see and change."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, ViewportSize, expect

from tests.netns.browser import PHONE, WIDE, check_view, new_page
from tests.netns.console_world import Browser, console, token
from tests.netns.lan_world import DEVICE, MAC, NAME, Home, home_at
from tests.netns.router_world import DSL, LTE
from tests.netns.world import eventually

IN = "tributary-in2"
"""The device by which what comes by lte is shaped."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """One for all of these tests: a daemon leaves nothing there."""
    with home_at(tmp_path_factory.mktemp("home")) as built:
        yield built


@pytest.fixture
def browser(home: Home, tmp_path: Path) -> Iterator[Browser]:
    with home.daemon(home.text), console(tmp_path / "console", namespace=home.router) as (made, _):
        yield made


def logged_in(chromium: Chromium, browser: Browser, size: ViewportSize, dark: bool = False) -> Page:
    """The page of who has logged in there."""
    page = new_page(chromium, size, dark)
    page.goto(f"http://127.0.0.1:{browser.port}/#/login?token={token(browser.namespace)}")
    expect(page.get_by_role("heading", name="Links")).to_be_visible()
    return page


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
        page = logged_in(chromium, browser, size, dark)
        expect(page.get_by_role("heading", name="Devices")).to_be_visible()
        row = page.get_by_role("region", name="Devices of the LAN").get_by_role("row").nth(1)
        expect(row).to_contain_text(NAME)
        expect(row).to_contain_text(DEVICE)
        check_view(page, size)


def test_a_by_pass_is_added_and_removed_by_who_has_logged_in(chromium: Chromium, home: Home, browser: Browser) -> None:
    browser.post("bypass", 401, match="8.8.8.0/24", to="lte")
    page = logged_in(chromium, browser, PHONE)
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


def test_a_role_is_switched_by_keyboard_and_undone_and_another_tab_sees_it(
    chromium: Chromium, home: Home, browser: Browser
) -> None:
    page = logged_in(chromium, browser, PHONE)
    other = page.context.new_page()
    other.goto(f"http://127.0.0.1:{browser.port}/")
    role, seen = (each.get_by_role("combobox", name="Role of dsl") for each in (page, other))
    expect(seen).to_have_value("primary")
    role.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    eventually(lambda: "backup" in home.endpoints()[DSL])
    expect(seen).to_have_value("backup")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("The change is undone.")).to_be_visible()
    expect(role).to_be_focused()
    eventually(lambda: "backup" not in home.endpoints()[DSL])
    assert home.status()["dsl"]["set"] == {}
    expect(seen).to_have_value("primary")


def test_a_rate_is_set_by_keyboard_and_undone(chromium: Chromium, home: Home, browser: Browser) -> None:
    page = logged_in(chromium, browser, PHONE)
    card = page.get_by_role("article", name="lte")
    card.get_by_role("combobox").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    slider = card.get_by_role("slider", name="Download of lte")
    expect(slider).to_be_focused()
    expect(slider).to_have_attribute("aria-valuetext", "as in the settings")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", "100 kbit/s")
    eventually(lambda: "100Kbit" in home.on_router(f"tc qdisc show dev {IN} root", check=False))
    expect(card.get_by_text("Known to carry 100 kbit/s down", exact=True)).to_be_visible()
    check_view(page, PHONE)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(slider).to_be_focused()
    expect(slider).to_have_attribute("aria-valuetext", "as in the settings")
    eventually(lambda: IN not in home.on_router("ip -brief link"))


def test_a_killed_router_is_missed_and_its_links_come_back_as_in_its_settings(
    chromium: Chromium, home: Home, tmp_path: Path
) -> None:
    with console(tmp_path / "console", namespace=home.router) as (browser, _):
        with home.daemon(home.text) as daemon:
            page = logged_in(chromium, browser, WIDE)
            role = page.get_by_role("combobox", name="Role of lte")
            role.select_option("backup")
            eventually(lambda: "backup" in home.endpoints()[LTE])
            daemon.kill()
            expect(page.get_by_text("router does not run")).to_be_visible()
            expect(page.get_by_text("No throttler and no router answer here")).to_be_visible()
            expect(role).to_have_count(0)
            check_view(page, WIDE)
        with home.daemon(home.text):
            expect(role).to_have_value("primary")
            page.get_by_role("link", name="Journal").click()
            page.get_by_role("button", name="Undo the change of link lte").click()
            expect(page.get_by_text("link lte has changed since")).to_be_visible()
