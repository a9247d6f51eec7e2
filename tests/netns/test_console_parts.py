"""What only some gateways have, as ``tributary`` and the console's page show it: an overlay, a hand-off's front, a
fleet.
"""

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import dist
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, ViewportSize, expect

from experiments.testbed.node import Node
from tests.netns.browser import ALL_SIZES, PHONE, WIDE, check_view, new_page
from tests.netns.console_world import Browser, console
from tests.netns.handoff_world import HandOff
from tests.netns.handoff_world import needs_tools as needs_handoff
from tests.netns.overlay_world import Overlay, until
from tests.netns.world import eventually, needs
from tributary.api.console import Look
from tributary.api.fleet_file import FILE as FLEET_FILE
from tributary.daemons.state_file import write_atomic
from tributary.paths import ROOT

needs_overlay = needs("etcd", "curl", "cargo")

PLACES = {
    "London": (0, 0),
    "Paris": (9, 4),
    "Milan": (21, 12),
    "Berlin": (24, -6),
    "Oslo": (13, -22),
    "Madrid": (12, 26),
}
"""Nodes, and where they are, in milliseconds."""
DETOUR = ("Madrid", "Oslo"), 90
"""The link between these is longer than it has to be."""


def distance(a: str, b: str) -> float:
    """The round-trip time between two nodes, in milliseconds."""
    ends, longer = DETOUR
    if {a, b} == set(ends):
        return longer
    return dist(PLACES[a], PLACES[b]) + 1


@pytest.fixture
def overlay(empty: Overlay) -> Overlay:
    """A controller, nodes as agents at these places would publish them, and who reads it for this machine."""
    empty.etcd()
    for number, name in enumerate(PLACES, start=1):
        node = {"address": f"192.0.2.{number}:5460", "converter": f"192.0.2.{number}:5124"}
        empty.put(f"nodes/{name}", node)
        peers = {peer: round(1000 * distance(name, peer)) for peer in PLACES if peer != name}
        empty.put(f"delays/{name}", {"round_trip_us": peers})
    empty.controller("c1")
    until(lambda: len(empty.tables()) == len(PLACES))
    serve(empty)
    return empty


def serve(overlay: Overlay) -> None:
    command = [sys.executable, "-m", "overlay", "serve", "--metrics", "127.0.0.1:9467"]
    overlay.start("serve", command).wait_until_ready()


def metrics(overlay: Overlay) -> str:
    """What Prometheus gets of the overlay there."""
    return overlay.node.run("curl", "-sf", "http://127.0.0.1:9467/metrics")


def told(node: Node, part: str) -> dict[str, Any]:
    """What ``tributary status`` prints about a part there."""
    answer: dict[str, Any] = json.loads(node.run(str(ROOT / "scripts/tributary"), "status", part))
    return answer


def services(node: Node) -> dict[str, str]:
    """What runs there, and what it does."""
    listed = json.loads(node.run(str(ROOT / "scripts/tributary"), "status", "--json"))["services"]
    return {each["name"]: each["summary"] for each in listed if each["running"]}


def look(browser: Browser) -> Look:
    return Look.model_validate(browser.get("look"))


@contextmanager
def view(
    chromium: Chromium, browser: Browser, name: str, size: ViewportSize = WIDE, dark: bool = False
) -> Iterator[Page]:
    """A view of the page, chosen in its menu."""
    page = new_page(chromium, size, dark)
    page.goto(f"http://127.0.0.1:{browser.port}/")
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    yield page


@needs_overlay
def test_the_overlay_is_told_as_its_control_plane_has_it(overlay: Overlay, tmp_path: Path) -> None:
    eventually(lambda: told(overlay.node, "overlay")["hops"])
    assert services(overlay.node) == {"overlay": "6 of 6 nodes up, controller c1"}
    with console(tmp_path / "state", namespace=overlay.node.namespace) as (browser, _):
        seen = look(browser).overlay
        assert seen is not None and seen.problem is None and seen.controller == "c1"
        assert {node.name: node.state for node in seen.nodes} == dict.fromkeys(PLACES, "up")
        hops = {(hop.a, hop.b): hop for hop in seen.hops}
        assert ("Madrid", "Oslo") not in hops
        # The chains from Madrid to the others, and back.
        assert hops["Madrid", "Milan"].chains >= 2
        assert hops["London", "Paris"].rtt == pytest.approx(distance("London", "Paris") / 1000, abs=1e-5)
        overlay.delete("nodes/Oslo")
        eventually(lambda: "Oslo" in {node.name for node in away(browser)})
        assert services(overlay.node)["overlay"].startswith("5 of 6 nodes up")
        assert 'tributary_overlay_node_up{node="Oslo"} 0.0' in metrics(overlay)
        assert "tributary_overlay_controllers 1.0" in metrics(overlay)
        overlay.kill("etcd")
        eventually(lambda: problem(browser), 30)
        assert "not read for" in services(overlay.node)["overlay"]
        assert "tributary_overlay_read 0.0" in metrics(overlay)
        overlay.etcd()
        eventually(lambda: not problem(browser), 30)


def away(browser: Browser) -> list[Any]:
    seen = look(browser).overlay
    return [] if seen is None else [node for node in seen.nodes if node.state == "away"]


def problem(browser: Browser) -> str | None:
    seen = look(browser).overlay
    return "" if seen is None else seen.problem


@needs_overlay
def test_a_second_reader_is_refused_and_a_stopped_one_leaves_nothing(overlay: Overlay) -> None:
    second = overlay.start("second", [sys.executable, "-m", "overlay", "serve"])
    assert second.popen.wait(20) == 75
    overlay.processes["serve"].stop()
    assert services(overlay.node) == {}


@needs_overlay
def test_the_map_is_a_picture_and_a_table(chromium: Chromium, overlay: Overlay, tmp_path: Path) -> None:
    eventually(lambda: told(overlay.node, "overlay")["hops"])
    overlay.delete("nodes/Oslo")
    with console(tmp_path / "state", namespace=overlay.node.namespace) as (browser, _):
        eventually(lambda: away(browser))
        for size, dark in ((WIDE, False), (WIDE, True), (PHONE, False), (PHONE, True)):
            with view(chromium, browser, "Overlay", size, dark) as page:
                text = re.compile("Map of 6 nodes and [0-9]+ hops of chains. Oslo: away.")
                expect(page.get_by_role("img", name=text)).to_be_visible()
                expect(page.get_by_role("row", name="Oslo")).to_contain_text("away")
                assert page.get_by_role("link", name="Hand-off").count() == 0
                check_view(page, size)
        overlay.processes["serve"].stop()
        expect(page.get_by_text("No overlay answers here now.")).to_be_visible()


@needs_handoff
def test_the_front_tells_of_its_back_ends(handoff: HandOff, tmp_path: Path) -> None:
    node = handoff.nodes["front"]
    handoff.fetch(["a/1000", "b/1000"], tmp_path)
    with console(tmp_path / "state", namespace=node.namespace) as (browser, _):
        front = look(browser).handoff
        assert front is not None and front.switch_up
        assert [(each.name, each.up) for each in front.back_ends] == [("a", True), ("b", True)]
        assert front.requests["handed-over"] >= 2
        assert services(node)["handoff"].startswith("switch up, 2 of 2 back ends up, ")
        with handoff.begun("a/400000000"):
            eventually(lambda: back_ends(browser, "connections") == {"a": 1, "b": 0})
        handoff.kill("a")
        eventually(lambda: back_ends(browser, "up") == {"a": False, "b": True})
        handoff.kill("switch")
        eventually(lambda: services(node)["handoff"].startswith("switch away, "))


def back_ends(browser: Browser, key: str) -> dict[str, int]:
    """What the front says of each by this key."""
    front = look(browser).handoff
    return {each.name: getattr(each, key) for each in front.back_ends} if front else {}


@needs_handoff
@ALL_SIZES
def test_the_page_shows_the_front(
    chromium: Chromium, handoff: HandOff, tmp_path: Path, size: ViewportSize, dark: bool
) -> None:
    handoff.fetch(["a/1000", "b/1000"], tmp_path)
    with (
        console(tmp_path / "state", namespace=handoff.nodes["front"].namespace) as (browser, _),
        view(chromium, browser, "Hand-off", size, dark) as page,
    ):
        expect(page.get_by_text("The switch is up.")).to_be_visible()
        expect(page.get_by_role("row", name="a up 0")).to_be_visible()
        expect(page.get_by_role("row", name=re.compile("handed-over [2-9]"))).to_be_visible()
        check_view(page, size)


def announce(**changes: object) -> None:
    """Write what ``tributary-anycast`` would."""
    status = {"time": time.time(), "announced": True, "drained": None, "answers": True, **changes}
    write_atomic(FLEET_FILE, json.dumps(status).encode(), 0o644)


@pytest.mark.usefixtures("world")
def test_the_page_shows_whether_the_gateway_is_announced(chromium: Chromium, tmp_path: Path) -> None:
    FLEET_FILE.parent.mkdir(exist_ok=True)
    try:
        announce()
        with (
            console(tmp_path / "state") as (browser, _),
            view(chromium, browser, "Fleet", PHONE) as page,
        ):
            expect(page.get_by_text("This gateway is announced")).to_be_visible()
            check_view(page, PHONE)
            announce(announced=False, drained="upgrade")
            expect(page.get_by_text("This gateway is drained (upgrade), and withdrawn.")).to_be_visible()
            check_view(page, PHONE)
            announce(announced=False, heard=False)
            expect(page.get_by_text("No router hears this gateway: it is not announced.")).to_be_visible()
            announce(announced=None)
            expect(page.get_by_text("BIRD does not answer")).to_be_visible()
            announce(time=time.time() - 3600)
            expect(page.get_by_text("No fleet answers here now.")).to_be_visible()
    finally:
        FLEET_FILE.unlink(missing_ok=True)
