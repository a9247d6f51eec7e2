import re
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from experiments.home.gateway import FIREWALL
from experiments.testbed.node import Node, python
from tests.netns.connections import TCP
from tests.netns.converter_names import looked_up
from tests.netns.gateway_world import (
    CONVERTER,
    INSIDE,
    OUTSIDE,
    PRIVATE,
    SERVER,
    House,
    World,
    names,
    needs_tools,
    streams,
)
from tests.netns.world import datagrams_at, eventually, heard_and_answered, listener_at, needs
from tributary.kernel import connections
from tributary.paths import ROOT
from tributary.wireguard import keys

pytestmark = needs_tools

ROUTERS = ROOT / "tests/ansible/golden/routers/tributary-site.nft"
SITE = """\
add element inet tributary-firewall client_networks4 { 10.84.0.0/16 }
add element inet tributary-firewall client_ports { 5124 }
add element inet tributary-firewall admin_networks4 { 0.0.0.0/0 }
add element inet tributary-firewall admin_ports { 22 }
add element inet tributary-firewall tunnel_ports { 51840 }
"""


def test_a_router_that_is_enrolled_reaches_the_gateway_and_servers_behind_it(gateway: World) -> None:
    address = gateway.enter("berlin")
    assert address == "10.84.0.18"
    with streams(gateway, gateway.server, SERVER, 80):
        # Segments fit into the tunnel also where an end believes in longer ones: 1420 - 40 - 12 bytes of timestamps.
        (tunnel,) = gateway.house.made
        gateway.house.node.ip("link", "set", tunnel, "mtu", "1500")
        with gateway.house.connect(address, SERVER, 80, 5) as client:
            assert client.recv(1000)
            assert " mss:1368 " in gateway.server.run("ss", "-tin")
            assert " mss:1368 " in gateway.house.node.run("ss", "-tin")
        assert [peer[0] for peer in gateway.peers] == ["203.0.113.1"], "addresses inside the tunnels stay there"


def test_a_stranger_gets_nothing_and_a_tunnel_has_one_address_and_no_other(gateway: World) -> None:
    enrolment = gateway.enrol("berlin")
    known = gateway.house.tunnel(enrolment, 2)
    (tunnel,) = gateway.house.made
    stranger = gateway.house.tunnel(enrolment, 1, secret=keys.new_secret())
    eventually(lambda: gateway.house.pings(known, INSIDE))
    assert not gateway.house.pings(stranger, INSIDE, 2)
    (router,) = gateway.list().values()
    assert [each["link"] for each in router["up"]] == [2]
    other = "10.84.0.20"
    gateway.house.node.ip("address", "add", f"{other}/32", "dev", tunnel)
    gateway.house.node.ip("rule", "add", "from", other, "table", "101")
    assert not gateway.house.pings(other, INSIDE)


def test_a_router_reaches_the_converter_and_nothing_else_of_the_gateway(gateway: World) -> None:
    address = gateway.enter("berlin")
    with streams(gateway, gateway.gate, INSIDE, CONVERTER), streams(gateway, gateway.gate, "0.0.0.0", 22):
        assert gateway.house.reaches(address, INSIDE, CONVERTER)
        for target in (INSIDE, OUTSIDE, "203.0.113.1"):
            assert not gateway.house.reaches(address, target, 22, 0.5)
        # The inside is for tunnels alone, whoever is next to the gateway.
        gateway.house.node.ip("route", "add", f"{INSIDE}/32", "via", OUTSIDE)
        assert gateway.house.reaches("192.0.2.2", OUTSIDE, 22)
        assert not gateway.house.reaches("192.0.2.2", INSIDE, CONVERTER, 0.5)


def test_a_router_reaches_no_other_router_and_no_private_network(gateway: World) -> None:
    berlin, paris = gateway.enter("berlin"), gateway.enter("paris", house=gateway.flat)
    assert gateway.house.pings(berlin, SERVER) and gateway.flat.pings(paris, SERVER)
    gateway.server.ip("route", "add", "10.84.0.0/16", "via", "203.0.113.1")
    refused = ((gateway.house, berlin, PRIVATE), (gateway.house, berlin, paris), (House(gateway.server), SERVER, paris))
    for house, source, target in refused:
        assert not house.pings(source, target)
    # It is the rules that refuse it.
    gateway.gate.run("nft", "delete", "table", "inet", "tributary-gateway")
    for house, source, target in refused:
        assert house.pings(source, target)


@pytest.mark.parametrize(
    ("target", "protocol"),
    [(INSIDE, socket.IPPROTO_TCP), (INSIDE, socket.IPPROTO_MPTCP), (SERVER, socket.IPPROTO_TCP)],
    ids=["to the gateway, TCP", "to the gateway, MPTCP", "through it"],
)
def test_who_is_revoked_gets_no_byte_more_after_five_seconds(gateway: World, target: str, protocol: int) -> None:
    address, neighbour = gateway.enter("berlin"), gateway.enter("paris")
    node, port = (gateway.gate, CONVERTER) if target == INSIDE else (gateway.server, 80)
    with (
        streams(gateway, node, target, port, protocol),
        gateway.house.connect(address, target, port, 2, protocol) as cut,
        gateway.house.connect(neighbour, target, port, 2, protocol) as kept,
    ):
        assert cut.recv(1000) and kept.recv(1000)
        gateway.gateway("revoke", "berlin")
        begun = time.monotonic()
        # What had come before is read out; then there is an end, or silence for two seconds.
        with pytest.raises((TimeoutError, ConnectionError)):
            while cut.recv(2**20):
                assert time.monotonic() < begun + 5
        assert kept.recv(1000), "the others go on"
        if target == INSIDE:
            assert gateway.gate.run("ss", "-Htn", "state", "connected", "dst", "10.84.0.16/28") == ""
        if shutil.which("conntrack"):
            assert gateway.gate.run("conntrack", "-L", "--orig-src", "10.84.0.16/28") == ""
            assert gateway.gate.run("conntrack", "-L", "--orig-src", "10.84.0.32/28") != ""
    assert not gateway.house.pings(address, INSIDE)
    assert list(gateway.list()) == ["paris"]


def test_a_typo_in_one_routers_file_keeps_that_one_out_and_nobody_else(gateway: World) -> None:
    """One of three files is damaged: the others keep their tunnels, also when these are made anew, and any can go."""
    enrolments = {name: gateway.enrol(name) for name in ("berlin", "paris", "rome")}
    address = gateway.house.tunnel(enrolments["berlin"], 1)
    eventually(lambda: gateway.house.pings(address, INSIDE), 30)
    file = gateway.state / "routers/paris.toml"
    file.write_text(file.read_text().replace("number", "nummer"))
    said = gateway.notes("sync")
    assert "paris.toml" in said and "10.84.0.32/28: removed" in said
    gateway.gateway("down")
    assert "paris.toml" in gateway.notes("up")
    # A peer that hears nothing begins a new session after 15 s (WireGuard, section 6.5: Keepalive- and Rekey-Timeout).
    eventually(lambda: gateway.house.pings(address, INSIDE))
    assert gateway.list().keys() == {"berlin", "rome"}
    assert str(gateway.enrol("vienna").addresses) == "10.84.0.64/28", "the number of paris stays its own"
    gateway.gateway("revoke", "rome")
    gateway.gateway("revoke", "paris")
    assert not file.exists()
    assert "paris" not in gateway.notes("sync")
    assert gateway.house.pings(address, INSIDE)


def parts(listing: str) -> list[str]:
    """Sets, maps, chains and counters of a listing, in one order: those that are kept stand before those made anew."""
    return sorted(re.findall(r"^\t\w+ \S+ \{\n.*?^\t\}$", listing, re.MULTILINE | re.DOTALL))


def test_counters_of_the_rules_go_on_and_rules_that_were_changed_or_flushed_come_back(gateway: World) -> None:
    table = ("inet", "tributary-gateway")
    rules = ("--stateless", "list", "ruleset")
    before = parts(gateway.gate.run("nft", *rules))
    assert len(before) > 10

    def refused() -> int:
        said = gateway.gate.run("nft", "list", "counter", *table, "refused_inside")
        return int(said.partition("bytes ")[0].split()[-1])

    address = gateway.enter("berlin", 1)
    assert not gateway.house.reaches(address, INSIDE, 22, 0.5)
    eventually(refused)
    gateway.gateway("sync")
    assert refused()
    for harm in (["flush", "ruleset"], ["flush", "chain", *table, "inside"], ["delete", "table", *table]):
        gateway.gate.run("nft", *harm)
        gateway.gateway("sync")
        assert parts(gateway.gate.run("nft", *rules)) == before
        assert not gateway.house.reaches(address, INSIDE, 22, 0.5)
        eventually(refused)


def test_who_is_revoked_is_out_also_where_nothing_can_be_counted_or_written(gateway: World) -> None:
    """One has a port, so that the rules change as well; the keys of another router are to be replaced."""
    rome, vienna, berlin, paris = (gateway.enter(name) for name in ("rome", "vienna", "berlin", "paris"))
    (gateway.state / "traffic.json").write_text("")
    gateway.gateway("revoke", "rome")
    assert not gateway.house.pings(rome, INSIDE) and gateway.house.pings(paris, INSIDE)
    (gateway.state / "traffic.json").unlink()
    (gateway.state / "traffic.new").mkdir()  # as a disk that is full, it takes no new totals
    gateway.gateway("revoke", "vienna")
    assert not gateway.house.pings(vienna, INSIDE)
    (gateway.state / "traffic.new").rmdir()
    gateway.gateway("forward", "berlin", f"udp/{GAME}")
    new = gateway.house.tunnel(gateway.enrol("paris", "rotate"))
    eventually(lambda: gateway.house.pings(new, INSIDE))
    (gateway.state / "changes.new").mkdir()
    (gateway.state / "routers/paris.new").mkdir()
    assert "changes.json: cannot be written" in gateway.notes("revoke", "berlin")
    assert not gateway.house.pings(berlin, INSIDE)
    said = gateway.notes("sync")
    assert "changes.json: cannot be written" in said and "paris.toml: cannot be written" in said
    assert gateway.house.pings(paris, INSIDE) and gateway.house.pings(new, INSIDE)
    (gateway.state / "routers/paris.new").rmdir()
    gateway.gateway("sync")
    assert not gateway.house.pings(paris, INSIDE) and gateway.house.pings(new, INSIDE)


def test_what_has_ended_by_itself_is_no_connection_that_the_kernel_does_not_end(gateway: World) -> None:
    address = gateway.enter("berlin")
    with listener_at(gateway.gate, CONVERTER, INSIDE, TCP) as listener:
        with gateway.house.connect(address, INSIDE, CONVERTER, 2) as client:
            listener.accept()[0].close()
            assert client.recv(1) == b""
        eventually(lambda: "TIME-WAIT" in gateway.gate.run("ss", "-Htna"))
        assert connections.end_connections([IPv4Network("10.84.0.16/28")]) is None


def test_a_rotation_keeps_the_old_keys_until_the_new_ones_are_used_or_takes_them_at_once(gateway: World) -> None:
    old = gateway.enter("berlin")
    renewed = gateway.enrol("berlin", "rotate")
    gateway.gateway("sync")
    assert gateway.house.pings(old, INSIDE)
    assert gateway.list()["berlin"]["rotating"]
    new = gateway.house.tunnel(renewed)
    assert new != old
    eventually(lambda: gateway.house.pings(new, INSIDE))
    assert gateway.house.pings(old, INSIDE)
    gateway.gateway("sync")
    assert gateway.house.pings(new, INSIDE)
    assert not gateway.house.pings(old, INSIDE)
    berlin = gateway.list()["berlin"]
    assert (berlin["rotating"], berlin["number"], len(berlin["addresses"])) == (False, 2, 9)
    newest = gateway.house.tunnel(gateway.enrol("berlin", "rotate", "--now"))
    eventually(lambda: gateway.house.pings(newest, INSIDE))
    assert not gateway.house.pings(new, INSIDE)


def test_files_that_come_and_go_let_in_and_shut_out(gateway: World) -> None:
    address = gateway.enter("berlin")
    file = gateway.state / "routers/berlin.toml"
    kept = file.read_text()
    file.unlink()
    gateway.gateway("sync")
    assert not gateway.house.pings(address, INSIDE)
    file.write_text(kept)
    gateway.gateway("sync")
    gateway.house.forget()
    eventually(lambda: gateway.house.pings(address, INSIDE))


def test_a_scan_from_outside_finds_ssh_alone(gateway: World, tmp_path: Path) -> None:
    (tmp_path / "tributary-site.nft").write_text(SITE)
    gateway.gate.run("nft", "--includepath", str(tmp_path), "--file", str(FIREWALL))
    address = gateway.house.tunnel(gateway.enrol("berlin"))
    with (
        streams(gateway, gateway.gate, INSIDE, CONVERTER),
        streams(gateway, gateway.gate, "0.0.0.0", 22),
        streams(gateway, gateway.gate, "0.0.0.0", 3128),
    ):
        eventually(lambda: gateway.house.reaches(address, INSIDE, CONVERTER))
        assert answering_ports(gateway) == ["tcp/22"]


def answering_ports(gateway: World) -> list[str]:
    """The TCP ports of the gateway's outside address that answer a SYN."""
    found = []
    for first in range(1, 65536, 8192):
        ports = (f"tcp/{port}" for port in range(first, min(first + 8192, 65536)))
        knock = python("experiments.probes.knock", OUTSIDE, "0.5", *ports)
        found += gateway.house.node.told("prlimit", "--nofile=10000:10000", *knock)
    return found


forgets = needs("conntrack")
GAME = 27015


@forgets
def test_who_goes_on_asking_reaches_the_router_by_its_new_keys(gateway: World) -> None:
    old = gateway.house.tunnel(gateway.enrol("berlin"), 0)
    gateway.gateway("forward", "berlin", f"udp/{GAME}")
    with _datagrams(gateway.server) as stranger:
        with _datagrams(gateway.house.node, old) as service:
            eventually(lambda: heard_and_answered(stranger, service))
        new = gateway.house.tunnel(gateway.enrol("berlin", "rotate"), 0)
        eventually(lambda: gateway.house.pings(new, INSIDE))
        gateway.gateway("sync")
        with _datagrams(gateway.house.node, new) as service:
            assert heard_and_answered(stranger, service)


@contextmanager
def _two_routers(gateway: World) -> Iterator[tuple[str, socket.socket, socket.socket, socket.socket]]:
    """Berlin's address, a stranger, whom the gateway leads to a service at berlin, that, and one at paris."""
    berlin, paris = gateway.house.tunnel(gateway.enrol("berlin"), 0), gateway.flat.tunnel(gateway.enrol("paris"), 0)
    gateway.gateway("forward", "berlin", f"udp/{GAME}", "udp/27020")
    with (
        _datagrams(gateway.server) as stranger,
        _datagrams(gateway.house.node, berlin) as first,
        _datagrams(gateway.flat.node, paris) as second,
    ):
        eventually(lambda: heard_and_answered(stranger, first))
        yield berlin, stranger, first, second


@forgets
def test_who_goes_on_asking_reaches_the_router_whose_file_has_the_port_now(gateway: World) -> None:
    # conntrack(8) then tells of packets and bytes between the ports of a connection and the addresses of its answers.
    gateway.gate.sysctl(net__netfilter__nf_conntrack_acct=1)
    with _two_routers(gateway) as (_, stranger, _, second):
        files = gateway.state / "routers"
        file, other = files / "berlin.toml", files / "paris.toml"
        before, key, ports = file.read_text().partition("forward = ")
        file.write_text(before)
        other.write_text(other.read_text() + key + ports)
        gateway.gateway("sync")
        assert heard_and_answered(stranger, second)


@forgets
def test_who_goes_on_asking_reaches_the_router_that_the_port_was_given_to(gateway: World) -> None:
    with (
        _two_routers(gateway) as (berlin, stranger, first, second),
        _datagrams(gateway.server, port=27020) as other,
        _datagrams(gateway.house.node, berlin, 27020) as kept,
    ):
        eventually(lambda: heard_and_answered(other, kept))
        gateway.gateway("forward", "berlin", "--remove", f"udp/{GAME}")
        # What was open ends, whichever end goes on.
        first.sendto(b"more", stranger.getsockname())
        with pytest.raises(TimeoutError):
            stranger.recv(10)
        assert not heard_and_answered(stranger, first)
        gateway.gateway("forward", "paris", f"udp/{GAME - 5}-{GAME}")
        assert heard_and_answered(stranger, second)
        assert heard_and_answered(other, kept)


def _datagrams(node: Node, address: str = "", port: int = GAME) -> socket.socket:
    """A service at ``address`` inside of a router's tunnel; without, a stranger who asks at the gateway."""
    own = (address, port) if address else None
    return datagrams_at(node, seconds=0.5, at=own, to=None if address else ("203.0.113.1", port))


def test_names_are_looked_up_for_routers_and_for_nobody_else(gateway: World) -> None:
    address = gateway.enter("berlin")
    with names(gateway) as known:
        known.records["server.example.net"] = [SERVER]
        eventually(lambda: looked_up(gateway.house.node, "server.example.net", INSIDE, address) == [SERVER])
        assert looked_up(gateway.house.node, "server.example.net", OUTSIDE, "192.0.2.2") is None
        # Behind the playbook's firewall, too, as it is written for a gateway that says nothing of names.
        site = ROUTERS.read_text().replace('"tributary"', f'"{gateway.interface}"')
        (gateway.folder / "tributary-site.nft").write_text(site)
        gateway.gate.run("nft", "--includepath", str(gateway.folder), "--file", str(FIREWALL))
        assert looked_up(gateway.house.node, "server.example.net", INSIDE, address) == [SERVER]
