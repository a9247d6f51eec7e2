"""The firewall of gateways and home routers in the real kernel, and the way back of ansible/roles/firewall.

client 10.0.0.2, 192.0.2.2, 2001:db8::2 --- gateway 10.0.0.1, 192.0.2.1, 2001:db8::1
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from experiments.home.gateway import FIREWALL as RULES
from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node
from tests.netns.connections import TCP
from tests.netns.world import connected, datagrams_at, listener_at, needs
from tributary.paths import ROOT
from tributary.settings.errors import CommandError

pytestmark = needs("nft")

SITE = """\
add element inet tributary-firewall client_networks4 { 10.0.0.0/8 }
add element inet tributary-firewall client_networks6 { 2001:db8::/64 }
add element inet tributary-firewall client_ports { 3128 }
add element inet tributary-firewall admin_networks4 { 192.0.2.2 }
add element inet tributary-firewall admin_ports { 22 }
add rule inet tributary-firewall untracked_in meta l4proto tcp notrack
add rule inet tributary-firewall untracked_out meta l4proto tcp notrack
"""
CLIENT, STRANGER, SIX = "10.0.0.2", "192.0.2.2", "2001:db8::2"
_NETWORK = """
client:eth0 10.0.0.2/24 192.0.2.2/24 2001:db8::2/64 -- gateway:eth0 10.0.0.1/24 192.0.2.1/24 2001:db8::1/64
"""
GATEWAY = {CLIENT: "10.0.0.1", STRANGER: "192.0.2.1", SIX: "2001:db8::1"}
"""The gateway's address on the network of each of the client's."""


class Place:
    """Both nodes, and a listener at each of the ports."""

    def __init__(self, directory: Path, gateway: Node, client: Node) -> None:
        self.directory, self.gateway, self.client = directory, gateway, client
        self.listeners: dict[int, socket.socket] = {}

    def load(self) -> None:
        self.gateway.run("nft", "--includepath", str(self.directory), "--file", str(RULES))

    def tables(self) -> str:
        return self.gateway.run("nft", "list", "tables")

    def tracked(self) -> int:
        return int(self.gateway.run("cat", "/proc/sys/net/netfilter/nf_conntrack_count"))

    def connect(self, source: str, port: int) -> socket.socket:
        """From one of the client's addresses; raises TimeoutError if the firewall drops it."""
        return connected(self.client, GATEWAY[source], port, (source, 0), 1, protocol=TCP)

    def accepted(self, client: socket.socket) -> socket.socket:
        """The gateway's end of a connection to port 3128; those before it in the queue are closed."""
        while True:
            server, peer = self.listeners[3128].accept()
            if peer[1] == client.getsockname()[1]:
                return server
            server.close()

    def reaches(self, source: str, port: int) -> bool:
        try:
            self.connect(source, port).close()
        except TimeoutError:
            return False
        return True


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("firewall")
    with ExitStack() as made:
        (directory / "tributary-site.nft").write_text(SITE)
        place = Place(directory, **made.enter_context(standing_nodes("fw-", _NETWORK, directory)))
        for port in (22, 3128, 9464):
            place.listeners[port] = made.enter_context(listener_at(place.gateway, port, protocol=TCP))
        place.gateway.run("nft", "add", "table", "inet", "throttler")
        place.load()
        yield place


@pytest.mark.parametrize(
    ("source", "port", "let_in"),
    [
        (CLIENT, 3128, True),
        (SIX, 3128, True),
        (STRANGER, 3128, False),
        (STRANGER, 22, True),
        (CLIENT, 22, False),
        (SIX, 22, False),
        (CLIENT, 9464, False),
        (STRANGER, 9464, False),
    ],
)
def test_who_was_named_gets_in_and_nobody_else(place: Place, source: str, port: int, let_in: bool) -> None:
    assert place.reaches(source, port) is let_in


def test_what_was_dropped_is_counted(place: Place) -> None:
    before = place.gateway.run("nft", "list", "counters", "table", "inet", "tributary-firewall")
    assert not place.reaches(STRANGER, 3128)
    assert place.gateway.run("nft", "list", "counters", "table", "inet", "tributary-firewall") != before


def test_neighbours_and_pings_are_answered(place: Place) -> None:
    place.gateway.ip("neighbour", "flush", "dev", "eth0")
    place.client.ip("neighbour", "flush", "dev", "eth0")
    for address in GATEWAY.values():
        place.client.run("ping", "-n", "-q", "-c", "1", "-W", "2", address)


def test_an_udp_answer_comes_in_and_an_udp_question_does_not(place: Place) -> None:
    own = ("10.0.0.2", 5353)
    with datagrams_at(place.gateway) as asking, datagrams_at(place.client, seconds=2, at=own) as resolver:
        asking.sendto(b"question", ("10.0.0.2", 5353))
        _, asked_by = resolver.recvfrom(100)
        resolver.sendto(b"answer", asked_by)
        assert asking.recv(100) == b"answer"
        with datagrams_at(place.client) as stranger:
            stranger.sendto(b"unasked", asked_by)
        with pytest.raises(TimeoutError):
            asking.recv(100)


def test_connections_outlive_the_loading_of_the_firewall(place: Place) -> None:
    place.gateway.run("nft", "delete", "table", "inet", "tributary-firewall")
    with place.connect(STRANGER, 3128) as client, place.accepted(client) as server:
        place.load()
        # The gateway hears first, and has sent nothing yet that connection tracking could have seen.
        client.sendall(b"up")
        server.settimeout(2)
        assert server.recv(10) == b"up"
        server.sendall(b"down")
        assert client.recv(10) == b"down"
    assert not place.reaches(STRANGER, 3128)


def test_no_tcp_connection_takes_a_place_in_a_table(place: Place) -> None:
    before = place.tracked()
    with place.connect(CLIENT, 3128):
        assert place.tracked() <= before  # old ones may go meanwhile


def test_loading_it_twice_changes_nothing_and_other_tables_stay(place: Place) -> None:
    before = place.gateway.run("nft", "--stateless", "list", "ruleset")
    place.load()
    assert place.gateway.run("nft", "--stateless", "list", "ruleset") == before
    place.gateway.run("nft", "delete", "table", "inet", "tributary-firewall")
    assert place.tables() == "table inet throttler\n"
    place.load()


def test_a_wrong_site_file_leaves_the_firewall_as_it_is(place: Place) -> None:
    wrong = place.directory / "tributary-site-wrong.nft"
    wrong.write_text("add element inet tributary-firewall client_networks4 { nobody }\n")
    before = place.gateway.run("nft", "--stateless", "list", "ruleset")
    with pytest.raises(CommandError):
        place.load()
    wrong.unlink()
    assert place.gateway.run("nft", "--stateless", "list", "ruleset") == before


UNIT = RULES.parent / "systemd/tributary-firewall.service"
UNDO = ROOT / "ansible/roles/firewall/files/undo.sh"
_SYSTEMCTL = """\
#!/bin/sh -e
# What systemd does with the firewall's unit.
[ "$1 $2" = "disable --now" ] && key=ExecStop
sed -n "s/^$key=//p" "{unit}" | sh -e
"""


def undone(place: Place, folder: Path, before: str, written: str) -> str:
    """The way back taken on a gateway that has ``written``, where ``before`` was kept; returns /etc's rules then."""
    (folder / "systemctl").write_text(_SYSTEMCTL.format(unit=UNIT))
    (folder / "systemctl").chmod(0o755)
    (folder / "before").write_text(before)
    (folder / "written").write_text(written)
    script = f"""
    cp /etc/protocols /etc/services {folder}
    mount -t tmpfs tmpfs /etc && mkdir /etc/nftables.d && mount -t tmpfs tmpfs /run && mkdir /run/tributary-firewall
    cp {folder}/protocols {folder}/services /etc
    cp {folder}/written /etc/nftables.d/tributary-site.nft
    if [ -s {folder}/before ]; then
        mkdir /run/tributary-firewall-before && cp {RULES} /run/tributary-firewall-before/
        cp {folder}/before /run/tributary-firewall-before/tributary-site.nft
    fi
    PATH={folder}:$PATH sh -e {UNDO}
    cat /etc/nftables.d/tributary-site.nft
    """
    return place.gateway.run("unshare", "--mount", "sh", "-ec", script)


def test_new_rules_that_lock_the_controller_out_give_way_to_those_from_before(place: Place, tmp_path: Path) -> None:
    before = SITE.replace("{ 192.0.2.2 }", "{ 10.0.0.2 }")
    place.load()
    assert place.reaches(STRANGER, 22) and not place.reaches(CLIENT, 22)
    assert undone(place, tmp_path, before, SITE) == before
    assert place.reaches(CLIENT, 22) and not place.reaches(STRANGER, 22)


def test_where_no_rules_stood_before_none_stand_after_the_way_back(place: Place, tmp_path: Path) -> None:
    place.load()
    undone(place, tmp_path, "", SITE)
    assert "tributary-firewall" not in place.tables()
