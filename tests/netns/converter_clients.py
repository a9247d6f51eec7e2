"""Clients of the native converter, one for each way to be served, and what a refused one hears."""

import errno
import ipaddress
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle

import pytest

from tests.netns.converter_world import CLIENT, CLIENT6, GATEWAY, GATEWAY6, MPTCP, PORTS, SERVER, TCP, World
from tests.netns.world import eventually

KINDS = ("connect", "absolute", "socks5", "convert", "tproxy", "redirect")
TUNNELS = tuple(kind for kind in KINDS if kind != "absolute")
TRANSPARENT = ("tproxy", "redirect")
ALL_KINDS = pytest.mark.parametrize("kind", KINDS)
ALL_TUNNELS = pytest.mark.parametrize("kind", TUNNELS)
TUNNELS_IN_TURN = pytest.mark.parametrize(("kind", "protocol"), [*zip(TUNNELS, cycle((TCP, MPTCP)), strict=False)])
"""Each once: one relay serves all of them, whatever the client speaks."""
PROTOCOLS = pytest.mark.parametrize("protocol", [TCP, MPTCP], ids=["tcp", "mptcp"])
LISTENER = {"connect": "http", "absolute": "http"} | {kind: kind for kind in KINDS[2:]}

# What the client of each kind hears when its target is not allowed, or when it is no client.
FORBIDDEN = dict(zip(KINDS, ("403", "403", "socks 2", "convert 32", "reset", "reset"), strict=True))

VERSION, MAGIC = 1, 0x2263  # RFC 8803 section 6.1
_CONNECT, _ERROR = 10, 30  # RFC 8803 section 6.2.1


class Refused(ConnectionError):
    """``args[0]`` is what the client heard: such as ``403``, ``socks 2``, ``convert 32``; ``reset``, ``silence``."""


def is_address(host: str) -> bool:
    """Whether it is an address, and no name."""
    with suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False


def is_no_peer(host: str) -> bool:
    """Whether no other host can have this address: unspecified, loopback, multicast or broadcast."""
    address = ipaddress.ip_address(host.removeprefix("::ffff:") if "." in host and ":0:" not in host else host)
    odd = address.is_unspecified or address.is_multicast or address.is_loopback
    return odd or host == "255.255.255.255"


def authority(host: str, port: int) -> bytes:
    """As in a URI (RFC 3986 section 3.2)."""
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()


def convert_message(*tlvs: bytes, version: int = VERSION, magic: int = MAGIC, length: int | None = None) -> bytes:
    """A message of RFC 8803 section 6.1; ``length`` is its true length in 32-bit words unless given."""
    body = b"".join(tlvs)
    words = 1 + len(body) // 4 if length is None else length
    return struct.pack("!BBH", version, words, magic) + body


def convert_connect(host: str, port: int) -> bytes:
    """A Connect TLV (RFC 8803 section 6.2.4)."""
    address = ipaddress.ip_address(host)
    six = address.packed if address.version == 6 else bytes(10) + b"\xff\xff" + address.packed
    return struct.pack("!BBH", _CONNECT, 5, port) + six


def socks_request(host: str, port: int) -> bytes:
    """RFC 1928 section 4."""
    if is_address(host):
        address = ipaddress.ip_address(host)
        target = bytes([1 if address.version == 4 else 4]) + address.packed
    else:
        target = bytes([3, len(host)]) + host.encode()
    return b"\5\1\0" + target + port.to_bytes(2, "big")


def take(connection: socket.socket, count: int) -> bytes:
    """Exactly ``count`` bytes; raises Refused if they do not come."""
    data = b""
    while len(data) < count:
        data += _more(connection, count - len(data))
    return data


def take_head(connection: socket.socket) -> bytes:
    """An HTTP head, and not a byte more."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += _more(connection, 1)
    return head


def _more(connection: socket.socket, most: int) -> bytes:
    try:
        data = connection.recv(most)
    except ConnectionError as error:
        raise Refused("reset") from error
    except TimeoutError as error:
        raise Refused("silence") from error
    if not data:
        raise Refused("closed")
    return data


def read_all(connection: socket.socket, seconds: float = 10) -> tuple[bytes, str]:
    """What comes until the end, and what the end is: ``closed``, ``reset``, or ``silence`` after ``seconds``."""
    data, deadline = bytearray(), time.monotonic() + seconds
    try:
        while True:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            more = connection.recv(1 << 18)
            if not more:
                return bytes(data), "closed"
            data += more
    except TimeoutError:
        return bytes(data), "silence"
    except ConnectionError:
        return bytes(data), "reset"


def proxy(world: World, kind: str, protocol: int = TCP, version: int = 4, source: str = "") -> socket.socket:
    """A connection to the listener of ``kind`` that a client talks to knowingly."""
    host = GATEWAY if version == 4 else GATEWAY6
    return world.connect(host, PORTS[LISTENER[kind]], protocol, source or (CLIENT if version == 4 else CLIENT6))


def opened(
    world: World,
    kind: str,
    host: str,
    port: int,
    protocol: int = TCP,
    early: bytes = b"",
    version: int = 4,
    source: str = "",
) -> socket.socket:
    """A connection through the converter on which the server at ``host`` and ``port`` hears what is sent.

    With ``absolute`` only requests in absolute-form do. ``early`` goes out behind the request, before its answer came.
    ``version`` is IP's on the way to the converter. Raises Refused; a transparent converter can refuse later only.
    """
    if kind in TRANSPARENT:
        world.intercept(kind)
        connection = world.connect(host, port, protocol, source or (CLIENT6 if ":" in host else CLIENT))
        connection.sendall(early)
        return connection
    connection = proxy(world, kind, protocol, version, source)
    try:
        _ask(connection, kind, host, port, early)
    except BaseException:
        connection.close()
        raise
    return connection


def _ask(connection: socket.socket, kind: str, host: str, port: int, early: bytes) -> None:
    if kind == "connect":
        at = authority(host, port)
        connection.sendall(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n%s" % (at, at, early))
        status = take_head(connection).split()[1].decode()
        if status != "200":
            raise Refused(status)
    elif kind == "socks5":
        connection.sendall(b"\5\1\0" + socks_request(host, port) + early)
        if (method := take(connection, 2)[1]) != 0:
            raise Refused(f"socks method {method:#x}")
        _, code, _, kind_of_address = take(connection, 4)
        take(connection, 6 if kind_of_address == 1 else 18)
        if code != 0:
            raise Refused(f"socks {code}")
    elif kind == "convert":
        connection.sendall(convert_message(convert_connect(host, port)) + early)
        convert_reply(connection)
    elif early:
        connection.sendall(early)


def convert_reply(connection: socket.socket) -> bytes:
    """The TLVs of a Convert message; raises Refused if there is an Error TLV among them."""
    _, words, magic = struct.unpack("!BBH", take(connection, 4))
    assert magic == MAGIC
    body = rest = take(connection, words * 4 - 4)
    while rest:
        if rest[0] == _ERROR:
            raise Refused(f"convert {rest[2]}")
        rest = rest[rest[1] * 4 :]
    return body


def request(kind: str, host: str, port: int, path: str = "/", method: str = "GET", fields: str = "") -> bytes:
    """The head of an HTTP request as it is sent by a client of this kind."""
    at = authority(host, port).decode()
    target = f"http://{at}{path}" if kind == "absolute" else path
    return f"{method} {target} HTTP/1.1\r\nHost: {at}\r\n{fields}\r\n".encode()


def get(world: World, kind: str, port: int, path: str = "/", host: str = SERVER, protocol: int = TCP) -> socket.socket:
    """A connection on which a GET was sent, through the converter."""
    connection = opened(world, kind, host, port, protocol)
    connection.sendall(request(kind, host, port, path))
    return connection


def hears(world: World, kind: str, host: str, port: int, protocol: int = TCP, source: str = "") -> str:
    """What a client hears that asks for ``host`` and ``port``: as in Refused, or what the server says first."""
    try:
        version = 6 if ":" in source else 4
        with opened(world, kind, host, port, protocol, version=version, source=source) as connection:
            if kind == "absolute":
                connection.sendall(request(kind, host, port))
                return take_head(connection).split()[1].decode()
            return _more(connection, 100).decode()
    except Refused as refused:
        return str(refused.args[0])
    except ConnectionError:
        return "reset"


def nobody_listens(world: World, port: int) -> bool:
    """Whether the gateway refuses connections to this port."""
    try:
        # From there, since what clients send to other ports may be intercepted.
        world.connect(GATEWAY, port, MPTCP, node=world.gateway).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        # It was still in the queue when the listener was closed.
        return False
    return False


ENDLESS = 1 << 40  # bytes, for lengths that are never reached


@contextmanager
def joined(
    world: World, kind: str, protocol: int = TCP, way: str = "down"
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client's and a server's end of one connection through the converter.

    With ``absolute`` an endless response is on its ``way`` down, or an endless request on its way up.
    """
    with world.serving(hold) as service, opened(world, kind, SERVER, service.port, protocol) as client:
        if kind == "absolute" and way == "up":
            client.sendall(request(kind, SERVER, service.port, "/", "POST", f"Content-Length: {ENDLESS}\r\n"))
        elif kind == "absolute":
            client.sendall(request(kind, SERVER, service.port))
        eventually(lambda: service.connections)
        server = service.connections[0]
        if kind == "absolute":
            take_head(server)
        if kind == "absolute" and way == "down":
            server.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {ENDLESS}\r\n\r\n".encode())
            take_head(client)
        try:
            yield client, server
        finally:
            server.close()


def hold(connection: socket.socket) -> None:
    """A service whose connections are the test's; ends when the test has closed them."""
    while connection.fileno() >= 0:
        time.sleep(0.05)


def clog(writer: socket.socket, quiet: float = 0.15) -> int:
    """Write until nothing more is taken for ``quiet`` seconds; returns how many bytes were."""
    writer.setblocking(False)
    block, count, last = bytes(1 << 16), 0, time.monotonic()
    while time.monotonic() - last < quiet:
        try:
            count += writer.send(block)
            last = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
    writer.settimeout(10)
    return count


def reset(connection: socket.socket) -> None:
    """Break the connection off."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def seconds_to_reset(connection: socket.socket, most: float = 3) -> float:
    """How long it takes until the peer's reset is here, whatever waits to be read before it."""
    start, poll = time.monotonic(), select.poll()
    poll.register(connection, 0)
    assert poll.poll(most * 1000), f"no reset within {most} s"
    error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    assert error in (errno.ECONNRESET, errno.EPIPE), f"ended by {errno.errorcode.get(error, error)}"
    return time.monotonic() - start
