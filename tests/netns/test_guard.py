"""One list of forbidden targets, held against both running programs: Squid and the native converter.

Both stand in a network with default routes for IPv4 and IPv6: what is not refused leaves, and is seen.
"""

from collections.abc import Iterator

import pytest

from tests.forbidden_targets import CASES, CLOSED, Case
from tests.netns import squid_world
from tests.netns.converter_clients import FORBIDDEN, hears, is_no_peer
from tests.netns.converter_world import ALL, Converter, World, needs_tools, run, write_config
from tests.netns.guard_world import PORT, PUBLIC, Squids, answer_for_all, plain, squids, toml_list, victim
from tests.netns.squid_world import needs_squid
from tests.netns.world import eventually

pytestmark = [needs_tools, needs_squid]

CONFIG = ALL + '[timeouts]\nrequest = "2s"\nconnect = "1s"\n'
BY_ADDRESS = ("connect", "absolute", "socks5", "convert")
BY_NAME = ("connect", "absolute", "socks5")
SQUID_SAYS = {"never": "never-a-target", "private": "private-target"}

NAT64 = ["64:ff9b::/96"]
# The gateway's own public address, as IPv6 addresses that carry it.
OWN_FORMS = [form + PUBLIC for form in ("::ffff:", "::", "::ffff:0:", "64:ff9b::")] + ["2002:cb00:7101::1"]


def rows(case: Case) -> list[object]:
    return [pytest.param(case, *row, id=f"{'+'.join(case.opened) or 'nothing'}-{row[1]}") for row in case.rows]


ROWS = [row for case in CASES for row in rows(case)]


@pytest.fixture(scope="module")
def built(conv: World) -> World:
    answer_for_all(conv.server)
    return conv


@pytest.fixture
def net(built: World, running: Converter) -> World:
    """The converter's world, with nothing left over from the test before."""
    assert running.popen.poll() is None
    built.names.records.clear()
    built.syns()
    return built


@pytest.fixture(scope="module")
def opened() -> list[str]:
    """What the running converter's operator has opened so far."""
    return []


def open_up(converter: Converter, opened: list[str], networks: list[str]) -> None:
    if opened != networks:
        assert "not reloaded" not in converter.reload(f"{CONFIG}[targets]\nallow = {toml_list(networks)}\n")
        opened[:] = networks


def check(net: World, kind: str, verdict: str, host: str, address: str) -> None:
    """What a client hears that asks for ``host``, which is ``address``, and what leaves."""
    heard = hears(net, kind, host, PORT)
    targets = {syn.target for syn in net.syns_to_servers()}
    if verdict == "reached":
        assert targets == {plain(address)}
    elif kind == "convert" and is_no_peer(address):
        assert (heard, targets) == ("convert 1", set())  # RFC 8803 section 6.2.4
    else:
        assert (heard, targets) == (FORBIDDEN[kind], set())


@pytest.mark.parametrize(("case", "verdict", "address"), ROWS)
def test_converter_goes_by_the_list(
    net: World, running: Converter, opened: list[str], case: Case, verdict: str, address: str
) -> None:
    open_up(running, opened, list(case.opened))
    net.names.records["any.test"] = [address]
    for kind in BY_ADDRESS:
        check(net, kind, verdict, address, address)
    for kind in BY_NAME:
        check(net, kind, verdict, "any.test", address)


@pytest.mark.parametrize("networks", [[], NAT64], ids=["nothing", "NAT64"])
@pytest.mark.parametrize("form", OWN_FORMS)
def test_converter_never_connects_a_client_to_the_gateway_itself(
    net: World, running: Converter, opened: list[str], form: str, networks: list[str]
) -> None:
    open_up(running, opened, networks)
    net.names.records["own.test"] = [form]
    with victim(net.gateway) as service:
        heard = {f"{kind} {host}": hears(net, kind, host, PORT) for kind in BY_NAME for host in ("own.test", form)}
        heard["convert"] = hears(net, "convert", form, PORT)
    assert service.reached == []
    assert net.syns_to_servers() == []
    assert heard == {way: FORBIDDEN[way.partition(" ")[0]] for way in heard}


@pytest.mark.parametrize(("network", "because"), CLOSED)
def test_converter_refuses_an_allow_that_nobody_may_write(net: World, network: str, because: str) -> None:
    file = write_config(net.directory, f'[targets]\nallow = ["{network}"]\n')
    refused = run("--config", str(file))
    assert refused.returncode == 64
    assert f"{file}: targets.allow = {network}: " in refused.stderr
    assert "never " in refused.stderr
    assert because in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def squid_net() -> Iterator[Squids]:
    with squids() as standing:
        yield standing


@pytest.fixture
def squid(squid_net: Squids, request: pytest.FixtureRequest) -> squid_world.World:
    """A running Squid whose operator opened what the parameter says."""
    return squid_net.opening(request.param)


def squid_refuses(world: squid_world.World, method: str, host: str, reason: str = "") -> None:
    authority = f"[{host}]:{PORT}" if ":" in host else f"{host}:{PORT}"
    answer = world.ask(method, authority if method == "CONNECT" else f"http://{authority}/")
    assert (answer.status, f'details="{reason}' in answer.field("Proxy-Status")) == (403, True)


SQUID_ROWS = [
    pytest.param(case.opened, verdict, address, id=f"{'+'.join(case.opened) or 'nothing'}-{address}")
    for case in CASES
    for verdict, address in case.rows
]


@pytest.mark.parametrize(("squid", "verdict", "address"), SQUID_ROWS, indirect=["squid"])
def test_squid_goes_by_the_list(squid: squid_world.World, squid_net: Squids, verdict: str, address: str) -> None:
    name = f"{abs(hash((verdict, address)))}.test"
    squid_net.names.records[name] = [address]
    squid.wire.syns()
    if verdict == "reached":
        # Squid tries again and again before it answers; the first try is enough.
        with squid.connect() as client:
            client.sendall(f"CONNECT {name}:{PORT} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
            seen: list[squid_world.Syn] = eventually(squid.wire.syns)
        assert {syn.target for syn in seen} == {plain(address)}
        eventually(lambda: squid.wire.syns() == [])
        return
    for host in (address, name):
        for method in ("GET", "CONNECT"):
            squid_refuses(squid, method, host, SQUID_SAYS[verdict])
    assert squid.wire.syns() == []


@pytest.mark.parametrize("form", OWN_FORMS)
@pytest.mark.parametrize("squid", [(), tuple(NAT64)], ids=["nothing", "NAT64"], indirect=True)
def test_squid_never_connects_a_client_to_the_gateway_itself(
    squid: squid_world.World, squid_net: Squids, form: str
) -> None:
    name = f"own{abs(hash(form))}.test"
    squid_net.names.records[name] = [form]
    squid.wire.syns()
    with victim(squid.gateway) as service:
        for host in (form, name):
            for method in ("GET", "CONNECT"):
                squid_refuses(squid, method, host)
    assert service.reached == []
    assert squid.wire.syns() == []
