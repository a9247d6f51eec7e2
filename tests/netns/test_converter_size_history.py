"""The way of a transfer whose size nothing tells: by what earlier ones with the same servers had."""

import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.netns.converter_clients import ALL_KINDS, get, opened, proxy, request, reset, take, take_head
from tests.netns.converter_nodes import ALL_VIA_GATEWAY, NODES, gateway_by, node, served
from tests.netns.converter_world import PORTS, SERVER, SERVER6, Converter, Service, World, needs_tools
from tests.netns.world import eventually

pytestmark = needs_tools

SMALL, ABOVE, LARGE = 10_000, 45_000, 100_000
ROUTES = "".join(
    f"{network} {NODES['first']}\n{network} above {ABOVE}B {NODES['second']}\n"
    for network in ("203.0.113.0/24", "2001:db8::/48")
)
NEEDED = 3
"""Transfers that a converter has to know of before it expects something of the next one."""
OFF = "history = false\n"
BOTH = pytest.mark.parametrize("kind", ["connect", "absolute"], ids=["connections", "requests"])


def sized(connection: socket.socket) -> None:
    """A web server; the last part of a path says how long the answer is."""
    while True:
        size = int(take_head(connection).split()[1].rpartition(b"/")[2])
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))


def read_answer(client: socket.socket) -> None:
    """All of it, and no more."""
    length = take_head(client).partition(b"Content-Length: ")[2].split()[0]
    take(client, int(length))


@dataclass
class Ingress:
    """A converter with a way for transfers above ABOVE, and another one for all others."""

    world: World
    converter: Converter
    service: Service
    plain: Converter
    large: Converter

    def download(self, kind: str, size: int, times: int = 1, host: str = SERVER, folder: str = "") -> None:
        """One transfer after the other, each on a connection of its own."""
        before = len(served(self.converter))
        for number in range(times):
            with get(self.world, kind, self.service.port, f"{folder}/{size}", host) as client:
                read_answer(client)
            self.has_served(before + number + 1)

    def has_served(self, count: int) -> None:
        """Waits for the end of so many transfers: by then they are remembered."""
        eventually(lambda: len(served(self.converter)) == count)

    def went(self, plain: int, large: int) -> None:
        """Waits until so many connections went either way; raises AssertionError if they do not."""
        eventually(lambda: len(served(self.plain)) + len(served(self.large)) == plain + large)
        assert (len(served(self.plain)), len(served(self.large))) == (plain, large)

    def last_size(self) -> dict[str, object] | None:
        """By which size the way of the last connection was chosen."""
        size: dict[str, object] | None = self.converter.lines()[-1].get("size")
        return size


@contextmanager
def ingress(conv: World, keys: str = "", listeners: str = ALL_VIA_GATEWAY, port: int = 0) -> Iterator[Ingress]:
    """``keys`` are the gateway's; the server is at ``port`` if it is not 0."""
    with (
        tempfile.TemporaryDirectory(dir=conv.directory) as directory,
        node(conv, "first") as plain,
        node(conv, "second") as large,
        conv.converter(listeners + gateway_by(Path(directory), ROUTES) + keys) as converter,
        conv.serving(sized, port) as service,
    ):
        yield Ingress(conv, converter, service, plain, large)


@ALL_KINDS
def test_after_large_transfers_the_next_one_goes_the_way_for_them(conv: World, kind: str) -> None:
    with ingress(conv) as it:
        it.download(kind, LARGE, NEEDED)
        assert all("size" not in line for line in it.converter.lines())
        it.download(kind, LARGE)
        it.went(plain=NEEDED, large=1)
        size = it.last_size()
        assert size is not None and size["by"] == "history"
        assert LARGE <= int(str(size["bytes"])) < LARGE + 1000
        assert it.converter.metrics()["tributary_converter_remembered_servers"] == 1


@BOTH
def test_after_small_transfers_the_next_one_goes_the_way_of_all(conv: World, kind: str) -> None:
    with ingress(conv) as it:
        it.download(kind, SMALL, NEEDED + 2)
        it.went(plain=NEEDED + 2, large=0)
        size = it.last_size()
        assert size is not None and SMALL <= int(str(size["bytes"])) < SMALL + 1000


@BOTH
def test_switched_off_nothing_is_remembered(conv: World, kind: str) -> None:
    with ingress(conv, OFF) as it:
        it.download(kind, LARGE, NEEDED + 2)
        it.went(plain=NEEDED + 2, large=0)
        assert it.last_size() is None
        assert it.converter.metrics()["tributary_converter_remembered_servers"] == 0


def test_one_large_transfer_among_small_ones_changes_nothing(conv: World) -> None:
    with ingress(conv) as it:
        for size in (SMALL, LARGE, SMALL, SMALL):
            it.download("connect", size)
        it.went(plain=4, large=0)


def test_each_request_counts_on_a_connection_that_is_kept(conv: World) -> None:
    with ingress(conv) as it, proxy(conv, "absolute") as client:
        for _ in range(NEEDED):
            client.sendall(request("absolute", SERVER, it.service.port, f"/{LARGE}"))
            read_answer(client)
        it.has_served(NEEDED)
        it.download("connect", LARGE)
        eventually(lambda: served(it.large))


def test_a_request_whose_size_is_known_goes_by_that_and_says_nothing_of_others(conv: World) -> None:
    with ingress(conv, '[[gateway.sizes]]\npath = "/films/*"\nsize = "700MB"\n') as it:
        it.download("absolute", LARGE, NEEDED, folder="/films")
        assert it.last_size() == {"bytes": 700_000_000, "by": "path"}
        it.download("absolute", SMALL, NEEDED)
        assert it.last_size() is None
        it.download("absolute", LARGE, folder="/films")
        assert it.last_size() == {"bytes": 700_000_000, "by": "path"}
        it.download("absolute", SMALL)
        it.went(plain=NEEDED + 1, large=NEEDED + 1)
        size = it.last_size()
        assert size is not None and size["by"] == "history"


def test_a_name_is_looked_up_by_the_address_that_it_goes_to(conv: World) -> None:
    conv.names.records["large.test"] = [SERVER]
    conv.names.records["other.test"] = [SERVER6]
    with ingress(conv) as it:
        it.download("connect", LARGE, NEEDED)
        it.download("connect", LARGE, host="large.test")
        it.went(plain=NEEDED, large=1)
        it.download("connect", LARGE, host="other.test")
        it.went(plain=NEEDED + 1, large=1)


def test_another_port_has_a_history_of_its_own(conv: World) -> None:
    with ingress(conv) as it, conv.serving(sized) as other:
        it.download("connect", LARGE, NEEDED)
        it.service = other
        it.download("connect", LARGE)
        it.went(plain=NEEDED + 1, large=0)


def test_a_transfer_that_is_cut_off_at_its_beginning_says_nothing(conv: World) -> None:
    with ingress(conv) as it:
        for number in range(1, NEEDED + 1):
            client = opened(conv, "connect", SERVER, it.service.port)
            client.sendall(request("connect", SERVER, it.service.port, f"/{SMALL}"))
            take_head(client)
            reset(client)
            it.has_served(number)
        assert set(served(it.converter)) == {"client-reset"}
        assert it.converter.metrics()["tributary_converter_remembered_servers"] == 0


def test_a_reload_forgets_nothing(conv: World) -> None:
    with ingress(conv) as it:
        it.download("connect", LARGE, NEEDED)
        config = (it.converter.directory / "converter.toml").read_text()
        assert "not reloaded" not in it.converter.reload(config)
        it.download("connect", LARGE)
        it.went(plain=NEEDED, large=1)


def test_what_begins_with_the_client_s_syn_goes_the_way_for_large_transfers_too(conv: World) -> None:
    port = 7072
    early = ALL_VIA_GATEWAY.replace(f":{PORTS['tproxy']}", f":{port}")
    early = early.replace('intercept = "tproxy"\n', 'intercept = "tproxy"\nearly_syn = true\n')
    conv.intercept("")
    conv.nft(f"""table inet early {{ chain prerouting {{
        type filter hook prerouting priority mangle;
        iifname {{ "wired", "wireless" }} tcp dport {port} tproxy to :{port} meta mark set 1 accept;
    }}; }}""")
    try:
        with ingress(conv, listeners=early, port=port) as it:
            it.download("connect", LARGE, NEEDED)
            begun = 'tributary_converter_early_syns_total{outcome="begun"}'
            came = 0
            # On a busy machine some clients are accepted before their SYN was looked at.
            while begun not in it.converter.metrics() and came < 50:
                with conv.connect(SERVER, port) as client:
                    client.sendall(request("tproxy", SERVER, port, f"/{LARGE}"))
                    read_answer(client)
                came += 1
                it.has_served(NEEDED + came)
            assert begun in it.converter.metrics()
            it.went(plain=NEEDED, large=came)
            assert (it.last_size() or {}).get("by") == "history"
    finally:
        conv.nft("delete table inet early")
