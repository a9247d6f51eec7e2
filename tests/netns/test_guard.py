"""One list of forbidden targets, held against both running programs: Squid and the native converter.

Both stand in a network with default routes for IPv4 and IPv6: what is not refused leaves, and is seen.
"""

import ipaddress
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager

import pytest

from experiments.testbed.node import Node
from tests.forbidden_targets import CASES, CLOSED
from tests.netns import squid_world
from tests.netns.connections import TCP
from tests.netns.converter_clients import FORBIDDEN, is_no_peer
from tests.netns.converter_names import Names
from tests.netns.converter_process import Converter, complaint
from tests.netns.converter_world import ALL, OUTSIDE, World
from tests.netns.squid_world import SERVER, start_squid
from tests.netns.world import eventually, listener_at, serving

PORT = 8443
CONFIG = ALL + '[timeouts]\nrequest = "2s"\nconnect = "1s"\n'
BY_ADDRESS = ("connect", "absolute", "socks5", "convert")
BY_NAME = ("connect", "absolute", "socks5")
SQUID_SAYS = {"never": "never-a-target", "private": "private-target"}

NAT64 = ("64:ff9b::/96",)
# The gateway's own public address, as IPv6 addresses that carry it.
OWN_FORMS = [form + OUTSIDE for form in ("::ffff:", "::", "::ffff:0:", "64:ff9b::")] + ["2002:cb00:7101::1"]


# What no packet can be seen of at an address that nobody has: the server answers for the whole Internet, by a reset.
NOBODY = """table inet nobody {
    chain forward {
        type filter hook forward priority filter; policy accept;
        meta l4proto tcp reject with tcp reset
    }
}"""
ROWS = [
    pytest.param(case.opened, verdict, address, id=f"{'+'.join(case.opened) or 'nothing'}-{address}")
    for case in CASES
    for verdict, address in case.rows
]


def plain(address: str) -> str:
    """The address as packets have it: an IPv4-mapped one as the IPv4 address."""
    given = ipaddress.ip_address(address)
    return str(getattr(given, "ipv4_mapped", None) or given)


@contextmanager
def victim(gateway: Node) -> Iterator[list[tuple[str, int]]]:
    """A service at the gateway's own public address, which greets as SSH and mail servers do; yields who reached it."""
    with serving(listener_at(gateway, PORT, OUTSIDE, TCP), lambda connection: connection.sendall(b"hello")) as came:
        yield came


@pytest.fixture(scope="module", autouse=True)
def answering(conv_built: World) -> None:
    conv_built.server.run("nft", NOBODY)


def opening(converter: Converter, networks: tuple[str, ...]) -> AbstractContextManager[None]:
    """The converter of an operator who opened these."""
    return converter.reloaded(f"{CONFIG}[targets]\nallow = {json.dumps(networks)}\n")


def check(net: World, kind: str, verdict: str, host: str, address: str) -> None:
    """What a client hears that asks for ``host``, which is ``address``, and what leaves."""
    heard = net.hears(kind, host, PORT)
    targets = {syn.target for syn in net.syns_to_servers()}
    if verdict == "reached":
        assert targets == {plain(address)}
    elif kind == "convert" and is_no_peer(address):
        assert (heard, targets) == ("convert 1", set())  # RFC 8803 section 6.2.4
    else:
        assert (heard, targets) == (FORBIDDEN[kind], set())


@pytest.mark.parametrize(("networks", "verdict", "address"), ROWS)
def test_converter_goes_by_the_list(
    net: World, running: Converter, networks: tuple[str, ...], verdict: str, address: str
) -> None:
    net.names.records["any.test"] = [address]
    with opening(running, networks):
        for kind in BY_ADDRESS:
            check(net, kind, verdict, address, address)
        for kind in BY_NAME:
            check(net, kind, verdict, "any.test", address)


@pytest.mark.parametrize("networks", [(), NAT64], ids=["nothing", "NAT64"])
@pytest.mark.parametrize("form", OWN_FORMS)
def test_converter_never_connects_a_client_to_the_gateway_itself(
    net: World, running: Converter, form: str, networks: tuple[str, ...]
) -> None:
    net.names.records["own.test"] = [form]
    with opening(running, networks), victim(net.gateway) as came:
        heard = {f"{kind} {host}": net.hears(kind, host, PORT) for kind in BY_NAME for host in ("own.test", form)}
        heard["convert"] = net.hears("convert", form, PORT)
    assert came == []
    assert net.syns_to_servers() == []
    assert heard == {way: FORBIDDEN[way.partition(" ")[0]] for way in heard}


@pytest.mark.parametrize(("network", "because"), CLOSED)
def test_converter_refuses_an_allow_that_nobody_may_write(net: World, network: str, because: str) -> None:
    said = complaint(net.directory, f'[targets]\nallow = ["{network}"]\n')
    assert f"/converter.toml: targets.allow = {network}: " in said
    assert "never " in said
    assert because in said


@pytest.fixture(scope="module", autouse=True)
def names(squid_built: squid_world.World) -> Iterator[Names]:
    """Those that Squid asks for, in its world, where no Squid runs yet."""
    squid_built.squid.stop()
    squid_built.server.run("nft", NOBODY)
    with closing(Names(squid_built.server, SERVER)) as names:
        yield names


@pytest.fixture(scope="module")
def opened(squid_built: squid_world.World, request: pytest.FixtureRequest) -> Iterator[squid_world.World]:
    """A running Squid whose operator opened what the parameter says, and which asks the tests' own name server."""
    settings = f"""{squid_world.SETTINGS}resolvers = ["{SERVER}"]
connect_ports = [443, {PORT}]
private_targets = {json.dumps(request.param)}
"""
    with start_squid(squid_built.gateway, squid_built.directory, settings, f"opened{abs(hash(request.param))}"):
        yield squid_built


@pytest.fixture
def squid(opened: squid_world.World) -> squid_world.World:
    """The same, with nothing left over from the test before."""
    opened.syns()
    return opened


def squid_refuses(world: squid_world.World, host: str, reason: str = "") -> None:
    authority = f"[{host}]:{PORT}" if ":" in host else f"{host}:{PORT}"
    for method, target in (("GET", f"http://{authority}/"), ("CONNECT", authority)):
        answer = world.ask(method, target)
        assert (answer.status, f'details="{reason}' in answer.field("Proxy-Status")) == (403, True)


@pytest.mark.parametrize(("opened", "verdict", "address"), ROWS, indirect=["opened"], scope="module")
def test_squid_goes_by_the_list(squid: squid_world.World, names: Names, verdict: str, address: str) -> None:
    name = f"{abs(hash((verdict, address)))}.test"
    names.records[name] = [address]
    if verdict == "reached":
        # Squid tries again and again before it answers; the first try is enough.
        with squid.connect() as client:
            client.sendall(f"CONNECT {name}:{PORT} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
            # What Squid tried for the test before may still come.
            eventually(lambda: plain(address) in {syn.target for syn in squid.syns()})
        eventually(lambda: squid.syns() == [])
        return
    for host in (address, name):
        squid_refuses(squid, host, SQUID_SAYS[verdict])
    assert squid.syns() == []


@pytest.mark.parametrize("form", OWN_FORMS)
@pytest.mark.parametrize("opened", [(), NAT64], ids=["nothing", "NAT64"], indirect=True)
def test_squid_never_connects_a_client_to_the_gateway_itself(squid: squid_world.World, names: Names, form: str) -> None:
    name = f"own{abs(hash(form))}.test"
    names.records[name] = [form]
    with victim(squid.gateway) as came:
        for host in (form, name):
            squid_refuses(squid, host)
    assert came == []
    assert squid.syns() == []
