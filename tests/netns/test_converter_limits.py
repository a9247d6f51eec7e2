"""At its limits the native converter refuses new work clearly, and old work goes on."""

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.netns.converter_clients import (
    ALL_KINDS,
    KINDS,
    LISTENER,
    TRANSPARENT,
    TUNNELS,
    Refused,
    clog,
    hears,
    joined,
    opened,
    read_all,
    request,
    reset,
    take,
    take_head,
)
from tests.netns.converter_services import SERVED, SERVICE, content, echo, greet
from tests.netns.converter_short_timeouts import BUFFER, TIMES, net, running
from tests.netns.converter_world import (
    ALL,
    GATEWAY,
    PORTS,
    SERVER,
    TCP,
    Converter,
    World,
    leave_files,
    needs_tools,
    start,
)
from tests.netns.world import eventually

__all__ = ["net", "running"]
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
    ("kind", "key", "reason"),
    [(kind, "connections = 3", "full") for kind in KINDS]
    + [(kind, "connections_per_client = 3", "client-full") for kind in ("connect", "convert")],
)
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


@pytest.mark.parametrize(
    ("kind", "way"),
    [("absolute", "down"), ("absolute", "up"), ("connect", "down"), ("convert", "up"), ("redirect", "down")],
)
def test_stalled_reader_holds_no_more_than_its_buffer(net: World, running: Converter, kind: str, way: str) -> None:
    resident = running.resident()
    with ExitStack() as stack:
        pairs = [stack.enter_context(joined(net, kind, TCP, way)) for _ in range(8)]
        writers = [client if way == "up" else server for client, server in pairs]
        pushed = sum(clog(writer, 0.05) for writer in writers)
        assert pushed > 8 * (1 << 20)
        held = running.status()["buffered_bytes"]
        assert 0 < held <= 8 * BUFFER
        assert running.resident() - resident < 8 * BUFFER + (4 << 20)
        busy = running.cpu_seconds()
        time.sleep(0.3)
        assert running.cpu_seconds() - busy < 0.05
    running.wait_until_idle()
    assert running.status()["buffered_bytes"] == 0


def all_clogged(converter: Converter) -> bool:
    """Whether nothing has moved for a while."""
    before = converter.status()
    time.sleep(0.2)
    after = converter.status()
    return [one["down_bytes"] for one in before["connections"]] == [one["down_bytes"] for one in after["connections"]]


def test_when_slow_readers_hold_all_memory_new_work_is_refused_and_old_work_ends_whole(conv: World) -> None:
    config = ALL + TIMES + '[limits]\nbuffer = "64KiB"\nbuffered = "16KiB"\n'
    size, begin = 64 << 20, threading.Event()

    def push(connection: socket.socket) -> None:
        begin.wait(10)
        connection.sendall(bytes(size))

    with conv.converter(config) as converter, conv.serving(push) as service, ExitStack() as stack:
        clients = [stack.enter_context(opened(conv, kind, SERVER, service.port)) for kind in TUNNELS[:3] * 3]
        begin.set()
        eventually(lambda: all_clogged(converter))
        assert 16 << 10 <= converter.status()["buffered_bytes"] <= len(clients) * BUFFER
        heard = {kind: hears(conv, kind, SERVER, service.port) for kind in KINDS}
        assert heard == FULL
        assert converter.outcomes("socks5")["buffers-full"] == 1
        for client in clients:
            data, ended = read_all(client)
            assert (len(data), ended) == (size, "closed"), converter.lines()
        converter.wait_until_idle()
        with opened(conv, "connect", SERVER, service.port) as client:
            assert len(read_all(client)[0]) == size


def test_one_client_that_reads_nothing_takes_its_share_of_the_memory_and_others_are_served(conv: World) -> None:
    limits = '[limits]\nbuffer = "64KiB"\nbuffered = "1MiB"\nbuffered_per_client = "32KiB"\n'
    begin = threading.Event()

    def push(connection: socket.socket) -> None:
        begin.wait(10)
        connection.sendall(bytes(64 << 20))

    with (
        conv.converter(ALL + TIMES + limits) as converter,
        conv.serving(push) as pushing,
        conv.serving(greet) as service,
        ExitStack() as stack,
    ):
        for _ in range(8):
            stack.enter_context(opened(conv, "connect", SERVER, pushing.port))
        begin.set()
        eventually(lambda: converter.status()["buffered_bytes"] >= 32 << 10)
        # Its next connections are refused, and those that it has are read little by little.
        assert hears(conv, "connect", SERVER, service.port) == "503"
        assert hears(conv, "connect", SERVER, service.port, source="10.0.2.2") == "hello"
        assert converter.outcomes("http")["client-buffers-full"] == 1
        assert converter.status()["buffered_bytes"] <= 8 * BUFFER


@pytest.mark.parametrize("kind", ["connect", "redirect"])
def test_out_of_descriptors_accepting_pauses_without_spinning_and_recovers(conv: World, kind: str) -> None:
    conv.intercept(kind if kind in TRANSPARENT else "")
    heard: list[str] = []
    with (
        conv.converter(ALL + TIMES) as converter,
        conv.serving(echo) as echoing,
        conv.serving(content if kind == "absolute" else greet) as service,
        joined_by(conv, echoing.port) as old,
    ):
        waiting = [
            threading.Thread(target=lambda: heard.append(hears(conv, kind, SERVER, service.port))) for _ in range(4)
        ]
        leave_files(converter, 0)
        for client in waiting:
            client.start()
        time.sleep(0.2)
        before = converter.cpu_seconds()
        time.sleep(0.5)
        assert converter.cpu_seconds() - before < 0.1
        old.sendall(b"still here")
        with suppress(Refused):
            assert take(old, 10) == b"still here"
            old.settimeout(10)
        assert converter.lines() == []
        assert heard == []
        leave_files(converter, 1000)
        for client in waiting:
            client.join(10)
        assert heard == [SERVED[kind]] * 4
        assert converter.metrics()["tributary_converter_accept_pauses_total"] >= 2


@contextmanager
def joined_by(world: World, port: int) -> Iterator[socket.socket]:
    """A connection that stands, and whose first byte has gone through."""
    with opened(world, "connect", SERVER, port) as client:
        client.sendall(b"x")
        assert take(client, 1) == b"x"
        yield client


EXHAUSTED = {"socks5": "socks 1", "convert": "convert 64", "tproxy": "reset", "redirect": "reset"}


@ALL_KINDS
def test_without_a_descriptor_for_the_server_the_client_is_told(conv: World, kind: str) -> None:
    with conv.converter(ALL + TIMES) as converter, conv.serving(content if kind == "absolute" else greet) as service:
        assert hears(conv, kind, SERVER, service.port) == SERVED[kind]
        converter.wait_until_idle()
        leave_files(converter, 1)
        assert hears(conv, kind, SERVER, service.port) == EXHAUSTED.get(kind, "503")
        leave_files(converter, 1000)
        assert converter.outcomes(LISTENER[kind])["exhausted"] == 1
        assert hears(conv, kind, SERVER, service.port) == SERVED[kind]


@pytest.mark.parametrize("kind", ["connect", "absolute"])
def test_without_a_port_the_client_is_told_and_old_work_goes_on(net: World, kind: str) -> None:
    with net.serving(echo) as service, ExitStack() as stack:
        net.gateway.sysctl(net__ipv4__ip_local_port_range="40000 40003")
        stack.callback(net.gateway.sysctl, net__ipv4__ip_local_port_range="32768 60999")
        old = [stack.enter_context(joined_by(net, service.port)) for _ in range(4)]
        assert hears(net, kind, SERVER, service.port) == EXHAUSTED.get(kind, "503")
        for client in old:
            client.sendall(b"still here")
            assert take(client, 10) == b"still here"
        # A reset leaves no port behind in TIME-WAIT.
        reset(old[0])
        with eventually(lambda: admitted(net, service.port)) as client:
            client.sendall(b"y")
            assert take(client, 1) == b"y"


def admitted(world: World, port: int) -> socket.socket | None:
    """A connection through the converter, if there is one to be had."""
    with suppress(Refused):
        return opened(world, "connect", SERVER, port)
    return None
