"""The native converter asks for routes as its connections will have them: with their mark and source address."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from experiments.testbed.node import Node
from tests.netns.converter_clients import ALL_KINDS, FORBIDDEN, hears
from tests.netns.converter_services import SERVED, SERVICE
from tests.netns.converter_world import ALL, SERVER, SERVER6, World, needs_tools
from tests.netns.guard_world import PORT, PUBLIC

pytestmark = needs_tools

FAR, FAR6 = "198.51.100.7", "2001:db8:7::7"
TABLE = "77"
RULES = {
    "mark": (("fwmark", "77"), ("fwmark", "77"), "mark = 77"),
    "source": (("from", PUBLIC), ("from", "2001:db8::1"), f'source4 = "{PUBLIC}"\nsource6 = "2001:db8::1"'),
}


@pytest.fixture(params=RULES)
def settings(conv: World, request: pytest.FixtureRequest) -> Iterator[str]:
    """The gateway with a default route for connections of these settings alone."""
    four, six, upstream = RULES[request.param]
    with ExitStack() as stack:
        # The kernel looks for the way back without the mark (rp_filter).
        conv.gateway.sysctl(net__ipv4__conf__all__rp_filter=0, net__ipv4__conf__origins__rp_filter=0)
        stack.callback(conv.gateway.sysctl, net__ipv4__conf__all__rp_filter=2)
        for family, rule, via, far in (("-4", four, SERVER, f"{FAR}/32"), ("-6", six, SERVER6, f"{FAR6}/128")):
            conv.server.ip("address", "add", far, "dev", "lo")
            stack.callback(conv.server.ip, "address", "delete", far, "dev", "lo")
            conv.gateway.ip(family, "route", "delete", "default")
            stack.callback(conv.gateway.ip, family, "route", "add", "default", "via", via)
            conv.gateway.ip(family, "route", "add", "default", "via", via, "table", TABLE)
            stack.callback(conv.gateway.ip, family, "route", "flush", "table", TABLE)
            conv.gateway.ip(family, "rule", "add", *rule, "lookup", TABLE)
            stack.callback(conv.gateway.ip, family, "rule", "delete", *rule, "lookup", TABLE)
        yield f"[upstream]\n{upstream}\n"


@ALL_KINDS
def test_target_with_a_route_for_its_mark_or_source_alone_is_reached(conv: World, settings: str, kind: str) -> None:
    with conv.converter(ALL + settings), conv.serving(SERVICE[kind]) as service:
        for host in (FAR, FAR6):
            assert hears(conv, kind, host, service.port) == SERVED[kind]


@pytest.mark.parametrize("kind", ["connect", "absolute", "socks5", "convert"])
def test_own_address_is_known_with_a_mark_and_a_source_as_well(conv: World, settings: str, kind: str) -> None:
    with conv.converter(ALL + settings):
        conv.syns()
        for host in (PUBLIC, "2001:db8::1"):
            assert hears(conv, kind, host, PORT) == FORBIDDEN[kind]
        assert conv.syns_to_servers() == []


@pytest.mark.parametrize("kind", ["connect", "socks5", "convert"])
def test_address_that_becomes_the_machines_own_is_refused_while_it_is(conv: World, kind: str) -> None:
    with address(conv.server, FAR), conv.converter(ALL), conv.serving(SERVICE[kind]) as service:
        for _ in range(3):
            assert hears(conv, kind, FAR, service.port) == SERVED[kind]
            with address(conv.gateway, FAR):
                assert hears(conv, kind, FAR, service.port) == FORBIDDEN[kind]


@contextmanager
def address(node: Node, own: str) -> Iterator[None]:
    """One more address of the node."""
    node.ip("address", "add", f"{own}/32", "dev", "lo")
    try:
        yield
    finally:
        node.ip("address", "delete", f"{own}/32", "dev", "lo")
