"""What one home can use up of a gateway, and what it reaches that is nobody's to reach."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from scapy.layers.dns import DNS, DNSQR

from experiments.testbed.network import lay
from experiments.testbed.node import Node
from tests.netns.connections import TCP
from tests.netns.converter_names import looked_up
from tests.netns.gateway_world import CONVERTER, INSIDE, SERVER, House, World, names, needs_tools, streams, world
from tests.netns.world import datagrams_at, eventually, heard_and_answered, listener_at, needs
from tributary.wireguard.addresses import default_tunnel_address

pytestmark = needs_tools

FEW, GAME = 64, 27015
SERVER6 = "2001:db8:f::2"
SILENT = "net/netfilter/nf_conntrack_tcp_timeout_established"
_IPV6 = f"""
gate: ip address add 2001:db8:f::1/64 dev core nodad
server: ip address add {SERVER6}/64 dev core nodad
server: ip route add default via 2001:db8:f::1
"""


@pytest.fixture
def bounded(tmp_path: Path) -> Iterator[World]:
    """A gateway of small bounds, whose LANs have IPv6."""
    with world(tmp_path, connections=FEW, lan_prefix="2001:db8:1::/48") as built:
        lay(_IPV6, {"gate": built.gate, "server": built.server})
        yield built


def enter(gateway: World) -> tuple[str, str]:
    """Enrol a router, and wait until its default tunnel is up; the addresses that its house has by that."""
    enrolment = gateway.enrol("berlin")
    address = gateway.house.tunnel(enrolment, 0)
    eventually(lambda: gateway.house.pings(address, INSIDE))
    assert enrolment.prefix
    return address, str(default_tunnel_address(enrolment.prefix))


def answered(node: Node, source: str, service: socket.socket, target: str, times: int = FEW + 16) -> int:
    """How many of several askers, each at a port of its own, are answered by the service."""
    service.settimeout(0.2)
    with ExitStack() as asking:
        found = 0
        for _ in range(times):
            at, to = (source, 0), (target, GAME)
            asker = asking.enter_context(datagrams_at(node, 6 if ":" in target else 4, 0.2, at=at, to=to))
            found += heard_and_answered(asker, service) is not None
        return found


@needs("conntrack")
def test_a_home_that_has_all_the_connections_it_may_have_leaves_room_for_everybody_else(bounded: World) -> None:
    berlin, paris = bounded.enter("berlin"), bounded.enter("paris", house=bounded.flat)
    with (
        streams(bounded, bounded.gate, INSIDE, CONVERTER),
        streams(bounded, bounded.server, SERVER, 80),
        datagrams_at(bounded.server, at=(SERVER, GAME)) as service,
    ):
        with bounded.house.connect(berlin, SERVER, 80) as before:
            # A ping and this connection count as well.
            assert FEW - 5 < answered(bounded.house.node, berlin, service, SERVER) < FEW
            assert not bounded.house.reaches(berlin, INSIDE, CONVERTER, 0.5)
            bounded.gateway("sync")
            assert not bounded.house.reaches(berlin, SERVER, 80, 0.5), "what was counted stays counted"
            bounded.gateway("forward", "paris", f"udp/{GAME}")
            assert not bounded.house.reaches(berlin, SERVER, 80, 0.5), "also when the rules change"
            assert before.recv(1000), "what there is goes on"
        assert answered(bounded.flat.node, paris, service, SERVER, 20) == 20
        assert bounded.flat.reaches(paris, INSIDE, CONVERTER)
        assert bounded.flat.reaches(paris, SERVER, 80)
        House(bounded.gate).connect("203.0.113.1", SERVER, 80).close()
        bounded.gate.run("conntrack", "-D", "--proto", "udp", "--orig-src", berlin)
        eventually(lambda: bounded.house.reaches(berlin, SERVER, 80))


def test_a_lan_has_as_many_connections_by_ipv6(bounded: World) -> None:
    berlin, device = enter(bounded)
    with (
        datagrams_at(bounded.server, 6, at=(SERVER6, GAME)) as service,
        datagrams_at(bounded.server, at=(SERVER, GAME)) as other,
    ):
        assert FEW - 5 < answered(bounded.house.node, device, service, SERVER6) <= FEW
        assert answered(bounded.house.node, berlin, other, SERVER, 20) == 20


def test_strangers_at_a_homes_port_leave_room_for_its_own_connections_and_for_other_homes(bounded: World) -> None:
    berlin, paris = bounded.enter("berlin", 0), bounded.enter("paris", 0, bounded.flat)
    bounded.gateway("forward", "berlin", f"udp/{GAME}")
    bounded.gateway("forward", "paris", f"udp/{GAME + 1}")
    with (
        datagrams_at(bounded.house.node, at=(berlin, GAME)) as game,
        datagrams_at(bounded.flat.node, at=(paris, GAME + 1)) as other,
    ):
        assert FEW - 5 < answered(bounded.server, SERVER, game, "203.0.113.1") <= FEW
        with datagrams_at(bounded.server, to=("203.0.113.1", GAME + 1)) as stranger:
            assert eventually(lambda: heard_and_answered(stranger, other))
        assert bounded.house.pings(berlin, SERVER)


def test_silent_connections_are_forgotten_after_two_hours_while_the_gateway_is_up(gateway: World) -> None:
    def seconds() -> int:
        return int(gateway.gate.run("cat", f"/proc/sys/{SILENT}"))

    assert seconds() == 7440
    # As after an upgrade from a version that did not know of it: the tunnels stay up, and a timer synchronizes them.
    gateway.gate.sysctl(net__netfilter__nf_conntrack_tcp_timeout_established=432_000)
    gateway.gateway("sync")
    assert seconds() == 7440
    gateway.gateway("up")
    gateway.gateway("down")
    assert seconds() == 432_000
    gateway.gate.sysctl(net__netfilter__nf_conntrack_tcp_timeout_established=86_400)
    gateway.gateway("up")
    assert seconds() == 86_400, "somebody has chosen that"
    gateway.gateway("down")
    assert seconds() == 86_400


@needs("conntrack")
def test_connections_that_have_ended_do_not_fill_what_the_kernel_tracks(bounded: World) -> None:
    """No limit counts them, and the kernel would keep each for two minutes."""
    berlin = bounded.enter("berlin")
    with listener_at(bounded.server, 80, SERVER, TCP) as service:
        for _ in range(2 * FEW):
            with bounded.house.connect(berlin, SERVER, 80) as client:
                service.accept()[0].close()
                assert client.recv(1) == b""
        lines = bounded.gate.run("conntrack", "-L", "--proto", "tcp", "--orig-src", berlin).splitlines()
    seconds = [int(line.split()[2]) for line in lines if "TIME_WAIT" in line]
    assert len(seconds) > FEW and max(seconds) <= 10


def test_what_the_kernel_refuses_to_track_is_said_once(gateway: World) -> None:
    """The most of all belongs to the whole machine."""
    gateway.write(connections=65536)
    gateway.gateway("down")
    assert "net.netfilter.nf_conntrack_max cannot be set" in gateway.notes("up")
    assert "nf_conntrack_max" not in gateway.notes("sync")


@pytest.mark.parametrize("version", [4, 6])
def test_mail_between_servers_does_not_leave_from_homes_unless_the_settings_open_it(
    bounded: World, version: int
) -> None:
    berlin, device = enter(bounded)
    source, target = (berlin, SERVER) if version == 4 else (device, SERVER6)
    with listener_at(bounded.server, 25, target, TCP), listener_at(bounded.server, 587, target, TCP):
        bounded.house.connect(source, target, 587).close()
        with pytest.raises(ConnectionRefusedError):
            bounded.house.connect(source, target, 25)
        bounded.write(lan_prefix="2001:db8:1::/48", refused_ports=[])
        bounded.gateway("sync")
        bounded.house.connect(source, target, 25).close()


def test_the_gateways_own_programs_do_not_reach_into_homes_either(bounded: World) -> None:
    """The converter would connect as anybody who asks it, such as a device of another home."""
    _, device = enter(bounded)
    gate, own = House(bounded.gate), "2001:db8:f::1"
    eventually(lambda: gate.pings(own, device))
    with listener_at(bounded.house.node, 445, device, TCP), listener_at(bounded.server, 80, SERVER6, TCP):
        with pytest.raises(ConnectionRefusedError):
            gate.connect(own, device, 445)
        bounded.house.connect(device, SERVER6, 80).close()
        # It is the rules that refuse it.
        bounded.gate.run("nft", "delete", "table", "inet", "tributary-gateway")
        gate.connect(own, device, 445).close()


@needs("dnsmasq")
def test_a_home_that_asks_for_names_without_end_leaves_room_for_others_names(gateway: World) -> None:
    """Each of names whose server is silent, so that dnsmasq has those wait which the rules let come."""
    berlin, paris = gateway.enter("berlin"), gateway.enter("paris", house=gateway.flat)
    with names(gateway) as known, datagrams_at(gateway.house.node, at=(berlin, 0), to=(INSIDE, 53)) as asker:
        known.records["server.example.net"] = [SERVER]
        eventually(lambda: looked_up(gateway.flat.node, "server.example.net", INSIDE, paris) == [SERVER])
        asked = [f"n{number:04}.example.org" for number in range(7000)]
        known.silent.update(asked)
        question = bytes(DNS(id=77, rd=1, qd=DNSQR(qname=asked[0])))
        for number, name in enumerate(asked):
            asker.send(question.replace(asked[0][:5].encode(), name[:5].encode()))
            if number % 50 == 0:
                time.sleep(0.005)
        begun = time.monotonic()
        assert looked_up(gateway.flat.node, "server.example.net", INSIDE, paris) == [SERVER]
        assert time.monotonic() - begun < 1
        assert len({name for name, _ in known.asked} & known.silent) <= 1500
        eventually(lambda: looked_up(gateway.house.node, "server.example.net", INSIDE, berlin) == [SERVER])


@needs("dnsmasq")
def test_idle_connections_of_a_home_leave_room_for_others_names(gateway: World) -> None:
    """dnsmasq serves 20 connections at once."""
    berlin, paris = gateway.enter("berlin"), gateway.enter("paris", house=gateway.flat)
    with names(gateway), ExitStack() as idle:
        eventually(lambda: gateway.flat.reaches(paris, INSIDE, 53))
        for _ in range(5):
            idle.enter_context(gateway.house.connect(berlin, INSIDE, 53))
        assert not gateway.house.reaches(berlin, INSIDE, 53, 0.5)
        assert gateway.house.pings(berlin, INSIDE)
        assert gateway.flat.reaches(paris, INSIDE, 53)
        idle.close()
        eventually(lambda: gateway.house.reaches(berlin, INSIDE, 53))
