"""What a home router finds out about its links, against real middleboxes, with the real kernel.

Some links have a modem between, which translates addresses as modems do:

    router lte 10.2.0.2 ---- 10.2.0.1 modem 10.3.0.2 ---- 10.3.0.1 provider
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from experiments.testbed.network import standing_nodes
from router.probes import mtu
from router.probes.mtu_probe import MtuProbe, PingResult
from tests.netns.router_world import BOTH, LTE, PROBED, World, world
from tests.netns.test_router_tunnels import BY_DSL, BY_LTE, GATEWAY, PREFIX, House, gateway
from tests.netns.world import eventually, listener_at, needs, serving

pytestmark = pytest.mark.slow
needs_wireguard = needs("wg", "wireguard-go")


_MODEM = """
modem:wan 10.3.0.2/24 -- provider:isp-lte 10.3.0.1/24
modem: ip link set wan mtu {mtu}
provider: ip link set isp-lte mtu {mtu}
modem: sysctl -qw net.ipv4.ip_forward=1
modem: ip route add default via 10.3.0.1
modem: nft add table ip modem
modem: nft add chain ip modem leave {{ type nat hook postrouting priority 100; }}
modem: nft add rule ip modem leave oifname wan masquerade
modem: nft add chain ip modem out {{ type filter hook output priority 0; }}
router:lte -- modem:lan 10.2.0.1/24
"""


@contextmanager
def modem(house: World, mtu: int, *, says_so: bool) -> Iterator[None]:
    """The link lte by a modem whose other side passes packets of up to ``mtu`` bytes, and says so or not."""
    with standing_nodes("router-", _MODEM.format(mtu=mtu), house.directory, house.nodes) as made:
        if not says_so:
            made["modem"].run("nft", "add rule ip modem out icmp type destination-unreachable drop")
        house.lease("lte", LTE)
        yield


def causes(link: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in link["diagnosis"]]


def test_the_largest_packet_is_measured_behind_a_router_that_does_not_say_it(tmp_path: Path) -> None:
    with world(tmp_path, ["dsl"]) as house, modem(house, 1492, says_so=False), house.daemon(PROBED):
        eventually(lambda: house.status()["lte"]["mtu"] == 1492, 30.0)
        found = house.status()
        assert causes(found["lte"]) == ["works", "small-packets"]
        assert (found["dsl"]["mtu"], causes(found["dsl"])) == (1500, ["works"])


def test_links_that_strip_mptcp_or_drop_it_are_found_out_and_linux_gives_mptcp_up_for_neither(house: World) -> None:
    for command in (
        "add table ip middlebox",
        "add chain ip middlebox in { type filter hook prerouting priority -150; }",
        "add rule ip middlebox in iifname isp-dsl tcp flags syn reset tcp option mptcp",
        "add rule ip middlebox in iifname isp-lte tcp flags syn tcp option mptcp exists drop",
    ):
        house.on_provider(f"nft {command}")
    with house.daemon(PROBED):
        eventually(lambda: [each["mptcp_outside"] for each in house.status().values()] == ["plain", "dropped"])
        found = house.status()
        assert causes(found["dsl"]) == ["works", "mptcp-at-no-link"]
        assert causes(found["lte"]) == ["works", "mptcp-dropped"]
        house.on_provider("nft flush chain ip middlebox in")
        with house.transfer():
            house.has_subflows(*BOTH)


LOGIN = "http://10.2.0.1:8080/login"


def answer_with_login_page(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(f"HTTP/1.1 302 Found\r\nLocation: {LOGIN}\r\nContent-Length: 0\r\n\r\n".encode())


def test_a_login_page_in_the_way_is_found_and_told_until_somebody_has_logged_in(house: World) -> None:
    house.filter("in iifname isp-lte tcp dport != 8080 drop", "in iifname isp-lte icmp type echo-request drop")
    house.on_provider("nft add chain inet filter web { type nat hook prerouting priority -100; }")
    house.on_provider("nft add rule inet filter web iifname isp-lte tcp dport 80 redirect to :8080")
    with serving(listener_at(house.nodes["provider"], 8080), answer_with_login_page), house.daemon(PROBED):
        eventually(lambda: house.status()["lte"]["login_page"] == LOGIN)
        lte = house.status()["lte"]
        assert (lte["state"], lte["reason"], causes(lte)) == ("down", "a login page is in the way", ["login-page"])
        assert LTE not in house.endpoints()
        house.on_provider("nft flush chain inet filter in")
        eventually(lambda: house.status()["lte"]["state"] == "up")
        assert house.status()["lte"]["login_page"] is None


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_ping_has_the_size_that_is_asked_for_and_one_that_is_too_large_is_told(tmp_path: Path, address: str) -> None:
    with world(tmp_path, []) as house, MtuProbe() as pinger:
        house.on_provider("ip link set lo mtu 1400")
        here = ip_address(address)

        def sent(size: int) -> PingResult:
            with house.nodes["provider"].entered():
                pinger.start("a link", mtu.Path("lo", here, here, 1500), size, 1.0, 100.0)
            return eventually(lambda: next(iter(pinger.outcomes(100.5)), None))  # type: ignore[no-any-return]

        assert sent(1400) == PingResult("a link", rtt=0.5)
        assert sent(1401) == PingResult("a link", mtu=1400)
        with house.nodes["provider"].entered():
            pinger.start("a link", mtu.Path("no-such-link", here, here, 1500), 1400, 1.0, 100.0)
        assert list(pinger.outcomes(100.9)) == []
        assert list(pinger.outcomes(101.0)) == [PingResult("a link")]


@needs_wireguard
def test_a_tunnels_packets_fit_the_narrowest_place_on_its_way(tmp_path: Path) -> None:
    with (
        world(tmp_path, ["dsl"]) as built,
        modem(built, 1400, says_so=True),
        gateway(built, GATEWAY, 51840) as enrolment,
        House(built.nodes, built.directory, enrolment).at_work(),
    ):
        tunnel = f"{PREFIX}2"
        eventually(lambda: f"mtu {1400 - 60} " in built.on_router(f"ip link show dev {tunnel}"))
        with built.transfer(str(enrolment.inside)):
            built.has_subflows(BY_DSL, BY_LTE)
        lte = built.status()["lte"]
        assert (lte["mtu"], lte["tunnel_mtu"], lte["mptcp_inside"]) == (1400, 1340, "multipath")
        assert causes(lte) == ["works", "small-packets"]
