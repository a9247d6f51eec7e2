"""How the native converter ends: it lets transfers end, and lets nobody in; or it is killed, and replaced."""

import signal
import socket
import threading
import time
from contextlib import ExitStack

import pytest

from tests.netns.converter_clients import (
    ALL_KINDS,
    TUNNELS,
    clog,
    get,
    hears,
    joined,
    nobody_listens,
    proxy,
    read_all,
    seconds_to_reset,
    take,
    take_head,
)
from tests.netns.converter_messages import fields_of
from tests.netns.converter_services import greet
from tests.netns.converter_short_timeouts import SHORT_TIMEOUTS
from tests.netns.converter_world import ALL, MPTCP, PORTS, SERVER, World, needs_tools, start
from tests.netns.world import eventually

pytestmark = needs_tools


@ALL_KINDS
def test_drain_lets_transfers_end_and_nobody_in(conv: World, kind: str) -> None:
    begin = threading.Event()
    size = 4 << 20

    def late(connection: socket.socket) -> None:
        take_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        begin.wait(10)
        connection.sendall(bytes(size))

    with conv.converter(ALL + '[timeouts]\ndrain = "10s"\n') as converter, conv.serving(late) as service:
        with get(conv, kind, service.port, protocol=MPTCP) as client, proxy(conv, "absolute") as idle:
            take_head(client)
            conv.intercept("")
            converter.popen.terminate()
            eventually(lambda: converter.status()["draining"])
            for port in PORTS.values():
                eventually(lambda port=port: nobody_listens(conv, port))  # type: ignore[misc]
            assert converter.metrics()["tributary_converter_open_connections"] >= 1
            # Nobody waits for who has not asked for anything.
            assert read_all(idle) == (b"", "closed")
            if kind in ("tproxy", "redirect"):
                conv.intercept(kind)
            begin.set()
            assert len(take(client, size)) == size
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == (b"", "closed")
        assert converter.popen.wait(10) == 0
        assert not (converter.directory / "control").exists()


def test_answer_of_the_converter_itself_says_that_its_connection_ends_with_the_process(conv: World) -> None:
    with conv.converter(ALL) as converter, proxy(conv, "absolute") as client:
        client.sendall(b"OPTIONS * HTTP/1.1\r\n")
        eventually(lambda: converter.status()["buffered_bytes"] > 0)
        converter.popen.terminate()
        eventually(lambda: converter.status()["draining"])
        client.sendall(b"Host: converter\r\n\r\n")
        assert fields_of(take_head(client))[b"connection"] == b"close"
        assert read_all(client) == (b"", "closed")
        assert converter.popen.wait(10) == 0


@pytest.mark.parametrize("again", [False, True], ids=["deadline", "second-signal"])
def test_drain_ends_at_its_deadline_or_at_a_second_signal_by_resets(conv: World, again: bool) -> None:
    limit = "10s" if again else "500ms"
    with conv.converter(ALL + f'[timeouts]\ndrain = "{limit}"\n') as converter, ExitStack() as stack:
        pairs = [
            stack.enter_context(joined(conv, kind, MPTCP)) for kind in ("connect", "absolute", "socks5", "convert")
        ]
        said = bytes(1 << 16)
        for client, server in pairs:
            server.sendall(said)
            take(client, len(said))
        begin = time.monotonic()
        converter.popen.terminate()
        if again:
            eventually(lambda: converter.status()["draining"])
            converter.popen.send_signal(signal.SIGINT)
        assert converter.popen.wait(5) == 1
        assert (time.monotonic() - begin < 0.5) == again
        for client, server in pairs:
            assert seconds_to_reset(client) < 1
            assert seconds_to_reset(server) < 1
        assert "4 connections had not ended in time" in converter.log
        # Each has its line all the same: they were written before the process ended.
        lines = converter.lines()
        assert sorted(line["listener"] for line in lines) == ["convert", "http", "http", "socks5"]
        assert {line["outcome"] for line in lines} == {"shutdown"}
        assert all(line["target"].startswith(SERVER) and line["down_bytes"] >= len(said) for line in lines)
        assert all(line["paths"] for line in lines)
        converter.popen.returncode = 0


def test_killed_converter_is_replaced_at_once_and_its_clients_know(conv: World) -> None:
    with conv.converter(SHORT_TIMEOUTS) as first, joined(conv, "connect", MPTCP) as (client, server):
        clog(server)
        first.popen.send_signal(signal.SIGKILL)
        first.popen.wait()
        # Its control socket and its connections' ports are still there.
        assert (first.directory / "control").is_socket()
        second = start(conv.gateway, first.directory, SHORT_TIMEOUTS)
        try:
            eventually(lambda: second.popen.poll() is not None or "listening" in second.log.partition("redirect")[2])
            eventually(lambda: second.status()["pid"] == second.pid)
            with conv.serving(greet) as service:
                heard = {kind: hears(conv, kind, SERVER, service.port, MPTCP) for kind in TUNNELS}
            assert set(heard.values()) == {"hello"}
            assert seconds_to_reset(server) < 1
            assert read_all(client)[1] in ("closed", "reset")
        finally:
            second.popen.terminate()
            assert second.popen.wait(10) == 0
        # The block's end looks at the first one, which was killed.
        first.popen.returncode = 0
