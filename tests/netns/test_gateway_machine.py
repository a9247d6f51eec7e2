import socket
import subprocess
import sys
from contextlib import suppress
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from experiments.testbed.network import lay
from experiments.testbed.node import Node
from tests.netns.gateway_world import CONVERTER, INSIDE, OUTSIDE, SERVER, House, World, needs_tools, streams, world
from tests.netns.world import datagrams_at, eventually
from tributary.kernel import wireguard
from tributary.paths import ROOT

pytestmark = needs_tools

SOCKETS = Path("/var/run/wireguard")
_IPV6 = """
gate: ip address add {net}::1/64 dev {link}
other: ip address add {net}::2/64 dev {link}
other: ip route add default via {net}::1
"""


def _add_ipv6(gateway: World, other: Node, link: str, net: str) -> None:
    lay(_IPV6.format(net=net, link=link), {"gate": gateway.gate, "other": other})


def test_who_has_no_tunnel_gets_nothing_through_a_machine_that_was_no_router(gateway: World) -> None:
    assert gateway.house.pings(gateway.enter("berlin"), SERVER)
    assert not _passes_through(gateway)
    gateway.gateway("sync")
    assert not _passes_through(gateway)
    # It is the rules that refuse it.
    gateway.gate.run("nft", "delete", "table", "inet", "tributary-gateway")
    assert _passes_through(gateway)


def _passes_through(gateway: World) -> bool:
    """Whether the server and the house reach each other by the gateway's outer interfaces."""
    gateway.server.ip("route", "replace", "192.0.2.0/24", "via", "203.0.113.1")
    gateway.house.node.ip("route", "replace", "203.0.113.0/24", "via", OUTSIDE)
    return gateway.house.pings("192.0.2.2", SERVER) or House(gateway.server).pings(SERVER, "192.0.2.2")


def test_what_stands_stays_when_it_is_put_up_once_more(gateway: World) -> None:
    address = gateway.house.tunnel(gateway.enrol("berlin"))
    with (
        streams(gateway, gateway.gate, INSIDE, CONVERTER),
        gateway.house.connect(address, INSIDE, CONVERTER, 5) as client,
    ):
        gateway.gateway("up")
        gateway.gateway("enrol", "paris")
        for _ in range(100):
            assert client.recv(65536)


def test_what_the_settings_say_of_the_interface_counts_from_the_next_sync_on(gateway: World) -> None:
    gateway.enrol("berlin")
    gateway.write(network="10.85.0.0/16", mtu=1300, port=51999)
    assert "10.85.0.1/16, mtu 1300 or port 51999" in gateway.notes("sync")
    shown = gateway.gate.ip("address", "show", "dev", gateway.interface)
    assert "mtu 1300" in shown and "10.85.0.1/16" in shown and "10.84" not in shown
    assert gateway.gate.run("wg", "show", gateway.interface, "listen-port") == "51999\n"
    assert gateway.notes("sync") == ""


def test_rules_of_others_that_drop_what_tunnels_bring_are_found_by_the_doctor(gateway: World) -> None:
    """As Docker's and ufw's do."""
    address, gate = gateway.enter("berlin"), gateway.gate
    gate.run("nft", "table ip filter { chain FORWARD { type filter hook forward priority filter; policy drop; }; }")
    doctor = gate.command([sys.executable, "-m", "doctor", "--role", "gateway", "--only", "firewall"])
    for passes in (False, True):
        assert gateway.house.pings(address, SERVER) == passes
        assert ("ip filter: its chain FORWARD drops" in _printed(doctor)) != passes
        for direction in ("iifname", "oifname"):
            gate.run("nft", "add", "rule", "ip", "filter", "FORWARD", direction, gateway.interface, "accept")


def _printed(command: list[str]) -> str:
    """What it prints, whatever its exit code."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT).stdout


def _is_gone(gateway: World) -> bool:
    """Whether neither rules nor the interface are there, and no packets are passed on."""
    return not (gateway.tables() or gateway.interface in gateway.gate.ip("link") or gateway.forwards())


def test_nothing_is_left_behind_nor_where_a_port_is_taken(gateway: World) -> None:
    gateway.enrol("berlin")
    assert gateway.forwards()
    for _ in range(2):
        gateway.gateway("down")
        assert _is_gone(gateway)
        assert not (SOCKETS / f"{gateway.interface}.sock").exists()
        eventually(lambda: gateway.gate.pids() == [])
    with datagrams_at(gateway.gate, 6, at=("::", 51840)), pytest.raises(AssertionError, match="Address already in use"):
        gateway.gateway("up")
    assert _is_gone(gateway)


@pytest.mark.slow
def test_what_was_noted_holds_when_the_interface_has_gone_by_itself_and_forwarding_that_was_on_before_stays_on(
    gateway: World,
) -> None:
    with gateway.gate.entered():
        wireguard.remove(gateway.interface)
    gateway.gateway("up")
    assert not _passes_through(gateway)
    gateway.gateway("down")
    assert not gateway.forwards()
    gateway.gate.sysctl(net__ipv4__ip_forward=1)
    gateway.gateway("up")
    assert _passes_through(gateway)
    gateway.gateway("down")
    assert gateway.forwards()


def test_bridges_go_on_where_their_frames_come_to_these_rules(gateway: World) -> None:
    """As with Docker, or a firewall of virtual machines."""
    gate, ends = gateway.gate, (gateway.house.node, gateway.flat.node)
    gate.ip("link", "add", "br0", "type", "bridge")
    if not Path("/proc/sys/net/bridge").exists():
        pytest.skip("this kernel has no br_netfilter")
    gate.run("sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=1")
    gate.ip("link", "set", "br0", "up")
    for number, node in enumerate(ends, 1):
        lay(f"end:port 10.99.0.{number}/24 -- gate:port{number}", {"end": node, "gate": gate})
        gate.ip("link", "set", f"port{number}", "master", "br0")
    eventually(lambda: gateway.house.pings("10.99.0.1", "10.99.0.2"))


def test_an_interface_of_somebody_elses_is_not_taken(gateway: World) -> None:
    gateway.gateway("down")
    gateway.gate.ip("link", "add", gateway.interface, "type", "veth", "peer", "name", "other")
    for command in ("up", "down"):
        with pytest.raises(AssertionError, match="no WireGuard interface"):
            gateway.gateway(command)
    assert gateway.interface in gateway.gate.ip("link")
    gateway.gate.ip("link", "delete", gateway.interface)


def _of_ipv6(gateway: World) -> dict[str, str]:
    """What `up` changes for IPv6: forwarding, and whether interfaces hear routers all the same (ip-sysctl.rst)."""
    names = ("all.forwarding", "default.accept_ra", "core.accept_ra", "wan.accept_ra")
    return {name: gateway.gate.run("sysctl", "-n", f"net.ipv6.conf.{name}").strip() for name in names}


@pytest.mark.slow
def test_a_private_prefix_is_translated_and_what_was_changed_is_put_back(tmp_path: Path) -> None:
    with world(tmp_path, lan_prefix="fd12:3456:789a::/48") as gateway:
        gateway.gateway("down")
        before = _of_ipv6(gateway)
        gateway.gateway("up")
        during = _of_ipv6(gateway)
        assert (before["all.forwarding"], during["all.forwarding"]) == ("0", "1")
        assert {during[name] for name in before if before[name] == "1"} == {"2"}
        _add_ipv6(gateway, gateway.server, "core", "2001:db8:5")
        enrolment = gateway.enrol("berlin")
        gateway.house.tunnel(enrolment, 0)
        with (
            datagrams_at(gateway.server, 6, at=("2001:db8:5::2", 4500)) as server,
            datagrams_at(gateway.house.node, 6, at=("fd12:3456:789a:1::2", 0)) as client,
        ):
            eventually(lambda: _heard(client, server) == "2001:db8:5::1")
            # Of another prefix it may not send, and once it is shut out of none.
            tunnel = list(gateway.house.made)[-1]
            gateway.house.node.ip("address", "add", "fd12:3456:789a:2::2/128", "dev", tunnel)
            assert not gateway.house.pings("fd12:3456:789a:2::2", "2001:db8:5::2")
            assert gateway.house.pings("fd12:3456:789a:1::2", "2001:db8:5::2")
            # New keys, the same prefix: it leads to the old ones until the new ones are used.
            renewed = gateway.enrol("berlin", "rotate")
            assert (renewed.prefix, renewed.addresses) == (enrolment.prefix, IPv4Network("10.84.0.32/28"))
            assert _heard(client, server) == "2001:db8:5::1"
            gateway.house.remove_tunnels()
            gateway.house.tunnel(renewed, 0)
            eventually(lambda: _is_rotated(gateway))
            eventually(lambda: _heard(client, server) == "2001:db8:5::1")
            gateway.gateway("revoke", "berlin")
            assert _heard(client, server) is None
        gateway.gateway("down")
        assert _of_ipv6(gateway) == before


def test_who_has_no_tunnel_gets_no_ipv6_through_either(tmp_path: Path) -> None:
    with world(tmp_path, lan_prefix="fd12:3456:789a::/48") as gateway:
        _add_ipv6(gateway, gateway.server, "core", "2001:db8:5")
        _add_ipv6(gateway, gateway.house.node, "wan", "2001:db8:6")
        eventually(lambda: gateway.house.pings("2001:db8:6::2", "2001:db8:5::1"))
        assert not gateway.house.pings("2001:db8:6::2", "2001:db8:5::2")
        gateway.gate.run("nft", "delete", "table", "inet", "tributary-gateway")
        assert gateway.house.pings("2001:db8:6::2", "2001:db8:5::2")


def _is_rotated(gateway: World) -> bool:
    gateway.gateway("sync")
    return not gateway.list()["berlin"]["rotating"]


def _heard(client: socket.socket, server: socket.socket) -> str | None:
    """Whom the server hears when the client sends; None if nobody comes."""
    client.sendto(b"hello", ("2001:db8:5::2", 4500))
    with suppress(TimeoutError):
        return str(server.recvfrom(10)[1][0])
    return None


@pytest.mark.slow
def test_a_dry_run_changes_nothing(gateway: World) -> None:
    gateway.enrol("berlin")
    before = [gateway.gate.run("nft", "list", "ruleset"), gateway.list()]
    files = sorted(path.read_bytes() for path in gateway.state.rglob("*") if path.is_file())
    gateway.gateway("plan")
    for words in (("enrol", "paris"), ("rotate", "berlin"), ("revoke", "berlin"), ("up",), ("sync",), ("down",)):
        assert gateway.gateway(*words, "--dry-run").startswith("#")
    assert [gateway.gate.run("nft", "list", "ruleset"), gateway.list()] == before
    assert sorted(path.read_bytes() for path in gateway.state.rglob("*") if path.is_file()) == files
