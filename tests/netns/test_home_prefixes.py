"""IPv6 in a home by the prefixes of its links' providers: several links with a prefix each, and translation."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path

import pytest

from tests.netns.connections import TCP
from tests.netns.delegating_world import CARD, NEEDED, SERVER, World, delegated, link_network, world
from tests.netns.home_world import heard, listening, listens
from tests.netns.world import connected, eventually

PRIVATE = IPv6Network("fd12:3456:789a:1::/64")
OWN = (1 << 64) - 1
"""The bits of an address that devices choose."""
BYPASS = '[[bypass]]\nports = ["tcp/2222"]\nto = "lte"\n'

pytestmark = NEEDED


@pytest.fixture
def home(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, f'{CARD}ipv6 = "link"\n{BYPASS}') as built:
        yield built


@pytest.fixture
def translated(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, f'{CARD}ipv6 = "translated"\nipv6_prefix = "{PRIVATE}"\n{BYPASS}') as built:
        yield built


def seen(home: World, port: int = 80) -> IPv6Address:
    """Whom the server sees when the device connects."""
    with listening(home.provider, port, version=6):
        return IPv6Address(eventually(lambda: _told(home, port)))


def _told(home: World, port: int) -> str | None:
    words = heard(home.device, SERVER, port).split()
    return words[1] if len(words) == 3 else None


@contextmanager
def both_ends(home: World, source: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection of the device's from one of its addresses, and the server's end of it."""
    with (
        listens(home.provider, 80, version=6) as listener,
        connected(home.device, SERVER, 80, (source, 0), 5, protocol=TCP) as client,
        listener.accept()[0] as there,
    ):
        there.settimeout(5)
        yield client, there


def goes_on(client: socket.socket, there: socket.socket) -> bool:
    client.sendall(b"hello")
    there.sendall(there.recv(10))
    return client.recv(10) == b"hello"


def test_devices_have_the_prefix_of_the_best_link_and_connections_stay_with_the_link_of_their_address(
    home: World,
) -> None:
    by_dsl = home.address_in(delegated("dsl"))
    assert seen(home) == IPv6Address(by_dsl)
    # What is by-passed leaves by the link that the card says, with an address of its own.
    assert seen(home, 2222) in link_network("lte0")
    home.cut("dsl")
    by_lte = home.address_in(delegated("lte0"))
    assert IPv6Address(by_dsl) not in home.addresses()
    with listening(home.provider, 80, version=6):
        # The card's rule follows what it tells its devices.
        eventually(lambda: heard(home.device, SERVER, 80, by_dsl) == "refused")
        begun = time.monotonic()
        assert heard(home.device, SERVER, 80, by_dsl) == "refused"
    assert time.monotonic() - begun < 0.9
    with both_ends(home, by_lte) as ends:
        home.restore("dsl")
        # There may be another address of the same prefix, if the device had forgotten the first one.
        assert IPv6Address(home.address_in(delegated("dsl"), 40)) in delegated("dsl")
        assert goes_on(*ends)
    assert seen(home) in delegated("dsl")
    assert not home.strays()


def test_private_addresses_become_those_of_the_link_one_to_one_and_outlive_it(translated: World) -> None:
    home = translated
    own = home.address_in(PRIVATE)
    first = seen(home)
    # What removes the table is noticed with the next change of the network, or after half a minute.
    home.box.run("nft", "delete", "table", "inet", "tributary-translated")
    home.box.ip("route", "add", "192.0.2.0/24", "dev", "end0")
    assert seen(home) == first
    assert first in delegated("dsl")
    assert int(first) & OWN == int(IPv6Address(own)) & OWN
    assert seen(home, 2222) in delegated("lte0")
    # Whoever is asked for from outside is the same device.
    assert " 1 received" in home.provider.run("ping", "-n", "-c", "1", "-W", "2", str(first))
    with both_ends(home, own) as (client, _):
        home.cut("dsl")
        eventually(lambda: "delegated" not in _table(home) and "dsl" not in _table(home))
        with pytest.raises((ConnectionResetError, PermissionError)):
            eventually(lambda: client.send(b"hello") and not client.recv(10), 5)
    second = seen(home)
    assert second in delegated("lte0")
    assert int(second) & OWN == int(IPv6Address(own)) & OWN
    assert home.addresses() == [IPv6Address(own)]
    with both_ends(home, own) as ends:
        home.restore("dsl")
        eventually(lambda: "dsl" in _table(home), 40)
        assert goes_on(*ends)
    assert seen(home) == first
    assert not home.strays()


def _table(home: World) -> str:
    return home.box.run("nft", "list", "table", "inet", "tributary-translated")
