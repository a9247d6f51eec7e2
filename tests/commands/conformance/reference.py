"""A small Transport Converter that does what RFC 8803 asks: the suite's checks all pass on it.

Every decision is a method of its own, so that a subclass can get exactly one of them wrong. It makes the returned TCP
header from tcp_info instead of copying it, which no check can tell from a copy.
"""

import errno
import hashlib
import hmac
import secrets
import socket
import struct
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from types import TracebackType

from tests.commands.conformance.reading import BLOCK, Dropped, Reader, Refused, Request
from tests.commands.conformance.relaying import Relay

MPTCP = 262
TCP_FASTOPEN_NO_COOKIE, TCP_FASTOPEN_CONNECT = 34, 30
RECVERR = {4: (socket.IPPROTO_IP, 11), 6: (socket.IPPROTO_IPV6, 25)}
ICMP_ORIGINS = (2, 3)  # of struct sock_extended_err
HEADER, SUPPORTED, ERROR = 20, 21, 30
TIMEOUT = 5.0  # seconds


@dataclass(frozen=True)
class World:
    """Where a converter stands. `loopback`: loopback addresses that it may connect to all the same."""

    listen: str = "127.0.0.1"
    loopback: tuple[str, ...] = ()
    forbidden: str = "192.0.2.1"
    cookies: bool = False
    mptcp: bool = False
    sources: tuple[str, ...] = ()  # of the downstream connections, for who gets REQ-2 wrong
    kinds: tuple[int, ...] = (4, 8, 34)


class Converter(Reader, Relay):
    """Serves each connection in a thread, until the `with` block ends."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.secret = secrets.token_bytes(16)
        self.served = 0
        self._listener = self.listener()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> "Converter":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def listener(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.world.listen else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM, MPTCP if self.world.mptcp else 0)
        self.take_syn_data(listener)
        listener.bind((self.world.listen, 0))
        listener.listen(64)
        return listener

    def take_syn_data(self, listener: socket.socket) -> None:
        """Appendix A.2."""
        with suppress(OSError):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 64)
            listener.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, 1)

    def _accept(self) -> None:
        while True:
            try:
                upstream, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_quietly, args=(upstream,), daemon=True).start()

    def _serve_quietly(self, upstream: socket.socket) -> None:
        with upstream, suppress(OSError):
            self.serve(upstream)

    def serve(self, upstream: socket.socket) -> None:
        upstream.settimeout(TIMEOUT)
        self.served += 1
        try:
            request, data = self.read(upstream)
            downstream = self.open(upstream, request, data)
        except Refused as refused:
            self.refuse(upstream, refused)
        except Dropped as dropped:
            if dropped.reset:
                self.reset(upstream)
        else:
            if downstream is not None:
                with downstream:
                    upstream.sendall(self.reply(request, downstream))
                    self.relay(upstream, downstream, self.data_behind(data))

    def open(self, upstream: socket.socket, request: Request, data: bytes) -> socket.socket | None:
        """The downstream connection, or None once a message without a Connect is answered."""
        self.authorize(request, upstream.getpeername()[0])
        if request.address is None:
            upstream.sendall(self.reply(request, None))
            return None
        self.check_options(request)
        self.check_address(request)
        return self.dial(request, data)

    # Deciding (sections 6.2.5, 6.2.7, 7)

    def authorize(self, request: Request, client: str) -> None:
        if not self.world.cookies:
            return
        if request.cookie is None:
            raise self.missing_cookie(client)
        if not self.is_valid(request.cookie, client):
            raise self.wrong_cookie()

    def missing_cookie(self, client: str) -> Refused:
        return Refused(3, b"\0" + self.cookie_for(client))

    def wrong_cookie(self) -> Refused:
        return Refused(32)

    def cookie_for(self, client: str) -> bytes:
        return hmac.digest(self.secret, client.encode(), hashlib.sha256)[:16]

    def is_valid(self, cookie: bytes, client: str) -> bool:
        return hmac.compare_digest(cookie, self.cookie_for(client))

    ignored: tuple[int, ...] = (2, 3, 5)

    def check_options(self, request: Request) -> None:
        wrong = [kind for kind, _ in request.options or [] if kind not in (*self.announced(), *self.ignored)]
        if wrong:
            self.unsupported_options(wrong)

    def unsupported_options(self, kinds: list[int]) -> None:
        raise Refused(33, bytes(kinds))

    def announced(self) -> tuple[int, ...]:
        return (30, *self.world.kinds) if self.world.mptcp else self.world.kinds

    def check_address(self, request: Request) -> None:
        assert request.address is not None
        address = request.address.ipv4_mapped or request.address
        if str(address) in self.world.loopback:
            return
        if self.is_invalid(str(address)):
            raise self.malformed(request)
        if address.is_unspecified:
            self.unspecified()
        if str(address) == self.world.forbidden:
            self.forbid()

    def is_invalid(self, text: str) -> bool:
        address = ip_address(text)
        return address.is_loopback or address.is_multicast or text == "255.255.255.255"

    def unspecified(self) -> None:
        raise Refused(32)

    def forbid(self) -> None:
        raise Refused(32)

    # Connecting (sections 6.2.5, 6.2.8, 7.6)

    def dial(self, request: Request, data: bytes) -> socket.socket:  # noqa: ARG002
        """A connection that stands."""
        assert request.address is not None
        address = request.address.ipv4_mapped or request.address
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        downstream = socket.socket(family, socket.SOCK_STREAM, MPTCP if self.multipath(request) else 0)
        downstream.settimeout(TIMEOUT)
        with suppress(OSError):  # not on an MPTCP socket
            downstream.setsockopt(*RECVERR[address.version], 1)
        self.prepare(downstream, request)
        try:
            downstream.connect((str(address), request.port))
        except OSError as error:
            with downstream:
                raise self.why(downstream, error) from None
        return downstream

    def multipath(self, request: Request) -> bool:
        return request.asks_for(30) is not None

    def prepare(self, downstream: socket.socket, request: Request) -> None:
        cookie = request.asks_for(34)
        if cookie is None:
            return
        if not cookie:
            subprocess.run(["ip", "tcp_metrics", "flush"], capture_output=True, check=False)
        # With the server's cookie in the kernel's memory, connect() is put off until there are data to send with it.
        downstream.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)

    def why(self, downstream: socket.socket, error: OSError) -> Refused:
        code = self.icmp_code(downstream)
        if code is not None:
            return self.unreachable(code)
        return self.reset_by_server() if error.errno == errno.ECONNREFUSED else Refused(65)

    def reset_by_server(self) -> Refused:
        return Refused(96)

    def unreachable(self, code: int) -> Refused:
        return Refused(97, bytes([code]))

    def icmp_code(self, downstream: socket.socket) -> int | None:
        """The code of the ICMP error that ended the attempt, if one did: struct sock_extended_err."""
        downstream.setblocking(False)
        try:
            _, ancillary, _, _ = downstream.recvmsg(512, 512, socket.MSG_ERRQUEUE)
        except OSError:
            return None
        for _, _, cause in ancillary:
            if cause[4] in ICMP_ORIGINS:
                return int(cause[6])
        return None

    # Answering (sections 6.2.4, 6.2.6, 6.2.8)

    def message(self, *tlvs: tuple[int, bytes]) -> bytes:
        body = b"".join(self.encode(kind, value) for kind, value in tlvs)
        return struct.pack("!BBH", self.version, self.words(body), self.magic) + body

    def words(self, body: bytes) -> int:
        return 1 + len(body) // 4

    def encode(self, kind: int, value: bytes) -> bytes:
        padded = value + bytes(-(2 + len(value)) % 4)
        return bytes([kind, (2 + len(padded)) // 4]) + padded

    def reply(self, request: Request, downstream: socket.socket | None) -> bytes:
        tlvs: list[tuple[int, bytes]] = []
        if request.info:
            tlvs.append((SUPPORTED, self.supported()))
        if downstream is not None and request.options is not None:
            tlvs.append((HEADER, self.returned(request, downstream)))
        return self.message(*tlvs)

    def supported(self) -> bytes:
        return bytes(2) + bytes(self.announced())

    def returned(self, request: Request, downstream: socket.socket) -> bytes:
        return bytes(2) + self.syn_ack(request, downstream)

    def syn_ack(self, request: Request, downstream: socket.socket) -> bytes:
        """The options of the SYN+ACK, as tcp_info has them."""
        if request.asks_for(34):
            self.finish_fast_open(downstream)
        facts = downstream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        agreed, scale, segment = facts[5], facts[6] & 15, struct.unpack_from("I", facts, 16)[0]
        stamp = 12 if agreed & 1 else 0
        options = struct.pack("!BBH", 2, 4, segment + stamp)
        options += b"\x04\x02" if agreed & 2 else b""
        options += b"\x08\x0a" + bytes(8) if agreed & 1 else b""
        options += bytes([1, 3, 3, scale]) if agreed & 4 else b""
        if request.asks_for(34) == b"":
            cookie = self.cached_cookie(downstream.getpeername()[0])
            options += bytes([34, 2 + len(cookie)]) + cookie if cookie else b""
        if self.multipath(request) and is_multipath(downstream):
            options += bytes([30, 12, 1, 0x81]) + secrets.token_bytes(8)
        return options

    def finish_fast_open(self, downstream: socket.socket) -> None:
        """Lets the put-off SYN go, with the cookie: the suite sends four bytes of data behind its message."""
        downstream.sendall(b"data")

    def data_behind(self, data: bytes) -> bytes:
        return data

    def cached_cookie(self, server: str) -> bytes:
        shown = subprocess.run(["ip", "tcp_metrics", "show", server], capture_output=True, text=True, check=False)
        words = shown.stdout.split()
        return bytes.fromhex(words[words.index("fo_cookie") + 1]) if "fo_cookie" in words else b""

    def refuse(self, upstream: socket.socket, refused: Refused) -> None:
        """Section 6.2.2: the error, then a FIN; no reset, so what the client still sends is read."""
        upstream.sendall(self.message((ERROR, bytes([refused.code]) + refused.value)))
        self.linger(upstream)

    def linger(self, upstream: socket.socket) -> None:
        upstream.shutdown(socket.SHUT_WR)
        while upstream.recv(BLOCK):
            pass


def is_multipath(connection: socket.socket) -> bool:
    try:
        return not int(struct.unpack_from("I", connection.getsockopt(284, 1, 48), 8)[0]) & 1
    except OSError:
        return False
