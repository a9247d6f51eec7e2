"""What one client can make the native converter hold: ``limits.buffered``, and a fixed share of each connection's."""

import json
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.netns.connections import reset
from tests.netns.converter_clients import request
from tests.netns.converter_process import SERVER, Converter, run
from tests.netns.converter_world import ALL, CLIENT, GATEWAY, PORTS, World
from tests.netns.world import eventually

pytestmark = pytest.mark.slow

MANY = 4096
"""Connections, as many as one client may have."""
PIECE = 16 << 10
"""What a connection reads at a time once all is held."""
OVERHEAD = 12 << 10
"""Bytes of memory besides for each connection that asks for something: its tasks, its messages' heads."""
GAPS = 0.25
"""What the allocator keeps between buffers in use, as a share of them: buffers that grew, or were let go."""
LONG_TIMEOUTS = '[timeouts]\nrequest = "5m"\nidle = "5m"\n'
CONTENT = bytes(256 << 10)
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(CONTENT) + CONTENT


@pytest.fixture(scope="module")
def net(conv_built: World) -> World:
    """Kernels that hold little for a connection, so that the converter has to."""
    world = conv_built
    for node, takes in (world.client, 65536), (world.gateway, 65536), (world.server, 8192):
        node.sysctl(
            net__ipv4__tcp_rmem=f"4096 {takes} {takes}",
            net__ipv4__tcp_wmem="4096 16384 16384",
            net__core__somaxconn=MANY,
        )
    return world


@contextmanager
def origin(world: World, *, silent: bool) -> Iterator[int]:
    """A server for many, whose port is yielded: it says RESPONSE as soon as it is asked, or nothing, ever."""
    with world.server.entered():
        listener = socket.create_server((SERVER, 0), backlog=MANY)
    ended = threading.Event()
    serving = threading.Thread(target=respond_to_all, args=(listener, ended), daemon=True)
    if not silent:
        serving.start()
    try:
        yield listener.getsockname()[1]
    finally:
        ended.set()
        if not silent:
            serving.join()
        listener.close()


def respond_to_all(listener: socket.socket, ended: threading.Event) -> None:
    """One response for each connection, of which each takes what it can."""
    left: dict[socket.socket, memoryview] = {}
    listener.setblocking(False)
    with selectors.DefaultSelector() as selector, ExitStack() as stack:
        selector.register(listener, selectors.EVENT_READ)
        while not ended.is_set():
            for key, events in selector.select(0.1):
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                if connection is listener:
                    came = stack.enter_context(listener.accept()[0])
                    came.setblocking(False)
                    selector.register(came, selectors.EVENT_READ)
                elif events & selectors.EVENT_READ:
                    with suppress(OSError):
                        connection.recv(1 << 16)
                    left[connection] = memoryview(RESPONSE)
                    selector.modify(connection, selectors.EVENT_WRITE)
                else:
                    try:
                        left[connection] = left[connection][connection.send(left[connection]) :]
                    except OSError:
                        left[connection] = memoryview(b"")
                    if not left[connection]:
                        selector.unregister(connection)


def flood(clients: list[socket.socket], message: bytes) -> None:
    """Send each client's copy as far as the converter takes it."""
    left = dict.fromkeys(clients, memoryview(message))
    quiet = time.monotonic() + 1
    while left and time.monotonic() < quiet:
        for client, rest in list(left.items()):
            with suppress(BlockingIOError):
                try:
                    sent = client.send(rest)
                except ConnectionError:
                    sent = len(rest)
                quiet = time.monotonic() + 1
                left[client] = rest[sent:]
            if not left[client]:
                del left[client]


MANY_FIELDS = "a:\r\n" * (15 << 10)


def _large_head(port: int) -> bytes:
    return request("absolute", SERVER, port, fields="X: ")[:-2] + b"x" * (60 << 10)


WAYS: dict[str, tuple[int, Callable[[int], bytes]]] = {
    # Most of a head.
    "heads": (60 << 10, _large_head),
    # A whole request with a large head that nobody answers.
    "asked": (32 << 10, lambda port: _large_head(port) + b"\r\n\r\n"),
    # One of many short fields: to know where they lie takes more than they do.
    "fielded": (32 << 10, lambda port: request("absolute", SERVER, port, fields=MANY_FIELDS)),
    # The same for a tunnel, through which nothing goes: no head is held for its time.
    "tunnelled": (0, lambda port: f"CONNECT {SERVER}:{port} HTTP/1.1\r\nHost: x\r\n{MANY_FIELDS}\r\n".encode()),
    # A request, and as much as is taken behind it.
    "pipelined": (12 << 10, lambda port: request("absolute", SERVER, port) + bytes(256 << 10)),
    # A request whose response nobody reads.
    "unread": (6 << 10, lambda port: request("absolute", SERVER, port)),
}
"""What a connection holds at the least where nothing forbids it, and what its client sends. Of a response it is what a
read got beyond what the kernel took: the less, the busier the machine, since what waits longer lies closer in the
kernel's buffers."""


def status(converter: Converter) -> int:
    """As a user is told."""
    told = run("status", "--json", "--socket", str(converter.directory / "control"))
    return int(json.loads(told.stdout)["buffered_bytes"])


def told(client: socket.socket) -> bytes:
    """The status that is here, if one is."""
    with suppress(BlockingIOError, ConnectionError):
        return client.recv(12, socket.MSG_PEEK)[9:]
    return b""


def refused(client: socket.socket) -> bool:
    """Whether 503 is here."""
    return told(client) == b"503"


@pytest.mark.parametrize(
    ("megabytes", "way"),
    [*((64, way) for way in WAYS), (256, "heads")],
)
def test_one_client_holds_what_is_allowed_and_all_of_it_is_released(
    net: World, way: str, megabytes: int, record_property: Callable[[str, object], None]
) -> None:
    """A gibibyte is offered, or asked for."""
    least, message = MANY * WAYS[way][0], WAYS[way][1]
    limit = megabytes * 1_000_000
    most = limit + MANY * PIECE
    config = ALL + LONG_TIMEOUTS + f'[limits]\nbuffered = "{megabytes}MB"\nbuffered_per_client = "{megabytes}MB"\n'
    with net.converter(config) as converter, origin(net, silent=way != "unread") as port:
        fresh = converter.resident()
        with ExitStack() as stack:
            clients = [net.connect(GATEWAY, PORTS["http"], source=CLIENT) for _ in range(MANY)]
            for client in clients:
                # An end alone would wait behind what the converter does not read.
                stack.callback(reset, client)
            eventually(lambda: converter.status()["open_connections"] == MANY)
            idle = converter.resident()
            for client in clients:
                client.setblocking(False)
            flood(clients, message(port))
            asked_for = min(limit, least) * 0.9
            # A busy machine may need seconds to begin. Who is refused holds nothing any more.
            eventually(lambda: status(converter) >= asked_for or any(map(refused, clients)), 60)
            if way == "tunnelled":
                eventually(lambda: all(map(told, clients)), 60)
            held, resident = settled(converter)
            told_503 = sum(map(refused, clients))
            figures = f"{way} {limit=} {held=} {fresh=} {idle=} {resident=} {told_503=}"
            print(figures)
            record_property("figures", figures)
            assert held <= most, figures
            assert told_503 or held >= asked_for, figures
            assert resident - fresh <= most * (1 + GAPS) + MANY * OVERHEAD, figures
            if held >= limit:
                assert net.hears("absolute", SERVER, port) in ("503", "reset"), figures
            else:
                assert told_503 or least < limit, figures
        eventually(lambda: status(converter) == 0)
        converter.wait_until_idle(20)
        print(f"released: {converter.resident()=}")


def settled(converter: Converter) -> tuple[int, int]:
    """What is held, and the greatest size of the process, once nothing moves any more."""
    held, most = -1, 0
    while held != (held := status(converter)):
        most = max(most, converter.resident())
        time.sleep(0.5)
    return held, most
