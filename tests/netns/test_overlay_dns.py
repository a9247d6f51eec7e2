"""The name server that leads clients to their ingress: real questions, and agents that come and go in the real etcd."""

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.netns.overlay_world import ETCD, Overlay, standing_overlay, until
from tests.netns.world import needs, program
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

    def ask(self, name: str, kind: str = "A", way: str = "udp", *network: str) -> dict[str, Any]:
        """What it answers."""
        question = program("dns_query", "127.0.0.1", str(PORT), name, kind, way, *network)
        answer: dict[str, Any] = json.loads(self.overlay.node.run(*question))
        assert answer["id"] == 77
        return answer

    def led(self, *network: str) -> list[str]:
        """The addresses for a client."""
        addresses: list[str] = self.ask("www.fast.example", "A", "udp", *network)["answers"]
        return addresses


@pytest.fixture
def overlay(name: str) -> Iterator[Overlay]:
    with standing_overlay(name) as overlay:
        yield overlay


def command(overlay: Overlay, *options: str) -> list[str]:
    file = overlay.node.write("dns.toml", SETTINGS)
    return [str(cargo.build("overlay-dns")[0]), str(file), "--listen", f"127.0.0.1:{PORT}", *options]


def start(overlay: Overlay, *options: str) -> NameServer:
    process = overlay.node.start("dns", command(overlay, *options))
    overlay.stack.callback(process.stop, 2)
    overlay.processes["dns"] = process.wait_for_output()
    return NameServer(overlay)


def test_names_of_the_zone_lead_to_the_clients_ingress(overlay: Overlay) -> None:
    server = start(overlay)
    assert server.led() == ["192.0.2.2"]
    for way in ("udp", "tcp"):
        answer = server.ask("WWW.fast.example", "A", way)
        assert (answer["code"], answer["authoritative"], answer["answers"], answer["ttl"]) == (
            0,
            True,
            ["192.0.2.2"],
            [20],
        )
    assert server.ask("fast.example", "A")["answers"] == ["192.0.2.2"]
    # The resolver's client decides, where the resolver says whose question it is. The answer is for all whose networks
    # begin as this one does and n2's do not: 203 and 198 differ in the fifth bit.
    answer = server.ask("www.fast.example", "A", "udp", "203.0.113.0/24")
    assert (answer["answers"], answer["scopes"]) == (["192.0.2.1"], [5])
    answer = server.ask("www.fast.example", "A", "udp", "198.51.100.0/24")
    assert (answer["answers"], answer["scopes"]) == (["192.0.2.2"], [24])
    assert server.ask("www.fast.example", "AAAA", "udp", "203.0.113.0/24")["answers"] == ["2001:db8::1"]


@pytest.mark.parametrize(
    ("domain", "kind", "code", "authority"),
    [
        ("www.fast.example", "AAAA", 0, [SOA]),
        ("www.fast.example", "MX", 0, [SOA]),
        ("fast.example", "MX", 0, [SOA]),
        ("b.fast.example", "A", 0, [SOA]),
        ("mail.fast.example", "A", NO_SUCH_NAME, [SOA]),
        ("c.a.b.fast.example", "A", NO_SUCH_NAME, [SOA]),
        ("www.example", "A", REFUSED, []),
    ],
)
def test_what_is_not_there(overlay: Overlay, domain: str, kind: str, code: int, authority: list[int]) -> None:
    answer = start(overlay).ask(domain, kind)
    assert (answer["code"], answer["answers"], answer["authority"]) == (code, [], authority)


def test_an_ingress_that_dies_is_passed_over_until_it_is_back(overlay: Overlay) -> None:
    overlay.etcd()
    overlay.agent("n1", 11)
    overlay.agent("n2", 12)
    server = start(overlay, "--endpoints", ETCD)
    until(lambda: server.led() == ["192.0.2.2"])
    overlay.kill("n2")
    assert until(lambda: server.led() == ["192.0.2.1"]) < 10
    # Without etcd the last that was known holds.
    overlay.kill("etcd")
    assert server.led() == ["192.0.2.1"]
    overlay.etcd()
    overlay.agent("n2", 12)
    until(lambda: server.led() == ["192.0.2.2"])


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["gone", "hanging"])
def test_an_ingress_whose_converter_does_not_answer_is_passed_over(how: signal.Signals, overlay: Overlay) -> None:
    overlay.etcd()
    overlay.agent("n1", 11)
    overlay.agent("n2", 12)
    server = start(overlay, "--endpoints", ETCD)
    until(lambda: set(overlay.found("nodes/")) == {"n1", "n2"})
    until(lambda: server.led() == ["192.0.2.2"])
    converter = overlay.processes["n2.converter"].popen
    converter.send_signal(how)
    seconds = until(lambda: server.led() == ["192.0.2.1"])
    print(f"n2 was passed over after {seconds:.2f} s")
    # 2.7 s at most on a calm machine (overlay/control/src/converter_check.rs); the rest is for a busy one.
    assert seconds < 5
    assert "n2" in overlay.found("nodes/"), "its agent is alive"
    if how == signal.SIGSTOP:
        converter.send_signal(signal.SIGCONT)
    else:
        converter.wait()
        overlay.start_converter("n2", 12)
    until(lambda: server.led() == ["192.0.2.2"])


def test_the_file_is_read_again_and_a_wrong_one_changes_nothing(overlay: Overlay) -> None:
    server = start(overlay)
    process = overlay.processes["dns"]
    assert server.led() == ["192.0.2.2"]
    overlay.node.write("dns.toml", SETTINGS.replace("192.0.2.2", "192.0.2.77"))
    process.popen.send_signal(signal.SIGHUP)
    until(lambda: server.led() == ["192.0.2.77"])
    overlay.node.write("dns.toml", SETTINGS + "unknown = 1\n")
    process.popen.send_signal(signal.SIGHUP)
    until(lambda: "the previous one stays in use: " in process.output())
    assert server.led() == ["192.0.2.77"]


def test_it_ends_in_order_and_a_port_in_use_is_named(overlay: Overlay) -> None:
    start(overlay)
    again = overlay.node.start("again", command(overlay))
    assert again.popen.wait(10) == Exit.IN_USE
    assert f"127.0.0.1:{PORT}, UDP: " in again.output()
    overlay.processes["dns"].popen.send_signal(signal.SIGTERM)
    assert overlay.processes["dns"].popen.wait(10) == 0
