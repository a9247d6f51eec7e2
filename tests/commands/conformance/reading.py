"""The reference converter's parser (RFC 8803 sections 6.1 and 6.2). It shares nothing with the suite's."""

import socket
from dataclasses import dataclass, field
from ipaddress import IPv6Address

INFO, CONNECT, COOKIE = 1, 10, 22
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


class Reader:
    """Reads messages. Each demand of the RFC is a method, so that a subclass can get exactly one of them wrong."""

    version = 1
    magic = 0x2263

    def read(self, upstream: socket.socket) -> tuple[Request, bytes]:
        """The message, and what came behind it."""
        came = self.take(upstream, 4)
        self.check_header(came[:4])
        size = came[1] * 4
        came = self.take(upstream, size, came)
        return self.parse(came[:size]), came[size:]

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
        raise Refused(2, self.echo(request))

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
