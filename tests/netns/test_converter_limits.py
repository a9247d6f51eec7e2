"""At its limits the native converter refuses new work clearly, and old work goes on."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.netns.converter_clients import ALL_KINDS, hears, joined, request, take_head
from tests.netns.converter_services import SERVED, SERVICE
from tests.netns.converter_world import ALL, GATEWAY, PORTS, SERVER, World, needs_tools, start

pytestmark = needs_tools

FULL = {
    "connect": "503",
    "absolute": "503",
    "socks5": "socks method 0xff",
    "convert": "convert 64",
    "tproxy": "reset",
    "redirect": "reset",
}


@pytest.mark.parametrize(
    ("key", "reason"), [("connections = 3", "full"), ("connections_per_client = 3", "client-full")]
)
@ALL_KINDS
def test_at_a_cap_new_work_is_refused_clearly_and_old_work_goes_on(
    conv: World, kind: str, key: str, reason: str
) -> None:
    with conv.converter(ALL + f"[limits]\n{key}\n") as converter, conv.serving(SERVICE[kind]) as service:
        with ExitStack() as stack:
            pairs = [stack.enter_context(joined(conv, "connect")) for _ in range(3)]
            assert converter.status()["open_connections"] == 3
            assert hears(conv, kind, SERVER, service.port) == FULL[kind]
            assert service.peers == []
            assert sum(converter.outcomes(name).get(reason, 0) for name in PORTS) == 1
            for client, server in pairs:
                client.sendall(b"x")
                assert server.recv(1) == b"x"
            if reason == "client-full":
                other = conv.connect(GATEWAY, PORTS["http"], source="10.0.2.2")
                other.sendall(request("absolute", GATEWAY, 1))
                assert take_head(other).startswith(b"HTTP/1.1 403 ")
                other.close()
        converter.wait_until_idle()
        assert hears(conv, kind, SERVER, service.port) == SERVED[kind]


def test_more_connections_than_open_files_are_refused_as_a_setting(conv: World) -> None:
    with tempfile.TemporaryDirectory(dir=conv.directory) as directory:
        refused = start(conv.gateway, Path(directory), ALL + "[limits]\nconnections = 1000000000\n")
        assert refused.popen.wait(10) == 71
        assert "limits.connections" in refused.log
