import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.netns.connections import TCP, Refused, clog, passes, read_all, reset, take, take_head
from tests.netns.converter_clients import ALL_KINDS, EXHAUSTED, FULL, KINDS, LISTENER, TRANSPARENT, TUNNELS, request
from tests.netns.converter_process import METRICS, SERVER
from tests.netns.converter_services import SERVED, SERVICE, Handler, content, echo, greet
from tests.netns.converter_world import ALL, BUFFER, GATEWAY, PORTS, SHORT_TIMEOUTS, TIMES, World
from tests.netns.world import eventually, settled, sysctl


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
            pairs = [stack.enter_context(conv.joined("connect")) for _ in range(3)]
            assert converter.status()["open_connections"] == 3
            assert conv.hears(kind, SERVER, service.port) == FULL[kind]
            assert service.peers == []
            assert sum(converter.outcomes(name).get(reason, 0) for name in PORTS) == 1
            for client, server in pairs:
                assert passes(client, server)
            if reason == "client-full":
                other = conv.connect(GATEWAY, PORTS["http"], source="10.0.2.2")
                other.sendall(request("absolute", GATEWAY, 1))
                assert take_head(other).startswith(b"HTTP/1.1 403 ")
                other.close()
        converter.wait_until_idle()
        assert conv.hears(kind, SERVER, service.port) == SERVED[kind]


def test_more_connections_than_open_files_are_refused_as_a_setting(conv: World) -> None:
    assert "limits.connections" in conv.refused(ALL + "[limits]\nconnections = 1000000000\n", 71)


@pytest.mark.parametrize(
    ("kind", "way"),
    [("absolute", "down"), ("absolute", "up"), ("connect", "down"), ("convert", "up"), ("redirect", "down")],
)
def test_stalled_reader_holds_no_more_than_its_buffer(conv: World, kind: str, way: str) -> None:
    with conv.converter(SHORT_TIMEOUTS) as converter:
        resident = converter.resident()
        with ExitStack() as stack:
            pairs = [stack.enter_context(conv.joined(kind, TCP, way)) for _ in range(8)]
            writers = [client if way == "up" else server for client, server in pairs]
            pushed = sum(clog(writer, 0.05) for writer in writers)
            assert pushed > 8 * (1 << 20)
            assert 0 < converter.status()["buffered_bytes"] <= 8 * BUFFER
            assert converter.resident() - resident < 8 * BUFFER + (4 << 20)
            busy = converter.cpu_seconds()
            time.sleep(0.3)
            assert converter.cpu_seconds() - busy < 0.05
        converter.wait_until_idle()
        assert converter.status()["buffered_bytes"] == 0


def push(begin: threading.Event, size: int) -> Handler:
    """A service that sends so many bytes once it may."""

    def serve(connection: socket.socket) -> None:
        begin.wait(10)
        connection.sendall(bytes(size))

    return serve


def test_when_slow_readers_hold_all_memory_new_work_is_refused_and_old_work_ends_whole(conv: World) -> None:
    config = ALL + TIMES + '[limits]\nbuffer = "64KiB"\nbuffered = "16KiB"\n'
    size, begin = 64 << 20, threading.Event()
    with conv.converter(config) as converter, conv.serving(push(begin, size)) as service, ExitStack() as stack:
        clients = [stack.enter_context(conv.opened(kind, SERVER, service.port)) for kind in TUNNELS[:3] * 3]
        begin.set()
        settled(lambda: [one["down_bytes"] for one in converter.status()["connections"]], 10)
        assert 16 << 10 <= converter.status()["buffered_bytes"] <= len(clients) * BUFFER
        heard = {kind: conv.hears(kind, SERVER, service.port) for kind in KINDS}
        assert heard == FULL
        assert converter.outcomes("socks5")["buffers-full"] == 1
        for client in clients:
            data, ended = read_all(client)
            assert (len(data), ended) == (size, "closed"), converter.lines()
        converter.wait_until_idle()
        with conv.opened("connect", SERVER, service.port) as client:
            assert len(read_all(client)[0]) == size


def test_one_client_that_reads_nothing_takes_its_share_of_the_memory_and_others_are_served(conv: World) -> None:
    limits = '[limits]\nbuffer = "64KiB"\nbuffered = "1MiB"\nbuffered_per_client = "32KiB"\n'
    begin = threading.Event()
    with (
        conv.converter(ALL + TIMES + limits) as converter,
        conv.serving(push(begin, 64 << 20)) as pushing,
        conv.serving(greet) as service,
        ExitStack() as stack,
    ):
        for _ in range(8):
            stack.enter_context(conv.opened("connect", SERVER, pushing.port))
        begin.set()
        eventually(lambda: converter.status()["buffered_bytes"] >= 32 << 10)
        # Its next connections are refused, and those that it has are read little by little.
        assert conv.hears("connect", SERVER, service.port) == "503"
        assert conv.hears("connect", SERVER, service.port, source="10.0.2.2") == "hello"
        assert converter.outcomes("http")["client-buffers-full"] == 1
        assert converter.status()["buffered_bytes"] <= 8 * BUFFER


@pytest.mark.parametrize("kind", ["connect", "redirect"])
def test_out_of_descriptors_accepting_pauses_without_spinning_and_recovers(conv: World, kind: str) -> None:
    conv.intercept(kind if kind in TRANSPARENT else "")
    with (
        conv.converter(ALL + TIMES) as converter,
        conv.serving(echo) as echoing,
        conv.serving(SERVICE[kind]) as service,
        joined_by(conv, echoing.port) as old,
        ThreadPoolExecutor(4) as threads,
    ):
        converter.leave_files(0)
        waiting = [threads.submit(conv.hears, kind, SERVER, service.port) for _ in range(4)]
        time.sleep(0.2)
        before = converter.cpu_seconds()
        time.sleep(0.5)
        assert converter.cpu_seconds() - before < 0.1
        old.sendall(b"still here")
        with suppress(Refused):
            assert take(old, 10) == b"still here"
            old.settimeout(10)
        assert converter.lines() == []
        assert not any(each.done() for each in waiting)
        converter.leave_files(1000)
        assert [each.result(10) for each in waiting] == [SERVED[kind]] * 4
        assert converter.metrics()["tributary_converter_accept_pauses_total"] >= 2


@contextmanager
def joined_by(world: World, port: int) -> Iterator[socket.socket]:
    """A connection that stands, and whose first byte has gone through."""
    with world.opened("connect", SERVER, port) as client:
        assert passes(client, client)
        yield client


@ALL_KINDS
def test_without_a_descriptor_for_the_server_the_client_is_told(conv: World, kind: str) -> None:
    # Of a response that is not read to its end no connection is kept, which would need no new descriptor.
    handler = content if kind == "absolute" else greet
    with conv.converter(ALL + TIMES) as converter, conv.serving(handler) as service:
        assert conv.hears(kind, SERVER, service.port) == SERVED[kind]
        converter.wait_until_idle()
        converter.leave_files(1)
        assert conv.hears(kind, SERVER, service.port) == EXHAUSTED[kind]
        converter.leave_files(1000)
        assert converter.outcomes(LISTENER[kind])["exhausted"] == 1
        assert conv.hears(kind, SERVER, service.port) == SERVED[kind]


@pytest.mark.parametrize("kind", ["connect", "absolute"])
def test_without_a_port_the_client_is_told_and_old_work_goes_on(conv: World, kind: str) -> None:
    few = sysctl(conv.gateway, net__ipv4__ip_local_port_range="40000 40003")
    with conv.converter(SHORT_TIMEOUTS), conv.serving(echo) as service, few, ExitStack() as stack:
        old = [stack.enter_context(joined_by(conv, service.port)) for _ in range(4)]
        assert conv.hears(kind, SERVER, service.port) == EXHAUSTED[kind]
        for client in old:
            assert passes(client, client, b"still here")
        # A reset leaves no port behind in TIME-WAIT.
        reset(old[0])
        with eventually(lambda: admitted(conv, service.port)) as client:
            assert passes(client, client, b"y")


def admitted(world: World, port: int) -> socket.socket | None:
    """A connection through the converter, if there is one to be had."""
    with suppress(Refused):
        return world.opened("connect", SERVER, port)
    return None


# --- Its limit of connections holds whatever descriptors each of them needs besides ---

SLOW = [f"198.51.100.{number}" for number in range(1, 9)]
# The server is on the way to them, and lets nothing on.
HOLE = ("ip daddr 198.51.100.0/24 drop", "forward")
FEW_FILES = ("prlimit", "--nofile=512:512")


def test_scrape_and_status_that_cannot_be_accepted_take_no_processor_time(conv: World) -> None:
    with conv.converter(ALL) as converter, ExitStack() as stack:
        converter.leave_files(0)
        scrape = stack.enter_context(conv.connect("127.0.0.1", METRICS, node=conv.gateway))
        asking = stack.enter_context(socket.socket(socket.AF_UNIX))
        asking.settimeout(10)
        asking.connect(str(converter.directory / "control"))
        scrape.sendall(b"GET /metrics HTTP/1.1\r\nHost: metrics\r\n\r\n")
        time.sleep(0.2)
        before = converter.cpu_seconds()
        time.sleep(1)
        assert converter.cpu_seconds() - before < 0.2
        converter.leave_files(1000)
        assert scrape.recv(12) == b"HTTP/1.1 200"
        assert asking.recv(1) == b"{"


def ask_for_slow(conv: World, stack: ExitStack) -> None:
    """A client that has asked for what nobody answers, and waits."""
    client = stack.enter_context(conv.proxy("connect"))
    client.sendall(b"CONNECT slow.test:80 HTTP/1.1\r\nHost: slow.test\r\n\r\n")


def test_every_connection_there_may_be_can_race_to_eight_addresses_and_descriptors_remain(conv: World) -> None:
    conv.names.records["slow.test"] = SLOW
    config = ALL + '[timeouts]\nconnect = "4s"\n'
    with conv.filtered(conv.server, *HOLE), conv.converter(config, *FEW_FILES) as converter, ExitStack() as stack:
        most = converter.status()["most_connections"]
        assert most > 100
        for _ in range(most):
            ask_for_slow(conv, stack)
        eventually(lambda: converter.status()["open_connections"] == most)
        # A new attempt starts each quarter of a second (RFC 8305 section 5).
        for _ in range(6):
            time.sleep(0.5)
            assert converter.descriptors() < 512 - 16
        assert converter.metrics()["tributary_converter_accept_pauses_total"] == 0
        assert "exhausted" not in converter.outcomes("http")


def test_connections_that_race_to_silent_servers_keep_no_name_waiting(conv: World) -> None:
    conv.names.records.update({"slow.test": SLOW, "quick.test": [SERVER]})
    with (
        conv.filtered(conv.server, *HOLE),
        conv.converter(ALL, *FEW_FILES) as converter,
        conv.serving(greet) as service,
        ExitStack() as stack,
    ):
        before = converter.idle_descriptors()
        for _ in range(40):
            ask_for_slow(conv, stack)
        # Two for each connection, and half of an eighth of all for further attempts.
        eventually(lambda: converter.descriptors() >= before + 2 * 40 + 32)
        begin = time.monotonic()
        assert conv.hears("connect", "quick.test", service.port) == "hello"
        assert time.monotonic() - begin < 1


def test_converter_whose_output_nobody_reads_serves_all_the_same(conv: World) -> None:
    closed = ("bash", "-c", 'exec > >(:); sleep 0.3; exec "$@"', "bash")
    with conv.converter(ALL, *closed) as converter, conv.serving(greet) as service:
        assert conv.hears("connect", SERVER, service.port) == "hello"
        assert "standard output: Broken pipe" in converter.log
