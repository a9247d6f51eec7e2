"""What clients of the native converter send, for each way to be served, and what they hear."""

import ipaddress
import socket
import struct
from contextlib import suppress
from itertools import cycle

import pytest

from tests.netns.connections import MPTCP, TCP, Refused, take, take_head

KINDS = ("connect", "absolute", "socks5", "convert", "tproxy", "redirect")
TUNNELS = tuple(kind for kind in KINDS if kind != "absolute")
TRANSPARENT = ("tproxy", "redirect")
ALL_KINDS = pytest.mark.parametrize("kind", KINDS)
ALL_TUNNELS = pytest.mark.parametrize("kind", TUNNELS)
NAMED_KINDS = pytest.mark.parametrize("kind", ["connect", "absolute", "socks5"])
"""Those that can ask for a name."""
TUNNELS_IN_TURN = pytest.mark.parametrize(("kind", "protocol"), [*zip(TUNNELS, cycle((TCP, MPTCP)), strict=False)])
"""Each once: one relay serves all of them, whatever the client speaks."""
PROTOCOLS = pytest.mark.parametrize("protocol", [TCP, MPTCP], ids=["tcp", "mptcp"])
LISTENER = {"connect": "http", "absolute": "http"} | {kind: kind for kind in KINDS[2:]}


def by_kind(http: str, socks: str, convert: str) -> dict[str, str]:
    """What a client of each kind hears; one of a transparent listener can be reset only."""
    return dict(zip(KINDS, (http, http, socks, convert, "reset", "reset"), strict=True))


FORBIDDEN = by_kind("403", "socks 2", "convert 32")
NO_CLIENT = FORBIDDEN | {"socks5": "socks method 0xff"}
FULL = by_kind("503", "socks method 0xff", "convert 64")
EXHAUSTED = by_kind("503", "socks 1", "convert 64")
REFUSED = by_kind("502", "socks 5", "convert 96")
TIMED_OUT = by_kind("504", "socks 4", "convert 65")

VERSION, MAGIC = 1, 0x2263  # RFC 8803 section 6.1
_CONNECT, _ERROR = 10, 30  # RFC 8803 section 6.2.1


def is_address(host: str) -> bool:
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


def convert_message(*tlvs: bytes) -> bytes:
    """A message of RFC 8803 section 6.1."""
    body = b"".join(tlvs)
    return struct.pack("!BBH", VERSION, 1 + len(body) // 4, MAGIC) + body


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


def ask(connection: socket.socket, kind: str, host: str, port: int, early: bytes = b"") -> None:
    """Ask by a connection to the converter for the server at ``host`` and ``port``; raises Refused.

    ``early`` goes out behind the request, before its answer came.
    """
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
