"""The console's page in a real browser (Debian's Chromium), beside a real throttler and traffic."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Locator, Page, ViewportSize, expect

from console.password import hashed
from tests.doctor_fix import listening
from tests.netns.browser import ALL_SIZES, PHONE, WIDE, check_view, new_page
from tests.netns.captures import Capture, capturing
from tests.netns.console_world import FREE, console, examined, found, login_page, token
from tests.netns.gateway_world import World, needs_tools
from tests.netns.links_world import AT_CLIENT, AT_GATEWAY, GATEWAY, connection, link
from tests.netns.test_gateway_service import served
from tests.netns.throttler_world import PATHS, throttler
from tests.netns.world import eventually, in_namespace, on, sysctl

pytestmark = pytest.mark.usefixtures("world")
SEND_BUFFERS = "4096 16384 131072"
"""net.ipv4.tcp_wmem of the server. What a subflow has of it when it is throttled, Linux sends by the other one in
pieces of 64 KiB, and takes about a second for each."""
BEHIND_THE_LIMIT = 60.0
"""Seconds. Where Linux does not, all of it leaves at 64 kbit/s before anything new is sent, which takes 16 s."""

AREAS = """canvas => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const isOf = (colour, at) => data[at + 3] === 0x66 && colour.every((value, i) => Math.abs(data[at + i] - value) < 4);
  const pixels = Array.from({ length: data.length / 4 }, (_, number) => 4 * number);
  return [[0x00, 0x72, 0xb2], [0xb9, 0x77, 0x00]].map((colour) => pixels.filter((at) => isOf(colour, at)).length);
}"""
"""How many pixels a chart fills by the first path's colour alone, and by the second's."""
COLOURS = {"wired": "rgb(0, 114, 178)", "wireless": "rgb(185, 119, 0)"}
METERED = f"""{PATHS}
[[rules]]
name = "metered"
path = "wired"
shared_by = "client"
rate = "4mbit"
quota = "300MB per month"
over_quota_rate = "500kbit"
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The page's, beside traffic."""
    with (
        sysctl(AT_GATEWAY, net__ipv4__tcp_wmem=SEND_BUFFERS),
        throttler("kernel", FREE),
        console(tmp_path / "state") as (browser, _),
        connection() as client,
    ):
        client.request(20_000_000_000)
        yield f"http://127.0.0.1:{browser.port}/"


def opened(chromium: Chromium, address: str, size: ViewportSize = WIDE, dark: bool = False) -> Page:
    """The page, after its first looks; a complaint of the browser's fails the test."""
    page = new_page(chromium, size, dark)
    page.goto(address)
    expect(page.get_by_role("heading", name=re.compile("^wired"))).to_be_visible()
    return page


def logged_in(chromium: Chromium, address: str, size: ViewportSize = WIDE, dark: bool = False, login: str = "") -> Page:
    """The page after a login by the address ``login``, or by a token."""
    fragment = login.partition("#")[2] or f"/login?token={token(GATEWAY)}"
    page = opened(chromium, f"{address}#{fragment}", size, dark)
    expect(page.get_by_text("Logged in as root")).to_be_visible()
    assert "token" not in page.url
    return page


def rate(interface: str, seconds: float = 0.5) -> float:
    """What the gateway sends there, in bits per second."""

    def sent() -> int:
        return int(link(GATEWAY, interface)["stats64"]["tx"]["bytes"])

    before = sent()
    time.sleep(seconds)
    return (sent() - before) * 8 / seconds


@pytest.mark.calm
def test_the_slider_moves_the_load_and_undo_gives_it_back(chromium: Chromium, address: str) -> None:
    page = logged_in(chromium, address, login=login_page())
    eventually(lambda: rate("wired") > 50e6)
    slider = page.get_by_role("slider", name=re.compile("wired"))
    slider.focus()
    slider.press("Home")
    start = time.monotonic()
    eventually(lambda: rate("wired", 0.2) < 1e6)
    assert time.monotonic() - start < 2.5
    eventually(lambda: rate("wireless") > 5e6, BEHIND_THE_LIMIT)
    expect(page.get_by_text("64 kbit/s").first).to_be_visible()
    expect(page.get_by_text("1 of 1 subflows limited")).to_be_visible()
    page.get_by_role("button", name=re.compile("Undo")).first.click()
    eventually(lambda: rate("wired", 0.2) > 50e6)
    page.get_by_role("link", name="Journal").click()
    expect(page.get_by_text("path wired").first).to_be_visible()


@pytest.mark.calm
def test_a_drag_by_the_mouse_moves_the_load_on_the_wire_and_is_one_line(chromium: Chromium, address: str) -> None:
    page = logged_in(chromium, address)
    page.get_by_role("button", name=re.compile("10.0.1.2")).first.click()
    subflows = page.get_by_role("region", name=re.compile("^Subflows of 10.0.1.2")).get_by_role("row")
    expect(subflows).to_have_count(1 + 2)
    slider = page.get_by_role("slider", name=re.compile("wired"))
    with capturing(AT_CLIENT, size=20) as wire:
        eventually(lambda: rate("wired") > 50e6)
        begun = time.time_ns()
        drag_to_the_left(page, slider)
        released = time.time_ns()
        expect(slider).to_have_attribute("aria-valuetext", "64 kbit/s")
        eventually(lambda: time.time_ns() > released + 2_300_000_000)
    assert not wire.lost
    assert came(wire, "wired", begun - 500_000_000, 0.5) > 50e6
    assert came(wire, "wired", released + 2_000_000_000, 0.3) < 1e6
    other = page.get_by_role("article", name="wireless").get_by_text(re.compile(r"^Carries (9\d|100) % of all"))
    expect(other).to_be_visible(timeout=BEHIND_THE_LIMIT * 1000)
    page.get_by_role("link", name="Journal").click()
    expect(page.get_by_role("row", name=re.compile("path wired"))).to_have_count(1)


def came(capture: Capture, interface: str, start_ns: int, seconds: float) -> float:
    """What came by an interface of the client's from then on, in bits per second."""
    end_ns = start_ns + seconds * 1e9
    packets = [packet for name, when, packet in capture.packets if name == interface and start_ns <= when < end_ns]
    return sum(int.from_bytes(packet[2:4]) for packet in packets) * 8 / seconds


def drag_to_the_left(page: Page, slider: Locator) -> None:
    """From its right end, in steps as a hand takes them."""
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] - 8, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 8, middle, steps=30)
    page.mouse.up()


def test_a_slider_that_is_brought_back_leaves_nothing_to_undo(chromium: Chromium, address: str) -> None:
    page = logged_in(chromium, address)
    slider, undo = page.get_by_role("slider", name=re.compile("wired")), page.get_by_role("button", name="Undo")
    slider.press("Home")
    expect(undo).to_be_visible()
    slider.press("End")
    expect(undo).to_have_count(0)


def test_a_change_in_one_tab_is_seen_and_undone_in_another(chromium: Chromium, address: str) -> None:
    page = logged_in(chromium, address)
    other = page.context.new_page()
    other.goto(address)
    sliders = [each.get_by_role("slider", name=re.compile("wired")) for each in (page, other)]
    sliders[0].press("Home")
    expect(sliders[1]).to_have_attribute("aria-valuetext", "64 kbit/s")
    other.get_by_role("link", name="Journal").click()
    other.get_by_role("button", name=re.compile("^Undo the change of path wired")).click()
    expect(other.get_by_text("The change of path wired is undone.")).to_be_visible()
    expect(sliders[0]).to_have_attribute("aria-valuetext", "no limit")
    page.get_by_role("button", name=re.compile("^Undo")).click()
    expect(page.get_by_text("accepted: a line of the journal that is not undone yet")).to_be_visible()


def test_all_paths_are_stacked_in_one_chart(chromium: Chromium, address: str) -> None:
    page = opened(chromium, address, PHONE)
    paths = page.get_by_role("article", name="All paths")
    text = re.compile(r"^Chart of all paths, stacked, last 5 minutes\. wired .*\. wireless .*")
    expect(paths.get_by_role("img", name=text)).to_be_visible()
    expect(paths.locator("dt")).to_have_text(["wired", "wireless"])
    eventually(lambda: min(paths.locator("canvas").evaluate(AREAS)) > 100)


def test_a_chart_shows_a_week_and_the_last_minutes_again(chromium: Chromium, address: str) -> None:
    page = opened(chromium, address, PHONE)
    chart = page.get_by_role("article", name="wired").get_by_role("img")
    for span in ("week", "5 minutes"):
        page.get_by_role("radio", name=span).check(force=True)
        expect(chart).to_have_attribute("aria-label", re.compile(rf"^Chart of wired, last {span}\. To clients \d"))


def test_a_session_has_a_bar_in_its_paths_colours_and_says_why_it_is_not_throttled(
    chromium: Chromium, address: str
) -> None:
    page = opened(chromium, address)
    page.emulate_media(reduced_motion="reduce")
    page.get_by_role("link", name="Sessions").click()
    row = page.get_by_role("button", name=re.compile("10.0.1.2"))
    bar = row.get_by_role("img", name=re.compile(r"^wired \d+ %; wireless \d+ %$"))
    expect(bar).to_be_visible()
    for place, name in enumerate(("wired", "wireless")):
        part = bar.locator("span").nth(place)
        expect(part).to_have_css("background-color", COLOURS[name])
        expect(part).to_have_css("transition-property", "none")
    for choice, chosen in (("Path", "wireless"), ("Rule", "free")):
        page.get_by_role("combobox", name=choice).select_option(chosen)
        expect(page.get_by_text("1 to 1 of 1 sessions that fit")).to_be_visible()
    row.click()
    page.get_by_role("button", name="Why?").click()
    expect(page.get_by_text("Rule free applies.")).to_be_visible()
    check_view(page, WIDE)


def test_without_a_login_one_may_look_and_no_more(chromium: Chromium, address: str) -> None:
    page = opened(chromium, address)
    expect(page.get_by_role("slider").first).to_be_disabled()
    expect(page.get_by_text("Log in to change this").first).to_be_visible()


@ALL_SIZES
def test_axe_has_nothing_serious_to_say(chromium: Chromium, address: str, size: ViewportSize, dark: bool) -> None:
    page = logged_in(chromium, address, size, dark)
    page.get_by_role("button", name=re.compile("10.0.1.2")).first.click()
    for view in ("", "#/sessions", "#/rules", "#/health", "#/journal", "#/login"):
        page.goto(f"{address}{view}")
        check_view(page, size)


def test_a_throttler_and_a_console_that_are_gone_are_told(chromium: Chromium, tmp_path: Path) -> None:
    with console(tmp_path / "state", f'password_hash = "{hashed("correct horse")}"\n') as (browser, child):
        with throttler("kernel", METERED) as daemon:
            page = opened(chromium, f"http://127.0.0.1:{browser.port}/")
            log_in_by_password(page, "correct horse")
            page.get_by_role("link", name="Rules").click()
            expect(page.get_by_role("row", name="metered")).to_contain_text("300MB per month; most used 0 B; 0 over it")
            page.get_by_role("link", name="Overview").click()
            daemon.kill()
            expect(page.get_by_text("throttler does not run")).to_be_visible()
            expect(page.get_by_text("No throttler and no router answer here")).to_be_visible()
            expect(page.get_by_role("slider")).to_have_count(0)
            check_view(page, WIDE)
        with throttler("kernel", FREE):
            expect(page.get_by_role("slider", name="Limit of wired")).to_be_enabled()
            expect(page.get_by_text("Live", exact=True)).to_be_visible()
            child.kill()
            expect(page.get_by_text(re.compile("[Cc]onnection lost"))).to_be_visible()


def log_in_by_password(page: Page, password: str) -> None:
    page.get_by_role("link", name="Log in", exact=True).click()
    for tried in ("wrong", password):
        page.get_by_label("Password").fill(tried)
        page.get_by_role("button", name="Log in").click()
        if tried == "wrong":
            expect(page.get_by_text("the password is wrong")).to_be_visible()
    expect(page.get_by_text("Logged in as password")).to_be_visible()


def test_a_rule_is_tried_and_nothing_changes(chromium: Chromium, address: str) -> None:
    page = logged_in(chromium, address)
    page.get_by_role("link", name="Rules").click()
    page.get_by_label("Path").select_option("wired")
    page.get_by_label("Clients (networks)").fill("10.0.0.0/8 192.0.2.0/24")
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_text("It would throttle 1 subflow of 1 session.")).to_be_visible()
    command = """sudo tributary-throttler set new-rule path=wired rate=2mbit 'clients=["10.0.0.0/8","192.0.2.0/24"]'"""
    expect(page.get_by_text(command)).to_be_visible()
    page.get_by_label("Rate").fill("fast")
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_text("accepted: a rate above zero with its unit")).to_be_visible()
    assert rate("wired") > 20e6


def test_the_page_shows_what_the_doctor_found_and_what_fixes_it(chromium: Chromium, address: str) -> None:
    with found(check="settings", message="tcp_rmem is small", fix=["sysctl --system"]):
        page = opened(chromium, address)
        page.get_by_role("link", name="The doctor found something wrong").click()
        expect(page.get_by_role("heading", name="Health")).to_be_visible()
        assert page.get_by_role("row").all_inner_texts()[1].split("\t") == [
            "wrong", "settings", "tcp_rmem is small", "sysctl --system",
        ]  # fmt: skip


def test_the_page_says_that_something_could_not_be_examined(chromium: Chromium, address: str) -> None:
    with found(check="firewall", state="unknown", message="nft is missing", fix=[]):
        page = opened(chromium, address)
        page.get_by_role("link", name="The doctor could not examine all of this machine").click()
        assert page.get_by_role("row").all_inner_texts()[1].split("\t")[:3] == ["unknown", "firewall", "nft is missing"]


def test_the_doctor_fixes_what_it_found_after_a_question(chromium: Chromium, address: str) -> None:
    with examined(subflows=0), listening(in_namespace(GATEWAY)):
        page = opened(chromium, address, PHONE)
        page.goto(f"{address}#/health")
        expect(page.get_by_text("Log in to have the doctor fix something")).to_be_visible()
        assert page.get_by_role("button", name=re.compile("^Fix")).count() == 0
        page = logged_in(chromium, address, PHONE)
        page.goto(f"{address}#/health")
        page.get_by_role("button", name="Fix: a session may have only 0 subflows").click()
        expect(page.get_by_role("region", name="What would be run")).to_contain_text("limits set subflows 8")
        check_view(page, PHONE)
        page.get_by_role("button", name="Leave it").click()
        assert "subflows 0" in on(GATEWAY, "ip mptcp limits show")
        page.get_by_role("button", name=re.compile("^Fix")).click()
        page.get_by_role("button", name="Run it now").click()
        expect(page.get_by_text("1 command run.")).to_be_visible()
        expect(page.get_by_text("a session may have 8 subflows")).to_be_visible()
        page.get_by_role("link", name="Journal").click()
        expect(page.get_by_text("state of check mptcp")).to_be_visible()


def test_without_the_doctors_socket_the_page_has_its_commands_alone(chromium: Chromium, address: str) -> None:
    with found(check="MPTCP", message="off", fix=["sysctl -w a=1"], fix_name="mptcp"):
        page = logged_in(chromium, address)
        page.goto(f"{address}#/health")
        expect(page.get_by_text("sysctl -w a=1")).to_be_visible()
        assert page.get_by_role("button", name=re.compile("^Fix")).count() == 0


@needs_tools
def test_a_router_is_enrolled_and_revoked(chromium: Chromium, gateway: World, tmp_path: Path) -> None:
    namespace = gateway.gate.namespace
    with served(gateway), console(tmp_path / "console", namespace=namespace) as (browser, _):
        page = chromium.new_context(viewport=PHONE).new_page()
        page.goto(f"http://127.0.0.1:{browser.port}/#/login?token={token(namespace)}")
        page.get_by_role("link", name="Routers").click()
        page.get_by_label("Name of a new router").fill("berlin")
        page.get_by_role("button", name="Enrol").click()
        expect(page.get_by_role("img", name="QR code of the settings of berlin")).to_be_visible()
        assert page.get_by_role("img", name="QR code").evaluate("image => image.naturalWidth") > 100
        assert "secret = " in page.locator("pre").inner_text()
        page.get_by_role("button", name="Done").click()
        check_that_sessions_are_found_by_router(page, "berlin")
        page.get_by_role("link", name="Routers").click()
        page.get_by_role("button", name="Revoke berlin").click()
        page.get_by_role("button", name="Keep it").click()
        assert list(gateway.list()) == ["berlin"]
        page.get_by_role("button", name="Revoke berlin").click()
        page.get_by_role("button", name="Revoke berlin now").click()
        expect(page.get_by_text("No router is enrolled yet.")).to_be_visible()
        assert gateway.list() == {}
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        check_that_a_logout_ends_what_was_shown(page, namespace)


def check_that_sessions_are_found_by_router(page: Page, name: str) -> None:
    page.get_by_role("link", name="Sessions").click()
    with page.expect_response(lambda response: f"router={name}" in response.url) as found:
        page.get_by_role("combobox", name="Router").select_option(name)
    assert found.value.ok
    expect(page.get_by_text("None of 0 sessions that fit")).to_be_visible()


def check_that_a_logout_ends_what_was_shown(page: Page, namespace: str) -> None:
    page.get_by_label("Name of a new router").fill("bonn")
    page.get_by_role("button", name="Enrol").click()
    expect(page.get_by_text("secret = ")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_text("Log in to see, enrol or revoke routers")).to_be_visible()
    assert page.get_by_role("row").count() == 0
    page.get_by_role("link", name="Sessions").click()
    expect(page.get_by_label("Sort by")).to_be_visible()
    assert page.get_by_role("combobox", name="Router").count() == 0
    page.evaluate("address => { location.hash = address }", f"#/login?token={token(namespace)}")
    page.get_by_role("link", name="Routers").click()
    expect(page.get_by_role("button", name="Revoke bonn")).to_be_visible()
    assert page.get_by_text("secret = ").count() == 0
