import signal
import socket
import struct
from dataclasses import dataclass

import pytest
from scapy.layers.dns import DNS, DNSQR, DNSRROPT, EDNS0ClientSubnet

from tests.netns.overlay_world import ETCD, Overlay, outcome, until
from tests.netns.world import needs, socket_at
from tributary import cargo
from tributary.settings.errors import Exit

pytestmark = needs("etcd", "curl")

SETTINGS = """\
zone = "fast.example"
server = "ns1.example"
names = ["www", "@", "a.b"]

[[ingress]]
node = "n1"
addresses = ["192.0.2.1", "2001:db8::1"]

[[ingress]]
node = "n2"
addresses = ["192.0.2.2"]
clients = ["127.0.0.0/8", "198.51.100.0/24"]
"""
PORT = 5353
REFUSED, NO_SUCH_NAME, SOA = 5, 3, 6


@dataclass
class NameServer:
    """One that runs beside an overlay."""

    overlay: Overlay

    def ask(self, name: str, kind: str = "A", way: str = "udp", network: str = "") -> DNS:
        """What it answers by udp or tcp, for a client of a network if one is named."""
        asked = DNS(id=77, rd=0, qd=DNSQR(qname=name, qtype=kind))
        if network:
            address, _, length = network.partition("/")
            subnet = EDNS0ClientSubnet(family=1, source_plen=int(length), scope_plen=0, address=address)
            asked.ar = DNSRROPT(rclass=1232, rdata=[subnet])
        kind_of_socket = socket.SOCK_DGRAM if way == "udp" else socket.SOCK_STREAM
        with socket_at(self.overlay.node, kind=kind_of_socket) as client:
            client.settimeout(5)
            client.connect(("127.0.0.1", PORT))
            if way == "udp":
                client.send(bytes(asked))
                answer = DNS(client.recv(65535))
            else:
                client.sendall(struct.pack("!H", len(bytes(asked))) + bytes(asked))
                with client.makefile("rb") as stream:
                    answer = DNS(stream.read(*struct.unpack("!H", stream.read(2))))
        assert answer.id == 77
        return answer

    def led(self) -> list[str]:
        return answers(self.ask("www.fast.example"))

    def leads_to(self, address: str) -> float:
        """Wait until it does; returns the seconds that it took."""
        return until(lambda: self.led() == [address])


def answers(answer: DNS) -> list[str]:
    return sorted(str(each.rdata) for each in answer.an or [] if each.type in (1, 28))


def scopes(answer: DNS) -> list[int]:
    """For clients of how long prefixes it holds (RFC 7871)."""
    return [each.scope_plen for record in answer.ar or [] if record.type == 41 for each in record.rdata]


def command(overlay: Overlay, *options: str) -> list[str]:
    file = overlay.node.write("dns.toml", SETTINGS)
    return [str(cargo.build("overlay-dns")[0]), str(file), "--listen", f"127.0.0.1:{PORT}", *options]


def start(overlay: Overlay, *options: str) -> NameServer:
    overlay.start("dns", command(overlay, *options)).wait_for_output()
    return NameServer(overlay)


@pytest.fixture
def led(empty: Overlay) -> NameServer:
    """Beside etcd, and the agents of both ingresses."""
    empty.etcd()
    empty.agent("n1", 11)
    empty.agent("n2", 12)
    until(lambda: set(empty.found("nodes/")) == {"n1", "n2"})
    server = start(empty, "--endpoints", ETCD)
    server.leads_to("192.0.2.2")
    return server


def test_names_of_the_zone_lead_to_the_clients_ingress(empty: Overlay) -> None:
    server = start(empty)
    assert server.led() == ["192.0.2.2"]
    for way in ("udp", "tcp"):
        answer = server.ask("WWW.fast.example", "A", way)
        assert (answer.rcode, answer.aa, answers(answer)) == (0, 1, ["192.0.2.2"])
        assert {each.ttl for each in answer.an} == {20}
    assert answers(server.ask("fast.example")) == ["192.0.2.2"]
    # The resolver's client decides, where the resolver says whose question it is. The answer is for all whose networks
    # begin as this one does and n2's do not: 203 and 198 differ in the fifth bit.
    for network, address, scope in (("203.0.113.0/24", "192.0.2.1", 5), ("198.51.100.0/24", "192.0.2.2", 24)):
        answer = server.ask("www.fast.example", network=network)
        assert (answers(answer), scopes(answer)) == ([address], [scope])
    assert answers(server.ask("www.fast.example", "AAAA", network="203.0.113.0/24")) == ["2001:db8::1"]


def test_what_is_not_there(empty: Overlay) -> None:
    server = start(empty)
    for domain, kind, code, authority in (
        ("www.fast.example", "AAAA", 0, [SOA]),
        ("www.fast.example", "MX", 0, [SOA]),
        ("fast.example", "MX", 0, [SOA]),
        ("b.fast.example", "A", 0, [SOA]),
        ("mail.fast.example", "A", NO_SUCH_NAME, [SOA]),
        ("c.a.b.fast.example", "A", NO_SUCH_NAME, [SOA]),
        ("www.example", "A", REFUSED, []),
    ):
        answer = server.ask(domain, kind)
        assert (answer.rcode, answers(answer), [each.type for each in answer.ns or []]) == (code, [], authority), domain


def test_an_ingress_that_dies_is_passed_over_until_it_is_back(led: NameServer) -> None:
    led.overlay.kill("n2")
    assert led.leads_to("192.0.2.1") < 10
    # Without etcd the last that was known holds.
    led.overlay.kill("etcd")
    assert led.led() == ["192.0.2.1"]
    led.overlay.etcd()
    led.overlay.agent("n2", 12)
    led.leads_to("192.0.2.2")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["gone", "hanging"])
def test_an_ingress_whose_converter_does_not_answer_is_passed_over(how: signal.Signals, led: NameServer) -> None:
    with led.overlay.silent_converter("n2", 12, how):
        seconds = led.leads_to("192.0.2.1")
        print(f"n2 was passed over after {seconds:.2f} s")
        # 2.7 s at most on a calm machine (overlay/control/src/converter_check.rs); the rest is for a busy one.
        assert seconds < 5
        assert "n2" in led.overlay.found("nodes/"), "its agent is alive"
    led.leads_to("192.0.2.2")


def test_the_file_is_read_again_a_wrong_one_changes_nothing_and_it_ends_in_order(empty: Overlay) -> None:
    server = start(empty)
    assert server.led() == ["192.0.2.2"]
    empty.node.write("dns.toml", SETTINGS.replace("192.0.2.2", "192.0.2.77"))
    empty.hang_up("dns")
    server.leads_to("192.0.2.77")
    empty.node.write("dns.toml", SETTINGS + "unknown = 1\n")
    empty.hang_up("dns")
    until(lambda: "the previous one stays in use: " in empty.processes["dns"].output())
    assert server.led() == ["192.0.2.77"]
    # A second one names the port that is in use.
    empty.node.write("dns.toml", SETTINGS)
    code, output = outcome(empty.node.start("again", command(empty)))
    assert (code, f"127.0.0.1:{PORT}, UDP: " in output) == (Exit.IN_USE, True), output
    assert empty.processes["dns"].stop() == 0
