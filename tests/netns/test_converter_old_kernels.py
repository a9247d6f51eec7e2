"""The native converter on kernels that do not know socket options which only make connections quicker."""

import socket
import sys
import tomllib

import pytest

from tests.netns import refusing_options
from tests.netns.connections import MPTCP, TCP, take
from tests.netns.converter_clients import KINDS
from tests.netns.converter_nodes import NODES, node, via
from tests.netns.converter_process import SERVER
from tests.netns.converter_services import SERVED, SERVICE, echo, greet
from tests.netns.converter_world import ALL, World
from tests.netns.world import eventually
from tributary.paths import ROOT

_IP, _TCP, _SOCKET = socket.IPPROTO_IP, socket.IPPROTO_TCP, socket.SOL_SOCKET
OPTIONAL = {
    "TCP_FASTOPEN": (_TCP, 23),
    "TCP_FASTOPEN_NO_COOKIE": (_TCP, 34),
    "TCP_FASTOPEN_CONNECT": (_TCP, 30),
    "TCP_NODELAY": (_TCP, socket.TCP_NODELAY),
    "TCP_KEEPIDLE": (_TCP, socket.TCP_KEEPIDLE),
    "TCP_KEEPINTVL": (_TCP, socket.TCP_KEEPINTVL),
    "SO_KEEPALIVE": (_SOCKET, socket.SO_KEEPALIVE),
    "IP_BIND_ADDRESS_NO_PORT": (_IP, 24),
}
NEEDED = {"SO_MARK": (_SOCKET, 36), "IPV6_V6ONLY": (41, 26), "IPV6_TRANSPARENT": (41, 75), "SO_REUSEADDR": (_SOCKET, 2)}
ENOPROTOOPT = "Protocol not available"


def without(*options: tuple[int, int]) -> tuple[str, ...]:
    """What runs a program on a kernel that refuses these options."""
    named = (f"{level}:{name}" for level, name in options)
    return (sys.executable, refusing_options.__file__, *named, "--")


@pytest.mark.parametrize(
    ("kind", "protocol"),
    # Connections that are redirected are plain TCP.
    [(kind, protocol) for kind in KINDS for protocol in (TCP, MPTCP) if (kind, protocol) != ("redirect", MPTCP)],
)
def test_options_that_the_kernel_does_not_know_cost_a_line_in_the_log(conv: World, kind: str, protocol: int) -> None:
    """Debian 12's kernel refuses TCP_FASTOPEN on MPTCP sockets, others TCP_KEEPIDLE or TCP_NODELAY."""
    settings = '[upstream]\nfast_open = true\nsource4 = "10.7.0.1"\n'
    with (
        conv.converter(ALL + settings, *without(*OPTIONAL.values())) as converter,
        conv.serving(SERVICE[kind]) as service,
        conv.serving(echo) as echoing,
    ):
        for _ in range(2):
            assert conv.hears(kind, SERVER, service.port, protocol) == SERVED[kind]
        told_early = kind in ("connect", "socks5", "convert")
        if told_early:
            with conv.opened(kind, SERVER, echoing.port, protocol, early=b"early") as client:
                assert take(client, 5) == b"early"
        for name in OPTIONAL:
            # In its first connection with early data alone.
            times = 1 if name != "TCP_FASTOPEN_CONNECT" or told_early else 0
            assert converter.log.count(f"the kernel refuses {name}: {ENOPROTOOPT}") == times, name


def test_a_next_converter_is_reached_without_data_in_the_syn_where_the_kernel_has_none(conv: World) -> None:
    config = via(NODES["first"], "fast_open = true", 'fallback = "refuse"')
    with (
        node(conv, "first"),
        conv.converter(config, *without(*OPTIONAL.values())) as converter,
        conv.serving(greet) as service,
    ):
        assert conv.hears("connect", SERVER, service.port) == "hello"
        assert "the kernel refuses TCP_FASTOPEN_CONNECT" in converter.log


@pytest.mark.parametrize("name", ["IPV6_V6ONLY", "IPV6_TRANSPARENT", "SO_REUSEADDR"])
def test_an_option_without_which_a_listener_would_be_another_is_refused_by_name(conv: World, name: str) -> None:
    assert f"{name}: {ENOPROTOOPT}" in conv.refused(ALL, 71, *without(NEEDED[name]))


def test_a_connection_that_cannot_have_its_mark_is_none(conv: World) -> None:
    with conv.converter(ALL + "[upstream]\nmark = 7\n", *without(NEEDED["SO_MARK"])) as converter:
        assert conv.hears("connect", SERVER, 80) == "502"
        assert eventually(converter.lines)[-1]["outcome"] == "system"
        assert conv.syns_to_servers() == []


def test_the_shipped_gateways_example_starts_on_such_a_kernel(conv: World) -> None:
    text = (ROOT / "converter/examples/gateway.toml").read_text()
    tables = tomllib.loads(text)
    assert {each["kind"] for each in tables["listen"]} == {"http", "socks5", "convert"}
    kept = text.replace("/var/log/tributary-converter/access.log", "-").replace(":9465", ":9090")
    with conv.converter(kept, *without(*OPTIONAL.values())), conv.serving(greet) as service:
        assert conv.hears("connect", SERVER, service.port) == "hello"
