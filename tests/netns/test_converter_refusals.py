"""What the native converter must not do, asked of every kind of listener: the client is told, and no SYN leaves."""

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from itertools import count

import pytest

from tests.netns.converter_clients import (
    ALL_KINDS,
    FORBIDDEN,
    KINDS,
    LISTENER,
    NAMED_KINDS,
    NO_CLIENT,
    PROTOCOLS,
    REFUSED,
    TRANSPARENT,
    is_no_peer,
)
from tests.netns.converter_process import SERVER, Converter
from tests.netns.converter_services import SERVED, SERVICE, greet
from tests.netns.converter_world import ALL, GATEWAY, PORTS, SERVER6, SERVER_PRIVATE, STRANGER, STRANGER6, World
from tests.netns.squid_world import Syn
from tests.netns.world import eventually

# What a kept connection serves asks for no name.
CONFIG = ALL + '[timeouts]\nrequest = "2s"\nconnect = "1s"\n[upstream]\nreuse = "never"\n'

# By the reason that logs and metrics give; tests/netns/test_guard.py holds the converter to the whole list.
BROADCAST = "203.0.113.255"
"""Of an own network."""
SPECIAL = f"""127.0.0.1 169.254.169.254 240.0.0.1 10.0.1.1 10.0.2.1 10.7.0.2 100.64.0.1 ::1 fe80::1 fec0::1 fd00:1::1
    ::ffff:127.0.0.1 64:ff9b::a9fe:a9fe 2002:a00:1::1 {BROADCAST}"""
OWN = "203.0.113.1 192.0.2.1 2001:db8::1 2001:db8:5::1 ::ffff:203.0.113.1"
# Hosts that the C library takes for addresses, and that are names by RFC 3986 section 3.2.2.
NUMERIC = ["2130706433", "0x7f.1", "127.0.0.01"]


@contextmanager
def accounted(converter: Converter, kind: str, target: str, reason: str) -> Iterator[None]:
    """In the block a counter moves by one, and a line says of whom and why."""
    wanted = {"listener": LISTENER[kind], "target": target, "outcome": reason}
    counted, lines = converter.outcomes(LISTENER[kind]).get(reason, 0), len(converter.lines())
    yield
    assert converter.outcomes(LISTENER[kind]).get(reason, 0) == counted + 1
    eventually(lambda: any(wanted.items() <= line.items() for line in converter.lines()[lines:]))


def shown(host: str, port: int) -> str:
    """As the access log shows a target."""
    if ":" not in host:
        return f"{host}:{port}"
    mapped = host.startswith("::ffff:") and ":0:" not in host
    return f"[{host if mapped else ip_address(host)}]:{port}"


def can_be_asked(kind: str, host: str) -> bool:
    """Whether the client's own kernel lets a packet to this address out, which a transparent listener could meet."""
    if kind not in TRANSPARENT:
        return True
    if (kind, host) in (("redirect", "fec0::1"), ("tproxy", BROADCAST)):
        return False
    kernel_keeps = ("0.", "127.", "224.", "239.", "255.", "::1", "::ffff:", "::127", "fe80", "ff0", "10.0.2.1")
    return host != "::" and not host.startswith(kernel_keeps)


@pytest.mark.parametrize("host", [SERVER, SERVER6])
@PROTOCOLS
@ALL_KINDS
def test_what_is_allowed_leaves_one_syn_without_mptcp(net: World, kind: str, protocol: int, host: str) -> None:
    """The control for all others: the wire is watched, and what an allowed target gets is seen on it."""
    with net.serving(SERVICE[kind]) as service:
        assert net.hears(kind, host, service.port, protocol) == SERVED[kind]
        assert net.syns_to_servers() == [Syn("origins", host, service.port, with_mptcp=False)]


REFUSALS = [
    (kind, host, reason)
    for reason, hosts in (("special-address", SPECIAL), ("own-address", OWN))
    for kind in KINDS
    for host in hosts.split()
    if can_be_asked(kind, host)
]


@pytest.mark.parametrize(("kind", "host", "reason"), REFUSALS)
def test_forbidden_address_is_refused(net: World, running: Converter, kind: str, host: str, reason: str) -> None:
    # Convert has its own form of addresses, in which IPv4 ones are mapped; some cannot be a peer's (section 6.2.4).
    impossible = kind == "convert" and is_no_peer(host)
    reason = "malformed" if impossible else reason
    mapped = kind in ("convert", *TRANSPARENT) and ":0:" not in host
    plain = host.removeprefix("::ffff:") if mapped else host
    with accounted(running, kind, "" if impossible else shown(plain, 8080), reason):
        assert net.hears(kind, host, 8080) == ("convert 1" if impossible else FORBIDDEN[kind])
    assert net.syns_to_servers() == []


@pytest.mark.parametrize("host", NUMERIC)
@NAMED_KINDS
def test_numeric_disguise_is_neither_an_address_nor_a_name(net: World, kind: str, host: str) -> None:
    net.names.records[host] = ["127.0.0.1"]
    assert net.hears(kind, host, 8080) == {"socks5": "socks 4"}.get(kind, "400")
    assert (net.syns_to_servers(), net.names.asked) == ([], [])


@ALL_KINDS
def test_mail_is_refused(net: World, running: Converter, kind: str) -> None:
    with accounted(running, kind, f"{SERVER}:25", "port"):
        assert net.hears(kind, SERVER, 25) == FORBIDDEN[kind]
    assert net.syns_to_servers() == []


@ALL_KINDS
@pytest.mark.parametrize("address", ["198.51.100.7", "2001:db8:77::7"])
def test_own_address_is_known_as_soon_as_it_is_there(net: World, kind: str, address: str) -> None:
    family, at_once = ("-6", " nodad") if ":" in address else ("-4", "")
    with net.added(net.gateway, family, "address", f"{address} dev lo{at_once}"):
        assert net.hears(kind, address, 8080) == FORBIDDEN[kind]
        assert net.syns_to_servers() == []


@ALL_KINDS
def test_private_network_is_reached_once_it_is_allowed_and_a_denied_one_is_not(
    net: World, running: Converter, kind: str
) -> None:
    with net.serving(SERVICE[kind]) as service:
        targets = f'[targets]\nallow = ["10.7.0.0/16"]\ndeny = ["{SERVER}/32"]\n'
        with running.reloaded(CONFIG + targets):
            assert net.hears(kind, SERVER_PRIVATE, service.port) == SERVED[kind]
            assert {syn.target for syn in net.syns_to_servers()} == {SERVER_PRIVATE}
            with accounted(running, kind, f"{SERVER}:{service.port}", "denied"):
                assert net.hears(kind, SERVER, service.port) == FORBIDDEN[kind]
        assert net.hears(kind, SERVER_PRIVATE, service.port) == FORBIDDEN[kind]
        assert net.syns_to_servers() == []


@ALL_KINDS
def test_own_address_is_reached_when_it_is_allowed_alone_and_never_at_a_listener(
    net: World, running: Converter, kind: str
) -> None:
    with running.reloaded(CONFIG + f'[targets]\nallow = ["{GATEWAY}/32"]\n'):
        for port in PORTS.values():
            if kind not in TRANSPARENT:
                assert net.hears(kind, GATEWAY, port) == FORBIDDEN[kind]
        assert net.syns_to_servers() == []
        # Nobody listens there: the attempt is made, and refused by the gateway's own kernel.
        assert net.hears(kind, GATEWAY, 4444) == REFUSED[kind]
        assert [syn.port for syn in net.syns_to_servers()] == [4444]
    with running.reloaded(CONFIG + '[targets]\nallow = ["10.0.0.0/8"]\n'):
        assert net.hears(kind, GATEWAY, 4444) == FORBIDDEN[kind]
        assert net.syns_to_servers() == []


@pytest.mark.parametrize(
    ("name", "records", "reason"),
    [
        ("loopback.test", ["127.0.0.1"], "special-address"),
        ("private.test", [SERVER_PRIVATE, "fd00:ec2::254"], "special-address"),
        ("own.test", ["203.0.113.1", "2001:db8::1"], "own-address"),
    ],
)
@NAMED_KINDS
def test_name_with_forbidden_addresses_is_refused(
    net: World, running: Converter, kind: str, name: str, records: list[str], reason: str
) -> None:
    net.names.records[name] = list(records)
    with accounted(running, kind, f"{name}:8080", reason):
        assert net.hears(kind, name, 8080) == FORBIDDEN[kind]
    assert net.syns_to_servers() == []


@NAMED_KINDS
def test_of_a_mixed_name_only_what_is_allowed_is_tried(net: World, kind: str) -> None:
    net.names.records["mixed.test"] = ["127.0.0.1", "::1", SERVER_PRIVATE, SERVER]
    with net.serving(SERVICE[kind]) as service:
        assert net.hears(kind, "mixed.test", service.port) == SERVED[kind]
    assert {syn.target for syn in net.syns_to_servers()} == {SERVER}


@NAMED_KINDS
def test_answer_that_changes_between_two_questions_reaches_nobody_but_the_first(net: World, kind: str) -> None:
    """DNS rebinding: the address that was checked is the one that is connected to."""
    asked = count()

    def changing() -> list[str]:
        """Right for the first look-up, of both families, and wrong from then on."""
        return [SERVER] if next(asked) < 2 else ["127.0.0.1"]

    net.names.records["rebinding.test"] = changing
    with net.serving(SERVICE[kind]) as service:
        assert net.hears(kind, "rebinding.test", service.port) == SERVED[kind]
        assert [kind_of for _, kind_of in sorted(net.names.asked)] == [1, 28]
        assert {syn.target for syn in net.syns_to_servers()} == {SERVER}
        assert net.hears(kind, "rebinding.test", service.port) == FORBIDDEN[kind]
        assert net.syns_to_servers() == []


@NAMED_KINDS
def test_name_that_nobody_has_is_told_as_such(net: World, kind: str) -> None:
    assert net.hears(kind, "nobody.test", 8080) == {"socks5": "socks 4"}.get(kind, "502")
    assert net.syns_to_servers() == []


@PROTOCOLS
@pytest.mark.parametrize("source", [STRANGER, STRANGER6])
@ALL_KINDS
def test_stranger_is_refused(net: World, running: Converter, kind: str, source: str, protocol: int) -> None:
    before = running.outcomes(LISTENER[kind]).get("client-not-allowed", 0)
    with net.serving(greet) as service:
        target = SERVER6 if ":" in source else SERVER
        assert net.hears(kind, target, service.port, protocol, source=source) == NO_CLIENT[kind]
        assert service.peers == []
    assert running.outcomes(LISTENER[kind])["client-not-allowed"] == before + 1
    assert net.syns_to_servers() == []


# What the gateway itself sends to the port comes back to a listener of its own.
LOOPS = {
    "tproxy": f"""table inet loop {{
        chain output {{
            type route hook output priority mangle;
            tcp dport 8888 meta mark set 1;
        }}
        chain prerouting {{
            type filter hook prerouting priority mangle;
            iif lo tcp dport 8888 tproxy to :{PORTS["tproxy"]} meta mark set 1 accept;
        }}
    }}""",
    "redirect": f"""table inet loop {{
        chain output {{
            type nat hook output priority -100;
            tcp dport 8888 redirect to :{PORTS["redirect"]};
        }}
    }}""",
}


@pytest.mark.parametrize("host", [SERVER, SERVER6])
@pytest.mark.parametrize("how", TRANSPARENT)
@ALL_KINDS
def test_converter_whose_own_connections_come_back_to_it_makes_one_alone(
    net: World, running: Converter, kind: str, how: str, host: str
) -> None:
    before = running.outcomes(how).get("loop", 0)
    # Without its own addresses among the clients' it would be a stranger to itself.
    networks = CONFIG.replace('"fd00::/8"', '"fd00::/8", "203.0.113.0/24", "2001:db8::/64"')
    with net.ruled(LOOPS[how]), running.reloaded(networks):
        heard = net.hears(kind, host, 8888)
    assert heard in ("reset", "502", "closed", "socks 5", "convert 96")
    assert running.outcomes(how)["loop"] == before + 1
    assert len(net.syns_to_servers()) == 1
