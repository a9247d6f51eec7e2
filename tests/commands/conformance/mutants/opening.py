import select
import socket
from collections.abc import Callable

from tests.commands.conformance.mutants.mutant import ANY, mutant, simple
from tests.commands.conformance.reading import Refused, Request
from tests.commands.conformance.reference import Converter


@mutant("connect-ipv4", "destination-unreachable", whole=True, ipv6_first=True)
class NoIPv4(Converter):
    def check_address(self, request: Request) -> None:
        super().check_address(request)
        if request.address and request.address.ipv4_mapped:
            raise Refused(32)


@mutant("connect-ipv6", whole=True)
class NoIPv6(Converter):
    def check_address(self, request: Request) -> None:
        super().check_address(request)
        if request.address and not request.address.ipv4_mapped:
            raise Refused(32)


def _changes_reply(name: str, change: Callable[[bytes], bytes]) -> None:
    def message(self: Converter, *tlvs: tuple[int, bytes]) -> bytes:
        made = Converter.message(self, *tlvs)
        return made if tlvs else change(made)

    simple(name, "reply-header", "reply-framing", may_fail=ANY, message=message)


_changes_reply("WrongMagicInReplies", lambda made: made[:2] + b"\x63\x22")
_changes_reply("WrongVersionInReplies", lambda made: b"\x00" + made[1:])
simple(
    "WrongTotalLength",
    "reply-framing",
    may_fail=ANY,
    words=lambda self, body: Converter.words(self, body) + (0 if body else 1),
)


@mutant("reply-framing")
class UnaskedListOfExtensions(Converter):
    def reply(self, request: Request, downstream: socket.socket | None) -> bytes:
        request.info = request.info or request.options is None
        return super().reply(request, downstream)


@mutant(
    "reply-waits-for-server", "connection-reset", "refused-port-is-tried-again", "destination-unreachable",
    # A client's reset can come before the relay has begun, and then ends the server's connection in order.
    may_fail=frozenset({"reset-by-server", "reset-by-client"}),
)  # fmt: skip
class RepliesTooEarly(Converter):
    def open(self, upstream: socket.socket, request: Request, data: bytes) -> socket.socket | None:
        if request.address is None or request.options is not None:
            return super().open(upstream, request, data)
        self.authorize(request, upstream.getpeername()[0])
        self.check_address(request)
        upstream.sendall(super().reply(request, None))
        return self.dial(request, data)

    def reply(self, request: Request, downstream: socket.socket | None) -> bytes:
        early = request.address is not None and request.options is None
        return b"" if early else super().reply(request, downstream)


@mutant("waits-for-whole-message")
class RepliesToPartOfMessage(Converter):
    early = False

    def take(self, upstream: socket.socket, size: int, came: bytes = b"") -> bytes:
        if size > 8 and len(came) == size - 1 and not select.select([upstream], [], [], 0.02)[0]:
            upstream.sendall(self.message())
        return super().take(upstream, size, came)


@mutant("one-downstream-connection", may_fail=ANY)
class TwoDownstreamConnections(Converter):
    def dial(self, request: Request, data: bytes) -> socket.socket:
        made = super().dial(request, data)
        if request.options is None:
            self.spare = socket.create_connection(made.getpeername()[:2])
        return made


@mutant("connections-do-not-mix", may_fail=frozenset({"split-at-every-byte", "valid-cookie"}))
class MixesFourthConnection(Converter):
    open_ones: list[socket.socket]

    def relay(self, upstream: socket.socket, downstream: socket.socket, data: bytes) -> None:
        ends = self.__dict__.setdefault("open_ones", [])
        ends.append(downstream)
        try:
            super().relay(upstream, ends[0] if len(ends) > 3 else downstream, data)
        finally:
            ends.remove(downstream)


@mutant("one-source-address")
class AlternatesSourceAddresses(Converter):
    def prepare(self, downstream: socket.socket, request: Request) -> None:
        super().prepare(downstream, request)
        if (downstream.family == socket.AF_INET and not self.world.mptcp) or (
            downstream.family == socket.AF_INET and request.options is None
        ):
            downstream.bind((self.world.sources[self.served % 2], 0))


@mutant("upstream-is-multipath", whole=True)
class PlainTCPListener(Converter):
    def listener(self) -> socket.socket:
        listener = socket.socket()
        self.take_syn_data(listener)
        listener.bind((self.world.listen, 0))
        listener.listen(64)
        return listener


@mutant("connect-in-syn", whole=True)
class LosesDataInSYN(Converter):
    def read(self, upstream: socket.socket) -> tuple[Request, bytes]:
        request, data = super().read(upstream)
        in_syn = upstream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[5] & 32
        return request, b"" if in_syn else data


simple("TakesNoDataInSYN", "syn-data-acknowledged", whole=True, take_syn_data=lambda *_: None)
