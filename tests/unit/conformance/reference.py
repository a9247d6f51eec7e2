"""A small Transport Converter that does what RFC 8803 asks: the suite's checks all pass on it.

Every decision is a method of its own, so that a subclass can get exactly one of them wrong. It makes the returned TCP
header from tcp_info instead of copying it, which no check can tell from a copy. Its parser shares nothing with the
suite's.
"""

import errno
import hashlib
import hmac
import secrets
import select
import socket
import struct
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from types import TracebackType

MPTCP = 262
TCP_FASTOPEN_NO_COOKIE, TCP_FASTOPEN_CONNECT = 34, 30
RECVERR = {4: (socket.IPPROTO_IP, 11), 6: (socket.IPPROTO_IPV6, 25)}
ICMP_ORIGINS = (2, 3)  # of struct sock_extended_err
INFO, CONNECT, HEADER, SUPPORTED, COOKIE, ERROR = 1, 10, 20, 21, 22, 30
PATIENCE = 5.0  # seconds
BLOCK = 65536


class Refused(Exception):
    """An Error TLV is due."""

    def __init__(self, code: int, value: bytes = b"\0") -> None:
        super().__init__(code, value)
        self.code = code
        self.value = value


class Dropped(Exception):
    """The connection ends without a reply; `reset` says how."""

    def __init__(self, reset: bool) -> None:
        super().__init__(reset)
        self.reset = reset


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


@dataclass
class Request:
    """What a Convert message asks for. `options` is None in a Base Connect."""

    raw: bytes
    info: bool = False
    cookie: bytes | None = None
    address: IPv6Address | None = None
    port: int = 0
    options: list[tuple[int, bytes]] | None = None
    seen: set[int] = field(default_factory=set)

    def asks_for(self, kind: int) -> bytes | None:
        return dict(self.options or []).get(kind)


class Converter:
    """Serves each connection in a thread, until the `with` block ends."""

    version = 1
    magic = 0x2263

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
        upstream.settimeout(PATIENCE)
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

    # Reading (sections 6.1, 6.2)

    def read(self, upstream: socket.socket) -> tuple[Request, bytes]:
        """The message, and what came behind it."""
        came = self.take(upstream, 4)
        self.check_header(came[:4])
        size = self.size(came)
        came = self.take(upstream, size, came)
        return self.parse(came[:size]), came[size:]

    def size(self, came: bytes) -> int:
        return came[1] * 4

    def take(self, upstream: socket.socket, size: int, came: bytes = b"") -> bytes:
        """At least `size` bytes."""
        while len(came) < size:
            more = upstream.recv(BLOCK)
            if not more:
                return self.cut_short(upstream, came)
            came += more
        return came

    def cut_short(self, upstream: socket.socket, came: bytes) -> bytes:  # noqa: ARG002
        raise Dropped(reset=False)

    def check_header(self, head: bytes) -> None:
        if int.from_bytes(head[2:4]) != self.magic:
            self.not_convert(head)
        if head[0] != self.version:
            self.unsupported_version(head)
        if head[1] == 0:
            self.no_length()

    def not_convert(self, head: bytes) -> None:  # noqa: ARG002
        raise Dropped(reset=False)

    def unsupported_version(self, head: bytes) -> None:  # noqa: ARG002
        raise Refused(0, bytes([self.version]))

    def no_length(self) -> None:
        raise Dropped(reset=True)

    def parse(self, raw: bytes) -> Request:
        request = Request(raw)
        rest = raw[4:]
        while rest:
            size = self.tlv_size(request, rest)
            self.tlv(request, rest[0], rest[2:size])
            rest = rest[size:]
        return request

    def tlv_size(self, request: Request, rest: bytes) -> int:
        size = rest[1] * 4
        if size == 0:
            self.length_zero(request)
        if size > len(rest):
            self.past_the_end(request)
        return max(size, 4)

    def length_zero(self, request: Request) -> None:
        raise self.malformed(request)

    def past_the_end(self, request: Request) -> None:
        raise self.malformed(request)

    def malformed(self, request: Request) -> Refused:
        return Refused(1, self.echo(request))

    def unsupported(self, request: Request) -> Refused:
        return Refused(2, self.echo(request))

    def echo(self, request: Request) -> bytes:
        """As much of the message as fits behind the fixed header and the Error TLV's first word (figure 23)."""
        return b"\0" + request.raw[: (255 - 2) * 4]

    def tlv(self, request: Request, kind: int, value: bytes) -> None:
        readers = {INFO: self.info, CONNECT: self.connect, COOKIE: self.cookie}
        if kind not in readers:
            self.unknown(request, kind)
            return
        if kind in request.seen:
            self.duplicate(request, kind)
        request.seen.add(kind)
        readers[kind](request, value)

    def unknown(self, request: Request, kind: int) -> None:  # noqa: ARG002
        raise self.unsupported(request)

    def duplicate(self, request: Request, kind: int) -> None:  # noqa: ARG002
        raise self.malformed(request)

    def info(self, request: Request, value: bytes) -> None:
        if len(value) != 2:
            raise self.malformed(request)
        request.info = True

    def connect(self, request: Request, value: bytes) -> None:
        if len(value) < 18:
            self.short_connect(request)
        request.port = int.from_bytes(value[:2])
        request.address = IPv6Address(value[2:18].ljust(16, b"\0"))
        if value[18:]:
            request.options = self.options(request, value[18:])

    def short_connect(self, request: Request) -> None:
        raise self.malformed(request)

    def cookie(self, request: Request, value: bytes) -> None:
        request.cookie = value[2:]

    def options(self, request: Request, rest: bytes) -> list[tuple[int, bytes]]:
        found = []
        while rest:
            if rest[0] in (0, 1):  # section 7.1
                rest = self.single(request, rest)
                continue
            size = rest[1] if len(rest) > 1 else 0
            if size < 2 or size > len(rest):
                size = self.bad_option(request, size, len(rest))
            found.append((rest[0], rest[2:size]))
            rest = rest[size:]
        return found

    def single(self, request: Request, rest: bytes) -> bytes:  # noqa: ARG002
        return rest[1:]

    def bad_option(self, request: Request, size: int, left: int) -> int:  # noqa: ARG002
        raise self.malformed(request)

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
            raise Refused(32)
        if str(address) == self.world.forbidden:
            self.forbid()

    def is_invalid(self, text: str) -> bool:
        address = ip_address(text)
        return address.is_loopback or address.is_multicast or text == "255.255.255.255"

    def forbid(self) -> None:
        raise Refused(32)

    # Connecting (sections 6.2.5, 6.2.8, 7.6)

    def dial(self, request: Request, data: bytes) -> socket.socket:  # noqa: ARG002
        """A connection that stands."""
        assert request.address is not None
        address = request.address.ipv4_mapped or request.address
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        downstream = socket.socket(family, socket.SOCK_STREAM, MPTCP if self.multipath(request) else 0)
        downstream.settimeout(PATIENCE)
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
        self.fast_open(downstream)

    def fast_open(self, downstream: socket.socket) -> None:
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
        padded = value + self.padding(kind, value)
        return bytes([kind, (2 + len(padded)) // 4]) + padded

    def padding(self, kind: int, value: bytes) -> bytes:  # noqa: ARG002
        return bytes(-(2 + len(value)) % 4)

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

    def reset(self, *connections: socket.socket) -> None:
        for connection in connections:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

    # Relaying (section 4.2)

    def relay(self, upstream: socket.socket, downstream: socket.socket, data: bytes) -> None:
        """Until both directions have ended, or one end resets."""
        flows = [Flow(upstream, downstream, data), Flow(downstream, upstream, b"")]
        try:
            while not all(flow.ended for flow in flows):
                self._wait(upstream, downstream, flows)
                for flow in flows:
                    self.move(flow)
        except OSError:
            self.torn(upstream, downstream)

    def torn(self, upstream: socket.socket, downstream: socket.socket) -> None:
        self.reset(upstream, downstream)

    def _wait(self, upstream: socket.socket, downstream: socket.socket, flows: "list[Flow]") -> None:
        watch = select.poll()
        for end in (upstream, downstream):
            end.setblocking(False)
            reads = any(flow.source is end and not flow.data and not flow.ended for flow in flows)
            writes = any(flow.sink is end and flow.data for flow in flows)
            watch.register(end, (select.POLLIN if reads else 0) | (select.POLLOUT if writes else 0))
        for descriptor, event in watch.poll(20_000):
            end = upstream if descriptor == upstream.fileno() else downstream
            if event & select.POLLERR or (
                event & select.POLLHUP and end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            ):
                raise ConnectionResetError

    def move(self, flow: "Flow") -> None:
        with suppress(BlockingIOError):
            if flow.data:
                flow.data = flow.data[flow.sink.send(flow.data) :]
            elif not flow.ended:
                flow.data = flow.source.recv(BLOCK)
                if not flow.data:
                    flow.ended = True
                    self.half_close(flow)

    def half_close(self, flow: "Flow") -> None:
        flow.sink.shutdown(socket.SHUT_WR)


@dataclass
class Flow:
    """One direction of a relayed connection."""

    source: socket.socket
    sink: socket.socket
    data: bytes
    ended: bool = False


def is_multipath(connection: socket.socket) -> bool:
    try:
        return not int(struct.unpack_from("I", connection.getsockopt(284, 1, 48), 8)[0]) & 1
    except OSError:
        return False
