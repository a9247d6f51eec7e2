import json
import signal
from typing import Any

from tests.netns.lan_world import DEVICE, MAC, NAME, Home
from tests.netns.router_world import PROBED
from tests.netns.world import eventually, on


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
