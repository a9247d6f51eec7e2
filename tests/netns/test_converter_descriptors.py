"""The native converter's descriptors: its limit of connections holds whatever each of them needs besides."""

import socket
import time
from contextlib import ExitStack

import pytest

from tests.netns.converter_clients import hears, proxy, socks_request
from tests.netns.converter_services import greet
from tests.netns.converter_world import ALL, METRICS, SERVER, Converter, World, leave_files, needs_tools
from tests.netns.world import eventually

pytestmark = needs_tools

SLOW = [f"198.51.100.{number}" for number in range(1, 9)]
# The server is on the way to them, and lets nothing on.
HOLE = "table inet hole { chain forward { type filter hook forward priority 0; ip daddr 198.51.100.0/24 drop; }; }"


def test_scrape_and_status_that_cannot_be_accepted_take_no_processor_time(conv: World) -> None:
    with conv.converter(ALL) as converter, ExitStack() as stack:
        leave_files(converter, 0)
        with conv.gateway.entered():
            scrape = stack.enter_context(socket.create_connection(("127.0.0.1", METRICS), timeout=10))
        asking = stack.enter_context(socket.socket(socket.AF_UNIX))
        asking.settimeout(10)
        asking.connect(str(converter.directory / "control"))
        scrape.sendall(b"GET /metrics HTTP/1.1\r\nHost: metrics\r\n\r\n")
        time.sleep(0.2)
        before = converter.cpu_seconds()
        time.sleep(1)
        assert converter.cpu_seconds() - before < 0.2
        leave_files(converter, 1000)
        assert scrape.recv(12) == b"HTTP/1.1 200"
        assert asking.recv(1) == b"{"


def ask(conv: World, kind: str, stack: ExitStack) -> None:
    """A client that has asked for what nobody answers, and waits."""
    client = stack.enter_context(proxy(conv, kind))
    requests = {
        "connect": b"CONNECT slow.test:80 HTTP/1.1\r\nHost: slow.test\r\n\r\n",
        "socks5": b"\5\1\0" + socks_request("slow.test", 80),
    }
    client.sendall(requests[kind])


@pytest.mark.parametrize("kind", ["connect"])
def test_every_connection_there_may_be_can_race_to_eight_addresses_and_descriptors_remain(
    conv: World, kind: str
) -> None:
    conv.names.records["slow.test"] = SLOW
    conv.nft(HOLE, conv.server)
    config = ALL + '[timeouts]\nconnect = "4s"\n'
    try:
        with conv.converter(config, None, "prlimit", "--nofile=512:512") as converter, ExitStack() as stack:
            most = converter.status()["most_connections"]
            assert most > 100
            for _ in range(most):
                ask(conv, kind, stack)
            eventually(lambda: converter.status()["open_connections"] == most)
            # A new attempt starts each quarter of a second (RFC 8305 section 5).
            seen = [sample(converter) for _ in range(6)]
            assert max(seen) < 512 - 16
            assert converter.metrics()["tributary_converter_accept_pauses_total"] == 0
            refused = {listener: converter.outcomes(listener) for listener in ("http", "socks5")}
            assert not any("exhausted" in outcomes for outcomes in refused.values())
    finally:
        conv.nft("delete table inet hole", conv.server)


def test_connections_that_race_to_silent_servers_keep_no_name_waiting(conv: World) -> None:
    conv.names.records.update({"slow.test": SLOW, "quick.test": [SERVER]})
    conv.nft(HOLE, conv.server)
    try:
        with (
            conv.converter(ALL, None, "prlimit", "--nofile=512:512") as converter,
            conv.serving(greet) as service,
            ExitStack() as stack,
        ):
            before = converter.idle_descriptors()
            for _ in range(40):
                ask(conv, "connect", stack)
            # Two for each connection, and half of an eighth of all for further attempts.
            eventually(lambda: converter.descriptors() >= before + 2 * 40 + 32)
            begin = time.monotonic()
            assert hears(conv, "connect", "quick.test", service.port) == "hello"
            assert time.monotonic() - begin < 1
    finally:
        conv.nft("delete table inet hole", conv.server)


def sample(converter: Converter) -> int:
    """Open files, half a second later."""
    time.sleep(0.5)
    return converter.descriptors()


def test_converter_whose_output_nobody_reads_serves_all_the_same(conv: World) -> None:
    closed = ("bash", "-c", 'exec > >(:); sleep 0.3; exec "$@"', "bash")
    with conv.converter(ALL, None, *closed) as converter, conv.serving(greet) as service:
        assert hears(conv, "connect", SERVER, service.port) == "hello"
        assert "standard output: Broken pipe" in converter.log
