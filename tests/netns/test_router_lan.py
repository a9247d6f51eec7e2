"""What a home router does for its LAN's devices: leads them past the tunnels, and counts what they use."""

import json
import signal
from typing import Any

import pytest

from tests.netns.lan_world import DEVICE, MAC, NAME, Home
from tests.netns.router_world import PROBED, SERVER_4
from tests.netns.world import eventually, on
from tributary.api.places import ROUTER
from tributary.settings.errors import CommandError

SHOWN = """[[bypassed]]
match = ["domains: example.com"]
to = "lte"
"""


def bypass(home: Home, match: str, to: str | None) -> None:
    with home.nodes["router"].entered():
        ROUTER.ask("set-bypass", match=match, to=to)


def listed(home: Home) -> list[dict[str, object]]:
    with home.nodes["router"].entered():
        found: list[dict[str, object]] = ROUTER.ask("lan")["bypass"]
    return found


def uses(home: Home, link: str) -> bool:
    """Whether a new connection of the device comes by this link."""
    before = home.received(link)
    home.download(300_000)
    return home.received(link) - before > 300_000


@pytest.mark.parametrize("match", [f"{SERVER_4}/32", MAC])
def test_new_connections_leave_by_the_link_that_was_said(home: Home, match: str) -> None:
    with home.daemon(home.text + SHOWN) as daemon:
        assert uses(home, "dsl")
        bypass(home, match, "lte")
        assert uses(home, "lte")
        shown = {"match": ["domains: example.com"], "to": "lte", "added": False}
        assert listed(home) == [{"match": [match], "to": "lte", "added": True}, shown]
        bypass(home, match, "best")
        assert uses(home, "dsl")
        bypass(home, match, "lte")
        daemon.send_signal(signal.SIGHUP)
        assert eventually(lambda: listed(home) == [shown])
        assert uses(home, "dsl")
        bypass(home, match, "lte")
    assert "tributary-bypass" not in home.on_router("nft list tables")


def test_what_is_none_is_refused(home: Home) -> None:
    with home.daemon(home.text):
        for match, to, part in (
            (DEVICE, "lte", "a network of the Internet"),
            ("0.0.0.0/0", "lte", "a network of the Internet"),
            ("198.51.100.1/24", "lte", "without host bits"),
            ("8.8.8.0/24; flush ruleset", "lte", "accepted"),
            ("2a00:1450::1%x; flush ruleset", "lte", "accepted"),
            ("8.8.8.0/24", "adsl", "accepted: best, dsl, lte"),
        ):
            with pytest.raises(CommandError, match=part):
                bypass(home, match, to)
        for number in range(64):
            bypass(home, f"8.8.{number}.0/24", "lte")
        with pytest.raises(CommandError, match="there are 64"):
            bypass(home, "8.9.0.0/24", "lte")
    with home.daemon(PROBED), pytest.raises(CommandError, match="bypass = true"):
        bypass(home, "8.8.8.0/24", "lte")


def devices(home: Home) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(home.tributary("devices", "--json"))["devices"]
    return found


def test_what_a_device_uses_is_counted_both_ways(home: Home) -> None:
    with home.daemon(home.text):
        home.download(1_000_000)
        home.device.run("ping", "-c1", "fd00:9::1")
        (device,) = devices(home)
        assert (device["mac"], device["name"]) == (MAC, NAME)
        assert device["addresses"] == [DEVICE, "fd00:9::9"]
        assert 1_000_000 < device["sent"] < 1_200_000
        assert 0 < device["received"] < 100_000
        assert NAME in home.tributary("devices")


def test_counting_goes_on_after_another_program_removed_the_table(home: Home) -> None:
    with home.daemon(home.text) as daemon:
        home.on_router("nft delete table inet tributary-devices")
        daemon.send_signal(signal.SIGHUP)
        eventually(lambda: "tributary-devices" in home.on_router("nft list tables"))
        home.download(1000)
        assert [each["mac"] for each in devices(home)] == [MAC]


def test_the_table_goes_with_the_daemon_or_its_setting(home: Home) -> None:
    with home.daemon(home.text) as daemon:
        home.download(1000)
        daemon.kill()
    assert "tributary-devices" in home.on_router("nft list tables")
    with home.daemon(home.text):
        assert "tributary-devices" in home.on_router("nft list tables")
    assert "tributary-devices" not in home.on_router("nft list tables")
    with home.daemon("devices = false\n" + home.text):
        home.download(1000)
        assert devices(home) == []
        assert "tributary-devices" not in home.on_router("nft list tables")
    with home.daemon(PROBED):
        assert devices(home) == []


def test_a_stranger_outside_fills_no_set(home: Home) -> None:
    """Addresses that no device has, of which the provider knows, are not counted."""
    with home.daemon(home.text):
        home.on_provider("ip route add 192.168.77.0/24 via 10.1.0.2")
        on(home.provider, "ping -c1 -W1 192.168.77.50", check=False)
        home.download(1000)
        assert "192.168.77.50" not in home.on_router("nft list set inet tributary-devices received4")
